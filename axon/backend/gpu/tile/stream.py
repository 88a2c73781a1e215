"""The stream family: contract, change, reduce by rows, contract again, in one pass over the axis between the two products.

    s[i, j] = sum c => q[i, c] * k[j, c]          scores
    t[i, j] = any expression over s, indices and operands, perhaps masked
    m[i]    = max j => t[i, j]                    row statistics: at most one maximum, any number of sums
    z[i]    = sum j => exp (t[i, j] - m[i])
    o[i, e] = sum j => exp (t[i, j] - m[i]) / z[i] * v[j, e]

`stream` finds this shape from the reads alone, however it is divided into operations, and brings it into the form of one pass: a
running maximum of the changed scores, sums and products whose dependence on it is repaired when it grows (see `online`), and what
divides or scales a finished row moved behind the pass. What cannot be repaired raises `Unsupported` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from axon.backend.gpu.layout.pages import Pages, axes_in
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import View, Views
from axon.backend.gpu.tile.bounds import Reach
from axon.backend.gpu.tile.contraction import element_types
from axon.backend.gpu.tile.epilogue import EpilogueOperand, Result, bare, check_derived
from axon.backend.gpu.tile.online_softmax import (
    ONE,
    ZERO,
    factors,
    falls,
    inverse,
    lifted,
    linear,
    local_symbols,
    loosened,
    mentions_any,
    negated,
    plus,
    positive,
    product,
    rounds_to_8_bits,
    substituted,
    times,
)
from axon.backend.kernel.tensor_core_scalars import obstacle
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.ir import Axis, Binary, Bind, Compute, Const, Index, Local, Read, Scalar, Select, Unary, Value, element_of
from axon.core.scalar_facts import size
from axon.core.walk import mentions, reads, rename, rewrite
from axon.shapes.dimension import Dim
from axon.shapes.width import of_dim

NO_CORRECTION = "a sum depends on a statistic of its row in a way that no running correction repairs"


LONGEST = 20_000  # nodes of all expressions that are inlined


@dataclass(frozen=True, slots=True)
class Term:
    """exp (scale · T + bias) · factor, over the changed score T of each element.

    `scale` and `bias` have one value per row, and only `bias` may mention the peak. Without an exponential `scale` is None.
    `factor` may vary with everything but the peak. `falls`: the bias certainly falls as the peak rises, so that a sum of nothing,
    whose peak is -inf, is multiplied by 0 when it is repaired.
    """

    scale: Scalar | None
    bias: Scalar
    factor: Scalar
    falls: bool = True


@dataclass(frozen=True, slots=True)
class Scores:
    """Further scores of the same elements, which weights may depend on: the sums over `depth` of query * key."""

    symbol: Symbol
    depth: Axis
    query: EpilogueOperand
    key: EpilogueOperand


@dataclass(frozen=True, slots=True)
class RowResult:
    """A tensor of one value per row: the final value `final`, at `axes`."""

    value: Value
    axes: tuple[Symbol, ...]
    final: Symbol


@dataclass(frozen=True, slots=True)
class Stream:
    """results[axes] = expression(sum over `keys` of weight * value, final values of the row).

    The scores are the sums over `depth` of query * key. `change` makes the changed score T of a score; the `peak` of a row is the
    greatest T, the `totals` are sums of terms, `product` is the sum of weight · value. `finals` follow from peak and totals once
    the pass is over. Where `condition` is false, an element contributes nothing; if the stream is `vanishing`, that is because T is
    -inf there, and else because its terms are 0. `views` are what is read at more than bare indices, `derived` indices that follow
    from the tile's. Factors of terms may mention `others`, scores of their own. `row_results` are stored beside the results. Where
    the first outer index counts parts of the keys, each has `part` of them. Query, key and value may come in limbs, of which these
    are the first (see `limbs`): then `further` are the others of each. `reaches` are tables that say of comparisons of the
    condition where they may hold (see `reach`), `pages` where keys and values lie that are read at one of their indices.

    Of weights it is known whether they are `at_most_1`, and whether the program `rounds` them to 8 bits. If they are, the keys of
    values are `interleaved`, and what so many of them add up to is promoted, if `promotion` is not 0. `copies` are made of factors
    of 8 bits for it (see `eight_bits`).
    """

    rows: Axis
    columns: Axis
    keys: Axis
    depth: Axis
    outer: tuple[Axis, ...]
    query: EpilogueOperand
    key: EpilogueOperand
    value: EpilogueOperand
    score: Symbol
    change: Scalar
    changed: Symbol
    peak: Symbol | None
    totals: tuple[tuple[Symbol, Term], ...]
    weight: Term
    finals: tuple[tuple[Symbol, Scalar], ...]
    product: Symbol
    results: tuple[Result, ...]
    condition: Scalar | None
    vanishing: bool
    views: tuple[View, ...] = ()
    derived: tuple[tuple[Symbol, Dim], ...] = ()
    part: Dim | None = None
    span: Span | None = None
    others: tuple[Scores, ...] = ()
    row_results: tuple[RowResult, ...] = ()
    further: tuple[tuple[EpilogueOperand, ...], ...] = ()
    reaches: tuple[Reach, ...] = ()
    pages: tuple[Pages, ...] = ()
    made: tuple[Symbol, tuple[Symbol, ...]] | None = None  # what its last sum makes, over which axes
    at_most_1: bool = False
    rounds: bool = False
    interleaved: bool = False
    promotion: int = 0
    copies: tuple[Value, ...] = ()

    @property
    def turned(self) -> bool:
        return False

    @property
    def may_be_rows(self) -> tuple[Axis, ...]:
        """The outer axes of which its tiles could have rows instead: all queries have them, no keys and no values."""
        across = self.by_keys
        return tuple(a for a in self.outer if a.symbol not in across and all(a.symbol in q.axes for q in self.queries))

    @property
    def by_keys(self) -> frozenset[Symbol]:
        """The indices that keys and values have, or the tables which say where these lie."""
        own = (axis for operand in (*self.key_operands, self.value) for axis in operand.axes)
        return frozenset(own).union(*map(axes_in, self.of_pages))

    @property
    def reduced(self) -> tuple[Axis, ...]:
        """The axes that are summed over."""
        return (*self.depths, self.keys)

    @property
    def depths(self) -> tuple[Axis, ...]:
        """Of the scores."""
        return (self.depth, *(other.depth for other in self.others))

    @property
    def queries(self) -> tuple[EpilogueOperand, ...]:
        """The left factors of the scores."""
        return (self.query, *(other.query for other in self.others))

    @property
    def key_operands(self) -> tuple[EpilogueOperand, ...]:
        """The right factors of the scores."""
        return (self.key, *(other.key for other in self.others))

    @property
    def operands(self) -> tuple[EpilogueOperand, ...]:
        return (*self.queries, *self.key_operands, self.value, *(limb for limbs in self.further for limb in limbs))

    @property
    def limbs(self) -> tuple[tuple[EpilogueOperand, ...], ...]:
        """The limbs of query, key and value; one each, if the matrix instructions take them as they are."""
        return tuple(
            (first, *more) for first, more in zip((self.query, self.key, self.value), self.further or ((),) * 3, strict=True)
        )

    @property
    def terms(self) -> tuple[Term, ...]:
        """Everything that is summed, each once, the weight first."""
        return tuple(dict.fromkeys([self.weight, *(term for _, term in self.totals)]))

    @property
    def expressions(self) -> Iterator[Scalar]:
        """What it computes of scores and of rows, in that order."""
        yield self.change
        if self.condition is not None:
            yield self.condition
        for term in (self.weight, *(term for _, term in self.totals)):
            yield from (s for s in (term.scale, term.bias, term.factor) if s is not None)
        yield from (value for _, value in self.finals)

    @property
    def of_pages(self) -> Iterator[Scalar]:
        """What its producer computes."""
        for pages in self.pages:
            yield from pages.scalars

    def pages_of(self, operand: EpilogueOperand) -> Pages | None:
        """Where an operand lies, if data say it."""
        return next((pages for pages in self.pages if pages.page in operand.axes), None)

    @property
    def again(self) -> bool:
        """Whether it only makes scores, of which it needs no statistics, that might as well be kept in memory."""
        return self.peak is None and not self.totals

    @property
    def by_key(self) -> frozenset[Symbol]:
        """The tensors of f32 that it reads along their last dimension for each key, whatever the row."""
        read = [(r, bare(r) or ()) for scalar in self.expressions for r in reads(scalar) if r.element is Element.F32]
        return frozenset(
            r.tensor for r, axes in read if axes[-1:] == (self.keys.symbol,) and not {self.rows.symbol, *axes[:-1]} & {*axes[-1:]}
        )

    @property
    def seen(self) -> frozenset[Symbol]:
        """The tensors and views that it reads."""
        computed = (*self.expressions, *(result.expression for result in self.results), *self.of_pages)
        return frozenset(o.value.symbol for o in self.operands) | {r.tensor for scalar in computed for r in reads(scalar)}

    @property
    def needs(self) -> frozenset[Symbol]:
        """The tensors that it reads, behind its views."""
        shown = {view.value.symbol: view.source for view in self.views}
        return frozenset(shown.get(symbol, symbol) for symbol in self.seen)


@dataclass(frozen=True, slots=True)
class Found:
    """A stream, the tensors it makes on its way without storing them, and those of them that an epilogue may read per row."""

    stream: Stream
    used: frozenset[Symbol]
    statistics: tuple[tuple[Symbol, tuple[Symbol, ...], Local], ...]  # tensor, its axes, its value
    views: Views


def stream(
    op: Compute,
    producers: Mapping[Symbol, Compute],
    values: Mapping[Symbol, Value],
    beside: Sequence[Compute] = (),
    rows: int | None = None,
) -> Found:
    """The stream that ends in this operation. Raises `Unsupported` if there is none.

    `beside` are reductions of the same rows that it makes too, for epilogues, though nothing in it depends on them. `rows` says of
    which of the operation's axes its tiles have rows. Left open, that is one that runs as far as the keys, as positions do, rather
    than one that may be short, as of the heads that share keys.
    """
    span = op.span
    if op.reduction is None or op.reduction.monoid.kind != "sum" or len(op.body) != 1:
        raise Unsupported("a stream ends in a sum of products", span, near=False)
    if len(op.reduction.axes) != 1 or len(op.axes) < 2:
        raise Unsupported("a stream ends in a sum over one index", span, near=False)
    (keys,) = op.reduction.axes
    if keys.extent.variables & {a.symbol for a in op.axes}:
        raise Unsupported("the reduced range depends on another index", span)
    columns = op.axes[-1]
    inliner = _Inliner(producers, keys, columns)
    body = inliner.inline(op.body[0])
    for other in beside:
        if [a.extent for a in other.axes] == [a.extent for a in op.axes[:-1]]:
            places = tuple(Dim.of(a.symbol) for a in op.axes[:-1])
            inliner.inline(Read(other.outs[0].symbol, places, other.outs[0].element))
    if not inliner.scores:
        raise Unsupported("no factor of the sum is made of scores", span, near=False)
    if len(inliner.scores) > 1 and inliner.statistics:
        raise Unsupported("statistics of rows run along with one product of scores, not with several", span)
    rest: list[Scalar] = []
    ends: list[Scalar] = []
    for factor in factors(body):
        (ends if mentions(factor, columns.symbol) else rest).append(factor)
    products = [inliner.producers[read.tensor] for read in inliner.scores]
    views = Views(values, (*op.axes, keys, *_depths(products)))
    inliner.complete = True
    found = [_scores(read, symbol, keys, inliner, views) for read, symbol in inliner.scores.items()]
    (first, _), *more = found
    query, key, depth, others = first.query, first.key, first.depth, tuple(scores for scores, _ in more)
    value = _operand(ends, views, "the values", span)
    across = {axis for scores, _ in found for axis in scores.key.axes} | {*value.axes}
    able = [a for a in op.axes[:-1] if all(a.symbol in s.query.axes for s, _ in found) and a.symbol not in across]
    if rows is None and len(able) > 1:
        order = [a for same in (True, False) for a in reversed(able) if (a.extent == keys.extent) is same]
        return _first_of(op, producers, values, beside, order)
    if not able or (rows is not None and op.axes[rows] not in able):
        raise Unsupported("no index of the result stands in the queries alone", span)
    row = able[0] if rows is None else op.axes[rows]
    outer = tuple(a for a in op.axes if a not in (row, columns))
    check_derived(views, {a.symbol for a in outer}, span)
    wide, short = element_types((*(x.value.element for s, _ in found for x in (s.query, s.key)), value.value.element), span)
    weight = product(rest)
    if op.reduction.where is not None:
        weight = Select(inliner.inline(op.reduction.where), weight, ZERO)
    sizes = _positive((*op.axes, keys, *(s.depth for s, _ in found)))
    made = _Pass(inliner, sizes, (row, keys), {s.symbol: scale for s, scale in found}, span).run(weight)
    if (short or wide is Element.F32) and (others or (made.peak is None and not made.totals)):
        raise Unsupported("scores that are made again are products of 16 bits", span)
    if wide is Element.F16 and element_of(op.body[0]) is not Element.F16 and not made.at_most_1:
        raise Unsupported("its weights have 32 bits, and those of 16 that the second product takes may not hold them", span)
    total = fresh("product")
    result = Result(
        op.outs[0], tuple(a.symbol for a in op.axes), views.bare(times(Local(total, Element.F32), made.norm), guarded=True)
    )
    condition = None if made.condition is None else views.bare(made.condition, guarded=True)
    finals = tuple((symbol, views.bare(value, guarded=True)) for symbol, value in made.finals)
    kernel = Stream(
        rows=row, columns=columns, keys=keys, depth=depth, outer=outer, query=query, key=key, value=value,
        score=first.symbol, change=views.bare(made.change, guarded=True), changed=made.changed.symbol, peak=made.peak,
        totals=tuple((symbol, _seen(term, views)) for symbol, term, _ in made.totals), weight=_seen(made.weight, views),
        finals=finals, product=total, results=(result,), condition=condition, vanishing=made.vanishing, span=span,
        others=others, made=(op.outs[0].symbol, tuple(a.symbol for a in op.axes)),
        at_most_1=made.at_most_1, rounds=rounds_to_8_bits(op.body[0], inliner.used),
    )  # fmt: skip
    kernel = replace(kernel, views=views.all, derived=views.derived)
    _check(kernel)
    check_derived(views, {a.symbol for a in outer}, span)
    if kernel.needs & inliner.used:
        raise Unsupported("what it makes on its way is read at other places too", span)
    return Found(kernel, frozenset(inliner.used), tuple(made.statistics), views)


def _first_of(
    op: Compute,
    producers: Mapping[Symbol, Compute],
    values: Mapping[Symbol, Value],
    beside: Sequence[Compute],
    rows: Sequence[Axis],
) -> Found:
    """The stream over the first of these rows over which there is one; else what is in the way over the first."""
    reason: Unsupported | None = None
    for axis in rows:
        try:
            return stream(op, producers, values, beside, op.axes.index(axis))
        except Unsupported as found:
            reason = reason or found
    assert reason is not None
    raise reason


# ── seeing through the operations ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Statistic:
    """A reduction over the streamed index: its body is over that index, its `place` says which tensor, at which indices."""

    symbol: Symbol
    kind: str  # max, sum
    body: Scalar
    place: Read


class _Inliner:
    """Replaces reads of what this kernel can make: pointwise operations by their bodies, scores and row statistics by locals.

    What is read along an axis of `multiplied`, which only a product's operand has, must be a tensor in memory. So must what is made
    without scores of what data say the place of, or what may stop the program: first keys of documents, `first[doc[i]]`.
    """

    def __init__(self, producers: Mapping[Symbol, Compute], keys: Axis, columns: Axis) -> None:
        self.producers, self.keys, self.columns = producers, keys, columns
        self.multiplied = {columns.symbol}
        self.scores: dict[Read, Symbol] = {}
        self.complete = False  # whether all scores are found
        self.statistics: dict[Read, _Statistic] = {}
        self.used: set[Symbol] = set()
        self.nodes = 0

    def inline(self, scalar: Scalar) -> Scalar:
        def visit(node: Scalar) -> Scalar | None:
            match node:
                case Read():
                    return self.read(node)
                case Bind(bindings=bindings, body=body):
                    known: dict[Symbol, Scalar] = {}
                    for symbol, value in bindings:
                        known[symbol] = self.limited(substituted(value, known))
                    return self.inline(self.limited(substituted(body, known)))
                case _:
                    return None

        return loosened(rewrite(scalar, visit))

    def limited(self, scalar: Scalar) -> Scalar:
        """What is used twice is written twice, and what is made of that four times: nothing that is long is a stream."""
        self.nodes += size(scalar, LONGEST)
        if self.nodes >= LONGEST:
            raise Unsupported("what it is made of is too long", near=False)
        return scalar

    def pointwise(self, read: Read, body: Scalar) -> Scalar | None:
        """A pointwise value by its body; none for an operand that its body does not merely read from another tensor, in steps along
        the axes of a tile: pairs that were turned, `t[i, c / 2, c % 2]`, are in memory as `c` goes over them."""
        if any(isinstance(f, Binary) and any(mentions(f, axis) for axis in self.multiplied) for f in factors(body)):
            return None  # whatever it is made of: a chain of residual sums is long
        before = set(self.used)
        self.used.add(read.tensor)
        inlined = self.inline(body)
        along = [f for f in factors(inlined) if any(mentions(f, axis) for axis in self.multiplied)]
        found = not local_symbols(inlined) and not all(map(_in_place, reads(inlined)))
        if found or (along and not (len(along) == 1 and isinstance(along[0], Read) and self.steps(along[0]))):
            self.used = before
            return None
        return inlined

    def steps(self, read: Read) -> bool:
        """Whether an operand's subscripts are linear in the axes along which a tile steps through it."""
        axes = self.multiplied | {self.keys.symbol}
        at = [s for s in read.subscripts if isinstance(s, Dim)]
        return all(s.linear_in(axis) is not None for s in at for axis in axes & s.variables)

    def read(self, read: Read) -> Scalar | None:
        producer = self.producers.get(read.tensor)
        subscripts = [s for s in read.subscripts if isinstance(s, Dim)]
        if producer is None or read.padding or read.checked or len(subscripts) != len(read.subscripts):
            return None
        names = {axis.symbol: s for axis, s in zip(producer.axes, subscripts, strict=True)}
        position = [out.symbol for out in producer.outs].index(read.tensor)
        body = producer.body[position]
        if producer.reduction is None:
            return self.pointwise(read, self.limited(rename(body, names)))
        along = any(self.keys.symbol in s.variables for s in subscripts)
        kind, reduced = producer.reduction.monoid.kind, producer.reduction.axes
        if along and kind == "sum" and not any(self.columns.symbol in s.variables for s in subscripts):
            if self.complete and read not in self.scores:
                return None  # a factor of scores, in memory
            self.used.add(read.tensor)
            return Local(self.scores.setdefault(read, fresh("score")), Element.F32)
        if along or kind not in ("max", "sum") or len(reduced) != 1 or reduced[0].extent.substitute(names) != self.keys.extent:
            return None
        if any(axis in s.variables for axis in self.multiplied for s in subscripts):
            return None  # of no row: it is of an operand
        if read not in self.statistics:
            self.used.add(read.tensor)
            names[reduced[0].symbol] = Dim.of(self.keys.symbol)
            if producer.reduction.where is not None:
                body = Select(producer.reduction.where, body, Const(-inf if kind == "max" else 0.0, element_of(body)))
            inlined = self.inline(rename(body, names))
            self.statistics[read] = _Statistic(fresh(read.tensor.name), kind, inlined, read)
        return Local(self.statistics[read].symbol, Element.F32)


