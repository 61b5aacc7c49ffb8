"""Processes whose threads run one at a time, on clocks of their own, as far as a test lets them.

Every process is a thread of this one. It runs until it comes to a *pause*: before and after each call of its store,
where it sleeps, and where it waits for another of its threads. Then it is the test's turn. So a test decides in which
order everything happens, and the same decisions give the same run.

What runs in a process must take its threads, locks, clocks, pauses and identities from here: ``installed`` gives the
modules of the code under test the stand-ins of this module in place of ``threading``, ``time`` and ``uuid``.
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import FunctionType, SimpleNamespace
from typing import Any, Self

PATIENCE = 60.0
"""Seconds of real time after which a thread that does not pause is taken for a deadlock."""


class Killed(BaseException):
    """The process does not exist any more; its threads end."""


def _closed_gate() -> threading.Lock:
    """Whoever acquires it waits until another thread releases it; several times faster than a semaphore."""
    gate = threading.Lock()
    gate.acquire()
    return gate


class Simulation:
    """What happens when. Time is that of the store; seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.processes: list[Process] = []
        self.failure: BaseException | None = None
        """What went wrong in a thread; every further step raises it."""
        self.identities = 0
        self._back = _closed_gate()

    def resume(self, task: Task) -> None:
        """Let one thread run to its next pause."""
        self.switch(task)
        self.check()

    def switch(self, task: Task) -> None:
        task.go()
        assert self._back.acquire(timeout=PATIENCE), f"{task.name} does not pause"
        if task.done:
            task.process.tasks.remove(task)

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def advance(self, seconds: float) -> None:
        """Let time pass. Threads that woke beside the work of a process which is not stalled go on meanwhile."""
        end = self.now + seconds
        while True:
            due = [
                (task.wake, place, task)
                for place, process in enumerate(self.processes)
                if not process.stalled
                for task in process.tasks[1:]
                if task.wake is not None and task.wake <= end
            ]
            if not due:
                break
            wake, _, task = min(due, key=lambda entry: entry[:2])
            self.now = max(self.now, wake)
            while not task.done and task.runnable:
                self.resume(task)
        self.now = end

    def paused(self) -> None:
        self._back.release()

    def close(self) -> None:
        """End all threads."""
        for process in self.processes:
            process.kill()


class Process:
    """A process: a clock that nobody else has, and threads that end together."""

    def __init__(self, simulation: Simulation, name: str, *, rate: float = 1.0) -> None:
        self.simulation = simulation
        self.name = name
        self.tasks: list[Task] = []
        """The first one is the main thread, while there is one."""
        self.dead = False
        self.stalled = False
        """Its threads do not wake by themselves."""
        self._rate = rate
        self._offset = 1000.0 * (len(simulation.processes) + 1)
        simulation.processes.append(self)

    @property
    def clock(self) -> float:
        """What its monotonic clock shows."""
        return self._offset + self._rate * self.simulation.now

    def until(self, seconds: float) -> float:
        """When so many seconds will have passed on its clock."""
        return self.simulation.now + seconds / self._rate

    def start(self, work: Callable[[], None], *, name: str) -> Task:
        task = Task(self, work, f"{self.name}: {name}")
        self.tasks.append(task)
        return task

    @property
    def runnable(self) -> list[Task]:
        """Threads that wait for nothing but their turn."""
        return [task for task in self.tasks if task.runnable]

    def step(self, which: int = 0) -> None:
        """Let one of its threads run to its next pause, the time passing in which all of them sleep."""
        runnable = self.runnable
        while not runnable:
            wakes = [task.wake for task in self.tasks if task.wake is not None]
            if not wakes:
                return
            self.simulation.advance(max(min(wakes) - self.simulation.now, 0.0))
            runnable = self.runnable
        self.simulation.resume(runnable[which % len(runnable)])

    def kill(self) -> None:
        """End it where it is: no thread of it makes another call."""
        self.dead = True
        while self.tasks:
            self.simulation.switch(self.tasks[-1])
        self.dead = False


