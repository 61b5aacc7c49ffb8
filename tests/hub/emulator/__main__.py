"""Run the emulator as a process of its own: ``python -m tests.hub.emulator --bucket alice/weights``."""

from __future__ import annotations

import argparse
import contextlib
import signal

from tests.hub.emulator.running import HubEmulator


def main() -> None:
    """Serve until a signal comes; the first line says where."""
    parser = argparse.ArgumentParser(prog="python -m tests.hub.emulator")
    parser.add_argument("--port", type=int, default=0, help="0 for a free one")
    parser.add_argument("--bucket", action="append", default=[], help="to create, as namespace/name; may be repeated")
    parser.add_argument("--page-size", type=int, default=1000)
    parser.add_argument("--api-limit", type=int, help="most calls of the API in a window")
    parser.add_argument("--resolver-limit", type=int)
    parser.add_argument("--window-seconds", type=float, default=300)
    parser.add_argument("--xet-token-seconds", type=float, default=3600)
    options = vars(parser.parse_args())
    port, buckets = options.pop("port"), options.pop("bucket")
    with HubEmulator(port=port, **options) as hub:
        for bucket in buckets:
            hub.create(bucket)
        print(hub.endpoint, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
