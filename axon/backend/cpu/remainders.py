"""Sums that divide indices of their result as products, one for each remainder: transposed convolutions by a stride.

    divided      a nest that may be so computed -> how it is, at the sizes of a call: `Remainders`

What `plan.residues` makes of the sum is affine where the remainders are numbers, so each of them is an ordinary convolution, with
a part of the filter; of the result it writes every so many-th element. Strides and paddings are numbers here, though
symbols in the program: what is found is kept for the sizes of a call, and nothing is compiled for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product as box
from math import prod
from typing import Any

from axon.backend.cpu.products import Products
from axon.backend.plan.contractions import contraction
from axon.backend.plan.ir import Nest
from axon.backend.plan.numbered import AtSizes, at_sizes
from axon.backend.plan.residues import by_residues, has_residues
from axon.backend.plan.settled import decided
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Compute
from axon.core.scalar_facts import substitute
from axon.core.walk import all_axes
from axon.shapes.dimension import Dim

Array = Any
Sizes = Mapping[Symbol, int]
CLASSES = 64  # more of them would each be too little


@dataclass(frozen=True, slots=True)
class _Class:
    """The elements of a result whose indices have certain remainders: a product, and where its elements are in the result."""

    products: Products | None  # None: they are 0
    places: tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class Remainders:
    """A sum that divides indices of its result, as a product for each of their remainders. See `plan.residues`."""

    left: Symbol
    right: Symbol
    classes: tuple[_Class, ...]

    def run(self, left: Array, right: Array, result: Array) -> None:
        for one in self.classes:
            target = result[one.places]
            if one.products is None:
                target.fill(0)
            elif target.size:
                one.products.contract(left, right, {}, target)


def divided(nest: Nest) -> AtSizes[Remainders]:
    return AtSizes(nest, has_residues, _by_remainders)


def _by_remainders(op: Compute, sizes: Sizes) -> Remainders | None:
    split = by_residues(at_sizes(op, sizes))
    if split is None or any(axis.extent.evaluate({}) <= 0 for axis in all_axes(split.first)):
        return None
    own = {one.axis.symbol: one for one in split.residues}
    if prod(one.stride for one in split.residues) > CLASSES:
        return None
    axes = split.first.axes[len(own) :]
    classes = []
    operands: set[tuple[Symbol, Symbol]] = set()
    for remainders in box(*[range(one.stride) for one in split.residues]):
        numbers = {one.remainder.symbol: n for one, n in zip(split.residues, remainders, strict=True)}
        known = {symbol: Dim.of(n) for symbol, n in numbers.items()}
        places, mine = [], []
        for before, after in zip(op.axes, axes, strict=True):
            residue = own.get(before.symbol)
            extent = before.extent.evaluate(sizes)
            if residue is None:
                places.append(slice(0, extent))
                mine.append(after)
                continue
            first = numbers[residue.remainder.symbol] - residue.shift
            begin = int(first < 0)  # of the quotients that the sum has, the first one whose element the result has
            first += begin * residue.stride
            count = max(0, -(-(extent - first) // residue.stride))
            places.append(slice(first, None, residue.stride) if count else slice(0, 0))
            mine.append(replace(after, extent=Dim.of(count)))
            known[after.symbol] = Dim.of(after.symbol) + begin
        body = tuple(substitute(scalar, known) for scalar in split.first.body)
        out = replace(split.first.outs[0], shape=tuple(axis.extent for axis in mine))
        one = replace(split.first, outs=(out,), axes=tuple(mine), body=body)
        kernel = contraction(one, {})
        holds = split.where is None or decided(substitute(split.where, known), {})
        if kernel is None or holds is None or kernel.op.outs[0].element not in (Element.F32, Element.F64):
            return None
        operands.add((kernel.left.read.tensor, kernel.right.read.tensor))
        classes.append(_Class(Products(kernel, False) if holds else None, tuple(places)))
    if len(operands) != 1:
        return None
    ((left, right),) = operands
    return Remainders(left, right, tuple(classes))
