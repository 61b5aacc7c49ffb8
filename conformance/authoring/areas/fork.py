"""Forking (SPEC.md section 11.11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from authoring.drafts import Draft, worked
from authoring.lines import forget, line, of
from authoring.states import small_model, trained
from authoring.stream import Json, Stream, private_pem, public_key
from deltawire.format.keys import version_key
from deltawire_conformance.case import AnyStep, Fork, Publish

AREA = "fork"


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _done()
    yield from _features()
    yield from _occupied()
    yield from _refused()


def _origin(source: Stream, version: int) -> Json:
    return {
        "stream_id": source.stream_id,
        "version": version,
        "digest": source.digest(version),
        "state_digest": f"{source.states[version].digest:016x}",
    }


def _forked(
    name: str, title: str, requirements: Sequence[str], source: Stream, version: int, *, place: Stream | None = None,
    options: Json | None = None, features: Sequence[str] = (), after: Sequence[AnyStep] = (),
    stream: Json | None = None,
    lacking: Sequence[str] = (), expected: Json | None = None, inputs: Json | None = None,
    files: dict[str, bytes] | None = None, **judged: Any,
) -> Draft:  # fmt: skip
    first = {"version": 0, "epoch": 0, "snapshot": {}, "state_digest": f"{source.states[version].digest:016x}"}
    return worked(
        AREA,
        name,
        title,
        requirements,
        place or Stream("nowhere"),
        Fork(version=version, options=options or {}),
        *after,
        role="producer",
        features=("fork", *features),
        source=source,
        expected={"0": source.states[version].neutral(0)} | (expected or {}),
        inputs=inputs or {},
        files=files or {},
        judged={
            "newest": 0,
            "members": {"stream.json": {"origin": _origin(source, version)} | (stream or {}), version_key(0): first},
            "lacking": {"stream.json": tuple(lacking), version_key(0): ("parent", "delta", "rollback_of")},
            "tidy": place is None,
        }
        | judged,
    )


def _done() -> Iterator[Draft]:
    yield _forked(
        "of-a-snapshot", "a version with a snapshot of its own", ["FRK-1", "FRK-4"], line(versions=3, anchors=[]), 0
    )
    yield _forked("of-an-anchor", "a version with an anchor", ["FRK-1", "FRK-4"], line(versions=4, anchors=[2]), 2)
    yield _forked(
        "of-a-delta", "a version that has a delta only", ["FRK-1", "FRK-4", "FRK-6"], line(versions=4, anchors=[]), 2
    )
    model = replace(small_model(), aliases={"lm_head.weight": "embed.weight"}, files={})
    yield _forked(
        "aliases", "a version with aliases and without files", ["FRK-1", "TAB-4"],
        line(name="aliases", versions=3, anchors=[], model=model), 1,
    )  # fmt: skip
    state = small_model()
    source = Stream("files")
    source.create()
    source.rebase(state)
    for step, text in enumerate([b'{"vocab":1}', b'{"vocab":2}'], 1):
        state = trained(state, step).with_files(**{"config.json": state.files["config.json"], "tokenizer.json": text})
        source.delta(state)
    source.anchor(1, edit=lambda record: record["snapshot"].pop("files"))
    yield _forked(
        "files", "a version whose files lie in several folders, and an anchor without copies of them",
        ["FRK-1", "FIL-1", "SNP-6"], source, 1,
    )  # fmt: skip
    source = line(versions=5, anchors=[1, 3])
    source.retention(3, 1)
    forget(source, *(pattern.rstrip("*") for pattern in of(2)), version_key(0))
    yield _forked("of-a-kept-version", "a version below the boundary that is kept", ["FRK-1", "RET-1"], source, 1)
    source = line(versions=3, anchors=[])
    begun = Stream("begun")
    begun.create(origin=_origin(source, 1))
    yield _forked(
        "interrupted", "the same fork was interrupted when it had a stream and no version", ["FRK-3"], source, 1,
        place=begun, unchanged=("stream.json",),
    )  # fmt: skip
    after = trained(source.states[1], 8)
    yield _forked(
        "goes-on", "training goes on in the fork", ["FRK-8", "OPN-4"], source, 1, newest=1,
        after=[Publish(input="next", versions=(1,))], inputs={"next": [after]}, expected={"1": after.neutral(1)},
        lacking=[],
    )  # fmt: skip
    fork = Stream("middle")
    fork.create(origin=_origin(source, 1))
    fork.rebase(source.states[1])
    yield _forked("of-a-fork", "a version of a stream that is a fork itself", ["FRK-1"], fork, 0)


def _features() -> Iterator[Draft]:
    state = small_model()
    source = Stream("absolute", writer_features=["absolute"])
    source.create()
    source.rebase(state)
    source.delta(trained(state, 1), codec="gap-set")
    yield _forked(
        "absolute", "a stream whose deltas need no base", ["STR-4", "FRK-1"], source, 1,
        features=["absolute"], stream={"writer_features": ["absolute"]},
    )  # fmt: skip
    source = line(name="signed", versions=2, anchors=[], signers=["a"])
    yield _forked(
        "keys-stay-behind", "a signed stream, and no key for the fork", ["SIG-10"], source, 1,
        features=["signing"], stream={"writer_features": []}, lacking=["signing_keys", "signature"],
    )  # fmt: skip
    yield _forked(
        "other-keys", "a signed stream, and another key for the fork", ["SIG-10", "SIG-2"], source, 1,
        features=["signing"], options={"signing_key": "key.pem", "public_keys": [public_key("a")]},
        files={"key.pem": private_pem("b")}, stream={"signing_keys": [public_key("b")]}, trust=(public_key("b"),),
    )  # fmt: skip


def _occupied() -> Iterator[Draft]:
    source = line(versions=3, anchors=[])
    yield _refusal(
        "onto-a-stream", "there is another stream at the destination", ["FRK-3"], source, 1, "invalid_argument",
        place=line(name="other", versions=2, anchors=[]),
    )  # fmt: skip
    place = Stream("empty")
    place.create()
    yield _refusal(
        "onto-an-empty-stream", "there is a stream without a version that is no fork", ["FRK-3"], source, 1,
        "invalid_argument", place=place,
    )  # fmt: skip
    place = Stream("done")
    place.create(origin=_origin(source, 1))
    place.rebase(source.states[1])
    yield _refusal(
        "onto-itself", "the same fork is there already, with its version", ["FRK-3"], source, 1, "invalid_argument",
        place=place,
    )  # fmt: skip
    place = Stream("begun")
    place.create(origin=_origin(source, 1))
    yield _refusal(
        "onto-another-fork", "an interrupted fork of another version is there", ["FRK-3"], source, 2,
        "invalid_argument", place=place,
    )  # fmt: skip
    place = line(name="lost", versions=2, anchors=[])
    forget(place, "stream.json")
    yield _refusal(
        "onto-records", "there are version records at the destination and no stream.json", ["FRK-3"], source, 1,
        "invalid_argument", place=place,
    )  # fmt: skip


def _refused() -> Iterator[Draft]:
    yield _refusal("no-source", "there is no stream to fork", ["STR-1"], Stream("nowhere"), 0, "stream_not_found")
    yield _refusal(
        "version-to-come", "a version above the newest", ["FRK-1"], line(versions=3, anchors=[]), 3,
        "version_not_found",
    )  # fmt: skip
    source = line(versions=5, anchors=[3])
    source.retention(3)
    yield _refusal(
        "version-passed", "a version that the boundary has passed, though it is still there whole", ["RET-3"], source,
        0, "version_not_found",
    )  # fmt: skip
    yield _refusal(
        "unknown-writer-feature", "a source with an unknown writer feature", ["VER-3", "STR-4"],
        line(name="novel", versions=2, anchors=[], writer_features=["novel"]), 0, "unsupported_feature",
    )  # fmt: skip
    source = line(versions=2, anchors=[])
    forget(source, *(key for key in source.objects if key.endswith(".safetensors")))
    yield _refusal(
        "shard-missing", "the shard of the version is missing", ["FRK-4", "FRK-5"], source, 0, "missing_object",
        found_in_source=("missing_object", "path_lost"),
    )  # fmt: skip
    source = line(versions=2, anchors=[])
    shard = next(key for key in source.objects if key.endswith(".safetensors"))
    source.objects[shard] = source.objects[shard][:-2]
    yield _refusal(
        "shard-cut-short", "the shard of the version is too short", ["FRK-4", "FRK-5"], source, 0, "size_mismatch",
        found_in_source=("size_mismatch", "path_lost"),
    )  # fmt: skip
    source = line(versions=2, anchors=[])
    forget(source, *(key for key in source.objects if key.endswith("/config.json")))
    yield _refusal(
        "file-missing", "an auxiliary file of the version is missing", ["FRK-5", "DSC-3"], source, 1, "missing_object",
        found_in_source=("missing_object",),
    )  # fmt: skip
    source = line(versions=3, anchors=[])
    part = next(key for key in source.objects if key.startswith("data/00000000000000000001-"))
    source.objects[part] = bytes(byte ^ (place == 1000) for place, byte in enumerate(source.objects[part]))
    yield _refusal(
        "damaged-delta", "a byte of a delta that leads to the version is another", ["FRK-4", "PRT-5"], source, 2,
        "digest_mismatch", found_in_source=("digest_mismatch", "path_lost"),
    )  # fmt: skip


def _refusal(
    name: str, title: str, requirements: Sequence[str], source: Stream, version: int, error: str, *,
    place: Stream | None = None, found_in_source: Sequence[str] = (),
) -> Draft:  # fmt: skip
    # Objects that no record names may be left where there was nothing; what was there stays alone.
    left = {"unchanged": ("*",), "added": () if place is not None else ("data/*",)}
    return worked(
        AREA,
        name,
        title,
        requirements,
        place or Stream("nowhere"),
        Fork(version=version, error=(error,)),
        role="producer",
        features=("fork",),
        negative=True,
        source=source if source.objects else None,
        found_in_source=found_in_source,
        judged=left,
    )
