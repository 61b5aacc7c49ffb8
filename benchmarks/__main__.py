"""The command: ``python -m benchmarks [NAME ...] [--json FILE] [--results FOLDER]``."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import (
    apply,
    building,
    catching_up,
    digest,
    encode,
    followers,
    growth,
    layouts,
    many_tensors,
    memory,
    pipeline,
    results_file,
    scale,
    startup,
)
from benchmarks.hub import figures as hub_figures
from benchmarks.model import Figure

BENCHMARKS: dict[str, Callable[[], list[Figure]]] = {
    "layouts": layouts.run,
    "growth": growth.run,
    "encode": encode.run,
    "apply": apply.run,
    "digest": digest.run,
    "building": building.run,
    "catching-up": catching_up.run,
    "memory": memory.run,
    "pipeline": pipeline.run,
    "startup": startup.run,
    "scale": scale.run,
    "many-tensors": many_tensors.run,
    "followers": followers.run,
    "hub": hub_figures.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which to run: {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--results", type=Path, help="keep the figures in this folder, and draw its tables and plots")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark called {min(unknown)}")
    machine = results_file.machine()
    table = Table("benchmark", "figure", "value", "what it says", title=machine)
    found: results_file.Results = {}
    for name in options.names or BENCHMARKS:
        figures = BENCHMARKS[name]()
        found[name] = {"machine": machine, "figures": figures}
        if options.results:  # at once, because all of them take minutes
            results_file.write(options.results, results_file.read(options.results) | {name: found[name]})
        for figure in figures:
            table.add_row(name, figure["figure"], figure["value"], figure["note"])
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    if options.results:
        from benchmarks import report  # noqa: PLC0415 - only plots need matplotlib

        report.draw(options.results)


if __name__ == "__main__":
    main()
