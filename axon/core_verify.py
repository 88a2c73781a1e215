"""The rules of core, checked: what every pass may rely on and what lowering must produce.

`verify` raises `CoreInvalid` at the first rule that is broken, with the operation printed. It proves nothing about values: whether
a read stays inside its tensor is for the checker of the language and, at run time, for the interpreter to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, assert_never

from axon.core import (
    COMPARISONS,
    LOGIC,
    Axis,
    Binary,
    Bind,
    Block,
    Check,
    Compress,
    Compute,
    Const,
    Convert,
    Index,
    Leaf,
    Local,
    Loop,
    Monoid,
    Op,
    Program,
    Read,
    RecordOf,
    Scalar,
    Scan,
    Select,
    Sort,
    Structure,
    TupleOf,
    Unary,
    Value,
    element_of,
)
from axon.element import ANY, FLOAT, INT, NUM, Element
from axon.names import Symbol
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from collections.abc import Iterator


class CoreInvalid(Exception):
    """A program breaks a rule of core: a defect of the compiler, never of the user's source."""


_BOOL = frozenset({Element.BOOL})
_INDEX = frozenset({Element.I32, Element.I64})
_INT_RANGE = {
    Element.I64: range(-(2**63), 2**63),
    Element.I32: range(-(2**31), 2**31),
    Element.I8: range(-128, 128),
    Element.U8: range(256),
}

