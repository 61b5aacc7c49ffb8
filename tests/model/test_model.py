"""Commit, lease, pins, retention and collecting, model-checked by spin.

What must hold does, in every interleaving of the processes of stream.pml; and without the rule that it rests on it does
not.

The search is exhaustive. One that ends early, at a bound of depth, memory or time, is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

MODEL = Path(__file__).with_name("stream.pml")
SOURCE = MODEL.read_text("utf-8")
_STATED = SOURCE.partition("/* Properties.")[2].partition("#ifdef ONLY")[0]
PROPERTIES = {name: int(n) for name, n in re.findall(r"^#define ([A-Z_]+) ([0-9]+) +/\*", _STATED, re.MULTILINE)}
OPTIONS = {"WRITERS", "READERS", "PINS", "MAINTAINERS", "BUDGET_0", "BUDGET_1", "VERSIONS", "DELAYS", "ONLY"}
"""Names under #ifdef that are not variants; REMOVED_LEASE adds an event, and takes no rule away."""
MEMORY = 2048
"""MiB"""
SECONDS = 900.0
"""A busy machine takes ten times as long as an idle one."""

# Who takes part. Searches of the whole model grow fast, so each part is looked at more closely too.
WHOLE: dict[str, int] = {}
LINE = {"READERS": 0, "BUDGET_0": 2, "BUDGET_1": 2, "REMOVED_LEASE": 1}
SHORT_LINE = {"READERS": 0}
PINNING = {"WRITERS": 1, "BUDGET_0": 3, "BUDGET_1": 0}
LONG_PINNING = PINNING | {"VERSIONS": 4}
UNPINNED = PINNING | {"PINS": 0, "VERSIONS": 4}
MAINTAINERS = {"MAINTAINERS": 2, "READERS": 0, "WRITERS": 1, "BUDGET_0": 2, "BUDGET_1": 0}


@dataclass(frozen=True, slots=True)
class Variant:
    """The model without one rule, or with another in its place."""

    name: str
    rule: str
    broken: str
    """The property that must fail."""
    where: dict[str, int]


VARIANTS = [
    Variant("NO_CREATE_CONDITION", "CMT-2: a record is created, not overwritten", "LINEAR", SHORT_LINE),
    Variant("RECORD_BEFORE_PARTS", "CMT-1: what a record names is there before it", "COMPLETE", SHORT_LINE),
    Variant("LOST_ANSWER_IS_LOSS", "CMT-4 to CMT-6: a lost answer is read back", "LOST", SHORT_LINE),
    Variant("LOST_RACE_WITHOUT_BOUNDARY", "CMT-6: what was collected does not tell who won", "LOST", SHORT_LINE),
    Variant("BELOW_BOUNDARY_IS_LOST", "CMT-11: below the boundary nobody knows", "LOST", SHORT_LINE),
    Variant("NO_BOUNDARY_RECHECK", "CMT-11: the boundary is read after the create", "COMMITTED", SHORT_LINE),
    Variant("UNKNOWN_IS_BASE", "CMT-9: no base that is not known to be ours", "PARENT", SHORT_LINE),
    Variant("NO_EPOCH_CHECK", "LSE-7: the epoch rises above the line's", "EPOCH", SHORT_LINE),
    Variant("NO_EPOCH_CHECK", "LSE-7: the epoch rises above the line's", "ONE_EPOCH", LINE),
    Variant("NO_BOUNDARY_WHEN_FINDING", "LAT-5: the newest is not below the boundary", "NEWEST", SHORT_LINE),
    Variant("NO_BOUNDARY_WHEN_FINDING", "LAT-5: the newest is not below the boundary", "NEWEST", UNPINNED),
    Variant(
        "PIN_SPARES_BOUNDARY_BELOW_SEEN", "LAT-5: what a pin did not find retained it does not keep", "NEWEST", PINNING
    ),
    Variant("CHAIN_BEFORE_BOUNDARY", "RET-3: the chain is judged after the boundary is read", "SOUND", UNPINNED),
    Variant("NO_RETENTION_READ", "RET-3: the boundary is read before the first step", "SHOWN", UNPINNED),
    Variant("BACKWARDS", "FOL-1: only to later versions", "FORWARD", UNPINNED),
    Variant("PIN_WITHOUT_CONFIRM", "PIN-4: the boundary is read after the pin is written", "PINNED", PINNING),
    Variant("PIN_FIRST_FALLS", "PIN-5: `first` of a confirmed pin does not fall", "PINNED", LONG_PINNING),
    Variant("NO_PIN_EXPIRY", "PIN-6: a pin renewed too late is void", "PINNED", PINNING),
    Variant("REUSE_PIN_ID", "PIN-6: the id of a void pin is not used again", "PINNED", PINNING),
    Variant("PIN_NOT_HEEDED", "COL-4: what a pin covers stays", "PINNED", PINNING),
    Variant("NO_SECOND_PIN_LISTING", "COL-4: pins are listed after the boundary moved", "PINNED", PINNING),
    Variant("BOUNDARY_WITHOUT_SNAPSHOT", "COL-2: the boundary has a snapshot", "REACHABLE", SHORT_LINE),
    Variant("NO_SWAP", "COL-3: the boundary is moved by replace-if", "BOUNDARY", MAINTAINERS),
    Variant("NAMES_OLD_OBJECTS", "KEY-9: nothing is named that the parent does not name", "COMPLETE", SHORT_LINE),
    Variant("NO_LOOK_AT_WHAT_STAYS", "COL-5: what a record that stays names is not deleted", "COMPLETE", SHORT_LINE),
    Variant("ONLY_NEXT_THAT_STAYS", "COL-5: kept versions before it stay too", "COMPLETE", SHORT_LINE),
    Variant("ORPHANS_OF_NEXT", "COL-7: nothing above the newest version is an orphan", "COMPLETE", SHORT_LINE),
    Variant("ORPHANS_BY_AGE", "COL-7: in retained versions no age makes an orphan", "REACHABLE", MAINTAINERS),
]
NOT_NEEDED = [("NO_EPOCH_RISE", SHORT_LINE)]
"""Rules that these properties do not rest on: LSE-7 does for the line what LSE-5 promises for each acquisition."""


