"""Programs in parts: what they mean is what was split, straight parts are few, and what is broken is named."""

from dataclasses import replace
from random import Random

import pytest

import axon
from axon import compiler
from axon.base.names import fresh
from axon.core.ir import Check, Index, Sort
from axon.core.passes.parts import (
    HostLoop,
    PartsBody,
    PartsInvalid,
    Straight,
    as_program,
    counted,
    parts,
    print_parts,
    straights,
    verify_parts,
)
from axon.interpret import run
from axon.shapes.dimension import Dim
from tests import ROOT
from tests.core.arguments import general
from tests.core.random_programs import Generator, outcome


def split(source, name="f"):
    made = parts(compiler.lower(axon.compile(source)._session.checked, name, None))
    verify_parts(made)
    return made


def kinds(body):
    return [type(part).__name__ for part in body.parts]


def test_parts_mean_what_was_split():
    seen = set()
    for seed in range(150):
        program, inputs = Generator(Random(seed)).program()
        made = parts(program)
        verify_parts(made)
        assert outcome(program, inputs) == outcome(as_program(made), inputs), print_parts(made)
        seen |= {type(part) for part in made.body.parts}
    assert seen >= {Straight, HostLoop, Sort}


@pytest.mark.parametrize("folder", ["stdlib", "tests/corpus/accepted"])
def test_parts_of_whole_libraries(folder):
    straight = parted = 0
    for _, program in general(ROOT / folder):
        made = parts(program)
        verify_parts(made)
        straight, parted = straight + (made.straight is not None), parted + (made.straight is None)
        if made.straight is None:
            assert any(not isinstance(part, Straight | Check) for part in made.body.parts)
            # No two straight parts stand beside one another.
            assert not any(a == b == "Straight" for a, b in zip(kinds(made.body), kinds(made.body)[1:], strict=False))
    assert straight > 5 * parted > 0


def test_a_straight_program_keeps_its_results():
    made = split("fun f {m} (x : f32[n]) = (exp x, x as f32[m])", "f")
    assert made.straight is not None
    assert made.straight.block.results == made.program.block.results
    assert made.checks


def test_what_does_not_wait_comes_first():
    """A part for what the mask needs and one for what is selected, whatever the order in the source."""
    made = split("""fun f (x : f32[n]) =
      let val (ix : i32[k]) = nonzero (for i => x[i] > 0.0)
          val total = sum i => x[i]
      in (for i => exp x[ix[i]], total) end""")
    assert kinds(made.body) == ["Straight", "Compress", "Straight"]
    first, _, last = made.body.parts
    assert len(first.results) == 2  # the mask, and the total, which is computed while the host waits for the size
    assert {s.name for s in last.program.explicit} >= {"k"}


def test_pointwise_operations_go_to_their_readers():
    made = split(
        """fun f (x : f32[n]) (w : f32[n, n]) =
      let val y = for i => x[i] + 1.0
          val z = loop (s = x) for t < 3 => w @@ s
      in for i => y[i] * z[i] end""".replace("w @@ s", "for i => sum j => w[i, j] * s[j]")
    )
    loop, last = made.body.parts  # `y` is computed with `y * z`, and the loop begins with `x` itself
    assert isinstance(loop, HostLoop)
    assert len(last.program.block.ops) == 2
    assert loop.op.initial == (made.program.inputs[0].symbol,)


def test_sorts_go_before_loops_that_they_need_nothing_of():
    """What reads both is one part then. A sort of what the loop gives stays behind it."""
    text = """fun f (x : f32[n]) (w : f32[n]) =
      let val y = loop (s = w) for t < 3 => for i => sum j => s[j] * x[i]
          val order = argsort {given}
      in for i => y[order[i]] + y[i] end"""
    assert kinds(split(text.format(given="x")).body) == ["Sort", "HostLoop", "Straight"]
    assert kinds(split(text.format(given="y")).body) == ["HostLoop", "Sort", "Straight"]
    assert kinds(split(text.format(given="(for i => y[i] + 1.0)")).body) == ["HostLoop", "Straight", "Sort", "Straight"]


