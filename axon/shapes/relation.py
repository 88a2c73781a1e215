"""Relations: what is said about two dimensions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import Any

from axon.base.data import dataclass, field
from axon.base.names import Symbol
from axon.shapes.dimension import Dim, Quotient, atom_key
from axon.shapes.pretty import Piece, pieces, render, sum_text

COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Relation:
    """`left op right`, with op one of = <> < <= > >=. Undefined where a divisor in it is 0."""

    left: Dim
    op: str
    right: Dim
    _slack: Dim | None = field(default=None, init=False, compare=False, repr=False)  # once it was asked for

    @property
    def negated(self) -> Relation:
        return Relation(self.left, _NEGATED[self.op], self.right)

    @property
    def flipped(self) -> Relation:
        return Relation(self.right, _FLIPPED[self.op], self.left)

    @property
    def variables(self) -> frozenset[Symbol]:
        return self.left.variables | self.right.variables

    def substitute(self, values: Mapping[Symbol, Dim]) -> Relation:
        return Relation(self.left.substitute(values), self.op, self.right.substitute(values))

    def holds(self, values: Mapping[Symbol, int]) -> bool:
        """Whether it holds for these values. ZeroDivisionError where a divisor is 0."""
        return bool(COMPARE[self.op](self.left.evaluate(values), self.right.evaluate(values)))

    @property
    def slack(self) -> Dim:
        """The Dim p for which this says p = 0, p <> 0 or, of an inequality, p >= 0."""
        if self._slack is None:
            object.__setattr__(self, "_slack", self._difference())
        return self._slack  # type: ignore[return-value]

    def _difference(self) -> Dim:
        match self.op:
            case "<":
                return self.right.less(self.left, 1)
            case "<=":
                return self.right.less(self.left, 0)
            case ">":
                return self.left.less(self.right, 1)
            case _:
                return self.left.less(self.right, 0)

    @property
    def trivial(self) -> bool | None:
        """True or False when the normal form alone decides it."""
        slack = self.slack
        constant = slack.constant
        if constant is not None:
            return constant == 0 if self.op == "=" else constant != 0 if self.op == "<>" else constant >= 0
        if self.op in ("=", "<>"):
            step = gcd(*(c for m, c in slack.mapping.items() if m))
            if slack.offset % step or _without_root(slack):
                return self.op == "<>"
        return None

    def render(self, name: Callable[[Symbol], str]) -> str:
        """For people: no term is negative (`r <= h + 1`), a remainder stands alone (`n % 2 = 0`), numbers stand on the right."""
        if found := self._remainder(name):
            return found
        left, right = pieces(self.left, name), pieces(self.right, name)
        if any(p.negative for p in left + right):
            return self._balanced(name)
        if self.left.constant is not None and self.right.constant is None:
            left, right, op = right, left, _FLIPPED[self.op]
            return f"{sum_text(left)} {op} {sum_text(right)}"
        return f"{sum_text(left)} {self.op} {sum_text(right)}"

    def _remainder(self, name: Callable[[Symbol], str]) -> str | None:
        if (found := self.remainder) is None:
            return None
        return f"{render(found[0], name)} {self.op} {found[1]}"

    @property
    def remainder(self) -> tuple[Dim, int] | None:
        """Of `n % 2 = 0`, or `n % 2 = 1` for (n + 1) % 2 = 0, the remainder and the number, if that is what this says."""
        if self.op not in ("=", "<>"):
            return None
        slack = self.slack
        for atom in sorted(slack.atoms, key=atom_key):
            if isinstance(atom, Quotient):
                a, b = atom.dividend, atom.divisor
                exact = a - b * Dim({(atom,): 1})
                if slack in (exact, -exact):
                    odd = a.offset if b.constant else 0
                    return (a - odd) % b, b.constant - odd if odd and b.constant else 0
        return None

    def _balanced(self, name: Callable[[Symbol], str]) -> str:
        """The slack's negative terms moved to the other side."""
        found = pieces(self.slack, name)
        more = [p for p in found if not p.negative]
        less = [Piece(False, p.text, p.level, p.constant and -p.constant) for p in found if p.negative]
        more_varies, less_varies = ([p for p in side if p.constant is None] for side in (more, less))
        if self.op in ("=", "<>"):
            left, right = (more, less) if more_varies or not less_varies else (less, more)
            return f"{sum_text(left)} {self.op} {sum_text(right)}"
        if not less_varies:
            return f"{sum_text(more)} >= {sum_text(less)}"
        if more_varies and less[-1].constant == 1:
            return f"{sum_text(less[:-1])} < {sum_text(more)}"
        return f"{sum_text(less)} <= {sum_text(more)}"

    def __str__(self) -> str:
        return self.render(lambda symbol: symbol.name)


def said(relations: Sequence[Relation]) -> list[Relation]:
    """The relations without those that only say of a divisor in another that it is at least 1, which every divisor is."""
    below = [(r, {tight(q.divisor - 1) for q in r.left.quotients | r.right.quotients}) for r in relations]
    divisors = frozenset[Dim]().union(*(found for _, found in below))
    return [r for r in relations if r.op in ("=", "<>") or r.slack not in divisors or not _of_another(r, below)]


def _of_another(relation: Relation, below: Sequence[tuple[Relation, set[Dim]]]) -> bool:
    return any(relation.slack in divisors for r, divisors in below if r != relation)


def tight(slack: Dim) -> Dim:
    """Of slack >= 0, the same without the number that its coefficients share."""
    step = gcd(*(c for m, c in slack.mapping.items() if m))
    return Dim({m: c // step for m, c in slack.mapping.items() if c // step}) if step > 1 else slack


def _without_root(slack: Dim) -> bool:
    """Whether c * v ** p = d has no integer v, for numbers c and d and p >= 2."""
    if len(slack.mapping) != 2 or not slack.offset:
        return False
    ((power, c),) = ((m, c) for m, c in slack.mapping.items() if m)
    p, size = len(power), abs(slack.offset // c)
    if p < 2 or power != power[:1] * p:
        return False
    base = integer_root(size, p)
    return slack.offset % c != 0 or base**p != size or (p % 2 == 0 and slack.offset * c > 0)


def integer_root(value: int, power: int) -> int:
    """The largest integer whose power is at most the value, which is at least 0."""
    low, high = 0, 1 << (value.bit_length() // power + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power <= value else (low, middle)
    return low
