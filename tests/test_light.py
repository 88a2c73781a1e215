"""Starting is quick: nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

HEAVY = ["numpy", "torch", "sympy", "lark", "rich", "numba", "ml_dtypes", "axon.lower", "axon.interpret"]


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


def loaded(code: str) -> list[str]:
    report = f"import json, sys; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    return json.loads(python(f"{code}\n{report}").splitlines()[-1])


def test_import() -> None:
    assert loaded("import axon") == []
    assert loaded("import axon.nn\nassert dir(axon.nn)") == []


def test_usage() -> None:
    assert loaded("import axon.tools.cli\ntry: axon.tools.cli.main(['--help'])\nexcept SystemExit: pass") == []


def test_check_and_sig(tmp_path: Path) -> None:
    """Checking needs no arrays; SymPy comes only with products of dimensions, Lark only when the grammar changed."""
    (tmp_path / "a.axon").write_text("import nn\nfun f (x : f32[n, d]) w = nn.relu (x @ w)\n")
    code = f"import axon.tools.cli\nfor c in ('check', 'sig'): axon.tools.cli.main([c, {str(tmp_path / 'a.axon')!r}])"
    assert [m for m in loaded(code) if m not in ("lark",)] == []


# What only an error, a call, an editor or a first reading of the library needs.
LATE = [
    "axon.suggest", "axon.explain", "axon.checker.said", "axon.checker.derivation", "axon.grammar.foreign", "axon.grammar.format",
    "axon.base.render", "axon.base.codes", "axon.host", "axon.backend", "axon.core", "axon.lower", "axon.interpret",
    "axon.tools.editor", "axon.tools.lsp", "axon.tools.prompt", "axon.tools.view", "sympy", "numpy", "lark", "rich", "pickle",
]  # fmt: skip


def test_what_a_correct_check_does_not_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AXON_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    (tmp_path / "a.axon").write_text("import nn\nfun f (x : f32[n, d]) w = nn.softmax (nn.relu (x @ w))\n")
    code = "import sys\nbefore = set(sys.modules)\nimport axon.tools.cli\n"
    code += f"assert axon.tools.cli.main(['check', {str(tmp_path / 'a.axon')!r}]) == 0\n"
    code += "import json\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    python(code)  # which leaves the library and the grammar on disk
    modules = json.loads(python(code).splitlines()[-1])
    assert [m for m in modules if any(m == late or m.startswith(f"{late}.") for late in LATE)] == []
    assert "axon.checker.check" in modules


GPU = ("build", "emit", "intrinsics", "proof", "report", "roles", "runtime", "simt", "tile")
KERNEL = ("__init__", "parameters", "taking")  # what the kept functions take, and how threads share them; not what writes them
# What a first call on the CPU does without where its file, its kernels and the library are on disk.
NOT_CALLED = [
    *(m for m in LATE if m not in ("numpy", "pickle", "axon.host", "axon.backend", "axon.core", "axon.interpret")),
    "axon.checker.check", "axon.grammar.parse", "axon.types.inference", "axon.types.show", "axon.shapes.solving.settle",
    "axon.backend.plan.fuse", "axon.backend.cpu.plan", "axon.backend.cpu.nests", "axon.backend.cpu.loops",
    "axon.backend.cpu.lowering", "axon.backend.cpu.intrinsics",
    *(f"axon.backend.kernel.{file.stem}" for file in (ROOT / "axon/backend/kernel").glob("*.py") if file.stem not in KERNEL),
    "numba", "importlib.metadata", "axon.tools", *(f"axon.backend.gpu.{part}" for part in GPU),
]  # fmt: skip


def test_what_a_first_call_does_not_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AXON_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    (tmp_path / "a.axon").write_text("import nn\nfun f (x : f32[n, d]) w = nn.softmax (nn.relu (x @ w))\n")
    code = "import sys\nbefore = set(sys.modules)\nimport axon, numpy as np\n"
    code += f"axon.load({str(tmp_path / 'a.axon')!r}).f(np.ones((300, 200), np.float32), np.ones((200, 400), np.float32))\n"
    code += "import json\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    assert "axon.backend.cpu.lowering" in python(code)  # which leaves the library, the grammar and the kernels on disk
    modules = json.loads(python(code).splitlines()[-1])
    assert [m for m in modules if any(m == late or m.startswith(f"{late}.") for late in NOT_CALLED)] == []
    assert "axon.backend.cpu.run" in modules


def test_the_public_names() -> None:
    import axon

    assert sorted(axon.__all__) == [
        "AxonError",
        "Diagnostic",
        "Function",
        "Model",
        "Module",
        "ShapeError",
        "check",
        "compile",
        "infer",
        "jax_targets",
        "load",
        "load_weights",
        "register",
        "shard",
        "synchronize",
    ]
    assert all(hasattr(axon, name) and name in dir(axon) for name in axon.__all__)
    assert "nn" in dir(axon)
    assert axon.nn.__all__ == ["Module"]
    assert not hasattr(axon, "nope")
    assert not hasattr(axon.nn, "nope")
    assert issubclass(axon.ShapeError, axon.AxonError)
