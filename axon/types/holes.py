"""Holes: sizes left blank, and what a written size would have to be for the rest to fit.

A module is checked once more with one written size open, an unknown like any other. What it is found to be, in names that are known
where it stands, is proposed in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.dimension import Atom, Dim, DimensionTooLarge
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from axon.types.resolve import Scope, ValueName
from axon.types.unify import State


@dataclass(frozen=True, slots=True)
class Blank:
    """A size left blank at a place, where sizes have these names."""

    span: Span
    size: Dim
    names: tuple[tuple[Dim, str], ...]


def blank(state: State, scope: Scope, span: Span) -> Blank:
    """An unknown in the place of a written size."""
    names: dict[str, Dim] = {}
    around: Scope | None = scope
    while around is not None:
        for name, entity in around.values.items():
            if isinstance(entity, ValueName) and entity.is_dimension and entity.dim is not None:
                names.setdefault(name, entity.dim)
        around = around.parent
    return Blank(span, state.dim(""), tuple((dim, name) for name, dim in names.items()))


Simpler = Callable[[Dim, Sequence[Relation]], Dim]


def found(state: State, blanks: Sequence[Blank], contracts: Sequence[Sequence[Relation]], simpler: Simpler) -> tuple[str, ...]:
    """What blanks turned out to be, as texts for their places; `simpler` makes a size as short as facts of a contract allow."""
    texts = (_text(state, b, contracts, simpler) for b in blanks)
    return tuple(dict.fromkeys(t for t in texts if t is not None))


def _text(state: State, b: Blank, contracts: Sequence[Sequence[Relation]], simpler: Simpler) -> str | None:
    size = state.dimension(b.size)
    if size == b.size:
        return None
    called = {state.dimension(dim): name for dim, name in reversed(b.names)}
    size = _decided(size, {v for dim in called for v in dim.variables}, contracts, simpler)
    if size in called:
        return called[size]
    for value, name in called.items():  # of a type whose parameter stands for 8 * w, 16 * w is 2 * o
        if value.symbol is None and value.variables:
            times = _quotient(size, value)
            if times is not None and _factor(times) and (factor := _rendered(times, called)) is not None:
                return f"{factor} * {name}"
    return _rendered(size, called)


def _decided(size: Dim, known: set[Symbol], contracts: Sequence[Sequence[Relation]], simpler: Simpler) -> Dim:
    """A size in which contracts leave sizes open, with what makes these contracts hold: of u * (h / g) = h / g * c, u is c."""
    for facts in contracts:
        for fact in facts:
            open_ = (fact.variables & size.variables) - known
            loose = next(iter(open_)) if len(open_) == 1 and fact.op == "=" else None
            if loose is not None and (split := fact.slack.linear_in(loose)) is not None:
                try:
                    value = _quotient(simpler(-split[1], facts), simpler(split[0], facts))
                except DimensionTooLarge:
                    continue
                size = size if value is None else size.substitute({loose: value})
    return size


def _quotient(size: Dim, divisor: Dim) -> Dim | None:
    """A size divided by a product, if that leaves nothing."""
    if len(divisor.mapping) != 1:
        return None
    ((factors, number),) = divisor.mapping.items()
    out: dict[tuple[Atom, ...], int] = {}
    for atoms, count in size.mapping.items():
        rest = list(atoms)
        for factor in factors:
            if factor not in rest:
                return None
            rest.remove(factor)
        if count % number:
            return None
        out[tuple(rest)] = count // number
    return Dim(out)


def _factor(size: Dim) -> bool:
    """Whether a size may stand before `*` without parentheses."""
    return len(size.mapping) == 1


def _rendered(size: Dim, called: dict[Dim, str]) -> str | None:
    """A size in these names; None if it speaks of others, or is none."""
    names = {dim.symbol: name for dim, name in called.items() if dim.symbol is not None}
    if not size.variables <= names.keys() or (size.constant is not None and size.constant < 0):
        return None
    return render(size, names.__getitem__)


def parts(span: Span) -> Iterator[Span]:
    """The sizes between commas in the text of a place."""
    depth, start, text = 0, 0, span.text
    for n, c in enumerate(f"{text},"):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            piece = text[start:n]
            begin = span.start + start + len(piece) - len(piece.lstrip())
            yield Span(span.file, begin, begin + len(piece.strip()))
            start = n + 1


def dimension_arguments(function: Span) -> list[Span]:
    """The sizes in the braces of `f {h, g}`."""
    braces = re.fullmatch(r"([^{}]*\{)([^{}]*)\}", function.text)
    found = braces.span(2) if braces is not None else (0, 0)
    return list(parts(Span(function.file, function.start + found[0], function.start + found[1]))) if braces is not None else []
