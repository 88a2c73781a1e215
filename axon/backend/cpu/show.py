"""The CPU backend's plan of a program, and its functions, as text: `axon emit --stage plan` and `--stage cpu`. Compiles nothing."""

from __future__ import annotations

from typing import assert_never

from axon.backend.cpu.executable import CpuExecutable
from axon.backend.cpu.products import is_window
from axon.backend.cpu.run import SMALL_STEP
from axon.backend.plan.ir import Contraction, Kernel, Nest, Repeat, Whole, kernels_in, print_plan
from axon.core.ir import Check, Compress, Program, Sort

STAGES = ("plan", "cpu")


def show(program: Program, stage: str) -> str:
    """One of `STAGES`."""
    executable = CpuExecutable(program)
    if stage == "plan":
        return print_plan(executable.plan, lambda kernel: _decision(executable, kernel))
    texts = []
    for kernel in kernels_in(executable.plan.body):
        match kernel:
            case Nest():
                texts.append(executable.function(kernel).function.text)
            case Repeat():
                loop = executable.loop(kernel)
                texts.extend([] if isinstance(loop, str) else [loop.compiled.function.text])
            case Contraction() | Whole():
                texts.append(f"# {_decision(executable, kernel)}\n")
                nest = executable.product(kernel)[1] if isinstance(kernel, Contraction) else None
                texts.extend([] if nest is None else [nest.function.text])
            case _:
                assert_never(kernel)
    return "\n\n".join(texts)


def _decision(executable: CpuExecutable, kernel: Kernel) -> str:
    """What computes a kernel."""
    match kernel:
        case Nest():
            return f"compiled, {executable.function(kernel).function.how}"
        case Contraction():
            nest = executable.product(kernel)[1]
            how = ", a window in register tiles, by blocks or by taps" if is_window(kernel) else ""
            return f"BLAS through NumPy{how}" + ("" if nest is None else f"; or compiled, {nest.function.how}: the cheapest")
        case Repeat():
            loop = executable.loop(kernel)
            if isinstance(loop, str):
                return f"stepped by the host: {loop}"
            most = f"less than {SMALL_STEP:,} additions a kernel, half for a product"
            return f"one native function where a step takes {most}, else by the host"
        case Whole(op=op):
            match op:
                case Sort():
                    return "NumPy's stable argsort"
                case Compress():
                    return "NumPy's flatnonzero"
                case Check():
                    return "compared by the host"
                case _:
                    assert_never(op)
        case _:
            assert_never(kernel)
