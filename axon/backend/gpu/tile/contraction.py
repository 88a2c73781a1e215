"""The contract family: sums of products that the matrix instructions compute.

A *contraction* is any sum of products of two operands read at bare indices, or at linear subscripts, which `layout.views` turns
into bare indices of a view (a convolution's window is one that overlaps itself); what stands beside those two factors and does
not depend on the reduced index, and every pointwise operation on the result whose other reads name the same indices, becomes its
epilogue. Only the affine structure of the reads decides: no name of a function or an operation of the source language is known.

What has no kernel family yet raises `Unsupported` with the reason; nothing is dropped or sent elsewhere in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import reduce
from math import prod
from typing import Any, Literal, Protocol

from axon.backend.gpu.layout.axes import Merge, merge
from axon.backend.gpu.layout.products import EIGHT_BIT_FLOATS, EIGHT_BITS, MULTIPLIED, multiplies
from axon.backend.gpu.layout.scales import Scale, at_indices, scale_of
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import View, Views
from axon.backend.gpu.tile.computed import Computed, computed, joined
from axon.backend.gpu.tile.epilogue import EpilogueGroup, EpilogueOperand, Result, bare, check_epilogue, result_of
from axon.backend.gpu.tile.ragged import Ragged, grouped, is_inside, ragged
from axon.backend.gpu.tile.segments import Segments, grouped_sum, segments
from axon.backend.plan.codes import is_code
from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.ir import Axis, Binary, Compute, Const, Convert, Local, Read, Scalar, Value, element_of
from axon.core.scalar_facts import present, substitute
from axon.core.walk import all_axes, converted, mentions, reads
from axon.shapes.dimension import Dim, minimum

PRODUCT_ELEMENTS = (Element.BF16, Element.F16)
LIMB_ELEMENTS = (*PRODUCT_ELEMENTS, Element.F32)  # those of factors of a product in f32, see `limbs`
FILLED = 8  # elements of 16 bits that are 16 bytes
CHANNELS = HOPPER.swizzle // 2  # of 16 bits, that a copy takes of each pixel
LIMBS = 3  # of a factor at most; what lies further behind the first is not worth a product


class ReadsOperands(Protocol):
    """A kernel that reads some tensors through views."""

    @property
    def views(self) -> tuple[View, ...]: ...


@dataclass(frozen=True, slots=True)
class Sibling:
    """Another sum of a kernel: of the factor that it shares with the first, and of a `factor` of its own. `product` is the local
    that it is in results, `made` what core calls it."""

    factor: EpilogueOperand
    product: Symbol
    made: Symbol


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A contraction as the matrix instructions compute it: results[axes] = expression(sum over `depth` of left * right).

    `rows` is read by `left` alone and `columns` by `right` alone; `outer` axes take one index per tile and may stand in both. The
    product accumulates in f32, or, of integers, in i32. `views` are what it reads at more than bare indices, `derived` indices that
    follow from a tile's. A factor may come in limbs, of which it is the sum (see `limbs`): the greatest first, all read at the same
    axes. `limbed` says of each factor how many bytes an element has of which they are made, 0 if they are not. `merges` says of
    what rows, columns and depth are merged, and `made` what core calls the product. `ragged` says of rows in groups where tiles of
    them end, `segments` of what it sums where data give its rows a group. A left factor that is `computed` is no operand: the left
    operands are what of it is staged. `siblings` are sums over the same depth whose results are of the same rows and columns; they
    and the first have one factor, the `shared` one, in common (see `siblings`). `alone` says why a product that has such a relative
    is a kernel of its own. What so many of the depth add up to is promoted (see `layout.products`), if it is not 0, and multiplied
    by `scales`.
    """

    rows: Axis
    columns: Axis
    depth: Axis
    outer: tuple[Axis, ...]
    lefts: tuple[EpilogueOperand, ...]
    rights: tuple[EpilogueOperand, ...]
    product: Symbol
    results: tuple[Result, ...]
    made: Symbol
    views: tuple[View, ...] = ()
    derived: tuple[tuple[Symbol, Dim], ...] = ()
    span: Span | None = None
    merges: tuple[Merge, ...] = ()
    ragged: Ragged | None = None
    segments: Segments | None = None
    computed: Computed | None = None
    siblings: tuple[Sibling, ...] = ()
    shared: Literal["left", "right"] = "left"
    alone: str = field(default="", compare=False)
    promotion: int = 0
    scales: tuple[Scale, ...] = ()
    limbed: tuple[int, int] = (0, 0)

    @property
    def sum(self) -> Element:
        """What it accumulates in."""
        return MULTIPLIED[self.right.value.element].sum

    @property
    def by_column(self) -> tuple[int, ...]:
        """For how many neighbouring columns each of its scales is one, of those that depend on columns."""
        return tuple(unit for scale in self.scales if (unit := scale.along(self.columns.symbol)))

    @property
    def along(self) -> bool:
        """Whether its factors must lie along what is summed."""
        return self.computed is None and MULTIPLIED[self.left.value.element].along

    @property
    def turned(self) -> bool:
        """Whether a result's rows may stand last in it: each element is stored by itself."""
        return self.computed is not None

    @property
    def grouping(self) -> Ragged | Segments | None:
        """Which rows have which group, if data say so."""
        return self.segments if self.ragged is None else self.ragged

    @property
    def reduced(self) -> tuple[Axis, ...]:
        """The axes that are summed over."""
        return (self.depth,)

    @property
    def operands(self) -> tuple[EpilogueOperand, ...]:
        return (*self.lefts, *self.rights, *(sibling.factor for sibling in self.siblings))

    @property
    def products(self) -> tuple[Symbol, ...]:
        """The locals that its sums are in results."""
        return (self.product, *(sibling.product for sibling in self.siblings))

    @property
    def every_made(self) -> tuple[Symbol, ...]:
        """What core calls its sums."""
        return (self.made, *(sibling.made for sibling in self.siblings))

    @property
    def factors(self) -> tuple[int, int]:
        """How many different left factors it has, and right ones; of limbs the whole counts."""
        several = 1 + len(self.siblings)
        return (1, several) if self.shared == "left" else (several, 1)

    @property
    def left(self) -> EpilogueOperand:
        """The left factor, or its first limb."""
        return self.lefts[0]

    @property
    def right(self) -> EpilogueOperand:
        """The right factor, or its first limb."""
        return self.rights[0]

    @property
    def terms(self) -> tuple[tuple[int, int], ...]:
        """Which limbs are multiplied with which, the small products first."""
        return terms(1 if self.computed else len(self.lefts), len(self.rights))


