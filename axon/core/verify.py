"""The rules of core, checked: what every pass may rely on and what lowering must produce.

`verify` raises `CoreInvalid` at the first rule that is broken, with the operation printed. It proves nothing about values: whether
a read stays inside its tensor is for the checker of the language and, at run time, for the interpreter to say. So it is quick, and
runs wherever core is made (see `passes`): it looks at every node once, and words nothing that is right.

Note [Shared expressions]
    An expression is a tree, or a few of its parts are shared. Only from LARGE nodes of one operation on is it worth to remember
    what has been looked at. What introduces a `let` is never remembered: met twice, it defines a symbol twice. What was found in
    the scope of a `let` is forgotten with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import NoReturn, assert_never

from axon.base.element import ANY, BOOL, INT, NUM, Element
from axon.base.functions import BINARY, REDUCTIONS, UNARY
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.base.passes import FormInvalid
from axon.core.ir import (
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
)
from axon.core.walk import outs_of
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render


class CoreInvalid(FormInvalid):
    """A program breaks a rule of core: a defect of the compiler, never of the user's source."""


_I32 = frozenset({Element.I32})
_INDEX = frozenset({Element.I32, Element.I64})
_TO_BOOL = COMPARISONS | LOGIC
_INT_RANGE = {element: range(element.limits[0], element.limits[1] + 1) for element in INT}

UNARY_ELEMENTS = {**UNARY, "neg": NUM, "not": BOOL}
BINARY_ELEMENTS = (
    BINARY | dict.fromkeys(("add", "sub", "mul", "div", "mod"), NUM) | dict.fromkeys(COMPARISONS, ANY) | dict.fromkeys(LOGIC, BOOL)
)
LARGE = 1_000  # nodes of one operation
RELATIONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


def verify(program: Program) -> None:
    """Check every rule of core's docstring, in a time that is a small part of making the program.

    CoreInvalid names the rule and shows the operation.
    """
    Scope(program).program()


def verify_rewritten(made: Program, given: Program, *_: object) -> None:
    """Check what a pass made of a program, or of a piece of one, whose contract is that of the whole: the rules of core, and that
    it takes and gives what it took and gave: the same inputs, results of the same element types and shapes.
    """
    if made.block.results == given.block.results and made.inputs is given.inputs and unchanged(made.block.ops, given.block.ops):
        return
    verifier = Scope(made)
    same = (made.explicit, made.params, made.contract, made.result) == (given.explicit, given.params, given.contract, given.result)
    verifier.require(same, "the pass has changed the parameters, the contract or the structure of the result")
    verifier.require(made.inputs == given.inputs, "the pass has changed the inputs")
    verifier.piece()
    verifier.gives(made.block.results, given)


def unchanged(made: Sequence[object], given: Sequence[object]) -> bool:
    """Whether a pass has left everything as it was: then it has been verified where it was made."""
    return len(made) == len(given) and all(map(is_, made, given))


def verify_piece(program: Program) -> None:
    """Check the operations of a part of a program: its contract and parameters are the whole program's, its inputs its own."""
    Scope(program).piece()


