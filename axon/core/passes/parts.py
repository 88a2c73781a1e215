"""Core to the parts in which a GPU runs it: straight sub-programs, which become kernels, and what the host does between them.

    parts    a program -> its Parts

A *straight* program has Compute and Scan operations alone: its kernels are launched in one go, and every size is known before. The
other operations need the host, or kernels of their own: a loop is stepped, `sort` and `compress` are algorithms, the size that a
`compress` defines and a trip count that comes from data are read back, a check compares sizes.

Note [Where an operation goes]
    Loops, sorts and compresses stay in order, but that a sort goes up past loops which it needs nothing of: what reads it need then
    not be apart from what reads the loops. A check goes up to where its dimensions are known: to the front, or behind the
    `compress` that defines one. Every straight operation goes to the earliest place at which what it reads is there and no check
    that stood before it follows; pointwise ones go down again to their readers (see `sink`), where they may be fused with them. So
    there are few parts, and what does not depend on a size that is read back is on its way before the host waits.

    A check that went up past an operation that may fail would say another error than core does; who runs the parts then asks the
    interpreter which one comes first (`Straight.fails` says where that may happen).

What comes out has the tensors' own Symbols, without operations that only copy and without what nobody needs. In a loop's body the
counter is a dimension only: reads of it as a tensor are replaced.

Rules (held by `verify_parts`):
* what a part reads is an input, stands around the block, or is made by a part before it, and so are the dimensions it mentions;
* a straight part is a program of core by itself, of Compute and Scan alone, whose explicit dimensions are all that it mentions;
* a trip count is a dimension, or an integer tensor of rank 0; what a block gives is there at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from typing import TypeAlias, assert_never

from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol, fresh
from axon.base.passes import FormInvalid, verified
from axon.core.ir import (
    Binary,
    Block,
    Check,
    Compress,
    Compute,
    Const,
    Index,
    Known,
    Leaf,
    Loop,
    Op,
    Param,
    Program,
    Read,
    Scalar,
    Scan,
    Sort,
    TupleOf,
    Value,
    element_of,
)
from axon.core.operands import with_tensors
from axon.core.passes.adjoints import as_windows
from axon.core.passes.cse import deduplicated
from axon.core.passes.dissolve import copied
from axon.core.passes.factor import DEVICE, choices, factored
from axon.core.passes.histories import with_histories
from axon.core.passes.hoist import DEVICE as WORTH
from axon.core.passes.hoist import hoist
from axon.core.passes.narrow import narrowed
from axon.core.passes.orders import DEFAULT, Order, OrderChoice, order_at
from axon.core.passes.segments import SegmentedScatter, scatters, segmented
from axon.core.passes.sink import sunk
from axon.core.passes.tables import without_tables
from axon.core.passes.trips import counts
from axon.core.printer import names_in, print_op
from axon.core.scalar_facts import mapped, may_fail, may_stop
from axon.core.verify import CoreInvalid, verify
from axon.core.walk import dimensions_of, needs_of, outs_of, rewrite, tensors_of, trip_of
from axon.shapes.contracts.contract import Contract, ContractFact, ParameterShape
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.shapes.relation import Relation


@dataclass(frozen=True, slots=True)
class Straight:
    """Compute and Scan operations as a program: its inputs are what it reads, its results what others need of it, its explicit
    dimensions all that it mentions."""

    program: Program

    @property
    def fails(self) -> bool:
        """Whether it can stop the program while it runs."""
        return any(map(fails, self.program.block.ops))

    @property
    def results(self) -> tuple[Value, ...]:
        made = {out.symbol: out for op in self.program.block.ops if isinstance(op, Compute | Scan) for out in op.outs}
        return tuple(made[symbol] for symbol in self.program.block.results)


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop or an unfold. Its trip count is a dimension, or a tensor of rank 0, which must be read back."""

    op: Loop
    body: PartsBody

    @property
    def trip(self) -> Dim | Symbol:
        return trip_of(self.op)


Part: TypeAlias = "Straight | HostLoop | Sort | Compress | Check"


