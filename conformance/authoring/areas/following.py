"""Following, auxiliary files and reading some tensors (SPEC.md section 11.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from authoring.drafts import Draft, changed, refused_next
from authoring.parts import stream_names, write_part
from authoring.states import State, small_model, trained
from authoring.stream import Stream, small_stream
from deltawire.format.keys import version_key
from deltawire_conformance.case import AnyStep, Case, Follow, Materialize, Put
from deltawire_conformance.neutral import NeutralState

AREA = "following"
FILES: dict[str, Any] = {"features": ("files",)}
PARTIAL: dict[str, Any] = {"features": ("partial",)}


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _followed()
    yield from _forward_only()
    yield from _steps()
    yield from _files()
    yield from _some_tensors()


def _stream(name: str, *, versions: int = 2, state: State | None = None) -> Stream:
    if state is None:
        return small_stream(f"following {name}", versions=versions)
    stream = Stream(f"following {name}")
    stream.create()
    stream.rebase(state)
    for step in range(1, versions):
        stream.delta(trained(stream.states[-1], step))
    stream.head(versions - 1)
    return stream


def _draft(
    name: str, title: str, requirements: Sequence[str], stream: Stream, steps: Sequence[AnyStep],
    trees: dict[str, dict[str, bytes]], *, states: dict[str, NeutralState] | None = None, negative: bool = False,
    **more: Any,
) -> Draft:  # fmt: skip
    said = {step.state for step in steps if isinstance(step, (Materialize, Follow))}
    made = states or {str(at): state.neutral(at) for at, state in enumerate(stream.states) if str(at) in said}
    return Draft(
        AREA,
        name,
        negative=negative,
        case=Case(title=title, requirements=tuple(requirements), role="consumer", steps=tuple(steps), **more),
        trees=dict(trees),
        states=made,
    )


def _grown(stream: Stream, *steps: Callable[[Stream], object]) -> dict[str, dict[str, bytes]]:
    """What is there at first, and what each step adds: ``then-1``, ``then-2`` …"""
    trees = {"store": dict(stream.objects)}
    for number, step in enumerate(steps, 1):
        before = dict(stream.objects)
        step(stream)
        trees[f"then-{number}"] = changed(before, stream.objects)
    return trees


def _train(step: int) -> Callable[[Stream], object]:
    return lambda stream: stream.delta(trained(stream.states[-1], step))


def _other_table(stream: Stream) -> None:
    other = small_model(seed="other")
    names = ["norm.weight", "embed.weight"]
    stream.rebase(State({name: other.tensors[name] for name in names}, aliases={"head": "embed.weight"}))


def _followed() -> Iterator[Draft]:
    stream = _stream("one by one", versions=1)
    trees = _grown(stream, _train(1), _train(2), _train(3))
    yield _draft(
        "one-by-one", "versions that come while a consumer follows", ["FOL-3", "LAT-4"], stream,
        [Put(), Follow(version=3, state="3", meanwhile=("then-1", "then-2", "then-3"))], trees,
    )  # fmt: skip
    stream = _stream("rebase", versions=2)
    trees = _grown(stream, _other_table, _train(3))
    yield _draft(
        "rebase-between", "a rebase with another table that comes while a consumer follows", ["VSN-5", "FOL-3"], stream,
        [Put(), Follow(version=3, state="3", meanwhile=("then-1", "then-2"))], trees,
    )  # fmt: skip
    stream = _stream("taken up", versions=1)
    trees = _grown(stream, _train(1), _train(2))
    yield _draft(
        "taken-up-again", "a consumer that ends, and follows from what it holds", ["LAT-1", "FOL-3"], stream,
        [Put(), Follow(version=0, state="0"), Put(tree="then-1"), Follow(version=2, state="2", meanwhile=("then-2",))],
        trees,
    )  # fmt: skip
    stream = _stream("damaged", versions=1)
    trees = _grown(stream, _train(1), _damaged)
    yield _draft(
        "follow-damaged", "a version with a damaged part that comes while a consumer follows", ["FOL-3", "ERR-2"],
        stream,
        [
            Put(), Follow(version=2, error=("digest_mismatch",), meanwhile=("then-1", "then-2")),
            Materialize(version=1, state="1"),
        ],
        trees, negative=True,
    )  # fmt: skip


def _damaged(stream: Stream) -> None:
    part = stream.delta(trained(stream.states[-1], 9))["delta"]["parts"][0]
    stream.objects[part["key"]] = bytes(part["bytes"])


def _forward_only() -> Iterator[Draft]:
    stream = _stream("back", versions=3)
    yield _draft(
        "back", "a consumer that is asked for an older version than it holds", ["FOL-1"], stream,
        [Put(), Materialize(version=2, state="2"), Materialize(version=1, error=("invalid_argument",))],
        _grown(stream), negative=True,
    )  # fmt: skip
    yield _draft(
        "nothing-newer", "a consumer that is asked twice for the newest version", ["FOL-1"], stream,
        [Put(), Materialize(state="2"), Materialize(state="2"), Materialize(version=2, state="2")], _grown(stream),
    )  # fmt: skip
    stream, other = _stream("in place", versions=2), _stream("another", versions=3)
    yield _draft(
        "another-stream", "another stream in the place of the one that a consumer holds", ["FOL-2"], stream,
        [Put(), Materialize(state="1"), Put(tree="then"), Materialize(error=("wrong_base",))],
        {"store": dict(stream.objects), "then": dict(other.objects)}, negative=True,
    )  # fmt: skip
    stream = _stream("older again", versions=3)
    older = {"head.json": _stream("older again", versions=2).objects["head.json"]}
    yield _draft(
        "head-goes-back", "a head that says an older version than a consumer holds", ["FOL-1", "HED-1"], stream,
        [Put(), Materialize(state="2"), Put(tree="then"), Materialize(state="2")],
        {"store": dict(stream.objects), "then": older},
    )  # fmt: skip


def _steps() -> Iterator[Draft]:
    stream = _stream("half way", versions=1)

    def two_more(stream: Stream) -> None:
        _train(1)(stream)
        _damaged(stream)

    trees = _grown(stream, two_more)
    part = stream.records[2]["delta"]["parts"][0]["key"]
    mended = _stream("half way", versions=1)
    _train(1)(mended)
    mended.delta(trained(mended.states[-1], 9))
    assert version_key(2) in trees["then-1"]
    trees["mended"] = {part: mended.objects[part]}
    yield _draft(
        "half-way", "two versions at once, the second with a damaged part, which is mended then", ["FOL-3", "ERR-2"],
        stream,
        [
            Put(), Materialize(state="0"), Put(tree="then-1"), Materialize(error=("digest_mismatch",), state="1"),
            Put(tree="mended"), Materialize(state="2"),
        ],
        trees, negative=True,
    )  # fmt: skip


def _with(**files: bytes) -> Callable[[Stream], object]:
    """A version with these files."""
    return lambda s: s.delta(trained(s.states[-1], len(s.states)).with_files(**files))


def _files() -> Iterator[Draft]:
    state = small_model().with_files(config_json=b"{}", vocab_txt=b"a b c", merges_txt=b"1 2")
    stream = _stream("files", versions=1, state=state)
    trees = _grown(
        stream,
        _with(config_json=b"{}", vocab_txt=b"a b c d"),
        _with(config_json=b'{"a":1}', vocab_txt=b"a b c d", merges_txt=b"1 2"),
        lambda s: s.delta(s.states[-1].with_files()),
    )
    yield _draft(
        "files", "files that change, go, come back and go all at once", ["APL-3", "FOL-4", "FIL-1"], stream,
        [
            Put(), Materialize(state="0"), Put(tree="then-1"), Materialize(state="1"), Put(tree="then-2"),
            Materialize(state="2"), Put(tree="then-3"), Materialize(state="3"),
        ],
        trees, **FILES,
    )  # fmt: skip
    stream = _stream("files of rebase", versions=1, state=state)
    trees = _grown(
        stream, lambda s: s.rebase(small_model(seed="other").with_files(config_json=b"{}", tokenizer_json=b"[]"))
    )
    yield _draft(
        "files-of-rebase", "a rebase with other files than the version before", ["APL-3", "SNP-6"], stream,
        [Put(), Materialize(state="0"), Put(tree="then-1"), Materialize(state="1")], trees, **FILES,
    )  # fmt: skip

    def stored(change: Callable[[bytes], bytes | None]) -> Callable[[Stream], object]:
        def grow(stream: Stream) -> None:
            made = stream.delta(trained(stream.states[-1], 5).with_files(config_json=b'{"a":2}'))
            key = made["files"][0]["key"]
            found = change(stream.objects.pop(key))
            if found is not None:
                stream.objects[key] = found

        return grow

    faults: list[tuple[str, str, str, Callable[[bytes], bytes | None]]] = [
        ("missing", "a file that is not in the store", "missing_object", lambda _: None),
        ("longer", "a file with a line feed more than its record says", "size_mismatch", lambda data: data + b"\n"),
        (
            "other",
            "a file of the right size with other bytes",
            "digest_mismatch",
            lambda data: data.replace(b"2", b"3"),
        ),
    ]
    for name, title, code, change in faults:
        yield refused_next(
            AREA, f"file-{name}", title, ["FOL-4", "DSC-3"], _stream(f"file {name}"), code, grow=stored(change), **FILES
        )  # fmt: skip


def _some_tensors() -> Iterator[Draft]:
    state = replace(small_model(), aliases={"lm_head.weight": "embed.weight"})
    names = ["norm.weight", "lm_head.weight"]
    options = {"tensors": names}
    only = ["embed.weight", "norm.weight"]
    stream = _stream("some", versions=2, state=state)
    trees = _grown(stream, _train(2))
    yield _draft(
        "some-tensors", "a consumer of two tensors, one by its alias", ["FOL-6", "TAB-4"], stream,
        [
            Put(), Materialize(state="1", options=options), Put(tree="then-1"), Materialize(state="2", options=options),
        ],
        trees, states={str(at): stream.states[at].neutral(at, only=only) for at in (1, 2)}, **PARTIAL,
    )  # fmt: skip
    stream = _stream("neighbours", versions=2)

    def split(stream: Stream) -> None:
        """A batch for each tensor, and that of the first one damaged."""
        made = stream.delta(
            trained(stream.states[-1], 2),
            write=lambda rows: [write_part([[row] for row in rows], streams=stream_names(rows))],
        )
        part = made["delta"]["parts"][0]
        first, data = part["batches"][0], stream.objects[part["key"]]
        end = first["offset"] + first["bytes"]
        stream.objects[part["key"]] = data[: end - 8] + bytes(b ^ 255 for b in data[end - 8 : end]) + data[end:]

    one = {"tensors": ["norm.weight"]}
    trees = _grown(stream, split)
    yield _draft(
        "some-batches", "a consumer of one tensor, and a damaged batch of another", ["FOL-5", "FOL-6"], stream,
        [Put(), Materialize(state="1", options=one), Put(tree="then-1"), Materialize(state="2", options=one)], trees,
        states={str(at): stream.states[at].neutral(at, only=one["tensors"]) for at in (1, 2)}, **PARTIAL,
    )  # fmt: skip
    yield _draft(
        "damaged-batch", "a consumer of every tensor, and a damaged batch of one", ["FOL-5", "PRT-5"], stream,
        [Put(), Materialize(state="1"), Put(tree="then-1"), Materialize(error=("digest_mismatch",))], trees,
        negative=True,
    )  # fmt: skip
    stream = _stream("nobody", versions=2)
    yield _draft(
        "some-unknown", "a consumer of a tensor that is not there", ["FOL-6"], stream,
        [Put(), Materialize(options={"tensors": ["norm.weight", "norm.bias"]}, error=("invalid_argument",))],
        _grown(stream), negative=True, **PARTIAL,
    )  # fmt: skip
    stream = _stream("others", versions=2)
    trees = _grown(stream, _train(2))
    yield _draft(
        "some-others", "a consumer that holds one tensor and asks for another", ["FOL-6", "FOL-3"], stream,
        [
            Put(), Materialize(state="1", options=one), Put(tree="then-1"),
            Materialize(options={"tensors": ["embed.weight"]}, error=("target_mismatch",)),
        ],
        trees, states={"1": stream.states[1].neutral(1, only=one["tensors"])}, negative=True, **PARTIAL,
    )  # fmt: skip
