"""What kernels of products share: operands, results, and the pointwise operations on results that are taken in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Generic, Protocol, TypeVar

from axon.backend.gpu.layout.axes import Merge
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import View, Views, stored, stored_merged
from axon.backend.kernel.tensor_core_scalars import inexact, obstacle
from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Axis, Compute, Convert, Index, Local, Read, Scalar, Value
from axon.core.walk import nodes, reads, rename, rewrite
from axon.shapes.dimension import Dim, Quotient

STORED = (Element.BF16, Element.F16, Element.F32)


@dataclass(frozen=True, slots=True)
class EpilogueOperand:
    """A tensor and the axes at which its dimensions are read, in the order in which they lie in memory, the contiguous one last.

    `order` says which dimension each of them is; in core, and unless strides say otherwise, dimensions lie in their own order.
    """

    value: Value
    axes: tuple[Symbol, ...]
    order: tuple[int, ...]

    def arranged(self, order: tuple[int, ...]) -> EpilogueOperand:
        """The same operand, its dimensions lying in another order."""
        axis_of = dict(zip(self.order, self.axes, strict=True))
        return EpilogueOperand(self.value, tuple(axis_of[d] for d in order), order)


@dataclass(frozen=True, slots=True)
class Result:
    """A tensor that the kernel stores: `expression` over the axes, reads at bare axes, and the local that is the product.

    `axes` says which axis each of its dimensions is, or each dimension of the view through which it is stored.
    """

    value: Value
    axes: tuple[Symbol, ...]
    expression: Scalar
    view: View | None = None
    span: Span | None = field(default=None, compare=False)

    @property
    def place(self) -> Value:
        """What is stored into: the tensor, or its view."""
        return self.view.value if self.view else self.value


def bare(read: Read) -> tuple[Symbol, ...] | None:
    """The axes that a read's subscripts are, if each is one index alone."""
    axes = [s.symbol if isinstance(s, Dim) else None for s in read.subscripts]
    return None if any(a is None for a in axes) else tuple(a for a in axes if a is not None)


def result_of(
    out: Value, axes: tuple[Symbol, ...], expression: Scalar, views: Views, merges: tuple[Merge, ...], span: Span | None = None
) -> Result:
    """What is stored at bare axes, with one axis in place of those that are merged. Raises `Unsupported` where memory, or what the
    expression reads, has these not side by side."""
    if not merges:
        return Result(out, axes, expression, span=span)
    view = stored_merged(out, axes, merges)
    if view is None:
        raise Unsupported("a result whose merged indices are not side by side", span)
    return Result(out, view.axes, _merged(expression, views, merges), view, span)


def _merged(expression: Scalar, views: Views, merges: Iterable[Merge]) -> Scalar:
    """An expression over axes of which several are merged, with its reads through views that have one index in place of these."""
    indices = {symbol: dim for merge in merges for symbol, dim in merge.indices.items()}

    def visit(node: Scalar) -> Scalar | None:
        match node:
            case Index(dim=dim):
                return replace(node, dim=dim.substitute(indices))
            case Read():
                for merge in merges:
                    axes = bare(node)
                    if axes is None or set(axes).isdisjoint(merge.symbols):
                        continue
                    if merge.within(axes) is None:
                        raise Unsupported("an epilogue reads a tensor in which merged indices are not side by side")
                    node = views.merged(node, merge)
                return node
            case _:
                return None

    return rewrite(expression, visit)


class TiledResults(Protocol):
    """A kernel whose results are tiles of rows and columns."""

    @property
    def rows(self) -> Axis: ...
    @property
    def columns(self) -> Axis: ...
    @property
    def outer(self) -> tuple[Axis, ...]: ...
    @property
    def results(self) -> tuple[Result, ...]: ...
    @property
    def views(self) -> tuple[View, ...]: ...
    @property
    def turned(self) -> bool: ...


def views_of(kernel: TiledResults) -> tuple[View, ...]:
    """The views that a kernel reads and stores."""
    return (*kernel.views, *(r.view for r in kernel.results if r.view))


