"""Scalar expressions of epilogues and streams as statements: floats are float32 whatever their element type.

A kernel may keep more precision than an element type has; values are rounded when they are stored. Integers are exact: they wrap
in their element type, as core says. numba computes with them in 64 bits, whose lower half is what 32 bits would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial, reduce
from math import isfinite

from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Choice, Constant, Expression, Operator, Prefix, both, call, is_atom
from axon.backend.kernel.writer import affine
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core import integer_ranges as ranges
from axon.core.ir import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.core.scalar_facts import few_factors
from axon.core.walk import nodes
from axon.shapes.dimension import Atom, Dim, Quotient
from axon.shapes.width import held

_UNARY = {
    "exp": "libdevice.expf", "log": "libdevice.logf", "sqrt": "libdevice.fsqrt_rn", "rsqrt": "ptx.frsqrt", "sin": "libdevice.sinf",
    "cos": "libdevice.cosf", "tanh": "libdevice.tanhf", "erf": "libdevice.erff", "floor": "libdevice.floorf",
    "ceil": "libdevice.ceilf", "round": "libdevice.rintf", "abs": "libdevice.fabsf",
    **{name: f"libdevice.{name}f" for name in (
        "expm1", "log1p", "cbrt", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "erfinv", "lgamma",
    )},
}  # fmt: skip
_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "and",
    "or": "or", "bit_and": "&", "bit_or": "|", "bit_xor": "^",
}  # fmt: skip
_BINARY = {
    "div": "ptx.fdiv", "max": "ptx.fmax", "min": "ptx.fmin", "pow": "libdevice.powf", "atan2": "libdevice.atan2f",
}  # fmt: skip
ELSEWHERE = frozenset({"digamma"})  # functions that plain kernels alone compute
_INTEGER = {"max", "min", "div", "mod", "shift_left", "shift_right"}
# Integer operations whose exact result may not fit.
_WRAPS = frozenset({"add", "sub", "mul", "div", "neg", "abs", "bit_not", "shift_left"})
COMPUTED = frozenset({Element.F32, Element.BF16, Element.F16, Element.I32, Element.I8, Element.U8, Element.BOOL})
# What may stand for the above where the result has 16 bits.
_NARROW = {
    "exp": "ptx.narrow_exp", "erf": "ptx.narrow_erf", "tanh": "ptx.narrow_tanh", "rsqrt": "ptx.narrow_rsqrt",
    "div": "ptx.narrow_div",
}  # fmt: skip


def loaded(element: Element, address: Expression) -> Expression:
    """The value of an element at an address of global memory."""
    if element is Element.BOOL:
        return Operator("!=", call("ptx.load_u8", address), Constant(0))
    return call(f"ptx.load_{element.value}", address)


def obstacle(scalar: Scalar, axes: Set[Symbol]) -> str | None:
    """Why an expression over these axes has no form here; None if it has one. Reads are looked at only for their element types."""
    return next((why for node in nodes(scalar) if (why := _obstacle(node, axes))), None)


def _obstacle(node: Scalar, axes: Set[Symbol]) -> str | None:
    element = element_of(node)
    if element not in COMPUTED and not (isinstance(node, Index | Const) and element is Element.I64):  # those of comparisons
        return f"computes in {element.value}"
    match node:
        case Index(dim=dim):
            if ranges.divides_by_zero(dim, axes):
                return "divides an index by what may be 0"
            return inexact(dim, axes)
        case Binary(op="div" | "mod" as op, left=left, right=right) if element_of(left).is_integer:
            if not (isinstance(right, Const) and right.value != 0):
                return "divides an integer by what may be 0"
        case Binary(op=op, left=left) if element_of(left).is_integer and op not in _OPERATORS.keys() | _INTEGER:
            return f"computes `{op}` on {element_of(left).value}"
        case Unary(op=op) if op in ELSEWHERE:
            return f"computes `{op}`"
        case Binary(op="mod"):
            return "computes `%` on floats"
    return None


def inexact(dim: Dim, axes: Set[Symbol]) -> str | None:
    """Why a Dim over these axes cannot be computed in 64 bits; None if it can. What has no axis in it the host computes."""
    return None if all(map(ranges.within, held(dim, axes))) else "computes with an index that 64 bits may not hold"


def address(pointer: Expression, size: int, offsets: Iterable[Expression]) -> Expression:
    """Where an element of so many bytes lies, at a sum of offsets."""
    first, *others = [*offsets] or [Constant(0)]
    return pointer + size * sum(others, first)


class EpilogueWriter:
    """Writes scalar expressions: an assignment for each operation, common ones once.

    `narrow`: the result is stored in 16 bits, so that functions need not be more exact than 2^-20. `wide`: integers are computed in
    64 bits and never wrap. `read` and `variable` name the value of a read and of a variable of a Dim, `size` that of a Dim over
    sizes alone (None of another); `local` that of a local from outside the expression.
    """

    def __init__(
        self, code: Code, read: Callable[[Read], Expression], variable: Callable[[Symbol], Expression],
        size: Callable[[Dim], Expression | None], local: Mapping[Symbol, Expression], *, narrow: bool = False, wide: bool = False,
    ) -> None:  # fmt: skip
        self.code, self.read, self.variable, self.size, self.local = code, read, variable, size, dict(local)
        self.narrow = _NARROW if narrow else {}
        self.wide = wide
        self._seen: dict[Scalar, Expression] = {}

    def value(self, scalar: Scalar) -> Expression:
        """The expression's value as a name or a literal; what it needs is written."""
        match scalar:
            case Const(value=value, element=element):
                return literal(value, element)
            case Local(symbol=symbol):
                return self.local[symbol]
            case Read():
                return self.read(scalar)
            case Bind(bindings=bindings, body=body):
                for symbol, bound in bindings:
                    self.local[symbol] = self.value(bound)
                return self.value(body)
        if scalar not in self._seen:
            found = self._operation(scalar)
            self._seen[scalar] = found if is_atom(found) else self.code.let(found)
        return self._seen[scalar]

    def _operation(self, scalar: Scalar) -> Expression:
        match scalar:
            case Index(dim=dim, element=element):
                found = self.dim(dim)
                return found if self.wide else _wrapped(found, element)
            case Unary(op=op, operand=operand):
                return self._unary(op, self.value(operand), element_of(operand))
            case Binary(op=op, left=left, right=right):
                element = element_of(left)
                factors = few_factors(scalar)
                if factors:
                    base = self.value(left)
                    return reduce(partial(Operator, "*"), [base] * factors)
                return self._binary(op, self.value(left), self.value(right), element)
            case Select(condition=condition, then=then, otherwise=otherwise):
                taken = self.value(then)
                return Choice(self.value(condition), taken, self.value(otherwise))
            case Convert(operand=operand, element=element):
                return self._converted(self.value(operand), element_of(operand), element)
            case _:
                raise AssertionError(scalar)

    def _unary(self, op: str, x: Expression, element: Element) -> Expression:
        if op == "not":
            return Prefix("not", x)
        if op == "sign":
            number: Callable[[int], Expression] = Constant if element.is_integer else lambda n: call("float32", n)
            return Choice(x > number(0), number(1), Choice(x < number(0), number(-1), number(0) if element.is_integer else x))
        if op == "neg":
            found: Expression = -x
        elif op == "bit_not":
            found = x ^ -1
        elif element.is_integer:
            found = call("abs", x)
        else:
            found = call(self.narrow.get(op) or _UNARY[op], x)
        return self._fitted(op, found, element)

    def _binary(self, op: str, x: Expression, y: Expression, element: Element) -> Expression:
        if op in _OPERATORS:
            found: Expression = Operator(_OPERATORS[op], x, y)
        elif element.is_float:
            found = call(self.narrow.get(op) or _BINARY[op], x, y)
        elif op in ("max", "min"):
            found = call(op, x, y)
        elif op in ("shift_left", "shift_right"):
            inside = both(Constant(0) <= y, y < element.bits)
            gone = Choice(x < 0, Constant(-1), Constant(0)) if op == "shift_right" else Constant(0)
            found = Choice(inside, Operator("<<" if op == "shift_left" else ">>", x, y), gone)
        else:
            found = x // y if op == "div" else x % y
        return self._fitted(op, found, element)

    def _converted(self, x: Expression, source: Element, element: Element) -> Expression:
        if element.is_float:
            return x if source.is_float else call("float32", x)
        if element is Element.BOOL:
            return Operator("!=", x, Constant(0))
        if source.is_float:  # floats to integers truncate and saturate, and NaN gives 0: so does the instruction
            whole = call("libdevice.float2int_rz", x)
            limits = {Element.I8: (-128, 127), Element.U8: (0, 255)}.get(element)
            return whole if limits is None else call("min", call("max", whole, limits[0]), limits[1])
        return x if self.wide else _wrapped(x, element)

    def _fitted(self, op: str, value: Expression, element: Element) -> Expression:
        """What an operation gives, in its element type."""
        return _wrapped(value, element) if op in _WRAPS and not self.wide else value

    def dim(self, dim: Dim) -> Expression:
        """A Dim's exact value, in 64 bits: what of it has no axes is a size, which the host computes."""
        return affine(dim, self._atom)

    def _atom(self, atom: Atom) -> Expression:
        if isinstance(atom, Symbol):
            return self.variable(atom)
        range_ = ranges.of_dim(Dim({(atom,): 1}))
        if ranges.fits(range_, Element.I32):
            size = self.size(Dim({(atom,): 1}))
            if size is not None:
                return size
        if not isinstance(atom, Quotient):
            return call("min", *(self.dim(item) for item in atom.items))
        above, below, divisor = self.dim(atom.dividend), self.dim(atom.divisor), atom.divisor.constant
        if divisor is not None and divisor & (divisor - 1) == 0:
            return above >> (divisor.bit_length() - 1)  # rounds down
        low, high = ranges.of_dim(atom.dividend)
        if low >= 0 and ranges.fits((low, high), Element.I32) and ranges.fits(ranges.of_dim(atom.divisor), Element.I32):
            return call("ptx.divide", above, below)
        return above // below


def _wrapped(value: Expression, element: Element) -> Expression:
    """A whole number of 64 bits in an element type: wrapped around."""
    match element:
        case Element.I32:
            return call("int32", value)
        case Element.I8:
            return ((value + 128) & 255) - 128
        case Element.U8:
            return value & 255
        case _:
            return value


def literal(value: float, element: Element) -> Expression:
    if element is Element.BOOL:
        return Constant(bool(value))
    if element.is_integer:
        return Constant(int(value))
    return call("float32", float(value) if isfinite(value) else call("float", Constant(repr(float(value)))))
