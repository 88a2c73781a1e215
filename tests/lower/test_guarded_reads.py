"""What only a guard makes right is evaluated only where it holds, however it is named, kept, passed on or put away meanwhile."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

import axon

COUNT = int(os.environ.get("AXON_PROGRAMS", "0")) or (2000 if os.environ.get("AXON_SOAK") else 42)
SEEDS = 6

# Each reads past the end of `x` where its guard does not hold, and uses what it has read in what is named after that.
WRITTEN = [
    "if i + 1 < n then (let val b = x[i + 1] val m = exp b in m * m + b end) else 0.0",
    "if i + 1 >= n then 0.0 else (let val b = x[i + 1] val m = exp b in m * m + b end)",
    "if i >= 1 then (let val b = x[i - 1] val m = exp b in m * m + b end) else 0.0",
    "if i + 1 < n then (if not (x[i + 1] > 0.0) then 1.0 else 2.0) else 0.0",
    "if i + 1 < n then (let val p = (x[i + 1], 2.0) val m = exp p.1 in m * m + p.1 * p.2 end) else 0.0",
    "if i + 1 < n then (let val p = { a = x[i + 1], b = 2.0 } val m = exp p.a in m * m + p.a * p.b end) else 0.0",
    "if i + 1 < n then (let val g = max x[i + 1] val m = g 0.5 in m * m + m end) else 0.0",
    "if i + 1 < n then logs x[i + 1] (logs x[i] x[i + 1]) else 0.0",
    "if i + 1 < n then (let val h = fn y => (let val m = exp x[i + 1] in m * m + y end) val b = h x[i + 1] in b * b end) else 0.0",
    "if i + 1 < n then (let val b = x[i + 1] in sum for j < 3 => (let val m = exp b in m * m + cast _ j end) end) else 0.0",
    "if i + 1 < n then (let val b = x[i + 1] in (loop (s = b) for t < 3 => s * 0.5 + b) * 2.0 end) else 0.0",
    "if i + 1 < n then (let val b = x[i + 1] val r = [| b, exp b |] in r[0] * r[1] + r[1] end) else 0.0",
    "sum for j < 2 where i + j < n => (let val b = x[i + j] val m = exp b in m * m + b * y[j] end)",
]


@pytest.mark.parametrize("body", WRITTEN)
def test_what_is_named_after_a_guarded_read(body: str) -> None:
    text = "fun logs a b = let val m = max a b in if m > 9.0 then m else m + exp (a - m) + exp (b - m) end\n"
    function = axon.compile(f"{text}fun f (x : f64[n]) (y : f64[2]) = for i < n => {body}").f
    x = np.linspace(-1.0, 1.0, 5)
    interpreted, compiled = (function(x, np.ones(2), target=target) for target in ("interpret", "cpu"))
    assert np.allclose(interpreted, compiled, rtol=1e-12)


# ── generated ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Given(NamedTuple):
    """What a point of the result is computed from."""

    x: np.ndarray[Any, Any]
    i: int
    names: Mapping[str, Any]

    def with_name(self, name: str, value: Any) -> Given:
        return self._replace(names={**self.names, name: value})


class Term(NamedTuple):
    """A scalar expression: its text, and what it is by Python's floats, of which a branch that is not taken computes nothing."""

    text: str
    value: Callable[[Given], float]


class Scope(NamedTuple):
    """Where a term stands: how far from `i` reads are inside, and what names there are."""

    reach: tuple[int, ...] = (0,)
    scalars: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()


