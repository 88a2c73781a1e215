"""Core to core: what a loop computes again though it does not vary along it is computed once (loop-invariant code motion).

    hoist    a program -> one with the same results, in which every costly expression lives on just the indices that it uses

Note [Invariants]
    `for i c => sum j => exp (w[i, j]) * v[j, c]` computes `exp (w[i, j])` for every c. It becomes an operation over (i, j), which
    the sum reads, if

      costly    it costs at least as many additions as `Worth` says. What is cheaper is computed again sooner than it is read;
      inside    an index that it uses runs inside one that it does not use: along the innermost loops alone, machine code keeps what
                does not vary in registers by itself;
      small     a tensor that it reads, or the result, has all of its indices, so that its values take no more memory than those;
      alone     its ranges do not depend on indices.

    What is evaluated at every point of a range is evaluated if there is a point. So where it may fail, or is not seen to read
    inside of its tensors, the new operation is guarded by the ranges that it leaves not being empty; and where it stands in a
    branch, or in a reduction under a condition, it then stays.

    The steps of a loop are a range too, around all that stands in it: an operation in which nothing differs from step to step then
    goes before the loop, if it cannot fail and is seen to read inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import (
    Axis,
    Binary,
    Bind,
    Block,
    Compress,
    Compute,
    Const,
    Index,
    Local,
    Loop,
    Op,
    Program,
    Read,
    Scalar,
    Scan,
    Select,
    Value,
    element_of,
)
from axon.core.scalar_facts import (
    above_0,
    bare,
    dims_variables,
    freshened,
    is_inside,
    may_fail,
    may_stop,
    own_weight,
    relabelled,
    renamed,
    size,
    weight,
)
from axon.core.verify import unchanged, verify_rewritten
from axon.core.walk import all_axes, children, dimensions_of, needs_of, nodes, outs_of, reads, scalars, tensors_of, with_children
from axon.shapes.dimension import Dim

LARGE = 400  # nodes of an expression, from which it is not compared with others


@dataclass(frozen=True, slots=True)
class Worth:
    """From how many additions an expression is worth an operation of its own, where a reduction would compute it for several
    results, and where anything else would compute it again: `other`, or `idle` where memory takes longer than the arithmetic of
    the whole operation, which has so many additions to `spare` for each byte. The costs are those of `scalar_facts.weight`."""

    reduced: int
    other: int
    idle: int
    spare: int


HOST = Worth(reduced=8, other=8, idle=8, spare=0)
# A map that streams through memory has arithmetic to spare: an H200 does 7 instructions for each byte that it reads or writes, and
# powers and sines are more of them than `weight` says, about twice as many. What was computed before comes from the L2 cache, which
# takes as long as some 12 additions for each f32, and an instruction or two.
DEVICE = Worth(reduced=8, other=16, idle=64, spare=4)


@verified("hoist", lambda made, given, _: verify_rewritten(made, given))
def hoist(program: Program, worth: Worth) -> Program:
    return replace(program, block=_block(program.block, {v.symbol: v for v in program.inputs}, worth))


def _block(block: Block, around: Mapping[Symbol, Value], worth: Worth, loop: Loop | None = None) -> Block:
    """`around` is what stands before the block, or before a step of the loop whose body it is."""
    values = dict(around)
    steps = None if loop is None else _Steps(_trips(loop), {loop.counter, *(state.symbol for state in loop.states)})
    ops: list[Op] = []
    made: dict[object, Value] = {}
    for op in block.ops:
        if isinstance(op, Compute | Scan):
            hoister = _Hoister(op, values, made, worth, steps)
            op = hoister.run()
            ops += hoister.ops
        elif isinstance(op, Loop):
            inside = {**values, **{s.symbol: s for s in op.states}, op.counter: Value(op.counter, Element.I32, ())}
            steady, body = _steady(_block(op.body, inside, worth, op), values, op.counter)
            op = op if unchanged(body.ops, op.body.ops) else replace(op, body=body)
            ops += steady
            values.update((out.symbol, out) for before in steady for out in outs_of(before))
        ops.append(op)
        values.update((out.symbol, out) for out in outs_of(op))
        if steps is not None and not needs_of(op).isdisjoint(steps.varying):
            steps.varying.update(out.symbol for out in outs_of(op))
    return Block(tuple(ops), block.results)


def _trips(loop: Loop) -> Axis | None:
    """A loop's steps as the outermost axis of what stands in it; None if only data tell how many there are."""
    return Axis(fresh("step"), loop.trip.dim) if isinstance(loop.trip, Index) else None


