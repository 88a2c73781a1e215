"""Products of which a factor is computed on the way to the tensor cores: as the definition says, whatever the sizes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from inspect import signature
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.build import cubin as build
from axon.backend.gpu.build.recipe import Stages, stages, traits
from axon.backend.gpu.intrinsics.ptx_computed import WHOLE, lies
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.findings import Proof
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles import ir as roles
from axon.backend.gpu.roles import render as render_barriers
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.runtime import merging, packed, simulated
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.prepare import prepare
from axon.backend.gpu.tile import ir as tile
from axon.backend.gpu.tile.contraction import MatrixProduct, Merging
from axon.backend.gpu.tile.schedule import TileMapping, candidates, ranked
from axon.core.passes.parts import parts, straights
from axon.interpret import run as interpret
from tests.backend.gpu.emit import device
from tests.backend.gpu.proof.mutants import body_of, drop, moves, mutate, refused, sites, twice, with_field
from tests.backend.gpu.test_stages import GOLDENS
from tests.checked import checked
from tests.sample import SOAK

SOURCE = """
import quant
fun relu x = max x 0.0
fun packed {b} (x : bf16[m, k]) (w : u8[o, (k + 1) / 2]) (s : bf16[o, (k + b - 1) / b]) (z : u8[o, (k + b - 1) / b])
    where b >= 1 = quant.linear_packed {b} x w s z
fun known (x : bf16[m, k]) (w : u8[o, (k + 1) / 2]) (s : bf16[o, (k + 127) / 128]) (z : u8[o, (k + 127) / 128]) =
  for i j => relu (quant.linear_packed {128} x w s z)[i, j]
fun signed {b} (x : f16[m, k]) (w : u8[o, (k + 1) / 2]) (s : f16[o, (k + b - 1) / b]) where b >= 1 =
  let val n = quant.dequantize_blocks {b} (quant.unpack_signed {k} w) s in for i j => sum l => x[i, l] * n[j, l] end
fun bytes {b} (x : bf16[m, k]) (w : i8[o, k]) (s : bf16[o, (k + b - 1) / b]) where b >= 1 = quant.linear_blocks {b} x w s
fun by_rows (x : bf16[m, k]) (w : i8[o, k]) (s : bf16[o]) = for i j => tanh (quant.linear x w s)[i, j] + s[j]
fun in_f32 (x : bf16[m, k]) (w : i8[o, k]) (y : f32[m, o]) =
  for i j => y[i, j] + sum l => cast f32 x[i, l] * cast f32 w[j, l]
fun turned (x : bf16[m, k]) (w : i8[o, k]) = for j i => sum l => x[i, l] * cast bf16 w[j, l]
fun across (x : bf16[m, k]) (w : i8[k, o]) = for i j => sum l => x[i, l] * cast bf16 w[l, j]
fun changed (x : bf16[m, k]) (w : bf16[o, k]) (v : bf16[o, k]) =
  for i j => sum l => (if l > j then tanh w[j, l] else -v[j, l]) * x[i, l]
fun batched (x : bf16[c, m, k]) (w : i8[c, o, k]) (s : bf16[c, o]) =
  for e i j => sum l => x[e, i, l] * ((cast bf16 w[e, j, l] - 1.0) * s[e, j])
fun positions (x : bf16[c, m, k]) (w : u8[o, k]) (s : bf16[o]) =
  for e i j => sum l => x[e, i, l] * ((cast bf16 w[j, l] - 128.0) * s[j])
"""
MODULE = axon.compile(SOURCE)
NAMES = ("packed", "known", "signed", "bytes", "by_rows", "in_f32", "turned", "across", "changed", "batched", "positions")


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it costs to compute the factor before."""
    monkeypatch.setattr(merging.Pricer, "before", lambda *_: 1.0)
    monkeypatch.setattr(packed, "without_tensor_cores", lambda *_: inf)


