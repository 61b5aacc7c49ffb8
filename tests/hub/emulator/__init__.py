"""The project's own emulator of Hugging Face buckets, for tests. README.md says what of the Hub it only guesses."""

from tests.hub.emulator.accounts import Token
from tests.hub.emulator.asking import Asked
from tests.hub.emulator.faults import BatchFault, Fault, Stale
from tests.hub.emulator.noting import Noted
from tests.hub.emulator.running import HubEmulator

__all__ = ["Asked", "BatchFault", "Fault", "HubEmulator", "Noted", "Stale", "Token"]