@dataclass(frozen=True, slots=True)
class PartsBody:
    """Parts in order, and what they give: symbols of what they make, or of what stands around them."""

    parts: tuple[Part, ...]
    results: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """A program in parts. `program` is what was split, for its inputs, contract and structure; `body` replaces its block, with the
    `tables` that it states in full as further inputs."""

    program: Program
    body: PartsBody
    rest: Program  # the program without its tables
    tables: tuple[Compute, ...] = ()

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks in front of everything else."""
        count = next((n for n, part in enumerate(self.body.parts) if not isinstance(part, Check)), len(self.body.parts))
        return tuple(part for part in self.body.parts[:count] if isinstance(part, Check))

    @property
    def straight(self) -> Program | None:
        """The whole program without the checks in front, if it is straight then."""
        rest = self.body.parts[len(self.checks) :]
        if len(rest) != 1 or not isinstance(rest[0], Straight):
            return None
        ops = tuple(op for op in self.rest.block.ops if not isinstance(op, Check))
        return replace(self.rest, block=replace(self.rest.block, ops=ops))


@dataclass(frozen=True, slots=True)
class Decided:
    """What the sizes of a call decide: the orders of sums of products, and which scatters are made of segments."""

    orders: Order = DEFAULT
    segmented: frozenset[Symbol] = frozenset()


AS_IT_STANDS = Decided()


@dataclass(frozen=True, slots=True)
class PartChoices:
    """What there is to decide."""

    orders: tuple[OrderChoice, ...]
    scatters: tuple[SegmentedScatter, ...]

    def __bool__(self) -> bool:
        return bool(self.orders or self.scatters)

    def at(self, sizes: Mapping[Symbol, int]) -> Decided:
        """What is best at these sizes of a call."""
        return Decided(order_at(self.orders, sizes), frozenset(one.symbol for one in self.scatters if one.is_worth(sizes)))


@verified("parts", lambda made, *_: verify_parts(made), gives="parts")
def parts(program: Program, decided: Decided = AS_IT_STANDS) -> Parts:
    """The parts of a program, in order, with what was `decided` of its `choices_of`."""
    facts = program.contract.facts
    sums = factored(segmented(_before_choices(program), decided.segmented), DEVICE, decided.orders)
    rest, tables = without_tables(hoist(sums, WORTH), results_apart=True)
    values = {value.symbol: value for value in rest.inputs}
    return Parts(program, _block(rest.block, _Around(rest, values, facts, rest.known)), rest, tables)


def choices_of(program: Program) -> PartChoices:
    """What the sizes of a call decide."""
    given = _before_choices(program)
    return PartChoices(choices(given, DEVICE), scatters(given))


def _before_choices(program: Program) -> Program:
    """What is looked at for choices, and what they are made in, are the same."""
    return as_windows(deduplicated(narrowed(program)))


def fails(op: Op) -> bool:
    """Whether an operation can stop the program while it runs."""
    match op:
        case Compute() | Scan():
            return may_stop(op)
        case Loop(body=body, trip=trip):
            return may_fail(trip) or any(map(fails, body.ops))
        case Sort() | Compress():
            return False
        case Check():
            return True
        case _:
            assert_never(op)


# ── splitting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands before a block: tensors, and facts that hold of dimensions."""

    program: Program
    values: Mapping[Symbol, Value]
    facts: tuple[ContractFact, ...]
    known: tuple[Known, ...]  # what is made in the block, and where it is already
    ascending: frozenset[Symbol] = frozenset()  # sorted vectors of integers


