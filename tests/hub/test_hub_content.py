"""What ``HubStore`` does when the storage behind the Hub refuses, forgets, is slow or makes no sense."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from deltawire.errors import ObjectNotFoundError, StoreUnavailableError
from deltawire.store import hub_client, hub_xet
from deltawire.store.hub import HubStore
from tests.hub.emulator import Fault, HubEmulator
from tests.hub.emulator import hub as emulated
from tests.hub.emulator.asking import as_json
from tests.hub.places import EmulatedPlace
from tests.hub.verbs import BATCH, FOREVER, OLD, THE_HUB, VERBS, Pauses, end, prepared, unique

pytestmark = pytest.mark.usefixtures("alice", "pauses")


@pytest.fixture
def hub(calm: HubEmulator) -> HubEmulator:
    return calm


def test_tokens_that_expire_are_renewed(pauses: Pauses) -> None:
    """While an upload, or an open object, goes on."""
    with HubEmulator(xet_token_seconds=1) as hub:
        hub.create("alice/weights")
        place = EmulatedPlace(hub)
        store, numbers = HubStore(place.url), random.Random(1)
        content = [numbers.randbytes(1_500_000) for _ in range(3)]

        def chunks() -> Iterator[bytes]:
            for chunk in content:
                yield chunk
                time.sleep(0.6)

        store.put_stream("x", chunks())
        opened = store.open("x")
        assert opened.get_range(0, 1_500_000) == content[0]
        time.sleep(1.1)
        assert opened.get_range(1_500_000, 1_500_000) == content[1]
        store.put("y", b"1", mode="create")


def test_a_token_that_is_revoked_is_renewed(hub: HubEmulator, place: EmulatedPlace, store: HubStore) -> None:
    place.write("x", OLD)
    opened = store.open("x")
    assert opened.get_range(0, 1) == OLD[:1]
    hub.log.clear()
    hub.fault(Fault(match="^GET /cas/", status=401))
    assert opened.get_range(0, len(OLD)) == OLD


def test_a_read_that_ends_with_another_is_read_again(
    place: EmulatedPlace, store: HubStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends one read ends all of a session, and shows there as if somebody had interrupted the process."""
    place.write("x", OLD)
    reading, times = hub_xet.XetStorage._reading, iter(range(2))

    def ended(storage: hub_xet.XetStorage) -> tuple[Any, Any]:
        session, group = reading(storage)
        if next(times) == 0:
            storage._abandon(session)
        return session, group

    monkeypatch.setattr(hub_xet.XetStorage, "_reading", ended)
    assert store.get_range("x", 3, 1000) == OLD[3:1003]


