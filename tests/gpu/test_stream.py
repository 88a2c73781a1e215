"""Streams on a real GPU against float64. Skipped where there is no Hopper GPU with PyTorch."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.gpu.tile import schedule
from axon.backend.gpu.tile.schedule import TileMapping
from axon.base.element import Element
from tests.backend.gpu.streams import NAMES, error, expected, inputs, program
from tests.backend.gpu.tile.pages import Paged, call, drawn

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

from axon.backend.gpu.layout.memory import DeviceTensor  # noqa: E402
from axon.backend.gpu.runtime.executable import Executable  # noqa: E402

DOCUMENTS = """
import nn
fun f (doc : i32[b, s]) (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, d]) =
  let val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d)
      val p = nn.softmax (for b h i j => if doc[b, i] = doc[b, j] andalso j <= i then x[b, h, i, j] else -inf)
  in for b h i e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, h, j, e]) end
"""
TORCH = {Element.BF16: torch.bfloat16, Element.F16: torch.float16, Element.F32: torch.float32, Element.I32: torch.int32}
# Of the greatest value: weights are rounded to 16 bits before they multiply, and so is the result, unless they are in limbs.
TOLERANCE = {Element.BF16: 1.5e-2, Element.F16: 2e-3, Element.F32: 1e-5}
# Scores that are multiplied by their rows: the exponentials of ones so large have errors of their own, NumPy's in f32 as well.
CONDITION = {"ranked": 10.0}
EXECUTABLES: dict[tuple[str, Element, TileMapping | None], Any] = {}


def run(
    name: str, sizes: dict[str, int], element: Element = Element.BF16,
    mapping: TileMapping | None = None, seed: int = 0, whole: int = 70,
) -> tuple[Any, Any]:  # fmt: skip
    key = (name, element, mapping)
    if key not in EXECUTABLES:
        made = program(name, element)
        EXECUTABLES[key] = made, Executable(made, mapping=mapping)
    made, executable = EXECUTABLES[key]
    given = inputs(made, sizes, seed, whole)
    (result,) = made.block.results
    held = {}
    for value, array in zip(made.inputs, given.arrays, strict=True):
        wide = torch.from_numpy(np.asarray(array.astype(np.float32) if value.element.is_float else array))
        held[value.symbol] = wide.to("cuda", TORCH[value.element])
    (out,) = (v for v in executable.values if v.symbol == result)
    held[result] = torch.full([d.evaluate(given.sizes) for d in out.shape], 7.0, device="cuda", dtype=TORCH[out.element])
    lying = {symbol: described(x) for symbol, x in held.items()}
    for value in executable.serving(lying, given.sizes).planned.values:  # what lies between its kernels
        if value.symbol not in held:
            shape = [d.evaluate(given.sizes) for d in value.shape]
            held[value.symbol] = torch.full(shape, 7.0, device="cuda", dtype=TORCH[value.element])
    tensors = {symbol: described(x) for symbol, x in held.items()}
    executable(tensors, given.sizes, torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    return held[result].double().cpu().numpy(), expected(name, given)


def described(x: Any) -> DeviceTensor:
    element = next(element for element, kind in TORCH.items() if kind is x.dtype)
    return DeviceTensor(x.data_ptr(), tuple(x.shape), tuple(x.stride()), element)


SIZES = {"b": 2, "h": 3, "s": 333, "t": 500, "d": 64, "e": 72, "n": 2, "g": 3}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("element", TOLERANCE)
def test_every_program(name: str, element: Element) -> None:
    got, want = run(name, SIZES, element)
    assert error(got, want) < TOLERANCE[element] * CONDITION.get(name, 1.0)


@pytest.mark.parametrize("head", [8, 64, 96, 128, 192, 256])
@pytest.mark.parametrize("name", ["full", "causal"])
def test_head_dimensions(head: int, name: str) -> None:
    got, want = run(name, SIZES | {"d": head, "e": head})
    assert error(got, want) < TOLERANCE[Element.BF16]


@pytest.mark.parametrize("head", [64, 96, 128])
@pytest.mark.parametrize("name", ["full", "causal", "grouped"])
def test_streams_of_f32(head: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where their operations one by one would be faster."""
    monkeypatch.setattr("axon.backend.gpu.runtime.ways.better_apart", lambda *_: None)
    for sequence in (63, 128, 1000):
        got, want = run(name, SIZES | {"d": head, "e": head, "s": sequence, "t": sequence}, Element.F32, seed=sequence)
        assert error(got, want) < TOLERANCE[Element.F32], sequence


