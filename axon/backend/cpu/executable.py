"""A program's plan and the functions of its kernels: what `run` runs, for all sizes of its arguments."""

from __future__ import annotations

from threading import Lock

from axon.backend.cpu import build, loops, nests, scatters
from axon.backend.cpu.function import Function, TensorParameter
from axon.backend.cpu.plan import planned
from axon.backend.cpu.products import Products, is_window, is_with_vector
from axon.backend.plan.deaths import lives_of
from axon.backend.plan.ir import Contraction, Kernels, Nest, Repeat, as_program, operations, values_in
from axon.backend.plan.lanes import strides
from axon.backend.plan.walk import Lives
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.core.ir import Program, Value
from axon.core.passes.factor import DEFAULT, Order
from axon.core.passes.tables import values_of
from axon.core.printer import print_op


@dataclass(slots=True)
class Compiled:
    """A nest's function, and its machine code from the first launch on."""

    function: Function
    source: build.Source
    native: build.Native | None = None


class CpuExecutable:
    """A program's plan with its functions; each is compiled when it is first launched. Several threads may share it."""

    def __init__(self, program: Program, order: Order = DEFAULT) -> None:
        """`order` is that of sums of products in whose order sizes decide (see `choices`)."""
        self.plan, tables = planned(program, order)
        self.tables = values_of(tables)
        self.program = program
        self.values = values_in(self.plan)
        self.lock = Lock()
        self._lives: IdentityMap[Kernels, Lives] = IdentityMap()
        self.compiled: IdentityMap[Nest, Compiled] = IdentityMap()
        self.products: IdentityMap[Contraction, tuple[Products, Compiled | None]] = IdentityMap()
        self.loops: IdentityMap[Repeat, NativeLoop | str] = IdentityMap()  # a text says why a loop has no function

    def lives(self, kernels: Kernels) -> Lives:
        found = self._lives.get(kernels)
        if found is None:
            found = self._lives[kernels] = lives_of(kernels)
        return found

    def function(self, nest: Nest) -> Compiled:
        with self.lock:
            found = self.compiled.get(nest)
            if found is None:
                found = self.compiled[nest] = self._write(nest)
            return found

    def product(self, kernel: Contraction) -> tuple[Products, Compiled | None]:
        """A contraction through BLAS, and as a nest, if it may be one."""
        with self.lock:
            found = self.products.get(kernel)
            if found is None:
                nest = self._write(loops.as_nest(kernel)) if _may_be_nest(kernel) else None
                found = self.products[kernel] = Products(kernel, nest is not None), nest
            return found

    def loop(self, kernel: Repeat) -> NativeLoop | str:
        """A loop's function, or why the host steps it."""
        with self.lock:
            found = self.loops.get(kernel)
            if found is None:
                found = self.loops[kernel] = self._write_loop(kernel)
            return found

    def _write_loop(self, kernel: Repeat) -> NativeLoop | str:
        program = as_program(self.plan)
        written = loops.write(kernel, self.values, "loop", print_op(program, kernel.op).splitlines())
        if isinstance(written, str):
            return written
        elements = {symbol: value.element for symbol, value in self.values.items()} | {v.symbol: v.element for v in written.made}
        helpers = tuple(name for name, _ in written.helpers)
        source = build.source_of(written.function, lambda parameter: elements[parameter.tensor], helpers)
        return NativeLoop(Compiled(written.function, source), written.made, written.progress)

    def _element(self, parameter: TensorParameter) -> Element:
        return self.values[parameter.tensor].element

    def _write(self, nest: Nest) -> Compiled:
        name = f"kernel_{'_'.join(symbol.name for symbol in nest.stored) or 'nothing'}"
        name = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
        program = as_program(self.plan)
        comments = [line for op in operations(nest) for line in print_op(program, op).splitlines()]
        write = scatters.write if nest.family == "scatter" else nests.write
        function = write(nest, self.values, name, comments)
        return Compiled(function, build.source_of(function, self._element))


def _may_be_nest(kernel: Contraction) -> bool:
    """A contraction over a window, or with a vector, if what it reads lies side by side along an axis: then that is vectorized."""
    inner = (*kernel.op.axes[-1:], kernel.depth[-1])
    return (is_window(kernel) or is_with_vector(kernel)) and not all(strides(kernel.op, axis) for axis in inner)


@dataclass(frozen=True, slots=True)
class NativeLoop:
    """A loop's function, and the tensors to allocate for it; `progress` is one of them."""

    compiled: Compiled
    made: tuple[Value, ...]
    progress: Value
