"""Templates of operators that read images between their pixels, and that choose among boxes."""

from __future__ import annotations

import numpy as np

from tests.onnx.onnx_node import Node, NotOffered, at, bounds, names, number, over, reshaped, shaped, template


def keys_cubic(a: float) -> str:
    """Keys' cubic kernel (1981) as a function of the distance from its middle."""
    inner = f"(({a + 2} * y - {a + 3}) * y) * y + 1.0"
    outer = f"(({a} * y - ({5 * a})) * y + ({8 * a})) * y - ({4 * a})"
    return f"x = let val y = abs x in if y <= 1.0 then {inner} else if y < 2.0 then {outer} else 0.0 end"


# ── Resize ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@template("Resize", "Upsample")
def resize(n: Node) -> str:
    """One dimension after the other: each element is a weighted sum of `taps` neighbours of its place in the input."""
    rank, shape = n.rank(), list(n.shape())
    sizes, scales, roi = resized(n)
    text = n.x()
    for axis in range(rank):
        whole = roi is None or (roi[axis] == 0 and roi[axis + rank] == 1)
        if scales[axis] == 1 and sizes[axis] == shape[axis] and whole:
            continue
        part = None if roi is None else (roi[axis], roi[axis + rank])
        text = n.val(resized_along(n, text, shape, axis, sizes[axis], scales[axis], part))
        shape[axis] = sizes[axis]
    return text


