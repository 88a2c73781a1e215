"""Attention of few queries over many keys (decoding) against the best of PyTorch's, on one Hopper GPU.

    python benchmarks/gpu_decoding.py [--random N] [--seed S] [--paged] [--out FILE]

Grouped heads, `k[b, h / g, j, c]`, in bf16, each query with the keys up to its own position. Results are compared with PyTorch's in
f64 first. Then all sides run in CUDA graphs that rotate inputs over four times the L2 cache, and are replayed in turn. Bandwidth is
that at which keys and values are read, each once, against that of a copy of them. The slowest come first.

With `--paged`, keys and values are those of a cache in pages, in any order, and each sequence has a length of its own,
of half of its keys and more. PyTorch gathers the pages first, and masks.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from random import Random
from typing import Any

from racing import mean, report, rotated

import axon
from axon import compiler
from axon.backend.gpu.runtime.executable import Executable

SOURCE = """
import nn
fun f {g} (q : bf16[b, n * g, s, d]) (k : bf16[b, n, t, d]) (v : bf16[b, n, t, d]) where s <= t =
  let val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h / g, j, c]) * rsqrt (cast f32 d)
      val p = nn.softmax (for b h i j => if j <= i + (t - s) then x[b, h, i, j] else -inf)
  in for b h i e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, h / g, j, e]) end
"""


PAGED = """
import nn
fun f {g} (q : bf16[b, n * g, s, d]) (keys : bf16[p, r, n, d]) (values : bf16[p, r, n, d])
    (page : i32[b, m]) (lengths : i32[b]) =
  let val k = for b h, j < r * m, c => keys[page[b, j / r], j % r, h, c]
      val v = for b h, j < r * m, c => values[page[b, j / r], j % r, h, c]
      val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h / g, j, c]) * rsqrt (cast f32 d)
      val p = nn.softmax (for b h i j => if j < lengths[b] then x[b, h, i, j] else -inf)
  in for b h i e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, h / g, j, e]) end
