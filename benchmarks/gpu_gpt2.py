"""GPT-2 small's forward pass, batch 8 × 1024 in bf16, through Axon alone, beside PyTorch, on one Hopper GPU.

    python benchmarks/gpu_gpt2.py [--out FILE]

The program is `gpt2.axon` beside this file; nothing is tuned and no schedule is given. The peers are the same model in PyTorch
with `scaled_dot_product_attention`, eager and compiled (its default mode; no side uses CUDA graphs). Weights and tokens are
random. A call goes through each side's public API and allocates its result; times are the device's, from one event before 5 calls
to one after, calls of the sides in turn, medians of 15. All are compared with a float32 computation first. A ratio above 1 says
Axon is faster.
"""

from __future__ import annotations

import argparse
import sys
from datetime import date
from pathlib import Path
from typing import Any

from racing import in_turn

import axon

LAYERS, HEADS, WIDTH, VOCABULARY, POSITIONS = 12, 12, 768, 50257, 1024
BATCH, LENGTH = 8, 1024
ROUNDS, CALLS = 15, 5
STEPS = ("layer norm", "queries, keys, values", "attention", "projection and residual",
         "layer norm", "up and gelu", "down and residual")  # fmt: skip


def parameters() -> dict[str, Any]:
    import torch

    def normal(*shape: int, scale: float = 0.02) -> Any:
        return (torch.randn(shape, device="cuda") * scale).to(torch.bfloat16)

    def linear(d: int, k: int) -> dict[str, Any]:
        return {"w": normal(LAYERS, d, k), "b": normal(LAYERS, k)}

    def norm(*shape: int) -> dict[str, Any]:
        return {"scale": 1 + normal(*shape), "shift": normal(*shape)}

    d = WIDTH
    blocks = {"norm1": norm(LAYERS, d), "qkv": linear(d, 3 * d), "out": linear(d, d), "norm2": norm(LAYERS, d),
              "up": linear(d, 4 * d), "down": linear(4 * d, d)}  # fmt: skip
    return {"tokens": normal(VOCABULARY, d), "positions": normal(POSITIONS, d), "blocks": blocks, "norm": norm(d)}


def forward(p: dict[str, Any], ids: Any) -> Any:
    """The model in PyTorch."""
    import torch.nn.functional as f

    blocks = p["blocks"]

    def norm(n: dict[str, Any], x: Any, *at: int) -> Any:
        return f.layer_norm(x, (WIDTH,), n["scale"][at], n["shift"][at])

    def dense(name: str, i: int, x: Any) -> Any:
        return f.linear(x, blocks[name]["w"][i].t(), blocks[name]["b"][i])

    x = p["tokens"][ids] + p["positions"][: ids.shape[1]]
    for i in range(LAYERS):
        q, k, v = dense("qkv", i, norm(blocks["norm1"], x, i)).view(*ids.shape, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + dense("out", i, attended)
        x = x + dense("down", i, f.gelu(dense("up", i, norm(blocks["norm2"], x, i)), approximate="tanh"))
    return norm(p["norm"], x) @ p["tokens"].t()


def as_float(p: Any) -> Any:
    return {k: as_float(v) for k, v in p.items()} if isinstance(p, dict) else p.float()


def where_time_goes(call: Any) -> list[str]:
    """The device time of each kernel of one call of Axon, those of the layers added up."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    events = sorted(
        (e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA), key=lambda e: e.time_range.start
    )
    times = [e.time_range.elapsed_us() for e in events]
    inside = len(STEPS) * LAYERS
    names = ["embedding", *STEPS * LAYERS, "last layer norm", "logits"]
    if len(times) != inside + 3:
        return [f"{len(times)} kernels, {sum(times):.0f} µs: not {inside + 3}, so they are not told apart here"]
    totals: dict[tuple[int, str], float] = {}
    for number, (name, time) in enumerate(zip(names, times, strict=True)):
        place = (number - 1) % len(STEPS) + 1 if 0 < number <= inside else number
        totals[place, name] = totals.get((place, name), 0.0) + time
    whole = sum(times)
    lines = ["| kernel | times | µs in all | share |", "|---|---|---|---|"]
    for (place, name), time in totals.items():
        count = LAYERS if 0 < place <= len(STEPS) else 1
        lines.append(f"| {name} | {count} | {time:.0f} | {time / whole:.1%} |")
    span = events[-1].time_range.end - events[0].time_range.start
    return [*lines, f"| all | {len(times)} | {whole:.0f} | of {span:.0f} µs from the first to the last |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args()
    import torch

    torch.manual_seed(0)
    p = parameters()
    ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH), device="cuda", dtype=torch.int32)
    logits = axon.load(Path(__file__).with_name("gpt2.axon")).logits[HEADS]
    compiled = torch.compile(forward, dynamic=False)
    sides = {
        "Axon": lambda: logits(p, ids),
        "PyTorch, eager": lambda: forward(p, ids),
        "torch.compile": lambda: compiled(p, ids),
    }
    with torch.no_grad():
        want = forward(as_float(p), ids)
        errors = {}
        for name, call in sides.items():
            got = call()
            errors[name] = float((got.float() - want).norm() / want.norm())
            del got
        del want
        print(errors, flush=True)
        race = in_turn(list(sides.values()), CALLS, ROUNDS)
        machine = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
        lines = [f"# GPT-2 small, batch {BATCH} × {LENGTH}, bf16, {machine}, {date.today()}"]
        lines += ["", *(__doc__ or "").strip().splitlines()[4:], "", "| | ms | ratio | error |", "|---|---|---|---|"]
        for n, (name, seconds) in enumerate(zip(sides, race.seconds, strict=True)):
            lines.append(f"| {name} | {seconds * 1e3:.2f} | {race.ratio(n, 0):.3f} | {errors[name]:.1e} |")
        lines += ["", "Where Axon's time goes:", "", *where_time_goes(sides["Axon"])]
    print("\n".join(lines))
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n", encoding="utf-8")
    if not errors["Axon"] < 2 * errors["PyTorch, eager"]:
        sys.exit(f"wrong: {errors}")


if __name__ == "__main__":
    main()
