"""Whole programs: whatever sizes a contract admits, nothing is read outside, nothing has a size below 0 or another than is said.

The interpreter is the oracle. It looks at each access that the checker took to be inside, and AX0001 is what it says of a wrong
one. Programs are generated from what sizes can pass through: calls with contracts of their own, sizes that data decide, slices,
windows, conditions on sizes, on indices and on data, and sums over them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import axon

PARTS, PROGRAMS = (8, 2_000) if os.environ.get("AXON_SOAK") else (2, 32)  # each is called with 80 combinations of sizes

CALLED = """\
fun tail (x : i32[n]) (y : i32[m]) where m <= n = nonzero (for i < n - m => x[i + m] > 1)
fun half (x : i32[n]) where n % 2 = 0, n >= 2 = for i < n / 2 - 1 => x[2 * i + 2]
fun third (x : i32[n]) where n >= 3 = x[2]
fun take {h} (x : i32[n]) where h <= n = x[0 : h]
fun windows {r} (x : i32[n]) = for i => sum for j < r => x[i + j]
fun parts {h} (x : i32[n]) = filter (for i < n / h => x[i * h] > 1) (for i < n / h => x[i])
"""


class Program:
    """One function of two vectors and a number, by a seeded generator."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = 0

    def text(self) -> str:
        sizes, values = ["n", "m", "k"], ["x", "y"]

        def sized(sizes: list[str], values: list[str]) -> str:
            return f"let val (r : i32[z]) = {self.vector(2, sizes, values)} in (z, r) end"

        body = self.opened(1, sizes, values, sized) if self.rng.random() < 0.5 else sized(sizes, values)
        return f"{CALLED}fun f {{k}} (x : i32[n]) (y : i32[m]) = {body}"

    def fresh(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def size(self, depth: int, sizes: list[str]) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.45:
            return rng.choice([*sizes, *sizes, str(rng.randrange(4))])
        a, b = (self.size(depth - 1, sizes) for _ in range(2))
        return rng.choice([
            f"({a} + {b})", f"({a} - {b})", f"({a} - {rng.randrange(1, 3)})", f"({a} / {rng.choice(['2', '3', b])})",
            f"({a} % {rng.choice(['2', '3', b])})", f"(min ({a}) ({b}))", f"(max ({a}) ({b}))", f"({rng.randrange(2, 4)} * {a})",
        ])  # fmt: skip

    def condition(self, depth: int, sizes: list[str], values: list[str]) -> str:
        rng = self.rng
        if depth and rng.random() < 0.35:
            a, b = (self.condition(depth - 1, sizes, values) for _ in range(2))
            return rng.choice([f"({a} andalso {b})", f"({a} orelse {b})", f"(not {a})"])
        if values and rng.random() < 0.15:
            return f"({rng.choice(values)}[0 | 0] > 1)"
        return f"({self.size(1, sizes)} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {self.size(1, sizes)})"

    def scalar(self, depth: int, sizes: list[str], values: list[str]) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice([str(rng.randrange(4)), f"{rng.choice(values)}[{self.size(1, sizes)}]"])
        i = self.fresh()
        kind = rng.randrange(9)
        if kind == 0:
            return f"(sum for {i} < {self.size(1, sizes)} => {self.scalar(depth - 1, [*sizes, i], values)})"
        if kind == 1:
            condition = self.condition(1, sizes, values)
            return f"(if {condition} then {self.scalar(depth - 1, sizes, values)} else {self.scalar(depth - 1, sizes, values)})"
        if kind == 2:
            return f"(third {self.vector(depth - 1, sizes, values)})"
        if kind == 3:
            return f"({self.scalar(depth - 1, sizes, values)} + {self.scalar(depth - 1, sizes, values)})"
        if kind == 4 and not any(s.startswith("v") for s in sizes):  # nothing is opened under an index
            return self.opened(depth, sizes, values, lambda s, v: self.scalar(depth - 1, s, v))
        if kind == 5:
            condition = self.condition(1, [*sizes, i], values)
            return f"(sum for {i} < {self.size(1, sizes)} where {condition} => {self.scalar(depth - 1, [*sizes, i], values)})"
        if kind == 6:  # what it asks of its parameter and of the sizes around, its call must give
            own, name = f"s{self.names}", self.fresh()
            body = self.scalar(depth - 1, [*sizes, own], [*values, i])
            return f"(let fun {name} ({i} : i32[{own}]) = {body} in {name} {self.vector(depth - 1, sizes, values)} end)"
        return f"{rng.choice(values)}[{self.size(2, sizes)}]"

    def opened(self, depth: int, sizes: list[str], values: list[str], body: Callable[[list[str], list[str]], str]) -> str:
        rng = self.rng
        v, c = self.fresh(), f"c{self.names}"
        made = rng.choice([
            f"nonzero (for i => {rng.choice(values)}[i] > 1)",
            f"tail {rng.choice(values)} {self.vector(depth - 1, sizes, values)}",
            f"parts {{{self.size(1, sizes)}}} {rng.choice(values)}",
            f"nonzero ({rng.choice(values)}[{self.size(1, sizes)} : {self.size(1, sizes)}] > 1)",
        ])  # fmt: skip
        return f"(let val ({v} : i32[{c}]) = {made} in {body([*sizes, c], [*values, v])} end)"

    def vector(self, depth: int, sizes: list[str], values: list[str]) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice(values)
        i = self.fresh()
        inner = [*sizes, i]
        match rng.randrange(9):
            case 0 | 1:
                return f"(for {i} < {self.size(2, sizes)} => {self.scalar(depth - 1, inner, values)})"
            case 2:
                return f"({rng.choice(values)}[{self.size(1, sizes)} : {self.size(1, sizes)}])"
            case 3:
                return f"(half {self.vector(depth - 1, sizes, values)})"
            case 4:
                return f"(take {{{self.size(1, sizes)}}} {self.vector(depth - 1, sizes, values)})"
            case 5:
                return f"(windows {{{self.size(1, sizes)}}} {self.vector(depth - 1, sizes, values)})"
            case 6:
                size = self.size(1, sizes)
                ways = (f"(for {i} < {size} => {self.scalar(depth - 1, inner, values)})" for _ in range(2))
                return f"(if {self.condition(1, sizes, values)} then {next(ways)} else {next(ways)})"
            case 7:
                condition = self.condition(1, inner, values)
                ways = (self.scalar(depth - 1, inner, values) for _ in range(2))
                return f"(for {i} < {self.size(1, sizes)} => if {condition} then {next(ways)} else {next(ways)})"
            case _:
                return f"(for {i} => {rng.choice(values)}[{i}] + {rng.choice(values)}[{self.size(1, inner)}])"


@pytest.mark.parametrize("part", range(PARTS))
def test_what_a_contract_admits_runs(part: int) -> None:
    accepted = ran = 0
    for seed in range(part, PROGRAMS, PARTS):
        text = Program(random.Random(seed)).text()
        found = {d.code for d in axon.check(text)}
        assert not found & {"AX0001", "AX0002"}, f"seed {seed}: {text}"
        if found:
            continue
        accepted += 1
        f = axon.compile(text).f
        for n, m, k in product(range(5), range(4), range(4)):
            at = f"seed {seed}, n = {n}, m = {m}, k = {k}: {text}"
            try:
                z, r = f[k](np.arange(n, dtype=np.int32), np.arange(m, dtype=np.int32) + 1, target="interpret")
            except axon.AxonError as error:
                # Where that is said an index is compared while running; an integer may be divided by 0. Nothing else goes wrong.
                met = {d.code: d.message for d in error.diagnostics}
                assert met.keys() <= {"AX0501", "AX0502", "AX0503"}, f"{at}: {error}"
                assert "of a dimension" not in met.get("AX0503", ""), f"{at}: {error}"
                continue
            ran += 1
            assert z == len(r), at
    assert accepted > PROGRAMS // PARTS // 20
    assert ran > 10 * accepted
