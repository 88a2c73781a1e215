"""Left factors that a warpgroup computes in registers of what is staged in shared memory, as numba-cuda intrinsics.

Of 64 rows and each 16 of the depth, thread 32 w + l has the elements at rows 16 w + l / 4 + 8 h, h = 0 and 1, and depths
2 (l % 4) + 8 p + e, p and e = 0 and 1: word 4 s + 2 p + h of step s has the two of e. What is staged lies in panels of 128 bytes a
row, whose chunks of 16 bytes are swizzled by the row. The loops here run while a kernel is compiled, and leave straight code.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from llvmlite import ir
from numba.cuda import types

from axon.backend.gpu.intrinsics.ptx import _call, _fit, with_arity
from axon.backend.gpu.intrinsics.ptx_tiles import _packed

_I32, _F32 = ir.IntType(32), ir.FloatType()
SWIZZLE = 128  # bytes


def lies(column: int, per: int, size: int) -> tuple[int, int]:
    """The panel in which elements of so many bytes, one for `per` of the depth, are staged, and how many bytes from its begin."""
    return divmod(column // per * size, SWIZZLE)


def evaluate(depth: int, staged: Sequence[Any], function: Any, given: int, loads: Sequence[Any] = (), unit: int = 0) -> Any:
    """(for each staged: the address of this thread's first elements in its first row; its two rows; half its first depth, and half
    the last that there is; what the function is given beside elements, what each load is given…): the words of a factor over so
    much of the depth.

    `staged` are triples of element, per and bytes from panel to panel. The function makes the word of two neighbours along the
    depth, of a row, half the depth, their elements (one where both have the same), what was loaded, and what it is given. `loads`
    are triples of a function of a row and half a depth that loads a value, the name of its type, and how much it is given; it is
    the same for `unit` of the depth, or for all.
    """
    known = {"float32": types.float32, "int32": types.int32}
    names = [*(f"at{n}" for n in range(len(staged))), "row_0", "row_1", "half", "last", *(f"x{n}" for n in range(given))]
    names += [f"y{n}_{m}" for n, (_, _, count) in enumerate(loads) for m in range(count)]
    held = types.UniTuple(types.int32, depth // 4)

    def typing(context: Any, *arguments: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds, first = signature.args, len(staged) + 4
            at = [_fit(builder, v, k, _I32) for v, k in zip(values, kinds[: len(staged)], strict=False)]
            rows = [_fit(builder, values[len(staged) + h], kinds[len(staged) + h], _I32) for h in range(2)]
            half, last = (_fit(builder, values[n], kinds[n], _I32) for n in (first - 2, first - 1))
            places: dict[tuple[int, int], Any] = {}
            loaded: dict[tuple[int, int, int], Any] = {}

            def load(number: int, h: int, column: int) -> Any:
                """A value from memory for a row and a depth."""
                whole = gcd(unit, depth)  # from a multiple on; of fewer than eight the threads of a quad have different ones
                begin = column - column % whole if whole % 8 == 0 else column
                key = number, h, begin
                if key not in loaded:
                    impl, kind, count = loads[number]
                    start = first + given + sum(c for _, _, c in loads[:number])
                    there = builder.add(half, ir.Constant(_I32, begin // 2))
                    there = builder.select(builder.icmp_signed("<", there, last), there, last)
                    passed = [rows[h], there, *values[start : start + count]]
                    sort = known[kind](types.int32, types.int32, *kinds[start : start + count])
                    loaded[key] = target.compile_internal(builder, impl, sort, passed)
                return loaded[key]

            def elements(number: int, h: int, column: int) -> list[Any]:
                """What is staged for two neighbours along the depth."""
                name, per, panel = staged[number]
                size = _SIZES[name]
                to, inside = lies(column, per, size)
                if (number, inside) not in places:
                    places[number, inside] = builder.xor(at[number], ir.Constant(_I32, inside))
                further = to * panel + 8 * SWIZZLE * h
                base = builder.add(places[number, inside], ir.Constant(_I32, further)) if further else places[number, inside]
                return _elements(builder, base, name, 2 if per == 1 else 1)

            words = []
            for step in range(depth // 16):
                for p in range(2):
                    for h in range(2):
                        column = 16 * step + 8 * p
                        found = [e for number in range(len(staged)) for e in elements(number, h, column)]
                        sorts = [known["float32" if e.type == _F32 else "int32"] for e in found]
                        more = [load(number, h, column) for number in range(len(loads))]
                        there = builder.add(half, ir.Constant(_I32, column // 2))
                        passed = [rows[h], there, *found, *more, *values[first : first + given]]
                        kinds_of = (*sorts, *(known[k] for _, k, _ in loads), *kinds[first : first + given])
                        kind = types.int32(types.int32, types.int32, *kinds_of)
                        words.append(target.compile_internal(builder, function, kind, passed))
            return _packed(builder, words, _I32)

        return held(*arguments), generate

    return with_arity(typing, names)


_SIZES = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "bf16": 2, "f16": 2, "f32": 4}


def _elements(builder: Any, address: Any, name: str, count: int) -> list[Any]:
    """One element in shared memory, or two side by side, as numbers of 32 bits."""
    size = _SIZES[name]
    whole = ir.IntType(8 * size * count)
    loaded = builder.load(builder.inttoptr(address, whole.as_pointer(3)), align=size * count)
    part = ir.IntType(8 * size)
    bits = [builder.trunc(builder.lshr(loaded, ir.Constant(whole, 8 * size * n)) if n else loaded, part) for n in range(count)]
    return [_number(builder, b if count > 1 else loaded, name) for b in bits]


def _number(builder: Any, bits: Any, name: str) -> Any:
    match name:
        case "u8" | "u16":
            return builder.zext(bits, _I32)
        case "i8" | "i16":
            return builder.sext(bits, _I32)
        case "bf16":
            return builder.bitcast(builder.shl(builder.zext(bits, _I32), ir.Constant(_I32, 16)), _F32)
        case "f16":
            return _call(builder, _F32, "cvt.f32.f16 $0, $1;", ["=f", "h"], [bits], volatile=False)
        case _:
            return builder.bitcast(bits, _F32)


# ── two neighbours in a word ────────────────────────────────────────────────────────────────────────────────────────────

WHOLE = {"bf16": (0x4300, 7), "f16": (0x6400, 10)}  # bits of 2 ** 7 and of 2 ** 10, and how many more are those of a whole number


def _words(result: Any, arguments: str, make: Any) -> Any:
    """An intrinsic of so many numbers: `f` floats, `r` words."""
    sorts = {"f": (_F32, types.float32), "r": (_I32, types.int32)}

    def typing(context: Any, *given: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            fitted = (_fit(builder, v, k, sorts[c][0]) for v, k, c in zip(values, signature.args, arguments, strict=True))
            return make(builder, *fitted)

        return result(*(k if c == "r" else types.float32 for k, c in zip(given, arguments, strict=True))), generate

    return with_arity(typing, [f"x{n}" for n in range(len(arguments))])


def _pair(element: str) -> Any:
    """(two floats): rounded."""
    text = f"cvt.rn.{element}x2.f32 $0, $2, $1;"
    return lambda b, x, y: _call(b, _I32, text, ["=r", "f", "f"], [x, y], volatile=False)


def _both(op: str, element: str) -> Any:
    text = f"{op}.{'rn.' if element == 'bf16' else ''}{element}x2 $0, $1, $2;"
    return lambda b, x, y: _call(b, _I32, text, ["=r", "r", "r"], [x, y], volatile=False)


def _whole(element: str) -> Any:
    """(two whole numbers of so few bits): their sums with a power of two, of which they are the last bits."""
    bits = ir.Constant(_I32, WHOLE[element][0] * 0x10001)
    return lambda b, x, y: b.or_(b.or_(x, b.shl(y, ir.Constant(_I32, 16))), bits)


def _fields(element: str) -> Any:
    """(a number of 16 bits at most, times what it stands beside itself, where the first of two fields of it begins, ones at these):
    the two as `whole` has them. One instruction puts the number beside itself, and one cuts both out."""
    bits = ir.Constant(_I32, WHOLE[element][0] * 0x10001)

    def make(builder: Any, number: Any, beside: Any, shift: Any, mask: Any) -> Any:
        both = _call(builder, _I32, "mul.lo.u32 $0, $1, $2;", ["=r", "r", "r"], [number, beside], volatile=False)
        return builder.or_(builder.and_(builder.lshr(both, shift), mask), bits)

    return make


for _element in ("bf16", "f16"):
    globals()[f"fields_{_element}"] = _words(types.int32, "rrrr", _fields(_element))
    globals()[f"pair_{_element}"] = _words(types.int32, "ff", _pair(_element))
    globals()[f"whole_{_element}"] = _words(types.int32, "rr", _whole(_element))
    for _op in ("add", "sub", "mul"):
        globals()[f"{_op}_{_element}"] = _words(types.int32, "rr", _both(_op, _element))
negative = _words(types.int32, "r", lambda b, x: b.xor(x, ir.Constant(_I32, -0x7FFF8000)))


def cut(depth: int) -> Any:
    """(words of a factor, this thread's first depth, the depth that there is): 0 beyond it."""
    held = types.UniTuple(types.int32, depth // 4)

    def typing(context: Any, words: Any, first: Any, extent: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            first, extent = (_fit(builder, v, k, _I32) for v, k in zip(values[1:], signature.args[1:], strict=True))
            left = builder.sub(extent, first)
            kept = []
            for n in range(depth // 4):
                word, column = builder.extract_value(values[0], n), n // 4 * 16 + n % 4 // 2 * 8
                masks = [
                    builder.select(builder.icmp_signed(">", left, ir.Constant(_I32, column + e)), ir.Constant(_I32, bits), _ZERO)
                    for e, bits in enumerate((0xFFFF, -0x10000))
                ]
                kept.append(builder.and_(word, builder.or_(*masks)))
            return _packed(builder, kept, _I32)

        return held(held, types.int32, types.int32), generate

    return with_arity(typing, ["words", "first", "extent"])


_ZERO = ir.Constant(_I32, 0)
