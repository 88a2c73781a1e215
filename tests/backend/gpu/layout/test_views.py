"""Views: reads and stores at linear subscripts are tiles of other strides, in products, streams, epilogues and masks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.build.recipe import stages, traits
from axon.backend.gpu.emit.source import SizeParameter
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import kernels
from axon.backend.gpu.tile.schedule import candidates
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.ir import Nest
from axon.core.passes.parts import parts, straights
from tests.checked import checked, compiled

SOURCE = """
fun part (a : bf16[m, k]) (b : bf16[k, n]) = for i j => sum for c < k / 2 => a[i, c] * b[c, j]
fun shifted (a : bf16[m, k]) (b : bf16[k, n]) = for i j => sum for c < k - 8 => a[i, c + 8] * b[c, j]
fun halves (a : bf16[m, 2 * k]) = for i < m, j < m => sum for c < k => a[i, c] * a[j, c + k]
fun heads {h} (t : bf16[b, s, 2 * h * d]) =
  for ..b, g < h, i < s, j < s => sum for c < d => t[..b, i, d * g + c] * t[..b, j, d * g + c + h * d]
fun merged (p : bf16[b, h, s, k]) (w : bf16[k, d]) (bias : bf16[h * d]) =
  let val y = for b g i e => sum c => p[b, g, i, c] * w[c, e]
  in for b, i, (g, e) => y[b, g, i, e] + bias[d * g + e] end
fun layers (w : bf16[l, d, d]) (g : bf16[l, d]) (x : bf16[s, d]) =
  loop (x = x) for i < l => for a c => x[a, c] + ((sum e => x[a, e] * w[i, e, c]) + g[i, c])
fun diagonal (a : bf16[m, k]) (b : bf16[k, n]) (x : f32[n, n]) = for i j => cast f32 (sum c => a[i, c] * b[c, j]) * x[j, j]
fun single (a : bf16[m, k]) (b : bf16[k, n]) (x : f32[2, 3]) = for i j => cast f32 (sum c => a[i, c] * b[c, j]) + x[1, 2]
fun reversed (a : bf16[m, k]) (b : bf16[k, n]) (x : f32[n]) = for i j => cast f32 (sum c => a[i, c] * b[c, j]) + x[n - 1 - j]
"""
STREAMS = """
fun attention {h} (t : bf16[b, s, 3 * (h * d)]) =
  let val w = for ..b, g < h, i < s, j < s =>
        if j <= i then (sum for c < d => cast f32 t[..b, i, d * g + c] * cast f32 t[..b, j, d * g + c + h * d]) * rsqrt (cast f32 d)
        else -inf
      val m = for b g i => max j => w[b, g, i, j]
      val z = for b g i => sum j => exp (w[b, g, i, j] - m[b, g, i])
      val o = for b, g, i, e < d => cast bf16 (sum j =>
        exp (w[b, g, i, j] - m[b, g, i]) / z[b, g, i] * cast f32 t[b, j, d * g + e + 2 * h * d])
  in for b, i, (g, e) => o[b, g, i, e] end
fun relative (q : bf16[s, d]) (k : bf16[s, d]) (v : bf16[s, e]) (table : f32[2 * s - 1]) =
  let val w = for i j => (sum c => cast f32 q[i, c] * cast f32 k[j, c]) + table[i - j + s - 1]
      val m = for i => max j => w[i, j]
      val z = for i => sum j => exp (w[i, j] - m[i])
  in for i c => cast bf16 (sum j => exp (w[i, j] - m[i]) / z[i] * cast f32 v[j, c]) end
fun sloped {g} (q : bf16[n * g, s, d]) (k : bf16[n, s, d]) (slope : f32[n]) =
  let val w = for h i j => (sum c => cast f32 q[h, i, c] * cast f32 k[h / g, j, c]) + slope[h / g] * cast f32 (j - i)
      val m = for h i => max j => w[h, i, j]
      val z = for h i => sum j => exp (w[h, i, j] - m[h, i])
  in for h i c => cast bf16 (sum j => exp (w[h, i, j] - m[h, i]) / z[h, i] * cast f32 k[h / g, j, c]) end
