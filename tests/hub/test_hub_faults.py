"""What ``HubStore`` does when requests are refused, lost, cut, late or answered with nonsense, each of them in turn."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from deltawire.errors import ObjectExistsError, ObjectNotFoundError, StoreError, StoreUnavailableError
from deltawire.store import hub_client, hub_xet
from deltawire.store.hub import HubStore
from tests.hub.emulator import BatchFault, Fault, HubEmulator, Stale
from tests.hub.emulator import hub as emulated
from tests.hub.emulator.asking import Answer, as_json
from tests.hub.places import EmulatedPlace

pytestmark = pytest.mark.usefixtures("alice")
OLD, NEW = b"old " * 10_000, b"new " * 12_000
FOREVER = 1_000_000
THE_HUB = r"^\w+ /(api/|buckets/)"
BATCH = r"^POST .*/batch$"


class Pauses:
    """Takes the place of waiting, and notes it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.meanwhile: list[Callable[[], object]] = []
        """What happens in the next pauses."""

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    found = Pauses()
    monkeypatch.setattr(hub_client, "time", SimpleNamespace(sleep=found.sleep, monotonic=time.monotonic))
    monkeypatch.setitem(hub_xet._SETTINGS, "client.retry_base_delay", timedelta(milliseconds=1))
    return found


@pytest.fixture(scope="module")
def running() -> Iterator[HubEmulator]:
    with HubEmulator() as hub:
        hub.create("alice/weights")
        yield hub


@pytest.fixture
def hub(running: HubEmulator) -> Iterator[HubEmulator]:
    running.calm()
    running.log.clear()
    yield running
    running.calm()


@pytest.fixture
def place(hub: HubEmulator) -> EmulatedPlace:
    return EmulatedPlace(hub)


@pytest.fixture
def store(place: EmulatedPlace) -> HubStore:
    return HubStore(place.url)


@dataclass(frozen=True)
class Verb:
    """What is done to a bucket that holds ``taken`` and ``other``."""

    act: Callable[[HubStore], Any]
    result: Any
    wrote: Mapping[str, bytes | None]
    """What is there afterwards; None: nothing."""
    streams: bool = False
    """Whether the content is at hand only once, so that only the storage's own client can send it again."""


def _batch(store: HubStore) -> None:
    batch = store.write_batch()
    batch.put("free", NEW)
    batch.put_stream("more", [NEW[:1], NEW[1:], b"!"])
    batch.finish()


VERBS = {
    "get": Verb(lambda store: store.get("taken", max_bytes=1 << 20).data, OLD, {}),
    "get nothing": Verb(lambda store: _missing(lambda: store.get("free", max_bytes=1)), "object_not_found", {}),
    "get_range": Verb(lambda store: store.get_range("taken", 17, 30_000), OLD[17:30_017], {}),
    "head": Verb(lambda store: store.head("taken").bytes, len(OLD), {}),
    "list": Verb(lambda store: [info.key for info in store.list("")], ["other", "taken"], {}),
    "create": Verb(lambda store: len(store.put("free", NEW, mode="create")), 64, {"free": NEW}),
    "create what is taken": Verb(lambda store: _taken(lambda: store.put("taken", NEW, mode="create")), "taken", {}),
    "overwrite": Verb(lambda store: len(store.put("taken", NEW, mode="overwrite")), 64, {"taken": NEW}),
    "put_stream": Verb(lambda store: store.put_stream("free", [NEW, b"!"]), len(NEW) + 1, {"free": NEW + b"!"}, True),
    "write_batch": Verb(_batch, None, {"free": NEW, "more": NEW + b"!"}, True),
    "delete": Verb(lambda store: store.delete("taken"), None, {"taken": None}),
    "delete_all": Verb(
        lambda store: store.delete_all(["taken", "free", "other"]), None, {"taken": None, "other": None}
    ),
    "copy_from": Verb(lambda store: store.copy_from(HubStore(store.url), "taken", "free"), True, {"free": OLD}),
}


