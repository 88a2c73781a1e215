"""Plain kernels of tensors with spare elements behind each row: vectors of which the last one of a row counts in part.

What is spare holds nonsense here, and whoever moves what lies behind that, or stores over a row that follows, is found.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.backend.gpu.simt.plain_cases import admitted, case, compare, expected, headed, tailed, threads, with_spare
from tests.backend.gpu.simt.plain_programs import INTEGERS, NAMES, SOURCE, WHOLE
from tests.backend.gpu.simt.test_emit import executable
from tests.sample import ALL

SOAK = bool(os.environ.get("AXON_SOAK"))
SIZES = ((5, 37), (2, 261), (6, 1), (9, 13), (3, 9), (1, 71), (4, 64), (0, 9))[: 8 if ALL else 4]
FEW = 3 if ALL else 1
# Of these, a kernel by rows or by lanes has a tail: all others read, or store, what has no spare elements of its own row.
TAILED = frozenset({
    "rowsum", "colsum", "softmax", "gelu", "cum", "best", "worst", "variance", "twice", "custom", "anyall", "counts", "ratios",
    "mask",
})  # fmt: skip


def try_tails(source: str, name: str, element: str) -> int:
    """The kernels as they are chosen, and some of all with tails; how many of these."""
    made, chance, tails = executable(source, name, element), random.Random(name + element), 0
    for seed, size in enumerate(SIZES):
        given = with_spare(case(made, size, seed=seed))
        if not admitted(given):
            continue
        options = [tailed(given, nest) for nest in given.todo]
        every = [[one[n % len(one)] for one in options] for n in range(max(map(len, options), default=1))]
        every = [one for one in every if threads(given, one) <= (16_384 if SOAK else 1024)]
        some = [*every[:1], *chance.sample(every[1:], min(FEW, len(every[1:])))]
        for mappings in every if SOAK else some:
            compare(given, mappings, expected(given), seed=seed)
            tails += any(mapping.tail for mapping in mappings)
    return tails


BOTH = [(name, element) for name in NAMES for element in ("bf16", "f32") if element == "bf16" or ALL or name in TAILED]


@pytest.mark.parametrize(("name", "element"), BOTH)
def test_floats(name: str, element: str) -> None:
    assert try_tails(SOURCE, name, element) or name not in TAILED


@pytest.mark.parametrize("name", ["softmax", "variance"])
def test_rows_in_pieces(name: str) -> None:
    """Clusters whose last piece ends in the midst of a vector, all of which is brought."""
    made = executable(SOURCE, name, "bf16")
    for seed, size in enumerate(((5, 261), (3, 37))):
        given = with_spare(case(made, size, seed=seed))
        (nest,) = given.todo
        mappings = [m for m in tailed(given, nest) if m.pieces is not None and m.tail]
        streamed = [m for m in mappings if m.persistent and not m.chunks]
        few = random.Random(seed).sample(mappings, FEW) + random.Random(seed).sample(streamed, 2 * FEW)
        for mapping in mappings if SOAK else few:
            compare(given, [mapping], expected(given), seed=seed)


ANYWHERE = ((5, 37), (3, 261), (4, 13), (7, 5), (2, 71), (3, 9), (9, 1), (3, 64), (0, 9), (2, 519))[: 10 if ALL else 5]
HEADED = frozenset({"rowsum", "softmax", "layer_norm", "variance", "twice", "anyall", "ratios", "mask"})


def try_heads(source: str, name: str, element: str) -> int:
    """The kernels with vectors that begin where memory's do, of rows that begin anywhere; how many."""
    made, chance, heads = executable(source, name, element), random.Random(name + element), 0
    for seed, size in enumerate(ANYWHERE):
        given = case(made, size, seed=seed)
        if not admitted(given):
            continue
        options = [headed(given, nest)[1:] for nest in given.todo]
        if not all(options):
            continue
        every = [[one[n % len(one)] for one in options] for n in range(max(map(len, options), default=0))]
        every = [one for one in every if threads(given, one) <= (16_384 if SOAK else 1024)]
        for mappings in every if SOAK else chance.sample(every, min(2 * FEW, len(every))):
            compare(given, mappings, expected(given), seed=seed)
            heads += 1
    return heads


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_begin_anywhere(name: str) -> None:
    assert try_heads(SOURCE, name, "bf16") or name not in HEADED


@pytest.mark.parametrize("name", WHOLE)
def test_integers_that_begin_anywhere(name: str) -> None:
    for element in ("u8", "i16"):
        try_heads(INTEGERS, name, element)


@pytest.mark.parametrize("name", WHOLE)
def test_integers(name: str) -> None:
    for element in ("i32", "i64", "u8", "u16") if SOAK else ("i32", "u8"):
        try_tails(INTEGERS, name, element)
