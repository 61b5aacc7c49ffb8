"""What an ``s3://`` URL and the environment say about where a bucket is."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import parse_qsl

from deltawire.errors import InvalidArgumentError, InvalidKeyError
from deltawire.store.arguments import split_url
from deltawire.store.base import check_key

AddressingStyle = Literal["auto", "path", "virtual"]
_OPTIONS = ("endpoint_url", "region", "profile", "addressing_style", "anon")
_STYLES = ("auto", "path", "virtual")
_HUB_GATEWAY = "s3.hf.co"
_HUB_REGION = "us-east-1"
_BUCKET = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{1,253})[A-Za-z0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Location:
    """A bucket, the prefix in it, and how to reach it. Never holds a secret."""

    url: str
    bucket: str
    prefix: str
    """Empty, or ends in ``/``."""
    endpoint_url: str | None
    """None is Amazon's own."""
    region: str | None
    profile: str | None
    addressing_style: AddressingStyle
    anon: bool

    @property
    def hub_namespace(self) -> str | None:
        """Where this is the S3 gateway of the Hugging Face Hub: whose buckets it shows; empty if it does not say."""
        return _hub_namespace(self.endpoint_url)

    def same_server(self, other: S3Location) -> bool:
        """Whether both are reached as the same user of the same server."""
        mine = (self.endpoint_url, self.region, self.profile, self.anon)
        return mine == (other.endpoint_url, other.region, other.profile, other.anon)


def s3_location(url: str) -> S3Location:
    """Parse ``s3://BUCKET/PREFIX``, with any of the options as a query, such as ``?region=eu-west-1``.

    The options are ``endpoint_url``, ``region``, ``profile``, ``addressing_style`` and ``anon``. What the
    query leaves out is taken from ``AWS_ENDPOINT_URL_S3``, ``AWS_ENDPOINT_URL``, ``AWS_REGION`` and
    ``AWS_DEFAULT_REGION``. Custom endpoints are addressed by path, as few serve a host name per bucket. The gateway of
    the Hugging Face Hub has one region, whatever the environment says of Amazon's.

    Raises:
        InvalidArgumentError: the URL has no usable bucket or prefix, an unknown option, or credentials in it.
    """
    parts = split_url(url)
    if "@" in parts.netloc:
        # URLs end up in logs, records and process lists
        raise InvalidArgumentError("an s3:// URL must not hold credentials; use the environment or a profile")
    if not parts.netloc or parts.fragment:
        raise InvalidArgumentError(f"an S3 URL is s3://BUCKET/PREFIX, got {url[:80]}")
    if not _BUCKET.fullmatch(parts.netloc):
        raise InvalidArgumentError(
            f"{parts.netloc[:80]!r} is not a bucket's name: 3 to 255 letters, digits, dots, dashes and underscores"
        )
    prefix = parts.path.strip("/")
    if prefix:
        try:
            check_key(prefix)
        except InvalidKeyError as error:
            raise InvalidArgumentError(f"the prefix of an S3 URL follows the key grammar: {error}") from error
        prefix += "/"
    options = _options(parts.query)
    endpoint = _checked_endpoint(options.get("endpoint_url") or _environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    own = _environment("AWS_REGION", "AWS_DEFAULT_REGION") if _hub_namespace(endpoint) is None else _HUB_REGION
    return S3Location(
        url=url,
        bucket=parts.netloc,
        prefix=prefix,
        endpoint_url=endpoint,
        region=options.get("region") or own,
        profile=options.get("profile"),
        addressing_style=_style(options.get("addressing_style", "path" if endpoint else "auto")),
        anon=options.get("anon", "false").lower() in {"1", "true", "yes"},
    )


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS or name in options:
            raise InvalidArgumentError(f"{name[:40]!r} in an S3 URL; it takes {', '.join(_OPTIONS)}, once each")
        options[name] = value
    return options


def _environment(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def _checked_endpoint(endpoint: str | None) -> str | None:
    if endpoint is None:
        return None
    parts = split_url(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or parts.query:
        raise InvalidArgumentError("an S3 endpoint is http(s)://HOST[:PORT][/PATH], without credentials")
    return endpoint


def _hub_namespace(endpoint: str | None) -> str | None:
    parts = split_url(endpoint or "")
    return parts.path.strip("/") if parts.hostname == _HUB_GATEWAY else None


def _style(style: str) -> AddressingStyle:
    if style not in _STYLES:
        raise InvalidArgumentError(f"addressing_style is one of {', '.join(_STYLES)}, got {style[:40]!r}")
    return cast("AddressingStyle", style)
