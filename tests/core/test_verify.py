"""Each rule of core has a program that breaks it, made from a right one by one change."""

from dataclasses import replace

import pytest

from axon.base.names import fresh
from axon.core.ir import (
    Bind,
    Block,
    Compress,
    Const,
    Convert,
    Index,
    Known,
    Leaf,
    Local,
    Monoid,
    RecordOf,
    Select,
    TupleOf,
    Unary,
    Value,
)
from axon.core.verify import CoreInvalid, verify
from axon.shapes.contracts.contract import Contract, ContractFact
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from tests.core.build import BF16, BOOL, F32, F64, I8, I32, I64, SOURCE, Build, at, custom, dim, index, ix, lit, local, op

N, M = Dim.of(fresh("n")), Dim.of(fresh("m"))
STRANGER = fresh("stranger")


class World:
    """Inputs of several element types, and axes over them."""

    def __init__(self) -> None:
        self.b = Build()
        self.x = self.b.input("x", F32, N, M)
        self.v = self.b.input("v", I32, N)
        self.m = self.b.input("mask", BOOL, N)
        self.s = self.b.input("s", F32)
        self.i, self.j = ix("i", N), ix("j", M)

    def map(self, *body, **more):
        return self.b.compute([self.i], *body, **more)


def rejected(program, words: str) -> str:
    with pytest.raises(CoreInvalid, match=words) as raised:
        verify(program)
    return str(raised.value)


def step_of(w: World):
    return lambda inner, counter, states: [inner.compute([], op("add", at(states[0]), lit(1.0)))]


def good() -> World:
    """One of everything."""
    w = World()
    read = at(w.x, w.i, w.j)
    w.map(read, over=[w.j], by="sum", where=op("lt", read, lit(0.0)))
    i, j = ix("i", N), ix("j", dim(w.i))
    join = custom((lit(0, I32), at(w.s)), lambda a, c: (op("max", a[0], c[0]), op("add", a[1], c[1])))
    j = ix("j", dim(i) + 1)
    w.b.compute([i], index(i), lit(1.0), over=[j], by=join)
    i = ix("i", N)
    w.b.compute([i], at(w.v, i), index(i), over=[ix("k", M)], by="argmin")
    i = ix("i", N)
    w.b.scan([i], Convert(at(w.v, i), F64), by="sum")
    w.b.loop([w.s], at(w.b.compute([], lit(3, I32))), step_of(w))
    w.b.loop([w.s], index(N + 1), step_of(w), stacked=True)
    w.b.sort(w.x)
    found = w.b.compress(w.m)
    k = ix("k", found.shape[0])
    v = fresh("v")
    body = Bind(((v, at(w.v, at(found, k), checked=SOURCE.span())),), op("div", local(v, I32), local(v, I32)))
    w.b.compute([k], body)
    w.b.check(found.shape[0], "<=", N)
    return w


def test_one_of_everything_is_valid():
    w = good()
    verify(w.b.program(w.x, w.s))