@dataclass(frozen=True, slots=True)
class Search:
    """What the verifier said."""

    output: str

    @property
    def complete(self) -> bool:
        """Whether every state was looked at, and nothing found."""
        bad = ("Search not completed", "max search depth too small", "MEMLIM", "assertion violated")
        return re.search(r"errors: 0$", self.output, re.MULTILINE) is not None and not any(
            word in self.output for word in bad
        )

    def broken(self) -> set[str]:
        """The properties whose assertions failed."""
        numbers = {int(n) for n in re.findall(r"assertion violated .*\|\|\(([0-9]+)[!=]=[0-9]+\)\)", self.output)}
        return {name for name, number in PROPERTIES.items() if number in numbers}


@pytest.fixture(scope="session")
def compiler() -> str:
    found = shutil.which("gcc") or shutil.which("cc")
    missing = [name for name, there in (("spin", shutil.which("spin")), ("a C compiler", found)) if not there]
    if missing:
        reason = f"{' and '.join(missing)} not installed; on Debian: apt-get install spin gcc"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    assert found is not None
    return found


def _search(folder: Path, compiler: str, options: dict[str, int]) -> Search:
    def call(*command: str) -> str:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
        output = done.stdout + done.stderr
        assert done.returncode == 0 or command[0] == "./pan", output
        return output

    defines = [f"-D{name}={value}" for name, value in options.items()]
    call("spin", f"-P{compiler} -E -x c", "-a", *defines, str(MODEL))
    flags = ["-DSAFETY", "-DCOLLAPSE", "-DNOFAIR", f"-DMEMLIM={MEMORY}"]
    # Optimising takes 8 s, and halves a search that in most cases takes less than 4 s without.
    optimise = "-O2" if options is WHOLE else "-O0"
    call(compiler, optimise, "-w", *flags, "-o", "pan", "pan.c")
    return Search(call("./pan", "-E", "-m10000"))  # processes may come to their end, or wait for ever


def _name(options: dict[str, int]) -> str:
    return next(name for name, value in globals().items() if value is options)


@pytest.mark.parametrize(
    "options", [pytest.param(WHOLE, marks=pytest.mark.lengthy), LINE, PINNING, UNPINNED, MAINTAINERS], ids=_name
)
def test_every_property_holds(options: dict[str, int], tmp_path: Path, compiler: str) -> None:
    search = _search(tmp_path, compiler, options)
    assert search.complete, search.output


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: f"{variant.name}-{variant.broken}")
def test_without_the_rule_the_property_fails(variant: Variant, tmp_path: Path, compiler: str) -> None:
    only = PROPERTIES[variant.broken]
    search = _search(tmp_path, compiler, variant.where | {variant.name: 1, "ONLY": only})
    assert search.broken() == {variant.broken}, f"{variant.rule}\n{search.output}"


@pytest.mark.parametrize(("name", "options"), NOT_NEEDED, ids=[name for name, _ in NOT_NEEDED])
def test_the_line_is_whole_without_the_rule(name: str, options: dict[str, int], tmp_path: Path, compiler: str) -> None:
    search = _search(tmp_path, compiler, options | {name: 1})
    assert search.complete, search.output


def test_each_property_and_each_variant_is_tried() -> None:
    conditions = set(re.findall(r"^#(?:ifdef|ifndef) ([A-Z_0-9]+)$", SOURCE, re.MULTILINE))
    conditions |= set(re.findall(r"defined\(([A-Z_0-9]+)\)", SOURCE))
    tried = {variant.name for variant in VARIANTS} | {name for name, _ in NOT_NEEDED}
    assert conditions - OPTIONS - {"REMOVED_LEASE"} == tried
    assert {variant.broken for variant in VARIANTS} == set(PROPERTIES)
    assert sorted(PROPERTIES.values()) == list(range(1, len(PROPERTIES) + 1))
