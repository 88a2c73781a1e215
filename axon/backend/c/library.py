"""A program as a library: its header, its C, its kernels, and what a C compiler makes of them.

prepared    a Program -> texts
written     texts -> files in a folder: NAME.h, NAME.c, NAME.o and libNAME.so
"""

from __future__ import annotations

import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from axon.backend.c.diagnosis import NestFunctions, diagnosis
from axon.backend.c.header import Described
from axon.backend.c.kernels import NATIVE, Compiler
from axon.backend.c.products import multiplied
from axon.backend.c.source import texts
from axon.backend.cpu import nests, scatters
from axon.backend.cpu.build import ModuleSource, source_of
from axon.backend.cpu.plan import choices_of, planned
from axon.backend.plan.ir import Nest, Plan, as_program, kernels_in, operations, values_in
from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.errors import AxonError
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.base.output import write_text
from axon.core.ir import Program
from axon.core.passes.orders import DEFAULT, Order, order_at
from axon.core.passes.tables import values_of
from axon.core.printer import print_op

_FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno")


@dataclass(frozen=True, slots=True)
class Library:
    """The files that were written, and the sizes on which it depends which order of sums is best, if there are several."""

    files: tuple[str, ...]
    deciding: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A library before there are files: its texts, its kernels, and the sizes that `Library` names."""

    about: Described
    header: str
    source: str
    plan: Plan
    functions: IdentityMap[Nest, NestFunctions]
    deciding: tuple[Symbol, ...]

    @property
    def kernels(self) -> Iterator[tuple[str, ModuleSource]]:
        """The text of each function that is compiled, with the name that it has in machine code."""
        values = values_in(self.plan)
        whys = [own.diagnosis for _, own in self.functions.items() if own.diagnosis is not None]
        values |= {why.notes.symbol: why.notes for why in whys}
        named = [(own.symbol, own.function) for _, own in self.functions.items()]
        for name, function in (*named, *((why.function.name, why.function) for why in whys)):
            yield name, source_of(function, lambda parameter: values[parameter.tensor].element)


def prepared(program: Program, about: Described, sizes: Mapping[Symbol, int]) -> Prepared:
    """`sizes` are those at which orders of sums are chosen; each order is right for all sizes."""
    choices = choices_of(program)
    deciding = frozenset[Symbol]().union(*(dim.variables for choice in choices for _, dim in choice.extents))
    order: Order = order_at(choices, sizes) if deciding <= sizes.keys() else DEFAULT
    plan, tables = planned(program, order)
    plan = multiplied(plan)
    functions = _functions(plan, about.symbol)
    header, source = texts(program, plan, functions, about, values_of(tables))
    return Prepared(about, header, source, plan, functions, tuple(sorted(deciding, key=lambda symbol: symbol.id)))


def build(program: Program, about: Described, folder: str, sizes: Mapping[Symbol, int], compiler: Sequence[str]) -> Library:
    """Write a library. AX0614 where there is no C compiler, or where it does not take a processor's name."""
    require(compiler, about.cpu)
    return written(prepared(program, about, sizes), folder, compiler)


def written(library: Prepared, folder: str, compiler: Sequence[str]) -> Library:
    about, place = library.about, Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot(f"`{folder}` cannot be made: {error.strerror}") from None
    write_text(place / f"{about.symbol}.h", library.header)
    write_text(place / f"{about.symbol}.c", library.source)
    kernels = list(library.kernels)
    compiled = Compiler(about.cpu).compile if kernels else None  # which loads LLVM
    objects = [(name, compiled(source, name)) for name, source in kernels if compiled is not None]
    return Library(tuple(str(place / name) for name in library_of(place, about, objects, compiler)), library.deciding)


def _functions(plan: Plan, symbol: str) -> IdentityMap[Nest, NestFunctions]:
    """The functions of all nests."""
    values, program = values_in(plan), as_program(plan)
    found: IdentityMap[Nest, NestFunctions] = IdentityMap()
    for kernel in kernels_in(plan.body):
        if isinstance(kernel, Nest):
            name = f"ax_{symbol}_{len(found)}"
            comments = [line for op in operations(kernel) for line in print_op(program, op).splitlines()]
            write = scatters.write if kernel.family == "scatter" else nests.write
            why = diagnosis(kernel, values, f"{name}_why")
            found[kernel] = NestFunctions(write(kernel, values, name, comments), name, why)
    return found


