"""Everything that can be made to go wrong does so, and nothing else."""

from __future__ import annotations

import http.client
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from huggingface_hub.errors import BucketBatchError, BucketNotFoundError, HfHubHTTPError

from tests.hub.clients import BUCKET, api, ask, batch, s3, send
from tests.hub.emulator import Asked, BatchFault, Fault, HubEmulator, Stale, Token
from tests.hub.emulator.asking import Refused
from tests.hub.emulator.rates import Rates

_INFO = f"/api/buckets/{BUCKET}"
_LOST = (http.client.RemoteDisconnected, ConnectionResetError)


def _delete(path: str) -> dict[str, object]:
    return {"type": "deleteFile", "path": path}


def test_a_fault_waits_then_strikes_so_many_times(hub: HubEmulator) -> None:
    hub.fault(Fault(match=r"^GET /api/buckets/alice/weights$", status=503, after=2, times=2, headers={"X-Test": "1"}))
    found = [ask(hub, "GET", _INFO) for _ in range(6)]
    assert [answer.status for answer in found] == [200, 200, 503, 503, 200, 200]
    assert found[2].headers["x-test"] == "1"
    assert ask(hub, "GET", _INFO + "/tree").status == 200
    hub.fault(Fault(match="GET", status=500, times=9))
    hub.calm()
    assert ask(hub, "GET", _INFO).status == 200


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("status", [None, 503])
def test_a_request_is_done_or_not_when_its_answer_is_lost(hub: HubEmulator, done: bool, status: int | None) -> None:
    hub.write(BUCKET, "x", b"1")
    hub.fault(Fault(match="batch", do_it=done, status=status, drop=status is None))
    if status is None:
        with pytest.raises(_LOST):
            batch(hub, _delete("x"))
    else:
        assert batch(hub, _delete("x")).status == status
    assert hub.paths(BUCKET) == ([] if done else ["x"])
    assert [noted.status for noted in hub.log.all()] == [status or 0]


def test_the_client_repeats_a_batch_that_was_done(hub: HubEmulator) -> None:
    """So an older write of its own may come back: nothing tells the Hub that it is the same batch."""
    hub.fault(Fault(match="batch", do_it=True, status=503))
    hub.before(r"batch", lambda asked: hub.write(BUCKET, "x", b"of another") if _second(hub) else None, times=2)
    api(hub).batch_bucket_files(BUCKET, add=[(b"mine", "x")])
    assert hub.read(BUCKET, "x") == b"mine"
    assert [noted.status for noted in hub.log.all() if noted.path.endswith("batch")] == [503, 200]


def _second(hub: HubEmulator) -> bool:
    return any(noted.path.endswith("batch") for noted in hub.log.all())


def test_slow_and_cut_answers(hub: HubEmulator) -> None:
    hub.write(BUCKET, "x", bytes(1000))
    location = ask(hub, "GET", f"/buckets/{BUCKET}/resolve/x").headers["location"].partition(f":{hub.port}")[2]
    hub.fault(Fault(match="^GET /bytes/", cut=True), Fault(match="^GET /bytes/", delay=0.1))
    with pytest.raises(http.client.IncompleteRead) as cut:
        send(hub, "GET", location)
    assert len(cut.value.partial) == 500
    begun = time.monotonic()
    assert send(hub, "GET", location).body == bytes(1000)
    assert time.monotonic() - begun >= 0.1


def test_some_operations_of_a_batch_fail(hub: HubEmulator) -> None:
    client = api(hub)
    files: list[tuple[str | Path | bytes, str]] = [(path.encode(), path) for path in ("a1", "a2", "a3", "a4", "b1")]
    hub.fault(BatchFault(paths="^a", every=2, times=5, error="try again"))
    with pytest.raises(BucketBatchError) as failed:
        client.batch_bucket_files(BUCKET, add=files)
    assert failed.value.failures == [{"path": path, "error": "try again"} for path in ("a2", "a4")]
    assert hub.paths(BUCKET) == ["a1", "a3", "b1"]
    hub.calm()
    hub.fault(BatchFault(paths="^a1$"))
    report = batch(hub, _delete("a1"), _delete("a3"))
    assert (report.status, report.json["success"], report.json["succeeded"]) == (200, False, 1)
    hub.fault(BatchFault(times=2))
    assert batch(hub, _delete("a1"), _delete("b1")).status == 422
    assert hub.paths(BUCKET) == ["a1", "b1"]
    assert batch(hub, _delete("a1"), _delete("b1")).json["failed"] == []