def test_an_interrupt_is_one(place: EmulatedPlace, store: HubStore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Group:
        def download_stream(self, *_: object, **__: object) -> None:
            raise KeyboardInterrupt

    place.write("x", OLD)
    reading = hub_xet.XetStorage._reading
    monkeypatch.setattr(hub_xet.XetStorage, "_reading", lambda storage: (reading(storage)[0], Group()))
    with pytest.raises(KeyboardInterrupt):
        store.get_range("x", 3, 1000)


@pytest.mark.parametrize("name", ["get", "create"])
@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_was_believed_good_is_not_kept(
    hub: HubEmulator, name: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage takes no more but a new one, though the old one has time left."""
    place = prepared(hub)
    store = HubStore(place.url)
    store.put("warm", unique(), mode="create")
    assert store.get_range("warm", 0, 10)
    place.delete("warm")
    hub.fault(Fault(match=r"^\w+ /(cas|bytes)/", times=FOREVER, status=status))
    hub.before(r"xet-\w+-token$", lambda asked: hub.calm())
    assert end(store, VERBS[name]) == "ok"


@pytest.mark.parametrize("status", [401, 403, 404, 416])
def test_an_address_that_has_expired_is_asked_for_again(
    hub: HubEmulator, place: EmulatedPlace, store: HubStore, status: int
) -> None:
    place.write("x", OLD)
    hub.fault(Fault(match="^GET /bytes/", times=2, status=status))
    assert store.get_range("x", 5, 10_000) == OLD[5:10_005]


def test_content_that_is_gone_is_told(hub: HubEmulator, place: EmulatedPlace, store: HubStore) -> None:
    """The name was taken away, and what nothing names is forgotten."""
    place.write("x", unique())
    opened = store.open("x")
    place.delete("x")
    hub.collect()
    with pytest.raises(ObjectNotFoundError):
        opened.get_range(0, 10)


def test_content_that_was_replaced_and_forgotten_while_it_was_looked_up(
    hub: HubEmulator, place: EmulatedPlace, store: HubStore
) -> None:
    place.write("x", unique())
    content = unique()

    def replace(asked: object) -> None:
        place.write("x", content)
        hub.collect()

    hub.before("^GET /cas/.*/reconstructions/", replace)
    assert store.get("x", max_bytes=1 << 20).data == content


def test_what_was_stored_but_not_named_may_be_forgotten(
    hub: HubEmulator, place: EmulatedPlace, store: HubStore
) -> None:
    hub.before(BATCH, lambda asked: hub.collect())
    with pytest.raises(StoreUnavailableError, match="hash not found"):
        store.put("x", unique(), mode="create")
    assert place.keys() == []


@pytest.mark.parametrize("match", [THE_HUB, r"^\w+ /(cas|bytes)/"])
@pytest.mark.parametrize("name", ["get", "create", "list", "delete"])
def test_what_does_not_answer_is_not_waited_for(
    hub: HubEmulator, name: str, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-9."""
    if name in {"list", "delete"} and match != THE_HUB:
        return
    place = prepared(hub)
    store = HubStore(place.url)
    monkeypatch.setattr(hub_client, "READ_SECONDS", 0.1)
    monkeypatch.setattr(hub_client, "ATTEMPTS", 2)
    monkeypatch.setitem(hub_xet._SETTINGS, "client.read_timeout", timedelta(seconds=0.1))
    monkeypatch.setitem(hub_xet._SETTINGS, "client.retry_max_attempts", 1)
    hub.fault(Fault(match=match, times=FOREVER, delay=1.0))
    before = time.monotonic()
    assert end(store, VERBS[name]) == "store_unavailable"
    assert time.monotonic() - before < 5


@pytest.mark.parametrize("match", [r"^GET /bytes/", r"^GET /cas/", r"^POST /cas/"])
@pytest.mark.parametrize("name", ["get_range", "create", "put_stream"])
def test_what_trickles_is_given_up(hub: HubEmulator, name: str, match: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-9: long before the storage's client would, which hears something now and then."""
    if ("GET" in match) != (name == "get_range"):
        return
    place = prepared(hub)
    store = HubStore(place.url)
    store.put("warm", unique(), mode="create")
    monkeypatch.setattr(hub_xet, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(hub_client, "ATTEMPTS", 2)
    hub.fault(Fault(match=match, times=FOREVER, delay=2.0))
    before = time.monotonic()
    assert end(store, VERBS[name]) == "store_unavailable"
    assert time.monotonic() - before < 1.9
    hub.calm()
    monkeypatch.undo()
    monkeypatch.setenv("HF_TOKEN", "hf_alice")
    place.delete("warm")
    assert end(store, VERBS[name]) == "ok"  # what was given up is made again


def test_a_long_answer_is_not_taken_in(
    hub: HubEmulator, place: EmulatedPlace, store: HubStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("x", b"1")
    monkeypatch.setattr(hub_client, "_ANSWER_BYTES", 50)
    with pytest.raises(StoreUnavailableError, match="an answer of more than"):
        list(store.list(""))


@pytest.mark.parametrize(
    "access",
    [
        {"casUrl": "local:///tmp", "exp": 1 << 40, "accessToken": "x"},
        {"casUrl": "https://cas.invalid", "exp": -5, "accessToken": "x"},
        {"casUrl": "https://cas.invalid", "exp": 10**30, "accessToken": "x"},
        {"casUrl": "https://cas.invalid", "exp": 1 << 40},
        ["x"],
    ],
)
def test_a_storage_that_makes_no_sense(
    hub: HubEmulator, place: EmulatedPlace, store: HubStore, access: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the storage is, the Hub says, but it must be a server."""
    monkeypatch.setattr(emulated, "as_json", lambda content, **_: as_json(access if "casUrl" in content else content))
    for name in ("get", "create"):
        with pytest.raises(StoreUnavailableError, match="makes no sense"):
            VERBS[name].act(HubStore(prepared(hub).url))


def test_what_came_wrong_once_comes_right_later(
    place: EmulatedPlace, store: HubStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage's client does not hold what it reads to its hash, and neither does the store."""
    place.write("x", OLD)
    read = hub_xet.XetStorage.read
    monkeypatch.setattr(hub_xet.XetStorage, "read", lambda *arguments: bytes(len(read(*arguments))))
    assert store.get("x", max_bytes=1 << 20).data == bytes(len(OLD))
    monkeypatch.undo()
    assert all(store.get("x", max_bytes=1 << 20).data == OLD for _ in range(4))
