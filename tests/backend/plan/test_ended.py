"""How much is done of loops that data end."""

from __future__ import annotations

import pytest

from axon import compiler
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.report.plain import times_of
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.plan.ended import ended, mean_of, total
from axon.backend.plan.ir import Nest
from axon.core.ir import Program

RAGGED = "fun f (x : f32[n, m]) (k : i32[n]) = for i => sum for j < m where j < k[i] => x[i, j]"
SHARED = "fun f (x : f32[m]) (k : i32[n]) = for i => sum for j < m where j < k[i] => x[j]"
PACKED = "fun f (x : f32[m]) (s : i32[n]) (k : i32[n]) = for i => sum for j < m where j < k[i] => x[s[i] + j]"
NOTHING = "fun f {m} (k : i32[n]) = for i => sum for j < m where j < k[i] => 1.0"
WHOLE = "fun f (x : f32[n, m]) = for i => sum j => x[i, j]"


def lowered(text: str) -> Program:
    return compiler.lower(compiler.check_text(text), "f", None)


@pytest.mark.parametrize(
    ("text", "explicit", "shapes", "mean"),
    [
        (RAGGED, (), [(100, 64), (100,)], 64),  # all that there is
        (SHARED, (), [(64,), (100,)], 64),  # the same for each
        (PACKED, (), [(6400,), (100,), (100,)], 64),  # each has its own part
        (PACKED, (), [(10,), (100,), (100,)], 1),  # or nothing
        (NOTHING, (64,), [(100,)], 64),
    ],
)
def test_loops_are_as_long_as_what_they_read(
    text: str, explicit: tuple[int, ...], shapes: list[tuple[int, ...]], mean: int
) -> None:
    core = lowered(text)
    planned, sizes = Executable(core, HOPPER).planned, core.contract.bind(explicit, shapes)
    (nest,) = planned.kernels
    assert isinstance(nest, Nest)
    (step,) = nest.steps
    assert mean_of(step, planned.known).evaluate(sizes) == mean
    (short,) = ended(nest, planned.known).steps
    assert short.reduction.axes[0].extent.evaluate(sizes) == mean  # type: ignore[union-attr]
    flops, by_data = total(nest.steps, planned.known)
    assert by_data
    assert flops.evaluate(sizes) == min(100 * mean, shapes[0][0] if text is PACKED else 100 * mean)


def test_other_loops_are_as_they_are() -> None:
    core = lowered(WHOLE)
    planned, sizes = Executable(core, HOPPER).planned, core.contract.bind((), [(100, 64)])
    (nest,) = planned.kernels
    assert isinstance(nest, Nest)
    assert ended(nest, planned.known) == nest
    flops, by_data = total(nest.steps, planned.known)
    assert (flops.evaluate(sizes), by_data) == (6400, False)


@pytest.mark.parametrize(("places", "width", "indices"), [(50257, 768, 8192), (1000, 64, 100_000), (200_000, 128, 4096)])
@pytest.mark.parametrize("gathered", ["x[ids[i], j]", "x[j, ids[i]]"])
def test_the_gradient_of_a_gather_is_predicted_by_what_moves(gathered: str, places: int, width: int, indices: int) -> None:
    """A sum over segments of sorted indices, of which none has all: within three times of what memory takes."""
    turned = gathered.startswith("x[j")
    shape = "d, v" if turned else "v, d"
    text = f"fun f (x : f32[{shape}]) (ids : i32[n]) (dy : f32[n, d]) = vjp (fn x => for i j => {gathered}) x dy"
    core = lowered(text)
    sizes = core.contract.bind((), [(width, places) if turned else (places, width), (indices,), (indices, width)])
    found = list(times_of(core, sizes))
    moved = sum(time.work.moved for time in found) / 4.2e12
    assert moved <= sum(time.seconds - 2e-6 for time in found) <= 3 * moved + 10e-6
