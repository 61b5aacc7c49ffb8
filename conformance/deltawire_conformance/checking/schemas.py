"""Records against the JSON Schemas of ``schemas/``, and what in a schema names the requirement that is broken."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators
from referencing import Registry, Resource

from deltawire.format.features import PROTOCOL_VERSION
from deltawire_conformance.checking.findings import Finding, Severity
from deltawire_conformance.resources import SCHEMAS

_BASE = "https://deltawire.dev/schemas/0.1/"
_IDS = re.compile(r"\b[A-Z]{3}-\d+\b")
_MOST = 20
"""Findings of one object that are told apart."""

# JSON Schema takes 1.0 for an integer; JSN-3 does not.
_Validator = validators.extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    return {path.relative_to(SCHEMAS).as_posix(): json.loads(path.read_bytes()) for path in SCHEMAS.rglob("*.json")}


@cache
def _schema(path: str) -> dict[str, Any]:
    """A schema without references: what they lead to is in ``allOf``. There are no circles.

    A strict one is left without what it takes over from the open one, which is asked first, and without
    ``unevaluatedProperties``, which says of every member that it is unknown as soon as anything else is wrong.
    """
    registry: Registry[dict[str, Any]] = Registry().with_resources(
        (_BASE + name, Resource.from_contents(schema)) for name, schema in _schemas().items()
    )
    made: dict[str, Any] = _inlined(_schemas()[path], registry.resolver(base_uri=_BASE + path))
    return made


def _inlined(node: Any, resolver: Any) -> Any:
    if isinstance(node, list):
        return [_inlined(item, resolver) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {
        name: _inlined(value, resolver)
        for name, value in node.items()
        if name not in {"$ref", "$defs", "$id", "unevaluatedProperties"}
    }
    reference = node.get("$ref")
    if isinstance(reference, str) and not reference.startswith("../"):
        resolved = resolver.lookup(reference)
        plain["allOf"] = [_inlined(resolved.contents, resolved.resolver), *plain.get("allOf", [])]
    return plain


@cache
def _validator(path: str) -> Any:
    return _Validator(_schema(path))


def shape_findings(kind: str, value: dict[str, Any], key: str) -> list[Finding]:
    """What makes a record malformed.

    Args:
        kind: name of its schema.
        value: its members.
        key: of the object.
    """
    errors = [leaf for error in _validator(f"{kind}.json").iter_errors(value) for leaf in _leaves(error)]
    found = [
        Finding(
            requirement=_requirement(kind, error),
            severity="error",
            key=key,
            code="malformed_record",
            message=f"{_place(error)}{_said(error)}",
        )
        for error in errors[:_MOST]
    ]
    if len(errors) > _MOST:
        more = f"{len(errors) - _MOST} more things are not as schemas/{kind}.json says"
        found.append(Finding(requirement="REC-2", severity="error", key=key, code="malformed_record", message=more))
    return found


def producer_findings(kind: str, value: dict[str, Any], key: str) -> Iterator[Finding]:
    """What a producer of version 0.1 does not write, in a record whose shape is right."""
    for place, name in sorted(_unknown(value, [_schema(f"{kind}.json")], ""))[:_MOST]:
        message = f"{place}{name[:80]!r} is no member that version {PROTOCOL_VERSION} has"
        yield Finding(requirement="VER-4", severity="note", key=key, message=message)
    if value.get("protocol_version") != PROTOCOL_VERSION:
        message = f"it is of version {value.get('protocol_version')}; what is new there was not checked"
        yield Finding(requirement="VER-1", severity="note", key=key, message=message)
        return
    for error in list(_validator(f"strict/{kind}.json").iter_errors(value))[:_MOST]:
        yield from _producer_finding(kind, error, key)


def _producer_finding(kind: str, error: ValidationError, key: str) -> Iterator[Finding]:
    for leaf in _leaves(error):
        path = [step for step in leaf.absolute_path if isinstance(step, str)]
        if leaf.validator in {None, "required"} or path[-1:] == ["media_type"]:
            continue  # whether there is a signature, and what a table is said to be, is held to the whole line
        if path[:1] == ["reader_features"]:
            continue  # told by whoever reads the record (VER-2)
        requirement, severity = _requirement(f"strict/{kind}", leaf), _severity(leaf)
        if severity == "should":
            requirement = _OMITTED[path[-1]]
        if path[:1] == ["writer_features"]:
            requirement, severity = "VER-3", "should" if leaf.validator == "uniqueItems" else "note"
        yield Finding(requirement=requirement, severity=severity, key=key, message=f"{_place(leaf)}{_said(leaf)}")


def _severity(error: ValidationError) -> Severity:
    # Lists that may be left out are left out where they are empty: the field tables say so, no requirement does.
    return "should" if error.validator == "minItems" and error.absolute_path[-1] in _OMITTED else "error"


_OMITTED = {"files": "FIL-1", "aliases": "TAB-4", "kept": "RET-1", "signing_keys": "SIG-1"}


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    """An error of ``if`` or ``not`` is told as what failed within it; one of alternatives as a whole."""
    if error.context and error.validator in {"if", "allOf"}:
        for inner in error.context:
            yield from _leaves(inner)
    else:
        yield error


def _place(error: ValidationError) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:80]}" for step in error.absolute_path)
    return f"{path.lstrip('.')}: " if path else ""


_SAID = {
    "oneOf": "exactly one of delta and snapshot must be there",
    "minItems": "it must not be empty",
    "uniqueItems": "it has an item twice",
}


def _said(error: ValidationError) -> str:
    value = json.dumps(error.instance, default=str)
    shown = value if len(value) <= 80 else value[:77] + "..."
    match error.validator:
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            return f"there is no {' and no '.join(missing)}"
        case "type":
            return f"{shown} is not of the type {error.validator_value}"
        case "pattern":
            return f"{shown} is not of the form that it must have"
        case "const":
            return f"{shown} is not {json.dumps(error.validator_value)}"
        case "enum":
            return f"{shown} is none of the values allowed"
        case "not":
            return f"{shown} must not be like this"
        case str(name) if name in _SAID:
            return _SAID[name]
        case _:
            return str(error.message)[:200]


def _requirement(kind: str, error: ValidationError) -> str:
    """The first requirement that the innermost commented schema on the way to the error names."""
    path = list(error.absolute_schema_path)
    if error.instance is None:
        return "JSN-4"
    if error.validator == "type" and error.validator_value == "integer":
        return "JSN-3"
    if kind == "version" and path[:1] in (["then"], ["else"], ["oneOf"]):
        return "VSN-3" if "parent" in str(error.validator_value) else "VSN-4"
    if path[:2] == ["properties", "kind"]:
        return "REC-1"
    return _commented(f"{kind}.json", path)


def _commented(name: str, path: Iterable[str | int]) -> str:
    node: Any = _schema(name)
    found = _ids_of(node)
    for step in path:
        node = node[step]
        found = _ids_of(node) or found
    return found or "REC-2"


def _ids_of(node: Any) -> str:
    comment = node.get("$comment") if isinstance(node, dict) else None
    named = _IDS.search(comment) if isinstance(comment, str) else None
    return named[0] if named else ""


def _unknown(value: Any, schemas: list[dict[str, Any]], place: str) -> Iterator[tuple[str, str]]:
    """Members that no schema of a place knows. Free objects (``metadata``) have no members to know."""
    schemas = list(_with_all(schemas))
    if isinstance(value, list):
        items = [schema["items"] for schema in schemas if "items" in schema]
        for number, item in enumerate(value if items else []):
            yield from _unknown(item, items, f"{place.rstrip('.')}[{number}].")
    elif isinstance(value, dict) and any("properties" in schema for schema in schemas):
        for name, member in value.items():
            known = [schema["properties"][name] for schema in schemas if name in schema.get("properties", {})]
            if known:
                yield from _unknown(member, known, f"{place}{name}.")
            else:
                yield place, name


def _with_all(schemas: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for schema in schemas:
        yield schema
        yield from _with_all(schema.get("allOf", []))
