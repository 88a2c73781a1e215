"""Unification of types, element types and shapes; equations between dimensions are collected, never solved, here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from axon.base.data import dataclass, field
from axon.base.element import ANY, Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol, fresh
from axon.grammar import syntax as S
from axon.shapes.constraint import Equal, Obligation, Range, Reason, Stretch, Use
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.relation import Relation
from axon.types.type import (
    POISON,
    ElementType,
    ElementVar,
    Exists,
    Function,
    Poison,
    RecordType,
    Row,
    Shape,
    Tensor,
    TupleType,
    Type,
    TypeVar,
)


class Mismatch(Exception):
    """Two types that cannot be one. `kind` says how, to `explain.errors`; left and right are the parts that clash."""

    def __init__(self, kind: str, left: object, right: object) -> None:
        super().__init__(kind)
        self.kind, self.left, self.right = kind, left, right


@dataclass(slots=True)
class State:
    """What is known of the flexible variables of one module, and the constraints on sizes that are still to be settled."""

    level: int = 0
    aliases: IdentityMap[S.TypeDecl, str] = field(default_factory=IdentityMap)  # what each is called in the finished module
    types: dict[Symbol, Type] = field(default_factory=dict)
    elements: dict[Symbol, ElementType] = field(default_factory=dict)
    rows: dict[Symbol, Shape] = field(default_factory=dict)
    dims: dict[Symbol, Dim] = field(default_factory=dict)
    allowed: dict[Symbol, frozenset[Element]] = field(default_factory=dict)
    levels: dict[Symbol, int] = field(default_factory=dict)
    row_symbols: set[Symbol] = field(default_factory=set)
    rigid: set[Symbol] = field(default_factory=set)
    generic: set[Symbol] = field(default_factory=set)  # quantified by a scheme
    flexible_elements: list[Symbol] = field(default_factory=list)
    flexible_dims: list[Symbol] = field(default_factory=list)
    named_dims: set[Symbol] = field(default_factory=set)  # flexible ones whose name is worth showing: they came from an index
    loose_dims: set[Symbol] = field(default_factory=set)  # those that are no one's: how far an index runs, a part of a split
    quotient_dims: set[Symbol] = field(default_factory=set)  # what a use makes by dividing by what it is given in braces
    row_equations: list[tuple[Shape, Shape, Reason]] = field(default_factory=list)
    equals: list[Equal] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)
    nonempty: list[tuple[ElementType, Obligation]] = field(default_factory=list)  # owed unless the element type is a float
    overflowed: bool = False  # a size has passed the limits, and that was reported: it is left as it was found
    data_sizes: dict[Symbol, tuple[Relation, ...]] = field(default_factory=dict)  # sizes that only the data decide, and bounds
    called: dict[Symbol, str] = field(default_factory=dict)  # what annotations call those
    lowered: int = 0  # how many variables have gone to a declaration around
    solved: frozenset[Symbol] = frozenset()  # the keys of `dims`, which only grows, when somebody last asked
    closed: dict[Type, tuple[Type, ...]] = field(default_factory=dict)  # the parts of types without type variables, once asked for

    # ── fresh variables ────────────────────────────────────────────────────────────────────────────────────────────────

    def type_var(self, name: str = "t") -> TypeVar:
        return TypeVar(self._new(name))

    def element_var(self, allowed: frozenset[Element] = ANY, name: str = "a") -> ElementVar:
        symbol = self._new(name)
        self.allowed[symbol] = allowed
        self.flexible_elements.append(symbol)
        return ElementVar(symbol)

    def row(self, name: str = "s") -> Row:
        found = Row(self._new(name))
        self.row_symbols.add(found.symbol)
        return found

    def dim(self, name: str = "n", named: bool = False, loose: bool = False) -> Dim:
        symbol = self._new(name)
        self.flexible_dims.append(symbol)
        if named:
            self.named_dims.add(symbol)
        if loose:
            self.loose_dims.add(symbol)
        return Dim.of(symbol)

    def tensor(self, allowed: frozenset[Element] = ANY) -> Tensor:
        """A tensor of unknown rank."""
        return Tensor(self.element_var(allowed), (self.row(),))

    def _new(self, name: str) -> Symbol:
        symbol = fresh(name)
        self.levels[symbol] = self.level
        return symbol

    # ── what a variable stands for ─────────────────────────────────────────────────────────────────────────────────────

    def prune(self, t: Type) -> Type:
        """The type itself, as far as its head is known."""
        while isinstance(t, TypeVar) and t.symbol in self.types:
            t = self.types[t.symbol]
        return t

    def element(self, e: ElementType) -> ElementType:
        while isinstance(e, ElementVar) and e.symbol in self.elements:
            e = self.elements[e.symbol]
        return e

    def shape(self, shape: Shape) -> Shape:
        """The shape with every solved shape variable replaced."""
        for item in shape:
            if isinstance(item, Row) and item.symbol in self.rows:
                break
        else:  # asked for more often than anything else
            return shape
        out: list[Dim | Row] = []
        for item in shape:
            if isinstance(item, Row) and item.symbol in self.rows:
                known = self.rows[item.symbol] = self.shape(self.rows[item.symbol])  # chains of them can be long
                out.extend(known)
            else:
                out.append(item)
        return tuple(out)

    def dimension(self, dim: Dim) -> Dim:
        """The dimension with every solved variable replaced."""
        if len(self.solved) != len(self.dims):
            self.solved = frozenset(self.dims)
        while not self.solved.isdisjoint(dim.variables):  # of two sets, neither asks Python for the hash of a symbol
            known = {s: self.dims[s] for s in dim.variables if s in self.dims}
            try:
                dim = dim.substitute(known)
            except DimensionTooLarge:
                if not self.overflowed:
                    raise
                return dim
        return dim

    def allowed_of(self, e: ElementType) -> frozenset[Element]:
        e = self.element(e)
        return frozenset({e}) if isinstance(e, Element) else self.allowed[e.symbol]

    def zonk(self, t: Type, seen: dict[Type, Type] | None = None) -> Type:
        """The type with everything known put in. Shared parts stay shared."""
        seen = {} if seen is None else seen
        t = self.prune(t)
        if t in seen:
            return seen[t]
        new: Type
        match t:
            case Tensor(element, shape):
                known = tuple([i if isinstance(i, Row) else self.dimension(i) for i in self.shape(shape)])
                new = t.of(self.element(element), known)
            case Function(param, result):
                parts = self.zonk(param, seen), self.zonk(result, seen)
                new = t if parts[0] is param and parts[1] is result else Function(*parts)
            case TupleType(items):
                new = TupleType(tuple(self.zonk(i, seen) for i in items))
            case RecordType():
                new = t.map(lambda part: self.zonk(part, seen))
            case Exists(symbol, bounds, body):
                image = {s: self.dimension(Dim.of(s)) for b in bounds for s in b.left.variables | b.right.variables}
                new = Exists(symbol, tuple(b.substitute(image) for b in bounds), self.zonk(body, seen))
            case _:
                new = t
        seen[t] = new
        return new

    # ── unification ────────────────────────────────────────────────────────────────────────────────────────────────────

    def unify(self, left: Type, right: Type, reason: Reason, seen: set[tuple[Type, Type]] | None = None) -> None:
        """Make two types one, collecting the equations between their dimensions; raises Mismatch."""
        left, right = self.prune(left), self.prune(right)
        seen = set() if seen is None else seen
        if left is right or (left, right) in seen:
            return
        seen.add((left, right))
        match left, right:
            case (Poison(), _) | (_, Poison()):
                self._poison(right if isinstance(left, Poison) else left)
            case TypeVar(a), TypeVar(b) if a == b:
                return
            case TypeVar(a), _ if a not in self.rigid:
                self._bind(a, right)
            case _, TypeVar(b) if b not in self.rigid:
                self._bind(b, left)
            case Tensor(e1, s1), Tensor(e2, s2):
                self.unify_shape(s1, s2, reason)
                self.unify_element(e1, e2)
            case Function(p1, r1), Function(p2, r2):
                self.unify(p1, p2, reason, seen)
                self.unify(r1, r2, reason, seen)
            case TupleType(i1), TupleType(i2):
                if len(i1) != len(i2):
                    raise Mismatch("tuple", left, right)
                for item, other in zip(i1, i2, strict=True):
                    self.unify(item, other, reason, seen)
            case RecordType(f1), RecordType(f2):
                if {n for n, _ in f1} != {n for n, _ in f2}:
                    raise Mismatch("record", left, right)
                others = dict(f2)
                for n, t in f1:
                    self.unify(t, others[n], reason.within(n), seen)
            case Exists(), Exists() if len(left.bounds) == len(right.bounds):
                self._unify_exists(left, right, reason)
            case _:
                raise Mismatch("type", left, right)

    def _unify_exists(self, left: Exists, right: Exists, reason: Reason) -> None:
        """Two are one if they agree under one name, on which nothing outside may come to depend."""
        size = left.symbol
        same = {right.symbol: Dim.of(size)}
        equals, rows, types = len(self.equals), len(self.rows), len(self.types)
        self.unify(left.body, self.renamed(right.body, same), reason)
        shapes = [s for _, s in islice(self.rows.items(), rows, None)]
        found = [Tensor(Element.F32, s) for s in shapes] + [t for _, t in islice(self.types.items(), types, None)]
        if any(size in e.left.variables | e.right.variables for e in self.equals[equals:]):
            raise Mismatch("type", left, right)
        if any(size in self.parts(t, set()) for t in found):
            raise Mismatch("type", left, right)
        for a, b in zip(left.bounds, right.bounds, strict=True):
            self.equals.append(Equal(a.right, b.right, reason))

    def renamed(self, t: Type, image: dict[Symbol, Dim]) -> Type:
        """The type with other dimensions for some variables."""
        t = self.zonk(t)
        match t:
            case Tensor(element, shape):
                return Tensor(element, tuple(i if isinstance(i, Row) else i.substitute(image) for i in shape))
            case Function(param, result):
                return Function(self.renamed(param, image), self.renamed(result, image))
            case TupleType(items):
                return TupleType(tuple(self.renamed(i, image) for i in items))
            case RecordType():
                return t.map(lambda part: self.renamed(part, image))
            case Exists(symbol, bounds, body):
                return Exists(symbol, tuple(b.substitute(image) for b in bounds), self.renamed(body, image))
            case _:
                return t

    def unify_element(self, left: ElementType, right: ElementType) -> None:
        left, right = self.element(left), self.element(right)
        if left == right:
            return
        given = left, right
        both = self.allowed_of(left) & self.allowed_of(right)
        if isinstance(left, ElementVar) and left.symbol not in self.rigid:
            left, right = right, left
        if isinstance(right, ElementVar) and right.symbol not in self.rigid:
            if not both:
                raise Mismatch("class", *given)
            self.elements[right.symbol] = left
            if isinstance(left, ElementVar):
                self._lower(left.symbol, self.levels[right.symbol])
                self._allow(left, both)
            return
        raise Mismatch("element", left, right)

    def narrow(self, e: ElementType, allowed: frozenset[Element]) -> None:
        """Restrict what an element type may be; raises Mismatch("class") if nothing is left."""
        e = self.element(e)
        both = self.allowed_of(e) & allowed
        if not both:
            raise Mismatch("class", e, allowed)
        if isinstance(e, ElementVar):
            self._allow(e, both)

    def _allow(self, e: ElementVar, allowed: frozenset[Element]) -> None:
        """Note what an element type may be; where that is only one, it is that."""
        self.allowed[e.symbol] = allowed
        if len(allowed) == 1 and e.symbol not in self.rigid:
            (self.elements[e.symbol],) = allowed

    def unify_shape(self, left: Shape, right: Shape, reason: Reason) -> None:
        """Solve an equation between shapes with at most one undetermined variable; others wait until more is known."""
        left, right = self.shape(left), self.shape(right)
        a, b, pairs = _peel(left, right)
        alone = len(pairs) == 1 and not a and not b and not reason.field
        for d1, d2, place in pairs:
            if d1 != d2:
                self.equals.append(Equal(d1, d2, reason if alone or not reason.sides else reason.at(place)))
        if not a and not b:
            return
        for lone, rest in ((a, b), (b, a)):
            if len(lone) == 1 and isinstance(lone[0], Row) and lone[0].symbol not in self.rigid:
                if lone[0] in rest:  # s = s ++ rest: the rest is empty
                    self._empty([i for i in rest if i != lone[0]], left, right)
                    return
                self._bind_row(lone[0].symbol, rest)
                return
        if not a or not b:
            self._empty(list(a or b), left, right)
            return
        fixed = [i for i in (*a, *b) if isinstance(i, Row) and i.symbol not in self.rigid]
        if not fixed:
            raise Mismatch("rank", left, right)
        for x, y in ((a, b), (b, a)):
            if self._same_parts(x, y, left, right):  # which leaves dimensions to compare
                self.unify_shape(left, right, reason)
                return
        for x, y in ((a, b), (b, a)):  # a side without flexible rows has a rank: the other may not be longer
            if not any(isinstance(i, Row) for i in x) and sum(not isinstance(i, Row) for i in y) > len(x):
                raise Mismatch("rank", left, right)
        self.row_equations.append((a, b, reason))

    def _same_parts(self, x: Shape, y: Shape, left: Shape, right: Shape) -> bool:
        """Of s ++ s = [n, m]: s has one dimension. Binds it, and says whether there was something to bind."""
        rows = [i for i in x if isinstance(i, Row)]
        if len({i.symbol for i in rows}) != 1 or rows[0].symbol in self.rigid or any(isinstance(i, Row) for i in y):
            return False
        each, left_over = divmod(len(y) - (len(x) - len(rows)), len(rows))
        if left_over or each < 0:
            raise Mismatch("rank", left, right)
        self._bind_row(rows[0].symbol, tuple(self.dim("") for _ in range(each)))
        return True

    def _empty(self, items: list[Dim | Row], left: Shape, right: Shape) -> None:
        for item in items:
            if not isinstance(item, Row) or item.symbol in self.rigid:
                raise Mismatch("rank", left, right)
            self._bind_row(item.symbol, ())

    def _bind(self, symbol: Symbol, t: Type) -> None:
        level = self.levels[symbol]
        seen: set[Type] = set()
        for part in self.parts(t, seen):
            if part == symbol:
                raise Mismatch("infinite", TypeVar(symbol), t)
            self._lower(part, level)
        self.types[symbol] = t

    def _bind_row(self, symbol: Symbol, shape: Shape) -> None:
        level = self.levels[symbol]
        for item in shape:
            for part in (item.symbol,) if isinstance(item, Row) else item.variables:
                self._lower(part, level)
        self.rows[symbol] = shape

    def _lower(self, symbol: Symbol, level: int) -> None:
        if self.levels.get(symbol, 0) > level:
            self.levels[symbol] = level
            self.lowered += 1

    def _poison(self, t: Type) -> None:
        """What a poisoned type meets is not to be complained about either."""
        if isinstance(t, TypeVar) and t.symbol not in self.rigid:
            self.types[t.symbol] = POISON

    def parts(self, t: Type, seen: set[Type]) -> Iterator[Symbol]:
        """Every variable of a type: of types, element types, shapes and dimensions."""
        stack = [t]
        while stack:
            t = self.prune(stack.pop())
            if t in seen:
                continue
            seen.add(t)
            match t:
                case TypeVar(symbol):
                    yield symbol
                case Tensor(element, shape):
                    element = self.element(element)
                    if isinstance(element, ElementVar):
                        yield element.symbol
                    for item in self.shape(shape):
                        if isinstance(item, Row):
                            yield item.symbol
                        else:
                            yield from self.dimension(item).variables
                case Function(param, result):
                    stack += (result, param)
                case TupleType(items):
                    stack += reversed(items)
                case RecordType(fields):
                    stack += [f for _, f in reversed(fields)]
                case Exists(_, _, body):
                    stack.append(body)
                case Poison():
                    pass


def _peel(left: Shape, right: Shape) -> tuple[Shape, Shape, list[tuple[Dim, Dim, str]]]:
    """Drop what two shapes share at their ends: pairs of dimensions and where they stand, and equal shape variables."""
    pairs: list[tuple[Dim, Dim, str]] = []
    i = 0
    while i < len(left) and i < len(right) and _meet(left[i], right[i], f"dimension {i + 1}", pairs):
        i += 1
    left, right = left[i:], right[i:]
    tail: list[tuple[Dim, Dim, str]] = []
    n = 1
    while left and right and _meet(left[-1], right[-1], "its last dimension" if n == 1 else f"dimension {n} from the end", tail):
        left, right = left[:-1], right[:-1]
        n += 1
    return left, right, pairs + tail[::-1]


def _meet(a: Dim | Row, b: Dim | Row, place: str, pairs: list[tuple[Dim, Dim, str]]) -> bool:
    if isinstance(a, Row) or isinstance(b, Row):
        return a == b
    pairs.append((a, b, place))
    return True


def size(state: State, t: Type, seen: dict[Type, int] | None = None) -> int:
    """How many nodes a type has as a tree (it is stored as a graph)."""
    seen = {} if seen is None else seen
    t = state.prune(t)
    if t not in seen:
        children: tuple[Type, ...] = ()
        match t:
            case Function(param, result):
                children = (param, result)
            case TupleType(items):
                children = items
            case RecordType(fields):
                children = tuple(f for _, f in fields)
            case Exists(_, _, body):
                children = (body,)
        total = 1
        for child in children:  # not `sum`: recursion through it would use up the stack of C
            total += size(state, child, seen)
        seen[t] = total
    return seen[t]


def subtypes(state: State, t: Type) -> tuple[Type, ...]:
    """The parts of a type, itself among them, each once."""
    whole = state.prune(t)
    if (known := state.closed.get(whole)) is not None:
        return known
    found: dict[Type, None] = {}
    stack, open_ = [whole], False
    while stack:
        t = stack.pop()
        if isinstance(t, TypeVar):
            t, open_ = state.prune(t), True
        if t in found:
            continue
        found[t] = None
        if isinstance(t, Tensor):
            continue
        match t:
            case Function(param, result):
                stack += (param, result)
            case TupleType(items):
                stack += items
            case RecordType(fields):
                stack += [f for _, f in fields]
            case Exists(_, _, body):
                stack.append(body)
    if not open_:
        state.closed[whole] = tuple(found)
    return tuple(found)
