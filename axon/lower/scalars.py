"""Small things about scalar expressions of core: what they mention, putting something else for it, and arithmetic on sizes, which
is simplified as that on values is not."""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import copysign
from operator import add, floordiv, mod, mul, sub
from typing import assert_never

from axon.base.element import Element
from axon.base.functions import NamedMonoid
from axon.base.identity import IdentityMap, IdentitySet
from axon.base.names import Symbol
from axon.core.ir import Binary, Bind, Const, Convert, Index, Local, Monoid, Read, Scalar, Select, Unary
from axon.core.scalar_facts import comparison
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from axon.shapes.width import exact


def as_scalar(subscript: Dim | Scalar) -> Scalar:
    return Index(subscript) if isinstance(subscript, Dim) else subscript


def mentioned(scalar: Scalar | Dim, into: set[Symbol], seen: IdentitySet[Scalar]) -> None:
    """Add the axes, dimensions and locals (not tensors) that a scalar mentions. Shared parts are looked at once."""
    stack: list[Scalar | Dim | None] = [scalar]
    while stack:
        s = stack.pop()
        if s is None or isinstance(s, Const):
            continue
        if isinstance(s, Dim):
            into |= s.variables
            continue
        if s in seen:
            continue
        seen.add(s)
        match s:
            case Index(dim=dim):
                into |= dim.variables
            case Local(symbol=symbol):
                into.add(symbol)
            case Read(subscripts=subscripts, padding=padding):
                stack += subscripts
                stack.append(padding)
            case Unary(operand=operand) | Convert(operand=operand):
                stack.append(operand)
            case Binary(left=left, right=right):
                stack += (left, right)
            case Select(condition=c, then=a, otherwise=b):
                stack += (c, a, b)
            case Bind(bindings=bindings, body=body):
                stack += [v for _, v in bindings]
                stack.append(body)
            case _:
                assert_never(s)


# An operator that reduces by itself, what leaves it unchanged, and the name of the reduction.
_NAMED: dict[tuple[str, float | bool], NamedMonoid] = {
    ("add", 0): "sum", ("mul", 1): "prod", ("max", float("-inf")): "max", ("min", float("inf")): "min", ("or", False): "any",
    ("and", True): "all",
}  # fmt: skip


def recognized(monoid: Monoid) -> Monoid:
    """The named monoid that a custom one is, if it is one: `(op +, 0)` is a sum, and as precise and as fast as one.

    In f8e4m3, which has no infinity, a largest value is then right, where NaN would be no unit. Integers have no `max` of nothing:
    theirs stay custom, with the unit that the program names.
    """
    match monoid:
        case Monoid("custom", (Const(value, element),), (left,), (right,), (Binary(op, Local(a), Local(b)),)) if a != b:
            kind = _NAMED.get((op, value))
            if kind is None or {a, b} != {left, right} or (not value and copysign(1.0, value) < 0):  # to a dictionary -0.0 is 0
                return monoid
            return monoid if kind in ("max", "min") and element.is_integer else Monoid(kind)
        case _:
            return monoid


def substitute(
    scalar: Scalar, dims: Mapping[Symbol, Dim], locals_: Mapping[Symbol, Symbol], seen: IdentityMap[Scalar, Scalar] | None = None
) -> Scalar:
    """The scalar with other axes for some, and other names for some locals. Shared parts stay shared, also those that scalars
    share which are given the same `seen`."""
    return _substituted(scalar, dims, locals_, IdentityMap() if seen is None else seen)


