"""Prefixes in buckets of the real Hub, if the one who runs the tests has named a bucket."""

from __future__ import annotations

import os
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3  # type: ignore[import-untyped]
import pytest
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import ClientError  # type: ignore[import-untyped]
from huggingface_hub import HfApi

from deltawire.store.hub_location import HubLocation, hub_location

BUCKET = "DELTAWIRE_TEST_BUCKET"
"""``hf://buckets/NAMESPACE/NAME``, maybe with a prefix."""
GATEWAY = "DELTAWIRE_TEST_GATEWAY"
"""``s3://NAME?endpoint_url=https://s3.hf.co/NAMESPACE&region=us-east-1``: the same bucket."""
_OPERATIONS = 1000


def not_run(variable: str) -> str:
    """Why a test is skipped."""
    return f"NOT RUN: the real Hub is only asked where {variable} names a bucket for tests (tests/hub/README.md)"


def named(variable: str) -> str:
    """The URL in a variable; without one the test is skipped."""
    found = os.environ.get(variable)
    if not found:
        pytest.skip(not_run(variable))
    return found


def below(url: str, path: str) -> str:
    """The URL of what lies below another one."""
    place, _, query = url.partition("?")
    return f"{place.rstrip('/')}/{path}" + (f"?{query}" if query else "")


@dataclass(frozen=True)
class RealPlace:
    """A fresh prefix, changed and looked at by huggingface_hub. See ``Place``."""

    base: str = field(default_factory=lambda: below(named(BUCKET), f"deltawire-tests/{uuid.uuid4().hex}"))

    @property
    def url(self) -> str:
        return self.beside("run")

    def beside(self, name: str) -> str:
        return below(self.base, name)

    def read(self, key: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder) / "read"
            self._api.download_bucket_files(
                self._location.bucket, [(self._path(key), str(local))], raise_on_missing_files=True
            )
            return local.read_bytes()

    def write(self, key: str, data: bytes) -> None:
        self._api.batch_bucket_files(self._location.bucket, add=[(data, self._path(key))])

    def delete(self, key: str) -> None:
        self._api.batch_bucket_files(self._location.bucket, delete=[self._path(key)])

    def keys(self) -> list[str]:
        return sorted(path.removeprefix(self._path("")) for path in self._paths(self._path("")))

    def clear(self) -> None:
        """Remove everything, beside the prefix too."""
        paths = self._paths(self._location.prefix)
        for start in range(0, len(paths), _OPERATIONS):
            self._api.batch_bucket_files(self._location.bucket, delete=paths[start : start + _OPERATIONS])

    @property
    def _location(self) -> HubLocation:
        return hub_location(self.base)

    @property
    def _api(self) -> HfApi:
        return HfApi(endpoint=self._location.endpoint)

    def _path(self, key: str) -> str:
        return f"{self._location.prefix}run/{key}"

    def _paths(self, prefix: str) -> list[str]:
        listed = self._api.list_bucket_tree(self._location.bucket, prefix.rstrip("/"), recursive=True)
        return [entry.path for entry in listed if entry.path.startswith(prefix)]


@dataclass(frozen=True)
class RealGateway(RealPlace):
    """The same prefix through the S3 gateway. Stands for the contract's server too."""

    gateway: str = field(default_factory=lambda: named(GATEWAY))

    @property
    def gateway_url(self) -> str:
        return self._on_gateway(self._path("").rstrip("/"))

    def _on_gateway(self, path: str, bucket: str | None = None) -> str:
        parts = urlsplit(self.gateway)
        assert bucket or parts.netloc == self._location.bucket.partition("/")[2], f"{GATEWAY} is another bucket"
        return f"s3://{bucket or parts.netloc}/{path}?{parts.query}"

    def missing_url(self, bucket: str) -> str:
        return self._on_gateway("x", bucket)

    def unfinished_uploads(self) -> list[str]:
        parts = urlsplit(self.gateway)
        client: Any = boto3.client(
            "s3",
            endpoint_url=parse_qs(parts.query)["endpoint_url"][0],
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )
        try:
            listed = client.list_multipart_uploads(Bucket=parts.netloc, Prefix=self._path(""))
        except ClientError as error:
            pytest.skip(f"the gateway does not list uploads that are under way: {error}")
        finally:
            client.close()
        return [upload["Key"] for upload in listed.get("Uploads", [])]
