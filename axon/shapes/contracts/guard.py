"""The guard of a contract: what is checked once at every call, compiled to one Python function.

The function is written as text, by `source`, from the plan of `determine` and the contract's facts. Every name in it is made here
(`v3`, `e1_0`), everything else is an integer or an operator: nothing that a user wrote is in it. A signature of ten dimensions
costs a microsecond, most of which is the dictionary that it returns.

    def guard(explicit, shapes):                                         {k}, x : [b, n], w : [n, k * d], where n % 4 = 0
        (v0,) = explicit
        (s0, s1,) = shapes
        (v1, v2,) = s0
        (e1_0, e1_1,) = s1
        v3, r3 = divmod(e1_1, v0)
        if r3 or v3 < 0 or e1_0 != v2 or v2 - 4 * (v2 // 4) != 0 or (v0 | v1 | v2 | v3 | e1_1) >> 31: return None
        return {S0: v0, S1: v1, S2: v2, S3: v3}

It says only whether all is well: it returns None, or raises ValueError (a wrong number of dimensions) or ZeroDivisionError, if not.
Then `explain_broken` goes through the same plan slowly, and raises what the face words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, assert_never

from axon.base.names import Symbol
from axon.shapes.algebra.monotone import Growth
from axon.shapes.contracts.determine import Determination, Divide, Place, Root
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient, atom_key
from axon.shapes.relation import Relation

if TYPE_CHECKING:
    from axon.shapes.contracts.contract import Contract, ContractFact

Guard: TypeAlias = "Callable[[Sequence[int], Sequence[Sequence[int]]], dict[Symbol, int] | None]"

MAX_EXTENT = 2**31
_MAX_WEIGHT = 1_000  # leaves of everything that is checked; what is larger is never compiled, only gone through slowly


class ContractBroken(Exception):
    """A call does not satisfy a contract. Plain data, for the face to word.

    kind        what was wrong                                        path, dimension, actual and expected
    "rank"      a tensor has another number of dimensions             of that tensor; dimension is None
    "extent"    an extent is not what the others make of it           `formula` is the extent in the signature
    "value"     an extent has no solution: 7 = 2 * n, 2 = n + 3       expected is None; `formula` as above
    "explicit"  an explicit dimension is negative or too large        path is its name
    "fact"      a fact of the contract fails, or divides by 0         `fact` says which
    "large"     an extent is 2**31 or more                            of that tensor

    `bindings` are the dimensions known at that point, in the order in which they were found.
    """

    def __init__(
        self,
        kind: str,
        path: str = "",
        dimension: int | None = None,
        actual: int | None = None,
        expected: int | None = None,
        formula: Dim | None = None,
        fact: ContractFact | None = None,
        bindings: dict[Symbol, int] | None = None,
    ) -> None:
        super().__init__(kind, path, dimension, actual, expected)
        self.kind = kind
        self.path = path
        self.dimension = dimension  # counted from 0
        self.actual = actual
        self.expected = expected
        self.formula = formula
        self.fact = fact
        self.bindings = bindings or {}

    @property
    def relation(self) -> Relation | None:
        """The fact's relation."""
        return self.fact.relation if self.fact else None


def divisors(relation: Relation) -> list[Quotient]:
    """The quotients of a relation whose divisor must be shown to be at least 1."""
    found = sorted(relation.left.quotients | relation.right.quotients, key=atom_key)
    return [q for q in found if q.divisor.constant is None]


def root(function: Callable[[int], int], least: int = 0, most: int = MAX_EXTENT) -> int:
    """The least size from `least` to `most` at which a growing function is 0 or more, or -1 if there is none."""
    below, high, step = least - 1, least, 1
    while high <= most and function(high) < 0:
        below, high, step = high, high + step, 2 * step
    if high > most:
        if below >= most or function(most) < 0:
            return -1
        high = most
    while high - below > 1:
        middle = (below + high) // 2
        if function(middle) < 0:
            below = middle
        else:
            high = middle
    return high


# ── the compiled way ────────────────────────────────────────────────────────────────────────────────────────────────────


def compiled(contract: Contract, plan: Determination) -> Guard | None:
    """The guard as a function; None for a contract that is too large to be worth it."""
    sizes = [dim.weight for shape in contract.shapes for dim in shape.dims]
    sizes += [fact.relation.left.weight + fact.relation.right.weight for fact in (*contract.facts, *contract.limits)]
    sizes += [part.weight for step in plan.steps if isinstance(step, Divide) for part in (step.coefficient, step.rest)]
    if sum(sizes) > _MAX_WEIGHT:
        return None
    names: dict[str, Any] = {f"S{i}": symbol for i, symbol in enumerate(plan.order)} | {"root": root}
    exec(compile(source(contract, plan), "<the guard of a contract>", "exec"), names)
    guard: Guard = names["guard"]
    return guard


