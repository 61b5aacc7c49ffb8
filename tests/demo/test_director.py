"""The course of a run: who starts when, what a kill and a late joiner do, and that nothing is waited for in vain."""

from __future__ import annotations

import dataclasses
import queue
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from deltawire.demo.director import LOADER, TRAINER, Director, Plan
from deltawire.demo.evidence import FOLLOWER, LATE_JOINER
from deltawire.demo.messages import Anchored, AnyMessage, Committed, Loaded, Verified
from deltawire.demo.processes import Child, Ended, News, ProcessDiedError, Said
from deltawire.errors import DeadlineExceededError, DeltawireError, WrongBaseError
from tests.demo.runs import EMBEDDED, LOADED, committed, plan, verified
from tests.hub.emulator import HubEmulator


class Silence:
    """A display that shows nothing."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def note(self, who: str, text: str) -> None:
        self.notes.append((who, text))

    def loaded(self, message: Loaded) -> None: ...
    def committed(self, message: Committed) -> None: ...
    def verified(self, who: str, message: Verified) -> None: ...


class Puppet(Child):
    """A process that is none: it has said everything when it is made."""

    def __init__(self, who: str, said: list[AnyMessage], status: int | None, news: queue.Queue[News]) -> None:
        self.who, self.killed, self.closed = who, False, False
        for message in said:
            news.put(Said(self, message))
        if status is not None:
            news.put(Ended(self, status))

    def kill(self) -> None:
        self.killed = True

    def failure(self, status: int) -> DeltawireError:
        return ProcessDiedError(f"{self.who} {status}")

    def close(self) -> None:
        self.closed = True


class Cast:
    """Starts puppets that do what a good run needs; a test changes their lines."""

    def __init__(self, steps: int = 6, killed_at: int = 2, joined_at: int = 4) -> None:
        self.started: list[Puppet] = []
        versions = range(steps + 1)
        first = [verified(version, steps=("delta",) if version else ("snapshot",)) for version in versions]
        again = [verified(killed_at, resumed=True), *first[killed_at + 1 :]]
        late = [verified(joined_at, steps=("anchor", "delta")), *first[joined_at + 1 :]]
        published: list[AnyMessage] = [committed(version) for version in versions]
        self.lines: dict[tuple[str, int], tuple[list[AnyMessage], int | None]] = {
            (TRAINER, 0): ([LOADED, *published, Anchored(version=3), EMBEDDED], 0),
            (FOLLOWER, 0): (list(first[: killed_at + 1]), None),
            (FOLLOWER, 1): (list(again), 0),
            (LATE_JOINER, 0): (list(late), 0),
            (LOADER, 0): ([EMBEDDED], 0),
        }

    def __call__(self, who: str, module: str, settings: Struct, news: queue.Queue[News]) -> Child:
        assert module.startswith("deltawire.demo.")
        times = sum(puppet.who == who for puppet in self.started)
        puppet = Puppet(who, *self.lines[who, times], news)
        self.started.append(puppet)
        return puppet


def test_a_good_run(tmp_path: Path) -> None:
    cast, display = Cast(), Silence()
    evidence = Director(plan(tmp_path), display, cast).run()
    assert evidence.differences() == []
    assert [puppet.who for puppet in cast.started][:2] == [TRAINER, FOLLOWER]
    assert sorted(puppet.who for puppet in cast.started[2:]) == sorted([FOLLOWER, LATE_JOINER, LOADER])
    assert cast.started[1].killed
    assert all(puppet.closed for puppet in cast.started)
    assert any("killed with SIGKILL just after writing version 2" in text for _, text in display.notes)


def test_a_digest_that_differs_is_in_the_evidence(tmp_path: Path) -> None:
    cast = Cast()
    said, _ = cast.lines[LATE_JOINER, 0]
    wrong = said[-1]
    assert isinstance(wrong, Verified)
    said[-1] = replace(wrong, digest="0" * 16)
    evidence = Director(plan(tmp_path), Silence(), cast).run()
    assert len(evidence.differences()) == 1


@pytest.mark.parametrize("key", [(TRAINER, 0), (FOLLOWER, 0), (FOLLOWER, 1), (LATE_JOINER, 0), (LOADER, 0)])
def test_whoever_dies_ends_the_run(tmp_path: Path, key: tuple[str, int]) -> None:
    cast = Cast()
    cast.lines[key] = (cast.lines[key][0][:1], 3)
    with pytest.raises(ProcessDiedError, match=f"{key[0]} 3"):
        Director(plan(tmp_path), Silence(), cast).run()
    assert all(puppet.closed for puppet in cast.started)


@pytest.mark.parametrize("key", [(TRAINER, 0), (FOLLOWER, 0), (FOLLOWER, 1), (LATE_JOINER, 0), (LOADER, 0)])
def test_nobody_is_waited_for_longer_than_the_timeout(tmp_path: Path, key: tuple[str, int]) -> None:
    cast = Cast()
    cast.lines[key] = ([], None)
    with pytest.raises(DeadlineExceededError, match=key[0]):
        Director(plan(tmp_path, timeout=0.5), Silence(), cast).run()
    assert all(puppet.closed for puppet in cast.started)


def test_a_trainer_that_stops_early_is_no_success(tmp_path: Path) -> None:
    cast = Cast()
    cast.lines[TRAINER, 0] = ([LOADED, committed(0)], 0)
    with pytest.raises(ProcessDiedError, match="after version 0"):
        Director(plan(tmp_path), Silence(), cast).run()


@pytest.mark.parametrize("steps", [3, 4, 5, 7, 12, 100])
def test_events_of_a_plan_lie_within_it(tmp_path: Path, steps: int) -> None:
    made = plan(tmp_path, steps=steps)
    assert 1 <= made.kill_at < made.restart_at <= steps
    assert 1 <= made.join_at <= steps


def _stand_ins(who: str, module: str, settings: Struct, news: queue.Queue[News]) -> Child:
    """Real processes and real followers; only what needs a model is stood in for."""
    return Child(who, "tests.demo.acting" if who in {TRAINER, LOADER} else module, settings, news)


def test_real_followers_are_killed_restarted_and_join_late(tmp_path: Path) -> None:
    evidence = Director(plan(tmp_path), Silence(), _stand_ins).run()
    assert evidence.differences() == []
    assert evidence.resumed is not None
    assert evidence.joined_at is not None
    assert evidence.joined_at >= 4
    assert evidence.verified[LATE_JOINER][evidence.joined_at].steps[0] == "anchor"


def test_real_followers_in_a_bucket_of_the_hub(tmp_path: Path, hub: HubEmulator) -> None:
    made = dataclasses.replace(plan(tmp_path), store="hf://buckets/alice/weights/demo", interval=0.1)
    evidence = Director(made, Silence(), _stand_ins).run()
    assert evidence.differences() == []
    assert evidence.resumed is not None
    assert b'"writers":"single"' in hub.read("alice/weights", "demo/stream.json")


def _acted(tmp_path: Path, role: str) -> Callable[[], object]:
    made = plan(tmp_path, timeout=30.0)
    changed = Plan(
        checkpoint=type(made.checkpoint)(role, Path(role)),
        store=made.store,
        directory=made.directory,
        steps=made.steps,
        lr=made.lr,
        anchor_every=made.anchor_every,
        threads=1,
        timeout=3.0 if role == "silent" else 30.0,
    )
    return Director(changed, Silence(), _stand_ins).run


def test_an_error_of_ours_in_a_process_comes_back_as_itself(tmp_path: Path) -> None:
    with pytest.raises(WrongBaseError, match=r"^trainer: not what I hold$") as caught:
        _acted(tmp_path, "raise")()
    assert caught.value.hint == "look elsewhere"


def test_a_crash_is_noticed_at_once_and_its_last_words_kept(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ProcessDiedError, match="the trainer ended with status 1") as caught:
        _acted(tmp_path, "crash")()
    assert "ZeroDivisionError: crashed on purpose" in caught.value.tail
    assert "noise on standard output" in caught.value.tail
    assert time.monotonic() - started < 20


def test_a_silent_process_runs_into_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(DeadlineExceededError, match="trainer"):
        _acted(tmp_path, "silent")()
