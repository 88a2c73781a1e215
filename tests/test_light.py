"""Starting is quick: nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HEAVY = ["numpy", "sympy", "lark", "rich", "numba", "ml_dtypes", "axon.lower", "axon.interpret"]


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


def loaded(code: str) -> list[str]:
    report = f"import json, sys; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    return json.loads(python(f"{code}\n{report}").splitlines()[-1])


def test_import() -> None:
    assert loaded("import axon") == []


def test_usage() -> None:
    assert loaded("import axon.tools.cli\ntry: axon.tools.cli.main(['--help'])\nexcept SystemExit: pass") == []


def test_check_and_sig(tmp_path: Path) -> None:
    """Checking needs no arrays; SymPy comes only with products of dimensions, Lark only when the grammar changed."""
    (tmp_path / "a.axon").write_text("import nn\nfun f (x : f32[n, d]) w = nn.relu (x @ w)\n")
    code = f"import axon.tools.cli\nfor c in ('check', 'sig'): axon.tools.cli.main([c, {str(tmp_path / 'a.axon')!r}])"
    assert [m for m in loaded(code) if m not in ("lark",)] == []


def test_the_public_names() -> None:
    import axon

    assert sorted(axon.__all__) == [
        "AxonError",
        "Diagnostic",
        "Function",
        "Module",
        "ShapeError",
        "check",
        "compile",
        "load",
        "synchronize",
    ]
    assert all(hasattr(axon, name) and name in dir(axon) for name in axon.__all__)
    assert not hasattr(axon, "nope")
    assert issubclass(axon.ShapeError, axon.AxonError)
