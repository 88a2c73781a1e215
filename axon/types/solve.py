"""Solving what was deferred: broadcasting, `@`, accesses and members, as ranks and types become known.

Note [Scalars by default]
    Where a rank is unknown when a declaration is complete, the shapes that an operator meets are equal. That says too much of a
    number that was given no type: it would tie together what has nothing to do with each other. So a scalar is
    - what `each` captures, since it meets leaves of several shapes: `rate` of `each (fn w g => w - rate * g) p g`;
    - in the body of a `for` or a reduction an operand that nothing indexes: `a` of `for i => a * x[i]`. Its own shape would be put
      behind the indices. What `..` stands for, what a parameter gives and what is handed on as it is keep any shape;
    - what stands between two arguments of a function parameter: `dt` of `y + dt * f (t + dt) y`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import TypeAlias, assert_never

from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.constraint import NOWHERE, Reason, Side, Stretch
from axon.shapes.dimension import Dim
from axon.types.constraint import Broadcast, Deferred, Indexed, Lift, Member, Prepend, Product, Spread, SpreadArgument
from axon.types.inference import Inference, clash, equate, only_where, unify, wrong
from axon.types.trouble import (
    BatchOfOneSide,
    MatmulRank,
    Mismatched,
    NoField,
    NoPosition,
    ScalarsAlone,
    StoredFunction,
    UnknownRecord,
)
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
from axon.types.unify import Mismatch, State, subtypes

# In which order what is still stuck at the end of a declaration gets its default: an access says most about its base, a missing
# record type is an error that other defaults may still prevent.
_DEFAULT_ORDER: tuple[type, ...] = (Indexed, Lift, Product, Spread, Broadcast, Prepend, Member)


def defer(inf: Inference, constraint: Deferred) -> None:
    """Solve a constraint now if enough is known, else later."""
    if not solve(inf, constraint):
        inf.deferred.append(constraint)


class _Stuck:
    """Constraints that were tried in vain, while a declaration's types are settled: the level of its variables stays the same.

    A declaration of n lines may have n constraints that wait, and as many defaults that decide one after the other. So each that
    could not be solved is put down here with the variables that it needs, and tried again when one of them has been solved.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._asleep: set[Deferred] = set()
        self._needing: dict[Symbol, list[Deferred]] = {}
        self._rows, self._types = len(state.rows), len(state.types)  # how many solved variables are known here: they only grow
        self._here: set[Deferred] = set()  # those that do not wait for the declaration around, …
        self._lowered = state.lowered  # … when so many variables had gone to one around

    def __contains__(self, constraint: Deferred) -> bool:
        return constraint in self._asleep

    def add(self, constraint: Deferred, needs: Iterable[Symbol] | None) -> None:
        """A constraint cannot be solved before one of the variables is; None: it is tried always."""
        if needs is None:
            return
        self._asleep.add(constraint)
        for symbol in needs:
            self._needing.setdefault(symbol, []).append(constraint)

    def wake(self) -> None:
        """Look at what was solved since."""
        rows, types = self._state.rows, self._state.types
        if len(rows) == self._rows and len(types) == self._types:
            return
        new = chain(islice(reversed(rows), len(rows) - self._rows), islice(reversed(types), len(types) - self._types))
        for symbol in new:
            for constraint in self._needing.pop(symbol, ()):
                self._asleep.discard(constraint)
                self._here.discard(constraint)
        self._rows, self._types = len(rows), len(types)

    def stay(self, constraints: Iterable[Deferred]) -> None:
        """What waits for no declaration around."""
        self._lowered = self._state.lowered
        self._here = self._asleep.intersection(constraints)

    def stays(self, constraint: Deferred) -> bool:
        """Whether a constraint was seen to wait for no declaration around, and nothing has changed for it."""
        return constraint in self._here and self._lowered == self._state.lowered


