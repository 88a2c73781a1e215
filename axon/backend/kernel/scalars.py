"""Scalar expressions of epilogues and streams as Python for numba: floats are float32 whatever their element type.

A kernel may keep more precision than an element type has; values are rounded when they are stored. Integers are exact: they wrap
in their element type, as core says. numba computes with them in 64 bits, whose lower half is what 32 bits would give.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from axon.base.element import Element
from axon.base.names import Symbol
from axon.core import integer_ranges as ranges
from axon.core.ir import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.core.scalar_facts import few_factors
from axon.core.walk import nodes
from axon.shapes.dimension import Atom, Dim, Quotient
from axon.shapes.width import held

_UNARY = {
    "exp": "libdevice.expf({0})",
    "log": "libdevice.logf({0})",
    "sqrt": "libdevice.fsqrt_rn({0})",
    "rsqrt": "ptx.frsqrt({0})",
    "sin": "libdevice.sinf({0})",
    "cos": "libdevice.cosf({0})",
    "tanh": "libdevice.tanhf({0})",
    "erf": "libdevice.erff({0})",
    "floor": "libdevice.floorf({0})",
    "ceil": "libdevice.ceilf({0})",
    "round": "libdevice.rintf({0})",
    "neg": "-{0}",
    "not": "not {0}",
}
_UNARY_FLOAT = {
    "abs": "libdevice.fabsf({0})",
    "sign": "(float32(1) if {0} > float32(0) else (float32(-1) if {0} < float32(0) else {0}))",
}
_UNARY_INT = {"neg": "-{0}", "abs": "abs({0})", "sign": "(1 if {0} > 0 else (-1 if {0} < 0 else 0))"}
_BINARY = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}",
    "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}", "and": "{0} and {1}", "or": "{0} or {1}",
}  # fmt: skip
_BINARY_FLOAT = {
    "div": "ptx.fdiv({0}, {1})",
    "max": "ptx.fmax({0}, {1})",
    "min": "ptx.fmin({0}, {1})",
    "pow": "libdevice.powf({0}, {1})",
}
_BINARY_INT = {"max": "max({0}, {1})", "min": "min({0}, {1})", "div": "{0} // {1}", "mod": "{0} % {1}"}
_WRAPS = frozenset({"add", "sub", "mul", "div", "neg", "abs"})  # integer operations whose exact result may not fit
_WRAPPED = {
    Element.I32: "int32({0})", Element.I8: "(({0}) + 128 & 255) - 128", Element.U8: "{0} & 255",
}  # fmt: skip
# Floats to integers truncate and saturate, and NaN gives 0: so does the instruction.
_TRUNCATED = {
    Element.I32: "libdevice.float2int_rz({0})", Element.I8: "min(max(libdevice.float2int_rz({0}), -128), 127)",
    Element.U8: "min(max(libdevice.float2int_rz({0}), 0), 255)",
}  # fmt: skip
COMPUTED = frozenset({Element.F32, Element.BF16, Element.F16, Element.I32, Element.I8, Element.U8, Element.BOOL})
_LOADED = {
    Element.BF16: "ptx.load_bf16({0})", Element.F16: "ptx.load_f16({0})", Element.F32: "ptx.load_f32({0})",
    Element.I32: "ptx.load_i32({0})", Element.I8: "ptx.load_i8({0})", Element.U8: "ptx.load_u8({0})",
    Element.BOOL: "ptx.load_u8({0}) != 0",
}  # fmt: skip


def loaded(element: Element, address: str) -> str:
    """The value of an element at an address of global memory."""
    return _LOADED[element].format(address)


# What may stand for the above where the result has 16 bits.
_NARROW = {
    "exp": "ptx.narrow_exp({0})", "erf": "ptx.narrow_erf({0})", "tanh": "ptx.narrow_tanh({0})", "rsqrt": "ptx.narrow_rsqrt({0})",
    "div": "ptx.narrow_div({0}, {1})",
}  # fmt: skip


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
        case Binary(op=op, left=left) if element_of(left).is_integer and op not in _BINARY | _BINARY_INT:
            return f"computes `{op}` on {element_of(left).value}"
        case Binary(op="mod"):
            return "computes `%` on floats"
    return None


def inexact(dim: Dim, axes: Set[Symbol]) -> str | None:
    """Why a Dim over these axes cannot be computed in 64 bits; None if it can. What has no axis in it the host computes."""
    return None if all(map(ranges.within, held(dim, axes))) else "computes with an index that 64 bits may not hold"


class Writer:
    """Turns one scalar expression into assignments and a final expression.

    `narrow`: the result is stored in 16 bits, so that functions need not be more exact than 2^-20. `wide`: integers are computed in
    64 bits and never wrap. `read` and `variable` name the value of a read and of a variable of a Dim, `size` that of a Dim over
    sizes alone (None of another); `local` that of a local from outside the expression.
    """

    def __init__(
        self, read: Callable[[Read], str], variable: Callable[[Symbol], str], size: Callable[[Dim], str | None],
        local: dict[Symbol, str], *, narrow: bool = False, wide: bool = False, prefix: str = "v",
    ) -> None:  # fmt: skip
        self.read, self.variable, self.size, self.local, self.prefix = read, variable, size, dict(local), prefix
        self.narrow = _NARROW if narrow else {}
        self.wide = wide
        self.lines: list[str] = []
        self._seen: dict[Scalar, str] = {}

    def value(self, scalar: Scalar) -> str:
        """The expression's value as a name or a literal; what it needs is in `lines`."""
        match scalar:
            case Const(value=value, element=element):
                return _literal(value, element)
            case Local(symbol=symbol):
                return self.local[symbol]
            case Read():
                return self.read(scalar)
            case Bind(bindings=bindings, body=body):
                for symbol, bound in bindings:
                    self.local[symbol] = self.value(bound)
                return self.value(body)
        if scalar not in self._seen:
            text = self._text(scalar)
            name = f"{self.prefix}{len(self.lines)}"
            self.lines.append(f"{name} = {text}")
            self._seen[scalar] = name
        return self._seen[scalar]

    def _text(self, scalar: Scalar) -> str:
        match scalar:
            case Index(dim=dim, element=element):
                text = self.dim(dim)
                return text if self.wide else self._wrapped(text, element)
            case Unary(op=op, operand=operand):
                element = element_of(operand)
                special = self.narrow | _UNARY_FLOAT if element.is_float else _UNARY_INT
                text = (special.get(op) or _UNARY[op]).format(self.value(operand))
                return self._wrapped(text, element) if op in _WRAPS and not self.wide else text
            case Binary(op=op, left=left, right=right):
                element = element_of(left)
                factors = few_factors(scalar)
                if factors:
                    return " * ".join([self.value(left)] * factors)
                special = _BINARY_FLOAT | self.narrow if element.is_float else _BINARY_INT
                text = (special.get(op) or _BINARY[op]).format(self.value(left), self.value(right))
                return self._wrapped(text, element) if op in _WRAPS and not self.wide else text
            case Select(condition=condition, then=then, otherwise=otherwise):
                return f"{self.value(then)} if {self.value(condition)} else {self.value(otherwise)}"
            case Convert(operand=operand, element=element):
                value, source = self.value(operand), element_of(operand)
                if element.is_float:
                    return value if source.is_float else f"float32({value})"
                if element == Element.BOOL:
                    return f"{value} != 0"
                if source.is_float:
                    return _TRUNCATED[element].format(value)
                return value if self.wide else _WRAPPED[element].format(value)
            case _:
                raise AssertionError(scalar)

    def _wrapped(self, text: str, element: Element) -> str:
        return _WRAPPED[element].format(text) if element in _WRAPPED else text

    def dim(self, dim: Dim) -> str:
        """A Dim's exact value, in 64 bits: what of it has no axes is a size, which the host computes."""
        text = ""
        for coefficient, monomial in dim.terms:
            factors = [self._atom(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = (" - " if coefficient < 0 else " + ") if text else ("-" if coefficient < 0 else "")
            text += sign + " * ".join(factors)
        return text or "0"

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.variable(atom)
        range_ = ranges.of_dim(Dim({(atom,): 1}))
        if ranges.fits(range_, Element.I32):
            size = self.size(Dim({(atom,): 1}))
            if size is not None:
                return size
        if not isinstance(atom, Quotient):
            return f"min({', '.join(self.dim(item) for item in atom.items)})"
        above, below, divisor = self.dim(atom.dividend), self.dim(atom.divisor), atom.divisor.constant
        if divisor is not None and divisor & (divisor - 1) == 0:
            return f"({above} >> {divisor.bit_length() - 1})"  # rounds down
        low, high = ranges.of_dim(atom.dividend)
        if low >= 0 and ranges.fits((low, high), Element.I32) and ranges.fits(ranges.of_dim(atom.divisor), Element.I32):
            return f"ptx.divide({above}, {below})"
        return f"(({above}) // ({below}))"


def _literal(value: float, element: Element) -> str:
    if element == Element.BOOL:
        return str(bool(value))
    if element.is_integer:
        return str(int(value))
    text = repr(float(value))
    return f'float32(float("{text}"))' if text in ("inf", "-inf", "nan") else f"float32({text})"
