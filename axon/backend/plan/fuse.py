"""Which operations become one kernel, and why: core to a plan (what the tensor cores take, `gpu.tile.families` decides before).

    fuse    a program -> its Plan: dissolved, grouped into kernels, common expressions of a row shared

What comes out computes what went in, and says of every kernel why it is one. Only the structure of core decides: no name of a
function of the source language is known here, and no property of a machine, except what a `Policy` says.

Note [Joining]
    Operations are taken in order; each joins the latest kernel that it may join, else it begins one. It may join a nest if
      order     what it reads was made in that nest or before it, or by kernels that can go before it since they need nothing of it,
                and no check stands between;
      rows      its leading axes have the extents of the nest's rows, and everything that it reads of the nest, it reads at its own
                row: `m[i]`, `e[i, k + 1]` under rows `i`, but not `m[i - 1]`;
      reason    it reads what the nest makes, or it reads a tensor that the nest reads too, at the same places of the row.
    A nest's rows may become fewer, down to the axes of a newcomer that reduces over the others: `s[i] = sum j => y[i, j]` joins the
    map that makes `y[i, j]`, whose rows then are `i` alone. A sum of products that separate (see `contractions`) is a kernel of its
    own, which under `Policy.epilogues` takes pointwise operations on its result in. Operations without axes join one another:
    pointwise ones the latest that they read, reductions those that go through a tensor in the same way.

Note [Sharing]
    Two steps of a nest that compute the same costly expression along the row (`exp (x[b, k] - m[b])` in both steps of a softmax)
    get it from a step of its own, a buffer of the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from axon.backend.plan.contractions import contraction
from axon.backend.plan.ir import Contraction, Kernel, Kernels, Nest, Plan, Reason, Repeat, Whole, reads_of
from axon.backend.plan.verify import verify_fused
from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import (
    Axis,
    Bind,
    Block,
    Check,
    Compress,
    Compute,
    Index,
    Local,
    Loop,
    Program,
    Read,
    Scalar,
    Scan,
    Sort,
    Value,
    element_of,
)
from axon.core.passes.dissolve import dissolve
from axon.core.passes.hoist import Worth, hoist
from axon.core.passes.unmerge import unmerged
from axon.core.scalar_facts import bare, is_inside, mapped, may_fail, renamed, scatter, substitute, varies, weight
from axon.core.walk import all_axes, needs_of, nodes, outs_of, rewrite, scalars, tensors_of
from axon.shapes.dimension import Dim

MAX_STEPS = 24  # of one nest
MAX_TOTALS = 8  # reductions of everything in one nest: each takes registers of every thread
COSTLY = 8  # additions, from which an expression is worth a buffer of the row


@dataclass(frozen=True, slots=True)
class Policy:
    """What a backend wants of fusion.

    `epilogues`: contractions of these element types take in pointwise operations on their results. `floats_only`: sums of products
    of integers are ordinary reductions. `share`: see Note [Sharing]. `hoist`: what is worth an operation of its own, see
    `invariant`. `wide`: the machine needs as many rows as there are, so a reduction does not give up some of its own for what has
    one value each, and what goes through each of its rows does not give up some for what reads one value of each.
    """

    epilogues: frozenset[Element] = frozenset(Element)
    floats_only: bool = True
    share: bool = True
    wide: bool = False
    hoist: Worth | None = None


@verified("fuse", verify_fused, gives="plan")
def fuse(program: Program, policy: Policy | None = None) -> Plan:
    """The kernels of a program, in order."""
    policy = policy or Policy()
    dissolved = unmerged(dissolve(program))
    if policy.hoist is not None:
        dissolved = hoist(dissolved, policy.hoist)
    values = {value.symbol: value for value in program.inputs}
    return Plan(dissolved, _fuse(dissolved.block, values, policy))


# ── building ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Open:
    """A nest or a contraction that may still grow. The steps' first `depth` axes are its rows, under the first step's names."""

    steps: list[Compute | Scan]
    depth: int
    product: Contraction | None = None
    reasons: list[Reason] = field(default_factory=list)

    @property
    def rows(self) -> tuple[Axis, ...]:
        return self.steps[0].axes[: self.depth]

    def made(self) -> dict[Symbol, Value]:
        return {out.symbol: out for step in self.steps for out in step.outs}


_Item = _Open | Repeat | Whole


def _fuse(block: Block, around: Mapping[Symbol, Value], policy: Policy) -> Kernels:
    """The kernels of a block. `around` are the tensors that stand before it."""
    values = dict(around)
    items: list[_Item] = []
    maker: dict[Symbol, int] = {}  # of tensors and of dimensions that a compress defines: which item makes them
    barrier = 0  # items before it are closed: a check follows them
    for op in block.ops:
        at: int
        match op:
            case Compute() | Scan():
                at, before = _join(op, items, barrier, maker, values, policy)
                if before:
                    at = _moved(items, before, at, maker)
            case Loop():
                if not isinstance(op.trip, Index) and not (isinstance(op.trip, Read) and not op.trip.subscripts):
                    count = Value(fresh("count"), element_of(op.trip), ())
                    items.append(_Open([Compute((count,), (), None, (op.trip,), op.span)], 0))
                    maker[count.symbol], values[count.symbol] = len(items) - 1, count
                    op = replace(op, trip=Read(count.symbol, (), count.element))
                inside = values | {state.symbol: state for state in op.states}
                inside[op.counter] = Value(op.counter, Element.I32, ())
                items.append(Repeat(op, _fuse(op.body, inside, policy)))
                at = len(items) - 1
            case Sort() | Compress() | Check():
                items.append(Whole(op))
                at = len(items) - 1
                if isinstance(op, Check):
                    barrier = len(items)
                if isinstance(op, Compress):
                    maker[op.size] = at
            case _:
                assert_never(op)
        for value in outs_of(op):
            values[value.symbol] = value
            maker[value.symbol] = at
    return _finish(items, block.results, values, policy)


def _join(
    op: Compute | Scan,
    items: list[_Item],
    barrier: int,
    maker: Mapping[Symbol, int],
    values: Mapping[Symbol, Value],
    policy: Policy,
) -> tuple[int, list[int]]:
    """Where the operation went, and which later items are to go before that one. It may not stand before the item `barrier`."""
    product = contraction(op, values, floats_only=policy.floats_only) if isinstance(op, Compute) else None
    refused: Reason | None = None
    if product is None and not (isinstance(op, Compute) and scatter(op) is not None):
        first = max((maker[s] for s in needs_of(op) if s in maker), default=0)
        for at in reversed(range(barrier, len(items))):
            item = items[at]
            if not isinstance(item, _Open):
                continue
            before = _independent(op, items, at, maker) if at < first else []
            if before is None:
                continue
            answer = _may_join(op, item, policy)
            if isinstance(answer, _No):
                if refused is None and not tensors_of(op).isdisjoint(item.made()):
                    refused = answer.reason
                continue
            depth, reason = answer
            if depth < item.depth:
                last = item.rows[depth - 1].symbol.name
                item.reasons.append(Reason(f"rows end at {last}: {{0}} reduces over what follows", _made(op)[:1]))
            item.depth = depth
            names = {mine.symbol: row.symbol for mine, row in zip(op.axes, item.rows, strict=False)}
            item.steps.append(renamed(op, names))
            item.reasons.append(Reason(f"{{0}} joins: {reason.text}", (_made(op)[0], *reason.tensors)))
            return at, before
    depth = len(op.axes) - isinstance(op, Scan)
    why = [Reason(f"{{0}} begins a kernel: {refused.text}", (_made(op)[0], *refused.tensors))] if refused else []
    items.append(_Open([op], depth, product, why))
    return len(items) - 1, []


def _independent(op: Compute | Scan, items: list[_Item], at: int, maker: Mapping[Symbol, int]) -> list[int] | None:
    """The items after an item that an operation needs, those that these need among them, if all of them could stand before it; None
    if one needs it, or is a loop or what else stays where it is. Only for what reads the item's values: nothing else gains."""
    found: set[int] = set()
    needed = {maker[s] for s in needs_of(op) if s in maker}
    if at not in needed:
        return None
    open_ = [n for n in needed if n > at]
    while open_:
        number = open_.pop()
        item = items[number]
        if not isinstance(item, _Open):
            return None
        found.add(number)
        needed = {maker[s] for step in item.steps for s in needs_of(step) if s in maker} - {number}
        if at in needed:
            return None
        open_ += [n for n in needed if n > at and n not in found]
    return sorted(found)


