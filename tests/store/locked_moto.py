"""Moto's server with one write at a time: ``python locked_moto.py PORT``.

By itself it looks at a condition first and writes afterwards, with nothing between. Two swaps with one token can then
both succeed, which breaks STO-4 without any fault of the client that is tested.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_WRITING = threading.Lock()
_MOTO = DomainDispatcherApplication(create_backend_app)


def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Handle a request; writes one after the other."""
    if environ["REQUEST_METHOD"] in {"PUT", "POST", "DELETE"}:
        with _WRITING:
            return list(_MOTO(environ, start_response))
    return list(_MOTO(environ, start_response))


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), answer, threaded=True)
