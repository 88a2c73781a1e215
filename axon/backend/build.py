"""Kernel source to a cubin, without a GPU: numba-cuda to LTO-IR, nvJitLink to machine code, kept on disk by content.

LTO-IR matters: the same kernel linked from PTX silently loses `setmaxnreg` and may have its products serialized. Any message of
that kind (C75xx), any spilled byte, and any stack frame fails the build.

The cache is one file per kernel in a private directory: a line of JSON with the file's digest, then the cubin. It holds machine
code and numbers, nothing that is evaluated. Files are written aside and renamed, so that readers see whole ones.
"""

from __future__ import annotations

import hashlib
import json
import linecache
import os
import re
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from axon.backend.emit import Emitted, MapParameter, PointerParameter, SizeParameter, StrideParameter
from axon.backend.needs import Missing, toolchain
from axon.backend.pipeline import Stages
from axon.backend.proof import Violation
from axon.backend.target import Target
from axon.backend.verify import verify

_FORMAT = 1


class BuildError(Exception):
    """The toolchain made a kernel that must not run; the message is its log."""


class RegistersExhausted(BuildError):
    """The kernel does not fit its mapping's registers: the mapping is not legal for it after all."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A linked kernel: machine code, its entry's name, and what it uses of each thread."""

    cubin: bytes
    entry: str
    registers: int
    spilled: int  # bytes


def build(stages: Stages, target: Target) -> Kernel:
    """The machine code of a kernel, from the cache if it was built before; else the barrier program is proved first.

    Raises `BuildError` for a program that is not proved, for spills, and for serialized products, `Missing` without the tools.
    """
    toolchain()
    path = cache_directory() / f"{_key(stages.source, target)}.cubin"
    kernel = _read(path)
    if kernel is None:
        answer = verify(stages.barriers)
        if isinstance(answer, Violation):
            raise BuildError(f"the barrier program is not proved: {answer}")
        kernel = compile_source(stages.source, target)
        _write(path, kernel)
    return kernel


def compile_source(emitted: Emitted, target: Target) -> Kernel:
    """Compile and link, without the cache."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    code = _ltoir(emitted, target)
    # Without the linker's own cache: what it finds there comes without the log that `_checked` reads.
    options = LinkerOptions(arch=target.name, link_time_optimization=True, ptxas_options=["-v"], no_cache=True)
    linker = Linker(ObjectCode.from_ltoir(code), options=options)
    cubin = bytes(linker.link("cubin").code)
    return _checked(cubin, f"{linker.get_info_log()}\n{linker.get_error_log()}")


def _checked(cubin: bytes, log: str) -> Kernel:
    entry = re.search(r"Compiling entry function '([^']+)'", log)
    registers = re.search(r"Used (\d+) registers", log)
    if entry is None or registers is None:
        raise BuildError(f"the linker says nothing of an entry:\n{log}")
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", log))
    warnings = [line for line in log.splitlines() if re.search(r"C75\d\d", line)]
    if warnings:
        raise BuildError("\n".join(["the kernel loses its asynchrony:", *warnings, log]))
    if spilled:
        raise RegistersExhausted(f"the kernel spills {spilled} bytes:\n{log}")
    return Kernel(cubin, entry[1], int(registers[1]), spilled)


def function(emitted: Emitted) -> Any:
    """The Python function of a kernel's source, whose lines tracebacks and debuggers can show."""
    name = f"<axon kernel {hashlib.sha256(emitted.text.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(emitted.text), None, emitted.text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "axon.backend.emitted"}
    exec(compile(emitted.text, name, "exec"), space)
    return space["kernel"]


def _ltoir(emitted: Emitted, target: Target) -> bytes:
    # numba-cuda's public `compile` cannot pass a struct by value. TMA descriptors must be: so the kernel's own module is edited,
    # its pointers to descriptors made `byval`, before it goes to libNVVM.
    from llvmlite import ir
    from numba.cuda import cgutils, compiler, types

    from axon.backend import ptx

    kinds = {MapParameter: ptx.tensor_map, PointerParameter: types.int64, StrideParameter: types.int64, SizeParameter: types.int32}
    signature = tuple(kinds[type(p)] for p in emitted.parameters)
    library, _ = compiler._compile_pyfunc_with_fixup(
        function(emitted),
        signature,
        device=False,
        abi="numba",
        cc=target.compute_capability,
        lto=True,
        launch_bounds=(emitted.threads, 1),
        opt=True,
    )
    kernel = library.get_function(library._entry_name)
    module, i32 = kernel.module, ir.IntType(32)
    maps = [ir.Constant(i32, n + 1) for n, p in enumerate(emitted.parameters) if isinstance(p, MapParameter)]
    if maps:
        annotations = cgutils.get_or_insert_named_metadata(module, "nvvm.annotations")
        text = ir.MetaDataString(module, "grid_constant")
        annotations.add(module.add_metadata((kernel, text, module.add_metadata(maps))))
    library._llvm_strs = None
    library._llvm_strs = [_by_value(text, library._entry_name) for text in library.llvm_strs]
    return bytes(library.get_ltoir(cc=target.compute_capability))


def _by_value(text: str, entry: str) -> str:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("define") and entry in line:
            lines[number] = line.replace("[16 x i64]* ", "[16 x i64]* byval align 64 ")
    return "\n".join(lines)


# ── the cache ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def cache_directory() -> Path:
    """Where built kernels are kept: `AXON_CACHE`, or the user's cache directory. Made for this user alone."""
    chosen = os.environ.get("AXON_CACHE")
    if chosen:
        path = Path(chosen)
    else:
        from platformdirs import user_cache_path

        path = user_cache_path("axon") / "kernels"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Missing(f"a directory for built kernels: {path}: {error.strerror}", "AXON_CACHE names another one") from None
    if path.stat().st_uid != os.getuid():
        raise BuildError(f"the cache directory {path} belongs to another user")
    return path


def _key(emitted: Emitted, target: Target) -> str:
    """A digest of everything that the machine code depends on: source, intrinsics, signature, target, and the tools' versions."""
    from axon.backend import ptx

    tools = [f"{name} {version(name)}" for name in ("numba-cuda", "llvmlite", "cuda-core")]
    tools += [f"{name} {_version(name)}" for name in ("nvidia-nvvm", "nvidia-nvjitlink")]
    kinds = [type(p).__name__ for p in emitted.parameters]
    source = Path(ptx.__file__).read_text(encoding="utf-8")
    parts = [str(_FORMAT), target.name, str(emitted.threads), *kinds, *tools, source, emitted.text]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError

    try:
        return version(name)
    except PackageNotFoundError:
        return "of the system"


def _read(path: Path) -> Kernel | None:
    """The kernel in a cache file; None if there is none, or it is not whole."""
    try:
        head, _, cubin = path.read_bytes().partition(b"\n")
        facts = json.loads(head)
        if facts["digest"] == hashlib.sha256(cubin).hexdigest():
            return Kernel(cubin, str(facts["entry"]), int(facts["registers"]), int(facts["spilled"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _write(path: Path, kernel: Kernel) -> None:
    facts = {
        "digest": hashlib.sha256(kernel.cubin).hexdigest(),
        "entry": kernel.entry,
        "registers": kernel.registers,
        "spilled": kernel.spilled,
    }
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(facts).encode() + b"\n" + kernel.cubin)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
