"""The contract family: sums of products that the matrix instructions compute.

A *contraction* is any sum of products of two operands
read at bare indices; what stands beside those two factors and does not depend on the reduced index, and every pointwise operation
on the result whose other reads name the same indices, becomes its epilogue. Only the affine structure of the reads decides: no
name of a function or an operation of the source language is known here.

What has no kernel family yet raises `Unsupported` with the reason; nothing is dropped or sent elsewhere in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from axon.backend.unsupported import Unsupported
from axon.core import Axis, Binary, Compute, Convert, Index, Local, Read, Scalar, Value, element_of
from axon.core_walk import converted, mentions, nodes, reads, rename, rewrite
from axon.element import Element
from axon.names import Symbol, fresh
from axon.shapes.dimension import Dim
from axon.source import Span

PRODUCT_ELEMENTS = (Element.BF16, Element.F16)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor and the axes at which its dimensions are read, in the order in which they lie in memory, the contiguous one last.

    `order` says which dimension each of them is; in core, and unless strides say otherwise, dimensions lie in their own order.
    """

    value: Value
    axes: tuple[Symbol, ...]
    order: tuple[int, ...]

    def arranged(self, order: tuple[int, ...]) -> Operand:
        """The same operand, its dimensions lying in another order."""
        axis_of = dict(zip(self.order, self.axes, strict=True))
        return Operand(self.value, tuple(axis_of[d] for d in order), order)


@dataclass(frozen=True, slots=True)
class Result:
    """A tensor that the kernel stores: `expression` over the axes, reads at bare axes, and the local that is the product.

    `axes` says which axis each of its dimensions is.
    """

    value: Value
    axes: tuple[Symbol, ...]
    expression: Scalar


@dataclass(frozen=True, slots=True)
class Contraction:
    """results[axes] = expression(sum over `depth` of left * right).

    `rows` is read by `left` alone and `columns` by `right` alone; `outer` axes take one index per tile and may stand in both. The
    product accumulates in f32.
    """

    rows: Axis
    columns: Axis
    depth: Axis
    outer: tuple[Axis, ...]
    left: Operand
    right: Operand
    product: Symbol
    results: tuple[Result, ...]
    span: Span | None = None


# ── recognizing a contraction ───────────────────────────────────────────────────────────────────────────────────────────


def contraction(op: Compute, values: Mapping[Symbol, Value]) -> Contraction:
    span = op.span
    if op.reduction is None:
        raise Unsupported("a pointwise operation that follows no contraction has no kernel family", span)
    if op.reduction.monoid.kind != "sum" or op.reduction.where is not None or len(op.body) != 1:
        raise Unsupported("only unconditional sums of products have a kernel family", span)
    if len(op.reduction.axes) != 1:
        raise Unsupported("a contraction over more than one index has no kernel family", span)
    (depth,) = op.reduction.axes
    deep: list[Scalar] = []
    shallow: list[Scalar] = []
    for factor in _factors(op.body[0]):
        (deep if mentions(factor, depth.symbol) else shallow).append(factor)
    operands = [_operand(factor, values) for factor in deep]
    if len(operands) != 2 or any(o is None for o in operands):
        raise Unsupported("the sum is not over products of two tensors read at bare indices", span)
    first, second = (o for o in operands if o is not None)
    for operand in (first, second):
        if operand.value.element not in PRODUCT_ELEMENTS:
            names = " and ".join(e.value for e in PRODUCT_ELEMENTS)
            raise Unsupported(f"matrix instructions here take {names}, not {operand.value.element.value}", span)
    if first.value.element != second.value.element:
        raise Unsupported("the two factors have different element types", span)
    if depth.extent.variables & {a.symbol for a in op.axes}:
        raise Unsupported("the reduced range depends on another index", span)
    left, right, rows, columns = _sides(op, first, second)
    # An axis of neither operand repeats the product; it is outer, like a batch axis, and the tiles repeat it.
    outer = tuple(a for a in op.axes if a not in (rows, columns))
    product = fresh("product")
    (out,) = op.outs
    expression: Scalar = Local(product, out.element)
    for factor in shallow:
        expression = Binary("mul", expression, converted(factor, out.element))
    result = Result(out, tuple(a.symbol for a in op.axes), expression)
    kernel = Contraction(rows, columns, depth, outer, left, right, product, (result,), span)
    _check_epilogue(kernel, span)
    return kernel


