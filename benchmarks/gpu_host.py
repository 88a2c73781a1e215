"""What a call costs on the host: through the public API, with PyTorch tensors, on one Hopper GPU.

    python benchmarks/gpu_host.py [--out FILE]

Host time is wall time per call of 100 calls between two synchronizations, on tensors so small that the GPU keeps up; the median
of 60 rounds, in which the candidates take turns. Building is timed in fresh processes, with PyTorch's context made and modules
imported, to the first result: once with an empty cache, once with what that left.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from typing import Any

ROUNDS, CALLS = 60, 100
LAYERS = 20
ONE = "fun f (a : bf16[m, k]) (b : bf16[n, k]) = for i j => sum c => a[i, c] * b[j, c]"
DEEP = "fun f (x : bf16[b, d]) (w : bf16[d, d]) = let {} in x{} end".format(
    " ".join(f"val x{n} = x{n - 1 or ''} @ w + x{n - 1 or ''}" for n in range(1, LAYERS + 1)), LAYERS
)

STEPS = 200
SORTS = """let val a = sort (for i => p[i] - 0.5 * q[i])
      val b = sort (for i => q[i] + 0.5 * a[n - 1 - i])
      val c = sort (for i => a[i] - 0.5 * b[n - 1 - i])
  in (sort (for i => b[i] + 0.5 * c[n - 1 - i]), for i => c[n - 1 - i]) end"""
LOOPS = f"""
fun loop_ (x : f32[n]) = loop (q = x, p = x) for t < {STEPS} => {SORTS}
fun unfold_ (x : f32[n]) = unfold (q = x, p = x) for t < {STEPS} => {SORTS}
fun while_ (x : f32[n]) = loop (q = x, p = x) while p[0] < 1.0e9 for t < {STEPS} => {SORTS}
"""

FIRST = """
import sys, time
import torch
import axon
torch.ones(1, device="cuda").sum().item()
start = time.perf_counter()
import axon.lower, axon.backend.gpu.runtime.arrays, cuda.bindings.driver
imports = time.perf_counter() - start
m = axon.compile({source!r})
a, b = (torch.randn({m}, {k}, device="cuda").to(torch.bfloat16) for _ in range(2))
torch.cuda.synchronize()
start = time.perf_counter()
m.f(a, b)
torch.cuda.synchronize()
first = time.perf_counter() - start
start = time.perf_counter()
m.f(a, b)
torch.cuda.synchronize()
print(first, time.perf_counter() - start, imports)
"""


def per_call(candidates: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """µs of host time for each."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in candidates}
    for call in candidates.values():
        for _ in range(20):
            call()
    for _ in range(ROUNDS):
        for name, call in candidates.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    torch.cuda.synchronize()
    return {name: statistics.median(values) for name, values in times.items()}


def calls() -> dict[str, float]:
    import torch

    import axon

    def randn(*shape: int) -> Any:
        return (torch.randn(*shape, device="cuda") * shape[-1] ** -0.5).to(torch.bfloat16)

    a, b = randn(64, 64), randn(64, 64)
    bt = b.T
    many = [randn(64, 64) for _ in range(7)]
    turn = iter(range(10**9))
    out = torch.empty_like(a)
    one, deep = axon.compile(ONE), axon.compile(DEEP)
    torch.testing.assert_close(one.f(a, b), a @ bt, rtol=2e-2, atol=2e-2)

    def layers(x: Any) -> Any:
        for _ in range(LAYERS):
            x = torch.addmm(x, x, b)
        return x

    wanted = layers(a).float()  # its values grow; 20 roundings to bf16 count
    assert float((deep.f(a, b).float() - wanted).abs().max() / wanted.abs().max()) < 3e-2
    static = torch.empty_like(a)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static.copy_(layers(a))
    return per_call(
        {
            "torch.add, result allocated": lambda: torch.add(a, b),
            "torch.matmul, result allocated": lambda: torch.matmul(a, bt),
            "torch.matmul, out=": lambda: torch.matmul(a, bt, out=out),
            "Axon, one kernel, result allocated": lambda: one.f(a, b),
            "Axon, one kernel, result allocated, another argument each time": lambda: one.f(many[next(turn) % 7], b),
            "Axon, one kernel, arguments by name": lambda: one.f(b=b, a=a),
            "Axon, one kernel, out=": lambda: one.f(a, b, out=out),
            f"torch, {LAYERS} layers": lambda: layers(a),
            f"torch, {LAYERS} layers in a CUDA graph": graph.replay,
            f"Axon, {LAYERS} layers, out=": lambda: deep.f(a, b, out=out),
            f"Axon, {LAYERS} layers, result allocated": lambda: deep.f(a, b),
            f"Axon, {LAYERS} layers, another argument each time": lambda: deep.f(many[next(turn) % 7], b, out=out),
        }
    )


