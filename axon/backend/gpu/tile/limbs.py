"""Products and streams of f32 on tensor cores: each factor is the sum of bf16 values, its limbs, of which the products are summed.

Note [Limbs]
    A bf16 value has the exponents of f32 and 8 of its 24 bits. The first limb of x is x rounded to bf16, the second the rest
    rounded, the third the rest of that: three of them are x exactly, two are what f16 holds, one what 8-bit floats do. A plain
    kernel writes them into memory (6 bytes for each f32 of a factor), and of their nine products the tensor cores sum the six that
    are not below 2⁻²³ of the first.

    The tensor core's accumulator cuts sums off where f32 would round them, the more often the deeper it sums. So each step sums
    into an accumulator of its own, small products first, which is added to a second one in f32 (`Promote`).

    For every element, with A and B the absolute values of the factors,

        |error| ≤ (24 + depth / 128) · 2⁻²³ · (A · B)

    by the worst case of every rounding: 1 of it is the products that are left out, 21 what four matrix instructions of a step can
    cut off (each of 17 addends aligned to the greatest, with two bits more than f32 has), the rest the additions of f32. What is
    measured is a tenth of that and less, and less than a plain sum in f32 has.

    Infinities and NaN. The limbs of what is not finite are the value itself, 0 and 0. So a small product of it may be 0 · ∞ where
    the product is ∞; it says nothing that the first limbs' product does not say again, which is summed last: what the small
    products make is taken for 0 where it is not finite (`Settle`). A value within 2⁻⁸ of the largest, which would be rounded to
    infinity, has the largest bf16 as its first limb. One that would be rounded to 0, so that ∞ times it were NaN, has the least,
    which the second limb takes away again.

    Below 2⁻¹¹⁰ the last limb has fewer bits than it needs, since bf16 has no value below 2⁻¹³³: there a factor is held as a
    multiple of 2⁻¹³³, which is off by 2⁻¹³⁴ at most. Where A · B comes within 1% of the largest f32, the sum may overflow.

    Streams take limbs in both of their products. The weights' are made in registers, where they are: the first two by cutting off,
    so that none overflows, the last is what is left. Scores are settled like any sum of limbs, and not promoted, since their depth
    is 128 at most; what a step adds to a row's products is promoted. So no error grows with the keys but those of the additions, as
    long as what repairs a row's sums is 1 where its peak stays (see `ptx.exp2_between`). One weight that is not finite makes its
    whole row so, as in a sum in f32.

Note [tf32]
    A tf32 value is an f32 one with 11 of its 24 significant bits. With `precision = "tf32"` for a function, what multiplies two
    factors of f32 may round both to that: to nearest, ties to even, while they are copied into shared memory (the tensor map says
    so), infinities and NaN as they are. Products of tf32 values are exact; sums are the tensor core's, in f32, cut off where f32
    would round. So for every element, with A and B the absolute values of the factors,

        |error| ≤ (1 + (depth + 8) / 2¹⁴) · 2⁻¹⁰ · (A · B)

    by the worst case: 2⁻¹⁰ + 2⁻²² by rounding both factors, and of each matrix instruction, which has 8 of the depth, what aligning
    9 addends to the greatest cuts off, with two bits more than f32 has. A factor within 2⁻¹² of the largest f32 becomes an
    infinity, and one below 2⁻¹²⁶ a multiple of 2⁻¹³⁶.

    Matrix instructions for 32 bits do not transpose: both factors must lie in shared memory along what is summed, and bulk copies
    bring them as they lie. What lies otherwise is copied first, or the product is a plain kernel in f32, by cost (`packed`).
    Nothing else is rounded: a product of f32 by a narrower factor has its parts as ever (see `limbs`), and what sizes make better
    without tensor cores keeps all bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from math import inf, prod
from typing import TypeAlias

from axon.backend.gpu.layout.copies import CopyLayout, spread
from axon.backend.gpu.layout.products import MULTIPLIED, Precision, multiplies
from axon.backend.gpu.layout.register_tiles import Pairs, best
from axon.backend.gpu.layout.roofline import KernelWork, Loads, copying
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.tile.contraction import LIMBS, MatrixProduct, factors_of, terms, view_of, with_factors
from axon.backend.gpu.tile.epilogue import EpilogueOperand
from axon.backend.gpu.tile.families import Kernel, Tiled
from axon.backend.gpu.tile.schedule import ScheduleProblem, Traits, fastest
from axon.backend.gpu.tile.stream import Stream
from axon.backend.gpu.tile.verify import verify_kernels
from axon.backend.plan.ir import Nest, Reason
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.passes import require, verified
from axon.base.source import Span
from axon.core.ir import Axis, Binary, Compute, Const, Convert, Op, Program, Read, Scalar, Select, Unary, Value, element_of
from axon.shapes.dimension import Dim

COUNT = {  # limbs that hold all of a value, and are made of it
    Element.BF16: 0, Element.F8E4M3: 1, Element.F8E5M2: 1, Element.F16: 2, Element.F32: LIMBS,
}  # fmt: skip
LIMB_BYTES = 2
RESULT_BYTES = 4
LARGEST = float.fromhex("0x1.fffffep127")  # in f32
LARGEST_LIMB = float.fromhex("0x1.fep127")
LEAST_LIMB = 2.0**-133
MOST_BYTES = 20 << 30  # of limbs for one product
STEP_ERROR = 24.0  # in units of 2⁻²³ of A · B; see Note [Limbs]
DEPTH_ERROR = 1 / 128
TF32_DEPTH = 8  # of one matrix instruction


@dataclass(frozen=True, slots=True)
class Limbed:
    """Kernels whose products take 16-bit factors alone, and the limbs that are made for them."""

    kernels: tuple[Kernel, ...]
    limbs: Mapping[Symbol, int]  # how many dimensions of each make up a row


def verify_limbed(made: Limbed, kernels: Sequence[Kernel], program: Program, *, precision: Precision = Precision.WHOLE) -> None:
    verify_kernels(made.kernels, program)
    tf32, fast = Precision.TF32 in precision, Precision.FAST in precision
    require(tf32 or not any(map(rounded, made.kernels)), "a product that rounds its factors, which nobody has allowed")
    short = any(isinstance(k, MatrixProduct) and k.promotion < MULTIPLIED[k.right.value.element].promoted for k in made.kernels)
    require(fast or not short, "sums of 8-bit floats that are not promoted, which nobody has allowed")


@verified("limbs", verify_limbed, takes="kernels", gives="kernels")
def limbed(kernels: Sequence[Kernel], program: Program, *, precision: Precision = Precision.WHOLE) -> Limbed:
    """The kernels of a program with limbs in place of factors that matrix instructions do not take, and in front of them the
    kernels that make these: each once, for all products that read it. Where `precision` allows it, they take two factors of f32,
    and sums of 8-bit floats are not promoted."""
    made: Made = {}
    limbs = tuple(in_limbs(kernels, made, precision=precision))
    return Limbed(limbs, {v.symbol: key.memory.row for key, values in made.items() for v in values})


def counts(kernel: MatrixProduct) -> tuple[int, int]:
    """How many limbs are made of each factor of a product; 0 of one that is taken as it is."""
    left, right = kernel.left.value.element, kernel.right.value.element
    if kernel.computed is not None or (left != Element.F32 and multiplies(left, right)):
        return (0, 0)
    return COUNT[left], COUNT[right]


def workspace(kernel: Tiled, sizes: Mapping[Symbol, int]) -> int:
    """Bytes of the limbs that a kernel reads, which are made for it."""
    return sum(LIMB_BYTES * _elements(kernel, operand, sizes) for operand in _made(kernel))


def dearer(
    kernel: MatrixProduct, problem: ScheduleProblem, traits: Traits, sizes: Mapping[Symbol, int], target: Target
) -> str | None:
    """Why a product whose factors are in limbs is better computed without tensor cores at these sizes, if it is."""
    if not _made(kernel):
        return None
    if workspace(kernel, sizes) > MOST_BYTES:
        return f"its factors as bf16 values would take more than {MOST_BYTES:,} bytes"
    if without_tensor_cores(kernel, problem, sizes, target) < splitting(kernel, sizes, target) + fastest(problem, traits, target):
        return "at these sizes it is done sooner than its factors are split into bf16 values and multiplied"
    return None


def better_apart(
    kernel: Stream, problem: ScheduleProblem, traits: Traits, sizes: Mapping[Symbol, int], target: Target
) -> str | None:
    """Why a stream whose factors are in limbs is better made one operation after the other at these sizes, if it is."""
    if not _made(kernel):
        return None
    if workspace(kernel, sizes) > MOST_BYTES:
        return f"its factors as bf16 values would take more than {MOST_BYTES:,} bytes"
    rows, columns, depth, outer, keys = problem.rows, problem.columns, problem.depth, problem.outer, problem.keys
    scores = RESULT_BYTES * outer * rows * keys
    apart = KernelWork(2 * scores).seconds(target)  # what reads scores and makes weights
    for extents in ((rows, keys, depth), (rows, columns, keys)):
        tiles = best(Pairs(outer, *extents, RESULT_BYTES, RESULT_BYTES, axes=4), target)
        apart += min(_by_limbs(outer, *extents, target), inf if tiles is None else tiles[0])
    together = splitting(kernel, sizes, target) + fastest(problem, traits, target)
    return "at these sizes its operations are done sooner one by one" if apart < together else None


def _by_limbs(outer: int, rows: int, columns: int, depth: int, target: Target) -> float:
    """Seconds of a product of f32 factors, splitting counted."""
    problem = ScheduleProblem(rows, columns, depth, outer, limbs=(LIMBS, LIMBS), products=len(terms(LIMBS, LIMBS)))
    traits = Traits(Element.BF16, (Element.F32,), limbs=(LIMBS, LIMBS))
    split = (copying(outer * n * depth * (4 + LIMBS * LIMB_BYTES), outer * n * depth, 3, depth) for n in (rows, columns))
    return sum(work.seconds(target) for work in split) + fastest(problem, traits, target)


def splitting(kernel: Tiled, sizes: Mapping[Symbol, int], target: Target) -> float:
    """Seconds of the kernels that make limbs for a kernel: each reads a factor once."""
    split = {side[0].value: (side, bytes_) for side, bytes_ in _split_sides(kernel)}
    return sum(_copying(kernel, side, bytes_, sizes).seconds(target) for side, bytes_ in split.values())


def _split_sides(kernel: Tiled) -> Iterator[tuple[tuple[EpilogueOperand, ...], int]]:
    """The limbs of each factor that has some, and how many bytes an element of it has."""
    if isinstance(kernel, Stream):
        yield from ((side, Element.F32.bits // 8) for side in kernel.limbs if len(side) > 1)
    else:
        yield from ((side, bytes_) for side, bytes_ in zip((kernel.lefts, kernel.rights), kernel.limbed, strict=True) if bytes_)


def _copying(kernel: Tiled, side: tuple[EpilogueOperand, ...], bytes_: int, sizes: Mapping[Symbol, int]) -> KernelWork:
    """What makes the limbs of a factor does."""
    elements, view = _elements(kernel, side[0], sizes), view_of(kernel, side[0])
    rank, row = (len(side[0].axes), side[0].value.shape[-1]) if view is None else (len(view.start), view.parts[-1][-1].extent)
    return copying(elements * (bytes_ + LIMB_BYTES * len(side)), elements, rank, row.evaluate(sizes))


def without_tensor_cores(kernel: MatrixProduct, problem: ScheduleProblem, sizes: Mapping[Symbol, int], target: Target) -> float:
    """Seconds of a plain kernel that computes the product: by register tiles, or it loads the right factor for each row (see
    `plan.loads`)."""
    if kernel.computed is not None:
        return _computing_again(kernel, problem, sizes, target)
    if kernel.segments is not None:  # it asks of every row for every group
        return KernelWork(0, (), 2 * problem.outer * problem.rows * problem.columns * kernel.depth.extent.evaluate(sizes)).seconds(
            target
        )
    bytes_ = [
        made or side[0].value.element.bits // 8 for side, made in zip((kernel.lefts, kernel.rights), kernel.limbed, strict=True)
    ]
    left, right = (_elements(kernel, side, sizes) * own for side, own in zip((kernel.left, kernel.right), bytes_, strict=True))
    points = problem.outer * problem.rows * problem.columns
    column = problem.depth * bytes_[1]
    again = Loads(points * column, problem.columns * column)
    simple = KernelWork(left + right + RESULT_BYTES * points, (again,), 2 * points * problem.depth).seconds(target)
    tiles = best(_pairs(kernel, problem, sizes), target)
    return simple if tiles is None else min(simple, tiles[0])


def _computing_again(kernel: MatrixProduct, problem: ScheduleProblem, sizes: Mapping[Symbol, int], target: Target) -> float:
    """Seconds of a plain kernel that computes a factor of the product where it is read: for each tile of register tiles."""
    moved = sum(_elements(kernel, operand, sizes) * operand.value.element.bits // 8 for operand in kernel.operands)
    points = problem.outer * problem.rows * problem.columns
    simple = KernelWork(moved + RESULT_BYTES * points, (), 2 * points * problem.depth).seconds(target)
    pairs = Pairs(problem.outer, problem.columns, problem.rows, problem.depth, RESULT_BYTES, RESULT_BYTES, axes=3)
    tiles = best(pairs, target)
    return simple if tiles is None else max(simple, tiles[0])


def _pairs(kernel: MatrixProduct, problem: ScheduleProblem, sizes: Mapping[Symbol, int]) -> Pairs:
    """The product as register tiles compute it: their sides have all axes that one factor has alone, not only the last."""
    outer, rows, columns = problem.outer, problem.rows, problem.columns
    axes = 3 + sum(len(merge.parts) - 1 for merge in kernel.merges)
    for axis in kernel.outer:
        extent = axis.extent.evaluate(sizes)
        match axis.symbol in kernel.left.axes, axis.symbol in kernel.right.axes:
            case True, False:
                outer, rows, axes = outer // extent, rows * extent, axes + 1
            case False, True:
                outer, columns, axes = outer // extent, columns * extent, axes + 1
    return Pairs(outer, rows, columns, problem.depth, RESULT_BYTES, RESULT_BYTES, axes=axes)


def _made(kernel: Tiled) -> frozenset[EpilogueOperand]:
    """The limbs that a kernel reads which are no tensors by themselves."""
    return frozenset(operand for side, _ in _split_sides(kernel) for operand in side)


def _elements(kernel: Tiled, operand: EpilogueOperand, sizes: Mapping[Symbol, int]) -> int:
    """Of the memory that a factor is, or shows."""
    view = view_of(kernel, operand)
    if view is not None:
        with suppress(KeyError):  # one that moves with a loop's counter is no factor of a product here
            return view.reached(sizes)
    return prod(max(0, extent.evaluate(sizes)) for extent in operand.value.shape)


def error_bound(depth: int) -> float:
    """c of |error| ≤ c · 2⁻²³ · (A · B), for a product over so many; see Note [Limbs]."""
    return STEP_ERROR + depth * DEPTH_ERROR


def rounded(kernel: object) -> bool:
    """Whether a kernel is a product that rounds its factors. Matrix instructions take f32 in no other way."""
    return isinstance(kernel, MatrixProduct) and kernel.computed is None and kernel.left.value.element is Element.F32


def tf32_error_bound(depth: int) -> float:
    """c of |error| ≤ c · 2⁻¹⁰ · (A · B), for a product over so many; see Note [tf32]."""
    return 1 + (depth + TF32_DEPTH) / 2**14


def sums_products(op: Op, *, narrow: bool) -> bool:
    """Whether an operation sums products of floats, of which those of f32 may be rounded; or, `narrow`, of 8-bit ones."""
    if not isinstance(op, Compute) or op.reduction is None or op.reduction.monoid.kind != "sum" or len(op.body) != 1:
        return False
    elements = [element_of(factor) for factor in factors_of(op)[0]]
    return sum(element.is_float and (not narrow or element.bits == 8) for element in elements) > 1


@dataclass(frozen=True, slots=True)
class _Limbs:
    """What is split: a tensor or a view of one, as its limbs lie in memory, into how many. The name of a view is no part of it:
    each plan of a program has names of its own."""

    source: Symbol
    memory: CopyLayout
    count: int


Made: TypeAlias = "dict[_Limbs, tuple[Value, ...]]"


def in_limbs(kernels: Iterable[Kernel], made: Made, *, precision: Precision = Precision.WHOLE) -> Iterator[Kernel]:
    """The kernels with limbs, which are `made`, in place of factors that matrix instructions do not take, and as `precision` lets
    them be."""
    for kernel in kernels:
        views: list[View] = []
        match kernel:
            case MatrixProduct() if counts(kernel) != (0, 0) and not (Precision.TF32 in precision and takes_tf32(kernel)):
                left, right = kernel.left, kernel.right
                yield from _splits(kernel, zip((left, right), counts(kernel), strict=True), made)
                lefts, rights = (
                    _sides(kernel, side, count, made, views) for side, count in zip((left, right), counts(kernel), strict=True)
                )
                limbed = tuple(o.value.element.bits // 8 if n else 0 for o, n in zip((left, right), counts(kernel), strict=True))
                yield with_factors(replace(kernel, views=(*kernel.views, *views), limbed=(limbed[0], limbed[1])), lefts, rights)
            case MatrixProduct() if kernel.promotion and Precision.FAST in precision:
                yield replace(kernel, promotion=0)
            case Stream() if kernel.query.value.element is Element.F32:
                factors = (kernel.query, kernel.key, kernel.value)
                yield from _splits(kernel, ((factor, LIMBS) for factor in factors), made)
                query, key, value = (_sides(kernel, factor, LIMBS, made, views) for factor in factors)
                further = query[1:], key[1:], value[1:]
                whole = replace(kernel, query=query[0], key=key[0], value=value[0], further=further)
                stored = {result.place.symbol for result in kernel.results}
                kept = (view for view in kernel.views if view.value.symbol in whole.seen | stored)
                yield replace(whole, views=(*kept, *views))
            case _:
                yield kernel


def _split_of(kernel: Tiled, operand: EpilogueOperand, count: int) -> tuple[_Limbs, CopyLayout]:
    """What is split for a factor of a kernel, and how it sees that."""
    view = view_of(kernel, operand)
    source = operand.value.symbol if view is None else view.source
    lying = spread(operand.value, view, _order(operand, _tiled(kernel)))
    return _Limbs(source, lying.memory, count), lying


def _splits(kernel: Tiled, factors: Iterable[tuple[EpilogueOperand, int]], made: Made) -> Iterator[Nest]:
    """The kernels that make limbs of factors, of those that nobody has made."""
    for operand, count in factors:
        if count and (key := _split_of(kernel, operand, count)[0]) not in made:
            made[key] = tuple(_limb(key, n, operand.value.symbol.name, key.memory) for n in range(count))
            yield _split(key.source, operand.value.element, key.memory, made[key], kernel.span)


def _sides(kernel: Tiled, operand: EpilogueOperand, count: int, made: Made, views: list[View]) -> tuple[EpilogueOperand, ...]:
    """A factor's limbs, which are `made`, as a kernel reads them: through further `views`, if it reads the factor through one."""
    if not count:
        return (operand,)
    key, lying = _split_of(kernel, operand, count)
    limbs = made[key]
    axes = operand.arranged(_order(operand, _tiled(kernel))).axes
    seen = [lying.seen(limb, axes) for limb in limbs]
    views += filter(None, seen)
    values = (limb if view is None else view.value for limb, view in zip(limbs, seen, strict=True))
    return tuple(EpilogueOperand(value, axes, tuple(range(len(axes)))) for value in values)


