"""Slips of hand behind sizes that cannot agree: a window without padding, a slice that ends too early, a bound of another size,
stages of a pipeline or parts of a dimension in the wrong order, one value for another.

Each is an edit to try, made from what the code around says: the size that is needed, a name that is not used, a name that differs
from another in its number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from axon.base.diagnostics import Change, Edit, Suggestion
from axon.base.element import FLOAT, INT
from axon.base.source import Span
from axon.explain.origin import Trail
from axon.explain.places import subscripts
from axon.explain.ranges import Origin
from axon.shapes.constraint import Reason, Side
from axon.shapes.dimension import Dim
from axon.suggest.inside import bound_edit, is_called
from axon.types import typed as T
from axon.types.type import Tensor
from axon.types.unify import State

Show = Callable[[Dim], str]
_MAX_NAMES = 5  # of a `for` whose indices are grouped otherwise
_MAX_VALUES = 3  # tried in the place of one


# ── a size that is known ────────────────────────────────────────────────────────────────────────────────────────────────


def resized(origin: Origin, own: Dim, needed: Dim, trail: Trail, state: State, show: Show) -> Iterator[Suggestion]:
    """Changes of what makes a size for it to be another one, which names show."""
    if not all(s in state.rigid for s in needed.variables):
        return
    if origin.kind in ("index", "bound") and origin.index is not None and is_called(origin.index, needed, show):
        return
    match origin.kind:
        case "slice":
            yield from _next_slice(origin, needed, trail, show)
            yield from _longer(origin, needed, show)
        case "index" if origin.read is not None:
            yield from _padded(origin, needed - own, show(needed), trail, state)
        case "bound":
            yield from _unused_bound(origin, show(needed), trail)


def one_range(reason: Reason, sizes: tuple[Dim, Dim], trail: Trail, state: State, show: Show) -> Iterator[Suggestion]:
    """A bound for an index that is to run over two dimensions of different sizes: the larger one where conditions say which part of
    it belongs to which, else the one that is the shorter by a number, or what is read of a table in a record.
    """
    reads = [trail.read(s.span) if s.about else None for s in reason.sides]
    symbols = {trail.index_at(s.span) for s in reason.sides}
    (symbol,) = symbols if len(symbols) == 1 else (None,)
    binding = trail.binding(symbol) if symbol is not None else None
    named = all(v in state.rigid for size in sizes for v in size.variables)
    if symbol is None or binding is None or binding.range.stated or trail.in_product(symbol) or not named or len(reads) != 2:
        return
    left, right = sizes
    less = left - right
    bound: Dim | None = None
    if less.constant is not None:
        bound = right if less.constant > 0 else left
    elif trail.is_guarded(symbol):
        bound = left if _positive(less) else right if _positive(-less) else None
    else:
        tables = [read is not None and isinstance(read[0].base, T.Field) for read in reads]
        bound = (left if tables[1] else right) if tables[0] != tables[1] else None
    if bound is not None and not is_called(symbol, bound, show):
        edit = bound_edit(binding.span, symbol.name, show(bound), False)
        yield Suggestion(f"state the bound: `{symbol.name} < {show(bound)}`", (edit,), change=Change.BOUND)


def _positive(size: Dim) -> bool:
    return all(number > 0 for number in size.mapping.values())


def cut(side: Side, own: Dim, needed: Dim, trail: Trail, state: State, show: Show) -> Iterator[Suggestion]:
    """`x[0 : n - 1]` for an operand `x` beside a slice that is shorter by a number."""
    e = trail.at(side.span) if not side.about else None
    sizes = trail.sizes(e.type) if isinstance(e, T.Variable) else []
    less = (own - needed).constant
    if less is None or less < 1 or sizes.count(own) != 1 or not needed.variables or not needed.variables <= state.rigid:
        return
    listed = ", ".join(f"0 : {show(needed)}" if size == own else ":" for size in sizes)
    yield Suggestion(f"cut it: `{side.span.text}[{listed}]`", (Edit(side.span, f"{side.span.text}[{listed}]"),))


def _longer(origin: Origin, needed: Dim, show: Show) -> Iterator[Suggestion]:
    """`x[a : b]` with the end at which it has the size that is needed."""
    if origin.read is None or not origin.sizes:
        return
    pieces = origin.read.text.split(":")
    if len(pieces) == 2 and not set("[({") & set(pieces[0]):
        text = f"{pieces[0].strip()} : {show(origin.sizes[0] + needed)}".strip()
        yield Suggestion(f"make the slice `{text}`", (Edit(origin.read, text),))


def _next_slice(origin: Origin, needed: Dim, trail: Trail, show: Show) -> Iterator[Suggestion]:
    """`x[a + b : a + 2 * b]` after `x[0 : a]` and `x[a : a + b]`: a slice of the size that is needed where the others end."""
    base = origin.base.span.text if origin.base is not None else ""
    own, begun, ended = origin.read, set[str](), dict[str, Dim]()
    for e in trail.expressions():
        places = subscripts(e) if isinstance(e, T.Access) and e.base.span.text == base else []
        for s, place in zip(e.subscripts if isinstance(e, T.Access) else (), places, strict=False):
            pieces = place.text.split(":")
            if isinstance(s, T.Slice) and s.stop is not None and len(pieces) == 2 and place != own:
                begun.add(pieces[0].strip())
                ended[pieces[1].strip()] = s.stop
    for text, end in ended.items():
        if own is not None and text not in begun and own.text.partition(":")[0].strip() != text:
            text = f"{text} : {show(end + needed)}"
            yield Suggestion(f"make the slice `{text}`", (Edit(own, text),))


def _padded(origin: Origin, missing: Dim, bound: str, trail: Trail, state: State) -> Iterator[Suggestion]:
    """`x[i + j]` for windows that stay inside as `x[i + j - 1 | 0.0]` for windows in the middle of which `i` stands."""
    count = missing.constant
    read = trail.read(origin.read) if origin.read is not None else None
    if count is None or count < 1 or read is None or origin.read is None or origin.index is None or read[0].default is not None:
        return
    access, t = read[0], state.prune(read[0].base.type)
    allowed = state.allowed_of(t.element) if isinstance(t, Tensor) else frozenset()
    zero = "0.0" if allowed and allowed <= FLOAT else "0" if allowed and allowed <= INT else None
    if zero is None or trail.in_product(origin.index) or origin.read.text == origin.index.name:
        return
    index = f"{origin.read.text} - {count // 2}" if count > 1 else origin.read.text
    end = Span(access.span.file, access.span.end - 1, access.span.end - 1)
    edits = (bound_edit(origin.span, origin.index.name, bound, False), Edit(origin.read, index), Edit(end, f" | {zero}"))
    whole, start = access.span.text, access.span.start
    shown = f"{whole[: origin.read.start - start]}{index}{whole[origin.read.end - start : -1]} | {zero}]"
    yield Suggestion(f"pad it with zeros: `{' '.join(shown.split())}` for `{origin.index.name} < {bound}`", edits)


def _unused_bound(origin: Origin, bound: str, trail: Trail) -> Iterator[Suggestion]:
    """Another bound of an index that nothing is indexed by, as in `for i < b, j < h => 0.0`."""
    symbol = origin.index
    if symbol is not None and not trail.is_read(symbol) and not trail.in_product(symbol):
        edit = bound_edit(origin.span, symbol.name, bound, True)
        own = re.fullmatch(rf"{symbol.name}\s*<\s*(.*\S)\s*", origin.span.text, re.DOTALL)
        for e in headers(trail, (origin.span,)) if own is not None else ():
            for other in (s for b in e.binders if isinstance(b, T.Indices) for s in b.symbols if s != symbol):
                beside = trail.binding(other)
                if own is not None and beside is not None and re.fullmatch(rf"\w+\s*<\s*{re.escape(bound)}\s*", beside.span.text):
                    swap = (edit, bound_edit(beside.span, other.name, own[1], True))
                    yield Suggestion(f"exchange the bounds: `{edit.text}`, `{swap[1].text}`", swap)
        yield Suggestion(f"make the bound `{symbol.name} < {bound}`", (edit,))


def rounded_up(origin: Origin) -> Iterator[Suggestion]:
    """A bound `i < n / s` or `i < n / s + 1` as `i < (n - 1) / s + 1`: as many as there are steps of s among n."""
    found = re.fullmatch(r"(\w+\s*<\s*)(\w+) / (\w+)( \+ 1)?", origin.span.text.strip()) if origin.kind == "bound" else None
    if found is not None:
        text = f"{found[1]}({found[2]} - 1) / {found[3]} + 1"
        yield Suggestion(f"make the bound `{text}`", (Edit(origin.span, text),), asks=True)  # that s is at least 1, as before


# ── order ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def regrouped(e: T.For, trail: Trail) -> Iterator[Suggestion]:
    """Other indices of a `for` made one dimension, `for i (j, c) => …` for `for (i, j) c => …`: those that an access splits so, or
    whose product is written as a size.
    """
    header = e.span.file.text[e.span.start : e.body.span.start]
    found = re.fullmatch(r"for\s+((?:\.\.\w+\s+)?)([^<>=]*?)\s*=>\s*\(?", header)
    groups = re.findall(r"\([^()]*\)|[A-Za-z_]\w*", found[2]) if found is not None else []
    together = [g for g in groups if g.startswith("(")]
    names = re.findall(r"[A-Za-z_]\w*", " ".join(groups))
    if found is None or len(together) != 1 or len(names) > _MAX_NAMES or "(" in together[0][1:]:
        return
    span = Span(e.span.file, e.span.start + found.start(2), e.span.start + found.end(2))
    symbols = {s.name: s for b in e.binders if isinstance(b, T.Indices) for s in b.symbols}
    ways = (way for way in combinations(names, together[0].count(",") + 1) if trail.belong_together([symbols[n] for n in way]))
    for chosen in sorted(ways, key=lambda way: names.index(way[-1]) - names.index(way[0])):  # neighbours first
        rest = [n for n in names if n not in chosen]
        group = f"({', '.join(chosen)})"
        before = sum(names.index(n) < names.index(chosen[-1]) for n in rest)
        for place in dict.fromkeys((before, *range(len(rest), -1, -1))):
            text = " ".join((*rest[:place], group, *rest[place:]))
            if group != together[0]:
                yield Suggestion(f"group the indices: `for {found[1]}{text} => …`", (Edit(span, text),), change=Change.GROUPED)


def headers(trail: Trail, within: Sequence[Span]) -> Iterator[T.For]:
    """The `for`s of which one of some places stands in the list of indices."""
    for e in trail.expressions():
        if isinstance(e, T.For) and any(s.file is e.span.file and e.span.start <= s.start < e.body.span.start for s in within):
            yield e
