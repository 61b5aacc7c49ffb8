"""The suite's S3 simulator keeps what every S3 server must, notes what was asked of it, and goes wrong when told."""

from __future__ import annotations

import http.client
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path

import pytest

from deltawire.errors import ObjectExistsError, StoreDeniedError, StoreUnavailableError
from deltawire.store import ReplaceIf, S3Store, s3_client
from deltawire.store.probe import probe
from deltawire_conformance.case import Fault
from deltawire_conformance.simulator.bodies import MalformedBody, read_body
from deltawire_conformance.simulator.noting import Noted
from deltawire_conformance.simulator.rules import RULES
from deltawire_conformance.simulator.server import BUCKET, Simulator, Stage
from deltawire_conformance.simulator.store import SimulatorStore
from tests.store.s3_contract import S3Contract
from tests.store.servers import S3Server

VERSION = f"versions/{1:020}.json"
FREE = {"if-none-match": "*"}


@pytest.fixture(scope="module")
def simulator(s3_credentials: None) -> Iterator[Simulator]:
    with closing(Simulator(page=7)) as running:
        yield running


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_client, "FIRST_PAUSE_SECONDS", 0.001)


class TestS3OnSimulator(S3Contract):
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, simulator: Simulator) -> S3Server:
        return S3Server(name="simulator", port=simulator.port)

    def test_it_is_fit(self, server: S3Server) -> None:
        with closing(S3Store(server.url("probed"))) as store:
            assert all(result.passed for result in probe(store).results)

    def test_copies_are_objects_of_their_own(self, store: S3Store, server: S3Server) -> None:
        with closing(S3Store(server.url("elsewhere"))) as other:
            store.put("x", b"1", mode="overwrite")
            assert other.copy_from(store, "x", "y")
            store.put("x", b"2", mode="overwrite")
            assert other.get("y", max_bytes=1).data == b"1"


@contextmanager
def staged(simulator: Simulator, *faults: Fault) -> Iterator[tuple[S3Store, Stage, SimulatorStore]]:
    """A prefix where things go wrong: as a client sees it, its log, and what is there."""
    prefix = uuid.uuid4().hex
    beside = SimulatorStore(simulator.objects, f"{prefix}/")
    stage = Stage(f"{prefix}/", faults=faults, lay=lambda tree: beside.put(tree, b"laid", mode="overwrite"))
    url = f"s3://{BUCKET}/{prefix}?endpoint_url={simulator.endpoint}&region=us-east-1"
    with simulator.staged(stage), closing(S3Store(url)) as store:
        yield store, stage, beside


def test_every_request_is_noted(simulator: Simulator) -> None:
    with staged(simulator) as (store, stage, _):
        token = store.put(VERSION, b"one", mode="create")
        store.put(VERSION, b"two", mode=ReplaceIf(token))
        store.get_range(VERSION, 1, 2)
        list(store.list("versions/"))
        store.delete(VERSION)
        noted = stage.log.since_last()
        assert [(n.verb, n.key) for n in noted] == [
            ("put", VERSION), ("put", VERSION), ("get", VERSION), ("list", "versions/"), ("delete", VERSION),
        ]  # fmt: skip
        assert noted[0].headers["if-none-match"] == "*"
        assert noted[1].headers["if-match"] == token
        assert (noted[1].before, noted[1].after, noted[1].body) == (b"one", b"two", b"two")
        assert noted[2].headers["range"] == "bytes=1-2"
        assert noted[0].wrote_at is not None
        assert noted[0].at < noted[0].wrote_at < noted[1].at
        assert stage.log.since_last() == []


def test_another_prefix_is_not_noted(simulator: Simulator) -> None:
    with staged(simulator) as (_, stage, _), staged(simulator) as (store, other, _):
        store.put("x", b"1", mode="overwrite")
        assert stage.log.since_last() == []
        assert len(other.log.since_last()) == 1


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("action", ["lose_answer", "do_and_refuse", "lose_request", "refuse"])
def test_a_put_goes_wrong_once(simulator: Simulator, action: str) -> None:
    fault = Fault(method="PUT", key="x", action=action)  # type: ignore[arg-type]
    with staged(simulator, fault) as (store, stage, beside):
        try:
            store.put("x", b"mine", mode="create")
        except ObjectExistsError:
            assert action == "lose_answer"  # the client's HTTP layer repeats a PUT by itself
        assert beside.get("x", max_bytes=4).data == b"mine"
        puts = [noted for noted in stage.log.since_last() if noted.verb == "put"]
        assert puts[0].took_place == (action in {"lose_answer", "do_and_refuse"})
        assert puts[0].status == (503 if "refuse" in action else None)


