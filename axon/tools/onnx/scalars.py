"""What one element of a tensor is, as a function of where it stands: how shapes, masks and positions fold.

A `Scalar` speaks of sizes and of axes, which are symbols too: the element of `Range(0, n)` at `i` is `i`, that of a causal mask at
`i, j` is `j <= i`. Integers of sizes and axes are `Dim`s, so that they have a normal form; what compares them is decided where it
holds for every size and place. Wherever elements are read, the place is substituted: no operator that only moves elements is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias, assert_never

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.shapes.dimension import Atom, Dim, Quotient

Bounds: TypeAlias = "Mapping[Symbol, Dim]"  # of axes: how many places there are


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer made of sizes and axes."""

    dim: Dim


@dataclass(frozen=True, slots=True)
class Number:
    value: float | bool


@dataclass(frozen=True, slots=True)
class Read:
    """The element of the result of a step at a place."""

    step: int
    place: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Compute:
    """An operator of Axon, one of its functions, `if`, or `cast` to an element type, applied to scalars."""

    op: str
    arguments: tuple[Scalar, ...]


Scalar: TypeAlias = "Whole | Number | Read | Compute"
TRUE, FALSE = Number(True), Number(False)
_SHIFTED = {"=": 0, "<": 1, "<=": 0}


def whole(value: Dim | Symbol | int) -> Whole:
    return Whole(Dim.of(value))


def substituted(scalar: Scalar, values: Mapping[Symbol, Scalar], bounds: Bounds) -> Scalar:
    """With scalars for axes, folded again."""
    match scalar:
        case Whole(dim):
            if not any(s in values for s in dim.variables):
                return scalar
            plain = {s: v.dim for s, v in values.items() if isinstance(v, Whole)}
            if all(s in plain for s in dim.variables if s in values):
                return Whole(settled(dim.substitute(plain), bounds))
            return _written(dim, values, bounds)
        case Number():
            return scalar
        case Read(step, place):
            return Read(step, tuple(substituted(s, values, bounds) for s in place))
        case Compute(op, arguments):
            return compute(op, tuple(substituted(a, values, bounds) for a in arguments), bounds)
        case _:
            assert_never(scalar)


def settled(dim: Dim, bounds: Bounds) -> Dim:
    """Without quotients of what is less than its divisor at every place."""

    def image(atom: Atom) -> Dim:
        if isinstance(atom, Quotient):
            low, room = least(atom.dividend, bounds), least(atom.divisor - 1 - atom.dividend, bounds)
            if low is not None and low >= 0 and room is not None and room >= 0:
                return Dim.of(0)
        return Dim({(atom,): 1})

    return dim.rewrite(image) if dim.quotients else dim


def _written(dim: Dim, values: Mapping[Symbol, Scalar], bounds: Bounds) -> Scalar:
    """A polynomial in which scalars that are no Dims stand for axes."""
    total: Scalar = whole(0)
    for coefficient, monomial in dim.terms:
        product: Scalar = whole(coefficient)
        for atom in monomial:
            factor = values.get(atom, whole(atom)) if isinstance(atom, Symbol) else Whole(Dim({(atom,): 1}))
            product = compute("*", (product, factor), bounds)
        total = compute("+", (total, product), bounds)
    return total


