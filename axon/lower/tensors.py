"""Working with compile-time values: their leaves, broadcasting, choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from axon.base.element import Element
from axon.core.ir import Binary, Const, Index, Local, Read, Scalar, Select, element_of, identity
from axon.lower.value import Closure, Primitive, RecordValue, Subscripts, TensorValue, TupleValue, Value
from axon.shapes.dimension import Dim
from axon.types import typed as T

ONE = Dim.of(1)


def scalar_value(scalar: Scalar, element: Element) -> TensorValue:
    return TensorValue(element, (), lambda _: scalar)


def leaves(value: Value) -> list[TensorValue]:
    match value:
        case TensorValue():
            return [value]
        case TupleValue(items):
            return [x for i in items for x in leaves(i)]
        case RecordValue(fields):
            return [x for i in fields.values() for x in leaves(i)]
        case _:
            raise AssertionError("a function where data is needed")


def is_guarded(value: Value) -> bool:
    """Whether something in a value is right only where the guards of its making hold."""
    match value:
        case TensorValue():
            return value.guarded
        case TupleValue(items):
            return any(map(is_guarded, items))
        case RecordValue(fields):
            return any(map(is_guarded, fields.values()))
        case Closure(given=given) | Primitive(given=given):
            return any(map(is_guarded, given))
        case _:
            assert_never(value)


def rebuild(value: Value, new: Sequence[TensorValue]) -> Value:
    """The structure of a value with other tensors as its leaves."""
    return new[0] if isinstance(value, TensorValue) else _rebuilt(value, iter(new))


def _rebuilt(value: Value, rest: Iterator[TensorValue]) -> Value:
    match value:
        case TensorValue():
            return next(rest)
        case TupleValue(items):
            return TupleValue(tuple([_rebuilt(i, rest) for i in items]))
        case RecordValue(fields):
            return RecordValue({n: _rebuilt(f, rest) for n, f in fields.items()})
        case _:
            return value


def broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of a pointwise operation; the checker has seen that the dimensions agree."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(longer) - len(shorter)
    tail = tuple(y if x == ONE else x for x, y in zip(longer[lead:], shorter, strict=True))
    return (*longer[:lead], *tail)


def spread(value: TensorValue, shape: tuple[Dim, ...]) -> TensorValue:
    """The tensor of a shape whose elements are all this scalar: `for ..s => value`."""
    return TensorValue(value.element, shape, lambda _: value.at(()), guarded=value.guarded)


def stretched(s: Subscripts, shape: tuple[Dim, ...], out: tuple[Dim, ...]) -> Subscripts:
    """The subscripts into an operand of a pointwise operation, given those into its result."""
    tail = s[len(s) - len(shape) :]
    sizes = out[len(out) - len(shape) :]
    return tuple(Dim.of(0) if d == ONE and x != ONE else i for i, d, x in zip(tail, shape, sizes, strict=True))


def along(plan: tuple[Dim, Dim], at: Dim | Scalar) -> Dim | Scalar:
    start, step = plan
    if isinstance(at, Dim):
        return start + step * at
    element = element_of(at)
    scaled = at if step == ONE else Binary("mul", at, Index(step, element))
    return scaled if start == Dim.of(0) else Binary("add", scaled, Index(start, element))


def choice(condition: Scalar, a: TensorValue, b: TensorValue) -> TensorValue:
    if not a.shape:
        return scalar_value(Select(condition, a.at(()), b.at(())), a.element)
    return TensorValue(a.element, a.shape, lambda s: Select(condition, a.at(s), b.at(s)), lazy=True)


def widened(value: TensorValue, shape: tuple[Dim, ...]) -> TensorValue:
    return TensorValue(value.element, shape, lambda s: value.at(stretched(s, value.shape, shape)), lazy=True)


def ordered(value: Value, like: Value) -> Value:
    """The value with its records' fields in the order of another of the same type."""
    match value, like:
        case RecordValue(fields), RecordValue(order):
            return RecordValue({n: ordered(fields[n], x) for n, x in order.items()})
        case TupleValue(items), TupleValue(others):
            return TupleValue(tuple(ordered(a, b) for a, b in zip(items, others, strict=True)))
        case _:
            return value


def unit_of(kind: str, like: TensorValue) -> TensorValue:
    """What a reduction of nothing gives. Integers have no largest and smallest; a contract keeps those from being empty."""
    value = identity(kind, like.element)
    return TensorValue(like.element, like.shape, lambda _: Const(value, like.element), lazy=True)


def is_plain(scalar: Scalar) -> bool:
    """Whether evaluating a scalar again costs nothing worth a name."""
    return isinstance(scalar, (Const, Index, Local)) or (
        isinstance(scalar, Read) and scalar.padding is None and all(isinstance(s, Dim) for s in scalar.subscripts)
    )


def name_of(pattern: T.Pattern) -> str:
    return pattern.symbol.name if isinstance(pattern, T.PatternName) and pattern.symbol.name != "_" else "t"
