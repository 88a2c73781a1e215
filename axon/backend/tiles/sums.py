"""Sums of products of strided tensors as loops that suit their sizes: which index vectors run along, in which order the others go.

    arranged    where the elements of factors and of their sum lie -> how to compute it

`sum_loops` writes the function that does it.

Note [Along and beside]
    Vectors run `along` an index whose neighbours lie side by side in most of what is read and written. If it is kept, or other
    indices are summed as well, each of its places has an accumulator in the cache, and what is summed goes around that loop:
    nothing is added up within a vector but once at the end. If it is short, it is written out, and vectors run along another index.
    A factor of few elements that lies otherwise is copied first. One of many is read in blocks along the index in which it lies
    (`across`), so that a line of the cache is used while it is there: each block is turned, by vectors, into memory of the thread.

Note [Work]
    Items of work are indices of the result. Where there are few, an index that is summed is cut into chunks, each with a result of
    its own, which are added in the end. All of that follows from sizes alone: bits are the same on one thread and on many.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from axon.base.data import dataclass, replace

SHORT = 8  # places of an index that are written out
LANES = 1024  # accumulators
MAP = 4096  # elements of a result that sums nothing, side by side
NEAR, OVER = 64, 16  # of a block that is read across: along, and across
TURN = 8  # of its lines that are turned at once
ITEMS = 64  # of work
CHUNKS = 16  # into which a sum is cut
GATHERED, TURNED, SHUFFLED, COPIED = 8.0, 4.0, 2.0, 4.0  # reads side by side in the time of one that is not, is turned, …
JOINED = 64  # points for each element of a factor that is copied for its order alone
BEGIN = 16  # elements in whose time a loop begins
LARGE = 1 << 18  # points of a sum that is worth to be cut


@dataclass(frozen=True, slots=True)
class Sum:
    """result = sum of the product of factors over the indices that are not `kept`; strides in elements, 0 where an index is none of
    a tensor's. The result has no stride along what is summed."""

    sizes: tuple[int, ...]
    kept: tuple[bool, ...]
    factors: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]

    @property
    def points(self) -> int:
        return prod(self.sizes)

    def elements(self, strides: Sequence[int]) -> int:
        return prod(size for size, stride in zip(self.sizes, strides, strict=True) if stride)


