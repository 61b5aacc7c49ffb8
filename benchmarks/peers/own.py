"""Deltawire itself: whole parts as they lie in the store, with the record that describes them in front.

Named for the codec that a publisher writes little changed boxes with: ``gap`` unless asked for another; where much
changed, it writes a box as ``dense`` if that is smaller. A follower's checks are part of applying: hashes of what was
fetched, digests of the old bits and of the new ones, totals.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from benchmarks.peers.base import Peer, State
from deltawire.codecs.base import BoxChange, Codec, Stream
from deltawire.codecs.registry import CODECS
from deltawire.consumer.staging import Totals, check_disjoint, check_totals, stage_row
from deltawire.format.records import Delta, Part
from deltawire.format.tensors import Tensor, TensorTable, build_table
from deltawire.kernels.scan import Room
from deltawire.limits import DEFAULT_LIMITS
from deltawire.parts.reader import read_batch
from deltawire.parts.rows import Row
from deltawire.parts.writer import PartOptions, PartWriter
from deltawire.producer.deltas import Sums
from deltawire.producer.encoding import BOX_ELEMENTS, Encoder
from deltawire.targets.arrays import NumpyBits


class OwnPeer(Peer):
    """What ``Publisher`` writes and ``Follower`` applies, on one thread."""

    own = True

    def __init__(self, codec: str, encoder: Encoder) -> None:
        self.name = f"Deltawire: {codec}"
        self.sparse = codec != "dense"
        self._encoder = encoder

    def encode(self, old: State, new: State) -> bytes:
        table = _table(new)
        stored: list[pa.Buffer] = []
        writer = PartWriter(_key, lambda _, data: stored.append(data), options=PartOptions())
        room, sums, changed = Room(BOX_ELEMENTS), Sums(), set()
        for tensor in table.tensors:
            before, after = old[tensor.name].reshape(-1), new[tensor.name].reshape(-1)
            for row in self._encoder.rows(tensor, before, after, room):
                writer.add(row)
                sums.add(row)
                changed.add(row.tensor)
        delta = Delta(
            changed_elements=sums.changed,
            changed_tensors=len(changed),
            digest_before=f"{sums.before:016x}",
            digest_after=f"{sums.after:016x}",
            parts=writer.finish(),
        )
        record = msgspec.json.encode(delta)
        return b"".join((struct.pack("<I", len(record)), record, *(memoryview(data) for data in stored)))

    def apply(self, payload: bytes, state: State) -> None:
        table = _table(state)
        own = {name: NumpyBits(bits.reshape(-1)) for name, bits in state.items()}
        at = 4 + struct.unpack_from("<I", payload)[0]
        delta = msgspec.json.decode(payload[4:at], type=Delta)
        totals, changes = Totals(), []
        for part in delta.parts:
            for row in _rows(memoryview(payload)[at : at + part.bytes], part, table):
                tensor = table.tensors[row.tensor]
                changes.append(stage_row(row, tensor, own[tensor.name], totals))
            at += part.bytes
        check_totals(totals, delta)
        check_disjoint(changes)
        for change in changes:
            own[change.tensor.name].scatter(change.where, change.new)


@dataclass(frozen=True, slots=True)
class _DenseEncoder(Encoder):
    """Writes all of every box in which something changed, which no publisher would where little did."""

    def _encode(self, tensor: Tensor, change: BoxChange) -> tuple[Codec, dict[str, Stream]]:
        codec = CODECS["dense"]
        return codec, codec.encode(change, tensor.dtype)


OWN_PEERS = (
    OwnPeer("dense", _DenseEncoder()),
    OwnPeer("gap-set", Encoder(absolute=True)),
    OwnPeer("gap", Encoder()),
    OwnPeer("ranked", Encoder(ranked=True)),
)


def _table(state: State) -> TensorTable:
    return build_table(((name, "BF16", bits.shape) for name, bits in state.items()), limits=DEFAULT_LIMITS)


def _rows(data: memoryview, part: Part, table: TensorTable) -> Iterator[Row]:
    for batch in part.batches:
        stored = data[batch.offset : batch.offset + batch.bytes]
        yield from read_batch(stored, part, batch, table, limits=DEFAULT_LIMITS)


def _key(number: int) -> str:
    return f"parts/{number:05d}.arrow"