UNARY_ELEMENTS = {"neg": NUM, "abs": NUM, "sign": NUM, "not": _BOOL} | dict.fromkeys(
    ("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "floor", "ceil", "round"), FLOAT
)
BINARY_ELEMENTS = (
    dict.fromkeys(("add", "sub", "mul", "div", "mod", "pow", "max", "min"), NUM)
    | dict.fromkeys(COMPARISONS, ANY)
    | dict.fromkeys(LOGIC, _BOOL)
)
MONOID_ELEMENTS = {
    "sum": NUM, "prod": NUM, "max": NUM, "min": NUM, "any": _BOOL, "all": _BOOL, "argmax": NUM, "argmin": NUM,
}  # fmt: skip
RELATIONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


def verify(program: Program) -> None:
    """Check every rule of core's docstring; CoreInvalid names the rule and shows the operation."""
    _Verifier(program).program()


class _Verifier:
    """Walks a program in order. `tensors`, `dims` and `locals` are what is in scope; `defined` is every symbol met so far."""

    def __init__(self, source: Program) -> None:
        self.source = source
        self.op: Op | None = None
        self.defined: set[Symbol] = set()
        self.tensors: dict[Symbol, Value] = {}
        self.dims: set[Symbol] = set()
        self.locals: dict[Symbol, Element] = {}

    def require(self, condition: bool, message: str) -> None:
        if condition:
            return
        from axon.core_print import print_op

        where = f"in `{self.source.name}`" if self.op is None else f"in\n{print_op(self.source, self.op)}"
        raise CoreInvalid(f"{message}, {where}")

    # ── scopes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def define(self, symbol: Symbol) -> None:
        self.require(symbol not in self.defined, f"{symbol!r} is defined twice")
        self.defined.add(symbol)

    def define_value(self, value: Value) -> None:
        self.define(value.symbol)
        self.tensors[value.symbol] = value

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is introduced inside is out of scope afterwards."""
        saved = set(self.dims), dict(self.locals)
        yield
        self.dims, self.locals = saved

    def tensor(self, symbol: Symbol) -> Value:
        self.require(symbol in self.tensors, f"the tensor {symbol!r} is not in scope")
        return self.tensors[symbol]

    def dim(self, dim: Dim) -> None:
        unknown = sorted(map(repr, dim.variables - self.dims))
        self.require(not unknown, f"{', '.join(unknown)} of the dimension {dim} is not in scope")

    def domain(self, axes: tuple[Axis, ...]) -> None:
        """Axes whose extents do not mention one another: a box."""
        for axis in axes:
            self.dim(axis.extent)
        for axis in axes:
            self.define(axis.symbol)
            self.dims.add(axis.symbol)

    # ── programs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def program(self) -> None:
        source = self.source
        for symbol in source.explicit:
            self.define(symbol)
        self.dims.update(source.explicit)
        sizes = {symbol for value in source.inputs for dim in value.shape for symbol in dim.variables}
        for symbol in sorted(sizes - self.dims, key=lambda symbol: symbol.id):
            self.define(symbol)
        self.dims |= sizes
        for value in source.inputs:
            self.define_value(value)

        contract = source.contract
        self.require(contract.explicit == source.explicit, "the contract has other explicit dimensions")
        others = {*contract.determined(), *contract.idle} - self.dims  # that only facts mention, or nothing that is evaluated
        for symbol in sorted(others, key=lambda symbol: symbol.id):
            self.define(symbol)
        self.dims |= others
        bound = tuple(shape.dims for shape in contract.shapes)
        self.require(bound == tuple(value.shape for value in source.inputs), "the contract binds other shapes")
        for fact in contract.facts:
            self.dim(fact.relation.left)
            self.dim(fact.relation.right)

        leaves = [leaf for param in source.params for leaf in _leaves(param.structure)]
        self.require(sorted(leaves) == list(range(len(source.inputs))), "parameters do not use each input once")
        self.block(source.block)
        positions = range(len(source.block.results))
        self.require(all(leaf in positions for leaf in _leaves(source.result)), "a position of the result is out of range")

    def block(self, block: Block) -> None:
        outer = self.op
        for op in block.ops:
            self.op = op
            self.operation(op)
        self.op = outer
        for symbol in block.results:
            self.tensor(symbol)

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def operation(self, op: Op) -> None:
        """Check an operation, and bring what it defines into scope."""
        outs: tuple[Value, ...]
        match op:
            case Compute(outs=outs):
                self.compute(op)
            case Scan(outs=outs):
                self.scan(op)
            case Loop(outs=outs):
                self.loop(op)
            case Sort(values=values, indices=indices, input=input):
                source = self.tensor(input)
                outs = (values, indices)
                self.require(len(source.shape) >= 1, "a scalar is sorted")
                self.same(values, source.element, source.shape)
                self.same(indices, Element.I32, source.shape)
            case Compress(out=out, size=size, mask=mask):
                source = self.tensor(mask)
                outs = (out,)
                self.require(source.element is Element.BOOL and len(source.shape) == 1, "the mask is not a bool vector")
                self.define(size)
                self.dims.add(size)
                self.same(out, Element.I32, (Dim.of(size),))
            case Check(left=left, relation=relation, right=right, given=given):
                outs = ()
                for dim in (left, right, *(side for other in given for side in (other.left, other.right))):
                    self.dim(dim)
                self.require(relation in RELATIONS, f"unknown relation {relation!r}")
            case _:
                assert_never(op)
        for out in outs:
            for dim in out.shape:
                self.dim(dim)
            self.define_value(out)

    def same(self, value: Value, element: Element, shape: tuple[Dim, ...]) -> None:
        self.require(value.element is element, f"{value.symbol!r} should hold {element.value}")
        self.require(value.shape == shape, f"the shape of {value.symbol!r} should be ({', '.join(map(str, shape))})")

    def outputs(self, outs: tuple[Value, ...], elements: list[Element], shape: tuple[Dim, ...]) -> None:
        self.require(len(outs) == len(elements), f"{len(elements)} results for {len(outs)} values")
        for out, element in zip(outs, elements, strict=True):
            self.same(out, element, shape)

    def compute(self, op: Compute) -> None:
        shape = tuple(axis.extent for axis in op.axes)
        with self.scope():
            self.domain(op.axes)
            if op.reduction is None:
                elements = [self.scalar(body) for body in op.body]
            else:
                monoid = op.reduction.monoid
                self.require(len(op.reduction.axes) >= 1, "a reduction over no axes")
                units = self.units(monoid)
                if op.reduction.asked is not None:
                    self.expect(op.reduction.asked, _BOOL, "a reduction's `asked`")
                for axis in op.reduction.axes:
                    self.domain((axis,))
                if op.reduction.where is not None:
                    self.expect(op.reduction.where, _BOOL, "a reduction's `where`")
                elements = self.combined(monoid, units, op.body)
        self.require(len(op.outs) >= 1, "an operation without results")
        self.outputs(op.outs, elements, shape)

    def scan(self, op: Scan) -> None:
        shape = tuple(axis.extent for axis in op.axes)
        self.require(len(op.axes) >= 1, "a scan without an axis")
        self.require(op.monoid.kind not in ("argmax", "argmin"), f"a scan by {op.monoid.kind}")
        with self.scope():
            self.dim(op.axes[-1].extent)
            self.domain(op.axes[:-1])
            units = self.units(op.monoid)
            self.define(op.axes[-1].symbol)
            self.dims.add(op.axes[-1].symbol)
            elements = self.combined(op.monoid, units, op.body)
        self.outputs(op.outs, elements, shape)

    def units(self, monoid: Monoid) -> list[Element]:
        """Check what of a monoid stands outside the reduced axes; the elements of a custom one's units."""
        if monoid.kind != "custom":
            self.require(monoid.kind in MONOID_ELEMENTS, f"unknown monoid {monoid.kind!r}")
            empty = not (monoid.units or monoid.left or monoid.right or monoid.combine)
            self.require(empty, f"the named monoid {monoid.kind} has units, parameters or results")
            return []
        width = len(monoid.units)
        counts = {len(monoid.left), len(monoid.right), len(monoid.combine)}
        self.require(width >= 1 and counts == {width}, "a monoid's units, parameters and results differ in number")
        units = [self.scalar(unit) for unit in monoid.units]
        with self.scope():
            for symbols in (monoid.left, monoid.right):
                for symbol, element in zip(symbols, units, strict=True):
                    self.define(symbol)
                    self.locals[symbol] = element
            combined = [self.scalar(result) for result in monoid.combine]
        self.require(combined == units, "a monoid's results and units differ in element type")
        return units

    def combined(self, monoid: Monoid, units: list[Element], bodies: tuple[Scalar, ...]) -> list[Element]:
        """Check the bodies against the monoid; the elements of the operation's results."""
        elements = [self.scalar(body) for body in bodies]
        if monoid.kind == "custom":
            self.require(elements == units, "bodies and the monoid's units differ in number or element type")
            return elements
        arg = monoid.kind in ("argmax", "argmin")
        self.require(len(bodies) >= 2 if arg else len(bodies) == 1, f"{monoid.kind} of {len(bodies)} bodies")
        allowed = MONOID_ELEMENTS[monoid.kind]
        self.require(elements[0] in allowed, f"{monoid.kind} of {elements[0].value}")
        if arg:
            self.require(set(elements[1:]) == {Element.I32}, f"an index of {monoid.kind} is not i32")
            return elements[1:]
        return elements

    def loop(self, op: Loop) -> None:
        widths = {len(op.outs), len(op.initial), len(op.states), len(op.body.results)}
        self.require(len(widths) == 1, "a loop's results, initial values, states and steps differ in number")
        self.require(len(op.outs) >= 1, "a loop without states")
        for state, initial in zip(op.states, op.initial, strict=True):
            value = self.tensor(initial)
            self.same(state, value.element, value.shape)
        self.expect(op.trip, frozenset({Element.I32}), "the trip count")
        outside = dict(self.tensors)
        with self.scope():
            self.define_value(Value(op.counter, Element.I32, ()))
            self.dims.add(op.counter)
            for state in op.states:
                self.define_value(state)
            self.block(op.body)
            for state, result in zip(op.states, op.body.results, strict=True):
                value = self.tensor(result)
                fits = (value.element, value.shape) == (state.element, state.shape)
                self.require(fits, f"the step of {state.symbol!r} changes its type or shape")
        self.tensors = outside
        leading: tuple[Dim, ...] = ()
        if op.stacked:
            self.require(isinstance(op.trip, Index), "the trip count of an unfold is not an index")
            if isinstance(op.trip, Index):
                leading = (op.trip.dim,)
        for out, state in zip(op.outs, op.states, strict=True):
            self.same(out, state.element, leading + state.shape)

    # ── scalar expressions ──────────────────────────────────────────────────────────────────────────────────────────────

    def expect(self, scalar: Scalar, allowed: frozenset[Element], what: str) -> None:
        element = self.scalar(scalar)
        self.require(element in allowed, f"{what} is {element.value}")

    def scalar(self, scalar: Scalar) -> Element:
        """Check an expression; its element type."""
        match scalar:
            case Const(value=value, element=element):
                self.literal(value, element)
            case Index(dim=dim, element=element):
                self.require(element in _INDEX, f"an index of element type {element.value}")
                self.dim(dim)
            case Local(symbol=symbol, element=element):
                self.require(symbol in self.locals, f"the local {symbol!r} is not in scope")
                self.require(self.locals[symbol] is element, f"the local {symbol!r} holds {self.locals[symbol].value}")
            case Read():
                self.read(scalar)
            case Unary(op=op, operand=operand):
                self.require(op in UNARY_ELEMENTS, f"unknown operator {op!r}")
                self.expect(operand, UNARY_ELEMENTS[op], f"the operand of {op}")
            case Binary(op=op, left=left, right=right):
                self.require(op in BINARY_ELEMENTS, f"unknown operator {op!r}")
                self.expect(left, BINARY_ELEMENTS[op], f"the left operand of {op}")
                self.expect(right, frozenset({element_of(left)}), f"the right operand of {op}, unlike its left one,")
            case Select(condition=condition, then=then, otherwise=otherwise):
                self.expect(condition, _BOOL, "a condition")
                self.scalar(then)
                self.expect(otherwise, frozenset({element_of(then)}), "the second branch, unlike the first,")
            case Convert(operand=operand):
                self.scalar(operand)
            case Bind():
                self.bind(scalar)
            case _:
                assert_never(scalar)
        return element_of(scalar)

    def bind(self, scalar: Scalar) -> None:
        outer = self.locals
        self.locals = dict(outer)
        while isinstance(scalar, Bind):
            for symbol, value in scalar.bindings:
                element = self.scalar(value)
                self.define(symbol)
                self.locals[symbol] = element
            scalar = scalar.body
        self.scalar(scalar)
        self.locals = outer

    def read(self, read: Read) -> None:
        value = self.tensor(read.tensor)
        rank = len(value.shape)
        self.require(len(read.subscripts) == rank, f"{len(read.subscripts)} subscripts for {rank} dimensions")
        self.require(read.element is value.element, f"{value.symbol!r} holds {value.element.value}")
        for subscript in read.subscripts:
            if isinstance(subscript, Dim):
                self.dim(subscript)
            else:
                self.expect(subscript, _INDEX, "a subscript")
        if read.padding is not None:
            self.expect(read.padding, frozenset({value.element}), "the padding, unlike the tensor,")

    def literal(self, value: float | int | bool, element: Element) -> None:
        if element is Element.BOOL:
            fits = isinstance(value, bool)
        elif element in INT:
            fits = isinstance(value, int) and not isinstance(value, bool) and value in _INT_RANGE[element]
        else:
            fits = isinstance(value, float | int) and not isinstance(value, bool)
        self.require(fits, f"{value!r} is no {element.value}")


def _leaves(structure: Structure) -> Iterable[int]:
    match structure:
        case Leaf(position=position):
            yield position
        case TupleOf(items=items):
            for item in items:
                yield from _leaves(item)
        case RecordOf(fields=fields):
            for _, item in fields:
                yield from _leaves(item)
        case _:
            assert_never(structure)
