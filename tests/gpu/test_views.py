"""Kernels that read and store through views, on a real GPU against the interpreter. Skipped where there is no Hopper GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from tests.backend.gpu.layout.test_views import FEED_FORWARD, SOURCE, STREAMS
from tests.backend.gpu.tile.test_summed_indices import SOURCE as SUMMED

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

B, F = torch.bfloat16, torch.float32
CASES: list[tuple[str, str, tuple[int, ...], list[tuple[tuple[int, ...], Any]]]] = [
    (SOURCE, "part", (), [((300, 328), B), ((328, 264), B)]),
    (SOURCE, "part", (), [((300, 72), B), ((72, 264), B)]),
    (SOURCE, "shifted", (), [((300, 200), B), ((200, 264), B)]),
    (SOURCE, "halves", (), [((136, 2 * 72), B)]),
    (SOURCE, "heads", (3,), [((2, 130, 2 * 3 * 64), B)]),
    (SOURCE, "heads", (3,), [((2, 130, 2 * 3 * 40), B)]),
    (SOURCE, "merged", (), [((2, 3, 133, 80), B), ((80, 64), B), ((192,), B)]),
    (SOURCE, "merged", (), [((2, 3, 133, 80), B), ((80, 24), B), ((72,), B)]),
    (SOURCE, "layers", (), [((3, 256, 256), B), ((3, 256), B), ((300, 256), B)]),
    (SOURCE, "diagonal", (), [((300, 72), B), ((72, 264), B), ((264, 264), F)]),
    (SOURCE, "diagonal", (), [((264, 72), B), ((72, 264), B), ((264, 264), F)]),
    (SOURCE, "single", (), [((300, 72), B), ((72, 264), B), ((2, 3), F)]),
    (SOURCE, "reversed", (), [((300, 72), B), ((72, 264), B), ((264,), F)]),
    (STREAMS, "attention", (4,), [((2, 333, 3 * 4 * 64), B)]),
    (STREAMS, "attention", (3,), [((2, 200, 3 * 3 * 40), B)]),
    (STREAMS, "relative", (), [((333, 64), B), ((333, 64), B), ((333, 72), B), ((665,), F)]),
    (STREAMS, "sloped", (2,), [((6, 333, 64), B), ((3, 333, 64), B), ((3,), F)]),
    (SUMMED, "two", (), [((300, 3, 40), B), ((3, 40, 264), B)]),
    (SUMMED, "turned", (), [((3, 40, 300), B), ((260, 40, 3), B)]),
    (SUMMED, "three", (), [((2, 300, 3, 24), B), ((3, 264, 24, 2), B)]),
    (SUMMED, "heads", (), [((2, 133, 12, 64), B), ((12, 64, 768), B)]),
    (SUMMED, "windows", (), [((303, 72), B), ((4, 72, 264), B)]),
    (SUMMED, "reach", (), [((307,), B), ((4, 4, 264), B)]),
    (SUMMED, "in_f32", (), [((1030, 7, 72), F), ((7, 72, 1028), F)]),
    (FEED_FORWARD, "f", (), [((300, 136), B), ((136, 520), B), ((520, 136), B)]),
    (FEED_FORWARD, "f", (), [((300, 1032), B), ((1032, 264), B), ((264, 1032), B)]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}{case[3][0][0]}")
def test_as_the_interpreter(case: Any) -> None:
    source, name, sizes, shapes = case
    generator = torch.Generator().manual_seed(1)
    given = [
        (torch.randn(shape, generator=generator) * (shape[-2] if len(shape) > 1 else 1) ** -0.25).to(kind) for shape, kind in shapes
    ]
    function = getattr(axon.compile(source), name)
    function = function[sizes] if sizes else function
    want = np.asarray(function(*given, target="interpret").float().double())
    for _ in range(2):
        got = function(*(x.cuda() for x in given)).double().cpu().numpy()
        np.testing.assert_allclose(got, want, rtol=3e-2, atol=2e-2 * float(np.abs(want).max()))
