"""Records that are believed too soon."""

from __future__ import annotations

import json
import posixpath
import re
from typing import Any

from deltawire import errors
from deltawire.format import strict_json
from deltawire.reading.stream import Committed
from mutants import Mutant
from mutants.mending import lenient, mended, mended_bytes
from mutants.patching import replace, skip


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"records/{name}" for name in names.split())


def _first_value(data: bytes) -> bytes:
    value, _ = json.JSONDecoder().raw_decode(data.decode())
    return json.dumps(value).encode()


def _plain_files(value: dict[str, Any]) -> None:
    files = value.get("files")
    if isinstance(files, list):
        value["files"] = [file for file in files if re.fullmatch(r"\w+\.json", posixpath.basename(file["name"]))]
        for file in value["files"]:
            file["name"] = posixpath.basename(file["name"])
        value["files"] = list({file["name"]: file for file in value["files"]}.values())


def _no_null(value: dict[str, Any]) -> None:
    for name in [name for name, member in value.items() if member is None]:
        del value[name]


def _nothing_changed(value: dict[str, Any]) -> None:
    if value.get("kind") == "version" and not value.keys() & {"delta", "snapshot"}:
        value["delta"] = {"changed_elements": 0, "changed_tensors": 0, "digest_before": "0" * 16}
        value["delta"] |= {"digest_after": "0" * 16, "parts": []}


def _replaced_bytes() -> None:
    def readable(data: bytes) -> bytes:
        return data.decode(errors="replace").encode()

    mended_bytes(readable)()
    replace(
        "deltawire.reading.stream:Committed", by=lambda record, digest, data: Committed(record, digest, readable(data))
    )()


def _counts_nothing(value: dict[str, Any]) -> None:
    delta = value.get("delta")
    if delta is not None and not delta["parts"]:
        delta.update(changed_elements=0, digest_after=delta["digest_before"])


MUTANTS = [
    Mutant(
        name="member-twice",
        what="keeps the last of two members of one name",
        patch=replace("deltawire.format.strict_json:_unique", by=dict),
        caught_by=cases("member-twice member-twice-in-metadata json-before-protocol"),
    ),
    Mutant(
        name="byte-order-mark",
        what="skips a byte order mark",
        patch=mended_bytes(lambda data: data.removeprefix(b"\xef\xbb\xbf")),
        caught_by=cases("byte-order-mark"),
    ),
    Mutant(
        name="replaced-bytes",
        what="puts replacement characters where bytes are not UTF-8",
        patch=_replaced_bytes,
        caught_by=cases("not-utf-8"),
    ),
    Mutant(
        name="half-surrogates",
        what="puts a question mark in the place of half a surrogate pair",
        patch=mended_bytes(lambda data: data.replace(rb"\ud800", b"?")),
        caught_by=cases("half-surrogate"),
    ),
    Mutant(
        name="not-a-number",
        what="takes NaN for a number",
        patch=replace("deltawire.format.strict_json:_no_constant", by=float),
        caught_by=cases("nan"),
    ),
    Mutant(
        name="infinite-numbers",
        what="takes numbers that no double holds",
        patch=replace(
            "deltawire.format.strict_json:_finite", "deltawire.format.strict_json:_within_double", by=lambda _: 0
        ),
        caught_by=cases("number-beyond-double integer-beyond-double"),
    ),
    Mutant(
        name="first-value",
        what="stops reading where a JSON value ends",
        patch=mended_bytes(_first_value),
        caught_by=cases("trailing-object"),
    ),
    Mutant(
        name="forgiving-json",
        what="reads JSON with commas too many and a bracket too few",
        patch=mended_bytes(lambda data: re.sub(rb",\}$", b"}", data) if data.endswith(b"}") else data + b"}"),
        caught_by=cases("trailing-comma"),
    ),
    Mutant(
        name="completed-json",
        what="closes an object that was cut short",
        patch=mended_bytes(lambda data: data + b"}" * (data.count(b"{") - data.count(b"}"))),
        caught_by=cases("cut-short"),
    ),
    Mutant(
        name="unwrapped-array",
        what="takes an array of one record for the record",
        patch=mended_bytes(lambda data: data[1:-1] if data.startswith(b"[") else data),
        caught_by=cases("array-of-a-record"),
    ),
    Mutant(
        name="any-numbers",
        what="takes any value for an integer",
        patch=lenient("Expected `int`"),
        caught_by=cases("epoch-fraction epoch-exponent epoch-negative epoch-too-large epoch-true"),
    ),
    Mutant(
        name="members-missing",
        what="does without members of the envelope",
        patch=lenient("Object missing"),
        caught_by=cases(
            "kind-missing commit-id-missing epoch-missing producer-missing reader-features-missing "
            "writer-features-missing metadata-missing shape-before-stream"
        ),
    ),
    Mutant(
        name="any-strings",
        what="takes any string for an identity, a time or a digest",
        patch=lenient("Expected `str`|Invalid enum"),
        caught_by=cases(
            "commit-id-upper-case created-at-offset created-at-long-fraction state-digest-upper-case "
            "table-digest-bare kind-of-an-anchor producer-name-empty producer-name-long "
            "unknown-writers"
        ),
    ),
    Mutant(
        name="any-kind",
        what="takes an array for an object, and a record of one kind for one of another",
        patch=lenient("Expected `object`|Invalid enum"),
        caught_by=cases("metadata-an-array"),
    ),
    Mutant(
        name="null-is-absent",
        what="takes null for a member that is not there",
        patch=mended(_no_null),
        caught_by=cases("null-member"),
    ),
    Mutant(
        name="any-version",
        what="does not hold a version record to its invariants",
        patch=skip("deltawire.format.records:_check_version"),
        caught_by=cases("parent-missing parent-itself delta-and-snapshot first-version-a-child first-version-a-delta"),
    ),
    Mutant(
        name="nothing-said",
        what="takes a version that says nothing of its state for one in which nothing changed",
        patch=mended(_nothing_changed),
        caught_by=cases("delta-missing"),
    ),
    Mutant(
        name="counted-nothing",
        what="does not look at the counts of a delta without parts",
        patch=mended(_counts_nothing),
        caught_by=cases("nothing-changed-counted nothing-changed-moved"),
    ),
    Mutant(
        name="file-names",
        what="makes the best of names of auxiliary files",
        patch=mended(_plain_files),
        caught_by=cases("file-in-a-folder file-two-dots file-backslash file-weights file-twice file-101-characters"),
    ),
    Mutant(
        name="any-stream",
        what="does not look whether a record belongs to the stream",
        patch=skip("deltawire.reading.stream:check_ours"),
        caught_by=cases("wrong-stream-id"),
    ),
    Mutant(
        name="empty-stream",
        what="takes a prefix without stream.json for a stream without versions",
        patch=replace("deltawire.reading.stream:StreamNotFoundError", by=errors.VersionNotFoundError),
        caught_by=cases("no-stream-record"),
    ),
    Mutant(
        name="lost-beginning",
        what="takes a stream that has no version yet for one whose beginning is lost",
        patch=replace("deltawire.reading.stream:VersionNotFoundError", by=errors.PathLostError),
        caught_by=(*cases("no-version-yet"), "head/of-no-version"),
    ),
    Mutant(
        name="rewritten-records",
        what="takes the digest of a record over a rewritten form",
        patch=replace(
            "deltawire.reading.stream:sha256",
            by=lambda data: strict_json.sha256(json.dumps(json.loads(data), separators=(",", ":")).encode()),
        ),
        caught_by=cases("white-space"),
    ),
]
