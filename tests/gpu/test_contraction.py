"""Contractions on a real GPU against float64. Skipped where there is no Hopper GPU with PyTorch."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.roles.barriers import Scatter, operations
from axon.backend.gpu.tile.schedule import TileMapping, Traits, check
from axon.base.element import Element
from tests.backend.gpu.programs import (
    Binary,
    Case,
    Const,
    Convert,
    Select,
    add,
    contraction,
    dimensions,
    error,
    expected,
    gelu,
    inputs,
    mul,
)

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

from axon.backend.gpu.layout.memory import DeviceTensor  # noqa: E402
from axon.backend.gpu.runtime.executable import Executable  # noqa: E402

TORCH = {Element.BF16: torch.bfloat16, Element.F16: torch.float16, Element.F32: torch.float32}
TOLERANCE = {Element.BF16: 3e-3, Element.F16: 4e-4, Element.F32: 2e-6}


def on_device(array: Any, element: Element) -> Any:
    return torch.from_numpy(array.astype(np.float32)).to("cuda", TORCH[element])


def described(x: Any, element: Element) -> DeviceTensor:
    return DeviceTensor(x.data_ptr(), tuple(x.shape), tuple(x.stride()), element)


def run(case: Case, sizes: dict[str, int], mapping: TileMapping | None = None, seed: int = 0) -> tuple[Any, dict[Any, Any]]:
    arrays = inputs(case, sizes, seed)
    bound = dimensions(case, arrays)
    executable = Executable(case.program, mapping=mapping)
    values = (*case.program.inputs, case.result)
    held = {v.symbol: on_device(arrays[v.symbol], v.element) for v in values}
    lying = {v.symbol: described(held[v.symbol], v.element) for v in values}
    for value in executable.serving(lying, bound).planned.values:  # what lies between its kernels
        if value.symbol not in held:
            shape = [d.evaluate(bound) for d in value.shape]
            held[value.symbol] = torch.full(shape, 7.0, device="cuda", dtype=TORCH[value.element])
            lying[value.symbol] = described(held[value.symbol], value.element)
    executable(lying, bound, torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    return held[case.result.symbol].to(torch.float64).cpu().numpy(), arrays


IN_TURN = [
    TileMapping(64, 256, cluster=1, turns=True),
    TileMapping(64, 192, stages=6, cluster=2, cluster_over="columns", turns=True),
    TileMapping(128, 128, stages=6, cluster=2, turns=True),
    TileMapping(64, 128, stages=6, cluster=1, consumers=3, turns=True),
    TileMapping(64, 64, stages=2, in_flight=0, cluster=1, turns=True),
]
LAYOUTS = ["ik,jk->ij", "ik,kj->ij", "ki,jk->ij", "ki,kj->ij"]


@pytest.mark.parametrize("axes", LAYOUTS)
@pytest.mark.parametrize("element", [Element.BF16, Element.F16])
@pytest.mark.parametrize("result", [None, Element.F32])
def test_layouts_and_element_types(axes: str, element: Element, result: Element | None) -> None:
    case = contraction(axes, element, result)
    got, arrays = run(case, {"i": 520, "j": 776, "k": 328})
    assert error(got, expected(case, arrays)) < TOLERANCE[result or element]


@pytest.mark.parametrize("axes", ["bshd,bthd->bhst", "bik,bjk->bij", "bsd,de->bse", "hik,hkj->ihj"])
def test_outer_indices(axes: str) -> None:
    case = contraction(axes)
    sizes = {"b": 3, "h": 4, "s": 136, "t": 200, "d": 64, "e": 264, "i": 72, "j": 328, "k": 144}
    got, arrays = run(case, sizes)
    assert error(got, expected(case, arrays)) < TOLERANCE[Element.BF16]


@pytest.mark.parametrize("padding", [0, 1, 64])
@pytest.mark.parametrize("element", [Element.BF16, Element.F16, Element.F32])
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (7, 9), (64, 65), (257, 1023), (100, 320), (1000, 333), (2049, 2050), (130, 50257)]
)
def test_rows_that_start_anywhere(rows: int, columns: int, element: Element, padding: int) -> None:
    """Stored by rows, see Note [Three ways to store a tile]; what lies before, behind and between outer indices stays as it was."""
    case = contraction("bik,bjk->bij", Element.BF16 if element == Element.F32 else element, element)
    arrays = inputs(case, {"b": 2, "i": rows, "j": columns, "k": 72}, rows)
    held = {v.symbol: on_device(arrays[v.symbol], v.element) for v in case.program.inputs}
    row = columns if padding == 0 else -(-columns // padding) * padding + padding
    apart = -(-rows * row // 64) * 64 + 64
    memory = torch.full((3 * apart,), 7.0, device="cuda", dtype=TORCH[element])
    out = torch.as_strided(memory, (2, rows, columns), (apart, row, 1), 64)
    held[case.result.symbol] = out
    values = (*case.program.inputs, case.result)
    lying = {v.symbol: described(held[v.symbol], v.element) for v in values}
    executable = Executable(case.program)
    executable(lying, dimensions(case, arrays), torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    assert error(out.to(torch.float64).cpu().numpy(), expected(case, arrays)) < TOLERANCE[element]
    out.fill_(7.0)
    assert bool((memory == 7.0).all()), "written outside"
    (plan,) = executable.plans(lying, dimensions(case, arrays)).values()
    scattered = [op for role in plan.stages.barriers.roles for op in operations(role.body) if isinstance(op, Scatter)]
    assert all(op.buffer for op in scattered)
    assert bool(scattered) != lying[case.result.symbol].storable


ODD = """
fun product (a : bf16[m, k]) (b : bf16[k, n]) = a @ b
fun part (a : bf16[m, 2 * k + 1]) (b : bf16[k, n]) = for i j => sum c => a[i, k + 1 + c] * b[c, j]
fun chain (a : bf16[m, k]) (b : bf16[k, n]) (c : bf16[n, o]) = (a @ b) @ c
"""


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("product", [(1023, 511), (511, 4097)]),
        ("product", [(130, 3), (3, 77)]),
        ("product", [(512, 4097), (4097, 512)]),
        ("part", [(300, 2 * 333 + 1), (333, 129)]),
        ("chain", [(257, 65), (65, 1001), (1001, 259)]),
    ],
)
def test_factors_that_lie_anyhow(name: str, shapes: list[tuple[int, int]]) -> None:
    """Copied first, as they are: odd rows, windows of something larger, across, every second element."""
    function = axon.compile(ODD)[name]
    for lie in range(4):
        given = []
        for rows, columns in shapes:
            x = torch.randn(rows + 1, 2 * columns + 2, device="cuda").to(torch.bfloat16)
            ways = (x[:rows, :columns].contiguous(), x[1:, 1 : columns + 1], x[:rows, : 2 * columns : 2])
            given.append(ways[lie] if lie < 3 else torch.randn(columns, rows, device="cuda").to(torch.bfloat16).t())
        wide = [x.to(torch.float64) for x in given]
        want = wide[0][:, -wide[1].shape[0] :] @ wide[1]
        for x in wide[2:]:
            want = want.to(torch.bfloat16).to(torch.float64) @ x
        got = function(*given).to(torch.float64)
        assert float((got - want).abs().max() / want.abs().max()) < 2 * TOLERANCE[Element.BF16], lie


def _bias_gelu(p: Any, x: list[Any], at: Any) -> Any:
    return gelu(add(p, x[0]), Element.F32)


def _masked(p: Any, x: list[Any], at: Any) -> Any:
    return Select(Binary("le", at["j"], at["i"]), mul(p, x[0]), Const(-1.0, Element.F32))


def _shallow() -> list[TileMapping]:
    """Mappings whose rings are deeper than the work: from one group of products in flight to three, of all walks and clusters."""
    chance, legal = Random(0), []
    facts = Traits(Element.BF16, (Element.BF16,), right_across=False)
    while len(legal) < 24:
        in_flight = chance.randint(0, 3)
        rows, columns, consumers = chance.choice([(64, 64, 1), (128, 128, 1), (128, 128, 2), (128, 256, 2), (64, 256, 1)])
        cluster, over = chance.choice([(1, "rows"), (2, "rows"), (2, "columns")])
        mapping = TileMapping(rows, columns, 64, max(in_flight + 1, chance.randint(2, 4)), in_flight, consumers, cluster, over)
        mapping = replace(mapping, persistent=chance.random() < 0.8, specialized=chance.random() < 0.8)
        if mapping not in legal and not check(mapping, HOPPER, facts):
            legal.append(mapping)
    return legal


@pytest.mark.parametrize("mapping", _shallow(), ids=str)
def test_depths_of_few_steps(mapping: TileMapping) -> None:
    """What is freed behind the loop of steps depends on how many there were; a stage that is not freed stops the next tiles."""
    case = contraction("ik,jk->ij", Element.BF16, Element.F32)
    for steps in range(1, mapping.stages + 3):
        got, arrays = run(case, {"i": 2568, "j": 3080, "k": 64 * steps - 8 * (steps % 2)}, mapping)
        assert error(got, expected(case, arrays)) < TOLERANCE[Element.F32], steps


EPILOGUES: dict[str, tuple[Any, str, Any]] = {
    "bias and gelu": (_bias_gelu, "j", lambda s, x: s_gelu(s + x[0])),
    "row scale and mask": (_masked, "i", lambda s, x: np.where(np.tri(*s.shape, dtype=bool), s * x[0][:, None], -1.0)),
    "residual": (lambda p, x, at: add(p, x[0]), "ij", lambda s, x: s + x[0]),
    "cast there and back": (lambda p, x, at: Convert(Convert(p, Element.BF16), Element.F32), "", lambda s, x: s),
}


def s_gelu(s: Any) -> Any:
    from math import erf

    return s * 0.5 * (1 + np.vectorize(erf)(s / np.sqrt(2)))


@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize("columns", [264, 267])
@pytest.mark.parametrize("mapping", [None, TileMapping(128, 64, cluster=1)], ids=["chosen", "in its kernel"])
def test_epilogues(name: str, columns: int, mapping: TileMapping | None) -> None:
    """With a mapping that is given the epilogue stays in the product's kernel; else a kernel behind it may take less time."""
    body, extra, meaning = EPILOGUES[name]
    case = contraction("ik,jk->ij", Element.BF16, Element.F32, body, extra)
    got, arrays = run(case, {"i": 200, "j": columns, "k": 96}, mapping)
    want = meaning(expected(case, arrays), [arrays[v.symbol].astype(np.float64) for v in case.extra])
    assert error(got, want) < 5e-6


