"""Sums of products of codes in 8 bits: what multiplies codes by their scales before is seen through, so that codes are the factors.

    x[i, k] = cast f32 c[i, k] * s[i, k / 128]
    out[i, j] = sum k => x[i, k] * y[j, k]         becomes    out[i, j] = sum k => cast f32 c[i, k] * s[i, k / 128] * …

Dequantized factors are four times as many bytes as their codes, and matrix instructions multiply codes as they are. A tensor is
seen through if a pointwise operation makes it, as a product in which a tensor of 8-bit floats is a factor, and all that is
multiplied is as wide as the sum or less. Scales stay what they are: how they were made of data is not looked at. Nothing else is
done to a sum, and nothing at all where that does not make one that is `taken`. What nobody reads any longer is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set

from axon.base.data import replace
from axon.base.names import Symbol
from axon.base.passes import verified
from axon.core.ir import Binary, Block, Compute, Const, Convert, Program, Read, Scalar, Select, element_of
from axon.core.scalar_facts import freshened, may_stop, present, substitute
from axon.core.verify import verify_rewritten
from axon.core.walk import all_axes, converted, outs_of, tensors_of
from axon.shapes.dimension import Dim

Producers = Mapping[Symbol, Compute]


@verified("codes", lambda made, given, *_: verify_rewritten(made, given))
def with_codes(program: Program, taken: Callable[[Compute], bool]) -> Program:
    """The program with the sums of products that are `taken` so over codes and their scales."""
    producers = {out.symbol: op for op in program.block.ops if isinstance(op, Compute) and op.reduction is None for out in op.outs}
    ops = [_of_codes(op, producers, taken) if isinstance(op, Compute) else op for op in program.block.ops]
    if ops == list(program.block.ops):
        return program
    read = {symbol for op in program.block.ops for symbol in tensors_of(op)}
    wanted = set(program.block.results)
    kept = []
    for op in reversed(ops):
        outs = {out.symbol for out in outs_of(op)}
        unread = outs.isdisjoint(wanted) and not outs.isdisjoint(read)
        if not (unread and isinstance(op, Compute) and op.reduction is None and not may_stop(op)):
            kept.append(op)
            wanted |= set(tensors_of(op))
    return replace(program, block=Block(tuple(reversed(kept)), program.block.results))


def is_code(factor: Scalar) -> bool:
    """Whether a factor is an 8-bit float that is read."""
    return isinstance(factor, Read) and factor.element.is_float and factor.element.bits == 8


def _of_codes(op: Compute, producers: Producers, taken: Callable[[Compute], bool]) -> Compute:
    """A sum over codes, if it is one of what is made of two."""
    if op.reduction is None or op.reduction.monoid.kind != "sum" or len(op.body) != 1:
        return op
    (out,) = op.outs
    extents = {axis.extent for axis in all_axes(op)}
    given = list(_factors(op.body[0]))
    factors = [inner for factor in given for inner in _seen(factor, producers, extents)]
    wide = all(element_of(factor).is_float and element_of(factor).bits <= out.element.bits for factor in factors)
    if factors == given or sum(map(is_code, factors)) != 2 or not wide or not out.element.is_float:
        return op
    first, *others = (converted(factor, out.element) for factor in factors)
    for factor in others:
        first = Binary("mul", first, factor)
    made = replace(op, body=(freshened(first),))
    return made if taken(made) else op


def _factors(scalar: Scalar) -> Iterator[Scalar]:
    """The factors of a product of floats, through conversions that only widen."""
    match scalar:
        case Binary(op="mul", left=left, right=right) if element_of(left).is_float:
            yield from _factors(left)
            yield from _factors(right)
        case Convert(operand=operand, element=wide) if (narrow := element_of(operand)).is_float and narrow.bits < wide.bits:
            yield from _factors(operand)
        case _:
            yield scalar


def _seen(factor: Scalar, producers: Producers, extents: Set[Dim]) -> list[Scalar]:
    """The factors of which a factor is made, if a code is among them."""
    made = producers.get(factor.tensor) if isinstance(factor, Read) else None
    if not isinstance(factor, Read) or made is None or factor.padding is not None or factor.checked is not None:
        return [factor]
    at = {axis.symbol: s for axis, s in zip(made.axes, factor.subscripts, strict=True) if isinstance(s, Dim)}
    if len(at) < len(made.axes):
        return [factor]
    body = substitute(made.body[[out.symbol for out in made.outs].index(factor.tensor)], at)
    if isinstance(body, Select) and body.otherwise in (Const(0.0, element_of(body)),):
        given = present(body.condition)
        if given is not None and set(given) <= extents:  # they have indices where a product is made
            body = body.then
    found = [inner for each in _factors(body) for inner in _seen(each, producers, extents)]
    return found if any(map(is_code, found)) else [factor]
