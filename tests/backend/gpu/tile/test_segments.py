"""Products that sum the rows of each group: of whatever groups there are, as the definition says, whatever stands in other rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import inf
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.build.recipe import stages
from axon.backend.gpu.layout.target import CHIPS, HOPPER
from axon.backend.gpu.proof.findings import Violation
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.proof.simulate import simulate
from axon.backend.gpu.report.timeline import timelines
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.runtime import merging, packed, simulated, ways
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.merging import decided
from axon.backend.gpu.runtime.prepare import prepare
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import views_of
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.segments import REACH, even_starts
from axon.core.passes.parts import choices_of, parts, straights
from tests.backend.gpu.proof.mutants import mutate, sites
from tests.backend.gpu.runtime.emulated import emulated
from tests.backend.gpu.tile.test_ragged import drawn
from tests.checked import checked
from tests.sample import SOAK

SOURCE = """
fun product (x : bf16[n, k]) (w : bf16[g, k, j]) (e : i32[n]) = for i j => sum k => x[i, k] * w[e[i], k, j]
fun ordered (x : bf16[n, k]) (w : bf16[g, k, j]) (e : i32[n]) =
  let val s = sort e in for i j => sum k => x[i, k] * w[s[i], k, j] end
fun gathered (x : bf16[n, k]) (w : bf16[g, k, j]) (e : i32[n]) =
  let val s = sort e val order = argsort e in for p j => sum k => x[order[p], k] * w[s[p], k, j] end
fun turned (x : bf16[n, k]) (w : bf16[g, j, k]) (e : i32[n]) = for i j => sum k => x[i, k] * w[e[i], j, k]
fun in_f32 (x : f32[n, k]) (w : f32[g, k, j]) (e : i32[n]) = for i j => sum k => x[i, k] * w[e[i], k, j]
fun heads (x : bf16[n, h, k]) (w : bf16[g, h, k, j]) (e : i32[n]) = for h i j => sum k => x[i, h, k] * w[e[i], h, k, j]
fun across (x : bf16[k, n]) (w : bf16[g, k, j]) (e : i32[n]) = for i j => sum k => x[k, i] * w[e[i], k, j]

fun d_product x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (product x w e)[i, j]) w
fun d_ordered x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (ordered x w e)[i, j]) w
fun d_gathered x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (gathered x w e)[i, j]) w
fun d_turned x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (turned x w e)[i, j]) w
fun d_in_f32 x w e dy = grad (fn w => sum i j => dy[i, j] * (in_f32 x w e)[i, j]) w
fun d_heads x w e dy = grad (fn w => sum h i j => cast f32 dy[h, i, j] * cast f32 (heads x w e)[h, i, j]) w
fun d_across x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (across x w e)[i, j]) w

fun direct (x : bf16[n, k]) (y : bf16[n, j]) (e : i32[n]) (w : f32[g]) =
  for a k j => w[a] * cast f32 (sum for i where e[i] = a => x[i, k] * y[i, j])
fun ascending (x : bf16[n, k]) (y : bf16[n, j]) (e : i32[n]) (w : f32[g]) = let val s = sort e in direct x y s w end
fun few (x : bf16[n, k]) (y : bf16[n, j]) (e : i32[n]) (w : f32[g]) =
  for a k j => w[a] * cast f32 (sum for i where e[i] = a andalso i % 3 = 0 => x[i, k] * y[i, j])
fun several (x : bf16[n, m, k]) (y : bf16[n, m, j]) (e : i32[n]) (w : f32[g]) =
  for a k j => w[a] * cast f32 (sum for i c where e[i] = a => x[i, c, k] * y[i, c, j])
"""
MODULE = axon.compile(SOURCE)
GRADIENTS = ("product", "ordered", "gathered", "turned", "in_f32", "heads", "across")
DIRECT = ("direct", "ascending", "few")


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other kernels cost."""
    monkeypatch.setattr(merging, "is_product", lambda *_: True)
    monkeypatch.setattr(merging, "for_each_group", lambda *_: inf)
    monkeypatch.setattr(packed, "without_tensor_cores", lambda *_: inf)
    monkeypatch.setattr(ways, "dearer", lambda *_: None)


def given(name: str, rng: Any, n: int, g: int, k: int, j: int, groups: Any) -> list[Any]:
    element = np.float32 if name == "in_f32" else ml_dtypes.bfloat16
    shapes = {
        "heads": ((n, 2, k), (g, 2, k, j), (2, n, j)),
        "turned": ((n, k), (g, j, k), (n, j)),
        "across": ((k, n), (g, k, j), (n, j)),
    }
    x, w, dy = shapes.get(name, ((n, k), (g, k, j), (n, j)))
    first, last = (rng.standard_normal(shape).astype(element) for shape in (x, dy))
    if name in DIRECT:
        return [first, last, groups, rng.standard_normal(g).astype(np.float32)]
    return [first, np.zeros(w, element), groups, last]


