"""Core to core: sums over products of large tensors, in a form in which streams make those tensors again instead of keeping them.

    s[i, j] = sum c => q[i, c] * k[j, c]                          s[i, j] = sum c => q[i, c] * k[j, c]
    m[i] = max j => s[i, j]                                       m[i] = max j => s[i, j]
    z[i] = sum j => exp (s[i, j] - m[i])                          z[i] = sum j => exp (s[i, j] - m[i])
    o[i, e] = sum j => exp (s[i, j] - m[i]) / z[i] * v[j, e]      o[i, e] = sum j => exp (s[i, j] - m[i]) / z[i] * v[j, e]
                                                         become   l[i] = m[i] + log z[i]
    p[i, j] = exp (s[i, j] - m[i]) / z[i]
    dp[i, j] = sum e => g[i, e] * v[j, e]                         dp[i, j] = sum e => g[i, e] * v[j, e]
    d[i] = sum j => dp[i, j] * p[i, j]                            d[i] = sum e => g[i, e] * o[i, e]
    dq[i, c] = sum j => p[i, j] * (dp[i, j] - d[i]) * k[j, c]     dq[i, c] = sum j => exp (s[i, j] - l[i]) * (…) * k[j, c]

What multiplies the last factor is brought into one exponential, times what is linear in the scores, under one condition. What has
one value per row, `l` and `d`, is made before and read from memory, in f32. Then `s` and `dp` are read by nothing but maxima and
sums that streams make (`tile.stream`), and never stored. No name decides, only what is read where. Where something else needs `s`,
or what a stream cannot take stands in one of these sums, the program stays as it is.

Note [Rows of which everything is masked]
    exp (-inf - l) is taken to be 0. In a row of which every score is -inf, `l` is not finite, and the row of the forward pass is
    NaN. Such a row adds nothing to what is summed over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import lru_cache
from math import inf

from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.tile.families import streams
from axon.backend.gpu.tile.online_softmax import (
    ONE,
    ZERO,
    both,
    factors,
    inverse,
    lifted,
    linear,
    local_symbols,
    loosened,
    negated,
    plus,
    product,
    substituted,
    times,
)
from axon.backend.gpu.tile.schedule import LAUNCH, MEMORY_RATE, SUSTAINED_RATE, ScheduleProblem, Traits, fastest
from axon.backend.gpu.tile.scores import Group, Seen, as_stored, first_of, groups, orders
from axon.backend.gpu.tile.stream import addends, stream
from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import (
    Axis,
    Binary,
    Block,
    Compute,
    Const,
    Convert,
    Local,
    Monoid,
    Op,
    Program,
    Read,
    Reduction,
    Scalar,
    Select,
    Unary,
    Value,
    element_of,
)
from axon.core.known import present
from axon.core.operands import in_f32
from axon.core.verify import verify_rewritten
from axon.core.walk import converted, mentions, outs_of, reads, rename, rewrite, tensors_of
from axon.shapes.dimension import Dim

F32 = Element.F32


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The program, and what streams are to read from memory although they could make it."""

    program: Program
    kept: frozenset[Symbol] = frozenset()


@verified("recompute", lambda made, given, *_: verify_rewritten(made.program, given))
def recomputed(program: Program, apart: Set[Symbol] = frozenset()) -> Recomputed:
    """The program with such sums in a form that streams take: of sums that share scores, all or none (see `groups`). Those that
    make one of the tensors in `apart` are no streams."""
    made = Recomputed(program)
    if Seen(program.block.ops).products:
        for group in groups(as_stored(program.block.ops), program.block.results):
            made = _Rewriting(made.program, apart, group, made.kept).run() or made
    return replace(made, program=present(made.program))


