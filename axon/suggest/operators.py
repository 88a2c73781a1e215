"""Products and operators whose operands do not fit: turned, exchanged, or applied element by element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from axon.base.diagnostics import Change, Suggestion
from axon.explain.origin import Trail
from axon.explain.quote import short
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, call, made, quoted, var
from axon.shapes.constraint import Reason
from axon.suggest.mutations import expr, free_letters, indexed, is_name, node, propose, proposing, swap, text_of
from axon.types import typed as T
from axon.types.type import Row

_MAX_RANK = 4
_TRANSPOSE = "linalg.transpose"


@proposing
def sides_turned(e: T.MatMul | T.Binary, _: Reason, trail: Trail) -> Iterator[Suggestion]:
    """`a @ b` with either side transposed; other operators, between matrices alone."""
    for side in (e.right, e.left):
        if isinstance(e, T.MatMul) or rank(e.left, trail) == rank(e.right, trail) == 2:
            yield from _transposed(side, node(e, S.Binary), trail)


@proposing
def operands_swapped(e: T.MatMul, _: Reason, __: Trail) -> Iterator[Suggestion]:
    """`b @ a` for `a @ b`, also of a product that is an operand."""
    for one in (e, e.left, e.right):
        if isinstance(one, T.MatMul):
            inner = node(one, S.Binary)
            yield propose("swap the operands:", inner, *swap(inner.left, inner.right))


@proposing
def names_exchanged(e: T.MatMul, _: Reason, trail: Trail) -> Iterator[Suggestion]:
    """`a @ x @ w` for `a @ w @ x`: a name exchanged with one that is a factor of another product, once each."""
    factors = [f for p in trail.expressions() if isinstance(p, T.MatMul) for f in (p.left, p.right) if isinstance(f, T.Variable)]
    for own in (e.right, e.left):
        for other in factors if isinstance(own, T.Variable) else ():
            alike = rank(own, trail) == rank(other, trail) and trail.known_at(own, other.span) and trail.known_at(other, own.span)
            if alike and other not in (e.right, e.left) and other.span.text != own.span.text:
                yield exchange(own, other)


def exchange(one: T.Expr, other: T.Expr) -> Suggestion:
    words = f"exchange `{one.span.text}` and `{other.span.text}`"
    return propose(words, None, *swap(expr(one), expr(other)), change=Change.EXCHANGED)


@proposing
def turned_around(e: T.MatMul, trail: Trail) -> Iterator[Suggestion]:
    """`g @ x` for `linalg.transpose x @ g`: the sides swapped and one transposed."""
    whole = node(e, S.Binary)
    left, right = whole.left, whole.right
    for one in (e.right, e.left) if is_name(left) and is_name(right) else ():
        if (pair := turned(one, trail)) is not None:
            swapped = ((left, pair[1]), (right, left)) if one is e.right else ((left, right), (right, pair[1]))
            yield propose("swap the operands and transpose one:", whole, *swapped, imports="linalg")


def _transposed(e: T.Expr, whole: S.Node, trail: Trail) -> Iterator[Suggestion]:
    """A matrix transposed in what is around it, or not transposed where it is."""
    if (pair := turned(e, trail)) is not None:
        once = pair[1].span.file is pair[0].span.file
        words = f"do not transpose `{short(pair[1].span)}`:" if once else f"transpose `{short(e.span)}`:"
        yield propose(words, whole, pair, change=None if once else Change.TRANSPOSED, imports="" if once else "linalg")


def turned(e: T.Expr, trail: Trail) -> tuple[S.Expr, S.Expr] | None:
    """A matrix, and what it is when it is transposed; what is transposed once, and is not to be."""
    if isinstance(e, T.Call) and e.function.span.text == _TRANSPOSE and len(e.arguments) == 1:
        return expr(e), expr(e.arguments[0])
    shape = trail.shape(e.type)
    if isinstance(e, T.For) or shape is None or sum(not isinstance(i, Row) for i in shape) < 2:
        return None
    return expr(e), call(var(_TRANSPOSE), expr(e))


@proposing
def other_fields(e: T.MatMul | T.Call, _: Reason, trail: Trail) -> Iterator[Suggestion]:
    """`p.down` for `p.up`: another field, which copying forgot to change: one is used twice, or the other not at all."""
    used = fields_used(trail)
    for argument in (e.right, e.left) if isinstance(e, T.MatMul) else e.arguments:
        for name in trail.fields(argument.record) if isinstance(argument, T.Field) else ():
            if isinstance(argument, T.Field) and name != argument.name:
                new = made(node(argument, S.Field), name=S.Name(name, NEW))
                if used.count(" ".join(argument.span.text.split())) > 1 or text_of(new, argument.span) not in used:
                    yield propose("another field:", new, (expr(argument), new))


def fields_used(trail: Trail) -> list[str]:
    return [" ".join(e.span.text.split()) for e in trail.expressions() if isinstance(e, T.Field)]


@proposing
def every_pair(e: T.Binary, _: Reason, trail: Trail) -> Iterator[Suggestion]:
    """`for i j => x[i] * y[j]` for `x * y` of two vectors."""
    if rank(e.left, trail) == rank(e.right, trail) == 1 and e.op in ("mul", "sub"):
        yield from _element_wise("for every pair, name the indices", node(e, S.Binary), 2, ((0,), (1,)))


@proposing
def by_rows(e: T.Binary, _: Reason, trail: Trail) -> Iterator[Suggestion]:
    """`x / t` where t has a value for each row: `for i j => x[i, j] / t[i]`."""
    whole, r, s = node(e, S.Binary), rank(e.left, trail), rank(e.right, trail)
    if not r or not s or r == s or max(r, s) > _MAX_RANK:
        return
    longer, shorter = (whole.left, whole.right) if r > s else (whole.right, whole.left)
    inside = list(_within(whole, longer, shorter, min(r, s), max(r, s)))
    every = tuple(range(max(r, s)))
    for chosen in list(combinations(every, min(r, s)))[:-1] if not inside else ():  # the last is what broadcasting does
        yield from _element_wise("name the indices", whole, len(every), (every, chosen) if r > s else (chosen, every))
    yield from inside


def _element_wise(words: str, whole: S.Binary, count: int, ways: tuple[Sequence[int], Sequence[int]]) -> Iterator[Suggestion]:
    """An operator under so many indices, with those of each operand."""
    if letters := free_letters(whole.span, count):
        left, right = (f"{e}[{', '.join(letters[n] for n in way)}]" for e, way in zip(("left", "right"), ways, strict=True))
        new = quoted(f"for {' '.join(letters)} => {left} {whole.op} {right}", left=whole.left, right=whole.right)
        yield propose(f"{words}:", new, (whole, new), change=Change.ROWS)


def _within(whole: S.Binary, longer: S.Expr, shorter: S.Expr, count: int, most: int) -> Iterator[Suggestion]:
    """`(for b o i => …) + bias`: the operator inside, `for b o i => (…) + bias[o]`."""
    names = plain_indices(longer) if isinstance(longer, S.For) else []
    if not isinstance(longer, S.For) or len(names) != most:
        return
    for chosen in list(combinations(names, count))[:-1]:
        at = indexed(shorter, chosen)

        def inside(body: S.Expr, at: S.Expr = at) -> S.For:
            sides = {"left": body, "right": at} if longer is whole.left else {"left": at, "right": body}
            return made(longer, body=made(whole, **sides))

        # The body is left as it is: what it asks of calls it asks in any case.
        yield propose("name the indices:", inside(var("(…)")), (whole, inside(longer.body)), change=Change.ROWS, grown=True)


def plain_indices(e: S.For) -> list[str]:
    """The indices of a `for` that are just names."""
    (group, *more) = e.groups
    names = [b.name for b in group.binders if isinstance(b, S.IndexBinder)]
    return names if not more and group.bound is None and len(names) == len(group.binders) and "_" not in names else []


def rank(e: T.Expr, trail: Trail) -> int | None:
    shape = trail.shape(e.type)
    return None if shape is None or any(isinstance(i, Row) for i in shape) else len(shape)