def _moved(items: list[_Item], before: list[int], at: int, maker: dict[Symbol, int]) -> int:
    """Where an item is when others have gone before it."""
    order = [*range(at), *before, *(n for n in range(at, len(items)) if n not in before)]
    places = {old: new for new, old in enumerate(order)}
    items[:] = [items[n] for n in order]
    maker.update({symbol: places[n] for symbol, n in maker.items()})
    return places[at]


def _element(item: _Open) -> Element:
    """Of the result of a product."""
    return item.steps[0].outs[0].element


def _made(op: Compute | Scan) -> tuple[Symbol, ...]:
    return tuple(out.symbol for out in op.outs)


@dataclass(frozen=True, slots=True)
class _No:
    """Why an operation may not join. In a reason's text `{0}` is the operation, so tensors count from 1."""

    reason: Reason


def _may_join(op: Compute | Scan, item: _Open, policy: Policy) -> tuple[int, Reason] | _No:
    """How many rows there are if the operation joins, and the reason to; or why it must not. See Note [Joining]."""
    made = item.made()
    found = [n for s in scalars(op) for n in nodes(s) if isinstance(n, Read)]
    used = tuple(dict.fromkeys(n.tensor for n in found if n.tensor in made))
    first = (_made(item.steps[0])[0],)
    pointwise = isinstance(op, Compute) and op.reduction is None
    if any(isinstance(step, Compute) and scatter(step) is not None for step in item.steps):
        return _No(Reason("{1} ends its own, as every scatter does", first))
    if len(item.steps) >= MAX_STEPS:
        return _No(Reason(f"that of {{1}} has {MAX_STEPS} steps", first))
    if item.product is not None and not (pointwise and _element(item) in policy.epilogues):
        return _No(Reason("{1} ends its own, as every product does", first))
    own = len(op.axes) - isinstance(op, Scan)
    common = 0
    for mine, theirs in zip(op.axes[:own], item.rows, strict=False):
        if mine.extent != theirs.extent:
            break
        common += 1
    for read in found:
        if read.tensor in made:
            common = min(common, _leading(read, op.axes))
    if item.depth == 0:
        if own == 0 and pointwise and used:
            return 0, Reason("it reads {1}", used[:1])
        if not used and own == 0 and (shared := _together(op, item)):
            return 0, Reason("it goes through {1} in the same way", (shared,))
        return _No(Reason("{1} has no rows to share", first))
    if common == 0:
        return _No(Reason("it reads {1} across rows", used[:1]) if used else Reason("its rows are not those of {1}", first))
    if item.product is not None and not (common == own == item.depth):
        return _No(Reason("it does not read {1} point by point", first))
    if common < item.depth and not (common == own and not pointwise):
        return _No(Reason("it does not stand on all rows of {1}", first))
    if policy.wide and common < item.depth and used and _has_loops(item) and all(len(made[s].shape) == item.depth for s in used):
        return _No(Reason("it has fewer rows than {1}, which goes through each of its own, and reads one value of each", first))
    if policy.wide and not pointwise and common < own and all(_is_map(step, item.depth) for step in item.steps):
        return _No(Reason("it has more rows than {1}", first))
    if used:
        return common, Reason("it reads {1} at its own row", used[:1])
    shared = _siblings(op, item, common, found)
    if shared and common == item.depth and item.product is None:
        return common, Reason("it reads {1} in the same rows", (shared,))
    return _No(Reason("it shares nothing with {1}", first))


