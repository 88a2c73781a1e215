"""Kernels built for real, without a GPU: what is kept, what is refused, and what happens in several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axon
from axon import compiler
from axon.backend import kernel_cache as cache
from axon.backend.gpu.build import cubin as build
from axon.backend.gpu.build import worker
from axon.backend.gpu.build.recipe import Stages, stages, traits
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.runtime.prepare import prepare
from axon.backend.gpu.runtime.steps import Ordered
from axon.backend.gpu.sorting.steps import kernels
from axon.backend.gpu.tile.schedule import TileMapping, ranked
from axon.backend.gpu.tile.stream import Stream
from axon.base.element import Element
from axon.core.ir import Unary
from tests.backend.gpu.programs import contraction
from tests.backend.gpu.test_stages import SMALL, made
from tests.checked import checked

pytestmark = pytest.mark.usefixtures("own_cache")


def forms(mapping: TileMapping = SMALL) -> Stages:
    return made(contraction("ik,jk->ij"), mapping)


def never(*_: Any) -> Any:
    pytest.fail("it was built again")


def test_kernels_are_built_side_by_side_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [forms(), forms(replace(SMALL, stages=3)), forms()]
    kernels = build.build_all(wanted, HOPPER)
    assert all(isinstance(k, build.LinkedKernel) and k.cubin.startswith(b"\x7fELF") and not k.spilled for k in kernels)
    assert kernels[0] == kernels[2] != kernels[1]
    assert len(list(cache.directory().glob("*.cubin"))) == 2
    monkeypatch.setattr(build, "link", never)
    monkeypatch.setattr(build, "crew", never)
    assert build.build_all(wanted, HOPPER) == kernels


@contextmanager
def nobody(_: int) -> Iterator[list[worker.Worker]]:
    """Where no process can be started, kernels are compiled in this one."""
    yield []


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A compiler that says it worked."""
    seen: list[str] = []

    def link(text: str, *_: Any) -> tuple[bytes, str]:
        seen.append(text)
        return b"\x7fELF", "Compiling entry function 'k'\nUsed 168 registers\n"

    monkeypatch.setattr(build, "crew", nobody)
    monkeypatch.setattr(build, "link", link)
    return seen


def test_damage_is_built_again(linked: list[str]) -> None:
    kernel = build.build(forms(), HOPPER)
    (file,) = cache.directory().glob("*.cubin")
    file.write_bytes(file.read_bytes()[:-1])
    assert build.build(forms(), HOPPER) == kernel
    assert build.build(forms(), HOPPER) == kernel
    assert len(linked) == 2