def loops() -> dict[str, tuple[float, float]]:
    """µs of a step of a loop, with all that the GPU does: played, and walked as where kernels are recorded one by one."""
    import torch

    import axon
    from axon.backend.gpu.runtime import stepped_call

    found: dict[str, tuple[float, float]] = {}
    module, x = axon.compile(LOOPS), torch.randn(256, device="cuda")
    played = stepped_call.results_of
    for name in ("loop_", "unfold_", "while_"):
        f = getattr(module, name)
        times = []
        for how in (played, lambda run, makers, rooms: run(makers)):
            stepped_call.results_of = how  # type: ignore[assignment]
            try:
                made = [f(x) for _ in range(4)]
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(5):
                    made.append(f(x))
                torch.cuda.synchronize()
                times.append((time.perf_counter() - start) / (5 * STEPS) * 1e6)
            finally:
                stepped_call.results_of = played
            assert all(torch.equal(a, b) for one in made[1:] for a, b in zip(made[0], one, strict=True))
        found[name.rstrip("_")] = times[0], times[1]
    return found


def first_calls() -> dict[str, float]:
    """Seconds of the first call in a fresh process."""
    out: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, source in (("one kernel", ONE), (f"{LAYERS} layers, alike", DEEP)):
            for state in ("nothing built before", "from the disk cache"):
                code = FIRST.format(source=source, m=64, k=64)
                environment = os.environ | {"AXON_CACHE": os.path.join(folder, kind[:3])}
                ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
                first, second, imports = map(float, ran.stdout.split())
                out[f"{kind}, {state}"] = first
                out[f"{kind}, {state}, the second call"] = second
                out[f"{kind}, {state}, imports that are not counted above"] = imports
    return out


def sweep() -> tuple[int, float, int]:
    """100 sizes of one function: variants made, seconds in all, wrong results."""
    import torch

    import axon

    one = axon.compile(ONE)
    wrong = 0
    start = time.perf_counter()
    for step in range(100):
        m, n, k = 1 + 37 * step, 5 + 53 * (step * 7 % 100), 8 * (1 + step * 13 % 100)
        a, b = (torch.randn(rows, k, device="cuda").to(torch.bfloat16) for rows in (m, n))
        wrong += not torch.allclose(one.f(a, b).float(), (a.float() @ b.float().T), rtol=2e-2, atol=2e-2 * k**0.5)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    print(one.f.variants, file=sys.stderr)
    return len(one.f.variants), seconds, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="write the table here too")
    arguments = parser.parse_args()
    import torch

    machine = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, PyTorch {torch.__version__}"
    lines = [
        f"# Host time, {date.today()}",
        "",
        f"{machine}, Python {platform.python_version()}.",
        "",
        "| a call | µs on the host |",
        "| --- | --- |",
        *(f"| {name} | {value:.1f} |" for name, value in calls().items()),
        "",
        f"| a step of 8 kernels, of {STEPS} | µs, played | µs, walked |",
        "| --- | --- | --- |",
        *(f"| {name} | {played:.1f} | {walked:.1f} |" for name, (played, walked) in loops().items()),
        "",
        "| a first call | seconds |",
        "| --- | --- |",
        *(f"| {name} | {value:.3f} |" for name, value in first_calls().items()),
        "",
    ]
    count, seconds, wrong = sweep()
    lines.append(f"100 sizes of one function: {count} variants made, {seconds:.1f} s in all, {wrong} wrong results.")
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
