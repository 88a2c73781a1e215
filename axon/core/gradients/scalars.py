"""Reverse mode on scalar expressions: what each read in one gets of the adjoint of the whole.

An expression is taken apart into operations on names first (`let`), so that nothing is computed twice; then the adjoint goes
backwards through them. A branch has names of its own and its condition: what leaves it is guarded, so that a branch which is not
taken contributes 0 and is not evaluated, whatever it would give. At the end names that are used once go back where they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType

from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol, fresh
from axon.core.gradients.rules import BINARY, UNARY, number, plus, scaled, times
from axon.core.ir import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.core.scalar_facts import comparison, conjunction
from axon.core.walk import children, converted, nodes, rewrite, with_children
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one read gets, over the indices of its operation. `reached`, if its subscripts are computed: whether it is evaluated, so
    that they are evaluated nowhere else."""

    read: Read
    adjoint: Scalar
    reached: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Adjoints:
    """Of the reads of an expression, and of the locals that were asked for."""

    reads: tuple[Contribution, ...]
    locals: dict[Symbol, Scalar]


@dataclass(frozen=True, slots=True)
class Active:
    """What derivatives are taken by: tensors and locals. `shapes` are those of tensors that are read with padding."""

    tensors: Set[Symbol]
    locals: frozenset[Symbol] = frozenset()
    shapes: Mapping[Symbol, tuple[Dim, ...]] = MappingProxyType({})


def adjoints(bodies: Sequence[tuple[Scalar, Scalar]], active: Active) -> Adjoints:
    """What expressions give to their reads and locals, each with its own adjoint: `bodies` are pairs (expression, adjoint)."""
    return _Tape(active).run(bodies)


def tangent(body: Scalar, tangents: Mapping[Symbol, Scalar], active: Active) -> Scalar:
    """How an expression moves: the sum over its reads and locals of the derivative by each times how that moves.

    `tangents` are those of tensors, by the symbol of one of which every read's place is taken, and of locals.
    """
    tape = _Tape(active, tangents)
    found = tape.run([(body, number(1, body))])
    parts = [c.adjoint for c in found.reads]
    parts += [times(slope, tangents[s]) for s, slope in found.locals.items()]
    return tidied(_total([converted(part, element_of(body)) for part in parts])) if parts else number(0, body)


def moves(scalar: Scalar, active: Active) -> bool:
    """Whether an expression has a derivative by what is active."""
    return _Moving(active).moves(scalar)


class _Scope:
    """The names of a branch, and its condition; of the whole expression without one."""

    def __init__(self, parent: _Scope | None = None, guard: Scalar | None = None) -> None:
        self.parent, self.guard = parent, guard
        self.bindings: list[tuple[Symbol, Scalar]] = []

    def around(self, scalar: Scalar) -> Scalar:
        """An expression of this scope as one of that around it."""
        whole = Bind(tuple(self.bindings), scalar) if self.bindings else scalar
        return whole if self.guard is None else Select(self.guard, whole, number(0, scalar))


class _Definitions:
    """The names of an expression that is taken apart: there may be thousands, of which what one read gets needs few."""

    def __init__(self, bindings: Sequence[tuple[Symbol, Scalar]], known: IdentityMap[Scalar, frozenset[Symbol]]) -> None:
        self.bindings, self.known = bindings, known
        self.places: dict[Symbol, list[int]] = {}
        for n, (symbol, _) in enumerate(bindings):
            self.places.setdefault(symbol, []).append(n)

    def around(self, scalar: Scalar) -> Scalar:
        """An expression with the names defined that it mentions, also through others."""
        needed: set[int] = set()
        waiting = [scalar]
        while waiting:
            for symbol in _mentioned(waiting.pop(), self.known):
                new = [n for n in self.places.get(symbol, ()) if n not in needed]
                needed.update(new)
                waiting += [self.bindings[n][1] for n in new]
        return Bind(tuple([self.bindings[n] for n in sorted(needed)]), scalar) if needed else scalar


