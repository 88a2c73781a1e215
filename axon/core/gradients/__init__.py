"""Derivatives of straight-line core: operations from operations, for what `grad` and its like apply a function to.

    rules      the derivatives of scalar operations, a table
    scalars    derivatives of scalar expressions, by the reads in them
    reads      the adjoint of a tensor from those of its reads: gathers, by inverting subscripts
    operations what moves, copies under names of their own, functions with a rule
    making     operations that both modes make
    demand     where anything reads a tensor: what a branch makes gets nothing elsewhere
    reverse    adjoints of operations, from the last to the first
    forward    tangents of operations, from the first to the last

Lowering calls them on the operations that a function has become (`lower.derivatives`); what they make is core like any other, so
derivatives nest, and their products and reductions are those of any program.
"""
