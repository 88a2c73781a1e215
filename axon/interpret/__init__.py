"""The meaning of core: a reference evaluator in NumPy, the oracle that every backend is tested against.

    run            a program on flat inputs                              program
    Compute, Scan  a domain, filled block by block                       compute, box
                   reductions, and sums of products as matrix products   reduction, contract
    scalars        over a box of indices at once, under masks            scalar, read, frame
    operators      on whole arrays of every element type                 arithmetic

What core leaves open is decided in docs/core.md. NumPy is imported here, so this package is imported when a program first runs.
"""

from axon.interpret.program import run

__all__ = ["run"]