def settle_types(inf: Inference, start: int) -> None:
    """Solve everything deferred since `start`, with defaults where nothing decides."""
    stuck = _Stuck(inf.state)
    while True:
        while _sweep(inf, start, stuck):
            pass
        waiting = [c for c in inf.deferred[start:] if stuck.stays(c) or not _floats(inf.state, c)]
        stuck.stay(waiting)
        kinds = set(map(type, waiting))
        first = next((kind for kind in _DEFAULT_ORDER if kind in kinds), None)
        if _scalar_by_default(inf, waiting, first):
            continue
        if first is None:
            return
        chosen = next(c for c in waiting if type(c) is first)
        inf.deferred.remove(chosen)
        with only_where(inf, inf.guards.get(chosen, NOWHERE)):
            default(inf, chosen)


def _floats(state: State, c: Deferred) -> bool:
    """Whether a constraint of a local declaration waits for what the declaration around it may still find out.

    Its own variables then belong to that declaration too: they are not generalized.
    """
    seen: set[Type] = set()
    parts = [s for t in _types(c) for s in state.parts(t, seen)]
    decisive = [s for t in _waits_for(c) for s in _heads(state, t)]
    if all(state.levels.get(s, 0) >= state.level for s in decisive):
        return False
    for s in parts:
        if state.levels.get(s, 0) >= state.level:
            state.levels[s] = state.level - 1
            state.lowered += 1
    return True


def _heads(state: State, t: Type) -> list[Symbol]:
    """The variables whose solution would say more of a type's rank or kind."""
    t = state.prune(t)
    match t:
        case TypeVar(symbol):
            return [symbol]
        case Tensor(_, shape):
            return [i.symbol for i in state.shape(shape) if isinstance(i, Row)]
        case _:
            return []


def settle_members(inf: Inference) -> None:
    """Solve what says of a part of a record or tuple what it is, and nothing else of what waits: no equation comes of it."""
    while True:
        waiting = [c for c in inf.deferred if isinstance(c, Member) and isinstance(inf.state.prune(c.out), TypeVar)]
        ready = [c for c in waiting if _member(inf, c)]
        if not ready:
            return
        inf.deferred[:] = [c for c in inf.deferred if c not in ready]


def _sweep(inf: Inference, start: int, stuck: _Stuck) -> bool:
    waiting = inf.deferred[start:]
    del inf.deferred[start:]
    stuck.wake()  # by what a default decided
    left = []
    for c in waiting:
        if c in stuck:
            left.append(c)
            continue
        with only_where(inf, inf.guards.get(c, NOWHERE)):
            solved = solve(inf, c)
        stuck.wake()
        if not solved:
            left.append(c)
            stuck.add(c, _needs(inf.state, c))
    added = len(inf.deferred) > start
    inf.deferred[start:start] = left
    moved = _retry_rows(inf)
    return moved or added or len(left) < len(waiting)


def _needs(state: State, c: Deferred) -> list[Symbol] | None:
    """Variables, one of which must be solved before another try of a constraint that is stuck can end otherwise; None if it
    depends on more than these."""
    shapes: tuple[Shape, ...]
    match c:
        case Broadcast(left, right, out):
            shapes = (left, right, (out,))
        case Product(left, right):
            shapes = (left, right)
        case Prepend(body=t) | Indexed(base=t) | Member(value=t):
            return _heads(state, t)
        case _:
            return None
    return [i.symbol for shape in shapes for i in state.shape(shape) if isinstance(i, Row)]


def _retry_rows(inf: Inference) -> bool:
    """Try the equations between shapes that had too many unknowns again."""
    waiting, inf.state.row_equations = inf.state.row_equations, []
    moved = False
    for left, right, reason in waiting:
        before = len(inf.state.row_equations)
        _equal_shapes(inf, left, right, reason)
        stuck = inf.state.row_equations[before:]
        moved |= not (len(stuck) == 1 and stuck[0][:2] == (left, right))
    return moved


# ── what is a scalar, since nothing says otherwise ──────────────────────────────────────────────────────────────────────


