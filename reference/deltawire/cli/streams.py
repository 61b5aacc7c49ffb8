"""Opening the stream that a command looks at, and naming a version of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from deltawire.errors import InvalidArgumentError

if TYPE_CHECKING:
    from deltawire.reading.stream import StreamReader
    from deltawire.store.base import Store

WhichVersion = Annotated[
    str, typer.Argument(metavar="VERSION", help="A version's number, or 'latest'.", show_default=False)
]


@contextmanager
def open_reader(url: str | Store, trust: Sequence[str] | None = None) -> Iterator[StreamReader]:
    """A reader of the records of a stream, closed at the end of the block; a store that was given stays open."""
    from deltawire.reading.stream import StreamReader  # noqa: PLC0415
    from deltawire.reading.transfer import Transfer  # noqa: PLC0415
    from deltawire.reading.trust import as_trust  # noqa: PLC0415
    from deltawire.store import open_store  # noqa: PLC0415 - heavy imports wait until a command runs

    trusted = as_trust(trust)
    transfer = Transfer(open_store(url) if isinstance(url, str) else url)
    try:
        yield StreamReader(transfer, trusted)
    finally:
        transfer.close()


def parse_version(text: str) -> int | None:
    """A version's number, or None for ``latest``. Raises InvalidArgumentError."""
    if text == "latest":
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 16:
        raise InvalidArgumentError(f"a version is a number or 'latest', not {text[:40]!r}")
    return int(text)
