"""Core to plans of kernels: which operations become one, for processors and GPUs."""