K = TypeVar("K", bound=TiledResults)


class EpilogueGroup(Generic[K]):
    """A kernel and the pointwise operations on its results that were taken in so far.

    `statistics` are tensors that the kernel makes without storing them: each with its axes and the local that is its value. Rows or
    columns that are merged of several axes are these where operations are looked at.
    """

    def __init__(
        self,
        kernel: K,
        views: Views,
        statistics: Sequence[tuple[Symbol, tuple[Symbol, ...], Local]] = (),
        merges: Sequence[Merge] = (),
    ) -> None:
        self.kernel, self.views, self.merges = kernel, views, tuple(merges)
        self.results = {r.value.symbol: r for r in kernel.results}
        several = {m.axis.symbol: m.parts for m in merges}
        apart = [part for axis in (*kernel.outer, kernel.rows, kernel.columns) for part in several.get(axis.symbol, (axis,))]
        self.extents = {axis.symbol: axis.extent for axis in apart}
        self.known: dict[Symbol, tuple[tuple[Symbol, ...], Scalar]] = {s: (axes, value) for s, axes, value in statistics}
        self.known |= {s: (self._apart(r.axes), r.expression) for s, r in self.results.items()}

    def absorb(self, op: Compute) -> bool:
        """Take a pointwise operation in, if it makes each element from one of a result of this kernel, in whatever order."""
        if op.reduction is not None:
            return False
        mine = [read for scalar in op.body for read in reads(scalar) if read.tensor in self.known]
        if not any(read.tensor in self.results for read in mine):
            return False
        if any(read.tensor in self.results.keys() - self.known.keys() for scalar in op.body for read in reads(scalar)):
            return False  # it was stored in another order
        places: dict[Symbol, Dim] = {}  # this kernel's axes, by those of the operation
        for read in mine:
            if read.padding is not None or read.checked is not None:
                return False
            for axis, subscript in zip(self.known[read.tensor][0], read.subscripts, strict=True):
                if not isinstance(subscript, Dim) or places.setdefault(axis, subscript) != subscript:
                    return False
        names = self._solved(op, places)
        if names is None:
            return False
        new: list[Result] = []
        known: dict[Symbol, tuple[tuple[Symbol, ...], Scalar]] = {}
        views = self.views.copy()
        for out, scalar in zip(op.outs, op.body, strict=True):
            expression = views.bare(self._inline(rename(scalar, names)))
            at = tuple(names[a.symbol] for a in op.axes)
            axes = tuple(dim.symbol for dim in at if dim.symbol)
            if len(axes) == len(at):
                try:
                    new.append(result_of(out, axes, expression, views, self.merges, op.span))
                except Unsupported:
                    return False
                known[out.symbol] = axes, expression
            elif self.merges:
                return False
            else:
                order = sorted(self.extents, key=lambda axis: _first(axis, at))
                new.append(Result(out, tuple(order), expression, stored(out, at, self.extents, tuple(order)), op.span))
        try:
            check_epilogue(self.kernel, new, views, op.span)
        except Unsupported:
            return False
        self.views = views
        self.results |= {r.value.symbol: r for r in new}
        self.known |= known
        return True

    def widens(self, op: Compute) -> bool:
        """Whether an operation that was taken in only widens a result: stored, that would be the same in more bytes."""
        match op.body:
            case (Convert(operand=Read(tensor=tensor, padding=None, element=narrow), element=wide),) if tensor in self.results:
                return narrow.is_float and wide.is_float and narrow.bits < wide.bits
            case _:
                return False

    def leave(self, outs: Iterable[Value]) -> None:
        """Do not make after all what an operation makes that was taken in."""
        for out in outs:
            del self.results[out.symbol]

    def _apart(self, axes: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
        several = {m.axis.symbol: m.symbols for m in self.merges}
        return tuple(part for axis in axes for part in several.get(axis, (axis,)))

    def _solved(self, op: Compute, places: dict[Symbol, Dim]) -> dict[Symbol, Dim] | None:
        """The operation's axes by this kernel's, if each point of one is one point of the other.

        An axis is one of the kernel's, or two: a / k and a % k are two axes, the second of extent k, and a = k · first + second.
        """
        if places.keys() != self.extents.keys():
            return None
        axes = {a.symbol: a.extent for a in op.axes}
        names: dict[Symbol, Dim] = {}
        rest = dict(places)
        for own, place in places.items():
            axis = place.symbol
            if axis is not None and axis in axes and axis not in names and axes[axis] == self.extents[own]:
                names[axis] = Dim.of(own)
                del rest[own]
        for own, place in list(rest.items()):
            atom = place.atom
            if not isinstance(atom, Quotient) or atom.dividend.symbol not in axes.keys() - names.keys():
                continue
            axis, step = atom.dividend.symbol, atom.divisor
            assert axis is not None
            second = next((a for a, dim in rest.items() if dim == Dim.of(axis) % step and self.extents[a] == step), None)
            if second is None or axes[axis] != self.extents[own] * step or not step.variables.isdisjoint(axes):
                return None
            names[axis] = step * Dim.of(own) + Dim.of(second)
            del rest[own], rest[second]
        return names if not rest and names.keys() == axes.keys() else None

    def finish(self, wanted: set[Symbol]) -> K:
        """The kernel with the results that others read, and the views that it still needs."""
        results = tuple(r for r in self.results.values() if r.value.symbol in wanted)
        return replace(self.kernel, results=results, views=self.views.all, derived=self.views.derived)  # type: ignore[type-var]

    def _inline(self, scalar: Scalar) -> Scalar:
        def visit(node: Scalar) -> Scalar | None:
            if isinstance(node, Read) and node.tensor in self.known:
                return self.known[node.tensor][1]
            return None

        return rewrite(scalar, visit)


def _first(axis: Symbol, places: Sequence[Dim]) -> tuple[int, bool]:
    """Where an axis stands among the dimensions of what is stored, the contiguous one last."""
    number = next(d for d, place in enumerate(places) if axis in place.variables)
    found = places[number].linear_in(axis)
    return number, found is not None and found[0] == Dim.of(1)


def check_epilogue(kernel: TiledResults, results: Iterable[Result], views: Views, span: Span | None) -> None:
    """Raises `Unsupported` unless the results can be computed element by element from the product's tile."""
    check_derived(views, {a.symbol for a in kernel.outer}, span)
    axes = {a.symbol for a in (*kernel.outer, kernel.rows, kernel.columns)} | {symbol for symbol, _ in views.derived}
    for result in results:
        whole = isinstance(result.expression, Local) and result.expression.element is Element.I32  # a sum as it is
        if result.value.element not in STORED and not whole:
            raise Unsupported(f"an epilogue cannot store {result.value.element.value}", span)
        if result.axes[-1] != kernel.columns.symbol and not kernel.turned:
            raise Unsupported("a result whose last index is not the product's", span)
        for node in nodes(result.expression):
            match node:
                case Read():
                    if node.padding is not None or node.checked is not None or not set(bare(node) or [None]) <= axes | {None}:
                        raise Unsupported("an epilogue reads a tensor at more than bare indices", span)
                    if node.subscripts and bare(node) is None:
                        raise Unsupported("an epilogue reads a tensor at more than bare indices", span)
        why = obstacle(result.expression, axes)
        if why:
            raise Unsupported(f"an epilogue {why}", span)


def check_derived(views: Views, outer: Set[Symbol], span: Span | None) -> None:
    """Raises `Unsupported` unless indices that follow from others are the same for a whole tile."""
    for _, dim in views.derived:
        why = inexact(dim, views.extents.keys())
        if why:
            raise Unsupported(f"a subscript {why}", span)
        if dim.variables & views.extents.keys() - outer:
            raise Unsupported("a subscript is not linear in the indices of a tile", span)