def view_of(kernel: ReadsOperands, operand: EpilogueOperand) -> View | None:
    """The view that a kernel's operand is, if it is no tensor by itself."""
    return next((view for view in kernel.views if view.value == operand.value), None)


def with_factors(
    kernel: MatrixProduct,
    lefts: tuple[EpilogueOperand, ...],
    rights: tuple[EpilogueOperand, ...],
    others: tuple[EpilogueOperand, ...] = (),
) -> MatrixProduct:
    """The same product of other factors, `others` those of its siblings, and without the views that it no longer reads."""
    read = {operand.value.symbol for operand in (*lefts, *rights, *others)}
    read |= {one.tensor for result in kernel.results for one in reads(result.expression)}
    views = tuple(view for view in kernel.views if view.value.symbol in read)
    siblings = tuple(replace(sibling, factor=own) for sibling, own in zip(kernel.siblings, others, strict=True))
    return replace(kernel, lefts=lefts, rights=rights, siblings=siblings, views=views)


def terms(lefts: int, rights: int) -> tuple[tuple[int, int], ...]:
    """The products of so many limbs with so many, by their numbers, the small ones first. Each limb is 2⁻⁸ of the one before: what
    is less than 2⁻²³ of the first product is left out."""
    pairs = [(i, j) for i in range(lefts) for j in range(rights) if i + j < LIMBS]
    return tuple(sorted(pairs, key=lambda pair: -sum(pair)))


def refused(element: Element) -> str:
    """Why a factor of this element type is none for matrix instructions, or none of a stream."""
    who, taken = ("streams", LIMB_ELEMENTS) if element in MULTIPLIED else ("matrix instructions here", tuple(MULTIPLIED))
    *names, last = (e.value for e in taken)
    return f"{who} take {', '.join(names)} and {last}, not {element.value}"


def element_types(elements: Sequence[Element], span: Span | None) -> tuple[Element, bool]:
    """Of a stream's factors the element type of those that have more than 8 bits, bf16 if none has; and whether some have 8. Raises
    `Unsupported` for others than matrix instructions take: as they are, in limbs, or widened."""
    for element in elements:
        if element not in LIMB_ELEMENTS and element not in EIGHT_BIT_FLOATS:
            raise Unsupported(refused(element), span)
    wide = {element for element in elements if element not in EIGHT_BIT_FLOATS}
    if len(wide) > 1 or (Element.F32 in wide and len(set(elements)) > 1):
        raise Unsupported("the factors of the two products have different element types", span)
    return wide.pop() if wide else Element.BF16, any(element in EIGHT_BIT_FLOATS for element in elements)


def check_factors(left: Element, right: Element, span: Span | None) -> None:
    """Raises `Unsupported` for factors of element types that are not multiplied with each other, as they are or in limbs."""
    for element in (left, right):
        if element not in MULTIPLIED:
            raise Unsupported(refused(element), span)
    whole = any(element.is_integer for element in (left, right))
    if not multiplies(left, right) and whole:
        raise Unsupported(f"matrix instructions do not multiply {left.value} and {right.value}", span)