# ── the pass ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Rewriting:
    """Of the sums of one group, in a program whose streams read what is `before` from memory already."""

    program: Program
    apart: Set[Symbol]
    group: Group
    before: Set[Symbol] = frozenset()
    kept: dict[Symbol, Value] = field(default_factory=dict)
    made: list[Op] = field(default_factory=list)
    rows: dict[Scalar, tuple[Value, Compute]] = field(default_factory=dict)
    products: set[Symbol] = field(default_factory=set)  # made for sums of the program, worth it only as streams

    def run(self) -> Recomputed | None:
        ops = list(self.given())
        own = self.group.sums | self.products
        seen = Seen(ops)
        ops = [self.by_products(op, seen) if first_of(op) in own else op for op in ops]
        seen = Seen(ops)
        wide = self.widened({s for op in ops if first_of(op) in own for s in self.statistics_of(op, seen)}, ops)
        ops, self.made = [in_f32(op, wide) for op in ops], [in_f32(op, wide) for op in self.made]
        seen = Seen(ops)
        values = {v.symbol: v for v in (*self.program.inputs, *(out for op in ops for out in outs_of(op)))}
        changed: dict[Symbol, Compute] = {}
        for op in ops:
            if isinstance(op, Compute) and op.outs[0].symbol in own - self.apart:
                made = self.rewritten(op, seen, values)
                if made is not None:
                    changed[op.outs[0].symbol] = made
        while changed:
            whole = [changed.get(op.outs[0].symbol, op) if isinstance(op, Compute) else op for op in ops]
            whole = _live(_in_order([*whole, *self.made]), self.program.block.results)
            program = replace(self.program, block=Block(tuple(whole), self.program.block.results))
            kept = (self.before | self.kept.keys()) & {out.symbol for op in whole for out in outs_of(op)}
            taken = streams(present(program), self.apart, kept)
            refused = changed.keys() - taken
            if not refused:
                return Recomputed(program, frozenset(kept)) if self.products <= taken else None
            # What others read as scores first: as it was, it may be such for them.
            scores = {read.tensor for made in changed.values() for read in reads(made.body[0])} & refused
            changed = {symbol: made for symbol, made in changed.items() if symbol not in (scores or refused)}
        return None

    def given(self) -> Iterator[Op]:
        """The program's operations, those of the group over tensors as these are stored, and over one index each."""
        for op, stored in zip(self.program.block.ops, as_stored(self.program.block.ops), strict=True):
            if first_of(op) in self.group.sums:
                yield from self.one_by_one(stored)
            else:
                yield stored if first_of(op) in self.group.scores else op

    # ── sums over several indices ───────────────────────────────────────────────────────────────────────────────────────

    def one_by_one(self, op: Op) -> Iterator[Op]:
        """sum m i => w[m, i, j] * q[m, i, c], as heads that share keys give these, is a sum over i for each m, and one over m."""
        along = _last_of(op) if isinstance(op, Compute) else None
        if not isinstance(op, Compute) or op.reduction is None or along is None:
            yield op
            return
        outer = [axis for axis in op.reduction.axes if axis != along]
        given = (*outer, *op.axes, along)
        axes = tuple(Axis(fresh(a.symbol.name), a.extent) for a in given)
        names = {a.symbol: Dim.of(b.symbol) for a, b in zip(given, axes, strict=True)}
        out = Value(_symbol(op.outs[0].symbol, "parts"), F32, tuple(a.extent for a in axes[:-1]))
        made = rename(product(converted(factor, F32) for factor in factors(op.body[0])), names)
        yield Compute((out,), axes[:-1], Reduction(axes[-1:], op.reduction.monoid), (made,), op.span)
        self.products.add(out.symbol)
        whole = Read(out.symbol, tuple(Dim.of(a.symbol) for a in given[:-1]), F32)
        reduction = replace(op.reduction, axes=tuple(outer))
        yield replace(op, reduction=reduction, body=(converted(whole, op.outs[0].element),))

    # ── sums of products by other products ──────────────────────────────────────────────────────────────────────────────

    def by_products(self, op: Op, seen: Seen) -> Op:
        """sum j => c[i] * (sum e => a[i, e] * b[j, e]) * y[i, j] is c[i] * sum e => a[i, e] * o[i, e], where
        o[i, e] = sum j => y[i, j] * b[j, e] is something that the program has, or, if y is made of scores, is made."""
        if not isinstance(op, Compute) or op.reduction is None or op.reduction.monoid.kind != "sum" or len(op.body) != 1:
            return op
        if len(op.reduction.axes) != 1 or op.reduction.where is not None or not op.outs[0].element.is_float:
            return op
        if op.outs[0].symbol in seen.products:  # of two tensors that are there
            return op
        (along,) = op.reduction.axes
        parts = list(factors(seen.inlined(op.body[0])))
        for number, part in enumerate(parts):
            found = seen.products.get(part.tensor) if isinstance(part, Read) else None
            if found is None or not isinstance(part, Read) or not mentions(part, along.symbol):
                continue
            names = {a.symbol: s for a, s in zip(found.op.axes, part.subscripts, strict=True) if isinstance(s, Dim)}
            sides = [rename(side, names) for side in (found.left, found.right)]
            own = next((s for s in sides if not mentions(s, along.symbol)), None)
            other = next((s for s in sides if mentions(s, along.symbol)), None)
            rest = [*parts[:number], *parts[number + 1 :], *factors(rename(found.scale, names))]
            if own is None or other is None:
                continue
            made = self.known_product(op, along, found.depth, seen.inlined(other), rest, seen)
            if made is None and any(seen.scored(factor, {along.symbol}) for factor in rest):
                made = self.new_product(op, along, found.depth, part, other, rest)
            if made is not None:
                whole, beside = made
                return self.dotted(op, found.depth, own, whole, beside)
        return op

    def new_product(
        self, op: Compute, along: Axis, depth: Axis, part: Read, other: Scalar, rest: list[Scalar]
    ) -> tuple[Read, list[Scalar]] | None:
        """A product of what is summed over beside `part`, as it is written, and `other`, at this operation's axes; and what of
        `rest` it lacks."""
        written = [factor for factor in factors(op.body[0]) if mentions(factor, along.symbol)]
        if part not in written:
            return None
        written.remove(part)
        (first,) = op.outs
        out = Value(_symbol(first.symbol, "product"), F32, (*first.shape, depth.extent))
        given = (*op.axes, depth, along)
        own = tuple(Axis(fresh(a.symbol.name), a.extent) for a in given)
        names = {a.symbol: Dim.of(b.symbol) for a, b in zip(given, own, strict=True)}
        body = rename(product(converted(factor, F32) for factor in (*written, other)), names)
        self.made.append(Compute((out,), own[:-1], Reduction(own[-1:], Monoid("sum")), (body,), op.span))
        self.products.add(out.symbol)
        places = tuple(Dim.of(a.symbol) for a in given[:-1])
        return Read(out.symbol, places, F32), [factor for factor in rest if not mentions(factor, along.symbol)]

    def known_product(
        self, op: Compute, along: Axis, depth: Axis, other: Scalar, rest: list[Scalar], seen: Seen
    ) -> tuple[Read, list[Scalar]] | None:
        """The product of `rest` and `other` that the program has, at this operation's axes; and what it lacks."""
        places = [*(a.symbol for a in op.axes), depth.symbol, along.symbol]
        for maker in seen.makers.values():
            if maker is op or maker.reduction is None or maker.reduction.monoid.kind != "sum" or len(maker.body) != 1:
                continue
            if [a.extent for a in maker.reduction.axes] != [along.extent] or maker.reduction.where is not None:
                continue
            for own in orders(maker.axes, [*(a.extent for a in op.axes), depth.extent]):
                names = dict(zip((*(a.symbol for a in own), maker.reduction.axes[0].symbol), map(Dim.of, places), strict=True))
                left, wanted = list(rest), other
                for factor in factors(seen.inlined(rename(maker.body[0], names))):
                    if factor == wanted:
                        wanted = ONE
                    elif factor in left:
                        left.remove(factor)
                    else:
                        break
                else:
                    if wanted == ONE and not any(mentions(f, along.symbol) for f in left):
                        out = maker.outs[0]
                        return Read(out.symbol, tuple(names[a.symbol] for a in maker.axes), out.element), left
        return None

    def dotted(self, op: Compute, depth: Axis, own: Scalar, whole: Read, beside: list[Scalar]) -> Compute:
        """The sum over the depth of two tensors, and what multiplies it."""
        symbol = _symbol(op.outs[0].symbol, "sum")
        out = Value(symbol, F32, op.outs[0].shape)
        axes = tuple(Axis(fresh(a.symbol.name), a.extent) for a in op.axes)
        inner = Axis(fresh(depth.symbol.name), depth.extent)
        names = {a.symbol: Dim.of(b.symbol) for a, b in zip((*op.axes, depth), (*axes, inner), strict=True)}
        body = rename(Binary("mul", _wide(own), _wide(whole)), names)
        self.made.append(Compute((out,), axes, Reduction((inner,), Monoid("sum")), (body,), op.span))
        read: Scalar = Read(symbol, tuple(Dim.of(a.symbol) for a in op.axes), F32)
        for factor in beside:
            read = Binary("mul", read, _wide(factor))
        return replace(op, reduction=None, body=(converted(read, op.outs[0].element),))

    # ── statistics in f32 ───────────────────────────────────────────────────────────────────────────────────────────────

    def statistics_of(self, op: Op, seen: Seen) -> set[Symbol]:
        """What a sum reads of rows beside scores: what other reductions of scores make."""
        found = self.weights(op, seen) if isinstance(op, Compute) else None
        return set() if found is None else {r.tensor for r in reads(found[0]) if seen.is_statistic(r)}

    def widened(self, statistics: set[Symbol], ops: Sequence[Op]) -> frozenset[Symbol]:
        """Those that have 16 bits, and are no results."""
        values = {out.symbol: out for op in ops for out in outs_of(op)}
        results = set(self.program.block.results)
        return frozenset(s for s in statistics if values[s].element.is_float and values[s].element.bits < 32 and s not in results)

    # ── sums in the form of streams ─────────────────────────────────────────────────────────────────────────────────────

    def weights(self, op: Compute, seen: Seen) -> tuple[Scalar, Scalar, list[Read]] | None:
        """What multiplies the last factor of a sum over one index, that factor, and the scores that stand in it."""
        if op.reduction is None or op.reduction.monoid.kind != "sum" or len(op.body) != 1 or len(op.axes) < 2:
            return None
        if len(op.reduction.axes) != 1 or op.reduction.where is not None:
            return None
        (along,), columns = op.reduction.axes, op.axes[-1]
        parts = list(factors(loosened(op.body[0])))
        ends = [f for f in parts if mentions(f, columns.symbol)]
        if len(ends) != 1 or not isinstance(ends[0], Read):
            return None
        rest = seen.inlined(product(f for f in parts if f not in ends))
        scored = seen.scored(rest, {along.symbol})
        return (rest, ends[0], scored) if scored else None

    def rewritten(self, op: Compute, seen: Seen, values: Mapping[Symbol, Value]) -> Compute | None:
        """A sum in the form of a stream that reads statistics from memory; None if it is none, or makes its own."""
        found = self.weights(op, seen)
        if found is None:
            return None
        weight, end, scored = found
        if not any(map(seen.is_statistic, reads(weight))):
            return None  # as it stands, it is a stream or none
        with suppress(Unsupported):
            stream(op, seen.makers, values)
            return None
        assert op.reduction is not None
        names: dict[Read, Symbol] = {read: fresh("score") for read in scored}
        weight = rewrite(weight, lambda node: Local(names[node], F32) if isinstance(node, Read) and node in names else None)
        form = _Form(frozenset(names.values()), seen, frozenset(out.symbol for one in self.made for out in outs_of(one)))
        condition, weight = form.brought(weight)
        weight = self.with_rows(weight, op, form, seen)
        if condition is not None:
            weight = Select(condition, weight, ZERO)
        back = {symbol: read for read, symbol in names.items()}
        whole = Binary("mul", _wide(substituted(weight, dict(back))), _wide(end))
        return replace(op, body=(converted(whole, op.outs[0].element),))

    def with_rows(self, weight: Scalar, op: Compute, form: _Form, seen: Seen) -> Scalar:
        """The weight with what has one value per row read from memory."""
        assert op.reduction is not None
        extents = {a.symbol: a.extent for a in (*op.axes, *op.reduction.axes)}

        def visit(node: Scalar) -> Scalar | None:
            if isinstance(node, Const) or form.varies(node) or not element_of(node).is_float:
                return None
            own = [read for read in reads(node) if form.is_statistic(read)]
            if not own:
                return None
            at = [s.symbol for s in own[0].subscripts if isinstance(s, Dim) and s.symbol]
            if len(at) != len(own[0].subscripts) or len(set(at)) < len(at) or not set(at) <= extents.keys():
                return None
            if any(mentions(node, axis) for axis in extents.keys() - set(at)):
                return None
            places = [_place(n) for n in range(len(at))]
            key = rename(node, {a: Dim.of(p) for a, p in zip(at, places, strict=True)})
            if key not in self.rows:
                axes = tuple(Axis(p, extents[a]) for p, a in zip(places, at, strict=True))
                value = Value(_symbol(own[0].tensor, f"rows{len(self.rows)}"), F32, tuple(a.extent for a in axes))
                fresh_axes = tuple(Axis(fresh(a.symbol.name), a.extent) for a in axes)
                body = rename(key, {a.symbol: Dim.of(b.symbol) for a, b in zip(axes, fresh_axes, strict=True)})
                made = Compute((value,), fresh_axes, None, (_wide(body),), op.span)
                self.rows[key] = value, made
                self.made.append(made)
                self.kept[value.symbol] = value
            return Read(self.rows[key][0].symbol, tuple(map(Dim.of, at)), F32)

        return rewrite(weight, visit)


