"""Who may do what."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What a token of the Hub allows."""

    user: str
    organizations: tuple[str, ...] = ()
    """Namespaces that it has rights in, beside the user's own."""
    write: bool = True
    expires_at: float | None = None
    """Seconds since the epoch."""

    @property
    def expired(self) -> bool:
        """Whether it is of no use any more."""
        return self.expires_at is not None and self.expires_at <= time.time()

    def reads(self, namespace: str) -> bool:
        """Whether it may see what is private there."""
        return namespace in {self.user, *self.organizations}

    def writes(self, namespace: str) -> bool:
        """Whether it may change anything there."""
        return self.write and self.reads(namespace)


TOKENS: Mapping[str, Token] = {
    "hf_alice": Token(user="alice", organizations=("team",)),
    "hf_alice_reads": Token(user="alice", organizations=("team",), write=False),
    "hf_alice_expired": Token(user="alice", expires_at=0),
    "hf_bob": Token(user="bob", organizations=("team",)),
    "hf_carol": Token(user="carol"),
}
"""Who is there from the start."""
ACCESS_KEYS: Mapping[str, str] = {f"HFAK{token.removeprefix('hf_').upper()}": token for token in TOKENS}
"""Access keys of the gateway, and the tokens that they were made from."""
SECRET = "not-verified"
"""The secret of every access key: signatures are not looked at."""
