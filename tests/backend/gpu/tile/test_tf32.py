"""Products of f32 that a schedule lets round to tf32: which they are, how far off, and that nothing else is rounded."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.chips import named
from axon.backend.gpu.build import cubin
from axon.backend.gpu.build.recipe import stages, traits
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.products import Precision
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.findings import Proof
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.proof.simulate import to_tf32
from axon.backend.gpu.report.show import explain
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.runtime import merging, packed
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.simulated import run
from axon.backend.gpu.runtime.ways import Way, plan
from axon.backend.gpu.tile import limbs
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import kernels
from axon.backend.gpu.tile.limbs import rounded
from axon.backend.gpu.tile.limbs import tf32_error_bound as error_bound
from axon.backend.gpu.tile.schedule import TileMapping, candidates
from axon.backend.gpu.tile.schedule_file import Schedule, parse
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.core.ir import Program
from tests.backend.gpu.programs import STORES, contraction
from tests.backend.gpu.proof.mutants import mutate, refused, sites
from tests.backend.gpu.runtime.emulated import emulated
from tests.sample import SOAK, drawn

NT = "fun f (a : f32[m, k]) (b : f32[n, k]) = for i j => sum c => a[i, c] * b[j, c]"
NN = "fun f (a : f32[m, k]) (b : f32[k, n]) = a @ b"
BIAS = "fun f (a : f32[m, k]) (b : f32[n, k]) (x : f32[n]) = for i j => max ((sum c => a[i, c] * b[j, c]) + x[j]) 0.0"
MIXED = "fun f (a : bf16[m, k]) (b : f32[n, k]) = for i j => sum c => cast f32 a[i, c] * b[j, c]"
SMALL = TileMapping(128, 128, 32, stages=3, cluster=2, slots=2)


def program(source: str) -> Program:
    return compiler.lower(compiler.check_text(source), "f", None)


def allowing(text: str = 'precision = "tf32"') -> Schedule:
    return parse(SourceFile("model.schedule", f"[f]\n{text}"), "model.axon", ["f"])["f"]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tensor cores are worth it, however little there is to do."""
    for where in (merging, packed, limbs):
        monkeypatch.setattr(where, "without_tensor_cores", lambda *_: inf)
    monkeypatch.setattr(merging, "for_each_row", lambda *_: inf)


def normal(*extents: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(extents).astype(np.float32)


def assert_rounded(axes: str, got: Any, a: Any, b: Any, depth: int) -> None:
    """Within the stated error of the product in float64, and off from it by as much as tf32 is."""
    exact, close, mass = (
        np.einsum(axes, *(x.astype(np.float64) for x in pair), optimize=True)
        for pair in ((a, b), (to_tf32(a), to_tf32(b)), (abs(a), abs(b)))
    )
    assert (abs(got - exact) <= error_bound(depth) * 2.0**-10 * mass).all()
    assert (abs(got - close) <= depth * 2.0**-24 * mass + 1e-12).all()
    assert abs(got - exact).max() > 4 * abs(got - close).max()


# ── which products ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_what_is_allowed_is_rounded() -> None:
    core = program(NT)
    assert not any(map(rounded, plan(core, HOPPER).kernels))
    (kernel,) = plan(core, HOPPER, Way(precision=Precision.TF32)).kernels
    assert rounded(kernel)
    assert allowing('precision = "f32"').place is None
    assert not any(map(rounded, plan(program(MIXED), HOPPER, Way(precision=Precision.TF32)).kernels))
    halves = program(NT.replace("f32", "bf16"))
    assert plan(halves, HOPPER, Way(precision=Precision.TF32)).kernels[0].operands[0].value.element is Element.BF16


@pytest.mark.parametrize(("source", "copies"), [(NT, 0), (NN, 1), ("fun f (a : f32[n, n]) = a @ a", 1)])
def test_a_factor_across_what_is_summed_is_copied_first(source: str, copies: int) -> None:
    core = program(source)
    sizes = core.contract.bind((), [(2048, 2048)] * len(core.inputs))
    made = Executable(core, schedule=allowing()).serving({}, sizes).planned.kernels
    assert [type(kernel) for kernel in made] == [Nest] * copies + [MatrixProduct]
    assert rounded(made[-1])


def test_what_is_not_worth_a_copy_stays_plain_in_f32() -> None:
    core = program(NN)
    few = core.contract.bind((), [(4, 4096), (4096, 4096)])
    assert Executable(core, schedule=allowing()).serving({}, few).planned.way.plain
    arrays = [normal(4, 40), normal(40, 24, seed=1)]
    (got,) = run(core, arrays, schedule=allowing())
    np.testing.assert_allclose(got, arrays[0].astype(np.float64) @ arrays[1], atol=1e-5)


def test_explain_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)  # nothing is compiled
    core = program(NT)
    sizes = core.contract.bind((), [(128, 4096), (256, 4096)])
    told = explain(core, sizes, allowing())
    assert "factors are rounded to tf32, 11 significant bits, as the schedule allows" in told
    assert "an element is off by 1.25 · 2⁻¹⁰ · (|A| · |B|) at most" in told
    assert "tf32" not in explain(core, sizes)


