"""The S3 gateway: all guarantees of S3, and the same objects as by the Hub's API (SPEC.md 5.9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deltawire import Follower, Publisher
from deltawire.errors import FencedError, LeaseHeldError, StoreDeniedError
from deltawire.store import S3Store
from deltawire.store.hub import HubStore
from tests.hub.clients import s3
from tests.hub.emulator import HubEmulator
from tests.hub.lines import follow, publish
from tests.hub.places import EmulatedPlace
from tests.store.s3_contract import PART, S3Contract
from tests.store.servers import S3Server

pytestmark = pytest.mark.usefixtures("alice")


class GatewayOutside(EmulatedPlace):
    """The same objects without a request, and the uploads that the gateway keeps."""

    def unfinished_uploads(self) -> list[str]:
        listed: dict[str, Any] = s3(self.hub).list_multipart_uploads(Bucket="weights", Prefix=self.prefix)
        return [upload["Key"] for upload in listed.get("Uploads", [])]

    def clear(self) -> None:
        for key in self.keys():
            self.delete(key)


class Gateway(S3Server):
    """The gateway as the contract's server."""

    def url(self, prefix: str, *, bucket: str = "weights") -> str:
        return f"s3://{bucket}/{prefix}?endpoint_url={self.endpoint}/s3/alice&region=us-east-1"


class TestGateway(S3Contract):
    @pytest.fixture(scope="class")
    @classmethod
    def emulator(cls) -> Iterator[HubEmulator]:
        with HubEmulator() as running:
            running.create("alice/weights")
            yield running

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, emulator: HubEmulator) -> S3Server:
        return Gateway(name="gateway", port=emulator.port)

    @pytest.fixture(scope="class")
    @classmethod
    def opened(
        cls, server: S3Server, emulator: HubEmulator, place: str
    ) -> Iterator[tuple[S3Store, S3Store, GatewayOutside]]:
        stores = [S3Store(server.url(place), part_bytes=PART) for _ in range(2)]
        yield stores[0], stores[1], GatewayOutside(emulator, prefix=place)
        for store in stores:
            store.close()

    def test_both_ways_show_the_same_objects(self, store: S3Store, outside: GatewayOutside) -> None:
        """Whole objects, ranges, listings and what was deleted; the token of neither is the other's affair."""
        by_api = HubStore(outside.url)
        contents = {"a/empty": b"", "a/small": b"1", "big": bytes(range(256)) * 30_000}
        for at, (key, content) in enumerate(contents.items()):
            (store if at % 2 else by_api).put_stream(key, [content])
        store.put("one", b"1", mode="create")
        by_api.put("two", b"2", mode="create")
        for opened in (store, by_api):
            for key, content in contents.items():
                assert opened.get(key, max_bytes=1 << 24).data == content
                assert (
                    opened.get_range(key, len(content) // 2, len(content) // 3)
                    == (content[len(content) // 2 : len(content) // 2 + len(content) // 3])
                )
            assert [info.key for info in opened.list("")] == [*sorted(contents), "one", "two"]
        by_api.delete("one")
        store.delete("two")
        for opened in (store, by_api):
            assert [info.key for info in opened.list("")] == sorted(contents)


def test_a_stream_by_the_gateway_is_read_by_the_api(place: EmulatedPlace) -> None:
    """With leases: another producer takes it over, and the first is done."""
    with Follower(place.url) as by_api, Follower(place.gateway_url) as by_gateway:
        with Publisher(place.gateway_url, holder="first", lease_ttl=5) as first:
            for seed in range(3):
                wanted = publish(first, seed)
                follow(by_api, wanted, seed)
                follow(by_gateway, wanted, seed)
            with pytest.raises(LeaseHeldError, match="first"):
                Publisher(place.gateway_url)
            with Publisher(place.gateway_url, take_over=True) as second:
                wanted = publish(second, 3)
                with pytest.raises(FencedError):
                    publish(first, 4)
                follow(by_api, wanted, 3)
                follow(by_gateway, wanted, 3)
        with Publisher(place.gateway_url) as third:  # the lease was given back
            wanted = publish(third, 5)
        follow(by_api, wanted, 5)


def test_a_stream_by_the_api_is_read_by_the_gateway(place: EmulatedPlace) -> None:
    with Publisher(place.url, single_writer=True) as publisher, Follower(place.gateway_url) as follower:
        for seed in range(3):
            follow(follower, publish(publisher, seed), seed)
    with Publisher(place.url, single_writer=True) as publisher, Follower(place.url) as follower:
        follow(follower, publish(publisher, 7), 7)


def test_keys_of_the_gateway_have_the_rights_of_their_token(
    place: EmulatedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("x", b"1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "HFAKALICE_READS")
    store = S3Store(place.gateway_url)
    assert store.get("x", max_bytes=1).data == b"1"
    with pytest.raises(StoreDeniedError):
        store.put("y", b"1", mode="create")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "HFAKNOBODY")
    with pytest.raises(StoreDeniedError):
        S3Store(place.gateway_url).get("x", max_bytes=1)