@dataclass(frozen=True, slots=True)
class Copy:
    """How a factor lies, and how its copy does, over indices of these sizes."""

    shape: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arranged:
    """How a sum is computed. Axes are numbers; `outer` and `inner` those of the result, by items of work and in each of them;
    `summed` from the outside to the inside; `along`, `unrolled` and `across` as in Note [Along and beside]."""

    sum: Sum
    copies: tuple[Copy | None, ...]  # of factors, to lie as `sum` has them
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    summed: tuple[int, ...]
    along: int
    unrolled: int | None
    across: int | None
    lanes: int  # of a block along
    over: int  # the same across
    chunked: int | None
    chunks: int
    banded: int | None = None  # the first of `inner`, of which an item has a band
    bands: int = 1

    @property
    def turned(self) -> tuple[int, ...]:
        """The factors whose blocks are turned."""
        if self.across is None or self.unrolled is not None or min(self.sum.sizes[self.across], self.lanes) < TURN:
            return ()
        return tuple(k for k, steps in enumerate(self.sum.factors) if steps[self.across] == 1 and steps[self.along] > 1)

    @property
    def beside(self) -> bool:
        """Whether accumulators lie side by side."""
        return bool(self.summed) and (self.sum.kept[self.along] or self.across is not None or self.depth >= 4)

    @property
    def direct(self) -> bool:
        """Whether nothing is summed but what is written out."""
        return not self.summed

    @property
    def depth(self) -> int:
        return prod(self.sum.sizes[a] for a in self.summed if a != self.along)

    @property
    def blocks(self) -> int:
        """Along, where that is kept."""
        return -(-self.sum.sizes[self.along] // self.lanes) if self.sum.kept[self.along] else 1

    @property
    def strips(self) -> int:
        """Across, where that is kept."""
        return -(-self.sum.sizes[self.across] // self.over) if self.across is not None and self.sum.kept[self.across] else 1

    @property
    def items(self) -> int:
        return self.chunks * self.bands * prod(self.sum.sizes[a] for a in self.outer) * self.blocks * self.strips

    @property
    def accumulators(self) -> int:
        """How many a thread needs."""
        if not self.beside:
            return 0
        kept = self.unrolled is not None and self.sum.kept[self.unrolled]
        over = self.over if self.across is not None and self.sum.kept[self.across] else 1
        return self.lanes * (self.sum.sizes[self.unrolled] if kept and self.unrolled is not None else 1) * over


# ── how ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def simplified(given: Sum) -> Sum:
    """Without indices of one place, and with neighbours as one where everything lies so."""
    places = [a for a, size in enumerate(given.sizes) if size > 1]
    tensors = (*given.factors, given.result)
    axes = [(given.sizes[a], given.kept[a], tuple(t[a] for t in tensors)) for a in places]
    merged = True
    while merged:
        merged = False
        for i, (size, kept, steps) in enumerate(axes):
            for k, (width, too, short) in enumerate(axes):
                if i != k and kept == too and all(far == near * width for far, near in zip(steps, short, strict=True)):
                    axes[k] = (size * width, kept, short)
                    del axes[i]
                    merged = True
                    break
            if merged:
                break
    if not axes:
        axes = [(1, True, (0,) * len(tensors))]
    *factors, result = zip(*[steps for _, _, steps in axes], strict=True)
    return Sum(tuple(s for s, _, _ in axes), tuple(k for _, k, _ in axes), tuple(factors), result)


def arranged(given: Sum) -> Arranged:
    """Of a sum whose sizes are positive."""
    given = simplified(given)
    along, unrolled = _vectors(given, copying=True)
    copies: list[Copy | None] = []
    for factor in given.factors:
        copies.append(_copy(given, factor, along, unrolled) if _is_copied(given, factor, along, unrolled) else None)
    copies = _joining(given, copies, along, unrolled)
    if not any(copies):
        return _arranged(given, along, unrolled)
    given = _with(given, copies)
    return replace(_arranged(given, *_vectors(given, copying=False)), copies=tuple(copies))


def _with(given: Sum, copies: Sequence[Copy | None]) -> Sum:
    """With copies of factors, as few indices as are left."""
    factors = tuple(f if copy is None else copy.after for f, copy in zip(given.factors, copies, strict=True))
    return simplified(replace(given, factors=factors))


def _joining(given: Sum, copies: Sequence[Copy | None], along: int, unrolled: int | None) -> list[Copy | None]:
    """With copies of factors of very few elements too, where more indices are neighbours everywhere then."""
    found = list(copies)
    for k, factor in enumerate(given.factors):
        if found[k] is None and JOINED * given.elements(factor) <= given.points:
            tried = [*found[:k], _copy(given, factor, along, unrolled), *found[k + 1 :]]
            if len(_with(given, tried).sizes) < len(_with(given, found).sizes):
                found = tried
    return found


def _vectors(given: Sum, *, copying: bool) -> tuple[int, int | None]:
    """The index along which vectors run, and the one that is written out."""
    axes = range(len(given.sizes))
    short = [None, *(a for a in axes if given.sizes[a] <= SHORT)]
    ways = ((_estimate(given, a, u, copying=copying), a, u) for a in axes for u in short if a != u)
    _, along, unrolled = min(ways, key=lambda found: found[0])
    return along, unrolled


def _arranged(given: Sum, along: int, unrolled: int | None) -> Arranged:
    axes = range(len(given.sizes))
    width = given.sizes[unrolled] if unrolled is not None else 1
    across, over = _across(given, along, unrolled), OVER
    most = NEAR if across is not None else MAP if all(given.kept) else LANES
    largest = max(given.factors, key=given.elements)
    order = given.result if all(given.kept) else largest
    if across is None:
        across = _inside(given, largest, along, unrolled)
        over = max(1, LANES // (width * given.sizes[along]))
    others = [a for a in axes if a not in (along, unrolled, across)]
    kept = sorted((a for a in others if given.kept[a]), key=lambda a: (-order[a], -given.result[a]))
    summed = sorted((a for a in others if not given.kept[a]), key=lambda a: -order[a])
    if across is not None and not given.kept[across]:
        summed.append(across)
    if not given.kept[along]:
        summed.insert(0, along)
    lanes = min(given.sizes[along], max(16, most // width))
    found = Arranged(given, (None,) * len(given.factors), (), (), tuple(summed), along, unrolled, across, lanes, over, None, 1)
    outer: list[int] = []
    while kept and (items := found.items if across is None else prod(given.sizes[a] for a in outer)) < ITEMS:
        size, bands = given.sizes[kept[0]], -(-ITEMS // items)
        if size >= 2 * bands:
            step = -(-size // bands)
            found = replace(found, banded=kept[0], bands=-(-size // step))
            break
        outer.append(kept.pop(0))
        found = replace(found, outer=tuple(outer))
    found = replace(found, inner=tuple(kept))
    if found.items < CHUNKS and given.kept[along] and lanes > NEAR:
        lanes = max(NEAR, -(-given.sizes[along] * found.items // (CHUNKS * found.blocks * NEAR)) * NEAR)
        found = replace(found, lanes=min(found.lanes, lanes))
    return _in_chunks(found)


def _estimate(given: Sum, along: int, unrolled: int | None, *, copying: bool) -> float:
    """About how long a sum takes, in elements."""
    total = 1.0 if all(given.kept) else 0.5
    for factor in given.factors:
        way = _way(given, factor, along, unrolled)
        if way == GATHERED and copying and _is_copied(given, factor, along, unrolled):
            way = 1.0 + COPIED * given.elements(factor) / given.points
        elif way == GATHERED and unrolled is None and min(given.sizes[along], _side(given, factor)) >= TURN:
            way = TURNED
        total += way
    total += _way(given, given.result, along, unrolled) * given.elements(given.result) / given.points
    width = given.sizes[unrolled] if unrolled is not None else 1
    return total * (1 + BEGIN / (given.sizes[along] * width)) + (BEGIN / given.sizes[along] if given.sizes[along] < 16 else 0)


def _side(given: Sum, strides: Sequence[int]) -> int:
    """The size of the index along which a tensor lies."""
    return max((size for size, step in zip(given.sizes, strides, strict=True) if step == 1), default=1)


def _way(given: Sum, strides: Sequence[int], along: int, unrolled: int | None) -> float:
    if strides[along] in (0, 1):
        return strides[along] + (0.25 if unrolled is not None and strides[unrolled] else 0.0)
    if unrolled is not None and strides[unrolled] == 1 and strides[along] == given.sizes[unrolled]:
        return SHUFFLED
    return GATHERED


def _is_copied(given: Sum, factor: Sequence[int], along: int, unrolled: int | None) -> bool:
    return _way(given, factor, along, unrolled) == GATHERED and COPIED * given.elements(factor) <= given.points


def _copy(given: Sum, factor: Sequence[int], along: int, unrolled: int | None) -> Copy:
    """Of a factor, in which the index along comes last, or before the one that is written out; the others as the largest tensor has
    them that stays as it is."""
    stay = [given.result, *(f for f in given.factors if not _is_copied(given, f, along, unrolled))]
    largest = max(stay, key=given.elements)
    last = [a for a in (unrolled, along) if a is not None]
    rest = sorted((a for a in range(len(factor)) if a not in last), key=lambda a: (not largest[a], largest[a], factor[a]))
    after, step = [0] * len(factor), 1
    for a in (*last, *rest):
        if factor[a]:
            after[a] = step
            step *= given.sizes[a]
    return Copy(given.sizes, tuple(factor), tuple(after))


def _across(given: Sum, along: int, unrolled: int | None) -> int | None:
    """The index in which the largest tensor lies that does not lie along."""
    tensors = (*given.factors, given.result) if all(given.kept) else given.factors
    apart = [tensor for tensor in tensors if _way(given, tensor, along, unrolled) == GATHERED]
    for tensor in sorted(apart, key=given.elements, reverse=True):
        for a, stride in enumerate(tensor):
            if stride == 1 and a not in (along, unrolled):
                return a
    return None


def _inside(given: Sum, largest: Sequence[int], along: int, unrolled: int | None) -> int | None:
    """An index of the result that goes within what is summed, as the largest factor lies: where vectors are short, so that more of
    it is read in one piece."""
    width = given.sizes[along] * (given.sizes[unrolled] if unrolled is not None else 1)
    others = [a for a, step in enumerate(largest) if a not in (along, unrolled) and step]
    if all(given.kept) or not others or width > LANES // 4:
        return None
    nearest = min(others, key=lambda a: largest[a])
    around = any(not given.kept[a] and largest[a] > largest[nearest] for a in others)
    return nearest if given.kept[nearest] and around else None


def _in_chunks(found: Arranged) -> Arranged:
    """With the outermost of the indices that are summed in chunks, where there is little else to share."""
    given = found.sum
    if found.items >= SHORT or given.points < LARGE or given.elements(given.result) * CHUNKS * 4 > given.points:
        return found
    usable = [a for a in found.summed if given.sizes[a] >= SHORT and a != found.along]
    usable += [a for a in found.summed if a == found.along and given.sizes[a] >= SHORT * NEAR]
    if not usable:
        return found
    axis = usable[0]
    step = -(-given.sizes[axis] // min(CHUNKS, given.sizes[axis]))
    return replace(found, chunked=axis, chunks=-(-given.sizes[axis] // step))
