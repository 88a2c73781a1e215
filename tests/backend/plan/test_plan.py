"""Plans of kernels: goldens of what is printed, the rules that the verifier holds, and each way to join or not."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

import axon
from axon.backend.cpu.show import show
from axon.backend.plan.fuse import Policy, fuse
from axon.backend.plan.ir import Contraction, Nest, Repeat, Whole, print_plan
from axon.backend.plan.verify import PlanInvalid, verify_plan
from axon.base.names import fresh
from axon.core.ir import Unary
from axon.shapes.dimension import Dim
from tests.core.build import F32, Build, at, ix, op

GOLDEN = Path(__file__).with_name("plans.txt")
PROGRAMS = """
fun softmax x = for ..b i => let val m = max k => x[..b, k]
                                 val z = sum k => exp (x[..b, k] - m) in exp (x[..b, i] - m) / z end
fun rows (x : f32[n, m]) = softmax x
fun layer_norm (s : f32[d]) (x : f32[n, d]) = for i j =>
  let val mean = (sum k => x[i, k]) / cast _ d
      val variance = (sum k => (x[i, k] - mean) ** 2.0) / cast _ d
  in (x[i, j] - mean) * rsqrt (variance + 1e-5) * s[j] end
fun cross_entropy (z : f32[n, c]) (y : i32[n]) =
  -(sum i => z[i, y[i]] - (max k => z[i, k]) - log (sum k => exp (z[i, k] - max l => z[i, l]))) / cast _ n
fun attention (q : f32[b, s, d]) (k : f32[b, t, d]) (v : f32[b, t, e]) =
  let val scores = for b2 i j => (sum c => q[b2, i, c] * k[b2, j, c]) * rsqrt (cast _ d) in softmax scores @ v end
fun residual (x : f32[n, m]) (y : f32[n, m]) (w : f32[m]) =
  let val h = x + y
      val r = for i => rsqrt (sum k => h[i, k] ** 2.0)
  in (h, for i j => h[i, j] * r[i] * w[j]) end
fun stencil (x : f32[n, m]) = for i < n, j < m => x[i - 1, j | 0] + x[i + 1, j | 0] - 2.0 * x[i, j]
fun statistics (x : f32[n, m]) = (for j => sum i => x[i, j], for j => max i => x[i, j], for i => sum j => x[i, j])
fun loss (x : f32[n]) (y : f32[n]) = sqrt ((sum i => (x[i] - y[i]) ** 2.0) / cast _ n)
fun filtered (x : f32[n]) = let val (ix : i32[k]) = nn_indices (for i => x[i] > 0.0) in for i => exp x[ix[i]] end
fun newton {n} (a : f32[k]) = loop (x = a) for t < n => 0.5 * (x + a / x)
fun convolution (x : f32[n, c, h, w]) (k : f32[o, c, r, s]) = for n o p q => sum c r s => x[n, c, p + r, q + s] * k[o, c, r, s]
fun gathered (t : f32[v, d]) (ids : i32[n]) (w : f32[d]) = for i j => t[ids[i], j] * w[j]
"""
PROGRAMS = PROGRAMS.replace("nn_indices", "nonzero")


def lowered(source, name):
    module = axon.compile(source)
    from axon import compiler

    return compiler.lower(module._session.checked, name, None)


def printed():
    names = [line.split()[1] for line in PROGRAMS.splitlines() if line.startswith("fun ")]
    return "\n".join(show(lowered(PROGRAMS, name), "plan") for name in names)


@pytest.mark.parametrize(
    ("source", "moved"),
    [
        ("fun f (a : f32[n, n]) = for i => a[i, i]", "8 * n"),
        ("fun f (a : f64[b, n, n]) = for k => sum i => a[k, i, i]", "8 * b * n + 8 * b"),
        ("fun f (a : f32[n, m]) = for j => a[0, j] * 2.0", "8 * m"),
        ("fun f (x : f32[2 * n]) = for i < n => x[2 * i]", "8 * n"),
        # all of it: a diagonal and all, two diagonals, a triangle, a window, pairs, padding; of a gather no more than is looked up
        ("fun f (a : f32[n, n]) = for i => a[i, i] + sum j => a[i, j]", "4 * n * n + 4 * n"),
        ("fun f (a : f32[n, n]) = for i => a[i, n - 1 - i] + a[i, i]", "4 * n * n + 4 * n"),
        ("fun f (a : f32[n, n]) = for i => max for j < i + 1 => a[i, j]", "4 * n * n + 4 * n"),
        ("fun f (x : f32[n]) = for p => max for r < 3 => x[p + r]", "8 * n - 8"),
        ("fun f (x : f32[2 * n]) = for i < n => max for c < 2 => x[2 * i + c]", "12 * n"),
        ("fun f (x : f32[n]) = for i < n => x[i - 2 | 0]", "8 * n"),
        ("fun f (x : f32[n]) (k : i32[m]) = for i => x[k[i]]", "8 * m + 4 * min n m"),
    ],
)
def test_what_is_not_read_is_not_counted(source, moved):
    assert f"; moves {moved} bytes" in show(lowered(source, "f"), "plan")


def test_printed_plans():
    """What `axon emit --stage plan` shows. AXON_UPDATE=1 writes it anew."""
    text = printed()
    if os.environ.get("AXON_UPDATE"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def families(source, policy=None):
    plan = fuse(lowered(source, "f"), policy)
    verify_plan(plan)
    return [k.family if isinstance(k, Nest) else type(k).__name__.lower() for k in plan.body.kernels]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("fun f (x : f32[n, m]) = for i => (max j => x[i, j]) - (sum j => exp x[i, j])", ["reduce"]),
        ("fun f (x : f32[n, m]) = for i j => x[i, j] / sum k => x[k, j]", ["reduce", "map"]),
        ("fun f (x : f32[n, n]) = let val h = for i j => exp x[i, j] in for i j => h[i, j] + h[j, i] end", ["map", "map"]),
        ("fun f (x : f32[n, m]) = for i => (scan (op +, 0.0) for j => exp x[i, j])", ["scan"]),
        ("fun f (a : f32[n, k]) (b : f32[k, m]) = exp (a @ b)", ["contraction"]),
        ("fun f (a : f32[n, k]) (b : f32[k, m]) = exp a @ b", ["map", "contraction"]),
        ("fun f (a : i32[n, k]) (b : i32[k, m]) = a @ b", ["reduce"]),
        ("fun f (a : f32[n]) (b : f32[n]) = sum i => a[i] * b[i]", ["reduce"]),
        ("fun f (x : f32[n]) (ids : i32[m]) = for i => 2.0 * x[ids[i]]", ["gather"]),
        ("fun f (x : f32[n]) = for i => x[i]", []),
    ],
)
def test_families(source, expected):
    assert families(source) == expected


def test_a_policy_without_epilogues_ends_a_kernel_with_its_product():
    source = "fun f (a : f32[n, k]) (b : f32[k, m]) = exp (a @ b)"
    assert families(source, Policy(epilogues=frozenset())) == ["contraction", "map"]


def test_a_check_stands_between_kernels():
    source = "fun f (x : f32[n]) (y : f32[m]) = let val h = exp x in h + (y as f32[n]) end"
    plan = fuse(lowered(source, "f"))
    kinds = [type(k) for k in plan.body.kernels]
    assert kinds.index(Whole) < len(kinds) - 1
    verify_plan(plan)


NORMALIZED = """fun f (x : f32[n, m]) (w : f32[n]) =
  let val r = for i => sum j => exp x[i, j]
      val all = sum i => {total}
  in (r, for i j => exp x[i, j] * r[i] / all) end"""


@pytest.mark.parametrize(("total", "expected"), [("w[i]", ["reduce", "reduce"]), ("w[i] * r[i]", ["reduce", "reduce", "map"])])
def test_what_needs_nothing_of_a_kernel_goes_before_it(total, expected):
    """So that what reads both joins it: a gradient by a loss's weights goes through the rows once."""
    source = NORMALIZED.format(total=total)
    assert families(source) == expected


