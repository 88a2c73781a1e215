"""What a phase of the compiler makes of a declaration, as text: what `axon emit`, `axon explain` and the prompt print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from axon import compiler
from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.errors import AxonError
from axon.base.nearest import meant

if TYPE_CHECKING:
    from axon.base.source import SourceFile, Span
    from axon.checker.module import CheckedModule
    from axon.core import ir as core
    from axon.grammar import syntax
    from axon.host.call import Callee, Session

STAGES = ("ast", "types", "core", *compiler.KERNEL_STAGES)


def require_stage(stage: str) -> None:
    """Raises AxonError for a stage that does not exist."""
    if stage not in STAGES:
        note = f"the stages are {', '.join(STAGES)}"
        raise AxonError((Diagnostic("AX0602", f"there is no stage `{stage}`", notes=(note,), suggestions=meant(stage, STAGES)),))


def require_name(checked: CheckedModule, place: str | None, name: str) -> None:
    """Raises AxonError unless a module, which messages call `place`, declares a name; without a place it is that of a prompt."""
    if name not in checked.signatures:
        if (model := checked.model(name)) is not None:
            has = "it has " + ", ".join(f"`{name}.{function}`" for function in model.functions)
            raise AxonError((Diagnostic("AX0507", f"`{name}` is a model: name one of its functions", notes=(has,)),))
        known = ", ".join(f"`{n}`" for n in checked.signatures)
        if place is None:
            message, note = f"nothing declares `{name}`", f"declared are {known}" if known else "nothing is declared yet"
        else:
            message, note = f"`{place}` declares no `{name}`", f"it has {known or 'no declarations'}"
        raise AxonError((Diagnostic("AX0507", message, notes=(note,), suggestions=meant(name, checked.signatures)),))


def types_in(source: SourceFile) -> dict[str, str]:
    """The declarations of types in a file, by their names, as they are written."""
    from axon.grammar.syntax import TypeDecl

    return {d.name.text: d.span.text.rstrip() for d in compiler.parse(source)[0].decls if isinstance(d, TypeDecl)}


def the_function(session: Session, place: str, name: str | None) -> Callee:
    """The declaration of a name; without one, the only function of the module."""
    if name is not None:
        require_name(session.checked, place, name)
        return session.callee(name)
    functions = [callee for callee in map(session.callee, session.checked.signatures) if callee.is_function]
    if len(functions) != 1:
        note = "it has " + (", ".join(f"`{f.name}`" for f in functions) or "no functions")
        help = (Suggestion(f"write `{place}:{functions[0].name}`"),) if functions else ()
        raise AxonError((Diagnostic("AX0507", f"`{place}` does not have exactly one function", notes=(note,), suggestions=help),))
    return functions[0]


# ── stages ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def syntax_of(source: SourceFile, name: str | None) -> str:
    """The syntax trees of a file's declarations, or of one."""
    from axon.grammar.dump import outline

    program, diagnostics = compiler.parse(source)
    if any(d.severity == "error" for d in diagnostics):
        raise AxonError(diagnostics)
    return "\n".join(outline(decl) for decl in program.decls if name is None or name in declared(decl))


def made_of(checked: CheckedModule, name: str) -> str:
    """A function of a model, by its name, as it was made: no text that could be read again, but Axon's to the eye."""
    from axon.chance.desugar import desugared
    from axon.grammar import syntax
    from axon.grammar.format import print_declaration
    from axon.types.names import distribution, named_model
    from axon.types.resolve import ModelName, ModuleName, Scope

    assert checked.exports is not None
    modules = {n: ModuleName(m.exports) for n, m in checked.imports.items() if m.exports is not None}
    scope = Scope(values={**checked.exports.values, **modules})
    model = name.partition(".")[0]
    for decl in compiler.parse(checked.source)[0].decls:
        if isinstance(decl, syntax.Fun) and decl.name.text == model:
            known = scope.value(model)
            discrete = frozenset(known.model.summed) if isinstance(known, ModelName) else frozenset[str]()
            made = desugared(decl, lambda e: named_model(scope, e), lambda e: distribution(scope, e), discrete)
            return "\n".join(print_declaration(fun) for fun in made.functions if fun.name.text == name)
    raise AssertionError(name)


