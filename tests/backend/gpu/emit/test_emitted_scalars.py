"""Emitted scalar code is run here, as Python: indices, masks and changes of scores mean on the device what the interpreter says.

The simulator evaluates core itself, so it cannot tell whether the emitter wrote down the same thing.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.build.recipe import stages
from axon.backend.gpu.emit.kernel import Emitter
from axon.backend.gpu.emit.source import SizeParameter, StrideParameter
from axon.backend.gpu.emit.stream import _Function
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import kernels
from axon.backend.gpu.tile.reach import reaching
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.stream import Stream
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Expression, Function, Name
from axon.backend.kernel.parameters import PointerParameter
from axon.backend.kernel.printer import names_of, shown, written
from axon.backend.kernel.tensor_core_scalars import EpilogueWriter, obstacle
from axon.backend.kernel.verify import verify
from axon.base.element import Element
from axon.base.names import fresh
from axon.core.ir import Binary, Block, Const, Convert, Index, Local, Scalar, Select, Unary, element_of
from axon.core.verify import BINARY_ELEMENTS, UNARY_ELEMENTS
from axon.interpret.frame import Frame, Range
from axon.interpret.program import _block as run_block
from axon.interpret.scalar import evaluate
from axon.shapes.dimension import Dim, maximum, minimum
from axon.shapes.width import exact
from tests.backend.gpu.emit import device

# ── any expression ──────────────────────────────────────────────────────────────────────────────────────────────────────

I, J, S, T, X, Y = (fresh(name) for name in "ijstxy")  # noqa: E741
COUNT = 5000 if os.environ.get("AXON_SOAK") else 250


def dims(chance: random.Random, depth: int) -> Dim:
    if depth == 0:
        return Dim.of(chance.choice([I, I, J, J, S, T, chance.randrange(5), chance.choice([7, 64, 1000, 2**30])]))
    a, c = dims(chance, depth - 1), dims(chance, depth - 1)
    match chance.randrange(8):
        case 0 | 1:
            return a + c
        case 2:
            return a - c
        case 3:
            return a * chance.choice([2, 3, -1, 8, 100_000_000])
        case 4:
            return a // chance.choice([2, 3, 64, 10])
        case 5:
            return a % chance.choice([2, 3, 16])
        case 6:
            return minimum(a, c)
        case _:
            return maximum(a, c)


def integers(chance: random.Random, depth: int) -> Scalar:
    if depth == 0:
        return Index(dims(chance, chance.randrange(3)))
    a = integers(chance, depth - 1)
    match chance.randrange(7):
        case 0:
            return Binary(chance.choice(["add", "sub", "mul", "max", "min"]), a, integers(chance, depth - 1))
        case 1:
            return Binary(chance.choice(["div", "mod"]), a, Const(chance.choice([3, -2, 64]), Element.I32))
        case 2:
            return Unary(chance.choice(["neg", "abs", "sign"]), a)
        case 3:
            narrow = chance.choice([Element.I8, Element.U8])
            small = Binary(chance.choice(["add", "mul"]), Convert(a, narrow), Const(chance.choice([3, 100]), narrow))
            return Convert(small, Element.I32)
        case 4:
            real = Binary("mul", Convert(a, Element.F32), Const(chance.choice([0.3, -7.5, 1e9]), Element.F32))
            return Convert(Convert(real, chance.choice([Element.I8, Element.U8, Element.I32])), Element.I32)
        case 5:
            return Select(conditions(chance, depth - 1), a, integers(chance, depth - 1))
        case _:
            return a


def conditions(chance: random.Random, depth: int) -> Scalar:
    if depth > 0 and chance.random() < 0.4:
        return Binary(chance.choice(["and", "or"]), conditions(chance, depth - 1), Unary("not", conditions(chance, depth - 1)))
    op = chance.choice(["lt", "le", "eq", "ne", "ge", "gt"])
    wide = dims(chance, chance.randrange(3)), dims(chance, chance.randrange(3))
    if chance.random() < 0.3 and all(exact(dim, 64) for dim in wide):  # as lowering compares sizes
        return Binary(op, *(Index(dim, Element.I64) for dim in wide))
    return Binary(op, integers(chance, depth), integers(chance, depth))


@pytest.mark.parametrize("large", [False, True], ids=["small sizes", "sizes up to the limit"])
def test_integers_mean_what_the_interpreter_says(large: bool) -> None:
    chance = random.Random(large)
    tried = 0
    while tried < COUNT:
        scalar = integers(chance, chance.randrange(4)) if chance.random() < 0.5 else conditions(chance, 2)
        if obstacle(scalar, {I, J}):
            continue
        tried += 1
        for _ in range(4):
            sizes = {s: chance.randrange(1, 2**31 if large else 200) for s in (S, T)}
            place = {I: chance.randrange(sizes[S]), J: chance.randrange(sizes[T])}
            frame = Frame(sizes, {}, {a: Range(1 + n, at, at + 1) for n, (a, at) in enumerate(place.items())}, 3)
            with np.errstate(all="ignore"):
                want = evaluate(scalar, frame).item()
            known = {**sizes, **place}
            code = Code()
            held: dict[Name, int] = {code.named(symbol.name): at for symbol, at in known.items()}
            names = dict(zip(known, held, strict=True))

            def size(dim: Dim, code: Code = code, held: dict[Name, int] = held, sizes: Any = sizes) -> Expression | None:
                if dim.variables & {I, J}:
                    return None
                name = code.named("size")
                held[name] = dim.evaluate(sizes)
                assert -(2**31) <= held[name] < 2**31
                return name

            writer = EpilogueWriter(code, lambda read: read, names.__getitem__, size, {})
            code.give(writer.value(scalar))
            function = Function("f", tuple(held), code.body, tuple(code.names))
            verify(function)
            lines = written(function).lines
            scope = device.names({})
            exec("\n".join(lines), scope)
            assert scope["f"](*held.values()) == want, (scalar, lines, known)


# ── every element type and function ─────────────────────────────────────────────────────────────────────────────────────

ROUNDING = {Element.F32: 1e-5, Element.F64: 1e-5, Element.F16: 2e-2, Element.BF16: 1e-1}  # 16 bits are rounded when they are stored
EIGHT = (Element.F8E4M3, Element.F8E5M2)


def values(element: Element, chance: np.random.Generator) -> np.ndarray:
    """Numbers of an element type, those at its ends among them."""
    if element.is_float:
        return np.array([0.0, 0.3, -0.7, 1.0, -1.5, 2.5, 7.25, *chance.standard_normal(5)]).astype(element.dtype)
    low, high = element.limits if element.is_integer else (0, 1)
    some = [int(x) for x in chance.integers(low, high, 4, dtype=element.dtype if element.is_integer else np.int64, endpoint=True)]
    return np.array([low, low + 1, 0, 1, min(3, high), min(9, high), high - 1, high, *some], element.dtype)


def operations(element: Element) -> list[Scalar]:
    """Every operation on numbers of a type, of `X` and `Y`, that cannot fail."""
    x, y = Local(X, element), Local(Y, element)
    found: list[Scalar] = [Unary(op, x) for op, types in UNARY_ELEMENTS.items() if element in types]
    for op, types in BINARY_ELEMENTS.items():
        fails = element.is_integer and (op in ("div", "mod") or (op == "pow" and not element.is_unsigned))
        if element in types:
            found.append(Binary(op, x, Const(3, element) if fails else y))
    found += [Convert(x, target) for target in Element]
    return [*found, Select(Binary("eq", x, y), x, Convert(Convert(y, Element.F32), element))]


@pytest.mark.parametrize("element", [e for e in Element if e is not Element.BOOL], ids=repr)
def test_operations_mean_what_the_interpreter_says(element: Element) -> None:
    chance = np.random.default_rng(0)
    for scalar in operations(element):
        assert obstacle(scalar, frozenset()) is None, scalar
        code = Code()
        x, y = code.named("x"), code.named("y")
        code.give(EpilogueWriter(code, lambda read: read, {}.__getitem__, lambda dim: None, {X: x, Y: y}).value(scalar))
        function = Function("f", (x, y), code.body, tuple(code.names))
        verify(function)
        exec("\n".join(written(function).lines), scope := device.names({}))
        made = element_of(scalar)
        for left, right in zip(values(element, chance), chance.permutation(values(element, chance)), strict=True):
            frame = Frame({}, {}, {}, 0, locals={X: np.asarray(left), Y: np.asarray(right)})
            with np.errstate(all="ignore"):
                want = evaluate(scalar, frame).item()
                found = scope["f"](device.held(left, element), device.held(right, element))
            if made.is_float:
                # What an element type cannot hold may be held on the way; a kernel stores it as infinity.
                with np.errstate(over="ignore"):
                    found = float(made.dtype.type(found))
                near = 1e-6 if made in EIGHT else ROUNDING[made]
                assert np.isclose(found, want, rtol=near, atol=near, equal_nan=True), (scalar, left, right, found, want)
            else:
                assert found == want, (scalar, left, right, found, want)


def test_an_epilogue_is_given_its_indices_and_sizes() -> None:
    text = """
