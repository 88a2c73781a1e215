"""What every name in a declaration stands for, found from its syntax alone: where it is bound, used and visible.

The rules are those of `types.declare`, `annotate` and `comprehension`; a test holds the two against each other. Names of the module
are left open here (`Free`), so what is found stays true however the rest of the file changes.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias, assert_never

from axon.base.data import dataclass, field
from axon.base.element import Element
from axon.base.source import SourceFile, Span
from axon.grammar import syntax as S
from axon.types.annotate import Mentions, stripped
from axon.types.resolve import ANONYMOUS_RUN

ELEMENTS = {e.value for e in Element}


class Kind(Enum):
    """What a name stands for, in the words that are shown."""

    FUNCTION = "function"
    VALUE = "value"
    PARAMETER = "parameter"
    INDEX = "index"
    RUN = "run of indices"
    DIMENSION = "dimension"
    SHAPE = "shape variable"
    ELEMENT = "element type"
    TYPE_VARIABLE = "type variable"
    TYPE = "type"
    MODULE = "module"
    FIELD = "field"
    BUILTIN = "function of the language"


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A name bound inside a declaration. It is visible in the text from `visible.start` to its end, unless it is shadowed."""

    kind: Kind
    name: str  # without the dots of a run and the quote of a type variable
    span: Span
    visible: Span


@dataclass(frozen=True, slots=True)
class Free:
    """A name of the module, or of one that it imports (`owner`), or of the language. With an owner that is no module: a field."""

    name: str
    is_type: bool = False
    owner: str | None = None


Target: TypeAlias = "Binding | Free"


@dataclass(frozen=True, slots=True, eq=False)
class Occurrence:
    """A place where a name stands; `span` covers the name alone."""

    span: Span
    target: Target
    defines: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DeclarationNames:
    """The names of one declaration, with its `sig`. `indices` are the binders of each comprehension, by where that stands."""

    occurrences: tuple[Occurrence, ...]
    bindings: tuple[Binding, ...]
    indices: dict[Place, tuple[Binding | None, ...]]

    def at(self, file: SourceFile, offset: int) -> Occurrence | None:
        """The occurrence that an offset touches; of two neighbours, the one that begins there."""
        found = [o for o in self.occurrences if o.span.file is file and o.span.start <= offset <= o.span.end]
        return min(found, key=lambda o: (o.span.end == offset, o.span.end - o.span.start), default=None)

    def visible(self, file: SourceFile, offset: int) -> dict[tuple[bool, str], Binding]:
        """The bindings that a name could mean at an offset: by whether it is a run or type variable, and its text."""
        found = [b for b in self.bindings if b.visible.file is file and b.visible.start <= offset <= b.visible.end]
        found.sort(key=lambda b: (b.visible.start, b.span.start))
        return {(b.kind in (Kind.RUN, Kind.SHAPE), b.name): b for b in found}


Place: TypeAlias = "tuple[SourceFile, int, int]"


def place(span: Span) -> Place:
    return (span.file, span.start, span.end)


def names_of(decl: S.Decl, sigs: tuple[S.Sig, ...] = ()) -> DeclarationNames:
    """The names of a declaration and of its `sig`s."""
    finder = _Finder(decl)
    finder.declaration(decl, sigs)
    ordered = sorted(finder.occurrences, key=lambda o: o.span.start)
    return DeclarationNames(tuple(ordered), tuple(finder.bindings), finder.indices)


@dataclass(slots=True, eq=False)
class _Scope:
    parent: _Scope | None = None
    values: dict[str, Binding] = field(default_factory=dict)
    runs: dict[str, Binding] = field(default_factory=dict)
    variables: dict[str, Binding] = field(default_factory=dict)
    types: dict[str, Binding] = field(default_factory=dict)

    def child(self) -> _Scope:
        return _Scope(self)

    def value(self, name: str) -> Binding | None:
        return self.values.get(name) or (self.parent.value(name) if self.parent else None)

    def run(self, name: str) -> Binding | None:
        return self.runs.get(name) or (self.parent.run(name) if self.parent else None)

    def variable(self, name: str) -> Binding | None:
        return self.variables.get(name) or (self.parent.variable(name) if self.parent else None)

    def type(self, name: str) -> Binding | None:
        return self.types.get(name) or (self.parent.type(name) if self.parent else None)