def _is_map(step: Compute | Scan, rows: int) -> bool:
    """Whether a step makes one value for each row, of no more than one of each."""
    return isinstance(step, Compute) and step.reduction is None and len(step.axes) == rows


def _has_loops(item: _Open) -> bool:
    """Whether rows are gone through by a reduction or a scan."""
    return any(isinstance(step, Scan) or step.reduction is not None for step in item.steps)


def _leading(read: Read, axes: tuple[Axis, ...]) -> int:
    """How many leading subscripts are the leading axes."""
    count = 0
    for subscript, axis in zip(read.subscripts, axes, strict=False):
        if bare(subscript) != axis.symbol:
            break
        count += 1
    return count


def _siblings(op: Compute | Scan, item: _Open, depth: int, found: list[Read]) -> Symbol | None:
    """A tensor that both read with each row axis in the same place."""

    def places(read: Read, axes: tuple[Axis, ...]) -> tuple[int, ...] | None:
        at = {symbol: i for i, s in enumerate(read.subscripts) if (symbol := bare(s)) is not None}
        symbols = [axis.symbol for axis in axes[:depth]]
        return tuple(at[s] for s in symbols) if all(s in at for s in symbols) else None

    theirs = {
        (n.tensor, places(n, step.axes)) for step in item.steps for s in scalars(step) for n in nodes(s) if isinstance(n, Read)
    }
    for read in found:
        mine = places(read, op.axes)
        if mine is not None and (read.tensor, mine) in theirs:
            return read.tensor
    return None