def test_copies_are_left_out_but_for_results():
    made = split("fun f (x : f32[n]) (y : f32[n]) = loop (a = x, b = y) for t < 3 => (b, for i => a[i])")
    (loop,) = made.body.parts
    assert loop.body.parts == ()
    assert loop.body.results == tuple(state.symbol for state in reversed(loop.op.states))
    made = split("fun f (x : f32[n]) = let val y = for i => x[i] in (y, loop (s = y) for t < 3 => for i => s[i] * 2.0) end")
    assert kinds(made.body) == ["Straight", "HostLoop"]


def test_a_counter_is_a_dimension():
    made = split("fun f (x : f32[n]) = loop (s = x, last = 0) for t < n => (for i => s[i] + x[t] * cast _ t, t)")
    (loop,) = (part for part in made.body.parts if isinstance(part, HostLoop))
    for part in straights(loop.body):
        assert loop.op.counter not in {value.symbol for value in part.program.inputs}
        assert loop.op.counter in part.program.explicit


def test_trip_counts():
    made = split("fun f (x : f32[n]) (k : i32) = loop (s = x) for t < k * k => for i => s[i] + 1.0")
    (loop,) = (part for part in made.body.parts if isinstance(part, HostLoop))
    assert not isinstance(loop.trip, Dim)
    assert "the host waits for the number of steps" in print_parts(made)
    assert not counted(made.body)
    made = split("""fun f (x : f32[n]) =
      let val c = sum for k < 9 where 2 ** k <= n => 1 in loop (s = x) for t < c => for i => s[i] + 1.0 end""")
    (loop,) = (part for part in made.body.parts if isinstance(part, HostLoop))
    assert "waits" not in print_parts(made)
    assert [int(run(counted(made.body)[loop.trip], (), (n,))[0]) for n in (0, 1, 2, 3, 1000)] == [0, 1, 2, 2, 9]
    made = split("fun f {k} (x : f32[n]) = loop (s = x) for t < k + n => for i => s[i] + 1.0")
    (loop,) = (part for part in made.body.parts if isinstance(part, HostLoop))
    assert isinstance(loop.trip, Dim)


def test_printed():
    made = split("""fun f (x : f32[n]) =
      let val y = sort x
          val (ix : i32[k]) = nonzero (for i => y[i] > 0.0)
      in (ix, unfold (s = y) for t < n => for i => s[i] + cast _ t) end""")
    text = print_parts(made)
    assert text.splitlines()[0] == f"f: {len(made.body.parts)} parts on a GPU"
    assert "sort, by kernels of its own" in text
    assert "compress, by kernels of its own; the host waits for the size" in text
    assert "unfold of n steps, by the host" in text


def test_broken_parts_are_named():
    made = split("fun f (x : f32[n]) = loop (s = exp x) for t < n => for i => s[i] + x[t]")
    first, loop = made.body.parts

    def broken(body, word):
        with pytest.raises(PartsInvalid, match=word):
            verify_parts(replace(made, body=body))

    results = made.body.results
    broken(PartsBody((loop, first), results), "no program of core")
    broken(PartsBody((first, loop), (fresh("nothing"),)), "no program of core")
    outside = replace(first, program=replace(first.program, explicit=(*first.program.explicit, fresh("m"))))
    broken(PartsBody((outside, loop), results), "a dimension that is not known")
    endless = replace(loop, op=replace(loop.op, trip=Index(Dim.of(fresh("m")))))
    broken(PartsBody((first, endless), results), "of the dimension m is not in scope")
    broken(PartsBody((replace(first, program=made.program), loop), results), "no program of core|not straight")


def test_what_the_command_line_shows():
    """Parts, at the end of the plan and before what is explained; the kernels of sorts; nothing for a straight program."""
    program = compiler.lower(axon.compile("fun f (x : f32[n]) = loop (s = x) for t < 3 => sort s")._session.checked, "f", None)
    assert "1. loop of 3 steps, by the host" in compiler.emit(program, "plan", None)
    assert compiler.explain(program, None).startswith("f: 1 part on a GPU\n  1. loop of 3 steps")
    assert "# sort f32: a row in each block" in compiler.emit(program, "kernel", None)
    assert "one role, no barriers" in compiler.emit(program, "roles", None)
    plain = compiler.lower(axon.compile("fun f (x : f32[n]) = exp x")._session.checked, "f", None)
    assert "on a GPU" not in compiler.emit(plain, "plan", None)
