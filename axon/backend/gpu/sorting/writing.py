"""Writing kernels that move elements and never compute with them, as the Python that numba-cuda compiles.

Elements are bits, loaded into i64 and stored from there. Indices are i64, and element counts below 2³¹ a row.
"""

from __future__ import annotations

from axon.backend.gpu.build.recipe import Plain
from axon.backend.gpu.emit.source import Parameter, StrideParameter, emitted
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Expression, External, Import, Like, Module, Name, both, call
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.base.names import Symbol
from axon.shapes.dimension import Dim

_IMPORTS = (
    (Import("numba", ("cuda", "int32", "int64")),),
    (Import("axon.backend.gpu.intrinsics", ("ptx_memory",)),),
)
THREAD, BLOCK = External("cuda.threadIdx.x"), External("cuda.blockIdx.x")


def i32(value: Like) -> Expression:
    return call("int32", value)


def i64(value: Like) -> Expression:
    return call("int64", value)


class KernelCode(Code):
    """A kernel being written; parameters are called as what they stand for."""

    def __init__(self, *parameters: Parameter) -> None:
        super().__init__()
        self.parameters = {parameter: self.local(called(parameter)) for parameter in parameters}

    def pointer(self, tensor: Symbol) -> Name:
        return self.parameters[PointerParameter(tensor)]

    def stride(self, tensor: Symbol, dimension: int) -> Name:
        return self.parameters[StrideParameter(tensor, dimension)]

    def extent(self, symbol: Symbol) -> Name:
        return self.parameters[ExtentParameter(Dim.of(symbol))]

    def set(self, name: str, value: Like, note: str = "") -> Name:
        """A variable of this name with a value: it may have had another."""
        self.assign(self.local(name), value, note)
        return self.local(name)

    def shared(self, name: str, size: int, element: str) -> Name:
        return self.set(name, call("cuda.shared.array", size, External(element)))

    def wait(self) -> None:
        """For the other threads of the block."""
        self.call("cuda.syncthreads")

    def store(self, bits: int, tensor: Symbol, at: Expression | None, value: Expression) -> None:
        """At a place that counts elements, or at the first."""
        place = self.pointer(tensor) if at is None else self.pointer(tensor) + at * (bits // 8)
        self.call(f"ptx_memory.store_{bits}", place, value)

    def load(self, bits: int, tensor: Symbol, at: Expression) -> Expression:
        return load(bits, self.pointer(tensor) + at * (bits // 8))

    def plain(self, what: str, threads: int, shared: int = 0, resident: int = 1) -> Plain:
        """The kernel as it is built: `shared` are bytes of the memory that is given at the launch; a multiprocessor must have
        registers for so many blocks that are `resident`, though it spills."""
        function = self.function("kernel", tuple(self.parameters.values()), what)
        return Plain(emitted(Module(_IMPORTS, (function,)), self.parameters, threads, 1, shared, resident), spills=resident > 1)


def load(bits: int, address: Expression) -> Expression:
    return call(f"ptx_memory.load_{bits}", address)


def called(parameter: Parameter) -> str:
    match parameter:
        case PointerParameter(tensor=tensor):
            return tensor.name
        case StrideParameter(dimension=dimension):
            return f"stride{dimension}"
        case ExtentParameter(size=size):
            assert size.symbol is not None
            return size.symbol.name
        case _:
            raise AssertionError(f"no kernel here has {parameter}")


def pointers(*tensors: Symbol) -> list[Parameter]:
    return [PointerParameter(tensor) for tensor in tensors]


def extents(*symbols: Symbol) -> list[Parameter]:
    return [ExtentParameter(Dim.of(symbol)) for symbol in symbols]


def running(code: KernelCode, sums: Name, thread: Name, count: int, threads: int, first: int = 0) -> None:
    """Running sums of what the first `count` threads of a block put into shared memory, from `first` on, each over twice as many
    (Hillis and Steele 1986). All threads wait."""
    some = thread < count if count < threads else None
    step, other = code.set("step", 1), code.local("other")
    with code.repeat(step < count):
        code.assign(other, i64(0))
        with code.when(thread >= step if some is None else both(some, thread >= step)):
            code.assign(other, i64(sums[first + thread - step]))
        code.wait()
        with code.when(thread >= step if some is None else both(some, thread >= step)):
            code.assign(sums[first + thread], sums[first + thread] + other)
        code.wait()
        code.assign(step, step * 2)
