"""Plain kernels without a GPU: their text is run thread by thread (see `emulate`) and compared with the interpreter.

Every kernel is run as it would be launched, and then in every other way in which it may be spread over threads.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.build import cubin as build
from axon.backend.gpu.build.recipe import Plain
from axon.backend.gpu.emit.source import Emitted
from axon.backend.gpu.intrinsics import ptx_fragments, ptx_pieces, ptx_scalar, ptx_shared
from axon.backend.gpu.layout.memory import contiguous
from axon.backend.gpu.layout.register_tiles import candidates
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.simt.access import ALONE
from axon.backend.gpu.simt.mapping import Grid, Mapping, by_register_tiles, choose
from axon.backend.gpu.simt.register_tiles import TiledMapping, fetch, groups, pairs_of
from axon.base.element import Element
from axon.core.ir import Program
from axon.core.passes.parts import parts
from axon.core.verify import CoreInvalid
from tests.backend.gpu.simt.emulate import LIFTED, TOGETHER, Block, Hazard, Shared, Storage, launch
from tests.backend.gpu.simt.plain_cases import (
    Layout,
    admitted,
    case,
    choices,
    compare,
    emulated,
    expected,
    form,
    legal,
    plain,
    side_by_side,
    threads,
)
from tests.backend.gpu.simt.plain_programs import INTEGERS, NAMES, SOURCE, WHOLE
from tests.checked import checked
from tests.core.random_programs import Generator
from tests.sample import ALL

GOLDENS = Path(__file__).parent / "goldens"
SOAK = bool(os.environ.get("AXON_SOAK"))
GENERATED = 2_000 if SOAK else 40 if ALL else 20
FEW = 2 if ALL else 1  # mappings of one kind
STOPPING = (8, 5, 66, 3)  # one of each part that ends in an error
FOUND = (54, 91, 183, 188, 196, 249, 300, 533, 986, 1587)  # generated programs whose kernels were wrong once
SIZES = ((2, 16), (5, 37), (1, 1), (3, 64), (70, 8), (2, 264), (7, 0), (0, 8))
LAYOUTS: dict[str, Layout] = {
    "transposed": lambda n, d: ((1, n), 0),
    "padded": lambda n, d: ((d + 8, 1), 0),
    "every other": lambda n, d: ((2 * d, 2), 0),
    "unaligned": lambda n, d: ((d, 1), 1),
    "of odd rows": lambda n, d: ((d + 1, 1), 3),
    "repeated": lambda n, d: ((0, 1), 0),
}


@cache
def program(source: str, name: str, element: str) -> Program:
    lowered = compiler.lower(checked(source.replace("T[", element + "[")), name, None)
    straight = parts(lowered).straight
    assert straight is not None
    return straight


@cache
def executable(source: str, name: str, element: str) -> Executable:
    return plain(program(source, name, element))


def try_all(source: str, name: str, element: str, layout: Layout | None = None, sampled: int = 2 * FEW + 1) -> None:
    """With AXON_SOAK, every mapping at every size; else so many, and what is chosen for two sizes and for empty ones."""
    made = executable(source, name, element)
    chance = random.Random(name + element)
    cases = [given for n, size in enumerate(SIZES) if admitted(given := case(made, size, seed=n, layout=layout))]
    found = [(given, k, mappings) for given in cases for k, mappings in enumerate(choices(given))]
    found = [one for one in found if threads(one[0], one[2]) <= (16_384 if SOAK else 1024)]
    if not SOAK:
        chosen = [one for one in found if one[1] == 0]
        empty = [one for one in chosen if 0 in one[0].sizes.values()]
        found = [chosen[0], chosen[-1], *empty, *chance.sample(found, min(sampled, len(found)))]
    for given, k, mappings in found:
        compare(given, mappings, expected(given), seed=k)
        if SOAK:
            compare(given, mappings, expected(given), seed=k + 1)


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_floats(name: str, element: str) -> None:
    try_all(SOURCE, name, element)


@pytest.mark.parametrize("name", WHOLE)
def test_integers(name: str) -> None:
    for element in ("i32", "i64", "u8", "u16", "u32", "u64", "i16") if SOAK else ("i32", "u64"):
        try_all(INTEGERS, name, element, sampled=2 * FEW + 1 if element[0] == "i" else 1)


@pytest.mark.parametrize("name", ["peaks", "first", "best", "worst"])
def test_what_changes_is_not_taken_as_known(name: str) -> None:
    """Turns of a loop that are written one after the other: a condition on the accumulators is another one in each."""
    given = case(executable(SOURCE, name, "f32"), (9, 9), seed=1)
    compare(given, [Mapping("lanes")] * len(given.todo), expected(given))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["gelu", "softmax", "colsum", "shift", "transpose", "cum"])
def test_layouts(name: str, layout: str) -> None:
    for element in ("f32", "bf16") if SOAK else ("f32",):
        try_all(SOURCE, name, element, LAYOUTS[layout], sampled=1)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "variance", "wide"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_rows_in_pieces(name: str, element: str) -> None:
    """Clusters that take several rows in turn, in all numbers of blocks and stages, also where the last blocks have nothing."""
    made = executable(SOURCE, name, element)
    for seed, size in enumerate(((5, 264), (5, 64), (9, 8), (1, 16))):
        given = case(made, size, seed=seed)
        mappings = [m for nest in given.todo for m in legal(given, nest) if m.pieces is not None]
        assert len(given.todo) == 1
        assert mappings
        few = random.Random(seed).sample(mappings, FEW) + [m for m in mappings if m.whole][:FEW]
        for mapping in mappings if SOAK else few:
            compare(given, [mapping], expected(given), seed=seed)


CASTS = "fun f (x : T[n, d]) = (" + ", ".join(f"for i j => cast {e.value} x[i, j]" for e in Element) + ")\n"


@pytest.mark.parametrize("element", [e.value for e in Element])
def test_every_element_type(element: str) -> None:
    """Each becomes each other."""
    made = executable(CASTS, "f", element)
    for size in ((2, 9), (2, 16)):
        given = case(made, size)
        for mappings in choices(given)[:3]:
            compare(given, mappings, expected(given))


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_a_cast_from_f64_rounds_once(element: str) -> None:
    """A little more than halfway: as f32 it is halfway, and would be rounded down."""
    bits = 8 if element == "bf16" else 11
    given = case(executable(f"fun f (x : T[n, d]) = for i j => cast {element} x[i, j]", "f", "f64"), (2, 16))
    given.arrays[0][...] = 1 + 2.0**-bits + 2.0**-40
    want = expected(given)
    assert want is not None
    assert float(want[0][0, 0]) == 1 + 2.0 ** (1 - bits)
    compare(given, choices(given)[0], want)
    source = "fun f (x : T[n, d]) = let val y = for i j => cast E x[i, j] in (y, for i => sum j => cast f64 y[i, j]) end"
    given = case(executable(source.replace("E", element), "f", "f64"), (2, 16))
    given.arrays[0][...] = 1 + 2.0**-bits + 2.0**-40
    compare(given, choices(given)[0], expected(given))


@pytest.mark.parametrize("part", range(4))
def test_generated_programs(part: int) -> None:
    """Those of core that are straight, in several mappings each."""
    seen = set()
    for seed in (*range(part, GENERATED, 4), STOPPING[part], *FOUND[part::4]):
        whole, arrays = Generator(random.Random(seed)).program()
        straight = parts(whole).straight
        if straight is None:
            continue
        given = side_by_side(plain(straight), arrays, whole.contract.bind([], [x.shape for x in arrays]))
        try:
            want = expected(given)
        except CoreInvalid:  # the generator reads outside a tensor without a check
            continue
        for k, mappings in enumerate(choices(given)[: None if SOAK else 3]):
            compare(given, mappings, want, seed=k)
        seen.add(want is None)
    assert seen == {True, False}


# ── what the emulator refuses ───────────────────────────────────────────────────────────────────────────────────────────


def test_it_knows_every_intrinsic() -> None:
    block = Block(0, Shared(0), {})
    names = {*ptx_scalar.__all__, *ptx_shared.__all__, *ptx_pieces.__all__, *ptx_fragments.__all__}
    for name in names:
        assert name in TOGETHER or callable(block.intrinsic(name)) or isinstance(block.intrinsic(name), float)
    assert names >= set(LIFTED) | TOGETHER


def run_changed(name: str, size: tuple[int, int], by: str, chunks: int, change: Callable[[str], str]) -> None:
    """Run a program whose kernels' texts are changed."""
    given = case(executable(SOURCE, name, "f32"), size)
    kernels = []
    for nest in given.todo:
        every = legal(given, nest)
        ways = [m for m in every if (m.by, m.chunks) == (by, chunks) and not m.general]
        mapping = max(ways, key=lambda m: m.team)
        source, launched = form(given, nest, mapping)
        text = change(source.text)
        assert text != source.text
        kernels.append((replace(source, text=text), launched))
    emulated(given, kernels, random.Random(0))