def test_a_precision_that_cannot_be_is_refused() -> None:
    with pytest.raises(AxonError, match="sm_80 cannot round products to tf32"):
        run(program(NT), [normal(8, 8), normal(8, 8)], schedule=allowing(), target=named("sm_80"))
    with pytest.raises(AxonError, match="`f` has no product that could be rounded to tf32"):
        run(program("fun f (a : f32[m]) = for i => a[i] + 1.0"), [normal(8)], schedule=allowing())
    for text, words in (
        ('precision = "tf23"', '`precision` is "f32" or "tf32" or "fast", not "tf23"'),
        ("precision = 32", '`precision` is "f32" or "tf32" or "fast", not 32'),
        ('1.precision = "tf32"', "`precision` is of all products of a function"),
    ):
        with pytest.raises(AxonError, match=words):
            allowing(text)


def test_a_mapping_beside_it_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    core = program(NT)
    sizes = core.contract.bind((), [(256, 256), (256, 256)])
    executable = Executable(core, schedule=allowing('precision = "tf32"\nrows = 64\ndepth = 96'))
    (ready,) = executable.built({}, sizes)[1].values()
    assert rounded(ready.kernel)
    assert (ready.mapping.rows, ready.mapping.depth) == (64, 96)


def test_every_kernel_of_a_program_in_parts_may_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "fun f (a : f32[n, n]) (steps : i32) = loop (x = a) for t < steps => for i j => sum c => x[i, c] * a[j, c]"
    file = tmp_path / "model.axon"
    file.write_text(source, encoding="utf-8")
    file.with_suffix(".schedule").write_text('[f]\nprecision = "tf32"\n', encoding="utf-8")
    gpu = emulated(monkeypatch)
    a = normal(64, 64) / 8
    got = axon.load(file).f(a, 2, target="cuda")
    want = to_tf32((to_tf32(a).astype(np.float64) @ to_tf32(a).T.astype(np.float64)).astype(np.float32)) @ to_tf32(a).T
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert gpu.ran == {"roles": 2}


# ── what they compute ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_to_nearest_with_ties_to_even() -> None:
    one = np.float32(1)
    step = np.float32(2.0**-10)
    given = np.float32([one + step / 2, one + 3 * step / 2, one + step / 2 + 2.0**-23, -(one + step / 2), 0.0, -0.0, 2.0**-149])
    assert list(to_tf32(given)) == [one, one + 2 * step, one + step, -one, 0.0, 0.0, 0.0]
    assert np.signbit(to_tf32(given))[5]
    ends = np.float32([np.inf, -np.inf, np.nan, np.finfo(np.float32).max])
    np.testing.assert_array_equal(to_tf32(ends), np.float32([np.inf, -np.inf, np.nan, np.inf]))


