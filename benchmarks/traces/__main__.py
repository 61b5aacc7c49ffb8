"""Make the traces that are not there yet: ``python -m benchmarks.traces [NAME ...]``."""

import argparse

from rich.console import Console

from benchmarks.traces.catalogue import TRACES
from benchmarks.traces.making import make_missing
from benchmarks.traces.store import folder


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traces", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which to make: {', '.join(TRACES)}; all by default")
    options = parser.parse_args()
    if unknown := set(options.names) - set(TRACES):
        parser.error(f"there is no trace called {min(unknown)}")
    console = Console()
    console.print(f"traces in {folder()}")
    make_missing(options.names or list(TRACES), console.print)


if __name__ == "__main__":
    main()
