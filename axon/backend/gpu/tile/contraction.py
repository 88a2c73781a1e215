"""The contract family: sums of products that the matrix instructions compute.

A *contraction* is any sum of products of two operands
read at bare indices; what stands beside those two factors and does not depend on the reduced index, and every pointwise operation
on the result whose other reads name the same indices, becomes its epilogue. Only the affine structure of the reads decides: no
name of a function or an operation of the source language is known here.

What has no kernel family yet raises `Unsupported` with the reason; nothing is dropped or sent elsewhere in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import View, Views
from axon.backend.gpu.tile.epilogue import Operand, Result, bare, check_epilogue
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.ir import Axis, Binary, Compute, Convert, Local, Read, Scalar, Value, element_of
from axon.core.scalar_facts import present
from axon.core.walk import converted, mentions, reads
from axon.shapes.dimension import Dim, minimum

PRODUCT_ELEMENTS = (Element.BF16, Element.F16)
LIMB_ELEMENTS = (*PRODUCT_ELEMENTS, Element.F32)  # those of factors of a product in f32, see `limbs`
LIMBS = 3  # of a factor at most; what lies further behind the first is not worth a product


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A contraction as the matrix instructions compute it: results[axes] = expression(sum over `depth` of left * right).

    `rows` is read by `left` alone and `columns` by `right` alone; `outer` axes take one index per tile and may stand in both. The
    product accumulates in f32. `views` are what it reads at more than bare indices, `derived` indices that follow from a tile's.
    A factor may come in limbs, of which it is the sum (see `limbs`): the greatest first, all read at the same axes.
    """

    rows: Axis
    columns: Axis
    depth: Axis
    outer: tuple[Axis, ...]
    lefts: tuple[Operand, ...]
    rights: tuple[Operand, ...]
    product: Symbol
    results: tuple[Result, ...]
    views: tuple[View, ...] = ()
    derived: tuple[tuple[Symbol, Dim], ...] = ()
    span: Span | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (*self.lefts, *self.rights)

    @property
    def left(self) -> Operand:
        """The left factor, or its first limb."""
        return self.lefts[0]

    @property
    def right(self) -> Operand:
        """The right factor, or its first limb."""
        return self.rights[0]

    @property
    def terms(self) -> tuple[tuple[int, int], ...]:
        """Which limbs are multiplied with which, the small products first."""
        return terms(len(self.lefts), len(self.rights))


def terms(lefts: int, rights: int) -> tuple[tuple[int, int], ...]:
    """The products of so many limbs with so many, by their numbers, the small ones first. Each limb is 2⁻⁸ of the one before: what
    is less than 2⁻²³ of the first product is left out."""
    pairs = [(i, j) for i in range(lefts) for j in range(rights) if i + j < LIMBS]
    return tuple(sorted(pairs, key=lambda pair: -sum(pair)))


def refused(element: Element) -> str:
    """Why a factor of this element type is none for matrix instructions; f32 is one of products, but not of streams."""
    *names, last = (e.value for e in (LIMB_ELEMENTS if element not in LIMB_ELEMENTS else PRODUCT_ELEMENTS))
    return f"matrix instructions here take {', '.join(names)} and {last}, not {element.value}"


# ── recognizing a contraction ───────────────────────────────────────────────────────────────────────────────────────────


def contraction(op: Compute, values: Mapping[Symbol, Value]) -> tuple[MatrixProduct, Views]:
    """The contraction that an operation is, and its views. Raises `Unsupported` if it is none."""
    span = op.span
    if op.reduction is None:
        raise Unsupported("a pointwise operation that follows no contraction has no kernel family", span)
    given = present(op.reduction.where)
    if op.reduction.monoid.kind != "sum" or given is None or len(op.body) != 1:
        near = op.reduction.monoid.kind == "sum"
        raise Unsupported("only unconditional sums of products have a kernel family", span, near=near)
    if len(op.reduction.axes) != 1:
        raise Unsupported("a contraction over more than one index has no kernel family", span)
    (depth,) = op.reduction.axes
    depth = replace(depth, extent=_where(depth.extent, given))
    deep: list[Scalar] = []
    shallow: list[Scalar] = []
    for factor in _factors(op.body[0]):
        (deep if mentions(factor, depth.symbol) else shallow).append(factor)
    views = Views(values, (*op.axes, depth))
    operands = [_operand(factor, views) for factor in deep]
    if len(operands) != 2 or any(o is None for o in operands):
        two = len({read.tensor for factor in deep for read in reads(factor)}) > 1
        raise Unsupported("the sum is not over products of two tensors read at indices", span, near=two)
    first, second = (o for o in operands if o is not None)
    for operand in (first, second):
        if operand.value.element not in LIMB_ELEMENTS:
            raise Unsupported(refused(operand.value.element), span)
    if depth.extent.variables & {a.symbol for a in op.axes}:
        raise Unsupported("the reduced range depends on another index", span)
    left, right, rows, columns = _sides(op, first, second)
    # An axis of neither operand repeats the product; it is outer, like a batch axis, and the tiles repeat it.
    outer = tuple(a for a in op.axes if a not in (rows, columns))
    product = fresh("product")
    (out,) = op.outs
    expression: Scalar = Local(product, out.element)
    for factor in shallow:
        expression = Binary("mul", expression, converted(views.bare(factor), out.element))
    result = Result(out, tuple(a.symbol for a in op.axes), expression)
    kernel = MatrixProduct(rows, columns, depth, outer, (left,), (right,), product, (result,), views.all, views.derived, span)
    check_epilogue(kernel, (result,), views, span)
    return kernel, views


def _where(extent: Dim, given: tuple[Dim, ...]) -> Dim:
    """An extent that is 0 where one of the extents `given` is."""
    return minimum(extent, prod(given, start=extent)) if given else extent


def _sides(op: Compute, first: Operand, second: Operand) -> tuple[Operand, Operand, Axis, Axis]:
    """Which operand is left: the result's last index stands in the right one alone, so that stores are contiguous."""
    for left, right in ((first, second), (second, first)):
        rows, columns = (
            [a for a in op.axes if a.symbol in o.axes and a.symbol not in p.axes] for o, p in ((left, right), (right, left))
        )
        if columns and rows and columns[-1] == op.axes[-1]:
            return left, right, rows[-1], columns[-1]
    raise Unsupported("the result's last index must stand in one factor alone, and another index in the other", op.span)


def _factors(scalar: Scalar) -> Iterator[Scalar]:
    """The factors of a product, through conversions between floating types that only widen."""
    match scalar:
        case Binary(op="mul", left=left, right=right) if element_of(left).is_float:
            yield from _factors(left)
            yield from _factors(right)
        case Convert(operand=operand, element=element) if _widens(element_of(operand), element):
            yield from _factors(operand)
        case _:
            yield scalar


def _widens(narrow: Element, wide: Element) -> bool:
    return narrow.is_float and wide.is_float and (wide == narrow or narrow.bits < wide.bits <= 32)


def _operand(factor: Scalar, views: Views) -> Operand | None:
    seen = views.seen(factor) if isinstance(factor, Read) else None
    axes = None if seen is None else bare(seen)
    return None if seen is None or axes is None else Operand(views.value(seen.tensor), axes, tuple(range(len(axes))))