class Task:
    """One thread of a process."""

    def __init__(self, process: Process, work: Callable[[], None], name: str) -> None:
        self.process = process
        self.name = name
        self.where = "beginning"
        self.done = False
        self.wake: float | None = process.simulation.now
        """When it goes on by itself."""
        self._ready: Callable[[], bool] | None = None
        self._work = work
        self._go = _closed_gate()
        self._thread: threading.Thread | None = None

    @property
    def runnable(self) -> bool:
        if self._ready is None and self.wake is None:
            return True
        awake = self.wake is not None and self.wake <= self.process.simulation.now
        return awake or (self._ready is not None and self._ready())

    def go(self) -> None:
        if self._thread is None:
            self.wake = None
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        else:
            self._go.release()

    def _run(self) -> None:
        _LOCAL.task = self
        try:
            if not self.process.dead:
                self._work()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - shown by the next step
            self.process.simulation.failure = self.process.simulation.failure or error
        finally:
            self.done = True
            self.process.simulation.paused()

    def pause(self, where: str, *, ready: Callable[[], bool] | None = None, wake: float | None = None) -> None:
        """Let the test go on, until it says so; it does when this is ``ready``, or at the time of ``wake``."""
        if self.process.dead:
            raise Killed
        self.where, self._ready, self.wake = where, ready, wake
        self.process.simulation.paused()
        self._go.acquire()
        self._ready = self.wake = None
        if self.process.dead:
            raise Killed

    def wait(self, where: str, ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Pause until ``ready``, or for so many seconds; whether it was ready."""
        end = None if timeout is None else self.process.until(timeout)
        while not ready() and (end is None or self.process.simulation.now < end):
            self.pause(where, ready=ready, wake=end)
        return ready()


_LOCAL = threading.local()


def current() -> Task:
    """The thread that is running."""
    task: Task | None = getattr(_LOCAL, "task", None)
    assert task is not None, "this runs in no process"
    return task


@contextmanager
def clock_of(process: Process) -> Iterator[None]:
    """For looking into a process from outside: clocks show its time."""
    before = getattr(_LOCAL, "looked_into", None)
    _LOCAL.looked_into = process
    try:
        yield
    finally:
        _LOCAL.looked_into = before


# Stand-ins


class _Lock:
    def __init__(self) -> None:
        self._owner: Task | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True) -> bool:
        task = current()
        if self._owner is not None and not blocking:
            return False
        task.wait("a lock", lambda: self._owner is None)
        self._owner = task
        return True

    def release(self) -> None:
        self._owner = None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class _RLock(_Lock):
    def acquire(self, blocking: bool = True) -> bool:
        if self._owner is not current() and not super().acquire(blocking):
            return False
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            super().release()


class _Event:
    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def wait(self, timeout: float | None = None) -> bool:
        return current().wait("an event", self.is_set, timeout)


class _Thread:
    """A further thread of the process in which it is made."""

    def __init__(
        self,
        *,
        target: Callable[..., None],
        args: tuple[Any, ...] = (),
        name: str = "thread",
        daemon: bool | None = None,
    ) -> None:
        self._work = lambda: target(*args)
        self.name = name
        self.ident: int | None = None
        self._task: Task | None = None

    def start(self) -> None:
        self._task = current().process.start(self._work, name=self.name)
        self.ident = id(self._task)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done

    def join(self, timeout: float | None = None) -> None:
        current().wait("a thread", lambda: not self.is_alive(), timeout)


class _InlinePool:
    """Does at once, in the thread that asks, what a pool would do in others."""

    def __init__(self, workers: int, thread_name_prefix: str = "") -> None:
        pass

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args))
        except Killed:
            raise
        except BaseException as error:  # noqa: BLE001 - shown to whoever asks for the result
            future.set_exception(error)
        return future

    def shutdown(self, *, wait: bool = True, cancel_futures: bool = False) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _monotonic() -> float:
    process: Process = getattr(_LOCAL, "looked_into", None) or current().process
    return process.clock


def _sleep(seconds: float) -> None:
    task = current()
    task.pause("sleep", wake=task.process.until(seconds))


def _store_time() -> float:
    task: Task | None = getattr(_LOCAL, "task", None)
    return 0.0 if task is None else task.process.simulation.now


def _identity() -> uuid.UUID:
    """The same ones in every run, so that keys sort in the same order."""
    simulation = current().process.simulation
    simulation.identities += 1
    return uuid.uuid5(uuid.NAMESPACE_OID, str(simulation.identities))


_MODULES: dict[object, object] = {
    threading: SimpleNamespace(Lock=_Lock, RLock=_RLock, Event=_Event, Thread=_Thread, local=threading.local),
    time: SimpleNamespace(monotonic=_monotonic, perf_counter=_monotonic, sleep=_sleep, time=_store_time),
    uuid: SimpleNamespace(uuid4=_identity, UUID=uuid.UUID),
    ThreadPoolExecutor: _InlinePool,
}
_DEFAULTS: dict[object, object] = {time.monotonic: _monotonic, time.sleep: _sleep}


@contextmanager
def installed(package: str) -> Iterator[None]:
    """Give all modules of a package that are loaded the stand-ins, for as long as the block lasts."""
    undo: list[Callable[[], None]] = []

    def replace(owner: Any, name: str, value: object) -> None:
        before = getattr(owner, name)
        setattr(owner, name, value)
        undo.append(lambda: setattr(owner, name, before))

    for module_name in sorted(sys.modules):
        module = sys.modules[module_name]
        if module_name.split(".")[0] != package or module is None:
            continue
        for name, value in [*vars(module).items()]:
            with suppress(TypeError):  # not hashable
                if value in _MODULES:
                    replace(module, name, _MODULES[value])
        for function in _functions(module):
            defaults = function.__kwdefaults__ or {}
            if any(value in _DEFAULTS for value in defaults.values() if callable(value)):
                new = {
                    name: _DEFAULTS.get(value, value) if callable(value) else value for name, value in defaults.items()
                }
                replace(function, "__kwdefaults__", new)
    try:
        yield
    finally:
        for step in reversed(undo):
            step()


def _functions(module: object) -> Iterator[FunctionType]:
    own = getattr(module, "__name__", None)
    for value in [*vars(module).values()]:
        if inspect.isfunction(value) and value.__module__ == own:
            yield value
        elif inspect.isclass(value) and value.__module__ == own:
            yield from (member for member in vars(value).values() if inspect.isfunction(member))
