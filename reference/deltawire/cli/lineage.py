"""``deltawire rollback`` and ``deltawire fork``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltawire.cli.options import AsJson, CoSigners, SignKey, Timeout, Trusted, Url
from deltawire.cli.publishing import Metadata, SingleWriter, TakeOver, parse_metadata
from deltawire.cli.streams import parse_version
from deltawire.errors import InvalidArgumentError

if TYPE_CHECKING:
    from deltawire.format.records import Origin

To = Annotated[
    str, typer.Option("--to", metavar="VERSION", help="The version whose state comes back.", show_default=False)
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SRC@VERSION",
        help="The stream to fork and a version of it: a number or 'latest', which is meant if there is none.",
        show_default=False,
    ),
]
Destination = Annotated[str, typer.Argument(metavar="DST", help="Where the new stream is to be.", show_default=False)]
OnlyCheck = Annotated[
    bool, typer.Option("--check", help="Fork nothing: check that DST, which is there, was forked from SRC@VERSION.")
]


def rollback(
    url: Url,
    to: To,
    metadata: Metadata = None,
    single_writer: SingleWriter = False,  # noqa: FBT002 - typer makes options of these
    sign_key: SignKey = None,
    trust: Trusted = None,
    take_over: TakeOver = False,  # noqa: FBT002
    timeout: Timeout = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Publish an earlier version's state again, as the next version.

    Nothing is taken back: followers get to the old weights by going forward. Everything comes from the store. Stop the
    trainer first, and start it again afterwards: it then goes on from the state that came back.
    """
    from deltawire.cli import units  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.cli.output import print_facts, print_json  # noqa: PLC0415
    from deltawire.lineage.rollback import rollback  # noqa: PLC0415

    parsed = None if metadata is None else parse_metadata(metadata)
    number = parse_version(to)
    if number is None:
        raise InvalidArgumentError("a rollback goes back to a version by its number")
    done = rollback(
        url,
        to=number,
        metadata=parsed,
        single_writer=single_writer,
        signing_key=sign_key,
        trust=trust,
        take_over=take_over,
        timeout=timeout,
    )
    kind = "snapshot" if done.record.delta is None else "delta"
    if as_json:
        print_json(
            {
                "version": done.version,
                "rollback_of": number,
                "kind": kind,
                "state_digest": done.state_digest,
                "changed_elements": done.changed_elements,
                "elements": done.elements,
                "data_bytes": done.data_bytes,
                "record_bytes": done.record_bytes,
                "metadata": done.record.metadata,
            }
        )
        return
    fraction = done.changed_elements / done.elements if done.elements else 0.0
    print_facts(
        {
            "version": f"{done.version} ({kind})",
            "rollback of": f"version {number}",
            "changed": f"{units.count(done.changed_elements)} elements ({units.percent(fraction)})",
            "stored": units.size(done.data_bytes + done.record_bytes),
            "state digest": done.state_digest,
        }
    )


def fork(
    source: Source,
    destination: Destination,
    check: OnlyCheck = False,  # noqa: FBT002 - typer makes options of these
    metadata: Metadata = None,
    single_writer: SingleWriter = False,  # noqa: FBT002
    trust: Trusted = None,
    sign_key: SignKey = None,
    co_signer: CoSigners = None,
    timeout: Timeout = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Begin a new stream with a version of another one, for training that goes on in another way.

    A snapshot of the version is copied by the store itself where both are in one; else it is streamed through, or
    rebuilt from deltas. What the fork comes from stands in its stream.json, and --check holds it against the source.
    A fork that was interrupted is finished by the same command.

    --trust is about the source. The fork is signed if it is given a key of its own.
    """
    url, number = parse_source(source)
    if check:
        _check(url, number, destination, trust=trust, timeout=timeout, as_json=as_json)
        return
    from deltawire.cli import units  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.cli.looking import origin_members, origin_text  # noqa: PLC0415
    from deltawire.cli.output import print_facts, print_json  # noqa: PLC0415
    from deltawire.cli.progress import progress  # noqa: PLC0415
    from deltawire.lineage.fork import fork  # noqa: PLC0415

    parsed = None if metadata is None else parse_metadata(metadata)
    with progress(f"fork {source}", None) as advance:
        done = fork(
            url,
            destination,
            version=number,
            metadata=parsed,
            single_writer=single_writer,
            trust=trust,
            signing_key=sign_key,
            co_signers=co_signer,
            timeout=timeout,
            advance=advance,
        )
    if as_json:
        print_json(
            {
                "stream_id": done.stream_id,
                "origin": origin_members(done.origin),
                "version": 0,
                "how": done.how,
                "state_digest": done.record.state_digest,
                "data_bytes": done.data_bytes,
                "copied_bytes": done.copied_bytes,
                "written_bytes": done.written_bytes,
                "metadata": done.record.metadata,
            }
        )
        return
    print_facts(
        {
            "stream": f"{destination} ({done.stream_id})",
            "fork of": origin_text(done.origin),
            "stored": f"{units.size(done.data_bytes)} ({_HOW[done.how]})",
            "state digest": done.record.state_digest,
        }
    )


_HOW = {
    "copied": "copied by the store",
    "streamed": "read and written again",
    "rebuilt": "a new snapshot, rebuilt from deltas",
}


def _check(
    url: str, number: int | None, destination: str, *, trust: list[str] | None, timeout: float | None, as_json: bool
) -> None:
    from deltawire.cli.looking import origin_members, origin_text  # noqa: PLC0415
    from deltawire.cli.output import print_json, print_line  # noqa: PLC0415
    from deltawire.lineage.origin import check_origin  # noqa: PLC0415
    from deltawire.store import open_store  # noqa: PLC0415

    origin: Origin = check_origin(open_store(destination), open_store(url), trust=trust, timeout=timeout)
    if number is not None and origin.version != number:
        raise InvalidArgumentError(f"{destination} was forked from version {origin.version}, not from {number}")
    if as_json:
        print_json({"verified": True, "origin": origin_members(origin)})
        return
    print_line(f"{destination} is a fork of {origin_text(origin)}", style="bold green")


def parse_source(text: str) -> tuple[str, int | None]:
    """A URL and a version from ``URL@VERSION``; None is the newest. Raises InvalidArgumentError."""
    url, at, version = text.rpartition("@")
    if not at or "/" in version:  # this @ is part of a name further up
        return text, None
    try:
        return url, parse_version(version)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(str(error), hint="where a name has an @ in it, give a version as well") from None
