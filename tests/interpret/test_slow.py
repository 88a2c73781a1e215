"""The interpreter against the plain one of core_slow.py, on random programs."""

import os
from random import Random

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from axon.base.errors import AxonError
from axon.core.printer import print_program
from axon.core.verify import CoreInvalid, verify
from axon.interpret import box, compute, run
from axon.interpret import products as contract
from tests.core.random_programs import Generator
from tests.interpret.slow import Fails, Slow

SOAK = 25 if os.environ.get("AXON_SOAK") else 1


def compare(seed: int, note=note) -> str:
    """Run one program in both interpreters; what became of it."""
    program, inputs = Generator(Random(seed)).program()
    note(print_program(program))
    note("\n".join(f"{v.symbol.name} = {x.tolist()}" for v, x in zip(program.inputs, inputs, strict=True)))
    verify(program)
    slow = Slow()
    try:
        with np.errstate(all="ignore"):
            expected = slow.run(program, inputs)
    except Fails as failure:
        with pytest.raises((AxonError, CoreInvalid)) as raised:
            run(program, inputs)
        codes = {d.code for d in raised.value.diagnostics} if isinstance(raised.value, AxonError) else {"bug"}
        note(f"{failure} against {codes}")
        return "failed"
    actual = run(program, inputs)
    assert len(actual) == len(expected)
    for value, x, y in zip(program.block.results, actual, expected, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        if not slow.inexact:
            same = (x == y) | ((x != x) & (y != y))
            assert same.all(), f"{value}: {x.tolist()} instead of {y.tolist()}"
    return "inexact" if slow.inexact else "equal"


@settings(max_examples=400 * SOAK, deadline=None)
@given(st.integers(0, 2**63))
def test_random_programs(seed):
    compare(seed)


@settings(max_examples=300 * SOAK, deadline=None)
@given(st.integers(0, 2**63), st.integers(1, 7))
def test_random_programs_in_small_blocks(seed, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compute, "points", lambda bodies: limit)
        patch.setattr(compute, "OPERAND", limit)
        patch.setattr(contract, "WORTHWHILE", 1)
        compare(seed)


def test_most_random_programs_are_compared_exactly():
    """Else the tests above would test less than they seem to."""
    outcomes = [compare(seed, note=lambda text: None) for seed in range(150)]
    assert outcomes.count("equal") > 100


def test_block_limits_are_the_ones_in_use():
    assert compute.points is box.points
    assert compute.OPERAND == box.OPERAND