@pytest.mark.parametrize("sequence", [1, 2, 63, 64, 65, 127, 128, 129, 1000])
def test_sequence_lengths(sequence: int) -> None:
    for name in ("causal", "window", "full"):
        got, want = run(name, SIZES | {"s": sequence, "t": sequence})
        assert error(got, want) < TOLERANCE[Element.BF16], name


def test_rows_that_a_mask_empties() -> None:
    got, want = run("window", SIZES, whole=0)
    assert np.isnan(want).all()
    assert np.isnan(got).all()


@pytest.mark.parametrize("sequence", [1, 64, 200, 700, 3000])
def test_keys_that_data_hide(sequence: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents in order, and in none, by tables whatever these cost."""
    monkeypatch.setattr("axon.backend.gpu.runtime.reaching.MOST", 1e9)
    module = axon.compile(DOCUMENTS)
    wide = axon.compile(DOCUMENTS.replace("bf16", "f64").replace("f32", "f64"))
    chance = np.random.default_rng(sequence)
    doc = chance.integers(0, 6, (2, sequence)).astype(np.int32)
    doc[0].sort()
    arrays = [chance.standard_normal((2, 2, sequence, 64)) for _ in range(3)]
    given = [torch.from_numpy(a).to("cuda", torch.bfloat16) for a in arrays]
    got = module.f(torch.from_numpy(doc).cuda(), *given)
    want = wide.f(doc, *(one.double().cpu().numpy() for one in given), target="interpret")
    assert error(got.double().cpu().numpy(), want) < TOLERANCE[Element.BF16]
    assert "leaves out keys by tables" in str(module.f.variants)


@pytest.mark.parametrize("part", range(8))
def test_random_cases(part: int) -> None:
    """200 cases in all: any program, sizes and element type. Head dimensions step by 8, as bulk copies need."""
    chance = random.Random(part)
    for number in range(25):
        name, element = chance.choice(NAMES), chance.choice([Element.BF16, Element.F16])
        sizes = {"b": chance.randint(1, 3), "h": chance.randint(1, 4), "n": chance.randint(1, 2), "g": chance.randint(1, 4)}
        sizes |= {"s": chance.randint(1, 600), "t": chance.randint(1, 600)}
        sizes |= {letter: 8 * chance.randint(1, 16) for letter in "de"}
        whole = chance.randint(1, 700)
        got, want = run(name, sizes, element, seed=number, whole=whole)
        assert error(got, want) < TOLERANCE[element], (name, element, sizes, whole)


@pytest.mark.parametrize("seed", range(24))
def test_caches_in_pages(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in place, whatever that costs. What is left in pages behind the length is NaN, pages that are not read are garbage."""
    for name in ("PAGE_WAIT", "BOX_COPY"):
        monkeypatch.setattr(schedule, name, 0.0)
    chance = random.Random(seed)
    form = drawn(chance, (8, 16, 16, 32, 64, 128, 256, 24, 48, 80)[seed % 10])
    pages = max(1, chance.choice([0, 300, 1500, 5000]) // form.rows + chance.randint(1, 3))
    widths = (chance.choice([40, 64, 128]) for _ in range(2))
    made = call(form, chance, chance.randint(1, 5), chance.randint(1, 4), chance.choice([1, 1, 2, 7, 70, 200]), pages, *widths)
    q, keys, values, page, lengths = made.arguments
    kind = TORCH[Element.F16 if form.element == "f16" else Element.BF16]
    given = [torch.from_numpy(x.astype(np.float32)).to("cuda", kind) for x in (q, keys, values)]
    given += [torch.from_numpy(x).to("cuda") for x in (page, lengths)]
    f = axon.compile(form.source).f
    f = f[tuple(made.explicit)] if made.explicit else f
    got = f(*given).double().cpu().numpy()
    assert any("boxes of" in str(variant.mapping) for variant in f.variants)
    np.testing.assert_allclose(got, made.expected, atol=2e-2)


def test_a_page_that_is_none() -> None:
    form = Paged(16, group=4)
    made = call(form, random.Random(0), 2, 2, 1, 200, 128, 128)
    q, keys, values, page, lengths = made.arguments
    given = [torch.from_numpy(x.astype(np.float32)).to("cuda", torch.bfloat16) for x in (q, keys, values)]
    page[1, 3] = len(keys)
    with pytest.raises(axon.AxonError, match=str(len(keys))):
        axon.compile(form.source).f[4](*given, *(torch.from_numpy(x).to("cuda") for x in (page, lengths))).cpu()
