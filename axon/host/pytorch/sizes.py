"""The contract of a call whose sizes PyTorch does not know yet: what the guard of a contract does, with symbols for numbers.

A size is an int or a `torch.SymInt`; what is computed of them stays arithmetic, and what must hold is `torch._check`, of which
PyTorch makes a guard, or an assertion when the program runs. Nothing asks for a value, which would fix it, but one step: a size
found as a root (`n * n`), which has no formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias, assert_never

import torch

from axon.base.errors import ShapeError
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.host.call import Callee, Session
from axon.shapes.contracts.contract import Contract
from axon.shapes.contracts.determine import Divide, Root
from axon.shapes.contracts.guard import MAX_EXTENT, divisors, root
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient
from axon.shapes.relation import COMPARE, Relation

Size: TypeAlias = Any  # int or torch.SymInt
Broken: TypeAlias = Callable[[], str]


def bound(session: Session, callee: Callee, program: Program, explicit: Sequence[Size], shapes: Sequence[Sequence[Size]]) -> Any:
    """All dimensions of a call, checked. Raises ShapeError where the sizes are numbers, else what PyTorch raises."""
    if all(isinstance(n, int) for n in (*explicit, *(n for shape in shapes for n in shape))):
        return session.bind(callee, program, explicit, shapes)

    def broken() -> str:
        paths = [p.path for p in program.contract.shapes]
        told = ", ".join(f"`{p}` is [{', '.join(map(str, shape))}]" for p, shape in zip(paths, shapes, strict=True) if shape)
        given = "".join(f"`{s.name}` is {n}, " for s, n in zip(program.contract.explicit, explicit, strict=True))
        return f"{_with_numbers(session, callee, program, explicit, shapes)}\n  = while PyTorch traces the call, {given}{told}"

    return _Bound(program.contract, explicit, shapes, broken).values()


def _with_numbers(
    session: Session, callee: Callee, program: Program, explicit: Sequence[Size], shapes: Sequence[Sequence[Size]]
) -> str:
    """The error of the sizes that were traced with, if PyTorch remembers them."""
    try:
        session.bind(callee, program, list(map(_hint, explicit)), [list(map(_hint, shape)) for shape in shapes])
    except ShapeError as error:
        return str(error)
    except (TypeError, ValueError):
        pass
    return f"error[AX0501]: the sizes break the contract, in a call of `{callee.name}`\n  = {callee.signature}"


def _hint(size: Size) -> int:
    hint = size if isinstance(size, int) else getattr(size.node, "hint", None)
    if not isinstance(hint, int):
        raise TypeError("a size without a number")
    return hint


class _Bound:
    """The plan of a contract, gone through with symbols."""

    def __init__(self, contract: Contract, explicit: Sequence[Size], shapes: Sequence[Sequence[Size]], broken: Broken) -> None:
        self.contract, self.shapes, self.broken = contract, shapes, broken
        self.found: dict[Symbol, Size] = dict(zip(contract.explicit, explicit, strict=True))
        self.found |= dict.fromkeys(contract.idle, 0)

    def values(self) -> dict[Symbol, Size]:
        plan, contract = self.contract.determination, self.contract
        for p, d in plan.loads:
            symbol = contract.shapes[p].dims[d].symbol
            assert symbol is not None
            self.found[symbol] = self.shapes[p][d]
        extents = {symbol: self.shapes[p][d] for (p, d), symbol in plan.extents.items()}
        for step in plan.steps:
            known = self.found | extents
            match step:
                case Divide(symbol, coefficient, rest):
                    self.found[symbol] = self._divided(value(coefficient, known), -value(rest, known))
                case Root(symbol):
                    self.found[symbol] = self._root(step, {s: int(n) for s, n in known.items()})
                case _:
                    assert_never(step)
            self._check(self.found[symbol] >= 0)
        for (p, d), symbol in plan.equal:
            self._check(self.shapes[p][d] == self.found[symbol])
        for p, d in plan.checks:
            self._check(self.shapes[p][d] == value(contract.shapes[p].dims[d], self.found))
        for fact in contract.facts:
            for quotient in divisors(fact.relation):
                self._check(value(quotient.divisor, self.found) >= 1)
            self._check(holds(fact.relation, self.found))
        return self.found

    def _divided(self, coefficient: Size, rest: Size) -> Size:
        if isinstance(coefficient, int) and abs(coefficient) == 1:
            return rest * coefficient
        self._check(coefficient != 0)
        self._check(rest % coefficient == 0)
        return rest // coefficient

    def _root(self, step: Root, known: Mapping[Symbol, int]) -> int:
        growth = step.growth
        least = growth.least.evaluate(known)
        most = MAX_EXTENT if growth.most is None else growth.most.evaluate(known)
        found = root(lambda size: step.dim.evaluate({**known, step.symbol: size}), least, most)
        self._check(step.dim.evaluate({**known, step.symbol: found}) == 0)
        return found

    def _check(self, condition: Any) -> None:
        torch._check(condition, self.broken)


def value(dim: Dim, known: Mapping[Symbol, Size]) -> Size:
    """A dimension as arithmetic on sizes."""
    total: Size = 0
    for coefficient, monomial in dim.terms:
        total = total + reduce(lambda product, atom: product * _atom(atom, known), monomial, coefficient)
    return total


def _atom(atom: Atom, known: Mapping[Symbol, Size]) -> Size:
    match atom:
        case Symbol():
            return known[atom]
        case Quotient(dividend, divisor):
            return value(dividend, known) // value(divisor, known)
        case Minimum(items):
            return reduce(torch.sym_min, (value(item, known) for item in items))
        case _:
            assert_never(atom)


def holds(relation: Relation, known: Mapping[Symbol, Size]) -> Any:
    """A relation as a bool or a `torch.SymBool`."""
    return COMPARE[relation.op](value(relation.left, known), value(relation.right, known))
