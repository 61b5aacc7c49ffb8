"""What every store must do, as test classes that each binding inherits.

A binding's tests subclass ``StoreContract``, or ``ConditionalContract`` if it promises conditional writes,
and define the fixtures ``store``, ``other`` (the same place, opened again) and ``outside`` (the same place
by other means).
"""

from __future__ import annotations

import itertools
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from deltawire.errors import (
    InvalidArgumentError,
    InvalidKeyError,
    LimitExceededError,
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SizeMismatchError,
)
from deltawire.store import Bytes, ReplaceIf, Store
from tests.store.many import ManyContract, Outside, at_once

T = TypeVar("T")

HOSTILE_KEYS = [
    "",
    "/",
    "/etc/passwd",
    "../up",
    "a/../../up",
    "a/./b",
    "a//b",
    "a/",
    ".hidden",
    "a/.tmp-1",
    "dot.",
    "a b",
    "a\\b",
    "a\nb",
    "a\x00b",
    "ä",
    "%2e%2e",
    "a?versionId=1",
    "a*",
    "k" * 513,
]
"""Keys that no store may touch."""


class StoreContract(ManyContract):
    """The promises that hold in every store."""

    hides_unfinished_streams = True

    def test_what_is_put_is_there_for_others(self, store: Store, other: Store, outside: Outside) -> None:
        store.put("a/b.json", b"one", mode="overwrite")
        assert outside.read("a/b.json") == b"one"
        assert other.get("a/b.json", max_bytes=3).data == b"one"
        assert outside.keys() == ["a/b.json"]

    def test_what_others_write_is_seen_at_once(self, store: Store, outside: Outside) -> None:
        with pytest.raises(ObjectNotFoundError):
            store.get("x", max_bytes=10)
        assert list(store.list("")) == []
        outside.write("x", b"1")
        assert store.get("x", max_bytes=10).data == b"1"
        outside.write("x", b"longer than before")
        assert store.get("x", max_bytes=100).data == b"longer than before"
        assert [(info.key, info.bytes) for info in store.list("")] == [("x", 18)]

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_any_contiguous_bytes_are_taken(self, store: Store, kind: Callable[[bytes], Bytes]) -> None:
        store.put("x", kind(b"abc"), mode="overwrite")
        assert store.get("x", max_bytes=3).data == b"abc"
        assert store.put_stream("y", [kind(b"abc"), kind(b""), kind(b"de")]) == 5
        assert store.get("y", max_bytes=5).data == b"abcde"

    def test_empty_objects(self, store: Store) -> None:
        store.put("x", b"", mode="overwrite")
        assert store.put_stream("y", []) == 0
        assert store.put_stream("z", iter([b"", b""])) == 0
        for key in ("x", "y", "z"):
            assert store.get(key, max_bytes=0).data == b""
            assert store.head(key).bytes == 0

    def test_a_put_returns_the_token_that_a_get_finds(self, store: Store, other: Store) -> None:
        tokens = []
        for content in (b"1", b"2", b"3"):
            tokens.append(store.put("x", content, mode="overwrite"))
            assert other.get("x", max_bytes=1).token == tokens[-1]
        assert len(set(tokens)) == 3

    def test_a_get_is_bounded(self, store: Store) -> None:
        store.put("x", b"12345", mode="overwrite")
        assert store.get("x", max_bytes=5).data == b"12345"
        for limit in (4, 0):
            with pytest.raises(LimitExceededError):
                store.get("x", max_bytes=limit)
        assert store.get("x", max_bytes=1 << 60).data == b"12345"

    def test_what_is_missing_is_not_found(self, store: Store) -> None:
        store.put("there/x", b"1", mode="overwrite")
        for key in ("x", "there", "there/y", "there/x/y", "deep/er/still"):
            with pytest.raises(ObjectNotFoundError):
                store.get(key, max_bytes=10)
            with pytest.raises(ObjectNotFoundError):
                store.head(key)
            with pytest.raises(ObjectNotFoundError):
                store.get_range(key, 0, 1)
            with pytest.raises(ObjectNotFoundError):
                store.get_range(key, 0, 0)

    @pytest.mark.parametrize(("start", "length"), [(0, 1000), (0, 1), (999, 1), (17, 500), (0, 0), (1000, 0)])
    def test_ranges_are_exact(self, store: Store, start: int, length: int) -> None:
        content = bytes(number % 251 for number in range(1000))
        store.put("x", content, mode="overwrite")
        assert store.get_range("x", start, length) == content[start : start + length]

    @pytest.mark.parametrize(("start", "length"), [(0, 1001), (999, 2), (1000, 1), (5000, 1), (1001, 0), (0, 1 << 40)])
    def test_ranges_past_the_end_are_refused(self, store: Store, start: int, length: int) -> None:
        store.put("x", bytes(1000), mode="overwrite")
        with pytest.raises(SizeMismatchError):
            store.get_range("x", start, length)

    def test_ranges_that_make_no_sense_are_refused(self, store: Store) -> None:
        store.put("x", bytes(10), mode="overwrite")
        for start, length in [(-1, 2), (0, -1)]:
            with pytest.raises(InvalidArgumentError):
                store.get_range("x", start, length)

    def test_a_head_tells_size_and_time(self, store: Store) -> None:
        store.put("x", bytes(77), mode="overwrite")
        info = store.head("x")
        assert (info.key, info.bytes) == ("x", 77)
        assert info.modified_at is None or abs(info.modified_at - time.time()) < 3600

    def test_a_create_over_an_object_is_refused(self, store: Store, other: Store, outside: Outside) -> None:
        store.put("x", b"first", mode="create")
        for opened in (store, other):
            with pytest.raises(ObjectExistsError):
                opened.put("x", b"second", mode="create")
        assert outside.read("x") == b"first"

    def test_lists_are_in_byte_order_and_complete(self, store: Store, other: Store) -> None:
        keys = [
            "b",
            "a/1",
            "a-b",
            "a.b",
            "A",
            "a/0",
            "a0",
            "a/b/c",
            "00000000000000000010",
            "00000000000000000009",
        ]
        for key in keys:
            store.put(key, key.encode(), mode="overwrite")
            assert key in {info.key for info in other.list("")}
        assert [(info.key, info.bytes) for info in other.list("")] == [(key, len(key)) for key in sorted(keys)]
        assert [info.key for info in store.list("a/")] == ["a/0", "a/1", "a/b/c"]
        assert [info.key for info in store.list("a/b/")] == ["a/b/c"]
        assert list(store.list("a/b/c/")) == []
        assert list(store.list("none/")) == []

    @pytest.mark.parametrize("prefix", ["a", "/", "../", "a//", ".tmp/"])
    def test_list_prefixes_end_in_a_slash_and_hold_a_key(self, store: Store, prefix: str) -> None:
        with pytest.raises((InvalidArgumentError, InvalidKeyError)):
            list(store.list(prefix))

    def test_names_that_are_no_keys_are_not_listed(self, store: Store, outside: Outside) -> None:
        for name in ("x", "with space", ".hidden", "x-dir/.tmp-1"):
            outside.write(name, b"1")
        assert [info.key for info in store.list("")] == ["x"]

    def test_a_stream_is_what_its_chunks_were(self, store: Store, outside: Outside) -> None:
        chunks = [bytes([number]) * (number * 1000) for number in range(20)]
        assert store.put_stream("a/b/x", iter(chunks)) == sum(map(len, chunks))
        assert outside.read("a/b/x") == b"".join(chunks)

    def test_a_stream_may_reuse_its_buffer(self, store: Store) -> None:
        def chunks() -> Iterator[Bytes]:
            buffer = bytearray(4)
            for number in range(5):
                buffer[:] = bytes([number]) * 4
                yield memoryview(buffer)

        store.put_stream("x", chunks())
        assert store.get("x", max_bytes=20).data == b"".join(bytes([number]) * 4 for number in range(5))

    def test_a_stream_is_invisible_until_it_is_complete(self, store: Store, other: Store) -> None:
        seen: list[str] = []

        def chunks() -> Iterator[bytes]:
            for _ in range(3):
                yield b"x" * 100_000
                seen.extend(info.key for info in other.list(""))

        store.put_stream("a/x", chunks())
        assert seen == [] or not self.hides_unfinished_streams
        assert [info.key for info in other.list("")] == ["a/x"]

    @pytest.mark.parametrize("error", [ValueError("mine"), OSError(28, "mine"), KeyboardInterrupt("mine")])
    @pytest.mark.parametrize("chunks_before", [0, 3])
    def test_a_failed_stream_leaves_nothing(
        self, store: Store, outside: Outside, error: BaseException, chunks_before: int
    ) -> None:
        def chunks() -> Iterator[bytes]:
            for _ in range(chunks_before):
                yield b"x" * 100_000
            raise error

        with pytest.raises(type(error)) as caught:
            store.put_stream("a/x", chunks())
        assert caught.value is error
        assert outside.keys() == []

    def test_a_stream_replaces_an_earlier_one(self, store: Store) -> None:
        store.put_stream("x", [b"a much longer one"])
        store.put_stream("x", [b"short"])
        assert store.get("x", max_bytes=100).data == b"short"

    def test_deletes_may_be_repeated(self, store: Store, outside: Outside) -> None:
        store.put("a/x", b"1", mode="create")
        store.put("a/y", b"1", mode="create")
        for _ in range(2):
            store.delete("a/x")
        store.delete("never/was/there")
        assert outside.keys() == ["a/y"]
        store.put("a/x", b"2", mode="create")
        assert store.get("a/x", max_bytes=1).data == b"2"

    @pytest.mark.parametrize("key", HOSTILE_KEYS, ids=repr)
    def test_every_verb_refuses_hostile_keys(self, store: Store, outside: Outside, key: str) -> None:
        verbs: list[Callable[[], object]] = [
            lambda: store.get(key, max_bytes=1),
            lambda: store.get_range(key, 0, 1),
            lambda: store.head(key),
            lambda: store.put(key, b"", mode="create"),
            lambda: store.put(key, b"", mode="overwrite"),
            lambda: store.put_stream(key, []),
            lambda: store.delete(key),
            lambda: store.delete_all(["fine", key]),
            lambda: store.open(key).get_range(0, 1),
            lambda: store.write_batch().put(key, b""),
            lambda: store.write_batch().put_stream(key, []),
        ]
        for verb in verbs:
            with pytest.raises(InvalidKeyError):
                verb()
        assert outside.keys() == []

    def test_long_keys(self, store: Store, other: Store) -> None:
        key = "/".join(["s" * 101] * 5 + ["x" * 2])
        assert len(key) == 512
        store.put(key, b"1", mode="create")
        assert [info.key for info in other.list("")] == [key]
        assert other.get(key, max_bytes=1).data == b"1"

    def test_a_closed_store_may_be_used_again(self, store: Store) -> None:
        store.close()
        store.put("x", b"1", mode="overwrite")
        store.close()
        assert store.get("x", max_bytes=1).data == b"1"


