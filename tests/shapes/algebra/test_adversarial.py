"""Systems made to hurt: answered in bounded time, and never wrongly. The cases are those of `benchmarks/shapes.py`."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from tests import ROOT
from tests.clock import within

GENEROUS = 2.5  # times the benchmark's target, for machines that do other things as well


def _benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_of_shapes", ROOT / "benchmarks" / "shapes.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SHAPES = _benchmark()
CASES = [*SHAPES.programs(), *SHAPES.systems()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_is_answered_rightly_and_soon(case) -> None:  # type: ignore[no-untyped-def]
    assert within(GENEROUS * SHAPES.ADVERSARY_TARGET, case.run) in case.right


def test_five_thousand_equations_of_layers() -> None:
    equations, unknown, facts = SHAPES.layers(5_000)
    solution = within(GENEROUS * SHAPES.CONSTRAINTS_TARGET, lambda: SHAPES.solved(equations, unknown, facts))
    assert SHAPES.outcome(solution) == "solved"
    assert not solution.conditions  # that h divides d, and 2 divides n, is stated
