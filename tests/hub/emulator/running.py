"""A running emulator, and what a test does with it from outside."""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.hub.emulator.accounts import Token
from tests.hub.emulator.asking import Asked
from tests.hub.emulator.buckets import Bucket, check_key
from tests.hub.emulator.cas import BytesFace, CasFace
from tests.hub.emulator.control import ControlFace
from tests.hub.emulator.environment import environment
from tests.hub.emulator.faults import BatchFault, Fault, Stale
from tests.hub.emulator.gateway import GatewayFace
from tests.hub.emulator.hub import HubFace
from tests.hub.emulator.noting import Log
from tests.hub.emulator.server import Server
from tests.hub.emulator.state import Options, State


class HubEmulator:
    """The Hub's buckets on loopback, until it is closed. Safe to use from several threads.

    Args:
        port: 0 for a free one.
        options: fields of ``Options``.
    """

    def __init__(self, *, port: int = 0, **options: Any) -> None:
        self._state = State(Options(**options))
        self._server = Server(port, self._state.faults, self._state.log)
        self.port: int = self._server.server_address[1]
        # A client remembers what a CAS has by its URL, and a port may have been another emulator's.
        prefix = f"/cas/{secrets.token_hex(8)}"
        bytes_endpoint = f"http://localhost:{self.port}"
        hub = HubFace(
            self._state,
            endpoint=self.endpoint,
            bytes_endpoint=bytes_endpoint,
            cas_endpoint=self.endpoint + prefix,
        )
        self._server.faces = {
            "api": hub.answer,
            "resolve": hub.answer,
            "cas": CasFace(self._state, prefix=prefix, bytes_endpoint=bytes_endpoint).answer,
            "bytes": BytesFace(self._state).answer,
            "s3": GatewayFace(self._state, bytes_endpoint=bytes_endpoint).answer,
            "control": ControlFace(self._state).answer,
        }
        self._folders: list[tempfile.TemporaryDirectory[str]] = []
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """The Hub's URL."""
        return f"http://127.0.0.1:{self.port}"

    def s3_endpoint(self, namespace: str) -> str:
        """The gateway's URL for the buckets of a namespace."""
        return f"{self.endpoint}/s3/{namespace}"

    @property
    def log(self) -> Log:
        """All requests."""
        return self._state.log

    @property
    def tokens(self) -> dict[str, Token]:
        """Who may do what; changes hold from the next request on."""
        return self._state.tokens

    # Buckets, without a request

    def create(self, bucket: str, *, private: bool = False) -> None:
        """Make a bucket."""
        with self._state.lock:
            if bucket in self._state.buckets:
                raise ValueError(f"{bucket} exists")
            self._state.buckets[bucket] = Bucket(name=bucket, private=private)

    def write(self, bucket: str, path: str, data: bytes) -> None:
        """Put a file."""
        entry = self._state.entry(self._state.content.add_file(data))
        with self._state.lock:
            self._state.buckets[bucket].write({check_key(path): entry})

    def read(self, bucket: str, path: str) -> bytes:
        """The bytes of a file. Raises KeyError."""
        with self._state.lock:
            entry = self._state.buckets[bucket].entries[path]
        return self._state.content.read(entry.digest, 0, entry.size)

    def paths(self, bucket: str) -> list[str]:
        """All files, in order."""
        with self._state.lock:
            return sorted(self._state.buckets[bucket].entries)

    def delete(self, bucket: str, path: str) -> None:
        """Remove a file. Raises KeyError."""
        with self._state.lock:
            found = self._state.buckets[bucket]
            if path not in found.entries:
                raise KeyError(path)
            found.write({path: None})

    def collect(self) -> None:
        """Forget all content that no bucket has a name for, as the Hub may some time after it was sent."""
        self._state.collect()

    # What goes wrong

    def fault(self, *faults: Fault | BatchFault | Stale) -> None:
        """Something more goes wrong from now on."""
        for fault in faults:
            self._state.faults.add(fault)

    def before(self, match: str, action: Callable[[Asked], object], *, times: int = 1) -> None:
        """Call something before each of the next requests that match is looked at, in the thread that serves it.

        Args:
            match: a regular expression, looked for in ``METHOD path``.
            action: gets the request. What it raises is raised when the emulator is closed.
            times: how many requests.
        """
        self._state.faults.before(match, action, times=times)

    def calm(self) -> None:
        """Nothing goes wrong any more, and nothing is called."""
        self._state.faults.calm()

    # Clients

    def environment(self, token: str = "hf_alice") -> dict[str, str]:
        """What a client's process needs: where the Hub is, who it is, and folders of its own.

        Args:
            token: of the Hub; the access key of the gateway that was made from it comes along.
        """
        folder = tempfile.TemporaryDirectory(prefix="hub-client-")
        self._folders.append(folder)
        access_key = next((key for key, of in self._state.access_keys.items() if of == token), None)
        return environment(Path(folder.name), endpoint=self.endpoint, token=token, access_key=access_key)

    def close(self) -> None:
        """Stop serving, and remove the clients' folders. Raises what went wrong in the emulator or in an action."""
        self._server.shutdown()
        self._server.hang_up()
        self._thread.join()
        self._server.server_close()
        for folder in self._folders:
            folder.cleanup()
        if self._server.errors:
            raise ExceptionGroup("the emulator failed", self._server.errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
