"""Products that sums of a program are taken over, the statistics of their rows, and which of those sums are decided together.

    s[i, j] = sum c => q[i, c] * k[j, c]                       scores: a product of two tensors, each with an index of its own
    m[i] = max j => s[i, j], z[i] = sum j => exp (…)           statistics of its rows
    o[i, e] = sum j => exp (s[i, j] - m[i]) / z[i] * v[j, e]   a sum over scores and statistics of their rows

Sums that share scores or statistics are a *group*, as those of one attention and its gradients: scores that one of them needs in
memory are there for all. Others, of another layer, or of a norm, have nothing to do with them. All of this is found by what is read
where, through pointwise operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from axon.backend.gpu.tile.online_softmax import factors, loosened, product, substituted
from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.core.ir import Axis, Bind, Compute, Convert, Op, Read, Scalar, Unary
from axon.core.scalar_facts import size
from axon.core.walk import mentions, outs_of, reads, rename, rewrite, tensors_of
from axon.shapes.dimension import Dim

LONGEST = 4_000  # nodes of an expression that is inlined


# ── reads seen through pointwise operations ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Product:
    """out[i, j] = sum over one axis of left * right: one factor has indices of the result that the other has not."""

    op: Compute
    depth: Axis
    left: Read
    right: Read
    scale: Scalar


def _product(op: Op) -> Product | None:
    if not isinstance(op, Compute) or op.reduction is None or op.reduction.monoid.kind != "sum" or len(op.body) != 1:
        return None
    if len(op.reduction.axes) != 1 or op.reduction.where is not None:
        return None
    (depth,) = op.reduction.axes
    deep = [f for f in factors(loosened(op.body[0])) if mentions(f, depth.symbol)]
    if len(deep) != 2:
        return None
    left, right = deep
    if not isinstance(left, Read) or not isinstance(right, Read):
        return None
    own = [{a.symbol for a in op.axes if mentions(f, a.symbol)} for f in deep]
    if not own[0] - own[1] or not own[1] - own[0]:
        return None
    return Product(op, depth, left, right, product(f for f in factors(loosened(op.body[0])) if f not in deep))


class _TooLong(Exception):
    """What an expression would be."""


class Seen:
    """The operations of a program, and expressions with pointwise operations in place of what they make."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.makers = {out.symbol: op for op in ops if isinstance(op, Compute) for out in op.outs}
        self.sources: dict[Symbol, list[tuple[Symbol, tuple[Dim, ...]]]] = {}  # the products that statistics read, and where
        self.products = {op.outs[0].symbol: found for op in ops if isinstance(op, Compute) if (found := _product(op))}

    def inlined(self, scalar: Scalar) -> Scalar:
        """Down to what reductions make, and inputs; as it is, if that would be too long."""
        nodes = 0

        def inline(scalar: Scalar) -> Scalar:
            nonlocal nodes
            nodes += size(scalar, LONGEST)
            if nodes >= LONGEST:
                raise _TooLong
            return rewrite(scalar, visit)

        def visit(node: Scalar) -> Scalar | None:
            match node:
                case Bind(bindings=bindings, body=body):
                    known: dict[Symbol, Scalar] = {}
                    for symbol, value in bindings:
                        known[symbol] = substituted(value, known)
                    return inline(substituted(body, known))
                case Read(tensor=tensor, padding=None, checked=None):
                    maker = self.makers.get(tensor)
                    at = [s for s in node.subscripts if isinstance(s, Dim)]
                    if maker is None or maker.reduction is not None or len(at) != len(node.subscripts):
                        return None
                    body = maker.body[[out.symbol for out in maker.outs].index(tensor)]
                    return inline(rename(body, {axis.symbol: s for axis, s in zip(maker.axes, at, strict=True)}))
                case _:
                    return None

        try:
            return loosened(inline(scalar))
        except _TooLong:
            return loosened(scalar)

    def scored(self, scalar: Scalar, axes: Set[Symbol]) -> list[Read]:
        """The products that an expression reads at all of these axes, each once."""
        found = (r for r in reads(scalar) if r.tensor in self.products)
        return list(dict.fromkeys(r for r in found if all(mentions(r, axis) for axis in axes)))

    def scores_and_statistics(self, op: Op) -> tuple[set[Symbol], set[Symbol]]:
        """The products that a sum reads at what it sums over, and the statistics of their rows that it reads beside; of none of
        them, no products either. Without the last factor, of a sum of products: that is an operand."""
        if not isinstance(op, Compute) or op.reduction is None or op.reduction.monoid.kind != "sum" or len(op.body) != 1:
            return set(), set()
        summed = {axis.symbol for axis in op.reduction.axes}
        parts = list(factors(loosened(op.body[0])))
        weights = [f for f in parts if not (op.axes and mentions(f, op.axes[-1].symbol))]
        for weight in (weights, parts):
            read = list(dict.fromkeys(reads(self.inlined(product(weight)))))
            scores = [r for r in read if r.tensor in self.products and any(mentions(r, axis) for axis in summed)]
            statistics = {r.tensor for r in read if any(self.is_of_row(r, score) for score in scores)}
            if statistics:
                return {r.tensor for r in scores}, statistics
        return set(), set()

    def is_of_row(self, statistic: Read, score: Read) -> bool:
        """Whether a tensor holds statistics of these scores, and is read at their row."""
        if not self.is_statistic(statistic):
            return False
        maker = self.makers[statistic.tensor]
        assert maker.reduction is not None
        names = {a.symbol: s for a, s in zip(maker.axes, statistic.subscripts, strict=True) if isinstance(s, Dim)}
        along = {axis.symbol for axis in maker.reduction.axes}
        if statistic.tensor not in self.sources:
            found = ((r.tensor, _places(r)) for r in reads(self.inlined(maker.body[0])) if r.tensor in self.products)
            self.sources[statistic.tensor] = [(tensor, at) for tensor, at in found if at is not None]
        at = _places(score)
        known = [places for tensor, places in self.sources[statistic.tensor] if tensor == score.tensor]
        return at is not None and any(
            all(along & mine.variables or mine.substitute(names) == there for mine, there in zip(places, at, strict=True))
            for places in known
        )

    def is_statistic(self, read: Read) -> bool:
        """Whether a tensor is what a reduction makes that is no product."""
        maker = self.makers.get(read.tensor)
        if maker is None or maker.reduction is None or read.tensor in self.products or len(maker.body) != 1:
            return False
        return maker.reduction.monoid.kind in ("max", "sum")

    def positive(self, read: Scalar) -> bool:
        """Whether a tensor holds sums of exponentials."""
        maker = self.makers.get(read.tensor) if isinstance(read, Read) else None
        if maker is None or maker.reduction is None or maker.reduction.monoid.kind != "sum" or len(maker.body) != 1:
            return False
        return all(isinstance(f, Unary) and f.op == "exp" for f in factors(self.inlined(maker.body[0])))


