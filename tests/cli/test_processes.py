"""The command line as a process: pipes, signals, two of them over one stream, and how fast help comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from deltawire import Publisher
from tests.checkpoints import read_checkpoint
from tests.cli.conftest import STEPS

COMMAND = [sys.executable, "-m", "deltawire"]
COMMANDS = ["publish", "follow", "materialize", "log", "lease", "show", "verify", "probe", "diff", "patch"]


def environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "80", "PYTHONWARNINGS": "error"}


def start(arguments: Sequence[object]) -> subprocess.Popen[str]:
    # A shell that started the tests in the background left interrupts ignored, and children inherit that.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
    finally:
        signal.signal(signal.SIGINT, inherited)


def test_follow_while_another_process_publishes(checkpoints: list[Path], tmp_path: Path) -> None:
    stream = tmp_path / "s"
    first = start(["publish", stream, checkpoints[0]])
    assert first.communicate(timeout=60)[1] == ""
    options = ["--until", STEPS - 1, "--every-version", "--verify", "--interval", "0.02", "--timeout", "60", "--json"]
    follower = start(["follow", stream, tmp_path / "w", *options])
    assert follower.stdout is not None
    line = json.loads(follower.stdout.readline())  # it follows: a line comes as soon as a version is held
    assert line["version"] == 0
    publisher = start(["publish", stream, *checkpoints[1:], "--json"])
    published, errors = publisher.communicate(timeout=60)
    assert (publisher.returncode, errors) == (0, "")
    followed, errors = follower.communicate(timeout=60)
    assert (follower.returncode, errors) == (0, "")
    ours = [(line["version"], line["state_digest"]) for line in map(json.loads, followed.splitlines())]
    assert ours == [(line["version"], line["state_digest"]) for line in map(json.loads, published.splitlines())]
    assert read_checkpoint(tmp_path / "w") == read_checkpoint(checkpoints[-1])


def test_interrupted(published: Path) -> None:
    follower = start(["follow", published])
    assert follower.stdout is not None
    follower.stdout.readline()
    follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    _, errors = follower.communicate(timeout=30)
    assert follower.returncode == 130
    assert errors.strip() == "deltawire: interrupted"


def test_reader_that_goes_away(published: Path) -> None:
    process = start(["log", published, "--json"])
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=30), errors) == (141, "")


def test_reader_that_goes_away_in_the_middle(stream: Path, checkpoints: list[Path]) -> None:
    process = start(["follow", stream, "--json", "--interval", "0.02"])
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    with Publisher(stream) as publisher:
        publisher.publish(checkpoints[0])  # the next line has no reader
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=30), errors) == (141, "")


def test_error_of_a_process(tmp_path: Path) -> None:
    process = start(["log", tmp_path / "none", "--json"])
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 3
    assert json.loads(output)["error"] == "stream_not_found"
    assert len(errors.splitlines()) == 2


def test_help_needs_nothing_heavy() -> None:
    """Whatever was imported stays, so one process shows it of one command after the other."""
    script = """
import io, json, sys
from contextlib import redirect_stdout
from deltawire.cli.app import app

heavy = {"numpy", "pyarrow", "numba", "torch", "fsspec", "msgspec", "s3fs", "huggingface_hub", "hf_xet", "httpx2"}
for arguments in json.load(sys.stdin):
    with redirect_stdout(io.StringIO()) as said:
        try:
            app(arguments, prog_name="deltawire")
        except SystemExit as done:
            assert not done.code, (arguments, done.code)
    assert not heavy & set(sys.modules), (arguments, heavy & set(sys.modules))
    print(json.dumps(said.getvalue()))
"""
    asked = [[], ["--help"], *[[command, "--help"] for command in COMMANDS], ["--version"]]
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(asked), capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    for arguments, said in zip(asked, map(json.loads, done.stdout.splitlines()), strict=True):
        assert said
        assert max(len(line) for line in said.splitlines()) <= 80
        if arguments and arguments[0] in COMMANDS:
            assert "Examples" in said
            assert "--json" in said
