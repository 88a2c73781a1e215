"""The adjoint of a tensor from the adjoints of one read of it: a gather, by inverting the subscripts.

    y[i, r] = … x[i + r] …        x̄[u] = sum r => (if 0 <= u - r < n then ȳ[u - r, r] else 0)

An element of the tensor gets the sum over all indices at which it is read. So each subscript is an equation between the indices of
the operation and those of the tensor, and as many indices as possible are solved for; the others are summed. What is not solved
for stays as a condition (`where ids[i] = u`), which backends compute as a scatter. On a torus, `x[(i + r) % n]`, the index is a
remainder as well; behind a border that is repeated, `x[min (i + r) (n - 1)]`, it is one of a few, which are summed.

Nothing rests on how an equation was solved: what a solution does not make identical is asked again, as is whether it lies within
the range of its index. It only has to be the one index that can satisfy its equation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import reduce
from itertools import product
from math import inf, prod

from axon.base.data import dataclass
from axon.base.names import Symbol, fresh
from axon.core.gradients.operations import at, axes_of, derivative
from axon.core.gradients.rules import number
from axon.core.gradients.scalars import Contribution, tidied
from axon.core.ir import Axis, Binary, Compute, Const, Convert, Index, Monoid, Read, Reduction, Scalar, Select, Value, element_of
from axon.core.scalar_facts import bare, comparison, conjunction, operands, substitute, with_dims
from axon.core.walk import converted, mentions
from axon.shapes.algebra.prove import Facts, proves
from axon.shapes.algebra.questions import form
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient, dim_sum, maximum, rebuilt, replaced
from axon.shapes.relation import Relation

ZERO, ONE = Dim.of(0), Dim.of(1)
FEW = 8  # indices that are looked at in place of a scatter


def gathered(
    value: Value, axes: Sequence[Axis], given: Contribution, known: Facts, last: Sequence[Axis] = ()
) -> tuple[Compute, ...]:
    """What a tensor gets from one read, for each index of `axes`, as the last of some operations. Axes in `last` are solved for
    last: they are short.

    Where an index of the tensor is one that is known before (`p.blocks[i]` in step i of a loop), sums are made for it alone.
    """
    whole = _read_whole(value, axes, given.read)
    apart = None if whole is not None else _summed_apart(value, axes, given, known, last)
    if apart is not None:
        made, left, given = apart
        return (made, *gathered(value, left, given, known, last))
    read, adjoint = given.read, given.adjoint
    places = tuple(Axis(fresh("u"), extent) for extent in value.shape)
    pairs = list(zip(read.subscripts, (Dim.of(p.symbol) for p in places), strict=True))
    fixed: dict[Symbol, Dim] = {}  # indices of the tensor that are known before any other is
    conditions: list[Scalar] = []
    if whole is not None:
        free = [axis for axis in axes if axis.symbol not in whole]
        own = {axis.symbol: fresh(axis.symbol.name) for axis in free}
        image = {s: Dim.of(new) for s, new in own.items()} | {s: Dim.of(places[n].symbol) for s, n in whole.items()}
        summed = tuple(Axis(own[axis.symbol], axis.extent) for axis in free)
    else:
        solved = _solved(read, value.shape, places, axes, last, known)
        image, summed, fixed = solved.image, solved.summed, dict(solved.fixed)
        conditions += solved.conditions
    inner = substitute(adjoint, image)
    while isinstance(inner, Select) and isinstance(inner.otherwise, Const) and inner.otherwise.value == 0:
        conditions += operands("and", inner.condition)
        inner = inner.then
    if given.reached is not None:
        conditions.append(substitute(given.reached, image))
    for subscript, u in pairs:
        if not isinstance(subscript, Dim):
            conditions.append(Binary("eq", substitute(subscript, image), Index(u, element_of(subscript))))
    mentioned = any(mentions(scalar, u) for u in fixed for scalar in (inner, *conditions))
    if mentioned or any(not axis.extent.variables.isdisjoint(fixed) for axis in (*places, *summed)):
        conditions += [comparison("eq", found, Dim.of(u)) for u, found in fixed.items()]
        fixed = {}
    where, rest = conjunction(tuple(conditions)), tuple(axis for axis in places if axis.symbol not in fixed)
    out = Value(fresh(derivative(value)), value.element, tuple(axis.extent for axis in rest))
    if not summed:
        body = inner if where is None else Select(where, inner, number(0, inner))
        return (Compute((out,), rest, None, (tidied(body),)),)
    inner = _unrounded(inner)
    if whole is None and solved.rests:
        asking, facts = [] if where is None else [where], known
        for axis in (*places, *summed):
            facts = facts.index(axis.symbol, axis.extent)
        summed, (inner, *asking) = _windows(summed, solved.rests, [inner, *asking], facts)
        where = asking[0] if asking else None
    where = None if where is None else tidied(where)
    total = out if element_of(inner) == out.element else Value(fresh(derivative(value)), element_of(inner), out.shape)
    sums = [Compute((total,), rest, Reduction(summed, Monoid("sum"), where), (tidied(inner),))]
    if total is not out:
        own_places = tuple(Axis(fresh("u"), axis.extent) for axis in rest)
        sums.append(Compute((out,), own_places, None, (Convert(at(total, own_places), out.element),)))
    return (*sums, _placed(value, out, [fixed.get(axis.symbol) for axis in places])) if fixed else tuple(sums)


@dataclass(frozen=True, slots=True)
class _Solved:
    """The indices of an operation by those of a tensor that it reads, `places`, and those that are `summed`, whose names are `own`;
    `rests` of these are remainders. Where the `conditions` do not hold there is nothing; places that are `fixed` are known before
    any other."""

    axes: tuple[Symbol, ...]
    places: tuple[Symbol, ...]
    own: dict[Symbol, int | None]  # which of the axes each of them was, if it was one
    image: dict[Symbol, Dim]
    summed: tuple[Axis, ...]
    conditions: tuple[Scalar, ...]
    fixed: dict[Symbol, Dim]
    rests: frozenset[Symbol]

    def over(self, axes: Sequence[Axis], places: Sequence[Axis]) -> _Solved:
        """The same of other axes and places, with summed indices of its own."""
        names = dict(zip(self.axes, (axis.symbol for axis in axes), strict=True))
        names |= zip(self.places, (place.symbol for place in places), strict=True)
        names |= {symbol: fresh(symbol.name if n is None else axes[n].symbol.name) for symbol, n in self.own.items()}
        dims = {old: Dim.of(new) for old, new in names.items()}
        return _Solved(
            axes=tuple(names[s] for s in self.axes),
            places=tuple(names[s] for s in self.places),
            own={names[s]: n for s, n in self.own.items()},
            image={names.get(s, s): dim.substitute(dims) for s, dim in self.image.items()},
            summed=tuple(Axis(names[axis.symbol], axis.extent.substitute(dims)) for axis in self.summed),
            conditions=tuple(substitute(condition, dims) for condition in self.conditions),
            fixed={names[s]: dim.substitute(dims) for s, dim in self.fixed.items()},
            rests=frozenset(names[s] for s in self.rests),
        )


def _solved(
    read: Read, shape: Sequence[Dim], places: Sequence[Axis], axes: Sequence[Axis], last: Sequence[Axis], known: Facts
) -> _Solved:
    """As it was solved before, if what was read then had the same form, or solved."""
    solved = known.found("solved")
    if solved.idle:
        return _solve(read, places, axes, last, known)
    subscripts = [s for s in read.subscripts if isinstance(s, Dim)]
    asked = form([axis.symbol for axis in axes], [*(axis.extent for axis in axes), *shape, *subscripts], known)
    if asked is None:
        return _solve(read, places, axes, last, known)
    key = asked, tuple(isinstance(s, Dim) for s in read.subscripts), tuple(axis in last for axis in axes)
    found: _Solved | None = solved.get(key)
    if found is not None:
        return found.over(axes, places)
    found = _solve(read, places, axes, last, known)
    solved.keep(key, found)
    return found


def _solve(read: Read, places: Sequence[Axis], axes: Sequence[Axis], last: Sequence[Axis], known: Facts) -> _Solved:
    pairs = [(s, Dim.of(p.symbol)) for s, p in zip(read.subscripts, places, strict=True) if isinstance(s, Dim)]
    solver = _Solver(pairs, axes, last, known)
    solver.run()
    own = {axis.symbol: fresh(axis.symbol.name) for axis in solver.left}
    image = {s: Dim.of(new) for s, new in own.items()}
    image |= {s: d.substitute(image) for s, d in solver.solved.items()}
    summed = _in_order(tuple(Axis(own[a.symbol], a.extent.substitute(image)) for a in solver.left))
    facts = known
    for axis in (*places, *summed):
        facts = facts.index(axis.symbol, axis.extent)
    fixed: dict[Symbol, Dim] = {}
    divisors = dict.fromkeys(solver.divisors)
    conditions = [comparison("gt", d, ZERO) for d in divisors if not proves(facts, Relation(d, ">", ZERO))]
    for axis in solver.axes:
        if axis.symbol in solver.solved:
            conditions += within(image[axis.symbol], axis.extent.substitute(image), facts)
    others = {axis.symbol for axis in (*places, *summed)}
    for subscript, u in pairs:
        if (found := subscript.substitute(image)) != u and not _equal(found, u, facts):
            if summed and found.variables.isdisjoint(others):
                fixed |= dict.fromkeys(u.variables, found)
            else:
                conditions.append(comparison("eq", found, u))
    indices = {axis.symbol: n for n, axis in enumerate(axes)}
    return _Solved(
        axes=tuple(indices),
        places=tuple(place.symbol for place in places),
        own={new: indices.get(s) for s, new in own.items()},
        image=image,
        summed=summed,
        conditions=tuple(conditions),
        fixed=fixed,
        rests=frozenset(own[s] for s in solver.rests if s in own),
    )


def _read_whole(value: Value, axes: Sequence[Axis], read: Read) -> dict[Symbol, int] | None:
    """Of a tensor that is read as a whole, at bare axes that run over its very dimensions: which dimension each of them is. Then
    nothing has to be solved, and nothing proved. None for other reads."""
    extents = {axis.symbol: axis.extent for axis in axes}
    found: dict[Symbol, int] = {}
    for n, (subscript, extent) in enumerate(zip(read.subscripts, value.shape, strict=True)):
        axis = bare(subscript)
        if axis is None or axis in found or extents.get(axis) != extent:
            return None
        found[axis] = n
    return found if all(axis.extent.variables.isdisjoint(extents) for axis in axes) else None


def _unrounded(scalar: Scalar) -> Scalar:
    """What is summed: what a coercion made wider before the forward pass computed with it is rounded back when it is summed."""
    match scalar:
        case Convert(operand=operand, element=element) if element.is_float and element_of(operand).is_float:
            return operand if element_of(operand).bits > element.bits else scalar
    return scalar


def _windows(
    axes: tuple[Axis, ...], rests: Set[Symbol], scalars: Sequence[Scalar], facts: Facts
) -> tuple[tuple[Axis, ...], list[Scalar]]:
    """Expressions in which remainders that are summed stand as they are, not as remainders; and where one stands only as the last
    digit of a number (`r + 2 * i` with r below 2), that number is summed in place of its digits: a window along a stride."""
    found = [with_dims(scalar, lambda dim: _less(dim, facts)) for scalar in scalars]
    for rest in [axis for axis in axes if axis.symbol in rests]:
        for other in [axis for axis in axes if axis != rest]:
            if not _are_digits(rest, other, found) or any(
                not a.extent.variables.isdisjoint((rest.symbol, other.symbol)) for a in axes
            ):
                continue
            both = Axis(fresh(other.symbol.name), rest.extent * other.extent)
            names = {rest.symbol: Dim.of(both.symbol), other.symbol: ZERO}
            found = [substitute(scalar, names) for scalar in found]
            axes = tuple(both if axis == other else axis for axis in axes if axis != rest)
            break
    return axes, found


def _are_digits(low: Axis, high: Axis, scalars: Iterable[Scalar]) -> bool:
    """Whether two indices stand in expressions only as `low + its extent * high`, or a multiple of that."""
    dims: list[Dim] = []

    def seen(dim: Dim) -> Dim:
        dims.append(dim)
        return dim

    for scalar in scalars:
        with_dims(scalar, seen)
    for dim in dims:
        split = dim.linear_in(low.symbol)
        above = None if split is None else split[1].linear_in(high.symbol)
        if split is None or above is None or above[0] != split[0] * low.extent or high.symbol in split[0].variables:
            return False
    return True


def _summed_apart(
    value: Value, axes: Sequence[Axis], given: Contribution, known: Facts, last: Sequence[Axis]
) -> tuple[Compute, Sequence[Axis], Contribution] | None:
    """Where several indices stand in one subscript as digits (`x[i, h * 64 + c]`, summed over j): the sum over those that stand in
    none, for each of these indices; and what is left, which is no sum. As one, it would be a sum at quotients, under conditions."""
    subscripts = [s for s in given.read.subscripts if isinstance(s, Dim)]
    if given.reached is not None or len(subscripts) < len(given.read.subscripts):
        return None
    names = {axis.symbol for axis in axes}
    inside = _as_read(subscripts, axes)
    others = [axis for axis in axes if axis not in inside]
    if not others or not any(len(s.variables & names) > 1 for s in subscripts) or any(a.extent.variables & names for a in axes):
        return None
    solver = _Solver([(s, Dim.of(fresh("u"))) for s in subscripts], axes, last, known)
    solver.run()
    if not solver.divisors or {axis.symbol for axis in solver.left} != {axis.symbol for axis in others}:
        return None
    own = {axis.symbol: Axis(fresh(axis.symbol.name), axis.extent) for axis in axes}
    image = {symbol: Dim.of(axis.symbol) for symbol, axis in own.items()}
    inner, conditions = substitute(given.adjoint, image), list[Scalar]()
    while isinstance(inner, Select) and isinstance(inner.otherwise, Const) and inner.otherwise.value == 0:
        conditions += operands("and", inner.condition)
        inner = inner.then
    where = conjunction(tuple(conditions))
    inner = _unrounded(inner)
    out = Value(fresh(derivative(value)), element_of(inner), tuple(axis.extent for axis in inside))
    reduction = Reduction(tuple(own[a.symbol] for a in others), Monoid("sum"), None if where is None else tidied(where))
    made = Compute((out,), tuple(own[a.symbol] for a in inside), reduction, (tidied(inner),))
    return made, inside, Contribution(given.read, converted(at(out, inside), value.element))


def _as_read(subscripts: Sequence[Dim], axes: Sequence[Axis]) -> list[Axis]:
    """The axes that stand in subscripts, in the order in which memory is read by them: of digits the last one last."""
    found: list[Axis] = []
    for subscript in subscripts:
        mine = [axis for axis in axes if axis.symbol in subscript.variables and axis not in found]
        found += sorted(mine, key=lambda axis: (split := subscript.linear_in(axis.symbol)) is not None and split[0] == ONE)
    return found


def _in_order(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Axes after those that their ranges depend on: what one of these was solved by may stand behind."""
    found: list[Axis] = []
    left = list(axes)
    while left:
        names = {axis.symbol for axis in left}
        found.append(next(axis for axis in left if names.isdisjoint(axis.extent.variables)))
        left.remove(found[-1])
    return tuple(found)


