"""What sharding does on several GPUs of one machine, or, with `--target cpu --tiny`, on its processors.

    python benchmarks/gpu_devices.py [--only correct tensor+weak …] [--processes 2] [--out FILE] [--tiny] [--target cpu]

Each slice, or several with `+` between them, is run by processes of its own, one for each GPU, on NCCL, and ended after `--limit`
seconds for each, when it has printed where its threads stand; what one of them meets is printed. Times are the device's, between
two events around several calls, the largest of the processes', the median of several rounds. A ratio above 1 says Axon is faster.

    correct     programs that exchange something in each of the ways there are, against one GPU, and twice the same bits
    tensor      a block of Llama 3 8B forward and backward, its heads and hidden units split: against one GPU
    weak        the same with as many times as many heads and hidden units as processes: a device's work is that of one GPU
    peer        the same block in PyTorch: DTensor's tensor parallelism with torch.compile
    data        a step of training GPT-2, rows of the batch split: with as many rows on each device as one GPU has
    gather      an all-gather beside the product that reads it: how much of it is hidden
    ring        causal attention with its positions split, against one GPU
    kill        one process is killed: when the others end
    graph       a block's step recorded in a CUDA graph and replayed
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BLOCK = {"h": "model", "g": "model", "f": "model"}
STACKS = 2.0  # seconds for a process that hangs to print where its threads stand


def full(o: argparse.Namespace) -> dict[str, int]:
    """The sizes of Llama 3 8B, and of rows."""
    return {"d": 64, "h": 4, "g": 2, "c": 16, "f": 96, "b": 1, "s": 32} if o.tiny else {
        "d": 4096, "h": 32, "g": 8, "c": 128, "f": 14336, "b": 1, "s": o.rows}  # fmt: skip


class Here:
    """This process of the mesh, and what it measures with."""

    def __init__(self, o: argparse.Namespace) -> None:
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh

        self.o, self.tiny, self.cuda = o, o.tiny, o.target == "cuda"
        self.rank, self.count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.kind = "cuda" if self.cuda else "cpu"
        self.device = torch.device("cuda", self.rank % torch.cuda.device_count()) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(self.device)
        backend = o.backend or ("nccl" if self.cuda else "gloo")
        dist.init_process_group(backend, **({"device_id": self.device} if backend == "nccl" else {}))
        self.target = None if self.cuda else o.target
        self.init = init_device_mesh
        self.rounds, self.calls = (1, 1) if o.tiny or backend == "gloo" else (7, 4)  # there times say nothing

    def mesh(self, **axes: int) -> Any:
        return self.init(self.kind, tuple(axes.values()), mesh_dim_names=tuple(axes))

    def say(self, *words: Any) -> None:
        if self.rank == 0:
            print(*words, flush=True)

    def wait(self) -> None:
        import torch

        if self.cuda:
            torch.cuda.synchronize()

    def time(self, call: Callable[[], Any]) -> float:
        """Milliseconds of a call, of the slowest process; of the median round."""
        import torch
        import torch.distributed as dist

        call()
        found = []
        for _ in range(self.rounds):
            self.wait()
            dist.barrier()
            if self.cuda:
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                for _ in range(self.calls):
                    call()
                end.record()
                end.synchronize()
                found.append(start.elapsed_time(end) / self.calls)
            else:
                began = time.perf_counter()
                for _ in range(self.calls):
                    call()
                found.append((time.perf_counter() - began) / self.calls * 1e3)
        took = torch.tensor(found, device=self.device)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return float(statistics.median(took.tolist()))

    def normal(self, *shape: int, scale: float = 1.0, dtype: str = "bfloat16", seed: int = 0) -> Any:
        """The same in every process."""
        import torch

        made = torch.Generator(self.device).manual_seed(seed + 7919 * sum(shape))
        return (scale * torch.randn(shape, generator=made, device=self.device)).to(getattr(torch, dtype))


@cache
def module() -> Any:
    import axon

    return axon.load(HERE / "gpu_devices.axon")


def over(function: Any, mesh: Any, split: dict[str, str], timeout: float = 50.0, deterministic: bool = False) -> Any:
    import axon

    return axon.shard(function, mesh, split, timeout=timeout, deterministic=deterministic)


def leaves(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [leaf for value in x.values() for leaf in leaves(value)]
    return [leaf for value in x for leaf in leaves(value)] if isinstance(x, tuple) else [x]


def whole(x: Any) -> list[Any]:
    """The leaves of a result as every process has them."""
    return [leaf.full_tensor() if hasattr(leaf, "full_tensor") else leaf for leaf in leaves(x)]


def error(got: Any, want: Any) -> float:
    """The largest of the leaves' relative errors."""
    worst = 0.0
    for a, b in zip(whole(got), leaves(want), strict=True):
        a, b = a.double(), b.double()
        worst = max(worst, float((a - b).norm() / max(float(b.norm()), 1e-30)))
    return worst


