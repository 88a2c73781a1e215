"""Plain kernels without a GPU: their text is run thread by thread (see `emulate`) and compared with the interpreter.

Every kernel is run as it would be launched, and then in every other way in which it may be spread over threads.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon import AxonError, compiler
from axon.backend import build, ptx_pieces, ptx_scalar
from axon.backend.emit import Emitted
from axon.backend.memory import Tensor, contiguous
from axon.backend.parts import parts
from axon.backend.pipeline import Plain
from axon.backend.plan import Nest
from axon.backend.prepare import is_empty
from axon.backend.runtime import Executable
from axon.backend.simt import variants
from axon.backend.simt.access import held_in_registers, lies_flat, uniform, width_of
from axon.backend.simt.mapping import (
    CHUNKS,
    MOST,
    WARP,
    By,
    Grid,
    Mapping,
    grid,
    longest,
    nest_sweeps,
    plainest,
    shareable,
    uneven,
    widest,
)
from axon.backend.simt.pieces import pieces
from axon.backend.simt.tiles import across
from axon.backend.target import HOPPER
from axon.core import Program
from axon.core_verify import CoreInvalid
from axon.element import Element
from axon.interpret import run as interpret
from axon.names import Symbol
from axon.shapes.guard import ContractBroken
from tests.backend.emulate import LIFTED, TOGETHER, Block, Hazard, Shared, Storage, launch
from tests.backend.plain_programs import INTEGERS, NAMES, SOURCE, WHOLE

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
from core_random import Generator

GOLDENS = Path(__file__).parent / "goldens"
SOAK = bool(os.environ.get("AXON_SOAK"))
GENERATED = 2_000 if SOAK else 40
FOUND = (54, 91, 183, 188, 196, 249, 300, 533, 986, 1587)  # generated programs whose kernels were wrong once
SIZES = ((2, 16), (5, 37), (1, 1), (3, 64), (70, 8), (2, 264), (7, 0), (0, 8))
TOLERANCE = {Element.F32: 2e-5, Element.BF16: 3e-2, Element.F16: 4e-3, Element.F64: 1e-12, Element.F8E4M3: 0.2}
Sizes = dict[Symbol, int]
Tensors = dict[Symbol, Tensor]
Layout = Callable[[int, int], tuple[tuple[int, int], int]]
LAYOUTS: dict[str, Layout] = {
    "transposed": lambda n, d: ((1, n), 0),
    "padded": lambda n, d: ((d + 8, 1), 0),
    "every other": lambda n, d: ((2 * d, 2), 0),
    "unaligned": lambda n, d: ((d, 1), 1),
    "of odd rows": lambda n, d: ((d + 1, 1), 3),
    "repeated": lambda n, d: ((0, 1), 0),
}


checked = cache(compiler.check_text)


@cache
def program(source: str, name: str, element: str) -> Program:
    lowered = compiler.lower(checked(source.replace("T[", element + "[")), name, None)
    straight = parts(lowered).straight
    assert straight is not None
    return straight


@cache
def executable(source: str, name: str, element: str) -> Executable:
    """The program's kernels, none of them for the tensor cores."""
    made = program(source, name, element)
    return Executable(made, plain=frozenset(out.symbol for op in made.block.ops for out in op.outs))


# ── all ways to spread a kernel ─────────────────────────────────────────────────────────────────────────────────────────


def legal(nest: Nest, made: Executable, tensors: Tensors, sizes: Sizes) -> list[Mapping]:
    """Every mapping of a kernel that is right at these sizes, chosen or not; the one that is chosen comes first."""
    found = [variants.prepare(nest, made.known, tensors, sizes).wanted, plainest(nest)]
    by_lanes = width_of(nest, made.known, tensors, sizes, True)
    if nest.rows:
        same = frozenset(uniform(nest, by_lanes.vector, sizes)) if by_lanes.vector > 1 else frozenset()
        wide = Mapping("lanes", by_lanes.vector, by_lanes.beside, uniform=same)
        found += [wide, replace(wide, uniform=frozenset()), Mapping("lanes")]
        through = across(nest, tensors, sizes)
        if through is not None:
            tiles = replace(wide, by="tiles", across=through)
            found += [tiles, replace(tiles, across=replace(through, vector=1)), Mapping("tiles", across=through)]
        elif not nest_sweeps(nest):
            found += [replace(wide, turns=3), Mapping("lanes", turns=2)]
            if lies_flat(nest, tensors):
                found += [replace(wide, flat=True), replace(wide, flat=True, turns=2)]
        if nest_sweeps(nest) and shareable(nest):
            found += [replace(wide, team=8), replace(wide, team=32), Mapping("lanes", team=4)]
    if nest_sweeps(nest):
        found += list(_by_rows(nest, made, tensors, sizes))
    return list(dict.fromkeys(found))


