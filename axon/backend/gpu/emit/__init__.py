"""Barrier programs as Python that numba-cuda compiles and a person can read."""
