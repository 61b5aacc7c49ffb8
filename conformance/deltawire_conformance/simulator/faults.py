"""What goes wrong, as a case says."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from deltawire_conformance.case import Fault
from deltawire_conformance.simulator.noting import Noted


@dataclass
class _Armed:
    fault: Fault
    seen: int = 0
    awake: bool = field(init=False)

    def __post_init__(self) -> None:
        self.awake = self.fault.after is None


class Faults:
    """The faults of one case, each of which waits for its requests."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._lock = threading.Lock()
        self._armed = [_Armed(fault) for fault in faults]

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._armed = []

    def of(self, request: Noted) -> list[Fault]:
        """What happens to a request, in the order of the case."""
        found = []
        with self._lock:
            for armed in self._armed:
                fault = armed.fault
                if armed.awake and fault.method == request.method and fnmatchcase(request.key, fault.key):
                    armed.seen += 1
                    if fault.skip < armed.seen <= fault.skip + fault.times:
                        found.append(fault)
                # A fault sleeps until the PUT that it waits for has come in, and is awake for what follows that.
                if fault.after is not None and request.method == "PUT" and fnmatchcase(request.key, fault.after):
                    armed.awake = True
        return found
