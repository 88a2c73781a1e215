"""What a person who wrote sizes that cannot agree most likely meant: changes of the expression, the likeliest first.

A forgotten transposition, swapped arguments or indices, and a statistic of each row that is applied to whole rows are commoner than
a wrong annotation. Each is an edit of the source; the checker tries it, and shows it only if fewer errors are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations
from typing import Any

from axon.base.data import dataclass
from axon.base.diagnostics import Edit, Suggestion
from axon.base.source import Span
from axon.explain.origin import Trail
from axon.explain.ranges import Origin
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, quoted_type
from axon.shapes.constraint import Equal, Reason
from axon.shapes.dimension import Dim
from axon.suggest.bounds import headers, regrouped, rounded_up, ungrouped
from axon.suggest.calls import (
    argument_turned,
    arguments_swapped,
    dimensions_exchanged,
    fields_exchanged,
    other_values,
    stages_exchanged,
)  # fmt: skip
from axon.suggest.indices import exchanged, reindexed
from axon.suggest.mutations import expr as written
from axon.suggest.mutations import node, permuted, propose, proposing
from axon.suggest.operators import (
    by_rows,
    every_pair,
    names_exchanged,
    operands_swapped,
    other_fields,
    plain_indices,
    sides_turned,
    turned_around,
)  # fmt: skip
from axon.types import typed as T
from axon.types.show import Namer, show_element
from axon.types.type import Row, Tensor
from axon.types.unify import State


def mends(reasons: Iterable[Reason], trail: Trail, primary: bool) -> tuple[Suggestion, ...]:
    """Changes to try for a conflict with these reasons, of which one may be the `primary` one."""
    found: dict[tuple[Edit, ...], Suggestion] = {}
    for reason in reasons:
        for suggestion in _of(reason, trail, primary):
            found.setdefault(suggestion.edits, suggestion)
    return tuple(found.values())


def _of(reason: Reason, trail: Trail, primary: bool) -> Iterator[Suggestion]:
    reads = _reads(reason, trail)
    yield from reindexed(reads, trail)
    for access, at in reads:
        yield from exchanged(access, at, trail, False)
    for e in trail.expressions():
        spot = next((s for s in _SPOTS if isinstance(e, s.kind) and s.speaks_of(reason, e)), None)
        if spot is not None and (primary or not spot.primary):
            for mutation in spot.mutations:
                yield from mutation(e, reason, trail)


def otherwise_read(trail: Trail, reason: Reason) -> tuple[Suggestion, ...]:
    """Other indices in the accesses of which a reason speaks."""
    return tuple(reindexed(_reads(reason, trail), trail))


def asked(trail: Trail, reason: Reason) -> tuple[Suggestion, ...]:
    """Changes of what asks for a size in the body of a function: of accesses, products and calls."""
    return otherwise_read(trail, reason) or mends([reason], trail, True)


def _reads(reason: Reason, trail: Trail) -> list[tuple[T.Access, Span]]:
    return [(read[0], side.span) for side in reason.sides if side.about and (read := trail.read(side.span)) is not None]


def behind(origin: Origin, trail: Trail) -> tuple[Suggestion, ...]:
    """Changes of the accesses that decide how far the indices run from which a size comes."""
    found: dict[tuple[Edit, ...], Suggestion] = {}
    for source in trail.sources(origin):
        read = trail.read(source.read) if source.read is not None else None
        if read is not None and source.read is not None:
            for suggestion in reindexed([(read[0], source.read)], trail):
                found.setdefault(suggestion.edits, suggestion)
        for e in headers(trail, (source.span,)) if source.kind == "flatten" else ():
            found |= {s.edits: s for s in regrouped(e, None, trail)}
        found |= {s.edits: s for s in rounded_up(source)}
    return tuple(found.values())


@proposing
def compared(equal: Equal, trail: Trail, state: State, show: Callable[[Dim], str]) -> Iterator[Suggestion]:
    """Sizes that only the data decide, compared at run time: `(b as f32[k])`, what has such a size first."""
    sizes = [state.dimension(d) for d in (equal.left, equal.right)]
    sides = reversed(list(zip(equal.reason.sides, sizes, reversed(sizes), strict=False)))
    for side, own, other in sorted(sides, key=lambda s: s[1].variables.isdisjoint(state.data_sizes)):
        read = trail.read(side.span) if side.about else None
        expr = read[0].base if read is not None else trail.at(side.span)
        t = state.prune(expr.type) if expr is not None else None
        if expr is None or not isinstance(t, Tensor):
            continue
        items = [i if isinstance(i, Row) else state.dimension(i) for i in state.shape(t.shape)]
        if own == other or own not in items:
            continue
        items[items.index(own)] = other
        namer = Namer(state)
        listed = ", ".join(f"..{namer.dim(i.symbol)}" if isinstance(i, Row) else show(i) for i in items)
        value = written(expr)
        new = S.Coerce(value, quoted_type(f"{show_element(namer, t.element)}[{listed}]"), span=NEW)
        yield propose("compare them at run time:", S.Tuple((new,), span=NEW), (value, new))


def last_resorts(reason: Reason, trail: Trail) -> Iterator[Suggestion]:
    """Larger changes, to be tried when nothing else helps."""
    for expr in trail.expressions():
        if isinstance(expr, T.MatMul) and _of_the_operator(reason, expr):
            yield from turned_around(expr, trail)


@proposing
def reordered(e: T.For, _: Reason, __: Trail) -> Iterator[Suggestion]:
    """The indices of a `for` in another order."""
    whole = node(e, S.For)
    names = plain_indices(whole)
    group = whole.groups[0]
    for order in permutations(range(len(names))) if 2 <= len(names) <= 3 else ():
        if sorted(order) != list(order):
            head = " ".join(names[n] for n in order)
            yield propose(f"reorder the indices: `for {head} => …`", None, *permuted(group.binders, order))


def apart(e: T.For, _: Reason, __: Trail) -> Iterator[Suggestion]:
    """The indices of a flattening as dimensions of their own."""
    return ungrouped(e.span)


# ── which mutations are proposed where ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Spot:
    """Expressions of a kind that a reason speaks of, and the mutations to propose there, the likeliest first; `primary`: only for
    the equation that is blamed."""

    kind: type[T.Node]
    speaks_of: Callable[[Reason, Any], bool]
    mutations: tuple[Callable[[Any, Reason, Trail], Iterable[Suggestion]], ...]
    primary: bool = False


def _of_the_operator(reason: Reason, e: T.MatMul | T.Binary) -> bool:
    at, left, right = reason.span, e.left.span, e.right.span
    return at.file is left.file and left.end <= at.start and at.end <= right.start


def _of_an_argument(reason: Reason, e: T.Call) -> bool:
    return any(a.span == reason.span for a in e.arguments)


def _of_it(reason: Reason, e: T.Expr) -> bool:
    return any(s.span == e.span for s in reason.sides)


def _of_a_part(reason: Reason, e: T.Expr) -> bool:
    sides = [s.span for s in reason.sides if s.span.file is e.span.file]
    return any(e.span.start <= s.start and s.end <= e.span.end for s in sides)


_SPOTS = (
    _Spot(T.MatMul, _of_the_operator, (sides_turned, other_fields, names_exchanged, operands_swapped)),
    _Spot(T.Binary, _of_the_operator, (every_pair, by_rows, sides_turned)),
    _Spot(T.For, _of_it, (reordered, regrouped, apart)),
    _Spot(
        T.Call,
        _of_an_argument,
        (
            dimensions_exchanged,
            other_fields,
            other_values,
            stages_exchanged,
            arguments_swapped,
            argument_turned,
            fields_exchanged,
        ),
        primary=True,
    ),
    _Spot(T.For, _of_a_part, (reordered,)),
)
