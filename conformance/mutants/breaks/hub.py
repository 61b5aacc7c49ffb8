"""Bindings by the Hub's API that promise too much, or that keep what they have looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from deltawire.errors import StoreUnavailableError
from deltawire.store import Guarantees, ObjectInfo
from mutants import Mutant
from mutants.patching import replace, wrap


def _kept(find: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    found: dict[str, Any] = {}

    def changed(self: Any, path: str) -> Any:
        if path not in found:
            found[path] = find(self, path)
        return found[path]

    return changed


def _unavailable(_: Any, what: str, __: Any) -> StoreUnavailableError:
    return StoreUnavailableError(what)


def _listed_by_letters(self: Any, prefix: str) -> Iterator[ObjectInfo]:
    wanted = self._location.prefix + prefix
    entries = [entry for page in self._client.tree(wanted.rstrip("/")) for entry in page]
    found = [ObjectInfo(prefix + entry.path[len(wanted) :], entry.size) for entry in entries]
    return iter(sorted(found, key=lambda info: info.key))


MUTANTS = [
    Mutant(
        name="hub-arbitrates",
        what="says that the Hub's API arbitrates between writers",
        patch=replace(
            "deltawire.store.hub:HubStore.guarantees", by=Guarantees(conditional_create=True, compare_and_swap=True)
        ),
        caught_by=("single-writer/not-declared", "single-writer/parent-replaced"),
    ),
    Mutant(
        name="hub-keeps-lookups",
        what="keeps what it has looked up",
        patch=wrap("deltawire.store.hub_client:HubClient.find", by=_kept),
        caught_by=("hub/gone",),
    ),
    Mutant(
        name="hub-lists-by-letters",
        what="takes all that the Hub lists for what lies below the prefix",
        patch=replace("deltawire.store.hub:HubStore.list", by=_listed_by_letters),
        caught_by=("hub/same-letters",),
    ),
    Mutant(
        name="hub-nothing-is-failure",
        what="reports a missing path as a store that fails",
        patch=replace("deltawire.store.hub_client:HubFailure.as_error", by=_unavailable),
        caught_by=("hub/nothing-there",),
    ),
]
