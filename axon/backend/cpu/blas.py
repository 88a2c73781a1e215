"""NumPy's BLAS on the thread that asks: our own threads share a product, whose bits then do not depend on how many they are.

How many threads BLAS uses decides how it cuts a product, and so the last bits of its results. The count is BLAS's, of the whole
process, or of each thread where BLAS is built on OpenMP. It is 1 while a kernel runs, and put back when the last kernel is done:
products that others in the process ask for meanwhile take longer, and may differ by the order of sums.

Note [Called from machine code]
    A product through `numpy.matmul` returns to Python, whose lock only one thread has, and a thread that Python wakes comes after
    0.1 ms, later where other programs run. So many products are lines of a table (`tiles.gemm`), which threads take between them
    in machine code, where one that waits for the next kernel (Note [Boxes] in `kernel.taking`) begins at once. The functions are
    those of NumPy's own OpenBLAS; where NumPy has another library, it is asked through `matmul`.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

import numpy

from axon.backend.cpu import build, threads
from axon.backend.cpu.arena import Scratch
from axon.backend.tiles import gemm
from axon.base.data import dataclass
from axon.base.element import Element

COPIED = 4  # additions of f32 in whose time one of its elements is copied
_lock = Lock()
_scratch = Scratch()
_before: list[int] = []  # how many threads each library used when no kernel ran
_running = 0  # kernels


@dataclass(frozen=True, slots=True)
class _Library:
    """How many threads a BLAS uses; `each`, whether every thread has a count of its own."""

    count: Callable[[], int]
    use: Callable[[int], Any]
    each: bool


@cache
def _libraries() -> tuple[_Library, ...]:
    """NumPy's BLAS, and others that are loaded."""
    from threadpoolctl import ThreadpoolController

    return tuple(map(_library, ThreadpoolController().select(user_api="blas").lib_controllers))


def _library(found: Any) -> _Library:
    """OpenBLAS's own functions where it has its own threads: threadpoolctl looks them up by name in every call, which takes as
    long as a small product does, and lets no second thread set the count."""
    count, use = found.get_num_threads, found.set_num_threads
    layer = getattr(found, "threading_layer", "")
    if found.internal_api == "openblas" and layer == "pthreads":
        count = found._get_symbol("openblas_get_num_threads") or count
        use = found._get_symbol("openblas_set_num_threads") or use
    return _Library(count, use, layer == "openmp")


@cache
def _numpys() -> Any:
    """NumPy's own OpenBLAS, if that is what it has: the library beside it."""
    from threadpoolctl import ThreadpoolController

    folder = Path(numpy.__file__).resolve().parent
    beside = (f"{folder}.libs", str(folder))
    for found in ThreadpoolController().select(internal_api="openblas").lib_controllers:
        if str(Path(found.filepath).resolve()).startswith(beside) and getattr(found, "threading_layer", "") == "pthreads":
            return found
    return None


@cache
def function(name: str) -> int | None:
    """The address of a function of CBLAS in NumPy's OpenBLAS, by its name there but for prefix and suffix; None without one."""
    found = _numpys()
    symbol = None if found is None else found._get_symbol(name)
    return None if symbol is None else ctypes.cast(symbol, ctypes.c_void_p).value


@cache
def wide() -> bool:
    """Whether its sizes are i64 rather than i32."""
    config = _numpys()._get_symbol("openblas_get_config")
    config.restype = ctypes.c_char_p
    return b"USE64BITINT" in config()


def multiply(products: gemm.Multiplied, left: int, right: int, out: int, cost: int) -> None:
    """All products of a table, of what lies at these addresses, on as many threads as they are worth. BLAS is to be on one."""
    first, second = (right, left) if products.swapped else (left, right)
    address = function(f"cblas_{products.kind}")
    assert address is not None
    given = partial(_same, [address, products.table.ctypes.data, first, second, out])
    threads.share_kernel(_native(products.kind), given, len(products.table), cost)


def lay(copy: gemm.Laid, element: Element, source: int, target: int) -> None:
    """A copy between these addresses, on as many threads as it is worth."""
    rest = [copy.table.ctypes.data, *copy.steps]

    def given(thread: int) -> list[int]:
        block = _scratch.array(f"block {thread}", (gemm.BLOCK, gemm.BLOCK), element.dtype)
        return [source, target, block.ctypes.data, *rest]

    threads.share_kernel(_copying(element, copy.form), given, len(copy.table), COPIED * copy.count * element.bits // 32)


@cache
def _copying(element: Element, form: tuple[bool, bool, bool]) -> build.Native:
    types = (element, element, element, Element.I64, *[None] * 6)
    return build.build(build.ModuleSource("lay", gemm.text(element.value, form), types))


def _same(arguments: list[int], thread: int) -> list[int]:
    return arguments


@cache
def _native(kind: str) -> build.Native:
    bits = 64 if wide() else 32
    text = Path(gemm.__file__).read_text(encoding="utf-8")
    key = hashlib.sha256("\0".join((build.machine_tools(), text, kind, str(bits))).encode()).hexdigest()
    return build.load(*build.kept(key, lambda: _compiled(kind, bits)), [None] * 7)


def _compiled(kind: str, bits: int) -> tuple[str, bytes]:
    import llvmlite.binding as llvm

    with build.alone:
        machine = build.this_machine()
        module = llvm.parse_assembly(str(gemm.module(llvm.get_process_triple(), kind, bits)))
        module.verify()
        return gemm.NAME, bytes(machine.emit_object(module))


class one_thread:
    """BLAS computes what this thread asks of it on this thread."""

    __slots__ = ("own",)

    def __enter__(self) -> None:
        global _running
        with _lock:
            self.own = [library.count() for library in _libraries()]
            if not _running:
                _before[:] = self.own
            _running += 1
            if max(self.own, default=1) > 1:
                for library in _libraries():
                    library.use(1)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        global _running
        with _lock:
            _running -= 1
            for library, before, mine in zip(_libraries(), _before, self.own, strict=True):
                if library.each:
                    library.use(mine)
                elif not _running and before > 1:
                    library.use(before)


def alone() -> None:
    """In a thread of the pool, whose caller holds `one_thread`: there too, where the count is of each thread."""
    for library in _libraries():
        if library.each and library.count() != 1:
            library.use(1)
