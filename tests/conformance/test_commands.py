"""The commands of ``deltawire-conformance`` that need no adapter, and what ``run`` leaves behind."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from authoring.stream import small_stream
from deltawire.store.memory import MemoryStore
from deltawire_conformance.case import find_cases
from deltawire_conformance.cli.app import app
from deltawire_conformance.resources import CASES
from deltawire_conformance.specification import requirement_texts, section_of
from deltawire_conformance.vectors import write_vectors
from tests.spec import document
from tests.spec.document import ROOT

ADAPTER = f"{sys.executable} {ROOT / 'conformance' / 'adapters' / 'reference' / 'adapter.py'}"


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app(list(arguments), prog_name="deltawire-conformance")
    status = ended.value.code
    assert isinstance(status, int)
    return status


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    folder = tmp_path / "stream"
    for key, data in small_stream("commands").objects.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)
    return folder


def test_check(stream: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", str(stream), "--deep") == 0
    assert capsys.readouterr().out.startswith("nothing found: 3 versions")


def test_check_that_finds(stream: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stream / "leases").mkdir()
    (stream / "leases" / "other.json").write_bytes(b"{}")
    assert call("check", str(stream), "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert [(one["requirement"], one["severity"], one["key"]) for one in said["findings"]] == [
        ("KEY-6", "error", "leases/other.json")
    ]


def test_check_is_strict_if_asked(stream: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = json.loads((stream / "head.json").read_bytes()) | {"writer_features": ["absolute"] * 2}
    (stream / "head.json").write_bytes(json.dumps(head).encode())
    assert call("check", str(stream)) == 0
    assert call("check", str(stream), "--strict") == 1
    assert "should  VER-3" in capsys.readouterr().out


def test_check_where_nothing_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", str(tmp_path)) == 3
    assert call("check", "nonsense://x") == 2
    assert "error[stream_not_found]" in capsys.readouterr().err


def test_probe(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("probe", "memory://commands", "--writers", "2", "--rounds", "1", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["fit"] == "many-writers"
    assert {one["requirement"] for one in said["results"]} <= requirement_texts().keys()
    assert list(MemoryStore("commands").list("")) == []


def test_probe_of_a_store_without_conditions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"local://{tmp_path}/x"
    assert call("probe", url, "--writers", "2", "--rounds", "1") == 1
    assert "STO-3" in capsys.readouterr().out
    assert call("probe", url, "--writers", "2", "--rounds", "1", "--single-writer") == 0


def test_vectors(tmp_path: Path) -> None:
    counts = write_vectors(tmp_path / "out")
    out = tmp_path / "out"
    lines = [line.split("  ", 1) for line in (out / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    files = {file.relative_to(out).as_posix(): file for file in out.rglob("*") if file.is_file()}
    assert files.keys() == sums.keys() | {"SHA256SUMS"}
    assert all(hashlib.sha256(files[name].read_bytes()).hexdigest() == digest for name, digest in sums.items())
    for name in document.marked("vectors"):
        rows = json.loads((out / "vectors" / f"{name.replace(' ', '-')}.json").read_bytes())["rows"]
        assert len(rows) == len(document.table("vectors", name))
    assert {path.parent.relative_to(out / "cases") for path in out.glob("cases/*/*/*/case.json")} == {
        case.path.relative_to(CASES) for case in find_cases(CASES)
    }
    assert counts["examples"] == len(document.blocks("schema"))


def test_bytes_of_vectors_are_those_that_records_name(tmp_path: Path) -> None:
    write_vectors(tmp_path / "out")
    vectors, examples = tmp_path / "out" / "vectors", tmp_path / "out" / "examples"

    def digest(file: Path) -> str:
        return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()

    first, second = (json.loads((examples / f"version-{n}.json").read_bytes()) for n in (0, 1))
    assert second["parent"]["digest"] == digest(examples / "version-0.json")
    assert second["delta"]["parts"][0]["digest"] == digest(vectors / "part.arrow")
    assert first["snapshot"]["shards"][0]["digest"] == digest(vectors / "shard.safetensors")
    assert first["tensors"]["digest"] == digest(examples / "tensor_table.json")
    codecs = json.loads((vectors / "codecs.json").read_bytes())["rows"]
    assert codecs[0]["streams"] == {"positions": "010100", "signs": "00", "diff_0": "000000", "diff_1": "000000"}
    refused = json.loads((vectors / "differences.json").read_bytes())["after"]
    assert refused.startswith("Refused with `malformed_row` for a BF16 element")
    assert json.loads((vectors / "seeds.json").read_bytes())["rows"][0]["shape"] == [2, 3]


def test_vectors_overwrite_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("x")
    assert call("vectors", str(tmp_path)) == 7
    assert "not empty" in capsys.readouterr().err


def test_texts_of_requirements() -> None:
    defined = document.requirements()
    assert requirement_texts().keys() == {name for name, _ in defined}
    for name, section in defined:
        assert requirement_texts()[name]
        assert section_of(name).split()[0] == section


def test_run_writes_a_report(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deltawire_conformance", "run", "--adapter", ADAPTER]
    options = ["--case", "records/member-twice", "--report", str(tmp_path / "report"), "--json"]
    done = subprocess.run([*command, *options], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {file.name for file in (tmp_path / "report").iterdir()} == {
        "results.json", "junit.xml", "badge.json", "report.html",
    }  # fmt: skip
    said = json.loads(done.stdout)
    assert said == json.loads((tmp_path / "report" / "results.json").read_bytes())
    assert [case["status"] for case in said["cases"]] == ["pass"]


def test_run_of_no_case() -> None:
    assert call("run", "--adapter", ADAPTER, "--case", "none/such") == 2
