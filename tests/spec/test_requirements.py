"""Requirement identifiers and section numbers: defined once, cited only where they exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.spec import document

PREFIXES = {row["Prefix"]: row["Section"] for row in document.table("table", "prefixes")}
CITATION = re.compile(rf"\b({'|'.join(PREFIXES)})-([0-9]+)\b")
RANGE = re.compile(rf"\b({'|'.join(PREFIXES)})-([0-9]+) to (?:\1-)?([0-9]+)\b")
SECTIONS = re.compile(
    r"(?:SPEC\.md,? |\b[Ss]ections? )((?:[0-9]+(?:\.[0-9]+)*)(?:(?:, | to | and )[0-9]+(?:\.[0-9]+)*)*)"
)
KEYWORD = re.compile(r"\b(MUST|REQUIRED|SHALL|SHOULD|RECOMMENDED|MAY|OPTIONAL)\b")

DEFINED = [name for name, _ in document.requirements()]
SOURCES = sorted(
    path
    for folder, pattern in (
        ("reference", "*.py"),
        ("tests", "*.py"),
        ("tests", "*.pml"),
        ("schemas", "*.json"),
        ("conformance", "*.py"),
    )
    for path in (document.ROOT / folder).rglob(pattern)
)


def _cited(text: str) -> set[str]:
    found = {f"{prefix}-{number}" for prefix, number in CITATION.findall(text)}
    for prefix, first, last in RANGE.findall(text):
        found |= {f"{prefix}-{number}" for number in range(int(first), int(last) + 1)}
    return found


def _sections(text: str) -> set[str]:
    joined = re.sub(r"\s*\n\s*#?\s*", " ", text)
    return {number for group in SECTIONS.findall(joined) for number in re.findall(r"[0-9]+(?:\.[0-9]+)*", group)}


def test_no_identifier_is_defined_twice() -> None:
    assert sorted(DEFINED) == sorted(set(DEFINED))


def test_each_identifier_is_defined_in_the_section_of_its_prefix() -> None:
    for name, section in document.requirements():
        homes = PREFIXES[name.partition("-")[0]].split(", ")
        assert any(section == home or section.startswith(home + ".") for home in homes), f"{name} is in {section}"


def test_every_prefix_is_used() -> None:
    assert {name.partition("-")[0] for name in DEFINED} == set(PREFIXES)


def test_identifiers_of_a_prefix_ascend() -> None:
    for prefix in PREFIXES:
        numbers = [int(name.partition("-")[2]) for name in DEFINED if name.startswith(prefix + "-")]
        assert numbers == sorted(numbers), f"{prefix} is out of order"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(document.ROOT).as_posix())
def test_what_a_file_cites_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not _cited(text) - set(DEFINED)
    if "SPEC" in text and path.parent != Path(__file__).parent:
        assert not _sections(text) - document.headings()


def test_what_the_document_cites_exists() -> None:
    assert not _cited(document.text()) - set(DEFINED)
    assert not _sections(document.prose()) - document.headings()


def test_every_capital_keyword_stands_in_a_requirement() -> None:
    loose = [
        f"{section}: {text[:90]}"
        for section, text in document.paragraphs()
        if KEYWORD.search(text) and not re.match(r"(- |\d+\. )?\*\*[A-Z]{3}-\d+\*\*", text) and section != "2"
    ]
    assert not loose


def test_every_rule_that_code_cites_is_found_by_this_test() -> None:
    assert _cited("see CMT-3 to CMT-5, (KEY-2)") == {"CMT-3", "CMT-4", "CMT-5", "KEY-2"}
    assert _sections('"""x (SPEC.md sections 9.1 to 9.4), SPEC.md 8.3') == {"9.1", "9.4", "8.3"}
