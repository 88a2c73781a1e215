"""What a pass breaks stops there, with the name of the pass, in every run: the passes are made to break real programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.cpu.executable import CpuExecutable
from axon.backend.gpu.emit.source import emitted
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.roles import lower as lower_roles
from axon.backend.gpu.roles.ir import Put, RoleFor
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.foreseen import made as made_by_part
from axon.backend.gpu.runtime.foreseen import reads
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.gpu.runtime.ways import plan
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.ir import For, Load
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Function, Import, Module, Name, call
from axon.backend.plan.deaths import lives_of
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.base.passes import PASSES, FormInvalid, watched
from axon.checker.loader import FileLoader
from axon.core.ir import Binary, Program
from axon.core.passes.parts import Straight, parts, straights
from axon.core.printer import print_program
from axon.core.verify import LARGE, CoreInvalid, verify
from axon.pass_table import PIPELINES
from axon.shapes.dimension import Dim
from tests import ROOT
from tests import form_mutants as m
from tests.backend.gpu.programs import contraction
from tests.backend.gpu.test_stages import SMALL
from tests.backend.gpu.test_stages import made as stages_of
from tests.sample import named

ACCEPTED = ROOT / "tests" / "corpus" / "accepted"

ATTENTION = """
fun attention (q : f32[n, d]) (k : f32[m, d]) (v : f32[m, e]) =
  let val s = for i j => sum l => q[i, l] * k[j, l]
      val p = for i j => exp (s[i, j] - max j2 => s[i, j2])
  in for i x => (sum j => p[i, j] * v[j, x]) / (sum j => p[i, j]) end
"""
LOOP = """
fun power (a : f32[n, n]) (x : f32[n]) =
  let val y = loop (s = x) for t < 5 => let val w = for i => sum j => a[i, j] * s[j] in for i => w[i] / (sum j => abs w[j]) end
  in (y, sum i => x[i] * y[i]) end
