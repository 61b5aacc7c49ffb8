from __future__ import annotations

import pytest

from deltawire.errors import StoreUnavailableError
from deltawire.store import S3Store
from tests.store.many import at_once
from tests.store.s3_contract import S3Contract
from tests.store.servers import S3Server


class TestS3OnMoto(S3Contract):
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, moto_server: S3Server) -> S3Server:
        return moto_server

    def test_lists_are_longer_than_a_page(self, store: S3Store) -> None:
        keys = [f"versions/{number:020}.json" for number in range(1003)]
        at_once(4, lambda part: [store.put(key, b"", mode="overwrite") for key in keys[part::4]])
        assert [info.key for info in store.list("versions/")] == keys

    def test_other_verbs_name_a_missing_bucket_too(self, server: S3Server) -> None:
        store = S3Store(server.url("x", bucket="no-such-bucket"))
        for verb in (
            lambda: store.put("x", b"1", mode="create"),
            lambda: store.put("x", b"1", mode="overwrite"),
            lambda: store.put_stream("x", [b"1"]),
            lambda: list(store.list("")),
            lambda: store.get_range("x", 0, 1),
        ):
            with pytest.raises(StoreUnavailableError, match="no-such-bucket does not exist"):
                verb()
