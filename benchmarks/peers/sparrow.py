"""Sparrow's layout (arXiv 2602.11456): LEB128 gaps between sorted offsets, and raw values."""

import json
import struct

import numpy as np
from numba import njit

from benchmarks.peers.base import Peer, State, changed_tensors

_LONGEST = 10


class SparrowPeer(Peer):
    """Nothing is compressed: seven bits a byte for small gaps is all of it."""

    name = "Sparrow: LEB128 gaps + bf16"

    def encode(self, old: State, new: State) -> bytes:
        tensors, chunks = [], []
        for name, _, after, positions in changed_tensors(old, new):
            room = np.empty(positions.size * _LONGEST, np.uint8)
            gaps = room[: _write_gaps(positions, room)].tobytes()
            tensors.append([name, int(positions.size), len(gaps)])
            chunks += [gaps, after[positions].tobytes()]
        header = json.dumps(tensors, separators=(",", ":")).encode()
        return b"".join((struct.pack("<I", len(header)), header, *chunks))

    def apply(self, payload: bytes, state: State) -> None:
        at = 4 + struct.unpack_from("<I", payload)[0]
        for name, count, size in json.loads(payload[4:at]):
            positions = np.empty(count, np.int64)
            _read_gaps(np.frombuffer(payload, np.uint8, size, at), positions)
            state[name].reshape(-1)[positions] = np.frombuffer(payload, np.uint16, count, at + size)
            at += size + 2 * count


@njit(nogil=True, cache=True)
def _write_gaps(positions, out):  # type: ignore[no-untyped-def]
    at, before = 0, 0
    for position in positions:
        gap = position - before
        before = position
        while gap >= 128:
            out[at] = gap & 127 | 128
            gap >>= 7
            at += 1
        out[at] = gap
        at += 1
    return at


@njit(nogil=True, cache=True)
def _read_gaps(data, positions):  # type: ignore[no-untyped-def]
    at, position = 0, np.int64(0)
    for index in range(positions.size):
        shift = 0
        while data[at] & 128:
            position += (np.int64(data[at]) & 127) << shift
            shift += 7
            at += 1
        position += np.int64(data[at]) << shift
        at += 1
        positions[index] = position
