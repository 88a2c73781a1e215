"""Calls on a GPU: variants chosen, kernels loaded and launched, the host between them, failures."""
