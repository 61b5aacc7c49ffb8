"""S3 servers on loopback, each in its own process and scratch folder, stopped when the session ends."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ACCESS_KEY = "deltawire-tests"  # rclone refuses very short ones
SECRET_KEY = "deltawire-tests-secret"
BUCKET = "streams"
_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running server with one empty bucket."""

    name: str
    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, prefix: str, *, bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{prefix}?endpoint_url={self.endpoint}&region=us-east-1"


@contextmanager
def moto(folder: Path) -> Iterator[S3Server]:
    """Run moto's server, with one write at a time: exact error codes, objects in memory, no authentication."""
    port = free_port()
    command = [sys.executable, str(Path(__file__).with_name("locked_moto.py")), str(port)]
    with _running("moto", command, folder, port) as server:
        _create_bucket(server)
        yield server


@contextmanager
def seaweedfs(folder: Path) -> Iterator[S3Server]:
    """Run SeaweedFS: a real server with real signatures, on disk."""
    s3, master, filer, volume, admin = _ports_with_a_second(5, above=10_000)  # for gRPC
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    actions = ["Admin", "Read", "List", "Tagging", "Write"]
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [{"name": "tests", "credentials": credentials, "actions": actions}]}))
    data = folder / "data"
    data.mkdir()
    command = [
        _program("weed"),
        "mini",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-s3.port={s3}",
        f"-s3.config={config}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-webdav=false",
        "-admin.ui=false",
        "-master.telemetry=false",
        f"-master.port={master}",
        f"-filer.port={filer}",
        f"-volume.port={volume}",
        f"-admin.port={admin}",
        f"-bucket={BUCKET}",
    ]
    with _running("seaweedfs", command, folder, s3) as server:
        yield server


@contextmanager
def rclone(folder: Path) -> Iterator[S3Server]:
    """Run ``rclone serve s3``: it serves objects well and ignores every condition."""
    port = free_port()
    data = folder / "data"
    (data / BUCKET).mkdir(parents=True)
    command = [
        _program("rclone"),
        "serve",
        "s3",
        str(data),
        f"--addr=127.0.0.1:{port}",
        f"--auth-key={ACCESS_KEY},{SECRET_KEY}",
        "--vfs-cache-mode=off",
        "--config=/dev/null",
    ]
    with _running("rclone", command, folder, port) as server:
        yield server


def free_port() -> int:
    """Find a port that nobody listens on at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _ports_with_a_second(count: int, *, above: int) -> list[int]:
    """Find ports that are free together with the one ``above`` higher, none of them twice."""
    found: list[int] = []
    for _ in range(1000):
        port = free_port()
        taken = {port - above, port, port + above} & {*found, *(other + above for other in found)}
        if port + above < 65536 and not taken and _is_free(port + above):
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"no {count} pairs of free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _program(name: str) -> str:
    """Find a program of the test extra; its absence is a failure, as these tests prove the guarantees."""
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    assert found is not None, f"{name} is missing: pip install 'deltawire[test]'"
    return found


@contextmanager
def _running(name: str, command: Sequence[str], folder: Path, port: int) -> Iterator[S3Server]:
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env=_environment(folder),
        )
    try:
        server = S3Server(name=name, port=port)
        _await_answer(server, process, log)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _environment(folder: Path) -> Mapping[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "TMPDIR": str(folder)}


def _await_answer(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while time.monotonic() < give_up:
        assert process.poll() is None, f"{server.name} stopped: {log.read_text(errors='replace')[-2000:]}"
        try:
            if _request(server, "GET", "/") < 500:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{server.name} did not answer: {log.read_text(errors='replace')[-2000:]}")


def _create_bucket(server: S3Server) -> None:
    assert _request(server, "PUT", f"/{BUCKET}") == 200


def _request(server: S3Server, method: str, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request(method, path)
        return connection.getresponse().status
    finally:
        connection.close()
