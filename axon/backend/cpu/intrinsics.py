"""What emitted CPU kernels call: memory, conversions, and functions, each as LLVM IR that vectorizes.

Values of 16- and 8-bit floats are held as f32, rounded to what their element type has after each operation (`round_*`), so that
kernels compute what the interpreter does; `load_*` and `store_*` change between that and the bits in memory. `exp` and `log` are
polynomials without branches, which are inlined; most other functions are called with vectors of arguments (`kernel.lanes`).

Integers wrap. Divisions are given divisors that are not 0, except that any divisor may be given: 0 gives an arbitrary result
and never stops the process (the kernel has taken note of it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from axon.backend.cpu.lowering import Operation, Surroundings, Type
from axon.backend.kernel import elementary, lanes, llvm, polynomials, single
from axon.backend.kernel.elementary import ELEMENTARY
from axon.backend.kernel.llvm import F32, F64, I1, I8, I64, Builder, Emit, Value, call, fma, real, suffix, whole
from axon.backend.kernel.narrow import NARROW
from axon.backend.kernel.special import Functions
from axon.backend.tiles import microkernel
from axon.base.element import Element

_operations: dict[str, Operation] = {}


def _intrinsic(name: str, typing: Callable[..., Type], emit: Emit) -> None:
    """An operation of emitted code: `typing` gives the result's type for the arguments', `emit` the IR."""
    _operations[name] = Operation(typing, emit)


def _inline(name: str, emit: Emit) -> Emit:
    """A function of one float that stands once in a module and is inlined everywhere: less text than its body at every call."""

    def one(b: Builder, x: Value) -> Value:
        own = f"axon.{name}"
        function = b.module.globals.get(own)
        if function is None:
            function = ir.Function(b.module, ir.FunctionType(x.type, [x.type]), own)
            function.linkage = "internal"
            function.attributes.add("alwaysinline")
            body = ir.IRBuilder(function.append_basic_block())
            body.ret(emit(body, function.args[0]))
        lanes.wide(b.function, microkernel.vector_bits())
        return b.call(function, [x])

    return one


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _place(b: Builder, pointer: Value, offset: Value) -> Value:
    return b.gep(pointer, [offset], inbounds=True)


def _memory(name: str, value: Any, decode: Emit, encode: Emit) -> None:
    """`load_NAME(pointer, offset)` and `store_NAME(pointer, offset, value)`; `value` is the type of values, None the pointer's."""

    def load(b: Builder, pointer: Value, offset: Value) -> Value:
        return decode(b, b.load(_place(b, pointer, offset)))

    def store(b: Builder, pointer: Value, offset: Value, given: Value) -> None:
        b.store(encode(b, given), _place(b, pointer, offset))

    _intrinsic(f"load_{name}", lambda p, o: value, load)
    _intrinsic(f"store_{name}", lambda p, o, v: None, store)


_INTEGERS = tuple((element.value, element.bits, element) for element in Element if element.is_integer)
_same = lambda b, x: x
for _name, _type in (
    ("f64", Element.F64), ("f32", Element.F32), *((name, type) for name, _, type in _INTEGERS),
):  # fmt: skip
    _memory(_name, _type, _same, _same)
_memory("f16", Element.F32, llvm.f16_decode, llvm.f16_encode)
_memory("bf16", Element.F32, llvm.bf16_decode, llvm.bf16_encode)
_memory("f8e4m3", Element.F32, llvm.E4M3.decode, llvm.E4M3.encode)
_memory("f8e5m2", Element.F32, llvm.E5M2.decode, llvm.E5M2.encode)
_memory("bool", Element.BOOL, lambda b, x: b.icmp_unsigned("!=", x, whole(I8, 0)), lambda b, x: b.zext(x, I8))
for _name, _emit in (
    ("f16", llvm.f16_round), ("bf16", llvm.bf16_round), ("f8e4m3", llvm.E4M3.round), ("f8e5m2", llvm.E5M2.round),
):  # fmt: skip
    _intrinsic(f"round_{_name}", lambda x: Element.F32, _emit)


def _copy(b: Builder, target: Value, at: Value, source: Value, start: Value, count: Value) -> None:
    one = b.ptrtoint(b.gep(ir.Constant(target.type, None), [whole(I64, 1)]), I64)  # how many bytes an element takes
    byte = I8.as_pointer()
    places = (b.bitcast(_place(b, pointer, offset), byte) for pointer, offset in ((target, at), (source, start)))
    memcpy = b.module.declare_intrinsic("llvm.memcpy", [byte, byte, I64])
    b.call(memcpy, [*places, b.mul(count, one), whole(I1, 0)])


_intrinsic("copy", lambda *arguments: None, _copy)


