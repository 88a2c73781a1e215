"""Templates of reductions, products and sums along an axis."""

from __future__ import annotations

import string

import numpy as np

from axon.base.element import Element
from tests.onnx.onnx_node import Node, at, least, names, number, over, template


def along(n: Node, axes: list[int], keep: bool, body: str) -> str:
    """A tensor over the axes that are left; `body` is one value over indices `i…` of all axes."""
    i = names(n.rank())
    left = [k for k in range(n.rank()) if k not in axes]
    if keep:
        return over(i, [1 if k in axes else s for k, s in enumerate(n.shape())], body)
    return over([i[k] for k in left], [n.shape()[k] for k in left], body)


def reduction(n: Node, axes: list[int], head: str, value: str) -> str:
    """`head` over some axes of `value`, which reads the input at `{x}`."""
    inner = [f"k{m}" if m in axes else f"i{m}" for m in range(n.rank())]
    bound = ", ".join(f"k{m} < {n.shape()[m]}" for m in axes)
    text = value.format(x=at(n.x(), inner))
    return f"({head} for {bound} => {text})" if axes else f"({text})"


_REDUCE = {
    "ReduceSum": ("sum", "{x}", "{r}"), "ReduceProd": ("prod", "{x}", "{r}"), "ReduceL1": ("sum", "abs {x}", "{r}"),
    "ReduceL2": ("sum", "{x} * {x}", "sqrt {r}"), "ReduceSumSquare": ("sum", "{x} * {x}", "{r}"),
    "ReduceLogSum": ("sum", "{x}", "log {r}"), "ReduceMax": ("max", "{x}", "{r}"), "ReduceMin": ("min", "{x}", "{r}"),
    "ReduceMean": ("sum", "{x}", "{r} / {count}"), "ReduceLogSumExp": ("", "", ""),
}  # fmt: skip


@template(*_REDUCE)
def reduce_(n: Node) -> str:
    axes = n.axes(1)
    if not axes:
        axes = [] if n.a("noop_with_empty_axes") and n.rank() else list(range(n.rank()))
    axes = sorted(axes)
    keep, operator = bool(n.a("keepdims")), n.operator
    if operator == "ReduceLogSumExp":
        most = reduction(n, axes, "max", "{x}")
        summed = reduction(n, axes, "sum", "exp ({x} - m)")
        body = f"let val m = max (-1e30) {most} in m + log {summed} end"
    else:
        head, value, outside = _REDUCE[operator]
        count = float(np.prod([n.shape()[k] for k in axes]))
        if n.element() is Element.BOOL:
            head = {"max": "any", "min": "all"}[head]
        body = outside.format(r=reduction(n, axes, head, value), count=count)
    return along(n, axes, keep, body)


@template("ArgMax", "ArgMin")
def arg_extreme(n: Node) -> str:
    axis = n.axis()
    name = n.operator.lower()
    size = n.shape()[axis]
    inner = [f"k{m}" if m == axis else f"i{m}" for m in range(n.rank())]
    if n.a("select_last_index"):
        inner[axis] = f"{size - 1} - k{axis}"
        body = f"{size - 1} - ({name} for k{axis} < {size} => {at(n.x(), inner)})"
    else:
        body = f"({name} for k{axis} < {size} => {at(n.x(), inner)})"
    return along(n, [axis], bool(n.a("keepdims")), f"cast i64 ({body})")


@template("CumSum", "CumProd")
def cumulative(n: Node) -> str:
    axis = n.whole(1)[0] % n.rank()
    size, i = n.shape()[axis], names(n.rank())
    op, unit = ("+", "0") if n.operator == "CumSum" else ("*", "1")
    place = f"{size - 1} - k" if n.a("reverse") else "k"
    default = None
    if n.a("exclusive"):
        place = f"{size} - k" if n.a("reverse") else "k - 1"
        default = number(int(unit), n.element())
    inner = [place if m == axis else index for m, index in enumerate(i)]
    scanned = f"scan ((op {op} ), {number(int(unit), n.element())}) k"
    others = [m for m in range(n.rank()) if m != axis]
    text = over([i[m] for m in others], [n.shape()[m] for m in others], f"({scanned} < {size} => {at(n.x(), inner, default)})")
    text = text.replace(f"{scanned} < {size} =>", f"scan (op {op} , {number(int(unit), n.element())}) for k < {size} =>")
    run = n.val(text)
    back = f"{size - 1} - {i[axis]}" if n.a("reverse") else i[axis]
    return over(i, n.shape(), at(run, [*(i[m] for m in others), back]))


