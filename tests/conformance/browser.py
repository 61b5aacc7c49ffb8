"""Debian's Chromium, without a window and without a network."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-headless-shell")
_OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-device-scale-factor=1",
    "--virtual-time-budget=2000",
]  # fmt: skip


def _run(*arguments: str) -> str:
    assert BROWSER is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            [BROWSER, *_OPTIONS, f"--user-data-dir={profile}", *arguments], capture_output=True, timeout=120, check=True
        )
    return done.stdout.decode()


def screenshot(page: Path, image: Path, width: int, height: int, *, dark: bool = False) -> None:
    """Save what a window of this size shows."""
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else ["--blink-settings=preferredColorScheme=1"]
    _run(f"--screenshot={image}", f"--window-size={width},{height}", *scheme, page.as_uri())
    assert image.stat().st_size > 0


def measured(page: Path, script: str, width: int) -> list[Any]:
    """What an expression of JavaScript says in a frame of this width around the page."""
    content = html.escape(page.read_text(encoding="utf-8"), quote=True)
    return output(
        page.with_name(f"measuring-{width}.html"),
        f'<!doctype html><meta charset="utf-8"><iframe style="width:{width}px;height:800px;border:0"'
        f' srcdoc="{content}"></iframe><output></output><script>onload = () => {{'
        f"const page = document.querySelector('iframe').contentDocument;"
        f"document.querySelector('output').textContent = JSON.stringify({script}); }};</script>",
    )


def output(page: Path, content: str) -> list[Any]:
    """What a page writes into its ``output``, as JSON."""
    page.write_text(content, encoding="utf-8")
    found = re.search(r"<output>(.*?)</output>", _run("--dump-dom", page.as_uri()), re.DOTALL)
    assert found is not None
    made: list[Any] = json.loads(html.unescape(found[1]))
    return made
