"""How far indices run: bounds stated, exchanged or made others, indices grouped otherwise, sizes as parameters of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from axon.base.data import dataclass
from axon.base.diagnostics import Change, Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.origin import Trail
from axon.explain.ranges import Origin
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, NotWritten, made, name, quoted, quoted_type, tree, var
from axon.shapes.constraint import Range, Reason, Use
from axon.shapes.dimension import Dim
from axon.shapes.solving.causes import Unbounded
from axon.suggest.mutations import Pair, expr, free_letters, node, outside, propose, proposing, shown, swap, text_of
from axon.types import typed as T
from axon.types.type import Row
from axon.types.unify import State

_LETTERS = "khmnpqrst"  # of dimension parameters to add
_MAX_NAMES = 5  # of a `for` whose indices are grouped otherwise
_SIZES = "nmpqrst"  # of those that a call is to give
_STATE = "state the bound:"
_FEW = 2  # sizes of which any may be meant
Heads = S.For | S.Reduce | S.Loop


@dataclass(frozen=True, slots=True)
class KnownSizes:
    """What is known where a change is sought: the places of a declaration, its sizes, and what they are called."""

    trail: Trail
    state: State
    show: Callable[[Dim], str]

    def named(self, size: Dim) -> bool:
        """Whether the user's names alone say a size."""
        return all(s in self.state.rigid for s in size.variables)

    def boundable(self, index: Symbol, bound: Dim) -> bool:
        """Whether a bound may be written: that of no flattening, and none that would speak of the index itself, `n < n - 1`."""
        text = self.show(bound)
        called = any(self.show(Dim.of(v)) == index.name for v in bound.variables)
        return not (called or "(-" in text or text.startswith("-") or self.trail.in_product(index))


# ── trees ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def bounded(bounds: Mapping[Symbol, str], trail: Trail) -> tuple[Pair, ...]:
    """Bounds for indices where they are bound, `for i, j < n => …` for `for i j => …`. Raises NotWritten."""
    heads: list[tuple[Heads, dict[str, S.Expr]]] = []
    for symbol, text in bounds.items():
        binding = trail.binding(symbol)
        if binding is None:
            raise NotWritten(symbol)
        written = node(binding.span, S.Node)
        head = outside(written) if isinstance(written, S.BinderGroup) else outside(outside(written) or written)
        if not isinstance(head, Heads):
            raise NotWritten(binding.span)
        if all(h is not head for h, _ in heads):
            heads.append((head, {}))
        next(own for h, own in heads if h is head)[symbol.name] = quoted(text)
    return tuple((h, made(h, groups=tuple(part for g in h.groups for part in _split(g, own)))) for h, own in heads)


def _split(group: S.BinderGroup, bounds: Mapping[str, S.Expr]) -> Iterator[S.BinderGroup]:
    """A group of indices of which some have bounds: each of those by itself."""
    plain: list[S.Binder] = []
    for binder in group.binders:
        if isinstance(binder, S.IndexBinder) and binder.name in bounds:
            yield from [made(group, binders=tuple(plain))] if plain else []
            yield made(group, binders=(binder,), bound=bounds[binder.name])
            plain = []
        else:
            plain.append(binder)
    if plain:
        yield group if len(plain) == len(group.binders) else made(group, binders=tuple(plain))


def parameter(function: Span, *names: str, gone: S.Param | None = None) -> Pair:
    """A function, whose name stands at a place, with more dimension parameters, and without a parameter that is `gone`."""
    file = tree(function.file)
    whole = next(n for d in file.decls for n in file.within(d.span) if isinstance(n, S.Fun) and n.name.span == function)
    rest = tuple(p for p in whole.params if gone is None or p.span != gone.span)
    own = [n for p in rest[:1] if isinstance(p, S.DimParams) for n in p.names]
    return whole, made(whole, params=(S.DimParams((*own, *map(name, names)), span=NEW), *rest[bool(own) :]))


