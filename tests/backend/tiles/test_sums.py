"""Sums of products by loops that suit their sizes: every arrangement gives what NumPy gives in f64, on one thread and on two."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

from axon.backend.cpu.sums import Loops
from axon.backend.tiles.sum_loops import FEW
from axon.backend.tiles.sums import LARGE, Arranged, Sum, arranged, simplified
from axon.base.element import Element

SIZES = (1, 2, 3, 4, 5, 8, 9, 16, 17, 30, 32, 65, 100)


def sum_of(equation: str, sizes: dict[str, int]) -> Sum:
    """Of tensors in one piece."""
    before, result = equation.split("->")
    axes = [*result, *(i for i in sizes if i not in result)]

    def strides(own: str) -> tuple[int, ...]:
        return tuple(prod(sizes[i] for i in own[own.index(a) + 1 :]) if a in own else 0 for a in axes)

    factors = tuple(map(strides, before.split(",")))
    return Sum(tuple(sizes[a] for a in axes), tuple(a in result for a in axes), factors, strides(result))


def tensors(equation: str, sizes: dict[str, int], element: Element) -> list[Any]:
    chance = np.random.default_rng(0)
    operands = equation.split("->")[0].split(",")
    return [chance.standard_normal([sizes[i] for i in own]).astype(element.dtype) for own in operands]


def check(equation: str, sizes: dict[str, int], element: Element) -> Arranged:
    loops = Loops.of(sum_of(equation, sizes), element)
    assert loops is not None
    given = tensors(equation, sizes, element)
    got = np.full([sizes[i] for i in equation.split("->")[1]], np.nan, element.dtype)
    loops.run([x.ctypes.data for x in given], got)
    wide = [x.astype(np.float64) for x in given]
    wanted, size = (np.einsum(equation, *some, optimize="optimal") for some in (wide, [np.abs(x) for x in wide]))
    worst = np.max(np.abs(got - wanted) / size)
    assert worst <= 4 * np.finfo(element.dtype).eps, (equation, sizes, worst)
    return loops.arranged


def drawn(seed: int) -> tuple[str, dict[str, int]]:
    """An equation of one to four factors, and sizes, of at most 2^21 points."""
    chance = Random(seed)
    while True:
        indices = "abcdef"[: chance.randint(2, 6)]
        most = min(4, len(indices))
        operands = ["".join(chance.sample(indices, chance.randint(1, most))) for _ in range(chance.choice([1, 2, 2, 2, 3, 4]))]
        used = sorted(set("".join(operands)))
        result = "".join(chance.sample(used, chance.randint(0, min(4, len(used)))))
        sizes = {i: chance.choice(SIZES) for i in used}
        if prod(sizes.values()) <= 1 << 21:
            return f"{','.join(operands)}->{result}", sizes


@pytest.mark.parametrize("seed", range(40))
def test_drawn_sums(seed: int) -> None:
    equation, sizes = drawn(seed)
    check(equation, sizes, (Element.F32, Element.F64)[seed % 2])


def test_each_arrangement() -> None:
    """What the notes say, each where it applies."""
    sizes = {"a": 40, "b": 72, "c": 48}
    assert check("ab,abc->acb", sizes, Element.F32).turned == (1,), "a map whose largest factor lies across"
    assert check("acb,abc->a", sizes, Element.F64).turned, "the same of a sum"
    assert any(check("bc,cab->abc", {"a": 4, "b": 72, "c": 48}, Element.F32).turned)
    assert any(check("bac,cb->ab", sizes, Element.F32).copies), "a small factor is copied"
    short = check("abc,ab->ac", {"a": 300, "b": 40, "c": 3}, Element.F32)
    assert short.unrolled is not None
    total = check("bca,ac->", {"a": 100, "b": 64, "c": 64}, Element.F32)
    assert total.chunks > 1, "a total is cut"
    assert check("cb,abc->b", {"a": 90, "b": 64, "c": 4}, Element.F64).beside
    within = check("abc,b->ca", {"a": 30, "b": 50, "c": 16}, Element.F32)
    assert within.beside


def test_neighbours_are_one() -> None:
    assert simplified(sum_of("abc,abc->", {"a": 3, "b": 4, "c": 5})).sizes == (60,)
    assert simplified(sum_of("abc,c->ab", {"a": 3, "b": 1, "c": 5})).sizes == (3, 5)
    assert simplified(sum_of("ab,ba->a", {"a": 3, "b": 4})).sizes == (3, 4)


def test_how_much_a_thread_has_follows_from_sizes() -> None:
    """Many items where the result is large, chunks where it is small, one item of what is little."""
    assert arranged(sum_of("abc,c->ab", {"a": 300, "b": 200, "c": 64})).items >= 16
    assert arranged(sum_of("ab,ab->", {"a": 1 << 11, "b": 1 << 11})).items >= 8
    assert arranged(sum_of("ab,a->", {"a": 16, "b": LARGE // 32})).items == 1


@pytest.mark.parametrize("equation", ["ab,b->a", "ab,a->b", "abc,ca->b", "a,a->", "ab,ba->"])
def test_long_sums_keep_their_digits(equation: str) -> None:
    """Of equal numbers, of which one accumulator in f32 would lose several digits."""
    indices = sorted(set(equation) - set(",->"))
    sizes = dict(zip(indices, {1: (3_000_000,), 2: (1500, 2000), 3: (40, 30, 2500)}[len(indices)], strict=True))
    assert prod(sizes.values()) > 1000 * FEW
    loops = Loops.of(sum_of(equation, sizes), Element.F32)
    assert loops is not None
    before, result = equation.split("->")
    given = [np.full([sizes[i] for i in own], np.float32(0.1)) for own in before.split(",")]
    got = np.empty([sizes[i] for i in result], np.float32)
    loops.run([x.ctypes.data for x in given], got)
    count = prod(size for i, size in sizes.items() if i not in result)
    np.testing.assert_allclose(got, count * float(np.float32(0.1)) ** 2, rtol=3e-6)


def test_bits_are_those_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    for equation in ("abc,ac->b", "bca,ac->", "ab,abc->acb"):
        sizes = {"a": 70, "b": 90, "c": 100}
        loops = Loops.of(sum_of(equation, sizes), Element.F32)
        assert loops is not None
        given = tensors(equation, sizes, Element.F32)
        found = []
        for threads in ("1", "2", "3"):
            monkeypatch.setenv("AXON_THREADS", threads)
            got = np.empty([sizes[i] for i in equation.split("->")[1]], np.float32)
            loops.run([x.ctypes.data for x in given], got)
            found.append(got)
        assert all(np.array_equal(found[0], other) for other in found[1:]), equation
