"""``deltawire publish``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltawire.cli.options import AsJson, CoSigners, SignKey, Timeout, Url
from deltawire.errors import InvalidArgumentError

if TYPE_CHECKING:
    from deltawire.producer.published import Published
    from deltawire.producer.publisher import Publisher

States = Annotated[
    list[Path],
    typer.Argument(
        metavar="STATE",
        help="Checkpoint directories or safetensors files, oldest first; each becomes the next version.",
        show_default=False,
    ),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        "-m",
        metavar="KEY=VALUE",
        help="Write this into the record; repeatable. A VALUE that is JSON is kept as such.",
        show_default=False,
    ),
]
AnchorEvery = Annotated[
    int,
    typer.Option("--anchor-every", metavar="N", min=0, help="Versions from one full snapshot to the next; 0 for none."),
]
Absolute = Annotated[
    bool, typer.Option("--absolute", help="Create the stream for engines that keep no copy of the old weights.")
]
Ranked = Annotated[
    bool,
    typer.Option("--ranked", help="Create the stream for the smallest codec, which not every engine can read."),
]
SingleWriter = Annotated[
    bool,
    typer.Option(
        "--single-writer", help="Declare that nobody else writes; for stores without conditional writes, as hf://."
    ),
]
TakeOver = Annotated[
    bool,
    typer.Option("--take-over", help="Take the stream from whoever holds it, at once; that producer is then fenced."),
]
Ttl = Annotated[
    float,
    typer.Option(
        "--ttl",
        metavar="SECONDS",
        min=0.001,
        max=86_400,
        help="After how long without a sign of life others may take this command for gone.",
    ),
]


def publish(  # noqa: PLR0913, PLR0917 - typer makes options of these
    url: Url,
    states: States,
    metadata: Metadata = None,
    anchor_every: AnchorEvery = 50,
    absolute: Absolute = False,  # noqa: FBT002
    ranked: Ranked = False,  # noqa: FBT002
    single_writer: SingleWriter = False,  # noqa: FBT002
    sign_key: SignKey = None,
    co_signer: CoSigners = None,
    take_over: TakeOver = False,  # noqa: FBT002
    ttl: Ttl = 30.0,
    timeout: Timeout = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Publish checkpoints from disk, each as the next version of a stream.

    The stream is created if there is none. Only what changed since the version before is sent; config and tokenizer
    files beside the weights travel along.

    While it runs, the command holds the stream's lease. If another producer holds it and may be gone, the command waits
    for as long as that one's ttl; if it is alive, the command fails.
    """
    from deltawire.cli.metering import MeteredStore  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.cli.progress import progress  # noqa: PLC0415
    from deltawire.inspecting.history import no_progress  # noqa: PLC0415
    from deltawire.limits import DEFAULT_LIMITS  # noqa: PLC0415
    from deltawire.producer.anchors import AnchorPolicy  # noqa: PLC0415
    from deltawire.producer.publisher import Publisher  # noqa: PLC0415
    from deltawire.producer.sources import FilesSource  # noqa: PLC0415
    from deltawire.store import open_store  # noqa: PLC0415

    parsed = parse_metadata(metadata or [])
    for state in states:
        FilesSource(state, limits=DEFAULT_LIMITS)  # a state that cannot be read should not leave an empty stream
    policy = AnchorPolicy(every=anchor_every or None, outweigh=1.0 if anchor_every else None)
    store = MeteredStore(open_store(url))
    with progress("read back the newest version", None) as store.advance:
        publisher = Publisher(
            store,
            anchors=policy,
            absolute=absolute,
            ranked=ranked,
            single_writer=single_writer,
            signing_key=sign_key,
            co_signers=co_signer,
            take_over=take_over,
            lease_ttl=ttl,
            timeout=timeout,
        )
    store.advance = no_progress
    with publisher:
        show = _show_json if as_json else _table()
        for state in states:
            show(_publish(publisher, state, parsed, timeout=timeout), state)
    if publisher.anchor_error is not None:
        from deltawire.cli.errors import warn  # noqa: PLC0415

        warn(f"the last anchor could not be written: {publisher.anchor_error}")


def parse_metadata(pairs: list[str]) -> dict[str, Any]:
    """Read ``KEY=VALUE`` pairs. Raises InvalidArgumentError."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise InvalidArgumentError(f"metadata is given as KEY=VALUE, not {pair[:80]!r}")
        if key in found:
            raise InvalidArgumentError(f"metadata {key[:80]!r} is given twice")
        try:
            found[key] = json.loads(value, parse_constant=_not_json)
        except ValueError:
            found[key] = value
    return found


def _not_json(name: str) -> None:
    raise ValueError(name)


def _publish(publisher: Publisher, state: Path, metadata: dict[str, Any], *, timeout: float | None) -> Published:
    from deltawire.cli.metering import MeteredSource, source_bytes  # noqa: PLC0415
    from deltawire.cli.progress import progress  # noqa: PLC0415
    from deltawire.limits import DEFAULT_LIMITS  # noqa: PLC0415
    from deltawire.producer.sources import FilesSource, auxiliary_files  # noqa: PLC0415

    source = FilesSource(state, limits=DEFAULT_LIMITS)
    files = auxiliary_files(state) if state.is_dir() else None
    with progress(f"publish {state.name}", source_bytes(source)) as advance:
        return publisher.publish(MeteredSource(source, advance), metadata=metadata, files=files, timeout=timeout)


def _members(published: Published, state: Path) -> dict[str, Any]:
    from msgspec import to_builtins  # noqa: PLC0415

    stored = published.data_bytes + published.record_bytes
    return {
        "version": published.version,
        "kind": "snapshot" if published.record.delta is None else "delta",
        "state": str(state),
        "state_digest": published.state_digest,
        "changed_elements": published.changed_elements,
        "changed_tensors": published.changed_tensors,
        "elements": published.elements,
        "data_bytes": published.data_bytes,
        "record_bytes": published.record_bytes,
        "state_bytes": published.state_bytes,
        "bytes_per_changed": stored / published.changed_elements if published.changed_elements else None,
        "times_smaller": published.state_bytes / stored,
        "metadata": published.record.metadata,
        "timings": to_builtins(published.timings),
    }


def _show_json(published: Published, state: Path) -> None:
    from deltawire.cli.output import print_json  # noqa: PLC0415

    print_json(_members(published, state))


def _table() -> Any:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import Column, RunningTable  # noqa: PLC0415

    table = RunningTable(
        [
            Column("version", "right", 7),
            Column("kind", width=8),
            Column("changed", "right", 8),
            Column("stored", "right", 7),
            Column("B/chg", "right", 5),
            Column("smaller", "right", 7),
            Column("took", "right", 6),
            Column("state digest"),
        ]
    )

    def show(published: Published, state: Path) -> None:
        members = _members(published, state)
        table.add(
            str(published.version),
            members["kind"],
            units.percent(published.changed_elements / published.elements if published.elements else 0.0),
            units.size(published.data_bytes + published.record_bytes),
            units.decimal(members["bytes_per_changed"]),
            units.ratio(members["times_smaller"]),
            units.seconds(published.timings.total_seconds),
            published.state_digest,
        )

    return show
