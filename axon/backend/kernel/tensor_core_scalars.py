"""Scalar expressions of epilogues and streams: how tensor-core kernels write the operations of `writer`, and which they cannot.

Floats other than f64 are float32: a kernel may keep more precision than an element type has, and values are rounded when they are
stored. Only 8 bits hold so few numbers that every operation rounds to them. Integers are exact. Those of up to 32 bits, but for
u32, are numba's of 64 bits, wrapped where a result may not fit, so that Python's operators compute with them. On the others, and
where no instruction does it, operations are calls of those of plain kernels (`ptx_scalar`), which know each type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from math import isfinite

from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Choice, Constant, Expression, Operator, Prefix, both, call, is_atom
from axon.backend.kernel.writer import Form, Held, Writer, affine
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core import integer_ranges as ranges
from axon.core.ir import Binary, Const, Index, Read, Scalar, element_of
from axon.core.walk import nodes
from axon.shapes.dimension import Atom, Dim, Quotient
from axon.shapes.width import held

# ── forms ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

REAL = frozenset(e for e in Element if e.accumulator is Element.F32)  # as numbers of 32 bits
HELD = frozenset({Element.I32, Element.I16, Element.I8, Element.U16, Element.U8, Element.BOOL})  # as numbers of 64 bits
_SIGNED = HELD | {Element.I64}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def wrapped(value: Expression, element: Element) -> Expression:
    """A whole number of 64 bits in an element type: wrapped around."""
    if element is Element.I32:
        return call("int32", value)
    if element not in HELD or element is Element.BOOL:
        return value
    half, most = 1 << (element.bits - 1), (1 << element.bits) - 1
    return value & most if element.is_unsigned else ((value + half) & most) - half


def _only(elements: Set[Element], form: Callable[..., Expression]) -> Form:
    return lambda element, *x: form(*x) if element in elements else None


def _calls(function: str, elements: Set[Element] = REAL) -> Form:
    return _only(elements, lambda *x: call(function, *x))


def _sign(number: Callable[[int], Expression], x: Expression, nothing: Expression) -> Expression:
    return Choice(x > number(0), number(1), Choice(x < number(0), number(-1), nothing))


def _truncated(target: Element, x: Expression) -> Expression:
    """A float as an integer: cut off, and limited to what there is; of NaN 0. So does the instruction."""
    whole = call("libdevice.float2int_rz", x)
    low, high = target.limits
    return whole if target is Element.I32 else call("min", call("max", whole, low), high)


def _shifted(op: str, element: Element, x: Expression, y: Expression, gone: Expression) -> Expression:
    """What is left of a number whose bits move; none where the distance is no place of a bit."""
    return Choice(both(Constant(0) <= y, y < element.bits), Operator(op, x, y), gone)


_FLOATS: dict[str, Form] = {
    **{name: _calls(f"libdevice.{name}f") for name in (
        "sin", "cos", "tanh", "erf", "floor", "ceil", "exp", "log", "expm1", "log1p", "cbrt", "asin", "acos", "atan", "sinh",
        "cosh", "asinh", "acosh", "atanh", "erfc", "erfinv", "lgamma", "atan2",
    )},
    "sqrt": _calls("libdevice.fsqrt_rn"), "rsqrt": _calls("ptx.frsqrt"), "nearest": _calls("libdevice.rintf"),
    "absolute": _calls("libdevice.fabsf"), "power": _calls("libdevice.powf"), "divide": _calls("ptx.fdiv"),
    "max_float": _calls("ptx.fmax"), "min_float": _calls("ptx.fmin"),
    "sign": _only(REAL, lambda x: _sign(lambda n: call("float32", n), x, x)),
    **{f"{name}_float": lambda element, x, y, op=op: Operator(op, x, y) for name, op in _COMPARISONS.items()},
    **{f"trunc_{e.value}": _only(REAL, lambda x, e=e: _truncated(e, x)) for e in HELD - {Element.BOOL}},
}  # fmt: skip
_CHOICES: dict[str, Form] = {
    "select": lambda element, condition, x, y: Choice(condition, x, y),
    "negation": lambda element, x: Prefix("not", x),
    "both": lambda element, x, y: Operator("and", x, y),
    "either": lambda element, x, y: Operator("or", x, y),
}
# What may stand for the above where the result has 16 bits.
_NARROW: dict[str, Form] = {
    "exp": _calls("ptx.narrow_exp"), "erf": _calls("ptx.narrow_erf"), "tanh": _calls("ptx.narrow_tanh"),
    "rsqrt": _calls("ptx.narrow_rsqrt"), "divide": _calls("ptx.narrow_div"),
}  # fmt: skip


def _forms(held: Set[Element], fitted: Callable[[Expression, Element], Expression]) -> dict[str, Form]:
    """Forms of all operations, where integers of these element types are held as numbers of 64 bits, and results made to fit."""

    def arithmetic(form: Callable[..., Expression]) -> Form:
        """Of floats, and of integers whose exact result may not fit."""
        return lambda element, *x: form(*x) if element.is_float else fitted(form(*x), element) if element in held else None

    def left(element: Element, x: Expression, y: Expression) -> Expression | None:
        return fitted(_shifted("<<", element, x, y, Constant(0)), element) if element in held else None

    def right(element: Element, x: Expression, y: Expression) -> Expression | None:
        gone = Constant(0) if element.is_unsigned else Choice(x < 0, Constant(-1), Constant(0))
        return _shifted(">>", element, x, y, gone) if element in held else None

    def converted(target: Element) -> Form:
        return lambda element, x: fitted(x, target) if element in held else None

    found: dict[str, Form] = {
        **_FLOATS, **_CHOICES,
        **{name: arithmetic(lambda x, y, op=op: Operator(op, x, y)) for name, op in {"add": "+", "sub": "-", "mul": "*"}.items()},
        "minus": arithmetic(lambda x: -x), "integer_absolute": arithmetic(lambda x: call("abs", x)),
        "bit_not": arithmetic(lambda x: x ^ -1), "floor_divide": arithmetic(lambda x, y: x // y),
        "shift_left": left, "shift_right": right, "unsigned_shift_right": right,
        "integer_sign": _only(held, lambda x: _sign(Constant, x, Constant(0))),
        **{f"{how}_f32": lambda element, x: call("float32", x) for how in ("signed", "unsigned")},
        **{f"{how}_odd_f32": lambda element, x: call("float32", x) for how in ("integer", "unsigned")},
    }  # fmt: skip
    exact = {
        "unsigned_divide": "//", "remainder": "%", "unsigned_remainder": "%", "bit_and": "&", "bit_or": "|", "bit_xor": "^",
    }  # fmt: skip
    found |= {name: _only(held, lambda x, y, op=op: Operator(op, x, y)) for name, op in exact.items()}
    for sign, numbers in (("int", held | _SIGNED), ("unsigned", held)):
        found |= {f"{name}_{sign}": _only(numbers, lambda x, y, op=op: Operator(op, x, y)) for name, op in _COMPARISONS.items()}
        found |= {f"{name}_{sign}": _calls(name, held) for name in ("max", "min")}
    for target in held - {Element.BOOL}:
        found |= {f"{how}_{target.value}": converted(target) for how in ("as", "widen")}
    return found


FORMS = _forms(HELD, wrapped)
_NARROWED = FORMS | _NARROW
_WIDE = _forms(_SIGNED, lambda value, element: value)
_PLAIN = "ptx_scalar"  # where the operations are that have no form


# ── what has a form ─────────────────────────────────────────────────────────────────────────────────────────────────────


def loaded(element: Element, address: Expression) -> Expression:
    """The value of an element at an address of global memory."""
    match element:
        case Element.BOOL:
            return Operator("!=", call("ptx.load_u8", address), Constant(0))
        case Element.U32 | Element.U64:
            return call(f"{_PLAIN}.as_{element.value}", call(f"ptx.load_i{element.bits}", address))
        case Element.F8E4M3 | Element.F8E5M2:
            return call(f"{_PLAIN}.fetch_{element.value}", address, 0, Constant(True))
        case _:
            return call(f"ptx.load_{element.value}", address)


def obstacle(scalar: Scalar, axes: Set[Symbol]) -> str | None:
    """Why an expression over these axes has no form here; None if it has one: it must not fail."""
    return next((why for node in nodes(scalar) if (why := _obstacle(node, axes))), None)


def _obstacle(node: Scalar, axes: Set[Symbol]) -> str | None:
    match node:
        case Index(dim=dim):
            if ranges.divides_by_zero(dim, axes):
                return "divides an index by what may be 0"
            return inexact(dim, axes)
        case Binary(op="div" | "mod", left=left, right=right) if element_of(left).is_integer:
            if not (isinstance(right, Const) and right.value != 0):
                return "divides an integer by what may be 0"
        case Binary(op="pow", left=left, right=right) if element_of(left).is_integer and not element_of(left).is_unsigned:
            if not (isinstance(right, Const) and right.value >= 0):
                return "raises an integer to what may be below 0"
    return None


def inexact(dim: Dim, axes: Set[Symbol]) -> str | None:
    """Why a Dim over these axes cannot be computed in 64 bits; None if it can. What has no axis in it the host computes."""
    return None if all(map(ranges.within, held(dim, axes))) else "computes with an index that 64 bits may not hold"


def address(pointer: Expression, size: int, offsets: Iterable[Expression]) -> Expression:
    """Where an element of so many bytes lies, at a sum of offsets."""
    first, *others = [*offsets] or [Constant(0)]
    return pointer + size * sum(others, first)


class EpilogueWriter(Writer):
    """Writes what can be computed anywhere: an assignment for each operation, and no branch.

    `narrow`: the result is stored in 16 bits, so that functions need not be more exact than 2^-20. `wide`: integers are computed in
    64 bits and never wrap. `read` and `variable` name the value of a read and of a variable of a Dim, `size` that of a Dim over
    sizes alone (None of another); `locals` that of a local from outside the expression.
    """

    def __init__(
        self, code: Code, read: Callable[[Read], Expression], variable: Callable[[Symbol], Expression],
        size: Callable[[Dim], Expression | None], locals: Mapping[Symbol, Expression], *, narrow: bool = False, wide: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(code, {}, variable, self.dim, _nowhere, locals)
        self.leaf, self.known_size, self.wide = read, size, wide
        self.forms = _WIDE if wide else _NARROWED if narrow else FORMS

    def read(self, read: Read) -> Expression:
        return self.leaf(read)

    def speculable(self, scalar: Scalar) -> bool:
        return True

    def _select(self, condition: Scalar, then: Scalar, otherwise: Scalar) -> Expression:
        taken = self.value(then)  # first: of what masks it, nothing is kept meanwhile
        return self.apply("select", element_of(then), self.value(condition), taken, self.value(otherwise))

    def called(self, name: str, element: Element, *operands: Expression) -> Expression:
        # Indices and sizes may have 32 bits: an operation on i64 has as many as its operands.
        long = element is Element.I64
        return call(f"{_PLAIN}.{name}", *(call("int64", x) if long and not isinstance(x, Constant) else x for x in operands))

    def literal(self, value: float, element: Element) -> Expression:
        return literal(value, element)

    def rounded(self, value: Expression, element: Element) -> Expression:
        narrow = element.is_float and element.bits == 8
        return self.let(call(f"{_PLAIN}.round_{element.value}", self.let(value)) if narrow else value)

    def index(self, dim: Dim, element: Element) -> Expression:
        found = self.dim(dim)
        if self.wide or element is Element.I64 or element in HELD:
            return self._atomic(found if self.wide else wrapped(found, element))
        return self.apply(f"as_{element.value}", Element.I64, found)

    def _atomic(self, value: Expression) -> Expression:
        return value if is_atom(value) else self.let(value)

    def dim(self, dim: Dim) -> Expression:
        """A Dim's exact value, in 64 bits: what of it has no axes is a size, which the host computes."""
        return affine(dim, self._atom)

    def _atom(self, atom: Atom) -> Expression:
        if isinstance(atom, Symbol):
            return self.variable(atom)
        range_ = ranges.of_dim(Dim({(atom,): 1}))
        if ranges.fits(range_, Element.I32):
            size = self.known_size(Dim({(atom,): 1}))
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


def _nowhere(tensor: Symbol) -> Held:
    raise AssertionError(f"{tensor} is read where the kernel says")


def literal(value: float, element: Element) -> Expression:
    if element is Element.BOOL:
        return Constant(bool(value))
    if element in _SIGNED:
        return Constant(int(value))
    if element.is_integer:
        return call(f"{_PLAIN}.{element.value}", int(value))
    real = float(element.dtype.type(value) if element.bits == 8 else value)
    number = real if isfinite(real) else call("float", Constant(repr(real)))
    return call(f"{_PLAIN}.f64" if element is Element.F64 else "float32", number)