# ── what has no bound ───────────────────────────────────────────────────────────────────────────────────────────────────


def without_range(range_: Range, uses: Sequence[Use], k: KnownSizes) -> Iterator[Suggestion]:
    """Bounds for an index of which nothing says how far it runs: the sizes of what it moves along."""
    for use in uses:
        access = k.trail.read(use.span)
        target, split = k.state.dimension(use.target), use.index.linear_in(range_.symbol)
        if access is not None and split is not None and split[0].constant == 1:
            yield from stated(range_.symbol, target, access[0], k)
        for quotient in use.index.quotients if access is not None else ():
            if access is not None and quotient.dividend.symbol == range_.symbol and use.index == Dim({(quotient,): 1}):
                yield from stated(range_.symbol, target * quotient.divisor, access[0], k)


@proposing
def of_named_sizes(ranges: Sequence[Range], again: Sequence[Range], sizes: Sequence[str], trail: Trail) -> Iterator[Suggestion]:
    """Bounds for indices that index nothing: the size of an index's own name, the only `sizes` there are, or these in their order.

    `again` are indices of the same names elsewhere.
    """
    names = [r.symbol.name for r in ranges]
    if any(trail.in_product(r.symbol) for r in (*ranges, *again)):
        return
    ways: list[Sequence[str]] = []
    if all(n in sizes for n in names):
        ways = [names]
    elif len(names) == 1 and len(sizes) <= _FEW:
        ways = [[size] for size in sizes]
    elif len(sizes) in (1, len(names)):
        ways = [[*sizes] * (len(names) // len(sizes))]
    for way in ways:
        bounds = dict(zip(names, way, strict=True))
        listed = " and ".join(f"`{n} < {size}`" for n, size in bounds.items())
        changes = bounded({r.symbol: bounds[r.symbol.name] for r in (*ranges, *again)}, trail)
        yield propose(f"{_STATE} {listed}", None, *changes, change=Change.BOUND, grown=True)


@proposing
def by_parameters(function: S.Fun, cause: Unbounded, trail: Trail) -> Iterator[Suggestion]:
    """Bounds for indices that index nothing, where no size has a name: dimension parameters, which a call gives."""
    names = [r.symbol.name for r in cause.ranges]
    given = free_letters(function.span, len(names), _SIZES)
    if given and not any(trail.in_product(r.symbol) for r in (*cause.ranges, *cause.again)):
        bounds = dict(zip(names, given, strict=True))
        listed = ", ".join(f"{n} < {size}" for n, size in bounds.items())
        changes = bounded({r.symbol: bounds[r.symbol.name] for r in (*cause.ranges, *cause.again)}, trail)
        words = f"let a call say how far: `fun {function.name.text.partition('.')[0]} {{{', '.join(given)}}} …` and `{listed}`"
        yield propose(words, None, *changes, parameter(function.name.span, *given), grown=True)


@proposing
def stated(symbol: Symbol, bound: Dim, access: T.Access, k: KnownSizes) -> Iterator[Suggestion]:
    """A bound of an index, with an annotation of what is accessed where that gives a size its name."""
    if k.boundable(symbol, bound):
        naming, text = annotated(bound, access, k), k.show(bound)
        words = "".join(f"annotate `({text_of(new, old.span)})` and " for old, new in naming)
        changes = *bounded({symbol: text}, k.trail), *naming
        change = None if naming else Change.BOUND
        yield propose(f"{words}{_STATE} `{symbol.name} < {text}`", None, *changes, change=change, grown=True)


def stated_together(bounds: Sequence[tuple[Symbol, Dim]], k: KnownSizes) -> Suggestion:
    """A bound for each of some indices."""
    listed = " and ".join(f"`{s.name} < {k.show(b)}`" for s, b in bounds)
    changes = bounded({s: k.show(b) for s, b in bounds}, k.trail)
    return propose(f"{_STATE} {listed}", None, *changes, change=Change.BOUND, grown=True)


def annotated(size: Dim, access: T.Access, k: KnownSizes) -> tuple[Pair, ...]:
    """The annotation of the parameter that is accessed, if it takes one to give a size a name."""
    base, shape = access.base, k.trail.shape(access.base.type)
    span = k.trail.unannotated(base.symbol) if isinstance(base, T.Variable) and not k.named(size) else None
    if span is None or shape is None or any(isinstance(i, Row) for i in shape):
        return ()
    listed = ", ".join(k.show(k.state.dimension(i)) for i in shape if isinstance(i, Dim))
    written = node(span, S.PatternName)
    return ((written, S.PatternTyped(written, quoted_type(f"'a[{listed}]"), span=NEW)),)


@proposing
def indexed_by(range_: Range, trail: Trail) -> Iterator[Suggestion]:
    """An index that indexes nothing for another name in an access in its scope, a similar one if there is any, the last first."""
    found: list[tuple[bool, int, Suggestion]] = []
    own = range_.symbol.name
    for access in trail.expressions():
        if not isinstance(access, T.Access) or all(s != range_.symbol for s, _ in access.context.indices):
            continue
        whole = node(access, S.Access)
        for e in (e for s in whole.subscripts for e in tree(access.span.file).within(s.span) if isinstance(e, S.Var)):
            similar = len(e.name) > 1 or len(own) > 1
            similar = similar and (e.name.startswith(own) or own.startswith(e.name) or own.endswith(e.name))
            found.append((similar, e.span.start, propose("index by it:", whole, (e, var(own)))))
    alike = [f for f in found if f[0]]
    yield from (s for _, _, s in sorted(alike or found, key=lambda f: -f[1]))


# ── parts of a dimension ────────────────────────────────────────────────────────────────────────────────────────────────


@proposing
def parts_bounded(function: Span, idle: Sequence[str], trail: Trail) -> Iterator[Suggestion]:
    """Bounds for the parts of a dimension that an access splits, `x[(p, q)]`, the last first: by a dimension parameter, an idle one
    if there is any.
    """
    (bound,) = idle[:1] or free_letters(function.file.span(), 1, _LETTERS) or (None,)
    for values in _splits(trail) if bound is not None else ():
        for symbol in reversed(values):
            binding = trail.binding(symbol) if symbol is not None else None
            if symbol is not None and binding is not None and not binding.range.stated and not trail.in_product(symbol):
                more = () if idle else (parameter(function, str(bound)),)
                given = "" if idle else f"make it a dimension parameter `{{{bound}}}` and "
                words = f"say how the dimension is split: {given}bound an index, `{symbol.name} < {bound}`"
                yield propose(words, None, *bounded({symbol: str(bound)}, trail), *more, grown=True)


def _splits(trail: Trail) -> Iterator[list[Symbol | None]]:
    """The indices of every dimension that an access splits."""
    for access in trail.expressions():
        for s in access.subscripts if isinstance(access, T.Access) else ():
            if isinstance(s, T.At) and s.sizes:
                yield [v.dim.symbol if isinstance(v, T.Dimension) else None for v in s.values]


@proposing
def flattened_later(function: Span, idle: Sequence[str], trail: Trail) -> Iterator[Suggestion]:
    """`for (i, j) (y, z) => x[(i, y), (j, z)]` in two steps: with bounds for the parts of what is split, then flat."""
    everywhere = function.file.span()
    (bound,) = idle[:1] or free_letters(everywhere, 1, "rpkhmnqst") or (None,)
    (whole,) = free_letters(everywhere, 1, ("parts", "pieces", "whole")) or (None,)
    ends = [(values[-1], trail.binding(values[-1])) for values in _splits(trail) if values[-1] is not None]
    last = {s.name for s, binding in ends if s is not None and binding is not None and not binding.range.stated}
    for e in trail.expressions() if bound is not None and whole is not None else ():
        written = node(e, S.For) if isinstance(e, T.For) else None
        groups = [_names(b) for g in written.groups for b in g.binders] if written is not None else []
        names = [n for group in groups for n in group]
        if written is None or not all(groups) or any(g.bound for g in written.groups) or not last & set(names):
            continue
        if max(map(len, groups)) > 1:
            plain, parts = " ".join(n for n in names if n not in last), [n for n in names if n in last]
            built = ", ".join((*([plain] if plain else []), *(f"{n} < {bound}" for n in parts)))
            flat = " ".join(b.span.text for g in written.groups for b in g.binders)
            read = f"{whole}[{', '.join((*plain.split(), *parts))}]"
            new = quoted(f"let val {whole} = for {built} => body in for {flat} => {read} end", body=written.body)
            more = () if idle else (parameter(function, str(bound)),)
            given = "" if idle else f" make it a dimension parameter `{{{bound}}}`, and"
            words = f"say how far the parts run:{given} build `for {built} => …`, then `for {flat} => {read}`"
            yield propose(words, None, (written, new), *more, asks=True, grown=True)


def _names(b: S.Binder) -> list[str]:
    match b:
        case S.ProductBinder(names):
            return [n.text for n in names]
        case S.IndexBinder(n):
            return [n]
    return []


# ── another bound ───────────────────────────────────────────────────────────────────────────────────────────────────────


@proposing
def one_range(reason: Reason, sizes: tuple[Dim, Dim], k: KnownSizes) -> Iterator[Suggestion]:
    """A bound for an index that is to run over two dimensions of different sizes: the larger one where conditions say which part of
    it belongs to which, else the one that is the shorter by a number, or what is read of a table in a record.
    """
    reads = [k.trail.read(s.span) if s.about else None for s in reason.sides]
    symbols = {k.trail.index_at(s.span) for s in reason.sides}
    (symbol,) = symbols if len(symbols) == 1 else (None,)
    binding = k.trail.binding(symbol) if symbol is not None else None
    if symbol is None or binding is None or binding.range.stated or len(reads) != 2 or not all(map(k.named, sizes)):
        return
    left, right = sizes
    less = left - right
    bound: Dim | None = None
    if less.constant is not None:
        bound = right if less.constant > 0 else left
    elif k.trail.is_guarded(symbol):
        bound = left if _positive(less) else right if _positive(-less) else None
    else:
        tables = [read is not None and isinstance(read[0].base, T.Field) for read in reads]
        bound = (left if tables[1] else right) if tables[0] != tables[1] else None
    if bound is not None and k.boundable(symbol, bound):
        yield stated_together([(symbol, bound)], k)


def _positive(size: Dim) -> bool:
    return all(number > 0 for number in size.mapping.values())


@proposing
def unused_bound(origin: Origin, needed: Dim, k: KnownSizes) -> Iterator[Suggestion]:
    """Another bound of an index that nothing is indexed by, as in `for i < b, j < h => 0.0`."""
    own = node(origin.span, S.BinderGroup)
    if origin.index is None or own.bound is None or k.trail.is_read(origin.index) or not k.boundable(origin.index, needed):
        return
    bound, head = quoted(k.show(needed)), outside(own)
    for other in head.groups if isinstance(head, Heads) else ():
        if other is not own and other.bound == bound:
            words = f"exchange the bounds: `{shown(own, (own.bound, bound))}`, `{shown(other, (other.bound, own.bound))}`"
            yield propose(words, None, *swap(own.bound, other.bound))
    yield propose("make the bound", own, (own.bound, bound))


@proposing
def rounded_up(origin: Origin) -> Iterator[Suggestion]:
    """A bound `i < n / s` or `i < n / s + 1` as `i < (n - 1) / s + 1`: as many as there are steps of s among n."""
    group = node(origin.span, S.BinderGroup) if origin.kind == "bound" else None
    bound = group.bound if group is not None else None
    steps = bound.left if isinstance(bound, S.Binary) and bound.op == "+" and bound.right == S.Int(1, span=NEW) else bound
    atoms = isinstance(steps, S.Binary) and all(isinstance(e, S.Var | S.Int) for e in (steps.left, steps.right))
    if bound is not None and isinstance(steps, S.Binary) and steps.op == "/" and atoms:
        most = quoted("(n - 1) / s + 1", n=steps.left, s=steps.right)
        yield propose("make the bound", group, (bound, most), asks=True)  # that s is at least 1, as before


@proposing
def regrouped(e: T.For, _: Reason | None, trail: Trail) -> Iterator[Suggestion]:
    """Other indices of a `for` made one dimension, `for i (j, c) => …` for `for (i, j) c => …`: those that an access splits so, or
    whose product is written as a size.
    """
    (group, *more) = node(e, S.For).groups
    runs = [b for b in group.binders if isinstance(b, S.RunBinder)]
    names = [n for b in group.binders for n in _names(b)]
    together = [b for b in group.binders if isinstance(b, S.ProductBinder)]
    if more or group.bound is not None or len(together) != 1 or len(names) > _MAX_NAMES or runs != list(group.binders[: len(runs)]):
        return
    symbols = {s.name: s for b in e.binders if isinstance(b, T.Indices) for s in b.symbols}
    ways = (way for way in combinations(names, len(together[0].names)) if trail.belong_together([symbols[n] for n in way]))
    for chosen in sorted(ways, key=lambda way: names.index(way[-1]) - names.index(way[0])):  # neighbours first
        rest = [n for n in names if n not in chosen]
        product = S.ProductBinder(tuple(map(name, chosen)), span=NEW)
        before = sum(names.index(n) < names.index(chosen[-1]) for n in rest)
        for place in dict.fromkeys((before, *range(len(rest), -1, -1))):
            plain = [S.IndexBinder(n, span=NEW) for n in rest]
            new = made(group, binders=(*runs, *plain[:place], product, *plain[place:]))
            if list(chosen) != _names(together[0]):
                words = f"group the indices: `for {text_of(new, e.span)} => …`"
                yield propose(words, None, (group, new), change=Change.GROUPED)


@proposing
def ungrouped(place: Span) -> Iterator[Suggestion]:
    """`for i j => …` for `for (i, j) => …`, which makes one dimension: of what stands at a place, or of the `val` that it names."""
    e: S.Expr | None = expr(place)
    if isinstance(e, S.Var):
        file, called = tree(place.file), e.name
        around = [d for d in file.decls if d.span.start <= place.start < d.span.end]
        around = [d for d in around if called in file.text[d.span.start : place.start]]  # else nothing binds it there
        vals = [v for d in around for v in file.within(d.span) if isinstance(v, S.Val) and v.span.end <= place.start]
        e = next((v.value for v in reversed(vals) if isinstance(v.pattern, S.PatternName) and v.pattern.name == called), None)
    together = [g for g in e.groups if any(isinstance(b, S.ProductBinder) for b in g.binders)] if isinstance(e, S.For) else []
    changes = []
    for group in together:
        parts = ((S.IndexBinder(n, span=NEW) for n in _names(b)) if isinstance(b, S.ProductBinder) else (b,) for b in group.binders)
        changes.append((group, made(group, binders=tuple(b for part in parts for b in part))))
    if isinstance(e, S.For) and changes:
        head = ", ".join(text_of(dict(changes).get(g, g), place) for g in e.groups)
        yield propose(f"for a dimension of each index, write `for {head} => …`", None, *changes, change=Change.GROUPED)


def headers(trail: Trail, within: Iterable[Span]) -> Iterator[T.For]:
    """The `for`s of which one of some places stands in the list of indices."""
    for e in trail.expressions():
        if isinstance(e, T.For) and any(s.file is e.span.file and e.span.start <= s.start < e.body.span.start for s in within):
            yield e
