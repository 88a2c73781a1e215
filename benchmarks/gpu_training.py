"""Steps of training in Axon beside torch.compile, on one Hopper GPU.

    python benchmarks/gpu_training.py [--only gpt2 llama] [--kernels FOLDER] [--out FILE]

gpt2    a step of AdamW of GPT-2 small, 8 × 1,024 tokens: loss, derivatives in bf16 of weights in f32, clipping, new weights
llama   the derivatives of a block of Llama 3 8B by its weights and by what enters it, bf16, 4,096 rows

The programs are examples/train_gpt2/train.axon and gpu_devices.axon beside this file. The peers are the same models in PyTorch,
compiled (its default mode), with `scaled_dot_product_attention` and the fused AdamW. Times are the device's and the host's
together, from one event before several calls to one after, the sides in turn, medians; peak memory is what PyTorch's allocator,
from which both sides have all that they need, held more than before. Results are compared first. A ratio above 1 says that Axon
is faster.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from datetime import date
from math import prod
from pathlib import Path
from typing import Any

from gpu_devices import llama, operations
from racing import in_turn, report

import axon

HERE = Path(__file__).parent
LAYERS, HEADS, WIDTH, VOCABULARY, BATCH, LENGTH = 12, 12, 768, 50257, 8, 1024
RATE, DECAY, STEPS = 6e-4, 0.1, 1000
ROUNDS, CALLS = 9, 3


def raced(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, float]:
    """Milliseconds of a call of each side."""
    mine, peer = in_turn([ours, theirs], CALLS, ROUNDS).seconds
    return {"Axon": mine * 1e3, "torch.compile": peer * 1e3}


def peak(side: Callable[[], Any]) -> float:
    """MiB that a call holds at most, beside what there was."""
    import torch

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    side()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def where_time_goes(call: Callable[[], Any], kept: Path | None = None, most: int = 20) -> list[str]:
    """The kernels of a call that take longest, those of one name and launch together; `kept`: a file of all of them, in order."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(f"{folder}/trace.json")
        trace = json.loads(Path(folder, "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    totals: dict[tuple[str, str], list[float]] = {}
    kernels = sorted((e for e in trace if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    if kept is not None:
        rows = (f"{e['dur']:.1f}\t{prod(e['args']['grid'])} × {prod(e['args']['block'])}\t{e['name'][:70]}" for e in kernels)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("\n".join(rows) + "\n", encoding="utf-8")
    for e in kernels:
        name = "emitted" if "emitted" in e["name"] else e["name"][:70]
        about = e["args"]
        launch = f"{prod(about['grid'])} × {prod(about['block'])}, {about['registers per thread']} registers"
        totals.setdefault((name, launch), []).append(e["dur"])
    order = sorted(totals.items(), key=lambda item: -sum(item[1]))
    lines = [f"{sum(map(len, totals.values()))} kernels, {sum(map(sum, totals.values())) / 1e3:.2f} ms", ""]
    lines += ["| kernel | blocks × threads | times | µs in all |", "|---|---|---|---|"]
    return [*lines, *(f"| {name} | {launch} | {len(times)} | {sum(times):.0f} |" for (name, launch), times in order[:most])]


# ── GPT-2 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def gpt2_in_pytorch(weights: dict[str, Any]) -> tuple[Any, Any]:
    """A function of the loss, and its parameters by path."""
    import torch
    import torch.nn.functional as f

    parameters = {
        f"{path}": torch.nn.Parameter(x.clone()) for path, x in flat(weights).items() if not path.startswith("blocks")
    } | {
        f"{path}.{i}": torch.nn.Parameter(x[i].clone())
        for path, x in flat(weights).items() if path.startswith("blocks") for i in range(LAYERS)
    }  # fmt: skip

    def half(path: str, i: int | None = None) -> Any:
        return parameters[path if i is None else f"blocks.{path}.{i}"].bfloat16()

    def norm(path: str, x: Any, i: int | None = None) -> Any:
        scale, shift = (half(f"{path}.{name}", i).float() for name in ("scale", "shift"))
        return f.layer_norm(x.float(), (WIDTH,), scale, shift).bfloat16()

    def dense(path: str, x: Any, i: int) -> Any:
        return f.linear(x, half(f"{path}.w", i).t(), half(f"{path}.b", i))

    def loss(ids: Any) -> Any:
        given, wanted = ids[:, :-1].long(), ids[:, 1:].long()
        x = half("tokens")[given] + half("positions")[: given.shape[1]]
        for i in range(LAYERS):
            q, k, v = dense("attention.qkv", norm("norm1", x, i), i).view(*given.shape, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            attended = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
            x = x + dense("attention.out", attended, i)
            x = x + dense("mlp.down", f.gelu(dense("mlp.up", norm("norm2", x, i), i), approximate="tanh"), i)
        guesses = norm("norm", x) @ half("tokens").t()
        return f.cross_entropy(guesses.float().flatten(0, 1), wanted.flatten())

    return loss, parameters


def flat(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in tree.items():
        out |= flat(value, f"{path}{name}.") if isinstance(value, dict) else {f"{path}{name}": value}
    return out


def gpt2(kept: Path | None = None) -> list[str]:
    import torch

    sys.path.insert(0, str(HERE.parent / "examples" / "train_gpt2"))
    import train  # type: ignore[import-not-found]

    train.END = VOCABULARY - 1
    weights = train.moved(train.initial(LAYERS, WIDTH, LENGTH, 0), lambda x: torch.as_tensor(x).cuda())
    ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), device="cuda", dtype=torch.int32)
    m = axon.load(HERE.parent / "examples" / "train_gpt2" / "train.axon")
    held: dict[str, Any] = {"state": m.start(weights), "k": 0}
    step = m.step[HEADS]

    def ours() -> Any:
        held["k"] += 1
        loss, held["state"] = step(RATE, DECAY, STEPS, held["k"], held["state"], ids)
        return loss

    function, parameters = gpt2_in_pytorch(weights)
    compiled = torch.compile(function, dynamic=False)
    own = list(parameters.values())
    optimizer = torch.optim.AdamW(own, lr=RATE, betas=(0.9, 0.95), weight_decay=DECAY, fused=True)

    def theirs() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = compiled(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(own, 1.0)
        optimizer.step()
        return loss.detach()

    lines = []
    for name, side in (("Axon", ours), ("PyTorch", theirs)):
        began = time.perf_counter()
        first = float(side())
        lines.append(f"{name}: first call {time.perf_counter() - began:.1f} s, loss {first:.4f}, then {float(side()):.4f}")
        print(lines[-1], flush=True)
    most = {"Axon": peak(ours), "torch.compile": peak(theirs)}
    times = raced(ours, theirs)
    return [*lines, row("GPT-2 small, a step", times, most), "", *where_time_goes(ours, kept), "", *where_time_goes(theirs)]


# ── Llama ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def block(kept: Path | None = None) -> list[str]:
    import torch

    z = {"d": 4096, "h": 32, "g": 8, "c": 128, "f": 14336, "b": 1, "s": 4096}
    d, h, g, f = z["d"], z["h"] * z["c"], z["g"] * z["c"], z["f"]

    def linear(a: int, b: int) -> Any:
        return (torch.randn(a, b, device="cuda") * a**-0.5).bfloat16()

    shapes = {"q": (d, h), "k": (d, g), "v": (d, g), "out": (h, d)}
    weights = {"norm1": torch.ones(d, device="cuda").bfloat16(), "norm2": torch.ones(d, device="cuda").bfloat16(),
               "attention": {name: linear(*shape) for name, shape in shapes.items()},
               "feed_forward": {"gate": linear(d, f), "up": linear(d, f), "down": linear(f, d)}}  # fmt: skip
    x, dy = (torch.randn(z["b"], z["s"], d, device="cuda").bfloat16() for _ in range(2))
    step = axon.load(HERE / "gpu_devices.axon").step[z["h"], z["g"]]
    module = llama(z)().to("cuda", torch.bfloat16)
    with torch.no_grad():
        for name, value in weights["attention"].items():
            getattr(module.attention, name).weight.copy_(value.t())
        for name, value in weights["feed_forward"].items():
            getattr(module, name).weight.copy_(value.t())
    angles = torch.arange(z["s"], device="cuda")[:, None] * 500000.0 ** (-torch.arange(0, z["c"], 2, device="cuda") / z["c"])
    cos, sin = angles.cos(), angles.sin()
    given = x.clone().requires_grad_()
    inputs = [given, *module.parameters()]
    compiled = torch.compile(module, dynamic=False)

    def ours() -> Any:
        return step(weights, x, dy)

    def theirs() -> Any:
        y = compiled(given, cos, sin)
        return y, torch.autograd.grad(y, inputs, dy)

    lines = []
    results = {}
    for name, side in (("Axon", ours), ("PyTorch", theirs)):
        began = time.perf_counter()
        results[name] = side()
        torch.cuda.synchronize()
        lines.append(f"{name}: first call {time.perf_counter() - began:.1f} s")
        print(lines[-1], flush=True)
    (_, (_, mine)), (_, (other, *_)) = results["Axon"], results["PyTorch"]
    off = float((mine.double() - other.double()).norm() / other.double().norm())
    lines.append(f"derivatives by what enters it differ by {off:.1e}")
    results.clear()
    del mine, other
    most = {"Axon": peak(ours), "torch.compile": peak(theirs)}
    times = raced(ours, theirs)
    rate = 3 * operations(z) / times["Axon"] / 1e9
    lines.append(f"{rate:.0f} TFLOP/s")
    lines.append(row("Llama 3 8B, a block's derivatives", times, most))
    return [*lines, "", *where_time_goes(ours, kept), "", *where_time_goes(theirs)]


def row(name: str, times: dict[str, float], most: dict[str, float]) -> str:
    mine, peer = times["Axon"], times["torch.compile"]
    held = f"{most['Axon']:.0f} and {most['torch.compile']:.0f} MiB ({most['Axon'] / most['torch.compile']:.2f})"
    return f"**{name}: {mine:.2f} ms, torch.compile {peer:.2f} ms, ratio {peer / mine:.2f}; at most {held}**"


CASES: dict[str, Callable[[Path | None], list[str]]] = {"gpt2": gpt2, "llama": block}


def options() -> Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--kernels", type=Path, help="write Axon's kernels, with how long each took, to files in this folder")
    parser.add_argument("--out", help="write the tables to this file")
    return parser.parse_args()


def main() -> None:
    import torch

    o = options()
    torch.manual_seed(0)
    lines = [f"# Training, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}", ""]
    for name in o.only:
        found = CASES[name](o.kernels and o.kernels / f"{name}.tsv")
        print("\n".join(found), flush=True)
        lines += [f"## {name}", "", *found, ""]
    report(lines, o.out)


if __name__ == "__main__":
    main()
