"""Plans: which operations of core become one kernel, and what passes between kernels through memory.

`fuse` makes a plan; every backend reads it. Nothing in it belongs to a machine: a backend decides how the rows of a nest are spread
over threads, which axis is vectorized, and what multiplies matrices.

Note [Nests]
    A *nest* is a sequence of core operations, its *steps*, that stand over common leading axes, its *rows*: for each row the steps
    run in order, and no row looks at another. So what one step makes and a later one reads at the same row (`m` and `z` of a
    softmax) need not reach memory: only values in `stored` do, the others live as long as their row. A value that has the rows'
    axes alone is a scalar of its row; one with further axes is a buffer of its row.

      softmax x = nest over b:   m = max k => x[b, k];   z = sum k => exp (x[b, k] - m[b]);   y[j] = exp (x[b, j] - m[b]) / z[b]

    A pointwise operation is a nest whose rows are all of its axes. A nest without rows is one row: a sum over everything. A
    *scatter* is a reduction that asks of everything whether it belongs to the row (`sum for i where ids[i] = b => x[i]`): a nest
    of one step, since it is best done in one pass for all rows.

Note [Slices]
    A scan of a long row may be made in slices, each a row of its own (see `spread`): all steps of such a nest have one axis more
    than the rows, and go through a slice along that. What they make has the shape of whole rows: it lies at the `place` of the
    element in its whole row, and is read there. A scan begins with what stands `before` its slice, by its first result: a read
    of each state, of the slices before this one together. Before the first slice, by the row axis `part`, there is nothing.

      y[i] = scan i => x[i] = nest over c:   y at c m + i' = scan i' < min m (n - c m) => x[c m + i'], begun with b[c - 1]

Rules (held by `verify.verify_plan`):
* what a kernel reads is an input, stands around the block, or is stored by a kernel before it;
* every step of a nest begins with the nest's rows, the same Symbols, and reads what a step before it made at its own row;
* what is stored is made, what the block gives is stored or stands around it, and an epilogue has its product's axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias, assert_never

from axon.backend.plan.footprint import elements_read
from axon.base.data import dataclass, replace
from axon.base.diagnostics import counted
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Axis, Block, Check, Compress, Compute, Loop, Op, Program, Read, Scan, Sort, Value
from axon.core.printer import names_in, print_op
from axon.core.scalar_facts import scatter
from axon.core.walk import nodes, scalars, tensors_of
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render


@dataclass(frozen=True, slots=True)
class Reason:
    """Why operations stand together, or do not. `{0}`, `{1}` … in the text are the tensors."""

    text: str
    tensors: tuple[Symbol, ...] = ()

    def worded(self, names: Mapping[Symbol, str]) -> str:
        return self.text.format(*(names.get(symbol, symbol.name) for symbol in self.tensors))


# How an axis is cut: not at all, so that each index may be a part, or into parts of several indices, or of many; or it has one
# index, and is no loop (see `split`).
PartKind = Literal["one", "whole", "each", "several", "many"]
Parting: TypeAlias = "tuple[PartKind, ...]"


@dataclass(frozen=True, slots=True)
class Divided:
    """What a nest of parts is made for: the results of one or several reductions, over which rows and extents these are, and how
    the extents are cut."""

    results: tuple[Symbol, ...]
    rows: tuple[Axis, ...]
    extents: tuple[Dim, ...]
    parting: Parting


@dataclass(frozen=True, slots=True)
class Slices:
    """What makes a nest's rows slices of longer ones. See Note [Slices]."""

    part: Symbol
    place: tuple[Dim, ...]
    before: tuple[tuple[Symbol, tuple[Read, ...]], ...]


NestFamily = Literal["map", "gather", "reduce", "scan", "scatter"]


