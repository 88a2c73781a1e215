"""The simulator with a clock: engines do one thing at a time, and a slot is never filled while it is read."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest

from axon import compiler
from axon.backend.gpu.report.timeline import Stretch, Timeline, timelines

PRODUCT = "fun product (x : bf16[n, d]) (w : bf16[d, k]) = x @ w\n"
ATTENTION = """\
import nn
fun attention (q : bf16[b, s, d]) (k : bf16[b, t, d]) (v : bf16[b, t, e]) =
  let val scores = for b i j => sum c => q[b, i, c] * k[b, j, c]
  in nn.softmax scores @ v end
"""


def run(text: str, name: str, sizes: dict[str, int], seconds: float) -> Timeline:
    program = compiler.lower(compiler.check_text(text), name, None)
    variables = {s for v in program.inputs for d in v.shape for s in d.variables}
    (made,) = timelines(program, {s: sizes[s.name] for s in variables}, seconds)
    return made


@pytest.mark.parametrize(
    ("text", "name", "sizes"),
    [
        (PRODUCT, "product", {"n": 4096, "d": 1024, "k": 4096}),
        (PRODUCT, "product", {"n": 128, "d": 64, "k": 128}),
        (ATTENTION, "attention", {"b": 32, "s": 1024, "t": 1024, "d": 128, "e": 128}),
    ],
)
def test_lanes(text: str, name: str, sizes: dict[str, int]) -> None:
    made = run(text, name, sizes, 15e-6)
    lanes = {lane.name: lane.stretches for lane in made.lanes}
    assert {"producer", "copies", "products"} <= set(lanes)
    for lane, stretches in lanes.items():
        assert all(s.end > s.start >= 0 for s in stretches)
        if lane != "stores":  # several stores may be on their way at once
            ordered = sorted(stretches, key=lambda s: s.start)
            assert all(a.end <= b.start + 1e-12 for a, b in itertools.pairwise(ordered)), lane
    assert any(s.kind == "wait" for lane in made.lanes for s in lane.stretches)


def test_slots_are_not_filled_while_they_are_read() -> None:
    made = run(PRODUCT, "product", {"n": 4096, "d": 2048, "k": 4096}, 15e-6)
    lanes = {lane.name: lane.stretches for lane in made.lanes}
    by_slot: dict[int, dict[str, list[Stretch]]] = defaultdict(lambda: {"copy": [], "product": []})
    for stretch in (*lanes["copies"], *lanes["products"]):
        assert stretch.stage is not None
        by_slot[stretch.stage][stretch.kind].append(stretch)
    assert len(by_slot) == made.stages
    for of in by_slot.values():
        for copy in of["copy"]:
            assert all(product.end <= copy.start + 1e-12 or product.start >= copy.end - 1e-12 for product in of["product"])


def test_the_matrix_units_are_busy_once_the_pipeline_is_full() -> None:
    """The point of the pipeline: after the first copies, a large product keeps the matrix units at work nearly always."""
    made = run(PRODUCT, "product", {"n": 8192, "d": 8192, "k": 8192}, 20e-6)
    products = [s for lane in made.lanes if lane.name == "products" for s in lane.stretches]
    busy = sum(s.end - s.start for s in products)
    assert busy > 0.95 * (products[-1].end - products[0].start)
