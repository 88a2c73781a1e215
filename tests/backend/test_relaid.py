"""Factors that bulk copies cannot read as they lie are copied first, where that is worth it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.plan import Nest
from axon.backend.runtime import Executable
from axon.backend.show import executables

SOURCE = """
fun product (a : bf16[m, k]) (b : bf16[k, n]) = a @ b
fun part (a : bf16[m, 2 * k + 1]) (b : bf16[k, n]) = for i j => sum c => a[i, k + 1 + c] * b[c, j]
fun square (a : bf16[m, m]) = a @ a
fun chain (a : bf16[m, k]) (b : bf16[k, n]) (c : bf16[n, o]) = (a @ b) @ c
fun batched (a : bf16[2, 2, 2, 2, m, k]) (b : bf16[k, n]) = for p q r s i j => sum c => a[p, q, r, s, i, c] * b[c, j]
fun attention (q : bf16[h, s, d]) (k : bf16[h, t, d]) (v : bf16[h, t, d]) =
  let val w = for h i j => sum c => cast f32 q[h, i, c] * cast f32 k[h, j, c]
      val m = for h i => max j => w[h, i, j]
      val z = for h i => sum j => exp (w[h, i, j] - m[h, i])
  in for h i d => cast bf16 (sum j => exp (w[h, i, j] - m[h, i]) / z[h, i] * cast f32 v[h, j, d]) end
"""
MODULE = axon.compile(SOURCE)


def made(name: str, **sizes: int) -> tuple[Executable, dict[Any, int]]:
    program = compiler.lower(compiler.check_text(SOURCE), name, None)
    named = {s: sizes[s.name] for v in program.inputs for d in v.shape for s in d.variables}
    ((executable, own),) = executables(program, named, axon.backend.schedule_file.NOTHING)
    return executable, own


def families(executable: Executable) -> list[str]:
    return ["plain" if isinstance(kernel, Nest) else "tensor cores" for kernel in executable.kernels]


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("product", [(70, 65), (65, 67)]),
        ("product", [(70, 64), (64, 67)]),
        ("part", [(70, 67), (33, 67)]),
        ("square", [(67, 67)]),
        ("chain", [(70, 65), (65, 67), (67, 66)]),
        ("batched", [(2, 2, 2, 2, 66, 64), (64, 67)]),
        ("attention", [(2, 70, 33)] * 3),
    ],
)
def test_what_is_computed(name: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    given = [(rng.standard_normal(shape) / 4).astype(ml_dtypes.bfloat16) for shape in shapes]
    want, got = (np.asarray(MODULE[name](*given, target=target), np.float64) for target in ("interpret", "simulate"))
    np.testing.assert_allclose(got, want, atol=1e-2 * abs(want).max())


@pytest.mark.parametrize(
    ("name", "sizes", "wanted"),
    [
        ("product", {"m": 512, "k": 512, "n": 512}, ["tensor cores"]),
        ("product", {"m": 512, "k": 511, "n": 512}, ["plain", "tensor cores"]),  # b has rows of n
        ("product", {"m": 512, "k": 511, "n": 509}, ["plain", "plain", "tensor cores"]),
        ("product", {"m": 512, "k": 512, "n": 509}, ["plain", "tensor cores"]),
        ("product", {"m": 8, "k": 511, "n": 512}, ["plain"]),  # too few rows to be worth it
        ("square", {"m": 511}, ["plain", "tensor cores"]),  # one copy for both
        ("part", {"m": 512, "k": 512, "n": 512}, ["plain", "tensor cores"]),
        ("attention", {"h": 2, "s": 512, "t": 512, "d": 65}, ["plain", "plain", "plain", "tensor cores"]),
    ],
)
def test_which_are_copied(name: str, sizes: dict[str, int], wanted: list[str]) -> None:
    executable, own = made(name, **sizes)
    assert families(executable) == wanted
    copies = [kernel.stored[0] for kernel in executable.kernels if isinstance(kernel, Nest)]
    if "tensor cores" in wanted:
        assert all(executable.lying(own)[copy].copyable is None for copy in copies)


def test_a_copy_is_the_same_for_every_executable() -> None:
    """So that what knows its place for one can use it for another."""
    executable, _ = made("product", m=512, k=511, n=509)
    again = Executable(executable.program, copied=executable.copied)
    assert again.aligned == executable.aligned


def test_what_no_copy_helps_is_plain() -> None:
    """Bulk copies read at most five dimensions, also of a copy."""
    executable, _ = made("batched", m=64, k=63, n=64)
    assert families(executable) == ["plain"]


def test_arguments_that_lie_anyhow() -> None:
    executable, own = made("product", m=512, k=512, n=512)
    tensors = executable.lying(own)
    a, _ = (v.symbol for v in executable.program.inputs)
    for strides in ((1, 512), (512, 2), (513, 1), (0, 1)):
        lying = {**tensors, a: replace(tensors[a], strides=strides)}
        served = executable.serving(lying, own)
        # Rows and columns may be exchanged, anything else is copied.
        assert families(served) == (["tensor cores"] if strides == (1, 512) else ["plain", "tensor cores"])
