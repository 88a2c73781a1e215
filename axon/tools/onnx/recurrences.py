"""LSTM and GRU: a direction is a run over the steps with weights of its own, and a backward one a run over the flipped steps."""

from __future__ import annotations

from collections.abc import Sequence

from axon.base.data import replace
from axon.shapes.dimension import Dim
from axon.tools.onnx import views
from axon.tools.onnx.graph import Constant, Node, Path
from axon.tools.onnx.scalars import Number
from axon.tools.onnx.steps import Refused, Value
from axon.tools.onnx.translate import Operator, Translation, owner
from axon.tools.onnx.views import View

_ACTIVATIONS = {"lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh")}
_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def _recurrence(t: Translation, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    kind, x, (w, r, b) = node.op.lower(), t.view(inputs[0]), (_weight(t, node, i) for i in (1, 2, 3))
    direction = node.attributes.get("direction", "forward")
    if w is None or r is None or (b is None and len(node.inputs) > 3 and node.inputs[3]):
        raise Refused("only the weights of the file are translated")
    if node.attributes.get("layout", 0):
        raise Refused("only the steps first (layout 0) are translated")
    known = _ACTIVATIONS[kind] * _DIRECTIONS[direction]
    if node.attributes.get("activations", known) != known or node.attributes.get("input_forget", 0) or "clip" in node.attributes:
        raise Refused("other activations, clipping and coupled gates are not translated")
    if any(len(inputs) > i and inputs[i] is not None for i in (4, 7)):
        raise Refused("lengths of sequences and peepholes are not translated: export it for sequences of one length")
    path = _layer(t, node, kind, w, r, b)
    both = direction == "bidirectional"
    if both and node.scope:  # what joins the directions stands with them
        t.node = replace(node, scope=path)
    names = ("forward", "backward") if both else ("",)
    steps, examples = x.shape[:2]
    operand = t.result(x)
    states: list[View] = []
    lasts: list[list[View]] = [[], []]
    for number, name in enumerate(names):
        own = (*path, name) if name else path
        backward = name == "backward" or direction == "reverse"
        start, zeros = _start(t, inputs, [5] if kind == "gru" else [5, 6], number, examples, r.shape[2])
        flipped = t.add("call", [operand], x.shape, data=["tensor.flip_first"]).step if backward else operand
        operands = [flipped, *start]
        data = [zeros, kind == "gru" and not node.attributes.get("linear_before_reset", 0)]
        units = Dim.of(r.shape[2])
        if node.outputs[0]:
            made = t.add(kind, operands, (steps, examples, units), layer=own, data=data)
            states.append(t.add("call", [made.step], made.shape, data=["tensor.flip_first"]) if backward else made)
        for place, output in enumerate(node.outputs[1:]):
            if output:
                lasts[place].append(t.add(f"{kind}_last", operands, (examples, units), layer=own, data=[*data, place + 1]))
    return [_joined(t, parts) if parts else x for parts in (states, *lasts)]


def _weight(t: Translation, node: Node, number: int) -> Constant | None:
    return t.constant(node.inputs[number]) if len(node.inputs) > number and node.inputs[number] else None


def _layer(t: Translation, node: Node, kind: str, w: Constant, r: Constant, b: Constant | None) -> Path:
    """The record of the weights; of two directions, one for each."""
    fields: dict[str, tuple[str, str]] = {}
    for number in range(w.shape[0]):
        lead = ("forward.", "backward.")[number] if w.shape[0] == 2 else ""
        fields[f"{lead}input"] = (w.name, f"{kind}_input {number}")
        fields[f"{lead}state"] = (r.name, f"{kind}_input {number}")
        for field in ("b", "c") if kind == "gru" else ("b",):
            change = f"{kind}_{field} {number}" if b is not None else f"{kind}_zeros {number}"
            fields[f"{lead}{field}"] = (b.name if b is not None else w.name, change)
    return t.layer(node.scope or owner(t.path_of(w.name)), fields)


def _start(
    t: Translation, inputs: Sequence[Value | None], places: Sequence[int], number: int, examples: Dim, units: int
) -> tuple[list[int], bool]:
    """The state, and of an LSTM the memory, that a direction starts with; none of them where all are zeros."""
    given = [inputs[i] if len(inputs) > i else None for i in places]
    if all(value is None or t.number(value) == 0 for value in given):
        return [], True
    zero = t.places([examples, Dim.of(units)], lambda _: Number(0.0), "f32")
    return [t.result(zero if v is None or t.number(v) == 0 else views.selected(t.view(v), 0, Dim.of(number))) for v in given], False


def _joined(t: Translation, parts: Sequence[View]) -> View:
    """With an axis of directions before the examples; two stand side by side, as what follows wants them nearly always."""
    rank = len(parts[0].axes)
    if len(parts) == 1:
        return views.inserted(parts[0], [rank - 2])
    *lead, units = parts[0].shape
    beside = t.add("concat", [p.step for p in parts], (*lead, units * 2), data=[rank - 1, rank])
    apart = views.reshaped(beside, [*lead, Dim.of(2), units])
    assert apart is not None
    return views.transposed(apart, [*range(rank - 2), rank - 1, rank - 2, rank])


OPERATORS: dict[str, Operator] = {"LSTM": _recurrence, "GRU": _recurrence}
