"""``deltawire maintain``."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltawire.cli import quantities
from deltawire.cli.options import AsJson, CoSigners, SignKey, Trusted, Url

if TYPE_CHECKING:
    from deltawire.deadline import Deadline
    from deltawire.maintaining.building import Built
    from deltawire.maintaining.maintainer import Pass
    from deltawire.maintaining.report import Collected

Once = Annotated[
    bool, typer.Option("--once", help="Make one pass and stop; watch readers that are in the way until they are known.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what one pass would do, and write nothing.")]
Interval = Annotated[float, typer.Option("--interval", metavar="SECONDS", min=0, help="Time between passes.")]
KeepLast = Annotated[
    int | None,
    typer.Option("--keep-last", metavar="N", min=1, help="Keep the newest N versions.", show_default=False),
]
KeepFor = Annotated[
    float | None,
    typer.Option(
        "--keep-for",
        metavar="DURATION",
        parser=quantities.duration,
        help="Keep versions made at most so long before the newest: 90s, 15m, 12h, 7d.",
        show_default=False,
    ),
]
KeepEvery = Annotated[
    int | None,
    typer.Option(
        "--keep-every",
        metavar="K",
        min=1,
        help="Of older versions, keep those whose number is divisible by K and that have a snapshot.",
        show_default=False,
    ),
]
MaxBytes = Annotated[
    int | None,
    typer.Option(
        "--max-bytes",
        metavar="SIZE",
        parser=quantities.size,
        help="Keep less, down to the newest snapshot, if the stream is larger: 500GB, 2TiB.",
        show_default=False,
    ),
]
SingleMaintainer = Annotated[
    bool,
    typer.Option(
        "--single-maintainer",
        help="Nobody else maintains this stream; to collect on stores that cannot arbitrate, as hf://.",
    ),
]

AnchorEvery = Annotated[
    int,
    typer.Option("--anchor-every", metavar="N", min=1, help="Give the newest version a snapshot after N versions."),
]
NoBuild = Annotated[bool, typer.Option("--no-build", help="Make no anchors and spans; only collect.")]


def maintain(  # noqa: PLR0913, PLR0917 - typer makes options of these
    url: Url,
    once: Once = False,  # noqa: FBT002
    dry_run: DryRun = False,  # noqa: FBT002
    interval: Interval = 30.0,
    keep_last: KeepLast = None,
    keep_for: KeepFor = None,
    keep_every: KeepEvery = None,
    max_bytes: MaxBytes = None,
    anchor_every: AnchorEvery = 50,
    no_build: NoBuild = False,  # noqa: FBT002
    sign_key: SignKey = None,
    co_signer: CoSigners = None,
    trust: Trusted = None,
    single_maintainer: SingleMaintainer = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Maintain a stream, pass by pass, until stopped: what readers need to catch up is made, what nobody needs goes.

    Made are anchors, so that a reader from nothing has a recent snapshot, and spans, so that one that is far behind
    takes a few large steps instead of every delta; from the store alone, a part of the model at a time.

    Without a --keep or --max option every version stays. What goes is what lies before the newest snapshot that is old
    enough; readers that have pinned a version keep it while they live. Any number of maintainers may run at once.
    """
    from deltawire.cli.errors import warn  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.maintaining.builder import Builder  # noqa: PLC0415
    from deltawire.maintaining.collecting import CollectOptions  # noqa: PLC0415
    from deltawire.maintaining.maintainer import Maintainer  # noqa: PLC0415
    from deltawire.maintaining.retaining import RetentionPolicy  # noqa: PLC0415
    from deltawire.producer.anchors import AnchorPolicy  # noqa: PLC0415
    from deltawire.producer.signing import as_signing  # noqa: PLC0415

    single = once or dry_run
    options = CollectOptions(
        policy=RetentionPolicy(keep_last=keep_last, keep_for=keep_for, keep_every=keep_every, max_bytes=max_bytes),
        single_maintainer=single_maintainer,
        dry_run=dry_run,
        wait=once,
    )
    builder = None
    if not no_build:
        policy = AnchorPolicy(every=anchor_every)
        builder = Builder(url, anchors=policy, signing_key=sign_key, co_signers=co_signer)

    def build(deadline: Deadline) -> Built:
        assert builder is not None  # noqa: S101 - not called without one
        if dry_run:
            return builder.look(timeout=deadline.left())
        return builder.run(force=once, timeout=deadline.left())

    signing = as_signing(sign_key, co_signer)
    trusted = trust or (None if signing is None else signing.trust)
    maintainer = Maintainer(url, options, build=None if no_build else build, trust=trusted, tell=warn)
    with builder or nullcontext(), maintainer, _until_told(maintainer.stop):
        for done in [maintainer.once()] if single else maintainer.run(interval=interval):
            _show(done, as_json=as_json, quiet=not single)


