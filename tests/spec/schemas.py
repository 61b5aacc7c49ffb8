"""The JSON Schemas of ``schemas/``, ready to validate with."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.spec.document import ROOT

BASE = "https://deltawire.dev/schemas/0.1/"
FOLDER = ROOT / "schemas"
RECORDS = ("stream", "version", "anchor", "head", "lease", "pin", "retention", "span", "tensor_table", "patch")


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """Schemas by their path below ``schemas/``."""
    return {path.relative_to(FOLDER).as_posix(): json.loads(path.read_bytes()) for path in FOLDER.rglob("*.json")}


@cache
def _registry() -> Registry[dict[str, Any]]:
    return Registry().with_resources(
        (BASE + name, Resource.from_contents(schema)) for name, schema in schemas().items()
    )


@cache
def validator(name: str, *, strict: bool) -> Any:
    """Validator of one kind of record."""
    path = f"{'strict/' if strict else ''}{name}.json"
    return Draft202012Validator(schemas()[path], registry=_registry())


def valid(name: str, value: object, *, strict: bool) -> bool:
    """Whether a value passes a schema."""
    return bool(validator(name, strict=strict).is_valid(value))


def members(pointer: str) -> tuple[set[str], set[str]]:
    """All properties and the required ones of a schema, those it refers to included.

    ``pointer`` is ``version.json`` or ``common.json#/$defs/part``.
    """
    path, _, place = pointer.partition("#")
    node = schemas()[path]
    for step in filter(None, place.split("/")):
        node = node[step]
    properties, required = set(node.get("properties", {})), set(node.get("required", []))
    if reference := node.get("$ref"):
        more = members(path + reference if reference.startswith("#") else reference)
        properties, required = properties | more[0], required | more[1]
    return properties, required
