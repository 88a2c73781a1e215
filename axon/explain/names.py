"""What is said of names that nothing introduces: of values see `unknown`."""

from __future__ import annotations

from collections.abc import Iterable

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.element import Element
from axon.base.nearest import meant
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.types.resolve import Module, ValueName
from axon.types.trouble import AliasArguments, RunAsValue, UnknownElement, UnknownName
from axon.types.type import Function, RecordType

FOREIGN = {  # what other languages and libraries call element types
    "float": "f32", "float32": "f32", "float64": "f64", "double": "f64", "float16": "f16", "half": "f16", "bfloat16": "bf16",
    "int": "i32", "int32": "i32", "int64": "i64", "long": "i64", "int16": "i16", "short": "i16", "int8": "i8",
    "uint": "u32", "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "byte": "u8", "boolean": "bool",
}  # fmt: skip


def unknown_name(wrong: UnknownName) -> Diagnostic:
    name, span = wrong.name, wrong.span
    if wrong.what == "type" and name in FOREIGN:
        return Diagnostic("AX0407", f"there is no type `{name}` here", (Label(span, "not a type of Axon"),))
    found = unknown(wrong.what, name, span, wrong.known, "AX0407" if "type" in wrong.what else "AX0401")
    if wrong.what == "dimension" and wrong.heading is not None and not found.suggestions:  # the call may be meant to give it
        text = f"name it in the type of a parameter, or let the call give it: `fun {wrong.heading.name.text} {{{name}}} …`"
        return replace(found, suggestions=(Suggestion(text),))
    return found


def run_as_value(wrong: RunAsValue) -> Diagnostic:
    note = f"`..{wrong.name}` is a run of indices; it stands in accesses alone"
    return unknown("value", wrong.name, wrong.span, wrong.known, note=note)


def alias_arguments(wrong: AliasArguments) -> Diagnostic:
    takes = f"takes {'at least ' * wrong.more}{wrong.least} argument{'s' * (wrong.least != 1)}"
    helps: tuple[Suggestion, ...] = ()
    if wrong.given == wrong.least + 1 and not wrong.more:  # a stack of layers, for the type of one
        shape = f"for many of them, let it take a shape: `type {wrong.name}[..s, …]`, with `..s` before the sizes of each field"
        helps = (Suggestion(shape),)
    return Diagnostic("AX0214", f"`{wrong.name}` {takes}, not {wrong.given}", (Label(wrong.span, "here"),), (), helps)


def unknown_element(wrong: UnknownElement) -> Diagnostic:
    """Of a `cast`."""
    name = wrong.cast.element.text
    known = () if name.startswith("'") else [e.value for e in Element]
    return unknown("element type", name, wrong.cast.element.span, known, "AX0407")


def unknown(what: str, name: str, span: Span, known: Iterable[str], code: str = "AX0401", note: str = "") -> Diagnostic:
    """`what` is in words: "value", "type", "shape variable"."""
    help_ = meant(name, known, span)
    return Diagnostic(code, f"there is no {what} `{name}` here", (Label(span, "not defined"),), (note,) if note else (), help_)


def unknown_member(module: Module, name: S.Name) -> Diagnostic:
    help_ = meant(name.text, module.values, name.span)
    has = ", ".join(f"`{n}`" for n in sorted(module.values)[:12])
    more = ", …" if len(module.values) > 12 else ""
    notes = (f"it has {has}{more}",) if has and not help_ else ()
    if name.text in module.aliases:
        message = f"`{module.name}.{name.text}` is a type, not a value"
        help_ = _taking(module, name.text)
        return Diagnostic("AX0405", message, (Label(name.span, "used as a value"),), (), help_)
    message = f"the module `{module.name}` has no `{name.text}`"
    return Diagnostic("AX0405", message, (Label(name.span, "not defined there"),), notes, help_)


def _taking(module: Module, type_: str) -> tuple[Suggestion, ...]:
    """The functions of a module whose first parameter is a record with the fields of a type."""
    written: S.Type = module.aliases[type_].decl.type
    for _ in module.aliases:  # `linear` is `linear_of[f32, …]`
        alias = module.aliases.get(written.name[0].text) if isinstance(written, S.TypeName) and len(written.name) == 1 else None
        written = alias.decl.type if alias is not None else written
    names = {name.text for name, _ in written.fields} if isinstance(written, S.TypeRecord) else set()
    taking = []
    for name, entity in module.values.items():
        t = entity.scheme.type if isinstance(entity, ValueName) else None
        if isinstance(t, Function) and isinstance(t.param, RecordType) and {n for n, _ in t.param.fields} == names:
            taking.append(f"`{module.name}.{name}`")
    return (Suggestion(f"what takes a record of this type: {', '.join(taking)}"),) if taking else ()


def missing_import(name: str, span: Span) -> Diagnostic:
    """A module is named that could be imported; see `once_per_name`."""
    return Diagnostic("AX0401", f"`{name}` is a module that is not imported", (Label(span, "not defined here"),))
