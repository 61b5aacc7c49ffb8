"""The emulator's HTTP server: takes requests apart, lets faults happen, notes everything."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from deltawire_conformance.simulator.answers import refusal
from deltawire_conformance.simulator.bodies import MalformedBody, read_body
from deltawire_conformance.simulator.handler import QuietHandler, QuietServer
from tests.hub.emulator.asking import Answer, Asked, Kind, Refused
from tests.hub.emulator.faults import Fault, Faults
from tests.hub.emulator.noting import Log, Noted

Face = Callable[[Asked], Answer]


class Server(QuietServer):
    """Serves on loopback.

    Args:
        port: 0 for a free one.
        faults: what goes wrong.
        log: of all requests.
    """

    request_queue_size = 256

    def __init__(self, port: int, faults: Faults, log: Log) -> None:
        self.faces: dict[Kind, Face] = {}
        self.faults = faults
        self.log = log
        self.errors: list[Exception] = []
        """What went wrong in the emulator itself."""
        self._open = set[socket.socket]()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End all connections, so that no thread waits for the next request of a client that keeps its own."""
        with self._lock:
            for found in self._open:
                _shut(found)

    def do(self, asked: Asked) -> Answer:
        """Do a request, without faults."""
        try:
            return self.faces[asked.kind](asked)
        except Refused as refused:
            return refused.answer
        except Exception as error:  # noqa: BLE001 - kept, and raised where the emulator is closed
            self.errors.append(error)
            return Answer(status=500)


class _Handler(QuietHandler):
    server: Server

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        path, headers = unquote(parts.path), {name.lower(): value for name, value in self.headers.items()}
        # Of the framing of aws-chunked nothing is taken off: the gateway does not know it.
        framing = {name: value for name, value in headers.items() if name in {"transfer-encoding", "content-length"}}
        try:
            body = read_body(self.rfile, framing)
        except (MalformedBody, ValueError):
            self.close_connection = True
            return
        asked = Asked(
            method=self.command,
            path=path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers=headers,
            body=body,
            client=self.client_address[0],
        )
        if asked.kind == "control":
            self._send(self.server.do(asked), cut=False)
            return
        for action in self.server.faults.actions(asked):
            try:
                action(asked)
            except Exception as error:  # noqa: BLE001 - the test's own, raised where the emulator is closed
                self.server.errors.append(error)
        fault = self.server.faults.of(asked)
        answer = self._answer(asked, fault)
        self.server.log.add(
            Noted(
                kind=asked.kind,
                method=asked.method,
                path=path,
                status=0 if answer is None else answer.status,
                received=len(body),
                sent=0 if answer is None or asked.method == "HEAD" else len(answer.body),
            )
        )
        if answer is None:
            self.close_connection = True
            _shut(self.connection)
        else:
            self._send(answer, cut=fault is not None and fault.cut)

    def _answer(self, asked: Asked, fault: Fault | None) -> Answer | None:
        if fault is None:
            return self.server.do(asked)
        time.sleep(fault.delay)
        answer = None
        if fault.do_it or (fault.status is None and not fault.drop):
            answer = self.server.do(asked)
        if fault.drop:
            return None
        return answer if fault.status is None else _wrong(asked, fault.status, fault.headers)

    def _send(self, answer: Answer, *, cut: bool) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != 204 and "Content-Length" not in answer.headers:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: len(answer.body) // 2] if cut else answer.body)
        self.wfile.flush()
        if cut:
            self.close_connection = True
            _shut(self.connection)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the names are inherited


def _wrong(asked: Asked, status: int, headers: Mapping[str, str]) -> Answer:
    answer = refusal(status) if asked.kind == "s3" else Refused(status, "The emulator was told to say so").answer
    return Answer(status=status, headers={**answer.headers, **headers}, body=answer.body)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was
