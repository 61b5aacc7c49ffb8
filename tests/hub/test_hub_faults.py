"""What ``HubStore`` does when requests are refused, lost, cut, late or answered with nonsense, each of them in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from deltawire.errors import ObjectExistsError, StoreUnavailableError
from deltawire.store import hub_client
from deltawire.store.hub import HubStore
from tests.hub.emulator import BatchFault, Fault, HubEmulator, Stale
from tests.hub.emulator import hub as emulated
from tests.hub.emulator.asking import Answer, as_json
from tests.hub.places import EmulatedPlace
from tests.hub.verbs import BATCH, FAULTS, FOREVER, PASSING, THE_HUB, VERBS, Pauses, Verb, check, end, prepared

pytestmark = pytest.mark.usefixtures("alice", "pauses")


@pytest.fixture
def hub(calm: HubEmulator) -> HubEmulator:
    return calm


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
        place = prepared(hub)
        hub.fault(Fault(match="", after=at, **FAULTS[fault]))
        ended = end(HubStore(place.url), VERBS[name])
        told = f"{name}: {fault} at {line}: {ended}"
        assert ended in _allowed(name, fault, kind), told
        check(place, VERBS[name], done=ended == "ok", told=told)


@pytest.mark.parametrize("fault", ["500", "503 though done", "lost after", "nonsense"])
@pytest.mark.parametrize("name", VERBS)
def test_the_hub_may_fail_for_good(hub: HubEmulator, pauses: Pauses, name: str, fault: str) -> None:
    """STO-9: from any request on."""
    hub_requests = [line for kind, line in _requests(hub, VERBS[name]) if kind in {"api", "resolve"}]
    for at, line in enumerate(hub_requests):
        hub.calm()
        place = prepared(hub)
        hub.log.clear()
        pauses.seconds.clear()
        hub.fault(Fault(match=THE_HUB, after=at, times=FOREVER, **FAULTS[fault]))
        ended = end(HubStore(place.url), VERBS[name])
        told = f"{name}: {fault} from {line} on: {ended}"
        assert ended == "store_unavailable", told
        assert sum(pauses.seconds) < 60, told
        assert hub.log.counts()["api"] + hub.log.counts()["resolve"] < 20, told
        check(place, VERBS[name], done=False, told=told)


@pytest.mark.parametrize("fault", ["500", "lost before", "401", "403", "404", "nonsense", "cut"])
@pytest.mark.parametrize("name", ["get", "get_range", "create", "put_stream"])
def test_the_storage_may_fail_for_good(hub: HubEmulator, name: str, fault: str) -> None:
    for match in (r"^\w+ /cas/", r"^\w+ /bytes/") if name.startswith("get") else (r"^\w+ /cas/",):
        hub.calm()
        place = prepared(hub)
        hub.fault(Fault(match=match, times=FOREVER, **FAULTS[fault]))
        ended = end(HubStore(place.url), VERBS[name])
        assert ended in {"store_unavailable", "store_denied"}, f"{name}: {fault}: {ended}"
        check(place, VERBS[name], done=False, told=fault)


def _requests(hub: HubEmulator, verb: Verb) -> Sequence[tuple[str, str]]:
    place = prepared(hub)
    hub.log.clear()
    assert end(HubStore(place.url), verb) == "ok"
    check(place, verb, done=True, told="without a fault")
    return [(noted.kind, f"{noted.method} {noted.path}") for noted in hub.log.all()]


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
