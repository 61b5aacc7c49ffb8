"""verify, probe, diff and patch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoints import read_checkpoint, write_shard
from tests.cli.conftest import Run


@pytest.mark.parametrize("deep", [(), ("--deep",)])
def test_verify_a_sound_stream(run: Run, published: Path, deep: tuple[str, ...]) -> None:
    ran = run("verify", published, *deep)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("sound: 4 versions, 1 anchor, ")
    document = run("verify", published, "--json", *deep).json
    assert document["sound"] is True
    assert document["findings"] == []
    assert document["states"] == (5 if deep else 0)


def test_verify_prints_findings_and_ends_with_1(run: Run, stream: Path) -> None:
    part = next(stream.rglob("part-*.arrow"))
    part.write_bytes(part.read_bytes()[:-1])
    key = str(part.relative_to(stream))
    ran = run("verify", stream)
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.splitlines()[0] == f"size_mismatch  {key}"
    assert ran.out.splitlines()[-1].startswith("1 finding: ")
    ran = run("verify", stream, "--json")
    assert ran.status == 1
    assert [(finding["code"], finding["key"]) for finding in ran.json["findings"]] == [("size_mismatch", key)]


def test_verify_no_stream(run: Run, tmp_path: Path) -> None:
    assert run("verify", tmp_path / "none").status == 3


def test_probe(run: Run, tmp_path: Path) -> None:
    ran = run("probe", tmp_path, "--rounds", 1, "--writers", 4)
    assert ran.status == 0
    assert ran.out.splitlines()[-1].endswith(" is fit for any number of writers")
    assert all(" NO " not in line for line in ran.out.splitlines())
    document = run("probe", tmp_path, "--rounds", 1, "--writers", 4, "--json").json
    assert document["fit"] == "many-writers"
    assert {"name", "requirement", "passed", "detail", "needed_by"} == set(document["results"][0])
    assert list(tmp_path.iterdir()) == []


def test_probe_of_a_store_for_one_writer(run: Run, tmp_path: Path) -> None:
    url = f"local://{tmp_path}/store"  # fsspec's own local file system: no conditional writes
    assert run("probe", url, "--rounds", 1, "--writers", 4).status == 1
    ran = run("probe", url, "--rounds", 1, "--writers", 4, "--single-writer", "--json")
    assert (ran.status, ran.json["fit"]) == (0, "single-writer")


def test_diff(run: Run, checkpoints: list[Path]) -> None:
    ran = run("diff", checkpoints[0], checkpoints[2])
    assert ran.status == 0
    assert ran.out.splitlines()[1].endswith("layers.0.weight")
    assert "~ config.json" in ran.out.splitlines()
    document = run("diff", checkpoints[0], checkpoints[2], "--json").json
    assert document["same"] is False
    assert (document["tensors"], document["elements"]) == (3, 4168)
    assert document["changed_elements"] == sum(change["changed"] for change in document["changes"])
    assert document["files"] == [{"name": "config.json", "how": "changed"}]


def test_diff_exit_code(run: Run, checkpoints: list[Path]) -> None:
    assert run("diff", checkpoints[0], checkpoints[1], "--exit-code").status == 1
    ran = run("diff", checkpoints[0], checkpoints[0], "--exit-code")
    assert (ran.status, ran.out) == (0, "no difference in 3 tensors, 4,168 elements\n")


def test_diff_of_other_tensors(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    state = read_checkpoint(checkpoints[0])
    state["extra"] = state.pop("positions")
    dtype, _, data = state["layers.0.norm"]
    state["layers.0.norm"] = (dtype, (8, 8), data)
    write_shard(tmp_path / "b.safetensors", state)
    lines = run("diff", checkpoints[0], tmp_path / "b.safetensors").out.splitlines()
    assert "~ layers.0.norm  F32 [64] -> F32 [8, 8]" in lines
    assert "- positions  I64 [8]" in lines
    assert "+ extra  I64 [8]" in lines
    ran = run("diff", checkpoints[0], tmp_path / "b.safetensors", "-o", tmp_path / "p")
    assert ran.status == 2
    assert "error[invalid_state]" in ran.err
    assert "'extra'" in ran.err
    assert not (tmp_path / "p").exists()


def test_patch(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    made = run("diff", checkpoints[0], checkpoints[2], "-o", tmp_path / "p", "--json").json["patch"]
    assert made["bytes"] == (tmp_path / "p").stat().st_size
    ran = run("patch", checkpoints[0], tmp_path / "p", tmp_path / "out", "--json")
    assert ran.status == 0
    assert ran.json["state_digest"] == made["state_digest"]
    assert ran.json["files"] == ["config.json", "model.safetensors"]
    assert run("diff", tmp_path / "out", checkpoints[2], "--exit-code").status == 0
    assert "state digest" in run("patch", checkpoints[0], tmp_path / "p", tmp_path / "out2").out


def test_patch_of_the_wrong_base(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    run("diff", checkpoints[0], checkpoints[2], "-o", tmp_path / "p")
    before = sorted(tmp_path.iterdir())
    ran = run("patch", checkpoints[1], tmp_path / "p", tmp_path / "out", "--json")
    assert (ran.status, ran.json["error"]) == (1, "wrong_base")
    assert sorted(tmp_path.iterdir()) == before


def test_patch_that_is_none(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    ran = run("patch", checkpoints[0], checkpoints[0] / "config.json", tmp_path / "out")
    assert ran.status == 1
    assert ran.err.startswith("deltawire: error[malformed_record]: ")
    assert run("patch", checkpoints[0], tmp_path / "none", tmp_path / "out").status == 7
