"""Scalar expressions of epilogues and streams over a piece of a tile, in NumPy: what the simulator computes.

Floats but f64 have 32 bits, as on the device; integers wrap in their element type. What operators do is what the interpreter says.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np

from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.interpret.arithmetic import BINARY, UNARY, convert
from axon.shapes.dimension import Atom, Dim, Quotient

Array = Any  # numpy.ndarray


@dataclass(slots=True)
class Values:
    """Evaluates expressions where axes have these indices. `wide`: integers have 64 bits, as where bounds are computed."""

    tensors: Mapping[Symbol, Array]
    sizes: Mapping[Symbol, int]
    axes: dict[Symbol, Array]
    locals: dict[Symbol, Array]
    wide: bool = False

    def value(self, scalar: Scalar) -> Array:
        with np.errstate(all="ignore"):
            return self._value(scalar)

    def _value(self, scalar: Scalar) -> Array:
        match scalar:
            case Const(value=value, element=element):
                return self._held(np.asarray(value), element)
            case Local(symbol=symbol):
                return self.locals[symbol]
            case Index(dim=dim, element=element):
                return self._held(self.dim(dim), element)
            case Read(tensor=tensor, subscripts=subscripts, element=element):
                array = self.tensors[tensor]
                at = [self.dim(s) for s in subscripts if isinstance(s, Dim)]
                # Beyond the edges values do not matter: they are never stored.
                clipped = tuple(np.minimum(i, n - 1) for i, n in zip(at, array.shape, strict=True))
                return self._held(np.asarray(array[clipped]), element)
            case Unary(op=op, operand=operand):
                return UNARY[op](self._value(operand))
            case Binary(op="div", left=left, right=right):
                divide = np.true_divide if element_of(left).is_float else np.floor_divide
                return divide(self._value(left), self._value(right))
            case Binary(op=op, left=left, right=right):
                return BINARY[op](self._value(left), self._value(right))
            case Select(condition=condition, then=then, otherwise=otherwise):
                return np.where(self._value(condition), self._value(then), self._value(otherwise))
            case Convert(operand=operand, element=element):
                return self._converted(np.asarray(self._value(operand)), element_of(operand), element)
            case Bind(bindings=bindings, body=body):
                for symbol, bound in bindings:
                    self.locals[symbol] = self._value(bound)
                return self._value(body)

    def _held(self, values: Array, element: Element) -> Array:
        """Values of an element type as they are held here."""
        if element.is_float:
            rounded = values.astype(element.dtype) if element.bits == 8 else values
            return rounded.astype(np.float64 if element is Element.F64 else np.float32)
        return values.astype(np.int64 if self.wide and element.is_integer else element.dtype)

    def _converted(self, values: Array, source: Element, target: Element) -> Array:
        if source.is_float and target.is_integer:
            return self._held(convert(values, Element.F32, target), target)
        return values != 0 if target is Element.BOOL else self._held(values, target)

    def dim(self, dim: Dim) -> Array:
        """A size, or an index where the axes are."""
        total: Array = np.int64(0)
        for monomial, factor in dim.mapping.items():
            total = total + reduce(np.multiply, map(self._atom, monomial), np.int64(factor))
        return np.asarray(total)

    def _atom(self, atom: Atom) -> Array:
        if isinstance(atom, Symbol):
            return np.asarray(self.axes.get(atom, self.sizes.get(atom)), np.int64)
        if isinstance(atom, Quotient):
            return np.floor_divide(self.dim(atom.dividend), self.dim(atom.divisor))
        return reduce(np.minimum, map(self.dim, atom.items))
