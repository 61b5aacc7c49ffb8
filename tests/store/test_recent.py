"""Recent contents against a model: the ones used last, within the bounds."""

from __future__ import annotations

import os
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.store.recent import RecentContents

LARGEST, TOGETHER = 10, 25


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=60))
def test_what_was_used_last_is_kept(steps: list[tuple[bool, int]]) -> None:
    recent = RecentContents(largest=LARGEST, together=TOGETHER)
    model: list[int] = []  # sizes, which name the contents, last used last
    for keep, size in steps:
        if keep:
            recent.keep(str(size), bytes(size))
            if size <= LARGEST:
                model = [*(other for other in model if other != size), size]
                while sum(model) > TOGETHER:
                    model.pop(0)
        else:
            found = recent.get(str(size))
            assert found == (bytes(size) if size in model else None)
            if size in model:
                model = [*(other for other in model if other != size), size]


def test_what_was_read_is_kept_when_it_was_the_same_twice() -> None:
    """Nobody holds it to its hash, so that what came wrong once must not stay."""
    recent = RecentContents()
    for content in (b"wrong", b"right", b"wrong", b"right"):
        recent.keep_read("hash", content)
        assert recent.get("hash") is None
    recent.keep_read("hash", b"right")
    assert recent.get("hash") == b"right"
    large = RecentContents(largest=1)
    for _ in range(3):
        large.keep_read("hash", b"12")
    assert large.get("hash") is None


def test_a_fork_while_another_thread_is_in_the_middle() -> None:
    recent = RecentContents()
    with recent._lock:
        child = os.fork()
        if child == 0:
            recent.keep("hash", b"content")
            os._exit(0 if recent.get("hash") == b"content" else 1)
    for _ in range(100):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child waits for a lock that nobody holds")
    assert status == 0