def source(contract: Contract, plan: Determination) -> str:
    """The text of the guard."""
    text = _Text(contract, plan)
    lines = [_unpacked([f"v{i}" for i in range(len(contract.explicit))], "explicit")]
    lines.append(_unpacked([f"s{p}" for p in range(len(contract.shapes))], "shapes"))
    for p, shape in enumerate(contract.shapes):
        lines.append(_unpacked([text.places[p, d] for d in range(len(shape.dims))], f"s{p}"))
    bad: list[str] = []
    for step in plan.steps:
        v, r = text.names[step.symbol], text.names[step.symbol].replace("v", "r")
        match step:
            case Divide(_, coefficient, rest):
                if coefficient.constant in (1, -1):
                    lines.append(f"{v} = {text.sum(rest * -coefficient)}")
                else:
                    lines.append(f"{v}, {r} = divmod({text.sum(-rest)}, {text.sum(coefficient)})")
                    bad.append(r)
                bad.append(f"{v} < 0")
            case Root(_, dim, growth):
                whole, (least, most) = text.sum(dim), _ends(growth)
                ends = "" if growth == Growth(growth.factor) else f", {text.sum(least)}, {text.sum(most)}"
                lines.append(f"{v} = root(lambda {v}: {whole}{ends})")
                bad += [f"{v} < 0", f"{whole} != 0"]
            case _:
                assert_never(step)
    bad += [f"{text.places[place]} != {text.names[symbol]}" for place, symbol in plan.equal]
    bad += [f"{text.places[p, d]} != {text.sum(contract.shapes[p].dims[d])}" for p, d in plan.checks]
    bad += [f"{text.sum(q.divisor)} < 1" for fact in contract.facts for q in divisors(fact.relation)]
    facts = (*contract.facts, *contract.limits)
    bad += [f"{text.sum(fact.relation.slack)} {_FAILS.get(fact.relation.op, '< 0')}" for fact in facts]
    if sizes := [text.names[s] for s in (*plan.order, *plan.extents.values())]:
        bad.append(f"({' | '.join(sizes)}) >> 31")  # not 0 if one is negative, or too large
    if bad:
        lines.append(f"if {' or '.join(bad)}: return None")
    lines.append(f"return {{{', '.join(f'S{i}: {text.names[s]}' for i, s in enumerate(plan.order))}}}")
    return "\n    ".join(["def guard(explicit, shapes):", *lines]) + "\n"


def _ends(growth: Growth) -> tuple[Dim, Dim]:
    """Between which sizes a root is sought."""
    return growth.least, Dim.of(MAX_EXTENT) if growth.most is None else growth.most


_FAILS = {"=": "!= 0", "<>": "== 0"}


def _unpacked(names: Sequence[str], what: str) -> str:
    return f"({', '.join(names)},) = {what}" if names else f"() = {what}"


class _Text:
    """Names for the variables and places of a plan, and dimensions in terms of those."""

    def __init__(self, contract: Contract, plan: Determination) -> None:
        self.names = {symbol: f"v{i}" for i, symbol in enumerate(plan.order)}
        self.places = {(p, d): f"e{p}_{d}" for p, shape in enumerate(contract.shapes) for d in range(len(shape.dims))}
        for p, d in plan.loads:
            symbol = contract.shapes[p].dims[d].symbol
            assert symbol is not None
            self.places[p, d] = self.names[symbol]
        self.names |= {symbol: self.places[place] for place, symbol in plan.extents.items()}

    def sum(self, dim: Dim) -> str:
        terms = [self._term(c, m) for c, m in dim.terms]
        return " + ".join(terms).replace("+ -", "- ") if terms else "0"

    def _term(self, coefficient: int, monomial: tuple[Atom, ...]) -> str:
        factors = [self._atom(atom) for atom in monomial]
        if not factors or abs(coefficient) != 1:
            factors.insert(0, str(abs(coefficient)))
        return "-" * (coefficient < 0) + " * ".join(factors)

    def _atom(self, atom: Atom) -> str:
        match atom:
            case Symbol():
                return self.names[atom]
            case Quotient(dividend, divisor):
                return f"({_grouped(self.sum(dividend))} // {_grouped(self.sum(divisor))})"
            case Minimum(items):
                return f"min({', '.join(map(self.sum, items))})"


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text


# ── the slow way, which says what is wrong ──────────────────────────────────────────────────────────────────────────────


def explain_broken(
    contract: Contract, plan: Determination, explicit: Sequence[int], shapes: Sequence[Sequence[int]]
) -> dict[Symbol, int]:
    """All dimensions of a call, checked one thing at a time. Raises ContractBroken."""
    for shape, parameter in zip(shapes, contract.shapes, strict=True):
        if len(shape) != len(parameter.dims):
            raise ContractBroken("rank", parameter.path, None, len(shape), len(parameter.dims))
    return _Slowly(contract, plan, explicit, shapes).run()


