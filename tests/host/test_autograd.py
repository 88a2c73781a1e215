"""Axon's functions in PyTorch's autograd, on the host. Skipped where PyTorch is not installed."""

from __future__ import annotations

import pytest

from tests.host.autograd_cases import CASES, module, normal, same, torch


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_autograd(name: str) -> None:
    CASES[name]("cpu")


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_targets_hold_for_derivatives(target: str) -> None:
    x = normal(5, device="cpu", grad=True)
    y = module().cube(x, target=target)
    same(torch.autograd.grad(y.sum(), x)[0], 3 * x.detach() ** 2)
