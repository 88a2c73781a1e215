"""What the text leaves out and the checker found: types of parameters and values, results of functions, ranges of indices.

Text and hints together read as somebody could have written them: `fun f ⟨(⟩x⟨ : f32[n])⟩⟨ : f32[n]⟩ = x + 1.0`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from axon.base.data import dataclass, replace
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.tools.editor.facts import Facts
from axon.tools.editor.names import Binding, Kind
from axon.types.type import Function

_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Hint:
    """A text to show behind a place, or before it. `full` is the whole of it, where it is shortened."""

    at: Span
    label: str
    kind: Literal["type", "range"]
    full: str = ""
    before: bool = False


def hints(facts: Facts) -> list[Hint]:
    """The hints of one declaration, in no order."""
    out = [h for b in facts.names.bindings if (h := _range(facts, b)) is not None]
    out += _declaration(facts, facts.checked.decl)
    return out


def _range(facts: Facts, binding: Binding) -> Hint | None:
    """`for i⟨ < n⟩`, where the range is not stated."""
    found = facts.ranges.get(binding)
    if binding.kind not in (Kind.INDEX, Kind.RUN) or found is None or _is_stated(binding):
        return None
    shown = facts.show_extent(found[1])
    own = shown.removeprefix("..") == binding.name
    return None if not shown or own else _hint(binding.span, f" < {shown}", "range")


def _is_stated(binding: Binding) -> bool:
    return binding.span.file.text[binding.span.end :].lstrip()[:1] == "<"


def _declaration(facts: Facts, decl: S.Decl) -> Iterator[Hint]:
    match decl:
        case S.Fun():
            if not facts.checked.sigs or decl is not facts.checked.decl:
                for param in decl.params:
                    if not isinstance(param, S.DimParams):
                        yield from _parameter(facts, param)
                if decl.result is None and any(not isinstance(p, S.DimParams) for p in decl.params):
                    yield from _result(facts, decl)
            yield from _inside(facts, decl.body)
        case S.Val(pattern, value):
            if not (decl is facts.checked.decl and facts.checked.sigs):
                yield from _pattern(facts, pattern)
            yield from _inside(facts, value)


def _result(facts: Facts, decl: S.Fun) -> Iterator[Hint]:
    """The result, behind the parameters."""
    t = facts.bound.get((decl.name.span.file, decl.name.span.start, decl.name.span.end))
    if t is None or not facts.known(t):
        return
    for param in decl.params:
        t = facts.state.prune(t)
        if not isinstance(param, S.DimParams):
            if not isinstance(t, Function):
                return
            t = t.result
    last = decl.params[-1].span
    closes = last.file.text.find(")", last.end)
    end = closes + 1 if closes >= 0 and not last.file.text[last.end : closes].strip() else last.end
    yield _hint(Span(last.file, last.start, end), f" : {facts.show(t)}", "type")


def _parameter(facts: Facts, p: S.Pattern) -> Iterator[Hint]:
    """A parameter that is a bare name, whose type needs parentheses; and any other."""
    for hint in _pattern(facts, p):
        if isinstance(p, S.PatternName) and not _is_enclosed(p.span):
            yield Hint(hint.at, "(", "type", before=True)
            hint = replace(hint, label=f"{hint.label})")
        yield hint


def _is_enclosed(span: Span) -> bool:
    """Whether parentheses stand around it already."""
    text = span.file.text
    return text[: span.start].rstrip().endswith("(") and text[span.end :].lstrip().startswith(")")


def _pattern(facts: Facts, p: S.Pattern) -> Iterator[Hint]:
    match p:
        case S.PatternName(name):
            t = facts.type_at(p.span) if name != "_" else None
            if t is not None and facts.known(t):
                yield _hint(p.span, f" : {facts.show(t)}{'?' * (p.span in facts.or_scalar)}", "type")
        case S.PatternTuple(items):
            for item in items:
                yield from _pattern(facts, item)
        case S.PatternRecord(fields):
            for _, item in fields:
                yield from _pattern(facts, item)
        case S.PatternTyped():
            pass


def _inside(facts: Facts, e: S.Expr) -> Iterator[Hint]:
    """The hints of what an expression binds."""
    stack: list[object] = [e]
    while stack:
        match stack.pop():
            case S.Let(decls, body):
                for decl in decls:
                    yield from _declaration(facts, decl)
                stack.append(body)
            case S.Fn(params, body):
                for param in params:
                    yield from _parameter(facts, param)
                stack.append(body)
            case S.Loop(_, states, condition, groups, body):
                for pattern, initial in states:
                    yield from _pattern(facts, pattern)
                    stack.append(initial)
                stack += (condition, groups, body)
            case S.Node() as node:
                stack += [getattr(node, name) for name in node.__dataclass_fields__ if name not in ("span", "op_span")]
            case tuple() as items:
                stack += items


def _hint(at: Span, text: str, kind: Literal["type", "range"]) -> Hint:
    if len(text) <= _LONGEST:
        return Hint(at, text, kind)
    return Hint(at, text[: _LONGEST - 1] + "…", kind, text.lstrip(" :<->"))
