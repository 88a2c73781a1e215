"""Tensors that are put together of others: which of these lie in them from the start, which do not, and what then runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from axon import compiler
from axon.backend import libraries
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.report.cost import cost_of
from axon.backend.gpu.report.show import explain
from axon.backend.gpu.runtime import binding, kept_graphs
from axon.backend.gpu.runtime.arrays import prepare
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.stepped_call import HostCall
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.gpu.runtime.ways import Planned, plan
from axon.backend.gpu.tile.assembled import assemblies
from axon.backend.gpu.tile.families import results_of
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.core.ir import Program
from axon.core.passes.parts import parts, straights
from axon.interpret import run
from axon.tools.view.graph import Card, graph, kernels
from tests.backend.gpu.runtime.emulated import EmulatedDriver, emulated
from tests.backend.gpu.runtime.fake import DeviceArray, FakeLibrary
from tests.backend.gpu.runtime.test_emulated import called, lying
from tests.checked import checked

SOURCE = """
import tensor
import nn
fun columns (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, p]) = tensor.concat (x @ a) (x @ b)
fun of_rows (x : bf16[m, k]) (a : bf16[n, k]) (b : bf16[p, k]) =
  tensor.concat (for i j => sum l => x[i, l] * a[j, l]) (for i j => sum l => x[i, l] * b[j, l])
fun rows (x : bf16[m, k]) (y : bf16[l, k]) (a : bf16[k, n]) = tensor.concat_first (x @ a) (y @ a)
fun three (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, p]) (c : bf16[k, q]) =
  tensor.concat (tensor.concat (x @ a) (x @ b)) (x @ c)
fun stacked (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, n]) (c : bf16[k, n]) = [| x @ a, x @ b, x @ c |]
fun stacked_last (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, n]) = tensor.stack_last (x @ a) (x @ b)
fun heads (x : bf16[b, t, k]) (q : bf16[k, h, c]) (u : bf16[k, h, c]) (v : bf16[k, h, c]) =
  let val first = for i j s r => sum l => x[i, j, l] * q[l, s, r]
      val second = for i j s r => sum l => x[i, j, l] * u[l, s, r]
      val third = for i j s r => sum l => x[i, j, l] * v[l, s, r]
  in for i, j, o < 3 * h * c =>
      (if o / c >= 2 * h then third[i, j, o / c - 2 * h, o % c] else 0.0) +
      (if o / c < h then first[i, j, o / c, o % c] else 0.0) +
      (if o / c >= h andalso o / c < 2 * h then second[i, j, o / c - h, o % c] else 0.0) end
fun padded (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, p]) =
  let val u = x @ a val v = x @ b in for i, j < n + p => u[i, j | 0.0] + v[i, j - n | 0.0] end
fun flat (x : bf16[i, j, k]) (y : bf16[l, k]) (a : bf16[k, n]) =
  let val u = for i j c => sum o => x[i, j, o] * a[o, c]
      val v = y @ a
  in for r < i * j + l, c => if r < i * j then u[r / j, r % j, c] else v[r - i * j, c] end
fun unflattened (x : bf16[i * 8, k]) (y : bf16[i * 8, k]) (a : bf16[k, n]) (b : bf16[k, p]) =
  let val u = x @ a val v = y @ b
  in for s < i, t < 8, c < n + p => if c < n then u[s * 8 + t, c] else v[s * 8 + t, c - n] end
fun read_twice (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, p]) (w : bf16[m, d]) =
  let val t = tensor.concat (x @ a) (x @ b)
  in (for i j => sum l => t[l, i] * w[l, j], for i => sum j => cast f32 t[i, j], for i => max j => t[j, i]) end
fun read_elsewhere (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, p]) (w : bf16[n, d]) =
  let val u = x @ a in (tensor.concat u (x @ b), u @ w, for i => sum j => cast f32 u[j, i]) end
fun read_beside (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, n]) =
  let val u = x @ a
      val t = tensor.concat u (x @ b)
  in (t, for i j => t[i, j + n] + u[i, j]) end
fun in_turn (x : bf16[m, k]) (a : bf16[k, n]) (c : bf16[k, q]) (b : bf16[q, p]) =
  let val h = for i j => max l => x[i, l] + c[l, j]
      val t = tensor.concat (x @ a) (h @ b)
  in (t, for i => sum j => cast f32 t[j, i]) end
