"""Trying on a live store whether it keeps the promises of SPEC.md section 5."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from deltawire.errors import DeltawireError, InvalidArgumentError
from deltawire.store import probe_basics, probe_races
from deltawire.store.base import Store
from deltawire.store.probe_scratch import BrokenPromiseError, Scratch

Fitness = Literal["many-writers", "single-writer", "unfit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """One promise and whether the store kept it."""

    name: str
    requirement: str
    """The id of the requirement in SPEC.md."""
    passed: bool
    detail: str
    needed_by: Literal["single-writer", "many-writers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """What a probe found. A pass is the absence of a violation in a few rounds, not a proof."""

    url: str
    results: tuple[ProbeResult, ...]

    @property
    def fit(self) -> Fitness:
        """Who may write to a stream in this store."""
        failed = {result.needed_by for result in self.results if not result.passed}
        if "single-writer" in failed:
            return "unfit"
        return "single-writer" if failed else "many-writers"


@dataclass(frozen=True, slots=True)
class _Check:
    name: str
    requirement: str
    needed_by: Literal["single-writer", "many-writers"]
    run: Callable[[Scratch], str]


def probe(store: Store, *, writers: int = 16, rounds: int = 3, swaps: int = 5, seconds: float = 60.0) -> ProbeReport:
    """Try every promise of the store protocol, in a scratch prefix that is deleted afterwards.

    ``writers`` threads race for one key ``rounds`` times, and a few of them count to ``swaps`` each in one
    object. After ``seconds`` no new round is begun.

    Raises:
        InvalidArgumentError: a number is out of range.
        StoreError: the store cannot be reached or refuses even a plain write; nothing is known about it.
    """
    if writers < 2 or rounds < 1 or swaps < 1 or seconds <= 0:
        raise InvalidArgumentError("a probe needs writers >= 2, rounds >= 1, swaps >= 1 and seconds > 0")
    give_up = time.monotonic() + seconds
    create_race = partial(probe_races.create_race, writers=writers, rounds=rounds, give_up=give_up)
    counter = partial(probe_races.counter, writers=writers, swaps=swaps, give_up=give_up)
    checks = (
        _Check("read after write", "STO-2", "single-writer", probe_basics.read_after_write),
        _Check("overwrite after read", "STO-2", "single-writer", probe_basics.overwrite_after_read),
        _Check("list after write", "STO-2", "single-writer", probe_basics.list_after_write),
        _Check("exact ranges", "STO-5", "single-writer", probe_basics.ranges),
        _Check("keys", "KEY-1", "single-writer", probe_basics.keys),
        _Check("failed streams are invisible", "STO-1", "single-writer", probe_basics.streams),
        _Check("delete", "STO-6", "single-writer", probe_basics.delete),
        _Check("whole reads", "STO-1", "many-writers", probe_races.whole_reads),
        _Check("exclusive create", "STO-3", "many-writers", probe_races.exclusive_create),
        _Check("create race", "STO-3", "many-writers", create_race),
        _Check("swap conditions", "STO-4", "many-writers", probe_races.swap_conditions),
        _Check("swap counter", "STO-4", "many-writers", counter),
    )
    store = store.without_cache()
    scratch = Scratch(store)
    try:
        store.put(scratch.key("reached"), b"1", mode="overwrite")
        return ProbeReport(url=store.url, results=tuple(_result(check, scratch) for check in checks))
    finally:
        scratch.clean_up()


def _result(check: _Check, scratch: Scratch) -> ProbeResult:
    try:
        passed, detail = True, check.run(scratch)
    except (BrokenPromiseError, DeltawireError) as error:
        passed, detail = False, str(error)
    return ProbeResult(
        name=check.name,
        requirement=check.requirement,
        passed=passed,
        detail=detail,
        needed_by=check.needed_by,
    )
