"""Limits of time that hold on a busy machine: of processor time, of the code alone, and of the best of a few runs.

What earlier tests left on the heap is not looked through for garbage meanwhile: late in the suite that alone takes seconds.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import TypeVar

Result = TypeVar("Result")

_RUNS = 3


@contextmanager
def uncollected() -> Iterator[None]:
    """No looking for garbage while this lasts."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def at_most(seconds: float, what: str = "this") -> Iterator[None]:
    """Fails if the block, run but once, takes more processor time than that."""
    with uncollected():
        start = process_time()
        yield
        took = process_time() - start
    assert took < seconds, f"{took:.2f} s of processor time, where {seconds} were allowed: {what}"


def within(seconds: float, run: Callable[[], Result]) -> Result:
    """What a function gives; fails if it takes more processor time than that, each time it is tried."""
    took = []
    for _ in range(_RUNS):
        spent, result = timed(run)
        took.append(spent)
        if spent < seconds:
            return result
    raise AssertionError(f"{min(took):.2f} s of processor time at best, where {seconds} were allowed")


def timed(run: Callable[[], Result]) -> tuple[float, Result]:
    """The processor time that a function takes, in seconds, and what it gives."""
    with uncollected():
        start = process_time()
        result = run()
        return process_time() - start, result