fun in_f32 (x : f32[m, k]) (a : f32[k, n]) (b : f32[k, p]) = tensor.concat (x @ a) (x @ b)
fun sums (x : f32[m, n]) (y : f32[l, n]) = tensor.concat (for i => sum j => x[i, j]) (for i => max j => y[i, j])

fun is_result (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, p]) = let val v = x @ b in (v, tensor.concat (x @ a) v) end
fun of_an_input (x : bf16[m, k]) (a : bf16[k, n]) (g : bf16[m, p]) = tensor.concat (x @ a) g
fun of_a_map (x : bf16[m, k]) (a : bf16[k, n]) (w : bf16[k, d]) =
  let val u = x @ a
      val v = for i j => x[i, j] * 2.0 * x[i, j] - x[i, j] - x[i, j] - 1.0 - max l => x[i, l]  (* too dear to be made again *)
      val t = tensor.concat v u
  in (for i j => t[i, j] + max l => t[i, l], for i j => sum l => v[l, i] * x[l, j], for i j => sum l => t[l, i] * x[l, j]) end
fun of_two (x : bf16[m, k]) (a : bf16[k, n]) (g : bf16[m, p]) (h : bf16[m, p]) = tensor.concat (tensor.concat (x @ a) g) h
fun a_part_of_it (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, n]) =
  let val u = x @ a val v = x @ b in for i j => if j < 8 then u[i, j] else v[i, j] end
fun with_zeros (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, p]) =
  let val u = x @ a val v = x @ b
  in for i, j < n + p + 8 => (if j < n then u[i, j] else 0.0) + (if j >= n + 8 then v[i, j - n - 8] else 0.0) end
fun overlapping (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, p]) =
  let val u = x @ a val v = x @ b
  in for i, j < n + p => (if j < n then u[i, j] else 0.0) + (if j >= n - 8 then v[i, j - n | 1.0] else 0.0) end
fun repeated (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, n]) =
  let val u = x @ a val v = x @ b in for i, s < 4, j => if s < 3 then u[i, j] else v[i, j] end
fun turned (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, n]) =
  let val u = x @ a val v = x @ b in for j, i < 2 * m => if i < m then u[i, j] else v[i - m, j] end
