"""Solving what was deferred: broadcasting, `@`, accesses and members, as ranks and types become known."""

from __future__ import annotations

from typing import assert_never

from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.constraint import NOWHERE, Reason, Side, Stretch
from axon.shapes.dimension import Dim
from axon.types.constraint import Broadcast, Deferred, Indexed, Lift, Member, Prepend, Product
from axon.types.elaborator import Elaborator
from axon.types.trouble import BatchOfOneSide, MatmulRank, Mismatched, NoField, NoPosition, StoredFunction, UnknownRecord
from axon.types.type import (
    POISON,
    Exists,
    Function,
    Poison,
    RecordType,
    Row,
    Shape,
    ShapeItem,
    Tensor,
    TupleType,
    Type,
    TypeVar,
    scalar,
)
from axon.types.unify import Mismatch, State

# In which order what is still stuck at the end of a declaration gets its default: an access says most about its base, a missing
# record type is an error that other defaults may still prevent.
_DEFAULT_ORDER: tuple[type, ...] = (Indexed, Lift, Product, Broadcast, Prepend, Member)


class Solver(Elaborator):
    """The part of inference that knows when a deferred constraint can be solved."""

    def defer(self, constraint: Deferred) -> None:
        """Solve a constraint now if enough is known, else later."""
        if not self.solve(constraint):
            self.deferred.append(constraint)

    def settle_types(self, start: int) -> None:
        """Solve everything deferred since `start`, with defaults where nothing decides."""
        while True:
            while self._sweep(start):
                pass
            waiting = [c for c in self.deferred[start:] if not self._floats(c)]
            if not waiting:
                return
            first = min(waiting, key=lambda c: _DEFAULT_ORDER.index(type(c)))
            self.deferred.remove(first)
            with self.only_where(self.guards.get(first, NOWHERE)):
                self.default(first)

    def _floats(self, c: Deferred) -> bool:
        """Whether a constraint of a local declaration waits for what the declaration around it may still find out.

        Its own variables then belong to that declaration too: they are not generalized.
        """
        state = self.state
        seen: set[Type] = set()
        parts = [s for t in _types(c) for s in state.parts(t, seen)]
        decisive = [s for t in _waits_for(c) for s in self._heads(t)]
        if all(state.levels.get(s, 0) >= state.level for s in decisive):
            return False
        for s in parts:
            if state.levels.get(s, 0) >= state.level:
                state.levels[s] = state.level - 1
        return True

    def _heads(self, t: Type) -> list[Symbol]:
        """The variables whose solution would say more of a type's rank or kind."""
        t = self.state.prune(t)
        match t:
            case TypeVar(symbol):
                return [symbol]
            case Tensor(_, shape):
                return [i.symbol for i in self.state.shape(shape) if isinstance(i, Row)]
            case _:
                return []

    def _sweep(self, start: int) -> bool:
        waiting = self.deferred[start:]
        del self.deferred[start:]
        stuck = []
        for c in waiting:
            with self.only_where(self.guards.get(c, NOWHERE)):
                if not self.solve(c):
                    stuck.append(c)
        added = len(self.deferred) > start
        self.deferred[start:start] = stuck
        moved = self._retry_rows()
        return moved or added or len(stuck) < len(waiting)

    def _retry_rows(self) -> bool:
        """Try the equations between shapes that had too many unknowns again."""
        waiting, self.state.row_equations = self.state.row_equations, []
        moved = False
        for left, right, reason in waiting:
            before = len(self.state.row_equations)
            self._equal_shapes(left, right, reason)
            stuck = self.state.row_equations[before:]
            moved |= not (len(stuck) == 1 and stuck[0][:2] == (left, right))
        return moved

    def solve(self, constraint: Deferred) -> bool:
        """Whether the constraint could be solved; if not, nothing has changed."""
        match constraint:
            case Broadcast(left, right, out, reason):
                shape = self._broadcast(left, right, reason)
                if shape is None:
                    return False
                self._set_row(out, shape, reason)
                return True
            case Product():
                return self._product(constraint)
            case Prepend(items, body, out, span, what):
                body = self.state.prune(body)
                if isinstance(body, TypeVar):
                    return False
                self.unify(self.prepend(items, body, span, what), out, Reason(span, "here"))
                return True
            case Indexed(base, access, out, span):
                base = self.state.prune(base)
                if isinstance(base, TypeVar):
                    return False
                self.unify(access(base), out, Reason(span, "here"))
                return True
            case Member():
                return self._member(constraint)
            case Lift():
                return self._lift(constraint)
            case _:
                assert_never(constraint)

    def default(self, constraint: Deferred) -> None:
        """Decide a constraint that nothing else decides."""
        match constraint:
            case Broadcast(left, right, out, reason):
                if self._equal_shapes(left, right, reason):
                    self._set_row(out, left, reason)
            case Product():
                self._default_product(constraint)
            case Prepend(body=body, span=span):
                self.unify(body, self.state.tensor(), Reason(span, "the elements of a tensor"))
                self.solve(constraint)
            case Indexed(base=base, span=span):
                self.unify(base, self.state.tensor(), Reason(span, "this is indexed"))
                self.solve(constraint)
            case Member(value=value, member=member, out=out, span=span):
                self.wrong(UnknownRecord(member, span))
                self.state.unify(out, POISON, Reason(span, ""))
                self.state.unify(value, POISON, Reason(span, ""))  # once is enough
            case Lift(params, result, arguments, out, reasons):
                for argument, param, reason in zip(arguments, params, reasons, strict=True):
                    self.unify(argument, param, reason)
                self.unify(out, result, reasons[0])
            case _:
                assert_never(constraint)

    # ── broadcasting ───────────────────────────────────────────────────────────────────────────────────────────────────

    def broadcast(self, left: Tensor, right: Tensor, reason: Reason) -> Shape:
        """The shape of a pointwise operation on two tensors, perhaps decided later."""
        shape = self._broadcast(left.shape, right.shape, reason)
        if shape is not None:
            return shape
        out = self.state.row()
        self.deferred.append(Broadcast(left.shape, right.shape, out, reason))
        return (out,)

    def _broadcast(self, left: Shape, right: Shape, reason: Reason) -> Shape | None:
        """NumPy's rule from the last dimension on; None if an unknown rank stands in the way."""
        a, b = list(self.state.shape(left)), list(self.state.shape(right))
        pairs: list[tuple[ShapeItem, ShapeItem]] = []
        while a and b:
            x, y = a[-1], b[-1]
            if (isinstance(x, Row) or isinstance(y, Row)) and x != y:
                return None
            pairs.append((a.pop(), b.pop()))
        out = [self._stretch(x, y, reason) for x, y in reversed(pairs)]
        return (*a, *b, *out)

    def _stretch(self, x: ShapeItem, y: ShapeItem, reason: Reason) -> ShapeItem:
        if isinstance(x, Row) or isinstance(y, Row) or x == y:
            return x
        out = self.state.dim("")
        symbol = out.symbol
        assert symbol is not None
        self.state.stretches.append(Stretch(x, y, symbol, reason))
        return out

    def _equal_shapes(self, left: Shape, right: Shape, reason: Reason) -> bool:
        try:
            self.state.unify_shape(left, right, reason)
        except Mismatch as m:
            self.wrong(Mismatched(m, scalar_like(left), scalar_like(right), reason))
            return False
        return True

    def _set_row(self, out: Row, shape: Shape, reason: Reason) -> None:
        """Let a result, of which the reason speaks by its operands, have a shape."""
        try:
            self.state.unify_shape((out,), shape, reason)
        except Mismatch as m:
            here = Reason(reason.span, "the result is not what is needed", (Side(reason.span, "it has {}"),))
            turned = Mismatch(m.kind, m.right, m.left)
            self.wrong(Mismatched(turned, scalar_like(shape), scalar_like((out,)), here))

    # ── the matrix product ─────────────────────────────────────────────────────────────────────────────────────────────

    def _product(self, c: Product) -> bool:
        left, right = self.state.shape(c.left), self.state.shape(c.right)
        for shape, side in ((left, "left"), (right, "right")):
            if len(shape) < 2 and not any(isinstance(i, Row) for i in shape):
                self.wrong(MatmulRank(shape, side, left if shape is right else right, c.spans))
                self._set_row(c.out, _with_vectors(left, right), c.reason)
                return True
        ends = [s[-2:] for s in (left, right) if len(s) >= 2 and not any(isinstance(i, Row) for i in s[-2:])]
        if len(ends) < 2:
            return False
        batch, other = left[:-2], right[:-2]
        if other and not self._equal_known(batch, other):
            return False
        self._finish_product(c, left, right)
        return True

    def _equal_known(self, batch: Shape, other: Shape) -> bool:
        """Whether enough is known to say that a right side with these batch dimensions is not a plain matrix."""
        return any(not isinstance(i, Row) or i.symbol in self.state.rigid for i in other) or batch == other

    def _finish_product(self, c: Product, left: Shape, right: Shape) -> None:
        i, k, rows, j = left[-2], left[-1], right[-2], right[-1]
        assert isinstance(k, Dim)
        assert isinstance(rows, Dim)
        sides = (Side(c.spans[0], "the left side has {} columns"), Side(c.spans[1], "the right side has {} rows"))
        text = "`@` needs as many rows on its right as columns on its left"
        self.equal(k, rows, Reason(c.reason.span, text, sides))
        batched = any(isinstance(i, Dim) or i.symbol in self.state.rigid for i in right[:-2])  # other shape variables may be empty
        if batched and not left[:-2]:
            self.wrong(BatchOfOneSide(right[:-2], c.reason.span, c.spans))
            return
        if right[:-2] and left[:-2] != right[:-2]:
            text = "`@` needs the same batch dimensions on both sides, or a matrix on its right"
            sides = (Side(c.spans[0], "the left side has a batch of {}"), Side(c.spans[1], "the right side has a batch of {}"))
            if not self._equal_shapes(left[:-2], right[:-2], Reason(c.reason.span, text, sides)):
                return
        self._set_row(c.out, (*left[:-2], i, j), c.reason)

    def _default_product(self, c: Product) -> None:
        left, right = self.state.shape(c.left), self.state.shape(c.right)
        for shape, side in ((left, "left"), (right, "right")):
            if any(isinstance(i, Row) and i.symbol in self.state.rigid for i in shape[-2:]):  # it may be empty
                self.wrong(MatmulRank(shape, side, left if shape is right else right, c.spans))
                return
            if len(shape) < 2 or any(isinstance(i, Row) for i in shape[-2:]):
                ends = (self.state.row(), self.state.dim(""), self.state.dim(""))
                if not self._equal_shapes(shape, ends, Reason(c.reason.span, "both sides of `@` need rank 2 or more")):
                    return
        left, right = self.state.shape(c.left), self.state.shape(c.right)
        for shape, side in ((left, "left"), (right, "right")):
            if len(shape) < 2 or any(isinstance(i, Row) for i in shape[-2:]):
                self.wrong(MatmulRank(shape, side, left if shape is right else right, c.spans))
                return
        if not self._product(c):
            self._finish_product(c, left, right)

    # ── comprehensions, accesses, members ──────────────────────────────────────────────────────────────────────────────

    def prepend(self, items: Shape, body: Type, span: Span, what: str) -> Type:
        """A type with dimensions put before those of each of its tensors; reports functions."""
        body = self.state.prune(body)
        match body:
            case Tensor(element, shape):
                return Tensor(element, (*items, *shape))
            case TupleType(parts):
                return TupleType(tuple(self.prepend(items, p, span, what) for p in parts))
            case RecordType(fields):
                return RecordType(tuple((n, self.prepend(items, f, span, what)) for n, f in fields))
            case TypeVar():
                out = self.state.type_var()
                self.defer(Prepend(items, body, out, span, what))
                return out
            case Function():
                self.wrong(StoredFunction(what, span))
                return POISON
            case Exists() | Poison():
                return POISON
            case _:
                assert_never(body)

    def _member(self, c: Member) -> bool:
        value = self.state.prune(c.value)
        found: Type | None
        match value, c.member:
            case TypeVar(), _:
                return False
            case Poison(), _:
                found = POISON
            case RecordType(), str() as name:
                found = value.get(name)
            case TupleType(items), int() as position if 1 <= position <= len(items):
                found = items[position - 1]
            case _:
                found = None
        if found is None:
            if isinstance(c.member, str):
                self.wrong(NoField(value, c.member, c.span))
            else:
                self.wrong(NoPosition(value, c.member, c.span))
            found = POISON
        self.unify(found, c.out, Reason(c.span, "taken here"))
        return True

    def _lift(self, c: Lift) -> bool:
        arguments = [self.state.prune(a) for a in c.arguments]
        if any(isinstance(a, TypeVar) or _unknown_rank(self.state, a) for a in arguments):
            return False
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        if len(tensors) < len(arguments) or not any(self.state.shape(t.shape) for t in tensors):
            self.default(c)
            return True
        shape: Shape = ()
        for tensor, param, reason in zip(tensors, c.params, c.reasons, strict=True):
            if not self.unify(scalar(tensor.element), param, reason):
                self.state.unify(c.out, POISON, reason)
                return True
            together = self._broadcast(shape, tensor.shape, reason)
            assert together is not None  # every rank is known
            shape = together
        self.unify(self.prepend(shape, c.result, c.reasons[0].span, "a tensor"), c.out, c.reasons[0])
        return True


