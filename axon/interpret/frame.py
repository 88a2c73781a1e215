"""Where scalar expressions are evaluated: over a box of indices at once.

Every value is an array of `Frame.rank` dimensions, of size 1 along each axis that the value does not depend on. Dimension 0 is
spare (scans and reductions by custom monoids combine along it), so no value has rank 0. A box is never
empty: the callers see to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import NoReturn, TypeAlias

import numpy as np

from axon.base.data import dataclass, field, replace
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.base.source import Span
from axon.interpret.arithmetic import Array
from axon.shapes.dimension import Atom, Dim, Quotient, parts

Masks: TypeAlias = "tuple[Array, ...]"  # conditions that all hold where an expression is evaluated


@dataclass(frozen=True, slots=True)
class Range:
    """An axis of the box: which dimension of the arrays it is, and its indices from `low` to `high - 1`."""

    position: int
    low: int
    high: int


@dataclass(slots=True)
class Frame:
    """`dims` and `tensors` are the program's; `axes` the box; `locals` what Binds and monoids introduced."""

    dims: Mapping[Symbol, int]
    tensors: Mapping[Symbol, Array]
    axes: Mapping[Symbol, Range]
    rank: int
    span: Span | None = None
    locals: dict[Symbol, Array] = field(default_factory=dict)
    ramps: dict[Symbol, Array] = field(default_factory=dict)

    def ramp(self, symbol: Symbol) -> Array:
        """The values of an axis, int64, along its dimension."""
        if symbol not in self.ramps:
            axis = self.axes[symbol]
            shape = [1] * self.rank
            shape[axis.position] = axis.high - axis.low
            self.ramps[symbol] = np.arange(axis.low, axis.high, dtype=np.int64).reshape(shape)
        return self.ramps[symbol]

    def affine(self, dim: Dim) -> tuple[int, dict[Symbol, int]] | None:
        """A Dim as a constant and its coefficients over the axes, or None where it is not affine in them."""
        constant = 0
        coefficients: dict[Symbol, int] = {}
        for monomial, coefficient in dim.mapping.items():
            axis = None
            for atom in monomial:
                if isinstance(atom, Symbol):
                    if atom not in self.axes:
                        coefficient *= self.dims[atom]
                    elif axis is None:
                        axis = atom
                    else:
                        return None
                elif any(not part.variables.isdisjoint(self.axes) for part in parts(atom)):
                    return None
                else:
                    try:
                        coefficient *= Dim({(atom,): 1}).evaluate(self.dims)
                    except ZeroDivisionError:
                        return None  # `index` knows whether it is evaluated
            if axis is None:
                constant += coefficient
            else:
                coefficients[axis] = coefficients.get(axis, 0) + coefficient
        return constant, {symbol: c for symbol, c in coefficients.items() if c}

    def bounds(self, affine: tuple[int, dict[Symbol, int]]) -> tuple[int, int]:
        """The least and the greatest value of an affine index over the box."""
        low = high = affine[0]
        for symbol, coefficient in affine[1].items():
            axis = self.axes[symbol]
            ends = coefficient * axis.low, coefficient * (axis.high - 1)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def index(self, dim: Dim, masks: Masks) -> Array:
        """A Dim's values over the box, int64."""
        affine = self.affine(dim)
        if affine is not None:
            constant, coefficients = affine
            total = np.full((1,) * self.rank, _wrapped(constant), np.int64)
            for symbol, coefficient in coefficients.items():
                total = total + _wrapped(coefficient) * self.ramp(symbol)
            return total
        total = np.zeros((1,) * self.rank, np.int64)
        for monomial, factor in dim.mapping.items():
            product = np.full((1,) * self.rank, factor, np.int64)
            for atom in monomial:
                product = product * self._atom(atom, masks)
            total = total + product
        return total

    def _atom(self, atom: Atom, masks: Masks) -> Array:
        if isinstance(atom, Symbol):
            return self.ramp(atom) if atom in self.axes else np.full((1,) * self.rank, self.dims[atom], np.int64)
        values = [self.index(part, masks) for part in parts(atom)]
        if isinstance(atom, Quotient):
            return np.floor_divide(values[0], self.divisor(values[1], masks))
        return reduce(np.minimum, values)

    def divisor(self, values: Array, masks: Masks) -> Array:
        """Integer divisors, of which those that are evaluated are not 0; the others become 1."""
        zero = values == 0
        if not zero.any():
            return values
        if self.among(zero, masks) is not None:
            self.fail("AX0503", "division of an integer by zero")
        return np.where(zero, values.dtype.type(1), values)

    def among(self, bad: Array, masks: Masks) -> tuple[int, ...] | None:
        """The first position at which something is bad and evaluated, if there is one. Positions are those of `bad`."""
        if not bad.any():
            return None
        evaluated = reduce(np.logical_and, masks, bad)
        if not evaluated.any():
            return None
        first = np.unravel_index(int(np.argmax(evaluated)), evaluated.shape)
        return tuple(int(i) if n > 1 else 0 for i, n in zip(first, bad.shape, strict=True))

    def fail(self, code: str, message: str, label: str = "", span: Span | None = None, help: str = "") -> NoReturn:
        """Stop the program with a diagnostic at the span, or at the operation's."""
        found = diagnostic(code, message, label, span or self.span)
        raise AxonError((replace(found, suggestions=(Suggestion(help),) if help else ()),))


def _wrapped(value: int) -> int:
    """A number modulo 2^64, as int64 holds it."""
    return (value + 2**63) % 2**64 - 2**63


def size_of(dim: Dim, dims: Mapping[Symbol, int], span: Span | None) -> int:
    """The value of a dimension outside all axes."""
    try:
        return dim.evaluate(dims)
    except ZeroDivisionError:
        raise AxonError((diagnostic("AX0503", "division of a dimension by zero", "", span),)) from None


def diagnostic(code: str, message: str, label: str, span: Span | None) -> Diagnostic:
    return Diagnostic(code, message, (Label(span, label),) if span is not None else ())
