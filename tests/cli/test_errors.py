"""Errors are one line with a code and a hint, and an exit status that says what kind they are."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path

import pytest

from deltawire.cli import errors, units
from deltawire.cli.following import route
from deltawire.cli.looking import bar, short_metadata
from deltawire.cli.publishing import parse_metadata
from deltawire.errors import CODES, InvalidArgumentError, InvalidStateError, MissingDependencyError, WrongBaseError
from tests.cli.conftest import Run

LINE = re.compile(r"deltawire: error\[([a-z_]+)\]: \S.*\n(  hint: \S.*\n)?")


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (("log",), "invalid_argument", 2),
        (("log", "x", "--nonsense"), "invalid_argument", 2),
        (("log", "x", "-n", "many"), "invalid_argument", 2),
        (("nonsense",), "invalid_argument", 2),
        (("--nonsense",), "invalid_argument", 2),
        (("log", ""), "invalid_argument", 2),
        (("log", "nosuchscheme://x/y"), None, 2),
        (("log", "a::b"), "invalid_argument", 2),
        (("publish", "s", "x", "-m", "novalue"), "invalid_argument", 2),
        (("publish", "s", "nothing-here"), "invalid_state", 2),
        (("log", "no-stream"), "stream_not_found", 3),
        (("show", "no-stream", "1"), "stream_not_found", 3),
        (("log", "s3://b/stream"), "invalid_argument", 2),
        (("patch", "a.safetensors", "x", "y"), "invalid_state", 2),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_one_line(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: str | None,
    status: int,
    as_json: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(*arguments, *(["--json"] if as_json else []))
    assert ran.status == status
    match = LINE.fullmatch(ran.err)
    assert match is not None, ran.err
    assert match[1] in CODES
    if code is not None:
        assert match[1] == code
    if as_json:
        assert set(ran.json) == {"error", "message", "hint"}
        assert ran.json["error"] == match[1]
    else:
        assert ran.out == ""


def test_operating_system_errors(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    ran = run("diff", checkpoints[0], checkpoints[1], "-o", tmp_path / "file" / "p", "--json")
    assert ran.status == errors.SYSTEM_STATUS
    assert ran.json["error"] == "os_error"
    assert LINE.fullmatch(ran.err)


def test_disk_full(capsys: pytest.CaptureFixture[str]) -> None:
    errors.report_error(OSError(errno.ENOSPC, "No space left on device"), as_json=False)
    assert "hint: make room" in capsys.readouterr().err


def test_a_hint_of_its_own() -> None:
    assert str(InvalidStateError("text", hint="this")) == "text"
    assert InvalidStateError("text", hint="this").hint == "this"
    assert WrongBaseError("text").hint == WrongBaseError.hint != ""


def test_a_file_that_holds_no_tensors(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"hidden_size": 384}')
    ran = run("publish", tmp_path / "stream", file)
    assert ran.status == 1
    assert "malformed_shard" in ran.err
    assert "config.json is not a safetensors file" in ran.err


def test_version_that_is_not_there(run: Run, published: Path) -> None:
    ran = run("show", published, 99)
    assert ran.status == 3
    assert ran.err == (
        "deltawire: error[version_not_found]: version 99 is not in the store\n"
        "  hint: 'deltawire log URL' lists what is there\n"
    )


def test_every_status_is_documented() -> None:
    documented = {status for status, _ in errors.TABLE}
    assert {error.exit_status for error in CODES.values()} <= documented
    assert errors.__doc__ is not None
    assert documented == {int(number) for number in re.findall(r"^(\d+) ", errors.__doc__, re.MULTILINE)}


def test_no_control_characters_reach_the_terminal(run: Run, checkpoints: list[Path], tmp_path: Path) -> None:
    run("publish", tmp_path / "s", checkpoints[0], "-m", "note=\x1b[31mred\x07[/bold]")
    for ran in (run("log", tmp_path / "s"), run("show", tmp_path / "s", 0)):
        assert "\x1b" not in ran.out
        assert r"note=\x1b[31mred\x07[/bold]" in ran.out
    assert errors.clean("a\nb\x1b\u202e") == "a\\nb\\x1b\\u202e"


def test_demo_without_its_packages(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "deltawire.demo.command", None)
    ran = run("demo", "--json")
    assert ran.status == MissingDependencyError.exit_status
    assert "deltawire[demo]" in ran.err
    assert ran.json["error"] == "missing_dependency"


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        (
            ["a=1", "b=x=y", "c=", "d=null", "e=1.5", "f=01"],
            {"a": 1, "b": "x=y", "c": "", "d": None, "e": 1.5, "f": "01"},
        ),
        (["a=NaN", "b=Infinity"], {"a": "NaN", "b": "Infinity"}),
        ([], {}),
    ],
)
def test_metadata(pairs: list[str], found: dict[str, object]) -> None:
    assert parse_metadata(pairs) == found
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("pairs", [["a"], ["=1"], ["a=1", "a=2"]])
def test_metadata_that_is_none(pairs: list[str]) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_metadata(pairs)


def test_units() -> None:
    assert [units.size(value) for value in (0, 999, 1000, 45_426_432, 2**50)] == [
        "0 B", "999 B", "1.00 kB", "45.4 MB", "1126 TB",
    ]  # fmt: skip
    assert [units.percent(value) for value in (0, 1e-7, 0.00038, 0.0109, 0.5, 0.99999, 1)] == [
        "0 %", "<0.001 %", "0.038 %", "1.09 %", "50.0 %", "99.9 %", "100 %",
    ]  # fmt: skip
    assert [units.seconds(value) for value in (0.0004, 0.0345, 1.2, 12.34, 5000)] == [
        "0 ms", "34 ms", "1.20 s", "12.3 s", "5000 s",
    ]  # fmt: skip
    assert [units.ratio(value) for value in (1, 99.96, 153, 12345)] == ["1.00x", "100x", "153x", "12,345x"]
    assert (units.size(None), units.percent(None), units.ratio(None), units.decimal(None)) == ("-",) * 4


def test_small_texts() -> None:
    assert route(("delta",)) == "delta"
    assert route(("delta",) * 3) == "3 deltas"
    assert route(("anchor",)) == "anchor"
    assert route(("snapshot", "delta", "delta")) == "snapshot+2"
    assert short_metadata({"a": "x", "b": [1, 2]}) == "a=x b=[1, 2]"
    assert [len(bar(value, 100)) for value in (0, 1, 50, 100)] == [0, 1, 4, 8]
