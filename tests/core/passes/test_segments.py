"""Scatters as sums over segments: the same integers bit for bit, the same floats up to rounding, errors where there were errors."""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest

from axon import AxonError, compiler
from axon.base.element import Element
from axon.core.ir import Loop, Program, Sort
from axon.core.passes import segments
from axon.core.passes.parts import choices_of
from axon.core.passes.segments import scatters, segmented
from axon.core.printer import print_program
from axon.core.verify import verify
from axon.interpret import run
from axon.shapes.contracts.guard import ContractBroken

MANY = 2000 if os.environ.get("AXON_SOAK") else 120
SUM = "fun f {v} (ids : i32[n]) (x : f32[n, d]) = for b < v, j => sum for i where ids[i] = b => x[i, j]"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks so short that few elements make chunks of chunks."""
    monkeypatch.setattr(segments, "CHUNK", 3)


def lowered(text: str) -> Program:
    return compiler.lower(compiler.check_text(text), "f", None)


def made_of(program: Program) -> Program:
    made = segmented(program, frozenset(one.symbol for one in scatters(program)))
    verify(made)
    return made


def outcome(program: Program, inputs: list[np.ndarray], explicit: list[int]) -> list[np.ndarray] | str:
    try:
        return run(program, inputs, explicit)
    except AxonError as error:
        return error.diagnostics[0].code
    except ContractBroken:
        return "contract"


def same(text: str, inputs: list[np.ndarray], places: int, tolerance: float = 0.0) -> None:
    program = lowered(text)
    made = made_of(program)
    wanted, found = (outcome(p, inputs, [places]) for p in (program, made))
    if isinstance(wanted, str):
        assert found == wanted, text
        return
    assert not isinstance(found, str), text
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype == theirs.dtype
        wide = theirs.astype(np.float64)
        scale = float(np.abs(wide[np.isfinite(wide)]).max(initial=1.0))
        np.testing.assert_allclose(mine.astype(np.float64), wide, rtol=0, atol=tolerance * scale, err_msg=print_program(made))


# ── what is made ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_made() -> None:
    text = print_program(made_of(lowered(SUM)))
    order, source = "b_order[3 * chunk", "b_source[3 * chunk + within]"
    for line in (
        "if index >= 0 andalso index < v then index else v",
        "= sort keys",
        f"ends : i32[n / 3] = for chunk => if {order}] = {order} + 2] andalso {order}] < v then 3 else 0",
        f"sum_part1 : f32[n / 3, d] = for chunk, j => sum within < 3 where within < ends[chunk] => x[{source}, j]",
        "sum_part2 : f32[n / 9, d] = for chunk, j => sum within < 3 where within < ends2[chunk] => sum_part1[3 * chunk + within",
        "sum : f32[v, d] = for b, j => sum term < n where term < count[b] =>",
    ):
        assert line in text, text


def test_scatters_with_the_same_indices_share_a_sort() -> None:
    sums = "sum for i where ids[i] = b => x[i]"
    text = f"fun f {{v}} (ids : i32[n]) (x : f32[n]) = for b < v => ({sums}) / cast f32 (sum for i where ids[i] = b => 1)"
    made = made_of(lowered(text))
    assert sum(isinstance(op, Sort) for op in made.block.ops) == 1
    rng = np.random.default_rng(1)
    same(text, [rng.integers(0, 4, 40).astype(np.int32), rng.normal(size=40).astype(np.float32)], 4, 1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "fun f {v} (ids : i32[n]) (x : i32[n]) = for b < v => sum for i where x[ids[i]] = b => 1",  # the index may fail
        "fun f {v} (ids : i32[n]) (x : f32[n]) = for b < v => argmax for i where ids[i] = b => x[i]",
        "fun f {v} (ids : i32[v, n]) = for b < v => sum for i where ids[b, i] = b => 1",  # an index of each place
        "fun f {v} (ids : i32[n, n]) = for b < v => sum for i < n, j < i where ids[i, j] = b => 1",  # a triangle
        "fun f {v} (ids : i32[n]) (x : i32[n, d]) = for b < v => max for i j where ids[i] = b andalso x[i, j] > 0 => x[i, j]",
    ],
)
def test_what_stays(text: str) -> None:
    assert not scatters(lowered(text))


# ── what it means ───────────────────────────────────────────────────────────────────────────────────────────────────────

KINDS = {
    "f32": ("sum", "prod", "max", "min"), "f64": ("sum", "max"), "bf16": ("sum", "prod", "max"), "f16": ("sum", "min"),
    "i32": ("sum", "prod", "max", "min"), "i64": ("sum", "max"), "u8": ("sum", "min"), "bool": ("any", "all"),
}  # fmt: skip
CONDITIONS = (
    "",
    "",
    "i % 2 = 0",
    "b <> 1",
    "w[b] > 0.4",
    "w[b] > 0.5 andalso y[i] > 0.2",
    "y[i] > 0.3",
    "j > 0 andalso y[i] > 0.1",
)
TOLERANCE = {"f32": 1e-5, "f64": 1e-13, "bf16": 1e-2, "f16": 1e-3}


@pytest.mark.parametrize("seed", range(MANY))
def test_drawn(seed: int) -> None:
    chance, rng = Random(seed), np.random.default_rng(seed)
    element = chance.choice(list(KINDS))
    kind, condition = chance.choice(KINDS[element]), chance.choice(CONDITIONS)
    n, t, d, v = (
        chance.choice((0, 1, 2, 7, 30, 60)),
        chance.choice((1, 2, 3)),
        chance.choice((0, 1, 2)),
        chance.choice((0, 1, 2, 5)),
    )
    double = chance.random() < 0.3  # two axes that the index varies with
    rest = chance.random() < 0.2  # and one that it does not
    outer = chance.random() < 0.2  # an axis of the result that it varies with
    ids = "ids[j, i" if outer else "ids[i"
    body = (
        "b = 1 orelse x[i, j, k]" if element == "bool" else chance.choice(("x[i, j, k]", "x[i, j, k] * x[i, j, 0]", "x[i, j, k]"))
    )
    if not rest and not double:
        body = body.replace("k]", "0]")
    axes = "i k" if double or rest else "i"
    place = f"{ids}, k]" if double else f"{ids}]"
    conditions = [f"{place} = b", *([condition] if condition else [])]
    chance.shuffle(conditions)
    shape = f"i32[{'d, ' if outer else ''}n{', t' if double else ''}]"
    text = (
        f"fun f {{v}} (ids : {shape}) (x : {element}[n, d, t]) (y : f32[n]) (w : f32[v]) = "
        f"for b < v, j < d => {kind} for {axes} where {' andalso '.join(conditions)} => {body}"
    )
    spread = chance.choice((0.3, 1.0, 3.0))  # few places have most, or each has some
    index = (v * rng.random((*((d,) if outer else ()), n, *((t,) if double else ()))) ** spread).astype(np.int32)
    index += rng.integers(-1, 2, index.shape).astype(np.int32) * (rng.random(index.shape) < 0.1)
    raw = rng.normal(size=(n, d, t)) * (0.6 if kind == "prod" else 2.0)
    x = raw > 0 if element == "bool" else np.abs(raw * 3) if element == "u8" else raw
    value = x.astype(Element(element).dtype)
    inputs = [index, value, rng.random(n).astype(np.float32), rng.random(v).astype(np.float32)]
    same(text, inputs, v, TOLERANCE.get(element, 0.0))


def test_sizes_decide() -> None:
    """As it stands where there are few places, of segments where there are many: at either size what is predicted to be faster."""
    (one,) = choices_of(lowered(SUM)).scatters
    names = {symbol.name: symbol for axis in (*one.op.axes, *one.keyed) for symbol in axis.extent.variables}

    def chosen(n: int, v: int, d: int) -> bool:
        return one.is_worth({names["n"]: n, names["v"]: v, names["d"]: d})

    assert [chosen(8192, 50257, 768), chosen(100_000, 5, 4), chosen(10, 10, 10), chosen(2**31 - 1, 2, 1)] == [
        True,
        False,
        False,
        False,
    ]
    assert not chosen(0, 100, 100)
    assert not chosen(100, 0, 100)


def test_in_loops() -> None:
    """k-means: two scatters of each step by indices that the step makes, which share a sort."""
    text = (
        "fun f {steps} (x : f32[n, d]) (c0 : f32[k, d]) = loop (c = c0) for s < steps =>\n"
        "  let val near = for i => argmin j => sum e => (x[i, e] - c[j, e]) ** 2.0\n"
        "      val count = for j < k => sum for i where near[i] = j => 1.0\n"
        "  in for j e => (sum for i where near[i] = j => x[i, e]) / max count[j] 1.0 end"
    )
    made = made_of(lowered(text))
    (loop,) = (op for op in made.block.ops if isinstance(op, Loop))
    assert sum(isinstance(op, Sort) for op in loop.body.ops) == 1
    rng = np.random.default_rng(2)
    same(text, [rng.normal(size=shape).astype(np.float32) for shape in ((70, 2), (4, 2))], 3, 1e-5)
