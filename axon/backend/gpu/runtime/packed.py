"""Operands that bulk copies cannot read as they lie: a plain kernel copies them first, in rows at multiples of 16 bytes, each along
an axis that tiles are cut along; of products that round to tf32, or have 8 bits, along what is summed. What a kernel makes between
others is stored in such rows in the first place, if nothing else is in the way.

That moves a factor twice more. Whether the tensor cores make up for it, against a kernel that does without them, is a matter of
cost; of a stream, whose factors are used again and again, of its extents.

Note [Spaced rows]
    How a tensor lies that one kernel makes and others read is the compiler's own affair. Where its rows are no multiple of 16
    bytes, spaced ones take a few bytes more, and then bulk copies store tiles of them, and plain kernels move neighbours together
    (see `simt.mapping`, Note [Teams]); but a map over all elements as one row is one no more, and short rows would become much
    longer. So kernels are asked, with and without. What a kernel stores together must be spaced together with what it reads, so all
    tensors are taken to be spaced first; then, one after the other, those go back to what they were without which nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from math import inf, prod
from typing import assert_never

from axon.backend.gpu.build.recipe import tensors as tensors_of
from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.layout import roofline
from axon.backend.gpu.layout.copies import CopyLayout, spread
from axon.backend.gpu.layout.memory import SPACED, DeviceTensor, aligned
from axon.backend.gpu.layout.pages import Gathered, gathered
from axon.backend.gpu.layout.roofline import memory_rate
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.prepare import (
    as_it_lies,
    fit,
    is_empty,
    is_staged,
    problem_of,
    side_by_side,
    unreadable,
    with_views_of,
)
from axon.backend.gpu.simt.moves import moving
from axon.backend.gpu.tile.contraction import MatrixProduct, view_of
from axon.backend.gpu.tile.epilogue import EpilogueOperand
from axon.backend.gpu.tile.families import Kernel, Tiled, copy, in_pages, results_of, views_of, with_operands
from axon.backend.gpu.tile.limbs import without_tensor_cores
from axon.backend.gpu.tile.schedule import fastest
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.ir import Nest, Reason, reads_of
from axon.backend.plan.scratch import ALIGNMENT
from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Compute, Program, Value
from axon.core.walk import outs_of
from axon.shapes.dimension import Dim

LONGER = 8  # parts of a tensor, of which spaced rows may add one
GAIN, PART = 1e-6, 0.02  # seconds, and of what kernels take a part, that spaced rows must save
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
    """The kernels with copies of these operands, but of no tensor that a kernel may store in other rows: no result."""
    given = tuple(kernels)
    stored = {value.symbol: value for kernel in given for value in _stored(kernel)}
    own = {symbol: value for symbol, value in stored.items() if symbol not in set(results)}
    copies, spaced = dict[Symbol, int](), dict[Symbol, int]()
    return Copied(tuple(_copied(given, packed, own, copies, spaced)), copies, spaced)


def _stored(kernel: Kernel) -> Iterable[Value]:
    """What a kernel stores dimension by dimension, so that rows may lie anywhere."""
    if isinstance(kernel, Nest):
        return results_of(kernel)
    return (result.value for result in kernel.results if result.view is None)


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


def all_gathered(program: Program) -> dict[Symbol, Gathered]:
    """What operations of a program only gather, and is no result."""
    values = {v.symbol: v for v in program.inputs} | {out.symbol: out for op in program.block.ops for out in outs_of(op)}
    ops = (op for op in program.block.ops if isinstance(op, Compute))
    found = {each.value.symbol: each for op in ops for each in gathered(op, values)}
    return {symbol: each for symbol, each in found.items() if symbol not in program.block.results}


def without_gathered(program: Program, found: Mapping[Symbol, Gathered]) -> Program:
    """A program that takes what is gathered as if it were there."""
    ops = (op for op in program.block.ops if found.keys().isdisjoint(out.symbol for out in outs_of(op)))
    given = tuple(each.value for each in found.values())
    return replace(program, inputs=(*program.inputs, *given), block=replace(program.block, ops=tuple(ops)))


def read_by(kernel: Kernel, program: Program) -> Set[Symbol]:
    """The tensors that a kernel reads, behind its views."""
    if isinstance(kernel, Nest):
        return reads_of(kernel)
    if isinstance(kernel, Stream):
        return kernel.needs
    values = {*program.inputs, *(out for op in program.block.ops for out in outs_of(op))}
    sources = {view.value.symbol: view.source for view in views_of(kernel)}
    return {sources.get(value.symbol, value.symbol) for value in tensors_of(kernel, tuple(values))}


def unpacked(
    program: Program,
    kernels: Sequence[Kernel],
    tensors: Mapping[Symbol, DeviceTensor],
    sizes: Mapping[Symbol, int],
    target: Target,
) -> frozenset[Symbol]:
    """What kernels gather for streams that would rather read it in its pages, all of them: where no copy is made, memory is read
    once, and not written and read again; but each box of a page is a copy of its own."""
    candidates = all_gathered(program)
    values = {v.symbol: v for v in program.inputs} | {out.symbol: out for op in program.block.ops for out in outs_of(op)}
    able: dict[Symbol, bool] = {}
    for kernel in kernels:
        own = {s: candidates[s] for s in read_by(kernel, program) & candidates.keys()} if candidates else {}
        if not own:
            continue
        better = _better_in_pages(kernel, own, values, tensors, sizes, target) if isinstance(kernel, Stream) else frozenset()
        for symbol in own:
            able[symbol] = able.get(symbol, True) and symbol in better
    return frozenset(symbol for symbol, better in able.items() if better)


def _better_in_pages(
    kernel: Stream,
    found: Mapping[Symbol, Gathered],
    values: Mapping[Symbol, Value],
    tensors: Mapping[Symbol, DeviceTensor],
    sizes: Mapping[Symbol, int],
    target: Target,
) -> Set[Symbol]:
    """What a stream takes less time to read in its pages than as a copy that is made first."""
    nothing = frozenset[Symbol]()
    if kernel.further or any(operand.value.element.bits != 16 for operand in kernel.operands) or is_empty(kernel, sizes):
        return nothing
    try:
        paged, _ = in_pages(kernel, found, values)
    except Unsupported:
        return nothing
    seen = with_views_of(paged, tensors, sizes)
    if isinstance(seen, str):
        return nothing
    for operand in paged.operands:
        if paged.pages_of(operand) is not None:
            lying = as_it_lies(paged, operand, seen[operand.value.symbol])
            if isinstance(lying, str) or lying.axes[-1] == paged.keys.symbol:
                return nothing
    own = found.keys() - paged.needs
    sources = {view.value.symbol: view.source for view in kernel.views}
    copied = [o for o in kernel.operands if sources.get(o.value.symbol, o.value.symbol) in own]
    before = sum(copying(kernel, operand, sizes, target) for operand in dict.fromkeys(copied))
    after = fastest(problem_of(paged, sizes), traits(paged), target)
    return own if after < before + fastest(problem_of(kernel, sizes), traits(kernel), target) else nothing


def spacing(
    kernels: Iterable[Kernel],
    values: Mapping[Symbol, Value],
    own: Set[Symbol],
    tensors: Mapping[Symbol, DeviceTensor],
    sizes: Mapping[Symbol, int],
    target: Target,
) -> frozenset[Symbol]:
    """Those of a program's `own` tensors between kernels whose rows are spaced at these sizes. See Note [Spaced rows]."""
    running = [kernel for kernel in kernels if not is_empty(kernel, sizes)]
    made = {value.symbol for kernel in running for value in results_of(kernel)} & own
    spaced: dict[Symbol, DeviceTensor] = {}
    for symbol in sorted(made, key=lambda symbol: symbol.id):
        lying = tensors[symbol]
        wide = aligned(ALIGNMENT, lying.shape, lying.element, least=SPACED)
        if wide.spare and LONGER * wide.bytes <= (LONGER + 1) * lying.bytes:
            spaced[symbol] = wide
    chosen = frozenset(spaced)
    if not chosen:
        return chosen
    users = [(kernel, found) for kernel in running if (found := frozenset(_touched(kernel, values) & chosen))]
    known: dict[tuple[int, frozenset[Symbol]], float] = {}

    def seconds(chosen: frozenset[Symbol]) -> float:
        for number, (kernel, own) in enumerate(users):
            if (number, own & chosen) not in known:
                lying = {**tensors, **{symbol: spaced[symbol] for symbol in own & chosen}}
                known[number, own & chosen] = _seconds(kernel, values, lying, sizes, target)
        return sum(known[number, own & chosen] for number, (_, own) in enumerate(users))

    least = max(GAIN, PART * seconds(frozenset()))
    for symbol in spaced:
        if seconds(chosen - {symbol}) < seconds(chosen) + least:
            chosen -= {symbol}
    return chosen if seconds(chosen) + least <= seconds(frozenset()) else frozenset()


