"""The GPU's own functions of floats, against mpmath: their LLVM IR is compiled for the processor that runs the tests.

What the chip approximates, 1 / x and 1 / sqrt x, is cut to the bits that it reads and gives: the upper half of an f64 (PTX ISA,
rcp.approx.ftz.f64).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from llvmlite import binding, ir

from axon.backend.kernel import llvm
from axon.backend.kernel.llvm import F32, F64, I1, I8, I64, as_bits, as_float, call, real, suffix, whole
from axon.backend.kernel.newton import UNUSUAL, Chip
from axon.core import coefficients as known

Array = Any
ROOT = 1.4616321449683623
RNG = np.random.default_rng(0)


def _cut(b: Any, x: Any) -> Any:
    return as_float(b, b.and_(as_bits(b, x), whole(I64, -(2**32)))) if x.type == F64 else x


CHIP = Chip(
    llvm.fma,
    lambda b, x: _cut(b, b.fdiv(real(1.0, x), _cut(b, x))),
    lambda b, x: _cut(b, b.fdiv(real(1.0, x), call(b, f"llvm.sqrt.{suffix(x)}", _cut(b, x)))),
)


def compiled(emit: Callable[[Any, Any], Any], type: Any, result: Any = None) -> Callable[[Array], Array]:
    """A function of one float over an array."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = ir.Module()
    module.triple = binding.get_default_triple()
    given = ir.FunctionType(ir.VoidType(), [type.as_pointer(), (result or type).as_pointer(), I64])
    function = ir.Function(module, given, "f")
    b = ir.IRBuilder(function.append_basic_block())
    entry, loop, end = b.block, function.append_basic_block(), function.append_basic_block()
    b.branch(loop)
    b.position_at_end(loop)
    n = b.phi(I64)
    n.add_incoming(whole(I64, 0), entry)
    made = emit(b, b.load(b.gep(function.args[0], [n])))
    b.store(b.zext(made, I8) if made.type == I1 else made, b.gep(function.args[1], [n]))
    following = b.add(n, whole(I64, 1))
    n.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, function.args[2]), loop, end)
    b.position_at_end(end)
    b.ret_void()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten()
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), machine)
    engine.finalize_object()
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(engine.get_function_address("f"))

    def over(x: Array, engine: Any = engine) -> Array:
        y = np.empty(len(x), {F32: np.float32, F64: np.float64, I8: np.uint8}[result or type])
        run(x.ctypes.data, y.ctypes.data, len(x))
        return y

    return over


def spread(low: float, high: float, count: int) -> Array:
    """As many of each power of two."""
    return 2.0 ** RNG.uniform(np.log2(low), np.log2(high), count)


def about(x: float, wide: float) -> Array:
    return x + RNG.normal(size=150) * wide


POSITIVE = np.concatenate([
    RNG.uniform(0.001, 12, 1500), spread(2.0**-99, 2.0**100, 600), about(ROOT, 1e-6), about(1, 1e-6), about(2, 1e-6),
    np.arange(1, 20.0), np.arange(0.5, 12), [2.0**-100, 9.0, 9.5, 2.5],
])  # fmt: skip
SIGNED = np.concatenate(
    [RNG.uniform(-3, 3, 1500), spread(1e-310, 1e308, 500), -spread(1e-5, 10, 500), [0.0, -0.0, 2.0**60, -1.7e308]]
)
FROM_1 = np.concatenate([RNG.uniform(1, 9, 1500), 1 + spread(1e-16, 10, 500), spread(1, 1e308, 500), [1.0, 2.0**60, 1.7e308]])
WITHIN_1 = np.concatenate([RNG.uniform(-1, 1, 1500), spread(1e-310, 0.99, 500), 1 - spread(1e-16, 0.5, 500), [0.0, -0.0]])
STEPS = np.concatenate([at + np.arange(-40, 41) * 2.0**-23 for at in (1.0, ROOT, 2.0)])


