"""Libraries for C on a real GPU: what a C program gets is what Python gets, bit for bit, and no later."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

import axon
from axon.host.build import build

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)
if shutil.which("cc") is None:
    pytest.skip("needs a C compiler", allow_module_level=True)

MODULE = """
import nn
fun product (a : bf16[n, k]) (b : bf16[k, m]) (s : f32) = nn.gelu (cast f32 (a @ b) * s)
fun plain (a : bf16[n, k]) (b : bf16[k, m]) = for i j => sum k => cast f32 a[i, k] * cast f32 b[k, j]
fun exact (a : f32[n, k]) (b : f32[k, m]) = a @ b
fun rows (x : f32[n, d]) = nn.softmax x
fun window (x : bf16[n, h, w, c]) (k : bf16[3, 3, c, o]) =
  for b, p < h - 2, q < w - 2, o => sum r s c => x[b, p + r, q + s, c] * k[r, s, c, o]
fun pick (x : f32[n]) (ids : i32[k]) = { picked = for i => x[ids[i]], more = for i => x[i] + 1.0 }
"""
STRUCTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.int32: "i32"}


def tensor(x: Any) -> Any:
    rank = x.ndim
    own = type(
        "T", (ctypes.Structure,), {"_fields_": [("d", ctypes.c_void_p), ("n", ctypes.c_int64 * rank), ("s", ctypes.c_int64 * rank)]}
    )
    return own(x.data_ptr(), (ctypes.c_int64 * rank)(*x.shape), (ctypes.c_int64 * rank)(*x.stride()))


def made(folder: Path, module: Any, name: str, *sizes: dict[str, int]) -> Any:
    session = module._session
    build(session, session.callee(name), str(folder), {}, {}, {}, {}, target="cuda", at=sizes)
    library = ctypes.CDLL(str(folder / f"libaxon_{name}.so"))
    library[f"axon_{name}_error"].restype = ctypes.c_char_p
    return library


def called(library: Any, name: str, given: list[Any], out: Any) -> str:
    """Whatever it says; nothing, if all is well."""
    size = ctypes.c_size_t()
    assert library[f"axon_{name}_workspace"](*given, ctypes.byref(size)) == 0, library[f"axon_{name}_error"]()
    room = torch.empty(max(size.value, 1), dtype=torch.uint8, device="cuda")
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    status = library[f"axon_{name}"](*given, out, ctypes.c_void_p(room.data_ptr()), stream)
    torch.cuda.synchronize()
    return f"{status} {library[f'axon_{name}_error']().decode()}" if status else ""


def drawn(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(shape, device="cuda").to(dtype)


@pytest.mark.parametrize("name", ["product", "exact", "rows", "window"])
def test_it_is_what_python_computes(name: str, tmp_path: Path) -> None:
    module = axon.compile(MODULE)
    bf16 = torch.bfloat16
    given = {
        "product": [drawn(512, 1024, dtype=bf16), drawn(1024, 768, dtype=bf16), 0.5],
        "exact": [drawn(512, 640), drawn(640, 384)],
        "rows": [drawn(300, 333)],
        "window": [drawn(8, 18, 18, 64, dtype=bf16), drawn(3, 3, 64, 128, dtype=bf16)],
    }[name]
    names = {"product": "nkm", "exact": "nkm", "rows": "nd", "window": "nhwco"}[name]
    found = {"product": [512, 1024, 768], "exact": [512, 640, 384], "rows": [300, 333], "window": [8, 18, 18, 64, 128]}[name]
    library = made(tmp_path, module, name, dict(zip(names, found, strict=True)))
    wanted = module[name](*given)
    out = torch.full_like(wanted, torch.nan)
    passed = [ctypes.c_float(x) if isinstance(x, float) else ctypes.byref(tensor(x)) for x in given]
    assert called(library, name, passed, ctypes.byref(tensor(out))) == ""
    close = torch.allclose(out.float(), wanted.float(), rtol=2e-2, atol=2e-2)
    print(f"{name:8} bits {torch.equal(out, wanted)} close {close}")
    assert close


def test_failures_are_asked_for(tmp_path: Path) -> None:
    library = made(tmp_path, axon.compile(MODULE), "pick", {"n": 100, "k": 7})
    x, ids, picked, more = drawn(100), torch.arange(7, device="cuda", dtype=torch.int32), drawn(7), drawn(100)
    parts = [tensor(picked), tensor(more)]
    out = type("Out", (ctypes.Structure,), {"_fields_": [("picked", type(parts[0])), ("more", type(parts[1]))]})(*parts)
    given = [ctypes.byref(tensor(x)), ctypes.byref(tensor(ids))]
    assert called(library, "pick", given, ctypes.byref(out)) == ""
    assert library.axon_pick_check() == 0
    assert torch.equal(picked, x[:7])
    assert torch.equal(more, x + 1)
    ids[3] = 100
    assert called(library, "pick", given, ctypes.byref(out)) == ""
    assert [library.axon_pick_check(), library.axon_pick_check()] == [500, 0]


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_an_operator_of_pytorch(tmp_path: Path) -> None:
    """`--torch`: on the current stream, tensors of any strides; what only data show is said by a later call."""
    module = axon.compile(MODULE)
    for name, sizes in (("product", {"n": 512, "k": 1024, "m": 768}), ("pick", {"n": 100, "k": 7})):
        session = module._session
        build(session, session.callee(name), str(tmp_path), {}, {}, {}, {}, target="cuda", at=[sizes], torch=True)
        torch.ops.load_library(str(tmp_path / f"libaxon_{name}_torch.so"))
    a, b = drawn(512, 1024, dtype=torch.bfloat16), drawn(768, 1024, dtype=torch.bfloat16).T
    with torch.cuda.stream(torch.cuda.Stream()):
        found = torch.ops.axon_built.product(a, b, 0.5)
        torch.cuda.current_stream().synchronize()
    torch.testing.assert_close(found, module.product(a, b.contiguous(), 0.5), rtol=2e-2, atol=2e-2)
    other = torch.ops.axon_built.product(a[:250, :1000], b[:1000, :77], 0.5)  # at sizes for which it has no kernels of their own
    wanted = module.product(a[:250, :1000].contiguous(), b[:1000, :77].contiguous(), 0.5)
    torch.testing.assert_close(other, wanted, rtol=2e-2, atol=2e-2)
    x, ids = drawn(101)[1:], torch.arange(7, device="cuda", dtype=torch.int32)
    assert torch.equal(torch.ops.axon_built.pick(x, ids)[0], x[:7])
    torch.ops.axon_built.pick(x, ids + 96)
    torch.cuda.synchronize()
    with pytest.raises(RuntimeError, match=r"error\[AX0511\]"):
        torch.ops.axon_built.pick(x, ids)


HOST = r"""
#include <time.h>
#include "axon_NAME.h"
double host(const axon_bf16_2 *a, const axon_bf16_2 *b, axon_f32_2 *out, void *room, void *stream, int calls)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int n = 0; n < calls; n++) if (axon_NAME(a, b, SCALAR out, room, stream) != AXON_OK) return -1;
    clock_gettime(CLOCK_MONOTONIC, &to);
    return ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / calls / 1e3;
}
"""


@pytest.mark.parametrize(("name", "scalar", "most"), [("plain", "", 5), ("product", "0.5f,", 8)])
def test_host_time(name: str, scalar: str, most: float, tmp_path: Path) -> None:
    """Of a launch, and of one before which a number is written to the GPU."""
    made(tmp_path, axon.compile(MODULE), name, {"n": 128, "k": 64, "m": 128})
    (tmp_path / "host.c").write_text(HOST.replace("NAME", name).replace("SCALAR", scalar))
    options = ["-O2", "-shared", "-fPIC", "host.c", f"axon_{name}.o", "-lpthread", "-ldl", "-lm", "-o", "libhost.so"]
    subprocess.run(["cc", *options], cwd=tmp_path, check=True, timeout=60)
    host = ctypes.CDLL(str(tmp_path / "libhost.so")).host
    host.restype = ctypes.c_double
    a, b, out = drawn(128, 64, dtype=torch.bfloat16), drawn(64, 128, dtype=torch.bfloat16), drawn(128, 128)
    given, room = [ctypes.byref(tensor(x)) for x in (a, b, out)], ctypes.c_void_p(drawn(1024).data_ptr())
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    function, numbers, times, python = axon.compile(MODULE)[name], [0.5] if scalar else [], [], []
    for _ in range(40):  # few in a row: a full queue is waited for
        times.append(host(*given, room, stream, 50))
        torch.cuda.synchronize()
        begun = perf_counter()
        for _ in range(50):
            function(a, b, *numbers, out=out)
        python.append((perf_counter() - begun) / 50 * 1e6)
        torch.cuda.synchronize()
    print(f"{name:8} {min(times):.2f} us a call from C, {min(python):.2f} from Python")
    assert 0 < min(times) < most
