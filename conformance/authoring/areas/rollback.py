"""Rolling back (SPEC.md section 11.10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from authoring.drafts import Draft, worked
from authoring.lines import forget, line, of
from authoring.states import small_model, trained
from authoring.stream import Json, Stream, private_pem, public_key
from deltawire.format.keys import version_key
from deltawire_conformance.case import Publish, Rollback

AREA = "rollback"


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _done()
    yield from _signed()
    yield from _refused()


def _back(
    name: str, title: str, requirements: Sequence[str], stream: Stream, version: int, *, record: Json | None = None,
    lacking: Sequence[str] = (), options: Json | None = None, features: Sequence[str] = (),
    files: dict[str, bytes] | None = None, states: Sequence[int] = (), **judged: Any,
) -> Draft:  # fmt: skip
    following = len(stream.states)
    state = stream.states[version]
    members = {
        "state_digest": f"{state.digest:016x}",
        "rollback_of": {"version": version, "digest": stream.digest(version)},
    }
    key = version_key(following)
    return worked(
        AREA,
        name,
        title,
        requirements,
        stream,
        Rollback(version=version, expect_version=following, options=options or {}),
        role="producer",
        features=("rollback", *features),
        states=states,
        expected={str(following): state.neutral(following)},
        files=files or {},
        judged={
            "newest": following,
            "members": {key: members | (record or {})},
            "lacking": {key: tuple(lacking)},
            "unchanged": ("stream.json", "versions/*", "anchors/*", "data/*"),
        }
        | judged,
    )


def _done() -> Iterator[Draft]:
    yield _back(
        "to-a-delta", "an earlier version comes back as a delta from the newest", ["RBK-1", "RBK-3"],
        line(versions=4, anchors=[]), 1, record={"delta": {}}, lacking=["snapshot"], states=[0, 1, 2, 3],
    )  # fmt: skip
    yield _back(
        "to-the-newest", "the newest version comes back, and nothing changes", ["RBK-1", "VSN-7"],
        line(versions=3, anchors=[]), 2, record={"delta": {"changed_elements": 0, "parts": []}}, lacking=["snapshot"],
    )  # fmt: skip
    changed = line(versions=2, anchors=[])
    model = small_model(seed="wider")
    model = model.with_values("extra.weight", model.tensors["norm.weight"])
    changed.rebase(model)
    changed.delta(trained(model, 3))
    yield _back(
        "over-a-new-table", "between the two versions the tensors have changed", ["RBK-3", "VSN-5"], changed, 1,
        record={"snapshot": {}}, lacking=["delta"], states=[0, 1, 2, 3],
    )  # fmt: skip
    state = small_model()
    stream = Stream("files")
    stream.create()
    stream.rebase(state)
    for step, files in enumerate([{"a.json": b"1", "b.txt": b"1"}, {"a.json": b"2", "c.txt": b"1"}], 1):
        state = trained(state, step).with_files(**{name.replace(".", "_"): text for name, text in files.items()})
        stream.delta(state)
    yield _back(
        "files", "files were changed, added and dropped since", ["RBK-3", "FIL-1"], stream, 1, record={"delta": {}},
    )  # fmt: skip
    stream = line(versions=5, anchors=[1, 3])
    stream.retention(3, 1)
    forget(stream, *(pattern.rstrip("*") for pattern in of(2)), version_key(0))
    yield _back(
        "to-a-kept-version", "the earlier version lies below the boundary and is kept", ["RBK-2", "RET-1"], stream, 1,
        states=[1, 3, 4],
    )  # fmt: skip
    stream = line(versions=4, anchors=[])
    earlier = stream.states[1]
    stream.delta(earlier, edit=lambda record: record.update(rollback_of={"version": 1, "digest": stream.digest(1)}))
    yield _back("of-a-rollback", "the version is a rollback itself", ["RBK-1"], stream, 4, states=[3, 4])
    stream = line(versions=3, anchors=[])
    after = trained(stream.states[1], 8)
    yield worked(
        AREA, "goes-on", "training goes on from what was brought back", ["RBK-4", "CHN-1"], stream,
        Rollback(version=1, expect_version=3), Publish(input="next", versions=(4,)),
        role="producer", features=("rollback",), inputs={"next": [after]},
        expected={"3": stream.states[1].neutral(3), "4": after.neutral(4)},
        judged={"newest": 4, "lacking": {version_key(4): ("rollback_of",)}},
    )  # fmt: skip


def _signed() -> Iterator[Draft]:
    yield _back(
        "signed", "a signed stream", ["SIG-2", "RBK-1"], line(name="signed", versions=3, anchors=[], signers=["a"]), 1,
        options={"signing_key": "key.pem"}, features=["signing"], files={"key.pem": private_pem("a")},
        trust=(public_key("a"),),
    )  # fmt: skip
    state = small_model()
    stream = Stream("absolute", writer_features=["absolute"])
    stream.create()
    stream.rebase(state)
    stream.delta(trained(state, 1), codec="gap-set")
    yield _back(
        "absolute", "a stream whose deltas need no base", ["COD-2", "STR-4"], stream, 0, features=["absolute"],
        codecs=("gap-set", "dense"), record={"writer_features": ["absolute"]},
    )  # fmt: skip


def _refused() -> Iterator[Draft]:
    yield _refusal(
        "version-to-come", "a version above the newest", ["RBK-2"], line(versions=3, anchors=[]), 3, "version_not_found"
    )
    stream = line(versions=5, anchors=[3])
    stream.retention(3)
    yield _refusal(
        "version-passed", "a version that the boundary has passed, though its record is there", ["RBK-2", "RET-3"],
        stream, 0, "version_not_found",
    )  # fmt: skip
    stream = line(versions=4, anchors=[3])
    part = next(key for key in stream.objects if key.startswith("data/00000000000000000001-"))
    damaged = bytes(byte ^ 1 if place == 1000 else byte for place, byte in enumerate(stream.objects[part]))
    stream.objects[part] = damaged
    found = ("digest_mismatch", "path_lost")
    yield _refusal(
        "damaged-delta", "a byte of the only delta that leads there is another", ["RBK-2", "PRT-5"], stream, 1,
        "digest_mismatch", findings=found,
    )  # fmt: skip
    stream = line(versions=4, anchors=[3])
    forget(stream, version_key(1))
    yield _refusal(
        "record-missing", "the record of a version on the only way there is missing", ["RBK-2", "PLN-3"], stream, 2,
        "path_lost", findings=("missing_object", "path_lost"),
    )  # fmt: skip
    stream = line(versions=3, anchors=[])
    stream.delta(trained(stream.states[2], 3).with_files(other_json=b"{}"))
    forget(stream, *(key for key in stream.objects if key.endswith("/config.json")))
    yield _refusal(
        "file-missing", "an auxiliary file of the earlier version is missing", ["RBK-2", "DSC-3"], stream, 1,
        "missing_object", findings=("missing_object",),
    )  # fmt: skip
    yield _refusal("no-stream", "there is no stream", ["STR-1"], Stream("nowhere"), 0, "stream_not_found")
    yield _refusal(
        "unknown-writer-feature", "a stream with an unknown writer feature", ["VER-3", "OPN-3"],
        line(name="novel", versions=2, anchors=[], writer_features=["novel"]), 0, "unsupported_feature",
    )  # fmt: skip
    yield _refusal(
        "signed-without-a-key", "a signed stream, and no key to sign with", ["SIG-9"],
        line(name="signed", versions=2, anchors=[], signers=["a"]), 0, "invalid_argument", features=("signing",),
    )  # fmt: skip
    yield _refusal(
        "signed-with-another-key", "a key that the stream does not list", ["SIG-9"],
        line(name="signed", versions=2, anchors=[], signers=["a"]), 0, "invalid_argument", features=("signing",),
        options={"signing_key": "key.pem"}, files={"key.pem": private_pem("b")},
    )  # fmt: skip


def _refusal(
    name: str, title: str, requirements: Sequence[str], stream: Stream, version: int, error: str, *,
    findings: Sequence[str] = (), features: Sequence[str] = (), options: Json | None = None, **more: Any,
) -> Draft:  # fmt: skip
    return worked(
        AREA,
        name,
        title,
        requirements,
        stream,
        Rollback(version=version, error=(error,), options=options or {}),
        role="producer",
        features=("rollback", *features),
        negative=True,
        judged={"unchanged": ("*",), "added": ("leases/*",), "findings": tuple(findings)},
        **more,
    )
