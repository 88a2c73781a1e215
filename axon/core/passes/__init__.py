"""Core to core: what rewrites programs, whichever target they are for."""