# ── recognizing a contraction ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Merging:
    """Of which sides of a product all axes are merged into one, along which tiles are cut; of another, tiles are cut along the last
    axis alone. The sum may be cut into equal `parts` of one of its axes, the one with the number `along`, which are added up after.
    Of a `window` it is the number of the summed axis that moves it, and what one factor shows is copied (see `layout.views`);
    its innermost index goes up to a multiple of `filled`, with zeros. `im2col` is the number of the factor that is read by copies
    of pixels; the `window` is then the axis of a row that is joined with channels, if one is, which goes up to a multiple of `row`,
    and so many axes of the result that it has alone are `apart`. Where pixels are what is summed, `channels` is the axis of the
    result that is channels, along which alone that side's tiles are cut. A sum may be made by `residues` first, or of copies in
    which the summed axis with the number `stacked` is one with channels (see there); the other numbers are then of what is left.
    Rows in groups are cut into tiles of so many, `ragged`, or their `segments` are summed; they may be known to be `ascending`
    (see `ragged`, `segments`). Beside the factor with the number `beside`, which is read as it is, the others may be `computed` on
    the way (see there).
    """

    rows: bool = False
    columns: bool = False
    parts: int = 1
    along: int = 0
    window: int | None = None
    filled: int = 1
    im2col: int | None = None
    row: int = 1
    apart: int = 0
    channels: Symbol | None = None
    residues: bool = False
    ragged: int = 0
    segments: bool = False
    ascending: bool = False
    stacked: int | None = None
    beside: int | None = None


APART = Merging()


def contraction(
    op: Compute, values: Mapping[Symbol, Value], merging: Merging = APART, siblings: Sequence[Compute] = ()
) -> tuple[MatrixProduct, Views]:
    """The contraction that an operation is, and its views. `siblings` are sums over the same axes that share a factor with it,
    which it makes too. Raises `Unsupported` if it is none, or not with sides merged so."""
    span = op.span
    if op.reduction is None:
        raise Unsupported("a pointwise operation that follows no contraction has no kernel family", span)
    parts = None
    if merging.segments:
        parts, op = in_segments(op, values, merging)
        values = {**values, **{copy.symbol: copy for copy in parts.copies}}
    assert op.reduction is not None
    given = present(op.reduction.where)
    if op.reduction.monoid.kind != "sum" or given is None or len(op.body) != 1:
        if grouped_sum(op, factors_of(op)[0]) is not None:
            raise Unsupported("data say which rows are summed, and sums of segments of rows are not worth it here", span)
        near = op.reduction.monoid.kind == "sum"
        raise Unsupported("only unconditional sums of products have a kernel family", span, near=near)
    summed = op.reduction.axes
    if siblings and merging not in (APART, *_WHOLE_SIDES):
        raise Unsupported("sums that share a factor, of factors that are not read as they lie", span)
    if merging.beside is not None:
        return _computing(op, values, merging, given)
    window = None if merging.window is None else summed[merging.window]
    windowed = merging.im2col is not None and merging.channels is None
    for axis in summed if windowed else filter(None, (window,)):
        op = _forwards(op, axis)
    divided = None
    if merging.ragged:
        divided, op = in_groups(op, values, merging)
        values = values if divided.rows is None else {**values, divided.rows.symbol: divided.rows}
    deep, shallow = factors_of(op)
    deep, scales = scaled(deep)
    if sum(map(is_code, deep)) == 2:  # what an epilogue does not read can be multiplied before, as scales are
        scales += [factor for factor in shallow if not at_indices(factor)]
        shallow = [factor for factor in shallow if at_indices(factor)]
    views = Views(values, (*op.axes, *summed))
    copied = window is not None or merging.im2col is not None
    seen = [_seen(factor, views, padded=copied) for factor in deep]
    if len(seen) != 2 or any(read is None for read in seen):
        if grouped(op, deep) is not None:
            why = "data say which matrix each row reads, and tiles of one group of rows each are not worth it here"
            raise Unsupported(why, span)
        two = len({read.tensor for factor in deep for read in reads(factor)}) > 1
        raise Unsupported("the sum is not over products of two tensors read at indices", span, near=two)
    first, second = filter(None, seen)
    check_factors(first.element, second.element, span)
    eight = first.element in EIGHT_BITS and multiplies(first.element, second.element)
    if eight and (copied or merging.segments):
        raise Unsupported("windows, pixels and segments of rows have no factors of 8 bits", span)
    moving = {axis.symbol for axis in (*op.axes, *summed)}
    if any(axis.extent.variables & moving for axis in summed):
        raise Unsupported("the reduced range depends on another index", span)
    sides = sides_of(op, deep)
    if not sides.rows or not sides.columns or sides.columns[-1] != op.axes[-1]:
        raise Unsupported("the result's last index must stand in one factor alone, and another index in the other", op.span)
    if merging.im2col is None:
        depth, merges, (first, second) = _with_one_depth(summed, (first, second), views, span, window, filled=merging.filled)
    elif windowed:
        depth, merges, (first, second) = _with_channels(summed, (first, second), views, merging, window)
    else:
        depth, merges, (first, second) = _with_pixels(summed, (first, second), views, merging)
    left, right = (second, first) if sides.swapped else (first, second)
    of_depth, depth = merges, replace(depth, extent=_where(depth.extent, given))
    down, across = sides.tiled(merging)
    rows, columns = down[-1], across[-1]
    if len(down) > 1:
        merges = (merge(down), *merges)
        rows, left = merges[0].axis, views.merged(left, merges[0])
    if len(across) > 1:
        merges = (merge(across), *merges)
        columns, right = merges[0].axis, views.merged(right, merges[0])
    if merging.im2col is not None:
        of_left = merging.im2col == int(sides.swapped)
        side, joined = (rows if of_left else columns).symbol, window is not None
        last = (side, depth.symbol) if windowed else (depth.symbol, side)  # pixels, and what windows show there
        left = views.im2col(left, *last, joined=joined) if of_left else left
        right = right if of_left else views.im2col(right, *last, joined=joined)
        views.keep({left.tensor, right.tensor})
    # An axis of neither operand repeats the product; it is outer, like a batch axis, and the tiles repeat it.
    inside = {rows, columns}.union(*(m.parts for m in merges))
    outer = tuple(a for a in op.axes if a not in inside)
    of_sides = _of_sides(merges, depth)
    product, result = _result(op, shallow, views, of_sides)
    if scales and (merges or divided is not None or siblings):
        raise Unsupported("scales that change along what is summed, where indices are merged or rows have groups", span)
    kernel = MatrixProduct(
        rows, columns, depth, outer, (_operand(left, views),), (_operand(right, views),), product, (result,), op.outs[0].symbol,
        views.all, views.derived, span, merges, divided, parts, promotion=MULTIPLIED[left.element].promoted if eight else 0,
        scales=tuple(scale_of(scale, rows, columns, depth, outer) for scale in scales),
    )  # fmt: skip
    if siblings:
        kernel = _with_siblings(kernel, op, siblings, sides, (of_depth, of_sides), views)
    check_epilogue(kernel, kernel.results, views, span)
    return kernel, views