def same(a: Any, b: Any) -> bool:
    import torch

    return all(torch.equal(x, y) for x, y in zip(leaves(a), leaves(b), strict=True))


def local(x: Any) -> Any:
    return tuple(leaf.to_local() if hasattr(leaf, "to_local") else leaf for leaf in leaves(x))


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def correct(e: Here) -> dict[str, Any]:
    import torch

    m, n, f32 = module(), (16 if e.tiny else 1024), "float32"
    x, w = e.normal(n, n, dtype=f32, seed=1), e.normal(n, n, dtype=f32, seed=2)
    bx, up, down = e.normal(n, n), e.normal(n, 2 * n, scale=n**-0.5), e.normal(2 * n, n, scale=n**-0.5)
    q, k, v = (e.normal(4, 8 * n, 32 if e.tiny else 128, seed=s) for s in range(3))
    row = e.normal(64 * n, dtype=f32)
    ids = torch.arange(n, device=e.device, dtype=torch.int32).flip(0) // 2
    counted = torch.arange(64 * n, device=e.device, dtype=torch.int32) % 1000
    cases: list[tuple[str, str, dict[str, str], tuple[Any, ...], float]] = [
        ("a product, rows", "inner", {"m": "a"}, (x, w), 1e-5),
        ("a product, columns", "inner", {"n": "a"}, (x, w), 1e-5),
        ("a product, what is summed", "inner", {"k": "a"}, (x, w), 1e-5),
        ("a product, rows and columns", "inner", {"m": "a", "n": "a"}, (x, w), 1e-5),
        ("sums and extremes", "totals", {"m": "a"}, (x,), 1e-5),
        ("sums and extremes of columns", "totals", {"k": "a"}, (x,), 1e-5),
        ("gather", "picked", {"n": "a"}, (x, ids), 0.0),
        ("transposed", "turned", {"n": "a"}, (x,), 0.0),
        ("windows", "smooth", {"n": "a"}, (row,), 1e-6),
        ("a loop of windows", "diffuse", {"n": "a"}, (row,), 1e-6),
        ("a scan", "running", {"n": "a"}, (counted,), 0.0),
        ("the place of a maximum", "best", {"n": "a"}, (x,), 0.0),
        ("sorted", "ordered", {"n": "a"}, (row,), 0.0),
        ("two layers, hidden", "mlp", {"f": "a"}, (bx, up, down), 1e-2),
        ("two layers, rows", "mlp", {"b": "a"}, (bx, up, down), 1e-2),
        ("two layers, rows and hidden", "mlp", {"b": "a", "f": "a"}, (bx, up, down), 1e-2),
        ("their derivatives, hidden", "mlp_slope", {"f": "a"}, (bx, up, down, bx), 1e-2),
        ("their derivatives, rows", "mlp_slope", {"b": "a"}, (bx, up, down, bx), 1e-2),
        ("attention, positions", "attend", {"s": "a"}, (q, k, v), 2e-2),
        ("attention, heads", "attend", {"h": "a"}, (q, k, v), 2e-2),
    ]
    mesh, wrong = e.mesh(a=e.count), 0
    e.say("| program | split | error | within | twice the same bits | in the order of the ranks too | s |")
    e.say("|---|---|---|---|---|---|---|")
    for name, function, split, given, within in cases:
        began = time.perf_counter()
        try:
            f = over(getattr(m, function), mesh, split)
            ordered = over(getattr(m, function), mesh, split, deterministic=True)
            spread = f.distributed(*given)
            want = getattr(m, function)(*given) if e.cuda else getattr(m, function)(*given, target=e.target)
            got, again = f(*spread, target=e.target), f(*spread, target=e.target)
            stated, restated = ordered(*spread, target=e.target), ordered(*spread, target=e.target)
            e.wait()
            off = max(error(got, want), error(stated, want))
            bits, order = same(local(got), local(again)), same(local(stated), local(restated))
            good = off <= within and bits and order
            wrong += not good
            split_ = ", ".join(split)
            took = time.perf_counter() - began
            e.say(f"| {name} | {split_} | {off:.1e} | {within:.0e}{'' if good else ' WRONG'} | {bits} | {order} | {took:.1f} |")
        except Exception as met:
            wrong += 1
            e.say(f"| {name} | {', '.join(split)} | FAILED {type(met).__name__}: {' '.join(str(met).split())[:600]} | | | | |")
            e.say("".join(traceback.format_exc().splitlines(keepends=True)[-7:]))
    return {"wrong": wrong, "of": len(cases)}


