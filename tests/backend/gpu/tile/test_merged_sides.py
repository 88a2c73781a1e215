"""Several rows and several columns are merged where that is cheaper, in place or in another order of the result's indices."""

from __future__ import annotations

import os
from itertools import product
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.runtime import merging, ways
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.tile.contraction import Merging
from axon.backend.plan.ir import Nest
from axon.base.data import replace
from axon.core.ir import Compute
from tests.checked import checked

SOURCE = """
fun batch (x : bf16[b, t, k]) (w : bf16[k, n]) = for b t n => sum k => x[b, t, k] * w[k, n]
fun biased (x : bf16[b, t, k]) (w : bf16[k, n]) (c : bf16[n]) = for b t n => c[n] + (sum k => x[b, t, k] * w[k, n])
fun residual (x : bf16[b, t, k]) (w : bf16[k, n]) (r : bf16[b, t, n]) = for b t n => r[b, t, n] + (sum k => x[b, t, k] * w[k, n])
fun heads (x : bf16[b, t, k]) (w : bf16[k, h, d]) (c : bf16[h, d]) = for b t h d => (sum k => x[b, t, k] * w[k, h, d]) + c[h, d]
fun by_head (x : bf16[b, t, k]) (w : bf16[k, h, d]) = for b h t d => sum k => x[b, t, k] * w[k, h, d]
fun by_column (x : bf16[t, k]) (w : bf16[k, h, d]) (c : bf16[d]) = for t h d => (sum k => x[t, k] * w[k, h, d]) + c[d]
fun counted (x : bf16[b, t, k]) (w : bf16[k, n]) = for b t n =>
  cast f32 (sum k => x[b, t, k] * w[k, n]) + cast f32 (cast i32 (t * 3 + b))
fun batched (x : bf16[b, s, k]) (w : bf16[b, k, h, d]) = for b s h d => sum k => x[b, s, k] * w[b, k, h, d]
fun last_outer (x : bf16[i, k, b]) (w : bf16[k, j, b]) = for i j b => sum k => x[i, k, b] * w[k, j, b]
fun scaled (x : bf16[b, t, k]) (w : bf16[k, h, d]) (s : f32[t]) = for b h t d =>
  cast bf16 (s[t] * cast f32 (sum k => x[b, t, k] * w[k, h, d]))
fun long (x : bf16[m, k]) (w : bf16[k, n]) = for i j => sum c => x[i, c] * w[c, j]
fun long_pairs (x : f32[m, p, q]) (w : f32[q, p, n]) (s : f32[m]) = for i j => sum p q => x[i, p, q] * w[q, p, j] * s[i]
fun weighted (x : f32[b, t, k]) (w : f32[k, h, d]) (s : f32[h]) = for b t h d => sum k => x[b, t, k] * s[h] * w[k, h, d]
"""
MODULE = axon.compile(SOURCE)
P, W = "plain", "tensor cores"


@pytest.mark.parametrize(
    ("name", "shapes", "wanted"),
    [
        ("batch", [(64, 1, 4096), (4096, 4096)], [W]),
        ("biased", [(9, 8, 16), (16, 72), (72,)], [W]),
        ("residual", [(9, 8, 16), (16, 72), (9, 8, 72)], [W]),
        ("heads", [(9, 8, 16), (16, 9, 8), (9, 8)], [W]),
        ("by_head", [(64, 8, 1024), (1024, 256, 8)], [W, P]),  # put in its order after
        ("by_head", [(8, 512, 1024), (1024, 16, 64)], [W]),  # as it stands: tiles are full
        ("by_column", [(512, 1024), (1024, 256, 8), (8,)], [W, P]),  # the bias of a column is not side by side with the others
        ("by_column", [(512, 1024), (1024, 16, 64), (64,)], [W]),  # so merging costs more than it saves
        ("batched", [(2, 72, 16), (2, 16, 9, 8)], [W]),
        ("last_outer", [(512, 512, 8), (512, 512, 8)], [P, P, W, P]),
        ("scaled", [(64, 8, 1024), (1024, 256, 8), (8,)], [W, P]),
        ("weighted", [(8, 512, 1024), (1024, 256, 8), (256,)], [P, P, W, P]),  # by limbs
        ("long", [(256, 65536), (65536, 256)], [W, P]),  # parts of the sum, and then these
        ("long_pairs", [(64, 256, 64), (64, 256, 64), (64,)], [P, P, P]),  # by register tiles, also parts
    ],
)
def test_merged_where_it_pays(name: str, shapes: list[tuple[int, ...]], wanted: list[str]) -> None:
    program = compiler.lower(checked(SOURCE), name, None)
    planned = Executable(program).serving({}, program.contract.bind((), shapes)).planned
    assert ["plain" if isinstance(kernel, Nest) else "tensor cores" for kernel in planned.kernels] == wanted


