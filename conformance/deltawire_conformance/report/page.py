"""``report.html``: everything about a run on one page that asks nothing of a network."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from deltawire_conformance.execution import StepLog
from deltawire_conformance.report.markup import as_json, block, prose, text
from deltawire_conformance.results import CaseResult, Profile, Results, Status
from deltawire_conformance.specification import requirement_texts, section_of

_STYLE = Path(__file__).with_name("style.css")
_SAID: dict[Status, tuple[str, str]] = {
    "pass": ("passed", "good"),
    "fail": ("failed", "bad"),
    "error": ("error of the adapter", "bad"),
    "expected_failure": ("expected to fail", "warn"),
    "unexpected_pass": ("passed, but was expected to fail", "bad"),
    "not_claimed": ("not claimed", "none"),
    "not_scored": ("not scored", "none"),
}
_FAILURES: tuple[Status, ...] = ("fail", "error", "unexpected_pass")


def page(results: Results) -> str:
    """The whole page."""
    name = f"{results.adapter.name} {results.adapter.version}"
    parts = [
        f"<h1>{text(name)}<br><span class=dim>Deltawire {text(results.spec_version)} conformance</span></h1>",
        _verdict(results),
        f'<div class="profiles">{"".join(map(_profile, results.profiles))}</div>',
        _facts(results),
    ]
    failed = [case for case in results.cases if case.status in _FAILURES]
    known = [case for case in results.cases if case.status == "expected_failure"]
    body = [_matrix(results), _cases("Failures", failed), _cases("Expected failures", known, quiet=True)]
    body += [_folded("Passed", results.cases, "pass"), _folded("Not scored", results.cases, "not_scored")]
    body += [_folded("Not claimed", results.cases, "not_claimed"), _footer(results)]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>{text(name)}: Deltawire conformance</title>
<style>
{_STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header class="top">
{"".join(parts)}
</header>
<main>
{"".join(body)}
</main>
</body>
</html>
"""


def _verdict(results: Results) -> str:
    counts = results.counts()
    broken = sum(counts[status] for status in _FAILURES)
    good = [profile.role for profile in results.profiles if profile.conforms]
    if broken:
        said, style = f"✗ {broken:,} of {sum(counts.values()):,} cases failed", "bad"
    elif good and len(good) == len(results.profiles):
        said, style = f"✓ Conforms: {', '.join(good)}", "good"
    else:
        said, style = "✗ Does not conform", "bad"
    return f'<p class="verdict {style}">{text(said)}</p>'


def _profile(profile: Profile) -> str:
    share = 100 * profile.passed / profile.scored if profile.scored else 0
    verdict, style = ("✓ conforms", "good") if profile.conforms else ("✗ does not conform", "bad")
    if not profile.scored:
        verdict, style = "no case counts", "none"
    empty = "" if profile.scored else " empty"
    return f"""
<section class="card">
<h3>{text(profile.role.capitalize())}</h3>
<div class="score">{profile.passed:,} <span class="dim">of {profile.scored:,}</span></div>
<div class="bar{empty}" aria-hidden="true"><i style="width: {share:.2f}%"></i></div>
<span class="chip {style}">{verdict}</span>
</section>"""


def _facts(results: Results) -> str:
    adapter = results.adapter
    facts = {
        "Adapter": f"<code>{text(results.command)}</code>",
        "Stores": text(", ".join(results.stores)),
        "Features": text(", ".join(adapter.features) or "none"),
        "Run": f"{text(results.started_at)}, {results.seconds:g} s",
        "Suite": text(f"{results.suite_version}, adapter contract {results.contract}"),
    }
    return f'<dl class="facts">{"".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts.items())}</dl>'


def _matrix(results: Results) -> str:
    cells: dict[tuple[str, str], Counter[Status]] = defaultdict(Counter)
    for case in results.cases:
        cells[case.area, case.store][case.status] += 1
    areas, stores = sorted({case.area for case in results.cases}), sorted({case.store for case in results.cases})
    if not areas:
        return "<h2>Areas</h2><p>No case was run.</p>"
    head = "".join(f'<th scope="col" class="cell">{text(store)}</th>' for store in stores)
    rows = "".join(
        f'<tr><th scope="row">{text(area)}</th>{"".join(_cell(cells[area, store]) for store in stores)}</tr>\n'
        for area in areas
    )
    return f"""<h2>Areas</h2>
<div class="scroll" tabindex="0" role="region" aria-label="Areas by store"><table>
<caption>Cases passed of those that count, by area and store.</caption>
<thead><tr><th scope="col">Area</th>{head}</tr></thead>
<tbody>
{rows}</tbody></table></div>
"""


