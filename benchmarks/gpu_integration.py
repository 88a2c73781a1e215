"""Axon inside other systems on one NVIDIA GPU: PyTorch's operators, its compiler and CUDA graphs, packages of AOTInductor, JAX, a
compiled GPT-2 that trains, and `axon bench`.

    python benchmarks/gpu_integration.py [STEP…] [--seconds 140] [--out FILE]

Each step is a process of its own, and each check in it stands alone: what fails is a row, and the others follow. Steps that check
run side by side, then those that time, one by one.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
SHARDS = 14
PROGRAM = """
import nn
type linear[d, k] = { w : f32[d, k], b : f32[k] }
fun dense (p : linear[d, k]) (x : f32[n, d]) = for i k => tanh (p.b[k] + sum j => x[i, j] * p.w[j, k])
fun norm (scale : 'a[d]) (x : 'a[..b, d]) = nn.standardize 1e-5 x * scale
fun pooled {window, stride} (x : 'a[n]) where window <= n, stride >= 1 =
  for i < (n - window) / stride + 1 => max for j < window => x[stride * i + j]
fun product (a : bf16[n, k]) (b : bf16[k, m]) = for i j => tanh (sum k => cast f32 a[i, k] * cast f32 b[k, j])
fun pick (table : f32[n, d]) (ids : i32[k]) = for i j => table[ids[i], j]
fun positive (x : f32[n]) = filter (for i => x[i] > 0.0) x
fun settled (x : f32[n]) = let val (y, _) = loop (y = x, e = 1.0) while e > 0.01 for _ < 20 =>
    (for i => y[i] * 0.5, e * 0.5) in y end
fun sorted (x : f32[n]) = sort x
"""


def row(what: str, check: Callable[[], Any]) -> None:
    """A line of the table: what a check says, or how it failed."""
    start = time.perf_counter()
    try:
        seen = check()
        said = "yes" if seen is None else str(seen)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = next((line for line in lines if "error[" in line), " ".join(lines[:2]))
        said = f"**{type(error).__name__}**: {told[:300]}".replace("|", "\\|")
        traceback.print_exc()
    print(f"| {what} | {said} | {time.perf_counter() - start:.1f} |", flush=True)


def close(got: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    import torch

    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)


# ── PyTorch ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def opcheck(shard: int, seconds: float) -> str:
    """`opcheck` of a part of the library, tensors on the GPU that require grad, until the time is over."""
    import torch

    from tests.host.pytorch import test_operators as suite
    from tests.host.pytorch.watching import operator_of
    from tests.library.library_case import CASES, function_of

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(moved, value))
        if isinstance(value, dict):
            return {name: moved(item) for name, item in value.items()}
        return value.cuda() if torch.is_tensor(value) else value

    counts, wrong, until = {"content": 0, "without a derivative": 0, "no tensor": 0}, [], time.perf_counter() + seconds
    own = sorted(CASES, key=lambda case: hash_of(case.name))[shard::SHARDS]
    for n, case in enumerate(own):
        if time.perf_counter() > until:
            return f"{n} of {len(own)} cases: {counts}; not content: {wrong or 'none'}"
        call, found = case.compare(suite.Fixed()), []
        args = moved(suite.tensors(call.arguments, found))
        if not found:
            counts["no tensor"] += 1
            continue
        try:
            operator, given = operator_of(function_of(case, call), *args)
            leaves = tuple(x.clone().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in given)
            try:
                torch.library.opcheck(operator, leaves)
                counts["content"] += 1
            except torch.testing._internal.optests.generate_tests.OpCheckError as error:
                if "AX0220" in str(error):
                    torch.library.opcheck(operator, given)
                    counts["without a derivative"] += 1
                elif suite.undefined(operator, leaves):
                    torch.library.opcheck(operator, tuple(map(suite.away_from_zero, leaves)))
                    counts["content"] += 1
                else:
                    raise
        except Exception as error:
            wrong.append(f"{case.name}: {' '.join(str(error).split())[:160]}")
    return f"all {len(own)} cases: {counts}; not content: {wrong or 'none'}"


def hash_of(name: str) -> str:
    import hashlib

    return hashlib.sha256(name.encode()).hexdigest()


def operators() -> None:
    import torch

    import axon

    m = axon.compile(PROGRAM)
    torch.manual_seed(0)

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda")

    def own(p: Any, x: Any) -> Any:
        return torch.tanh(x @ p["w"] + p["b"])

    def weights() -> dict[str, Any]:
        return {"w": (drawn(64, 32) / 8).requires_grad_(), "b": drawn(32).requires_grad_()}

    def compiled() -> None:
        p = weights()
        f = torch.compile(lambda x: m.dense(p, torch.relu(x)).square().sum(), fullgraph=True, dynamic=True)
        for n in (128, 40, 7):
            x = drawn(n, 64)
            got = torch.autograd.grad(f(x), list(p.values()))
            close(got, torch.autograd.grad(own(p, torch.relu(x)).square().sum(), list(p.values())), 2e-3)

    def contract() -> str:
        f = torch.compile(lambda x: m.pooled[3, 2](x), fullgraph=True)
        close(f(torch.arange(9.0, device="cuda")), torch.tensor([2.0, 4.0, 6.0, 8.0], device="cuda"))
        try:
            f(drawn(2))
        except RuntimeError as error:
            assert "the contract `window <= n` does not hold" in str(error)
            return "yes, and the contract is a guard"
        raise AssertionError("a broken contract passed")

    def overhead() -> None:
        p = weights()
        f = torch.compile(lambda x: own(p, m.norm(torch.ones(64, device="cuda"), x)) + 1, fullgraph=True, mode="reduce-overhead")
        with torch.no_grad():
            for _ in range(4):
                x = drawn(128, 64)
                close(f(x).clone(), own(p, torch.nn.functional.layer_norm(x, (64,))) + 1, 2e-3)

    def graph() -> None:
        a, b = drawn(128, 64).bfloat16(), drawn(64, 128).bfloat16()
        x = drawn(128, 64)
        p = {k: v.detach() for k, v in weights().items()}

        def run() -> Any:
            return m.product(a, b), m.dense(p, x)

        run()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            run()
            made = torch.cuda.CUDAGraph()
            with torch.cuda.graph(made, stream=stream):
                results = run()
        a.copy_(drawn(128, 64))
        x.copy_(drawn(128, 64))
        made.replay()
        torch.cuda.synchronize()
        close(results[0], torch.tanh(a.float() @ b.float()), 2e-2)
        close(results[1], own(p, x), 2e-3)

    def amp() -> None:
        p, x = weights(), drawn(128, 64)
        with torch.autocast("cuda", torch.bfloat16):
            narrow = x @ drawn(64, 64)
            y = m.dense(p, narrow)
        assert (narrow.dtype, y.dtype) == (torch.bfloat16, torch.float32)
        y.sum().backward()
        assert p["w"].grad.isfinite().all()
        with torch.autocast("cuda", torch.bfloat16):
            f = torch.compile(lambda x: m.dense(p, x @ x.T[:, :64]), fullgraph=True)
            assert f(x).dtype == torch.float32

    def vmapped() -> None:
        p, x = {k: v.detach() for k, v in weights().items()}, drawn(8, 64)
        by = torch.func.vmap(torch.func.grad(lambda p, row: m.dense(p, row[None]).square().sum()), in_dims=(None, 0))
        same = torch.func.vmap(torch.func.grad(lambda p, row: own(p, row[None]).square().sum()), in_dims=(None, 0))
        close(by(p, x), same(p, x), 2e-3)

    def exported() -> None:
        axon.register(m, "integration")

        class Model(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return m.pooled[3, 2](x)

        made = torch.export.export(Model(), (drawn(9),), dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}})
        assert "torch.ops.axon.integration_pooled.default(3, 2, x)" in made.graph_module.code
        x = drawn(20)
        close(made.module()(x), m.pooled[3, 2](x))

    def optimized() -> str:
        model = axon.nn.Module(m.dense, "p", {"d": 64, "k": 32}).cuda()
        step = torch.compile(lambda x, y: (model(x) - y).square().mean(), fullgraph=True)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        x, y = drawn(256, 64), drawn(256, 32).tanh()
        losses = []
        for _ in range(30):
            optimizer.zero_grad()
            loss = step(x, y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.8 * losses[0]
        return f"{losses[0]:.3f} to {losses[-1]:.3f} in 30 steps of a compiled `axon.nn.Module`"

    row("torch.compile(fullgraph, dynamic), inductor, with gradients, 3 sizes", compiled)
    row("a size by the signature's formula in a graph", contract)
    row('mode="reduce-overhead" (PyTorch\'s CUDA graphs)', overhead)
    row("torch.cuda.graph", graph)
    row("autocast, eager and compiled", amp)
    row("vmap of grad", vmapped)
    row("torch.export, registered", exported)
    row("a module that trains", optimized)


def package(device: str) -> None:
    """`axon build --torch`, for the host or the GPU: what AOTInductor compiles runs without Axon."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "dense.axon"
        source.write_text(
            "fun dense (x : bf16[n, d]) (w : bf16[d, k]) (scale : f32) =\n"
            "  for i j => scale * tanh (sum d => cast f32 x[i, d] * cast f32 w[d, j])\n"
        )
        folder = Path(place) / device
        options = ["--target", "cuda", "--sizes", "n=128,d=64,k=128"] if device == "cuda" else []
        command = [sys.executable, "-m", "axon", "build", f"{source}:dense", "--name", f"dense_{device}", "--torch"]
        row(f"axon build --torch, {device}", partial(checked, [*command, *options, "-o", str(folder)]))
        made = partial(checked, [sys.executable, "-c", PACKED, str(folder), device])
        row(f"an AOTInductor package of it, made, loaded and run in a process without Axon, {device}", made)


PACKED = """
import importlib.util, subprocess, sys
import torch
folder, device = sys.argv[1:]
name = f"dense_{device}"
spec = importlib.util.spec_from_file_location(name, f"{folder}/axon_{name}_torch.py")
spec.loader.exec_module(importlib.util.module_from_spec(spec))

class Model(torch.nn.Module):
    def forward(self, x, w):
        return getattr(torch.ops.axon_built, name)(torch.relu(x), w, 2.0) + 1

x, w = torch.randn(128, 64, device=device).bfloat16(), torch.randn(64, 128, device=device).bfloat16()
made = torch.export.export(Model(), (x, w))
# one package is made: headers compiled beforehand for others, and asking which vectors there are, would take most of the time
lean = {"aot_inductor.precompile_headers": False, "aot_inductor.compile_wrapper_opt_level": "O0", "cpp.vec_isa_ok": True}
lean["compile_threads"] = 1
path = torch._inductor.aoti_compile_and_package(made, package_path=f"{folder}/m.pt2", inductor_configs=lean)
run = f'''
import sys, torch
torch.ops.load_library("{folder}/libaxon_{name}_torch.so")
run = torch._inductor.aoti_load_package("{path}")
x, w = torch.randn(128, 64, device="{device}").bfloat16(), torch.randn(64, 128, device="{device}").bfloat16()
for _ in range(3):
    got = run(x, w)
want = 2.0 * torch.tanh(torch.relu(x).float() @ w.float()) + 1
assert torch.allclose(got, want, atol=3e-2), (got - want).abs().max()
assert "axon" not in sys.modules
'''
subprocess.run([sys.executable, "-c", run], check=True)
"""


def checked(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
        raise RuntimeError((done.stderr.strip() or done.stdout.strip())[-300:])


# ── JAX ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def in_jax() -> None:
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp
    import numpy as np

    import axon

    m = axon.compile(PROGRAM)
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape), jnp.float32)

    def own(p: Any, x: Any) -> Any:
        return jnp.tanh(jnp.dot(x, p["w"], precision="highest") + p["b"])

    def same(got: Any, wanted: Any, tolerance: float = 2e-3) -> None:
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance), got, wanted
        )
        assert all(next(iter(x.devices())).platform in ("gpu", "cuda") for x in jax.tree.leaves(got))

    p, x = {"w": drawn(64, 32) / 8, "b": drawn(32)}, drawn(128, 64)

    def total(of: Callable[..., Any]) -> Callable[..., Any]:
        return lambda p, x: (of(p, x) ** 2).sum()

    def jitted() -> str:
        f = jax.jit(lambda p, x: m.dense(p, jnp.sin(x)) + 1)
        for n in (128, 40):
            for _ in range(3):
                same(f(p, x[:n]), own(p, jnp.sin(x[:n])) + 1)
        return f"on {jax.devices()[0].device_kind}, JAX {jax.__version__}"

    def structures() -> None:
        a, b = drawn(128, 64).astype(jnp.bfloat16), drawn(64, 128).astype(jnp.bfloat16)
        same(jax.jit(m.product)(a, b), jnp.tanh(jnp.dot(a.astype(jnp.float32), b.astype(jnp.float32))), 2e-2)
        same(jax.jit(m.pooled[3, 2])(jnp.arange(9.0)), jnp.asarray([2.0, 4.0, 6.0, 8.0]))
        same(jax.jit(m.settled)(x[:, 0]), x[:, 0] / 128)
        same(jax.jit(m.sorted)(x[:, 0]), jnp.sort(x[:, 0]))

    def stopped() -> str:
        f = jax.jit(m.pick)
        same(f(x, jnp.asarray([3, 5], jnp.int32)), x[jnp.asarray([3, 5])])
        try:
            f(x, jnp.asarray([3, 500], jnp.int32)).block_until_ready()
            f(x, jnp.asarray([3, 5], jnp.int32)).block_until_ready()
        except Exception as error:
            assert "AX05" in str(error), error
            return next(line.strip() for line in str(error).splitlines() if "error[AX" in line)[:120]
        raise AssertionError("an index out of bounds passed")

    def scanned() -> None:
        def run(of: Callable[..., Any]) -> Any:
            return jax.jit(jax.grad(lambda p: jax.lax.scan(lambda s, row: (s + total(of)(p, row[None]), None), 0.0, x[:16])[0]))(p)

        same(run(m.dense), run(own), 1e-2)

    def trained() -> str:
        y = jnp.tanh(drawn(128, 32))

        @jax.jit
        def step(p: Any) -> Any:
            loss, g = jax.value_and_grad(lambda p: ((m.dense(p, x) - y) ** 2).mean())(p)
            return loss, jax.tree.map(lambda w, d: w - 2.0 * d, p, g)

        losses, now = [], p
        for _ in range(30):
            loss, now = step(now)
            losses.append(float(loss))
        assert losses[-1] < 0.7 * losses[0]
        return f"{losses[0]:.3f} to {losses[-1]:.3f} in 30 steps"

    def timed() -> str:
        a, b = drawn(4096, 4096).astype(jnp.bfloat16), drawn(4096, 4096).astype(jnp.bfloat16)
        small = a[:128, :128].copy(), b[:128, :128].copy()
        ours = jax.jit(lambda a, b: m.product(a, b))
        theirs = jax.jit(lambda a, b: jnp.tanh(jnp.dot(a, b, preferred_element_type=jnp.float32)))
        said = []
        for label, given, calls in (("4096³", (a, b), 20), ("128³", small, 200)):
            times: dict[str, list[float]] = {"ours": [], "theirs": []}
            for f in (ours, theirs):
                for _ in range(3):
                    f(*given).block_until_ready()
            for _ in range(15):
                for name, f in (("ours", ours), ("theirs", theirs)):
                    start = time.perf_counter()
                    for _ in range(calls):
                        made = f(*given)
                    made.block_until_ready()
                    times[name].append((time.perf_counter() - start) / calls * 1e6)
            said.append(f"{label}: {median(times['ours']):.1f} µs a call, JAX's own {median(times['theirs']):.1f}")
        return "; ".join(said)

    row("JAX: outside of transformations", lambda: same(m.dense(p, x), own(p, x)))
    row("JAX: jit", jitted)
    row("JAX: bf16 on the tensor cores, dimension parameters, a loop that data end, a sort", structures)
    row(
        "JAX: jit of value_and_grad",
        lambda: same(*[jax.jit(jax.value_and_grad(total(f), argnums=(0, 1)))(p, x) for f in (m.dense, own)], 1e-2),
    )
    row(
        "JAX: vmap of grad",
        lambda: same(*[jax.jit(jax.vmap(jax.grad(total(f)), in_axes=(None, 0)))(p, x[:8, None]) for f in (m.dense, own)], 1e-2),
    )
    row("JAX: hessian", lambda: same(*[jax.hessian(total(f), argnums=1)(p, x[:1]) for f in (m.dense, own)], 1e-2))
    row("JAX: grad of scan", scanned)
    row("JAX: an index out of bounds", stopped)
    row("JAX: trains", trained)
    row("JAX: product with tanh in bf16", timed)


