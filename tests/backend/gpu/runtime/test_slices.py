"""Scans of few long rows in slices, and what `plan.spread` alone makes in parts: what is computed, by NumPy in 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend import libraries
from axon.backend.gpu.runtime import kept_graphs, plain_variants
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.ways import Way
from axon.backend.gpu.simt.emit import emit
from axon.backend.kernel.parameters import PointerParameter
from axon.backend.plan.ir import Nest
from axon.backend.plan.spread import Cut
from tests.backend.gpu.runtime.emulated import EmulatedDriver
from tests.backend.gpu.runtime.fake import DeviceArray, FakeLibrary
from tests.backend.gpu.runtime.test_spreading import gpu
from tests.backend.gpu.simt.plain_cases import choices, compare, expected, side_by_side
from tests.sample import SOAK

__all__ = ["gpu"]  # a fixture
WITHIN = {"f8": 1e-12, "f4": 2e-6, "f2": 2e-3, "bf16": 1.6e-2, "i4": 0.0, "i1": 0.0, "?": 0.0}  # of the greatest result
TYPES = {"f8": "f64", "f4": "f32", "f2": "f16", "bf16": "bf16", "i4": "i32", "i1": "i8", "?": "bool"}
LENGTHS = [0, 1, 2, 3, 63, 64, 65, 127, 128, 131, 191, 192, 193, 250, 257, 320]
Array = np.ndarray[Any, Any]


def drawn(dtype: str, shape: tuple[int, ...], chance: np.random.Generator) -> Array:
    """Few different numbers, of which some are as good as others."""
    if dtype == "?":
        return chance.random(shape) < 0.02
    if dtype.startswith("i"):
        return chance.integers(-9, 9, shape).astype(dtype)
    return chance.standard_normal(shape).astype(ml_dtypes.bfloat16 if dtype == "bf16" else dtype)


def close(got: Any, want: Any, dtype: str) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    if not want.size:
        return
    if WITHIN[dtype] == 0:
        np.testing.assert_array_equal(got, want.astype(got.dtype))
        return
    wide = got.astype("f8")
    np.testing.assert_array_equal(np.isnan(wide), np.isnan(want))
    scale = np.abs(np.where(np.isfinite(want), want, 0.0)).max()
    np.testing.assert_allclose(wide, want, rtol=WITHIN[dtype], atol=WITHIN[dtype] * scale)


def wide(x: Array) -> Array:
    """In 64 bits."""
    return x.astype("f8" if x.dtype.kind not in "iub" else x.dtype if x.dtype.kind == "b" else "i8")


ONE = {
    "sum": ("op +", "0", lambda x: np.cumsum(wide(x), -1)),
    "max": ("fn a b => max a b", None, lambda x: np.maximum.accumulate(wide(x), -1)),
    "min": ("fn a b => min a b", None, lambda x: np.minimum.accumulate(wide(x), -1)),
    "prod": ("op *", "1", lambda x: np.cumprod(wide(x), -1)),
    "any": ("fn a b => a orelse b", "false", lambda x: np.logical_or.accumulate(x, -1)),
    "all": ("fn a b => a andalso b", "true", lambda x: np.logical_and.accumulate(x, -1)),
}  # fmt: skip
KINDS = [
    ("sum", "f4"), ("sum", "f2"), ("sum", "bf16"), ("sum", "f8"), ("sum", "i4"), ("sum", "i1"), ("max", "f4"), ("max", "i4"),
    ("min", "bf16"), ("min", "i1"), ("prod", "f8"), ("prod", "i4"), ("any", "?"), ("all", "?"),
]  # fmt: skip


def program(monoid: str, dtype: str, rank: int) -> str:
    op, unit, _ = ONE[monoid]
    element = TYPES[dtype]
    if unit is None:
        least = monoid == "max"
        unit = {"i4": "-2147483648" if least else "2147483647", "i1": "-128" if least else "127"}.get(
            dtype, "-inf" if least else "inf"
        )
    elif dtype in ("f4", "f2", "f8", "bf16"):
        unit += ".0"
    rows = [f"r{n}" for n in range(rank)]
    begin = f"for {' '.join(rows)} => " if rows else ""
    return f"fun f (x : {element}[{', '.join([*rows, 'n'])}]) = {begin}scan ({op}, {unit}) i => x[{', '.join([*rows, 'i'])}]"


def drawn_cases(count: int) -> list[tuple[str, str, tuple[int, ...], int]]:
    found = []
    for seed in range(count):
        chance = Random(seed)
        monoid, dtype = KINDS[seed % len(KINDS)]
        rank = chance.choice([0, 0, 1, 1, 2])
        rows = tuple(chance.choice([1, 2, 3]) for _ in range(rank))
        found.append((monoid, dtype, (*rows, chance.choice(LENGTHS)), seed))
    return found


@pytest.mark.parametrize(("monoid", "dtype", "shape", "seed"), drawn_cases(280 if SOAK else 42))
def test_scans(monoid: str, dtype: str, shape: tuple[int, ...], seed: int, gpu: EmulatedDriver) -> None:
    x = drawn(dtype, shape, np.random.default_rng(seed))
    if monoid == "all":
        x = ~x
    if monoid == "prod" and dtype == "f8":
        x = np.exp(x / 30)
    if monoid in ("max", "min") and x.size and dtype in ("f4", "bf16"):
        x[..., x.shape[-1] * 2 // 3] = np.nan
    f = axon.compile(program(monoid, dtype, len(shape) - 1)).f
    before = gpu.ran.get("plain", 0)
    got = f(x, target="cuda")
    if shape[-1] > 64:
        assert gpu.ran["plain"] - before == 3
    close(got, ONE[monoid][2](x), dtype)


STATES = """
fun recurrence (a : f32[n]) (b : f32[n]) =
  let val (p, h) = scan (fn (a, b) (c, d) => (a * c, b * c + d), (1.0, 0.0)) i => (a[i], b[i]) in h end
