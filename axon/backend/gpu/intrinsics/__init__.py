"""Instructions of the chip as numba-cuda intrinsics: what emitted kernels call."""
