"""What a contraction's epilogue costs for each element of its sums, for the cost model of `schedule`."""

from __future__ import annotations

from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.schedule import Epilogue
from axon.base.element import Element
from axon.core.ir import Read
from axon.core.scalar_facts import dims_variables, weight
from axon.core.walk import reads


def epilogue_of(kernel: MatrixProduct) -> Epilogue:
    """What is done beside storing one result; nothing if that is all."""
    rows, columns = kernel.rows.symbol, kernel.columns.symbol
    seen: set[Read] = set()
    far = near = 0
    read = 0.0
    for result in kernel.results:
        along = [r for r in dict.fromkeys(reads(result.expression)) if columns in dims_variables(r)]
        new = [r for r in along if rows in dims_variables(r) and r not in seen]
        seen.update(new)
        far += bool(new)
        near += bool(along) and not new
        read += sum(map(_size, (r.element for r in new)))
    stored = [_size(result.value.element) for result in kernel.results]
    work = sum(weight(result.expression, None) for result in kernel.results)
    if not (far or near or work or len(stored) > 1):
        return Epilogue()
    return Epilogue(far, near, read + max(0.0, sum(stored) - _size(kernel.left.value.element)), float(work))


def _size(element: Element) -> float:
    return element.bits / 8
