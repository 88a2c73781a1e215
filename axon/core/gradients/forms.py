"""What an operation is up to the names in it, and operations under other names: a derivative that was made of one is one of all
others of its form.

A long program does the same again and again: a layer, a step of a loop, a window. What differs from one time to the next are names.
So `Reverse` keeps what it made of an operation under the operation's form, in which numbers stand for symbols, and gives it to
the next of the same form under that one's names. Nothing depends on symbols but by which are the same, what they are called and
which of them are older; the form holds all three.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import (
    Axis,
    Binary,
    Bind,
    Block,
    Check,
    Compress,
    Compute,
    Const,
    Index,
    Local,
    Loop,
    Monoid,
    Op,
    Read,
    Reduction,
    Scalar,
    Scan,
    Sort,
    Value,
)
from axon.core.walk import all_axes, children, is_curved, needs_of, nodes, outs_of, scalars, tensors_of, with_children
from axon.shapes.dimension import Dim

_AGE = attrgetter("id")


class Form:
    """Symbols by the numbers in the order in which they were met, and what was met with these numbers in place of them."""

    def __init__(self) -> None:
        self.numbers: dict[Symbol, int] = {}
        self.found: list[Hashable] = []
        self.spans: list[Span | None] = []  # where operations stand, which is no part of the form
        self.sizes: set[Symbol] = set()  # variables of Dims
        self.own: set[Symbol] = set()  # what the operations define

    @property
    def key(self) -> Hashable:
        """Equal for two forms only if they are of the same, up to symbols that correspond and are called the same, and of which the
        same are older. Sizes that stand in both for themselves are added by who knows which these are."""
        return tuple(self.found), self.ages, tuple([symbol.name for symbol in self.numbers])

    @property
    def ages(self) -> tuple[int, ...]:
        """The numbers of symbols, those of the older first."""
        symbols = list(self.numbers)
        return tuple(sorted(range(len(symbols)), key=lambda n: symbols[n].id))

    def symbol(self, symbol: Symbol) -> int:
        return self.numbers.setdefault(symbol, len(self.numbers))

    def dim(self, dim: Dim) -> Hashable:
        if (variable := dim.symbol) is not None:
            self.sizes.add(variable)
            return self.symbol(variable)
        for variable in dim.pattern[1]:
            self.sizes.add(variable)
            self.symbol(variable)
        return dim.numbered(self.numbers)

    def value(self, value: Value) -> Hashable:
        return self.symbol(value.symbol), value.element._value_, *[self.dim(d) for d in value.shape]

    def scalar(self, scalar: Scalar) -> Hashable:
        if isinstance(scalar, Read):
            subscripts = [self.dim(s) if isinstance(s, Dim) else (self.scalar(s),) for s in scalar.subscripts]
            padding = None if scalar.padding is None else self.scalar(scalar.padding)
            return "read", self.symbol(scalar.tensor), scalar.element._value_, padding, scalar.checked, *subscripts
        if isinstance(scalar, Binary):
            return scalar.op, self.scalar(scalar.left), self.scalar(scalar.right)
        if isinstance(scalar, Const):
            return scalar
        if isinstance(scalar, Index):
            return "index", self.dim(scalar.dim), scalar.element._value_
        if isinstance(scalar, Local):
            return "local", self.symbol(scalar.symbol), scalar.element._value_
        parts = [self.scalar(child) for child in children(scalar)]
        if isinstance(scalar, Bind):
            self.own.update([symbol for symbol, _ in scalar.bindings])
            return "let", *[self.symbol(symbol) for symbol, _ in scalar.bindings], *parts
        return scalar.__class__.__name__, getattr(scalar, "op", None), getattr(scalar, "element", None), *parts

    def op(self, op: Op) -> bool:
        """Add an operation. False for one that has no form here."""
        found: list[Hashable] = [op.__class__.__name__]
        self.spans.append(op.span)
        match op:
            case Compute() | Scan():
                axes = all_axes(op)
                self.own.update([axis.symbol for axis in axes])
                found += [(self.symbol(axis.symbol), self.dim(axis.extent)) for axis in axes]
                monoid = op.monoid if isinstance(op, Scan) else None if op.reduction is None else op.reduction.monoid
                if monoid is not None:
                    self.own.update((*monoid.left, *monoid.right))
                    found += [monoid.kind, *map(self.symbol, (*monoid.left, *monoid.right))]
                if isinstance(op, Compute) and op.reduction is not None:
                    found += [len(op.axes), op.reduction.where is None, op.reduction.asked is None]
                found += map(self.scalar, scalars(op))
            case Loop():
                found += (op.stacked, op.conditional, self.scalar(op.trip), self.symbol(op.counter))
                found += map(self.symbol, op.initial)
                found += map(self.value, op.states)
                self.own.update((op.counter, *[state.symbol for state in op.states]))
                self.found.append(tuple(found))
                if not all(map(self.op, op.body.ops)):
                    return False
                found = [*map(self.symbol, op.body.results)]
            case Sort():
                found.append(self.symbol(op.input))
            case Compress() | Check():
                return False
        outs = outs_of(op)
        self.own.update([out.symbol for out in outs])
        found += map(self.value, outs)
        self.found.append(tuple(found))
        return True


def places(old: Form, new: Form) -> dict[Span | None, Span | None] | None:
    """Where what stands at the places of one form stands in another of the same; None where one place is several there. What
    stands nowhere does so in both."""
    pairs = [(None, None), *zip(old.spans, new.spans, strict=True)]
    found = dict[Span | None, Span | None](pairs)
    return None if any(found[before] != now for before, now in pairs) else found


def defined(ops: Iterable[Op]) -> Iterator[Symbol]:
    """What operations define, also inside: tensors, indices, names, sizes."""
    for op in ops:
        yield from (out.symbol for out in outs_of(op))
        match op:
            case Compute() | Scan():
                yield from (axis.symbol for axis in all_axes(op))
                monoid = op.monoid if isinstance(op, Scan) else None if op.reduction is None else op.reduction.monoid
                if monoid is not None:
                    yield from (*monoid.left, *monoid.right)
                for scalar in scalars(op):
                    yield from (symbol for node in nodes(scalar) if isinstance(node, Bind) for symbol, _ in node.bindings)
            case Loop():
                yield op.counter
                yield from (state.symbol for state in op.states)
                yield from defined(op.body.ops)
            case Compress():
                yield op.size


def counted(ops: Iterable[Op]) -> Iterator[Symbol]:
    """What operations define that may stand in Dims, also inside: indices, counters, sizes."""
    for op in ops:
        if isinstance(op, Compute | Scan):
            yield from (axis.symbol for axis in all_axes(op))
        elif isinstance(op, Loop):
            yield op.counter
            yield from counted(op.body.ops)
        elif isinstance(op, Compress):
            yield op.size


class Renaming:
    """Operations under other names, which are in the same order of age; and at other places of a text."""

    def __init__(
        self, names: Mapping[Symbol, Symbol], variables: Iterable[Symbol], spans: Mapping[Span | None, Span | None]
    ) -> None:
        """`variables` are those that stand in Dims."""
        self.names, self.spans = names, spans
        self.dims = {old: Dim.of(names[old]) for old in variables}

    def symbols(self, symbols: Iterable[Symbol]) -> tuple[Symbol, ...]:
        names = self.names
        return tuple([names.get(symbol, symbol) for symbol in symbols])

    def dim(self, dim: Dim) -> Dim:
        return dim.substitute(self.dims)

    def axes(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple([Axis(self.names.get(a.symbol, a.symbol), a.extent.substitute(self.dims)) for a in axes])

    def value(self, value: Value) -> Value:
        shape = tuple([d.substitute(self.dims) for d in value.shape])
        return Value(self.names.get(value.symbol, value.symbol), value.element, shape)

    def scalar(self, scalar: Scalar) -> Scalar:
        if isinstance(scalar, Read):
            subscripts = tuple([s.substitute(self.dims) if isinstance(s, Dim) else self.scalar(s) for s in scalar.subscripts])
            padding = None if scalar.padding is None else self.scalar(scalar.padding)
            return Read(self.names.get(scalar.tensor, scalar.tensor), subscripts, scalar.element, padding, scalar.checked)
        if isinstance(scalar, Binary):
            return Binary(scalar.op, self.scalar(scalar.left), self.scalar(scalar.right))
        if isinstance(scalar, Index):
            return Index(scalar.dim.substitute(self.dims), scalar.element)
        if isinstance(scalar, Local):
            return Local(self.names.get(scalar.symbol, scalar.symbol), scalar.element)
        if isinstance(scalar, Bind):
            bindings = tuple([(self.names.get(symbol, symbol), self.scalar(value)) for symbol, value in scalar.bindings])
            return Bind(bindings, self.scalar(scalar.body))
        old = children(scalar)
        return with_children(scalar, [self.scalar(child) for child in old]) if old else scalar

    def monoid(self, monoid: Monoid) -> Monoid:
        if monoid.kind != "custom":
            return monoid
        units, combine = (tuple(map(self.scalar, each)) for each in (monoid.units, monoid.combine))
        return Monoid(monoid.kind, units, self.symbols(monoid.left), self.symbols(monoid.right), combine)

    def op(self, op: Op) -> Op:
        made = self._op(op)
        object.__setattr__(made, "tensors_", frozenset(self.symbols(tensors_of(op))))
        object.__setattr__(made, "needs_", frozenset(self.symbols(needs_of(op))))
        if isinstance(op, Compute | Scan):
            object.__setattr__(made, "curved_", is_curved(op))
        return made

    def _op(self, op: Op) -> Op:
        span = self.spans.get(op.span, op.span)
        match op:
            case Compute():
                reduction, body = op.reduction, tuple([self.scalar(scalar) for scalar in op.body])
                if reduction is not None:
                    where, asked = (None if c is None else self.scalar(c) for c in (reduction.where, reduction.asked))
                    reduction = Reduction(self.axes(reduction.axes), self.monoid(reduction.monoid), where, asked)
                return Compute(tuple(map(self.value, op.outs)), self.axes(op.axes), reduction, body, span)
            case Scan():
                outs, body = tuple(map(self.value, op.outs)), tuple([self.scalar(scalar) for scalar in op.body])
                return Scan(outs, self.axes(op.axes), self.monoid(op.monoid), body, span)
            case Loop():
                return Loop(
                    outs=tuple(map(self.value, op.outs)),
                    initial=self.symbols(op.initial),
                    states=tuple(map(self.value, op.states)),
                    counter=self.names.get(op.counter, op.counter),
                    trip=self.scalar(op.trip),
                    body=Block(tuple(map(self.op, op.body.ops)), self.symbols(op.body.results)),
                    stacked=op.stacked,
                    conditional=op.conditional,
                    span=span,
                )
            case Sort():
                return Sort(self.value(op.values), self.value(op.indices), self.names.get(op.input, op.input), span)
            case Compress():
                size, mask = self.symbols((op.size, op.mask))
                return Compress(self.value(op.out), size, mask, span)
            case Check():
                raise AssertionError("has no form")


def by_age(symbols: Iterable[Symbol]) -> tuple[Symbol, ...]:
    """Symbols, the older ones first."""
    return tuple(sorted(symbols, key=_AGE))