def _last_of(op: Compute) -> Axis | None:
    """Of several indices that a product of weights and another tensor is summed over, the one that stands last in the weights: of
    weights by rows and columns an index of these. None if it is no such sum."""
    if op.reduction is None or len(op.reduction.axes) < 2 or op.reduction.where is not None or len(op.body) != 1 or not op.axes:
        return None
    summed, parts = op.reduction.axes, list(factors(loosened(op.body[0])))
    weights = [f for f in parts if not mentions(f, op.axes[-1].symbol)]
    if len(parts) != 2 or len(weights) != 1 or not isinstance(weights[0], Read) or not op.outs[0].element.is_float:
        return None
    if {v for axis in (*op.axes, *summed) for v in axis.extent.variables} & {axis.symbol for axis in summed}:
        return None  # one reaches as far as another says
    found = [axis for s in weights[0].subscripts if isinstance(s, Dim) for axis in summed if axis.symbol in s.variables]
    return found[-1] if found and all(mentions(f, found[-1].symbol) for f in parts) else None


def better_kept(problem: ScheduleProblem, traits: Traits, target: Target) -> str | None:
    """Why a stream that makes its scores again is better done through memory at these sizes, if it is: as products that make the
    scores, a kernel that makes weights of them, and one more product. What makes scores serves two streams."""
    factor = Traits(traits.element, (traits.element,))
    elements = problem.rows * problem.keys * problem.outer
    scores = fastest(ScheduleProblem(problem.rows, problem.keys, problem.depth, problem.outer), factor, target) * problem.scores
    weights = LAUNCH + (1 + problem.scores) * elements * traits.element.bits / 8 / MEMORY_RATE
    whole = fastest(ScheduleProblem(problem.rows, problem.columns, problem.keys, problem.outer), factor, target)
    in_parts = 2 * LAUNCH + 2 * elements * problem.columns / (target.multiprocessors * SUSTAINED_RATE)
    if (scores + weights) / 2 + min(whole, in_parts) < fastest(problem, traits, target):
        return "at these sizes its scores are better kept in memory than made again"
    return None


