"""Cases on the simulator: a prefix, a log and faults for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from deltawire.store import Store
from deltawire_conformance.case import CaseFolder
from deltawire_conformance.places import Place, Spot, Which, clear, lay
from deltawire_conformance.simulator.rules import RULES
from deltawire_conformance.simulator.server import BUCKET, Simulator, Stage
from deltawire_conformance.simulator.store import SimulatorStore


@dataclass(frozen=True, kw_only=True)
class SimulatorSpot(Spot):
    """A prefix of the simulator."""

    stage: Stage

    def broken_rules(self, rules: Sequence[str]) -> list[str]:
        """See ``Spot.broken_rules``."""
        noted = self.stage.log.since_last()
        return [f"{rule}: {problem}" for rule in rules for problem in RULES[rule].broken(noted)]

    def calm(self) -> None:
        """See ``Spot.calm``."""
        self.stage.faults.calm()


class SimulatorPlace(Place):
    """The simulator as a place for cases.

    Args:
        simulator: running.
        rest: take only the cases that cannot be run on disk.
    """

    kind = "simulator"

    def __init__(self, simulator: Simulator, *, rest: bool = False) -> None:
        self._simulator = simulator
        self._rest = rest
        self.url = simulator.endpoint

    def takes(self, case: CaseFolder) -> bool:
        """See ``Place.takes``."""
        return super().takes(case) and not (self._rest and "disk" in case.case.stores)

    @contextmanager
    def spot(self, case: CaseFolder) -> Iterator[SimulatorSpot]:
        root = f"{case.id}-{uuid4().hex[:8]}"
        urls: dict[Which, str] = {"store": f"s3://{BUCKET}/{root}/store", "source": f"s3://{BUCKET}/{root}/source"}
        stores: dict[Which, Store] = {
            "store": SimulatorStore(self._simulator.objects, f"{root}/store/"),
            "source": SimulatorStore(self._simulator.objects, f"{root}/source/"),
        }
        laid: dict[str, bytes] = {}

        def put(name: str) -> None:
            tree = case.tree(name)
            lay(stores["store"], tree, watched=True)
            laid.update(tree)

        stage = Stage(f"{root}/store/", faults=case.case.faults, lay=put)
        with self._simulator.staged(stage):
            try:
                yield SimulatorSpot(urls=urls, stores=stores, laid=laid, stage=stage)
            finally:
                for store in stores.values():
                    clear(store)
