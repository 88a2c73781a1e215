"""Sums go through their axes as the largest tensor lies, and give the same."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from axon import compiler
from axon.base.element import Element
from axon.core.ir import Compute, Program
from axon.core.passes.loop_order import in_memory_order
from axon.core.printer import print_program
from axon.core.verify import verify
from axon.interpret import run
from axon.lower import TensorType

# With the axes of the sum before and after: of two reads as large the first decides, and bounds may keep their order.
PROGRAMS = [
    ("fun f (x : f32[b, c, a]) = sum a b c => x[b, c, a]", "a b c", "b c a"),
    ("fun f (x : f32[b, c, a]) (y : f32[a]) = sum a b c => y[a] * x[b, c, a]", "a b c", "b c a"),
    ("fun f (x : f32[b, c, a]) = for c => sum a b => x[b, c, a]", "a b", "b a"),
    ("fun f (x : f32[b, c]) (y : f32[k]) = sum c k b => y[k] * x[b, c]", "c k b", "k b c"),  # what is not in it, first
    ("fun f (x : f32[a, b, c]) (y : f32[b, a, c]) = sum k i j => x[j, i, k] + y[i, j, k]", "k i j", "j i k"),
    ("fun f (x : f32[d, a, b, c]) (y : f32[b, c, a, d]) = sum a b c d => x[d, a, b, c] * y[b, c, a, d]", "a b c d", "a b d c"),
    ("fun f (x : f32[b, c, a]) = max a b c => x[b, c, a]", "a b c", "a b c"),  # only sums
    ("fun f (x : f32[n, n, n]) = sum for i < n, j < i, k < j => x[k, j, i]", "i j k", "i j k"),
    ("fun f (x : i32[b, a]) (n : i32) = sum a b => x[b, a] / n", "a b", "a b"),  # may stop
]


def axes(program: Program) -> str:
    (op,) = [op for op in program.block.ops if isinstance(op, Compute) and op.reduction]
    assert op.reduction is not None
    return " ".join(axis.symbol.name for axis in op.reduction.axes)


def lowered(text: str) -> Program:
    checked = compiler.check_text(text)
    assert checked.ok, checked.diagnostics
    kinds = [part.split("[") for part in text.split(" = ")[0].split(" : ")[1:]]
    types = [TensorType(Element(k[0].split(")")[0]), k[1].count(",") + 1 if len(k) > 1 else 0) for k in kinds]
    return compiler.lower(checked, "f", tuple(types))


@pytest.mark.parametrize(("text", "before", "after"), PROGRAMS)
def test_programs(text: str, before: str, after: str) -> None:
    program = lowered(text)
    ordered = in_memory_order(program)
    verify(ordered)
    assert (axes(program), axes(ordered)) == (before, after)
    assert in_memory_order(ordered) is ordered
    assert (ordered is program) == (before == after), print_program(ordered)


def test_any_sum_gives_the_same() -> None:
    random, rng = Random(0), np.random.default_rng(0)
    for _ in range(60):
        names = random.sample("abcd", random.randint(2, 4))
        large, small = random.sample(names, len(names)), random.sample(names, random.randint(1, len(names)))
        result = random.sample(names, random.randint(0, len(names) - 2))
        summed = [name for name in names if name not in result]
        domain = f"for {' '.join(result)} => " if result else ""
        body = f"x[{', '.join(large)}] * y[{', '.join(small)}]"
        text = f"fun f (x : i32[{', '.join(large)}]) (y : i32[{', '.join(small)}]) = {domain}sum {' '.join(summed)} => {body}"
        program = lowered(text)
        ordered = in_memory_order(program)
        order = [name for name in large if name in summed]
        if small[-1] in order[:-1] and order[-1] in small:
            order = [*(name for name in order[:-1] if name != small[-1]), small[-1], order[-1]]
        assert axes(ordered).split() == order
        size = dict(zip(names, (2, 3, 1, 4), strict=False))
        given = [rng.integers(-9, 9, [size[n] for n in axis]).astype(np.int32) for axis in (large, small)]
        (got,), (wanted,) = run(ordered, given), run(program, given)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(got, np.einsum(f"{''.join(large)},{''.join(small)}->{''.join(result)}", *given))