def takes_tf32(kernel: MatrixProduct) -> bool:
    """Whether a product may round its factors: two of f32. Where segments are summed, these cannot lie along what is summed."""
    return counts(kernel) == (LIMBS, LIMBS) and kernel.segments is None


def _tiled(kernel: Tiled) -> set[Symbol]:
    """The axes along which elements of a factor may lie side by side: those along which tiles are cut, but no rows in segments."""
    parts = isinstance(kernel, MatrixProduct) and kernel.segments is not None
    return {axis.symbol for axis in (kernel.rows, kernel.columns, *(() if parts else kernel.reduced))}


def _order(operand: EpilogueOperand, tiled: set[Symbol]) -> tuple[int, ...]:
    """The dimensions of limbs: their factor's own, but the last one along which tiles are cut behind all others."""
    last = max(d for d, axis in zip(operand.order, operand.axes, strict=True) if axis in tiled)
    return (*(d for d in sorted(operand.order) if d != last), last)


def _limb(key: _Limbs, number: int, name: str, lying: CopyLayout) -> Value:
    return Value(_symbol(key, number, name), Element.BF16, lying.shape)


@lru_cache(maxsize=4096)
def _symbol(key: _Limbs, number: int, name: str) -> Symbol:
    """Of a limb: the same in everything that is made of one program."""
    return fresh(f"{name}_limb{number}")