def _scalar_by_default(inf: Inference, waiting: list[Deferred], first: type | None) -> bool:
    """Let a shape of which nothing says the rank be that of a scalar, where the default of what waits would tie together what has
    nothing to do with each other, or nothing asks for more; says whether one was found. See Note [Scalars by default].

    `first` is the kind of what gets its default next.
    """
    place = len(_DEFAULT_ORDER) if first is None else _DEFAULT_ORDER.index(first)
    if place >= _DEFAULT_ORDER.index(Lift) and (symbol := _of_several_leaves(inf, waiting)) is not None:
        inf.state.rows[symbol] = ()
        return True
    if place < _DEFAULT_ORDER.index(Broadcast):
        return False
    found = _beside_indices(inf)
    if found is None:
        found = _between_arguments(inf, waiting)
    if found is None and not waiting:
        found = _result_of_scalars(inf)
    if found is not None:
        inf.state.rows[found] = ()
    return found is not None


def _open(state: State, shape: Shape) -> Symbol | None:
    """The shape variable that a shape is, if more may be found of it by the declaration that is being settled."""
    match state.shape(shape):
        case (Row(symbol),) if symbol not in state.rigid and state.levels[symbol] >= state.level:
            return symbol
    return None


def _of_several_leaves(inf: Inference, waiting: list[Deferred]) -> Symbol | None:
    """What `each` meets at more than one leaf is captured: it waits there, or it gives a leaf that is a number its shape."""
    state = inf.state
    if not inf.leaves and not inf.made_at:
        return None

    def shape(t: Type) -> Symbol | None:
        t = state.prune(t)
        return _open(state, t.shape) if isinstance(t, Tensor) else None

    waits = ((inf.leaves.get(c), c) for c in waiting if isinstance(c, Broadcast | Spread | Lift))
    found = [(leaf, shape(t)) for leaf, c in waits if leaf is not None for t in _waits_for(c)]
    found += [(leaf, shape(t)) for leaf, t, _ in inf.made_at]
    own = {(leaf, shape(v)) for leaf, _, values in inf.made_at for v in values}
    met: dict[Symbol, str] = {}
    for leaf, symbol in found:
        if symbol is not None and (leaf, symbol) not in own and met.setdefault(symbol, leaf) != leaf:
            return symbol
    return None


def _beside_indices(inf: Inference) -> Symbol | None:
    """An operand that gives the body of a `for` or a reduction its shape: that nothing indexes it says that it is a number."""
    state = inf.state
    bodies = (t for body in inf.bodies if isinstance(t := state.prune(body), Tensor))
    found = [s for t in bodies if (s := _open(state, t.shape)) is not None]
    if not found:
        return None
    operands = {_open(state, (row,)) for row in inf.operands}
    kept = {_open(state, (row,)) for row in inf.runs}
    for _, result in inf.applied:
        kept |= {_open(state, part.shape) for part in subtypes(state, result) if isinstance(part, Tensor)}
    return next((s for s in found if s in operands and s not in kept), None)


def _between_arguments(inf: Inference, waiting: list[Deferred]) -> Symbol | None:
    """An operand that alone ties together the shapes of two arguments of a function parameter, one of which an operation leaves
    as it is: `dt` of an integrator, whose function takes a time, to which it is added, and a state. Or else, of such arguments,
    one that no operation gives, beside one that an operation leaves as it is.
    """
    state = inf.state
    pairs: list[tuple[_Node, _Node]] = []
    for arguments, _ in inf.applied:
        types = [state.prune(a) for a in arguments]
        nodes = [n for t in types if isinstance(t, Tensor) and (n := _node(state, t.shape)) is not None]
        pairs += [(a, b) for i, a in enumerate(nodes) for b in nodes[:i] if a != b]
    if not pairs:
        return None
    met = (c for c in waiting if isinstance(c, Broadcast))
    triples = [[_node(state, shape) for shape in (c.left, c.right, (c.out,))] for c in met]
    meets: dict[_Node | None, list[list[_Node | None]]] = {}
    for triple in triples:
        for n in triple:
            meets.setdefault(n, []).append(triple)
    keep = {out for left, right, out in triples if out in (left, right)}  # what an operation with another leaves as they are
    tied = [(a, b, whole) for a, b in pairs if {a, b} & keep and b in (whole := _tied(meets, a, None))]
    made = {out for _, _, out in triples}
    operands = dict.fromkeys(n for left, right, _ in triples for n in (left, right) if isinstance(n, Symbol) and n not in made)
    for symbol in operands:
        for a, b, whole in tied:
            if symbol in whole and symbol not in (a, b) and b not in _tied(meets, a, symbol):
                return symbol
    return next((n for n in operands for a, b, _ in tied if (n == a and b in keep) or (n == b and a in keep)), None)