"""


@dataclass(frozen=True)
class Shape:
    """batch × heads of keys × query heads that share one × queries × keys × head dimension; in pages of so many keys, if any."""

    batch: int
    heads: int
    group: int
    queries: int
    keys: int
    dimension: int = 128
    page: int = 0

    def __str__(self) -> str:
        return (
            f"{self.batch} × {self.heads * self.group} over {self.heads} heads, "
            f"{self.queries} queries, {self.keys} keys, head {self.dimension}"
        ) + (f", pages of {self.page}" if self.page else "")

    @property
    def bytes(self) -> int:
        return 4 * self.batch * self.heads * self.keys * self.dimension


LISTED = (
    Shape(16, 8, 4, 1, 8192), Shape(1, 8, 4, 1, 8192), Shape(1, 8, 8, 1, 131072), Shape(64, 8, 4, 1, 1024),
    Shape(4, 8, 4, 16, 16384), Shape(2, 32, 1, 1, 4096), Shape(8, 16, 1, 4, 4096, 64), Shape(1, 4, 7, 1, 32768),
    Shape(32, 2, 8, 2, 2048), Shape(16, 8, 4, 8, 8192),
)  # fmt: skip


PAGED_SHAPES = (
    Shape(16, 8, 4, 1, 8192, page=16), Shape(16, 8, 4, 1, 8192, page=64), Shape(16, 8, 4, 1, 8192, page=128),
    Shape(16, 8, 4, 1, 8192, page=8), Shape(1, 8, 4, 1, 65536, page=16), Shape(64, 8, 4, 1, 1024, page=16),
    Shape(64, 8, 8, 1, 4096, page=32), Shape(4, 8, 4, 4, 16384, page=64), Shape(8, 16, 1, 1, 4096, 64, page=16),
    Shape(32, 4, 8, 1, 2048, page=256),
)  # fmt: skip


def drawn(count: int, seed: int) -> list[Shape]:
    chance = Random(seed)
    found = []
    while len(found) < count:
        shape = Shape(
            round(64 ** chance.random()), chance.choice([1, 2, 4, 5, 8, 16, 32]), chance.choice([1, 2, 3, 4, 7, 8]),
            chance.choice([1, 1, 1, 2, 4, 7, 16]), round(1024 * 128 ** chance.random()), chance.choice([64, 128, 128]),
        )  # fmt: skip
        if 4e6 <= shape.bytes <= 4e9:
            found.append(shape)
    return found


def lengths_of(shape: Shape) -> Any:
    """Of each sequence: spread from half of its keys to all."""
    import torch

    half = shape.keys // 2
    return (half + torch.arange(shape.batch, device="cuda") * (shape.keys - half) // max(1, shape.batch - 1)).int()


def gathered(cache: Any, page: Any) -> Any:
    """Keys or values as they lie without pages."""
    found = cache[page.long()]
    return found.reshape(len(page), -1, *cache.shape[2:]).transpose(1, 2)


def expected_paged(q: Any, keys: Any, values: Any, page: Any, lengths: Any, shape: Shape) -> Any:
    """In f64."""
    import torch

    k, v = (gathered(x, page).double().repeat_interleave(shape.group, 1) for x in (keys, values))
    scores = q.double() @ k.transpose(-1, -2) * shape.dimension**-0.5
    hidden = torch.arange(shape.keys, device="cuda") >= lengths[:, None]
    return scores.masked_fill(hidden[:, None, None], float("-inf")).softmax(-1) @ v


def paged_peers(shape: Shape) -> dict[str, Any]:
    """PyTorch's ways: a gather of the pages and its attention under a mask."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def by(backend: Any) -> Any:
        def run(q: Any, keys: Any, values: Any, page: Any, lengths: Any) -> Any:
            k, v = gathered(keys, page), gathered(values, page)
            seen = torch.arange(shape.keys, device="cuda") < lengths[:, None]
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None, None], enable_gqa=shape.group > 1)

        return run

    backends = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
    return {f"gather + {name}": by(backend) for name, backend in backends.items()}


def expected(q: Any, k: Any, v: Any, shape: Shape) -> Any:
    """In f64."""
    import torch

    k, v = (x.double().repeat_interleave(shape.group, 1) for x in (k, v))
    scores = q.double() @ k.transpose(-1, -2) * shape.dimension**-0.5
    i, j = (torch.arange(n, device="cuda") for n in scores.shape[-2:])
    scores.masked_fill_(j[None, :] > i[:, None] + (shape.keys - shape.queries), float("-inf"))
    return scores.softmax(-1) @ v


