"""In which order the factors of a sum of products are multiplied: binary trees over them, and what these cost.

    candidates  the trees that are best at sizes of some kind, the one that loses least in the mean first
    cost        what a tree costs at some sizes

An index that is summed is summed at the lowest node below which all factors with it stand. So a tree says everything: which
intermediates there are, and over which indices.

Note [Costs]
    A cost is in elements moved. A node whose two sides each have an index of their own that is kept, and a summed one in common, is
    a product of matrices: its sides must lie in memory, and a multiply-add costs a `products`-th of an element moved. Any other sum
    costs one for each of its points, and computes sides that sum nothing as it goes. What is made costs an element for each of its
    own, and another one if it sums nothing and is read again: the result is only written. Trees are found by dynamic programming
    over subsets of the factors (Pfeifer, Haegeman and Verstraete 2014, "Faster identification of optimal contraction sequences for
    tensor networks").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from math import e, inf, log, prod
from random import Random
from typing import TypeAlias

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.shapes.dimension import Dim

MOST = 8  # factors, up to which all trees are compared
SAMPLES = 24  # sizes at which trees are compared before any are known
LARGEST = 2048  # of these sizes
GAIN = 1.25  # by which a tree must be better somewhere to be one of several
KEPT = 4  # trees of a sum, at most, among which sizes decide

Tree: TypeAlias = "int | tuple[Tree, Tree]"
Order: TypeAlias = "tuple[tuple[Symbol, Tree], ...]"  # of sums, by what they make
DEFAULT: Order = ()
Sizes: TypeAlias = Mapping[Symbol, int]


def leaves(tree: Tree) -> frozenset[int]:
    """The numbers of the factors in a tree."""
    return frozenset((tree,)) if isinstance(tree, int) else leaves(tree[0]) | leaves(tree[1])


@dataclass(frozen=True, slots=True)
class Shape:
    """A sum of products as far as its order goes: the axes of each factor, whether it is read as it lies, and the axes kept."""

    factors: tuple[frozenset[Symbol], ...]
    plain: tuple[bool, ...]
    kept: frozenset[Symbol]

    def axes(self, inside: frozenset[int]) -> frozenset[Symbol]:
        """The axes of the product of some factors, without those that only they have and nobody keeps."""
        mine = frozenset[Symbol]().union(*(self.factors[n] for n in inside))
        others = (axes for n, axes in enumerate(self.factors) if n not in inside)
        return mine & self.kept.union(*others)

    def points(self, left: frozenset[int], right: frozenset[int]) -> frozenset[Symbol]:
        """The axes over which two parts are multiplied."""
        return self.axes(left) | self.axes(right)

    def is_product(self, left: frozenset[int], right: frozenset[int]) -> bool:
        """Whether two parts meet in a product of matrices. See Note [Costs]."""
        mine, theirs, made = self.axes(left), self.axes(right), self.axes(left | right)
        return bool((mine - theirs) & made and (theirs - mine) & made and (mine & theirs) - made)


_Found: TypeAlias = "tuple[float, Tree]"


@dataclass(frozen=True)
class _Costs:
    """Trees and their costs at some sizes, by the factors that they have."""

    shape: Shape
    sizes: Sizes
    products: int

    @cached_property
    def best(self) -> _Found:
        """The cost and the tree of all factors."""
        lying: dict[frozenset[int], _Found] = {}  # in memory
        going: dict[frozenset[int], _Found] = {}  # where a node that sums nothing is computed as it is read
        count = len(self.shape.factors)
        for size in range(1, count + 1):
            for chosen in combinations(range(count), size):
                inside = frozenset(chosen)
                ways = list(self._ways(chosen, lying, going))
                going[inside] = min(ways, key=lambda way: way[0])
                lying[inside] = min(((cost + self.stored(tree), tree) for cost, tree in ways), key=lambda way: way[0])
        return min(((cost + self.stored(tree) / 2, tree) for cost, tree in ways), key=lambda way: way[0])

    def _ways(
        self, chosen: tuple[int, ...], lying: Mapping[frozenset[int], _Found], going: Mapping[frozenset[int], _Found]
    ) -> Iterator[_Found]:
        if len(chosen) == 1:
            yield self._leaf(chosen[0]), chosen[0]
        first, rest = chosen[0], chosen[1:]
        for size in range(len(rest)):  # the part with the first factor; each split once
            for others in combinations(rest, size):
                left = frozenset((first, *others))
                right = frozenset(chosen) - left
                (a, x), (b, y) = (found := lying if self.shape.is_product(left, right) else going)[left], found[right]
                yield a + b + self._own(left, right), (x, y)

    def of(self, tree: Tree) -> float:
        """What a tree costs, with its result."""
        return self._of(tree) + self.stored(tree) / 2

    def _of(self, tree: Tree) -> float:
        if isinstance(tree, int):
            return self._leaf(tree)
        left, right = tree
        lie = self.shape.is_product(leaves(left), leaves(right))
        sides = sum(self._of(side) + (self.stored(side) if lie else 0.0) for side in tree)
        return sides + self._own(leaves(left), leaves(right))

    def elements(self, axes: frozenset[Symbol]) -> float:
        return float(prod(self.sizes[axis] for axis in axes))

    def stored(self, tree: Tree) -> float:
        """What it costs in addition that a node lies in memory: nothing if it sums, or is a factor that lies there anyway."""
        inside = leaves(tree)
        if isinstance(tree, int):
            points, lies = self.shape.factors[tree], self.shape.plain[tree]
        else:
            points, lies = self.shape.points(leaves(tree[0]), leaves(tree[1])), False
        return 0.0 if lies or points != self.shape.axes(inside) else 2 * self.elements(points)

    def _leaf(self, number: int) -> float:
        points, made = self.shape.factors[number], self.shape.axes(frozenset((number,)))
        return 0.0 if points == made else self.elements(points) + self.elements(made)

    def _own(self, left: frozenset[int], right: frozenset[int]) -> float:
        """What a node costs beside its sides."""
        points, made = self.shape.points(left, right), self.shape.axes(left | right)
        if points == made:
            return 0.0
        if not self.shape.is_product(left, right):
            return self.elements(points) + self.elements(made)
        moved = sum(map(self.elements, (self.shape.axes(left), self.shape.axes(right), made)))
        return self.elements(points) / self.products + moved


def cost(shape: Shape, tree: Tree, sizes: Sizes, products: int) -> float:
    """What a tree costs at some sizes of the axes. See Note [Costs]."""
    return _Costs(shape, sizes, products).of(tree)


def candidates(shape: Shape, samples: Sequence[Sizes], products: int) -> tuple[Tree, ...]:
    """Trees that are best at one of the samples, `KEPT` at most: the first one loses least in the mean of logarithms over all of
    them, and so does each that follows beside those before it, by a factor of `GAIN` somewhere."""
    costs = [_Costs(shape, sizes, products) for sizes in samples]
    found = dict.fromkeys(each.best[1] for each in costs)
    logs = {tree: [log(each.of(tree) + 1) for each in costs] for tree in found}
    kept: list[Tree] = []
    have = [inf] * len(costs)
    while found and len(kept) < KEPT:
        tree = min(found, key=lambda tree: sum(map(min, have, logs[tree])))
        del found[tree]
        if kept and all(old <= new + log(GAIN) for old, new in zip(have, logs[tree], strict=True)):
            break
        kept.append(tree)
        have = list(map(min, have, logs[tree]))
    return tuple(kept)


def samples(symbols: Sequence[Symbol]) -> list[dict[Symbol, int]]:
    """Sizes for dimensions, from 1 to `LARGEST`, evenly by their logarithms; the same ones each time."""
    chance = Random(0)
    span = log(LARGEST)
    return [{symbol: round(e ** (span * chance.random())) for symbol in symbols} for _ in range(SAMPLES)]


# ── where the sizes of a call decide ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class OrderChoice:
    """A sum that is best multiplied in one of several orders, as its sizes are."""

    symbol: Symbol
    trees: tuple[Tree, ...]
    shape: Shape
    extents: tuple[tuple[Symbol, Dim], ...]
    products: int

    def at(self, sizes: Mapping[Symbol, int]) -> Tree:
        """The best order at these sizes of a call."""
        along = {axis: max(1, extent.evaluate(sizes)) for axis, extent in self.extents}
        return min(self.trees, key=lambda tree: cost(self.shape, tree, along, self.products))


def order_at(found: Iterable[OrderChoice], sizes: Mapping[Symbol, int]) -> Order:
    """The orders that are best at these sizes of a call."""
    return tuple((choice.symbol, choice.at(sizes)) for choice in found)