@pytest.mark.usefixtures("always")
def test_random_layouts_and_sizes() -> None:
    """A batch or none, factors and results in any order of their indices."""
    chance = Random(0)
    for seed in range(400 if SOAK else 12):
        outer = chance.choice(["", "", "b"])
        left, right, out = ("".join(chance.sample(own, len(own))) for own in (f"{outer}ik", f"{outer}jk", f"{outer}ij"))
        size = {"b": chance.choice([1, 2]), **{c: chance.choice([1, 3, 64, 65, 130, chance.randrange(1, 140)]) for c in "ijk"}}
        shown = {c: c for c in "bijk"}
        head = " ".join(f"({t} : f32[{', '.join('n' + c for c in own)}])" for t, own in (("x", left), ("y", right)))
        reads = " * ".join(f"{t}[{', '.join(shown[c] for c in own)}]" for t, own in (("x", left), ("y", right)))
        core = program(f"fun f {head} = for {' '.join(out)} => sum k => {reads}")
        arrays = [normal(*(size[c] for c in own), seed=2 * seed + n) for n, own in enumerate((left, right))]
        (got,) = run(core, arrays, schedule=allowing(), seed=seed)
        axes = f"{left},{right}->{out}"
        exact, mass = (np.einsum(axes, *(f(x.astype(np.float64)) for x in arrays)) for f in (lambda x: x, abs))
        assert (abs(got - exact) <= error_bound(size["k"]) * 2.0**-10 * mass + 1e-30).all(), (axes, size)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("source", [NT, NN], ids=["as it lies", "a copy"])
def test_how_far_off(source: str) -> None:
    a, c = normal(70, 100), normal(136, 100, seed=1)
    (got,) = run(program(source), [a, c if source == NT else c.T], schedule=allowing())
    assert_rounded("ik,jk->ij", got, a, c, 100)


@pytest.mark.usefixtures("always")
def test_infinities_and_nan() -> None:
    a, c = normal(64, 96), normal(64, 96, seed=1)
    a[3, 5], a[4, 1], a[6, 2], a[6, 3], a[8, 7] = np.inf, np.nan, -np.inf, np.inf, -np.inf
    c[9, 7], c[3, 5], c[11, 9] = 0, 0, np.inf
    (got,) = run(program(NT), [a, c], schedule=allowing())
    with np.errstate(invalid="ignore"):
        want = to_tf32(a) @ to_tf32(c).T
    finite = np.isfinite(want)
    assert 0.8 < finite.mean() < 1
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("always")
def test_an_epilogue_is_not_rounded() -> None:
    a, c, x = normal(66, 40), normal(72, 40, seed=1), normal(72, seed=2) * 1e3
    (got,) = run(program(BIAS), [a, c, x], schedule=allowing())
    want = np.maximum(to_tf32(a).astype(np.float64) @ to_tf32(c).T.astype(np.float64) + x, 0)
    np.testing.assert_allclose(got, want, atol=2e-4)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("source", "shapes"),
    [
        ("import nn\nfun f (x : f32[n, c, h, w]) (k : f32[o, c, r, s]) = nn.conv2d_same x k", ((1, 8, 5, 68), (9, 8, 3, 5))),
        ("import nn\nfun f (x : f32[n, c, h, w]) (k : f32[o, c, r, s]) = nn.conv2d x k", ((2, 3, 6, 70), (5, 3, 3, 3))),
        ("fun f (x : f32[n, h, w, c]) (k : f32[r, s, c, o]) = for n p q o => sum i j c => x[n, p + i, q + j, c] * k[i, j, c, o]",
         ((1, 6, 66, 32), (3, 3, 32, 16))),
        ("fun f (x : f32[m, k]) (e : i32[m]) (w : f32[g, n, k]) = for i j => sum c => x[i, c] * w[e[i], j, c]",
         ((90, 40), (90,), (3, 24, 40))),
    ],
    ids=["padded", "three channels", "pixels", "rows in groups"],
)  # fmt: skip
def test_windows_and_rows_in_groups(source: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    core = program(source)
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 3, shape).astype(np.int32) if v.element is Element.I32 else normal(*shape, seed=n)
        for n, (v, shape) in enumerate(zip(core.inputs, shapes, strict=True))
    ]
    (got,) = run(core, arrays, schedule=allowing())
    (want,) = run(core, [to_tf32(x) if x.dtype == np.float32 else x for x in arrays])
    (exact,) = run(core, arrays)
    assert abs(got - want).max() < 1e-5 * abs(want).max()
    assert abs(got - exact).max() > 1e-4 * abs(want).max()


