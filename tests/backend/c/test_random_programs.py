"""Generated core programs as libraries compute what the CPU backend computes, bit for bit, and stop where it stops.

Which error is named where several things are wrong is open: a kernel goes row by row, the interpreter expression by expression.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from axon import compiler
from axon.backend.c.header import Described
from axon.backend.cpu.executable import CpuExecutable
from axon.backend.cpu.run import run as call
from axon.base.errors import AxonError
from axon.core.ir import Leaf, Structure, TupleOf
from axon.core.printer import print_program
from axon.core.verify import CoreInvalid
from axon.core.walk import results_of
from axon.interpret import run
from tests.backend.c.native import Broken, Library, same_bits
from tests.core.random_programs import Generator

FEW = 6
PROGRAMS = 400 if os.environ.get("AXON_SOAK") else FEW


def structured(structure: Structure, leaves: Any) -> Any:
    if isinstance(structure, Leaf):
        return leaves[structure.position]
    if isinstance(structure, TupleOf):
        return tuple(structured(item, leaves) for item in structure.items)
    return {name: structured(item, leaves) for name, item in structure.fields}


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_program(seed: int, tmp_path: Path) -> None:
    program, inputs = Generator(Random(seed)).program()
    try:
        run(program, inputs)
        said = ""
    except CoreInvalid:  # the generator reads outside a tensor without a check: no backend has to notice
        return
    except AxonError as error:
        said = f"error[{error.diagnostics[0].code}]: {error.diagnostics[0].message}"
    about = Described("f", "f", "text", "sig f", lambda symbol: symbol.name, "native")
    compiler.build(program, about, str(tmp_path), {}, ["cc", "-Wall", "-Werror"])
    library = Library(tmp_path, "f")
    given = [structured(param.structure, inputs) for param in program.params]
    if said:
        like = [np.zeros((1,) * len(value.shape), value.element.dtype) for value in results_of(program)]
        with pytest.raises(Broken) as broken:
            library.call(structured(program.result, like), *given)
        assert broken.value.text.startswith("error[AX050"), print_program(program)
        assert broken.value.text.startswith(said) or seed >= FEW, print_program(program)
        return
    expected = structured(program.result, call(CpuExecutable(program), inputs))
    found = library.call(expected, *given)
    assert same_bits(found, expected), print_program(program)