"""


def f32(x: Any) -> Any:
    return np.asarray(x, np.float32)


def bf16(x: Any) -> Any:
    return np.asarray(x, ml_dtypes.bfloat16)


def join(*parts: Any) -> Any:
    return np.concatenate(parts, -1)


SMALL = [(64, 32), (32, 48), (32, 40)]
# Programs, the shapes of their arguments, and what they give, in f32; of those that are put together in place, and of others.
IN_PLACE: dict[str, tuple[str, list[tuple[int, ...]], Callable[..., Any]]] = {
    "columns": ("columns", SMALL, lambda x, a, b: join(x @ a, x @ b)),
    "columns without bulk copies": ("columns", [(64, 32), (32, 20), (32, 12)], lambda x, a, b: join(x @ a, x @ b)),
    "columns of no 16 bytes": ("of_rows", [(64, 32), (20, 32), (12, 32)], lambda x, a, b: join(x @ a.T, x @ b.T)),
    "rows": ("rows", [(64, 32), (40, 32), (32, 48)], lambda x, y, a: np.concatenate([x @ a, y @ a])),
    "rows at odd sizes": ("rows", [(63, 32), (37, 32), (32, 48)], lambda x, y, a: np.concatenate([x @ a, y @ a])),
    "three": ("three", [*SMALL, (32, 8)], lambda x, a, b, c: join(x @ a, x @ b, x @ c)),
    "stacked": ("stacked", [(64, 32), *[(32, 48)] * 3], lambda x, a, b, c: np.stack([x @ a, x @ b, x @ c])),
    "heads": (
        "heads",
        [(2, 24, 32), *[(32, 3, 16)] * 3],
        lambda x, q, u, v: join(*(np.tensordot(x, w, 1).reshape(2, 24, -1) for w in (q, u, v))),
    ),
    "padded": ("padded", SMALL, lambda x, a, b: join(x @ a, x @ b)),
    "flat": ("flat", [(3, 8, 32), (16, 32), (32, 48)], lambda x, y, a: np.concatenate([(x @ a).reshape(24, 48), y @ a])),
    "unflattened": (
        "unflattened",
        [(24, 32), (24, 32), (32, 48), (32, 40)],
        lambda x, y, a, b: join(x @ a, y @ b).reshape(3, 8, 88),
    ),
    "read twice": (
        "read_twice",
        [*SMALL, (64, 16)],
        lambda x, a, b, w: ((t := join(x @ a, x @ b)).T @ w, t.sum(1), t.max(0)),
    ),
    "read elsewhere": (
        "read_elsewhere",
        [*SMALL, (48, 16)],
        lambda x, a, b, w: (join(x @ a, x @ b), f32(bf16(x @ a)) @ w, (x @ a).sum(0)),
    ),
    "read beside a part": (
        "read_beside",
        [(64, 32), (32, 48), (32, 48)],
        lambda x, a, b: (join(x @ a, x @ b), x @ b + x @ a),
    ),
    "one after the other": (
        "in_turn",
        [(64, 32), (32, 48), (32, 88), (88, 40)],
        lambda x, a, c, b: (t := join(x @ a, (x[:, :, None] + c).max(1) @ b), f32(bf16(t)).sum(0)),
    ),
    "a part is a result": ("is_result", SMALL, lambda x, a, b: (x @ b, join(x @ a, x @ b))),
    "a part is an argument": ("of_an_input", [(64, 32), (32, 48), (64, 40)], lambda x, a, g: join(x @ a, g)),
    "a part of a plain kernel": (
        "of_a_map",
        [(64, 32), (32, 48), (32, 16)],
        lambda x, a, _: (
            (t := join(v := 2 * x * x - 2 * x - 1 - x.max(1, keepdims=True), x @ a)) + t.max(1, keepdims=True),
            v.T @ x,
            f32(bf16(t)).T @ x,
        ),
    ),
    "products in f32": ("in_f32", [(16, 24), (24, 12), (24, 8)], lambda x, a, b: join(x @ a, x @ b)),
    "sums": ("sums", [(33, 3000), (18, 3000)], lambda x, y: join(x.sum(1), y.max(1))),
}  # fmt: skip
APART: dict[str, tuple[str, list[tuple[int, ...]], Callable[..., Any]]] = {
    "a row without bulk copies": ("columns", [(64, 32), (32, 48), (32, 20)], lambda x, a, b: join(x @ a, x @ b)),
    "some without bulk copies": ("of_rows", [(64, 32), (48, 32), (20, 32)], lambda x, a, b: join(x @ a.T, x @ b.T)),
    "a start without bulk copies": ("three", [(64, 32), (32, 20), (32, 48), (32, 4)], lambda x, a, b, c: join(x @ a, x @ b, x @ c)),
    "neighbours apart": ("stacked_last", [(64, 32), (32, 48), (32, 48)], lambda x, a, b: np.stack([x @ a, x @ b], -1)),
    "most is an argument": ("of_an_input", [(64, 32), (32, 48), (64, 56)], lambda x, a, g: join(x @ a, g)),
    "two arguments": ("of_two", [(64, 32), (32, 48), (64, 8), (64, 8)], lambda x, a, g, h: join(x @ a, g, h)),
    "not all of a part": ("a_part_of_it", [(64, 32), (32, 48), (32, 48)], lambda x, a, b: join((x @ a)[:, :8], (x @ b)[:, 8:])),
    "zeros between": ("with_zeros", SMALL, lambda x, a, b: join(x @ a, np.zeros((64, 8)), x @ b)),
    "a sum": ("overlapping", SMALL, lambda x, a, b: join((x @ a)[:, :40], (x @ a)[:, 40:] + 1, x @ b)),
    "a part at several places": (
        "repeated",
        [(64, 32), (32, 48), (32, 48)],
        lambda x, a, b: np.stack([x @ a, x @ a, x @ a, x @ b], 1),
    ),
    "across": ("turned", [(64, 32), (32, 48), (32, 48)], lambda x, a, b: np.concatenate([x @ a, x @ b]).T),
}  # fmt: skip


CASES = {**IN_PLACE, **APART}
# Kernels of each kind, for the tensor cores and plain, of those in place: none is left that puts parts together.
KERNELS = {
    "columns": (2, 0), "columns without bulk copies": (0, 2), "columns of no 16 bytes": (2, 0), "rows": (2, 0),
    "rows at odd sizes": (2, 0), "three": (3, 0), "stacked": (3, 0), "heads": (3, 0), "padded": (2, 0), "flat": (2, 0),
    "unflattened": (2, 0), "read twice": (3, 3), "read elsewhere": (3, 2), "read beside a part": (2, 1),
    "one after the other": (2, 3), "products in f32": (0, 2), "sums": (0, 2),
    "a part is a result": (2, 1), "a part is an argument": (1, 1),
    "a part of a plain kernel": (3, 2),
}  # fmt: skip


def planned(name: str, shapes: list[tuple[int, ...]]) -> Planned:
    program = compiler.lower(checked(SOURCE), name, None)
    return Executable(program).serving({}, program.contract.bind((), shapes)).planned


def given(program: Program, shapes: list[tuple[int, ...]]) -> list[Any]:
    """Small integers, so that sums are exact."""
    chance = np.random.default_rng(0)
    return [chance.integers(-2, 3, s).astype(v.element.dtype) for s, v in zip(shapes, program.inputs, strict=True)]


def wanted(answer: Callable[..., Any], arrays: list[Any]) -> list[Any]:
    made = answer(*map(f32, arrays))
    return list(made) if isinstance(made, tuple) else [made]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> EmulatedDriver:
    monkeypatch.setattr(binding, "IN_RESULTS", 1)  # what dies before a result is made lies in it
    monkeypatch.setitem(libraries._by_type, DeviceArray, FakeLibrary())
    kept_graphs._graphs.clear()
    return emulated(monkeypatch)


@pytest.mark.parametrize("case", CASES)
def test_results(case: str, gpu: EmulatedDriver) -> None:
    """As simulated; by a call with NumPy's arrays; with a library's, whose results are room; and with such as lie anyhow."""
    name, shapes, answer = CASES[case]
    program = compiler.lower(checked(SOURCE), name, None)
    arrays, sizes = given(program, shapes), program.contract.bind((), shapes)
    made = [compiler.simulate(program, arrays, ()), HostCall(Stepped(program), arrays, sizes, None)(arrays, None)]
    there = [DeviceArray(lying(x, range(x.ndim), [0] * x.ndim, 0)) for x in arrays]
    call = prepare(Stepped(program), [(f"x{n}", x) for n, x in enumerate(there)], arrays, sizes, None)
    made += [[x.array for x in call(there, None)], *called(program, arrays, sizes, Random(case), times=1)]
    for got in made:
        for one, want in zip(got, wanted(answer, arrays), strict=True):
            np.testing.assert_array_equal(f32(one), f32(np.asarray(want).astype(one.dtype)))


@pytest.mark.parametrize("case", IN_PLACE)
def test_in_place(case: str) -> None:
    name, shapes, _ = IN_PLACE[case]
    found = planned(name, shapes)
    assert len(found.assembled) == 1
    plain = sum(isinstance(kernel, Nest) for kernel in found.kernels)
    assert (len(found.kernels) - plain, plain) == KERNELS[case]
    (whole,) = (assembly.whole.symbol for assembly in found.assembled)
    assert not any(whole in {v.symbol for v in results_of(kernel)} for kernel in found.kernels)


@pytest.mark.parametrize("case", APART)
def test_apart(case: str) -> None:
    """By a kernel of its own, or by one that reads it."""
    name, shapes, _ = APART[case]
    found = planned(name, shapes)
    assert not found.assembled
    assert not found.way.placed


def test_said(gpu: EmulatedDriver) -> None:
    name, shapes, _ = IN_PLACE["read elsewhere"]
    program = compiler.lower(checked(SOURCE), name, None)
    said = explain(program, program.contract.bind((), shapes)).splitlines()
    stored = [line for line in said if "in its place" in line]
    assert stored == [f"  stores {part} in its place in t, which no kernel puts together" for part in ("product", "product2")]


def test_by_the_sizes_of_a_call() -> None:
    """Sizes at which it fits share a way; at others there is another one."""
    program = compiler.lower(checked(SOURCE), "of_rows", None)
    executable = Executable(program)
    found = [
        executable.serving({}, program.contract.bind((), [(64, 32), (n, 32), (p, 32)])) for n, p in [(48, 40), (48, 20), (80, 8)]
    ]
    assert found[0] is found[2]
    assert [len(builder.planned.assembled) for builder in found] == [1, 0, 1]


def test_as_a_result_lies() -> None:
    """The caller's room has rows of its own."""
    program = compiler.lower(checked(SOURCE), "columns", None)
    executable, sizes = Executable(program), program.contract.bind((), SMALL)
    (result,) = program.block.results
    for row, whether in [(88, 1), (96, 1), (92, 0), (89, 0)]:
        room = {result: DeviceTensor(256, (64, 88), (row, 1), Element.BF16)}
        found = executable.serving(room, sizes).planned
        assert len(found.assembled) == whether
        if whether:
            lie = [found.lying(sizes, room)[symbol] for symbol in found.within]
            assert [(part.pointer, part.strides) for part in lie] == [(256, (row, 1)), (256 + 96, (row, 1))]


