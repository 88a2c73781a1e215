"""The chip and its memory: what a GPU has, how tensors lie, what kernels may assume of that."""
