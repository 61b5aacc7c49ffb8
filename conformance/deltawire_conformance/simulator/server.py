"""The simulator's HTTP server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.message import Message
from urllib.parse import parse_qsl, unquote, urlsplit

from deltawire_conformance.case import Fault
from deltawire_conformance.simulator.answers import S3Answer, refusal
from deltawire_conformance.simulator.bodies import MalformedBody, read_body
from deltawire_conformance.simulator.faults import Faults
from deltawire_conformance.simulator.handler import QuietHandler, QuietServer
from deltawire_conformance.simulator.noting import Log, Noted
from deltawire_conformance.simulator.objects import Objects
from deltawire_conformance.simulator.operations import PAGE, Operations, S3Request

BUCKET = "streams"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "conformance", "AWS_SECRET_ACCESS_KEY": "conformance-secret"}


class Stage:
    """A prefix of the bucket with a log and faults of its own.

    Args:
        prefix: ends in ``/``.
        faults: what goes wrong below it.
        lay: puts a tree of the case into the stream, for faults that do.
    """

    def __init__(self, prefix: str, *, faults: Sequence[Fault] = (), lay: Callable[[str], object]) -> None:
        self.prefix = prefix
        self.log = Log()
        self.faults = Faults(faults)
        self.lay = lay


class Simulator:
    """A running simulator; safe to use from several threads.

    Args:
        page: most objects on a page of a listing.
    """

    def __init__(self, *, page: int = PAGE) -> None:
        self.objects = Objects()
        self._operations = Operations(self.objects, BUCKET, page=page)
        self._lock = threading.Lock()
        self._stages: dict[str, Stage] = {}
        self._server = _Server(self)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str | None]:
        """What an adapter is told at its start; None for variables that it must not have."""
        return {
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            # Nothing of this machine's own settings.
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
            **dict.fromkeys(
                ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE")
            ),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    @contextmanager
    def staged(self, stage: Stage) -> Iterator[Stage]:
        """Note the requests below a stage's prefix, and let its faults happen."""
        with self._lock:
            self._stages[stage.prefix] = stage
        try:
            yield stage
        finally:
            with self._lock:
                del self._stages[stage.prefix]

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def stage_of(self, name: str) -> Stage | None:
        """To which stage an object, or a prefix that is listed, belongs."""
        with self._lock:
            return next((stage for prefix, stage in self._stages.items() if name.startswith(prefix)), None)

    def handle(self, request: S3Request) -> tuple[S3Answer | None, bool]:
        """Do a request, with what goes wrong; the answer, None if it is lost, and whether its body is cut."""
        stage = self.stage_of(request.name or request.query.get("prefix", ""))
        if stage is None:
            return self._operations.answer(request)[0], False
        name = request.name or request.query.get("prefix", "")
        noted = Noted(
            verb=request.verb,
            method=request.method,
            key=name.removeprefix(stage.prefix),
            headers=request.headers,
            body=request.body,
            at=self.objects.tick(),
        )
        stage.log.add(noted)
        answer, cut = self._with_faults(request, noted, stage)
        noted.status = None if answer is None or cut else answer.status
        return answer, cut

    def _with_faults(self, request: S3Request, noted: Noted, stage: Stage) -> tuple[S3Answer | None, bool]:
        faults = stage.faults.of(noted)
        for fault in faults:
            if fault.action == "delay":
                time.sleep(fault.seconds)
            elif fault.action == "put":
                assert fault.tree is not None  # noqa: S101 - the lint of cases sees to it
                stage.lay(fault.tree)
        actions = {fault.action: fault for fault in faults}
        if "lose_request" in actions:
            return None, False
        if "refuse" in actions:
            return refusal(actions["refuse"].status), False
        if "ignore_condition" in actions:
            headers = {name: value for name, value in request.headers.items() if not name.startswith("if-")}
            request = S3Request(
                method=request.method, name=request.name, query=request.query, headers=headers, body=request.body
            )
        answer, written = self._operations.answer(request)
        if written is not None:
            noted.wrote_at, noted.before, noted.after = written.at, written.before, written.held.data
        if "lose_answer" in actions:
            return None, False
        if "do_and_refuse" in actions:
            return refusal(actions["do_and_refuse"].status), False
        return answer, "cut_body" in actions


class _Server(QuietServer):
    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(QuietHandler):
    server: _Server

    def _serve(self) -> None:
        headers = _headers(self.headers)
        try:
            body = read_body(self.rfile, headers)
        except (MalformedBody, ValueError):
            self.close_connection = True
            self._send(refusal(400, "IncompleteBody"), cut=False)
            return
        parts = urlsplit(self.path)
        bucket, _, name = unquote(parts.path).lstrip("/").partition("/")
        if bucket != BUCKET:
            self._send(refusal(404, "NoSuchBucket") if bucket else S3Answer(status=200), cut=False)
            return
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        answer, cut = self.server.simulator.handle(
            S3Request(method=self.command, name=name, query=query, headers=headers, body=body)
        )
        if answer is None:
            self.close_connection = True
            return
        self._send(answer, cut=cut)

    def _send(self, answer: S3Answer, *, cut: bool) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: len(answer.body) // 2] if cut else answer.body)
        self.wfile.flush()
        self.close_connection = self.close_connection or cut

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the names are inherited


def _headers(found: Message) -> Mapping[str, str]:
    return {name.lower(): value for name, value in found.items()}
