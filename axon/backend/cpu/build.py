"""Functions in Python to machine code, through numba's compiler for CPUs, kept on disk by content.

A function becomes an object file (ELF, Mach-O, COFF) that refers to neither numba nor Python, at most to functions of the C
library. The cache is the one of GPU kernels (`backend.cache`): nothing in it is evaluated or unpickled, and what is found there
is loaded by LLVM's own linker, so that a process that finds everything in the cache never imports numba.

The key is a digest of the text, the types of its parameters, the intrinsics and what is in this file, the versions of numba and
llvmlite, their settings, and the name and features of this machine's processor.

Note [One engine for each object]
    Objects come from several processes, and numba names symbols by a number that each process counts for itself: a name means other
    code in another object, and helpers are weak, so that a linker would take the first of a name. No two objects are linked.

Note [Apart]
    What a function makes overlaps with nothing that it reads: each tensor has memory of its own. LLVM must know it of a loop's
    kernels too. Else what does not depend on the innermost index is loaded again at every step, and the vectorizer, which asks of
    each operand whether it is the same for all lanes, and of the operands of that, takes minutes for a random number.
"""

from __future__ import annotations

import ctypes
import hashlib
import linecache
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache as once
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
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
    """Where no cache can be used, a warning says so and the function is compiled for this process."""
    try:
        cache.directory(), cache.limit()
    except Missing as missing:
        _warn("; ".join((missing.diagnostics[0].message, *(help.text for help in missing.diagnostics[0].suggestions))))
        entry, code = compile_source(source)
        return _load(entry, code, source.types)
    with cache.lock(key):
        found = cache.read(key)
        if not isinstance(found, cache.LinkedKernel):
            entry, code = compile_source(source)
            found = cache.LinkedKernel(code, entry, registers=0, spilled=0)
            cache.write(key, found)
    return _load(found.entry, found.cubin, source.types)


@once
def _warn(why: str) -> None:
    text = f"functions are compiled anew in each process, since they cannot be kept: {why}"
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def compile_source(source: ModuleSource) -> tuple[str, bytes]:
    """The entry's name in the object, and the object; without the cache."""
    from numba import types
    from numba.core.compiler import compile_extra
    from numba.core.registry import cpu_target

    from axon.backend.cpu.passes import Passes

    context, made, arguments = cpu_target.target_context, function(source), arguments_of(source)
    result = compile_extra(cpu_target.typing_context, context, made, arguments, types.int64, flags_of(), {}, pipeline_class=Passes)
    return str(result.fndesc.llvm_func_name), bytes(result.library._get_compiled_object())


def arguments_of(source: ModuleSource) -> tuple[Any, ...]:
    """The types of a function's parameters, as numba has them."""
    from numba import types

    return tuple(types.int64 if e is None else types.CPointer(getattr(types, POINTERS[e])) for e in source.types)


def flags_of() -> Any:
    """No wrappers for Python, no memory management, no exceptions; arguments that do not overlap."""
    from numba.core.compiler import Flags

    flags = Flags()
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.noalias = True
    flags.error_model = "numpy"
    return flags


def function(source: ModuleSource) -> Any:
    """The Python function of a text, whose lines tracebacks and debuggers can show."""
    from axon.backend.cpu.intrinsics import namespace

    name = f"<axon kernel {hashlib.sha256(source.text.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(source.text), None, source.text.splitlines(keepends=True), name)
    globals = namespace()
    exec(compile(source.text, name, "exec"), globals)  # text that `nests` and `loops` have written
    if source.helpers:
        from numba import njit

        from axon.backend.cpu.passes import Passes

        class Apart(Passes):
            """With arguments that do not overlap: `njit` has no setting for it. See Note [Apart]."""

            def define_pipelines(self) -> Any:
                self.state.flags.noalias = True
                return super().define_pipelines()

        settings = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": Apart}
        for helper in source.helpers:
            globals[helper] = njit(globals[helper], **settings)
    return globals[source.entry]


# ── loading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


_engines: list[Any] = []  # as long as the process lives


@once
def _initialize() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _load(entry: str, code: bytes, arguments: Iterable[Element | None]) -> Native:
    """The object, linked into this process by an engine of its own, which stays: functions are few, and a result may be computed
    with them at any time. See Note [One engine for each object]."""
    import llvmlite.binding as llvm

    _initialize()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    address = engine.get_function_address(entry)
    # numba's convention: where the result and an exception go stands before the arguments.
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    kinds = [integer if element is None else pointer for element in arguments]
    native = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *kinds)(address)

    def call(*values: int) -> int:
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        status = native(ctypes.addressof(result), ctypes.addressof(exception), *values)
        return int(status) or result.value

    return Native(call)


def _key(source: ModuleSource) -> str:
    kinds = ",".join("i64" if e is None else e.value for e in source.types)
    parts = [str(_FORMAT), machine_tools(), kinds, source.entry, *source.helpers, source.text]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _vector_functions() -> str:
    """The library of vector functions that numba has loops call where there is one. It is loaded here, as numba does: what was
    compiled with it refers to it, also in a process that does without numba."""
    import llvmlite.binding as llvm

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
    own = (here, here.with_name("intrinsics.py"), here.with_name("passes.py"), here.parents[1] / "tiles" / "microkernel.py")
    sources = (*own, kernel / "llvm.py", kernel / "special.py", kernel / "verify.py")
    intrinsics = "\0".join(file.read_text(encoding="utf-8") for file in sources)
    tools = [f"{name} {_version(name)}" for name in ("numba", "llvmlite")]
    machine = (llvm.get_default_triple(), llvm.get_host_cpu_name(), features)
    return "\0".join((*tools, cache.settings(), _vector_functions(), *machine, intrinsics))


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
