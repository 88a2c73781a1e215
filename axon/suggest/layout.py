"""Accesses in the order of another layout: `x[b, c, i + u, j + v]` of an image [b, h, w, c].

That is one mistake in several subscripts. By its sizes alone an exchange of two of them may fit too, and would turn the picture.
So each index goes to the dimension that has its name, or the size of what it indexes elsewhere, and the others keep their order:
the access is written so, or the annotation in the order of the access.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from axon.base.diagnostics import Change, Edit, Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.origin import Trail
from axon.explain.places import single
from axon.explain.quote import fitting, shown
from axon.shapes.dimension import Dim
from axon.suggest.written import within
from axon.types import typed as T

_MIN_RANK = 3
_WORD = re.compile(r"[A-Za-z_]\w*")


def in_order(access: T.Access, at: Span, trail: Trail) -> Iterator[Suggestion]:
    """An access that is refused for its index at a place, in the order of the dimensions; or these in the order of the access."""
    spans, sizes = single(access), trail.sizes(access.base.type)
    several = len(spans) == len(sizes) >= _MIN_RANK  # of two, an exchange is all there is
    order = _order(access, spans, sizes, trail) if at in spans and several else None
    if order is None or order[spans.index(at)] == spans.index(at):
        return
    texts = [" ".join(s.text.split()) for s in spans]
    edits = tuple(Edit(spans[n], texts[k]) for n, k in enumerate(order) if n != k)
    listed = ", ".join(texts[k] for k in order)
    what = "swap the indices" if len(edits) == 2 else "put the indices in this order"
    text = fitting(lambda most: f"{what}: `{shown(access.base.span, most)}[{listed}]`")
    windows = any(_WORD.fullmatch(e.text) is None for e in edits)  # a window asks for its size wherever it moves
    if len(edits) == 2 and not windows:  # two indices exchanged, which is tried in any case
        return
    yield Suggestion(text, edits, asks=windows, change=Change.ARRANGED)
    written = [trail.of(access.base, n) for n in range(len(sizes))]
    places = [o.span for o in written if o is not None and o.kind == "annotation"]
    first, last = (places[0], places[-1]) if len(places) == len(sizes) else (at, at)
    whole = Span(first.file, first.start, last.end)
    if trail.around(whole) == whole or len({p.start for p in places}) < len(places):
        return
    if re.sub(r"\s", "", whole.text) == re.sub(r"\s", "", ",".join(p.text for p in places)):  # they stand in one pair of brackets
        turned = ", ".join(places[order.index(n)].text for n in range(len(order)))
        shown_ = within(trail.around(whole), whole).replace("{}", turned)
        yield Suggestion(f"make it `{shown_}`", (Edit(whole, turned),), asks=windows, change=Change.ARRANGED)


def _order(access: T.Access, spans: Sequence[Span], sizes: Sequence[Dim], trail: Trail) -> list[int] | None:
    """Which subscript belongs to each dimension; None where no name and no size tells."""
    names = [size.symbol.name if size.symbol is not None else "" for size in sizes]
    texts = [s.text for s in spans]
    placed: dict[int, int] = {}  # the subscript of a dimension
    for n, name in enumerate(names):
        if names.count(name) == texts.count(name) == 1:
            placed[n] = texts.index(name)
    for k, span in enumerate(spans):
        own = None if k in placed.values() else trail.index_at(span)
        elsewhere = set(trail.indexed_elsewhere(own, access)) if own is not None else set()
        fitting_ = [n for n, size in enumerate(sizes) if n not in placed and size in elsewhere]
        if len(elsewhere) == 1 == len(fitting_):
            placed[fitting_[0]] = k
    free = [n for n in range(len(sizes)) if n not in placed]
    rest = [k for k in range(len(spans)) if k not in placed.values()]
    if not placed or (left := _rest(rest, free, [k for k in rest if _is_window(spans[k], access, trail)])) is None:
        return None
    placed |= left
    order = [placed[n] for n in range(len(sizes))]
    return order if order != sorted(order) else None


def _rest(rest: list[int], free: list[int], windows: list[int]) -> dict[int, int] | None:
    """The subscripts that nothing places, in their order; of a window side by side, if need be out of the others' order."""
    plain = dict(zip(free, rest, strict=True))
    where = [n for n, k in plain.items() if k in windows]
    if len(where) < 2 or where[-1] - where[0] == len(where) - 1:
        return plain
    runs = [free[n : n + len(windows)] for n in range(len(free) - len(windows) + 1)]
    runs = [run for run in runs if run[-1] - run[0] == len(run) - 1]
    if len(runs) != 1:
        return None
    others = zip((n for n in free if n not in runs[0]), (k for k in rest if k not in windows), strict=True)
    return dict(zip(runs[0], windows, strict=True)) | dict(others)


def _is_window(span: Span, access: T.Access, trail: Trail) -> bool:
    """Whether an index moves a window: `i + u`, or the `u` of a kernel."""
    own: Symbol | None = trail.index_at(span)
    return own is None or trail.is_summed(own)
