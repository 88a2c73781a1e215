"""Kernels' texts to machine code, through LLVM, kept on disk by content.

A function becomes an object file (ELF, Mach-O, COFF) that refers to nothing of Python, at most to functions of the C
library. The cache is the one of GPU kernels (`backend.cache`): nothing in it is evaluated or unpickled, and what is found there
is loaded by LLVM's own linker, so that a process that finds everything in the cache writes no IR.

The key is a digest of the text, the types of its parameters, the intrinsics and what is in this file, the version of
llvmlite, and the name and features of this machine's processor.

Note [One engine for each object]
    Objects come from several processes, and a symbol has the name that its text has: in another object it means other code. No two
    objects are linked.

Note [Apart]
    What a function makes overlaps with nothing that it reads: each tensor has memory of its own. LLVM must know it of a loop's
    kernels too. Else what does not depend on the innermost index is loaded again at every step, and the vectorizer, which asks of
    each operand whether it is the same for all lanes, and of the operands of that, takes minutes for a random number.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache as once
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from axon.backend import kernel_cache as cache
from axon.backend.cpu.function import BufferParameter, Function, LanesParameter
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.needs import Missing
from axon.base.data import dataclass
from axon.base.element import Element

_FORMAT = 1

POINTERS = {
    Element.F64: "float64", Element.F32: "float32", Element.F16: "uint16", Element.BF16: "uint16", Element.F8E4M3: "uint8",
    Element.F8E5M2: "uint8", Element.I64: "int64", Element.I32: "int32", Element.I16: "int16", Element.I8: "int8",
    Element.U64: "uint64", Element.U32: "uint32", Element.U16: "uint16", Element.U8: "uint8", Element.BOOL: "uint8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """A module's text and the function in it that is called, with its parameters' types: an element's pointer, or None for i64."""

    entry: str
    text: str
    types: tuple[Element | None, ...]
    helpers: tuple[str, ...] = ()  # functions of the text that the entry calls


@dataclass(frozen=True, slots=True)
class Native:
    """A function in machine code: takes addresses and integers, returns 0, or 1 where the program must stop."""

    call: Callable[..., int]
    address: int


def source_of(function: Function, element_of: Callable[[PointerParameter], Element], helpers: tuple[str, ...] = ()) -> ModuleSource:
    types: list[Element | None] = []
    for parameter in function.parameters:
        match parameter:
            case PointerParameter():
                types.append(element_of(parameter))
            case BufferParameter(element=element):
                types.append(element)
            case ExtentParameter() | LanesParameter():
                types.append(None)
    return ModuleSource(function.name, function.text, (*types, None, None), helpers)


_lock = Lock()
_loaded: dict[str, Native] = {}


def build(source: ModuleSource) -> Native:
    """The machine code of a function: from this process, from the cache, or compiled."""
    key = _key(source)
    with _lock:
        native = _loaded.get(key)
        if native is None:
            native = _loaded[key] = _build(source, key)
        return native


def _build(source: ModuleSource, key: str) -> Native:
    entry, code = kept(key, lambda: compile_source(source))
    return load(entry, code, source.types)


def kept(key: str, make: Callable[[], tuple[str, bytes]]) -> tuple[str, bytes]:
    """An object and its entry's name, from the cache, or made and put there. Where none can be used, a warning says so, and it is
    made for this process."""
    try:
        cache.directory(), cache.limit()
    except Missing as missing:
        _warn("; ".join((missing.diagnostics[0].message, *(help.text for help in missing.diagnostics[0].suggestions))))
        return make()
    with cache.lock(key):
        found = cache.read(key)
        if not isinstance(found, cache.LinkedKernel):
            entry, code = make()
            found = cache.LinkedKernel(code, entry, registers=0, spilled=0)
            cache.write(key, found)
    return found.entry, found.cubin


@once
def _warn(why: str) -> None:
    text = f"functions are compiled anew in each process, since they cannot be kept: {why}"
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def compile_source(source: ModuleSource) -> tuple[str, bytes]:
    """The entry's name in the object, and the object; without the cache."""
    with alone:
        machine = this_machine()
        entry, module = optimized(source, machine)
        return entry, bytes(machine.emit_object(module))


alone = RLock()  # held while LLVM works: modules of all threads are in one context


def this_machine() -> Any:
    """The processor that this is, for objects that this process or another one here links."""
    import llvmlite.binding as llvm

    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    reloc = "static" if llvm.get_process_triple().startswith(("x86", "i386", "i686")) else "default"
    return machine_of(cpu=cpu, features=features, reloc=reloc, codemodel="jitdefault", jit=True)