def types_of(checked: CheckedModule, name: str | None, place: Callable[[Span], Span] = lambda span: span) -> str:
    """Signatures, and below each the types of the names inside, with their lines: of where `place` says that they are."""
    return "\n".join(_types(checked, name, place))


def _types(checked: CheckedModule, only: str | None, place: Callable[[Span], Span]) -> Iterator[str]:
    for decl in compiler.parse(checked.source)[0].decls:
        names = [name for name in declared(decl) if name in checked.signatures]
        if not names or (only is not None and only not in names):
            continue
        for name in names:
            yield f"sig {name} : {checked.signatures[name]}"
        for name, span, text in checked.inner(names, decl.span):
            there = place(span)
            yield f"  {there.file.position(there.start)[0]}: {name} : {text}"


def passes_of(session: Session, callee: Callee, arguments: Sequence[str]) -> str:
    """The passes of every target, and what each makes of a function, for the arguments given, else for general ones."""
    return compiler.passes(_lowered(session, callee, arguments))


def stage_of(session: Session, callee: Callee, stage: str, arguments: Sequence[str]) -> str:
    """A stage from `core` on, for the arguments given, else for general ones (of kernels, at typical sizes)."""
    if stage != "core":
        schedule = None if stage in compiler.HOST_STAGES else session.schedule(callee)
        return of_kernels(session, callee, arguments, partial(compiler.emit, stage=stage, schedule=schedule, name=session.chip))
    from axon.core.printer import print_program

    return print_program(_lowered(session, callee, arguments)).rstrip()


def _lowered(session: Session, callee: Callee, arguments: Sequence[str]) -> core.Program:
    from axon.host.command_arguments import parse_arguments

    given = parse_arguments(list(arguments), seed=None)
    return session.program(callee, (), given) if given else compiler.lower(session.checked, callee.name, None)


def of_kernels(
    session: Session,
    callee: Callee,
    arguments: Sequence[str],
    phase: Callable[..., str],
) -> str:
    """What a phase says of a function's kernels, for the arguments given, else for general ones at typical sizes."""
    from axon.host.command_arguments import parse_arguments

    given = parse_arguments(list(arguments), seed=None)
    sizes = [given.pop(size) for size in callee.dimensions if size in given]
    if given or sizes:
        program, at = session.example(callee, sizes, given)
        return phase(program, sizes=at).rstrip()
    try:
        return phase(compiler.lower(session.checked, callee.name, None), sizes=None).rstrip()
    except AxonError as error:
        general = callee.scheme.elements or callee.scheme.rows
        if not general or {d.code for d in error.diagnostics} != {"AX0603"}:
            raise
        note = "without arguments, element types are `f32` where any would do, and tensors have no further dimensions"
        help = Suggestion(f"give arguments, as in `{callee.parameters[0].name}=randn(bf16[4096, 4096])`")
        notes = (note, callee.signature)
        asking = [replace(d, notes=(*d.notes, *notes), suggestions=(*d.suggestions, help)) for d in error.diagnostics]
        raise AxonError(tuple(asking)) from None


def code_page(text: str) -> str:
    """The long text of an error code, in Markdown. Raises AxonError for a code that does not exist."""
    from axon.base.codes import CODES, page

    code = text.upper()
    found = page(code) if code in CODES else None
    if found is None:
        raise AxonError((Diagnostic("AX0409", f"there is no code `{text}`", suggestions=meant(code, CODES)),))
    return found


def declared(decl: syntax.Decl) -> list[str]:
    """The names that a declaration introduces."""
    from axon.grammar import syntax

    def names(pattern: syntax.Pattern) -> list[str]:
        match pattern:
            case syntax.PatternName(name=name):
                return [name]
            case syntax.PatternTyped(pattern=inner):
                return names(inner)
            case syntax.PatternTuple(items=items):
                return [name for item in items for name in names(item)]
            case syntax.PatternRecord(fields=fields):
                return [name for _, item in fields for name in names(item)]

    return names(decl.pattern) if isinstance(decl, syntax.Val | syntax.Draw) else [decl.name.text]
