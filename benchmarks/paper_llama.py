"""A step of Llama 3 70B on many GPUs, on paper: what the pass exchanges and computes, at figures of links and chips. Nothing runs.

python benchmarks/paper_llama.py [--sequences 512] [--length 8192] [--gpus 8 16 64 256 1024]

The program is `examples/models/llama3.axon` and the gradient of a loss by all weights. Eight GPUs of a node are the axis `model` of
the mesh, over which heads and hidden units are split, and exchange over NVLink; nodes are the axis `data`, over which the sequences
are split, and weights by their width, and exchange over InfiniBand. A call takes one sequence for each row of the mesh; a step is
as many calls as make all sequences. Collectives, their bytes, operations and what lies between steps are those of the program;
floats count 2 bytes, as in training in bf16, though the text says f32.

Not in it: waiting for one another, what a model of rates leaves out, and a program that accumulates gradients over its calls before
it sums them over devices.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import axon  # noqa: E402
from axon import compiler  # noqa: E402
from axon.base.data import replace  # noqa: E402
from axon.base.names import Symbol  # noqa: E402
from axon.core.ir import Value  # noqa: E402
from axon.core.sharding import Local, Mesh, Repeat, Sharded, shard  # noqa: E402
from axon.core.sharding.ir import Collective, Step, made_by, read_by  # noqa: E402
from axon.core.sharding.layouts import LINKS, Rates, elements  # noqa: E402
from axon.core.sharding.report import computed, costs  # noqa: E402
from axon.core.walk import results_of  # noqa: E402

TEXT = """
fun slope {h, g} (p : llama3[v, n, d, h, g, c, f]) (ids : i32[b, s]) (y : f32[b, s, v]) =
  grad (fn p => sum i j k => (logits {h, g} p ids)[i, j, k] * y[i, j, k]) p
"""
SIZES = {"v": 128256, "n": 80, "d": 8192, "h": 64, "g": 8, "c": 128, "f": 28672}  # Grattafiori et al. 2024, table 3
SPLIT = {"b": "data", "d": "data", "h": "model", "g": "model", "f": "model"}
RATES = replace(LINKS["nvlink"], axes=(("data", LINKS["infiniband"]),))
LINK = {"model": LINKS["nvlink"], "data": LINKS["infiniband"]}
BYTES = 2  # of a float of weights, activations and gradients
OPTIMIZER = 12  # of each weight: itself in f32, and Adam's two means
MEMORY = 80e9  # of an H100


def held(steps: Sequence[Step], sizes: Mapping[Symbol, int], results: Sequence[Symbol]) -> int:
    """The most floats that a device holds between steps, of those that steps make."""

    def count(value: Value) -> int:
        return max(0, elements(value.shape).evaluate(sizes)) if value.element.is_float else 0

    made: dict[Symbol, int] = {}
    last: dict[Symbol, int] = {}
    inner = [0] * len(steps)
    for n, step in enumerate(steps):
        match step:
            case Local():
                values = results_of(step.program)
            case Collective():
                values = (step.result,)
            case Repeat():
                values = step.outs
                inner[n] = held(step.steps, {**sizes, step.counter: 0}, step.results)
                inner[n] += sum(count(v) for v in step.states if not step.stacked)
        made |= {v.symbol: count(v) for v in values}
        last |= dict.fromkeys((s for s in (*read_by(step), *made_by(step)) if s in made), n)
    last |= dict.fromkeys((s for s in results if s in made), len(steps))
    begins = {v: n for n, step in enumerate(steps) for v in made_by(step)}
    live = (sum(made[s] for s in made if begins[s] <= n <= last[s]) + inner[n] for n in range(len(steps)))
    return max(live, default=0)


def row(made: Sharded, dims: Mapping[Symbol, int], sequences: int) -> dict[str, Any]:
    """What a step takes, in seconds and bytes, by its parts."""
    calls = sequences // made.mesh.size("data")
    sizes = made.environment(dims, {axis: size - 1 for axis, size in made.mesh.axes})
    rates = LINKS["nvlink"]
    found: dict[str, Any] = {"compute": calls * computed(made.steps, sizes, {}) / rates.flops, "model": 0.0, "data": 0.0}
    for cost in costs(made, dims, Rates("", 1.0, 0.0, 1.0, 1.0)):
        if made.mesh.size(cost.step.axis) == 1:
            continue  # nobody to exchange with
        link = LINK[cost.step.axis]
        width = BYTES / 4 if cost.step.result.element.is_float else 1
        found[cost.step.axis] += calls * cost.times * (link.latency + cost.bytes * width / link.bandwidth)
    weights = sum(elements(one.local.shape).evaluate(sizes) for one in made.inputs[:-2])
    found["weights"] = weights * (BYTES + OPTIMIZER)
    found["values"] = held(made.steps, sizes, [one.local.symbol for one in made.results]) * BYTES
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sequences", type=int, default=512)
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 16, 64, 256, 1024])
    o = parser.parse_args()
    module = axon.compile((ROOT / "examples" / "models" / "llama3.axon").read_text(encoding="utf-8") + TEXT)
    program = compiler.lower(module._session.checked, "slope", None)
    print("| GPUs | data × model | calls | computes | NVLink | InfiniBand | all, one after the other | holds | bound by |")
    print("|---|---|---|---|---|---|---|---|---|")
    for gpus in o.gpus:
        data = gpus // 8
        mesh = Mesh((("data", data), ("model", 8)))
        known = {**SIZES, "b": data, "s": o.length}
        dims = {symbol: known[symbol.name] for symbol in {*program.explicit, *program.contract.determined()}}
        found = row(shard(program, mesh, SPLIT, dims, RATES), dims, o.sequences)
        times = {name: found[name] for name in ("compute", "model", "data")}
        holds = found["weights"] + found["values"]
        words = {"compute": "computing", "model": "NVLink", "data": "InfiniBand"}
        bound = "memory" if holds > MEMORY else words[max(times, key=lambda name: times[name])]
        shown = " | ".join(f"{t:.1f} s" for t in (*times.values(), sum(times.values())))
        lies = f"{found['weights'] / 1e9:.0f} + {found['values'] / 1e9:.0f} GB"
        print(f"| {gpus:,} | {data} × 8 | {o.sequences // data} | {shown} | {lies} | {bound} |", flush=True)


if __name__ == "__main__":
    main()