def scalar_mutants(w: World):
    """(what the message says, the body of a map over i)"""
    x, v, m, s, i = w.x, w.v, w.m, w.s, w.i
    read = at(v, i)
    late = fresh("late")
    yield "2 subscripts for 1 dimensions", at(v, i, i)
    yield "0 subscripts for 2 dimensions", at(x)
    yield "holds f32", replace(at(x, i, 0), element=F64)
    yield "stranger.* is not in scope", at(Value(STRANGER, F32, (N,)), i)
    yield "stranger.* of the dimension .* is not in scope", at(v, Dim.of(STRANGER))
    yield "stranger.* of the dimension .* is not in scope", Index(Dim.of(STRANGER) + 1)
    yield "a subscript is f32", at(v, at(s))
    yield "a subscript is i8", at(v, Convert(read, I8))
    yield "the padding, unlike the tensor, is f32", at(v, i, padding=lit(0.0))
    yield "an index of element type f32", Index(N, F32)
    yield "an index of element type i8", Index(N, I8)
    yield "the local .* is not in scope", local(STRANGER)
    yield "the local .* holds i32", Bind(((late, read),), local(late, F32))
    yield "the local .* is not in scope", Bind(((fresh("a"), local(late, I32)), (late, read)), read)
    yield "the local .* is not in scope", op("add", Bind(((late, read),), read), local(late, I32))
    yield "is defined twice", Bind(((late, read), (late, read)), read)
    yield "unknown operator 'root'", Unary("root", at(s))
    yield "the operand of exp is i32", Unary("exp", read)
    yield "the operand of not is i32", Unary("not", read)
    yield "the operand of neg is bool", Unary("neg", at(m, i))
    yield "the operand of floor is i32", Unary("floor", read)
    yield "unknown operator 'xor'", op("xor", read, read)
    yield "the left operand of add is bool", op("add", at(m, i), at(m, i))
    yield "the left operand of and is i32", op("and", read, read)
    yield "the right operand of add, unlike its left one, is f32", op("add", read, at(s))
    yield "the right operand of lt, unlike its left one, is i64", op("lt", read, index(i, I64))
    yield "a condition is i32", Select(read, read, read)
    yield "the second branch, unlike the first, is f32", Select(at(m, i), read, at(s))
    yield "1.5 is no i32", lit(1.5, I32)
    yield "True is no i32", lit(True, I32)
    yield "1 is no bool", lit(1, BOOL)
    yield "128 is no i8", lit(128, I8)
    yield "2147483648 is no i32", Convert(lit(2**31, I32), I64)
    yield "False is no bf16", Const(False, BF16)
    # what stands inside an expression is checked, wherever it is
    bad = lit(1.5, I32)
    yield "1.5 is no i32", Convert(bad, F32)
    yield "1.5 is no i32", op("add", read, bad)
    yield "1.5 is no i32", op("add", bad, read)
    yield "1.5 is no i32", Select(at(m, i), bad, read)
    yield "1.5 is no i32", Select(at(m, i), read, bad)
    yield "1.5 is no i32", at(v, bad)
    yield "1.5 is no i32", at(v, i, padding=bad)
    yield "1.5 is no i32", Bind(((late, bad),), read)
    yield "1.5 is no i32", Bind(((late, read),), bad)


@pytest.mark.parametrize("number", range(len(list(scalar_mutants(World())))))
def test_scalar_rules(number):
    w = World()
    words, body = list(scalar_mutants(w))[number]
    rejected(w.b.program(w.map(body)), words)


def last(w: World, **changes) -> None:
    """Change the last operation."""
    w.b.ops[-1] = replace(w.b.ops[-1], **changes)


