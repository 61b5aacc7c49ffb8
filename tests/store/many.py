"""What every store must do with many objects, ranges or threads at once; part of the contract of all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import pytest

from deltawire.errors import InvalidArgumentError, ObjectNotFoundError, SizeMismatchError
from deltawire.store import Store

T = TypeVar("T")


class Outside(Protocol):
    """The same objects, seen and changed without the code under test."""

    def read(self, key: str) -> bytes: ...

    def write(self, key: str, data: bytes) -> None: ...

    def keys(self) -> list[str]: ...


class ManyContract:
    """Batches of writes, open objects and deletes together."""

    def test_a_batch_is_there_when_it_is_finished(self, store: Store, other: Store, outside: Outside) -> None:
        batch = store.write_batch()
        batch.finish()  # of nothing
        for round_ in range(2):  # and it may be used again
            contents = {f"{round_}/{number}": b"%d" % number * number * 1000 for number in range(10)}
            batch.put(f"{round_}/small", b"s")

            def write(number: int, round_: int = round_) -> int:
                return batch.put_stream(f"{round_}/{number}", [b"%d" % number * number * 500] * 2)

            assert at_once(10, write) == [len(contents[f"{round_}/{number}"]) for number in range(10)]
            batch.finish()
            for key, content in contents.items():
                assert other.get(key, max_bytes=100_000).data == content
        assert outside.read("1/small") == b"s"
        assert len(outside.keys()) == 22

    def test_what_a_batch_is_given_may_be_reused(self, store: Store) -> None:
        batch, buffer = store.write_batch(), bytearray(b"first")
        batch.put("x", buffer)
        batch.put_stream("y", [memoryview(buffer)])
        buffer[:] = b"later"
        batch.finish()
        assert store.get("x", max_bytes=5).data == store.get("y", max_bytes=5).data == b"first"

    def test_a_batch_passes_on_what_a_source_raises(self, store: Store, outside: Outside) -> None:
        def chunks() -> Iterator[bytes]:
            yield b"x" * 100_000
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            store.write_batch().put_stream("a/x", chunks())
        assert outside.keys() == []

    def test_an_open_object_gives_exact_ranges(self, store: Store, other: Store) -> None:
        content = bytes(number % 251 for number in range(1000))
        store.put_stream("x", [content])
        opened = other.open("x")
        spans = [(0, 1000), (0, 1), (999, 1), (17, 500), (0, 0), (1000, 0)]
        found = at_once(len(spans), lambda number: opened.get_range(*spans[number]))
        assert found == [content[start : start + length] for start, length in spans]
        for start, length in [(0, 1001), (1000, 1), (5000, 1)]:
            with pytest.raises(SizeMismatchError):
                opened.get_range(start, length)
        for start, length in [(-1, 2), (0, -1)]:
            with pytest.raises(InvalidArgumentError):
                opened.get_range(start, length)
        with pytest.raises(ObjectNotFoundError):
            store.open("y").get_range(0, 1)

    def test_many_are_deleted_together(self, store: Store, outside: Outside) -> None:
        for number in range(5):
            store.put(f"a/{number}", b"1", mode="overwrite")
        store.delete_all([])
        store.delete_all(["a/1", "never/was/there", "a/3", "a/1"])
        assert outside.keys() == ["a/0", "a/2", "a/4"]
        assert store.deletes_at_once >= 1


def at_once(count: int, action: Callable[[int], T]) -> list[T]:
    """Run ``action`` in as many threads, released together."""
    start = threading.Barrier(count)

    def released(number: int) -> T:
        start.wait(30)
        return action(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(released, range(count)))
