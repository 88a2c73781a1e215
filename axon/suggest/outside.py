"""Accesses that leave their tensors, and slices: other indices, guards, bounds, and zeros outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axon.base.data import dataclass
from axon.base.diagnostics import Change, Suggestion
from axon.base.element import FLOAT, INT
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.origin import Trail
from axon.explain.ranges import Origin
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, made, quoted
from axon.shapes.constraint import Side, Use
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from axon.shapes.solving.trouble import Refuted
from axon.suggest.bounds import KnownSizes, annotated, bounded, stated, stated_together, unused_bound
from axon.suggest.mutations import expr, node, propose, proposing, swap, text_of
from axon.types import typed as T
from axon.types.type import Tensor
from axon.types.unify import State


@dataclass(frozen=True, slots=True)
class Outside:
    """An access by `use` that reaches an index which a dimension of this size does not have, at these ends of indices; `low`: it is
    below 0."""

    access: T.Access
    use: Use
    reach: Dim
    size: Dim
    ends: tuple[tuple[Symbol, Dim], ...]
    low: bool

    def rising(self) -> list[tuple[Symbol, Dim]]:
        """The indices with each step of which the index takes one, too."""
        return [(s, e) for s, e in self.ends if self.use.index.linear_in(s) == (Dim.of(1), self.use.index - Dim.of(s))]


def reached_outside(parts: Sequence[Refuted], k: KnownSizes) -> Iterator[Suggestion]:
    """An access that leaves its tensor, in one dimension or several."""
    found = [o for o in (_outside(r, k) for r in parts) if o is not None]
    if len(parts) == 1:
        yield from (s for o in found for s in _inside(o, k))
        return
    bounds = [[*_strides(o, k), *_smaller(o, k)] for o in found]
    for together in zip(*([b for b in own if _is_named(b, o, k)] for own, o in zip(bounds, found, strict=True)), strict=False):
        yield stated_together(together, k)
    ways = [list(_inside(o, k)) for o in found]
    yield from (last for way in ways[:1] for last in way if any(last in other for other in ways[1:]))  # of the access as a whole
    padded = [[(o, b) for b in _padded_below(o, k)] for o in found]
    for several in zip(*padded, strict=False):
        yield _with_zeros([several[0][0]], [b for _, b in several], k)


def _outside(r: Refuted, k: KnownSizes) -> Outside | None:
    use = r.obligation.use
    found = k.trail.read(use.span) if use is not None else None
    if use is None or found is None or r.reach is None or r.size is None:
        return None
    return Outside(found[0], use, r.reach, r.size, tuple(r.ends), r.obligation.relation.op != "<")


def _is_named(bound: tuple[Symbol, Dim], o: Outside, k: KnownSizes) -> bool:
    return k.boundable(*bound) and not annotated(bound[1], o.access, k)


@proposing
def _inside(o: Outside, k: KnownSizes) -> Iterator[Suggestion]:
    """Changes of an access with which it stays inside."""
    index = expr(o.use.span)
    if isinstance(index, S.Binary) and (divided := _divided(index)) is not None:
        words = "a quotient of numbers is rounded down, to 0:"
        yield propose(words, node(o.access, S.Access), (index, divided), change=Change.PARENTHESES)
    if o.low:
        yield from _before(o, index, k)
    else:
        yield from _beyond(o, index, k)
        for symbol, bound in _strides(o, k):
            yield from stated(symbol, bound, o.access, k)
    bounds = _smaller(o, k)
    late = [len(o.ends) > 1 and _runs_elsewhere(s, o, k) for s, _ in bounds]
    yield from (s for b, last in zip(bounds, late, strict=True) if not last for s in stated(*b, o.access, k))
    if _zero(o.access, k) is not None and o.access.default is None and o.ends:
        alike = [other for other in _alike(o, k) if other.access.default is None]
        for several in ([o], alike)[: 1 + (len(alike) > 1)]:
            yield _with_zeros(several, [], k)
        for padded in _padded_below(o, k):
            yield _with_zeros([o], [padded], k)
    yield from (s for b, last in zip(bounds, late, strict=True) if last for s in stated(*b, o.access, k))


def _divided(e: S.Binary) -> S.Binary | None:
    """`(n - 1) / 2` for `n - 1 / 2`, of which `1 / 2` is 0."""
    part = e.right
    if e.op not in "+-" or not isinstance(part, S.Binary) or part.op != "/":
        return None
    few = isinstance(part.left, S.Int) and isinstance(part.right, S.Int) and part.left.value < part.right.value
    return made(part, left=made(e, right=part.left)) if few else None


def _before(o: Outside, index: S.Expr, k: KnownSizes) -> Iterator[Suggestion]:
    """Changes of an index that is below 0."""
    yield from _guarded(o, k)
    whole = node(o.access, S.Access)
    if isinstance(index, S.Binary) and index.op == "-" and isinstance(index.left, S.Var) and isinstance(index.right, S.Var):
        yield propose("exchange the operands:", whole, *swap(index.left, index.right), change=Change.SLIP)
    elif o.use.index.constant is not None:
        change = index, quoted(k.show(o.size + o.use.index))
        words = f"counted from the end, that is `{text_of(made(whole, subscripts=(S.IndexAt(change[1], span=NEW),)), index.span)}`"
        yield propose(words, None, change, *annotated(o.size, o.access, k))


def _beyond(o: Outside, index: S.Expr, k: KnownSizes) -> Iterator[Suggestion]:
    """Changes of an index that passes the end of a dimension, other than that its parts run less far."""
    yield from _stricter(o, k)
    whole, use = node(o.access, S.Access), o.use
    names = {s: s.name if s in dict(o.ends) else k.show(Dim.of(s)) for s in use.index.variables}
    if (shift := (o.reach - o.size + 1).constant) is not None and len(o.rising()) < max(len(o.ends), 1):  # `x[n]`, `x[n - i]`
        less = quoted(f"e - {shift}", e=index)
        computed = quoted(render(use.index - shift, names.__getitem__))
        new = min(computed, less, key=lambda e: len(text_of(e, index.span)))  # multiplied out, `(i + 1) % (n + 1)` is long
        shifted = text_of(made(whole, subscripts=tuple(_put(s, index, new) for s in whole.subscripts)), index.span)
        if shifted not in [" ".join(other.access.span.text.split()) for other in _alike(o, k) if other.access is not o.access]:
            yield propose("indices count from 0:", whole, (index, new), change=Change.SLIP)  # else it would be read twice
    for guard in use.context.guards:  # `else y[i - n]` beside `if i < n then x[i]`
        least = _least(guard, use.index)
        if least is not None and least.constant != 0:
            names |= {s: k.show(Dim.of(s)) for s in least.variables}
            change = index, quoted(render(use.index - least, names.__getitem__))
            yield propose(f"count from {k.show(least)}:", whole, change, change=Change.SLIP)


def _put(s: S.Subscript, index: S.Expr, new: S.Expr) -> S.Subscript:
    return S.IndexAt(new, span=NEW) if isinstance(s, S.IndexAt) and s.value is index else s


def _strides(o: Outside, k: KnownSizes) -> Iterator[tuple[Symbol, Dim]]:
    """Bounds for indices that a stride multiplies: as many strides as there is room for."""
    for symbol, extent in o.ends if not o.low else ():
        binding, split = k.trail.binding(symbol), o.use.index.linear_in(symbol)
        if split is not None and split[0] != Dim.of(1) and binding is not None and binding.range.stated:
            stride, first = split[0], o.reach - split[0] * (extent - 1)  # the other parts reach so far
            number = stride.constant
            if number is None:
                yield symbol, (o.size - 1 - first) // stride + 1
            elif number > 1:
                yield symbol, (o.size - first + number - 1) // stride


def _smaller(o: Outside, k: KnownSizes) -> list[tuple[Symbol, Dim]]:
    """Bounds for the indices of an access with which it stays inside: for those whose bounds are computed, if any are."""
    excess = o.reach - o.size + 1
    bounds = [(s, extent - excess) for s, extent in reversed(o.rising())] if not o.low else []
    bounds = [(s, e) for s, e in bounds if (e.constant or 0) > 1 or any(c > 0 for m, c in e.mapping.items() if m)]  # not `2 - n`
    computed = [s for s, _ in o.ends if _computed_bound(s, k)]
    return [(s, e) for s, e in bounds if s in computed or not computed]


def _computed_bound(symbol: Symbol, k: KnownSizes) -> bool:
    binding = k.trail.binding(symbol)
    bound = node(binding.span, S.BinderGroup).bound if binding is not None and binding.range.stated else None
    return bound is not None and not isinstance(bound, S.Var | S.Int)


def _runs_elsewhere(symbol: Symbol, o: Outside, k: KnownSizes) -> bool:
    """Whether another tensor's dimension is what an index runs over, a kernel's: a smaller bound would leave some of it out."""
    binding = k.trail.binding(symbol)
    found = k.trail.range(symbol) if binding is not None and not binding.range.stated else None
    return found is not None and found.base is not None and found.base.span.text != o.access.base.span.text


def _alike(o: Outside, k: KnownSizes) -> list[Outside]:
    """The accesses of the same tensor by an index which differs in its number alone, as far as it is not by a name alone."""
    found: dict[Span, T.Access] = {}
    for other, _, own in k.trail.indices(o.access.span.file.span()):
        same = other.base.span.text == o.access.base.span.text
        if same and (own - o.use.index).constant is not None and own.symbol is None:
            found[other.span] = other
    return [Outside(found[s], o.use, o.reach, o.size, o.ends, o.low) for s in sorted(found, key=lambda s: s.start)]


# ── zeros ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _zero(access: T.Access, k: KnownSizes) -> S.Expr | None:
    t = k.state.prune(access.base.type)
    allowed = k.state.allowed_of(t.element) if isinstance(t, Tensor) else frozenset()
    floats = bool(allowed) and allowed <= FLOAT
    return quoted("0.0") if floats else quoted("0") if allowed and allowed <= INT else None


def _with_zeros(several: Sequence[Outside], bounds: Sequence[tuple[Symbol, Dim]], k: KnownSizes) -> Suggestion:
    """Zeros outside what some accesses read, with the bounds that their indices then need."""
    accesses = [node(o.access, S.Access) for o in several]
    padded = [(a, made(a, default=_zero(o.access, k))) for a, o in zip(accesses, several, strict=True)]
    listed = " and ".join(f"`{text_of(new, old.span)}`" for old, new in padded)
    ends = " and ".join(f"`{s.name} < {k.show(b)}`" for s, b in bounds)
    changes = *padded, *bounded({s: k.show(b) for s, b in bounds}, k.trail)
    words = f"read zeros outside: {listed}" + (f" for {ends}" if ends else "")
    return propose(words, None, *changes, change=Change.ZEROS, grown=True)


def _padded_below(o: Outside, k: KnownSizes) -> Iterator[tuple[Symbol, Dim]]:
    """`x[i + j - 1 | 0.0]` for `i < n` where `x[i + j - 1]` says how far `i` runs: read with zeros, it would say nothing."""
    if not o.low or _zero(o.access, k) is None or o.access.default is not None:
        return
    for symbol, _ in o.ends:
        binding = k.trail.binding(symbol)
        named = o.size.variables <= k.state.rigid and k.boundable(symbol, o.size)
        if binding is not None and not binding.range.stated and named and not any(k.trail.indexed_elsewhere(symbol, o.access)):
            yield symbol, o.size


# ── guards ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tests(k: KnownSizes, at: Span) -> Iterator[tuple[T.If, T.Expr]]:
    """The branches that hold a place if a condition does, each with the parts of that."""
    for branch in k.trail.expressions():
        if isinstance(branch, T.If) and branch.then.span.start <= at.start and at.end <= branch.then.span.end:
            for test in k.trail.expressions():
                if branch.condition.span.start <= test.span.start and test.span.end <= branch.condition.span.end:
                    yield branch, test


def _guarded(o: Outside, k: KnownSizes) -> Iterator[Suggestion]:
    """`if i >= 1 then x[i - 1]` where some other comparison of `i` stands."""
    least = -o.use.index.mapping.get((), 0)
    symbols = [v for v in o.use.index.variables if o.use.index == Dim.of(v) - least]
    for branch, test in _tests(k, o.access.span) if symbols and least > 0 else ():
        own = test is branch.condition and isinstance(test, T.Binary) and test.op in ("lt", "le", "gt", "ge")
        if own and isinstance(test, T.Binary) and isinstance(test.left, T.Dimension) and test.left.dim.symbol in symbols:
            new = quoted(f"{symbols[0].name} >= {least}")
            yield propose("make the guard", new, (node(test, S.Binary), new), change=Change.SLIP)


def _stricter(o: Outside, k: KnownSizes) -> Iterator[Suggestion]:
    """A guard around the access with `<` for `<=`."""
    for _, test in _tests(k, o.access.span):
        if isinstance(test, T.Binary) and test.op in ("le", "ge"):
            indices = [s for s, _ in o.ends]
            if any(isinstance(s, T.Dimension) and s.dim.symbol in indices for s in (test.left, test.right)):
                written = node(test, S.Binary)
                new = made(written, op=written.op[0])
                yield propose("make the guard", new, (written, new), change=Change.SLIP, grown=True)


@proposing
def compared_with(at: Span, k: KnownSizes) -> Iterator[Suggestion]:
    """`if i < n then a[i]` for `if i < m`: the size of what the branch reads by an index that is compared with another."""
    found = k.trail.read(at)
    size = k.trail.size(found[0].base, found[1]) if found is not None else None
    for branch, test in _tests(k, at) if size is not None else ():
        own = test is branch.condition and isinstance(test, T.Binary) and test.op == "lt" and test.left.span.text == at.text
        if own and size is not None and isinstance(test, T.Binary) and test.right.span.text != k.show(size):
            written = node(test, S.Binary)
            yield propose("make the condition", written, (written.right, quoted(k.show(size))))


def _least(guard: Relation, index: Dim) -> Dim | None:
    """What an index is at least by a guard about it alone."""
    split = guard.slack.linear_in(index.symbol) if index.symbol is not None and guard.op not in ("=", "<>") else None
    return -split[1] if split is not None and split[0] == Dim.of(1) and index.symbol not in split[1].variables else None


@dataclass(frozen=True, slots=True)
class Unreached:
    """A branch that is never taken since its condition holds wherever an index runs, and the bound with which it would be."""

    condition: Span
    why: str
    bound: Suggestion


def unreached(function: str, trail: Trail, state: State) -> Iterator[Unreached]:
    """Branches of `if i < n then … else y[i - n]` under an index that runs to n: nothing takes them, unless it runs further. The
    `function` is that in which they stand, or none, where that goes without saying.
    """
    k = KnownSizes(trail, state, render)
    where = f"in `{function}`, " if function else ""
    for branch in trail.expressions():
        test = branch.condition if isinstance(branch, T.If) else None
        if not isinstance(branch, T.If) or not isinstance(test, T.Binary) or test.op != "lt":
            continue
        symbol = test.left.dim.symbol if isinstance(test.left, T.Dimension) else None
        end = test.right.dim if isinstance(test.right, T.Dimension) else None
        binding = trail.binding(symbol) if symbol is not None else None
        if symbol is None or end is None or binding is None or not binding.range.stated or binding.range.extent != end:
            continue
        for access, axis, index in trail.indices(branch.otherwise.span):
            size, split = trail.size(access.base, axis), index.linear_in(symbol)
            bound = size - split[1] if size is not None and split is not None and split[0] == Dim.of(1) and split[1] else None
            if bound is not None and k.named(bound) and k.boundable(symbol, bound):
                why = f"{where}this holds for every `{symbol.name}`, so the other branch is never taken"
                group = node(binding.span, S.BinderGroup)
                change = group, made(group, bound=quoted(render(bound)))
                yield Unreached(test.span, why, propose(f"{where}make the bound", change[1], change))


# ── slices, windows, bounds of another size ─────────────────────────────────────────────────────────────────────────────


def resized(origin: Origin, own: Dim, needed: Dim, k: KnownSizes) -> Iterator[Suggestion]:
    """Changes of what makes a size for it to be another one, which names show."""
    spoken = origin.kind in ("index", "bound") and origin.index is not None and not k.boundable(origin.index, needed)
    if not k.named(needed) or spoken:
        return
    match origin.kind:
        case "slice":
            yield from _another_slice(origin, needed, k)
        case "index":
            yield from _padded(origin, needed - own, needed, k)
        case "bound":
            yield from unused_bound(origin, needed, k)


@proposing
def cut(side: Side, own: Dim, needed: Dim, k: KnownSizes) -> Iterator[Suggestion]:
    """`x[0 : n - 1]` for an operand `x` beside a slice that is shorter by a number."""
    e = k.trail.at(side.span) if not side.about else None
    sizes = k.trail.sizes(e.type) if isinstance(e, T.Variable) else []
    less = (own - needed).constant
    if less is not None and less >= 1 and sizes.count(own) == 1 and needed.variables and needed.variables <= k.state.rigid:
        listed = ", ".join(f"0 : {k.show(needed)}" if size == own else ":" for size in sizes)
        new = quoted(f"e[{listed}]", e=expr(side.span))
        yield propose("cut it:", new, (expr(side.span), new))


@proposing
def _another_slice(origin: Origin, needed: Dim, k: KnownSizes) -> Iterator[Suggestion]:
    """`x[a + b : a + 2 * b]` after `x[0 : a]` and `x[a : a + b]`: a slice of the size that is needed where the others end; or
    `x[a : b]` with the end at which it has that size."""
    own = node(origin.read, S.IndexSlice) if origin.read is not None else None
    if own is None or own.step is not None:
        return
    begun: list[S.Expr | None] = []
    ended: list[tuple[S.Expr, Dim]] = []
    for e in k.trail.expressions():
        if isinstance(e, T.Access) and origin.base is not None and e.base.span.text == origin.base.span.text:
            for written, s in zip(node(e, S.Access).subscripts, e.subscripts, strict=False):
                if isinstance(written, S.IndexSlice) and isinstance(s, T.Slice) and written is not own:
                    begun.append(written.start)
                    ended += [(written.stop, s.stop)] if written.stop is not None and s.stop is not None else []
    ways: list[tuple[S.Expr | None, Dim]] = [e for e in ended if e[0] not in begun and e[0] != own.start]
    for start, end in (*ways, *((own.start, size) for size in origin.sizes[:1])):
        new = made(own, start=start, stop=quoted(k.show(end + needed)))
        yield propose("make the slice", new, (own, new))


@proposing
def _padded(origin: Origin, missing: Dim, bound: Dim, k: KnownSizes) -> Iterator[Suggestion]:
    """`x[i + j]` for windows that stay inside as `x[i + j - 1 | 0.0]` for windows in the middle of which `i` stands."""
    count = missing.constant
    read = k.trail.read(origin.read) if origin.read is not None else None
    if count is None or count < 1 or read is None or origin.read is None or origin.index is None or read[0].default is not None:
        return
    zero, index, whole = _zero(read[0], k), expr(origin.read), node(read[0], S.Access)
    if zero is None or isinstance(index, S.Var):
        return
    moved = quoted(f"e - {count // 2}", e=index) if count > 1 else index
    new = made(whole, subscripts=tuple(_put(s, index, moved) for s in whole.subscripts), default=zero)
    words = f"pad it with zeros: `{text_of(new, index.span)}` for `{origin.index.name} < {k.show(bound)}`"
    yield propose(words, None, (whole, new), *bounded({origin.index: k.show(bound)}, k.trail), grown=True)
