"""How an expression may have been meant that is read otherwise, as edits to try: with parentheses, or element by element."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from axon.base.diagnostics import Change, Edit, Suggestion
from axon.base.source import Span
from axon.explain.quote import fitting, short, shown
from axon.types import typed as T

_MORE_SIZES = re.compile(r"(?:\s*[-+*/%]\s*(?:[A-Za-z_]\w*|\d+)(?![\w.(\[]))*")
_FRACTION = re.compile(r"(.*\S\s+[-+]\s+(\d+))\s*/\s*(\d+)", re.DOTALL)
_NEGATED = re.compile(r"\s+-([\w.]+(?:\[[^\[\]]*\])?|\([^()]*\))")
_NAME = re.compile(r"[A-Za-z_][\w.]*")


def cast_of_sizes(left: T.Expr, right: T.Expr, operator: Span) -> Iterator[Suggestion]:
    """`x / cast f32 (h * w)` for `x / cast f32 h * w`, where `cast` takes `h` alone."""
    while isinstance(left, T.Binary):
        left = left.right
    text = operator.file.text
    if not isinstance(left, T.Cast) or not isinstance(left.value, T.Dimension) or not isinstance(right, T.Dimension):
        return
    value = left.value.span
    if text[value.end : operator.start].strip():
        return  # the cast stands in parentheses
    more = _MORE_SIZES.match(text, right.span.end)
    ends = dict.fromkeys((more.end() if more is not None else right.span.end, right.span.end))
    for end in ends:  # all sizes that follow, or the first
        edits = (Edit(Span(value.file, value.start, value.start), "("), Edit(Span(value.file, end, end), ")"))
        sizes = short(Span(value.file, value.start, end))
        written = f"{text[left.span.start : value.start]}({sizes})"
        help_ = f"`cast` takes one operand: write `{' '.join(written.split())}`"
        yield Suggestion(help_, edits, change=Change.PARENTHESES)


def negated_argument(function: Span) -> Iterator[Suggestion]:
    """`exp (-x)` for `exp -x`, which subtracts `x` from `exp`."""
    text = function.file.text
    found = _NEGATED.match(text, function.end)
    if found is not None and _NAME.fullmatch(function.text) is not None:
        help_ = f"to apply, write `{function.text} (-{' '.join(found[1].split())})`"
        edit = Edit(Span(function.file, found.start(1) - 1, found.end()), f"(-{found[1]})")
        yield Suggestion(help_, (edit,), change=Change.PARENTHESES)
        yield Suggestion(help_)  # also beside other errors


def accessed_result(function: T.Expr, arguments: Sequence[T.Expr]) -> Iterator[Suggestion]:
    """`(softmax x)[i, j]` for `softmax x[i, j]`, where the access is to the argument."""
    last = arguments[-1]
    spans = [function.span, *(a.span for a in arguments)]
    ordered = all(a.end <= b.start for a, b in pairwise(spans))
    if not isinstance(last, T.Access) or not ordered or _NAME.fullmatch(function.span.text) is None:
        return
    text = last.span.file.text
    bracket, start = text.index("[", last.base.span.end), function.span.start
    if text[last.base.span.end : bracket].strip(" )"):
        return
    edits = (Edit(Span(last.span.file, start, start), "("), Edit(Span(last.span.file, bracket, bracket), ")"))
    applied, subscripts = Span(last.span.file, start, bracket), " ".join(text[bracket : last.span.end].split())
    help_ = fitting(lambda most: f"to index the result, write `({short(applied, most)}){subscripts}`")
    yield Suggestion(help_, edits, change=Change.PARENTHESES)


def quotient(index: Span) -> str | None:
    """`(n - 1) / 2` for `n - 1 / 2`, of which `1 / 2` is 0."""
    found = _FRACTION.fullmatch(index.text)
    if found is None or int(found[2]) >= int(found[3]) or any(c in found[1] for c in "()[]"):
        return None
    return f"({found[1]}) / {found[3]}"


def per_element(
    whole: Span, parts: tuple[T.Expr, T.Expr, T.Expr], rank_of: Callable[[T.Expr], int | None], around: Sequence[str]
) -> Iterator[Suggestion]:
    """`for i => if mask[i] then x[i] else 0.0` for `if mask then x else 0.0`, of parts of one rank, or scalars. Where the condition
    alone is no scalar, the indices `around` may be meant.
    """
    ranks = [rank_of(part) for part in parts]
    known = [r for r in ranks if r is not None]
    rank = max(known, default=0)
    if rank not in range(1, 5) or any(r not in (0, rank) for r in known):
        return
    taken = set(re.findall(r"\w+", whole.text))
    single = ranks[1:] == [0, 0] and len(around) >= rank
    letters = list(around[-rank:]) if single else [c for c in "ijklmnpq" if c not in taken][:rank]
    at = f"[{', '.join(letters)}]"
    texts = [_at_element(part, rank, at, rank_of) for part in parts]

    def text(most: int) -> str:
        written = (t if len(t) <= most else short(p.span, most) for t, p in zip(texts, parts, strict=True))
        return ("" if single else f"for {' '.join(letters)} => ") + "if {} then {} else {}".format(*written)

    if len(letters) == rank:
        help_ = fitting(lambda most: f"choose per element: `{text(most)}`")
        yield Suggestion(help_, (Edit(whole, text(max(map(len, texts)))),))
        yield from (Suggestion(help_),) if len(known) == len(ranks) else ()


def _at_element(e: T.Expr, rank: int, at: str, rank_of: Callable[[T.Expr], int | None]) -> str:
    """One element of an expression: `x[i] > 0.0` of `x > 0.0`, or of what is not computed of names alone, `(f x)[i]`."""
    ends: list[int] = []

    def within(part: T.Expr) -> bool:
        match part:
            case _ if rank_of(part) == 0:
                return True
            case T.Variable() if rank_of(part) == rank:
                ends.append(part.span.end)
                return True
            case T.Unary(operand=inner):
                return within(inner)
            case T.Binary(left=left, right=right):
                return within(left) and within(right)
        return False

    text = e.span.text
    if not within(e):
        return f"{shown(e.span, len(text))}{at}"
    for end in sorted(ends, reverse=True):
        text = text[: end - e.span.start] + at + text[end - e.span.start :]
    return " ".join(text.split())