@pytest.mark.parametrize(
    ("name", "size", "by", "chunks", "old", "new"),
    [
        ("softmax", (2, 264), "block", 0, "block_sync()", "pass"),
        ("cum", (2, 264), "block", 0, "flip = 1 - flip", "flip = 0"),
        ("softmax", (2, 264), "block", 4, "block_sync()", "pass"),
        ("cum", (2, 264), "block", 0, "block_sync()", "pass"),
        ("neighbours", (3, 64), "warp", 0, "warp_sync()", "pass"),
        ("neighbours", (2, 264), "block", 0, r"block_sync\(\)(?=\n +# result)", "warp_sync()"),
        ("neighbours", (3, 64), "warp", 0, "load_", "fetch_"),
        ("softmax", (7, 264), "cluster", 0, "barrier_wait(shared + 8 * slot, phase)", "pass"),
        ("softmax", (7, 264), "cluster", 0, "1 - phase", "phase"),
        ("softmax", (7, 264), "cluster", 0, r"block_sync\(\)(?=\n +if thread == 0)", "pass"),
        ("softmax", (7, 264), "cluster", 0, "barrier_expect(shared + 8 * slot, ", "barrier_expect(shared + 8 * slot, 16 + "),
        ("transpose", (3, 64), "tiles", 0, "block_sync()", "pass"),
        ("gelu", (5, 37), "lanes", 0, r"if item < .*:", "if True:"),
        ("transpose", (5, 37), "tiles", 0, r"lt_int\(\w+, d\)", "True"),
        ("rowsum", (5, 64), "warp", 0, "eq_int(member, 0)", "True"),
        ("rowsum", (5, 37), "warp", 0, "1 << step", "32 << step"),
        ("rowsum", (3, 64), "block", 0, "thread // 32", "thread"),
        ("gelu", (3, 64), "lanes", 0, r"item \* 4", "item * 2"),
    ],
)
def test_hazards(name: str, size: tuple[int, int], by: str, chunks: int, old: str, new: str) -> None:
    """A kernel in which something is missing is caught, whatever it computes."""
    pattern = old if "\\" in old or ".*" in old else re.escape(old)
    with pytest.raises(Hazard):
        run_changed(name, size, by, chunks, lambda text: re.sub(pattern, new, text))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1 - half", "0"),
        ("turn = 1 - turn", "pass"),
        (r"barrier_wait\(count_\d+, half\)", "pass"),
        ("cluster_wait()", "block_sync()"),
        (r"(barrier_expect\(count_\d+, )", r"\g<1>8 + "),
        ("rank * 2 +", "0 * 2 +"),
    ],
)
def test_hazards_of_clusters(old: str, new: str) -> None:
    pattern = old if "\\" in old else re.escape(old)
    given = case(executable(SOURCE, "softmax", "f32"), (20, 264))
    (nest,) = given.todo
    ways = legal(given, nest)
    (mapping, *_) = (m for m in ways if m.pieces is not None and m.pieces.blocks == 2 and m.team == 64)
    source, launched = form(given, nest, mapping)
    text = re.sub(pattern, new, source.text)
    assert text != source.text
    with pytest.raises(Hazard):
        emulated(given, [(replace(source, text=text), replace(launched, blocks=2))] * 3, random.Random(0))


