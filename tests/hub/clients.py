"""Clients for the tests of the emulator: the real ones, and one that sends exactly what it is told."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from hf_xet import XetFileInfo
from huggingface_hub import HfApi
from huggingface_hub.utils._xet import get_xet_session

from tests.hub.emulator import HubEmulator

BUCKET = "alice/weights"
_SESSION = boto3.session.Session()


@dataclass(frozen=True, slots=True)
class Got:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send(hub: HubEmulator, method: str, path: str, body: bytes = b"", **headers: str) -> Got:
    """One request on a connection of its own. Names of headers have ``_`` for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(hub.endpoint).port or 0, timeout=20)
    try:
        connection.request(method, path, body=body, headers=named)
        answer = connection.getresponse()
        return Got(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def ask(hub: HubEmulator, method: str, path: str, body: bytes = b"", *, token: str | None = "hf_alice") -> Got:
    """One request to the Hub."""
    return send(hub, method, path, body, **({} if token is None else {"Authorization": f"Bearer {token}"}))


def batch(hub: HubEmulator, *operations: Mapping[str, object], bucket: str = BUCKET) -> Got:
    """One batch."""
    lines = "\n".join(json.dumps(operation) for operation in operations)
    return ask(hub, "POST", f"/api/buckets/{bucket}/batch", lines.encode())


def api(hub: HubEmulator, token: str = "hf_alice") -> HfApi:
    """The Hub's own client."""
    return HfApi(endpoint=hub.endpoint, token=token)


def s3(hub: HubEmulator, access_key: str = "HFAKALICE") -> Any:
    """A client of S3, at the gateway."""
    return _SESSION.client(
        "s3",
        endpoint_url=hub.s3_endpoint("alice"),
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key="any",
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


def xet_read(hub: HubEmulator, path: str, begin: int, end: int) -> bytes:
    """A range of a file, by its hash, as hf_xet puts it together."""
    (found,) = api(hub).get_bucket_paths_info(BUCKET, [path])
    session: Any = get_xet_session()  # type: ignore[no-untyped-call]
    group = session.new_download_stream_group(
        token_refresh_url=f"{hub.endpoint}/api/buckets/{BUCKET}/xet-read-token",
        token_refresh_headers={"authorization": "Bearer hf_alice"},
    )
    return b"".join(group.download_stream(XetFileInfo(found.xet_hash, found.size), start=begin, end=end))