"""
GRADIENT = (
    "import nn\nfun gradient (q : bf16[b, t, 64]) (k : bf16[b, s, 64]) (v : bf16[b, s, 64]) (dy : bf16[b, t, 64]) ="
    " vjp (fn (q, k, v) => nn.attention q k v) (q, k, v) dy"
)
PRODUCT = "fun product (a : bf16[n, 64]) (b : bf16[64, m]) = for i j => max_ (sum k => a[i, k] * b[k, j])".replace("max_", "exp")
TABLE = f"fun table (x : f32[n]) = for i => x[i] * [|{', '.join(f'{k}.5' for k in range(32))}|][i % 32]"


@pytest.fixture(autouse=True)
def as_users_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AXON_VERIFY", raising=False)


def lowered(text: str, name: str) -> Program:
    return compiler.lower(compiler.check_text(text), name, None)


@cache
def sample() -> tuple[Program, ...]:
    """Programs of the corpus, and some of which one has everything that a pass can break."""
    found = []
    for file in named(sorted(ACCEPTED.glob("*.axon")), 10):
        checked = compiler.check(FileLoader(), str(file))
        for name in list(checked.signatures)[:2]:
            with suppress(AxonError):  # it has no general variant
                found.append(compiler.lower(checked, name, None))
    return (*found, lowered(ATTENTION, "attention"), lowered(LOOP, "power"), lowered(PRODUCT, "product"))


def stops(name: str, run: Callable[[], object]) -> None:
    """A run stops with AX0001, whose note names the pass."""
    with pytest.raises(AxonError) as raised:
        run()
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "AX0001"
    assert diagnostic.notes[0].startswith(f"after `{name}`: "), diagnostic.notes


Change = Callable[[Any], Iterator[m.Mutant]]
Run = Callable[[Program], object]


def broken(name: str, change: Change, run: Run, programs: Any = None, count: int = 12) -> set[str]:
    """Has a pass make something broken of programs, in every way, and says in which ways it was stopped."""
    made_by, kinds = PASSES[name], set[str]()
    right = made_by.run
    random = Random(name)
    for program in programs or sample():
        made: list[Any] = []

        def once(*args: Any, made: list[Any] = made, **kwargs: Any) -> Any:
            made.append(right(*args, **kwargs))
            return made[-1]

        made_by.run = once
        try:
            run(program)
            for form in made[:1]:
                for what, mutant in m.picked(change(form), random, count):
                    made_by.run = lambda *args, mutant=mutant, **kwargs: mutant
                    try:
                        stops(name, lambda: run(program))  # noqa: B023
                    except BaseException:
                        print(what, "\n", print_program(program))
                        raise
                    kinds.add(what)
        finally:
            made_by.run = right
    return kinds


def on_cpu(program: Program) -> object:
    return compiler.emit(program, "plan", None)


def on_gpu(program: Program) -> object:
    with compiler._phase("making kernels"):
        return Stepped(program)


def test_the_list_is_what_runs() -> None:
    """In this order, the first time each; and every pass is one of a target."""
    lowered(LOOP, "power")
    assert {stage.name for stages in PIPELINES.values() for stage in stages} == {*PASSES, "lower_roles", "emit"}
    for name, made_by in PASSES.items():
        forms = {(stage.takes, stage.gives) for stages in PIPELINES.values() for stage in stages if stage.name == name}
        assert forms == {(made_by.takes, made_by.gives)}, name
    found: dict[str, set[str]] = {"cpu": set(), "cuda": set()}
    for program in sample():
        for target in found:
            with watched() as seen:
                if target == "cuda":
                    on_gpu(program)
                else:
                    lives_of(CpuExecutable(program).plan.body)
            ran = list(dict.fromkeys(name for name, _ in seen))
            listed = [stage.name for stage in PIPELINES[target]]
            assert ran == sorted(ran, key=listed.index), (target, program.name)
            found[target] |= set(ran)
    with watched() as seen:
        staged(contraction("ik,kj->ij").program)
    assert [name for name, _ in seen][-2:] == ["tile", "roles"]
    assert found["cpu"] == {stage.name for stage in PIPELINES["cpu"]} - {"lower"}
    assert found["cuda"] >= {"core_cse", "factor", "hoist", "tables", "parts", "dissolve", "fuse", "kernels"}


def test_lowering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is interpreted, compiled, or shown."""
    kinds = set()
    lower = compiler._lowering()
    for program in sample():
        for what, mutant in m.picked(m.programs(program), Random(program.name), 12):
            with monkeypatch.context() as patch:
                patch.setattr(lower, "run", lambda *_, mutant=mutant: mutant)
                stops("lower", lambda: lowered("fun f x = x + 1.0", "f"))
            kinds.add(what)
    assert len(kinds) > 20, kinds


def test_a_call_of_a_broken_program_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    right = compiler._lowering().run

    def wrong(*args: Any) -> Program:
        program = right(*args)
        return replace(program, block=replace(program.block, ops=program.block.ops[::-1]))

    monkeypatch.setattr(compiler._lowering(), "run", wrong)
    module = axon.compile("fun f (x : f32[n, m]) = for i => (sum j => x[i, j]) / (max i2 => sum j => x[i2, j])")
    for target in ("interpret", "cpu", "simulate"):
        stops("lower", lambda: module.f(np.ones((3, 4), np.float32), target=target))  # noqa: B023


@pytest.mark.parametrize("run", [on_cpu, on_gpu])
@pytest.mark.parametrize("name", ["core_cse", "factor", "dissolve", "hoist"])
def test_core_to_core(name: str, run: Callable[[Program], object]) -> None:
    assert len(broken(name, m.rewritten, run)) > 15


def test_tables() -> None:
    def change(made: Any) -> Iterator[m.Mutant]:
        rest, tables = made
        for what, program in m.rewritten(rest):
            yield what, (program, tables)
        if tables:
            yield "a table less", (rest, ())
            for what, op in m.operations(tables[0]):
                yield f"{what}, of a table", (rest, (op, *tables[1:]))

    kinds = broken("tables", change, on_cpu, [lowered(TABLE, "table")], count=100)
    assert len(kinds) > 15
    assert "a table less" in kinds
    assert any("of a table" in kind for kind in kinds)


