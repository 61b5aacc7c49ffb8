"""A proxy in front of an S3 server that loses, replaces or cuts answers as told."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_STALL_SECONDS = 3.0


@dataclass(slots=True, kw_only=True)
class Fault:
    """What happens to the next ``times`` requests of a method."""

    method: str
    times: int = 1
    contains: str = ""
    """Only where the path with its query contains this."""
    lose_answer: bool = False
    """The server does its work, and the connection breaks instead of an answer."""
    stall: bool = False
    """The server does its work, and the answer comes too late."""
    status: int | None = None
    """Answer with this, without asking the server."""
    code: str = "InternalError"
    cut_body: bool = False
    """Send half of the body that was announced."""
    forget_range: bool = False
    """Ask the server without the Range header."""


@dataclass(slots=True)
class FaultyProxy:
    """A running proxy; ``seen`` lists what clients sent."""

    port: int
    faults: list[Fault] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def take(self, method: str, path: str) -> Fault:
        """Return the fault for this request, or one that does nothing."""
        with self._lock:
            self.seen.append(method)
            for fault in self.faults:
                if fault.method == method and fault.times > 0 and fault.contains in path:
                    fault.times -= 1
                    return fault
        return Fault(method=method)


@contextmanager
def faulty_proxy(upstream: int) -> Iterator[FaultyProxy]:
    """Run a proxy for the server on loopback port ``upstream``."""
    proxy = FaultyProxy(0)
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is inherited
            pass

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy.take(self.command, self.path)
            if fault.status is not None:
                self._answer_error(fault.status, fault.code)
                return
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            if fault.forget_range:
                headers.pop("Range", None)
            connection = http.client.HTTPConnection("127.0.0.1", upstream, timeout=30)
            try:
                connection.request(self.command, self.path, body=body, headers=headers)
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
            if fault.stall:
                stopped.wait(_STALL_SECONDS)
            if fault.lose_answer or fault.stall:
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"connection", "transfer-encoding", "content-length", "server", "date"}:
                    self.send_header(name, value)
            length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(content))
            if answer.status != 204:
                self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[: len(content) // 2] if fault.cut_body else content)
            self.close_connection = self.close_connection or fault.cut_body

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - the names are inherited

        def _answer_error(self, status: int, code: str) -> None:
            content = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>told to</Message></Error>".encode()
            self.send_response_only(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        proxy.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield proxy
        finally:
            stopped.set()
            server.shutdown()
            thread.join(10)
