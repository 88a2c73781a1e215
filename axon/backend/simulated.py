"""A whole program on the CPU through its GPU kernels' barrier programs: what `--target simulate` runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from axon.backend.fuse import fuse
from axon.backend.pipeline import stages, traits
from axon.backend.proof import Violation
from axon.backend.runtime import problem_of
from axon.backend.schedule import Mapping, choose
from axon.backend.simulate import SimulationError, simulate
from axon.backend.target import HOPPER, Target
from axon.backend.verify import verify
from axon.core import Program


def run(
    program: Program,
    arrays: Sequence[Any],
    explicit: Sequence[int] = (),
    *,
    seed: int = 0,
    mapping: Mapping | None = None,
    target: Target = HOPPER,
) -> list[Any]:
    """The results on NumPy arrays that satisfy the contract, in the interleaving that `seed` picks.

    Raises `Unsupported` for what has no kernel, and `SimulationError` for a program that is not proved or goes wrong.
    """
    sizes = program.contract.bind(explicit, [a.shape for a in arrays])
    held = {v.symbol: np.ascontiguousarray(a) for v, a in zip(program.inputs, arrays, strict=True)}
    kernels = fuse(program)
    values = (*program.inputs, *(r.value for k in kernels for r in k.results))
    for kernel in kernels:
        for result in kernel.results:
            shape = tuple(d.evaluate(sizes) for d in result.value.shape)
            held[result.value.symbol] = np.zeros(shape, result.value.element.dtype)
        picked = mapping or choose(problem_of(kernel, sizes), traits(kernel), target)
        boxed = frozenset(r.value.symbol for r in kernel.results)
        made = stages(kernel, picked, target, values, boxed).barriers
        answer = verify(made)
        if isinstance(answer, Violation):
            raise SimulationError(str(answer))
        simulate(made, held, sizes, seed=seed)
    return [held[symbol] for symbol in program.block.results]
