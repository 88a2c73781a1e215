"""The nearest of some names to one that is not among them."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A name that differs by a slip of the keyboard, or None. Of very many names only the first 5,000 are looked at."""
    from difflib import get_close_matches
    from itertools import islice

    found = get_close_matches(name[:100], islice(known, 5_000), n=1, cutoff=0.7)
    return found[0] if found else None
