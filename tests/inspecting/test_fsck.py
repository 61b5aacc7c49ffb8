"""One of every kind of damage: what fsck calls it, where it shows, what still works, and what to do."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest

from deltawire import AnchorPolicy, Follower, Publisher, fork
from deltawire.ed25519 import generate
from deltawire.errors import DeltawireError, StreamNotFoundError
from deltawire.format import keys
from deltawire.inspecting.diagnosis import Diagnosis, diagnose
from deltawire.inspecting.verification import verify_stream
from deltawire.store.base import Store
from tests.inspecting.streams import (
    ANCHOR,
    NEWEST,
    REBASE,
    add_pin,
    collect,
    contents,
    final_bits,
    flip,
    new_store,
    part_of,
    record_of,
    shard_of,
    states,
    update,
    whole,
)
from tests.retaining import retain
from tests.spans import add_span

ZERO = "sha256:" + "0" * 64
OTHER = "00000000-0000-4000-8000-000000000000"
VERSION, SPAN = keys.version_key, keys.span_key
A_SPAN, B_SPAN = SPAN(0, 4), SPAN(5, 8)
THE_ANCHOR = keys.anchor_key(ANCHOR)


@dataclass(frozen=True)
class Case:
    """What is done to the whole stream, and what fsck is to make of it."""

    damage: Callable[[Store], Any]
    code: str
    key: str
    """Of the object, or its beginning."""
    sort: str
    advice: str
    requirement: str | None = None
    unreadable: tuple[tuple[int, int], ...] = ()
    deep: bool = False


def table_of(store: Store, number: int) -> str:
    found: str = record_of(store, VERSION(number))["tensors"]["key"]
    return found


def file_of(store: Store, number: int, at: int = 0) -> str:
    found: str = record_of(store, VERSION(number))["files"][at]["key"]
    return found


def index_of(store: Store, key: str) -> str:
    found: str = record_of(store, key)["snapshot"]["index"]["key"]
    return found


def copy_of(store: Store, key: str) -> str:
    found: str = record_of(store, key)["snapshot"]["files"][0]["key"]
    return found


def span_part(store: Store, key: str) -> str:
    found: str = record_of(store, key)["delta"]["parts"][0]["key"]
    return found


def replace(store: Store, key: str, data: bytes) -> None:
    store.put(key, data, mode="overwrite")


def other_span(store: Store, **lies: Any) -> None:
    store.delete(A_SPAN)
    add_span(store, 0, 4, **lies)


def span_that_leads_elsewhere(store: Store) -> None:
    """A span whose rows make another state, with sums that agree with all records."""
    good = record_of(store, A_SPAN)
    store.delete(A_SPAN)
    add_span(store, 0, 3)
    delta = record_of(store, SPAN(0, 3))["delta"]
    store.delete(SPAN(0, 3))
    delta |= {key: good["delta"][key] for key in ("digest_before", "digest_after")}
    replace(store, A_SPAN, json.dumps(good | {"delta": delta}).encode())


def delta_with_other_sums(store: Store) -> None:
    """The newest delta with sums that agree with the state digests, but not with its rows."""
    delta = record_of(store, VERSION(NEWEST))["delta"]
    sums = {name: f"{(int(delta[name], 16) + 1) % (1 << 64):016x}" for name in ("digest_before", "digest_after")}
    update(store, VERSION(NEWEST), delta=delta | sums)


def span_over_a_rebase(store: Store) -> None:
    data = store.get(A_SPAN, max_bytes=1 << 20).data
    old, new = (record_of(store, VERSION(number)) for number in (4, 10))
    assert data.count(old["state_digest"].encode()) == 1
    span = json.loads(data.replace(old["state_digest"].encode(), new["state_digest"].encode()))
    store.put(SPAN(0, 10), json.dumps(span | {"version": 10}).encode(), mode="create")


def both(*steps: Callable[[Store], Any]) -> Callable[[Store], Any]:
    def all_of_them(store: Store) -> None:
        for step in steps:
            step(store)

    return all_of_them


def shard_that_agrees_with_its_record(store: Store) -> None:
    """An anchor's shard with other bits, whose sha256 its record gives."""
    key = shard_of(store, THE_ANCHOR)
    flip(store, key, -3)
    record = record_of(store, THE_ANCHOR)
    digest = "sha256:" + sha256(store.get(key, max_bytes=1 << 20).data).hexdigest()
    record["snapshot"]["shards"][0]["digest"] = digest
    update(store, THE_ANCHOR, **record)