class ConditionalContract(StoreContract):
    """The promises of a store that several writers may share."""

    racers = 16
    rounds = 10
    counters = 8
    counts = 10

    def test_the_guarantees_are_declared(self, store: Store) -> None:
        assert store.guarantees.conditional_create
        assert store.guarantees.compare_and_swap

    def test_one_of_many_racing_creates_wins(self, store: Store, other: Store) -> None:
        """STO-3."""
        for number in range(self.rounds):
            key = f"race/{number}"

            def create(racer: int, key: str = key) -> bytes | None:
                content = f"{racer} {uuid.uuid4()}".encode()
                try:
                    (store, other)[racer % 2].put(key, content, mode="create")
                except ObjectExistsError:
                    return None
                return content

            won = [content for content in at_once(self.racers, create) if content is not None]
            assert len(won) == 1
            assert store.get(key, max_bytes=100).data == won[0]

    def test_a_swap_needs_the_current_token(self, store: Store, other: Store) -> None:
        """STO-4."""
        first = store.put("x", b"1", mode="create")
        second = other.put("x", b"2", mode=ReplaceIf(first))
        for opened in (store, other):
            with pytest.raises(PreconditionFailedError):
                opened.put("x", b"3", mode=ReplaceIf(first))
        assert store.get("x", max_bytes=1).data == b"2"
        assert store.put("x", b"3", mode=ReplaceIf(second)) == other.get("x", max_bytes=1).token

    def test_a_swap_needs_an_object(self, store: Store, outside: Outside) -> None:
        """STO-4."""
        token = store.put("a/x", b"1", mode="create")
        with pytest.raises(PreconditionFailedError):
            store.put("a/y", b"2", mode=ReplaceIf(token))
        store.delete("a/x")
        with pytest.raises(PreconditionFailedError):
            store.put("a/x", b"2", mode=ReplaceIf(token))
        assert outside.keys() == []

    def test_a_swap_notices_overwrites(self, store: Store, other: Store) -> None:
        token = store.put("x", b"1", mode="create")
        other.put("x", b"2", mode="overwrite")
        with pytest.raises(PreconditionFailedError):
            store.put("x", b"3", mode=ReplaceIf(token))

    def test_no_update_is_lost(self, store: Store, other: Store) -> None:
        """STO-4."""
        store.put("counter", b'{"value": 0}', mode="create")
        at_once(self.counters, lambda number: count_up((store, other)[number % 2], "counter", self.counts))
        assert json.loads(store.get("counter", max_bytes=200).data)["value"] == self.counters * self.counts

    def test_readers_never_see_half_an_object(self, store: Store, other: Store) -> None:
        """STO-1."""
        size = 300_000
        store.put("x", bytes(size), mode="overwrite")
        finished = threading.Event()

        def work(number: int) -> int:
            if number == 0:
                try:
                    for value in range(30):
                        store.put("x", bytes([value]) * size, mode="overwrite")
                finally:
                    finished.set()
                return 0
            reads = 0
            while not finished.is_set():
                data = other.get("x", max_bytes=size).data
                assert len(data) == size
                assert data.count(data[0]) == size
                reads += 1
            return reads

        assert sum(at_once(3, work)) > 0


def count_up(store: Store, key: str, times: int) -> None:
    """Add one to the counter ``times`` times by compare-and-swap."""
    done = 0
    for _ in itertools.islice(itertools.count(), times * 500):
        if done == times:
            return
        found = store.get(key, max_bytes=200)
        value = json.loads(found.data)["value"] + 1
        content = json.dumps({"value": value, "nonce": uuid.uuid4().hex}).encode()
        try:
            store.put(key, content, mode=ReplaceIf(found.token))
        except PreconditionFailedError:
            continue
        done += 1
    assert done == times, f"{done} of {times} updates after {times * 500} attempts"
