"""The table and the summary: legible at any width, and plain about what differs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from deltawire.demo.display import ConsoleDisplay, path_in_words
from deltawire.demo.evidence import FOLLOWER, Evidence
from deltawire.demo.report import as_json, print_report
from tests.demo.runs import LOADED, committed, digest, good_run, plan, verified


def _shown(evidence: Evidence, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_report(console, evidence, plan(Path("/nowhere")), 33.0)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_nothing_is_cut_off(width: int) -> None:
    text = _shown(good_run(), width)
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())
    for version in range(7):
        assert digest(version)[: 8 if width < 110 else 16] in text
    assert "1.250" in text  # bytes per changed element
    assert "182 times smaller" in text
    assert "1,234,500" in text  # milliseconds


def test_what_differs_is_named() -> None:
    evidence = good_run()
    assert "DIFFERS" not in _shown(evidence, 120)
    proof = evidence.verified[FOLLOWER][3]
    evidence.verified[FOLLOWER][3] = replace(proof, digest="0" * 16)
    text = " ".join(_shown(evidence, 120).split())
    assert "DIFFERS" in text
    assert "Digests agree at 6 of 7 versions" in text
    assert "follower 0000000000000000" in text
    assert "Every version arrived" not in text
    assert "Every version arrived bit for bit." in _shown(good_run(), 120)


def test_an_unfinished_run_can_be_shown() -> None:
    text = _shown(Evidence(3), 80)
    assert "Digests agree at 0 of 4 versions" in text


def test_json_holds_everything_and_says_whether_it_is_good() -> None:
    evidence = good_run()
    shown = json.loads(json.dumps(as_json(evidence, plan(Path("/nowhere")), 33.0)))
    assert shown["ok"] is True
    assert [row["version"] for row in shown["versions"]] == list(range(7))
    assert set(shown["versions"][5]["followers"]) == {"follower", "late_joiner"}
    evidence.committed[1] = replace(evidence.committed[1], trainer_digest="0" * 16)
    shown = as_json(evidence, plan(Path("/nowhere")), 33.0)
    assert shown["ok"] is False
    assert not shown["versions"][1]["agrees"]


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_names_who_did_what(*, terminal: bool) -> None:
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=terminal, _environ={"TERM": "xterm"})
    with ConsoleDisplay(console, steps=6) as display:
        display.loaded(LOADED)
        display.committed(committed(0))
        display.committed(committed(1))
        display.verified("late joiner", verified(4, steps=("anchor", "delta", "delta")))
        display.verified("follower", verified(2, resumed=True))
        display.note("follower", "[odd] text")
    text = file.getvalue()
    assert "22.7 M elements, 45.4 MB in bf16" in text
    assert "anchor of version 2 and 2 deltas" in text
    assert f"digest {digest(2)}" in text
    assert "[odd] text" in text
    assert ("version 1: 250 kB" in text) or terminal


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (("snapshot",), "the snapshot of version 9"),
        (("anchor", "delta"), "the anchor of version 8 and 1 delta"),
        (("delta", "delta"), "2 deltas"),
    ],
)
def test_paths_in_words(steps: tuple[str, ...], words: str) -> None:
    assert path_in_words(verified(9, steps=steps)) == words
