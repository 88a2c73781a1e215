"""Common subexpressions: operations that compute the same are computed once.

Two operations are the same if they are equal after their axes, and the operations they read, are called the same. Sorts and
`Compute` operations are merged into the earlier of the two, which may stand around the loop of the later one: what fails at run
time has failed there. A loop is merged into an earlier one that has all of its states among others, as a derivative has those of
its function. One that keeps the states of all steps, as a gradient does, makes an earlier one that gives the last ones of the same
needless: it runs in its place, and what that gave is the last step's. So does one that keeps more of each step, in states that no
step reads; a sum or its like of 16 bits perhaps in f32, rounded where it is read. It is the first pass of every target: nothing
behind it looks for equal operations again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import Axis, Bind, Block, Compute, Const, Index, Loop, Op, Program, Read, Scalar, Select, Sort, Value
from axon.core.operands import in_f32, with_tensors
from axon.core.passes.dissolve import copied
from axon.core.scalar_facts import above_0, may_stop, relabelled, renamed, substitute
from axon.core.verify import verify_rewritten
from axon.core.walk import nodes, outs_of, tensors_of
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class _Twins:
    """For each state of a loop one of another loop, or what of a step of that one it would keep; and which of the other's floats
    of 16 bits the loop has in f32."""

    states: list[int | Symbol]
    wide: frozenset[Symbol]


_CANONICAL = [fresh("axis") for _ in range(32)]


@verified("core_cse", verify_rewritten)
def deduplicated(program: Program) -> Program:
    """The program without operations that another one has computed before. Its results keep their symbols: two that are computed
    alike stay two, since results never share memory."""
    shapes = {value.symbol: value.shape for value in program.inputs}
    return replace(program, block=_Merger(dict(_copies(program.block, shapes))).block(program.block, {}))


def _copies(block: Block, shapes: dict[Symbol, tuple[Dim, ...]]) -> Iterator[tuple[Symbol, Symbol]]:
    """The tensors that are copies of others, and of which."""
    for op in block.ops:
        shapes.update((out.symbol, out.shape) for out in outs_of(op))
        if isinstance(op, Loop):
            shapes.update((state.symbol, state.shape) for state in op.states)
            yield from _copies(op.body, shapes)
        source = copied(op)
        if source is not None and shapes.get(source) == outs_of(op)[0].shape:
            yield outs_of(op)[0].symbol, source


class _Merger:
    """`same` is what stands for what was merged, `copies` of which tensors others are copies: readers of either read the same."""

    def __init__(self, copies: Mapping[Symbol, Symbol]) -> None:
        self.copies = copies
        self.same: dict[Symbol, Symbol] = {}

    def origin(self, symbol: Symbol) -> Symbol:
        found = self.same.get(symbol) or self.copies.get(symbol)
        return symbol if found is None else self.origin(found)

    def key(self, op: Compute | Sort) -> object | None:
        names = {symbol: origin for symbol in tensors_of(op) if (origin := self.origin(symbol)) != symbol}
        found = with_tensors(op, names)
        assert isinstance(found, Compute | Sort)
        return meaning(found)

    def block(self, block: Block, around: Mapping[object, Compute | Sort]) -> Block:
        """`around` are the operations before the block, by what is equal for those that compute the same."""
        seen = dict(around)
        final: dict[Symbol, Symbol] = {}  # what is computed first takes the symbol of the result that is computed like it
        results = set(block.results)
        ops: list[Op] = []
        loops: list[Loop] = []
        for op in block.ops:
            op = with_tensors(op, self.same)
            if isinstance(op, Loop):
                op = replace(op, body=self.block(op.body, seen))
                alike = ((other, found) for other in loops if (found := self.same_states(op, other)) is not None)
                twin = next(alike, None)
                if twin is not None and self.merge(op, *twin, ops, loops, results):
                    continue
                loops.append(op)
            if not isinstance(op, Compute | Sort):
                ops.append(op)
                continue
            key = self.key(op)
            first = seen.setdefault(key, op) if key is not None else op
            pairs = [(out.symbol, other.symbol) for out, other in zip(outs_of(op), outs_of(first), strict=True)]
            taken = any(key in around or other in results or other in final for out, other in pairs if out in results)
            if first is op or taken:
                ops.append(op)
                continue
            self.same |= dict(pairs)
            final |= {other: out for out, other in pairs if out in results}
        if final:
            ops = [_called(with_tensors(op, final), final) for op in ops]
        return Block(tuple(ops), block.results)

    def merge(self, loop: Loop, other: Loop, found: _Twins, ops: list[Op], loops: list[Loop], results: Set[Symbol]) -> bool:
        """Let an earlier loop give what a loop does, if nothing stands against it."""
        twins = found.states
        more = {n: made for n, made in enumerate(twins) if isinstance(made, Symbol)}
        merged = {out.symbol: other.outs[n].symbol for out, n in zip(loop.outs, twins, strict=True) if not isinstance(n, Symbol)}
        fills = self.fills([loop.initial[n] for n in more], ops)
        if fills is None or (other.stacked == loop.stacked and not results.isdisjoint(merged)):
            return False
        whole, last = other, list[Compute]()
        if other.stacked == loop.stacked:
            self.same |= merged
        elif isinstance(other.trip, Index):
            kept = {n: out for out, n in zip(loop.outs, twins, strict=True) if not isinstance(n, Symbol)}
            whole, last = _keeping(other, kept)
        else:
            return False
        if found.wide:
            body = Block(tuple(in_f32(op, found.wide) for op in whole.body.ops), whole.body.results)
            whole = replace(whole, body=body)
        if more:
            whole = replace(
                whole,
                outs=(*whole.outs, *(loop.outs[n] for n in more)),
                initial=(*whole.initial, *(loop.initial[n] for n in more)),
                states=(*whole.states, *(loop.states[n] for n in more)),
                body=Block(whole.body.ops, (*whole.body.results, *more.values())),
            )
        place = next(n for n, each in enumerate(ops) if each is other)
        first = [each for each in ops[place:] if any(each is fill for fill in fills)]
        ops[place:] = [*first, whole, *last, *(each for each in ops[place + 1 :] if not any(each is fill for fill in fills))]
        loops[loops.index(other)] = whole
        return True

    def fills(self, symbols: Sequence[Symbol], ops: Sequence[Op]) -> list[Op] | None:
        """The operations that make tensors, but for those that stand around a block; None unless they only repeat a number."""
        origins = {self.origin(symbol) for symbol in symbols}
        made = [op for op in ops if any(out.symbol in origins for out in outs_of(op))]
        fill = all(isinstance(op, Compute) and op.reduction is None and isinstance(op.body[0], Const) for op in made)
        return made if fill and all(len(outs_of(op)) == 1 for op in made) else None

    def same_states(self, loop: Loop, other: Loop) -> _Twins | None:
        """Which states of an earlier loop are those of a loop, if it has all of them, among others; instead of one that no step
        reads, and the earlier one lacks, what there is made of each step for it, perhaps in f32 then."""
        if loop.trip != other.trip or loop.stacked < other.stacked or loop.conditional or other.conditional:
            return None
        read = frozenset[Symbol]().union(*map(tensors_of, loop.body.ops), loop.body.results) if loop.stacked else None
        found: dict[int, int] = {}
        for number, (state, initial) in enumerate(zip(loop.states, loop.initial, strict=True)):
            if read is not None and state.symbol not in read:
                continue
            wanted = (state.element, state.shape, self.origin(initial))
            pairs = enumerate(zip(other.states, other.initial, strict=True))
            alike = (n for n, (s, i) in pairs if (s.element, s.shape, self.origin(i)) == wanted and n not in found.values())
            place = next(alike, None)
            if place is None:
                return None
            found[number] = place
        names = {loop.states[n].symbol: other.states[m].symbol for n, m in found.items()}
        names[loop.counter] = other.counter
        made = {key: op for op in other.body.ops if isinstance(op, Compute | Sort) and (key := self.key(op)) is not None}
        wide, wider = frozenset[Symbol](), self.wider(other)
        for op in loop.body.ops:
            if not isinstance(op, Compute | Sort):
                return None
            op = with_tensors(op, names)
            assert isinstance(op, Compute | Sort)
            if isinstance(op, Compute):
                at_counter = renamed(op, {loop.counter: other.counter})
                assert isinstance(at_counter, Compute)
                op = at_counter
            key = self.key(op)
            first = made.get(key)
            if first is None and key in wider:
                first = wider[key]
                wide |= {out.symbol for out in first.outs}
                changed = (in_f32(each, wide) for each in other.body.ops if not wide.isdisjoint(tensors_of(each)))
                made |= {again: each for each in changed if isinstance(each, Compute) and (again := self.key(each)) is not None}
                wider |= self.wider(other, wide)
            if first is not None:
                names |= {out.symbol: same.symbol for out, same in zip(outs_of(op), outs_of(first), strict=True)}
            elif isinstance(op, Compute) and may_stop(op):
                return None
        results = [names.get(result, result) for result in loop.body.results]
        if any(results[n] != other.body.results[m] for n, m in found.items()):
            return None
        here = {out.symbol for op in other.body.ops for out in outs_of(op)}
        twins: list[int | Symbol] = []
        for number, result in enumerate(results):
            kept = (n for n, each in enumerate(other.body.results) if each == result and other.stacked and n not in twins)
            twin = found.get(number)
            twin = next(kept, None) if twin is None else twin
            if twin is None and result not in here:
                return None
            twins.append(result if twin is None else twin)
        return _Twins(twins, wide)

    def wider(self, loop: Loop, wide: frozenset[Symbol] = frozenset()) -> dict[object, Compute]:
        """The sums and their like of 16 bits in a step that might as well be in f32, besides those that are `wide`: others than
        element by element neither make nor read them. By what is equal for those that compute the same in f32."""
        fixed = set(loop.body.results).union(*(tensors_of(op) for op in loop.body.ops if not isinstance(op, Compute)))
        found: dict[object, Compute] = {}
        for op in loop.body.ops:
            if not isinstance(op, Compute) or op.reduction is None or op.reduction.monoid.kind not in ("sum", "prod", "max", "min"):
                continue
            (out,) = op.outs
            if out.element.is_float and out.element.accumulator is not out.element and out.symbol not in fixed:
                changed = in_f32(op, wide | {out.symbol})
                assert isinstance(changed, Compute)
                found[self.key(changed)] = op
        return found


def _keeping(loop: Loop, kept: Mapping[int, Value]) -> tuple[Loop, list[Compute]]:
    """A loop that keeps the states of all steps, some of them called so, and what makes its results, those after the last step."""
    assert isinstance(loop.trip, Index)
    trip = loop.trip.dim
    stacks = [
        kept.get(n) or Value(fresh(f"{out.symbol.name}s"), out.element, (trip, *out.shape)) for n, out in enumerate(loop.outs)
    ]
    results = []
    for out, stack, initial in zip(loop.outs, stacks, loop.initial, strict=True):
        axes = tuple(Axis(fresh(f"i{n}"), extent) for n, extent in enumerate(out.shape))
        here = tuple(Dim.of(axis.symbol) for axis in axes)
        last, first = Read(stack.symbol, (trip - 1, *here), out.element), Read(initial, here, out.element)
        results.append(Compute((out,), axes, None, (Select(above_0(trip), last, first),), loop.span))
    return replace(loop, outs=tuple(stacks), stacked=True), results


def _called(op: Op, names: Mapping[Symbol, Symbol]) -> Op:
    """An operation whose results have other names."""

    def called(out: Value) -> Value:
        return replace(out, symbol=names.get(out.symbol, out.symbol))

    match op:
        case Compute():
            return replace(op, outs=tuple(map(called, op.outs)))
        case Sort():
            return replace(op, values=called(op.values), indices=called(op.indices))
        case _:
            return op


def meaning(op: Compute | Sort) -> object | None:
    """What is equal for operations that compute the same; None for those that are left alone."""
    if isinstance(op, Sort):
        return "sort", op.input
    if op.reduction is not None and op.reduction.monoid.kind == "custom":
        return None
    axes = (*op.axes, *(op.reduction.axes if op.reduction else ()))
    if len(axes) > len(_CANONICAL):
        return None
    names = {axis.symbol: Dim.of(other) for axis, other in zip(axes, _CANONICAL, strict=False)}
    extents = tuple(axis.extent.substitute(names) for axis in axes)
    kind = op.reduction.monoid.kind if op.reduction else ""
    conditions = (op.reduction.where, op.reduction.asked) if op.reduction else (None, None)
    parts = tuple(None if s is None else _canonical(substitute(s, names)) for s in (*op.body, *conditions))
    return len(op.axes), kind, extents, parts, tuple(out.element for out in op.outs)


def _canonical(scalar: Scalar) -> Scalar:
    """The expression with names for its `let`s that follow from their places."""
    bound = [symbol for node in nodes(scalar) if isinstance(node, Bind) for symbol, _ in node.bindings]
    return relabelled(scalar, {symbol: Symbol("let", -1 - n) for n, symbol in enumerate(bound)}) if bound else scalar
