"""Deltawire: model weights through a bucket.

A trainer publishes each new version of a model into a stream, a prefix in object storage; engines follow it and apply
what changed, bit for bit. SPEC.md says what is in the bucket; this package is its reference implementation.

    with deltawire.Publisher("s3://bucket/run-7") as publisher:
        publisher.publish(model.state_dict())

    with deltawire.Follower("s3://bucket/run-7", model) as follower:
        for update in follower.follow():
            print(update.version)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

# Everything below is imported when it is first used: importing the package costs next to nothing, and needs neither
# torch nor an S3 client.
_HOMES = {
    "AnchorPolicy": "deltawire.producer.anchors",
    "Builder": "deltawire.maintaining.builder",
    "CollectOptions": "deltawire.maintaining.collecting",
    "DeltawireError": "deltawire.errors",
    "FollowTimings": "deltawire.consumer.timings",
    "Follower": "deltawire.consumer.follower",
    "Forked": "deltawire.lineage.fork",
    "Ladder": "deltawire.maintaining.ladder",
    "Limits": "deltawire.limits",
    "Maintainer": "deltawire.maintaining.maintainer",
    "PartOptions": "deltawire.parts.writer",
    "PublishTimings": "deltawire.producer.published",
    "Published": "deltawire.producer.published",
    "Publisher": "deltawire.producer.publisher",
    "RetentionPolicy": "deltawire.maintaining.retaining",
    "Update": "deltawire.consumer.follower",
    "check_origin": "deltawire.lineage.origin",
    "fork": "deltawire.lineage.fork",
    "open_store": "deltawire.store",
    "rollback": "deltawire.lineage.rollback",
}

__all__ = [  # noqa: PLE0604 - the names are strings, out of ruff's sight
    "__version__",
    *_HOMES,
]

if TYPE_CHECKING:
    from deltawire.consumer.follower import Follower as Follower
    from deltawire.consumer.follower import Update as Update
    from deltawire.consumer.timings import FollowTimings as FollowTimings
    from deltawire.errors import DeltawireError as DeltawireError
    from deltawire.limits import Limits as Limits
    from deltawire.lineage.fork import Forked as Forked
    from deltawire.lineage.fork import fork as fork
    from deltawire.lineage.origin import check_origin as check_origin
    from deltawire.lineage.rollback import rollback as rollback
    from deltawire.maintaining.builder import Builder as Builder
    from deltawire.maintaining.collecting import CollectOptions as CollectOptions
    from deltawire.maintaining.ladder import Ladder as Ladder
    from deltawire.maintaining.maintainer import Maintainer as Maintainer
    from deltawire.maintaining.retaining import RetentionPolicy as RetentionPolicy
    from deltawire.parts.writer import PartOptions as PartOptions
    from deltawire.producer.anchors import AnchorPolicy as AnchorPolicy
    from deltawire.producer.published import Published as Published
    from deltawire.producer.published import PublishTimings as PublishTimings
    from deltawire.producer.publisher import Publisher as Publisher
    from deltawire.store import open_store as open_store


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'deltawire' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
