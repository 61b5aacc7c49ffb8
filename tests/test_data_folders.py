"""Whatever a record introduces lies in its own data folder, and no record names what only older ones name (KEY-9)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from deltawire import AnchorPolicy, Publisher, rollback
from deltawire.format import keys, records
from deltawire.format.records import AnchorRecord, VersionRecord, named_by
from deltawire.inspecting.verification import verify_stream
from deltawire.limits import DEFAULT_LIMITS
from deltawire.producer.anchors import NEVER
from deltawire.store.memory import MemoryStore

_NUMBERS = itertools.count()
A, B = {"a": np.arange(50, dtype=np.uint16)}, {"b": np.arange(60, dtype=np.uint16)}


def new_store() -> MemoryStore:
    return MemoryStore(f"data-folders-{next(_NUMBERS)}")


def version(store: MemoryStore, number: int) -> VersionRecord:
    key = keys.version_key(number)
    return records.decode(store.get(key, max_bytes=1 << 20).data, VersionRecord, what=key, limits=DEFAULT_LIMITS)


def anchor(store: MemoryStore, number: int) -> AnchorRecord:
    key = keys.anchor_key(number)
    return records.decode(store.get(key, max_bytes=1 << 20).data, AnchorRecord, what=key, limits=DEFAULT_LIMITS)


def folder(record: VersionRecord | AnchorRecord) -> str:
    return keys.data_prefix(record.version, record.commit_id)


def places(record: VersionRecord) -> dict[str, str]:
    return {file.name: file.key for file in record.files}


def published(*steps: tuple[dict[str, Any], dict[str, bytes]]) -> tuple[MemoryStore, list[VersionRecord]]:
    store = new_store()
    with Publisher(store, anchors=NEVER) as publisher:
        found = [publisher.publish(state, files=files).record for state, files in steps]
    assert verify_stream(store, deep=True).findings == []
    assert verify_stream(store).notes == []
    return store, found


def test_a_delta_stores_new_files_and_repeats_the_others() -> None:
    _, (first, second, third) = published(
        (A, {"x.json": b"1", "y.json": b"2"}),
        (A, {"x.json": b"1", "y.json": b"3", "z.json": b"1"}),
        (A, {"y.json": b"3", "x.json": b"1"}),
    )
    assert first.tensors.key == folder(first) + "tensors/table.json"
    assert places(first) == {name: folder(first) + name for name in ("x.json", "y.json")}
    assert first.snapshot is not None
    assert first.snapshot.files == first.files
    assert places(second) == {
        "x.json": folder(first) + "x.json",
        "y.json": folder(second) + "files/y.json",
        "z.json": folder(second) + "files/z.json",  # the bytes of another file of the parent
    }
    assert list(places(third).items()) == [
        ("y.json", folder(second) + "files/y.json"),
        ("x.json", folder(first) + "x.json"),
    ]
    assert first.tensors == second.tensors == third.tensors


def test_what_was_gone_is_stored_anew() -> None:
    store, (first, second, third) = published((A, {"x": b"1"}), (A, {}), (A, {"x": b"1"}))
    assert places(third) == {"x": folder(third) + "files/x"}
    assert second.files == ()
    fourth = rollback(store, to=0).record
    assert places(fourth) == places(third), "the parent has it"
    assert verify_stream(store).findings == []
    assert third.files[0].digest == first.files[0].digest


def test_a_rebase_stores_its_table_and_all_files() -> None:
    store, (first, second, third) = published((A, {"x": b"1"}), (B, {"x": b"1"}), (A, {"x": b"1"}))
    for record in (second, third):
        assert all(named.key.startswith(folder(record)) for named in named_by(record))
        assert record.snapshot is not None
        assert record.snapshot.files == record.files
    assert first.tensors.digest == third.tensors.digest
    fourth = rollback(store, to=1).record
    assert all(named.key.startswith(folder(fourth)) for named in named_by(fourth))
    assert verify_stream(store, deep=True).findings == []


def test_of_two_equal_tables_each_is_read() -> None:
    store, (_, _, third) = published((A, {}), (B, {}), (A, {}))
    store.delete(third.tensors.key)
    [finding] = verify_stream(store).findings
    assert (finding.code, finding.key) == ("missing_object", third.tensors.key)


def test_an_anchor_takes_only_the_table_from_its_version() -> None:
    store = new_store()
    with Publisher(store, anchors=AnchorPolicy(every=1, outweigh=None)) as publisher:
        for step in range(2):
            publisher.publish({"a": A["a"] + step}, files={"x": b"1"})
            publisher.wait_for_anchor()
    found = anchor(store, 1)
    assert found.tensors == version(store, 1).tensors
    assert all(named.key.startswith(folder(found)) for named in (*found.snapshot.shards, *found.snapshot.files))
    assert verify_stream(store, deep=True).findings == []


def test_an_anchor_that_names_what_is_not_its_own() -> None:
    store = new_store()
    with Publisher(store, anchors=AnchorPolicy(every=1, outweigh=None)) as publisher:
        for step in range(2):
            publisher.publish({"a": A["a"] + step}, files={"x": b"1"})
            publisher.wait_for_anchor()
    honest = anchor(store, 1)
    own_table = msgspec.structs.replace(honest.tensors, key=folder(honest) + "tensors/table.json")
    store.put(own_table.key, store.get(honest.tensors.key, max_bytes=1 << 20).data, mode="create")
    snapshot = msgspec.structs.replace(honest.snapshot, files=version(store, 1).files)
    for changes in ({"tensors": own_table}, {"snapshot": snapshot}):
        data = records.encode(msgspec.structs.replace(honest, **changes))
        store.put(keys.anchor_key(1), data, mode="overwrite")
        [finding] = verify_stream(store).findings
        assert (finding.code, finding.key) == ("broken_chain", keys.anchor_key(1))


Change = Callable[[list[VersionRecord]], dict[str, Any]]

FOREIGN: dict[str, Change] = {
    "a file that the parent has not got": lambda line: {"files": line[0].files},
    "a table of a version before": lambda line: {"tensors": line[0].tensors},
    "a file elsewhere": lambda line: {"files": (msgspec.structs.replace(line[0].files[0], key="files/x"),)},
    "a file in the parent's folder": lambda line: {
        "files": (msgspec.structs.replace(line[0].files[0], key=folder(line[1]) + "x"),)
    },
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_version_that_names_what_is_not_its_own(what: str) -> None:
    store, line = published((A, {"x": b"1"}), (B, {}), (A, {}))
    for key in ("files/x", folder(line[1]) + "x"):
        store.put(key, b"1", mode="create")
    assert verify_stream(store).findings == []
    lie = records.encode(msgspec.structs.replace(line[2], **FOREIGN[what](line)))
    store.put(keys.version_key(2), lie, mode="overwrite")
    [finding] = verify_stream(store).findings
    assert (finding.code, finding.key) == ("broken_chain", keys.version_key(2))


def test_a_version_whose_parent_is_gone_may_name_what_it_had() -> None:
    store, line = published((A, {"x": b"1"}), (B, {"x": b"1"}), ({"b": B["b"] + 1}, {"x": b"1"}))
    store.delete(keys.version_key(1))
    assert "broken_chain" not in {finding.code for finding in verify_stream(store).findings}
    assert places(line[2]) == places(line[1])


def test_the_first_version_has_nobody_else_to_name() -> None:
    store, [first] = published((A, {"x": b"1"}))
    table = msgspec.structs.replace(first.tensors, key="tensors/table.json")
    store.put(table.key, store.get(first.tensors.key, max_bytes=1 << 20).data, mode="create")
    data = records.encode(msgspec.structs.replace(first, tensors=table))
    store.put(keys.version_key(0), data, mode="overwrite")
    [finding] = verify_stream(store).findings
    assert (finding.code, finding.key) == ("broken_chain", keys.version_key(0))
    with Publisher(store, anchors=NEVER) as publisher:  # what the parent names may be named, wherever it is
        second = publisher.publish({"a": A["a"] + 1}).record
    assert second.tensors == table
    assert [finding.key for finding in verify_stream(store).findings] == [keys.version_key(0)]
