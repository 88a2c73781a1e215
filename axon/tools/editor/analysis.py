"""One module, checked declaration by declaration, so that an edit costs what it reaches.

A declaration is checked with a state of its own, against the schemes of those before it: as a module is against its imports. What
came out is kept for as long as its text, its `sig`s and the schemes of the names in it stay what they were; of functions that may
give sizes or conditions, also what they do.

Note [Last good facts]
    While a declaration does not parse or check, what it last meant stays in scope for the others. So a typo has no consequences
    below it, nothing there is checked again, and everything that can be asked there is still answered.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING

from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic, Label
from axon.base.errors import AxonError
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.base.source import SourceFile, Span
from axon.chance.sites import is_model
from axon.checker.check import Session, binds
from axon.checker.module import CheckedModule
from axon.checker.report import once_per_name, words
from axon.checker.unchanged import closed
from axon.grammar import syntax as S
from axon.shapes.pretty import render
from axon.suggest.headless import blamed, without_doubts
from axon.suggest.tried import withheld
from axon.tools.editor.chunks import Chunk, Pieces, reading, succeed
from axon.types import builtins
from axon.types import typed as T
from axon.types.declare import declarations
from axon.types.generate import inference
from axon.types.inference import Env
from axon.types.resolve import (
    OF_NAMES,
    Alias,
    BrokenName,
    BuiltinName,
    Entity,
    ModelName,
    Module,
    ModuleName,
    Scope,
    ValueName,
    alias_names,
)
from axon.types.show import distinct
from axon.types.symbolic import tells_sizes
from axon.types.type import Scheme, Type
from axon.types.unify import State

if TYPE_CHECKING:
    from axon.tools.editor.facts import Facts
    from axon.tools.editor.tokens import ChunkWords

Guard = Callable[[str], AbstractContextManager[None]]
Used = tuple[tuple[str, str], ...]  # the names in a declaration that mean something, with their versions
Key = tuple[tuple[S.Decl, ...], Used, object]  # its `sig`s, what it uses, and where a name is not known what `_around` gives

_MAX_ERRORS = 200
_fresh_version = count(1)
_BROKEN, _MODULE = "broken", "module"


@dataclass(frozen=True, eq=False)
class Checked:
    """A declaration after checking, and what that depended on."""

    chunk: Chunk
    decl: S.Decl
    sigs: tuple[S.Sig, ...]
    key: Key
    typed: tuple[T.Decl, ...]
    state: State
    diagnostics: tuple[Diagnostic, ...]
    entities: Mapping[str, Entity]
    versions: Mapping[str, str]
    alias: Alias | None
    inner: tuple[tuple[str, Span, Type], ...]
    headless: str = ""  # what a declaration after it declares, which is read as a part of it

    @cached_property
    def ok(self) -> bool:
        return not any(d.severity == "error" for d in self.diagnostics)

    @property
    def schemes(self) -> dict[str, Scheme]:
        """Of the values that it declares, but those with errors."""
        return {n: e.scheme for n, e in self.entities.items() if isinstance(e, ValueName)}

    @cached_property
    def places(self) -> list[tuple[bool, str]]:
        """Whether it is of a type, with each name that it declares: types and values have name spaces of their own."""
        return [(isinstance(self.decl, S.TypeDecl), name) for name in self.versions]

    @cached_property
    def parameters(self) -> dict[Symbol, tuple[T.Pattern, ...]]:
        """Those of the functions that it declares."""
        return {t.symbol: t.params for t in self.typed if isinstance(t, T.Fun)}

    @cached_property
    def facts(self) -> Facts:
        from axon.tools.editor.facts import Facts

        return Facts(self)


@dataclass(frozen=True, slots=True, eq=False)
class _Apart:
    """A declaration that is not in the file, what stood around it, and what a check found."""

    decl: S.Decl
    around: list[tuple[dict[str, str], dict[str, str]]]
    checked: Checked | None


class Analysis:
    """A module that is being edited, or is imported by one that is. `run` brings everything up to date with a text."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.text = ""  # what was last read: a run that is reading another has not replaced it yet
        self.chunks: list[Chunk] = []
        self.starts: list[int] = []  # where each chunk begins
        self.parsed: list[Chunk] = []  # by runs that were given up before they had read the whole text
        self.of_chunk: dict[Chunk, list[Checked]] = {}  # what this run has come to; imports and `sig`s are not among them
        self.before: dict[Chunk, list[Checked]] = {}  # what earlier runs had come to
        self.table: dict[tuple[bool, str], Checked] = {}  # by whether it is a type, and its name
        self.imports: dict[str, Analysis] = {}
        self.problems: list[Diagnostic] = []  # of the module as a whole: names defined twice, imports
        self.versions: dict[str, str] = {}  # of each name that it makes available
        self.aliases: dict[str, str] = {}
        self.exports = Module(path, {}, {})
        self.fresh: set[Chunk] = set()  # the chunks that the last edit made
        self.runs = 0
        self.guard: Guard = _unguarded
        self.complete = False  # whether the last run came to its end
        self.finished: CheckedModule | None = None  # what the last complete run came to
        self.apart: _Apart | None = None  # the last declaration that was checked apart
        self.checks = 0  # how many declarations were checked so far: what a test of incrementality counts
        self.begins: dict[SourceFile, int] = {}  # where the source of each chunk begins
        self.formers: dict[SourceFile, Chunk] = {}  # chunks that do not parse, by the source that they last had when they did
        self.scope = Scope()  # filled anew by each run: aliases look names up in it
        self.good: dict[tuple[bool, str], Checked] = {}  # as `table`: the last declaration of each name without errors
        self.builtins: dict[str, Scheme] = {}
        self.alias_names: IdentityMap[S.TypeDecl, str] = IdentityMap()  # what signatures call records, in the finished module
        self.words: dict[Chunk, ChunkWords] = {}  # what each word is, of the chunks that somebody has asked about
        self.tried: dict[Diagnostic, Diagnostic] = {}  # diagnostics whose suggestions were tried, and what is left of them

    # ── what others ask ────────────────────────────────────────────────────────────────────────────────────────────────

    def diagnostics(self) -> list[Diagnostic]:
        """Everything there is to say, in the order of the file."""
        found = [d for c in self.chunks for d in c.problems]
        found += [self.tried.get(d) or withheld(d) for checked in self.current() for d in checked.diagnostics]
        found += self.problems
        errors = 0
        out: list[Diagnostic] = []
        for diagnostic in once_per_name(sorted(without_doubts(found), key=self._order)):
            errors += diagnostic.severity == "error"
            if errors <= _MAX_ERRORS:
                out.append(diagnostic)
        return out

    def current(self) -> Iterator[Checked]:
        """The declarations that stand in the file, as far as they are checked, if only by an earlier run."""
        for chunk in self.chunks:
            yield from self.of_chunk.get(chunk) or self.before.get(chunk) or ()

    @property
    def edit_is_checked(self) -> bool:
        """Whether a run has come past what the last edit made; what depends on that may still follow."""
        return self.complete or all(c in self.of_chunk or not c.decls for c in self.fresh)

    def _order(self, diagnostic: Diagnostic) -> int:
        place = None if diagnostic.span is None else self.place(diagnostic.span)
        return -1 if place is None else place[0]

    def place(self, span: Span) -> tuple[int, int] | None:
        """The offsets of a span in the file; None if it lies elsewhere, or no more."""
        start = self.begins.get(span.file)
        if start is not None:
            return start + span.start, start + span.end
        broken = self.formers.get(span.file)
        if broken is None or broken.former is None:
            return None
        moved = [shifted(offset, broken.former.text, broken.text) for offset in (span.start, span.end)]
        start = self.begins[broken.source]
        return None if moved[0] is None or moved[1] is None else (start + moved[0], start + moved[1])

    def in_whole(self, source: SourceFile, diagnostic: Diagnostic) -> Diagnostic:
        """A diagnostic with what it points at in the file instead of its declarations; what lies elsewhere keeps its place."""

        def moved(span: Span) -> Span:
            place = self.place(span)
            return span if place is None else Span(source, *place)

        labels = tuple(replace(label, span=moved(label.span)) for label in diagnostic.labels)
        suggestions = tuple(replace(s, annotates=tuple(map(moved, s.annotates))) for s in diagnostic.suggestions)
        return replace(diagnostic, labels=labels, suggestions=suggestions)

    def line(self, offset: int) -> int:
        """The number of the line at an offset, from 1."""
        return self.text.count("\n", 0, offset) + 1

    def chunk_at(self, offset: int) -> tuple[Chunk, int]:
        """The chunk around an offset, and the offset in it."""
        from bisect import bisect_right

        number = max(bisect_right(self.starts, offset) - 1, 0)
        return self.chunks[number], offset - self.starts[number]

    def fork(self) -> Analysis:
        """For another text of this module, with everything that is known of this one."""
        other = Analysis(self.path)
        other.chunks, other.of_chunk, other.good, other.builtins = self.chunks, dict(self.of_chunk), dict(self.good), self.builtins
        return other

    # ── a run ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def check_apart(self, decl: S.Decl, source: SourceFile) -> Checked | None:
        """Check a declaration that is not in the file, against what the file declares; None if that fails.

        The last answer is kept: who types the letters of one name asks for the same again.
        """
        around = [(dict(a.versions), dict(a.aliases)) for a in (self, *self.imports.values())]
        if self.apart is None or self.apart.decl is not decl or self.apart.around != around:
            self.apart = _Apart(decl, around, self._check_apart(decl, source))
        return self.apart.checked

    def _check_apart(self, decl: S.Decl, source: SourceFile) -> Checked | None:
        checker = inference(words)
        checker.builtin_schemes = self.builtins
        scope = self.scope.child()
        names = {name for name, _ in binds(decl)}
        sigs = tuple(s for found in self.of_chunk.values() for c in found for s in c.sigs if s.name.text in names)
        try:
            with self.guard("checking"):
                typed = declarations(checker, Env(scope), [*sigs, decl], top=True)
        except AxonError:
            return None
        entities = {n: closed(scope.values.get(n), checker.state) for n in names}
        checker.state.aliases = self.alias_names
        chunk = Chunk(source.text, source, (decl,), ())
        return Checked(chunk, decl, sigs, ((), (), None), typed, checker.state, (), entities, {}, None, tuple(checker.inner))

    def run(self, session: AnalysisSession, text: str) -> Iterator[None]:
        """Read a text and check what is not up to date, yielding after each declaration. May be given up at any time."""
        self.runs += 1
        mine = self.runs
        self.complete = False
        self.guard = session.guard
        steps = reading(self.path, text, [*self.chunks, *self.parsed], self.parsed)
        while (pieces := self._read_on(steps)) is None:
            yield
            if self.runs != mine:  # another has begun since, and has what this one would go on with
                return
        known = set(self.chunks)
        with session.guard("parsing"):
            self.chunks, self.starts = succeed(self.chunks, pieces.chunks), pieces.starts
        self.text, self.parsed = text, []
        self.fresh = set(self.chunks) - known
        alive = {c.former or c for c in self.chunks}
        self.before = {c: found for c, found in {**self.before, **self.of_chunk}.items() if c in alive}
        self.of_chunk = {}
        self.formers = {c.former.source: c for c in self.chunks if c.former is not None}
        self.begins = dict(zip((c.source for c in self.chunks), self.starts, strict=True))
        for _ in _Run(self, session).steps():
            yield
            if self.runs != mine:
                return
        self.complete = True

    def _read_on(self, steps: Generator[None, None, Pieces]) -> Pieces | None:
        """The next step of reading a text; what came of it after the last."""
        with self.guard("parsing"):
            try:
                return next(steps)
            except StopIteration as done:
                pieces: Pieces = done.value
                return pieces

    def finish(self, source: SourceFile) -> CheckedModule:
        """What a complete run has come to, as modules that import this one see it."""
        found = tuple(self.in_whole(source, d) for d in self.diagnostics())
        self.finished = CheckedModule(source, found, {}, {}, {}, {}, State(), {}, (), self.exports)
        return self.finished

    @property
    def lasting(self) -> CheckedModule | None:
        """What the last run came to, if only an edit of this text can change it: it was complete, and nothing is imported."""
        alone = self.complete and not any(isinstance(d, S.Import) for c in self.chunks for d in (*c.decls, *_former_decls(c)))
        return self.finished if alone else None

    @property
    def source(self) -> SourceFile:
        """The whole file, as a message about it names it."""
        return SourceFile(self.path, self.text)


