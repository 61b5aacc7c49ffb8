"""How ``report.html`` looks in a real browser. New pictures: ``python -m tests.conformance.test_report_screenshot``."""

from __future__ import annotations

import base64
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from deltawire_conformance.report.files import write_report
from tests.conformance import browser, reports

PICTURES = Path(__file__).parent / "screenshots"
IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}
pytestmark = pytest.mark.skipif(browser.BROWSER is None and not IN_CI, reason="there is no Chromium here")


@dataclass(frozen=True)
class View:
    """One look at one report."""

    name: str
    report: str
    width: int
    height: int
    dark: bool = False

    @property
    def picture(self) -> Path:
        return PICTURES / f"{self.name}.png"

    def take(self, folder: Path, image: Path) -> None:
        write_report({"passes": reports.all_good, "failures": reports.with_failures}[self.report](), folder)
        browser.screenshot(folder / "report.html", image, self.width, self.height, dark=self.dark)


VIEWS = [
    View("failures", "failures", 1280, 1800),
    View("failures-narrow", "failures", 400, 2200),
    View("passes-dark", "passes", 1280, 1050, dark=True),
]

_COMPARE = """
const cells = 48, rows = 48;
function brightness(image) {
  const canvas = document.createElement('canvas');
  canvas.width = cells; canvas.height = rows;
  const context = canvas.getContext('2d');
  context.imageSmoothingQuality = 'high';
  context.drawImage(image, 0, 0, cells, rows);
  const data = context.getImageData(0, 0, cells, rows).data;
  return Array.from({length: cells * rows}, (_, at) => (data[4 * at] + data[4 * at + 1] + data[4 * at + 2]) / 3);
}
onload = () => {  // both pictures are there by then
  const [one, other] = document.images;
  const before = brightness(one), now = brightness(other);
  const mean = before.reduce((sum, value, at) => sum + Math.abs(value - now[at]), 0) / before.length;
  const same = one.naturalWidth === other.naturalWidth && one.naturalHeight === other.naturalHeight;
  document.querySelector('output').textContent = JSON.stringify([same, mean]);
};
"""
FAR = 4.0
"""Mean difference of brightness, of 255, beyond which two pictures do not show the same. Another font makes about 1,
a lost layout or ground 9."""


def difference(one: Path, other: Path, folder: Path) -> float:
    """Compared coarsely, by the browser itself: no two machines have the same fonts."""
    sources = (base64.b64encode(path.read_bytes()).decode() for path in (one, other))
    images = "".join(f'<img src="data:image/png;base64,{source}">' for source in sources)
    text = f"<!doctype html>{images}<output></output><script>{_COMPARE}</script>"
    same, mean = browser.output(folder / "compare.html", text)
    assert same, "the pictures are not of the same size"
    return float(mean)


def test_there_is_a_browser() -> None:
    """In CI its absence is a failure: a check that does not run proves nothing."""
    assert browser.BROWSER is not None


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_looks_as_it_did(view: View, tmp_path: Path) -> None:
    view.take(tmp_path, tmp_path / "now.png")
    assert difference(view.picture, tmp_path / "now.png", tmp_path) < FAR


def test_other_pages_are_told_apart(tmp_path: Path) -> None:
    """So that the test above cannot pass for any page."""
    write_report(reports.hostile(), tmp_path)
    browser.screenshot(tmp_path / "report.html", tmp_path / "now.png", VIEWS[0].width, VIEWS[0].height)
    assert difference(VIEWS[0].picture, tmp_path / "now.png", tmp_path) > FAR


_FACTS = """[
  page.documentElement.scrollWidth,
  [...page.querySelectorAll('h1, h2, h3, p, li, pre, table, .card, .chip')].filter(node => {
    const box = node.getBoundingClientRect();
    const width = page.documentElement.clientWidth;
    return box.width && !node.closest('.scroll') && (box.left < 0 || box.right > width + 0.5);
  }).length,
  page.querySelectorAll('.card').length,
  page.querySelectorAll('article').length,
  page.querySelectorAll('details[open]').length,
  parseFloat(page.defaultView.getComputedStyle(page.body).fontSize),
]"""


@pytest.mark.parametrize("width", [320, 400, 768, 1280])
def test_nothing_overflows(width: int, tmp_path: Path) -> None:
    write_report(reports.with_failures(), tmp_path)
    scroll, outside, cards, articles, opened, size = browser.measured(tmp_path / "report.html", _FACTS, width)
    assert (scroll, outside) == (width, 0)
    assert (cards, articles, opened) == (2, 3, 0)
    assert size >= 15


def test_nothing_overflows_when_an_adapter_wants_it(tmp_path: Path) -> None:
    write_report(reports.hostile(), tmp_path)
    assert browser.measured(tmp_path / "report.html", _FACTS, 400)[:2] == [400, 0]


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for view in VIEWS:
        with tempfile.TemporaryDirectory() as folder:
            view.take(Path(folder), view.picture)


if __name__ == "__main__":
    main()
