"""rollback and fork, and how log and show tell of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltawire.cli.lineage import parse_source
from deltawire.errors import InvalidArgumentError
from tests.checkpoints import read_checkpoint
from tests.cli.conftest import STEPS, Run


def weights(run: Run, stream: Path, version: object, folder: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    assert run("materialize", stream, version, folder).status == 0
    return read_checkpoint(folder)


def test_rollback(run: Run, stream: Path, tmp_path: Path) -> None:
    old = run("show", stream, 1, "--json").json
    done = run("rollback", stream, "--to", 1, "--json").json
    assert (done["version"], done["rollback_of"], done["kind"]) == (STEPS, 1, "delta")
    assert done["state_digest"] == old["state_digest"]
    assert done["metadata"] == {"step": 1}
    assert weights(run, stream, STEPS, tmp_path / "new") == weights(run, stream, 1, tmp_path / "old")
    versions = run("log", stream, "--json").json["versions"]
    assert [version["rollback_of"] for version in versions] == [1, *[None] * STEPS]
    assert "rollback of version 1; step=1" in run("log", stream).out
    shown = run("show", stream, "latest")
    assert "rollback of   version 1" in shown.out
    assert "rollback of" not in run("show", stream, 1).out
    assert run("verify", stream, "--deep").status == 0
    text = run("rollback", stream, "--to", 2, "-m", "reason=diverged").out
    assert f"{STEPS + 1} (delta)" in text
    assert "version 2" in text
    assert run("show", stream, STEPS + 1, "--json").json["metadata"] == {"reason": "diverged"}


def test_rollback_by_mistake(run: Run, stream: Path, tmp_path: Path) -> None:
    for to, status, code in ((STEPS, 3, "version_not_found"), ("latest", 2, "invalid_argument"), ("x", 2, "")):
        ran = run("rollback", stream, "--to", to, "--json")
        assert ran.status == status
        assert ran.json["error"] == (code or "invalid_argument")
    assert run("rollback", stream).status == 2
    assert run("rollback", tmp_path / "nothing", "--to", 0).status == 3
    assert not (tmp_path / "nothing").exists()
    assert len(run("log", stream, "--json").json["versions"]) == STEPS


@pytest.mark.parametrize(("version", "how"), [(0, "copied"), (1, "rebuilt"), (2, "copied"), (3, "rebuilt")])
def test_fork(run: Run, stream: Path, tmp_path: Path, version: int, how: str) -> None:
    source, target = f"{stream}@{version}", tmp_path / "fork"
    done = run("fork", source, target, "--json").json
    assert done["how"] == how
    assert done["origin"]["version"] == version
    assert done["origin"]["url"] == stream.as_uri()
    assert (done["written_bytes"] == 0) == (how == "copied")
    assert done["metadata"] == {"step": version}
    assert weights(run, target, 0, tmp_path / "new") == weights(run, stream, version, tmp_path / "old")
    document = run("log", target, "--json").json
    assert document["origin"] == done["origin"]
    assert document["stream_id"] == done["stream_id"]
    assert run("log", stream, "--json").json["origin"] is None
    assert f"fork of version {version} of {stream.as_uri()}; step={version}" in run("log", target).out
    assert f"version {version} of {stream.as_uri()}" in run("show", target, 0).out
    assert run("show", target, 0, "--json").json["origin"] == done["origin"]
    assert run("verify", target, "--deep").status == 0
    assert run("fork", source, target, "--check", "--json").json == {"verified": True, "origin": done["origin"]}
    assert "is a fork of" in run("fork", stream, target, "--check").out


def test_fork_for_people(run: Run, stream: Path, tmp_path: Path) -> None:
    ran = run("fork", f"{stream}@latest", tmp_path / "fork", "-m", "lr=1e-4")
    assert f"version {STEPS - 1} of {stream.as_uri()}" in ran.out
    assert "rebuilt from deltas" in ran.out
    assert run("show", tmp_path / "fork", "latest", "--json").json["metadata"] == {"lr": 1e-4}
    assert "copied by the store" in run("fork", f"{stream}@0", tmp_path / "other").out


def test_fork_by_mistake(run: Run, stream: Path, tmp_path: Path) -> None:
    assert run("fork", f"{stream}@{STEPS}", tmp_path / "fork").status == 3
    assert run("fork", f"{stream}@new", tmp_path / "fork").status == 2
    assert run("fork", tmp_path / "nothing", tmp_path / "fork").status == 3
    assert not (tmp_path / "fork").exists()
    assert run("fork", stream, stream).status == 2
    assert run("fork", f"{stream}@1", tmp_path / "fork").status == 0
    assert run("fork", f"{stream}@1", tmp_path / "fork").status == 2
    assert run("fork", f"{stream}@2", tmp_path / "fork", "--check").status == 2
    assert run("fork", tmp_path / "fork", stream, "--check").status == 2
    (stream / "versions" / f"{1:020}.json").unlink()
    assert run("fork", f"{stream}@1", tmp_path / "fork", "--check").status == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://b/run", ("s3://b/run", None)),
        ("s3://b/run@7", ("s3://b/run", 7)),
        ("s3://b/run?region=x@latest", ("s3://b/run?region=x", None)),
        ("sftp://me@host/run", ("sftp://me@host/run", None)),
        ("./a@b/run@3", ("./a@b/run", 3)),
    ],
)
def test_sources(text: str, expected: tuple[str, int | None]) -> None:
    assert parse_source(text) == expected


@pytest.mark.parametrize("text", ["./run@home", "./run@", "./run@-1", "./run@٣"])
def test_sources_that_are_not_clear(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_source(text)
    assert "give a version as well" in caught.value.hint