@pytest.mark.usefixtures("always")
def test_a_call_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.axon"
    file.write_text(NN, encoding="utf-8")
    file.with_suffix(".schedule").write_text('[f]\nprecision = "tf32"\n', encoding="utf-8")
    gpu = emulated(monkeypatch)
    a, c = normal(66, 40), normal(40, 72, seed=1)
    got = axon.load(file).f(a, c, target="cuda")
    assert_rounded("ik,kj->ij", got, a, c, 40)
    assert gpu.ran == {"plain": 1, "roles": 1}


# ── proofs and machine code ─────────────────────────────────────────────────────────────────────────────────────────────


def lowered(axes: str, mapping: TileMapping = SMALL, stores: str = "boxes") -> BarrierProgram:
    case = contraction(axes, Element.F32)
    (kernel,) = kernels(case.program)
    values = (*case.program.inputs, case.result)
    return stages(kernel, mapping, HOPPER, values, STORES[stores](frozenset((case.result.symbol,)))).barriers


def test_every_candidate_is_proved() -> None:
    case = contraction("ik,jk->ij", Element.F32)
    (kernel,) = kernels(case.program)
    found = candidates(HOPPER, traits(kernel))
    assert len(found) > 10
    assert {mapping.depth for mapping in found} == {32, 64}
    for mapping in found:
        if drawn(str(mapping), 3):
            assert isinstance(verify(lowered("ik,jk->ij", mapping)), Proof), mapping


@pytest.mark.parametrize("axes", ["ik,kj->ij", "ki,jk->ij", "ki,kj->ij"])
def test_a_factor_across_what_is_summed_is_no_factor(axes: str) -> None:
    answer = verify(lowered(axes))
    assert getattr(answer, "kind", None) == "layout"
    assert "cannot transpose" in str(answer)


def test_a_copy_that_does_not_round_is_refused() -> None:
    """And so is a store that does, and a copy of 16 bits."""
    for made in (lowered("ik,jk->ij"), lowered("ik,jk->ij", replace(SMALL, stages=4, specialized=False))):
        for number, _ in sites(made, (b.Copy, b.Send)):
            turned = mutate(made, number, lambda op: (replace(op, descriptor=turned_round(op.descriptor)),))  # type: ignore[union-attr]
            refused(turned, {"content"}, f"another rounding at {number}")
    case = contraction("ik,jk->ij")
    (kernel,) = kernels(case.program)
    narrow = stages(kernel, replace(SMALL, depth=64), HOPPER, (*case.program.inputs, case.result), Granted()).barriers
    for number, _ in sites(narrow, b.Copy):
        turned = mutate(narrow, number, lambda op: (replace(op, descriptor=turned_round(op.descriptor)),))  # type: ignore[union-attr]
        refused(turned, {"content"}, f"16 bits rounded at {number}")


def turned_round(descriptor: b.Descriptor) -> b.Descriptor:
    return replace(descriptor, rounds=not descriptor.rounds)


def test_machine_code() -> None:
    """Asynchronous products of tf32, and nothing spills; the largest tiles and a role alone."""
    case = contraction("ik,jk->ij", Element.F32)
    (kernel,) = kernels(case.program)
    for mapping in (TileMapping(depth=32), TileMapping(64, 64, 64, stages=4, consumers=1, cluster=1, specialized=False)):
        forms = stages(kernel, mapping, HOPPER, (*case.program.inputs, case.result), Granted(frozenset((case.result.symbol,))))
        assert "'tf32'" in forms.source.text
        assert not cubin.build(forms, HOPPER).spilled
