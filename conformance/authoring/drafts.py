"""Cases before they are files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from authoring.states import State
from authoring.stream import Json, Stream, dump
from deltawire.snapshots.header import build_header, file_order
from deltawire_conformance.case import AnyStep, Case, Judge, Materialize, Publish, Put, Role
from deltawire_conformance.neutral import NeutralState

Tree = Mapping[str, bytes]


@dataclass
class Draft:
    """A case, with everything that goes into its folder."""

    area: str
    name: str
    negative: bool
    case: Case
    trees: dict[str, Tree] = field(default_factory=dict)
    """Objects by folder."""
    states: dict[str, NeutralState] = field(default_factory=dict)
    """What goes below ``expected/``."""
    inputs: dict[str, Sequence[State]] = field(default_factory=dict)
    """States to publish, by folder; ``metadata`` is not part of them."""
    files: dict[str, bytes] = field(default_factory=dict)

    def write(self, root: Path) -> None:
        """Write the folder anew."""
        folder = root / self.area / ("invalid" if self.negative else "valid") / self.name
        shutil.rmtree(folder, ignore_errors=True)
        files: dict[str, bytes] = {"case.json": pretty(msgspec.to_builtins(self.case)), **self.files}
        for name, tree in self.trees.items():
            files |= {f"{name}/{key}": data for key, data in tree.items()}
        files |= {f"expected/{name}.json": pretty(msgspec.to_builtins(state)) for name, state in self.states.items()}
        for name, states in self.inputs.items():
            for number, state in enumerate(states):
                files |= {f"{name}/{number}/{path}": data for path, data in input_files(state).items()}
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)


def pretty(value: Any) -> bytes:
    """JSON for people; members that say nothing are left out."""
    return msgspec.json.format(msgspec.json.encode(_said(value)), indent=2) + b"\n"


def _said(value: Any) -> Any:
    if not isinstance(value, dict):
        return [_said(item) for item in value] if isinstance(value, (list, tuple)) else value
    return {name: _said(member) for name, member in value.items()}


def input_files(state: State) -> dict[str, bytes]:
    """A state as ADAPTER.md's ``publish`` takes it."""
    table = state.table()
    data = build_header(file_order(table), None) + b"".join(state.tensors[t.name].data for t in file_order(table))
    made = {"model.safetensors": data, **{f"files/{name}": content for name, content in state.files.items()}}
    if state.aliases:
        made["input.json"] = dump({"aliases": dict(state.aliases)})
    return made


def changed(before: Tree, after: Tree) -> dict[str, bytes]:
    """What is new or different in a tree."""
    return {key: data for key, data in after.items() if before.get(key) != data}


def accepted(area: str, name: str, title: str, requirements: Sequence[str], stream: Stream, **more: Any) -> Draft:
    """A stream that every consumer must read: its newest version, from nothing."""
    newest = len(stream.states) - 1
    return Draft(
        area,
        name,
        negative=False,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="consumer",
            steps=(Put(), Materialize(version="latest", state=str(newest))),
            **more,
        ),
        trees={"store": dict(stream.objects)},
        states={str(newest): stream.states[newest].neutral(newest)},
    )


def refused(
    area: str, name: str, title: str, requirements: Sequence[str], stream: Stream, error: str | Sequence[str],
    *, options: Json | None = None, **more: Any,
) -> Draft:  # fmt: skip
    """A stream that every consumer must refuse from nothing; the target stays empty."""
    codes = (error,) if isinstance(error, str) else tuple(error)
    return Draft(
        area,
        name,
        negative=True,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="consumer",
            steps=(Put(), Materialize(version="latest", error=codes, options=options or {})),
            **more,
        ),
        trees={"store": dict(stream.objects)},
    )


def refused_next(
    area: str, name: str, title: str, requirements: Sequence[str], stream: Stream, error: str | Sequence[str],
    *, grow: Callable[[Stream], object], options: Json | None = None, **more: Any,
) -> Draft:  # fmt: skip
    """A consumer that holds the newest version of a sound stream must refuse what comes next, and hold what it held.

    Args:
        area, name, title, requirements: of the case.
        stream: sound so far.
        error: the code, or those of which one is right.
        grow: adds the faulty part to the stream.
        options: of both calls.
        more: further members of the case.
    """
    codes = (error,) if isinstance(error, str) else tuple(error)
    held = len(stream.states) - 1
    state = stream.states[held]
    before = dict(stream.objects)
    grow(stream)
    chosen = options or {}
    return Draft(
        area,
        name,
        negative=True,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="consumer",
            steps=(
                Put(),
                Materialize(version=held, state=str(held), options=chosen),
                Put(tree="then"),
                Materialize(version="latest", error=codes, options=chosen),
            ),
            **more,
        ),
        trees={"store": before, "then": changed(before, stream.objects)},
        states={str(held): state.neutral(held)},
    )


def published(
    area: str, name: str, title: str, requirements: Sequence[str], states: Sequence[State],
    *, options: Json | None = None, members: Mapping[str, Any] | None = None, judged: Json | None = None, **more: Any,
) -> Draft:  # fmt: skip
    """States that a producer must publish into an empty store, so that the suite reads each of them back.

    Args:
        area, name, title, requirements: of the case.
        states: one version each.
        options: of ``publish``.
        members: what records must say, by key.
        judged: further members of the judge's step.
        more: further members of the case.
    """
    numbers = range(len(states))
    return Draft(
        area,
        name,
        negative=False,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="producer",
            steps=(
                Publish(options=options or {}, versions=tuple(numbers)),
                Judge(
                    states={str(number): str(number) for number in numbers},
                    newest=len(states) - 1,
                    members=dict(members or {}),
                    **(judged or {}),
                ),
            ),
            **more,
        ),
        inputs={"input": states},
        states={str(number): state.neutral(number) for number, state in enumerate(states)},
    )


def worked(
    area: str, name: str, title: str, requirements: Sequence[str], stream: Stream, *calls: AnyStep,
    role: Role = "maintainer", states: Sequence[int] = (), judged: Json | None = None, negative: bool = False,
    source: Stream | None = None, found_in_source: Sequence[str] = (), **more: Any,
) -> Draft:  # fmt: skip
    """A stream that somebody else than a consumer works on, and what must be in the store afterwards.

    Args:
        area, name, title, requirements: of the case.
        stream: what is there at first.
        calls: what is done.
        role: who does it.
        states: versions, of those that the stream has now, that the suite reads back.
        judged: further members of the judge's step.
        negative: whether the calls are refused.
        source: a stream that is there besides, in ``source``.
        found_in_source: codes of findings that the source has.
        more: further members of the draft (``inputs``, ``files``), states by version that the stream has not got yet
            (``expected``), and members of the case.
    """
    beside = {name: more.pop(name, {}) for name in ("inputs", "files", "expected")}
    names = [*map(str, states), *beside["expected"]]
    looks = [Judge(states={name: name for name in names}, **(judged or {}))]
    puts = [Put()] if stream.objects else []
    trees: dict[str, Tree] = {"store": dict(stream.objects)} if stream.objects else {}
    if source is not None:
        puts.append(Put(tree="source", where="source"))
        trees["source"] = dict(source.objects)
        looks.append(Judge(where="source", unchanged=("*",), added=("leases/*",), findings=tuple(found_in_source)))
    return Draft(
        area,
        name,
        negative=negative,
        case=Case(title=title, requirements=tuple(requirements), role=role, steps=(*puts, *calls, *looks), **more),
        trees=trees,
        states={str(v): stream.states[v].neutral(v) for v in states} | beside["expected"],
        inputs=beside["inputs"],
        files=beside["files"],
    )
