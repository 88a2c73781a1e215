"""The algebra of one-pass reductions: when a sum that depends on an earlier maximum can be made while that maximum still grows.

A sum over j of exp (t j - m), with m the maximum of all t j, needs m before it can begin. But exp (t - m') is exp (t - m) times
exp (m - m'): when the running maximum grows from m to m', what was summed so far is repaired by one multiplication. So it is for
every sum of products whose dependence on m is a factor free of j. The functions here bring expressions into the form in which that
can be read off: products into *factors*, exponents into *linear forms* over what varies with j, masks out to the top.

The rewriting is Milakov and Gimelshein's (Online normalizer calculation for softmax, 2018) for sums, and that of Dao et al.
(FlashAttention, 2022) for sums of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from math import inf, sqrt

from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Binary, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.core.walk import nodes, rewrite

Varies = Callable[[Scalar], bool]

ONE = Const(1.0, Element.F32)
ZERO = Const(0.0, Element.F32)


# ── arithmetic that folds what is trivial ───────────────────────────────────────────────────────────────────────────────


def plus(a: Scalar | None, b: Scalar | None) -> Scalar | None:
    """a + b; None is 0."""
    if a is None or b is None:
        return b if a is None else a
    return Binary("add", a, b)


def times(a: Scalar, b: Scalar) -> Scalar:
    if a == ONE or b == ONE:
        return b if a == ONE else a
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(float(a.value) * float(b.value), Element.F32)
    return Binary("mul", a, b)


def negated(a: Scalar) -> Scalar:
    return Const(-a.value, a.element) if isinstance(a, Const) else Unary("neg", a)


def inverse(a: Scalar) -> Scalar:
    return Binary("div", ONE, a)


def product(factors: Iterable[Scalar]) -> Scalar:
    out: Scalar = ONE
    for factor in factors:
        out = times(out, factor)
    return out


def substituted(scalar: Scalar, values: dict[Symbol, Scalar]) -> Scalar:
    """The expression with locals replaced."""
    return rewrite(scalar, lambda node: values.get(node.symbol) if isinstance(node, Local) else None)


def local_symbols(scalar: Scalar) -> frozenset[Symbol]:
    return frozenset(node.symbol for node in nodes(scalar) if isinstance(node, Local))


# ── factors ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def factors(scalar: Scalar) -> Iterator[Scalar]:
    """What multiplies to a float expression. A division is a product with an inverse, a negation one with -1."""
    match scalar:
        case Binary(op="mul", left=left, right=right):
            yield from factors(left)
            yield from factors(right)
        case Binary(op="div", left=left, right=right):
            yield from factors(left)
            yield from (_inverted(f) for f in factors(right))
        case Unary(op="neg", operand=operand):
            yield negated(ONE)
            yield from factors(operand)
        case _:
            if scalar != ONE:
                yield scalar


def _inverted(factor: Scalar) -> Scalar:
    match factor:
        case Unary(op="exp", operand=operand):
            return Unary("exp", negated(operand))
        case Unary(op="sqrt", operand=operand):
            return Unary("rsqrt", operand)
        case _:
            return inverse(factor)


# ── linear forms ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Linear:
    """The sum of coefficient · atom, where atoms vary and coefficients do not, and of `rest`, which does not."""

    terms: tuple[tuple[Scalar, Scalar], ...]  # coefficient, atom
    rest: Scalar | None

    def scaled(self, factor: Scalar) -> Linear:
        rest = None if self.rest is None else times(self.rest, factor)
        return Linear(tuple((times(c, factor), atom) for c, atom in self.terms), rest)

    def plus(self, other: Linear) -> Linear:
        terms = {atom: c for c, atom in self.terms}
        for c, atom in other.terms:
            terms[atom] = Binary("add", terms[atom], c) if atom in terms else c
        return Linear(tuple((c, atom) for atom, c in terms.items()), plus(self.rest, other.rest))

    def varying(self) -> Scalar | None:
        """The sum of its terms."""
        out: Scalar | None = None
        for c, atom in self.terms:
            out = plus(out, times(c, atom))
        return out


def linear(scalar: Scalar, varies: Varies) -> Linear:
    """An expression as a linear form; what is not linear in what varies is an atom."""
    if not varies(scalar):
        return Linear((), scalar)
    match scalar:
        case Binary(op="add", left=left, right=right):
            return linear(left, varies).plus(linear(right, varies))
        case Binary(op="sub", left=left, right=right):
            return linear(left, varies).plus(linear(right, varies).scaled(negated(ONE)))
        case Unary(op="neg", operand=operand):
            return linear(operand, varies).scaled(negated(ONE))
        case Binary(op="mul", left=left, right=right) if not varies(right):
            return linear(left, varies).scaled(right)
        case Binary(op="mul", left=left, right=right) if not varies(left):
            return linear(right, varies).scaled(left)
        case Binary(op="div", left=left, right=right) if not varies(right):
            return linear(left, varies).scaled(_inverted(right))
        case _:
            return Linear(((ONE, scalar),), None)


# ── masks ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def lifted(scalar: Scalar, varies: Varies, unit: float, sizes: frozenset[Symbol]) -> tuple[Scalar | None, Scalar]:
    """An expression as `if condition then inner else unit`, the condition None if there is none. `unit` is -inf or 0.

    A positive factor and, for -inf, an added finite value that does not vary leave the unit as it is, so masks move out of them.
    `sizes` are dimensions that are at least 1.
    """

    def lift(scalar: Scalar) -> tuple[Scalar | None, Scalar]:
        return lifted(scalar, varies, unit, sizes)

    def keeps(factor: Scalar) -> bool:
        return not varies(factor) and (unit == 0 or positive(factor, sizes))

    match scalar:
        case Select(condition=condition, then=then, otherwise=Const(value=value)) if value == unit:
            inner, x = lift(then)
            return both(condition, inner), x
        case Select(condition=condition, then=Const(value=value), otherwise=otherwise) if value == unit:
            inner, x = lift(otherwise)
            return both(Unary("not", condition), inner), x
        case Binary(op="mul" | "div" as op, left=left, right=right) if keeps(right):
            condition_, x = lift(left)
            return condition_, Binary(op, x, right)
        case Binary(op="mul", left=left, right=right) if keeps(left):
            condition_, x = lift(right)
            return condition_, Binary("mul", left, x)
        case Binary(op="add" | "sub" as op, left=left, right=right) if unit == -inf and not varies(right):
            condition_, x = lift(left)
            return condition_, Binary(op, x, right)
        case Binary(op="add", left=left, right=right) if unit == -inf and not varies(left):
            condition_, x = lift(right)
            return condition_, Binary("add", left, x)
        case _:
            return None, scalar


def both(a: Scalar | None, b: Scalar | None) -> Scalar | None:
    """a and b; None is true."""
    if a is None or b is None:
        return b if a is None else a
    return Binary("and", a, b)


SMALLEST, GREATEST = 2.0**-126, 2.0**127  # of what f32 keeps apart from 0 and infinity


def positive(scalar: Scalar, sizes: frozenset[Symbol]) -> bool:
    """Whether a float expression is certainly above 0. `sizes` are dimensions that are at least 1."""
    found = extremes(scalar, sizes)
    return found is not None and found[0] >= SMALLEST


def falls(scalar: Scalar, symbol: Symbol, sizes: frozenset[Symbol]) -> bool:
    """Whether an expression certainly is +inf where a local is -inf, and falls as that grows."""
    terms = linear(scalar, lambda s: symbol in local_symbols(s)).terms
    return bool(terms) and all(atom == Local(symbol, Element.F32) and positive(negated(c), sizes) for c, atom in terms)


def extremes(scalar: Scalar, sizes: frozenset[Symbol]) -> tuple[float, float] | None:
    """Between which numbers a float expression of constants and sizes lies, both of one sign; None if that is not sure. Nothing on
    its way overflows or underflows: an exponential might, and an index, which begins at 0, has no sign."""
    match scalar:
        case Const(value=value, element=element) if element.is_float:
            found = float(value), float(value)
        case Unary(op="neg", operand=operand):
            inner = extremes(operand, sizes)
            return None if inner is None else (-inner[1], -inner[0])
        case Unary(op="sqrt" | "rsqrt" as op, operand=operand):
            inner = extremes(operand, sizes)
            if inner is None or inner[0] <= 0:
                return None
            found = (sqrt(inner[0]), sqrt(inner[1])) if op == "sqrt" else (1 / sqrt(inner[1]), 1 / sqrt(inner[0]))
        case Convert(operand=operand, element=element) if element.is_float and element_of(operand).is_float:
            return extremes(operand, sizes)
        case Convert(operand=Index(dim=dim), element=element) if element.is_float:
            if dim.constant is not None:
                found = float(dim.constant), float(dim.constant)
            elif dim.symbol in sizes:
                found = 1.0, 2.0**31
            else:
                return None
        case Binary(op="mul" | "div" | "add" as op, left=left, right=right):
            a, b = extremes(left, sizes), extremes(right, sizes)
            if a is None or b is None:
                return None
            if op == "add":
                found = a[0] + b[0], a[1] + b[1]
            else:
                ends = [x * y if op == "mul" else x / y for x in a for y in b]
                found = min(ends), max(ends)
        case _:
            return None
    low, high = sorted(map(abs, found))
    return found if found[0] * found[1] > 0 and low >= SMALLEST and high <= GREATEST else None


def loosened(scalar: Scalar) -> Scalar:
    """The expression without conversions between floats: inside a kernel all floats have 32 bits."""

    def visit(node: Scalar) -> Scalar | None:
        match node:
            case Convert(operand=operand, element=element) if element.is_float and element_of(operand).is_float:
                return loosened(operand)
            case Const(value=value, element=element) if element.is_float and element != Element.F32:
                return Const(float(value), Element.F32)
            case _:
                return None

    return rewrite(scalar, visit)


def rounds_to_8_bits(weight: Scalar, inside: Set[Symbol]) -> bool:
    """Whether a factor of a product is rounded to an 8-bit float as it stands, or in the tensor that it is, if that is made
    `inside` of a stream."""
    match weight:
        case Binary(op="mul", left=left, right=right):
            return rounds_to_8_bits(left, inside) or rounds_to_8_bits(right, inside)
        case Convert(operand=operand, element=element) if _is_short(element) and element_of(operand) is not element:
            return element_of(operand).is_float
        case Convert(operand=operand, element=element) if element.is_float:
            return rounds_to_8_bits(operand, inside)
        case Read(tensor=tensor, element=element):
            return _is_short(element) and tensor in inside
        case _:
            return False


def _is_short(element: Element) -> bool:
    return element.is_float and element.bits == 8


def mentions_any(scalar: Scalar, symbols: frozenset[Symbol]) -> bool:
    """Whether an expression reads at, computes with, or is one of these indices and locals."""
    for node in nodes(scalar):
        match node:
            case Local(symbol=symbol) if symbol in symbols:
                return True
            case Index(dim=dim) if dim.variables & symbols:
                return True
            case Read(subscripts=subscripts) if any(getattr(s, "variables", frozenset()) & symbols for s in subscripts):
                return True
    return False