_Node: TypeAlias = "Symbol | Shape"


def _node(state: State, shape: Shape) -> _Node | None:
    """A shape, as far as it is known: a variable by itself, None of a scalar."""
    return _open(state, shape) or state.shape(shape) or None


def _tied(meets: Mapping[_Node | None, list[list[_Node | None]]], start: _Node, without: Symbol | None) -> set[_Node]:
    """The shapes that would be one with a shape, if one of the variables were a scalar's; `meets` has the operations of each."""
    found, open_ = {start}, [start]
    while open_:
        for triple in meets.get(open_.pop(), ()):
            new = {n for n in triple if n is not None and n != without} - found
            found |= new
            open_ += new
    return found


def _result_of_scalars(inf: Inference) -> Symbol | None:
    """What a parameter gives for scalars, where an equation between shapes could else be solved in several ways: `modify` of
    `for ..b i j => modify s[..b, i, j]`, whose shape is needed.
    """
    state = inf.state
    items = (i for left, right, _ in state.row_equations for i in (*state.shape(left), *state.shape(right)))
    stuck = {i.symbol for i in items if isinstance(i, Row)}
    for arguments, result in inf.applied:
        if not all(isinstance(t := state.prune(a), Tensor) and not state.shape(t.shape) for a in arguments):
            continue
        for part in subtypes(state, result):
            symbol = _open(state, part.shape) if isinstance(part, Tensor) else None
            if symbol in stuck:
                return symbol
    return None


# ── one constraint ──────────────────────────────────────────────────────────────────────────────────────────────────────


def solve(inf: Inference, constraint: Deferred) -> bool:
    """Whether the constraint could be solved; if not, nothing has changed."""
    match constraint:
        case Broadcast(left, right, out, reason):
            shape = _broadcast(inf.state, left, right, reason)
            if shape is None:
                return _of_scalars(inf.state, left, right, out)
            _set_row(inf, out, shape, reason)
            return True
        case Product():
            return _product(inf, constraint)
        case Prepend(items, body, out, span, what):
            body = inf.state.prune(body)
            if isinstance(body, TypeVar):
                return False
            unify(inf, prepend(inf, items, body, span, what), out, Reason(span, "here"))
            return True
        case Indexed(base, access, out, span):
            base = inf.state.prune(base)
            if isinstance(base, TypeVar):
                return False
            unify(inf, access(base), out, Reason(span, "what is read is not what is needed", (Side(span, "it has {}"),)))
            return True
        case Member():
            return _member(inf, constraint)
        case Lift():
            return _lift(inf, constraint)
        case Spread():
            rest, _ = spread(inf, constraint)
            if rest is not None and len(rest.arguments) < len(constraint.arguments):
                inf.deferred.append(rest)
                if constraint in inf.leaves:
                    inf.leaves[rest] = inf.leaves[constraint]
                return True
            return rest is None
        case _:
            assert_never(constraint)


def default(inf: Inference, constraint: Deferred) -> None:
    """Decide a constraint that nothing else decides."""
    match constraint:
        case Broadcast(left, right, out, reason):
            if _equal_shapes(inf, left, right, reason):
                _set_row(inf, out, left, reason)
        case Product():
            _default_product(inf, constraint)
        case Prepend(body=body, span=span):
            unify(inf, body, inf.state.tensor(), Reason(span, "the elements of a tensor"))
            solve(inf, constraint)
        case Indexed(base=base, span=span):
            unify(inf, base, inf.state.tensor(), Reason(span, "this is indexed"))
            solve(inf, constraint)
        case Member(value=value, member=member, out=out, span=span):
            whole = inf.state.prune(value)
            others = (c for c in inf.deferred if isinstance(c, Member) and inf.state.prune(c.value) is whole)
            wrong(inf, UnknownRecord(member, span, {member: out, **{c.member: c.out for c in others}}))
            inf.state.unify(out, POISON, Reason(span, ""))
            inf.state.unify(value, POISON, Reason(span, ""))  # once is enough
        case Lift(params, arguments=arguments, reasons=reasons):
            for argument, param, reason in zip(arguments, params, reasons, strict=True):
                t = inf.state.prune(argument)
                if isinstance(t, TypeVar) or _unknown_rank(inf.state, t):
                    unify(inf, argument, param, reason)
            if not _lift(inf, constraint):
                _scalars_all(inf, constraint)
        case Spread(shape, waiting):
            for one in waiting:
                _whole(inf, one, shape)
        case _:
            assert_never(constraint)