# ── the C compiler ──────────────────────────────────────────────────────────────────────────────────────────────────────


def library_of(place: Path, about: Described, objects: list[tuple[str, bytes]], compiler: Sequence[str]) -> list[str]:
    """Make the object file and the shared library; the names of all that is in the folder then."""
    own, shared = about.symbol, f"lib{about.symbol}.{'dylib' if sys.platform == 'darwin' else 'so'}"
    with TemporaryDirectory() as temporary:
        files = []
        for name, code in objects:
            files.append(str(Path(temporary) / f"{name}.o"))
            Path(files[-1]).write_bytes(code)
        host = str(Path(temporary) / f"{own}.o")
        run([*compiler, *_FLAGS, *_for(about.cpu), "-c", str(place / f"{own}.c"), "-o", host])
        run([*compiler, "-r", "-nostdlib", host, *files, "-o", str(place / f"{own}.o")])
    _shared([place / f"{own}.o"], place / shared, compiler)
    return [f"{own}.h", f"{own}.c", f"{own}.o", shared]


def linked_with(about: Described, folder: str, file: str, options: Sequence[str], compiler: Sequence[str]) -> bytes:
    """A shared library of what was written to a folder and one more file of C there."""
    place = Path(folder)
    run([*compiler, *_FLAGS, *options, "-c", str(place / file), "-o", str(place / f"{file}.o")])
    _shared([place / f"{file}.o", place / f"{about.symbol}.o"], place / f"{file}.so", compiler)
    return (place / f"{file}.so").read_bytes()


def operator_of(about: Described, place: Path, torch: Path, compiler: Sequence[str]) -> str:
    """A shared library of a function of C and its operator of PyTorch, of which C++ is written; its name."""
    stem = f"{about.symbol}_torch"
    with TemporaryDirectory() as temporary:
        made = Path(temporary) / f"{stem}.o"
        options = "-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", f"-I{torch / 'include'}", f"-fmacro-prefix-map={place}/="
        run([*compiler, *options, "-c", str(place / f"{stem}.cpp"), "-o", str(made)])
        libraries = f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10", "-lpthread", "-lm"
        run([*compiler, "-shared", str(made), str(place / f"{about.symbol}.o"), *libraries, "-o", str(place / f"lib{stem}.so")])
    return f"lib{stem}.so"


def _shared(objects: Sequence[Path], to: Path, compiler: Sequence[str]) -> None:
    strict = () if sys.platform == "darwin" else ("-Wl,-z,defs", "-Wl,-Bsymbolic", f"-Wl,-soname,{to.name}")
    run(
        [
            *compiler,
            "-shared",
            *strict,
            *map(str, objects),
            "-o",
            str(to),
            "-lm",
            "-lpthread",
            *(() if sys.platform == "darwin" else ("-ldl",)),
        ]
    )


def _for(cpu: str) -> list[str]:
    """The options of GCC and Clang for a processor."""
    option = "-mcpu" if platform.machine() in ("aarch64", "arm64") else "-march"
    return [f"{option}={cpu}"]


def require(compiler: Sequence[str], cpu: str) -> None:
    """Raises AxonError unless there is a compiler that knows the processor."""
    name = shlex.join(compiler)
    if not compiler or shutil.which(compiler[0]) is None:
        help = "install one (`apt install gcc`, `xcode-select --install`), or say which: CC=clang axon build …"
        raise cannot(f"there is no C compiler `{name}`", help=help)
    tried = subprocess.run([*compiler, *_for(cpu), "-E", "-x", "c", "/dev/null"], capture_output=True, text=True, check=False)
    if tried.returncode:
        help = f"--cpu is `{NATIVE}` or a name that the compiler takes for -march, such as x86-64-v3"
        raise cannot(f"`{name}` does not know the processor `{cpu}`", *tried.stderr.strip().splitlines()[:2], help=help)


def run(command: Sequence[str]) -> None:
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise cannot(f"the C compiler failed: {shlex.join(command)}", *made.stderr.strip().splitlines()[:20])


def cannot(message: str, *notes: str, help: str = "") -> AxonError:
    return AxonError((Diagnostic("AX0614", message, (), notes, (Suggestion(help),) if help else ()),))
