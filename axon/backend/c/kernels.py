"""Kernels as object files for a processor, of which one function has a name, and the rest is inside.

Machine code for this machine's own processor is what the CPU backend runs in Python, bit for bit.
"""

from __future__ import annotations

from axon.backend.cpu.build import ModuleSource, alone, machine_of, optimized
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
        import llvmlite.binding as llvm

        # Of this machine's processor all that it has; of another one what its name says.
        own = cpu == NATIVE
        name, features = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()) if own else (cpu, "")
        self.machine = machine_of(cpu=name, features=features, reloc="pic", codemodel="default")

    def compile(self, source: ModuleSource, name: str) -> bytes:
        """The object file of a kernel's function, which is called `name` there."""
        with alone:
            entry, module = optimized(source, self.machine)
            for made in module.functions:
                if made.is_declaration:
                    _allowed(made.name)
                elif made.name == entry:
                    made.name = name
                    made.visibility = "hidden"
                else:  # another library's function of that name may be of another version
                    made.linkage = "internal"
            return bytes(self.machine.emit_object(module))


def _allowed(name: str) -> None:
    if not name.startswith("llvm.") and name not in _LIBRARY:
        raise AxonError((Diagnostic("AX0614", f"a kernel needs `{name}`, which a C library does not have"),))
