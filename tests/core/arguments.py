"""Arguments for core programs that someone else wrote: sizes that their contracts admit, and numbers of their element types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import axon
from axon import compiler
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.shapes.contracts.guard import ContractBroken
from tests.sample import some

SIZES = range(1, 10)
TRIES = 3000


def general(folder: Path, one_in: int = 1) -> Iterator[tuple[str, Program]]:
    """The functions of a folder's files, or of some of them, that have one program for all sizes."""
    for file in some(sorted(folder.glob("*.axon")), one_in) if one_in > 1 else sorted(folder.glob("*.axon")):
        checked = axon.load(file)._session.checked
        for name in checked.signatures:
            with suppress(AxonError):  # no general variant
                yield f"{file.stem}.{name}", compiler.lower(checked, name, None)


def admitted(
    program: Program, random: Random, sizes: Sequence[int] = SIZES
) -> tuple[list[int], list[Any], dict[Symbol, int]] | None:
    """Explicit sizes, arguments, and all dimensions; None where no such sizes were found."""
    return next(_admitted(program, random, sizes), None)


def _admitted(program: Program, random: Random, among: Sequence[int]) -> Iterator[tuple[list[int], list[Any], dict[Symbol, int]]]:
    names = sorted({s for v in program.inputs for d in v.shape for s in d.variables} | set(program.explicit), key=lambda s: s.id)
    for _ in range(TRIES):
        sizes = {s: random.choice(among) for s in names}
        try:
            shapes = [tuple(d.evaluate(sizes) for d in v.shape) for v in program.inputs]
            explicit = [sizes[s] for s in program.explicit]
            bound = program.contract.bind(explicit, shapes)
        except (AxonError, ContractBroken, ZeroDivisionError):
            continue
        if all(n >= 0 for shape in shapes for n in shape):
            yield explicit, [_numbers(v.element, shape, random) for v, shape in zip(program.inputs, shapes, strict=True)], bound


def _numbers(element: Any, shape: tuple[int, ...], random: Random) -> Any:
    """Small whole numbers, which are mostly indices; floats of both signs."""
    made = np.random.default_rng(random.randrange(2**32))
    if element.is_float:
        return made.standard_normal(shape).astype(element.dtype)
    return made.integers(0, 2 if element.value == "bool" else 4, shape).astype(element.dtype)