def _narrow(emit: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda b, x: b.fptrunc(emit(b, b.fpext(x, F64)), F32)


@pytest.mark.parametrize(
    ("name", "emit", "type", "points", "ulps"),
    [
        ("digamma", _narrow(CHIP.narrow_digamma), F32, np.concatenate([POSITIVE, STEPS]), 0.55),
        ("lgamma", CHIP.narrow_lgamma, F32, np.concatenate([POSITIVE, STEPS]), 3),
        ("digamma", CHIP.digamma, F64, np.concatenate([POSITIVE, [1e300, 1.7e308]]), 5),
        ("lgamma", CHIP.lgamma, F64, np.concatenate([POSITIVE, [1e300]]), 5.5),
        ("sinh", CHIP.sinh, F64, SIGNED[np.abs(SIGNED) < 708], 2),
        ("acos", CHIP.acos, F64, WITHIN_1[np.abs(WITHIN_1) < 1], 1.5),
        ("erfc", CHIP.erfc, F64, np.concatenate([SIGNED[np.abs(SIGNED) < 26], RNG.uniform(3, 26.5, 600), [28.0, -30.0]]), 4),
        ("erfinv", CHIP.erfinv, F64, WITHIN_1[np.abs(WITHIN_1) < 1 - 2.0**-35], 5),
        ("asinh", CHIP.asinh, F64, SIGNED, 2),
        ("acosh", CHIP.acosh, F64, FROM_1, 2),
        ("atanh", CHIP.atanh, F64, WITHIN_1, 2),
    ],
)
def test_against_mpmath(name: str, emit: Callable[[Any, Any], Any], type: Any, points: Array, ulps: float) -> None:
    exact: Any = {"lgamma": mpmath.loggamma}.get(name, getattr(mpmath, name, None))
    x = points.astype(np.float32 if type == F32 else np.float64)
    with mpmath.workprec(150):
        for given, found in zip(x, compiled(emit, type)(x), strict=True):
            wanted = exact(mpmath.mpf(float(given)))
            if wanted == 0:
                assert found == 0
                assert np.signbit(found) == (np.signbit(given) and name not in ("acosh", "acos"))
                continue
            step = np.spacing(np.abs(x.dtype.type(float(wanted))))
            assert abs((mpmath.mpf(float(found)) - wanted) / mpmath.mpf(float(step))) <= ulps, (given, found)


def test_what_is_unusual() -> None:
    x = np.array([-np.inf, -2.0, -0.5, -0.0, 0.0, 2.0**-101, 2.0**-100, 0.5, 1.0, 2.0, 1e300, np.inf, np.nan])
    usual = {name: slice(6, 11) for name in ("digamma", "lgamma")} | {name: slice(1, 11) for name in ("asinh", "erfc")}
    usual |= {"acosh": slice(8, 11), "sinh": slice(1, 10)}
    for name, unusual in UNUSUAL.items():
        found = compiled(unusual, F64, I8)(x) == 0
        wanted = np.zeros(len(x), bool)
        wanted[usual.get(name, slice(2, 8))] = True
        assert found.tolist() == wanted.tolist(), name


@pytest.mark.parametrize(
    ("coefficients", "low", "high", "middle", "of", "within"),
    [
        (known.EXP, -0.3466, 0.3466, 0, lambda r: (mpmath.exp(r) - 1 - r) / r**2, 5e-16),
        (known.ASIN, 0, 0.25, 0, lambda z: (mpmath.asin(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z, 3e-16),
        (known.ERFC, -1, 0.75, 0, lambda t: _scaled(4 * (1 + t) / (1 - t)), 4e-16),
        (known.LGAMMA_ABOUT_2, -0.5, 0.5, 0, lambda z: (mpmath.loggamma(2 + z) - z * (1 - mpmath.euler)) / z**2, 3e-16),
        (known.LOG_NARROW, 0, 0.1716**2, 0, lambda z: mpmath.atanh(mpmath.sqrt(z)) / mpmath.sqrt(z), 1e-9),
        (known.DIGAMMA_NARROW_NEAR, 1, 2, 1.5, lambda x: mpmath.digamma(x) / (x - mpmath.findroot(mpmath.digamma, 1.46)), 1e-9),
        (known.DIGAMMA_NARROW_FAR, 0, 0.5, 0, lambda u: (-mpmath.log(u) - mpmath.digamma(1 / u)) / u, 3e-9),
        (known.LOG_NARROWEST, -0.2928, 0.4142, 0, lambda t: (mpmath.log1p(t) - t) / t**2, 1e-6),
        (known.LGAMMA_NARROW_NEAR, 1, 2.5, 1.75, lambda x: mpmath.loggamma(x) / (x - 1) / (x - 2), 1e-7),
        (known.LGAMMA_NARROW_FAR, 0, 0.16, 0, lambda z: _stirling(1 / mpmath.sqrt(z)), 2e-7),
    ],
)
def test_polynomials_are_what_they_say(
    coefficients: known.Polynomial, low: float, high: float, middle: float, of: Callable[[Any], Any], within: float
) -> None:
    with mpmath.workprec(200):
        for n in range(100):
            x = mpmath.mpf(low) + (mpmath.mpf(high) - low) * (2 * n + 1) / 200
            wanted = of(x)
            assert abs(mpmath.polyval(list(coefficients), x - middle) / wanted - 1) < within


def _scaled(a: Any) -> Any:
    return (1 + 2 * a) * mpmath.exp(a * a) * mpmath.erfc(a)


def _stirling(x: Any) -> Any:
    return (mpmath.loggamma(x) - (x - 0.5) * mpmath.log(x) + x - mpmath.log(2 * mpmath.pi) / 2) * x