def test_a_limit_that_cannot_be_read_is_refused_before_building(linked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXON_CACHE_SIZE", "much")
    for _ in range(2):
        with pytest.raises(axon.AxonError, match="AX0604"):
            build.build(forms(), HOPPER)
    assert not linked
    monkeypatch.delenv("AXON_CACHE_SIZE")
    build.build(forms(), HOPPER)
    monkeypatch.setenv("AXON_CACHE_SIZE", "much")
    with pytest.raises(axon.AxonError, match="AX0604"):
        build.build(forms(), HOPPER)


def test_the_key_holds_all_that_the_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    source = forms().source
    key = build._key(source, HOPPER)
    assert key == build._key(forms().source, HOPPER)
    others = [
        build._key(replace(source, bare=source.bare + "#"), HOPPER),
        build._key(replace(source, threads=384), HOPPER),
        build._key(replace(source, parameters=source.parameters[1:]), HOPPER),
        build._key(source, replace(HOPPER, compute_capability=(10, 0, "a"))),
    ]
    monkeypatch.setattr(build, "_tools", lambda: ("numba-cuda 99",))
    others.append(build._key(source, HOPPER))
    monkeypatch.setattr(build, "_intrinsics", lambda: "other")
    others.append(build._key(source, HOPPER))
    assert len({key, *others}) == 7


def test_sources_that_differ_in_names_alone_share_their_code() -> None:
    plain, *others = (contraction("ik,jk->ij"), contraction("pq,rq->pr"), contraction("ki,jk->ij"))
    first, renamed, turned = (made(case, SMALL).source for case in (plain, *others))
    assert first.text != renamed.text
    assert build._key(first, HOPPER) == build._key(renamed, HOPPER) != build._key(turned, HOPPER)


def test_what_is_not_proved_is_not_built(linked: list[str]) -> None:
    sound = forms()
    with pytest.raises(build.BuildError, match="not proved"):
        build.build(replace(sound, barriers=replace(sound.barriers, fenced=False)), HOPPER)
    assert not list(cache.directory().glob("*.cubin"))


def test_spills_and_lost_asynchrony_fail_the_build() -> None:
    log = "Compiling entry function 'k'\n 16 bytes stack frame, 16 bytes spill stores, 16 bytes spill loads\nUsed 168 registers\n"
    assert isinstance(build._checked(b"", log), cache.Refused)
    with pytest.raises(build.BuildError, match="asynchrony"):
        build._checked(b"", "Compiling entry function 'k'\nUsed 168 registers\nwarning C7509: wgmma serialized\n")


CALLS = "Compiling entry function 'k'\n {0} bytes stack frame, {1} bytes spill stores, {1} bytes spill loads\nUsed 168 registers\n"


@pytest.mark.parametrize(("frame", "spilled", "runs"), [(0, 0, True), (32, 0, True), (32, 4, False), (40, 0, False)])
def test_the_scratch_of_a_library_function_is_no_spill(frame: int, spilled: int, runs: bool) -> None:
    """sin and cos take 32 bytes for large arguments; what is more, or is spilled, is a tile's registers."""
    calls = replace(forms().source, calls=frozenset(["libdevice.sinf"]))
    made = build._checked(b"", CALLS.format(frame, spilled), scratch=build._scratch(calls))
    assert isinstance(made, build.LinkedKernel) == runs
    none = build._scratch(replace(calls, calls=frozenset(["libdevice.expf"])))
    assert isinstance(build._checked(b"", CALLS.format(frame, spilled), scratch=none), build.LinkedKernel) == (not frame)


@pytest.mark.parametrize("function", ["sin", "cos"] if os.environ.get("AXON_SOAK") else ["cos"])
def test_a_product_with_a_function_that_has_scratch(function: str) -> None:
    """The first mapping is taken, and the matrix products stay asynchronous."""
    case = contraction("ik,jk->ij", result=Element.F32, epilogue=lambda product, extra, at: Unary(function, product))
    kernel = build.compile_source(made(case, TileMapping()).source, HOPPER)
    assert not kernel.spilled


SEVERAL = """fun f (dy : bf16[n, d]) (w : bf16[f, d]) (gate : bf16[n, f]) (up : bf16[n, f]) =
  let val p = for i j => sum k => dy[i, k] * w[j, k]
      fun weight x = 1.0 / (1.0 + exp (-x))
  in (for i j => p[i, j] * gate[i, j] * weight gate[i, j],
      for i j => p[i, j] * up[i, j] * weight gate[i, j] * (1.0 + gate[i, j] * (1.0 - weight gate[i, j]))) end"""


def test_several_results_of_several_operands_do_not_spill() -> None:
    """Piece by piece: what they are computed from need not live from one result to the next."""
    stages = made(compiler.lower(checked(SEVERAL), "f", None), TileMapping(128, 192, stages=4), paired=True)
    writes = [op for role in stages.barriers.roles for op in b.operations(role.body) if isinstance(op, b.Write)]
    assert [(op.column, op.store.tensor.name) for op in writes] == sorted((op.column, op.store.tensor.name) for op in writes)
    assert len({op.store.tensor for op in writes}) == 2
    assert not build.compile_source(stages.source, HOPPER).spilled


CAUSAL = """import nn
fun attend (q : bf16[h, s, c]) (k : bf16[h, s, c]) (v : bf16[h, s, c]) =
  let val w = nn.softmax (nn.causal (for h i j => (sum c => q[h, i, c] * k[h, j, c]) * rsqrt (cast bf16 c)))
  in for h i c => sum j => w[h, i, j] * v[h, j, c] end
fun slopes (q : bf16[h, s, c]) (k : bf16[h, s, c]) (v : bf16[h, s, c]) (d : bf16[h, s, c]) =
  vjp (fn (q, k, v) => attend q k v) (q, k, v) d
"""


def test_two_consumers_read_values_for_each_key() -> None:
    """Of the gradient by keys, which holds two scores and two such values: what is taken to be best fits, in turn or not."""
    program = compiler.lower(checked(CAUSAL), "slopes", None)
    sizes = program.contract.bind((), [(32, 4096, 128)] * 4)
    (planned,) = [executable.serving({}, own).planned for _, executable, own in Ordered(program).at(sizes).foreseen(sizes)]
    streams = [prepare(kernel, planned.lying(sizes), sizes) for kernel in planned.kernels if isinstance(kernel, Stream)]
    (ready,) = [ready for ready in streams if traits(ready.kernel).by_key == 2]
    facts = traits(ready.kernel)
    best = ranked(ready.problem, facts, HOPPER)[:2]
    assert [(mapping.rows, mapping.consumers, mapping.turns) for mapping in best] == [(128, 2, False), (128, 2, True)]
    for mapping in best:
        forms = stages(ready.kernel, mapping, HOPPER, planned.values, ready.granted)
        assert "ptx_tiles.by_column(64, True, True)" in forms.source.text
        assert not build.compile_source(forms.source, HOPPER).spilled


def test_what_does_not_fit_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def link(text: str, *_: Any) -> tuple[bytes, str]:
        seen.append(text)
        return b"", "Compiling entry function 'k'\nUsed 255 registers\n8 bytes stack frame\n"

    monkeypatch.setattr(build, "crew", nobody)
    monkeypatch.setattr(build, "link", link)
    for _ in range(2):
        with pytest.raises(build.RegistersExhausted, match="AX0611"):
            build.build(forms(), HOPPER)
    assert len(seen) == 1


def test_a_compiler_that_fails_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: Any) -> tuple[bytes, str]:
        raise RuntimeError("NVVM_ERROR_COMPILATION")

    monkeypatch.setattr(build, "crew", nobody)
    monkeypatch.setattr(build, "link", link)
    with pytest.raises(axon.AxonError) as caught:
        build.build(forms(), HOPPER)
    assert caught.value.diagnostics[0].code == "AX0611"
    assert "NVVM_ERROR_COMPILATION" in str(caught.value)


