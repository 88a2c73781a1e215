"""Scalar expressions of epilogues and streams over a piece of a tile, in NumPy: what the simulator computes.

Floats have 32 bits, as on the device; integers wrap in their element type, as core says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import erf
from typing import Any

import numpy as np

from axon.core import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.element import Element
from axon.names import Symbol
from axon.shapes.dimension import Atom, Dim, Quotient

Array = Any  # numpy.ndarray

_UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative, "not": np.logical_not, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "erf": np.vectorize(erf, otypes=[np.float32]), "abs": np.abs, "sign": np.sign,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint,
}  # fmt: skip
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.mod, "pow": np.power, "max": np.maximum,
    "min": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


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
                return self._held(self._dim(dim), element)
            case Read(tensor=tensor, subscripts=subscripts, element=element):
                array = self.tensors[tensor]
                at = [self.axes[s.symbol] for s in subscripts if isinstance(s, Dim) and s.symbol is not None]
                # Beyond the edges values do not matter: they are never stored.
                clipped = tuple(np.minimum(i, n - 1) for i, n in zip(at, array.shape, strict=True))
                return self._held(np.asarray(array[clipped]), element)
            case Unary(op=op, operand=operand):
                return _UNARY[op](self._value(operand))
            case Binary(op=op, left=left, right=right):
                combine = np.floor_divide if op == "div" and element_of(left).is_integer else _BINARY[op]
                return combine(self._value(left), self._value(right))
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
            return values.astype(np.float32)
        return values.astype(np.int64 if self.wide and element.is_integer else element.dtype)

    def _converted(self, values: Array, source: Element, target: Element) -> Array:
        if source.is_float and target.is_integer:  # truncates and saturates
            limits = np.iinfo(target.dtype)
            limited = np.clip(np.nan_to_num(np.trunc(values.astype(np.float64)), nan=0.0), limits.min, limits.max)
            return self._held(limited.astype(np.int64), target)
        return values != 0 if target is Element.BOOL else self._held(values, target)

    def _dim(self, dim: Dim) -> Array:
        total: Array = np.int64(0)
        for monomial, factor in dim.mapping.items():
            total = total + reduce(np.multiply, map(self._atom, monomial), np.int64(factor))
        return np.asarray(total)

    def _atom(self, atom: Atom) -> Array:
        if isinstance(atom, Symbol):
            return np.asarray(self.axes.get(atom, self.sizes.get(atom)), np.int64)
        if isinstance(atom, Quotient):
            return np.floor_divide(self._dim(atom.dividend), self._dim(atom.divisor))
        return reduce(np.minimum, map(self._dim, atom.items))
