"""Products in f64 by tensor instructions: run thread by thread, with fragments as the PTX ISA lays them out, against NumPy."""

from __future__ import annotations

import os
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.register_tiles import FRAGMENTS, Pairs, RegisterTile, candidates
from axon.backend.gpu.layout.target import CHIPS, HOPPER, Target
from axon.backend.gpu.simt.access import ALONE, width_of
from axon.backend.gpu.simt.mapping import Mapping, by_register_tiles, roomier
from axon.backend.gpu.simt.register_tiles import FETCHED, TiledMapping, fetch, groups, groups_for, in_products, scalar_fetches
from tests.backend.gpu.simt.emulate import Hazard
from tests.backend.gpu.simt.plain_cases import WARPS, Case, emulated, form, plain, side_by_side
from tests.backend.gpu.simt.plain_cases import case as pairs_case
from tests.backend.gpu.simt.plain_programs import INTEGERS, SOURCE
from tests.backend.gpu.simt.test_emit import executable
from tests.checked import checked
from tests.sample import ALL

SOAK = bool(os.environ.get("AXON_SOAK"))
GOLDEN = Path(__file__).parent / "goldens" / "fragments.plain"
PRODUCT = "fun f (a : f64[m, k]) (b : f64[k, n]) = for i j => sum c => a[i, c] * b[c, j]"
# Programs of three sizes, and what they are in `einsum`'s notation; what is no such sum is a function of NumPy.
PROGRAMS: dict[str, tuple[str, Any]] = {
    "a factor twice": ("fun f (a : f64[m, k]) = for i j => sum c => a[i, c] * a[j, c]", "ic,jc->ij"),
    "rows by columns": (PRODUCT, "ic,cj->ij"),
    "columns by rows": ("fun f (a : f64[k, m]) (b : f64[n, k]) = for i j => sum c => a[c, i] * b[j, c]", "ci,jc->ij"),
    "two summed axes": ("fun f (a : f64[m, h, k]) (b : f64[k, h, n]) = for i j => sum h c => a[i, h, c] * b[c, h, j]",
                        "ihc,chj->ij"),
    "several of each": ("fun f (a : f64[m, k, h]) (b : f64[h, k, n]) = for h i j => sum c => a[i, c, h] * b[h, c, j]",
                        "ich,hcj->hij"),
    "results across": ("fun f (a : f64[m, k]) (b : f64[k, n]) = for j i => sum c => a[i, c] * b[c, j]", "ic,cj->ji"),
    "three factors": ("fun f (a : f64[m, k]) (b : f64[n, k]) = for i j => sum c => a[i, c] * b[j, c] * (a[i, c] + 1.0)",
                      lambda a, b: (a * (a + 1)) @ b.T),
    "what is wider": ("fun f (a : f32[m, k]) (b : f64[k, n]) = for i j => sum c => cast f64 a[i, c] * b[c, j]", "ic,cj->ij"),
    "padding": ("fun f (a : f64[m, k]) (b : f64[k, n]) = for i < m, j < n, s < 2 => sum c => a[i - s, c | 0.0] * b[c, j + 1 | 0.5]",
                lambda a, b: np.stack([np.pad(a, ((s, 0), (0, 0)))[: len(a)] @ np.pad(b[:, 1:], ((0, 0), (0, min(1, b.shape[1]))),
                                       constant_values=0.5) for s in range(2)], -1)),
}  # fmt: skip


