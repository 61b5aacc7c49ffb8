"""Tensor tables (SPEC.md section 8.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from authoring.drafts import Draft, accepted, refused_next
from authoring.states import small_model, trained
from authoring.stream import Edit, Json, Raw, Stream, same, small_stream, unedited

AREA = "tables"


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _names()
    yield from _aliases()
    yield from _shape()
    yield from _stored()
    yield from _sound()


def _next(
    name: str, title: str, requirements: Sequence[str], table: Edit, error: str = "malformed_record", *,
    raw: Raw = same, record: Edit = unedited, stored: Callable[[bytes], bytes | None] = lambda data: data,
) -> Draft:  # fmt: skip
    """A rebase with a faulty table.

    Args:
        name, title, requirements: of the case.
        table, raw: change the table.
        error: the code.
        record: changes the version's record.
        stored: what is stored in the end; None for nothing.
    """

    def grow(stream: Stream) -> None:
        key = stream.rebase(small_model(seed="next"), table=table, table_raw=raw, edit=record)["tensors"]["key"]
        found = stored(stream.objects.pop(key))
        if found is not None:
            stream.objects[key] = found

    stream = small_stream(f"tables {name}", versions=1)
    return refused_next(AREA, name, title, requirements, stream, error, grow=grow)


def _tensor(**members: object) -> Edit:
    """Say something else of the last tensor."""
    return lambda table: table["tensors"][2].update(members)


def _says(**members: object) -> Edit:
    return lambda table: table.update(members)


def _names() -> Iterator[Draft]:
    for name, title, written in (
        ("name-twice", "two tensors of one name", "embed.weight"),
        ("name-metadata", "a tensor called __metadata__", "__metadata__"),
        ("name-control", "a tensor with a bell in its name", "norm\u0007weight"),
        ("name-next-line", "a tensor with U+0085 in its name", "norm\u0085weight"),
        ("name-reversed", "a tensor with a reversal of direction in its name", "norm\u202eweight"),
        ("name-empty", "a tensor with an empty name", ""),
    ):
        yield _next(name, title, ["TAB-3"], _tensor(name=written))
    yield _next(
        "name-too-long", "a tensor with a name of 1025 bytes", ["TAB-2", "LIM-1"], _tensor(name="ä" * 512 + "a"),
        "limit_exceeded",
    )  # fmt: skip


def _alias(name: str, target: str) -> Json:
    return {"name": name, "target": target}


def _aliases() -> Iterator[Draft]:
    head = _alias("head", "embed.weight")
    for name, title, requirement, aliases in (
        ("alias-of-alias", "an alias of an alias", "TAB-4", [head, _alias("top", "head")]),
        ("alias-of-nothing", "an alias of a tensor that is not there", "TAB-4", [_alias("head", "lm_head.weight")]),
        ("alias-is-tensor", "an alias with the name of a tensor", "TAB-3", [_alias("norm.weight", "embed.weight")]),
        ("alias-twice", "two aliases of one name", "TAB-3", [head, _alias("head", "norm.weight")]),
        ("alias-control", "an alias with a line feed in its name", "TAB-3", [_alias("he\nad", "embed.weight")]),
    ):
        yield _next(name, title, [requirement], _says(aliases=aliases))


def _shape() -> Iterator[Draft]:
    yield _next("empty", "a table without tensors", ["TAB-2"], _says(tensors=[]))
    yield _next("protocol", "a table of another protocol", ["TAB-5"], _says(protocol="other"), "unsupported_protocol")
    yield _next(
        "major-version", "a table of another major version and shape", ["TAB-5", "VER-1"],
        _says(protocol_version="1.0", tensors={}), "unsupported_protocol",
    )  # fmt: skip
    yield _next("kind", "a table that says that it is a version", ["TAB-1", "REC-2"], _says(kind="version"))
    yield _next("extent-negative", "a tensor with a negative extent", ["JSN-3"], _tensor(shape=[-7]))
    yield _next("aliases-null", "a table with null in place of its aliases", ["JSN-4"], _says(aliases=None))
    yield _next("extent-true", "a tensor with true for an extent", ["JSN-3"], _tensor(shape=[True]))
    yield _next(
        "too-many-dimensions", "a tensor of seventeen dimensions", ["TAB-2", "LIM-1"], _tensor(shape=[7] + [1] * 16),
        "limit_exceeded",
    )  # fmt: skip
    yield _next(
        "tensor-too-large", "a tensor of 2^80 bytes", ["TAB-2", "LIM-1"], _tensor(shape=[1 << 40, 1 << 38]),
        "limit_exceeded",
    )  # fmt: skip


def _stored() -> Iterator[Draft]:
    none = unedited
    yield _next("missing", "a table that is not in the store", ["DSC-3"], none, "missing_object", stored=lambda _: None)
    yield _next(
        "longer", "a table with a space more than its record says", ["DSC-3"], none, "size_mismatch",
        stored=lambda data: data + b" ",
    )  # fmt: skip
    yield _next(
        "other-bytes", "a table of the right size with other bytes", ["DSC-3"], none, "digest_mismatch",
        stored=lambda data: data.replace(b"norm", b"form"),
    )  # fmt: skip
    yield _next(
        "cut", "a table that ends before its JSON does", ["JSN-1", "JSN-2"], none, raw=lambda data: data[:-1]
    )  # fmt: skip


def _sound() -> Iterator[Draft]:
    stream = Stream("tables aliases")
    stream.create()
    state = replace(
        small_model(), aliases={"lm_head.weight": "embed.weight", "output": "embed.weight", "ø": "norm.weight"}
    )
    stream.rebase(state)
    stream.delta(trained(state, 1))
    yield accepted(
        AREA, "aliases", "three aliases, two of them of one tensor", ["TAB-4", "TAB-3", "DIG-3"], stream
    )  # fmt: skip
    stream = Stream("tables later")
    stream.create()

    def later(table: Json) -> None:
        table.update(protocol_version="0.9", layout={"rows": None})
        table["tensors"][0]["sparsity"] = "2:4"

    stream.rebase(small_model(), table=later)
    yield accepted(
        AREA, "later-minor-version", "a table of a later minor version, with members that nobody knows yet",
        ["VER-1", "VER-4", "TAB-5"], stream,
    )  # fmt: skip
