"""What dies with each kernel of a plan: after its last reader a tensor's memory is free."""

from __future__ import annotations

from axon.backend.plan.ir import Kernels, reads_of, writes_of
from axon.backend.plan.verify import verify_deaths
from axon.backend.plan.walk import Lives, lives
from axon.base.passes import verified


@verified("deaths", lambda made, kernels: verify_deaths(made.dying, kernels), takes="plan", gives="lifetimes")
def lives_of(kernels: Kernels) -> Lives:
    """What of a block of kernels lives how long."""
    return lives(kernels.kernels, kernels.results, reads_of, writes_of)
