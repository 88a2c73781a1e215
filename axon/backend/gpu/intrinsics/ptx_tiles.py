"""Operations on a warpgroup's tile of 64 rows in registers, as numba-cuda intrinsics: elementwise, by row, and as a factor.

A tile of n columns is a tuple of n / 2 floats per thread. The value at 4 g + 2 h + e is in row 16 w + l / 4 + 8 h and column
8 g + 2 (l % 4) + e, so each thread holds parts of two rows, h = 0 and 1, and the four threads of a quad share a row. Emitted
kernels import this module by name; the loops here run while a kernel is compiled, and leave straight code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

from axon.backend.gpu.intrinsics.ptx import _call, _fit, further, with_arity

_I32, _F32 = ir.IntType(32), ir.FloatType()


def _tile(columns: int) -> Any:
    return types.UniTuple(types.float32, columns // 2)


def _half(x: int) -> int:
    return x % 4 // 2


def _column(x: int) -> int:
    return 8 * (x // 4) + x % 2


def _asm(builder: Any, text: str, codes: str, operands: list[Any], result: Any = _F32) -> Any:
    constraints = ["=f" if result == _F32 else "=r", *codes]
    return _call(builder, result, text, constraints, operands, volatile=False)


def _packed(builder: Any, values: list[Any], element: Any = _F32) -> Any:
    out = ir.Constant(ir.ArrayType(element, len(values)), ir.Undefined)
    for i, value in enumerate(values):
        out = builder.insert_value(out, value, i)
    return out


def _values(builder: Any, tile: Any, columns: int) -> list[Any]:
    return [builder.extract_value(tile, i) for i in range(columns // 2)]


_PAIRS = "rspf"  # kinds of arguments of which two are given, most for both rows


def each(function: Any, columns: int, kinds: str = "") -> Any:
    """(tile, arguments…): the function of every element, and of its arguments, which are given as `kinds` says.

    Kinds are words: `u` one value; `r` two floats, for rows h = 0 and 1; `s` two whole numbers of 32 bits, likewise; `p` two values
    of any type, likewise; `i` the first row, of which the function takes the element's; `c` the first column, likewise; `f` and a
    whole number k: two floats, for the rows, to which k is added for each column; `t` another tile, of which it takes the element;
    `v` values of columns (see `by_column`), of which it takes the element's.
    """
    words = kinds.split()
    taken = sum(2 if w[0] in _PAIRS else 1 for w in words)

    def typing(context: Any, *arguments: Any) -> Any:
        tile, rest = arguments[0], arguments[1:]
        given: list[Any] = [types.float32]
        at = 0
        for word in words:
            given.append(types.int32 if word in "ics" else types.float32 if word[0] in "rftv" else rest[at])
            at += 2 if word[0] in _PAIRS else 1
        inner = types.float32(*given)

        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            out = []
            elements = _values(builder, values[0], columns)
            rest, kinds_of = values[1:], signature.args[1:]
            for x, element in enumerate(elements):
                passed, at = [element], 0
                for word in words:
                    match word[0]:
                        case "r":
                            passed.append(_fit(builder, rest[at + _half(x)], kinds_of[at], _F32))
                        case "s":
                            passed.append(_fit(builder, rest[at + _half(x)], kinds_of[at], _I32))
                        case "f":
                            step = ir.Constant(_F32, float(int(word[1:]) * _column(x)))
                            passed.append(builder.fadd(_fit(builder, rest[at + _half(x)], kinds_of[at], _F32), step))
                        case "p":
                            passed.append(rest[at + _half(x)])
                        case "t":
                            passed.append(builder.extract_value(rest[at], x))
                        case "v":
                            passed.append(builder.extract_value(rest[at], x // 4 * 2 + x % 2))
                        case "i":
                            first = _fit(builder, rest[at], kinds_of[at], _I32)
                            passed.append(builder.add(first, ir.Constant(_I32, 8 * _half(x)), flags=["nsw"]))
                        case "c":
                            first = _fit(builder, rest[at], kinds_of[at], _I32)
                            passed.append(builder.add(first, ir.Constant(_I32, _column(x)), flags=["nsw"]))
                        case _:
                            passed.append(rest[at])
                    at += 2 if word[0] in _PAIRS else 1
                out.append(target.compile_internal(builder, function, inner, passed))
            return _packed(builder, out)

        return tile(tile, *rest), generate

    return with_arity(typing, ["tile", *[f"x{i}" for i in range(taken)]])


def _load(builder: Any, address: Any) -> Any:
    return _call(builder, _F32, "ld.global.nc.f32 $0, [$1];", ["=f", "l"], [address], volatile=False)


def by_column(columns: int, pairs: bool, bounded: bool) -> Any:
    """(address of the first of a row of floats in global memory; if `bounded`, how many there are after it): one for each column of
    a thread, two of which are loaded at once if they are `pairs`; the last one, or pair, stands for those further on."""
    kind = types.UniTuple(types.float32, columns // 4)

    def typing(context: Any, address: Any, *last: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            i64, found = ir.IntType(64), list[Any]()
            for x in range(columns // 4) if not pairs else range(0, columns // 4, 2):
                place = ir.Constant(_I32, _column(2 * x) if pairs else 8 * (x // 2) + x % 2)
                if bounded:
                    limit = _fit(builder, values[1], signature.args[1], _I32)
                    place = builder.select(builder.icmp_signed("<", place, limit), place, limit)
                at = builder.add(values[0], builder.mul(builder.sext(place, i64), ir.Constant(i64, 4)))
                found += _load_pair(builder, at) if pairs else [_load(builder, at)]
            return _packed(builder, found)

        return kind(address, *last), generate

    return with_arity(typing, ["address", *["last"] * bounded])


def _load_pair(builder: Any, address: Any) -> list[Any]:
    kind = ir.LiteralStructType([_F32, _F32])
    both = _call(builder, kind, "ld.global.nc.v2.f32 {$0, $1}, [$2];", ["=f", "=f", "l"], [address], volatile=False)
    return [builder.extract_value(both, n) for n in range(2)]


def exp_rows(columns: int) -> Any:
    """(tile, scale of row 0, bias of row 0, scale of row 1, bias of row 1): 2 ** (scale · x + bias)."""
    kind = _tile(columns)

    def typing(context: Any, tile: Any, s0: Any, b0: Any, s1: Any, b1: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            out = []
            for x, element in enumerate(_values(builder, values[0], columns)):
                scale, bias = values[1 + 2 * _half(x)], values[2 + 2 * _half(x)]
                power = _asm(builder, "fma.rn.f32 $0, $1, $2, $3;", "fff", [element, scale, bias])
                out.append(_asm(builder, "ex2.approx.ftz.f32 $0, $1;", "f", [power]))
            return _packed(builder, out)

        f = types.float32
        return kind(kind, f, f, f, f), generate

    return intrinsic(typing)


def _by_row(columns: int, combine: Callable[[Any, Any, Any], Any], finish: Callable[[Any, Any], Any]) -> Any:
    """(tile, value of row 0, value of row 1): both rows combined, in four chains each."""
    kind = _tile(columns)
    pair = types.UniTuple(types.float32, 2)

    def typing(context: Any, tile: Any, first: Any, second: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            elements = _values(builder, values[0], columns)
            out = []
            for half in range(2):
                mine = [e for x, e in enumerate(elements) if _half(x) == half]
                chains = []
                for chain in (mine[i::4] for i in range(4)):
                    value = chain[0]
                    for element in chain[1:]:
                        value = combine(builder, value, element)
                    chains.append(value)
                value = combine(builder, combine(builder, chains[0], chains[1]), combine(builder, chains[2], chains[3]))
                out.append(combine(builder, values[1 + half], finish(builder, value)))
            return _packed(builder, out)

        return pair(kind, types.float32, types.float32), generate

    return intrinsic(typing)


def _greater(builder: Any, a: Any, b: Any) -> Any:
    return _asm(builder, "max.NaN.f32 $0, $1, $2;", "ff", [a, b])


def _sum(builder: Any, a: Any, b: Any) -> Any:
    return builder.fadd(a, b)


def _across(builder: Any, value: Any, lanes: int) -> Any:
    text = f"{{ .reg .b32 t; shfl.sync.bfly.b32 $0, $1, {lanes}, 0x1f, 0xffffffff; }}"
    return _call(builder, _F32, text, ["=f", "f"], [value], volatile=True)


def row_max(columns: int) -> Any:
    """(tile, m0, m1): the greatest of m and a row's values, over the whole row; NaN if any is."""

    def finish(builder: Any, value: Any) -> Any:
        for lanes in (1, 2):
            value = _greater(builder, value, _across(builder, value, lanes))
        return value

    return _by_row(columns, _greater, finish)


