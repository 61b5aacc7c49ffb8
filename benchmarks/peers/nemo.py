"""NeMo RL's sparse refit: packed locations and xor of values, one zstd frame over each body.

It serializes the three parts of a body with torch; here they are joined with a JSON header, which is a little smaller.
"""

import json
import struct

import numpy as np
import numpy.typing as npt

from benchmarks.peers.base import Peer, State, changed_tensors, compress, decompress

_WIDTHS = (np.uint16, np.uint32, np.uint64)


class NemoPeer(Peer):
    """Ranges, or gaps in the narrowest of 16, 32 and 64 bits for a tensor; then the xor of all values."""

    name = "NeMo RL: u16 gaps + xor, zstd-1"

    def encode(self, old: State, new: State) -> bytes:
        tensors, locations, values = [], [], []
        for name, before, after, positions in changed_tensors(old, new):
            kind, packed = _packed(positions)
            tensors.append(
                {
                    "name": name,
                    "shape": list(new[name].shape),
                    "dtype": "bfloat16",
                    "count": int(positions.size),
                    "locations": kind,
                    "operation": "xor",
                }
            )
            locations.append(packed.tobytes())
            values.append((before[positions] ^ after[positions]).tobytes())
        header = json.dumps(tensors, separators=(",", ":")).encode()
        return compress(b"".join((struct.pack("<I", len(header)), header, *locations, *values)))

    def apply(self, payload: bytes, state: State) -> None:
        data = decompress(payload)
        at = 4 + struct.unpack_from("<I", data)[0]
        tensors = json.loads(data[4:at])
        located = []
        for tensor in tensors:
            count = tensor["count"]
            if tensor["locations"] == "range":
                start = struct.unpack_from("<Q", data, at)[0]
                located.append(np.arange(start, start + count))
                at += 8
            else:
                gaps = np.frombuffer(data, tensor["locations"], count, at)
                located.append(np.cumsum(gaps.astype(np.int64) + 1) - 1)
                at += gaps.nbytes
        for tensor, positions in zip(tensors, located, strict=True):
            own = state[tensor["name"]].reshape(-1)
            own[positions] ^= np.frombuffer(data, np.uint16, positions.size, at)
            at += 2 * positions.size


def _packed(positions: npt.NDArray[np.int64]) -> tuple[str, npt.NDArray[np.unsignedinteger]]:
    first, last = int(positions[0]), int(positions[-1])
    if last - first + 1 == positions.size:
        return "range", np.array([first], np.uint64)
    gaps = np.diff(positions, prepend=-1) - 1
    width = next(width for width in _WIDTHS if gaps.max() <= np.iinfo(width).max)
    return np.dtype(width).name, gaps.astype(width)
