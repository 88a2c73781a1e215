"""Streams whose factors are 8-bit floats: which of their two products are of these, and what is made of factors for that.

    in_eight_bits    kernels -> the same, with copies of 8-bit factors in front of streams that take them in another form

Note [Short weights]
    Queries and keys of 8 bits are multiplied as they are, each score a sum over one head (see Note [Eight bits] in
    `layout.products`), and what scales them is a factor of the score. Weights are of more bits: core has them in f32, and a stream
    rounds them, before they are divided by their sum, to what the second product takes. In bf16 they keep 8 bits of 24, in e4m3 4.
    So they are rounded to that only where the program rounds its weights to 8 bits, or a schedule says `precision = "fast"`; else
    values are widened to bf16 first.

    Weights that are at most 1 are multiplied by 2⁸ before they are rounded, in the exponent, so that e4m3 holds those down to 2⁻¹⁴
    of the greatest in 4 bits. Their sum is multiplied too, and both are divided by it, exactly, when a row is finished. So a weight
    is off by 2⁻⁴ of itself at most, or, below 2⁻¹⁴ of the greatest of its row, by 2⁻¹⁸ of that: no more than by rounding weights
    themselves, which are at most 1, to either type of 8 bits. They are divided by the sum of weights that are not rounded.

    Matrix instructions take values of 8 bits only along the keys, and registers hold weights in another order than these take
    them (Note [Interleaved keys]): kernels copy the values so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from math import log

from axon.backend.gpu.layout.copies import CopyLayout, spread
from axon.backend.gpu.layout.products import EIGHT_BIT_FLOATS, INTERLEAVED, MULTIPLIED, WEIGHT, WEIGHT_BITS, Precision
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.tile.contraction import view_of
from axon.backend.gpu.tile.epilogue import EpilogueOperand
from axon.backend.gpu.tile.families import Kernel, with_operands
from axon.backend.gpu.tile.online_softmax import plus, substituted, times
from axon.backend.gpu.tile.stream import Stream, Term
from axon.backend.gpu.tile.verify import verify_kernels
from axon.backend.plan.ir import Nest, Reason
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.passes import require, verified
from axon.core.ir import Axis, Binary, Compute, Const, Convert, Index, Local, Program, Read, Scalar, Select, Value
from axon.shapes.dimension import Dim

_SHIFT = Const(log(2.0**WEIGHT_BITS), Element.F32)
_BACK = Const(2.0**-WEIGHT_BITS, Element.F32)


@dataclass(frozen=True, slots=True)
class EightBits:
    """Kernels whose streams take factors of 8 bits as matrix instructions do, and the copies that are made for them."""

    kernels: tuple[Kernel, ...]
    copies: Mapping[Symbol, int]  # how many dimensions of each make up a row


@dataclass(frozen=True, slots=True)
class _Copy:
    """What is copied: a tensor or a view of one, in which element type, and whether its keys are interleaved."""

    source: Symbol
    memory: CopyLayout
    element: Element
    interleaved: bool


def verify_eight_bits(
    made: EightBits, kernels: Sequence[Kernel], program: Program, *, precision: Precision = Precision.WHOLE, **_: object
) -> None:
    verify_kernels(made.kernels, program)
    for kernel in made.kernels:
        if not isinstance(kernel, Stream):
            continue
        elements = {operand.value.element for operand in (*kernel.queries, *kernel.key_operands)}
        require(len(elements) == 1 or elements <= set(EIGHT_BIT_FLOATS), "scores of factors that are not multiplied")
        short = kernel.value.value.element in EIGHT_BIT_FLOATS
        require(short == kernel.interleaved, "values of 8 bits whose keys are not in the order of weights, or others whose are")
        allowed = kernel.at_most_1 and (kernel.rounds or Precision.FAST in precision)
        require(allowed or not short, "weights that are rounded to 8 bits, which nobody has allowed")
        promoted = 0 if Precision.FAST in precision else MULTIPLIED[WEIGHT].promoted
        require(not short or kernel.promotion >= promoted, "sums of 8-bit floats that are not promoted, which nobody has allowed")


@verified("eight_bits", verify_eight_bits, takes="kernels", gives="kernels")
def in_eight_bits(
    kernels: Sequence[Kernel], program: Program, *, precision: Precision = Precision.WHOLE, widened: Set[Symbol] = frozenset()
) -> EightBits:
    """The kernels of a program with copies of factors of 8 bits where streams take these in another form, each once: see Note
    [Short weights]. Streams that make one of those in `widened` multiply none of 8 bits."""
    made: dict[_Copy, Value] = {}
    found = tuple(_each(kernels, made, precision, widened))
    return EightBits(found, {value.symbol: 1 for value in made.values()})


def _each(kernels: Sequence[Kernel], made: dict[_Copy, Value], precision: Precision, widened: Set[Symbol]) -> Iterator[Kernel]:
    for kernel in kernels:
        if not isinstance(kernel, Stream) or not any(o.value.element in EIGHT_BIT_FLOATS for o in kernel.operands):
            yield kernel
            continue
        wide = next((o.value.element for o in kernel.operands if o.value.element not in EIGHT_BIT_FLOATS), Element.BF16)
        free = kernel.results[0].value.symbol not in widened
        scores = (*kernel.queries, *kernel.key_operands)
        kept = free and all(operand.value.element in EIGHT_BIT_FLOATS for operand in scores)
        rounds = kernel.at_most_1 and (kernel.rounds or Precision.FAST in precision)
        short = free and rounds and kernel.value.value.element in EIGHT_BIT_FLOATS and _is_plain(kernel, kernel.value)
        own = _Copying(kernel, made)
        operands = []
        for operand in (*scores, kernel.value):
            if operand.value.element not in EIGHT_BIT_FLOATS or (kept and operand is not kernel.value):
                operands.append(operand)
            elif short and operand is kernel.value:
                operands.append(own.copied(operand, operand.value.element, interleaved=True))
            else:
                operands.append(own.copied(operand, wide, interleaved=False))
        yield from own.nests
        whole = with_operands(kernel, operands)
        assert isinstance(whole, Stream)
        stored = {result.place.symbol for result in whole.results}
        views = (view for view in kernel.views if view.value.symbol in whole.seen | stored)
        whole = replace(whole, views=(*views, *own.views), copies=tuple(own.copies))
        if short:
            promotion = 0 if Precision.FAST in precision else MULTIPLIED[WEIGHT].promoted
            whole = replace(_shifted(whole), interleaved=True, promotion=promotion)
        yield whole


def _is_plain(kernel: Stream, operand: EpilogueOperand) -> bool:
    """Whether a copy of an operand has a dimension of its keys, which can lie in another order."""
    lying = _lying(kernel, operand, {kernel.keys.symbol})
    last = lying.dimensions[-1]
    return lying.row == 1 and not lying.im2col and last.there is None and len(lying.parts[-1]) == 1


def _order(operand: EpilogueOperand, last: Set[Symbol]) -> tuple[int, ...]:
    """The dimensions of a copy: its operand's own, but the last one along one of these axes behind all others."""
    behind = max(d for d, axis in zip(operand.order, operand.axes, strict=True) if axis in last)
    return (*(d for d in sorted(operand.order) if d != behind), behind)


