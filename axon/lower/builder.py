"""Building a block of core: operations on only the indices they use.

A Context is where an expression is evaluated: the axes of the comprehensions around it, and the guards that hold there. Storing a
tensor (`store`) or reducing (`reduce`) looks at what the body mentions, and makes an operation over just those axes, which every
outer index then shares.

Note [Guards]
    An operation taken out of a guarded expression runs for every index, and one taken out of a range runs though the range may be
    empty. That is harmless unless it reads what only the guard, or an index of the range, makes right, or could fail; then the
    guard goes with it, and that the ranges which it leaves are not empty. `risk` counts such reads while a body is lowered. One
    that has a name, or is given to a function, counts again wherever that is evaluated (`guarded` of a value).

Note [Dependent ranges]
    `sum k < i => e` reduces over an axis whose extent mentions another. An operation that leaves such a reduction runs over the
    largest extent, guarded by `k < i`, since a tensor is rectangular. Where it is not clear what is largest, `upper_bound` says
    what is large enough: that may be past the end of what is read, and only the guard keeps it from being evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from types import MappingProxyType
from typing import TypeVar

from axon.base.data import dataclass, field, replace
from axon.base.diagnostics import Diagnostic, Label
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.identity import IdentityMap, IdentitySet
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.gradients.operations import UserRule
from axon.core.ir import (
    Axis,
    Bind,
    Block,
    Check,
    Compress,
    Compute,
    Const,
    Index,
    Local,
    Loop,
    Monoid,
    Op,
    Read,
    Reduction,
    Scalar,
    Scan,
    Select,
    Sort,
    Value,
    element_of,
)
from axon.core.ir import Binary as CoreBinary
from axon.core.scalar_facts import comparison, conjunction
from axon.core.walk import nodes
from axon.lower.extents import Extents, divides
from axon.lower.scalars import facts, mentioned, simplified, sizes_alone, substitute, zero
from axon.lower.value import Subscripts, TensorValue
from axon.shapes.algebra.prove import Answer, Facts, proves
from axon.shapes.algebra.questions import form
from axon.shapes.algebra.upper_bound import upper_bound
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum
from axon.shapes.relation import Relation
from axon.shapes.solving.reach import Reach
from axon.shapes.width import exact


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The axes around an expression, outermost first, and the guards that hold where it stands."""

    axes: tuple[Axis, ...] = ()
    guards: tuple[Scalar, ...] = ()

    def with_axes(self, axes: Sequence[Axis]) -> Context:
        return replace(self, axes=(*self.axes, *axes))

    def guarded(self, condition: Scalar) -> Context:
        return replace(self, guards=(*self.guards, condition))


T = TypeVar("T")
Step = Callable[[list[TensorValue], Context], list[TensorValue]]  # of a loop: from states, in a context, to the next
Test = Callable[[list[TensorValue], Context], Scalar]  # whether there is one


class _Wider(Exception):
    """What is made mentions more axes of its context than those over which it is stored."""

    def __init__(self, axes: frozenset[Symbol]) -> None:
        super().__init__()
        self.axes = axes