def _split(source: Symbol, element: Element, lying: CopyLayout, limbs: Sequence[Value], span: Span | None) -> Nest:
    """The kernel that makes the limbs of a tensor, or of what a view shows. See Note [Limbs]."""
    axes = tuple(Axis(fresh("ijklmnop"[d % 8]), extent) for d, extent in enumerate(lying.shape))
    places = tuple(Dim.of(axis.symbol) for axis in axes)
    whole = _in_f32(lying.read(source, element, places))
    finite = Binary("le", Unary("abs", whole), _constant(LARGEST))
    bounded = Binary("max", _constant(-LARGEST_LIMB), Binary("min", _constant(LARGEST_LIMB), whole))
    positive, negative = Binary("max", _constant(LEAST_LIMB), bounded), Binary("min", _constant(-LEAST_LIMB), bounded)
    signed = Select(Binary("gt", whole, _constant(0.0)), positive, negative)
    itself = Select(Binary("eq", whole, _constant(0.0)), whole, Select(finite, signed, whole))
    steps = [Compute((limbs[0],), axes, None, (Convert(itself, Element.BF16),), span)]
    rest = whole
    for before, limb in pairwise(limbs):
        rest = Binary("sub", rest, _in_f32(Read(before.symbol, places, Element.BF16)))
        steps.append(Compute((limb,), axes, None, (Convert(Select(finite, rest, _constant(0.0)), Element.BF16),), span))
    how = f"as the sum of {len(limbs)} bf16 values" if len(limbs) > 1 else "in bf16"
    why = Reason(f"{{0}} {how}, which the tensor cores multiply", (source,))
    return Nest(axes, tuple(steps), tuple(limb.symbol for limb in limbs), (why,))


def _in_f32(scalar: Scalar) -> Scalar:
    return scalar if element_of(scalar) is Element.F32 else Convert(scalar, Element.F32)


def _constant(value: float) -> Const:
    return Const(value, Element.F32)
