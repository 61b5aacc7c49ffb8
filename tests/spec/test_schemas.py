"""The JSON Schemas: sound themselves, passed by what the publisher writes, and at one with the reference decoder."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from deltawire.errors import DeltawireError
from deltawire.format import strict_json
from tests.spec.schemas import BASE, RECORDS, schemas, valid
from tests.spec.shapes import SHAPES, decode

Samples = list[tuple[str, dict[str, Any]]]
Path = tuple[str | int, ...]

WRONG: list[Any] = [None, [], {}, "", -1, 1.5, True, 2**53, "a/../b"]
"""Values of which any one member accepts few."""


def _accepts(kind: str, value: object) -> bool:
    try:
        decode(kind, json.dumps(value).encode())
    except DeltawireError:
        return False
    return True


def _has_shape(kind: str, value: dict[str, Any]) -> bool:
    """Whether the types of the members are right, whatever their values say together."""
    try:
        strict_json.refuse_null(value, SHAPES[kind][0], what=kind)
        strict_json.convert(value, SHAPES[kind][0], what=kind)
    except DeltawireError:
        return False
    return True


def _places(value: object, path: Path = ()) -> Iterator[Path]:
    """Places of all members and items but those of ``metadata``."""
    if path and path[-1] == "metadata":
        return
    children: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value[:1]))
    for name, child in children:
        yield (*path, name)
        yield from _places(child, (*path, name))


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


@pytest.mark.parametrize("path", schemas())
def test_schema_is_sound(path: str) -> None:
    schema = schemas()[path]
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == BASE + path
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    named = [schema, *schema.get("$defs", {}).values()]
    assert all("SPEC.md section" in node["$comment"] for node in named)
    assert all(node["description"].endswith(".") for node in named)


def test_every_record_has_both_schemas() -> None:
    assert set(schemas()) == {f"{folder}{name}.json" for folder in ("", "strict/") for name in (*RECORDS, "common")}


@pytest.mark.parametrize("strict", [False, True], ids=["open", "strict"])
def test_published_objects_pass(published: list[tuple[str, bytes]], strict: bool) -> None:
    for kind, data in published:
        assert valid(kind, json.loads(data), strict=strict), data


def test_unknown_members_pass_only_open(samples: Samples) -> None:
    for kind, sample in samples:
        objects = [path for path in [(), *_places(sample)] if isinstance(_at(sample, path), dict)]
        for path in objects:
            if path and path[-1] == "metadata":
                continue
            value = copy.deepcopy(sample)
            _at(value, path)["later"] = {"anything": [None]}
            assert valid(kind, value, strict=False), path
            assert not valid(kind, value, strict=True), path
            assert _accepts(kind, value), path


def test_missing_members(samples: Samples) -> None:
    for kind, sample in samples:
        for path in _places(sample):
            if not isinstance(path[-1], str):
                continue
            value = copy.deepcopy(sample)
            del _at(value, path[:-1])[path[-1]]
            assert valid(kind, value, strict=False) == _accepts(kind, value), path


def test_wrong_values(samples: Samples) -> None:
    refused = 0
    for kind, sample in samples:
        for path in _places(sample):
            for wrong in WRONG:
                value = copy.deepcopy(sample)
                _at(value, path[:-1])[path[-1]] = wrong
                passes = valid(kind, value, strict=False)
                # Never stricter than the decoder, and no laxer about shapes.
                assert passes or not _accepts(kind, value), (path, wrong)
                assert not passes or _has_shape(kind, value), (path, wrong)
                refused += not passes
    assert refused > 1000


@pytest.mark.parametrize(
    ("kind", "path", "wrong"),
    [
        ("version", ("version",), 0),
        ("version", ("delta", "parts", 0, "media_type"), "application/octet-stream"),
        ("version", ("delta", "parts"), []),
        ("version", ("delta", "parts", 0, "streams"), ["positions", "positions"]),
        ("version", ("snapshot",), {}),
        ("anchor", ("snapshot", "shards"), []),
        ("anchor", ("snapshot", "shards", 0, "header_bytes"), 7),
        ("tensor_table", ("tensors",), []),
        ("tensor_table", ("tensors", 0, "name"), "__metadata__"),
        ("tensor_table", ("tensors", 0, "name"), "a\u202eb"),
        ("tensor_table", ("aliases", 0, "name"), "a\nb"),
        ("patch", ("tensors", "key"), "other.json"),
        ("patch", ("files", 0, "key"), "config.json"),
        ("patch", ("removed_files", 0), "a.safetensors"),
        ("version", ("files", 0, "name"), "tensors"),
        ("patch", ("delta", "parts", 0, "key"), "part-0.arrow"),
        ("stream", ("protocol",), "other"),
        ("stream", ("kind",), "version"),
        ("stream", ("signing_keys",), ["ed25519:" + "A" * 64]),
        ("stream", ("signing_keys",), ["ed25519:" + "0" * 64] * 2),
        ("stream", ("writer_features",), ["signed", "absolute", "Signed"]),
        ("version", ("signature",), {"key": "ed25519:" + "0" * 64, "value": "0" * 127}),
        ("anchor", ("signature",), {"key": "0" * 64, "value": "0" * 128}),
        ("lease", ("ttl_ms",), 0),
        ("lease", ("ttl_ms",), 86_400_001),
        ("lease", ("released",), "no"),
        ("lease", ("holder",), ""),
    ],
)
def test_what_schema_and_decoder_both_refuse(samples: Samples, kind: str, path: Path, wrong: object) -> None:
    tried = 0
    for name, sample in samples:
        if name != kind or (kind == "version" and not sample.get("delta", {}).get("parts")):
            continue
        value = copy.deepcopy(sample)
        try:
            _at(value, path[:-1])[path[-1]] = wrong
        except (KeyError, IndexError):
            continue
        tried += 1
        assert not valid(kind, value, strict=False)
        assert not _accepts(kind, value)
    assert tried


@pytest.mark.parametrize(
    ("kind", "path", "loose"),
    [
        ("stream", ("protocol_version",), "0.2"),
        ("version", ("writer_features",), ["novel-dev"]),
        ("version", ("tensors", "key"), "elsewhere/table.json"),
        ("version", ("files", 0, "key"), "files/config.json"),
        ("anchor", ("snapshot", "files", 0, "key"), "data/config.json"),
        ("version", ("signature",), {"key": "ed25519:" + "0" * 64, "value": "0" * 128, "later": 1}),
        ("head", ("signature",), {"key": "ed25519:" + "0" * 64, "value": "0" * 128}),
        ("lease", ("signature",), {"key": "ed25519:" + "0" * 64, "value": "0" * 128}),
        ("version", ("delta", "parts", 0, "batches"), []),
        ("version", ("delta", "parts", 0, "key"), "parts/0.arrow"),
        ("anchor", ("snapshot", "index", "key"), "index.json"),
    ],
)
def test_what_only_producers_must_not_do(samples: Samples, kind: str, path: Path, loose: object) -> None:
    tried = 0
    for name, sample in samples:
        if name != kind:
            continue
        value = copy.deepcopy(sample)
        try:
            _at(value, path[:-1])[path[-1]] = loose
        except (KeyError, IndexError):
            continue
        tried += 1
        assert valid(kind, value, strict=False)
        assert _accepts(kind, value)
        assert not valid(kind, value, strict=True)
    assert tried
