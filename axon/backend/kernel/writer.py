"""Scalar expressions of core as statements of a kernel: one for each operation, common ones once.

It says which operations an expression is, in one vocabulary: `max_unsigned`, `trunc_i8`. An operation is a call by its name unless
a target has a `Form` for it, a text of its own: `x + y`. Three kinds of kernels are written so: nests of processors (`cpu.nests`),
where narrow floats are rounded after each operation; plain GPU kernels (`simt.writer`), whose threads hold several neighbours;
epilogues and streams of the tensor cores (`tensor_core_scalars`), which find what they read in registers, and never fail.

Note [Speculation]
    `if` of core evaluates the branch that it takes. Where both branches can be evaluated anywhere (every read is at bare axes that
    run over its tensor, and nothing can fail), both are, and `select` chooses: loops over that vectorize without branches. Else it
    becomes an `if` of Python, whose reads are masked where the loop is vectorized.

Note [Failures]
    What would stop the program sets `bad` and goes on with an index or a divisor that is harmless; the kernel looks at `bad` after
    each step and returns 1. The host then runs the interpreter, which words the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias, assert_never

from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Constant, Expression, Like, Name, Operator, Prefix, call, is_atom, product
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.functions import BITS, UNARY
from axon.base.names import Symbol
from axon.core.ir import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary, Value, element_of
from axon.core.scalar_facts import divides, few_factors, is_defined, is_inside, may_fail
from axon.core.walk import nodes
from axon.shapes.dimension import Atom, Dim, Quotient


@dataclass(frozen=True, slots=True)
class Held:
    """Where the elements of a tensor are: in memory behind a pointer, or in a variable.

    An element's offset is that of its subscripts from `skip` on (those before it are the row's), in a tensor of the extents of
    `shape` from there on, each multiplied by `lanes` and moved by the lane, where a buffer holds lanes.
    """

    value: Value
    pointer: Like = 0
    variable: Expression | None = None
    skip: int = 0
    lane: Expression | None = None  # the lane's place, of a buffer with a place for every lane
    lanes: Like = 1


# What a target writes for an operation whose first operand has this element type; None: a call by its name.
Form: TypeAlias = "Callable[..., Expression | None]"


def of_floats(op: str) -> Form:
    """An operator of Python between floats. Integers wrap, while numba promises LLVM that those of Python's operators do not."""
    return lambda element, x, y: Operator(op, x, y) if element.is_float else None


DIVISION = "division of an integer by zero"
POWER = "an integer raised to a negative power"
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
_UNARY = {name: name for name in UNARY} | {"neg": "minus", "abs": "absolute", "round": "nearest"}
_EXACT = frozenset(("neg", "abs", "sign", "max", "min"))  # never round


