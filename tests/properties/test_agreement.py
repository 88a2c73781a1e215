"""Generated programs mean the same on every target: interpreter, CPU backend and, for contractions and streams, simulator."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings

from axon import compiler
from axon.base.errors import AxonError
from axon.host.call import Session
from tests.properties.falsified import falsified
from tests.properties.kernels_made import Kernel, kernels
from tests.properties.programs import Program, leaves, programs

EXAMPLES = 2_000 if os.environ.get("AXON_SOAK") else 40
SIMULATED = 400 if os.environ.get("AXON_SOAK") else 5
QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=False)

pytestmark = pytest.mark.usefixtures("module_cache")


def outcome(session: Session, program: Program, target: str) -> Any:
    """The result, or the codes of the errors."""
    arguments = deepcopy(program.arguments)
    try:
        result = session.call(session.callee("main"), program.explicit, arguments, target=target, numbers=False)
    except AxonError as error:
        return [d.code for d in error.diagnostics]
    pairs = zip(leaves(arguments), leaves(program.arguments), strict=True)
    assert all(a.tobytes() == b.tobytes() for a, b in pairs), "an argument was written"
    return result


def agree(expected: Any, actual: Any, path: str = "result") -> None:
    """Same structure, shapes and element types; equal integers, floats within rounding."""
    assert type(expected) is type(actual), f"{path}: {expected} and {actual}"
    match expected:
        case tuple() | list():
            assert len(expected) == len(actual), path
            for n, (a, b) in enumerate(zip(expected, actual, strict=True), 1):
                agree(a, b, f"{path}.{n}")
        case dict():
            assert expected.keys() == actual.keys(), path
            for name, part in expected.items():
                agree(part, actual[name], f"{path}.{name}")
        case str():
            assert expected == actual, path
        case _:
            a, b = np.asarray(expected), np.asarray(actual)
            assert (a.dtype, a.shape) == (b.dtype, b.shape), path
            if a.dtype.kind in "biu":
                np.testing.assert_array_equal(b, a, path)
            else:
                narrow = a.dtype.itemsize < 4
                a, b = a.astype(np.float64), b.astype(np.float64)
                scale = np.abs(a[np.isfinite(a)]).max(initial=1.0)
                rtol = {1: 0.25, 2: 1e-2}.get(np.asarray(expected).dtype.itemsize, 1e-4)
                np.testing.assert_allclose(b, a, rtol, (rtol if narrow else 1e-5) * scale, err_msg=path)


@settings(QUIET, max_examples=EXAMPLES)
@given(programs())
def test_the_cpu_backend_agrees_with_the_interpreter(program: Program) -> None:
    session = Session(compiler.check_text(program.text))
    try:
        agree(outcome(session, program, "interpret"), outcome(session, program, "cpu"))
    except Exception as error:
        path = falsified("cpu", program.text, program.arguments, program.explicit)
        raise AssertionError(f"{path}\n{program.text}{error}") from error


# Shrinking costs minutes of simulation: only in the soak.
@settings(QUIET, max_examples=SIMULATED, phases=list(Phase) if EXAMPLES > 100 else [Phase.explicit, Phase.generate])
@given(kernels())
def test_the_simulator_and_the_cpu_backend_agree_with_the_interpreter(kernel: Kernel) -> None:
    session = Session(compiler.check_text(kernel.text))
    try:
        callee = session.callee("main")
        exact, compiled, simulated = (
            np.asarray(session.call(callee, (), kernel.arguments, target=target), np.float64)
            for target in ("interpret", "cpu", "simulate")
        )
        for name, got in (("cpu", compiled), ("simulate", simulated)):
            assert got.shape == exact.shape, name
            scale = np.abs(exact[np.isfinite(exact)]).max(initial=1e-30)
            both = np.isnan(got) & np.isnan(exact)
            difference = np.abs(np.where(both, 0.0, got - exact)).max(initial=0.0)
            assert difference <= kernel.tolerance * scale, f"{name}: off by {difference:.2g} of {scale:.2g}"
    except AxonError as error:
        if {d.code for d in error.diagnostics} != {"AX0603"}:
            raise
        reject()  # the GPU backend says that it has no kernel for this layout
    except Exception as error:
        path = falsified("simulate", kernel.text, kernel.arguments)
        raise AssertionError(f"{path}\n{kernel.text}{error}") from error
