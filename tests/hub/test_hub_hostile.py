"""Answers that no Hub gives: whatever they are, they end in an error of the store's, and soon."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from deltawire.errors import StoreUnavailableError
from deltawire.store import hub_client
from deltawire.store.hub import HubStore
from tests.hub.verbs import Pauses

pytestmark = pytest.mark.usefixtures("alice", "pauses")

HASH = {"X-Xet-Hash": "0" * 64}
MANY = "9" * 5000


@dataclass
class Answer:
    """What is answered to every request."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    asked: int = 0


@pytest.fixture
def answer() -> Answer:
    return Answer()


@pytest.fixture
def store(answer: Answer) -> Iterator[HubStore]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer.asked += 1
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_HEAD = do_POST = do_GET  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield HubStore(f"hf://buckets/alice/weights?endpoint=http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "headers",
    [
        HASH | {"X-Linked-Size": MANY},
        HASH | {"X-Linked-Size": "9" * 30},
        HASH | {"X-Linked-Size": "-1"},
        HASH | {"X-Linked-Size": "²"},
        {"X-Xet-Hash": "é" * 32, "X-Linked-Size": "1"},
        {"X-Xet-Hash": "0" * 63 + "/", "X-Linked-Size": "1"},
        {"X-Linked-Size": "1"},
    ],
)
def test_files(store: HubStore, answer: Answer, headers: dict[str, str]) -> None:
    answer.headers = headers
    for act in (store.head, store.open, lambda key: store.get(key, max_bytes=1 << 60)):
        with pytest.raises(StoreUnavailableError):
            act("x")


@pytest.mark.parametrize(
    "modified",
    ["Mon, 01 Jan 2020 23:00:00 +9999999999999999999", "Mon, 01 Jan 0001 00:00:00 -0000", f"1 Jan {MANY} 00:00", "x"],
)
def test_times(store: HubStore, answer: Answer, modified: str) -> None:
    """Are hints."""
    answer.headers = HASH | {"X-Linked-Size": "3", "Last-Modified": modified}
    assert store.head("x").bytes == 3


@pytest.mark.parametrize("location", ["http://[x", "//[", "http://a]b/", "//other.invalid/", "http:", "\\\\other", ""])
def test_redirects(store: HubStore, answer: Answer, location: str) -> None:
    answer.status, answer.headers = 307, {"Location": location}
    with pytest.raises(StoreUnavailableError):
        store.head("x")


def test_what_has_moved_is_not_done(store: HubStore, answer: Answer) -> None:
    """Such as by a bucket's old name: only the route for downloads is followed."""
    answer.status, answer.headers = 307, {"Location": "/api/buckets/alice/new?secret=1"}
    for act in (lambda: list(store.list("")), lambda: store.delete("x"), lambda: store.open_all(list("abcdefghijkl"))):
        answer.asked = 0
        with pytest.raises(StoreUnavailableError, match=r"307: it has moved to /api/buckets/alice/new$"):
            act()
        assert answer.asked == 1


@pytest.mark.parametrize("location", ["http://[x", "//[", "http://a]b/", "//other.invalid/", "http:"])
def test_further_pages(store: HubStore, answer: Answer, location: str) -> None:
    answer.headers, answer.body = {"Link": f'<{location}>; rel="next"'}, b"[]"
    with pytest.raises(StoreUnavailableError):
        list(store.list(""))


@pytest.mark.parametrize(
    "headers",
    [
        {"RateLimit": f'"api";r=0;t={"9" * 400}'},
        {"RateLimit": f'"api";r=0;t={MANY}'},
        {"RateLimit": f'"api";r={MANY};t=1'},
        {"Retry-After": MANY},
        {"Retry-After": "²"},
        {},
    ],
)
def test_rate_limits(store: HubStore, answer: Answer, headers: dict[str, str]) -> None:
    answer.status, answer.headers = 429, headers
    for act in (store.head, store.delete):
        with pytest.raises(StoreUnavailableError, match="the rate limit of "):
            act("x")


