"""Generated core programs as plain kernels, run thread by thread, compute what the interpreter computes, and stop where it stops."""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest
from core_random import Generator

from axon import AxonError
from axon.backend.memory import contiguous
from axon.backend.plan import Nest
from axon.backend.runtime import Executable
from axon.backend.simt import variants
from axon.core import Compute, Scan
from axon.core_print import print_program
from axon.core_verify import CoreInvalid
from axon.interpret import run
from tests.backend.test_simt import Case, emulated, form

PROGRAMS = 2_000 if os.environ.get("AXON_SOAK") else 40
FOUND = (36, 54, 91, 183, 300, 533)  # what once went wrong: teams that part, nothing to split, extremes of nothing, ragged lanes
# What a kernel that rounds once may be off where the interpreter rounds each operation, relative and absolute.
TOLERANCE = {"f32": 1e-5, "f64": 1e-9, "bf16": 2e-2, "f16": 3e-3, "f8e4m3": 0.15, "f8e5m2": 0.3}


def compare(seed: int) -> str:
    program, inputs = Generator(Random(seed)).program()
    if not all(isinstance(op, Compute | Scan) for op in program.block.ops):
        return "in parts"
    try:
        want = run(program, inputs)
    except AxonError:
        want = None
    except CoreInvalid:  # the generator reads outside a tensor without a check: no backend has to notice
        return "invalid"
    made = Executable(program)
    if not all(isinstance(kernel, Nest) for kernel in made.kernels):
        return "with products"
    sizes = program.contract.bind((), [x.shape for x in inputs])
    tensors = {
        value.symbol: contiguous((number + 1) << 40, tuple(max(0, d.evaluate(sizes)) for d in value.shape), value.element)
        for number, value in enumerate(made.values)
    }
    given = Case(made, inputs, sizes, tensors)
    kernels = []
    for nest in given.todo:
        ready = variants.prepare(nest, made.known, tensors, sizes)
        kernels.append(form(given, nest, variants.Choices().pick(ready, sizes).mapping))
    got = emulated(given, kernels, Random(seed))
    text = print_program(program)
    assert (got is None) == (want is None), text
    for mine, theirs, symbol in zip(got or (), want or (), program.block.results if got else (), strict=True):
        tolerance = TOLERANCE.get(made.known[symbol].element.value, 0)
        np.testing.assert_allclose(mine.astype(float), theirs.astype(float), rtol=tolerance, atol=tolerance, err_msg=text)
    return "stops" if want is None else "equal"


@pytest.mark.parametrize("part", range(4))
def test_generated_programs(part: int) -> None:
    outcomes = [compare(seed) for seed in range(part, PROGRAMS, 4)]
    assert "equal" in outcomes


@pytest.mark.parametrize("seed", FOUND)
def test_what_once_went_wrong(seed: int) -> None:
    assert compare(seed) in ("equal", "stops")