def compute(op: str, arguments: tuple[Scalar, ...], bounds: Bounds) -> Scalar:
    """An operation, folded as far as it is the same at every place and for all sizes."""
    match op, arguments:
        case "+" | "-" | "*" | "/" | "%", (Whole(a), Whole(b)):
            folded = _arithmetic(op, a, b)
            if folded is not None:
                return folded
        case "=" | "<" | "<=", (Whole(a), Whole(b)):
            known = _compared(op, b - a, bounds)
            if known is not None:
                return Number(known)
        case "=", (Whole() as a, b) if a == b:
            return TRUE
        case "<>", (a, b):
            return compute("not", (compute("=", (a, b), bounds),), bounds)
        case ">" | ">=", (a, b):
            return compute({">": "<", ">=": "<="}[op], (b, a), bounds)
        case "not", (Number(value),):
            return Number(not value)
        case "not", (Compute("not", (inner,)),):
            return inner
        case "andalso", (a, b) if TRUE in (a, b):
            return b if a == TRUE else a
        case "andalso", (a, b) if FALSE in (a, b):
            return FALSE
        case "orelse", (a, b) if FALSE in (a, b):
            return b if a == FALSE else a
        case "orelse", (a, b) if TRUE in (a, b):
            return TRUE
        case "if", (Number(value), then, otherwise):
            return then if value else otherwise
        case "if", (condition, Number(True), Number(False)) if is_bool(condition):
            return condition
        case "if", (condition, Number(False), Number(True)) if is_bool(condition):
            return compute("not", (condition,), bounds)
        case "if", (Compute("not", (condition,)), then, otherwise):
            return compute("if", (condition, otherwise, then), bounds)
        case "if", (_, then, otherwise) if then == otherwise:
            return then
        case "cast bool", (a,) if is_bool(a):
            return a
        case "cast bool", (Whole() | Read() as a,):
            return compute("<>", (a, whole(0)), bounds)
        case "cast i32", (Whole() as a,):
            return a
        case "cast i32", (Number(value),) if isinstance(value, bool) or math.isfinite(value):
            return whole(int(value))
        case "cast i32", (a,) if is_bool(a):
            return compute("if", (a, whole(1), whole(0)), bounds)
        case "cast f32", (Whole(a),) if a.constant is not None:
            return Number(float(a.constant))
        case "max" | "min", (Whole(a), Whole(b)):
            if _compared("<=", b - a, bounds):
                return Whole(b if op == "max" else a)
            if _compared("<=", a - b, bounds):
                return Whole(a if op == "max" else b)
        case "+", (a, b) if whole(0) in (a, b):
            return b if a == whole(0) else a
        case "*", (a, b) if whole(1) in (a, b):
            return b if a == whole(1) else a
        case "/", (a, Whole(b)) if b.constant == 1:
            return a
    if op in _NUMERIC and all(isinstance(a, Number) for a in arguments):
        numbers = [a.value for a in arguments if isinstance(a, Number)]
        folded_number = _NUMERIC[op](*numbers)
        if folded_number is not None:
            return Number(folded_number)
    inside = _into_branch(op, arguments, bounds)
    return Compute(op, arguments) if inside is None else inside


def _into_branch(op: str, arguments: tuple[Scalar, ...], bounds: Bounds) -> Scalar | None:
    """An operation on an `if` and constants or the same `if` is done in its branches where that folds one of them at least."""
    choices = {a.arguments[0] for a in arguments if isinstance(a, Compute) and a.op == "if"}
    if op == "if" or len(choices) != 1:
        return None
    (condition,) = choices
    sides = []
    for side in (1, 2):
        taken = tuple(a.arguments[side] if isinstance(a, Compute) and a.op == "if" else a for a in arguments)
        facts = _at_edge(condition, side == 1, bounds)
        sides.append(compute(op, tuple(substituted(a, facts, bounds) for a in taken), bounds))
    if sides[0] == sides[1]:
        return sides[0]
    if any(isinstance(side, Number | Whole) for side in sides):
        return compute("if", (condition, *sides), bounds)
    return None


def _at_edge(condition: Scalar, holds: bool, bounds: Bounds) -> Mapping[Symbol, Scalar]:
    """What an axis is where a condition leaves it one place: 0 where `i < 1`."""
    match condition:
        case Compute("<", (Whole(a), Whole(b))) if holds and a.symbol in bounds and b.constant == 1:
            return {a.symbol: whole(0)} if a.symbol is not None else {}
    return {}


