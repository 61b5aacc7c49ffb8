"""``deltawire keygen``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from deltawire.cli.options import AsJson
from deltawire.errors import InvalidArgumentError

KeyFile = Annotated[Path, typer.Argument(metavar="FILE", help="Where the private key is to be.", show_default=False)]


def keygen(
    file: KeyFile,
    as_json: AsJson = False,  # noqa: FBT002 - typer makes an option of it
) -> None:
    """Make a key to sign a stream with, and print its public half.

    The private key is a PKCS8 PEM file that only its owner may read; it is not encrypted. Trainers publish with
    --sign-key FILE, engines follow with --trust and what is printed here.
    """
    from deltawire import ed25519  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.cli.output import print_json, print_line  # noqa: PLC0415

    key = ed25519.generate()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidArgumentError(
            f"{file} is there already", hint="a key that is lost cannot be made again; choose another name"
        ) from None
    with open(descriptor, "wb") as opened:  # noqa: PTH123 - a descriptor, for the mode
        opened.write(key.pem())
        opened.flush()
        os.fsync(descriptor)
    if as_json:
        print_json({"file": str(file), "public_key": key.key})
    else:
        print_line(key.key)
