"""A step of Llama 3 70B on many GPUs, on paper: what the pass exchanges and computes, at figures of links and chips. Nothing runs.

python benchmarks/paper_llama.py [--sequences 512] [--length 8192] [--gpus 8 16 64 256 1024] [--layers]

The program is `examples/models/llama3.axon` and the gradient of a loss by all weights. Eight GPUs of a node are the axis `model` of
the mesh, over which heads and hidden units are split, and exchange over NVLink; nodes are the axis `data`, over which the sequences
are split, and weights by their width, and exchange over InfiniBand. A call takes one sequence for each row of the mesh; a step is
as many calls as make all sequences. Collectives, their bytes, operations and what lies between steps are those of the program;
floats count 2 bytes, as in training in bf16, though the text says f32.

With `--layers` a step is calls of layers one by one, as Megatron recomputes: forward each layer once, of which only the positions
that it begins with are kept; backward the gradient of each by itself, which computes it forward a second time.

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
from axon.core.ir import Program, Value  # noqa: E402
from axon.core.sharding import Local, Mesh, Repeat, Sharded, shard  # noqa: E402
from axon.core.sharding.ir import Collective, Step, made_by, read_by  # noqa: E402
from axon.core.sharding.layouts import LINKS, Rates, elements  # noqa: E402
from axon.core.sharding.report import computed, costs  # noqa: E402
from axon.core.walk import results_of  # noqa: E402

TEXT = """
fun slope {h, g} (p : llama3[v, n, d, h, g, c, f]) (ids : i32[b, s]) (y : f32[b, s, v]) =
  grad (fn p => sum i j k => (logits {h, g} p ids)[i, j, k] * y[i, j, k]) p
"""
LAYERS = """
fun layer {h, g} (p : block[d, h, g, c, f]) (x : f32[b, s, d]) = block {h, g} p x
fun layer_slope {h, g} (p : block[d, h, g, c, f]) (x : f32[b, s, d]) (y : f32[b, s, d]) =
  grad (fn (p, x) => sum i j k => (block {h, g} p x)[i, j, k] * y[i, j, k]) (p, x)
fun first (tokens : f32[v, d]) (ids : i32[b, s]) = nn.embedding tokens ids
fun first_slope (tokens : f32[v, d]) (ids : i32[b, s]) (y : f32[b, s, d]) =
  grad (fn tokens => sum i j k => (nn.embedding tokens ids)[i, j, k] * y[i, j, k]) tokens
fun last_slope (norm : f32[d]) (out : f32[d, v]) (x : f32[b, s, d]) (y : f32[b, s, v]) =
  grad (fn (norm, out, x) => sum i j k => (nn.rms_norm norm x @ out)[i, j, k] * y[i, j, k]) (norm, out, x)
"""
OFTEN = {"layer": 80, "layer_slope": 80, "first": 1, "first_slope": 1, "last_slope": 1}
DATA = ("x", "y", "ids")  # parameters that are no weights
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
                values = results_of(step.program) if step.part is None else (step.part.of,)
            case Collective():
                values = (step.result,)
            case Repeat():
                values = step.outs
                inner[n] = held(step.steps, {**sizes, step.counter: 0}, step.results)
                inner[n] += sum(count(v) for v in step.states if not step.stacked)
        made |= {v.symbol: count(v) for v in values}
        last |= dict.fromkeys((s for s in (*read_by(step), *made_by(step)) if s in made), n)
    last |= dict.fromkeys((s for s in results if s in made), len(steps))
    begins = {v: n for n, step in reversed(list(enumerate(steps))) for v in made_by(step)}
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
    weights = sum(elements(one.local.shape).evaluate(sizes) for one in made.inputs if one.whole.symbol.name not in DATA)
    found["weights"] = weights * (BYTES + OPTIMIZER)
    found["values"] = held(made.steps, sizes, [one.local.symbol for one in made.results]) * BYTES
    return found


def by_layers(programs: Mapping[str, Program], mesh: Mesh, known: Mapping[str, int], sequences: int) -> dict[str, Any]:
    """The same of calls of the layers one by one: of memory the positions that each begins with, gradients, and the call that holds
    most."""
    rows = {name: row(*planned(program, mesh, known), sequences) for name, program in programs.items()}
    found = {part: sum(OFTEN[name] * rows[name][part] for name in rows) for part in ("compute", "model", "data")}
    found["weights"] = sum(OFTEN[name] * rows[name]["weights"] for name in ("layer", "first", "last_slope"))
    positions = OFTEN["layer"] * known["s"] * known["d"]
    gradients = found["weights"] // (BYTES + OPTIMIZER)
    found["values"] = (positions + gradients) * BYTES + max(one["values"] for one in rows.values())
    return found


def planned(program: Program, mesh: Mesh, known: Mapping[str, int]) -> tuple[Sharded, dict[Symbol, int]]:
    dims = {symbol: known[symbol.name] for symbol in {*program.explicit, *program.contract.determined()}}
    split = {size: axis for size, axis in SPLIT.items() if size in {symbol.name for symbol in dims}}
    return shard(program, mesh, split, dims, RATES), dims


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sequences", type=int, default=512)
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 16, 64, 256, 1024])
    parser.add_argument("--layers", action="store_true", help="calls of layers one by one, each forward twice")
    o = parser.parse_args()
    module = axon.compile((ROOT / "examples" / "models" / "llama3.axon").read_text(encoding="utf-8") + TEXT + LAYERS)
    programs = {name: compiler.lower(module._session.checked, name, None) for name in (OFTEN if o.layers else ["slope"])}
    print("| GPUs | data × model | calls | computes | NVLink | InfiniBand | all, one after the other | holds | bound by |")
    print("|---|---|---|---|---|---|---|---|---|")
    for gpus in o.gpus:
        data = gpus // 8
        mesh = Mesh((("data", data), ("model", 8)))
        known = {**SIZES, "b": data, "s": o.length}
        if o.layers:
            found = by_layers(programs, mesh, known, o.sequences)
        else:
            found = row(*planned(programs["slope"], mesh, known), o.sequences)
        times = {name: found[name] for name in ("compute", "model", "data")}
        holds = found["weights"] + found["values"]
        words = {"compute": "computing", "model": "NVLink", "data": "InfiniBand"}
        bound = "memory" if holds > MEMORY else words[max(times, key=lambda name: times[name])]
        shown = " | ".join(f"{t:.1f} s" for t in (*times.values(), sum(times.values())))
        lies = f"{found['weights'] / 1e9:.0f} + {found['values'] / 1e9:.0f} GB"
        print(f"| {gpus:,} | {data} × 8 | {o.sequences // data} | {shown} | {lies} | {bound} |", flush=True)


if __name__ == "__main__":
    main()