_WHOLE_SIDES = (Merging(rows=True), Merging(columns=True), Merging(rows=True, columns=True))


def _result(op: Compute, shallow: Iterable[Scalar], views: Views, merges: tuple[Merge, ...]) -> tuple[Symbol, Result]:
    """What a sum of products is in results, and the one that is it, times factors that do not depend on what is summed."""
    product, (out,) = fresh("product"), op.outs
    expression: Scalar = Local(product, out.element)
    for factor in shallow:
        expression = Binary("mul", expression, converted(views.bare(factor), out.element))
    return product, result_of(out, tuple(a.symbol for a in op.axes), expression, views, merges)


def _with_siblings(
    kernel: MatrixProduct,
    op: Compute,
    siblings: Sequence[Compute],
    sides: Sides,
    merges: tuple[tuple[Merge, ...], tuple[Merge, ...]],
    views: Views,
) -> MatrixProduct:
    """A contraction that makes other sums of products too, of one of its factors and others, with the same indices merged: those
    that are summed, and those of its sides."""
    deep, _ = factors_of(op)
    shared = next((n for n, factor in enumerate(deep) if all(factor in factors_of(s)[0] for s in siblings)), None)
    if shared is None or len(deep) != 2:
        raise Unsupported("sums that share no factor", op.span)
    side: Literal["left", "right"] = "left" if (shared == 0) != sides.swapped else "right"
    own_axis = kernel.columns.symbol if side == "left" else kernel.rows.symbol
    of_depth, of_sides = merges
    made: list[Sibling] = []
    results = list(kernel.results)
    for sibling in siblings:
        factors, shallow = factors_of(sibling)
        others = [factor for factor in factors if factor != deep[shared]] or [deep[shared]]
        pair = [deep[shared], others[0]] if shared == 0 else [others[0], deep[shared]]
        own = _seen(others[0], views, padded=False)
        if len(factors) != 2 or own is None or sides_of(sibling, pair) != sides:
            raise Unsupported("a sum whose own factor is read at other indices", sibling.span)
        check_factors(own.element, kernel.left.value.element if side == "left" else kernel.right.value.element, sibling.span)
        for one in (*of_depth, *(m for m in of_sides if m.axis.symbol == own_axis)):
            own = views.merged(own, one)
        product, result = _result(sibling, shallow, views, of_sides)
        made.append(Sibling(_operand(own, views), product, sibling.outs[0].symbol))
        results.append(result)
    return replace(kernel, siblings=tuple(made), shared=side, results=tuple(results), views=views.all, derived=views.derived)