@dataclass(frozen=True, slots=True)
class _Steps:
    """The steps of the loop around an operation: their axis, and what may differ from step to step."""

    axis: Axis | None
    varying: set[Symbol]


def _steady(block: Block, around: Mapping[Symbol, Value], counter: Symbol) -> tuple[list[Op], Block]:
    """The operations of a loop's body that are the same in every step and could run without it, and the body without them."""
    values = dict(around)
    steady: list[Op] = []
    rest: list[Op] = []
    inside = {counter, *(op.size for op in block.ops if isinstance(op, Compress))}
    for op in block.ops:
        outs = {out.symbol: out for out in outs_of(op)}
        known = isinstance(op, Compute | Scan) and tensors_of(op) <= values.keys() and not (dimensions_of(op) & inside)
        if isinstance(op, Compute | Scan) and known and outs.keys().isdisjoint(block.results) and _runs_anywhere(op, values):
            steady.append(op)
            values |= outs
        else:
            rest.append(op)
    return steady, Block(tuple(rest), block.results)


def _runs_anywhere(op: Compute | Scan, values: Mapping[Symbol, Value]) -> bool:
    """Whether it cannot fail, and reads inside of its tensors, wherever it stands."""
    extents = {axis.symbol: axis.extent for axis in all_axes(op)}
    found = (read for scalar in scalars(op) for read in reads(scalar))
    return not may_stop(op) and all(is_inside(read, values[read.tensor], extents) for read in found)