fun rows (a : f32[r, n]) (b : f32[r, n]) =
  let val (p, h) = for r => scan (fn (a, b) (c, d) => (a * c, b * c + d), (1.0, 0.0)) i => (a[r, i], b[r, i]) in (p, h) end
fun last (x : i32[n]) = scan (fn a b => if b = 0 then a else b, 0) i => x[i]
fun turned (x : i32[n]) =
  let val (a, b) = scan (fn (a, b) (c, d) => (c * a, c * b + d), (1, 0)) i => (x[i] % 3, x[i]) in (a, b) end
fun whole (x : i32[r, n]) =
  let val (a, b) = for r => reduce (fn (a, b) (c, d) => (c * a, c * b + d), (1, 0)) i => (x[r, i] % 3, x[r, i]) in (a, b) end
fun all_of (x : i32[n, m]) =
  let val (a, b) = reduce (fn (a, b) (c, d) => (c * a, c * b + d), (1, 0)) for i j => (x[i, j] % 3, x[i, j]) in (a, b) end
"""


def recurrence(a: Array, b: Array) -> tuple[Array, Array]:
    """The product of all so far, and h = a * h + b, one after the other."""
    p, h = np.ones(a.shape[:-1]), np.zeros(a.shape[:-1])
    products, found = np.empty(a.shape), np.empty(a.shape)
    for i in range(a.shape[-1]):
        p, h = p * a[..., i], h * a[..., i] + b[..., i]
        products[..., i], found[..., i] = p, h
    return products, found


@pytest.mark.parametrize("n", LENGTHS if SOAK else [0, 1, 64, 131, 192, 257])
def test_states_in_order(n: int, gpu: EmulatedDriver) -> None:
    """Linear recurrences, and functions in which both sides matter."""
    chance, m = np.random.default_rng(n), axon.compile(STATES)
    a, b = (1 - chance.random(n) / 9).astype("f4"), chance.standard_normal(n).astype("f4")
    close(m.recurrence(a, b, target="cuda"), recurrence(wide(a), wide(b))[1], "f4")
    a, b = (1 - chance.random((3, n)) / 9).astype("f4"), chance.standard_normal((3, n)).astype("f4")
    for got, want in zip(m.rows(a, b, target="cuda"), recurrence(wide(a), wide(b)), strict=True):
        close(got, want, "f4")
    x = chance.integers(-3, 3, n).astype("i4") * chance.integers(0, 2, n).astype("i4")
    known, want = 0, []
    for value in x:
        known = int(value) if value else known
        want.append(known)
    close(m.last(x, target="cuda"), np.array(want, "i4"), "i4")
    got = m.turned(x, target="cuda")
    firsts, seconds, u, v = [], [], np.int32(1), np.int32(0)
    with np.errstate(over="ignore"):
        for value in x:
            u, v = np.int32(value % 3) * u, np.int32(value % 3) * v + value
            firsts.append(u)
            seconds.append(v)
    close(got[0], np.array(firsts, "i4"), "i4")
    close(got[1], np.array(seconds, "i4"), "i4")
    if n:
        for made in (m.whole(np.stack([x, x]), target="cuda"), [[g] for g in m.all_of(x.reshape(1, n), target="cuda")]):
            assert [int(made[0][0]), int(made[1][0])] == [int(u), int(v)]


AROUND = """
fun after (x : f32[r, n]) =
  let val y = for r => scan (op +, 0.0) i => x[r, i] in for r i => exp (-(y[r, i] * y[r, i])) + x[r, i] end
