"""The limits that a consumer enforces before it believes a size, a count or a length (SPEC.md section 14)."""

from __future__ import annotations

from dataclasses import dataclass

from deltawire.errors import LimitExceededError

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Upper bounds on what hostile or broken input can make a consumer do. LIM-1

    Every value is inclusive. The defaults fit a model of a trillion parameters; raise one only for a producer you
    trust.
    """

    record_bytes: int = 16 * MIB
    """Size of a record."""
    table_bytes: int = 256 * MIB
    """Size of a tensor table."""
    json_depth: int = 32
    """Nesting of JSON arrays and objects."""
    metadata_bytes: int = 64 * 1024
    """Size of the free ``metadata`` of one record, as compact JSON."""
    features: int = 64
    """Names in one feature list."""
    signing_keys: int = 16
    """Public keys that a stream lists."""
    tensors: int = 2_000_000
    """Entries of a tensor table, aliases included."""
    name_bytes: int = 1024
    """Length of a tensor's name in UTF-8."""
    dims: int = 16
    """Rank of a tensor."""
    tensor_bytes: int = 1 << 44
    """Bytes of one tensor."""
    state_bytes: int = 1 << 50
    """Bytes of all tensors together."""
    parts: int = 100_000
    """Parts of a delta, or shards of a snapshot."""
    batches: int = 1_000_000
    """Record batches of a delta, over all parts."""
    batch_bytes: int = 256 * MIB
    """Stored size of one record batch."""
    batch_decoded_bytes: int = 1024 * MIB
    """Size of one record batch after decompression."""
    batch_expansion: int = 1024
    """Decompressed over stored size of a batch that decompresses to more than 16 MiB."""
    rows: int = 4_000_000
    """Rows of one record batch."""
    shard_header_bytes: int = 100_000_000
    """Size of a safetensors header."""
    files: int = 1000
    """Auxiliary files of a version."""
    file_bytes: int = 256 * MIB
    """Size of one auxiliary file."""
    path_records: int = 1_000_000
    """Version records walked to reach one target, and records of one kind in a listing."""
    kept: int = 100_000
    """Versions kept below the boundary."""
    pins: int = 100_000
    """Pins of a stream."""

    def check(self, name: str, value: int, what: str) -> int:
        """Return ``value`` if it is at most the limit called ``name``.

        Raises:
            LimitExceededError: it is larger; ``what`` says what was measured.
        """
        limit: int = getattr(self, name)
        if value > limit:
            raise LimitExceededError(f"{what} is {value:,}, above the limit {name} = {limit:,}")
        return value

    def check_expansion(self, stored: int, decoded: int, what: str) -> None:
        """Refuse a decompression bomb. LIM-2

        Raises:
            LimitExceededError: ``decoded`` bytes are out of proportion to ``stored`` bytes.
        """
        self.check("batch_decoded_bytes", decoded, f"decompressed size of {what}")
        if decoded > 16 * MIB and decoded > self.batch_expansion * stored:
            raise LimitExceededError(
                f"{what} would grow {decoded // max(stored, 1):,} times when decompressed, "
                f"above the limit batch_expansion = {self.batch_expansion:,}"
            )


DEFAULT_LIMITS = Limits()