def machine_of(**options: Any) -> Any:
    """LLVM's description of a processor."""
    import llvmlite.binding as llvm

    _initialize()
    if _vector_functions():
        import numba  # noqa: F401 (tells LLVM of the vector functions, which can be done once)
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=3, **options)


def optimized(source: ModuleSource, machine: Any) -> tuple[str, Any]:
    """A function's name in LLVM's module, and that module, as good as LLVM can make it for a machine."""
    import llvmlite.binding as llvm
    from llvmlite import ir

    from axon.backend.cpu.intrinsics import SURROUNDINGS
    from axon.backend.cpu.lowering import Pointer, lowered

    written = ir.Module(source.entry)
    written.triple, written.data_layout = llvm.get_process_triple(), str(machine.target_data)
    types = [Element.I64 if element is None else Pointer(element) for element in source.types]
    entry = lowered(source.text, source.entry, types, SURROUNDINGS, written)
    module = llvm.parse_assembly(str(written))
    module.verify()
    for name, speed in (("first", 0), ("all", 3)):
        options = llvm.create_pipeline_tuning_options(speed_level=speed)
        options.loop_vectorization, options.slp_vectorization = name == "all", False
        builder = llvm.create_pass_builder(machine, options)
        passes = builder.getModulePassManager()
        if name == "first":  # loops that are turned first are vectorized more often
            passes.add_loop_rotate_pass()
            passes.add_instruction_combine_pass()
            passes.add_jump_threading_pass()
        passes.run(module, builder)
    return entry, module


# ── loading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


_engines: list[Any] = []  # as long as the process lives


@once
def _initialize() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def linked(entry: str, code: bytes) -> int:
    """Where an object's entry is, which is linked into this process by an engine of its own, which stays: functions are few, and a
    result may be computed with them at any time. See Note [One engine for each object]."""
    import llvmlite.binding as llvm

    _initialize()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(entry))


def load(entry: str, code: bytes, arguments: Iterable[Element | None]) -> Native:
    """An object's entry, whose arguments are pointers to elements, or i64."""
    address = linked(entry, code)
    # See Note [Convention] in `lowering`.
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    kinds = [integer if element is None else pointer for element in arguments]
    native = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *kinds)(address)

    def call(*values: int) -> int:
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        status = native(ctypes.addressof(result), ctypes.addressof(exception), *values)
        return int(status) or result.value

    return Native(call, address)


def _key(source: ModuleSource) -> str:
    kinds = ",".join("i64" if e is None else e.value for e in source.types)
    parts = [str(_FORMAT), machine_tools(), kinds, source.entry, *source.helpers, source.text]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _vector_functions() -> str:
    """The library of vector functions that loops call where there is one, and numba, which tells LLVM of it. It is loaded here:
    what was compiled with it refers to it."""
    import llvmlite.binding as llvm

    if find_spec("numba") is None:
        return ""

    name = "libsvml.dylib" if sys.platform == "darwin" else "libsvml.so"
    try:
        if llvm.targets.has_svml():
            llvm.load_library_permanently(name)
            return name
    except RuntimeError:  # there is none
        pass
    return ""


@once
def machine_tools() -> str:
    """What the machine code depends on besides its text."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    here = Path(__file__)
    kernel = here.parents[1] / "kernel"
    own = (here, here.with_name("intrinsics.py"), here.with_name("lowering.py"), here.parents[1] / "tiles" / "microkernel.py")
    emitted = ("elementary", "lanes", "llvm", "narrow", "newton", "polynomials", "single", "special", "verify")
    sources = (*own, *(kernel / f"{name}.py" for name in emitted), here.parents[2] / "core" / "coefficients.py")
    intrinsics = "\0".join(file.read_text(encoding="utf-8") for file in sources)
    machine = (llvm.get_default_triple(), llvm.get_host_cpu_name(), features)
    return "\0".join((f"llvmlite {_version('llvmlite')}", _vector_functions(), *machine, intrinsics))


def _version(package: str) -> str:
    """The version of an installed package, which is not imported for that. It stands in the name of the directory that installers
    put beside it; to import what reads such directories would take longer than all else here."""
    spec = find_spec(package)
    beside = Path(spec.origin).parents[1] if spec is not None and spec.origin is not None else Path()
    found = sorted(entry.name for entry in beside.glob(f"{package}-*.dist-info"))
    if len(found) == 1:
        return found[0].removeprefix(f"{package}-").removesuffix(".dist-info")
    from importlib.metadata import version  # of a package in development

    return version(package)
