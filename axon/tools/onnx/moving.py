"""Operators that move elements or make them of sizes: none of them computes on what the weights and inputs hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from axon.base.data import replace
from axon.base.names import Symbol
from axon.shapes.algebra.polynomials import exact_quotient
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.tools.onnx import views
from axon.tools.onnx.graph import Node
from axon.tools.onnx.scalars import Compute, Number, Read, Scalar, Whole, whole
from axon.tools.onnx.steps import Places, Refused, Value
from axon.tools.onnx.translate import ONE, Operator, Translation
from axon.tools.onnx.views import View


def shown(shape: Sequence[Dim]) -> str:
    return ", ".join(map(render, shape))


def axis_of(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def _identity(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    return [_given(inputs, 0)]


def _dropout(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    if len(inputs) > 2 and inputs[2] is not None and t.number(inputs[2]) != 0:
        raise Refused("it drops elements at random, as in training, which is not translated")
    return [_given(inputs, 0)]


def _given(inputs: Sequence[Value | None], number: int) -> Value:
    if number >= len(inputs) or (value := inputs[number]) is None:
        raise Refused(f"its input {number} is missing")
    return value


def _axes(t: Translation, node: Node, inputs: Sequence[Value | None], rank: int) -> list[int] | None:
    """Axes, which were an attribute before they became an input."""
    if "axes" in node.attributes:
        return [axis_of(a, rank) for a in node.attributes["axes"]]
    if len(inputs) > 1 and inputs[1] is not None:
        return [axis_of(a, rank) for a in t.integers(inputs[1], "the list of axes")]
    return None


def _cast(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    from axon.tools.onnx.read import element_of

    x, element = _given(inputs, 0), element_of(int(node.attributes["to"]), node.name)
    if isinstance(x, Places):
        return [replace(x, value=t.compute(f"cast {element}", x.value) if x.element != element else x.value, element=element)]
    if t.flow.steps[x.step].element == element:
        return [x]
    if element in ("i32", "bool"):
        places = t.as_places(x)
        return [replace(places, value=t.compute(f"cast {element}", places.value), element=element)]
    base = x if not (x.stretched or x.fixed) and x.scale == 1.0 else t.whole(t.result(x))
    made = t.add("call", [base.step], t.flow.shape(base.step), element=element, data=[f"cast {element}"])
    return [replace(base, step=made.step)]


def _shape(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    dims = _given(inputs, 0).shape
    part = dims[slice(node.attributes.get("start", 0), node.attributes.get("end"))]
    return (
        [t.listed([Dim.of(len(part))], [Whole(d) for d in part], "i32")]
        if part
        else [t.places([Dim.of(0)], lambda _: whole(0), "i32")]
    )


def _size(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    total = ONE
    for extent in _given(inputs, 0).shape:
        total *= extent
    return [t.places([], lambda _: Whole(total), "i32")]


def _reshape(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, wanted = _given(inputs, 0), t.dims(_given(inputs, 1), "the shape")
    keeps = not node.attributes.get("allowzero", 0)
    shape = [x.shape[i] if keeps and d.constant == 0 else d for i, d in enumerate(wanted)]
    return [_shaped(t, x, shape)]


def _shaped(t: Translation, x: Value, shape: list[Dim]) -> Value:
    if any(d.constant == -1 for d in shape):
        known, total = ONE, ONE
        for d in shape:
            known = known if d.constant == -1 else known * d
        for d in x.shape:
            total *= d
        rest = exact_quotient(total, known)
        if rest is None:
            raise Refused(f"{render(total)} elements do not divide into rows of {render(known)}, as far as one can tell")
        shape = [rest if d.constant == -1 else d for d in shape]
    if isinstance(x, Places):
        if [d for d in x.shape if d != ONE] == [d for d in shape if d != ONE]:
            kept = [a for a, d in zip(x.axes, x.shape, strict=True) if d != ONE]
            return _reindexed(t, x, shape, [i for i, d in enumerate(shape) if d != ONE], kept)
        if all(d.constant is not None for d in (*x.shape, *shape)):
            items = t.contents(x, "the tensor")
            if sum(d != ONE for d in shape) <= 1:
                return t.listed(shape, items, x.element)
        x = t.view(x)
    reshaped = views.reshaped(x, shape)
    if reshaped is None:
        raise Refused(f"[{shown(x.shape)}] does not split into [{shown(shape)}]")
    return reshaped


def _reindexed(t: Translation, x: Places, shape: Sequence[Dim], where: Sequence[int], axes: Sequence[Symbol]) -> Places:
    """Axes of x at other places of a shape; the others have one place."""

    def value(new: Sequence[Symbol]) -> Scalar:
        images: dict[Symbol, Scalar] = {a: whole(0) for a in x.axes}
        images |= {a: whole(new[i]) for a, i in zip(axes, where, strict=True)}
        return t.at(x, [images[a] for a in x.axes])

    return t.places(shape, value, x.element)


def _flatten(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = _given(inputs, 0)
    axis = axis_of(node.attributes.get("axis", 1), len(x.shape))
    parts = [ONE, ONE]
    for i, extent in enumerate(x.shape):
        parts[i >= axis] *= extent
    return [_shaped(t, x, parts)]


def _transpose(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = _given(inputs, 0)
    order = node.attributes.get("perm") or tuple(reversed(range(len(x.shape))))
    if isinstance(x, Places):
        return [Places(tuple(x.axes[i] for i in order), tuple(x.shape[i] for i in order), x.value, x.element)]
    return [views.transposed(x, order)]


def _unsqueeze(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = _given(inputs, 0)
    count = node.attributes.get("axes") or t.integers(_given(inputs, 1), "the list of axes")
    axes = sorted(axis_of(a, len(x.shape) + len(count)) for a in count)
    if isinstance(x, View):
        return [views.inserted(x, axes)]
    shape = list(x.shape)
    for axis in axes:
        shape.insert(axis, ONE)
    return [_reindexed(t, x, shape, [i for i in range(len(shape)) if i not in axes], x.axes)]


def _squeeze(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = _given(inputs, 0)
    axes = _axes(t, node, inputs, len(x.shape))
    if axes is None:
        axes = [i for i, extent in enumerate(x.shape) if extent == ONE]
    if isinstance(x, View):
        return [views.removed(x, axes)]
    kept = [i for i in range(len(x.shape)) if i not in axes]
    return [_reindexed(t, x, [x.shape[i] for i in kept], range(len(kept)), [x.axes[i] for i in kept])]


def broadcast(shapes: Sequence[Sequence[Dim]]) -> list[Dim]:
    """The shape that operands of several shapes stretch to."""
    rank = max(map(len, shapes), default=0)
    out = [ONE] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            if out[i] == ONE:
                out[i] = extent
            elif extent not in (ONE, out[i]):
                raise Refused(f"the sizes {render(out[i])} and {render(extent)} are not known to be equal")
    return out


def stretched(t: Translation, x: Value, shape: Sequence[Dim]) -> Value:
    if isinstance(x, View):
        return views.expanded(x, shape)

    def value(axes: Sequence[Symbol]) -> Scalar:
        tail = axes[len(axes) - len(x.shape) :]
        return t.at(x, [whole(0 if extent == ONE else a) for a, extent in zip(tail, x.shape, strict=True)])

    return t.places(shape, value, x.element)


def _expand(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, wanted = _given(inputs, 0), t.dims(_given(inputs, 1), "the shape")
    return [stretched(t, x, broadcast([x.shape, wanted]))]


def _slice(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = _given(inputs, 0)
    starts = t.dims(_given(inputs, 1), "where it starts")
    ends = t.dims(_given(inputs, 2), "where it ends")
    axes = list(range(len(starts)))
    if len(inputs) > 3 and inputs[3] is not None:
        axes = [axis_of(a, len(x.shape)) for a in t.integers(inputs[3], "the list of axes")]
    steps = [1] * len(starts)
    if len(inputs) > 4 and inputs[4] is not None:
        steps = t.integers(inputs[4], "the list of steps")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        x = part(t, x, axis, start, end, step)
    return [x]


def part(t: Translation, x: Value, axis: int, start: Dim, end: Dim, step: int = 1) -> Value:
    """Some places of an axis, of which negative ones are counted from the end."""
    extent = x.shape[axis]
    first, stop = _place(t, start, extent), _place(t, end, extent)
    if step == 1 and first.constant == 0 and stop == extent:
        return x
    if step < 1:
        raise Refused(f"it goes by steps of {step}, which is not translated")
    count = (stop - first + (step - 1)) // step
    if isinstance(x, Places):
        shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]

        def value(axes: Sequence[Symbol]) -> Scalar:
            return t.at(x, [Whole(Dim.of(a) * step + first) if i == axis else whole(a) for i, a in enumerate(axes)])

        return t.places(shape, value, x.element)
    cut = views.sliced(x, axis, first, count) if step == 1 else None
    if cut is not None and all(views.leading(r) for r in cut.reads):
        return cut
    base = t.whole(t.result(x)) if not x.axes[axis] or not _plain(x) else x
    place = next(i for i, r in enumerate(base.reads) if r == base.axes[axis])
    old = t.flow.shape(base.step)
    bounds = [None if i != place else (first, stop, extent, step)[: 3 if step == 1 else 4] for i in range(len(old))]
    made = t.add("slice", [base.step], [count if i == place else d for i, d in enumerate(old)], data=[tuple(bounds)])
    new = (views.digit(count),)
    reads = tuple(new if i == place else r for i, r in enumerate(base.reads))
    return replace(base, step=made.step, reads=reads, axes=(*base.axes[:axis], new, *base.axes[axis + 1 :]))


def _plain(x: View) -> bool:
    return not (x.stretched or x.fixed) and all(len(r) == 1 for r in x.reads)


def _place(t: Translation, at: Dim, extent: Dim) -> Dim:
    if at.constant is not None:
        if at.constant < 0:
            return Dim.of(0) if at.constant <= -(2**31) else extent + at
        if at.constant >= 2**31 - 1:
            return extent
        if extent.constant is not None:
            return Dim.of(min(at.constant, extent.constant))
    return at


def _split(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = _given(inputs, 0)
    axis = axis_of(node.attributes.get("axis", 0), len(x.shape))
    if len(inputs) > 1 and inputs[1] is not None:
        lengths = t.dims(inputs[1], "the list of lengths")
    else:
        parts = node.attributes.get("num_outputs", len(node.outputs))
        each = (x.shape[axis] + (parts - 1)) // parts
        lengths = [*[each] * (parts - 1), x.shape[axis] - each * (parts - 1)]
    out, start = list[Value](), Dim.of(0)
    for length in lengths:
        out.append(part(t, x, axis, start, start + length))
        start += length
    return out


def _concat(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    given = [_given(inputs, i) for i in range(len(inputs))]
    rank = len(given[0].shape)
    axis = axis_of(node.attributes["axis"], rank)
    given = [g for g in given if g.shape[axis].constant != 0] or given[:1]
    extent = Dim.of(0)
    for g in given:
        extent += g.shape[axis]
    shape = [*given[0].shape[:axis], extent, *given[0].shape[axis + 1 :]]
    if len(given) == 1:
        return [given[0]]
    flat = [i for i in range(rank) if i != axis and all(isinstance(g, View) and not g.axes[i] for g in given)]
    if flat:  # axes of one place that nothing reads: they are put back afterwards
        inner = replace(node, attributes={"axis": axis - sum(i < axis for i in flat)})
        (joined,) = _concat(t, inner, [views.removed(g, flat) for g in given if isinstance(g, View)])
        return [views.inserted(t.view(joined), flat)]
    if all(isinstance(g, View) and not g.stretched for g in given) and (axis == 1 or axis == rank - 1):
        steps = [t.result(g) for g in given]
        made, total = steps[0], given[0].shape[axis]
        for step, g in zip(steps[1:], given[1:], strict=True):
            total += g.shape[axis]
            made = t.add("concat", [made, step], [*shape[:axis], total, *shape[axis + 1 :]], data=[axis, rank]).step
        return [t.whole(made)]
    places = [t.as_places(g) for g in given]

    def value(axes: Sequence[Symbol]) -> Scalar:
        chosen: Scalar | None = None
        start = extent
        for p in reversed(places):
            start -= p.shape[axis]
            here = t.at(p, [Whole(Dim.of(a) - start) if i == axis else whole(a) for i, a in enumerate(axes)])
            before = t.compute("<", whole(axes[axis]), Whole(start + p.shape[axis]))
            chosen = here if chosen is None else t.compute("if", before, here, chosen)
        return chosen or whole(0)

    return [t.places(shape, value, places[0].element)]


def _gather(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, where = _given(inputs, 0), _given(inputs, 1)
    axis = axis_of(node.attributes.get("axis", 0), len(x.shape))
    places = t.as_places(where)
    value = _counted(t, places.value, x.shape[axis])
    if isinstance(x, View):
        found = _rows(t, node, x, axis, replace(places, value=value))
        if found is not None:
            return [found]
    source, many = t.as_places(x), len(places.shape)
    shape = [*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]]

    def element(axes: Sequence[Symbol]) -> Scalar:
        at = t.at(replace(places, value=value), [whole(a) for a in axes[axis : axis + many]])
        return t.at(source, [*(whole(a) for a in axes[:axis]), at, *(whole(a) for a in axes[axis + many :])])

    found = t.places(shape, element, source.element)
    return [t.view(found) if isinstance(x, View) else found]  # rows of a table are looked up once, however they are used


def _counted(t: Translation, where: Scalar, extent: Dim) -> Scalar:
    """An index, from the beginning. Those of the inputs are taken to be: so PyTorch's exporter has them."""
    if isinstance(where, Whole) and where.dim.constant is not None and where.dim.constant < 0:
        return Whole(extent + where.dim)
    return where