def test_kernels_of_a_schedule_keep_their_numbers() -> None:
    program = compiler.lower(checked(SOURCE), "columns", None)
    sizes = program.contract.bind((), SMALL)
    mapping = TileMapping(64, 64, 64)
    assert not Executable(program, mapping=mapping).serving({}, sizes).planned.assembled
    assert Executable(program).serving({}, sizes).planned.assembled


def test_the_gradient_of_heads(gpu: EmulatedDriver) -> None:
    """What attention's backward pass gives by queries, keys and values, which one product made."""
    text = """import nn
      fun f {h} (w : bf16[b, t, 3 * d]) (dy : bf16[b, t, d]) = vjp (fn w =>
        let val heads = for part < 3, b, head < h, i c => w[b, i, (part, head, c)]
        in nn.merge_heads (nn.causal_attention heads[0, ..] heads[1, ..] heads[2, ..]) end) w dy"""
    program = compiler.lower(checked(text), "f", None)
    (part,) = straights(parts(program).body)
    executable = Executable(part.program)
    for b, t in (8, 1024), (1, 128):
        sizes = program.contract.bind((2,), [(b, t, 384), (b, t, 128)])
        found = executable.serving({}, sizes).planned
        (whole,) = found.assembled
        assert [p.value.shape[2].evaluate(sizes) for p in whole.parts] == [2, 2, 2]
        assert all(isinstance(k, Stream) for k in found.kernels if {v.symbol for v in results_of(k)} & found.within.keys())
    chance = np.random.default_rng(0)
    arrays = [bf16(chance.standard_normal(shape)) for shape in ((1, 128, 384), (1, 128, 128))]
    want, call = run(program, arrays, (2,)), HostCall(Stepped(program), arrays, sizes, None)
    for got in compiler.simulate(program, arrays, (2,)), call(arrays, None):
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(f32(one), f32(other), atol=3e-2 * abs(f32(other)).max())


