"""In which order the kernels of a sort or a compress run, over how many blocks, with what room of their own."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from axon.backend.gpu.build.recipe import Plain
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.sorting import bitonic, compress, elements, radix
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol


@dataclass(frozen=True, slots=True)
class SortLaunch:
    """A kernel over so many blocks. `sizes` are what its parameters stand for."""

    kernel: Plain
    blocks: int
    sizes: Mapping[Symbol, int]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Steps, the tensors that they are `given`, and the bytes of each buffer that they need `room` for."""

    steps: tuple[SortLaunch, ...]
    given: tuple[Symbol, ...]
    room: Mapping[Symbol, int]

    @property
    def kernels(self) -> tuple[Plain, ...]:
        return tuple({step.kernel.source.text: step.kernel for step in self.steps}.values())


def sorting(element: Element, shape: tuple[int, ...], target: Target) -> Algorithm:
    """A sort of rows, the last dimension of a tensor that has elements."""
    keys, rank, length, rows = elements.Keys(element), len(shape), shape[-1], prod(shape[:-1])
    sizes = {elements.LENGTH: length, elements.ROWS: rows, **dict(zip(elements.LEADING, shape[:-1], strict=False))}
    given = (elements.INPUT, elements.VALUES, elements.INDICES)
    whole = next((b for b in radix.blocks_of_rows(keys, target.shared_per_block) if length <= b.tile), None)
    if length <= bitonic.TILE:
        width = 1 << (length - 1).bit_length()
        step = SortLaunch(bitonic.short_rows(element, rank), -(-rows * width // bitonic.TILE), {**sizes, bitonic.WIDTH: width})
    elif whole is not None:
        step = SortLaunch(radix.row(element, rank, whole), rows, sizes)
    else:
        return Algorithm(*_by_digits(element, rank, sizes, given, target.shared_per_block))
    return Algorithm((step,), given, {})


def _by_digits(
    element: Element, rank: int, sizes: Mapping[Symbol, int], given: tuple[Symbol, ...], shared: int
) -> tuple[tuple[SortLaunch, ...], tuple[Symbol, ...], dict[Symbol, int]]:
    """Of rows that no block takes whole."""
    keys, rows, length = elements.Keys(element), sizes[elements.ROWS], sizes[elements.LENGTH]
    pieces, digits = -(-length // radix.block_of_piece(keys.wide, shared).tile), 1 << radix.BITS
    sizes = {**sizes, radix.PIECES: pieces, radix.BLOCKS: rows * pieces}
    few = pieces <= radix.FEW
    places, adders = (radix.few_places(), -(-rows * digits // radix.ADDERS)) if few else (radix.places(), rows * digits)
    count, move = radix.count(keys.wide, shared), radix.move(element, rank, shared)
    steps = [SortLaunch(radix.pairs(element, rank, shared), rows * pieces, sizes), SortLaunch(radix.needs(), 1, sizes)]
    for number in range(radix.digits_of(keys)):
        own = {**sizes, radix.DIGIT: number}
        counted = [SortLaunch(count, rows * pieces, own)] if number else []
        steps += [*counted, SortLaunch(places, adders, own), SortLaunch(move, rows * pieces, own)]
    steps.append(SortLaunch(radix.finish(element, rank), -(-rows * length // radix.ADDERS), sizes))
    room = dict.fromkeys((radix.PAIRS, radix.MOVED), 8 * rows * length)
    if keys.wide:
        room |= dict.fromkeys((radix.PLACES, radix.MOVED_PLACES), 4 * rows * length)
    room |= {radix.COUNTS: 4 * rows * digits * pieces, radix.TOTALS: 4 * rows * digits}
    return tuple(steps), given, {**room, radix.DIFFERING: 4 * rows * pieces, radix.NEEDED: 4}


def compressing(length: int) -> tuple[Algorithm, Algorithm]:
    """A compress of so many flags, in two: the first leaves the size, and both take the same room."""
    blocks = -(-length // compress.PIECE)
    sizes = {compress.LENGTH: length, compress.BLOCKS: blocks}
    room = {compress.COUNTS: 4 * blocks, compress.TOTAL: 4}
    first = (SortLaunch(compress.count(), blocks, sizes), SortLaunch(compress.place(), 1, sizes))
    second = (SortLaunch(compress.write(), blocks, sizes),)
    return Algorithm(first, (compress.INPUT,), room), Algorithm(second, (compress.INPUT, compress.INDICES), room)


def kernels(element: Element | None, rank: int, target: Target) -> list[Plain]:
    """All kernels of sorts of such tensors, whatever their sizes; without an element, of compresses."""
    if element is None:
        return [compress.count(), compress.place(), compress.write()]
    keys, shared = elements.Keys(element), target.shared_per_block
    rows = [radix.row(element, rank, block) for block in radix.blocks_of_rows(keys, shared)]
    by_digits = [
        radix.pairs(element, rank, shared),
        radix.needs(),
        radix.count(keys.wide, shared),
        radix.places(),
        radix.few_places(),
    ]
    return [bitonic.short_rows(element, rank), *rows, *by_digits, radix.move(element, rank, shared), radix.finish(element, rank)]
