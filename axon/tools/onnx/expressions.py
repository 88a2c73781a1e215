"""Steps as expressions: text with more parentheses than are needed, which the formatter takes away."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import count
from typing import assert_never

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.tools.onnx.scalars import Compute, Number, Read, Scalar, Whole, variables
from axon.tools.onnx.steps import Shape, Step, product

PIPE = 3  # so many functions one after the other are a pipeline
_INDICES = "ijklmnopqrstuvw"


@dataclass(frozen=True, slots=True)
class Text:
    """An expression. `through` are functions that are applied to it, the innermost first."""

    base: str
    through: tuple[str, ...] = ()
    atomic: bool = False

    def __str__(self) -> str:
        if not self.through:
            return self.base
        if len(self.through) >= PIPE:
            return " |> ".join((f"({self.base})" if not self.atomic else self.base, *self.through))
        text = self.base if self.atomic else f"({self.base})"
        for function in self.through[:-1]:
            text = f"({function} {text})"
        return f"{self.through[-1]} {text}"

    @property
    def closed(self) -> str:
        """As an operand of anything."""
        return self.base if self.atomic and not self.through else f"({self})"

    def then(self, function: str) -> Text:
        return Text(self.base, (*self.through, function), self.atomic)


def atom(text: str) -> Text:
    return Text(text, (), True)


def size(dim: Dim) -> str:
    return render(dim)


@dataclass(slots=True)
class Surroundings:
    """What an expression may call: the record at hand, helpers by their text, and sizes in braces by name."""

    record: Callable[[Step], str]
    helper: Callable[[str, str], str]  # a wanted name and a text with `NAME`; the name that it got
    braces: Sequence[str]  # of the step
    call: Callable[[Step, Sequence[Text]], Text]
    shapes: Sequence[Shape]  # of the operands
    taken: Container[str] = ()  # names of sizes, which no index may hide


def indices(count: int, operands: Sequence[Text], around: Surroundings) -> list[str]:
    """Names for indices, of which none is that of a size, or of anything that the operands speak of."""
    spoken = {word for o in operands for word in re.findall(r"\w+", str(o))}
    letters = [c for c in _INDICES if c not in spoken and c not in around.taken]
    return letters[:count] if count <= len(letters) else [f"i_{n}" for n in range(count)]


def braced(names: Sequence[str]) -> str:
    return f"{{{', '.join(names)}}} " if names else ""


def expression(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    """The text of a step, of the texts of its operands."""
    return _WRITERS[step.op](step, operands, around)


_Writer = Callable[[Step, Sequence[Text], Surroundings], Text]


def _weight(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    return atom(around.record(step))


def _dense(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    return operands[0].then(f"nn.dense {around.record(step)}")


def _infix(op: str) -> _Writer:
    return lambda step, operands, around: Text(f"{operands[0].closed} {op} {operands[1].closed}")


def _tied(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    return Text(f"{operands[0].closed} @ linalg.transpose {operands[1].closed}")


def number(value: float, element: str = "f32") -> str:
    """A number by the fewest digits that tell it from others of its type; of f16 and the like as f32."""
    import numpy as np

    text = repr(value if element == "f64" else float(str(np.float32(value))))
    return f"({text})" if text.startswith("-") else text


def _scores(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    q, k = (o.closed for o in operands)
    i, j, c = indices(3, operands, around)
    c = "c" if "c" not in {q, k} and "c" not in around.taken else c
    return Text(f"for ..b {i} {j} => sum {c} => {q}[..b, {i}, {c}] * {k}[..b, {j}, {c}]")


def _scaled(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    (scale,) = step.data
    assert isinstance(scale, float)
    if scale == -1.0:
        return Text(f"-{operands[0].closed}")
    return operands[0] if scale == 1.0 else Text(f"{number(scale, step.element)} * {operands[0].closed}")


def _causal(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    return _scaled(step, operands, around).then("nn.causal")


def _mask(axes: Sequence[int], rank: int, around: Surroundings) -> str:
    names = ["b", "h", "i", "j"] if rank == 4 else list(_INDICES[:rank])
    text = f"fun NAME mask scores = for {' '.join(names)} => scores[{', '.join(names)}] + mask[{', '.join(names[i] for i in axes)}]"
    return around.helper("masked", text)


def _masked(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    scale, axes = step.data
    assert isinstance(axes, tuple)
    assert isinstance(scale, float)
    scores = operands[0] if scale == 1.0 else Text(f"{number(scale, step.element)} * {operands[0].closed}")
    return scores.then(f"{_mask(axes, len(step.shape), around)} {operands[1].closed}")


def _attention(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    q, k, v, *mask = (o.closed for o in operands)
    kind, *more = step.data
    match kind:
        case "masked":
            axes, rank = more
            assert isinstance(axes, tuple)
            assert isinstance(rank, int)
            return Text(f"nn.attention_with ({_mask(axes, rank, around)} {mask[0]}) {q} {k} {v}")
        case "causal":
            return Text(f"nn.causal_attention {q} {k} {v}")
        case _:
            return Text(f"nn.attention {q} {k} {v}")


def _norm(kind: str, plain: str, text: str) -> _Writer:
    def write(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
        (epsilon,) = step.data
        name = plain
        if epsilon != 1e-5:
            name = around.helper(kind, text.replace("EPSILON", repr(epsilon)))
        return operands[0].then(f"{name} {around.record(step)}")

    return write


def _conv(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    rank, plain, biased = step.data
    assert isinstance(rank, int)
    sizes = list(around.braces)
    if plain and rank == 2:
        function, own = "nn.conv2d_strided", "{stride, padding}"
    else:
        function = f"nn.conv{rank}d_with"
        own = "{stride, padding}" if plain else "{stride, padding, dilation, groups}"
    inner = "{stride, padding, 1, 1}" if plain and rank != 2 else own
    if not biased:
        given = [*sizes, "1", "1"] if plain and rank != 2 else sizes
        return Text(f"{function} {braced(given)}{operands[0].closed} {around.record(step)}")
    kind = {1: "{ k : f32[o, c, r], b : f32[o] }", 2: "nn.conv[o, c, r, s]", 3: "{ k : f32[o, c, t, r, s], b : f32[o] }"}[rank]
    if not plain:
        kind = kind.replace("o, c", "groups * o, c").replace("b : f32[o]", "b : f32[groups * o]")
    name = "conv" if rank == 2 and plain else f"conv{rank}d" if plain else f"grouped_conv{rank}d"
    text = f"fun NAME {own} (p : {kind}) x = nn.channel_bias p.b ({function} {inner} x p.k)"
    return operands[0].then(f"{around.helper(name, text)} {braced(sizes)}{around.record(step)}")


def _conv_transpose(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    rank, biased = step.data
    function = f"nn.conv{rank}d_transpose_with {braced(around.braces)}"
    if not biased:
        return Text(f"{function}{operands[0].closed} {around.record(step)}")
    kind = {1: "c, o, r", 2: "c, o, r, s", 3: "c, o, t, r, s"}[rank if isinstance(rank, int) else 0]
    text = (
        f"fun NAME {{stride, padding, dilation, groups, extra}} (p : {{ k : f32[{kind}], b : f32[groups * o] }}) x ="
        f" nn.channel_bias p.b (nn.conv{rank}d_transpose_with {{stride, padding, dilation, groups, extra}} x p.k)"
    )
    name = around.helper("conv_transpose" if rank == 2 else f"conv{rank}d_transpose", text)
    return operands[0].then(f"{name} {braced(around.braces)}{around.record(step)}")


def _call(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    name, *numbers = step.data
    if name == "square":
        return Text(f"{operands[0].closed} ** 2")
    given = "".join(f" {number(float(n), step.element)}" for n in numbers if isinstance(n, int | float))
    return operands[0].then(f"{name}{given} {braced(around.braces)}".rstrip())


def _with_number(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    op, value, swapped = step.data
    assert isinstance(value, float)
    assert isinstance(op, str)
    if op in ("max", "min"):
        return operands[0].then(f"{op} {number(value, step.element)}")
    sides = [operands[0].closed, number(value, step.element)]
    return Text(f" {op} ".join(reversed(sides) if swapped else sides))


def _binary(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    (op,) = step.data
    a, b = operands
    if op in ("max", "min"):
        return Text(f"{op} {a.closed} {b.closed}")
    if op == "+" and (a.through or not a.atomic) and b.atomic and not b.through and b.base.isidentifier():
        a, b = b, a  # x + f x: what goes past the layer stands first
    return Text(f"{a.closed} {op} {b.closed}")


def _slice(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    (bounds,) = step.data
    assert isinstance(bounds, tuple)
    parts = []
    for bound in bounds:
        if bound is None:
            parts.append(":")
            continue
        start, stop, extent, *by = bound
        if stop is None:
            parts.append(size(start))
            continue
        first = "" if start.constant == 0 else f"{size(start)} "
        last = "" if stop == extent else f" {size(stop)}"
        parts.append(f"{first}:{last}" + (f" : {by[0]}" if by else ""))
    whole = [i for i, p in enumerate(parts) if p != ":"]
    if whole and whole[0] > 1:
        parts = ["..", *parts[whole[0] :]]
    return atom(f"{operands[0].closed}[{', '.join(parts)}]")


def _rearrange(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    read, axes = step.data
    assert isinstance(read, tuple)
    assert isinstance(axes, tuple)
    rank = len(axes)
    plain = [len(r) == 1 for r in read]
    if read == (*axes[:-2], axes[-1], axes[-2]) and rank >= 2:
        return operands[0].then("linalg.transpose")
    if rank >= 3 and read == (*axes[:-3], axes[-2], axes[-3] + axes[-1]) and len(read) == rank - 1:
        return operands[0].then(f"nn.split_heads {braced(around.braces)}".rstrip())
    if rank >= 2 and len(read) >= 3 and all(plain) and axes == (*read[:-3], read[-2], read[-3] + read[-1]):
        return operands[0].then("nn.merge_heads")
    if rank == 2 and len(read) == 4 and axes == (read[0], read[1] + read[2] + read[3]):
        return operands[0].then("nn.flatten")
    count = 1 + max(d for axis in axes for d in axis)
    names = indices(count, operands, around)
    split = [d for r in read for d in r[:-1]]
    bounds = dict(zip(split, around.braces, strict=True))
    place = ", ".join(names[r[0]] if len(r) == 1 else f"({', '.join(names[d] for d in r)})" for r in read)
    groups: list[str] = []
    for axis in axes:
        if len(axis) == 1 and axis[0] in bounds:
            groups.append(f"{names[axis[0]]} < {bounds[axis[0]]}")
        else:
            binder = names[axis[0]] if len(axis) == 1 else f"({', '.join(names[d] for d in axis)})"
            joins = bool(groups) and "<" not in groups[-1]
            groups[-1:] = [f"{groups[-1]} {binder}"] if joins else [*groups[-1:], binder]
    return Text(f"for {', '.join(groups)} => {operands[0].closed}[{place}]")


def _upsample(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    text = "fun NAME {scale} (x : 'a[n, c, h, w]) = for n c, i < scale * h, j < scale * w => x[n, c, i / scale, j / scale]"
    return operands[0].then(f"{around.helper('upsample', text)} {braced(around.braces)}".rstrip())


_CORNERS = """
fun NAME {p, q} (x : 'a[..b, h, w]) where h >= 1, w >= 1 =
  let fun low {old, new} k = cast i32 (cast i64 k * (cast i64 old - 1) / max (cast i64 new - 1) 1)
      fun share {old, new} k = cast f64 (cast i64 k * (cast i64 old - 1) % max (cast i64 new - 1) 1) / max (cast f64 new - 1.0) 1.0
      val rows = for i < p => low {h, p} i
      val columns = for j < q => low {w, q} j
      fun mix part a b = (1.0 - cast 'a part) * a + cast 'a part * b
  in for ..b, i < p, j < q =>
    let fun pixel y z = x[..b, min (max y 0) (h - 1), min (max z 0) (w - 1)]
        fun row y = mix (share {w, q} j) (pixel y columns[j]) (pixel y (columns[j] + 1))
    in mix (share {h, p} i) (row rows[i]) (row (rows[i] + 1)) end
  end
"""


def _resize(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    (corners,) = step.data
    name = around.helper("resize_corners", _CORNERS.strip()) if corners else "image.resize"
    return operands[0].then(f"{name} {braced(around.braces)}".rstrip())


def _concat(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    axis, rank = step.data
    if axis == (rank if isinstance(rank, int) else 0) - 1:
        return operands[1].then(f"tensor.concat {operands[0].closed}")
    text = (
        "fun NAME (x : 'a[n, c, ..s]) (y : 'a[n, d, ..s]) ="
        " for n, k < c + d, ..i < ..s => if k < c then x[n, k, ..i] else y[n, k - c, ..i]"
    )
    return operands[1].then(f"{around.helper('beside', text)} {operands[0].closed}")


def _embedding(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    return operands[1].then(f"nn.embedding {operands[0].closed}")


def _reduce(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    function, rank, gone = step.data
    assert isinstance(rank, int)
    assert isinstance(gone, tuple)
    names = indices(rank, operands, around)
    kept, over = [names[i] for i in range(rank) if i not in gone], [names[i] for i in gone]
    kind = "sum" if function == "mean" else function
    inner = f"{kind} {' '.join(over)} => {operands[0].closed}[{', '.join(names)}]"
    if function == "mean":
        inner = f"({inner}) / cast f32 ({size(product([around.shapes[0][i] for i in gone]))})"
    return Text(f"for {' '.join(kept)} => {inner}" if kept else inner)


_RESET_FIRST = """
fun NAME (p : nn.gru[d, h]) start (x : f32[t, n, d]) =
  let val gates = for t i g j => (sum c => x[t, i, c] * p.input[c, g, j]) + p.b[g, j] + p.c[g, j]
      fun step (input : f32[n, 3, h]) state =
        let val own = for i, g < 2, j => input[i, g, j] + sum k => state[i, k] * p.state[k, g, j]
            val kept = for i j => nn.sigmoid own[i, 0, j] * state[i, j]
            val new = for i j => tanh (input[i, 2, j] + sum k => kept[i, k] * p.state[k, 2, j])
        in for i j => let val update = nn.sigmoid own[i, 1, j] in (1.0 - update) * new[i, j] + update * state[i, j] end end
      val states = unfold (s = start) for i < t => step gates[i, ..] s
  in (states, if t >= 1 then states[t - 1, ..] else start) end
"""


def _recurrent(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    kind, _, last = step.op.partition("_")
    zeros, reset_first, *place = step.data
    result = ".1" if not last else ".2" if kind == "gru" else f".2.{place[0]}"
    function = around.helper("gru_reset_first", _RESET_FIRST.strip()) if reset_first else f"nn.{kind}"
    if zeros:
        start = "(zeros, zeros)" if kind == "lstm" else "zeros"
        text = (
            f"fun NAME (p : nn.{kind}[d, h]) (x : f32[t, n, d]) ="
            f" let val zeros = for i < n, j < h => 0.0 in ({function} p {start} x){result} end"
        )
        return operands[0].then(f"{around.helper(step.op, text)} {around.record(step)}")
    x, *given = (o.closed for o in operands)
    start = f"({', '.join(given)})" if kind == "lstm" else given[0]
    return atom(f"({function} {around.record(step)} {start} {x}){result}")


def _part(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    (place,) = step.data
    assert isinstance(place, int)
    return atom(f"{operands[0].closed}.{place + 1}")


def _module(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    return around.call(step, operands)


# ── places ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _places(step: Step, operands: Sequence[Text], around: Surroundings) -> Text:
    from axon.tools.onnx.translate import CANONICAL

    (value,) = step.data
    rank = len(step.shape)
    names = dict(zip(CANONICAL, indices(rank, operands, around), strict=False))
    body = _with_names(value, [o.closed for o in operands], names, step.element)  # type: ignore[arg-type]
    if not rank:
        return Text(body)
    ends = _ends(value, around.shapes)  # type: ignore[arg-type]
    groups: list[str] = []
    for axis, extent in zip(CANONICAL, step.shape, strict=False):
        if ends.get(axis) == {extent}:
            joins = bool(groups) and "<" not in groups[-1]
            groups[-1:] = [f"{groups[-1]} {names[axis]}"] if joins else [*groups[-1:], names[axis]]
        else:
            groups.append(f"{names[axis]} < {size(extent)}")
    return Text(f"for {', '.join(groups)} => {body}")


def _named_parts() -> Iterator[str]:
    yield from "defgh"
    yield from (f"d{n}" for n in count(1))


def _with_names(value: Scalar, operands: Sequence[str], names: Mapping[Symbol, str], element: str) -> str:
    """One element, with names for what is computed several times on the way to it."""
    counts: Counter[Scalar] = Counter()
    order: dict[Scalar, None] = {}

    def visit(part: Scalar) -> None:
        match part:
            case Compute(_, arguments):
                counts[part] += 1
                if counts[part] == 1:
                    for argument in arguments:
                        visit(argument)
                    order.setdefault(part)
            case Read(_, place):
                for p in place:
                    visit(p)

    visit(value)
    spoken = {*names.values(), *(word for o in operands for word in re.findall(r"\w+", o)), *(s.name for s in variables(value))}
    given: dict[Scalar, str] = {}
    vals = []
    for part in order:
        if counts[part] > 1 and not any(isinstance(a, Compute) and a.op == "if" for a in (part,)):
            name = next(n for n in _named_parts() if n not in spoken and n not in given.values())
            vals.append(f"val {name} = {scalar(part, operands, names, given, element)}")
            given[part] = name
    body = scalar(value, operands, names, given, element)
    return f"let {' '.join(vals)} in {body} end" if vals else body


def _ends(value: Scalar, shapes: Sequence[Shape]) -> dict[Symbol, set[Dim]]:
    """The dimensions over which axes stand alone in a subscript: where they are one, it is the range that Axon finds."""
    found: dict[Symbol, set[Dim]] = {}
    work = [value]
    while work:
        match work.pop():
            case Read(step, place):
                for at, extent in zip(place, shapes[step], strict=True):
                    if isinstance(at, Whole) and at.dim.symbol is not None:
                        found.setdefault(at.dim.symbol, set()).add(extent)
                work += place
            case Compute(_, arguments):
                work += arguments
    return found


_OPERATORS = {"+", "-", "*", "/", "%", "**", "=", "<", "<=", "andalso", "orelse"}


def _sides(gap: Dim) -> tuple[Dim, Dim]:
    """What is added and what is taken away: `j - i > 0` is `i < j`."""
    more = Dim({m: c for m, c in gap.mapping.items() if c > 0})
    return more, more - gap


def scalar(value: Scalar, operands: Sequence[str], names: Mapping[Symbol, str], given: Mapping[Scalar, str], element: str) -> str:
    """The text of one element; `given` has names for parts of it."""

    def text(part: Scalar) -> str:
        if part in given:
            return given[part]
        match part:
            case Whole(dim):
                return f"({render(dim, lambda s: names.get(s, s.name))})"
            case Number(truth) if isinstance(truth, bool):
                return "true" if truth else "false"
            case Number(x):
                return number(float(x), element)
            case Read(step, place):
                at = [text(p)[1:-1] if isinstance(p, Whole) else text(p) for p in place]
                return f"{operands[step]}[{', '.join(at)}]" if at else operands[step]
            case Compute("if", (condition, then, otherwise)):
                return f"(if {text(condition)} then {text(then)} else {text(otherwise)})"
            case Compute("not", (Compute("=", (a, b)),)):
                return f"({text(a)} <> {text(b)})"
            case Compute("<", (Whole(a), Whole(b))) if a.symbol in names and b.constant == 1:
                return f"({render(a, lambda s: names.get(s, s.name))} = 0)"
            case Compute("<" | "<=" as op, (Whole(a), Whole(b))):
                more, less = _sides(b - a)
                return f"({text(Whole(less))} {op} {text(Whole(more))})"
            case Compute(op, (a, b)) if op in _OPERATORS:
                return f"({text(a)} {op} {text(b)})"
            case Compute(op, arguments):
                return f"({op} {' '.join(map(text, arguments))})"
            case _:
                assert_never(part)

    return text(value)


_LAYER_NORM = "fun NAME (p : nn.norm[d]) x = nn.standardize EPSILON x * p.scale + p.shift"
_WRITERS: dict[str, _Writer] = {
    "weight": _weight, "dense": _dense, "product": _infix("@"), "matmul": _infix("@"), "product_transposed": _tied,
    "scores": _scores, "scale": _scaled, "scaled_scores": _scaled, "causal": _causal, "masked": _masked, "attention": _attention,
    "softmax": lambda s, o, a: o[0].then("nn.softmax"), "log_softmax": lambda s, o, a: o[0].then("nn.log_softmax"),
    "layer_norm": _norm("layer_norm", "nn.layer_norm", _LAYER_NORM),
    "rms_norm": _norm("rms_norm", "nn.rms_norm", "fun NAME (scale : f32[d]) x = nn.rms_scaled EPSILON x * scale"),
    "batch_norm": _norm(
        "batch_norm",
        "nn.batch_norm",
        "fun NAME (p : nn.batch_norm[c]) (x : f32[n, c, ..s]) ="
        " for n k ..i => (x[n, k, ..i] - p.mean[k]) * (p.scale[k] * rsqrt (p.variance[k] + EPSILON)) + p.shift[k]",
    ),
    "group_norm": lambda s, o, a: o[0].then(f"nn.group_norm {braced(a.braces)}{a.record(s)}"),
    "instance_norm": lambda s, o, a: o[0].then(f"nn.instance_norm {a.record(s)}"),
    "conv": _conv, "conv_transpose": _conv_transpose,
    "call": _call, "with_number": _with_number, "binary": _binary, "slice": _slice, "rearrange": _rearrange,
    "rope": lambda s, o, a: o[0].then(f"nn.rope {o[1].closed}"),
    "upsample": _upsample, "resize": _resize, "concat": _concat, "embedding": _embedding, "reduce": _reduce,
    "lstm": _recurrent, "lstm_last": _recurrent, "gru": _recurrent, "gru_last": _recurrent,
    "part": _part, "module": _module, "loop": _module, "places": _places,
}  # fmt: skip


def needs_rank(step: Step, shapes: Sequence[Shape]) -> bool:
    """Whether a text holds only where the ranks of its operands are known, as they stretch: then parameters are annotated."""
    return step.op == "binary" and len({*shapes}) > 1
