"""publish, follow, materialize, log and show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltawire.cli.following import route
from deltawire.store.local import LocalStore
from tests.checkpoints import read_checkpoint, write_shard
from tests.cli.conftest import STEPS, Run
from tests.retaining import retain

PUBLISHED = {
    "version", "kind", "state", "state_digest", "changed_elements", "changed_tensors", "elements", "data_bytes",
    "record_bytes", "state_bytes", "bytes_per_changed", "times_smaller", "metadata", "timings",
}  # fmt: skip
FOLLOWED = {
    "version", "previous", "steps", "replanned", "state_digest", "verified", "changed_elements", "elements",
    "bytes_fetched", "metadata", "timings",
}  # fmt: skip


def test_publish_prints_one_object_a_version(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    ran = run("publish", tmp_path / "s", *checkpoints, "-m", "step=3", "-m", "name=x", "-m", 'tags=["a"]', "--json")
    assert (ran.status, ran.err) == (0, "")
    assert [line["version"] for line in ran.lines] == list(range(STEPS))
    assert [line["kind"] for line in ran.lines] == ["snapshot", *["delta"] * (STEPS - 1)]
    for line in ran.lines:
        assert set(line) == PUBLISHED
        assert line["metadata"] == {"step": 3, "name": "x", "tags": ["a"]}
    assert ran.lines[1]["changed_elements"] == 43
    assert ran.lines[1]["bytes_per_changed"] == (ran.lines[1]["data_bytes"] + ran.lines[1]["record_bytes"]) / 43


def test_publish_prints_a_table(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    ran = run("publish", tmp_path / "s", *checkpoints[:2])
    header, first, second = ran.out.splitlines()
    assert header.split()[:2] == ["version", "kind"]
    assert first.split()[:3] == ["0", "snapshot", "100"]
    assert second.split()[:2] == ["1", "delta"]
    assert max(len(line) for line in ran.out.splitlines()) <= 80


def test_publish_goes_on_where_the_stream_stands(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    run("publish", tmp_path / "s", checkpoints[0])
    ran = run("publish", tmp_path / "s", checkpoints[1], "--json")
    assert [(line["version"], line["kind"]) for line in ran.lines] == [(1, "delta")]


def test_publish_a_single_file(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    ran = run("publish", tmp_path / "s", checkpoints[0] / "model.safetensors", "--json")
    assert ran.status == 0
    assert run("show", tmp_path / "s", "0", "--json").json["files"] == []


@pytest.mark.parametrize("every", [0, 1, 2])
def test_anchor_every(run: Run, checkpoints: list[Path], tmp_path: Path, every: int) -> None:
    for path in checkpoints:  # one process each would leave its anchor to finish before the next begins
        run("publish", tmp_path / "s", path, "--anchor-every", every)
    anchored = [
        entry["version"] for entry in run("log", tmp_path / "s", "--json").json["versions"] if entry["anchored"]
    ]
    assert anchored == {0: [], 1: [3, 2, 1], 2: [2]}[every]


def test_absolute(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    run("publish", tmp_path / "s", *checkpoints[:2], "--absolute")
    assert run("log", tmp_path / "s", "--json").json["features"] == ["absolute"]
    codecs = {
        codec for change in run("show", tmp_path / "s", 1, "--json").json["changes"] for codec in change["codecs"]
    }
    assert codecs <= {"gap-set", "dense"}


def test_ranked(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    run("publish", tmp_path / "s", *checkpoints[:2], "--ranked")
    assert run("log", tmp_path / "s", "--json").json["features"] == ["ranked"]
    changes = run("show", tmp_path / "s", 1, "--json").json["changes"]
    assert {codec for change in changes for codec in change["codecs"]} <= {"ranked", "dense"}
    run("publish", tmp_path / "s", checkpoints[2])  # the stream says which codec
    assert run("verify", tmp_path / "s", "--deep").status == 0
    refused = run("publish", tmp_path / "t", checkpoints[0], "--ranked", "--absolute")
    assert refused.status == 2
    assert not (tmp_path / "t").exists()
    run("publish", tmp_path / "plain", checkpoints[0])
    assert run("publish", tmp_path / "plain", checkpoints[1], "--ranked").status == 2


def test_a_state_that_cannot_be_read_leaves_no_stream(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    ran = run("publish", tmp_path / "s", checkpoints[0], tmp_path / "nothing")
    assert ran.status == 2
    assert ran.err.startswith("deltawire: error[invalid_state]: ")
    assert not (tmp_path / "s").exists()


def test_follow_every_version_into_a_directory(
    run: Run, published: Path, checkpoints: list[Path], tmp_path: Path
) -> None:
    first = run("follow", published, tmp_path / "w", "--until", 1, "--every-version", "--json", "--verify")
    assert [line["version"] for line in first.lines] == [1]
    assert read_checkpoint(tmp_path / "w") == read_checkpoint(checkpoints[1])
    rest = run("follow", published, tmp_path / "w", "--until", STEPS - 1, "--every-version", "--json", "--verify")
    assert [(line["previous"], line["version"], line["steps"]) for line in rest.lines] == [
        (1, 2, ["delta"]),
        (2, 3, ["delta"]),
    ]
    for line in first.lines + rest.lines:
        assert set(line) == FOLLOWED
        assert line["verified"] is True
        assert line["metadata"] == {"step": line["version"]}
    assert read_checkpoint(tmp_path / "w") == read_checkpoint(checkpoints[3])
    assert json.loads((tmp_path / "w" / "config.json").read_text())["stage"] == 1


def test_follow_once_in_memory(run: Run, published: Path) -> None:
    ran = run("follow", published, "--once")
    header, line = ran.out.splitlines()
    assert header.split()[:2] == ["version", "by"]
    assert line.split()[:2] == ["3", "anchor+1"]
    assert "ok" not in line
    assert max(len(line) for line in ran.out.splitlines()) <= 80


def test_follow_once_twice_has_nothing_to_do(run: Run, published: Path, tmp_path: Path) -> None:
    run("follow", published, tmp_path / "w", "--once")
    again = run("follow", published, tmp_path / "w", "--once", "--json")
    assert (again.status, again.out) == (0, "")


def test_verify_checks_what_is_held_even_without_an_update(run: Run, published: Path, tmp_path: Path) -> None:
    assert run("follow", published, tmp_path / "d", "--once").status == 0
    weights = next((tmp_path / "d").glob("*.safetensors"))
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    ran = run("follow", published, tmp_path / "d", "--once", "--verify")
    assert ran.status == 1
    assert "state_mismatch" in ran.err


def test_follow_selected_tensors(run: Run, published: Path, tmp_path: Path) -> None:
    run("follow", published, tmp_path / "w", "--once", "--tensors", "*.norm", "--tensors", "pos*")
    assert set(read_checkpoint(tmp_path / "w")) == {"layers.0.norm", "positions"}


def test_follow_times_out(run: Run, published: Path) -> None:
    ran = run("follow", published, "--timeout", "0.3", "--json")
    assert ran.status == 6
    assert [line.get("version") for line in ran.lines] == [3, None]
    assert ran.lines[-1]["error"] == "deadline_exceeded"


def test_follow_nothing_leaves_nothing(run: Run, tmp_path: Path) -> None:
    ran = run("follow", tmp_path / "no-stream", tmp_path / "w")
    assert ran.status == 3
    assert list(tmp_path.iterdir()) == []


def test_once_excludes_until(run: Run, published: Path) -> None:
    assert run("follow", published, "--once", "--until", 2).status == 2


@pytest.mark.parametrize(("version", "number"), [("0", 0), ("1", 1), ("2", 2), ("latest", 3)])
def test_materialize(
    run: Run, published: Path, checkpoints: list[Path], tmp_path: Path, version: str, number: int
) -> None:
    ran = run("materialize", published, version, tmp_path / "deep" / "out", "--json")
    assert ran.status == 0
    assert ran.json["version"] == number
    assert sorted(path.name for path in (tmp_path / "deep" / "out").iterdir()) == ran.json["files"]
    assert set(ran.json["files"]) == {"config.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json"}
    assert read_checkpoint(tmp_path / "deep" / "out") == read_checkpoint(checkpoints[number])


def test_materialize_leaves_nothing_when_it_fails(run: Run, stream: Path, tmp_path: Path) -> None:
    part = next(path for path in stream.rglob("part-*.arrow") if path.parent.name.startswith(f"{1:020}"))
    flipped = bytearray(part.read_bytes())
    flipped[1100] ^= 1  # within its batch: the rest of a part is not read
    part.write_bytes(flipped)
    before = sorted(tmp_path.iterdir())
    ran = run("materialize", stream, 1, tmp_path / "a" / "b", "--json")
    assert ran.status == 1
    assert ran.json["error"] == "digest_mismatch"
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_got_round_is_said(run: Run, stream: Path, checkpoints: list[Path], tmp_path: Path) -> None:
    [shard] = [path for path in stream.rglob("*.safetensors") if path.parent.name.startswith(f"{2:020}")]
    shard.unlink()
    ran = run("follow", stream, "--once")
    assert ran.status == 0
    assert ran.err.startswith("deltawire: warning: the anchor of version 2 could not be used (missing_object: ")
    assert ran.err.endswith(": took the snapshot of version 0\n")
    assert ran.out.splitlines()[1].split()[:2] == ["3", "snapshot+3"]
    ran = run("follow", stream, "--once", "--json")
    assert len(ran.json["replanned"]) == 1
    ran = run("materialize", stream, 2, tmp_path / "out", "--json")
    assert ran.status == 0
    assert len(ran.json["replanned"]) == 1
    assert "warning: the anchor of version 2" in ran.err
    assert read_checkpoint(tmp_path / "out") == read_checkpoint(checkpoints[2])


def test_versions_that_are_not_retained_are_not_shown(run: Run, stream: Path, tmp_path: Path) -> None:
    """RET-3: even where their records are there."""
    retain(LocalStore(stream), 2, 0)
    assert [entry["version"] for entry in run("log", stream, "--json").json["versions"]] == [3, 2, 0]
    assert [entry["version"] for entry in run("log", stream, "-n", 2, "--json").json["versions"]] == [3, 2]
    for ran in (
        run("show", stream, 1),
        run("materialize", stream, 1, tmp_path / "out"),
        run("rollback", stream, "--to", 1),
    ):
        assert ran.status == 3
        assert "version 1 is no longer retained" in ran.err
    assert run("materialize", stream, 0, tmp_path / "out").status == 0


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        (["delta"], "delta"),
        (["delta"] * 3, "3 deltas"),
        (["span"], "span"),
        (["span", "span"], "2 spans"),
        (["span", "delta", "delta"], "3 steps"),
        (["anchor"], "anchor"),
        (["anchor", "span", "delta"], "anchor+2"),
        (["delta", "snapshot", "delta"], "snapshot+1"),
    ],
)
def test_how_a_way_is_shown(steps: list[str], shown: str) -> None:
    assert route(tuple(steps)) == shown


def test_materialize_refuses_a_directory_that_is_there(run: Run, published: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    ran = run("materialize", published, "latest", tmp_path)
    assert ran.status == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_log(run: Run, published: Path) -> None:
    document = run("log", published, "--json").json
    assert set(document) == {
        "url",
        "stream_id",
        "created_at",
        "writers",
        "features",
        "signing_keys",
        "origin",
        "versions",
    }
    assert [entry["version"] for entry in document["versions"]] == [3, 2, 1, 0]
    assert [entry["anchored"] for entry in document["versions"]] == [False, True, False, False]
    assert [entry["kind"] for entry in document["versions"]] == ["delta", "delta", "delta", "snapshot"]
    for entry in document["versions"]:
        assert entry["metadata"] == {"step": entry["version"]}
        assert entry["times_smaller"] == entry["state_bytes"] / (entry["data_bytes"] + entry["record_bytes"])
        assert entry["changed_fraction"] == entry["changed_elements"] / entry["elements"]
    assert [entry["version"] for entry in run("log", published, "-n", 2, "--json").json["versions"]] == [3, 2]


def test_log_for_people(run: Run, published: Path) -> None:
    lines = run("log", published).out.splitlines()
    assert lines[0].split() == ["version", "when", "kind", "changed", "stored", "B/chg", "smaller"]
    assert [line.split()[0] for line in lines[1::2]] == ["3", "2", "1", "0"]
    assert [line.strip() for line in lines[2::2]] == ["step=3", "step=2", "step=1", "step=0"]
    assert "delta+" in lines[3]
    assert max(map(len, lines)) <= 80


def test_log_shows_damage_and_goes_on(run: Run, stream: Path) -> None:
    (stream / f"versions/{2:020}.json").write_text("{")
    (stream / f"versions/{1:020}.json").unlink()
    entries = run("log", stream, "--json").json["versions"]
    assert [entry["version"] for entry in entries] == [3, 2, 1, 0]
    assert [entry.get("error", {}).get("code") for entry in entries] == [
        None,
        "malformed_record",
        "missing_object",
        None,
    ]
    ran = run("log", stream)
    assert (ran.status, ran.err) == (0, "")
    assert "malformed_record: versions/" in ran.out


def test_log_of_an_empty_stream(run: Run, stream: Path) -> None:
    for path in (stream / "versions").iterdir():
        path.unlink()
    (stream / "head.json").unlink()
    assert run("log", stream).out == "the stream has no version yet\n"
    assert run("log", stream, "--json").json["versions"] == []


def test_show_says_where_training_moves(run: Run, published: Path) -> None:
    document = run("show", published, 1, "--json").json
    assert document["parent"] == 0
    assert [(change["name"], change["changed"]) for change in document["changes"]] == [
        ("layers.0.weight", 40),
        ("layers.0.norm", 3),
    ]
    assert sum(change["data_bytes"] for change in document["changes"]) <= document["data_bytes"]
    assert document["tensors"] == 3
    lines = run("show", published, 1).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "43 of 4,168 elements (1.03 %)" in "\n".join(lines)
    assert lines[-2].split()[0] == "40"
    assert lines[-2].endswith("layers.0.weight")


def test_show_a_snapshot_and_the_latest(run: Run, published: Path) -> None:
    assert run("show", published, 0, "--json").json["kind"] == "snapshot"
    assert "snapshot of the whole state" in run("show", published, "0").out
    assert run("show", published, "latest", "--json").json["version"] == 3


def test_show_all(run: Run, tmp_path: Path) -> None:
    for number in range(2):
        state = {f"t{index:02}": ("U8", (4,), bytes([number * index + 1] * 4)) for index in range(30)}
        write_shard(tmp_path / f"{number}.safetensors", state)
    run("publish", tmp_path / "s", tmp_path / "0.safetensors", tmp_path / "1.safetensors")
    few, every = run("show", tmp_path / "s", 1).out, run("show", tmp_path / "s", 1, "--all").out
    assert "... and 9 more with 36 changes; --all shows them" in few
    assert "t29" in every
    assert "t29" not in few


@pytest.mark.parametrize("version", ["-1", "x", "1.0", "\uff19", "1" * 17, ""])
def test_no_version_number(run: Run, published: Path, version: str) -> None:
    assert run("show", "--", published, version).status == 2
