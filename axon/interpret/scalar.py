"""Scalar expressions over a box of indices: one NumPy operation for each node, on only the axes that the node depends on."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.interpret.arithmetic import Array, binary, constant, convert, unary
from axon.interpret.frame import Frame, Masks
from axon.interpret.read import read


def evaluate(scalar: Scalar, frame: Frame, masks: Masks = ()) -> Array:
    """The expression's values where the masks hold, of the dtype of its element type; arbitrary elsewhere.

    Checks (of indices, of divisors) look only at points where the masks hold, so code that is not taken cannot fail.
    """
    match scalar:
        case Const(value=value, element=element):
            return constant(value, element, frame.rank)
        case Index(dim=dim, element=element):
            return frame.index(dim, masks).astype(element.dtype)
        case Local(symbol=symbol):
            return frame.locals[symbol]
        case Read():
            return read(scalar, frame, masks, evaluate)
        case Unary(op=op, operand=operand):
            return unary(op, evaluate(operand, frame, masks), element_of(operand))
        case Binary():
            return _binary(scalar, frame, masks)
        case Select(condition=condition, then=then, otherwise=otherwise):
            taken = evaluate(condition, frame, masks)
            if taken.all():
                return evaluate(then, frame, masks)
            if not taken.any():
                return evaluate(otherwise, frame, masks)
            return np.where(
                taken, evaluate(then, frame, (*masks, taken)), evaluate(otherwise, frame, (*masks, np.logical_not(taken)))
            )
        case Convert(operand=operand, element=element):
            return convert(evaluate(operand, frame, masks), element_of(operand), element)
        case Bind():
            return evaluate(enter(scalar, frame, masks), frame, masks)
        case _:
            assert_never(scalar)


def enter(scalar: Scalar, frame: Frame, masks: Masks) -> Scalar:
    """Evaluate the bindings around an expression into the frame's locals; what stands inside them."""
    while isinstance(scalar, Bind):
        for symbol, value in scalar.bindings:
            frame.locals[symbol] = evaluate(value, frame, masks)
        scalar = scalar.body
    return scalar


def _binary(node: Binary, frame: Frame, masks: Masks) -> Array:
    left = evaluate(node.left, frame, masks)
    element = element_of(node.left)
    match node.op:
        case "and":
            return left if not left.any() else np.logical_and(left, evaluate(node.right, frame, (*masks, left)))
        case "or":
            other = np.logical_not(left)
            return left if not other.any() else np.logical_or(left, evaluate(node.right, frame, (*masks, other)))
    right = evaluate(node.right, frame, masks)
    if element.is_integer and node.op in ("div", "mod"):
        right = frame.divisor(right, masks)
    elif element.is_integer and node.op == "pow":
        right = _exponent(right, frame, masks)
    return binary(node.op, left, right, element)


def _exponent(values: Array, frame: Frame, masks: Masks) -> Array:
    negative = values < 0
    if frame.among(negative, masks) is not None:
        frame.fail("AX0503", "an integer raised to a negative power")
    return np.where(negative, values.dtype.type(0), values)


def depends(scalar: Scalar, axes: frozenset[Symbol], locals: dict[Symbol, frozenset[Symbol]]) -> frozenset[Symbol]:
    """The axes that an expression's value varies along, at most. `locals` says it of those in scope, and learns of new ones."""
    match scalar:
        case Const():
            return frozenset()
        case Index(dim=dim):
            return dim.variables & axes
        case Local(symbol=symbol):
            return locals[symbol]
        case Read(subscripts=subscripts, padding=padding):
            found: frozenset[Symbol] = frozenset() if padding is None else depends(padding, axes, locals)
            for sub in subscripts:
                found |= depends(sub, axes, locals) if not hasattr(sub, "variables") else sub.variables & axes
            return found
        case Unary(operand=operand) | Convert(operand=operand):
            return depends(operand, axes, locals)
        case Binary(left=left, right=right):
            return depends(left, axes, locals) | depends(right, axes, locals)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return depends(condition, axes, locals) | depends(then, axes, locals) | depends(otherwise, axes, locals)
        case Bind():
            return depends(unbind(scalar, axes, locals), axes, locals)
        case _:
            assert_never(scalar)


def unbind(scalar: Scalar, axes: frozenset[Symbol], locals: dict[Symbol, frozenset[Symbol]]) -> Scalar:
    """What stands inside the bindings around an expression; `locals` learns of them."""
    while isinstance(scalar, Bind):
        for symbol, value in scalar.bindings:
            locals[symbol] = depends(value, axes, locals)
        scalar = scalar.body
    return scalar


def factors(scalar: Scalar) -> list[Scalar]:
    """The factors of a product, in order; of any other expression, itself."""
    found, pending = [], [scalar]
    while pending:
        node = pending.pop()
        if isinstance(node, Binary) and node.op == "mul":
            pending += (node.right, node.left)
        else:
            found.append(node)
    return found


def product(scalar: Scalar, frame: Frame, masks: Masks) -> Array:
    """An addend of a sum, in the accumulator of its element type: its factors are multiplied there and not rounded before.

    Only for element types whose accumulator is wider does that differ from `evaluate`.
    """
    element = element_of(scalar)
    inner = enter(scalar, frame, masks)
    if element.accumulator is element:
        return evaluate(inner, frame, masks)
    result, *others = [convert(evaluate(f, frame, masks), element, Element.F32) for f in factors(inner)]
    for other in others:
        result = result * other
    return result