def _placed(value: Value, part: Value, where: Sequence[Dim | None]) -> Compute:
    """A tensor that has a part of fewer dimensions at some indices, and 0 elsewhere."""
    axes = axes_of(value)
    here = conjunction(tuple(comparison("eq", d, Dim.of(a.symbol)) for a, d in zip(axes, where, strict=True) if d is not None))
    assert here is not None
    read = at(part, [a for a, d in zip(axes, where, strict=True) if d is None])
    out = Value(fresh(derivative(value)), value.element, value.shape)
    return Compute((out,), axes, None, (tidied(Select(here, read, number(0, read))),))


def within(index: Dim, extent: Dim, facts: Facts) -> Iterator[Scalar]:
    """Conditions that an index is in its range, where that is not known."""
    if not proves(facts, Relation(index, ">=", ZERO)):
        yield comparison("ge", index, ZERO)
    if not proves(facts, Relation(index, "<", extent)):
        yield comparison("lt", index, extent)


def _equal(a: Dim, b: Dim, facts: Facts) -> bool:
    return proves(facts, Relation(a, "=", b)) or _less(a, facts) == _less(b, facts)


def _less(dim: Dim, facts: Facts) -> Dim:
    """A Dim without quotients of what is less than the divisor, which are 0."""

    def image(atom: Atom) -> Dim:
        if isinstance(atom, Symbol):
            return Dim.of(atom)
        whole = rebuilt(atom, lambda part: _less(part, facts))
        found = whole.atom
        if isinstance(found, Quotient) and not any(within(found.dividend, found.divisor, facts)):
            return ZERO
        return whole

    return dim.rewrite(image)