# ── the form of a weight ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Form:
    """Weights over these scores, which are locals."""

    scores: frozenset[Symbol]
    seen: Seen
    made: frozenset[Symbol]  # statistics beside those of the program

    def is_statistic(self, read: Read) -> bool:
        return read.tensor in self.made or self.seen.is_statistic(read)

    def varies(self, scalar: Scalar) -> bool:
        return bool(local_symbols(scalar) & self.scores)

    def brought(self, weight: Scalar) -> tuple[Scalar | None, Scalar]:
        """The condition under which a weight is not 0 (None: always), and the weight as exp (…) · a sum · ….

        Factors without scores that are sums of exponentials are taken into the exponential, as logarithms."""
        condition, weight = self.masked(weight)
        exponents: list[Scalar] = []
        others: list[Scalar] = []
        fixed: list[Scalar] = []
        for factor in factors(self.gathered(weight)):
            if not self.varies(factor):
                fixed.append(factor)
            elif isinstance(factor, Unary) and factor.op == "exp":
                exponents.append(factor.operand)
            else:
                made, beside = self.divided(factor)
                others.append(made)
                fixed += beside
        if not exponents:
            return condition, product([*others, *fixed])
        form = linear(exponents[0], self.varies)
        for exponent in exponents[1:]:
            form = form.plus(linear(exponent, self.varies))
        varying = form.varying()
        assert varying is not None
        less: Scalar | None = None
        for addend in addends(form.rest):
            if any(map(self.is_statistic, reads(addend))):
                less = plus(less, _negative(addend))
            else:
                varying = Binary("add", varying, addend)
        left: list[Scalar] = []
        for factor in fixed:
            below = _inverse_of(factor)
            if self.seen.positive(factor):
                less = plus(less, Unary("neg", Unary("log", factor)))
            elif below is not None and self.seen.positive(below):
                less = plus(less, Unary("log", below))
            else:
                left.append(factor)
        return condition, product([Unary("exp", varying if less is None else Binary("sub", varying, less)), *others, *left])

    def divided(self, factor: Scalar) -> tuple[Scalar, list[Scalar]]:
        """A sum with one term of the scores, without what is positive in that term's coefficient; and that."""
        form = linear(factor, self.varies)
        if len(form.terms) != 1:
            return factor, []
        (coefficient, atom) = form.terms[0]
        out: list[Scalar] = []
        rest: list[Scalar] = []
        for part in factors(coefficient):
            below = _inverse_of(part)
            (out if self.seen.positive(part) or (below is not None and self.seen.positive(below)) else rest).append(part)
        if not out:
            return factor, []
        whole = times(atom, product(rest))
        if form.rest is not None:
            parts = list(factors(form.rest))
            for part in out:
                if part in parts:
                    parts.remove(part)
                else:
                    parts.append(_inverse_of(part) or inverse(part))
            whole = Binary("add", whole, product(parts))
        return whole, out

    def gathered(self, scalar: Scalar) -> Scalar:
        """Sums with what all of their terms have in common before them."""
        if isinstance(scalar, Binary) and scalar.op in ("add", "sub"):
            terms = [list(factors(self.gathered(term))) for term in addends(scalar)]
            common = list(terms[0])
            for term in terms[1:]:
                common = _intersection(common, term)
            common = [f for f in common if self.varies(f)]
            if not common:
                return scalar
            inner: Scalar | None = None
            for term in terms:
                rest = list(term)
                for factor in common:
                    rest.remove(factor)
                inner = plus(inner, product(rest))
            assert inner is not None
            return product([*common, inner])
        if (isinstance(scalar, Binary) and scalar.op in ("mul", "div")) or (isinstance(scalar, Unary) and scalar.op == "neg"):
            return product(f if isinstance(f, Read) else self.within(f) for f in factors(scalar))
        return scalar

    def within(self, factor: Scalar) -> Scalar:
        return self.gathered(factor) if isinstance(factor, Binary) and factor.op in ("add", "sub") else factor

    def masked(self, scalar: Scalar) -> tuple[Scalar | None, Scalar]:
        """An expression as `if condition then inner else 0`, the condition None if there is none: of indices, not of scores."""
        match scalar:
            case Select(condition=condition, then=then, otherwise=Const(value=0)) if not self.varies(condition):
                inner, x = self.masked(_assumed(then, condition, True))
                return _and(condition, inner), x
            case Select(condition=condition, then=Const(value=0), otherwise=otherwise) if not self.varies(condition):
                inner, x = self.masked(_assumed(otherwise, condition, False))
                return _and(Unary("not", condition), inner), x
            case Binary(op="mul", left=left, right=right):
                (a, x), (b, y) = self.masked(left), self.masked(right)
                return _and(a, b), Binary("mul", x, y)
            case Binary(op="div", left=left, right=right):
                a, x = self.masked(left)
                return a, Binary("div", x, right)
            case Binary(op="add" | "sub" as op, left=left, right=right):
                (a, x), (b, y) = self.masked(left), self.masked(right)
                return (a, Binary(op, x, y)) if a == b else (None, scalar)
            case Unary(op="neg", operand=operand):
                a, x = self.masked(operand)
                return a, Unary("neg", x)
            case Unary(op="exp", operand=operand):  # see Note [Rows of which everything is masked]
                a, x = lifted(operand, self.varies, -inf, frozenset())
                return (a, Unary("exp", x)) if a is not None and not self.varies(a) else (None, scalar)
            case _:
                return None, scalar


