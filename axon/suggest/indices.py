"""Accesses whose indices are of dimensions of another size: exchanged, moved, others for them, or in the order of a layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from axon.base.diagnostics import Change, Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.origin import Trail
from axon.explain.places import single
from axon.grammar import syntax as S
from axon.grammar.rewrite import made, tree, var
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.suggest.mutations import expr, node, outside, permuted, propose, proposing, swap
from axon.suggest.written import resized
from axon.types import typed as T

_MAX_RANK = 4
_MIN_RANK = 3  # of an access in the order of a layout: of two, an exchange is all there is


def reindexed(reads: Iterable[tuple[T.Access, Span]], trail: Trail) -> Iterator[Suggestion]:
    """Accesses with their indices in another order, or with another index at a place; last those against the order in which the
    indices are bound, neighbours first.
    """
    found: list[tuple[int, Suggestion]] = []
    reads = list(reads)
    for access, at in reads:
        yield from _in_order(access, at, trail)
    again = _repeated([access for access, _ in reads], trail)
    for access, at in sorted(reads, key=lambda r: -r[0].span.start):  # what comes first is what the others are written for
        found += [(_agreeing(access, s, trail) - (access.span in again), s) for s in exchanged(access, at, trail, True)]
    for access, at in reads:
        found += [(1, s) for s in _divided(access, trail)] + [(0, s) for s in _terms(access, at)]
    for access, at in reads:
        found += [(_agreeing(access, s, trail) - (access.span in again), s) for s in _replaced(access, at, trail)]
    best = max((score for score, _ in found), default=0)  # where names tell, an index is not taken from its own dimension
    yield from (s for score, s in sorted(found, key=lambda f: -f[0]) if score >= 0 or best <= 0)
    for access, at in reads:
        yield from _neighbours(access, at, trail)
    for access, at in reads:
        yield from _moved(access, at)


def _repeated(accesses: list[T.Access], trail: Trail) -> set[Span]:
    """Those accesses that stand elsewhere in the same words, and so are meant, where others do not."""
    alike = Counter(" ".join(e.span.text.split()) for e in trail.expressions() if isinstance(e, T.Access))
    again = {a.span for a in accesses if alike[" ".join(a.span.text.split())] > 1}
    return again if any(a.span not in again for a in accesses) else set()


def _agreeing(access: T.Access, change: Suggestion, trail: Trail) -> int:
    """How many more indices of an access have the name of the dimension that they are of, after a change: `mask[b, s]` of an
    f32[b, s]. Fewer have it, where the access was right.
    """
    gained = 0
    for edit in change.edits:
        read = trail.read(edit.span)
        size = trail.size(access.base, read[1]) if read is not None else None
        if size is not None and size.symbol is not None:
            gained += (edit.text == size.symbol.name) - (edit.span.text == size.symbol.name)
    return gained


@proposing
def exchanged(access: T.Access, at: Span, trail: Trail, orderly: bool) -> Iterator[Suggestion]:
    """The subscripts of an access in another order: in that in which one `for` binds them (`orderly`), or not."""
    spans = single(access)
    for span in spans if at in spans else ():
        if span != at and _settled(access, (at, span), trail) != orderly:
            pair = expr(at), expr(span)
            asks = not all(isinstance(e, S.Var) for e in pair)  # a window asks for its size wherever it moves
            yield propose("swap the indices:", node(access, S.Access), *swap(*pair), asks=asks, change=Change.SWAPPED)


def _neighbours(access: T.Access, at: Span, trail: Trail) -> Iterator[Suggestion]:
    """`x[..b, i, j, c]` for `x[..b, j, i, c]`, which keeps the order of `(i, c)`: two names that stand side by side."""
    spans = single(access)
    if len(spans) > 2 and at in spans:
        here = spans.index(at)
        beside = spans[max(here - 1, 0) : here + 2]
        yield from (s for s in exchanged(access, at, trail, False) if not s.asks and all(e.span in beside for e in s.edits))


@proposing
def _moved(access: T.Access, at: Span) -> Iterator[Suggestion]:
    """`x[b, c, i, j]` for `x[b, i, j, c]`: a subscript somewhere else, past two others or more."""
    whole = node(access, S.Access)
    places = whole.subscripts
    here = next((n for n, p in enumerate(places) if p.span.start <= at.start and at.end <= p.span.end), None)
    for start in range(len(places)) if len(places) <= _MAX_RANK else ():
        for end in range(len(places)):
            order = [n for n in range(len(places)) if n != start]
            order.insert(end, start)
            if abs(start - end) > 1 and here is not None and order[here] != here:  # another one stands at the place then
                yield propose("move an index:", whole, *permuted(places, order), asks=True, change=Change.MOVED)


@proposing
def kept(access: T.Access, position: int) -> Iterator[Suggestion]:
    """`x[:, i]` for `x[i, :]`: a dimension that an access keeps whole exchanged with one that it indexes."""
    whole = node(access, S.Access)
    own = whole.subscripts[position]
    for other in whole.subscripts if isinstance(own, S.IndexSlice) and own.start is own.stop is own.step is None else ():
        if isinstance(other, S.IndexAt):
            yield propose("swap the indices:", whole, *swap(own, other), change=Change.SWAPPED)


@proposing
def _terms(access: T.Access, at: Span) -> Iterator[Suggestion]:
    """`x[i + z, j + y]` as `x[i + y, j + z]`: a term of an index exchanged with one of another index of the access."""
    whole = node(access, S.Access)
    sums = [s.value for s in whole.subscripts if isinstance(s, S.IndexAt) and isinstance(s.value, S.Binary) and s.value.op == "+"]
    sums = [e for e in sums if isinstance(e.left, S.Var) and isinstance(e.right, S.Var)]
    for own in (e for e in sums if e.span == at):
        for other in (e for e in sums if e is not own):
            changes = swap(own.right, other.right)
            yield propose("swap the indices:", whole, *changes, asks=True, change=Change.SWAPPED)


@proposing
def _divided(access: T.Access, trail: Trail) -> Iterator[Suggestion]:
    """`x[i / m, i % m]` for `x[i / n, i % n]`: another size of what is accessed as the divisor of all."""
    whole = node(access, S.Access)
    values = [s.value for s in whole.subscripts if isinstance(s, S.IndexAt)]
    quotients = [e for e in values if isinstance(e, S.Binary) and e.op in "/%"]
    parts = [e for e in quotients if isinstance(e.left, S.Var) and isinstance(e.right, S.Var)]
    divisors = {e.right.span.text for e in parts}
    sizes = [size for n in range(len(values)) if (size := trail.size(access.base, n)) is not None and size.symbol is not None]
    for name in dict.fromkeys(render(size) for size in reversed(sizes)) if len(parts) > 1 and len(divisors) == 1 else ():
        if name not in divisors:
            yield propose(f"divide by {name}:", whole, *((e, made(e, right=var(name))) for e in parts))


def _settled(access: T.Access, pair: tuple[Span, Span], trail: Trail) -> bool:
    """Whether two subscripts hardly change places: one `for` binds them in the order in which they stand, or one is a number."""
    if any(s.text.isdecimal() for s in pair):
        return True
    one, other = (s.text for s in sorted(pair, key=lambda s: s.start))
    by_name = {symbol.name: symbol for symbol, _ in access.context.indices}
    if one not in by_name or other not in by_name:
        return False
    heads = (e.binders for e in trail.expressions() if isinstance(e, T.For | T.Reduce))
    orders = ([s for b in head if isinstance(b, T.Indices) for s in b.symbols] for head in heads)
    return any(by_name[other] in order[order.index(by_name[one]) :] for order in orders if by_name[one] in order)


@proposing
def _replaced(access: T.Access, at: Span, trail: Trail) -> Iterator[Suggestion]:
    """Another index in the place of one."""
    spans = single(access)
    taken = {word for s in spans for word in names_in(s)}  # twice in one access, it would read a diagonal
    for symbol, _ in reversed(access.context.indices) if at in spans else ():
        if symbol.name not in taken and symbol.name != "_":
            binding = trail.binding(symbol)  # one of a named size may well stay inside another one; of a computed size, hardly
            asks = binding is not None and binding.range.stated and binding.range.extent.symbol is not None
            change = expr(at), var(symbol.name)
            yield propose(f"index it by `{symbol.name}`:", node(access, S.Access), change, asks=asks, change=Change.INDEX)


def names_in(at: Span) -> list[str]:
    """The names that are written at a place."""
    return [e.name for e in tree(at.file).within(at) if isinstance(e, S.Var)]


# ── layouts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# `x[b, c, i + u, j + v]` of an image [b, h, w, c] is one mistake in several subscripts. By its sizes alone an exchange of two of
# them may fit too, and would turn the picture. So each index goes to the dimension that has its name, or the size of what it
# indexes elsewhere, and the others keep their order: the access is written so, or the annotation in the order of the access.


@proposing
def _in_order(access: T.Access, at: Span, trail: Trail) -> Iterator[Suggestion]:
    """An access that is refused for its index at a place, in the order of the dimensions; or these in the order of the access."""
    spans, sizes = single(access), trail.sizes(access.base.type)
    several = len(spans) == len(sizes) >= _MIN_RANK
    order = _order(access, spans, sizes, trail) if at in spans and several else None
    if order is None or order[spans.index(at)] == spans.index(at):
        return
    changes = permuted([expr(s) for s in spans], order)
    windows = any(not isinstance(new, S.Var) for _, new in changes)  # a window asks for its size wherever it moves
    if not changes or (len(changes) == 2 and not windows):  # one index twice, or two exchanged, which is tried in any case
        return
    what = "swap the indices:" if len(changes) == 2 else "put the indices in this order:"
    yield propose(what, node(access, S.Access), *changes, asks=windows, change=Change.ARRANGED)
    written = [trail.of(access.base, n) for n in range(len(sizes))]
    dims = [node(o.span, S.Node) for o in written if o is not None and o.kind == "annotation"]
    if len(dims) == len(sizes) and all(outside(d) is outside(dims[0]) for d in dims):  # they stand in one pair of brackets
        turned = [order.index(n) for n in range(len(order))]
        yield resized(*permuted(dims, turned), asks=windows, change=Change.ARRANGED)


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