@dataclass(frozen=True, slots=True)
class _Step:
    """An operation on names, or a choice between what two scopes give."""

    symbol: Symbol
    node: Scalar
    scope: _Scope
    branches: tuple[tuple[Scalar, _Scope], ...] = ()


class _Moving:
    """Which parts of an expression have a derivative; `home` are the names that have one, with the scopes in which they are."""

    def __init__(self, active: Active) -> None:
        self.active = active
        self.moving: IdentityMap[Scalar, bool] = IdentityMap()
        self.home: dict[Symbol, _Scope | None] = dict.fromkeys(active.locals)

    def moves(self, scalar: Scalar) -> bool:
        """Whether an expression has a derivative by what is active."""
        found = self.moving.get(scalar)
        if found is None:
            found = self.moving[scalar] = self._moves(scalar)
        return found

    def _moves(self, scalar: Scalar) -> bool:
        match scalar:
            case Local(symbol=symbol):
                return symbol in self.home
            case Read(tensor=tensor, padding=padding):
                return tensor in self.active.tensors or (padding is not None and self.moves(padding))
            case Bind(bindings=bindings, body=body):
                for symbol, value in bindings:
                    if self.moves(value):
                        self.home[symbol] = None  # until its scope is known
                return self.moves(body)
            case Select(then=then, otherwise=otherwise):
                return self.moves(then) or self.moves(otherwise)
            case Unary(op=op) if UNARY.get(op) is None:
                return False
            case _ if not element_of(scalar).is_float:
                return False
            case _:
                return any(self.moves(child) for child in children(scalar))