def test_what_makes_an_operation_fail(hub: HubEmulator) -> None:
    hub.write(BUCKET, "x", b"1")
    digest = ask(hub, "POST", f"{_INFO}/paths-info", b'{"paths": ["x", "y"]}').json[0]["xetHash"]
    add = {"type": "addFile", "xetHash": digest, "mtime": 0}
    unfit = ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a/..", "a\\b", "a\0b"]
    errors = batch(hub, *({**add, "path": path} for path in unfit), {**add, "path": "a/./b..c"}).json
    assert [failure["path"] for failure in errors["failed"]] == unfit
    assert hub.paths(BUCKET) == ["a/./b..c", "x"]
    assert batch(hub, _delete("gone")).status == 422
    assert batch(hub, {**add, "path": "y", "xetHash": "0" * 63 + "1"}).status == 422
    copy = {**add, "path": "y", "type": "copyFile", "sourceRepoType": "bucket"}
    hub.create("bob/private", private=True)
    assert batch(hub, {**copy, "sourceRepoId": "bob/private"}).status == 422
    assert batch(hub, {**copy, "sourceRepoId": BUCKET}).status == 200
    assert batch(hub, *[_delete("gone")] * 1001).status == 400
    assert ask(hub, "POST", f"{_INFO}/batch", b"[]").status == 400
    with HubEmulator(refuse_missing_deletes=False) as other:
        other.create(BUCKET)
        assert batch(other, _delete("gone")).status == 200


def test_listings_may_lag(hub: HubEmulator) -> None:
    def tree() -> list[tuple[str, int]]:
        return [(entry["path"], entry["size"]) for entry in ask(hub, "GET", f"{_INFO}/tree").json]

    hub.write(BUCKET, "a", b"1")
    hub.write(BUCKET, "a", b"22")
    hub.write(BUCKET, "b", b"")
    hub.delete(BUCKET, "a")
    assert tree() == [("b", 0)]
    seen = []
    for writes in range(1, 6):
        hub.fault(Stale(writes=writes))
        seen.append(tree())
        assert ask(hub, "POST", f"{_INFO}/paths-info", b'{"paths": ["a"]}').json == []
        hub.calm()
    assert seen == [[("a", 2), ("b", 0)], [("a", 2)], [("a", 1)], [], []]
    hub.fault(Stale(seconds=3600))
    assert tree() == []
    hub.calm()
    begun = time.time()
    hub.write(BUCKET, "c", b"")
    hub.fault(Stale(seconds=0.1))
    while tree() != [("b", 0), ("c", 0)]:
        time.sleep(0.01)
    assert time.time() - begun >= 0.1
    hub.calm()
    hub.fault(Stale(match="^GET /s3/", writes=1))
    assert [entry["Key"] for entry in s3(hub).list_objects_v2(Bucket="weights")["Contents"]] == ["b"]


def test_rates_are_counted_by_user() -> None:
    with HubEmulator(api_limit=3, resolver_limit=1) as hub:
        hub.create(BUCKET)
        hub.write(BUCKET, "x", b"1")
        found = [ask(hub, "GET", _INFO) for _ in range(4)]
        assert [answer.status for answer in found] == [200, 200, 200, 429]
        assert re.fullmatch(r'"api";r=2;t=\d+', found[0].headers["ratelimit"])
        assert re.fullmatch(r'"api";r=0;t=\d+', found[3].headers["ratelimit"])
        assert found[3].headers["ratelimit-policy"] == '"fixed window";"api";q=3;w=300'
        assert ask(hub, "GET", _INFO, token="hf_bob").status == 200
        assert ask(hub, "GET", _INFO, token=None).status == 200
        resolved = [ask(hub, "HEAD", f"/buckets/{BUCKET}/resolve/x").status for _ in range(2)]
        assert resolved == [302, 429]
        assert s3(hub).get_object(Bucket="weights", Key="x")["ETag"]
        with pytest.raises(HfHubHTTPError, match="reached your 'api' rate limit"):
            api(hub).create_bucket(BUCKET)  # which it does not repeat


def test_windows_of_rates() -> None:
    now = 50.0
    rates = Rates({"api": 2}, 10, clock=lambda: now)
    assert rates.count("resolvers", "alice") == {}
    assert rates.count("api", "alice")["RateLimit"] == '"api";r=1;t=10'
    now = 54.5
    assert rates.count("api", "alice")["RateLimit"] == '"api";r=0;t=6'
    with pytest.raises(Refused):
        rates.count("api", "alice")
    assert rates.count("api", "bob")["RateLimit"] == '"api";r=1;t=10'
    now = 60.0
    assert rates.count("api", "alice")["RateLimit"] == '"api";r=1;t=10'


