"""What comes back from a call of an adapter, held against the contract (ADAPTER.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Line = dict[str, Any]
"""One JSON object of standard output."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back from a call."""

    arguments: tuple[str, ...]
    status: int | None
    """Exit status; None if it took too long."""
    output: tuple[Line, ...] = ()
    stderr: str = ""
    seconds: float = 0.0
    trouble: str | None = None
    """Why this is no answer at all: a crash, a timeout, output that is not JSON."""

    @property
    def refusal(self) -> str | None:
        """Code of a refusal; None if it was done."""
        return self.output[-1]["error"] if self.status == 1 and self.trouble is None else None

    @property
    def result(self) -> Line:
        """The last line of a call that was done."""
        return self.output[-1] if self.output else {}


def judged(
    arguments: tuple[str, ...], status: int | None, output: Sequence[Line], stderr: str, seconds: float,
    trouble: str | None,
) -> Answer:  # fmt: skip
    """Hold an answer against the contract: a crash is not a refusal."""
    if trouble is None and status not in {0, 1}:
        trouble = f"it ended with status {status}, which is neither done nor refused"
    if trouble is None and status == 1 and not (output and isinstance(output[-1].get("error"), str)):
        trouble = 'it ended with status 1 and no {"error": "<code>"} in its last line'
    if trouble is None and status == 0 and not output:
        trouble = "it ended with status 0 and printed nothing"
    return Answer(
        arguments=arguments,
        status=status,
        output=tuple(output),
        stderr=stderr[-8000:],
        seconds=seconds,
        trouble=trouble,
    )