# ── products ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def matmul(n: Node, a: str, b: str, left: tuple[int, ...], right: tuple[int, ...], value: str = "{a} * {b}") -> str:
    """NumPy's matmul, whose batch dimensions broadcast; both operands have rank 1 or more."""
    rows = left[-2:-1]
    columns = right[-1:] if len(right) > 1 else ()
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    i = names(len(batch))
    from tests.onnx.onnx_node import stretched

    first = [*stretched(left[:-2], i), *(["p"] if rows else []), "k"]
    second = [*stretched(right[:-2], i), "k", *(["q"] if columns else [])]
    body = value.format(a=at(a, first), b=at(b, second))
    return over([*i, *(["p"] if rows else []), *(["q"] if columns else [])], [*batch, *rows, *columns], f"sum k => {body}")


@template("MatMul")
def mat_mul(n: Node) -> str:
    left, right = n.shape(0), n.shape(1)
    if min(len(left), len(right)) >= 2 and right[:-2] in ((), left[:-2]):
        return f"{n.x(0)} @ {n.x(1)}"
    return matmul(n, n.x(0), n.x(1), left, right)


@template("Gemm")
def gemm(n: Node) -> str:
    a = f"{n.x(0)}[k, i]" if n.a("transA") else f"{n.x(0)}[i, k]"
    b = f"{n.x(1)}[j, k]" if n.a("transB") else f"{n.x(1)}[k, j]"
    alpha, beta = (number(n.a(name), Element.F32) for name in ("alpha", "beta"))
    text = f"{alpha} * (sum k => {a} * {b})"
    if n.has(2) and n.inputs[2].size:
        from tests.onnx.onnx_node import stretched

        text += f" + {beta} * {at(n.x(2), stretched(n.shape(2), ['i', 'j']))}"
    return f"for i j => {text}"


@template("Einsum")
def einsum(n: Node) -> str:
    equation = n.a("equation").replace(" ", "")
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if not arrow:
        letters = inputs.replace(",", "").replace("...", "")
        output = ("..." if "..." in inputs else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    spare = [c for c in string.ascii_uppercase if c not in equation]
    rest = max((n.rank(k) - len(t.replace("...", "")) for k, t in enumerate(terms) if "..." in t), default=0)
    sizes: dict[str, int] = {}
    factors = []
    for k, term in enumerate(terms):
        own = n.rank(k) - len(term.replace("...", ""))
        letters = term.replace("...", "".join(spare[rest - own : rest]))
        for c, size in zip(letters, n.shape(k), strict=True):
            sizes[c] = size
        factors.append(at(n.x(k), [f"{c}_" for c in letters]))
    out = output.replace("...", "".join(spare[:rest]))
    inner = [c for c in sizes if c not in out]
    body = " * ".join(factors)
    if inner:
        body = f"sum for {', '.join(f'{c}_ < {sizes[c]}' for c in inner)} => {body}"
    return over([f"{c}_" for c in out], [sizes[c] for c in out], body)


@template("Det")
def det(n: Node) -> str:
    return f"{n.library('linalg.det')} {n.x()}"


# ── the softmax family ──────────────────────────────────────────────────────────────────────────────────────────────────


def last(n: Node, axis: int, body: str) -> str:
    """A function of the library that works on the last dimension, along any axis; the input is `{x}`."""
    if axis == n.rank() - 1:
        return body.format(x=n.x())
    i = names(n.rank())
    others = [index for k, index in enumerate(i) if k != axis]
    moved = n.val(f"for {' '.join([*others, i[axis]])} => {at(n.x(), i)}")
    found = n.val(body.format(x=moved))
    return f"for {' '.join(i)} => {at(found, [*others, i[axis]])}"


@template("Softmax", "LogSoftmax")
def softmax(n: Node) -> str:
    name = n.library("nn.softmax" if n.operator == "Softmax" else "nn.log_softmax")
    return last(n, n.axis(), f"{name} {{x}}")


@template("Hardmax")
def hardmax(n: Node) -> str:
    return last(n, n.axis(), f"for ..b, j < {n.shape()[n.axis()]} => if j = (argmax k => {{x}}[..b, k]) then 1.0 else 0.0")


@template("LpNormalization")
def lp_normalization(n: Node) -> str:
    norm = "sum k => abs {x}[..b, k]" if n.a("p") == 1 else "sqrt (sum k => {x}[..b, k] ** 2)"
    return last(n, n.axis(), f"for ..b j => let val m = {norm} in if m = 0.0 then 0.0 else {{x}}[..b, j] / m end")


_ = (least,)
