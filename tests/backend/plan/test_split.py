"""Long reductions in parts: how many there are, and that they keep a chip busy whichever of their axes is long."""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.report.show import explain
from axon.backend.gpu.runtime import plain_variants
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.ways import Way
from axon.backend.gpu.simt.mapping import few, grid
from axon.backend.plan.ir import Nest, Parting, PartKind
from axon.backend.plan.lanes import reduced
from axon.backend.plan.split import BLOCKS, PARTS, UNCUT, parts_of
from axon.backend.plan.split import parting as decided
from axon.base.names import fresh
from axon.core.ir import Axis, Compute
from axon.core.passes.parts import parts
from axon.core.walk import outs_of
from axon.shapes.dimension import Dim
from tests.backend.gpu.simt.plain_cases import case, choices, compare, expected, side_by_side
from tests.backend.gpu.simt.test_emit import executable
from tests.checked import checked
from tests.sample import SOAK


@pytest.mark.parametrize("seed", range(400 if SOAK else 40))
def test_parts_cover_each_axis_once(seed: int) -> None:
    chance = Random(seed)
    extents = [chance.choice([0, 1, 2, 3, 7, 8, 64, 1000, 4096, 100_000]) for _ in range(chance.randint(1, 4))]
    rows = tuple(Axis(fresh(f"r{n}"), Dim.of(chance.choice([1, 3, 768, 5000]))) for n in range(chance.randint(0, 2)))
    cut = [(count.evaluate({}), length.evaluate({})) for count, length in parts_of(rows, [Dim.of(n) for n in extents])]
    for (count, length), extent in zip(cut, extents, strict=True):
        assert count * length >= extent
        assert count <= max(1, extent)
    assert prod(count for count, _ in cut) <= 2 * max(PARTS, BLOCKS)


CASES = [
    ("fun f (x : bf16[b, s, d]) = for k => sum i j => x[i, j, k]", (8, 1024, 768)),
    ("fun f (x : f32[l, a, b]) = sum i j k => x[i, j, k] * x[i, j, k]", (12, 768, 3072)),
    ("fun f (x : bf16[n, m, k, l]) = for c => sum i j e => x[i, j, c, e]", (65536, 12, 12, 3)),
    ("fun f (x : bf16[n, m, k, l]) = for c => sum e j i => exp x[i, j, c, e]", (2, 1000, 64, 256)),
    ("fun f (x : f32[n, m, k, l]) = for c => max e j i => x[i, c, j, e]", (65536, 2, 8, 4)),
    ("fun f (x : bf16[n, m, k]) = for c => sum j i => x[c, i, j] * x[c, i, j]", (64, 8, 10000)),
    ("fun f (x : f32[n, m]) = for j => sum i => x[i, j]", (1_000_000, 16)),
]


@pytest.mark.parametrize(("text", "shape"), CASES)
def test_a_long_reduction_has_the_whole_chip(text: str, shape: tuple[int, ...]) -> None:
    """The first kernel, which reads everything, has threads enough, whatever order the program sums in."""
    core = compiler.lower(checked(text), "f", None)
    sizes = core.contract.bind((), [shape])
    builder = Executable(core).serving({}, sizes)
    first = builder.planned.kernels[0]
    assert isinstance(first, Nest)
    ready = plain_variants.prepare(first, builder.planned.known, builder.planned.lying(sizes), sizes, builder.target)
    launch = grid(ready.wanted, ready.kernel, sizes, builder.target)
    assert launch.blocks * launch.threads >= few(builder.target)


