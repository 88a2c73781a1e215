"""Operands that bulk copies cannot read as they lie: a plain kernel copies them first, in rows at multiples of 16 bytes, each along
an axis that tiles are cut along; of products that round to tf32, along what is summed. What a plain kernel makes between others is
stored in such rows in the first place, if nothing else is in the way.

That moves a factor twice more. Whether the tensor cores make up for it, against a kernel that does without them, is a matter of
cost; of a stream, whose factors are used again and again, of its extents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from functools import lru_cache
from math import prod
from typing import assert_never

from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.layout import roofline
from axon.backend.gpu.layout.copies import CopyLayout, spread
from axon.backend.gpu.layout.memory import DeviceTensor, aligned
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.prepare import is_staged, problem_of, side_by_side, unreadable
from axon.backend.gpu.tile.contraction import MatrixProduct, view_of
from axon.backend.gpu.tile.epilogue import EpilogueOperand
from axon.backend.gpu.tile.families import Kernel, Tiled, copy, results_of, with_operands
from axon.backend.gpu.tile.limbs import without_tensor_cores
from axon.backend.gpu.tile.schedule import fastest
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.ir import Nest, Reason
from axon.backend.plan.scratch import ALIGNMENT
from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Value
from axon.shapes.dimension import Dim

MOST_BYTES = 20 << 30  # of copies that have elements several times, as windows do
LEAST = 64  # rows and keys of a stream
Packing = tuple[Symbol, int]  # of what: the first result of a kernel, and which of its operands
Copies = dict[tuple[Symbol, CopyLayout], Value]  # of a tensor, by their memory


def packings(
    kernel: Tiled, tensors: Mapping[Symbol, DeviceTensor], sizes: Mapping[Symbol, int], target: Target
) -> frozenset[Packing]:
    """The operands to copy for a kernel; none if it can read all, if it is not worth it, or if a view cannot be made."""
    problem = problem_of(kernel, sizes)
    if problem.depth < 1:
        return frozenset()
    try:
        found = unreadable(kernel, tensors, sizes)
    except Unsupported:
        return frozenset()
    if sum(_repeated(kernel, number, tensors, sizes) for number in found) > MOST_BYTES:
        return frozenset()
    match kernel:
        case Stream():
            worth = min(problem.rows, problem.keys) >= LEAST
        case MatrixProduct():
            moved = sum(copying(kernel, kernel.operands[number], sizes, target) for number in found)
            with_copies = moved + fastest(problem, traits(kernel), target)
            worth = with_copies < problem.sums * without_tensor_cores(kernel, problem, sizes, target)
        case _:
            assert_never(kernel)
    return frozenset((kernel.results[0].value.symbol, number) for number in found) if worth else frozenset()


def copying(kernel: Tiled, operand: EpilogueOperand, sizes: Mapping[Symbol, int], target: Target) -> float:
    """Seconds of a kernel that copies a factor."""
    shape = _shape(kernel, operand, sizes)
    moved = 2 * prod(shape) * max(8, operand.value.element.bits) // 8
    return roofline.copying(moved, prod(shape), len(shape), shape[-1]).seconds(target)


def is_seen(kernel: Tiled, operand: EpilogueOperand, sizes: Mapping[Symbol, int]) -> bool:
    """Whether copies of pixels, where a factor is read by these, can address a copy of it."""
    order, view = _order(operand, _lasting(kernel, operand)), view_of(kernel, operand)
    if view is None or not view.im2col:
        return True
    lying = spread(operand.value, view, order)
    shape = tuple(max(0, extent.evaluate(sizes)) for extent in lying.shape)
    seen = lying.seen(operand.value, operand.arranged(order).axes)
    try:
        return seen is None or seen.of(aligned(ALIGNMENT, shape, operand.value.element, lying.row), sizes).copyable is None
    except Unsupported:
        return False


def _shape(kernel: Tiled, operand: EpilogueOperand, sizes: Mapping[Symbol, int]) -> tuple[int, ...]:
    """Of a copy."""
    lying = spread(operand.value, view_of(kernel, operand), _order(operand, _lasting(kernel, operand)))
    return tuple(max(0, extent.evaluate(sizes)) for extent in lying.shape)


def _repeated(kernel: Tiled, number: int, tensors: Mapping[Symbol, DeviceTensor], sizes: Mapping[Symbol, int]) -> int:
    """Bytes of a copy of an operand, if it has elements several times; else 0."""
    operand = kernel.operands[number]
    view, value = view_of(kernel, operand), operand.value
    elements = prod(_shape(kernel, operand, sizes))
    source = value.symbol if view is None else view.source
    return elements * max(8, value.element.bits) // 8 if elements > prod(tensors[source].shape) else 0


@dataclass(frozen=True, slots=True)
class Copied:
    """Kernels with copies of operands in front. Of the `copies`, and of tensors that kernels store in `spaced` rows, so many
    dimensions each make up a row, which is to lie at a multiple of 16 bytes."""

    kernels: tuple[Kernel, ...]
    copies: dict[Symbol, int]
    spaced: dict[Symbol, int]


def with_copies(kernels: Iterable[Kernel], packed: Set[Packing], results: Iterable[Symbol]) -> Copied:
    """The kernels with copies of these operands, but of no tensor that a plain kernel may store in other rows: no result."""
    given = tuple(kernels)
    stored = {value.symbol: value for kernel in given if isinstance(kernel, Nest) for value in results_of(kernel)}
    own = {symbol: value for symbol, value in stored.items() if symbol not in set(results)}
    copies, spaced = dict[Symbol, int](), dict[Symbol, int]()
    return Copied(tuple(_copied(given, packed, own, copies, spaced)), copies, spaced)


def _as_it_is(value: Value, lying: CopyLayout) -> bool:
    """Whether a copy has a tensor's own dimensions, in their order."""
    rank, unit = len(value.shape), Dim.of(1)
    steps = [tuple(unit if d == n else Dim.of(0) for d in range(rank)) for n in range(rank)]
    plain = lying.row == 1 and lying.padding is None and not lying.im2col and all(begin == Dim.of(0) for begin in lying.start)
    own = all(part.there is None for part in lying.dimensions) and [part.step for part in lying.dimensions] == steps
    return plain and own and lying.shape == value.shape