fun f (a : bf16[m, k]) (b : bf16[k, n]) =
  for i j => (sum c => cast f32 a[i, c] * cast f32 b[c, j]) * cast f32 (k / 3) + cast f32 ((i - j) % 5 + min i j)
"""
    core = compiler.lower(compiler.check_text(text), "f", None)
    (kernel,) = kernels(core)
    assert isinstance(kernel, MatrixProduct)
    values = (*core.inputs, kernel.results[0].value)
    emitter = Emitter(stages(kernel, TileMapping(64, 64, 64, 2, 1, 1, 1), HOPPER, values, Granted()).barriers, frozenset())
    emitter.run()
    (quad,) = emitter.results.results.values()
    assert quad.name is not None
    scope = device.names({})
    _, names = running(emitter, scope)
    k = core.inputs[0].shape[1].symbol
    for row, column, depth in ((0, 0, 20), (3, 17, 64), (200, 4, 7)):
        known = {kernel.rows.symbol: row, kernel.columns.symbol: column, k: depth}
        held: dict[Any, int] = {emitter.results.row: row, emitter.results.column: column}
        sizes = {name: p.size for p, name in emitter.parameters.items() if isinstance(p, SizeParameter)}
        given = [held[name] if name in held else sizes[name].evaluate(known) for name in quad.given]
        assert quad.by_column
        assert quad.given[0] is emitter.results.column
        found = scope[names[quad.name]](*map(np.float32, (2.5, 3.5, 4.5, 5.5)), *given)
        places = [(row + half, column + e) for half in (0, 8) for e in (0, 1)]
        wanted = [v * (depth // 3) + (i - j) % 5 + min(i, j) for v, (i, j) in zip((2.5, 3.5, 4.5, 5.5), places, strict=True)]
        assert list(found) == wanted


# ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

MASKS = [
    "j <= i", "j/64 = i/64 andalso j <= i", "j <= i + max 0 (t-s)", "j < t/2", "(i-j)%3 = 0", "min i j < 40", "max i j < 100",
    "j%2 = 0", "i%3 <> j%5", "j*100000000 > 0", "j < i + 2147483600", "j <= w[b]", "j <= i + w[b]", "w[b]*w[b] > 0", "m[j]",
    "u[b, i, j] <> cast u8 0", "cast i8 j >= cast i8 0", "cast u8 j < cast u8 10", "abs (i-j) < 9", "i*j < 1000",
    "l[b, i] * l[b, i] > cast i64 c[j]", "n[b, i] > cast u64 j", "bit_and g[j] 3 = 1", "g[j] * g[j] > o[b, i]",
    "a[b, i] < cast f64 j * 0.5", "h[j] * 300 > cast i16 i", "j / max 1 i < 3",
    "not (j < i orelse j > i + 64)", "2*j <= i", "j - i < 3 andalso i - j < 3", "j < 48 andalso c[j] > 100",
    "cast i32 g[j] <> i orelse j = 3",
]  # fmt: skip
CHANGES = [
    "cast f32 (j - i)", "cast f32 (j - i) * p[b]", "cast f32 (max (i-j) 0)", "cast f32 (i*j)", "cast f32 (abs (i-j))",
    "cast f32 (j / max 1 i)", "cast f32 (j*100000000)", "cast f32 (i - 2*j + t/3)", "p[b] * cast f32 (j % 7)",
    "cast f32 (l[b, i] / 3 - cast i64 j)", "cast f32 (max n[b, i] (cast u64 j))", "cast f32 (bit_xor o[b, i] g[j])",
    "cast f32 (a[b, i] * cast f64 j)", "lgamma r[b, i]", "erfinv (cast f32 j * 0.001)", "atan2 (cbrt p[b]) (cast f32 j)",
    "digamma (cast f32 j + 0.5)", "cast f32 (shift_right (h[j] * 300) 3)",
    "cast f32 (cast i8 (i*40))", "cast f32 (cast i8 (round (x[b,i,j]*100.0)))", "cast f32 b", "r[b, i]",
]  # fmt: skip
HEAD = """
fun f (w : i32[b]) (m : bool[t]) (u : u8[b, s, t]) (c : i32[t]) (p : f32[b]) (r : f32[b, s])
      (l : i64[b, s]) (n : u64[b, s]) (o : u32[b, s]) (g : u32[t]) (h : i16[t]) (a : f64[b, s])
      (q : bf16[b, s, d]) (k : bf16[b, t, d]) (v : bf16[b, t, e]) =
  let val x = for b i j => sum c => cast f32 q[b, i, c] * cast f32 k[b, j, c]
      val y = for b i j => {change}
      val top = for b i => max j => y[b, i, j]
      val total = for b i => sum j => exp (y[b, i, j] - top[b, i])
  in for b i e => cast bf16 ((sum j => exp (y[b, i, j] - top[b, i]) * cast f32 v[b, j, e]) / total[b, i]) end
