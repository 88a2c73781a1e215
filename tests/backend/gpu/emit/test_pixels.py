"""Where emitted kernels ask for pixels, run here as Python, against what PTX says of a copy in im2col mode: what comes must be what
the view says.

The simulator takes a tile from the view itself, so it cannot tell whether coordinates, offsets and the descriptor mean the same.
"""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random
from typing import Any

import numpy as np

from axon import compiler
from axon.backend.gpu.build.recipe import stages, traits
from axon.backend.gpu.layout.memory import Im2col
from axon.backend.gpu.layout.pixels import pixels_of
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.prepare import prepare, with_views_of
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.schedule import ranked
from tests.backend.gpu.emit import as_python
from tests.backend.gpu.tile.test_windows import drawn, pixels
from tests.sample import SOAK

__all__ = ["pixels"]  # a fixture
PROGRAMS = 2000 if SOAK else 60


def asked(text: str, arguments: list[Any]) -> list[tuple[Any, tuple[int, ...], tuple[int, ...]]]:
    """Every copy of pixels that the producer of the only block asks for: the map, coordinates, offsets."""
    found: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = []

    def copy_pixels(rank: int) -> Any:
        def copy(to: int, map_: Any, barrier: int, *at: int) -> None:
            found.append((map_, tuple(map(int, at[:rank])), tuple(map(int, at[rank:]))))

        return copy

    as_python.run(text, arguments, {"copy_pixels": copy_pixels})
    return found