def _block(block: Block, around: _Around) -> PartsBody:
    """See Note [Where an operation goes]. Place k is before the k-th operation that is not straight, the last one after all."""
    ops, results = _without_copies(list(_counted(block.ops)), block.results, around)
    ops = [replace(op, body=_without_counter(op.body, op.counter)) if isinstance(op, Loop) else op for op in ops]
    ops, known = with_histories(ops, around.values)
    around = replace(around, known=(*around.known, *known))
    ops = _needed(ops, (*results, *(one.made for one in around.known)))
    special = _ordered(ops)
    sorts = (op.values for op in special if isinstance(op, Sort))
    ascending = frozenset(value.symbol for value in sorts if len(value.shape) == 1 and value.element.is_integer)
    around = replace(around, ascending=around.ascending | ascending)
    position: IdentityMap[Op, int] = IdentityMap((op, number) for number, op in enumerate(special))
    makers: dict[Symbol, int] = {}  # the first place at which a tensor, or the dimension of a compress, is there
    place: dict[int, int] = {}  # of straight operations, by their number
    barrier = 0
    for number, op in enumerate(ops):
        if isinstance(op, Compute | Scan):
            at = place[number] = max([barrier, *(makers[s] for s in needs_of(op) if s in makers)])
        else:
            at = position[op] + 1
            if isinstance(op, Check):
                barrier = max(barrier, at)
            if isinstance(op, Compress):
                makers[op.size] = at
        makers.update((value.symbol, at) for value in outs_of(op))
    straight = sunk(ops, place, frozenset(results))
    needed: list[set[Symbol]] = [set() for _ in range(len(special) + 2)]  # what is read from each place on, that one included
    needed[-1] = set(results)
    for at in range(len(special), -1, -1):
        mine = {s for op in straight.get(at, ()) for s in needs_of(op)}
        needed[at] = needed[at + 1] | mine | (needs_of(special[at]) if at < len(special) else set())
    values, facts = dict(around.values), around.facts
    made: list[Part] = []
    for at in range(len(special) + 1):
        mine_here = [op for op in straight.get(at, ()) if isinstance(op, Compute | Scan)]
        later = needed[at + 1] | (needs_of(special[at]) if at < len(special) else set())
        if mine_here:
            made.append(_straight(mine_here, later, replace(around, values=values, facts=facts)))
            values.update((out.symbol, out) for op in mine_here for out in op.outs)
        if at == len(special):
            break
        op = special[at]
        match op:
            case Loop():
                made.append(_repeat(op, replace(around, values=values, facts=facts)))
            case Sort() | Compress() | Check():
                made.append(op)
                if isinstance(op, Check) and not op.given:
                    facts += (ContractFact(Relation(op.left, op.relation, op.right), op.message, op.span),)
                if isinstance(op, Compress):
                    (extent,) = values[op.mask].shape
                    facts += (ContractFact(Relation(Dim.of(op.size), "<=", extent), "a part of what there is", op.span),)
            case _:
                assert_never(op)
        values.update((value.symbol, value) for value in outs_of(op))
    return PartsBody(tuple(made), results)


def _counted(ops: Sequence[Op]) -> Iterator[Op]:
    """The operations with trip counts of loops as dimensions where they follow from these, else as tensors of their own."""
    scalars: dict[Symbol, Scalar] = {}
    for op in ops:
        if isinstance(op, Loop):
            size = as_size(op.trip, scalars)
            if size is not None:
                op = replace(op, trip=Index(size))
            elif not (isinstance(op.trip, Read) and not op.trip.subscripts):
                count = Value(fresh("count"), element_of(op.trip), ())
                yield Compute((count,), (), None, (op.trip,), op.span)
                op = replace(op, trip=Read(count.symbol, (), count.element))
        elif isinstance(op, Compute) and not op.axes and op.reduction is None:
            scalars.update((out.symbol, body) for out, body in zip(op.outs, op.body, strict=True))
        yield op


_ARITHMETIC: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
}


def as_size(scalar: Scalar, scalars: Mapping[Symbol, Scalar]) -> Dim | None:
    """An integer that follows from sizes, as a dimension, whose value modulo 2³² it is. `scalars` are tensors of rank 0."""
    match scalar:
        case Const(value=value) if element_of(scalar) is Element.I32:
            return Dim.of(int(value))
        case Index(dim=dim, element=Element.I32):
            return dim
        case Read(tensor=tensor, subscripts=(), element=Element.I32) if tensor in scalars:
            return as_size(scalars[tensor], scalars)
        case Binary(op=op, left=left, right=right) if op in _ARITHMETIC:
            sides = as_size(left, scalars), as_size(right, scalars)
            return None if sides[0] is None or sides[1] is None else _ARITHMETIC[op](sides[0], sides[1])
        case _:
            return None


