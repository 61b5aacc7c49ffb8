"""Producers and followers by the Hub's API, also two producers by mistake, where nothing arbitrates (SPEC.md 11.1)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from deltawire import AnchorPolicy, Follower, Publisher, open_store
from deltawire.errors import ConflictError, StoreUnavailableError, StoreUnfitError
from deltawire.format import keys
from deltawire.store import hub_client
from deltawire.store.hub import HubStore
from tests.hub.emulator import Asked, Fault, HubEmulator
from tests.hub.lines import State, publish, state
from tests.hub.places import EmulatedPlace

pytestmark = pytest.mark.usefixtures("alice")
BATCH = r"^POST .*/batch$"


@pytest.fixture
def pause(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """What happens instead of the store's next pauses."""
    actions: list[Callable[[], object]] = []

    def sleep(seconds: float) -> None:
        if actions:
            actions.pop(0)()

    monkeypatch.setattr(hub_client, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    yield actions
    assert actions == []


def newest(url: str) -> tuple[int, str, State]:
    with Follower(url) as follower:
        update = follower.poll()
        assert update is not None
        return update.version, update.state_digest, {name: np.array(bits) for name, bits in follower.arrays.items()}


def holds(url: str, version: int, digest: str, seed: int) -> None:
    found, told, arrays = newest(url)
    assert (found, told) == (version, digest)
    assert np.array_equal(arrays["w"], state(seed)["w"])


def test_one_producer_and_a_follower(place: EmulatedPlace) -> None:
    with pytest.raises(StoreUnfitError):
        Publisher(place.url)  # nobody has said that there is only one
    with Publisher(place.url, single_writer=True) as publisher, Follower(place.url) as follower:
        for seed in range(4):
            version, digest = publish(publisher, seed)
            update = follower.poll()
            assert update is not None
            assert (update.version, update.state_digest) == (version, digest)
            assert np.array_equal(follower.arrays["w"], state(seed)["w"])
    with Publisher(place.url, single_writer=True) as publisher:
        assert publish(publisher, 9)[0] == 4


class Rival:
    """Another producer, whose record of the next version waits at the Hub's door until it is let in."""

    def __init__(self, hub: HubEmulator, place: EmulatedPlace) -> None:
        self._publisher = Publisher(place.url, single_writer=True)
        self._hub = hub
        self._record = threading.Event()
        self._go = threading.Event()
        self._batches = 0
        self.end: tuple[int, str] | Exception | None = None

    def begin(self, seed: int) -> None:
        """Publish as far as to the batch that names the record, in a thread."""
        self._hub.before(BATCH, self._wait, times=2)

        def work() -> None:
            try:
                self.end = publish(self._publisher, seed)
            except Exception as error:  # noqa: BLE001 - looked at by the test
                self.end = error

        self._thread = threading.Thread(target=work)
        self._thread.start()
        assert self._record.wait(20)

    def _wait(self, asked: Asked) -> None:
        self._batches += 1
        if self._batches == 2:  # the first names the parts
            self._record.set()
            assert self._go.wait(20)

    def finish(self) -> tuple[int, str] | Exception | None:
        """Let the record in, and wait for the end."""
        self._go.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.end

    def publish(self, seed: int) -> tuple[int, str]:
        return publish(self._publisher, seed)

    def close(self) -> None:
        self._publisher.close()


@pytest.fixture
def ours(place: EmulatedPlace) -> Iterator[Publisher]:
    with Publisher(place.url, single_writer=True, anchors=AnchorPolicy(outweigh=None)) as publisher:
        publish(publisher, 0)
        yield publisher


@pytest.fixture
def rival(hub: HubEmulator, place: EmulatedPlace, ours: Publisher) -> Iterator[Rival]:
    found = Rival(hub, place)
    yield found
    found.close()


def test_who_is_overwritten_before_the_check_is_told(
    hub: HubEmulator, place: EmulatedPlace, ours: Publisher, rival: Rival
) -> None:
    """CMT-7: both looked, both found nothing, and the other's record came last."""
    rival.begin(1)
    looks = iter(["before the record", "after it"])

    def look(asked: Asked) -> None:
        if next(looks) == "after it":
            rival.finish()

    hub.before(r"^HEAD .*/versions/0*1\.json", look, times=2)
    with pytest.raises(ConflictError):
        publish(ours, 2)
    assert isinstance(rival.end, tuple)
    holds(place.url, *rival.end, 1)
    with pytest.raises(ConflictError):
        publish(ours, 3)
    version, digest = rival.publish(4)
    holds(place.url, version, digest, 4)


def test_who_is_overwritten_after_the_check_is_told_at_the_next(
    place: EmulatedPlace, ours: Publisher, rival: Rival
) -> None:
    """CMT-12: our version was committed, and is gone; nothing is put on top of another's as if it were ours."""
    rival.begin(1)
    assert publish(ours, 2)[0] == 1
    end = rival.finish()
    assert isinstance(end, tuple)
    holds(place.url, *end, 1)
    with pytest.raises(ConflictError, match="replaced by another writer"):
        publish(ours, 3)
    holds(place.url, *end, 1)
    version, digest = rival.publish(4)
    holds(place.url, version, digest, 4)


def test_who_comes_later_is_told(place: EmulatedPlace, ours: Publisher, rival: Rival) -> None:
    """STO-28: without a race looking first is enough."""
    version, digest = publish(ours, 1)
    with pytest.raises(ConflictError):
        rival.publish(2)
    holds(place.url, version, digest, 1)


@pytest.mark.parametrize(
    "fault", [{"drop": True, "do_it": True}, {"status": 503, "do_it": True}, {"drop": True}, {"status": 500}]
)
def test_a_lost_answer_undoes_nobody(
    hub: HubEmulator,
    place: EmulatedPlace,
    ours: Publisher,
    rival: Rival,
    pause: list[Callable[[], object]],
    fault: dict[str, bool],
) -> None:
    """STO-30: our record is lost or its answer is, the other's comes, and ours is not put back in its place."""
    rival.begin(1)
    hub.fault(Fault(match=BATCH, after=1, **fault))  # type: ignore[arg-type]
    pause.append(rival.finish)
    with pytest.raises(ConflictError):
        publish(ours, 2)
    assert isinstance(rival.end, tuple)
    holds(place.url, *rival.end, 1)


def test_a_lost_answer_is_no_conflict(
    hub: HubEmulator, place: EmulatedPlace, ours: Publisher, pause: list[Callable[[], object]]
) -> None:
    hub.fault(Fault(match=BATCH, after=1, drop=True, do_it=True))
    pause.append(lambda: None)
    holds(place.url, *publish(ours, 1), 1)


def test_no_record_names_what_is_not_there(
    hub: HubEmulator, place: EmulatedPlace, ours: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-29, CMT-1: the batch of the parts is answered, but they do not show."""
    with monkeypatch.context() as patch:
        patch.setattr(hub_client.HubClient, "infos", lambda client, paths: {})
        patch.setattr(hub_client, "FIRST_PAUSE_SECONDS", 0.001)
        with pytest.raises(StoreUnavailableError, match="are not there"):
            publish(ours, 1)
    assert keys.version_key(1) not in place.contents()


def test_a_version_costs_four_calls(hub: HubEmulator, place: EmulatedPlace, ours: Publisher) -> None:
    """SPEC.md 5.9; and a follower costs none but those of its pin, and a token."""
    with Follower(place.url, pin=False) as follower:
        follower.poll()
        for seed in range(1, 5):
            hub.log.clear()
            publish(ours, seed)
            assert hub.log.counts()["api"] == 4
            hub.log.clear()
            assert follower.poll() is not None
            assert hub.log.counts()["api"] == 0


def test_a_store_is_told_by_its_url(place: EmulatedPlace) -> None:
    assert isinstance(open_store(place.url), HubStore)
