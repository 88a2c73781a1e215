"""Templates of operators that move elements: shapes, slices, joins, gathers and scatters, order."""

from __future__ import annotations

import itertools

import numpy as np

from axon.base.element import Element
from tests.onnx.onnx_node import Node, at, chosen, names, number, over, reshaped, shaped, stretched, template, wrapped


@template("Reshape")
def reshape(n: Node) -> str:
    new = n.whole(1)
    if not n.a("allowzero"):
        new = [old if size == 0 else size for size, old in itertools.zip_longest(new, n.shape()[: len(new)], fillvalue=0)]
    if -1 in new:
        rest = int(np.prod(n.shape())) // max(int(np.prod([s for s in new if s != -1])), 1)
        new = [rest if s == -1 else s for s in new]
    return reshaped(n, n.x(), n.shape(), new)


@template("Flatten")
def flatten(n: Node) -> str:
    axis = n.a("axis")
    axis = axis + n.rank() if axis < 0 else axis
    return reshaped(n, n.x(), n.shape(), [int(np.prod(n.shape()[:axis])), int(np.prod(n.shape()[axis:]))])


@template("Squeeze")
def squeeze(n: Node) -> str:
    axes = n.axes(1)
    axes = [k for k, size in enumerate(n.shape()) if size == 1] if axes is None else axes
    i = names(n.rank())
    kept = [k for k in range(n.rank()) if k not in axes]
    return over(
        [i[k] for k in kept], [n.shape()[k] for k in kept], at(n.x(), ["0" if k in axes else i[k] for k in range(n.rank())])
    )


@template("Unsqueeze")
def unsqueeze(n: Node) -> str:
    given = n.whole(1) if n.has(1) else n.a("axes")
    rank = n.rank() + len(given)
    axes = [a % rank for a in given]
    sizes = iter(n.shape())
    shape = [1 if k in axes else next(sizes) for k in range(rank)]
    i = names(rank)
    return over(i, shape, at(n.x(), [i[k] for k in range(rank) if k not in axes]))


@template("Transpose")
def transpose(n: Node) -> str:
    order = n.a("perm") or list(range(n.rank()))[::-1]
    i = names(n.rank())
    return f"for {' '.join(i[k] for k in order)} => {at(n.x(), i)}"


@template("Expand")
def expand(n: Node) -> str:
    shape = np.broadcast_shapes(n.shape(), tuple(n.whole(1)))
    i = names(len(shape))
    return over(i, shape, at(n.x(), stretched(n.shape(), i)))


@template("Tile")
def tile(n: Node) -> str:
    i = names(n.rank())
    shape = [size * times for size, times in zip(n.shape(), n.whole(1), strict=True)]
    return over(i, shape, at(n.x(), [f"{k} % {size}" for k, size in zip(i, n.shape(), strict=True)]))


@template("Shape")
def shape_of(n: Node) -> str:
    n.x()
    start, end = n.a("start", 0), n.a("end")
    sizes = n.shape()[start:end]
    # The dimensions by name, as values of the program.
    return f"[| {', '.join(f'cast i64 (sum for i < {s} => 1)' for s in sizes)} |]" if sizes else "for i < 0 => (0 : i64)"


@template("Size")
def size_of(n: Node) -> str:
    i = names(n.rank())
    return f"sum {' '.join(i)} => (if {at(n.x(), i)} = {at(n.x(), i)} then 1 else 1 : i64)"


@template("Slice")
def slice_(n: Node) -> str:
    starts, ends = n.whole(1), n.whole(2)
    axes = n.axes(3) if n.has(3) else list(range(len(starts)))
    steps = n.whole(4) if n.has(4) else [1] * len(starts)
    i = names(n.rank())
    shape, subscripts = list(n.shape()), list(i)
    for start, end, axis, step in zip(starts, ends, axes or [], steps, strict=True):
        places = range(n.shape()[axis])[start:end:step] if step > 0 else range(*slice(start, end, step).indices(n.shape()[axis]))
        shape[axis] = len(places)
        head = i[axis] if step == 1 else f"{i[axis]} * ({step})"
        subscripts[axis] = f"{head} + {places.start}" if len(places) else "0"
        if not len(places):
            return over(i, shape, number(0, n.element()))
    return over(i, shape, at(n.x(), subscripts))