class Writer:
    """Writes expressions at one place of a kernel.

    `extents` are those of the axes in scope, `variable` names a dimension or an axis, `size` an extent that is known before the
    kernel runs, `held` says where tensors are.
    """

    forms: Mapping[str, Form] = {name: of_floats(op) for name, op in _ARITHMETIC.items()}

    def __init__(
        self,
        code: Code,
        extents: Mapping[Symbol, Dim],
        variable: Callable[[Symbol], Expression],
        size: Callable[[Dim], Expression],
        held: Callable[[Symbol], Held],
        locals: Mapping[Symbol, Expression] | None = None,
    ) -> None:
        self.code, self.extents = code, extents
        self.variable, self.size, self.held = variable, size, held
        self.locals = dict(locals or {})
        self.fails = False
        self._known: list[dict[Expression, Name]] = [{}]  # the variable that has an operation's value; one for each branch

    def let(self, value: Expression) -> Name:
        """The variable with the value of an operation on variables; the operation is written once."""
        if isinstance(value, Name):
            return value
        if (known := self.known(value)) is not None:
            return known
        name = self.code.let(value)
        self._known[-1][value] = name
        return name

    def known(self, value: Expression) -> Name | None:
        """The variable with the value of an operation that was written before."""
        return next((known[value] for known in self._known if value in known), None)

    def call(self, function: str, *arguments: Like) -> Name:
        return self.let(call(function, *arguments))

    def operation(self, name: str, element: Element, *operands: Expression) -> Expression:
        """An operation, as this target writes it."""
        form = self.forms.get(name)
        found = form(element, *operands) if form else None
        return self.called(name, element, *operands) if found is None else found

    def called(self, name: str, element: Element, *operands: Expression) -> Expression:
        """An operation as a call by its name."""
        return call(name, *operands)

    def apply(self, name: str, element: Element, *operands: Expression) -> Name:
        """The variable with an operation's value."""
        return self.let(self.operation(name, element, *operands))

    @contextmanager
    def branch(self, block: AbstractContextManager[None]) -> Iterator[None]:
        """What is written inside, a block of code, is known inside alone."""
        with block:
            self._known.append({})
            yield
            self._known.pop()

    def fail_if(self, condition: Expression, failure: str = "") -> None:
        """Stop the program where a condition holds. `failure` says what that is, to who asks."""
        self.fails = True
        self.code.assign(self.code.bad, call("either", self.code.bad, condition))

    # ── dimensions ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def dim(self, dim: Dim) -> Expression:
        """An index or a size, i64."""
        if dim.variables.isdisjoint(self.extents) and not divides(dim):
            return self.size(dim)
        return affine(dim, self._atom)

    def _atom(self, atom: Atom) -> Expression:
        if isinstance(atom, Symbol):
            return self.variable(atom)
        if isinstance(atom, Quotient):
            above, below = (self._let_dim(part) for part in (atom.dividend, atom.divisor))
            if not atom.divisor.constant and not is_defined(atom, self.extents):
                self.fail_if(call("eq_int", below, 0), DIVISION)
            return self.call("floor_divide", above, below)
        items = [self._let_dim(item) for item in atom.items]
        least = items[0]
        for item in items[1:]:
            least = self.call("min_int", least, item)
        return least

    def _let_dim(self, dim: Dim) -> Expression:
        value = self.dim(dim)
        return value if is_atom(value) else self.let(value)

    # ── expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def value(self, scalar: Scalar) -> Expression:
        """A variable or a literal with the expression's value; what it needs is written."""
        match scalar:
            case Const(value=value, element=element):
                return self.literal(value, element)
            case Index(dim=dim, element=element):
                return self.index(dim, element)
            case Local(symbol=symbol):
                return self.locals[symbol]
            case Read():
                return self.read(scalar)
            case Unary(op=op, operand=operand):
                return self.unary(op, self.value(operand), element_of(operand))
            case Binary(op="and" | "or"):
                return self._logic(scalar)
            case Binary(op=op, left=left, right=right):
                return self._binary(op, left, right)
            case Select():
                return self._select(scalar.condition, scalar.then, scalar.otherwise)
            case Convert(operand=operand, element=element):
                return self.convert(self.value(operand), element_of(operand), element)
            case Bind(bindings=bindings, body=body):
                for symbol, bound in bindings:
                    self.locals[symbol] = self.value(bound)
                return self.value(body)
            case _:
                assert_never(scalar)

    def literal(self, value: float, element: Element) -> Expression:
        return literal(value, element)

    def index(self, dim: Dim, element: Element) -> Expression:
        """An index as a number of an element type."""
        index = self._let_dim(dim)
        return index if element is Element.I64 else self.call(f"as_{element.value}", index)

    def where(self, condition: Expression | None, value: Expression, otherwise: Expression) -> Expression:
        """A value where a condition holds; another one, a constant, where it does not or there is none."""
        return self.call("select", condition, value, otherwise) if condition else value

    def rounded(self, value: Expression, element: Element) -> Expression:
        """An f32 result of arithmetic on a narrow element type, rounded to it; others as they are."""
        return self.call(f"round_{element.value}", self.let(value)) if is_narrow(element) else self.let(value)

    def unary(self, op: str, operand: Expression, element: Element) -> Expression:
        if op == "not":
            return self.apply("negation", element, operand)
        if element.is_unsigned and op in ("abs", "sign"):
            return operand if op == "abs" else self.apply("min_unsigned", element, operand, self.literal(1, element))
        name = f"integer_{_UNARY[op]}" if element.is_integer and op in ("abs", "sign") else _UNARY[op]
        found = self.operation(name, element, operand)
        return self.let(found) if op in _EXACT else self.rounded(found, element)

    def _binary(self, op: str, left: Scalar, right: Scalar) -> Expression:
        element = element_of(left)
        factors = few_factors(Binary(op, left, right))
        if factors:
            base = power = self.value(left)
            for _ in range(factors - 2):
                power = self.apply("mul", element, power, base)
            return self.rounded(self.operation("mul", element, power, base), element)
        return self.binary(op, self.value(left), self.value(right), element, never=_never_fails(op, right))

    def binary(self, op: str, x: Expression, y: Expression, element: Element, *, never: bool = False) -> Expression:
        kind = "float" if element.is_float else "unsigned" if element.is_unsigned or element is Element.BOOL else "int"
        if op in ("eq", "ne", "lt", "le", "gt", "ge", "max", "min"):
            return self.apply(f"{op}_{kind}", element, x, y)
        if op in _ARITHMETIC:
            return self.rounded(self.operation(op, element, x, y), element)
        if element.is_float:
            name = {"div": "divide", "mod": "float_remainder", "pow": "power", "atan2": "atan2"}[op]
            return self.rounded(self.operation(name, element, x, y), element)
        if op in BITS:
            return self.apply("unsigned_shift_right" if op == "shift_right" and element.is_unsigned else op, element, x, y)
        if op == "pow":
            return self._integer_power(x, y, element, never)
        if not never:
            self.fail_if(self.apply("eq_int", element, y, self.literal(0, element)), DIVISION)
        prefix = "unsigned_" if element.is_unsigned else ""
        name = {"div": "divide" if prefix else "floor_divide", "mod": "remainder"}[op]
        return self.apply(f"{prefix}{name}", element, x, y)

    def _integer_power(self, x: Expression, y: Expression, element: Element, never: bool) -> Expression:
        base, exponent = (self.convert(v, element, Element.I64) for v in (x, y))
        if not never and not element.is_unsigned:
            self.fail_if(self.apply("lt_int", Element.I64, exponent, Constant(0)), POWER)
        if element is Element.U64:
            exponent = self.apply("signed_exponent", Element.I64, exponent)
        return self.convert(self.apply("integer_power", Element.I64, base, exponent), Element.I64, element)

    def _logic(self, scalar: Binary) -> Expression:
        left = self.value(scalar.left)
        if self.speculable(scalar.right):
            return self.apply("both" if scalar.op == "and" else "either", Element.BOOL, left, self.value(scalar.right))
        result = self.code.let(left)
        with self.branch(self.code.when(left if scalar.op == "and" else Prefix("not", left))):
            self.code.assign(result, self.value(scalar.right))
        return result

    def _select(self, condition: Scalar, then: Scalar, otherwise: Scalar) -> Expression:
        taken = self.value(condition)
        if self.speculable(then) and self.speculable(otherwise):
            return self.apply("select", element_of(then), taken, self.value(then), self.value(otherwise))
        result = self.code.name()
        with self.branch(self.code.when(taken)):
            self.code.assign(result, self.value(then))
        with self.branch(self.code.otherwise()):
            self.code.assign(result, self.value(otherwise))
        return result

    def speculable(self, scalar: Scalar) -> bool:
        """Whether an expression may be evaluated where it is not wanted. See Note [Speculation]."""
        if may_fail(scalar, self.extents):
            return False
        return all(self.is_within(node) for node in nodes(scalar) if isinstance(node, Read))

    def is_within(self, read: Read) -> bool:
        return read.padding is None and is_inside(read, self.held(read.tensor).value, self.extents)

    # ── conversions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def convert(self, x: Expression, source: Element, target: Element) -> Expression:
        if source is target:
            return x
        if target is Element.BOOL:
            return self.binary("ne", x, self.literal(0, source), source)
        unsigned = source.is_unsigned or source is Element.BOOL
        if target.is_integer:
            how = "trunc" if source.is_float else "widen" if unsigned else "as"
            return self.apply(f"{how}_{target.value}", source, x)
        wide = Element.F64 if target is Element.F64 else Element.F32
        if source.is_float:
            if is_narrow(target) and source is Element.F64:
                value: Expression = self.apply("odd_f32", source, x)
            else:
                held = Element.F64 if source is Element.F64 else Element.F32
                value = x if held is wide else self.apply(f"to_{wide.value}", source, x)
        elif is_narrow(target) and source.bits >= 32:
            value = self.apply("unsigned_odd_f32" if unsigned else "integer_odd_f32", source, x)
        else:
            value = self.apply(f"{'unsigned' if unsigned else 'signed'}_{wide.value}", source, x)
        return self.rounded(value, target) if is_narrow(target) and not _holds(source, target) else value

    # ── reads ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, read: Read) -> Expression:
        held = self.held(read.tensor)
        if held.variable is not None:
            return held.variable
        load = f"load_{held.value.element.value}"
        outside = self._outside(read, held.value)
        subscripts = self._subscripts(read)
        if not outside:
            return self.call(load, held.pointer, self.offset(held, subscripts))
        inside: Expression | None = None
        for position, extent in outside:
            least = self.call("ge_int", subscripts[position], 0)
            within = self.call("both", least, self.call("lt_int", subscripts[position], self.dim(extent)))
            inside = within if inside is None else self.call("both", inside, within)
        assert inside is not None
        if read.padding is not None:
            result = self.code.name()
            with self.branch(self.code.when(inside)):
                self.code.assign(result, call(load, held.pointer, self.offset(held, subscripts)))
            with self.branch(self.code.otherwise()):
                self.code.assign(result, self.value(read.padding))
            return result
        self.fail_outside(read, [(position, subscripts[position], extent) for position, extent in outside], inside)
        offset = self.let(self.offset(held, subscripts))
        return self.call(load, held.pointer, self.call("select", inside, offset, 0))

    def fail_outside(self, read: Read, outside: list[tuple[int, Expression, Dim]], inside: Expression) -> None:
        """Stop the program where a read is not inside: `outside` are the subscripts that were looked at, with their limits."""
        self.fail_if(self.call("negation", inside))

    def _outside(self, read: Read, value: Value) -> list[tuple[int, Dim]]:
        """The subscripts to look at, with their limits: where the read is padded or checked, those that are not inside anyway."""
        return [] if read.padding is None and read.checked is None else self.open(read.subscripts, value.shape)

    def open(self, subscripts: Sequence[Dim | Scalar], shape: Sequence[Dim]) -> list[tuple[int, Dim]]:
        """The subscripts that are not inside anyway, as indices of axes are that go as far as the dimension, with their limits."""
        found = []
        for position, (subscript, extent) in enumerate(zip(subscripts, shape, strict=True)):
            symbol = subscript.symbol if isinstance(subscript, Dim) else None
            if symbol is None or self.extents.get(symbol) != extent:
                found.append((position, extent))
        return found

    def _subscripts(self, read: Read) -> list[Expression]:
        subscripts = []
        for subscript in read.subscripts:
            if isinstance(subscript, Dim):
                subscripts.append(self._let_dim(subscript))
            else:
                subscripts.append(self.convert(self.value(subscript), element_of(subscript), Element.I64))
        return subscripts

    def offset(self, held: Held, subscripts: list[Expression]) -> Expression:
        """The place of an element, counted in elements."""
        found: Expression | None = None
        for subscript, extent in zip(subscripts[held.skip :], held.value.shape[held.skip :], strict=True):
            found = subscript if found is None else found * self._let_dim(extent) + subscript
        if found is None or is_atom(found):
            found = Constant(0) if found is None else found
        else:
            found = self.let(found)
        if held.lane is None:
            return found
        return held.lane if found == Constant(0) else self.let(found * held.lanes + held.lane)

    def store(self, held: Held, subscripts: list[Expression], value: Expression) -> None:
        self.code.call(f"store_{held.value.element.value}", held.pointer, self.offset(held, subscripts), value)