# ── broadcasting ────────────────────────────────────────────────────────────────────────────────────────────────────────


def broadcast(inf: Inference, left: Tensor, right: Tensor, reason: Reason) -> Shape:
    """The shape of a pointwise operation on two tensors, perhaps decided later."""
    shape = _broadcast(inf.state, left.shape, right.shape, reason)
    if shape is not None:
        return shape
    out = inf.state.row()
    inf.deferred.append(Broadcast(left.shape, right.shape, out, reason))
    return (out,)


def _broadcast(state: State, left: Shape, right: Shape, reason: Reason) -> Shape | None:
    """NumPy's rule from the last dimension on; None if an unknown rank stands in the way."""
    a, b = list(state.shape(left)), list(state.shape(right))
    longer = "left" if len(a) > len(b) else "right" if len(a) < len(b) else ""
    pairs: list[tuple[ShapeItem, ShapeItem]] = []
    while a and b:
        x, y = a[-1], b[-1]
        if (isinstance(x, Row) or isinstance(y, Row)) and x != y:
            return None
        pairs.append((a.pop(), b.pop()))
    out = [_stretch(state, x, y, reason, longer) for x, y in reversed(pairs)]
    return (*a, *b, *out)


def _of_scalars(state: State, left: Shape, right: Shape, out: Row) -> bool:
    """Whether two shapes are those of scalars, since their operation gives one."""
    sides = [symbol for shape in (left, right) if (symbol := _open(state, shape)) is not None]
    if state.shape((out,)) or len(sides) + sum(not state.shape(shape) for shape in (left, right)) < 2:
        return False
    state.rows.update(dict.fromkeys(sides, ()))
    return True


def _stretch(state: State, x: ShapeItem, y: ShapeItem, reason: Reason, longer: str) -> ShapeItem:
    if isinstance(x, Row) or isinstance(y, Row) or x == y:
        return x
    out = state.dim("")
    symbol = out.symbol
    assert symbol is not None
    state.stretches.append(Stretch(x, y, symbol, reason, longer=longer))
    return out


def _equal_shapes(inf: Inference, left: Shape, right: Shape, reason: Reason) -> bool:
    try:
        inf.state.unify_shape(left, right, reason)
    except Mismatch as m:
        wrong(inf, Mismatched(m, scalar_like(left), scalar_like(right), reason))
        return False
    return True


def _set_row(inf: Inference, out: Row, shape: Shape, reason: Reason) -> None:
    """Let a result, of which the reason speaks by its operands, have a shape."""
    try:
        inf.state.unify_shape((out,), shape, reason)
    except Mismatch as m:
        here = Reason(reason.span, "the result is not what is needed", (Side(reason.span, "it has {}"),))
        turned = Mismatch(m.kind, m.right, m.left)
        wrong(inf, Mismatched(turned, scalar_like(shape), scalar_like((out,)), here))


# ── the matrix product ──────────────────────────────────────────────────────────────────────────────────────────────────


def _product(inf: Inference, c: Product) -> bool:
    left, right = inf.state.shape(c.left), inf.state.shape(c.right)
    for shape, side in ((left, "left"), (right, "right")):
        if len(shape) < 2 and not any(isinstance(i, Row) for i in shape):
            wrong(inf, MatmulRank(shape, side, left if shape is right else right, c.spans))
            _set_row(inf, c.out, _with_vectors(left, right), c.reason)
            return True
    ends = [s[-2:] for s in (left, right) if len(s) >= 2 and not any(isinstance(i, Row) for i in s[-2:])]
    if len(ends) < 2:
        return False
    batch, other = left[:-2], right[:-2]
    if other and not _equal_known(inf.state, batch, other):
        return False
    _finish_product(inf, c, left, right)
    return True


