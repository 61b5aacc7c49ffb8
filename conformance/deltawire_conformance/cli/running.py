"""``deltawire-conformance run``: drives an implementation through the cases."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from deltawire.cli.output import print_json, print_line
from deltawire_conformance import __version__
from deltawire_conformance.adapter import CONTRACT, SECONDS, Adapter, AdapterError
from deltawire_conformance.case import Role, find_cases
from deltawire_conformance.cli.options import AsJson, Strict
from deltawire_conformance.cli.telling import telling
from deltawire_conformance.frozen import read_frozen
from deltawire_conformance.places import Place, StorePlace
from deltawire_conformance.report.files import write_report
from deltawire_conformance.report.plain import plain_results
from deltawire_conformance.resources import CASES
from deltawire_conformance.results import Results, profiles
from deltawire_conformance.runner import Plan, read_expected_failures, run_cases
from deltawire_conformance.simulator.place import SimulatorPlace
from deltawire_conformance.simulator.server import Simulator

SPEC_VERSION = "0.1"
"""The version of SPEC.md whose cases count."""
WORKERS = 2 * (os.cpu_count() or 1)
"""Many cases wait for a lease, or for an answer that comes late."""


def run(  # noqa: PLR0913, PLR0917 - typer makes options of these
    adapter: Annotated[str, typer.Option(metavar="CMD", help="Command line of the adapter (ADAPTER.md).")],
    store: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A folder, s3://…, hf://… or simulator; a fresh folder and simulator."),
    ] = None,
    profile: Annotated[list[str] | None, typer.Option(help="Roles to check; all that the adapter claims.")] = None,
    case: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this case, or this area.")] = None,
    expect_failures: Annotated[Path | None, typer.Option(metavar="FILE", help="Cases known to fail.")] = None,
    seconds: Annotated[float, typer.Option(help="What a call may take.")] = SECONDS,
    workers: Annotated[int, typer.Option(help="Cases at the same time.")] = WORKERS,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the streams of cases.")] = False,  # noqa: FBT002
    report: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write results.json, junit.xml, badge.json and report.html."),
    ] = None,
    strict: Strict = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Drive an implementation through the cases.

    Prints each case that fails, and at the end the score of each profile. Ends with 1 if a case failed that was not
    expected to, or passed that was.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    simulated = not store or "simulator" in store
    if simulated and any(url.startswith("s3://") for url in store or []):
        raise typer.BadParameter("an adapter knows one S3 endpoint: run the simulator and a bucket apart")
    chosen = [found for found in find_cases(CASES) if not case or found.id in case or found.area in case]
    known = [found.id for found in find_cases(CASES)]
    try:
        expected = {} if expect_failures is None else read_expected_failures(expect_failures, known)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    if not chosen:
        typer.echo(f"no case is called {' or '.join(case or ())}", err=True)
        raise typer.Exit(2)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="deltawire-conformance-"))
        places: list[Place] = [StorePlace(url, keep=keep) for url in store or [scratch] if url != "simulator"]
        environment: Mapping[str, str | None] = {}
        if simulated:
            simulator = stack.enter_context(closing(Simulator()))
            places.append(SimulatorPlace(simulator, rest=not store))
            environment = simulator.environment
        try:
            driven = stack.enter_context(closing(Adapter(adapter, environment=environment, seconds=seconds)))
        except (AdapterError, OSError) as error:
            typer.echo(f"adapter: {error}", err=True)
            raise typer.Exit(2) from None
        claimed = driven.description.roles
        # What was asked for and is not there is no success: it is a failure to be told of.
        for role in profile or ():
            if role not in claimed:
                raise typer.BadParameter(f"the adapter does not claim the role {role!r}, but {', '.join(claimed)}")
        roles: list[Role] = [role for role in claimed if not profile or role in profile]
        frozen = frozenset(read_frozen(SPEC_VERSION).cases)
        plan = Plan(roles=roles, frozen=frozen, expected=expected, seconds=seconds, workers=workers)
        total = sum(place.takes(one) for one in chosen for place in places)
        tell = stack.enter_context(telling(total, quiet=as_json))
        found_results = run_cases(chosen, driven, places, plan, tell=tell)
    results = Results(
        suite_version=__version__,
        spec_version=SPEC_VERSION,
        contract=CONTRACT,
        started_at=started.isoformat(timespec="seconds").replace("+00:00", "Z"),
        seconds=round(time.monotonic() - clock, 1),
        adapter=driven.description,
        command=adapter,
        stores=[place.kind for place in places],
        roles=roles,
        cases=found_results,
        strict=strict,
        profiles=profiles(roles, found_results, strict=strict),
    )
    if report is not None:
        write_report(results, report)
    if as_json:
        print_json(plain_results(results))
    else:
        _summary(results, report)
    raise typer.Exit(0 if results.ok else 1)


def _summary(results: Results, report: Path | None) -> None:
    for profile in results.profiles:
        said = "conforms" if profile.conforms else "does not conform"
        style = "bold green" if profile.conforms else "bold red"
        print_line(f"{profile.role}: {profile.passed} of {profile.scored} cases passed; {said}", style=style)
    counts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(results.counts().items()))
    print_line(f"{counts}; {results.seconds} s")
    if report is not None:
        print_line(f"report: {report / 'report.html'}")
