"""Tables of SPEC.md and what the code knows: the same, both ways."""

from __future__ import annotations

import dataclasses
import re

import pytest

from deltawire.codecs.registry import CODECS
from deltawire.consumer.timings import FollowTimings
from deltawire.errors import CODES
from deltawire.format import features, records
from deltawire.format.dtypes import DTYPES
from deltawire.limits import Limits
from deltawire.parts.rows import FIXED_FIELDS
from deltawire.patches.record import MEDIA_TYPE
from deltawire.producer.published import PublishTimings
from tests.spec import document
from tests.spec.schemas import members, schemas
from tests.spec.shapes import SHAPES, struct_members


def test_errors() -> None:
    listed = {row["Code"]: (row["Family"], row["Retryable"] == "yes") for row in document.table("table", "errors")}
    known = {
        code: (error.__mro__[1].__name__.removesuffix("Error").lower(), error.retryable)
        for code, error in CODES.items()
    }
    assert listed == known


def test_every_error_code_in_the_text_exists() -> None:
    words = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", document.prose()))
    endings = (
        "_exceeded",
        "_mismatch",
        "_found",
        "_lost",
        "_unknown",
        "_failed",
        "_held",
        "_unfit",
        "_denied",
        "_unavailable",
    )
    suspects = {word for word in words if word.endswith(endings) or word.startswith(("malformed_", "unsupported_"))}
    assert suspects
    assert not suspects - set(CODES)


def test_limits() -> None:
    listed = {row["Limit"]: int(row["Default"]) for row in document.table("table", "limits")}
    assert listed == {field.name: field.default for field in dataclasses.fields(Limits)}


def test_dtypes() -> None:
    listed = {
        row["Name"]: (int(row["Bits"]), int(row["Width in bytes"]), row["Order"])
        for row in document.table("table", "dtypes")
    }
    assert listed == {name: (dtype.bits, dtype.width, dtype.order) for name, dtype in DTYPES.items()}
    assert set(schemas()["strict/common.json"]["$defs"]["tensor"]["properties"]["dtype"]["enum"]) == set(DTYPES)


def _expand(streams: str, width: int) -> tuple[str, ...]:
    found: list[str] = []
    for part in streams.replace("`", "").split(", "):
        if " … " in part:
            prefix = part.partition("_")[0]
            found += [f"{prefix}_{plane}" for plane in range(width)]
        else:
            found.append(part)
    return tuple(found)


@pytest.mark.parametrize("dtype", ["U8", "BF16", "F32", "C64"])
def test_codecs(dtype: str) -> None:
    kind = DTYPES[dtype]
    listed = {
        row["Name"]: (row["Needs the base"] == "yes", _expand(row["Streams for width *w*"], kind.width))
        for row in document.table("table", "codecs")
    }
    assert listed == {name: (codec.needs_base, codec.streams(kind)) for name, codec in CODECS.items()}


def test_streams() -> None:
    named = {re.sub(r"<plane>", "", row["Name"]) for row in document.table("table", "streams")}
    used = {
        re.sub(r"[0-9]+$", "", stream)
        for codec in CODECS.values()
        for kind in DTYPES.values()
        for stream in codec.streams(kind)
    }
    assert named == used


def test_features() -> None:
    listed = {(row["Name"], row["List"]) for row in document.table("table", "features")}
    known = {(name, "reader_features") for name in features.READER_FEATURES}
    known |= {(name, "writer_features") for name in features.WRITER_FEATURES}
    assert listed == known
    strict = schemas()["strict/common.json"]["$defs"]["envelope"]["properties"]
    assert set(strict["writer_features"]["items"]["enum"]) == features.WRITER_FEATURES
    assert set(strict["reader_features"]["items"]["enum"]) == features.READER_FEATURES


def test_media_types() -> None:
    listed = {row["Media type"] for row in document.table("table", "media types")}
    known = {records.JSON_TYPE, records.ARROW_TYPE, records.SAFETENSORS_TYPE, records.BINARY_TYPE, MEDIA_TYPE}
    assert listed == known


def test_timings() -> None:
    listed = {(row["Name"], row["Role"]) for row in document.table("table", "timings")}
    known = {(field.name, "producer") for field in dataclasses.fields(PublishTimings)}
    known |= {(field.name, "consumer") for field in dataclasses.fields(FollowTimings)}
    assert listed == known


def test_columns() -> None:
    listed = [(row["Column"], row["Arrow type"]) for row in document.table("table", "columns")]
    names = {"string": "utf8", "list<item: uint64 not null>": "list<item: uint64>"}
    assert listed == [(field.name, names.get(str(field.type), str(field.type))) for field in FIXED_FIELDS]


def test_version() -> None:
    assert re.search(r"^\| Version \| (.*) \|$", document.text(), re.MULTILINE)[1] == features.PROTOCOL_VERSION  # type: ignore[index]
    strict = schemas()["strict/common.json"]["$defs"]["envelope"]["properties"]
    assert strict["protocol_version"]["const"] == features.PROTOCOL_VERSION


@pytest.mark.parametrize("name", SHAPES)
def test_members(name: str) -> None:
    struct, pointer, tables = SHAPES[name]
    known, required = struct_members(struct)
    assert members(pointer) == (known, required)
    rows = [row for table in tables for row in document.table("fields", table)]
    assert {row["Field"] for row in rows} == known
    assert {row["Field"] for row in rows if row["Producer"] == "required"} == required
    for row in rows:
        assert row["Producer"] == "required" or row["Producer"].startswith("optional: ")
        assert (row["Consumer"] == "required") == (row["Field"] in required)


def test_every_field_table_is_compared() -> None:
    assert set(document.marked("fields")) == {table for _, _, tables in SHAPES.values() for table in tables}
