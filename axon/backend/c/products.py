"""Contractions as the runtime of C multiplies them: of tensors in f32 or f64, read inside themselves; or as ordinary reductions.

    multiplied    a Plan -> a Plan of which every contraction is such a product

What BLAS does for the CPU backend in Python, `runtime/product.c` does in a library. It takes any steps, so that windows of a
convolution are read where they lie. Factors in narrow floats are converted before, and narrow results after; what is read outside
of its tensor is read from a copy with the padding around it. Nothing here depends on sizes: one plan serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from axon.backend.cpu.executable import may_be_nest
from axon.backend.cpu.loops import as_nest
from axon.backend.cpu.products import is_with_vector
from axon.backend.plan.ir import Contraction, Factor, Kernel, Kernels, Nest, Plan, Repeat, values_in
from axon.backend.plan.verify import verify_replanned
from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Compute, Convert, Read, Scalar, Value
from axon.core.scalar_facts import at_least_0
from axon.shapes.dimension import Dim


def multiplied(plan: Plan) -> Plan:
    """The plan with its contractions so that the runtime takes them."""
    values = values_in(plan)

    def block(kernels: Kernels) -> Kernels:
        return replace(kernels, kernels=tuple(made for kernel in kernels.kernels for made in of(kernel)))

    def of(kernel: Kernel) -> Iterator[Kernel]:
        match kernel:
            case Repeat(body=body):
                yield replace(kernel, body=block(body))
            case Contraction():
                yield from _product(kernel, values)
            case _:
                yield kernel

    made = replace(plan, body=block(plan.body))
    verify_replanned(made, plan)
    return made


def _product(kernel: Contraction, values: dict[Symbol, Value]) -> Iterator[Kernel]:
    (out,) = kernel.op.outs
    element = out.element.accumulator
    if kernel.epilogue or (is_with_vector(kernel) and may_be_nest(kernel)):
        yield as_nest(kernel)
        return
    before: list[Nest] = []
    sides = [_inside(side, element, kernel, values, before.append) for side in (kernel.left, kernel.right)]
    left, right = sides
    if left is None or right is None:
        yield as_nest(kernel)
        return
    yield from before
    wide = out if out.element is element else Value(fresh(out.symbol.name), element, out.shape)
    op = replace(kernel.op, outs=(wide,), body=(Binary("mul", left.read, right.read),))
    yield replace(kernel, op=op, left=left, right=right, stored=(wide.symbol,))
    if wide is not out:
        axes = tuple(Axis(fresh(axis.symbol.name), axis.extent) for axis in kernel.op.axes)
        read = Read(wide.symbol, tuple(Dim.of(axis.symbol) for axis in axes), element)
        yield _map(out, axes, Convert(read, out.element), kernel.op)


def _inside(
    side: Factor, element: Element, kernel: Contraction, values: dict[Symbol, Value], make: Callable[[Nest], None]
) -> Factor | None:
    """A factor read inside a tensor of this element type, which `make` is told to make where it is another one; None where that
    tensor's extents are not known beforehand."""
    read, tensor = side.read, values[side.read.tensor]
    if read.padding is None:
        if tensor.element is element:
            return side
        axes = tuple(Axis(fresh("i"), extent) for extent in tensor.shape)
        copy = Value(fresh(f"{tensor.symbol.name}_wide"), element, tensor.shape)
        source = Read(tensor.symbol, tuple(Dim.of(axis.symbol) for axis in axes), tensor.element)
        make(_map(copy, axes, _converted(source, element), kernel.op))
        return replace(side, read=Read(copy.symbol, read.subscripts, element), element=element)
    extents = {axis.symbol: axis.extent for axis in (*kernel.op.axes, *kernel.depth)}
    ranges = [_range(dim, extents) for dim in read.subscripts if isinstance(dim, Dim)]
    known = [ends for ends in ranges if ends is not None]
    if len(known) < len(read.subscripts):
        return None
    shape = tuple(at_least_0(high - low + 1) for low, high in known)
    axes = tuple(Axis(fresh("i"), extent) for extent in shape)
    copy = Value(fresh(f"{tensor.symbol.name}_padded"), element, shape)
    here = tuple(Dim.of(axis.symbol) + low for axis, (low, _) in zip(axes, known, strict=True))
    make(_map(copy, axes, _converted(replace(read, subscripts=here), element), kernel.op))
    moved = tuple(dim - low for dim, (low, _) in zip(read.subscripts, known, strict=True) if isinstance(dim, Dim))
    return replace(side, read=Read(copy.symbol, moved, element), element=element)


def _converted(scalar: Read, element: Element) -> Scalar:
    return scalar if scalar.element is element else Convert(scalar, element)


def _range(subscript: Dim, extents: dict[Symbol, Dim]) -> tuple[Dim, Dim] | None:
    """The least and the greatest index where every axis has one, if numbers say in which direction each axis goes."""
    low = high = subscript
    for axis in subscript.variables & extents.keys():
        split = subscript.linear_in(axis)
        step = split[0].constant if split is not None else None
        if step is None:
            return None
        end = {axis: extents[axis] - 1}
        low, high = low.substitute({axis: Dim.of(0)} if step > 0 else end), high.substitute(end if step > 0 else {axis: Dim.of(0)})
    return low, high


def _map(out: Value, axes: tuple[Axis, ...], body: Scalar, like: Compute) -> Nest:
    return Nest(axes, (Compute((out,), axes, None, (body,), like.span),), (out.symbol,))