def _lying(kernel: Stream, operand: EpilogueOperand, last: Set[Symbol]) -> CopyLayout:
    """How a copy of what a kernel reads lies."""
    return spread(operand.value, view_of(kernel, operand), _order(operand, last))


class _Copying:
    """Makes the copies of a stream's operands: `nests` are those that nobody has `made`."""

    def __init__(self, kernel: Stream, made: dict[_Copy, Value]) -> None:
        self.kernel, self.made = kernel, made
        self.nests: list[Nest] = []
        self.views: list[View] = []
        self.copies: list[Value] = []

    def copied(self, operand: EpilogueOperand, element: Element, *, interleaved: bool) -> EpilogueOperand:
        kernel = self.kernel
        tiled = {axis.symbol for axis in (kernel.rows, kernel.columns, *kernel.reduced)}
        order = _order(operand, {kernel.keys.symbol} if interleaved else tiled)
        view = view_of(kernel, operand)
        lying, source = spread(operand.value, view, order), operand.value.symbol if view is None else view.source
        if not interleaved:
            copy = self.plain(operand, source, lying, element)
        else:
            turned = order != tuple(range(len(order)))
            source = self.plain(operand, source, lying, element).symbol if turned else source
            lying, copy = self.interleaved(operand, source, lying, turned=turned)
        axes = operand.arranged(order).axes
        seen = lying.seen(copy, axes)
        self.views += [] if seen is None else [seen]
        return EpilogueOperand(copy if seen is None else seen.value, axes, tuple(range(len(axes))))

    def plain(self, operand: EpilogueOperand, source: Symbol, lying: CopyLayout, element: Element) -> Value:
        """What an operand shows in another element type, or in other rows."""
        key = _Copy(source, lying.memory, element, interleaved=False)
        own = operand.value.element
        if key not in self.made:
            copy = self.made[key] = Value(_symbol(key, operand.value.symbol.name), element, lying.shape)
            axes, places = _axes(lying.shape)
            read = lying.read(source, own, places)
            how = "in rows of its keys" if element is own else f"in {element.value}"
            self.store(copy, axes, read if element is own else Convert(read, element), how, source)
        self.copies.append(self.made[key])
        return self.made[key]

    def interleaved(self, operand: EpilogueOperand, source: Symbol, lying: CopyLayout, *, turned: bool) -> tuple[CopyLayout, Value]:
        """The same with its keys in the order of weights (see Note [Interleaved keys] in `layout.products`), 0 behind the last. If
        it is `turned`, the source is a copy that has them in rows already: a kernel that does nothing else moves whole lines."""
        own, keys = operand.value.element, lying.dimensions[-1].extent
        last = replace(lying.dimensions[-1], extent=(keys + (INTERLEAVED - 1)) // INTERLEAVED * INTERLEAVED)
        (part,) = lying.parts[-1]
        parts = (*lying.parts[:-1], (replace(part, extent=last.extent),))
        whole = replace(lying, dimensions=(*lying.dimensions[:-1], last), parts=parts)
        key = _Copy(source, whole.memory, own, interleaved=True)
        if key not in self.made:
            copy = self.made[key] = Value(_symbol(key, operand.value.symbol.name), own, whole.shape)
            axes, places = _axes(whole.shape)
            inside = places[-1] % INTERLEAVED
            places[-1] = places[-1] - inside + inside // 2 % 2 * 8 + inside // 4 * 2 + inside % 2
            read = Read(source, tuple(places), own) if turned else lying.read(source, own, places)
            there = Binary("lt", Index(places[-1]), Index(keys))
            how = "with its keys in the order of weights of 8 bits"
            self.store(copy, axes, Select(there, read, Const(0.0, own)), how, source)
        self.copies.append(self.made[key])
        return whole, self.made[key]

    def store(self, copy: Value, axes: tuple[Axis, ...], element: Scalar, how: str, source: Symbol) -> None:
        """A kernel that makes a copy."""
        step = Compute((copy,), axes, None, (element,), self.kernel.span)
        why = Reason(f"{{0}} {how}, for the tensor cores", (source,))
        self.nests.append(Nest(axes, (step,), (copy.symbol,), (why,)))


def _axes(shape: tuple[Dim, ...]) -> tuple[tuple[Axis, ...], list[Dim]]:
    axes = tuple(Axis(fresh("ijklmnop"[d % 8]), extent) for d, extent in enumerate(shape))
    return axes, [Dim.of(axis.symbol) for axis in axes]


@lru_cache(maxsize=4096)
def _symbol(key: _Copy, name: str) -> Symbol:
    """Of a copy: the same in everything that is made of one program."""
    return fresh(f"{name}_{'keys' if key.interleaved else 'copy'}")


def _shifted(kernel: Stream) -> Stream:
    """The stream with its weights, and the sums of these, times 2⁸ until a row is finished."""
    weight = _times(kernel.weight)
    totals = tuple((symbol, weight if term == kernel.weight else term) for symbol, term in kernel.totals)
    back = {symbol: times(Local(symbol, Element.F32), _BACK) for symbol, term in totals if term == weight}
    product = {kernel.product: times(Local(kernel.product, Element.F32), _BACK)}
    finals = tuple((symbol, substituted(value, back)) for symbol, value in kernel.finals)
    results = tuple(replace(result, expression=substituted(result.expression, product)) for result in kernel.results)
    return replace(kernel, weight=weight, totals=totals, finals=finals, results=results)


def _times(weight: Term) -> Term:
    bias = plus(weight.bias, _SHIFT)
    assert bias is not None
    return replace(weight, bias=bias)
