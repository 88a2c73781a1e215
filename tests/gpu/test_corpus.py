"""Every accepted program of the corpus gives on a real GPU what the interpreter gives, and the library's examples what they say."""

from __future__ import annotations

from typing import Any

import pytest

from axon.backend.gpu.build.cubin import build_all
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime import steps
from axon.backend.gpu.runtime.stepped_call import HostCall
from axon.backend.gpu.runtime.steps import Stepped
from axon.checker.loader import FileLoader, library_modules, stdlib_root
from axon.core.printer import print_program
from axon.core.verify import CoreInvalid
from axon.interpret import run
from axon.tools.commands.doctest import run_file
from tests.backend.gpu.oracle import corpus, different, outcome

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)


@pytest.mark.parametrize("name", library_modules())
def test_examples_of_the_library(name: str) -> None:
    done = run_file(FileLoader(), str(stdlib_root() / f"{name}.axon"), target="cuda")
    assert not done.failures
    assert done.passed


def test_the_accepted_programs() -> None:
    """All kernels are built together first."""
    wanted = corpus()
    forms: list[Any] = []
    original = steps.build_all
    try:
        steps.build_all = lambda made, target: forms.extend(made) or []  # type: ignore[assignment, func-returns-value]
        stepped = {name: Stepped(program) for name, (program, _) in wanted.items()}
        for name, (_, (_, _, sizes)) in wanted.items():
            stepped[name].build(sizes)
    finally:
        steps.build_all = original
    build_all(forms, HOPPER)
    wrong, equal = [], 0
    for name, (program, (explicit, inputs, sizes)) in wanted.items():
        try:
            want = outcome(run, program, inputs, explicit)
        except CoreInvalid:
            continue
        got = outcome(lambda: HostCall(stepped[name], [x.copy() for x in inputs], sizes, None)(inputs, None))  # noqa: B023
        why = different(got, want)
        if why:
            wrong.append(f"{name}: {why}\n{print_program(program)}")
        equal += not isinstance(want, tuple)
    assert not wrong, f"{len(wrong)} of {len(wanted)} programs differ\n" + "\n".join(wrong[:5])
    assert equal > 0.9 * len(wanted)