def _equal_known(state: State, batch: Shape, other: Shape) -> bool:
    """Whether enough is known to say that a right side with these batch dimensions is not a plain matrix."""
    return any(not isinstance(i, Row) or i.symbol in state.rigid for i in other) or batch == other


def _finish_product(inf: Inference, c: Product, left: Shape, right: Shape) -> None:
    i, k, rows, j = left[-2], left[-1], right[-2], right[-1]
    assert isinstance(k, Dim)
    assert isinstance(rows, Dim)
    sides = (Side(c.spans[0], "the left side has {} columns"), Side(c.spans[1], "the right side has {} rows"))
    text = "`@` needs as many rows on its right as columns on its left"
    equate(inf.state, k, rows, Reason(c.reason.span, text, sides))
    batched = any(isinstance(i, Dim) or i.symbol in inf.state.rigid for i in right[:-2])  # other shape variables may be empty
    if batched and not left[:-2]:
        wrong(inf, BatchOfOneSide(right[:-2], c.reason.span, c.spans))
        return
    if right[:-2] and left[:-2] != right[:-2]:
        text = "`@` needs the same batch dimensions on both sides, or a matrix on its right"
        sides = (Side(c.spans[0], "the left side has a batch of {}"), Side(c.spans[1], "the right side has a batch of {}"))
        if not _equal_shapes(inf, left[:-2], right[:-2], Reason(c.reason.span, text, sides)):
            return
    _set_row(inf, c.out, (*left[:-2], i, j), c.reason)


def _default_product(inf: Inference, c: Product) -> None:
    left, right = inf.state.shape(c.left), inf.state.shape(c.right)
    for shape, side in ((left, "left"), (right, "right")):
        if any(isinstance(i, Row) and i.symbol in inf.state.rigid for i in shape[-2:]):  # it may be empty
            wrong(inf, MatmulRank(shape, side, left if shape is right else right, c.spans))
            return
        if len(shape) < 2 or any(isinstance(i, Row) for i in shape[-2:]):
            ends = (inf.state.row(), inf.state.dim(""), inf.state.dim(""))
            if not _equal_shapes(inf, shape, ends, Reason(c.reason.span, "both sides of `@` need rank 2 or more")):
                return
    left, right = inf.state.shape(c.left), inf.state.shape(c.right)
    for shape, side in ((left, "left"), (right, "right")):
        if len(shape) < 2 or any(isinstance(i, Row) for i in shape[-2:]):
            wrong(inf, MatmulRank(shape, side, left if shape is right else right, c.spans))
            return
    if not _product(inf, c):
        _finish_product(inf, c, left, right)


# ── comprehensions, accesses, members ───────────────────────────────────────────────────────────────────────────────────


def prepend(inf: Inference, items: Shape, body: Type, span: Span, what: str) -> Type:
    """A type with dimensions put before those of each of its tensors; reports functions."""
    body = inf.state.prune(body)
    match body:
        case Tensor(element, shape):
            return Tensor(element, (*items, *shape))
        case TupleType(parts):
            return TupleType(tuple(prepend(inf, items, p, span, what) for p in parts))
        case RecordType(fields):
            return RecordType(tuple((n, prepend(inf, items, f, span, what)) for n, f in fields))
        case TypeVar():
            out = inf.state.type_var()
            defer(inf, Prepend(items, body, out, span, what))
            return out
        case Function():
            wrong(inf, StoredFunction(what, span))
            return POISON
        case Exists() | Poison():
            return POISON
        case _:
            assert_never(body)


def _member(inf: Inference, c: Member) -> bool:
    value = inf.state.prune(c.value)
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
            wrong(inf, NoField(value, c.member, c.span))
        else:
            wrong(inf, NoPosition(value, c.member, c.span))
        found = POISON
    unify(inf, found, c.out, Reason(c.span, "taken here"))
    return True


