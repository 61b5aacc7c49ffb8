"""Which cases count for a version of SPEC.md: ``requirements/<version>.json``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from deltawire_conformance.case import CaseFolder
from deltawire_conformance.resources import REQUIREMENTS


class Frozen(Struct, frozen=True, kw_only=True):
    """The cases of one version. A draft may still change; a frozen one never does."""

    spec_version: str
    status: Literal["draft", "frozen"]
    cases: dict[str, str]
    """sha256 of each case by id; see ``case_digest``."""


def read_frozen(version: str, *, folder: Path = REQUIREMENTS) -> Frozen:
    """Read the cases of a version.

    Raises:
        FileNotFoundError: there is no such version.
    """
    return msgspec.json.decode((folder / f"{version}.json").read_bytes(), type=Frozen)


def case_digest(case: CaseFolder) -> str:
    """sha256 over everything in a case's folder: path, zero byte, sha256 of the content, in the order of paths."""
    digest = hashlib.sha256()
    for file in sorted(path for path in case.path.rglob("*") if path.is_file()):
        digest.update(file.relative_to(case.path).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def as_draft(version: str, cases: Iterable[CaseFolder]) -> Frozen:
    """All cases there are, as a draft."""
    found = {case.id: case_digest(case) for case in cases if _numbers(case.case.since) <= _numbers(version)}
    return Frozen(spec_version=version, status="draft", cases=found)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
