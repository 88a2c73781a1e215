"""Limits of time that hold on a busy machine: of processor time, of the code alone, and of the best of a few runs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import process_time
from typing import TypeVar

Result = TypeVar("Result")

_RUNS = 3


def within(seconds: float, run: Callable[[], Result]) -> Result:
    """What a function gives; fails if it takes more processor time than that, each time it is tried.

    What earlier tests left on the heap is not looked through for garbage meanwhile: after 20,000 examples that alone takes seconds.
    """
    gc.collect()
    gc.freeze()
    try:
        took = []
        for _ in range(_RUNS):
            start = process_time()
            result = run()
            took.append(process_time() - start)
            if took[-1] < seconds:
                return result
    finally:
        gc.unfreeze()
    raise AssertionError(f"{min(took):.2f} s of processor time at best, where {seconds} were allowed")
