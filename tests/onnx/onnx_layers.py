"""Templates of layers: normalizations, losses, recurrent networks, attention."""

from __future__ import annotations

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from axon.base.element import Element
from tests.onnx.onnx_moves import literal
from tests.onnx.onnx_node import Node, NotOffered, at, bounds, names, number, over, reshaped, stretched, template


def real(n: Node, name: str, default: float = 0.0) -> str:
    return number(float(n.a(name, default)), Element.F32)


def channels(rank: int) -> list[str]:
    return ["n", "c", *names(rank - 2, "p")]


# ── normalizations ──────────────────────────────────────────────────────────────────────────────────────────────────────


@template("BatchNormalization")
def batch_normalization(n: Node) -> str:
    i = channels(n.rank())
    x, epsilon = at(n.x(), i), real(n, "epsilon")
    mean, variance, results = n.x(3), n.x(4), ""
    if n.a("training_mode"):
        k = ["m", "c", *names(n.rank() - 2, "q")]
        inner = bounds([k[0], *k[2:]], [n.shape()[0], *n.shape()[2:]])
        count = float(n.inputs[0].size // n.shape()[1])
        now = n.val(f"for c => (sum for {inner} => {at(n.x(), k)}) / {count}")
        spread = n.val(f"for c => (sum for {inner} => ({at(n.x(), k)} - {now}[c]) ** 2) / {count}")
        momentum = real(n, "momentum")
        results = "".join(f", {old} * {momentum} + {new} * (1.0 - {momentum})" for old, new in ((mean, now), (variance, spread)))
        mean, variance = now, spread
    body = f"({x} - {mean}[c]) * rsqrt ({variance}[c] + {epsilon}) * {n.x(1)}[c] + {n.x(2)}[c]"
    text = over(i, n.shape(), body)
    return f"({text}{results})" if results else text


@template("InstanceNormalization")
def instance_normalization(n: Node) -> str:
    return grouped(n, n.shape()[1], f"* {n.x(1)}[c] + {n.x(2)}[c]")


@template("GroupNormalization")
def group_normalization(n: Node) -> str:
    if n.shape(1)[0] != n.shape()[1]:
        size = n.shape()[1] // n.a("num_groups")
        return grouped(n, n.a("num_groups"), f"* {n.x(1)}[c / {size}] + {n.x(2)}[c / {size}]")
    return grouped(n, n.a("num_groups"), f"* {n.x(1)}[c] + {n.x(2)}[c]")


def grouped(n: Node, groups: int, affine: str) -> str:
    size = n.shape()[1] // groups
    k = names(n.rank() - 2, "q")
    inner = bounds(["d", *k], [size, *n.shape()[2:]])
    count = float(size * np.prod(n.shape()[2:]))
    element = at(n.x(), ["n", f"g * {size} + d", *k])
    mean = n.val(f"for n < {n.shape()[0]}, g < {groups} => (sum for {inner} => {element}) / {count}")
    spread = n.val(f"for n < {n.shape()[0]}, g < {groups} => (sum for {inner} => ({element} - {mean}[n, g]) ** 2) / {count}")
    i = channels(n.rank())
    body = f"({at(n.x(), i)} - {mean}[n, c / {size}]) * rsqrt ({spread}[n, c / {size}] + {real(n, 'epsilon')}) {affine}"
    return over(i, n.shape(), body)


@template("LayerNormalization", "RMSNormalization")
def layer_normalization(n: Node) -> str:
    axis, rank = n.axis(-1), n.rank()
    i = names(rank)
    k = names(rank - axis, "k")
    inner, count = bounds(k, n.shape()[axis:]), float(np.prod(n.shape()[axis:]))
    element = at(n.x(), [*i[:axis], *k])
    lead, outer = i[:axis], list(n.shape()[:axis])
    scale = at(n.x(1), stretched(n.shape(1), i))
    if n.operator == "RMSNormalization":
        unit = n.val(over(lead, outer, f"rsqrt ((sum for {inner} => {element} ** 2) / {count} + {real(n, 'epsilon')})"))
        return over(i, n.shape(), f"{at(n.x(), i)} * {at(unit, lead)} * {scale}")
    mean = n.val(over(lead, outer, f"(sum for {inner} => {element}) / {count}"))
    unit = n.val(
        over(lead, outer, f"rsqrt ((sum for {inner} => ({element} - {at(mean, lead)}) ** 2) / {count} + {real(n, 'epsilon')})")
    )
    shift = f" + {at(n.x(2), stretched(n.shape(2), i))}" if n.has(2) else ""
    result = over(i, n.shape(), f"({at(n.x(), i)} - {at(mean, lead)}) * {at(unit, lead)} * {scale}{shift}")
    kept = [*outer, *[1] * (rank - axis)]
    others = [over(i, kept, at(t, lead)) for k, t in ((1, mean), (2, unit)) if n.wants(k)]
    return f"({', '.join([result, *others])})" if others else result


@template("MeanVarianceNormalization")
def mean_variance_normalization(n: Node) -> str:
    axes = n.axes() or [0, 2, 3]
    i = names(n.rank())
    inner = [f"k{m}" if m in axes else i[m] for m in range(n.rank())]
    left = [m for m in range(n.rank()) if m not in axes]
    bound = bounds([inner[m] for m in axes], [n.shape()[m] for m in axes])
    count = float(np.prod([n.shape()[m] for m in axes]))
    lead, outer = [i[m] for m in left], [n.shape()[m] for m in left]
    mean = n.val(over(lead, outer, f"(sum for {bound} => {at(n.x(), inner)}) / {count}"))
    squares = n.val(over(lead, outer, f"(sum for {bound} => {at(n.x(), inner)} ** 2) / {count}"))
    m, s = at(mean, lead), at(squares, lead)
    return over(i, n.shape(), f"({at(n.x(), i)} - {m}) / (sqrt ({s} - {m} ** 2) + 1e-9)")


@template("Dropout")
def dropout(n: Node) -> str:
    training = n.has(2) and bool(n.inputs[2])
    ratio = float(n.inputs[1]) if n.has(1) else float(n.a("ratio", 0.5) or 0.0)
    if training and ratio > 0:
        raise NotOffered("random numbers")
    return f"({n.x()}, for ..i => {n.x()}[..i] = {n.x()}[..i])" if n.wants(1) else n.x()


@template("SwiGLU")
def swiglu(n: Node) -> str:
    return f"{n.x()} * {n.library('nn.sigmoid')} ({real(n, 'alpha', 1.0)} * {n.x()}) * {n.x(1)}"


# ── losses ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@template("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def likelihood(n: Node) -> str:
    rank = n.rank()
    x, indices = n.x(), ["n", *names(rank - 2, "p")]
    outer = [n.shape()[0], *n.shape()[2:]]
    chances = x
    if n.operator == "SoftmaxCrossEntropyLoss":
        element = at(x, ["n", "k", *indices[1:]])
        most = n.val(over(indices, outer, f"max k => {element}"))
        total = n.val(over(indices, outer, f"log (sum k => exp ({element} - {at(most, indices)})) + {at(most, indices)}"))
        chances = n.val(over(["n", "c", *indices[1:]], n.shape(), f"{at(x, ['n', 'c', *indices[1:]])} - {at(total, indices)}"))
    ignored = n.a("ignore_index")
    label = at(n.x(1), indices)
    weight = f"{n.x(2)}[{label}]" if n.has(2) else "1.0"
    if ignored is not None:
        weight = f"(if {label} = {number(ignored, n.element(1))} then 0.0 else {weight})"
    weights = n.val(over(indices, outer, weight))
    value = f"-{at(chances, ['n', label, *indices[1:]])} * {at(weights, indices)}"
    if ignored is not None:
        value = f"if {label} = {number(ignored, n.element(1))} then 0.0 else {value}"
    losses = n.val(over(indices, outer, value))
    inner = bounds(indices, outer)
    text = losses
    if n.a("reduction") in ("sum", "mean"):
        text = f"(sum for {inner} => {at(losses, indices)})"
    if n.a("reduction") == "mean":
        text = f"{text} / (sum for {inner} => {at(weights, indices)})"
    return f"({text}, {chances})" if n.wants(1) else text


# ── recurrent networks ──────────────────────────────────────────────────────────────────────────────────────────────────


@template("RNN", "GRU", "LSTM")
def recurrent(n: Node) -> str:
    """One direction after the other. Gates are rows of the weights, in ONNX's order (i o f c; z r h)."""
    if n.given("activations") or n.a("clip"):
        raise NotOffered("activations of one's own or clipping")
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[n.operator]
    h, directions = n.a("hidden_size"), n.shape(1)[0]
    x = n.x() if not n.a("layout") else n.val(f"for t i c => {n.x()}[i, t, c]")
    steps, batch = (n.shape()[1], n.shape()[0]) if n.a("layout") else n.shape()[:2]
    zeros = n.val(f"for i < {batch}, j < {h} => (0.0 : {n.element().value})")
    every, last, cells = [], [], []
    for d in range(directions):
        backwards = n.a("direction") == "reverse" or d == 1
        bias = f" + {n.x(3)}[{d}, g * {h} + j]" if n.has(3) else ""
        own = f" + {n.x(3)}[{d}, {gates * h} + g * {h} + j]" if n.has(3) else ""
        length = f"{n.x(4)}[i]" if n.has(4) else str(steps)
        step = f"max 0 ({length} - 1 - t)" if backwards else "t"
        given = n.val(
            f"for t < {steps}, i < {batch}, g < {gates}, j < {h} => "
            f"(sum c => {x}[{step}, i, c] * {n.x(1)}[{d}, g * {h} + j, c]){bias}"
        )

        def first(k: int, d: int = d) -> str:
            if not n.has(k):
                return zeros
            place = f"i, {d}, j" if n.a("layout") else f"{d}, i, j"
            return n.val(f"for i j => {n.x(k)}[{place}]")

        def held(after: str, before: str = "s", length: str = length) -> str:
            """A state behind the end of its sequence stays as it was."""
            if not n.has(4):
                return after
            return f"let val q = {after} in for i j => if t < {length} then q[i, j] else {before}[i, j] end"

        state = first(5)
        product = f"sum k => s[i, k] * {n.x(2)}[{d}, g * {h} + j, k]"
        sigmoid = n.library("nn.sigmoid")
        if n.operator == "RNN":
            body = f"for i < {batch}, j < {h} => let val g = 0 in tanh ({given}[t, i, 0, j] + ({product}){own}) end"
            states = n.val(f"unfold (s = {state}) for t < {steps} => {held(body)}")
        elif n.operator == "GRU":
            n.fun(f"own{d}", f"s = for i < {batch}, g < 3, j < {h} => ({product}){own}")
            body = f"let val o = own{d} s "
            body += f"val z = for i j => {sigmoid} ({given}[t, i, 0, j] + o[i, 0, j]) "
            body += f"val r = for i j => {sigmoid} ({given}[t, i, 1, j] + o[i, 1, j]) "
            if n.a("linear_before_reset"):
                body += f"val c = for i j => tanh ({given}[t, i, 2, j] + r[i, j] * o[i, 2, j]) "
            else:
                body += f"val q = own{d} (for i j => r[i, j] * s[i, j]) "
                body += f"val c = for i j => tanh ({given}[t, i, 2, j] + q[i, 2, j]) "
            body += "in for i j => (1.0 - z[i, j]) * c[i, j] + z[i, j] * s[i, j] end"
            states = n.val(f"unfold (s = {state}) for t < {steps} => {held(body)}")
        else:
            peep = [f" + {n.x(7)}[{d}, {m * h} + j] * {{m}}" if n.has(7) else "" for m in range(3)]
            memory = first(6)
            here = f"for i < {batch}, j < {h}"
            body = f"let val o = for i < {batch}, g < 4, j < {h} => {given}[t, i, g, j] + ({product}){own} "
            body += f"val a = {here} => {sigmoid} (o[i, 0, j]{peep[0].format(m='m[i, j]')}) "
            body += f"val f = {here} => {sigmoid} (o[i, 2, j]{peep[2].format(m='m[i, j]')}) "
            body += f"val c = {here} => f[i, j] * m[i, j] + a[i, j] * tanh o[i, 3, j] "
            body += f"val b = {here} => {sigmoid} (o[i, 1, j]{peep[1].format(m='c[i, j]')}) "
            body += f"in ({held(f'{here} => b[i, j] * tanh c[i, j]')}, {held('c', 'm')}) end"
            both = n.val(f"unfold (s = {state}, m = {memory}) for t < {steps} => {body}")
            states = n.val(f"{both}.1")
            cells.append(n.val(f"for i j => {both}.2[{steps - 1}, i, j]"))
        last.append(n.val(f"for i j => {states}[{steps - 1}, i, j]"))
        seen = f"{states}[{step}, i, j]"
        seen = f"if t < {length} then {seen} else 0.0" if n.has(4) else seen
        every.append(n.val(f"for t < {steps}, i < {batch}, j < {h} => {seen}"))

    def beside(parts: list[str], subscripts: str) -> str:
        return (
            f"{parts[0]}[{subscripts}]"
            if len(parts) == 1
            else f"if d = 0 then {parts[0]}[{subscripts}] else {parts[1]}[{subscripts}]"
        )

    tail = f"i < {batch}, d < {directions}" if n.a("layout") else f"d < {directions}, i < {batch}"
    whole = f"for i < {batch}, t < {steps}, d < {directions}, j < {h}" if n.a("layout") else f"for t < {steps}, {tail}, j < {h}"
    results = [f"{whole} => {beside(every, 't, i, j')}", f"for {tail}, j < {h} => {beside(last, 'i, j')}"]
    if cells:
        results.append(f"for {tail}, j < {h} => {beside(cells, 'i, j')}")
    wanted = [r for k, r in enumerate(results) if n.wants(k)]
    return f"({', '.join(wanted)})" if len(wanted) > 1 else wanted[0]


# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@template("RotaryEmbedding")
def rotary_embedding(n: Node) -> str:
    heads = n.a("num_heads")
    if n.rank() == 3:
        b, s, size = n.shape()
        d = size // heads
        x = n.val(reshaped(n, n.x(), n.shape(), [b, s, heads, d]))
        x = n.val(f"for b h s c => {x}[b, s, h, c]")
    else:
        (b, heads, s, d), x = n.shape(), n.x()
    size = n.a("rotary_embedding_dim") or d
    half = size // 2
    angle = f"{{}}[{n.x(3)}[b, i], c]" if n.has(3) else "{}[b, i, c]"
    pair, inter = ("c % 2", True) if n.a("interleaved") else (f"c / {half}", False)
    which = "c / 2" if inter else f"c % {half}"
    cos, sin = (f"(let val c = {which} in {angle.format(n.x(k))} end)" for k in (1, 2))
    first, second = ("2 * (c / 2)", "2 * (c / 2) + 1") if inter else (f"c % {half}", f"c % {half} + {half}")
    one, two = f"{x}[b, h, i, {first}]", f"{x}[b, h, i, {second}]"
    body = f"if {pair} = 0 then {cos} * {one} - {sin} * {two} else {sin} * {one} + {cos} * {two}"
    if size < d:
        body = f"if c < {size} then ({body}) else {x}[b, h, i, c]"
    text = over(["b", "h", "i", "c"], [b, heads, s, d], body)
    if n.rank() == 4:
        return text
    made = n.val(text)
    return over(["b", "i", "e"], n.shape(), f"{made}[b, e / {d}, i, e % {d}]")


@template("Attention")
def attention(n: Node) -> str:
    """Scores, a bias that adds up masks, a softmax that gives 0 to rows without keys, and values."""
    kind = n.element()

    def heads(k: int, number_of: int) -> tuple[str, tuple[int, ...]]:
        if n.rank(k) == 4:
            return n.x(k), n.shape(k)
        b, s, size = n.shape(k)
        d = size // number_of
        return n.val(f"for b < {b}, h < {number_of}, s < {s}, c < {d} => {n.x(k)}[b, s, h * {d} + c]"), (b, number_of, s, d)

    q, (b, hq, s, d) = heads(0, n.a("q_num_heads"))
    k, (_, hk, t, _) = heads(1, n.a("kv_num_heads"))
    v, (_, _, _, e) = heads(2, n.a("kv_num_heads"))
    past = n.shape(4)[2] if n.has(4) else 0
    if past:

        def after(old: str, new: str, size: int) -> str:
            here = f"for b < {b}, h < {hk}, t < {past + t}, c < {size}"
            return n.val(f"{here} => if t < {past} then {old}[b, h, t, c] else {new}[b, h, t - {past}, c]")

        k, v = after(n.x(4), k, d), after(n.x(5), v, e)
    t += past
    group = hq // hk
    h = "h" if group == 1 else f"h / {group}"
    root = number(float(kind.dtype.type(np.sqrt(n.a("scale") or 1 / np.sqrt(d)))), kind)
    here, place = f"for b < {b}, h < {hq}, i < {s}, j < {t} =>", ["b", "h", "i", "j"]
    scores = n.val(f"{here} sum c => ({root} * {q}[b, h, i, c]) * ({root} * {k}[b, {h}, j, c])")
    cap = n.a("softcap")
    if cap:
        scores = n.val(f"{here} {number(cap, kind)} * tanh ({scores}[b, h, i, j] / {number(cap, kind)})")
    bias = attention_bias(n, s, t, past, place)
    biased, rows = scores, "true"
    if bias:
        bias = n.val(f"{here} ({bias} : {kind.value})")
        biased = n.val(f"{here} {scores}[b, h, i, j] + {bias}[b, h, i, j]")
        rows = f"(any j => {bias}[b, h, i, j] > -inf)"
    most = n.val(f"for b h i => if {rows} then (max j => {biased}[b, h, i, j]) else 0.0")
    weights = n.val(f"{here} if {rows} then exp ({biased}[b, h, i, j] - {most}[b, h, i]) else 0.0")
    total = n.val("for b h i => sum j => " + f"{weights}[b, h, i, j]")
    chances = n.val(f"{here} if {rows} then {weights}[b, h, i, j] / {total}[b, h, i] else 0.0")
    out = f"for b < {b}, h < {hq}, i < {s}, c < {e} => sum j => {chances}[b, h, i, j] * {v}[b, {h}, j, c]"
    if n.rank() == 3:
        made = n.val(out)
        out = f"for b < {b}, i < {s}, c < {hq * e} => {made}[b, c / {e}, i, c % {e}]"
    stage = {2: biased, 3: chances}.get(n.a("qk_matmul_output_mode", 0), scores)
    wanted = [r for m, r in enumerate([out, k, v, stage]) if n.wants(m)]
    return f"({', '.join(wanted)})" if len(wanted) > 1 else wanted[0]


def attention_bias(n: Node, s: int, t: int, past: int, place: list[str]) -> str:
    """What is added to the scores: the mask, and -inf outside of the causal triangle, the window and the keys that there are."""
    terms, kept = [], []
    lengths = f"cast i32 {n.x(6)}[b]" if n.has(6) else ""
    offset = str(past) if past or not lengths else f"({lengths} - {s})"
    if n.has(3):
        shape, logical = n.shape(3), n.element(3) is Element.BOOL
        subscripts = stretched(shape, place)
        short = 1 < shape[-1] < t
        given = at(n.x(3), subscripts, ("false" if logical else "(-inf)") if short else None)
        terms.append(f"(if {given} then 0.0 else -inf)" if logical else given)
    if n.a("is_causal"):
        kept.append(f"j <= i + {offset}")
    left, right = n.a("left_window_size", -1), n.a("right_window_size", -1)
    if left >= 0:
        kept.append(f"i + {offset} - j <= {left}")
    if right >= 0:
        kept.append(f"j - i - {offset} <= {right}")
    if lengths:
        kept.append(f"j < {lengths}")
    if kept:
        terms.append(f"(if {' andalso '.join(kept)} then 0.0 else -inf)")
    return " + ".join(terms)


@template("FlexAttention")
def flex_attention(n: Node) -> str:
    (b, hq, s, d), (_, hk, t, _), e, kind = n.shape(), n.shape(1), n.shape(2)[3], n.element().value
    h = f"h / {hq // hk}"
    scale = n.a("scale") or 1 / np.sqrt(d)
    score = f"sum c => cast f64 {n.x()}[b, h, i, c] * cast f64 {n.x(1)}[b, {h}, j, c]"
    scores = f"for b < {b}, h < {hq}, i < {s}, j < {t} => {scale} * {score}"
    shape = [b, hq, s, t]
    scores = n.val(scores)
    if n.a("score_mod") is not None:
        scores = n.val(elementwise(n.a("score_mod"), scores, shape))
    chances = n.val(f"{n.library('nn.softmax')} {scores}")
    if n.a("prob_mod") is not None:
        chances = n.val(elementwise(n.a("prob_mod"), chances, shape))
    value = f"sum j => {chances}[b, h, i, j] * cast f64 {n.x(2)}[b, {h}, j, c]"
    return f"for b < {b}, h < {hq}, i < {s}, c < {e} => cast {kind} ({value})"


_ELEMENTWISE = {
    "Add": "({0} + {1})", "Sub": "({0} - {1})", "Mul": "({0} * {1})", "Div": "({0} / {1})", "Tanh": "tanh {0}",
    "Where": "(if {0} then {1} else {2})",
}  # fmt: skip


def elementwise(graph: onnx.GraphProto, tensor: str, shape: list[int]) -> str:
    """What a graph makes of a tensor of f64, element by element. What depends on its shape alone is computed here."""
    (given,), (result,) = graph.input, graph.output
    known = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
    indices = names(len(shape), "e")
    texts = {given.name: at(tensor, indices)}

    def text(name: str) -> str:
        if name in texts:
            return texts[name]
        value = known[name]
        value = value.astype(np.float64) if value.dtype.kind == "f" else value
        return at(literal(value), stretched(value.shape, indices))

    for node in graph.node:
        if node.op_type == "Shape" and node.input[0] == given.name:
            known[node.output[0]] = np.array(shape)
        elif all(name in known for name in node.input):
            inputs = [onnx.helper.make_tensor_value_info(name, 0, None) for name in node.input]
            outputs = [onnx.helper.make_tensor_value_info(node.output[0], 0, None)]
            one = onnx.helper.make_model(onnx.helper.make_graph([node], "one", inputs, outputs))
            (known[node.output[0]],) = ReferenceEvaluator(one).run(None, {name: known[name] for name in node.input})
        elif node.op_type in _ELEMENTWISE:
            texts[node.output[0]] = _ELEMENTWISE[node.op_type].format(*map(text, node.input))
        else:
            raise NotOffered(f"{node.op_type} in a graph")
    return over(indices, shape, texts[result.name])


@template("LinearAttention")
def linear_attention(n: Node) -> str:
    """A state of keys by values, which each step fades, corrects and adds to (Schlag et al. 2021; Yang et al. 2025)."""
    (b, t, width), hq, hk = n.shape(), n.a("q_num_heads"), n.a("kv_num_heads")
    dk, dv, rule = width // hq, n.shape(2)[2] // hk, n.a("update_rule")
    key, value = f"cast f32 {n.x(1)}[b, t, h * {dk} + c]", f"cast f32 {n.x(2)}[b, t, h * {dv} + m]"
    here = f"for b < {b}, h < {hk}, c < {dk}, m < {dv} =>"
    start = n.val(f"{here} cast f32 {n.x(3)}[b, h, c, m]" if n.has(3) else f"{here} (0.0 : f32)")
    kept = "s[b, h, c, m]"
    if rule in ("gated", "gated_delta"):
        decay = f"{n.x(4)}[b, t, h{f' * {dk} + c' if n.shape(4)[2] == hk * dk and dk > 1 else ''}]"
        kept = f"exp (cast f32 {decay}) * {kept}"
    body = f"let val d = {here} {kept} "
    if rule in ("delta", "gated_delta"):
        beta = f"cast f32 {n.x(5)}[b, t, {'h' if n.shape(5)[2] > 1 else 0}]"
        body += f"val v = for b < {b}, h < {hk}, m < {dv} => {beta} * ({value} - sum c => d[b, h, c, m] * {key}) "
    else:
        body += f"val v = for b < {b}, h < {hk}, m < {dv} => {value} "
    states = n.val(f"unfold (s = {start}) for t < {t} => {body}in {here} d[b, h, c, m] + {key} * v[b, h, m] end")
    scale = float(n.a("scale") or 0.0) or 1 / np.sqrt(dk)
    query = f"cast f32 {n.x()}[b, t, e / {dv} * {dk} + c]"
    out = f"{number(scale, Element.F32)} * sum c => {query} * {states}[t, b, e / {dv * (hq // hk)}, c, e % {dv}]"
    result = f"for b < {b}, t < {t}, e < {hq * dv} => cast {n.element().value} ({out})"
    last = n.element(3) if n.has(3) else n.element()
    return f"({result}, {here} cast {last.value} {states}[{t - 1}, b, h, c, m])" if n.wants(1) else result