def wanted(name: str, groups: int, x: Any, second: Any, e: Any, last: Any) -> Any:
    """In float64, group by group."""
    y, scale = (second, np.asarray(last, np.float64)) if name in DIRECT else (last, np.ones(groups))
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if name in ("ordered", "gathered", "ascending"):
        x, e = x[np.argsort(e, kind="stable")] if name == "gathered" else x, np.sort(e)
    form = {"heads": "ihk,hij->hkj", "turned": "ik,ij->jk", "across": "ki,ij->kj"}.get(name, "ik,ij->kj")
    made = []
    for group in range(groups):
        mine = (e == group) & ((np.arange(len(e)) % 3 == 0) | (name != "few"))
        left, right = x[:, mine] if name == "across" else x[mine], y[:, mine] if name == "heads" else y[mine]
        made.append(scale[group] * np.einsum(form, left, right))
    return np.array(made)


def function(name: str) -> str:
    return name if name in DIRECT else f"d_{name}"


def kernels(name: str, shapes: list[tuple[int, ...]]) -> tuple[Any, list[MatrixProduct], Any]:
    """What runs of the part with the product: the plan, and sizes."""
    program = compiler.lower(checked(SOURCE), name, None)
    sizes = program.contract.bind((), shapes)
    *_, part = straights(parts(program, decided(program, choices_of(program), sizes, HOPPER)).body)
    planned = Executable(part.program).serving({}, sizes).planned
    return planned, [kernel for kernel in planned.kernels if isinstance(kernel, MatrixProduct)], sizes


def close(got: Any, want: Any, name: str) -> None:
    within = (1e-5 if name == "in_f32" else 2e-2) * max(1e-9, abs(want).max())
    np.testing.assert_allclose(np.asarray(got, np.float64), want, atol=within)


@pytest.mark.parametrize("seed", range(400 if SOAK else 20))
def test_random_groups(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "verify", lambda _: None)  # of many alike, which others prove
    chance = Random(seed)
    names = (*GRADIENTS, *DIRECT)
    name = names[seed % len(names)]
    n, g, k = chance.choice([1, 7, 64, 65, 150, 300]), chance.choice([1, 2, 5, 20]), chance.choice([8, 64, 72, 203])
    j = chance.choice([8, 64, 72, 200, 203])
    arguments = given(name, np.random.default_rng(seed), n, g, k, j, drawn(chance, n, g))
    got = MODULE[function(name)](*arguments, target="simulate")
    close(got, wanted(name, g, *arguments), name)
    _, products, _ = kernels(function(name), [a.shape for a in arguments])
    assert [kernel.segments is not None for kernel in products] == [True]


@pytest.mark.parametrize("name", ["d_product", "d_ordered", "d_in_f32", "few"])
def test_rows_of_other_groups_do_not_come(name: str) -> None:
    """Also infinities and NaN: 0 times these is no 0. They stay in the group that has them."""
    n, g, k, j = 150, 6, 64, 72
    groups = np.sort(np.random.default_rng(1).integers(0, g - 1, n)).astype(np.int32)  # the last has no rows
    groups[groups == 2] = 1  # nor has the third
    own = name.removeprefix("d_")
    arguments = given(own, np.random.default_rng(2), n, g, k, j, groups)
    last = 1 if own in DIRECT else 3
    arguments[0][groups == 3] = np.inf
    arguments[last][groups == 3] = np.nan
    arguments[0][groups == 4, 5] = np.nan
    arguments[last][groups == 0, 7] = -np.inf
    got = np.asarray(MODULE[name](*arguments, target="simulate"), np.float64)
    with np.errstate(all="ignore"):
        want = wanted(own, g, *arguments)
    assert np.isnan(got[3]).all()
    assert (np.isfinite(got) == np.isfinite(want)).all()
    assert not got[2].any()
    assert not got[5].any()
    finite = np.isfinite(want)
    close(np.where(finite, got, 0), np.where(finite, want, 0), own)


@pytest.mark.parametrize("name", DIRECT)
def test_rows_of_no_group_are_left_out(name: str) -> None:
    n, g, k, j = 200, 4, 64, 64
    rng = np.random.default_rng(5)
    arguments = given(name, rng, n, g, k, j, rng.integers(-3, g + 3, n).astype(np.int32))
    arguments[0][~np.isin(arguments[2], range(g))] = np.nan
    if name == "ascending":
        arguments[0] = np.ones((n, k), ml_dtypes.bfloat16)
        low = int((np.sort(arguments[2]) < 0).sum())
        arguments[0][:low] = np.nan
    close(MODULE[name](*arguments, target="simulate"), wanted(name, g, *arguments), name)


