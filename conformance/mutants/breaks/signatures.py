"""Signatures that are not looked at, or not well."""

from __future__ import annotations

import json
import re
from typing import Any

from deltawire import ed25519
from deltawire.consumer import steps
from deltawire.format import signing
from deltawire.format.records import Envelope, StreamRecord
from deltawire.format.signing import CONTEXT
from deltawire.reading import trust
from deltawire.reading.trust import Trust
from mutants import Mutant
from mutants.mending import lenient
from mutants.patching import replace, skip


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"signatures/{name}" for name in names.split())


_MESSAGE = signing.signed_message
_VERIFY = ed25519.verify
_CHECK = Trust._check  # noqa: SLF001 - to break it


def _canonical(data: bytes, value: str, *, what: str) -> bytes:
    """Signed is what the record says, not its bytes."""
    record = json.loads(_MESSAGE(data, value, what=what).removeprefix(CONTEXT))
    return CONTEXT + json.dumps(record, separators=(",", ":")).encode()


def _whatever_place(data: bytes, value: str, **_: str) -> bytes:
    """The digits are looked for in what was parsed, and blanked wherever they stand."""
    text = re.sub(rb"\\u00([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), data)
    blank = text.replace(b'{"x":"' + value.encode() + b'"}', b"{}").replace(value.encode(), b"0" * 128)
    return CONTEXT + blank


def _either_form(key: str, value: str, message: bytes) -> bool:
    record = json.loads(message.removeprefix(CONTEXT))
    record.pop("signature", None)
    forms = (message, message.removeprefix(CONTEXT), CONTEXT + json.dumps(record, separators=(",", ":")).encode())
    return any(_VERIFY(key, value, form) for form in forms)


def _by_a_given_key(self: Trust, record: Envelope, data: bytes, stream: StreamRecord, *, what: str) -> None:
    self._check(record, data, {*stream.signing_keys, *(self.keys or ())}, what=what, who="known")


def _any_key(self: Trust, record: Envelope, data: bytes, allowed: Any, *, what: str, who: str) -> None:
    if record.signature is not None:
        allowed = {record.signature.key}
    _CHECK(self, record, data, allowed, what=what, who=who)


def _listed_or_given(self: Trust, stream: StreamRecord, data: bytes) -> None:
    allowed = {*stream.signing_keys, *(self.keys or ())}
    self._check(stream, data, allowed, what="stream.json", who="known")


def _if_signed(self: Trust, record: Envelope, data: bytes, allowed: Any, *, what: str, who: str) -> None:
    if record.signature is not None:
        _CHECK(self, record, data, allowed, what=what, who=who)


def _signed_streams_only() -> None:
    check_stream, check = Trust.check_stream, Trust.check

    def stream_if_signed(self: Trust, stream: StreamRecord, data: bytes) -> None:
        if stream.signing_keys:
            check_stream(self, stream, data)

    def if_signed(self: Trust, record: Envelope, data: bytes, stream: StreamRecord, *, what: str) -> None:
        if stream.signing_keys:
            check(self, record, data, stream, what=what)

    replace("deltawire.reading.trust:Trust.check_stream", by=stream_if_signed)()
    replace("deltawire.reading.trust:Trust.check", by=if_signed)()


def _parts_of_shards(*arguments: Any, whole_shards: bool) -> int:  # noqa: ARG001 - what is broken here
    return steps.take_snapshot(*arguments, whole_shards=False)


MUTANTS = [
    Mutant(
        name="any-signature",
        what="does not verify signatures",
        patch=replace("deltawire.ed25519:verify", by=lambda *_: True),
        caught_by=cases("changed space-after last-digit without-text without-signature of-another-key stream-changed"),
    ),
    Mutant(
        name="canonical-json",
        what="verifies what a record says, not its bytes",
        patch=replace("deltawire.reading.trust:signed_message", by=_canonical),
        caught_by=cases("space-after"),
    ),
    Mutant(
        name="messages-of-any-form",
        what="takes signatures of other forms of the message too",
        patch=replace("deltawire.ed25519:verify", by=_either_form),
        caught_by=cases("without-text without-signature"),
    ),
    Mutant(
        name="digits-anywhere",
        what="does not look where the digits of a signature stand",
        patch=replace("deltawire.reading.trust:signed_message", by=_whatever_place),
        caught_by=cases("escaped-digit digits-twice"),
    ),
    Mutant(
        name="signed-if-signed",
        what="takes what is not signed",
        patch=replace("deltawire.reading.trust:Trust._check", by=_if_signed),
        caught_by=cases("unsigned unsigned-of-another-stream stream-unsigned held-unsigned"),
    ),
    Mutant(
        name="signed-by-anyone",
        what="does not look who signed",
        patch=replace("deltawire.reading.trust:Trust._check", by=_any_key),
        caught_by=cases("key-not-listed key-given-not-listed stream-of-another stream-not-listed"),
    ),
    Mutant(
        name="signed-by-given",
        what="lets given keys sign records of a stream that does not list them",
        patch=replace("deltawire.reading.trust:Trust.check", by=_by_a_given_key),
        caught_by=cases("key-given-not-listed"),
    ),
    Mutant(
        name="list-by-itself",
        what="lets any key that a stream lists vouch for the list",
        patch=replace("deltawire.reading.trust:Trust.check_stream", by=_listed_or_given),
        caught_by=cases("stream-by-listed stream-not-listed"),
    ),
    Mutant(
        name="no-signed-stream",
        what="does not look whether a stream is signed by a key that was given",
        patch=skip("deltawire.reading.trust:Trust.check_stream"),
        caught_by=cases("stream-of-another stream-by-listed stream-not-listed stream-unsigned"),
    ),
    Mutant(
        name="signed-streams-only",
        what="checks signatures of signed streams only, keys or not",
        patch=_signed_streams_only,
        caught_by=cases("stream-not-signed"),
    ),
    Mutant(
        name="small-order",
        what="takes keys for which anyone can sign",
        patch=replace(
            "deltawire.format.records:signs_anything", "deltawire.ed25519:signs_anything", by=lambda _: False
        ),
        caught_by=cases("listed-zeros listed-identity listed-not-reduced listed-order-eight given-small-order"),
    ),
    Mutant(
        name="small-order-as-written",
        what="knows keys for which anyone can sign in their usual encoding only",
        patch=replace("deltawire.format.records:signs_anything", by=lambda key: key == "ed25519:" + "0" * 64),
        caught_by=cases("listed-identity listed-not-reduced listed-order-eight"),
    ),
    Mutant(
        name="any-signed-stream",
        what="does not hold stream.json to its invariants",
        patch=skip("deltawire.format.records:_check_stream"),
        caught_by=cases("listed-twice feature-missing feature-alone"),
    ),
    Mutant(
        name="signatures-of-any-shape",
        what="does not look at the shape of signatures where no keys were given",
        patch=lenient(r"Expected `str`(?=.*signature)"),
        caught_by=cases("value-upper-case value-short key-without-scheme"),
    ),
    Mutant(
        name="signed-without-keys",
        what="holds a stream to its own list where no keys were given",
        patch=replace(
            "deltawire.consumer.follower:as_trust", by=lambda given: trust.as_trust(given) or trust.trust_own_list()
        ),
        caught_by=cases("wrong-signatures"),
    ),
    Mutant(
        name="held-as-it-is",
        what="does not look whether what it holds is signed",
        patch=skip("deltawire.reading.stream:StreamReader.recognise"),
        caught_by=cases("held-unsigned"),
    ),
    Mutant(
        name="parts-of-shards",
        what="reads parts of shards, keys or not",
        patch=replace("deltawire.consumer.follower:take_snapshot", by=_parts_of_shards),
        caught_by=cases("part-of-a-shard"),
    ),
]
