"""Kernels built for real, without a GPU: what is kept, what is refused, and what happens in several processes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import axon
from axon.backend import build, cache, worker
from axon.backend.pipeline import Stages
from axon.backend.schedule import Mapping
from axon.backend.target import HOPPER
from axon.core import Unary
from axon.element import Element
from tests.backend.programs import contraction
from tests.backend.test_stages import SMALL, made


def forms(mapping: Mapping = SMALL) -> Stages:
    return made(contraction("ik,jk->ij"), mapping)


def never(*_: Any) -> Any:
    pytest.fail("it was built again")


def test_kernels_are_built_side_by_side_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [forms(), forms(replace(SMALL, stages=3)), forms()]
    kernels = build.build_all(wanted, HOPPER)
    assert all(isinstance(k, build.Kernel) and k.cubin.startswith(b"\x7fELF") and not k.spilled for k in kernels)
    assert kernels[0] == kernels[2] != kernels[1]
    assert len(list(cache.directory().glob("*.cubin"))) == 2
    monkeypatch.setattr(build, "link", never)
    monkeypatch.setattr(build, "Worker", never)
    assert build.build_all(wanted, HOPPER) == kernels


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A compiler that says it worked."""
    seen: list[str] = []

    def link(text: str, *_: Any) -> tuple[bytes, str]:
        seen.append(text)
        return b"\x7fELF", "Compiling entry function 'k'\nUsed 168 registers\n"

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
        build._key(replace(source, text=source.text + "#"), HOPPER),
        build._key(replace(source, threads=384), HOPPER),
        build._key(replace(source, parameters=source.parameters[1:]), HOPPER),
        build._key(source, replace(HOPPER, name="sm_100a")),
    ]
    monkeypatch.setattr(build, "_tools", lambda: ("numba-cuda 99",))
    others.append(build._key(source, HOPPER))
    monkeypatch.setattr(build, "_intrinsics", lambda: "other")
    others.append(build._key(source, HOPPER))
    assert len({key, *others}) == 7


def test_sources_that_differ_in_names_alone_share_their_code() -> None:
    source = "import ptx\nstep = ptx.step(4, grow=True)\n"
    source += "def kernel(a_map, size_I):  # layer 1\n    a = ptx.load(a_map, 'bf16') + size_I\n"
    same = (
        source.replace("a_map", "weights").replace("size_I", "n").replace("layer 1", "layer 2").replace("    a =", "    kernels =")
    )
    assert build.canonical(source) == build.canonical(same)
    for old, new in [
        ("'bf16'", "'f16'"), ("grow", "shrink"), ("ptx.load", "ptx.store"), ("+ size_I", "+ a_map"), ("4", "5"), ("True", "False"),
        ("(a_map, 'bf16')", "(size_I, 'bf16')"), ("a_map, size_I", "size_I, a_map"), ("    a =", "        a ="),
    ]:  # fmt: skip
        changed = source.replace(old, new, 1)
        assert changed != source
        assert build.canonical(source) != build.canonical(changed)


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
    calls = replace(forms().source, text="def kernel(x):\n    y = libdevice.sinf(x)\n")
    made = build._checked(b"", CALLS.format(frame, spilled), scratch=build._scratch(calls))
    assert isinstance(made, build.Kernel) == runs
    none = build._scratch(replace(calls, text="def kernel(x):\n    y = libdevice.expf(x)\n"))
    assert isinstance(build._checked(b"", CALLS.format(frame, spilled), scratch=none), build.Kernel) == (not frame)


@pytest.mark.parametrize("function", ["sin", "cos"])
def test_a_product_with_a_function_that_has_scratch(function: str) -> None:
    """The first mapping is taken, and the matrix products stay asynchronous."""
    case = contraction("ik,jk->ij", result=Element.F32, epilogue=lambda product, extra, at: Unary(function, product))
    kernel = build.compile_source(made(case, Mapping()).source, HOPPER)
    assert not kernel.spilled


def test_what_does_not_fit_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def link(text: str, *_: Any) -> tuple[bytes, str]:
        seen.append(text)
        return b"", "Compiling entry function 'k'\nUsed 255 registers\n8 bytes stack frame\n"

    monkeypatch.setattr(build, "link", link)
    for _ in range(2):
        with pytest.raises(build.RegistersExhausted, match="AX0611"):
            build.build(forms(), HOPPER)
    assert len(seen) == 1


def test_a_compiler_that_fails_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: Any) -> tuple[bytes, str]:
        raise RuntimeError("NVVM_ERROR_COMPILATION")

    monkeypatch.setattr(build, "link", link)
    with pytest.raises(axon.AxonError) as caught:
        build.build(forms(), HOPPER)
    assert caught.value.diagnostics[0].code == "AX0611"
    assert "NVVM_ERROR_COMPILATION" in str(caught.value)


def test_a_worker_that_dies_leaves_its_work_to_us(linked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Dead(worker.Worker):
        def __init__(self) -> None:
            self.process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr(build, "Worker", Dead)
    monkeypatch.setattr(build.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    kernels = build.build_all([forms(), forms(replace(SMALL, stages=3))], HOPPER)
    assert [k.registers for k in kernels if isinstance(k, build.Kernel)] == [168, 168]
    assert len(linked) == 2


class Scripted:
    """A worker that answers each job with its text, in the order in which they came."""

    def __init__(self) -> None:
        self.jobs: list[str] = []

    def send(self, job: dict[str, Any]) -> None:
        self.jobs.append(job["text"])

    def receive(self) -> tuple[bytes, str]:
        return self.jobs.pop(0).encode(), "Compiling entry function 'k'\nUsed 168 registers\n"

    def __exit__(self, *_: Any) -> None:
        assert not self.jobs, "an answer that nobody took"


def test_what_is_not_proved_leaves_no_answer_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "Worker", Scripted)
    monkeypatch.setattr(build.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    several = [forms(replace(SMALL, stages=n)) for n in (3, 4, 5, 6, 7)]
    broken = [replace(s, barriers=replace(s.barriers, fenced=False)) if n in (0, 2) else s for n, s in enumerate(several)]
    with pytest.raises(build.BuildError, match="not proved"):
        build.build_all(broken, HOPPER)
    kept = {file.stem: cache.read(file.stem) for file in cache.directory().glob("*.cubin")}
    sound = {build._key(s.source, HOPPER): s.source.text.encode() for n, s in enumerate(several) if n not in (0, 2)}
    assert {key: k.cubin for key, k in kept.items() if isinstance(k, cache.Kernel)} == sound


def test_a_worker_that_dies_before_the_proof_does_not_skip_it(linked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Scripted):
        def send(self, job: dict[str, Any]) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(build, "Worker", Gone)
    monkeypatch.setattr(build.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
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
        "m = axon.compile('fun f (a : bf16[m, m]) = let val x = a @ a in x @ a + x end')\n"
        "print(len(m.f.warmup('bf16[256, 256]')))\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (ran.stdout, ran.stderr) == ("once\n2\n", "")
