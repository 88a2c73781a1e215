"""Products of bf16 and f16 by tensor instructions of warps: run thread by thread, with matrices and fragments as the PTX ISA lays
them out, against NumPy."""

from __future__ import annotations

import os
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon.backend.gpu.layout.register_tiles import NARROW_FRAGMENTS, Pairs, candidates
from axon.backend.gpu.layout.target import CHIPS, PRODUCTS, WGMMA, row_of
from axon.backend.gpu.simt.mapping import roomier
from axon.backend.gpu.simt.register_tiles import TAKEN, groups, in_products
from tests.backend.gpu.simt.emulate import Hazard
from tests.backend.gpu.simt.plain_cases import NARROW_WARPS, emulated, form, narrow
from tests.backend.gpu.simt.test_fragments import apart, case, mapping, results, true
from tests.sample import ALL

SOAK = bool(os.environ.get("AXON_SOAK"))
GOLDEN = Path(__file__).parent / "goldens" / "narrow_fragments.plain"
WIDE = "fun f (a : bf16[m, k]) (b : bf16[k, n]) = for i j => sum c => cast f32 a[i, c] * cast f32 b[c, j]"
# Programs of three sizes, and what they are in `einsum`'s notation; what is no such sum is a function of NumPy.
PROGRAMS: dict[str, tuple[str, Any]] = {
    "rows by columns": (WIDE, "ic,cj->ij"),
    "narrow results": ("fun f (a : f16[m, k]) (b : f16[k, n]) = for i j => sum c => a[i, c] * b[c, j]", "ic,cj->ij"),
    "columns by rows": (
        "fun f (a : f16[k, m]) (b : f16[n, k]) = for i j => sum c => cast f32 a[c, i] * cast f32 b[j, c]", "ci,jc->ij"),
    "several of each": (
        "fun f (a : bf16[m, k, h]) (b : bf16[h, k, n]) = for h i j => sum c => cast f32 a[i, c, h] * cast f32 b[h, c, j]",
        "ich,hcj->hij"),
    "two summed axes": (
        "fun f (a : f16[m, h, k]) (b : f16[k, h, n]) = for i j => sum h c => cast f32 a[i, h, c] * cast f32 b[c, h, j]",
        "ihc,chj->ij"),
    "an epilogue, across": (
        "fun f (a : bf16[m, k]) (b : bf16[n, k]) ="
        " for j i => 2.0 * (sum c => cast f32 a[i, c] * cast f32 b[j, c]) + cast f32 a[i, 0]",
        lambda a, b: 2 * (b @ a.T) + a[:, 0]),
    "padding": (
        "fun f (a : bf16[m, k]) (b : bf16[k, n]) ="
        " for i < m, j < n, s < 2 => sum c => cast f32 a[i - s, c | 0.0] * cast f32 b[c, j]",
        lambda a, b: np.stack([np.pad(a, ((s, 0), (0, 0)))[: len(a)] @ b for s in range(2)], -1)),
}  # fmt: skip


CHIP = row_of((8, 9)) or CHIPS[0]


def test_portions() -> None:
    """Where states need more room than the stages have."""
    assert {one.portions for one in NARROW_WARPS} == {1, 2}
    for one in (*NARROW_WARPS, *NARROW_FRAGMENTS):
        states = one.groups * one.rows * (one.columns + 8) * 4 // one.portions
        assert one.lines >= max(states, one.stages * (one.rows + one.columns) * one.depth * 2)
        assert one.own_rows // one.portions >= 16


@pytest.mark.parametrize("name", PROGRAMS)
def test_drawn_sizes_and_layouts(name: str) -> None:
    source, meaning = PROGRAMS[name]
    chance = random.Random(name)
    for seed in range(40 if SOAK else 4 if ALL else 2):
        sizes = {"m": chance.randint(1, 40), "n": chance.randint(1, 24), "k": chance.randint(1, 50), "h": chance.randint(1, 2)}
        lying = None
        if seed % 2 == 0:  # as vectors want it
            unit = chance.choice((2, 4, 8))
            sizes = {axis: size + -size % unit for axis, size in sizes.items()}
        else:
            lying = lambda shape: apart(shape, chance)
        given = case(source, sizes, np.random.default_rng(seed), lying, CHIP)
        got = results(given, chance.choice(NARROW_WARPS), seed, chance.random() < 0.3, TAKEN).astype(np.float64)
        want = true(meaning, [x.astype(np.float64) for x in given.arrays])
        bound = 2.0**-23 * sizes["k"] * sizes["h"] * 64
        bound += 0 if "cast" in source else 2.0**-11 * np.abs(want).max(initial=1)
        assert np.abs(got - want).max(initial=0) <= bound, (sizes, lying)


