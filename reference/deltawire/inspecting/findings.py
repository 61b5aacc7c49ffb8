"""What a look at a whole stream finds: what is damaged, and what is worth knowing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from deltawire.errors import DeltawireError, StoreDeniedError
from deltawire.reading.retention import Retention

Kind = Literal["anchor", "delta", "snapshot", "span"]

Role = Literal[
    "stream", "retention", "version", "anchor", "span", "part", "shard", "index", "copy", "file", "table", "way"
]
"""What an object is to the record that names it, or which record it is; ``way``: a version to which none leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as SPEC.md says."""

    code: str
    """A code of SPEC.md section 13."""
    key: str
    """The object in which it shows."""
    message: str
    requirement: str | None = None
    """The requirement of SPEC.md that is broken, where one can be named."""


@dataclass(frozen=True, slots=True)
class Use:
    """For which version an object is there, and as what."""

    role: Role
    version: int
    """The version, the first of several, or the target of a span."""
    last: int = -1
    """The last of several consecutive versions; -1 if it is only one."""
    kind: Kind | None = None
    """The step that needs the object, for parts and shards."""
    base: int | None = None
    """The version from which that step leads."""

    @property
    def end(self) -> int:
        """The last version."""
        return max(self.version, self.last)

    @property
    def step(self) -> tuple[Kind, int | None, int] | None:
        """The one step that cannot be taken without the object."""
        return None if self.kind is None else (self.kind, self.base, self.version)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A finding, and what the object is there for."""

    finding: Finding
    uses: tuple[Use, ...] = ()
    usable: bool = False
    """Whether readers get what they need of the object all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something worth knowing that breaks nothing."""

    about: Literal["head", "lease", "member", "pin", "signatures"]
    key: str
    message: str
    code: str | None = None
    """A code of SPEC.md section 13, where the object has an error."""
    version: int | None = None
    """A version that the head names and that is not there."""


_REQUIREMENTS = {
    "malformed_record": "REC-2",
    "limit_exceeded": "LIM-1",
    "unsupported_protocol": "VER-1",
    "unsupported_feature": "VER-2",
    "unsupported_codec": "COD-1",
    "unsupported_dtype": "DTY-1",
    "malformed_part": "PRT-5",
    "malformed_shard": "SNP-5",
    "size_mismatch": "DSC-3",
    "digest_mismatch": "DSC-3",
    "missing_object": "DSC-1",
    "wrong_stream": "STR-2",
    "wrong_base": "DIG-4",
    "state_mismatch": "DIG-5",
    "path_lost": "RET-2",
    "bad_signature": "SIG-6",
}
"""What is broken if nothing says it better."""


@dataclass
class Findings:
    """Collects findings and notes, each once."""

    troubles: list[Trouble] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    _seen: set[Finding] = field(default_factory=set)

    def add(
        self,
        error: DeltawireError,
        key: str,
        *uses: Use,
        requirement: str | None = None,
        usable: bool = False,
    ) -> None:
        """Note an error. A store that fails or refuses says nothing about the stream, so its error passes through."""
        if error.retryable or isinstance(error, StoreDeniedError):
            raise error
        finding = Finding(
            code=error.code,
            key=key,
            message=str(error),
            requirement=requirement or _REQUIREMENTS.get(error.code),
        )
        if finding not in self._seen:
            self._seen.add(finding)
            self.troubles.append(Trouble(finding, uses, usable))

    @contextmanager
    def noting(self, key: str, *uses: Use, requirement: str | None = None) -> Iterator[None]:
        """Turn an error of the block into a finding about the object ``key``."""
        try:
            yield
        except DeltawireError as error:
            self.add(error, key, *uses, requirement=requirement)

    def forget(self, retention: Retention) -> None:
        """Drop what was found in versions that have been collected meanwhile."""
        self.troubles = [
            trouble
            for trouble in self.troubles
            if not trouble.uses or any(_retained(use, retention) for use in trouble.uses)
        ]


def _retained(use: Use, retention: Retention) -> bool:
    return use.end in retention or any(use.version <= number <= use.end for number in retention.kept)


def add_use(uses: list[Use], use: Use) -> None:
    """Add a use, as part of the last one if it continues that."""
    if uses and use.step is None and (uses[-1].role, uses[-1].end + 1) == (use.role, use.version):
        uses[-1] = replace(uses[-1], last=use.end)
    else:
        uses.append(use)


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers, which ascend."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def versions_text(first: int, last: int) -> str:
    """``version 3`` or ``versions 3 to 5``."""
    return f"version {first}" if last == first else f"versions {first} to {last}"
