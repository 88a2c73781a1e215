"""Templates of operators that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from axon.base.element import Element
from tests.onnx.onnx_node import Node, NotOffered, at, names, number, over, stretched, template

# ── of one tensor ───────────────────────────────────────────────────────────────────────────────────────────────────────

_PLAIN = {
    "Abs": "abs {x}", "Ceil": "ceil {x}", "Cos": "cos {x}", "Erf": "erf {x}", "Exp": "exp {x}", "Floor": "floor {x}",
    "Identity": "{x}", "Log": "log {x}", "Neg": "-{x}", "Not": "not {x}", "Reciprocal": "1.0 / {x}", "Round": "round {x}",
    "Sign": "sign {x}", "Sin": "sin {x}", "Sqrt": "sqrt {x}", "Tanh": "tanh {x}", "Tan": "sin {x} / cos {x}",
    "Asin": "asin {x}", "Acos": "acos {x}", "Atan": "atan {x}", "Sinh": "sinh {x}", "Cosh": "cosh {x}", "Asinh": "asinh {x}",
    "Acosh": "acosh {x}", "Atanh": "atanh {x}", "Softsign": "{x} / (1.0 + abs {x})", "IsNaN": "{x} <> {x}",
}  # fmt: skip
_LIBRARY = {
    "Relu": "nn.relu", "Sigmoid": "nn.sigmoid", "Softplus": "nn.softplus", "Mish": "nn.mish", "HardSwish": "nn.hard_swish",
}  # fmt: skip


def _plain(text: str) -> Callable[[Node], str]:
    return lambda n: text.format(x=n.x())


def _library(name: str) -> Callable[[Node], str]:
    return lambda n: f"{n.library(name)} {n.x()}"


for _operator, _text in _PLAIN.items():
    template(_operator)(_plain(_text))
for _operator, _text in _LIBRARY.items():
    template(_operator)(_library(_text))


def real(n: Node, name: str, default: float = 0.0) -> str:
    """An attribute as a literal of a float."""
    return number(float(n.a(name, default)), Element.F32)


@template("Gelu")
def gelu(n: Node) -> str:
    return f"{n.library('nn.gelu_tanh' if n.a('approximate') == 'tanh' else 'nn.gelu')} {n.x()}"


@template("LeakyRelu")
def leaky_relu(n: Node) -> str:
    return f"{n.library('nn.leaky_relu')} {real(n, 'alpha')} {n.x()}"


@template("Elu")
def elu(n: Node) -> str:
    return f"{n.library('nn.elu')} {real(n, 'alpha')} {n.x()}"


@template("Celu")
def celu(n: Node) -> str:
    alpha = real(n, "alpha")
    return f"max 0.0 {n.x()} + min 0.0 ({alpha} * (exp ({n.x()} / {alpha}) - 1.0))"


@template("Selu")
def selu(n: Node) -> str:
    return f"{real(n, 'gamma')} * {n.library('nn.elu')} {real(n, 'alpha')} {n.x()}"


@template("ThresholdedRelu")
def thresholded_relu(n: Node) -> str:
    return f"for ..i => if {n.x()}[..i] > {real(n, 'alpha')} then {n.x()}[..i] else 0.0"


@template("HardSigmoid")
def hard_sigmoid(n: Node) -> str:
    return f"max 0.0 (min 1.0 ({real(n, 'alpha')} * {n.x()} + {real(n, 'beta')}))"


@template("Swish")
def swish(n: Node) -> str:
    return f"{n.x()} * {n.library('nn.sigmoid')} ({real(n, 'alpha', 1.0)} * {n.x()})"


@template("Shrink")
def shrink(n: Node) -> str:
    x, bias, lambd = n.x(), real(n, "bias"), real(n, "lambd")
    return f"for ..i => if {x}[..i] < -{lambd} then {x}[..i] + {bias} else if {x}[..i] > {lambd} then {x}[..i] - {bias} else 0.0"


@template("IsInf")
def is_inf(n: Node) -> str:
    sides = [f"{n.x()} = {side}" for side, name in (("inf", "detect_positive"), ("-inf", "detect_negative")) if n.a(name)]
    return " orelse ".join(sides) if sides else f"{n.x()} = 0.0 andalso {n.x()} <> 0.0"


@template("Clip")
def clip(n: Node) -> str:
    text = n.x()
    if n.has(1):
        text = f"max {text} {n.x(1)}"
    return f"min ({text}) {n.x(2)}" if n.has(2) else text


_FINITE = {Element.F8E4M3: 448.0, Element.F8E5M2: 57344.0}


@template("Cast", "CastLike")
def cast(n: Node) -> str:
    to, x, source = n.result(), n.x(), n.element()
    if (to is Element.BOOL and source is Element.BOOL) or to is source:
        return x
    if to in _FINITE and source.is_float and source not in _FINITE:
        limit = _FINITE[to]
        if n.a("saturate"):  # the language rounds to infinity or NaN
            x = f"max (-{limit}) (min {limit} {x})" if source is not Element.F16 or limit < 65504 else x
        return f"cast {to.value} ({x})"
    return f"cast {to.value} {x}"


# ── of several ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_BINARY = {
    "Add": "+", "Sub": "-", "Mul": "*", "And": "andalso", "Or": "orelse", "Xor": "<>", "Equal": "=", "Greater": ">", "Less": "<",
    "GreaterOrEqual": ">=", "LessOrEqual": "<=",
}  # fmt: skip


def _binary(op: str) -> Callable[[Node], str]:
    return lambda n: f"{n.x(0)} {op} {n.x(1)}"


for _operator, _text in _BINARY.items():
    template(_operator)(_binary(_text))


def each(n: Node, body: Callable[..., str]) -> str:
    """Element by element over all inputs, which broadcast: `body` takes an element of each."""
    count = len(n.inputs)
    shape = np.broadcast_shapes(*(n.shape(k) for k in range(count)))
    i = names(len(shape))
    return over(i, shape, body(*(at(n.x(k), stretched(n.shape(k), i)) for k in range(count))))


@template("Div")
def div(n: Node) -> str:
    a, b = n.x(0), n.x(1)
    if n.element().is_float or n.element() is Element.U8:
        return f"{a} / {b}"
    return f"(abs {a} / abs {b}) * sign {a} * sign {b}"  # ONNX truncates, the language rounds down


@template("Mod")
def mod(n: Node) -> str:
    if not n.a("fmod"):
        return f"{n.x(0)} % {n.x(1)}"
    zero = number(0, n.element())  # the remainder has the sign of what is divided
    return each(n, lambda a, b: f"let val r = abs {a} % abs {b} in if {a} < {zero} then -r else r end")


@template("Pow")
def power(n: Node) -> str:
    a, b = n.element(0), n.element(1)
    if a is b:
        return f"{n.x(0)} ** {n.x(1)}"
    if b.is_float and not a.is_float:
        return f"cast {a.value} (cast {b.value} {n.x(0)} ** {n.x(1)})"
    return f"{n.x(0)} ** cast {a.value} {n.x(1)}"


@template("Max", "Min")
def extreme(n: Node) -> str:
    name = n.operator.lower()
    return reduce(lambda a, b: f"{name} ({a}) {b}", (n.x(i) for i in range(len(n.inputs))))


@template("Sum", "Mean")
def total(n: Node) -> str:
    text = " + ".join(n.x(i) for i in range(len(n.inputs)))
    return text if n.operator == "Sum" else f"({text}) / {float(len(n.inputs))}"


@template("PRelu")
def prelu(n: Node) -> str:
    zero = number(0, n.element())
    return each(n, lambda x, slope: f"if {x} < {zero} then {x} * {slope} else {x}")


@template("Where")
def where(n: Node) -> str:
    return each(n, lambda p, a, b: f"if {p} then {a} else {b}")


@template("BitShift")
def bit_shift(n: Node) -> str:
    return each(n, lambda a, b: f"shift_{n.a('direction').lower()} {a} {b}")


@template("BitwiseNot")
def bitwise_not(n: Node) -> str:
    return f"bit_not {n.x()}"


@template("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(n: Node) -> str:
    op = n.operator.removeprefix("Bitwise").lower()
    return each(n, lambda a, b: f"bit_{op} {a} {b}")


# ── optimizers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@template("Momentum")
def momentum(n: Node) -> str:
    rate, step = n.x(0), n.x(1)
    alpha, beta, norm = (real(n, name) for name in ("alpha", "beta", "norm_coefficient"))
    many = (len(n.inputs) - 2) // 3
    xs, vs = [], []
    for k in range(many):
        x, g, v = n.x(2 + k), n.x(2 + many + k), n.x(2 + 2 * many + k)
        g = n.val(f"{norm} * {x} + {g}")
        new = n.val(f"{alpha} * {v} + (if {step} > 0 then {beta} else 1.0) * {g}")
        vs.append(new)
        xs.append(f"{x} - {rate} * ({g} + {alpha} * {new})" if n.a("mode") == "nesterov" else f"{x} - {rate} * {new}")
    return f"({', '.join([*xs, *vs])})"


@template("Adagrad")
def adagrad(n: Node) -> str:
    decay, epsilon, norm = (real(n, name) for name in ("decay_factor", "epsilon", "norm_coefficient"))
    many = (len(n.inputs) - 2) // 3
    rate = n.val(f"{n.x(0)} / (1.0 + cast f32 {n.x(1)} * {decay})")
    xs, hs = [], []
    for k in range(many):
        x, g, h = n.x(2 + k), n.x(2 + many + k), n.x(2 + 2 * many + k)
        g = n.val(f"{norm} * {x} + {g}")
        new = n.val(f"{h} + {g} * {g}")
        hs.append(new)
        xs.append(f"{x} - {rate} * {g} / (sqrt {new} + {epsilon})")
    return f"({', '.join([*xs, *hs])})"


@template("Adam")
def adam(n: Node) -> str:
    alpha, beta, epsilon, norm, post = (
        real(n, name) for name in ("alpha", "beta", "epsilon", "norm_coefficient", "norm_coefficient_post")
    )
    many = (len(n.inputs) - 2) // 4
    step = n.val(f"cast f32 {n.x(1)}")
    rate = n.val(f"if {step} > 0.0 then {n.x(0)} * sqrt (1.0 - {beta} ** {step}) / (1.0 - {alpha} ** {step}) else {n.x(0)}")
    xs, vs, hs = [], [], []
    for k in range(many):
        x, g, v, h = (n.x(2 + j * many + k) for j in range(4))
        g = n.val(f"{norm} * {x} + {g}")
        vs.append(n.val(f"{alpha} * {v} + (1.0 - {alpha}) * {g}"))
        hs.append(n.val(f"{beta} * {h} + (1.0 - {beta}) * {g} * {g}"))
        xs.append(f"(1.0 - {post}) * ({x} - {rate} * {vs[-1]} / (sqrt {hs[-1]} + {epsilon}))")
    return f"({', '.join([*xs, *vs, *hs])})"


@template("Binarizer")
def binarizer(n: Node) -> str:
    i = names(n.rank())
    return over(i, n.shape(), f"if {at(n.x(), i)} > {number(n.a('threshold'), n.element())} then 1.0 else 0.0")


@template("BitCast")
def bit_cast(n: Node) -> str:
    """Between integers of one width, which wrap around; 1 and 0 are what true and false are made of."""
    if n.element().is_float or n.result().is_float:
        raise NotOffered("the bits of floats")
    return f"cast {n.result().value} {n.x()}"