def _sides(op: Compute, first: Operand, second: Operand) -> tuple[Operand, Operand, Axis, Axis]:
    """Which operand is left: the result's last index stands in the right one alone, so that stores are contiguous."""
    alone = {
        id(o): [a for a in op.axes if a.symbol in o.axes and a.symbol not in p.axes] for o, p in ((first, second), (second, first))
    }
    for left, right in ((first, second), (second, first)):
        columns = alone[id(right)]
        rows = alone[id(left)]
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
    return narrow.is_float and wide.is_float and wide.bits >= narrow.bits and wide.bits <= 32


def _operand(factor: Scalar, values: Mapping[Symbol, Value]) -> Operand | None:
    if not isinstance(factor, Read) or factor.padding is not None or factor.checked is not None:
        return None
    axes = bare(factor)
    return None if axes is None or len(set(axes)) != len(axes) else Operand(values[factor.tensor], axes, tuple(range(len(axes))))


def bare(read: Read) -> tuple[Symbol, ...] | None:
    """The axes that a read's subscripts are, if each is one index alone."""
    axes = [s.symbol if isinstance(s, Dim) else None for s in read.subscripts]
    return None if any(a is None for a in axes) else tuple(a for a in axes if a is not None)


# ── epilogues ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Group:
    """A contraction and the pointwise operations on its results that were taken in so far."""

    def __init__(self, kernel: Contraction) -> None:
        self.kernel = kernel
        self.results = {r.value.symbol: r for r in kernel.results}

    def absorb(self, op: Compute) -> bool:
        """Take a pointwise operation in, if all it reads of this kernel is at its own index, and it reads something of it."""
        if op.reduction is not None:
            return False
        names: dict[Symbol, Symbol] | None = None
        for read in (r for scalar in op.body for r in reads(scalar) if r.tensor in self.results):
            axes = bare(read)
            if axes is None or read.padding is not None or read.checked is not None:
                return False
            mapping = dict(zip(axes, self.results[read.tensor].axes, strict=True))
            if len(mapping) != len(axes) or (names is not None and names != mapping):
                return False
            names = mapping
        if names is None or set(names) != {a.symbol for a in op.axes}:
            return False
        extents = {a.symbol: a.extent for a in (*self.kernel.outer, self.kernel.rows, self.kernel.columns)}
        if any(extents[names[a.symbol]] != a.extent for a in op.axes):
            return False
        renamed = {a: Dim.of(b) for a, b in names.items()}
        new = []
        for out, scalar in zip(op.outs, op.body, strict=True):
            expression = self._inline(rename(scalar, renamed))
            new.append(Result(out, tuple(names[a.symbol] for a in op.axes), expression))
        try:
            _check_epilogue(replace(self.kernel, results=tuple(new)), op.span)
        except Unsupported:
            return False
        self.results |= {r.value.symbol: r for r in new}
        return True

    def finish(self, wanted: set[Symbol]) -> Contraction:
        return replace(self.kernel, results=tuple(r for r in self.results.values() if r.value.symbol in wanted))

    def _inline(self, scalar: Scalar) -> Scalar:
        def visit(node: Scalar) -> Scalar | None:
            if isinstance(node, Read) and node.tensor in self.results:
                return self.results[node.tensor].expression
            return None

        return rewrite(scalar, visit)


def _check_epilogue(kernel: Contraction, span: Span | None) -> None:
    axes = {a.symbol for a in (*kernel.outer, kernel.rows, kernel.columns)}
    for result in kernel.results:
        if result.axes[-1] != kernel.columns.symbol:
            raise Unsupported("a result whose last index is not the product's", span)
        for node in nodes(result.expression):
            match node:
                case Read():
                    if node.padding is not None or node.checked is not None or not set(bare(node) or [None]) <= axes | {None}:
                        raise Unsupported("an epilogue reads a tensor at more than bare indices", span)
                    if node.subscripts and bare(node) is None:
                        raise Unsupported("an epilogue reads a tensor at more than bare indices", span)
                case Index(dim=dim) if dim.degree > 1 or dim.quotients or any(not isinstance(a, Symbol) for a in dim.atoms):
                    raise Unsupported("an epilogue computes with an index that is not affine", span)
        for node in nodes(result.expression):
            element = element_of(node)
            if element in (Element.F64, Element.I64, Element.F8E4M3, Element.F8E5M2):
                raise Unsupported(f"an epilogue computes in {element.value}", span)


