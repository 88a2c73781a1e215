"""Mixtral's feed-forward layer, in which each token chooses two of eight experts, against PyTorch, on one Hopper GPU.

    python benchmarks/gpu_ragged.py [--tokens T …] [--seconds S] [--out FILE]

Products alone, and their gradients by the matrices, are first compared with float64, for several distributions of rows over groups.
Then the whole layer, in bf16, and last such a gradient, of sorted rows, against `torch._grouped_mm` and a loop. The layer: sort the
tokens by expert, two products, silu, a product, and the weighted sum of each token's two. PyTorch does the same by
`torch._grouped_mm` if it is there, whose weights may lie either way, and by a loop over experts, which waits for their sizes;
else by padded batches of matrices. What can be is captured in CUDA graphs that are replayed in turn; a loop is timed by events.
The weights are many times the L2 cache. A ratio above 1 says that Axon is faster. After so many seconds nothing new is begun.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import date
from statistics import median
from time import monotonic
from typing import Any

from racing import graph, race, report

import axon

WIDTH, HIDDEN, EXPERTS, CHOSEN = 4096, 14336, 8, 2
SOURCE = """
import nn
fun product (x : bf16[n, k]) (w : bf16[g, k, j]) (group : i32[n]) = for i j => sum k => x[i, k] * w[group[i], k, j]
fun sorted (x : bf16[n, k]) (w : bf16[g, k, j]) (group : i32[n]) =
  let val groups = sort group in for i j => sum k => x[i, k] * w[groups[i], k, j] end
fun weighted (x : bf16[n, k]) (w : bf16[g, k, j]) (group : i32[n]) (s : f32[n]) (y : f32[n, j]) =
  for i j => s[i] * y[i, j] + cast f32 (sum k => x[i, k] * w[group[i], k, j])
fun d_product x w group dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (product x w group)[i, j]) w
fun d_sorted x w group dy =
  let val groups = sort group in grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (product x w groups)[i, j]) w end
fun layer (x : bf16[t, d]) (w1 : bf16[e, d, f]) (w3 : bf16[e, d, f]) (w2 : bf16[e, f, d]) (expert : i32[t, m]) (gate : f32[t, m]) =
  let val chosen = for (i, n) => expert[i, n]
      val order = argsort chosen
      val experts = sort chosen
      val place = argsort order
      val gated = for p j => sum c => x[order[p] / m, c] * w1[experts[p], c, j]
      val up = for p j => sum c => x[order[p] / m, c] * w3[experts[p], c, j]
      val hidden = for p j => cast bf16 (nn.silu (cast f32 gated[p, j]) * cast f32 up[p, j])
      val made = for p c => sum j => hidden[p, j] * w2[experts[p], j, c]
  in for i c => cast bf16 (sum n => gate[i, n] * cast f32 made[place[(i, n)], c]) end
