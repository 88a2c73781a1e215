"""What several adjoints of an operation have in common, as tensors of its size: `exp` of a sigmoid, say, for each of its operands.

Each read of an operation gets an expression of its own, which stands in other kernels than those of the others: what they have in
common would be computed in each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from axon.base.identity import IdentityMap
from axon.base.names import Symbol, fresh
from axon.core.gradients.operations import apart
from axon.core.gradients.scalars import tidied
from axon.core.ir import Axis, Bind, Compute, Const, Local, Read, Scalar, Select, Value, element_of
from axon.core.scalar_facts import may_fail, size, weight
from axon.core.walk import children, nodes, with_children
from axon.shapes.dimension import Dim

WORTH = 24  # additions that are saved at each point, from which it is worth to write and read memory

LARGE = 2_000  # nodes, from which nothing is sought: it takes time


def shared(
    expressions: Sequence[Scalar], axes: Sequence[Axis], inside: Callable[[Scalar], bool]
) -> tuple[tuple[Compute, ...], tuple[Scalar, ...]]:
    """Operations over the axes that make what the expressions over these have in common, and the expressions by them. They are
    made at all indices, also where a condition guards what they read: `inside` says whether an expression only reads what is there.
    """
    costs = sorted((weight(expression, None) for expression in expressions), reverse=True)
    possible = any(others * cost >= WORTH for others, cost in enumerate(costs))
    if not possible or sum(size(e, LARGE) for e in expressions) >= LARGE:
        return (), tuple(expressions)
    numbers = _Numbers()
    for expression in expressions:
        numbers.number(expression, ())
    often = Counter(number for e in expressions for number in {numbers.of[node] for node in nodes(e)})
    chosen: dict[int, Scalar] = {}  # with the names that they mention bound around them
    for expression in expressions:
        _choose(expression, numbers, often, chosen, inside, guarded=True)
    ops: list[Compute] = []
    made: dict[int, Scalar] = {}
    for number in sorted(chosen):  # parts of others come first
        body = tidied(_by(chosen[number], numbers, made))
        out = Value(fresh("d_shared"), element_of(body), tuple(axis.extent for axis in axes))
        ops.append(apart(Compute((out,), tuple(axes), None, (body,))))
        made[number] = Read(out.symbol, tuple(Dim.of(axis.symbol) for axis in axes), out.element)
    return tuple(ops), tuple(tidied(_by(e, numbers, made)) if made else e for e in expressions)


Bindings = tuple[tuple[Symbol, Scalar], ...]


class _Numbers:
    """Equal expressions have equal numbers, whatever the names in them are called; those of parts are smaller."""

    def __init__(self) -> None:
        self.of = IdentityMap[Scalar, int]()
        self.around = IdentityMap[Scalar, Bindings]()
        self.known: dict[object, int] = {}
        self.locals: dict[Symbol, int] = {}
        self.values: dict[Symbol, Scalar] = {}
        self.refused: set[int] = set()

    def number(self, scalar: Scalar, around: Bindings) -> int:
        self.around[scalar] = around
        match scalar:
            case Local(symbol=symbol):
                found = self.locals.get(symbol)
                if found is None:
                    found = self.known.setdefault(scalar, len(self.known))
            case Bind(bindings=bindings, body=body):
                for symbol, value in bindings:
                    self.locals[symbol], self.values[symbol] = self.number(value, around), value
                    around = (*around, (symbol, value))
                found = self.number(body, around)
            case _:
                parts = children(scalar)
                numbers = tuple(self.number(part, around) for part in parts)
                # The node itself with one name for all of its parts of a type.
                bare = with_children(scalar, [Local(_HOLE, element_of(part)) for part in parts]) if parts else scalar
                found = self.known.setdefault((bare, numbers), len(self.known))
        self.of[scalar] = found
        return found


_HOLE = fresh("hole")


def _choose(
    scalar: Scalar,
    numbers: _Numbers,
    often: Counter[int],
    chosen: dict[int, Scalar],
    reads_inside: Callable[[Scalar], bool],
    guarded: bool = False,
) -> None:
    """The largest parts that are worth it. What a condition guards as a whole is looked into: sums are made under it."""
    match scalar:
        case Bind(body=body):  # names are looked into where they are used
            _choose(body, numbers, often, chosen, reads_inside, guarded)
            return
        case Local(symbol=symbol):
            if symbol in numbers.values:
                _choose(numbers.values[symbol], numbers, often, chosen, reads_inside)
            return
        case Select(otherwise=Const(value=0)):
            inside = guarded
        case _:
            inside = False
    number = numbers.of[scalar]
    if number in chosen or number in numbers.refused:
        return
    if often[number] > 1 and not inside:
        closed = Bind(numbers.around[scalar], scalar) if numbers.around[scalar] else scalar
        alone = tidied(closed)
        worth = element_of(scalar).is_float and (often[number] - 1) * weight(alone, None) >= WORTH
        if worth and not may_fail(alone) and reads_inside(alone):
            chosen[number] = closed
            return
    numbers.refused.add(number)
    for child in children(scalar):
        _choose(child, numbers, often, chosen, reads_inside, inside)


def _by(scalar: Scalar, numbers: _Numbers, made: dict[int, Scalar]) -> Scalar:
    number = numbers.of.get(scalar)
    if number is not None and number in made:
        return made[number]
    parts = children(scalar)
    return with_children(scalar, [_by(part, numbers, made) for part in parts]) if parts else scalar