def _copied(
    kernels: Iterable[Kernel],
    packed: Set[Packing],
    own: Mapping[Symbol, Value],
    rows: dict[Symbol, int],
    spaced: dict[Symbol, int],
) -> Iterator[Kernel]:
    copies: Copies = {}
    for kernel in kernels:
        if isinstance(kernel, Nest):
            yield kernel
            continue
        operands, views = list(kernel.operands), list(kernel.views)
        for number, operand in enumerate(operands):
            if (kernel.results[0].value.symbol, number) not in packed:
                continue
            value, order = operand.value, _order(operand, _lasting(kernel, operand))
            view = view_of(kernel, operand)
            lying, source = spread(value, view, order), value.symbol if view is None else view.source
            if source in own and _as_it_is(own[source], lying):
                spaced[source] = lying.row
                continue
            if (source, lying.memory) not in copies:
                symbol = _symbol(kernel.results[0].value.symbol, number, value.symbol.name)
                made = copies[source, lying.memory] = replace(value, symbol=symbol, shape=lying.shape)
                rows[symbol] = lying.row
                why = Reason("a copy of {0} for the tensor cores, which cannot read it as it lies", (source,))
                yield copy(made, source, lying, (why,), kernel.span)
            made, axes = copies[source, lying.memory], operand.arranged(order).axes
            seen = lying.seen(made, axes)
            views += [] if seen is None else [seen]
            operands[number] = EpilogueOperand(made if seen is None else seen.value, axes, tuple(range(len(axes))))
        yield with_operands(replace(kernel, views=tuple(views)), tuple(operands))


def _lasting(kernel: Tiled, operand: EpilogueOperand) -> frozenset[Symbol]:
    """The axes of which one may be the last of a copy."""
    if isinstance(kernel, MatrixProduct) and is_staged(kernel, operand):
        return frozenset({kernel.depth.symbol})
    return side_by_side(kernel)


def _order(operand: EpilogueOperand, axes: Set[Symbol]) -> tuple[int, ...]:
    """The dimensions of a copy: its operand's own, but the last one along which elements may lie side by side behind all others."""
    last = max(d for d, axis in zip(operand.order, operand.axes, strict=True) if axis in axes)
    return (*(d for d in sorted(operand.order) if d != last), last)


@lru_cache(maxsize=4096)
def _symbol(result: Symbol, number: int, name: str) -> Symbol:
    """Of a copy: the same in everything that is made of one program."""
    return fresh(name)
