"""Products that share a factor and meet in one result: one kernel makes them of one tile of that factor (a gated linear unit).

    g[i, j] = sum k => x[i, k] * a[k, j]
    u[i, j] = sum k => x[i, k] * b[k, j]                  becomes one kernel, of two accumulators
    out[i, j] = silu g[i, j] * u[i, j]

Sums are *siblings* where they are over equal extents, indices counted alike, one of two factors is the same, and some result of the
pointwise operations that follow takes all of them: then none has to be in memory for another kernel. What else needs one of them is
stored too. Each of them has its own accumulator, so the tile of each is smaller than one alone would have; which of the two takes
less time is decided by cost (`better_alone`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.tile.contraction import PRODUCT_ELEMENTS, MatrixProduct, Merging, contraction, factors_of, group
from axon.backend.gpu.tile.epilogue import EpilogueGroup
from axon.backend.gpu.tile.epilogue_cost import APART, seconds_bare
from axon.backend.gpu.tile.online_softmax import local_symbols
from axon.backend.gpu.tile.schedule import Epilogue, ScheduleProblem, Traits, fastest
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Compute, Op, Value
from axon.core.walk import rename, tensors_of
from axon.shapes.dimension import Dim

MOST = 3  # sums of one kernel: of more no tile is large enough


@dataclass(frozen=True, slots=True)
class Siblings:
    """A kernel of several sums with what it takes in, and the numbers of the operations that it does; `alone` says why the first
    sum has a kernel of its own although it has a sibling."""

    group: EpilogueGroup[Any] | None
    members: frozenset[int]
    alone: str = ""


NONE = Siblings(None, frozenset())


def siblings(
    ops: Sequence[Op],
    number: int,
    values: Mapping[Symbol, Value],
    merging: Callable[[Symbol], Merging],
    is_free: Callable[[int, set[int]], bool],
    results: Set[Symbol],
    apart: Mapping[Symbol, str],
) -> Siblings:
    """The kernel of a sum of products and of those after it that are its siblings. `is_free` says whether an operation may be done
    with these others by one kernel; those that make one of `apart` are by themselves, for the reason that is given."""
    op = ops[number]
    assert isinstance(op, Compute)
    own = merging(op.outs[0].symbol)
    taken: list[tuple[int, Compute]] = []
    found, alone = NONE, ""
    for later in range(number + 1, len(ops)):
        candidate = ops[later]
        other = _over_axes_of(op, candidate) if isinstance(candidate, Compute) else None
        if other is None or merging(other.outs[0].symbol) != own or not is_free(later, {number}):
            continue
        if not set(tensors_of(other)).isdisjoint(first.outs[0].symbol for first in (op, *(each for _, each in taken))):
            continue  # one follows from the other
        made = _together(ops, number, [*taken, (later, other)], values, own, is_free, results)
        if made is None:
            continue
        assert made.group is not None
        why = apart.get(op.outs[0].symbol) or apart.get(other.outs[0].symbol) or _refused(made.group.kernel)
        if why:
            alone = alone or why
        elif len(taken) + 2 <= MOST:
            taken.append((later, other))
            found = made
    return found if found.group is not None else replace(NONE, alone=alone)


def _over_axes_of(op: Compute, other: Compute) -> Compute | None:
    """Another sum of products over the axes of a first one, if its extents are equal and it has a factor of that one."""
    if op.reduction is None or other.reduction is None or len(op.body) != 1 or len(other.body) != 1:
        return None
    if (op.reduction.monoid, op.reduction.where) != (other.reduction.monoid, other.reduction.where):
        return None
    mine, its = (*op.axes, *op.reduction.axes), (*other.axes, *other.reduction.axes)
    if len(op.axes) != len(other.axes) or [a.extent for a in mine] != [a.extent for a in its]:
        return None
    names = {theirs.symbol: Dim.of(own.symbol) for own, theirs in zip(mine, its, strict=True)}
    body = tuple(rename(scalar, names) for scalar in other.body)
    made = replace(other, axes=op.axes, body=body, reduction=replace(other.reduction, axes=op.reduction.axes))
    deep, _ = factors_of(op)
    return made if any(factor in deep for factor in factors_of(made)[0]) else None


def _together(
    ops: Sequence[Op],
    number: int,
    others: Sequence[tuple[int, Compute]],
    values: Mapping[Symbol, Value],
    merging: Merging,
    is_free: Callable[[int, set[int]], bool],
    results: Set[Symbol],
) -> Siblings | None:
    """One kernel of these sums, if some result of it takes all of them."""
    op = ops[number]
    assert isinstance(op, Compute)
    try:
        made = group(*contraction(op, values, merging, [other for _, other in others]))
    except Unsupported:
        return None
    members = {number, *(n for n, _ in others)}
    for later in range(number + 1, len(ops)):
        candidate = ops[later]
        if later not in members and isinstance(candidate, Compute) and is_free(later, members) and made.absorb(candidate):
            members.add(later)
    wanted = {symbol for n, each in enumerate(ops) if n not in members for symbol in tensors_of(each)} | results
    kernel = made.finish(set(wanted))
    meets = any(set(kernel.products) <= local_symbols(result.expression) for result in kernel.results)
    return Siblings(made, frozenset(members)) if meets else None


def _refused(kernel: MatrixProduct) -> str:
    """Why sums that could be siblings are none: what no kernel of several accumulators takes."""
    elements = list(dict.fromkeys(operand.value.element for operand in kernel.operands))
    if kernel.promotion:
        return "what a step adds up of 8-bit floats is promoted, for which a step has a sum of its own"
    if kernel.sum is Element.I32:
        return ""
    if len(elements) > 1:
        return "factors of two element types come in limbs, and a step of these has a sum of its own"
    if elements[0] not in PRODUCT_ELEMENTS:
        return f"factors of {elements[0].value} come in limbs, and a step of these has a sum of its own"
    return ""


def better_alone(kernel: MatrixProduct, problem: ScheduleProblem, traits: Traits, target: Target) -> str | None:
    """Why products that share a factor are better made by kernels of their own at these sizes, if they are."""
    slower = kernel.siblings and seconds_alone(kernel, problem, traits, target) < fastest(problem, traits, target)
    return "at these sizes kernels of their own take less time" if slower else None


def seconds_alone(kernel: MatrixProduct, problem: ScheduleProblem, traits: Traits, target: Target) -> float:
    """Of products that share a factor, made by kernels of their own: the last one with the epilogue, or with a kernel after it."""
    before = len(kernel.products) - 1
    element = kernel.left.value.element.bits / 8
    one = replace(problem, factors=(1, 1), epilogue=Epilogue())
    epilogue = problem.epilogue
    last = replace(one, epilogue=replace(epilogue, far=max(1, epilogue.far), moved=epilogue.moved + before * element))
    alone = replace(traits, factors=(1, 1))
    together, apart = fastest(last, alone, target), seconds_bare(kernel, last, alone, target)
    return before * fastest(one, replace(alone, epilogue=False), target) + (apart if apart < APART * together else together)
