"""What every S3 server must do: the stores' contract, and large objects."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from deltawire.errors import ObjectNotFoundError, StoreUnavailableError
from deltawire.store import S3Store
from tests.store.contract import ConditionalContract
from tests.store.s3_outside import S3Outside
from tests.store.servers import S3Server

PART = 5 << 20
"""The smallest part that S3 allows."""


class S3Contract(ConditionalContract):
    """Subclasses define a class-scoped fixture ``server``.

    Opening a client takes a tenth of a second, so the tests of a class share two and clear the prefix.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def place(cls) -> str:
        return f"tests/{uuid.uuid4().hex}"

    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls, server: S3Server, place: str) -> Iterator[tuple[S3Store, S3Store, S3Outside]]:
        stores = [S3Store(server.url(place), part_bytes=PART) for _ in range(2)]
        outside = S3Outside(server, f"{place}/")
        yield stores[0], stores[1], outside
        for store in stores:
            store.close()
        outside.close()

    @pytest.fixture
    def outside(self, opened: tuple[S3Store, S3Store, S3Outside]) -> Iterator[S3Outside]:
        yield opened[2]
        opened[2].clear()

    @pytest.fixture
    def store(self, opened: tuple[S3Store, S3Store, S3Outside], outside: S3Outside) -> S3Store:
        return opened[0]

    @pytest.fixture
    def other(self, opened: tuple[S3Store, S3Store, S3Outside], outside: S3Outside) -> S3Store:
        return opened[1]

    @pytest.mark.parametrize("size", [PART, PART + 1, 2 * PART, 7 * PART + 17])
    @pytest.mark.parametrize("chunk", [1 << 20, 1 << 30])
    def test_large_streams_go_in_parts(self, store: S3Store, outside: S3Outside, size: int, chunk: int) -> None:
        content = bytes(range(256)) * (size // 256 + 1)
        content = content[:size]
        view = memoryview(content)
        assert store.put_stream("big", (view[at : at + chunk] for at in range(0, size, chunk))) == size
        assert outside.read("big") == content
        assert store.get_range("big", PART - 3, 3) == content[PART - 3 : PART]

    def test_a_failed_large_stream_leaves_no_parts(self, store: S3Store, outside: S3Outside) -> None:
        def chunks() -> Iterator[bytes]:
            for _ in range(3):
                yield bytes(PART)
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            store.put_stream("big", chunks())
        assert outside.keys() == []
        assert outside.unfinished_uploads() == []
        with pytest.raises(ObjectNotFoundError):
            store.head("big")

    def test_a_missing_bucket_is_named(self, server: S3Server) -> None:
        store = S3Store(server.url("x", bucket="no-such-bucket"))
        with pytest.raises(StoreUnavailableError, match="no-such-bucket does not exist"):
            store.get("stream.json", max_bytes=10)
