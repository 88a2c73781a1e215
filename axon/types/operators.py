"""Operators: element by element with broadcasting, `@`, arithmetic on sizes and on literals."""

from __future__ import annotations

from axon.base.data import replace
from axon.base.element import BOOL, NUM, Element
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Reason, Side
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum
from axon.shapes.relation import Relation
from axon.types import builtins
from axon.types import typed as T
from axon.types.constraint import Product
from axon.types.inference import Env, Inference, as_tensor, broken, infer, narrow, oblige, only_where, wrong
from axon.types.literals import Literal, folded
from axon.types.show import Namer, show_element
from axon.types.solve import broadcast, defer
from axon.types.symbolic import says, size_of
from axon.types.trouble import Mismatched, Operands, Rule, RuleBroken
from axon.types.type import Poison, Tensor
from axon.types.unify import Mismatch, State


def infer_unary(inf: Inference, env: Env, e: S.Unary) -> T.Expr:
    if e.op == "-" and isinstance(e.operand, S.Int):
        return infer(inf, env, S.Int(-e.operand.value, span=e.span))
    before = len(inf.literals)
    operand = infer(inf, env, e.operand)
    op, allowed = ("neg", NUM) if e.op == "-" else ("not", BOOL)
    t = as_tensor(inf, operand.type, e.operand.span, f"the operand of `{e.op}`")
    if t is None or not narrow(inf, t, allowed, Reason(e.operand.span, f"the operand of `{e.op}`")):
        return broken(e.span)
    if op == "neg" and isinstance(operand, T.Dimension):
        return T.Dimension(-operand.dim, type=t, span=e.span)
    value = _constant(operand) if op == "neg" else None
    if value is not None:
        _fold(inf, before, -value, t, e.span)
    return T.Unary(op, operand, None if value is None else -value, type=t, span=e.span)


def _constant(e: T.Expr) -> int | None:
    """The value of an integer literal, or of arithmetic on such alone."""
    if isinstance(e, T.Literal):
        return e.value if type(e.value) is int else None
    return e.folded if isinstance(e, T.Unary | T.Binary) else None


def _fold(inf: Inference, before: int, value: int, t: Tensor, span: Span) -> None:
    """Arithmetic on literals alone must fit as a whole, and its parts need not."""
    inf.literals[before:] = [Literal(value, t.element, span, folded=True)]


def infer_binary(inf: Inference, env: Env, e: S.Binary) -> T.Expr:
    before = len(inf.literals)
    left = infer(inf, env, e.left)
    inner = env
    if e.op in ("andalso", "orelse"):
        holds = e.op == "andalso"
        inner = env.guarded(says(inf, left, holds))
    with only_where(inf, inner.context):
        right = infer(inf, inner, e.right)
    if e.op == "@":
        return _matmul(inf, left, right, e)
    name, allowed, gives_bool = builtins.OPERATORS[e.op]
    found = elementwise(inf, name, allowed, gives_bool, left, right, e.op_span, e.span, f"`{e.op}`")
    if isinstance(left, T.Dimension) or isinstance(right, T.Dimension):
        return arithmetic(inf, env, name, left, right, found)
    a, b = _constant(left), _constant(right)
    value = folded(name, a, b) if a is not None and b is not None else None
    if value is None or not isinstance(found, T.Binary) or not isinstance(found.type, Tensor):
        return found
    _fold(inf, before, value, found.type, e.span)
    return replace(found, folded=value)


def elementwise(
    inf: Inference, name: str, allowed: frozenset[Element], gives_bool: bool, left: T.Expr, right: T.Expr, at: Span, span: Span,
    what: str,
) -> T.Expr:  # fmt: skip
    a, b = (
        as_tensor(inf, e.type, e.span, f"the {side} side of {what}", e, operator=True)
        for side, e in (("left", left), ("right", right))
    )
    if a is None or b is None:
        return broken(span)
    sides = (Side(left.span, f"this is {_type_words(inf.state, a)}"), Side(right.span, f"this is {_type_words(inf.state, b)}"))
    words = Reason(at, f"{what} needs one element type on both sides", sides)
    if not narrow(inf, a, allowed, Reason(left.span, f"the left side of {what}")):
        return broken(span)
    if not narrow(inf, b, allowed, Reason(right.span, f"the right side of {what}")):
        return broken(span)
    try:
        inf.state.unify_element(a.element, b.element)
    except Mismatch as m:
        wrong(inf, Mismatched(m, a, b, words, Operands(left, right, at)))
        return broken(span)
    if name == "div":
        inf.divided.append(a.element)
    sides = (Side(left.span, "the left side has {}"), Side(right.span, "the right side has {}"))
    shape = broadcast(inf, a, b, Reason(at, f"{what} works element by element", sides))
    result = Tensor(Element.BOOL if gives_bool else a.element, shape)
    return T.Binary(name, left, right, type=result, span=span)


def arithmetic(inf: Inference, env: Env, op: str, left: T.Expr, right: T.Expr, found: T.Expr) -> T.Expr:
    """Arithmetic on dimensions and indices stays symbolic where it can."""
    a, b = size_of(inf, left), size_of(inf, right)
    if a is None or b is None or isinstance(found.type, Poison):
        return found
    try:
        match op:
            case "add":
                dim = a + b
            case "sub":
                dim = a - b
            case "mul":
                dim = a * b
            case "div" | "mod":
                if b.constant is not None and b.constant < 1:
                    wrong(inf, RuleBroken(Rule.DIVISOR, right.span, (b.constant,)))
                    return broken(found.span)
                text = "the divisor must be at least 1: {}"
                oblige(inf.state, Relation(b, ">=", Dim.of(1)), env.context, Reason(right.span, text))
                dim = a // b if op == "div" else a % b
            case "max" | "min":
                dim = (maximum if op == "max" else minimum)(a, b)
            case _:
                return found
    except (DimensionTooLarge, ZeroDivisionError):
        return found
    return T.Dimension(dim, type=found.type, span=found.span)


def _matmul(inf: Inference, left: T.Expr, right: T.Expr, e: S.Binary) -> T.Expr:
    a = as_tensor(inf, left.type, e.left.span, "the left side of `@`", left, operator=True)
    b = as_tensor(inf, right.type, e.right.span, "the right side of `@`", right, operator=True)
    if a is None or b is None:
        return broken(e.span)
    for t, node in ((a, e.left), (b, e.right)):
        if not narrow(inf, t, NUM, Reason(node.span, "`@` multiplies numbers")):
            return broken(e.span)
    sides = (Side(e.left.span, f"this is {_type_words(inf.state, a)}"), Side(e.right.span, f"this is {_type_words(inf.state, b)}"))
    try:
        inf.state.unify_element(a.element, b.element)
    except Mismatch as m:
        reason = Reason(e.op_span, "`@` needs one element type on both sides", sides)
        wrong(inf, Mismatched(m, a, b, reason))
        return broken(e.span)
    out = inf.state.row()
    reason = Reason(e.op_span, "the product")
    defer(inf, Product(a.shape, b.shape, out, reason, (e.left.span, e.right.span)))
    return T.MatMul(left, right, type=Tensor(a.element, (out,)), span=e.span)


def _type_words(state: State, t: Tensor) -> str:
    """What the elements of a tensor are, for people."""
    return show_element(Namer(state, classes=True), t.element)
