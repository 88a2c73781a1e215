"""Axon's functions in PyTorch's autograd, on a real GPU: the cases of `tests/host`, streams, threads and recorded graphs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.host.autograd_cases import CASES, module, normal, torch

if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_autograd(name: str) -> None:
    CASES[name]("cuda")


def large(*shape: int, seed: int) -> Any:
    return (normal(*shape, device="cuda", seed=seed) * shape[-1] ** -0.5).bfloat16().requires_grad_()


def check(w: Any, b: Any, x: Any) -> None:
    """A layer in bf16, whose adjoints are products of matrices, against PyTorch's in f32."""
    y = module().dense({"w": w, "b": b}, x)
    y.pow(2).mean().backward()
    exact = [t.detach().float().requires_grad_() for t in (w, b, x)]
    torch.tanh(exact[2] @ exact[0] + exact[1]).pow(2).mean().backward()
    for found, wanted in zip((w, b, x), exact, strict=True):
        error = (found.grad.float() - wanted.grad).norm() / wanted.grad.norm()
        assert error < 2e-2
        found.grad = None


def test_bf16_products() -> None:
    given = large(512, 1024, seed=0), large(1024, seed=1), large(256, 512, seed=2)
    for _ in range(3):
        check(*given)


def test_other_streams() -> None:
    given = large(128, 256, seed=0), large(256, seed=1), large(64, 128, seed=2)
    check(*given)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            check(*given)
    torch.cuda.synchronize()


def test_threads() -> None:
    def run(seed: int) -> None:
        check(large(128, 256, seed=seed), large(256, seed=seed + 1), large(64, 128, seed=seed + 2))

    run(0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(16)))


def test_recorded_graphs() -> None:
    """A whole step, forward and backward, in one graph of PyTorch's."""
    w, x = large(128, 128, seed=0), large(64, 128, seed=1).detach()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())

    def step() -> None:
        w.grad = None
        module().product(x, w).float().pow(2).mean().backward()

    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    x.copy_(large(64, 128, seed=5).detach())
    graph.replay()
    found = w.grad.float().clone()
    exact = w.detach().float().requires_grad_()
    (x.float() @ exact).pow(2).mean().backward()
    assert (found - exact.grad).norm() / exact.grad.norm() < 2e-2