@pytest.mark.parametrize("empty", ["n", "g", "k", "j"])
def test_sizes_of_0(empty: str) -> None:
    sizes = {"n": 70, "g": 3, "k": 64, "j": 64} | {empty: 0}
    n, g, k, j = sizes.values()
    for name in ("direct", "ascending"):
        arguments = given(name, np.random.default_rng(0), n, g, k, j, np.zeros(n, np.int32))
        got = np.asarray(MODULE[name](*arguments, target="simulate"))
        assert got.shape == (g, k, j)
        assert not got.any() or empty not in "n"


def test_what_is_known_to_be_sorted_is_not_copied() -> None:
    shapes = [(300, 64), (5, 64, 64), (300,), (300, 64)]
    found = {name: kernels(f"d_{name}", shapes)[1][0].segments for name in ("product", "ordered", "gathered")}
    assert {name: parts.order is None for name, parts in found.items() if parts} == {
        "product": False, "ordered": True, "gathered": True,
    }  # fmt: skip
    assert {name: len(parts.copies) for name, parts in found.items() if parts} == {"product": 2, "ordered": 0, "gathered": 1}


def test_rows_that_do_not_lie_for_copies_are_copied() -> None:
    """Side by side along what is summed, or not at multiples of 16 bytes."""
    for name, shapes in (
        ("d_across", [(64, 300), (5, 64, 64), (300,), (300, 64)]),
        ("ascending", [(300, 203), (300, 64), (300,), (5,)]),
    ):
        planned, (kernel,), sizes = kernels(name, shapes)
        assert planned.way.packed or len(kernel.segments.copies) == 2  # type: ignore[union-attr]
        ready = prepare(kernel, planned.lying(sizes), sizes)
        assert all(operand.axes[-1] in (kernel.rows.symbol, kernel.columns.symbol) for operand in ready.kernel.operands)


def test_several_summed_indices_are_no_segments() -> None:
    planned, products, _ = kernels("several", [(300, 2, 64), (300, 2, 64), (300,), (5,)])
    assert not products
    assert all(step.reduction is None or step.outs for kernel in planned.kernels for step in kernel.steps)


def test_sizes_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # of what the fixture does
    large = [(8192, 4096), (8, 4096, 14336), (8192,), (8192, 14336)]
    assert kernels("d_ordered", large)[1][0].segments is not None
    small = [(64, 8), (4, 8, 8), (64,), (64, 8)]
    assert not kernels("d_ordered", small)[1]
    program = compiler.lower(checked(SOURCE), "d_ordered", None)
    sizes = program.contract.bind((), large)
    assert choices_of(program).at(sizes).segmented  # which would be sums of segments of sorted indices
    assert not decided(program, choices_of(program), sizes, HOPPER).segmented
    ada = next(chip for chip in CHIPS if chip.name == "sm_89")
    assert decided(program, choices_of(program), sizes, ada).segmented
    (wide,) = choices_of(program).scatters
    assert wide.microseconds(sizes) > 1e5


def test_explain_says_what_was_chosen() -> None:
    program = compiler.lower(checked(SOURCE), "d_ordered", None)
    told = compiler.explain(program, program.contract.bind((), [(300, 64), (5, 64, 64), (300,), (300, 64)]))
    assert "sums the rows of each of 5 groups, sorted: 60 each if they are of one size" in told
    assert "for sums of the rows of each group" in told
    assert "2,457,600 FLOPs" in told  # each row once, whatever groups there are


def test_on_an_emulated_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    for name in ("product", "ordered"):
        arguments = given(name, np.random.default_rng(3), 70, 3, 16, 72, drawn(Random(5), 70, 3))
        close(MODULE[f"d_{name}"](*arguments, target="cuda"), wanted(name, 3, *arguments), name)


# ── the proof ───────────────────────────────────────────────────────────────────────────────────────────────────────────


MAPPINGS = {
    "cluster": TileMapping(128, 128, 64, 4, 1, 2, 2, "columns"),
    "alone": TileMapping(64, 64, 64, 4, 1, 1, 1, "rows", specialized=False),
    "deep": TileMapping(64, 64, 128, 3, 2, 1, 1, "rows"),
    "in turn": TileMapping(64, 64, 64, 3, 1, 2, 1, "rows", turns=True),
}


