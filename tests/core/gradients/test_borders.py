"""Adjoints of what is read around its ends, or behind a border that is repeated: gathers, and those of the read."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from axon import compiler
from axon.core.ir import Compute, Program
from axon.core.operation_count import flops
from axon.interpret import run
from tests.checked import checked
from tests.sample import SOAK

TURNED = ["({i} + {a}) % {n}", "({i} - {a}) % {n}", "(q - {i}) % {n}", "({i} + 2 * q - {a}) % {n}", "({i} + {n} - q) % {n}"]
CLAMPED = [
    "min ({i} + {a}) ({n} - 1)",
    "max ({i} - {a}) 0",
    "max 0 (min ({i} + q - 1) ({n} - 1))",
    "min ({n} - 1) (max 0 ({i} - q))",
    "max 0 (min ({i} + 1) ({n} - 1) - q)",
]
ODD = ["min (2 * {i}) ({n} - 1)", "(2 * {i}) % {n}", "min {i} q", "({i} * q) % {n}", "min ({n} - 1) (max q ({i} / 2))"]


def of(first: str, second: str, fewer: int) -> Program:
    """What a matrix gets from one read of it, of `y`: with the read itself."""
    text = f"""
fun both (x : f64[n, m]) (y : f64[n, m]) where n >= 4, m >= 4 = vjp
  (fn x => for i < n - {fewer}, j < m => sum for q < 3 => x[{first}, {second}] * (1.0 + cast f64 q)) x
  (for i < n - {fewer}, j => y[i, j])
"""
    return compiler.lower(checked(text), "both", None)


def written(random: Random, forms: list[str], index: str, size: str) -> str:
    return random.choice(forms).format(i=index, n=size, a=random.randint(0, 3))


@pytest.mark.parametrize("seed", range(300 if SOAK else 25))
def test_an_adjoint_is_that_of_the_read(seed: int) -> None:
    random, normal = Random(seed), np.random.default_rng(seed)
    forms = [*TURNED, *CLAMPED, *ODD]
    first, second, fewer = written(random, forms, "i", "n"), written(random, forms, "j", "m"), random.randint(0, 1)
    n, m = random.randint(4, 6), random.randint(4, 6)
    x, y = normal.standard_normal((n, m)), normal.standard_normal((n, m))
    value, by = run(of(first, second, fewer), [x, y])
    np.testing.assert_allclose(np.vdot(value, y[: n - fewer]), np.vdot(by, x), rtol=1e-9, atol=1e-9, err_msg=f"{first}, {second}")


@pytest.mark.parametrize("form", [*TURNED, *CLAMPED])
def test_it_takes_time_as_the_read_does(form: str) -> None:
    """Not a sum over all indices for each."""
    program = of(form.format(i="i", n="n", a=2), "j", 0)
    sizes = {"n": 1000, "m": 1000}
    dims = {symbol: sizes[symbol.name] for symbol in program.contract.determined()}
    counts = [flops(op).evaluate(dims) for op in program.block.ops if isinstance(op, Compute)]
    assert max(counts) < 100 * 1000 * 1000