def test_what_lies_otherwise_is_caught() -> None:
    """A kernel for aligned rows on rows that are not."""
    made = executable(SOURCE, "gelu", "f32")
    given = case(made, (3, 64))
    kernels = [form(given, nest, legal(given, nest)[0]) for nest in given.todo]
    with pytest.raises(Hazard, match="not aligned"):
        emulated(case(made, (3, 64), layout=LAYOUTS["unaligned"]), kernels, random.Random(0))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("shuffle_xor(thread, 1) if thread < 3 else 0", "part"),
        ("shuffle_xor(thread, 1) if thread < 3 else shuffle_up(thread, 1)", "part"),
        ("block_sync() if thread < 32 else 0", "wait for each other"),
        ("shuffle_at(thread, 32)", "asks for lane 32"),
        ("keep(shared + 8, 1)", "of 8 of shared memory"),
        ("keep(shared + 4, 1)", "of shared memory"),
        ("kept_i64(shared)", "never stored"),
        ("keep(shared, 1)", "nothing lies between"),
        ("store_i32(7, 0, i32(1), True)", "no tensor"),
    ],
)
def test_what_threads_may_not_do(line: str, words: str) -> None:
    names = ["as_i64", "i32", "keep", "kept_i64", "store_i32", *sorted(TOGETHER)]
    text = "\n".join([
        "from numba import cuda", "from axon.backend.gpu.intrinsics import ptx",
        f"from axon.backend.gpu.intrinsics.ptx_scalar import {', '.join(names)}",
        "shared_memory = ptx.shared_memory()", "def kernel():", "    thread = as_i64(cuda.threadIdx.x)",
        "    shared = as_i64(shared_memory())", f"    {line}",
    ])  # fmt: skip
    status = Storage(contiguous(256, (1,), Element.I32))
    with pytest.raises(Hazard, match=words):
        launch(Emitted(text, text, frozenset(), (), 64, 1, 8), Grid(1, 64), {}, status, {}, random.Random(0))


