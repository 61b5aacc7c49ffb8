"""A large object on its way to an S3 server: invisible until finished, gone when aborted."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from deltawire.errors import StoreError, StoreUnavailableError
from deltawire.store.base import Bytes
from deltawire.store.s3_client import S3Client, S3Failure, attempts

if TYPE_CHECKING:
    from types import TracebackType

PART_BYTES = 16 << 20
"""All parts but the last have this size, as some servers demand; 10,000 parts make 156 GiB."""
COPY_BYTES = 256 << 20
"""Larger objects are copied in parts of this size, each of which a server has done before the client loses patience."""
_IN_FLIGHT = 4
_MAX_PARTS = 10_000


class S3Upload:
    """Collects chunks into parts and sends up to four of them at a time.

    Used as a context manager: leaving it without ``finish`` aborts, and nothing becomes visible (STO-1). What
    fits into one part is sent as one plain PUT. Holds at most five parts in memory.
    """

    def __init__(self, client: S3Client, name: str, *, part_bytes: int = PART_BYTES) -> None:
        self._client = client
        self._name = name
        self._part_bytes = part_bytes
        self._buffer = bytearray()
        self._upload_id: str | None = None
        self._sent: list[Future[dict[str, Any]]] = []
        self._threads: ThreadPoolExecutor | None = None
        self._finished = False
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        if self._upload_id is not None and not self._finished:
            with suppress(StoreError, S3Failure):  # the error on its way out matters more
                self._client.call("abort_multipart_upload", Key=self._name, UploadId=self._upload_id)

    def write(self, chunk: Bytes) -> None:
        """Take a chunk; it may be reused afterwards. Raises StoreError."""
        view = memoryview(chunk).cast("B")
        self.bytes += len(view)
        while len(view):
            room = self._part_bytes - len(self._buffer)
            self._buffer += view[:room]
            view = view[room:]
            if len(self._buffer) == self._part_bytes and len(view):
                self._send_part()

    def finish(self) -> None:
        """Make the object visible, whole. Raises StoreError."""
        if self._upload_id is None:
            body = bytes(self._buffer)
            self._client.repeat(self._name, lambda: self._client.call("put_object", Key=self._name, Body=body))
        else:
            self._send_part()
            self._complete([sent.result() for sent in self._sent])
        self._finished = True

    def copy(self, bucket: str, name: str, size: int, *, copy_bytes: int = COPY_BYTES) -> None:
        """Let the server make the object a copy of another one of ``size`` bytes. Raises StoreError."""
        origin = {"Bucket": bucket, "Key": name}
        self.bytes = size
        if size <= copy_bytes:
            self._client.repeat(self._name, lambda: self._client.call("copy_object", Key=self._name, CopySource=origin))
        else:
            step = max(copy_bytes, -(-size // _MAX_PARTS))
            for start in range(0, size, step):
                threads, upload_id = self._begun()
                if len(self._sent) >= _IN_FLIGHT:
                    self._sent[-_IN_FLIGHT].result()
                span = f"bytes={start}-{min(start + step, size) - 1}"
                number = len(self._sent) + 1
                self._sent.append(threads.submit(self._copy_part, number, upload_id, origin, span))
            self._complete([sent.result() for sent in self._sent])
        self._finished = True

    def _begun(self) -> tuple[ThreadPoolExecutor, str]:
        if self._upload_id is None or self._threads is None:
            started = self._client.repeat(
                self._name, lambda: self._client.call("create_multipart_upload", Key=self._name)
            )
            self._upload_id = str(started["UploadId"])
            self._threads = ThreadPoolExecutor(_IN_FLIGHT, thread_name_prefix="deltawire-upload")
        return self._threads, self._upload_id

    def _send_part(self) -> None:
        threads, upload_id = self._begun()
        if len(self._sent) >= _IN_FLIGHT:
            self._sent[-_IN_FLIGHT].result()  # bounds the memory, and stops early once a part has failed
        body = bytes(self._buffer)
        self._buffer.clear()
        self._sent.append(threads.submit(self._put_part, len(self._sent) + 1, upload_id, body))

    def _put_part(self, number: int, upload_id: str, body: bytes) -> dict[str, Any]:
        answer = self._client.repeat(
            self._name,
            lambda: self._client.call("upload_part", Key=self._name, UploadId=upload_id, PartNumber=number, Body=body),
        )
        return {"PartNumber": number, "ETag": answer["ETag"]}

    def _copy_part(self, number: int, upload_id: str, origin: dict[str, str], span: str) -> dict[str, Any]:
        answer = self._client.repeat(
            self._name,
            lambda: self._client.call(
                "upload_part_copy",
                Key=self._name,
                UploadId=upload_id,
                PartNumber=number,
                CopySource=origin,
                CopySourceRange=span,
            ),
        )
        return {"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]}

    def _complete(self, parts: list[dict[str, Any]]) -> None:
        failure: S3Failure | None = None
        for _ in attempts():
            try:
                self._client.call(
                    "complete_multipart_upload",
                    Key=self._name,
                    UploadId=self._upload_id,
                    MultipartUpload={"Parts": parts},
                )
            except S3Failure as caught:
                if failure is not None and caught.code == "NoSuchUpload" and self._is_there():
                    return  # the answer to an earlier attempt was lost
                failure = caught
                if not caught.transient:
                    break
            else:
                return
        assert failure is not None  # noqa: S101 - at least one attempt was made
        raise failure.as_error(self._name, self._client.location) from failure

    def _is_there(self) -> bool:
        """Tell whether the object is ours: its key is unique to this write (KEY-4), so its size decides."""
        try:
            return bool(self._client.call("head_object", Key=self._name)["ContentLength"] == self.bytes)
        except S3Failure as failure:
            raise StoreUnavailableError(f"{self._name} may or may not have been written") from failure