@pytest.fixture
def afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No worker is kept from before, nor for what comes after."""
    kept: list[worker.Worker] = []
    monkeypatch.setattr(worker, "_kept", kept)
    yield
    for one in kept:
        one.stop()


@pytest.mark.usefixtures("afresh")
def test_a_worker_that_dies_leaves_its_work_to_us(linked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Dead(worker.Worker):
        def __init__(self) -> None:
            self.process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr(worker, "Worker", Dead)
    monkeypatch.setattr(build, "crew", worker.crew)
    monkeypatch.setattr(build.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    kernels = build.build_all([forms(), forms(replace(SMALL, stages=3))], HOPPER)
    assert [k.registers for k in kernels if isinstance(k, build.LinkedKernel)] == [168, 168]
    assert len(linked) == 2


@pytest.mark.usefixtures("afresh")
def test_a_worker_that_was_idle_for_too_long_leaves_no_pipe_open() -> None:
    with worker.crew(1) as first:
        (idle,) = first
    idle.process.kill()
    idle.process.wait()
    with worker.crew(1) as (another,):
        assert another is not idle
        assert another.runs
    assert idle.process.stdin is not None
    assert idle.process.stdout is not None
    assert idle.process.stdin.closed
    assert idle.process.stdout.closed


class Scripted(worker.Worker):
    """A worker that answers each job with its text, in the order in which they came."""

    def __init__(self) -> None:
        self.jobs: list[str] = []
        self.there, self.here = os.pipe()

    def send(self, job: dict[str, Any]) -> None:
        self.jobs.append(job["text"])
        os.write(self.here, b"x")

    def receive(self) -> tuple[bytes, str]:
        os.read(self.there, 1)
        return self.jobs.pop(0).encode(), "Compiling entry function 'k'\nUsed 168 registers\n"

    def fileno(self) -> int:
        return self.there


def two(kind: type[Scripted]) -> Any:
    @contextmanager
    def crew(_: int) -> Iterator[list[worker.Worker]]:
        workers: list[worker.Worker] = [kind(), kind()]
        try:
            yield workers
        finally:
            for one in workers:
                assert isinstance(one, Scripted)
                assert not one.jobs, "an answer that nobody took"
                os.close(one.here)
                os.close(one.there)

    return crew


def test_what_is_not_proved_leaves_no_answer_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "crew", two(Scripted))
    several = [forms(replace(SMALL, stages=n)) for n in (3, 4, 5, 6, 7)]
    broken = [replace(s, barriers=replace(s.barriers, fenced=False)) if n in (0, 2) else s for n, s in enumerate(several)]
    with pytest.raises(build.BuildError, match="not proved"):
        build.build_all(broken, HOPPER)
    kept = {file.stem: cache.read(file.stem) for file in cache.directory().glob("*.cubin")}
    sound = {build._key(s.source, HOPPER): s.source.text.encode() for n, s in enumerate(several) if n not in (0, 2)}
    assert {key: k.cubin for key, k in kept.items() if isinstance(k, cache.LinkedKernel)} == sound


def test_a_worker_that_dies_before_the_proof_does_not_skip_it(linked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Scripted):
        def send(self, job: dict[str, Any]) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(build, "crew", two(Gone))
    broken = [replace(s, barriers=replace(s.barriers, fenced=False)) for s in (forms(), forms(replace(SMALL, stages=3)))]
    with pytest.raises(build.BuildError, match="not proved"):
        build.build_all(broken, HOPPER)
    assert linked == []


def test_a_script_without_a_guard_can_build(tmp_path: Path) -> None:
    """Workers do not import the main module again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import axon\n"
        "print('once')\n"
        "m = axon.compile('fun f (x : f32[n]) = (for i => exp x[i], sum i => x[i])')\n"
        "print(len(m.f.warmup('f32[256]')) > 1)\n"
        "from axon.backend.gpu.build import worker\n"
        "print(len(worker._kept) > 0)\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (ran.stdout, ran.stderr) == ("once\nTrue\nTrue\n", "")


