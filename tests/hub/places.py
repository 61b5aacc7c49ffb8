"""Prefixes in buckets, each for one test."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from tests.hub.clients import BUCKET
from tests.hub.emulator import HubEmulator


@dataclass(frozen=True)
class EmulatedPlace:
    """A prefix in a bucket of the emulator, changed without a request. See ``Place``."""

    hub: HubEmulator
    bucket: str = BUCKET
    prefix: str = field(default_factory=lambda: f"tests/{uuid.uuid4().hex}")

    @property
    def url(self) -> str:
        return f"hf://buckets/{self.bucket}/{self.prefix}?endpoint={self.hub.endpoint}"

    @property
    def gateway_url(self) -> str:
        """The same prefix through the S3 gateway."""
        namespace, _, name = self.bucket.partition("/")
        return f"s3://{name}/{self.prefix}?endpoint_url={self.hub.s3_endpoint(namespace)}&region=us-east-1"

    def beside(self, name: str) -> str:
        return f"hf://buckets/{self.bucket}/tests/{name}?endpoint={self.hub.endpoint}"

    def read(self, key: str) -> bytes:
        return self.hub.read(self.bucket, f"{self.prefix}/{key}")

    def write(self, key: str, data: bytes) -> None:
        self.hub.write(self.bucket, f"{self.prefix}/{key}", data)

    def delete(self, key: str) -> None:
        self.hub.delete(self.bucket, f"{self.prefix}/{key}")

    def contents(self) -> dict[str, bytes]:
        return {key: self.read(key) for key in self.keys()}

    def keys(self) -> list[str]:
        below = self.prefix + "/"
        return [path.removeprefix(below) for path in self.hub.paths(self.bucket) if path.startswith(below)]