# ── a block of Llama 3 ──────────────────────────────────────────────────────────────────────────────────────────────────


def weights(e: Here, z: dict[str, int]) -> dict[str, Any]:
    d, h, g, f = z["d"], z["h"] * z["c"], z["g"] * z["c"], z["f"]

    def linear(a: int, b: int, seed: int) -> Any:
        return e.normal(a, b, scale=a**-0.5, seed=seed)

    ones = 1 + 0 * e.normal(d)
    return {"norm1": ones, "norm2": ones.clone(),
            "attention": {"q": linear(d, h, 1), "k": linear(d, g, 2), "v": linear(d, g, 3), "out": linear(h, d, 4)},
            "feed_forward": {"gate": linear(d, f, 5), "up": linear(d, f, 6), "down": linear(f, d, 7)}}  # fmt: skip


def operations(z: dict[str, int]) -> float:
    """Floating-point operations of a block's forward pass, of causal attention those below the diagonal; backward twice as many."""
    rows, d, h, g = z["b"] * z["s"], z["d"], z["h"] * z["c"], z["g"] * z["c"]
    return 2.0 * rows * (d * (2 * h + 2 * g) + 3 * d * z["f"]) + 2.0 * rows * z["s"] * h


def stepped(e: Here, z: dict[str, int]) -> tuple[Any, Any, tuple[Any, ...]]:
    """The step of one GPU, that of all, and its arguments as DTensors."""
    step = module().step[z["h"], z["g"]]
    sharded = over(step, e.mesh(model=e.count), BLOCK)
    given = (weights(e, z), e.normal(z["b"], z["s"], z["d"]), e.normal(z["b"], z["s"], z["d"], seed=9))
    return step, sharded, given


def tensor(e: Here) -> dict[str, Any]:
    z = full(e.o)
    step, sharded, given = stepped(e, z)
    spread = sharded.distributed(*given)
    began = time.perf_counter()
    got = sharded(*spread, target=e.target)
    e.wait()
    e.say(f"first call on all {time.perf_counter() - began:.1f} s")
    many = e.time(lambda: sharded(*spread, target=e.target))
    e.say(f"on all {many:.2f} ms, {3 * operations(z) / many / 1e9 / e.count:.0f} TFLOP/s on each")
    began = time.perf_counter()
    want = step(*given) if e.cuda else step(*given, target=e.target)
    e.wait()
    e.say(f"first call on one {time.perf_counter() - began:.1f} s; error {error(got, want):.1e}")
    one = e.time(lambda: step(*given) if e.cuda else step(*given, target=e.target))
    return {"one": one, "many": many, "efficiency": one / many / e.count, "error": error(got, want),
            "TFLOP/s on one": 3 * operations(z) / one / 1e9}  # fmt: skip


def weak(e: Here) -> dict[str, Any]:
    z = full(e.o)
    wide = {**z, **{name: z[name] * e.count for name in ("h", "g", "f")}}
    _, sharded, given = stepped(e, wide)
    spread = sharded.distributed(*given)
    many = e.time(lambda: sharded(*spread, target=e.target))
    step, _, given = stepped(e, z)
    one = e.time(lambda: step(*given) if e.cuda else step(*given, target=e.target))
    return {"one": one, "many": many, "efficiency": one / many}


