"""Kernels as data: what is printed means what was built, names never clash, and what is read before it is assigned is found."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import (
    Assign,
    Call,
    Choice,
    Comment,
    Constant,
    Expression,
    Function,
    Import,
    Item,
    Kind,
    Module,
    Name,
    Operator,
    Prefix,
    Several,
    call,
    lift,
    same,
)
from axon.backend.kernel.printer import bare, printed, texts, written
from axon.backend.kernel.tidy import inlined
from axon.backend.kernel.verify import KernelInvalid, verify, verify_module

OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": lambda a, b: a << (b & 7), ">>": lambda a, b: a >> (b & 7), "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b,
}  # fmt: skip
PREFIXES: dict[str, Callable[[int], int]] = {"-": operator.neg, "~": operator.invert, "not": operator.not_}


def text_of(code: Code, *parameters: Name) -> str:
    return "\n".join(written(Function("f", parameters, code.body, tuple(code.names))).lines)


def invalid(code: Code, *parameters: Name) -> str:
    with pytest.raises(KernelInvalid) as raised:
        verify(Function("f", parameters, code.body, tuple(code.names)))
    return str(raised.value)


def random_expression(rng: Random, x: Name, depth: int) -> Expression:
    if depth == 0:
        return rng.choice((x, Constant(rng.randrange(-9, 10))))
    if rng.random() < 0.2:
        return Prefix(rng.choice(list(PREFIXES)), random_expression(rng, x, depth - 1))
    left, right = (random_expression(rng, x, rng.randrange(depth)) for _ in range(2))
    op = rng.choice(list(OPERATORS))
    if op in ("<<", ">>"):
        right = Operator("&", right, Constant(7))
    return Operator(op, left, right)


def value_of(expression: Expression, x: int) -> int:
    match expression:
        case Constant(value=value):
            return int(value)
        case Operator(op=op, left=left, right=right):
            return OPERATORS[op](value_of(left, x), value_of(right, x))
        case Prefix(op=op, operand=operand):
            return PREFIXES[op](value_of(operand, x))
        case _:
            return x


def test_what_is_printed_means_what_was_built() -> None:
    """Python computes with the text what the tree says."""
    rng = Random(5)
    for _ in range(400):
        code = Code()
        x = code.named("x")
        tree = random_expression(rng, x, 4)
        code.give(tree)
        space: dict[str, Callable[[int], int]] = {}
        exec(text_of(code, x), {}, space)
        for argument in (-3, 0, 7):
            try:
                wanted = value_of(tree, argument)
            except ZeroDivisionError:
                continue
            assert space["f"](argument) == wanted, text_of(code, x)


def test_statements() -> None:
    code = Code()
    x, n = code.named("x"), code.named("n")
    code.assign(code.local("row"), x + (n + 4 - 1), "a note")
    with code.loop(code.local("item"), 0, n, 2):
        with code.when(code.local("item") < 3):
            code.call("store", x, code.let(code.local("item") * (n - 1)))
        with code.otherwise():
            code.comment("nothing to do")
        code.assign(Item(x, lift(0)), Several((n, Constant(-(2**63)))))
    code.give(1)
    assert text_of(code, x, n) == (
        "def f(x, n):\n"
        "    row = x + n + 3  # a note\n"
        "    for item in range(0, n, 2):\n"
        "        if item < 3:\n"
        "            v1 = item * (n - 1)\n"
        "            store(x, v1)\n"
        "        else:\n"
        "            pass\n"
        "            # nothing to do\n"
        "        x[0] = (n, (-9223372036854775807 - 1))\n"
        "    return 1"
    )


def test_names_never_clash() -> None:
    """Not with each other, nor with what the kernel calls, nor with Python; what is asked for first is given first."""
    code = Code()
    names = [code.named(like) for like in ("exp", "for", "x", "x", "v1", "row", "größe", "2d")]
    value = code.let(call("exp", names[0]))
    code.assign(code.local("row"), value)
    code.call("store", code.named("_stride", names[3]))
    texts = written(Function("f", tuple(names), code.body, tuple(code.names))).names
    assert list(texts.values()) == ["row", "exp2", "for2", "x", "x2", "v1", "row2", "gre", "x2d", "v2", "x2_stride"]
    assert len(set(texts.values())) == len(texts)


def test_constants_are_equal_if_they_are_written_alike() -> None:
    values = [0, 0.0, -0.0, False, 1, True, float("nan"), float("inf")]
    assert len({Constant(value) for value in values}) == len(values)
    assert Constant(float("nan")) == Constant(float("nan"))
    assert call("f32", 0.0) != call("f32", 0)
    assert isinstance(call("f32", 0.0), Call)


def test_what_is_assigned_on_one_way_only() -> None:
    code = Code()
    x = code.named("x")
    y = code.named("y")
    with code.when(same(x, 0)):
        code.assign(y, x)
    code.give(y)
    assert invalid(code, x) == "'y' is read before it is assigned, in the emitted function `f`"


def test_what_is_assigned_in_a_loop_that_may_have_no_turns() -> None:
    code = Code()
    x, y, i = code.named("x"), code.named("y"), code.named("i")
    with code.loop(i, x):
        code.assign(y, i)
    code.give(y)
    assert "'y' is read before" in invalid(code, x)


def test_a_counter_behind_its_loop() -> None:
    code = Code()
    x, i = code.named("x"), code.named("i")
    with code.loop(i, x):
        code.call("use", i)
    code.give(i)
    assert "'i' is read before" in invalid(code, x)


def test_a_parameter_that_is_assigned() -> None:
    code = Code()
    x = code.named("x")
    code.assign(x, x + 1)
    assert invalid(code, x) == "the parameter 'x' is assigned, in the emitted function `f`"
    code = Code()
    with code.loop(x, 3):
        code.call("use", x)
    assert "the parameter 'x' is assigned" in invalid(code, x)


def test_a_function_that_is_called_by_a_name() -> None:
    code = Code()
    helper = code.named("helper")
    code.call(helper, 1)
    assert "'helper' is read before" in invalid(code)


def test_ways_that_end() -> None:
    """What comes after a `return` is asked nothing of the way that ended there."""
    code = Code()
    x, y = code.named("x"), code.named("y")
    with code.when(same(x, 0)):
        code.give(0)
    with code.otherwise():
        code.assign(y, x)
    code.give(y)
    verify(Function("f", (x,), code.body, tuple(code.names)))


def test_what_nothing_reads_is_gone() -> None:
    """With what was computed for it alone; what acts stays, and what a loop needs of its last turn."""
    code = Code()
    x = code.named("x")
    unread = code.let(code.let(x + 1) * 2)
    code.assign(unread, 0)
    state = code.let(x)
    with code.loop(code.local("item"), 3):
        code.assign(state, state + code.let(x * 3))
        code.let(state)
    code.let(call("cuda.syncthreads_count", x))
    code.call("store", x, state)
    assert "\n".join(written(code.function("f", (x,))).lines) == (
        "def f(x):\n"
        "    v1 = x\n"
        "    for item in range(3):\n"
        "        v2 = x * 3\n"
        "        v1 = v1 + v2\n"
        "    v3 = cuda.syncthreads_count(x)\n"
        "    store(x, v1)"
    )


def test_what_the_host_knows_is_folded() -> None:
    """Of integers: sums and products of floats are as they were asked for."""
    code = Code()
    x, y = code.named("x"), code.named("y")
    assert x + 0 is x
    assert 1 * x is x
    assert x * 0 == Constant(0)
    assert 3 + (x + 4) - 7 == 3 + x - 3
    assert x + (y - 3) + 3 == Operator("+", x, y)
    assert x - 4 + 1 == x - 3
    assert lift(6) * 7 - 2 == Constant(40)
    assert x + 0.0 == Operator("+", x, Constant(0.0))
    assert x + (-2) == Operator("-", x, Constant(2))
    code.give(x - (y + 1))
    assert text_of(code, x, y).endswith("return x - (y + 1)")


def module(*, tensor: str = "x", note: str = "", right: float = 2) -> Module:
    """A kernel that calls a function of its own, which calls what is made before."""
    made, helper = Name("made"), Name("helper")
    inner, outer = Code(), Code()
    value = inner.named("value")
    inner.give(call(made, Choice(value > 0, value, -value)))
    x, found = outer.named(tensor), outer.named("helper")
    outer.write(Comment("of {0}", (x,)))
    outer.assign(found, call(helper, x * right), note)
    outer.call("store", x, found)
    functions = (
        Function(helper, (value,), inner.body, tuple(inner.names), decorator="scalar"),
        Function("kernel", (x,), outer.body, tuple(outer.names), note=note),
    )
    made_of = Assign(made, call("tools.maker", Constant("bf16")))
    return Module(((Import("here", ("tools", "scalar", "store")),),), (made_of, *functions), (made, helper))


def test_a_module() -> None:
    """Its own names are found first, and comments say what names are called."""
    assert printed(module(tensor="made", note="a note")) == (
        "from here import tools, scalar, store\n\n"
        "made = tools.maker('bf16')\n\n\n"
        "@scalar\ndef helper(value):\n    return made(value if value > 0 else -value)\n\n\n"
        "def kernel(made2):  # a note\n    # of made2\n    helper2 = helper(made2 * 2)  # a note\n    store(made2, helper2)\n"
    )


def test_what_modules_mean_is_the_same_up_to_names_and_comments() -> None:
    assert bare(module()) == bare(module(tensor="weights", note="of layer 2")) != bare(module(right=3))
    assert printed(module()) != printed(module(tensor="weights"))


def test_a_module_is_verified_as_a_whole() -> None:
    sound = module()
    verify_module(sound)
    made, helper, kernel = sound.body
    for body, why in [((helper, made, kernel), "'made' is read before"), ((made, kernel, helper), "'helper' is read before")]:
        with pytest.raises(KernelInvalid, match=why):
            verify_module(replace(sound, body=body))
    with pytest.raises(KernelInvalid, match="'scalar' is not defined"):
        verify_module(replace(sound, imports=((Import("here", ("tools", "store")),),)))


def test_what_is_read_once_stands_where_it_is_read() -> None:
    """If it is evaluated there in any case, in the same block, and means the same there."""
    code = Code()
    x = code.named("x")
    state, other = code.local("state"), code.local("other")
    code.assign(state, x)
    once, twice, before, branch = code.let(x + 1), code.let(x * 2), code.let(state * 3), code.let(x - 5)
    code.assign(other, once * twice + twice)
    code.assign(state, state + 1)
    code.assign(other, other + before)
    code.assign(other, Choice(other > 0, branch, other))
    outside = code.let(x * 7)
    with code.loop(code.local("item"), 3):
        code.assign(other, other + code.let(code.local("item") * 9) + outside)
    code.give(code.let(call("root", code.let(other + state))))
    function = Function("f", (x,), code.body, tuple(code.names))
    text = "\n".join(written(inlined(function)).lines)
    assert text == (
        "def f(x):\n"
        "    state = x\n"
        "    v1 = x * 2\n"
        "    other = (x + 1) * v1 + v1\n"
        "    v2 = state * 3\n"
        "    state = state + 1\n"
        "    other = other + v2\n"
        "    v3 = x - 5\n"
        "    other = v3 if other > 0 else other\n"
        "    v4 = x * 7\n"
        "    for item in range(3):\n"
        "        other = other + item * 9 + v4\n"
        "    return root(other + state)"
    )
    spaces: list[dict[str, Callable[[int], int]]] = [{"root": lambda v: v}, {"root": lambda v: v}]
    for space, lines in zip(spaces, (text, "\n".join(written(function).lines)), strict=True):
        exec(lines, space)
    assert all(len({space["f"](n) for space in spaces}) == 1 for n in range(-9, 9))


def test_every_name_is_one_of_pythons() -> None:
    """Of an index without a name, which a model calls `_.0`, a GPU kernel was written that does not parse."""
    names = [Name(like, kind) for like in ("_.0_", "theta.given", "2", "i_", "_") for kind in (Kind.NUMBERED, Kind.READABLE)]
    spelled = texts(names, ())
    assert all(text.isidentifier() for text in spelled.values())
    assert len(set(spelled.values())) == len(names)
