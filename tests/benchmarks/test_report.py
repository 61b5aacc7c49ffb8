"""Plots and tables of figures that are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import report, results_file
from benchmarks.growth import COPY, LAYOUTS
from benchmarks.layouts import IN_FULL
from benchmarks.model import Figure
from benchmarks.peers import PEERS
from benchmarks.traces import TRACES

CHANGED, MODEL = 1000, 200_000


def figure(**data: object) -> Figure:
    return Figure(figure="what", value="how much", note="why", data=data)


def layouts() -> list[Figure]:
    found = []
    for trace in TRACES:
        common = {"trace": trace, "changed_elements": CHANGED, "model_bytes": MODEL}
        for place, (name, peer) in enumerate(PEERS.items()):
            measured = {"copy_seconds": 1.0, "encode_seconds": 2.0, "apply_seconds": 4.0, "encode_memory": None}
            size = {"layout": name, "own": peer.own, "sparse": peer.sparse, "wire_bytes": 1000 * (place + 1)}
            extra = measured | {"apply_memory": 5000} if trace in IN_FULL else {}
            found.append(figure(**common, **size, **extra))
        found += [figure(**common, bound=kind, wire_bytes=700.0) for kind in ("entropy", "entropy given exponents")]
    return found


def growth() -> list[Figure]:
    names = (*LAYOUTS, COPY)
    return [figure(layout=name, model_bytes=[1 << 20, 1 << 21], relative_seconds=[1.0, 2.0]) for name in names]


def catching_up() -> list[Figure]:
    numbers = {"bytes": 5000, "requests": 50, "bytes_with_spans": 500, "requests_with_spans": 5}
    return [figure(behind=behind, **numbers) for behind in (1, 10)]


@pytest.fixture
def results() -> results_file.Results:
    found = {"layouts": layouts(), "growth": growth(), "catching-up": catching_up()}
    return {name: {"machine": "a processor", "figures": figures} for name, figures in found.items()}


def test_everything_is_drawn(results: results_file.Results, tmp_path: Path) -> None:
    results_file.write(tmp_path, results)
    report.draw(tmp_path)
    for name in report.PLOTS:
        assert (tmp_path / f"{name}.svg").stat().st_size > 5000
    text = (tmp_path / "README.md").read_text()
    assert text.count("| Deltawire: ranked | 13.000 | 15.4 | 0.50 | 0.25 | 0 |  | 0.03 |") == len(IN_FULL)
    assert "| entropy given exponents | 0.700 | 285.7 | | | | | |" in text


def test_only_what_was_run_is_drawn(results: results_file.Results, tmp_path: Path) -> None:
    results_file.write(tmp_path, {"growth": results["growth"]})
    report.draw(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "results.json", "growth.svg"}


def test_figures_survive_the_file(results: results_file.Results, tmp_path: Path) -> None:
    assert results_file.read(tmp_path) == {}
    results_file.write(tmp_path, results)
    assert results_file.read(tmp_path) == results