# ── text and machine code ───────────────────────────────────────────────────────────────────────────────────────────────


def texts(name: str, element: str, size: tuple[int, int]) -> list[Emitted]:
    given = case(executable(SOURCE, name, element), size)
    return [form(given, nest, legal(given, nest)[0])[0] for nest in given.todo]


@pytest.mark.parametrize(
    ("name", "element", "size"),
    [
        ("softmax", "bf16", (64, 1024)),
        ("colsum", "f32", (4096, 64)),
        ("transpose", "f32", (256, 256)),
        ("cum", "f32", (64, 1024)),
        ("rotary", "bf16", (64, 256)),
    ],
)
def test_kernels_read_as_before(name: str, element: str, size: tuple[int, int]) -> None:
    """Set AXON_UPDATE=1 to write what is printed now."""
    text = "\n".join(source.text for source in texts(name, element, size))
    file = GOLDENS / f"{name}.plain"
    if os.environ.get("AXON_UPDATE"):
        GOLDENS.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


BUILT = [
    ("gelu", "f32", (64, 256)),
    ("rowsum", "f32", (64, 4096)),
    ("colsum", "f32", (4096, 64)),
    ("cum", "f32", (64, 1024)),
    ("embed", "f32", (64, 256)),
    ("transpose", "f32", (256, 256)),
    ("rotary", "bf16", (64, 256)),
    ("softmax", "bf16", (64, 1024)),
    ("variance", "f64", (64, 256)),
    ("gelu", "f8e4m3", (64, 256)),
    ("anyall", "f16", (64, 256)),
]


def test_kernels_become_machine_code() -> None:
    """Every family of nests, and every class of element types: the compiler takes them, and nothing spills."""
    sources = [source for one in BUILT for source in texts(*one)]
    given = case(executable(INTEGERS, "sums", "i64"), (64, 256))
    sources += [form(given, nest, legal(given, nest)[0])[0] for nest in given.todo]
    for kernel in build.build_all([Plain(source) for source in sources], HOPPER):
        assert isinstance(kernel, build.LinkedKernel)
        assert not kernel.spilled