"""


def random(*shape: int, element: Any = ml_dtypes.bfloat16, seed: int = 0, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed + sum(shape)).standard_normal(shape) * scale).astype(element)


def families(source: str, name: str) -> list[type]:
    return [type(kernel) for kernel in kernels(compiler.lower(checked(source), name, None))]


def same(function: Any, *arguments: Any) -> None:
    """Simulated, it gives what the interpreter gives."""
    want = np.asarray(function(*arguments, target="interpret"), np.float64)
    got = np.asarray(function(*arguments, target="simulate"), np.float64)
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-2 * float(np.abs(want).max()))


@pytest.mark.parametrize("k", [200, 72, 16])
def test_a_sum_over_a_part_reads_nothing_beyond_it(k: int) -> None:
    m = compiled(SOURCE)
    assert families(SOURCE, "part") == [MatrixProduct]
    same(m.part, random(40, k), random(k, 24))
    same(m.shifted, random(40, k), random(k, 24))
    same(m.halves, random(40, 2 * k))


def test_heads_split_and_merged() -> None:
    m = compiled(SOURCE)
    same(m.heads[3], random(2, 33, 2 * 3 * 16))
    assert families(SOURCE, "merged") == [MatrixProduct]
    same(m.merged, random(2, 3, 33, 40), random(40, 16), random(48))


def test_epilogues_at_linear_subscripts() -> None:
    m = compiled(SOURCE)
    for name, shape in (("diagonal", (24, 24)), ("reversed", (24,)), ("single", (2, 3))):
        assert families(SOURCE, name) == [MatrixProduct]
        same(getattr(m, name), random(40, 72), random(72, 24), random(*shape, element=np.float32))


def test_a_layer_by_a_loop_s_counter() -> None:
    m = compiled(SOURCE)
    same(m.layers, random(3, 32, 32, scale=0.2), random(3, 32), random(40, 32))


def test_attention_from_one_projection() -> None:
    m = compiled(STREAMS)
    assert families(STREAMS, "attention") == [Stream]
    same(m.attention[2], random(2, 70, 3 * 2 * 16))


def test_relative_positions() -> None:
    m = compiled(STREAMS)
    assert families(STREAMS, "relative") == [Stream]
    same(m.relative, random(70, 16), random(70, 16, seed=1), random(70, 24), random(139, element=np.float32))


def test_an_operand_of_the_scores_at_an_index_that_follows_from_another() -> None:
    m = compiled(STREAMS)
    assert families(STREAMS, "sloped") == [Stream]
    same(m.sloped[2], random(4, 33, 16), random(2, 33, 16), random(2, element=np.float32))


@pytest.mark.parametrize("name", ["heads", "merged", "diagonal", "layers", "attention", "relative", "sloped"])
def test_kernels_take_only_sizes_and_tensors_of_the_program(name: str) -> None:
    """What follows from a tile's indices is computed by the kernel, and never asked of the host."""
    source = SOURCE if f"fun {name} " in SOURCE else STREAMS
    program = compiler.lower(checked(source), name, None)
    for part in straights(parts(program).body):
        known = {s for v in part.program.inputs for d in v.shape for s in d.variables} | set(part.program.explicit)
        for kernel in kernels(part.program):
            if isinstance(kernel, Nest):
                continue
            executable = Executable(part.program)
            mapping = candidates(HOPPER, traits(kernel))[0]
            made = stages(kernel, mapping, HOPPER, executable.values, Granted())
            sizes = [p.size for p in made.source.parameters if isinstance(p, SizeParameter)]
            assert all(size.variables <= known for size in sizes), (name, sizes)


GUARDED = """
fun below (a : bf16[m, k]) (b : bf16[k, n]) (u : f32[n]) =
  let val y = a @ b in for i j => cast f32 y[i, j] + (if j >= 5 then u[j - 5] else 0.0) end
fun joined (a : bf16[m, k]) (b : bf16[k, p + q]) (u : f32[p]) (v : f32[q]) =
  let val y = a @ b in for i j => cast f32 y[i, j] + (if j < p then u[j] else v[j - p]) end
fun asked (a : bf16[m, k]) (b : bf16[k, n]) (u : bool[n]) =
  let val y = a @ b in for i j => if j >= 3 andalso u[j - 3] then cast f32 y[i, j] else 0.0 end
fun scored (q : bf16[s, d]) (k : bf16[s, d]) (u : f32[s]) =
  let val w = for i j => if j <= i then (sum c => cast f32 q[i, c] * cast f32 k[j, c]) + u[i - j] else -inf
      val m = for i => max j => w[i, j]
      val z = for i => sum j => exp (w[i, j] - m[i])
  in for i c => cast bf16 (sum j => exp (w[i, j] - m[i]) / z[i] * cast f32 k[j, c]) end
fun within (a : bf16[m, k]) (b : bf16[k, n]) (u : f32[2 * n]) =
  let val y = a @ b in for i j => cast f32 y[i, j] + (if j <= i then u[2 * j + 1] else 0.0) end
"""


@pytest.mark.parametrize("name", ["below", "joined", "asked", "scored"])
def test_what_a_condition_guards_is_not_loaded_beside_it(name: str) -> None:
    """A kernel loads before it knows whether the condition holds; so such a read is no view, and its operation a kernel apart."""
    program = compiler.lower(checked(GUARDED), name, None)
    found = kernels(program)
    assert isinstance(found[-1], Nest)
    assert not any(view.source.name in "uv" for kernel in found if not isinstance(kernel, Nest) for view in kernel.views)
    m = compiled(GUARDED)
    if name == "scored":
        same(m.scored, random(40, 16), random(40, 16, seed=1), random(40, element=np.float32))
    else:
        last = (np.arange(24) % 3 == 0) if name == "asked" else random(24, element=np.float32)
        more = (random(11, element=np.float32), random(13, element=np.float32)) if name == "joined" else (last,)
        same(getattr(m, name), random(40, 72), random(72, 24), *more)


def test_a_guarded_read_that_is_inside_for_all_indices_is_a_view() -> None:
    assert families(GUARDED, "within") == [MatrixProduct]
    same(compiled(GUARDED).within, random(40, 72), random(72, 24), random(48, element=np.float32))


FEED_FORWARD = """
fun f (x : bf16[s, d]) (up : bf16[d, h]) (down : bf16[h, d]) =
  let val y = for i j => max 0.0 (sum c => x[i, c] * up[c, j]) in for i k => sum j => y[i, j] * down[j, k] end
"""


def test_a_stream_too_wide_for_a_tile_is_two_products() -> None:
    """Two products with a pointwise step between are a stream; where its tile holds no whole row, they are products still."""
    program = compiler.lower(checked(FEED_FORWARD), "f", None)
    assert families(FEED_FORWARD, "f") == [Stream]
    sizes = program.contract.bind((), [(512, 1024), (1024, 2048), (2048, 1024)])
    served = Executable(program).serving({}, sizes)
    assert [type(kernel) for kernel in served.planned.kernels] == [MatrixProduct, MatrixProduct]
    assert not any(isinstance(kernel, Nest) for kernel in served.planned.kernels)
    same(compiled(FEED_FORWARD).f, random(40, 264), random(264, 48, scale=0.1), random(48, 264, scale=0.1))
