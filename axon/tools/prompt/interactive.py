"""A module that grows while someone works on it: what the prompt and notebooks stand on.

It holds declarations, which together are one module that is always checked, and data: values bound to names, which expressions use
and declarations cannot. A new declaration of a name replaces the old one, also for those that use it; they are checked again, and
those that no longer fit are reported and wait, unusable, until they fit again. What is refused leaves everything as it was, and so
does an interruption.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from axon import compiler
from axon.base.data import dataclass, field, replace
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.errors import AxonError
from axon.base.nearest import one_slip
from axon.base.source import SourceFile, Span
from axon.checker.loader import FileLoader
from axon.grammar import syntax as S
from axon.grammar.extent import DECLARATIONS
from axon.grammar.mistakes import DECLARING
from axon.host.call import Callee, Session
from axon.tools.commands.listing import declared, types_of
from axon.tools.prompt.assembly import Assembly
from axon.tools.prompt.units import Unit, is_from, lines_of, merged, names_in, units_of
from axon.types.resolve import OF_NAMES

if TYPE_CHECKING:
    from axon.base.names import Symbol
    from axon.checker.module import CheckedModule
    from axon.core import ir as core
    from axon.tools.prompt.computing import Computing

MODULE = "prompt"  # the module's file, which is in no directory: no module can be called so
LAST = "it"  # the last value


@dataclass(frozen=True, slots=True)
class Defined:
    """What became of declarations: a line for each, warnings, and what is wrong now with older declarations that use them."""

    lines: tuple[str, ...]
    warnings: tuple[Diagnostic, ...] = ()
    broken: tuple[Diagnostic, ...] = ()
    forgotten: tuple[str, ...] = ()  # names that went with a declaration of several, one of which was replaced
    waiting: tuple[str, ...] = ()  # names that were declared, and cannot be used until something that they use fits again

    @property
    def notes(self) -> tuple[str, ...]:
        """What else there is to say, in sentences."""
        gone = (f"`{n}` is gone: it was declared together with a name that has a new declaration" for n in self.forgotten)
        waits = (f"`{n}` waits: it cannot be used until what it uses fits again" for n in self.waiting)
        return (*gone, *waits)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An expression's value with its type; a function has no value to show."""

    value: Any
    type: str
    is_value: bool = True
    warnings: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class _State:
    units: tuple[Unit, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()  # that were loaded
    directory: str = ""  # where modules are sought that are imported


class InteractiveSession(Session):
    """A session over an interactive module, whose errors point to what was typed; it computes in a process, if there is one."""

    def __init__(self, checked: CheckedModule, assembly: Assembly, process: Computing | None = None) -> None:
        super().__init__(checked)
        self.assembly = assembly
        self.process = process
        self.on_the_way = 0.0  # seconds of the last call in which nothing was computed, but sent

    def call(self, *args: Any, **kwargs: Any) -> Any:
        with self.assembly.moving():
            return super().call(*args, **kwargs)

    def program(self, callee: Callee, args: Sequence[Any], kwargs: Mapping[str, Any]) -> core.Program:
        with self.assembly.moving():
            return super().program(callee, args, kwargs)

    def example(self, callee: Callee, sizes: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[core.Program, dict[Symbol, int]]:
        with self.assembly.moving():
            return super().example(callee, sizes, kwargs)

    def _compute(
        self, callee: Callee, program: core.Program, inputs: list[Any], explicit: list[int], target: str | None
    ) -> list[Any]:
        if self.process is None or target not in (None, "cpu"):
            return super()._compute(callee, program, inputs, explicit, target)
        began = perf_counter()
        results = self.process.run(program, inputs, explicit, compiled=target == "cpu")
        self.on_the_way = perf_counter() - began - self.process.seconds
        return results


class Interactive:
    """See the module's docstring. Texts are SourceFiles: their paths are what messages call them."""

    def __init__(self, process: Computing | None = None) -> None:
        """`process` computes, if there is one; else everything is computed here."""
        self._process = process
        self._files = FileLoader()
        self._now: tuple[_State, InteractiveSession] | None = None  # together, so that an interruption cannot come between them
        self._now = (_State(), self._checked(_assemble(_State()), _State()))

    # ── what there is ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def session(self) -> InteractiveSession:
        """The callable declarations."""
        assert self._now is not None
        return self._now[1]

    @property
    def _state(self) -> _State:
        assert self._now is not None
        return self._now[0]

    @property
    def signatures(self) -> Mapping[str, str]:
        """What `axon sig` prints, of every declaration that can be used."""
        return self.session.checked.signatures

    @property
    def types(self) -> Mapping[str, str]:
        """The declarations of types, laid out in the standard way."""
        from axon.grammar.format import print_declaration

        return {u.decl.name.text: print_declaration(u.decl) for u in self._state.units if isinstance(u.decl, S.TypeDecl)}

    @property
    def size(self) -> int:
        """How many declarations there are: also types, imports, and those that wait until they fit again."""
        return sum(unit.decl is not None for unit in self._state.units)

    @property
    def data(self) -> Mapping[str, Any]:
        return self._state.data

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were loaded."""
        return self._state.files

    @property
    def modules(self) -> Mapping[str, CheckedModule]:
        return self.session.checked.imports

    @property
    def text(self) -> str:
        """The declarations as a program, in an order in which each stands after what it uses."""
        out = ""
        before: Unit | None = None
        for unit in self._state.units:
            goes_on = before is not None and before.decl is None and before.names == unit.names  # a `sig` and its declaration
            text = "\n".join(p.text.strip("\n") for p in unit.pieces)
            out += ("" if before is None else "\n" if goes_on and not text.startswith("(*") else "\n\n") + text
            before = unit
        return f"{out}\n"

    def footprint(self, name: str) -> frozenset[str]:
        """The texts of a declaration and of all that it uses, directly or not: while these stay, so does what it means."""
        by_name: dict[str, list[Unit]] = {}
        for unit in self._state.units:
            for known in unit.names:
                by_name.setdefault(known.removeprefix("type "), []).append(unit)
        found: set[str] = set()
        work, seen = [name], {name}
        while work:
            for unit in by_name.get(work.pop(), ()):
                found |= {piece.text for piece in unit.pieces}
                work += unit.uses - seen
                seen |= unit.uses
        return frozenset(found)

    def snapshot(self) -> Interactive:
        """a module like this one, which goes its own way from here."""
        other = object.__new__(Interactive)
        other._files, other._now, other._process = self._files, self._now, self._process
        return other

    # ── entering ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def enter(self, source: SourceFile) -> Defined | Evaluated:
        """Define what is declared, evaluate what is not. Raises AxonError, and then has changed nothing."""
        if compiler.entry(source).kind == "expression":
            return self.evaluate(source)
        return self.define(source)

    def define(self, source: SourceFile) -> Defined:
        """Add declarations, or replace those of the same names. Raises AxonError, and then has changed nothing."""
        units = units_of(source)
        if len(units) == 1 and isinstance(units[0].decl, S.Val) and units[0].uses & self._state.data.keys():
            return self._define_data(source, units[0].decl)
        return self._replace(self._state, units, source)

    def load(self, path: str) -> Defined:
        """Add a file's declarations; it imports from beside itself. Raises AxonError, and then has changed nothing."""
        source = _read(path)
        state = replace(
            self._state,
            units=tuple(u for u in self._state.units if not is_from(u, path)),
            files=(*(f for f in self._state.files if f != path), path),
            directory=os.path.dirname(path),
        )
        return self._replace(state, units_of(source), source)

    def reload(self) -> Defined:
        """Load again what was loaded: all of it, or, if something is wrong, nothing."""
        before, unfit = self._now, self._unfit()
        parts = []
        try:
            for path in self._state.files:
                parts.append(self.load(path))
        except BaseException:
            self._now = before
            raise
        return Defined(
            tuple(line for p in parts for line in p.lines),
            tuple(w for p in parts for w in p.warnings),
            tuple(d for d in self._unfit() if d not in unfit),
            parts[-1].forgotten if parts else (),
            tuple(name for p in parts for name in p.waiting if not self._is_usable(name)),
        )

    def _is_usable(self, name: str) -> bool:
        return name in self.signatures or self.session.checked.model(name) is not None

    def bind(self, name: str, value: Any) -> str:
        """Bind data to a name for expressions to use; its type. Raises AxonError for what is no value of Axon's."""
        from axon.host.show_value import type_of

        tree, _ = compiler.parse_expression(SourceFile("<name>", name))
        if not isinstance(tree, S.Var):
            raise AxonError((Diagnostic("AX0406", f"`{name}` is not a name"),))
        if name in self.signatures:
            note = "data and declarations share one name space; choose another name"
            raise AxonError((Diagnostic("AX0404", f"`{name}` is declared already", notes=(note,)),))
        value = _as_value(name, value)
        self._keep(name, value)
        return type_of(value)

    def arguments(self, words: list[str]) -> dict[str, Any]:
        """Values by name, as `axon run` takes them. Raises AxonError."""
        if self._process is not None:
            return self._process.arguments(words)
        from axon.host.command_arguments import parse_arguments

        return parse_arguments(words, seed=0)

    # ── expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def evaluate(self, source: SourceFile, target: str | None = None) -> Evaluated:
        """The value of an expression, which is `it` from now on. Raises AxonError."""
        made = self.expression(source)
        if not made.is_value:
            return Evaluated(None, made.type, False, made.warnings)
        value = made.run(target)
        if LAST not in self.signatures:
            self._keep(LAST, value)
        return Evaluated(value, made.type, True, made.warnings)

    def expression(self, source: SourceFile, start: int = 0) -> Expression:
        """An expression that has been checked, but not evaluated: the text from an offset on. Raises AxonError."""
        tree, found = compiler.parse_expression(SourceFile(source.path, " " * start + source.text[start:]))
        problems = [_in_file(d, source) for d in found]
        if tree is None or any(d.severity == "error" for d in problems):
            raise AxonError(_meant(source) or tuple(d for d in problems if d.severity == "error"))
        if isinstance(tree, S.Var) and tree.name in self.signatures and tree.name not in self._state.data:
            callee = self.session.callee(tree.name)
            return Expression(self.session, callee, (), self.signatures[tree.name], not callee.is_function, tuple(problems))
        return self._expression(tree, (source.span(start),))

    def _expression(self, tree: S.Expr, parts: tuple[Span, ...]) -> Expression:
        """An expression from its tree and its text, perhaps with the text of its type."""
        source = parts[0].file
        used = names_in(tree)
        data = {name: value for name, value in self._state.data.items() if name in used}
        name = LAST
        while name in self.signatures or name in used:
            name += "_"
        assembly = _assemble(self._state)
        assembly.glue(_wrapper(name, data) + "(")
        for i, part in enumerate(parts):
            assembly.glue("\n) : (" if i else "")
            assembly.add(part)
        assembly.glue("\n))\n")
        session = self._checked(assembly, self._state)
        checked = session.checked
        found = [assembly.moved(d) for d in checked.diagnostics]
        mine = [d for d in found if d.span is not None and d.span.file is source]
        errors = [d for d in mine if d.severity == "error"]
        if errors or name not in checked.signatures:
            unknown = [d.span.start for d in errors if d.code == "AX0401" and d.span is not None]
            if not errors:  # it uses what waits
                note = "what is declared here cannot be used until it fits again"
                unfit = [replace(d, notes=(*d.notes, note)) for d in self._unfit(used)]
                errors = unfit or [d for d in found if d.severity == "error"]
            raise AxonError(_meant(source, unknown) or tuple(_hinted(d, tree) for d in errors))
        callee = session.callee(name)
        type, is_value = _result(checked, name, len(callee.parameters), len(data) or 1)
        arguments = tuple(data.values()) if data else ((),)
        return Expression(session, callee, arguments, type, is_value, tuple(d for d in mine if d.severity == "warning"))

    def _define_data(self, source: SourceFile, decl: S.Val) -> Defined:
        """`val y = softmax x`, where x is data, makes y data."""
        pattern = decl.pattern.pattern if isinstance(decl.pattern, S.PatternTyped) else decl.pattern
        if not isinstance(pattern, S.PatternName):
            message = "a `val` that uses data binds one name"
            raise AxonError((Diagnostic("AX0406", message, (Label(decl.pattern.span),)),))
        text = Span(source, decl.value.span.start, decl.span.end)
        parts = (text, decl.pattern.type.span) if isinstance(decl.pattern, S.PatternTyped) else (text,)
        made = self._expression(decl.value, parts)
        if not made.is_value:
            message = "a function that uses data cannot be kept: let it take them as arguments"
            raise AxonError((Diagnostic("AX0406", message, (Label(text),)),))
        type = self.bind(pattern.name, made.run())
        return Defined((f"{pattern.name} : {type}",), made.warnings)

    def mentioned(self, source: SourceFile) -> frozenset[str]:
        """The names in an expression; of one with syntax errors, none."""
        tree, _ = compiler.parse_expression(source)
        return frozenset() if tree is None else frozenset(names_in(tree))

    def describe(self, source: SourceFile) -> str:
        """What `enter` would say of a text, as far as that can be told without running anything. Raises AxonError."""
        if compiler.entry(source).kind == "expression":
            return self.expression(source).type
        other = self.snapshot()
        units = units_of(source)
        decl = units[0].decl if len(units) == 1 else None
        if isinstance(decl, S.Val) and units[0].uses & self._state.data.keys():
            made = other._expression(decl.value, (Span(source, decl.value.span.start, decl.span.end),))
            return f"{', '.join(declared(decl))} : {made.type}"
        return "\n".join(other._replace(self._state, units, source).lines)

    # ── the module ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _replace(self, state: _State, new: tuple[Unit, ...], source: SourceFile) -> Defined:
        units, forgotten = merged(state.units, new)
        data = {name: value for name, value in state.data.items() if not any(name in u.names for u in new)}
        state = replace(state, units=units, data=data)
        session = self._checked(_assemble(state), state)
        checked, assembly = session.checked, session.assembly
        found = [assembly.moved(d) for d in checked.diagnostics]
        touched = {n for u in new for n in u.names}  # a `sig` also touches the declaration that stands already
        places = [p for u in units if touched & set(u.names) for p in u.pieces]
        mine = [m for d in found if (m := _among(d, places)) is not None]
        errors = [d for d in mine if d.severity == "error"]
        if errors:
            raise AxonError(tuple(self._data_noted(d) for d in errors))
        known = self._unfit()
        declared = [n for u in new if isinstance(u.decl, S.Fun | S.Val) for n in u.names if "." not in n]
        waiting = tuple(n for n in declared if n not in checked.signatures and checked.model(n) is None)
        self._now = (state, session)
        unfit = tuple(d for d in self._unfit() if d not in known)
        lines = tuple(line for unit in new for line in lines_of(unit, checked))
        return Defined(lines, tuple(d for d in mine if d.severity == "warning"), unfit, forgotten, waiting)

    def _unfit(self, used: Iterable[str] | None = None) -> list[Diagnostic]:
        """Why declarations wait, or those among them that these names use: of each declaration the first error, since the others
        may have the same cause."""
        assembly = self.session.assembly
        errors = [assembly.moved(d) for d in self.session.checked.diagnostics if d.severity == "error"]
        if not errors:
            return []
        texts = None if used is None else frozenset().union(*(self.footprint(name) for name in used))
        found: dict[object, Diagnostic] = {}
        for error in errors:
            unit = next((u for u in self._state.units if _among(error, u.pieces) is error), None)
            if texts is None or (unit is not None and any(p.text in texts for p in unit.pieces)):
                found.setdefault(error if unit is None else unit.names, error)
        return list(found.values())

    def _checked(self, assembly: Assembly, state: _State) -> InteractiveSession:
        """A module checked, and of what it imports only what has changed since the last time."""
        loader = _Loader(self._files, assembly.source, _directories(state))
        known = _unchanged(loader, self.modules) if self._now is not None else {}
        return InteractiveSession(compiler.check(loader, assembly.path, known), assembly, self._process)

    def _keep(self, name: str, value: Any) -> None:
        self._now = (replace(self._state, data={**self._state.data, name: value}), self.session)

    def _data_noted(self, diagnostic: Diagnostic) -> Diagnostic:
        span = diagnostic.span
        if diagnostic.code != "AX0401" or span is None or span.text not in self._state.data:
            return diagnostic
        note = f"`{span.text}` is data: expressions may use it, and functions take it as an argument"
        return replace(diagnostic, notes=(*diagnostic.notes, note), suggestions=())

    def shapes(self, name: str) -> str:
        """The types of the names inside a declaration, with their lines."""
        return types_of(self.session.checked, name, self.session.assembly.back)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that has been checked; `type` is its inferred type, with its contract."""

    session: InteractiveSession
    callee: Callee
    arguments: tuple[Any, ...]
    type: str
    is_value: bool
    warnings: tuple[Diagnostic, ...]

    def run(self, target: str | None = None) -> Any:
        """Its value: arrays, also for scalars, in tuples and dicts. Raises AxonError."""
        try:
            return self.session.call(self.callee, (), self.arguments if self.callee.parameters else (), {}, target, numbers=False)
        except AxonError as error:  # the function around the expression is not the user's
            where = f", in a call of `{self.callee.name}`"
            cleaned = (replace(d, message=d.message.removesuffix(where)) for d in error.diagnostics)
            raise type(error)(tuple(cleaned)) from None

    def timed(self) -> float:
        """The seconds that `run` takes."""
        began = perf_counter()
        self.run()
        return perf_counter() - began - self.session.on_the_way


@dataclass(frozen=True, slots=True)
class _Loader:
    """Files, and one text that is none. What a loaded file imports is sought beside that file."""

    files: FileLoader
    source: SourceFile
    directories: Mapping[str, str]  # in which the text's modules are sought, if not beside it

    def read(self, path: str) -> SourceFile | Diagnostic:
        return self.source if path == self.source.path else self.files.read(path)

    def find(self, name: S.Name) -> SourceFile | Diagnostic:
        directory = self.directories.get(name.text) if name.span.file is self.source else None
        if directory is None:
            return self.files.find(name)
        beside = SourceFile(os.path.join(directory, MODULE), "")
        found = self.files.find(S.Name(name.text, beside.span(0, 0)))
        if isinstance(found, SourceFile):
            return found
        return replace(found, labels=tuple(replace(x, span=name.span if x.span.file is beside else x.span) for x in found.labels))


def _directories(state: _State) -> dict[str, str]:
    """Where the modules are sought that loaded files import."""
    imports = ((u.decl.name.text, u.pieces[-1].file.path) for u in state.units if isinstance(u.decl, S.Import))
    return {name: os.path.dirname(path) for name, path in imports if path in state.files}


def _unchanged(loader: _Loader, modules: Mapping[str, CheckedModule]) -> dict[SourceFile, CheckedModule]:
    """Of the modules that a text imported when it was last checked, and of those that they import, the ones that it would find
    again just as they were, their imports included."""
    found: dict[SourceFile, CheckedModule] = {}
    same: dict[SourceFile, bool] = {}

    def visit(importer: SourceFile, name: str, module: CheckedModule) -> bool:
        if loader.find(S.Name(name, importer.span(0, 0))) is not module.source:
            return False
        if module.source not in same:
            inner = [visit(module.source, imported, its) for imported, its in module.imports.items()]
            same[module.source] = module.ok and all(inner)
            if same[module.source]:
                found[module.source] = module
        return same[module.source]

    for name, module in modules.items():
        visit(loader.source, name, module)
    return found


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _assemble(state: _State) -> Assembly:
    assembly = Assembly(os.path.join(state.directory, MODULE))
    defined = {n for u in state.units if u.decl is not None for n in u.names}
    for unit in state.units:
        if unit.decl is None and not set(unit.names) & defined:
            continue  # a `sig` that waits
        for piece in unit.pieces:
            assembly.add(piece)
            assembly.glue("\n")
    return assembly


def _read(path: str) -> SourceFile:
    source = FileLoader().read(path)
    if isinstance(source, Diagnostic):
        raise AxonError((source,))
    return source


# ── expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _wrapper(name: str, data: Mapping[str, Any]) -> str:
    from axon.host.show_value import type_of

    parameters = " ".join(f"({n} : {type_of(value)})" for n, value in data.items()) or "()"
    return f"fun {name} {parameters} = (\n"


def _result(checked: CheckedModule, name: str, found: int, given: int) -> tuple[str, bool]:
    """The type of an expression, and whether it is a value and not a function: of the function around it, what is left after
    `given` of its parameters."""
    from axon.types.show import signature
    from axon.types.type import Function

    scheme = checked.schemes[name]
    type = scheme.type
    for _ in range(given):
        assert isinstance(type, Function)
        type = checked.state.prune(type.result)
    return signature(checked.state, replace(scheme, type=type)), found == given and not scheme.explicit


def _as_value(name: str, value: Any) -> Any:
    """Arrays, in tuples and dicts, as a call would take them."""
    from axon.host.values import Matcher, Wanted
    from axon.types.type import POISON, Scheme

    try:
        (matched,) = Matcher(name, Scheme(POISON)).match([Wanted(name, POISON)], [value])
    except AxonError as error:  # nothing was called
        raise AxonError(
            tuple(replace(d, message=d.message.removesuffix(f", in a call of `{name}`")) for d in error.diagnostics)
        ) from None
    return matched


def _meant(source: SourceFile, unknown: Sequence[int] | None = None) -> tuple[Diagnostic, ...]:
    """Of `fum f x = x` and `def f x = x` what is wrong with the declaration that somebody meant; nothing if it seems none.
    `unknown` are the places of unknown names, if it parses as an expression."""
    words = re.match(r"\s*([A-Za-z_]\w*)\s+([A-Za-z_]\w*).*[=:]", source.text, re.DOTALL)
    if words is None or words[1] == "fn" or words[2] in DECLARATIONS:
        return ()
    if unknown is not None and unknown[:1] not in ([words.start(1)], [words.start(2)]):  # nor is the name new that it would declare
        return ()
    if words[1] not in DECLARING and one_slip(words[1], sorted(DECLARATIONS)) is None:
        return ()
    return tuple(d for d in compiler.parse(source)[1] if d.severity == "error")[:1]


def _hinted(diagnostic: Diagnostic, tree: S.Expr) -> Diagnostic:
    """Who writes `x = 5` in a prompt means to define x, and `it` the last value."""
    if diagnostic.code == "AX0401" and diagnostic.span is not None and diagnostic.span.text == LAST:
        return replace(diagnostic, notes=(*diagnostic.notes, f"`{LAST}` is the last value: nothing has been evaluated yet"))
    match tree:
        case S.Binary(op="=", left=S.Var(name=name) as left) if (
            diagnostic.code == "AX0401" and diagnostic.span is not None and diagnostic.span.start == left.span.start
        ):
            help = Suggestion(f"to define it, write `val {name} = …`; `=` compares")
            return replace(diagnostic, suggestions=(help,))
    return diagnostic


def _in_file(diagnostic: Diagnostic, source: SourceFile) -> Diagnostic:
    """A diagnostic of a text with the same places as a file, as one of that file."""
    return diagnostic.moved(lambda span: Span(source, span.start, span.end))


def _among(diagnostic: Diagnostic, pieces: Iterable[Span]) -> Diagnostic | None:
    """A diagnostic that is about one of these texts, led by what lies there; names that nothing introduces are said once, also
    where several texts use them. None if it is about others."""
    labels = diagnostic.labels if diagnostic.code in OF_NAMES else diagnostic.labels[:1]
    here = next((x for x in labels if any(x.span.file is p.file and p.start <= x.span.start <= p.end for p in pieces)), None)
    if here is None or here is labels[0]:
        return None if here is None else diagnostic
    first = replace(here, text=labels[0].text)
    return replace(diagnostic, labels=(first, *(replace(x, text="") for x in labels if x is not here)))