def _by_rows(nest: Nest, made: Executable, tensors: Tensors, sizes: Sizes) -> Iterator[Mapping]:
    wide = width_of(nest, made.known, tensors, sizes, False)
    teams: tuple[tuple[By, int, tuple[int, ...]], ...] = (("warp", WARP, (1, 4, WARP)), ("block", MOST, (WARP, 2 * WARP)))
    held = held_in_registers(nest)
    for by, most, choices in teams[1:] if uneven(nest) else teams:
        for vector, beside in dict.fromkeys([(wide.vector, wide.beside), (1, frozenset())]):
            vectors = -(-widest(nest, sizes) // vector)
            for team in choices:
                yield Mapping(by, vector, beside, team=team)
                yield Mapping(by, vector, beside, team=team, turns=2)
                if not uneven(nest) and vectors <= 4 * team:
                    yield Mapping(by, vector, beside, team=team, turns=4, once=True)
            for chunks in CHUNKS if held else ():
                if vectors <= most * chunks:
                    team = -(-vectors // chunks)
                    team = 1 << (team - 1).bit_length() if by == "warp" else -(-team // WARP) * WARP
                    yield Mapping(by, vector, beside, chunks, team=team)
                    if team * chunks * vector == longest(nest, sizes):
                        yield Mapping(by, vector, beside, chunks, whole=True, team=team)
    cut = pieces(nest, made.known, tensors, sizes, wide) if held else None
    if cut is not None:
        vectors = -(-widest(nest, sizes) // wide.vector)
        for blocks in (1, 2, 4, 8):
            for team in (WARP, 2 * WARP):
                least = -(-vectors // (blocks * team))
                for chunks in (least, least + 1):
                    smaller = replace(cut, blocks=blocks, chunks=chunks, stages=1 + (blocks + chunks) % 3)
                    whole = blocks * chunks * team == vectors
                    yield Mapping("cluster", wide.vector, wide.beside, whole=whole, team=team, pieces=smaller)
                    if chunks < 8:
                        held = replace(smaller, reads=frozenset())
                        yield Mapping("cluster", wide.vector, wide.beside, chunks, whole, team=team, pieces=held)


# ── running them ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Case:
    """Kernels with tensors for their arguments. `tensors` says how all of them lie, each in a range of addresses of its own."""

    made: Executable
    arrays: list[Any]
    sizes: Sizes
    tensors: Tensors

    @property
    def todo(self) -> list[Nest]:
        return [kernel for kernel in self.made.kernels if isinstance(kernel, Nest) and not is_empty(kernel, self.sizes)]


def case(made: Executable, size: tuple[int, int], *, seed: int = 0, layout: Layout | None = None) -> Case:
    """Random arguments. A layout gives strides for those of rank 2, and how far behind an aligned address they begin."""
    chance = np.random.default_rng(seed)
    wanted = dict(zip(("n", "d"), size, strict=True))
    symbols = {s for v in made.program.inputs for d in v.shape for s in d.variables} | set(made.program.explicit)
    sizes = {s: wanted[s.name] for s in symbols}
    arrays = []
    tensors: Tensors = {}
    for number, value in enumerate(made.values):
        shape = tuple(max(0, d.evaluate(sizes)) for d in value.shape)
        pointer = (number + 1) << 40
        tensors[value.symbol] = contiguous(pointer, shape, value.element)
        if value in made.program.inputs:
            x = chance.standard_normal(shape) if value.element.is_float else chance.integers(-100, 100, shape)
            arrays.append(x.astype(value.element.dtype))
            if len(shape) == 2 and layout is not None:
                strides, skipped = layout(*size)
                arrays[-1][...] = arrays[-1][:1] if strides[0] == 0 else arrays[-1]
                pointer += skipped * value.element.dtype.itemsize
                tensors[value.symbol] = Tensor(pointer, shape, strides, value.element)
    return Case(made, arrays, sizes, tensors)


def admitted(given: Case) -> bool:
    """Whether the program's contract has these sizes: a maximum is of at least one."""
    program = given.made.program
    try:
        program.contract.bind([given.sizes[s] for s in program.explicit], [x.shape for x in given.arrays])
    except ContractBroken:
        return False
    return True


def form(given: Case, nest: Nest, mapping: Mapping) -> tuple[Emitted, Grid]:
    """A kernel and its launch; one that takes rows in turn with so few blocks that it has several rows."""
    ready = variants.prepare(nest, given.made.known, given.tensors, given.sizes)
    source = variants.forms(ready, variants.Variant(mapping, ""), given.made.known).source
    launched = grid(mapping, nest, given.sizes)
    if mapping.persistent:
        launched = replace(launched, blocks=min(launched.blocks, 2 * mapping.pieces.blocks))
    return source, launched


def emulated(given: Case, kernels: Sequence[tuple[Emitted, Grid]], chance: random.Random) -> list[Any] | None:
    """The results; None where a kernel noted that the program must stop."""
    storages = {symbol: Storage(tensor) for symbol, tensor in given.tensors.items()}
    for value, array in zip(given.made.program.inputs, given.arrays, strict=True):
        storages[value.symbol].put(array)
    status = Storage(contiguous(1 << 60, (1,), Element.I32), anyone=True)
    status.put(np.zeros(1, np.int32))
    for source, launched in kernels:
        launch(source, launched, storages, status, given.sizes, chance)
    return None if status.get()[0] else [storages[symbol].get() for symbol in given.made.program.block.results]


def expected(given: Case) -> list[Any] | None:
    try:
        return interpret(given.made.program, given.arrays, [given.sizes[s] for s in given.made.program.explicit])
    except AxonError:
        return None


def compare(given: Case, mappings: Sequence[Mapping], want: list[Any] | None, seed: int = 0) -> None:
    kernels = [form(given, nest, mapping) for nest, mapping in zip(given.todo, mappings, strict=True)]
    shapes = [array.shape for array in given.arrays]
    try:
        got = emulated(given, kernels, random.Random(seed))
        assert (got is None) == (want is None)
        tolerance = max((TOLERANCE.get(v.element, 0) for v in given.made.program.inputs), default=0)
        for mine, theirs in zip(got or (), want or (), strict=True):
            assert mine.dtype == theirs.dtype
            wide = theirs.astype(np.float64)
            scale = max(1.0, float(np.abs(wide[np.isfinite(wide)]).max(initial=0)))
            np.testing.assert_allclose(mine.astype(np.float64), wide, atol=tolerance * scale, rtol=0)
    except Exception as failure:
        failure.add_note("\n".join([f"of {shapes}, {given.tensors}", *(source.text for source, _ in kernels)]))
        raise


def choices(given: Case) -> list[list[Mapping]]:
    """So many choices for all kernels together that each mapping of each is among them."""
    each = [legal(nest, given.made, given.tensors, given.sizes) for nest in given.todo]
    return [[options[n % len(options)] for options in each] for n in range(max(map(len, each), default=1))]


def try_all(source: str, name: str, element: str, layout: Layout | None = None, sampled: int = 5) -> None:
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


def threads(given: Case, mappings: Sequence[Mapping]) -> int:
    grids = (grid(mapping, nest, given.sizes) for nest, mapping in zip(given.todo, mappings, strict=True))
    return sum(g.blocks * g.threads for g in grids)


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_floats(name: str, element: str) -> None:
    try_all(SOURCE, name, element)


@pytest.mark.parametrize("name", WHOLE)
def test_integers(name: str) -> None:
    for element in ("i32", "i64") if SOAK else ("i32",):
        try_all(INTEGERS, name, element)


@pytest.mark.parametrize("name", ["peaks", "first", "best", "worst"])
def test_what_changes_is_not_taken_as_known(name: str) -> None:
    """Turns of a loop that are written one after the other: a condition on the accumulators is another one in each."""
    given = case(executable(SOURCE, name, "f32"), (9, 9), seed=1)
    compare(given, [Mapping("lanes")], expected(given))


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
        mappings = [m for nest in given.todo for m in legal(nest, made, given.tensors, given.sizes) if m.pieces is not None]
        assert len(given.todo) == 1
        assert mappings
        few = random.Random(seed).sample(mappings, 2) + [m for m in mappings if m.whole][:2]
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
    for seed in (*range(part, GENERATED, 4), *FOUND[part::4]):
        whole, arrays = Generator(random.Random(seed)).program()
        straight = parts(whole).straight
        if straight is None:
            continue
        made = Executable(straight, plain=frozenset(out.symbol for op in straight.block.ops for out in op.outs))
        sizes = whole.contract.bind([], [x.shape for x in arrays])
        shapes = [tuple(max(0, d.evaluate(sizes)) for d in v.shape) for v in made.values]
        lying = enumerate(zip(made.values, shapes, strict=True), 1)
        tensors = {value.symbol: contiguous(n << 40, shape, value.element) for n, (value, shape) in lying}
        given = Case(made, arrays, sizes, tensors)
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
    names = {*ptx_scalar.__all__, *ptx_pieces.__all__}
    for name in names:
        assert name in TOGETHER or callable(block.intrinsic(name)) or isinstance(block.intrinsic(name), float)
    assert names >= set(LIFTED) | TOGETHER


def run_changed(name: str, size: tuple[int, int], by: str, chunks: int, change: Callable[[str], str]) -> None:
    """Run a program whose kernels' texts are changed."""
    given = case(executable(SOURCE, name, "f32"), size)
    kernels = []
    for nest in given.todo:
        ways = [m for m in legal(nest, given.made, given.tensors, given.sizes) if (m.by, m.chunks) == (by, chunks)]
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
    ways = legal(nest, given.made, given.tensors, given.sizes)
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
    kernels = [form(given, nest, legal(nest, made, given.tensors, given.sizes)[0]) for nest in given.todo]
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
        "from numba import cuda", "from axon.backend import ptx", f"from axon.backend.ptx_scalar import {', '.join(names)}",
        "shared_memory = ptx.shared_memory()", "def kernel():", "    thread = as_i64(cuda.threadIdx.x)",
        "    shared = as_i64(shared_memory())", f"    {line}",
    ])  # fmt: skip
    status = Storage(contiguous(256, (1,), Element.I32))
    with pytest.raises(Hazard, match=words):
        launch(Emitted(text, (), 64, 1, 8), Grid(1, 64), {}, status, {}, random.Random(0))


# ── text and machine code ───────────────────────────────────────────────────────────────────────────────────────────────


def texts(name: str, element: str, size: tuple[int, int]) -> list[Emitted]:
    given = case(executable(SOURCE, name, element), size)
    return [form(given, nest, legal(nest, given.made, given.tensors, given.sizes)[0])[0] for nest in given.todo]


@pytest.mark.parametrize(
    ("name", "element", "size"),
    [("softmax", "bf16", (64, 1024)), ("colsum", "f32", (4096, 64)), ("transpose", "f32", (256, 256)), ("cum", "f32", (64, 1024))],
)
def test_kernels_read_as_before(name: str, element: str, size: tuple[int, int]) -> None:
    """Set AXON_UPDATE_GOLDENS=1 to write what is printed now."""
    text = "\n".join(source.text for source in texts(name, element, size))
    file = GOLDENS / f"{name}.plain"
    if os.environ.get("AXON_UPDATE_GOLDENS"):
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
    ("softmax", "bf16", (64, 1024)),
    ("variance", "f64", (64, 256)),
    ("gelu", "f8e4m3", (64, 256)),
    ("anyall", "f16", (64, 256)),
]


def test_kernels_become_machine_code() -> None:
    """Every family of nests, and every class of element types: the compiler takes them, and nothing spills."""
    sources = [source for one in BUILT for source in texts(*one)]
    given = case(executable(INTEGERS, "sums", "i64"), (64, 256))
    sources += [form(given, nest, legal(nest, given.made, given.tensors, given.sizes)[0])[0] for nest in given.todo]
    for kernel in build.build_all([Plain(source) for source in sources], HOPPER):
        assert isinstance(kernel, build.Kernel)
        assert not kernel.spilled
