"""Collecting: the boundary, pins, shared objects, orphans (SPEC.md sections 8.12 and 11.14)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from authoring.drafts import Draft, worked
from authoring.lines import forget, line, of, orphan, snapshot_of, spans
from authoring.states import small_model, trained
from authoring.stream import Json, Stream
from deltawire.format.keys import anchor_key, version_key
from deltawire_conformance.case import Collect

AREA = "collecting"


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _boundary()
    yield from _pins()
    yield from _objects()
    yield from _left_behind()
    yield from _refused()


def _collected(
    name: str, title: str, requirements: Sequence[str], stream: Stream, boundary: int | None, *, last: int = 1,
    gone: Sequence[str] = (), stays: Sequence[str] = (), tidy: bool = True, allowed: Sequence[str] = (),
    collect: Sequence[Collect] = (), states: Sequence[int] | None = None, **judged: Any,
) -> Draft:  # fmt: skip
    newest = len(stream.states) - 1
    calls = collect or (Collect(options=keeping(last), boundary=boundary, or_error=tuple(allowed)),)
    return worked(
        AREA,
        name,
        title,
        requirements,
        stream,
        *calls,
        states=range(boundary or 0, newest + 1) if states is None else states,
        features=("collect",),
        judged={
            "newest": newest if stream.states else None,
            "absent": tuple(gone),
            "unchanged": ("stream.json", "head.json", *stays),
            "added": ("retention.json",),
            "tidy": tidy,
        }
        | judged,
    )


def keeping(last: int) -> Json:
    """Options of a maintainer that is the only one, as it must be where the store cannot swap (RET-5)."""
    return {"keep_last": last, "single_maintainer": True}


def _moved(boundary: int, **members: Any) -> Json:
    return {"members": {"retention.json": {"kind": "retention", "epoch": 0, "boundary": boundary} | members}}


def _boundary() -> Iterator[Draft]:
    yield _collected(
        "keep-last", "the boundary moves to the newest snapshot before the versions that are kept",
        ["COL-2", "RET-2", "COL-5"], line(), 4, last=2,
        gone=[*snapshot_of(0), *of(1, 2, 3)], stays=of(4, 5, 6),
        **_moved(4), lacking={"retention.json": ("kept",)},
    )  # fmt: skip
    yield _collected(
        "keep-all", "a policy that wants more versions than there are", ["COL-2"], line(versions=3, anchors=[1]), 0,
        last=9, stays=["*"],
    )  # fmt: skip
    yield _collected(
        "twice", "the boundary moves twice, by create and by replacing", ["RET-5", "COL-3"],
        line(), 4, gone=[*snapshot_of(0), *of(1, 2, 3)], stays=of(4, 5, 6), **_moved(4),
        collect=[Collect(options=keeping(4), boundary=2), Collect(options=keeping(1), boundary=4)],
    )  # fmt: skip
    stream = line()
    stream.retention(4)
    yield _collected(
        "boundary-stays", "a boundary above what the policy wants, and records below it that are still there",
        ["RET-1", "COL-8"], stream, 4, last=7, gone=[*snapshot_of(0), *of(1, 2, 3)], stays=of(4, 5, 6), **_moved(4),
    )  # fmt: skip
    stream = line()
    stream.retention(2, edit=lambda record: record.update(x_note={"why": ["space"]}))
    yield _collected(
        "unknown-members", "retention.json has a member that is not of this version", ["VER-5"], stream, 4,
        **_moved(4, x_note={"why": ["space"]}),
    )  # fmt: skip
    stream = line()
    forget(stream, *(key for key in stream.objects if key.startswith("data/00000000000000000004-") and "model-" in key))
    yield _collected(
        "snapshot-with-a-hole", "the shard of an anchor is missing, so that the boundary stays before it",
        ["RET-2", "COL-2"], stream, 2, gone=[*snapshot_of(0), *of(1)], stays=of(2, 3, 4, 5, 6), **_moved(2),
        findings=("missing_object",),
    )  # fmt: skip
    changed = line(versions=3, anchors=[])
    model = small_model(seed="wider")
    changed.rebase(model)
    changed.delta(trained(model, 4))
    changed.head(4)
    yield _collected(
        "new-table", "the boundary moves to a rebase with a new tensor table, and the old table goes",
        ["COL-5", "TAB-1"], changed, 3, gone=of(0, 1, 2), stays=of(3, 4), **_moved(3),
    )  # fmt: skip
    stream = line(anchors=[2, 4, 6])
    stream.retention(4, 0, 2)
    forget(stream, *(pattern.rstrip("*") for pattern in of(1, 3)))
    stream.pin(2, last=2)
    yield _collected(
        "kept-and-pinned", "of two versions kept below the boundary one is pinned", ["COL-2", "RET-1"], stream, 6,
        gone=[*snapshot_of(0), *of(4, 5)], stays=[*of(2, 6), "leases/*"], states=[2, 6], **_moved(6, kept=[2]),
    )  # fmt: skip


def _pins() -> Iterator[Draft]:
    stream = line()
    stream.pin(3)
    yield _collected(
        "pin-holds-back", "a reader has pinned a version without a snapshot of its own", ["PIN-1", "COL-2"], stream, 2,
        gone=[*snapshot_of(0), *of(1)], stays=[*of(2, 3, 4, 5, 6), "leases/*"], **_moved(2),
    )  # fmt: skip
    stream = line(spans=[(0, 2), (1, 3)])
    stream.retention(2)
    stream.pin(1)
    yield _collected(
        "pin-below-the-boundary", "a reader still pins a version that the boundary has passed, and all after it",
        ["COL-4", "COL-6"], stream, 2,
        gone=[*snapshot_of(0), *spans((0, 2))],
        stays=[*of(1, 3, 4, 5, 6), version_key(2), anchor_key(2), *spans((1, 3)), "leases/*"], **_moved(2),
    )  # fmt: skip
    stream = line()
    stream.retention(2)
    stream.pin(0, last=1)
    left = orphan(stream, 1)
    yield _collected(
        "pin-of-the-past", "a pin whose range ends below the boundary does not hold the boundary",
        ["COL-2", "COL-4", "COL-7"], stream, 4,
        gone=of(2, 3), stays=[*of(0, 1, 4, 5, 6), left, "leases/*"], tidy=False, **_moved(4),
    )  # fmt: skip
    stream = line()
    stream.pin(0, released=True)
    yield _collected(
        "released-pin", "a pin that its reader has given up", ["PIN-1", "COL-4"], stream, 4,
        gone=[*snapshot_of(0), *of(1, 2, 3)], stays=of(4, 5, 6), **_moved(4),
    )  # fmt: skip
    kinds: dict[str, tuple[str, Json]] = {
        "pin-cut-short": ("a pin that is no JSON", {"raw": lambda data: data[:100]}),
        "pin-of-a-later-time": (
            "a pin with a reader feature that nobody knows",
            {"edit": lambda record: record.update(reader_features=["novel"], writer_features=["novel"])},
        ),
        "pin-backwards": ("a pin whose range ends before it begins", {"edit": lambda record: record.update(last=3)}),
    }
    for name, (title, fault) in kinds.items():
        stream = line()
        stream.pin(4, **fault)
        yield _collected(name, title, ["PIN-9", "COL-4"], stream, 0, stays=["*"])


def _objects() -> Iterator[Draft]:
    yield _collected(
        "shared-files", "files that collected versions have brought and later ones still name", ["COL-5", "FIL-1"],
        _with_files(), 4, gone=[*snapshot_of(0), *of(1, 2), version_key(3), "data/00000000000000000003-*/part*"],
        stays=[*of(4, 5), "data/00000000000000000000-*/config.json", "data/00000000000000000003-*/files/*",
               "data/*/tensors/table.json"], **_moved(4),
    )  # fmt: skip
    yield _collected(
        "spans", "spans from and to collected versions, and one between versions that stay", ["COL-5", "COL-6"],
        line(spans=[(0, 2), (2, 4), (0, 4), (3, 5), (4, 6)]), 4,
        gone=[*snapshot_of(0), *of(1, 2, 3), *spans((0, 2), (2, 4), (0, 4), (3, 5))],
        stays=[version_key(4), version_key(5), version_key(6), anchor_key(4), *spans((4, 6))], **_moved(4),
    )  # fmt: skip
    yield _collected(
        "hostile-record", "a record that is collected names objects outside data/ and the shard of a later anchor",
        ["COL-5"], _hostile(), 4, gone=[*snapshot_of(0), *of(1, 2, 3)], stays=of(4, 5, 6), **_moved(4),
    )  # fmt: skip
    stream = line()
    notes = {"notes.txt": b"ours", "leases/x": b"{}", "leases/readers/notes.txt": b"?", "versions/2.json": b"{}",
             "anchors/latest.json": b"{}", "spans/1-0.json": b"{}", "data/readme.txt": b"?",
             "data/1/part-00000.arrow": b"?"}  # fmt: skip
    stream.objects |= notes
    yield _collected(
        "foreign-keys", "keys that are not of the protocol stay where they are", ["KEY-8", "KEY-5"], stream, 4,
        gone=[*snapshot_of(0), *of(1, 2, 3)], stays=[*of(4, 5, 6), *notes], tidy=False, **_moved(4),
    )  # fmt: skip


def _with_files() -> Stream:
    state = small_model()
    stream = Stream("files")
    stream.create()
    stream.rebase(state)
    texts = {1: b'{"vocab":1}', 2: b'{"vocab":1}', 3: b'{"vocab":3}', 4: b'{"vocab":3}', 5: b'{"vocab":5}'}
    for step, text in texts.items():
        state = trained(state, step).with_files(**{"config.json": state.files["config.json"], "tokenizer.json": text})
        stream.delta(state)
    stream.anchor(4)
    stream.head(5)
    return stream


def _hostile() -> Stream:
    """The same line twice: what it names later is known only then, and does not depend on what it names earlier."""
    found = line(name="hostile").objects
    shard = next(key for key in found if key.startswith("data/00000000000000000004-") and key.endswith(".safetensors"))
    stream = Stream("hostile")
    stream.create()
    state = small_model()
    stream.rebase(state)
    for step in range(1, 7):
        state = trained(state, step)
        named = [stream.add_object(key, found[key], "application/octet-stream") for key in ("stream.json", shard)]
        more = [{**item, "name": f"file-{place}"} for place, item in enumerate(named)] if step == 1 else []
        stream.delta(state, edit=lambda record, more=more: record["files"].extend(more))  # type: ignore[misc]
    for version in (2, 4):
        stream.anchor(version)
    stream.head(6)
    return stream


def _left_behind() -> Iterator[Draft]:
    stream = line()
    above, retained = orphan(stream, 7), orphan(stream, 5)
    yield _collected(
        "orphans", "objects that no record names, above the newest version and of one that stays", ["COL-7"],
        stream, 4, gone=[*snapshot_of(0), *of(1, 2, 3)], stays=[*of(4, 5, 6), above, retained], tidy=False, **_moved(4),
    )  # fmt: skip
    stream = line(spans=[(1, 3)])
    stream.retention(4)
    forget(stream, "data/00000000000000000001-", "data/00000000000000000002-", version_key(2), version_key(3))
    yield _collected(
        "half-collected", "what a maintainer left that was interrupted: records without data and without versions",
        ["COL-8", "COL-6"], stream, 4,
        gone=[*snapshot_of(0), version_key(1), anchor_key(2), *spans((1, 3))], stays=of(4, 5, 6), tidy=False,
        **_moved(4),
    )  # fmt: skip
    stream = _with_files()
    stream.retention(4)
    stream.objects[version_key(4)] = b"{"
    yield _collected(
        "unreadable-neighbour", "the record of the oldest version that stays cannot be read", ["COL-5"], stream, None,
        last=6, stays=[*of(4, 5), "data/*/config.json", "data/*03-*/files/*", "data/*/tensors/table.json"],
        allowed=("malformed_record",), tidy=False, states=[], findings=("malformed_record", "path_lost"),
    )  # fmt: skip
    stream = Stream("unborn")
    stream.create()
    first, second = orphan(stream, 0), orphan(stream, 1)
    yield _collected(
        "no-version", "a stream that has no version yet, and objects of a commit under way", ["COL-1", "FRK-8"],
        stream, None, stays=[first, second], allowed=("version_not_found",), tidy=False, states=[], added=(),
    )  # fmt: skip


def _refused() -> Iterator[Draft]:
    faults: dict[str, tuple[str, Sequence[str], str, Json]] = {
        "retention-cut-short": (
            "a retention.json that is no JSON", ["RET-4"], "malformed_record", {"raw": lambda data: data[:200]},
        ),
        "retention-without-boundary": (
            "a retention.json without a boundary", ["RET-4"], "malformed_record",
            {"edit": lambda record: record.pop("boundary")},
        ),
        "retention-of-another-stream": (
            "a retention.json of another stream", ["RET-4"], "wrong_stream",
            {"edit": lambda record: record.update(stream_id="11111111-1111-4111-8111-111111111111")},
        ),
        "retention-of-a-later-time": (
            "a retention.json with a reader feature that nobody knows", ["RET-4", "VER-2"], "unsupported_feature",
            {"edit": lambda record: record.update(reader_features=["novel"], writer_features=["novel"])},
        ),
        "retention-of-another-major": (
            "a retention.json of a later major version", ["RET-4", "VER-1"], "unsupported_protocol",
            {"edit": lambda record: record.update(protocol_version="1.0")},
        ),
        "kept-backwards": (
            "kept versions that do not ascend", ["RET-1", "RET-4"], "malformed_record",
            {"edit": lambda record: record.update(kept=[1, 0])},
        ),
        "kept-at-the-boundary": (
            "a kept version that is not below the boundary", ["RET-1", "RET-4"], "malformed_record",
            {"edit": lambda record: record.update(kept=[2])},
        ),
    }  # fmt: skip
    for name, (title, requirements, error, fault) in faults.items():
        stream = line(versions=5)
        stream.retention(2, **fault)
        yield _refusal(name, title, requirements, stream, error, findings=(error,))
    yield _refusal(
        "unknown-writer-feature", "a stream with an unknown writer feature", ["VER-3"],
        line(name="novel", versions=3, anchors=[2], writer_features=["novel"]), "unsupported_feature",
    )  # fmt: skip
    stream = line(versions=3, anchors=[2])
    forget(stream, "stream.json")
    yield _refusal("no-stream", "records of a stream without stream.json", ["STR-1"], stream, "stream_not_found")


def _refusal(name: str, title: str, requirements: Sequence[str], stream: Stream, error: str, **judged: Any) -> Draft:
    return worked(
        AREA,
        name,
        title,
        requirements,
        stream,
        Collect(options=keeping(1), error=(error,)),
        features=("collect",),
        negative=True,
        judged={"unchanged": ("*",), "added": ()} | judged,
    )
