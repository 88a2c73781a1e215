"""The example models on meshes, each size split that its users would split, and others."""

from __future__ import annotations

from zlib import crc32

import pytest

import axon
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.core.sharding import Mesh, collectives
from axon.core.sharding.report import costs
from tests import ROOT
from tests.core.sharding.whole import arguments, bound, compare, lowered, mesh, nvlink, of, sharded
from tests.sample import SOAK

MODELS = ROOT / "examples" / "models"
LLAMA = {"b": 4, "c": 4, "d": 8, "f": 8, "g": 4, "h": 8, "n": 2, "s": 4, "v": 8}
# A model, a function, its sizes, and what is split over the axis (of two, `data` and `model`, the first size goes over `data`).
CASES = [
    ("gcn", "logits", {"i": 8, "c": 4, "f": 4, "h": 8}, ["i", "h", "f", "i h"]),
    ("gpt2", "logits", {"b": 4, "d": 8, "h": 4, "n": 2, "s": 4, "t": 4, "v": 8}, ["b", "h", "v", "s", "d", "b d"]),
    ("llama3", "logits", LLAMA, ["b", "f h g", "s", "b f h g", "s f"]),
    ("mixtral", "logits", {**LLAMA, "e": 4}, ["e", "f h g", "s", "b e"]),
    ("mamba", "logits", {"b": 4, "d": 4, "e": 8, "m": 2, "n": 4, "r": 4, "s": 8, "v": 8, "w": 4}, ["b", "e", "s", "b e"]),
    ("seq2seq", "logits", {"b": 4, "d": 4, "n": 4, "s": 4, "t": 4, "u": 8, "v": 8}, ["b", "d", "s", "n"]),
    ("seq2seq", "translate", {"b": 4, "d": 4, "n": 4, "s": 4, "t": 4, "u": 8, "v": 8}, ["b", "v"]),
    ("unet", "conv", {"n": 4, "c": 4, "o": 4, "h": 8, "w": 8, "r": 3, "s": 3}, ["n", "h", "c", "o", "n c", "h w"]),
    ("unet", "halve", {"b": 4, "c": 4, "i": 8, "j": 8}, ["b", "i", "b j"]),
    ("vit", "logits", {"b": 4, "c": 4, "d": 8, "h": 4, "heads": 4, "k": 4, "m": 8, "n": 2, "r": 2, "w": 4}, ["b", "m", "heads"]),
    ("whisper", "encode", {"b": 4, "d": 8, "h": 4, "m": 4, "n": 2, "t": 4}, ["b", "d", "h", "t"]),
    ("resnet50", "bottleneck", {"n": 4, "h": 8, "w": 8, "c": 4, "m": 4, "s": 2}, ["n", "h", "m"]),
]
MESHES = [mesh(m=2), mesh(m=4), mesh(data=2, model=2)]
ALL = [
    (name, function, sizes, split, on)
    for name, function, sizes, splits in CASES
    for split in splits
    for on in MESHES
    if len(on.axes) == 1 or " " in split
]


def over(split: str, on: Mesh) -> dict[str, str]:
    first, *rest = split.split()
    axes = [axis for axis, _ in on.axes]
    return {first: axes[0]} | dict.fromkeys(rest, axes[-1])


@pytest.mark.parametrize(
    ("name", "function", "sizes", "split", "on"),
    [case for case in ALL if SOAK or crc32(f"{case[:2]} {case[3]} {case[4]}".encode()) % 12 == 0],  # all take a minute
    ids=lambda value: str(value) if isinstance(value, str | Mesh) else "",
)
def test_a_model(name: str, function: str, sizes: dict[str, int], split: str, on: Mesh) -> None:
    program = lowered(axon.load(MODELS / f"{name}.axon"), function)
    dims = bound(program, **sizes)
    made = sharded(program, on, over(split, on), dims, scale=64)
    compare(made, arguments(program, dims), dims, 1e-4)


