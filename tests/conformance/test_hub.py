"""The suite on an emulated Hub: by its API, for single writers, and by its S3 gateway."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from authoring.stream import small_stream
from deltawire.store import open_store
from deltawire_conformance.case import find_cases
from deltawire_conformance.places import StorePlace, clear, contents, lay
from deltawire_conformance.resources import CASES
from deltawire_conformance.runner import Plan, run_case
from tests.conformance.conftest import Hub
from tests.conformance.test_commands import ADAPTER, call
from tests.conformance.test_reference import reference, run, some_of_each_area
from tests.hub.emulator import Fault

ALL = {case.id: case for case in find_cases(CASES)}
LATE = {"planning", "ranked", "parts", "rows", "codecs", "dtypes", "tables", "snapshots", "signatures"}
"""Areas of consumers that see the same whatever the store is."""
MANY = {"lease", "fencing", "races", "publishing", "collecting"}
"""Areas in which several write."""


@pytest.mark.lengthy
def test_by_the_api(hub: Hub) -> None:
    # Here a few of each area. All of them: deltawire-conformance run --store hf://buckets/…
    chosen = [case for case in some_of_each_area(hub.place, writing=1) if case.area not in LATE]
    with reference(hub.environment) as adapter:
        run(adapter, hub.place, cases=chosen)
    assert {case.case.role for case in chosen} == {"consumer", "producer", "maintainer"}
    assert not any(case.case.arbitration == "needed" for case in chosen)


@pytest.mark.lengthy
def test_by_the_gateway(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", hub.gateway["AWS_ENDPOINT_URL"])
    place = StorePlace("s3://weights/gateway")
    chosen = [case for case in some_of_each_area(place, writing=1) if case.area in MANY]
    with reference(hub.gateway) as adapter:
        run(adapter, place, cases=chosen)
    assert {case.area for case in chosen} == MANY


def test_a_case_costs_few_requests(hub: Hub) -> None:
    objects = small_stream("few", versions=8).objects
    store = open_store(f"{hub.url}/few")
    hub.emulator.log.clear()
    lay(store, objects)
    assert contents(store) == objects
    clear(store)
    assert contents(store) == {}
    # Two tokens, a batch and a look, a list, a list and a batch, a list.
    assert hub.emulator.log.counts()["api"] == 8


def test_what_the_suite_itself_may_not_do_is_no_verdict(hub: Hub) -> None:
    hub.emulator.fault(Fault(match="POST .*/batch", status=403))
    with reference(hub.environment) as adapter:
        result = run_case(ALL["hub/same-letters"], hub.place, adapter, Plan(roles=["consumer"]))
    assert result.status == "error"
    assert "store_denied" in result.problems[0]


def test_a_store_that_is_not_claimed(hub: Hub, tmp_path: Path) -> None:
    described = {
        "contract": 1, "name": "n", "version": "1", "spec_versions": ["0.1"], "roles": ["consumer"], "stores": ["disk"],
    }  # fmt: skip
    script = tmp_path / "adapter"
    script.write_text(f"#!/bin/sh\necho '{json.dumps(described)}'\n")
    script.chmod(0o700)
    asked = ["run", "--adapter", str(script), "--store", hub.url, "--case", "hub/same-letters", "--json"]
    assert call(*asked) == 1


def test_run(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["run", "--adapter", ADAPTER, "--store", hub.url, "--case", "hub/same-letters", "--case", "races"]
    assert call(*asked) == 0
    assert "1 of 1 cases passed" in capsys.readouterr().out
    assert hub.emulator.paths("alice/weights") == []


def test_probe(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("probe", f"{hub.url}/probed", "--writers", "2", "--rounds", "1") == 1
    assert "fit for a single declared writer only" in capsys.readouterr().out
    assert call("probe", f"{hub.url}/probed", "--single-writer", "--writers", "2", "--rounds", "1") == 0


def test_check(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"{hub.url}/checked"
    lay(open_store(url), small_stream("checked").objects)
    assert call("check", url, "--deep") == 0
    assert "3 versions" in capsys.readouterr().out
    open_store(url).delete("versions/00000000000000000001.json")
    assert call("check", url) == 1
