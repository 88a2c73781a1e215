"""Optimizers of the library on a real GPU: the runs of `tests/library/test_optim.py`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.library.optim_runs import RUNS, torch

if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", RUNS)
def test_run(name: str, dtype: Any) -> None:
    RUNS[name]("cuda", dtype, None)
