"""What both modes ask of operations: which results move with what derivatives are taken by, and copies under names of their own."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, assert_never, cast

from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.gradients.scalars import Active, moves
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
    identity,
)
from axon.core.operands import recast, with_tensors
from axon.core.scalar_facts import freshened, mapped, relabelled, substitute
from axon.core.walk import all_axes, needs_of, outs_of, rewrite, tensors_of
from axon.shapes.dimension import Dim

_NONE: Mapping[Symbol, Any] = MappingProxyType({})


class NoDerivative(Exception):
    """What has no derivative that is known here, in words, where it stands, and what to do."""

    def __init__(self, what: str, span: Span | None, help: str) -> None:
        super().__init__(what)
        self.what, self.span, self.help = what, span, help


def at(value: Value, places: Sequence[Axis | Dim]) -> Read:
    """An element of a tensor."""
    return Read(value.symbol, tuple(p if isinstance(p, Dim) else Dim.of(p.symbol) for p in places), value.element)


def derivative(of: Value) -> str:
    """What the derivative of a tensor is called."""
    return f"d_{of.symbol.name.removeprefix('d_')}"


def axes_of(value: Value) -> tuple[Axis, ...]:
    """An axis for each dimension of a tensor."""
    return tuple(Axis(fresh(f"i{n}" if len(value.shape) > 1 else "i"), extent) for n, extent in enumerate(value.shape))


# ── what moves ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def active_outs(op: Op, active: Mapping[Symbol, Value], stopped: frozenset[Symbol]) -> tuple[Value, ...]:
    """The results of an operation that have a derivative by what is active."""
    if not any(symbol in active for symbol in tensors_of(op)):
        return ()
    match op:
        case Compute(outs=outs, reduction=reduction, body=body) if reduction is None or reduction.monoid.kind in ("sum", "prod"):
            given = _given(active)
            found = tuple(out for out, b in zip(outs, body, strict=True) if moves(b, given))
        case Compute(outs=outs, body=body) | Scan(outs=outs, body=body):
            given = _given(active)
            found = tuple(out for out in outs if out.element.is_float) if any(moves(b, given) for b in body) else ()
        case Loop():
            found = tuple(op.outs[n] for n in moving_states(op, active, stopped))
        case Sort(values=values, input=input):
            found = (values,) if input in active else ()
        case Compress() | Check():
            found = ()
        case _:
            assert_never(op)
    return tuple(out for out in found if out.symbol not in stopped)


def _given(active: Mapping[Symbol, Value]) -> Active:
    return Active(active.keys())


def moving_states(op: Loop, active: Mapping[Symbol, Value], stopped: frozenset[Symbol]) -> tuple[int, ...]:
    """Which states of a loop move: those that begin so, and those that a step makes so."""
    moving = {n for n, s in enumerate(op.initial) if s in active and op.states[n].element.is_float}
    while True:
        own = {op.states[n].symbol: op.states[n] for n in moving}
        inside = ChainMap(own, cast("MutableMapping[Symbol, Value]", active))  # which is looked up, and not copied
        for inner in op.body.ops:
            own |= {out.symbol: out for out in active_outs(inner, inside, stopped)}
        found = moving | {n for n, s in enumerate(op.body.results) if s in inside and op.states[n].element.is_float}
        if found == moving:
            return tuple(sorted(moving))
        moving = found


def free(op: Loop, active: Mapping[Symbol, Value]) -> tuple[Symbol, ...]:
    """What is active and read in a loop's body from outside."""
    named = frozenset(op.body.results).union(*map(tensors_of, op.body.ops))
    return tuple(sorted((s for s in named if s in active), key=lambda s: s.id))


# ── rules of the program's own ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class UserRule:
    """A function with a rule for its adjoints, `with_vjp f rule x`: what it was given and gives, what it made in between, and the
    operations of the rule, from `seeds`, the adjoints of the results, to `adjoints`, those of what was given."""

    by: tuple[Value, ...]
    results: tuple[Value, ...]
    inside: frozenset[Symbol]
    seeds: tuple[Value, ...]
    ops: tuple[Op, ...]
    adjoints: tuple[Value, ...]
    span: Span

    @property
    def mentions(self) -> frozenset[Symbol]:
        """The tensors that it speaks of."""
        own = frozenset(value.symbol for value in (*self.by, *self.results, *self.seeds, *self.adjoints))
        return own.union(self.inside, *map(tensors_of, self.ops))

    def at(self, names: Mapping[Symbol, Symbol]) -> UserRule:
        """The rule in a copy of what it stands in."""

        def values(old: tuple[Value, ...]) -> tuple[Value, ...]:
            return tuple(replace(v, symbol=names.get(v.symbol, v.symbol)) for v in old)

        inside = frozenset(names.get(s, s) for s in self.inside)
        ops = tuple(with_tensors(op, names) for op in self.ops)
        return replace(self, by=values(self.by), results=values(self.results), inside=inside, ops=ops)


