"""What to say of a name that nothing in scope introduces, when it is known from elsewhere: a reduction, a function of a module
that is not named, or a word of another language."""

from __future__ import annotations

import re

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.source import Span
from axon.explain.errors import of_python
from axon.explain.models import latent_outside, of_model
from axon.explain.names import unknown
from axon.explain.parameter import only_parameter, sizes_as_indexed
from axon.grammar.mistakes import IN_EXPRESSIONS, LIBRARIES, PYTHON_LIBRARY, VALUES
from axon.types import builtins
from axon.types.resolve import ModuleName, Scope
from axon.types.trouble import UnknownValue

_ARGUMENT = re.compile(r"[ ]*(?P<open>\()?[ ]*(?P<name>[A-Za-z_]\w*)[ ]*(?(open)\))")


def unknown_value(wrong: UnknownValue, changes: tuple[Suggestion, ...]) -> Diagnostic:
    """AX0401, with the changes by which the name is one that is known elsewhere."""
    name, span = wrong.name, wrong.span
    if (number := written_number(name, span)) is not None:
        place = Span(span.file, span.end - number[1], span.end)
        return Diagnostic("AX0401", "a number is written with decimal digits alone", (Label(place),), suggestions=changes)
    if (text := comma_behind_a_bound(span)) is not None:
        label = Label(span, "read as part of the bound")
        return Diagnostic("AX0401", f"there is no value `{name}` here", (label,), (), changes or (Suggestion(text),))
    if model := of_model(name, wrong.scope):
        return latent_outside(name, model, span)
    found = unknown("value", name, span, [n for n in wrong.scope.names() if "." not in n])
    meant = _meant(wrong, changes)
    near = () if meant and _is_of_the_language(found.suggestions) else found.suggestions  # `log` for `log2`
    return replace(found, suggestions=(*near, *meant))


def comma_behind_a_bound(span: Span) -> str | None:
    """Of an index in `for i < n j => …`, which has no comma before it: what to write."""
    before, after = span.file.text[max(0, span.start - 120) : span.start], span.file.text[span.end : span.end + 120]
    bound = re.search(r"\bfor\b[^=>()]*<[^=<>,()]*[\w\])](?P<gap>\s+)$", before)
    if bound is None or re.match(r"(\s*,[^=]*|\s+\w+)*\s*=>", after) is None:
        return None
    shown = " ".join(before[bound.start() : bound.start("gap")].split())
    return f"put a comma behind the bound: `{shown}, {span.text} => …`"


def written_number(name: str, span: Span) -> tuple[int, int] | None:
    """The value and length of a number as other languages write it, of which a name is the rest: `0x10`, `1_000`."""
    digits = re.search(r"(?<![\w.])\d+$", span.file.text[max(0, span.start - 40) : span.start])
    whole = digits[0] + name if digits is not None else ""
    if not re.fullmatch(r"\d+(_\d+)+|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+", whole):
        return None
    try:
        return (int(whole, 0) if whole[1] in "xXoObB" else int(whole.replace("_", ""))), len(whole)
    except ValueError:  # as of `0x_`
        return None


def _is_of_the_language(near: tuple[Suggestion, ...]) -> bool:
    return all(edit.text in builtins.NAMES for suggestion in near for edit in suggestion.edits)


def _like_a_size(name: str, span: Span) -> bool:
    """Whether a name stands where a size would: after `<`, a cast or a division."""
    before = span.file.text[: span.start].rstrip("( \n")
    return (
        not span.followed("[")
        and len(name) == 1
        and name.isalpha()
        and re.search(r"(<|[*/%]|\bcast\s+['\w]+)$", before) is not None
    )


def _begins_a_definition(span: Span) -> bool:
    """Whether a name stands before `=` where a line begins, as statements do elsewhere."""
    before, after = span.file.text[: span.start], span.file.text[span.end :]
    return re.search(r"=\s*\n[ \t]*$|\bin\s*$", before[-200:]) is not None and re.match(r"[ \t]*=(?!>)", after[:80]) is not None


def _inside_brackets(span: Span) -> bool:
    """Whether a name is a whole subscript."""
    before, after = span.file.text[: span.start].rstrip(), span.file.text[span.end :].lstrip()
    opened = max("([{", key=before.rfind)  # the last bracket before it
    return opened == "[" and before.endswith(("[", ",")) and after.startswith(("]", ","))


def holders(name: str, scope: Scope) -> list[str]:
    """The names of the imported modules that have a value of a name."""
    return [n for n in scope.names() if isinstance(e := scope.value(n), ModuleName) and name in e.module.values]


def _meant(wrong: UnknownValue, changes: tuple[Suggestion, ...]) -> tuple[Suggestion, ...]:
    """What may be meant by a name: changes of the program, or else words."""
    name, span = wrong.name, wrong.span
    if name in builtins.REDUCTIONS:  # the language's own way comes first
        written = f"reductions are written over indices: `{name} i => x[i]`, or `{name} i j => x[i, j]`"
        return (Suggestion(written), *changes)
    if changes:
        return changes
    if name in LIBRARIES:
        return (Suggestion(PYTHON_LIBRARY),)
    if _begins_a_definition(span):
        return (Suggestion(f"to define it, write `let val {name} = … in … end`"),)
    if name in ("None", "newaxis") and _inside_brackets(span):
        return (Suggestion("a dimension of 1 is that of an index with a bound: `for i, _ < 1 => x[i]`"),)
    if _inside_brackets(span):
        return (Suggestion(f"an index is bound before its use: `for {name} => …`, `sum {name} => …`"),)
    if _like_a_size(name, span):
        places = only_parameter(span)
        of, sizes = (places[0].text, sizes_as_indexed(places[0], name)) if places else ("y" if name == "x" else "x", name)
        return (Suggestion(f"a dimension is a value where an annotation names it: `({of} : f32[{sizes}])`", annotates=places),)
    argument = _ARGUMENT.match(span.file.text[span.end : span.end + 80])
    return of_python(VALUES.get(name) or IN_EXPRESSIONS.get(name), argument["name"] if argument else "x", span)
