"""The application: its commands and its help text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import deltawire
from deltawire.cli import (
    coordinating,
    demo,
    diagnosing,
    errors,
    following,
    lineage,
    looking,
    maintaining,
    patching,
    publishing,
    signing,
    verifying,
)
from deltawire.cli.group import CommandGroup
from deltawire.cli.options import examples, help_of

_EPILOG = "[bold]Exit status[/bold]\n" + "\n".join(f"  {status:>3}  {meaning}" for status, meaning in errors.TABLE)

_HELP = """Ship model weights through a bucket: a trainer publishes each new version, engines follow, bit for bit.

A stream is one prefix in a store: a directory, s3://BUCKET/PREFIX, hf://buckets/NAMESPACE/NAME/PREFIX, or any URL \
that fsspec knows. \
Only what changed from one version to the next is sent, and everything is verified before it is applied."""

app = typer.Typer(
    name="deltawire",
    cls=CommandGroup,
    epilog=_EPILOG,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_STREAM, _CHECK, _FILES, _TRY = "Publish and follow", "Look and check", "Checkpoints on disk", "Try it"


def _print_version(value: bool) -> None:  # noqa: FBT001 - typer calls it
    if value:
        typer.echo(f"deltawire {deltawire.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, help=_HELP)
def root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001, FBT002 - its callback does the work
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Print the help if no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


def _add(command: Callable[..., None], panel: str, *lines: str) -> None:
    app.command(rich_help_panel=panel, help=help_of(command), epilog=examples(*lines))(command)


_add(
    publishing.publish,
    _STREAM,
    "deltawire publish s3://models/run-7 step-100/ step-101/",
    "deltawire publish ./stream checkpoint/ -m step=100 -m loss=0.31",
    "deltawire publish hf://buckets/me/models/run-7 step-100/ --single-writer",
)
_add(
    following.follow,
    _STREAM,
    "deltawire follow s3://models/run-7 ./weights",
    "deltawire follow ./stream --once --verify",
    "deltawire follow ./stream --every-version --json | jq .version",
)
_add(
    following.materialize,
    _STREAM,
    "deltawire materialize s3://models/run-7 latest ./model",
    "deltawire materialize ./stream 42 ./model-42",
)
_add(
    lineage.rollback,
    _STREAM,
    "deltawire rollback s3://models/run-7 --to 41",
    "deltawire rollback ./stream --to 41 -m reason=diverged",
)
_add(
    lineage.fork,
    _STREAM,
    "deltawire fork s3://models/run-7@41 s3://models/run-8",
    "deltawire fork ./stream@41 ./experiment",
    "deltawire fork ./stream@41 ./experiment --check",
)
_add(
    signing.keygen,
    _STREAM,
    "deltawire keygen trainer.pem",
    "deltawire publish ./stream step-100/ --sign-key trainer.pem",
    "deltawire follow ./stream ./weights --trust ed25519:...",
)
_add(
    maintaining.maintain,
    _STREAM,
    "deltawire maintain s3://models/run-7 --keep-last 500 --keep-every 100",
    "deltawire maintain ./stream --once --keep-for 7d --max-bytes 500GB",
    "deltawire maintain ./stream --dry-run --keep-last 10",
)
_add(looking.log, _CHECK, "deltawire log s3://models/run-7", "deltawire log ./stream -n 100 --json")
_add(looking.show, _CHECK, "deltawire show ./stream latest", "deltawire show s3://models/run-7 42 --all")
_add(coordinating.lease, _CHECK, "deltawire lease s3://models/run-7", "deltawire lease ./stream --json | jq .holder")
_add(coordinating.pins, _CHECK, "deltawire pins s3://models/run-7", "deltawire pins ./stream --json | jq .pins")
_add(
    verifying.verify,
    _CHECK,
    "deltawire verify s3://models/run-7",
    "deltawire verify ./stream --deep",
)
_add(
    diagnosing.fsck,
    _CHECK,
    "deltawire fsck s3://models/run-7",
    "deltawire fsck ./stream --deep --json | jq '.findings[].advice'",
)
_add(verifying.probe, _CHECK, "deltawire probe s3://models/scratch", "deltawire probe /mnt/shared --single-writer")
_add(
    patching.diff,
    _FILES,
    "deltawire diff step-100/ step-101/",
    "deltawire diff step-100/ step-101/ -o step-101.patch",
)
_add(patching.patch, _FILES, "deltawire patch step-100/ step-101.patch ./step-101")

app.command(
    rich_help_panel=_TRY,
    help=help_of(demo.demo),
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)(demo.demo)