def test_what_streams_make_again() -> None:
    def change(made: Any) -> Iterator[m.Mutant]:
        for what, program in m.rewritten(made.program):
            yield what, replace(made, program=program)

    assert len(broken("recompute", change, on_gpu, [lowered(GRADIENT, "gradient")], count=60)) > 10


def test_plans() -> None:
    kinds = broken("fuse", m.plans, on_cpu)
    assert len(kinds) > 20, kinds
    assert broken("split_totals", m.plans, on_cpu) >= {"a kernel dropped", "nothing stored"}


def test_what_is_freed_too_early() -> None:
    def change(found: Any) -> Iterator[m.Mutant]:
        for n, dying in enumerate(found.dying):
            for symbol in dying:
                for earlier in range(n):
                    sooner = tuple(s | {symbol} if k == earlier else s for k, s in enumerate(found.dying))
                    yield "freed", replace(found, dying=sooner)

    chain = """fun f (x : f32[n, n]) = let val a = for i j => exp x[j, i]
      val b = for i j => a[j, i] + 1.0 / a[i, j] in for i j => b[j, i] / a[j, i] end"""
    program = lowered(chain, "f")
    given = [np.ones((400, 400), np.float32)]  # so large that kernels stay apart
    run = compiler.host(program)

    def call(_: Program) -> object:
        run.executable()._lives.clear()
        return compiler.run(run, given, (), compiled=True)

    call(program)
    run.executable()
    assert broken("deaths", change, call, [program]) == {"freed"}
    kernels = run.executable().plan.body
    late = (*[frozenset[Symbol]()] * (len(kernels.kernels) - 1), frozenset(kernels.results))
    wrong = replace(lives_of(kernels), dying=late)
    with pytest.raises(FormInvalid, match=r"the result .* is freed"):
        lives_of.verify(wrong, kernels)


def test_parts() -> None:
    def change(split: Any) -> Iterator[m.Mutant]:
        body = split.body
        for n, part in enumerate(body.parts):
            made = {v.symbol for v in made_by_part(part)}
            if made.intersection(body.results) or any(made & reads for reads in map(reads, body.parts[n + 1 :])):
                yield "a part dropped", replace(split, body=replace(body, parts=(*body.parts[:n], *body.parts[n + 1 :])))
            if isinstance(part, Straight):
                for what, program in m.programs(part.program):
                    mine = replace(part, program=program)
                    yield what, replace(split, body=replace(body, parts=(*body.parts[:n], mine, *body.parts[n + 1 :])))

    assert len(broken("parts", change, on_gpu)) > 15


def test_kernels_of_a_gpu() -> None:
    def change(made: Any) -> Iterator[m.Mutant]:
        for n, kernel in enumerate(made):
            ways = m.on_tensor_cores(kernel) if isinstance(kernel, MatrixProduct) else m.changed_kernels(kernel)
            for what, changed in ways:
                yield what, (*made[:n], changed, *made[n + 1 :])
        yield "no kernels", ()

    kinds = broken("kernels", change, on_gpu)
    assert len(kinds) > 15
    assert kinds >= {"a factor of another rank", "a result at an axis too few", "a subscript too few", "nothing stored"}