def peers(shape: Shape) -> dict[str, Any]:
    """PyTorch's ways: one query needs no mask; of several cuDNN and FlashAttention align a causal mask at the end by a bias."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right
    from torch.nn.functional import scaled_dot_product_attention

    mask = None if shape.queries == 1 else causal_lower_right(shape.queries, shape.keys)
    dense = torch.ones(shape.queries, shape.keys, dtype=torch.bool, device="cuda").tril(shape.keys - shape.queries)

    def by(backend: Any, given: Any) -> Any:
        def run(q: Any, k: Any, v: Any) -> Any:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, attn_mask=given, enable_gqa=shape.group > 1)

        return run

    def together(q: Any, k: Any, v: Any) -> Any:
        """Of one query the rows that share keys as queries."""
        rows = q.reshape(shape.batch, shape.heads, shape.group, shape.dimension)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION]):
            return scaled_dot_product_attention(rows, k, v).reshape(q.shape)

    found = {
        "flash": by(SDPBackend.FLASH_ATTENTION, mask),
        "cuDNN": by(SDPBackend.CUDNN_ATTENTION, None if shape.queries == 1 else dense),
    }
    return found | ({"flash, heads as queries": together} if shape.queries == 1 else {})


def extents(shape: Shape) -> tuple[tuple[int, ...], ...]:
    b, n, g, s, t, d = shape.batch, shape.heads, shape.group, shape.queries, shape.keys, shape.dimension
    if shape.page:
        cache = (b * t // shape.page, shape.page, n, d)
        return (b, n * g, s, d), cache, cache, (b, t // shape.page), (b,)
    return (b, n * g, s, d), (b, n, t, d), (b, n, t, d)


def build(shape: Shape) -> None:
    """Fill the cache with kernels; needs no GPU."""
    core = compiler.lower(compiler.check_text(PAGED if shape.page else SOURCE), "f", None)
    Executable(core).warm(core.contract.bind((shape.group,), extents(shape)), exact=False)


def run(shape: Shape) -> tuple[float, float, str]:
    import torch

    def fresh() -> list[Any]:
        made = [torch.randn(size, device="cuda", dtype=torch.bfloat16) for size in extents(shape)[:3]]
        if shape.page:
            pages = torch.randperm(len(made[1]), device="cuda").int().reshape(shape.batch, -1)
            made += [pages, lengths_of(shape)]
        return made

    f = axon.compile(PAGED if shape.page else SOURCE).f[shape.group]
    given = fresh()
    want = (expected_paged if shape.page else expected)(*given, shape)
    moved = shape.bytes if not shape.page else int(shape.bytes * lengths_of(shape).double().mean() / shape.keys)

    def error(out: Any) -> float:
        return float((out.double() - want).norm() / want.norm())

    mine = error(f(*given))
    if not mine < 1e-2:
        sys.exit(f"{shape}: off by {mine:.2e}")
    usable = {}
    for name, peer in (paged_peers if shape.page else peers)(shape).items():
        with suppress(RuntimeError):  # it does not take this
            if error(peer(*given)) < 1e-2:
                usable[name] = peer
    rates = rotated((f, lambda q, k, *_: k.clone(), *usable.values()), fresh, shape.bytes, shape.bytes / 3e12)
    own, _, *others = rates.seconds
    best = min(range(len(others)), key=others.__getitem__)
    # A copy of the keys moves as much as reading keys and values does, to the last.
    ratio, of_copy = rates.ratio(best + 2, 0), rates.ratio(1, 0) * moved / shape.bytes
    mapping = " + ".join(str(variant.mapping) for variant in f.variants)
    times = f"{others[best] * 1e6:.1f} | {[*usable][best]} | {own * 1e6:.1f}"
    return ratio, of_copy, f"| {shape} | {times} | {ratio:.3f} | {of_copy:.2f} | {mine:.1e} | {mapping} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--paged", action="store_true")
    parser.add_argument("--out")
    args = parser.parse_args()
    shapes = [*(PAGED_SHAPES if args.paged else LISTED), *drawn(args.random, args.seed)]
    with get_context("fork").Pool() as pool:  # before CUDA is touched
        pool.map(build, shapes, chunksize=1)
    import torch

    torch.manual_seed(args.seed)
    found = []
    for shape in shapes:
        found.append(run(shape))
        print(found[-1][2], file=sys.stderr, flush=True)
        torch.cuda.empty_cache()
    found.sort(key=lambda one: one[0])
    least = min(ratio for ratio, *_ in found), min(of_copy for _, of_copy, _ in found)
    lines = [
        f"# Decoding, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}", "",
        f"`python benchmarks/gpu_decoding.py {' '.join(sys.argv[1:])}`. Geometric mean {mean(r for r, *_ in found):.2f} of the",
        f"best of PyTorch's, least {least[0]:.2f}; bandwidth against a copy's, least {least[1]:.2f}.", "",
        "| shape | PyTorch µs | which | Axon µs | ratio | of a copy | error | mapping |", "|" + " --- |" * 8,
        *(row for _, _, row in found),
    ]  # fmt: skip
    report(lines, args.out)


if __name__ == "__main__":
    main()
