"""A device on which programs in parts run without a GPU: straight parts are interpreted on its memory, and kernels of sorts and
compresses, which are Python, run as Python, all threads of a block in step."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from axon.backend.gpu.launching.driver import NodeParameters
from axon.backend.gpu.launching.launches import Launch, Launches, Slot
from axon.backend.gpu.runtime import algorithms, arrays, failures, stepped_call, steps
from axon.backend.gpu.runtime import executable as runtime
from axon.backend.gpu.runtime.binding import BoundProgram
from axon.backend.gpu.runtime.device_tables import NONE, DeviceTables
from axon.backend.gpu.sorting import bitonic, compress, radix
from axon.backend.kernel_cache import LinkedKernel
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.interpret import run
from axon.shapes.dimension import Dim
from tests.backend.gpu.runtime.fake import FakeDriver, view


class PlayedExecutable:
    """What `axon.backend.gpu.runtime.executable.Executable` is to parts.

    Notes every binding, every launch, and each program's last arguments.
    """

    log: ClassVar[list[str]] = []
    given: ClassVar[dict[Program, tuple[list[Any], dict[Symbol, int]]]] = {}

    def __init__(self, program: Program, *_: Any, tables: DeviceTables = NONE, **__: Any) -> None:
        self.program, self.tables = program, tables
        self.kernels: tuple[Any, ...] = ()
        self.fixed: tuple[Any, ...] = ()
        made = (out for op in program.block.ops for out in getattr(op, "outs", ()))
        self.values = tuple(dict.fromkeys([*program.inputs, *made]))

    def warm(self, sizes: Any, *, exact: bool = True) -> None:
        self.log.append("warm")

    def wanted(self, sizes: Any, *, exact: bool = False) -> list[Any]:
        return []

    def made(self) -> list[Any]:
        return []

    def bind(
        self, given: Any, sizes: Any, device: int, scalars: Any = (), changing: frozenset[Symbol] = frozenset(), fresh: Any = ()
    ) -> BoundProgram:
        self.log.append("bind")
        lies, known = dict(given), dict(sizes)
        inputs = [v.symbol for v in self.program.inputs]
        cuda = runtime.driver()
        tables = {s: t for s, t in self.tables.on(cuda, device).items() if s in inputs}
        assert {*given, *tables} == {*inputs, *self.program.block.results}
        assert tables.keys().isdisjoint(given)
        counters = sorted(changing, key=lambda symbol: symbol.name)

        def run_(words: list[int]) -> None:
            self.log.append("launch")
            pointers, status, now = words[: len(lies)], words[len(lies)], words[len(lies) + 1 :]
            at = {s: view(p, t.shape, t.strides, t.element) for (s, t), p in zip(lies.items(), pointers, strict=True)}
            assert all(p % 16 == t.pointer % 16 or not t.shape for t, p in zip(lies.values(), pointers, strict=True) if t.bytes)
            at |= {s: view(t.pointer, t.shape, t.strides, t.element) for s, t in tables.items()}
            own = {**known, **dict(zip(counters, now, strict=True))}
            arrays = [at[s].copy() for s in inputs]
            self.given[self.program] = (arrays, own)
            try:
                made = run(self.program, arrays, [own[s] for s in self.program.explicit])
            except AxonError:
                assert status, "a failure without a word to note it"
                ctypes.c_int32.from_address(status).value = 1
                return
            for symbol, array in zip(self.program.block.results, made, strict=True):
                assert not any(_overlap(at[symbol], at[s]) for s in inputs), "a result lies on an argument"
                at[symbol][...] = array

        function = cuda.played(run_, len(lies) + 1 + len(counters))  # type: ignore[attr-defined]
        slots = [Slot(n, False, n) for n in range(len(lies))] + [Slot(len(lies), False, len(lies) + 1)]
        sized = [(len(lies) + 1 + n, Dim.of(symbol)) for n, symbol in enumerate(counters)]
        kernel = Launch(function, 1, 1, 0, (bytes(8),) * (len(slots) + len(sized)), tuple(slots), tuple(sized))
        launches = Launches(cuda, (kernel,), len(lies) + 3, cuda.context(device))
        return BoundProgram(tuple(given), (kernel,), launches, 0, {}, True)


def _overlap(out: Any, other: Any) -> bool:
    return bool(out.size and other.size and np.may_share_memory(out, other))


class PlayedDriver(FakeDriver):
    """A driver that runs the kernels of sorts and compresses."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[int, str] = {}
        self.straight: dict[int, tuple[Callable[[list[int]], None], int]] = {}

    def played(self, function: Callable[[list[int]], None], count: int) -> int:
        """A kernel that is Python, and takes so many words of 8 bytes."""
        self.straight[20000 + len(self.straight)] = function, count
        return 19999 + len(self.straight)

    def _words(self, function: int, arguments: int) -> list[int]:
        if function in self.straight:
            count = self.straight[function][1]
        else:
            (names,) = re.findall(r"def kernel\((.*)\):", self.functions[function])
            count = names.count(",") + 1
        pointers = (ctypes.c_uint64 * count).from_address(arguments)
        return [ctypes.c_int64.from_address(p).value for p in pointers]

    def _taken(self, node: NodeParameters) -> Any:
        if node.function in self.plans:
            return super()._taken(node)
        words = self._words(node.function, node.arguments)
        size = tuple(node.grid), tuple(node.block), node.shared
        return node.function, size, [word.to_bytes(8, "little", signed=True) for word in words]

    def load(self, cubin: bytes, entry: str, shared: int, cluster: int, device: int) -> tuple[int, Any]:
        self.functions[8000 + len(self.functions)] = cubin.decode()
        return 7999 + len(self.functions), cubin

    def _run(self, function: int, size: Any, arguments: int) -> None:
        words = self._words(function, arguments)
        if function in self.straight:
            self.straight[function][0](words)
            return
        (blocks, _, _), (threads, _, _), _ = size
        emulate(self.functions[function], blocks, threads, words)


