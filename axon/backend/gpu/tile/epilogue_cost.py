"""What a contraction's epilogue costs for each element of its sums, for the cost model of `schedule`; and when a kernel after the
product does it sooner."""

from __future__ import annotations

from math import inf

from axon.backend.gpu.layout.roofline import KernelWork
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.schedule import Epilogue, ScheduleProblem, Traits, fastest
from axon.base.data import replace
from axon.base.element import Element
from axon.core.ir import Read
from axon.core.scalar_facts import dims_variables, weight
from axon.core.walk import reads

APART = 0.95  # of the time of a product with its epilogue, above which two kernels are not worth what they store between them


def epilogue_of(kernel: MatrixProduct) -> Epilogue:
    """What is done beside storing one result; nothing if that is all."""
    rows, columns = kernel.rows.symbol, kernel.columns.symbol
    seen: set[Read] = set()
    far = near = 0
    read = 0.0
    for result in kernel.results:
        along = [r for r in dict.fromkeys(reads(result.expression)) if columns in dims_variables(r)]
        new = [r for r in along if rows in dims_variables(r) and r not in seen]
        seen.update(new)
        far += bool(new)
        near += bool(along) and not new
        read += sum(map(_size, (r.element for r in new)))
    stored = [_size(result.value.element) for result in kernel.results]
    work = sum(weight(result.expression, None) for result in kernel.results)
    if not (far or near or work or len(stored) > 1):
        return Epilogue()
    return Epilogue(far, near, read + max(0.0, sum(stored) - _alone(kernel.left.value.element, len(kernel.terms))), float(work))


def better_bare(kernel: MatrixProduct, problem: ScheduleProblem, traits: Traits, target: Target, seconds: float) -> str | None:
    """Why what is done with the sums is better done by a kernel after the product at these sizes, if it is, where the product with
    it takes so many `seconds`: that kernel reads the product and all that the epilogue reads, and stores all results."""
    slower = kernel.siblings or seconds_bare(kernel, problem, traits, target) >= APART * seconds
    return None if slower else "at these sizes a kernel after the product takes less time"


def seconds_bare(kernel: MatrixProduct, problem: ScheduleProblem, traits: Traits, target: Target) -> float:
    """Of a product and a kernel after it, which does what the epilogue would; infinite if there is nothing to do."""
    if not problem.epilogue:
        return inf
    bare = fastest(replace(problem, epilogue=Epilogue()), replace(traits, epilogue=False), target)
    product = _alone(kernel.left.value.element, problem.products)
    results = problem.rows * problem.columns * problem.outer
    after = KernelWork(int(results * (problem.epilogue.moved + 2 * product)), flops=int(results * problem.epilogue.work))
    return bare + after.seconds(target)


def _alone(factor: Element, products: int) -> float:
    """Bytes of a sum that is stored with nothing done to it: of factors in limbs, which several products are of, it is f32, of
    8-bit integers i32, and of 8-bit floats mostly bf16."""
    if factor.is_integer:
        return _size(Element.I32)
    return max(_size(Element.BF16), _size(Element.F32 if products > 1 else factor))


def _size(element: Element) -> float:
    return element.bits / 8
