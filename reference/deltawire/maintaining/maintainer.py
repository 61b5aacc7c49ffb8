"""A maintainer: it makes what readers need to be fast, and collects what nobody needs, pass by pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from deltawire.deadline import Deadline
from deltawire.errors import ConflictError, DeadlineExceededError, DeltawireError, StoreError, StoreUnfitError
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.maintaining.collecting import CollectOptions, Collector
from deltawire.maintaining.report import Collected
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import Trust, as_trust
from deltawire.store.base import Store

if TYPE_CHECKING:
    from deltawire.ed25519 import PublicKeyLike

B = TypeVar("B")
Build = Callable[[Deadline], B]
"""Makes anchors and spans in a stream, and says what it made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass(Generic[B]):
    """What one pass did, or why it did not."""

    built: B | None = None
    """What was made; None without a builder, or if it failed."""
    collected: Collected | None = None
    """What was removed; None if that failed."""
    error: DeltawireError | None = None
    """What went wrong; the next pass tries again."""
    seconds: float = 0.0


class Maintainer(Generic[B]):
    """Maintains one stream, beside any number of producers, readers and other maintainers.

    Args:
        store: URL or store of the stream.
        options: how to collect.
        build: what to do before collecting in each pass: anchors and spans; None for nothing.
        trust: public keys by which the stream must be signed, as for a ``Follower``: the boundary is then moved to no
            snapshot that others have made.
        limits: what to refuse.
        workers: concurrent requests.
        clock: seconds by a clock that never goes back.
        sleep: waits so many seconds; None waits until then, or until ``stop`` is called.
        tell: told, in a sentence, of what takes long.
    """

    def __init__(
        self,
        store: str | PathLike[str] | Store,
        options: CollectOptions | None = None,
        *,
        build: Build[B] | None = None,
        trust: Trust | Sequence[PublicKeyLike] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        workers: int = 8,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        from deltawire.store import open_store  # noqa: PLC0415 - stores are imported when one is opened

        trusted = as_trust(trust)
        opened = store if isinstance(store, Store) else open_store(store)
        self._opened = opened if opened is not store else None
        self._transfer = Transfer(opened, limits=limits, workers=workers)
        self._reader = StreamReader(self._transfer, trusted)
        self._build = build
        self._stop = threading.Event()
        self._sleep = sleep or self._stop.wait
        self._collector = Collector(
            self._reader, options or CollectOptions(), clock=clock, stop=self._stop, sleep=self._sleep, tell=tell
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release threads and connections."""
        self._stop.set()
        self._transfer.close()
        if self._opened is not None:
            self._opened.close()

    def stop(self) -> None:
        """End the pass that is going on early, and begin no other; may be called from anywhere, a signal too."""
        self._stop.set()

    def once(self, *, timeout: float | None = None) -> Pass[B]:
        """One pass: make what is to be made, then collect.

        Raises:
            DeltawireError: what ``build`` or ``Collector.run`` raises; what was not done is left to the next pass.
        """
        deadline = Deadline.after(timeout)
        started = time.perf_counter()
        built = None if self._build is None else self._build(deadline)
        collected = self._collector.run(deadline)
        return Pass(built=built, collected=collected, seconds=time.perf_counter() - started)

    def run(self, *, interval: float, timeout: float | None = None) -> Iterator[Pass[B]]:
        """Pass after pass until stopped. A store that fails is tried again in the next one.

        Args:
            interval: seconds between passes.
            timeout: seconds for one pass.

        Raises:
            DeltawireError: the stream cannot be maintained: it is not there, or not what it should be, or the store is
                unfit.
        """
        while not self._stop.is_set():
            started = time.perf_counter()
            try:
                done = self.once(timeout=timeout)
            except StoreUnfitError:
                raise
            except (StoreError, DeadlineExceededError, ConflictError) as error:
                done = Pass(error=error, seconds=time.perf_counter() - started)
            yield done
            if not self._stop.is_set():
                self._sleep(interval)
