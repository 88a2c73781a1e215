"""`python -m axon` and `axon` are the command line."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn


def run() -> NoReturn:
    """The process of one command. Garbage is sought in nothing that lives as long as the process, neither first nor last: that
    would take a tenth of a check."""
    gc.disable()
    try:
        from axon.tools.cli import main
    except KeyboardInterrupt:  # as `main` has it, before there is one
        sys.exit(130)
    finally:
        gc.enable()
    status = main()
    gc.freeze()
    sys.exit(status)


if __name__ == "__main__":
    run()
