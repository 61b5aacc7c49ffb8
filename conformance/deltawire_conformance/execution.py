"""Running one case: step after step, each with what was sent, what came back and what was wrong with it."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import singledispatchmethod
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from deltawire.errors import ObjectNotFoundError
from deltawire.format.keys import version_key
from deltawire.store import Store
from deltawire_conformance import case as cases
from deltawire_conformance.adapter import Adapter
from deltawire_conformance.answers import Answer
from deltawire_conformance.calls import Call
from deltawire_conformance.case import CaseFolder
from deltawire_conformance.judging import judge, live_pins, unpinned
from deltawire_conformance.neutral import NOTHING, NeutralState, differences
from deltawire_conformance.places import Spot, lay

Status = Literal["pass", "fail", "error"]
_WAIT = 0.02


class StepLog(Struct, kw_only=True):
    """What happened in a step."""

    step: dict[str, Any]
    arguments: tuple[str, ...] = ()
    status: int | None = None
    output: list[dict[str, Any]] = []
    stderr: str = ""
    seconds: float = 0.0
    problems: list[str] = []
    trouble: str | None = None


class CaseRun:
    """One run of one case against one adapter in one place.

    Args:
        case: what to do.
        adapter: with what.
        spot: where; empty.
        folder: for targets.
        seconds: what a call may take.
    """

    def __init__(self, case: CaseFolder, adapter: Adapter, spot: Spot, folder: Path, *, seconds: float) -> None:
        self._case = case
        self._adapter = adapter
        self._spot = spot
        self._target = str(folder / "target")
        self._seconds = seconds
        self._laid: dict[str, bytes] = {}
        self._laid_in_source: dict[str, bytes] = {}
        self._held = NOTHING
        self._files = "files" in adapter.description.features
        self.logs: list[StepLog] = []

    def run(self) -> Status:
        """Do the steps until one is not as it must be."""
        for step in self._case.case.steps:
            log = StepLog(step=msgspec.to_builtins(step))
            self.logs.append(log)
            log.problems.extend(self._do(step, log))
            if log.trouble is not None:
                return "error"
            if log.problems:
                return "fail"
        return "pass"

    @singledispatchmethod
    def _do(self, step: Any, log: StepLog) -> Iterator[str]:
        raise NotImplementedError(type(step))

    @_do.register
    def _put(self, step: cases.Put, log: StepLog) -> Iterator[str]:
        self._lay(step.tree, self._spot.stores[step.where])
        yield from ()

    @_do.register
    def _delete(self, step: cases.Delete, log: StepLog) -> Iterator[str]:
        for key in step.keys:
            self._spot.store.delete(key)
        yield from ()

    @_do.register
    def _pad(self, step: cases.Pad, log: StepLog) -> Iterator[str]:
        data = self._spot.store.get(step.key, max_bytes=step.bytes).data
        self._spot.store.put(step.key, data.ljust(step.bytes), mode="overwrite")
        yield from ()

    @_do.register
    def _materialize(self, step: cases.Materialize, log: StepLog) -> Iterator[str]:
        before = self._held
        url = self._spot.urls["store"]
        answer = self._call(log, "materialize", url, self._target, str(step.version), _options(step))
        yield from refusal_problems(answer, step.error)
        if answer.refusal is None:
            yield from self._state(answer.result, step.state)
            return
        # A refusal changes nothing, whatever was refused. ERR-2
        shown = self._call(None, "show", self._target)
        if shown.trouble or shown.refusal:
            yield f"show: {shown.trouble or shown.refusal}"
            return
        held = self._neutral(shown.result)
        expected = before if step.state is None else self._case.state(step.state)
        yield from (f"after the refusal, {line}" for line in differences(held, expected, files=self._files))
        self._held = held

    @_do.register
    def _follow(self, step: cases.Follow, log: StepLog) -> Iterator[str]:
        waiting = list(step.meanwhile)

        pins: list[str] = []
        first = True

        def shown(line: dict[str, Any]) -> None:
            nonlocal first
            covered = step.pinned.get(str(line.get("version")), ())
            pins.extend(f"at version {line['version']}: {lack}" for lack in unpinned(self._spot.store, covered))
            if first and step.renewed_ms is not None:
                pins.extend(self._renewal(step.renewed_ms))
            first = False
            if waiting:
                self._lay(waiting.pop(0), self._spot.store, watched=True)

        url = self._spot.urls["store"]
        running = self._adapter.start("follow", url, self._target, str(step.version), _options(step), on_line=shown)
        answer = self._note(log, running.finish(self._seconds))
        yield from refusal_problems(answer, step.error)
        yield from pins
        if answer.trouble:
            return
        states = [line for line in answer.output if "version" in line]
        numbers = [line["version"] for line in states]
        if numbers != sorted(set(numbers)):
            yield f"versions were shown in the order {numbers}"
        if answer.refusal is None:
            yield from self._state(answer.result, step.state)

    def _renewal(self, milliseconds: int) -> Iterator[str]:
        before = live_pins(self._spot.store)
        give_up = time.monotonic() + milliseconds / 1000
        while time.monotonic() < give_up:
            time.sleep(_WAIT)
            if live_pins(self._spot.store) != before:
                return
        yield f"no pin was written for {milliseconds} ms"

    @_do.register
    def _publish(self, step: cases.Publish, log: StepLog) -> Iterator[str]:
        if step.paused:
            answer = self._note(log, self._interrupted(step))
            if answer.trouble is None and not any("paused" in line for line in answer.output):
                yield "it does not say that it waits"
        else:
            answer = self._call(log, *self._publish_arguments(step))
        yield from refusal_problems(answer, step.error)
        if answer.trouble is None:
            yield from _committed(answer, step.versions)

    def _interrupted(self, step: cases.Publish) -> Answer:
        """Publish, and let another writer come while the implementation waits."""
        waits = threading.Event()

        def shown(line: dict[str, Any]) -> None:
            if "paused" in line:
                waits.set()

        running = self._adapter.start(*self._publish_arguments(step), on_line=shown)
        if self._await(waits, running):
            for inner in step.paused:
                list(self._do(inner, StepLog(step=msgspec.to_builtins(inner))))  # which finds nothing wrong
        return running.finish(self._seconds)

    def _await(self, said: threading.Event, running: Call) -> bool:
        """Wait until a call has said something, has ended, or has had its time."""
        give_up = time.monotonic() + self._seconds
        while not said.is_set() and not running.ended and time.monotonic() < give_up:
            time.sleep(_WAIT)
        return said.is_set()

    @_do.register
    def _lease(self, step: cases.Lease, log: StepLog) -> Iterator[str]:
        answer, held = self._hold(step, log)
        self._note(log, answer)
        yield from refusal_problems(answer, step.error)
        yield from held
        if answer.trouble is None and answer.output and "epoch" in answer.output[0]:
            found = answer.output[0]["epoch"]
            if step.epoch is not None and found != step.epoch:
                yield f"the lease was acquired with the epoch {found}, expected {step.epoch}"
            if step.above is not None and found <= step.above:
                yield f"the lease was acquired with the epoch {found}, which is not above {step.above}"

    def _hold(self, step: cases.Lease, log: StepLog) -> tuple[Answer, list[str]]:
        """Hold the lease for a while; what came back, and what was wrong meanwhile."""
        acquired = threading.Event()

        def shown(line: dict[str, Any]) -> None:
            if "epoch" in line:
                acquired.set()

        url = self._spot.urls["store"]
        running = self._adapter.start("lease", url, step.holder, _options(step), on_line=shown)
        held: list[str] = []
        if self._await(acquired, running) and not running.ended:
            held = list(self._while_held(step, log))
            time.sleep(step.hold_ms / 1000)
        running.end_input()
        return running.finish(self._seconds), held

    def _while_held(self, step: cases.Lease, log: StepLog) -> Iterator[str]:
        record = json.loads(self._spot.store.get("leases/writer.json", max_bytes=1 << 20).data) if step.held else {}
        for name, value in step.held.items():
            if record.get(name) != value:
                yield f"while it was held the lease had {name} {record.get(name)!r}, expected {value!r}"
        if step.meanwhile is not None:
            self._lay(step.meanwhile, self._spot.store, watched=True)
        for inner in step.during:
            inside = StepLog(step=msgspec.to_builtins(inner))
            self.logs.insert(-1, inside)
            inside.problems.extend(self._do(inner, inside))
            yield from inside.problems
            if inside.trouble is not None:
                yield inside.trouble

    @_do.register
    def _rollback(self, step: cases.Rollback, log: StepLog) -> Iterator[str]:
        answer = self._call(log, "rollback", self._spot.urls["store"], str(step.version), self._files_option(step))
        yield from refusal_problems(answer, step.error)
        if answer.trouble is None and answer.refusal is None and step.expect_version is not None:
            yield from _committed(answer, (step.expect_version,))

    @_do.register
    def _fork(self, step: cases.Fork, log: StepLog) -> Iterator[str]:
        urls = self._spot.urls
        options = self._files_option(step)
        answer = self._call(log, "fork", urls["source"], str(step.version), urls["store"], options)
        yield from refusal_problems(answer, step.error)

    @_do.register
    def _build(self, step: cases.Build, log: StepLog) -> Iterator[str]:
        before = _beside(self._spot.store)
        answer = self._call(log, "build", self._spot.urls["store"], self._files_option(step))
        yield from refusal_problems(answer, step.error, step.or_error)
        if answer.trouble is not None or answer.refusal is not None:
            return
        made, said = _beside(self._spot.store) - before, _said_built(answer.result)
        if made != said:
            yield f"it added {sorted(made)}, but says that it added {sorted(said)}"
        if len(made) < step.least:
            yield f"it added {len(made)} anchors and spans, expected {step.least} at least"

    @_do.register
    def _collect(self, step: cases.Collect, log: StepLog) -> Iterator[str]:
        answer = self._call(log, "collect", self._spot.urls["store"], _options(step))
        yield from refusal_problems(answer, step.error, step.or_error)
        if answer.refusal is None and step.boundary is not None and answer.result.get("boundary") != step.boundary:
            yield f"the boundary is {answer.result.get('boundary')}, expected {step.boundary}"

    @_do.register
    def _race(self, step: cases.Race, log: StepLog) -> Iterator[str]:
        def one(call: cases.Call) -> Answer:
            if isinstance(call, cases.Lease):
                return self._hold(call, log)[0]
            return self._adapter.call(*self._race_arguments(call))

        with ThreadPoolExecutor(len(step.steps)) as pool:
            answers = list(pool.map(one, step.steps))
        log.output = [{"arguments": answer.arguments, "output": answer.output} for answer in answers]
        log.stderr = "\n".join(answer.stderr for answer in answers)[-8000:]
        log.trouble = next((answer.trouble for answer in answers if answer.trouble), None)
        done = sum(answer.status == 0 for answer in answers)
        least, most = step.done
        if not least <= done <= most:
            yield f"{done} calls were done, expected {least} to {most}"
        for call, answer in zip(step.steps, answers, strict=True):
            if answer.refusal is not None and answer.refusal not in call.error:
                yield f"refused with {answer.refusal}, expected one of {', '.join(call.error)}"
        lines = [line for answer in answers for line in answer.output]
        for name, what in (("version", "two producers say that they committed the same version"),
                           ("epoch", "two holders have the same epoch")):  # fmt: skip
            found = sorted(line[name] for line in lines if name in line)
            if len(set(found)) != len(found):
                yield f"{what}: {found}"
        for line in lines:
            if "version" in line:
                yield from self._is_there(line)

    def _is_there(self, line: dict[str, Any]) -> Iterator[str]:
        """Whether a version that was reported as committed is the one in the store."""
        try:
            record = json.loads(self._spot.store.get(version_key(line["version"]), max_bytes=1 << 24).data)
        except ObjectNotFoundError:
            record = {}
        if record.get("state_digest") != line.get("state_digest"):
            yield f"version {line['version']} was reported as committed, but is another one or missing"

    @_do.register
    def _judge(self, step: cases.Judge, log: StepLog) -> Iterator[str]:
        laid = {**self._laid, **self._spot.laid} if step.where == "store" else self._laid_in_source
        yield from judge(step, self._case, self._spot.stores[step.where], laid)

    @_do.register
    def _requests(self, step: cases.Requests, log: StepLog) -> Iterator[str]:
        yield from self._spot.broken_rules(step.rules)

    @_do.register
    def _calm(self, step: cases.Calm, log: StepLog) -> Iterator[str]:
        self._spot.calm()
        yield from ()

    def _publish_arguments(self, step: cases.Publish) -> tuple[str, ...]:
        return "publish", self._spot.urls["store"], str(self._case.path / step.input), self._files_option(step)

    def _files_option(self, step: cases.Call) -> str:
        # Keys and other files that options name lie in the case's folder.
        options = dict(step.options)
        if "signing_key" in options:
            options["signing_key"] = str(self._case.path / options["signing_key"])
        return json.dumps(options)

    def _race_arguments(self, call: cases.Call) -> tuple[str, ...]:
        url = self._spot.urls["store"]
        if isinstance(call, cases.Publish):
            return self._publish_arguments(call)
        return "collect" if isinstance(call, cases.Collect) else "build", url, _options(call)

    def _call(self, log: StepLog | None, *arguments: str) -> Answer:
        answer = self._adapter.call(*arguments)
        return answer if log is None else self._note(log, answer)

    @staticmethod
    def _note(log: StepLog, answer: Answer) -> Answer:
        log.arguments, log.status, log.output = answer.arguments, answer.status, list(answer.output)
        log.stderr, log.seconds, log.trouble = answer.stderr, answer.seconds, answer.trouble
        return answer

    def _lay(self, name: str, store: Store, *, watched: bool = False) -> None:
        tree = self._case.tree(name)
        lay(store, tree, watched=watched)
        (self._laid if store is self._spot.store else self._laid_in_source).update(tree)

    def _state(self, result: dict[str, Any], expected: str | None) -> Iterator[str]:
        self._held = self._neutral(result)
        if expected is not None:
            yield from differences(self._held, self._case.state(expected), files=self._files)

    @staticmethod
    def _neutral(result: dict[str, Any]) -> NeutralState:
        try:
            return msgspec.convert(result, NeutralState)
        except msgspec.ValidationError:
            return NOTHING


def _options(step: cases.Call) -> str:
    return json.dumps(step.options)


def _beside(store: Store) -> set[str]:
    """Keys of the records of anchors and spans."""
    return {info.key for prefix in ("anchors/", "spans/") for info in store.list(prefix)}


def _said_built(result: dict[str, Any]) -> set[str]:
    """The same of what ``build`` says that it added."""
    anchors = {f"anchors/{version:020d}.json" for version in result.get("anchors", ())}
    return anchors | {f"spans/{target:020d}-{base:020d}.json" for base, target in result.get("spans", ())}


def refusal_problems(answer: Answer, codes: tuple[str, ...], allowed: tuple[str, ...] = ()) -> Iterator[str]:
    """Hold an answer against what was expected: done, or refused with one of some codes.

    Args:
        answer: what came back.
        codes: of which it must be refused with one; empty if it must be done.
        allowed: with which it may be refused as well.
    """
    if answer.trouble is not None:
        return
    if answer.refusal is None and codes:
        yield f"it was done, but must be refused with {' or '.join(codes)}"
    elif answer.refusal is not None and answer.refusal not in (*codes, *allowed):
        expected = f"refused with {' or '.join(codes)}" if codes else "done"
        yield f"it was refused with {answer.refusal}, but must be {expected}"


def _committed(answer: Answer, versions: tuple[int, ...]) -> Iterator[str]:
    found = tuple(line["version"] for line in answer.output if "version" in line)
    if found != versions:
        yield f"it reports the versions {list(found)} as committed, expected {list(versions)}"


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for the targets of a case."""
    return tempfile.TemporaryDirectory(prefix="deltawire-conformance-")
