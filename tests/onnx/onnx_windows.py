"""Templates of convolutions and pools: windows that move over the dimensions behind examples and channels."""

from __future__ import annotations

import numpy as np

from axon.base.element import Element
from tests.onnx.onnx_node import Node, NotOffered, at, bounds, least, names, number, over, template


class Window:
    """Where windows lie: for each spatial dimension its kernel, stride, dilation, padding and extent of the result."""

    def __init__(self, n: Node, kernel: tuple[int, ...], ceil: bool = False) -> None:
        rank = n.rank() - 2
        self.kernel = kernel
        self.stride = list(n.a("strides") or [1] * rank)
        self.dilation = list(n.a("dilations") or [1] * rank)
        pads = list(n.a("pads") or [0] * (2 * rank))
        self.before, after = pads[:rank], pads[rank:]
        self.spatial = list(n.shape()[2:])
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, self.dilation, strict=True)]
        auto = n.a("auto_pad", "NOTSET")
        self.out = []
        for m, size in enumerate(self.spatial):
            if auto in ("SAME_UPPER", "SAME_LOWER"):
                extent = -(-size // self.stride[m])
                total = max((extent - 1) * self.stride[m] + reach[m] - size, 0)
                self.before[m] = total // 2 if auto == "SAME_UPPER" else -(-total // 2)
                after[m] = total - self.before[m]
            room = size + self.before[m] + after[m] - reach[m]
            extent = (-(-room // self.stride[m]) if ceil else room // self.stride[m]) + 1
            if ceil and (extent - 1) * self.stride[m] >= size + self.before[m]:
                extent -= 1
            self.out.append(extent)
        self.after = after

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def place(self, m: int) -> str:
        p = f"p{m}" if self.stride[m] == 1 else f"p{m} * {self.stride[m]}"
        k = f"k{m}" if self.dilation[m] == 1 else f"k{m} * {self.dilation[m]}"
        return f"{p} + {k} - {self.before[m]}" if self.before[m] else f"{p} + {k}"

    def places(self) -> list[str]:
        return [self.place(m) for m in range(self.rank)]

    def ks(self) -> str:
        return bounds(names(self.rank, "k"), self.kernel)

    def ps(self) -> list[str]:
        return names(self.rank, "p")


def convolved(n: Node, x: str, w: str, shape: tuple[int, ...], value: str) -> tuple[str, list[str], list[int]]:
    """The body of a convolution, the indices of its result and their extents; `value` is a product of `{x}` and `{w}`."""
    group = n.a("group", 1)
    window = Window(n, tuple(n.a("kernel_shape") or shape[2:]))
    channels, out = shape[1], shape[0]
    first = "c" if group == 1 else f"o / {out // group} * {channels} + c"
    factor = value.format(x=at(x, ["n", first, *window.places()], "PAD"), w=at(w, ["o", "c", *names(window.rank, "k")]))
    body = f"sum for c < {channels}, {window.ks()} => {factor}"
    return body, ["n", "o", *window.ps()], [n.shape()[0], out, *window.out]


@template("Conv")
def conv(n: Node) -> str:
    shape = n.shape(1)
    window = Window(n, tuple(n.a("kernel_shape") or shape[2:]))
    same = all(len(set(v)) == 1 for v in (window.stride, window.dilation, [*window.before, *window.after]))
    if window.rank in (1, 2) and same:
        numbers = (window.stride[0], window.before[0], window.dilation[0], n.a("group"))
        text = f"{n.library(f'nn.conv{window.rank}d_with')} {{{', '.join(map(str, numbers))}}} {n.x()} {n.x(1)}"
        return f"{n.library('nn.channel_bias')} {n.x(2)} ({text})" if n.has(2) else text
    body, indices, extents = convolved(n, n.x(), n.x(1), shape, "{x} * {w}")
    bias = f"{n.x(2)}[o] + " if n.has(2) else ""
    return over(indices, extents, bias + f"({body})".replace("PAD", "0.0"))


@template("ConvTranspose")
def conv_transpose(n: Node) -> str:
    group, shape, rank = n.a("group"), n.shape(1), n.rank() - 2
    kernel = list(n.a("kernel_shape") or shape[2:])
    stride, dilation = list(n.a("strides") or [1] * rank), list(n.a("dilations") or [1] * rank)
    extra = list(n.a("output_padding") or [0] * rank)
    pads = list(n.a("pads") or [0] * (2 * rank))
    before, after = pads[:rank], pads[rank:]
    full = [s * (i - 1) + e + (k - 1) * d + 1 for s, i, e, k, d in zip(stride, n.shape()[2:], extra, kernel, dilation, strict=True)]
    wanted = n.a("output_shape")
    auto = n.a("auto_pad")
    if auto in ("SAME_UPPER", "SAME_LOWER") and wanted is None:
        wanted = [i * s for i, s in zip(n.shape()[2:], stride, strict=True)]
    if wanted:
        for m in range(rank):
            total = max(full[m] - wanted[m], 0)
            before[m] = total // 2 if auto == "SAME_UPPER" or auto == "NOTSET" else total - total // 2
            if auto != "SAME_UPPER":
                before[m] = total - total // 2
            after[m] = total - before[m]
            if full[m] < wanted[m]:
                after[m] = full[m] - wanted[m]
    out = [f - b - a for f, b, a in zip(full, before, after, strict=True)]
    channels, per = n.shape()[1] // group, shape[1]
    same = all(len(set(v)) == 1 for v in (stride, dilation, extra, [*before, *after]))
    if rank in (1, 2) and same and not wanted:
        numbers = (stride[0], before[0], dilation[0], group, extra[0])
        text = f"{n.library(f'nn.conv{rank}d_transpose_with')} {{{', '.join(map(str, numbers))}}} {n.x()} {n.x(1)}"
        return f"{n.library('nn.channel_bias')} {n.x(2)} ({text})" if n.has(2) else text
    first = "c" if group == 1 else f"o / {per} * {channels} + c"
    places = [f"p{m} + {before[m]} - k{m} * {dilation[m]}" for m in range(rank)]
    met = " andalso ".join(f"({p}) % {s} = 0" for p, s in zip(places, stride, strict=True))
    x = at(n.x(), ["n", first, *(f"({p}) / {s}" for p, s in zip(places, stride, strict=True))], "0.0")
    w = at(n.x(1), [first, "o" if group == 1 else f"o % {per}", *names(rank, "k")])
    body = f"sum for c < {channels}, {bounds(names(rank, 'k'), kernel)} where {met} => {x} * {w}"
    bias = f"{n.x(2)}[o] + " if n.has(2) else ""
    return over(["n", "o", *names(rank, "p")], [n.shape()[0], per * group, *out], f"{bias}({body})")


@template("MaxPool")
def max_pool(n: Node) -> str:
    w = Window(n, tuple(n.a("kernel_shape")), bool(n.a("ceil_mode")))
    same = len(set(w.kernel)) == len(set(w.stride)) == len({*w.before, *w.after}) == 1 and set(w.dilation) == {1}
    if w.rank in (1, 2) and same and not n.a("ceil_mode") and n.element().is_float and not n.wants(1):
        name = n.library("nn.max_pool_with" if w.rank == 2 else "nn.max_pool1d")
        return f"{name} {{{w.kernel[0]}, {w.stride[0]}, {w.before[0]}}} {n.x()}"
    window = at(n.x(), ["n", "c", *w.places()], least(n.element()))
    shape = [*n.shape()[:2], *w.out]
    indices = ["n", "c", *w.ps()]
    most = over(indices, shape, f"max for {w.ks()} => {window}")
    if not n.wants(1):
        return most
    order = w.spatial if not n.a("storage_order") else w.spatial[::-1]
    parts = [f"at.{m + 1}" if w.rank > 1 else "at" for m in range(w.rank)]
    rows = [w.place(m).replace(f"k{m}", parts[m]) for m in range(w.rank)]
    rows = rows if not n.a("storage_order") else rows[::-1]
    place = f"n * {n.shape()[1]} + c"
    for row, size in zip(rows, order, strict=True):
        place = f"({place}) * {size} + {row}"
    where = over(indices, shape, f"let val at = argmax for {w.ks()} => {window} in cast i64 ({place}) end")
    return f"({most}, {where})"


def inside(w: Window) -> str:
    """Whether a place of a window lies in the input, and not in its padding."""
    return " andalso ".join(f"{p} >= 0 andalso {p} < {s}" for p, s in zip(w.places(), w.spatial, strict=True))


@template("AveragePool")
def average_pool(n: Node) -> str:
    w = Window(n, tuple(n.a("kernel_shape")), bool(n.a("ceil_mode")))
    total = f"(sum for {w.ks()} => {at(n.x(), ['n', 'c', *w.places()], '0.0')})"
    count = f"(sum for {w.ks()} where {inside(w)} => 1.0)"
    if n.a("count_include_pad"):
        padded = " andalso ".join(f"{p} < {s + a}" for p, s, a in zip(w.places(), w.spatial, w.after, strict=True))
        count = f"(sum for {w.ks()} where {padded} => 1.0)"
    return over(["n", "c", *w.ps()], [*n.shape()[:2], *w.out], f"{total} / {count}")


@template("LpPool")
def lp_pool(n: Node) -> str:
    w = Window(n, tuple(n.a("kernel_shape")), bool(n.a("ceil_mode")))
    p = float(n.a("p"))
    value = f"abs {at(n.x(), ['n', 'c', *w.places()], '0.0')} ** {p}"
    return over(["n", "c", *w.ps()], [*n.shape()[:2], *w.out], f"(sum for {w.ks()} => {value}) ** {1 / p}")


@template("GlobalAveragePool")
def global_average_pool(n: Node) -> str:
    found = n.val(f"{n.library('nn.global_average_pool')} {n.x()}")
    return over(names(n.rank()), [*n.shape()[:2], *[1] * (n.rank() - 2)], f"{found}[i0, i1]")


@template("GlobalMaxPool")
def global_max_pool(n: Node) -> str:
    k = names(n.rank() - 2, "k")
    inner = bounds(k, n.shape()[2:])
    return over(names(n.rank()), [*n.shape()[:2], *[1] * len(k)], f"max for {inner} => {at(n.x(), ['i0', 'i1', *k])}")


@template("MaxUnpool")
def max_unpool(n: Node) -> str:
    rank = n.rank() - 2
    stride, pads = list(n.a("strides") or [1] * rank), list(n.a("pads") or [0] * (2 * rank))
    small = [
        (s - 1) * t + k - a - b
        for s, t, k, a, b in zip(n.shape()[2:], stride, n.a("kernel_shape"), pads[:rank], pads[rank:], strict=True)
    ]
    out = n.whole(2) if n.has(2) else [*n.shape()[:2], *small]
    sizes = [*n.shape()[:2], *small]
    i, u = names(n.rank()), names(n.rank(), "u")
    place = i[0]
    for index, size in zip(i[1:], sizes[1:], strict=True):
        place = f"({place}) * {size} + {index}"
    inside = " andalso ".join(f"{index} < {size}" for index, size in zip(i, sizes, strict=True))
    hit = f"{at(n.x(1), u)} = cast i64 ({place})"
    return over(i, out, f"if {inside} then (sum for {bounds(u, n.shape())} where {hit} => {at(n.x(), u)}) else 0.0")


@template("LRN")
def lrn(n: Node) -> str:
    size = n.a("size")
    alpha, beta, bias = (number(n.a(name), Element.F32) for name in ("alpha", "beta", "bias"))
    i = names(n.rank())
    near = at(n.x(), [i[0], f"i1 + k - {(size - 1) // 2}", *i[2:]], "0.0")
    total = f"(sum for k < {size} => {near} ** 2)"
    return over(i, n.shape(), f"{at(n.x(), i)} / ({bias} + {alpha} / {float(size)} * {total}) ** {beta}")


@template("Col2Im")
def col2im(n: Node) -> str:
    image, block = n.whole(1), n.whole(2)
    rank = len(image)
    stride, dilation = list(n.a("strides") or [1] * rank), list(n.a("dilations") or [1] * rank)
    pads = list(n.a("pads") or [0] * (2 * rank))
    blocks = [
        (i + pads[m] + pads[m + rank] - d * (k - 1) - 1) // s + 1
        for m, (i, k, d, s) in enumerate(zip(image, block, dilation, stride, strict=True))
    ]
    channels = n.shape()[1] // int(np.prod(block))
    row, column = "c", "0"
    for m in range(rank):
        row = f"({row}) * {block[m]} + k{m}"
        column = f"({column}) * {blocks[m]} + b{m}"
    hit = " andalso ".join(f"b{m} * {stride[m]} + k{m} * {dilation[m]} = p{m} + {pads[m]}" for m in range(rank))
    inner = f"{bounds(names(rank, 'k'), block)}, {bounds(names(rank, 'b'), blocks)}"
    body = f"sum for {inner} where {hit} => {n.x()}[n, {row}, {column}]"
    return over(["n", "c", *names(rank, "p")], [n.shape()[0], channels, *image], body)


# ── quantized ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@template("ConvInteger")
def conv_integer(n: Node) -> str:
    zero = f"cast i32 {n.x(2)}" if n.has(2) else "0"
    other = f"cast i32 {n.x(3)}" if n.has(3) else "0"
    if n.has(2) and n.rank(2):
        raise NotOffered("zero points of each row")
    if n.has(3) and n.rank(3):
        other = f"cast i32 {n.x(3)}[o]"
    pad = n.val(f"for ..i => cast i32 {n.x()}[..i] - ({zero})")
    weights = n.val(f"for o ..i => cast i32 {n.x(1)}[o, ..i] - ({other})")
    body, indices, extents = convolved(n, pad, weights, n.shape(1), "{x} * {w}")
    return over(indices, extents, body.replace("PAD", "0"))


@template("CausalConvWithState")
def causal_conv(n: Node) -> str:
    """Every channel by its own kernel, behind what a state keeps of earlier steps; and what is to be kept of these."""
    batch, channels, length = n.shape()
    taps, kind = n.shape(1)[2], n.element().value
    before = taps - 1
    past = f"{n.x(3)}[b, c, i]" if n.has(3) else f"(0.0 : {kind})"
    whole = n.val(
        f"for b < {batch}, c < {channels}, i < {before + length} => if i < {before} then {past} else {n.x()}[b, c, i - {before}]"
    )
    bias = f"cast f32 {n.x(2)}[c] + " if n.has(2) else ""
    total = f"{bias}(sum for k < {taps} => cast f32 {whole}[b, c, i + k] * cast f32 {n.x(1)}[c, 0, k])"
    if n.a("activation", "none") in ("silu", "swish"):
        total = f"{n.library('nn.silu')} ({total})"
    result = f"for b < {batch}, c < {channels}, i < {length} => cast {kind} ({total})"
    return f"({result}, for b < {batch}, c < {channels}, i < {before} => {whole}[b, c, i + {length}])" if n.wants(1) else result


_ = np
