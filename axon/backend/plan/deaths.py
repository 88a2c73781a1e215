"""What dies with each kernel of a plan: after its last reader a tensor's memory is free."""

from __future__ import annotations

from axon.backend.plan.ir import Kernels, reads_of, writes_of
from axon.backend.plan.verify import verify_deaths
from axon.base.names import Symbol
from axon.base.passes import verified


@verified("deaths", verify_deaths, takes="plan", gives="lifetimes")
def deaths(kernels: Kernels) -> tuple[frozenset[Symbol], ...]:
    """For each kernel of a block, what of the block nobody reads after it."""
    last: dict[Symbol, int] = {}
    for position, kernel in enumerate(kernels.kernels):
        last.update((symbol, position) for symbol in writes_of(kernel))
        last.update((symbol, position) for symbol in reads_of(kernel) if symbol in last)
    dying: list[set[Symbol]] = [set() for _ in kernels.kernels]
    for symbol, position in last.items():
        if symbol not in kernels.results:
            dying[position].add(symbol)
    return tuple(map(frozenset, dying))