@pytest.mark.usefixtures("short_pauses")
def test_a_body_is_cut(simulator: Simulator) -> None:
    with staged(simulator, Fault(method="GET", key="x", action="cut_body")) as (store, stage, beside):
        beside.put("x", bytes(1000), mode="overwrite")
        assert store.get("x", max_bytes=1000).data == bytes(1000)
        assert len(stage.log.since_last()) == 2


def test_a_tree_is_put_before_a_request_is_done(simulator: Simulator) -> None:
    with staged(simulator, Fault(method="PUT", key="x", action="put", tree="x")) as (store, _, beside):
        with pytest.raises(ObjectExistsError):
            store.put("x", b"mine", mode="create")
        assert beside.get("x", max_bytes=4).data == b"laid"


def test_conditions_can_be_ignored(simulator: Simulator) -> None:
    fault = Fault(method="PUT", key="*", action="ignore_condition", times=9)
    with staged(simulator, fault) as (store, _, beside):
        store.put("x", b"1", mode="create")
        store.put("x", b"2", mode="create")
        assert beside.get("x", max_bytes=1).data == b"2"


@pytest.mark.usefixtures("short_pauses")
def test_faults_skip_sleep_and_end(simulator: Simulator) -> None:
    skipping = Fault(method="PUT", key="a*", action="refuse", status=403, skip=1, times=1)
    sleeping = Fault(method="GET", key="*", action="refuse", status=403, after="b", times=99)
    with staged(simulator, skipping, sleeping) as (store, stage, _):
        store.put("a1", b"1", mode="create")
        with pytest.raises(StoreDeniedError):
            store.put("a2", b"1", mode="create")
        store.put("a2", b"1", mode="create")
        assert store.get("a1", max_bytes=1).data == b"1"
        store.put("b", b"1", mode="create")
        with pytest.raises(StoreDeniedError):
            store.get("a1", max_bytes=1)
        stage.faults.calm()
        assert store.get("a1", max_bytes=1).data == b"1"


@pytest.mark.usefixtures("short_pauses")
def test_503_for_ever_is_unavailable(simulator: Simulator) -> None:
    with (
        staged(simulator, Fault(method="PUT", key="x", action="refuse", times=99)) as (store, _, _),
        pytest.raises(StoreUnavailableError),
    ):
        store.put("x", b"1", mode="create")


@pytest.mark.parametrize(
    ("framed", "headers"),
    [
        (b"hello", {"content-length": "5"}),
        (b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", {"transfer-encoding": "chunked"}),
        (
            b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n",
            {"content-length": "49", "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"},
        ),
        (
            b"5;chunk-signature=abc\r\nhello\r\n0;chunk-signature=def\r\n\r\n",
            {"content-length": "54", "content-encoding": "aws-chunked", "x-amz-decoded-content-length": "5"},
        ),
    ],
)
def test_bodies_are_read_whichever_way_they_are_sent(framed: bytes, headers: dict[str, str]) -> None:
    if "content-length" in headers:
        headers = {**headers, "content-length": str(len(framed))}
    assert read_body(BytesIO(framed), headers) == b"hello"


@pytest.mark.parametrize(
    ("framed", "headers"),
    [
        (b"hell", {"content-length": "5"}),
        (b"5\r\nhell", {"transfer-encoding": "chunked"}),
        (b"x\r\nhello\r\n0\r\n\r\n", {"transfer-encoding": "chunked"}),
    ],
)
def test_broken_bodies_are_refused(framed: bytes, headers: dict[str, str]) -> None:
    with pytest.raises(MalformedBody):
        read_body(BytesIO(framed), headers)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"/{BUCKET}/missing", 404),
        ("GET", "/no-such-bucket/x", 404),
        ("PUT", f"/{BUCKET}/x?partNumber=1&uploadId=none", 404),
        ("GET", f"/{BUCKET}?list-type=2&delimiter=%2F", 501),
        ("POST", f"/{BUCKET}/x", 501),
        ("HEAD", f"/{BUCKET}", 200),
    ],
)
def test_what_it_cannot_do_it_says(simulator: Simulator, method: str, path: str, status: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=5)
    with closing(connection):
        connection.request(method, path, body=b"" if method in {"PUT", "POST"} else None)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status


# Rules: each is kept by one log and broken by another that differs in one thing.

BLOB = "data/1/part.arrow"
RECORD = json.dumps({"commit_id": "a", "version": 1, "tensors": {"key": BLOB, "digest": "x"}}).encode()
HEAD = json.dumps({"version": 1}).encode()


