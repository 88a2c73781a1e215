"""Operators of PyTorch around libraries for C: what they give, their shapes under export, and that they need no Axon to run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.c.header import Described
from axon.backend.c.library import operator_of
from axon.base.errors import AxonError
from axon.host.build import build
from tests import ROOT
from tests.sample import ALL, SOAK

torch = pytest.importorskip("torch")
if shutil.which("c++") is None:
    pytest.skip("there is no C++ compiler", allow_module_level=True)

MODULE = """
fun f {h} (p : { w : f32[d, k], lambda : f32 }, flag : bool) (x : bf16[n + 1, d]) (ids : i32[n]) where h <= n =
  { y = for i < n, j => if flag then p.lambda * sum d => cast f32 x[i, d] * p.w[d, j] else cast f32 ids[i],
    head = for i < h => ids[i], total = sum i => ids[i], windows = for i < (n - h) / 2 + 1 => ids[2 * i] }
fun scalars (x : f32) = for i < 3 => x
fun some (x : f32[n]) = filter (for i => x[i] > 0.0) x
fun root (x : f32[n * n]) = for i < n => x[i]
fun pick (x : f32[n]) (ids : i32[k]) = { picked = for i => x[ids[i]], more = for i => x[i] + 1.0 }
fun numbers (Tensor : bf16[n]) (std : bf16) (h : f16) (e : f8e4m3) (k : i32) (u : u64) =
  { y = for i => Tensor[i] * std, h = for i < n => h, e = for i < n => e, k = for i < n => k, u = for i < n => u }
"""
RUN = """
import sys, torch
torch.ops.load_library(sys.argv[1])
x = torch.ones(5, 3, dtype=torch.bfloat16)
y, head, total, windows = torch.ops.axon_built.f(2, torch.ones(3, 2), 2.0, True, x, torch.arange(4, dtype=torch.int32))
assert y.tolist() == [[6.0, 6.0]] * 4 and int(total) == 6 and head.tolist() == [0, 1] and windows.tolist() == [0, 2]
assert "axon" not in sys.modules and "numba" not in sys.modules
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("torch")
    session = axon.compile(MODULE)._session
    made = build(session, session.callee("f"), str(place), {}, {}, {}, {}, torch=True)
    names = ["axon_f.h", "axon_f.c", "axon_f.o", "libaxon_f.so", "axon_f_torch.cpp", "axon_f_torch.py", "libaxon_f_torch.so"]
    assert [Path(file).name for file in made.files] == names
    return place


