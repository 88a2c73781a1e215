"""Processes that each have a GPU, an emulated one: what a mesh of GPUs does from the call to the results, but for NCCL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh

import axon
from axon.backend import libraries
from axon.backend.gpu.runtime import building, steps
from axon.core.sharding import Sharded, shard
from axon.core.sharding.layouts import Rates
from axon.host.devices.places import Gpu, calls_on
from tests.backend.gpu.runtime.emulated import built as built_at_once
from tests.backend.gpu.runtime.emulated import emulated

SLOW = Rates("slow", 1e9, 1e-9, 1e9, 1e12)  # of devices where computing and exchanging take long, and messages do not
EVEN = Rates("even", 1e9, 1e-9, 1e12, 1e12)  # of those where both take about as long: there programs leave room
TEXT = """
fun filled (x : f32[n]) = for i => x[n - 1 - i] + 0.5 * sum j => x[j]
fun diffuse (x : f32[n]) = loop (x = x) for t < 2 =>
  for i => if i = 0 orelse i = n - 1 then x[i] else 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1]
fun beside (w : f32[d, f]) (x : f32[n, d]) = for j i => 2.0 * sum c => w[c, j] * x[i, c]
fun scaled (a : f32) (x : f32[n]) = for i => a * x[i]
fun attend (q : f32[n, c]) (k : f32[n, c]) (v : f32[n, c]) =
  let val w = for i j => if j <= i then sum c => q[i, c] * k[j, c] else -inf
      val m = for i => max j => w[i, j]
      val e = for i j => exp (w[i, j] - m[i])
  in for i c => sum j => e[i, j] / (sum j => e[i, j]) * v[j, c] end
fun heads (q : f32[h, n, c]) (k : f32[h, n, c]) (v : f32[h, n, c]) (out : f32[h, c, d]) =
  let val w = for h i j => if j <= i then sum c => q[h, i, c] * k[h, j, c] else -inf
      val m = for h i => max j => w[h, i, j]
      val e = for h i j => exp (w[h, i, j] - m[h, i])
      val z = for h i => sum j => e[h, i, j]
      val y = for h i c => sum j => e[h, i, j] / z[h, i] * v[h, j, c]
  in for i d => sum h c => y[h, i, c] * out[h, c, d] end
fun slope (q : f32[h, n, c]) (k : f32[h, n, c]) (v : f32[h, n, c]) (out : f32[h, c, d]) =
  grad (fn (q, k, v) => sum i d => let val y = (heads q k v out)[i, d] in y * y end) (q, k, v)
"""
SPLIT = {"beside": {"n": "m", "f": "m"}, "slope": {"h": "m"}}  # else n alone


def arguments() -> dict[str, tuple[Any, ...]]:
    rng = np.random.default_rng(7)

    def small(*shape: int) -> np.ndarray:
        return rng.integers(-2, 3, shape).astype(np.float32)

    return {"filled": (small(8),), "diffuse": (small(8),), "beside": (small(6, 4), small(8, 6)), "scaled": (3, small(8)),
            "attend": (small(8, 4), small(8, 4), small(8, 4)),
            "slope": (small(2, 8, 4), small(2, 8, 4), small(2, 8, 4), small(2, 4, 4))}  # fmt: skip


def on_gpus(rank: int) -> dict[str, Any]:
    """The results of each, in a process that is forked for it: what is put in place of a GPU stays there."""
    patch = pytest.MonkeyPatch()
    driver, torch_there = emulated(patch), libraries.Torch("cpu")
    torch_there.stream, torch_there.current, torch_there.capturing = lambda device: 0, lambda: 0, lambda: False
    patch.setattr(libraries, "of", lambda x: torch_there if isinstance(x, torch.Tensor) else None)
    module, mesh = axon.compile(TEXT), init_device_mesh("cpu", (2,), mesh_dim_names=("m",))
    built: list[int] = []  # how many kernels at a time

    def counted(wanted: Any, target: Any) -> Any:
        built.append(len(wanted))
        return built_at_once(wanted, target)

    for part in (building, steps):
        patch.setattr(part, "build_all", counted)
    out: dict[str, Any] = {"rounds": []}
    for name, given in arguments().items():
        f: Any = axon.shard(getattr(module, name), mesh, SPLIT.get(name, {"n": "m"}))

        def planned(program: Any, sizes: Any, f: Any = f, rates: Rates = EVEN if name == "beside" else SLOW) -> Sharded:
            """As for sizes where what is exchanged takes long."""
            return shard(program, f._grid.mesh, f._options.split, {s: n << 12 for s, n in sizes.items()}, rates)

        f._forms.sharded = planned
        f._places[None] = Gpu(torch.device("cpu"), "sm_90", room=True)
        tensors = tuple(torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in given)
        built.clear()
        result = f(*f.distributed(*tensors))
        out[name] = [x.full_tensor().numpy() for x in (result if isinstance(result, tuple) else (result,))]
        out["rounds"].append(sum(map(bool, built)))
    counted = calls_on(torch.device("cpu"))
    out["under way"] = [counted.under_way()]
    counted.count(0)
    out["under way"].append(counted.under_way())
    return {**out, "launches": sum(driver.ran.values())}
