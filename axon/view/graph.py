"""A program's operations and kernels as cards in groups, and the tensors between them as edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, takewhile

from axon.backend import cost, families, plan
from axon.backend.fuse import fuse
from axon.backend.pipeline import tensors
from axon.backend.unsupported import Unsupported
from axon.core import Block, Compute, Leaf, Loop, Op, Program, RecordOf, Scan, Structure, TupleOf, Value
from axon.core_print import names_in, print_op
from axon.names import Symbol
from axon.shapes.dimension import Dim
from axon.source import Span


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
class Kernel:
    """A group of cards that run as one kernel, or a loop around kernels. `moved` in bytes, `flops`: None where neither is known."""

    key: str
    title: str
    moved: Dim | None
    flops: Dim | None
    items: tuple[Card | Kernel, ...]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """`whose` says for which machine these are the kernels. Edges go from a card to one that reads its tensor."""

    program: Program
    whose: str
    items: tuple[Card | Kernel, ...]
    edges: tuple[tuple[str, str, Value], ...]
    names: Mapping[Symbol, str]
    streams: tuple[families.Kernel, ...] = ()  # the GPU kernels, in the order of the groups


def graph(program: Program, target: str | None = None) -> Graph:
    """The graph of a program, grouped as its GPU kernels, if it has them (`target` "cuda"), else as the CPU's ("cpu").

    Raises AxonError if it is to be grouped for a GPU and cannot be.
    """
    if target != "cpu":
        try:
            return _gathered(_of_gpu(program, families.kernels(program)))
        except Unsupported:
            if target == "cuda":
                raise
    return _gathered(_of_plan(fuse(program)))


def kernels(items: tuple[Card | Kernel, ...]) -> Iterator[Kernel]:
    """Every kernel, those inside loops after their loop."""
    for item in items:
        if isinstance(item, Kernel):
            yield item
            yield from kernels(item.items)


@dataclass
class _Maker:
    program: Program  # that names come from
    names: Mapping[Symbol, str]
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
        text = "\n".join(print_op(self.program, op).splitlines())
        outs = _outs(op)
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


def _of_plan(made: plan.Plan) -> Graph:
    program = plan.as_program(made)
    names = names_in(program)
    maker = _Maker(program, names)
    values = plan.values_in(made)
    inputs = maker.inputs()

    def visit(body: plan.Kernels, number: str) -> list[Card | Kernel]:
        out: list[Card | Kernel] = []
        for position, kernel in enumerate(body.kernels, 1):
            key, title = f"{number}{position}", _family(kernel)
            reasons = tuple(reason.worded(names) for reason in kernel.reasons)
            if isinstance(kernel, plan.Repeat):
                states, end = maker.loop(kernel.op)
                items = [*states, *visit(kernel.body, f"{key}.")]
                for symbol in kernel.body.results:
                    maker.read(end, symbol)
                trip = print_op(program, kernel.op).splitlines()[0].rpartition(" for ")[2].removesuffix(" =>")
                flops = cost.flops(kernel.op)
                out.append(Kernel(f"k{key}", f"{title}, {trip}", None, flops, (*items, maker.made(end)), reasons))
            else:
                cards = tuple(maker.operation(op) for op in plan.operations(kernel))
                flops = cost.total(plan.operations(kernel))
                out.append(Kernel(f"k{key}", title, plan.bytes_moved(kernel, values), flops, cards, reasons))
        return out

    items = visit(made.body, "")
    results = maker.results(made.body.results)
    return Graph(program, "the CPU", (*inputs, *items, *results), tuple(maker.edges), names)


def _family(kernel: plan.Kernel) -> str:
    match kernel:
        case plan.Nest():
            return kernel.family
        case plan.Contraction():
            return "contract"
        case plan.Repeat(op=op):
            return "unfold" if op.stacked else "loop"
        case plan.Whole(op=op):
            return type(op).__name__.lower()


def _of_gpu(program: Program, made: tuple[families.Kernel, ...]) -> Graph:
    """The operations of a kernel for the tensor cores are what its results need of the program, back to what it reads; the others
    say which they are."""
    found = [(kernel, _operations(program, kernel)) for kernel in made]
    program = replace(program, block=Block(tuple(op for _, ops in found for op in ops), program.block.results))
    names = names_in(program)
    maker = _Maker(program, names)
    values = {v.symbol: v for v in program.inputs} | {o.symbol: o for op in program.block.ops for o in _outs(op)}
    inputs = maker.inputs()
    items: list[Card | Kernel] = []
    for number, (kernel, ops) in enumerate(found, 1):
        cards = tuple(maker.operation(op) for op in ops)
        if isinstance(kernel, plan.Nest):
            reasons = tuple(reason.worded(names) for reason in kernel.reasons)
            moved = plan.bytes_moved(kernel, values)
            items.append(Kernel(f"k{number}", kernel.family, moved, cost.total(ops), cards, reasons))
        else:
            moved = Dim.of(0)
            for value in tensors(kernel, tuple(values.values())):
                moved = moved + plan.size_in_bytes(value)
            items.append(Kernel(f"k{number}", type(kernel).__name__.lower(), moved, cost.total(ops), cards))
    results = maker.results(program.block.results)
    return Graph(program, "a Hopper GPU", (*inputs, *items, *results), tuple(maker.edges), maker.names, made)


def _operations(program: Program, kernel: families.Kernel) -> tuple[Op, ...]:
    if isinstance(kernel, plan.Nest):
        return kernel.steps
    by_out = {out.symbol: op for op in program.block.ops for out in _outs(op)}
    values = (*program.inputs, *(out for op in program.block.ops for out in _outs(op)))
    stores = {result.value.symbol for result in kernel.results}
    reads = {value.symbol for value in tensors(kernel, values)} - stores
    members: set[Symbol] = set()
    work = list(stores)
    while work:
        symbol = work.pop()
        if symbol in members or symbol in reads or symbol not in by_out:
            continue
        members.add(symbol)
        work += _read_by(by_out[symbol])
    return tuple(op for op in program.block.ops if any(out.symbol in members for out in _outs(op)))


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _gathered(graph: Graph) -> Graph:
    """With one card for all tensors of a record or tuple that the same kernels read: a layer of a model has dozens."""
    paths = dict(_paths(graph.program))
    within = {card.key: item.key for item in graph.items for card in _cards(item)}
    readers: dict[str, set[str]] = {}
    for a, b, _ in graph.edges:
        readers.setdefault(a, set()).add(within[b])
    groups: dict[object, list[Card]] = {}
    for item in graph.items:
        if isinstance(item, Card) and item.kind == "input":
            parameter = paths[item.made[0].symbol][0]
            groups.setdefault((parameter, frozenset(readers.get(item.key, ()))), []).append(item)
    cards: dict[str, Card] = {}  # what stands for an input
    for found in groups.values():
        if len(found) > 1:
            steps = zip(*(paths[card.made[0].symbol] for card in found), strict=False)
            title = ".".join(same[0] for same in takewhile(lambda names: len(set(names)) == 1, steps))
            made = tuple(value for card in found for value in card.made)
            one = Card(found[0].key, "input", title, "", made, labels=tuple(card.title for card in found))
            cards |= dict.fromkeys((card.key for card in found), one)
    items = tuple(dict.fromkeys(cards.get(item.key, item) if isinstance(item, Card) else item for item in graph.items))
    edges = tuple((cards[a].key if a in cards else a, b, value) for a, b, value in graph.edges)
    return replace(graph, items=items, edges=edges)


def _cards(item: Card | Kernel) -> Iterator[Card]:
    if isinstance(item, Card):
        yield item
    else:
        for inner in item.items:
            yield from _cards(inner)


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


def _outs(op: Op) -> tuple[Value, ...]:
    match op:
        case Compute() | Scan() | Loop():
            return op.outs
        case _:
            return plan.values_of(plan.Whole(op))


def _read_by(op: Op) -> frozenset[Symbol]:
    if isinstance(op, Loop):
        return frozenset(op.initial)
    return plan.tensors_of(op)