NEWEST_GONE = f"'deltawire fork memory://.*@{NEWEST - 1} DST'"
NOTHING = "nothing has to be done: "
CASES: dict[str, Case] = {
    "version record gone": Case(
        lambda s: s.delete(VERSION(2)), "missing_object", VERSION(2), "missing",
        r"put back a copy \(sha256 [0-9a-f]{16}\.\.\.\); without it versions 2 to 3 cannot be read", "VSN-2", ((2, 3),),
    ),
    "several version records gone": Case(
        lambda s: [s.delete(VERSION(n)) for n in (1, 2, 3)], "missing_object", VERSION(1), "missing",
        "without it versions 1 to 3 cannot be read", "VSN-2", ((1, 3),),
    ),
    "version record corrupt": Case(
        lambda s: replace(s, VERSION(6), b"{}"), "malformed_record", VERSION(6), "corrupt",
        "without it versions 6 to 7 cannot be read", "REC-2", ((6, 7),),
    ),
    "newest version record corrupt": Case(
        lambda s: replace(s, VERSION(NEWEST), b"{"), "malformed_record", VERSION(NEWEST), "corrupt",
        f"without it version {NEWEST} cannot be read", "REC-2", ((NEWEST, NEWEST),),
    ),
    "version record of another stream": Case(
        lambda s: update(s, VERSION(NEWEST), stream_id=OTHER), "wrong_stream", VERSION(NEWEST), "broken_chain",
        "put back a copy", "STR-2", ((NEWEST, NEWEST),),
    ),
    "version record of a later protocol": Case(
        lambda s: update(s, VERSION(NEWEST), protocol_version="7.0"), "unsupported_protocol", VERSION(NEWEST),
        "unsupported", "use a newer deltawire", "VER-1", ((NEWEST, NEWEST),),
    ),
    "version record edited": Case(
        lambda s: update(s, VERSION(6), metadata={"step": 7}), "broken_chain", VERSION(7), "broken_chain",
        "put back the original; without it version 7 cannot be read", "CHN-1", ((7, 7),),
    ),
    "epoch lowered": Case(
        lambda s: update(s, VERSION(NEWEST - 1), epoch=7), "broken_chain", VERSION(NEWEST), "broken_chain",
        "put back the original", "CHN-1", ((NEWEST, NEWEST),),
    ),
    "state digest edited": Case(
        lambda s: update(s, VERSION(NEWEST), state_digest="0" * 16), "broken_chain", VERSION(NEWEST), "broken_chain",
        "put back the original", "CHN-4", ((NEWEST, NEWEST),),
    ),
    "version record under another key": Case(
        lambda s: replace(s, VERSION(NEWEST), s.get(VERSION(3), max_bytes=1 << 20).data), "broken_chain",
        VERSION(NEWEST), "broken_chain", "put back the original", "VSN-2", ((NEWEST, NEWEST),),
    ),
    "file of another write": Case(
        lambda s: update(s, VERSION(NEWEST), files=record_of(s, VERSION(0))["files"]),
        "broken_chain", VERSION(NEWEST), "broken_chain", "put back the original", "KEY-9",
    ),
    "file under another name": Case(
        lambda s: update(
            s, VERSION(NEWEST), files=[f | {"name": "x" + f["name"]} for f in record_of(s, VERSION(NEWEST))["files"]]
        ),
        "broken_chain", VERSION(NEWEST), "broken_chain", "put back the original", "FIL-1",
    ),
    "delta that says what it does not do": Case(
        delta_with_other_sums, "state_mismatch", VERSION(NEWEST), "corrupt",
        f"published like this, so that no copy helps; version {NEWEST} cannot be read", None,
        ((NEWEST, NEWEST),), deep=True,
    ),
    "part of a delta gone": Case(
        lambda s: s.delete(part_of(s, 7)), "missing_object", "data/", "missing", "without it version 7 cannot be read",
        "DSC-1", ((7, 7),),
    ),
    "part of a delta under a span gone": Case(
        lambda s: s.delete(part_of(s, 8)), "missing_object", "data/", "missing",
        "leave it|nothing has to be done: readers reach version 8 over the span from version 5", "DSC-1",
    ),
    "part of the newest delta gone": Case(
        lambda s: s.delete(part_of(s, NEWEST)), "missing_object", "data/", "missing",
        f"without it version {NEWEST} cannot be read", "DSC-1", ((NEWEST, NEWEST),),
    ),
    "part short": Case(
        lambda s: replace(s, part_of(s, 2), s.get(part_of(s, 2), max_bytes=1 << 20).data[:1500]), "size_mismatch",
        "data/", "corrupt", "without it versions 2 to 3 cannot be read", "DSC-3", ((2, 3),),
    ),
    "batch flipped": Case(
        lambda s: flip(s, part_of(s, 2), 1300), "digest_mismatch", "data/", "corrupt",
        "without it versions 2 to 3 cannot be read", "DSC-3", ((2, 3),),
    ),
    "footer flipped": Case(
        lambda s: flip(s, part_of(s, 2), -40), "digest_mismatch", "data/", "corrupt",
        "what readers fetch of it is whole", "DSC-3",
    ),
    "shard of the first version gone": Case(
        lambda s: s.delete(shard_of(s, VERSION(0))), "missing_object", "data/", "missing",
        "without it versions 0 to 4 cannot be read", "DSC-1", ((0, 4),),
    ),
    "shard of a rebase flipped": Case(
        lambda s: flip(s, shard_of(s, VERSION(REBASE)), -1), "digest_mismatch", "data/", "corrupt",
        f"without it versions {REBASE} to {NEWEST} cannot be read", "DSC-3", ((REBASE, NEWEST),),
    ),
    "header of a shard flipped": Case(
        lambda s: flip(s, shard_of(s, VERSION(REBASE)), 40), "digest_mismatch", "data/", "corrupt",
        "cannot be read", "DSC-3", ((REBASE, NEWEST),),
    ),
    "shard of an anchor flipped": Case(
        lambda s: flip(s, shard_of(s, THE_ANCHOR), -1), "digest_mismatch", "data/", "corrupt",
        f"{NOTHING}readers reach version 5 over the delta from version 4; .* makes a newer anchor", "DSC-3",
    ),
    "anchor record corrupt": Case(
        lambda s: replace(s, THE_ANCHOR, b"[]"), "malformed_record", THE_ANCHOR, "corrupt", NOTHING + "readers reach",
        "REC-2",
    ),
    "anchor of another record": Case(
        lambda s: update(s, THE_ANCHOR, version_digest=ZERO), "broken_chain", THE_ANCHOR, "broken_chain",
        NOTHING + "readers reach", "ANC-2",
    ),
    "anchor of a version that never was": Case(
        lambda s: replace(
            s, keys.anchor_key(77), json.dumps(record_of(s, THE_ANCHOR) | {"version": 77}).encode()
        ),
        "broken_chain", keys.anchor_key(77), "broken_chain", "put back a copy", "ANC-2",
    ),
    "anchor with lies": Case(
        shard_that_agrees_with_its_record, "state_mismatch", THE_ANCHOR, "corrupt", NOTHING + "readers reach", None,
        deep=True,
    ),
    "copy under another name": Case(
        lambda s: replace(s, THE_ANCHOR, s.get(THE_ANCHOR, max_bytes=9999).data.replace(b'"merges.txt"', b'"mergers"')),
        "broken_chain", THE_ANCHOR, "broken_chain", NOTHING, "SNP-2",
    ),
    "index gone": Case(
        lambda s: s.delete(index_of(s, VERSION(0))), "missing_object", "data/", "missing", "readers do not need it",
        "DSC-1",
    ),
    "copy beside an anchor flipped": Case(
        lambda s: flip(s, copy_of(s, THE_ANCHOR), 1), "digest_mismatch", "data/", "corrupt", "readers do not need it",
        "DSC-3",
    ),
    "file gone": Case(
        lambda s: s.delete(file_of(s, 4)), "missing_object", "data/", "missing",
        "without it versions 3 to 5 can be read into memory, but not into a directory", "DSC-1",
    ),
    "table gone": Case(
        lambda s: s.delete(table_of(s, 0)), "missing_object", "data/", "missing",
        "without it versions 0 to 8 cannot be read", "DSC-1", ((0, 8),),
    ),
    "table flipped": Case(
        lambda s: flip(s, table_of(s, REBASE), 50, 1), "digest_mismatch", "data/", "corrupt",
        f"without it versions {REBASE} to {NEWEST} cannot be read", "DSC-3", ((REBASE, NEWEST),),
    ),
    "span record corrupt": Case(
        lambda s: replace(s, A_SPAN, b"{}"), "malformed_record", A_SPAN, "corrupt", NOTHING + "readers take the deltas",
        "REC-2",
    ),
    "span of another base": Case(
        lambda s: update(s, A_SPAN, base_digest=ZERO), "broken_chain", A_SPAN, "broken_chain", NOTHING, "SPN-4",
    ),
    "span with another digest": Case(
        lambda s: update(s, A_SPAN, state_digest="0" * 16), "broken_chain", A_SPAN, "broken_chain", NOTHING, "SPN-4",
    ),
    "span under another key": Case(
        lambda s: replace(s, SPAN(1, 4), s.get(A_SPAN, max_bytes=1 << 20).data), "broken_chain", SPAN(1, 4),
        "broken_chain", NOTHING, "SPN-1",
    ),
    "span of another stream": Case(
        lambda s: update(s, A_SPAN, stream_id=OTHER), "wrong_stream", A_SPAN, "broken_chain", NOTHING, "STR-2",
    ),
    "span that is larger than it says": Case(
        lambda s: other_span(s, replaces_bytes=1 << 30), "malformed_record", A_SPAN, "corrupt", NOTHING, "SPN-3",
    ),
    "span over a rebase": Case(
        span_over_a_rebase, "broken_chain", SPAN(0, 10), "broken_chain", NOTHING, "SPN-4",
    ),
    "span with a table of its own": Case(
        lambda s: update(
            s, A_SPAN, tensors=record_of(s, A_SPAN)["tensors"] | {"key": "data/" + "0" * 20 + "-" + OTHER + "/t"}
        ),
        "broken_chain", A_SPAN, "broken_chain", NOTHING, "KEY-9",
    ),
    "part of a span gone": Case(
        lambda s: s.delete(span_part(s, B_SPAN)), "missing_object", "data/", "missing",
        NOTHING + "readers take the deltas", "DSC-1",
    ),
    "span that leads elsewhere": Case(
        span_that_leads_elsewhere, "state_mismatch", A_SPAN, "corrupt", NOTHING, None, deep=True,
    ),
    "boundary without a snapshot": Case(
        lambda s: retain(s, 6), "path_lost", VERSION(6), "unreachable",
        f"needs versions 6 to 8: readers that come from before go over the snapshot of version {REBASE}", "RET-2",
        ((6, 8),),
    ),
    "kept without a snapshot": Case(
        lambda s: retain(s, 5, 2), "path_lost", VERSION(2), "unreachable", "go over the anchor of version 5",
        "RET-2", ((2, 2),),
    ),
    "kept beside another, without a snapshot": Case(
        lambda s: retain(s, 5, 0, 1), "path_lost", VERSION(1), "unreachable",
        "readers still get there over the delta from version 0", "RET-2",
    ),
    "kept, but gone": Case(
        both(lambda s: collect(s, 5), lambda s: retain(s, 5, 0)), "missing_object", VERSION(0), "missing",
        "without it version 0 cannot be read", "RET-1", ((0, 0),),
    ),
    "retention.json gone after collecting": Case(
        both(lambda s: collect(s, 5), lambda s: s.delete(keys.RETENTION)), "missing_object", VERSION(0), "missing",
        "without it versions 0 to 4 cannot be read", "VSN-2", ((0, 4),),
    ),
    "retention.json corrupt": Case(
        both(lambda s: collect(s, 5, 0), lambda s: replace(s, keys.RETENTION, b"{}")),
        "malformed_record", keys.RETENTION, "corrupt", "stop every maintainer", "RET-4",
    ),
    "retention.json of another stream": Case(
        both(lambda s: retain(s, 5), lambda s: update(s, keys.RETENTION, stream_id=OTHER)),
        "wrong_stream", keys.RETENTION, "broken_chain", "stop every maintainer", "RET-4",
    ),
    "retention.json that hides all versions": Case(
        lambda s: retain(s, 70), "missing_object", keys.RETENTION, "missing", "stop every maintainer", "RET-2",
    ),
    "stream.json corrupt": Case(
        lambda s: replace(s, keys.STREAM, b"{}"), "malformed_record", keys.STREAM, "corrupt",
        "write it anew with the stream_id", "REC-2",
    ),
    "stream.json gone": Case(
        lambda s: s.delete(keys.STREAM), "stream_not_found", keys.STREAM, "missing", "write it anew", "STR-1",
    ),
}  # fmt: skip


