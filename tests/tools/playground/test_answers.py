"""What the page is answered, and that a browser's Python can answer it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import axon
from axon.base import render
from axon.tools.playground import building
from axon.tools.playground.answers import check
from tests import ROOT

MISTAKE = """\
import nn

fun mlp (x : f32[b, d]) (w1 : f32[d, 4 * d]) (w2 : f32[3 * d, d]) =
  nn.relu (x @ w1) @ w2
"""


# Its sizes ask SymPy.
SHUFFLED = """\
fun shuffle {r} (x : f32[c * r * r, h, w]) where r >= 1 =
  for k < c, i < h * r, j < w * r => x[k * r * r + r * (i % r) + j % r, i / r, j / r]
"""


def answer(text: str, tries: bool = True) -> Any:
    return json.loads(check(text, tries))


def test_what_is_right() -> None:
    text = "import nn\n(* twice *)\nfun g (x : 'a[n, 3]) = let val y = nn.relu x in y + y end\n"
    found = answer(text)
    assert found["diagnostics"] == []
    assert found["signatures"] == {"g": "'a[n, 3] -> 'a[n, 3]"}
    assert found["modules"]["nn"]["relu"] == "'a[..s] -> 'a[..s]"
    shown = {text[start:end]: type for start, end, type in found["inner"]}
    assert shown["y"] == "y : 'a[n, 3]"
    words = [(text[start:end], kind) for start, end, kind in found["words"]]
    assert words[:3] == [("import", "keyword"), ("(* twice *)", "comment"), ("fun", "keyword")]
    assert {("3", "number"), ("'a", "type"), ("@", "operator")} - set(words) == {("@", "operator")}


def test_suggestions_come_after_the_error() -> None:
    first, then = answer(MISTAKE, False), answer(MISTAKE)
    (before,), (after,) = first["diagnostics"], then["diagnostics"]
    assert {k: before[k] for k in ("code", "message", "labels")} == {k: after[k] for k in ("code", "message", "labels")}
    assert before["suggestions"] == []
    (edit,) = after["suggestions"][0]["edits"]
    mended = MISTAKE[: edit["start"]["offset"]] + edit["text"] + MISTAKE[edit["end"]["offset"] :]
    assert answer(mended)["diagnostics"] == []
    (whole,) = axon.check(MISTAKE)
    assert after["rendered"] == render.render(whole).replace("<text>", "<program>"), "what the command line says"


@pytest.mark.parametrize("text", ["", "fun", "(* never closed", "fun f x = " + "(" * 2_000, "x" * 300, "é\ud800", "1 2 3\n" * 400])
def test_any_text(text: str) -> None:
    found = answer(text)
    assert found.keys() == {"diagnostics", "signatures", "modules", "inner", "words"}
    assert all(0 <= start < end <= len(text) for start, end, _ in found["words"])


def test_examples_are_what_they_say() -> None:
    for example in building.examples():
        codes = [d["code"] for d in answer(example["text"])["diagnostics"]]
        assert codes == ([example["name"][-6:]] if "mistake" in example["name"] else []), example["name"]


# What checking may import besides Axon: of pure Python, in the page's archives; and what Lark and SymPy take if it is there.
PURE = {*building.PURE, *building.ALGEBRA, "interegular", "gmpy2", "flint"}


def test_checking_is_pure_python(tmp_path: Path) -> None:
    """No module of a package that is compiled for a machine, nor one that the page lacks: in a process with an empty cache, of
    programs with and without errors, and with products of sizes, which ask SymPy."""
    programs = [
        (ROOT / "examples" / "pagerank.axon").read_text(),
        "fun f (x : f32[b, d]) (w : f32[3 * d, d]) = x @ w\n",
        SHUFFLED,
    ]
    code = f"""
import json, sys
before = set(sys.modules)
from axon.tools.playground.answers import check
for text in {programs!r}:
    check(text, True)
standard = sys.stdlib_module_names
more = {{n.split(".")[0] for n in set(sys.modules) - before}} - set(standard)
files = {{n: getattr(m, "__file__", None) or "" for n, m in sys.modules.items() if n.split(".")[0] not in standard}}
print(json.dumps([sorted(more), [n for n, file in files.items() if file.endswith((".so", ".pyd"))]]))
"""
    environment = {"AXON_CACHE": str(tmp_path / "a"), "XDG_CACHE_HOME": str(tmp_path / "b"), "PYTHONPATH": str(ROOT), "PATH": ""}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=240)
    more, compiled = json.loads(ran.stdout.splitlines()[-1])
    assert {"axon", "sympy"} <= set(more)
    assert set(more) - {"axon"} - PURE == set()
    assert [name for name in compiled if not name.startswith("_sysconfigdata")] == []


def test_what_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(axon.AxonError, match="it is no playground"):
        building.build(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_without_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(axon.AxonError, match=r"AX0003.*needs `npm`"):
        building.build(tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_versions_are_fixed() -> None:
    """What package.json asks for is one version each, and the lock has its digest, and no place where it was fetched."""
    wanted = json.loads((building.PAGE / "package.json").read_text())["dependencies"]
    lock = json.loads((building.PAGE / "package-lock.json").read_text())["packages"]
    assert {name: lock[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all("integrity" in facts for name, facts in lock.items() if name)
    assert all(
        facts.get("resolved", "https://registry.npmjs.org/").startswith("https://registry.npmjs.org/") for facts in lock.values()
    )