@dataclass(frozen=True, slots=True)
class Nest:
    """Steps over common rows. See Note [Nests]. `reasons` say why the steps stand together and why no more do; `divided` is there
    of one that makes parts of a reduction, `slices` of one whose rows are slices of longer ones."""

    rows: tuple[Axis, ...]
    steps: tuple[Compute | Scan, ...]
    stored: tuple[Symbol, ...]
    reasons: tuple[Reason, ...] = ()
    divided: Divided | None = None
    slices: Slices | None = None

    def place(self, step: Compute | Scan) -> tuple[Dim, ...]:
        """Where in its results an element lies that a step makes."""
        return self.slices.place if self.slices is not None else tuple([Dim.of(axis.symbol) for axis in step.axes])

    @property
    def family(self) -> NestFamily:
        if any(isinstance(step, Scan) for step in self.steps):
            return "scan"
        if len(self.steps) == 1 and isinstance(self.steps[0], Compute) and scatter(self.steps[0]) is not None:
            return "scatter"
        if any(isinstance(step, Compute) and step.reduction is not None for step in self.steps):
            return "reduce"
        computed = (r for step in self.steps for s in scalars(step) for r in nodes(s) if isinstance(r, Read))
        return "gather" if any(not isinstance(s, Dim) for r in computed for s in r.subscripts) else "map"


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a contraction: a tensor read at affine subscripts over `axes`, and converted to `element`."""

    read: Read
    element: Element
    axes: frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class Contraction:
    """out = sum over `depth` of left * right: a matrix product, a batch of them, a convolution.

    An axis of the result is in `batch` if both operands vary along it, in `rows` if the left one alone does, in `columns` if the
    right one alone does; every axis of `depth` is in both. The operands' `element` is the product's; it accumulates in its
    accumulator. Where one of the extents `given` is not above 0, the sum is 0 (its condition says so). `epilogue` are pointwise
    operations over the same axes (same Symbols), in order; `stored` is what reaches memory.
    """

    op: Compute
    left: Factor
    right: Factor
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    depth: tuple[Axis, ...]
    epilogue: tuple[Compute, ...]
    stored: tuple[Symbol, ...]
    reasons: tuple[Reason, ...] = ()
    given: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Repeat:
    """A `loop` or an `unfold`; its body is planned like a program."""

    op: Loop
    body: Kernels
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Whole:
    """An operation that is a kernel of its own as it stands: sort and compress, and a check of dimensions."""

    op: Sort | Compress | Check
    reasons: tuple[Reason, ...] = ()


Kernel: TypeAlias = "Nest | Contraction | Repeat | Whole"


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels in the order in which they run, and what the block gives: symbols of values, or of what stands around it."""

    kernels: tuple[Kernel, ...]
    results: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A program's kernels. `program` is what was planned, for its inputs, contract and structure; `body` replaces its block."""

    program: Program
    body: Kernels


# ── what kernels read and write ─────────────────────────────────────────────────────────────────────────────────────────


def reads_of(kernel: Kernel) -> frozenset[Symbol]:
    """The tensors that a kernel needs from outside."""
    match kernel:
        case Nest(steps=steps):
            made = {out.symbol for step in steps for out in step.outs}
            before = () if kernel.slices is None else (read.tensor for _, reads in kernel.slices.before for read in reads)
            return frozenset().union(before, *map(tensors_of, steps)) - made
        case Contraction(op=op, epilogue=epilogue):
            made = {out.symbol for step in (op, *epilogue) for out in step.outs}
            return frozenset().union(*map(tensors_of, (op, *epilogue))) - made
        case Repeat(op=op, body=body):
            own = {op.counter, *(state.symbol for state in op.states)}
            trip = {n.tensor for n in nodes(op.trip) if isinstance(n, Read)}
            made = {symbol for inner in body.kernels for symbol in writes_of(inner)}
            inside = frozenset(body.results).union(*map(reads_of, body.kernels))
            return frozenset({*op.initial, *trip}) | (inside - made - own)
        case Whole(op=op):
            return tensors_of(op)
        case _:
            assert_never(kernel)


def values_of(kernel: Kernel) -> tuple[Value, ...]:
    """The tensors that a kernel leaves in memory."""
    match kernel:
        case Nest(steps=steps, stored=stored):
            return tuple(out for step in steps for out in step.outs if out.symbol in stored)
        case Contraction(op=op, epilogue=epilogue, stored=stored):
            return tuple(out for step in (op, *epilogue) for out in step.outs if out.symbol in stored)
        case Repeat(op=op):
            return op.outs
        case Whole(op=op):
            return (op.values, op.indices) if isinstance(op, Sort) else (op.out,) if isinstance(op, Compress) else ()
        case _:
            assert_never(kernel)


def writes_of(kernel: Kernel) -> tuple[Symbol, ...]:
    return tuple(value.symbol for value in values_of(kernel))


def values_in(plan: Plan) -> dict[Symbol, Value]:
    """Every tensor of a plan by its symbol, those inside kernels and loops included."""
    found = {value.symbol: value for value in plan.program.inputs}

    def visit(kernels: Kernels) -> None:
        for kernel in kernels.kernels:
            match kernel:
                case Nest(steps=steps):
                    found.update((out.symbol, out) for step in steps for out in step.outs)
                case Contraction(op=op, epilogue=epilogue):
                    found.update((out.symbol, out) for step in (op, *epilogue) for out in step.outs)
                case Repeat(op=op, body=body):
                    found.update((value.symbol, value) for value in (*op.outs, *op.states))
                    found[op.counter] = Value(op.counter, Element.I32, ())
                    visit(body)
                case Whole():
                    found.update((value.symbol, value) for value in values_of(kernel))
                case _:
                    assert_never(kernel)

    visit(plan.body)
    return found


