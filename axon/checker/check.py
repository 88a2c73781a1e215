"""Checking a module: its imports, its declarations in order, its signatures.

    parse -> resolve -> types (stage one) -> shapes (stage two) -> signatures

A module is checked by itself, with what it imports already checked; a declaration with errors is known to be broken, and its uses
say nothing more. Suggestions that change the source are tried on it before they are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.each_once import EachOnce
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.base.source import SourceFile, Span, once
from axon.chance.desugar import function_names
from axon.chance.sites import is_model
from axon.chance.write import USED
from axon.checker import kept
from axon.checker.kept import LIBRARY, imports_the_same, read
from axon.checker.loader import HIDDEN, Loader, is_library, library_modules
from axon.checker.module import CheckedModule
from axon.checker.report import once_per_name, report, words
from axon.checker.unchanged import CheckedDeclaration, Recorder, Unchanged
from axon.grammar import syntax as S
from axon.grammar.lexer import blanked
from axon.grammar.parse import parse
from axon.shapes.algebra.divisibility import is_divisibility
from axon.shapes.solving.settle import simpler
from axon.types import builtins
from axon.types import typed as T
from axon.types.declare import declarations
from axon.types.generate import inference
from axon.types.holes import found
from axon.types.inference import Env, Inference, wrong
from axon.types.resolve import OF_NAMES, BrokenName, BuiltinName, Entity, Module, ModuleName, Scope, ValueName, alias_names
from axon.types.show import signature
from axon.types.trouble import Rule, RuleBroken
from axon.types.type import Scheme
from axon.types.unify import State

if TYPE_CHECKING:
    from axon.explain.origin import Trail
    from axon.suggest.tried import Attempt

_MAX_ERRORS = 200


def check_module(
    loader: Loader, path: str, known: Mapping[SourceFile, CheckedModule] | None = None, tries: bool = True
) -> CheckedModule:
    """Check the module at a path and what it imports, but for `known` modules. Never raises for what is wrong with a program.

    Where nobody `tries` suggestions, which can take longer than all else, those that must be tried are left out.
    """
    source = loader.read(path)
    if isinstance(source, Diagnostic):
        return _unreadable(path, source)
    session = Session(loader, dict(known or {}))
    checked = session.check(source)
    if not checked.diagnostics:
        return checked
    from axon.grammar.foreign import no_program
    from axon.suggest.tried import TRIED, tried, withheld

    if checked.ok and not any(d.code.startswith(TRIED) for d in checked.diagnostics):  # warnings
        return checked
    if not checked.ok and (problem := no_program(source, checked.diagnostics)) is not None:
        return _unreadable(path, problem)
    if not tries:
        return replace(checked, diagnostics=tuple(map(withheld, checked.diagnostics)))
    known = {s: m for s, m in session.modules.items() if s is not source}
    solve = partial(solutions, source, loader, known, former=checked)
    found = tried(checked.diagnostics, source, lambda changed, fewer: _recheck(changed, fewer, loader, known, checked), solve)
    return replace(checked, diagnostics=found)


def _unreadable(path: str, problem: Diagnostic) -> CheckedModule:
    return CheckedModule(SourceFile(path, ""), (problem,), {}, {}, {}, {}, State(), {})


_whole: dict[tuple[str, bool], CheckedModule] = {}  # what this process had read, as it last checked it; see `checked_whole`


class Session:
    """One check: modules are checked once, and a cycle of imports is seen.

    Note [The library is checked once]
        Modules of the standard library that this process has checked are not checked again while their files, and those of what
        they import, stay as they are. A checked module is not changed by those that import it. Of what is imported, that holds for
        processes too: see `kept`.
    """

    def __init__(
        self, loader: Loader, modules: dict[SourceFile, CheckedModule] | None = None, blanks: Iterable[Span] = (),
        fewer: int | None = None, former: CheckedModule | None = None, reads: bool = True, suggests: bool = True,
    ) -> None:  # fmt: skip
        self.loader = loader
        self.reads = reads  # what was kept of the library; otherwise all of it is checked
        self.blanks = tuple(blanks)  # written sizes that are left open
        self.former = former  # the module with another text, for who counts errors; see Note [Unchanged declarations]
        self.suggests = suggests  # what may mend errors of sizes
        self.fewer = fewer  # whether there are fewer errors is asked, and not why; see Note [Tried changes]
        self.modules = {} if modules is None else dict(modules)
        self.open: list[SourceFile] = []
        self.declared: dict[str, SourceFile] | None = None  # the modules of the standard library, once somebody asks for a value

    def check(self, source: SourceFile) -> CheckedModule:
        if source in self.modules:
            return self.modules[source]
        checked = LIBRARY.get(source.path)
        whole = not self.open or not self.reads  # who asks about a module itself, and does not import it, asks for all of it
        if checked is not None and (checked.source is not source or not imports_the_same(checked, self.loader, self.check)):
            checked = None
        if checked is None or (whole and checked.was_read):
            checked = None if whole or not is_library(source) else self._read(source)
        if checked is None:
            self.open.append(source)
            program, problems = parse(source)
            checked = self._declarations(source, program, problems)
            self.open.pop()
            if checked.ok and is_library(source) and self._plain:
                LIBRARY[source.path] = checked
                if not whole and not checked.diagnostics:
                    kept.keep(checked)
        self.modules[source] = checked
        return checked

    @property
    def _plain(self) -> bool:
        """Whether files are checked as they are, and all of each."""
        return not self.blanks and self.former is None and self.fewer is None

    def _read(self, source: SourceFile) -> CheckedModule | None:
        """A module of the standard library that some process has checked; None if it was not kept."""
        self.open.append(source)
        checked = read(source, partial(self._imported, source), partial(checked_whole, self.loader, source))
        self.open.pop()
        return checked

    def _imported(self, by: SourceFile, name: str) -> CheckedModule | None:
        """What a module imports by a name; None if that has errors, or is being checked itself."""
        found = self.loader.find(S.Name(name, by.span(0, 0)))
        module = self.check(found) if isinstance(found, SourceFile) and found not in self.open else None
        return module if module is not None and module.ok else None

    def _declarations(self, source: SourceFile, program: S.Program, problems: tuple[Diagnostic, ...]) -> CheckedModule:
        checker = inference(words)
        checker.blanks = {span: [] for span in self.blanks if span.file is source}
        checker.explains, checker.suggests = self.fewer is None, self.suggests
        checker.diagnostics.extend(problems)
        scope = Scope(values={name: BuiltinName(name) for name in builtins.NAMES}).child()
        imports: dict[str, CheckedModule] = {}
        defined: dict[str, Span] = {}
        syntax_errors = any(d.severity == "error" for d in problems)
        wanted: list[S.Decl] = []
        for decl in program.decls:
            if isinstance(decl, S.Import):
                self.import_(checker, scope, decl, imports)
                continue
            if self.is_new(checker, decl, defined):
                wanted.append(decl)
        if syntax_errors:  # names that failed to parse would be unknown everywhere
            return self._finish(source, checker, scope, (), imports)
        if any(is_model(decl) for decl in wanted):
            imports |= self.hidden(scope, source)
        checker.importable = lambda name: isinstance(self.loader.find(name), SourceFile)
        checker.library = self.library
        checker.later = {n: span for d in wanted if not isinstance(d, S.Sig | S.TypeDecl) for n, span in binds(d)}
        checker.state.aliases = alias_names(scope)
        decls: list[T.Decl] = []
        steps: list[CheckedDeclaration] = []
        unchanged = self._unchanged(checker, source, wanted, imports)
        sigs = [d for d in wanted if isinstance(d, S.Sig)]
        for decl in wanted:
            if isinstance(decl, S.Sig):
                continue
            if sum(d.severity == "error" for d in checker.diagnostics) >= _MAX_ERRORS:
                message = f"more than {_MAX_ERRORS} errors; the rest of the file was not checked"
                report(checker, Diagnostic("AX0411", message, severity="warning"))
                break
            for defined_now in declared_names(decl):
                checker.later.pop(defined_now, None)
            mine = [] if isinstance(decl, S.TypeDecl) else [s for s in sigs if s.name.text in declared_names(decl)]
            step = unchanged.find(decl, mine, declared_names(decl)) if unchanged is not None else None
            if step is not None:
                step.again(checker, scope)
            else:
                step = self._checked(checker, scope, decl, mine)
            decls += step.typed
            steps.append(step)
            if step.alias is not None:
                checker.state.aliases[step.alias.decl] = step.names[0]
            if self.fewer is not None and sum(_counts(d) for d in checker.diagnostics) >= self.fewer:
                break
        self.lonely_sigs(checker, wanted, sigs)
        return replace(self._finish(source, checker, scope, tuple(decls), imports), steps=tuple(steps))

    def _checked(self, checker: Inference, scope: Scope, decl: S.Decl, sigs: list[S.Sig]) -> CheckedDeclaration:
        recorder, before = Recorder(checker), len(checker.diagnostics)
        typed = declarations(checker, Env(scope), [*sigs, decl], top=True)
        headless = ""
        if len(checker.diagnostics) > before:
            from axon.suggest.headless import blamed

            checker.diagnostics[before:], headless = blamed(decl, checker.diagnostics[before:])
        if headless:
            scope.values[headless] = BrokenName()
        return recorder.step(decl, sigs, [*declared_names(decl), *([headless] if headless else [])], typed, scope)

    def _unchanged(
        self, checker: Inference, source: SourceFile, wanted: Sequence[S.Decl], imports: Mapping[str, CheckedModule]
    ) -> Unchanged | None:
        """The declarations of the former check of a file that need not be checked again."""
        former = self.former
        if former is None or former.source.path != source.path:
            return None
        imported = {n for n in {*imports, *former.imports} if imports.get(n) is not former.imports.get(n)}
        declared = {(isinstance(d, S.TypeDecl), n) for d in wanted if not isinstance(d, S.Sig) for n in declared_names(d)}
        blanks = [b for b in self.blanks if b.file is source]
        gone = declared ^ {place for step in former.steps for place in step.places}
        return Unchanged(former.steps, (*imported, *(name for _, name in gone)), blanks, checker.explains)

    def hidden(self, scope: Scope, source: SourceFile) -> dict[str, CheckedModule]:
        """Put what models are made of in the scope around a module's, under names that nobody writes. The modules that have it."""
        assert scope.parent is not None
        modules: dict[str, CheckedModule] = {}
        for name in USED:
            stem, _, function = name.partition(".")
            if f"{HIDDEN}{stem}" not in modules:
                found = self.loader.find(S.Name(f"{HIDDEN}{stem}", source.span(0, 0)))
                assert isinstance(found, SourceFile), found
                modules[f"{HIDDEN}{stem}"] = self.check(found)
            exports = modules[f"{HIDDEN}{stem}"].exports
            assert exports is not None
            scope.parent.values[name] = exports.values[function]
        return modules

    def library(self, name: str, at: Span) -> list[str]:
        """The modules of the standard library that declare a value. Those that may do so are parsed, none is checked."""
        if self.declared is None:
            found = ((stem, self.loader.find(S.Name(stem, at))) for stem in library_modules())
            self.declared = {stem: s for stem, s in found if isinstance(s, SourceFile) and s not in self.open}
        bound = re.compile(_BOUND.format(re.escape(name)))
        return [stem for stem, s in self.declared.items() if bound.search(blanked(s)) and name in _values(s)]

    def lonely_sigs(self, checker: Inference, wanted: list[S.Decl], sigs: list[S.Sig]) -> None:
        if not sigs:
            return
        names = {n for d in wanted if not isinstance(d, S.Sig | S.TypeDecl) for n in declared_names(d)}
        for sig in sigs:
            if sig.name.text not in names:
                wrong(checker, RuleBroken(Rule.LONELY_SIG, sig.name.span, (sig.name.text, "")))

    def is_new(self, checker: Inference, decl: S.Decl, defined: dict[str, Span]) -> bool:
        kind = "type " if isinstance(decl, S.TypeDecl) else "sig " if isinstance(decl, S.Sig) else ""
        for name, span in binds(decl):
            if kind + name in defined:
                wrong(checker, RuleBroken(Rule.DEFINED_TWICE, span, (name,), defined[kind + name]))
                return False
            defined[kind + name] = span
        return True

    def import_(self, checker: Inference, scope: Scope, decl: S.Import, imports: dict[str, CheckedModule]) -> None:
        name = decl.name
        source = self.loader.find(name)
        if isinstance(source, Diagnostic):
            from axon.grammar.mistakes import LIBRARIES, PYTHON_LIBRARY

            if name.text in LIBRARIES and source.code == "AX0402":
                source = replace(source, suggestions=(Suggestion(PYTHON_LIBRARY),))
            report(checker, source)
            meant = [edit.text for s in source.suggestions for edit in s.edits]
            for broken in (name.text, *meant):  # uses of what was meant say nothing more either
                scope.values.setdefault(broken, BrokenName())
            return
        if source in self.open:
            names = " → ".join(f"`{s.path}`" for s in [*self.open[self.open.index(source) :], source])
            label = Label(name.span, "this import closes the circle")
            report(checker, Diagnostic("AX0403", "these modules import each other", (label,), (names,)))
            scope.values[name.text] = BrokenName()
            return
        module = self.check(source)
        imports[name.text] = module
        circle = next((d for d in module.diagnostics if d.code == "AX0403"), None)
        if circle is not None:
            label = Label(name.span, "this import is part of a circle")
            report(checker, Diagnostic("AX0403", circle.message, (label,), circle.notes))
        elif not module.ok:
            first = next(d for d in module.diagnostics if d.severity == "error")
            where = f" (at {first.span})" if first.span is not None else ""
            note = f"its first error is: {first.message}{where}"
            label = Label(name.span, "imported here")
            report(checker, Diagnostic("AX0410", f"the module `{name.text}` has errors", (label,), (note,)))
        assert module.exports is not None
        scope.values[name.text] = ModuleName(replace(module.exports, name=name.text))

    def _finish(
        self, source: SourceFile, checker: Inference, scope: Scope, decls: tuple[T.Decl, ...], imports: dict[str, CheckedModule]
    ) -> CheckedModule:
        signatures: dict[str, Callable[[], str]] = {}
        declarations: dict[str, T.Decl] = {}
        schemes: dict[str, Scheme] = {}
        symbols: dict[str, Symbol] = {}
        values: dict[str, Entity] = {}
        by_symbol: dict[Symbol, T.Decl] = {}
        for decl in decls:
            for symbol in (decl.symbol,) if isinstance(decl, T.Fun) else T.bound(decl.pattern):
                by_symbol[symbol] = decl
        checker.state.aliases = alias_names(scope)
        for name, entity in scope.values.items():
            if isinstance(entity, ModuleName):
                continue
            values[name] = entity
            if isinstance(entity, ValueName) and entity.symbol in by_symbol:
                scheme = replace(entity.scheme, type=checker.state.zonk(entity.scheme.type))
                values[name] = replace(entity, scheme=scheme)
                mentioned = _TYPE_VARIABLE.findall(_text(by_symbol[entity.symbol]))
                signatures[name] = partial(signature, checker.state, scheme, mentioned)
                declarations[name] = by_symbol[entity.symbol]
                schemes[name] = scheme
                symbols[name] = entity.symbol
        exports = Module(source.path, values, dict(scope.aliases))
        contracts = [[fact.relation for fact in scheme.facts] for scheme in schemes.values()]
        texts = EachOnce(signatures, lambda name: signatures[name]())  # of most modules, few are asked for
        return CheckedModule(
            source, _ordered(checker.diagnostics), texts, declarations, schemes, symbols, checker.state, imports,
            tuple(checker.inner), exports, partial(_trail, checker),
            {span: found(checker.state, blanks, contracts, simpler) for span, blanks in checker.blanks.items()},
        )  # fmt: skip