class _Finder:
    def __init__(self, whole: S.Decl) -> None:
        self.whole = whole
        self.occurrences: list[Occurrence] = []
        self.bindings: list[Binding] = []
        self.indices: dict[Place, tuple[Binding | None, ...]] = {}

    # ── binding and using ──────────────────────────────────────────────────────────────────────────────────────────────

    def bind(self, kind: Kind, name: str, span: Span, visible: Span) -> Binding:
        """A new binding. What mentions it where it is introduced is an occurrence of its own, for annotations."""
        binding = Binding(kind, name, span, visible)
        self.bindings.append(binding)
        return binding

    def occur(self, span: Span, target: Target | None, defines: bool = False) -> None:
        if target is not None:
            here = defines or (isinstance(target, Binding) and place(target.span) == place(span))
            self.occurrences.append(Occurrence(span, target, here))

    def introduce(self, scope: _Scope, mentions: Mentions, visible: Span) -> None:
        """Bind what annotations mention and nothing in scope defines."""
        for name, span in mentions.dims.items():
            known = scope.value(name)
            if known is None or known.kind is not Kind.DIMENSION:
                scope.values[name] = self.bind(Kind.DIMENSION, name, span, visible)
        for name, span in mentions.rows.items():
            if scope.run(name) is None:
                scope.runs[name] = self.bind(Kind.SHAPE, name, _tail(span, name), visible)
        for name, span in mentions.variables.items():
            if scope.variable(name) is None:
                scope.variables[name] = self.bind(Kind.TYPE_VARIABLE, name[1:], _after_quote(span, name), visible)

    # ── declarations ───────────────────────────────────────────────────────────────────────────────────────────────────

    def declaration(self, decl: S.Decl, sigs: tuple[S.Sig, ...]) -> None:
        match decl:
            case S.Fun():
                self.occur(decl.name.span, Free(decl.name.text), defines=True)
                self.function(_Scope(), decl, sigs, decl.span)
            case S.Val(pattern, value):
                scope = _Scope()
                mentions = Mentions()
                mentions.pattern(pattern)
                for sig in sigs:
                    mentions.type(sig.type)
                self.introduce(scope, mentions, decl.span)
                inside = Mentions()
                inside.expr(value)
                around = scope.child()
                self.introduce(around, inside, decl.span)
                self.expr(around, value)
                self.pattern(scope, pattern, None, Kind.VALUE)
            case S.Draw(pattern, site):  # outside of a model, where it may not stand
                self.expr(_Scope(), site)
                self.pattern(_Scope(), pattern, None, Kind.VALUE)
            case S.Observe(_, site):
                self.expr(_Scope(), site)
            case S.TypeDecl(name, params, written):
                scope = _Scope()
                self.occur(name.span, Free(name.text, is_type=True), defines=True)
                for param in params:
                    self.type_parameter(scope, param, decl.span)
                self.type(scope, written)
                return
            case S.Import(name):
                self.occur(name.span, Free(name.text))
                return
            case S.Sig(name):  # one that nothing defines
                self.occur(name.span, Free(name.text))
                scope = _Scope()
                mentions = Mentions()
                mentions.type(_inner(decl.type))
                self.explicit(scope, decl.type, decl.span)
                self.introduce(scope, mentions, decl.span)
                self.type(scope, decl.type)
                self.facts(scope, decl.where)
                return
            case _:
                assert_never(decl)
        for sig in sigs:
            self.occur(sig.name.span, Free(sig.name.text))
            if isinstance(decl, S.Val):
                self.type(scope, sig.type)

    def type_parameter(self, scope: _Scope, param: S.DimName | S.ShapeRun | S.TypeVar, visible: Span) -> None:
        match param:
            case S.DimName(name):
                scope.values[name] = binding = self.bind(Kind.DIMENSION, name, param.span, visible)
            case S.ShapeRun(name):
                scope.runs[name] = binding = self.bind(Kind.SHAPE, name, _tail(param.span, name), visible)
            case S.TypeVar(name):
                scope.variables[name] = binding = self.bind(Kind.TYPE_VARIABLE, name[1:], _after_quote(param.span, name), visible)
        self.occur(binding.span, binding)

    def explicit(self, scope: _Scope, written: S.Type, visible: Span) -> None:
        """Bind the dimension parameters of a `sig`, if the definition has not."""
        while isinstance(written, S.TypeDimFun):
            for name in written.names:
                if name.text not in scope.values:
                    scope.values[name.text] = self.bind(Kind.DIMENSION, name.text, name.span, visible)
            written = written.result

    def function(self, outer: _Scope, d: S.Fun, sigs: tuple[S.Sig, ...], visible: Span) -> None:
        """The names of a `sig` are its own; the body sees them behind those of the function's annotations."""
        signed = outer.child()
        annotated = outer.child() if sigs else signed
        for param in d.params:
            for name in param.names if isinstance(param, S.DimParams) else ():
                annotated.values[name.text] = binding = self.bind(Kind.DIMENSION, name.text, name.span, visible)
                self.occur(name.span, binding)
        mentions = Mentions()
        for param in d.params:
            mentions.pattern(param)
        if d.result is not None:
            mentions.type(d.result)
        self.introduce(annotated, mentions, visible)
        for sig in sigs:
            of_sig = Mentions()
            of_sig.type(_inner(sig.type))
            self.explicit(signed, sig.type, visible)
            self.introduce(signed, of_sig, visible)
            self.type(signed, sig.type)
            self.facts(signed, sig.where)
        scope = _Scope(signed, annotated.values, annotated.runs, annotated.variables) if sigs else signed
        of_body = Mentions()
        of_body.expr(d.body)
        self.introduce(scope, of_body, visible)
        self.facts(scope, d.where)
        inner = Span(d.span.file, d.name.span.end, d.span.end)
        for param in d.params:
            if not isinstance(param, S.DimParams):
                self.pattern(scope, param, inner, Kind.PARAMETER)
        if d.result is not None:
            self.type(scope, d.result)
        self.expr(scope, d.body)

    def let(self, outer: _Scope, e: S.Let) -> None:
        scope = outer.child()
        sigs: dict[str, list[S.Sig]] = {}
        for decl in e.decls:
            if isinstance(decl, S.Sig):
                sigs.setdefault(decl.name.text, []).append(decl)
        for decl in e.decls:
            visible = Span(e.span.file, decl.span.end, e.span.end)
            match decl:
                case S.Fun():
                    mine = tuple(sigs.get(decl.name.text, ()))
                    self.function(scope, decl, mine, decl.span)
                    scope.values[decl.name.text] = binding = self.bind(Kind.FUNCTION, decl.name.text, decl.name.span, visible)
                    for name in (decl.name, *(s.name for s in mine)):
                        self.occur(name.span, binding)
                case S.Val():
                    self.local_val(scope, decl, sigs, visible)
                case S.Draw(pattern, site):
                    mentions = Mentions()
                    mentions.pattern(pattern)
                    self.introduce(scope, mentions, Span(visible.file, decl.span.start, visible.end))
                    self.expr(scope, site)
                    self.pattern(scope, pattern, visible, Kind.VALUE)
                case S.Observe(name, site):
                    self.occur(name.span, scope.value(name.text) or Free(name.text))
                    self.expr(scope, site)
                case S.TypeDecl(type_name, params, written):
                    inner = scope.child()
                    for param in params:
                        self.type_parameter(inner, param, decl.span)
                    self.type(inner, written)
                    scope.types[type_name.text] = named = self.bind(Kind.TYPE, type_name.text, type_name.span, visible)
                    self.occur(type_name.span, named)
                case S.Sig() | S.Import():
                    pass
        self.expr(scope, e.body)

    def local_val(self, scope: _Scope, d: S.Val, sigs: dict[str, list[S.Sig]], visible: Span) -> None:
        single = d.pattern
        while isinstance(single, S.PatternTyped):
            single = single.pattern
        mine = sigs.get(single.name, []) if isinstance(single, S.PatternName) else []
        mentions = Mentions()
        mentions.pattern(d.pattern)
        for sig in mine:
            mentions.type(sig.type)
        whole = Span(visible.file, d.span.start, visible.end)
        self.introduce(scope, mentions, whole)
        around = scope.child()
        if isinstance(stripped(d.value), S.Fn):
            inside = Mentions()
            inside.expr(d.value)
            self.introduce(around, inside, d.span)
        self.expr(around, d.value)
        for sig in mine:
            self.type(scope, sig.type)
        self.pattern(scope, d.pattern, visible, Kind.VALUE)
        for sig in mine:
            self.occur(sig.name.span, scope.value(sig.name.text))

    # ── patterns ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def pattern(self, scope: _Scope, p: S.Pattern, visible: Span | None, kind: Kind) -> None:
        """The names that a pattern binds, and where they can be seen; those of the module's own `val`s everywhere: None."""
        match p:
            case S.PatternName("_"):
                pass
            case S.PatternName(name):
                if visible is None:
                    self.occur(p.span, Free(name), defines=True)
                else:
                    scope.values[name] = binding = self.bind(kind, name, p.span, visible)
                    self.occur(p.span, binding)
            case S.PatternTyped(inner, written):
                self.type(scope, written)
                self.pattern(scope, inner, visible, kind)
            case S.PatternTuple(items):
                for item in items:
                    self.pattern(scope, item, visible, kind)
            case S.PatternRecord(fields):
                for member, item in fields:
                    self.occur(member.span, Free(member.text, owner=""))
                    self.pattern(scope, item, visible, kind)
            case _:
                assert_never(p)

    # ── types and dimensions ───────────────────────────────────────────────────────────────────────────────────────────

    def type(self, scope: _Scope, t: S.Type) -> None:
        match t:
            case S.TypeName(parts, args):
                if len(parts) == 2:
                    self.occur(parts[0].span, Free(parts[0].text))
                    self.occur(parts[1].span, Free(parts[1].text, True, parts[0].text))
                else:
                    self.occur(parts[0].span, scope.type(parts[0].text) or Free(parts[0].text, True))
                self.arguments(scope, args or ())
            case S.TypeVar(name, args):
                self.occur(_after_quote(t.span, name), scope.variable(name))
                self.arguments(scope, args or ())
            case S.TypeFun(param, result):
                self.type(scope, param)
                self.type(scope, result)
            case S.TypeOrScalar(whole):
                self.type(scope, whole)
            case S.TypeDimFun(names, result):
                for written in names:
                    self.occur(written.span, scope.value(written.text))
                self.type(scope, result)
            case S.TypeExists(bound_name, bound, body):
                inner = scope.child()
                binding = self.bind(Kind.DIMENSION, bound_name.text, bound_name.span, t.span)
                inner.values[bound_name.text] = binding
                self.occur(bound_name.span, binding)
                if bound is not None:
                    self.dim(scope, bound)
                self.type(inner, body)
            case S.TypeTuple(items):
                for item in items:
                    self.type(scope, item)
            case S.TypeRecord(fields):
                for field_name, item in fields:
                    self.occur(field_name.span, Free(field_name.text, owner=""))
                    self.type(scope, item)
            case _:
                assert_never(t)

    def arguments(self, scope: _Scope, args: tuple[S.TypeArg, ...]) -> None:
        for arg in args:
            match arg:
                case S.ShapeRun(name):
                    self.occur(_tail(arg.span, name), scope.run(name))
                case S.TypeVar():
                    self.type(scope, arg)
                case S.DimName(name) if name in ELEMENTS and scope.value(name) is None:
                    self.occur(arg.span, Free(name, True))
                case _:
                    self.dim(scope, arg)

    def dim(self, scope: _Scope, d: S.Dim) -> None:
        match d:
            case S.DimName(name):
                self.occur(d.span, scope.value(name) or Free(name))
            case S.DimInt():
                pass
            case S.DimNegate(operand):
                self.dim(scope, operand)
            case S.DimBinary(_, left, right):
                self.dim(scope, left)
                self.dim(scope, right)
            case S.DimCall(function, args):
                self.expr(scope, S.Var(function.text, span=function.span))
                for arg in args:
                    self.dim(scope, arg)
            case _:
                assert_never(d)

    def facts(self, scope: _Scope, facts: tuple[S.Fact, ...]) -> None:
        for fact in facts:
            self.dim(scope, fact.left)
            self.dim(scope, fact.right)

    # ── expressions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def expr(self, scope: _Scope, e: S.Expr) -> None:
        match e:
            case S.Var(name):
                self.occur(e.span, scope.value(name) or Free(name))
            case S.Int() | S.Float() | S.Operator():
                pass
            case S.Apply(function, argument):
                self.expr(scope, function)
                self.expr(scope, argument)
            case S.ApplyDims(function, dims):
                self.expr(scope, function)
                for d in dims:
                    self.dim(scope, d)
            case S.Unary(_, operand):
                self.expr(scope, operand)
            case S.Binary(_, left, right):
                self.expr(scope, left)
                self.expr(scope, right)
            case S.Tuple(items) | S.Array(items):
                for item in items:
                    self.expr(scope, item)
            case S.Record(fields):
                for given, value in fields:
                    self.occur(given.span, Free(given.text, owner=""))
                    self.expr(scope, value)
            case S.Field(record, member):
                self.expr(scope, record)
                local = not isinstance(record, S.Var) or scope.value(record.name) is not None
                owner = "" if local or not isinstance(record, S.Var) else record.name
                self.occur(member.span, Free(member.text, owner=owner))
            case S.Project(value):
                self.expr(scope, value)
            case S.Like():  # which nobody writes
                self.expr(scope, e.value)
                self.expr(scope, e.drawn)
            case S.Access(base, subscripts, default):
                self.expr(scope, base)
                for subscript in subscripts:
                    self.subscript(scope, subscript)
                if default is not None:
                    self.expr(scope, default)
            case S.Ascribe(value, written) | S.Coerce(value, written):
                self.expr(scope, value)
                self.type(scope, written)
            case S.Cast():
                self.cast(scope, e)
            case S.Let():
                self.let(scope, e)
            case S.Fn(params, body):
                inner = scope.child()
                for param in params:
                    self.pattern(inner, param, Span(e.span.file, param.span.end, e.span.end), Kind.PARAMETER)
                self.expr(inner, body)
            case S.If(condition, then, otherwise):
                for part in (condition, then, otherwise):
                    self.expr(scope, part)
            case S.For(groups, body):
                inner = self.groups(scope, groups, e)
                self.expr(inner, body)
            case S.Reduce():
                self.occur(e.kind.span, Free(e.kind.text))
                inner = self.groups(scope, e.groups, e)
                if e.where is not None:
                    self.expr(inner, e.where)
                self.expr(inner, e.body)
                if e.monoid is not None:
                    self.expr(scope, e.monoid)
            case S.Loop():
                self.loop(scope, e)
            case _:
                assert_never(e)

    def cast(self, scope: _Scope, e: S.Cast) -> None:
        if e.element.text.startswith("'"):
            self.occur(_after_quote(e.element.span, e.element.text), scope.variable(e.element.text))
        elif e.element.text != "_":
            self.occur(e.element.span, Free(e.element.text, True))
        if e.value is not None:
            self.expr(scope, e.value)

    def loop(self, scope: _Scope, e: S.Loop) -> None:
        for _, initial in e.states:
            self.expr(scope, initial)
        inner = scope.child()
        for pattern, _ in e.states:
            self.pattern(inner, pattern, Span(e.span.file, pattern.span.end, e.span.end), Kind.VALUE)
        if e.condition is not None:
            self.expr(inner, e.condition)
        for group in e.groups:  # bounds do not see the state
            if group.bound is not None and not isinstance(group.bound, S.ShapeRun):
                self.expr(scope, group.bound)
        inner = self.groups(inner, tuple(S.BinderGroup(g.binders, None, span=g.span) for g in e.groups), e)
        self.expr(inner, e.body)

    def groups(self, scope: _Scope, groups: tuple[S.BinderGroup, ...], e: S.For | S.Reduce | S.Loop) -> _Scope:
        inner = scope.child()
        bound: list[Binding | None] = []
        for group in groups:
            match group.bound:
                case None:
                    pass
                case S.ShapeRun(run):
                    self.occur(_tail(group.bound.span, run), inner.run(run))
                case extent:
                    self.expr(inner, extent)
            for binder in group.binders:
                match binder:
                    case S.IndexBinder(name):
                        bound.append(self.index(inner, Kind.INDEX, name, binder.span, e.span))
                    case S.RunBinder(run_name):
                        named = run_name if run_name is not None else ANONYMOUS_RUN
                        span = binder.span if run_name is None else _tail(binder.span, run_name)
                        bound.append(self.index(inner, Kind.RUN, named, span, e.span))
                    case S.ProductBinder(names):
                        bound += [self.index(inner, Kind.INDEX, n.text, n.span, e.span) for n in names]
                    case _:
                        assert_never(binder)
        self.indices[place(e.span)] = tuple(bound)
        return inner

    def index(self, scope: _Scope, kind: Kind, name: str, span: Span, around: Span) -> Binding | None:
        if name == "_":
            return None
        binding = self.bind(kind, name, span, Span(span.file, span.end, around.end))
        (scope.runs if kind is Kind.RUN else scope.values)[name] = binding
        self.occur(span, binding)
        return binding

    def subscript(self, scope: _Scope, s: S.Subscript) -> None:
        match s:
            case S.IndexAt(value):
                self.expr(scope, value)
            case S.IndexSplit(items):
                for item in items:
                    self.expr(scope, item)
            case S.IndexRun(name):
                self.occur(_tail(s.span, name), scope.run(name))
            case S.IndexRest():
                self.occur(s.span, scope.run(ANONYMOUS_RUN))
            case S.IndexSlice(start, stop, step):
                for part in (start, stop, step):
                    if part is not None:
                        self.expr(scope, part)
            case _:
                assert_never(s)


def _inner(t: S.Type) -> S.Type:
    while isinstance(t, S.TypeDimFun):
        t = t.result
    return t


def _tail(span: Span, name: str) -> Span:
    """The name of `..name`."""
    return Span(span.file, span.end - len(name), span.end)


def _after_quote(span: Span, name: str) -> Span:
    """The name of `'a`, which arguments may follow."""
    return Span(span.file, span.start + 1, span.start + len(name))
