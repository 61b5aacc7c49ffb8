"""Where the streams of cases live: a fresh prefix for each case, on disk or in a bucket."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from uuid import uuid4

from deltawire.store import Store, open_store
from deltawire_conformance.case import CaseFolder, Kind

Which = Literal["store", "source"]


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A place for one case."""

    urls: Mapping[Which, str]
    """What the adapter is told."""
    stores: Mapping[Which, Store]
    """The suite's own access to the same objects."""
    laid: Mapping[str, bytes] = field(default_factory=dict)
    """What faults have put into the store."""

    @property
    def store(self) -> Store:
        """The store of the stream under test."""
        return self.stores["store"]

    def broken_rules(self, rules: Sequence[str]) -> list[str]:
        """Hold the requests since the last call to rules; only the simulator sees them."""
        return [f"{self.urls['store']}: nobody notes what is asked of this store"]

    def calm(self) -> None:
        """Let nothing go wrong any more; only the simulator does."""


class Place(ABC):
    """A store in which cases are run."""

    kind: Kind
    url: str

    @property
    def arbitrates(self) -> bool:
        """Whether it decides between writers that meet: STO-3 and STO-4, which the Hub's API has not got (STO-28)."""
        return self.kind != "hub"

    def takes(self, case: CaseFolder) -> bool:
        """Whether a case is for it."""
        wanted = case.case.arbitration
        return self.kind in case.case.stores and (wanted is None or (wanted == "needed") == self.arbitrates)

    @abstractmethod
    def spot(self, case: CaseFolder) -> AbstractContextManager[Spot]:
        """A fresh place for a case, removed afterwards."""


class StorePlace(Place):
    """Below any URL that the reference's store bindings open; everything is removed again.

    Args:
        url: a folder or a URL, below which nothing else is touched.
        keep: leave what cases have left.
    """

    def __init__(self, url: str, *, keep: bool = False) -> None:
        self.url = url.rstrip("/")
        self.kind = "s3" if url.startswith("s3://") else "hub" if url.startswith("hf://") else "disk"
        if self.kind == "disk":
            self.url = str(Path(self.url).absolute())
        self._keep = keep

    @contextmanager
    def spot(self, case: CaseFolder) -> Iterator[Spot]:
        root = f"{self.url}/{case.id}-{uuid4().hex[:8]}"
        urls: dict[Which, str] = {"store": f"{root}/store", "source": f"{root}/source"}
        if self.kind == "disk":
            for folder in urls.values():
                Path(folder).mkdir(parents=True)
        stores = _Opened(urls)
        try:
            yield Spot(urls=urls, stores=stores)
        finally:
            if not self._keep:
                stores["store"]  # of which the adapter alone may have made use
                for store in stores.values():
                    clear(store)
            for store in stores.values():
                store.close()


class _Opened(dict[Which, Store]):
    """Stores, each opened when it is first asked for: few cases have a source, and a client of S3 is slow to make."""

    def __init__(self, urls: Mapping[Which, str]) -> None:
        self._urls = urls

    def __missing__(self, which: Which) -> Store:
        return self.setdefault(which, open_store(self._urls[which]))


def clear(store: Store) -> None:
    """Remove every object."""
    store.delete_all([info.key for info in store.list("")])


def lay(store: Store, tree: Mapping[str, bytes], *, watched: bool = False) -> None:
    """Put objects into a store; what is there under the same keys is replaced.

    Together, as the Hub counts requests and not objects.

    Args:
        store: where.
        tree: objects by key.
        watched: somebody reads meanwhile, so that records come after all that they name.
    """
    data = [key for key in tree if key.startswith("data/")]
    records = [key for key in tree if not key.startswith("data/")]
    for keys in [data, records] if watched else [data + records]:
        batch = store.write_batch()
        for key in sorted(keys):
            batch.put_stream(key, [tree[key]])
        batch.finish()


def contents(store: Store) -> dict[str, bytes]:
    """Everything in a store."""
    return {info.key: store.get(info.key, max_bytes=info.bytes).data for info in store.list("")}
