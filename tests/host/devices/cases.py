"""What processes do in the tests of functions over a mesh. Each group is forked once; see `processes`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from threading import Event
from typing import Any

import ml_dtypes
import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import axon
from axon import compiler
from axon.backend import libraries
from axon.base.errors import AxonError
from axon.core.sharding.layouts import LINKS
from axon.core.sharding.report import costs
from axon.host.devices import collectives as c
from axon.host.devices.function import mapped, settled
from axon.host.devices.grid import grid_of
from axon.host.devices.places import Processor, calls_on
from axon.host.devices.run import Pending, Running
from tests import ROOT
from tests.host.devices.emulated import on_gpus
from tests.host.devices.processes import LONGEST
from tests.sample import SOAK

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.int64, torch.int32, torch.int16,
         torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool)  # fmt: skip


def values_of(dtype: torch.dtype, rank: int, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """What a process has: small numbers of any type, with NaN among those that can be."""
    found = np.random.default_rng((seed, rank)).integers(0, 7, shape)
    if dtype.is_floating_point and found.ndim:
        x = torch.from_numpy(found / 3 - 1.0).to(dtype)
        x.view(-1)[rank] = float("nan") if seed % 2 else 2.0
        return x
    return torch.from_numpy(found).to(dtype)


def finished(steps: c.Steps) -> np.ndarray:
    while True:
        try:
            next(steps)().wait()
        except StopIteration as done:
            return as_numpy(done.value)


def as_numpy(x: torch.Tensor) -> np.ndarray:
    library: Any = libraries.of(x)
    found: np.ndarray = library.to_host(x).copy()
    return found


def monoids(dtype: torch.dtype) -> tuple[str, ...]:
    return ("any", "all") if dtype is torch.bool else ("sum", "prod", "max", "min")


def collectives(rank: int) -> dict[str, Any]:
    """Each collective over a line of three, of all element types."""
    mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("a",))
    out: dict[str, Any] = {}
    for deterministic in (False, True):
        line = grid_of(mesh).lines(deterministic)["a"]
        for seed, dtype in enumerate(TYPES):
            x = values_of(dtype, rank, (4, 5), seed)
            for monoid in monoids(dtype):
                out[f"all_reduce {dtype} {monoid} {deterministic}"] = finished(c.all_reduce(line, x, monoid))
                out[f"reduce_scatter {dtype} {monoid} {deterministic}"] = finished(c.reduce_scatter(line, x.T, monoid, 1, 2))
            out[f"scalar {dtype} {deterministic}"] = finished(c.all_reduce(line, x[0, 0], monoids(dtype)[0]))
            out[f"gather {dtype}"] = finished(c.all_gather(line, x, 1, 14))
            out[f"exchange {dtype}"] = finished(c.all_to_all(line, x, 1, 14, 0, 2))
            out[f"halo {dtype}"] = finished(c.halo(line, x, 1, 14, 2, 7))
            out[f"torus {dtype}"] = finished(c.halo(line, x, 1, 15, 2, 7, around=True))
            out[f"slice {dtype}"] = as_numpy(c.sliced(line, x, 1, 2))
    empty = torch.empty(0, 5)
    out["empty"] = [finished(c.all_reduce(line, empty, "sum")), finished(c.halo(line, empty, 1, 15, 1, 1)),
                    finished(c.all_gather(line, empty, 0, 0)), finished(c.all_to_all(line, empty, 1, 15, 0, 0))]  # fmt: skip
    return out


def told(error: AxonError) -> str:
    """An error as its code, what it says, and notes."""
    found = error.diagnostics[0]
    return "\n".join((f"{found.code}: {found.message}", *found.notes))


class Meeting:
    """Processes that meet in collectives under a watch."""

    def __init__(self, count: int, timeout: float) -> None:
        self.watch = grid_of(init_device_mesh("cpu", (count,), mesh_dim_names=("a",))).watch(timeout)

    def call(self, said: str) -> list[dict[str, str]] | None:
        self.watch.begin(said)
        self.watch.ask({"sizes": said})
        if others := self.watch.settle():
            return others
        self.watch.at(1, "all_reduce of `x` over `a`")
        self.watch.wait(dist.all_reduce(torch.ones(2), async_op=True))
        self.watch.finish()
        return None

    def until_stopped(self, said: str) -> tuple[str, float]:
        """What ends a call, and after how many seconds."""
        began = time.monotonic()
        try:
            self.call(said)
        except AxonError as error:
            return told(error), time.monotonic() - began
        return "", time.monotonic() - began


def dies(rank: int) -> Any:
    """One process is killed while others wait for it."""
    meeting = Meeting(3, 6.0)
    meeting.call("`f` at n = 1")
    if rank == 1:
        os.kill(os.getpid(), 9)
    return meeting.until_stopped("`f` at n = 1")


def stops(rank: int) -> Any:
    """One process beats no more, though its connections are open."""
    meeting = Meeting(3, 6.0)
    meeting.call("`f` at n = 1")
    if rank == 1:
        meeting.watch._end.set()
        time.sleep(12)
        return None
    return meeting.until_stopped("`f` at n = 1")


def waits(rank: int) -> Any:
    """One process is killed while another stands at its GPU, which waits for it: with which status that is ended, and when."""
    meeting = Meeting(2, 4.0)
    meeting.call("`f` at n = 1")
    if rank == 1:
        os.kill(os.getpid(), 9)
    there, ends, ended, leave, began = calls_on(torch.device("cpu")), list[int](), Event(), os._exit, time.monotonic()
    meeting.watch.busy = there.under_way
    there.count(0)

    def end(code: int) -> None:
        ends.append(code)
        ended.set()
        time.sleep(LONGEST)

    os._exit = end  # type: ignore[assignment]
    ended.wait(40)
    os._exit = leave
    return ends, time.monotonic() - began, told(AxonError((meeting.watch._stopped,))) if meeting.watch._stopped else ""


def hangs(rank: int) -> Any:
    """One process does something else for ever; it is ended."""
    meeting = Meeting(3, 4.0)
    meeting.call("`f` at n = 1")
    if rank == 2:
        time.sleep(60)
    return meeting.until_stopped("`f` at n = 1")


def leaves(rank: int) -> Any:
    """One process ends its program early."""
    meeting = Meeting(3, 60.0)
    meeting.call("`f` at n = 1")
    if rank == 0:
        meeting.watch.close("ValueError: no more data")
        time.sleep(3)  # its connections are open until it has ended
        return None
    return meeting.until_stopped("`f` at n = 1")


def fails(rank: int) -> Any:
    """One process meets an error in the middle of a call."""
    meeting = Meeting(3, 60.0)
    meeting.call("`f` at n = 1")
    if rank == 2:
        meeting.watch.begin("`f` at n = 1")
        time.sleep(1)
        return told(meeting.watch.failed(ValueError("no such row"))), 1.0
    return meeting.until_stopped("`f` at n = 1")


def agrees(rank: int) -> Any:
    """Processes compare what they would do at every call, and go on after they differed."""
    meeting = Meeting(3, 60.0)
    return [meeting.call(f"n = {n}") for n in (1, rank % 2, 3, rank, 1)]


def is_late(rank: int) -> Any:
    """One process never comes to the first call."""
    meeting = Meeting(3, 4.0) if rank else None
    if meeting is None:
        time.sleep(9)
        return None
    return meeting.until_stopped("`f` at n = 1")


# ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────────

SOURCE = """
type net[d, h, o] = { w : f32[d, h], v : f32[h, o] }
fun apply (p : net[d, h, o]) (x : f32[b, d]) = tanh (x @ p.w) @ p.v
fun loss (p : net[d, h, o]) (x : f32[b, d]) (rate : f32) = rate * (sum i j => (apply p x)[i, j] ** 2.0)
fun steps {k} (w : f32[h, h]) (x : f32[b, h]) = loop (y = x) for i < k => tanh (y @ w) + cast f32 i
fun blur (x : f32[n]) = for i < n => (x[i - 1 | 0.0] + x[i] + x[i + 1 | 0.0]) / 3.0
fun best (x : f32[b, n]) = (for i => argmax j => x[i, j], max i j => x[i, j])
fun narrow (x : bf16[b, n]) = for j => sum i => x[i, j]
fun chosen (x : f32[b, n]) (ids : i32[b]) = sum i => x[i, ids[i]]
"""
SPLIT = {"b": "data", "h": "model"}
ATTEND = """
import nn
fun attend (q : f32[h, s, c]) (k : f32[h, s, c]) (v : f32[h, s, c]) =
  let val w = nn.softmax (nn.causal (for h i j => sum c => q[h, i, c] * k[h, j, c]))
  in for h i c => sum j => w[h, i, j] * v[h, j, c] end