def llama(z: dict[str, int]) -> Any:
    """The block as PyTorch has it."""
    import torch
    import torch.nn.functional as f

    class Attention(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            d, h, g = z["d"], z["h"] * z["c"], z["g"] * z["c"]
            self.q, self.k, self.v, self.out = (torch.nn.Linear(a, b, bias=False) for a, b in ((d, h), (d, g), (d, g), (h, d)))

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            b, s, _ = x.shape
            q, k, v = (y.view(b, s, -1, z["c"]).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))

            def turned(y: Any) -> Any:
                re, im = y.float().unflatten(-1, (-1, 2)).unbind(-1)
                return torch.stack((re * cos - im * sin, re * sin + im * cos), -1).flatten(-2).to(y.dtype)

            o = f.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
            return self.out(o.transpose(1, 2).reshape(b, s, -1))

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            d, h = z["d"], z["f"]
            self.norm1, self.norm2 = torch.nn.RMSNorm(d, eps=1e-5), torch.nn.RMSNorm(d, eps=1e-5)
            self.attention = Attention()
            self.gate, self.up, self.down = (torch.nn.Linear(a, b, bias=False) for a, b in ((d, h), (d, h), (h, d)))

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            x = x + self.attention(self.norm1(x), cos, sin)
            y = self.norm2(x)
            return x + self.down(f.silu(self.gate(y)) * self.up(y))

    return Block


def peer(e: Here) -> dict[str, Any]:
    import torch
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    z = full(e.o)
    block = llama(z)().to(e.device, torch.bfloat16)
    columns = [*(f"attention.{n}" for n in "qkv"), "gate", "up"]
    plan: dict[str, Any] = {name: ColwiseParallel() for name in columns}
    plan |= {"attention.out": RowwiseParallel(), "down": RowwiseParallel()}
    block = parallelize_module(block, e.mesh(model=e.count), plan)
    x = e.normal(z["b"], z["s"], z["d"]).requires_grad_()
    dy = e.normal(z["b"], z["s"], z["d"], seed=9)
    angles = torch.arange(z["s"], device=e.device)[:, None] * 500000.0 ** (-torch.arange(0, z["c"], 2, device=e.device) / z["c"])
    cos, sin = angles.cos(), angles.sin()
    inputs = [x, *block.parameters()]
    out: dict[str, Any] = {}
    sides = {"eager": block} if e.tiny else {"eager": block, "compiled": torch.compile(block, dynamic=False)}
    for name, side in sides.items():
        began = time.perf_counter()

        def call(side: Any = side) -> Any:
            return torch.autograd.grad(side(x, cos, sin), inputs, dy)

        try:
            call()
            e.wait()
            e.say(f"{name}: first call {time.perf_counter() - began:.1f} s")
            out[name] = e.time(call)
            e.say(f"{name}: {out[name]:.2f} ms, {3 * operations(z) / out[name] / 1e9 / e.count:.0f} TFLOP/s on each")
        except Exception as met:
            e.say(f"{name}: FAILED {type(met).__name__}: {' '.join(str(met).split())[:400]}")
    return out


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def data(e: Here) -> dict[str, Any]:
    import numpy as np

    sys.path.insert(0, str(HERE.parent / "examples" / "train_sharded"))
    import train  # type: ignore[import-not-found]

    o = train.options([])
    o.layers, o.width, o.heads, o.length, rows = (2, 32, 2, 16, 2) if e.tiny else (12, 768, 12, 1024, 8)
    m, split = train.module(), {"b": "data"}
    numbers = np.random.default_rng(0)
    ids = numbers.integers(0, 256, (rows * e.count, o.length + 1)).astype(np.int32)

    import torch

    def there(x: Any) -> Any:
        if isinstance(x, dict):
            return {name: there(value) for name, value in x.items()}
        return torch.from_numpy(x).to(e.device)

    begun, tokens = there(train.initial(o)), there(ids)
    kwargs = {} if e.cuda else {"target": e.target}
    state = m.start[o.heads](begun, **kwargs)
    step = over(m.step[o.heads], e.mesh(data=e.count), split)
    given = step.distributed(1e-3, 0.1, 1, state, tokens)
    began = time.perf_counter()
    got = step(*given, target=e.target)
    e.wait()
    e.say(f"first call on all {time.perf_counter() - began:.1f} s")
    many = e.time(lambda: step(*given, target=e.target))
    e.say(f"on all {many:.2f} ms")
    own = tokens[:rows]
    began = time.perf_counter()
    alone = m.step[o.heads]
    want = alone(1e-3, 0.1, 1, state, tokens, **kwargs)
    e.wait()
    off = abs(float(whole(got)[0]) - float(leaves(want)[0]))
    e.say(f"first call on one {time.perf_counter() - began:.1f} s; the losses differ by {off:.1e}")
    one = e.time(lambda: alone(1e-3, 0.1, 1, state, own, **kwargs))
    return {"one": one, "many": many, "efficiency": one / many, "loss differs by": off}