class _Tape(_Moving):
    def __init__(self, active: Active, tangents: Mapping[Symbol, Scalar] = MappingProxyType({})) -> None:
        super().__init__(active)
        self.tangents = tangents
        self.mentioned: IdentityMap[Scalar, frozenset[Symbol]] = IdentityMap()
        self.steps: list[_Step] = []
        self.found: list[Contribution] = []
        self.whole: dict[Read, list[Scalar]] = {}  # what reads get outside of branches, without names around it
        self.parts: dict[Symbol, list[Scalar]] = {}

    def run(self, bodies: Sequence[tuple[Scalar, Scalar]]) -> Adjoints:
        root = _Scope()
        results = [(self.atom(body, root), adjoint) for body, adjoint in bodies]
        for result, adjoint in results:
            self.give(result, adjoint, root)
        for step in reversed(self.steps):
            parts = self.parts.pop(step.symbol, [])
            if parts:
                self.back(step, self.named(_total(parts), step.scope))
        definitions = _Definitions(root.bindings, self.mentioned)
        self.found += [Contribution(read, definitions.around(_total(parts))) for read, parts in self.whole.items()]
        own = {s: tidied(_total(self.parts[s])) for s in self.active.locals if s in self.parts}
        return Adjoints(tuple(_together(replace(c, adjoint=tidied(c.adjoint)) for c in self.found)), own)

    # ── forwards: names for the parts ──────────────────────────────────────────────────────────────────────────────────

    def atom(self, scalar: Scalar, scope: _Scope) -> Scalar:
        """The expression by names: a name, a literal, or a read."""
        if not self.moves(scalar):
            return self.named(scalar, scope)
        match scalar:
            case Local():
                return scalar
            case Read(padding=padding):
                if padding is not None and self.moves(padding):
                    return self.atom(Select(self.inside(scalar), replace(scalar, padding=None), padding), scope)
                return scalar
            case Bind():
                bindings, body = _sunk(scalar, self.mentioned)
                for symbol, value in bindings:
                    if self.moves(value):
                        self.home[symbol] = scope
                        scope.bindings.append((symbol, self.atom(value, scope)))
                        self.steps.append(_Step(symbol, scope.bindings[-1][1], scope))
                    else:
                        scope.bindings.append((symbol, value))
                return self.atom(body, scope)
            case Select(condition=condition, then=then, otherwise=otherwise):
                chosen = self.named(condition, scope)
                branches = []
                for guard, branch in ((chosen, then), (Unary("not", chosen), otherwise)):
                    inner = _Scope(scope, guard)
                    branches.append((self.atom(branch, inner), inner))
                values = [Bind(tuple(inner.bindings), atom) if inner.bindings else atom for atom, inner in branches]
                return self.step(Select(chosen, *values), scope, tuple(branches))
            case _:
                return self.step(with_children(scalar, [self.atom(child, scope) for child in children(scalar)]), scope)

    def step(self, node: Scalar, scope: _Scope, branches: tuple[tuple[Scalar, _Scope], ...] = ()) -> Scalar:
        symbol = fresh("v")
        self.home[symbol] = scope
        scope.bindings.append((symbol, node))
        self.steps.append(_Step(symbol, node, scope, branches))
        local = Local(symbol, element_of(node))
        self.moving[local] = True
        return local

    @staticmethod
    def named(scalar: Scalar, scope: _Scope) -> Scalar:
        if isinstance(scalar, Const | Index | Local) or (isinstance(scalar, Read) and _is_plain(scalar)):
            return scalar
        symbol = fresh("v")
        scope.bindings.append((symbol, scalar))
        return Local(symbol, element_of(scalar))

    def inside(self, read: Read) -> Scalar:
        """Whether a padded read is inside of its tensor."""
        shape = self.active.shapes[read.tensor]
        conditions: list[Scalar] = []
        for subscript, size in zip(read.subscripts, shape, strict=True):
            if isinstance(subscript, Dim):
                conditions += (comparison("ge", subscript, Dim.of(0)), comparison("lt", subscript, size))
            else:
                element = element_of(subscript)
                conditions.append(Binary("ge", subscript, Const(0, element)))
                conditions.append(Binary("lt", subscript, Index(size, element)))
        found = conjunction(tuple(conditions))
        return Const(True, Element.BOOL) if found is None else found

    # ── backwards ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def give(self, atom: Scalar, adjoint: Scalar, scope: _Scope) -> None:
        """An operand gets an adjoint, which stands in a scope."""
        if isinstance(adjoint, Const) and adjoint.value == 0:
            return
        match atom:
            case Local(symbol=symbol) if symbol in self.home:
                self.parts.setdefault(symbol, []).append(_outwards(adjoint, scope, self.home[symbol]))
            case Read(tensor=tensor) if tensor in self.active.tensors:
                moved = self.tangents.get(tensor)
                if moved is None:
                    reached = None if all(isinstance(s, Dim) for s in atom.subscripts) else _reached(scope)
                    if scope.parent is None and reached is None:
                        self.whole.setdefault(_closed(atom, scope), []).append(adjoint)
                        return
                    self.found.append(Contribution(_closed(atom, scope), _outwards(adjoint, scope, None), reached))
                    return
                assert isinstance(moved, Read)  # read where the tensor is
                padding = None if atom.padding is None else number(0, atom)
                here = replace(atom, tensor=moved.tensor, padding=padding)
                if scope.parent is None:
                    self.whole.setdefault(atom, []).append(times(adjoint, here))
                else:
                    self.found.append(Contribution(atom, _outwards(times(adjoint, here), scope, None)))

    def back(self, step: _Step, adjoint: Scalar) -> None:
        scope, y = step.scope, Local(step.symbol, element_of(step.node))
        match step.node:
            case Select():
                for atom, inner in step.branches:
                    self.give(atom, adjoint, inner)
            case Unary(op=op, operand=x):
                slope = UNARY[op]
                assert slope is not None
                self.give(x, scaled(adjoint, slope(x, y)), scope)
            case Binary(op=op, left=a, right=b):
                for operand, by in zip((a, b), BINARY[op], strict=True):
                    if self.is_active(operand):
                        self.give(operand, scaled(adjoint, by(a, b, y)), scope)
            case Convert(operand=x):
                self.give(x, Convert(adjoint, element_of(x)), scope)
            case atom:  # another name for it
                self.give(atom, adjoint, scope)

    def is_active(self, atom: Scalar) -> bool:
        return (isinstance(atom, Local) and atom.symbol in self.home) or (isinstance(atom, Read) and self.moves(atom))