@dataclass(slots=True, eq=False)
class CoreBuilder:
    known: Facts  # the contract, and what is known of sizes that only data decide
    ops: list[Op] = field(default_factory=list)
    constants: list[Op] = field(default_factory=list)  # what stands before all others: values of modules
    locals: dict[Symbol, Scalar] = field(default_factory=dict)
    shapes: dict[Symbol, tuple[Dim, ...]] = field(default_factory=dict)  # of what can be read
    risk: int = 0
    calls: int = 0  # of functions
    extents: Extents = field(default_factory=Extents)
    stopped: set[Symbol] = field(default_factory=set)  # through which no derivative goes
    rules: list[UserRule] = field(default_factory=list)  # of functions whose derivatives the program says
    functions: IdentityMap[object, int] = field(default_factory=IdentityMap)  # numbers of what functions are, see `kept_calls`
    derivatives: int = 0  # so many were taken, and rules declared
    here: Span | None = None  # the last arithmetic that can fail, for an operation that has no place of its own

    # ── facts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def facts(self, context: Context, guards: bool = True, about: Subscripts | None = None) -> Facts:
        """What holds in a context; `about` leaves only the axes that subscripts mention, and those that their extents do."""
        found = self.known
        for axis in reversed(context.axes) if about is None else _mentioned(context, about):
            found = found.index(axis.symbol, axis.extent)
        if guards:
            found = found.assume(*(r for g in context.guards for r in facts(g)))
        return found

    def equal(self, x: Dim, y: Dim) -> bool:
        """Whether two sizes are equal whatever guards stand around them."""
        if x == y:
            return True
        return not self.extents.fragile((x, y), self.known) and proves(self.known, Relation(x, "=", y))

    def note(self, extent: Dim, context: Context) -> None:
        """An extent stands in a context: it may have a value only there."""
        if not extent.variables or (exact(extent, 32) and not extent.quotients):
            return
        guards = tuple(r for g in context.guards for r in facts(g))
        axes = {a.symbol for a in context.axes}
        inside = bool(axes or context.guards)
        self.extents.note(extent, axes, guards, inside, self.known, lambda: self.facts(context))

    def read(self, base: TensorValue, subscripts: Subscripts, context: Context, span: Span, inside: bool = False) -> Scalar:
        """An element of a tensor. What cannot be proved to lie inside, unless it is known to be, is compared with the size at run
        time."""
        safety = Answer.PROVED if inside else self._safety(base, subscripts, context)
        if safety is not Answer.PROVED or base.guarded or self._fragile(base, subscripts, context):
            self.risk += 1
        element = base.at(subscripts)
        if safety is Answer.UNKNOWN:
            return self._checked(base, element, subscripts, context, span)
        return element

    def inside(self, base: TensorValue, subscripts: Subscripts, context: Context) -> bool:
        """Whether what is read at subscripts is seen to be inside, wherever the axes in them are: then a default is never taken."""
        proved = self._safety(base, subscripts, context) is Answer.PROVED
        return proved and not base.guarded and not self._fragile(base, subscripts, context)

    def _fragile(self, base: TensorValue, subscripts: Subscripts, context: Context) -> bool:
        """Whether only guards give a value to something that subscripts, or the proof that they are inside, speak of."""
        dims = [s for s in subscripts if isinstance(s, Dim)]
        if (context.guards or context.axes) and any(divides(s, self.known) for s in dims):
            return True
        mentioned = {v for d in dims for v in d.variables}
        extents = [a.extent for a in context.axes if a.symbol in mentioned]
        return self.extents.fragile((*dims, *base.shape, *extents), self.known)

    def _safety(self, base: TensorValue, subscripts: Subscripts, context: Context) -> Answer:
        """PROVED: inside wherever the axes in it are; REFUTED: only where guards hold, or other axes exist; UNKNOWN: not proved."""
        if not all(isinstance(s, Dim) for s in subscripts):
            return Answer.UNKNOWN
        answer = Answer.PROVED
        guarded = None
        extents = {axis.symbol: axis.extent for axis in context.axes}
        for subscript, size in zip(subscripts, base.shape, strict=True):
            assert isinstance(subscript, Dim)
            if (axis := subscript.symbol) is not None and extents.get(axis) == size:
                continue  # an index that runs over this very dimension
            for relation in (Relation(subscript, ">=", Dim.of(0)), Relation(subscript, "<", size)):
                if relation.trivial is True:
                    continue
                if self._always(relation, subscripts, context):
                    continue
                if not context.guards and len(_mentioned(context, subscripts)) == len(context.axes):
                    return Answer.UNKNOWN  # nothing more is known
                guarded = self.facts(context) if guarded is None else guarded
                if not self._holds(relation, guarded, context.axes, context.guards):
                    return Answer.UNKNOWN
                answer = Answer.REFUTED
        return answer

    def _always(self, relation: Relation, subscripts: Subscripts, context: Context) -> bool:
        """Whether a relation is proved of the axes that subscripts mention, whatever guards stand around them; asked once of all
        that have one form."""
        always = self.known.found("inside")
        asked = None
        if not always.idle:
            axes = _mentioned(context, subscripts)
            dims = [relation.left, relation.right, *(axis.extent for axis in axes)]
            asked = form([axis.symbol for axis in axes], dims, self.known)
        known: bool | None = None if asked is None else always.get((relation.op, asked))
        if known is None:
            known = self._holds(relation, self.facts(context, guards=False, about=subscripts), context.axes)
            if asked is not None:
                always.keep((relation.op, asked), known)
        return known

    def _holds(self, relation: Relation, known: Facts, axes: Sequence[Axis], guards: Sequence[Scalar] = ()) -> bool:
        """Whether a relation is proved, as it stands or at the end of the axes that is worst for it."""
        if proves(known, relation):
            return True
        if not relation.slack.quotients or divides(relation.slack, known):
            return False
        reach = Reach(self.known, {a.symbol: a.extent for a in axes}, tuple(r for g in guards for r in facts(g)))
        try:
            worst = reach.extreme(relation.slack, upper=False)
        except DimensionTooLarge:
            return False
        return worst is not None and proves(known, Relation(worst, ">=", Dim.of(0)))

    def _checked(self, base: TensorValue, element: Scalar, subscripts: Subscripts, context: Context, span: Span) -> Scalar:
        if isinstance(element, Read) and element.padding is None and self._is_whole(element, base, subscripts, context):
            return replace(element, checked=span)
        # Of a slice, or any view whose reads are not the subscripts themselves, the view's own sizes count.
        whole = replace(base, symbol=None, lazy=True)
        stored = self.store(whole, context)
        found = stored.at(subscripts)
        assert isinstance(found, Read)
        return replace(found, checked=span)

    def _is_whole(self, element: Read, base: TensorValue, subscripts: Subscripts, context: Context) -> bool:
        """Whether a read is at the very subscripts, of dimensions of the same sizes: then it may be checked itself.

        Of those that are known to be inside it does not matter.
        """
        shape = self.shapes.get(element.tensor)
        places = list(zip(element.subscripts, shape, strict=True)) if shape is not None else []
        rest = [(s, size) for s, size in zip(subscripts, base.shape, strict=True) if (s, size) not in places]
        facts = self.facts(context) if rest else self.known
        return all(
            isinstance(s, Dim) and proves(facts, Relation(s, ">=", Dim.of(0))) and proves(facts, Relation(s, "<", size))
            for s, size in rest
        )

    # ── scalars with a name ────────────────────────────────────────────────────────────────────────────────────────────

    def name(self, scalar: Scalar, name: str, context: Context, risky: bool) -> Scalar:
        """A scalar that is used more than once, evaluated once in each operation that needs it."""
        symbol = fresh(name)
        guard = self._standing(context, [scalar], risky)[1] if risky else None
        self.locals[symbol] = scalar if guard is None else _under(guard, scalar)
        return Local(symbol, element_of(scalar))

    def _bound(self, scalar: Scalar) -> Scalar:
        """The scalar with the locals it mentions defined in front of it, under names of their own."""
        needed: set[Symbol] = set()
        waiting: set[Symbol] = set()
        seen: IdentitySet[Scalar] = IdentitySet()
        mentioned(scalar, waiting, seen)
        while waiting:
            symbol = waiting.pop()
            if symbol in self.locals and symbol not in needed:
                needed.add(symbol)
                mentioned(self.locals[symbol], waiting, seen)
        if not needed:
            return scalar
        order = sorted(needed, key=lambda s: s.id)  # a local mentions only older ones
        renamed = {s: fresh(s.name) for s in order}
        shared: IdentityMap[Scalar, Scalar] = IdentityMap()
        bindings = tuple((renamed[s], substitute(self.locals[s], {}, renamed, shared)) for s in order)
        return Bind(bindings, substitute(scalar, {}, renamed, shared))

    def _uses(self, scalars: Sequence[Scalar | Dim]) -> set[Symbol]:
        """Every axis that scalars mention, also through locals."""
        found: set[Symbol] = set()
        seen: IdentitySet[Scalar] = IdentitySet()
        for scalar in scalars:
            mentioned(scalar, found, seen)
        waiting = [s for s in found if s in self.locals]
        while waiting:
            more: set[Symbol] = set()
            mentioned(self.locals[waiting.pop()], more, seen)
            waiting += [s for s in more - found if s in self.locals]
            found |= more
        return found

    @contextmanager
    def outside(self) -> Iterator[None]:
        """What is made meanwhile stands before everything else: also if it is first needed inside a loop."""
        ops, self.ops = self.ops, self.constants
        try:
            yield
        finally:
            self.ops = ops

    def block(self, results: tuple[Symbol, ...]) -> Block:
        """All operations."""
        return Block((*self.constants, *self.ops), results)

    # ── operations ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def store(self, value: TensorValue, context: Context, name: str = "t") -> TensorValue:
        """The tensor as a value of core, over the axes it depends on."""
        if value.symbol is not None and not value.lazy:
            return value
        axes = [Axis(fresh(f"i{n}" if len(value.shape) > 1 else "i"), extent) for n, extent in enumerate(value.shape)]
        before = self.risk
        body = value.at(tuple(Dim.of(a.symbol) for a in axes))
        risky = self.risk > before or value.guarded
        return self.compute(axes, (body,), context, risky, (name,), around=value.span)[0]

    def compute(
        self, axes: Sequence[Axis], body: Sequence[Scalar], context: Context, risky: bool, names: Sequence[str],
        reduction: tuple[Sequence[Axis], Monoid, Scalar | None] | None = None, span: Span | None = None,
        image: Mapping[Symbol, Dim] = MappingProxyType({}), around: Span | None = None,
    ) -> list[TensorValue]:  # fmt: skip
        """Store bodies over their own axes and those of the context that they mention; reduced, if so wished.

        Its place is `span`, or that of arithmetic in it that can fail, or else `around`. `image` puts expressions over the own axes
        for other variables of the bodies.
        """
        where = reduction[2] if reduction is not None else None
        inner = list(reduction[0]) if reduction is not None else []
        monoid = reduction[1] if reduction is not None else None
        mention: list[Scalar | Dim] = [*body, *(a.extent for a in [*axes, *inner])]
        if where is not None:
            mention.append(where)
        if monoid is not None:
            mention += [*monoid.units, *monoid.combine]
        outer, guard = self._standing(context, mention, risky)
        asked: Scalar | None = None
        if monoid is not None and _is_partial(monoid, body) and (guard is not None or self._may_be_nothing(inner, where, context)):
            outer, asked = self._standing(context, mention, True)
        rename, place = self._placing([*outer, *axes, *inner], image)
        domain = [Axis(rename[a.symbol], self._hull(a, context)) for a in outer]
        domain += [Axis(rename[a.symbol], _renamed(a.extent, rename)) for a in axes]
        reduce_: Reduction | None = None
        if monoid is not None:
            condition = conjunction(tuple(g for g in (guard, where) if g is not None))
            units = tuple(place(u if guard is None else _under(guard, u)) for u in monoid.units)
            combine = tuple(place(c) for c in monoid.combine)
            reduce_ = Reduction(
                tuple(Axis(rename[a.symbol], _renamed(a.extent, rename)) for a in inner),
                replace(monoid, units=units, combine=combine),
                None if condition is None else place(condition),
                None if asked is None else place(asked),
            )
            placed = tuple(place(b) for b in body)
        else:
            placed = tuple(place(b if guard is None else _under(guard, b)) for b in body)
        shape = tuple(a.extent for a in domain)
        elements = [element_of(b) for b in body]
        if monoid is not None and monoid.kind in ("argmax", "argmin"):
            elements = elements[1:]
        outs = tuple(Value(fresh(n), e, shape) for n, e in zip(names, elements, strict=True))
        at = span or (self.here if any(map(_can_fail, placed)) else around)
        self.ops.append(Compute(outs, tuple(domain), reduce_, placed, at))
        prefix = tuple(Dim.of(a.symbol) for a in outer)
        return [self.view(out, prefix) for out in outs]

    def _placing(
        self, axes: Sequence[Axis], image: Mapping[Symbol, Dim]
    ) -> tuple[dict[Symbol, Symbol], Callable[[Scalar], Scalar]]:
        """New names for the axes of one operation, and how to put a scalar into it: with its locals, under the new names."""
        rename = {a.symbol: fresh(a.symbol.name) for a in axes}
        dims = {old: Dim.of(new) for old, new in rename.items()}
        dims |= {old: _renamed(d, rename) for old, d in image.items()}
        shared: IdentityMap[Scalar, Scalar] = IdentityMap()
        return rename, lambda scalar: substitute(self._bound(scalar), dims, {}, shared)

    def _may_be_nothing(self, inner: Sequence[Axis], where: Scalar | None, context: Context) -> bool:
        """Whether a reduction over these axes may have nothing to reduce, anywhere that the context or its guards leave out too."""
        extents = [a.extent for a in inner]
        if where is not None or not all(proves(self.known, Relation(e, ">=", Dim.of(1))) for e in extents):
            return True
        # Where the guards are false, a range that they keep small has no indices.
        return (bool(context.guards) and not all(exact(e, 32) for e in extents)) or self.extents.fragile(extents, self.known)

    def _standing(self, context: Context, mention: Sequence[Scalar | Dim], risky: bool) -> tuple[list[Axis], Scalar | None]:
        """The axes of the context that an operation stands on which mentions these, and the guard that goes with it.

        The guard says that the indices exist at which a dependent range is cut, and, if risky, that the ranges which the operation
        leaves have an index, and what guards the context: in this order, for each is right only where those before it hold.
        """
        outer, dependent = self._outer(context, mention, risky)
        if not risky:
            return outer, conjunction(tuple(dependent))
        used = {a.symbol for a in outer}
        conditions = [*self._existence(context, used), *context.guards]
        outer, dependent = self._outer(context, [*mention, *conditions], risky)
        return outer, conjunction((*dependent, *conditions))

    def _existence(self, context: Context, used: Set[Symbol]) -> list[Scalar]:
        """Conditions that say that the axes of the context that are not used have any index at all, where that is not known."""
        open_ = [
            a.extent for a in context.axes if a.symbol not in used and not proves(self.known, Relation(a.extent, ">=", Dim.of(1)))
        ]
        return [comparison("gt", self.extents.total(e, self.known), Dim.of(0)) for e in dict.fromkeys(open_)]

    def view(self, value: Value, prefix: tuple[Dim, ...] = ()) -> TensorValue:
        """A stored value; `prefix` are the subscripts for the axes of the context that it is stored over."""

        def at(subscripts: Subscripts) -> Scalar:
            return Read(value.symbol, (*prefix, *subscripts), value.element)

        self.shapes[value.symbol] = value.shape
        whole = value.symbol if not prefix else None
        return TensorValue(value.element, value.shape[len(prefix) :], at, symbol=whole)

    def _outer(self, context: Context, mention: Sequence[Scalar | Dim], risky: bool = False) -> tuple[list[Axis], list[Scalar]]:
        """The axes of the context that are needed, and the guards that dependent ranges among them bring.

        One axis whose range depends on axes that nothing mentions stands without them, over all indices that it has for any of
        theirs: what is right at an index is so for each, unless it is risky.
        """
        if not context.axes:
            return [], []
        used = self._uses(mention)
        own = {a.symbol for a in context.axes}
        dependent = [a for a in reversed(context.axes) if a.symbol in used and a.extent.variables & own]
        if not risky and len(dependent) == 1 and (alone := self._alone(dependent[0], used, context)) is not None:
            return [a for a in context.axes if a.symbol in used], alone
        conditions: list[Scalar] = []
        for axis in reversed(context.axes):
            if axis.symbol in used and axis.extent.variables & own:
                used |= axis.extent.variables
                conditions.append(comparison("lt", Dim.of(axis.symbol), self.extents.total(axis.extent, self.known)))
        return [a for a in context.axes if a.symbol in used], conditions[::-1]

    def _alone(self, axis: Axis, used: Set[Symbol], context: Context) -> list[Scalar] | None:
        """The conditions under which an axis whose range depends on others may stand without them; None if it may not."""
        others = [a for a in context.axes if a.symbol in axis.extent.variables]
        symbols = {a.symbol for a in context.axes}
        largest = self._largest_extent(axis, context)
        if largest is None or any(a.symbol in used or a.extent.variables & symbols for a in others):
            return None
        none = Relation(largest, "<=", Dim.of(0))
        return [
            comparison("gt", self.extents.total(a.extent, self.known), Dim.of(0))
            for a in others
            if not proves(self.known, Relation(a.extent, ">=", Dim.of(1)))
            and not proves(self.known.assume(Relation(a.extent, "<=", Dim.of(0))), none)
        ]

    def _largest_extent(self, axis: Axis, context: Context) -> Dim | None:
        """The largest extent of an axis whose range depends on axes of the context, where that is clear."""
        try:
            return Reach(self.known, {a.symbol: a.extent for a in context.axes}).extreme(axis.extent, upper=True)
        except DimensionTooLarge:
            return None

    def _hull(self, axis: Axis, context: Context) -> Dim:
        """An extent that an axis never exceeds, over the axes that its extent mentions: the largest, where that is clear."""
        if axis.extent.variables.isdisjoint(a.symbol for a in context.axes):
            return axis.extent
        found = self._largest_extent(axis, context)
        if found is None:
            found = upper_bound(axis.extent, {a.symbol: a.extent for a in context.axes}, self.known)
        self.note(found, context)
        return found

    def scan(
        self, axis: Axis, body: Sequence[Scalar], monoid: Monoid, context: Context, risky: bool, names: Sequence[str], span: Span
    ) -> list[TensorValue]:  # fmt: skip
        """The running combination along an axis."""
        mention: list[Scalar | Dim] = [*body, *monoid.units, *monoid.combine, axis.extent]
        outer, guard = self._standing(context, mention, risky)
        rename, place = self._placing([*outer, axis], {})
        domain = [Axis(rename[a.symbol], self._hull(a, context)) for a in outer]
        domain.append(Axis(rename[axis.symbol], _renamed(axis.extent, rename)))
        placed = tuple(place(b if guard is None else _under(guard, b)) for b in body)
        shape = tuple(a.extent for a in domain)
        outs = tuple(Value(fresh(n), element_of(b), shape) for n, b in zip(names, body, strict=True))
        units = tuple(place(u if guard is None else _under(guard, u)) for u in monoid.units)
        combine = tuple(place(c) for c in monoid.combine)
        self.ops.append(Scan(outs, tuple(domain), replace(monoid, units=units, combine=combine), placed, span))
        prefix = tuple(Dim.of(a.symbol) for a in outer)
        return [self.view(out, prefix) for out in outs]

    def anywhere(self, value: TensorValue) -> tuple[list[Axis], Scalar, bool]:
        """A tensor at fresh indices: these, what stands there, and whether that may fail."""
        own = [Axis(fresh("i"), extent) for extent in value.shape]
        before = self.risk
        scalar = value.at(tuple(Dim.of(a.symbol) for a in own))
        return own, scalar, self.risk > before or value.guarded

    def stored_over(self, value: TensorValue, context: Context, over: Sequence[Axis], name: str) -> Value:
        """The tensor stored over just these axes of the context, used or not, as a loop's state is. Raises `_Wider` for others."""
        own, body, risky = self.anywhere(value)
        outer, guard = self._standing(context, [body, *(Dim.of(a.symbol) for a in over)], risky)
        if len(outer) > len(over):
            raise _Wider(frozenset(a.symbol for a in outer))
        rename, place = self._placing([*over, *own], {})
        placed = place(body if guard is None else _under(guard, body))
        domain = [Axis(rename[a.symbol], self._hull(a, context)) for a in over]
        domain += [Axis(rename[a.symbol], _renamed(a.extent, rename)) for a in own]
        out = Value(fresh(name), value.element, tuple(a.extent for a in domain))
        self.ops.append(Compute((out,), tuple(domain), None, (placed,), self.here if _can_fail(placed) else value.span))
        return out

    def loop(
        self, initial: Sequence[TensorValue], trip: Scalar, extent: Dim, counter: Symbol, stacked: bool, context: Context,
        span: Span, step: Step, going: Test | None = None,
    ) -> list[TensorValue]:  # fmt: skip
        """Repeat a step over states, at once for every index of the context that they depend on, while a condition on them holds.

        On which they do is only known when the step has been lowered. It is lowered again, with states over more axes, until it
        mentions no others.
        """
        over, _ = self._outer(context, [trip])

        def looped(over: Sequence[Axis]) -> list[TensorValue]:
            return self._looped(initial, trip, extent, counter, stacked, context, over, span, step, going)

        return self.widened(looped, over, context)

    def widened(self, make: Callable[[Sequence[Axis]], T], over: Sequence[Axis], context: Context) -> T:
        """What is made over axes of the context: over those, and such others as it is found to mention."""
        while True:
            here, made, calls, rules = (self.known, self.risk), len(self.ops), self.calls, len(self.rules)
            ops = self.ops
            try:
                return make(over)
            except _Wider as wider:
                self.known, self.risk = here
                self.ops, self.calls = ops, calls
                del ops[made:], self.rules[rules:]
                over = [a for a in context.axes if a.symbol in wider.axes or a in over]

    def _looped(
        self, initial: Sequence[TensorValue], trip: Scalar, extent: Dim, counter: Symbol, stacked: bool, context: Context,
        over: Sequence[Axis], span: Span, step: Step, going: Test | None,
    ) -> list[TensorValue]:  # fmt: skip
        prefix = tuple(Dim.of(a.symbol) for a in over)
        outer = tuple(self._hull(a, context) for a in over)
        starts = [self.stored_over(v, context, over, "start").symbol for v in initial]
        states = [Value(fresh("state"), v.element, (*outer, *v.shape)) for v in initial]
        bound = self._uses([trip]) & {a.symbol for a in context.axes}
        limit = self._largest(trip, context, span) if bound else self.scalar(trip, context)
        inside = context
        if going is not None:
            first = [Value(s, v.element, state.shape) for s, v, state in zip(starts, initial, states, strict=True)]
            starts += self._going(going, first, None, context, over, span)
            flags = [Value(fresh("going"), Element.BOOL, outer)] + ([Value(fresh("going"), Element.BOOL, ())] if over else [])
            states += flags
            if over:  # the loops of different indices end at different times
                inside = context.guarded(self.view(flags[0], prefix).at(()))
        saved, self.ops = self.ops, []
        known, self.known = self.known, self.known.index(counter, extent)
        before = [self.view(s, prefix) for s in states[: len(initial)]]
        risk = self.risk
        after = step(before, inside)
        pairs = [xy for new, old in zip(after, before, strict=True) for xy in zip(new.shape, old.shape, strict=True)]
        if self.risk > risk or not all(self.equal(x, y) for x, y in pairs):  # only a guard makes it right
            after = [replace(new, shape=old.shape, guarded=True) for new, old in zip(after, before, strict=True)]
        after = [replace(new, shape=old.shape) for new, old in zip(after, before, strict=True)]  # also where facts make them equal
        steps = [*((simplified("lt", Index(Dim.of(counter)), trip),) if bound else ()), *inside.guards[len(context.guards) :]]
        on = conjunction(tuple(steps))
        if on is not None:
            after = [_choose(on, new, old) for new, old in zip(after, before, strict=True)]
        results = [self.stored_over(v, inside, over, "next").symbol for v in after]
        if going is not None:
            made = [replace(state, symbol=s) for s, state in zip(results, states, strict=False)]
            results += self._going(going, made, on, inside, over, span)
        block = Block(tuple(self.ops), tuple(results))
        self.ops, self.known = saved, known
        lead = (extent,) if stacked else ()
        outs = tuple(Value(fresh("last" if not stacked else "states"), s.element, (*lead, *s.shape)) for s in states)
        self.shapes |= {out.symbol: out.shape for out in outs}
        self.ops.append(Loop(outs, tuple(starts), tuple(states), counter, limit, block, stacked, going is not None, span))
        if not stacked:
            return [self.view(o, prefix) for o in outs[: len(initial)]]

        def unstacked(out: Value) -> TensorValue:
            def at(subscripts: Subscripts) -> Scalar:
                return Read(out.symbol, (subscripts[0], *prefix, *subscripts[1:]), out.element)

            whole = out.symbol if not prefix else None
            return TensorValue(out.element, (extent, *out.shape[1 + len(prefix) :]), at, symbol=whole)

        return [unstacked(o) for o in outs]

    def _going(
        self, going: Test, states: Sequence[Value], on: Scalar | None, context: Context, over: Sequence[Axis], span: Span
    ) -> list[Symbol]:
        """Whether a loop goes on from these states: for each index that it stands over, which is not asked again once it does not;
        and, as the last, for any."""
        prefix = tuple(Dim.of(a.symbol) for a in over)
        risk = self.risk
        found = going([self.view(s, prefix) for s in states], context)
        if on is not None:
            found = Select(on, found, Const(False, Element.BOOL))
        each = TensorValue(Element.BOOL, (), lambda _: found, guarded=self.risk > risk, span=span)
        stored = self.stored_over(each, context, over, "going").symbol
        if not over:
            return [stored]
        axes = [Axis(fresh(a.symbol.name), self._hull(a, context)) for a in over]
        read = Read(stored, tuple(Dim.of(a.symbol) for a in axes), Element.BOOL)
        out = Value(fresh("going"), Element.BOOL, ())
        self.ops.append(Compute((out,), (), Reduction(tuple(axes), Monoid("any"), None), (read,), span))
        return [stored, out.symbol]

    def scalar(self, scalar: Scalar, context: Context) -> Scalar:
        """A scalar that stands by itself: one that computes something is stored first."""
        if isinstance(scalar, (Index, Read)) and not self._uses([scalar]) & self.locals.keys():
            return scalar
        return self.compute((), (scalar,), context, False, ("t",))[0].at(())

    def _largest(self, trip: Scalar, context: Context, span: Span) -> Scalar:
        """The largest number of steps over the axes of the context."""
        mine, dependent = self._outer(context, [trip])
        exists = conjunction(tuple(dependent))
        rename, place = self._placing(mine, {})
        axes = [Axis(rename[a.symbol], self._hull(a, context)) for a in mine]
        body, where = place(trip), None if exists is None else place(exists)
        out = Value(fresh("trip"), Element.I32, ())
        # A custom maximum with unit 0: without any index there is nothing to repeat.
        left, right = fresh("a"), fresh("b")
        best = CoreBinary("max", Local(left, Element.I32), Local(right, Element.I32))
        monoid = Monoid("custom", (Const(0, Element.I32),), (left,), (right,), (best,))
        self.ops.append(Compute((out,), (), Reduction(tuple(axes), monoid, where), (body,), span))
        return Read(out.symbol, (), Element.I32)

    def check(self, have: Dim, want: Dim, message: str, context: Context, span: Span) -> list[Scalar]:
        """Stop the program unless two sizes are equal, where the context is evaluated.

        If it is not always evaluated, the sizes may differ after that: what then is given is that they do not, as a condition.
        Sizes alone may say where that is. Otherwise a vector is made of whether any index of the context gets there; it has no
        elements where the sizes are equal, so that then nothing is computed and no host waits for a device.
        """
        axes = {a.symbol for a in context.axes}
        given: tuple[Relation, ...] | None = ()
        for condition in (*self._existence(context, frozenset()), *context.guards):
            more = sizes_alone(condition, axes)
            given = None if given is None or more is None else given + more
        if given is None or any(a.extent.variables & axes for a in context.axes):
            wrong = minimum(Dim.of(1), maximum(have - want, want - have))
            self.note(wrong, context)
            anywhere = conjunction(context.guards) or Const(True, Element.BOOL)
            whole = Context()
            over = (context.axes, Monoid("any"), None) if context.axes else None
            (mask,) = self.compute((Axis(fresh("i"), wrong),), (anywhere,), whole, False, ("asked",), over, span)
            given = (Relation(self.compress(mask, whole, span).shape[0], ">=", Dim.of(1)),)
        self.ops.append(Check(have, "=", want, message, span, given))
        if not given:
            return []
        self.note(have, context)
        self.note(want, context)
        return [comparison("eq", self.extents.total(have, self.known), self.extents.total(want, self.known))]

    def compress(self, mask: TensorValue, context: Context, span: Span) -> TensorValue:
        """The indices at which a vector of bool is true."""
        stored = self.store(mask, context, "mask")
        if stored.symbol is None:  # reached through a function that was passed: types do not say what a function opens
            label = Label(span, "each index would give another size")
            message = "a size that only the data decide cannot be opened inside a comprehension or loop"
            raise AxonError((Diagnostic("AX0307", message, (label,)),))
        size = fresh("k")
        self.extents.decided.add(size)
        out = Value(fresh("indices"), Element.I32, (Dim.of(size),))
        self.ops.append(Compress(out, size, stored.symbol, span))
        self.known = self.known.assume(Relation(Dim.of(size), "<=", mask.shape[0]))
        return self.view(out)

    def sort(self, value: TensorValue, context: Context, span: Span, want_indices: bool) -> TensorValue:
        """Sorted along the last dimension, or the indices that sort."""
        own, body, risky = self.anywhere(value)
        (stored,) = self.compute(own, (body,), context, risky, ("unsorted",), around=value.span)
        read = stored.at(tuple(Dim.of(a.symbol) for a in own))
        assert isinstance(read, Read)
        shape = self.shapes[read.tensor]
        values, indices = Value(fresh("sorted"), value.element, shape), Value(fresh("order"), Element.I32, shape)
        self.ops.append(Sort(values, indices, read.tensor, span))
        prefix = tuple(s for s in read.subscripts[: len(shape) - len(own)] if isinstance(s, Dim))
        return self.view(indices if want_indices else values, prefix)


