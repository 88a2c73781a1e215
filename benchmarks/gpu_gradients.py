"""Derivatives by Axon against PyTorch's autograd, on one Hopper GPU.

    python benchmarks/gpu_gradients.py [--elements bf16 f32] [--only NAME …] [--out FILE]

Each is a value and its derivatives: `vjp` of a function whose forward pass is run too, on both sides, in CUDA graphs that rotate
inputs over four times the L2 cache and are replayed in turn. A ratio above 1 says that Axon is faster. TF32 is off.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

from racing import mean, report, rotated

import axon

TYPES = {"bf16": "bfloat16", "f32": "float32"}
WITHIN = {"bf16": 3e-2, "f32": 1e-4}
ATTENTION = (
    "fun f (q : E[g, t, d]) (k : E[g, s, d]) (v : E[g, s, d]) (dy : E[g, t, d]) = vjp (fn (q, k, v) => "
    "let val p = nn.softmax (for h i j => (sum e => q[h, i, e] * k[h, j, e]) * 0.125) "
    "in for h i e => sum j => p[h, i, j] * v[h, j, e] end) (q, k, v) dy"
)


@dataclass(frozen=True)
class Case:
    """`shapes` of the inputs; a name stands for indices below a size. The first `by` inputs are differentiated by."""

    name: str
    text: str
    peer: Callable[..., Any]
    shapes: tuple[Any, ...]
    by: int


def cases() -> list[Case]:
    import torch

    f = torch.nn.functional
    dense = "fun f (x : E[b, d]) (w : E[d, h]) (dy : E[b, h]) = vjp (fn (x, w) => x @ w) (x, w) dy"
    layer = (
        "fun f (x : E[b, d]) (w : E[d, h]) (c : E[h]) (dy : E[b, h]) = "
        "vjp (fn (x, w, c) => nn.gelu (nn.dense { w = w, b = c } x)) (x, w, c) dy"
    )
    norm = (
        "fun f (x : E[b, d]) (g : E[d]) (c : E[d]) (dy : E[b, d]) = "
        "vjp (fn (x, g, c) => nn.layer_norm { scale = g, shift = c } x) (x, g, c) dy"
    )
    rms = "fun f (x : E[b, d]) (g : E[d]) (dy : E[b, d]) = vjp (fn (x, g) => nn.rms_norm g x) (x, g) dy"
    soft = "fun f (x : E[b, d]) (dy : E[b, d]) = vjp (fn x => nn.softmax x) x dy"
    entropy = "fun f (x : E[b, d]) (t : i32[b]) = value_and_grad (fn x => nn.cross_entropy x t) x"
    embedded = "fun f (w : E[v, d]) (t : i32[b]) (dy : E[b, d]) = vjp (fn w => for i j => w[t[i], j]) w dy"
    conv = (
        "fun f (x : E[n, c, h, w]) (k : E[o, c, r, s]) dy = vjp (fn (x, k) => nn.conv2d_with {STRIDE, PADDING, 1, 1} x k) (x, k) dy"
    )
    transposed = "fun f (x : E[n, c, h, w]) (k : E[c, o, 4, 4]) dy = vjp (fn (x, k) => nn.conv2d_transpose {2, 1} x k) (x, k) dy"

    def convolved(stride: int, size: int, *shapes: tuple[int, ...]) -> Case:
        text = conv.replace("STRIDE", str(stride)).replace("PADDING", str(size // 2))
        return Case(f"convolution by {stride}", text, lambda x, k: f.conv2d(x, k, None, stride, size // 2), shapes, 2)

    gelu = "fun f (x : E[b, d]) (dy : E[b, d]) = vjp (fn x => nn.gelu x) x dy"

    def attention(q: Any, k: Any, v: Any) -> Any:
        return f.scaled_dot_product_attention(q[None], k[None], v[None])[0]

    return [
        Case("dense", dense, lambda x, w: x @ w, ((4096, 1024), (1024, 4096)), 2),
        Case("dense", dense, lambda x, w: x @ w, ((8192, 4096), (4096, 4096)), 2),
        Case("gelu layer", layer, lambda x, w, c: f.gelu(x @ w + c), ((4096, 1024), (1024, 4096), (4096,)), 3),
        Case("layer norm", norm, lambda x, g, c: f.layer_norm(x, x.shape[-1:], g, c), ((8192, 1024), (1024,), (1024,)), 3),
        Case("layer norm", norm, lambda x, g, c: f.layer_norm(x, x.shape[-1:], g, c), ((4096, 8192), (8192,), (8192,)), 3),
        Case("rms norm", rms, lambda x, g: f.rms_norm(x, x.shape[-1:], g, 1e-5), ((8192, 4096), (4096,)), 2),
        Case("softmax", soft, lambda x: f.softmax(x, -1), ((8192, 4096),), 1),
        Case("gelu", gelu, f.gelu, ((8192, 4096),), 1),
        Case("cross entropy", entropy, lambda x, t: f.cross_entropy(x, t.long()), ((4096, 32000), (4096, 32000, "below")), 1),
        Case("cross entropy", entropy, lambda x, t: f.cross_entropy(x, t.long()), ((8192, 50257), (8192, 50257, "below")), 1),
        Case("cross entropy", entropy, lambda x, t: f.cross_entropy(x, t.long()), ((2048, 128256), (2048, 128256, "below")), 1),
        Case("embedding", embedded, lambda w, t: f.embedding(t, w), ((50257, 768), (8192, 50257, "below")), 1),
        Case("attention", ATTENTION, attention, ((16, 1024, 64),) * 3, 3),
        convolved(1, 3, (64, 64, 56, 56), (64, 64, 3, 3)),
        convolved(1, 3, (64, 256, 14, 14), (256, 256, 3, 3)),
        convolved(2, 3, (64, 128, 56, 56), (128, 128, 3, 3)),
        convolved(2, 1, (64, 256, 56, 56), (512, 256, 1, 1)),
        convolved(2, 7, (64, 3, 224, 224), (64, 3, 7, 7)),
        convolved(1, 3, (8, 64, 224, 224), (64, 64, 3, 3)),
        Case("transposed convolution by 2", transposed, lambda x, k: f.conv_transpose2d(x, k, None, 2, 1),
             ((64, 128, 28, 28), (128, 64, 4, 4)), 2),
    ]  # fmt: skip


def measured(case: Case, element: str) -> str:
    import torch

    kind = getattr(torch, TYPES[element])
    names = ", ".join("×".join(map(str, s[:1] if s[-1] == "below" else s)) for s in case.shapes)

    def made(shape: tuple[Any, ...]) -> Any:
        if shape[-1] == "below":
            return torch.randint(0, shape[1], shape[:1], device="cuda", dtype=torch.int32)
        return torch.randn(shape, device="cuda", dtype=kind)

    scalar = case.name == "cross entropy"

    def fresh() -> list[Any]:
        inputs = [made(s) for s in case.shapes]
        for x in inputs[: case.by]:
            x.requires_grad_(True)
        return inputs if scalar else [*inputs, torch.randn_like(case.peer(*inputs)).detach()]

    f = axon.compile("import nn\n" + case.text.replace("E[", f"{element}[")).f

    def ours(*given: Any) -> Any:
        with torch.no_grad():
            return f(*given)

    def theirs(*given: Any) -> Any:
        inputs, dy = (given, None) if scalar else (given[:-1], given[-1])
        y = case.peer(*inputs)
        return y, torch.autograd.grad(y, inputs[: case.by], dy)

    given = fresh()
    found, wanted = ours(*given)[1], theirs(*given)[1]
    worst = 0.0
    for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        worst = max(worst, float((one.double() - other.double()).norm() / other.double().norm()))
    moved = sum(x.numel() * x.element_size() for x in given) * 3
    run = rotated([ours, theirs], fresh, moved, 1e-4)
    mine, peer = run.seconds
    wrong = "" if worst <= WITHIN[element] else " **wrong**"
    return (
        f"| {case.name} | {names} | {element} | {mine * 1e6:.0f} | {peer * 1e6:.0f} | {run.ratio(1, 0):.2f} | {worst:.1e}{wrong} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--elements", nargs="*", default=["bf16", "f32"])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out")
    options = parser.parse_args()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    lines = [f"# Derivatives, {date.today()}, {torch.cuda.get_device_name()}, µs of value and derivatives", ""]
    lines += ["| | inputs | element | Axon | PyTorch | ratio | difference |", "|---|---|---|---:|---:|---:|---:|"]
    for element in options.elements:
        for case in cases():
            if options.only and case.name not in options.only:
                continue
            try:
                lines.append(measured(case, element))
            except Exception as error:  # one that fails does not stop the others
                lines.append(f"| {case.name} | | {element} | | | | {type(error).__name__}: {str(error).splitlines()[0][:80]} |")
            print(lines[-1], flush=True)
    ratios = [float(line.split("|")[6]) for line in lines if line.count("|") == 8 and line.split("|")[6].strip()[:1].isdigit()]
    lines += ["", f"geometric mean {mean(ratios):.2f}, least {min(ratios):.2f}"] if ratios else []
    report(lines, options.out)


if __name__ == "__main__":
    main()
