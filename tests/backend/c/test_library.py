"""What is in the folder that `axon build` writes: a header for C and C++, and machine code that needs the C library alone."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from axon.base.errors import AxonError
from axon.host.build import build
from tests.backend.c.native import INDEX, Broken, Library, built, close, filled, same_bits, type_of

rng = np.random.default_rng(1)


def f32(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


MODULE = """
import nn

(* A product, a convolution's worth of kernels, a sort, a loop, sums of everything, and an index that may be outside. *)
fun work (p : { w : f32[d, k], ids : i32[n] }) (x : f32[n, d]) (steps : i32) =
  let val y = nn.softmax (x @ p.w)
      val sorted = sort y
      val (a, b) = loop (a = y, b = sorted) for _ < steps => (b, for i j => a[i, j] * 0.5 + b[i, j])
  in { y = a, mean = (sum i j => b[i, j]) / 2.0, picked = for i => y[p.ids[i], 0], f = (sum i j => exp (sin x[i, j]), sorted) } end

fun other (x : f64[n, m]) = for i => sum j => x[i, j] * cos x[i, j]
"""
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "axon_work.h"
#include "axon_other.h"

int main(void)
{
    enum { n = 60, d = 33, k = 70 };
    static float w[d * k], x[n * d];
    static int32_t ids[n];
    static double z[n * n];
    for (int i = 0; i < d * k; i++) w[i] = (float)(i % 7) / 7;
    for (int i = 0; i < n * d; i++) x[i] = (float)(i % 5) - 2;
    for (int i = 0; i < n; i++) ids[i] = n - 1 - i;
    for (int i = 0; i < n * n; i++) z[i] = i;
    axon_work_p p = {axon_f32_2_of(w, d, k), axon_i32_1_of(ids, n)};
    axon_f32_2 input = axon_f32_2_of(x, n, d);
    axon_work_set_threads(3);
    for (int call = 0; call < 6; call++) {
        axon_work_result out;
        ids[3] = call == 2 ? n : 0;
        int status = axon_work(&p, &input, 3, &out);
        printf("%d %s\n", status, status ? axon_work_error() : "");
        if (status == AXON_OK) {
            printf("%.4f %.4f\n", out.y.data[1], out.mean);
            axon_f32_2 transposed = {out.y.data, {n, d}, {1, n}};
            axon_work_result again;
            status = axon_work(&p, &transposed, 0, &again);
            printf("%d %d\n", status, (int)again.y.sizes[1]);
            axon_work_free(&again);
        }
        axon_work_free(&out);
    }
    axon_f64_2 matrix = axon_f64_2_of(z, n, n);
    axon_f64_1 sums;
    if (axon_other(&matrix, &sums) != AXON_OK) return 1;
    printf("%.3f\n", sums.data[2]);
    if (axon_other_into(&matrix, &sums) != AXON_OK) return 1;
    axon_other_free(&sums);
    matrix = axon_f64_2_of(z, 2, 3);
    for (int call = 0; call < 10000; call++) {
        matrix.sizes[0] = call % 10 == 9 ? -1 : 2;
        if ((axon_other(&matrix, &sums) == AXON_OK) != (call % 10 != 9)) return 1;
        axon_other_free(&sums);
    }
    matrix.sizes[0] = -1;
    printf("%d\n", axon_other(&matrix, &sums));
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both functions, built for any x86 of the last ten years where this is one: valgrind does not know all instructions."""
    place = tmp_path_factory.mktemp("built")
    module = axon.compile(MODULE)
    cpu = "x86-64-v3" if platform.machine() == "x86_64" else "native"
    for name in ("work", "other"):
        built(place, module, name, cpu=cpu)
    return place


@pytest.fixture(scope="module")
def program(folder: Path) -> Path:
    """A C program with both object files in it."""
    (folder / "program.c").write_text(PROGRAM)
    objects = [folder / "axon_work.o", folder / "axon_other.o"]
    command = [
        "cc",
        "-g",
        "-std=c99",
        "-Wall",
        "-Werror",
        folder / "program.c",
        *objects,
        "-lm",
        "-lpthread",
        "-o",
        folder / "program",
    ]
    subprocess.run(list(map(str, command)), check=True, timeout=60)
    return folder / "program"


def given() -> tuple[Any, ...]:
    return {"w": f32(33, 70), "ids": np.arange(60, dtype=np.int32)[::-1].copy()}, f32(60, 33), np.int32(3)


def expected(*arguments: Any) -> Any:
    session = axon.compile(MODULE)._session
    return session.call(session.callee("work"), (), arguments, {}, "cpu", numbers=False)


# Of the C library, of libm, of the compiler's own runtime, and what linkers put into every library.
OF_C = re.compile(
    r"pthread_|mem(cpy|set|move)$|free$|aligned_alloc$|getenv$|strto|__isoc23_strto|sysconf$|v?snprintf$|sig|(__)?sched_|"
    r"(sin|cos|exp|pow|log)f?$|__(div|mod)ti3$|__register_atfork$|__stack_chk_fail$|__tls_get_addr$|__cxa_finalize$|__gmon_start__$|"
    r"_ITM_|_GLOBAL_OFFSET_TABLE_$"
)


def symbols(*command: str) -> list[str]:
    text = subprocess.run(["nm", *command], capture_output=True, text=True, check=True, timeout=60).stdout
    return [line.split()[-1].partition("@")[0] for line in text.splitlines()]


def test_it_needs_the_c_library_alone(folder: Path) -> None:
    for name in ("axon_work", "axon_other"):
        for file in (folder / f"{name}.o", folder / f"lib{name}.so"):
            assert [symbol for symbol in symbols("-u", str(file)) if not OF_C.match(symbol)] == []
        ends = ("", "_error", "_free", "_into", "_set_threads", "_shapes")
        assert sorted(symbols("-D", "--defined-only", str(folder / f"lib{name}.so"))) == sorted(name + end for end in ends)


@pytest.mark.parametrize("command", ["cc -x c -std=c99", "c++ -x c++ -std=c++11", "c++ -x c++ -std=c++17"])
def test_the_header_is_clean(folder: Path, command: str) -> None:
    own = [*command.split(), "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", f"-I{folder}", "-"]
    if shutil.which(own[0]) is None:
        pytest.skip(f"there is no {own[0]}")
    text = "".join(f'#include "axon_{name}.h"\n' for name in ("work", "other", "work"))
    text += "int main(void) { return axon_work_error() == 0; }\n"
    ran = subprocess.run(own, input=text, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_program_in_c(program: Path) -> None:
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60)
    lines = ran.stdout.splitlines()
    assert lines[0] == "0 "
    message = "index 60 is outside dimension 1 of `t`, which has size 60"
    assert lines[6] == f"{INDEX} error[AX0502]: {message}, at <text>:9:68: `y[p.ids[i], 0]`"
    assert lines[-1] == "501"


def test_nothing_leaks(program: Path) -> None:
    """In ten thousand calls, errors and threads included."""
    if shutil.which("valgrind") is None:
        pytest.skip("there is no valgrind")
    command = ["valgrind", "--leak-check=full", "--show-leak-kinds=all", "--error-exitcode=9", "-q", str(program)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_ten_thousand_calls_take_no_more_memory_than_some(folder: Path) -> None:
    library = Library(folder, "axon_work")
    arguments = given()
    broken = ({**arguments[0], "ids": np.full(60, 99, np.int32)}, *arguments[1:])
    like = expected(*arguments)
    out = type_of(like)()
    passed, failing = library.arguments((), arguments), library.arguments((), broken)

    def calls(count: int) -> None:
        for number in range(count):
            if library.handle["axon_work"](*(failing if number % 10 == 0 else passed), ctypes.byref(out)) == 0:
                library.handle["axon_work_free"](ctypes.byref(out))

    calls(500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls(10_000)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 4 << 20


def test_threads_give_the_same_bits(folder: Path) -> None:
    """Of the library, and of the program, which calls from several at once; errors stay with the thread that made them."""
    library, other = Library(folder, "axon_work"), Library(folder, "axon_other")
    arguments, matrix = given(), rng.standard_normal((700, 300))
    like = expected(*arguments)
    one: list[Any] = []
    for count in (1, 2, 3, 7):
        library.threads(count), other.threads(count)
        one.append((library.call(like, *arguments), other.call(matrix[:, 0], matrix)))
    assert all(same_bits(found, one[0]) for found in one)
    assert close(one[0][0], like, 1e-5)
    wrong: list[Any] = []

    def work(number: int) -> None:
        broken = ({**arguments[0], "ids": np.full(60, 99, np.int32)}, *arguments[1:])
        for _ in range(25):
            try:
                if not same_bits((library.call(like, *arguments), other.call(matrix[:, 0], matrix)), one[0]):
                    wrong.append("bits")
                library.call(like, *(broken if number % 2 else (arguments[0], f32(60, 32), arguments[2])))
                wrong.append("no error")
            except Broken as error:
                if (error.code == INDEX) is not bool(number % 2) or ("index" in error.text) is not bool(number % 2):
                    wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


RACES = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "axon_sums.h"

enum { n = 640, m = 500, CALLERS = 4 };
static double z[n * m], wanted[CALLERS];

static void *caller(void *given)
{
    const int number = (int)(intptr_t)given;
    for (int call = 0; call < 5; call++) {
        axon_f64_2 matrix = axon_f64_2_of(z, n - number, m);
        axon_f64_1 sums;
        if (axon_sums(number, &matrix, &sums) != AXON_OK) return "no result";
        double total = 0;
        for (int i = 0; i < n - number; i++) total += sums.data[i];
        axon_sums_free(&sums);
        if (call > 0 && total != wanted[number]) return "other bits";
        wanted[number] = total;
        axon_sums_set_threads(1 + (number + call) % 4);
        char text[40];
        snprintf(text, sizeof text, "`k` is %d,", -1 - number);
        if (axon_sums(-1 - number, &matrix, &sums) != AXON_SIZES || !strstr(axon_sums_error(), text)) return "another's error";
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[CALLERS];
    for (int i = 0; i < n * m; i++) z[i] = i % 1000;
    axon_sums_set_threads(3);
    for (int i = 0; i < CALLERS; i++) pthread_create(&threads[i], NULL, caller, (void *)(intptr_t)i);
    for (int i = 0; i < CALLERS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong != NULL) return printf("%s\n", (const char *)wrong), 1;
    }
    return 0;
}
"""


def test_no_races(tmp_path: Path) -> None:
    """Of the library's C, which ThreadSanitizer looks at; what its kernels write are rows of their own."""
    watched = "cc", "-g", "-fsanitize=thread"
    tried = subprocess.run([*watched, "-x", "c", "-", "-o", tmp_path / "tried"], input="int main(void) { return 0; }", text=True)
    run = ["setarch", "-R"] if shutil.which("setarch") else []  # ThreadSanitizer wants addresses where it knows them
    if tried.returncode or subprocess.run([*run, tmp_path / "tried"], check=False, capture_output=True).returncode:
        pytest.skip("there is no ThreadSanitizer")
    text = "fun sums {k} (x : f64[n, m]) = for i => (sum j => x[i, j] * cos (cast f64 k + x[i, j]))"
    session = axon.compile(text)._session
    build(session, session.callee("sums"), str(tmp_path), {}, {}, {}, {}, cc=watched)
    (tmp_path / "races.c").write_text(RACES)
    command = [*watched, "races.c", "axon_sums.o", "-lm", "-lpthread", "-o", "races"]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=60)
    ran = subprocess.run([*run, tmp_path / "races"], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_child_process_has_threads_of_its_own(folder: Path) -> None:
    library, matrix = Library(folder, "axon_other"), rng.standard_normal((700, 300))
    library.threads(3)
    here = library.call(matrix[:, 0], matrix)
    child = os.fork()
    if child == 0:
        os._exit(0 if same_bits(library.call(matrix[:, 0], matrix), here) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_library_is_closed(folder: Path, tmp_path: Path) -> None:
    """Its threads end before its code is gone."""
    code = f"""
import ctypes, _ctypes, sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
import numpy as np
from pathlib import Path
from tests.backend.c.native import Library
x = np.ones((700, 300))
for _ in range(20):
    library = Library(Path({str(folder)!r}), "axon_other")
    library.threads(4)
    library.call(x[:, 0], x)
    _ctypes.dlclose(library.handle._handle)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    module = axon.compile(MODULE)
    for options, text in {
        ("cc", ("no-such-compiler",)): "there is no C compiler `no-such-compiler`",
        ("cpu", "no-such-cpu"): "`cc` does not know the processor `no-such-cpu`",
        ("name", "f_free"): "no function of C can be called `axon_f_free`, as `--name` says",
        ("name", "a-b"): "no function of C can be called `axon_a-b`, as `--name` says",
    }.items():
        with pytest.raises(AxonError) as raised:
            built(tmp_path, module, "other", **dict([options]))
        assert raised.value.diagnostics[0].code == "AX0614"
        assert raised.value.diagnostics[0].message == text
    with pytest.raises(AxonError) as raised:
        built(tmp_path, axon.compile("fun f g (x : f32[n]) = for i => g x[i]"), "f")
    assert raised.value.diagnostics[0].code == "AX0505"
    assert list(tmp_path.iterdir()) == []


NAMES = """
fun remove {int} (double : f32[int]) (ax_cut : f32) (I : { class : f32[n], new : i32 }) = { out = I.class, struct = double }
"""
DECLARED = """
int axon_remove(int64_t int_, const axon_f32_1 *double_, float own_ax_cut, const axon_remove_I *I_, axon_remove_result *out);
"""


def test_names_that_c_has_already(tmp_path: Path) -> None:
    library = built(tmp_path, axon.compile(NAMES), "remove")
    assert library.symbol == "axon_remove"
    assert DECLARED in (tmp_path / "axon_remove.h").read_text()
    record, double = {"class_": f32(3), "new_": np.int32(1)}, f32(2)
    found = library.call({"out": f32(3), "struct_": double}, double, np.float32(0), record, sizes=(2,))
    assert same_bits(found, {"out": record["class_"], "struct_": double})


def test_the_command(axon_cli: Any, here: Path) -> None:
    product = "for i j => sum p q => a[i, p] * b[p, q] * c[q, j]"
    Path("model.axon").write_text(f"fun f x y = x + y\n\nfun g (a : f32[n, m]) (b : f32[m, k]) (c : f32[k, l]) = {product}\n")
    ran = axon_cli("build", "model.axon:f", "x=_,_", "y=_,_", "--elements", "x=i16", "-o", "out")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.splitlines() == [f"wrote out/{name}" for name in ("axon_f.h", "axon_f.c", "axon_f.o", "libaxon_f.so")]
    library, x = Library(Path("out"), "axon_f"), np.arange(6, dtype=np.int16).reshape(2, 3)
    assert same_bits(library.call(x, x, x), x + x)
    ran = axon_cli("build", "model.axon:f", "x=_", "y=_", "--name", "plus")
    assert [path.name for path in sorted(Path("plus").iterdir())] == [f"axon_plus.{e}" for e in "cho"] + ["libaxon_plus.so"]
    ran = axon_cli("build", "model.axon:g")
    assert "n=…" in ran.err
    assert sorted(path.name for path in Path("g").iterdir()) == ["axon_g.c", "axon_g.h", "axon_g.o", "libaxon_g.so"]
    assert axon_cli("build", "model.axon:g", "--elements", "x").status == 1
    assert "AX0506" in axon_cli("build", "model.axon:f").out


def test_it_is_the_same_text_each_time(tmp_path: Path) -> None:
    for name in ("first", "second"):
        built(tmp_path / name, axon.compile(MODULE), "work")
    for file in ("axon_work.h", "axon_work.c"):
        assert (tmp_path / "first" / file).read_text() == (tmp_path / "second" / file).read_text()


def test_a_pointer_is_enough() -> None:
    """The driver's own structs: what `filled` makes points into its arrays."""
    x = f32(2, 3)
    made = filled(type_of(x), x)
    assert (made.data, tuple(made.sizes), tuple(made.strides)) == (x.ctypes.data, (2, 3), (3, 1))
