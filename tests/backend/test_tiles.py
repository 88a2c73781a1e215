"""Maps that read across, and where the squares of threads lie; `test_simt` runs them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from axon.backend.simt.mapping import Mapping, grid
from tests.backend.plain_cases import case, form, legal
from tests.backend.test_simt import SOURCE, executable

HEAVY = "fun heavy (x : T[n, d]) = for j i => erf (exp x[i, j]) + tanh x[i, j]"
THREE = "fun three (x : T[d, d]) (y : T[d, d]) (z : T[d, d]) = for i j => x[j, i] + y[j, i] * z[j, i]"


def chosen(source: str, name: str, element: str, size: tuple[int, int]) -> Mapping:
    given = case(executable(source, name, element), size)
    (nest,) = given.todo
    return legal(nest, given.made, given.tensors, given.sizes)[0]


@pytest.mark.parametrize(
    ("source", "name", "element", "size", "own"),
    [
        (SOURCE, "transpose", "bf16", (64, 64), True),
        (SOURCE, "transpose", "f32", (64, 12), True),
        (SOURCE, "batched", "f16", (64, 64), True),
        (SOURCE, "symmetric", "bf16", (64, 64), True),
        (SOURCE, "transpose", "f64", (64, 64), False),  # two neighbours
        (SOURCE, "transpose", "bf16", (64, 37), False),  # rows that do not begin at multiples of 16 bytes
        (SOURCE, "transpose", "bf16", (37, 64), False),
        (HEAVY, "heavy", "bf16", (64, 64), False),  # written eight times
        (THREE, "three", "bf16", (64, 64), False),  # three squares of 64 elements
        (THREE, "three", "f32", (64, 64), True),
    ],
)
def test_who_has_the_squares(source: str, name: str, element: str, size: tuple[int, int], own: bool) -> None:
    mapping = chosen(source, name, element, size)
    assert mapping.across is not None
    assert bool(mapping.across.along) == own
    assert str(mapping).startswith("a square for each thread" if own else "a block for each square")


@pytest.mark.parametrize("along", [2, 4, 8, 16])
@pytest.mark.parametrize("element", ["bf16", "f32"])
def test_memory_moves_whole_sectors(along: int, element: str) -> None:
    """Eight lanes, which memory serves at once, touch both sides in pieces of 32 bytes or more; a warp has each place once."""
    given = case(executable(SOURCE, "transpose", element), (256, 256))
    (nest,) = given.todo
    mapping = legal(nest, given.made, given.tensors, given.sizes)[0]
    assert mapping.across is not None
    text = form(given, nest, replace(mapping, across=replace(mapping.across, along=along)))[0].text
    lines = {name: re.search(rf"^ +{name} = (.*)$", text, re.M) for name in ("i0", "i1")}
    found = []
    for thread in range(32):
        at = [eval(line[1], {"thread": thread, "down": 0, "over": 0}) for line in lines.values() if line]
        found.append((at[0] // mapping.vector, at[1] // mapping.vector))
    assert sorted(found) == [(i, j) for i in range(along) for j in range(32 // along)]
    for quarter in (found[n : n + 8] for n in range(0, 32, 8)):
        assert all((i ^ 1, j) in quarter for i, j in quarter)
        assert all((i, j ^ 1) in quarter for i, j in quarter)


@pytest.mark.parametrize("size", [(8, 8), (40, 72), (64, 1024), (1024, 64), (600, 600)])
def test_every_square_is_someones(size: tuple[int, int]) -> None:
    given = case(executable(SOURCE, "batched", "bf16"), size)
    (nest,) = given.todo
    mapping = legal(nest, given.made, given.tensors, given.sizes)[0]
    launched = grid(mapping, nest, given.sizes)
    assert launched.blocks * launched.threads * mapping.vector**2 >= 3 * size[0] * size[1]