def size_in_bytes(value: Value) -> Dim:
    """Of a tensor, as a dimension (`bool` takes a byte)."""
    size = Dim.of(max(1, value.element.bits // 8))
    for extent in value.shape:
        size = size * extent
    return size


def bytes_moved(kernel: Kernel, values: Mapping[Symbol, Value]) -> Dim:
    """What a kernel must move at least: each tensor that it needs read once, each that it stores written once.

    Of what `touched` finds to be a part, the part; of a loop one step.
    """
    total = Dim.of(0)
    match kernel:
        case Repeat(body=body):
            for inner in body.kernels:
                total = total + bytes_moved(inner, values)
        case _:
            for symbol in sorted(reads_of(kernel), key=lambda symbol: symbol.id):
                total = total + bytes_read(operations(kernel), values[symbol])
            for value in values_of(kernel):
                total = total + size_in_bytes(value)
    return total


def bytes_read(ops: Iterable[Op], value: Value) -> Dim:
    """What operations need of a tensor; see `touched`."""
    reads = [
        (op, node)
        for op in ops
        if isinstance(op, Compute | Scan)
        for scalar in scalars(op)
        for node in nodes(scalar)
        if isinstance(node, Read) and node.tensor == value.symbol
    ]
    return Dim.of(max(1, value.element.bits // 8)) * elements_read(reads, value) if reads else size_in_bytes(value)


# ── the printer ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def print_plan(plan: Plan, decide: Callable[[Kernel], str] = lambda kernel: "") -> str:
    """A plan as text: each kernel with its family, why it is one, the bytes it moves, and its operations as core.

    `decide` adds what a backend makes of a kernel.
    """
    values = values_in(plan)
    program = as_program(plan)
    names = names_in(program)
    lines = [f"{plan.program.name}: {counted(len(plan.body.kernels), 'kernel')}"]

    def visit(kernels: Kernels, indent: str, number: str) -> None:
        for position, kernel in enumerate(kernels.kernels, start=1):
            facts = [title(kernel), *_moves(kernel, values, names), *filter(None, [decide(kernel)])]
            lines.append(f"{indent}{number}{position}. {'; '.join(facts)}")
            stored = ", ".join(names[symbol] for symbol in writes_of(kernel))
            lines.extend([f"{indent}   stores {stored}"] if stored and isinstance(kernel, Nest | Contraction) else [])
            lines.extend(f"{indent}   - {reason.worded(names)}" for reason in kernel.reasons)
            if isinstance(kernel, Repeat):
                lines.append(f"{indent}     {print_op(program, kernel.op).splitlines()[0]}")
                visit(kernel.body, indent + "     ", f"{number}{position}.")
            else:
                lines.extend(f"{indent}     {line}" for op in operations(kernel) for line in print_op(program, op).splitlines())

    visit(plan.body, "  ", "")
    return "\n".join(lines) + "\n"


def operations(kernel: Nest | Contraction | Whole) -> tuple[Compute | Scan | Sort | Compress | Check, ...]:
    """The core operations of a kernel, in order."""
    match kernel:
        case Nest(steps=steps):
            return steps
        case Contraction(op=op, epilogue=epilogue):
            return (op, *epilogue)
        case Whole(op=op):
            return (op,)
        case _:
            assert_never(kernel)


def title(kernel: Kernel) -> str:
    """What a kernel is, and over which axes."""
    match kernel:
        case Nest(rows=rows):
            return f"{kernel.family} over {_axes(rows)}" if rows else kernel.family
        case Contraction(rows=rows, columns=columns, depth=depth, batch=batch):
            parts = [("batch", batch), ("rows", rows), ("columns", columns), ("depth", depth)]
            return f"contract, {', '.join(f'{name} {_axes(axes)}' for name, axes in parts if axes)}"
        case Repeat(op=op):
            return "unfold" if op.stacked else "loop"
        case Whole(op=op):
            return type(op).__name__.lower()
        case _:
            assert_never(kernel)


def _axes(axes: tuple[Axis, ...]) -> str:
    names: list[str] = []
    for axis in axes:
        same = sum(a.symbol.name == axis.symbol.name for a in axes[: len(names)])
        names.append(axis.symbol.name + (str(same + 1) if same else ""))
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _moves(kernel: Kernel, values: Mapping[Symbol, Value], names: Mapping[Symbol, str]) -> list[str]:
    if isinstance(kernel, Whole) and isinstance(kernel.op, Check):
        return []
    moved = render(bytes_moved(kernel, values), lambda symbol: names.get(symbol, symbol.name))
    return [f"moves {moved} bytes{' a step' if isinstance(kernel, Repeat) else ''}"]


def as_program(plan: Plan) -> Program:
    """A program with the plan's operations in order, rows under common Symbols. The interpreter runs it: what the plan means."""

    def block(kernels: Kernels) -> Block:
        ops: list[Compute | Scan | Loop | Sort | Compress | Check] = []
        for kernel in kernels.kernels:
            if isinstance(kernel, Repeat):
                ops.append(replace(kernel.op, body=block(kernel.body)))
            else:
                ops.extend(operations(kernel))
        return Block(tuple(ops), kernels.results)

    return replace(plan.program, block=block(plan.body))


def kernels_in(kernels: Kernels) -> Iterator[Kernel]:
    """Every kernel, those inside loops after their loop."""
    for kernel in kernels.kernels:
        yield kernel
        if isinstance(kernel, Repeat):
            yield from kernels_in(kernel.body)