def _former_decls(chunk: Chunk) -> tuple[S.Decl, ...]:
    return chunk.former.decls if chunk.former is not None else ()


@contextmanager
def _unguarded(phase: str) -> Iterator[None]:
    yield


def shifted(offset: int, before: str, after: str) -> int | None:
    """Where an offset of a text is after one edit; None if the edit has replaced it."""
    same = _alike(before, after)
    if offset <= same:
        return offset
    rest = _alike(before[same:][::-1], after[same:][::-1])
    return offset + len(after) - len(before) if offset >= len(before) - rest else None


def _alike(a: str, b: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class AnalysisSession(Session):
    """Finds and brings up to date what modules import. `analyses` are kept from one session to the next."""

    def __init__(self, loader: EditorLoader, analyses: dict[str, Analysis], guard: Guard) -> None:
        super().__init__(loader)
        self.analyses = analyses
        self.guard = guard
        self.fresh: dict[str, CheckedModule] = {}  # modules that this session has brought up to date

    def check(self, source: SourceFile) -> CheckedModule:
        for _ in self.steps(source):
            pass
        return self.fresh[source.path]

    def steps(self, source: SourceFile) -> Iterator[None]:
        """Bring a module up to date, stopping between declarations."""
        if source.path in self.fresh:
            return
        analysis = self.analyses.setdefault(source.path, Analysis(source.path))
        if analysis.text == source.text and (lasting := analysis.lasting) is not None:
            self.fresh[source.path] = lasting
            return
        self.open.append(source)
        yield from analysis.run(self, source.text)
        self.open.pop()
        self.fresh[source.path] = analysis.finish(source)


if TYPE_CHECKING:
    from axon.tools.editor.workspace import EditorLoader


@dataclass(frozen=True, eq=False)
class _Item:
    """A declaration to put in scope; `current` if it is what stands in the file now, not what last stood there."""

    chunk: Chunk
    decl: S.Decl
    current: bool

    @cached_property
    def names(self) -> list[str]:
        return [name for name, _ in binds(self.decl)]


class _Run:
    """One pass over a module's declarations, in order."""

    def __init__(self, analysis: Analysis, session: AnalysisSession) -> None:
        self.a = analysis
        self.session = session
        self.scope = analysis.scope
        self.former = analysis.before
        self.sink = inference(words)  # takes what is said of the module as a whole
        self.versions: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.sigs: dict[str, list[_Item]] = {}
        self.later: dict[str, Span] = {}
        self.everything: frozenset[str] = frozenset()
        self.parameters: dict[Symbol, tuple[T.Pattern, ...]] = {}  # of the functions declared so far, for what is said of calls
        self.circular: list[S.TypeDecl] = []  # types that contain themselves, which has been said where they stand

    def steps(self) -> Iterator[None]:
        a = self.a
        self.scope.parent = Scope(values={name: BuiltinName(name) for name in builtins.NAMES})
        self.scope.values.clear()
        self.scope.aliases.clear()
        a.imports = {}
        items = self._items()
        if any(is_model(i.decl) for i in items):
            self.session.hidden(self.scope, a.source)
        values = [i for i in items if not isinstance(i.decl, S.Sig | S.TypeDecl)]
        self.later = {n: span for i in values for n, span in binds(i.decl)}
        self.everything = frozenset(n for i in items for n in i.names) | a.imports.keys()
        for item in items:
            if isinstance(item.decl, S.Sig):
                self.sigs.setdefault(item.decl.name.text, []).append(item)
        self.session.lonely_sigs(self.sink, [i.decl for i in items], self._expected_sigs())
        a.problems = self.sink.diagnostics  # before the declarations: what is found so far may be shown at any of them
        for item in items:
            if isinstance(item.decl, S.Sig):
                continue
            for name in item.names:
                self.later.pop(name, None)
            self._declaration(item)
            yield
        self._export()

    def _items(self) -> list[_Item]:
        """The declarations to check: imports are resolved, what is defined twice is said and dropped.

        Of chunks that do not parse, those that stood there before; see Note [Last good facts].
        """
        defined: dict[str, Span] = {}
        items: dict[Chunk, list[_Item]] = {}
        for chunk in self.a.chunks:
            for decl in chunk.decls:
                if isinstance(decl, S.Import):
                    self._import(decl)
                elif self.session.is_new(self.sink, decl, defined):
                    items.setdefault(chunk, []).append(_Item(chunk, decl, True))
        unheard = inference(words)
        for chunk in self.a.chunks:
            for decl in _former_decls(chunk):
                if isinstance(decl, S.Import):
                    if decl.name.text not in self.scope.values:
                        self._import(decl)
                elif self.session.is_new(unheard, decl, defined):
                    items.setdefault(chunk, []).append(_Item(chunk.former or chunk, decl, False))
            if not chunk.broken or not chunk.head or any(n == chunk.head for d in _former_decls(chunk) for n, _ in binds(d)):
                continue
            if chunk.is_type and f"type {chunk.head}" not in defined:
                self._break_type(chunk.head, chunk)
            elif not chunk.is_type and chunk.head not in defined:
                self._break(chunk.head)
        return [item for chunk in self.a.chunks for item in items.get(chunk, ())]

    def _import(self, decl: S.Import) -> None:
        found: dict[str, CheckedModule] = {}
        self.session.import_(self.sink, self.scope, decl, found)
        for name, module in found.items():
            self.a.imports[name] = self.session.analyses[module.source.path]

    def _expected_sigs(self) -> list[S.Sig]:
        unread = {c.head for c in self.a.chunks if c.broken}
        found = (i.decl for items in self.sigs.values() for i in items if i.current)
        return [s for s in found if isinstance(s, S.Sig) and s.name.text not in unread]

    # ── one declaration ────────────────────────────────────────────────────────────────────────────────────────────────

    def _declaration(self, item: _Item) -> None:
        """Put a declaration in scope, checked if what is known of it is not up to date."""
        sigs = [] if isinstance(item.decl, S.TypeDecl) else [s for n in item.names for s in self.sigs.get(n, ())]
        given, used = tuple(s.decl for s in sigs), self._used(item.chunk, sigs)
        known = next((c for c in self.former.get(item.chunk, ()) if c.decl is item.decl), None)
        fits = known is not None and known.key[:2] == (given, used) and (known.key[2] is None or known.key[2] == self._around())
        checked = known if known is not None and fits else self._check(item, given, used)
        self.a.of_chunk.setdefault(item.chunk, []).append(checked)
        if checked.ok:
            self.a.good.update(dict.fromkeys(checked.places, checked))
        self._define(checked)

    def _used(self, chunk: Chunk, sigs: list[_Item]) -> Used:
        """What the check of a declaration uses, by the names in it; an intersection with `values` would go through all of those."""
        words = chunk.words.union(*(s.chunk.words for s in sigs)) if sigs else chunk.words
        values, versions, aliases, imports = self.scope.values, self.versions, self.scope.aliases, self.a.imports
        used = [(name, versions.get(name, _BROKEN)) for name in words if name in values and name not in imports]
        for name in words & imports.keys() if imports else ():
            if name in values:
                module = imports[name]
                used.append((name, _MODULE))
                used += [(f"{name}.{n}", module.versions[n]) for n in words & module.versions.keys()]
                used += [(f"{name}.type {n}", module.aliases[n]) for n in words & module.aliases.keys()]
        used += [(f"type {name}", self.aliases[name]) for name in words if name in aliases]
        used.sort()
        return tuple(used)

    def _around(self) -> object:
        """What the check of a declaration depends on where it does not know a name."""
        return self.everything, frozenset(self.later), frozenset(self.a.imports)

    def _check(self, item: _Item, sigs: tuple[S.Decl, ...], used: Used) -> Checked:
        self.a.checks += 1
        decl, names = item.decl, item.names
        checker = inference(words)
        checker.builtin_schemes = self.a.builtins
        checker.importable = lambda name: isinstance(self.session.loader.find(name), SourceFile)
        checker.library = self.session.library
        checker.later = dict(self.later)
        checker.circular = list(self.circular)
        checker.parameters = self.parameters
        typed: tuple[T.Decl, ...] = ()
        try:
            with self.session.guard("checking"):
                typed = declarations(checker, Env(self.scope), [*sigs, decl], top=True)
        except AxonError as error:
            where = binds(decl)[0][1] if names else decl.span
            checker.diagnostics += [d if d.labels else replace(d, labels=(Label(where),)) for d in error.diagnostics]
        diagnostics, headless = blamed(decl, checker.diagnostics)
        key = (sigs, used, self._around() if any(d.code in OF_NAMES for d in diagnostics) else None)
        alias = self.scope.aliases.get(names[0]) if isinstance(decl, S.TypeDecl) else None
        entities: dict[str, Entity] = {}
        versions = dict.fromkeys(names, _BROKEN)
        if isinstance(decl, S.TypeDecl):
            versions[names[0]] = f"type {next(_fresh_version)}"
        for name in names if alias is None else ():
            entity = entities[name] = closed(self.scope.values.get(name), checker.state)
            if isinstance(entity, ValueName):
                why = "; ".join(f.why for f in entity.scheme.facts)
                shown = distinct(checker.state, entity.scheme) or next(_fresh_version)
                size = None if entity.dim is None else render(entity.dim)
                does = ""
                if tells_sizes(checker.state, entity.scheme):
                    does = sha256(f"{decl.span.text} {used}".encode("utf-8", "surrogatepass")).hexdigest()
                versions[name] = f"{shown} ({why}) {entity.literal} {size} {does}"
        for name, entity in entities.items():
            if isinstance(entity, ModelName):
                versions[name] = " ".join(versions[f"{name}.{function}"] for function in entity.model.functions)
        checker.state.aliases = self.a.alias_names  # from here on: a version does not hide what an alias stands for
        given, inner = tuple(s for s in sigs if isinstance(s, S.Sig)), tuple(checker.inner)
        return Checked(
            item.chunk, decl, given, key, typed, checker.state, tuple(diagnostics), entities, versions, alias, inner, headless
        )

    # ── scope ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _define(self, checked: Checked) -> None:
        """Put what a declaration declares in scope; of one with errors, what it last was without. See Note [Last good facts]."""
        if isinstance(checked.decl, S.TypeDecl) and any(d.code == "AX0206" for d in checked.diagnostics):
            self.circular.append(checked.decl)
        for place in checked.places:
            best = checked if checked.ok else self.a.good.get(place, checked)
            name = place[1]
            if best is not checked and self._is_outdated(best):
                if best.alias is None:
                    self._break(name)
                else:
                    self._break_type(name, checked.chunk)
                continue
            self.parameters |= best.parameters
            if best.alias is not None:
                self.scope.aliases[name] = best.alias
                self.aliases[name] = best.versions[name]
            elif isinstance(checked.decl, S.TypeDecl):
                self.scope.aliases.pop(name, None)
            else:
                self._declare(name, best)
        if checked.headless:
            self._declare(checked.headless, self.a.good.get((False, checked.headless)))

    def _is_outdated(self, best: Checked) -> bool:
        """Whether what a declaration last meant is of types that have changed since, or of what means nothing any more."""
        changed = ((name, then, self._version(name)) for name, then in best.key[1] if then not in (_BROKEN, _MODULE))
        return any(now != then and (now == _BROKEN or "type " in name) for name, then, now in changed)

    def _version(self, name: str) -> str:
        """What a part of a key is now: `f`, `type t`, or of a module that is imported, `m.f` or `m.type t`."""
        owner, _, member = name.rpartition(".")
        module = self.a.imports.get(owner)
        if owner and module is None:
            return _BROKEN
        versions, aliases = (module.versions, module.aliases) if module is not None else (self.versions, self.aliases)
        return (aliases if member.startswith("type ") else versions).get(member.removeprefix("type "), _BROKEN)

    def _declare(self, name: str, best: Checked | None) -> None:
        """Put a value in scope as a declaration made it."""
        if best is not None and name in best.entities:
            self.scope.values[name] = best.entities[name]
            self.versions[name] = best.versions[name]
        else:
            self._break(name)

    def _break(self, name: str) -> None:
        self.scope.values[name] = BrokenName()
        self.versions[name] = _BROKEN

    def _break_type(self, name: str, chunk: Chunk) -> None:
        nothing = chunk.source.span(0, 0)
        decl = S.TypeDecl(S.Name(name, nothing), (), S.TypeTuple((), span=nothing), span=nothing)
        self.scope.aliases[name] = Alias(decl, self.scope, broken=True)
        self.aliases[name] = _BROKEN

    def _export(self) -> None:
        a = self.a
        values = {n: e for n, e in self.scope.values.items() if not isinstance(e, ModuleName)}
        a.alias_names.clear()
        a.alias_names.update(alias_names(self.scope).items())
        a.exports = Module(a.path, values, dict(self.scope.aliases))
        a.versions = {n: self.versions.get(n, _BROKEN) for n in values}
        a.aliases = self.aliases
        a.table = {place: c for found in a.of_chunk.values() for c in found for place in c.places}
        said = {d for checked in a.current() for d in checked.diagnostics}
        a.tried = {d: tried for d, tried in a.tried.items() if d in said}
