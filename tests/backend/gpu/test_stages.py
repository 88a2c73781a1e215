"""Every stage as text, the choice of mappings, and machine code without a GPU."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from axon import compiler
from axon.backend.gpu.build import cubin as build
from axon.backend.gpu.build.recipe import Stages, stages, traits
from axon.backend.gpu.layout.memory import DeviceTensor, contiguous
from axon.backend.gpu.layout.products import Precision
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.roles import ir as roles
from axon.backend.gpu.roles import render as render_barriers
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.tile import ir as tile
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.eight_bits import in_eight_bits
from axon.backend.gpu.tile.families import kernels
from axon.backend.gpu.tile.limbs import limbed
from axon.backend.gpu.tile.schedule import Epilogue, ScheduleProblem, TileMapping, Traits, candidates, check, choose, predict
from axon.base.element import Element
from axon.base.passes import FormInvalid
from axon.core.ir import Program
from tests.backend.gpu import streams
from tests.backend.gpu.layout.test_views import STREAMS
from tests.backend.gpu.programs import STORES, Case, add, contraction, gelu
from tests.checked import checked
from tests.sample import drawn

GOLDENS = Path(__file__).parent / "goldens"
SMALL = TileMapping(64, 64, 64, stages=4, consumers=1, cluster=1)


def made(
    case: Case | Program,
    mapping: TileMapping,
    *,
    stores: str = "boxes",
    paired: bool = False,
    precision: Precision = Precision.WHOLE,
) -> Stages:
    program = case.program if isinstance(case, Case) else case
    short = in_eight_bits(kernels(program), program, precision=precision).kernels
    *_, kernel = limbed(short, program, precision=precision).kernels
    results = frozenset(r.place.symbol for r in kernel.results)
    values = (*program.inputs, *(o.value for o in kernel.operands), *(r.value for r in kernel.results))
    everything = frozenset(v.symbol for v in values)
    return stages(kernel, mapping, HOPPER, values, replace(STORES[stores](results), paired=everything if paired else frozenset()))


IN_TURN = replace(SMALL, stages=3, consumers=2, turns=True)
GATED = """fun f (x : bf16[n, d]) (a : bf16[d, h]) (b : bf16[d, h]) =
  for i j => max (sum k => x[i, k] * a[k, j]) 0.0 * (sum k => x[i, k] * b[k, j])"""

SCALED = """fun f (a : f8e4m3[m, k]) (s : f32[m, (k + 127) / 128]) (b : f8e5m2[n, k]) (u : f32[(n + 127) / 128, (k + 127) / 128]) =
  for i j => sum c => (cast f32 a[i, c] * s[i, c / 128]) * (cast f32 b[j, c] * u[j / 128, c / 128])"""


def biased() -> Case:
    return contraction("ik,jk->ij", epilogue=lambda p, x, at: gelu(add(p, x[0]), Element.BF16), extra="j")


PROGRAMS = {
    "product": (contraction("ik,kj->ij"), TileMapping(slots=2)),
    "rows": (contraction("bik,bjk->bij"), TileMapping(128, 128, stages=3)),
    "bias_gelu": (biased(), replace(SMALL, stages=3)),
    "in_turn": (biased(), IN_TURN),
    "heads": (contraction("bshd,bthd->bhst", result=Element.F32), replace(SMALL, stages=3, in_flight=0)),
    "together": (contraction("ki,jk->ij"), replace(SMALL, specialized=False)),
    "gated": (compiler.lower(compiler.check_text(GATED), "f", None), TileMapping(128, 128, 64, slots=2)),
    "limbs": (contraction("ik,kj->ij", Element.F32), TileMapping(128, 128, stages=2, in_flight=0)),
    "tf32": (contraction("ik,jk->ij", Element.F32), TileMapping(128, 128, 32, stages=3, slots=2)),
    "eight_bits": (contraction("ik,jk->ij", Element.F8E4M3, Element.BF16), TileMapping(128, 128, 128, in_flight=0)),
    "scaled": (compiler.lower(compiler.check_text(SCALED), "f", None), TileMapping(128, 64, 128, stages=3, in_flight=0)),
    "whole": (contraction("ik,jk->ij", Element.I8, Element.I32), TileMapping(128, 64, 128, stages=3)),
    "causal": (streams.program("causal"), TileMapping(128, 64, 64, 2, consumers=2, cluster=1, keys=48, turns=True)),
    "in_f32": (streams.program("causal", Element.F32), TileMapping(128, 64, 64, 1, 0, consumers=2, cluster=1, keys=48)),
    "short_weights": (streams.in_8_bits(), TileMapping(128, 64, 128, 2, consumers=2, cluster=1, keys=128, turns=True)),
    "heads_merged": (
        compiler.lower(checked(STREAMS), "attention", None),
        TileMapping(64, 64, 64, 2, consumers=1, cluster=1, keys=64),
    ),
    "grouped": (streams.program("grouped"), TileMapping(64, 64, 64, 2, in_flight=0, consumers=1, cluster=1, keys=32)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_stage_reads_as_before(name: str) -> None:
    """Set AXON_UPDATE=1 to write what is printed now."""
    case, mapping = PROGRAMS[name]
    forms = made(
        case, mapping, stores="rows" if name == "rows" else "boxes", precision=Precision.TF32 if name == "tf32" else Precision.WHOLE
    )
    texts = {
        "tile": tile.render(forms.tile),
        "roles": roles.render(forms.roles),
        "barriers": render_barriers.render(forms.barriers),
        "kernel": forms.source.text,
    }
    for stage, text in texts.items():
        file = GOLDENS / f"{name}.{stage}"
        if os.environ.get("AXON_UPDATE"):
            GOLDENS.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")


def test_a_mapping_that_does_not_fit_says_why() -> None:
    for mapping, words in [
        (TileMapping(stages=5), "shared memory"),
        (TileMapping(rows=100), "rows must be a multiple of 64"),
        (TileMapping(256, 256), "accumulators"),
        (TileMapping(in_flight=4), "in flight"),
        (TileMapping(consumers=5), "consumers"),
        (TileMapping(stages=0), "at least 1"),
        (TileMapping(cluster=16), "at most 8 blocks"),
        (TileMapping(in_flight=3, specialized=False), "two stages more"),
        (replace(SMALL, turns=True), "takes no turns"),
        (replace(IN_TURN, specialized=False), "must be specialized"),
        (replace(IN_TURN, persistent=False), "must be persistent"),
        (replace(IN_TURN, rows=96), "rows must be a multiple of 64"),
        (replace(IN_TURN, rows=128, columns=256), "accumulators"),
    ]:
        with pytest.raises(Unsupported, match=words):
            made(contraction("ik,jk->ij"), mapping)


@pytest.mark.parametrize("across", [(False, False), (True, True)])
def test_candidates_are_legal_and_the_choice_is_the_cheapest(across: tuple[bool, bool]) -> None:
    facts = Traits(Element.BF16, (Element.BF16,), *across)
    everything = candidates(HOPPER, facts)
    assert len(everything) > 10
    for mapping in everything:
        assert not check(mapping, HOPPER, facts)
    for problem in (
        ScheduleProblem(16, 4096, 4096),
        ScheduleProblem(512, 512, 512),
        ScheduleProblem(8192, 8192, 8192),
        ScheduleProblem(1, 1, 1),
    ):
        best = choose(problem, facts, HOPPER)
        assert predict(best, problem, HOPPER) == min(predict(m, problem, HOPPER) for m in everything)


def test_every_candidate_is_proved() -> None:
    case = contraction("ki,kj->ij")
    (kernel,) = kernels(case.program)
    for mapping in candidates(HOPPER, traits(kernel)):
        if not drawn(str(mapping), 3):
            continue
        answer = verify(made(case, mapping).barriers)
        assert not hasattr(answer, "kind"), f"{mapping}: {answer}"


def test_roles_step_along_one_axis() -> None:
    """What has no loop of products, such as a tile that reads nothing, is no program for roles: `lower` counts on one."""
    role = made(contraction("ik,kj->ij"), SMALL).roles
    consumer = tuple(s for s in role.consumer if not isinstance(s, roles.RoleFor))
    with pytest.raises(FormInvalid, match="roles that step along 0 axes, not one"):
        roles.verify(replace(role, producer=(), consumer=consumer))


def test_one_role_becomes_machine_code() -> None:
    """The matrix products stay asynchronous beside the copies that the same warps ask for, and nothing spills."""
    kernel = build.build(made(contraction("ik,kj->ij"), replace(SMALL, specialized=False)), HOPPER)
    assert not kernel.spilled


@pytest.mark.parametrize("mapping", [replace(IN_TURN, columns=256), replace(IN_TURN, rows=128, columns=128)], ids=str)
def test_tiles_in_turn_become_machine_code(mapping: TileMapping) -> None:
    """Products stay asynchronous where not all tiles are a consumer's own, and nothing spills."""
    assert not build.build(made(biased(), mapping), HOPPER).spilled


