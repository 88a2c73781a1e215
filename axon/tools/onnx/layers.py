"""Operators with weights, and those that look along axes: products, convolutions, normalizations, attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from axon.base.data import replace
from axon.shapes.algebra.polynomials import exact_quotient
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.tools.onnx import views
from axon.tools.onnx.graph import Constant, Node, Path
from axon.tools.onnx.moving import axis_of
from axon.tools.onnx.pointwise import binary, masked, single
from axon.tools.onnx.scalars import Number
from axon.tools.onnx.steps import Refused, Value
from axon.tools.onnx.translate import ONE, Operator, Translation, owner
from axon.tools.onnx.views import View

DEFAULT_EPSILON = 1e-5  # of nn's normalizations


def _given(inputs: Sequence[Value | None], number: int) -> Value:
    if number >= len(inputs) or (value := inputs[number]) is None:
        raise Refused(f"its input {number} is missing")
    return value


def _weight(t: Translation, node: Node, number: int) -> Constant | None:
    """A tensor of the file that is an input of a node."""
    return t.constant(node.inputs[number]) if len(node.inputs) > number and node.inputs[number] else None


def _path(t: Translation, constant: Constant) -> Path:
    return owner(t.path_of(constant.name))


def _norm_path(t: Translation, node: Node, scale: Constant) -> Path:
    """The module of a normalization. Exporters keep equal tensors once, as all scales of a model that was not trained: then the
    node stands in another module than its weight."""
    path, scope = _path(t, scale), node.scope
    return scope if scope and path[: len(scope)] != scope and scope[: len(path)] != path else path


# ── products ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def dense(t: Translation, x: Value, w: Constant, b: Constant | None, *, across: bool) -> View:
    """x @ w + b; `across` where w is stored with a row for each output."""
    inner, outer = reversed(w.shape) if across else w.shape
    if b is not None and b.shape not in ((outer,), (1,)):
        raise Refused(f"a bias of the shape {list(b.shape)} is not translated")
    view = t.last(x)
    if view.shape[-1] != Dim.of(inner):
        raise Refused(f"the sizes {render(view.shape[-1])} and {inner} are not known to be equal")
    width = Dim.of(outer)
    if b is not None and b.shape == (outer,):
        fields = {"w": (w.name, "transpose" if across else "same"), "b": (b.name, "same")}
        return t.along_last(view, "dense", width=width, layer=t.layer(_path(t, w), fields))
    tied = _tied(t, w, across=across)
    if tied is not None:
        return t.along_last(view, "product_transposed", [t.weight(tied[0], tied[1])], width=width)
    weight = t.weight(t.path_of(w.name), w, "transpose" if across else "same")
    return t.along_last(view, "product", [weight], width=width)


def _tied(t: Translation, w: Constant, *, across: bool) -> tuple[Path, Constant] | None:
    """A weight of another name that this one is, transposed: an exporter that folds constants writes what is shared twice."""
    import numpy as np

    if across:
        return None
    array = None
    for node in t.graph.nodes:
        if node.op != "Gather":
            continue
        other = t.constant(node.inputs[0])
        if other is not None and other.shape == w.shape[::-1] and other.element == w.element:
            array = w.read() if array is None else array
            if np.array_equal(other.read().T, array):
                return t.path_of(other.name), other
    return None


def _linear(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    w, b = _weight(t, node, 1), _weight(t, node, 2)
    assert w is not None, "an idiom of constants"
    if len(w.shape) != 2:
        raise Refused("a product with a vector is not translated")
    return [dense(t, _given(inputs, 0), w, b, across=False)]


def _gemm(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    w, b = _weight(t, node, 1), _weight(t, node, 2)
    plain = all(node.attributes.get(name, 1.0) == 1.0 for name in ("alpha", "beta")) and not node.attributes.get("transA", 0)
    if not plain or w is None or (b is None and len(node.inputs) > 2 and node.inputs[2]):
        raise Refused("only x @ w + b with the weights of the file is translated")
    return [dense(t, _given(inputs, 0), w, b, across=bool(node.attributes.get("transB", 0)))]


def _matmul(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    w = _weight(t, node, 1)
    if w is not None and len(w.shape) == 2:
        return [dense(t, _given(inputs, 0), w, None, across=False)]
    a, b = t.view(inputs[0]), t.view(inputs[1])
    if len(a.axes) < 2 or len(b.axes) < 2:
        raise Refused("products with vectors are not translated")
    if a.shape[-1] != b.shape[-2]:
        raise Refused(f"the sizes {render(a.shape[-1])} and {render(b.shape[-2])} are not known to be equal")
    if a.shape[-1] == ONE:  # the sum of one product, such as the angles of positions
        return [binary(t, "*", _given(inputs, 0), _given(inputs, 1))]
    if len(a.axes) > 2 and len(b.axes) == 2:  # one matrix for the whole batch
        keys = replace(b, axes=b.axes[::-1], scale=1.0) if _turned(b) else replace(b, scale=1.0)
        made = t.along_last(
            t.last(replace(a, scale=1.0)), "product_transposed" if _turned(b) else "product", [t.result(keys)], width=b.shape[-1]
        )
        return [replace(made, scale=a.scale * b.scale)]
    if len(b.axes) > 2 and a.shape[:-2] != b.shape[:-2]:
        raise Refused("a product whose batches differ is not translated")
    scale = a.scale * b.scale
    a, b = replace(a, scale=1.0), replace(b, scale=1.0)
    attended = _attention(t, a, b) if scale == 1.0 else None
    if attended is not None:
        return [attended]
    shape = (*a.shape[:-1], b.shape[-1])
    if _turned(b):
        keys = replace(b, axes=(*b.axes[:-2], b.axes[-1], b.axes[-2]))
        return [replace(t.add("scores", [t.result(a), t.result(keys)], shape), scale=scale)]
    return [replace(t.add("matmul", [t.result(a), t.result(b)], shape), scale=scale)]


def _turned(view: View) -> bool:
    """Whether the last two axes are read in the other order."""
    place = {d: n for n, d in enumerate(d for r in view.reads for d in r)}
    last, before = view.axes[-1], view.axes[-2]
    return bool(last and before) and place.get(last[0], -1) < place.get(before[0], -1)


def _attention(t: Translation, weights: View, v: View) -> View | None:
    """softmax (q k^T / sqrt d) v, with a mask or without."""
    if not weights.whole:
        return None
    softmax = t.flow.steps[weights.step]
    if softmax.op != "softmax":
        return None
    inner = t.flow.steps[softmax.operands[0]]
    mask: list[int] = []
    match inner.op:
        case "causal":
            kind, scale = "causal", inner.data[0]
        case "masked":
            kind, scale, mask = "masked", inner.data[0], [inner.operands[1]]
        case "scaled_scores":
            kind, scale = "plain", inner.data[0]
        case _:
            return None
    scores = t.flow.steps[inner.operands[0]]
    d = t.flow.shape(scores.operands[0])[-1].constant
    if d is None or not isinstance(scale, float) or not isclose(scale, d**-0.5, rel_tol=1e-5):
        return None
    shape = (*weights.shape[:-1], v.shape[-1])
    more = [inner.data[1], len(weights.shape)] if kind == "masked" else []
    return t.add("attention", [*scores.operands, t.result(v), *mask], shape, data=[kind, *more])


def _fused_attention(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """ONNX's own operator, from set 23 on."""
    q, k, v = (t.view(inputs[i]) for i in range(3))
    known = {"is_causal", "scale", "softmax_precision"}
    if len(q.axes) != 4 or {*node.attributes} - known or any(node.outputs[1:]) or any(i is not None for i in list(inputs)[4:]):
        raise Refused("only attention over [batch, heads, positions, features], without a cache, is translated")
    width = q.shape[-1].constant
    if width is None or not isclose(node.attributes.get("scale", width**-0.5), width**-0.5, rel_tol=1e-5):
        raise Refused("only a scale of 1 / sqrt d is translated")
    groups = exact_quotient(q.shape[1], k.shape[1])
    if groups is None:
        raise Refused(f"{render(k.shape[1])} heads of keys do not serve {render(q.shape[1])} of queries alike")
    if groups != ONE:  # each serves several
        k, v = (_repeated(x, groups) for x in (k, v))
    shape = (*q.shape[:-1], v.shape[-1])
    operands = [t.result(q), t.result(k), t.result(v)]
    mask = inputs[3] if len(inputs) > 3 else None
    if mask is None:
        return [t.add("attention", operands, shape, data=["causal" if node.attributes.get("is_causal", 0) else "plain"])]
    if node.attributes.get("is_causal", 0):
        raise Refused("a mask beside a causal one is not translated")
    added = t.as_places(mask)
    if added.element == "bool":
        added = replace(added, value=t.compute("if", added.value, Number(0.0), Number(float("-inf"))), element="f32")
    scores = t.add("scores", operands[:2], (*q.shape[:-1], k.shape[-2]))
    step = t.flow.steps[masked(t, replace(scores, scale=width**-0.5), added).step]
    if step.op == "causal":
        return [t.add("attention", operands, shape, data=["causal"])]
    return [t.add("attention", [*operands, step.operands[1]], shape, data=["masked", step.data[1], 4])]


