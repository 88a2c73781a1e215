"""What kernels of products share: operands, results, and the pointwise operations on results that are taken in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from axon.backend.scalars import obstacle
from axon.backend.unsupported import Unsupported
from axon.core import Axis, Compute, Local, Read, Scalar, Value
from axon.core_walk import nodes, reads, rename, rewrite
from axon.names import Symbol
from axon.shapes.dimension import Dim
from axon.source import Span


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor and the axes at which its dimensions are read, in the order in which they lie in memory, the contiguous one last.

    `order` says which dimension each of them is; in core, and unless strides say otherwise, dimensions lie in their own order.
    """

    value: Value
    axes: tuple[Symbol, ...]
    order: tuple[int, ...]

    def arranged(self, order: tuple[int, ...]) -> Operand:
        """The same operand, its dimensions lying in another order."""
        axis_of = dict(zip(self.order, self.axes, strict=True))
        return Operand(self.value, tuple(axis_of[d] for d in order), order)


@dataclass(frozen=True, slots=True)
class Result:
    """A tensor that the kernel stores: `expression` over the axes, reads at bare axes, and the local that is the product.

    `axes` says which axis each of its dimensions is.
    """

    value: Value
    axes: tuple[Symbol, ...]
    expression: Scalar


def bare(read: Read) -> tuple[Symbol, ...] | None:
    """The axes that a read's subscripts are, if each is one index alone."""
    axes = [s.symbol if isinstance(s, Dim) else None for s in read.subscripts]
    return None if any(a is None for a in axes) else tuple(a for a in axes if a is not None)


class Tiled(Protocol):
    """A kernel whose results are tiles of rows and columns."""

    @property
    def rows(self) -> Axis: ...
    @property
    def columns(self) -> Axis: ...
    @property
    def outer(self) -> tuple[Axis, ...]: ...
    @property
    def results(self) -> tuple[Result, ...]: ...


K = TypeVar("K", bound=Tiled)


class Group(Generic[K]):
    """A kernel and the pointwise operations on its results that were taken in so far.

    `statistics` are tensors that the kernel makes without storing them: each with its axes and the local that is its value.
    """

    def __init__(self, kernel: K, statistics: Sequence[tuple[Symbol, tuple[Symbol, ...], Local]] = ()) -> None:
        self.kernel = kernel
        self.results = {r.value.symbol: r for r in kernel.results}
        self.known: dict[Symbol, tuple[tuple[Symbol, ...], Scalar]] = {s: (axes, value) for s, axes, value in statistics}
        self.known |= {s: (r.axes, r.expression) for s, r in self.results.items()}

    def absorb(self, op: Compute) -> bool:
        """Take a pointwise operation in, if all it reads of this kernel is at its own index, and it reads a result of it."""
        if op.reduction is not None:
            return False
        names: dict[Symbol, Symbol] = {}
        mine = [read for scalar in op.body for read in reads(scalar) if read.tensor in self.known]
        if not any(read.tensor in self.results for read in mine):
            return False
        for read in mine:
            axes = bare(read)
            if axes is None or read.padding is not None or read.checked is not None:
                return False
            for axis, own in zip(axes, self.known[read.tensor][0], strict=True):
                if names.setdefault(axis, own) != own:
                    return False
        if set(names) != {a.symbol for a in op.axes} or len(set(names.values())) != len(names):
            return False
        extents = {a.symbol: a.extent for a in (*self.kernel.outer, self.kernel.rows, self.kernel.columns)}
        if any(extents[names[a.symbol]] != a.extent for a in op.axes):
            return False
        renamed = {a: Dim.of(b) for a, b in names.items()}
        new = []
        for out, scalar in zip(op.outs, op.body, strict=True):
            expression = self._inline(rename(scalar, renamed))
            new.append(Result(out, tuple(names[a.symbol] for a in op.axes), expression))
        try:
            check_epilogue(self.kernel, new, op.span)
        except Unsupported:
            return False
        self.results |= {r.value.symbol: r for r in new}
        self.known |= {r.value.symbol: (r.axes, r.expression) for r in new}
        return True

    def finish(self, wanted: set[Symbol]) -> K:
        results = tuple(r for r in self.results.values() if r.value.symbol in wanted)
        return replace(self.kernel, results=results)  # type: ignore[type-var]

    def _inline(self, scalar: Scalar) -> Scalar:
        def visit(node: Scalar) -> Scalar | None:
            if isinstance(node, Read) and node.tensor in self.known:
                return self.known[node.tensor][1]
            return None

        return rewrite(scalar, visit)


def check_epilogue(kernel: Tiled, results: Iterable[Result], span: Span | None) -> None:
    """Raises `Unsupported` unless the results can be computed element by element from the product's tile."""
    axes = {a.symbol for a in (*kernel.outer, kernel.rows, kernel.columns)}
    for result in results:
        if result.axes[-1] != kernel.columns.symbol:
            raise Unsupported("a result whose last index is not the product's", span)
        for node in nodes(result.expression):
            match node:
                case Read():
                    if node.padding is not None or node.checked is not None or not set(bare(node) or [None]) <= axes | {None}:
                        raise Unsupported("an epilogue reads a tensor at more than bare indices", span)
                    if node.subscripts and bare(node) is None:
                        raise Unsupported("an epilogue reads a tensor at more than bare indices", span)
        why = obstacle(result.expression)
        if why:
            raise Unsupported(f"an epilogue {why}", span)