def test_what_it_costs() -> None:
    """No copy, and memory for the whole alone, from the first kernel on."""
    for case in "columns", "a part is an argument":
        name, shapes, _ = IN_PLACE[case]
        program = compiler.lower(checked(SOURCE), name, None)
        sizes = program.contract.bind((), shapes)
        cost = cost_of(program, sizes)
        plain = ["map"] if case != "columns" else ["contraction"]
        assert [kernel.title for kernel in cost.kernels] == ["contraction", *plain]
        given = sum(2 * a * b for a, b in shapes)
        assert [kernel.held.evaluate(sizes) for kernel in cost.kernels] == [given + 2 * 64 * 88] * 2


def test_drawn() -> None:
    """With the last kernel that stores a part stands what it is a part of."""
    name, shapes, _ = IN_PLACE["read twice"]
    program = compiler.lower(checked(SOURCE), name, None)
    drawn = graph(program, "cuda", program.contract.bind((), shapes))
    boxes = {card.title: box for box in kernels(drawn.items) for card in box.items if isinstance(card, Card)}
    assert boxes["t"] is boxes["product2"]
    assert boxes["t"] is not boxes["product"]
    assert "t is where its parts are stored: no kernel puts it together" in boxes["t"].reasons


def test_what_a_kernel_makes_it_does_not_assemble() -> None:
    """Others of its steps may read the whole, of which it would store a part meanwhile."""
    program = compiler.lower(checked(SOURCE), "sums", None)
    first, second, last = plan(program, HOPPER).kernels
    assert isinstance(last, Nest)
    assert isinstance(second, Nest)
    assert len([*assemblies((first, second, last), frozenset(), program.inputs)]) == 1
    both = replace(last, steps=(*second.steps, *last.steps), stored=(*second.stored, *last.stored))
    assert not [*assemblies((first, both), frozenset(), program.inputs)]
