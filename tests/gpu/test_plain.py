"""Plain kernels on a real GPU against the interpreter: every family of nests, by lanes and by rows, in all element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from tests.backend.gpu.simt.plain_programs import INTEGERS, NAMES, SOURCE, WHOLE

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

TORCH = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f64": torch.float64,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
}
TOLERANCE = {"f32": 2e-5, "bf16": 3e-2, "f16": 4e-3, "f64": 1e-12}
SIZES = ((64, 256), (5, 37), (1, 1), (0, 8), (7, 0), (33, 4096), (65, 1749), (3, 20001), (2, 131072))


def check(source: str, name: str, element: str, size: tuple[int, int]) -> None:
    function = getattr(axon.compile(source.replace("T[", element + "[")), name)
    chance = np.random.default_rng(sum(size))
    x = chance.standard_normal(size) if element in TOLERANCE else chance.integers(-100, 100, size)
    given = [torch.from_numpy(np.asarray(x)).to(TORCH[element])]
    if name == "layer_norm":
        given += [torch.from_numpy(chance.standard_normal(size[1])).to(TORCH[element]) for _ in range(2)]
    try:
        want = function(*given, target="interpret")
    except axon.AxonError as refused:
        there = [g.cuda() for g in given]  # alive until the failure is seen, so that it gets the interpreter's words

        def call() -> None:
            function(*there)
            axon.synchronize()

        with pytest.raises(axon.AxonError) as raised:
            call()
        assert raised.value.diagnostics[0].code == refused.diagnostics[0].code
        return
    got = function(*(g.cuda() for g in given))
    for one, other in zip(_flat(got), _flat(want), strict=True):
        mine, theirs = one.cpu().double().numpy(), other.double().numpy()
        assert mine.shape == theirs.shape
        scale = max(1.0, float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0)))
        computed = 2e-5 if element == "f64" and other.dtype == torch.float32 else TOLERANCE.get(element, 0)
        np.testing.assert_allclose(mine, theirs, atol=computed * scale, rtol=0, equal_nan=True)


def _flat(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in _flat(part)] if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_floats(name: str, size: tuple[int, int]) -> None:
    if name == "below" and size[1] > 4096:
        pytest.skip("the interpreter goes through its square")
    for element in ("f32", "bf16") if size != (33, 4096) else TOLERANCE:
        check(SOURCE, name, element, size)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_integers(name: str, size: tuple[int, int]) -> None:
    for element in ("i32", "i64", "u8"):
        check(INTEGERS, name, element, size)


def test_strided_and_transposed_arguments() -> None:
    function = axon.compile("fun f (x : f32[n, d]) = for i => sum j => x[i, j]").f
    base = torch.randn(300, 500, device="cuda")
    for x in (base[::2, 1:], base.T, base[:, ::3], base[10:, 100:101]):
        assert torch.allclose(function(x), x.sum(1), atol=1e-3)


def test_a_branch_alone_keeps_a_read_inside_of_a_transposed_argument() -> None:
    """A rectangle of it must not be fetched whole: it would end beyond the tensor."""
    function = axon.compile(
        "fun f (x : f32[n, d]) = for i < n + 500, j < d + 500 => if i < n andalso j < d then x[i, j] else 0.5"
    ).f
    for n, d in ((700, 300), (5, 9), (1024, 64)):
        x = torch.randn(d, n, device="cuda").T
        want = torch.full((n + 500, d + 500), 0.5, device="cuda")
        want[:n, :d] = x
        assert torch.equal(function(x), want)


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_many_calls_of_large_functions(element: str) -> None:
    """Above 64 calls there is one copy of each."""
    terms = " + ".join(f"sin ({n}.0 * x[i]) * cos (y[i] ** {n}.5)" for n in range(1, 12))
    rows = "for k => let val x = for i => x[k, i] val y = for i => 0.1 * abs x[i]"  # no greater than 1, nor are its powers
    check(f"fun f (x : T[n, d]) = {rows} in for i => {terms} end", "f", element, (33, 4096))
