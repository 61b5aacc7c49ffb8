"""Waiting: for no longer than there is time, and not past an interrupt."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import pytest

from deltawire.deadline import Deadline, wait_for
from deltawire.errors import DeadlineExceededError


def test_a_wait_ends_with_the_future_or_the_deadline() -> None:
    future = Future[int]()
    assert not wait_for(future, Deadline.after(0.05))
    threading.Timer(0.05, future.set_result, [1]).start()
    assert wait_for(future, Deadline(None))
    assert wait_for(future, Deadline.after(0))  # it is done all the same
    with pytest.raises(DeadlineExceededError):
        Deadline.after(0).remaining()


def test_an_interrupt_that_wakes_nobody_is_noticed() -> None:
    """As one that arrives when the main thread has just begun to wait."""
    program = """
import _thread, signal, threading
from concurrent.futures import Future
from deltawire.deadline import Deadline, wait_for
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job inherits as ignored
threading.Timer(0.2, _thread.interrupt_main).start()
wait_for(Future(), Deadline(None))
"""
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr
    assert time.monotonic() - started < 30
