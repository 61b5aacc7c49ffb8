"""What differs between two checkpoints: git diff for weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deltawire.format.tensors import Tensor
from deltawire.inspecting.history import Advance, no_progress
from deltawire.inspecting.tensor_changes import TensorChange, change_of, largest_first
from deltawire.kernels.scan import Room, find_changes
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.patches.checkpoint import Checkpoint, signature
from deltawire.producer.encoding import BOX_ELEMENTS

_ITEM = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retyped:
    """A tensor that both have, with another dtype or shape: its elements cannot be compared."""

    name: str
    old_dtype: str
    old_shape: tuple[int, ...]
    new_dtype: str
    new_shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """A tensor that only one of the two has."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """An auxiliary file that differs."""

    name: str
    how: str
    """``added``, ``removed`` or ``changed``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All differences from one checkpoint to another. The order of tensors and files on disk is none."""

    tensors: int
    """Tensors that both have, alike in dtype and shape."""
    elements: int
    """Their elements."""
    changes: tuple[TensorChange, ...]
    """Largest first."""
    added: tuple[Present, ...] = ()
    removed: tuple[Present, ...] = ()
    retyped: tuple[Retyped, ...] = ()
    files: tuple[FileChange, ...] = ()

    @property
    def changed_elements(self) -> int:
        """Elements whose bits differ, of the tensors that can be compared."""
        return sum(change.changed for change in self.changes)

    @property
    def same(self) -> bool:
        """Whether there is no difference at all."""
        return not (self.changes or self.added or self.removed or self.retyped or self.files)


def compare(a: Path, b: Path, *, limits: Limits = DEFAULT_LIMITS, advance: Advance = no_progress) -> Comparison:
    """Compare two checkpoints bit by bit.

    Args:
        a: the old one: a safetensors file, or a directory of them.
        b: the new one.
        limits: for their headers.
        advance: told of the bytes of ``b`` that were compared.

    Raises:
        InvalidStateError, MalformedShardError: one of them is no checkpoint.
    """
    old, new = Checkpoint(a, limits=limits), Checkpoint(b, limits=limits)
    common, difference = match(old, new)
    room = Room(BOX_ELEMENTS)
    changes = []
    for tensor in common:
        changed = _count(old, new, tensor, room)
        advance(tensor.bytes)
        if changed:
            changes.append(change_of(tensor, changed))
    return Comparison(
        tensors=len(common),
        elements=sum(tensor.elements for tensor in common),
        changes=largest_first(changes),
        added=difference.added,
        removed=difference.removed,
        retyped=difference.retyped,
        files=file_changes(old, new),
    )


@dataclass(frozen=True, slots=True)
class TableDifference:
    """How the tensors of two checkpoints differ, apart from their elements."""

    added: tuple[Present, ...]
    removed: tuple[Present, ...]
    retyped: tuple[Retyped, ...]


def match(old: Checkpoint, new: Checkpoint) -> tuple[list[Tensor], TableDifference]:
    """Tensors that both have alike, and what is not alike."""
    before, after = signature(old.table), signature(new.table)
    common = [tensor for tensor in old.table.tensors if after.get(tensor.name) == before[tensor.name]]
    difference = TableDifference(
        added=tuple(
            Present(name=name, dtype=item[0], shape=item[1]) for name, item in after.items() if name not in before
        ),
        removed=tuple(
            Present(name=name, dtype=item[0], shape=item[1]) for name, item in before.items() if name not in after
        ),
        retyped=tuple(
            _retyped(name, before[name], item) for name, item in after.items() if before.get(name, item) != item
        ),
    )
    return common, difference


def file_changes(old: Checkpoint, new: Checkpoint) -> tuple[FileChange, ...]:
    """Auxiliary files that differ; none if ``new`` is a single file, beside which nothing belongs to it."""
    if new.files is None:
        return ()
    before, after = old.files or {}, new.files
    found = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            how = "added" if name not in before else "removed" if name not in after else "changed"
            found.append(FileChange(name=name, how=how))
    return tuple(found)


def _retyped(name: str, old: _ITEM, new: _ITEM) -> Retyped:
    return Retyped(name=name, old_dtype=old[0], old_shape=old[1], new_dtype=new[0], new_shape=new[1])


def _count(old: Checkpoint, new: Checkpoint, tensor: Tensor, room: Room) -> int:
    before, after = old.source.bits(tensor.name), new.source.bits(tensor.name)
    return sum(
        len(find_changes(before[start : start + BOX_ELEMENTS], after[start : start + BOX_ELEMENTS], room).positions)
        for start in range(0, tensor.elements, BOX_ELEMENTS)
    )