def built(wanted: Any, target: Any) -> list[LinkedKernel]:
    """`build_all` whose machine code is the source."""
    assert all(w.barriers is None for w in wanted)
    return [LinkedKernel(w.source.text.encode(), "kernel", 32, 0) for w in wanted]


def played(monkeypatch: Any) -> PlayedDriver:
    """The machine has a GPU from here on, on which straight parts are interpreted."""
    made = PlayedDriver()
    for module in (runtime, arrays, stepped_call, failures):
        monkeypatch.setattr(module, "driver", lambda: made)
    monkeypatch.setattr(arrays, "gpu", lambda device=0: (9, 0))
    monkeypatch.setattr(steps, "Executable", PlayedExecutable)
    for module in (algorithms, steps):
        monkeypatch.setattr(module, "build_all", built)
    monkeypatch.setattr(PlayedExecutable, "log", [])
    monkeypatch.setattr(failures, "_free", [])
    small(monkeypatch)
    return made


def small(monkeypatch: Any) -> None:
    """Blocks of a few threads, so that small arrays take many."""
    sizes = {
        bitonic: {"TILE": 16, "THREADS": 4},
        radix: {"BITS": 4, "SIZES": ((1, 2), (2, 2)), "PIECE": (1, 2), "ADDERS": 16, "FEW": 3},
        compress: {"PIECE": 16, "COUNTERS": 4, "PLACERS": 4},
    }
    for module, own in sizes.items():
        for name, size in own.items():
            monkeypatch.setattr(module, name, size)


_MEMORY = SimpleNamespace(
    **{f"load_{b}": lambda a, t=t: t.from_address(a).value for b, t in {8: ctypes.c_uint8, 16: ctypes.c_uint16}.items()},
    load_32=lambda a: ctypes.c_uint32.from_address(a).value,
    load_64=lambda a: ctypes.c_int64.from_address(a).value,
    store_8=lambda a, v: ctypes.memset(a, v & 0xFF, 1),
    store_16=lambda a, v: setattr(ctypes.c_uint16.from_address(a), "value", v & 0xFFFF),
    store_32=lambda a, v: setattr(ctypes.c_uint32.from_address(a), "value", v & 0xFFFFFFFF),
    store_64=lambda a, v: setattr(ctypes.c_uint64.from_address(a), "value", v & (2**64 - 1)),
)


def emulate(text: str, blocks: int, threads: int, arguments: list[int]) -> None:
    """Run a kernel's source; a barrier is where each thread of a block waits for the others, and warps wait as blocks do."""
    body = re.sub(r"cuda\.sync(threads|warp)\(\)", "yield", text[text.index("def kernel") :])
    body = re.sub(r"cuda\.syncthreads_(count|or)\((\w+)\)", r"(yield \2)", body)
    body = re.sub(r"cuda\.ballot_sync\(\w+, (\w+)\)", r"(yield ('vote', \1))", body)
    space: dict[str, Any] = {}
    exec(body, space)
    code = space["kernel"].__code__
    for block in range(blocks):
        arrays: list[list[int]] = []
        running = []
        for thread in range(threads):
            cuda = _thread(block, thread, arrays)
            own = {"cuda": cuda, "int64": int, "int32": int, "ptx_memory": _MEMORY, "min": min, "max": max, "range": range}
            made = FunctionType(code, own)(*arguments)
            if made is not None:
                running.append(made)
        sent: list[Any] = [None] * len(running)
        while running:
            waiting = []
            for generator, value in zip(running, sent, strict=True):
                try:
                    waiting.append(generator.send(value))
                except StopIteration:
                    waiting.append(StopIteration)
            assert waiting.count(StopIteration) in (0, len(waiting)), "some threads wait at a barrier that others never reach"
            if StopIteration in waiting:
                break
            sent = _votes(waiting) if isinstance(waiting[0], tuple) else [sum(bool(w) for w in waiting)] * len(running)


def _votes(asked: list[tuple[str, int]]) -> list[int]:
    """For each thread the lanes of its warp that vote for something."""
    warps = [asked[thread // 32 * 32 : thread // 32 * 32 + 32] for thread in range(len(asked))]
    return [sum(1 << lane for lane, (_, vote) in enumerate(warp) if vote) for warp in warps]


def _thread(block: int, thread: int, arrays: list[list[int]]) -> Any:
    """`cuda` as one thread sees it; the arrays in shared memory are those of its block, in order."""
    seen = iter(range(100))

    def array(size: int, kind: Any) -> list[int]:
        number = next(seen)
        if number == len(arrays):
            arrays.append([0xDEAD] * (size or 4096))  # the memory that a launch gives is as large as it has to be
        return arrays[number]

    def add(to: list[int], place: int, value: int) -> None:
        to[place] += value

    return SimpleNamespace(
        threadIdx=SimpleNamespace(x=thread),
        blockIdx=SimpleNamespace(x=block),
        shared=SimpleNamespace(array=array),
        atomic=SimpleNamespace(add=add),
        popc=lambda bits: (bits & 0xFFFFFFFF).bit_count(),
    )
