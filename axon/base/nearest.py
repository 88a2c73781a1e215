"""The nearest of what would have been right: of some names to one that is not among them, of legal sizes to one that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from axon.base.diagnostics import Edit, Suggestion
from axon.base.source import Span

MAX_DISTANCE = 4096  # how many sizes on either side of a wrong one are tried
MAX_SIZE = 2**31 - 1


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A name that differs by a slip of the keyboard, or None. Of very many names only the first 5,000 are looked at."""
    from difflib import get_close_matches
    from itertools import islice

    found = get_close_matches(name[:100], islice(known, 5_000), n=1, cutoff=0.7)
    return found[0] if found else None


def meant(name: str, known: Iterable[str], place: Span | None = None) -> tuple[Suggestion, ...]:
    """The nearest of some names as what was meant, to be put in a place; none if none is near."""
    return did_you_mean(nearest(name, known), place)


def did_you_mean(near: str | None, place: Span | None = None, shown: str = "{}") -> tuple[Suggestion, ...]:
    """A name as what was meant, if there is one, and as it is `shown`."""
    edits = (Edit(place, near),) if near and place is not None else ()
    return (Suggestion(f"did you mean `{shown.format(near)}`?", edits),) if near else ()


def hint(name: str, known: Iterable[str]) -> str:
    """The end of a message of Python's own about a name that does not exist: `; did you mean 'softmax'?`, or nothing."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def one_slip(word: str, known: Iterable[str]) -> str | None:
    """A word that differs by one letter too many, too few, wrong, or exchanged with its neighbour. Short words are no nearer."""
    return next((k for k in known if word != k and _slipped(word, k)), None)


def _slipped(a: str, b: str) -> bool:
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    a, b = a[same:], b[same:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


def legal_sizes(
    actual: int, fits: Callable[[int], bool], bound: Callable[[int], bool] | None = None, every: tuple[int, int] = (0, 1)
) -> tuple[int, ...]:
    """The nearest sizes below and above one that does not fit: none, one or two.

    0 is one only where no other fits: nobody wants nothing at all. They are sought near it, among `every`: (r, k) are r and all
    that differ from it by a multiple of k. Where there is none and an inequality is broken, also near where that begins to hold:
    `bound`, which `fits` implies, and which holds on either side for no size or for all from some size on.
    """
    r, k = every
    if k == 0:
        return (r,) if 0 <= r <= MAX_SIZE and r != actual and fits(r) else ()

    def found(step: int) -> int | None:
        near = next((n for n in _from(actual + step, step, every) if fits(n)), None)
        if near is None and bound is not None and (begin := edge(actual, step, bound)) is not None:
            near = next((n for n in _from(begin, step, every) if fits(n)), None)
        return near

    below, above = found(-1), found(1)
    if below == 0 and above is not None:
        below = None
    return tuple(n for n in (below, above) if n is not None)


def _from(start: int, step: int, every: tuple[int, int]) -> range:
    """The first sizes of a progression from one on, downwards or upwards."""
    r, k = every
    first = start - (start - r) % k if step < 0 else start + (r - start) % k
    return range(first, max(first - k * MAX_DISTANCE, -1) if step < 0 else min(first + k * MAX_DISTANCE, MAX_SIZE + 1), step * k)


def edge(actual: int, step: int, holds: Callable[[int], bool]) -> int | None:
    """The first size in a direction for which something holds: by doubling the distance, then by bisection."""

    def at(distance: int) -> int:
        return min(max(actual + step * distance, 0), MAX_SIZE)

    if at(1) == actual:
        return None
    far = 1
    while not holds(at(far)):
        if at(far) in (0, MAX_SIZE):
            return None
        far *= 2
    near = far // 2
    while far - near > 1:
        middle = (near + far) // 2
        near, far = (near, middle) if holds(at(middle)) else (middle, far)
    return at(far)


def nearest_sizes(name: str, sizes: Iterable[int]) -> str:
    """`the nearest that fit are h = 2 and h = 5`; nothing if there are none."""
    shown = [f"{name} = {n:,}" if name else f"{n:,}" for n in sizes]
    return f"the nearest that {'fits is' if len(shown) == 1 else 'fit are'} {' and '.join(shown)}" if shown else ""
