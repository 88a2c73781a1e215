"""Kernels to cubins, in worker processes, kept on disk."""
