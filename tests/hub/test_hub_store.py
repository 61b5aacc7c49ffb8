"""The store by the Hub's API, on the emulator."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest

from deltawire.deadline import Deadline
from deltawire.errors import MissingObjectError, ObjectNotFoundError, StoreDeniedError, StoreUnavailableError
from deltawire.reading.transfer import RangeRequest, Transfer
from deltawire.store import S3Store
from deltawire.store.base import OpenObject
from deltawire.store.hub import HubStore
from deltawire.store.probe import probe
from tests.hub.emulator import Fault, HubEmulator
from tests.hub.hub_contract import HubContract
from tests.hub.places import EmulatedPlace

pytestmark = pytest.mark.usefixtures("alice")


class TestHubStore(HubContract):
    @pytest.fixture
    def outside(self, hub: HubEmulator) -> EmulatedPlace:
        return EmulatedPlace(hub)

    @pytest.fixture
    def elsewhere(self, hub: HubEmulator) -> str:
        hub.create("team/other", private=True)
        return f"hf://buckets/team/other?endpoint={hub.endpoint}"


@pytest.mark.parametrize("page_size", [1, 2, 7])
def test_all_pages_are_read(page_size: int) -> None:
    """STO-32."""
    with HubEmulator(page_size=page_size) as hub:
        hub.create("alice/weights")
        place = EmulatedPlace(hub)
        keys = [f"{folder}/{number}" for folder in ("a", "b") for number in range(7)]
        for key in keys:
            place.write(key, b"1")
        hub.write(place.bucket, place.prefix + "-2/x", b"1")
        store = HubStore(place.url)
        assert [info.key for info in store.list("")] == keys
        assert [info.key for info in store.list("b/")] == keys[7:]


def test_a_whole_bucket_is_a_store(hub: HubEmulator) -> None:
    store = HubStore(f"hf://buckets/alice/weights?endpoint={hub.endpoint}")
    store.put("run/x", b"1", mode="create")
    assert hub.paths("alice/weights") == ["run/x"]
    assert [info.key for info in store.list("")] == ["run/x"]


def test_what_is_read_by_hash_counts_against_no_limit(hub: HubEmulator) -> None:
    """SPEC.md 5.9: four calls of the API for a version, and none to read it but for an access token."""
    place = EmulatedPlace(hub)
    store, reader = HubStore(place.url), HubStore(place.url)
    store.put("warm", b"1", mode="create")
    assert reader.get_range("warm", 0, 1) == b"1"
    hub.log.clear()
    batch = store.write_batch()
    for number in range(10):
        batch.put_stream(f"parts/{number}", [bytes([number]) * 1000])
    batch.finish()
    store.put("versions/1", b"record", mode="create")
    store.put("head", b"head", mode="overwrite")
    assert hub.log.counts()["api"] == 4
    hub.log.clear()
    assert reader.get("versions/1", max_bytes=10).data == b"record"
    opened = reader.open("parts/3")
    assert all(opened.get_range(at, 10) == bytes([3]) * 10 for at in range(0, 1000, 100))
    counts = hub.log.counts()
    assert counts["api"] == 0
    assert counts["resolve"] == 2


def test_a_probe_finds_it_fit_for_one_writer(hub: HubEmulator) -> None:
    """STO-25, STO-28; and through the gateway for many."""
    place = EmulatedPlace(hub)
    report = probe(HubStore(place.url), writers=4, rounds=1, swaps=2)
    assert report.fit == "single-writer"
    assert {result.requirement for result in report.results if not result.passed} <= {"STO-3", "STO-4"}
    assert probe(S3Store(place.gateway_url), writers=4, rounds=1, swaps=2).fit == "many-writers"
    assert place.keys() == []


def test_what_has_not_changed_is_only_looked_up(hub: HubEmulator) -> None:
    """STO-31; nor is it mistaken for what has."""
    place = EmulatedPlace(hub)
    store = HubStore(place.url)
    place.write("head", b"first")
    for _ in range(2):
        assert store.get("head", max_bytes=10).data == b"first"
    hub.log.clear()
    assert [store.get("head", max_bytes=10).data for _ in range(3)] == [b"first"] * 3
    assert hub.log.counts() == {"resolve": 3}
    place.write("head", b"other")
    assert store.get("head", max_bytes=10).data == b"other"
    hub.log.clear()
    assert store.without_cache().get("head", max_bytes=10).data == b"other"
    assert hub.log.counts()["bytes"] == 1
    place.delete("head")
    with pytest.raises(ObjectNotFoundError):
        store.get("head", max_bytes=10)


def test_many_are_looked_up_with_one_call(hub: HubEmulator) -> None:
    place = EmulatedPlace(hub)
    store = HubStore(place.url)
    contents = {f"parts/{number}": bytes([number]) * (number + 1) for number in range(30)}
    for key, content in contents.items():
        place.write(key, content)
    hub.log.clear()
    opened = store.open_all([*contents, "parts/none"])
    assert hub.log.counts()["api"] == 1
    assert "resolve" not in hub.log.counts()
    assert {key: found.get_range(0, len(contents[key])) for key, found in opened.items()} == contents
    assert store.open_all(list(contents)[:3]) == {}  # looked up one by one

    transfer = Transfer(store)
    requests = [RangeRequest(key, 1, len(content) - 1) for key, content in contents.items() for _ in range(3)]
    hub.log.clear()
    found = list(transfer.ranges(requests, deadline=Deadline.after(60)))
    assert found == [content[1:] for content in contents.values() for _ in range(3)]
    assert hub.log.counts()["api"] == 1
    with pytest.raises(MissingObjectError, match="parts/none"):
        list(transfer.ranges([*requests, RangeRequest("parts/none", 0, 1)], deadline=Deadline.after(60)))
    transfer.close()


def test_looking_many_up_is_tried_once_however_many_wait_for_it(store: HubStore) -> None:
    asked = list[int]()

    class Failing(HubStore):
        def open_all(self, keys: Sequence[str]) -> dict[str, OpenObject]:
            asked.append(len(keys))
            time.sleep(0.2)
            raise StoreUnavailableError("it does not answer")

    transfer = Transfer(Failing(store.url))
    requests = [RangeRequest(f"parts/{number}", 0, 1) for number in range(30)]
    with pytest.raises(StoreUnavailableError):
        list(transfer.ranges(requests, deadline=Deadline.after(60)))
    transfer._pool.shutdown(wait=True)
    assert asked == [30]


def test_a_batch_of_which_a_write_has_failed_is_not_finished(hub: HubEmulator) -> None:
    place = EmulatedPlace(hub)
    store = HubStore(place.url)

    def chunks() -> Iterator[bytes]:
        yield b"1"
        raise LookupError

    batch = store.write_batch()
    batch.put("parts/0", b"0")
    with pytest.raises(LookupError):
        batch.put_stream("parts/1", chunks())
    with pytest.raises(StoreUnavailableError, match="has failed"):
        batch.finish()
    batch = store.write_batch()
    batch.put("parts/2", b"2")
    hub.fault(Fault(match="^POST .*/batch", status=403))
    with pytest.raises(StoreDeniedError):
        batch.finish()
    with pytest.raises(StoreUnavailableError, match="has failed"):
        batch.finish()  # nothing of it is there
    assert place.keys() == []
