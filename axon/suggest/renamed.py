"""What to write for names that nothing introduces and that are known from elsewhere: of modules, conversions, types."""

from __future__ import annotations

from collections.abc import Iterator

from axon.base.diagnostics import Suggestion
from axon.base.element import Element
from axon.explain.names import FOREIGN
from axon.explain.unknown import comma_behind_a_bound, holders, written_number
from axon.grammar import syntax as S
from axon.grammar.mistakes import LIBRARIES, LOGICAL
from axon.grammar.rewrite import NEW, NotWritten, made, name, tree, var
from axon.suggest.headless import logical
from axon.suggest.mutations import applied, imported, node, outside, propose, proposing
from axon.types import builtins
from axon.types.resolve import ModuleName
from axon.types.trouble import UnknownElement, UnknownName, UnknownValue


@proposing
def known_elsewhere(wrong: UnknownValue) -> Iterator[Suggestion]:
    """What a value may be meant to be that nothing introduces; of several ways to read it, the first alone."""
    if (number := written_number(wrong.name, wrong.span)) is not None:
        yield _decimal(wrong, *number)
    elif (text := comma_behind_a_bound(wrong.span)) is not None:
        yield _behind_a_bound(wrong, text)
    elif inside := tuple(_members(wrong)):
        yield from inside
    elif wrong.name in builtins.REDUCTIONS:
        return
    elif wrong.name in LOGICAL:
        yield logical(wrong.name, wrong.span)
    elif any(wrong.name == e.value for e in Element):
        yield _conversion(wrong)
    elif wrong.name in LIBRARIES:
        yield from _of_the_language(wrong)


def _decimal(wrong: UnknownValue, value: int, length: int) -> Suggestion:
    """`16` for `0x10`, which is read as `0` applied to `x10`."""
    own = node(wrong.span, S.Var)
    whole = outside(own)
    begun = tree(own.span.file).ending(own.span.start, S.Int)
    if not isinstance(whole, S.Apply) or begun.span.start != own.span.end - length:
        raise NotWritten(own.span)
    return propose(f"write `{value}`", None, (whole, applied(whole.function, (begun, S.Int(value, span=NEW)))), grown=True)


def _behind_a_bound(wrong: UnknownValue, text: str) -> Suggestion:
    """`for i < n, j => …` for `for i < n j => …`, where `n` is applied to `j`."""
    own = node(wrong.span, S.Var)
    call = outside(own)
    group = call
    while group is not None and not isinstance(group, S.BinderGroup):
        group = outside(group)
    head = outside(group) if group is not None else None
    bound = group.bound if isinstance(group, S.BinderGroup) else None
    if not isinstance(call, S.Apply) or group is None or bound is None or not isinstance(head, S.For | S.Reduce):
        raise NotWritten(own.span)
    bounded = made(group, bound=call.function if bound is call else applied(bound, (call, call.function)))
    index = S.BinderGroup((S.IndexBinder(own.name, span=NEW),), None, span=NEW)
    groups = tuple(part for g in head.groups for part in ((bounded, index) if g is group else (g,)))
    return propose(text, None, (head, made(head, groups=groups)), grown=True)


def _members(wrong: UnknownValue) -> Iterator[Suggestion]:
    """The name in the modules that have it: those that are imported, or else those that could be."""
    own, of = node(wrong.span, S.Var), wrong.name
    for n in (found := holders(wrong.name, wrong.scope)):
        yield propose(f"`{n}` has `{of}`: write `{n}.{of}`", None, (own, var(f"{n}.{of}")))
    for n in wrong.library if not found else ():
        if not isinstance(wrong.scope.value(n), ModuleName):
            yield imported(f"`{n}` has `{of}`: write `import {n}` and `{n}.{of}`", n, own.span.file, (own, var(f"{n}.{of}")))


def _conversion(wrong: UnknownValue) -> Suggestion:
    """`cast f32 x` for `f32 x`"""
    own = node(wrong.span, S.Var)
    whole, words = outside(own), f"to convert, write `cast {wrong.name} …`"
    if isinstance(whole, S.Apply) and whole.function is own:
        return propose(words, None, (whole, S.Cast(name(wrong.name), whole.argument, span=NEW)), grown=True)
    return propose(words, None, (own, S.Cast(name(wrong.name), None, span=NEW)))


def _of_the_language(wrong: UnknownValue) -> Iterator[Suggestion]:
    """`exp` for `np.exp`"""
    whole = outside(node(wrong.span, S.Var))
    if isinstance(whole, S.Field) and whole.name.text in builtins.NAMES:
        member = whole.name.text
        yield propose(f"`{member}` is part of the language: write `{member}`", None, (whole, var(member)))


@proposing
def own_type(wrong: UnknownName) -> Iterator[Suggestion]:
    """`f32[n]` for `float[n]`"""
    if wrong.what == "type" and wrong.name in FOREIGN:
        written = tree(wrong.span.file).beginning(wrong.span.start, S.TypeName)
        new = made(written, name=(name(FOREIGN[wrong.name]),))
        yield propose(f"write `{FOREIGN[wrong.name]}`", None, (written, new), grown=True)


@proposing
def own_element(wrong: UnknownElement) -> Iterator[Suggestion]:
    """`cast f32 x` for `cast float x`, or for `cast x`, where the element type is missing."""
    cast, given = node(wrong.cast.span, S.Cast), wrong.cast.element.text
    if given in FOREIGN:
        yield propose(f"write `cast {FOREIGN[given]}`", None, (cast, made(cast, element=name(FOREIGN[given]))), grown=True)
    elif wrong.is_value:
        new = made(cast, element=name("f32"), value=var(given))
        yield propose("the element type is missing: write", new, (cast, new))