def _computing(
    op: Compute, values: Mapping[Symbol, Value], merging: Merging, given: tuple[Dim, ...]
) -> tuple[MatrixProduct, Views]:
    """The contraction of a factor that is read as it is, the first, with what is computed on the way (Note [Computed factors])."""
    assert op.reduction is not None
    span, (out,) = op.span, op.outs
    deep, shallow = factors_of(op)
    if len(deep) < 2 or len(op.reduction.axes) != 1:
        raise Unsupported("a computed factor of a sum over several indices", span)
    (depth,) = op.reduction.axes
    if depth.extent.variables & {axis.symbol for axis in op.axes}:
        raise Unsupported("the reduced range depends on another index", span)
    rest = joined(deep[1:])
    views = Views(values, (*op.axes, depth))
    right = _seen(deep[0], views, padded=False)
    if right is None or right.element not in PRODUCT_ELEMENTS:
        raise Unsupported("the factor beside a computed one is not read at indices", span)
    down, across = (
        [a for a in op.axes if mentions(f, a.symbol) and not mentions(g, a.symbol)] for f, g in ((rest, right), (right, rest))
    )
    if not down or not across:
        raise Unsupported("a computed factor without an index of its own, or beside one without", span)
    rows, columns = down[-1], across[-1]
    merges: tuple[Merge, ...] = ()
    if merging.columns and len(across) > 1:
        merges = (merge(across),)
        columns, right = merges[0].axis, views.merged(right, merges[0])
    inside = {rows, columns}.union(*(m.parts for m in merges))
    outer = tuple(a for a in op.axes if a not in inside)
    made, operands = computed(rest, right.element, rows, depth, outer, views)
    depth = replace(depth, extent=_where(depth.extent, given))
    product, result = _result(op, shallow, views, merges)
    kernel = MatrixProduct(
        rows, columns, depth, outer, operands, (_operand(right, views),), product, (result,), out.symbol, views.all, views.derived,
        span, merges, computed=made,
    )  # fmt: skip
    check_epilogue(kernel, (result,), views, span)
    return kernel, views


def in_groups(op: Compute, values: Mapping[Symbol, Value], merging: Merging) -> tuple[Ragged, Compute]:
    """The groups of a product's rows, and the product with factors that are read at these. Raises `Unsupported` if it has none."""
    deep, shallow = factors_of(op)
    found = grouped(op, deep)
    if found is None or found.read.tensor not in values:
        raise Unsupported("no factor is read at an index that depends on one row alone", op.span)
    shape = values[found.read.tensor].shape
    if found.read.checked is not None and not is_inside(found, op, shape):
        raise Unsupported("a factor that may be read outside", op.span)
    other = deep[1 - found.factor]
    seen = Views(values, all_axes(op)).seen(other) if isinstance(other, Read) else None
    known = seen is not None and bare(seen) is not None
    divided, factors = ragged(found, op, deep, shape, merging.ragged, ascending=merging.ascending, bare=known)
    sides = sides_of(op, factors)
    if not sides.rows or sides.rows[-1] != found.row:
        raise Unsupported("the rows that have groups are not the last index of their factor alone", op.span)
    return divided, replace(op, body=(_product((*factors, *shallow), op),))


def in_segments(op: Compute, values: Mapping[Symbol, Value], merging: Merging) -> tuple[Segments, Compute]:
    """The segments of what a product sums, and the product of all rows, each of its factors in their order. Raises `Unsupported` if
    it has none."""
    deep, shallow = factors_of(op)
    found = grouped_sum(op, deep)
    if found is None or op.reduction is None:
        raise Unsupported("what is summed are not the rows of which data give the group", op.span)
    views = Views(values, all_axes(op))
    seen = (views.seen(factor) if isinstance(factor, Read) else None for factor in deep)
    known = [read is not None and bare(read) is not None for read in seen]
    made, factors = segments(found, op, deep, ascending=merging.ascending, bare=known)
    return made, replace(op, body=(_product((*factors, *shallow), op),), reduction=replace(op.reduction, where=found.given))


def _product(factors: Sequence[Scalar], op: Compute) -> Scalar:
    element = op.outs[0].element
    return reduce(lambda product, factor: Binary("mul", product, factor), (converted(factor, element) for factor in factors))


def group(kernel: MatrixProduct, views: Views) -> EpilogueGroup[Any]:
    """A contraction that operations on its results may join."""
    return EpilogueGroup(kernel, views, merges=_of_sides(kernel.merges, kernel.depth))