# ── what is hidden ──────────────────────────────────────────────────────────────────────────────────────────────────────


def gather(e: Here) -> dict[str, Any]:
    """x is split by rows, w by columns, and the product too: all of x is needed."""
    import torch
    import torch.distributed as dist

    s, d, f = (64, 32, 64) if e.tiny else (16384, 8192, 8192)
    m, mesh = module(), e.mesh(model=e.count)
    w, x = e.normal(d, f, scale=d**-0.5), e.normal(s, d)
    together = over(m.beside, mesh, {"s": "model", "f": "model"})
    apart = over(m.beside, mesh, {"f": "model"})
    spread, held = together.distributed(w, x), apart.distributed(w, x)
    got, want = together(*spread, target=e.target), apart(*held, target=e.target)
    off = error(got, whole(want)[0])
    both = e.time(lambda: together(*spread, target=e.target))
    product = e.time(lambda: apart(*held, target=e.target))
    mine, room = spread[1].to_local(), torch.empty_like(x)
    alone = e.time(lambda: dist.all_gather_into_tensor(room, mine, group=mesh.get_group("model")))
    return {"both": both, "product": product, "gather": alone, "hidden": (product + alone - both) / alone, "error": off,
            "GB/s": mine.numel() * mine.element_size() * (e.count - 1) / alone / 1e6}  # fmt: skip


def ring(e: Here) -> dict[str, Any]:
    h, s, c = (2, 64, 16) if e.tiny else (e.o.heads, e.o.positions, 128)
    m = module()
    f = over(m.attend, e.mesh(seq=e.count), {"s": "seq"})
    q, k, v = (e.normal(h, s, c, seed=n) for n in range(3))
    spread = f.distributed(q, k, v)
    began = time.perf_counter()
    got = f(*spread, target=e.target)
    e.wait()
    e.say(f"first call on all {time.perf_counter() - began:.1f} s")
    many = e.time(lambda: f(*spread, target=e.target))
    e.say(f"on all {many:.2f} ms")
    kwargs = {} if e.cuda else {"target": e.target}
    off = error(got, m.attend(q, k, v, **kwargs))
    one = e.time(lambda: m.attend(q, k, v, **kwargs))
    return {"one": one, "many": many, "efficiency": one / many / e.count, "error": off,
            "TFLOP/s on one": 2.0 * h * s * s * c / one / 1e9}  # fmt: skip


# ── what stops all ──────────────────────────────────────────────────────────────────────────────────────────────────────


def kill(e: Here) -> dict[str, Any]:
    """The last process is killed in the middle of calls; each other writes when its error came."""
    import torch

    m, n = module(), 32 if e.tiny else 4096
    f = over(m.inner, e.mesh(a=e.count), {"k": "a"}, timeout=300)
    x = e.normal(n, n, dtype="float32")
    spread = f.distributed(x, x)
    for number in range(1000):
        y = f(*spread, target=e.target)
        if number == 20:
            e.wait()
            print(f"rank {e.rank}: 20 calls", flush=True)
            Path(e.o.results).with_name(f"killed.{e.rank}").write_text(str(time.time()))
            if e.rank == e.count - 1:
                os.kill(os.getpid(), signal.SIGKILL)
        if e.o.synchronous and number > 20:
            float(y.to_local().sum())  # waits for the device, and not in Axon
    e.wait()
    torch.cuda.synchronize() if e.cuda else None
    return {"ended": False}


def graph(e: Here) -> dict[str, Any]:
    import torch

    z = {**full(e.o), "s": 32 if e.tiny else min(2048, e.o.rows)}
    _, sharded, given = stepped(e, z)
    spread = sharded.distributed(*given)
    want = sharded(*spread, target=e.target)
    plain = e.time(lambda: sharded(*spread, target=e.target))
    if not e.cuda:
        return {"plain": plain, "graph": "only on a GPU"}
    want = [leaf.clone() for leaf in local(want)]
    e.wait()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded, capture_error_mode="thread_local"):
        result = sharded(*spread)
    equal = []
    for _ in range(2):
        for leaf in local(result):
            leaf.zero_()
        recorded.replay()
        e.wait()
        equal.append(same(tuple(local(result)), tuple(want)))
    fresh = e.normal(z["b"], z["s"], z["d"], seed=5)
    spread[1].to_local().copy_(fresh)
    recorded.replay()
    other = sharded(*spread)
    e.wait()
    equal.append(same(local(result), local(other)))
    return {"plain": plain, "replayed": e.time(recorded.replay), "the same": all(equal), "each": equal}