def _mentioned(context: Context, subscripts: Subscripts) -> list[Axis]:
    """The axes of a context, the innermost first, that subscripts mention, and those that their extents do."""
    names = {v for d in subscripts if isinstance(d, Dim) for v in d.variables}
    found: list[Axis] = []
    for axis in reversed(context.axes):
        if axis.symbol in names:
            names |= axis.extent.variables
            found.append(axis)
    return found


def _renamed(dim: Dim, rename: Mapping[Symbol, Symbol]) -> Dim:
    return dim.substitute({s: Dim.of(rename[s]) for s in dim.variables if s in rename})


def _choose(condition: Scalar, then: TensorValue, otherwise: TensorValue) -> TensorValue:
    return TensorValue(then.element, then.shape, lambda s: Select(condition, then.at(s), otherwise.at(s)), lazy=True)


def _under(guard: Scalar, scalar: Scalar) -> Scalar:
    """The scalar where a guard holds, and 0 where nobody looks."""
    return scalar if isinstance(scalar, Const) else Select(guard, scalar, zero(element_of(scalar)))


def _is_partial(monoid: Monoid, body: Sequence[Scalar]) -> bool:
    """Whether a reduction of nothing has no value."""
    return monoid.kind in ("argmax", "argmin") or (monoid.kind in ("max", "min") and element_of(body[0]).is_integer)


def _can_fail(scalar: Scalar) -> bool:
    """Whether arithmetic in it stops the program for some values."""
    whole = (n for n in nodes(scalar) if isinstance(n, CoreBinary) and n.op in ("div", "mod", "pow"))
    return any(element_of(n).is_integer for n in whole)
