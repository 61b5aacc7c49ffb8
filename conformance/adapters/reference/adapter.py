#!/usr/bin/env python3
"""The reference implementation's adapter (see ADAPTER.md)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import deltawire
from deltawire.errors import DeltawireError, InvalidArgumentError
from deltawire.limits import DEFAULT_LIMITS
from deltawire.producer.sources import FilesSource
from deltawire.targets.directory import PRIVATE, DirectoryTarget

Line = dict[str, Any]

DESCRIPTION = {
    "contract": 1,
    "name": "deltawire (reference)",
    "version": deltawire.__version__,
    "spec_versions": ["0.1"],
    "roles": ["consumer", "producer", "maintainer"],
    "stores": ["disk", "s3", "hub"],
    "features": [
        "partial", "signatures", "limits", "anchors", "spans", "files", "pins",
        "ranked", "lease", "signing", "absolute", "rollback", "fork", "build", "collect", "pause",
    ],
    "serve": True,
}  # fmt: skip


class AliasedSource(FilesSource):
    """A safetensors file of which some names are aliases of others."""

    def __init__(self, path: Path, aliases: dict[str, str]) -> None:
        super().__init__(path, limits=DEFAULT_LIMITS)
        self.aliases = aliases


def describe() -> Iterator[Line]:
    """Say what there is."""
    yield DESCRIPTION


def materialize(store: str, target: str, version: str, options: str) -> Iterator[Line]:
    """Bring a folder to a version."""
    with _follower(store, target, json.loads(options)) as follower:
        follower.poll(to=None if version == "latest" else int(version))
        yield _held(follower)


def follow(store: str, target: str, version: str, options: str) -> Iterator[Line]:
    """Show version after version until one is held."""
    with _follower(store, target, json.loads(options)) as follower:
        if follower.version is not None and follower.version >= int(version):
            yield _held(follower)
        while follower.version is None or follower.version < int(version):
            try:
                for _ in follower.follow(until=int(version), interval=0.05):
                    yield _held(follower)
            except DeltawireError as error:
                if not error.retryable:
                    raise


def show(target: str) -> Iterator[Line]:
    """Show what a folder holds."""
    if not (Path(target) / PRIVATE).is_dir():
        yield {"version": None}
        return
    # Nothing is read from a store here: what counts is what lies in the folder.
    with deltawire.Follower("memory://nothing", target, pin=False) as follower:
        yield _held(follower)


def publish(store: str, inputs: str, options: str) -> Iterator[Line]:
    """Publish states one after the other."""
    chosen = json.loads(options)
    with _publisher(store, chosen) as publisher:
        for number in range(len(list(Path(inputs).iterdir()))):
            if number == chosen.get("pause_after"):
                yield {"paused": number}
                wait_for_end()
            folder = Path(inputs) / str(number)
            more = json.loads(_read(folder / "input.json", b"{}"))
            files = {file.name: file.read_bytes() for file in sorted((folder / "files").glob("*"))}
            source = AliasedSource(folder / "model.safetensors", more.get("aliases", {}))
            done = publisher.publish(source, files=files, metadata=more.get("metadata"))
            yield {"version": done.version, "state_digest": done.state_digest}


def lease(store: str, holder: str, options: str) -> Iterator[Line]:
    """Hold the lease until standard input ends."""
    with _publisher(store, {**json.loads(options), "holder": holder}) as publisher:
        if publisher._line.heartbeat is None:  # noqa: SLF001 - who needs no lease is not told of it
            raise InvalidArgumentError("the stream takes no lease")  # LSE-1
        yield {"holder": holder, "epoch": publisher.epoch}
        wait_for_end()
        publisher._check_lease()  # noqa: SLF001 - a publisher says so only when it publishes


def rollback(store: str, version: str, options: str) -> Iterator[Line]:
    """Publish an earlier version's state again."""
    chosen = json.loads(options)
    done = deltawire.rollback(
        store,
        to=int(version),
        single_writer=chosen.get("single_writer", False),
        take_over=chosen.get("take_over", False),
        signing_key=chosen.get("signing_key"),
    )
    yield {"version": done.version, "state_digest": done.state_digest}


def fork(source: str, version: str, store: str, options: str) -> Iterator[Line]:
    """Fork a version."""
    chosen = json.loads(options)
    done = deltawire.fork(
        source,
        store,
        version=int(version),
        single_writer=chosen.get("single_writer", False),
        signing_key=chosen.get("signing_key"),
        trust=chosen.get("public_keys"),
    )
    yield {"version": 0, "state_digest": done.record.state_digest}