def _types(c: Deferred) -> tuple[Type, ...]:
    """Every type that a constraint is about."""
    match c:
        case Broadcast(left, right, out) | Product(left, right, out):
            return scalar_like(left), scalar_like(right), scalar_like((out,))
        case Prepend(items, body, out):
            return scalar_like(items), body, out
        case Indexed(base=base, out=out):
            return base, out
        case Member(value, _, out):
            return value, out
        case Lift(params, result, arguments, out):
            return (*params, result, *arguments, out)


def _waits_for(c: Deferred) -> tuple[Type, ...]:
    """The types of which more must be known."""
    match c:
        case Broadcast(left, right) | Product(left, right):
            return scalar_like(left), scalar_like(right)
        case Prepend(body=t) | Indexed(base=t) | Member(value=t):
            return (t,)
        case Lift(arguments=arguments):
            return arguments


def _unknown_rank(state: State, t: Type) -> bool:
    return isinstance(t, Tensor) and any(isinstance(i, Row) and i.symbol not in state.rigid for i in state.shape(t.shape))


def scalar_like(shape: Shape) -> Type:
    """A type to show a shape with in a message."""
    return Tensor(Element.F32, shape)


def _with_vectors(left: Shape, right: Shape) -> Shape:
    """The shape that a product with a vector is taken to have, so that no error follows from it."""
    return (*left[:-1], *right[:-2], *(right[-1:] if len(right) > 1 else ()))
