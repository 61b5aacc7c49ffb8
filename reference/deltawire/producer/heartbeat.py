"""Renewing a lease beside the caller's work."""

from __future__ import annotations

from deltawire.heartbeat import Heartbeat
from deltawire.producer.lease import WriterLease


class LeaseHeartbeat(Heartbeat):
    """Renews a lease that is held until it is stopped or lost. LSE-8, LSE-11"""

    def __init__(self, lease: WriterLease) -> None:
        super().__init__(lease, ttl=lease.terms.ttl, name="deltawire-lease")
        self.lease = lease
