"""Core to core and to parts: what rewrites programs before kernels are sought. `axon.pass_table` lists who runs which, and when.

    cse        operations that compute the same are one
    tables     literals become data
    dissolve   pointwise operations go into their readers
    hoist      what does not vary along a loop leaves it
    parts      for a GPU: straight sub-programs, and what the host does between them

A pass that is for every target, such as derivatives, comes first, on what `lower` makes.
"""