def operation_mutants(w: World):
    """(what the message says, a function that makes the operation)"""
    b, x, v, m, s, i, j = w.b, w.x, w.v, w.m, w.s, w.i, w.j
    read = at(x, i, j)

    def changed(make, **changes):
        def apply():
            make()
            last(w, **changes)

        return apply

    def joined(**changes):
        join = replace(custom((lit(0.0),), lambda a, c: (op("add", a[0], c[0]),)), **changes)
        return lambda: w.map(read, over=[j], by=join)

    def value(element, *shape):
        return Value(fresh("y"), element, shape)

    def loop(**changes):
        return changed(lambda: b.loop([s], index(N), step_of(w)), **changes)

    # Compute
    yield "should hold f32", changed(lambda: w.map(at(s)), outs=(value(F64, N),))
    yield "the shape of .* should be", changed(lambda: w.map(at(s)), outs=(value(F32, M),))
    yield "the shape of .* should be", changed(lambda: w.map(at(s)), outs=(value(F32),))
    yield "1 results for 2 values", changed(lambda: w.map(at(s)), outs=(value(F32, N), value(F32, N)))
    yield "without results", changed(lambda: w.map(at(s)), outs=(), body=())
    yield "is defined twice", lambda: (w.map(at(s)), w.map(at(s)))
    yield "is defined twice", lambda: b.compute([i, i], at(s))
    yield "stranger.* is not in scope", lambda: b.compute([ix("i", Dim.of(STRANGER))], at(s))
    yield "of the dimension i is not in scope", lambda: b.compute([i, ix("k", dim(i))], at(s))
    yield "of the dimension j is not in scope", lambda: (w.map(read, over=[j], by="sum"), b.compute([], index(j)))
    yield "is not in scope", changed(lambda: w.map(at(s)), body=(at(value(F32, N), i),))
    # Reduction
    yield "a reduction over no axes", lambda: w.map(at(s), over=[], by="sum")
    yield "a reduction's `where` is f32", lambda: w.map(read, over=[j], by="sum", where=read)
    yield "of the dimension k is not in scope", lambda: w.map(at(s), over=[ix("l", dim(ix("k", N))), j], by="sum")
    yield "a reduction's `asked` is f32", lambda: w.map(read, over=[j], by="max", asked=at(s))
    yield "of the dimension j is not in scope", lambda: w.map(read, over=[j], by="max", asked=op("lt", index(j), lit(1, I32)))
    yield "unknown monoid 'mean'", lambda: w.map(read, over=[j], by="mean")
    yield "sum of bool", lambda: w.map(at(m, i), over=[j], by="sum")
    yield "any of f32", lambda: w.map(read, over=[j], by="any")
    yield "sum of 2 bodies", lambda: w.map(read, read, over=[j], by="sum")
    yield "argmax of 1 bodies", lambda: w.map(read, over=[j], by="argmax")
    yield "an index of argmax is not i32", lambda: w.map(read, index(j, I64), over=[j], by="argmax")
    yield "the named monoid sum has units", lambda: w.map(read, over=[j], by=Monoid("sum", (lit(0.0),)))
    # custom monoids
    yield "differ in number", joined(units=(lit(0.0), lit(0.0)))
    yield "differ in number", joined(units=(), left=(), right=(), combine=())
    yield "differ in number", joined(left=())
    yield "differ in number", joined(combine=())
    yield "results and units differ in element type", joined(combine=(lit(1, I32),))
    yield (
        "bodies and the monoid's units",
        lambda: w.map(index(j), over=[j], by=custom((lit(0.0),), lambda a, c: (op("add", a[0], c[0]),))),
    )
    yield "of the dimension j is not in scope", joined(units=(Convert(index(j), F32),))
    yield "of the dimension j is not in scope", joined(combine=(Convert(index(j), F32),))
    first = custom((lit(0.0),), lambda a, c: (a[0],))
    yield "the local .* is not in scope", lambda: w.map(Local(first.left[0], F32), over=[j], by=first)
    # Scan
    yield "a scan without an axis", lambda: b.scan([], at(s), by="sum")
    yield "a scan by argmax", lambda: b.scan([i], at(v, i), index(i), by="argmax")
    yield (
        "of the dimension i is not in scope",
        lambda: b.scan([i], at(s), by=custom((Convert(index(i), F32),), lambda a, c: (a[0],))),
    )
    yield "the shape of .* should be", changed(lambda: b.scan([i], at(s), by="sum"), outs=(value(F32, M),))
    # Loop
    yield "differ in number", loop(initial=())
    yield "differ in number", loop(outs=())
    yield "differ in number", loop(states=())
    yield "differ in number", loop(body=Block((), ()))
    yield "without states", loop(outs=(), initial=(), states=(), body=Block((), ()))
    yield "should hold f32", loop(states=(value(F64),))
    yield "the shape of .* should be", loop(states=(value(F32, N),))
    yield "the shape of .* should be", loop(outs=(value(F32, N),))
    yield "is not in scope", loop(initial=(STRANGER,))
    yield "is not in scope", loop(body=Block((), (STRANGER,)))
    yield "changes its type or shape", loop(body=Block((), (x.symbol,)))
    yield "changes its type or shape", loop(body=Block((), (b.input("d", F64).symbol,)))
    yield "the trip count is i64", loop(trip=index(N, I64))
    yield "the trip count of an unfold is not an index", loop(stacked=True, trip=lit(3, I32))
    yield "the shape of .* should be", loop(stacked=True)
    yield "a loop's condition is no bool of rank 0", loop(conditional=True)
    yield "an unfold with a condition", lambda: b.loop([b.input("g", BOOL)], index(N), _same, True, conditional=True)
    yield (
        "of the dimension t is not in scope",
        lambda: b.compute([], index(Dim.of((b.loop([s], index(N), step_of(w)), b.ops[-1].counter)[1]))),
    )
    yield "is not in scope", lambda: b.compute([], at(Value(_inner(b, s, w), F32, ())))
    # Sort, Compress, Check
    yield "a scalar is sorted", lambda: b.sort(s)
    yield "is not in scope", lambda: b.sort(value(F32, N))
    yield "should hold i32", changed(lambda: b.sort(x), indices=value(I64, N, M))
    yield "the shape of .* should be", changed(lambda: b.sort(x), values=value(F32, M, N))
    yield "the mask is not a bool vector", lambda: b.compress(v)
    yield "the mask is not a bool vector", lambda: b.compress(b.input("mm", BOOL, N, M))
    yield "the shape of .* should be", changed(lambda: b.compress(m), out=value(I32, N))
    yield "is defined twice", lambda: b.ops.append(Compress(value(I32, N), N.symbol, m.symbol))
    yield "unknown relation '=='", lambda: b.check(N, "==", M)
    yield "stranger.* is not in scope", lambda: b.check(N, "=", Dim.of(STRANGER))
    # operations inside loops are checked
    yield "1.5 is no i32", lambda: b.loop([s], index(N), _bad)


