"""The CPU backend: a plan's kernels as machine code for this machine's processor.

run         a program on arrays: what the interpreter computes                     executable
nests       a nest -> a function in Python                                         nests, function
loops       a loop whose steps are small -> one function                           loops
build       such functions -> machine code, cached on disk                         build, intrinsics
products    contractions through NumPy's BLAS                                      products, views, blas
threads     one pool, whose threads share a kernel                                 threads
"""
