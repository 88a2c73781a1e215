"""Attention in f32 against the best of PyTorch in f32, and products that round to tf32 against cuBLAS's, on one Hopper GPU.

    python benchmarks/gpu_f32.py [--out FILE]

Each program is a few lines of Axon, without a schedule but for `precision = "tf32"` of the products. Results are compared with
float64 first: of attention by the greatest relative error of a row (in the Euclidean norm, over some heads), which may be that of
PyTorch's most exact side, since any sum in f32 loses more the longer it is; of products by the bound that is stated for them. Rows
over their limit are named behind the tables, and end the run with an error.

Both sides run in CUDA graphs that rotate inputs over four times the L2 cache, what Axon does to the factors counted; replays
alternate, and the ratio is the median of the ratios of neighbours. PyTorch's attention is each of its backends that takes f32, and
its definition (two products and a softmax): the ratio is to the fastest. TF32 is off for attention on both sides. A ratio above 1
says Axon is faster.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from attention_sources import SOURCES
from gpu_product_f32 import SOURCES as PRODUCTS
from racing import mean, report, rotated

import axon
from axon.backend.gpu.tile.limbs import tf32_error_bound

HEADS = [(work, 8192 // s, 2048 // d, s, d) for d in (64, 128) for work in ("full", "causal") for s in (1024, 2048, 4096, 8192)]
SHAPES = [
    *((n, n, n, "nt") for n in (512, 1024, 2048, 4096, 8192)),
    *((4096, 4096, 4096, layout) for layout in ("nn", "tn", "tt")),
    (4096, 4096, 16384, "nt"), (128, 4096, 4096, "nt"), (1000, 1000, 1000, "nt"),
]  # fmt: skip
CHECKED = 4  # heads whose results are compared


def attention_sides(causal: bool) -> dict[str, Callable[..., Any]]:
    """What PyTorch has for f32."""
    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def by(backend: Any) -> Callable[..., Any]:
        def run(q: Any, k: Any, v: Any) -> Any:
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    def definition(q: Any, k: Any, v: Any) -> Any:
        x = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if causal:
            x = x.masked_fill(torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        return torch.softmax(x, -1) @ v

    named = {backend.name.lower(): by(backend) for backend in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)}
    return {**named, "definition": definition}


def row_error(got: Any, exact: Any) -> float:
    """The greatest relative error of a row, of the heads that there are exact results of."""
    return float(((got[:1, :CHECKED].double() - exact).norm(dim=-1) / exact.norm(dim=-1)).max())


def attention(over: list[str]) -> list[str]:
    """The table; what is less exact than PyTorch is added to `over`."""
    import torch

    titles = "| attention | best of PyTorch | µs | Axon µs | TFLOP/s | ratio | error | least of PyTorch's | of that |"
    lines = [titles, "| --- |" + " --- |" * 8]
    ratios = []
    for work, batch, heads, sequence, head in HEADS:
        shape = (batch, heads, sequence, head)
        f = axon.compile(SOURCES[work].replace("bf16", "f32")).f

        def fresh(shape: tuple[int, ...] = shape) -> list[Any]:
            return [torch.randn(*shape, device="cuda") for _ in range(3)]

        peers = attention_sides(work == "causal")
        given = fresh()
        exact = peers["definition"](*(x[:1, :CHECKED].double() for x in given))
        ours, theirs = row_error(f(*given), exact), min(row_error(peer(*given), exact) for peer in peers.values())
        pairs = sequence * sequence / (2 if work == "causal" else 1)
        flops = 4 * batch * heads * head * pairs
        run = rotated([f, *peers.values()], fresh, 16 * batch * heads * sequence * head, flops / 5e13)
        own, *others = run.seconds
        best = min(range(len(others)), key=others.__getitem__)
        ratios.append(run.ratio(1 + best, 0))
        times = f"{others[best] * 1e6:.0f} | {own * 1e6:.0f} | {flops / own / 1e12:.0f}"
        name = f"{work}, {'×'.join(map(str, shape))}"
        errors = f"{ours:.1e} | {theirs:.1e} | {ours / theirs:.2f}"
        lines.append(f"| {name} | {list(peers)[best]} | {times} | {ratios[-1]:.2f} | {errors} |")
        print(lines[-1], flush=True)
        if not ours <= theirs:
            over.append(f"attention, {name}: an error of {ours:.1e}, and PyTorch's is {theirs:.1e}")
        torch.cuda.empty_cache()
    return [*lines, "", f"geometric mean {mean(ratios):.2f}, least {min(ratios):.2f}, of {len(ratios)}"]


def products(over: list[str]) -> list[str]:
    """The table; what is off by more than is allowed is added to `over`."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    lines = ["| product | cuBLAS µs | Axon µs | TFLOP/s | ratio | error, of the allowed |", "| --- |" + " --- |" * 5]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for m, n, k, layout in SHAPES:
            file = Path(folder) / f"{layout}.axon"
            file.write_text(PRODUCTS[layout], encoding="utf-8")
            file.with_suffix(".schedule").write_text('[f]\nprecision = "tf32"\n', encoding="utf-8")
            f = axon.load(file).f

            def fresh(m: int = m, n: int = n, k: int = k, layout: str = layout) -> list[Any]:
                left, right = ((m, k) if layout[0] == "n" else (k, m)), ((n, k) if layout[1] == "t" else (k, n))
                return [torch.randn(*shape, device="cuda") for shape in (left, right)]

            def peer(a: Any, b: Any, layout: str = layout) -> Any:
                return (a if layout[0] == "n" else a.t()) @ (b if layout[1] == "n" else b.t())

            given = fresh()
            wide = [x.double() for x in given]
            exact, mass = peer(*wide), peer(*(x.abs() for x in wide))
            off = float(((f(*given).double() - exact).abs() / mass).max()) * 2**10
            if not off <= tf32_error_bound(k):
                over.append(f"product, {m}×{n}×{k} {layout}: off by {off:.3g} · 2⁻¹⁰, of {tf32_error_bound(k):.3g} allowed")
            flops = 2 * m * n * k
            run = rotated([f, peer], fresh, 4 * (m * k + n * k + m * n), flops / 3e14)
            own, theirs = run.seconds
            ratios.append(run.ratio(1, 0))
            times = f"{theirs * 1e6:.1f} | {own * 1e6:.1f} | {flops / own / 1e12:.0f}"
            lines.append(f"| {m}×{n}×{k} {layout} | {times} | {ratios[-1]:.3f} | {off / tf32_error_bound(k):.2f} |")
            print(lines[-1], flush=True)
            torch.cuda.empty_cache()
    return [*lines, "", f"geometric mean {mean(ratios):.3f}, least {min(ratios):.3f}, of {len(ratios)}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", help="write the tables to this file")
    options = parser.parse_args()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    title = f"# f32 attention and tf32 products, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}"
    over: list[str] = []
    lines = [title, "", "## Attention", "", *attention(over), "", "## Products in tf32", "", *products(over)]
    report([*lines, "", *(over or ["All within their limits."])], options.out)
    if over:
        sys.exit(f"{len(over)} rows are over their limit")


if __name__ == "__main__":
    main()