def test_tiles_are_offered_in_turn_where_there_is_something_to_hide() -> None:
    (plain,), (more,) = kernels(contraction("ik,kj->ij").program), kernels(biased().program)
    assert not any(m.turns for m in candidates(HOPPER, traits(plain)))
    assert any(m.turns for m in candidates(HOPPER, traits(more)))
    asked = candidates(HOPPER, traits(plain), (("turns", True),))
    assert asked
    assert all(m.turns for m in asked)
    assert not any(m.turns for m in candidates(HOPPER, traits(more), (("turns", False),)))
    wide = contraction("ik,kj->ij", Element.F32).program
    *_, limbs = limbed(kernels(wide), wide).kernels
    assert isinstance(limbs, MatrixProduct)
    (wrong,) = check(replace(IN_TURN, in_flight=0, stages=2), HOPPER, traits(limbs))
    assert "limbs" in wrong


def test_what_comes_after_a_product_costs_time_and_less_of_it_in_turn() -> None:
    """Both as they were measured, of bf16 by tiles that consumers share and by tiles in turn: nothing, a bias and a residual, two
    tensors in f32 added, a bias and GELU with its slope, three results of which one reads a tensor."""
    plain = ScheduleProblem(8192, 768, 768)
    facts = Traits(Element.BF16, (Element.BF16,), epilogue=True)
    for problem, epilogue, measured, in_turn in (
        (plain, Epilogue(), 16.7e-6, None),
        (plain, Epilogue(1, 0, 2, 2), 33e-6, 24.5e-6),
        (replace(plain, depth=3072), Epilogue(1, 0, 10, 4), 88e-6, 94e-6),
        (replace(plain, depth=2304), Epilogue(1, 0, 10, 4), 76.6e-6, 83.9e-6),
        (replace(plain, columns=3072), Epilogue(0, 2, 2, 26), 76e-6, None),
        (replace(plain, columns=3072), Epilogue(1, 2, 6, 104), 146e-6, None),
    ):
        whole = replace(problem, epilogue=epilogue)
        alike = choose(whole, replace(facts, epilogue=False), HOPPER)
        assert not alike.turns
        assert predict(alike, whole, HOPPER) == pytest.approx(measured, rel=0.3)
        if in_turn is not None:
            best = min((m for m in candidates(HOPPER, facts) if m.turns), key=lambda m: predict(m, whole, HOPPER))
            assert predict(best, whole, HOPPER) == pytest.approx(in_turn, rel=0.2)
            if in_turn < measured:
                assert choose(whole, facts, HOPPER).turns
    for mapping in candidates(HOPPER, facts):  # what waits: the last tile has nothing beside it, the others the next one's products

        def added(tiles: int, mapping: TileMapping = mapping) -> float:
            whole = ScheduleProblem(mapping.rows * HOPPER.multiprocessors * tiles, mapping.columns, 2048)
            more = replace(whole, epilogue=Epilogue(1, 0, 0, 2))
            return predict(mapping, more, HOPPER) - predict(mapping, whole, HOPPER)

        if mapping.cluster == 1:
            share = added(6) / (6 * added(1))
            assert share < 0.2 if mapping.turns else share > 0.5


