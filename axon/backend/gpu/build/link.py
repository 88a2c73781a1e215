"""Kernel source to machine code, or to PTX, in this process: numba-cuda to LTO-IR, nvJitLink to a cubin. Workers do it."""

from __future__ import annotations

import hashlib
import inspect
import linecache
from collections.abc import Sequence
from typing import Any

from axon.backend.gpu.build.instructions import lacking
from axon.backend.gpu.layout.target import Capability, architecture


class ChipLacks(Exception):
    """A kernel has an instruction that the chip it is made for does not have."""


def link(text: str, kinds: Sequence[str], bounds: tuple[int, int], chip: Capability, linked: Capability) -> tuple[bytes, str]:
    """The cubin of a kernel's source whose parameters are of these kinds, made of the instructions of one chip as machine code of
    that or a later one; and the linker's log. Raises ChipLacks for instructions that the first does not have."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    code = bytes(_library(text, kinds, bounds, chip, lto=True).get_ltoir(cc=chip))
    # Without the linker's own cache: what it finds there comes without the log that `_checked` reads.
    options = LinkerOptions(arch=architecture(linked), link_time_optimization=True, ptxas_options=["-v"], no_cache=True)
    linker = Linker(ObjectCode.from_ltoir(code), options=options)
    cubin = bytes(linker.link("cubin").code)
    return cubin, f"{linker.get_info_log()}\n{linker.get_error_log()}"


def assembly(text: str, kinds: Sequence[str], bounds: tuple[int, int], chip: Capability) -> tuple[bytes, str]:
    """What `ptx` gives, in this process, and an empty log."""
    library = _library(text, kinds, bounds, chip, lto=False)
    made = str(library.get_asm_str(cc=chip)).replace(library._entry_name, "kernel")
    names = inspect.signature(function(text)).parameters
    for number, name in reversed(list(enumerate(names))):
        made = made.replace(f"kernel_param_{number}", name)
    return f"{made}\n".encode(), ""


def _library(text: str, parameters: Sequence[str], bounds: tuple[int, int], chip: Capability, *, lto: bool) -> Any:
    """A kernel's source as numba-cuda's code library, its module ready for libNVVM."""
    # numba-cuda's public `compile` cannot pass a struct by value. TMA descriptors must be: so the kernel's own module is edited,
    # its pointers to descriptors made `byval`, before it goes to libNVVM.
    from llvmlite import ir
    from numba.cuda import cgutils, compiler, types

    from axon.backend.gpu.intrinsics import ptx_calls
    from axon.backend.gpu.intrinsics.ptx import tensor_map

    wide = ("PointerParameter", "StrideParameter", "ExtentParameter", "StatusParameter")
    kinds = {"SizeParameter": types.int32, **dict.fromkeys(wide, types.int64)}
    signature = tuple(tensor_map if kind == "MapParameter" else kinds[kind] for kind in parameters)
    library, _ = compiler._compile_pyfunc_with_fixup(
        function(text),
        signature,
        device=False,
        abi="numba",
        cc=chip,
        lto=lto,
        launch_bounds=bounds,
        opt=True,
    )
    kernel = library.get_function(library._entry_name)
    module, i32 = kernel.module, ir.IntType(32)
    ptx_calls.settle(module)
    maps = [ir.Constant(i32, n + 1) for n, kind in enumerate(parameters) if kind == "MapParameter"]
    if maps:
        annotations = cgutils.get_or_insert_named_metadata(module, "nvvm.annotations")
        word = ir.MetaDataString(module, "grid_constant")
        annotations.add(module.add_metadata((kernel, word, module.add_metadata(maps))))
    library._llvm_strs = None
    library._llvm_strs = [_by_value(lines, library._entry_name) for lines in library.llvm_strs]
    for lines in library._llvm_strs:
        if (why := lacking(lines, chip)) is not None:
            raise ChipLacks(why)
    return library


def _by_value(text: str, entry: str) -> str:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("define") and entry in line:
            lines[number] = line.replace("[16 x i64]* ", "[16 x i64]* byval align 64 ")
    return "\n".join(lines)


def function(text: str) -> Any:
    """The Python function of a kernel's source, whose lines tracebacks and debuggers can show."""
    name = f"<axon kernel {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "axon.backend.emitted"}
    exec(compile(text, name, "exec"), space)
    return space["kernel"]
