"""What S3Store does when answers are lost, late, cut or errors."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from deltawire.errors import (
    InvalidArgumentError,
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreDeniedError,
    StoreUnavailableError,
    StoreUnfitError,
)
from deltawire.store import ReplaceIf, S3Store, s3_client
from tests.store.faulty_proxy import Fault, FaultyProxy, faulty_proxy
from tests.store.forking import in_a_forked_child
from tests.store.servers import BUCKET, S3Server, free_port

PART = 5 << 20


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_client, "FIRST_PAUSE_SECONDS", 0.001)


@pytest.fixture
def proxy(moto_server: S3Server) -> Iterator[FaultyProxy]:
    with faulty_proxy(moto_server.port) as running:
        yield running


@pytest.fixture
def url() -> str:
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture
def store(proxy: FaultyProxy, url: str) -> Iterator[S3Store]:
    opened = S3Store(f"{url}?endpoint_url={proxy.endpoint}&region=us-east-1", read_seconds=1.0, part_bytes=PART)
    yield opened
    opened.close()


@pytest.mark.parametrize("times", [1, 2, 4])
@pytest.mark.parametrize("warm", [False, True])
def test_a_create_whose_answer_was_lost_is_ours(store: S3Store, proxy: FaultyProxy, times: int, warm: bool) -> None:
    """The client's HTTP layer repeats a PUT by itself, so a create may be told that it lost against itself (CMT-5)."""
    if warm:
        store.put("warm", b"1", mode="overwrite")
    proxy.faults.append(Fault(method="PUT", times=times, lose_answer=True))
    try:
        token = store.put("x", b"mine", mode="create")
    except ObjectExistsError:
        pass
    else:
        assert token == store.get("x", max_bytes=10).token
    assert store.get("x", max_bytes=10).data == b"mine"


@pytest.mark.parametrize("status", [403, 501])
def test_a_refusal_after_an_attempt_that_may_have_arrived_leaves_the_outcome_unknown(
    store: S3Store, proxy: FaultyProxy, status: int
) -> None:
    """STO-20: only the first attempt can be refused for good."""
    proxy.faults += [Fault(method="PUT", status=503), Fault(method="PUT", status=status, code="AccessDenied")]
    with pytest.raises(StoreUnavailableError, match="503"):
        store.put("x", b"mine", mode="create")


@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_swap_whose_answer_was_lost_is_ours(store: S3Store, proxy: FaultyProxy, times: int) -> None:
    before = store.put("x", b"before", mode="create")
    proxy.faults.append(Fault(method="PUT", times=times, lose_answer=True))
    try:
        token = store.put("x", b"mine", mode=ReplaceIf(before))
    except PreconditionFailedError:
        pass
    else:
        assert token == store.get("x", max_bytes=10).token
    assert store.get("x", max_bytes=10).data == b"mine"


def test_a_create_whose_answer_came_too_late_is_ours(store: S3Store, proxy: FaultyProxy) -> None:
    proxy.faults.append(Fault(method="PUT", stall=True))
    token = store.put("x", b"mine", mode="create")
    assert token == store.get("x", max_bytes=10).token


def test_a_create_that_lost_to_another_during_an_outage_is_told(store: S3Store, proxy: FaultyProxy) -> None:
    store.put("x", b"theirs", mode="create")
    proxy.faults.append(Fault(method="PUT", times=2, status=500))
    with pytest.raises(ObjectExistsError):
        store.put("x", b"mine", mode="create")
    assert store.get("x", max_bytes=10).data == b"theirs"


@pytest.mark.parametrize(
    ("status", "code"),
    [(409, "ConditionalRequestConflict"), (500, "InternalError"), (503, "SlowDown"), (429, "TooManyRequests")],
)
def test_what_passes_is_tried_again(store: S3Store, proxy: FaultyProxy, status: int, code: str) -> None:
    for method in ("PUT", "GET", "HEAD", "DELETE"):
        proxy.faults.append(Fault(method=method, times=3 if method == "PUT" else 2, status=status, code=code))
    first = store.put("x", b"1", mode="create")
    second = store.put("x", b"2", mode=ReplaceIf(first))
    assert store.get("x", max_bytes=1).token == second
    assert store.head("x").bytes == 1
    assert store.get_range("x", 0, 1) == b"2"
    store.delete("x")
    assert list(store.list("")) == []
    assert all(fault.times == 0 for fault in proxy.faults)


def test_an_outage_ends_in_unavailable(store: S3Store, proxy: FaultyProxy) -> None:
    store.put("x", b"1", mode="create")
    for method in ("PUT", "GET", "HEAD", "DELETE"):
        proxy.faults.append(Fault(method=method, times=1000, status=503))
    for verb in _verbs(store):
        with pytest.raises(StoreUnavailableError):
            verb()
    assert len(proxy.seen) < 100


def test_a_store_that_never_answers_is_unavailable(url: str, s3_credentials: None) -> None:
    store = S3Store(f"{url}?endpoint_url=http://127.0.0.1:{free_port()}&region=us-east-1")
    for verb in _verbs(store):
        with pytest.raises(StoreUnavailableError):
            verb()


