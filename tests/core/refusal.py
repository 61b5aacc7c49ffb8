"""Whether something is refused, where either answer may be right."""

from __future__ import annotations

from collections.abc import Callable

from deltawire.errors import CODES, DeltawireError


def refusal(call: Callable[[], object]) -> str | None:
    """Code of the error of ours that ``call`` ends in; None if it ends well. Any other exception passes through."""
    try:
        call()
    except DeltawireError as error:
        known = CODES.get(error.code) is type(error) and "\n" not in str(error) and str(error).isprintable()
        return error.code if known else f"an error without a code, or not of one printable line: {error!r}"
    return None
