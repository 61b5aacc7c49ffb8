"""Writing the changes of a step into memory at once, or undoing them: the pause (SPEC.md section 11.6, APL-4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltawire.format.tensors import Tensor
    from deltawire.targets.base import Change, TensorBits

_THREADS = min(8, os.cpu_count() or 1)
_WORTH = 1 << 18
"""Elements for which another thread is begun: it takes as long to begin as to write a few thousand."""


def write_changes(changes: Sequence[Change], bits_of: Callable[[Tensor], TensorBits]) -> BaseException | None:
    """Write changes; if writing stops half-way, whatever stopped it, undo them and return what it was. APL-4

    What stops the undoing is raised: then the target is neither the old state nor the new one.
    """
    begun: list[Change] = []
    stopped = False

    def write(some: Sequence[Change]) -> None:
        for change in some:
            if stopped:
                return
            begun.append(change)
            bits_of(change.tensor).scatter(change.where, change.new)

    failure: BaseException | None = None
    shares = _shares(changes, bits_of)
    pool = ThreadPoolExecutor(len(shares) - 1, thread_name_prefix="deltawire-swap") if len(shares) > 1 else None
    try:
        others = [pool.submit(write, share) for share in shares[1:]] if pool is not None else []
        write(shares[0])
        for other in others:
            other.result()
    except BaseException as error:  # noqa: BLE001 - returned
        failure, stopped = error, True
    while pool is not None:  # whatever interrupts the waiting: the others must be done before anything is undone
        try:
            pool.shutdown(wait=True, cancel_futures=True)
            pool = None
        except BaseException as error:  # noqa: BLE001 - returned
            failure, stopped = failure or error, True
    if failure is not None:
        for change in begun:
            bits_of(change.tensor).scatter(change.where, change.old)
    return failure


def _shares(changes: Sequence[Change], bits_of: Callable[[Tensor], TensorBits]) -> list[Sequence[Change]]:
    """Changes by the thread that writes them, the caller's first; one share if they are few or on a device."""
    total = sum(change.new.size for change in changes)
    threads = min(_THREADS, len(changes), 1 + total // _WORTH)
    if threads < 2 or not all(bits_of(change.tensor).concurrent for change in changes):
        return [changes]
    shares: list[list[Change]] = [[] for _ in range(threads)]
    written = 0
    for change in changes:  # neighbours stay together
        shares[written * threads // total].append(change)
        written += change.new.size
    return [share for share in shares if share]
