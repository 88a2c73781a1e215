"""Kernels that are written out and not made from programs: of `sort` and `compress`, and in which order they run."""
