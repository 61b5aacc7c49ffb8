"""Reports of a run: valid by their schemas, whatever an adapter says."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft202012Validator

from deltawire_conformance.report.badge import badge
from deltawire_conformance.report.files import write_report
from deltawire_conformance.results import Results
from deltawire_conformance.schemas import suite_schemas
from tests.conformance import reports
from tests.spec.document import ROOT

RUNS = {"good": reports.all_good, "failures": reports.with_failures, "hostile": reports.hostile}


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Results:
    return RUNS[request.param]()


@pytest.fixture
def written(run: Results, tmp_path: Path) -> Path:
    write_report(run, tmp_path / "report")
    return tmp_path / "report"


def test_schemas_are_up_to_date() -> None:
    folder = ROOT / "conformance" / "schemas"
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == suite_schemas()
    for text in suite_schemas().values():
        Draft202012Validator.check_schema(json.loads(text))


def test_results_keep_to_their_schema(run: Results, written: Path) -> None:
    found = json.loads((written / "results.json").read_bytes().decode("utf-8"))
    Draft202012Validator(json.loads(suite_schemas()["results.json"])).validate(found)
    assert len(found["cases"]) == len(run.cases)


def test_junit(run: Results, written: Path) -> None:
    root = ET.parse(written / "junit.xml").getroot()
    tests = root.findall("./testsuite/testcase")
    assert len(tests) == len(run.cases) == int(root.get("tests", ""))
    failed = [test for test in tests if test.find("failure") is not None or test.find("error") is not None]
    assert len(failed) == int(root.get("failures", "")) + int(root.get("errors", ""))
    assert len(failed) == sum(case.status in {"fail", "error", "unexpected_pass"} for case in run.cases)


def test_badge() -> None:
    assert badge(reports.all_good()) == {
        "schemaVersion": 1,
        "label": "deltawire 0.1 consumer, producer",
        "message": "conforms, 142/142",
        "color": "brightgreen",
    }
    assert badge(reports.with_failures())["color"] == "orange"
    assert badge(reports.hostile())["color"] == "red"


class Page(HTMLParser):
    """Tags and attributes of a page, and whether they are closed as they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(folder: Path) -> Page:
    found = Page()
    found.feed((folder / "report.html").read_text(encoding="utf-8"))
    found.close()
    assert found.open == []
    return found


def test_page_asks_for_nothing_and_runs_nothing(written: Path) -> None:
    source = (written / "report.html").read_text(encoding="utf-8")
    assert "url(" not in source.partition("</style>")[0]
    assert "@import" not in source
    known = {
        "html", "head", "meta", "title", "style", "body", "header", "main", "section", "article", "footer", "h1", "h2",
        "h3", "h4", "p", "b", "i", "br", "span", "div", "code", "pre", "blockquote", "ul", "ol", "li", "dl", "dt", "dd",
        "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary",
    }  # fmt: skip
    for tag, attributes in page(written).tags:
        assert tag in known
        assert not attributes.keys() & {"src", "href", "srcset", "action", "data"}
        assert not [name for name in attributes if name.startswith("on")]


def test_page_says_what_was_wrong(tmp_path: Path) -> None:
    write_report(reports.with_failures(), tmp_path)
    text = " ".join(page(tmp_path).text.split())
    for wanted in (
        "2 of 145 cases failed",
        "Consumer",
        "112 of 114",
        "a version whose epoch is below its parent's",
        "it was done, but must be refused with broken_chain",
        "The epoch of each MUST NOT be below that of the one before",
        reports.STORE,
        "91c2be3fa0d51e77",
        "INFO applying 1 part",
        "it ended with status 134",
        "called `Result::unwrap()` on an `Err` value: Http(412)",
        "our zstd binding cannot stop early",
        "Passed (142)",
    ):
        assert wanted in text, wanted


def test_what_is_hostile_is_shown_as_text(tmp_path: Path) -> None:
    write_report(reports.hostile(), tmp_path)
    assert "<script>alert(1)</script>" in page(tmp_path).text
    for file in tmp_path.iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\u202a-\u202e]", text), file.name


def test_texts_that_are_long_are_cut(tmp_path: Path) -> None:
    run = reports.with_failures()
    case = next(case for case in run.cases if case.status == "fail")
    case.steps[-1].stderr = "y" * 1_000_000
    write_report(run, tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 200_000
    assert (tmp_path / "results.json").stat().st_size > 1_000_000
