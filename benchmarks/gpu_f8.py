"""Products of 8-bit floats and integers against PyTorch's (cuBLASLt), and attention of 8-bit floats against bf16, on a Hopper GPU.

    python benchmarks/gpu_f8.py [--quick] [--only products|attention] [--out FILE]

Each program is a line of Axon: `promoted` as it stands, against `torch._scaled_mm` without fast accumulation; `fast` with
`precision = "fast"` in its schedule, against it with; `rows` with a scale for each row of both factors, against it with the same
scales; `blocks` with a scale for each 128 of the depth, of each row and of each 128 × 128 of the other factor, against Axon's own
product without scales; `i8` in i32, against `torch._int_mm`. Results are bf16, of `i8` i32. They are compared with float64 first:
of floats by the relative error (in the Euclidean norm), which may be that of PyTorch's, of integers each element. Then both sides
run in CUDA graphs that rotate inputs over four times the L2 cache; replays alternate, and the ratio is the median of the ratios of
neighbours. A ratio above 1 says Axon is faster. Rows below what they are to reach (1, of `blocks` 0.95), and errors over PyTorch's,
are named behind the tables, and end the run with an error. What PyTorch refuses (few rows of integers) has no row.

`attention` is Axon's own in 8-bit floats against its own in bf16, of the same numbers: 16 K tokens, 2,048 / head heads, 1 K to 16 K
positions in a sequence, full and causal; with weights in bf16 (`scores`), rounded to 8 bits by the program (`weights`), or by
`precision = "fast"`. Both errors are those against float64, of the first head. Of heads of 128 and 16 K positions the best of the
three is to be 1.4 times as fast.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from racing import mean, report, rotated

import axon

PRODUCT = "for i j => cast bf16 (sum c => cast f32 a[i, c] * cast f32 b[j, c])"
SOURCES = {
    "promoted": f"fun f (a : f8e4m3[m, k]) (b : f8e4m3[n, k]) = {PRODUCT}",
    "fast": f"fun f (a : f8e4m3[m, k]) (b : f8e4m3[n, k]) = {PRODUCT}",
    "rows": """fun f (a : f8e4m3[m, k]) (b : f8e4m3[n, k]) (s : f32[m]) (u : f32[n]) =
  for i j => cast bf16 (s[i] * u[j] * sum c => cast f32 a[i, c] * cast f32 b[j, c])""",
    "blocks": """fun f
    (a : f8e4m3[m, k]) (b : f8e4m3[n, k]) (s : f32[m, (k + 127) / 128]) (u : f32[(n + 127) / 128, (k + 127) / 128]) =
  for i j => cast bf16 (sum c => (cast f32 a[i, c] * s[i, c / 128]) * (cast f32 b[j, c] * u[j / 128, c / 128]))""",
    "i8": "fun f (a : i8[m, k]) (b : i8[n, k]) = for i j => sum c => cast i32 a[i, c] * cast i32 b[j, c]",
}
BARS = {"blocks": 0.95}
ERROR = 1.02  # times PyTorch's: both round to bf16, which is most of it
SQUARES = [(n, n, n) for n in (2048, 4096, 8192)]
LLAMA = {  # Llama 3 8B: columns and depth of a layer's products
    "q, k and v": (6144, 4096), "output": (4096, 4096), "gate and up": (28672, 4096), "down": (4096, 14336),
}  # fmt: skip
ROWS = (1, 8, 16, 64, 128, 512, 2048, 8192)
RATE = 1.0e15  # about, of either side


def side(kind: str, folder: str) -> Any:
    """Axon's function."""
    file = Path(folder) / f"{kind}.axon"
    file.write_text(SOURCES[kind], encoding="utf-8")
    if kind == "fast":
        file.with_suffix(".schedule").write_text('[f]\nprecision = "fast"\n', encoding="utf-8")
    return axon.load(file).f


def peer(kind: str, folder: str) -> Callable[..., Any]:
    """What it is compared with."""
    import torch

    one = torch.ones((), device="cuda")

    def scaled(a: Any, b: Any, s: Any = None, u: Any = None) -> Any:
        scales = (one, one) if s is None else (s[:, None], u[None, :])
        return torch._scaled_mm(a, b.t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=kind == "fast")

    if kind == "i8":
        return lambda a, b: torch._int_mm(a, b.t())
    if kind == "blocks":
        own = side("promoted", folder)
        return lambda a, b, s, u: own(a, b)
    return scaled


