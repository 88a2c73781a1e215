"""Libraries for GPUs, on a driver that says what it is asked (libcuda.c): what C passes on is what was shipped, whatever it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import axon
from axon.backend.c.cuda import build
from axon.backend.c.header import Described
from axon.backend.gpu.layout.memory import Im2col
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.shipped.open import Between, OpenLaunch, OpenProgram
from axon.backend.gpu.shipped.sized import Address, PixelMap, ShippedCode, ShippedLaunch, ShippedProgram, TiledMap
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.names import fresh
from axon.core.ir import Value
from axon.host.build import build as asked_to_build
from axon.host.ranked import COMMAND_LINE, ranked
from axon.shapes.dimension import Dim, maximum
from tests import ROOT

MODULE = """
fun f (a : bf16[n, k]) (p : { s : f32, t : f64, u : i8 }) (b : f32[k]) =
  { sums = for i => sum k => cast f32 a[i, k] * b[k], doubled = for k => b[k] + b[k] }
fun pick (x : f32[n]) (ids : i32[k]) = for i => x[ids[i]]
fun powers (x : f32[n]) = loop (x = x) for _ < 3 => for i => x[i] * x[i]
fun mean (x : f32[n]) = (sum i => x[i]) / cast f32 n
"""
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "axon_f.h"

static axon_bf16_2 a;
static axon_f32_1 b;
static axon_f_p p = {1.0f, 2.0, -3};

static int call(int k)
{
    axon_f_result out;
    a = axon_bf16_2_of((void *)0x1000, 8, k), b = axon_f32_1_of((void *)0x2000, k);
    int status = axon_f_shapes(&a, &p, &b, &out);
    size_t bytes = 7;
    if (status == AXON_OK) status = axon_f_workspace(&a, &p, &b, &bytes);
    const char *wrong = getenv("WRONG") != NULL ? getenv("WRONG") : "";
    out.sums.data = strcmp(wrong, "shared") ? (void *)0x3000 : (void *)0x1010, out.doubled.data = (void *)0x4000;
    if (!strcmp(wrong, "rows")) a.strides[0] = 1;
    if (!strcmp(wrong, "aligned")) b.data = (void *)0x2004;
    if (!strcmp(wrong, "inside")) b.data = (void *)0x3010, b.strides[0] = INT64_MAX;
    if (!strcmp(wrong, "room")) out.sums.sizes[0] = 7;
    void *workspace = strcmp(wrong, "workspace") ? (void *)0x10000 : NULL;
    if (status == AXON_OK) status = axon_f(&a, &p, &b, &out, workspace, (void *)0x77);
    printf("= %d %zu %s\n", status, bytes, status ? axon_f_error() : "");
    return status;
}

static void *caller(void *unused) { return call(64), unused; }

int main(int count, char **arguments)
{
    if (count > 1 && !strcmp(arguments[1], "none")) return call(0);
    if (count > 1) {
        pthread_t threads[4];
        for (int n = 0; n < 4; n++) pthread_create(&threads[n], NULL, caller, NULL);
        for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
        return 0;
    }
    call(64), call(32), call(64), call(5), call(9), call(10);
    int first = axon_f_check();
    printf("check %d %s, then %d\n", first, first ? axon_f_error() : "", axon_f_check());
    return 0;
}
"""
IMAGES = Im2col((2, 5, 6, 64), (1920, 384, 64, 1), (-1, -2), (0, 1), (1, 2), (2, 3), 64)
FIRST = ShippedCode(b"one.", "first", 2048, 1, False)
SECOND = ShippedCode(b"two.", "second", 4096, 16, True)
THIRD = ShippedCode(b"six.", "third", 512, 1, False)


def shipped(symbols: dict[str, object], k: int) -> ShippedProgram:
    """Launches that have everything: two kernels at k = 64, one at 32."""
    n, extent, s, t, u = (symbols[name] for name in ("n", "k", "p_s", "p_t", "p_u"))
    tiled = TiledMap((1, 8, k), (999, 2 * k), Element.BF16, (1, 8, 64))
    seven = (7).to_bytes(4, "little")
    first = ShippedLaunch(FIRST, 10, 128, (Address(0, 32, tiled), Address(1, 0), seven, Address(2, -16), Address(4, 256)))
    pixels = Address(3, 0, PixelMap(IMAGES, Element.F32, 128, 32))
    second = ShippedLaunch(SECOND, 64, 256, (pixels, Address(5, 0), (1 << 40).to_bytes(8, "little")))
    scalars = {s: 0, t: 16, u: 32} if k == 64 else {}
    launches = (first, second) if k == 64 else (first,)
    return ShippedProgram({n: 8, extent: k}, launches, 512 if k == 64 else 0, scalars, k == 64)  # type: ignore[dict-item]