@contextmanager
def _until_told(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM of the block end the work in order; a second one ends the process as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def told(number: int, _: object) -> None:
        signal.signal(number, before[signal.Signals(number)])
        stop()

    try:
        for number in before:
            signal.signal(number, told)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(done: Pass[Any], *, as_json: bool, quiet: bool) -> None:
    from msgspec import to_builtins  # noqa: PLC0415

    from deltawire.cli.errors import warn  # noqa: PLC0415
    from deltawire.cli.output import print_json  # noqa: PLC0415

    if done.error is not None:
        if as_json:
            print_json({"error": done.error.code, "message": str(done.error), "hint": done.error.hint})
        warn(f"{done.error}; trying again")
        return
    if done.collected is not None:
        if as_json:
            print_json({**to_builtins(done.collected), "built": to_builtins(done.built), "seconds": done.seconds})
        else:
            _print_built(done.built, dry_run=done.collected.dry_run)
            for note in done.collected.notes:
                warn(note)
            if done.collected.changed or not quiet:
                _print(done.collected)


def _print_built(built: Built | None, *, dry_run: bool) -> None:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.errors import warn  # noqa: PLC0415
    from deltawire.cli.output import print_facts  # noqa: PLC0415

    if built is None:
        return
    for problem in built.problems:
        warn(problem)
    facts = {}
    made = "would make" if dry_run else "made"
    if built.anchors:
        facts["anchors"] = f"{made} {', '.join(f'that of version {number}' for number in built.anchors)}"
    if built.spans:
        shown = ", ".join(f"{base}-{target}" for base, target in built.spans[:8])
        more = f" and {units.count(len(built.spans) - 8)} more" if len(built.spans) > 8 else ""
        facts["spans"] = f"{made} {units.count(len(built.spans))}: {shown}{more}"
    if built.dropped:
        facts["dropped"] = f"{units.count(len(built.dropped))} spans that would have saved nothing"
    if built.bytes_read:
        facts["for that"] = f"{units.size(built.bytes_read)} read, {units.size(built.bytes_written)} written"
    if facts:
        print_facts(facts)


def _print(done: Collected) -> None:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import print_facts, print_line  # noqa: PLC0415
    from deltawire.maintaining.report import text_of  # noqa: PLC0415

    if done.newest is None:
        print_line("the stream has no version yet; nothing is collected")
        return
    moved = "" if done.boundary == done.previous_boundary else f" (before: {done.previous_boundary})"
    facts = {"retained": f"versions {done.boundary} to {done.newest}{moved}"}
    if done.kept:
        facts["kept"] = f"versions {text_of(done.kept)}"
    if done.versions or done.anchors or done.spans or done.objects:
        facts["would go" if done.dry_run else "collected"] = (
            f"versions {text_of(done.versions) or '-'}, {units.count(done.anchors)} anchors,"
            f" {units.count(done.spans)} spans, {units.count(done.objects)} objects ({units.size(done.bytes)})"
        )
    if done.orphans or done.waiting_orphans:
        went = "would go" if done.dry_run else "removed"
        facts["orphans"] = (
            f"{units.count(done.orphans)} {went} ({units.size(done.orphan_bytes)}),"
            f" {units.count(done.waiting_orphans)} stay as long as their versions"
        )
    if done.pins:
        facts["pins"] = f"{units.count(done.pins)} of readers that are gone"
    for pin in done.held_back:
        rest = "on" if pin.last is None else f"to {pin.last}"
        name = "an unreadable pin" if pin.holder is None else pin.holder
        held = f"{units.count(pin.versions)} versions by {name}, from {pin.first} {rest}"
        facts["held back"] = facts["held back"] + "\n" + held if "held back" in facts else held
    print_facts(facts)
    if not done.changed:
        print_line("nothing to collect")
