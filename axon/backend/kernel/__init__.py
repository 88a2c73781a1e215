"""Kernels as data, and what all that writes them shares.

ir          statements and expressions; names that are objects
code        a kernel being written
printer     a kernel as the Python that numba compiles
tidy        a kernel without what nothing reads
verify      each name is assigned before it is read
writer      scalar expressions of core, for plain kernels and processors; `reducers` for what is reduced
scalars     the same for the epilogues and streams of tensor-core kernels
llvm        operations as LLVM's IR, which the intrinsics of both targets share
"""