# ── what is timed alone ─────────────────────────────────────────────────────────────────────────────────────────────────


def gpt2(seconds: float) -> None:
    command = [sys.executable, str(ROOT / "benchmarks/gpt2_compiled.py"), "--device", "cuda", "--rounds", "11", "--no-calls"]
    command += ["--layers", "2", "--width", "768", "--heads", "12", "--length", "512", "--batch", "8", "--steps", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    print(f"\n{done.stdout}" if not done.returncode else f"\nGPT-2: {done.stderr[-2000:]}")


def bench() -> None:
    with tempfile.TemporaryDirectory() as place:
        at = Path(place)
        (at / "model.axon").write_text("import nn\nfun softmax (x : f32[n, d]) = nn.softmax x\n")
        (at / "peer.py").write_text("import torch\ndef softmax(x):\n    return torch.softmax(x, 1)\n")
        command = [sys.executable, "-m", "axon", "bench", "model.axon:softmax", "x=randn(f32[n, d])", "n=128,8192", "d=1024"]
        command += ["--against", "peer.py", "--target", "cuda", "--plot", "times.svg"]
        path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place, timeout=60, env=path)
        print(f"\n$ axon {' '.join(command[3:])}\n{done.stdout}{done.stderr}\nplot: {(at / 'times.svg').exists()}")
        command = [sys.executable, "-m", "axon", "view", "model.axon:softmax", "x=randn(f32[8192, 1024])", "--target", "cuda"]
        done = subprocess.run([*command, "--measure"], capture_output=True, text=True, check=False, cwd=place, timeout=60, env=path)
        page = (at / "softmax.html").read_text(encoding="utf-8") if (at / "softmax.html").exists() else ""
        told = next((line for line in page.split("<p>") if line.startswith("A call takes")), "no roofline")
        print(f"\n$ axon {' '.join(command[3:])} --measure\n{done.stdout}{done.stderr}{told.partition('</p>')[0]}")