LONG = [
    ("""import nn
fun f (x : bf16[n, c, h, w]) (k : bf16[c, c, r, s]) (b : bf16[c]) =
  value_and_grad (fn (x, k, b) =>
    let val y = nn.conv2d_with {2, 1, 1, 1} (nn.conv2d_with {2, 3, 1, 1} x k) k
    in sum n o p q => tanh (y[n, o, p, q] + b[o]) end) (x, k, b)""",
     [(8, 64, 56, 56), (64, 64, 3, 3), (64,)]),
    ("fun f (x : f32[(a + b) * (c + 1), (b * c + a + 3) / 2, (a * a + b + c) / 3, d]) (y : f32[a, b, c]) = "
     "sum i j k l => x[i, j, k, l]",
     [(930, 306, 50, 4), (10, 20, 30)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shapes"), LONG)
def test_extents_that_are_long_formulas(text: str, shapes: list[tuple[int, ...]]) -> None:
    """What the numbers of parts are computed from is repeated in all of them: formulas of several of these were too large."""
    core = compiler.lower(checked(text), "f", None)
    assert "predicted" in explain(core, core.contract.bind((), shapes))


BEST = """
fun places (x : T[n, d]) = for j => argmax i => x[i, j]
fun both (x : T[n, d]) = (for j => max i => abs x[i, j], for j => argmin i => abs x[i, j])
fun place (x : T[n, d]) = argmax i => x[i, 0]
"""


@pytest.mark.parametrize("name", ["places", "both", "place"])
@pytest.mark.parametrize("size", [(1, 4), (63, 3), (130, 3), (300, 8), (5000, 1)])
def test_places_of_the_best_in_parts(name: str, size: tuple[int, int]) -> None:
    """The first of those that are equally good, whichever part it is in: few different numbers, of bf16."""
    given = case(executable(BEST, name, "bf16"), size, seed=sum(size))
    assert len(given.todo) == 2
    compare(given, choices(given)[0], expected(given), seed=1)


CUT = [
    ("sum a b c => x[a, b, c]", "f32", [(9, 1, 3), (3, 5, 1), (1, 1, 130)]),
    ("for b => sum a c => x[a, b, c]", "f32", [(70, 2, 3), (3, 2, 65), (40, 1, 1)]),
    ("for c => max a b => x[a, b, c]", "i32", [(33, 2, 3), (64, 1, 2), (2, 66, 1)]),
    ("for c => min a b => x[a, b, c]", "i32", [(96, 1, 2)]),
    ("max a b c => x[a, b, c]", "i32", [(5, 1, 1), (1, 9, 2), (128, 1, 1)]),
]


@pytest.mark.parametrize(("body", "element", "shapes"), CUT)
def test_axes_are_cut_in_any_way(body: str, element: str, shapes: list[tuple[int, ...]]) -> None:
    """The same comes out; of whole numbers no part is empty, whose greatest one there would not be."""
    core = compiler.lower(checked(f"fun f (x : {element}[a, b, c]) = {body}"), "f", None)
    (op,) = (op for op in core.block.ops if isinstance(op, Compute) and op.reduction is not None)
    assert op.reduction is not None
    for shape in shapes:
        sizes = core.contract.bind((), [shape])
        extents = [axis.extent.evaluate(sizes) for axis in op.reduction.axes]
        kinds: tuple[PartKind, ...] = ("whole", "each", "several", "many")
        for number, parting in enumerate(product(kinds, repeat=len(extents))):
            if not SOAK and number % 17 != sum(shape) % 17:
                continue
            last = next(n for n in reversed(range(len(extents))) if extents[n] > 1 or not n)
            parting = (*parting[: last + 1], *["one"] * (len(extents) - last - 1))
            made = Executable(core, way=Way(parts=frozenset({(op.outs[0].symbol, parting)})))
            array = np.random.default_rng(number).integers(-99, -1, shape).astype(core.inputs[0].element.dtype)
            given = side_by_side(made, [array], sizes)
            compare(given, choices(given)[0], expected(given), seed=number)


@pytest.mark.parametrize(
    ("body", "shape", "parting"),
    [
        ("sum a b c => x[a, b, c]", (33_554_432, 1, 1), ("many", "one", "one")),
        ("sum a b c => x[a, b, c]", (12, 768, 3072), ("each", "each", "whole")),
        ("sum a b c => x[a, b, c]", (46_995, 32, 1), ("several", "whole", "one")),
        ("sum a b c => x[a, b, c]", (1, 1, 30_000_000), ("whole", "whole", "many")),
        ("for c => sum a b => x[a, b, c]", (65_536, 12, 768), ("each", "whole")),
        ("for c => sum a b => x[a, b, c]", (8, 1024, 768), None),  # as for any size
        ("for c => sum a b => x[a, b, c]", (8, 2, 100_000), ("whole", "whole")),
        ("for c => sum a b => x[a, b, c]", (1, 1, 9), ("whole", "one")),
    ],
)
def test_what_has_one_part_at_the_sizes_of_a_call_stays_whole(body: str, shape: tuple[int, ...], parting: Parting | None) -> None:
    core = compiler.lower(checked(f"fun f (x : f32[a, b, c]) = {body}"), "f", None)
    sizes = core.contract.bind((), [shape])
    first = Executable(core).planned.kernels[0]
    assert isinstance(first, Nest)
    assert first.divided is not None
    assert decided(first.divided, sizes) == parting
    way = Executable(core).serving({}, sizes).planned.way
    assert dict(way.parts).get(first.divided.results[0]) == parting
    kernels = Executable(core).serving({}, sizes).planned.kernels
    assert len(kernels) == (1 if parting is not None and UNCUT.issuperset(parting) else 2)


def test_a_tensor_of_which_one_axis_alone_is_long_is_one_loop() -> None:
    """Threads share the last loop, of whatever size: of axes of one index they shared nothing."""
    for shape in ((33_554_432, 1, 1), (1, 33_554_432, 1), (46_995, 1, 32), (46_995, 32, 1)):
        core = compiler.lower(checked("fun f (x : f32[a, b, c]) = sum a b c => x[a, b, c]"), "f", None)
        sizes = core.contract.bind((), [shape])
        builder = Executable(core).serving({}, sizes)
        first = builder.planned.kernels[0]
        assert isinstance(first, Nest)
        ready = plain_variants.prepare(first, builder.planned.known, builder.planned.lying(sizes), sizes, builder.target)
        (step,) = ready.kernel.steps
        *others, _ = reduced(step)
        assert all(axis.extent.evaluate(sizes) == 1 for axis in others)
        assert ready.wanted.vector == 4


def test_what_follows_from_a_later_reduction_stays_behind_it() -> None:
    """Of two reductions of the same rows the first is split, with what follows from it alone: `e` needs the second, by `m`."""
    text = """fun f (x : f32[b, s, t]) (v : f32[s * t]) (q : f32[c]) =
      let val z = for i, k < s * t => x[i, k / t, k % t] + v[k]
          val a = for i => sum for k < s * t where k % 2 = 0 => z[i, k]
          val p = for i => sum j => q[j] * a[i]
          val m = for i => min 3.0 p[i]
          val e = for i => cos m[i]
          val g = for i => sum for j < s => if 3.0 <= p[i] then 0.0 else e[i]
      in (sum for i < b, j < s => sin m[i], for j => sum i => g[i] * a[i] + q[j]) end"""
    core = compiler.lower(checked(text), "f", None)
    straight = parts(core).straight
    assert straight is not None
    chance = np.random.default_rng(0)
    for shape in ((3, 2, 4), (1, 1, 2)):
        arrays = [chance.standard_normal(one).astype(np.float32) for one in (shape, (shape[1] * shape[2],), (3,))]
        sizes = core.contract.bind((), [x.shape for x in arrays])
        made = Executable(straight, way=Way(plain=frozenset(out.symbol for op in straight.block.ops for out in outs_of(op))))
        given = side_by_side(made, arrays, sizes)
        compare(given, choices(given)[0], expected(given), seed=0)
