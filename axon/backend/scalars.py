"""Scalar expressions of epilogues as Python for numba: floats are float32 whatever their element type, integers as numba has them.

A kernel may keep more precision than an element type has; values are rounded when they are stored.
"""

from __future__ import annotations

from collections.abc import Callable

from axon.backend.unsupported import Unsupported
from axon.core import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.element import Element
from axon.names import Symbol
from axon.shapes.dimension import Dim

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
_UNARY_INT = {"abs": "abs({0})", "sign": "(1 if {0} > 0 else (-1 if {0} < 0 else 0))"}
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
_BINARY_INT = {"max": "max({0}, {1})", "min": "min({0}, {1})", "div": "{0} // {1}"}


# What may stand for the above where the result has 16 bits.
_NARROW = {
    "exp": "ptx.narrow_exp({0})", "erf": "ptx.narrow_erf({0})", "tanh": "ptx.narrow_tanh({0})", "rsqrt": "ptx.narrow_rsqrt({0})",
    "div": "ptx.narrow_div({0}, {1})",
}  # fmt: skip


class Writer:
    """Turns one scalar expression into assignments and a final expression.

    `narrow`: the result is stored in 16 bits, so that functions need not be more exact than 2^-20. `read` and `variable` name the
    value of a read and of a variable of a Dim; `local` that of a local from outside the expression.
    """

    def __init__(
        self, read: Callable[[Read], str], variable: Callable[[Symbol], str], local: dict[Symbol, str], *, narrow: bool = False,
        prefix: str = "v",
    ) -> None:  # fmt: skip
        self.read, self.variable, self.local, self.prefix = read, variable, dict(local), prefix
        self.narrow = _NARROW if narrow else {}
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
            case Index(dim=dim):
                return _dim(dim, self.variable)
            case Unary(op=op, operand=operand):
                special = self.narrow | _UNARY_FLOAT if element_of(operand).is_float else _UNARY_INT
                return (special.get(op) or _UNARY[op]).format(self.value(operand))
            case Binary(op=op, left=left, right=right):
                special = _BINARY_FLOAT | self.narrow if element_of(left).is_float else _BINARY_INT
                template = special.get(op) or _BINARY.get(op)
                if template is None:
                    raise Unsupported(f"an epilogue computes `{op}` on {element_of(left).value}")
                return template.format(self.value(left), self.value(right))
            case Select(condition=condition, then=then, otherwise=otherwise):
                return f"{self.value(then)} if {self.value(condition)} else {self.value(otherwise)}"
            case Convert(operand=operand, element=element):
                value, source = self.value(operand), element_of(operand)
                if element.is_float:
                    return value if source.is_float else f"float32({value})"
                if element == Element.BOOL:
                    return f"{value} != 0"
                return f"int32({value})"
            case _:
                raise AssertionError(scalar)


def _literal(value: float, element: Element) -> str:
    if element == Element.BOOL:
        return str(bool(value))
    if element.is_integer:
        return str(int(value))
    text = repr(float(value))
    return f'float32(float("{text}"))' if text in ("inf", "-inf", "nan") else f"float32({text})"


def _dim(dim: Dim, variable: Callable[[Symbol], str]) -> str:
    """A polynomial over variables; `contraction` has seen to it that there is nothing else in it."""
    terms = []
    for coefficient, monomial in dim.terms:
        names = [variable(a) for a in monomial if isinstance(a, Symbol)]
        terms.append(" * ".join([str(coefficient), *names]))
    return f"int32({' + '.join(terms) or '0'})"
