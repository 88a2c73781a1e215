"""Calls whose arguments do not fit: exchanged, other values or fields for them, other dimension arguments, stages of a pipeline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations

from axon.base.diagnostics import Change, Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.origin import Trail
from axon.grammar import syntax as S
from axon.grammar.rewrite import call, var
from axon.shapes.constraint import Reason, Side
from axon.shapes.dimension import Dim
from axon.suggest.mutations import expr, is_name, node, outside, permuted, propose, proposing, shown, swap
from axon.suggest.operators import exchange, fields_used, rank, turned
from axon.types import typed as T
from axon.types.type import Row, Type

_MAX_EXCHANGES = 10  # of two arguments of one call
_MAX_VALUES = 3  # tried in the place of one


def _here(e: T.Call, reason: Reason) -> int:
    """The position of the argument that a reason speaks of."""
    return next(n for n, a in enumerate(e.arguments) if a.span == reason.span)


def dimensions_exchanged(e: T.Call, _: Reason, __: Trail) -> Iterator[Suggestion]:
    return exchanged(e.function.span)


def other_values(e: T.Call, reason: Reason, trail: Trail) -> Iterator[Suggestion]:
    """Other values for the arguments, first for the one that does not fit."""
    for argument in sorted(e.arguments, key=lambda a: a.span != reason.span):
        yield from _other_values(argument, trail)


def arguments_swapped(e: T.Call, reason: Reason, trail: Trail) -> Iterator[Suggestion]:
    here, ranks = _here(e, reason), [rank(a, trail) for a in e.arguments]
    return swapped(e.function, e.arguments, here, [n for n, r in enumerate(ranks) if r not in (None, ranks[here])])


@proposing
def argument_turned(e: T.Call, reason: Reason, trail: Trail) -> Iterator[Suggestion]:
    here = _here(e, reason)
    pair = turned(e.arguments[here], trail) if rank(e.arguments[here], trail) == 2 else None
    if pair is not None:
        yield propose(f"transpose argument {here + 1}:", expr(e), pair, change=Change.TRANSPOSED, imports="linalg")


@proposing
def fields_exchanged(e: T.Call, _: Reason, trail: Trail) -> Iterator[Suggestion]:
    """`p.up` where `p.down` stands and the other way round, where each is used once."""
    fields, used = [f for f in trail.expressions() if isinstance(f, T.Field)], fields_used(trail)
    for argument in e.arguments:
        for other in fields if isinstance(argument, T.Field) else ():
            own, text = argument.span.text, other.span.text
            same = isinstance(argument, T.Field) and other.record.span.text == argument.record.span.text
            if same and own != text and used.count(own) == used.count(text) == 1:
                yield exchange(argument, other)


@proposing
def swapped(function: T.Expr, arguments: Sequence[T.Expr], here: int, apart: Iterable[int] = ()) -> Iterator[Suggestion]:
    """An argument exchanged with each of the others, or two exchanged that are `apart` from it, as vectors are that belong
    to a matrix; of three, turned.

    Names first: what is computed on the spot is confused less often.
    """
    given, texts = [expr(a) for a in arguments], [a.span.text for a in arguments]
    turns = [order for order in permutations(range(3)) if all(order[n] != n for n in range(3))] if len(given) == 3 else []
    plain: list[tuple[int, ...]] = []
    others: list[tuple[int, ...]] = []
    for order in (*_exchanges(len(given), here), *turns):
        moved = [n for n in range(len(given)) if order[n] != n]
        if all(is_name(given[n]) for n in moved):
            plain += [order] if here in moved or set(moved) <= set(apart) else []
        elif here in moved and len(moved) == 2 and len({texts[n] for n in moved}) == 2:
            others.append(order)
    for order in (*plain, *others):
        changes = permuted(given, order)
        words = "swap the arguments:" if len(changes) == 2 else "reorder:"
        if changes:  # else they are the same
            yield propose(words, call(expr(function), *(given[n] for n in order)), *changes)


def _exchanges(count: int, here: int) -> Iterator[tuple[int, ...]]:
    """Every exchange of two arguments, those of the one `here` first."""
    for pair in sorted(combinations(range(count), 2), key=lambda pair: here not in pair)[:_MAX_EXCHANGES]:
        order = list(range(count))
        order[pair[0]], order[pair[1]] = pair[1], pair[0]
        yield tuple(order)


@proposing
def stages_exchanged(e: T.Call, reason: Reason, _: Trail) -> Iterator[Suggestion]:
    """`x |> g |> f` for `x |> f |> g`: a stage of a pipeline exchanged with the one after it, or before it."""
    own, at = node(e, S.Binary), reason.span
    outer = outside(own)
    pairs = ((own, outer), (own.left, own)) if own.op == "|>" and own.left.span == e.arguments[-1].span == at else ()
    for before, after in pairs:
        if isinstance(before, S.Binary) and isinstance(after, S.Binary) and before.op == after.op == "|>" and after.left is before:
            words = f"exchange the stages: `… |> {shown(after.right)} |> {shown(before.right)}`"
            yield propose(words, None, *swap(before.right, after.right))


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@proposing
def _other_values(e: T.Expr, trail: Trail) -> Iterator[Suggestion]:
    """Another value where a name stands that is used twice and differs from its own in a number: `down3` for `down2`."""
    shape = trail.shape(e.type)
    if not isinstance(e, T.Variable) or shape is None or any(isinstance(i, Row) for i in shape):
        return
    variables = [v for v in trail.expressions() if isinstance(v, T.Variable)]
    names: dict[str, T.Variable] = {}
    for v in variables:
        if v.symbol != e.symbol and _alike(v.symbol.name, e.symbol.name):
            names.setdefault(v.symbol.name, v)
    twice = sum(v.symbol == e.symbol for v in variables) > 1
    fitting = [v for v in names.values() if len(trail.shape(v.type) or ()) == len(shape) and trail.known_at(v, e.span)]
    for v in sorted(fitting if twice else (), key=lambda v: v.span.start)[:_MAX_VALUES]:
        yield another(e, v.symbol)


def _alike(one: str, other: str) -> bool:
    """Whether two names differ in their numbers alone."""
    bare = re.sub(r"\d+", "", one)
    return bare == re.sub(r"\d+", "", other) and bare not in (one, "")


@proposing
def fitting_values(side: Side, other: Side, own: Dim, needed: Dim, trail: Trail, idle: bool) -> Iterator[Suggestion]:
    """Where a name stands that is used twice, another one of the size that is needed: a parameter that nothing uses (`idle`), or in
    an operand or an argument what differs in this size alone.
    """
    read = trail.read(side.span) if side.about else None
    whole = read[0].base if read is not None else trail.at(side.span)
    beside = {e.symbol for e in (trail.at(other.span), *trail.given_with(side.span)) if isinstance(e, T.Variable)}
    variables = [v for v in trail.expressions() if isinstance(v, T.Variable)]
    used = Counter(v.symbol for v in variables)
    known: dict[Symbol, Type] = {p.symbol: p.type for p in trail.named_parameters()} | {v.symbol: v.type for v in variables}
    inside = [v for v in variables if whole is not None and whole.span.start <= v.span.start and v.span.end <= whole.span.end]
    for v in inside:
        sizes = trail.sizes(v.type)
        for symbol, t in known.items() if own in sizes and used[v.symbol] > 1 else ():
            others = trail.sizes(t)
            apart = [n for n, (a, b) in enumerate(zip(sizes, others, strict=False)) if a != b]
            fits = len(sizes) == len(others) and any(sizes[n] == own and others[n] == needed for n in apart)
            meant = not used[symbol] if idle else used[symbol] and not side.about and len(apart) == 1
            if fits and meant and symbol not in beside and trail.known_before(symbol, v.span):
                yield another(v, symbol)


def another(e: T.Variable, symbol: Symbol) -> Suggestion:
    new = var(symbol.name)
    return propose("another value:", new, (expr(e), new))


# ── dimension arguments ─────────────────────────────────────────────────────────────────────────────────────────────────


@proposing
def exchanged(function: Span) -> Iterator[Suggestion]:
    """Two dimension arguments of a call exchanged."""
    whole = node(function, S.ApplyDims)
    for one, other in combinations(whole.dims, 2):
        if one != other:
            yield propose("exchange the dimension arguments:", whole, *swap(one, other))
