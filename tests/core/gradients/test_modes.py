"""Derivatives of random programs: the two modes against each other, and against differences of the program itself."""

from __future__ import annotations

import os
from random import Random

from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from axon.core.printer import print_program
from tests.core.gradients.random_programs import Smooth, agree, slopes, slopes_of_slopes

COUNT = 20_000 if os.environ.get("AXON_SOAK") else 300  # of which about a quarter have a derivative
TWICE = 1_000 if os.environ.get("AXON_SOAK") else 60  # of which about a quarter have a second one


@settings(max_examples=COUNT, deadline=None)
@given(st.integers(0, 2**63))
@example(40276)  # the range of one reduced axis depends on what another is solved by
def test_random_programs(seed: int) -> None:
    program, inputs = Smooth(Random(seed)).program()
    note(print_program(program))
    found = slopes(program, inputs, seed=seed % 2**32)
    if found is not None:
        agree(found)


@settings(max_examples=TWICE, deadline=None)
@given(st.integers(0, 2**63))
@example(3000338)  # what a condition guards is read where there is none
def test_second_derivatives_of_random_programs(seed: int) -> None:
    program, inputs = Smooth(Random(seed)).program()
    note(print_program(program))
    found = slopes_of_slopes(program, inputs, seed=seed % 2**32)
    if found is not None:
        agree(found)