"""


def compared(module: Any) -> list[str]:
    """Products whose rows have groups, against float64."""
    import torch

    rows = []
    draws: dict[str, Callable[[int, int], Any]] = {
        "uniform": lambda n, g: torch.randint(g, (n,), device="cuda"),
        "one group": lambda n, g: torch.full((n,), g - 1, device="cuda"),
        "few groups": lambda n, g: torch.randint(max(1, g // 4), (n,), device="cuda") * 3 % g,
        "skewed": lambda n, g: (torch.rand(n, device="cuda") ** 4 * g).long(),
    }
    cases = [("product", 3000, 8, 512, 1024), ("sorted", 3000, 8, 512, 1024), ("product", 700, 40, 512, 1032)]
    cases.append(("weighted", 3000, 8, 512, 1030))
    for name, how in draws.items():
        for function, n, g, k, j in cases:
            x = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
            w = torch.randn(g, k, j, device="cuda", dtype=torch.bfloat16)
            group = how(n, g).int()
            added = [torch.randn(n, *more, device="cuda") for more in ((), (j,))] if function == "weighted" else []
            got = getattr(module, function)(x, w, group, *added).double()
            groups = (group.sort().values if function == "sorted" else group).long()
            want = torch.empty_like(got)
            for one in groups.unique():
                mine = groups == one
                want[mine] = x[mine].double() @ w[one].double()
            if added:
                want += added[0].double()[:, None] * added[1].double()
            off = float((got - want).abs().max() / want.abs().max())
            rows.append(f"| {function} | {name} | {n}, {g}, {k}, {j} | {off:.1e} |")
            print(rows[-1], flush=True)
            if not off < 8e-3:
                sys.exit("the results are wrong")
    return rows


def gradients(module: Any) -> list[str]:
    """Gradients of products by the matrices, against float64."""
    import torch

    rows = []
    for function, n, g, k, j in (
        ("d_product", 3000, 8, 512, 1024),
        ("d_sorted", 3000, 8, 512, 1024),
        ("d_sorted", 700, 40, 512, 1032),
    ):
        for name, power in (("uniform", 1), ("skewed", 4)):
            x, dy = (torch.randn(n, width, device="cuda", dtype=torch.bfloat16) for width in (k, j))
            group = (torch.rand(n, device="cuda") ** power * g).int()
            got = getattr(module, function)(x, torch.zeros(g, k, j, device="cuda", dtype=torch.bfloat16), group, dy).double()
            groups = group.sort().values if function == "d_sorted" else group
            want = torch.stack([x[groups == one].double().T @ dy[groups == one].double() for one in range(g)])
            off = float((got - want).abs().max() / want.abs().max())
            rows.append(f"| {function} | {name} | {n}, {g}, {k}, {j} | {off:.1e} |")
            print(rows[-1], flush=True)
            if not off < 8e-3:
                sys.exit("the gradients are wrong")
    return rows


def raced_gradient(module: Any, rows: int, weights: Any) -> str:
    """The gradient by the matrices of so many sorted rows."""
    import torch

    x = torch.randn(rows, WIDTH, device="cuda", dtype=torch.bfloat16)
    dy = torch.randn(rows, HIDDEN, device="cuda", dtype=torch.bfloat16)
    group = torch.randint(EXPERTS, (rows,), device="cuda", dtype=torch.int32).sort().values
    offsets = torch.searchsorted(group, torch.arange(1, EXPERTS + 1, device="cuda", dtype=torch.int32), out_int32=True)
    last = offsets.tolist()

    def by_loop() -> Any:  # which knows the sizes
        return torch.stack([x[first:end].T @ dy[first:end] for first, end in zip([0, *last], last, strict=False)])

    want = torch.stack(
        [x[first:end, :64].double().T @ dy[first:end].double() for first, end in zip([0, *last], last, strict=False)]
    )
    sides: dict[str, Callable[[], Any]] = {"axon": lambda: module.d_sorted(x, weights, group, dy), "loop": by_loop}
    if hasattr(torch, "_grouped_mm"):
        sides["grouped"] = lambda: torch._grouped_mm(x.T, dy, offs=offsets)
    off = {}
    for name, side in list(sides.items()):
        try:
            off[name] = float((side()[:, :64].double() - want).abs().max() / want.abs().max())
        except RuntimeError as refused:
            print(f"{name} is refused: {str(refused).splitlines()[0]}", flush=True)
            del sides[name]
    if not off["axon"] < 8e-3:
        sys.exit(f"the gradient of {rows} rows is off by {off['axon']:.1e}")
    run = race(*(graph(lambda _, f=f: f(), 1) for f in sides.values()), launches=1, rounds=11)  # type: ignore[misc]
    seconds = dict(zip(sides, run.seconds, strict=True))
    best = min((s for s in seconds if s != "axon"), key=seconds.__getitem__)
    rate = 2 * rows * WIDTH * HIDDEN / seconds["axon"] / 1e12
    others = ", ".join(f"{name} {s * 1e6:.0f}" for name, s in seconds.items() if name != "axon")
    return (
        f"| {rows} | {seconds['axon'] * 1e6:.0f} | {rate:.0f} | {best} | {run.ratio(list(sides).index(best), 0):.3f} | {others} |"
    )


def ends(expert: Any) -> tuple[Any, Any]:
    """The order of tokens by expert, and where each expert's end."""
    import torch

    sorted_, order = expert.flatten().sort(stable=True)
    return order, torch.searchsorted(sorted_, torch.arange(1, EXPERTS + 1, device="cuda"), out_int32=True)


