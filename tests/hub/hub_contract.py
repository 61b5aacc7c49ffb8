"""What a store by the Hub's API must do beyond the stores' contract, on the emulator and on the Hub itself."""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import Protocol

import pytest

from deltawire.errors import LimitExceededError, ObjectExistsError, ObjectNotFoundError, StoreUnfitError
from deltawire.store import ReplaceIf
from deltawire.store.hub import HubStore
from tests.store.contract import StoreContract
from tests.store.forking import in_a_forked_child
from tests.store.many import Outside, at_once

MANY = 1001
"""More than one batch takes, and more than a page holds."""


class Place(Outside, Protocol):
    """A prefix in a bucket, and whoever else may use the bucket."""

    @property
    def url(self) -> str: ...

    @abstractmethod
    def beside(self, name: str) -> str:
        """The URL of what lies beside the prefix, where ``name`` takes the place of its last part."""

    @abstractmethod
    def delete(self, key: str) -> None: ...


class HubContract(StoreContract):
    """Subclasses define a fixture ``outside``, and may define ``elsewhere``, a URL in another bucket."""

    @pytest.fixture
    def store(self, outside: Place) -> HubStore:
        return HubStore(outside.url)

    @pytest.fixture
    def other(self, outside: Place) -> HubStore:
        return HubStore(outside.url)

    def test_nothing_is_promised_to_several_writers(self, store: HubStore) -> None:
        """STO-28."""
        assert not store.guarantees.conditional_create
        assert not store.guarantees.compare_and_swap
        token = store.put("x", b"1", mode="create")
        with pytest.raises(StoreUnfitError) as refused:
            store.put("x", b"2", mode=ReplaceIf(token))
        assert "S3 gateway" in refused.value.hint
        assert store.get("x", max_bytes=1).data == b"1"

    def test_a_large_stream(self, store: HubStore, other: HubStore) -> None:
        chunks = [random.Random(number).randbytes(1_000_003) for number in range(12)]
        content = b"".join(chunks)
        assert store.put_stream("big", iter(chunks)) == len(content)
        opened = other.open("big")
        numbers = random.Random(0)
        spans = [
            (at, numbers.randrange(len(content) - at)) for at in (numbers.randrange(len(content)) for _ in range(8))
        ]
        read = at_once(len(spans), lambda number: opened.get_range(*spans[number]))
        assert read == [content[start : start + length] for start, length in spans]
        assert other.get_range("big", 0, len(content)) == content
        with pytest.raises(LimitExceededError):
            other.get("big", max_bytes=len(content) - 1)

    def test_more_than_one_batch_of_operations(self, store: HubStore, other: HubStore, outside: Place) -> None:
        """STO-29, STO-32: more names than a batch takes and a page shows, and deleted again."""
        keys = [f"many/{number:05}" for number in range(MANY)]
        batch = store.write_batch()
        for key in keys:
            batch.put(key, key.encode())
        batch.finish()
        assert [(info.key, info.bytes) for info in other.list("many/")] == [(key, 10) for key in keys]
        for key in (keys[0], keys[999], keys[1000]):
            assert other.get(key, max_bytes=10).data == key.encode()
        store.put("kept", b"1", mode="create")
        store.delete_all([*keys, *(f"never/was/there/{number}" for number in range(499))])
        assert outside.keys() == ["kept"]

    def test_an_open_object_stays_what_it_was(self, store: HubStore, other: HubStore) -> None:
        """STO-31: ranges of one look are of one object, whatever happens to its name."""
        old, new = b"old" * 50_000, b"new" * 70_000
        store.put_stream("x", [old])
        opened = other.open("x")
        assert opened.get_range(0, 10) == old[:10]
        store.put_stream("x", [new])
        assert opened.get_range(0, len(old)) == old
        assert other.get_range("x", 0, len(new)) == new
        store.delete("x")
        assert opened.get_range(149_990, 10) == old[149_990:]
        with pytest.raises(ObjectNotFoundError):
            other.open("x")

    def test_siblings_are_not_listed(self, store: HubStore, outside: Place) -> None:
        """STO-32: the Hub lists by letters."""
        run = outside.url.partition("?")[0].rpartition("/")[2]
        store.put("versions/1", b"1", mode="create")
        for name in (f"{run}-2", f"{run}.json", f"{run}x"):
            sibling = HubStore(outside.beside(name))
            sibling.put("versions/2", b"2", mode="create")
            sibling.put("versions-old", b"2", mode="create")
        store.put("versions-2/1", b"3", mode="create")
        assert [info.key for info in store.list("")] == ["versions-2/1", "versions/1"]
        assert [info.key for info in store.list("versions/")] == ["versions/1"]

    def test_copies_are_objects_of_their_own(self, store: HubStore, outside: Place, elsewhere: str) -> None:
        """STO-26."""
        content = b"copied" * 1000
        store.put_stream("a/x", [content])
        for target in (HubStore(outside.beside("copies")), HubStore(elsewhere)):
            with pytest.raises(ObjectNotFoundError):
                target.copy_from(store, "a/none", "x")
            store.put("a/y", b"y", mode="overwrite")
            assert target.copy_from(store, "a/y", "y")
            store.delete("a/y")
            assert target.get("y", max_bytes=1).data == b"y"
            assert target.copy_from(store, "a/x", "y")
            assert target.get("y", max_bytes=10_000).data == content

    @pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # the point of the test
    def test_a_forked_child_makes_its_own_connections(self, store: HubStore) -> None:
        """Neither runtimes nor sockets survive a fork; a data loader's workers are often forked."""
        store.put("x", b"parent", mode="create")
        assert store.get_range("x", 0, 6) == b"parent"

        def work() -> None:
            store.put("y", store.get_range("x", 0, 6) + b" and child", mode="create")
            store.write_batch().finish()

        in_a_forked_child(work)
        assert store.get("y", max_bytes=20).data == b"parent and child"

    def test_several_threads_share_a_store(self, store: HubStore, other: HubStore) -> None:
        def work(number: int) -> None:
            for turn in range(3):
                key = f"{number}/{turn}"
                content = f"{number} {turn} ".encode() * 100
                store.put(key, content, mode="create")
                with pytest.raises(ObjectExistsError):
                    other.put(key, b"other", mode="create")
                assert other.get_range(key, 0, len(content)) == content
                if turn == 1:
                    store.close()  # what is under way in other threads goes on
            store.delete(f"{number}/0")

        at_once(6, work)
        assert [info.key for info in other.list("")] == [f"{number}/{turn}" for number in range(6) for turn in (1, 2)]