def test_tokens_of_the_cas(hub: HubEmulator) -> None:
    with HubEmulator(xet_token_seconds=0) as short:
        short.create(BUCKET)
        info = ask(short, "GET", f"{_INFO}/xet-read-token").json
        path = info["casUrl"].removeprefix(short.endpoint) + "/v2/reconstructions/" + "0" * 64
        assert send(short, "GET", path, Authorization=f"Bearer {info['accessToken']}").status == 401
    info = ask(hub, "GET", f"{_INFO}/xet-read-token").json
    path = info["casUrl"].removeprefix(hub.endpoint)
    authorization = f"Bearer {info['accessToken']}"
    assert send(hub, "GET", f"{path}/v2/reconstructions/{'0' * 64}", Authorization=authorization).status == 200
    assert send(hub, "POST", f"{path}/v2/shards", Authorization=authorization).status == 403
    assert send(hub, "POST", f"{path}/v2/shards", Authorization="Bearer hf_alice").status == 401


def test_the_client_gets_over_a_cas_that_falters(hub: HubEmulator, tmp_path: Path) -> None:
    data = bytes(range(256)) * 8000
    for match in ("POST .*/v1/xorbs/", "POST .*/v2/shards", "GET .*/v2/reconstructions/", "GET /bytes/xorbs/"):
        hub.fault(Fault(match=match, status=503), Fault(match=match, drop=True))
    hub.fault(Fault(match="GET /bytes/xorbs/", status=403))  # as a URL that is too old
    client = api(hub)
    client.batch_bucket_files(BUCKET, add=[(data, "x")])
    client.download_bucket_files(BUCKET, [("x", tmp_path / "x")])
    assert (tmp_path / "x").read_bytes() == data
    assert Counter(noted.status for noted in hub.log.all() if noted.kind in {"cas", "bytes"})[503] == 4


_READ = [("GET", _INFO), ("GET", f"{_INFO}/tree"), ("GET", f"/buckets/{BUCKET}/resolve/x")]
_WRITE = [("POST", f"{_INFO}/batch"), ("GET", f"{_INFO}/xet-write-token"), ("DELETE", _INFO)]


@pytest.mark.parametrize("private", [False, True])
def test_who_may_do_what(private: bool) -> None:
    def statuses(token: str | None, requests: list[tuple[str, str]]) -> set[int]:
        return {ask(hub, method, path, token=token).status for method, path in requests}

    with HubEmulator() as hub:
        hub.create(BUCKET, private=private)
        hub.create("team/shared", private=True)
        hub.write(BUCKET, "x", b"")
        assert statuses("hf_alice_expired", _READ + _WRITE) == statuses("hf_unknown", _READ + _WRITE) == {401}
        assert statuses(None, _READ) == ({401} if private else {302, 200})
        assert statuses(None, _WRITE) == {401}
        assert statuses("hf_carol", _READ) == ({404} if private else {302, 200})
        assert statuses("hf_carol", _WRITE) == ({404} if private else {403})
        assert statuses("hf_alice_reads", _READ) == {302, 200}
        assert statuses("hf_alice_reads", _WRITE) == {403}
        assert statuses("hf_alice", [("GET", "/api/buckets/alice/none"), ("DELETE", "/api/buckets/bob/none")]) == {404}
        assert statuses("hf_bob", [("GET", "/api/buckets/team/shared/xet-write-token")]) == {200}
        assert statuses("hf_carol", [("POST", "/api/buckets/alice/new"), ("POST", "/api/buckets/team/new")]) == {403}
        found = ask(hub, "GET", "/api/buckets/team/shared", token="hf_carol")
        assert found.headers["x-error-code"] == "RepoNotFound"
        hub.tokens["hf_new"] = Token(user="carol", organizations=("team",))
        assert api(hub, "hf_new").bucket_info("team/shared").private
        with pytest.raises(BucketNotFoundError):
            api(hub, "hf_carol").bucket_info("team/shared")
        assert statuses("hf_alice", _READ + _WRITE[:-1]) == {302, 200}
        assert api(hub).create_bucket("new", private=True).bucket_id == "alice/new"
        api(hub).create_bucket("new", exist_ok=True)
        api(hub).delete_bucket(BUCKET)
        assert ask(hub, "GET", _INFO).status == 404


def test_what_an_action_raises_is_raised_at_the_end() -> None:
    def fail(asked: Asked) -> None:
        raise AssertionError(asked.path)

    hub = HubEmulator()
    hub.create(BUCKET)
    hub.before("^GET /api", fail)
    assert ask(hub, "GET", _INFO).status == 200
    with pytest.raises(ExceptionGroup) as raised:
        hub.close()
    assert str(raised.value.exceptions[0]) == _INFO
