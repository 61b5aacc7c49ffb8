"""Test cases as files: ``<area>/{valid,invalid}/<id>/case.json`` with the trees and states that it names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from deltawire_conformance.neutral import NeutralState

Role = Literal["consumer", "producer", "maintainer"]
Level = Literal["must", "should"]
Kind = Literal["disk", "s3", "simulator", "hub"]
"""Kinds of stores."""
Folder = Annotated[str, Meta(pattern="^[a-z0-9_-]+(/[a-z0-9_-]+)*$")]
"""A folder of the case."""
Options = dict[str, Any]


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="do"):
    """One thing that is done in a case, in order."""


class Put(Step, frozen=True, kw_only=True, tag="put"):
    """Lay a tree over the store: what is there under the same keys is replaced."""

    tree: Folder = "store"
    where: Literal["store", "source"] = "store"


class Delete(Step, frozen=True, kw_only=True, tag="delete"):
    """Remove objects behind the implementation's back."""

    keys: tuple[str, ...]


class Pad(Step, frozen=True, kw_only=True, tag="pad"):
    """Append spaces to an object until it has so many bytes: for objects too large to be kept as files."""

    key: str
    bytes: int


class Call(Step, frozen=True, kw_only=True):
    """A call of the adapter, which is done or refused."""

    options: Options = {}
    error: tuple[str, ...] = ()
    """Codes of which the refusal must have one; empty if the call must be done."""
    or_error: tuple[str, ...] = ()
    """Codes with which it may be refused as well, where SPEC.md leaves open whether it is."""


class Materialize(Call, frozen=True, kw_only=True, tag="materialize"):
    """Bring the target to a version; after a refusal it must hold what it held."""

    version: int | Literal["latest"] = "latest"
    state: str | None = None
    """Name of a state below ``expected/`` that it must hold then; after a refusal too, if given (FOL-3)."""


class Follow(Call, frozen=True, kw_only=True, tag="follow"):
    """Follow until a version is held, while more is put into the store."""

    version: int
    state: str | None = None
    meanwhile: tuple[Folder, ...] = ()
    """Trees to lay over the store, each after a further state was shown."""
    pinned: dict[str, tuple[int, ...]] = {}
    """By version: versions that pins must cover when it was shown and more is not there yet (PIN-3)."""
    renewed_ms: int | None = None
    """Milliseconds after the first state within which a pin must be written again, before more is laid (PIN-5)."""


class Publish(Call, frozen=True, kw_only=True, tag="publish"):
    """Publish the states of a folder of inputs."""

    input: Folder = "input"
    versions: tuple[int, ...] = ()
    """Versions that it must report as committed, also if it is refused later."""
    paused: tuple[Put | Delete, ...] = ()
    """What another writer does while it waits (option ``pause_after``)."""


class Lease(Call, frozen=True, kw_only=True, tag="lease"):
    """Acquire the lease, hold it for a while, release it."""

    holder: str
    epoch: int | None = None
    above: int | None = None
    """Its epoch must be above this one."""
    hold_ms: int = 0
    meanwhile: Folder | None = None
    """Tree to lay over the store when it is held."""
    held: dict[str, Any] = {}
    """Members that the lease must have while it is held."""
    during: tuple[Put | Delete | Publish | Lease | Judge, ...] = ()
    """What is done while it is held."""


class Rollback(Call, frozen=True, kw_only=True, tag="rollback"):
    """Publish an earlier version's state again."""

    version: int
    expect_version: int | None = None


class Fork(Call, frozen=True, kw_only=True, tag="fork"):
    """Fork a version of the stream in ``source``."""

    version: int


class Build(Call, frozen=True, kw_only=True, tag="build"):
    """Add anchors, spans or both; what it says that it added must be what is new."""

    least: int = 0
    """How many records it must add at least."""


class Collect(Call, frozen=True, kw_only=True, tag="collect"):
    """Move the boundary and collect."""

    boundary: int | None = None


class Race(Step, frozen=True, kw_only=True, tag="race"):
    """Calls at the same time, each of which may be done or refused with one of its codes."""

    steps: tuple[Publish | Lease | Build | Collect, ...]
    done: tuple[int, int] = (1, 1)
    """Least and most calls that must be done."""


