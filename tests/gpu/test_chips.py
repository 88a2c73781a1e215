"""Kernels made for earlier chips run on a real GPU, and give what the interpreter gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon.backend import chips
from axon.backend.gpu.runtime.stepped_call import HostCall
from axon.backend.gpu.runtime.steps import Stepped
from axon.core.verify import CoreInvalid
from axon.interpret import run
from tests.backend.gpu.oracle import corpus, different, outcome

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 6):
    pytest.skip("needs a GPU of 8.6 or later", allow_module_level=True)
EARLIER = ("sm_75", "sm_80")


@pytest.mark.parametrize("chip", EARLIER)
def test_the_accepted_programs(chip: str) -> None:
    target, wrong = chips.made_for(chip, 0), []
    assert target.linked[:2] == torch.cuda.get_device_capability()
    programs = corpus(8)
    for name, (program, (explicit, inputs, sizes)) in programs.items():
        try:
            want = outcome(run, program, inputs, explicit)
        except CoreInvalid:
            continue
        stepped = Stepped(program, target)
        got = outcome(lambda: HostCall(stepped, [x.copy() for x in inputs], sizes, None)(inputs, None))  # noqa: B023
        if why := different(got, want):
            wrong.append(f"{name}: {why}")
    assert not wrong, f"{len(wrong)} of {len(programs)} programs differ\n" + "\n".join(wrong[:5])


@pytest.mark.parametrize("chip", EARLIER)
def test_modules_for_a_chip(chip: str) -> None:
    """Tensors where they lie; NaN wins, and bf16 is rounded as PyTorch rounds it."""
    text = """
import nn
fun largest (x : f32[n, m]) = for i => max j => x[i, j]
fun narrow (x : f32[n, m]) = for i j => cast bf16 x[i, j]
fun product (a : f32[n, k]) (b : f32[k, m]) = a @ b
"""
    m: Any = axon.compile(text, chip=chip)
    x = torch.randn(300, 5000, device="cuda") * torch.exp(torch.randn(300, 5000, device="cuda") * 30)
    x[7, 4000], x[9, 0], x[11, 3] = torch.nan, torch.inf, -torch.inf
    assert torch.equal(torch.isnan(m.largest(x)), torch.isnan(x.max(1).values))
    np.testing.assert_array_equal(m.largest(x).cpu(), x.max(1).values.cpu())
    narrow, own = m.narrow(x), x.to(torch.bfloat16)
    assert torch.equal(torch.nan_to_num(narrow), torch.nan_to_num(own))
    assert torch.equal(torch.isnan(narrow), torch.isnan(own))
    a, b = torch.randn(200, 333, device="cuda"), torch.randn(333, 150, device="cuda")
    torch.testing.assert_close(m.product(a, b), (a.double() @ b.double()).float(), rtol=1e-4, atol=1e-4)
    assert "tile" not in str(m.product.variants)
