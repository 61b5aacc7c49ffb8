"""Publishing: what a producer writes, and what it must not write to (SPEC.md sections 11.1 and 11.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from authoring.drafts import Draft, published
from authoring.producing import LEASE, next_states, producing, refused_whole, resting_stream, version
from authoring.states import State, small_model, trained, values
from authoring.stream import Json, Stream, named_uuid, private_pem, public_key
from deltawire_conformance.case import Case, Publish

AREA = "publishing"
KEYLESS = ["gap-set", "dense"]
"""Codecs that need no base."""
PEM = "keys/trainer.pem"


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _states()
    yield from _continued()
    yield from _kinds()
    yield from _signed()
    yield from _refused()


def _states() -> Iterator[Draft]:
    dtypes = State(
        {
            f"t{number:02}.{dtype.lower()}": values(dtype, (4, 2))
            for number, dtype in enumerate(
                ("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "F64",
                 "I64", "U64")
            )
        }
    )  # fmt: skip
    yield published(
        AREA, "dtypes", "tensors of fifteen dtypes, trained once",
        ["DTY-1", "DTY-2", "PUB-1", "PUB-2", "PUB-6", "DLT-1", "PRT-1", "KEY-4"],
        [dtypes, _flipped(dtypes)],
    )  # fmt: skip
    shapes = State(
        {
            "scalar": values("F32", ()),
            "empty": values("BF16", (0, 4)),
            "one": values("BF16", (1,)),
            "row": values("BF16", (1, 33)),
            "cube": values("F16", (3, 4, 5)),
            "deep": values("U8", (2, 1, 3, 1, 2)),
        }
    )
    yield published(
        AREA, "shapes", "a scalar, an empty tensor, and up to five dimensions",
        ["PUB-1", "PUB-2", "BOX-2", "DIG-3", "CNF-3"],
        [shapes, _flipped(shapes)],
    )  # fmt: skip
    tied = State(small_model().tensors, aliases={"lm_head.weight": "embed.weight"}, files=small_model().files)
    yield published(
        AREA,
        "aliases",
        "a tied embedding, trained once",
        ["TAB-4", "PUB-1"],
        [tied, trained(tied, 1)],
        judged={"absent": ("data/00000000000000000001-*/tensors/*",)},
    )
    untied = State(small_model().tensors, files=small_model().files)
    yield published(
        AREA,
        "aliases-change",
        "an alias goes away while no tensor changes",
        ["VSN-5", "PUB-1", "TAB-4"],
        [tied, untied],
        judged={"lacking": {version(1): ("delta",)}},
    )
    nothing = small_model()
    yield published(
        AREA,
        "nothing-changed",
        "the same state twice",
        ["VSN-7", "DLT-4"],
        [nothing, nothing],
        members={version(1): {"delta": {"changed_elements": 0, "changed_tensors": 0, "parts": []}}},
    )
    zero = State({"w": values("F32", (4,))}).with_bits("w", [0, 1, 2, 3], [0, 0x80000000, 0x7FC00001, 0x3F800000])
    yield published(
        AREA,
        "bits-not-numbers",
        "only the sign of a zero and the payload of a NaN change",
        ["DTY-4", "PUB-2"],
        [zero, zero.with_bits("w", [0, 1, 2], [0x80000000, 0, 0x7FC00002])],
        members={version(1): {"delta": {"changed_elements": 3}}},
    )
    everything = State({"w": values("BF16", (16, 8)), "b": values("F32", (5,))})
    yield published(
        AREA,
        "everything-changes",
        "every element of every tensor changes",
        ["PUB-2", "PUB-3", "ROW-2"],
        [everything, State({"w": values("BF16", (16, 8), seed="other"), "b": values("F32", (5,), seed="other")})],
    )
    yield from _tables()
    yield from _files()


def _tables() -> Iterator[Draft]:
    first = small_model()
    grown = State({**first.tensors, "head.weight": values("F32", (3, 3))}, files=first.files)
    yield published(
        AREA,
        "table-changes",
        "a tensor comes, changes its dtype, and goes",
        ["VSN-5", "PUB-1", "TAB-1", "SNP-2"],
        [first, grown, grown.with_values("head.weight", values("BF16", (3, 3))), first],
        judged={"lacking": {version(number): ("delta",) for number in (1, 2, 3)}},
    )
    turned = State(dict(reversed(list(first.tensors.items()))), files=first.files)
    yield published(
        AREA,
        "order-changes",
        "the same tensors in another order",
        ["PUB-1", "TAB-1", "CHN-3"],
        [first, trained(turned, 1)],
        judged={"lacking": {version(1): ("snapshot",)}, "absent": ("data/00000000000000000001-*/tensors/*",)},
    )


def _files() -> Iterator[Draft]:
    first = small_model(files={"config.json": b'{"a":1}', "merges.txt": b"a b\n", "old.txt": b"old"})
    second = State(trained(first, 1).tensors, files={"config.json": b'{"a":1}', "merges.txt": b"c d\n"})
    third = State(trained(second, 2).tensors, files={**second.files, "new.bin": b"\x00\x01"})
    yield published(
        AREA,
        "files",
        "an auxiliary file changes, one goes, one comes, one stays",
        ["FIL-1", "PUB-5", "KEY-9"],
        [first, second, third],
        judged={
            "present": (
                "data/00000000000000000001-*/files/merges.txt",
                "data/00000000000000000002-*/files/new.bin",
            ),
            "absent": (
                "data/00000000000000000001-*/files/config.json",
                "data/00000000000000000002-*/files/config.json",
                "data/00000000000000000002-*/files/merges.txt",
            ),
        },
    )


def _continued() -> Iterator[Draft]:
    states = next_states(None, 4)
    draft = published(AREA, "reopened", "two sessions, one after the other", ["OPN-4", "OPN-7", "LSE-7"], states)
    draft.case = _with_steps(draft, two_sessions=2)
    draft.inputs = {"input": states[:2], "again": states[2:]}
    yield draft
    stream = resting_stream("taken-up", versions=3)
    yield producing(
        AREA,
        "taken-up",
        "a stream that another implementation has left is taken up",
        ["OPN-4", "CHN-1", "CHN-2", "LSE-5", "REC-6"],
        stream=stream,
        states=next_states(stream, 2),
        judged={
            "members": {
                version(3): {"epoch": 5, "stream_id": stream.stream_id, "parent": {"digest": stream.digest(2)}},
                version(4): {"epoch": 5},
                LEASE: {"epoch": 5, "released": True},
            },
            "unchanged": ("stream.json", "versions/*", "data/*"),
        },
    )
    stream = resting_stream("unknown-members")
    stream.delta(trained(stream.states[0], 1), edit=lambda record: record.update(x_note=1), metadata={"step": 1})
    yield producing(
        AREA,
        "unknown-members",
        "the newest version has a member that nobody knows",
        ["VER-4", "OPN-4", "CHN-1"],
        stream=stream,
        judged={"unchanged": ("versions/*",), "members": {version(2): {"parent": {"digest": stream.digest(1)}}}},
    )
    stream = resting_stream("stale-head", versions=3)
    stream.head(0)
    yield producing(
        AREA,
        "stale-head",
        "the head names an older version than the newest",
        ["HED-1", "LAT-4", "OPN-4"],
        stream=stream,
        judged={"unchanged": ("versions/*",)},
    )
    stream = resting_stream("wrong-head", versions=2)
    stream.head(7)
    yield producing(
        AREA,
        "head-ahead",
        "the head names a version that does not exist",
        ["HED-2", "OPN-4"],
        stream=stream,
        judged={"unchanged": ("versions/*",)},
    )


def _with_steps(draft: Draft, *, two_sessions: int) -> Case:
    case = draft.case
    judge = case.steps[-1]
    numbers = range(len(draft.states))
    return Case(
        title=case.title,
        requirements=case.requirements,
        role=case.role,
        steps=(
            Publish(versions=tuple(numbers[:two_sessions])),
            Publish(input="again", versions=tuple(numbers[two_sessions:])),
            judge,
        ),
    )


def _kinds() -> Iterator[Draft]:
    states = next_states(None, 3)
    yield published(
        AREA,
        "absolute",
        "a stream with the feature absolute",
        ["COD-2", "STR-4", "PUB-3"],
        states,
        options={"absolute": True},
        features=("absolute",),
        members={
            "stream.json": {"writer_features": ["absolute"]},
            version(2): {"writer_features": ["absolute"]},
        },
        judged={"codecs": KEYLESS},
    )
    stream = resting_stream("absolute-kept", writer_features=["absolute"])
    stream.delta(trained(stream.states[0], 1), codec="gap-set")
    yield producing(
        AREA,
        "absolute-kept",
        "a stream with the feature absolute is taken up without asking for it",
        ["COD-2", "STR-4", "VER-3"],
        stream=stream,
        features=("absolute",),
        judged={"members": {version(2): {"writer_features": ["absolute"]}}, "codecs": KEYLESS},
    )
    yield published(
        AREA,
        "single-writer",
        "a single writer is declared",
        ["STR-3", "LSE-1", "REC-6"],
        states,
        options={"single_writer": True},
        members={"stream.json": {"writers": "single"}, version(2): {"epoch": 0}},
        judged={"absent": ("leases/writer.json",)},
    )
    stream = Stream("single-kept")
    stream.create(writers="single")
    stream.epoch = 3
    stream.rebase(small_model())
    yield producing(
        AREA,
        "single-writer-kept",
        "a stream with a single writer is taken up",
        ["LSE-1", "REC-6", "CHN-2"],
        stream=stream,
        judged={"members": {version(1): {"epoch": 3}}, "absent": ("leases/writer.json",)},
    )


def _signed() -> Iterator[Draft]:
    key = {PEM: private_pem("trainer")}
    states = next_states(None, 3)
    draft = published(
        AREA,
        "signed",
        "a signed stream",
        ["SIG-1", "SIG-2", "SIG-3", "SIG-9"],
        states,
        options={"signing_key": PEM},
        features=("signing",),
        members={"stream.json": {"signing_keys": [public_key("trainer")], "writer_features": ["signed"]}},
        judged={"trust": (public_key("trainer"),), "lacking": {"head.json": ("signature",), LEASE: ("signature",)}},
    )
    draft.files = key
    yield draft
    stream = resting_stream("signed-kept", signers=["trainer"], versions=2)
    draft = producing(
        AREA,
        "signed-kept",
        "a signed stream is taken up with its key",
        ["SIG-2", "SIG-9", "STR-4"],
        stream=stream,
        options={"signing_key": PEM},
        features=("signing",),
        judged={
            "trust": (public_key("trainer"),),
            "members": {version(2): {"writer_features": ["signed"], "signature": {"key": public_key("trainer")}}},
        },
    )
    draft.files = key
    yield draft
    for name, title, signers, options in (
        ("unsigned-stream", "a producer that was told to sign, and a stream that is not signed", [], True),
        ("foreign-key", "a producer with a key that the signed stream does not list", ["somebody"], True),
        ("no-key", "a producer without a key, and a signed stream", ["trainer"], False),
    ):
        stream = resting_stream(name, signers=signers)
        draft = producing(
            AREA,
            name,
            title,
            ["SIG-9", "OPN-3"],
            stream=stream,
            error="invalid_argument",
            options={"signing_key": PEM} if options else {},
            features=("signing",) if options else (),
            judged=refused_whole(stream),
        )
        draft.files = key
        yield draft
    stream = resting_stream("forged", signers=["trainer"])
    stream.signer = "somebody"
    stream.delta(trained(stream.states[0], 1))
    draft = producing(
        AREA,
        "forged-base",
        "the newest version of a signed stream has a signature by a key that is not listed",
        ["SIG-9", "SIG-6"],
        stream=stream,
        error="bad_signature",
        options={"signing_key": PEM},
        features=("signing",),
        judged={"absent": (version(2),), "unchanged": ("versions/*", "head.json"), "findings": ("bad_signature",)},
    )
    draft.files = key
    yield draft


def _refused() -> Iterator[Draft]:
    yield _stream_refused(
        "writer-feature", "a stream with a writer feature that nobody knows", "unsupported_feature",
        ["VER-3", "OPN-3"], lambda r: r.update(writer_features=["x-dev"]),
    )  # fmt: skip
    yield _stream_refused(
        "reader-feature", "a stream with a reader feature that nobody knows", "unsupported_feature",
        ["VER-2", "OPN-2"], lambda r: r.update(reader_features=["x-dev"], writer_features=["x-dev"]),
    )  # fmt: skip
    yield _stream_refused(
        "other-major", "a stream of another major version of the protocol", "unsupported_protocol",
        ["VER-1", "OPN-2"], lambda r: r.update(protocol_version="9.0"),
    )  # fmt: skip
    yield _stream_refused(
        "malformed-stream", "stream.json has no member writers", "malformed_record", ["REC-2", "OPN-2"],
        lambda r: r.pop("writers"),
    )  # fmt: skip
    stream = resting_stream("not-absolute")
    yield producing(
        AREA, "not-absolute", "a stream without the feature absolute, and a producer that demands it", ["OPN-3"],
        stream=stream, error="invalid_argument", options={"absolute": True}, features=("absolute",),
        judged=refused_whole(stream),
    )  # fmt: skip
    stream = Stream("unfinished-fork")
    stream.create(
        origin={
            "stream_id": named_uuid("source", "stream"),
            "version": 3,
            "digest": "sha256:" + "ab" * 32,
            "state_digest": f"{small_model().digest:016x}",
        }
    )
    yield producing(
        AREA, "unfinished-fork", "a fork whose version 0 is not there yet", ["FRK-8"], stream=stream,
        error="version_not_found", judged={"newest": None, "unchanged": ("*",), "absent": (version(0), "data/*")},
    )  # fmt: skip
    yield from _bad_bases()
    yield from _bad_states()


def _stream_refused(
    name: str, title: str, error: str, requirements: list[str], edit: Callable[[Json], object]
) -> Draft:
    """A ``stream.json`` that a producer must not write behind; nothing is written, not even a lease."""
    stream = Stream(name)
    stream.create(edit=edit)
    return producing(
        AREA,
        name,
        title,
        requirements,
        stream=stream,
        error=error,
        judged={
            "newest": None,
            "unchanged": ("*",),
            "absent": ("versions/*", "data/*", "leases/*", "head.json"),
            "findings": () if name == "writer-feature" else (error,),  # readers have no use for writer features
        },
    )


def _bad_bases() -> Iterator[Draft]:
    """The newest version cannot be read: there is nothing to go on from."""
    stream = resting_stream("chain")
    stream.delta(trained(stream.states[0], 1), edit=lambda r: r["parent"].update(digest="sha256:" + "00" * 32))
    yield producing(
        AREA, "broken-base", "the newest version names another parent than there is", ["OPN-4", "CHN-1"],
        stream=stream, error="broken_chain",
        judged=_no_base(2, "broken_chain"),
    )  # fmt: skip
    stream = resting_stream("damaged", versions=2)
    key = stream.records[1]["delta"]["parts"][0]["key"]
    batch = stream.records[1]["delta"]["parts"][0]["batches"][0]
    data = bytearray(stream.objects[key])
    data[batch["offset"] + batch["bytes"] - 9] ^= 1
    stream.objects[key] = bytes(data)
    yield producing(
        AREA, "damaged-base", "a part of the newest version is damaged", ["OPN-4", "PRT-5"],
        stream=stream, error="digest_mismatch",
        judged=_no_base(2, "digest_mismatch"),
    )  # fmt: skip


def _no_base(number: int, finding: str) -> Json:
    return {
        "absent": (version(number),),
        "unchanged": ("versions/*", "head.json"),
        "findings": (finding, "path_lost"),
    }


def _bad_states() -> Iterator[Draft]:
    """A state that cannot be put into a tensor table; the stream goes on after it."""
    stream = resting_stream("invalid")
    good = next_states(stream)[0]
    first = next(iter(good.tensors))
    for name, title, state in (
        (
            "alias-of-nothing",
            "an alias of a tensor that is not there",
            State(good.tensors, aliases={"tied.weight": "missing.weight"}, files=good.files),
        ),
        (
            "alias-of-alias",
            "an alias of an alias",
            State(good.tensors, aliases={"a.weight": first, "b.weight": "a.weight"}, files=good.files),
        ),
        (
            "alias-under-tensor",
            "an alias under the name of a tensor",
            State(good.tensors, aliases={"norm.weight": first}, files=good.files),
        ),
        (
            "name-with-line-feed",
            "a tensor whose name has a line feed",
            State({**good.tensors, "new\nline": values("F32", (2,))}, files=good.files),
        ),
    ):
        yield producing(
            AREA,
            name,
            title,
            ["PUB-1", "TAB-3" if "alias-of" not in name else "TAB-4"],
            stream=stream,
            states=[state],
            error="invalid_state",
            judged={"unchanged": ("versions/*", "data/*", "head.json"), "absent": (version(1),)},
        )


def _flipped(state: State) -> State:
    """The same state with one bit of some elements of each tensor the other way round."""
    for name, tensor in state.tensors.items():
        size = tensor.bits.size
        positions = sorted({0, size // 2, size - 1}) if size else []
        state = state.with_bits(name, positions, [int(tensor.bits[at]) ^ 1 for at in positions])
    return state