def _in_place(read: Read) -> bool:
    """Whether it is read where indices say, and certainly there."""
    return read.padding is None and read.checked is None and all(isinstance(s, Dim) for s in read.subscripts)


def _operand(candidates: list[Scalar], views: Views, what: str, span: Span | None) -> EpilogueOperand:
    """The one tensor that these factors are."""
    match candidates:
        case [Read() as read]:
            seen = views.seen(read)
            axes = None if seen is None else bare(seen)
            if seen is not None and axes is not None:
                return EpilogueOperand(views.value(seen.tensor), axes, tuple(range(len(axes))))
    raise Unsupported(f"{what} are not one tensor read at indices", span)


def _depths(products: Sequence[Compute]) -> tuple[Axis, ...]:
    """What the products of scores sum over."""
    found: list[Axis] = []
    for producer in products:
        assert producer.reduction is not None
        if producer.reduction.where is not None or len(producer.reduction.axes) != 1 or len(producer.body) != 1:
            raise Unsupported("the scores are not one sum of products over one index", producer.span)
        found += producer.reduction.axes
    if len(set(found)) < len(found):
        raise Unsupported("scores are read at two places", products[0].span)
    return tuple(found)


def _scores(read: Read, symbol: Symbol, keys: Axis, inliner: _Inliner, views: Views) -> tuple[Scores, Scalar]:
    """The operands of a product of scores and the axis that it reduces; and what else multiplies it."""
    producer = inliner.producers[read.tensor]
    assert producer.reduction is not None
    (depth,) = producer.reduction.axes
    names = {a.symbol: s for a, s in zip(producer.axes, read.subscripts, strict=True) if isinstance(s, Dim)}
    deep: list[Scalar] = []
    shallow: list[Scalar] = []
    inliner.multiplied.add(depth.symbol)
    for factor in factors(inliner.inline(rename(producer.body[0], names))):
        (deep if mentions(factor, depth.symbol) else shallow).append(factor)
    left = [f for f in deep if not mentions(f, keys.symbol)]
    right = [f for f in deep if mentions(f, keys.symbol)]
    query = _operand(left, views, "the left factors of the scores", producer.span)
    key = _operand(right, views, "the right factors of the scores", producer.span)
    return Scores(symbol, depth, query, key), product(shallow)