def test_operands_that_copies_cannot_read_are_refused() -> None:
    case = contraction("ik,jk->ij")
    a, b = case.program.inputs
    executable = Executable(case.program, mapping=SMALL)
    sizes = {
        s: n for v, shape in ((a, (64, 68)), (b, (64, 68))) for s, n in zip((d.symbol for d in v.shape), shape, strict=True) if s
    }
    odd = {a.symbol: contiguous(0, (64, 68), Element.BF16), b.symbol: contiguous(0, (64, 68), Element.BF16)}
    odd[case.result.symbol] = contiguous(0, (64, 64), Element.BF16)
    with pytest.raises(Unsupported, match="dimension 0 steps by 136 bytes"):
        executable.plans(odd, sizes)
    odd[a.symbol] = odd[b.symbol] = DeviceTensor(2, (64, 68), (72, 1), Element.BF16)
    with pytest.raises(Unsupported, match="address is not a multiple"):
        executable.plans(odd, sizes)


@pytest.mark.parametrize("in_flight", [2, 3])
@pytest.mark.parametrize("persistent", [True, False])
def test_behind_the_steps_their_number_is_asked_and_not_the_last_one(in_flight: int, persistent: bool) -> None:
    """The same condition stands inside the loop, where it is about the step; behind it, two steps are two also for `k` 1."""
    forms = made(contraction("ik,jk->ij"), TileMapping(in_flight=in_flight, persistent=persistent))
    assert f"if steps >= {in_flight}:" in forms.source.text
    assert f"if k >= {in_flight}:" in forms.source.text
