"""Attention over documents of several lengths in one sequence, against PyTorch's padded and ragged ones, on one Hopper GPU.

    python benchmarks/gpu_documents.py [--positions N …] [--seconds S] [--flex] [--out FILE]

Causal, in bf16: a position sees itself and what stands before it in its document. Axon has the numbers of the documents, sorted,
and no lengths: tables that it makes in each call say which keys a tile of rows sees. PyTorch has documents padded to the longest,
as a batch (cuDNN or FlashAttention, whichever is faster), and as a nested tensor of which it knows the lengths; with --flex
FlexAttention, whose mask of blocks is made before. Results are compared with float64 first. What can be is captured in CUDA
graphs that are replayed in turn; nested tensors are timed by events. A ratio above 1 says that Axon is faster. After so many
seconds nothing new is begun.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import date
from functools import partial
from statistics import median
from time import monotonic
from typing import Any

from racing import graph, race, report

import axon

HEADS = 16
SOURCE = """
import nn
fun f (ids : i32[s]) (q : bf16[h, s, d]) (k : bf16[h, s, d]) (v : bf16[h, s, d]) =
  nn.attention_with (fn x => x |> nn.documents ids |> nn.causal) q k v
"""


def lengths_of(kind: str, positions: int) -> list[int]:
    """Of documents that fill a sequence: alike, or drawn so that a few are long."""
    import torch

    if kind == "alike":
        return [positions // 8] * 8
    if kind == "one":
        return [positions]
    drawn = (torch.rand(64) ** 3 * positions / 4).long() + 16
    found: list[int] = []
    for length in drawn.tolist():
        found.append(min(length, positions - sum(found)))
        if sum(found) == positions:
            return found
    return [*found, positions - sum(found)]


def exact(q: Any, k: Any, v: Any, lengths: list[int]) -> Any:
    """In float64, document by document."""
    import torch

    made = []
    for one in zip(*(x.double().split(lengths, 1) for x in (q, k, v)), strict=True):
        scores = one[0] @ one[1].transpose(1, 2) * q.shape[-1] ** -0.5
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
        made.append(scores.masked_fill(hidden, float("-inf")).softmax(-1) @ one[2])
    return torch.cat(made, 1)


def padded(backend: Any) -> Callable[..., Any]:
    """A batch of documents, each filled up to the longest; what is behind one is thrown away."""
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def run(q: Any, k: Any, v: Any) -> Any:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=True)

    return run


def as_batch(x: Any, lengths: list[int]) -> Any:
    """[heads, positions, d] as [documents, heads, longest, d]."""
    from torch.nn.utils.rnn import pad_sequence

    return pad_sequence([one.transpose(0, 1) for one in x.split(lengths, 1)], batch_first=True).transpose(1, 2).contiguous()


def nested(lengths: list[int]) -> Callable[..., Any]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    offsets = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()

    def run(q: Any, k: Any, v: Any) -> Any:  # [positions, heads, d]
        jagged = (torch.nested.nested_tensor_from_jagged(x, offsets.long()).transpose(1, 2) for x in (q, k, v))
        return scaled_dot_product_attention(*jagged, is_causal=True)

    return run


def flex(ids: Any, positions: int) -> Callable[..., Any]:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def seen(_b: Any, _h: Any, i: Any, j: Any) -> Any:
        return (ids[i] == ids[j]) & (j <= i)

    mask = create_block_mask(seen, None, None, positions, positions)
    compiled = torch.compile(flex_attention, mode="max-autotune-no-cudagraphs")
    return lambda q, k, v: compiled(q[None], k[None], v[None], block_mask=mask)[0]


def timed(function: Callable[[], Any]) -> float:
    """Seconds of a call that cannot be captured, by events: the median."""
    import torch

    times = []
    for _ in range(12):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return median(times[2:])


def raced(function: Any, kind: str, positions: int, head: int, *, with_flex: bool) -> str:
    import torch
    from torch.nn.attention import SDPBackend

    lengths = lengths_of(kind, positions)
    ids = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).int().cuda()
    q, k, v = (torch.randn(HEADS, positions, head, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    want = exact(q, k, v, lengths)
    off = float((function(ids, q, k, v).double() - want).abs().max() / want.abs().max())
    if not off < 1e-2:
        sys.exit(f"{kind}, {positions}: off by {off:.2e}")
    batch = [as_batch(x, lengths) for x in (q, k, v)]
    across = [x.transpose(0, 1).contiguous() for x in (q, k, v)]
    sides: dict[str, Callable[[], Any]] = {"axon": lambda: function(ids, q, k, v)}
    backends = (("padded, cuDNN", SDPBackend.CUDNN_ATTENTION), ("padded, flash", SDPBackend.FLASH_ATTENTION))
    sides |= {name: partial(padded(backend), *batch) for name, backend in backends}
    if with_flex:
        sides["flex"] = partial(flex(ids, positions), q, k, v)
    seconds: dict[str, float] = {}
    for name, side in list(sides.items()):
        try:
            side()
        except RuntimeError as refused:
            print(f"{name} is refused: {str(refused).splitlines()[0]}", flush=True)
            del sides[name]
    try:
        ragged = nested(lengths)
        ragged(*across)
        seconds["nested"] = timed(lambda: ragged(*across))
    except RuntimeError as refused:
        print(f"nested is refused: {str(refused).splitlines()[0]}", flush=True)
    launches = max(2, min(16, int(2e-2 / (positions**2 * HEADS * head * 4 / 4e14))))
    run = race(*(graph(lambda _, f=f: f(), launches) for f in sides.values()), launches=launches, rounds=11)  # type: ignore[misc]
    seconds |= dict(zip(sides, run.seconds, strict=True))
    seen = sum(n * n for n in lengths) / positions**2
    mine, others = seconds["axon"], {name: s for name, s in seconds.items() if name != "axon"}
    fastest_padded = min(s for name, s in others.items() if name.startswith("padded"))
    rest = " | ".join(f"{others[name] * 1e6:.0f}" if name in others else "" for name in ("nested", "flex"))
    ratios = f"{fastest_padded / mine:.2f} | {min(others.values()) / mine:.2f}"
    shape = f"{kind}, {len(lengths)} of {positions} | {head}"
    return f"| {shape} | {seen:.2f} | {mine * 1e6:.0f} | {fastest_padded * 1e6:.0f} | {rest} | {ratios} | {off:.1e} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--positions", type=int, nargs="*", default=[4096, 16384])
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--flex", action="store_true")
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args()
    start = monotonic()
    import torch

    torch.manual_seed(0)
    function = axon.compile(SOURCE).f
    rows: list[str] = []
    for positions in options.positions:
        for kind in ("few long", "alike", "one"):
            for head in (128, 64):
                if monotonic() - start > options.seconds:
                    print(f"{kind}, {positions}, head {head}: left out, {options.seconds:.0f} seconds are over", flush=True)
                    continue
                rows.append(raced(function, kind, positions, head, with_flex=options.flex))
                print(f"{rows[-1]} {monotonic() - start:.0f} s", flush=True)
    head = "| documents | head | of all pairs | Axon µs | padded | nested | flex | of padded | of the best | error |"
    lines = [f"# Documents in one sequence, {torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}", ""]
    report([*lines, f"{HEADS} heads, causal, bf16.", "", head, "|" + " --- |" * 10, *rows], options.out)


if __name__ == "__main__":
    main()
