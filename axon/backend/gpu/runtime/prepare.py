"""A kernel for the tensor cores as its tensors lie and at given sizes: what decides its mapping and its variant."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as MappingOf
from math import gcd, prod
from typing import assert_never

from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.axes import ScatteredAxes
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.pages import axes_in
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import View, itself, with_views
from axon.backend.gpu.tile.contraction import MatrixProduct, terms, view_of
from axon.backend.gpu.tile.epilogue import EpilogueOperand, views_of
from axon.backend.gpu.tile.epilogue_cost import epilogue_of
from axon.backend.gpu.tile.families import Kernel, Tiled, with_operands
from axon.backend.gpu.tile.schedule import ScheduleProblem, TileMapping
from axon.backend.gpu.tile.segments import fronted
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.ir import Nest, values_of
from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.core.passes.parts import fails


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel as its tensors lie: the sizes it is mapped for, and what its code can take for granted."""

    kernel: Tiled
    problem: ScheduleProblem
    granted: Granted

    @property
    def key(self) -> Tiled:
        """What its variants are variants of."""
        return self.kernel


def prepare(kernel: Tiled, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]) -> Prepared:
    """A kernel for these tensors. Raises `Unsupported` where `fit` gives a reason."""
    ready = fit(kernel, tensors, sizes)
    if isinstance(ready, str):
        raise Unsupported(ready, kernel.span)
    return ready


def fit(kernel: Tiled, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]) -> Prepared | str:
    """A kernel for these tensors; or why there is none: operands that bulk copies cannot read, a sum over nothing."""
    seen = with_views_of(kernel, tensors, sizes)
    if isinstance(seen, str):
        return seen
    lying = []
    for operand in kernel.operands:
        found = as_it_lies(kernel, operand, seen[operand.value.symbol])
        if isinstance(found, str):
            source = next((v.source for v in kernel.views if v.value == operand.value), None)
            name = f"`{operand.value.symbol.name}`" if source is None else f"what is read of `{source.name}`"
            return f"{name} cannot be read by bulk copies: {found}"
        lying.append(found)
    kernel = _fronted(with_operands(kernel, lying))
    if isinstance(kernel, MatrixProduct) and kernel.ragged is not None and kernel.ragged.groups.evaluate(sizes) < 1:
        return "there are no groups of which rows could be"
    problem = problem_of(kernel, sizes)
    if any(axis.extent.evaluate(sizes) < 1 for axis in kernel.reduced):
        return "a sum over nothing"
    stored = {r.place.symbol: r.axes for r in kernel.results}
    last = kernel.columns.symbol
    boxed = frozenset(s for s, axes in stored.items() if axes[-1] == last and seen[s].storable)
    dense = frozenset(s for s, axes in stored.items() if axes[-1] == last and seen[s].strides[-1] == 1)
    by_key = kernel.by_key if isinstance(kernel, Stream) else frozenset()
    paired = frozenset(s for s, tensor in seen.items() if tensor.paired and (tensor.element.bits == 16 or s in by_key))
    runs = frozenset(symbol for symbol in by_key if seen[symbol].strides[-1] == 1)
    return Prepared(kernel, problem, Granted(boxed, dense, paired, runs))


def _fronted(kernel: Tiled) -> Tiled:
    """A kernel whose factors are read where a step begins in a segment of rows, if it sums these: see Note [Segments of a sum]."""
    if not isinstance(kernel, MatrixProduct) or kernel.segments is None:
        return kernel
    views = {view.value: view for view in kernel.views}
    rows, front = kernel.depth.symbol, kernel.segments.front
    found: list[View] = []
    operands: list[EpilogueOperand] = []
    for operand in kernel.operands:
        axis_of = dict(zip(operand.order, operand.axes, strict=True))
        axes = tuple(axis_of[d] for d in range(len(axis_of)))
        view = fronted(views.get(operand.value) or itself(operand.value, axes), rows, front)
        along = axes.index(rows)
        order = tuple(x for d in operand.order for x in ((d, d + 1) if d == along else (d + (d > along),)))
        operands.append(EpilogueOperand(view.value, tuple(view.axes[d] for d in order), order))
        found.append(view)
    return with_operands(replace(kernel, views=(*kernel.views, *found)), operands)


def with_views_of(
    kernel: Tiled, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]
) -> MappingOf[Symbol, DeviceTensor] | str:
    """The tensors and a kernel's views of them; or why one of these cannot be made."""
    try:
        return with_views(views_of(kernel), tensors, sizes)
    except Unsupported as refused:
        return refused.reason


def unreadable(kernel: Tiled, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]) -> frozenset[int]:
    """Which operands bulk copies cannot read as they lie. Raises `Unsupported` if one moves with a loop's counter."""
    views = {view.value.symbol: view for view in kernel.views}

    def is_readable(operand: EpilogueOperand) -> bool:
        view = views.get(operand.value.symbol)
        try:
            tensor = tensors[operand.value.symbol] if view is None else view.of(tensors[view.source], sizes)
        except ScatteredAxes:
            return False
        return not isinstance(as_it_lies(kernel, operand, tensor), str)

    return frozenset(number for number, operand in enumerate(kernel.operands) if not is_readable(operand))