def given(kind: str, m: int, n: int, k: int) -> list[Any]:
    """Factors, and their scales."""
    import torch

    if kind == "i8":
        return [torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8) for shape in ((m, k), (n, k))]
    factors = [torch.randn(*shape, device="cuda").to(torch.float8_e4m3fn) for shape in ((m, k), (n, k))]
    blocks = -(-k // 128)
    shapes = {"rows": ((m,), (n,)), "blocks": ((m, blocks), (-(-n // 128), blocks))}.get(kind, ())
    return factors + [torch.rand(*shape, device="cuda") + 0.5 for shape in shapes]


def exact(kind: str, tensors: list[Any]) -> Any:
    """The product in float64."""
    a, b, *scales = (x.double() for x in tensors)
    if kind == "rows":
        a, b = a * scales[0][:, None], b * scales[1][:, None]
    if kind == "blocks":
        k = a.shape[1]
        a = a * scales[0].repeat_interleave(128, 1)[:, :k]
        b = b * scales[1].repeat_interleave(128, 0)[: len(b)].repeat_interleave(128, 1)[:, :k]
    return a @ b.t()


def off(got: Any, want: Any) -> float:
    return float((got.double() - want).norm() / want.norm())


def table(kind: str, shapes: list[tuple[str, int, int, int]], folder: str, over: list[str]) -> list[str]:
    """The rows of one kind; what is slower, or less exact, than it is to be is added to `over`."""
    import torch

    f, other = side(kind, folder), peer(kind, folder)
    lines = ["| product | other µs | Axon µs | TFLOP/s | ratio | error | other's |", "| --- |" + " --- |" * 6]
    ratios = []
    for name, m, n, k in shapes:
        tensors = given(kind, m, n, k)
        try:
            theirs = other(*tensors)
        except RuntimeError as refused:
            print(f"{kind}, {name}: {str(refused).splitlines()[0]}", flush=True)
            continue
        want = exact(kind, tensors)
        # Axon's product without scales is no peer for errors: of blocks the other is the product of what is dequantized, in bf16.
        theirs = want.bfloat16() if kind == "blocks" else theirs
        errors = off(f(*tensors), want), off(theirs, want)
        most = 0.0 if kind == "i8" else ERROR * errors[1]
        if not errors[0] <= most and kind != "blocks":
            over.append(f"{kind}, {name}: an error of {errors[0]:.2e}, and PyTorch's is {errors[1]:.2e}")
        del want, theirs, tensors
        flops, moved = 2 * m * n * k, m * k + n * k + (4 if kind == "i8" else 2) * m * n
        run = rotated([f, other], lambda m=m, n=n, k=k: given(kind, m, n, k), moved, max(flops / RATE, moved / 4e12))  # type: ignore[misc]
        own, others = run.seconds
        ratios.append(run.ratio(1, 0))
        if ratios[-1] < BARS.get(kind, 1.0):
            over.append(f"{kind}, {name}: {ratios[-1]:.3f} times as fast")
        times = f"{others * 1e6:.1f} | {own * 1e6:.1f} | {flops / own / 1e12:.0f}"
        lines.append(f"| {name} | {times} | {ratios[-1]:.3f} | {errors[0]:.2e} | {errors[1]:.2e} |")
        print(f"{kind} {lines[-1]}", flush=True)
        torch.cuda.empty_cache()
    return [*lines, "", f"geometric mean {mean(ratios):.3f}, least {min(ratios):.3f}, of {len(ratios)}"]


CHANGES = {"full": "x[..b, i, j]", "causal": "if j <= i then x[..b, i, j] else -inf"}
WEIGHTS = {"scores": "p[..b, i, j]", "weights": "cast f32 (cast f8e4m3 p[..b, i, j])", "fast": "p[..b, i, j]"}
ATTENTION = """import nn
fun f (q : {element}[..b, s, d]) (k : {element}[..b, s, d]) (v : {element}[..b, s, e]) =
  let val x = for ..b i j => rsqrt (cast f32 d) * (sum c => cast f32 q[..b, i, c] * cast f32 k[..b, j, c])
      val p = nn.softmax (for ..b i j => {change})
  in for ..b i c => cast bf16 (sum j => {weight} * cast f32 v[..b, j, c]) end"""
TOKENS, WIDTH, BAR = 16384, 2048, 1.4
MOST = {"scores": 4e-3, "weights": 0.05, "fast": 0.08}  # of the error


def attention(kind: str, change: str, folder: str) -> Any:
    """Axon's function, in 8-bit floats or, of no kind, in bf16."""
    file = Path(folder) / f"attention_{kind}_{change}.axon"
    element = "f8e4m3" if kind else "bf16"
    weight = WEIGHTS[kind or "scores"]
    file.write_text(ATTENTION.format(element=element, change=CHANGES[change], weight=weight), encoding="utf-8")
    if kind == "fast":
        file.with_suffix(".schedule").write_text('[f]\nprecision = "fast"\n', encoding="utf-8")
    return axon.load(file).f


def exact_attention(tensors: list[Any], change: str) -> Any:
    """In float64, of the first sequence's first head."""
    import torch

    q, k, v = (x[0, 0].double() for x in tensors)
    x = q @ k.t() * q.shape[-1] ** -0.5
    if change == "causal":
        x = x.masked_fill(torch.ones_like(x, dtype=torch.bool).triu(1), -float("inf"))
    return torch.softmax(x, -1) @ v


def attention_table(quick: bool, folder: str, over: list[str]) -> list[str]:
    """The rows of attention, of each kind against bf16."""
    import torch

    lines = ["| head, positions | bf16 µs | kind | µs | TFLOP/s | ratio | error | bf16's |", "| --- |" + " --- |" * 7]
    for change in CHANGES:
        wide = attention("", change, folder)
        for head in (64, 128):
            for length in (4096, 16384) if quick else (1024, 2048, 4096, 8192, 16384):
                shape = (TOKENS // length, WIDTH // head, length, head)
                tensors = [torch.randn(*shape, device="cuda").to(torch.float8_e4m3fn) for _ in range(3)]
                want = exact_attention(tensors, change)
                of_wide = off(wide(*(x.bfloat16() for x in tensors))[0, 0], want)
                flops = 4 * shape[0] * shape[1] * length * length * head / (2 if change == "causal" else 1)
                best = 0.0
                for kind in WEIGHTS:
                    f = attention(kind, change, folder)
                    error = off(f(*tensors)[0, 0], want)
                    if not error <= MOST[kind]:
                        over.append(f"attention, {change} {head} × {length}, {kind}: an error of {error:.2e}")

                    def fresh(shape: tuple[int, ...] = shape) -> list[Any]:
                        made = [torch.randn(*shape, device="cuda").to(torch.float8_e4m3fn) for _ in range(3)]
                        return [*made, *(x.bfloat16() for x in made)]

                    sides = [lambda *x, f=f: f(*x[:3]), lambda *x, wide=wide: wide(*x[3:])]
                    moved = 11 * TOKENS * WIDTH
                    run = rotated(sides, fresh, moved, flops / 7e14)
                    own, others = run.seconds
                    ratio = run.ratio(1, 0)
                    best = max(best, ratio)
                    rate = f"{own * 1e6:.1f} | {flops / own / 1e12:.0f} | {ratio:.3f} | {error:.2e} | {of_wide:.2e}"
                    lines.append(f"| {change} {head} × {length} | {others * 1e6:.1f} | {kind} | {rate} |")
                    print(f"attention {lines[-1]}", flush=True)
                if (head, length) == (128, TOKENS) and best < BAR:
                    over.append(f"attention, {change} {head} × {length}: {best:.3f} times as fast as bf16")
                torch.cuda.empty_cache()
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the squares alone, and attention of 4 K and 16 K positions")
    parser.add_argument("--only", choices=("products", "attention"), help="one of the two")
    parser.add_argument("--out", help="write the tables to this file")
    options = parser.parse_args()
    import torch

    shapes = [(f"{m}×{n}×{k}", m, n, k) for m, n, k in SQUARES]
    if not options.quick:
        shapes += [(f"{what}, {m}×{n}×{k}", m, n, k) for what, (n, k) in LLAMA.items() for m in ROWS]
    over: list[str] = []
    lines = [f"# Products of 8 bits, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}"]
    with tempfile.TemporaryDirectory() as folder:
        for kind in SOURCES if options.only != "attention" else ():
            lines += ["", f"## {kind}", "", *table(kind, shapes, folder, over)]
        if options.only != "products":
            lines += ["", "## attention", "", *attention_table(options.quick, folder, over)]
    report([*lines, "", *(over or ["All within their limits."])], options.out)
    if over:
        sys.exit(f"{len(over)} rows are over their limit")


if __name__ == "__main__":
    main()
