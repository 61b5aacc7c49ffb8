"""One kind of failure for all that can go wrong between a store and the Hub (SPEC.md section 5.9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltawire.errors import ObjectNotFoundError, StoreDeniedError, StoreError, StoreUnavailableError
from deltawire.store.hub_location import HubLocation

BUCKET_MISSING = "RepoNotFound"
PATH_MISSING = "EntryNotFound"
"""Codes of the Hub's."""
CONTENT_GONE = "ContentGone"
"""Code of our own: a name was found, but not what it refers to, so that it is another's or gone by now."""
STORAGE_REFUSED = "StorageRefused"
"""Code of our own: the storage does not take a token of the Hub's, which a newer one may change."""
OFFLINE = "Offline"
NO_TOKEN = "NoToken"  # noqa: S105 - a code of our own
"""Codes of our own: nothing was sent."""


class HubFailure(Exception):  # noqa: N818 - not an error of ours: callers turn it into one
    """A request that failed, or whose answer makes no sense."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        authenticated: bool = False,
        reset_seconds: float | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = short(message)
        self.authenticated = authenticated
        self.reset_seconds = reset_seconds
        """Of a rate limit: when it ends."""
        self.missing = status == 404 and code == PATH_MISSING
        self.no_bucket = status == 404 and code == BUCKET_MISSING
        self.transient = code in {CONTENT_GONE, STORAGE_REFUSED} or (
            code not in {OFFLINE, NO_TOKEN}
            and (status is None or status in {408, 429} or (status >= 500 and status != 501))
        )
        self.undone = code in {OFFLINE, NO_TOKEN} or (status is not None and status < 500 and status != 408)
        """Whether the Hub is known not to have done what was asked."""
        super().__init__(f"{status or 'no answer'}: {self.message}")

    def as_error(self, what: str, location: HubLocation) -> StoreError:
        """Translate into the error that the store protocol promises."""
        bucket, hub = location.bucket, location.endpoint
        if self.code in _LOCAL:
            return _LOCAL[self.code](self.message)
        if self.no_bucket:
            who = "this token may not see it" if self.authenticated else "no token was found"
            return StoreUnavailableError(
                f"bucket {bucket} does not exist at {hub}, or it is private and {who}",
                hint=f"create it ('hf buckets create {bucket}'), or log in as one who may read it: {_LOGIN}",
            )
        if self.status == 401 and not self.authenticated:
            hidden = f"; bucket {bucket} is private, or does not exist" if self.code == BUCKET_MISSING else ""
            return StoreDeniedError(
                f"{hub} wants a token for {what} in {bucket}, and none was found{hidden}", hint=_LOGIN
            )
        if self.status == 401:
            return StoreDeniedError(
                f"{hub} does not take the token: it has expired, was revoked, or is not one of its own",
                hint=f"make a new one at {hub}/settings/tokens; {_LOGIN}",
            )
        if self.status == 403:
            return StoreDeniedError(
                f"{hub} refused {what} in {bucket}: {self.message}",
                hint=f"use a token that may read or write this bucket, as is needed: {hub}/settings/tokens",
            )
        if self.missing:
            return ObjectNotFoundError(f"{what} does not exist in {bucket}")
        if self.status == 429:
            when = "" if self.reset_seconds is None else f" for another {self.reset_seconds:.0f} s"
            return StoreUnavailableError(
                f"the rate limit of {hub} is used up{when}: {what}",
                hint="wait, publish or poll less often, or use an account with a higher limit",
            )
        return StoreUnavailableError(f"{hub} failed on {what} in {bucket}: {self}")


_LOGIN = "log in with 'hf auth login', or set HF_TOKEN"
_LOCAL: Mapping[str, Callable[[str], StoreError]] = {
    OFFLINE: lambda told: StoreUnavailableError(told, hint="unset HF_HUB_OFFLINE"),
    NO_TOKEN: lambda told: StoreDeniedError(told, hint=_LOGIN),
}
"""What went wrong before anything was sent."""


def short(said: str) -> str:
    """What somebody else says, on one line of bounded length."""
    return " ".join(said[:2000].split())[:300]
