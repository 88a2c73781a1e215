"""Operators that compute each element of the elements at its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axon.base.data import replace
from axon.shapes.dimension import Dim
from axon.tools.onnx import views
from axon.tools.onnx.graph import Node
from axon.tools.onnx.moving import axis_of, broadcast, elementwise
from axon.tools.onnx.scalars import Compute, Number, Scalar, Whole, least, variables, whole
from axon.tools.onnx.steps import Places, Refused, Step, Value
from axon.tools.onnx.translate import ONE, Operator, Translation
from axon.tools.onnx.views import Digit, Digits, View


def _given(inputs: Sequence[Value | None], number: int) -> Value:
    if number >= len(inputs) or (value := inputs[number]) is None:
        raise Refused(f"its input {number} is missing")
    return value


# ── of one operand ──────────────────────────────────────────────────────────────────────────────────────────────────────


def apply(t: Translation, x: Value, function: str, data: Sequence[Any] = ()) -> Value:
    """A function of Axon that is applied to each element: `nn.relu`, or with numbers, `nn.leaky_relu 0.1`."""
    if isinstance(x, Places):
        if function in ("exp", "log", "sqrt", "abs", "sin", "cos", "floor", "ceil", "round", "tanh") and not data:
            return replace(x, value=t.compute(function, x.value))
        x = t.view(x)
    base = x if not (x.stretched or x.fixed) and x.scale == 1.0 else t.whole(t.result(x))
    made = t.add("call", [base.step], t.flow.shape(base.step), data=[function, *data])
    return replace(base, step=made.step)


def _function(name: str) -> Operator:
    return lambda t, node, inputs: [apply(t, _given(inputs, 0), name)]


def _with(name: str, attribute: str, otherwise: float, plain: str | None = None) -> Operator:
    """A function with a number; the one without it where that number is what it has."""

    def operator(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
        number = single(node.attributes.get(attribute, otherwise))
        if plain is not None and number == single(otherwise):
            return [apply(t, _given(inputs, 0), plain)]
        return [apply(t, _given(inputs, 0), name, [number])]

    return operator


def single(number: float) -> float:
    """A number of ONNX's, which are f32, by its fewest digits: 1e-5, not 9.999999747378752e-06."""
    import numpy as np

    return float(str(np.float32(number)))