@pytest.mark.parametrize("name", ["apart", "columns", "farthest", "last", "pairs", "product", "windows"])
def test_pairs_are_tiled(name: str) -> None:
    """What is emulated under these names has register tiles, and each is right at sizes with a rest of rows, columns and depth; at
    the second, elements that lie side by side move together."""
    for size in ((9, 11), (9, 8)):
        given = case(executable(SOURCE, name, "f32"), size, seed=3)
        (nest,) = given.todo
        tiled = [m for m in legal(given, nest) if m.tiled is not None]
        assert tiled
        for seed, mapping in enumerate(tiled if SOAK else random.Random(name).sample(tiled, 3)):
            if threads(given, [mapping]) <= 4096:
                compare(given, [mapping], expected(given), seed)


def test_every_register_tile_becomes_machine_code() -> None:
    """With states of one word and of two, and with indices along several axes; none keeps registers in memory."""
    sources = []
    for name, element in (("product", "f32"), ("product", "f64"), ("apart", "bf16"), ("windows", "f32")):
        given = case(executable(SOURCE, name, element), (64, 64))
        (nest,) = given.todo
        found = groups(nest)
        assert found is not None
        pairs = pairs_of(nest, found, given.sizes)
        tiles = [tile for tile in candidates(replace(pairs, depth=4096), HOPPER) if tile.splits in (1, 8)]
        for tile in tiles if SOAK else random.Random(name).sample(tiles, 3 if ALL else 2):
            fetches = tuple(fetch(leaf, found, given.tensors, given.sizes) for leaf in found.leaves)
            tiled = TiledMapping(tile, fetches, tile.resident(pairs.words, pairs.axes, HOPPER))
            sources.append(form(given, nest, by_register_tiles(nest, tiled, ALONE))[0])
    for kernel in build.build_all([Plain(source) for source in sources], HOPPER):
        assert isinstance(kernel, build.LinkedKernel)
        assert not kernel.spilled


def test_elements_of_a_sum_are_not_taken_apart() -> None:
    """Each difference is exact, and of differences added up as `x + y + … - n * 16777215.0` nothing would be left."""
    source = "fun near (x : T[n, d]) = for i => sum j => x[i, j] - 16777215.0\n"
    given = case(executable(source, "near", "f32"), (64, 4))
    (nest,) = given.todo
    text = build.ptx(form(given, nest, choices(given)[0][0])[0], HOPPER)
    assert set(re.findall(r"0f(?!0{8})[0-9A-F]{8}", text)) == {"0fCB7FFFFF"}, text


@pytest.mark.parametrize("name", ["softmax", "surprise"])
def test_sums_below_a_maximum(name: str) -> None:
    """Rows of nothing but minus infinity, with infinities, and with what is no number, in every mapping."""
    surprise = "fun surprise (x : T[n, d]) = for i => let val m = max j => x[i, j] in m + log (sum j => exp (x[i, j] - m)) end\n"
    given = case(executable(SOURCE + surprise, name, "f32"), (8, 264))
    x = given.arrays[0]
    x[0], x[1, 3:], x[2, 5], x[3, 7], x[4, ::2], x[5, 0] = -np.inf, -np.inf, np.inf, np.nan, -np.inf, -np.inf
    want = expected(given)
    ways = [m for m in choices(given) if any(mapping.below for mapping in m)]
    assert ways
    for seed, mappings in enumerate(ways if SOAK else random.Random(0).sample(ways, 3 * FEW)):
        compare(given, mappings, want, seed)
    assert want is not None
    assert np.isfinite(want[0][4:]).all()
    assert not np.isfinite(want[0][0]).any()


