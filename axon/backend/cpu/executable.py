"""A program's plan and the functions of its kernels: what `run` runs, for all sizes of its arguments.

What plans and what writes functions is imported where there is something to plan or to write: nothing, if all was kept (`kept`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any, TypeVar

from axon.backend.cpu import build
from axon.backend.cpu.function import Function, LoopFunction, WorkAmount, work
from axon.backend.cpu.launch import Launch, asked, launch_of
from axon.backend.cpu.pooling import Pooled, Pooling
from axon.backend.cpu.products import Products, is_window, is_with_vector
from axon.backend.cpu.remainders import Remainders, divided
from axon.backend.cpu.straight import is_straight, together
from axon.backend.cpu.sums import Summing, Sums
from axon.backend.cpu.threads import WORTH_SHARING
from axon.backend.kernel.parameters import PointerParameter
from axon.backend.plan.deaths import lives_of
from axon.backend.plan.independent import Independent, independent
from axon.backend.plan.ir import (
    Contraction,
    Kernel,
    Kernels,
    Nest,
    Plan,
    Repeat,
    as_program,
    kernels_in,
    operations,
    values_in,
    values_of,
)
from axon.backend.plan.numbered import AtSizes
from axon.backend.plan.reshapes import reshapes
from axon.backend.plan.settled import conditions, decided, settled, without_failures
from axon.backend.plan.walk import Lives
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Compute, Program, Scalar, Value
from axon.core.passes.orders import DEFAULT, Order
from axon.core.passes.parts import as_size
from axon.core.scalar_facts import at_least_0

K = TypeVar("K")
SMALL = WORTH_SHARING  # additions of a kernel that no second thread would take a part of
SMALL_PRODUCT = 100_000  # additions of a product as machine code, in whose time BLAS is called from Python
SMALL_WINDOW = 5_000  # the same of a window, in whose time copies and tables of tiles are asked for
MOST = 64  # launches of a function that are kept; then they are forgotten, and made anew


@dataclass(frozen=True, slots=True)
class WrittenProgram:
    """What was made of a program for an order of its sums, and the functions that were written for it so far."""

    order: Order
    plan: Plan
    tables: tuple[Compute, ...]
    nests: tuple[tuple[Nest, Function], ...] = ()
    products: tuple[tuple[Contraction, Function], ...] = ()
    loops: tuple[tuple[Repeat, LoopFunction | str], ...] = ()
    bodies: tuple[tuple[tuple[bool, ...], Kernels], ...] = ()  # what calls run at which those kernels are small


class Compiled:
    """A nest's function, and its machine code from the first launch on; and its launches at sizes that calls had."""

    def __init__(self, function: Function, source: build.ModuleSource) -> None:
        self.function, self.source = function, source
        self.native: build.Native | None = None
        self._asked = asked(function)
        self._launches: dict[tuple[int, ...], Launch] = {}

    def at(self, sizes: Mapping[Symbol, int], threads: int) -> Launch:
        key = (threads, *[sizes[symbol] for symbol in self._asked])
        found = self._launches.get(key)
        if found is None:
            if len(self._launches) >= MOST:
                self._launches.clear()
            found = self._launches[key] = launch_of(self.function, sizes, threads)
        return found


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
        self._reshapes: IdentityMap[Kernels, dict[Symbol, Value]] = IdentityMap()
        self.compiled = IdentityMap((nest, self._compiled(function)) for nest, function in made.nests)
        self.products: IdentityMap[Contraction, tuple[Products, Compiled | None]] = IdentityMap(
            (kernel, (Products(kernel, True), self._compiled(function))) for kernel, function in made.products
        )
        self._sizes = frozenset(program.explicit).union(*(dim.variables for value in program.inputs for dim in value.shape))
        self._shapes: dict[tuple[int, ...], dict[Symbol, tuple[int, ...]]] = {}
        self._scalars = {
            out.symbol: body
            for kernel in self.plan.body.kernels
            if isinstance(kernel, Nest)
            for step in kernel.steps
            if isinstance(step, Compute) and not step.axes and step.reduction is None
            for out, body in zip(step.outs, step.body, strict=True)
        }
        self._work: IdentityMap[Kernel, WorkAmount | None] = IdentityMap()
        self._bodies: dict[tuple[int, ...], Kernels] = {}
        self._together = dict(made.bodies)
        self._conditions: tuple[Scalar, ...] | None = None  # until a call asks
        self._settled: dict[tuple[bool, ...], Kernels] = {}
        self._divided: IdentityMap[Nest, AtSizes[Remainders]] = IdentityMap()
        self._pooled: IdentityMap[Nest, Pooled] = IdentityMap()
        self._sums: IdentityMap[Nest, Sums] = IdentityMap()
        self._rests: IdentityMap[Nest, Compiled] = IdentityMap()  # written in each process: they are no part of the plan
        self._independent: IdentityMap[Repeat, Independent | None] = IdentityMap()
        # A text says why a loop has no function.
        self.loops = IdentityMap((kernel, self._native(loop)) for kernel, loop in made.loops)

    @property
    def count(self) -> int:
        """How many kernels have run: as long as it stays, so does what is `made`."""
        return len(self.compiled) + len(self.products) + len(self.loops) + len(self._together)

    @property
    def made(self) -> WrittenProgram:
        """What is worth keeping, with the functions that were written in the meantime; the same as long as there are none."""
        with self.lock:
            before = self._made
            products = [(kernel, nest) for kernel, (_, nest) in self.products.items() if nest is not None]
            bodies = (before.bodies, self._together)
            parts = ((before.nests, self.compiled), (before.products, products), (before.loops, self.loops), bodies)
            if any(len(had) != len(have) for had, have in parts):
                loops = ((kernel, loop if isinstance(loop, str) else loop.written) for kernel, loop in self.loops.items())
                self._made = replace(
                    before,
                    nests=_functions(self.compiled.items()),
                    products=_functions(products),
                    loops=tuple(loops),
                    bodies=tuple(self._together.items()),
                )
            return self._made

    def shapes(self, dims: Mapping[Symbol, int]) -> dict[Symbol, tuple[int, ...]]:
        """The shapes of what calls of these sizes make, as far as they have asked for them."""
        if len(self._shapes) >= MOST:
            self._shapes.clear()
        return self._shapes.setdefault(tuple(dims.values()), {})

    def body(self, dims: Mapping[Symbol, int]) -> Kernels:
        """What a call of these sizes runs: the plan's kernels, of which small ones that follow each other are one."""
        sizes = tuple(dims.values())
        found = self._bodies.get(sizes)
        if found is None:
            answers, chosen = self._chosen(dims)
            small = (*answers, *(self._is_small(kernel, dims) for kernel in chosen.kernels))
            with self.lock:
                found = self._together.get(small)
                if found is None:
                    found = self._together[small] = together(chosen, small[len(answers) :])
                if len(self._bodies) >= MOST:
                    self._bodies.clear()
                self._bodies[sizes] = found
        return found

    def _chosen(self, dims: Mapping[Symbol, int]) -> tuple[tuple[bool, ...], Kernels]:
        """The plan's kernels, with what conditions of sizes choose; and what of the sizes that follows from."""
        body = self.plan.body
        if self._conditions is None:
            self._conditions = conditions(body, self._sizes)
        if not self._conditions:
            return (), body
        answers = tuple(decided(condition, dims) for condition in self._conditions)
        droppable = tuple(without_failures(kernel, dims) for kernel in body.kernels)
        key = (*(answer is True for answer in answers), *(answer is False for answer in answers), *droppable)
        with self.lock:
            if key not in self._settled:
                self._settled[key] = settled(body, dict(zip(self._conditions, answers, strict=True)), droppable)
            return key, self._settled[key]

    def _is_small(self, kernel: Kernel, dims: Mapping[Symbol, int]) -> bool:
        """Whether one thread computes a kernel alone, and a product in less time than it takes to ask BLAS for it; not what is
        arranged at these sizes."""
        if kernel not in self._work:
            self._work[kernel] = _work_of(kernel, self._scalars)
        cost = self._work[kernel]
        if cost is None or not cost.variables <= self._sizes or not all(map(self.is_settled, values_of(kernel))):
            return False
        if isinstance(kernel, Contraction):
            limit = SMALL_WINDOW if is_window(kernel) else SMALL_PRODUCT
        else:
            limit = SMALL
        if cost.evaluate(dims) >= limit:
            return False
        return not isinstance(kernel, Nest) or self.summing(kernel, dims) is None

    def is_settled(self, value: Value) -> bool:
        """Whether a value's shape follows from the sizes of a call, and neither from data nor from the number of a step."""
        return all(dim.variables <= self._sizes for dim in value.shape)

    def reshapes(self, kernels: Kernels) -> dict[Symbol, Value]:
        found = self._reshapes.get(kernels)
        if found is None:
            made = ((kernel, values_of(kernel)) for kernel in kernels.kernels)
            found = self._reshapes[kernels] = reshapes(made, kernels.results)
        return found

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

    def remainders(self, nest: Nest, dims: Mapping[Symbol, int]) -> Remainders | None:
        """A nest as products, one for each remainder of indices that it divides; None if it is none such at these sizes."""
        found = self._divided.get(nest)
        if found is None:
            found = self._divided[nest] = divided(nest)
        return found.at(dims)

    def pooling(self, nest: Nest, dims: Mapping[Symbol, int]) -> Pooling | None:
        """A nest as a reduction over windows; None if it is none such at these sizes."""
        found = self._pooled.get(nest)
        if found is None:
            found = self._pooled[nest] = Pooled(nest)
        return found.at(dims)

    def summing(self, nest: Nest, dims: Mapping[Symbol, int]) -> Summing | None:
        """A nest as sums of products whose loops suit these sizes; None if it is none such."""
        found = self._sums.get(nest)
        if found is None:
            found = self._sums[nest] = Sums(nest, self.values)
        return found.at(dims)

    def after_pooling(self, nest: Nest) -> Compiled | None:
        """What computes the rest of a nest of the reduction over windows that it begins with."""
        rest = self._pooled[nest].rest
        if rest is None:
            return None
        with self.lock:
            found = self._rests.get(rest)
            if found is None:
                found = self._rests[rest] = self._write(rest)
            return found

    def loop(self, kernel: Repeat) -> NativeLoop | str:
        """A loop's function, or why the host steps it."""
        with self.lock:
            found = self.loops.get(kernel)
            if found is None:
                from axon.backend.cpu.loops import write
                from axon.core.printer import print_op

                lines = [] if is_straight(kernel) else print_op(as_program(self.plan), kernel.op).splitlines()
                found = self.loops[kernel] = self._native(write(kernel, self.values, "loop", lines))
            return found

    def independent(self, kernel: Repeat) -> Independent | None:
        """What threads may share a loop by."""
        if kernel not in self._independent:
            self._independent[kernel] = independent(kernel, self.values)
        return self._independent[kernel]

    def products_work(self, kernel: Repeat) -> WorkAmount:
        """How many additions the products in a step of a loop take, those of loops inside once."""
        found = (inner for inner in kernels_in(kernel.body) if isinstance(inner, Contraction))
        return sum((work((inner.op, *inner.epilogue))[0] for inner in found), WorkAmount.of(0))

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


def _work_of(kernel: Kernel, scalars: Mapping[Symbol, Scalar]) -> WorkAmount | None:
    """About how many additions a kernel takes as machine code; None where that is not known before, or it has none. `scalars` are
    tensors of rank 0, of which some say how often a loop runs."""
    match kernel:
        case Nest(steps=steps):
            return work(steps)[0]
        case Contraction(op=op, epilogue=epilogue):
            return work((op, *epilogue))[0]
        case Repeat(op=op, body=body) if (trip := as_size(op.trip, scalars)) is not None:
            total = WorkAmount.of(1)
            for inner in body.kernels:
                one = _work_of(inner, scalars)
                if one is None or op.counter in one.variables:
                    return None
                total = total + one
            return total * at_least_0(trip)
        case _:
            return None


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