@dataclass(slots=True, eq=False)
class _Hoister:
    """One operation, and what has been taken out of it. `made` is what was taken out of those before it, by what it computes."""

    op: Compute | Scan
    values: dict[Symbol, Value]
    made: dict[object, Value]
    worth: Worth
    steps: _Steps | None
    taken_out: bool = False
    least: int = 0
    ops: list[Op] = field(default_factory=list)
    locals: dict[Symbol, Scalar] = field(default_factory=dict)
    _axes: IdentityMap[Scalar, frozenset[Symbol] | None] = field(default_factory=IdentityMap)
    _costs: IdentityMap[Scalar, int] = field(default_factory=IdentityMap)
    _done: IdentityMap[Scalar, Scalar] = field(default_factory=IdentityMap)

    def run(self) -> Compute | Scan:
        if len(self.loops()) < 2:
            return self.op
        work = sum(weight(scalar, None) for scalar in self.op.body)
        self.least = self.worth.idle if work <= self.worth.spare * self.moved() else self.worth.other
        reduction = self.op.reduction if isinstance(self.op, Compute) else None
        certain = reduction is None or reduction.where is None
        body = tuple(self.walk(scalar, certain) for scalar in self.op.body)
        if isinstance(self.op, Compute) and reduction is not None and reduction.where is not None:
            self._done = IdentityMap()
            reduction = replace(reduction, where=self.walk(reduction.where, True))
        if not self.taken_out:
            return self.op
        return replace(self.op, body=body, reduction=reduction) if isinstance(self.op, Compute) else replace(self.op, body=body)

    def loops(self) -> tuple[Axis, ...]:
        """The axes of the operation, and before them the steps of the loop around it."""
        step = () if self.steps is None or self.steps.axis is None else (self.steps.axis,)
        return (*step, *all_axes(self.op))

    def moved(self) -> int:
        """Bytes that come and go at a point: what is read along the innermost axis, each tensor once, and the results."""
        innermost = all_axes(self.op)[-1].symbol
        read = {r.tensor: r.element for s in scalars(self.op) for r in reads(s) if innermost in dims_variables(r)}
        stored = [out.element for out in self.op.outs if innermost == self.op.axes[-1].symbol] if self.op.axes else []
        return sum(max(1, element.bits // 8) for element in (*read.values(), *stored))

    # ── expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def walk(self, scalar: Scalar, certain: bool) -> Scalar:
        """The expression with what is worth it taken out; `certain` if it is evaluated at every point."""
        if isinstance(scalar, Const | Index | Local):
            return scalar
        found = self._done.get(scalar)
        if found is None:
            taken = self.taken(scalar, certain)
            found = self.inner(scalar, certain) if taken is None else taken
            self._done[scalar] = found
        return found

    def inner(self, scalar: Scalar, certain: bool) -> Scalar:
        match scalar:
            case Select(condition=condition, then=then, otherwise=otherwise):
                return Select(self.walk(condition, certain), self.walk(then, False), self.walk(otherwise, False))
            case Binary(op="and" | "or" as op, left=left, right=right):
                return Binary(op, self.walk(left, certain), self.walk(right, False))
            case Read(padding=padding) if padding is not None:
                subscripts = tuple(s if isinstance(s, Dim) else self.walk(s, certain) for s in scalar.subscripts)
                return replace(scalar, subscripts=subscripts, padding=self.walk(padding, False))
            case Bind(bindings=bindings, body=body):
                new = []
                for symbol, value in bindings:
                    self.locals[symbol] = self.walk(value, certain)
                    new.append((symbol, self.locals[symbol]))
                return Bind(tuple(new), self.walk(body, certain))
            case _:
                return with_children(scalar, tuple(self.walk(child, certain) for child in children(scalar)))

    def axes(self, scalar: Scalar) -> frozenset[Symbol] | None:
        """The axes that an expression uses, also through locals; None if it uses a local of a monoid."""
        if isinstance(scalar, Local):
            value = self.locals.get(scalar.symbol)
            return None if value is None else self.axes(value)
        if scalar in self._axes:
            return self._axes[scalar]
        if isinstance(scalar, Bind):
            self.locals.update(scalar.bindings)
        mentioned = dims_variables(scalar) | ({scalar.tensor} if isinstance(scalar, Read) else frozenset())
        mine = mentioned & {axis.symbol for axis in all_axes(self.op)}
        if self.steps is not None and self.steps.axis is not None and not mentioned.isdisjoint(self.steps.varying):
            mine |= {self.steps.axis.symbol}
        found: frozenset[Symbol] | None = mine
        for child in children(scalar):
            more = self.axes(child)
            found = None if found is None or more is None else found | more
        self._axes[scalar] = found
        return found

    def cost(self, scalar: Scalar) -> int:
        """At least what an expression costs, with the locals that it mentions; found once for each part."""
        if isinstance(scalar, Local):
            return self.cost(self.locals[scalar.symbol]) if scalar.symbol in self.locals else 0
        if scalar not in self._costs:
            self._costs[scalar] = own_weight(scalar) + sum(map(self.cost, children(scalar)))
        return self._costs[scalar]

    # ── what is taken out ───────────────────────────────────────────────────────────────────────────────────────────────

    def taken(self, scalar: Scalar, certain: bool) -> Scalar | None:
        """What reads the expression from an operation of its own, if it is worth one. See Note [Invariants]."""
        if isinstance(scalar, Const | Index | Local | Read):
            return None
        used = self.axes(scalar)
        loops = self.loops()
        if not used or len(used) == len(loops) or not self._is_inside_another(used):
            return None
        own = [axis for axis in all_axes(self.op) if axis.symbol in used]
        if not own:
            return None
        left = [axis for axis in loops if axis.symbol not in used]
        symbols = {axis.symbol for axis in loops}
        if any(axis.extent.variables & symbols for axis in own) or any(axis.extent.variables & symbols - used for axis in left):
            return None
        reduced = isinstance(self.op, Compute) and self.op.reduction is not None and any(a in self.op.axes for a in left)
        least = self.worth.reduced if reduced else self.least
        if self.cost(scalar) < least:
            return None
        whole = self._whole(scalar)
        if not self._is_costly(whole, left, least) or not self._is_small(whole, own):
            return None
        guard = self._guard(whole, own, left, certain)
        if guard is None or (len(own) == len(all_axes(self.op)) and (guard or self._is_all(scalar))):
            return None  # the last: an operation that is the same in every step, and goes before the loop as it is or not at all
        self.taken_out = True
        found = self._made(whole, own, guard)
        if self.steps is not None and self.steps.axis is not None and self.steps.axis.symbol in used:
            self.steps.varying.add(found.tensor)
        return found

    def _is_all(self, scalar: Scalar) -> bool:
        """Whether an expression is all that the operation computes at a point."""
        for body in self.op.body:
            while isinstance(body, Bind) and body is not scalar:
                body = body.body
            if body is scalar:
                return True
        return False

    def _is_inside_another(self, used: frozenset[Symbol]) -> bool:
        """Whether an axis that is used runs inside one that is not."""
        order = [axis.symbol in used for axis in self.loops()]
        return True in order[order.index(False) :]

    def _whole(self, scalar: Scalar) -> Scalar:
        """The expression with the locals that it mentions defined in front of it, under names of their own."""
        bound = {symbol for node in nodes(scalar) if isinstance(node, Bind) for symbol, _ in node.bindings}
        needed: dict[Symbol, Scalar] = {}

        def need(part: Scalar) -> None:
            for node in nodes(part):
                if isinstance(node, Local) and node.symbol not in bound and node.symbol not in needed:
                    need(self.locals[node.symbol])
                    needed[node.symbol] = self.locals[node.symbol]

        need(scalar)
        return freshened(Bind(tuple(needed.items()), scalar)) if needed else freshened(scalar)

    @staticmethod
    def _is_costly(scalar: Scalar, left: Sequence[Axis], least: int) -> bool:
        """Whether it is worth an operation of its own, that it is not computed again along the axes which are left."""
        times = 1
        for axis in left:
            if axis.extent.constant is None:
                return weight(scalar, None) >= least
            times *= max(1, axis.extent.constant)
        return weight(scalar, None) * (times - 1) >= least * times

    def _is_small(self, scalar: Scalar, own: Sequence[Axis]) -> bool:
        """Whether its values take no more memory than a tensor that it reads, or than the result."""
        used = {axis.symbol for axis in own}
        if used <= {axis.symbol for axis in self.op.axes}:
            return True
        return any(used <= {bare(subscript) for subscript in read.subscripts} for read in reads(scalar))

    def _guard(self, scalar: Scalar, own: Sequence[Axis], left: Sequence[Axis], certain: bool) -> tuple[Scalar, ...] | None:
        """The conditions under which it is evaluated at all, where that matters; None if they are not known."""
        extents = {axis.symbol: axis.extent for axis in own}
        if not may_fail(scalar) and all(is_inside(read, self.values[read.tensor], extents) for read in reads(scalar)):
            return ()
        if not certain:
            return None
        open_ = dict.fromkeys(axis.extent for axis in left if (axis.extent.constant or 0) < 1)
        return tuple(above_0(extent) for extent in open_)

    def _made(self, scalar: Scalar, own: Sequence[Axis], guard: tuple[Scalar, ...]) -> Read:
        """A read of the tensor that an expression over some axes makes; of one that was made before, if it is the same."""
        for condition in reversed(guard):
            scalar = Select(condition, scalar, Const(_zero(element_of(scalar)), element_of(scalar)))
        at = tuple(Dim.of(axis.symbol) for axis in own)
        element = element_of(scalar)
        out = Value(fresh("invariant"), element, tuple(axis.extent for axis in own))
        op = renamed(Compute((out,), tuple(own), None, (scalar,), self.op.span), {a.symbol: fresh(a.symbol.name) for a in own})
        key = None if may_fail(scalar) or size(scalar, LARGE) >= LARGE else _key(op)
        known = self.made.get(key)
        if known is not None:
            return Read(known.symbol, at, element)
        inner = _Hoister(op, self.values, self.made, self.worth, None)
        op = inner.run()
        self.ops += [*inner.ops, op]
        self.values[out.symbol] = out
        if key is not None:
            self.made[key] = out
        return Read(out.symbol, at, element)


def _key(op: Compute | Scan) -> object:
    """Equal for pointwise operations that cannot fail and compute the same at the same axes, whatever their locals are called."""
    places = {axis.symbol: Symbol("axis", -1 - n) for n, axis in enumerate(op.axes)}
    plain = renamed(op, places)
    bound = (symbol for scalar in plain.body for node in nodes(scalar) if isinstance(node, Bind) for symbol, _ in node.bindings)
    names = {symbol: Symbol("local", -1 - n) for n, symbol in enumerate(dict.fromkeys(bound))}
    return plain.axes, tuple(relabelled(scalar, names) for scalar in plain.body)


def _zero(element: Element) -> float | int | bool:
    return False if element is Element.BOOL else 0.0 if element.is_float else 0
