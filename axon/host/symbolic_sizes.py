"""Sizes of a call whose shapes are symbolic, as JAX has them under `jax.export`: expressions of its dimension variables.

What a contract says is decided where JAX can decide it; the rest is checked when the compiled program runs, with the sizes of then.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from axon.base.errors import AxonError, ShapeError
from axon.base.names import Symbol
from axon.host.call import Callee, wrong
from axon.shapes.contracts.contract import Contract
from axon.shapes.contracts.determine import Divide, Root
from axon.shapes.dimension import Dim, Minimum, Quotient
from axon.shapes.pretty import render

Size = Any  # an int, or an expression of JAX's


def is_symbolic(size: Size) -> bool:
    return not isinstance(size, int)


def sizes_of(
    callee: Callee, contract: Contract, names: Mapping[Symbol, str], explicit: Sequence[int], shapes: Sequence[Sequence[Size]]
) -> dict[Symbol, Size]:
    """All dimensions of a call. Raises ShapeError for what no sizes can satisfy, AxonError for a size that JAX cannot write."""

    def name(symbol: Symbol) -> str:
        return names.get(symbol, symbol.name)

    plan = contract.determination
    found: dict[Symbol, Size] = dict(zip(contract.explicit, explicit, strict=True))
    for p, d in plan.loads:
        symbol = contract.shapes[p].dims[d].symbol
        assert symbol is not None
        found[symbol] = shapes[p][d]
    found |= {symbol: shapes[p][d] for (p, d), symbol in plan.extents.items()}
    for step in plan.steps:
        match step:
            case Divide(coefficient=coefficient, rest=rest):
                found[step.symbol] = _quotient(evaluated(-rest, found), evaluated(coefficient, found))
            case Root(dim=dim):
                message = f"`{name(step.symbol)}` is found as a root of `{render(dim, name)}`, which JAX's symbolic sizes have not"
                note = "export it at sizes that are numbers, or build a library: `axon build` takes all sizes"
                raise wrong(callee, "AX0505", f"{message}, in a call of `{callee.name}`", note)
            case _:
                assert_never(step)
    own = [(p, d, evaluated(Dim.of(symbol), found)) for (p, d), symbol in plan.equal]
    own += [(p, d, evaluated(contract.shapes[p].dims[d], found)) for p, d in plan.checks]
    for p, d, size in own:
        if isinstance(difference := shapes[p][d] - size, int) and difference != 0:
            path = contract.shapes[p].path
            raise _broken(callee, f"dimension {d + 1} of `{path}` is {shapes[p][d]}, and must be {size}")
    for fact in contract.facts:
        relation = fact.relation
        if _fails(evaluated(relation.left, found), relation.op, evaluated(relation.right, found)):
            raise _broken(callee, f"the contract `{relation.render(name)}` does not hold")
    return found | dict.fromkeys(contract.idle, 0)


def extent(dim: Dim, sizes: Mapping[Symbol, Size]) -> Size:
    """The size of a result's dimension, which is not negative."""
    size = evaluated(dim, sizes)
    if _fails(size, ">=", 0) is False:
        return size
    return max(size, 0) if isinstance(size, int) else _jax().core.max_dim(size, 0)


def evaluated(dim: Dim, sizes: Mapping[Symbol, Size]) -> Size:
    total: Size = 0
    for coefficient, monomial in dim.terms:
        term: Size = coefficient
        for atom in monomial:
            match atom:
                case Symbol():
                    term = term * sizes[atom]
                case Quotient(dividend, divisor):
                    term = term * _quotient(evaluated(dividend, sizes), evaluated(divisor, sizes))
                case Minimum(items):
                    first, *rest = (evaluated(item, sizes) for item in items)
                    for other in rest:
                        both_numbers = isinstance(first, int) and isinstance(other, int)
                        first = min(first, other) if both_numbers else _jax().core.min_dim(first, other)
                    term = term * first
                case _:
                    assert_never(atom)
        total = total + term
    return total


def _quotient(dividend: Size, divisor: Size) -> Size:
    """Rounded down. What has no value is found when the program runs."""
    return 0 if isinstance(divisor, int) and divisor == 0 else dividend // divisor


def _fails(left: Size, op: str, right: Size) -> bool | None:
    """Whether a relation cannot hold; None where JAX cannot decide that."""
    difference = left - right
    if isinstance(difference, int):
        return not {"=": difference == 0, "<>": difference != 0, "<": difference < 0, "<=": difference <= 0, ">": difference > 0,
                    ">=": difference >= 0}[op]  # fmt: skip
    try:
        match op:
            case "<":
                return not left < right
            case "<=":
                return not left <= right
            case ">":
                return not left > right
            case ">=":
                return not left >= right
    except _jax().errors.InconclusiveDimensionOperation:
        pass
    return None


def _broken(callee: Callee, message: str) -> AxonError:
    return ShapeError(wrong(callee, "AX0501", f"{message}, in a call of `{callee.name}`").diagnostics)


def _jax() -> Any:
    return sys.modules["jax"]
