"""Signed streams (SPEC.md section 8.14)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from authoring.drafts import Draft, accepted, changed, refused, refused_next
from authoring.nexts import assign, good_next, text
from authoring.states import small_model, trained
from authoring.stream import (
    SIGNATURE_TEXT,
    Edit,
    Json,
    Raw,
    Stream,
    dump,
    private_key,
    public_key,
    same,
    small_stream,
    unedited,
)
from deltawire_conformance.case import Case, Materialize, Put

AREA = "signatures"
OTHER = "11111111-1111-4111-8111-111111111111"
VALUE = re.compile(rb'"value":"([0-9a-f]{128})"')
FEATURES = ("signatures",)


def keys(*names: str) -> Json:
    """The option that gives these keys to a consumer."""
    return {"public_keys": [public_key(name) for name in names]}


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _next_versions()
    yield from _streams()
    yield from _without_keys()
    yield from _sound()
    yield _held_unsigned()
    yield _part_of_a_shard()


def _value(data: bytes) -> bytes:
    match = VALUE.search(data)
    assert match is not None
    return match[1]


def _signed_anew(message: Callable[[bytes], bytes]) -> Raw:
    """The same record with the signature of another message, which is made of the record with zeros for a value."""

    def raw(data: bytes) -> bytes:
        value = _value(data)
        blank = data.replace(value, b"0" * 128)
        return data.replace(value, private_key("a").sign(message(blank)).hex().encode())

    return raw


def _without_signature(blank: bytes) -> bytes:
    return SIGNATURE_TEXT + dump({name: v for name, v in json.loads(blank).items() if name != "signature"})


def _escaped(data: bytes) -> bytes:
    value = _value(data)
    return data.replace(value, value[:-1] + b"\\u00%02x" % value[-1])


def _another_digit(data: bytes) -> bytes:
    value = _value(data)
    return data.replace(value, value[:-1] + (b"1" if value.endswith(b"0") else b"0"))


def _next_versions() -> Iterator[Draft]:
    """A consumer that was given the key, and holds version 0, must refuse version 1."""
    bad: list[tuple[str, str, tuple[str, ...], str, Edit, Raw]] = [
        (
            "changed",
            "a version record that was changed after it was signed",
            ("SIG-6", "SIG-3"),
            "bad_signature",
            unedited,
            text('"metadata":{}', '"metadata":{"a":1}'),
        ),
        (
            "space-after",
            "a version record with a space after it that was not signed",
            ("SIG-3",),
            "bad_signature",
            unedited,
            lambda data: data + b" ",
        ),
        ("last-digit", "a signature with another last digit", ("SIG-6",), "bad_signature", unedited, _another_digit),
        (
            "without-text",
            "a signature of the record without the text before it",
            ("SIG-3",),
            "bad_signature",
            unedited,
            _signed_anew(lambda blank: blank),
        ),
        (
            "without-signature",
            "a signature of the record without the member signature",
            ("SIG-3",),
            "bad_signature",
            unedited,
            _signed_anew(_without_signature),
        ),
        (
            "of-another-key",
            "a signature that another key of the list made than it says",
            ("SIG-6",),
            "bad_signature",
            unedited,
            text(public_key("a"), public_key("b")),
        ),
        (
            "escaped-digit",
            "a signature with a digit that is escaped",
            ("SIG-4",),
            "malformed_record",
            unedited,
            _escaped,
        ),
        (
            "digits-twice",
            "the digits of a signature in metadata once more",
            ("SIG-4",),
            "malformed_record",
            unedited,
            lambda data: data.replace(b'"metadata":{}', b'"metadata":{"x":"' + _value(data) + b'"}'),
        ),
    ]
    for name, title, requirements, error, edit, raw in bad:
        yield _bad_next(name, title, requirements, error, edit=edit, raw=raw)
    yield _bad_next(
        "unsigned", "a version record without a signature", ("SIG-6", "SIG-2"), "bad_signature", signer=None
    )
    yield _bad_next(
        "key-not-listed", "a version record signed by a key that the stream does not list", ("SIG-6",),
        "bad_signature", signer="c",
    )  # fmt: skip
    yield _bad_next(
        "key-given-not-listed", "a version record signed by a key that was given, and that the stream does not list",
        ("SIG-6",), "bad_signature", signer="c", given=("a", "c"),
    )  # fmt: skip
    yield _bad_next(
        "unsigned-of-another-stream", "a version record of another stream without a signature", ("SIG-6", "STR-2"),
        "bad_signature", signer=None, edit=assign("stream_id", OTHER),
    )  # fmt: skip


def _bad_next(
    name: str, title: str, requirements: Sequence[str], error: str,
    *, edit: Edit = unedited, raw: Raw = same, signer: str | None = "a", given: Sequence[str] = ("a",),
) -> Draft:  # fmt: skip
    def grow(stream: Stream) -> None:
        stream.signer = signer
        stream.delta(trained(stream.states[-1], 1), edit=edit, raw=raw)

    stream = small_stream(name, versions=1, signers=["a", "b"])
    return refused_next(
        AREA, name, title, requirements, stream, error, grow=grow, options=keys(*given), features=FEATURES
    )


def _stream(
    name: str, *, signers: Sequence[str] = ("a",), signer: str | None = "a", edit: Edit = unedited, raw: Raw = same,
    writer_features: Sequence[str] = (),
) -> Stream:  # fmt: skip
    stream = Stream(name, signers=signers, writer_features=writer_features)
    stream.signer = signer
    stream.create(edit=edit, raw=raw)
    stream.signer = signers[0] if signers else None
    stream.rebase(small_model())
    return stream


def _streams() -> Iterator[Draft]:
    """A consumer that was given keys must refuse ``stream.json``."""
    bad: list[tuple[str, str, Sequence[str], Stream]] = [
        (
            "stream-not-signed",
            "a stream without signing keys",
            ["b"],
            _stream("stream-not-signed", signers=(), signer=None),
        ),
        (
            "stream-unsigned",
            "a stream record that lists a key and has no signature",
            ["a"],
            _stream("stream-unsigned", signer=None),
        ),
        ("stream-of-another", "a stream signed by another key than the one given", ["b"], _stream("stream-of-another")),
        (
            "stream-by-listed",
            "a stream record signed by a listed key that was not given, the one given listed too",
            ["b"],
            _stream("stream-by-listed", signers=("a", "b")),
        ),
        (
            "stream-not-listed",
            "a stream record signed by the key given, which it does not list",
            ["b"],
            _stream("stream-not-listed", signer="b"),
        ),
        (
            "stream-changed",
            "a stream record that was changed after it was signed",
            ["a"],
            _stream("stream-changed", raw=text('"many"', '"single"')),
        ),
    ]
    for name, title, given, stream in bad:
        yield refused(
            AREA, name, title, ["SIG-5"], stream, "bad_signature", options=keys(*given), features=FEATURES
        )  # fmt: skip
    yield refused(
        AREA, "given-small-order", "a given key for which anyone can sign", ["SIG-12"], _stream("given-small-order"),
        "invalid_argument", options={"public_keys": ["ed25519:" + "0" * 64]}, features=FEATURES,
    )  # fmt: skip


def _listed(key: bytes | None) -> Edit:
    """One more key in the list; that of the list again, if None."""

    def edit(record: Json) -> None:
        record["signing_keys"].append(record["signing_keys"][0] if key is None else "ed25519:" + key.hex())

    return edit


def _without_keys() -> Iterator[Draft]:
    """What every consumer refuses, given keys or not."""
    p = 2**255 - 19
    y8 = int("7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7", 16)
    small = [
        ("listed-zeros", "a listed key of 32 zero bytes", 0),
        ("listed-identity", "a listed key that is the neutral point, with the sign bit set", 1 | 1 << 255),
        ("listed-not-reduced", "a listed key that is the neutral point, its ordinate not reduced", p + 1),
        ("listed-order-eight", "a listed key that is a point of order 8", p - y8),
    ]
    for name, title, number in small:
        stream = _stream(name, edit=_listed(number.to_bytes(32, "little")))
        yield refused(AREA, name, title, ["SIG-12"], stream, "malformed_record")
    streams: list[tuple[str, str, Stream]] = [
        ("listed-twice", "a key that is listed twice", _stream("listed-twice", edit=_listed(None))),
        (
            "feature-missing",
            "a stream with signing keys and without the feature signed",
            _stream("feature-missing", edit=assign("writer_features", [])),
        ),
        (
            "feature-alone",
            "a stream with the feature signed and without signing keys",
            _stream("feature-alone", signers=(), signer=None, writer_features=["signed"]),
        ),
    ]
    for name, title, stream in streams:
        yield refused(AREA, name, title, ["SIG-1"], stream, "malformed_record")
    shapes: list[tuple[str, str, Raw]] = [
        ("value-upper-case", "a signature in upper case", lambda data: data.replace(_value(data), b"AB" * 64)),
        ("value-short", "a signature of 127 digits", lambda data: data.replace(_value(data), _value(data)[1:])),
        (
            "key-without-scheme",
            "a signature whose key is not said to be of Ed25519",
            text('"key":"ed25519:', '"key":"'),
        ),
    ]
    for name, title, raw in shapes:
        yield refused_next(
            AREA, name, title, ["SIG-8", "REC-2"], small_stream(name, versions=1, signers=["a"]), "malformed_record",
            grow=_grow_raw(raw),
        )  # fmt: skip


def _grow_raw(raw: Raw) -> Callable[[Stream], object]:
    return lambda stream: stream.delta(trained(stream.states[-1], 1), raw=raw)


def _sound() -> Iterator[Draft]:
    def by_the_other(stream: Stream) -> None:
        stream.signer = "b"
        stream.delta(trained(stream.states[-1], 1))

    yield good_next(
        AREA, "signed", "a signed stream, of which one version is signed by another listed key", ["SIG-3", "SIG-6"],
        stream=small_stream("signed", versions=2, signers=["a", "b"]), grow=by_the_other, options=keys("a"),
        features=FEATURES,
    )  # fmt: skip
    yield accepted(
        AREA, "no-keys-given", "a signed stream, read without keys", ["SIG-8"],
        small_stream("no-keys-given", signers=["a"]),
    )  # fmt: skip
    wrong = small_stream("wrong-signatures", versions=1, signers=["a"])
    wrong.delta(trained(wrong.states[0], 1), raw=text('"metadata":{}', '"metadata":{"a":1}'))
    wrong.signer = None
    wrong.delta(trained(wrong.states[1], 2))
    yield accepted(
        AREA, "wrong-signatures", "a version signed wrongly and one not at all, read without keys", ["SIG-8"], wrong
    )  # fmt: skip
    beside: list[tuple[str, str, str, Callable[[Stream], object]]] = [
        ("anchor-unsigned", "an anchor without a signature beside the line", "PLN-4", lambda s: s.anchor(2)),
        ("span-unsigned", "a span without a signature beside the line", "SPN-6", lambda s: s.span(0, 2)),
    ]
    for name, title, requirement, add in beside:
        stream = small_stream(name, signers=["a"])
        stream.signer = None
        add(stream)
        draft = accepted(AREA, name, title, ["SIG-6", requirement], stream, features=FEATURES)
        steps = (Put(), Materialize(version="latest", state="2", options=keys("a")))
        draft.case = msgspec.structs.replace(draft.case, steps=steps)
        yield draft


def _held_unsigned() -> Draft:
    stream = Stream("held-unsigned", signers=["a"])
    stream.create()
    stream.signer = None
    stream.rebase(small_model())
    stream.signer = "a"
    before = dict(stream.objects)
    stream.delta(trained(stream.states[-1], 1))
    return Draft(
        AREA,
        "held-unsigned",
        negative=True,
        case=Case(
            title="a version held, taken over without keys, whose record is not signed",
            requirements=("SIG-6",),
            role="consumer",
            features=FEATURES,
            steps=(
                Put(),
                Materialize(version=0, state="0"),
                Put(tree="then"),
                Materialize(version="latest", error=("bad_signature",), options=keys("a")),
            ),
        ),
        trees={"store": before, "then": changed(before, stream.objects)},
        states={"0": stream.states[0].neutral(0)},
    )


def _part_of_a_shard() -> Draft:
    stream = small_stream("part-of-a-shard", versions=1, signers=["a"])
    [shard] = stream.records[0]["snapshot"]["shards"]
    data = bytearray(stream.objects[shard["key"]])
    data[shard["header_bytes"]] ^= 1  # of norm.weight, whose elements are the widest
    stream.objects[shard["key"]] = bytes(data)
    return refused(
        AREA, "part-of-a-shard", "a shard that was changed in another tensor than the one wanted", ["SIG-7"], stream,
        "digest_mismatch", options={**keys("a"), "tensors": ["embed.weight"]}, features=("partial", "signatures"),
    )  # fmt: skip
