"""The layout that slime, miles, SGLang, Stitch and others share: a zstd frame for each tensor that changed.

A safetensors file of U8 tensors, in its metadata a checksum of each tensor's new bytes, which the reader compares after
it has written them; and a Hugging Face index, here in front of the file.
"""

import json
import struct
import zlib
from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load, save

from benchmarks.peers.base import Bits16, Peer, State, compress, decompress

_FILE = "model-00000-of-00001.safetensors"


class _SlimePeer(Peer):
    encoding: ClassVar[str]

    @abstractmethod
    def _payload(self, old: npt.NDArray[np.uint8], new: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """What is compressed of a tensor, from its old and new bytes."""

    @abstractmethod
    def _write(self, payload: bytes, own: npt.NDArray[np.uint8]) -> None:
        """Bring a tensor's bytes from old to new."""

    def encode(self, old: State, new: State) -> bytes:
        frames, checksums = {}, {}
        for name, bits in new.items():
            before, after = _bytes(old[name]), _bytes(bits)
            if not np.array_equal(before.view(np.uint16), after.view(np.uint16)):
                frames[name] = np.frombuffer(compress(self._payload(before, after).data), np.uint8)
                checksums[name] = f"{zlib.adler32(after.data):08x}"
        index = {
            "metadata": {
                "version": "000001",
                "base_version": "000000",
                "delta_encoding": self.encoding,
                "compression_format": "zstd",
                "checksum_format": "adler32",
            },
            "weight_map": dict.fromkeys(frames, _FILE),
        }
        listed = json.dumps(index).encode()
        return b"".join((struct.pack("<I", len(listed)), listed, save(frames, checksums or None)))

    def apply(self, payload: bytes, state: State) -> None:
        shard = payload[4 + struct.unpack_from("<I", payload)[0] :]
        checksums = _metadata(shard)
        for name, frame in load(shard).items():
            own = _bytes(state[name])
            self._write(decompress(frame.data), own)
            if f"{zlib.adler32(own.data):08x}" != checksums[name]:
                raise ValueError(f"{name} is not what was published")


class SlimeXorPeer(_SlimePeer):
    """Old bytes xor new bytes, the whole tensor."""

    name = "slime: xor, zstd-1"
    encoding = "xor"

    def _payload(self, old: npt.NDArray[np.uint8], new: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        return np.bitwise_xor(old, new)

    def _write(self, payload: bytes, own: npt.NDArray[np.uint8]) -> None:
        np.bitwise_xor(own, np.frombuffer(payload, np.uint8), out=own)


class SlimeOverwritePeer(_SlimePeer):
    """A count, positions of changed bytes of 32 bits each, and the new bytes."""

    name = "slime: overwrite, zstd-1"
    encoding = "overwrite"

    def _payload(self, old: npt.NDArray[np.uint8], new: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        positions = np.flatnonzero(old != new).astype(np.uint32)
        count = np.array([positions.size], np.uint32)
        return np.concatenate([count.view(np.uint8), positions.view(np.uint8), new[positions]])

    def _write(self, payload: bytes, own: npt.NDArray[np.uint8]) -> None:
        count = struct.unpack_from("<I", payload)[0]
        positions = np.frombuffer(payload, np.uint32, count, 4)
        own[positions] = np.frombuffer(payload, np.uint8, count, 4 + 4 * count)


def _bytes(bits: Bits16) -> npt.NDArray[np.uint8]:
    return bits.reshape(-1).view(np.uint8)


def _metadata(shard: bytes) -> dict[str, str]:
    length = struct.unpack_from("<Q", shard)[0]
    found: dict[str, str] = json.loads(shard[8 : 8 + length]).get("__metadata__", {})
    return found