def block_of_llama(b: int) -> tuple[Program, dict[Symbol, int]]:
    """A block, and the sizes of the published 8B model."""
    program = lowered(axon.load(MODELS / "llama3.axon"), "block")
    return program, bound(program, b=b, i=4096, d=4096, h=32, g=8, c=128, f=14336)


def test_a_block_of_a_transformer_has_the_all_reduces_of_megatron() -> None:
    """One for each of its halves, of the activations, forward; of tensors split by rows and columns that their sizes name."""
    program, dims = block_of_llama(8)
    for devices in (2, 4, 8) if SOAK else (4,):
        split = dict.fromkeys(("h", "g", "f"), "model")
        made = sharded(program, mesh(model=devices), split, dims, nvlink())
        found = list(collectives(made.steps))
        assert [(c.kind, c.monoid) for c in found] == [("all_reduce", "sum")] * 2
        of_all = [cost.bytes for cost in costs(made, dims, nvlink())]
        assert of_all == [2 * (devices - 1) * 4 * 8 * 4096 * 4096 // devices] * 2


def test_with_the_sequence_split_as_well_each_is_a_gather_and_a_scatter_of_the_same_bytes() -> None:
    """Sequence parallelism: what stands between the halves is shared by positions, which are fewer here than the weights."""
    program, dims = block_of_llama(1)
    made = sharded(program, mesh(model=4), dict.fromkeys(("i", "h", "g", "f"), "model"), dims, nvlink())
    found = [(cost.step.kind, cost.bytes) for cost in costs(made, dims, nvlink())]
    half = 3 * 4 * 4096 * 4096 // 4
    assert found == [("all_gather", half), ("reduce_scatter", half)] * 2


BACK = """
fun back {h, g} (p : block[d, h, g, c, f]) (x : f32[b, i, d]) (y : f32[b, i, d]) =
  grad (fn (p, x) => sum b i k => (block {h, g} p x)[b, i, k] * y[b, i, k]) (p, x)
"""


def test_a_block_of_a_transformer_has_the_all_reduces_of_megatron_backward() -> None:
    """One for each half, of the derivatives by what enters it; and of what is computed again that of attention."""
    program = of((MODELS / "llama3.axon").read_text(encoding="utf-8") + BACK, "back")
    dims = bound(program, b=8, i=4096, d=4096, h=32, g=8, c=128, f=14336)
    made = sharded(program, mesh(model=4), dict.fromkeys(("h", "g", "f"), "model"), dims, nvlink())
    assert [(c.kind, c.monoid) for c in collectives(made.steps)] == [("all_reduce", "sum")] * 3
    assert [cost.bytes for cost in costs(made, dims, nvlink())] == [2 * 3 * 4 * 8 * 4096 * 4096 // 4] * 3
    small = bound(program, b=2, i=4, d=4, h=8, g=4, c=4, f=8)
    compare(made, arguments(program, small), small, 1e-4)


@pytest.mark.skipif(not SOAK, reason="a minute")
def test_in_a_loop_of_blocks_it_has_them_in_each_step() -> None:
    text = """
    fun back {h, g} (p : llama3[v, n, d, h, g, c, f]) (ids : i32[b, s]) (y : f32[b, s, v]) =
      grad (fn p => sum i j k => (logits {h, g} p ids)[i, j, k] * y[i, j, k]) p
    """
    program = of((MODELS / "llama3.axon").read_text(encoding="utf-8") + text, "back")
    dims = bound(program, v=128256, n=32, b=8, s=4096, d=4096, h=32, g=8, c=128, f=14336)
    made = sharded(program, mesh(model=4), dict.fromkeys(("h", "g", "f"), "model"), dims, nvlink())
    found = [(cost.step.kind, cost.times) for cost in costs(made, dims, nvlink())]
    assert found == [("all_reduce", 32)] * 7  # forward 2, twice: of the result, of what is kept; backward 1 again, and 2
