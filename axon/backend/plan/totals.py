"""Reductions of everything, in blocks: what has no row is cut into some, so that threads can share it.

    x : f32[n]   s = sum i < n => x[i]
    becomes      parts = for b < 64 => sum i < length(b) => x[start(b) + i]      a kernel of 64 rows
                 s = sum b < 64 => parts[b]                                      and one without

Block b runs from `b * n / 64` to `(b + 1) * n / 64`: one machine code cuts every size, also where blocks are empty. The order of
what is reduced stays. Sums of products of whole tensors stay as they are: a backend chooses an order of loops for them at the sizes
of a call, and cuts them then.
"""

from __future__ import annotations

from axon.backend.plan.ir import Kernel, Kernels, Nest, Plan
from axon.backend.plan.verify import verify_replanned
from axon.backend.plan.whole_sums import factors_of, is_sum
from axon.base.data import replace
from axon.base.names import fresh
from axon.base.passes import verified
from axon.core.ir import Axis, Compute, Read, Reduction, Value, element_of
from axon.core.operation_count import points
from axon.core.scalar_facts import substitute
from axon.shapes.dimension import Dim

BLOCKS = 64


@verified("split_totals", verify_replanned, takes="plan", gives="plan")
def split_totals(plan: Plan) -> Plan:
    """A plan whose reductions of everything are made in blocks; those of loops stay, since steps are often small."""
    kernels: list[Kernel] = []
    for kernel in plan.body.kernels:
        kernels += _split(kernel) if isinstance(kernel, Nest) else [kernel]
    return replace(plan, body=Kernels(tuple(kernels), plan.body.results))


def _split(nest: Nest) -> list[Nest]:
    """Without rows, the reductions of a nest are of nothing that it makes (see `fuse`): the parts of all are made side by side."""
    block = Axis(fresh("b"), Dim.of(BLOCKS))
    halves = {step: _cut(step, block) for step in nest.steps if isinstance(step, Compute) and _is_cut(step)}
    if nest.rows or not halves or all(is_sum(step) and len(factors_of(step.body[0])) > 1 for step in nest.steps):
        return [nest]
    parts = tuple(part for part, _ in halves.values())
    steps = tuple(halves[step][1] if step in halves else step for step in nest.steps)
    return [Nest((block,), parts, tuple(part.outs[0].symbol for part in parts)), replace(nest, steps=steps)]


def _is_cut(step: Compute) -> bool:
    """Sums and their like whose parts are of the same type: those of narrow floats are kept wider than that, and an extreme of no
    integers is none."""
    reduction = step.reduction
    if step.axes or reduction is None or reduction.asked is not None or _few(reduction):
        return False
    element = element_of(step.body[0])
    match reduction.monoid.kind:
        case "sum" | "prod":
            return element.accumulator is element
        case "max" | "min":
            return element.is_float and element.accumulator is element
        case "any" | "all":
            return True
        case "argmax" | "argmin" | "custom":
            return False


def _few(reduction: Reduction) -> bool:
    """Whether it is known that blocks would have an element each at most."""
    count = points(reduction.axes).constant
    return count is not None and count <= BLOCKS


def _cut(step: Compute, block: Axis) -> tuple[Compute, Compute]:
    """The reduction of each block, and that of what these give."""
    reduction, (out,) = step.reduction, step.outs
    assert reduction is not None
    place = Axis(fresh("b"), Dim.of(BLOCKS))
    first, inner = reduction.axes[0], fresh(reduction.axes[0].symbol.name)
    start, stop = ((Dim.of(block.symbol) + i) * first.extent // BLOCKS for i in (0, 1))
    within = {first.symbol: start + Dim.of(inner)}
    others = tuple(Axis(axis.symbol, axis.extent.substitute(within)) for axis in reduction.axes[1:])
    where = None if reduction.where is None else substitute(reduction.where, within)
    parts = Value(fresh("parts"), out.element, (Dim.of(BLOCKS),))
    cut = Reduction((Axis(inner, stop - start), *others), reduction.monoid, where)
    body = tuple(substitute(scalar, within) for scalar in step.body)
    read = Read(parts.symbol, (Dim.of(place.symbol),), out.element)
    whole = Compute((out,), (), Reduction((place,), reduction.monoid), (read,), step.span)
    return Compute((parts,), (block,), cut, body, step.span), whole