def brought(memory: Any, seen: Im2col, at: tuple[int, ...], offsets: tuple[int, ...], pixels: int, channels: int) -> Any:
    """PTX ISA 9.0, 5.5.4 and 5.5.5: pixels follow each other within the bounding box, the innermost dimension fastest, then through
    examples; the offsets are added to each, and what lies outside of the tensor is 0."""
    channel, *inner, example = at
    places, moved = inner[::-1], offsets[::-1]
    counts, first = [], []
    for n, place in enumerate(places):
        counts.append((seen.shape[1 + n] - 1 + seen.upper[n] - seen.lower[n]) // seen.steps[n] + 1)
        index, rest = divmod(place - seen.lower[n], seen.steps[n])
        assert rest == 0
        assert 0 <= index < counts[-1], "a copy that begins outside of its bounding box is an illegal instruction"
        first.append(index)
    start = 0
    for index, count in zip((example, *first), (1, *counts), strict=True):
        start = start * count + index
    made = np.zeros((pixels, channels), memory.dtype)
    for pixel in range(pixels):
        rest, indices = start + pixel, []
        for count in reversed(counts):
            rest, index = divmod(rest, count)
            indices.append(index)
        where = [rest, *(seen.lower[n] + i * seen.steps[n] + moved[n] for n, i in enumerate(reversed(indices)))]
        if all(0 <= i < extent for i, extent in zip(where, seen.shape, strict=False)):
            base = sum(i * stride for i, stride in zip(where, seen.strides, strict=False))
            for c in range(max(0, -channel), min(channels, seen.shape[-1] - channel)):
                made[pixel, c] = memory[base + (channel + c) * seen.strides[-1]]
    return made


def shown(memory: Any, view: View, shape: tuple[int, ...], strides: tuple[int, ...], sizes: Any, at: tuple[int, ...]) -> Any:
    """A view's element at its axes, by its definition."""
    where = [place.evaluate(sizes) for place in view.start]
    for index, parts in zip(at, view.parts, strict=True):
        for number, part in reversed(list(enumerate(parts))):
            index, own = divmod(index, part.extent.evaluate(sizes)) if number else (0, index)
            if part.there is not None and own >= part.there.evaluate(sizes):
                return 0
            where = [place + step.evaluate(sizes) * own for place, step in zip(where, part.step, strict=True)]
    if not all(0 <= i < n for i, n in zip(where, shape, strict=True)):
        return 0
    return memory[sum(i * stride for i, stride in zip(where, strides, strict=True))]


LISTED: list[tuple[str, list[tuple[int, ...]]]] = [
    ("fun f (x : T[i, j, p, c]) (k : T[g, o, a, c]) = for b < 2, g < 2, o < 8, p < 20 => sum for c < 64, i < 3 => "
     "x[b, g, p + i, c] * k[g, o, i, c]", [(2, 2, 24, 64), (2, 8, 3, 64)]),
    ("fun f (x : T[i, p, j, c]) (k : T[g, o, a, c]) = for b < 2, g < 2, o < 8, p < 20 => sum for c < 64, i < 3 => "
     "x[b, p + i, g, c] * k[g, o, i, c]", [(2, 24, 2, 64), (2, 8, 3, 64)]),
    ("fun f (x : T[i, j, p, c]) (k : T[g, o, a, c]) = for b < 2, g < 2, o < 8, p < 20 => sum for c < 64, i < 3 => "
     "x[2 * b, g, p + i, c] * k[g, o, i, c]", [(4, 2, 24, 64), (2, 8, 3, 64)]),
    ("fun f (x : T[i, j, p, c]) (k : T[g, o, a, c]) = for b < 4, g < 2, o < 8, p < 20 => sum for c < 64, i < 3 => "
     "x[b - 1, g, p + i, c | 0.0] * k[g, o, i, c]", [(2, 2, 24, 64), (2, 8, 3, 64)]),
    ("fun f (x : T[i, p, c]) (k : T[o, a, d]) = for b < 2, o < 8, p < 20 => sum for c < 64, i < 3 => "
     "x[b, p + i, c + 3 | 0.0] * k[o, i, c]", [(2, 24, 64), (8, 3, 64)]),
    ("fun f (x : T[i, c, p]) (k : T[g, o, d, a]) = for g < 2, b < 3, o < 8, p < 20 => sum for c < 8, i < 3 => "
     "x[b + g, c, p + i] * k[g, o, c, i]", [(4, 8, 24), (2, 8, 8, 3)]),
    # Sums that are cut: windows of a piece begin where those of the piece before end.
    ("fun f (x : T[c, h, n]) (y : T[o, g, p, n]) = for g < 3, o < 8, c < 5, r < 4 => sum for p < 2, n < 64 => "
     "x[c, r + 4 * g + 2 * p, n] * y[o, g, p, n]", [(5, 14, 64), (8, 3, 2, 64)]),
    ("fun f (x : T[c, h, w, n]) (y : T[o, g, p, q, n]) = for g < 3, o < 8, c < 5, r < 3, s < 4 => sum for p < 2, q < 4, n < 64 => "
     "x[c, r + 2 * g + p - 1, s + q, n | 0.0] * y[o, g, p, q, n]", [(5, 8, 7, 64), (8, 3, 2, 4, 64)]),
    ("fun f (x : T[c, h, w, n]) (y : T[o, p, g, q, n]) = for g < 2, o < 8, c < 5, r < 3, s < 4 => sum for p < 3, q < 2, n < 64 => "
     "x[c, r + 2 * p, s + 2 * g + q, n] * y[o, p, g, q, n]", [(5, 7, 7, 64), (8, 3, 2, 2, 64)]),
]  # fmt: skip


def test_what_copies_of_pixels_bring(pixels: list[Random]) -> None:
    checked, kinds, cut, summed = 0, set(), 0, 0
    for seed in range(PROGRAMS):
        pixels[:] = [Random(seed)]
        chance = Random(seed)
        text, shapes = LISTED[seed] if seed < len(LISTED) else drawn(chance, of_kernel=bool(seed % 2))
        core = compiler.lower(compiler.check_text(text.replace("T[", chance.choice(["bf16[", "f32["]))), "f", None)
        sizes = core.contract.bind((), shapes)
        planned = Executable(core).serving({}, sizes).planned
        lying = planned.lying(sizes)
        for kernel in planned.kernels:
            views = [] if not isinstance(kernel, MatrixProduct) else [v for v in kernel.views if v.im2col]
            if not views:
                continue
            assert isinstance(kernel, MatrixProduct)
            ready = prepare(kernel, lying, sizes)
            left = ready.problem.pixels == "rows"
            fitting = [m for m in ranked(ready.problem, traits(ready.kernel), HOPPER) if m.cluster == 1 and m.specialized]
            mapping = chance.choice(fitting)
            other = (ready.problem.columns, mapping.columns) if left else (ready.problem.rows, mapping.rows)
            if other[0] > other[1]:
                continue
            source = stages(ready.kernel, mapping, HOPPER, planned.values, ready.granted).source
            tensors = with_views_of(kernel, lying, sizes)
            assert not isinstance(tensors, str)
            arguments = as_python.given(source, tensors, sizes)
            copies = asked(source.text, arguments)
            assert copies
            for view in views:
                own = [c for c in copies if c[0].tensor == view.value.symbol]
                around = [(axis.symbol, axis.extent.evaluate(sizes)) for axis in kernel.outer]
                checked += check(view, own, around, lying, tensors, sizes, chance)
                cut += any(place.around for place in pixels_of(view).places)
                kinds.add((len(pixels_of(view).places), view.joined, len(pixels_of(view).examples), len(view.axes)))
                summed += view.axes[-2] == kernel.depth.symbol
    assert checked > 3 * PROGRAMS
    assert summed > PROGRAMS // 12
    assert {joined for _, joined, _, _ in kinds} == {False, True}
    assert {places for places, *_ in kinds} == {1, 2, 3}
    assert cut > 2


def check(
    view: View, copies: list[Any], around: list[tuple[Any, int]], lying: Any, tensors: Any, sizes: Any, chance: Random
) -> int:
    """Some of a view's copies; how many."""
    source, seen = lying[view.source], tensors[view.value.symbol]
    assert seen.im2col is not None
    memory = np.random.default_rng(0).integers(1, 1 << 20, prod(source.shape[:1]) * source.strides[0] + 4096)
    begin = (seen.pointer - source.pointer) * 8 // source.element.bits
    rows, channels = copies[0][0].box[-2:]
    tiles = -(-seen.shape[-2] // rows)
    steps = len(copies) // (tiles * prod(n for _, n in around))  # the last may lie beyond the end
    outer = (dict(zip((s for s, _ in around), at, strict=True)) for at in product(*(range(n) for _, n in around)))
    own = [tuple(at[axis] for axis in view.axes[:-2]) for at in outer]
    order = [(at, m * rows, k * channels) for at in own for m in range(tiles) for k in range(steps)]
    assert len(order) == len(copies)
    some = chance.sample(range(len(copies)), min(6, len(copies)))
    for number in some:
        (at, first, deep), (_, place, offsets) = order[number], copies[number]
        got = brought(memory[begin:], seen.im2col, place, offsets, rows, channels)
        for m, k in product(range(min(rows, seen.shape[-2] - first)), range(min(channels, seen.shape[-1] - deep))):
            if (m * 7 + k) % 5 == number % 5:
                want = shown(memory, view, source.shape, source.strides, sizes, (*at, first + m, deep + k))
                assert got[m, k] == want, (view, at, first + m, deep + k)
    return len(some)