def _touched(kernel: Kernel, values: Mapping[Symbol, Value]) -> Set[Symbol]:
    """What a kernel reads or stores."""
    if isinstance(kernel, Nest):
        return reads_of(kernel) | set(kernel.stored)
    sources = {view.value.symbol: view.source for view in views_of(kernel)}
    return {sources.get(value.symbol, value.symbol) for value in tensors_of(kernel, tuple(values.values()))}


def _seconds(
    kernel: Kernel,
    values: Mapping[Symbol, Value],
    tensors: Mapping[Symbol, DeviceTensor],
    sizes: Mapping[Symbol, int],
    target: Target,
) -> float:
    """Of a kernel, as far as it depends on how rows lie: what a plain one moves, and what one for the tensor cores stores without
    bulk copies, which takes about as much longer as memory takes for it."""
    if isinstance(kernel, Nest):
        return moving(kernel, values, tensors, sizes, target)
    ready = fit(kernel, tensors, sizes)
    if isinstance(ready, str):
        return inf
    ragged = isinstance(kernel, MatrixProduct) and kernel.ragged is not None
    if not ragged and ready.granted.boxed >= {result.place.symbol for result in kernel.results}:
        return 0.0
    return sum(tensors[result.value.symbol].bytes for result in kernel.results) / memory_rate(target)


def _lasting(kernel: Tiled, operand: EpilogueOperand) -> frozenset[Symbol]:
    """The axes of which one may be the last of a copy."""
    if isinstance(kernel, MatrixProduct) and is_staged(kernel, operand):
        return frozenset({kernel.depth.symbol})
    return side_by_side(kernel, operand)


def _order(operand: EpilogueOperand, axes: Set[Symbol]) -> tuple[int, ...]:
    """The dimensions of a copy: its operand's own, but the last one along which elements may lie side by side behind all others."""
    last = max(d for d, axis in zip(operand.order, operand.axes, strict=True) if axis in axes)
    return (*(d for d in sorted(operand.order) if d != last), last)


@lru_cache(maxsize=4096)
def _symbol(result: Symbol, number: int, name: str) -> Symbol:
    """Of a copy: the same in everything that is made of one program."""
    return fresh(name)