@pytest.mark.parametrize("name", ["best", "lowest", "peaks", "corner", "reached"])
def test_the_first_of_the_best(name: str) -> None:
    """Members of a team take elements anywhere: of rows of few values, of zeros of both signs, and of some that are no numbers, the
    first best one is found in every mapping."""
    more = (
        "fun lowest (x : T[n, d]) = for i => argmin j => x[i, j]\n"
        "fun corner (x : T[n, d]) = argmax i j => x[i, j]\n"
        "fun reached (x : T[n, d]) = for i => argmax for j where x[i, j] < 2.0 => abs x[i, j]\n"
    )
    given = case(executable(SOURCE + more, name, "f32"), (8, 264))
    x = given.arrays[0]
    chance = np.random.default_rng(1)
    x[...] = chance.choice([-1.0, 0.0, -0.0, 1.0], x.shape)
    x[1], x[2], x[3], x[4] = -np.inf, 0.0, -0.0, chance.choice([np.nan, 1.0, -1.0], x.shape[1])
    x[5, ::2], x[6] = -0.0, np.nan
    if name == "corner":
        x[6], x[4] = 1.0, 1.0
    if name == "reached":
        x[6, 100], x[6, 7] = 1.0, 3.0
    want = expected(given)
    assert want is not None
    ways = choices(given)
    for seed, mappings in enumerate(ways if SOAK else random.Random(0).sample(ways, min(2 * FEW, len(ways)))):
        compare(given, mappings, want, seed)


@pytest.mark.parametrize(("size", "lowest"), [((28, 8), False), ((36, 8), True), ((60, 16), False), ((40, 64), True)])
def test_the_first_of_the_best_of_short_rows(size: tuple[int, int], lowest: bool) -> None:
    """Of all pairs of places, or of some: two best values, two that are no numbers, one of each, and zeros of both signs."""
    rows, width = size
    more = "fun lowest (x : T[n, d]) = for i => argmin j => x[i, j]\n"
    given = case(executable(SOURCE + more, "lowest" if lowest else "best", "f32"), size)
    pairs = [(i, j) for i in range(width) for j in range(i)]
    chance = random.Random(width)
    chance.shuffle(pairs)
    x = given.arrays[0]
    top = -5.0 if lowest else 5.0
    for turn, (one, other) in enumerate([(top, top), (np.nan, np.nan), (np.nan, top), (top, np.nan), (0.0, -0.0), (top, 2 * top)]):
        x[...] = np.random.default_rng(turn).standard_normal(x.shape)
        if one == 0:
            x[...] = np.where(x > 0, 1.0, 2.0) * (1.0 if lowest else -1.0)
        for row in range(rows):
            first, second = pairs[(row + turn * rows) % len(pairs)]
            x[row, first], x[row, second] = one, other
        want = expected(given)
        assert want is not None
        ways = [m for m in choices(given) if any(mapping.chunks for mapping in m)] or choices(given)
        for mappings in ways if SOAK else chance.sample(ways, min(2, len(ways))):
            compare(given, mappings, want, turn)


def test_a_thread_compares_values_alone() -> None:
    """It meets its elements in rising order: where they are matters where threads are joined."""
    for size in ((64, 8), (64, 64), (64, 128)):
        given = case(executable(SOURCE, "best", "f32"), size)
        (nest,) = given.todo
        mapping = choose(nest, {v.symbol: v for v in given.made.values}, given.tensors, given.sizes, HOPPER)
        alone, _, joined = form(given, nest, mapping)[0].text.partition("for step in range(")
        assert alone.count("lt_int(") == 1, "whether there is a row"
        assert joined.count("lt_int(") == (1 if mapping.team > 1 else 0)


def test_one_divisor_for_many() -> None:
    """Where a row is divided by one number, in 16 bits, by all kinds of numbers."""
    given = case(executable(SOURCE, "ratios", "bf16"), (8, 16))
    x = given.arrays[0]
    x[0, 0], x[1, 0], x[2, 0], x[3, 0], x[4, 0], x[5, 0] = 0.0, np.inf, np.nan, 3e38, 1e-39, -2e-38
    x[3, 1:4] = 3e38, 1e30, 1.0
    x[4, 1:4] = 1e-39, 2e-39, 1.0
    want = expected(given)
    assert want is not None
    for seed, mappings in enumerate(choices(given)):
        compare(given, mappings, want, seed)
    lone = np.array([want[0][3, 1], want[0][4, 1], want[0][4, 2]], np.float64)
    np.testing.assert_allclose(lone, [1.0, 1.0, 2.0], rtol=0.02)
