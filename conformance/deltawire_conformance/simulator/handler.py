"""A server and a handler of HTTP requests that are quick on loopback and say nothing of their own."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import BinaryIO

_IDLE_SECONDS = 60


class QuietServer(ThreadingHTTPServer):
    """Waits for no client when it is closed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections, and sends an answer in one piece; who inherits it says what is done."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = -1
    rfile: BinaryIO  # type: ignore[assignment]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is inherited
        """Requests are noted elsewhere."""

    def handle_expect_100(self) -> bool:
        """Ask for the body."""
        done = super().handle_expect_100()
        self.wfile.flush()
        return done
