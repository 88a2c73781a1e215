"""What a step of a loop reads that an earlier loop kept of its steps, with how that was made, where it was made of large tensors.

    unfold for t < n => … s[i, j] = sum c => q[i, c] * k[j, c] … m[i] = max j => s[i, j] … in … q, k, m
    loop for u < n   => … s[i, j] = sum c => qs[n - u - 1, i, c] * ks[n - u - 1, j, c] … exp (s[i, j] - ms[n - u - 1, i]) …

The second loop makes scores again, as gradients do, and reads the statistics of their rows. A backend that makes both in one pass,
and never stores scores, has to see that these are statistics of those. So the step states it: it makes `m` again as well, of its
own `s`, and reads that; and `Known` says that it is there, as a part of `ms`.

Stated is what is made of a tensor that the step makes again, and that is larger than all that this is made of. Where a stack has
one in another order (of merged heads, `y[i, c] = o[c / 64, i, c % 64]`), `o` is known as well. And the first loop keeps sums over
weights that nothing of the second one reads, `o[i, c] = sum j => … s[i, j] … v[j, c]`, where what is multiplied has 16 bits: the
gradient of the weights' sum follows from these, by the distributive law, without another pass over the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

from axon.base.data import replace
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import Axis, Block, Compress, Compute, Const, Convert, Known, Loop, Op, Program, Read, Scalar, Scan, Select, Value
from axon.core.passes.cse import meaning
from axon.core.passes.dissolve import copied
from axon.core.passes.live import live
from axon.core.scalar_facts import comparison, data_may_stop, freshened, mapped, renamed
from axon.core.verify import verify_rewritten
from axon.core.walk import all_axes, mentions, needs_of, nodes, outs_of, rename, rewrite, scalars, tensors_of, trip_of
from axon.shapes.dimension import Dim, no_larger

Shape = tuple[Dim, ...]


@verified("made_again", verify_rewritten)
def made_again(program: Program) -> Program:
    """The program in which steps of loops make again statistics that they state, and do not read them of earlier loops: for those
    that have the steps of each loop apart, and would not know what these are. What nobody reads then is not kept."""
    ops, known = with_histories(program.block.ops, {value.symbol: value for value in program.inputs}, keeping=False)
    return replace(program, block=live(Block(tuple(ops), program.block.results))) if known else program


def with_histories(
    ops: Sequence[Op], values: Mapping[Symbol, Value], *, keeping: bool = True
) -> tuple[list[Op], tuple[Known, ...]]:
    """The operations of a block with how was made in their steps what loops read that earlier ones kept, and what of that is known.
    `values` stand before the block. Earlier loops may be changed to keep more if `keeping`."""
    made, known = list(ops), list[Known]()
    values = dict(values) | {value.symbol: value for op in ops for value in outs_of(op)}
    for number, loop in enumerate(ops):
        if not isinstance(loop, Loop):
            continue
        earlier = {out.symbol: n for n, op in enumerate(made[:number]) if isinstance(op, Loop) and op.stacked for out in op.outs}
        reads = {
            (earlier[read.tensor], place)
            for read in _all_reads(loop.body.ops)
            if (place := _place(read, loop)) is not None and read.tensor in earlier
        }
        for n, place in sorted(reads, key=lambda each: (each[0], each[1].sort_key)):
            source = made[n]
            assert isinstance(source, Loop)
            if trip_of(source) == trip_of(loop) and not source.conditional:
                history = _History(source, place, loop.body, values, keeping)
                history.run()
                loop = replace(loop, body=Block(tuple(history.ops), loop.body.results))
                made[n], made[number] = history.source, loop
                known += history.known
                values |= {out.symbol: out for out in history.source.outs}
    return [each for op in made for each in (*_zeros(op, values), op)], tuple(known)


def _zeros(op: Op, values: dict[Symbol, Value]) -> list[Compute]:
    """What the states of a loop begin with that were added to it."""
    if not isinstance(op, Loop):
        return []
    found = [(state, initial) for state, initial in zip(op.states, op.initial, strict=True) if initial not in values]
    return [_zero(replace(state, symbol=initial)) for state, initial in found]


def _zero(out: Value) -> Compute:
    axes = tuple(Axis(fresh("i"), extent) for extent in out.shape)
    return Compute((out,), axes, None, (Const(0.0, out.element),))


def _all_reads(ops: Sequence[Op]) -> list[Read]:
    scalars_of = (scalar for op in ops if isinstance(op, Compute) for scalar in scalars(op))
    return [node for scalar in scalars_of for node in nodes(scalar) if isinstance(node, Read)]


def _place(read: Read, loop: Loop) -> Dim | None:
    """The first index of a read, if each step has another one."""
    first = read.subscripts[0] if read.subscripts else None
    split = first.linear_in(loop.counter) if isinstance(first, Dim) else None
    return first if isinstance(first, Dim) and split is not None and split[0].constant in (1, -1) else None


class _History:
    """What the step at a place of an earlier loop made, in terms of a block that reads its stacks there.

    `names` are the tensors of that step as they are called here, with their first indices; `large` are those that the block makes
    again, and what is made of them; `made_of` are the shapes of what those are made of, some of it `narrow`, of 16 bits; `turned`
    are tensors of the step that are kept in another order.
    """

    def __init__(self, source: Loop, place: Dim, block: Block, values: Mapping[Symbol, Value], keeping: bool) -> None:
        self.source, self.place, self.keeping = source, place, keeping
        self.stacks = {result: out.symbol for result, out in zip(source.body.results, source.outs, strict=True)}
        held = {*self.stacks.values()}
        self.ops = _in_place(block.ops, lambda read: read.tensor in held and read.subscripts[0] == place)
        self.steps = _in_place(source.body.ops, lambda read: read.tensor in self.stacks)
        self.given = len(block.ops)
        self.known: list[Known] = []
        self.names: dict[Symbol, tuple[Symbol, Shape]] = {}
        self.large: set[Symbol] = set()
        self.made_of: list[Shape] = []
        self.narrow = False
        self.shapes = {symbol: value.shape for symbol, value in values.items()}
        self.shapes |= {value.symbol: value.shape for op in (*block.ops, *source.body.ops) for value in outs_of(op)}
        self.makers = {key: op for op in self.ops if isinstance(op, Compute) and (key := meaning(op)) is not None}
        made = (out.symbol for op in source.body.ops for out in outs_of(op))
        self.inside = {source.counter, *(state.symbol for state in source.states), *made}
        kept = [op for op in source.body.ops if isinstance(op, Compute) and op.outs[0].symbol in self.stacks]
        self.turned = {source for op in kept for source in tensors_of(op) if _turned(op, self.shapes.get(source, ())) is not None}

    def run(self) -> None:
        for state, initial, out in zip(self.source.states, self.source.initial, self.source.outs, strict=True):
            self.before(state, initial, out.symbol)
        for op in self.steps:
            for out in outs_of(op):
                if out.symbol in self.stacks:
                    self.names[out.symbol] = self.stacks[out.symbol], (self.place,)
            if isinstance(op, Compute) and len(op.outs) == 1 and not data_may_stop(op):
                self.again(op, op.outs[0])
        self.ops = self.in_order()
        there = {out.symbol for op in self.ops for out in outs_of(op)}
        self.known = [known for known in self.known if known.made in there]

    def before(self, state: Value, initial: Symbol, stack: Symbol) -> None:
        """A state as it is before the step, if the block makes it."""
        axes = tuple(Axis(fresh("i"), extent) for extent in state.shape)
        here = tuple(Dim.of(axis.symbol) for axis in axes)
        first, later = Read(initial, here, state.element), Read(stack, (self.place - 1, *here), state.element)
        body = Select(comparison("eq", self.place, Dim.of(0)), first, later)
        maker = self.makers.get(meaning(Compute((state,), axes, None, (body,))))
        if maker is not None:
            self.names[state.symbol] = maker.outs[0].symbol, ()

    def again(self, op: Compute, out: Value) -> None:
        """Find what an operation of the step makes in the block, or state it there, if it is made of what is large."""
        read = tensors_of(op)
        if any(symbol in self.inside and symbol not in self.names for symbol in read):
            return
        found = [self.names.get(symbol, (symbol, ())) for symbol in read]
        of_large = any(symbol in self.large for symbol, _ in found)
        kept = out.symbol in self.stacks
        if kept and not (of_large and (self.keeping or self.of_rows(op))):
            return  # read where it is
        names = {axis.symbol: fresh(axis.symbol.name) for axis in all_axes(op)}
        here = mapped(renamed(op, names, {self.source.counter: self.place}), lambda scalar: freshened(self.reading(scalar)))
        assert isinstance(here, Compute)
        maker = None if kept else self.makers.get(meaning(here))
        shapes = [self.shapes[symbol][len(first) :] for symbol, first in found if symbol not in self.large]
        small = any(no_larger(out.shape, shape) for shape in (*shapes, *(self.made_of if of_large else ())))
        if maker is not None:
            (made,) = maker.outs
            if of_large if op.reduction is None else not small:
                self.large.add(made.symbol)
                self.made_of += shapes
                self.narrow |= any(read.element.is_float and read.element.bits <= 16 for read in _all_reads([op]))
        elif of_large:
            made = replace(out, symbol=fresh(out.symbol.name))
            here = replace(here, outs=(made,))
            self.shapes[made.symbol] = made.shape
            self.ops.append(here)
            follows = self.narrow and self.known and out.symbol not in self.turned  # the gradient of statistics, from it
            if kept:
                self.state(here, self.stacks[out.symbol])
            elif self.keeping and follows and small and op.reduction is not None:
                self.state(here, self.keep(out))
            else:
                self.large.add(made.symbol)
        else:
            return
        self.names[out.symbol] = made.symbol, ()

    def of_rows(self, op: Compute) -> bool:
        """Whether an operation makes something of each row of what is large, and not sums with values, of each column of these."""
        large = [read for read in _all_reads([op]) if self.names.get(read.tensor, (read.tensor,))[0] in self.large]
        return all(any(mentions(read, axis.symbol) for read in large) for axis in op.axes)

    def keep(self, out: Value) -> Symbol:
        """Have the earlier loop keep what a step makes: what holds it of all steps."""
        trip = trip_of(self.source)
        assert isinstance(trip, Dim)
        stack = Value(fresh(f"{out.symbol.name}s"), out.element, (trip, *out.shape))
        self.source = replace(
            self.source,
            outs=(*self.source.outs, stack),
            initial=(*self.source.initial, fresh("none")),
            states=(*self.source.states, replace(out, symbol=fresh(out.symbol.name))),
            body=replace(self.source.body, results=(*self.source.body.results, out.symbol)),
        )
        return stack.symbol

    def reading(self, scalar: Scalar) -> Scalar:
        """An expression of the step over tensors as they are called in the block."""

        def visit(node: Scalar) -> Scalar | None:
            if not isinstance(node, Read) or node.tensor not in self.names:
                return None
            tensor, first = self.names[node.tensor]
            rest = (s if isinstance(s, Dim) else self.reading(s) for s in node.subscripts)
            padding = None if node.padding is None else self.reading(node.padding)
            return replace(node, tensor=tensor, subscripts=(*first, *rest), padding=padding)

        return rewrite(scalar, visit)

    def state(self, op: Compute, stack: Symbol) -> None:
        """Let the block read what an operation makes that stands in it now, and say that a stack holds it."""
        (made,) = op.outs
        axes = tuple(fresh(axis.symbol.name) for axis in op.axes)
        self.known.append(Known(made.symbol, stack, axes, (self.place, *map(Dim.of, axes))))
        source = next(iter(tensors_of(op)), None)
        turned = None if source is None else _turned(op, self.shapes.get(source, ()))
        if source in self.large and turned is not None and source not in {known.made for known in self.known}:
            axes, places = turned
            self.known.append(Known(source, stack, axes, (self.place, *places)))

        def visit(node: Scalar) -> Scalar | None:
            if isinstance(node, Read) and node.tensor == stack and node.subscripts[0] == self.place:
                rest = (s if isinstance(s, Dim) else rewrite(s, visit) for s in node.subscripts[1:])
                return replace(node, tensor=made.symbol, subscripts=tuple(rest))
            return None

        for number, each in enumerate(self.ops):
            if isinstance(each, Compute | Scan) and stack in tensors_of(each):
                changed = self.ops[number] = mapped(each, lambda scalar: rewrite(scalar, visit))
                if isinstance(changed, Compute) and (key := meaning(changed)) is not None:
                    self.makers[key] = changed

    def in_order(self) -> list[Op]:
        """The operations of the block as they stand, each behind what it needs of those that were stated."""
        makers = {out.symbol: op for op in self.ops for out in outs_of(op)}
        makers |= {op.size: op for op in self.ops if isinstance(op, Compress)}
        there: set[Symbol] = set()
        ordered: list[Op] = []

        def place(op: Op) -> None:
            mine = {out.symbol for out in outs_of(op)} | ({op.size} if isinstance(op, Compress) else set())
            for symbol in sorted((needs_of(op) & makers.keys()) - there - mine, key=lambda s: s.id):
                place(makers[symbol])
            if there.isdisjoint(mine):
                there.update(mine)
                ordered.append(op)

        stated = {known.made for known in self.known} if self.keeping else set[Symbol]()
        for number, op in enumerate(self.ops):
            if number < self.given or (isinstance(op, Compute) and op.reduction is not None and op.outs[0].symbol in stated):
                place(op)
        return ordered


def _in_place(ops: Sequence[Op], kept: Callable[[Read], bool]) -> list[Op]:
    """Operations that read what others only copy where that is, and round there what is `kept` wider than they need it."""
    shown: dict[Symbol, Compute] = {}

    def visit(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read) or node.tensor not in shown or node.padding is not None or node.checked is not None:
            return None
        maker = shown[node.tensor]
        at = {axis.symbol: s for axis, s in zip(maker.axes, node.subscripts, strict=True) if isinstance(s, Dim)}
        return rename(maker.body[0], at) if len(at) == len(maker.axes) else None

    made: list[Op] = []
    for op in ops:
        op = mapped(op, lambda scalar: rewrite(scalar, visit)) if isinstance(op, Compute | Scan) else op
        made.append(op)
        if isinstance(op, Compute) and (copied(op) is not None or _rounds(op, kept)):
            shown[op.outs[0].symbol] = op
    return made


def _rounds(op: Compute, kept: Callable[[Read], bool]) -> bool:
    match op:
        case Compute(outs=(out,), reduction=None, body=(Convert(operand=Read(padding=None, checked=None) as read),)):
            return kept(read) and all(isinstance(s, Dim) for s in read.subscripts) and out.element.bits < read.element.bits
        case _:
            return False


def _turned(op: Compute, shape: Shape) -> tuple[tuple[Symbol, ...], Shape] | None:
    """Where the elements of a tensor of this shape are in what only reads all of them in another order: its indices, and places.
    An index may be the digits of several, as of merged heads."""
    read = op.body[0]
    if op.reduction is not None or not isinstance(read, Read) or read.padding is not None or read.checked is not None:
        return None
    axes, digits = tuple(fresh("i") for _ in shape), list[int]()
    places: list[Dim] = []
    for axis in op.axes:
        index = Dim.of(axis.symbol)
        mine = [n for n, s in enumerate(read.subscripts) if isinstance(s, Dim) and axis.symbol in s.variables]
        for order in permutations(mine):  # from the last digit to the first
            place, unit = Dim.of(0), Dim.of(1)
            for n in order:
                digit = index // unit
                if read.subscripts[n] not in (digit % shape[n], *([digit] if unit * shape[n] == axis.extent else [])):
                    break
                place, unit = place + unit * Dim.of(axes[n]), unit * shape[n]
            else:
                if unit == axis.extent:
                    places.append(place)
                    digits += order
                    break
        else:
            return None
    return (axes, tuple(places)) if sorted(digits) == list(range(len(shape))) else None
