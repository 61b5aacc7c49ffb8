"""Cases of one next version: a consumer holds version 0 of a small stream, and another version comes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from authoring.drafts import Draft, changed, refused_next
from authoring.states import trained
from authoring.stream import Edit, Json, Raw, Stream, same, small_stream, unedited
from deltawire_conformance.case import Case, Materialize, Put

Grow = Callable[[Stream], object]


def bad_next(
    area: str, name: str, title: str, requirements: Sequence[str], error: str | Sequence[str],
    *, edit: Edit = unedited, raw: Raw = same, **more: Any,
) -> Draft:  # fmt: skip
    """Version 1 with a faulty record, which a consumer that holds version 0 must refuse.

    Args:
        area, name, title, requirements: of the case.
        error: the code, or those of which one is right.
        edit, raw: what is wrong with the record, as an object or as bytes.
        more: further members of the case.
    """

    def grow(stream: Stream) -> object:
        return stream.delta(trained(stream.states[-1], 1), edit=edit, raw=raw)

    return refused_next(area, name, title, requirements, small_stream(name, versions=1), error, grow=grow, **more)


def good_next(
    area: str, name: str, title: str, requirements: Sequence[str], *, stream: Stream, grow: Grow,
    options: Json | None = None, before: Sequence[Any] = (), **more: Any,
) -> Draft:  # fmt: skip
    """A consumer that holds the newest version of a stream must come to hold the newest after it has grown.

    Args:
        area, name, title, requirements: of the case.
        stream: so far.
        grow: adds what comes next.
        options: of both calls.
        before: steps between the growth and the second call.
        more: further members of the case.
    """
    held = len(stream.states) - 1
    first = dict(stream.objects)
    grow(stream)
    newest = len(stream.states) - 1
    chosen = options or {}
    return Draft(
        area,
        name,
        negative=False,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="consumer",
            steps=(
                Put(),
                Materialize(version=held, state=str(held), options=chosen),
                Put(tree="then"),
                *before,
                Materialize(version="latest", state=str(newest), options=chosen),
            ),
            **more,
        ),
        trees={"store": first, "then": changed(first, stream.objects)},
        states={str(number): stream.states[number].neutral(number) for number in {held, newest}},
    )


def assign(place: str, value: Any) -> Edit:
    """An edit that puts a value in a place of a record, such as ``producer.name`` or ``files.0.key``."""

    def edit(record: Json) -> None:
        *parents, last = place.split(".")
        owner: Any = record
        for parent in parents:
            owner = owner[int(parent)] if isinstance(owner, list) else owner[parent]
        owner[int(last) if isinstance(owner, list) else last] = copy.deepcopy(value)

    return edit


def remove(place: str) -> Edit:
    """An edit that leaves out a member."""

    def edit(record: Json) -> None:
        *parents, last = place.split(".")
        owner: Any = record
        for parent in parents:
            owner = owner[int(parent)] if isinstance(owner, list) else owner[parent]
        del owner[last]

    return edit


def both(*edits: Edit) -> Edit:
    """Edits one after the other."""

    def edit(record: Json) -> None:
        for each in edits:
            each(record)

    return edit


def text(old: str | bytes, new: str | bytes) -> Raw:
    """A change of the bytes of a record: the first place of a text, which must be there."""
    before = old.encode() if isinstance(old, str) else old
    after = new.encode() if isinstance(new, str) else new

    def raw(data: bytes) -> bytes:
        assert before in data
        return data.replace(before, after, 1)

    return raw
