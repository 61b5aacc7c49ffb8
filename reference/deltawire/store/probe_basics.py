"""The promises that even a single writer needs, each as one check on a live store."""

from __future__ import annotations

from collections.abc import Iterator

from deltawire.errors import LimitExceededError, ObjectNotFoundError, SizeMismatchError
from deltawire.store.probe_scratch import Scratch, promise

_EVERY_CHARACTER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-0123456789.z"


def read_after_write(scratch: Scratch) -> str:
    """Check that every object can be read as soon as its put returned."""
    for number in range(5):
        key, content = scratch.key(f"read/{number}"), f"content {number}".encode()
        scratch.store.put(key, content, mode="overwrite")
        promise(scratch.store.get(key, max_bytes=100).data == content, "a new object did not read as written")
        promise(scratch.store.head(key).bytes == len(content), "a new object's size is wrong")
    try:
        scratch.store.get(scratch.key("read/0"), max_bytes=5)
    except LimitExceededError:
        return "5 objects"
    promise(held=False, broken="an object larger than asked for was read")
    return ""


def overwrite_after_read(scratch: Scratch) -> str:
    """Check that a reader that has seen an object sees its replacement at once."""
    key = scratch.key("overwritten")
    tokens = set()
    for number in range(10):
        content = f"{'x' * number} {number}".encode()
        token = scratch.store.put(key, content, mode="overwrite")
        found = scratch.store.get(key, max_bytes=100)
        promise(found.data == content, f"overwrite {number} was not seen by the next read")
        promise(found.token == token, "a put and the next get disagree on the version token")
        tokens.add(token)
    promise(len(tokens) == 10, "different contents have the same version token")
    return "10 overwrites"


def list_after_write(scratch: Scratch) -> str:
    """Check that a listing shows exactly what was put and not deleted, in byte order of keys."""
    names = ["b", "a/1", "a-b", "a.b", "A", "a/0", "a0", "00000000000000000010", "00000000000000000009"]
    wanted: list[str] = []
    for name in names:
        key = scratch.key(f"listed/{name}")
        scratch.store.put(key, b"1", mode="overwrite")
        wanted = sorted([*wanted, key])
        found = [info.key for info in scratch.store.list(f"{scratch.prefix}listed/")]
        promise(found == wanted, f"after writing {name} the listing shows {len(found)} of {len(wanted)} objects")
    gone = wanted.pop(3)
    scratch.store.delete(gone)
    found = [info.key for info in scratch.store.list(f"{scratch.prefix}listed/")]
    promise(found == wanted, "a deleted object is still listed")
    promise(not list(scratch.store.list(f"{scratch.prefix}nothing/")), "an empty prefix lists something")
    return f"{len(names)} objects"


def ranges(scratch: Scratch) -> str:
    """Check that a range is exactly the bytes asked for, and one past the end is refused."""
    key, content = scratch.key("ranged"), bytes(range(256)) * 16
    scratch.store.put_stream(key, [content])
    for start, length in [(0, 1), (0, 4096), (4095, 1), (17, 1000), (4096, 0), (0, 0)]:
        found = scratch.store.get_range(key, start, length)
        promise(found == content[start : start + length], f"{length} bytes from {start} are not those written")
    for start, length in [(0, 4097), (4095, 2), (4096, 1), (9999, 1)]:
        try:
            scratch.store.get_range(key, start, length)
        except SizeMismatchError:
            continue
        promise(held=False, broken=f"{length} bytes from {start}, past the end, were not refused")
    return "10 ranges"


def keys(scratch: Scratch) -> str:
    """Check that keys of every allowed character and length are kept apart, upper and lower case included."""
    names = [scratch.longest_key()]
    names += [scratch.key(name) for name in (_EVERY_CHARACTER, "case", "CASE", "-", "_", "0", "a..b", "deep/er/still")]
    for key in names:
        scratch.store.put(key, key.encode(), mode="overwrite")
    for key in names:
        promise(scratch.store.get(key, max_bytes=1000).data == key.encode(), f"{key[-40:]} holds another's bytes")
    return f"{len(names)} keys, the longest of {len(names[0])} bytes"


def streams(scratch: Scratch) -> str:
    """Check that a large object is what its chunks were; one whose source fails is never seen."""
    key, empty, failed = scratch.key("streamed"), scratch.key("empty"), scratch.key("failed")
    promise(scratch.store.put_stream(key, [b"ab", b"", memoryview(b"cd")]) == 4, "the size of a stream is wrong")
    promise(scratch.store.get(key, max_bytes=4).data == b"abcd", "a stream did not read as written")
    promise(scratch.store.put_stream(empty, []) == 0, "the size of an empty stream is wrong")
    promise(scratch.store.get(empty, max_bytes=0).data == b"", "an empty stream did not read as written")
    try:
        scratch.store.put_stream(failed, _failing())
    except _SourceError:
        pass
    else:
        promise(held=False, broken="the failure of a source was swallowed")
    _promise_absent(scratch, failed, "an object whose source failed is visible")
    return "3 streams"


def delete(scratch: Scratch) -> str:
    """Check that a deleted object is gone at once, and deleting it again is no error."""
    key = scratch.key("deleted")
    scratch.store.put(key, b"1", mode="overwrite")
    scratch.store.delete(key)
    _promise_absent(scratch, key, "a deleted object can still be read")
    scratch.store.delete(key)
    return "twice"


class _SourceError(Exception):
    """Raised by a source of chunks on purpose."""


def _failing() -> Iterator[bytes]:
    yield b"x" * (1 << 20)
    raise _SourceError


def _promise_absent(scratch: Scratch, key: str, broken: str) -> None:
    try:
        scratch.store.head(key)
    except ObjectNotFoundError:
        return
    promise(held=False, broken=broken)