# ── conversions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _saturated(bits: int, signed: bool) -> Emit:
    def one(b: Builder, x: Value) -> Value:
        name = f"llvm.fpto{'s' if signed else 'u'}i.sat.i{bits}.{suffix(x)}"
        return call(b, name, x, result=ir.IntType(bits))

    return one


for _name, _width, _type in _INTEGERS:
    # From integers with a sign; from those without one and from bool; from floats.
    _intrinsic(f"as_{_name}", lambda x, type=_type: type, llvm.resized(_width))
    _intrinsic(f"widen_{_name}", lambda x, type=_type: type, llvm.resized_unsigned(_width))
    _intrinsic(f"trunc_{_name}", lambda x, type=_type: type, _saturated(_width, _name[0] == "i"))
_intrinsic("signed_f32", lambda x: Element.F32, lambda b, x: b.sitofp(x, F32))
_intrinsic("signed_f64", lambda x: Element.F64, lambda b, x: b.sitofp(x, F64))
_intrinsic("unsigned_f32", lambda x: Element.F32, lambda b, x: b.uitofp(x, F32))
_intrinsic("unsigned_f64", lambda x: Element.F64, lambda b, x: b.uitofp(x, F64))
_intrinsic("to_f32", lambda x: Element.F32, lambda b, x: b.fptrunc(x, F32))
_intrinsic("to_f64", lambda x: Element.F64, lambda b, x: b.fpext(x, F64))
_intrinsic("odd_f32", lambda x: Element.F32, llvm.to_odd)
_intrinsic("integer_odd_f32", lambda x: Element.F32, llvm.integer_to_odd)
_intrinsic("unsigned_odd_f32", lambda x: Element.F32, llvm.unsigned_to_odd)


# ── arithmetic ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _float_remainder(b: Builder, x: Value, y: Value) -> Value:
    """With the sign of the divisor; NaN where it is 0."""
    rest = b.frem(x, y)
    zero = real(0.0, x)
    other = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", rest, zero))
    moved = b.select(other, b.fadd(rest, y), rest)
    nothing = call(b, f"llvm.copysign.{suffix(x)}", zero, y)
    return b.select(b.fcmp_ordered("==", rest, zero), nothing, moved)


def _same_type(x: Any, *others: Any) -> Any:
    return x


def _turned(b: Builder, bits: Value) -> Value:
    """The bits of a float as an integer that lies among others as it does; or those of such an integer as a float's."""
    most = llvm.scalar_of(bits.type).width - 1
    return b.xor(bits, b.and_(b.ashr(bits, whole(bits.type, most)), whole(bits.type, (1 << most) - 1)))


def _placed(greatest: bool) -> Emit:
    """That integer, which of what is no number is beyond all."""

    def one(b: Builder, x: Value) -> Value:
        lanes.wide(b.function, microkernel.vector_bits())
        narrow = llvm.scalar_of(x.type) == F32
        nan = 0x7FC00000 if narrow else 0x7FF8000000000000
        turned = _turned(b, llvm.as_bits(b, x))
        return b.select(b.fcmp_unordered("uno", x, x), whole(turned.type, nan if greatest else -nan - 1), turned)

    return one


# Sums and products of a reduction may be taken in any order: the flag lets loops over them be vectorized.
_FLAGS = ("reassoc", "nsz")
_BINARY: dict[str, Emit] = {
    "sum_float": lambda b, x, y: b.fadd(x, y, flags=_FLAGS),
    "prod_float": lambda b, x, y: b.fmul(x, y, flags=_FLAGS),
    "max_float": lambda b, x, y: call(b, f"llvm.maximum.{suffix(x)}", x, y),
    "min_float": lambda b, x, y: call(b, f"llvm.minimum.{suffix(x)}", x, y),
    "add": lambda b, x, y: b.fadd(x, y) if llvm.is_float(x) else b.add(x, y),
    "sub": lambda b, x, y: b.fsub(x, y) if llvm.is_float(x) else b.sub(x, y),
    "mul": lambda b, x, y: b.fmul(x, y) if llvm.is_float(x) else b.mul(x, y),
    "divide": lambda b, x, y: b.fdiv(x, y),
    "floor_divide": llvm.floor_divide,
    "remainder": llvm.remainder,
    "unsigned_divide": llvm.unsigned_divide,
    "unsigned_remainder": llvm.unsigned_remainder,
    "float_remainder": _float_remainder,
    "max_int": lambda b, x, y: call(b, f"llvm.smax.{suffix(x)}", x, y),
    "min_int": lambda b, x, y: call(b, f"llvm.smin.{suffix(x)}", x, y),
    "max_unsigned": lambda b, x, y: call(b, f"llvm.umax.{suffix(x)}", x, y),
    "min_unsigned": lambda b, x, y: call(b, f"llvm.umin.{suffix(x)}", x, y),
}
for _name, _emit in (_BINARY | llvm.BITS).items():
    _intrinsic(_name, _same_type, _emit)