@template("Split")
def split(n: Node) -> str:
    axis = n.axis()
    if n.has(1):
        sizes = n.whole(1)
    else:
        parts = n.a("num_outputs") or len(n.proto.output)
        size = -(-n.shape()[axis] // parts)
        sizes = [min(size, n.shape()[axis] - k * size) for k in range(parts)]
    i = names(n.rank())
    found = []
    for start, size in zip(itertools.accumulate([0, *sizes[:-1]]), sizes, strict=True):
        shape = [size if k == axis else s for k, s in enumerate(n.shape())]
        found.append(over(i, shape, at(n.x(), [f"{j} + {start}" if k == axis else j for k, j in enumerate(i)])))
    return f"({', '.join(found)})" if len(found) > 1 else found[0]


@template("Concat")
def concat(n: Node) -> str:
    axis, i = n.axis(), names(n.rank())
    sizes = [n.shape(k)[axis] for k in range(len(n.inputs))]
    starts = list(itertools.accumulate([0, *sizes]))
    parts = [at(n.x(k), [f"{j} - {start}" if m == axis else j for m, j in enumerate(i)]) for k, start in enumerate(starts[:-1])]
    shape = [starts[-1] if k == axis else s for k, s in enumerate(n.shape())]
    return over(i, shape, chosen(parts, i[axis], starts[:-1]))


@template("Pad")
def pad(n: Node) -> str:
    axes = n.axes(3) if n.has(3) else list(range(n.rank()))
    assert axes is not None
    pads = n.whole(1)
    before, after = [0] * n.rank(), [0] * n.rank()
    for k, axis in enumerate(axes):
        before[axis], after[axis] = pads[k], pads[k + len(axes)]
    i = names(n.rank())
    shape = [b + s + a for b, s, a in zip(before, n.shape(), after, strict=True)]
    subscripts = []
    for index, b, size in zip(i, before, n.shape(), strict=True):
        place = f"{index} - {b}" if b >= 0 else f"{index} + {-b}"
        match n.a("mode"):
            case "constant":
                subscripts.append(place)
            case "edge":
                subscripts.append(f"max 0 (min {size - 1} ({place}))")
            case "wrap":
                subscripts.append(f"({place}) % {size}")
            case "reflect":
                period = 2 * (size - 1)
                subscripts.append(f"{size - 1} - abs (({place}) % {period} - {size - 1})" if period else "0")
    if n.a("mode") == "constant":
        return over(i, shape, at(n.x(), subscripts, n.x(2) if n.has(2) else number(0, n.element())))
    return over(i, shape, at(n.x(), subscripts))


@template("CenterCropPad")
def center_crop_pad(n: Node) -> str:
    axes = n.axes() or list(range(n.rank()))
    i, shape, subscripts = names(n.rank()), list(n.shape()), names(n.rank())
    for axis, size in zip(axes, n.whole(1), strict=True):
        old = n.shape()[axis]
        start = (old - size) // 2 if old >= size else -((size - old) // 2)
        shape[axis], subscripts[axis] = size, f"{i[axis]} + ({start})"
    return over(i, shape, at(n.x(), subscripts, number(0, n.element())))


@template("Trilu")
def trilu(n: Node) -> str:
    k = n.x(1) if n.has(1) else "0"
    n.vals.append(f"val k = cast i32 {k}" if n.has(1) else "val k = 0")
    if not n.a("upper"):
        return f"for ..b i j => if j <= i + k then {n.x()}[..b, i, j] else 0"
    return f"for ..b i j => if j >= i + k then {n.x()}[..b, i, j] else 0"


@template("EyeLike")
def eye_like(n: Node) -> str:
    n.x()
    to, k = n.result().value, n.a("k")
    return over(["i", "j"], n.shape(), f"cast {to} (if j - i = {k} then 1 else 0)")


@template("ConstantOfShape")
def constant_of_shape(n: Node) -> str:
    value = n.a("value")
    import onnx

    filled = onnx.numpy_helper.to_array(value).reshape(-1)[0] if value is not None else 0.0
    shape = n.whole(0)
    return over(names(len(shape)), shape, f"({number(filled, n.result())} : {n.result().value})")


@template("Constant")
def constant(n: Node) -> str:
    import onnx

    return literal(onnx.numpy_helper.to_array(n.a("value")))


def literal(array: np.ndarray) -> str:
    from tests.onnx.onnx_node import element

    if array.shape:
        return f"[| {', '.join(literal(part) for part in array)} |]"
    return f"({number(array[()], element(array))} : {element(array).value})"


@template("Range")
def range_(n: Node) -> str:
    start, limit, step = (np.asarray(n.inputs[k])[()] for k in range(3))
    size = max(int(np.ceil((limit - start) / step)), 0)
    return f"for i < {size} => {n.x(0)} + cast {n.element().value} i * {n.x(2)}"


@template("DepthToSpace")
def depth_to_space(n: Node) -> str:
    b = n.a("blocksize")
    size = n.shape()[1] // (b * b)
    place = f"((i % {b}) * {b} + j % {b}) * {size} + c" if n.a("mode") == "DCR" else f"(c * {b} + i % {b}) * {b} + j % {b}"
    batch, _, h, w = n.shape()
    return over(["n", "c", "i", "j"], [batch, size, h * b, w * b], f"{n.x()}[n, {place}, i / {b}, j / {b}]")


@template("SpaceToDepth")
def space_to_depth(n: Node) -> str:
    b = n.a("blocksize")
    batch, c, h, w = n.shape()
    if n.a("mode", "DCR") == "CRD":
        where = f"{n.x()}[n, c / {b * b}, i * {b} + c % {b * b} / {b}, j * {b} + c % {b}]"
    else:
        where = f"{n.x()}[n, c % {c}, i * {b} + c / {c} / {b}, j * {b} + c / {c} % {b}]"
    return over(["n", "c", "i", "j"], [batch, c * b * b, h // b, w // b], where)


# ── gathers and scatters ────────────────────────────────────────────────────────────────────────────────────────────────


@template("Gather")
def gather(n: Node) -> str:
    axis, places = n.axis(), n.rank(1)
    i, j = names(n.rank()), names(places, "j")
    shape = [*n.shape()[:axis], *n.shape(1), *n.shape()[axis + 1 :]]
    place = wrapped(at(n.x(1), j), n.shape()[axis])
    body = at(n.x(), [place if k == axis else index for k, index in enumerate(i)])
    return over([*i[:axis], *j, *i[axis + 1 :]], shape, body)


@template("ArrayFeatureExtractor")
def array_feature_extractor(n: Node) -> str:
    i = names(n.rank())
    count = int(np.prod(n.shape(1)))
    places = n.val(reshaped(n, n.x(1), n.shape(1), [count]))
    return over(i, [*n.shape()[:-1], count], at(n.x(), [*i[:-1], f"{places}[{i[-1]}]"]))


@template("GatherElements")
def gather_elements(n: Node) -> str:
    axis, i = n.axis(), names(n.rank())
    place = wrapped(at(n.x(1), i), n.shape()[axis])
    return over(i, n.shape(1), at(n.x(), [place if k == axis else index for k, index in enumerate(i)]))


@template("GatherND")
def gather_nd(n: Node) -> str:
    batch, depth = n.a("batch_dims"), n.shape(1)[-1]
    lead, rest = names(n.rank(1) - 1), names(n.rank() - batch - depth, "j")
    places = [wrapped(at(n.x(1), [*lead, str(k)]), n.shape()[batch + k]) for k in range(depth)]
    shape = [*n.shape(1)[:-1], *n.shape()[batch + depth :]]
    return over([*lead, *rest], shape, at(n.x(), [*lead[:batch], *places, *rest]))


_REDUCTIONS = {"add": ("sum", "+"), "mul": ("prod", "*"), "max": ("max", "max"), "min": ("min", "min")}


def scattered(n: Node, old: str, indices: list[str], shape: list[int], hit: str, update: str, way: str) -> str:
    """An element, changed by all updates that hit it."""
    among = f"for {bounds_of(indices, shape)} where {hit}" if indices else f"for u < 1 where {hit}"
    if way == "none":  # of several the last one
        return f"if (any {among} => true) then (sum {among} => {update}) else {old}"
    head, op = _REDUCTIONS[way]
    combined = f"({head} {among} => {update})"
    changed = f"{old} {op} {combined}" if op in "+*" else f"{op} {old} {combined}"
    return changed if op in "+*" else f"if (any {among} => true) then {changed} else {old}"


def bounds_of(indices: list[str], shape: list[int]) -> str:
    return ", ".join(f"{i} < {s}" for i, s in zip(indices, shape, strict=True))


@template("ScatterElements", "Scatter")
def scatter_elements(n: Node) -> str:
    """Element (i, j) of the updates belongs to row index[i, j] of column j: one that gives a cell is found by search."""
    axis, i = n.axis(), names(n.rank())
    inside = [k for k in range(n.rank()) if k != axis]
    subscripts = ["u" if k == axis else index for k, index in enumerate(i)]
    small = [k for k in inside if n.shape(1)[k] < n.shape()[k]]
    hit = f"{wrapped(at(n.x(1), subscripts), n.shape()[axis])} = cast i64 {i[axis]}"
    if n.element(1) is Element.I32:
        hit = f"{wrapped(at(n.x(1), subscripts), n.shape()[axis])} = {i[axis]}"
    guard = " andalso ".join(f"{i[k]} < {n.shape(1)[k]}" for k in small)
    body = scattered(n, at(n.x(), i), ["u"], [n.shape(1)[axis]], hit, at(n.x(2), subscripts), n.a("reduction", "none"))
    text = f"if {guard} then ({body}) else {at(n.x(), i)}" if guard else body
    return over(i, n.shape(), text)


@template("ScatterND")
def scatter_nd(n: Node) -> str:
    depth = n.shape(1)[-1]
    i, u = names(n.rank()), names(n.rank(1) - 1, "u")
    hit = " andalso ".join(f"{wrapped(at(n.x(1), [*u, str(k)]), n.shape()[k])} = cast i64 {i[k]}" for k in range(depth))
    body = scattered(n, at(n.x(), i), u, list(n.shape(1)[:-1]), hit, at(n.x(2), [*u, *i[depth:]]), n.a("reduction", "none"))
    return over(i, n.shape(), body)


@template("TensorScatter")
def tensor_scatter(n: Node) -> str:
    axis, i = n.axis(-2), names(n.rank())
    start = f"cast i32 {at(n.x(2), ['i0'])}" if n.has(2) else "0"
    size, length = n.shape()[axis], n.shape(1)[axis]
    distance = f"{i[axis]} - {start}"
    if n.a("mode") == "circular":
        distance = f"({distance}) % {size}"
    subscripts = ["d" if k == axis else index for k, index in enumerate(i)]
    text = f"let val d = {distance} in if d >= 0 andalso d < {length} then {at(n.x(1), subscripts)} else {at(n.x(), i)} end"
    return over(i, n.shape(), text)


@template("OneHot")
def one_hot(n: Node) -> str:
    depth = n.whole(1)[0]
    rank = n.rank() + 1
    axis = int(n.a("axis")) % rank
    i = names(n.rank())
    shape = [*n.shape()[:axis], depth, *n.shape()[axis:]]
    to = n.element().value
    hit = f"{at(n.x(), i)} % {number(depth, n.element())} = cast {to} c"
    inside = f"{at(n.x(), i)} >= {number(-depth, n.element())} andalso {at(n.x(), i)} < {number(depth, n.element())}"
    values = n.x(2)
    return over([*i[:axis], "c", *i[axis:]], shape, f"if {inside} andalso {hit} then {values}[1] else {values}[0]")


@template("ReverseSequence")
def reverse_sequence(n: Node) -> str:
    batch, time = n.a("batch_axis"), n.a("time_axis")
    i = names(n.rank())
    length = f"cast i32 {n.x(1)}[{i[batch]}]"
    place = f"if {i[time]} < {length} then {length} - 1 - {i[time]} else {i[time]}"
    return over(i, n.shape(), at(n.x(), [place if k == time else index for k, index in enumerate(i)]))


# ── sizes from data, and order ──────────────────────────────────────────────────────────────────────────────────────────


@template("NonZero")
def non_zero(n: Node) -> str:
    flat = n.val(reshaped(n, n.x(), n.shape(), [int(np.prod(n.shape()))]))
    test = f"{flat}[i]" if n.element() is Element.BOOL else f"{flat}[i] <> {number(0, n.element())}"
    n.vals.append(f"val (at : i32[found]) = nonzero (for i => {test})")
    below = [int(np.prod(n.shape()[k + 1 :])) for k in range(n.rank())]
    rows = [f"for k => cast i64 (at[k] / {b} % {size})" for b, size in zip(below, n.shape(), strict=True)]
    return f"[| {', '.join(rows)} |]"


@template("Compress")
def compress(n: Node) -> str:
    mask = n.x(1)
    if n.a("axis") is None:
        flat = n.val(reshaped(n, n.x(), n.shape(), [int(np.prod(n.shape()))]))
        size, axis, rank = int(np.prod(n.shape())), 0, 1
    else:
        flat, axis, rank = n.x(), n.axis(), n.rank()
        size = n.shape()[axis]
    full = n.val(f"for i < {size} => i < {n.shape(1)[0]} andalso {mask}[i]")
    i = names(rank)
    front = n.val(f"for {' '.join([i[axis], *i[:axis], *i[axis + 1 :]])} => {at(flat, i)}")
    rest = [s for k, s in enumerate(n.shape() if rank > 1 or n.rank() == 1 else [size]) if k != axis]
    n.vals.append(f"val (kept : {n.element().value}{shaped(['found', *rest])}) = filter {full} {front}")
    return f"for {' '.join(i)} => {at('kept', [i[axis], *i[:axis], *i[axis + 1 :]])}"


@template("TopK")
def top_k(n: Node) -> str:
    axis, k = n.axis(-1), n.whole(1)[0]
    i = names(n.rank())
    others = [index for m, index in enumerate(i) if m != axis]
    last = n.val(f"for {' '.join([*others, i[axis]])} => {at(n.x(), i)}")
    if n.element() is Element.U8 or n.a("largest"):
        order = n.val(f"{n.library('tensor.argsort_descending')} {last}") if n.a("largest") else n.val(f"argsort {last}")
    else:
        order = n.val(f"argsort {last}")
    shape = [k if m == axis else s for m, s in enumerate(n.shape())]
    place = at(order, [*others, i[axis]])
    values = over(i, shape, at(last, [*others, place]))
    return f"({values}, {over(i, shape, f'cast i64 {place}')})"


def unique_rows(n: Node, axis: int) -> str:
    """The different slices along an axis, compared element by element from their beginnings."""
    i, rows = names(n.rank()), n.shape()[axis]
    others = [k for k in range(n.rank()) if k != axis]
    size = int(np.prod([n.shape()[k] for k in others]))
    front = n.val(f"for {' '.join([i[axis], *(i[k] for k in others)])} => {at(n.x(), i)}")
    flat = n.val(reshaped(n, front, [rows, *(n.shape()[k] for k in others)], [rows, size]))
    n.fun(
        "compared",
        f"a b = loop (found = 0) for c < {size} => let val k = {size - 1} - c "
        f"in if {flat}[a, k] < {flat}[b, k] then -1 else if {flat}[a, k] > {flat}[b, k] then 1 else found end",
    )
    n.vals.append(f"val (kept : i32[found]) = nonzero (for a < {rows} => not (any for b < a => compared a b = 0))")
    order = "kept"
    if n.a("sorted"):
        n.vals.append("val order = argsort (for u => sum v => if compared kept[v] kept[u] < 0 then 1 else 0)")
        order = n.val("for u => kept[order[u]]")
    values = over_unknown(i, axis, n.shape(), at(n.x(), [*i[:axis], f"{order}[u]", *i[axis + 1 :]]))
    same = f"compared {order}[u] a = 0"
    many = f"for u => sum for a < {rows} where {same} => (1 : i64)"
    return f"({values}, for u => cast i64 {order}[u], for a < {rows} => sum for u where {same} => cast i64 u, {many})"


def over_unknown(indices: list[str], axis: int, shape: tuple[int, ...], body: str) -> str:
    """A tensor of a shape whose size along an axis, where `u` runs, only the data decide."""
    parts = ["u" if k == axis else f"{i} < {s}" for k, (i, s) in enumerate(zip(indices, shape, strict=True))]
    return f"for {', '.join(parts)} => {body}"


@template("Unique")
def unique(n: Node) -> str:
    if n.a("axis") is not None and n.rank() > 1:
        return unique_rows(n, n.axis())
    size = int(np.prod(n.shape()))
    flat = n.val(reshaped(n, n.x(), n.shape(), [size]))
    order = n.val(f"argsort {flat}")
    if n.a("sorted"):
        # In ascending order: where the sorted elements change.
        sorted_ = n.val(f"for i => {flat}[{order}[i]]")
        n.vals.append(f"val (starts : i32[found]) = nonzero (for i < {size} => i = 0 orelse {sorted_}[i] <> {sorted_}[i - 1])")
        values = f"for u => {sorted_}[starts[u]]"
        first = f"for u => cast i64 {order}[starts[u]]"
        many = n.val(f"for u => sum for i < {size} where {sorted_}[i] = {sorted_}[starts[u]] => (1 : i64)")
        inverse = f"for i < {size} => (sum for j < {size} where j >= 1 andalso {sorted_}[j] <= {flat}[i] andalso "
        inverse += f"{sorted_}[j] <> {sorted_}[max 0 (j - 1)] => (1 : i64))"
        return f"({values}, {first}, {inverse}, {many})"
    n.vals.append(f"val (starts : i32[found]) = nonzero (for i < {size} => not (any for j < i => {flat}[j] = {flat}[i]))")
    values, first = f"for u => {flat}[starts[u]]", "for u => cast i64 starts[u]"
    many = f"for u => sum for i < {size} where {flat}[i] = {flat}[starts[u]] => (1 : i64)"
    inverse = f"for i < {size} => sum for u where {flat}[starts[u]] = {flat}[i] => cast i64 u"
    return f"({values}, {first}, {inverse}, {many})"
