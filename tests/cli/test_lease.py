"""``deltawire lease``, and publishing a stream that another holds."""

from __future__ import annotations

from pathlib import Path

from deltawire import Publisher
from tests.cli.conftest import Run


def test_a_stream_that_is_held(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    with Publisher(tmp_path / "s", holder="trainer \x1b[31mone", lease_ttl=1.5) as publisher:
        publisher.publish(checkpoints[0])
        found = run("lease", tmp_path / "s", "--json").json
        assert (found["held"], found["released"], found["epoch"], found["ttl_seconds"]) == (True, False, 0, 1.5)
        assert found["holder"] == "trainer \x1b[31mone"
        assert found["acquired_at"] <= found["renewed_at"]
        text = run("lease", tmp_path / "s").out
        assert "trainer \\x1b[31mone" in text
        assert "1.5 s" in text
        refused = run("publish", tmp_path / "s", checkpoints[1], "--json")
        assert (refused.status, refused.json["error"]) == (5, "lease_held")
        assert "trainer" in refused.json["message"]
        assert "--take-over" in refused.json["hint"]
        taken = run("publish", tmp_path / "s", checkpoints[1], "--take-over", "--ttl", "5", "--json")
        assert taken.lines[0]["version"] == 1
    found = run("lease", tmp_path / "s", "--json").json
    assert (found["held"], found["released"], found["epoch"], found["ttl_seconds"]) == (False, True, 1, 5.0)
    assert "released" in run("lease", tmp_path / "s").out


def test_a_stream_that_nobody_holds(run: Run, published: Path, checkpoints: list[Path], tmp_path: Path) -> None:
    assert run("lease", published, "--json").json["held"] is False
    run("publish", tmp_path / "s", checkpoints[0], "--single-writer")
    found = run("lease", tmp_path / "s", "--json").json
    assert (found["writers"], found["held"], found["holder"]) == ("single", False, None)
    assert "no lease" in run("lease", tmp_path / "s").out


def test_no_stream(run: Run, tmp_path: Path) -> None:
    assert run("lease", tmp_path / "s").status == 3


def test_a_ttl_out_of_range(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    assert run("publish", tmp_path / "s", checkpoints[0], "--ttl", "0").status == 2
    assert not (tmp_path / "s").exists()
