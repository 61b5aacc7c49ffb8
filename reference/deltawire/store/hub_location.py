"""What an ``hf://`` URL and the environment say about where a bucket of the Hugging Face Hub is."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from deltawire.errors import InvalidArgumentError, InvalidKeyError
from deltawire.store.arguments import split_url
from deltawire.store.base import check_key

HUB = "https://huggingface.co"
GATEWAY = "https://s3.hf.co"
"""The public Hub's gateway, which follows S3; a namespace's buckets are below its name."""
_FORM = "hf://buckets/NAMESPACE/NAME/PREFIX"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubLocation:
    """A bucket, the prefix in it, and the Hub that has it. Never holds a token."""

    url: str
    bucket: str
    """``NAMESPACE/NAME``."""
    prefix: str
    """Empty, or ends in ``/``."""
    endpoint: str
    """Without a slash at its end."""

    @property
    def api(self) -> str:
        """Where the Hub's API has this bucket."""
        return f"{self.endpoint}/api/buckets/{self.bucket}"

    @property
    def page(self) -> str:
        """Where a browser shows the files."""
        return f"{self.endpoint}/buckets/{self.bucket}" + (f"/tree/{self.prefix[:-1]}" if self.prefix else "")

    @property
    def alternative(self) -> str:
        """In words: the way to the same objects that has conditional writes."""
        namespace, name = self.bucket.split("/")
        place = f"s3://{name}/{self.prefix}".rstrip("/")
        which = f", {place}?endpoint_url={GATEWAY}/{namespace}" if self.endpoint == HUB else ""
        return f"several writers, or maintainers, go through the S3 gateway of the same bucket{which}"


def hub_location(url: str) -> HubLocation:
    """Parse ``hf://buckets/NAMESPACE/NAME/PREFIX``, with ``endpoint`` as an option in a query.

    Without that option the endpoint is that of ``HF_ENDPOINT``, or the public Hub.

    Raises:
        InvalidArgumentError: it is no bucket's URL, has an unknown option, or credentials in it.
    """
    parts, shown = split_url(url), url.partition("?")[0][:80]
    if "@" in parts.netloc or "@" in parts.path:
        # URLs end up in logs, records and process lists; and buckets have no revisions
        raise InvalidArgumentError("an hf:// URL must not hold credentials or revisions; a token comes from HF_TOKEN")
    if parts.netloc != "buckets" or parts.fragment:
        raise InvalidArgumentError(f"a stream on the Hub is in a bucket, {_FORM}; got {shown}")
    namespace, _, rest = parts.path.strip("/").partition("/")
    name, _, prefix = rest.partition("/")
    if not name:
        raise InvalidArgumentError(f"{shown} names no bucket; its URL is {_FORM}")
    for part in (namespace, name):
        if not _NAME.fullmatch(part):
            raise InvalidArgumentError(f"{part[:80]!r} is no name on the Hub; a bucket's URL is {_FORM}")
    if prefix:
        try:
            check_key(prefix)
        except InvalidKeyError as error:
            raise InvalidArgumentError(f"the prefix of a bucket's URL follows the key grammar: {error}") from error
        prefix += "/"
    return HubLocation(url=url, bucket=f"{namespace}/{name}", prefix=prefix, endpoint=_endpoint(parts.query))


def _endpoint(query: str) -> str:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(options.keys() - {"endpoint"})
    if unknown or len(options) != len(parse_qsl(query, keep_blank_values=True)):
        raise InvalidArgumentError(f"{(unknown or ['endpoint'])[0][:40]!r} in a bucket's URL; it takes endpoint, once")
    endpoint = (options.get("endpoint") or os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    parts = split_url(endpoint)
    if (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
    ):
        raise InvalidArgumentError("the Hub's endpoint is http(s)://HOST[:PORT], without credentials")
    return endpoint