def _without_copies(ops: Sequence[Op], results: tuple[Symbol, ...], around: _Around) -> tuple[list[Op], tuple[Symbol, ...]]:
    """Without operations that only copy a tensor; and the results. Those of the program stay tensors of their own."""
    same: dict[Symbol, Symbol] = {}
    shapes = {symbol: value.shape for symbol, value in around.values.items()}
    own = frozenset(around.program.block.results)
    kept: list[Op] = []
    for op in ops:
        op = with_tensors(op, same)
        source = copied(op)
        if isinstance(op, Compute) and source in shapes and shapes[source] == op.outs[0].shape and op.outs[0].symbol not in own:
            same[op.outs[0].symbol] = source
            continue
        shapes.update((value.symbol, value.shape) for value in outs_of(op))
        kept.append(op)
    return kept, tuple(same.get(symbol, symbol) for symbol in results)


def _needed(ops: Sequence[Op], results: Sequence[Symbol]) -> list[Op]:
    """Without straight operations and sorts that nobody needs; what may fail is needed."""
    wanted, kept = set(results), list[Op]()
    for op in reversed(ops):
        if not isinstance(op, Compute | Scan | Sort) or fails(op) or any(value.symbol in wanted for value in outs_of(op)):
            wanted |= tensors_of(op)
            kept.append(op)
    return kept[::-1]


_Special: TypeAlias = "Loop | Sort | Compress | Check"


def _ordered(ops: Sequence[Op]) -> list[_Special]:
    """Operations that are not straight, in order, with checks where their dimensions are known, and sorts before loops that they
    need nothing of."""
    found: list[tuple[int, _Special]] = []
    behind: dict[Symbol, frozenset[int]] = {}  # the loops, by number, that a tensor or a dimension needs, if any
    for number, op in enumerate(ops):
        loops = frozenset[int]().union(*(behind[symbol] for symbol in needs_of(op) & behind.keys()))
        if not isinstance(op, Compute | Scan):
            at = len(found)
            while at and _goes_before(op, *found[at - 1], loops):
                at -= 1
            found.insert(at, (number, op))
        if isinstance(op, Loop):
            loops |= {number}
        if loops:
            behind.update((symbol, loops) for symbol in _defined(op))
    return [op for _, op in found]


def _goes_before(op: _Special, number: int, other: _Special, loops: Set[int]) -> bool:
    match op:
        case Check():
            return not isinstance(other, Check) and not (isinstance(other, Compress) and other.size in dimensions_of(op))
        case Sort():
            return isinstance(other, Loop) and number not in loops
        case _:
            return False


def _defined(op: Op) -> tuple[Symbol, ...]:
    size = (op.size,) if isinstance(op, Compress) else ()
    return (*size, *(value.symbol for value in outs_of(op)))


def _straight(ops: Sequence[Compute | Scan], later: set[Symbol], around: _Around) -> Straight:
    """The operations of one place as a program."""
    own = {out.symbol: out for op in ops for out in op.outs}
    read = dict.fromkeys(s for op in ops for s in sorted(needs_of(op), key=lambda s: s.id) if s in around.values and s not in own)
    known = tuple(one for one in around.known if one.made in own and one.holds in around.values)
    inputs = tuple(around.values[symbol] for symbol in dict.fromkeys([*read, *(one.holds for one in known)]))
    shaped = frozenset(symbol for value in inputs for dim in value.shape for symbol in dim.variables)
    dims = shaped.union(*map(dimensions_of, ops), *(place.variables - {*one.axes} for one in known for place in one.places))
    explicit = tuple(sorted(dims, key=lambda symbol: symbol.id))
    facts = tuple(fact for fact in around.facts if fact.relation.variables <= dims)
    shapes = tuple(ParameterShape(value.symbol.name, value.shape) for value in inputs)
    results = tuple(symbol for symbol in own if symbol in later)
    leaves = tuple(Leaf(number) for number in range(len(results)))
    return Straight(
        Program(
            around.program.name,
            explicit,
            tuple(Param(value.symbol.name, Leaf(number)) for number, value in enumerate(inputs)),
            inputs,
            Contract(explicit, shapes, facts),
            Block(tuple(ops), results),
            leaves[0] if len(leaves) == 1 else TupleOf(leaves),
            tuple(value.symbol for value in inputs if value.symbol in around.ascending),
            known,
        )
    )


