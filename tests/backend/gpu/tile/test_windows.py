"""Convolutions on the tensor cores: a copy in which windows overlap, with the zeros of padding in it."""

from __future__ import annotations

from math import inf, prod
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.runtime import merging, packed
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.ways import Planned
from axon.backend.gpu.tile import limbs
from axon.backend.gpu.tile.contraction import MatrixProduct, Merging
from axon.backend.plan.ir import Nest
from axon.base.data import replace
from tests.sample import SOAK

SOURCE = """
import nn
fun plain (x : T[n, c, h, w]) (k : T[o, c, r, s]) = nn.conv2d x k
fun same (x : T[n, c, h, w]) (k : T[o, c, r, s]) = nn.conv2d_same x k
fun strided (x : T[n, c, h, w]) (k : T[o, c, r, s]) = nn.conv2d_strided {2, 1} x k
fun dilated (x : T[n, c, h, w]) (k : T[o, c, r, s]) = nn.conv2d_with {2, 2, 2, 1} x k
fun grouped (x : T[n, 2 * c, h, w]) (k : T[2 * o, c, r, s]) = nn.conv2d_with {1, 1, 1, 2} x k
fun transposed (x : T[n, c, h, w]) (k : T[c, o, r, s]) = nn.conv2d_transpose {1, 1} x k
fun last (x : T[n, h, w, c]) (k : T[r, s, c, o]) = for n p q o => sum i j c => x[n, p + i, q + j, c] * k[i, j, c, o]
fun signal (x : T[n, c, l]) (k : T[o, c, r]) = nn.conv1d x k
fun volume (x : T[n, c, d, h, w]) (k : T[o, c, t, r, s]) = nn.conv3d_with {1, 1, 1, 1} x k
fun upsampled (x : T[n, c, h, w]) (k : T[c, o, r, s]) = nn.conv2d_transpose {2, 1} x k
fun spaced (x : T[n, c, l]) (k : T[c, o, r]) = nn.conv1d_transpose_with {2, 1, 2, 1, 1} x k
fun apart (x : T[n, c, l]) (k : T[c, o, r]) = nn.conv1d_transpose_with {3, 1, 1, 1, 2} x k
fun coloured (x : T[n, c, h, w]) (k : T[o, c, r, s]) = nn.conv2d_strided {2, 3} x k
fun both (x : T[n, c, l]) (k : T[c, m]) = for b, p < 20, q < 12 => sum for c, i < 3 => x[b, c, p + i] * k[c, q + i]
fun diagonal (x : T[c, l, m]) (k : T[o, c, r]) = for o, p < 20 => sum for c, i < 3 => x[c, p + i, i] * k[o, c, i]
fun twice (x : T[n, c, l]) (k : T[o, c, m]) = for b o, p < 20 => sum for c, i < 3, j < 2 => x[b, c, p + i] * k[o, c, i + j]
fun activated (x : T[n, c, h, w]) (k : T[o, c, r, s]) (b : T[o]) = nn.relu (nn.channel_bias b (nn.conv2d_same x k))
"""
PROGRAMS, PARTS = (1000, 20) if SOAK else (16, 4)
ROUNDED = {"bf16": 2e-2, "f16": 3e-3, "f32": 2e-6}
CASES: dict[str, tuple[tuple[int, ...], ...]] = {
    "plain": ((2, 8, 6, 70), (5, 8, 3, 3)),
    "same": ((1, 8, 5, 68), (9, 8, 3, 5)),
    "strided": ((2, 16, 7, 131), (4, 16, 3, 3)),
    "dilated": ((1, 8, 9, 140), (4, 8, 3, 3)),
    "grouped": ((1, 16, 5, 66), (8, 8, 3, 3)),
    "transposed": ((1, 8, 5, 66), (8, 6, 3, 4)),
    "last": ((1, 6, 66, 8), (3, 3, 8, 16)),
    "signal": ((2, 24, 200), (7, 24, 4)),
    "volume": ((1, 8, 3, 4, 66), (5, 8, 3, 3, 3)),
    "upsampled": ((1, 8, 4, 40), (8, 6, 3, 4)),
    "spaced": ((2, 8, 70), (8, 5, 3)),
    "apart": ((1, 16, 50), (16, 5, 5)),
    "coloured": ((2, 3, 9, 140), (4, 3, 7, 7)),
    "both": ((2, 8, 40), (8, 14)),
    "diagonal": ((8, 30, 30), (5, 8, 3)),
    "twice": ((2, 8, 40), (5, 8, 9)),
    "activated": ((1, 8, 5, 66), (8, 8, 3, 3), (8,)),
}


UNUSUAL = ("both", "diagonal", "twice")  # forms that need not be on the tensor cores


def module(element: str) -> Any:
    return axon.compile(SOURCE.replace("T[", f"{element}["))