def _of_sides(merges: tuple[Merge, ...], depth: Axis) -> tuple[Merge, ...]:
    """Those of rows and of columns."""
    return tuple(m for m in merges if m.axis.symbol != depth.symbol)


def factors_of(op: Compute) -> tuple[list[Scalar], list[Scalar]]:
    """The factors of a sum of products: those in which a summed index stands, and the others."""
    assert op.reduction is not None
    deep: list[Scalar] = []
    shallow: list[Scalar] = []
    for factor in _factors(op.body[0]):
        (deep if any(mentions(factor, axis.symbol) for axis in op.reduction.axes) else shallow).append(factor)
    return deep, shallow


@dataclass(frozen=True, slots=True)
class Sides:
    """Which of a result's axes stand in the left factor alone, and in the right one alone; whether the second factor is left."""

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    swapped: bool

    def tiled(self, merging: Merging) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
        """Of rows and of columns the axes along which tiles are cut, as one."""
        rows = self.rows if merging.rows else self.rows[-1:]
        columns = self.columns if merging.columns else self.columns[-1:]
        of_left = merging.im2col == int(self.swapped)
        if merging.channels is not None:
            side = tuple(axis for axis in (self.rows if of_left else self.columns) if axis.symbol == merging.channels)
            return (side, columns) if of_left else (rows, side)
        if merging.im2col is not None:
            return (rows[merging.apart :], columns) if of_left else (rows, columns[merging.apart :])
        return rows, columns


def sides_of(op: Compute, deep: Sequence[Scalar]) -> Sides:
    """Which of two factors is left: the last index that stands in one alone is the right one's, so that stores are contiguous."""
    first, second = ([a for a in op.axes if mentions(f, a.symbol) and not mentions(g, a.symbol)] for f, g in (deep, deep[::-1]))
    own = [a for a in op.axes if a in first or a in second]
    if own and own[-1] in first:
        return Sides(tuple(second), tuple(first), swapped=True)
    return Sides(tuple(first), tuple(second), swapped=False)


def _where(extent: Dim, given: tuple[Dim, ...]) -> Dim:
    """An extent that is 0 where one of the extents `given` is."""
    return minimum(extent, prod(given, start=extent)) if given else extent