def _cell(counts: Counter[Status]) -> str:
    counted = sum(count for status, count in counts.items() if status not in {"not_claimed", "not_scored"})
    if not counted:
        return f'<td class="cell none">{"not claimed" if counts["not_claimed"] else "none"}</td>'
    failed = sum(counts[status] for status in _FAILURES)
    style, mark = ("bad", "✗") if failed else ("warn", "!") if counts["pass"] < counted else ("good", "✓")
    return f'<td class="cell {style}">{mark} {counts["pass"]:,} / {counted:,}</td>'


def _cases(title: str, cases: Sequence[CaseResult], *, quiet: bool = False) -> str:
    if not cases:
        return ""
    return f"<h2>{text(title)} ({len(cases):,})</h2>\n{''.join(_case(case, quiet=quiet) for case in cases)}"


def _case(case: CaseResult, *, quiet: bool) -> str:
    said, style = _SAID[case.status]
    problems = "".join(f"<li>{text(problem)}</li>" for problem in case.problems)
    reason = f"<p>{text(case.reason)}</p>" if case.reason else ""
    level = "" if case.level == "must" else '<span class="chip none">should</span>'
    steps = f"{reason}<ul class='problems {style}'>{problems}</ul>" if problems else reason
    return f"""<article{' class="quiet"' if quiet else ""}>
<h3>{text(case.title)}</h3>
<div class="chips"><span class="chip {style}">{text(said)}</span><code>{text(case.id)}</code>
<span class="chip none">{text(case.role)}</span><span class="chip none">{text(case.store)}</span>{level}</div>
{steps}
{"".join(map(_requirement, case.requirements))}
{_steps(case.steps)}
</article>
"""


def _requirement(name: str) -> str:
    words, section = requirement_texts().get(name), section_of(name)
    where = f' <span class="dim">(section {text(section)})</span>' if section else ""
    return (
        f"<blockquote><b>{text(name)}</b>{where}<br>{prose(words or 'SPEC.md has no such requirement.')}</blockquote>"
    )


def _steps(steps: Sequence[StepLog]) -> str:
    if not steps:
        return ""
    *before, last = steps
    shown = f'<ol class="steps" start="{len(steps)}"><li>{_step(last)}</li></ol>'
    if not before:
        return shown
    items = "".join(f"<li>{_step(step)}</li>" for step in before)
    many = f"{len(before):,} steps before" if len(before) > 1 else "The step before"
    return f'<details><summary>{many}</summary><div><ol class="steps">{items}</ol></div></details>\n{shown}'


def _step(step: StepLog) -> str:
    options = {name: value for name, value in step.step.items() if name != "do" and value not in ((), [], {}, None)}
    details = f" <code>{text(as_json(options))}</code>" if options else ""
    parts = [f"<p><b>{text(step.step.get('do', ''))}</b>{details}</p>"]
    if step.arguments:
        parts.append(block("Sent", shlex.join(step.arguments)))
        ended = "it did not end in time" if step.status is None else f"status {step.status}"
        lines = "\n".join(map(as_json, step.output)) or "(nothing on standard output)"
        parts.append(block(f"Came back: {ended}, {step.seconds:.2f} s", lines))
    elif step.output:
        parts.append(block("Came back", "\n".join(map(as_json, step.output))))
    parts.append(block("Standard error", step.stderr))
    return "\n".join(parts)


def _folded(title: str, cases: Iterable[CaseResult], status: Status) -> str:
    chosen = [case for case in cases if case.status == status]
    if not chosen:
        return ""
    items = "".join(
        f"<li><code>{text(case.id)}</code> {text(case.title)}"
        f' <span class="dim">{text(case.store)}{text(f"; {case.reason}" if case.reason else "")}</span></li>\n'
        for case in chosen
    )
    return f"""<details><summary>{text(title)} ({len(chosen):,})</summary><div><ul class="plain">
{items}</ul></div></details>
"""


def _footer(results: Results) -> str:
    return (
        f"<footer>Written by deltawire-conformance {text(results.suite_version)}. The same is in results.json.</footer>"
    )