def barriers(mapping: TileMapping, shapes: list[tuple[int, ...]]) -> tuple[Any, BarrierProgram, Any]:
    planned, (kernel,), sizes = kernels("d_ordered", shapes)
    ready = prepare(kernel, planned.lying(sizes), sizes)
    return ready.kernel, stages(ready.kernel, mapping, HOPPER, planned.values, ready.granted).barriers, sizes


@pytest.mark.parametrize("name", MAPPINGS)
@pytest.mark.parametrize("seed", range(3))
def test_mappings(name: str, seed: int) -> None:
    """Segments of all lengths around that of a step, by barrier programs that are proved and played."""
    n, k, j = 300, 136, 136
    lengths = [0, 1, 63, 64, 65, 0, 107, 0]
    kernel, made, sizes = barriers(MAPPINGS[name], [(n, k), (len(lengths), k, j), (n,), (n, j)])
    assert not isinstance(verify(made), Violation)
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.cumsum(lengths), [n]]).astype(np.int32)
    left, right = (rng.standard_normal((n, width)).astype(ml_dtypes.bfloat16) for width in (k, j))
    held = {
        kernel.segments.start.symbol: np.append(start, start[-1:]),
        kernel.results[0].value.symbol: np.zeros((8, k, j), np.float32),
    }
    for view, rows in zip(views_of(kernel), (left, right), strict=True):
        shape, (step, unit) = (n, REACH, rows.shape[1]), rows.strides
        held[view.value.symbol] = np.lib.stride_tricks.as_strided(rows, shape, (step, step, unit))
    simulate(made, held, sizes, seed=seed)
    ends = pairwise(start)
    for got, (first, last) in zip(held[kernel.results[0].value.symbol], ends, strict=False):
        want = left[first:last].astype(np.float64).T @ right[first:last].astype(np.float64)
        np.testing.assert_allclose(got, want, atol=1e-2 * max(1.0, abs(want).max()))


def test_mutants_are_found() -> None:
    _, made, _ = barriers(MAPPINGS["cluster"], [(4096, 512), (8, 512, 1024), (4096,), (4096, 1024)])
    assert not isinstance(verify(made), Violation)
    parts = made.segments
    assert parts is not None
    other = replace(parts, group=made.order.rows.symbol)
    mutants = [
        replace(made, segments=None),  # copies have a front that nobody says
        replace(made, segments=other),
        replace(made, segments=replace(parts, front=made.order.outer[0].symbol)),
        replace(made, tensors=tuple(v for v in made.tensors if v != parts.start)),
        replace(made, views=()),
        replace(made, views=tuple(replace(v, parts=(v.parts[0], v.parts[0], *v.parts[2:])) for v in made.views)),  # too far
        replace(made, views=tuple(replace(v, parts=(v.parts[2], *v.parts[1:])) for v in made.views)),
        replace(made, order=replace(made.order, outer=())),
    ]
    for number, mutant in enumerate(mutants):
        found = verify(mutant)
        assert isinstance(found, Violation), number
        assert found.kind in ("content", "layout"), found


def test_mutants_of_copies_are_found() -> None:
    """A copy that does not go on with the steps, or from another place in front of them."""
    _, made, _ = barriers(MAPPINGS["cluster"], [(4096, 512), (8, 512, 1024), (4096,), (4096, 1024)])
    parts, steps = made.segments, made.steps.symbol
    assert parts is not None
    changes: list[Callable[[b.Coordinate], b.Coordinate]] = [
        lambda c: replace(c, step=0) if c.axis == steps else c,
        lambda c: replace(c, offset=8) if c.axis == steps else c,
        lambda c: replace(c, offset=1) if c.axis == parts.front else c,
        lambda c: replace(c, step=64) if c.axis == parts.front else c,
        lambda c: replace(c, axis=made.order.outer[0].symbol) if c.axis == parts.front else c,
    ]
    for change in changes:
        places = [number for number, _ in sites(made, b.Copy)]
        assert places
        for place in places:
            mutant = mutate(made, place, lambda op, change=change: (replace(op, at=tuple(map(change, op.at))),))  # type: ignore
            assert isinstance(verify(mutant), Violation)


def test_a_picture_has_the_steps_of_groups_of_one_size() -> None:
    program = compiler.lower(checked(SOURCE), "d_ordered", None)
    sizes = program.contract.bind((), [(4096, 512), (8, 512, 1024), (4096,), (4096, 1024)])
    (line,) = timelines(program, sizes, 20e-6)
    (copies,) = [lane for lane in line.lanes if lane.name == "copies"]
    assert len(copies.stretches) > 8  # steps of 512 rows
    assert even_starts(7, 10) == [0, 2, 5, 7, 10, 10, 10]