def _substituted(
    s: Scalar, dims: Mapping[Symbol, Dim], locals_: Mapping[Symbol, Symbol], seen: IdentityMap[Scalar, Scalar]
) -> Scalar:
    found = seen.get(s)
    if found is not None:
        return found
    new: Scalar
    match s:
        case Const():
            return s
        case Read(tensor=tensor, subscripts=subscripts, element=element, padding=padding, checked=checked):
            places = [x.substitute(dims) if isinstance(x, Dim) else _substituted(x, dims, locals_, seen) for x in subscripts]
            inside = None if padding is None else _substituted(padding, dims, locals_, seen)
            new = Read(tensor, tuple(places), element, inside, checked)
        case Binary(op=op, left=left, right=right):
            new = Binary(op, _substituted(left, dims, locals_, seen), _substituted(right, dims, locals_, seen))
        case Index(dim=dim, element=element):
            new = Index(dim.substitute(dims), element)
        case Local(symbol=symbol, element=element):
            new = Local(locals_[symbol], element) if symbol in locals_ else s
        case Unary(op=op, operand=operand):
            new = Unary(op, _substituted(operand, dims, locals_, seen))
        case Select(condition=c, then=a, otherwise=b):
            new = Select(*[_substituted(x, dims, locals_, seen) for x in (c, a, b)])
        case Convert(operand=operand, element=element):
            new = Convert(_substituted(operand, dims, locals_, seen), element)
        case Bind(bindings=bindings, body=body):
            values = [(locals_.get(n, n), _substituted(v, dims, locals_, seen)) for n, v in bindings]
            new = Bind(tuple(values), _substituted(body, dims, locals_, seen))
        case _:
            assert_never(s)
    seen[s] = new
    return new


_OF_SIZES = {"add": add, "sub": sub, "mul": mul, "div": floordiv, "mod": mod}
_RELATIONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def facts(scalar: Scalar, holds: bool = True) -> tuple[Relation, ...]:
    """What a condition says about axes and dimensions if it holds, or if it does not."""
    match scalar:
        case Binary(op=op, left=left, right=right) if op in _RELATIONS:
            a, b = integer(left), integer(right)
            if a is None or b is None:
                return ()
            relation = Relation(a, _RELATIONS[op], b)
            return (relation if holds else relation.negated,)
        case Binary(op="and" | "or" as op, left=left, right=right) if (op == "and") == holds:
            return facts(left, holds) + facts(right, holds)
        case Unary(op="not", operand=operand):
            return facts(operand, not holds)
    return ()


def sizes_alone(scalar: Scalar, axes: Set[Symbol], holds: bool = True) -> tuple[Relation, ...] | None:
    """A condition as relations between sizes that say all that it does; None if it is about data, or about axes."""
    match scalar:
        case Const(value=bool() as value):
            return () if value is holds else (Relation(Dim.of(0), ">", Dim.of(0)),)
        case Binary(op=op) if op in _RELATIONS:
            found = facts(scalar, holds)
            return found if found and axes.isdisjoint(found[0].variables) else None
        case Binary(op="and" | "or" as op, left=left, right=right) if (op == "and") == holds:
            a, b = sizes_alone(left, axes, holds), sizes_alone(right, axes, holds)
            return None if a is None or b is None else a + b
        case Unary(op="not", operand=operand):
            return sizes_alone(operand, axes, not holds)
    return None


def integer(scalar: Scalar) -> Dim | None:
    """An i32, or a side of a `comparison`, as a Dim, if it is symbolic."""
    match scalar:
        case Index(dim=dim):
            return dim
        case Const(value=int() as value, element=Element.I32):
            return Dim.of(value)
    return None


def zero(element: Element) -> Const:
    return Const(False if element is Element.BOOL else 0.0 if element.is_float else 0, element)


def negated(number: Const) -> Const:
    """Integers wrap: there is no -1 in u8, and no 128 in i8."""
    if not number.element.is_integer:
        return Const(-number.value, number.element)
    low, high = number.element.limits
    return Const((-int(number.value) - low) % (high - low + 1) + low, number.element)


def simplified(op: str, left: Scalar, right: Scalar) -> Scalar:
    """A binary operation; on symbolic integers the sum, difference or product is symbolic too, and so are quotients by a number;
    comparisons are exact. What a condition comes to whatever its sizes are is a constant."""
    if isinstance(left, Index) or isinstance(right, Index):
        a, b = integer(left), integer(right)
        if a is not None and b is not None:
            if op in _OF_SIZES and (op not in ("div", "mod") or (b.constant or 0) >= 1):
                return Index(_OF_SIZES[op](a, b))
            if op in _RELATIONS:
                if (certain := Relation(a, _RELATIONS[op], b).trivial) is not None:
                    return Const(certain, Element.BOOL)
                if not (exact(a, 32) and exact(b, 32)):
                    return comparison(op, a, b)
    if op in ("and", "or"):
        for side, other in ((left, right), (right, left)):
            if isinstance(side, Const) and side.value is (op == "and"):
                return other
    return Binary(op, left, right)