def _repeat(op: Loop, around: _Around) -> HostLoop:
    trip = trip_of(op)
    values = {**around.values, **{state.symbol: state for state in op.states}}
    facts = around.facts
    if isinstance(trip, Dim):
        facts += (ContractFact(Relation(Dim.of(op.counter), "<", trip), "a step of a loop", op.span),)
    return HostLoop(op, _block(op.body, replace(around, values=values, facts=facts)))


def _without_counter(block: Block, counter: Symbol) -> Block:
    """A loop's body in which the counter is a dimension alone."""
    copy = Value(fresh(counter.name), Element.I32, ())
    here = Index(Dim.of(counter))

    def visit(node: Scalar) -> Scalar | None:
        match node:
            case Read(tensor=tensor) if tensor == counter:
                return here
            case Read(subscripts=subscripts, padding=padding):
                inside = tuple(s if isinstance(s, Dim) else _as_dim(rewrite(s, visit)) for s in subscripts)
                return replace(node, subscripts=inside, padding=None if padding is None else rewrite(padding, visit))
            case _:
                return None

    def change(scalar: Scalar) -> Scalar:
        return rewrite(scalar, visit)

    def inside(block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            match op:
                case Compute() | Scan():
                    ops.append(mapped(op, change))
                case Loop(initial=initial, trip=trip, body=body):
                    initial = tuple(copy.symbol if s == counter else s for s in initial)
                    ops.append(replace(op, initial=initial, trip=change(trip), body=inside(body)))
                case Sort() | Compress() | Check():
                    ops.append(op)
                case _:
                    assert_never(op)
        return Block(tuple(ops), tuple(copy.symbol if s == counter else s for s in block.results))

    made = inside(block)
    if copy.symbol in frozenset(made.results).union(*map(tensors_of, made.ops)):
        return replace(made, ops=(Compute((copy,), (), None, (here,)), *made.ops))
    return made


def _as_dim(scalar: Scalar) -> Dim | Scalar:
    return scalar.dim if isinstance(scalar, Index) else scalar


# ── what the parts mean ─────────────────────────────────────────────────────────────────────────────────────────────────


def as_program(split: Parts) -> Program:
    """A program with the operations of the parts in their order. The interpreter runs it: what the parts mean."""
    block = _as_block(split.body)
    return replace(split.program, block=replace(block, ops=(*split.tables, *block.ops)))


def _as_block(body: PartsBody) -> Block:
    ops: list[Op] = []
    for part in body.parts:
        match part:
            case Straight(program=program):
                ops.extend(program.block.ops)
            case HostLoop(op=op, body=inner):
                ops.append(replace(op, body=_as_block(inner)))
            case Sort() | Compress() | Check():
                ops.append(part)
            case _:
                assert_never(part)
    return Block(tuple(ops), body.results)


def everything(body: PartsBody) -> Iterator[Part]:
    """Every part, those inside loops after their loop."""
    for part in body.parts:
        yield part
        if isinstance(part, HostLoop):
            yield from everything(part.body)


def straights(body: PartsBody) -> Iterator[Straight]:
    return (part for part in everything(body) if isinstance(part, Straight))


def counted(body: PartsBody) -> dict[Symbol, Program]:
    """The trip counts that sizes decide, though no dimension says so."""
    ops = (op for part in straights(body) for op in part.program.block.ops)
    return counts(ops, (p.trip for p in everything(body) if isinstance(p, HostLoop) and isinstance(p.trip, Symbol)))


# ── the printer ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_NOTES: dict[type, str] = {
    Sort: "sort, by kernels of its own",
    Compress: "compress, by kernels of its own; the host waits for the size",
    Check: "check, by the host",
}