def given(name: str, rng: Any, m: int, k: int, o: int, block: int) -> list[Any]:
    element = np.float16 if name == "signed" else ml_dtypes.bfloat16
    c = 3
    block = 128 if name == "known" else block
    groups = -(-k // block)

    def real(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(element)

    def whole(low: int, high: int, kind: Any, *shape: int) -> Any:
        return rng.integers(low, high, shape).astype(kind)

    x = real(c, m, k) if name in ("batched", "positions") else real(m, k)
    codes = whole(-128, 128, np.int8, *((c, o, k) if name == "batched" else (o, k)))
    match name:
        case "packed" | "known":
            return [x, whole(0, 256, np.uint8, o, -(-k // 2)), real(o, groups), whole(0, 16, np.uint8, o, groups)]
        case "signed":
            return [x, whole(0, 256, np.uint8, o, -(-k // 2)), real(o, groups)]
        case "bytes":
            return [x, codes, real(o, groups)]
        case "by_rows":
            return [x, codes, real(o) / 64]
        case "in_f32":
            return [x, codes, rng.standard_normal((m, o)).astype(np.float32)]
        case "turned":
            return [x, codes]
        case "across":
            return [x, codes.T]
        case "changed":
            return [x, real(o, k), real(o, k)]
        case "batched":
            return [x, codes, real(c, o)]
        case _:
            return [x, whole(0, 256, np.uint8, o, k), real(o)]


def wanted(name: str, x: Any, w: Any, *rest: Any, block: int) -> Any:
    """In float64, as written."""
    x, *rest = (np.asarray(v, np.float64) for v in (x, *rest))
    k = x.shape[-1]
    at = np.arange(k)
    block = 128 if name == "known" else block
    if name in ("packed", "known", "signed"):
        w = (w[:, at // 2] >> (4 * (at % 2)).astype(np.uint8)) & 15
    w = np.asarray(w, np.float64)
    match name:
        case "known":
            return np.maximum(0, x @ ((w - rest[1][:, at // block]) * rest[0][:, at // block]).T)
        case "packed":
            return x @ ((w - rest[1][:, at // block]) * rest[0][:, at // block]).T
        case "signed":
            return x @ ((w - 16 * (w > 7)) * rest[0][:, at // block]).T
        case "bytes":
            return x @ (w * rest[0][:, at // block]).T
        case "by_rows":
            return np.tanh(x @ w.T * rest[0]) + rest[0]
        case "in_f32":
            return rest[0] + x @ w.T
        case "turned":
            return w @ x.T
        case "across":
            return x @ w
        case "changed":
            return x @ np.where(at[None, :] > np.arange(len(w))[:, None], np.tanh(w), -rest[0]).T
        case "batched":
            return np.einsum("eil,ejl->eij", x, (w - 1) * rest[0][:, :, None])
        case _:
            return np.einsum("eil,jl->eij", x, (w - 128) * rest[0][:, None])


def products(name: str, explicit: tuple[int, ...], shapes: list[tuple[int, ...]]) -> tuple[Any, list[MatrixProduct], Any]:
    """The plan, its products, and sizes."""
    program = compiler.lower(checked(SOURCE), name, None)
    sizes = program.contract.bind(explicit, shapes)
    *_, part = straights(parts(program).body)
    planned = Executable(part.program).serving({}, sizes).planned
    return planned, [kernel for kernel in planned.kernels if isinstance(kernel, MatrixProduct)], sizes


@pytest.mark.parametrize("seed", range(550 if SOAK else 33))
def test_random_sizes_and_groups(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "verify", lambda _: None)  # of many alike, which others prove
    chance = Random(seed)
    name = NAMES[seed % len(NAMES)]
    m, o = chance.choice([1, 2, 7, 16, 17, 40]), chance.choice([1, 8, 64, 65, 130, 200])
    k = chance.choice([0, 8, 32, 96, 128, 160, 256, 320])  # packed rows of 16 bytes, or copied; pieces that are whole, and not
    block = chance.choice([2, 6, 16, 32, 128, 256, 1000])
    arguments = given(name, np.random.default_rng(seed), m, k, o, block)
    want = wanted(name, *arguments, block=block)
    explicit = (block,) if name in ("packed", "signed", "bytes") else ()
    function = getattr(MODULE, name)[block] if explicit else getattr(MODULE, name)
    got = np.asarray(function(*arguments, target="simulate"), np.float64)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=2e-2 * max(1e-6, abs(want).max(initial=0.0)))
    _, found, _ = products(name, explicit, [a.shape for a in arguments])
    assert k == 0 or [kernel.computed is not None for kernel in found] == [True]


@pytest.mark.parametrize("name", ["known", "by_rows", "turned", "positions"])
def test_sums_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tiles are few, parts of the depth are tiles of their own, added up after."""
    monkeypatch.setattr(merging.Pricer, "computing", lambda *_: Merging(columns=name == "positions", beside=0, parts=4))
    arguments = given(name, np.random.default_rng(0), 5, 2048, 65, 128)
    want = wanted(name, *arguments, block=128)
    got = np.asarray(getattr(MODULE, name)(*arguments, target="simulate"), np.float64)
    np.testing.assert_allclose(got, want, atol=2e-2 * abs(want).max())
    _, (kernel,), sizes = products(name, (), [a.shape for a in arguments])
    assert kernel.computed is not None
    assert kernel.depth.extent.evaluate(sizes) == 512
    assert sorted(axis.extent.evaluate(sizes) for axis in kernel.outer) == [4]


def test_few_rows_of_few_columns_are_cut_into_parts() -> None:
    """As decided by cost, of 4096 × 4096 codes of 4 bits; and none of 28672 × 4096."""
    for o, depth in [(4096, 2048), (28672, 4096)]:
        shapes = [(16, 4096), (o, 2048), (o, 32), (o, 32)]
        _, (kernel,), sizes = products("known", (), shapes)
        assert kernel.computed is not None
        assert kernel.depth.extent.evaluate(sizes) == depth


def made(name: str, m: int, k: int, o: int, block: int = 128, mapping: TileMapping | None = None) -> Stages:
    arguments = given(name, np.random.default_rng(0), m, k, o, block)
    explicit = (block,) if name in ("packed", "signed", "bytes") else ()
    planned, (kernel,), sizes = products(name, explicit, [a.shape for a in arguments])
    ready = prepare(kernel, planned.lying(sizes), sizes)
    mapping = mapping or ranked(ready.problem, traits(ready.kernel), HOPPER)[0]
    return stages(ready.kernel, mapping, HOPPER, planned.values, ready.granted)


SMALL = TileMapping(128, 16, 256, 3, 0, 2, 1)


@pytest.mark.parametrize("name", NAMES)
def test_every_candidate_is_proved(name: str) -> None:
    arguments = given(name, np.random.default_rng(0), 16, 512, 256, 128)
    explicit = (128,) if name in ("packed", "signed", "bytes") else ()
    _, (kernel,), _ = products(name, explicit, [a.shape for a in arguments])
    found = candidates(HOPPER, traits(kernel))
    assert {mapping.consumers for mapping in found} == {1, 2, 3}
    for mapping in found[:: 1 if SOAK else 5]:
        assert isinstance(verify(made(name, 16, 512, 256, mapping=mapping).barriers), Proof)


def test_what_breaks_how_a_factor_is_computed_is_refused() -> None:
    program = made("packed", 16, 512, 256, mapping=SMALL).barriers
    assert isinstance(verify(program), Proof)

    def broken(kind: type, change: Any) -> list[BarrierProgram]:
        return [mutate(program, number, change) for number, _ in sites(program, kind)]

    def none(programs: Iterable[BarrierProgram], kinds: set[str]) -> None:
        count = 0
        for count, mutant in enumerate(programs, 1):
            refused(mutant, kinds, f"mutant {count} of {kinds}")
        assert count

    def of(**changes: Any) -> Any:
        return lambda op: (replace(op, **changes),)

    none(broken(b.Evaluate, drop), {"content"})  # registers hold the factor of no step, or of the step before
    none(moves(program, b.Evaluate, b.Await), {"read", "content"})
    none(moves(program, b.Release, b.Evaluate), {"overwrite", "content", "read"})
    none(moves(program, b.Release, b.Retire), {"overwrite"})
    none(moves(program, b.Product, b.Evaluate), {"content", "fence"})
    none(moves(program, b.ProductFence, b.Evaluate), {"fence"})
    none(moves(program, b.Advance, b.Evaluate), {"content", "read", "phase"})
    none(broken(b.Evaluate, lambda op: (replace(op, staged=(replace(op.staged[0], field=1),)),)), {"content"})
    none(broken(b.Evaluate, lambda op: (replace(op, staged=(replace(op.staged[0], field=7),)),)), {"layout"})
    none(broken(b.Retire, with_field("pending", lambda n: n + 1)), {"overwrite", "read", "registers", "exit"})
    none(broken(b.Retire, drop), {"overwrite", "read", "registers", "exit", "content"})
    none(broken(b.Steps, body_of), {"deadlock", "content", "exit"})
    none(broken(b.Copy, twice), {"layout", "bytes", "overwrite"})
    copies = [op for _, op in sites(program, b.Copy)]
    staged = next(n for n, op in sites(program, b.Copy) if op == copies[0])
    assert isinstance(copies[0], b.Copy)
    place = copies[0].at
    along = next(n for n, c in enumerate(place) if c.axis == program.steps.symbol)
    assert place[along].step == 128  # bytes of 256 codes
    for step in (256, 64, 0):
        at = tuple(replace(c, step=step) if n == along else c for n, c in enumerate(place))
        none([mutate(program, staged, of(at=at))], {"content"})
    assert len(copies) == 5


@pytest.mark.parametrize("name", ["packed", "bytes", "changed"])
def test_threads_find_what_copies_bring(name: str) -> None:
    """The emitted address of a thread, with what `evaluate` adds, is where a swizzled copy puts the element at its place."""
    forms = made(name, 16, 512, 256, mapping=replace(SMALL, depth=256 if name == "packed" else 128))
    program = forms.barriers
    (op,) = (op for role in program.roles for op in b.operations(role.body) if isinstance(op, b.Evaluate))
    addresses = re.findall(r"\w+_at = (.*)\n", forms.source.text)
    for formula, one, part in zip(addresses, op.computed.staged, op.staged, strict=True):
        field, size = part.ring.fields[part.field], part.tile.element.bits // 8
        for thread in range(128):
            first_row = 64 + thread // 32 * 16 + thread % 32 // 4  # of the second consumer, in the first stage
            known = {"lane": thread, "ring_stage": 0, "ring_bytes": 0, "row": first_row}
            first = eval(re.sub(r"\w+_data", "0", formula), known)
            for column in range(0, program.steps.step, 8):
                for h in range(2):
                    panel, inside = lies(column, one.per, size)
                    at = (first ^ inside) + panel * field.panel + h * 1024
                    row, depth = first_row + 8 * h, column + thread % 4 * 2
                    to, byte = divmod(depth // one.per * size, 128)
                    assert at == to * field.panel + row * 128 + (byte // 16 ^ row % 8) * 16 + byte % 16


def words(element: Any) -> SimpleNamespace:
    """What `ptx_computed` makes of words of two neighbours, in NumPy."""

    def pair(*values: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.array(values, np.float32).astype(element)

    def halves(word: Any) -> Any:
        return np.array([word], np.int64).astype(np.uint32).view(element) if isinstance(word, int) else word

    def both(op: Any) -> Any:
        return lambda x, y: pair(*op(halves(x).astype(np.float32), halves(y).astype(np.float32)))

    def whole(x: int, y: int) -> Any:
        assert min(x, y) >= 0
        assert max(x, y) < 1 << WHOLE[name][1]
        return halves((x | y << 16) | WHOLE[name][0] * 0x10001)

    def fields(x: int, beside: int, shift: int, mask: int) -> Any:
        return halves(((x * beside) % 2**32 >> shift) & mask | WHOLE[name][0] * 0x10001)

    name = "f16" if element is np.float16 else "bf16"
    operations = {"add": both(np.add), "sub": both(np.subtract), "mul": both(np.multiply)}
    made = {**operations, "pair": pair, "whole": whole, "fields": fields}
    return SimpleNamespace(**{f"{op}_{name}": of for op, of in made.items()}, negative=lambda x: -halves(x))


@pytest.mark.parametrize("name", ["packed", "signed", "bytes", "changed"])
def test_threads_compute_what_core_says(name: str) -> None:
    """The emitted functions of a pair of neighbours, and of what is loaded for it, run as Python."""
    m, k, o, block = 1, 64, 3, 6
    arguments = given(name, np.random.default_rng(0), m, k, o, block)
    element = np.float16 if name == "signed" else ml_dtypes.bfloat16
    text = made(name, m, k, o, block).source.text
    functions = re.findall(r"(?m)^def (?:pair|load)_\w+\(.*\):\n(?:    .*\n)+", text)
    held = device.names({str(n): a for n, a in enumerate(arguments)}) | {"ptx_computed": words(element)}
    for body in functions:
        exec(body, held)
    want = wanted(name, np.eye(k), *arguments[1:], block=block).T
    loads = [held[name] for name in held if name.startswith("load_")]
    pair = next(held[name] for name in held if name.startswith("pair_"))
    known = {"size": block, "stride": arguments[-1].shape[-1], "stride2": 1}
    known |= {"z": 4 * device.SPACE, "s": 3 * device.SPACE}
    staged = arguments[1:3] if name == "changed" else arguments[1:2]
    per = k // staged[0].shape[1]
    for row in range(o):
        for half in range(k // 2):
            here = {"row": row, "half": half, **known}
            elements = [e.item() for each in staged for e in each[row, 2 * half // per : 2 * half // per + (2 if per == 1 else 1)]]
            more = [load(*(here[name] for name in signature(load).parameters)) for load in loads]
            got = np.asarray(pair(row, half, *elements, *more), np.float64)
            np.testing.assert_allclose(got, want[row, 2 * half : 2 * half + 2], rtol=2**-7, atol=2**-7)


def test_kernels_are_built() -> None:
    """Machine code without a GPU: no spills, and products that stay asynchronous."""
    mappings = {
        "packed": SMALL,
        "signed": None,
        "changed": None,
        "bytes": replace(SMALL, rows=64, columns=64, depth=128, consumers=1),
        "by_rows": None,
    }
    forms = [made(name, 16, 512, 256, mapping=mapping) for name, mapping in mappings.items()]
    for built in build.build_all(forms, HOPPER):
        assert isinstance(built, build.LinkedKernel)
        assert not built.spilled


def test_every_stage_reads_as_before() -> None:
    """Set AXON_UPDATE=1 to write what is printed now."""
    forms = made("packed", 16, 512, 256, mapping=SMALL)
    texts = {
        "tile": tile.render(forms.tile),
        "roles": roles.render(forms.roles),
        "barriers": render_barriers.render(forms.barriers),
        "kernel": forms.source.text,
    }
    for stage, text in texts.items():
        file = GOLDENS / f"computed.{stage}"
        if os.environ.get("AXON_UPDATE"):
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")


def test_what_a_condition_keeps_inside_is_not_copied_before_it_is_known() -> None:
    """A bulk copy of a view that goes on beyond its tensor would read what is no memory of anyone. Inside, it is computed."""
    text = """import tensor
      fun beside (x : bf16[m, k]) (h : bf16[m, l]) (w : bf16[k + l, d]) = tensor.concat x h @ w
      fun chosen (x : bf16[m, k]) (h : bf16[m, k]) (w : bf16[k, d]) = (for i j => if j < 8 then x[i, j] else h[i, j]) @ w"""
    for name, shapes, whether in [
        ("beside", [(256, 128), (256, 128), (256, 256)], False),
        ("chosen", [(256, 128), (256, 128), (128, 256)], True),
    ]:
        program = compiler.lower(checked(text), name, None)
        planned = Executable(program).serving({}, program.contract.bind((), shapes)).planned
        (product,) = (kernel for kernel in planned.kernels if isinstance(kernel, MatrixProduct))
        assert (product.computed is not None) == whether
        arrays = [np.random.default_rng(0).integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in shapes]
        (got,), (want,) = compiler.simulate(program, arrays, ()), interpret(program, arrays, ())
        np.testing.assert_array_equal(got, want)