class _Slowly:
    def __init__(self, contract: Contract, plan: Determination, explicit: Sequence[int], shapes: Sequence[Sequence[int]]) -> None:
        self.contract, self.plan, self.explicit, self.shapes = contract, plan, explicit, shapes
        self.values = dict(zip(contract.explicit, explicit, strict=True))
        self.found = {symbol: shapes[p][d] for (p, d), symbol in plan.extents.items()}

    def run(self) -> dict[Symbol, int]:
        plan, contract = self.plan, self.contract
        for (p, d), symbol in self.loads():
            self.values[symbol] = self.shapes[p][d]
        for step in plan.steps:
            self._solve(step)
        for (p, d), symbol in plan.equal:
            if self.shapes[p][d] != self.values[symbol]:
                self._wrong_extent((p, d), self.values[symbol])
        for p, d in plan.checks:
            try:
                expected = contract.shapes[p].dims[d].evaluate(self.values)
            except ZeroDivisionError:
                self._wrong_extent((p, d), None)
            if expected != self.shapes[p][d]:
                self._wrong_extent((p, d), expected)
        for fact in contract.facts:
            if not self._holds(fact):
                raise ContractBroken("fact", fact=fact, bindings=self.values)
        self._in_range()
        for fact in contract.limits:
            if not self._holds(fact):
                raise ContractBroken("fact", fact=fact, bindings=self.values)
        return self.values

    def loads(self) -> Iterator[tuple[Place, Symbol]]:
        for p, d in self.plan.loads:
            symbol = self.contract.shapes[p].dims[d].symbol
            assert symbol is not None
            yield (p, d), symbol

    def nearly(self, step: Divide | Root) -> tuple[int, int]:
        """What a step finds, rounded down, and what is then left over."""
        values: Mapping[Symbol, int] = self.values | self.found
        value, left = -1, 1
        match step:
            case Divide(_, coefficient, rest):
                with suppress(ZeroDivisionError):
                    value, left = divmod(-rest.evaluate(values), coefficient.evaluate(values))
            case Root(symbol, dim, growth):
                with suppress(ZeroDivisionError):
                    least, most = (end.evaluate(values) for end in _ends(growth))
                    value = root(lambda size: dim.evaluate({**values, symbol: size}), least, most)
                    left = dim.evaluate({**values, symbol: value})
            case _:
                assert_never(step)
        return value, left

    def _solve(self, step: Divide | Root) -> None:
        value, left = self.nearly(step)
        if left or value < 0:
            place, fact = step.source.place, step.source.fact
            if place is None:
                assert fact is not None
                raise ContractBroken("fact", fact=self.contract.facts[fact], bindings=self.values)
            parameter = self.contract.shapes[place[0]]
            formula = parameter.dims[place[1]]
            actual = self.shapes[place[0]][place[1]]
            raise ContractBroken("value", parameter.path, place[1], actual, None, formula, bindings=self.values)
        self.values[step.symbol] = value

    def _holds(self, fact: ContractFact) -> bool:
        try:
            if any(q.divisor.evaluate(self.values) < 1 for q in divisors(fact.relation)):
                return False
            return fact.relation.holds(self.values)
        except ZeroDivisionError:
            return False

    def _wrong_extent(self, place: Place, expected: int | None) -> NoReturn:
        p, d = place
        parameter = self.contract.shapes[p]
        raise ContractBroken("extent", parameter.path, d, self.shapes[p][d], expected, parameter.dims[d], bindings=self.values)

    def _in_range(self) -> None:
        for symbol, value in zip(self.contract.explicit, self.explicit, strict=True):
            if not 0 <= value < MAX_EXTENT:
                raise ContractBroken("explicit", symbol.name, None, value, bindings=self.values)
        for parameter, shape in zip(self.contract.shapes, self.shapes, strict=True):
            for d, extent in enumerate(shape):
                if not 0 <= extent < MAX_EXTENT:
                    raise ContractBroken("large", parameter.path, d, extent, bindings=self.values)
        for symbol, value in self.values.items():  # of a fact alone: m = 2 * n
            if not 0 <= value < MAX_EXTENT:
                raise ContractBroken("explicit", symbol.name, None, value, bindings=self.values)


def rounded(
    contract: Contract, plan: Determination, explicit: Sequence[int], shapes: Sequence[Sequence[int]]
) -> dict[Symbol, int] | None:
    """The dimensions of a call as far as the plan goes, rounded down where there is no solution; None if ranks are wrong."""
    if len(explicit) != len(contract.explicit) or [len(s) for s in shapes] != [len(p.dims) for p in contract.shapes]:
        return None
    slowly = _Slowly(contract, plan, explicit, shapes)
    for (p, d), symbol in slowly.loads():
        slowly.values[symbol] = shapes[p][d]
    for step in plan.steps:
        slowly.values[step.symbol] = max(slowly.nearly(step)[0], 0)
    return slowly.values
