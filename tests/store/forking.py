"""Doing something in a forked child, as a data loader's workers do, without waiting for one that hangs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable


def in_a_forked_child(work: Callable[[], object]) -> None:
    """Do it, and return when the child has ended, or was killed half a minute later."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    for _ in range(300):
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