def rule_of(op: Op, rules: Sequence[UserRule]) -> UserRule | None:
    """The rule of the function that an operation is a part of."""
    return next((r for r in rules if any(out.symbol in r.inside for out in outs_of(op))), None)


def through_rules(op: Op, active: Mapping[Symbol, Value], rules: Sequence[UserRule]) -> tuple[Value, ...] | None:
    """The results of an operation of a function with a rule that have a derivative; None for other operations. Raises NoDerivative
    where such a function reads what is active and was not given to it."""
    rule, made = rule_of(op, rules), {out.symbol for out in outs_of(op)}
    if rule is None:
        return None
    given = {value.symbol for value in rule.by}
    if any(s in active and s not in given for s in tensors_of(op)):
        raise NoDerivative(
            "what a function with a rule of its own captures", rule.span, "give it as a part of the argument, a tuple"
        )
    moves_ = any(value.symbol in active for value in rule.by)
    return tuple(value for value in rule.results if value.symbol in made and value.element.is_float and moves_)


# ── copies ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def apart(op: Compute) -> Compute:
    """The operation over axes of its own, with `let` names and parameters of its own; its results are the same."""
    made = _apart(op)
    assert isinstance(made, Compute)
    return made


def scan_apart(op: Scan) -> Scan:
    made = _apart(op)
    assert isinstance(made, Scan)
    return made


