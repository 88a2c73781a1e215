"""Generated core programs, in parts on a played device, give what the interpreter gives, and stop where it stops, in its words."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from axon.backend.gpu.runtime import algorithms, failures, stepped_call, steps
from axon.backend.gpu.runtime import executable as runtime
from axon.backend.gpu.runtime.steps import Stepped
from axon.base.errors import AxonError
from axon.core.passes.parts import parts
from axon.core.printer import print_program
from axon.core.verify import CoreInvalid
from axon.interpret import run
from tests.backend.gpu.runtime.parted import PlayedDriver, PlayedExecutable, built, small
from tests.backend.gpu.simt.plain_cases import choices, compare, expected, plain, side_by_side
from tests.core.random_programs import Generator

SOAK = bool(os.environ.get("AXON_SOAK"))
PROGRAMS = 2_000 if SOAK else 160


def outcome(compute: Any, *arguments: Any) -> Any:
    """What a program gives, or the diagnostics with which it stops."""
    try:
        return compute(*arguments)
    except AxonError as error:
        return error.diagnostics


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> PlayedDriver:
    made = PlayedDriver()
    for module in (runtime, stepped_call, failures):
        monkeypatch.setattr(module, "driver", lambda: made)
    monkeypatch.setattr(steps, "Executable", PlayedExecutable)
    for module in (algorithms, steps):
        monkeypatch.setattr(module, "build_all", built)
    monkeypatch.setattr(failures, "_free", [])
    small(monkeypatch)
    return made


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int, cuda: PlayedDriver) -> None:
    seen = set()
    for seed in range(part, PROGRAMS, 4):
        program, inputs = Generator(Random(seed)).program()
        try:
            want = outcome(run, program, inputs)
        except CoreInvalid:  # the generator reads outside a tensor without a check
            continue
        sizes = program.contract.bind([], [x.shape for x in inputs])
        given = [x.copy() for x in inputs]
        call = stepped_call.HostCall(Stepped(program), given, sizes, None)
        got = outcome(call, given, None)
        text = print_program(program)
        if isinstance(want, tuple) or isinstance(got, tuple):
            assert got == want, text
            seen.add("stopped")
            continue
        seen.add("equal")
        for x, y in zip(got, want, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape), text
            assert x.tobytes() == y.tobytes(), text
        assert not cuda.held or all(size >= 4096 for size in map(len, cuda.held.values())), "device memory is left"
    assert "equal" in seen


@pytest.mark.parametrize("part", range(4))
def test_kernels_of_parts(part: int, cuda: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels between loops, sorts and the like, thread by thread, at the last arguments that each was launched with."""
    monkeypatch.setattr(PlayedExecutable, "given", {})
    seen = set()
    for seed in range(part, PROGRAMS, 4):
        program, inputs = Generator(Random(seed)).program()
        if parts(program).straight is not None:
            continue
        PlayedExecutable.given.clear()
        sizes = program.contract.bind([], [x.shape for x in inputs])
        try:
            outcome(stepped_call.HostCall(Stepped(program), inputs, sizes, None), inputs, None)
        except CoreInvalid:  # the generator reads outside a tensor without a check
            continue
        for straight, (arrays, own) in PlayedExecutable.given.items():
            given = side_by_side(plain(straight), arrays, own)
            want = expected(given)
            for k, mappings in enumerate(choices(given)[: 4 if SOAK else 2]):
                compare(given, mappings, want, seed=k)
            seen.add(want is None)
    assert False in seen
