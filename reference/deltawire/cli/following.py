"""``deltawire follow`` and ``deltawire materialize``."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltawire.cli.options import AsJson, TensorGlobs, Timeout, Trusted, Url
from deltawire.cli.streams import WhichVersion, open_reader, parse_version
from deltawire.errors import DeadlineExceededError, InvalidArgumentError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deltawire.cli.metering import MeteredStore
    from deltawire.consumer.follower import Follower, Update

Directory = Annotated[
    Path | None,
    typer.Argument(
        metavar="DIR",
        help="Keep the weights here, as a checkpoint that is always one whole version; in memory if left out.",
        show_default=False,
    ),
]
Until = Annotated[
    int | None,
    typer.Option("--until", metavar="VERSION", min=0, help="Stop when this version is held.", show_default=False),
]
Once = Annotated[bool, typer.Option("--once", help="Go to the newest version and stop.")]
EveryVersion = Annotated[
    bool, typer.Option("--every-version", help="Stop at each version on the way instead of going to the newest.")
]
Interval = Annotated[
    float | None,
    typer.Option(
        "--interval",
        metavar="SECONDS",
        min=0,
        help="Most time between looks at an unchanged stream; 0.2, or 2 by hf://, which counts them, if left out.",
        show_default=False,
    ),
]
NextTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0, help="Give up if no version comes for this time.", show_default=False
    ),
]
NoPin = Annotated[
    bool, typer.Option("--no-pin", help="Do not keep what is held, and what comes after it, from being collected.")
]
Verify = Annotated[bool, typer.Option("--verify", help="Compute the digest of the whole state at every version.")]

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
"""Seconds between attempts while the store does not answer."""
_TOLD_AGAIN = 600.0
"""Seconds after which it is told again that it does not, and why: that may have changed."""

NewDirectory = Annotated[
    Path, typer.Argument(metavar="DIR", help="A directory that is empty or not there yet.", show_default=False)
]


def follow(  # noqa: PLR0913, PLR0917 - typer makes options of these
    url: Url,
    directory: Directory = None,
    until: Until = None,
    once: Once = False,  # noqa: FBT002
    every_version: EveryVersion = False,  # noqa: FBT002
    interval: Interval = None,
    timeout: NextTimeout = None,
    tensors: TensorGlobs = None,
    trust: Trusted = None,
    verify: Verify = False,  # noqa: FBT002
    no_pin: NoPin = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Follow a stream and print a line for each version that is taken over.

    Everything is checked before it is applied, and applied all or nothing. A directory can be followed again later: it
    goes on from the version it holds.
    """
    from deltawire.cli.metering import MeteredStore  # noqa: PLC0415
    from deltawire.cli.output import print_line  # noqa: PLC0415
    from deltawire.consumer.follower import Follower  # noqa: PLC0415
    from deltawire.deadline import Deadline  # noqa: PLC0415
    from deltawire.store import open_store  # noqa: PLC0415

    if once and (until is not None or every_version):
        raise InvalidArgumentError(
            "--once goes to the newest version; it cannot be combined with --until or --every-version"
        )
    store = MeteredStore(open_store(url))  # one for all: a bucket's client takes a while to make
    with open_reader(store, trust) as reader:
        reader.stream(Deadline.after(timeout))  # a wrong URL should not leave a directory behind
    show = _show_json if as_json else _table()
    with Follower(store, directory, tensors=tensors, trust=trust, pin=not no_pin) as follower:
        if once:
            updates = _once(follower, timeout)
        else:

            def following(timeout: float | None) -> Iterator[Update]:
                return follower.follow(until=until, every_version=every_version, interval=interval, timeout=timeout)

            updates = _lasting(following, timeout)
        if verify and follower.version is not None:
            follower.verify()  # what is held from before counts too, even if no update comes
        try:
            _run(follower, _with_progress(updates, store, follower, trust), verify=verify, show=show)
        except DeadlineExceededError as error:
            held = "nothing is held" if follower.version is None else f"version {follower.version} is held"
            raise DeadlineExceededError(
                f"no further version was taken over within {timeout:g} s; {held}", hint="try again with more time"
            ) from error
        if directory is not None and not as_json:
            print_line(f"{directory} holds version {follower.version}", style="dim")


def _once(follower: Follower, timeout: float | None) -> Iterator[Update]:
    update = follower.poll(timeout=timeout)
    if update is not None:
        yield update


def _lasting(following: Callable[[float | None], Iterator[Update]], timeout: float | None) -> Iterator[Update]:
    """Go on after what may pass, such as a rate limit, for ``timeout`` seconds without an update, or for ever."""
    from deltawire.cli.errors import warn  # noqa: PLC0415

    last, pause, told = time.monotonic(), _FIRST_PAUSE, -math.inf
    while True:
        left = None if timeout is None else max(last + timeout - time.monotonic(), 0.0)
        try:
            update = next(following(left), None)
        except StoreUnavailableError as error:
            if timeout is not None and time.monotonic() + pause > last + timeout:
                raise
            if time.monotonic() - told >= _TOLD_AGAIN:
                warn(f"{error}; it is tried again until it works")
                told = time.monotonic()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            if update is None:
                return
            yield update
            last, pause, told = time.monotonic(), _FIRST_PAUSE, -math.inf


