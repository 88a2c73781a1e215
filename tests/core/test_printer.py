"""The text of core, as plain files in golden/; AXON_UPDATE=1 writes them anew."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from axon.base.names import fresh
from axon.core.ir import Axis, Bind, Convert, Leaf, Param, Program, RecordOf, Scalar, Select, TupleOf, Unary, Value
from axon.core.printer import print_op, print_program
from axon.core.verify import verify
from axon.shapes.contracts.contract import Contract, ContractFact
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from tests.core.build import BF16, F32, I32, I64, SOURCE, Build, at, custom, dim, index, ix, lit, local, op
from tests.core.test_verify import good

GOLDEN = Path(__file__).parent / "golden"


def sizes(names: str) -> tuple[Dim, ...]:
    return tuple(Dim.of(fresh(name)) for name in names)


def constructs() -> Program:
    world = good()
    return world.b.program(world.x, world.s)


def attention() -> Program:
    b = Build("attention")
    nb, ns, nt, nd, ne = sizes("bstde")
    q, k, v = b.input("q", BF16, nb, ns, nd), b.input("k", BF16, nb, nt, nd), b.input("v", BF16, nb, nt, ne)

    def axes():
        return ix("b", nb), ix("i", ns), ix("j", nt)

    g, i, j = axes()
    c = ix("c", nd)
    dot = op("mul", at(q, g, i, c), at(k, g, j, c))
    s = b.compute([g, i, j], dot, over=[c], by="sum", name="s")
    g, i, j = axes()
    masked = Select(op("le", index(j), index(i)), at(s, g, i, j), lit(float("-inf"), BF16))
    s = b.compute([g, i, j], masked, name="s")
    g, i, j = axes()
    m = b.compute([g, i], at(s, g, i, j), over=[j], by="max", name="m")
    g, i, j = axes()
    p = b.compute([g, i, j], Unary("exp", op("sub", at(s, g, i, j), at(m, g, i))), name="p")
    g, i, j = axes()
    z = b.compute([g, i], at(p, g, i, j), over=[j], by="sum", name="z")
    g, i, j = axes()
    e = ix("e", ne)
    o = b.compute([g, i, e], op("mul", at(p, g, i, j), at(v, g, j, e)), over=[j], by="sum", name="o")
    g, i, e = ix("b", nb), ix("i", ns), ix("e", ne)
    return b.program(b.compute([g, i, e], op("div", at(o, g, i, e), at(z, g, i)), name="o"))


def convolution() -> Program:
    """Records, explicit dimensions and facts; padding; a Bind that is too long for one line."""
    b = Build("conv")
    h = b.param("h")
    nb, c, w, o, r = sizes("bcwor")
    x, k, bias = b.input("x", F32, nb, c, h * w), b.input("k", F32, o, c, r), b.input("bias", F32, o)
    n, p, q, channel, tap = ix("n", nb), ix("p", o), ix("q", h * w), ix("c", c), ix("t", r)
    image = at(x, n, channel, dim(q) + dim(tap) - 1, padding=lit(0.0))
    y = b.compute([n, p, q], op("mul", image, at(k, p, channel, tap)), over=[channel, tap], by="sum")
    n, p, q = ix("n", nb), ix("p", o), ix("q", h * w)
    u, cube, inner = fresh("u"), fresh("cube"), fresh("inner")
    body = Bind(
        (
            (u, op("add", at(y, n, p, q), at(bias, p))),
            (cube, op("mul", op("mul", local(u), local(u)), local(u))),
            (inner, op("mul", lit(0.7978845608), op("add", local(u), op("mul", lit(0.044715), local(cube))))),
        ),
        op("mul", op("mul", lit(0.5), local(u)), op("add", lit(1.0), Unary("tanh", local(inner)))),
    )
    out = b.compute([n, p, q], body)
    facts = (ContractFact(Relation(h, ">=", Dim.of(1)), "h divides"), ContractFact(Relation(w % 2, "=", Dim.of(0)), ""))
    program = b.program(out, result=RecordOf((("y", Leaf(0)), ("pair", TupleOf((Leaf(0), Leaf(0)))))), facts=facts)
    params = Param("x", Leaf(0)), Param("p", RecordOf((("w", Leaf(1)), ("b", Leaf(2)))))
    return replace(program, params=params)


def bodies(x: Value, v: Value, i: Axis, n: Dim) -> list[Scalar]:
    a, c = at(x, i), lit(2.0)
    add, mul = op("add", a, c), op("mul", a, c)
    return [
        op("mul", add, op("sub", a, op("sub", a, c))),
        op("sub", op("sub", a, c), mul),
        op("div", a, op("mul", a, op("div", c, a))),
        op("pow", op("pow", a, c), op("pow", c, Unary("neg", a))),
        op("pow", Unary("neg", a), Unary("exp", add)),
        Unary("neg", op("mul", Unary("neg", Unary("neg", a)), lit(-3.0))),
        op("max", op("min", a, add), Unary("abs", lit(float("nan")))),
        op("add", Select(op("lt", a, c), a, c), Select(op("eq", a, c), c, Select(op("ne", c, a), a, c))),
        op("and", Unary("not", op("or", op("le", a, c), op("ge", a, c))), op("and", op("gt", a, c), op("lt", c, a))),
        Convert(op("add", index(dim(i) + 1, I64), op("mod", at(v, i), lit(7, I64))), BF16),
        op("add", index(dim(i) * n - 1), op("mul", index(i), Convert(at(v, i), I32))),
        at(x, Select(op("lt", at(v, i), lit(0, I64)), lit(0, I64), at(v, i)), checked=SOURCE.span()),
        Bind(((fresh("a"), a),), Bind(((fresh("a"), a),), a)),
    ]


def operators() -> Program:
    """Precedence and literals."""
    b = Build("operators")
    (n,) = sizes("n")
    x, v = b.input("x", F32, n), b.input("v", I64, n)
    for number in range(len(bodies(x, v, ix("i", n), n))):
        i = ix("i", n)
        b.compute([i], bodies(x, v, i, n)[number])
    return b.program(x)


def names() -> Program:
    """Symbols of one name, names that end in digits, names with odd characters."""
    b = Build("names")
    n1, n2, m = Dim.of(fresh("n")), Dim.of(fresh("n")), Dim.of(fresh("x"))
    x, y, z = b.input("x", F32, n1, n2), b.input("x1", F32, m), b.input("x1", F32)
    i, j = ix("n", n1), ix("n", n2)
    b.compute([i, j], at(x, i, j), name="x")
    b.compute([k := ix("x1", m)], at(y, k), name="n2")
    b.compute([k := ix("x1", m)], op("add", at(y, k), at(z)), name="λ")
    clash = custom((lit(0.0),), lambda a, c: (op("add", a[0], c[0]),))
    return b.program(b.compute([], at(y, k := ix("a", m)), over=[k], by=clash, name="a"))


PROGRAMS = (attention, constructs, convolution, names, operators)


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_text(make):
    program = make()
    verify(program)
    text, golden = print_program(program), GOLDEN / f"{make.__name__}.txt"
    if os.environ.get("AXON_UPDATE"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_text_does_not_depend_on_the_numbers_of_symbols(make):
    assert print_program(make()) == print_program(make())


def test_names_are_unique_and_one_operation_reads_as_in_its_program():
    program = attention()
    text = print_program(program)
    lines = [print_op(program, op) for op in program.block.ops]
    assert all(line.startswith("s : ") or line in text for line in lines)
    defined = [line.split(" : ")[0].strip() for line in text.splitlines()[1:-1]]
    assert len(set(defined)) == len(defined)


def test_long_binds_print_without_recursion():
    b = Build("long")
    (n,) = sizes("n")
    x, i = b.input("x", F32, n), ix("i", n)
    body = at(x, i)
    for _ in range(5_000):
        v = fresh("v")
        body = Bind(((v, at(x, i)),), body)
    text = print_program(b.program(b.compute([i], body)))
    assert text.count("\n") > 5_000
    assert "v5000 = x[i]" in text


def test_a_program_that_is_not_valid_prints_too():
    b = Build("bad")
    (n,) = sizes("n")
    missing = Value(fresh("gone"), F32, (n,))
    program = b.program(b.compute([], at(missing, 0, 1)))
    assert "y : f32 = gone[0, 1]" in print_program(replace(program, result=Leaf(3), contract=Contract((), ())))