def _beside(subscript: Dim, axis: Axis, axes: frozenset[Symbol], facts: Facts) -> tuple[Dim, Dim] | None:
    """Between which sizes a subscript lies, less an axis; None where that is not known. What is the least of some is below each,
    so below that of them which follows the axis, and no size."""
    split = subscript.linear_in(axis.symbol)
    if split is not None and split[0].constant is not None:
        ends = split[1], split[1] + (split[0] - 1) * (axis.extent - 1)
        return ends if split[0].constant >= 1 else ends[::-1]
    for atom in sorted((a for a in subscript.atoms if isinstance(a, Minimum)), key=lambda a: [i.sort_key for i in a.items]):
        by = subscript.split(atom)
        if by is None or by[0].constant not in (1, -1) or axis.symbol not in {v for i in atom.items for v in i.variables}:
            continue
        found = [_beside(by[0] * item + by[1], axis, axes, facts) for item in atom.items]
        lows, highs = [end[0] for end in found if end is not None], [end[1] for end in found if end is not None]
        if len(lows) < len(found):
            return None
        if by[0] == ONE:
            return -_greatest([-low for low in lows], facts), min(highs, key=lambda dim: _sizes(dim, axes))
        return min(lows, key=lambda dim: _sizes(dim, axes)), _greatest(highs, facts)
    return None