def combined(made: Any, order: Any, gate: Any) -> Any:
    import torch

    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device="cuda")
    return torch.einsum("im,imc->ic", gate, made[back].unflatten(0, gate.shape).float()).bfloat16()


def by_groups(x: Any, w1: Any, w3: Any, w2: Any, expert: Any, gate: Any) -> Any:
    import torch

    order, offsets = ends(expert)
    mine = x[order // CHOSEN]
    gated, up = (torch._grouped_mm(mine, w, offs=offsets) for w in (w1, w3))
    made = torch._grouped_mm(torch.nn.functional.silu(gated) * up, w2, offs=offsets)
    return combined(made, order, gate)


def by_loop(x: Any, w1: Any, w3: Any, w2: Any, expert: Any, gate: Any) -> Any:
    import torch

    order, offsets = ends(expert)
    mine = x[order // CHOSEN]
    made = torch.empty_like(mine)
    first = 0
    for number, last in enumerate(offsets.tolist()):
        if last > first:
            rows = mine[first:last]
            made[first:last] = (torch.nn.functional.silu(rows @ w1[number]) * (rows @ w3[number])) @ w2[number]
        first = last
    return combined(made, order, gate)


def by_batches(x: Any, w1: Any, w3: Any, w2: Any, expert: Any, gate: Any) -> Any:
    """Every expert's tokens padded to as many as the first has at most."""
    import torch

    order, offsets = ends(expert)
    counts = offsets.diff(prepend=offsets.new_zeros(1))
    most = int(counts.max())
    place = torch.arange(most, device="cuda")[None] + (offsets - counts)[:, None]
    padded = x[order[place.clamp(max=len(order) - 1)] // CHOSEN]
    made = torch.bmm(torch.nn.functional.silu(torch.bmm(padded, w1)) * torch.bmm(padded, w3), w2)
    return combined(made[torch.arange(most, device="cuda")[None] < counts[:, None]], order, gate)


def timed(function: Callable[[], Any], launches: int) -> float:
    """Seconds of a call that cannot be captured, by events: the median."""
    import torch

    times = []
    for _ in range(launches + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return median(times[2:])


def exact(x: Any, w1: Any, w3: Any, w2: Any, expert: Any, gate: Any, tokens: int) -> Any:
    """The first tokens' results in float64."""
    import torch

    out = torch.zeros(tokens, WIDTH, device="cuda", dtype=torch.float64)
    for number in range(EXPERTS):
        token, choice = (expert[:tokens] == number).nonzero(as_tuple=True)
        if len(token):
            mine = x[token].double()
            hidden = torch.nn.functional.silu(mine @ w1[number].double()) * (mine @ w3[number].double())
            out.index_add_(0, token, gate[token, choice].double()[:, None] * (hidden @ w2[number].double()))
    return out


def raced(module: Any, tokens: int, weights: tuple[Any, ...], turned: tuple[Any, ...]) -> str:
    import torch

    x = torch.randn(tokens, WIDTH, device="cuda", dtype=torch.bfloat16)
    scores, expert = torch.randn(tokens, EXPERTS, device="cuda").topk(CHOSEN)
    gate, expert = scores.softmax(-1), expert.int()
    rest = (expert, gate)
    want = exact(x, *weights, *rest, min(tokens, 64))
    scale = float(want.abs().max())
    sides: dict[str, Callable[[], Any]] = {"axon": lambda: module.layer(x, *weights, *rest)}
    alone: dict[str, Callable[[], Any]] = {"loop": lambda: by_loop(x, *weights, *rest)}
    if hasattr(torch, "_grouped_mm"):
        sides["grouped"] = lambda: by_groups(x, *weights, *rest)
        sides["grouped, weights transposed"] = lambda: by_groups(x, *turned, *rest)
    else:
        alone["padded"] = lambda: by_batches(x, *weights, *rest)
    off = {}
    for name, side in [*sides.items(), *alone.items()]:
        try:
            off[name] = float((side()[: len(want)].double() - want).abs().max()) / scale
        except RuntimeError as refused:
            print(f"{name} is refused: {str(refused).splitlines()[0]}", flush=True)
            sides.pop(name, None)
            alone.pop(name, None)
    if not off["axon"] < max(0.02, 1.5 * off["loop"]):
        sys.exit(f"{tokens} tokens: off by {off['axon']:.2e}, PyTorch by {off['loop']:.2e}")
    launches = max(1, min(8, int(4e-3 / (8e-4 + tokens * 1.1e-6))))
    graphs = [graph(lambda _, f=f: f(), launches) for f in sides.values()]  # type: ignore[misc]
    run = race(*graphs, launches=launches, rounds=11)
    seconds = dict(zip(sides, run.seconds, strict=True)) | {name: timed(side, 7) for name, side in alone.items()}
    best = min((s for s in seconds if s != "axon"), key=seconds.__getitem__)
    mine = seconds["axon"]
    ratio = run.ratio(list(sides).index(best), 0) if best in sides else seconds[best] / mine
    read = sum(w.nbytes for w in weights) / EXPERTS * len(expert.unique())
    flops = 6 * tokens * CHOSEN * WIDTH * HIDDEN
    others = ", ".join(f"{name} {s * 1e6:.0f}" for name, s in seconds.items() if name != "axon")
    rates = f"{flops / mine / 1e12:.0f} | {read / mine / 1e12:.2f}"
    return f"| {tokens} | {mine * 1e6:.0f} | {rates} | {best} | {ratio:.3f} | {off['axon']:.1e}, {off['loop']:.1e} | {others} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="*", default=[16, 4096, 256, 1024, 64])
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args()
    start = monotonic()
    import torch

    module = axon.compile(SOURCE)
    products = compared(module) + gradients(module)
    weights = tuple(
        torch.randn(EXPERTS, *shape, device="cuda", dtype=torch.bfloat16) / shape[0] ** 0.5
        for shape in ((WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
    )
    turned = tuple(w.transpose(1, 2).contiguous().transpose(1, 2) for w in weights)
    head = "| tokens | Axon µs | TFLOP/s | TB/s of weights | best of PyTorch | ratio | error, PyTorch's | PyTorch µs |"
    rows: list[str] = []
    for tokens in options.tokens:
        if monotonic() - start > options.seconds:
            print(f"{tokens} tokens are left out: {options.seconds:.0f} seconds are over", flush=True)
            continue
        rows.append(raced(module, tokens, weights, turned))
        print(f"{rows[-1]} {monotonic() - start:.0f} s", flush=True)
    lines = [f"# Ragged products, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}", ""]
    lines += ["| product | groups | rows, groups, depth, columns | error |", "|" + " --- |" * 4, *products, ""]
    lines += [head, "|" + " --- |" * 8, *rows]
    by_matrices = []
    for count in (2048, 8192, 32768):
        if monotonic() - start > options.seconds:
            print(f"gradients of {count} rows are left out: {options.seconds:.0f} seconds are over", flush=True)
            continue
        by_matrices.append(raced_gradient(module, count, weights[0]))
        print(f"{by_matrices[-1]} {monotonic() - start:.0f} s", flush=True)
    lines += ["", "The gradient by the matrices, its sort counted for Axon alone:", ""]
    lines += ["| rows | Axon µs | TFLOP/s | best of PyTorch | ratio | PyTorch µs |", "|" + " --- |" * 6, *by_matrices]
    report(lines, options.out)


if __name__ == "__main__":
    main()
