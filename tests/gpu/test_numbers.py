"""Generated programs of all element types on a real GPU, against Python's integers and intervals (see `tests.numbers`)."""

from __future__ import annotations

import os

import pytest

from tests.numbers.agree import agree, programs
from tests.numbers.test_numbers import hold

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

PROGRAMS = int(os.environ.get("AXON_PROGRAMS", 2_000 if os.environ.get("AXON_SOAK") else 40))


@pytest.mark.parametrize("part", range(4))
def test_generated_programs(part: int) -> None:
    hold(agree(programs(part * PROGRAMS // 4, PROGRAMS // 4), "cuda"))
