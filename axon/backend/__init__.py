"""From core to machine code: plans of kernels (`plan`), how they are written (`kernel`), processors (`cpu`), GPUs (`gpu`).

docs/cpu.md and docs/backend.md walk through the phases in order; `axon emit --stages` lists them.
"""