def others(symbols: dict[str, object]) -> OpenProgram:
    """Launches at all other sizes; the second has nothing to do below k = 8."""
    n, k, t = (symbols[name] for name in ("n", "k", "p_t"))
    rows, columns = Dim.of(n), Dim.of(k)  # type: ignore[arg-type]
    many = rows * columns + maximum(columns - 9, 0) * (1 << 32)
    first = OpenLaunch(FIRST, many, 128, (Address(0, 0), rows * columns + 1, Between(1), Between(0), Address(5, 0)))
    second = OpenLaunch(THIRD, columns // 8, 32, (Address(3, 0), (rows - columns) // 2))
    between = Value(t, Element.F64, ()), Value(fresh("between"), Element.I32, (rows, Dim.of(128)))  # type: ignore[arg-type]
    return OpenProgram((first, second), between, {t: 0}, True)  # type: ignore[dict-item]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda")
    session = axon.compile(MODULE)._session
    callee = session.callee("f")
    at = ranked(session, callee, {}, {}, {}, COMMAND_LINE)
    symbols = {v.symbol.name: v.symbol for v in at.program.inputs} | {s.name: s for s in at.program.contract.variables}
    about = Described("axon_f", "f", "model.axon", callee.signature, at.name, "native")
    made = [shipped(dict(symbols), k) for k in (64, 32)]
    build(
        at.program,
        about,
        str(folder),
        HOPPER,
        made,
        others(dict(symbols)),
        ["cc", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"],
    )
    (folder / "main.c").write_text(PROGRAM)
    fake = ["-shared", "-fPIC", str(ROOT / "tests/backend/c/libcuda.c"), "-o", "libcuda.so.1"]
    subprocess.run(["cc", "-Wall", "-Wno-unused-result", *fake], cwd=folder, check=True, timeout=60)
    options = ["-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", "axon_f.o", "-lpthread", "-ldl", "-o", "main"]
    subprocess.run(["cc", "-g", *options], cwd=folder, check=True, timeout=60)
    if shutil.which("c++"):
        text = '#include "axon_f.h"\nint main() { return axon_f_check() == 0; }\n'
        command = ["c++", "-std=c++17", "-x", "c++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I.", "-"]
        subprocess.run(command, input=text, text=True, cwd=folder, check=True, timeout=60)
    return folder / "main"


def ran(program: Path, *arguments: str, **environment: str) -> list[str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(program.parent), **environment}
    found = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=True, timeout=60)
    return found.stdout.splitlines()


WANTED = """
set32 10000 to 3f800000 on 0x77
set32 10010 to 0 on 0x77
set32 10014 to 40000000 on 0x77
set8 10020 to fd on 0x77
load one.
attribute 8 of first is 2048
tiled 1: type=9 at=1020 sizes=64,8,1 strides=128,16 box=64,8,1 steps=1,1,1 0 3 2 0
launch first<10,1,1 128,1,1 2048 0x77> 1 2000 7 2ff0 10100
load two.
attribute 8 of second is 4096
attribute 14 of second is 1
clusters of second: 4, 16
pixels 2: type=7 at=4000 sizes=64,6,5,2 strides=256,1536,7680 lower=-2,-1 upper=1,0 32 of 128 steps=1,2,1,1 0 3 2 0
launch second<48,1,1 256,1,1 4096 0x77> 2 word 10000000000
= 0 512 
tiled 3: type=9 at=1020 sizes=32,8,1 strides=64,16 box=64,8,1 steps=1,1,1 0 3 2 0
launch first<10,1,1 128,1,1 2048 0x77> 3 2000 7 2ff0 10100
= 0 0 
set32 10000 to 3f800000 on 0x77
set32 10010 to 0 on 0x77
set32 10014 to 40000000 on 0x77
set8 10020 to fd on 0x77
launch first<10,1,1 128,1,1 2048 0x77> 1 2000 7 2ff0 10100
launch second<48,1,1 256,1,1 4096 0x77> 2 word 10000000000
= 0 512 
set32 10000 to 0 on 0x77
set32 10004 to 40000000 on 0x77
launch first<40,1,1 128,1,1 2048 0x77> 1000 29 10100 10000 word
= 0 4352 
set32 10000 to 0 on 0x77
set32 10004 to 40000000 on 0x77
launch first<72,1,1 128,1,1 2048 0x77> 1000 49 10100 10000 word
load six.
attribute 8 of third is 512
launch third<1,1,1 32,1,1 512 0x77> 4000 ffffffffffffffff
= 0 4352 
set32 10000 to 0 on 0x77
set32 10004 to 40000000 on 0x77
= 612 4352 error[AX0612]: a kernel would take 4,294,967,376 blocks, and a GPU takes at most 2,147,483,647
check 0 , then 0
"""


def test_what_is_launched(program: Path) -> None:
    """Addresses: the tensors of the arguments, then of the result in the order of its fields, the workspace, the word. Descriptors
    of the same addresses are encoded once."""
    assert ran(program) == WANTED.strip("\n").splitlines()


def test_threads_load_once(program: Path) -> None:
    text = "\n".join(ran(program, "threads"))  # in which what threads say stands in one line at times
    assert [text.count(said) for said in ("load ", "launch ", "= 0 ")] == [2, 8, 4]


REFUSED = "error[AX0612]: the GPU's driver refused to run a kernel: "
WRONG = {
    "WRONG=rows": "505 512 error[AX0505]: the elements of `a` do not lie in rows",
    "WRONG=aligned": "505 512 error[AX0505]: `b` does not begin at a multiple of 16 bytes",
    "WRONG=shared": "505 512 error[AX0505]: `out.sums` shares memory with `a`",
    "WRONG=workspace": "505 512 error[AX0505]: `workspace` is NULL, or does not begin at a multiple of 256 bytes",
    "WRONG=room": "505 512 error[AX0505]: dimension 1 of `out.sums` is 7, and the result has 8 there",
    "FAKE=old": "612 512 error[AX0604]: this library is for GPUs of compute capability 9.0, and this one is of 8.0",
    "FAKE=context": "612 512 error[AX0612]: this thread has no current context of a GPU: cudaSetDevice gives it one",
    "FAKE=load": f"612 512 {REFUSED}cuLibraryLoadData: CUDA_ERROR_FAKE",
    "FAKE=launch": f"612 512 {REFUSED}cuLaunchKernelEx: CUDA_ERROR_FAKE",
    "LD_LIBRARY_PATH=": "612 512 error[AX0604]: there is no driver for GPUs here, or it is too old: libcuda.so.1 is missing",
}


@pytest.mark.parametrize("setting", WRONG)
def test_what_is_wrong_is_said(program: Path, setting: str) -> None:
    variable, _, value = setting.partition("=")
    if variable == "LD_LIBRARY_PATH" and shutil.which("nvidia-smi"):
        pytest.skip("there is a driver")
    assert next(line for line in ran(program, **{variable: value}) if line.startswith("=")) == f"= {WRONG[setting]}"


def test_what_has_no_elements_shares_no_memory(program: Path) -> None:
    """Wherever it is said to lie, and with whatever strides."""
    assert ran(program, "none", WRONG="inside")[-1] == "= 0 4352 "


def test_failures_are_asked_for(program: Path) -> None:
    text = "an index computed from data was out of bounds, or integer arithmetic had no result"
    assert ran(program, FAKE="stop")[-1] == f"check 500 error[AX0511]: a kernel stopped: {text}, then 0"


def test_a_function(tmp_path: Path) -> None:
    """From source to a library, with machine code that nobody runs here."""
    session = axon.compile(MODULE)._session
    callee = session.callee("pick")
    made = asked_to_build(
        session, callee, str(tmp_path), {}, {}, {}, {}, target="cuda", at=[{"n": 100, "k": 7}, {"n": 100, "k": 70}]
    )
    assert [Path(file).name for file in made.files] == ["axon_pick.h", "axon_pick.c", "axon_pick.o", "libaxon_pick.so"]
    text = (tmp_path / "axon_pick.c").read_text()
    assert "static const unsigned char ax_code_0[]" in text
    assert "case 1:" in text
    asked_to_build(session, callee, str(tmp_path / "open"), {}, {}, {}, {}, target="cuda")
    text = (tmp_path / "open" / "axon_pick.c").read_text()
    assert "ax_cuda_launch_open(&ax_kernel_0, " in text
    assert "Its kernels are for all sizes" in (tmp_path / "open" / "axon_pick.h").read_text()


@pytest.mark.parametrize(
    ("name", "sizes", "code", "said"),
    [
        ("f", [{"n": 8}], "AX0614", "`--sizes n=8` leaves open what `k` is"),
        ("powers", [{"n": 8}], "AX0603", "the host decides something between its kernels"),
        ("mean", [{"n": 8}], "AX0603", "a result is a number"),
    ],
)
def test_what_is_not_built(name: str, sizes: list[dict[str, int]], code: str, said: str, tmp_path: Path) -> None:
    session = axon.compile(MODULE)._session
    with pytest.raises(AxonError) as raised:
        asked_to_build(session, session.callee(name), str(tmp_path), {}, {}, {}, {}, target="cuda", at=sizes)
    assert (raised.value.diagnostics[0].code, said in raised.value.diagnostics[0].message) == (code, True), raised.value
    assert list(tmp_path.iterdir()) == []
