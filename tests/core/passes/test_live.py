"""What nobody needs goes: states of loops that only they themselves read, and all of a loop; what may stop the program stays."""

from __future__ import annotations

import numpy as np
import pytest

from axon import compiler
from axon.base.data import replace
from axon.base.errors import AxonError
from axon.core.ir import Block, Loop
from axon.core.passes.live import live
from axon.core.verify import verify
from axon.interpret import run

TEXT = """
fun f (x : f64[n]) (k : i32) =
  let val s = {loop} (a = x, b = x, c = 0.0, d = 0.0) for t < 3 =>
    (for i => a[i] * 2.0, for i => b[i] + a[i], c + sum i => b[i], d + {last})
  in (s.1, s.2, s.3, s.4) end
"""
WANTED = [  # results, and the states that they leave
    ((0,), 1),
    ((1,), 2),
    ((2,), 3),
    ((0, 3), 2),
    ((), 0),
    ((3, 1, 0), 3),
]


@pytest.mark.parametrize(("results", "states"), WANTED)
@pytest.mark.parametrize("loop", ["loop", "unfold"])
def test_states(loop: str, results: tuple[int, ...], states: int) -> None:
    program = compiler.lower(compiler.check_text(TEXT.format(loop=loop, last="1.0")), "f", None)
    wanted = tuple(program.block.results[n] for n in results)
    made = replace(program, block=live(Block(program.block.ops, wanted)))
    assert [len(op.states) for op in made.block.ops if isinstance(op, Loop)] == ([states] if states else [])
    assert live(made.block) == made.block
    x = np.random.default_rng(0).standard_normal(4)
    before = run(replace(program, block=Block(program.block.ops, wanted)), [x, np.int32(1)], [])
    for got, want in zip(run(made, [x, np.int32(1)], []), before, strict=True):
        assert np.array_equal(got, want)


def test_what_may_stop_stays() -> None:
    program = compiler.lower(compiler.check_text(TEXT.format(loop="loop", last="x[k]")), "f", None)
    made = replace(program, block=live(Block(program.block.ops, program.block.results[:1])))
    (loop,) = (op for op in made.block.ops if isinstance(op, Loop))
    assert [len(state.shape) for state in loop.states] == [1, 0]
    verify(replace(program, block=live(program.block)))
    with pytest.raises(AxonError):
        run(made, [np.zeros(4), np.int32(4)], [])