def case(source: str, sizes: dict[str, int], chance: np.random.Generator, lying: Any = None, chip: Target = HOPPER) -> Case:
    """Random arguments; `lying` gives the strides of a shape, in elements."""
    made = plain(compiler.lower(checked(source), "f", None), chip)
    extents = [tuple(sizes[d.symbol.name] for d in v.shape) for v in made.program.inputs]
    arrays = [
        chance.integers(0, 40, e).astype(np.int32) if v.element.is_integer else chance.standard_normal(e).astype(v.element.dtype)
        for v, e in zip(made.program.inputs, extents, strict=True)
    ]
    given = side_by_side(made, arrays, made.program.contract.bind([], extents))
    for value in made.program.inputs if lying is not None else ():
        tensor = given.tensors[value.symbol]
        strides, skipped = lying(tensor.shape)
        size = tensor.element.dtype.itemsize
        given.tensors[value.symbol] = DeviceTensor(tensor.pointer + skipped * size, tensor.shape, strides, tensor.element)
    return given


def mapping(given: Case, tile: RegisterTile, alone: bool = False, most: int = FETCHED) -> Mapping:
    """One of these tiles; elements one at a time, or as wide as they lie for it, up to so many."""
    (nest,) = given.todo
    ready = given.ready(nest)
    tensors = {**given.tensors, **{symbol: given.tensors[symbol].merged(several) for symbol, several in ready.dimensions}}
    found = groups_for(ready.kernel, tile)
    tiled = TiledMapping(tile, tuple(fetch(leaf, found, tensors, given.sizes, most) for leaf in found.leaves), 1)
    if alone:
        return by_register_tiles(ready.kernel, scalar_fetches(tiled), ALONE)
    return by_register_tiles(ready.kernel, tiled, width_of(ready.kernel, ready.values, tensors, given.sizes, True))


def results(given: Case, tile: RegisterTile, seed: int = 0, alone: bool = False, most: int = FETCHED) -> Any:
    (nest,) = given.todo
    source = form(given, nest, mapping(given, tile, alone, most))
    try:
        found = emulated(given, [source], random.Random(seed))
    except Exception as failure:
        failure.add_note(source[0].text)
        raise
    assert found is not None
    return found[0]


def true(meaning: Any, arrays: list[Any]) -> Any:
    """In extended precision."""
    wide = [x.astype(np.longdouble) if x.dtype.kind == "f" else x for x in arrays]
    if callable(meaning):
        return meaning(*wide)
    return np.einsum(meaning, *(wide * 2)[: meaning.count(",") + 1])


def apart(shape: tuple[int, ...], chance: random.Random) -> tuple[tuple[int, ...], int]:
    """Strides of a tensor whose dimensions lie in any order, with gaps, from any element on."""
    strides, step = dict[int, int](), chance.choice((1, 1, 2))
    for position in chance.sample(range(len(shape)), len(shape)):
        strides[position] = step
        step *= shape[position] + chance.choice((0, 0, 1, 2))
    return tuple(strides[n] for n in range(len(shape))), chance.choice((0, 0, 1))


@pytest.mark.parametrize("name", PROGRAMS)
def test_drawn_sizes_and_layouts(name: str) -> None:
    source, meaning = PROGRAMS[name]
    chance = random.Random(name)
    for seed in range(40 if SOAK else 4 if ALL else 2):
        sizes = {"m": chance.randint(1, 33), "n": chance.randint(1, 17), "k": chance.randint(1, 33), "h": chance.randint(1, 3)}
        lying = None
        if seed % 2 == 0:  # as vectors want it
            sizes = {axis: size + size % 2 for axis, size in sizes.items()}
        elif "f32" not in source:
            lying = lambda shape: apart(shape, chance)
        given = case(source, sizes, np.random.default_rng(seed), lying)
        got, want = results(given, chance.choice(WARPS), seed, chance.random() < 0.3), true(meaning, given.arrays)
        assert np.abs(got - want).max(initial=0) <= 2.0**-53 * (sizes["k"] * sizes["h"] + 8) * 64, (sizes, lying)