def served(name: str, element: str, *shapes: tuple[int, ...]) -> tuple[Planned, dict[Any, int]]:
    core = compiler.lower(compiler.check_text(SOURCE.replace("T[", f"{element}[")), name, None)
    sizes = core.contract.bind((), shapes)
    return Executable(core).serving({}, sizes).planned, sizes


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tensor cores are worth it, however little there is to do."""
    for where in (merging, packed, limbs):
        monkeypatch.setattr(where, "without_tensor_cores", lambda *_: inf)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("element", ROUNDED)
@pytest.mark.parametrize("name", CASES)
def test_what_is_computed(name: str, element: str) -> None:
    rng = np.random.default_rng(0)
    kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}[element]
    given = [(rng.standard_normal(shape) / 4).astype(kind) for shape in CASES[name]]
    if name not in UNUSUAL:
        planned, _ = served(name, element, *CASES[name])
        assert any(isinstance(kernel, MatrixProduct) for kernel in planned.kernels)
    f = module(element)[name]
    want = np.asarray(f(*given, target="interpret"), np.float64)
    got = np.asarray(f(*given, target="simulate"), np.float64)
    np.testing.assert_allclose(got, want, atol=ROUNDED[element] * abs(want).max())


def copied(planned: Planned, sizes: dict[Any, int]) -> int:
    """Elements of the largest thing that plain kernels make."""
    made = (step.outs[0] for kernel in planned.kernels if isinstance(kernel, Nest) for step in kernel.steps)
    return max(prod(d.evaluate(sizes) for d in value.shape) for value in made)


@pytest.mark.parametrize("element", ROUNDED)
def test_what_a_copy_takes(element: str) -> None:
    """Each element of the image once, with channels innermost; or where windows are one row, as they lie."""
    planned, sizes = served("plain", element, (8, 64, 512, 512), (128, 64, 3, 3))
    assert copied(planned, sizes) == 8 * 512 * 512 * 64
    planned, sizes = served("signal", element, (32, 64, 131072), (128, 64, 3))
    assert copied(planned, sizes) == 32 * 131072 * 64


def drawn(chance: Random, *, of_kernel: bool = False) -> tuple[str, list[tuple[int, ...]]]:
    """A convolution with random steps, dilations, paddings and directions, its indices in random orders; and shapes for it. Or the
    sum over its places that is its gradient by the kernel."""
    rank = chance.choice([1, 1, 2, 2, 3])
    places, taps = "pqu"[:rank], "ijl"[:rank]
    steps, dilations = ([chance.choice([1, 1, 1, 2, 3]) for _ in range(rank)] for _ in range(2))
    paddings = [chance.choice([0, 0, 1, 2]) for _ in range(rank)]
    backwards = [chance.random() < 0.25 for _ in range(rank)]
    filters = [chance.choice([2, 3, 4] if n == rank - 1 else [1, 2, 3]) for n in range(rank)]
    channels, grouped = chance.choice([3, 8, 8, 16]), chance.random() < 0.2
    groups = 2 if grouped else 1
    results = [chance.choice([20, 66]) if n == rank - 1 else chance.choice([1, 2, 3]) for n in range(rank)]
    inside, at = [], []
    for n, (p, i) in enumerate(zip(places, taps, strict=True)):
        reach = dilations[n] * (filters[n] - 1)
        inside.append(
            max(1, steps[n] * (results[n] - 1) + 1 + reach - 2 * paddings[n] + (2 * paddings[n] if not paddings[n] else 0))
        )
        shift = reach - paddings[n] if backwards[n] else -paddings[n]
        at.append(f"{steps[n]} * {p} {'-' if backwards[n] else '+'} {dilations[n]} * {i} {'+' if shift >= 0 else '-'} {abs(shift)}")
    padded = any(paddings)
    channel = f"c + {channels} * g" if grouped else "c"
    subscripts = {"b": "b", "c": channel, **dict(zip(places, at, strict=True))}
    extents = {"b": chance.choice([1, 2]), "c": channels * groups, **dict(zip(places, inside, strict=True))}
    image = chance.sample(list(subscripts), len(subscripts)) if chance.random() < 0.5 else ["b", "c", *places]
    shape_of = {"o": chance.choice([5, 8]), "c": channels, **dict(zip(taps, filters, strict=True))}
    kernel = chance.sample(list(shape_of), len(shape_of)) if chance.random() < 0.5 else ["o", "c", *taps]
    result = ["b", *(["g"] if grouped else []), "o", *places]
    if chance.random() < 0.3:
        result = ["b", *(["g"] if grouped else []), *places, "o"]
    bounds = {"b": extents["b"], "g": groups, "o": shape_of["o"], **dict(zip(places, results, strict=True))}
    outer = "g, " if grouped else ""
    read = f"x[{', '.join(subscripts[a] for a in image)}{' | 0.0' if padded else ''}]"
    weight = f"k[{outer}{', '.join(kernel)}]"
    names = {**{a: f"x{a}" for a in image}}
    head = f"(x : T[{', '.join(names[a] for a in image)}]) (k : T[{outer.replace('g', 'kg')}{', '.join(f'k{a}' for a in kernel)}])"
    sums = chance.sample(["c", *taps], rank + 1)
    body = f"sum for {', '.join(f'{a} < {shape_of[a]}' for a in sums)} => {read} * {weight}"
    text = f"fun f {head} = for {', '.join(f'{a} < {bounds[a]}' for a in result)} => {body}"
    if of_kernel:
        head = f"{head.partition(') ')[0]}) (y : T[{', '.join(f'y{a}' for a in result)}])"
        made = [*(["g"] if grouped else []), *kernel]
        around = chance.sample([a for a in result if a not in ("g", "o")], rank + 1)
        body = f"sum for {', '.join(f'{a} < {bounds[a]}' for a in around)} => {read} * y[{', '.join(result)}]"
        every = {**shape_of, "g": groups}
        text = f"fun f {head} = for {', '.join(f'{a} < {every[a]}' for a in made)} => {body}"
        return text, [tuple(extents[a] for a in image), tuple(bounds[a] for a in result)]
    weights = tuple(shape_of[a] for a in kernel)
    return text, [tuple(extents[a] for a in image), (groups, *weights) if grouped else weights]


@pytest.fixture
def pixels(monkeypatch: pytest.MonkeyPatch) -> list[Random]:
    """Copies of pixels wherever they can be, of several ways to read them any."""
    chance: list[Random] = []
    real = merging.Pricer.priced

    def priced(self: Any, op: Any, option: Merging, later: Any) -> Any:
        found = real(self, op, option, later)
        worse = chance[0].random() if option.im2col is not None else 1.0
        return found and replace(found, seconds=found.seconds + worse)

    monkeypatch.setattr(merging.Pricer, "priced", priced)
    for name in ("LONG", "LEAST_DEPTH"):
        monkeypatch.setattr(merging, name, 1)
    for where in (merging, packed, limbs):
        monkeypatch.setattr(where, "without_tensor_cores", lambda *_: inf)
    return chance


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("part", range(PARTS))
def test_convolutions_of_every_form(part: int) -> None:
    for seed in range(part, PROGRAMS, PARTS):
        agree(seed)


def test_convolutions_by_copies_of_pixels(pixels: list[Random]) -> None:
    for seed in range(PROGRAMS, 2 * PROGRAMS):
        pixels[:] = [Random(seed)]
        agree(seed)


def test_sums_over_pixels(pixels: list[Random]) -> None:
    """Gradients by a kernel: what is summed are the places of windows, perhaps in parts."""
    for seed in range(2 * PROGRAMS, 3 * PROGRAMS):
        pixels[:] = [Random(seed)]
        agree(seed, drawn(Random(seed), of_kernel=True))


def test_examples_that_two_indices_move(pixels: list[Random]) -> None:
    pixels[:] = [Random(0)]
    source = "for g < 2, b < 3, o < 8, p < 20 => sum for c < 8, i < 3 => x[b + g, c, p + i] * k[g, o, c, i]"
    agree(0, (f"fun f (x : T[i, c, p]) (k : T[g, o, d, a]) = {source}", [(4, 8, 24), (2, 8, 8, 3)]))


def test_what_is_no_number_stays_where_it_is(pixels: list[Random]) -> None:
    """The last step of a sum brings nothing behind the last place of a window, and rows of windows nothing behind their ends."""
    chance = np.random.default_rng(0)
    for c, taps in ((64, 3), (8, 3), (4, 5)):
        pixels[:] = [Random(c)]
        head = f"fun f (x : bf16[n, w, {c}]) (k : bf16[o, {taps}, {c}]) where w > {taps} ="
        f = axon.compile(f"{head} for n, q < w - {taps - 1}, o => sum for c < {c}, j < {taps} => x[n, q + j, c] * k[o, j, c]").f
        x, k = (chance.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((1, 150, c), (16, taps, c)))
        x[0, 75, 1] = np.nan
        got = np.isnan(np.asarray(f(x, k, target="simulate"), np.float64)).any(axis=(0, 2))
        assert np.flatnonzero(got).tolist() == list(range(76 - taps, 76))


def agree(seed: int, program: tuple[str, list[tuple[int, ...]]] | None = None) -> None:
    chance = Random(seed)
    text, shapes = program or drawn(chance)
    element = chance.choice(list(ROUNDED))
    kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}[element]
    rng = np.random.default_rng(seed)
    given = [(rng.standard_normal(shape) / 4).astype(kind) for shape in shapes]
    f = axon.compile(text.replace("T[", f"{element}[")).f
    want = np.asarray(f(*given, target="interpret"), np.float64)
    got = np.asarray(f(*given, target="simulate"), np.float64)
    np.testing.assert_allclose(got, want, atol=ROUNDED[element] * max(1e-6, abs(want).max()), err_msg=f"{seed}: {text}")


def test_few_channels_seen_by_quotients(pixels: list[Random]) -> None:
    """A sum that is made by residues first, and of copies in which a row of the window is stacked with channels."""
    source = "sum for c < 3, i < 3, j < 3 => x[n, c, p / 2 + i, q / 2 + j | 0.0] * k[o, c, i, j]"
    text = f"fun f (x : T[n, c, h, w]) (k : T[o, c, r, s]) = for n < 2, o < 8, p < 6, q < 40 => {source}"
    for seed in range(3):
        pixels[:] = [Random(seed)]
        agree(seed, (text, [(2, 3, 5, 22), (8, 3, 3, 3)]))