def _gelu(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    tanh = node.attributes.get("approximate", "none") == "tanh"
    return [apply(t, _given(inputs, 0), "nn.gelu_tanh" if tanh else "nn.gelu")]


def _hard_sigmoid(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    alpha, beta = single(node.attributes.get("alpha", 0.2)), single(node.attributes.get("beta", 0.5))
    if alpha != single(1 / 6) or beta != 0.5:
        raise Refused(f"only the slope 1 / 6 and the offset 0.5 are translated, not {alpha} and {beta}")
    return [apply(t, _given(inputs, 0), "nn.hard_sigmoid")]


def _swish(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    if node.attributes.get("alpha", 1.0) != 1.0:
        raise Refused("only alpha 1 is translated")
    return [apply(t, _given(inputs, 0), "nn.silu")]


def _clip(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = _given(inputs, 0)
    bounds = [t.number(inputs[i]) if len(inputs) > i and inputs[i] is not None else None for i in (1, 2)]
    if any(b is None and len(inputs) > i and inputs[i] is not None for i, b in enumerate(bounds, 1)):
        raise Refused("it is clipped to what depends on data")
    if isinstance(x, Places):
        value = x.value
        for function, bound in zip(("max", "min"), bounds, strict=True):
            if bound is not None:
                value = t.compute(function, whole(int(bound)) if x.element == "i32" else Number(float(bound)), value)
        return [replace(x, value=value)]
    low, high = bounds
    if (low, high) == (0.0, 6.0):
        return [apply(t, x, "nn.relu6")]
    if low is not None and high is not None:
        return [apply(t, x, "tensor.clip", [low, high])]
    if low is not None:
        x_ = apply(t, x, "max", [low])
        return [x_]
    return [x] if high is None else [apply(t, x, "min", [high])]


def _negate(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = _given(inputs, 0)
    if isinstance(x, View):
        return [replace(x, scale=-x.scale)]
    return [replace(x, value=t.compute("-", whole(0) if x.element == "i32" else Number(0.0), x.value))]


def _reciprocal(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    return [binary(t, "/", t.places([], lambda _: Number(1.0), "f32"), _given(inputs, 0))]


def _is_nan(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    return [elementwise(t, lambda x: Compute("not", (Compute("=", (x, x)),)), [_given(inputs, 0)], "bool")]


# ── of two ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _operator(op: str) -> Operator:
    def operator(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
        if node.attributes.get("fmod", 0):
            raise Refused("remainders with the sign of what is divided are not translated")
        total = _given(inputs, 0)
        if op == "/" and isinstance(total, Places) and total.element == "i32" and not _never_negative(t, total.value):
            raise Refused("a quotient of integers that may be negative is not translated: ONNX rounds it towards 0, Axon down")
        for i in range(1, len(inputs)):
            total = binary(t, op, total, _given(inputs, i))
        return [total]

    return operator


def _never_negative(t: Translation, value: Scalar) -> bool:
    low = least(value.dim, t.bounds) if isinstance(value, Whole) else None
    return low is not None and low >= 0


def binary(t: Translation, op: str, a: Value, b: Value) -> Value:
    if isinstance(a, Places) and isinstance(b, Places):
        return elementwise(t, lambda x, y: t.compute(op, x, y), [a, b], 0)
    for x, y, swapped in ((a, b, False), (b, a, True)):
        number = t.number(y)
        if number is not None and isinstance(x, View):
            done = _with_number(t, op, x, float(number), swapped)
            if broadcast([a.shape, b.shape]) != list(x.shape):
                done = views.expanded(done, broadcast([a.shape, b.shape]))
            return done
    if op == "+":
        for x, y in ((a, b), (b, a)):
            if isinstance(x, View) and x.whole and t.flow.steps[x.step].op == "scores":
                return masked(t, x, y)
    return _of_tensors(t, op, t.view(a), t.view(b))


def _with_number(t: Translation, op: str, x: View, number: float, swapped: bool) -> View:
    """A scale goes along with the view, the rest is a step before it."""
    if op in "+-" and number == 0 and not (op == "-" and swapped):
        return x
    if op == "*":
        return replace(x, scale=x.scale * number)
    if op == "/" and not swapped:
        return replace(x, scale=x.scale / number)
    base = x if not (x.stretched or x.fixed) and x.scale == 1.0 else t.whole(t.result(x))
    if op == "**" and not swapped and number == 2.0:
        made = t.add("call", [base.step], t.flow.shape(base.step), data=["square"])
    elif op == "**" and not swapped and number == 0.5:
        made = t.add("call", [base.step], t.flow.shape(base.step), data=["sqrt"])
    else:
        made = t.add("with_number", [base.step], t.flow.shape(base.step), data=[op, number, swapped])
    return replace(base, step=made.step)


def masked(t: Translation, scores: View, mask: Value) -> View:
    """Scores of attention with what is added to them: nothing where a position may look, a large negative number elsewhere."""
    rank = len(scores.axes)
    if isinstance(mask, Places) and len(mask.axes) >= 2:
        below = t.compute("<=", whole(mask.axes[-1]), whole(mask.axes[-2]))
        match mask.value:
            case Compute("if", (condition, Number(0.0), Number(low))) if condition == below and low < -1e4:
                return t.add("causal", [scores.step], t.flow.shape(scores.step), data=[scores.scale])
    view = t.view(mask)
    view = t.whole(t.result(view)) if view.scale != 1.0 or view.fixed else view
    lead: tuple[Digits, ...] = ((),) * (rank - len(view.axes))
    axes = (*lead, *view.axes)
    read = [d for r in view.reads for d in r]
    kept = [i for i, axis in enumerate(axes) if axis and axis[0] in read]
    if any(len(axis) > 1 for axis in axes) or [axes[i][0] for i in kept] != read:
        view = t.whole(t.result(replace(view, axes=tuple(axes[i] for i in kept))))
    return t.add("masked", [scores.step, view.step], t.flow.shape(scores.step), data=[scores.scale, tuple(kept)])


def _of_tensors(t: Translation, op: str, a: View, b: View) -> Value:
    shape = broadcast([a.shape, b.shape])
    scale = 1.0
    if op == "*":
        scale = a.scale * b.scale
        a, b = replace(a, scale=1.0), replace(b, scale=1.0)
    a, b = (t.cut(x if x.scale == 1.0 else t.whole(t.result(x))) for x in (a, b))
    for _ in range(2):
        for x, y, swapped in ((a, b, False), (b, a, True)):
            if list(x.shape) == shape and not x.stretched:
                other = _seen_from(t, x, y)
                if other is not None:
                    turned = _rope(t, x.step, other) if op == "+" else None
                    if turned is not None:
                        return replace(x, step=turned, scale=scale)
                    operands = [other, x.step] if swapped else [x.step, other]
                    made = t.add("binary", operands, t.flow.shape(x.step), data=[op], element=t.flow.steps[x.step].element)
                    return replace(x, step=made.step, scale=scale)
        a, b = (x if x.stretched or _only_stretches(x) else t.whole(t.result(x)) for x in (a, b))
    view = t.view(elementwise(t, lambda x, y: t.compute(op, x, y), [a, b], 0))
    return replace(view, scale=scale)


def _only_stretches(x: View) -> bool:
    """Whether it is a whole result, but for axes of one place."""
    return replace(x, axes=tuple(axis for axis in x.axes if axis)).whole


def _rope(t: Translation, a: int, b: int) -> int | None:
    """x * cos + (the halves of x exchanged, the first of them negative) * sin, of angles that stand twice: a rotary embedding."""
    steps = t.flow.steps
    for straight, turned in ((a, b), (b, a)):
        match steps[straight], steps[turned]:
            case (
                Step(op="binary", operands=(x, cosines), data=("*",)),
                Step(op="binary", operands=(halves, sines), data=("*",)),
            ):
                width = steps[x].shape[-1].constant
                if width is None or width % 2 or steps[x].shape != steps[halves].shape:
                    continue
                angles = [_doubled(t, step, name) for step, name in ((cosines, "cos"), (sines, "sin"))]
                if angles[0] is not None and angles[0] == angles[1] and _exchanged(t, halves, x, width // 2):
                    return t.add("rope", [x, angles[0]], steps[x].shape).step
    return None


def _doubled(t: Translation, step: int, function: str) -> int | None:
    """Of cos or sin of a tensor that stands beside itself, that tensor."""
    match t.flow.steps[step]:
        case Step(op="call", operands=(both,), data=(name,)) if name == function:
            match t.flow.steps[both]:
                case Step(op="concat", operands=(one, two), shape=(_, _)) if one == two:
                    return one
    return None


def _exchanged(t: Translation, halves: int, x: int, half: int) -> bool:
    match t.flow.steps[halves]:
        case Step(op="concat", operands=(first, second), data=(axis, rank)) if isinstance(rank, int) and axis == rank - 1:
            match t.flow.steps[first]:
                case Step(op="scale", operands=(high,), data=(scale,)) if scale == -1.0:
                    return _half(t, high, x, half) and _half(t, second, x, 0)
    return False


def _half(t: Translation, step: int, x: int, start: int) -> bool:
    match t.flow.steps[step]:
        case Step(op="slice", operands=(source,), data=(bounds,)) if source == x and isinstance(bounds, tuple):
            *others, last = bounds
            return all(b is None for b in others) and last is not None and len(last) == 3 and last[0] == Dim.of(start)
    return False


def _seen_from(t: Translation, x: View, y: View) -> int | None:
    """The step that gives y as it meets the step of x, where both are moved alike: the same shape, or one that stretches by itself
    because its dimensions are the last ones."""
    if x.whole and y.whole:
        return y.step
    images: dict[Digit, Digit] = {}
    lead: tuple[Digits, ...] = ((),) * (len(x.axes) - len(y.axes))
    for mine, its in zip(x.axes, (*lead, *y.axes), strict=True):
        if not its or (views.product(its) == ONE and views.product(mine) != ONE):
            continue
        if [d.extent for d in mine] != [d.extent for d in its]:
            return None
        images.update(zip(its, mine, strict=True))
    read = tuple(tuple(images.get(d, d) if isinstance(d, Digit) else d for d in r) for r in y.reads)
    tail = x.reads[len(x.reads) - len(read) :]
    if read == tail:
        return y.step
    used = [d for r in read for d in r]
    if (
        x.whole
        and not y.fixed
        and used
        and sorted(d.symbol.id for d in used if isinstance(d, Digit))
        == sorted(d.symbol.id for r in tail for d in r if isinstance(d, Digit))
    ):
        return t.result(View(y.step, read, tuple(axis for axis in x.axes[len(x.axes) - len(tail) :])))
    return None


def _compared(op: str) -> Operator:
    return lambda t, node, inputs: [
        elementwise(t, lambda x, y: t.compute(op, x, y), [_given(inputs, 0), _given(inputs, 1)], "bool")
    ]


def _not(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    return [elementwise(t, lambda x: t.compute("not", x), [_given(inputs, 0)], "bool")]


def _extreme(op: str) -> Operator:
    def operator(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
        total = _given(inputs, 0)
        for i in range(1, len(inputs)):
            total = binary(t, op, total, _given(inputs, i))
        return [total]

    return operator


# ── along an axis ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _cumulative(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    x = _given(inputs, 0)
    axis = axis_of(t.integers(_given(inputs, 1), "the axis")[0], len(x.shape))
    if node.attributes.get("exclusive", 0) or node.attributes.get("reverse", 0):
        raise Refused("sums that begin at the end, or leave out their own element, are not translated")
    if isinstance(x, Places) and x.axes[axis] not in variables(x.value) and isinstance(x.value, Whole):
        value = Whole((Dim.of(x.axes[axis]) + 1) * x.value.dim)
        return [replace(x, value=value)]
    if axis != len(x.shape) - 1:
        raise Refused("sums along another axis than the last are not translated")
    return [t.along_last(t.last(x), "call", data=["stats.cumulative_sum"])]


OPERATORS: dict[str, Operator] = {
    **{name: _function(f"nn.{name.lower()}") for name in ("Relu", "Sigmoid", "Softplus", "Mish", "Softsign")},
    **{name: _function(name.lower()) for name in (
        "Exp", "Log", "Sqrt", "Abs", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Tanh",
        "Erf", "Floor", "Ceil", "Round", "Sign")},
    "HardSwish": _function("nn.hard_swish"), "HardSigmoid": _hard_sigmoid, "Swish": _swish, "Gelu": _gelu, "Clip": _clip,
    "LeakyRelu": _with("nn.leaky_relu", "alpha", 0.01), "Elu": _with("nn.elu", "alpha", 1.0), "Selu": _function("nn.selu"),
    "Celu": _with("nn.celu", "alpha", 1.0), "Neg": _negate, "Reciprocal": _reciprocal, "IsNaN": _is_nan, "Not": _not,
    "Add": _operator("+"), "Sub": _operator("-"), "Mul": _operator("*"), "Div": _operator("/"), "Pow": _operator("**"),
    "Sum": _operator("+"), "Max": _extreme("max"), "Min": _extreme("min"), "CumSum": _cumulative,
    "Equal": _compared("="), "Less": _compared("<"), "LessOrEqual": _compared("<="), "Greater": _compared(">"),
    "GreaterOrEqual": _compared(">="), "And": _compared("andalso"), "Or": _compared("orelse"), "Mod": _operator("%"),
}  # fmt: skip
