"""`%load_ext axon`: a notebook executed from end to end, and cells in a shell of this process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from axon.base.errors import AxonError

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

MISTAKE = "fun mlp (x : f32[b, d]) (w1 : f32[d, 4 * d]) (w2 : f32[3 * d, d]) =\n  (x @ w1) @ w2\n"

# Each cell, the kinds of its outputs, and texts that they hold.
CELLS: list[tuple[str, list[str], list[str]]] = [
    ("%load_ext axon\nimport numpy as np", [], []),
    ("%%axon\nimport nn\nfun f x = x + 1.0\nval k = 2.0", ["display_data"], ["f : ", "import nn: "]),
    ("f(np.ones(3, np.float32)), k", ["execute_result"], ["array([2., 2., 2.], dtype=float32), 2.0"]),
    (
        f"%%axon\n{MISTAKE}",
        ["display_data", "error"],
        ["&lt;cell 4&gt;:3:12", "AX0301", "checked: the file then passes", ">^</span>"],
    ),
    ("f(1.0)", ["execute_result"], ["2.0"]),
    ("f('text')", ["display_data", "error"], ["AX0504", "this parameter of `f`"]),
    ("x = np.ones((2, 3), np.float32)\n%axon nn.softmax x", ["execute_result"], ["0.33333334"]),
    ("f", ["execute_result"], ["axon function f", "<pre"]),
    ("%%axon model\nfun q (a : f32[n]) (b : f32[n]) = a + b", ["display_data"], ["module model"]),
    ("model.q([1, 2], [1, 2, 3])", ["display_data", "error"], ["ShapeError", "model:2:21", "n = 2 is dimension 1 of `a`"]),
    ("model", ["execute_result"], ["axon module model", "module model"]),
]


def test_a_notebook(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source, _, _ in CELLS])
    client = nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    for cell, (source, kinds, texts) in zip(book.cells, CELLS, strict=True):
        assert [o.output_type for o in cell.outputs] == kinds, (source, cell.outputs)
        shown = "\n".join(str(o.get("data", {})) + "\n".join(o.get("traceback", ())) for o in cell.outputs)
        assert all(text in shown for text in texts), (source, shown)
        assert "axon/host/call.py" not in shown, "Axon's own frames are no concern of the reader's"


def test_a_notebook_stops_at_a_mistake() -> None:
    cells = ["%load_ext axon", "%%axon\nfun f x = y", "raise SystemExit('not reached')"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    with pytest.raises(nbclient.exceptions.CellExecutionError) as caught:
        nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    assert "error[AX0401]: there is no value `y` here (<cell 2>:2:11)" in str(caught.value)


# ── in this process ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def shell() -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "axon")
    yield shell
    InteractiveShell.clear_instance()


def run(shell: Any, text: str) -> Any:
    """Run a cell; its result, or the error that ended it."""
    result = shell.run_cell(text)
    return result.error_in_exec or result.error_before_exec or result.result


def test_redefinition(shell: Any) -> None:
    run(shell, "%%axon\nfun f x = x + 1.0\nfun g x = f x * 2.0\nval v = g 1.0")
    assert run(shell, "g(1.0), v") == (4.0, 4.0)
    old = shell.user_ns["g"]
    run(shell, "%%axon\nfun f x = x + 10.0")
    assert run(shell, "g(1.0), v") == (22.0, 22.0), "those that use it follow, values too"
    assert old(1.0) == 4.0, "who kept the old one has it still"


def test_python_names_are_respected(shell: Any) -> None:
    run(shell, "%%axon\nfun f x = x\nfun g x = x")
    run(shell, "f = 'mine'")
    run(shell, "%%axon\nval h = 1")
    assert shell.user_ns["f"] == "mine"
    run(shell, "%%axon\nfun f x = x + 1")
    assert run(shell, "f(1)") == 2, "a cell that declares the name takes it"


def test_what_no_longer_fits_is_gone(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%%axon\nfun f x = x + 1.0\nfun g x = f x * 2.0")
    capsys.readouterr()
    run(shell, "%%axon\nfun f (x : f32[n]) (y : f32[n]) = x + y")
    assert "g" not in shell.user_ns
    assert "no longer fits" in capsys.readouterr().out
    run(shell, "%%axon\nfun f x = x")
    assert run(shell, "%axon g 3.0") == 6.0
    assert run(shell, "g(3.0)") == 6.0, "what fits again is given again"
    run(shell, "%%axon\nfun f (x : f32[n]) (y : f32[n]) = x + y")
    run(shell, "g = 'mine'")
    run(shell, "%%axon\nfun f x = x")
    assert shell.user_ns["g"] == "mine", "but not where Python has bound the name since"


def test_expressions_use_python_values(shell: Any) -> None:
    run(shell, "import numpy as np\nx = np.arange(3, dtype=np.float32)\np = {'w': x, 'n': 2.0}\nmax_ = 3")
    assert run(shell, "%axon sum i => x[i] * p.w[i]") == 5.0
    assert np.array_equal(run(shell, "%axon (p.w * p.n, x)")[0], [0, 2, 4])
    run(shell, "x = np.ones((2, 2), np.float32)")
    assert run(shell, "%axon x @ x").tolist() == [[2, 2], [2, 2]]
    error = run(shell, "%axon x @ p.w")
    assert type(error).__name__ == "CellFailed"
    run(shell, "s = 'text'")
    failed = str(run(shell, "%axon s"))
    assert "`s` must be an array or a number, not a value of the Python type str" in failed
    assert "in a call of" not in failed
    assert float(run(shell, "%axon (fn s => s + 1.0) 2.0")) == 3.0, "that `s` is bound by the expression"


def test_modules_of_their_own(shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("beside.axon").write_text("fun one x = x + 1\n")
    run(shell, "%%axon m\nimport beside\nfun two x = beside.one (beside.one x)")
    assert run(shell, "m.two(1)") == 3
    assert "beside" in run(shell, "m")._repr_html_() or "two" in run(shell, "m")._repr_html_()
    assert "AX0510" in str(run(shell, "%%axon not a name\nval a = 1"))


def test_commands(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%%axon\nfun f x = x + 1.0")
    capsys.readouterr()
    run(shell, "%axon :type f 2.0")
    assert "f 2.0 : f32" in capsys.readouterr().out
    run(shell, "%axon :quit")
    run(shell, "%axon fun g x = f x")
    assert run(shell, "g(1.0)") == 2.0


@pytest.mark.parametrize(
    "cell",
    [
        "   ",
        "(* only *)",
        "(* open",
        "\x00",
        "val z = (",
        "é",
        "🙂",
        "(" * 2_000,
        "1 +",
        "fun f x =",
        "((*",
        "fun f x = x\nfun f x = x",
    ],
)
def test_bad_cells(shell: Any, cell: str) -> None:
    run(shell, "%%axon\nfun kept x = x + 1")
    answer = run(shell, f"%%axon\n{cell}")
    assert answer is None if cell in ("   ", "(* only *)") else type(answer).__name__ == "CellFailed", answer
    assert "AX0001" not in str(answer)
    assert run(shell, "kept(1)") == 2


COMPLETED = {
    "%%axon\nsof": ["softy"],
    "%%axon\nfun g (q : f32[rows]) =\n  for i < ro": ["rows", "round"],
    "%%axon\nnn.soft": ["soft_shrink", "softmax", "softmax_all", "softmax_first", "softplus", "softsign"],
    "%%axon mine\nimport n": ["nn"],
    "%axon nn.softm": ["softmax", "softmax_all", "softmax_first"],
    "%axon :ty": [":type"],
    "nn.soft": [],  # Python
    "%%timeit\nnn.soft": [],
}


def test_completion(shell: Any) -> None:
    from IPython.core.completer import provisionalcompleter

    run(shell, "%%axon\nimport nn\nfun softy (x : f32[n]) = x\n")
    with provisionalcompleter():
        for typed, expected in COMPLETED.items():
            found = [c.text for c in shell.Completer.completions(typed, len(typed)) if c.type != "magic"]
            assert found == expected, typed


def test_it_can_be_unloaded(shell: Any) -> None:
    shell.run_line_magic("unload_ext", "axon")
    assert "axon" not in shell.magics_manager.magics["cell"]
    assert shell.custom_exceptions == ()
    assert shell.Completer.custom_matchers == []


# ── rich representations ────────────────────────────────────────────────────────────────────────────────────────────────


def test_representations() -> None:
    m = axon.compile("fun f (x : 'a[n]) = x[0]\nfun heads {h} x = for i < h, j => x[(i, j)]")
    for shown in (m._repr_html_(), m.heads._repr_html_()):
        assert shown.startswith("<pre style=")
        assert "h * j" in shown.replace("</span>", "").replace('<span style="color:#b7791f">', "")
        assert "<script" not in shown
    assert "&gt;=" in m.heads._repr_html_(), "what HTML would read as its own is escaped"


def test_source_in_html_is_escaped() -> None:
    from axon.host import html

    assert "<b>" not in html.source("(* <b> *) val x = 1 <b> 2")
    with pytest.raises(AxonError) as caught:
        axon.compile("val <script> = 1")
    assert "<script>" not in html.diagnostics(caught.value.diagnostics)


def test_import_is_light_without_ipython(tmp_path: Path) -> None:
    (tmp_path / "IPython.py").write_text("raise ImportError('no')\n")
    code = "import axon; print(axon.compile('val a = 1').a)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    assert ran.stdout == "1\n"