def _rows(t: Translation, node: Node, x: View, axis: int, where: Places) -> Value | None:
    """Rows that are named: one, a range of them, or those of a tensor of indices."""
    match where.value:
        case Whole(dim) if not (dim.variables & {*where.axes}):
            chosen = views.selected(x, axis, dim)
            stand = chosen.axes[:axis] + ((),) * len(where.axes) + chosen.axes[axis:]
            shape = [*x.shape[:axis], *where.shape, *x.shape[axis + 1 :]]
            return views.expanded(replace(chosen, axes=stand), shape) if where.axes else chosen
        case Whole(dim) if axis == 0 and _along(dim, where) is not None:
            along = _along(dim, where)
            assert along is not None
            number, first = along
            rows = part(t, x, 0, first, first + where.shape[number])
            if not isinstance(rows, View):
                return None
            stand = tuple(rows.axes[0] if i == number else () for i in range(len(where.axes))) + rows.axes[1:]
            return views.expanded(replace(rows, axes=stand), [*where.shape, *x.shape[1:]])
        case Read(step, place) if axis == 0 and len(x.shape) == 2 and place == tuple(whole(a) for a in where.axes):
            if t.flow.shape(step) == where.shape:
                table = t.result(x)
                return t.add("embedding", [table, step], [*where.shape, x.shape[1]], element=t.flow.steps[table].element)
    return None


