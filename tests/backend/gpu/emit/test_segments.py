"""Where emitted kernels copy rows of a group from, run here as Python, against what PTX says of a copy of a box: what comes must be
the group's rows and zeros, whatever stands beside them, and nothing is read from outside of the tensor.

The simulator takes a step's rows from a view of its own, so it cannot tell whether coordinates and the descriptor mean the same.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from axon.backend.gpu.build.recipe import stages
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime.prepare import prepare, with_views_of
from axon.backend.gpu.tile.schedule import TileMapping
from tests.backend.gpu.emit import as_python
from tests.backend.gpu.tile.test_segments import always, kernels

__all__ = ["always"]  # a fixture

Copy = tuple[Any, tuple[int, ...]]  # the descriptor, and coordinates, innermost first


def asked(text: str, arguments: list[Any], start: list[int]) -> list[Copy]:
    """Every copy that is asked for in the only block, in order."""
    found: list[Copy] = []
    copy_in = lambda rank: lambda to, map_, barrier, *at: found.append((map_, tuple(map(int, at))))
    as_python.run(text, arguments, {"copy_in": copy_in, "load_i32": lambda address: start[address // 4]})
    return found


@pytest.mark.parametrize("specialized", [True, False])
@pytest.mark.parametrize("name", ["d_ordered", "d_heads"])
def test_what_copies_of_segments_bring(name: str, specialized: bool) -> None:
    n, g, k, j = 197, 6, 64, 64
    shapes = {"d_ordered": [(n, k), (g, k, j), (n,), (n, j)], "d_heads": [(n, 2, k), (g, 2, k, j), (n,), (2, n, j)]}[name]
    start = [0, 0, 1, 64, 130, 130, n, n]
    planned, (kernel,), sizes = kernels(name, shapes)
    lying = planned.lying(sizes)
    ready = prepare(kernel, lying, sizes)
    mapping = TileMapping(64, 64, 64, 4, 1, 1, 1, "rows", specialized=specialized)
    source = stages(ready.kernel, mapping, HOPPER, planned.values, ready.granted).source
    tensors = with_views_of(ready.kernel, lying, sizes)
    assert not isinstance(tensors, str)
    arguments = as_python.given(source, tensors, sizes)
    copies = asked(source.text, arguments, start)
    heads = 2 if name == "d_heads" else 1
    steps = [max(1, -(-(last - first) // 64)) for first, last in pairwise(start)][:g]
    assert len(copies) == 2 * heads * sum(steps)
    for operand in ready.kernel.operands:
        view = next(view for view in ready.kernel.views if view.value == operand.value)
        own = [at for descriptor, at in copies if descriptor.tensor == operand.value.symbol]
        shape = tensors[view.source].shape
        memory = np.arange(1, 1 + int(np.prod(shape)))
        rows = memory.reshape(shape) if heads == 1 else np.moveaxis(memory.reshape(shape), shape.index(2), 0)
        for group, head in product(range(g), range(heads)):
            count = steps[group]
            mine, own = own[:count], own[count:]
            descriptor = next(d for d, _ in copies if d.tensor == operand.value.symbol)
            lies = tensors[operand.value.symbol].arranged(descriptor.order)
            made = np.concatenate([as_python.brought(memory, lies, descriptor.box, at).reshape(64, 64) for at in mine])
            first, last = start[group], start[group + 1]
            want = rows[first:last] if heads == 1 else rows[head, first:last]
            assert not made[: len(made) - (last - first)].any()
            assert (made[len(made) - (last - first) :] == want).all()
