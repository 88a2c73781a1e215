"""Where operations go: down to their readers, or once into each place that reads them, if that reads no more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from random import Random

import pytest

from axon import compiler
from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Block, Compute, Op, Program, Scan
from axon.core.operands import with_tensors
from axon.core.passes.dissolve import copied
from axon.core.passes.sink import sunk
from axon.core.verify import verify
from axon.core.walk import outs_of, tensors_of
from tests.core.random_programs import Generator, outcome


def lowered(text: str) -> Program:
    """Without what only copies."""
    program = compiler.lower(compiler.check_text(text), "f", None)
    same: dict[Symbol, Symbol] = {}
    ops: list[Op] = []
    for op in program.block.ops:
        made, source = with_tensors(op, same), copied(op)
        if source is None:
            ops.append(made)
        else:
            same[outs_of(op)[0].symbol] = same.get(source, source)
    return replace(program, block=Block(tuple(ops), tuple(same.get(s, s) for s in program.block.results)))


def placed(program: Program, places: Sequence[int]) -> dict[int, list[Op]]:
    """The operations of each place; those at -1 are no plain ones."""
    place = {n: at for n, at in enumerate(places) if at >= 0}
    return sunk(program.block.ops, place, frozenset(program.block.results))


def stored(program: Program, made: dict[int, list[Op]]) -> list[int]:
    """Which operations make what is read in another place, or a result; -1 for one that is made again."""
    own = {out.symbol: n for n, op in enumerate(program.block.ops) for out in outs_of(op)}
    results = set(program.block.results)
    found = []
    for at, ops in made.items():
        read = results.union(*(tensors_of(op) for other, more in made.items() if other != at for op in more))
        found += [own.get(out.symbol, -1) for op in ops for out in outs_of(op) if out.symbol in read]
    return sorted(found)


# Of the names that are made, in order: the place of each, and what then is stored. w, y, z are results.
FORMS = {
    "down to the one place that reads it": ("x : f32[n]", "a = for i => x[i] + 1.0; z = for i => a[i] * a[i]", "01", "z"),
    "a conversion into each place": (
        "x : bf16[n, m]",
        "a = for i j => cast f32 x[i, j]; y = for i => sum j => a[i, j]; z = for i => max j => a[i, j] * a[i, j]",
        "001",
        "y z",
    ),
    "not one that reads more bits than there are": (
        "x : f32[n, m]",
        "a = for i j => cast bf16 x[i, j]; y = for i => sum j => a[i, j]; z = for i => max j => a[i, j] * a[i, j]",
        "001",
        "a y z",
    ),
    "not one of two tensors of its own width": (
        "x : f32[n, m]) (w : f32[n, m]",
        "a = for i j => x[i, j] * w[i, j]; y = for i => sum j => a[i, j]; z = for i => max j => a[i, j] * a[i, j]",
        "001",
        "a y z",
    ),
    "one of a row's statistic and a vector": (
        "x : f32[n, m]) (w : f32[m]",
        "s = for i => sum j => x[i, j]; a = for i j => (x[i, j] - s[i]) * w[j]; y = for i => sum j => a[i, j];"
        "z = for i => max j => a[i, j]",
        "0001",
        "s y z",
    ),
    "of what is made again itself": (
        "x : bf16[n, m]",
        "c = for i j => cast f32 x[i, j]; s = for i => sum j => c[i, j]; a = for i j => c[i, j] - s[i];"
        "y = for i => sum j => a[i, j]; z = for i => max j => a[i, j] * c[i, j]",
        "00001",
        "s y z",
    ),
    "not of what would have to be stored for it": (
        "x : f32[n, m]) (w : f32[n, m]",
        "c = for i j => x[i, j] * w[i, j] * w[i, j]; a = for i j => c[i, j] + 1.0; y = for i => sum j => a[i, j] + c[i, j];"
        "z = for i => max j => a[i, j]",
        "0001",
        "a y z",
    ),
    "not what costs much": (
        "x : f32[n, m]",
        "a = for i j => exp x[i, j]; y = for i => sum j => a[i, j]; z = for i => max j => a[i, j]",
        "001",
        "a y z",
    ),
    "not what one place makes several times": (
        "x : f32[n]",
        "a = for i => x[i] + 1.0; y = for i => a[i] * x[i]; z = for i, j < 9 => a[i] * cast _ j",
        "001",
        "a y z",
    ),
    "not across rows": (
        "x : f32[m, n]",
        "a = for i j => cast f64 x[j, i]; y = for i => sum j => a[i, j]; z = for i => max j => a[i, j]",
        "001",
        "a y z",
    ),
    "a result stays, and is made again beside": (
        "x : bf16[n, m]",
        "w = for i j => cast f32 x[i, j]; y = for i => sum j => w[i, j]; z = for i => max j => w[i, j] * w[i, j]",
        "012",
        "w y z",
    ),
}


@pytest.mark.parametrize(("inputs", "made", "places", "kept"), FORMS.values(), ids=FORMS)
def test_forms(inputs: str, made: str, places: str, kept: str) -> None:
    lines = [line.strip() for line in made.split(";")]
    results = ", ".join(name for name in (line.split()[0] for line in lines) if name in "wyz")
    bindings = "\n      ".join(f"val {line}" for line in lines)
    program = lowered(f"fun f ({inputs}) =\n  let {bindings}\n  in ({results}) end\n")
    assert len(program.block.ops) == len(lines)
    names = [lines[n].split()[0] for n in stored(program, placed(program, [int(place) for place in places]))]
    assert names == kept.split()


def test_places_one_after_another_mean_the_same() -> None:
    again = 0
    for seed in range(300):
        chance = Random(seed)
        program, inputs = Generator(chance).program()
        ops = program.block.ops
        if not all(isinstance(op, Compute | Scan) for op in ops):
            continue
        places = list(accumulate(chance.choice((0, 0, 1)) for _ in ops))
        made = placed(program, places)
        whole = tuple(op for at in sorted(made) for op in made[at])
        again += len(whole) > len(ops)
        moved = replace(program, block=Block(whole, program.block.results))
        verify(moved)
        assert outcome(moved, inputs) == outcome(program, inputs), seed
    assert again >= 5