def _apart(op: Compute | Scan, tensors: Mapping[Symbol, Symbol] = _NONE, dims: dict[Symbol, Dim] | None = None) -> Compute | Scan:
    """The operation over axes of its own, and over other tensors and sizes; the axes join the sizes."""
    reduction = op.reduction if isinstance(op, Compute) else None
    names = {a.symbol: fresh(a.symbol.name) for a in all_axes(op)}
    dims = {} if dims is None else dims
    dims |= {old: Dim.of(new) for old, new in names.items()}

    def own(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple([Axis(names[a.symbol], a.extent.substitute(dims)) for a in axes])

    op = mapped(op, lambda scalar: recast(scalar, tensors, dims))
    if isinstance(op, Scan):
        return mapped(replace(op, axes=own(op.axes), monoid=_own_parameters(op.monoid)), freshened)
    if reduction is not None:
        assert op.reduction is not None
        monoid = _own_parameters(op.reduction.monoid)
        reduction = Reduction(own(reduction.axes), monoid, op.reduction.where, op.reduction.asked)
    return mapped(Compute(op.outs, own(op.axes), reduction, op.body, op.span), freshened)


def _own_parameters(monoid: Monoid) -> Monoid:
    if not monoid.left and not monoid.right:
        return monoid
    names = {s: fresh(s.name) for s in (*monoid.left, *monoid.right)}
    left, right = (tuple(names[s] for s in side) for side in (monoid.left, monoid.right))
    return replace(monoid, left=left, right=right, combine=tuple(relabelled(c, names) for c in monoid.combine))


def duplicate(ops: Sequence[Op], names: Mapping[Symbol, Symbol]) -> tuple[tuple[Op, ...], dict[Symbol, Symbol]]:
    """Operations once more, under names of their own; `names` are what others call what they read."""
    known, sizes = dict(names), {s: Dim.of(new) for s, new in names.items()}
    made: list[Op] = []
    for op in ops:
        new, own = _duplicate(op, known, sizes)
        made.append(new)
        known |= own
        sizes |= {s: Dim.of(name) for s, name in own.items()}
    return tuple(made), known


def _duplicate(op: Op, known: Mapping[Symbol, Symbol], sizes: dict[Symbol, Dim]) -> tuple[Op, dict[Symbol, Symbol]]:
    """The operation under names of its own, and these; `sizes` are the known names as sizes."""
    own: dict[Symbol, Symbol] = {}
    if isinstance(op, Compute | Scan):
        op = _apart(op, known, sizes)
    elif isinstance(op, Loop):
        initial, trip = tuple([known.get(s, s) for s in op.initial]), recast(op.trip, known, _NONE)
        states = tuple(_renamed(state, sizes) for state in op.states)
        inner = {**known, **{old.symbol: new.symbol for old, new in zip(op.states, states, strict=True)}}
        inner[op.counter] = fresh(op.counter.name)
        body, inner = duplicate(op.body.ops, inner)
        own |= inner
        results = tuple(inner.get(s, s) for s in op.body.results)
        op = replace(op, initial=initial, states=states, counter=inner[op.counter], trip=trip, body=Block(body, results))
    else:
        op = with_tensors(op, known)
    outs = tuple(_renamed(out, sizes) for out in outs_of(op))
    own |= {old.symbol: new.symbol for old, new in zip(outs_of(op), outs, strict=True)}
    match op:
        case Compute(axes=axes, reduction=reduction, body=bodies, span=span):
            return Compute(outs, axes, reduction, bodies, span), own
        case Scan() | Loop():
            return replace(op, outs=outs), own
        case Sort():
            return replace(op, values=outs[0], indices=outs[1]), own
        case Compress(size=size):
            own[size] = fresh(size.name)
            return replace(op, out=replace(outs[0], shape=(Dim.of(own[size]),)), size=own[size]), own
        case Check():
            return replace(op, left=op.left.substitute(sizes), right=op.right.substitute(sizes)), own
        case _:
            assert_never(op)


def _renamed(value: Value, sizes: Mapping[Symbol, Dim]) -> Value:
    return Value(fresh(value.symbol.name), value.element, tuple(d.substitute(sizes) for d in value.shape))


def _sized(op: Compute | Scan, sizes: Mapping[Symbol, Dim]) -> Compute | Scan:
    """The operation with other sizes."""
    if not sizes:
        return op
    op = mapped(op, lambda scalar: substitute(scalar, sizes))
    op = replace(op, axes=tuple(Axis(a.symbol, a.extent.substitute(sizes)) for a in op.axes))
    if isinstance(op, Compute) and op.reduction is not None:
        axes = tuple(Axis(a.symbol, a.extent.substitute(sizes)) for a in op.reduction.axes)
        op = replace(op, reduction=replace(op.reduction, axes=axes))
    return op


def with_counter(ops: Sequence[Op], counter: Symbol, step: Dim) -> tuple[Op, ...]:
    """Operations of a loop's body, copied before, at another step than its counter."""
    return tuple([_with_counter(op, counter, step) if counter in needs_of(op) else op for op in ops])


def _with_counter(op: Op, counter: Symbol, step: Dim) -> Op:
    sizes = {counter: step}

    def visit(node: Scalar) -> Scalar | None:
        return Index(step, node.element) if isinstance(node, Read) and node.tensor == counter else None

    match op:
        case Compute() | Scan():
            return _sized(mapped(op, lambda scalar: rewrite(scalar, visit)), sizes)
        case Loop():
            body = Block(with_counter(op.body.ops, counter, step), op.body.results)
            return replace(op, trip=substitute(rewrite(op.trip, visit), sizes), body=body)
        case Check():
            return replace(op, left=op.left.substitute(sizes), right=op.right.substitute(sizes))
        case _:
            return op


# ── functions that combine ──────────────────────────────────────────────────────────────────────────────────────────────

_OPERATORS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


def as_function(monoid: Monoid, element: Element) -> Monoid:
    """A named monoid as one that says how it combines."""
    if monoid.kind == "custom":
        return monoid
    left, right = fresh("a"), fresh("b")
    combine = Binary(_OPERATORS[monoid.kind], Local(left, element), Local(right, element))
    return Monoid("custom", (Const(identity(monoid.kind, element), element),), (left,), (right,), (combine,))


def applied(monoid: Monoid, left: Sequence[Scalar], right: Sequence[Scalar]) -> list[Scalar]:
    """What a custom monoid makes of two values. They may be used several times, so they are names or cost little, or get a name."""
    found: list[Scalar] = []
    for combine in monoid.combine:
        names = {s: fresh(s.name) for s in (*monoid.left, *monoid.right)}
        bindings = tuple(zip(names.values(), (*left, *right), strict=True))
        found.append(Bind(tuple((s, freshened(v)) for s, v in bindings), freshened(relabelled(combine, names))))
    return found


def affine(size: int, element: Element) -> Monoid:
    """Composition of maps x -> A x + b, each as A's rows and b: the left one comes first."""

    def names(side: str) -> tuple[Symbol, ...]:
        return tuple(fresh(f"{side}{n}") for n in range(size * size + size))

    left, right = names("a"), names("b")
    one, two = ([Local(s, element) for s in side] for side in (left, right))

    def product(row: int, column: Sequence[Scalar]) -> Scalar:
        total: Scalar = Binary("mul", two[row * size], column[0])
        for k in range(1, size):
            total = Binary("add", total, Binary("mul", two[row * size + k], column[k]))
        return total

    last = size * size
    matrix = [product(i, [one[k * size + j] for k in range(size)]) for i in range(size) for j in range(size)]
    vector = [Binary("add", product(i, one[last:]), two[last + i]) for i in range(size)]
    units = [Const(float(i == j), element) for i in range(size) for j in range(size)] + [Const(0.0, element)] * size
    return Monoid("custom", tuple(units), left, right, (*matrix, *vector))


def flattened(reduction: Reduction) -> tuple[Axis, dict[Symbol, Dim]]:
    """One axis for all reduced ones, whose extents depend on nothing, and what these are by it."""
    if len(reduction.axes) == 1:
        return reduction.axes[0], {}
    total = Dim.of(1)
    for axis in reduction.axes:
        total = total * axis.extent
    flat = Axis(fresh("t"), total)
    rest, image = Dim.of(flat.symbol), {}
    for n, axis in reversed(list(enumerate(reduction.axes))):
        image[axis.symbol] = rest % axis.extent if n else rest
        rest = rest // axis.extent
    return flat, image