def _sunk(bind: Bind, known: IdentityMap[Scalar, frozenset[Symbol]]) -> tuple[tuple[tuple[Symbol, Scalar], ...], Scalar]:
    """The bindings and the body of a `let`, of which what one branch alone uses is bound in that branch: its adjoint is 0 in the
    other, but 0 times a slope that is not finite is NaN."""
    names, parts = [symbol for symbol, _ in bind.bindings], list(children(bind))
    branches = [part for node in nodes(bind) if isinstance(node, Select) for part in (node.then, node.otherwise)]
    used = set[Symbol]().union(*(_mentioned(branch, known) for branch in branches))  # also by names that have moved there
    for k in reversed(range(len(names))):
        if names[k] not in used:
            continue
        whole = Bind(tuple(zip(names[k + 1 :], parts[k + 1 : -1], strict=True)), parts[-1])
        inner = _into_branch(names[k], parts[k], whole, known)
        if inner is not None:
            used |= _mentioned(parts[k], known)
            names[k:], parts[k:] = names[k + 1 :], children(inner)
    return tuple(zip(names, parts[:-1], strict=True)), parts[-1]


def _into_branch(symbol: Symbol, value: Scalar, body: Scalar, known: IdentityMap[Scalar, frozenset[Symbol]]) -> Scalar | None:
    """The body with a name bound as far inside as all its uses stand; None if they stand in no branch."""
    parts = list(children(body))
    users = [k for k, part in enumerate(parts) if symbol in _mentioned(part, known)]
    if len(users) != 1:
        return None
    (k,) = users
    inner = _into_branch(symbol, value, parts[k], known)
    if inner is None and isinstance(body, Select) and k > 0:
        inner = Bind(((symbol, value),), parts[k])
    return None if inner is None else with_children(body, [*parts[:k], inner, *parts[k + 1 :]])


def _mentioned(scalar: Scalar, known: IdentityMap[Scalar, frozenset[Symbol]]) -> frozenset[Symbol]:
    """The names that an expression mentions."""
    found = known.get(scalar)
    if found is None:
        own = frozenset((scalar.symbol,)) if isinstance(scalar, Local) else frozenset[Symbol]()
        found = known[scalar] = own.union(*(_mentioned(child, known) for child in children(scalar)))
    return found


def _together(found: Iterable[Contribution]) -> Iterator[Contribution]:
    """What equal reads get is added, but for what a condition guards: that stays apart, so that it can be asked alone."""
    whole: dict[Read, Scalar] = {}
    for contribution in found:
        if isinstance(contribution.adjoint, Select) or contribution.reached is not None:
            yield contribution
        elif contribution.read in whole:
            whole[contribution.read] = plus(whole[contribution.read], contribution.adjoint)
        else:
            whole[contribution.read] = contribution.adjoint
    for read, adjoint in whole.items():
        yield Contribution(read, adjoint)


def _is_plain(read: Read) -> bool:
    return read.padding is None and read.checked is None and all(isinstance(s, Dim) for s in read.subscripts)


def _total(parts: Sequence[Scalar]) -> Scalar:
    total = parts[0]
    for part in parts[1:]:
        total = plus(total, part)
    return total


def _outwards(scalar: Scalar, scope: _Scope | None, home: _Scope | None) -> Scalar:
    while scope is not home and scope is not None:
        scalar = scope.around(scalar)
        scope = scope.parent
    return scalar


