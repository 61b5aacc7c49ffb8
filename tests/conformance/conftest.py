"""A bucket of the emulated Hub, as a place for cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from deltawire_conformance.places import StorePlace
from tests.hub.emulator import HubEmulator

BUCKET = "alice/weights"


@dataclass(frozen=True, kw_only=True)
class Hub:
    """An emulator with one bucket."""

    emulator: HubEmulator
    environment: Mapping[str, str]
    """For the adapter; the suite's own is set too while the fixture lives."""

    @property
    def url(self) -> str:
        """Where the Hub's API reaches the bucket."""
        return f"hf://buckets/{BUCKET}/conformance"

    @property
    def place(self) -> StorePlace:
        """For cases by the Hub's API."""
        return StorePlace(self.url)

    @property
    def gateway(self) -> Mapping[str, str]:
        """What a client of the gateway needs besides."""
        namespace, _ = BUCKET.split("/")
        return {**self.environment, "AWS_ENDPOINT_URL": self.emulator.s3_endpoint(namespace)}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with HubEmulator() as emulator, pytest.MonkeyPatch.context() as patch:
        emulator.create(BUCKET)
        environment = emulator.environment()
        for name, value in environment.items():
            patch.setenv(name, value)
        yield Hub(emulator=emulator, environment=environment)