fun kept (x : f32[r, n]) =
  let val y = for r => scan (op +, 0.0) i => x[r, i] in (y, for r i => y[r, i] * 2.0, for r i => y[r, i] + x[r, i]) end
fun exclusive (x : f32[r, n]) =
  let val y = for r => scan (op +, 0.0) i => x[r, i] in for r, i < n => if i = 0 then 0.0 else y[r, i - 1] end
fun share (x : f32[r, n]) =
  let val e = for r i => exp x[r, i]
      val y = for r => scan (op +, 0.0) i => e[r, i]
  in for r i => y[r, i] / y[r, n - 1] end
fun normed (x : f32[r, n]) =
  let val m = for r => max i => x[r, i]
      val y = for r => scan (op +, 0.0) i => exp (x[r, i] - m[r])
  in for r i => y[r, i] * m[r] end
fun two (x : f32[r, n]) =
  let val y = for r => scan (op +, 0.0) i => x[r, i]
      val z = for r => scan (fn a b => max a b, -inf) i => x[r, i]
  in for r i => y[r, i] + z[r, i] end
fun again (x : f32[r, n]) =
  let val y = for r => scan (op +, 0.0) i => x[r, i]
      val z = for r => scan (op +, 0.0) i => y[r, i]
  in (z, for r => sum i => z[r, i] * y[r, i]) end
fun guarded (x : f32[r, n]) (ids : i32[n]) =
  for r => scan (op +, 0.0) i => if ids[i] >= 0 then x[r, ids[i]] else 0.0
fun backwards (x : f32[r, n]) = for r => scan (op +, 0.0) for i < n => x[r, n - 1 - i]
"""


def sums(x: Array) -> Array:
    return np.cumsum(wide(x), -1)


AROUND_ORACLE: dict[str, Callable[[Array], Any]] = {
    "after": lambda x: np.exp(-(sums(x) ** 2)) + x,
    "kept": lambda x: (sums(x), sums(x) * 2, sums(x) + x),
    "exclusive": lambda x: np.concatenate([np.zeros((len(x), 1)), sums(x)[:, :-1]], 1)[:, : x.shape[1]],
    "share": lambda x: np.cumsum(np.exp(wide(x)), -1) / np.exp(wide(x)).sum(-1, keepdims=True),
    "normed": lambda x: np.cumsum(np.exp(wide(x) - x.max(-1, keepdims=True)), -1) * x.max(-1, keepdims=True),
    "two": lambda x: sums(x) + np.maximum.accumulate(wide(x), -1),
    "again": lambda x: (np.cumsum(sums(x), -1), (np.cumsum(sums(x), -1) * sums(x)).sum(-1)),
    "backwards": lambda x: np.cumsum(wide(x)[:, ::-1], -1),
}


@pytest.mark.parametrize("name", AROUND_ORACLE)
@pytest.mark.parametrize("shape", [(2, 131), (1, 192), (3, 257), (1, 1), (2, 64)] if SOAK else [(2, 131), (1, 192)])
def test_what_stands_around(name: str, shape: tuple[int, int], gpu: EmulatedDriver) -> None:
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")
    got, want = getattr(axon.compile(AROUND), name)(x, target="cuda"), AROUND_ORACLE[name](x)
    for mine, true in zip(*(y if isinstance(y, tuple) else (y,) for y in (got, want)), strict=True):
        close(mine, true, "f4")


def test_elements_under_a_condition(gpu: EmulatedDriver) -> None:
    """Reads are inside where they are asked for, and nowhere else."""
    x, ids = np.random.default_rng(0).standard_normal((2, 190)).astype("f4"), np.arange(190, dtype="i4")
    ids[::3] = -1
    got = axon.compile(AROUND).guarded(x, ids, target="cuda")
    close(got, np.cumsum(np.where(ids >= 0, wide(x), 0.0), -1), "f4")


GRADIENTS = """
fun total (x : f64[n]) = let val y = scan (op +, 0.0) i => x[i] in sum i => y[i] * y[i] end
fun by x = grad total x
fun run (a : f64[n]) (b : f64[n]) =
  let val (p, h) = scan (fn (a, b) (c, d) => (a * c, b * c + d), (1.0, 0.0)) i => (a[i], b[i]) in sum i => h[i] * h[i] end
