"""The nearest of what would have been right: of some names to one that is not among them, of legal sizes to one that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable

MAX_DISTANCE = 4096  # how far from a wrong size a legal one is sought


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A name that differs by a slip of the keyboard, or None. Of very many names only the first 5,000 are looked at."""
    from difflib import get_close_matches
    from itertools import islice

    found = get_close_matches(name[:100], islice(known, 5_000), n=1, cutoff=0.7)
    return found[0] if found else None


def one_slip(word: str, known: Iterable[str]) -> str | None:
    """A word that differs by one letter too many, too few, wrong, or exchanged with its neighbour. Short words are no nearer."""
    return next((k for k in known if word != k and _slipped(word, k)), None)


def _slipped(a: str, b: str) -> bool:
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    a, b = a[same:], b[same:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


def legal_sizes(actual: int, fits: Callable[[int], bool]) -> tuple[int, ...]:
    """The nearest sizes below and above one that does not fit: none, one or two."""

    def found(sizes: Iterable[int]) -> list[int]:
        return [next((n for n in sizes if fits(n)), -1)]

    below = found(range(actual - 1, max(actual - MAX_DISTANCE, 0) - 1, -1))
    above = found(range(actual + 1, actual + MAX_DISTANCE))
    return tuple(n for n in below + above if n >= 0)


def nearest_sizes(name: str, sizes: Iterable[int]) -> str:
    """`the nearest that fit are h = 2 and h = 5`; nothing if there are none."""
    shown = [f"{name} = {n:,}" if name else f"{n:,}" for n in sizes]
    return f"the nearest that {'fits is' if len(shown) == 1 else 'fit are'} {' and '.join(shown)}" if shown else ""