"""
SMALL = TileMapping(64, 64, 64, 2, 1, 1, 1, keys=48)
TWO = TileMapping(128, 64, 64, 2, consumers=2, cluster=1, keys=48)
LOOKED_UP = [
    "c[j] / 20 = i / 15", "o[b, i] = g[j]", "not (o[b, i] < g[j])", "h[j] > cast i16 (i + 40)",
    "cast i32 h[j] <= i + w[b] andalso j <= i", "cast i32 g[j] = i orelse j = 3", "c[j] < 100", "h[j] * cast i16 300 > cast i16 i",
]  # fmt: skip


def emitted(change: str, mapping: TileMapping, *, tables: bool) -> tuple[Any, Emitter, dict[Any, int]]:
    """A stream, its emitter after it has run, and sizes."""
    core = compiler.lower(compiler.check_text(HEAD.format(change=change)), "f", None)
    (kernel,) = (k for k in kernels(core) if isinstance(k, Stream))
    kernel = reaching(kernel) if tables else kernel
    assert bool(kernel.reaches) == tables
    values = (*core.inputs, *(r.value for r in kernel.results), *(reach.table for reach in kernel.reaches))
    made = stages(kernel, mapping, HOPPER, values, Granted()).barriers
    emitter = Emitter(made, frozenset())
    emitter.run()
    named = {"b": 2, "s": 150, "t": 131, "d": 16, "e": 64}
    return core, emitter, {s: named[s.name] for v in core.inputs for d in v.shape for s in d.variables}


def check(change: str, mapping: TileMapping = SMALL, *, tables: bool = False) -> None:
    core, emitter, sizes = emitted(change, mapping, tables=tables)
    stream = emitter.stream._plan.stream  # type: ignore[union-attr]
    program, plan = emitter.program, emitter.stream._plan
    assert plan is not None
    chance = np.random.default_rng(0)
    arrays: dict[Any, Any] = {}
    for value in core.inputs:
        shape = tuple(d.evaluate(sizes) for d in value.shape)
        top = 2 if value.element.bits <= 8 else 200
        made = chance.standard_normal(shape) if value.element.is_float else chance.integers(0, top, shape)
        arrays[value.symbol] = made.astype(value.element.dtype)
        if value.symbol.name == "w":
            arrays[value.symbol][:] = (2**31 - 1, 37)
    run_block(Block(tuple(op for reach in stream.reaches for op in reach.made), ()), sizes, arrays)
    pointers = {p: name for p, name in emitter.parameters.items() if isinstance(p, PointerParameter) and p.tensor in arrays}
    lines, names = running(emitter, scope := {})
    scope |= device.names({names[name]: arrays[p.tensor] for p, name in pointers.items()})
    for parameter, name in emitter.parameters.items():
        if isinstance(parameter, SizeParameter):
            scope[names[name]] = parameter.size.evaluate(sizes)
        elif isinstance(parameter, StrideParameter) and parameter.tensor in arrays:
            array = arrays[parameter.tensor]
            scope[names[name]] = array.strides[parameter.dimension] // array.itemsize
    bounding, hoisting = parts(lines)
    order, steps = program.order, program.steps
    extent, rows = steps.extent.evaluate(sizes), order.rows.extent.evaluate(sizes)
    pieces = -(-extent // steps.step)
    scope |= {"steps": pieces}
    for outer in range(2):
        for piece in range(-(-rows // order.rows.step)):
            for lane, consumer in product((0, 1, 77, 127), range(mapping.consumers)):
                places = {order.outer[0].symbol: outer, order.rows.symbol: piece}
                scope |= {"lane": lane, "consumer": consumer} | {names[emitter.name(axis)]: at for axis, at in places.items()}
                scope["own_row_0"] = order.rows.step * piece + 64 * consumer + lane // 32 * 16 + lane % 32 // 4
                run_lines(bounding, scope)
                run_lines(hoisting, scope)
                for step in range(pieces):
                    scope |= {names[emitter.name(steps.symbol)]: step, "column": step * steps.step + lane % 4 * 2}
                    everywhere = scope["every_from"] <= step < scope["every_to"]
                    skipped = not scope["first_piece"] <= step < scope["last_piece"]
                    for slot in (0, 1, 2, 3, 13, 22):
                        row = scope["own_row_0"] + 8 * (slot % 4 // 2)
                        column = scope["column"] + 8 * (slot // 4) + slot % 2
                        if row >= rows:
                            continue
                        score = np.float32(chance.standard_normal())
                        want = (
                            wanted(stream, arrays, sizes, order, steps, outer, row, column, score) if column < extent else -np.inf
                        )
                        if skipped:
                            assert want == -np.inf, f"a tile is skipped that has {row}, {column}"
                            continue
                        got = apply(plan.change[0 if everywhere else 1], scope, names, score, slot)
                        assert np.allclose(got, want, rtol=1e-5, atol=1e-5, equal_nan=True), (change, row, column, got, want)


def wanted(
    stream: Stream, arrays: Any, sizes: Any, order: b.Order, steps: Any, outer: int, row: int, column: int, score: Any
) -> Any:
    place = {order.outer[0].symbol: outer, order.rows.symbol: row, steps.symbol: column}
    axes = {symbol: Range(1 + n, at, at + 1) for n, (symbol, at) in enumerate(place.items())}
    frame = Frame(sizes, arrays, axes, 4, locals={stream.score: np.full((1,) * 4, score)})
    with np.errstate(all="ignore"):
        return evaluate(stream.change, frame).item()


def running(emitter: Emitter, scope: dict[str, Any]) -> tuple[list[str], Mapping[Name, str]]:
    """The lines of a kernel and what its names are called, when what it calls is defined in a scope."""
    module = emitter.module(())
    *helpers, kernel = module.functions
    for helper in helpers:
        exec("\n".join(written(replace(helper, decorator=""), names_of(module)).lines), scope)
    made = written(kernel, names_of(module))
    return [line.strip() for line in made.lines], made.names


BOUNDS = re.compile(r"((first|last)_(row|piece)|(some|all|every|(all_)?reach)_(from|to)\d*|there|v\d+) = ")


def parts(lines: list[str]) -> tuple[list[str], list[str]]:
    """Of the consumer, the lines that find the pieces which a mask leaves, and those that compute what a tile has one value of."""
    last = max(n for n, line in enumerate(lines) if line.startswith("every_to = "))
    first = next(n for n in range(last, 0, -1) if not BOUNDS.match(lines[n - 1]))
    after = next(n for n in range(last, len(lines)) if lines[n].startswith("acc_0 = zeros"))
    end = next(n for n in range(after, len(lines)) if not re.match(r"\w+ = ", lines[n]))
    return lines[first : last + 1], lines[after + 1 : end]


def run_lines(lines: list[str], scope: dict[str, Any]) -> None:
    for line in lines:
        exec(line, scope)


def apply(function: _Function | None, scope: dict[str, Any], names: Mapping[Name, str], score: Any, slot: int) -> Any:
    """An elementwise function at one slot of a thread's registers, its arguments as `ptx_tiles.each` passes them."""
    if function is None:
        return score
    half, column = slot % 4 // 2, 8 * (slot // 4) + slot % 2
    given = []
    for argument in function.arguments:
        texts = [shown(value, names) for value in argument.at(0)]
        value = eval(texts[half] if argument.kind[0] in "rspf" else texts[0], scope)
        match argument.kind[0]:
            case "i":
                value += 8 * half
            case "c":
                value += column
            case "f":
                value = np.float32(value) + np.float32(int(argument.kind[1:]) * column)
        given.append(value)
    return scope[names[function.name]](score, *given)


@pytest.mark.parametrize("condition", MASKS)
def test_emitted_masks_mean_what_the_interpreter_says(condition: str) -> None:
    check(f"if {condition} then x[b, i, j] else -inf")


@pytest.mark.parametrize("mapping", [SMALL, TWO], ids=["one block", "two"])
@pytest.mark.parametrize("condition", LOOKED_UP)
def test_emitted_masks_with_tables_mean_what_the_interpreter_says(condition: str, mapping: TileMapping) -> None:
    check(f"if {condition} then x[b, i, j] else -inf", mapping, tables=True)


@pytest.mark.parametrize("change", CHANGES)
def test_emitted_changes_of_scores_mean_what_the_interpreter_says(change: str) -> None:
    check(f"x[b, i, j] + {change}")
