"""Literal tables in the memory of a real GPU: read by every call, in graphs that the caller records, and from several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import axon

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

COUNT = 2000
VALUES = np.random.default_rng(0).integers(-4000, 4000, COUNT) / 1000
PROGRAM = f"""
val t = [| {", ".join(map(str, VALUES.tolist()))} |]
fun look (ix : i32[n]) = for i => t[ix[i] | 0.0]
fun several (x : f32[n]) =
  let val s = sum j => t[j]
      val y = for i < n => exp (x[i] * t[i | 1.0])
      val z = sum i => y[i]
  in for i => y[i] / z + s end
fun steps (x : f32[n]) = loop (s = x) for k < 5 => for i => s[i] + t[(i + k) % {COUNT}]
fun product (a : bf16[m, 64]) = let val w = for i < 64, j < 64 => cast bf16 t[(i * 31 + j) % {COUNT}] in a @ w end
"""


@pytest.fixture(scope="module")
def m() -> Any:
    return axon.compile(PROGRAM)


@pytest.fixture(scope="module")
def table() -> Any:
    return torch.from_numpy(VALUES.astype(np.float32)).cuda()


def places(count: int = 5000) -> Any:
    return torch.randint(0, COUNT, (count,), device="cuda", dtype=torch.int32)


def test_calls_again_and_at_other_sizes(m: Any, table: Any) -> None:
    for n in (1000, 1000, 1000, 1008, 1008):
        x = torch.randn(n, device="cuda")
        y = torch.exp(x * table[:n])
        torch.testing.assert_close(m.several(x), y / y.sum() + table.sum(), rtol=0, atol=1e-4)
        i = torch.arange(n, device="cuda")
        torch.testing.assert_close(m.steps(x), x + sum(table[(i + k) % COUNT] for k in range(5)), rtol=0, atol=1e-5)


def test_a_factor_of_a_product(m: Any, table: Any) -> None:
    a = torch.randn(300, 64, device="cuda").bfloat16()
    i = torch.arange(64, device="cuda")
    w = table[(i[:, None] * 31 + i) % COUNT].bfloat16()
    torch.testing.assert_close(m.product(a).float(), a.float() @ w.float(), rtol=2e-2, atol=0.2)


def test_in_a_graph_of_the_caller(m: Any, table: Any) -> None:
    ix, out = places(), torch.empty(5000, device="cuda")
    m.look(ix, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        m.look(ix, out=out)
    ix.copy_(places())
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, table[ix.long()])


def test_from_several_threads(table: Any) -> None:
    look = axon.compile(PROGRAM).look

    def work(number: int) -> bool:
        with torch.cuda.stream(torch.cuda.Stream()):
            found = [(look(ix), ix) for ix in (places(1000 + number) for _ in range(20))]
            torch.cuda.current_stream().synchronize()
            return all(torch.equal(got, table[ix.long()]) for got, ix in found)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))
