"""Which core operations become contractions, which epilogues they take in, and what is refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.contraction import contraction as find
from axon.backend.gpu.tile.families import family_of, kernels
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.names import fresh
from axon.core.ir import Axis, Block, Compute, Convert, Leaf, Monoid, Program, Read, Reduction, Scalar, Value
from axon.shapes.contracts.contract import Contract
from axon.shapes.dimension import Dim, maximum, minimum
from tests.backend.gpu.programs import Binary, Const, Index, Unary, add, contraction, gelu, mul


def axes(kernel: MatrixProduct) -> tuple[str, str, str, tuple[str, ...]]:
    return kernel.rows.symbol.name, kernel.columns.symbol.name, kernel.depth.symbol.name, tuple(a.symbol.name for a in kernel.outer)


@pytest.mark.parametrize(
    ("einsum", "wanted"),
    [
        ("ik,kj->ij", ("i", "j", "k", ())),
        ("ki,jk->ij", ("i", "j", "k", ())),
        ("ik,kj->ji", ("j", "i", "k", ())),  # the last index of the result names the columns
        ("bik,bkj->bij", ("i", "j", "k", ("b",))),
        ("bshd,bthd->bhst", ("s", "t", "d", ("b", "h"))),
        ("bsd,de->bse", ("s", "e", "d", ("b",))),
        ("hik,kj->hij", ("i", "j", "k", ("h",))),
    ],
)
def test_axes_follow_from_the_reads(einsum: str, wanted: tuple[object, ...]) -> None:
    (kernel,) = kernels(contraction(einsum).program)
    assert axes(kernel) == wanted


def test_the_operand_with_the_last_index_is_on_the_right() -> None:
    (kernel,) = kernels(contraction("ik,kj->ji").program)
    assert kernel.left.value.symbol.name == "b"
    assert kernel.right.value.symbol.name == "a"


def test_a_pointwise_operation_becomes_the_epilogue() -> None:
    case = contraction("ik,kj->ij", epilogue=lambda p, x, at: gelu(add(p, x[0]), Element.BF16), extra="j")
    (kernel,) = kernels(case.program)
    assert [r.value.symbol for r in kernel.results] == [case.result.symbol]


def test_an_intermediate_that_is_also_a_result_is_stored_too() -> None:
    case = contraction("ik,kj->ij", epilogue=lambda p, x, at: Unary("tanh", p))
    first, second = case.program.block.ops
    assert isinstance(first, Compute)
    both = Block(case.program.block.ops, (first.outs[0].symbol, case.result.symbol))
    program = Program("f", (), (), case.program.inputs, case.program.contract, both, Leaf(0))
    (kernel,) = kernels(program)
    assert len(kernel.results) == 2
    assert second is case.program.block.ops[1]


def test_names_decide_nothing() -> None:
    """The same program under other names gives the same kernel."""
    one, two = (kernels(contraction(e).program)[0] for e in ("ik,kj->ij", "xz,zy->xy"))
    assert [len(one.outer), len(one.results)] == [len(two.outer), len(two.results)]
    assert (one.left.axes.index(one.depth.symbol), one.right.axes.index(one.depth.symbol)) == (
        two.left.axes.index(two.depth.symbol),
        two.right.axes.index(two.depth.symbol),
    )


def program_of(*ops: Compute, inputs: tuple[Value, ...]) -> Program:
    return Program("f", (), (), inputs, Contract((), ()), Block(ops, (ops[-1].outs[0].symbol,)), Leaf(0))


def test_refusals_say_why() -> None:
    n, i, j = fresh("n"), fresh("i"), fresh("j")
    size = Dim.of(n)
    a = Value(fresh("a"), Element.BF16, (size, size))
    f = Value(fresh("f"), Element.F32, (size, size))
    out = Value(fresh("out"), Element.F32, (size,))
    row = Read(f.symbol, (Dim.of(i), Dim.of(j)), Element.F32)
    across = (Axis(j, size),)

    def refused(op: Compute, *inputs: Value) -> str:
        with pytest.raises(Unsupported) as caught:
            find(op, {v.symbol: v for v in inputs})
        return caught.value.reason

    rows = (Axis(i, size),)
    assert "only unconditional sums" in refused(Compute((out,), rows, Reduction(across, Monoid("max")), (row,)), f)
    assert "not over products of two tensors" in refused(Compute((out,), rows, Reduction(across, Monoid("sum")), (row,)), f)
    assert "a pointwise operation that follows no contraction" in refused(
        Compute((f,), (Axis(i, size), Axis(j, size)), None, (row,)), f
    )
    k = fresh("k")
    d = Value(fresh("d"), Element.F64, (size, size))
    square = Value(fresh("square"), Element.F64, (size, size))
    left = Read(d.symbol, (Dim.of(i), Dim.of(k)), Element.F64)
    right = Read(d.symbol, (Dim.of(k), Dim.of(j)), Element.F64)
    whole = (Axis(i, size), Axis(j, size))
    product = Reduction((Axis(k, size),), Monoid("sum"))
    assert "f8e4m3, f8e5m2, i8 and u8, not f64" in refused(Compute((square,), whole, product, (mul(left, right),)), d)
    shifted = Read(a.symbol, (Dim.of(i), Dim.of(k) * Dim.of(k)), Element.BF16)
    plain = Read(a.symbol, (Dim.of(k), Dim.of(j)), Element.BF16)
    narrow = Value(fresh("narrow"), Element.BF16, (size, size))
    assert "not linear in the indices" in refused(Compute((narrow,), whole, product, (mul(shifted, plain),)), a)


def epilogue(body: Callable[[Read, Dim, Dim], Scalar]) -> list[str]:
    """The kernels of a product and a pointwise operation on it."""
    case = contraction("ik,kj->ij", Element.BF16, Element.F32, lambda p, x, at: mul(p, Const(2.0, Element.F32)))
    first, second = case.program.block.ops
    assert isinstance(first, Compute)
    assert isinstance(second, Compute)
    i, j = (Dim.of(a.symbol) for a in second.axes)
    made = replace(second, body=(body(Read(first.outs[0].symbol, (i, j), Element.F32), i, j),))
    return [type(kernel).__name__ for kernel in kernels(program_of(first, made, inputs=case.program.inputs))]


EPILOGUES: dict[str, tuple[Callable[[Dim, Dim], Scalar], bool]] = {
    "a product of indices": (lambda i, j: Index(i * j), True),
    "a remainder": (lambda i, j: Index((i - j) % 3), True),
    "the greater of two": (lambda i, j: Index(maximum(i, j) + minimum(i * 2, j)), True),
    "a quotient by what is at least 1": (lambda i, j: Index(i // maximum(j, 1)), True),
    "a quotient by what may be 0": (lambda i, j: Index(i // j), False),
    "a quotient of data": (lambda i, j: Binary("div", Index(i), Const(0, Element.I32)), False),
    "more than 64 bits": (lambda i, j: Index(i * i * i * i // 7), False),
    "64-bit integers": (lambda i, j: Binary("add", Index(i, Element.I64), Index(j, Element.I64)), True),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_an_epilogue_takes_what_it_can_compute_exactly(name: str) -> None:
    index, taken = EPILOGUES[name]
    found = epilogue(lambda product, i, j: mul(product, Convert(index(i, j), Element.F32)))
    assert found == (["MatrixProduct"] if taken else ["MatrixProduct", "Nest"])


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("(a @ b)[i, j] > 0.0", ["MatrixProduct", "Nest"]),
        ("cast i8 ((a @ b)[i, j] * 9.0)", ["MatrixProduct", "Nest"]),
        ("cast f32 (a @ b)[i, j]", ["MatrixProduct"]),
    ],
)
def test_an_epilogue_stores_what_it_can(body: str, kinds: list[str]) -> None:
    source = f"fun f (a : bf16[m, k]) (b : bf16[k, n]) = for i j => {body}"
    assert [type(k).__name__ for k in kernels(compiler.lower(compiler.check_text(source), "f", None))] == kinds
    a, b = (np.random.default_rng(n).standard_normal((24, 24)).astype(ml_dtypes.bfloat16) for n in range(2))
    f = axon.compile(source).f
    got, want = (np.asarray(f(a, b, target=target), float) for target in ("simulate", "interpret"))
    assert np.abs(got - want).max() <= (0.1 if "f32" in body else 1.0)


def test_casts_between_types_of_16_bits_are_not_looked_through() -> None:
    """bf16 holds 1e6, f16 does not: the cast decides."""
    source = (
        "fun f (a : bf16[m, k]) (b : bf16[k, n]) = for i j => sum c => cast f32 (cast f16 a[i, c]) * cast f32 (cast f16 b[c, j])"
    )
    f = axon.compile(source).f
    a, b = np.full((1, 8), 1e6, ml_dtypes.bfloat16), np.ones((8, 8), ml_dtypes.bfloat16)
    assert np.isinf(f(a, b, target="interpret")).all()
    assert np.isinf(f(a, b, target="simulate")).all()


@pytest.mark.parametrize(
    ("source", "shapes", "reason"),
    [
        ("for i j => sum c => a[i, k - 1 - c] * b[c, j]", "bf16[32, 256]", "what is read of `a` cannot be read by bulk copies"),
        ("for i j => sum c => a[i, c] * b[c, j]", "bf16[32, 250]", "dimension 0 steps by 500 bytes"),
        ("for i j => sum c e => a[i, c, 0] * b[c, e, j]", "bf16[64, 4, 4]", "is not read at all of the summed indices"),
    ],
)
def test_explain_says_why_a_product_is_plain(source: str, shapes: str, reason: str) -> None:
    ranks = shapes.count(",")
    names = ["m", "k", "l"][: ranks + 1]
    text = f"fun f (a : bf16[{', '.join(names)}]) (b : bf16[{', '.join([*names[1:], 'n'])}]) = {source}"
    program = compiler.lower(compiler.check_text(text), "f", None)
    a = [int(n) for n in shapes[5:-1].split(",")]
    sizes = program.contract.bind((), [a, [*a[1:], 64]])
    *_, kernel = Executable(program).serving({}, sizes).planned.kernels
    assert isinstance(kernel, Nest)
    assert any(reason in why.worded({}) for why in kernel.reasons)


@pytest.mark.parametrize(
    ("body", "first"),
    [
        ("for i j => exp y[i, j] / total[i] - hot[i, j]", "contraction"),  # nobody but what waits reads it
        ("for i j => (exp y[i, j] / total[i] - hot[i, j], hot[i, j])", "map"),  # a result
        ("(for i j => exp y[i, j] / total[i] - hot[i, j], (for i j => cast bf16 hot[i, j]) @ c)", "map"),  # a factor, too
    ],
)
def test_what_waits_for_a_product_is_made_with_what_waits(body: str, first: str) -> None:
    """A pointwise operation is made where it is read, if plain operations alone read it: as a part of what they become."""
    text = f"""fun f (a : bf16[m, k]) (b : bf16[k, n]) (c : bf16[n, o]) (t : i32[m]) =
  let val p = a @ b
      val y = for i j => cast f32 p[i, j]
      val total = for i => sum j => exp y[i, j]
      val hot = for i, j < n => if t[i] = j then 1.0 else 0.0
  in {body} end"""
    program = compiler.lower(compiler.check_text(text), "f", None)
    assert next(family_of(kernel) for kernel in kernels(program)) == first
