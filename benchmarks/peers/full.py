"""The whole state after each step, as one safetensors file: what everyone does who does nothing else."""

from safetensors.numpy import load, save

from benchmarks.peers.base import Peer, State, compress, decompress


class FullPeer(Peer):
    """A safetensors file of all tensors, plain or as a zstd frame."""

    sparse = False

    def __init__(self, level: int | None = None) -> None:
        self.name = "safetensors" if level is None else f"safetensors, zstd-{level}"
        self._level = level

    def encode(self, old: State, new: State) -> bytes:
        data = save(dict(new))
        return data if self._level is None else compress(data, self._level)

    def apply(self, payload: bytes, state: State) -> None:
        for name, bits in load(payload if self._level is None else decompress(payload)).items():
            state[name][...] = bits
