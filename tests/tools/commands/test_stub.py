"""`axon stub`: what it writes is valid under mypy, allows right calls, and refuses wrong ones."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from axon import compiler
from axon.host.call import Session
from axon.tools.cli import main
from axon.tools.commands.stub import stub
from tests import ROOT

MODEL = """\
type linear[d, k] = { w : f32[d, k], b : f32[k] }

fun dense (p : linear[d, k]) (x : f32[n, d]) = x @ p.w + p.b
fun scale (k : 'a) (x : 'a[n]) = k * x
fun heads {h} x = for i < h, j => x[(i, j)]
fun grid {h, w} (x : 'a[h * w]) = for i < h, j < w => x[i * w + j]
fun stats x = { total = sum i => x[i], largest = max i => x[i] }
fun both (a, b) = a + b
fun loss (p : linear[d, k]) (n : i32) (x : f32[m, d]) = sum i j => (dense p x)[i, j] * cast f32 n
fun area {h} (x : f64[n]) = cast f64 h * (sum i => x[i])
fun pick (table : 'a[n]) (i : i32) = table[i]
fun narrow (x : bf16[n]) = cast f16 x[0]
fun found (m : bool[n]) = nonzero m
fun apply f (x : f32[n]) = f x
fun same x = x
fun unit () = 1.0
fun relu x = max x 0.0
fun odd (lambda : f32[n]) (target : f32[n]) (y : f32[n]) = lambda + target + y
fun lambda x = x + 1
fun import_ x = x + 1
val half = 0.5
val table = [| 1, 2, 3 |]
val pair = ({ a = 1.0, def = true }, 2)
"""

USE = """\
import numpy as np
from typing import Any
from typing_extensions import assert_type
from numpy.typing import NDArray

import model

F32 = NDArray[np.float32]
x: F32 = np.ones((2, 3), np.float32)
v: F32 = np.ones(3, np.float32)
assert_type(model.dense({"w": x, "b": v}, x), F32)
assert_type(model.dense(p={"w": x, "b": v}, x=x, target="cpu"), F32)
assert_type(model.scale(2.0, v), F32)
assert_type(model.heads[2](v), F32)
assert_type(model.grid[3, 1](v), F32)
assert_type(model.both((v, v)), Any)
assert_type(model.pick(v, 1), Any)
p: Any = {"w": x, "b": v}
assert_type(model.loss.grad()({"w": x, "b": v}, 2, x)["w"], F32)
assert_type(model.loss.grad("x")(p, 2, x=x), F32)
assert_type(model.loss.value_and_grad("x")(p, 2, x), tuple[float, F32])
assert_type(model.area[2].grad()(np.ones(3)), NDArray[np.float64])
print(model.loss.grad(("p", "x"))(p, 2, x), model.loss.grad("n"), model.dense.grad())
assert_type(model.found(np.ones(3, np.bool_)), NDArray[np.int32])
assert_type(model.unit(), float)
assert_type(model.half, float)
assert_type(model.table, NDArray[np.int32])
assert_type(model.pair[1], int)
model.stats(v)["total"]
model.odd(v, v, y=v)
print(model.dense.signature, model.relu(1), model.relu(v), model.narrow([1.0, 2.0]), model.same(x))


class OnGpu:
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {}


on_gpu = OnGpu()
assert_type(model.scale(on_gpu, on_gpu), Any)

model.dense({"w": x}, x)  # wrong
model.dense({"w": x, "b": v}, np.ones((2, 3)))  # wrong
model.dense(x)  # wrong
model.loss.grad("x")(p, x)  # wrong
model.loss.grad(1)  # wrong
model.scale(2.0, "text")  # wrong
model.heads["2"]  # wrong
model.grid[3]  # wrong
model.scale(2.0, v, target="gpu")  # wrong
model.stats(v)["totl"]  # wrong
model.nothing  # wrong
solutions = model.dense.solve({"d": 784}, out=(32, 10), x=(None, 784))
assert_type(solutions[0].arguments["x"], tuple[int, ...])
assert_type(solutions[0]["x", 0], int)
model.dense.sizes["x", 0] * model.dense.cost({"d": 784}, target="cuda", elements={"x": "f32"}).flops
model.dense.solve(784)  # wrong
model.dense.cost(target=1)  # wrong
"""


def written(text: str, folder: Path) -> str:
    (folder / "model.axon").write_text(text)
    assert main(["stub", str(folder / "model.axon")]) == 0
    return (folder / "model.pyi").read_text()


def test_what_it_says(tmp_path: Path) -> None:
    text = written(MODEL, tmp_path)
    assert '"""What model.axon declares' in text
    assert '"""sig heads : {h} -> ' in text
    assert "def __call__(self, p: _DenseP, x: NDArray[np.float32] | list[Any], *, target" in text
    assert "def __call__(self, _1: NDArray[np.float32] | list[Any], _2: NDArray[np.float32] | list[Any], /, y:" in text
    assert "class _lambda" not in text
    assert "f: Never" in text


def test_where_it_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.axon").write_text("fun f x = x + 1\n")
    assert main(["stub", "m.axon", "--out", "-"]) == 0
    assert "def __call__" in capsys.readouterr().out
    assert not Path("m.pyi").exists()
    assert main(["stub", "m.axon", "--out", "other.pyi"]) == 0
    assert Path("other.pyi").exists()
    Path("m.axon").write_text("fun f x = y\n")
    assert main(["stub", "m.axon"]) == 1
    assert not Path("m.pyi").exists()
    assert main(["stub", "nowhere.axon"]) == 1
    assert main(["stub", "m.axon", "--out", "nowhere/m.pyi"]) == 1


@pytest.mark.parametrize("path", sorted([*ROOT.glob("stdlib/*.axon"), *ROOT.glob("examples/*.axon")]), ids=lambda p: p.stem)
def test_the_library_and_the_examples(path: Path) -> None:
    from axon.checker.loader import FileLoader

    checked = compiler.check(FileLoader(), str(path))
    tree = ast.parse(stub(Session(checked), str(path)))
    names = {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    assert names == set(checked.signatures)


def test_an_empty_module() -> None:
    assert compile(stub(Session(compiler.check_text("")), "e.axon"), "e.pyi", "exec")


CLASHES = """\
fun int (x : f32[n]) = cast i32 x
fun float (x : i32) = cast f32 x
fun list (x : f32[n]) = { int = x, a = x, np = 1.0 }
fun tuple (x : (f32, i32)) = (x.2, x.1)
fun dict (x : 'a[n]) = x
fun bool {h} (x : f32[h]) = x
val str = true
val property = 1
fun np (int : f32[n]) (np : f32) = int
fun Any x = x
fun Function x = x
fun overload x = x
fun Literal x = x
fun Target (x : 'b[n]) = x
fun _A (x : i32) = x
fun _A_ (x : i32) = x
fun TypedDict (x : { a : i32 }) = x.a
fun NDArray (x : f32[n]) = x
fun f x = x + 1.0
fun _f x = x + 1.0
fun heads {h} (x : f32[h]) = x
fun heads_at (x : f32[n]) = x
fun dense (p : { w : f32[n] }) = p.w
fun _DenseP (x : f32) = x
"""


def mypy(folder: Path, known: Path) -> subprocess.CompletedProcess[str]:
    """What mypy says of `use.py` and `model.pyi`; what it has learned of NumPy and of Axon, in 20 seconds, is kept."""
    settings = ("--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={known}")
    return subprocess.run(
        [sys.executable, "-m", "mypy", *settings, "use.py", "model.pyi"],
        capture_output=True, text=True, cwd=folder, timeout=300, check=False, env={"MYPYPATH": f"{ROOT}", "PATH": ""},
    )  # fmt: skip


def test_mypy(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """One after the other, for the second finds what the first has learned of NumPy; and so does the next run."""
    for check in (declarations_may_have_any_name, accepts_it_and_uses_it):
        folder = tmp_path / check.__name__
        folder.mkdir()
        check(folder, pytestconfig.cache.mkdir("mypy") if pytestconfig.cache is not None else tmp_path)


def accepts_it_and_uses_it(tmp_path: Path, known: Path) -> None:
    text = written(MODEL, tmp_path)
    ast.parse(text)
    (tmp_path / "use.py").write_text(USE)
    ran = mypy(tmp_path, known)
    assert "model.pyi:" not in ran.stdout, ran.stdout
    lines = {int(line.split(":")[1]) for line in ran.stdout.splitlines() if line.startswith("use.py") and ": error:" in line}
    wanted = {i for i, line in enumerate(USE.splitlines(), 1) if line.endswith("# wrong")}
    assert lines == wanted, ran.stdout + ran.stderr


def declarations_may_have_any_name(tmp_path: Path, known: Path) -> None:
    """What a stub needs itself has another name where the module declares it."""
    written(CLASHES, tmp_path)
    (tmp_path / "use.py").write_text(
        "import numpy as np\nfrom numpy.typing import NDArray\nfrom typing_extensions import assert_type\nimport model\n"
        "v = np.ones(3, np.float32)\n"
        "assert_type(model.int(v), NDArray[np.int32])\nassert_type(model.float(1), float)\nassert_type(model.str, bool)\n"
        "assert_type(model.list(v)['np'], float)\nassert_type(model.bool[3](v), NDArray[np.float32])\n"
        "assert_type(model.heads[3](v), NDArray[np.float32])\nassert_type(model._A_(1), int)\n"
        "assert_type(model.dense({'w': v}), NDArray[np.float32])\nmodel.dense(v)  # type: ignore[arg-type]\n"
    )
    ran = mypy(tmp_path, known)
    assert ran.stdout.startswith("Success"), ran.stdout + (tmp_path / "model.pyi").read_text()
