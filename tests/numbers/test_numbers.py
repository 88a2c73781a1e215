"""Generated programs of all element types give on every target what Python's integers and intervals of rationals say.

AXON_SOAK=1 takes 2,000 programs on each.
"""

from __future__ import annotations

import os
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.numbers import tree as t
from tests.numbers.agree import Tally, agree, meaning, outcome, programs, verdict
from tests.numbers.formats import DTYPES, ELEMENTS, FLOATS, WHOLE
from tests.numbers.make import EXACT, FUNCTIONS, Maker, make
from tests.oracle.soak import emulation

SOAK = bool(os.environ.get("AXON_SOAK"))
PROGRAMS, COMPILED, EMULATED, SHRUNK = (2_000, 2_000, 2_000, 200) if SOAK else (40, 16, 30, 10)
PARTS = 10 if SOAK else 1

pytestmark = pytest.mark.usefixtures("module_cache")


def hold(tally: Tally) -> None:
    """Nothing differs, and the oracle knew what it compared."""
    assert not tally.found, f"{len(tally.found)} programs differ\n" + "\n\n".join(tally.found[:3])
    assert tally.counts["unsure"] * 10 <= tally.counts["programs"] or tally.counts["programs"] < 20
    assert tally.counts["known"] >= 0.8 * tally.counts["elements"]


@pytest.mark.parametrize("part", range(PARTS))
def test_interpreted(part: int) -> None:
    hold(agree(programs(part * PROGRAMS // PARTS, PROGRAMS // PARTS), "interpret"))


@pytest.mark.parametrize("part", range(PARTS))
def test_compiled(part: int) -> None:
    hold(agree(programs(part * COMPILED // PARTS, COMPILED // PARTS), "cpu"))


@pytest.mark.parametrize("part", range(PARTS))
def test_on_an_emulated_gpu(part: int) -> None:
    with emulation():
        hold(agree(programs(10**6 + part * EMULATED // PARTS, EMULATED // PARTS), "cuda"))


@settings(max_examples=SHRUNK, deadline=None, suppress_health_check=list(HealthCheck), print_blob=False)
@given(st.randoms(use_true_random=False))
def test_small_programs(random: Random) -> None:
    """Hypothesis draws the choices here, so that it finds a small program where one differs."""
    program = Maker(random).program()
    why = verdict(program, meaning(program), outcome(program, "interpret"))
    assert not why, f"{why}\n{program}"


def test_every_element_type_and_function_is_generated() -> None:
    seen: set[str] = set()
    for seed in range(600):
        for node in t.nodes((make(seed).body, make(seed).functions)):
            seen.add(type(node).__name__)
            if isinstance(node, t.Apply):
                seen.add(node.op)
            if isinstance(node, t.Cast) and isinstance(node.value.type, t.Tensor) and isinstance(node.type, t.Tensor):
                seen |= {f"cast {node.type.element}", f"cast from {node.value.type.element}"}
            if isinstance(node, t.Loop) and node.condition is not None:
                seen.add("while")
            if isinstance(node, t.Each):
                seen.add("fold_leaves" if node.unit is not None else "each")
    wanted = {*FUNCTIONS, *EXACT, "bit_and", "bit_or", "bit_xor", "bit_not", "shift_left", "shift_right", "/", "%", "**", "@"}
    wanted |= {f"cast {e}" for e in ELEMENTS} | {f"cast from {e}" for e in ELEMENTS}
    wanted |= {kind.__name__ for kind in t.Expr.__subclasses__()} | {"while", "each", "fold_leaves"}
    assert not wanted - seen


@pytest.mark.parametrize("name", FLOATS)
def test_formats_round_as_numpy_does(name: str) -> None:
    """The rounding by hand, beside NumPy's from f64."""
    chance = np.random.default_rng(1)
    values = [*chance.standard_normal(200), *np.exp(chance.uniform(-20.0, 20.0, 200)), 448.0, 464.0, 465.0, 65519.0, 65520.0]
    with np.errstate(all="ignore"):
        theirs = np.array(values).astype(DTYPES[name]).astype(np.float64)
    np.testing.assert_array_equal([FLOATS[name].nearest(Fraction(float(x))) for x in values], theirs)


@pytest.mark.parametrize("name", WHOLE)
def test_integers_wrap_as_numpys_do(name: str) -> None:
    values = np.random.default_rng(2).integers(-(2**63), 2**63, 100)
    np.testing.assert_array_equal([WHOLE[name].wrapped(int(x)) for x in values], values.astype(DTYPES[name]))