def _sizes(dim: Dim, axes: frozenset[Symbol]) -> tuple[int, object]:
    """The fewer, the better known a Dim is."""
    return len(dim.variables - axes), dim.sort_key


def _greatest(dims: Sequence[Dim], facts: Facts) -> Dim:
    """The greatest of some, without those that another is known to reach."""
    found: list[Dim] = []
    for dim in dims:
        if not any(proves(facts, Relation(other, ">=", dim)) for other in found):
            found = [other for other in found if not proves(facts, Relation(dim, ">=", other))] + [dim]
    return reduce(maximum, found)


@dataclass(slots=True, eq=False)
class _Equation:
    subscript: Dim  # over the axes that are left
    at: Dim


class _Solver:
    """`solved` are axes by the tensor's indices and the axes that are `left`, which are summed; some of these may be new."""

    def __init__(self, equations: Sequence[tuple[Dim, Dim]], axes: Sequence[Axis], last: Sequence[Axis], known: Facts) -> None:
        self.known = known
        self.equations = [_Equation(s, u) for s, u in equations]
        self.axes = tuple(axes)
        self.left = list(axes)
        self.last = {axis.symbol for axis in last}
        self.solved: dict[Symbol, Dim] = {}
        self.rests: set[Symbol] = set()  # axes that are remainders
        self.divisors: list[Dim] = []  # extents that are divided by, which are above 0 where there is any index

    def run(self) -> None:
        while any(rule(equation) for rule in self.rules() for equation in self.equations):
            pass

    def rules(self) -> tuple[Callable[[_Equation], bool], ...]:
        """From those that lose nothing to those that leave conditions."""
        exact = (self.single, self.around, self.mixed_radix, self.digits)
        return (*exact, self.quotient, self.shared_quotient, self.several, self.near)

    def own(self, dim: Dim) -> list[Axis]:
        return [axis for axis in self.left if axis.symbol in dim.variables]

    def solve(self, axis: Axis, value: Dim) -> bool:
        """`value` mentions neither the axis nor what it was solved by."""
        image = {axis.symbol: value}
        self.solved = {s: d.substitute(image) for s, d in self.solved.items()}
        self.solved[axis.symbol] = value
        self.left.remove(axis)
        for equation in self.equations:
            equation.subscript = equation.subscript.substitute(image)
        return True

    def by(self, axis: Axis, subscript: Dim, at: Dim) -> bool:
        """An axis that a subscript is linear in, from the others."""
        split = subscript.linear_in(axis.symbol)
        if split is None or self.needed_by_others(axis, subscript):
            return False
        coefficient, rest = split
        if any(a.symbol in coefficient.variables for a in self.axes) or coefficient == ZERO:
            return False
        if coefficient.constant is not None and coefficient.constant < 0:
            coefficient, rest, at = -coefficient, at, rest
        if coefficient.constant is None and not proves(self.known, Relation(coefficient, ">", ZERO)):
            return False  # if it is 0, every index of the axis satisfies the equation, or none
        return self.solve(axis, (at - rest) if coefficient == ONE else (at - rest) // coefficient)

    def needed_by_others(self, axis: Axis, subscript: Dim) -> bool:
        """Whether the range of an axis that the subscript mentions, which would stay, depends on this one, also through others."""
        if not subscript.variables & {other.symbol for other in self.left if other != axis}:
            return False
        ranges = {other.symbol: other.extent.substitute(self.solved).variables for other in self.left if other != axis}
        depending = {axis.symbol}
        while more := {symbol for symbol, names in ranges.items() if symbol not in depending and not names.isdisjoint(depending)}:
            depending |= more
        return any(other.symbol in depending for other in self.own(subscript) if other != axis)

    # ── rules ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def single(self, equation: _Equation) -> bool:
        mine = self.own(equation.subscript)
        return len(mine) == 1 and self.by(mine[0], equation.subscript, equation.at)

    def around(self, equation: _Equation) -> bool:
        """`(i + r) % n + 2` where i is below n: of all below n, one index has this remainder."""
        names = {axis.symbol for axis in self.axes}
        for atom in (a for a in equation.subscript.quotients if a.divisor.variables.isdisjoint(names)):
            offset = equation.subscript - atom.remainder
            for axis in () if self.own(offset) else sorted(self.own(atom.dividend), key=self.cost):
                split = atom.dividend.linear_in(axis.symbol)
                below = split is not None and proves(self.known, Relation(axis.extent, "<=", atom.divisor))
                if split is None or split[0].constant not in (1, -1) or not below:
                    continue
                if not self.needed_by_others(axis, equation.subscript):
                    self.divisors.append(atom.divisor)
                    return self.solve(axis, split[0] * (equation.at - offset - split[1]) % atom.divisor)
        return False

    def mixed_radix(self, equation: _Equation) -> bool:
        """`i * n + j` where `j < n`, and so on with more digits: the last is a remainder."""
        mine = self.own(equation.subscript)
        for axis in mine if len(mine) > 1 else ():
            split = equation.subscript.linear_in(axis.symbol)
            if split is None or split[0] != ONE or self.needed_by_others(axis, equation.subscript):
                continue
            terms = [equation.subscript.linear_in(other.symbol) for other in mine if other != axis]
            rest = split[1]
            offset = rest.substitute({other.symbol: ZERO for other in mine if other != axis})
            above = (rest - offset).plain_quotient(axis.extent) if axis.extent != ONE else None
            if above is None or any(t is None for t in terms):  # else what is above could mention what it is divided by
                continue
            if not axis.extent.variables.isdisjoint(other.symbol for other in self.axes):
                continue
            self.divisors.append(axis.extent)
            position = equation.at - offset
            self.solve(axis, position % axis.extent)
            equation.subscript, equation.at = above, position // axis.extent
            return True
        return False

    def digits(self, equation: _Equation) -> bool:
        """`c * h + 2 * j + 1` where `2 * j + 1` is below c: that is the remainder by c, and h the quotient."""
        mine = self.own(equation.subscript)
        found = {axis: equation.subscript.linear_in(axis.symbol) for axis in mine}
        coefficients = {axis: split[0] for axis, split in found.items() if split is not None}
        names = {axis.symbol for axis in self.axes}
        if len(coefficients) < len(mine) or any(not c.variables.isdisjoint(names) for c in coefficients.values()):
            return False
        for base in dict.fromkeys(coefficients.values()):
            above = dim_sum(c * axis.symbol for axis, c in coefficients.items() if c.plain_quotient(base) is not None)
            below, times = equation.subscript - above, above.plain_quotient(base)
            least = self.own(below)
            if times is None or not least or any(not axis.extent.variables.isdisjoint(names) for axis in least):
                continue
            facts = self.known
            for axis in least:
                facts = facts.index(axis.symbol, axis.extent)
            if proves(facts, Relation(below, ">=", ZERO)) and proves(facts, Relation(below, "<", base)):
                self.divisors.append(base)
                self.equations.append(_Equation(below, equation.at % base))
                equation.subscript, equation.at = times, equation.at // base
                return True
        return False

    def quotient(self, equation: _Equation) -> bool:
        """A quotient that another subscript has too: `k / n` beside `k % n`, which is `k - n * (k / n)`."""
        for atom in (a for a in equation.subscript.atoms if isinstance(a, Quotient)):
            split = equation.subscript.split(atom)
            if split is None or split[0] != ONE or self.own(split[1]) or not self.own(equation.subscript):
                continue
            value = equation.at - split[1]
            if any(other is not equation and atom in other.subscript.atoms for other in self.equations):
                for each in self.equations:
                    if each is not equation:
                        each.subscript = replaced(each.subscript, atom, value)
                equation.subscript = equation.at  # asked again at the end
                return True
        return False

    def shared_quotient(self, equation: _Equation) -> bool:
        """`k / c`: k is c * u and a remainder, which is summed. So in `k / c - i` where i is one of a few: k is one of few more,
        and i would leave all of k."""
        for atom in (a for a in equation.subscript.atoms if isinstance(a, Quotient)):
            split = equation.subscript.split(atom)
            inside = [axis for axis in self.own(equation.subscript) if axis.symbol in atom.dividend.variables]
            if split is None or split[0].constant not in (1, -1) or len(inside) != 1:
                continue
            (axis,), others = inside, self.own(split[1])
            if axis in others or any(a.symbol in atom.divisor.variables for a in self.axes):
                continue
            if others and not self.fewer([*(other.extent for other in others), atom.divisor], axis.extent):
                continue
            if atom.dividend.linear_in(axis.symbol) is None:
                continue
            rest = Axis(fresh("r"), atom.divisor)
            value = split[0] * (equation.at - split[1])
            if self.by(axis, atom.dividend, atom.divisor * value + Dim.of(rest.symbol)):
                self.left.insert(0, rest)  # before those whose ranges depend on it
                self.rests.add(rest.symbol)
                equation.subscript = equation.at  # (c * u + r) / c, which is asked again at the end
                return True
        return False

    def fewer(self, extents: Sequence[Dim], other: Dim) -> bool:
        """Whether so many indices together are known to be fewer than those of another range, or few where that is not known."""
        known = [extent.constant for extent in extents]
        if None in known:
            return False
        count = prod(n for n in known if n is not None)
        return count <= FEW**2 if other.constant is None else count < other.constant

    def several(self, equation: _Equation) -> bool:
        """`i + r`, `2 * i + r`: one of them from the other."""
        mine = self.own(equation.subscript)
        candidates = sorted(mine if len(mine) > 1 else (), key=self.cost)
        return any(self.by(axis, equation.subscript, equation.at) for axis in candidates)

    def near(self, equation: _Equation) -> bool:
        """`min (i + r) (n - 1)`: not far from i, which is one of a few. Those at the borders are more than one."""
        if not any(isinstance(atom, Minimum) for atom in equation.subscript.atoms):
            return False
        for axis in sorted(self.own(equation.subscript), key=self.cost):
            facts = self.known
            for one in self.left:
                facts = facts.index(one.symbol, one.extent)
            ends = _beside(equation.subscript, axis, frozenset(one.symbol for one in self.left), facts)
            if ends is None or axis.symbol in (ends[0].variables | ends[1].variables):
                continue
            many = maximum(ends[1] - ends[0], 0) + 1
            if self.most(many) > FEW or self.needed_by_others(axis, equation.subscript):
                continue
            one = Axis(fresh("r"), many)
            self.left.append(one)
            return self.solve(axis, equation.at - ends[1] + one.symbol)
        return False

    def most(self, many: Dim) -> float:
        """The greatest that a Dim over axes of known extents is."""
        extents = {axis.symbol: axis.extent.constant for axis in self.left if axis.symbol in many.variables}
        known = {symbol: extent for symbol, extent in extents.items() if extent is not None}
        if known.keys() != many.variables or prod(known.values()) > FEW**3:
            return inf
        places = product(*(range(extent) for extent in known.values()))
        return max((many.evaluate(dict(zip(known, place, strict=True))) for place in places), default=1)

    def cost(self, axis: Axis) -> tuple[bool, int]:
        """What it costs to solve for this axis and sum over the others: a short one is better summed."""
        constant = axis.extent.constant
        return axis.symbol in self.last, 0 if constant is None else -constant
