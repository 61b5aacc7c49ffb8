"""Keys in records and in listings (SPEC.md section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from authoring.drafts import Draft, accepted
from authoring.nexts import bad_next
from authoring.stream import Edit, Json, Stream, small_stream
from deltawire.format.keys import version_key

AREA = "keys"

BAD: list[tuple[str, str, Callable[[str], str]]] = [
    ("two-dots", "a part's key with a segment of two dots", lambda key: "data/../" + key),
    ("leading-slash", "a part's key that begins with a slash", lambda key: "/" + key),
    ("double-slash", "a part's key with an empty segment", lambda key: key.replace("data/", "data//", 1)),
    ("backslash", "a part's key with a backslash", lambda key: key.replace("data/", "data\\", 1)),
    ("dot-segment", "a part's key with a segment of one dot", lambda key: "./" + key),
    ("hidden-segment", "a part's key with a segment that begins with a dot", lambda key: "data/.hidden/" + key),
    ("space", "a part's key with a space", lambda key: key + " "),
    ("not-ascii", "a part's key with a letter that is not of ASCII", lambda key: "däta/" + key),
    ("513-bytes", "a part's key of 513 bytes", lambda key: key + "/" + "n" * (512 - len(key))),
]
"""Keys outside the grammar, made of one that is in it."""


def drafts() -> Iterator[Draft]:
    """All cases."""
    for name, title, bad in BAD:
        yield bad_next(AREA, name, title, ["KEY-1"], "malformed_record", edit=_part_key(bad))
    yield bad_next(
        AREA, "table-key", "a tensor table's key that leads out of the stream", ["KEY-1"], "malformed_record",
        edit=lambda record: record["tensors"].update(key="../" + record["tensors"]["key"]),
    )  # fmt: skip
    yield bad_next(
        AREA, "file-key", "an auxiliary file's key with a backslash", ["KEY-1"], "malformed_record",
        edit=lambda record: record["files"][0].update(key=record["files"][0]["key"].replace("/", "\\")),
    )  # fmt: skip
    yield accepted(
        AREA, "unknown-keys", "keys that no reader knows, and no head", ["KEY-5", "KEY-6", "LAT-3"], _unknown()
    )
    yield accepted(
        AREA, "short-numbers", "records of later versions under keys with other than 20 digits", ["KEY-2", "KEY-5"],
        _short(),
    )  # fmt: skip


def _part_key(change: Callable[[str], str]) -> Edit:
    def edit(record: Json) -> None:
        [part] = record["delta"]["parts"]
        part["key"] = change(part["key"])

    return edit


def _unknown() -> Stream:
    stream = small_stream("unknown-keys", versions=2)
    del stream.objects["head.json"]
    for key in (
        "versions/7.json",
        "versions/0000000000000000007.json",
        "versions/00000000000000000007.json.old",
        "versions/0000000000000000000x.json",
        "versions/00000000000000000001/7.json",
        "versions/99999999999999999999.json",
        "versions/00009007199254740992.json",
        "anchors/1.json",
        "anchors/99999999999999999999.json",
        "spans/00000000000000000001.json",
        "leases/notes.json",
        "notes.txt",
        "stream",
        "head",
        "data/notes.txt",
    ):
        stream.objects[key] = b"this is for people"
    return stream


def _short() -> Stream:
    stream = small_stream("short-numbers", versions=4)
    del stream.objects["head.json"]
    for version, key in ((2, "versions/2.json"), (3, "versions/0000000000000000000000003.json")):
        stream.objects[key] = stream.objects.pop(version_key(version))
        stream.objects = {
            name: data for name, data in stream.objects.items() if not name.startswith(f"data/{version:020d}")
        }
        stream.states.pop()
    return stream