@pytest.fixture(scope="module")
def operator(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("axon_f_torch", folder / "axon_f_torch.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return torch.ops.axon_built.f


def given(n: int, d: int = 3, k: int = 2) -> list[Any]:
    ids = torch.arange(n, dtype=torch.int32)
    return [2, torch.randn(k, d).T, 1.5, True, torch.randn(n + 1, d).bfloat16(), ids]  # strides are any


def test_it_is_what_python_computes(operator: Any) -> None:
    h, w, number, flag, x, ids = given(7)
    wanted = axon.compile(MODULE).f[h](({"w": w, "lambda": number}, flag), x, ids)
    found = dict(zip(("y", "head", "total", "windows"), operator(h, w, number, flag, x, ids), strict=True))
    assert found["y"].shape == (7, 2)
    for name, value in wanted.items():
        assert np.allclose(found[name].numpy(), np.asarray(value), rtol=1e-5, atol=1e-5), name
        assert found[name].dtype == value.dtype


@pytest.mark.skipif(not ALL, reason="it takes some seconds")
def test_it_is_an_operator(operator: Any) -> None:
    torch.library.opcheck(operator, given(5), test_utils=("test_schema", "test_faketensor"))


def test_what_is_wrong_is_said(operator: Any) -> None:
    arguments = given(5)
    for place, wrong, said in (
        (5, arguments[5][:3], "dimension 1 of `x` is 6, and must be 4"),
        (5, arguments[5].long(), "`ids` is of another element type"),
        (5, arguments[5][None], "`ids` has rank 2, and must have 1"),
        (0, 6, "the contract `h <= n` does not hold"),
    ):
        with pytest.raises(RuntimeError) as raised:
            operator(*arguments[:place], wrong, *arguments[place + 1 :])
        assert said in str(raised.value)


def test_it_has_no_derivative_and_says_so(operator: Any) -> None:
    h, w, number, flag, x, ids = given(5)
    result = operator(h, w.requires_grad_(), number, flag, x, ids)[0]
    with pytest.raises(RuntimeError, match="`f`, as `axon build` made it, has no derivative"):
        result.float().sum().backward()


class Twice(torch.nn.Module):  # type: ignore[misc]
    def forward(self, w: Any, x: Any, ids: Any) -> Any:
        return torch.ops.axon_built.f(2, w, 1.5, True, x, ids)[0] * 2


def exported(operator: Any) -> Any:
    _, w, _, _, x, ids = given(9)
    auto = torch.export.Dim.DYNAMIC
    return torch.export.export(Twice(), (w, x, ids), dynamic_shapes=({}, {0: auto}, {0: auto}))


def test_sizes_stay_open_under_export(operator: Any) -> None:
    made = exported(operator).module()
    for n in (4, 12):
        h, w, number, flag, x, ids = given(n)
        assert torch.equal(made(w, x, ids), operator(h, w, number, flag, x, ids)[0] * 2)


def test_it_runs_without_axon(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, str(folder / "libaxon_f_torch.so")]
    subprocess.run(command, check=True, timeout=120, cwd=tmp_path)


@pytest.mark.skipif(not SOAK, reason="AOTInductor takes minutes")
def test_a_package_of_aotinductor(operator: Any, folder: Path, tmp_path: Path) -> None:
    package = torch._inductor.aoti_compile_and_package(exported(operator), package_path=str(tmp_path / "m.pt2"))
    code = f"""
import sys, torch
torch.ops.load_library({str(folder / "libaxon_f_torch.so")!r})
run = torch._inductor.aoti_load_package({package!r})
for n in (4, 12):
    w, x, ids = torch.randn(3, 2), torch.randn(n + 1, 3).bfloat16(), torch.arange(n, dtype=torch.int32)
    assert torch.allclose(run(w, x, ids), 3.0 * x[:n].float() @ w, atol=1e-4)
assert "axon" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, cwd=tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [("scalars", "takes no tensor"), ("some", "has a size that only the data decide"), ("root", "is the root of another one")],
)
def test_what_is_no_operator(name: str, said: str, tmp_path: Path) -> None:
    session = axon.compile(MODULE)._session
    with pytest.raises(AxonError) as raised:
        build(session, session.callee(name), str(tmp_path), {}, {}, {}, {}, torch=True)
    assert raised.value.diagnostics[0].code == "AX0614"
    assert said in raised.value.diagnostics[0].message


def test_numbers(tmp_path: Path) -> None:
    """A number of 16 or 8 bits is rounded as PyTorch does; one that an integer's type has not is refused, and never wraps."""
    session = axon.compile(MODULE)._session
    build(session, session.callee("numbers"), str(tmp_path), {}, {}, {}, {}, torch=True)
    torch.ops.load_library(str(tmp_path / "libaxon_numbers_torch.so"))
    x = torch.arange(3, dtype=torch.bfloat16)

    def called(std: float, h: float, e: float, k: int, u: int) -> list[float]:
        return [part[2].item() for part in torch.ops.axon_built.numbers(x, std, h, e, k, u)]

    least, most = -(1 << 31), (1 << 63) - 1
    assert called(2.5, 1e-3, -0.3, least, most) == [5.0, float(torch.tensor(1e-3).half()), -0.3125, least, most]
    for k, u, said in ((1 << 31, 0, "`k` must hold i32, and 2147483648"), (0, -5, "`u` must hold u64, and -5")):
        with pytest.raises(RuntimeError, match=rf"error\[AX0504\]: {said} is outside its range"):
            called(2.5, 1.0, 1.0, k, u)


# ── for GPUs, on a driver that says what it is asked (libcuda.c) ────────────────────────────────────────────────────────────

ON_THE_HOST = {  # what stands in the C++ of an operator for GPUs, and in that of one whose tensors lie here
    "is_cuda()": "is_cpu()",
    "(axon_built, CUDA, library)": "(axon_built, CPU, library)",
    "const torch::stable::accelerator::DeviceGuard ax_on(": "const struct Guard { int32_t id; ~Guard() {} } ax_on(",
}
STREAM = "int aoti_torch_get_current_cuda_stream(int device, void **stream) { *stream = (void *)0x77; return device != -1; }"
# What any library may bring into a process: of the constructors of streams that C++20 has, which no version tells apart.
FOREIGN = """
#include <stdlib.h>
void _ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev(void *made) { (void)made; abort(); }
"""
LATER = """
import ctypes, os, sys, torch
folder = sys.argv[1]
for name in ("libtorch_cuda.so", "libforeign.so"):
    ctypes.CDLL(f"{folder}/{name}", ctypes.RTLD_GLOBAL)
torch.ops.load_library(f"{folder}/libaxon_pick_torch.so")
pick, x, ids = torch.ops.axon_built.pick, torch.zeros(101)[1:], torch.arange(7, dtype=torch.int32)
assert [part.shape for part in pick(x, ids)] == [(7,), (100,)]
assert [part.shape for part in pick(x[:50], ids[:0])] == [(0,), (50,)]  # at sizes without a table, of which one is 0
os.environ["FAKE"] = "stop"
pick(x, ids + 96)
del os.environ["FAKE"]
for arguments in ((x, ids), (x, ids.long()), (x, ids[None])):
    try:
        pick(*arguments)
    except RuntimeError as error:
        print(f"SAID {error}")
pick(x, ids)
os.environ["FAKE"] = "context"
try:
    pick(x, ids)
except RuntimeError as error:
    print(f"SAID {error}")
"""
SAID = [
    "error[AX0511]: a kernel stopped: an index computed from data was out of bounds, or integer arithmetic had no result",
    "error[AX0504]: `ids` is of another element type than this operator",
    "error[AX0506]: `ids` has rank 2, and must have 1",
    "error[AX0612]: this thread has no current context of a GPU: cudaSetDevice gives it one",
]


@pytest.mark.skipif(torch.version.cuda is not None, reason="this PyTorch has a libtorch_cuda.so of its own")
def test_what_an_operator_for_gpus_says(tmp_path: Path) -> None:
    """What only data show is said by a later call, of tensors that begin anywhere, and whatever else the process has loaded."""
    session = axon.compile(MODULE)._session
    callee = session.callee("pick")
    build(session, callee, str(tmp_path), {}, {}, {}, {}, target="cuda", at=[{"n": 100, "k": 7}], torch=True)
    source = tmp_path / "axon_pick_torch.cpp"
    text = source.read_text()
    for there, here in ON_THE_HOST.items():
        assert text.count(there) >= 1
        text = text.replace(there, here)
    source.write_text(text)
    about = Described("axon_pick", "pick", "", callee.signature, str, "native")
    operator_of(about, tmp_path, Path(torch.__file__).parent, ["c++"])
    (tmp_path / "libcuda.c").write_text((ROOT / "tests/backend/c/libcuda.c").read_text())
    (tmp_path / "stream.c").write_text(STREAM)
    (tmp_path / "foreign.c").write_text(FOREIGN)
    for file, library in (("libcuda.c", "libcuda.so.1"), ("stream.c", "libtorch_cuda.so"), ("foreign.c", "libforeign.so")):
        command = ["cc", "-shared", "-fPIC", "-w", file, f"-Wl,-soname,{library}", "-o", library]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", LATER, str(tmp_path)],
        env={**os.environ, "LD_LIBRARY_PATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert [line.removeprefix("SAID ") for line in lines if line.startswith("SAID")] == SAID
    launched = [line for line in lines if line.startswith("launch")]
    assert len(launched) == 2 + 1 + 2 + 2  # a call whose `ids` are none has one kernel; those that say something have none
    assert all(" 0x77>" in line for line in launched)