def _missing(act: Callable[[], object]) -> str:
    try:
        act()
    except ObjectNotFoundError as error:
        return error.code
    return "found"


def _taken(act: Callable[[], object]) -> str:
    try:
        act()
    except ObjectExistsError:
        return "taken"
    return "written"


FAULTS: Mapping[str, Mapping[str, Any]] = {
    "500": {"status": 500},
    "503 though done": {"status": 503, "do_it": True},
    "lost before": {"drop": True},
    "lost after": {"drop": True, "do_it": True},
    "cut": {"cut": True},
    "nonsense": {"status": 200},
    "nonsense though done": {"status": 200, "do_it": True},
    "429": {"status": 429, "headers": {"RateLimit": '"api";r=0;t=1'}},
    "long 429": {"status": 429, "headers": {"RateLimit": '"api";r=0;t=300'}},
    "401": {"status": 401},
    "403": {"status": 403},
    "404": {"status": 404},
}
PASSING = {"500", "503 though done", "lost before", "lost after", "cut", "nonsense", "nonsense though done", "429"}


def _allowed(name: str, fault: str, kind: str) -> set[str]:
    """How a verb may end if one of its requests goes wrong: ``ok``, or the code of an error."""
    if kind in {"cas", "bytes"}:  # the storage's client sends again itself, mostly
        return {"ok"} if not VERBS[name].streams else {"ok", "store_unavailable"}
    if fault in PASSING:
        return {"ok"}
    if fault == "404" and kind == "resolve":
        return {"create": {"ok"}, "get nothing": {"ok"}}.get(name, {"object_not_found"})
    return {"long 429": {"store_unavailable"}, "404": {"store_unavailable"}}.get(fault, {"store_denied"})


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", VERBS)
def test_any_request_may_go_wrong(hub: HubEmulator, name: str, fault: str) -> None:
    """STO-29, STO-30, STO-33: the verb does its work in spite of it, or says what is wrong; nothing is half done."""
    requests = _requests(hub, VERBS[name])
    for at, (kind, line) in enumerate(requests):
        if name == "create what is taken" and fault == "404" and kind == "resolve":
            continue  # a Hub that denies what is there makes looking first worthless
        hub.calm()
        place = _prepared(hub)
        hub.fault(Fault(match="", after=at, **FAULTS[fault]))
        end = _end(HubStore(place.url), VERBS[name])
        told = f"{name}: {fault} at {line}: {end}"
        assert end in _allowed(name, fault, kind), told
        _check(place, VERBS[name], done=end == "ok", told=told)


@pytest.mark.parametrize("fault", ["500", "503 though done", "lost after", "nonsense"])
@pytest.mark.parametrize("name", VERBS)
def test_the_hub_may_fail_for_good(hub: HubEmulator, pauses: Pauses, name: str, fault: str) -> None:
    """STO-9: from any request on."""
    hub_requests = [line for kind, line in _requests(hub, VERBS[name]) if kind in {"api", "resolve"}]
    for at, line in enumerate(hub_requests):
        hub.calm()
        place = _prepared(hub)
        hub.log.clear()
        pauses.seconds.clear()
        hub.fault(Fault(match=THE_HUB, after=at, times=FOREVER, **FAULTS[fault]))
        end = _end(HubStore(place.url), VERBS[name])
        told = f"{name}: {fault} from {line} on: {end}"
        assert end == "store_unavailable", told
        assert sum(pauses.seconds) < 60, told
        assert hub.log.counts()["api"] + hub.log.counts()["resolve"] < 20, told
        _check(place, VERBS[name], done=False, told=told)


