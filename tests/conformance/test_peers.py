"""Two implementations that share no code: the peer passes the suite, and each reads what the other has written."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from deltawire_conformance.adapter import Adapter
from deltawire_conformance.case import find_cases
from deltawire_conformance.places import StorePlace
from deltawire_conformance.resources import CASES
from deltawire_conformance.runner import Plan, run_cases
from tests.conformance.conftest import Hub

CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"
NODE = CONFORMANCE / "peers" / "node"
COMMANDS = {
    "reference": shlex.join([sys.executable, str(CONFORMANCE / "adapters" / "reference" / "adapter.py")]),
    "node": shlex.join(["node", str(NODE / "adapter.mjs")]),
}
SINGLE = json.dumps({"single_writer": True})
INPUT = CASES / "records" / "valid" / "publish-three" / "input"


@pytest.fixture(scope="module")
def installed() -> None:
    """The peer's packages. Where there is no Node.js the peer is not checked, and that is a failure."""
    assert shutil.which("npm"), "Node.js is missing: the second implementation runs on it"
    if not (NODE / "node_modules").is_dir():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=NODE, check=True, capture_output=True)


@pytest.fixture(scope="module")
def adapters(installed: None) -> Iterator[dict[str, Adapter]]:
    made = {name: Adapter(command) for name, command in COMMANDS.items()}
    yield made
    for adapter in made.values():
        adapter.close()


@pytest.mark.lengthy
def test_the_peer_passes_the_suite(adapters: dict[str, Adapter], tmp_path: Path) -> None:
    node = adapters["node"]
    assert {"consumer", "producer"} <= set(node.description.roles)
    results = run_cases(find_cases(CASES), node, [StorePlace(str(tmp_path))], Plan(roles=node.description.roles))
    wrong = [(case.id, case.status, case.problems) for case in results if case.status not in {"pass", "not_claimed"}]
    assert wrong == []


@pytest.mark.lengthy
def test_the_peers_own_tests_pass(installed: None) -> None:
    done = subprocess.run(["npm", "test"], cwd=NODE, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.lengthy
@pytest.mark.parametrize("by", ["api", "gateway"])
def test_the_peer_in_a_bucket_of_the_hub(hub: Hub, installed: None, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """SPEC.md 5.9, with clients that are not the reference's. All cases: ``deltawire-conformance run --store hf://…``."""
    environment = hub.environment if by == "api" else hub.gateway
    place = hub.place if by == "api" else StorePlace("s3://weights/peer")
    monkeypatch.setenv("AWS_ENDPOINT_URL", hub.gateway["AWS_ENDPOINT_URL"])
    areas = {"hub", "single-writer"} if by == "api" else {"following", "pins"}
    chosen = [case for case in find_cases(CASES) if case.area in areas and place.takes(case)]
    with closing(Adapter(COMMANDS["node"], environment=environment)) as node:
        results = run_cases(chosen, node, [place], Plan(roles=node.description.roles))
    assert sum(case.status == "pass" for case in results) >= 20
    wrong = [(case.id, case.status, case.problems) for case in results if case.status not in {"pass", "not_claimed"}]
    assert wrong == []


def _each_reads_and_continues(
    adapters: Mapping[str, Adapter], producer: str, consumer: str, continued_by: str, stream: str, target: str
) -> None:
    published = adapters[producer].call("publish", stream, str(INPUT), SINGLE)
    assert published.status == 0, published
    assert [line["version"] for line in published.output] == [0, 1, 2]
    read = adapters[consumer].call("materialize", stream, target, "1", "{}")
    assert read.status == 0, read
    continued = adapters[continued_by].call("publish", stream, str(INPUT), SINGLE)
    assert continued.status == 0, continued
    followed = adapters[consumer].call("materialize", stream, target, "latest", "{}")
    expected = json.loads((INPUT.parent / "expected" / "2.json").read_bytes())
    assert followed.status == 0, followed
    assert followed.result == {**expected, "version": 5}


@pytest.mark.parametrize("producer", COMMANDS)
@pytest.mark.parametrize("consumer", COMMANDS)
@pytest.mark.parametrize("continued_by", COMMANDS)
def test_each_reads_and_continues_what_the_other_writes(
    adapters: dict[str, Adapter], producer: str, consumer: str, continued_by: str, tmp_path: Path
) -> None:
    stream, target = str(tmp_path / "stream"), str(tmp_path / "target")
    _each_reads_and_continues(adapters, producer, consumer, continued_by, stream, target)


@pytest.mark.parametrize("producer", COMMANDS)
def test_each_reads_and_continues_the_other_on_the_hub(
    hub: Hub, installed: None, producer: str, tmp_path: Path
) -> None:
    other = next(name for name in COMMANDS if name != producer)
    with ExitStack() as stack:
        adapters = {
            name: stack.enter_context(closing(Adapter(command, environment=hub.environment)))
            for name, command in COMMANDS.items()
        }
        stream = f"{hub.url}/by-{producer}"
        _each_reads_and_continues(adapters, producer, other, other, stream, str(tmp_path / "target"))
        _each_reads_and_continues(adapters, other, producer, producer, stream + "-2", str(tmp_path / "target-2"))