def _with_progress(
    updates: Iterator[Update], store: MeteredStore, follower: Follower, trust: list[str] | None
) -> Iterator[Update]:
    """Show a bar while the first update is fetched, if that is a whole state: the others are small."""
    from deltawire.cli.progress import progress, wanted  # noqa: PLC0415
    from deltawire.errors import PathError  # noqa: PLC0415
    from deltawire.inspecting.history import no_progress  # noqa: PLC0415
    from deltawire.materializing import bytes_to_fetch  # noqa: PLC0415

    if wanted() and follower.version is None:
        total = None
        with suppress(PathError):  # no version yet
            total = bytes_to_fetch(store, version=None, trust=trust)
        if total is not None:
            with progress("catch up", total) as store.advance:
                first = next(updates, None)
            store.advance = no_progress
            if first is not None:
                yield first
    yield from updates


def _run(follower: Follower, updates: Iterator[Update], *, verify: bool, show: Any) -> None:
    from deltawire.cli.errors import warn  # noqa: PLC0415

    told = False
    for update in updates:
        if follower.pin_error is not None and not told:
            told = True
            warn(f"what is held here is not kept from being collected: {follower.pin_error}")  # PIN-7
        for sentence in update.replanned:
            warn(sentence)
        if verify:
            follower.verify()
        table = follower.table
        assert table is not None  # noqa: S101 - there was an update
        show(update, table.elements, verified=verify)


def _show_json(update: Update, elements: int, *, verified: bool) -> None:
    from msgspec import to_builtins  # noqa: PLC0415

    from deltawire.cli.output import print_json  # noqa: PLC0415

    print_json(
        {
            "version": update.version,
            "previous": update.previous,
            "steps": list(update.steps),
            "replanned": list(update.replanned),
            "state_digest": update.state_digest,
            "verified": verified,
            "changed_elements": update.changed_elements,
            "elements": elements,
            "bytes_fetched": update.bytes_fetched,
            "metadata": update.record.metadata,
            "timings": to_builtins(update.timings),
        }
    )


def route(steps: tuple[str, ...]) -> str:
    """The way an update took, in few characters: ``delta``, ``3 deltas``, ``2 spans``, ``5 steps``, ``anchor+2``."""
    snapshots = [number for number, step in enumerate(steps) if step in ("anchor", "snapshot")]
    if snapshots:
        further = len(steps) - snapshots[-1] - 1
        return f"{steps[snapshots[-1]]}+{further}" if further else steps[snapshots[-1]]
    kind = steps[0] if len(set(steps)) == 1 else "step"
    return kind if len(steps) == 1 else f"{len(steps)} {kind}s"


def _table() -> Any:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import Column, RunningTable  # noqa: PLC0415

    table = RunningTable(
        [
            Column("version", "right", 7),
            Column("by", width=9),
            Column("changed", "right", 8),
            Column("fetched", "right", 7),
            Column("fetch", "right", 6),
            Column("decode", "right", 6),
            Column("apply", "right", 6),
            Column("state digest", width=16),
            Column(""),
        ]
    )

    def show(update: Update, elements: int, *, verified: bool) -> None:
        changed = update.changed_elements / elements if update.snapshot is None and elements else 1.0
        table.add(
            str(update.version),
            route(update.steps),
            units.percent(min(changed, 1.0)),
            units.size(update.bytes_fetched),
            units.seconds(update.timings.resolve_seconds + update.timings.fetch_seconds),
            units.seconds(update.timings.decode_seconds),
            units.seconds(update.timings.apply_seconds),
            update.state_digest,
            "ok" if verified else "",
        )

    return show


def materialize(
    url: Url,
    version: WhichVersion,
    directory: NewDirectory,
    tensors: TensorGlobs = None,
    trust: Trusted = None,
    timeout: Timeout = None,
    as_json: AsJson = False,  # noqa: FBT002 - typer makes an option of it
) -> None:
    """Write one version to a new directory, as a full checkpoint.

    The directory holds safetensors files in the Hugging Face layout with their config and tokenizer, verified in full.
    It appears complete or not at all.
    """
    from deltawire.cli import units  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.cli.errors import warn  # noqa: PLC0415
    from deltawire.cli.metering import MeteredStore  # noqa: PLC0415
    from deltawire.cli.output import print_facts, print_json  # noqa: PLC0415
    from deltawire.cli.progress import progress, wanted  # noqa: PLC0415
    from deltawire.materializing import bytes_to_fetch, materialize  # noqa: PLC0415
    from deltawire.store import open_store  # noqa: PLC0415

    number = parse_version(version)
    store = open_store(url)
    total = bytes_to_fetch(store, version=number, trust=trust) if wanted() and tensors is None else None
    with progress(f"version {version}", total) as advance:
        done = materialize(
            MeteredStore(store, advance), directory, version=number, tensors=tensors, trust=trust, timeout=timeout
        )
    for sentence in done.replanned:
        warn(sentence)
    if as_json:
        print_json(
            {
                "version": done.version,
                "directory": str(directory),
                "files": list(done.files),
                "steps": list(done.steps),
                "replanned": list(done.replanned),
                "bytes_fetched": done.bytes_fetched,
                "state_digest": done.state_digest,
                "metadata": done.record.metadata,
            }
        )
        return
    print_facts(
        {
            "version": str(done.version),
            "directory": str(directory),
            "files": ", ".join(done.files),
            "fetched": f"{units.size(done.bytes_fetched)} ({route(done.steps)})",
            "state digest": f"{done.state_digest} (verified)",
        }
    )