def _along(dim: Dim, where: Places) -> tuple[int, Dim] | None:
    """Of an index that is an axis from a place on, that axis and the place."""
    for number, axis in enumerate(where.axes):
        parts = dim.linear_in(axis)
        if parts is not None and parts[0] == ONE and not parts[1].variables & {*where.axes}:
            return number, parts[1]
    return None


def _gather_elements(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, where = t.as_places(_given(inputs, 0)), t.as_places(_given(inputs, 1))
    axis = axis_of(node.attributes.get("axis", 0), len(x.shape))

    def value(axes: Sequence[Symbol]) -> Scalar:
        at = _counted(t, t.at(where, [whole(a) for a in axes]), x.shape[axis])
        return t.at(x, [at if i == axis else whole(a) for i, a in enumerate(axes)])

    return [t.places(where.shape, value, x.element)]


def _gather_nd(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, where = t.as_places(_given(inputs, 0)), t.as_places(_given(inputs, 1))
    count = where.shape[-1].constant
    if node.attributes.get("batch_dims", 0) or count is None:
        raise Refused("it gathers in batches, which is not translated")
    rank = len(where.shape) - 1

    def value(axes: Sequence[Symbol]) -> Scalar:
        at = [t.at(where, [*(whole(a) for a in axes[:rank]), whole(k)]) for k in range(count)]
        at = [_counted(t, a, x.shape[k]) for k, a in enumerate(at)]
        return t.at(x, [*at, *(whole(a) for a in axes[rank:])])

    return [t.places([*where.shape[:-1], *x.shape[count:]], value, x.element)]


def _range(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    given = [_given(inputs, i) for i in range(3)]
    element = t.as_places(given[0]).element
    start, limit, delta = (_whole_number(t, x) for x in given)
    step = delta.constant
    if step is None or step < 1:
        raise Refused("a range by other steps than positive numbers is not translated")

    def place(axes: Sequence[Symbol]) -> Scalar:
        along = Whole(Dim.of(axes[0]) * step + start)
        return along if element == "i32" else t.compute(f"cast {element}", along)

    return [t.places([(limit - start + (step - 1)) // step], place, element)]


def _whole_number(t: Translation, value: Value) -> Dim:
    """A whole number, which may be given as a float: `torch.arange` of a size casts all of its arguments."""
    match t.contents(value, "a range"):
        case [Number(n)] if n == int(n):
            return Dim.of(int(n))
        case [Compute("cast f32" | "cast f64", (Whole(dim),))]:
            return dim
    return t.dims(value, "a range")[0]


def _filled(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    shape = t.dims(_given(inputs, 0), "the shape")
    constant = node.attributes.get("value")
    if constant is None:
        return [t.places(shape, lambda _: Number(0.0), "f32")]
    item = constant.read().ravel()[0]
    scalar = (
        Number(bool(item)) if constant.element == "bool" else whole(int(item)) if constant.element == "i32" else Number(float(item))
    )
    return [t.places(shape, lambda _: scalar, constant.element)]


def _tile(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, times = _given(inputs, 0), t.dims(_given(inputs, 1), "the list of repeats")
    shape = [a * b for a, b in zip(x.shape, times, strict=True)]
    if all(d == ONE for d, n in zip(x.shape, times, strict=True) if n != ONE):
        return [stretched(t, x, shape)]
    raise Refused("it repeats an axis that is longer than 1, which is not translated")


def _triangle(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = t.as_places(_given(inputs, 0))
    shift = t.integers(inputs[1], "the diagonal")[0] if len(inputs) > 1 and inputs[1] is not None else 0
    upper = node.attributes.get("upper", 1)

    def value(axes: Sequence[Symbol]) -> Scalar:
        low, high = Whole(Dim.of(axes[-2]) + shift), whole(axes[-1])
        kept = t.compute("<=", low, high) if upper else t.compute("<=", high, low)
        zero: Scalar = Number(False) if x.element == "bool" else whole(0) if x.element == "i32" else Number(0.0)
        return t.compute("if", kept, t.at(x, [whole(a) for a in axes]), zero)

    return [t.places(x.shape, value, x.element)]


def _pad(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = _given(inputs, 0)
    if node.attributes.get("mode", "constant") != "constant":
        raise Refused(f"padding by `{node.attributes['mode']}` is not translated")
    fill = t.number(inputs[2]) if len(inputs) > 2 and inputs[2] is not None else 0.0
    if fill is None:
        raise Refused("it pads with what depends on data")
    rank = len(x.shape)
    axes = list(range(rank))
    if len(inputs) > 3 and inputs[3] is not None:
        axes = [axis_of(a, rank) for a in t.integers(inputs[3], "the list of axes")]
    pads = t.integers(_given(inputs, 1), "the padding")
    before, after = dict(zip(axes, pads[: len(axes)], strict=True)), dict(zip(axes, pads[len(axes) :], strict=True))
    shape = [d + before.get(i, 0) + after.get(i, 0) for i, d in enumerate(x.shape)]
    source = t.as_places(x)

    def value(new: Sequence[Symbol]) -> Scalar:
        inside: Scalar = Number(True)
        for i in axes:
            if before[i]:
                inside = t.compute("andalso", inside, t.compute("<=", whole(before[i]), whole(new[i])))
            if after[i]:
                inside = t.compute("andalso", inside, t.compute("<", whole(new[i]), Whole(x.shape[i] + before[i])))
        here = t.at(source, [Whole(Dim.of(a) - before.get(i, 0)) for i, a in enumerate(new)])
        return t.compute("if", inside, here, Number(float(fill)) if source.element not in ("i32",) else whole(int(fill)))

    return [t.places(shape, value, source.element)]


def _where(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    return [elementwise(t, lambda c, a, b: t.compute("if", c, a, b), [_given(inputs, i) for i in range(3)], 1)]


def elementwise(t: Translation, function: Callable[..., Scalar], values: Sequence[Value], element: int | str) -> Places:
    """What a function of scalars gives at each place of what operands stretch to."""
    shape = broadcast([v.shape for v in values])
    operands = [t.as_places(v) for v in values]

    def value(axes: Sequence[Symbol]) -> Scalar:
        items = []
        for x in operands:
            tail = axes[len(axes) - len(x.shape) :]
            items.append(t.at(x, [whole(0 if extent == ONE else a) for a, extent in zip(tail, x.shape, strict=True)]))
        return function(*items)

    return t.places(shape, value, element if isinstance(element, str) else operands[element].element)


OPERATORS: dict[str, Operator] = {
    "Identity": _identity, "Dropout": _dropout, "Cast": _cast, "Shape": _shape, "Size": _size, "Reshape": _reshape,
    "Flatten": _flatten, "Transpose": _transpose, "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Expand": _expand, "Slice": _slice,
    "Split": _split, "Concat": _concat, "Gather": _gather, "GatherElements": _gather_elements, "GatherND": _gather_nd,
    "Range": _range, "ConstantOfShape": _filled, "Tile": _tile, "Trilu": _triangle, "Pad": _pad, "Where": _where,
}  # fmt: skip
