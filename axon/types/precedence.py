"""Parentheses that are missing, as edits to try: what binds more tightly than it was meant to, or less."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from axon import typed as T
from axon.diagnostics import Change, Edit, Suggestion
from axon.source import Span
from axon.types.quote import fitting, short

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


def accessed_result(function: T.Expr, arguments: list[T.Expr]) -> Iterator[Suggestion]:
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
