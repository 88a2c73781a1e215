"""The derivatives of scalar operations, as expressions of core.

One row for each function of `axon.base.functions` and each operator on floats. A row gives the derivative by an operand from the
operands and the result, which are names or literals, so that using one twice computes nothing twice. Where a function has no
derivative, the row says what stands for it; docs/reference.md, "Gradients", lists these points.

Formulas: NIST Digital Library of Mathematical Functions, §4 (elementary functions), §7.2 (error functions), §5.4 and §5.15 (the
gamma function), https://dlmf.nist.gov.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import COMPARISONS, Binary, Bind, Const, Local, Scalar, Select, Unary, element_of


def number(value: float, like: Scalar | Element) -> Const:
    return Const(float(value), like if isinstance(like, Element) else element_of(like))


def is_number(scalar: Scalar, value: float) -> bool:
    return isinstance(scalar, Const) and scalar.value == value


def times(a: Scalar, b: Scalar) -> Scalar:
    """A product; 1 and -1 are no factors. (0 is one: 0 · ∞ is not 0.)"""
    for one, other in ((a, b), (b, a)):
        if is_number(one, 1.0):
            return other
        if is_number(one, -1.0):
            return minus(other)
    return Binary("mul", a, b)


def over(a: Scalar, b: Scalar) -> Scalar:
    return Binary("div", a, b)


def plus(a: Scalar, b: Scalar) -> Scalar:
    return Binary("add", a, b)


def less(a: Scalar, b: Scalar) -> Scalar:
    return Binary("sub", a, b)


def minus(a: Scalar) -> Scalar:
    match a:
        case Const(value=value, element=element):
            return Const(-value, element)
        case Unary(op="neg", operand=operand):
            return operand
        case _:
            return Unary("neg", a)


def _square(a: Scalar) -> Scalar:
    return Binary("mul", a, a)


def _unary(op: str, a: Scalar) -> Scalar:
    return Unary(op, a)


def _inverse_of_root(inside: Callable[[Scalar], Scalar]) -> Callable[[Scalar, Scalar], Scalar]:
    return lambda x, _: Unary("rsqrt", inside(x))


def _trigamma(x: Scalar) -> Scalar:
    """ψ′ (DLMF 5.15.8 and 5.15.6): the asymptotic series from 8 on, recurrence below, reflection on the left of ½."""
    shift, terms = 8, (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # Bernoulli numbers of even order
    one = number(1, x)
    left = Binary("lt", x, number(0.5, x))
    z, w, r, value = (fresh(n) for n in ("z", "w", "r", "value"))

    def local(symbol: Symbol) -> Local:
        return Local(symbol, element_of(x))

    near: Scalar = number(0, x)
    for k in range(shift):
        near = plus(near, over(one, _square(plus(local(z), number(k, x)))))
    series: Scalar = number(0, x)  # of 1/w³ · (B2 + B4/w² + …), r = 1/w
    for b in reversed(terms):
        series = plus(number(b, x), Binary("mul", series, _square(local(r))))
    far = plus(local(r), Binary("mul", _square(local(r)), plus(number(0.5, x), Binary("mul", series, local(r)))))
    mirrored = less(over(number(pi * pi, x), _square(_unary("sin", times(number(pi, x), x)))), local(value))
    bindings = (
        (z, Select(left, less(one, x), x)),
        (w, plus(local(z), number(shift, x))),
        (r, over(one, local(w))),
        (value, plus(near, far)),
    )
    return Bind(bindings, Select(left, mirrored, local(value)))


# By its operand x and result y; None where the derivative is 0 wherever there is one.
UNARY: dict[str, Callable[[Scalar, Scalar], Scalar] | None] = {
    "neg": lambda x, y: number(-1, x),
    "exp": lambda x, y: y,
    "expm1": lambda x, y: plus(y, number(1, x)),
    "log": lambda x, y: over(number(1, x), x),
    "log1p": lambda x, y: over(number(1, x), plus(number(1, x), x)),
    "sqrt": lambda x, y: over(number(0.5, x), y),  # ∞ at 0
    "rsqrt": lambda x, y: over(times(number(-0.5, x), y), x),
    "cbrt": lambda x, y: over(number(1 / 3, x), _square(y)),  # ∞ at 0
    "sin": lambda x, y: _unary("cos", x),
    "cos": lambda x, y: minus(_unary("sin", x)),
    "asin": _inverse_of_root(lambda x: Binary("mul", less(number(1, x), x), plus(number(1, x), x))),
    "acos": lambda x, y: minus(_unary("rsqrt", Binary("mul", less(number(1, x), x), plus(number(1, x), x)))),
    "atan": lambda x, y: over(number(1, x), plus(number(1, x), _square(x))),
    "sinh": lambda x, y: _unary("cosh", x),
    "cosh": lambda x, y: _unary("sinh", x),
    "tanh": lambda x, y: less(number(1, x), _square(y)),
    "asinh": _inverse_of_root(lambda x: plus(_square(x), number(1, x))),
    "acosh": _inverse_of_root(lambda x: Binary("mul", less(x, number(1, x)), plus(x, number(1, x)))),
    "atanh": lambda x, y: over(number(1, x), Binary("mul", less(number(1, x), x), plus(number(1, x), x))),
    "erf": lambda x, y: times(number(2 / sqrt(pi), x), _unary("exp", minus(_square(x)))),
    "erfc": lambda x, y: times(number(-2 / sqrt(pi), x), _unary("exp", minus(_square(x)))),
    "erfinv": lambda x, y: times(number(sqrt(pi) / 2, x), _unary("exp", _square(y))),
    "lgamma": lambda x, y: _unary("digamma", x),
    "digamma": lambda x, y: _trigamma(x),
    "abs": lambda x, y: _unary("sign", x),  # 0 at 0
    "sign": None,
    "floor": None,
    "ceil": None,
    "round": None,
}


def _power_by_base(a: Scalar, b: Scalar, y: Scalar) -> Scalar:
    """b · a ** (b - 1), and 0 where b is 0."""
    if isinstance(b, Const):
        if b.value == 2.0:
            return times(b, a)
        return times(b, Binary("pow", a, number(b.value - 1, b))) if b.value else number(0, b)
    slope = Binary("mul", b, Binary("pow", a, less(b, number(1, b))))
    return Select(Binary("eq", b, number(0, b)), number(0, b), slope)


def _power_by_exponent(a: Scalar, b: Scalar, y: Scalar) -> Scalar:
    """y · log a, and 0 where a is 0 and b is not negative."""
    flat = Binary("and", Binary("eq", a, number(0, a)), Binary("ge", b, number(0, b)))
    return Select(flat, number(0, a), Binary("mul", y, _unary("log", a)))


def _left_wins(comparison: str, a: Scalar, b: Scalar) -> Scalar:
    """Whether the left operand of `max` or `min` is the result: also at a tie, and where it is NaN."""
    return Binary("or", Binary(comparison, a, b), Binary("ne", a, a))


def _when(condition: Scalar, then: float, otherwise: float, like: Scalar) -> Scalar:
    return Select(condition, number(then, like), number(otherwise, like))


_By = Callable[[Scalar, Scalar, Scalar], Scalar]

# By its left and its right operand: from the operands a and b and the result y.
BINARY: dict[str, tuple[_By, _By]] = {
    "add": (lambda a, b, y: number(1, a), lambda a, b, y: number(1, a)),
    "sub": (lambda a, b, y: number(1, a), lambda a, b, y: number(-1, a)),
    "mul": (lambda a, b, y: b, lambda a, b, y: a),
    "div": (lambda a, b, y: over(number(1, a), b), lambda a, b, y: minus(over(y, b))),
    "mod": (lambda a, b, y: number(1, a), lambda a, b, y: minus(_unary("floor", over(a, b)))),
    "pow": (_power_by_base, _power_by_exponent),
    "max": (
        lambda a, b, y: _when(_left_wins("ge", a, b), 1, 0, a),
        lambda a, b, y: _when(_left_wins("ge", a, b), 0, 1, a),
    ),
    "min": (
        lambda a, b, y: _when(_left_wins("le", a, b), 1, 0, a),
        lambda a, b, y: _when(_left_wins("le", a, b), 0, 1, a),
    ),
    "atan2": (
        lambda a, b, y: over(b, plus(_square(a), _square(b))),
        lambda a, b, y: minus(over(a, plus(_square(a), _square(b)))),
    ),
}


# Operations whose derivatives at finite operands are finite, but for an overflow.
_BOUNDED = "neg not sin cos atan tanh asinh erf erfc abs sign floor ceil round add sub mul max min and or"
BOUNDED = COMPARISONS.union(_BOUNDED.split())


def scaled(adjoint: Scalar, slope: Scalar) -> Scalar:
    """An adjoint times a derivative: a division stays one, and a choice between 1 and 0 chooses, so that 0 · ∞ is 0 there."""
    match slope:
        case Select(condition, then, otherwise):
            return Select(condition, scaled(adjoint, then), scaled(adjoint, otherwise))
        case Const(value=0.0):
            return slope
        case Binary("div", Const(value=1.0), divisor):
            return over(adjoint, divisor)
        case Unary("neg", operand):
            return minus(scaled(adjoint, operand))
        case _:
            return times(adjoint, slope)