def _together(op: Compute | Scan, item: _Open) -> Symbol | None:
    """A tensor that a reduction to one element goes through over the same range and at the same places as one of the item's."""

    def passes(step: Compute | Scan) -> set[tuple[Scalar, tuple[Dim, ...]]]:
        if not isinstance(step, Compute) or step.reduction is None or len(step.reduction.axes) > len(_PLACES):
            return set()
        places = {axis.symbol: Dim.of(place) for axis, place in zip(step.reduction.axes, _PLACES, strict=False)}
        extents = tuple(axis.extent.substitute(places) for axis in step.reduction.axes)
        reads = (substitute(n, places) for s in scalars(step) for n in nodes(s) if isinstance(n, Read))
        return {(read, extents) for read in reads if varies(read, frozenset(_PLACES))}

    if sum(isinstance(step, Compute) and step.reduction is not None for step in item.steps) >= MAX_TOTALS:
        return None
    shared = passes(op) & frozenset().union(*map(passes, item.steps))
    return min((read.tensor for read, _ in shared if isinstance(read, Read)), key=lambda tensor: tensor.id, default=None)


def _finish(items: list[_Item], results: tuple[Symbol, ...], values: Mapping[Symbol, Value], policy: Policy) -> Kernels:
    wanted: dict[Symbol, set[int]] = {symbol: {-1} for symbol in results}
    for position, item in enumerate(items):
        for symbol in _item_reads(item):
            wanted.setdefault(symbol, set()).add(position)
    kernels: list[Kernel] = []
    for position, item in enumerate(items):
        if not isinstance(item, _Open):
            kernels.append(item)
            continue
        made = item.made()
        stored = tuple(symbol for symbol in made if wanted.get(symbol, set()) - {position})
        reasons = tuple(item.reasons)
        if item.product is not None:
            epilogue = tuple(s for s in item.steps[1:] if isinstance(s, Compute))
            kernels.append(replace(item.product, epilogue=epilogue, stored=stored, reasons=reasons))
            continue
        steps = [renamed(s, {a.symbol: r.symbol for a, r in zip(s.axes, item.rows, strict=False)}) for s in item.steps]
        nest = Nest(item.rows, tuple(steps), stored, reasons)
        kernels.append(_shared(nest, values) if policy.share else nest)
    return Kernels(tuple(kernels), results)


def _item_reads(item: _Item) -> frozenset[Symbol]:
    match item:
        case _Open(steps=steps):
            return frozenset().union(*map(tensors_of, steps))
        case _:
            return reads_of(item)