@pytest.mark.parametrize("part", range(8))
def test_random_cases(part: int) -> None:
    """200 cases in all: any layout, sizes, element types and epilogue. Contiguous dimensions step by 8, as bulk copies need."""
    chance = Random(part)
    for number in range(25):
        axes = chance.choice(LAYOUTS)
        sizes = {"k": 8 * chance.randint(1, 80)}
        for letter in "ij":
            contiguous = any(f.endswith(letter) for f in axes.split("->")[0].split(","))
            sizes[letter] = 8 * chance.randint(1, 90) if contiguous else chance.randint(1, 700)
        body, extra, meaning = EPILOGUES[chance.choice(list(EPILOGUES))]
        case = contraction(axes, chance.choice([Element.BF16, Element.F16]), Element.F32, body, extra)
        got, arrays = run(case, sizes, seed=number)
        want = meaning(expected(case, arrays), [arrays[v.symbol].astype(np.float64) for v in case.extra])
        assert error(got, want) < 1e-5, (axes, sizes)


SOURCES = {
    "matmul": ("fun f (a : bf16[m, k]) (b : bf16[k, n]) = a @ b", "mk,kn", lambda a, b: a @ b),
    "a batch": ("fun f (a : bf16[b, m, k]) (w : bf16[k, n]) = a @ w", "bmk,kn", lambda a, w: a @ w),
    "heads": (
        "fun f (q : bf16[b, s, h, d]) (k : bf16[b, t, h, d]) = for b h i j => sum c => q[b, i, h, c] * k[b, j, h, c]",
        "bmhk,bnhk",
        lambda q, k: torch.einsum("bshd,bthd->bhst", q, k),
    ),
    "bias and relu": (
        "fun f (a : bf16[m, k]) (b : bf16[k, n]) (c : bf16[n]) =\n"
        "  for i j => let val s = (sum k => a[i, k] * b[k, j]) + c[j] in if s > 0.0 then s else 0.0 end",
        "mk,kn,n",
        lambda a, b, c: torch.relu(a @ b + c),
    ),
    "two results": (
        "fun f (a : bf16[m, k]) (b : bf16[k, n]) = let val s = a @ b in (s, for i j => tanh (s[i, j] * 0.05)) end",
        "mk,kn",
        lambda a, b: (a @ b, torch.tanh((a @ b) * 0.05)),
    ),
    "gelu in f16": (
        "import nn\nfun f (a : f16[m, k]) (b : f16[n, k]) (r : f16[m, n]) =\n"
        "  for i j => nn.gelu (sum k => a[i, k] * b[j, k]) + r[i, j]",
        "mk,nk,mn",
        lambda a, b, r: torch.nn.functional.gelu(a @ b.T) + r,
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_from_source(name: str) -> None:
    text, shapes, meaning = SOURCES[name]
    module = axon.compile(text)
    sizes = {"m": 264, "n": 392, "k": 208, "b": 3, "h": 5}
    element = torch.float16 if "f16[" in text and "bf16" not in text else torch.bfloat16
    arrays = [torch.randn(*(sizes[c] for c in s), device="cuda", dtype=element) for s in shapes.split(",")]
    want = meaning(*(x.double() for x in arrays))
    results, again = (x if isinstance(x, tuple) else (x,) for x in (module.f(*arrays), module.f(*arrays)))
    for got, twice, right in zip(results, again, want if isinstance(want, tuple) else (want,), strict=True):
        assert got.dtype == element
        assert torch.equal(got, twice)
        assert ((got.double() - right).norm() / right.norm()).item() < 3e-3


def test_transposed_and_sliced_views() -> None:
    module = axon.compile("fun f (a : bf16[m, k]) (b : bf16[k, n]) = a @ b")
    a = torch.randn(200, 400, device="cuda", dtype=torch.bfloat16)[:, 8:136]
    b = torch.randn(264, 128, device="cuda", dtype=torch.bfloat16).t()
    got = module.f(a, b)
    want = a.double() @ b.double()
    assert ((got.double() - want).norm() / want.norm()).item() < 3e-3


@pytest.mark.parametrize(
    "mapping",
    [
        TileMapping(),
        TileMapping(in_flight=0, cluster=1),
        TileMapping(in_flight=2),
        TileMapping(persistent=False),
        TileMapping(256, 128, cluster_over="columns"),
        TileMapping(192, 64, stages=4, consumers=3, cluster=1),
        TileMapping(specialized=False),
        TileMapping(64, 128, cluster=1, consumers=1, specialized=False),
        TileMapping(64, 32, 128, stages=6, consumers=1, cluster=4, cluster_over="columns"),
        TileMapping(128, 96, stages=6, cluster=2, cluster_over="columns", slots=2),
        *IN_TURN,
    ],
    ids=str,
)
def test_mappings_change_nothing(mapping: TileMapping) -> None:
    case = contraction("ik,jk->ij")
    got, arrays = run(case, {"i": 1000, "j": 520, "k": 264}, mapping)
    assert error(got, expected(case, arrays)) < TOLERANCE[Element.BF16]


@pytest.mark.parametrize("mapping", IN_TURN, ids=str)
def test_tiles_in_turn(mapping: TileMapping) -> None:
    """Many tiles for each block, odd and even numbers of them, loops of one step and of many, and an epilogue that reads."""
    case = contraction("bik,jk->bij", result=Element.F32, epilogue=lambda p, x, at: add(mul(p, x[0]), x[1]), extra="bij,j")
    sizes = [(1, 9000, 776, 64), (3, 2000, 1032, 8), (1, 64, 64, 4096), (2, 5000, 520, 840)]
    for seed, (outer, rows, columns, depth) in enumerate(sizes):
        got, arrays = run(case, {"b": outer, "i": rows, "j": columns, "k": depth}, mapping, seed)
        want = expected(case, arrays) * arrays[case.extra[0].symbol] + arrays[case.extra[1].symbol]
        assert error(got, want) < 1e-5