fun by_both a b = grad (fn (a, b) => run a b) (a, b)
"""


@pytest.mark.parametrize("n", [1, 131, 192])
def test_gradients(n: int, gpu: EmulatedDriver) -> None:
    """By what they are: of sums of sums, sums backwards; of a recurrence, one backwards."""
    chance, m = np.random.default_rng(n), axon.compile(GRADIENTS)
    x = chance.standard_normal(n)
    close(m.by(x, target="cuda"), np.cumsum(2 * np.cumsum(x)[::-1])[::-1], "f8")
    a, b = 1 - chance.random(n) / 9, chance.standard_normal(n)
    h = recurrence(a, b)[1]
    along = np.zeros(n + 1)
    for i in reversed(range(n)):
        along[i] = 2 * h[i] + (along[i + 1] * a[i + 1] if i + 1 < n else 0.0)
    by_a, by_b = m.by_both(a, b, target="cuda")
    close(by_b, along[:n], "f8")
    close(by_a, along[:n] * np.concatenate([[0.0], h[:-1]]), "f8")


BEST = """
fun rows (x : T[r, n]) = for r => argmax i => x[r, i]
fun lows (x : T[r, n]) = for r => argmin i => x[r, i]
fun pairs (x : T[r, n, m]) = for r => argmax i j => x[r, i, j]
fun whole (x : T[n, m]) = argmin i j => x[i, j]
fun some (x : T[r, n]) = for r => argmax for i where i % 5 = 3 => x[r, i]
fun all_some (x : T[n]) = argmin for i where i % 5 = 3 => x[i]
fun other (x : T[r, n]) = for r => argmax i => x[r, n - 1 - i]
fun most (x : T[r, n]) = for r => max for i where i % 5 = 3 => x[r, i]
fun least (x : T[n]) = min for i where i % 70 = 69 => x[i]
fun both (x : T[r, n]) = (for r => max i => x[r, i], for r => argmax i => x[r, i])
"""


@pytest.mark.parametrize("dtype", ["f4", "i4", "bf16", "i1"])
@pytest.mark.parametrize("n", [70, 128, 193, 260] if SOAK else [128, 193])
@pytest.mark.parametrize("nans", [False, True])
def test_the_best_in_parts(dtype: str, n: int, nans: bool, gpu: EmulatedDriver) -> None:
    """The first of equally good ones, whichever part it is in; the first NaN is best of all."""
    chance, m = np.random.default_rng(n), axon.compile(BEST.replace("T[", f"{TYPES[dtype]}["))
    x = drawn(dtype, (2, n), chance)
    x = np.round(x.astype("f8") * 2).astype(x.dtype)
    if nans:
        if dtype.startswith("i"):
            return
        x[:, n // 2 :: 9] = np.nan
    true, places = wide(x), np.arange(n)
    first = np.where(np.isnan(true), np.inf, true).argmax(-1), np.where(np.isnan(true), -np.inf, true).argmin(-1)
    close(m.rows(x, target="cuda"), first[0], "i4")
    close(m.lows(x, target="cuda"), first[1], "i4")
    got = m.both(x, target="cuda")
    close(got[1], first[0], "i4")
    close(got[0], true.max(-1), dtype)
    backwards = np.where(np.isnan(true), np.inf, true)[:, ::-1]
    close(m.other(x, target="cuda"), backwards.argmax(-1), "i4")
    for rows, columns in ((1, n), (n, 1), (2, n // 2)):
        taken = true[:, : rows * columns]
        one = np.where(np.isnan(taken), np.inf, taken).argmax(-1)
        made = m.pairs(np.ascontiguousarray(x[:, : rows * columns]).reshape(2, rows, columns), target="cuda")
        close(made[0], one // columns, "i4")
        close(made[1], one % columns, "i4")
        made = m.whole(np.ascontiguousarray(x[0, : rows * columns]).reshape(rows, columns), target="cuda")
        one = np.where(np.isnan(taken[0]), -np.inf, taken[0]).argmin()
        assert [int(made[0]), int(made[1])] == [one // columns, one % columns]
    where = places % 5 == 3
    chosen = np.where(where, np.where(np.isnan(true), np.inf, true), -np.inf)
    close(m.some(x, target="cuda"), chosen.argmax(-1), "i4")
    chosen = np.where(where, np.where(np.isnan(true), -np.inf, true), np.inf)
    assert int(m.all_some(x[0], target="cuda")) == chosen[0].argmin()
    close(m.most(x, target="cuda"), true[:, where].max(-1), dtype)
    close(m.least(x[0], target="cuda"), true[0, places % 70 == 69].min(), dtype)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("rows", (2, 0)),
        ("pairs", (1, 0, 70)),
        ("pairs", (1, 70, 0)),
        ("some", (1, 3)),
        ("most", (2, 2)),
        ("least", (68,)),
        ("all_some", (0,)),
    ],
)
def test_the_best_of_nothing(name: str, shape: tuple[int, ...], gpu: EmulatedDriver) -> None:
    m = axon.compile(BEST.replace("T[", "i32["))
    for target in ("interpret", "cuda"):
        with pytest.raises(axon.AxonError):
            getattr(m, name)(np.zeros(shape, "i4"), target=target)


def kernels(text: str, *shapes: tuple[int, ...]) -> list[str]:
    core = compiler.lower(compiler.check_text(text), "f", None)
    sizes = core.contract.bind((), shapes)
    return [nest.family for nest in Executable(core).serving({}, sizes).planned.kernels if isinstance(nest, Nest)]


@pytest.mark.parametrize(
    ("text", "cut", "whole"),
    [
        ("fun f (x : f32[n]) = scan (op +, 0.0) i => x[i]", (1 << 20,), (10_000,)),
        ("fun f (x : f32[r, n]) = for r => scan (op +, 0.0) i => x[r, i]", (4, 1 << 20), (4, 10_000)),
        ("fun f (x : f32[r, n]) = for r => scan (op +, 0.0) i => x[r, i]", (8, 1_000_003), (200, 1 << 20)),
        ("fun f (x : i32[r, n]) = for r => reduce (fn a b => if b = 0 then a else b, 0) i => x[r, i]", (2, 1 << 22), (2, 10_000)),
    ],
)
def test_rows_are_cut_where_it_pays(text: str, cut: tuple[int, ...], whole: tuple[int, ...]) -> None:
    assert len(kernels(text, cut)) == (3 if "scan" in text else 2)
    assert len(kernels(text, whole)) == 1


def test_what_follows_runs_in_the_slices() -> None:
    """Pointwise; what needs another place of the row does not."""
    assert kernels(f"{AROUND}\nfun f (x : f32[r, n]) = after x", (2, 1 << 22)) == ["reduce", "scan", "scan"]
    assert kernels(f"{AROUND}\nfun f (x : f32[r, n]) = exclusive x", (2, 1 << 22)) == ["reduce", "scan", "scan", "map"]


@pytest.mark.parametrize("name", ["after", "kept", "two", "again"])
@pytest.mark.parametrize("shape", [(2, 192), (1, 131)])
def test_slices_in_every_way(name: str, shape: tuple[int, int]) -> None:
    """By any mapping that is right of a nest of slices: where threads take rows, too."""
    core = compiler.lower(compiler.check_text(AROUND), name, None)
    sizes = core.contract.bind((), [shape])
    first = next(nest for nest in Executable(core).serving({}, sizes).planned.kernels if isinstance(nest, Nest))
    made = Executable(core, way=Way(spread=frozenset({(symbol, Cut(0, 2)) for symbol in first.stored})))
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    given = side_by_side(made, [x], sizes)
    assert any(nest.slices is not None for nest in given.todo)
    ways = choices(given)
    for number in range(0, len(ways), 1 if SOAK else 3):
        compare(given, ways[number], expected(given), seed=number)


COLUMNS = """
fun sums (x : f32[n, r]) = for j => scan (op +, 0.0) i => x[i, j]
fun last (x : i32[n, r]) = for j => reduce (fn a b => if b = 0 then a else b, 0) i => x[i, j]
fun best (x : i32[n, m, r]) = for j => argmax i k => x[i, k, j]
fun turned (x : f32[n, r]) = let val y = for j => scan (op +, 0.0) i => x[i, j] in for i j => y[j, i] * x[i, j] end
"""


@pytest.mark.parametrize("shape", [(131, 3), (192, 1), (257, 8)])
def test_few_columns(shape: tuple[int, int], gpu: EmulatedDriver) -> None:
    chance, m = np.random.default_rng(sum(shape)), axon.compile(COLUMNS)
    x = chance.standard_normal(shape).astype("f4")
    close(m.sums(x, target="cuda"), np.cumsum(wide(x), 0).T, "f4")
    close(m.turned(x, target="cuda"), np.cumsum(wide(x), 0) * x, "f4")
    z = chance.integers(-2, 3, shape).astype("i4") * (chance.random(shape) < 0.1)
    z = z.astype("i4")
    close(m.last(z, target="cuda"), np.array([([0, *column[column != 0]])[-1] for column in z.T]), "i4")
    both = np.stack([z, z[::-1]], 1)
    made = m.best(np.ascontiguousarray(both), target="cuda")
    first = both.reshape(-1, shape[1]).argmax(0)
    close(made[0], first // 2, "i4")
    close(made[1], first % 2, "i4")


def test_arrays_of_a_library_that_lie_anyhow(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strided ones, and such as begin anywhere, again and again: what is recorded is replayed."""
    monkeypatch.setitem(libraries._by_type, DeviceArray, FakeLibrary())
    kept_graphs._graphs.clear()
    m, chance = axon.compile(AROUND), np.random.default_rng(5)
    whole = chance.standard_normal((4, 800)).astype("f4")
    for x in (whole[:2, :192], whole[::2, 3:200], whole[:, ::5][:2], whole[:2, :192], whole[:2, :192]):
        y, twice, more = m.kept(DeviceArray(x))
        close(y.array, sums(x), "f4")
        close(twice.array, sums(x) * 2, "f4")
        close(more.array, sums(x) + x, "f4")
    assert gpu.replayed


@pytest.mark.parametrize(
    ("text", "shapes", "tensors"),
    [
        (f"{AROUND}\nfun f (x : f32[r, n]) = after x", [(2, 1 << 22)], 3),  # x, what stands before, the result: no running sums
        (f"{STATES}\nfun f a b = recurrence a b", [(1 << 22,), (1 << 22,)], 5),  # a, b, what stands before of both states, h
    ],
)
def test_what_stays_in_registers(text: str, shapes: list[tuple[int, ...]], tensors: int) -> None:
    core = compiler.lower(compiler.check_text(text), "f", None)
    sizes = core.contract.bind((), shapes)
    planned = (made := Executable(core).serving({}, sizes)).planned
    (nest,) = (kernel for kernel in planned.kernels if isinstance(kernel, Nest) and kernel.slices is not None)
    ready = plain_variants.prepare(nest, planned.known, planned.lying(sizes), sizes, made.target)
    source = emit(ready.kernel, ready.values, ready.wanted, dict(ready.units), made.target)
    assert sum(isinstance(parameter, PointerParameter) for parameter in source.parameters) == tensors