# ── sharing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _shared(nest: Nest, values: Mapping[Symbol, Value]) -> Nest:
    """Costly expressions that several steps compute along the row, each in a step of its own. See Note [Sharing]."""
    rows = frozenset(axis.symbol for axis in nest.rows)
    if not rows:
        return nest
    known = {**values, **{out.symbol: out for step in nest.steps for out in step.outs}}
    found: dict[tuple[Scalar, tuple[Dim, ...]], list[int]] = {}
    for position, step in enumerate(nest.steps):
        shared = (_canonical(n, step, rows, known) for s in scalars(step) for n in nodes(s))
        for canonical in dict.fromkeys(c for c in shared if c is not None):
            found.setdefault(canonical, []).append(position)
    twice = {canonical: places for canonical, places in found.items() if len(places) > 1}
    if not twice:
        return nest
    # The largest first: an expression inside another is then gone with it.
    (expression, extents), places = max(twice.items(), key=lambda pair: weight(pair[0][0], frozenset(_PLACES)))
    axes = tuple(Axis(fresh(symbol.name), extent) for symbol, extent in zip(_PLACES, extents, strict=False))
    out = Value(fresh("shared"), element_of(expression), (*(row.extent for row in nest.rows), *extents))
    body = substitute(expression, {old: Dim.of(new.symbol) for old, new in zip(_PLACES, axes, strict=False)})
    steps = list(nest.steps)
    for position in places:
        steps[position] = _reading(steps[position], expression, out, rows, known)
    steps.insert(places[0], Compute((out,), (*nest.rows, *axes), None, (body,)))
    both = (out.symbol, _made(nest.steps[places[0]])[0], _made(nest.steps[places[-1]])[0])
    reason = Reason("{0}: what {1} and {2} both compute is computed once for a row", both)
    return _shared(replace(nest, steps=tuple(steps), reasons=(*nest.reasons, reason)), values)


_PLACES = tuple(Symbol(name, -position) for position, name in enumerate(("k", "l", "m", "n", "o", "p", "q", "r"), start=1))


def _canonical(
    node: Scalar, step: Compute | Scan, rows: frozenset[Symbol], values: Mapping[Symbol, Value]
) -> tuple[Scalar, tuple[Dim, ...]] | None:
    """A costly expression over all inner axes that it mentions, those named by place; None for one that is not worth sharing."""
    inner = [axis for axis in all_axes(step) if axis.symbol not in rows]
    extents = {axis.symbol: axis.extent for axis in all_axes(step)}
    if isinstance(node, Read) or not varies(node, frozenset(axis.symbol for axis in inner)):
        return None
    if weight(node, frozenset(axis.symbol for axis in inner)) < COSTLY or may_fail(node) or _has_locals(node):
        return None
    used = [axis for axis in inner if varies(node, frozenset((axis.symbol,)))]
    if len(used) > len(_PLACES) or any(not axis.extent.variables.isdisjoint(extents) for axis in used):
        return None
    for read in nodes(node):
        if isinstance(read, Read) and not is_inside(read, values[read.tensor], extents):
            return None
    places = {axis.symbol: Dim.of(place) for axis, place in zip(used, _PLACES, strict=False)}
    return substitute(node, places), tuple(axis.extent for axis in used)


def _has_locals(scalar: Scalar) -> bool:
    return any(isinstance(node, Local | Bind) for node in nodes(scalar))


def _reading(
    step: Compute | Scan, expression: Scalar, out: Value, rows: frozenset[Symbol], values: Mapping[Symbol, Value]
) -> Compute | Scan:
    """The step with an expression read from where it is shared."""

    def visit(node: Scalar) -> Scalar | None:
        canonical = _canonical(node, step, rows, values)
        if canonical is None or canonical[0] != expression:
            return None
        used = [a for a in all_axes(step) if a.symbol not in rows and varies(node, frozenset((a.symbol,)))]
        at = (*(row.symbol for row in step.axes if row.symbol in rows), *(a.symbol for a in used))
        return Read(out.symbol, tuple(map(Dim.of, at)), out.element)

    return mapped(step, lambda scalar: rewrite(scalar, visit))
