"""The command: ``python -m benchmarks [NAME ...] [--json FILE]``."""

import argparse
import json
import platform
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import apply, building, catching_up, encode, memory, pipeline, startup

BENCHMARKS = {
    "encode": encode.run,
    "apply": apply.run,
    "building": building.run,
    "catching-up": catching_up.run,
    "memory": memory.run,
    "pipeline": pipeline.run,
    "startup": startup.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which to run: {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark called {min(unknown)}")
    table = Table("benchmark", "figure", "value", "what it says", title=f"{platform.processor() or platform.machine()}")
    found = []
    for name in options.names or BENCHMARKS:
        for figure in BENCHMARKS[name]():
            found.append({"benchmark": name, **figure})
            table.add_row(name, figure["figure"], figure["value"], figure["note"])
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
