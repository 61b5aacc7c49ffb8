"""``junit.xml``, as CI systems read it."""

from __future__ import annotations

from collections import defaultdict
from xml.etree import ElementTree as ET

from deltawire_conformance.report.plain import plain_text
from deltawire_conformance.results import CaseResult, Results

_FAILED = {"fail", "unexpected_pass"}
_SKIPPED = {"not_claimed", "not_scored", "expected_failure"}


def junit(results: Results) -> bytes:
    """One suite for each area in each store, one test for each case."""
    suites: dict[tuple[str, str], list[CaseResult]] = defaultdict(list)
    for case in results.cases:
        suites[case.store, case.area].append(case)
    root = ET.Element("testsuites", name=plain_text(f"deltawire-conformance: {results.adapter.name}"))
    _count(root, results.cases)
    for (store, area), cases in sorted(suites.items()):
        suite = ET.SubElement(root, "testsuite", name=f"{store}.{area}", timestamp=results.started_at.removesuffix("Z"))
        _count(suite, cases)
        for case in cases:
            _test(suite, case)
    ET.indent(root)
    made: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return made + b"\n"


def _count(element: ET.Element, cases: list[CaseResult]) -> None:
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(case.status in _FAILED for case in cases)))
    element.set("errors", str(sum(case.status == "error" for case in cases)))
    element.set("skipped", str(sum(case.status in _SKIPPED for case in cases)))
    element.set("time", f"{sum(case.seconds for case in cases):.3f}")


def _test(suite: ET.Element, case: CaseResult) -> None:
    test = ET.SubElement(
        suite,
        "testcase",
        classname=plain_text(f"{case.store}.{case.area}"),
        name=plain_text(case.id.partition("/")[2] or case.id),
        time=f"{case.seconds:.3f}",
    )
    said = plain_text(case.problems[0] if case.problems else case.reason or case.status)[:500]
    if case.status in _SKIPPED:
        ET.SubElement(test, "skipped", message=plain_text(f"{case.status.replace('_', ' ')}: {case.reason or said}"))
    elif case.status in _FAILED or case.status == "error":
        broken = ET.SubElement(test, "error" if case.status == "error" else "failure", message=said)
        broken.text = plain_text(
            "\n".join([case.title, f"requirements: {', '.join(case.requirements)}", *case.problems])
        )
        stderr = "\n".join(step.stderr for step in case.steps if step.stderr)
        if stderr:
            ET.SubElement(test, "system-err").text = plain_text(stderr)
