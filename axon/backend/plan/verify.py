"""The rules of plans, checked after every pass that makes one.

Beside the rules in `plan`'s docstring, the operations in kernels are held to the rules of core: what they read is there, with its
rank and element type, and each symbol that they mention is in scope. One rule is weaker than in core: kernels share the axes of
their rows, so an axis or a `let` is introduced again once it is out of scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import assert_never

from axon.backend.plan.ir import Contraction, Kernel, Kernels, Nest, Plan, Repeat, Slices, Whole, reads_of, writes_of
from axon.base.data import replace
from axon.base.names import Symbol
from axon.base.passes import FormInvalid
from axon.core.ir import Block, Compute, Loop, Program, Read, Scan, Value
from axon.core.verify import Scope, unchanged
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim


class PlanInvalid(FormInvalid):
    """A plan breaks a rule of its form: a defect of the pass that made it."""


def verify_plan(plan: Plan) -> None:
    """Check the rules above; PlanInvalid names the one that is broken."""
    _planned(plan, plan.program)


def verify_fused(made: Plan, given: Program, *_: object) -> None:
    """What `fuse` makes of a program: a plan that gives what the program gives."""
    _planned(made, given)


def verify_replanned(made: Plan, given: Plan) -> None:
    """What a pass makes of a plan: one of the same program."""
    if made.program is not given.program:
        raise PlanInvalid("the pass has changed the program of the plan")
    if made.body.results != given.body.results or not unchanged(made.body.kernels, given.body.kernels):
        _planned(made, given.program)


def verify_deaths(made: Sequence[Set[Symbol]], kernels: Kernels) -> None:
    """What is freed after each kernel is not read, given or made by one behind it."""
    if len(made) != len(kernels.kernels):
        raise PlanInvalid("not every kernel says what dies with it")
    dead: set[Symbol] = set()
    for kernel, dying in zip(kernels.kernels, made, strict=True):
        late = dead & {*reads_of(kernel), *writes_of(kernel)}
        if late:
            raise PlanInvalid(f"{listed(late)} is freed before its last use")
        dead |= dying
    if not dead.isdisjoint(kernels.results):
        raise PlanInvalid(f"the result {listed(dead.intersection(kernels.results))} is freed")


def listed(symbols: Iterable[Symbol]) -> str:
    return ", ".join(sorted(map(repr, symbols)))


def _planned(plan: Plan, given: Program) -> None:
    scope = PlanScope(given)
    scope.outside()
    scope.kernels(plan.body)
    scope.gives(plan.body.results, given)


class PlanScope(Scope):
    """`tensors` are those that stand in memory, and inside a kernel what it has made so far."""

    invalid = PlanInvalid

    def introduce(self, symbol: Symbol) -> None:
        if symbol in self.dims or symbol in self.locals:
            self.fail(f"{symbol!r} is defined while it is in scope")

    def tensor(self, symbol: Symbol) -> Value:
        if symbol not in self.tensors and self.op is None:
            self.fail(f"a result is not stored: {symbol!r}")
        if symbol not in self.tensors:
            self.fail(f"a kernel reads {symbol!r}, which nothing before it stores")
        return self.tensors[symbol]

    # ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def kernels(self, kernels: Kernels) -> None:
        for kernel in kernels.kernels:
            self.kernel(kernel)
        self.op = None
        for symbol in kernels.results:
            self.tensor(symbol)

    def kernel(self, kernel: Kernel) -> None:
        match kernel:
            case Nest(steps=steps, stored=stored):
                self.nest(kernel)
                self.keep(steps, stored)
            case Contraction(op=op, epilogue=epilogue, stored=stored):
                self.contraction(kernel)
                self.keep((op, *epilogue), stored)
            case Repeat(op=op, body=body):
                self.inside = body
                self.op = op
                self.operation(replace(op, body=Block((), body.results)))
            case Whole(op=whole):
                self.op = whole
                self.operation(whole)
            case _:
                assert_never(kernel)

    def step(self, op: Loop) -> None:
        self.require(len(op.body.results) == len(op.states), "a step does not give every state")
        self.kernels(self.inside)

    def nest(self, nest: Nest) -> None:
        rows = tuple([axis.symbol for axis in nest.rows])
        made: set[Symbol] = set()
        slices = nest.slices
        later = {out.symbol for step in nest.steps for out in step.outs}
        for step in nest.steps:
            self.op = step
            self.require(step.axes[: len(rows)] == nest.rows, "a step does not begin with the rows")
            self.require(not isinstance(step, Scan) or len(step.axes) > len(rows), "a scan runs along a row axis")
            for scalar in scalars(step):
                for read in nodes(scalar):
                    if isinstance(read, Read) and read.tensor in later:
                        self.row(read, rows, made, slices)
            self.block(Block((step if slices is None else self.of_slices(step, nest, slices),), ()))
            self.tensors.update([(out.symbol, out) for out in step.outs])
            made.update([out.symbol for out in step.outs])

    def of_slices(self, step: Compute | Scan, nest: Nest, slices: Slices) -> Compute | Scan:
        """A step of slices as one whose results are these. See Note [Slices]."""
        self.require(len(step.axes) == len(nest.rows) + 1, "a step does not go through a slice")
        self.require(not isinstance(step, Compute) or step.reduction is None, "a step reduces a slice")
        axes = (*nest.rows, replace(step.axes[-1], extent=Dim.of(1)))
        self.dims.update([axis.symbol for axis in step.axes])
        for dim in (step.axes[-1].extent, *slices.place):
            self.dim(dim)
        before = dict(slices.before).get(step.outs[0].symbol, ())
        for read in before:
            self.read(read)
        self.leave(step.axes)
        if isinstance(step, Scan):
            self.require(slices.part in {axis.symbol for axis in nest.rows}, "no axis numbers the slices")
            self.require(len(before) == len(step.outs), "what stands before a slice has other states than the scan")
        self.require(all(len(out.shape) == len(slices.place) for out in step.outs), "a place in a row has other dimensions")
        outs = tuple([replace(out, shape=tuple([axis.extent for axis in axes])) for out in step.outs])
        return replace(step, axes=axes, outs=outs)

    def row(self, read: Read, rows: tuple[Symbol, ...], made: set[Symbol], slices: Slices | None) -> None:
        if read.tensor not in made:
            self.fail(f"{read.tensor!r} is read before it is made")
        if slices is not None:
            self.require(read.subscripts == slices.place, f"{read.tensor!r} is read at another place of a slice")
            return
        if tuple([s.symbol if isinstance(s, Dim) else None for s in read.subscripts[: len(rows)]]) != rows:
            self.fail(f"{read.tensor!r} is read at another row")

    def contraction(self, kernel: Contraction) -> None:
        op, axes = kernel.op, {axis.symbol for axis in kernel.op.axes}
        self.op = op
        self.require(all(s.reduction is None for s in kernel.epilogue), "an epilogue reduces")
        self.require(all({a.symbol for a in s.axes} == axes for s in kernel.epilogue), "an epilogue has other axes")
        named = [axis.symbol for axis in (*kernel.batch, *kernel.rows, *kernel.columns)]
        self.require(sorted(s.id for s in named) == sorted(s.id for s in axes), "the axes of a product are not those of its result")
        over = op.reduction.axes if op.reduction else ()
        self.require(set(kernel.depth) == set(over), "the depth of a product is not what is summed over")
        self.dims.update(axes, [axis.symbol for axis in kernel.depth])
        for operand in (kernel.left, kernel.right):
            self.read(operand.read)
        self.leave((*op.axes, *kernel.depth))
        self.block(Block((op, *kernel.epilogue), ()))

    def keep(self, steps: Sequence[Compute | Scan], stored: tuple[Symbol, ...]) -> None:
        """After a kernel only what it stores is there."""
        made = {out.symbol for step in steps for out in step.outs}
        if not made.issuperset(stored):
            self.fail(f"what is stored is not made: {listed(set(stored) - made)}")
        for symbol in made.difference(stored):
            del self.tensors[symbol]