def orders(axes: Sequence[Axis], extents: Sequence[Dim]) -> Iterator[tuple[Axis, ...]]:
    """The axes in each order in which they have these extents."""
    if not extents and not axes:
        yield ()
    for n, axis in enumerate(axes if len(axes) == len(extents) else ()):
        if axis.extent == extents[0]:
            yield from ((axis, *rest) for rest in orders([*axes[:n], *axes[n + 1 :]], extents[1:]))


def as_stored(ops: Sequence[Op]) -> list[Op]:
    """Tensors that are others in a wider type, or at indices that step through them, are read as these are stored."""
    shown: dict[Symbol, Compute] = {}

    def visit(node: Scalar) -> Scalar | None:
        at = _places(node) if isinstance(node, Read) and node.tensor in shown else None
        if at is None or not isinstance(node, Read) or node.padding is not None or node.checked is not None:
            return None
        maker = shown[node.tensor]
        return rename(maker.body[0], {axis.symbol: s for axis, s in zip(maker.axes, at, strict=True)})

    made: list[Op] = []
    for op in ops:
        if isinstance(op, Compute):
            op = replace(op, body=tuple(rewrite(b, visit) for b in op.body))
            if _shows(op):
                shown[op.outs[0].symbol] = op
        made.append(op)
    return made


def _shows(op: Compute) -> bool:
    """Whether it makes elements of another tensor, perhaps wider ones, at subscripts that are linear in its indices."""
    match op:
        case Compute(outs=(out,), reduction=None, body=(Convert(operand=Read() as read) | (Read() as read),)):
            wider = out.element == read.element or (out.element.is_float and out.element.bits > read.element.bits)
            at = _places(read)
            if read.padding is not None or read.checked is not None or at is None or not wider or not read.element.is_float:
                return False
            return all(s.linear_in(axis.symbol) is not None for s in at for axis in op.axes)
        case _:
            return False


# ── what is decided together ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Group:
    """Sums, by what they make, and the scores that these read: of an attention and its gradients, for instance."""

    sums: frozenset[Symbol]
    scores: frozenset[Symbol]


def groups(ops: Sequence[Op], results: Sequence[Symbol]) -> list[Group]:
    """The sums over scores and statistics of their rows, with those that share one of these with them, directly or not; but for
    those whose scores are stored, whatever becomes of the sums."""
    stored = _stored(ops, results)
    seen = Seen(ops)
    found: list[tuple[set[Symbol], set[Symbol], set[Symbol]]] = []  # sums, scores, statistics
    for op in ops:
        scores, statistics = seen.scores_and_statistics(op)
        if not isinstance(op, Compute) or not statistics:
            continue
        own = {op.outs[0].symbol}, {*scores}, {*statistics}
        joined = [g for g in found if g[1] & scores or g[2] & statistics]
        for group in joined:
            for mine, more in zip(own, group, strict=True):
                mine |= more
        found = [*(g for g in found if g not in joined), own]
    return [Group(frozenset(sums), frozenset(scores)) for sums, scores, _ in found if not scores & stored]


def _stored(ops: Sequence[Op], results: Sequence[Symbol]) -> set[Symbol]:
    """What no sum or maximum alone reads, also through pointwise operations: a residual sum, for instance, and its addends."""
    stored = set(results)
    for op in reversed(ops):
        if not isinstance(op, Compute):
            stored |= tensors_of(op)
        elif op.reduction is None:
            stored |= tensors_of(op) if any(out.symbol in stored for out in op.outs) else set()
        elif op.reduction.monoid.kind not in ("max", "sum"):
            stored |= tensors_of(op)
    return stored


# ── indices, names ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _places(read: Read) -> tuple[Dim, ...] | None:
    """The indices of a read, if none of them is read itself."""
    at = tuple(s for s in read.subscripts if isinstance(s, Dim))
    return at if len(at) == len(read.subscripts) else None


def first_of(op: Op) -> Symbol | None:
    """What names an operation: the first tensor that it makes."""
    return next((out.symbol for out in outs_of(op)), None)
