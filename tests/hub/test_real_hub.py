"""The same tests on the real Hub, for who names a bucket there; README.md says how. Nothing of it runs by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from deltawire import Publisher
from deltawire.errors import FencedError
from deltawire.store import S3Store
from tests.hub.hub_contract import HubContract
from tests.hub.lines import follow, following, publish
from tests.hub.real import RealGateway, RealPlace
from tests.store.s3_contract import PART, S3Contract
from tests.store.servers import S3Server

pytestmark = pytest.mark.real_hub


@pytest.fixture
def place() -> Iterator[RealPlace]:
    found = RealPlace()
    yield found
    found.clear()


@pytest.fixture
def gateway() -> Iterator[RealGateway]:
    found = RealGateway()
    yield found
    found.clear()


class TestRealHub(HubContract):
    @pytest.fixture
    def outside(self, place: RealPlace) -> RealPlace:
        return place

    @pytest.fixture
    def elsewhere(self, place: RealPlace) -> str:
        return place.beside("elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server(S3Server):
    gateway: RealGateway

    def url(self, prefix: str, *, bucket: str = "") -> str:
        return self.gateway.missing_url(bucket) if bucket else self.gateway.gateway_url


class TestRealGateway(S3Contract):
    racers = 8
    rounds = 3
    counters = 4
    counts = 5

    @pytest.fixture(scope="class")
    @classmethod
    def real(cls) -> Iterator[RealGateway]:
        found = RealGateway()
        yield found
        found.clear()

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, real: RealGateway) -> S3Server:
        return _Server(name="gateway", port=443, gateway=real)

    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls, real: RealGateway) -> Iterator[tuple[S3Store, S3Store, RealGateway]]:
        stores = [S3Store(real.gateway_url, part_bytes=PART) for _ in range(2)]
        yield stores[0], stores[1], real
        for store in stores:
            store.close()


def test_a_stream_by_the_api(place: RealPlace) -> None:
    with Publisher(place.url, single_writer=True) as publisher, following(place.url) as follower:
        for seed in range(3):
            follow(follower, publish(publisher, seed), seed)
    with Publisher(place.url, single_writer=True) as publisher, following(place.url) as follower:
        follow(follower, publish(publisher, 7), 7)


def test_a_stream_by_the_gateway_is_read_by_the_api_and_the_other_way_round(gateway: RealGateway) -> None:
    with (
        Publisher(gateway.gateway_url) as first,
        following(gateway.url) as by_api,
        following(gateway.gateway_url) as by_gateway,
    ):
        for seed in range(3):
            wanted = publish(first, seed)
            follow(by_api, wanted, seed)
            follow(by_gateway, wanted, seed)
        with Publisher(gateway.gateway_url, take_over=True) as second:
            wanted = publish(second, 3)
            with pytest.raises(FencedError):
                publish(first, 4)
            follow(by_api, wanted, 3)
            follow(by_gateway, wanted, 3)


def test_a_stream_by_the_api_is_read_by_the_gateway(gateway: RealGateway) -> None:
    with Publisher(gateway.url, single_writer=True) as publisher, following(gateway.gateway_url) as follower:
        for seed in range(3):
            follow(follower, publish(publisher, seed), seed)
