"""Large functions of NVIDIA's library in plain kernels, built for real: few calls are inlined, many go to one copy."""

from __future__ import annotations

import re
from typing import Any

import pytest

import axon
from axon import compiler
from axon.backend.gpu.build import cubin as build
from axon.backend.gpu.build.recipe import Forms
from axon.backend.gpu.intrinsics import ptx_calls
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.simt.mapping import plainest

pytestmark = pytest.mark.usefixtures("own_cache")
SIN = "sin ({0}.5 * x[i])"
POWER = "(x[i] + {0}.0) ** (x[i] * {0}.5)"
BOTH = "cos ({0}.5 * x[i]) * (x[i] ** {0}.25)"


def executable(text: str) -> tuple[Executable, dict[Any, int]]:
    program = compiler.lower(axon.compile(text)._session.checked, "f", None)
    return Executable(program), {s: 4096 for v in program.inputs for d in v.shape for s in d.variables}


def of(term: str, count: int, element: str = "f32") -> Forms:
    text = " + ".join(term.format(n) for n in range(1, count + 1))
    made, sizes = executable(f"fun f (x : {element}[n]) = for i => {text}")
    (wanted,) = made.wanted(sizes)
    return wanted.forms


def linked(forms: Forms) -> tuple[bytes, set[str]]:
    """Machine code, and the functions that it calls."""
    source = forms.source
    cubin, log = build._link(source, HOPPER)
    return cubin, set(re.findall(r"Function properties for (axon_\w+)", log))


@pytest.mark.parametrize(("term", "names"), [(SIN, {"axon_sinf"}), (POWER, {"axon_powf"}), (BOTH, {"axon_cosf", "axon_powf"})])
def test_many_calls_go_to_one_copy(term: str, names: set[str]) -> None:
    """Machine code of 60 terms is shorter than that of 8, and is linked in a fraction of the time."""
    few, none = linked(of(term, 8))
    many, called = linked(of(term, 60))
    assert (none, called) == (set(), names)
    assert len(many) < len(few)


def test_calls_of_all_functions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two functions, four times each, for four neighbours."""
    forms = of(BOTH, 4)
    for often, names in ((31, {"axon_cosf", "axon_powf"}), (32, set())):
        monkeypatch.setattr(ptx_calls, "OFTEN", often)
        assert linked(forms)[1] == names


@pytest.mark.parametrize(("term", "count", "element"), [(SIN, 60, "f32"), (POWER, 60, "f32"), (SIN, 1, "f64"), (POWER, 3, "f64")])
def test_what_a_call_keeps_in_memory_is_no_spill(term: str, count: int, element: str) -> None:
    """The mapping that suits the sizes is taken, not the one that may spill."""
    text = " + ".join(term.format(n) for n in range(1, count + 1))
    made, sizes = executable(f"fun f (x : {element}[n]) = for i => {text}")
    (plan,) = made.plans(made.planned.lying(sizes), sizes).values()
    assert plan.mapping != plainest(plan.kernel)
    assert plan.built.spilled == 0
