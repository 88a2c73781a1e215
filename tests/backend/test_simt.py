"""Plain kernels without a GPU: their text is run thread by thread (see `emulate`) and compared with the interpreter.

Every kernel is run as it would be launched, and then in every other way in which it may be spread over threads.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from axon import AxonError, compiler
from axon.backend.emit import Emitted
from axon.backend.memory import Tensor, contiguous
from axon.backend.parts import parts
from axon.backend.plan import Nest
from axon.backend.prepare import is_empty
from axon.backend.runtime import Executable
from axon.backend.simt import variants
from axon.backend.simt.access import held_in_registers, uniform, width_of
from axon.backend.simt.mapping import CHUNKS, MOST, WARP, By, Grid, Mapping, grid, nest_sweeps, plainest, widest
from axon.backend.simt.tiles import across
from axon.core import Program
from axon.element import Element
from axon.interpret import run as interpret
from axon.names import Symbol
from tests.backend.emulate import Storage, launch
from tests.backend.plain_programs import INTEGERS, NAMES, SOURCE, WHOLE

SOAK = bool(os.environ.get("AXON_SOAK"))
SIZES = ((2, 16), (5, 37), (1, 1), (3, 64), (70, 8), (2, 264))
TOLERANCE = {Element.F32: 2e-5, Element.BF16: 3e-2, Element.F16: 4e-3, Element.F64: 1e-12, Element.F8E4M3: 0.2}
Sizes = dict[Symbol, int]
Tensors = dict[Symbol, Tensor]


@cache
def program(source: str, name: str, element: str) -> Program:
    lowered = compiler.lower(compiler.check_text(source.replace("T[", element + "[")), name, None)
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
    if nest_sweeps(nest):
        found += list(_by_rows(nest, made, tensors, sizes))
    return list(dict.fromkeys(found))


def _by_rows(nest: Nest, made: Executable, tensors: Tensors, sizes: Sizes) -> Iterator[Mapping]:
    wide = width_of(nest, made.known, tensors, sizes, False)
    teams: tuple[tuple[By, int], ...] = (("warp", WARP), ("block", MOST))
    for by, team in teams:
        for vector, beside in dict.fromkeys([(wide.vector, wide.beside), (1, frozenset())]):
            yield Mapping(by, vector, beside)
            vectors = -(-widest(nest, sizes) // vector)
            for chunks in CHUNKS if held_in_registers(nest) else ():
                if vectors <= team * chunks:
                    held = Mapping(by, vector, beside, chunks)
                    yield held
                    if grid(held, nest, sizes).team * chunks == vectors and widest(nest, sizes) % vector == 0:
                        yield replace(held, whole=True)


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


def case(made: Executable, size: tuple[int, int], *, seed: int = 0, strides: Sequence[int] = (), skipped: int = 0) -> Case:
    """Random arguments. Those of rank 2 may lie with other strides, the first element so far behind an aligned address."""
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
            if len(shape) == 2 and strides:
                pointer += skipped * value.element.dtype.itemsize
                tensors[value.symbol] = Tensor(pointer, shape, tuple(strides), value.element)
    return Case(made, arrays, sizes, tensors)


def form(given: Case, nest: Nest, mapping: Mapping) -> tuple[Emitted, Grid]:
    ready = variants.prepare(nest, given.made.known, given.tensors, given.sizes)
    source = variants.forms(ready, variants.Variant(mapping, ""), given.made.known).source
    return source, grid(mapping, nest, given.sizes)


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


def try_all(source: str, name: str, element: str, layouts: Sequence[MappingOf[str, Any]] = ({},)) -> None:
    """With AXON_SOAK, every mapping at every size; else each at one size, taken in turn."""
    made = executable(source, name, element)
    cases = [case(made, size, seed=n, **layout) for n, size in enumerate(SIZES) for layout in layouts]
    wanted = [expected(given) for given in cases]
    first = random.Random(name + element).randrange(len(cases))
    for n, given in enumerate(cases):
        for k, mappings in enumerate(choices(given)):
            if SOAK or ((first + k) % len(cases) == n and threads(given, mappings) <= 2048):
                compare(given, mappings, wanted[n], seed=k)


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
