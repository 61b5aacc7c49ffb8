"""Bodies of requests, whichever way they were sent."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import BinaryIO


class MalformedBody(Exception):  # noqa: N818 - an answer, not an error
    """The body is not what its headers say."""


def read_body(stream: BinaryIO, headers: Mapping[str, str]) -> bytes:
    """Read the body of a request to its end, and take all framing off it.

    Args:
        stream: from the first byte after the headers.
        headers: by name in lower case.

    Raises:
        MalformedBody: the framing is broken, or the connection ended.
    """
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _chunks(stream)
    else:
        length = int(headers.get("content-length", "0"))
        body = stream.read(length)
        if len(body) != length:
            raise MalformedBody(f"{len(body)} bytes came instead of {length}")
    signed = headers.get("x-amz-content-sha256", "").startswith("STREAMING-")
    if not signed and "aws-chunked" not in headers.get("content-encoding", ""):
        return body
    content = _chunks(BytesIO(body))
    length = int(headers.get("x-amz-decoded-content-length", len(content)))
    if len(content) != length:
        raise MalformedBody(f"{len(content)} bytes were decoded instead of {length}")
    return content


def _chunks(stream: BinaryIO) -> bytes:
    """Chunks as HTTP and S3 frame them: a size, perhaps extensions such as a signature, the bytes; trailers."""
    found = bytearray()
    while True:
        line = stream.readline(8192)
        try:
            size = int(line.split(b";", 1)[0].strip(), 16)
        except ValueError:
            raise MalformedBody(f"{line[:40]!r} is not the size of a chunk") from None
        if not size:
            break
        data = stream.read(size)
        if len(data) != size or stream.readline(8192).strip():
            raise MalformedBody("a chunk has not the size that it says")
        found += data
    while stream.readline(8192).strip():
        pass  # trailers: checksums, which the records have too
    return bytes(found)