def resized(n: Node) -> tuple[list[int], list[float], list[float] | None]:
    """The sizes of the result, by how much each dimension grows, and the part of the input that is seen, in every dimension."""
    rank = n.rank()
    axes = n.axes() or list(range(rank))
    place = {"Upsample": 1}.get(n.operator, 2)
    sizes, scales = list(n.shape()), [1.0] * rank
    roi = None
    if n.operator == "Resize" and n.has(1) and np.size(n.inputs[1]):
        roi = [0.0] * rank + [1.0] * rank
        for k, axis in enumerate(axes):
            roi[axis], roi[rank + axis] = float(n.inputs[1][k]), float(n.inputs[1][len(axes) + k])
    if n.has(place) and np.size(n.inputs[place]):
        for k, axis in enumerate(axes):
            scales[axis] = float(n.inputs[place][k])
            sizes[axis] = int(scales[axis] * n.shape()[axis])
        return sizes, scales, roi
    for k, axis in enumerate(axes):
        sizes[axis] = n.whole(3)[k]
        scales[axis] = sizes[axis] / n.shape()[axis]
    policy = n.a("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        scale = (min if policy == "not_larger" else max)(scales[axis] for axis in axes)
        for axis in axes:
            scales[axis], sizes[axis] = scale, int(scale * n.shape()[axis] + 0.5)
    return sizes, scales, roi


def resized_along(n: Node, x: str, shape: list[int], axis: int, size: int, scale: float, roi: tuple[float, float] | None) -> str:
    old, mode, antialias = shape[axis], n.a("mode"), bool(n.a("antialias", 0))
    width = scale * old  # of the result, before it was rounded
    i = names(len(shape))
    y = f"cast f64 {i[axis]}"
    start, end = roi or (0.0, 1.0)
    match n.a("coordinate_transformation_mode", "asymmetric"):
        case "align_corners":
            place = "0.0" if width == 1 else f"{y} * {float(old - 1)} / {width - 1}"
        case "asymmetric":
            place = f"{y} / {scale}"
        case "tf_crop_and_resize":
            step = (end - start) * (old - 1)
            place = f"{step / 2 if width == 1 else f'{y} * {step / (width - 1)}'} + {start * (old - 1)}"
        case "pytorch_half_pixel" if width == 1:
            place = "-0.5"
        case "half_pixel_symmetric":
            place = f"{old / 2 * (1 - size / width)} + ({y} + 0.5) / {scale} - 0.5"
        case _:
            place = f"({y} + 0.5) / {scale} - 0.5"
    near = min(scale, 1.0) if antialias else 1.0  # kernels are wider where the image shrinks
    reach = {"nearest": 1, "linear": 1, "cubic": 2}[mode]
    first = int(np.floor(-reach / near)) + 1
    taps = range(first, 2 - first)
    if mode == "cubic":
        n.fun(f"cubic{axis}", keys_cubic(n.a("cubic_coeff_a", -0.75)))
    weights = []
    for tap in taps:
        away = f"(({tap}.0 - r) * {near})"
        match mode:
            case "linear":
                weights.append(f"max 0.0 (1.0 - abs {away})")
            case "cubic":
                weights.append(f"cubic{axis} {away}")
            case _:
                right = {
                    "round_prefer_floor": "r > 0.5", "round_prefer_ceil": "r >= 0.5", "ceil": "true", "floor": "r = 1.0",
                }[n.a("nearest_mode", "floor")]  # fmt: skip
                weights.append(f"(if {right} then {tap}.0 else {1 - tap}.0)")
    there = [f"p + ({tap}) >= 0 andalso p + ({tap}) < {old}" for tap in taps]
    if n.a("exclude_outside", 0):
        weights = [f"(if {inside} then {w} else 0.0)" for inside, w in zip(there, weights, strict=True)]
    pixels = [at(x, [*i[:axis], f"max 0 (min {old - 1} (p + ({tap})))", *i[axis + 1 :]]) for tap in taps]
    total = " + ".join(f"w{k} * cast f64 {pixel}" for k, pixel in enumerate(pixels))
    value = f"cast _ (({total}) / ({' + '.join(f'w{k}' for k in range(len(weights)))}))"
    if roi is not None and n.a("coordinate_transformation_mode") == "tf_crop_and_resize":
        value = f"if x < 0.0 orelse x > {float(old - 1)} then {float(n.a('extrapolation_value', 0.0))} else {value}"
    steps = [f"val x = {place}", "val left = if x = floor x then x - 1.0 else floor x", "val r = x - left", "val p = cast i32 left"]
    steps += [f"val w{k} = {w}" for k, w in enumerate(weights)]
    out = [*shape[:axis], size, *shape[axis + 1 :]]
    body = over(i, out, f"let {' '.join(steps)} in {value} end")
    return f"({body} : {n.element().value}{shaped(out)})"


# ── grids ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@template("AffineGrid")
def affine_grid(n: Node) -> str:
    batch, _, *sizes = n.whole(1)
    rank = len(sizes)
    i = names(rank)
    places = []
    for index, size in zip(i, sizes, strict=True):
        if n.a("align_corners"):
            places.append(f"(-1.0 + 2.0 / {float(size - 1)} * cast f32 {index})")
        else:
            places.append(f"(-1.0 + (2.0 * cast f32 {index} + 1.0) / {float(size)})")
    terms = [f"{n.x()}[n, k, {m}] * {place}" for m, place in enumerate(places[::-1])]
    return over(["n", *i, "k"], [batch, *sizes, rank], " + ".join([*terms, f"{n.x()}[n, k, {rank}]"]))


@template("GridSample")
def grid_sample(n: Node) -> str:
    spatial, mode, padding, corners = n.shape()[2:], n.a("mode"), n.a("padding_mode"), bool(n.a("align_corners"))
    rank = len(spatial)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[mode]
    n.fun(
        "reflected",
        "(v : f32) (low : f32) (high : f32) = let val range = high - low val d = if v < low then low - v else v - high "
        "val turns = floor (d / range) val rest = d - turns * range "
        "val even = turns / 2.0 = floor (turns / 2.0) in "
        "if v < low then (if even then low + rest else high - rest) "
        "else if v > high then (if even then high - rest else low + rest) else v end",
    )
    n.fun("weight", keys_cubic(-0.75) if mode == "cubic" else "(x : f32) = max 0.0 (1.0 - abs x)")
    i, steps, pixel, weights = names(rank), [], [], []
    for m, size in enumerate(spatial):
        given = f"{n.x(1)}[n, {', '.join(i)}, {rank - 1 - m}]"
        v = f"(({given} + 1.0) / 2.0 * {float(size - 1)})" if corners else f"((({given} + 1.0) * {float(size)} - 1.0) / 2.0)"
        low, high = ("0.0", f"{size - 1}.0") if corners else ("(-0.5)", f"{size - 0.5}")
        v = f"round {v}" if mode == "nearest" else v
        if padding == "border":
            v = f"(let val v = {v} in if v < {low} orelse v > {high} then min (max v 0.0) {size - 1}.0 else v end)"
        if padding == "reflection":
            v = f"reflected {v} {low} {high}"
        steps.append(f"val v{m} = {v}")
        index = f"cast i32 (floor v{m}) + k{m} - {max(taps // 2 - 1, 0)}"
        if padding == "border":
            index = f"max 0 (min {size - 1} ({index}))"
        if padding == "reflection":
            index = f"cast i32 (reflected (cast f32 ({index})) {low} {high})"
        pixel.append(index)
        if taps > 1:
            weights.append(f"weight (cast f32 (k{m} - {taps // 2 - 1}) - (v{m} - floor v{m}))")
    value = " * ".join([*weights, at(n.x(), ["n", "c", *pixel], "0.0" if padding == "zeros" else None)])
    text = f"let {' '.join(steps)} in sum for {bounds(names(rank, 'k'), [taps] * rank)} => {value} end"
    return over(["n", "c", *i], [*n.shape()[:2], *n.shape(1)[1:-1]], text)


def between(x: str, lead: list[str]) -> str:
    """The value of an image at a place (y, x) between its pixels; 0 outside."""
    part = "{w} * " + at(x, [*lead, "cast i32 (floor y) + a", "cast i32 (floor x) + b"], "0.0")
    weight = "(1.0 - abs (cast f32 a - (y - floor y))) * (1.0 - abs (cast f32 b - (x - floor x)))"
    return f"(sum for a < 2, b < 2 => {part.format(w=weight)})"


@template("DeformConv")
def deform_conv(n: Node) -> str:
    stride, dilation = list(n.a("strides") or [1, 1]), list(n.a("dilations") or [1, 1])
    pads, groups, offsets = list(n.a("pads") or [0] * 4), n.a("group", 1), n.a("offset_group", 1)
    channels, (kh, kw) = n.shape(1)[1], n.shape(1)[2:]
    out, images = n.shape(2)[2:], n.shape()[1]
    tap, first = f"(i * {kw} + j)", "c" if groups == 1 else f"(o / {n.shape(1)[0] // groups} * {channels} + c)"
    group = f"({first} / {images // offsets})"
    moved = [f"{n.x(2)}[n, {group} * {2 * kh * kw} + 2 * {tap} + {m}, p, q]" for m in range(2)]
    y, x = (
        f"cast f32 ({index} * {stride[m]} + {k} * {dilation[m]} - {pads[m]}) + {moved[m]}"
        for m, (index, k) in enumerate((("p", "i"), ("q", "j")))
    )
    value = f"{n.x(1)}[o, c, i, j] * " + between(n.x(), ["n", first])
    if n.has(4):
        value += f" * {n.x(4)}[n, {group} * {kh * kw} + {tap}, p, q]"
    body = f"sum for c < {channels}, i < {kh}, j < {kw} => let val y = {y} val x = {x} in {value} end"
    bias = f"{n.x(3)}[o] + " if n.has(3) else ""
    return over(["n", "o", "p", "q"], [n.shape()[0], n.shape(1)[0], *out], f"{bias}({body})")


@template("RoiAlign")
def roi_align(n: Node) -> str:
    h, w = n.shape()[2:]
    rows, columns, ratio = n.a("output_height"), n.a("output_width"), n.a("sampling_ratio")
    if ratio <= 0:
        raise NotOffered("as many samples as the data say")
    half = n.a("coordinate_transformation_mode") == "half_pixel"
    scale, offset = number(n.a("spatial_scale"), n.element()), "0.5" if half else "0.0"

    def placed(k: int, index: str, sub: str, size: int, parts: int) -> list[str]:
        ends = [f"({n.x(1)}[r, {k + m}] * {scale} - {offset})" for m in (0, 2)]
        extent = f"({ends[1]} - {ends[0]})" if half else f"(max ({ends[1]} - {ends[0]}) 1.0)"
        name = "xy"[k]
        place = f"{ends[0]} + (cast f32 {index} + (cast f32 {sub} + 0.5) / {ratio}.0) * {extent} / {parts}.0"
        return [
            f"val {name}{name} = {place}",
            f"val {name} = min (max {name}{name} 0.0) {size - 1}.0",
            f"val {name}l = cast i32 (floor {name})",
            f"val {name}r = {name} - floor {name}",
        ]

    steps = [*placed(1, "p", "i", h, rows), *placed(0, "q", "j", w, columns)]
    outside = f"yy < -1.0 orelse yy > {h}.0 orelse xx < -1.0 orelse xx > {w}.0"
    parts = [
        f"{wy} * {wx} * {n.x()}[{n.x(2)}[r], c, min ({py}) {h - 1}, min ({px}) {w - 1}]"
        for py, wy in (("yl", "(1.0 - yr)"), ("yl + 1", "yr"))
        for px, wx in (("xl", "(1.0 - xr)"), ("xl + 1", "xr"))
    ]
    here = f"for i < {ratio}, j < {ratio} => let {' '.join(steps)} in if {outside} then 0.0 else "
    if n.a("mode") == "max":
        body = f"max {here}max (max ({parts[0]}) ({parts[1]})) (max ({parts[2]}) ({parts[3]})) end"
    else:
        body = f"(sum {here}{' + '.join(parts)} end) / {ratio * ratio}.0"
    return over(["r", "c", "p", "q"], [n.shape(1)[0], n.shape()[1], rows, columns], body)


# ── boxes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@template("NonMaxSuppression")
def non_max_suppression(n: Node) -> str:
    """Boxes in descending order of scores, without those that overlap one that was taken before."""
    (batch, count, _), classes = n.shape(), n.shape(1)[1]
    most = n.whole(2)[0] if n.has(2) else 0
    x = n.x()
    if n.a("center_point_box"):
        ends = [[f"{x}[b, i, {1 - m}] {sign} {x}[b, i, {3 - m}] / 2.0" for m in range(2)] for sign in "-+"]
    else:
        ends = [[f"{least} {x}[b, i, {m}] {x}[b, i, {m + 2}]" for m in range(2)] for least in ("min", "max")]
    low, high = (n.val(f"for b < {batch}, i < {count} => [| {', '.join(e)} |]") for e in ends)
    order = n.val(f"{n.library('tensor.argsort_descending')} {n.x(1)}")
    n.fun("area", f"b i = prod k => {high}[b, i, k] - {low}[b, i, k]")
    n.fun("common", f"b i j = prod k => max 0.0 (min {high}[b, i, k] {high}[b, j, k] - max {low}[b, i, k] {low}[b, j, k])")
    n.fun("overlap", f"b i j = let val c = common b i j in c > 0.0 andalso c / (area b i + area b j - c) > {n.x(3)}[0] end")
    enough = f"{n.x(1)}[b, c, i] > {n.x(4)}[0]" if n.has(4) else "true"
    taken = n.val(
        f"for b < {batch}, c < {classes} => (loop (taken = for i < {count} => false, found = 0) for r < {count} => "
        f"let val i = {order}[b, c, r] "
        f"val good = {enough} andalso found < {most} andalso not (any for j < {count} where taken[j] => overlap b i j) "
        "in (for j => taken[j] orelse (j = i andalso good), if good then found + 1 else found) end).1"
    )
    ranked = n.val(f"for b c, r < {count} => {taken}[b, c, {order}[b, c, r]]")
    flat = n.val(reshaped(n, ranked, [batch, classes, count], [batch * classes * count]))
    n.vals.append(f"val (at : i32[found]) = nonzero {flat}")
    b, c, r = f"at[k] / {classes * count}", f"at[k] / {count} % {classes}", f"at[k] % {count}"
    return f"for k => [| cast i64 ({b}), cast i64 ({c}), cast i64 {order}[{b}, {c}, {r}] |]"