def _ordered(found: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    """What there is to say, in the order of the file."""
    if not found:
        return ()
    from axon.suggest.headless import without_doubts

    return tuple(once_per_name(sorted(without_doubts(found), key=lambda d: d.span.start if d.span is not None else -1)))


def checked_whole(loader: Loader, source: SourceFile, anew: bool) -> CheckedModule:
    """A module that was read, checked: with the bodies of its functions, for who follows a size into them. `anew`: also what it
    imports, for who found that files are not as they were kept."""
    checked = _whole.get((source.path, anew))
    if checked is None or checked.source is not source:
        checked = _whole[source.path, anew] = Session(loader, reads=not anew).check(source)
    return checked


def _trail(by: Inference, decl: T.Decl) -> Trail:
    from axon.suggest.bodies import trail_of

    return trail_of(by, (), (decl,))


_TYPE_VARIABLE = re.compile(r"'[A-Za-z]\w*")


def _counts(d: Diagnostic) -> bool:
    """Whether it is an error for good: those of unknown names become one for each name."""
    return d.severity == "error" and d.code not in OF_NAMES


def _text(decl: T.Decl) -> str:
    return (decl.body if isinstance(decl, T.Fun) else decl.value).span.text


_BOUND = r"\bfun\s+{0}\b|\bval\b[^=]*(?:\b{0}\b|\{{)"  # where a name may be a value's: after `fun`, or between `val` and `=`


@once
def _values(source: SourceFile) -> frozenset[str]:
    """The values that a file declares."""
    return frozenset(n for d in parse(source)[0].decls if isinstance(d, S.Fun | S.Val) for n in declared_names(d))


def declared_names(decl: S.Decl) -> list[str]:
    return [name for name, _ in binds(decl)]


def binds(decl: S.Decl) -> list[tuple[str, Span]]:
    if isinstance(decl, S.Val | S.Draw):
        return _pattern_names(decl.pattern)
    if is_model(decl):
        assert isinstance(decl, S.Fun)
        return [(name, decl.name.span) for name in (decl.name.text, *function_names(decl))]
    return [(decl.name.text, decl.name.span)] if not isinstance(decl, S.Import | S.Observe) else []


def _pattern_names(p: S.Pattern) -> list[tuple[str, Span]]:
    match p:
        case S.PatternName(name):
            return [(name, p.span)] if name != "_" else []
        case S.PatternTyped(inner):
            return _pattern_names(inner)
        case S.PatternTuple(items):
            return [n for i in items for n in _pattern_names(i)]
        case S.PatternRecord(fields):
            return [n for _, i in fields for n in _pattern_names(i)]


# ── suggestions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Overlay:
    """A loader with one file changed."""

    def __init__(self, loader: Loader, changed: SourceFile) -> None:
        self.loader, self.changed = loader, changed

    def read(self, path: str) -> SourceFile | Diagnostic:
        return self.changed if path == self.changed.path else self.loader.read(path)

    def find(self, name: S.Name) -> SourceFile | Diagnostic:
        return self.loader.find(name)


def _recheck(
    changed: SourceFile, fewer: int | None, loader: Loader, known: dict[SourceFile, CheckedModule], former: CheckedModule
) -> Attempt | None:
    """What the checker says of a changed file; None if it cannot be read, or does not have fewer errors than some number.

    Note [Tried changes]
        Most changes that are tried help nothing, and to find out why sizes do not fit takes longer than to find that they do not.
        So a changed file is first checked without that: one error then stands for all of a declaration's sizes, and the check
        ends when there are as many as before. What was without errors is not checked again when the others are to be explained.
        Where declarations have several errors each, that one stands for them would say nothing, and all are explained at once. What
        would mend the errors that are left is sought where somebody may look at it: of changes to which no number (`fewer`) is set.
    """
    from axon.suggest.tried import Attempt, declarations_of, generality

    suggests = fewer is None
    wrong = [d.span.start for d in former.diagnostics if d.severity == "error" and d.span is not None]
    if fewer is not None and len(declarations_of(former.source, wrong)) < fewer:
        fewer = None
    try:
        checked = Session(_Overlay(loader, changed), known, fewer=fewer, former=former, suggests=suggests).check(changed)
        if not checked.ok and fewer is not None:
            if sum(d.severity == "error" for d in checked.diagnostics) >= fewer:
                return None
            checked = Session(_Overlay(loader, changed), known, former=checked, suggests=suggests).check(changed)
    except AxonError:
        return None
    errors = sum(d.severity == "error" for d in checked.diagnostics)
    schemes = checked.schemes.values()
    return Attempt(errors, tuple(asked(schemes)), checked.diagnostics, lambda: generality(schemes, checked.state))


def asked(schemes: Iterable[Scheme]) -> Iterator[Span]:
    """Where the facts come from that contracts ask of calls, other than that `{h}` divides by `{g}`: they are given for that."""
    for scheme in schemes:
        given = frozenset(scheme.explicit)
        for fact in scheme.facts:
            if fact.span is not None and not (is_divisibility(fact.relation) and fact.relation.variables <= given):
                yield fact.span


def solutions(
    source: SourceFile, loader: Loader, known: dict[SourceFile, CheckedModule], place: Span, former: CheckedModule | None = None
) -> tuple[str, ...]:
    """What may stand in the place of a written size for the rest of a file to fit, as texts."""
    try:
        return Session(loader, known, (place,), former=former).check(source).filled[place]
    except AxonError:
        return ()
