"""Generated dimensions: expression trees with a meaning of their own, from a seeded generator, so that a soak can run many."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from axon.base.names import Symbol
from axon.shapes.dimension import Dim, maximum, minimum
from axon.shapes.relation import Relation

RELATIONS = ("=", "<>", "<", "<=", ">", ">=")


def sets(sampled: int) -> int:
    """How many generated sets a test looks at: few in a test run, 20,000 in the soak."""
    return 20_000 if os.environ.get("AXON_SOAK") else sampled


@dataclass(frozen=True)
class Tree:
    """op of two trees, or a leaf: a variable's position or a number."""

    op: str  # + - * / % min max var int
    left: Tree | None = None
    right: Tree | None = None
    value: int = 0

    def evaluate(self, values: tuple[int, ...]) -> int:
        """By Python's integers alone. ZeroDivisionError where a divisor is 0."""
        if self.op == "var":
            return values[self.value]
        if self.op == "int":
            return self.value
        assert self.left is not None
        assert self.right is not None
        return _MEANING[self.op](self.left.evaluate(values), self.right.evaluate(values))

    def dim(self, symbols: tuple[Symbol, ...]) -> Dim:
        if self.op == "var":
            return Dim.of(symbols[self.value])
        if self.op == "int":
            return Dim.of(self.value)
        assert self.left is not None
        assert self.right is not None
        return _BUILD[self.op](self.left.dim(symbols), self.right.dim(symbols))


_MEANING: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a // b, "%": lambda a, b: a % b,
    "min": min, "max": max,
}  # fmt: skip
_BUILD: dict[str, Callable[[Dim, Dim], Dim]] = _MEANING | {"min": minimum, "max": maximum}  # type: ignore[assignment]


def tree(rng: random.Random, variables: int, depth: int, ops: str = "+ + - * / % min max") -> Tree:
    if depth == 0 or rng.random() < 0.25:
        if rng.random() < 0.65:
            return Tree("var", value=rng.randrange(variables))
        return Tree("int", value=rng.choice((0, 1, 1, 2, 2, 3, 4, 5, -1)))
    op = rng.choice(ops.split())
    right = tree(rng, variables, depth - 1, ops)
    if op in "/%" and rng.random() < 0.6:
        right = Tree("int", value=rng.choice((1, 2, 3, 4)))
    return Tree(op, tree(rng, variables, depth - 1, ops), right)


def relation(rng: random.Random, symbols: tuple[Symbol, ...], depth: int, ops: str = "+ + - * / % min max") -> Relation:
    left, right = (tree(rng, len(symbols), d, ops).dim(symbols) for d in (depth, rng.randrange(depth + 1)))
    return Relation(left, rng.choice(RELATIONS), right)


def assignments(symbols: tuple[Symbol, ...], size: int) -> Iterator[dict[Symbol, int]]:
    for values in product(range(size), repeat=len(symbols)):
        yield dict(zip(symbols, values, strict=True))


def holds(relation: Relation, values: Mapping[Symbol, int]) -> bool | None:
    """None where it is undefined."""
    try:
        return relation.holds(values)
    except ZeroDivisionError:
        return None


_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d+|[-+*/%()])")


def parse(text: str, names: Mapping[str, Dim]) -> Dim:
    """The grammar of dimensions in the surface syntax, to read back what was rendered."""
    tokens = [*_TOKEN.findall(text), ""]
    assert "".join(tokens) == text.replace(" ", ""), text
    at = 0

    def take() -> str:
        nonlocal at
        at += 1
        return tokens[at - 1]

    def total() -> Dim:
        left = term()
        while tokens[at] in ("+", "-"):
            left = _BUILD[take()](left, term())
        return left

    def term() -> Dim:
        left = unary()
        while tokens[at] in ("*", "/", "%"):
            left = _BUILD[take()](left, unary())
        return left

    def unary() -> Dim:
        if tokens[at] == "-":
            take()
            return -unary()
        if tokens[at] in ("min", "max"):
            function = _BUILD[take()]
            return function(leaf(), leaf())
        return leaf()

    def leaf() -> Dim:
        token = take()
        if token == "(":
            inner = total()
            assert take() == ")", text
            return inner
        return Dim.of(int(token)) if token.isdigit() else names[token]

    result = total()
    assert tokens[at] == "", text
    return result
