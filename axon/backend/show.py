"""The stages of a program's kernels as text, and why a mapping was chosen: what the command line prints.

Needs no GPU, but to measure.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping as MappingOf
from math import inf
from pathlib import Path

from axon.backend import render_barriers, roles, tile
from axon.backend.build import ptx
from axon.backend.families import Kernel
from axon.backend.memory import contiguous
from axon.backend.needs import Missing, gpu
from axon.backend.pipeline import traits
from axon.backend.prepare import is_empty, problem_of
from axon.backend.runtime import Executable, Plan
from axon.backend.schedule import Mapping, Problem, predict, ranked
from axon.backend.schedule_file import NOTHING, Schedule
from axon.backend.stream import Stream
from axon.backend.target import Target
from axon.backend.unsupported import Unsupported
from axon.core import Program
from axon.names import Symbol

STAGES = ("tile", "roles", "barriers", "kernel", "ptx", "sass")
TYPICAL = 4096  # stands for every dimension that is not given
ALTERNATIVES = 6  # that `explain` shows of a kernel
MEASURED = 3  # of them, that it measures


def show(program: Program, stage: str, sizes: MappingOf[Symbol, int] | None = None, schedule: Schedule | None = None) -> str:
    """One of `STAGES` for each kernel, at these sizes (without them, at a typical one: the code holds for all).

    Raises `Unsupported` for what has no kernel, and `Missing` without the tools that build one, or for `sass` without `nvdisasm`.
    """
    executable = Executable(program, schedule=schedule or NOTHING)
    return "\n".join(_stage(plan, stage, executable.target) for plan in plans(executable, sizes_of(program, sizes)).values())


def plans(executable: Executable, sizes: MappingOf[Symbol, int]) -> dict[int, Plan]:
    """The kernels of a program for contiguous tensors of these sizes, built."""
    for kernel in executable.kernels:
        if is_empty(kernel, sizes):
            raise Unsupported("its result has no elements, so nothing runs", kernel.span)
    tensors = {v.symbol: contiguous(0, tuple(d.evaluate(sizes) for d in v.shape), v.element) for v in executable.values}
    return executable.plans(tensors, sizes)


def sizes_of(program: Program, sizes: MappingOf[Symbol, int] | None) -> dict[Symbol, int]:
    """A value for every dimension: the one given, or a typical one."""
    variables = {s for v in program.inputs for d in v.shape for s in d.variables} | set(program.explicit)
    return {s: (sizes or {}).get(s, TYPICAL) for s in variables}


def _stage(plan: Plan, stage: str, target: Target) -> str:
    forms = plan.stages
    match stage:
        case "tile":
            return tile.render(forms.tile)
        case "roles":
            return roles.render(forms.roles)
        case "barriers":
            return render_barriers.render(forms.barriers)
        case "kernel":
            return forms.source.text
        case "ptx":
            return ptx(forms.source, target)
        case "sass":
            return _disassembled(plan.built.cubin)
        case _:
            raise ValueError(f"no stage {stage!r}; there are {', '.join(STAGES)}")


def _disassembled(cubin: bytes) -> str:
    from cuda.pathfinder import find_nvidia_binary_utility

    tool = find_nvidia_binary_utility("nvdisasm")
    if tool is None:
        raise Missing("the disassembler `nvdisasm`", "pip install 'cuda-toolkit[nvdisasm]'")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        return subprocess.run([tool, str(file)], check=True, capture_output=True, text=True).stdout


# ── explaining ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def explain(
    program: Program, sizes: MappingOf[Symbol, int] | None = None, schedule: Schedule | None = None, *, measure: bool = False
) -> str:
    """For each kernel its mapping, what it takes of the chip, the time predicted for it, and the alternatives it was preferred to.

    With `measure`, times on this machine's GPU too, of the mapping and of the first alternatives. Raises `Missing` without one.
    """
    if measure:
        gpu()
    values = sizes_of(program, sizes)
    executable = Executable(program, schedule=schedule or NOTHING)
    found = plans(executable, values)
    lines = []
    for number, plan in found.items():
        problem = problem_of(plan.kernel, values)
        candidates = [plan.mapping, *_alternatives(plan, problem, executable.target)]
        times: dict[Mapping, float | None] = {}
        if measure:
            from axon.backend.measure import times as measured

            times = measured(program, number, candidates[: 1 + MEASURED], values)
        if len(found) > 1:
            lines.append(f"kernel {number + 1}")
        lines.append(_work(plan.kernel, problem))
        lines.append(_resources(plan))
        if executable.fixed[number].values:
            lines.append(f"  {executable.fixed[number]}")
        flops = _flops(plan.kernel, problem)
        for candidate in candidates:
            mark = "chosen" if candidate == plan.mapping else ""
            times_text = _time(predict(candidate, problem, executable.target), flops, "predicted")
            if candidate in times:
                seconds = times[candidate]
                times_text += f", {_time(seconds, flops, 'measured') if seconds else 'does not fit its registers':<34}"
            elif times:
                times_text += f", {'not measured':<34}"
            lines.append(f"{mark:>8}  {times_text}: {candidate}")
    return "\n".join(lines) + "\n"


def _alternatives(plan: Plan, problem: Problem, target: Target) -> list[Mapping]:
    """The best other mappings, whatever a schedule says."""
    order = ranked(problem, traits(plan.kernel), target)
    return [m for m in order[: ALTERNATIVES + 1] if m != plan.mapping][:ALTERNATIVES]


def _work(kernel: Kernel, problem: Problem) -> str:
    axes = [kernel.rows, kernel.columns, kernel.depth]
    extents = [problem.rows, problem.columns, problem.depth]
    if isinstance(kernel, Stream):
        axes.append(kernel.keys)
        extents.append(problem.keys)
    family = "stream" if isinstance(kernel, Stream) else "contraction"
    outer = f", {problem.outer} times" if problem.outer != 1 else ""
    return f"{family} over ({', '.join(a.symbol.name for a in axes)}) = {' × '.join(map(str, extents))}{outer}"


def _resources(plan: Plan) -> str:
    source = plan.stages.source
    return (
        f"  {plan.blocks:,} blocks of {source.threads} threads · {plan.built.registers} registers for each thread at launch"
        f" · {source.shared:,} bytes of shared memory"
    )


def _flops(kernel: Kernel, problem: Problem) -> float:
    """Of its products; what a mask leaves out is counted."""
    if isinstance(kernel, Stream):
        return 2.0 * problem.rows * problem.keys * (problem.columns + problem.depth) * problem.outer
    return 2.0 * problem.rows * problem.columns * problem.depth * problem.outer


def _time(seconds: float, flops: float, how: str) -> str:
    if seconds == inf:
        return f"{'no time':>12} {how}, blocks without work"
    return f"{seconds * 1e6:9.1f} µs {how}, {flops / seconds / 1e12:4.0f} TFLOP/s"
