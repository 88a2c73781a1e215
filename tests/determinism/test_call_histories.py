"""Random programs give the same bits in every history: at sizes in several orders, again, and each alone in a module of its own.

The default target interprets small calls and compiles large ones; nothing that came before decides which. `AXON_SOAK=1` takes 300
programs, else 12.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import axon
from tests.oracle.generate import Generator

PROGRAMS, PARTS = (300, 10) if "AXON_SOAK" in os.environ else (12, 1)
HISTORIES = ([0], [2], [1, 0, 2, 1], [2, 1, 0])  # which sizes are called, one after the other

pytestmark = pytest.mark.usefixtures("module_cache")


def _program(seed: int) -> tuple[str, list[tuple[Any, ...]]]:
    """A program's text, and arguments of three sizes: those that it was made for, some more, and many more."""
    generator = Generator(seed)
    program = generator.program()
    kinds = [kind for _, kind in generator.vars[: len(program.arguments)]]
    given = [program.arguments]
    for factor, more in ((1, 1), (6, 5)):
        generator.sizes = {name: factor * size + more for name, size in generator.sizes.items()}
        given.append(tuple(map(generator.data, kinds)))
    return program.text, given


def _bits(value: Any) -> Any:
    match value:
        case tuple():
            return tuple(map(_bits, value))
        case dict():
            return {name: _bits(part) for name, part in value.items()}
        case _:
            array = np.asarray(value)
            return array.dtype.str, array.shape, array.tobytes()


def _called(main: Any, arguments: tuple[Any, ...]) -> Any:
    try:
        return _bits(main(*arguments))
    except axon.AxonError as error:
        return tuple(d.code for d in error.diagnostics)


@pytest.mark.parametrize("part", range(PARTS))
def test_bits_of_random_programs(part: int) -> None:
    computed = 0
    for seed in range(part * PROGRAMS // PARTS, (part + 1) * PROGRAMS // PARTS):
        text, given = _program(seed)
        found: dict[int, Any] = {}
        for history in HISTORIES:
            try:
                main = axon.compile(text).main
            except axon.AxonError:
                break
            for which in history:
                made = _called(main, given[which])
                assert found.setdefault(which, made) == made, f"seed {seed}, size {which} in {history}\n{text}"
        computed += sum(not isinstance(made[0], str) or not made[0].startswith("AX") for made in found.values() if made)
    assert computed >= PROGRAMS // PARTS