def _and(a: Scalar | None, b: Scalar | None) -> Scalar | None:
    return a if a == b else both(a, b)


def _assumed(scalar: Scalar, condition: Scalar, holds: bool) -> Scalar:
    """The expression where a condition is known."""

    def visit(node: Scalar) -> Scalar | None:
        if isinstance(node, Select) and node.condition == condition:
            return _assumed(node.then if holds else node.otherwise, condition, holds)
        return None

    return rewrite(scalar, visit)


def _intersection(some: Sequence[Scalar], others: Sequence[Scalar]) -> list[Scalar]:
    left = list(others)
    found = []
    for factor in some:
        if factor in left:
            left.remove(factor)
            found.append(factor)
    return found


def _inverse_of(factor: Scalar) -> Scalar | None:
    """What a factor is one over."""
    return factor.right if isinstance(factor, Binary) and factor.op == "div" and factor.left == ONE else None


def _negative(scalar: Scalar) -> Scalar:
    """-scalar, without two signs."""
    parts, minus = list(factors(scalar)), negated(ONE)
    if minus not in parts:
        return negated(scalar)
    parts.remove(minus)
    return product(parts)


# ── element types, order ────────────────────────────────────────────────────────────────────────────────────────────────


def _wide(scalar: Scalar) -> Scalar:
    """A float expression whose floats are f32 wherever they are read or made."""

    def visit(node: Scalar) -> Scalar | None:
        match node:
            case Read(element=element) if element.is_float and element is not F32:
                return Convert(node, F32)
            case Convert(operand=operand, element=element) if element.is_float:
                inner = _wide(operand)
                return inner if element_of(inner) is F32 else Convert(inner, F32)
            case Const(value=value, element=element) if element.is_float and element is not F32:
                return Const(float(value), F32)
            case _:
                return None

    return rewrite(scalar, visit)


def _in_order(ops: Sequence[Op]) -> list[Op]:
    """Each operation after those that make what it reads, else as they stand."""
    made = {out.symbol for op in ops for out in outs_of(op)}
    there: set[Symbol] = set()
    waiting, ordered = list(ops), list[Op]()
    while waiting:
        ready = next(op for op in waiting if not (tensors_of(op) & made) - there)
        waiting.remove(ready)
        ordered.append(ready)
        there |= {out.symbol for out in outs_of(ready)}
    return ordered


def _live(ops: Sequence[Op], results: Sequence[Symbol]) -> list[Op]:
    """The operations that something needs."""
    needed, live = set(results), list[Op]()
    for op in reversed(ops):
        if not isinstance(op, Compute) or any(out.symbol in needed for out in op.outs):
            live.append(op)
            needed |= tensors_of(op)
    return live[::-1]


@lru_cache(maxsize=64)
def _place(number: int) -> Symbol:
    return fresh("ijklmnop"[number % 8])


@lru_cache(maxsize=4096)
def _symbol(base: Symbol, what: str) -> Symbol:
    """Of what is made for a tensor: the same in everything that is made of one program."""
    return fresh(base.name)