# ── processes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

SLICES = {f.__name__: f for f in (correct, tensor, weak, peer, data, gather, ring, kill, graph)}


def work(names: list[str], o: argparse.Namespace) -> None:
    """One process of some slices."""
    import warnings

    faulthandler.register(signal.SIGUSR1, all_threads=True)  # as `run` asks of a process that it is about to end
    warnings.filterwarnings("ignore")
    failed = False
    e = Here(o)
    for name in names:
        began = time.time()
        e.say(f"── {name}")
        try:
            found = SLICES[name](e)
        except Exception:
            failed, found = True, {"FAILED": True}
            met = "".join(traceback.format_exc().splitlines(keepends=True)[-12:])
            print(f"rank {e.rank} met, at {time.time():.1f}:\n{met}", flush=True)
        if e.rank == 0:
            told = {k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()}
            with Path(o.results).open("a") as file:
                file.write(f"{name}: {json.dumps(told)}\n")
            e.say(f"{name}: {told}, {time.time() - began:.1f} s")
    if not failed:
        import torch.distributed as dist

        dist.barrier()
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(int(failed))


def run(names: list[str], o: argparse.Namespace, folder: Path, port: int) -> list[str]:
    """The figures of slices, of processes that are ended when their time is over."""
    results, began = folder / "+".join(names), time.time()
    command = [sys.executable, __file__, *sys.argv[1:], "--slice", *names, "--results", str(results)]
    around = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(o.processes)}
    around |= {"NCCL_NVLS_ENABLE": "0", "NCCL_CGA_CLUSTER_SIZE": "0", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    own = [{**os.environ, **around, "RANK": str(n), "LOCAL_RANK": str(n)} for n in range(o.processes)]
    children = [subprocess.Popen(command, env=each) for each in own]
    left, ends = {*children}, dict[int, float]()
    while left and time.time() - began < o.limit * len(names):
        for child in list(left):
            if child.poll() is not None:
                left.remove(child)
                ends[children.index(child)] = time.time()
        time.sleep(0.05)
    for child in left:
        print(f"rank {children.index(child)} still runs after {o.limit * len(names)} s; it stands here, and is ended:", flush=True)
        child.send_signal(signal.SIGUSR1)
        time.sleep(STACKS)
        child.kill()
    for child in children:
        child.wait()
    print(f"{'+'.join(names)}: exit {[child.returncode for child in children]}, {time.time() - began:.1f} s in all", flush=True)
    lines = results.read_text().splitlines() if results.exists() else []
    if "kill" in names:
        files = [folder / f"killed.{n}" for n in range(o.processes)]
        if files[-1].exists():
            after = {n: round(at - float(files[-1].read_text()), 1) for n, at in ends.items() if n != o.processes - 1}
            lines.append(f"kill: the others ended after {after} s" + ("" if len(after) == o.processes - 1 else ", not all did"))
    return lines or [f"{'+'.join(names)}: FAILED"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[*SLICES], help=f"of {', '.join(SLICES)}")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--limit", type=float, default=58.0, help="seconds for a slice")
    parser.add_argument("--target", default="cuda", help="or cpu, interpret, simulate: on processors, over gloo")
    parser.add_argument("--backend", help="by default nccl on GPUs; with gloo several processes may share a GPU")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--rows", type=int, default=8192, help="of `tensor`, `weak` and `peer`")
    parser.add_argument("--heads", type=int, default=8, help="of `ring`")
    parser.add_argument("--positions", type=int, default=131072, help="of `ring`")
    parser.add_argument("--synchronous", action="store_true", help="of `kill`: the others wait for the device")
    parser.add_argument("--port", type=int, default=29611)
    parser.add_argument("--out", help="append the figures to this file")
    parser.add_argument("--slice", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--results", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.slice:
        work(o.slice, o)
        return
    lines = [f"# {o.processes} processes, {o.target}, {date.today()}"]
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(o.only):
            lines += run(name.split("+"), o, Path(folder), o.port + number)
    print("\n".join(["", *lines]))
    if o.out:
        with Path(o.out).open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