class Judge(Step, frozen=True, kw_only=True, tag="judge"):
    """Look at what is in the store: with every check of a stream, and at what is asked for."""

    where: Literal["store", "source"] = "store"
    states: dict[str, str] = {}
    """By version: name of the state below ``expected/`` that the reference reads there."""
    newest: int | None = None
    present: tuple[str, ...] = ()
    """Patterns of keys (with ``*``) of which there is an object."""
    absent: tuple[str, ...] = ()
    members: dict[str, Any] = field(default_factory=dict)
    """By key, or pattern of keys: members that a record there has, among others."""
    lacking: dict[str, tuple[str, ...]] = {}
    """By key: members that the record must not have; ``a.b`` is the member ``b`` of its member ``a``."""
    unchanged: tuple[str, ...] = ()
    """Patterns of keys whose objects are what the last ``put`` made them."""
    added: tuple[str, ...] | None = None
    """Patterns of the only keys that may be there though no ``put`` laid them; None for any."""
    tidy: bool = False
    """Whether every object below ``data/`` must be named by some record."""
    pinned: tuple[int, ...] = ()
    """Versions that a pin covers which is not released."""
    unpinned: bool = False
    """Whether no pin may be there that is not released, those excepted that a ``put`` laid."""
    findings: tuple[str, ...] = ()
    """Codes of findings that are expected; empty for a sound stream."""
    trust: tuple[str, ...] = ()
    """Public keys by which the stream must be signed."""
    codecs: tuple[str, ...] = ()
    """Codecs that may occur; empty for any."""


class Requests(Step, frozen=True, kw_only=True, tag="requests"):
    """Look at what was asked of the simulator since the last such step, or since the beginning."""

    rules: tuple[str, ...]


class Calm(Step, frozen=True, kw_only=True, tag="calm"):
    """From here on the simulator does nothing wrong."""


AnyStep = (
    Put | Delete | Pad | Materialize | Follow | Publish | Lease | Rollback | Fork | Build | Collect | Race | Judge
    | Requests | Calm
)  # fmt: skip


class Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the simulator does to some requests."""

    method: Literal["GET", "PUT", "POST", "DELETE", "HEAD"]
    key: str
    """Pattern of keys, with ``*``."""
    action: Literal[
        "lose_answer", "lose_request", "do_and_refuse", "refuse", "cut_body", "delay", "put", "ignore_condition"
    ]
    """Do it and drop the connection; drop the connection; do it and answer with ``status``; answer with ``status`` and
    do nothing; end the body early; wait ``seconds`` first; lay ``tree`` over the store first, then go on; write
    whatever the condition says. Of several faults of one request all happen, those that wait or put first."""
    after: str | None = None
    """Sleep until an object that matches this pattern was put, or an attempt was made."""
    skip: int = 0
    """Let so many pass first."""
    times: int = 1
    status: int = 503
    seconds: float = 0.0
    tree: Folder | None = None


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One case; see ``conformance/schemas/case.json``."""

    title: Annotated[str, Meta(min_length=10, max_length=120)]
    requirements: Annotated[tuple[str, ...], Meta(min_length=1)]
    level: Level = "must"
    role: Role
    features: tuple[str, ...] = ()
    """Features of the adapter without which it is not counted."""
    since: str = "0.1"
    stores: tuple[Kind, ...] = ("disk", "s3", "simulator", "hub")
    arbitration: Literal["needed", "lacking"] | None = None
    """Whether it needs a store that arbitrates between writers (STO-3, STO-4), or one that does not."""
    faults: tuple[Fault, ...] = ()
    steps: Annotated[tuple[AnyStep, ...], Meta(min_length=1)]
    note: str | None = None
    """Why it is as it is, where the title does not say it."""


class CaseFolder:
    """A case and its folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.area = path.parent.parent.name
        self.negative = path.parent.name == "invalid"
        self.id = f"{self.area}/{path.name}"

    @cached_property
    def case(self) -> Case:
        """``case.json``, checked.

        Raises:
            msgspec.ValidationError: it is not as ``Case`` says.
        """
        return msgspec.json.decode((self.path / "case.json").read_bytes(), type=Case)

    def state(self, name: str) -> NeutralState:
        """A state below ``expected/``."""
        return msgspec.json.decode((self.path / "expected" / f"{name}.json").read_bytes(), type=NeutralState)

    def tree(self, name: str) -> dict[str, bytes]:
        """Objects of a tree by key."""
        root = self.path / name
        return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


def find_cases(root: Path) -> Iterator[CaseFolder]:
    """All cases below a folder, in the order of their ids."""
    yield from sorted((CaseFolder(file.parent) for file in root.glob("*/*/*/case.json")), key=lambda case: case.id)