def _reached(scope: _Scope | None) -> Scalar | None:
    """The conditions of a scope and of those around it; None if there are none."""
    found: Scalar | None = None
    while scope is not None:
        if scope.guard is not None:
            found = scope.guard if found is None else Select(scope.guard, found, Const(False, Element.BOOL))
        scope = scope.parent
        if found is not None and scope is not None and scope.bindings:
            found = Bind(tuple(scope.bindings), found)
    return None if found is None else tidied(found)


def _closed(read: Read, scope: _Scope) -> Read:
    """A read without padding whose subscripts mention no names of scopes."""
    if all(isinstance(s, Dim) for s in read.subscripts):
        return read if read.padding is None else replace(read, padding=None)
    definitions: dict[Symbol, Scalar] = {}
    inner: _Scope | None = scope
    while inner is not None:
        definitions |= dict(inner.bindings)
        inner = inner.parent

    def visit(node: Scalar) -> Scalar | None:
        if isinstance(node, Local) and node.symbol in definitions:
            return rewrite(definitions[node.symbol], visit)
        return None

    subscripts = tuple(s if isinstance(s, Dim) else tidied(rewrite(s, visit)) for s in read.subscripts)
    return replace(read, subscripts=subscripts, padding=None)


# ── tidying ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def tidied(scalar: Scalar) -> Scalar:
    """The same expression: names that are used once, or stand for what costs nothing, are gone, and the others are its own."""
    if not any(isinstance(node, Bind) for node in nodes(scalar)):
        return scalar
    uses: IdentityMap[Bind, dict[Symbol, int]] = IdentityMap()
    _count_uses(scalar, 1, {}, uses)
    return _tidied(scalar, {}, uses)


def _tidied(s: Scalar, known: dict[Symbol, Scalar], uses_in: IdentityMap[Bind, dict[Symbol, int]]) -> Scalar:
    match s:
        case Local(symbol=symbol):
            return known.get(symbol, s)
        case Const() | Index():
            return s
        case Bind():
            pass
        case _:
            return with_children(s, [_tidied(child, known, uses_in) for child in children(s)])
    uses = uses_in[s]
    known, kept = dict(known), []
    for symbol, value in s.bindings:
        count = uses[symbol]
        if not count:
            continue
        new = _tidied(value, known, uses_in)
        if count == 1 or _costs_nothing(new):
            known[symbol] = new
        else:
            own = fresh(symbol.name)
            kept.append((own, new))
            known[symbol] = Local(own, element_of(new))
    body = _tidied(s.body, known, uses_in)
    return Bind(tuple(kept), body) if kept else body


def _count_uses(s: Scalar, often: int, open_uses: dict[Symbol, int], found: IdentityMap[Bind, dict[Symbol, int]]) -> None:
    """How often each name will be used in its `let`, those that stand for what costs nothing aside; of what is used at all."""
    match s:
        case Local(symbol=symbol):
            open_uses[symbol] = open_uses.get(symbol, 0) + often
        case Bind(bindings=bindings, body=body):
            outside = {symbol: open_uses.pop(symbol, 0) for symbol, _ in bindings}  # of an expression inside a copy of itself
            _count_uses(body, 1, open_uses, found)
            own = found[s] = {}
            for symbol, value in reversed(bindings):
                count = own[symbol] = open_uses.pop(symbol, 0)
                if count:
                    _count_uses(value, count if _costs_nothing(value) else 1, open_uses, found)
            for symbol, count in outside.items():
                open_uses[symbol] = open_uses.get(symbol, 0) + count
        case _:
            for child in children(s):
                _count_uses(child, often, open_uses, found)


def _costs_nothing(scalar: Scalar) -> bool:
    return isinstance(scalar, Const | Index | Local) or (isinstance(scalar, Read) and _is_plain(scalar))