def copied(kernel: Tiled, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]) -> frozenset[int | Symbol]:
    """What bulk copies move: operands by their numbers, and results. Nothing where a view cannot be made."""
    seen = with_views_of(kernel, tensors, sizes)
    if isinstance(seen, str):
        return frozenset()
    last, missing = kernel.columns.symbol, unreadable(kernel, tensors, sizes)
    stored = (r.value.symbol for r in kernel.results if r.axes[-1] == last and seen[r.place.symbol].storable)
    return frozenset([*(number for number in range(len(kernel.operands)) if number not in missing), *stored])


def as_it_lies(kernel: Tiled, operand: EpilogueOperand, tensor: DeviceTensor) -> EpilogueOperand | str:
    """The operand with its dimensions in an order in which bulk copies read it where it lies, its own if that will do; or why there
    is none.

    Elements lie side by side along the last dimension, and a copy takes many of them: so its axis must be one that tiles are cut
    along. An outer one (a batch) has one index in each tile.
    """
    why = None
    for order in (operand.order, tensor.order):
        arranged = operand.arranged(order)
        why = tensor.arranged(order).copyable
        if why is None and sums_segments(kernel) and len(order) == HOPPER.tensor_map_rank:
            return f"it has {HOPPER.tensor_map_rank} dimensions, and copies of segments of rows have one more"
        if why is None and is_staged(kernel, operand) and arranged.axes[-1] != kernel.depth.symbol:
            return "of what is computed with it memory has no rows along what is summed"
        if why is None and arranged.axes[-1] in side_by_side(kernel, operand):
            return arranged
    if why is None and sums_segments(kernel):
        return "its contiguous dimension is that of rows in groups"
    if why is None and (kernel.along if isinstance(kernel, MatrixProduct) else operand.value.element.bits == 8):
        bits = operand.value.element.bits
        return f"its contiguous dimension is not summed, and matrix instructions take factors of {bits} bits along what is"
    return why or "its contiguous dimension is neither reduced nor one of the result's last two"


def is_staged(kernel: Tiled, operand: EpilogueOperand) -> bool:
    """Whether threads compute a factor of it, in rows along what is summed."""
    return isinstance(kernel, MatrixProduct) and kernel.computed is not None and operand in kernel.lefts


def side_by_side(kernel: Tiled, operand: EpilogueOperand) -> frozenset[Symbol]:
    """The axes along one of which the elements of an operand must lie side by side."""
    if sums_segments(kernel):
        return frozenset((kernel.rows.symbol, kernel.columns.symbol))
    if isinstance(kernel, Stream) and operand.value.element.bits == 8:
        summed = {axis.symbol for axis in kernel.depths} & {*operand.axes}
        return frozenset(summed or (kernel.keys.symbol,))
    along = isinstance(kernel, MatrixProduct) and kernel.along
    return frozenset((kernel.depth.symbol,)) if along else tiled_axes(kernel)


def sums_segments(kernel: Tiled) -> bool:
    """Whether what it sums are the rows of groups."""
    return isinstance(kernel, MatrixProduct) and kernel.segments is not None


def tiled_axes(kernel: Tiled) -> frozenset[Symbol]:
    """The axes of which a tile has more than one index."""
    return frozenset(axis.symbol for axis in (kernel.rows, kernel.columns, *kernel.reduced))


def is_empty(kernel: Kernel, sizes: MappingOf[Symbol, int]) -> bool:
    """Whether its results have no elements, so that nothing is to be done. What may stop the program is done for each row."""
    axes = kernel.rows if isinstance(kernel, Nest) else (*kernel.outer, kernel.rows, kernel.columns)
    if any(axis.extent.evaluate(sizes) <= 0 for axis in axes):
        return True
    if not isinstance(kernel, Nest) or any(map(fails, kernel.steps)):
        return False
    return all(any(extent.evaluate(sizes) <= 0 for extent in value.shape) for value in values_of(kernel))


