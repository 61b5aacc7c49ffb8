"""Those who keep a stream in order: who collects, and who makes anchors and spans."""

from __future__ import annotations

from typing import Any

from deltawire.errors import (
    ConflictError,
    DeadlineExceededError,
    StoreError,
    StreamNotFoundError,
    VersionNotFoundError,
)
from deltawire.maintaining.builder import Builder
from deltawire.maintaining.collecting import CollectOptions
from deltawire.maintaining.ladder import Ladder
from deltawire.maintaining.maintainer import Maintainer
from deltawire.maintaining.retaining import RetentionPolicy
from deltawire.producer.anchors import AnchorPolicy
from tests.coordination.actors import Actor


class Collector(Actor):
    """Moves the boundary and collects, again and again."""

    kind = "collector"
    places = (
        "after list leases/readers/",
        "before replace retention.json",
        "after replace retention.json",
        "before delete data/",
        "before delete versions/",
        "after list data/",
    )

    def __init__(self, *args: Any, keep_every: int | None = None, wait: bool = False, **options: Any) -> None:
        self.options = CollectOptions(policy=RetentionPolicy(keep_last=2, keep_every=keep_every), wait=wait)
        super().__init__(*args, **options)

    def live(self) -> None:
        maintainer: Maintainer[None]
        with Maintainer(self.wire, self.options, workers=1) as maintainer:
            while True:
                self.rest()
                try:
                    maintainer.once()
                except (StoreError, DeadlineExceededError, ConflictError, StreamNotFoundError):
                    continue


class Builds(Actor):
    """Makes anchors and spans, again and again."""

    kind = "builder"
    places = ("before put_stream ", "before create anchors/", "after create anchors/", "before create spans/")

    def live(self) -> None:
        with Builder(
            self.wire,
            ladder=Ladder(smallest=2, largest=4),
            anchors=AnchorPolicy(every=1, outweigh=None),
            batch=1,
            shard_bytes=40,
            workers=1,
        ) as builder:
            while True:
                self.rest()
                try:
                    builder.run(force=True)
                except (StoreError, DeadlineExceededError, StreamNotFoundError, VersionNotFoundError):
                    continue
