"""GPT-2 of PyTorch's modules that trains with three functions of Axon's inside `torch.compile(fullgraph=True)`.

    python benchmarks/gpt2_compiled.py [--device cuda] [--steps 12] [--rounds 15] [--layers 4 --width 128 …] [--out FILE]

Four ways take the same steps of AdamW from the same weights, on the same tokens: the functions as operators in one compiled graph;
the same with a graph that ends before each call; nothing compiled; and PyTorch's own functions in the compiled graph. The losses
are compared step for step. Then steps are timed in turn, each round in another order, and last what calls cost on few elements.
Times are those of the processor, by one thread: so what else a machine does falls on all alike, and little of it is counted. With
`--device cuda` they are those of the clock, until the GPU is done; products are TF32's there.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import time
from collections.abc import Callable
from datetime import date
from typing import Any

os.environ |= {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # before they are read

import torch
import torch.nn.functional as F
from racing import report
from torch import nn

import axon

VOCABULARY = 257
PROGRAM = """
import nn

fun norm (scale : 'a[d]) (shift : 'a[d]) (x : 'a[..b, d]) = nn.standardize 1e-5 x * scale + shift
fun gelu (x : 'a[..s]) = nn.gelu_tanh x
fun loss (logits : 'a[n, c]) (labels : i32[n]) = nn.cross_entropy logits labels
"""
OWN = axon.compile(PROGRAM)
AXON: dict[str, Callable[..., Any]] = {"norm": OWN.norm, "gelu": OWN.gelu, "loss": OWN.loss}
TORCH: dict[str, Callable[..., Any]] = {
    "norm": lambda scale, shift, x: F.layer_norm(x, scale.shape, scale, shift),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "loss": lambda logits, labels: F.cross_entropy(logits, labels.long()),
}


class Norm(nn.Module):
    def __init__(self, width: int, functions: dict[str, Callable[..., Any]]) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.functions = functions

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.functions["norm"](self.scale, self.shift, x)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, functions: dict[str, Callable[..., Any]]) -> None:
        super().__init__()
        self.heads, self.functions = heads, functions
        self.norm1, self.norm2 = Norm(width, functions), Norm(width, functions)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, s, d))
        return x + self.down(self.functions["gelu"](self.up(self.norm2(x))))


class GPT2(nn.Module):
    """The loss of the next token."""

    def __init__(self, layers: int, width: int, heads: int, length: int, functions: dict[str, Callable[..., Any]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, functions) for _ in range(layers))
        self.norm, self.functions = Norm(width, functions), functions
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        given, wanted = ids[:, :-1], ids[:, 1:].reshape(-1)
        x = self.tokens(given) + self.positions.weight[: given.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return self.functions["loss"](logits.view(-1, VOCABULARY), wanted.int())


Step = Callable[[int], torch.Tensor]


def stepping(model: nn.Module, forward: Callable[[torch.Tensor], torch.Tensor], batches: torch.Tensor) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(n: int) -> torch.Tensor:
        optimizer.zero_grad()
        loss = forward(batches[n % len(batches)])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def turns(sides: dict[str, Callable[[int], Any]], rounds: int, calls: int = 1, device: str = "cpu") -> dict[str, list[float]]:
    """Seconds of the processor, or by the clock of what a GPU does, for a call of each, in each round."""
    now = time.process_time if device == "cpu" else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for n in range(rounds):
        random.Random(n).shuffle(order)
        for name in order:
            start = now()
            for _ in range(calls):
                sides[name](n)
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append((now() - start) / calls)
    return times


def said(times: list[float], scale: float) -> str:
    low, middle, high = statistics.quantiles(times, n=4)
    return f"{middle * scale:.1f} ± {(high - low) / 2 * scale:.1f}"


def training(options: argparse.Namespace) -> list[str]:
    generator = torch.Generator().manual_seed(0)
    # Text that can be learned: each token follows from the one before it.
    first = torch.randint(0, VOCABULARY, (8, options.batch, 1), generator=generator)
    batches = ((first + 7 * torch.arange(options.length + 1)) % VOCABULARY).to(options.device)
    outside = {name: torch.compiler.disable(f) for name, f in AXON.items()}
    ways = {
        "Axon's functions in the graph": (AXON, {"fullgraph": True}),
        "a graph that ends before each of them": (outside, {}),
        "nothing compiled": (AXON, None),
        "PyTorch's functions in the graph": (TORCH, {"fullgraph": True}),
    }
    sides = {}
    for name, (functions, how) in ways.items():
        model = GPT2(options.layers, options.width, options.heads, options.length, functions).to(options.device)
        forward = model if how is None else torch.compile(model, **how)
        sides[name] = stepping(model, forward, batches)
    losses = {name: [step(n).item() for n in range(options.steps)] for name, step in sides.items()}
    *_, peer = losses.values()
    apart = {name: max(abs(a - b) / b for a, b in zip(own, peer, strict=True)) for name, own in losses.items()}
    times = turns(sides, options.rounds, 1 if options.device == "cpu" else 5, options.device)
    inside = next(iter(times.values()))
    lines = ["| a step | ms | ratio to the first | last loss | apart from the last way |", "|---|---:|---:|---:|---:|"]
    for name, own in times.items():
        ratio = statistics.median(b / a for a, b in zip(inside, own, strict=True))
        lines.append(f"| {name} | {said(own, 1e3)} | {ratio:.2f} | {losses[name][-1]:.4f} | {apart[name]:.1e} |")
    return [f"The first loss is {peer[0]:.4f}.", "", *lines]


def calls(rounds: int) -> list[str]:
    """Host time of a call on few elements of the host, by how it is made."""
    x, scale, shift = torch.randn(2, 8), torch.ones(8, requires_grad=True), torch.zeros(8, requires_grad=True)
    lines = ["| a call of `norm` on 16 elements | µs |", "|---|---:|"]
    for what, recorded in (("forward", False), ("forward and backward", True)):

        def made(f: Callable[..., Any], recorded: bool = recorded) -> Callable[[int], Any]:
            def run(_: int) -> Any:
                with torch.set_grad_enabled(recorded):
                    y = f(scale, shift, x)
                return y.backward(y.detach()) if recorded else y

            return run

        sides = {
            "Axon's, in a graph": made(torch.compile(lambda *args: OWN.norm(*args, target="cpu"), fullgraph=True)),
            "Axon's": made(lambda *args: OWN.norm(*args, target="cpu")),
            "PyTorch's, in a graph": made(torch.compile(lambda *args: TORCH["norm"](*args), fullgraph=True)),
            "PyTorch's": made(TORCH["norm"]),
        }
        turns(sides, 2, 20)
        lines += [f"| {name}, {what} | {said(own, 1e6)} |" for name, own in turns(sides, rounds, 50).items()]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("steps", 12), ("rounds", 15), ("layers", 4), ("width", 128), ("heads", 4), ("length", 64), ("batch", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--no-calls", action="store_true", help="leave out what single calls cost")
    parser.add_argument("--out", help="a file for the result")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    size = f"{options.layers} layers, width {options.width}, {options.heads} heads, {options.batch} rows of {options.length} tokens"
    about = f"{date.today()}, PyTorch {torch.__version__}, Python {platform.python_version()}; {size}; {options.rounds} rounds."
    how = "Times of the processor, by one thread." if options.device == "cpu" else f"On an {torch.cuda.get_device_name()}."
    head = ["# GPT-2 with three functions of Axon's in a compiled graph", "", about, how, ""]
    report([*head, *training(options), *([] if options.no_calls else ["", *calls(options.rounds)])], options.out)


if __name__ == "__main__":
    main()