def test_what_fails_is_not_moved_into_what_reads_it():
    head = "fun f (x : f32[n]) (ids : i32[m]) (on : bool)"
    source = f"{head} = let val t = for i => x[ids[i]] in for i => if on then t[i] else 0.0 end"
    (kernel,) = fuse(lowered(source, "f")).body.kernels
    assert isinstance(kernel, Nest)
    assert len(kernel.steps) == 2


def build_program():
    """y = exp x along rows, s its row sums, z = y / s: one nest of three steps."""
    build = Build("rows")
    n, m = (Dim.of(fresh(name)) for name in "nm")
    x = build.input("x", F32, n, m)
    i, j = ix("i", n), ix("j", m)
    y = build.compute([i, j], Unary("exp", at(x, i, j)))
    r, k = ix("r", n), ix("k", m)
    s = build.compute([r], at(y, r, k), over=[k], by="sum")
    a, b = ix("a", n), ix("b", m)
    z = build.compute([a, b], op("div", at(y, a, b), at(s, a)))
    return build.program(y, z)


def test_broken_plans_are_named():
    plan = fuse(build_program())
    (nest,) = plan.body.kernels
    assert isinstance(nest, Nest)
    assert len(nest.steps) == 3
    verify_plan(plan)

    def broken(change, word):
        with pytest.raises(PlanInvalid, match=word):
            verify_plan(replace(plan, body=replace(plan.body, kernels=(change,))))

    broken(replace(nest, steps=nest.steps[::-1]), "before it is made")
    broken(replace(nest, stored=nest.stored[:1]), "a result is not stored")
    broken(replace(nest, stored=(*nest.stored, fresh("w"))), "not made")
    broken(replace(nest, steps=nest.steps[1:]), "which nothing before it stores")
    other = replace(nest.rows[0], symbol=fresh("i"))
    broken(replace(nest, rows=(other,)), "does not begin with the rows")
    with pytest.raises(PlanInvalid, match="not stored"):
        verify_plan(replace(plan, body=replace(plan.body, results=(fresh("q"),))))


def test_every_kind_of_kernel_prints():
    text = GOLDEN.read_text(encoding="utf-8")
    for word in (
        "map over",
        "reduce over",
        "gather over",
        "contract,",
        "loop;",
        "compress;",
        "bytes a step",
        "BLAS",
        "joins:",
        "begins",
    ):
        assert word in text, word
    assert {Contraction, Nest, Repeat, Whole} >= {type(k) for k in fuse(lowered(PROGRAMS, "newton")).body.kernels}
    assert print_plan(fuse(lowered(PROGRAMS, "rows"))).startswith("rows: 1 kernel\n")