def problem_of(kernel: Tiled, sizes: MappingOf[Symbol, int]) -> ScheduleProblem:
    """The sizes on which the choice of a mapping depends."""
    extents = {axis.symbol: axis.extent.evaluate(sizes) for axis in kernel.outer}
    outer = prod(extents.values())
    rows, columns, depth = (axis.extent.evaluate(sizes) for axis in (kernel.rows, kernel.columns, kernel.depth))
    match kernel:
        case MatrixProduct(computed=computed) if computed is not None:
            sources = tuple((operand, one.per) for operand, one in zip(kernel.lefts, computed.staged, strict=True))
            staged = (
                _elements(kernel, operand, -(-rows * depth // per), sizes, extents) * operand.value.element.bits // 8
                for operand, per in sources
            )
            right = _elements(kernel, kernel.right, columns * depth, sizes, extents)
            return ScheduleProblem(
                rows, columns, depth, outer, elements=(0, right), staged=sum(staged), work=computed.work(kernel.depth.symbol)
            )
        case MatrixProduct():
            limbs = (len(kernel.lefts), len(kernel.rights))
            sides = ((kernel.left, rows), (kernel.right, columns))
            lefts, rights = (_elements(kernel, operand, side * depth, sizes, extents) for operand, side in sides)
            problem = ScheduleProblem(
                rows, columns, depth, outer, limbs=limbs, products=len(kernel.terms), factors=kernel.factors,
                elements=(lefts, rights), bits=kernel.left.value.element.bits, promotion=kernel.promotion,
                by_column=kernel.by_column, epilogue=epilogue_of(kernel),
            )  # fmt: skip
            if kernel.ragged is not None:
                groups = kernel.ragged.groups.evaluate(sizes)
                return replace(problem, groups=groups, elements=(lefts, rights * min(groups, rows)))
            if kernel.segments is not None:
                groups = max(1, next(n for axis, n in extents.items() if axis == kernel.segments.group))
                return replace(problem, depth=-(-depth // groups))
            down, across = view_of(kernel, kernel.left), view_of(kernel, kernel.right)
            if down is not None and down.im2col:
                return replace(problem, pixels="rows", summed=down.axes[-2] == kernel.depth.symbol)
            if across is not None and across.im2col:
                return replace(problem, pixels="columns", summed=across.axes[-2] == kernel.depth.symbol)
            return problem
        case Stream():
            keys, depth = kernel.keys.extent.evaluate(sizes), max(axis.extent.evaluate(sizes) for axis in kernel.depths)
            problem = ScheduleProblem(
                rows, columns, depth, outer, keys, kernel.condition is not None, scores=len(kernel.depths),
                by_key=len(kernel.by_key), page=_page(kernel, sizes), elements=_in_16_bits(kernel, sizes),
                bits=kernel.query.value.element.bits, value_bits=kernel.value.value.element.bits, promotion=kernel.promotion,
                limbs=(len(kernel.limbs[0]), len(kernel.limbs[1])), products=len(terms(len(kernel.limbs[0]), len(kernel.limbs[1]))),
            )  # fmt: skip
            part = None if kernel.part is None else kernel.part.evaluate(sizes)
            return problem if part is None else replace(problem, keys=part, masked=False)
        case _:
            assert_never(kernel)


def _in_16_bits(kernel: Stream, sizes: MappingOf[Symbol, int]) -> tuple[int, int]:
    """How many elements of 16 bits are as much as queries, and as keys and values."""
    sides = (kernel.queries, (*kernel.key_operands, kernel.value))
    queries, others = (sum(shown(kernel, [o], sizes) * o.value.element.bits // 16 for o in side) for side in sides)
    return queries, others


def _page(kernel: Stream, sizes: MappingOf[Symbol, int]) -> int:
    """Of how many keys pages are; of several sizes what divides all. 0 without pages."""
    return gcd(*(pages.rows.evaluate(sizes) for pages in kernel.pages))


def shown(kernel: Stream, operands: Iterable[EpilogueOperand], sizes: MappingOf[Symbol, int]) -> int:
    """How many elements of operands a kernel reads: at an index that is the same in all of it, as a loop's counter, one alone; in
    pages those of its keys, for each index at which a table is read."""
    outer = {axis.symbol: axis.extent for axis in kernel.outer}
    alone = {symbol for symbol, dim in kernel.derived if dim.variables.isdisjoint(outer)}
    found = 0
    for operand in operands:
        pages = kernel.pages_of(operand)
        extents = {axis: operand.value.shape[d] for axis, d in zip(operand.axes, operand.order, strict=True) if axis not in alone}
        if pages is not None:
            extents = {axis: extent for axis, extent in extents.items() if axis not in pages.own} | {
                kernel.keys.symbol: pages.extent
            }
            extents |= {axis: outer[axis] for scalar in pages.scalars for axis in axes_in(scalar) if axis in outer}
        found += prod(max(0, extent.evaluate(sizes)) for extent in extents.values())
    return found


def _elements(
    kernel: MatrixProduct, operand: EpilogueOperand, matrix: int, sizes: MappingOf[Symbol, int], outer: MappingOf[Symbol, int]
) -> int:
    """How many different elements of a factor there are for all outer indices, of which one that follows from others may be any:
    those of its matrices, or what its windows reach."""
    front = set() if kernel.segments is None else {kernel.segments.front}
    axes = set(operand.axes) - tiled_axes(kernel) - front
    whole = matrix * (prod(outer[axis] for axis in axes) if axes <= outer.keys() else prod(outer.values()))
    view = view_of(kernel, operand)
    return min(whole, view.reached(sizes)) if view is not None and view.im2col else whole


def blocks(mapping: TileMapping, problem: ScheduleProblem, target: Target) -> int:
    """How many thread blocks to launch: one for each tile, or as many as the chip holds if the mapping is persistent."""
    rows, columns = -(-problem.rows // mapping.rows) + problem.groups, -(-problem.columns // mapping.columns)
    if mapping.cluster_over == "rows":
        rows = -(-rows // mapping.cluster)
    else:
        columns = -(-columns // mapping.cluster)
    clusters = rows * columns * problem.outer
    held = target.multiprocessors // mapping.cluster
    return mapping.cluster * (min(clusters, held) if mapping.persistent else clusters)