def test_a_refusal_is_denied_at_once(store: S3Store, proxy: FaultyProxy) -> None:
    for method in ("PUT", "GET", "HEAD", "DELETE"):
        proxy.faults.append(Fault(method=method, times=1000, status=403, code="AccessDenied"))
    verbs = _verbs(store)
    for verb in verbs:
        with pytest.raises(StoreDeniedError):
            verb()
    assert len(proxy.seen) == len(verbs)


def test_a_server_without_conditions_is_unfit(store: S3Store, proxy: FaultyProxy) -> None:
    proxy.faults.append(Fault(method="PUT", status=501, code="NotImplemented"))
    with pytest.raises(StoreUnfitError):
        store.put("x", b"1", mode="create")


def test_a_swap_on_a_missing_key_is_refused_whatever_the_server_says(store: S3Store, proxy: FaultyProxy) -> None:
    for status, code in [(404, "NoSuchKey"), (412, "PreconditionFailed")]:
        proxy.faults.append(Fault(method="PUT", status=status, code=code))
        with pytest.raises(PreconditionFailedError):
            store.put("x", b"1", mode=ReplaceIf('"0"'))


@pytest.mark.parametrize(
    "read", [lambda store: store.get("x", max_bytes=1 << 20).data, lambda store: store.get_range("x", 0, 100_000)]
)
def test_a_body_that_breaks_off_is_read_again(
    store: S3Store, proxy: FaultyProxy, read: Callable[[S3Store], bytes]
) -> None:
    store.put("x", b"7" * 100_000, mode="create")
    proxy.faults.append(Fault(method="GET", times=2, cut_body=True))
    assert read(store) == b"7" * 100_000
    proxy.faults.append(Fault(method="GET", times=1000, cut_body=True))
    with pytest.raises(StoreUnavailableError):
        read(store)


def test_a_range_that_was_ignored_is_not_taken_for_the_answer(store: S3Store, proxy: FaultyProxy) -> None:
    store.put("x", b"0123456789", mode="create")
    for start, length in [(0, 5), (5, 5)]:
        proxy.faults.append(Fault(method="GET", forget_range=True))
        with pytest.raises(StoreUnfitError):
            store.get_range("x", start, length)
    proxy.faults.append(Fault(method="GET", forget_range=True))
    assert store.get_range("x", 0, 10) == b"0123456789"


@pytest.mark.parametrize("contains", ["uploads", "partNumber=2", "uploadId"])
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_large_stream_survives_lost_answers(store: S3Store, proxy: FaultyProxy, method: str, contains: str) -> None:
    proxy.faults.append(Fault(method=method, times=2, contains=contains, lose_answer=True))
    assert store.put_stream("big", (bytes([number]) * PART for number in (1, 2, 3))) == 3 * PART
    assert store.get_range("big", 2 * PART - 1, 2) == bytes([2, 3])
    assert store.head("big").bytes == 3 * PART


def test_a_large_stream_in_an_outage_leaves_nothing(store: S3Store, proxy: FaultyProxy) -> None:
    proxy.faults.append(Fault(method="PUT", times=1000, contains="partNumber=2", status=500))
    with pytest.raises(StoreUnavailableError):
        store.put_stream("big", (bytes(PART) for _ in range(3)))
    with pytest.raises(ObjectNotFoundError):
        store.head("big")
    assert proxy.seen[-2] == "DELETE"


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # the point of the test
def test_a_forked_child_opens_its_own_connections(store: S3Store) -> None:
    """Neither event loops nor sockets survive a fork; a data loader's workers are often forked."""
    store.put("x", b"parent", mode="create")
    in_a_forked_child(lambda: store.put("y", store.get("x", max_bytes=10).data, mode="create"))
    assert store.get("y", max_bytes=10).data == b"parent"


def test_old_client_libraries_are_refused(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """s3fs drops what botocore does not know, so a condition would silently be none."""
    monkeypatch.setattr(s3_client, "CONDITIONS", frozenset({"IfMatch", "IfSomethingNew"}))
    with pytest.raises(StoreUnfitError):
        store.put("x", b"1", mode="overwrite")


def test_an_unknown_profile_is_an_argument(url: str, s3_credentials: None) -> None:
    with pytest.raises(InvalidArgumentError, match="no-such-profile"):
        S3Store(f"{url}?profile=no-such-profile").get("x", max_bytes=1)


def _verbs(store: S3Store) -> list[Callable[[], object]]:
    return [
        lambda: store.get("x", max_bytes=10),
        lambda: store.get_range("x", 0, 1),
        lambda: store.head("x"),
        lambda: list(store.list("")),
        lambda: store.put("y", b"1", mode="create"),
        lambda: store.put("x", b"1", mode="overwrite"),
        lambda: store.put("x", b"1", mode=ReplaceIf('"0"')),
        lambda: store.put_stream("y", [b"1"]),
        lambda: store.delete("x"),
    ]
