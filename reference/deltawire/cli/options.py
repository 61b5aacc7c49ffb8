"""Options and arguments that several commands share, and how help texts show examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="Where the stream is: a directory, s3://BUCKET/PREFIX, hf://buckets/NAMESPACE/NAME/PREFIX, or another URL"
        " that fsspec knows.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
TensorGlobs = Annotated[
    list[str] | None,
    typer.Option("--tensors", metavar="GLOB", help="Only tensors whose name matches; repeatable.", show_default=False),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up after this time.", show_default=False),
]
Trusted = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="KEY",
        help="Believe only what is signed by this public key, ed25519:... or a PEM file, and by those it vouches for;"
        " repeatable.",
        show_default=False,
    ),
]
SignKey = Annotated[
    Path | None,
    typer.Option(
        "--sign-key", metavar="FILE", help="Sign with this private key; see 'deltawire keygen'.", show_default=False
    ),
]
CoSigners = Annotated[
    list[str] | None,
    typer.Option(
        "--co-signer",
        metavar="KEY",
        help="Public key of another who may sign this stream: listed when it is created, believed when it is read;"
        " repeatable.",
        show_default=False,
    ),
]
CheckpointA = Annotated[
    Path,
    typer.Argument(metavar="A", help="The old checkpoint: a directory, or a safetensors file.", show_default=False),
]


def examples(*lines: str) -> str:
    """A help epilog with one example a line."""
    return "[bold]Examples[/bold]\n" + "\n".join("  " + line.replace("[", "\\[") for line in lines)


def help_of(command: Callable[..., None]) -> str:
    """The paragraphs of a command's docstring, each on one line, so that help wraps them to the terminal."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)