def test_what_lies_in_others(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """import tensor
      fun f (x : bf16[m, k]) (a : bf16[k, n]) (b : bf16[k, p]) = tensor.concat (x @ a) (x @ b)"""
    program = lowered(text, "f")
    sizes = program.contract.bind((), [(64, 32), (32, 48), (32, 40)])

    def changed(made: Any) -> Iterator[m.Mutant]:
        (assembly,) = made.assemblies
        first, second = assembly.parts
        longer = replace(first, start=(*first.start, Dim.of(0)))
        retyped = replace(first, value=replace(first.value, element=Element.F16))
        for what, views in [
            ("a part less", (first,)),
            ("a part twice", (first, second, second)),
            ("a view of another rank", (longer, second)),
            ("a part of another element type", (retyped, second)),
            ("a part of something else", (replace(first, source=second.value.symbol), second)),
        ]:
            yield what, replace(made, assemblies=(replace(assembly, parts=views),))
        yield "a part that nobody makes", replace(made, kernels=made.kernels[1:])
        yield "nothing lies there", replace(made, assemblies=())

    (part,) = straights(parts(program).body)
    way = Executable(part.program).serving({}, sizes).planned.way
    with watched() as seen:
        assert plan(part.program, HOPPER, way).assembled
    (form,) = (form for name, form in seen if name == "in_place")
    for what, mutant in changed(form):
        print(what)
        monkeypatch.setattr(PASSES["in_place"], "run", lambda *_, mutant=mutant: mutant)
        with pytest.raises(FormInvalid, match="after `in_place`"):
            plan(part.program, HOPPER, way)


# ── below the plan ──────────────────────────────────────────────────────────────────────────────────────────────────────


def staged(program: Program) -> object:
    with compiler.guarded("making kernels"):
        return stages_of(program, SMALL)


def without(body: tuple[Any, ...], kind: type, loop: type) -> tuple[Any, ...]:
    kept = tuple(s for s in body if not isinstance(s, kind))
    return tuple(replace(s, body=without(s.body, kind, loop)) if isinstance(s, loop) else s for s in kept)


def test_tiles_and_roles() -> None:
    """By rules, not by assertions, which `python -O` leaves out."""
    program = [contraction("ik,kj->ij").program]

    def tiles(made: Any) -> Iterator[m.Mutant]:
        yield "no loads", replace(made, body=without(made.body, Load, For))

    def roles(made: Any) -> Iterator[m.Mutant]:
        yield "no puts", replace(made, producer=without(made.producer, Put, RoleFor))

    assert broken("tile", tiles, staged, program)

    assert broken("roles", roles, staged, program)


def test_what_is_not_proved_is_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lower_roles.lower
    monkeypatch.setattr(lower_roles, "lower", lambda *args: replace(right(*args), fenced=False))
    with pytest.raises(AxonError, match="AX0001") as raised:
        compiler.simulate(lowered(PRODUCT, "product"), [np.ones((64, 64), Element.BF16.dtype)] * 2, ())
    assert "after `lower_roles`: " in raised.value.diagnostics[0].notes[0]


def test_emitted_kernels() -> None:
    """A name that a writer forgets to assign would be a zero for numba, which compiles kernels of GPUs."""

    def function(write: Callable[[Code, Name, Name], None]) -> Function:
        code = Code()
        x, y, first = code.named("x"), code.named("y"), code.named("first")
        with code.when(first < 1):
            code.assign(y, 1.0)
        write(code, y, first)
        return code.function("f", (x, first))

    for write, why in [
        (lambda code, y, _: code.give(y), "after `emit`: 'y' is read before it is assigned, in the emitted function `f`"),
        (lambda code, _, first: code.assign(first, 1), "the parameter 'first' is assigned"),
    ]:
        with pytest.raises(FormInvalid, match=why):
            function(write)
    made = function(lambda code, _, first: code.give(call("expo", first)))
    with pytest.raises(FormInvalid, match="after `emit`: 'expo' is not defined"):
        emitted(Module((), (made,)), (), 1, 1, 0)
    assert emitted(Module(((Import("math", ("expo",)),),), (made,)), (), 1, 1, 0).text.startswith(
        "from math import expo\n\n\ndef f("
    )


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_shared_expressions_are_looked_at_once() -> None:
    program = lowered("fun f (x : f32[n]) = for i => x[i] + 1.0", "f")
    (op,) = program.block.ops
    body = op.body[0]  # type: ignore[union-attr]
    for _ in range(60):
        body = Binary("add", body, body)
    verify(replace(program, block=replace(program.block, ops=(replace(op, body=(body,)),))))
    assert LARGE < 2**20
    wrong = Binary("add", body, m.first(op, lambda n: isinstance(n, Binary), lambda n: replace(n, op="and")).body[0])  # type: ignore[arg-type, union-attr]
    with pytest.raises(CoreInvalid, match="the left operand of and"):
        verify(replace(program, block=replace(program.block, ops=(replace(op, body=(wrong,)),))))