def test_what_is_no_product_of_f64_has_no_fragments() -> None:
    """Nor has any on a chip whose tensor cores have no f64, or are no faster at it."""
    pairs = Pairs(1, 1024, 1024, 1024, 8, 8, 2)
    assert not any(tile.warps for tile in candidates(pairs, HOPPER))
    assert any(tile.warps for tile in candidates(replace(pairs, products=True), HOPPER))
    for chip in CHIPS:
        fragments = any(tile.warps for tile in candidates(replace(pairs, products=True), chip))
        assert fragments == (chip.name in ("sm_80", "sm_90"))
    products = {"product": "f64", "apart": "f64", "farthest": "f64"}
    for name, element in (*products.items(), ("product", "f32"), ("product", "i64")):
        given = pairs_case(executable(INTEGERS if element == "i64" else SOURCE, name, element), (32, 32))
        (nest,) = given.todo
        found = groups(nest)
        assert found is not None
        assert (in_products(found) is not None) == ((name, element) == ("product", "f64"))


def test_what_is_not_finite() -> None:
    """Infinities, NaN and numbers below the least normal one, where the tile has them and where it does not reach."""
    given = case(PRODUCT, {"m": 21, "n": 11, "k": 19}, np.random.default_rng(0))
    a, b = given.arrays
    a[3, 5], a[7, 18], a[9] = np.inf, np.nan, a[9] * 2.0**-1060
    b[5, 2], b[:, 10], b[6, 4] = 0.0, b[:, 10] * 2.0**1000, -np.inf
    with np.errstate(invalid="ignore"):
        want = sum(a[:, [c]] * b[[c]] for c in range(19))
    np.testing.assert_allclose(results(given, WARPS[1]), want, rtol=1e-12, atol=5e-324 * 32)
    assert not np.isfinite(want).all()
    assert (np.abs(want[9, :10]) < 2.0**-1022)[np.isfinite(want[9, :10])].any()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("copies_wait_2()", "copies_wait_3()"),
        ("copies_wait_0()", "copies_wait_1()"),
        (r"block_sync\(\)(?=\n +held)", "pass"),
        (r"block_sync\(\)(?=\n +states)", "pass"),
        ("copies_commit()", "pass"),
        ("+ 2) & 3", "+ 3) & 3"),
        ("+ 2) & 3", "+ 1) & 3"),
        ("quarter = thread & 3", "quarter = thread & 1"),
    ],
)
def test_hazards(old: str, new: str) -> None:
    """A kernel in which something is missing is caught, or wrong."""
    given = case(PRODUCT, {"m": 20, "n": 20, "k": 80}, np.random.default_rng(0))
    (nest,) = given.todo
    source, launched = form(given, nest, mapping(given, WARPS[1]))
    text = re.sub(old if "\\" in old else re.escape(old), new, source.text)
    assert text != source.text
    text = re.sub(r"(copies_wait_)\d, ", r"\g<1>0, \g<1>1, \g<1>2, \g<1>3, ", text, count=1)
    try:
        (got,) = emulated(given, [(replace(source, text=text), launched)], random.Random(0)) or [None]
    except Hazard:
        return
    assert not np.allclose(got, given.arrays[0] @ given.arrays[1])


def test_a_kernel_reads_as_before() -> None:
    """Set AXON_UPDATE=1 to write what is printed now."""
    given = case(PRODUCT, {"m": 32, "n": 32, "k": 32}, np.random.default_rng(0))
    (nest,) = given.todo
    text = form(given, nest, mapping(given, WARPS[0]))[0].text
    if os.environ.get("AXON_UPDATE"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_tiles_become_smaller() -> None:
    """Where a kernel does not fit its registers, warps get fewer rows, down to those of one instruction."""
    given = case(PRODUCT, {"m": 64, "n": 64, "k": 64}, np.random.default_rng(0))
    for tile in FRAGMENTS:
        found: Mapping | None = mapping(given, tile)
        rows = []
        while found is not None:
            assert found.tiled is not None
            assert found.tiled.tile.threads == tile.threads
            rows.append(found.tiled.tile.own_rows)
            found = roomier(found)
        assert rows == [tile.own_rows >> n for n in range(len(rows))]
        assert rows[-1] == 16