def row_sum(columns: int) -> Any:
    """(tile, z0, z1): z plus the part of a row's sum that this thread has."""
    return _by_row(columns, _sum, lambda builder, value: value)


def quad_sum() -> Any:
    """(z): the sum over the four threads that share a row."""

    def typing(context: Any, value: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            value = values[0]
            for lanes in (1, 2):
                value = builder.fadd(value, _across(builder, value, lanes))
            return value

        return types.float32(types.float32), generate

    return intrinsic(typing)


def scale_rows(columns: int) -> Any:
    """(tile, factor of row 0, factor of row 1)."""
    kind = _tile(columns)

    def typing(context: Any, tile: Any, first: Any, second: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            elements = _values(builder, values[0], columns)
            return _packed(builder, [builder.fmul(e, values[1 + _half(x)]) for x, e in enumerate(elements)])

        return kind(kind, types.float32, types.float32), generate

    return intrinsic(typing)


def settle(columns: int) -> Any:
    """(tile): 0 in place of infinities and NaN."""
    # `testp.finite` takes an instruction more.
    text = (
        "{ .reg .pred finite; .reg .f32 t; abs.f32 t, $1; setp.lt.f32 finite, t, 0f7F800000; selp.f32 $0, $1, 0f00000000, finite; }"
    )
    kind = _tile(columns)

    def typing(context: Any, tile: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _packed(builder, [_asm(builder, text, "f", [e]) for e in _values(builder, values[0], columns)])

        return kind(kind), generate

    return intrinsic(typing)


def promote(columns: int) -> Any:
    """(sum, partial): the sum of both, rounded to nearest."""
    kind = _tile(columns)

    def typing(context: Any, total: Any, partial: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            pairs = zip(*(_values(builder, value, columns) for value in values), strict=True)
            return _packed(builder, [builder.fadd(a, b) for a, b in pairs])

        return kind(kind, kind), generate

    return intrinsic(typing)


def promote_corrected(columns: int) -> Any:
    """(sum, partial, correction of row 0, correction of row 1): correction * sum + partial, rounded once."""
    kind = _tile(columns)

    def typing(context: Any, total: Any, partial: Any, first: Any, second: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            pairs = zip(*(_values(builder, value, columns) for value in values[:2]), strict=True)
            asm = "fma.rn.f32 $0, $1, $2, $3;"
            return _packed(builder, [_asm(builder, asm, "fff", [a, values[2 + _half(x)], b]) for x, (a, b) in enumerate(pairs)])

        return kind(kind, kind, types.float32, types.float32), generate

    return intrinsic(typing)


def promote_scaled(columns: int, by_column: bool) -> Any:
    """(sum, partial, scale of row 0, scale of row 1; if `by_column`, scales of columns, see `by_column`): sum + scales * partial,
    rounded once if there are none of columns."""
    kind = _tile(columns)

    def typing(context: Any, total: Any, partial: Any, first: Any, second: Any, *values_of: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            sums, parts = (_values(builder, value, columns) for value in values[:2])
            scales = [_fit(builder, values[2 + h], signature.args[2 + h], _F32) for h in range(2)]
            out = []
            for x, (a, b) in enumerate(zip(sums, parts, strict=True)):
                if by_column:
                    b = builder.fmul(b, builder.extract_value(values[4], x // 4 * 2 + x % 2))
                out.append(_asm(builder, "fma.rn.f32 $0, $1, $2, $3;", "fff", [b, scales[_half(x)], a]))
            return _packed(builder, out)

        return kind(kind, kind, types.float32, types.float32, *values_of), generate

    return with_arity(typing, ["total", "partial", "first", "second", *["values"] * by_column])


def scales_of_columns(columns: int, unit: int) -> Any:
    """(address of the scale of column 0 in global memory; a thread's first column; the last there is; bytes from one scale to the
    next): a scale for each column of a thread, of which so many neighbours have one."""
    kind = types.UniTuple(types.float32, columns // 4)

    def typing(context: Any, address: Any, first: Any, last: Any, step: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            i64, found = ir.IntType(64), list[Any]()
            start, limit = (_fit(builder, values[n], signature.args[n], _I32) for n in (1, 2))
            for x in range(columns // 4):
                place = builder.add(start, ir.Constant(_I32, 8 * (x // 2) + x % 2))
                place = builder.select(builder.icmp_signed("<", place, limit), place, limit)
                place = builder.udiv(place, ir.Constant(_I32, unit))
                far = builder.mul(builder.zext(place, i64), _fit(builder, values[3], signature.args[3], i64))
                found.append(_load(builder, builder.add(values[0], far)))
            return _packed(builder, found)

        return kind(address, first, last, step), generate

    return with_arity(typing, ["address", "first", "last", "step"])


def multiply_scales(columns: int) -> Any:
    """(scales of columns, others): their products."""
    kind = types.UniTuple(types.float32, columns // 4)

    def typing(context: Any, some: Any, others: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            both = ([builder.extract_value(value, x) for x in range(columns // 4)] for value in values)
            return _packed(builder, [builder.fmul(a, b) for a, b in zip(*both, strict=True)])

        return kind(kind, kind), generate

    return with_arity(typing, ["some", "others"])


def narrow(columns: int, element: str, rounding: str = "rn") -> Any:
    """(tile): its values rounded to 16 bits, two to a word: the left factor of a product, see `multiply_held`."""
    kind = types.UniTuple(types.int32, columns // 4)

    def typing(context: Any, tile: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            elements = _values(builder, values[0], columns)
            text = f"cvt.{rounding}.{element}x2.f32 $0, $2, $1;"
            pairs = zip(elements[::2], elements[1::2], strict=True)
            words = [_asm(builder, text, "ff", [low, high], _I32) for low, high in pairs]
            return _packed(builder, words, _I32)

        return kind(_tile(columns)), generate

    return intrinsic(typing)


def short_words(columns: int) -> list[list[int]]:
    """Which of a thread's values each word of four has, the lowest byte first: of 16 columns two words, one for each row."""
    words = ((first, half) for first in range(0, columns // 2, 8) for half in range(2))
    return [[first + 4 * group + 2 * half + e for group in range(2) for e in range(2)] for first, half in words]


def narrow_short(columns: int) -> Any:
    """(tile): its values rounded to e4m3, four to a word: the left factor of a product, see `multiply_held`. A word has two of 8
    columns and two of the next 8, of one row: see Note [Interleaved keys] in `layout.products`."""
    kind = types.UniTuple(types.int32, columns // 8)
    text = (
        "{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, $2, $1; cvt.rn.satfinite.e4m3x2.f32 high, $4, $3; "
        "mov.b32 $0, {low, high}; }"
    )

    def typing(context: Any, tile: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            elements = _values(builder, values[0], columns)
            words = [_asm(builder, text, "ffff", [elements[n] for n in word], _I32) for word in short_words(columns)]
            return _packed(builder, words, _I32)

        return kind(_tile(columns)), generate

    return intrinsic(typing)


def rest(columns: int) -> Any:
    """(tile, words): what is left of its values without these bf16 values."""
    kind = _tile(columns)
    high = "{ .reg .b32 high; and.b32 high, $2, 0xFFFF0000; sub.rn.f32 $0, $1, high; }"
    low = "{ .reg .b32 low; shl.b32 low, $2, 16; sub.rn.f32 $0, $1, low; }"

    def typing(context: Any, tile: Any, words: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            out = []
            for x, element in enumerate(_values(builder, values[0], columns)):
                word = builder.extract_value(values[1], x // 2)
                out.append(_asm(builder, high if x % 2 else low, "fr", [element, word]))
            return _packed(builder, out)

        return kind(kind, types.UniTuple(types.int32, columns // 4)), generate

    return intrinsic(typing)


def multiply_held(columns: int, element: str, right_transposed: bool, right_steps: Sequence[int]) -> Any:
    """(accumulators, words, right descriptor, keep): accumulators * keep + left · right, asynchronously, 64 rows.

    The left factor are 16 columns for each step that registers hold, or 32 of 8 bits, see `ptx.multiply`; `element` are two,
    `e4m3.e5m2`, where they differ.
    """
    short = element not in ("bf16", "f16")
    n, depth = columns // 2, 32 if short else 16
    names = element if "." in element else f"{element}.{element}"
    transposed = "" if short else f", {int(right_transposed)}"
    assert not (short and right_transposed)
    held = ", ".join(f"${i}" for i in range(n))
    words = ", ".join(f"${2 * n + i}" for i in range(4))
    text = (
        f"{{ .reg .pred keep; setp.ne.b32 keep, ${2 * n + 5}, 0; "
        f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{names} {{{held}}}, {{{words}}}, ${2 * n + 4}, keep, 1, 1"
        f"{transposed}; }}"
    )
    kind = _tile(columns)
    left = types.UniTuple(types.int32, 4 * len(right_steps))
    constraints = ["=f"] * n + [str(i) for i in range(n)] + ["r"] * 4 + ["l", "r"]

    def typing(context: Any, acc: Any, words: Any, right: Any, keep: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            elements, keep = _values(builder, values[0], columns), _fit(builder, values[3], signature.args[3], _I32)
            for step, steps in enumerate(right_steps):
                mine = [builder.extract_value(values[1], 4 * step + i) for i in range(4)]
                operands = [*elements, *mine, further(builder, values[2], steps), keep]
                result = _call(builder, ir.LiteralStructType([_F32] * n), text, constraints, operands)
                elements = [builder.extract_value(result, i) for i in range(n)]
                keep = ir.Constant(_I32, 1)
            return _packed(builder, elements)

        return kind(kind, left, types.int64, types.int32), generate

    return intrinsic(typing)
