"""Another S3 client than the store's own, to look at and change the same objects."""

from __future__ import annotations

from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]

from tests.store.servers import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server


class S3Outside:
    """A prefix in a bucket, through boto3."""

    def __init__(self, server: S3Server, prefix: str) -> None:
        self._prefix = prefix
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=server.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 3}),
        )

    def read(self, key: str) -> bytes:
        with self._client.get_object(Bucket=BUCKET, Key=self._prefix + key)["Body"] as body:
            return bytes(body.read())

    def write(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=BUCKET, Key=self._prefix + key, Body=data)

    def keys(self) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=self._prefix)
        return sorted(entry["Key"].removeprefix(self._prefix) for page in pages for entry in page.get("Contents", []))

    def unfinished_uploads(self) -> list[str]:
        listed = self._client.list_multipart_uploads(Bucket=BUCKET, Prefix=self._prefix)
        return [upload["Key"] for upload in listed.get("Uploads", [])]

    def clear(self) -> None:
        keys = [{"Key": self._prefix + key} for key in self.keys()]
        for start in range(0, len(keys), 1000):
            self._client.delete_objects(Bucket=BUCKET, Delete={"Objects": keys[start : start + 1000], "Quiet": True})

    def close(self) -> None:
        self._client.close()
