"""Generated core programs compute on the CPU backend what the interpreter computes, and stop where it stops, in the same words."""

import os
from random import Random

import numpy as np
import pytest

from axon.backend.cpu.executable import CpuExecutable
from axon.backend.cpu.run import run as call
from axon.backend.plan.fuse import Policy, fuse
from axon.backend.plan.ir import as_program, print_plan
from axon.backend.plan.verify import verify_plan
from axon.base.errors import AxonError
from axon.core.printer import print_program
from axon.core.verify import CoreInvalid, verify
from axon.interpret import run
from tests.core.random_programs import Generator

PROGRAMS = 2_000 if os.environ.get("AXON_SOAK") else 24
PLANS = 4_000 if os.environ.get("AXON_SOAK") else 100


def outcome(compute, *arguments):
    """What a program gives, or the diagnostics with which it stops."""
    try:
        return compute(*arguments)
    except AxonError as error:
        return error.diagnostics


def assert_same(program, expected, actual):
    text = print_program(program)
    if isinstance(expected, tuple) or isinstance(actual, tuple):
        assert actual == expected, text
        return
    for x, y in zip(actual, expected, strict=True):
        assert x.dtype == y.dtype, text
        assert x.shape == y.shape, text
        np.testing.assert_allclose(x.astype(float), y.astype(float), rtol=1e-5, atol=1e-6, err_msg=text)


def compare(seed):
    program, inputs = Generator(Random(seed)).program()
    try:
        expected = outcome(run, program, inputs)
    except CoreInvalid:  # the generator reads outside a tensor without a check: no backend has to notice
        return "invalid"
    given = [x.copy() for x in inputs]
    assert_same(program, expected, outcome(call, CpuExecutable(program), inputs))
    assert all(x.tobytes() == y.tobytes() for x, y in zip(inputs, given, strict=True)), "an argument was written"
    return "failed" if isinstance(expected, tuple) else "equal"


@pytest.mark.parametrize("part", range(8))
def test_random_programs(part):
    seeds = range(part, PROGRAMS, 8)
    outcomes = [compare(seed) for seed in seeds]
    assert "equal" in outcomes


@pytest.mark.parametrize("part", range(4))
def test_random_programs_in_small_blocks(part, small):
    for seed in range(10**6 + part, 10**6 + PROGRAMS // 2, 4):
        compare(seed)


@pytest.mark.parametrize("policy", [Policy(), Policy(epilogues=frozenset()), Policy(floats_only=False, share=False)])
def test_plans_mean_what_their_program_means(policy):
    for seed in range(2 * 10**6, 2 * 10**6 + PLANS):
        program, inputs = Generator(Random(seed)).program()
        plan = fuse(program, policy)
        verify_plan(plan)
        assert print_plan(plan).startswith("random: ")
        try:
            expected = outcome(run, program, inputs)
            assert_same(program, expected, outcome(run, as_program(plan), inputs))
        except CoreInvalid:
            continue


def test_dissolving_leaves_valid_core():
    from axon.core.passes.dissolve import dissolve

    for seed in range(3 * 10**6, 3 * 10**6 + PLANS):
        verify(dissolve(Generator(Random(seed)).program()[0]))
