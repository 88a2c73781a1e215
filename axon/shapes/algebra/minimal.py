"""What of many things is wrong together: a part from which none can be left out.

Source: A. Zeller, "Yesterday, my program worked. Today, it does not. Why?", 1999.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from axon.shapes.algebra.budget import Budget

T = TypeVar("T")
W = TypeVar("W")


def minimal(items: Sequence[T], found: W, wrong: Callable[[Sequence[T]], W | None], budget: Budget) -> tuple[list[T], W]:
    """Some of the items for which `wrong` still finds something, and what: many are left out at once first, then one by one.

    `found` is what is wrong with all of them. `wrong` charges what it does to the budget; when that is spent, not all that could be
    left out is.
    """
    kept = list(items)
    chunk = max(len(kept) // 2, 1)
    while not budget.spent:
        before, position = len(kept), 0
        while position < len(kept) > 1 and not budget.spent:
            shorter = kept[:position] + kept[position + chunk :]
            less = wrong(shorter) if shorter else None
            if less is None:
                position += chunk
            else:
                kept, found = shorter, less
        if chunk == 1 and len(kept) == before:
            break
        chunk = max(chunk // 2, 1)
    return kept, found
