from __future__ import annotations

import uuid
from contextlib import suppress

import pytest

from deltawire.errors import InvalidArgumentError, InvalidKeyError
from deltawire.store import MemoryStore, check_key
from deltawire.store import memory as memory_module
from tests.store.contract import ConditionalContract


class MemoryOutside:
    """The dictionary behind the store, which holds keys only."""

    def __init__(self, name: str) -> None:
        bucket, _, self._prefix = name.partition("/")
        self._bucket = memory_module._BUCKETS[bucket]

    def read(self, key: str) -> bytes:
        return self._bucket.objects[f"{self._prefix}/{key}"].data

    def write(self, key: str, data: bytes) -> None:
        with suppress(InvalidKeyError):
            self._write(check_key(key), data)

    def _write(self, key: str, data: bytes) -> None:
        self._bucket.writes += 1
        held = memory_module._Held(data, str(self._bucket.writes), 0.0)
        self._bucket.objects[f"{self._prefix}/{key}"] = held

    def keys(self) -> list[str]:
        return sorted(key.removeprefix(f"{self._prefix}/") for key in self._bucket.objects)


class TestMemoryStore(ConditionalContract):
    @pytest.fixture
    def name(self) -> str:
        return f"{uuid.uuid4().hex}/some/prefix"

    @pytest.fixture
    def store(self, name: str) -> MemoryStore:
        return MemoryStore(name)

    @pytest.fixture
    def other(self, name: str) -> MemoryStore:
        return MemoryStore(name)

    @pytest.fixture
    def outside(self, name: str, store: MemoryStore) -> MemoryOutside:
        return MemoryOutside(name)


def test_a_prefix_is_a_part_of_its_bucket() -> None:
    name = uuid.uuid4().hex
    MemoryStore(f"{name}/a").put("b/c", b"1", mode="create")
    assert [info.key for info in MemoryStore(name).list("")] == ["a/b/c"]
    assert list(MemoryStore(f"{name}/ab").list("")) == []


@pytest.mark.parametrize("name", ["", "a b", "../x", "a//b"])
def test_names_follow_the_key_grammar(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        MemoryStore(name)
