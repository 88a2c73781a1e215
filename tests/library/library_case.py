"""A case compares one function of the library with an independent implementation, over random sizes, 0 and 1 among them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

import axon
from axon.checker.loader import stdlib_root

Array = np.ndarray[Any, np.dtype[Any]]
TARGET = os.environ.get("AXON_TARGET", "interpret")  # any target may be held to the same comparisons
Value = Any  # an array, a number, or a tuple or dict of values


class Drawn:
    """What hypothesis chooses for one comparison: sizes, and a seed for the numbers; all floats have one element type."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw
        self.element = draw(st.sampled_from([np.float32, np.float64]))
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def size(self, low: int = 0, high: int = 5) -> int:
        found: int = self._draw(st.integers(low, high))
        return found

    def shape(self, rank: int = 3) -> tuple[int, ...]:
        """The sizes of up to `rank` dimensions."""
        return tuple(self.size(0, 4) for _ in range(self.size(0, rank)))

    def real(self, *shape: int, scale: float = 1.0) -> Array:
        return np.asarray(scale * self.rng.standard_normal(shape), self.element)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Array:
        return np.asarray(self.rng.uniform(low, high, shape), self.element)

    def integers(self, *shape: int, low: int = 0, high: int = 4) -> Array:
        """Integers from `low` to `high` - 1; few of them, so that some are equal."""
        return self.rng.integers(low, high, shape, np.int32)

    def few(self, *shape: int) -> Array:
        """Floats of which many are equal."""
        return self.integers(*shape).astype(self.element)


@dataclass(frozen=True)
class Comparison:
    arguments: tuple[Value, ...]
    wanted: Value
    sizes: tuple[int, ...] = ()
    slack: float = 1.0  # by how many times more than usual the results may differ; 0: not at all
    single: bool = False  # the floats of the result are f32, whatever the arguments are, or are made by way of f32
    double: bool = False  # the floats of the result are f64, whatever the arguments are


def of(
    *arguments: Value,
    wanted: Value,
    sizes: tuple[int, ...] = (),
    slack: float = 1.0,
    single: bool = False,
    double: bool = False,
) -> Comparison:
    return Comparison(arguments, wanted, sizes, slack, single, double)


@dataclass(frozen=True)
class Case:
    name: str  # module.function
    compare: Callable[[Drawn], Comparison]
    program: str | None  # the declaration of an `f` to be called instead: functions cannot come from Python


CASES: list[Case] = []
ELSEWHERE: dict[str, str] = {}  # functions that a test file here holds to other things than one result


def case(name: str, program: str | None = None) -> Callable[[Callable[[Drawn], Comparison]], Callable[[Drawn], Comparison]]:
    def add(compare: Callable[[Drawn], Comparison]) -> Callable[[Drawn], Comparison]:
        CASES.append(Case(name, compare, program))
        return compare

    return add


@cache
def _module(name: str) -> axon.Module:
    return axon.load(stdlib_root() / f"{name}.axon")


@cache
def _program(text: str) -> axon.Module:
    return axon.compile(text)


def function_of(case: Case, found: Comparison) -> axon.Function:
    """What a case calls, at its dimension parameters."""
    module, name = case.name.split(".")
    function: axon.Function = _program(f"import {module}\n{case.program}").f if case.program else _module(module)[name]
    return function[found.sizes] if found.sizes else function


def check(case: Case, drawn: Drawn) -> None:
    """Fail unless the function gives what the independent implementation does."""
    found = case.compare(drawn)
    got = function_of(case, found)(*found.arguments, target=TARGET)
    _equal(got, found.wanted, drawn.element, found)


def _equal(got: Value, wanted: Value, element: type, how: Comparison) -> None:
    if isinstance(wanted, tuple):
        assert isinstance(got, tuple)
        for g, w in zip(got, wanted, strict=True):
            _equal(g, w, element, how)
    elif isinstance(wanted, dict):
        assert got.keys() == wanted.keys()
        for key in wanted:
            _equal(got[key], wanted[key], element, how)
    else:
        wanted = np.asarray(wanted)
        assert np.shape(got) == wanted.shape
        if np.issubdtype(wanted.dtype, np.floating):
            if wanted.ndim:
                assert got.dtype == (np.float64 if how.double else element) or (how.single and got.dtype == np.float32)
            near = how.slack * (1e-5 if how.single or (element == np.float32 and not how.double) else 1e-11)
            np.testing.assert_allclose(got, wanted, rtol=near, atol=near)
        else:
            assert not wanted.ndim or got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