def scaled(deep: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
    """The factors of a sum: codes and their scales, if two are codes of 8-bit floats; else all, and none."""
    codes = [factor for factor in deep if is_code(factor)]
    return (codes, [factor for factor in deep if factor not in codes]) if len(codes) == 2 < len(deep) else (list(deep), [])


def _factors(scalar: Scalar) -> Iterator[Scalar]:
    """The factors of a product, through conversions between floating types that only widen, and of 8-bit integers to i32."""
    match scalar:
        case Binary(op="mul", left=left, right=right) if element_of(left).is_float or element_of(left) is Element.I32:
            yield from _factors(left)
            yield from _factors(right)
        case Convert(operand=operand, element=element) if _widens(element_of(operand), element):
            yield from _factors(operand)
        case Convert(operand=Read() as read, element=Element.I32) if read.element in EIGHT_BITS and read.element.is_integer:
            yield read  # what is multiplied in 8 bits wraps there
        case _:
            yield scalar


def _widens(narrow: Element, wide: Element) -> bool:
    return narrow.is_float and wide.is_float and (wide == narrow or narrow.bits < wide.bits <= 32)


def windows(op: Compute, deep: Sequence[Scalar]) -> Iterator[int]:
    """The summed axes, by number, that move a window along one of a factor's dimensions together with an axis of the result, both
    by constant steps. Where that of the other is a multiple of its own, windows that lie beside each other overlap in a copy."""
    assert op.reduction is not None
    results, axes = {axis.symbol for axis in op.axes}, {axis.symbol for axis in (*op.axes, *op.reduction.axes)}
    subscripts = [s for factor in deep for read in reads(factor) for s in read.subscripts if isinstance(s, Dim)]

    def moves(subscript: Dim, axis: Symbol) -> bool:
        steps = {s: found[0].constant for s in subscript.variables & axes if (found := subscript.linear_in(s)) is not None}
        unit, others = steps.pop(axis, None), list(steps.items())
        if not unit or len(others) != 1 or len(steps) + 1 != len(subscript.variables & axes):
            return False
        ((other, step),) = others
        return other in results and step is not None and step > 0

    for number, axis in enumerate(op.reduction.axes):
        if any(moves(subscript, axis.symbol) for subscript in subscripts):
            yield number


@dataclass(frozen=True, slots=True)
class Image:
    """A factor, by number, that may be an image which copies of pixels read: its channels, and the summed axes, by number, that
    move windows pixel by pixel along a dimension, with the step from one window to the next."""

    factor: int
    channels: Axis
    rows: tuple[tuple[int, int], ...]


def images(op: Compute, deep: Sequence[Scalar]) -> Iterator[Image]:
    """The factors that indices of the result move through together with summed ones, or in steps."""
    assert op.reduction is not None
    summed = op.reduction.axes
    for number, factor in enumerate(deep if len(deep) == 2 else ()):
        if not isinstance(factor, Read):
            continue
        results = {axis.symbol for axis in op.axes if not mentions(deep[1 - number], axis.symbol)}
        subscripts = [s for s in factor.subscripts if isinstance(s, Dim)]
        moving = [s for s in subscripts if s.variables & results]
        channels = [a for a in summed if any(a.symbol in s.variables for s in subscripts if s not in moving)]
        if len(channels) != 1 or len(moving) < 1 or all(s.symbol is not None for s in moving):
            continue
        rows = ((n, _row_step(subscript, axis.symbol, results)) for n, axis in enumerate(summed) for subscript in moving)
        yield Image(number, channels[0], tuple((n, step) for n, step in rows if step))


def summed_pixels(op: Compute, deep: Sequence[Scalar]) -> Iterator[tuple[int, Symbol]]:
    """The factors, by number, whose pixels are what is summed: where indices of the result move windows that summed ones begin, or
    these go in steps; with the axis of the result that is channels there."""
    assert op.reduction is not None
    summed = {axis.symbol for axis in op.reduction.axes}
    for number, factor in enumerate(deep if len(deep) == 2 else ()):
        if not isinstance(factor, Read):
            continue
        results = {axis.symbol for axis in op.axes if not mentions(deep[1 - number], axis.symbol)}
        subscripts = [s for s in factor.subscripts if isinstance(s, Dim)]
        begun = [s for s in subscripts if s.variables & summed]
        if all(s.symbol is not None for s in begun):
            continue
        for axis in results:
            own = [s for s in subscripts if axis in s.variables]
            if len(own) == 1 and own[0] not in begun and (found := own[0].linear_in(axis)) is not None and found[0] == Dim.of(1):
                yield number, axis


def _row_step(subscript: Dim, axis: Symbol, results: Set[Symbol]) -> int:
    """The step from one window to the next along a dimension in which an axis moves windows pixel by pixel; 0 if it does not."""
    own = subscript.linear_in(axis)
    (other, *more) = subscript.variables & results
    if own is None or more or own[0].constant not in (1, -1):
        return 0
    found = subscript.linear_in(other)
    return (found[0].constant or 0) if found is not None else 0


def _forwards(op: Compute, axis: Axis) -> Compute:
    """A sum in which the window that an axis moves does not go backwards, `x[p - i]`: the axis the other way round, if it does."""
    back = {axis.symbol: axis.extent - 1 - Dim.of(axis.symbol)}
    subscripts = (s for body in op.body for read in reads(body) for s in read.subscripts if isinstance(s, Dim))
    steps = (found[0].constant for s in subscripts if len(s.variables) > 1 and (found := s.linear_in(axis.symbol)) is not None)
    backwards = any(step is not None and step < 0 for step in steps)
    return replace(op, body=tuple(substitute(body, back) for body in op.body)) if backwards else op


def _seen(factor: Scalar, views: Views, *, padded: bool) -> Read | None:
    """A factor as a read at bare indices, if it is one; of one that is copied anyway, also if it is padded with zeros."""
    if isinstance(factor, Read) and padded and isinstance(factor.padding, Const) and factor.padding.value != 0:
        return None
    seen = views.seen(factor, padded=padded) if isinstance(factor, Read) else None
    return seen if seen is not None and bare(seen) is not None else None


def _with_one_depth(
    axes: tuple[Axis, ...],
    factors: tuple[Read, Read],
    views: Views,
    span: Span | None,
    window: Axis | None = None,
    *,
    filled: int = 1,
) -> tuple[Axis, tuple[Merge, ...], tuple[Read, Read]]:
    """The index that is summed over, and the factors as they are read at it: of several, one that is merged of them.

    They are merged in the order in which a factor has them side by side in its tensor, or else the first factor has them; that
    which moves a window is the outermost. What memory does not step through in that order is copied first, where that is worth it
    (see `runtime.packed`).
    """
    if len(axes) == 1:
        return axes[0], (), factors
    own = {axis.symbol: axis for axis in axes}
    orders = [tuple(symbol for symbol in bare(read) or () if symbol in own) for read in factors]
    if any(len(order) != len(own) for order in orders):
        raise Unsupported("a factor is not read at all of the summed indices", span)
    if window is not None:
        return _with_window(axes, factors, views, window, filled=filled)
    beside = (order for read, order in zip(factors, orders, strict=True) if _side_by_side(order, bare(read) or ()))
    one = merge([own[symbol] for symbol in next(beside, orders[0])])
    first, second = factors
    return one.axis, (one,), (views.merged(first, one), views.merged(second, one))


def _with_window(
    axes: tuple[Axis, ...], factors: tuple[Read, Read], views: Views, window: Axis, *, filled: int
) -> tuple[Axis, tuple[Merge, ...], tuple[Read, Read]]:
    """The same where an axis moves a window over a factor. Those that move it in other dimensions stand before the rest."""
    shown = [views.view(read) for read in factors]
    summed = {axis.symbol for axis in axes}

    def moves(axis: Axis, view: View) -> bool:
        """Whether an axis of the result steps through a dimension that this one does."""
        own = dict(zip(view.axes, view.parts, strict=True))
        along = [d for d, step in enumerate(own[axis.symbol][0].step) if step.constant != 0]
        return any(part.step[d].constant != 0 for s, parts in own.items() if s not in summed for part in parts for d in along)

    if any(axis.symbol not in view.axes for axis in axes for view in shown):
        raise Unsupported("a factor is not read at all of the summed indices")
    rest = sorted((a for a in axes if a != window), key=lambda a: not any(moves(a, view) for view in shown))
    rest[-1] = _filled(rest[-1], filled)
    one = merge([window, *rest])
    overlap = (view.overlaps(window.symbol, summed) for view in shown)
    first, second = (views.merged(read, one, window=flag) for read, flag in zip(factors, overlap, strict=True))
    return one.axis, (one,), (first, second)


def _filled(axis: Axis, multiple: int) -> Axis:
    """An axis that goes up to the next multiple."""
    return axis if multiple == 1 else Axis(axis.symbol, (axis.extent + (multiple - 1)) // multiple * multiple)


def _along(axes: tuple[Axis, ...], image: View, other: View) -> tuple[dict[Symbol, list[int]], set[int]]:
    """The dimensions of an image that each of its indices steps through, and those that an index only it has steps through. Raises
    `Unsupported` where the image or the other factor is not read at one of the summed `axes`."""
    if any(axis.symbol not in view.axes for axis in axes for view in (image, other)):
        raise Unsupported("a factor is not read at all of the summed indices")
    own = zip(image.axes, image.parts, strict=True)
    along = {s: [d for part in parts for d, step in enumerate(part.step) if step.constant != 0] for s, parts in own}
    return along, {d for s, dimensions in along.items() if s not in other.axes for d in dimensions}


def _with_channels(
    axes: tuple[Axis, ...], factors: tuple[Read, Read], views: Views, merging: Merging, joined: Axis | None
) -> tuple[Axis, tuple[Merge, ...], tuple[Read, Read]]:
    """The index that is summed over where a factor is read by copies of pixels: channels are its innermost, a row of a window that
    is `joined` with them stands before them, and before it what moves within a window, in the order of the dimensions of images."""
    assert merging.im2col is not None
    image, other = (views.view(factors[n]) for n in (merging.im2col, 1 - merging.im2col))
    along, moved = _along(axes, image, other)
    # Along channels only what stands in both factors moves besides: groups.
    order = sorted(axes, key=lambda axis: (moved.isdisjoint(along[axis.symbol]), axis == joined, along[axis.symbol]))
    order[-1] = _filled(order[-1], merging.filled)
    if joined is not None:
        order[-2] = _filled(order[-2], merging.row)
    one = merge(order)
    first, second = (views.merged(read, one) for read in factors)
    return one.axis, (one,), (first, second)


def _with_pixels(
    axes: tuple[Axis, ...], factors: tuple[Read, Read], views: Views, merging: Merging
) -> tuple[Axis, tuple[Merge, ...], tuple[Read, Read]]:
    """The index that is summed over where that is pixels of the factor that copies of these read: those of an image, in the order
    of its dimensions, within what numbers images."""
    assert merging.im2col is not None
    image, other = (views.view(factors[n]) for n in (merging.im2col, 1 - merging.im2col))
    along, moved = _along(axes, image, other)
    steps = {s: [part.step[d] for part in parts for d in along[s]] for s, parts in zip(image.axes, image.parts, strict=True)}

    def within(axis: Axis) -> bool:
        """Whether windows move along the dimension too, or pixels in steps."""
        return not moved.isdisjoint(along[axis.symbol]) or steps[axis.symbol] != [Dim.of(1)]

    order = sorted(axes, key=lambda axis: (within(axis), along[axis.symbol]))
    if len(order) == 1:
        return order[0], (), factors
    one = merge(order)
    first, second = (views.merged(read, one) for read in factors)
    return one.axis, (one,), (first, second)


def _side_by_side(some: tuple[Symbol, ...], axes: tuple[Symbol, ...]) -> bool:
    start = axes.index(some[0])
    return axes[start : start + len(some)] == some


def _operand(read: Read, views: Views) -> EpilogueOperand:
    axes = bare(read)
    assert axes is not None
    return EpilogueOperand(views.value(read.tensor), axes, tuple(range(len(axes))))