def _repeated(x: View, times: Dim) -> View:
    """Every head so many times, one after the other."""
    wide = views.expanded(views.inserted(x, [2]), [*x.shape[:2], times, *x.shape[2:]])
    found = views.reshaped(wide, [x.shape[0], x.shape[1] * times, *x.shape[2:]])
    assert found is not None
    return found


def _softmax(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = t.view(inputs[0])
    if axis_of(node.attributes.get("axis", -1), len(x.axes)) != len(x.axes) - 1:
        raise Refused("softmax along another axis than the last is not translated")
    name = "log_softmax" if node.op == "LogSoftmax" else "softmax"
    if x.whole and t.flow.steps[x.step].op == "scores":
        x = t.add("scaled_scores", [x.step], x.shape, data=[x.scale])
    return [t.along_last(t.last(x), name)]


# ── normalizations ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _layer_norm(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, scale, shift = t.view(inputs[0]), _weight(t, node, 1), _weight(t, node, 2)
    if axis_of(node.attributes.get("axis", -1), len(x.axes)) != len(x.axes) - 1:
        raise Refused("a normalization of more axes than the last is not translated")
    if scale is None or shift is None or len(scale.shape) != 1:
        raise Refused("only the weights of the file, a scale and a shift, are translated")
    layer = t.layer(_norm_path(t, node, scale), {"scale": (scale.name, "same"), "shift": (shift.name, "same")})
    epsilon = single(node.attributes.get("epsilon", 1e-5))
    return [t.along_last(t.last(x), "layer_norm", layer=layer, data=[epsilon])]


def _rms_norm(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, scale = t.view(inputs[0]), _weight(t, node, 1)
    if axis_of(node.attributes.get("axis", -1), len(x.axes)) != len(x.axes) - 1 or scale is None or len(scale.shape) != 1:
        raise Refused("only a normalization of the last axis with the weights of the file is translated")
    layer = t.layer(_norm_path(t, node, scale), {"": (scale.name, "same")})
    epsilon = single(node.attributes.get("epsilon", 1e-5))
    return [t.along_last(t.last(x), "rms_norm", layer=layer, data=[epsilon])]


def _batch_norm(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, weights = t.view(inputs[0]), [_weight(t, node, i) for i in range(1, 5)]
    named = dict(zip(("scale", "shift", "mean", "variance"), weights, strict=True))
    if node.attributes.get("training_mode", 0) or any(w is None for w in weights):
        raise Refused("only a normalization by the statistics of the file is translated")
    fields = {field: (w.name, "same") for field, w in named.items() if w is not None}
    assert named["scale"] is not None
    layer = t.layer(_norm_path(t, node, named["scale"]), fields)
    epsilon = single(node.attributes.get("epsilon", 1e-5))
    return [t.add("batch_norm", [t.result(x)], x.shape, layer=layer, data=[epsilon])]


def _instance_norm(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """Of each channel; a group normalization is exported as one of groups for channels, whose weights say nothing."""
    x, scale, shift = t.view(inputs[0]), _weight(t, node, 1), _weight(t, node, 2)
    if single(node.attributes.get("epsilon", 1e-5)) != 1e-5:
        raise Refused("an epsilon other than 1e-5 is not translated: the library's `nn.instance_norm` has that one")
    if scale is None or shift is None:
        raise Refused("only the weights of the file, a scale and a shift, are translated")
    if (scale.read() == 1.0).all() and (shift.read() == 0.0).all():
        return [t.add("call", [t.result(x)], x.shape, data=["nn.instance_standardize"])]
    layer = t.layer(_norm_path(t, node, scale), {"scale": (scale.name, "same"), "shift": (shift.name, "same")})
    return [t.add("instance_norm", [t.result(x)], x.shape, layer=layer)]


def _group_norm(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, scale, shift = t.view(inputs[0]), _weight(t, node, 1), _weight(t, node, 2)
    if single(node.attributes.get("epsilon", 1e-5)) != 1e-5:
        raise Refused("an epsilon other than 1e-5 is not translated: the library's `nn.group_norm` has that one")
    if scale is None or shift is None or scale.count != x.shape[1].constant or shift.count != scale.count:
        raise Refused("only the weights of the file, a scale and a shift for each channel, are translated")
    layer = t.layer(_norm_path(t, node, scale), {"scale": (scale.name, "flat"), "shift": (shift.name, "flat")})
    return [t.add("group_norm", [t.result(x)], x.shape, layer=layer, sizes=[node.attributes["num_groups"]])]


# ── convolutions and pools ──────────────────────────────────────────────────────────────────────────────────────────────


def _one(values: Sequence[int], what: str) -> int:
    if len({*values}) > 1:
        raise Refused(f"{what} differ from axis to axis ({', '.join(map(str, values))}), which is not translated")
    return values[0]


def _window(t: Translation, node: Node, rank: int) -> tuple[int, int, int]:
    """Stride, padding and dilation, where they are the same along every axis and on both sides."""
    if node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Refused(f"padding by `{node.attributes['auto_pad']}` is not translated: export with numbers")
    stride = _one(node.attributes.get("strides", (1,) * rank), "strides")
    padding = _one(node.attributes.get("pads", (0,) * 2 * rank), "paddings")
    return stride, padding, _one(node.attributes.get("dilations", (1,) * rank), "dilations")


def _conv(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, k, b = t.view(inputs[0]), _weight(t, node, 1), _weight(t, node, 2)
    if k is None or (b is None and len(node.inputs) > 2 and node.inputs[2]):
        raise Refused("only a convolution with the weights of the file is translated")
    rank = len(k.shape) - 2
    if not 1 <= rank <= 3:
        raise Refused(f"a convolution over {rank} axes is not translated")
    stride, padding, dilation = _window(t, node, rank)
    groups = node.attributes.get("group", 1)
    spread = [(d + 2 * padding - dilation * (r - 1) - 1) // stride + 1 for d, r in zip(x.shape[2:], k.shape[2:], strict=True)]
    shape = (x.shape[0], Dim.of(k.shape[0]), *spread)
    plain = dilation == 1 and groups == 1
    sizes = [stride, padding] if plain else [stride, padding, dilation, groups]
    base, path = t.result(x), _path(t, k)
    if b is not None:
        layer = t.layer(path, {"k": (k.name, "same"), "b": (b.name, "same")})
        return [t.add("conv", [base], shape, layer=layer, sizes=sizes, data=[rank, plain, True])]
    layer = t.layer(path, {"": (k.name, "same")})
    return [t.add("conv", [base], shape, layer=layer, sizes=sizes, data=[rank, plain, False])]


def _conv_transpose(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, k, b = t.view(inputs[0]), _weight(t, node, 1), _weight(t, node, 2)
    if k is None or (b is None and len(node.inputs) > 2 and node.inputs[2]) or "output_shape" in node.attributes:
        raise Refused("only a transposed convolution with the weights of the file, and no given shape, is translated")
    rank = len(k.shape) - 2
    stride, padding, dilation = _window(t, node, rank)
    extra = _one(node.attributes.get("output_padding", (0,) * rank), "output paddings")
    groups = node.attributes.get("group", 1)
    pairs = zip(x.shape[2:], k.shape[2:], strict=True)
    spread = [(d - 1) * stride + dilation * (r - 1) + 1 + extra - 2 * padding for d, r in pairs]
    shape = (x.shape[0], Dim.of(k.shape[1] * groups), *spread)
    fields = {"k": (k.name, "same"), "b": (b.name, "same")} if b is not None else {"": (k.name, "same")}
    layer, sizes = t.layer(_path(t, k), fields), [stride, padding, dilation, groups, extra]
    return [t.add("conv_transpose", [t.result(x)], shape, layer=layer, sizes=sizes, data=[rank, b is not None])]


def _pool(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = t.view(inputs[0])
    rank = len(x.axes) - 2
    window = _one(node.attributes["kernel_shape"], "windows")
    stride, padding, dilation = _window(t, node, rank)
    if node.attributes.get("ceil_mode", 0):
        raise Refused("windows that hang over the end (ceil_mode) are not translated")
    if not 1 <= rank <= 3 or len(node.outputs) > 1:
        raise Refused("only pools over one, two or three axes, without indices, are translated")
    average = node.op == "AveragePool"
    if average and (dilation != 1 or (padding and not node.attributes.get("count_include_pad", 0))):
        raise Refused("a mean over windows that leaves out their padding is not translated")
    spread = [(d + 2 * padding - dilation * (window - 1) - 1) // stride + 1 for d in x.shape[2:]]
    name = f"nn.{'average' if average else 'max'}_pool"
    suffix = {1: "1d", 2: "2d" if dilation != 1 else "", 3: "3d"}[rank]
    if dilation != 1:
        function, sizes = f"{name}{suffix}_with", [window, stride, padding, dilation]
    elif rank == 2 and window == stride and padding == 0:
        function, sizes = name, [window]
    else:
        function, sizes = f"{name}{suffix or '_with'}", [window, stride, padding]
    return [t.add("call", [t.result(x)], (*x.shape[:2], *spread), data=[function], sizes=sizes)]


def _global_pool(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = t.view(inputs[0])
    made = t.add("call", [t.result(x)], x.shape[:2], data=["nn.global_average_pool"])
    return [views.inserted(made, range(2, len(x.axes)))]


def _resize(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x, mode = t.view(inputs[0]), node.attributes.get("mode", "nearest")
    place = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    stretched = node.attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if not stretched or any(node.attributes.get(name, 0) for name in ("antialias", "axes")):
        raise Refused("smoothing (antialias), aspect ratios and axes are not translated: give the sizes of all axes")
    new = _resized(t, node, x, inputs)
    if len(new) < 3 or new[:-2] != x.shape[:-2]:
        raise Refused("only the last two axes, the rows and columns of images, are resized")
    if mode == "linear":
        if place not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
            raise Refused(f"`{place}` is not translated: export with `align_corners=True` or `align_corners=False`")
        if place == "pytorch_half_pixel" and any(d == ONE for d in new[-2:]):
            raise Refused("one row or column of an image by `pytorch_half_pixel` is not translated: export with `half_pixel`")
        return [t.add("resize", [t.result(x)], new, sizes=new[-2:], data=[place == "align_corners"])]
    factors = [exact_quotient(a, b) for a, b in zip(new[-2:], x.shape[-2:], strict=True)]
    factor = factors[0].constant if factors[0] is not None and factors[0] == factors[1] else None
    rounding = node.attributes.get("nearest_mode", "round_prefer_floor")
    if mode != "nearest" or (rounding, place) not in (("floor", "asymmetric"), ("round_prefer_floor", "half_pixel")):
        raise Refused(f'`{mode}` is not translated so: export with `mode="nearest"` or `mode="bilinear"`')
    if factor is None or len(new) != 4:
        raise Refused('the nearest pixel is translated only at a whole multiple of an image\'s size: export with `mode="bilinear"`')
    return [t.add("upsample", [t.result(x)], new, sizes=[factor])]


def _resized(t: Translation, node: Node, x: View, inputs: Sequence[Value | None]) -> tuple[Dim, ...]:
    """The sizes of the result. Where they are a scale's, it is theirs exactly, so that the pixels lie where the sizes say."""
    scales = _weight(t, node, 2)
    if scales is None or not scales.count:
        if len(inputs) < 4 or inputs[3] is None:
            raise Refused("scales that depend on data are not translated: export with the sizes of the result")
        return tuple(t.dims(inputs[3], "the sizes"))
    new = []
    for scale, extent in zip(map(float, scales.read()), x.shape, strict=True):
        wide = scale * extent.constant if extent.constant is not None else None
        if scale.is_integer() and scale >= 1:
            new.append(extent * int(scale))
        elif wide is not None and wide.is_integer() and wide >= 1:
            new.append(Dim.of(int(wide)))
        else:
            raise Refused(
                f"{render(extent)} pixels times {scale:g} are no whole number, as far as one can tell: export with `size=`"
            )
    return tuple(new)


# ── reductions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _reduce(function: str) -> Operator:
    def operator(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
        x = t.view(inputs[0])
        rank = len(x.axes)
        axes = node.attributes.get("axes")
        if axes is None and len(inputs) > 1 and inputs[1] is not None:
            axes = t.integers(inputs[1], "the list of axes")
        if axes is None:
            axes = range(rank) if not node.attributes.get("noop_with_empty_axes", 0) else ()
        gone = sorted(axis_of(a, rank) for a in axes)
        kept = [i for i in range(rank) if i not in gone]
        if not gone:
            return [x]
        base, shape = t.result(x), [x.shape[i] for i in kept]
        if gone == [rank - 1] and function == "mean":
            made = t.add("call", [base], shape, data=["stats.mean"])
        elif function == "mean" and rank > 2 and gone == list(range(2, rank)):
            made = t.add("call", [base], shape, data=["nn.global_average_pool"])
        else:
            made = t.add("reduce", [base], shape, data=[function, rank, tuple(gone)])
        return [views.inserted(made, gone) if node.attributes.get("keepdims", 1) else made]

    return operator


def _best(function: str) -> Operator:
    def operator(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
        x = t.view(inputs[0])
        axis = axis_of(node.attributes.get("axis", 0), len(x.axes))
        if axis != len(x.axes) - 1 or node.attributes.get("select_last_index", 0):
            raise Refused("only the first best along the last axis is translated")
        made = t.add("call", [t.result(x)], x.shape[:-1], data=[f"tensor.{function}"], element="i32")
        return [t.as_places(views.inserted(made, [axis]) if node.attributes.get("keepdims", 1) else made)]

    return operator


OPERATORS: dict[str, Operator] = {
    "Linear": _linear, "Gemm": _gemm, "MatMul": _matmul, "Attention": _fused_attention, "Softmax": _softmax, "LogSoftmax": _softmax,
    "LayerNormalization": _layer_norm, "RMSNormalization": _rms_norm, "SimplifiedLayerNormalization": _rms_norm,
    "BatchNormalization": _batch_norm, "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm, "Conv": _conv, "ConvTranspose": _conv_transpose,
    "MaxPool": _pool, "AveragePool": _pool, "GlobalAveragePool": _global_pool,
    "Resize": _resize, "ReduceMean": _reduce("mean"), "ReduceSum": _reduce("sum"), "ReduceMax": _reduce("max"),
    "ReduceMin": _reduce("min"), "ReduceProd": _reduce("prod"), "ArgMax": _best("argmax"), "ArgMin": _best("argmin"),
}  # fmt: skip