def _arithmetic(op: str, a: Dim, b: Dim) -> Scalar | None:
    match op:
        case "+":
            return Whole(a + b)
        case "-":
            return Whole(a - b)
        case "*":
            return Whole(a * b)
        case _ if b.constant is None or b.constant < 1:
            return None
        case "/":
            return Whole(a // b)
        case _:
            return Whole(a % b)


def _compared(op: str, gap: Dim, bounds: Bounds) -> bool | None:
    """Whether `a op b` holds everywhere, or nowhere, of `gap = b - a`."""
    low, high = least(gap, bounds), least(-gap, bounds)
    if op == "=":
        if gap.constant is not None:
            return gap.constant == 0
        return False if (low is not None and low > 0) or (high is not None and high > 0) else None
    shift = _SHIFTED[op]
    if low is not None and low - shift >= 0:
        return True
    if high is not None and high - (1 - shift) >= 0:
        return False
    return None


def least(dim: Dim, bounds: Bounds) -> int | None:
    """A number that a dimension is never below, for axes within bounds and sizes of at least 1, if that is plain to see."""
    for symbol in sorted(dim.variables & bounds.keys(), key=lambda s: s.id):
        parts = dim.linear_in(symbol)
        if parts is None or parts[0].constant is None:
            return None
        slope, rest = parts
        dim = rest if slope.offset >= 0 else rest + slope * (bounds[symbol] - 1)
    if dim.compound:
        return None
    shifted = dim.substitute({s: Dim.of(s) + 1 for s in dim.variables})
    return shifted.offset if all(c >= 0 for c, m in shifted.terms if m) else None


def is_bool(scalar: Scalar) -> bool:
    match scalar:
        case Number(value):
            return isinstance(value, bool)
        case Compute("if", (_, then, _)):
            return is_bool(then)
        case Compute(op, _):
            return op in ("=", "<>", "<", "<=", ">", ">=", "andalso", "orelse", "not", "cast bool")
        case _:
            return False


def reads(scalar: Scalar) -> tuple[int, ...]:
    """The steps that a scalar reads, each once, in the order of the text."""
    match scalar:
        case Whole() | Number():
            return ()
        case Read(step, place):
            return tuple(dict.fromkeys((step, *(s for p in place for s in reads(p)))))
        case Compute(_, arguments):
            return tuple(dict.fromkeys(s for a in arguments for s in reads(a)))
        case _:
            assert_never(scalar)


def renamed(scalar: Scalar, steps: Mapping[int, int]) -> Scalar:
    """With other steps read."""
    match scalar:
        case Whole() | Number():
            return scalar
        case Read(step, place):
            return Read(steps[step], tuple(renamed(p, steps) for p in place))
        case Compute(op, arguments):
            return Compute(op, tuple(renamed(a, steps) for a in arguments))
        case _:
            assert_never(scalar)


def variables(scalar: Scalar) -> frozenset[Symbol]:
    """The sizes and axes that it speaks of."""
    match scalar:
        case Whole(dim):
            return dim.variables
        case Number():
            return frozenset()
        case Read(_, place):
            return frozenset().union(*(variables(p) for p in place))
        case Compute(_, arguments):
            return frozenset().union(*(variables(a) for a in arguments))
        case _:
            assert_never(scalar)


def _divided(a: float, b: float) -> float | None:
    return a / b if b else None


def _power(a: float, b: float) -> float | None:
    try:
        value = a**b
    except (OverflowError, ZeroDivisionError):
        return None
    return value if isinstance(value, float) else None


def _within(function: Callable[[float], float]) -> Callable[[float], float | None]:
    def guarded(x: float) -> float | None:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return None

    return guarded


_NUMERIC: dict[str, Callable[..., float | bool | None]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _divided, "**": _power,
    "=": lambda a, b: a == b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    "max": max, "min": min, "negate": lambda a: -a, "abs": abs,
    "exp": _within(math.exp), "log": _within(math.log), "sqrt": _within(math.sqrt), "cast f32": float,
}  # fmt: skip