def noted(verb: str, key: str, at: int, **more: object) -> Noted:
    method = {"get": "GET", "list": "GET", "head": "HEAD", "delete": "DELETE"}.get(verb, "PUT")
    wrote = {"wrote_at": at + 1} if verb in {"put", "copy"} and more.get("status", 200) in {200, None} else {}
    values = {"headers": {}, "body": b"", "status": 200, **wrote, **more}
    return Noted(verb=verb, method=method, key=key, at=at, **values)  # type: ignore[arg-type]


def lease(at: int, commit_id: str, **more: object) -> Noted:
    body = json.dumps({"commit_id": commit_id, "epoch": 1, "acquired_at": "x", "released": False, **more}).encode()
    return noted("put", "leases/writer.json", at, headers=FREE, body=body)


version = noted("put", VERSION, 10, headers=FREE, body=RECORD)
lost = noted("put", VERSION, 10, headers=FREE, body=RECORD, status=None)


@pytest.mark.parametrize(
    ("rule", "kept", "broken"),
    [
        ("blobs_before_record", [noted("put", BLOB, 1), version], [version, noted("put", BLOB, 20)]),
        ("blobs_before_record", [version], [noted("put", BLOB, 1, status=None), version]),
        ("conditional_records", [version], [noted("put", VERSION, 10, body=RECORD)]),
        ("conditional_records", [noted("begin", BLOB, 1)], [noted("begin", VERSION, 1)]),
        ("conditional_records", [lease(1, "a")], [noted("put", "retention.json", 1)]),
        ("same_bytes_again", [version, version], [version, noted("put", VERSION, 20, headers=FREE, body=b"{}")]),
        ("read_back", [lost, noted("get", VERSION, 20)], [lost]),
        ("boundary_after_commit", [version, noted("get", "retention.json", 20, status=404)], [version]),
        ("head_after_commit", [version, noted("put", "head.json", 20, body=HEAD)], [version]),
        (
            "head_after_commit",
            [version, noted("put", "head.json", 20, body=HEAD)],
            [noted("put", "head.json", 5, body=HEAD), version, noted("put", "head.json", 20, body=HEAD)],
        ),
        (
            "no_overwrite",
            [noted("put", BLOB, 1, before=b"1", after=b"1"), noted("put", "head.json", 2, before=b"1", after=b"2")],
            [noted("put", BLOB, 1, before=b"1", after=b"2")],
        ),
        ("no_deletes", [noted("delete", "probe/x", 1)], [noted("delete", "leases/writer.json", 1)]),
        ("no_listing", [noted("list", "spans/", 1)], [noted("list", "versions/", 1)]),
        ("no_listing", [noted("list", "spans/", 1)], [noted("list", "", 1)]),
        ("record_before_part", [noted("get", VERSION, 1), noted("get", BLOB, 2)], [noted("get", BLOB, 2)]),
        ("no_data", [noted("get", VERSION, 1)], [noted("get", BLOB, 1)]),
        ("lease_first", [lease(1, "a"), version], [version, lease(20, "a")]),
        (
            "line_after_lease",
            [lease(1, "a"), noted("head", VERSION, 5, status=404), version],
            [noted("head", VERSION, 0, status=404), lease(1, "a"), version],
        ),
        ("new_commit_ids", [lease(1, "a"), lease(2, "b")], [lease(1, "a"), lease(2, "a", epoch=2)]),
        ("renewals", [lease(1, "a"), lease(2, "b"), lease(3, "c")], [lease(1, "a"), lease(2, "b")]),
        (
            "renewals",
            [lease(1, "a"), lease(2, "b"), lease(3, "c")],
            [lease(1, "a"), lease(2, "b"), lease(3, "c", epoch=2)],
        ),
    ],
)
def test_rules_can_be_kept_and_broken(rule: str, kept: Sequence[Noted], broken: Sequence[Noted]) -> None:
    assert list(RULES[rule].broken(kept)) == []
    assert list(RULES[rule].broken(broken)) != []


def test_every_rule_is_tried() -> None:
    marks = test_rules_can_be_kept_and_broken.pytestmark  # type: ignore[attr-defined]
    assert {parameters[0] for parameters in marks[0].args[1]} == set(RULES)


def test_every_rule_is_documented() -> None:
    contract = (Path(__file__).resolve().parents[2] / "conformance" / "ADAPTER.md").read_text()
    assert set(re.findall(r"^\| `([a-z_]+)` \|.*\| [A-Z]{3}-", contract, re.MULTILINE)) == set(RULES)
