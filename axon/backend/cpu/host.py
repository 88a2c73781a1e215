"""Programs on this machine's processor: calls on so little data that interpreting them is cheap are interpreted, others compiled.

Compiling takes a tenth of a second and more; interpreting an operation on a few numbers takes 50 microseconds. Both compute the
same up to the rounding that docs/core.md leaves open, so which it is must not depend on what was called before or how long that
took: a call's sizes and the program decide, and what asks for machine code (`target="cpu"`) always gets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, assert_never
from warnings import warn

from axon.base.names import Symbol
from axon.core.ir import Axis, Block, Check, Compress, Compute, Index, Loop, Op, Program, Scan, Sort

if TYPE_CHECKING:
    from axon.backend.cpu.executable import CpuExecutable
    from axon.backend.cpu.kept import CachePlace, Kept
    from axon.backend.cpu.run import Replay
    from axon.core.passes.orders import Order, OrderChoice

TINY = 20_000  # points of all operations of a call, which counts each operation for some: at most about 20 ms
OVERHEAD = 500  # points in whose time the interpreter prepares an operation
SIZES = 64  # of calls, of which it is kept what they compute, and in which orders; then they are forgotten, and asked again
MANY = 1_000_000  # points interpreted in all, about a second, after which it is said that machine code would be quicker


class Host:
    """A program, and what has been made of it: an executable for each order of its sums of products that the sizes of calls have
    asked for. Safe to call from several threads."""

    def __init__(self, program: Program, place: CachePlace | None = None, kept: Kept | None = None) -> None:
        """`place` is where what is made may be kept, and `kept` what was found there."""
        self.program = program
        self._place = place
        self._kept = kept
        self._executables: dict[Order, CpuExecutable] = {}
        self._lock = Lock()
        self._interpreted = 0.0  # points
        self._counted = 0  # functions, when it was last looked whether there is something to keep
        self._orders: dict[tuple[Any, ...], Order] = {}  # by sizes that were called with
        self._works: dict[tuple[Any, ...], float] = {}

    def __call__(self, inputs: Sequence[Any], explicit: Sequence[int] = (), *, compiled: bool = False) -> list[Any]:
        """The flat results for flat inputs, as fresh arrays. Raises what `interpret.run` raises."""
        if not compiled and (work := self._work(inputs, explicit)) <= TINY:
            from axon.backend.cpu.blas import one_thread
            from axon.interpret import run as interpret

            self._count(work)
            with one_thread():
                return interpret(self.program, inputs, explicit)
        from axon.backend.cpu.run import run

        results = run(self.executable(self._order(inputs, explicit)), inputs, explicit)
        self._keep()
        return results

    def replay(self, inputs: Sequence[Any], explicit: Sequence[int], *, compiled: bool) -> Replay | None:
        """How a call like one that has run is computed, where that follows from its sizes."""
        if not compiled and self._work(inputs, explicit) <= TINY:
            return None
        from axon.backend.cpu.run import replay

        return replay(self.executable(self._order(inputs, explicit)), inputs, explicit)

    def _keep(self) -> None:
        """Keep what was made, if there is more of it than was found or kept before."""
        if self._place is None:
            return
        count = sum(executable.count for executable in list(self._executables.values()))  # another thread may add one meanwhile
        if count == self._counted:
            return
        with self._lock:
            self._counted = count
            made = [executable.made for executable in self._executables.values()]
            before = self._kept.made if self._kept is not None else ()
            if all(any(one is other for other in before) for one in made):
                return
            from axon.backend.cpu.kept import Kept, keep

            orders = {one.order for one in made}
            self._kept = Kept(self.program, self._choices, (*made, *(one for one in before if one.order not in orders)))
            keep(self._place, self._kept)

    @cached_property
    def _choices(self) -> tuple[OrderChoice, ...]:
        if self._kept is not None:
            return self._kept.choices
        from axon.backend.cpu.plan import choices_of

        return choices_of(self.program)

    def _order(self, inputs: Sequence[Any], explicit: Sequence[int]) -> Order:
        """That of sums of products for these sizes. It follows from them alone, not from what was called before."""
        if not self._choices:
            return ()
        sizes = (*explicit, *[array.shape for array in inputs])
        order = self._orders.get(sizes)
        if order is None:
            from axon.core.passes.orders import order_at

            if len(self._orders) >= SIZES:
                self._orders.clear()
            order = order_at(self._choices, self.program.contract.bind(explicit, sizes[len(explicit) :]))
            self._orders[sizes] = order
        return order

    def executable(self, order: Order = ()) -> CpuExecutable:
        with self._lock:
            if order not in self._executables:
                from axon.backend.cpu.executable import CpuExecutable

                kept = self._kept.made if self._kept is not None else ()
                made = next((one for one in kept if one.order == order), None)
                self._executables[order] = CpuExecutable(self.program, order, made)
            return self._executables[order]

    def _work(self, inputs: Sequence[Any], explicit: Sequence[int]) -> float:
        """The points that a call computes, as far as its sizes tell; infinity for more than TINY numbers."""
        if sum(array.size for array in inputs) > TINY:
            return inf
        sizes = (*explicit, *[array.shape for array in inputs])
        work = self._works.get(sizes)
        if work is None:
            if len(self._works) >= SIZES:
                self._works.clear()
            work = _work(self.program.block, self.program.contract.bind(explicit, sizes[len(explicit) :]))
            self._works[sizes] = work
        return work

    def _count(self, work: float) -> None:
        """Say once that many calls on little data are interpreted: what a call computes does not depend on how many there were."""
        before, self._interpreted = self._interpreted, self._interpreted + work
        if before <= MANY < self._interpreted:
            text = f"calls of `{self.program.name}` on little data are interpreted, which has taken about a second in all"
            warn(f'{text}: target="cpu" compiles it once, and takes about 0.1 ms a call', RuntimeWarning, stacklevel=2)


def _work(block: Block, dims: Mapping[Symbol, int]) -> float:
    return sum(OVERHEAD / 10 + _points(op, dims) for op in block.ops)


def _points(op: Op, dims: Mapping[Symbol, int]) -> float:
    """About how many points an operation computes; infinity where the sizes do not tell."""
    try:
        match op:
            case Compute(axes=axes, reduction=reduction):
                return _product((*axes, *(reduction.axes if reduction else ())), dims)
            case Scan(axes=axes):
                return _product(axes, dims)
            case Loop(trip=Index(dim=dim), body=body, counter=counter):
                return max(0, dim.evaluate(dims)) * (OVERHEAD + _work(body, {**dims, counter: 0}))
            case Loop():
                return inf
            case Sort(values=values):
                return _product(tuple(Axis(values.symbol, extent) for extent in values.shape), dims)
            case Compress() | Check():
                return 0
            case _:
                assert_never(op)
    except (KeyError, ZeroDivisionError):  # a size that only the data decide
        return TINY / 4


def _product(axes: tuple[Axis, ...], dims: Mapping[Symbol, int]) -> float:
    bounds = dict(dims)
    total = 1.0
    for axis in axes:
        bounds[axis.symbol] = max(0, axis.extent.evaluate(bounds))
        total *= bounds[axis.symbol]
    return total
