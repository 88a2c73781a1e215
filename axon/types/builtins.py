"""The functions and constants of the language, as tables. Pointwise functions and reductions stand in `axon.base.functions`."""

from __future__ import annotations

from math import inf, nan, pi

from axon.base import functions
from axon.base.element import ANY, BOOL, NUM

UNARY, BINARY, REDUCTIONS = functions.UNARY, functions.BINARY, functions.REDUCTIONS

# Operators: the operation in core, the element types they take, and whether they give bool.
OPERATORS = {
    "+": ("add", NUM, False), "-": ("sub", NUM, False), "*": ("mul", NUM, False), "/": ("div", NUM, False),
    "%": ("mod", NUM, False), "**": ("pow", NUM, False), "<": ("lt", NUM, True), "<=": ("le", NUM, True),
    ">": ("gt", NUM, True), ">=": ("ge", NUM, True), "=": ("eq", ANY, True), "<>": ("ne", ANY, True),
    "andalso": ("and", BOOL, True), "orelse": ("or", BOOL, True),
}  # fmt: skip

CONSTANTS: dict[str, float | bool] = {"true": True, "false": False, "inf": inf, "nan": nan, "pi": pi}

# The rest, by their signatures.
FUNCTIONS = {
    "nonzero": "bool[n] -> ?k <= n. i32[k]",
    "filter": "bool[n] -> 'a[n, ..s] -> ?k <= n. 'a[k, ..s]",
    "sort": "'a[..s, n] -> 'a[..s, n]",
    "argsort": "'a[..s, n] -> i32[..s, n]",
    "grad": "('A -> 'e) -> 'A -> 'A",
    "value_and_grad": "('A -> 'e) -> 'A -> ('e, 'A)",
    "vjp": "('A -> 'B) -> 'A -> 'B -> ('B, 'A)",
    "jvp": "('A -> 'B) -> 'A -> 'A -> ('B, 'B)",
    "stop_gradient": "'A -> 'A",
    "with_vjp": "('A -> 'B) -> ('A -> 'B -> 'A) -> 'A -> 'B",
}

# Those among them whose variables stand for differentiable types, which are floats and tuples and records of them; and at which
# position, counted from 0, stands what the function at position 0 is applied to.
DERIVATIVES = {"grad": 1, "value_and_grad": 1, "vjp": 1, "jvp": 1, "with_vjp": 2}

# What takes a function at every leaf of records and tuples, by how it is written: no function, for that is used at several types.
OVER_LEAVES = {"each": "each f a b …", "fold_leaves": "fold_leaves (op, unit) f a b …"}

NAMES = (*UNARY, *BINARY, *CONSTANTS, *FUNCTIONS, *OVER_LEAVES)
