"""The README's examples run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from deltawire.cli.app import app

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_python(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), namespace)
    assert capsys.readouterr().out
    trained, served = namespace["model"], namespace["engine"]
    assert all((a == b).all() for a, b in zip(trained.parameters(), served.parameters(), strict=True))  # type: ignore[attr-defined]


def test_every_command_is_listed() -> None:
    rows = re.findall(r"^\| (`deltawire .*?) \|", README, re.MULTILINE)
    listed = {command for row in rows for command in re.findall(r"`deltawire (\w+)", row)}
    registered = getattr(typer.main.get_command(app), "commands")  # noqa: B009 - typer brings a click of its own
    assert listed == set(registered)