def print_parts(split: Parts, *, operations: bool = True) -> str:
    """The parts as text: what each is, who runs it, and its operations as core. A program that is straight is one part."""
    whole = as_program(split)
    names, known, count = names_in(whole), counted(split.body), len(split.body.parts)
    lines = [f"{split.program.name}: {count} part{'' if count == 1 else 's'} on a GPU"]
    tables = [out for op in split.tables for out in op.outs]
    told = ", ".join(f"{names[v.symbol]} : {v.element.value}[{', '.join(map(str, v.shape))}]" for v in tables)
    lines += [f"  tables, put there once: {told}"] if told else []

    def visit(body: PartsBody, indent: str, number: str) -> None:
        for position, part in enumerate(body.parts, start=1):
            lines.append(f"{indent}{number}{position}. {title(part, names, known)}")
            below = indent + "     "
            match part:
                case Straight(program=program):
                    lines[-1] += f", gives {', '.join(names[s] for s in program.block.results)}"
                    ops = program.block.ops if operations else ()
                    lines.extend(below + line for op in ops for line in print_op(whole, op).splitlines())
                case HostLoop(op=op, body=inner):
                    lines.extend([below + print_op(whole, op).splitlines()[0]] if operations else [])
                    visit(inner, below if operations else indent + "  ", f"{number}{position}.")
                case Sort() | Compress() | Check():
                    lines.extend(below + line for line in print_op(whole, part).splitlines() if operations)
                case _:
                    assert_never(part)

    visit(split.body, "  ", "")
    return "\n".join(lines) + "\n"


def title(part: Part, names: Mapping[Symbol, str], known: Container[object]) -> str:
    """What a part is, in words; the host knows some trip counts."""
    match part:
        case Straight():
            return "straight"
        case HostLoop(op=op, trip=trip):
            steps = render(trip, lambda s: names.get(s, s.name)) if isinstance(trip, Dim) else f"{names.get(trip, trip.name)}[]"
            waits = "" if isinstance(trip, Dim) or trip in known else "; the host waits for the number of steps"
            waits += "; the host waits before each for whether there is one" if op.conditional else ""
            most = "at most " if op.conditional else ""
            return f"{'unfold' if op.stacked else 'loop'} of {most}{steps} steps, by the host{waits}"
        case Sort() | Compress() | Check():
            return _NOTES[type(part)]
        case _:
            assert_never(part)


# ── the verifier ────────────────────────────────────────────────────────────────────────────────────────────────────────


class PartsInvalid(FormInvalid):
    """Parts break a rule of their form: a defect of the pass that made them."""


def verify_parts(split: Parts) -> None:
    """Check the rules in the module's docstring; PartsInvalid names the one that is broken."""
    program = split.program
    shapes = {s for value in program.inputs for d in value.shape for s in d.variables}
    dims = {*program.explicit, *shapes, *program.contract.determined(), *program.contract.idle}
    try:
        verify(as_program(split))
    except CoreInvalid as error:
        raise PartsInvalid(f"the parts are no program of core: {error}") from None
    _verify(split.body, {value.symbol: value for value in split.rest.inputs}, dims)


def _verify(body: PartsBody, values: dict[Symbol, Value], dims: set[Symbol]) -> None:
    values, dims = dict(values), set(dims)
    for part in body.parts:
        match part:
            case Straight(program=program):
                _require(all(isinstance(op, Compute | Scan) for op in program.block.ops), "a straight part is not straight")
                _require(all(values.get(v.symbol) == v for v in program.inputs), "a straight part reads what is not there")
                _require(set(program.explicit) <= dims, "a straight part mentions a dimension that is not known")
                try:
                    verify(program)
                except CoreInvalid as error:
                    raise PartsInvalid(f"a straight part is no program of core: {error}") from None
                values.update((value.symbol, value) for value in part.results)
            case HostLoop(op=op, trip=trip, body=inner):
                _require(set(op.initial) <= values.keys(), "a loop begins with what is not there")
                if isinstance(trip, Dim):
                    _require(trip.variables <= dims, "a trip count mentions a dimension that is not known")
                else:
                    _require(trip in values and not values[trip].shape, "a trip count is no scalar that is there")
                _verify(inner, values | {state.symbol: state for state in op.states}, dims | {op.counter})
                _require(len(inner.results) == len(op.states), "a step does not give every state")
            case Sort() | Compress():
                _require(tensors_of(part) <= values.keys(), "an operation reads what is not there")
                dims |= {part.size} if isinstance(part, Compress) else set()
            case Check():
                _require(dimensions_of(part) <= dims, "a check mentions a dimension that is not known")
            case _:
                assert_never(part)
        if not isinstance(part, Straight):
            values.update((value.symbol, value) for value in outs_of(part.op if isinstance(part, HostLoop) else part))
    _require(set(body.results) <= values.keys(), "a result is not there")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise PartsInvalid(message)
