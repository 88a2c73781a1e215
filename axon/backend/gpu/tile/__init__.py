"""Kernels for the tensor cores: which operations, as programs over tiles, under which mapping."""