def damaged(case: Case) -> tuple[Store, Diagnosis]:
    store = new_store(whole())
    case.damage(store)
    before = contents(store)
    found = diagnose(store, deep=case.deep)
    assert contents(store) == before  # nothing was changed
    return store, found


@pytest.mark.parametrize("name", CASES)
def test_damage(name: str) -> None:
    case = CASES[name]
    _, found = damaged(case)
    assert not found.clean
    here = [item for item in found.damage if item.key.startswith(case.key) and item.code == case.code]
    assert len(here) == 1, found.damage
    assert (here[0].sort, here[0].requirement) == (case.sort, case.requirement or here[0].requirement)
    assert re.search(case.advice, here[0].advice), here[0].advice
    assert tuple(found.unreadable) == case.unreadable
    others = [item for item in found.damage if item is not here[0]]
    assert all(item.sort == "unreachable" for item in others) or name in MORE, others
    for item in found.damage + found.notes:
        assert item.message
        assert item.advice


MORE = {  # one thing that is wrong shows in two places
    "several version records gone", "version record corrupt", "version record edited", "epoch lowered",
    "state digest edited", "version record under another key", "file of another write", "span over a rebase",
    "span that leads elsewhere",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_of_reading_is_true(name: str) -> None:
    """Readers that come from nothing can read just the versions that fsck says they can, and bit for bit."""
    store, found = damaged(CASES[name])
    unreadable = {number for first, last in found.unreadable for number in range(first, last + 1)}
    for number in range(NEWEST + 1):
        retained = number >= found.boundary or number in found.kept
        with Follower(store) as follower:
            if not retained or number in unreadable or found.stopped_by:
                with pytest.raises(DeltawireError):
                    follower.poll(to=number)
            else:
                follower.poll(to=number)
                assert {name: array.tobytes() for name, array in follower.arrays.items()} == final_bits(number)


def test_a_signed_stream() -> None:
    key = generate()
    store = new_store()
    with Publisher(store, signing_key=key, anchors=AnchorPolicy(every=1)) as publisher:
        for state in states(3):
            publisher.publish(state)
            publisher.wait_for_anchor()
    assert diagnose(store, deep=True, trust=[key.key]).notes == []
    [note] = diagnose(store, deep=True).notes
    assert (note.sort, "--trust" in note.advice) == ("signatures", True)
    found = diagnose(store, trust=[generate().key])
    assert [(item.key, item.sort, item.code) for item in found.damage] == [(keys.STREAM, "forged", "bad_signature")]
    assert "--trust" in found.damage[0].advice
    update(store, VERSION(2), metadata={"step": 7})
    [lost, forged, *_] = diagnose(store, trust=[key.key]).damage
    assert (lost.sort, forged.sort, forged.key) == ("unreachable", "forged", VERSION(2))
    assert forged.advice.startswith("it is not what whoever holds the stream's key wrote: put back a copy")


def test_a_span_over_rebases_to_the_same_tensors() -> None:
    store = new_store()
    first, _, third = states(3)
    with Publisher(store) as publisher:
        for state in (first, first | {"more": first["bias"]}, third):
            publisher.publish(state)
    add_span(store, 0, 2, replaces_bytes=1 << 20)
    [item] = diagnose(store, deep=True).damage
    assert (item.key, item.code, item.requirement) == (SPAN(0, 2), "broken_chain", "SPN-2")


def test_the_advice_to_fork_can_be_followed() -> None:
    store, found = damaged(CASES["part of the newest delta gone"])
    [lost] = [item for item in found.damage if item.sort == "unreachable"]
    assert f"'deltawire fork {store.url}@{NEWEST - 1} DST'" in lost.advice
    destination = new_store()
    fork(store, destination, version=NEWEST - 1)
    assert diagnose(destination, deep=True).clean


def folder(number: int) -> str:
    return keys.data_prefix(number, str(uuid.uuid4()))


NOTES: dict[str, tuple[Callable[[Store], Any], str, str, str]] = {
    "head corrupt": (lambda s: replace(s, keys.HEAD, b"{"), "head", "of no use", NOTHING),
    "head of another stream": (lambda s: update(s, keys.HEAD, stream_id=OTHER), "head", "of no use", NOTHING),
    "head stale": (lambda s: update(s, keys.HEAD, version=3), "head", "stale", NOTHING),
    "head ahead": (lambda s: update(s, keys.HEAD, version=30), "head", "names version 30", "its record is lost"),
    "lease corrupt": (lambda s: replace(s, keys.LEASE, b"{}"), "lease", "keeps every producer out", "delete it if no"),
    "pin corrupt": (lambda s: replace(s, add_pin(s, 3), b"{}"), "pin", "keeps everything", "unchanged for a day"),
    "pin of another stream": (lambda s: update(s, add_pin(s, 3), stream_id=OTHER), "pin", "keeps everything", NOTHING),
    "orphan": (
        lambda s: replace(s, folder(3) + "part-00000.arrow", b"123"), "unreferenced", "named by no record",
        "deltawire maintain memory://.* --once",
    ),
    "anchor record gone": (lambda s: s.delete(THE_ANCHOR), "unreferenced", "named by no record", "maintain"),
    "span record gone": (lambda s: s.delete(A_SPAN), "unreferenced", "named by no record", "maintain"),
    "commit under way": (
        lambda s: replace(s, folder(NEWEST + 1) + "part-00000.arrow", b"123"), "under_way", "named by no record yet",
        f"once version {NEWEST + 1} is there without it",
    ),
    "not collected yet": (lambda s: retain(s, 5), "unretained", "not retained", "unless|maintain"),
    "record by a stalled writer": (
        both(lambda s: collect(s, 5), lambda s: replace(s, VERSION(2), b"{}")),
        "unretained", "version 2, which is not", "maintain",
    ),
    "unknown member": (lambda s: update(s, keys.STREAM, more=1), "member", "has a member 'more'", "readers ignore it"),
    "unknown key": (lambda s: replace(s, "versions/7.json", b"{}"), "unknown_key", "not a key", "readers ignore it"),
    "key in a folder that is none": (lambda s: replace(s, "data/stray/x", b"{}"), "unknown_key", "not a key", "ignore"),
    "reserved key": (lambda s: replace(s, "leases/other.json", b"{}"), "unknown_key", "not a key", "ignore"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTES)
def test_notes(name: str) -> None:
    damage, sort, message, advice = NOTES[name]
    store = new_store(whole())
    damage(store)
    found = diagnose(store, deep=True)
    assert found.clean
    assert found.way is not None
    assert {item.sort for item in found.notes} == {sort}
    for item in found.notes:
        assert message in item.message
        assert re.search(advice, item.advice), item.advice
        if sort in {"unreferenced", "under_way", "unknown_key"}:
            assert item.bytes == len(contents(store)[item.key])
            assert item.modified_at is not None
    assert len(verify_stream(store).notes) == 1


def test_orphans_of_a_record_that_is_missing_are_to_be_kept() -> None:
    store = new_store(whole())
    part = part_of(store, NEWEST)
    store.delete(VERSION(NEWEST))
    found = diagnose(store)
    assert found.clean  # nothing in the store says more than the hint does
    assert {(item.sort, item.key.split("/")[0]) for item in found.notes} == {
        ("head", "head.json"),
        ("under_way", "data"),
    }
    [item] = [item for item in found.notes if item.key == part]
    assert item.advice.startswith("keep it")
    store = new_store(whole())
    part = part_of(store, 3)
    replace(store, VERSION(3), b"{}")
    [item] = [item for item in diagnose(store).notes if item.key == part]
    assert (item.sort, item.advice.split(":")[0]) == ("unreferenced", "keep it")


@pytest.mark.parametrize("name", ["retention.json that hides all versions", "retention.json corrupt"])
def test_nothing_is_called_garbage_while_retention_is_no_good(name: str) -> None:
    store = new_store(whole())
    CASES[name].damage(store)
    replace(store, folder(3) + "part-00000.arrow", b"123")
    found = diagnose(store)
    assert found.stopped_by == keys.RETENTION
    assert found.notes
    assert all(item.advice.startswith("keep it") for item in found.notes)


def test_data_without_any_version_is_a_commit_under_way() -> None:
    objects = {key: data for key, data in whole().items() if key == keys.STREAM or key.startswith("data/")}
    found = diagnose(new_store(objects))
    assert found.clean
    assert found.newest is None
    assert {item.sort for item in found.notes} == {"under_way"}


def test_no_stream() -> None:
    with pytest.raises(StreamNotFoundError):
        diagnose(new_store({"notes.txt": b""}))


def test_what_was_collected_meanwhile_is_not_missing() -> None:
    """A maintainer collects between the listing and the reading of objects."""
    store = new_store(whole())
    done = False

    class Watched(type(store)):  # type: ignore[misc]
        def head(self, key: str) -> Any:
            nonlocal done
            if not done:
                done = True
                collect(store, 5)
            return super().head(key)

    watched = Watched(store.url.removeprefix("memory://"))
    found = diagnose(watched, deep=True)
    assert done
    assert found.damage == []
    assert found.boundary == 5
