"""The emulator of the Hub's buckets with one bucket, and who asked it for what."""

import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from deltawire.format import keys
from tests.hub.emulator import Asked, Fault, HubEmulator

Way = Literal["emulated Hub API", "emulated S3 gateway"]
"""How a bucket is reached."""
Party = Literal["publisher", "follower"]
PINS = "batch of pins"
"""What a batch that writes a reader's pin is counted as."""
WAYS: tuple[Way, ...] = ("emulated Hub API", "emulated S3 gateway")

_BUCKET = "team/weights"
_STREAM = "stream"
_TOKENS: Mapping[Party, str] = {"publisher": "hf_alice", "follower": "hf_bob"}
_WHO: Mapping[str, Party] = {
    "hf_alice": "publisher",
    "hf_bob": "follower",
    "HFAKALICE": "publisher",
    "HFAKBOB": "follower",
}
_ACCESS_KEY = re.compile(r"Credential=([^/,]+)/")
_PIN = f'"path":"{_STREAM}/{keys.PINS}'.encode()
_ALWAYS = 1 << 60


class Tally:
    """Requests by party, kind and what they were for; those to the storage behind the Hub tell no party."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter[tuple[Party | None, str, str]]()

    def note(self, asked: Asked) -> None:
        """Count a request."""
        with self._lock:
            self._counts[_party(asked), asked.kind, _purpose(asked)] += 1

    def take(self) -> "Tally":
        """What was counted since the last time."""
        with self._lock:
            taken = Tally()
            taken._counts, self._counts = self._counts, Counter()
        return taken

    def add(self, other: "Tally") -> None:
        """Count what another one has counted too."""
        self._counts += other._counts  # noqa: SLF001 - of the same class

    def count(self, kind: str, party: Party | None = None, what: str = "") -> int:
        """How many requests there were.

        Args:
            kind: as the emulator names them: api, resolve, cas, bytes, s3.
            party: who sent them; None for anybody.
            what: with what their purpose begins.
        """
        return sum(
            number
            for (who, kind_of, purpose), number in self._counts.items()
            if kind_of == kind and party in {None, who} and purpose.startswith(what)
        )

    def purposes(self, kind: str, each: float, party: Party | None = None) -> str:
        """What requests of a kind were for, and how many for each of so many versions, or minutes."""
        found = Counter[str]()
        for (who, of, purpose), number in self._counts.items():
            if of == kind and party in {None, who}:
                found[purpose] += number
        return ", ".join(f"{number / each:.3g} {purpose}" for purpose, number in sorted(found.items()))


class Hub:
    """A running emulator."""

    def __init__(self, emulator: HubEmulator) -> None:
        self.emulator = emulator
        self.tally = Tally()
        emulator.create(_BUCKET)
        emulator.before("", self.tally.note, times=_ALWAYS)

    def url(self, way: Way) -> str:
        """Of the stream."""
        if way == "emulated Hub API":
            return f"hf://buckets/{_BUCKET}/{_STREAM}"
        namespace, _, name = _BUCKET.partition("/")
        return f"s3://{name}/{_STREAM}?endpoint_url={self.emulator.s3_endpoint(namespace)}"

    def environment(self, party: Party) -> dict[str, str]:
        """Of a process that is a party."""
        return self.emulator.environment(_TOKENS[party])

    def delay(self, seconds: float) -> None:
        """Let every request wait for so long, from now on."""
        self.emulator.fault(Fault(match="", times=_ALWAYS, delay=seconds))

    def put(self, key: str, data: bytes) -> None:
        """Place an object of the stream, without a request."""
        self.emulator.write(_BUCKET, f"{_STREAM}/{key}", data)


@contextmanager
def emulated() -> Iterator[Hub]:
    """Run the emulator, in threads of this process."""
    with HubEmulator() as emulator:
        yield Hub(emulator)


def _party(asked: Asked) -> Party | None:
    key = _ACCESS_KEY.search(asked.headers.get("authorization", ""))
    return _WHO.get(key[1] if key else asked.bearer or "")


def _purpose(asked: Asked) -> str:
    """The route of the API, or the verb and the folder of an object."""
    if asked.kind == "api":
        route = asked.path.removeprefix(f"/api/buckets/{_BUCKET}/").partition("/")[0]
        return PINS if _PIN in asked.body else route
    if asked.kind in {"cas", "bytes"}:
        return asked.method
    _, _, key = asked.path.partition(f"/{_STREAM}/")
    return f"{asked.method} {key.partition('/')[0]}"
