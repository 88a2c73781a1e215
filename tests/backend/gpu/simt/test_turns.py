"""How often a thread goes through its loops, counted by hand."""

from __future__ import annotations

import pytest

from axon import compiler
from axon.backend.gpu.layout.roofline import TURN, waiting
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.report.plain import time_of, times_of
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.simt.mapping import Mapping
from axon.backend.plan.ir import Nest

ROWS = "fun f (x : f32[a, b, c]) = for i => sum j k => x[i, j, k * 1]"
SCAN = "fun f (x : f32[a, b]) = for i => scan (op +, 0.0) j => x[i, j]"
COLUMNS = "fun f (x : f32[a, 48, c]) = for i k => sum j => x[i, j, k]"
SOFTMAX = "import nn\nfun f (x : f32[a, b]) = nn.softmax x"


def counted(text: str, shape: tuple[int, ...], mapping: Mapping) -> list[tuple[int, int]]:
    """The turns of each step's threads, and how many of these there are."""
    core = compiler.lower(compiler.check_text(text), "f", None)
    sizes = core.contract.bind((), [shape])
    planned = Executable(core, HOPPER).planned
    (nest,) = planned.kernels
    assert isinstance(nest, Nest)
    found = time_of(nest, planned.known, planned.lying(sizes), sizes, HOPPER, mapping)
    return [(each.count, each.threads) for each in found.turns]


@pytest.mark.parametrize(
    ("text", "shape", "mapping", "want"),
    [
        (COLUMNS, (12, 48, 3072), Mapping("lanes", 4), [(48, 12 * 3072 // 4)]),
        (COLUMNS, (12, 48, 3072), Mapping("lanes", 4, team=16), [(3, 12 * 3072 // 4 * 16)]),
        (COLUMNS, (1, 48, 3), Mapping("lanes", team=64), [(1, 3 * 48)]),  # 48 of 64 sharers have an element
        (SOFTMAX, (10, 4096), Mapping("block", 4, team=256), [(4, 2560)] * 3),
        (SOFTMAX, (10, 4096), Mapping("block", 4, team=256, below=True), [(4, 2560)] * 2),
        (SOFTMAX, (10, 4096), Mapping("block", 4, chunks=4, team=256), [(1, 2560)]),
        (SOFTMAX, (10, 100), Mapping("block", 4, team=256), [(1, 250)] * 3),
        (SCAN, (3, 8192), Mapping("block", 4, team=512, turns=2), [(2, 1536)]),
        ("fun f (x : f32[a, b]) = for i j => x[i, j] + 1.0", (64, 64), Mapping("lanes"), []),
        ("fun f (x : f32[a, b]) = for i => sum j => x[i, j]", (0, 8), Mapping("block", team=32), []),
        ("fun f (x : f32[a, b]) = for i => sum j => x[i, j]", (8, 0), Mapping("block", team=32), [(0, 0)]),
    ],
)  # fmt: skip
def test_turns(text: str, shape: tuple[int, ...], mapping: Mapping, want: list[tuple[int, int]]) -> None:
    assert counted(text, shape, mapping) == want


def test_groups_share_a_loop_around_the_innermost() -> None:
    """Rows that do not lie as one: the sum over (12, 768, 3072) of which the constant comes."""
    text = "fun f (x : f32[a, b, c + 1]) = for i => sum for j < b, k < c => x[i, j, k]"
    shape = (12, 768, 3073)
    assert counted(text, shape, Mapping("warp", 4, team=16)) == [(768 * 48, 12 * 16)]
    assert counted(text, shape, Mapping("block", 4, team=512, deep=2, around=0)) == [(384 * 3, 12 * 512)]
    assert waiting(768 * 48, 12 * 16, HOPPER) == pytest.approx(4200e-6, rel=0.06)


def test_more_threads_than_a_chip_holds_wait_in_waves() -> None:
    assert waiting(10, 1, HOPPER) == waiting(10, 132 * 1024, HOPPER) == pytest.approx(10 * TURN)
    assert waiting(10, 132 * 4096, HOPPER) == pytest.approx(40 * TURN)


def test_what_comes_from_a_cache_is_no_turn() -> None:
    """Each of 4,096 rows reads the same elements."""
    core = compiler.lower(compiler.check_text("fun f (x : f32[n]) (y : f32[m]) = for i => sum j => exp (x[i] + y[j])"), "f", None)
    (found,) = times_of(core, core.contract.bind((), [(4096,), (65_536,)]))
    assert [each.anew for each in found.turns] == [1 / 4096]
