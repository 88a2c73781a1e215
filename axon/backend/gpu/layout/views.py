"""Tensors as a kernel sees them: with one dimension for each index at which it steps through them.

    seen     a read at subscripts that are linear in the axes -> the same read at bare indices of a view
    stored   a tensor that is written at such subscripts -> the view that is written at bare indices

`t[b, i, 64 * h + c + 768]` reads the memory of `t` from element 768 on, in steps of `t`'s strides along b and i, of 64 along h and
of 1 along c: it is `v[b, i, h, c]` of a view, which bulk copies address as they do any tensor. A view has the extents of its
indices. So where a sum runs over a part of a dimension, what lies outside that part is outside the view, which copies fill with 0.

A subscript that is linear in no axis (`h / g`, a loop's counter) is an index of its own, which follows from the others: it is
*derived*, and its dimension stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from axon.backend.gpu.layout.memory import Tensor
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.base.data import dataclass
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Read, Scalar, Select, Value
from axon.core.walk import rewrite
from axon.shapes.dimension import Dim, Quotient, dim_sum
from axon.shapes.width import of_dim

ZERO, ONE = Dim.of(0), Dim.of(1)


@dataclass(frozen=True, slots=True)
class View:
    """A tensor through other strides: its element at x is the source's at `start` + the sum of x[k] · `steps[k]`.

    A step has a place for each dimension of the source. `axes` are the indices at which the view is read or stored.
    """

    value: Value
    source: Symbol
    axes: tuple[Symbol, ...]
    steps: tuple[tuple[Dim, ...], ...]
    start: tuple[Dim, ...]

    @property
    def places(self) -> tuple[Dim, ...]:
        """Where in the source the view's element at its axes is."""
        moved = [[step[d] * Dim.of(axis) for axis, step in zip(self.axes, self.steps, strict=True)] for d in range(len(self.start))]
        return tuple(dim_sum([start, *terms]) for start, terms in zip(self.start, moved, strict=True))

    def of(self, tensor: Tensor, sizes: Mapping[Symbol, int]) -> Tensor:
        """The view of the source as it lies. Raises `Unsupported` if it moves with a loop's counter, which is no size here."""
        try:
            shape = tuple(max(0, d.evaluate(sizes)) for d in self.value.shape)
            strides = tuple(_along(step, tensor, sizes) for step in self.steps)
            start = _along(self.start, tensor, sizes)
        except KeyError:
            raise Unsupported(f"what is read of `{self.source.name}` moves with a loop's counter") from None
        return Tensor(tensor.pointer + start * max(8, tensor.element.bits) // 8, shape, strides, tensor.element)


def _along(step: Iterable[Dim], tensor: Tensor, sizes: Mapping[Symbol, int]) -> int:
    return sum(d.evaluate(sizes) * stride for d, stride in zip(step, tensor.strides, strict=True))


def with_views(views: Iterable[View], tensors: Mapping[Symbol, Tensor], sizes: Mapping[Symbol, int]) -> dict[Symbol, Tensor]:
    """The tensors as they lie, views among them."""
    return {**tensors, **{view.value.symbol: view.of(tensors[view.source], sizes) for view in views}}


class Views:
    """The views that one kernel needs, made as its reads are looked at; equal reads see the same view."""

    def __init__(self, values: Mapping[Symbol, Value], axes: Iterable[Axis]) -> None:
        self.values = values
        self.extents = {axis.symbol: axis.extent for axis in axes}
        self.made: dict[tuple[Symbol, tuple[Dim, ...]], tuple[View | None, Read]] = {}
        self.by_dim: dict[Dim, Symbol] = {}

    def copy(self) -> Views:
        """To go on from here, and perhaps to come back."""
        other = Views(self.values, ())
        other.extents, other.made, other.by_dim = self.extents, dict(self.made), dict(self.by_dim)
        return other

    @property
    def all(self) -> tuple[View, ...]:
        return tuple(view for view, _ in self.made.values() if view is not None)

    @property
    def derived(self) -> tuple[tuple[Symbol, Dim], ...]:
        """The indices that follow from others, and how."""
        return tuple((symbol, dim) for dim, symbol in self.by_dim.items())

    def value(self, symbol: Symbol) -> Value:
        """A tensor, or a view that was seen."""
        return next((view.value for view in self.all if view.value.symbol == symbol), None) or self.values[symbol]

    def seen(self, read: Read) -> Read | None:
        """The read at bare indices, of the tensor itself where it is read so as a whole; None if no strides express it."""
        subscripts = tuple(s for s in read.subscripts if isinstance(s, Dim))
        if read.padding is not None or read.checked is not None or len(subscripts) != len(read.subscripts):
            return None
        if read.tensor not in self.values:
            return None
        key = read.tensor, subscripts
        if key not in self.made:
            self.made[key] = self._look(read, subscripts)
        return self.made[key][1]

    def bare(self, scalar: Scalar, *, guarded: bool = False) -> Scalar:
        """The scalar with its reads at bare indices, as far as that goes.

        A kernel loads what it may need before it knows whether it does. So a read that a condition guards (all of them, if
        `guarded`) is left as it is, unless it is inside the tensor for all indices.
        """

        def visit(node: Scalar) -> Scalar | None:
            match node:
                case Read():
                    return self.seen(node) if not guarded or self._inside(node) else None
                case Select(condition=condition, then=then, otherwise=otherwise):
                    inner = (self.bare(branch, guarded=True) for branch in (then, otherwise))
                    return Select(self.bare(condition, guarded=guarded), *inner)
                case Binary(op="and" | "or" as op, left=left, right=right):
                    return Binary(op, self.bare(left, guarded=guarded), self.bare(right, guarded=True))
                case _:
                    return None

        return rewrite(scalar, visit)

    def _inside(self, read: Read) -> bool:
        """Whether a read is seen to be inside its tensor wherever the kernel's axes are."""
        if read.tensor not in self.values:
            return False
        for subscript, size in zip(read.subscripts, self.values[read.tensor].shape, strict=True):
            ends = self._ends(subscript) if isinstance(subscript, Dim) else None
            if ends is None or of_dim(ends[0])[0] < 0 or of_dim(size - 1 - ends[1])[0] < 0:
                return False
        return True

    def _ends(self, subscript: Dim) -> tuple[Dim, Dim] | None:
        """The least and the greatest value of a subscript over the axes, if it rises or falls along each of them."""
        atom = subscript.atom
        if isinstance(atom, Quotient) and atom.divisor.variables.isdisjoint(self.extents):
            ends = self._ends(atom.dividend)
            return None if ends is None else (ends[0] // atom.divisor, ends[1] // atom.divisor)
        found = _linear(subscript, self.extents)
        if found is None:
            return None
        steps, least = found
        greatest = least
        for axis, step in steps.items():
            low, high = of_dim(step)
            if low < 0 < high:
                return None
            far = step * (self.extents[axis] - 1)
            least, greatest = (least, greatest + far) if low >= 0 else (least + far, greatest)
        return least, greatest

    def _look(self, read: Read, subscripts: tuple[Dim, ...]) -> tuple[View | None, Read]:
        shape = self.values[read.tensor].shape
        steps: dict[Symbol, dict[int, Dim]] = {}
        extents: dict[Symbol, Dim] = {}
        start = [ZERO] * len(shape)
        for d, subscript in enumerate(subscripts):
            found = _linear(subscript, self.extents)
            if found is None:
                index = self._derived(subscript)
                steps.setdefault(index, {})[d] = ONE
                extents[index] = shape[d]
                continue
            terms, start[d] = found
            # The smallest step last, as memory lies.
            for index, step in sorted(terms.items(), key=lambda item: (item[1] == ONE, item[1].constant is not None)):
                steps.setdefault(index, {})[d] = step
                extents[index] = self.extents[index]
        at = tuple(map(Dim.of, steps))
        whole = tuple(extents.values()) == shape and all(part == ZERO for part in start)
        if whole and list(steps.values()) == [{d: ONE} for d in range(len(shape))]:
            return None, Read(read.tensor, at, read.element)
        value = Value(fresh(f"{read.tensor.name}_view"), read.element, tuple(extents.values()))
        full = tuple(tuple(step.get(d, ZERO) for d in range(len(shape))) for step in steps.values())
        return View(value, read.tensor, tuple(steps), full, tuple(start)), Read(value.symbol, at, read.element)

    def _derived(self, dim: Dim) -> Symbol:
        if dim.symbol is not None and dim.symbol in self.by_dim.values():
            return dim.symbol  # an expression is looked at again when another operation takes it in
        like = min(dim.variables, key=lambda s: (s not in self.extents, s.id), default=None)
        return self.by_dim.setdefault(dim, fresh(like.name if like else "index"))


def _linear(subscript: Dim, axes: Mapping[Symbol, Dim]) -> tuple[dict[Symbol, Dim], Dim] | None:
    """The steps of a subscript along each axis in it, and the rest; None where it is not linear, or has no axis but a size."""
    steps: dict[Symbol, Dim] = {}
    rest = subscript
    for axis in sorted(subscript.variables & axes.keys(), key=lambda s: s.id):
        found = rest.linear_in(axis)
        if found is None:
            return None
        steps[axis], rest = found
    if any(not step.variables.isdisjoint(axes) for step in (*steps.values(), rest)):
        return None
    return None if not steps and rest.constant is None else (steps, rest)


def stored(value: Value, subscripts: Iterable[Dim], extents: Mapping[Symbol, Dim], axes: tuple[Symbol, ...]) -> View:
    """The view of a tensor whose elements at these subscripts are made at `axes`, each once, and all of them."""
    found = [_linear(subscript, extents) for subscript in subscripts]
    assert all(found), "a place that is not linear"
    steps = tuple(tuple(terms.get(axis, ZERO) for terms, _ in filter(None, found)) for axis in axes)
    start = tuple(rest for _, rest in filter(None, found))
    return View(
        Value(fresh(f"{value.symbol.name}_view"), value.element, tuple(extents[a] for a in axes)), value.symbol, axes, steps, start
    )