# ── one pass ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _positive(axes: tuple[Axis, ...]) -> frozenset[Symbol]:
    """The sizes that are at least 1 where a kernel over these axes has anything to do."""
    products = [axis.extent.terms[0][1] for axis in axes if len(axis.extent.terms) == 1]
    return frozenset(atom for monomial in products for atom in monomial if isinstance(atom, Symbol))


class _Pass:
    """Brings the weights and the row statistics into terms over one running peak."""

    def __init__(
        self,
        inliner: _Inliner,
        sizes: frozenset[Symbol],
        tile: tuple[Axis, Axis],
        scales: Mapping[Symbol, Scalar],
        span: Span | None,
    ) -> None:
        self.inliner, self.sizes, self.span = inliner, sizes, span
        self.rows, self.keys = tile
        keys = self.keys
        self.score = Local(next(iter(scales)), Element.F32)
        self.scores: dict[Symbol, Scalar] = {symbol: times(Local(symbol, Element.F32), x) for symbol, x in scales.items()}
        self.changed = Local(fresh("changed"), Element.F32)
        self.varying = frozenset({keys.symbol, *scales, self.changed.symbol})
        self.summed = {s.symbol for s in inliner.statistics.values() if s.kind == "sum"}
        self.body: Scalar | None = None  # of the maximum, as written
        self.peak: Symbol | None = None
        self.unscaled: tuple[Scalar, Scalar | None] = (ONE, None)  # body = first · changed + second
        self.change: Scalar = self.score
        self.masked: Scalar | None = None  # where the changed score is not -inf
        self.inner: Scalar | None = None  # what the maximum is taken of there
        self.known: dict[Symbol, Scalar] = {}  # statistics as they are at the end of the pass
        self.totals: list[tuple[Symbol, Term, Scalar | None]] = []  # the last: where the term is not 0
        self.statistics: list[tuple[Symbol, tuple[Symbol, ...], Local]] = []
        self.finals: list[tuple[Symbol, Scalar]] = []

    def run(self, weight: Scalar) -> _Pass:
        statistics = list(self.inliner.statistics.values())
        for statistic in statistics:
            body = substituted(statistic.body, self.scores)
            value = self.maximum(body) if statistic.kind == "max" else self.total(body)
            self.known[statistic.symbol] = value
        self.weight, where, after = self.term(substituted(weight, self.scores))
        norm = self.emptied(substituted(after, self.known))
        self.norm = norm if norm == ONE else self.final("norm", norm)
        for statistic in statistics:
            axes = bare(statistic.place)
            if axes is not None:
                value = self.final(statistic.symbol.name, self.whole(statistic, self.known[statistic.symbol]))
                self.statistics.append((statistic.place.tensor, axes, value))
        terms = [self.weight, *(term for _, term, _ in self.totals)]
        self.vanishing = self.peak is not None and all(self.vanishes(term) for term in terms)
        zeroed = {where, *(other for _, _, other in self.totals)}
        if self.peak is None and len(zeroed) == 1 and not self.by_score(where):
            self.condition = where
        else:  # each term keeps its own
            self.condition = self.masked if self.vanishing and not self.by_score(self.masked) else None
            self.totals = [(symbol, kept(term, other), None) for symbol, term, other in self.totals]
            self.weight = kept(self.weight, where)
        return self

    @property
    def at_most_1(self) -> bool:
        """Whether weights are seen to be at most 1: powers below the greatest."""
        weight = self.weight
        if self.peak is None or weight.scale is None or weight.factor not in (ONE, self.counted(weight.factor)):
            return False
        form = linear(weight.bias, lambda s: self.peak in local_symbols(s))
        scales = (negated(weight.scale), times(weight.scale, negated(ONE)), times(negated(ONE), weight.scale))
        return form.rest is None and len(form.terms) == 1 and form.terms[0][0] in scales

    def counted(self, factor: Scalar) -> Scalar | None:
        """A factor that is 1 where a condition holds, else 0."""
        return factor if isinstance(factor, Select) and (factor.then, factor.otherwise) == (ONE, ZERO) else None

    def by_score(self, condition: Scalar | None) -> bool:
        """Whether scores decide a condition: then it is asked of each, and bounds nothing."""
        return condition is not None and not local_symbols(condition).isdisjoint(self.varying)

    def emptied(self, norm: Scalar) -> Scalar:
        """By what a row's product is multiplied, and NaN where no element of the row counts, whose powers are those of -inf + inf.
        A division by a sum of theirs, which is 0, has that effect by itself."""
        if self.peak is None or self.weight.scale is None or self.peak not in local_symbols(self.weight.bias):
            return norm
        if any(factor == inverse(Local(symbol, Element.F32)) for factor in factors(norm) for symbol, *_ in self.totals):
            return norm
        peak = Local(self.peak, Element.F32)
        return Binary("add", norm, Binary("sub", peak, peak))

    def vanishes(self, term: Term) -> bool:
        """Whether a term is 0 where the changed score is -inf."""
        return term.scale is not None and positive(term.scale, self.sizes) and self.changed.symbol not in local_symbols(term.factor)

    def whole(self, statistic: _Statistic, value: Scalar) -> Scalar:
        """A statistic for others to see: a sum in which no element counts, of powers below a peak of -inf, is NaN."""
        if self.peak is None or statistic.kind != "sum" or not local_symbols(value) & {symbol for symbol, *_ in self.totals}:
            return value
        peak = Local(self.peak, Element.F32)
        return Binary("add", value, Binary("sub", peak, peak))

    def final(self, name: str, value: Scalar) -> Local:
        symbol = fresh(name)
        self.finals.append((symbol, value))
        return Local(symbol, Element.F32)

    def varies(self, scalar: Scalar) -> bool:
        return mentions_any(scalar, self.varying)

    # ── statistics ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def maximum(self, body: Scalar) -> Scalar:
        if self.peak is not None:
            raise Unsupported("two maxima of one row have no single running peak", self.span)
        if local_symbols(body) & set(self.known):
            raise Unsupported("a maximum that depends on another statistic of its row cannot run along", self.span)
        self.masked, self.inner = lifted(body, self.varies, -inf, self.sizes)
        form = linear(self.inner, self.varies)
        varying = form.varying()
        if varying is None:
            raise Unsupported("a maximum over what does not vary", self.span)
        (scale, atom), *more = form.terms
        if more or not positive(scale, self.sizes):
            scale, atom = ONE, varying
        self.body, self.peak, self.unscaled = body, fresh("peak"), (scale, form.rest)
        self.change = atom if self.masked is None else Select(self.masked, atom, Const(-inf, Element.F32))
        return self.rescaled(Local(self.peak, Element.F32))

    def rescaled(self, changed: Scalar) -> Scalar:
        """What the maximum is taken of, for a changed score."""
        scale, rest = self.unscaled
        value = plus(times(changed, scale), rest)
        assert value is not None
        return value

    def total(self, body: Scalar) -> Scalar:
        term, where, after = self.term(body)
        same = (symbol for symbol, *rest in self.totals if rest == [term, where])
        symbol = next(same, None)
        if symbol is None:
            symbol = fresh("total")
            self.totals.append((symbol, term, where))
        return times(Local(symbol, Element.F32), substituted(after, self.known))

    # ── terms ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def term(self, body: Scalar) -> tuple[Term, Scalar | None, Scalar]:
        """A sum's body as a term, where that is not 0, and what does not vary and so waits for the end of the pass."""
        where, body = lifted(self.folded(body), self.varies, 0.0, self.sizes)
        if where is not None and where == self.masked:  # there, the changed score is the score
            value = self.rescaled(self.changed)
            body = rewrite(body, lambda node: value if node == self.inner else None)
        where = None if where is None else self.over_changed(where)
        fixed, exponents, others = [], [], []
        for factor in factors(body):
            if not self.varies(factor):
                fixed.append(factor)
            elif isinstance(factor, Unary) and factor.op == "exp":
                exponents.append(factor.operand)
            else:
                others.append(factor)
        if not exponents:
            return Term(None, ZERO, self.over_changed(product(others))), where, product(fixed)
        form = linear(exponents[0], self.varies)
        for exponent in exponents[1:]:
            form = form.plus(linear(exponent, self.varies))
        scale: Scalar | None = None
        beside: Scalar | None = None
        for coefficient, atom in form.terms:
            if local_symbols(coefficient) & set(self.known):
                raise Unsupported(NO_CORRECTION, self.span)
            if atom == (self.changed if self.peak is not None else self.score):
                scale = coefficient
            else:
                beside = plus(beside, times(coefficient, atom))
        if beside is not None and self.peak is None:  # apart, one might be infinite where the other is 0
            others += [Unary("exp", exponent) for exponent in exponents]
            return Term(None, ZERO, self.over_changed(product(others))), where, product(fixed)
        if beside is not None:
            others.append(Unary("exp", beside))
        bias: Scalar | None = None
        for addend in addends(form.rest):
            # What depends on a sum waits for the end; what depends on the peak alone keeps the exponential in range.
            if local_symbols(addend) & self.summed:
                fixed.append(Unary("exp", addend))
            else:
                bias = plus(bias, substituted(addend, self.known))
        if scale is None:
            if bias is not None:
                fixed.append(Unary("exp", bias))
            return Term(None, ZERO, self.over_changed(product(others))), where, product(fixed)
        bias = bias or ZERO
        sinks = self.peak is None or self.peak not in local_symbols(bias) or falls(bias, self.peak, self.sizes)
        made = Term(scale, bias, self.over_changed(product(others)), sinks)
        if where is not None and local_symbols(product(fixed)) & set(self.known) and not self.somewhere(where):
            raise Unsupported("a sum in which no element may count cannot be divided after the pass", self.span)
        # Where the changed score is -inf, the exponential is 0 by itself.
        return made, None if where == self.masked and self.vanishes(made) else where, product(fixed)

    def somewhere(self, where: Scalar) -> bool:
        """Whether a condition surely holds for some element of each row: for the first, or for that on the diagonal."""
        places = [Dim.of(0)] + [Dim.of(self.rows.symbol)] * (self.rows.extent == self.keys.extent)
        return any(holds(rename(where, {self.keys.symbol: place})) for place in places)

    def folded(self, scalar: Scalar) -> Scalar:
        """The expression with what the maximum was taken of as a multiple of the changed score."""
        if self.body is None:
            return scalar
        value = self.rescaled(self.changed)
        return rewrite(scalar, lambda node: value if node == self.body else None)

    def over_changed(self, scalar: Scalar) -> Scalar:
        """An elementwise factor, over the changed score. It may not depend on any statistic of its row."""
        if local_symbols(scalar) & set(self.known):
            raise Unsupported(NO_CORRECTION, self.span)
        if self.score.symbol not in local_symbols(scalar):
            return scalar
        if self.change != self.score:
            raise Unsupported("the weights use both the scores and what their maximum is taken of", self.span)
        return substituted(scalar, {self.score.symbol: self.changed})