def _same(inner: Build, counter: Value, states: tuple[Value, ...]) -> tuple[Value, ...]:
    return states


def _bad(inner: Build, counter: Value, states: tuple[Value, ...]) -> tuple[Value, ...]:
    """A loop's step with an operation that is not valid."""
    inner.compute([], lit(1.5, I32))
    return states


def _inner(b: Build, s: Value, w: World):
    """A symbol of a loop's body."""
    b.loop([s], index(N), step_of(w))
    return b.ops[-1].body.results[0]


@pytest.mark.parametrize("number", range(len(list(operation_mutants(World())))))
def test_operation_rules(number):
    w = World()
    words, make = list(operation_mutants(w))[number]
    make()
    rejected(w.b.program(w.s), words)


def program_mutants():
    program = good().b.program()
    x = program.inputs[0]
    param = program.params[0]
    fact = ContractFact(Relation(Dim.of(STRANGER), ">=", Dim.of(1)), "a test")
    shapes = program.contract.shapes
    yield "parameters do not use each input once", replace(program, params=program.params[1:])
    yield "parameters do not use each input once", replace(program, params=(*program.params, param))
    twice = replace(param, structure=TupleOf((Leaf(0), RecordOf((("w", Leaf(9)),)))))
    yield "parameters do not use each input once", replace(program, params=(twice, *program.params[1:]))
    yield "a position of the result is out of range", replace(program, result=RecordOf((("w", Leaf(0)),)))
    yield "is defined twice", replace(program, inputs=(x, x), params=program.params[:2])
    yield "is not in scope", replace(program, block=Block((), (STRANGER,)))
    yield "the contract has other explicit", replace(program, explicit=(fresh("h"),))
    yield "is defined twice", replace(program, explicit=(STRANGER, STRANGER))
    yield "the contract binds other shapes", replace(program, contract=Contract((), shapes[1:]))
    yield "stranger.* is not in scope", replace(program, contract=Contract((), shapes, (fact,)))


@pytest.mark.parametrize("number", range(len(list(program_mutants()))))
def test_program_rules(number):
    words, program = list(program_mutants())[number]
    rejected(program, words)


def test_the_message_shows_the_operation():
    w = World()
    w.map(op("add", at(w.x, w.i, w.j), lit(1, I32)), over=[w.j], by="sum")
    assert rejected(w.b.program(w.s), "right operand").endswith("in\ny : f32[n] = for i => sum j < m => x[i, j] + 1")


def known(holds_shape: tuple[Dim, ...], element=F32):
    """A program whose second input is known to hold what it makes first."""
    w = World()
    holds = w.b.input("holds", element, *holds_shape)
    made = w.map(lit(2.0))
    return replace(w.b.program(made), known=(Known(made.symbol, holds.symbol),)), made, holds


def test_what_is_known_is_of_the_same_kind():
    program, made, holds = known((N,))
    verify(program)
    verify(replace(program, block=Block((), (holds.symbol,)), known=(Known(STRANGER, holds.symbol),)))  # a pass may leave it out
    rejected(known((M,))[0], "the shape of .* should be")
    rejected(known((N,), F64)[0], "should hold f64")
    rejected(replace(program, known=(Known(made.symbol, made.symbol),)), "what is known is held by no input")


def test_what_is_known_is_at_places():
    program, made, holds = known((M, N))
    i = fresh("i")

    def at(*places: Dim, axes=(i,)):
        return replace(program, known=(Known(made.symbol, holds.symbol, axes, places),))

    verify(at(Dim.of(1), Dim.of(i)))
    verify(at(M - 1, N - Dim.of(i) - 1))
    rejected(at(Dim.of(i)), "what is known is held at places of another rank")
    rejected(at(Dim.of(1), Dim.of(STRANGER)), "what is known is held at no place")
    rejected(at(Dim.of(1), Dim.of(2), axes=()), "what is known has another rank")
    wide, made, holds = known((M, N), F64)
    rejected(replace(wide, known=(Known(made.symbol, holds.symbol, (i,), (Dim.of(1), Dim.of(i))),)), "should hold f64")
