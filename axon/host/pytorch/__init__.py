"""Axon's functions inside PyTorch's compiler, export and tracing modes: as operators. Imported where PyTorch is, and only then."""
