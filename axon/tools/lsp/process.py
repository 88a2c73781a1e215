"""The process of `axon lsp`: a server on standard input and output."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys

from axon.tools.lsp.features import register
from axon.tools.lsp.server import Server
from axon.tools.lsp.stdio import private_streams, serve


def run() -> int:
    """Serve one editor on standard input and output until it says goodbye."""
    logging.getLogger("pygls").addHandler(logging.NullHandler())
    logging.getLogger("pygls").propagate = False
    source, target = private_streams()
    gc.disable()  # see `Server._tidy`
    server = Server()
    register(server)
    status = 0
    try:
        asyncio.run(serve(server.protocol, source, target))
    except SystemExit as exit_:
        status = int(exit_.code or 0)
    except (BrokenPipeError, KeyboardInterrupt):
        status = 1
    sys.stderr.flush()
    return status