class Scope:
    """What stands around an expression or an operation. `tensors`, `dims` and `locals` are in scope; `defined` is every symbol met
    so far. A verifier of a form that holds operations of core is one, too."""

    invalid: type[FormInvalid] = CoreInvalid

    def __init__(self, source: Program) -> None:
        self.source = source
        self.op: Op | None = None
        self.defined: set[Symbol] = set()
        self.tensors: dict[Symbol, Value] = {}
        self.dims: set[Symbol] = set()
        self.locals: dict[Symbol, Element] = {}
        self.walked = 0  # nodes of the operation
        self.seen: IdentityMap[Scalar, Element] | None = None  # see Note [Shared expressions]

    def fail(self, message: str) -> NoReturn:
        from axon.core.printer import print_op

        if self.op is None or self.walked >= LARGE:  # as text it might have no end
            where = f"in `{self.source.name}`"
        else:
            where = f"in\n{print_op(self.source, self.op)}"
        raise self.invalid(f"{message}, {where}")

    def require(self, condition: bool, message: str) -> None:
        """For messages that cost nothing."""
        if not condition:
            self.fail(message)

    # ── scopes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def define(self, symbol: Symbol) -> None:
        if symbol in self.defined:
            self.fail(f"{symbol!r} is defined twice")
        self.defined.add(symbol)

    def introduce(self, symbol: Symbol) -> None:
        """An axis, or what stands for a value inside an expression."""
        self.define(symbol)

    def define_value(self, value: Value) -> None:
        self.define(value.symbol)
        self.tensors[value.symbol] = value

    def tensor(self, symbol: Symbol) -> Value:
        value = self.tensors.get(symbol)
        if value is None:
            self.fail(f"the tensor {symbol!r} is not in scope")
        return value

    def dim(self, dim: Dim) -> None:
        if not dim.variables <= self.dims:
            unknown = sorted(map(repr, dim.variables - self.dims))
            self.fail(f"{', '.join(unknown)} of the dimension {render(dim)} is not in scope")

    def domain(self, axes: tuple[Axis, ...]) -> None:
        """Axes whose extents do not mention one another: a box."""
        for axis in axes:
            self.dim(axis.extent)
        for axis in axes:
            self.introduce(axis.symbol)
            self.dims.add(axis.symbol)

    def leave(self, axes: tuple[Axis, ...]) -> None:
        """The axes of an operation are out of scope after it."""
        self.dims.difference_update([axis.symbol for axis in axes])

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
        self.known()
        positions = range(len(source.block.results))
        self.require(all(leaf in positions for leaf in _leaves(source.result)), "a position of the result is out of range")

    def piece(self) -> None:
        """The operations of a program whose contract need not be of its inputs."""
        self.outside()
        self.block(self.source.block)
        self.known()

    def known(self) -> None:
        """What inputs are known to hold has their types and shapes, or is at as many places as they have dimensions; a pass may
        have done away with what makes it."""
        inputs = {value.symbol for value in self.source.inputs}
        for known in self.source.known:
            self.require(known.holds in inputs, "what is known is held by no input")
            holds = self.tensor(known.holds)
            self.require(len(known.places) in (0, len(holds.shape)), "what is known is held at places of another rank")
            self.require(all(p.variables <= self.dims | {*known.axes} for p in known.places), "what is known is held at no place")
            if known.made in self.tensors:
                made = self.tensor(known.made)
                self.require(len(known.axes) == len(made.shape) * bool(known.places), "what is known has another rank")
                self.same(made, holds.element, made.shape if known.places else holds.shape)

    def outside(self) -> None:
        """Bring into scope what stands before all operations, taken to be right."""
        source, contract = self.source, self.source.contract
        self.dims.update(source.explicit, contract.variables, contract.idle)
        for value in source.inputs:
            for dim in value.shape:
                self.dims |= dim.variables
        self.defined |= self.dims
        for value in source.inputs:
            self.define_value(value)

    def block(self, block: Block) -> None:
        outer = self.op
        for op in block.ops:
            self.op = op
            self.walked, self.seen = 0, None
            self.operation(op)
        self.op = outer
        for symbol in block.results:
            self.tensor(symbol)

    def gives(self, results: tuple[Symbol, ...], given: Program) -> None:
        """What a pass gives for the results of a program has their types and shapes."""
        self.op = None
        before = {value.symbol: value for value in given.inputs}
        for op in given.block.ops:
            before.update([(out.symbol, out) for out in outs_of(op)])
        if len(results) != len(given.block.results):
            self.fail("the pass has changed the number of results")
        for now, then in zip(results, given.block.results, strict=True):
            value, wanted = self.tensor(now), before[then]
            if (value.element, value.shape) != (wanted.element, wanted.shape):
                self.fail(f"the pass has changed the type or the shape of the result {then!r}")

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
                if relation not in RELATIONS:
                    self.fail(f"unknown relation {relation!r}")
            case _:
                assert_never(op)
        for out in outs:
            for dim in out.shape:
                self.dim(dim)
            self.define_value(out)

    def same(self, value: Value, element: Element, shape: tuple[Dim, ...]) -> None:
        if value.element is not element:
            self.fail(f"{value.symbol!r} should hold {element.value}")
        if value.shape != shape:
            self.fail(f"the shape of {value.symbol!r} should be ({', '.join(map(render, shape))})")

    def outputs(self, outs: tuple[Value, ...], elements: list[Element], shape: tuple[Dim, ...]) -> None:
        if len(outs) != len(elements):
            self.fail(f"{len(elements)} results for {len(outs)} values")
        for out, element in zip(outs, elements, strict=True):
            self.same(out, element, shape)

    def compute(self, op: Compute) -> None:
        shape = tuple([axis.extent for axis in op.axes])
        self.domain(op.axes)
        if op.reduction is None:
            elements = [self.scalar(body) for body in op.body]
        else:
            monoid = op.reduction.monoid
            self.require(len(op.reduction.axes) >= 1, "a reduction over no axes")
            units = self.units(monoid)
            if op.reduction.asked is not None:
                self.expect(op.reduction.asked, BOOL, "a reduction's `asked`")
            for axis in op.reduction.axes:
                self.domain((axis,))
            if op.reduction.where is not None:
                self.expect(op.reduction.where, BOOL, "a reduction's `where`")
            elements = self.combined(monoid, units, op.body)
            self.leave(op.reduction.axes)
        self.leave(op.axes)
        self.require(len(op.outs) >= 1, "an operation without results")
        self.outputs(op.outs, elements, shape)

    def scan(self, op: Scan) -> None:
        shape = tuple([axis.extent for axis in op.axes])
        self.require(len(op.axes) >= 1, "a scan without an axis")
        self.require(op.monoid.kind not in ("argmax", "argmin"), f"a scan by {op.monoid.kind}")
        self.dim(op.axes[-1].extent)
        self.domain(op.axes[:-1])
        units = self.units(op.monoid)
        self.introduce(op.axes[-1].symbol)
        self.dims.add(op.axes[-1].symbol)
        elements = self.combined(op.monoid, units, op.body)
        self.leave(op.axes)
        self.outputs(op.outs, elements, shape)

    def units(self, monoid: Monoid) -> list[Element]:
        """Check what of a monoid stands outside the reduced axes; the elements of a custom one's units."""
        if monoid.kind != "custom":
            if monoid.kind not in REDUCTIONS:
                self.fail(f"unknown monoid {monoid.kind!r}")
            if monoid.units or monoid.left or monoid.right or monoid.combine:
                self.fail(f"the named monoid {monoid.kind} has units, parameters or results")
            return []
        width = len(monoid.units)
        counts = {len(monoid.left), len(monoid.right), len(monoid.combine)}
        self.require(width >= 1 and counts == {width}, "a monoid's units, parameters and results differ in number")
        units = [self.scalar(unit) for unit in monoid.units]
        for symbols in (monoid.left, monoid.right):
            for symbol, element in zip(symbols, units, strict=True):
                self.introduce(symbol)
                self.locals[symbol] = element
        combined = [self.scalar(result) for result in monoid.combine]
        self.forget((*monoid.left, *monoid.right))
        self.require(combined == units, "a monoid's results and units differ in element type")
        return units

    def combined(self, monoid: Monoid, units: list[Element], bodies: tuple[Scalar, ...]) -> list[Element]:
        """Check the bodies against the monoid; the elements of the operation's results."""
        elements = [self.scalar(body) for body in bodies]
        if monoid.kind == "custom":
            self.require(elements == units, "bodies and the monoid's units differ in number or element type")
            return elements
        arg = monoid.kind in ("argmax", "argmin")
        if not (len(bodies) >= 2 if arg else len(bodies) == 1):
            self.fail(f"{monoid.kind} of {len(bodies)} bodies")
        if elements[0] not in REDUCTIONS[monoid.kind]:
            self.fail(f"{monoid.kind} of {elements[0].value}")
        if arg:
            if set(elements[1:]) != {Element.I32}:
                self.fail(f"an index of {monoid.kind} is not i32")
            return elements[1:]
        return elements

    def loop(self, op: Loop) -> None:
        widths = {len(op.outs), len(op.initial), len(op.states), len(op.body.results)}
        self.require(len(widths) == 1, "a loop's results, initial values, states and steps differ in number")
        self.require(len(op.outs) >= 1, "a loop without states")
        for state, initial in zip(op.states, op.initial, strict=True):
            value = self.tensor(initial)
            self.same(state, value.element, value.shape)
        self.expect(op.trip, _I32, "the trip count")
        if op.conditional:
            last = op.states[-1]
            self.require((last.element, last.shape) == (Element.BOOL, ()), "a loop's condition is no bool of rank 0")
            self.require(not op.stacked, "an unfold with a condition")
        tensors, dims = len(self.tensors), set(self.dims)
        self.begin(op)
        self.step(op)
        for state, result in zip(op.states, op.body.results, strict=True):
            value = self.tensor(result)
            if (value.element, value.shape) != (state.element, state.shape):
                self.fail(f"the step of {state.symbol!r} changes its type or shape")
        while len(self.tensors) > tensors:  # what the body defined came last, and replaced nothing: see `define`
            self.tensors.popitem()
        self.dims = dims
        leading: tuple[Dim, ...] = ()
        if op.stacked:
            self.require(isinstance(op.trip, Index), "the trip count of an unfold is not an index")
            if isinstance(op.trip, Index):
                leading = (op.trip.dim,)
        for out, state in zip(op.outs, op.states, strict=True):
            self.same(out, state.element, leading + state.shape)

    def begin(self, op: Loop) -> None:
        self.define_value(Value(op.counter, Element.I32, ()))
        self.dims.add(op.counter)
        for state in op.states:
            self.define_value(state)

    def step(self, op: Loop) -> None:
        """Check the body of a loop."""
        self.block(op.body)

    # ── scalar expressions ──────────────────────────────────────────────────────────────────────────────────────────────

    def expect(self, scalar: Scalar, allowed: frozenset[Element], what: str) -> None:
        element = self.scalar(scalar)
        if element not in allowed:
            self.fail(f"{what} is {element.value}")

    def scalar(self, scalar: Scalar) -> Element:
        """Check an expression; its element type."""
        self.walked += 1
        if self.walked < LARGE:
            return self.node(scalar)
        if self.seen is None:
            self.seen = IdentityMap()
        element = self.seen.get(scalar)
        if element is None:
            before = len(self.defined)
            element = self.node(scalar)
            if len(self.defined) == before:
                self.seen[scalar] = element
        return element

    def node(self, scalar: Scalar) -> Element:
        match scalar:
            case Read():
                self.read(scalar)
                return scalar.element
            case Binary():
                return self.binary(scalar)
            case Const():
                self.literal(scalar.value, scalar.element)
                return scalar.element
            case Index():
                if scalar.element not in _INDEX:
                    self.fail(f"an index of element type {scalar.element.value}")
                self.dim(scalar.dim)
                return scalar.element
            case Local():
                element = self.locals.get(scalar.symbol)
                if element is None:
                    self.fail(f"the local {scalar.symbol!r} is not in scope")
                if element is not scalar.element:
                    self.fail(f"the local {scalar.symbol!r} holds {element.value}")
                return element
            case Unary():
                allowed = UNARY_ELEMENTS.get(scalar.op)
                if allowed is None:
                    self.fail(f"unknown operator {scalar.op!r}")
                element = self.scalar(scalar.operand)
                if element not in allowed:
                    self.fail(f"the operand of {scalar.op} is {element.value}")
                return element
            case Convert():
                self.scalar(scalar.operand)
                return scalar.element
            case Select():
                self.expect(scalar.condition, BOOL, "a condition")
                element = self.scalar(scalar.then)
                other = self.scalar(scalar.otherwise)
                if other is not element:
                    self.fail(f"the second branch, unlike the first, is {other.value}")
                return element
            case Bind():
                return self.bind(scalar)
            case _:
                assert_never(scalar)

    def binary(self, scalar: Binary) -> Element:
        op = scalar.op
        allowed = BINARY_ELEMENTS.get(op)
        if allowed is None:
            self.fail(f"unknown operator {op!r}")
        left = self.scalar(scalar.left)
        if left not in allowed:
            self.fail(f"the left operand of {op} is {left.value}")
        right = self.scalar(scalar.right)
        if right is not left:
            self.fail(f"the right operand of {op}, unlike its left one, is {right.value}")
        return Element.BOOL if op in _TO_BOOL else left

    def bind(self, scalar: Bind) -> Element:
        introduced: list[Symbol] = []
        body: Scalar = scalar
        while isinstance(body, Bind):
            for symbol, value in body.bindings:
                element = self.scalar(value)
                self.introduce(symbol)
                self.locals[symbol] = element
                introduced.append(symbol)
            body = body.body
        found = self.scalar(body)
        self.forget(introduced)
        return found

    def forget(self, symbols: Iterable[Symbol]) -> None:
        for symbol in symbols:
            del self.locals[symbol]
        if self.seen is not None:
            self.seen = IdentityMap()

    def read(self, read: Read) -> None:
        value = self.tensor(read.tensor)
        if len(read.subscripts) != len(value.shape):
            self.fail(f"{len(read.subscripts)} subscripts for {len(value.shape)} dimensions")
        if read.element is not value.element:
            self.fail(f"{value.symbol!r} holds {value.element.value}")
        for subscript in read.subscripts:
            if isinstance(subscript, Dim):
                self.dim(subscript)
            else:
                self.expect(subscript, _INDEX, "a subscript")
        if read.padding is not None:
            padding = self.scalar(read.padding)
            if padding is not value.element:
                self.fail(f"the padding, unlike the tensor, is {padding.value}")

    def literal(self, value: float | int | bool, element: Element) -> None:
        if element is Element.BOOL:
            fits = isinstance(value, bool)
        elif element in INT:
            fits = isinstance(value, int) and not isinstance(value, bool) and value in _INT_RANGE[element]
        else:
            fits = isinstance(value, float | int) and not isinstance(value, bool)
        if not fits:
            self.fail(f"{value!r} is no {element.value}")


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
