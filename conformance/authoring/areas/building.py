"""Anchors and spans from what is in the store (SPEC.md sections 8.4, 8.13 and 11.12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from authoring.drafts import Draft, worked
from authoring.lines import forget, line, number, of
from authoring.states import State, Values, small_model, trained, values
from authoring.stream import Json, Stream, private_pem, public_key
from deltawire.format.keys import version_key
from deltawire_conformance.case import Build

AREA = "building"
_ADDED = ("anchors/*", "spans/*", "data/*", "leases/readers/*")


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _lines()
    yield from _beside()
    yield from _signed()
    yield from _refused()


def _built(
    name: str, title: str, requirements: Sequence[str], stream: Stream, *, least: int = 1, first: int = 0,
    features: Sequence[str] = (), options: Json | None = None, files: dict[str, bytes] | None = None, **judged: Any,
) -> Draft:  # fmt: skip
    newest = len(stream.states) - 1
    return worked(
        AREA,
        name,
        title,
        requirements,
        stream,
        Build(least=least, options=options or {}),
        states=range(first, newest + 1),
        features=("build", *features),
        files=files or {},
        judged={"newest": newest, "unchanged": ("*",), "added": _ADDED, "tidy": True, "unpinned": True} | judged,
    )


def _lines() -> Iterator[Draft]:
    yield _built(
        "nine-versions", "a snapshot and eight deltas", ["MNT-1", "MNT-2", "SPN-2", "ANC-3"],
        line(versions=9, anchors=[]),
    )  # fmt: skip
    yield _built(
        "over-a-rebase", "a version between two runs of deltas has a snapshot of its own", ["SPN-2"],
        line(versions=9, anchors=[], rebases=[3]),
        absent=tuple(f"spans/{number(t)}-{number(b)}.json" for b in range(3) for t in range(3, 9)),
    )  # fmt: skip
    model = small_model()
    stream = Stream("returning")
    stream.create()
    stream.rebase(model)
    states = [model.with_bits("norm.weight", [0, 3], [1, 2]), model.with_bits("embed.weight", [7], [9])]
    for state in [*states, model, trained(model, 1), model]:
        stream.delta(state)
    yield _built("there-and-back", "elements change and take their old bits again", ["MNT-1", "ROW-2"], stream)
    types = State(
        {
            "a": values("F8_E4M3", (5, 4)),
            "b": values("I64", (3, 2)),
            "c": values("F64", ()),
            "d": values("F4", (4, 4)),
            "e": values("F16", (0, 3)),
            "f": values("BOOL", (6,)),
        },
        aliases={"g": "a"},
        files={"config.json": b"{}"},
    )
    yield _built(
        "dtypes",
        "tensors of many types, a scalar and an empty one, and an alias",
        ["MNT-1", "SNP-4", "ANC-1", "ANC-3"],
        _of_types(types),
    )
    yield _built(
        "spans-too-large", "two deltas that are small, and together irregular: no span is as small as both",
        ["SPN-3", "MNT-2"], _irregular(), least=0,
    )  # fmt: skip
    yield _built("one-version", "a stream of one version", ["SPN-1"], line(versions=1, anchors=[]), least=0)


def _of_types(model: State) -> Stream:
    stream = Stream("types")
    stream.create()
    stream.rebase(model)
    state = model
    for step in range(1, 5):
        for name, tensor in state.tensors.items():
            if tensor.bits.size:
                place = step % tensor.bits.size
                state = state.with_bits(name, [place], [int(tensor.bits[place]) ^ 1])
        stream.delta(state)
    return stream


def _irregular() -> Stream:
    """Patterns that repeat after 997 and after 1009 elements: both together do not repeat at all."""
    size = 40000
    stream = Stream("irregular")
    stream.create()
    bits = np.zeros(size, np.uint8)
    state = State({"grid": Values("U8", (size,), bits.tobytes())})
    stream.rebase(state)
    for period, bit in ((997, 1), (1009, 2)):
        pattern = np.random.Generator(np.random.PCG64(period)).random(period) < 0.3
        bits = bits ^ np.where(np.resize(pattern, size), np.uint8(bit), np.uint8(0))
        state = replace(state, tensors={"grid": Values("U8", (size,), bits.tobytes())})
        stream.delta(state)
    return stream


def _beside() -> Iterator[Draft]:
    yield _built(
        "some-are-there", "anchors and spans are there already, of the newest version too", ["ANC-4", "SPN-5", "KEY-7"],
        line(versions=7, anchors=[2, 6], spans=[(0, 2), (2, 4), (0, 4)]), least=0,
    )  # fmt: skip
    stream = line(versions=8, anchors=[4])
    stream.retention(4)
    below = tuple(f"anchors/{number(version)}.json" for version in range(4))
    yield _built(
        "below-the-boundary", "versions that are not retained any more, though they are still there",
        ["SPN-5", "MNT-3"], stream, first=4, least=0,
        absent=(*below, *(f"spans/*-{number(version)}.json" for version in range(4))),
    )  # fmt: skip
    stream = line(versions=8, anchors=[4])
    stream.retention(4)
    gone = [key for key in stream.objects if key.startswith(f"data/{number(0)}-") and "/model" in key]
    forget(stream, *(pattern.rstrip("*") for pattern in of(1, 2, 3)), version_key(0), *gone)
    yield _built("after-collecting", "the versions before the boundary are gone", ["SPN-5", "RET-2"], stream, first=4)
    stream = Stream("later")
    stream.create(edit=_note)
    state = small_model()
    stream.rebase(state, edit=_note)
    for step in range(1, 5):
        state = trained(state, step)
        stream.delta(state, edit=_note)
    stream.retention(0, edit=_note)
    yield _built("unknown-members", "records with members that are not of this version", ["VER-4"], stream)


def _note(record: Json) -> None:
    record["x_note"] = {"key": "later", "list": [1, 2]}


def _signed() -> Iterator[Draft]:
    yield _built(
        "signed", "a signed stream", ["SIG-2", "SIG-9"], line(name="signed", versions=5, anchors=[], signers=["a"]),
        features=["signing"], options={"signing_key": "key.pem"}, files={"key.pem": private_pem("a")},
        trust=(public_key("a"),),
    )  # fmt: skip


def _refused() -> Iterator[Draft]:
    signed = line(name="signed", versions=5, anchors=[], signers=["a"])
    yield _refusal(
        "signed-without-a-key", "a signed stream, and no key to sign with", ["SIG-9"], signed, "invalid_argument",
        features=["signing"],
    )  # fmt: skip
    yield _refusal(
        "signed-with-another-key", "a key that the stream does not list", ["SIG-9"], signed, "invalid_argument",
        features=["signing"], options={"signing_key": "key.pem"}, files={"key.pem": private_pem("b")},
    )  # fmt: skip
    yield _refusal(
        "key-for-an-unsigned-stream", "a key, and a stream that is not signed", ["SIG-9"],
        line(versions=5, anchors=[]), "invalid_argument",
        features=["signing"], options={"signing_key": "key.pem"}, files={"key.pem": private_pem("a")},
    )  # fmt: skip
    stream = line(versions=5, anchors=[2])
    stream.retention(2, raw=lambda data: data[:200])
    yield _refusal(
        "retention-cut-short", "a retention.json that is no JSON", ["RET-4"], stream, "malformed_record",
        findings=("malformed_record",),
    )  # fmt: skip
    stream = line(versions=5, anchors=[2])
    stream.retention(2, edit=lambda record: record.update(stream_id="11111111-1111-4111-8111-111111111111"))
    yield _refusal(
        "retention-of-another-stream", "a retention.json of another stream", ["RET-4"], stream, "wrong_stream",
        findings=("wrong_stream",),
    )  # fmt: skip
    yield _refusal(
        "unknown-writer-feature", "a stream with an unknown writer feature", ["VER-3"],
        line(name="novel", versions=5, anchors=[], writer_features=["novel"]), "unsupported_feature",
    )  # fmt: skip
    stream = line(versions=5, anchors=[])
    forget(stream, "stream.json")
    yield _refusal("no-stream", "records of a stream without stream.json", ["STR-1"], stream, "stream_not_found")


def _refusal(
    name: str, title: str, requirements: Sequence[str], stream: Stream, error: str, *, options: Json | None = None,
    features: Sequence[str] = (), files: dict[str, bytes] | None = None, findings: Sequence[str] = (),
) -> Draft:  # fmt: skip
    return worked(
        AREA,
        name,
        title,
        requirements,
        stream,
        Build(error=(error,), options=options or {}),
        features=("build", *features),
        negative=True,
        files=files or {},
        judged={"unchanged": ("*",), "added": ("leases/readers/*",), "findings": tuple(findings)},
    )