def _lift(inf: Inference, c: Lift) -> bool:
    arguments = [inf.state.prune(a) for a in c.arguments]
    if any(isinstance(a, TypeVar) or _unknown_rank(inf.state, a) for a in arguments):
        return False
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    if len(tensors) < len(arguments) or not any(inf.state.shape(t.shape) for t in tensors):
        _scalars_all(inf, c)
        return True
    shape: Shape = ()
    for tensor, param, reason in zip(tensors, c.params, c.reasons, strict=True):
        if not unify(inf, scalar(tensor.element), param, reason):
            inf.state.unify(c.out, POISON, reason)
            return True
        together = _broadcast(inf.state, shape, tensor.shape, reason)
        assert together is not None  # every rank is known
        shape = together
    unify(inf, prepend(inf, shape, c.result, c.reasons[0].span, "a tensor"), c.out, c.reasons[0])
    return True


def _scalars_all(inf: Inference, c: Lift) -> None:
    for argument, param, reason in zip(c.arguments, c.params, c.reasons, strict=True):
        unify(inf, argument, param, reason)
    unify(inf, c.out, c.result, c.reasons[0])


def spread(inf: Inference, c: Spread) -> tuple[Spread | None, bool]:
    """Which arguments are whole and which are scalars, as far as their ranks are known: what is left to decide, and whether what is
    decided fits."""
    state, told = inf.state, c.told
    open_: list[SpreadArgument] = []
    scalars = list(c.scalars)
    for argument in c.arguments:
        own = state.shape(argument.shape)
        if own and own != state.shape(c.shape) and all(isinstance(i, Row) and i.symbol not in state.rigid for i in own):
            open_.append(argument)
        elif own:
            told = True
            if not _whole(inf, argument, c.shape):
                return None, False
        else:
            scalars.append(argument)
    alike = len({state.shape(argument.shape) for argument in open_}) == 1 and not told  # whole, or scalars, and so is the shape
    if open_ and (alike or not state.shape(c.shape)):
        return None, all(_whole(inf, argument, c.shape) for argument in open_)
    if open_:
        return Spread(c.shape, tuple(open_), told, tuple(scalars)), True
    if not told and not _empty(state, c.shape, scalars[0].reason):
        wrong(inf, ScalarsAlone(c.shape, tuple(argument.meant for argument in scalars)))
        return None, False
    return None, True


def _whole(inf: Inference, argument: SpreadArgument, shape: Shape) -> bool:
    """Let an argument have the shape of its parameter; False after a report."""
    meant, (have, want) = argument.meant, map(scalar_like, (argument.shape, shape))
    found = clash(inf, have, want, argument.reason)
    if found is not None:
        wrong(inf, Mismatched(found, meant.arguments[meant.at].type, meant.param, argument.reason, meant))
    return found is None


def _empty(state: State, shape: Shape, reason: Reason) -> bool:
    """Let a shape be that of a scalar, if it may be."""
    try:
        state.unify_shape(shape, (), reason)
    except Mismatch:
        return False
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
        case Spread(shape, arguments):
            return (scalar_like(shape), *(scalar_like(a.shape) for a in arguments))


def _waits_for(c: Deferred) -> tuple[Type, ...]:
    """The types of which more must be known."""
    match c:
        case Broadcast(left, right) | Product(left, right):
            return scalar_like(left), scalar_like(right)
        case Prepend(body=t) | Indexed(base=t) | Member(value=t):
            return (t,)
        case Lift(arguments=arguments):
            return arguments
        case Spread(arguments=arguments):
            return tuple(scalar_like(a.shape) for a in arguments)


def _unknown_rank(state: State, t: Type) -> bool:
    return isinstance(t, Tensor) and any(isinstance(i, Row) and i.symbol not in state.rigid for i in state.shape(t.shape))


def scalar_like(shape: Shape) -> Type:
    """A type to show a shape with in a message."""
    return Tensor(Element.F32, shape)


def _with_vectors(left: Shape, right: Shape) -> Shape:
    """The shape that a product with a vector is taken to have, so that no error follows from it."""
    return (*left[:-1], *right[:-2], *(right[-1:] if len(right) > 1 else ()))
