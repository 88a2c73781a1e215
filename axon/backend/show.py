"""The stages of a program's kernels as text, and why a mapping was chosen: what the command line prints. Needs no GPU."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping as MappingOf
from pathlib import Path

from axon.backend import render_barriers, roles, tile
from axon.backend.families import Kernel
from axon.backend.memory import contiguous
from axon.backend.needs import Missing
from axon.backend.pipeline import Stages, traits
from axon.backend.prepare import is_empty, problem_of
from axon.backend.runtime import Executable, Plan
from axon.backend.schedule import Mapping, Problem, predict, ranked
from axon.backend.stream import Stream
from axon.backend.target import HOPPER, Target
from axon.backend.unsupported import Unsupported
from axon.core import Program
from axon.names import Symbol

STAGES = ("tile", "roles", "barriers", "kernel", "sass")
TYPICAL = 4096  # stands for every dimension that is not given


def show(program: Program, stage: str, sizes: MappingOf[Symbol, int] | None = None, mapping: Mapping | None = None) -> str:
    """One of `STAGES` for each kernel, at these sizes (without them, at a typical one: the code holds for all).

    Raises `Unsupported` for what has no kernel, and `Missing` without the tools that build one, or for `sass` without `nvdisasm`.
    """
    parts = []
    for plan in plans(program, sizes, mapping):
        parts.append(_stage(plan, stage))
    return "\n".join(parts)


def explain(program: Program, sizes: MappingOf[Symbol, int] | None = None, target: Target = HOPPER) -> str:
    """For each kernel its mapping, the time predicted for it, and the alternatives it was preferred to."""
    lines = []
    for plan in plans(program, sizes, None):
        problem = problem_of(plan.kernel, _sizes(program, sizes))
        lines += _explained(plan.kernel, plan.mapping, problem, target)
    return "\n".join(lines) + "\n"


def plans(program: Program, sizes: MappingOf[Symbol, int] | None, mapping: Mapping | None) -> list[Plan]:
    """The kernels of a program for contiguous tensors of these sizes, built."""
    executable = Executable(program, mapping=mapping)
    values = _sizes(program, sizes)
    for kernel in executable.kernels:
        if is_empty(kernel, values):
            raise Unsupported("its result has no elements, so nothing runs", kernel.span)
    tensors = {v.symbol: contiguous(0, tuple(d.evaluate(values) for d in v.shape), v.element) for v in executable.values}
    return list(executable.plans(tensors, values).values())


def _sizes(program: Program, sizes: MappingOf[Symbol, int] | None) -> dict[Symbol, int]:
    variables = {s for v in program.inputs for d in v.shape for s in d.variables} | set(program.explicit)
    return {s: (sizes or {}).get(s, TYPICAL) for s in variables}


def _stage(plan: Plan, stage: str) -> str:
    forms: Stages = plan.stages
    match stage:
        case "tile":
            return tile.render(forms.tile)
        case "roles":
            return roles.render(forms.roles)
        case "barriers":
            return render_barriers.render(forms.barriers)
        case "kernel":
            return forms.source.text
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


def _explained(kernel: Kernel, mapping: Mapping, problem: Problem, target: Target) -> list[str]:
    axes = [kernel.rows, kernel.columns, kernel.depth]
    extents = [problem.rows, problem.columns, problem.depth]
    flops = 2.0 * problem.rows * problem.columns * problem.depth * problem.outer
    if isinstance(kernel, Stream):
        axes.append(kernel.keys)
        extents.append(problem.keys)
        flops = 2.0 * problem.rows * problem.keys * (problem.columns + problem.depth) * problem.outer
    family = "stream" if isinstance(kernel, Stream) else "contraction"
    outer = f", {problem.outer} times" if problem.outer != 1 else ""
    lines = [f"{family} over ({', '.join(a.symbol.name for a in axes)}) = {' × '.join(map(str, extents))}{outer}"]
    order = ranked(problem, traits(kernel), target)
    for mark, candidate in [("chosen", mapping), *(("", m) for m in order[:6] if m != mapping)]:
        seconds = predict(candidate, problem, target)
        lines.append(f"{mark:>8}  {seconds * 1e6:9.1f} µs predicted, {flops / seconds / 1e12:4.0f} TFLOP/s: {candidate}")
    return lines
