"""What the faces of the Hub share: buckets, content, who may do what, and what goes wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.hub.emulator.accounts import ACCESS_KEYS, TOKENS, Token
from tests.hub.emulator.asking import Asked, Refused
from tests.hub.emulator.buckets import Bucket, Entry
from tests.hub.emulator.content import Content
from tests.hub.emulator.faults import Faults
from tests.hub.emulator.noting import Log
from tests.hub.emulator.rates import Rates


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the Hub behaves where that may be chosen. README.md says which of it is known."""

    page_size: int = 1000
    """Most entries on a page of a listing."""
    refuse_missing_deletes: bool = True
    """Whether deleting a path that is not there is a failed operation."""
    refuse_checksums: bool = True
    """Whether the gateway refuses uploads with checksums, which over TLS would come as aws-chunked."""
    xet_token_seconds: float = 3600.0
    """How long a token for the CAS is good."""
    api_limit: int | None = None
    """Most calls of the API in a window, by each user; None: no limit."""
    resolver_limit: int | None = None
    """The same of what resolves paths."""
    window_seconds: float = 300.0
    tokens: Mapping[str, Token] = field(default_factory=lambda: TOKENS)
    access_keys: Mapping[str, str] = field(default_factory=lambda: ACCESS_KEYS)
    """Of the gateway: of which token each was made."""

    @property
    def limits(self) -> Mapping[str, int]:
        """The limits that there are."""
        limits = {"api": self.api_limit, "resolvers": self.resolver_limit}
        return {what: limit for what, limit in limits.items() if limit is not None}


class State:
    """All that the emulator knows. Content, faults and the log have locks of their own."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.lock = threading.RLock()
        """Held by whoever looks at buckets."""
        self.buckets: dict[str, Bucket] = {}
        self.tokens = dict(options.tokens)
        self.access_keys = dict(options.access_keys)
        self.content = Content()
        self.faults = Faults()
        self.log = Log()
        self.rates = Rates(options.limits, options.window_seconds)

    def token(self, asked: Asked) -> Token | None:
        """Who asks; None if that is not said. Raises Refused if the token is of no use."""
        if "authorization" not in asked.headers:
            return None
        token = self.tokens.get(asked.bearer or "")
        if token is None or token.expired:
            raise Refused(401, "Invalid credentials in Authorization header")
        return token

    def bucket(self, name: str, token: Token | None, *, write: bool = False) -> Bucket:
        """A bucket that a token may use. Raises Refused; a bucket that it may not see is as one that is not there."""
        namespace = name.partition("/")[0]
        bucket = self.buckets.get(name)
        if bucket is None or (bucket.private and not (token is not None and token.reads(namespace))):
            if token is None:
                raise Refused(401, "Invalid username or password.", "RepoNotFound")
            raise Refused(404, "Bucket not found", "RepoNotFound")
        if write:
            self.may_write(namespace, token)
        return bucket

    def may_write(self, namespace: str, token: Token | None) -> None:
        """See that a token may write in a namespace. Raises Refused."""
        if token is None:
            raise Refused(401, "Invalid username or password.")
        if not token.writes(namespace):
            raise Refused(403, "You don't have the rights to write to this namespace")

    def shown(self, bucket: Bucket, asked: Asked) -> Mapping[str, Entry]:
        """What a request sees of a bucket: perhaps not the newest. The caller holds the lock, or takes a copy."""
        stale = self.faults.staleness(asked)
        with self.lock:
            return bucket.entries if stale is None else bucket.lagging(seconds=stale.seconds, writes=stale.writes)

    def entry(self, digest: str, *, modified_at: float | None = None, content_type: str | None = None) -> Entry | None:
        """A file to be put into a bucket; None if there is no content of that hash."""
        size, now = self.content.size(digest), time.time()
        if size is None:
            return None
        return Entry(
            digest=digest,
            size=size,
            modified_at=now if modified_at is None else modified_at,
            uploaded_at=now,
            content_type=content_type,
        )

    def collect(self) -> None:
        """Forget all content that no bucket has a name for."""
        with self.lock:
            self.content.keep_only(
                {entry.digest for bucket in self.buckets.values() for entry in bucket.entries.values()}
            )