# ── all of it ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def step(name: str, seconds: float) -> None:
    match name.partition("-")[0]:
        case "operators":
            operators()
        case "opcheck":
            shard = int(name.partition("-")[2])
            row(f"opcheck of the library, part {shard + 1} of {SHARDS}", lambda: opcheck(shard, seconds))
        case "package":
            package(name.partition("-")[2])
        case "jax":
            in_jax()
        case "gpt2":
            gpt2(seconds)
        case "bench":
            bench()


def run(name: str, seconds: float) -> str:
    """A step in a process of its own: what it printed."""
    command = [sys.executable, __file__, "--step", name, "--seconds", str(seconds)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        try:
            status = subprocess.run(command, stdout=out, stderr=errors, check=False, timeout=seconds + 20).returncode
        except subprocess.TimeoutExpired:
            status = -1
        for file in (out, errors):
            file.seek(0)
        said = errors.read()
        if status or "Traceback" in said:
            print(f"──── {name}\n{said[-2500:]}", file=sys.stderr, flush=True)
        return out.read() + (f"| {name} | ended with {status} | |\n" if status else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("steps", nargs="*", help="operators, opcheck, package, jax, gpt2, bench; all of them if none is named")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=140)
    parser.add_argument("--out", help="a file for the result")
    options = parser.parse_args()
    if options.step:
        step(options.step, options.seconds)
        return
    import torch

    wanted = options.steps or ["operators", "opcheck", "package", "jax", "gpt2", "bench"]
    begun = time.perf_counter()
    beside = [n for n in ("operators", "jax") if n in wanted]
    beside += ["package-cuda", "package-cpu"] if "package" in wanted else []
    beside += [f"opcheck-{n}" for n in range(SHARDS)] if "opcheck" in wanted else []
    alone = [name for name in ("gpt2", "bench") if name in wanted]
    share = options.seconds * (0.45 if alone else 1.0)
    with ThreadPoolExecutor(max(1, len(beside))) as pool:
        parts = list(pool.map(lambda name: run(name, share - 20), beside))
    lines = [f"{date.today()}, {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Python {platform.python_version()}", ""]
    lines += ["| what | seen | s |", "|---|---|---:|", *"".join(parts).splitlines()]
    print("\n".join(lines), flush=True)
    for name in alone:
        said = run(name, max(20.0, options.seconds - (time.perf_counter() - begun) - 20))
        print(said, flush=True)
        lines.append(said)
    print(f"{time.perf_counter() - begun:.0f} s in all")
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
