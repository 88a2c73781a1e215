"""A program's operations and kernels as cards in groups, and the tensors between them as edges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import assert_never

from axon.backend.cpu.plan import planned
from axon.backend.gpu.build.recipe import tensors
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.steps import Ordered
from axon.backend.gpu.runtime.ways import Planned
from axon.backend.gpu.tile import families
from axon.backend.gpu.tile.schedule_file import NOTHING, Schedule
from axon.backend.plan import ir as plan
from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core import operation_count
from axon.core.ir import Block, Check, Compress, Index, Leaf, Loop, Op, Program, RecordOf, Sort, Structure, TupleOf, Value
from axon.core.passes import parts
from axon.core.printer import names_in, print_op
from axon.core.walk import outs_of, tensors_of
from axon.shapes.dimension import Dim
from axon.tools.view.sizes import FormulaSymbols, sizes_of

CPU = "the CPU"
_EMPTY = re.compile(r"(?<=\w)\[\]")  # the subscripts of a scalar


@dataclass(frozen=True, slots=True)
class Card:
    """A node. `text` is its core; `made` are the tensors that leave it, and `labels` their names where the title is not enough."""

    key: str
    kind: str  # input, operation, state, result
    title: str
    text: str
    made: tuple[Value, ...]
    span: Span | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCards:
    """A group of cards that run as one kernel, or a loop around kernels. `moved` in bytes, `flops`: None where neither is known."""

    key: str
    title: str
    moved: Dim | None
    flops: Dim | None
    items: tuple[Card | KernelCards, ...]
    reasons: tuple[str, ...] = ()
    each: str = ""  # of what the costs are, if not of all: " in each step" of a loop whose steps only data know


@dataclass(frozen=True, slots=True)
class Graph:
    """`whose` says for which machine these are the kernels. Edges go from a card to one that reads its tensor."""

    program: Program
    whose: str
    items: tuple[Card | KernelCards, ...]
    edges: tuple[tuple[str, str, Value], ...]
    names: Mapping[Symbol, str]
    sizes: FormulaSymbols
    tiled: tuple[str, ...] = ()  # the numbers of the kernels that have roles, in order


def graph(
    program: Program,
    target: str | None,
    sizes: Mapping[Symbol, int],
    schedule: Schedule = NOTHING,
    chip: Target = HOPPER,
) -> Graph:
    """The graph of a program, grouped as the GPU kernels that serve at these sizes, if it has them (`target` "cuda"), else as the
    CPU's ("cpu").

    Raises AxonError if it is to be grouped for a GPU and cannot be.
    """
    if target != "cpu":
        try:
            return _gathered(_of_gpu(program, sizes, schedule, chip))
        except Unsupported:
            if target == "cuda":
                raise
    return _gathered(_of_plan(planned(program)[0]))


def as_written(program: Program) -> Program:
    """The program with the fields of its parameters called as the source calls them: `p.w`, and not `p_w`, as kernels must."""
    paths = dict(_paths(program))
    inputs = tuple(replace(v, symbol=replace(v.symbol, name=".".join(paths[v.symbol]))) for v in program.inputs)
    return replace(program, inputs=inputs)


def kernels(items: tuple[Card | KernelCards, ...]) -> Iterator[KernelCards]:
    """Every kernel, those inside loops after their loop."""
    for item in items:
        if isinstance(item, KernelCards):
            yield item
            yield from kernels(item.items)


@dataclass
class _Maker:
    program: Program  # that names come from
    names: Mapping[Symbol, str]
    sizes: FormulaSymbols
    edges: list[tuple[str, str, Value]] = field(default_factory=list)
    makers: dict[Symbol, tuple[str, Value]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def inputs(self) -> list[Card]:
        cards = []
        for value in self.program.inputs:
            card = Card(f"n{next(self.numbers)}", "input", self.names[value.symbol], "", (value,))
            cards.append(self.made(card))
        return cards

    def results(self, symbols: tuple[Symbol, ...]) -> list[Card]:
        cards = []
        for number, symbol in enumerate(symbols, 1):
            title = "result" if len(symbols) == 1 else f"result {number}"
            card = Card(f"n{next(self.numbers)}", "result", title, self.names[symbol], ())
            self.read(card, symbol)
            cards.append(card)
        return cards

    def operation(self, op: Op) -> Card:
        text = _EMPTY.sub("", print_op(self.program, op, self.sizes.short))
        outs = outs_of(op)
        title = ", ".join(self.names[out.symbol] for out in outs) or type(op).__name__.lower()
        card = Card(f"n{next(self.numbers)}", "operation", title, text, outs, op.span)
        for symbol in sorted(_read_by(op), key=lambda s: s.id):
            self.read(card, symbol)
        return self.made(card)

    def made(self, card: Card) -> Card:
        for value in card.made:
            self.makers[value.symbol] = card.key, value
        return card

    def read(self, card: Card, symbol: Symbol) -> None:
        if symbol in self.makers:
            key, value = self.makers[symbol]
            self.edges.append((key, card.key, value))

    def loop(self, op: Loop) -> tuple[list[Card], Card]:
        """The states at the beginning of a step, and what the loop gives."""
        states = []
        for state, initial in zip(op.states, op.initial, strict=True):
            card = Card(f"n{next(self.numbers)}", "state", self.names[state.symbol], "as the step begins", (state,))
            self.read(card, initial)
            states.append(self.made(card))
        title = ", ".join(self.names[out.symbol] for out in op.outs)
        how = "every state after its step" if op.stacked else "the last states"
        return states, Card(f"n{next(self.numbers)}", "state", title, how, op.outs, op.span)


@dataclass(frozen=True, slots=True)
class _Step:
    """What becomes a group: a kernel and its operations, or a loop around `inside`."""

    title: str
    ops: tuple[Op, ...]
    reasons: tuple[plan.Reason, ...] = ()
    reads: tuple[Symbol, ...] = ()
    stores: tuple[Symbol, ...] = ()
    inside: tuple[_Step, ...] = ()
    has_roles: bool = False


def _of_plan(made: plan.Plan) -> Graph:
    def steps(body: plan.Kernels) -> Iterator[_Step]:
        for kernel in body.kernels:
            reads = tuple(sorted(plan.reads_of(kernel), key=lambda symbol: symbol.id))
            if isinstance(kernel, plan.Repeat):
                yield _loop(kernel.op, tuple(steps(kernel.body)), kernel.body.results, kernel.reasons)
            else:
                ops = plan.operations(kernel)
                yield _Step(_family(kernel), ops, kernel.reasons, reads, plan.writes_of(kernel))

    return _drawn(made.program, CPU, tuple(steps(made.body)), made.body.results)


def _family(kernel: plan.Nest | plan.Contraction | plan.Whole) -> str:
    match kernel:
        case plan.Nest():
            return kernel.family
        case plan.Contraction():
            return "contract"
        case plan.Whole(op=op):
            return type(op).__name__.lower()


def _of_gpu(program: Program, sizes: Mapping[Symbol, int], schedule: Schedule, chip: Target) -> Graph:
    """As the GPU runs it: see `parts`."""
    stepped = Ordered(program, chip, schedule).at(sizes)
    split = stepped.parts
    served = IdentityMap((part, executable.serving({}, own)) for part, executable, own in stepped.foreseen(sizes))

    def steps(body: parts.PartsBody) -> Iterator[_Step]:
        for part in body.parts:
            match part:
                case parts.Straight():
                    here = served[part].planned
                    yield from _assembled(here, [_kernel(here.program, kernel) for kernel in here.kernels])
                case parts.HostLoop(op=op, body=repeated):
                    yield _loop(op, tuple(steps(repeated)), repeated.results, ())
                case Sort() | Compress() | Check():
                    made = plan.Whole(part)
                    read = tuple(sorted(plan.reads_of(made), key=lambda s: s.id))
                    yield _Step(type(part).__name__.lower(), (part,), (), read, plan.writes_of(made))
                case _:
                    assert_never(part)

    return _drawn(
        split.rest,
        f"{'an' if chip.generation[0] in 'AEIOU' else 'a'} {chip.generation} GPU",
        tuple(steps(split.body)),
        split.body.results,
    )


def _kernel(program: Program, kernel: families.Kernel) -> _Step:
    """Of one for the tensor cores, the operations are what its results need of the program, back to what it reads."""
    if isinstance(kernel, plan.Nest):
        reads = tuple(sorted(plan.reads_of(kernel), key=lambda symbol: symbol.id))
        return _Step(kernel.family, kernel.steps, kernel.reasons, reads, kernel.stored)
    by_out = {out.symbol: op for op in program.block.ops for out in outs_of(op)}
    values = (*program.inputs, *(out for op in program.block.ops for out in outs_of(op)))
    stores = tuple(result.value.symbol for result in kernel.results)
    shown = {view.value.symbol: view.source for view in families.views_of(kernel)}
    used = dict.fromkeys(shown.get(value.symbol, value.symbol) for value in tensors(kernel, values))
    reads = tuple(symbol for symbol in used if symbol not in stores)
    members: set[Symbol] = set()
    work = list(stores)
    while work:
        symbol = work.pop()
        if symbol in members or symbol in reads or symbol not in by_out:
            continue
        members.add(symbol)
        work += _read_by(by_out[symbol])
    ops = tuple(op for op in program.block.ops if any(out.symbol in members for out in outs_of(op)))
    return _Step(families.family_of(kernel), ops, (), reads, stores, has_roles=True)


def _assembled(planned: Planned, steps: Iterable[_Step]) -> Iterator[_Step]:
    """Kernels, the last that stores a part of something with what that is a part of."""
    made, waiting = set[Symbol](), list(planned.assembled)
    for step in steps:
        made |= {*step.stores}
        done = [a for a in waiting if made >= {part.value.symbol for part in a.parts}]
        waiting = [a for a in waiting if a not in done]
        why = tuple(plan.Reason("{0} is where its parts are stored: no kernel puts it together", (a.whole.symbol,)) for a in done)
        yield replace(step, ops=(*step.ops, *(a.step for a in done)), reasons=(*step.reasons, *why))


def _loop(op: Loop, inside: tuple[_Step, ...], results: tuple[Symbol, ...], reasons: tuple[plan.Reason, ...]) -> _Step:
    body = Block(tuple(op for step in inside for op in step.ops), results)
    return _Step("unfold" if op.stacked else "loop", (replace(op, body=body),), reasons, inside=inside)


def _drawn(program: Program, whose: str, steps: tuple[_Step, ...], results: tuple[Symbol, ...]) -> Graph:
    """The graph of a program whose operations are now those of the steps."""
    program = replace(program, block=Block(tuple(op for step in steps for op in step.ops), results))
    names = names_in(program)
    sizes = sizes_of(program.block.ops, names)
    maker = _Maker(program, names, sizes)
    values = {value.symbol: value for value in _values(program)}
    inputs = maker.inputs()
    tiled: list[str] = []

    def visit(steps: tuple[_Step, ...], number: str) -> list[Card | KernelCards]:
        out: list[Card | KernelCards] = []
        for position, step in enumerate(steps, 1):
            key, flops = f"{number}{position}", operation_count.total(step.ops)
            reasons = tuple(reason.worded(names) for reason in step.reasons)
            first = step.ops[0]
            if isinstance(first, Loop):
                states, end = maker.loop(first)
                items = [*states, *visit(step.inside, f"{key}.")]
                for symbol in first.body.results:
                    maker.read(end, symbol)
                trip = print_op(program, first).splitlines()[0].rpartition(" for ")[2].removesuffix(" =>")
                trip = _EMPTY.sub("", trip)
                each = "" if isinstance(first.trip, Index) else " in each step"
                out.append(KernelCards(f"k{key}", f"{step.title}, {trip}", None, flops, (*items, maker.made(end)), reasons, each))
            else:
                cards = tuple(map(maker.operation, step.ops))
                moved = Dim.of(0)
                for symbol in step.reads:
                    moved = moved + plan.bytes_read(step.ops, values[symbol])
                for symbol in step.stores:
                    moved = moved + plan.size_in_bytes(values[symbol])
                if step.has_roles:
                    tiled.append(key)
                out.append(KernelCards(f"k{key}", step.title, moved, flops, cards, reasons))
        return out

    items = visit(steps, "")
    ends = maker.results(program.block.results)
    return Graph(program, whose, (*inputs, *items, *ends), tuple(maker.edges), names, sizes, tuple(tiled))


def _values(program: Program) -> Iterator[Value]:
    """Every tensor of a program."""
    yield from program.inputs
    blocks = [program.block]
    while blocks:
        for op in blocks.pop().ops:
            yield from outs_of(op)
            if isinstance(op, Loop):
                yield from op.states
                yield Value(op.counter, Element.I32, ())
                blocks.append(op.body)


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _gathered(graph: Graph) -> Graph:
    """With one card for all tensors of a record or tuple: a layer of a model has dozens."""
    paths = dict(_paths(graph.program))
    groups: dict[object, list[Card]] = {}
    for item in graph.items:
        if isinstance(item, Card) and item.kind == "input":
            path = paths.get(item.made[0].symbol, ())  # a table is of no parameter
            groups.setdefault(tuple(path[:-1]) or item.key, []).append(item)
    cards: dict[str, Card] = {}  # what stands for an input
    for found in groups.values():
        if len(found) > 1:
            title = ".".join(paths[found[0].made[0].symbol][:-1])
            made = tuple(value for card in found for value in card.made)
            one = Card(found[0].key, "input", title, "", made, labels=tuple(card.title for card in found))
            cards |= dict.fromkeys((card.key for card in found), one)
    items = tuple(dict.fromkeys(cards.get(item.key, item) if isinstance(item, Card) else item for item in graph.items))
    edges = tuple((cards[a].key if a in cards else a, b, value) for a, b, value in graph.edges)
    return replace(graph, items=items, edges=edges)


def _paths(program: Program) -> Iterator[tuple[Symbol, list[str]]]:
    """Where in the parameters each input is: `p`, `blocks`, `norm`."""

    def visit(structure: Structure, path: list[str]) -> Iterator[tuple[Symbol, list[str]]]:
        match structure:
            case Leaf(position):
                yield program.inputs[position].symbol, path
            case TupleOf(items):
                for number, inner in enumerate(items, 1):
                    yield from visit(inner, [*path, str(number)])
            case RecordOf(fields):
                for name, inner in fields:
                    yield from visit(inner, [*path, name])

    for parameter in program.params:
        yield from visit(parameter.structure, [parameter.name])


def _read_by(op: Op) -> frozenset[Symbol]:
    if isinstance(op, Loop):
        return frozenset(op.initial)
    return tensors_of(op)