# A step of a sum of products: the product may be fused into the sum, and need not be rounded before.
_intrinsic(
    "sum_product",
    _same_type,
    lambda b, s, x, y: b.fadd(s, b.fmul(x, y, flags=("contract", "reassoc")), flags=("contract", "reassoc", "nsz")),
)
for _name in ("max", "min"):
    _integer = lambda x: Element.I32 if x is Element.F32 else Element.I64
    _intrinsic(f"place_{_name}", _integer, _placed(_name == "max"))
_float = lambda x: Element.F32 if x is Element.I32 else Element.F64
_intrinsic("placed", _float, lambda b, x: llvm.as_float(b, _turned(b, x)))
_intrinsic("select", lambda c, x, y: x, lambda b, c, x, y: b.select(c, x, y))
_intrinsic("both", _same_type, lambda b, x, y: b.and_(x, y))
_intrinsic("either", _same_type, lambda b, x, y: b.or_(x, y))
_intrinsic("negation", _same_type, lambda b, x: b.not_(x))
for _name, _sign_name in (("eq", "=="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    _boolean = lambda x, y: Element.BOOL
    _intrinsic(f"{_name}_float", _boolean, lambda b, x, y, op=_sign_name: b.fcmp_ordered(op, x, y))
    _intrinsic(f"{_name}_int", _boolean, lambda b, x, y, op=_sign_name: b.icmp_signed(op, x, y))
    _intrinsic(f"{_name}_unsigned", _boolean, lambda b, x, y, op=_sign_name: b.icmp_unsigned(op, x, y))
for _name in ("int", "unsigned"):
    _intrinsic(f"ne_{_name}", lambda x, y: Element.BOOL, lambda b, x, y: b.icmp_unsigned("!=", x, y))
_intrinsic("ne_float", lambda x, y: Element.BOOL, lambda b, x, y: b.fcmp_unordered("une", x, y))


# An integer power by squaring, which wraps; 1 where the exponent is negative.
_POWER = """
def integer_power(base, exponent):
    result = 1
    factor = base
    left = exponent
    while left > 0:
        if left & 1:
            result = mul(result, factor)
        factor = mul(factor, factor)
        left = left >> 1
    return result
"""
_intrinsic("signed_exponent", lambda x: Element.I64, llvm.signed_exponent)


# ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_exp_f32 = _inline("exp.f32", polynomials.exp)
_log_f32 = _inline("log.f32", polynomials.log)
_exp_f64, _log_f64 = _inline("exp.f64", polynomials.exp_wide), _inline("log.f64", polynomials.log_wide)


def _by_type(narrow: Emit, wide: Emit) -> Emit:
    def one(b: Builder, *x: Value) -> Value:
        return narrow(b, *x) if x[0].type == F32 else wide(b, *x)

    return one


def _library(name: str) -> Emit:
    def one(b: Builder, *x: Value) -> Value:
        return call(b, f"{name}f" if x[0].type == F32 else name, *x)

    return one


def _through_f64(emit: Emit) -> Emit:
    """A function of f32 by one of f64: what its formula loses is far below the last bit of the result."""

    def one(b: Builder, *x: Value) -> Value:
        return b.fptrunc(emit(b, *(b.fpext(value, llvm.shaped(F64, value)) for value in x)), llvm.shaped(F32, x[0]))

    return one


def _formula_through_f64(formula: lanes.Formula) -> lanes.Formula:
    def one(b: Builder, *x: Value) -> tuple[Value, Value | None]:
        result, holds = formula(b, *(b.fpext(value, llvm.shaped(F64, value)) for value in x))
        return b.fptrunc(result, llvm.shaped(F32, x[0])), holds

    return one


def _pair_through_f64(formulas: lanes.Formulas) -> lanes.Formulas:
    def one(b: Builder, x: Value) -> tuple[tuple[Value, ...], Value | None]:
        results, holds = formulas(b, b.fpext(x, llvm.shaped(F64, x)))
        return tuple(b.fptrunc(result, x.type) for result in results), holds

    return one


def _everywhere(emit: Emit) -> lanes.Formula:
    return lambda b, *x: (emit(b, *x), None)


def _by_lanes(name: str, narrow: lanes.Formula, wide: lanes.Formula, library: Emit | None = None) -> Emit:
    """A function whose formulas are these for f32 and for f64."""
    library = library or _library(name)
    of_f32 = lanes.by_lanes(name, narrow, library, microkernel.vector_bits)
    of_f64 = lanes.by_lanes(name, wide, library, microkernel.vector_bits)
    return lambda b, *x: of_f32(b, *x) if x[0].type == F32 else of_f64(b, *x)


def _wide_library(name: str) -> Emit:
    """The C library's function of f64, also for f32."""
    return _by_type(_through_f64(_library(name)), _library(name))


_SPECIAL = Functions(fma, polynomials.exp_wide, polynomials.log_wide, llvm.named("sqrt"), llvm.named("rint"))
_NARROW: dict[str, lanes.Formula] = {
    **single.SINGLE,
    **{name: _formula_through_f64(NARROW.unary[name]) for name in ("erfc", "erfinv", "lgamma", "digamma")},
    "erf": _everywhere(polynomials.erf),
}
_erfinv_f64, _digamma_f64 = _inline("erfinv_beyond.f64", _SPECIAL.erfinv), _inline("digamma_beyond.f64", _SPECIAL.digamma)


def _as_it_is(emit: Emit) -> Emit:
    """A call that LLVM leaves as it is: of a sine and a cosine it makes one of `sincos`, which C does not have."""

    def one(b: Builder, x: Value) -> Value:
        made = emit(b, x)
        set.add(made.attributes, "nobuiltin")  # which llvmlite does not list
        return made

    return one


def _angles() -> dict[str, Emit]:
    """The sine and the cosine, which one call gives: an angle of which both are asked is turned once. Of f32 by a formula of f64
    where angles are beyond those that `single` has."""
    names = ("sin", "cos")
    library = [_as_it_is(_library(name)) for name in names]
    far = lanes.within(ELEMENTARY.sine_and_cosine, elementary.WIDEST)
    of_f64 = lanes.together("sincos", far, library, microkernel.vector_bits)
    through = lanes.together("sincos_wide", _pair_through_f64(far), library, microkernel.vector_bits)
    near = lanes.within(single.sine_and_cosine, single.WIDEST)
    of_f32 = lanes.together("sincos", near, through, microkernel.vector_bits)
    return {name: _by_type(*pair) for name, *pair in zip(names, of_f32, of_f64, strict=True)}


_LIBRARY: dict[str, Emit] = {  # for which formulas do not hold: the C library's of the type, but
    **{name: _wide_library(name) for name in single.SINGLE},
    "lgamma": _wide_library("lgamma"),
    "digamma": _by_type(_through_f64(_digamma_f64), _digamma_f64),
    "erfinv": _by_type(_through_f64(_erfinv_f64), _erfinv_f64),
}
_UNARY: dict[str, Emit] = {
    "exp": _by_type(_exp_f32, _exp_f64),
    "log": _by_type(_log_f32, _log_f64),
    "sqrt": llvm.named("sqrt"),
    "rsqrt": lambda b, x: b.fdiv(real(1.0, x), call(b, f"llvm.sqrt.{suffix(x)}", x)),
    "absolute": llvm.magnitude,
    "sign": llvm.sign,
    "floor": llvm.named("floor"),
    "ceil": llvm.named("ceil"),
    "nearest": llvm.named("rint"),
    "minus": lambda b, x: b.fneg(x) if llvm.is_float(x) else b.neg(x),
    "integer_sign": llvm.integer_sign,
    "integer_absolute": llvm.integer_absolute,
    "bit_not": lambda b, x: b.not_(x),
    **_angles(),
    **{name: _by_lanes(name, _NARROW[name], wide, _LIBRARY.get(name)) for name, wide in ELEMENTARY.unary.items()},
}
for _name, _emit in _UNARY.items():
    _intrinsic(_name, _same_type, _emit)
for _name, _called, _of_f32, _of_f64 in (
    ("power", "pow", single.pow, ELEMENTARY.pow), ("atan2", "atan2", single.atan2, ELEMENTARY.atan2_held),
):  # fmt: skip
    _intrinsic(_name, _same_type, _by_lanes(_called, _of_f32, _of_f64, _wide_library(_called)))

for _name, _float in (("f32", F32), ("f64", F64)):
    for _high, _wide in microkernel.shapes():
        _lanes = microkernel.vector_bits() // (32 if _float == F32 else 64)
        for _apart in (False, True):
            _tile = microkernel.tile(_float, _lanes, _high, _wide, _apart)
            _intrinsic(microkernel.name(_name, _high, _wide, _apart), lambda *given: None, _tile)


_NUMBERS = (Element.F32, Element.F64, *(element for element in Element if element.is_integer))
SURROUNDINGS = Surroundings(_operations, {element.value: element for element in _NUMBERS}, {"integer_power": _POWER})
