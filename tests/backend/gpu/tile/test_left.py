"""What follows a product and plain kernels make again: the product stores what is fewer bytes."""

from __future__ import annotations

import pytest

from axon import compiler
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.tile.contraction import MatrixProduct

TEXT = """
fun f (x : {element}[n, k]) (w : {element}[k, m]) (g : f32[m]) =
  let val y = for i j => sum l => x[i, l] * w[l, j]
      val z = for i j => {after}
  in (for i => sum j => z[i, j], for j => sum i => z[i, j]{more}) end
"""
CASES = {  # the element type of the factors, what follows, more results, what the product stores, and whether that is its sums
    "scaled in f32": ("bf16", "cast f32 y[i, j] * g[j]", "", "bf16", True),
    "in two steps": ("f16", "(cast f32 y[i, j] + 1.0) * g[j]", "", "f16", True),
    "of the same width": ("bf16", "y[i, j] * cast bf16 g[j]", "", "bf16", False),
    "dear": ("bf16", "exp (cast f32 y[i, j]) * g[j]", "", "f32", False),
    "a result": ("bf16", "cast f32 y[i, j] * g[j]", ", z", "f32", False),
    "f32 throughout": ("f32", "y[i, j] * g[j]", "", "f32", False),
}


@pytest.mark.parametrize(("element", "after", "more", "stored", "sums"), CASES.values(), ids=CASES)
def test_what_a_product_stores(element: str, after: str, more: str, stored: str, sums: bool) -> None:
    core = compiler.lower(compiler.check_text(TEXT.format(element=element, after=after, more=more)), "f", None)
    sizes = core.contract.bind((), [(4096, 8192), (8192, 4096), (4096,)])
    (product,) = (k for k in Executable(core).serving({}, sizes).planned.kernels if isinstance(k, MatrixProduct))
    (result,) = product.results
    assert result.value.element.value == stored
    assert (result.value.symbol == core.block.ops[0].outs[0].symbol) is sums
