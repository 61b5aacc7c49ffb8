"""The state of one version, rebuilt from the store alone and kept on disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltawire.consumer.follower import Follower
from deltawire.deadline import Deadline
from deltawire.errors import BrokenChainError, VersionNotFoundError
from deltawire.format.dtypes import Bits
from deltawire.format.keys import MAX_VERSION
from deltawire.format.records import RollbackOf
from deltawire.format.tensors import TensorTable
from deltawire.producer.source import Source
from deltawire.reading.stream import Committed, StreamReader
from deltawire.targets.arrays import ArraysTarget


@dataclass(frozen=True, kw_only=True)
class SpooledState:
    """A version's state, verified in full, in a temporary file that has no name."""

    committed: Committed
    table: TensorTable
    bits: list[Bits] = field(repr=False)
    """Flat bits of each tensor by ordinal, mapped from the file."""
    steps: tuple[str, ...]
    """What was taken on the way: ``anchor``, ``snapshot``, ``span`` or ``delta`` each."""


def read_version(reader: StreamReader, number: int, deadline: Deadline) -> Committed:
    """A version's record. Raises VersionNotFoundError, whatever the number."""
    if not 0 <= number <= MAX_VERSION:
        raise VersionNotFoundError(f"there is no version {number}")
    version = reader.version(number, deadline)
    reader.check_retained(number, deadline)
    return version


def spool_version(reader: StreamReader, version: Committed, deadline: Deadline) -> SpooledState:
    """Rebuild a version from the cheapest snapshot and the deltas after it; no copy of the model is in memory.

    Raises:
        PathLostError: nothing leads to it.
        IntegrityError, FormatError: something in the store is not right.
    """
    target = ArraysTarget(spool=True)
    transfer = reader.transfer
    with Follower(transfer.store, target, trust=reader.trust, limits=transfer.limits) as follower:
        update = follower.poll(to=version.record.version, timeout=deadline.remaining())
        follower.verify()
    held = target.held
    assert update is not None  # noqa: S101 - the target held nothing
    assert held is not None  # noqa: S101 - poll succeeded
    if held.committed.digest != version.digest:
        raise BrokenChainError(f"the record of version {version.record.version} was replaced while it was read")
    return SpooledState(
        committed=held.committed,
        table=held.table,
        bits=[target.bits(tensor).flat for tensor in held.table.tensors],
        steps=update.steps,
    )


def read_files(reader: StreamReader, version: Committed, deadline: Deadline) -> dict[str, bytes]:
    """A version's auxiliary files by name, checked. DSC-3"""
    limit = reader.transfer.limits.file_bytes
    return {
        file.name: reader.transfer.read_object(file, max_bytes=limit, deadline=deadline)
        for file in version.record.files
    }


class EarlierState(Source):
    """The state of an earlier version, to be published again."""

    def __init__(self, state: SpooledState) -> None:
        self._state = state
        self.entries = tuple((tensor.name, tensor.dtype.name, tensor.shape) for tensor in state.table.tensors)
        self.aliases = state.table.aliases
        self.rollback_of = RollbackOf(version=state.committed.record.version, digest=state.committed.digest)

    def bits(self, name: str) -> Bits:
        return self._state.bits[self._state.table.by_name[name].ordinal]
