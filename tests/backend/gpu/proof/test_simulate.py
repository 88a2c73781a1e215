"""Barrier programs run on the CPU give what NumPy gives, in every interleaving tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from axon.backend.gpu.build.recipe import stages
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.simulate import SimulationError, simulate
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.tile.families import kernels
from axon.backend.gpu.tile.schedule import TileMapping
from axon.base.element import Element
from tests.backend.gpu.programs import STORES, Case, add, contraction, dimensions, error, expected, gelu, inputs, mul
from tests.backend.gpu.proof.test_prove import drop, mutate, sites

TWO = TileMapping(128, 128, 64, stages=3, cluster=2, slots=2)
ONE = TileMapping(64, 64, 64, stages=2, consumers=1, cluster=1)
TOGETHER = [
    replace(TWO, specialized=False),
    replace(TWO, stages=4, in_flight=2, cluster=1, specialized=False),
    replace(ONE, in_flight=0, specialized=False),
    TileMapping(192, 64, 64, stages=6, consumers=3, cluster=1, specialized=False),
]

IN_TURN = replace(ONE, stages=3, consumers=2, turns=True)
APART = [
    IN_TURN,
    replace(IN_TURN, stages=2, in_flight=0),
    replace(IN_TURN, stages=4, in_flight=2, slots=2),
    replace(IN_TURN, rows=128, columns=128),
    replace(IN_TURN, consumers=3),
    replace(IN_TURN, rows=128, columns=128, stages=4, cluster=2),
    replace(IN_TURN, rows=128, columns=64, stages=4, cluster=2, cluster_over="columns"),
]


def run(
    case: Case, sizes: dict[str, int], mapping: TileMapping, *, stores: str = "boxes", seed: int = 0
) -> tuple[object, dict[object, object]]:
    (kernel,) = kernels(case.program)
    arrays = inputs(case, sizes, seed)
    values = (*case.program.inputs, *(r.value for r in kernel.results))
    results = frozenset(r.value.symbol for r in kernel.results)
    program = stages(kernel, mapping, HOPPER, values, STORES[stores](results)).barriers
    simulate(program, arrays, dimensions(case, arrays), seed=seed)
    return arrays[case.result.symbol], arrays


@pytest.mark.parametrize("axes", ["ik,jk->ij", "ik,kj->ij", "ki,jk->ij", "ki,kj->ij"])
@pytest.mark.parametrize(
    "mapping", [TWO, ONE, replace(TWO, in_flight=2, cluster=1), TileMapping(256, 128, stages=3, cluster_over="columns")], ids=str
)
def test_every_layout(axes: str, mapping: TileMapping) -> None:
    case = contraction(axes)
    got, arrays = run(case, {"i": 200, "j": 136, "k": 152}, mapping)
    assert error(got, expected(case, arrays)) < 3e-3


@pytest.mark.parametrize("axes", ["ik,jk->ij", "ki,kj->ij"])
@pytest.mark.parametrize("mapping", TOGETHER, ids=str)
def test_one_role_that_loads_and_multiplies(axes: str, mapping: TileMapping) -> None:
    case = contraction(axes)
    for seed, depth in enumerate((1, 64, 65, 152, 400)):  # fewer pieces than are put ahead, and more
        got, arrays = run(case, {"i": 200, "j": 136, "k": depth}, mapping, seed=seed)
        assert error(got, expected(case, arrays)) < 3e-3


@pytest.mark.parametrize("axes", ["ik,jk->ij", "ki,kj->ij"])
@pytest.mark.parametrize("mapping", APART, ids=str)
def test_tiles_in_turn(axes: str, mapping: TileMapping) -> None:
    """One tile, fewer than there are consumers, odd and even numbers of them; loops that fill the ring in part, and many times."""
    case = contraction(axes)
    for seed, (rows, columns, depth) in enumerate([(64, 64, 8), (64, 130, 64), (200, 136, 152), (330, 72, 400), (520, 200, 72)]):
        got, arrays = run(case, {"i": rows, "j": columns, "k": depth}, mapping, seed=seed)
        assert error(got, expected(case, arrays)) < 3e-3


@pytest.mark.parametrize("stores", STORES)
def test_an_epilogue_of_tiles_in_turn(stores: str) -> None:
    case = contraction("bik,bjk->bij", result=Element.F32, epilogue=lambda p, x, at: mul(add(p, x[0]), x[1]), extra="bij,j")
    got, arrays = run(case, {"b": 3, "i": 130, "j": 72, "k": 64}, APART[1], stores=stores)
    want = (expected(case, arrays) + arrays[case.extra[0].symbol]) * arrays[case.extra[1].symbol]
    assert error(got, want) < 1e-5


@pytest.mark.parametrize("seed", range(6))
def test_interleavings_agree(seed: int) -> None:
    case = contraction("ik,jk->ij", result=Element.F32)
    got, arrays = run(case, {"i": 300, "j": 140, "k": 330}, TWO, seed=seed)
    assert error(got, expected(case, arrays)) < 1e-6


def test_batches_in_any_place() -> None:
    case = contraction("bshd,bthd->bhst", Element.F16)
    got, arrays = run(case, {"b": 2, "s": 70, "t": 72, "h": 3, "d": 64}, ONE)
    assert error(got, expected(case, arrays)) < 1e-3


def test_a_left_factor_with_an_outer_index_of_its_own() -> None:
    case = contraction("bsd,de->bse")
    got, arrays = run(case, {"b": 3, "s": 66, "d": 72, "e": 80}, ONE)
    assert error(got, expected(case, arrays)) < 3e-3


@pytest.mark.parametrize("stores", STORES)
def test_an_epilogue_with_a_row_and_a_matrix(stores: str) -> None:
    case = contraction("ik,jk->ij", Element.BF16, Element.F32, lambda p, x, at: add(gelu(add(p, x[0]), Element.F32), x[1]), "j,ij")
    got, arrays = run(case, {"i": 130, "j": 72, "k": 64}, ONE, stores=stores)
    s = expected(case, arrays) + arrays[case.extra[0].symbol]
    from math import erf

    want = s * 0.5 * (1 + np.vectorize(erf)(s / np.sqrt(2))) + arrays[case.extra[1].symbol]
    assert error(got, want) < 1e-5


@pytest.mark.parametrize("element", [Element.BF16, Element.F32])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 3), (64, 65), (9, 130), (130, 71), (257, 63)])
def test_rows_of_any_length_are_stored(rows: int, columns: int, element: Element) -> None:
    case = contraction("bik,bjk->bij", result=element)
    got, arrays = run(case, {"b": 2, "i": rows, "j": columns, "k": 24}, replace(ONE, slots=2), stores="rows")
    assert error(got, expected(case, arrays)) < 3e-3


def test_a_result_whose_rows_come_from_the_second_factor() -> None:
    case = contraction("ki,kj->ji")
    got, arrays = run(case, {"i": 72, "j": 80, "k": 40}, ONE)
    assert error(got, expected(case, arrays)) < 3e-3


def test_a_scaled_product() -> None:
    case = contraction("ik,jk->ij", result=Element.F32, epilogue=lambda p, x, at: mul(p, x[0]), extra="i")
    got, arrays = run(case, {"i": 72, "j": 80, "k": 40}, ONE)
    assert error(got, expected(case, arrays) * arrays[case.extra[0].symbol][:, None]) < 1e-6


def test_a_dropped_wait_shows() -> None:
    case = contraction("ik,jk->ij")
    (kernel,) = kernels(case.program)
    values = (*case.program.inputs, *(r.value for r in kernel.results))
    program = stages(kernel, ONE, HOPPER, values, Granted(frozenset({case.result.symbol}))).barriers
    last, _ = list(sites(program, b.Await))[-1]
    broken = mutate(program, last, drop)
    arrays = inputs(case, {"i": 64, "j": 64, "k": 256})
    failures = 0
    for seed in range(8):
        try:
            simulate(broken, arrays, dimensions(case, arrays), seed=seed, clusters=1)
            failures += error(arrays[case.result.symbol], expected(case, arrays)) > 3e-3
        except SimulationError:
            failures += 1
    assert failures


SOURCES = {
    "a product": ("fun f (a : bf16[m, k]) (b : bf16[k, n]) = a @ b", [(70, 40), (40, 72)]),
    "a batch with an epilogue": (
        "import nn\nfun f (x : f16[b, s, d]) (w : f16[d, e]) (c : f16[e]) = nn.gelu (x @ w + c)",
        [(2, 66, 48), (48, 80), (80,)],
    ),
    "a mask over indices": (
        "fun f (q : bf16[s, d]) (k : bf16[t, d]) =\n"
        "  for i j => if j <= i then (sum c => cast f32 q[i, c] * cast f32 k[j, c]) else 0.0",
        [(70, 64), (90, 64)],
    ),
    "two results": (
        "fun f (a : bf16[m, k]) (b : bf16[n, k]) =\n"
        "  let val s = for i j => sum c => a[i, c] * b[j, c] in (s, for i j => tanh (s[i, j] * 0.05)) end",
        [(66, 72), (68, 72)],
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_source_through_the_simulator_agrees_with_the_interpreter(name: str) -> None:
    from axon import compiler
    from axon.backend.gpu.runtime.simulated import run as simulated

    text, shapes = SOURCES[name]
    program = compiler.lower(compiler.check_text(text), "f", None)
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape).astype(v.element.dtype) for v, shape in zip(program.inputs, shapes, strict=True)]
    want = compiler.interpret(program, arrays, ())
    for got, right in zip(simulated(program, arrays, mapping=ONE), want, strict=True):
        assert got.dtype == right.dtype
        assert error(got, right.astype(np.float64)) < 6e-3


def test_a_transposed_operand_is_read_as_it_lies() -> None:
    from axon.backend.gpu.layout.memory import DeviceTensor
    from axon.backend.gpu.runtime.executable import Executable

    case = contraction("ik,kj->ij")
    a, b_ = case.program.inputs
    executable = Executable(case.program, mapping=ONE)
    arrays = inputs(case, {"i": 72, "j": 80, "k": 64})
    lie = {a.symbol: DeviceTensor(0, (72, 64), (64, 1), a.element), b_.symbol: DeviceTensor(0, (64, 80), (1, 64), b_.element)}
    lie[case.result.symbol] = DeviceTensor(0, (72, 80), (80, 1), case.result.element)
    plan = executable.plans(lie, dimensions(case, arrays))[0]
    assert plan.kernel.right.order == (1, 0)
    simulate(plan.stages.barriers, arrays, dimensions(case, arrays))
    assert error(arrays[case.result.symbol], expected(case, arrays)) < 3e-3