def build(store: str, options: str) -> Iterator[Line]:
    """Add anchors and spans."""
    chosen = json.loads(options)
    ladder = deltawire.Ladder(smallest=chosen.get("smallest", 2))
    with deltawire.Builder(
        store, ladder=ladder, anchors=deltawire.AnchorPolicy(every=1), batch=1, signing_key=chosen.get("signing_key")
    ) as builder:
        done = builder.run()
    yield {"anchors": list(done.anchors), "spans": [list(span) for span in done.spans]}


def collect(store: str, options: str) -> Iterator[Line]:
    """Move the boundary and collect."""
    chosen = json.loads(options)
    wanted = deltawire.CollectOptions(
        policy=deltawire.RetentionPolicy(keep_last=chosen["keep_last"]),
        single_maintainer=chosen.get("single_maintainer", False),
    )
    with _maintainer(store, wanted) as maintainer:
        done = maintainer.once()
    if done.error is not None:
        raise done.error
    assert done.collected is not None
    yield {"boundary": done.collected.boundary}


def _follower(store: str, target: str, options: Line) -> deltawire.Follower:
    limits = dataclasses.replace(DEFAULT_LIMITS, **options["limits"]) if "limits" in options else DEFAULT_LIMITS
    more: Line = {"pin_ttl": options["ttl_ms"] / 1000} if "ttl_ms" in options else {}
    return deltawire.Follower(
        store, target, tensors=options.get("tensors"), trust=options.get("public_keys"), limits=limits, **more
    )


def _publisher(store: str, options: Line) -> deltawire.Publisher:
    more: Line = {"lease_ttl": options["ttl_ms"] / 1000} if "ttl_ms" in options else {}
    return deltawire.Publisher(
        store,
        anchors=deltawire.AnchorPolicy(every=None, outweigh=None),
        absolute=options.get("absolute", False),
        ranked=options.get("ranked", False),
        single_writer=options.get("single_writer", False),
        signing_key=options.get("signing_key"),
        take_over=options.get("take_over", False),
        holder=options.get("holder"),
        workers=1,
        **more,
    )


def _maintainer(store: str, options: deltawire.CollectOptions) -> deltawire.Maintainer[None]:
    return deltawire.Maintainer(store, options)


def _held(follower: deltawire.Follower) -> Line:
    held = follower.target.held
    if held is None:
        return {"version": None}
    tensors = {}
    for tensor in held.tensors:
        bits = np.ascontiguousarray(
            follower.target.bits(tensor).gather(slice(0, tensor.elements)), tensor.dtype.storage
        )
        sha256 = hashlib.sha256(bits.tobytes()).hexdigest()
        tensors[tensor.name] = {"dtype": tensor.dtype.name, "shape": list(tensor.shape), "sha256": sha256}
    assert isinstance(follower.target, DirectoryTarget)
    return {
        "version": held.committed.record.version,
        "state_digest": follower.verify(),
        "tensors": tensors,
        "files": dict(_files(follower.target.path)),
    }


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Names and digests of the auxiliary files that are there, whatever the record lists."""
    for path in sorted(folder.iterdir()):
        ours = path.name.startswith(".") or path.name.endswith((".safetensors", ".safetensors.index.json"))
        if path.is_file() and not ours:
            yield path.name, hashlib.sha256(path.read_bytes()).hexdigest()


def _read(path: Path, absent: bytes) -> bytes:
    return path.read_bytes() if path.is_file() else absent


CALLS: dict[str, Callable[..., Iterator[Line]]] = {
    call.__name__: call
    for call in (describe, materialize, follow, show, publish, lease, rollback, fork, build, collect)
}


def run(arguments: list[str], say: Callable[[Line], None]) -> int:
    """Make one call; its exit status."""
    try:
        for line in CALLS[arguments[0]](*arguments[1:]):
            say(line)
    except DeltawireError as error:
        print(f"{error.code}: {error}", file=sys.stderr, flush=True)
        say({"error": error.code})
        return 1
    return 0


def serve() -> None:
    """Answer calls until the input ends."""
    for line in iter(sys.stdin.readline, ""):
        arguments = json.loads(line)
        if arguments is not None:  # the end of the input of a call that did not wait for it
            _print({"status": run(arguments, lambda found: _print({"line": found}))})


def wait_for_end() -> None:
    """Wait for the end of standard input; where calls are served, a line stands for it."""
    sys.stdin.readline()


def _print(line: Line) -> None:
    print(json.dumps(line), flush=True)


def main() -> int:
    """Run the call that the command line asks for."""
    if sys.argv[1:] == ["serve"]:
        serve()
        return 0
    return run(sys.argv[1:], _print)


if __name__ == "__main__":
    sys.exit(main())
