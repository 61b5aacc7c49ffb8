"""What a forked child must not take over: connections, and locks that another thread held at that moment."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod


class BeginsAnew(ABC):
    """Something that is as it was made in a forked child. Subclasses call ``__init__`` when ``begin_anew`` can run."""

    def __init__(self) -> None:
        self.begin_anew()
        _ALL.add(self)

    @abstractmethod
    def begin_anew(self) -> None:
        """Hold nothing, not even the lock."""


_ALL: weakref.WeakSet[BeginsAnew] = weakref.WeakSet()


def _begin_anew() -> None:
    for one in _ALL:
        one.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)
