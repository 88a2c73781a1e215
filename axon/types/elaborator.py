"""What every part of inference shares: the state, the list of diagnostics, and unification that reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from axon.base.diagnostics import Diagnostic
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.algebra.divisibility import is_divisibility
from axon.shapes.constraint import NOWHERE, Context, Equal, Obligation, Range, Reason, Side
from axon.shapes.dimension import MAX_DEGREE, MAX_TERMS, Dim, DimensionTooLarge, atom_key
from axon.shapes.relation import Relation
from axon.types import typed as T
from axon.types.constraint import Deferred
from axon.types.literals import Literal, of_use
from axon.types.resolve import OF_NAMES, Module, Scope, with_use
from axon.types.symbolic import Says
from axon.types.trouble import Meant, Mismatched, Trouble
from axon.types.type import ElementType, Poison, Scheme, SchemeFact, Tensor, Type
from axon.types.typed import Instance
from axon.types.unify import Mismatch, State


@dataclass(frozen=True, slots=True)
class Binding:
    """An index: its range, and the text that binds it, with its bound."""

    range: Range
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """What a scheme keeps of its function, for who follows a size into it when something is wrong (`axon.suggest.bodies`)."""

    by: Elaborator  # which inferred it
    name: str  # "" of one within a declaration
    outermost: bool  # no declaration stands around it
    type: Type
    explicit: tuple[Symbol, ...]
    params: tuple[T.Pattern, ...]
    expr: T.Expr
    equals: tuple[Equal, ...]
    flexible: tuple[Symbol, ...]
    made: dict[tuple[int, int, tuple[int | str, ...]], object] = field(default_factory=dict)  # what has been found of its result


@dataclass(frozen=True, slots=True, eq=False)
class Env:
    """Where an expression stands: the names in scope, and what is known about sizes there."""

    scope: Scope
    context: Context = NOWHERE
    repeated: bool = False  # under a comprehension, reduction or loop, where no existential can be opened

    def within(self, scope: Scope) -> Env:
        return replace(self, scope=scope)

    def guarded(self, by: Says) -> Env:
        """Under a condition that says this."""
        c = self.context
        return replace(self, context=Context(c.indices, c.guards + by.facts, c.conditions + 1, c.doubtful or not by.exact))

    def indexed(self, indices: tuple[tuple[Symbol, Dim], ...], scope: Scope) -> Env:
        c = self.context
        return Env(scope, replace(c, indices=c.indices + indices), True)


Words: TypeAlias = "Callable[[Elaborator, Trouble], Iterable[Diagnostic]]"  # what is said of a trouble, when it is found

_MAX_COMPARED = 100  # earlier diagnostics that one is compared with


class Elaborator(ABC):
    """Infers one module. Split over files by what is inferred; `Declarations` is the whole."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.state = State()
        self.diagnostics: list[Diagnostic] = []
        self.deferred: list[Deferred] = []
        self.guards: dict[Deferred, Context] = {}  # where those are needed, if not everywhere
        self.used: dict[Symbol, Body] = {}  # of functions that are used, as in their schemes
        self.modules: dict[str, Module] = {}  # of which members are used, by the names that they have here
        self.parameters: dict[Symbol, tuple[T.Pattern, ...]] = {}  # of the functions declared so far
        self.defining: list[str] = []  # the declarations around
        self.heading: list[S.Fun] = []  # the functions among them
        self.circular: list[S.TypeDecl] = []  # types that contain themselves, each reported once
        self.binders: dict[Symbol, Binding] = {}  # every index of this declaration
        self.ended: dict[str, Span] = {}  # indices of this declaration, most of them out of scope
        self.private: dict[str, tuple[str, Span]] = {}  # sizes that annotations of local functions name, of no one else
        self.later: dict[str, Span] = {}  # what the rest of the file defines
        self.importable: Callable[[S.Name], bool] = lambda name: False  # whether there is a module of a name
        self.library: Callable[[str, Span], list[str]] = lambda name, at: []  # modules of the standard library with a value
        self.unknown: set[str] = set()  # what was said in this declaration of names that nothing introduces, and of type variables
        self.consequences = 0  # uses of broken declarations, which were reported where they stand
        self.literals: list[Literal] = []  # whose types must hold their values
        self.coercions: list[tuple[Type, Type, Span]] = []
        self.opened = 0  # sizes that only the data decide, named so far
        self.divided: list[ElementType] = []  # of what `/` divides
        self.wanted: list[tuple[Dim, Span, str, str]] = []  # sizes that uses of functions must determine: where, of which, its name
        self.closures: list[tuple[Type, tuple[Symbol, ...], Span]] = []  # `fn`s, and the sizes that one call names
        self.origins: list[tuple[Dim, Span]] = []  # where annotations mention sizes
        self.expanded_origins: list[tuple[Dim, Span, Span, tuple[str, ...]]] = []  # … by types that they name (where), in fields
        self.named: dict[Symbol, tuple[Says, Says]] = {}  # what conditions with a name say
        self.explains = True  # or says only that something is wrong with the sizes of a declaration, not why
        self.annotations: list[Span] = []
        self.signed: dict[Span, Span] = {}  # where a `sig` writes the type of a parameter, by its pattern
        self.written_fields: dict[Span, None] = {}  # `w : f32[d, k]` in types
        self.inner: list[tuple[str, Span, Type]] = []  # what the names inside declarations turned out to be

    @abstractmethod
    def infer(self, env: Env, expr: S.Expr, expected: Type | None = None) -> T.Expr: ...

    def wrong(self, trouble: Trouble) -> None:
        """Say what is wrong."""
        for diagnostic in self.words(self, trouble):
            self.report(diagnostic)

    def report(self, diagnostic: Diagnostic) -> None:
        """Say that something is wrong, once, as of an alias used twice; that nothing introduces a name once in a declaration."""
        if diagnostic.code in OF_NAMES:
            if diagnostic.message in self.unknown:
                self.consequences += 1
                self.diagnostics[:] = [with_use(d, diagnostic) if d.message == diagnostic.message else d for d in self.diagnostics]
                return
            self.unknown.add(diagnostic.message)
        if diagnostic.code == "AX0211":  # a type variable that is wrongly general is so once in a declaration
            if diagnostic.message in self.unknown:
                self.consequences += 1
                return
            self.unknown.add(diagnostic.message)
        if diagnostic in self.diagnostics[-_MAX_COMPARED:]:
            self.consequences += 1
            return
        self.diagnostics.append(diagnostic)

    def unify(
        self, left: Type, right: Type, reason: Reason, written: Mapping[Symbol, Dim] = MappingProxyType({}),
        meant: Meant | None = None, quiet: bool = False,
    ) -> bool:  # fmt: skip
        """Make `left`, which stands in the source, what is needed; reports (unless `quiet`) and answers False if that cannot be.

        `written`: what a message shows in the place of sizes that are left open.
        """
        try:
            self.state.unify(left, right, reason)
        except Mismatch as m:
            self.state.dims.update(written)
            if not quiet:
                self.wrong(Mismatched(m, left, right, reason, meant))
            return False
        return True

    def narrow(self, t: Type, allowed: frozenset[Element], reason: Reason) -> bool:
        """Restrict the element type of a tensor."""
        t = self.state.prune(t)
        if not isinstance(t, Tensor):
            return isinstance(t, Poison)
        try:
            self.state.narrow(t.element, allowed)
        except Mismatch as m:
            self.wrong(Mismatched(m, t, t, reason))
            return False
        return True

    def equal(self, left: Dim, right: Dim, reason: Reason) -> None:
        if left != right:
            self.state.equals.append(Equal(left, right, reason))

    @contextmanager
    def only_where(self, context: Context) -> Iterator[None]:
        """What is found equal inside, or put off, is needed only there."""
        if not context.guards:
            yield
            return
        state = self.state
        equals, stretches, waiting = len(state.equals), len(state.stretches), set(self.deferred)
        yield
        state.equals[equals:] = [replace(e, context=context) if e.context is NOWHERE else e for e in state.equals[equals:]]
        state.stretches[stretches:] = [
            replace(s, context=context) if s.context is NOWHERE else s for s in state.stretches[stretches:]
        ]
        for constraint in self.deferred:
            if constraint not in waiting:
                self.guards.setdefault(constraint, context)

    def oblige(self, relation: Relation, context: Context, reason: Reason, sized: bool = False) -> None:
        if relation.trivial is not True:
            self.state.obligations.append(Obligation(relation, context, reason, sized=sized))

    def as_tensor(self, t: Type, span: Span, text: str = "a tensor is needed here", meant: Meant | None = None) -> Tensor | None:
        """The type as a tensor's, made one if nothing is known of it; None (after a report, or of poison) if it is another."""
        t = self.state.prune(t)
        if isinstance(t, Tensor):
            return t
        if isinstance(t, Poison):
            return None
        new = self.state.tensor()
        return new if self.unify(t, new, Reason(span, text), meant=meant) else None

    def instantiate(self, scheme: Scheme, span: Span, name: str, context: Context, given: tuple[Dim, ...] = ()) -> Instance:
        """Fresh variables for a scheme's; its facts become obligations of this use."""
        state = self.state
        instance = Instance(
            {s: state.type_var(s.name) for s in scheme.types},
            {s: state.element_var(allowed, s.name) for s, allowed in scheme.elements},
            {s: (state.row(s.name),) for s in scheme.rows},
            {s: state.dim(s.name, loose=s in scheme.loose) for s in scheme.dims} | dict(zip(scheme.explicit, given, strict=False)),
        )
        state.quotient_dims.update(found for s in scheme.quotients if (found := instance.dims[s].symbol) is not None)
        self.divided += [instance.elements[s] for s in sorted(scheme.divides, key=lambda s: s.id)]
        self.wanted += [(instance.dims[s], span, name, s.name) for s in sorted(scheme.read, key=lambda s: s.id)]
        self.literals += of_use(scheme, instance.elements, span)
        for fact in (*scheme.facts, *_divisors(scheme.facts)):
            self._require(fact, instance, span, name, context, lambda s: scheme.names.get(s, s.name))
        return instance

    def _require(
        self, fact: SchemeFact, instance: Instance, span: Span, name: str, context: Context, called: Callable[[Symbol], str]
    ) -> None:
        try:
            relation = fact.relation.substitute(instance.dims)
        except DimensionTooLarge:
            self.too_complex(span)
            return
        mentioned = sorted(fact.relation.variables, key=lambda s: (instance.dims.get(s, Dim.of(s)).constant is None, s.id))
        subject = tuple((called(s), instance.dims[s]) for s in mentioned if s in instance.dims)
        asked = (fact.relation, tuple(s for s in mentioned if s in instance.dims))
        needs = f"`{name}` needs {fact.relation.render(called)}"
        at = fact.span
        same = at is not None and at.file.path == span.file.path  # by name: in an editor, a declaration is a file of its own
        source = (Side(at, fact.why.partition(":")[0]),) if at is not None and same else ()
        obligation = Obligation(relation, context, Reason(span, needs, source), subject=subject, asked=asked)
        if relation.op == "=" and relation.variables and not is_divisibility(relation):
            sides = tuple(Side(span, f"its {side} is {{}}") for side in (fact.relation.left, fact.relation.right))
            if relation.left != relation.right:
                self.state.equals.append(Equal(relation.left, relation.right, Reason(span, needs, sides), asked=obligation))
        elif relation.trivial is not True:
            self.state.obligations.append(obligation)

    def too_complex(self, span: Span) -> None:
        from axon.base.diagnostics import Label

        message = "the sizes in this expression are too complicated"
        note = f"a size may have at most {MAX_TERMS} terms and {MAX_DEGREE} factors"
        self.report(Diagnostic("AX0309", message, (Label(span, "grows beyond what can be reasoned about"),), (note,)))


def _divisors(facts: Sequence[SchemeFact]) -> list[SchemeFact]:
    """What facts say by dividing: a divisor is at least 1, also where no division is left for the sizes of a use: n % n = 0."""
    found: dict[Relation, SchemeFact] = {}
    for fact in facts:
        for side in (fact.relation.left, fact.relation.right):
            for quotient in sorted(side.quotients, key=atom_key):
                if quotient.divisor.constant is None:
                    least = Relation(quotient.divisor, ">=", Dim.of(1))
                    found.setdefault(least, replace(fact, relation=least, why="a divisor: {}"))
    stated = {fact.relation for fact in facts}
    return [fact for least, fact in found.items() if least not in stated]
