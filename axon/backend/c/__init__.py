"""A program as a library for C: a header, machine code of the CPU backend's kernels, and C that runs them; no Python (docs/c.md).

core ── cpu.plan ──▶ plan ── products ──▶ plan ── calls ──▶ C ──┐
                       └── cpu.nests ──▶ Python ── kernels ──▶ objects ──▶ cc ──▶ a library
"""
