from __future__ import annotations

import threading
import time

import pytest

from deltawire.store import watchdog
from deltawire.store.watchdog import Watchdog
from tests.store.many import at_once


@pytest.fixture(autouse=True)
def soon_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_IDLE_SECONDS", 0.01)


def test_what_is_late_is_given_up_once() -> None:
    dog, given_up = Watchdog(), list[str]()
    ended = threading.Event()

    def end() -> None:
        given_up.append("late")
        ended.set()

    with dog.limit(60, lambda: given_up.append("long")), dog.limit(0.05, end), dog.limit(0.05, _fail):
        assert ended.wait(10)
        with dog.limit(0, end):  # sooner than whatever is watched
            time.sleep(0.1)
    assert given_up == ["late", "late"]


def _fail() -> None:
    raise LookupError("it has ended meanwhile")


def test_a_system_that_has_no_threads_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is begun that nobody watches; later it works again."""
    dog, ended = Watchdog(), threading.Event()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError), dog.limit(0, ended.set):
            pytest.fail("it was begun")
    with dog.limit(0, ended.set):
        assert ended.wait(10)


def test_what_is_in_time_is_not() -> None:
    """In many threads, and when there was nothing to watch for a while."""
    dog, given_up = Watchdog(), list[int]()

    def work(number: int) -> None:
        for turn in range(20):
            with dog.limit(5, lambda: given_up.append(number)):
                pass
            time.sleep(0.005 if turn % 5 else 0.03)

    at_once(8, work)
    assert given_up == []
    for _ in range(200):
        if "deltawire-watchdog" not in {thread.name for thread in threading.enumerate()}:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the thread stays")