# ── Ctrl-C ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

FOREVER = """
import os, time
from axon.backend.gpu.build import worker

def link(*_):
    os.write(2, b"compiling\\n")  # in one piece: several do so at once
    time.sleep(600)

worker.link = worker.assembly = link
worker.main()
"""
WAITS = """
import sys
from axon.backend.gpu.build import cubin as build, worker
from axon.backend.gpu.layout.target import HOPPER
from tests.backend.gpu.build.test_build import Forever, SMALL, forms, replace

worker.Worker = Forever
count = int(sys.argv[1])
try:
    if count:
        build.build_all([forms(replace(SMALL, stages=3 + n)) for n in range(count)], HOPPER)
    else:
        build.ptx(forms().source, HOPPER)
except KeyboardInterrupt:
    print("interrupted", len(list(build.cache.directory().glob("*.part"))))
"""


class Forever(worker.Worker):
    """A worker whose compiler never comes to an end."""

    def __init__(self) -> None:
        with worker.without_interruptions():
            self.process = subprocess.Popen([sys.executable, "-c", FOREVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def children(pid: int) -> set[int]:
    ran = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
    rows = [line.split() for line in ran.stdout.splitlines()]
    return {int(child) for child, parent, state in rows if int(parent) == pid and not state.startswith("Z")}


def alive(pid: int) -> bool:
    ran = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(ran.stdout.strip()) and not ran.stdout.startswith("Z")


@contextmanager
def waiting(count: int) -> Iterator[tuple[subprocess.Popen[str], set[int]]]:
    """A process in whose terminal kernels are built for ever, and its workers."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell starts background jobs deaf to it
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "compiling\n"
        yield process, children(process.pid)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("count", "whole"), [(0, True), (0, False), (1, False), (3, True)])
def test_an_interruption_ends_the_build(count: int, whole: bool) -> None:
    """Ctrl-C reaches whatever runs in the terminal; a notebook interrupts the process alone. Of no kernel, its PTX is made."""
    with waiting(count) as (process, workers):
        assert workers
        began = time.monotonic()
        (os.killpg if whole else os.kill)(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert time.monotonic() - began < 10.0
        assert out == "interrupted 0\n"
        assert not set(err.splitlines()) - {"compiling"}
        assert not any(map(alive, workers))


def test_workers_end_with_their_parent() -> None:
    with waiting(2) as (process, workers):
        process.kill()
        process.wait()
        until = time.monotonic() + 30.0
        while any(map(alive, workers)) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(map(alive, workers))


@pytest.mark.usefixtures("afresh", "ctrl_c")
def test_what_was_interrupted_is_built_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(worker, "Worker", Forever)
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            build.build(forms(), HOPPER)
    assert not list(cache.directory().glob("*.cubin"))
    assert build.build(forms(), HOPPER).registers > 0


@pytest.mark.usefixtures("afresh")
def test_a_listing_is_made_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    source = forms().source
    with monkeypatch.context() as patch:
        patch.setattr(build, "assembly", never)
        text = build.ptx(source, HOPPER)
    assert len(worker._kept) == 1
    monkeypatch.setattr(build, "crew", nobody)  # where no process can be started: here
    entry = text.index(".visible .entry kernel(")
    assert text[entry : text.index(")", entry)] in build.ptx(source, HOPPER)


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("answers", [False, True])
def test_a_listing_that_fails(monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    """Of a worker that is killed it is made here; what a compiler says is said."""
    broken = replace(forms().source, text="def kernel(x):\n    nothing(x)\n")
    if answers:
        with pytest.raises(build.BuildError, match="TypeError"):
            build.ptx(broken, HOPPER)
        return
    sent = worker.Worker.send

    def send(self: worker.Worker, job: Any) -> None:
        self.process.kill()
        self.process.wait()
        sent(self, job)

    monkeypatch.setattr(worker.Worker, "send", send)
    assert ".visible .entry kernel(" in build.ptx(forms().source, HOPPER)


@pytest.mark.usefixtures("afresh")
def test_a_worker_is_kept_for_the_next_kernel() -> None:
    with worker.crew(2) as first:
        assert len(first) == 2
        processes = [one.process for one in first]
    assert [process.poll() is None for process in processes] == [True, False]
    second = worker.crew(1)
    assert [one.process for one in second.__enter__()] == processes[:1]
    assert not second.__exit__(KeyError, KeyError(), None)
    assert processes[0].poll() is not None
    assert not worker._kept


def test_a_chip_is_a_target_that_nothing_lists() -> None:
    """Plain kernels are built for any, by workers too; two of the same instructions share machine code."""
    other = replace(HOPPER, compute_capability=(8, 9, ""))
    kernel = kernels(Element.F32, 1, other)[-1]
    (mine,), (theirs,) = (build.build_all([kernel], target) for target in (HOPPER, other))
    assert isinstance(mine, build.LinkedKernel)
    assert isinstance(theirs, build.LinkedKernel)
    assert (mine.cubin[49], theirs.cubin[49]) == (90, 89)  # of an ELF file's flags, the architecture
    assert build._key(kernel.source, replace(HOPPER, multiprocessors=114)) == build._key(kernel.source, HOPPER)
