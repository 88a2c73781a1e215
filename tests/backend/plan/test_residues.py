"""Sums by the quotient and the remainder of an index: what is made besides what is asked reads nothing outside of a tensor."""

from __future__ import annotations

import pytest

from axon import compiler
from axon.backend.plan.residues import by_residues
from axon.core.ir import Compute
from axon.core.walk import mentions, reads


@pytest.mark.parametrize(
    ("body", "split"),
    [
        ("sum for a < 8, i < 2 => x[a, (p + 1) / 2 - i | 0.0] * k[a, (p + 1) % 2 + 2 * i]", True),
        ("sum for a < 8, i < 2 => x[a, p / 3 - i | 0.0] * k[a, i]", True),
        ("sum for a < 8 => x[a, p] * k[a, (p + 1) % 2]", True),  # row -1 of x, where p = -1 is made besides
        ("sum for a < 8, i < 2 => x[a, p + i | 0.0] * k[a, i]", False),  # no quotient
    ],
)
def test_only_what_is_padded_is_read_besides(body: str, split: bool) -> None:
    core = compiler.lower(compiler.check_text(f"fun f (x : f32[8, 40]) (k : f32[8, 4]) = for p < 40 => {body}"), "f", None)
    op = next(op for op in core.block.ops if isinstance(op, Compute) and op.reduction is not None)
    made = by_residues(op)
    assert (made is not None) == split
    if made is not None:
        own = {axis.symbol for axis in made.first.axes}
        moving = [r for r in reads(made.first.body[0]) if any(mentions(r, symbol) for symbol in own)]
        assert moving
        assert all(r.padding is not None for r in moving)
