"""grail's sparse codec, format 3.1: rows and columns of the changed elements as differences, in one zstd frame."""

import json
import struct

import numpy as np
import numpy.typing as npt

from benchmarks.peers.base import Peer, State, changed_tensors, compress, decompress


class GrailPeer(Peer):
    """Each changed element's row after the one before, its column likewise within a row, and its new value."""

    name = "grail 3.1: rows, columns, zstd-1"

    def encode(self, old: State, new: State) -> bytes:
        tensors, chunks, offset = [], [], 0
        for name, _, after, positions in changed_tensors(old, new):
            rows, columns = np.divmod(positions, _columns(new[name].shape))
            row_steps = np.diff(rows, prepend=0)
            starts_row = row_steps != 0
            starts_row[0] = True
            column_steps = np.where(starts_row, columns, np.diff(columns, prepend=0))
            own_rows = _narrowed(row_steps, np.uint8)
            own_columns = _narrowed(column_steps, np.uint16)
            values = after[positions]
            indices_size = own_rows.nbytes + own_columns.nbytes
            tensors.append(
                {
                    "name": name,
                    "shape": list(new[name].shape),
                    "num_nonzero": int(positions.size),
                    "value_dtype": "bfloat16",
                    "row_dtype": own_rows.dtype.name,
                    "col_dtype": own_columns.dtype.name,
                    "indices_offset": offset,
                    "indices_size": indices_size,
                    "rows_size": own_rows.nbytes,
                    "cols_size": own_columns.nbytes,
                    "values_offset": offset + indices_size,
                    "values_size": values.nbytes,
                }
            )
            chunks += [own_rows.tobytes(), own_columns.tobytes(), values.tobytes()]
            offset += indices_size + values.nbytes
        header = json.dumps({"version": 31, "tensors": tensors}, separators=(",", ":")).encode()
        return compress(b"".join((struct.pack("<I", len(header)), header, *chunks)))

    def apply(self, payload: bytes, state: State) -> None:
        data = decompress(payload)
        start = 4 + struct.unpack_from("<I", data)[0]
        for tensor in json.loads(data[4:start])["tensors"]:
            count, at = tensor["num_nonzero"], start + tensor["indices_offset"]
            row_steps = np.frombuffer(data, tensor["row_dtype"], count, at)
            column_steps = np.frombuffer(data, tensor["col_dtype"], count, at + tensor["rows_size"])
            values = np.frombuffer(data, np.uint16, count, start + tensor["values_offset"])
            rows = np.cumsum(row_steps, dtype=np.int64)
            positions = rows * _columns(tuple(tensor["shape"])) + _restarted_sums(column_steps, row_steps)
            state[tensor["name"]].reshape(-1)[positions] = values


def _columns(shape: tuple[int, ...]) -> int:
    """Elements in a row; a vector's rows have one."""
    return max(1, int(np.prod(shape[1:], dtype=np.int64)))


def _narrowed(steps: npt.NDArray[np.int64], small: type[np.unsignedinteger]) -> npt.NDArray[np.integer]:
    return steps.astype(small if steps.max() <= np.iinfo(small).max else np.int32)


def _restarted_sums(steps: npt.NDArray[np.integer], row_steps: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Running sums that begin again where a row does."""
    sums = np.cumsum(steps, dtype=np.int64)
    starts = np.flatnonzero(row_steps)
    if not starts.size or starts[0] != 0:
        starts = np.concatenate([[0], starts])
    before: npt.NDArray[np.int64] = np.repeat(sums[starts] - steps[starts], np.diff(starts, append=steps.size))
    return sums - before
