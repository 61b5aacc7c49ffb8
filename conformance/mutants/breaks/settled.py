"""The other reading of what SPEC.md has settled since."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from deltawire.errors import MalformedShardError
from mutants import Mutant
from mutants.patching import both, edit, replace, skip, wrap


def _rewritten(data: bytes, member: str) -> int:
    return len(msgspec.json.encode(json.loads(data)[member]))


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for name, value in new.items():
        both_objects = isinstance(old.get(name), dict) and isinstance(value, dict)
        merged[name] = _merged(old[name], value) if both_objects else value
    return merged


def _but(name: str) -> Callable[[Any], Any]:
    """Limits without one of them."""

    def check(real: Any) -> Any:
        return lambda self, limit, value, what: value if limit == name else real(self, limit, value, what)

    return check


MUTANTS = [
    Mutant(
        name="versions-with-leading-zeros",
        what="takes the numbers of a protocol version for numbers",
        patch=both(
            replace("deltawire.format.features:VERSION_STRING", by="[0-9.]+"),
            edit(
                "deltawire.format.features:check_protocol_of",
                ('version.split(".", maxsplit=1)[0] !=', 'str(int(version.split(".", maxsplit=1)[0])) !='),
            ),
            wrap(
                "deltawire.format.strict_json:convert",
                by=lambda real: lambda value, kind, **more: real({**value, "protocol_version": "0.1"}, kind, **more),
            ),
        ),
        caught_by=(
            "records/protocol-version-of-three",
            "records/version-with-leading-zero",
        ),
    ),
    Mutant(
        name="version-before-protocol",
        what="looks at the version of the protocol before its name, and at nothing but its first number",
        patch=edit(
            "deltawire.format.features:check_protocol_of",
            (
                "    if not isinstance(protocol, str):",
                "    if not isinstance(protocol, str) or type(version) is not str:",
            ),
            ("or not re.fullmatch(VERSION_STRING, version)", ""),
        ),
        caught_by=("records/protocol-before-version", "records/later-version-of-three"),
    ),
    Mutant(
        name="any-name-in-the-features",
        what="looks for names in reader features that are no list of names",
        patch=edit(
            "deltawire.format.records:decode",
            ("and all(isinstance(name, str) for name in required)", ""),
            ("tuple(required)", "tuple(name for name in required if isinstance(name, str))"),
        ),
        caught_by=("records/reader-features-mixed",),
    ),
    Mutant(
        name="metadata-rewritten",
        what="takes the size of metadata as it would write it itself",
        patch=replace("deltawire.format.strict_json:member_bytes", by=_rewritten),
        caught_by=("limits/metadata-of-numbers",),
    ),
    Mutant(
        name="tables-of-any-size",
        what="believes any size of a table that a record claims",
        patch=both(
            wrap("deltawire.limits:Limits.check", by=_but("table_bytes")),
            edit(
                "deltawire.reading.transfer:Transfer.read_object",
                ("if descriptor.bytes > max_bytes:", "if descriptor.bytes > max_bytes and 0:"),
            ),
        ),
        caught_by=("limits/table-bytes-claimed",),
    ),
    Mutant(
        name="rows-when-read",
        what="looks at the number of rows of a batch only when it reads it",
        patch=wrap("deltawire.limits:Limits.check", by=_but("rows")),
        caught_by=("limits/rows-not-wanted",),
    ),
    Mutant(
        name="batches-in-any-order",
        what="takes batches in any order that a record describes them in",
        patch=skip("deltawire.format.records:check_delta"),
        caught_by=("parts/batches-backwards",),
    ),
    Mutant(
        name="digests-of-tensors-first",
        what="compares the digests of tensors before the sha256 of their shard",
        patch=edit(
            "deltawire.consumer.loading:_load_shard",
            ('if whole and "sha256:" + hasher.hexdigest() != shard.digest:', "if False:"),
        ),
        caught_by=("snapshots/bit-flipped",),
    ),
    Mutant(
        name="deep-headers-as-malformed",
        what="calls a header that is too deep malformed",
        patch=replace("deltawire.format.strict_json:LimitExceededError", by=MalformedShardError),
        caught_by=("snapshots/header-too-deep",),
    ),
    Mutant(
        name="signer-before-digits",
        what="looks at who signed before it looks for the digits",
        patch=edit(
            "deltawire.reading.trust:Trust._check",
            ("    if signature is None:", "    if signature is None or signature.key not in allowed:"),
        ),
        caught_by=("signatures/digits-twice-by-another",),
    ),
    Mutant(
        name="no-keys-for-an-empty-list",
        what="takes an empty list of public keys for none",
        patch=wrap("deltawire.consumer.follower:as_trust", by=lambda real: lambda trust: real(trust or None)),
        caught_by=("signatures/no-key-in-the-list",),
    ),
    Mutant(
        name="up-to-date-below-the-boundary",
        what="takes what it holds for the newest version where nothing is there from the boundary on",
        patch=edit(
            "deltawire.reading.stream:StreamReader.latest",
            ("if max(newest, 0) < boundary:", "if max(newest, 0) < boundary and known is None:"),
        ),
        caught_by=("retention/nothing-from-the-boundary-on",),
    ),
    Mutant(
        name="makes-lost-streams-again",
        what="creates stream.json where it was lost",
        patch=replace("deltawire.producer.opening:_created_meanwhile", by=lambda *_: None),
        caught_by=("publishing/stream-record-lost",),
    ),
    Mutant(
        name="begins-below-the-boundary",
        what="publishes version 0 whatever the boundary is",
        patch=edit(
            "deltawire.reading.stream:StreamReader.latest",
            ("if max(newest, 0) < boundary:", "if 0 <= newest < boundary:"),
        ),
        caught_by=("publishing/boundary-of-nothing",),
    ),
    Mutant(
        name="keeps-members-of-members",
        what="keeps what it does not find in members that it writes anew",
        patch=both(
            replace("deltawire.format.strict_json:merge", by=_merged),
            replace("deltawire.format.strict_json:unknown", by=lambda record, _: record),
        ),
        caught_by=("lease/members-of-the-former",),
    ),
    Mutant(
        name="takes-every-lease",
        what="takes a lease in streams with a single writer too",
        patch=edit(
            "deltawire.producer.opening:open_line",
            ('stream.writers == "single" or ', ""),
            also=("deltawire.producer.publisher:open_line",),
        ),
        caught_by=("lease/single",),
    ),
]