def test_what_has_gaps_is_not_merged() -> None:
    """A result or a residual between whose rows something else lies is stored and read as it is, on the tensor cores."""
    program = compiler.lower(checked(SOURCE), "residual", None)
    sizes = program.contract.bind((), [(9, 8, 64), (64, 72), (9, 8, 72)])
    executable = Executable(program)
    lying = executable.planned.lying(sizes)
    assert executable.serving(lying, sizes).planned.way.merging
    for value in (program.inputs[-1].symbol, program.block.results[0]):
        gaps = {value: replace(lying[value], strides=(80 * 8 + 80, 80, 1))}
        planned = executable.serving({**lying, **gaps}, sizes).planned
        assert not planned.way.merging
        assert not planned.way.plain


def test_copies_that_no_kernel_makes() -> None:
    """What is differentiated by is copied first; once a product is plain its kernel reads what was copied, and so do prices."""
    text = """
fun f (x : bf16[n, c, y]) (w : bf16[o, c, k]) (dy : bf16[n, o, y - k + 1]) =
  vjp (fn (x, w) => for b p q => sum a r => x[b, a, q + r] * w[p, a, r]) (x, w) dy
"""
    program = compiler.lower(compiler.check_text(text), "f", None)
    planned = Executable(program).serving({}, program.contract.bind((), [(2, 3, 17), (5, 3, 3), (2, 5, 15)])).planned
    assert planned.kernels


SMALL = {
    "batch": [(9, 8, 16), (16, 72)],
    "biased": [(9, 8, 16), (16, 72), (72,)],
    "residual": [(9, 8, 16), (16, 72), (9, 8, 72)],
    "heads": [(9, 8, 16), (16, 9, 8), (9, 8)],
    "by_head": [(9, 8, 16), (16, 9, 8)],
    "by_column": [(72, 16), (16, 9, 8), (8,)],
    "counted": [(9, 8, 16), (16, 72)],
    "batched": [(2, 72, 16), (2, 16, 9, 8)],
    "last_outer": [(72, 16, 3), (16, 72, 3)],
    "scaled": [(9, 8, 16), (16, 9, 8), (8,)],
    "weighted": [(9, 8, 16), (16, 9, 8), (9,)],
    "long": [(20, 48), (48, 24)],
    "long_pairs": [(20, 12, 8), (8, 12, 24), (20,)],
}


def _given(shapes: list[tuple[int, ...]], kind: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(kind) for shape in shapes]


CHOICES = [*(Merging(*sides) for sides in product((False, True), repeat=2)), Merging(parts=4), Merging(True, True, parts=4)]


@pytest.mark.parametrize("chosen", CHOICES, ids=str)
@pytest.mark.parametrize("name", SMALL)
def test_as_the_interpreter(name: str, chosen: Merging, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it costs."""
    program = compiler.lower(checked(SOURCE), name, None)
    op = program.block.ops[0]
    assert isinstance(op, Compute)
    choice = frozenset({(op.outs[0].symbol, chosen)})
    monkeypatch.setattr(ways, "merged", lambda _, __, decided, *___, precision, refused: frozenset() if decided else choice)
    kinds = [value.element.dtype for value in program.inputs]
    given = [x.astype(kind) for x, kind in zip(_given(SMALL[name], np.float32), kinds, strict=True)]
    want, got = (np.asarray(MODULE[name](*given, target=target), np.float64) for target in ("interpret", "simulate"))
    np.testing.assert_allclose(got, want, atol=1e-2 * abs(want).max())


COUNT = int(os.environ.get("AXON_CONTRACTIONS", 300 if "AXON_SOAK" in os.environ else 8))


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_contractions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of indices in any order, with sides merged anyhow: `numpy.einsum` in f64 knows what they make."""
    chance = Random(f"merged {seed}")
    monkeypatch.setattr(merging, "fastest", lambda *_: chance.random())
    letters = iter("abcdefghijkl")
    outer, rows, columns, depth = (
        [next(letters) for _ in range(chance.choice(n))] for n in ([0, 0, 1], [1, 2, 2], [1, 2, 3], [1, 2])
    )
    extents = {letter: chance.choice([1, 2, 3, 5, 8, 16]) for letter in "abcdefghijkl"}
    left, right, out = (
        chance.sample(own, len(own)) for own in (outer + rows + depth, outer + columns + depth, outer + rows + columns)
    )
    kind, element = chance.choice([("bf16", ml_dtypes.bfloat16), ("f16", np.float16), ("f32", np.float32)])
    source = (
        f"fun f (x : {kind}[{', '.join(left)}]) (w : {kind}[{', '.join(right)}]) = for {' '.join(out)} => "
        f"cast f32 (sum {' '.join(depth)} => x[{', '.join(left)}] * w[{', '.join(right)}])"
    )
    given = [x.astype(element) for x in _given([tuple(extents[i] for i in side) for side in (left, right)], np.float32)]
    got = np.asarray(axon.compile(source).f(*given, target="simulate"), np.float64)
    want = np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", *(np.asarray(x, np.float64) for x in given))
    np.testing.assert_allclose(got, want, atol=1e-2 * abs(want).max(), err_msg=source)