def holds(condition: Scalar) -> bool:
    """Whether a condition over indices is seen to hold whatever they are."""
    match condition:
        case Binary(op="and", left=left, right=right):
            return holds(left) and holds(right)
        case Binary(op="or", left=left, right=right):
            return holds(left) or holds(right)
        case Binary(op="le" | "lt" | "ge" | "gt" | "eq" as op, left=Index(dim=left), right=Index(dim=right)):
            low, high = of_dim(right - left)
            return {"le": low >= 0, "lt": low > 0, "ge": high <= 0, "gt": high < 0, "eq": low == high == 0}[op]
        case _:
            return False


def kept(term: Term, where: Scalar | None) -> Term:
    """The term where a condition holds, else 0."""
    return term if where is None else replace(term, factor=Select(where, term.factor, ZERO))


def _seen(term: Term, views: Views) -> Term:
    """The term with its reads at bare indices. The pass may see what a condition guarded, so nothing is taken for granted."""
    scale = None if term.scale is None else views.bare(term.scale, guarded=True)
    return replace(term, scale=scale, bias=views.bare(term.bias, guarded=True), factor=views.bare(term.factor, guarded=True))


def addends(scalar: Scalar | None) -> Iterator[Scalar]:
    """What adds up to an expression."""
    match scalar:
        case None:
            return
        case Binary(op="add", left=left, right=right):
            yield from addends(left)
            yield from addends(right)
        case Binary(op="sub", left=left, right=right):
            yield from addends(left)
            yield from (negated(a) for a in addends(right))
        case Binary(op="mul", left=left, right=Const() as c):
            yield from (times(a, c) for a in addends(left))
        case Unary(op="neg", operand=operand):
            yield from (negated(a) for a in addends(operand))
        case _:
            yield scalar


def _check(kernel: Stream) -> None:
    """Raises `Unsupported` for what has no device form."""
    per_element = [kernel.change, *(term.factor for term in kernel.terms)] + [c for c in (kernel.condition,) if c is not None]
    per_row = [s for term in kernel.terms for s in (term.scale, term.bias) if s is not None] + [v for _, v in kernel.finals]
    axes = {a.symbol for a in (*kernel.outer, kernel.rows, kernel.columns, *kernel.reduced)}
    for scalar in (*per_element, *per_row, *(r.expression for r in kernel.results)):
        why = obstacle(scalar, axes)
        if why:
            raise Unsupported(f"a stream {why}", kernel.span)
        for read in reads(scalar):
            if read.padding is not None or read.checked is not None or (read.subscripts and bare(read) is None):
                raise Unsupported("the scores are changed by a tensor read at more than bare indices", kernel.span)
