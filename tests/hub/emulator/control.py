"""The emulator's own route, for a test that runs it in another process.

==========================================  =======================================================
``POST /_emulator/fault``                   a Fault, in JSON
``POST /_emulator/batch-fault``             a BatchFault
``POST /_emulator/stale``                   a Stale
``POST /_emulator/calm``                    nothing goes wrong any more
``POST /_emulator/collect``                 content without a name is forgotten
``GET /_emulator/counts``                   how many requests of each kind there were
``POST /_emulator/clear``                   count them anew
==========================================  =======================================================
"""

from __future__ import annotations

import msgspec

from tests.hub.emulator.asking import Answer, Asked, Refused, as_json
from tests.hub.emulator.faults import BatchFault, Fault, Stale
from tests.hub.emulator.state import State

_FAULTS: dict[str, type[Fault | BatchFault | Stale]] = {"fault": Fault, "batch-fault": BatchFault, "stale": Stale}


class ControlFace:
    """What a test sets and asks by HTTP."""

    def __init__(self, state: State) -> None:
        self._state = state

    def answer(self, asked: Asked) -> Answer:
        """Do what is asked. Raises Refused."""
        wanted = asked.path.removeprefix("/_emulator/")
        if kind := _FAULTS.get(wanted):
            try:
                self._state.faults.add(msgspec.json.decode(asked.body, type=kind))
            except msgspec.MsgspecError as error:
                raise Refused(400, str(error)) from None
            return as_json({})
        match wanted:
            case "calm":
                self._state.faults.calm()
            case "collect":
                self._state.collect()
            case "counts":
                return as_json(self._state.log.counts())
            case "clear":
                self._state.log.clear()
            case _:
                raise Refused(404, f"There is no {asked.line}")
        return as_json({})