fun back (q : f32[h, s, c]) (k : f32[h, s, c]) (v : f32[h, s, c]) y = vjp (fn (q, k, v) => attend q k v) (q, k, v) y
"""


def given() -> dict[str, tuple[Any, ...]]:
    """Whole arguments of each function, the same in every process."""
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    p = {"w": normal(3, 4), "v": normal(4, 5)}
    return {
        "apply": (p, normal(6, 3)),
        "loss": (p, normal(6, 3), 0.5),
        "steps": (normal(4, 4), normal(6, 4)),
        "blur": (normal(8),),
        "best": (normal(6, 4),),
        "narrow": (normal(6, 3).astype(ml_dtypes.bfloat16),),
        "chosen": (normal(6, 3), np.array([0, 1, 2, 2, 1, 0], np.int32)),
    }


@cache
def module() -> axon.Module:
    return axon.compile(SOURCE)


def in_one_process() -> dict[str, Any]:
    """What the functions give of whole arguments. Processes that are forked afterwards need not check and lower them again."""
    m = module()
    out = {name: (m[name][3] if name == "steps" else m[name])(*args) for name, args in given().items()}
    if SOAK:
        out["llama"] = llama_module().logits[HEADS, GROUPS_OF_HEADS](*llama_arguments())
    ordered = axon.shard(m.loss, {"data": 2, "model": 2}, SPLIT)(*given()["loss"])
    out["wide"], out["narrow"] = out["narrow"], axon.shard(m.narrow, {"data": 2, "model": 2}, _split("narrow"))(*given()["narrow"])
    out["ring"] = axon.compile(ATTEND).back(*qkv())
    return out | {"slope": m.loss.value_and_grad("p")(*given()["loss"]), "ordered": ordered}


def functions(rank: int) -> dict[str, Any]:
    """Calls over 2 × 2 processes with DTensors, blocks of NumPy and of PyTorch; gradients; what is refused."""
    m, whole, out = module(), given(), dict[str, Any]()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    made = {name: axon.shard(m[name][3] if name == "steps" else m[name], mesh, _split(name)) for name in whole}
    for name, f in made.items():
        placed = f.distributed(*whole[name])
        result = f(*placed)
        out[name] = mapped(result, lambda x: as_numpy(settled(x.full_tensor())))
        out[f"{name} placed"] = mapped(result, lambda x: str(x.placements))
        blocks = [mapped(x, block_of) for x in placed]
        out[f"{name} blocks"] = f(*[mapped(x, lambda x: as_numpy(x) if isinstance(x, torch.Tensor) else x) for x in blocks])
        out[f"{name} tensors"] = mapped(f(*blocks), lambda x: (type(x).__name__, as_numpy(x)))
    loss, (p, x, rate) = made["loss"], made["loss"].distributed(*whole["loss"])
    value, slope = loss.value_and_grad("p")(p, x, rate)
    out["value_and_grad"] = (float(value.to_local()), mapped(slope, lambda x: (str(x.placements), as_numpy(x.full_tensor()))))
    p = mapped(p, lambda x: x.detach().requires_grad_())
    loss(p, x, rate).backward()
    out["autograd"] = mapped(p, lambda x: (str(x.grad.placements), as_numpy(x.grad.full_tensor())))
    blocks = mapped(p, lambda x: x.to_local().detach().requires_grad_())
    loss(blocks, x.to_local(), rate).backward()
    out["autograd of blocks"] = mapped(blocks, lambda x: as_numpy(x.grad))
    p, x, rate = whole["loss"]
    p = mapped(p, lambda x: torch.from_numpy(x.copy()).requires_grad_())
    m.loss(p, torch.from_numpy(x), rate).backward()
    out["autograd without a mesh"] = mapped(p, lambda x: as_numpy(x.grad))
    wide = axon.shard(m.narrow, mesh, _split("narrow"), wide_sums=True)
    out["wide"] = as_numpy(wide(*wide.distributed(*whole["narrow"])).to_local())
    ordered = axon.shard(m.loss, mesh, SPLIT, deterministic=True)
    out["deterministic"] = float(ordered(*ordered.distributed(*whole["loss"])).to_local())
    p, x = made["apply"].distributed(*whole["apply"])
    other = axon.compile(SOURCE + "\nfun more x = x + 1.0")
    short = mapped(p, lambda x: as_numpy(x.to_local())[:-1] if rank == 2 else as_numpy(x.to_local()))
    turned = mapped(p, lambda x: x.redistribute(placements=x.placements[::-1]))
    for key, call in {
        "another source": lambda: axon.shard((other if rank == 3 else m).apply, mesh, SPLIT)(p, x),
        "another number": lambda: made["loss"](*whole["loss"][:2], 0.25 if rank == 1 else 0.5),
        "one number": lambda: made["loss"](*whole["loss"][:2], 1.0 if rank == 1 else 1),
        "another size": lambda: made["apply"](p, as_numpy(x.to_local())[: 2 if rank == 1 else 3]),
        "a broken contract": lambda: made["apply"](short, as_numpy(x.to_local())),
        "broken in all": lambda: made["apply"](mapped(p, lambda x: as_numpy(x.to_local())[:-1]), as_numpy(x.to_local())),
        "other placements": lambda: made["apply"](turned, x),
        "a broken size": lambda: made["apply"]({**blocks_of(p), "v": np.ones((3, 5), np.float32)}, as_numpy(x.to_local())),
        "no multiple of a DTensor": lambda: made["apply"](p, distribute_tensor(torch.ones(7, 3), mesh, [Shard(0), Replicate()])),
        "no multiple": lambda: made["apply"].distributed(whole["apply"][0], whole["apply"][1][:5]),
        "no such size": lambda: axon.shard(m.apply, mesh, {"q": "data"})(p, x),
        "and on": lambda: as_numpy(made["apply"](p, x).full_tensor()),
    }.items():
        try:
            out[key] = call()
        except AxonError as error:
            out[key] = told(error)
    x, ids = (as_numpy(x.to_local()) for x in made["chosen"].distributed(*whole["chosen"]))
    ids[1] = 7 if rank in (2, 3) else 1
    try:  # it ends all: some wait in the middle of a call
        out["an index"] = made["chosen"](x, ids)
    except AxonError as error:
        out["an index"] = told(error)
    return out


def qkv() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(5)
    return tuple(rng.standard_normal((2, 8, 4)).astype(np.float32) for _ in range(4))


def ring(rank: int) -> Any:
    """Attention, backward, of which blocks go round; and when each exchange began, each program ran, and each was waited for."""
    module, events = sys.modules["axon.core.sharding.shard"], list[tuple[str, float]]()
    forms = module._forms
    module._forms = lambda block, grid: list(forms(block, grid))[-1:]
    begin, wait, run = Pending.__init__, Pending.result, Processor.run

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def inner(*args: Any) -> Any:
            events.append((f"{name} begins", time.monotonic()))
            found = call(*args)
            events.append((f"{name} ended", time.monotonic()))
            return found

        return inner

    Pending.__init__, Pending.result = noted("exchange", begin), noted("wait", wait)
    Processor.run = noted("program", run)
    f = axon.shard(axon.compile(ATTEND).back, init_device_mesh("cpu", (2,), mesh_dim_names=("a",)), {"s": "a"})
    result = f(*f.distributed(*qkv()), target="interpret")
    return mapped(result, lambda x: as_numpy(settled(x.full_tensor()))), events


COUNTED = f"""{ATTEND}
fun product (x : f32[b, h]) (w : f32[h, k]) = for i j => sum c => x[i, c] * w[c, j]
fun scattered (x : f32[n, b]) = for j => sum i => x[i, j]
fun turned (x : f32[n, n]) = for i j => x[j, i]
fun window (x : f32[n, k]) = for i < n, j => x[i - 1, j | 0.0] + x[i + 2, j | 0.0]
fun torus (x : f32[n, k]) = for i < n, j => x[(i + 1) % n, j] + x[(i - 2) % n, j]
fun picked (x : f32[n, k]) (ids : i32[b]) = for i j => x[ids[i], j]
fun best (x : f32[b, n]) = for i => argmax j => x[i, j]
fun running (x : i32[b, n]) = for i => scan (op +, 0) j => x[i, j]
fun repeated (x : f32[b, h]) (w : f32[h, h]) = loop (y = x) for _ < 3 => for i j => sum c => y[i, c] * w[c, j]
fun narrow (x : bf16[n, k]) = for j => sum i => x[i, j]
"""
COUNTED_SIZES = {"b": 8, "h": 8, "k": 8, "n": 16, "s": 16, "c": 4}


def counted(rank: int) -> dict[str, tuple[int, int]]:
    """Of calls over meshes of four: the bytes that this process sent to others, and those of which `axon explain` speaks."""
    meshes = [init_device_mesh("cpu", (4,), mesh_dim_names=("m",)), init_device_mesh("cpu", (2, 2), mesh_dim_names=("d", "m"))]
    shard, call, made = sys.modules["axon.core.sharding.shard"], Running.call, list[tuple[Any, Any]]()
    sent, out, forms = [0], dict[str, tuple[int, int]](), shard._forms

    def count(module: Any, name: str, size: Callable[..., int]) -> None:
        begin = getattr(module, name)

        def counting(*args: Any, group: Any = None, **kwargs: Any) -> Any:
            if group is not None and group.group_desc != "axon":  # which compares calls
                sent[0] += size(args, dist.get_world_size(group), dist.get_group_rank(group, rank))
            return begin(*args, group=group, **kwargs)

        setattr(module, name, counting)

    def exchanged(args: Sequence[Any], p: int, own: int) -> int:
        return args[1].nbytes * (p - 1) // p if len(args) < 4 else sum(n for other, n in enumerate(args[3]) if other != own)

    count(c.dist, "all_reduce", lambda args, p, _: 2 * (p - 1) * args[0].nbytes // p)
    count(c, "_all_gather", lambda args, p, _: (p - 1) * args[1].nbytes)
    count(c, "_reduce_scatter", lambda args, p, _: (p - 1) * args[1].nbytes // p)
    count(c.dist, "all_to_all_single", exchanged)

    def noted(running: Any, sharded: Any, inputs: Any) -> Any:
        made.append((sharded, dict(running.sizes)))
        return call(running, sharded, inputs)

    Running.call = noted  # type: ignore[method-assign]
    module = axon.compile(COUNTED)
    for mesh in meshes:
        names = mesh.mesh_dim_names
        for name in module:
            goes_round = name in ("attend", "back")
            shard._forms = (lambda block, grid: list(forms(block, grid))[-1:]) if goes_round else forms
            split = {"b": names[0], "h": names[-1], "n": names[-1], "s": names[-1]} | ({"h": names[0]} if goes_round else {})
            program = compiler.lower(module._session.checked, name, None)
            named = {s.name for s in program.contract.determined()}
            split = {size: axis for size, axis in split.items() if size in named}
            if goes_round and len(names) == 1:
                split.pop("h")
            dims = {s: COUNTED_SIZES[s.name] for s in program.contract.determined()}
            given = [np.ones([d.evaluate(dims) for d in v.shape], v.element.dtype) for v in program.inputs]
            f = axon.shard(module[name], mesh, split)
            sent[0] = 0
            f(*f.distributed(*given), target="interpret")
            sharded, sizes = made[-1]
            told = sum(cost.bytes * cost.times for cost in costs(sharded, sizes, LINKS["nvlink"]))
            out[f"{name} over {sharded.mesh}"] = sent[0], told
    return out


# What Llama 3 is split by: data, tensor and sequence parallelism, and the first two together.
PARALLEL: dict[str, dict[str, str]] = {
    "data": {"b": "data"},
    "tensor": dict.fromkeys(("h", "g", "f"), "model"),
    "sequence": {"s": "data"},
    "both": {"b": "data", **dict.fromkeys(("h", "g", "f"), "model")},
}
HEADS, GROUPS_OF_HEADS = 4, 2


def llama_arguments() -> tuple[dict[str, Any], np.ndarray]:
    """Weights of two small layers, and tokens."""
    rng, n, d, c, f = np.random.default_rng(3), 2, 8, 4, 12

    def normal(*shape: int) -> np.ndarray:
        return (0.5 * rng.standard_normal(shape)).astype(np.float32)

    attention = {"q": normal(n, d, HEADS * c), "k": normal(n, d, GROUPS_OF_HEADS * c), "v": normal(n, d, GROUPS_OF_HEADS * c),
                 "out": normal(n, HEADS * c, d)}  # fmt: skip
    feed_forward = {"gate": normal(n, d, f), "up": normal(n, d, f), "down": normal(n, f, d)}
    norm1, norm2 = normal(n, d), normal(n, d)
    blocks = {"norm1": norm1, "attention": attention, "norm2": norm2, "feed_forward": feed_forward}
    p = {"tokens": normal(10, d), "blocks": blocks, "norm": normal(d), "out": normal(d, 10)}
    return p, rng.integers(0, 10, (4, 6)).astype(np.int32)


@cache
def llama_module() -> axon.Module:
    return axon.load(ROOT / "examples" / "models" / "llama3.axon")


def llama(rank: int) -> dict[str, Any]:
    """The logits of Llama 3, whose text says nothing of devices."""
    mesh, out = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model")), dict[str, Any]()
    for name, split in PARALLEL.items():
        f = axon.shard(llama_module().logits[HEADS, GROUPS_OF_HEADS], mesh, split)
        result = f(*f.distributed(*llama_arguments()))
        out[name] = str(result.placements), as_numpy(settled(result.full_tensor()))
    return out


def _split(name: str) -> dict[str, str]:
    return {"n": "data"} if name == "blur" else SPLIT if name in ("apply", "loss", "steps") else {"b": "data"}


def blocks_of(tree: Any) -> Any:
    """This process's blocks of DTensors, of NumPy."""
    return mapped(tree, lambda x: as_numpy(x.to_local()))


def block_of(x: Any) -> Any:
    return x.to_local() if hasattr(x, "to_local") else x


GROUPS: dict[str, tuple[int, Callable[[int], Any]]] = {
    "functions": (4, functions),
    "ring": (2, ring),
    "gpus": (2, on_gpus),
    "waits": (2, waits),
    "counted": (4, counted),
    **({"llama": (4, llama)} if SOAK else {}),
    **{work.__name__: (3, work) for work in (collectives, agrees, dies, hangs, fails, *((stops, leaves, is_late) if SOAK else ()))},
}