@pytest.mark.parametrize("fault", ["500", "lost before", "401", "403", "404", "nonsense", "cut"])
@pytest.mark.parametrize("name", ["get", "get_range", "create", "put_stream"])
def test_the_storage_may_fail_for_good(hub: HubEmulator, name: str, fault: str) -> None:
    for match in (r"^\w+ /cas/", r"^\w+ /bytes/") if name.startswith("get") else (r"^\w+ /cas/",):
        hub.calm()
        place = _prepared(hub)
        hub.fault(Fault(match=match, times=FOREVER, **FAULTS[fault]))
        end = _end(HubStore(place.url), VERBS[name])
        assert end in {"store_unavailable", "store_denied"}, f"{name}: {fault}: {end}"
        _check(place, VERBS[name], done=False, told=fault)


def _unique() -> bytes:
    return uuid.uuid4().bytes * 1000


def _requests(hub: HubEmulator, verb: Verb) -> Sequence[tuple[str, str]]:
    place = _prepared(hub)
    hub.log.clear()
    assert _end(HubStore(place.url), verb) == "ok"
    _check(place, verb, done=True, told="without a fault")
    return [(noted.kind, f"{noted.method} {noted.path}") for noted in hub.log.all()]


def _prepared(hub: HubEmulator) -> EmulatedPlace:
    place = EmulatedPlace(hub)
    place.write("taken", OLD)
    place.write("other", b"other")
    return place


def _end(store: HubStore, verb: Verb) -> str:
    try:
        found = verb.act(store)
    except StoreError as error:
        return error.code if str(error) and (error.hint or error.code == "object_not_found") else "untold"
    assert found == verb.result
    return "ok"


def _check(place: EmulatedPlace, verb: Verb, *, done: bool, told: str) -> None:
    """What is there is what was there, or what was to be there, each object for itself."""
    before: Mapping[str, bytes | None] = {"taken": OLD, "other": b"other"}
    there = place.contents()
    assert there.keys() <= before.keys() | verb.wrote.keys(), told
    for key in before.keys() | verb.wrote.keys():
        wanted = [verb.wrote.get(key, before.get(key))] + ([] if done else [before.get(key)])
        assert there.get(key) in wanted, f"{told}: {key}"


def test_pauses_grow_and_follow_the_limit(
    hub: HubEmulator, place: EmulatedPlace, store: HubStore, pauses: Pauses
) -> None:
    place.write("x", b"1")
    hub.fault(Fault(match=THE_HUB, times=3, status=500))
    assert store.head("x").bytes == 1
    assert pauses.seconds == [0.5, 1, 2]
    pauses.seconds.clear()
    hub.calm()
    hub.fault(Fault(match=THE_HUB, times=2, status=429, headers={"RateLimit": '"resolvers";r=0;t=42'}))
    assert store.head("x").bytes == 1
    assert pauses.seconds == [43, 43]
    pauses.seconds.clear()
    hub.calm()
    hub.fault(Fault(match=THE_HUB, status=429, headers={"Retry-After": "7"}))
    assert store.head("x").bytes == 1
    assert pauses.seconds == [8]


