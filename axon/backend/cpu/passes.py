"""Which of numba's passes a kernel needs: its text is calls, arithmetic, ranges, `if` and `while`.

The others look, in each function, for closures, lists, literals, `with`, `raise`, arrays and what can be inlined as Python. Without
them a function is compiled sooner, to the same machine code (`tests/backend/cpu/test_passes.py`).
"""

from __future__ import annotations

from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager

_PASSES = (
    untyped.TranslateByteCode,
    untyped.FixupArgs,
    untyped.IRProcessing,
    untyped.ReconstructSSA,
    typed.NopythonTypeInference,
    typed.PreLowerStripPhis,
    typed.IRLegalization,
    typed.NativeLowering,
    typed.NoPythonBackend,
)


class Passes(CompilerBase):  # type: ignore[misc]
    """For numba's `pipeline_class`."""

    def define_pipelines(self) -> list[PassManager]:
        manager = PassManager("axon")
        for one in _PASSES:
            manager.add_pass(one, one.__name__)
        manager.finalize()
        return [manager]
