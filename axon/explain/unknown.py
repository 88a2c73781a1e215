"""What to say of a name that nothing in scope introduces, when it is known from elsewhere: a reduction, a function of a module
that is not named, or a word of another language."""

from __future__ import annotations

import re

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.element import Element
from axon.base.source import Span
from axon.explain.names import unknown
from axon.grammar.mistakes import IN_EXPRESSIONS, LIBRARIES, LOGICAL, PYTHON_LIBRARY, VALUES
from axon.types import builtins
from axon.types.resolve import ModuleName, Scope


def unknown_value(name: str, span: Span, scope: Scope, library: list[str]) -> Diagnostic:
    """AX0401; `library` are the modules of the standard library that declare the name."""
    note = f"a dimension is a value where an annotation names it: `(x : f32[{name}])`" if _like_a_size(name, span) else ""
    if (number := _written_number(name, span)) is not None:
        return number
    found = unknown("value", name, span, scope.names(), note=note)
    meant = _known_elsewhere(name, span, scope, library)
    near = () if meant and _is_of_the_language(found.suggestions) else found.suggestions  # `log` for `log2`
    return replace(found, suggestions=(*near, *meant))


def _written_number(name: str, span: Span) -> Diagnostic | None:
    """What to say of the rest of a number as other languages write it: `0x10`, `1_000`."""
    digits = re.search(r"(?<![\w.])\d+$", span.file.text[max(0, span.start - 40) : span.start])
    whole = digits[0] + name if digits is not None else ""
    if not re.fullmatch(r"\d+(_\d+)+|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+", whole):
        return None
    try:
        value = int(whole, 0) if whole[1] in "xXoObB" else int(whole.replace("_", ""))
    except ValueError:  # as of `0x_`
        return None
    place = Span(span.file, span.end - len(whole), span.end)
    help = (Suggestion(f"write `{value}`", (Edit(place, f"{value}"),)),)
    return Diagnostic("AX0401", "a number is written with decimal digits alone", (Label(place),), suggestions=help)


def _is_of_the_language(near: tuple[Suggestion, ...]) -> bool:
    return all(edit.text in builtins.NAMES for suggestion in near for edit in suggestion.edits)


def _like_a_size(name: str, span: Span) -> bool:
    """Whether a name stands where a size would: after `<`, a cast or a division."""
    before = span.file.text[: span.start].rstrip("( \n")
    return len(name) == 1 and name.isalpha() and re.search(r"(<|[*/%]|\bcast\s+['\w]+)$", before) is not None


def _begins_a_definition(span: Span) -> bool:
    """Whether a name stands before `=` where a line begins, as statements do elsewhere."""
    before, after = span.file.text[: span.start], span.file.text[span.end :]
    return re.search(r"=\s*\n[ \t]*$|\bin\s*$", before[-200:]) is not None and re.match(r"[ \t]*=(?!>)", after[:80]) is not None


def _inside_brackets(span: Span) -> bool:
    """Whether a name is a whole subscript."""
    before, after = span.file.text[: span.start].rstrip(), span.file.text[span.end :].lstrip()
    opened = max("([{", key=before.rfind)  # the last bracket before it
    return opened == "[" and before.endswith(("[", ",")) and after.startswith(("]", ","))


def _known_elsewhere(name: str, span: Span, scope: Scope, library: list[str]) -> tuple[Suggestion, ...]:
    imported = {n: e.module for n in scope.names() if isinstance(e := scope.value(n), ModuleName)}
    holders = [n for n, module in imported.items() if name in module.values]
    inside = [Suggestion(f"`{n}` has `{name}`: write `{n}.{name}`", (Edit(span, f"{n}.{name}"),)) for n in holders]
    if not holders:
        top = Span(span.file, 0, 0)
        inside = [
            Suggestion(
                f"`{n}` has `{name}`: write `import {n}` and `{n}.{name}`",
                (Edit(top, f"import {n}\n"), Edit(span, f"{n}.{name}")),
            )
            for n in library
            if n not in imported
        ]
    if name in builtins.REDUCTIONS:  # the language's own way comes first
        written = f"reductions are written over indices: `{name} i => x[i]`, or `{name} i j => x[i, j]`"
        return (Suggestion(written), *inside)
    if inside:
        return tuple(inside)
    if name in LOGICAL:
        return (Suggestion(f"write `{LOGICAL[name]}`", (Edit(span, LOGICAL[name]),)),)
    if any(name == e.value for e in Element):
        return (Suggestion(f"to convert, write `cast {name} …`", (Edit(span, f"cast {name}"),)),)
    if name in LIBRARIES:
        member = re.match(r"\.([A-Za-z_]\w*)", span.file.text[span.end :])
        if member is not None and member[1] in builtins.NAMES:
            whole = Span(span.file, span.start, span.end + member.end())
            return (Suggestion(f"`{member[1]}` is part of the language: write `{member[1]}`", (Edit(whole, member[1]),)),)
        return (Suggestion(PYTHON_LIBRARY),)
    if _begins_a_definition(span):
        return (Suggestion(f"to define it, write `let val {name} = … in … end`"),)
    if name in ("None", "newaxis") and _inside_brackets(span):
        return (Suggestion("a dimension of 1 is that of an index with a bound: `for i, _ < 1 => x[i]`"),)
    if _inside_brackets(span):
        return (Suggestion(f"an index is bound before its use: `for {name} => …`, `sum {name} => …`"),)
    meant = VALUES.get(name) or IN_EXPRESSIONS.get(name)
    return (Suggestion(meant),) if meant else ()