def is_narrow(element: Element) -> bool:
    """Whether arithmetic on it happens in f32."""
    return element.accumulator is not element


def _holds(source: Element, target: Element) -> bool:
    """Whether a narrow float has every value of another element type."""
    return source is Element.BOOL or (source is Element.F8E5M2 and target is Element.F16)


def _never_fails(op: str, right: Scalar) -> bool:
    if not isinstance(right, Const):
        return False
    return right.value >= 0 if op == "pow" else right.value != 0


def literal(value: float, element: Element) -> Expression:
    """A constant. Floats of narrow element types are rounded when the kernel is compiled."""
    if element is Element.BOOL:
        return Constant(bool(value))
    if element.is_integer:
        return Constant(int(value)) if element is Element.I64 else call(element.value, int(value))
    if element in (Element.F64, Element.F32):
        return call(element.value, float(value))
    return call(f"round_{element.value}", call("odd_f32", call("f64", float(value))))


def affine(dim: Dim, atom: Callable[[Atom], Expression]) -> Expression:
    """A dimension as a sum of products of its atoms."""
    total: Expression | None = None
    for coefficient, monomial in dim.terms:
        first, *others = [atom(a) for a in monomial] or [Constant(1)]
        factor = coefficient if total is None else abs(coefficient)
        if not monomial:
            term: Expression = Constant(factor)
        elif abs(factor) != 1:
            term = product(factor, first, *others)
        else:
            term = product(-first if factor < 0 else first, *others)
        total = term if total is None else total - term if coefficient < 0 else total + term
    return total or Constant(0)
