"""Which columns a device's kernels go over, in each step of a ring: those that a row of their tile sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from axon.backend.gpu.runtime.steps import Ordered
from axon.backend.gpu.tile.bounds import bounds
from axon.backend.gpu.tile.stream import Stream
from axon.base.names import Symbol
from axon.core.ir import Binary, Const, Index, Local, Scalar, Select, Unary
from axon.core.sharding.ir import Local as LocalProgram
from axon.core.sharding.ir import Repeat
from tests.core.sharding.whole import bound, mesh, nvlink, of, sharded

TEXT = """
import nn
fun attend (q : bf16[h, s, c]) (k : bf16[h, s, c]) (v : bf16[h, s, c]) =
  let val scores = for h i j => (sum c => q[h, i, c] * k[h, j, c]) * rsqrt (cast bf16 c)
      val w = nn.softmax (for h i j => if SEEN then scores[h, i, j] else -inf)
  in for h i c => sum j => w[h, i, j] * v[h, j, c] end
"""
BLOCK, TILE = 96, 16
ARITHMETIC = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "div": int.__floordiv__, "min": min, "max": max,
              "ge": int.__ge__, "le": int.__le__, "gt": int.__gt__, "lt": int.__lt__, "and": lambda a, b: a and b}  # fmt: skip


def value(scalar: Scalar, sizes: Mapping[Symbol, int]) -> int:
    """A whole number, in arithmetic without limits."""
    match scalar:
        case Const(value=number):
            return int(number)
        case Index(dim=dim):
            return dim.evaluate(sizes)
        case Local(symbol=symbol):
            return sizes[symbol]
        case Unary(op="neg", operand=operand):
            return -value(operand, sizes)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return value(then if value(condition, sizes) else otherwise, sizes)
        case Binary(op=op, left=left, right=right):
            return int(ARITHMETIC[op](value(left, sizes), value(right, sizes)))
        case _:
            raise AssertionError(scalar)


def streams(step: LocalProgram, sizes: Mapping[Symbol, int]) -> Iterator[Stream]:
    known = {s for v in step.program.inputs for d in v.shape for s in d.variables} | {*step.program.explicit}
    yield from (k for k in Ordered(step.program).at({s: sizes[s] for s in known}).kernels if isinstance(k, Stream))


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("seen", ["j <= i", "j < i + 40", "i - j < 100 andalso j <= i"])
def test_a_kernel_goes_over_columns_that_its_rows_see(devices: int, seen: str) -> None:
    """Where a device stands, and in which step, are sizes of the kernel; a tile leaves out what the mask says that none of its rows
    sees, and asks of no element where all of them see it."""
    program = of(TEXT.replace("SEEN", seen), "attend")
    dims = bound(program, h=2, s=BLOCK * devices, c=64)
    large = {s: 4096 * n if s.name == "s" else n for s, n in dims.items()}
    found = sharded(program, mesh(m=devices), {"s": "m"}, large, nvlink())
    (repeat,) = (step for step in found.steps if isinstance(step, Repeat))
    checked = 0
    for step in repeat.steps:
        for place in found.mesh.coordinates():
            for turn in range(devices) if isinstance(step, LocalProgram) else ():
                sizes = found.environment(dims, place) | {repeat.counter: turn}
                for kernel in streams(step, sizes):
                    checked += check(kernel, sizes)
    assert checked >= devices * devices


def check(kernel: Stream, sizes: Mapping[Symbol, int]) -> bool:
    """The intervals of the columns against the condition itself, asked of each element."""
    condition, row, column = kernel.condition, kernel.rows, kernel.keys
    assert condition is not None
    made = bounds(condition, row.symbol, column.symbol, column.extent, lambda _: False)
    rows, columns = row.extent.evaluate(sizes), column.extent.evaluate(sizes)
    assert made.uneven
    for first in range(0, rows, TILE):
        last = min(rows, first + TILE) - 1
        ends = {**sizes, made.first_row: first, made.last_row: last}
        (low, high), (inner, outer) = (tuple(value(end, ends) for end in interval) for interval in (made.some, made.every))
        sees = [
            [bool(value(condition, {**sizes, row.symbol: i, column.symbol: j})) for i in range(first, last + 1)]
            for j in range(columns)
        ]
        some, every = ({j for j, each in enumerate(sees) if kept(each)} for kept in (any, all))
        assert set(range(max(0, low), min(columns, high))) == some
        assert set(range(max(0, inner), min(columns, outer))) == every
    return True