class Maker:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.names = 0

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def term(self, scope: Scope, depth: int) -> Term:
        if depth <= 0:
            return self.leaf(scope)
        forms = [self.unary, self.binary, self.branch, self.branch, self.named, self.named, self.pair, self.function, self.summed]
        forms += [self.looped, self.vector, self.partial]
        return self.random.choice(forms)(scope, depth - 1)

    def leaf(self, scope: Scope) -> Term:
        kinds = ["read", "read", "constant"] + ["scalar"] * (3 * bool(scope.scalars)) + ["pair"] * (2 * bool(scope.pairs))
        kinds += ["vector"] * (2 * bool(scope.vectors)) + ["call"] * bool(scope.functions)
        match self.random.choice(kinds):
            case "scalar":
                name = self.random.choice(scope.scalars)
                return Term(name, lambda g: g.names[name])
            case "pair":
                name, part = self.random.choice(scope.pairs), self.random.randrange(2)
                return Term(f"{name}.{part + 1}", lambda g: g.names[name][part]())
            case "vector":
                name, part = self.random.choice(scope.vectors), self.random.randrange(2)
                return Term(f"{name}[{part}]", lambda g: g.names[name][part])
            case "call":
                name, given = self.random.choice(scope.functions), self.leaf(scope._replace(functions=()))
                return Term(f"({name} ({given.text}))", lambda g: g.names[name](given.value(g)))
            case "constant":
                number = self.random.choice((0.5, -0.25, 1.5))
                return Term(f"({number} + 0.0 * x[i])", lambda g: number)  # of the type of `x`, wherever it stands
        by = self.random.choice(scope.reach)
        return Term(f"x[i + {by}]" if by >= 0 else f"x[i - {-by}]", lambda g: float(g.x[g.i + by]))

    def unary(self, scope: Scope, depth: int) -> Term:
        a, (name, of) = self.term(scope, depth), self.random.choice((("tanh", math.tanh), ("cos", math.cos), ("-", lambda v: -v)))
        return Term(f"({name} ({a.text}))", lambda g: of(a.value(g)))

    def binary(self, scope: Scope, depth: int) -> Term:
        a, b = self.term(scope, depth), self.term(scope, depth)
        op, of = self.random.choice((("+", lambda v, w: v + w), ("*", lambda v, w: v * w), ("-", lambda v, w: v - w)))
        return Term(f"({a.text} {op} {b.text})", lambda g: of(a.value(g), b.value(g)))

    def partial(self, scope: Scope, depth: int) -> Term:
        name, a, b = self.fresh("g"), self.term(scope, depth), self.term(scope, depth)
        return Term(f"(let val {name} = max ({a.text}) in {name} ({b.text}) end)", lambda g: max(a.value(g), b.value(g)))

    def branch(self, scope: Scope, depth: int) -> Term:
        by, other = self.random.choice((-3, -2, -1, 1, 2, 3)), self.term(scope, depth)
        inside = self.term(scope._replace(reach=(*scope.reach, by, by)), depth)
        text = f"i + {by} < n" if by > 0 else f"i >= {-by}"

        def holds(g: Given) -> bool:
            return 0 <= g.i + by < len(g.x)

        match self.random.randrange(4):
            case 0:  # in the other branch
                text = f"i + {by} >= n" if by > 0 else f"i < {-by}"
                return Term(
                    f"(if {text} then {other.text} else {inside.text})", lambda g: inside.value(g) if holds(g) else other.value(g)
                )
            case 1:  # a condition on data under it
                asked = self.term(scope._replace(reach=(*scope.reach, by, by)), depth - 1)
                least = self.random.choice((f"{asked.text} > 0.0", f"not ({asked.text} <= 0.0)"))
                return Term(
                    f"(if {text} andalso {least} then {inside.text} else {other.text})",
                    lambda g: inside.value(g) if holds(g) and asked.value(g) > 0 else other.value(g),
                )
            case 2:
                asked = self.term(scope._replace(reach=(*scope.reach, by, by)), depth - 1)
                return Term(
                    f"(if {text} then (if not ({asked.text} > 0.0) then {inside.text} else 0.5) else {other.text})",
                    lambda g: (inside.value(g) if not asked.value(g) > 0 else 0.5) if holds(g) else other.value(g),
                )
        return Term(f"(if {text} then {inside.text} else {other.text})", lambda g: inside.value(g) if holds(g) else other.value(g))

    def named(self, scope: Scope, depth: int) -> Term:
        name, a = self.fresh("v"), self.term(scope, depth)
        b = self.term(scope._replace(scalars=(*scope.scalars, name, name)), depth)
        return Term(f"(let val {name} = {a.text} in {b.text} + {name} end)", lambda g: self.after(g, name, a, b) + a.value(g))

    @staticmethod
    def after(g: Given, name: str, a: Term, b: Term) -> float:
        return b.value(g.with_name(name, a.value(g)))

    def pair(self, scope: Scope, depth: int) -> Term:
        name, a, b = self.fresh("p"), self.term(scope, depth), self.term(scope, depth)
        rest = self.term(scope._replace(pairs=(*scope.pairs, name, name)), depth)
        text = f"(let val {name} = ({a.text}, {b.text}) in {rest.text} end)"
        return Term(text, lambda g: rest.value(g.with_name(name, (lambda: a.value(g), lambda: b.value(g)))))

    def vector(self, scope: Scope, depth: int) -> Term:
        name, a, b = self.fresh("r"), self.term(scope, depth), self.term(scope, depth)
        rest = self.term(scope._replace(vectors=(*scope.vectors, name, name)), depth)
        text = f"(let val {name} = [| {a.text}, {b.text} |] in {rest.text} end)"
        return Term(text, lambda g: rest.value(g.with_name(name, (a.value(g), b.value(g)))))

    def function(self, scope: Scope, depth: int) -> Term:
        name, own = self.fresh("h"), self.fresh("z")
        body = self.term(scope._replace(scalars=(*scope.scalars, own, own)), depth)
        rest = self.term(scope._replace(functions=(*scope.functions, name, name)), depth)
        text = f"(let val {name} = fn {own} => {body.text} in {rest.text} end)"
        return Term(text, lambda g: rest.value(g.with_name(name, lambda v: body.value(g.with_name(own, v)))))

    def summed(self, scope: Scope, depth: int) -> Term:
        a, j = self.term(scope, depth), self.fresh("j")
        return Term(f"(sum for {j} < 3 => {a.text} * cast _ {j})", lambda g: 3 * a.value(g))

    def looped(self, scope: Scope, depth: int) -> Term:
        name, t, start = self.fresh("s"), self.fresh("t"), self.term(scope, depth)
        step = self.term(scope._replace(scalars=(*scope.scalars, name)), depth)

        def value(g: Given) -> float:
            state = start.value(g)
            for _ in range(2):
                state = math.tanh(state) + step.value(g.with_name(name, state))
            return state

        return Term(f"(loop ({name} = {start.text}) for {t} < 2 => tanh {name} + {step.text})", value)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_generated(seed: int) -> None:
    for number in range(seed, COUNT, SEEDS):
        random = Random(number)
        term = Maker(random).term(Scope(), random.randrange(3, 6))
        text = f"fun f (x : f64[n]) = for i < n => x[i] + {term.text}"
        function = axon.compile(text).f
        for n in (1, 2, 4):
            x = np.random.default_rng(number).uniform(-1, 1, n)
            expected = x + np.array([term.value(Given(x, i, {})) for i in range(n)])
            for target in ("interpret", "cpu") if n == 4 and number % 4 == 0 else ("interpret",):
                found = function(x, target=target)
                assert np.allclose(found, expected, rtol=1e-9, atol=1e-9), f"{number}: {target}\n{text}\n{found}\n{expected}"