class TestBatches:
    """STO-29."""

    def test_operations_that_failed_are_sent_again(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore
    ) -> None:
        hub.fault(BatchFault(every=3, times=5))
        batch = store.write_batch()
        for number in range(20):
            batch.put(f"parts/{number:02}", b"%d" % number)
        batch.finish()
        assert place.contents() == {f"parts/{number:02}": b"%d" % number for number in range(20)}

    def test_what_goes_on_failing_is_told(self, hub: HubEmulator, place: EmulatedPlace, store: HubStore) -> None:
        hub.fault(BatchFault(paths="parts/7$", times=FOREVER, error="quota exceeded"))
        batch = store.write_batch()
        for number in range(9):
            batch.put(f"parts/{number}", b"%d" % number)
        with pytest.raises(StoreUnavailableError, match=r"1 of 9 objects.*parts/7: quota exceeded"):
            batch.finish()
        assert len(place.keys()) == 8
        hub.calm()
        hub.fault(BatchFault(times=FOREVER))
        for verb in (
            lambda: store.put_stream("x", [b"1"]),
            lambda: store.put("x", b"1", mode="create"),
            lambda: store.put("x", b"1", mode="overwrite"),
            lambda: store.delete("parts/1"),
        ):
            with pytest.raises(StoreUnavailableError, match="Internal error"):
                verb()
        assert len(place.keys()) == 8

    def test_a_report_of_failures_is_not_believed_either(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore
    ) -> None:
        """What is not there counts, whatever was said; here the batch is done, and its answer says nothing."""
        hub.fault(Fault(match=BATCH, times=FOREVER, status=200, do_it=True))
        assert store.put_stream("x", [b"1"]) == 1
        store.put("y", b"1", mode="create")
        store.put("y", b"2", mode="overwrite")
        assert place.read("y") == b"2"
        store.delete_all(["x", "y"])
        assert place.keys() == []

    @pytest.mark.parametrize("lie", ["size", "hash", "absent"])
    def test_names_that_do_not_show_are_an_error(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, lie: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """CMT-1: or a record would name what is not there."""
        infos = hub_client.HubClient.infos

        def lying(client: hub_client.HubClient, paths: Sequence[str]) -> dict[str, hub_client.Entry]:
            told = {}
            for path, entry in infos(client, paths).items():
                if lie == "size":
                    told[path] = hub_client.Entry("file", path, entry.size + 1, entry.xet_hash)
                elif lie == "hash":
                    told[path] = hub_client.Entry("file", path, entry.size, "0" * 64)
            return told

        monkeypatch.setattr(hub_client.HubClient, "infos", lying)
        with pytest.raises(StoreUnavailableError, match="x"):
            store.put_stream("x", [b"12345"])

    def test_a_look_that_lags_is_repeated(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, pauses: Pauses
    ) -> None:
        hub.fault(Stale(match=r"^POST .*/paths-info$", writes=1))
        pauses.meanwhile = [lambda: None, hub.calm]
        assert store.put_stream("x", [b"1"]) == 1
        assert place.read("x") == b"1"


class TestCreates:
    """STO-30: where the answer to a batch is lost, its repetition must not undo what another has written since."""

    @pytest.mark.parametrize("fault", ["503 though done", "lost after", "nonsense though done", "lost before", "500"])
    @pytest.mark.parametrize("times", [1, 2])
    def test_a_later_writer_stays(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, pauses: Pauses, fault: str, times: int
    ) -> None:
        hub.fault(Fault(match=BATCH, times=times, **FAULTS[fault]))
        pauses.meanwhile = [lambda: place.write("x", b"theirs")]
        with pytest.raises(ObjectExistsError):
            store.put("x", b"ours", mode="create")
        assert place.read("x") == b"theirs"

    @pytest.mark.parametrize("fault", ["401", "403", "404", "long 429"])
    @pytest.mark.parametrize("match", [BATCH, "^HEAD "])
    def test_a_refusal_after_a_lost_answer_is_none(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, pauses: Pauses, fault: str, match: str
    ) -> None:
        """SPEC.md 11.1: ``store_denied`` would mean that nothing was written."""
        if fault == "404" and match == "^HEAD ":
            return  # not a refusal
        hub.fault(Fault(match=BATCH, status=503))

        def refuse() -> None:
            hub.calm()
            hub.fault(Fault(match=match, times=FOREVER, **FAULTS[fault]))

        pauses.meanwhile = [refuse]
        with pytest.raises(StoreUnavailableError):
            store.put("x", b"ours", mode="create")

    def test_a_wait_between_does_not_make_it_one(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, pauses: Pauses
    ) -> None:
        hub.fault(
            Fault(match=BATCH, drop=True, do_it=True), Fault(match=BATCH, status=429), Fault(match=BATCH, status=403)
        )
        pauses.meanwhile = [lambda: place.delete("x")]
        with pytest.raises(StoreUnavailableError):
            store.put("x", b"ours", mode="create")

    def test_the_same_content_of_another_is_not_ours(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, pauses: Pauses
    ) -> None:
        hub.fault(Fault(match=BATCH, status=429))  # which was not done
        pauses.meanwhile = [lambda: place.write("x", b"the same")]
        with pytest.raises(ObjectExistsError):
            store.put("x", b"the same", mode="create")


class TestListings:
    def test_a_page_that_is_gone_does_not_end_a_listing(self, pauses: Pauses) -> None:
        with HubEmulator(page_size=2) as hub:
            hub.create("alice/weights")
            place = EmulatedPlace(hub)
            keys = [f"versions/{number}" for number in range(7)]
            for key in keys:
                place.write(key, b"1")
            store = HubStore(place.url)
            for status, code in [(404, "EntryNotFound"), (404, ""), (500, ""), (200, "")]:
                for after in range(1, 4):
                    hub.calm()
                    hub.fault(Fault(match="/tree/", after=after, status=status, headers={"X-Error-Code": code}))
                    try:
                        found = [info.key for info in store.list("versions/")]
                    except StoreUnavailableError:
                        continue
                    assert found == keys

    def test_no_folder_is_no_error(self, hub: HubEmulator, store: HubStore) -> None:
        hub.fault(Fault(match="/tree/", status=404, headers={"X-Error-Code": "EntryNotFound"}))
        assert list(store.list("versions/")) == []

    def test_a_listing_without_an_end_ends(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place.write("x", b"1")
        link_pages(monkeypatch, f"{hub.endpoint}/api/buckets/alice/weights/tree/x?cursor=")
        with pytest.raises(StoreUnavailableError, match="does not end"):
            list(store.list(""))
        assert len(hub.log.all()) < 20

    def test_a_token_is_not_sent_elsewhere(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither by a page's link nor by a redirect."""
        place.write("x", b"1")
        with HubEmulator() as thief:
            thief.create("alice/weights")
            link_pages(monkeypatch, thief.endpoint + "/api/buckets/alice/weights/tree")
            elsewhere = {"Location": thief.endpoint + "/buckets/alice/weights/resolve/x"}
            hub.fault(Fault(match="^HEAD ", times=FOREVER, status=307, headers=elsewhere))
            for verb in (lambda: list(store.list("")), lambda: store.get("x", max_bytes=1)):
                with pytest.raises(StoreUnavailableError, match="points to another host"):
                    verb()
            assert thief.log.all() == []


def link_pages(monkeypatch: pytest.MonkeyPatch, following: str) -> None:
    """Let each page of a listing have another one after it."""

    def linked(content: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
        link = {"Link": f'<{following}>; rel="next"'} if isinstance(content, list) else {}
        return as_json(content, status=status, headers={**(headers or {}), **link})

    monkeypatch.setattr(emulated, "as_json", linked)


class TestContent:
    def test_tokens_that_expire_are_renewed(self, pauses: Pauses) -> None:
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

    def test_a_token_that_is_revoked_is_renewed(self, hub: HubEmulator, place: EmulatedPlace, store: HubStore) -> None:
        place.write("x", OLD)
        opened = store.open("x")
        assert opened.get_range(0, 1) == OLD[:1]
        hub.log.clear()
        hub.fault(Fault(match="^GET /cas/", status=401))
        assert opened.get_range(0, len(OLD)) == OLD

    @pytest.mark.parametrize("name", ["get", "create"])
    @pytest.mark.parametrize("status", [401, 403])
    def test_a_token_that_was_believed_good_is_not_kept(
        self, hub: HubEmulator, name: str, status: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The storage takes no more but a new one, though the old one has time left."""
        place = _prepared(hub)
        store = HubStore(place.url)
        store.put("warm", _unique(), mode="create")
        assert store.get_range("warm", 0, 10)
        place.delete("warm")
        hub.fault(Fault(match=r"^\w+ /(cas|bytes)/", times=FOREVER, status=status))
        hub.before(r"xet-\w+-token$", lambda asked: hub.calm())
        assert _end(store, VERBS[name]) == "ok"

    @pytest.mark.parametrize("status", [401, 403, 404, 416])
    def test_an_address_that_has_expired_is_asked_for_again(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, status: int
    ) -> None:
        place.write("x", OLD)
        hub.fault(Fault(match="^GET /bytes/", times=2, status=status))
        assert store.get_range("x", 5, 10_000) == OLD[5:10_005]

    def test_content_that_is_gone_is_told(self, hub: HubEmulator, place: EmulatedPlace, store: HubStore) -> None:
        """The name was taken away, and what nothing names is forgotten."""
        place.write("x", _unique())
        opened = store.open("x")
        place.delete("x")
        hub.collect()
        with pytest.raises(ObjectNotFoundError):
            opened.get_range(0, 10)

    def test_content_that_was_replaced_and_forgotten_while_it_was_looked_up(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore
    ) -> None:
        place.write("x", _unique())
        content = _unique()

        def replace(asked: object) -> None:
            place.write("x", content)
            hub.collect()

        hub.before("^GET /cas/.*/reconstructions/", replace)
        assert store.get("x", max_bytes=1 << 20).data == content

    def test_what_was_stored_but_not_named_may_be_forgotten(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore
    ) -> None:
        hub.before(BATCH, lambda asked: hub.collect())
        with pytest.raises(StoreUnavailableError, match="hash not found"):
            store.put("x", _unique(), mode="create")
        assert place.keys() == []

    @pytest.mark.parametrize("match", [THE_HUB, r"^\w+ /(cas|bytes)/"])
    @pytest.mark.parametrize("name", ["get", "create", "list", "delete"])
    def test_what_does_not_answer_is_not_waited_for(
        self, hub: HubEmulator, name: str, match: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """STO-9."""
        if name in {"list", "delete"} and match != THE_HUB:
            return
        place = _prepared(hub)
        store = HubStore(place.url)
        monkeypatch.setattr(hub_client, "READ_SECONDS", 0.1)
        monkeypatch.setattr(hub_client, "ATTEMPTS", 2)
        monkeypatch.setitem(hub_xet._SETTINGS, "client.read_timeout", timedelta(seconds=0.1))
        monkeypatch.setitem(hub_xet._SETTINGS, "client.retry_max_attempts", 1)
        hub.fault(Fault(match=match, times=FOREVER, delay=1.0))
        before = time.monotonic()
        assert _end(store, VERBS[name]) == "store_unavailable"
        assert time.monotonic() - before < 5

    @pytest.mark.parametrize("match", [r"^GET /bytes/", r"^GET /cas/", r"^POST /cas/"])
    @pytest.mark.parametrize("name", ["get_range", "create", "put_stream"])
    def test_what_trickles_is_given_up(
        self, hub: HubEmulator, name: str, match: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """STO-9: long before the storage's client would, which hears something now and then."""
        if ("GET" in match) != (name == "get_range"):
            return
        place = _prepared(hub)
        store = HubStore(place.url)
        store.put("warm", _unique(), mode="create")
        monkeypatch.setattr(hub_xet, "PATIENCE_SECONDS", 0.2)
        monkeypatch.setattr(hub_client, "ATTEMPTS", 2)
        hub.fault(Fault(match=match, times=FOREVER, delay=2.0))
        before = time.monotonic()
        assert _end(store, VERBS[name]) == "store_unavailable"
        assert time.monotonic() - before < 1.9
        hub.calm()
        monkeypatch.undo()
        monkeypatch.setenv("HF_TOKEN", "hf_alice")
        place.delete("warm")
        assert _end(store, VERBS[name]) == "ok"  # what was given up is made again

    def test_a_long_answer_is_not_taken_in(
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, monkeypatch: pytest.MonkeyPatch
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
        self, hub: HubEmulator, place: EmulatedPlace, store: HubStore, access: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where the storage is, the Hub says, but it must be a server."""
        monkeypatch.setattr(
            emulated, "as_json", lambda content, **_: as_json(access if "casUrl" in content else content)
        )
        for name in ("get", "create"):
            with pytest.raises(StoreUnavailableError, match="makes no sense"):
                VERBS[name].act(HubStore(_prepared(hub).url))
