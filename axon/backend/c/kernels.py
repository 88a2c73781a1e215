"""Kernels as object files for a processor: numba's code without Python, of which one function has a name, and the rest is inside.

Machine code for this machine's own processor is what the CPU backend runs in Python, bit for bit.
"""

from __future__ import annotations

from typing import Any

from axon.backend.cpu.build import ModuleSource, arguments_of, flags_of, function
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError

NATIVE = "native"
# Functions of the C library and of libm, which machine code may call; those of f32 end in f.
_MATH = """
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p pow fmod cbrt erf erfc lgamma
    tgamma atan2 ldexp floor ceil rint round trunc sqrt fma nearbyint hypot
"""
_LIBRARY = frozenset(name + width for name in _MATH.split() for width in ("", "f")) | {"memcpy", "memset", "memmove"}


class Compiler:
    """Compiles kernels for one processor, by the name that LLVM has for it."""

    def __init__(self, cpu: str) -> None:
        from numba.core.codegen import AOTCPUCodegen
        from numba.core.registry import cpu_target

        class Codegen(AOTCPUCodegen):  # type: ignore[misc]
            def _customize_tm_features(self) -> str:
                """Of this machine's processor all that it has; of another one what its name says."""
                return self._get_host_cpu_features() if self._cpu_name == "host" else ""

        base = cpu_target.target_context
        self.context = base.subtarget(_internal_codegen=Codegen("axon", "host" if cpu == NATIVE else cpu), aot_mode=True)

    def compile(self, source: ModuleSource, name: str) -> bytes:
        """The object file of a kernel's function, which is called `name` there."""
        import llvmlite.binding as llvm
        from numba import types
        from numba.core.compiler import compile_extra
        from numba.core.compiler_lock import global_compiler_lock
        from numba.core.registry import cpu_target

        from axon.backend.cpu.passes import Passes

        flags = flags_of()
        flags.no_compile = True
        with global_compiler_lock:
            result: Any = compile_extra(
                cpu_target.typing_context, self.context, function(source), arguments_of(source), types.int64, flags, {},
                pipeline_class=Passes,
            )  # fmt: skip
            module = llvm.parse_bitcode(result.library.emit_bitcode())
            entry = result.fndesc.llvm_func_name
            for made in module.functions:
                if made.is_declaration:
                    _allowed(made.name)
                elif made.name == entry:
                    made.name = name
                    made.visibility = "hidden"
                else:
                    made.linkage = "internal"
            for kept in module.global_variables:
                if not kept.is_declaration:
                    kept.linkage = "internal"
            return bytes(self.context.codegen()._tm.emit_object(module))


def _allowed(name: str) -> None:
    if not name.startswith("llvm.") and name not in _LIBRARY:
        raise AxonError((Diagnostic("AX0614", f"a kernel needs `{name}`, which a C library does not have"),))