@pytest.mark.parametrize("charset", ["hex", "zlib", "rot13", "idna", "undefined", "none", "utf-16"])
def test_refusals_in_odd_letters(store: HubStore, answer: Answer, charset: str) -> None:
    answer.status, answer.headers, answer.body = 400, {"Content-Type": f"text/html; charset={charset}"}, b"\xff\x00why"
    with pytest.raises(StoreUnavailableError, match="why"):
        store.delete("x")


@pytest.mark.parametrize(
    "body",
    [
        b'[{"type":"file","path":"a","more":' + b"[" * 100_000 + b"]" * 100_000 + b"}]",
        b"[" * 100_000,
        b'[{"type":"file","path":"\xff"}]',
        b'[{"type":"file","path":"a","size":' + b"9" * 5000 + b"}]",
        b'[{"type":"file","path":"a","size":1e400}]',
        b"{}",
    ],
)
def test_bodies(store: HubStore, answer: Answer, body: bytes) -> None:
    answer.body = body
    with pytest.raises(StoreUnavailableError, match="makes no sense"):
        list(store.list(""))
    with pytest.raises(StoreUnavailableError):
        store.delete("x")


@pytest.mark.parametrize("encodings", ["gzip, gzip", "br", "zstd", "deflate, gzip"])
def test_compression_of_which_a_little_is_a_lot(store: HubStore, answer: Answer, encodings: str) -> None:
    """Nothing but gzip was asked for, whose output is bounded by its input."""
    answer.headers = {"Content-Encoding": encodings}
    answer.body = gzip.compress(gzip.compress(bytes(1 << 20)))
    with pytest.raises(StoreUnavailableError, match="encod"):
        list(store.list(""))


def test_compression(store: HubStore, answer: Answer, pauses: Pauses, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [{"type": "file", "path": "a", "size": 1, "xetHash": "0" * 64}]
    answer.headers, answer.body = {"Content-Encoding": "gzip"}, gzip.compress(json.dumps(files).encode())
    assert [info.key for info in store.list("")] == ["a"]
    answer.body = answer.body[:-12] + bytes(12)
    with pytest.raises(StoreUnavailableError):
        list(store.list(""))
    monkeypatch.setattr(hub_client, "_ANSWER_BYTES", 1000)
    answer.body = gzip.compress(bytes(1 << 20))
    with pytest.raises(StoreUnavailableError, match="an answer of more than"):
        list(store.list(""))


def test_what_is_said_of_operations_is_cut(store: HubStore, answer: Answer) -> None:
    """It ends up in a message."""
    said = {"path": "x", "error": "no\n\x1b[31m" * 100_000}
    answer.body = json.dumps({"success": False, "failed": [said]}).encode()
    with pytest.raises(StoreUnavailableError) as caught:
        store.put("x", b"", mode="overwrite")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("told", ["", "0" * 63, "g" * 64, "../" + "0" * 61])
def test_a_hash_that_is_none_is_refused(store: HubStore, answer: Answer, told: str) -> None:
    """Of several objects that are looked up together."""
    answer.body = json.dumps([{"type": "file", "path": "parts/0", "size": 1, "xetHash": told}]).encode()
    with pytest.raises(StoreUnavailableError, match="makes no sense"):
        store.open_all([f"parts/{number}" for number in range(12)])


def test_a_file_without_a_hash_is_none(store: HubStore, answer: Answer) -> None:
    keys = [f"parts/{number}" for number in range(12)]
    answer.body = json.dumps([{"type": "file", "path": key, "size": 1} for key in keys]).encode()
    assert store.open_all(keys) == {}
    answer.body = json.dumps([{"type": "file", "path": key, "size": 1, "xetHash": "0" * 64} for key in keys]).encode()
    assert set(store.open_all(keys)) == set(keys)
