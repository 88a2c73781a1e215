"""`optim` over records and tuples of weights: whole runs beside PyTorch's, where it is installed, and schedules beside its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from tests.library.optim_runs import RUNS, torch


@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", RUNS)
def test_run(name: str, dtype: Any, target: str) -> None:
    RUNS[name]("cpu", dtype, target)


SCHEDULES = {
    "optim.cosine 20 t": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20),
    "optim.exponential (0.9 : f64) t": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
    "optim.stairs (0.5 : f64) 6 t": lambda o: torch.optim.lr_scheduler.StepLR(o, 6, 0.5),
    "optim.one_cycle 0.04 4.0e-6 (0.3 : f64) 21 t": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1.0, 21),
    "optim.linear 20 t": lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.0, 20),
    "optim.warmup 10 t": lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 9),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", SCHEDULES)
def test_schedule(call: str) -> None:
    factors = axon.compile(f"import optim\nfun f {{n}} : f64[n] = for t < n => {call}").f[21]()
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1.0)
    peer = SCHEDULES[call](optimizer)
    wanted = []
    for t in range(21):
        wanted.append(optimizer.param_groups[0]["lr"])
        if t < 20:
            peer.step()
    np.testing.assert_allclose(factors, wanted, rtol=1e-9, atol=1e-9)
