"""Generated core programs on a real GPU give what the interpreter gives, and stop where it stops, in its words.

All kernels are built together first. AXON_SOAK=1 takes 2,000 programs.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from axon.backend.gpu.build.cubin import build_all
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime import steps
from axon.backend.gpu.runtime.stepped_call import HostCall
from axon.backend.gpu.runtime.steps import Stepped
from axon.core.printer import print_program
from axon.core.verify import CoreInvalid
from axon.interpret import run
from tests.backend.gpu.oracle import NARROW, different, outcome
from tests.core.random_programs import Generator

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

PROGRAMS = int(os.environ.get("AXON_PROGRAMS", 2_000 if os.environ.get("AXON_SOAK") else 40))


def generated(seed: int) -> Any:
    program, inputs = Generator(Random(seed)).program()
    return program, inputs, program.contract.bind([], [x.shape for x in inputs])


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    """The kernels of all programs at once, so that they are built on all cores."""
    forms: list[Any] = []
    original = steps.build_all
    try:
        steps.build_all = lambda wanted, target: forms.extend(wanted) or []  # type: ignore[assignment, func-returns-value]
        for seed in range(PROGRAMS):
            program, _, sizes = generated(seed)
            Stepped(program).build(sizes)
    finally:
        steps.build_all = original
    build_all(forms, HOPPER)


@pytest.mark.parametrize("part", range(4))
def test_generated_programs(part: int) -> None:
    seen, wrong, rounded = set(), [], 0
    for seed in range(part, PROGRAMS, 4):
        program, inputs, sizes = generated(seed)
        try:
            want = outcome(run, program, inputs)
        except CoreInvalid:  # the generator reads outside a tensor without a check
            continue
        got = outcome(HostCall(Stepped(program), [x.copy() for x in inputs], sizes, None), inputs, None)
        why = different(got, want)
        text = print_program(program)
        if why and not different(got, want, max(error for name, error in (*NARROW.items(), ("", 0.0)) if name in text)):
            rounded += 1
        elif why:
            wrong.append(f"seed {seed}: {why}\n{text}")
        seen.add("stopped" if isinstance(want, tuple) else "equal")
    assert not wrong, f"{len(wrong)} programs differ\n" + "\n".join(wrong[:3])
    assert "equal" in seen
    assert rounded <= 1 + PROGRAMS // 400