def test_what_has_fragments() -> None:
    """Products of two factors of the same 16 bits; on chips that have no instructions for warpgroups."""
    pairs = Pairs(1, 1024, 1024, 1024, 4, 4, together=(8, 8))
    for chip in CHIPS:
        assert not any(tile.warps for tile in candidates(pairs, chip))
        fragments = [tile for tile in candidates(replace(pairs, narrow=True), chip) if tile.warps]
        assert bool(fragments) == (chip.has(PRODUCTS) and not chip.has(WGMMA))
        assert all(tile.lines <= chip.shared_per_block and tile.splits <= chip.max_cluster for tile in fragments)
    for body, are in (
        ("a[i, c] * b[c, j]", True),
        ("b[c, j] * a[i, c]", True),
        ("cast f32 a[i, c] * cast f32 b[c, j]", True),
        ("cast f64 a[i, c] * cast f64 b[c, j]", False),  # these are products of f64
        ("a[i, c] + b[c, j]", False),
    ):
        source = f"fun f (a : bf16[m, k]) (b : bf16[k, n]) = for i j => sum c => {body}"
        given = case(source, {"m": 8, "n": 8, "k": 8}, np.random.default_rng(0), chip=CHIP)
        found = groups(given.todo[0])
        made = in_products(found) if found is not None else None
        assert (made is not None and made.leaves[0].local.element.bits == 16) == are, body


def test_what_is_not_finite() -> None:
    given = case(WIDE, {"m": 21, "n": 11, "k": 19}, np.random.default_rng(0))
    a, b = given.arrays
    a[3, 5], a[7, 18] = np.inf, np.nan
    b[5, 2], b[6, 4] = 0.0, -np.inf
    with np.errstate(invalid="ignore"):
        want = sum(a[:, [c]].astype(float) * b[[c]].astype(float) for c in range(19))
    np.testing.assert_allclose(results(given, NARROW_WARPS[0], most=TAKEN), want, rtol=1e-4, atol=1e-4)
    assert not np.isfinite(want).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("copies_wait_2()", "copies_wait_3()"),
        ("copies_wait_0()", "copies_wait_1()"),
        (r"block_sync\(\)(?=\n +held)", "pass"),
        (r"block_sync\(\)(?=\n +for portion)", "pass"),
        (r"block_sync\(\)(?=\n +for spot)", "pass"),
        (r"block_sync\(\)(?=  # others)", "pass"),
        ("copies_commit()", "pass"),
        ("+ 2) & 3", "+ 3) & 3"),
        ("+ 2) & 3", "+ 1) & 3"),
        ("first = (thread >> 3) & 1", "first = (thread >> 4) & 1"),
        ("quarter = thread & 3", "quarter = thread & 1"),
        ("beneath = thread & 7", "beneath = thread & 3"),
        ("portion == 1", "portion == 2"),
        ("matrices_across(", "matrices("),
    ],
)
def test_hazards(old: str, new: str) -> None:
    """A kernel in which something is missing is caught, or wrong."""
    given = case(WIDE, {"m": 64, "n": 24, "k": 112}, np.random.default_rng(0))
    (nest,) = given.todo
    source, launched = form(given, nest, mapping(given, MUTATED, most=TAKEN))
    imports, body = source.text.split("def kernel", 1)
    body = re.sub(old if "\\" in old else re.escape(old), new, body)
    imports = re.sub(r"(copies_wait_)\d, ", r"\g<1>0, \g<1>1, \g<1>2, \g<1>3, ", imports, count=1)
    text = f"{imports}def kernel{body}"
    assert not source.text.endswith(body)
    try:
        (got,) = emulated(given, [(replace(source, text=text), launched)], random.Random(0)) or [None]
    except Hazard:
        return
    assert not np.allclose(got, given.arrays[0].astype(float) @ given.arrays[1].astype(float), atol=1e-3)


MUTATED = narrow(64, 64, 16, 32, 64)  # of two warps, in two portions


def test_the_kernel_that_is_mutated_is_right() -> None:
    given = case(WIDE, {"m": 64, "n": 24, "k": 112}, np.random.default_rng(0))
    assert MUTATED.portions == 2
    got = results(given, MUTATED, most=TAKEN)
    np.testing.assert_allclose(got, given.arrays[0].astype(float) @ given.arrays[1].astype(float), atol=1e-4)


def test_a_kernel_reads_as_before() -> None:
    """Set AXON_UPDATE=1 to write what is printed now."""
    given = case(WIDE, {"m": 64, "n": 64, "k": 64}, np.random.default_rng(0))
    (nest,) = given.todo
    text = form(given, nest, mapping(given, narrow(64, 32, 32, 32, 32), most=TAKEN))[0].text
    if os.environ.get("AXON_UPDATE"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_tiles_become_smaller() -> None:
    """Where a kernel does not fit its registers, warps get fewer rows, down to those of one instruction."""
    given = case(WIDE, {"m": 64, "n": 64, "k": 64}, np.random.default_rng(0))
    for one in NARROW_FRAGMENTS:
        found, rows = mapping(given, one, most=TAKEN), []
        while found is not None:
            assert found.tiled is not None
            assert found.tiled.tile.threads == one.threads
            rows.append(found.tiled.tile.own_rows)
            found = roomier(found)
        assert rows[-1] == 16
