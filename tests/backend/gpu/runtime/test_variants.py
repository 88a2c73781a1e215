"""How many machine codes a function gets, and which sizes use which. Nothing is compiled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import exp, log
from random import Random
from statistics import mean
from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.memory import contiguous
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime import arrays, steps
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.prepare import prepare, problem_of
from axon.backend.gpu.runtime.variants import ASKED, LIMIT
from axon.backend.gpu.tile.schedule import accumulators, predict, ranked
from axon.backend.needs import Missing
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.lower import TensorType
from tests.backend.gpu.runtime.fake import Builds
from tests.backend.gpu.tile.test_packed_operands import run

NT = "fun f (a : bf16[m, k]) (b : bf16[n, k]) = for i j => sum c => a[i, c] * b[j, c]"
BIAS = "fun f (a : bf16[m, k]) (b : bf16[n, k]) (c : bf16[n]) = for i j => (sum l => a[i, l] * b[j, l]) + c[j]"
NN = "fun f (a : bf16[m, k]) (b : bf16[k, n]) = a @ b"
SINE = "fun f (a : bf16[m, k]) (b : bf16[k, n]) = sin (a @ b) + 1.0"
TWO = "fun f (a : bf16[m, k]) (b : bf16[k, k]) = let val x = a @ b in x @ b + x end"


def executable(text: str, *ranks: int, **options: Any) -> Executable:
    checked = compiler.check_text(text)
    return Executable(compiler.lower(checked, "f", tuple(TensorType(Element.BF16, rank) for rank in ranks)), **options)


def tensors(program: Executable, sizes: dict[Any, int]) -> dict[Any, Any]:
    return {v.symbol: contiguous(256, tuple(d.evaluate(sizes) for d in v.shape), v.element) for v in program.values}


def named(program: Executable, **sizes: int) -> dict[Any, int]:
    symbols = {s.name: s for v in program.program.inputs for d in v.shape for s in d.variables}
    return {symbols[name]: size for name, size in sizes.items()}


def sweep(seed: int = 0, count: int = 100) -> list[dict[str, int]]:
    """Sizes from 16 to 8192; of one in three the result's rows are not at multiples of 16 bytes."""
    chance = Random(seed)

    def size(step: int) -> int:
        return max(step, round(2 ** (4 + 9 * chance.random())) // step * step)

    return [{"m": size(1), "n": size(chance.choice((1, 8, 8))), "k": size(8)} for _ in range(count)]


@pytest.mark.parametrize("text", [NT, BIAS])
def test_a_sweep_makes_three(builds: Builds, text: str) -> None:
    program = executable(text, 2, 2, *([1] if text is BIAS else []))
    for sizes in sweep():
        bound = named(program, **sizes)
        (plan,) = program.plans(tensors(program, bound), bound).values()
        assert plan.blocks >= 1
    assert len(builds.made) == LIMIT == len(program.made())


def test_what_the_limit_costs(builds: Builds) -> None:
    """The figure in docs/backend.md: predicted time over 100 sizes against the best mapping of each."""
    ratios = []
    for seed in range(3):
        program = executable(NT, 2, 2)
        for sizes in sweep(seed):
            bound = named(program, **sizes)
            (plan,) = program.plans(tensors(program, bound), bound).values()
            problem = problem_of(plan.kernel, bound)
            best = ranked(problem, traits(plan.kernel), HOPPER)[0]
            ratios.append(predict(plan.mapping, problem, HOPPER) / predict(best, problem, HOPPER))
    assert exp(mean(map(log, ratios))) < 1.1
    assert max(ratios) < 2


def test_two_regimes_get_their_best(builds: Builds) -> None:
    """What a language model does: many rows, then few, of one weight."""
    program = executable(NT, 2, 2)
    for m in (8192, 16, 4096, 1, 32):
        bound = named(program, m=m, n=4096, k=4096)
        (plan,) = program.plans(tensors(program, bound), bound).values()
        problem = problem_of(plan.kernel, bound)
        best = ranked(problem, traits(plan.kernel), HOPPER)[0]
        assert predict(plan.mapping, problem, HOPPER) <= 1.1 * predict(best, problem, HOPPER), m
    assert len(builds.made) == 2


def test_what_was_asked_for_comes_on_top(builds: Builds) -> None:
    m = axon.compile(NT)
    assert str(m.f.variants) == "no GPU kernels made yet"
    for size in (64, 1024, 4096, 8192):
        m.f.warmup(f"bf16[{size}, 4096]", f"bf16[{size}, 4096]")
    asked = len(m.f.variants)
    assert asked >= 2
    assert {v.why for v in m.f.variants} == {ASKED}
    assert str(m.f.variants).startswith(
        f"variants made: 0 of at most 3 by calls, {asked} by warmup\n  (bf16[m, k], bf16[n, k]) kernel 1: tile"
    )
    m.f.warmup("bf16[64, 4096]", "bf16[64, 4096]")
    assert len(m.f.variants) == asked
    ((stepped,),) = (ordered.made for made in m._session._executables.values() for ordered in made.values())
    program = stepped.straight
    for sizes in sweep():
        bound = named(program, **sizes)
        program.plans(tensors(program, bound), bound)
    assert len(m.f.variants) <= asked + LIMIT


@pytest.mark.parametrize("text", [NT, "fun f (a : bf16[m, k]) = for i => sum c => exp a[i, c]"])
def test_calls_where_there_is_no_gpu_make_what_calls_make(builds: Builds, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked for the best mapping of each size: that is what `warmup` is for."""

    def nowhere(*_: Any) -> None:
        raise Missing("a GPU")

    monkeypatch.setattr(arrays, "gpu", nowhere)
    m = axon.compile(text)
    for sizes in sweep(count=30):
        given = [np.zeros((sizes[n], sizes["k"]), Element.BF16.dtype) for n in ("m", "n")][: text.count("bf16")]
        with pytest.raises(axon.AxonError, match="the program's kernels are built"):
            m.f(*given, target="cuda")
    made = Counter((v.kernel, v.instead) for v in m.f.variants)
    assert max(made.values()) > 1
    assert max(made.values()) <= LIMIT
    assert not any(v.asked for v in m.f.variants)


def test_the_text_tells_variants_apart(builds: Builds) -> None:
    m = axon.compile("fun f (a : bf16[m, k]) (b : bf16[k, n]) = a @ b")
    for a, b in (("64, 64", "64, 64"), ("64, 1", "1, 64")):
        m.f.warmup(f"bf16[{a}]", f"bf16[{b}]")
    _, first, second = str(m.f.variants).splitlines()
    assert "(m = 64, k = 64, n = 64) · where rows of the result are multiples of 16 bytes" in first
    assert "(m = 64, k = 1, n = 64) · where `a` lies in the order of dimensions 2, 1" in second


def test_a_program_that_copies_a_factor_is_listed(builds: Builds) -> None:
    """Where rows of `a` do not lie for bulk copies, what runs has a kernel more; it is listed as what it is."""
    m = axon.compile(NN)
    m.f.warmup("bf16[1024, 1025]", "bf16[1025, 1024]")
    copy, product = m.f.variants
    assert {copy.instead, product.instead} == {"where `a` is copied first"}
    assert (copy.kernel, product.kernel) == (0, 1)
    assert len(builds.made) == 2
    assert "kernel 2 where `a` is copied first: tile" in str(m.f.variants)
    assert m.f.variants.limit == 2 * LIMIT
    m.f.warmup("bf16[1024, 64]", "bf16[64, 1024]")
    assert [v.instead for v in m.f.variants] == ["", "where `a` is copied first", "where `a` is copied first"]
    assert m.f.variants.limit == 3 * LIMIT


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        (NN, ("bf16[64, 65536]", "bf16[65536, 64]"), "the result is summed in parts"),
        ("fun f (x : bf16[b, t, k]) (w : bf16[k, n]) = for b t n => sum k => x[b, t, k] * w[k, n]",
         ("bf16[64, 1, 512]", "bf16[512, 512]"), "`sum` has merged indices"),
        ("fun f (x : bf16[i, k, b]) (w : bf16[k, j, b]) = for i j b => sum k => x[i, k, b] * w[k, j, b]",
         ("bf16[512, 512, 8]", "bf16[512, 512, 8]"), "is made in another order of indices"),
    ],
)  # fmt: skip
def test_a_product_that_is_made_otherwise_says_how(builds: Builds, text: str, given: tuple[str, str], words: str) -> None:
    m = axon.compile(text)
    m.f.warmup(*given)
    assert words in str(m.f.variants)
    assert "_view" not in str(m.f.variants)


@pytest.mark.parametrize(
    ("text", "refused", "words"),
    [
        (SINE, "sin", "the result is made apart from its product"),
        (NN, "", "the result is plain"),
    ],
)
def test_what_does_not_fit_its_registers_is_listed_as_what_serves(builds: Builds, text: str, refused: str, words: str) -> None:
    builds.refuse = lambda stages: stages.barriers is not None and refused in stages.source.text
    m = axon.compile(text)
    m.f.warmup("bf16[64, 64]", "bf16[64, 64]")
    assert {v.instead for v in m.f.variants} == {f"where {words}"}
    assert len(m.f.variants) == len(builds.made) > 0


def test_what_was_built_before_the_first_call_is_listed(builds: Builds) -> None:
    """Of all parts, at the sizes that were foreseen."""
    m = axon.compile("fun f (x : f32[n]) = loop (s = x) for t < 5 => sort (for i => s[i] * 2.0)")
    program = m._session.program(m._session.callee("f"), (np.zeros(8, np.float32),), {})
    stepped = steps.Stepped(program)
    (n,) = (d.symbol for d in program.inputs[0].shape)
    stepped.build({n: 64})
    (made,) = stepped.made()
    assert made.builder is stepped.executables[stepped.parts.body.parts[0].body.parts[0]].first
    assert len(builds.made) > 1  # those of the sort have no variants


def test_a_register_tile_that_does_not_fit_gets_more_registers(builds: Builds) -> None:
    """The same tile, of which a multiprocessor holds one block: without one it would be many times slower."""
    builds.refuse = lambda stages: stages.source.resident > 1
    m = axon.compile("fun f (x : f32[n, d]) (y : f32[m, d]) = for i j => max k => abs (x[i, k] - y[j, k])")
    m.f.warmup("f32[512, 512]", "f32[512, 512]")
    (made,) = m.f.variants
    assert made.mapping.tiled is not None
    assert made.mapping.tiled.resident == 1


def test_what_was_foreseen_and_refused_is_no_choice(builds: Builds) -> None:
    """The best mapping does not fit: the next best one is built when it is wanted, and is the one that is listed."""
    refused: list[Any] = []

    def refuse(stages: Any) -> bool:
        refused.append(stages)
        return len(refused) == 1

    builds.refuse = refuse
    m = axon.compile(NN)
    m.f.warmup("bf16[512, 512]", "bf16[512, 512]")
    (made,) = m.f.variants
    first, second = refused
    assert first.source.text != second.source.text
    assert builds.made == [second]
    assert made.instead == ""


@pytest.mark.parametrize("refused", [False, True])
def test_a_product_whose_best_mapping_is_refused_may_be_better_bare(builds: Builds, refused: bool) -> None:
    """With the mappings that are left a kernel after it takes less time: that is found before the first call is over, and stays."""
    builds.refuse = lambda stages: refused and stages.barriers is not None and stages.tile.columns.step == 128  # in turn
    program = executable("fun f (x : bf16[m, k]) (w : bf16[k, n]) (r : bf16[m, n]) = x @ w + r", 2, 2, 2)
    bound = named(program, m=4096, k=4096, n=4096)
    builder, _ = program.built({}, bound)
    assert bool(builder.planned.way.bare) is refused
    assert program.serving({}, bound) is builder


def test_axes_as_one_are_the_same_each_time(builds: Builds) -> None:
    """A tile through shared memory names an axis, here two as one: the same, or no variant would ever be found again."""
    m = axon.compile("fun f (x : f32[c, a, b]) = for i j k => exp x[k, i, j]")
    for c, a, b in ((64, 64, 64), (64, 128, 64), (96, 64, 64), (128, 64, 128)):
        m.f.warmup(f"f32[{c}, {a}, {b}]")
    assert len(m.f.variants) == 1


def test_kernels_without_variants_are_counted(builds: Builds) -> None:
    m = axon.compile("fun f (x : f32[n]) = loop (s = x) for t < 5 => sort s")
    assert str(m.f.warmup("f32[5]")) == "kernels made of sorts and of compresses, which have no variants: 1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("foo", "│ foo"),
        ("", "a type is missing"),
        ("f32[10, 20])", "a type ends before this"),
        ("f16[10, 20]", 'help: pass "f32[10, 20]"'),
    ],
)
def test_texts_that_stand_for_no_argument(text: str, says: str) -> None:
    m = axon.compile("fun f (x : f32[m, k]) = x + 1")
    with pytest.raises(axon.AxonError) as caught:
        m.f.warmup(text)
    assert says in str(caught.value)
    assert "zeros" not in str(caught.value)


def test_each_kernel_has_its_own(builds: Builds) -> None:
    program = executable(TWO, 2, 2)
    for size in (16, 8192, 256, 64, 1000):
        bound = named(program, m=size, k=512)
        program.plans(tensors(program, bound), bound)
    assert {built.number for built in program.made()} == {0, 1}
    assert len(builds.made) <= 2 * LIMIT


def test_exact_has_no_limit(builds: Builds) -> None:
    program = executable(NT, 2, 2, exact=True)
    for sizes in sweep():
        bound = named(program, **sizes)
        (plan,) = program.plans(tensors(program, bound), bound).values()
        problem = problem_of(plan.kernel, bound)
        assert plan.mapping == ranked(problem, traits(plan.kernel), HOPPER)[0]
    assert len(builds.made) > LIMIT


def test_code_that_takes_more_for_granted_is_not_used(builds: Builds) -> None:
    """Results that bulk copies cannot store, and rows that are not read in pairs, get code without them."""
    program = executable(BIAS, 2, 2, 1)
    for n in (512, 511, 512, 509):
        bound = named(program, m=512, n=n, k=512)
        lying = tensors(program, bound)
        (plan,) = program.plans(lying, bound).values()
        descriptors = plan.stages.barriers.descriptors
        boxed = {d.tensor for d in descriptors} - {v.symbol for v in program.program.inputs}
        assert not boxed or all(lying[s].copyable is None for s in boxed)
        assert not boxed or n % 8 == 0
        if n % 8 == 0:
            assert boxed


def test_bulk_copies_store_only_rows_of_whole_pieces(builds: Builds) -> None:
    """At the end of a row they write 16 bytes at least, so a padded result would lose what lies beside it."""
    program = executable(NT, 2, 2)
    for n, stride, boxed in ((512, 512, True), (512, 520, True), (509, 512, False), (509, 509, False)):
        bound = named(program, m=256, n=n, k=64)
        lying = tensors(program, bound)
        out = program.kernels[0].results[0].value.symbol
        lying[out] = replace(lying[out], strides=(stride, 1))
        ready = prepare(program.kernels[0], lying, bound)
        assert (out in ready.granted.boxed, out in ready.granted.dense) == (boxed, True), (n, stride)


def test_the_next_mapping_is_taken_where_one_does_not_fit(builds: Builds) -> None:
    program = executable(NT, 2, 2)
    bound = named(program, m=4096, n=4096, k=4096)
    best = ranked(problem_of(program.kernels[0], bound), traits(program.kernels[0]), HOPPER)
    refused = {best[0], best[1]}
    builds.refuse = lambda stages: stages.barriers.order in {refused_order(program, m, bound) for m in refused}
    (plan,) = program.plans(tensors(program, bound), bound).values()
    assert plan.mapping == best[2]
    builds.refuse = lambda stages: True
    other = executable(NT, 2, 2)
    bound = named(other, m=64, n=64, k=64)
    with pytest.raises(Unsupported, match="no mapping fits"):
        other.plans(tensors(other, bound), bound)
    fixed = executable(NT, 2, 2, mapping=replace(best[0], stages=3))
    bound = named(fixed, m=64, n=64, k=64)
    with pytest.raises(axon.AxonError, match="does not fit its registers"):
        fixed.plans(tensors(fixed, bound), bound)


def test_what_was_refused_before_is_known_before_anything_is_built(builds: Builds) -> None:
    """Also where nothing is left for a kernel: of the way that is not taken then, nothing is built."""
    program = executable(TWO, 2, 2)
    bound = named(program, m=512, k=512)
    assert len(program.kernels) == 2
    best = program.plans(tensors(program, bound), bound)
    first = {plan.stages.source.bare for plan in best.values()}
    builds.made.clear()
    builds.refused = lambda stages: stages.source.bare in first
    again = executable(TWO, 2, 2)
    bound = named(again, m=512, k=512)
    found = again.plans(tensors(again, bound), bound)
    assert len(builds.made) == 2
    assert all(found[n].mapping != best[n].mapping for n in (0, 1))
    builds.made.clear()
    builds.refused = lambda stages: stages.barriers is not None
    other = executable(TWO, 2, 2)
    builder, plain = other.built({}, named(other, m=512, k=512))
    assert builder is not other.first
    assert all(plan.stages.barriers is None for plan in plain.values())
    assert len(builds.made) == len(plain)


SCORES = """
fun f (q : bf16[h, s, d]) (k : bf16[h, s, d]) (v : bf16[h, s, d]) =
  let val e = for h i j => exp (sin (sum c => q[h, i, c] * k[h, j, c])) in for h i c => sum j => e[h, i, j] * v[h, j, c] end
"""


@pytest.mark.parametrize(
    ("text", "ranks", "refused", "families"),
    [
        (SINE, (2, 2), "sin", ["MatrixProduct", "Nest"]),  # the epilogue alone is plain
        (SINE, (2, 2), "", ["Nest", "Nest"]),
        (SCORES, (3, 3, 3), "sin", ["MatrixProduct", "Nest", "MatrixProduct"]),
    ],
)
def test_a_kernel_of_which_no_mapping_fits_is_made_by_others(
    builds: Builds, text: str, ranks: tuple[int, ...], refused: str, families: list[str]
) -> None:
    program = executable(text, *ranks)
    bound = {symbol: 64 for value in program.program.inputs for d in value.shape for symbol in d.variables}
    builds.refuse = lambda stages: stages.barriers is not None and refused in stages.source.text
    served, plans = program.built({}, bound)
    assert [type(plan.kernel).__name__ for plan in plans.values()] == families
    assert any("registers" in reason.worded({}) for k in served.planned.kernels if isinstance(k, Nest) for reason in k.reasons)
    assert program.serving({}, bound) is served  # nothing is tried again
    chance = np.random.default_rng(0)
    arrays = {v.symbol: chance.standard_normal((64,) * len(v.shape)).astype(v.element.dtype) / 8 for v in program.program.inputs}
    got = run(served.planned, bound, arrays, {})[program.program.block.results[0]].astype(np.float32)
    want = axon.compile(text).f(*arrays.values(), target="interpret").astype(np.float32)
    np.testing.assert_allclose(got, want, atol=2e-2 * np.abs(want).max())


CODES = """
fun f (x : bf16[m, k]) (w : i8[n, k]) (s : bf16[n]) =
  let val e = for j c => exp (sin (cast bf16 w[j, c] * s[j])) in for i j => sum c => x[i, c] * e[j, c] end
"""


def test_a_factor_that_no_kernel_can_compute_on_the_way_is_computed_before(builds: Builds) -> None:
    """Here of a product whose depth is cut into parts."""
    program = Executable(compiler.lower(compiler.check_text(CODES), "f", None))
    bound = named(program, m=16, n=1024, k=4096)
    wanted = program.serving({}, bound).planned.way.merges
    assert [(one.beside is not None, one.parts > 1) for one in wanted.values()] == [(True, True)]
    builds.refuse = lambda stages: stages.barriers is not None and "sin" in stages.source.text
    served, plans = program.built({}, bound)
    assert served.planned.way.before == wanted.keys()
    assert [type(plan.kernel).__name__ for plan in plans.values()] == ["Nest", "MatrixProduct"]
    assert program.serving({}, bound) is served


def test_tiles_in_turn_that_hold_as_much_as_one_that_does_not_fit_are_not_tried(builds: Builds) -> None:
    text = "fun f (a : bf16[m, k]) (b : bf16[n, k]) (r : bf16[m, n]) = for i j => (sum l => a[i, l] * b[j, l]) + r[i, j]"
    program = executable(text, 2, 2, 2)
    bound = named(program, m=8192, n=768, k=768)
    tried: list[Any] = []

    def refuse(stages: Any) -> bool:
        if stages.barriers is not None and stages.barriers.mapping.apart:
            tried.append(stages.barriers.mapping)
            return True
        return False

    builds.refuse = refuse
    (plan,) = program.plans(tensors(program, bound), bound).values()
    assert not plan.mapping.turns
    assert tried  # the best are in turn
    held = [(accumulators(mapping, traits(program.kernels[0])), mapping.consumers) for mapping in tried]
    for at, (more, consumers) in enumerate(held):
        assert not any(less <= more and fewer <= consumers for less, fewer in held[:at])


def refused_order(program: Executable, mapping: Any, bound: Any) -> Any:
    from axon.backend.gpu.build.recipe import stages

    kernel = program.kernels[0]
    lying = tensors(program, bound)
    return stages(kernel, mapping, HOPPER, program.values, Granted(frozenset(lying))).barriers.order


def test_kernels_of_all_parts_are_listed(builds: Builds) -> None:
    m = axon.compile(
        "fun f (x : f32[n, n]) = let val y = sort x val z = loop (s = y) for t < 5 => sort (for i j => s[j, i] * 2.0) in z @ y end"
    )
    m.f.warmup("f32[64, 64]")
    kernels = sorted({v.kernel for v in m.f.variants})
    assert kernels == list(range(len(kernels)))
    assert len(kernels) > 1
    assert f"kernel {len(kernels)}" in str(m.f.variants)
