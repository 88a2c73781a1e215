"""A program's plan and the functions of its kernels: what `run` runs, for all sizes of its arguments.

What plans and what writes functions is imported where there is something to plan or to write: nothing, if all was kept (`kept`).
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any, TypeVar

from axon.backend.cpu import build
from axon.backend.cpu.function import Function, LoopFunction
from axon.backend.cpu.products import Products, is_window, is_with_vector
from axon.backend.kernel.parameters import PointerParameter
from axon.backend.plan.deaths import lives_of
from axon.backend.plan.ir import Contraction, Kernels, Nest, Plan, Repeat, as_program, operations, values_in
from axon.backend.plan.walk import Lives
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Compute, Program
from axon.core.passes.orders import DEFAULT, Order

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class WrittenProgram:
    """What was made of a program for an order of its sums, and the functions that were written for it so far."""

    order: Order
    plan: Plan
    tables: tuple[Compute, ...]
    nests: tuple[tuple[Nest, Function], ...] = ()
    products: tuple[tuple[Contraction, Function], ...] = ()
    loops: tuple[tuple[Repeat, LoopFunction | str], ...] = ()


@dataclass(slots=True)
class Compiled:
    """A nest's function, and its machine code from the first launch on."""

    function: Function
    source: build.ModuleSource
    native: build.Native | None = None


class CpuExecutable:
    """A program's plan with its functions; each is compiled when it is first launched. Several threads may share it."""

    def __init__(self, program: Program, order: Order = DEFAULT, made: WrittenProgram | None = None) -> None:
        """`order` is that of sums of products in whose order sizes decide (see `choices`); `made` is what was kept for it."""
        if made is None:
            from axon.backend.cpu.plan import planned

            made = WrittenProgram(order, *planned(program, order))
        self.plan = made.plan
        self.program = program
        self.values = values_in(self.plan)
        self.tables: dict[Symbol, Any] = {}
        if made.tables:
            from axon.core.passes.tables import values_of

            self.tables = values_of(made.tables)
        self.lock = Lock()
        self._made = made
        self._lives: IdentityMap[Kernels, Lives] = IdentityMap()
        self.compiled = IdentityMap((nest, self._compiled(function)) for nest, function in made.nests)
        self.products: IdentityMap[Contraction, tuple[Products, Compiled | None]] = IdentityMap(
            (kernel, (Products(kernel, True), self._compiled(function))) for kernel, function in made.products
        )
        # A text says why a loop has no function.
        self.loops = IdentityMap((kernel, self._native(loop)) for kernel, loop in made.loops)

    @property
    def count(self) -> int:
        """How many kernels have run: as long as it stays, so does what is `made`."""
        return len(self.compiled) + len(self.products) + len(self.loops)

    @property
    def made(self) -> WrittenProgram:
        """What is worth keeping, with the functions that were written in the meantime; the same as long as there are none."""
        with self.lock:
            before = self._made
            products = [(kernel, nest) for kernel, (_, nest) in self.products.items() if nest is not None]
            parts = ((before.nests, self.compiled), (before.products, products), (before.loops, self.loops))
            if any(len(had) != len(have) for had, have in parts):
                loops = ((kernel, loop if isinstance(loop, str) else loop.written) for kernel, loop in self.loops.items())
                self._made = replace(
                    before, nests=_functions(self.compiled.items()), products=_functions(products), loops=tuple(loops)
                )
            return self._made

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
                nest = None
                if may_be_nest(kernel):
                    from axon.backend.cpu.loops import as_nest

                    nest = self._write(as_nest(kernel))
                found = self.products[kernel] = Products(kernel, nest is not None), nest
            return found

    def loop(self, kernel: Repeat) -> NativeLoop | str:
        """A loop's function, or why the host steps it."""
        with self.lock:
            found = self.loops.get(kernel)
            if found is None:
                from axon.backend.cpu.loops import write
                from axon.core.printer import print_op

                lines = print_op(as_program(self.plan), kernel.op).splitlines()
                found = self.loops[kernel] = self._native(write(kernel, self.values, "loop", lines))
            return found

    def _native(self, written: LoopFunction | str) -> NativeLoop | str:
        if isinstance(written, str):
            return written
        elements = {symbol: value.element for symbol, value in self.values.items()} | {v.symbol: v.element for v in written.made}
        helpers = tuple(name for name, _ in written.helpers)
        source = build.source_of(written.function, lambda parameter: elements[parameter.tensor], helpers)
        return NativeLoop(Compiled(written.function, source), written)

    def _element(self, parameter: PointerParameter) -> Element:
        return self.values[parameter.tensor].element

    def _compiled(self, function: Function) -> Compiled:
        return Compiled(function, build.source_of(function, self._element))

    def _write(self, nest: Nest) -> Compiled:
        from axon.backend.cpu import nests, scatters
        from axon.core.printer import print_op

        name = f"kernel_{'_'.join(symbol.name for symbol in nest.stored) or 'nothing'}"
        name = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
        program = as_program(self.plan)
        comments = [line for op in operations(nest) for line in print_op(program, op).splitlines()]
        write = scatters.write if nest.family == "scatter" else nests.write
        return self._compiled(write(nest, self.values, name, comments))


def _functions(compiled: Iterable[tuple[K, Compiled]]) -> tuple[tuple[K, Function], ...]:
    return tuple((kernel, found.function) for kernel, found in compiled)


def may_be_nest(kernel: Contraction) -> bool:
    """A contraction over a window, or with a vector, if what it reads lies side by side along an axis: then that is vectorized."""
    from axon.backend.plan.lanes import strides

    inner = (*kernel.op.axes[-1:], kernel.depth[-1])
    return (is_window(kernel) or is_with_vector(kernel)) and not all(strides(kernel.op, axis) for axis in inner)


@dataclass(frozen=True, slots=True)
class NativeLoop:
    """A loop's function, and with what it was written."""

    compiled: Compiled
    written: LoopFunction
