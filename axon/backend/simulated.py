"""A whole program on the CPU through its GPU kernels' barrier programs: what `--target simulate` runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from axon.backend.families import kernels
from axon.backend.memory import contiguous
from axon.backend.pipeline import stages, traits
from axon.backend.prepare import is_empty, prepare
from axon.backend.proof import Violation
from axon.backend.schedule import Mapping
from axon.backend.schedule_file import NOTHING, Schedule
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
    schedule: Schedule = NOTHING,
    target: Target = HOPPER,
) -> list[Any]:
    """The results on NumPy arrays that satisfy the contract, in the interleaving that `seed` picks.

    Results are fresh arrays. Raises `Unsupported` for what has no kernel, AX0605 for a schedule that does not fit, and
    `SimulationError` for a program that is not proved or goes wrong.
    """
    sizes = program.contract.bind(explicit, [a.shape for a in arrays])
    held = {v.symbol: np.ascontiguousarray(a) for v, a in zip(program.inputs, arrays, strict=True)}
    todo = kernels(program)
    values = (*program.inputs, *(r.value for k in todo for r in k.results))
    for kernel, fixed in zip(todo, schedule.of(len(todo)), strict=True):
        for result in kernel.results:
            shape = tuple(d.evaluate(sizes) for d in result.value.shape)
            held[result.value.symbol] = np.zeros(shape, result.value.element.dtype)
        if is_empty(kernel, sizes):
            continue
        # What a GPU refuses is refused here too, for tensors that lie as its allocator would put them.
        lying = {v.symbol: contiguous(0, held[v.symbol].shape, v.element) for v in values if v.symbol in held}
        ready = prepare(kernel, lying, sizes)
        picked = mapping or fixed.ranked(ready.problem, traits(ready.kernel), target, kernel.span)[0]
        made = stages(ready.kernel, picked, target, values, ready.boxed, ready.paired).barriers
        answer = verify(made)
        if isinstance(answer, Violation):
            raise SimulationError(str(answer))
        simulate(made, held, sizes, seed=seed)
    given = {v.symbol for v in program.inputs}
    return fresh([(held[symbol], symbol in given) for symbol in program.block.results])


def fresh(results: Sequence[tuple[Any, bool]]) -> list[Any]:
    """Results that share no memory: an argument that is a result is copied, as is the second of two that are one."""
    out: list[Any] = []
    for result, given in results:
        out.append(result.copy() if given or any(result is other for other in out) else result)
    return out
