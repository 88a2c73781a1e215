"""The extension for VS Code: its grammar, its manifest, and its package. What needs Node is skipped where it is not installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from axon.base.element import Element
from axon.base.source import SourceFile
from axon.grammar.lexer import END, tokenize
from axon.grammar.table import load
from axon.types import builtins
from tests import ROOT

FOLDER = ROOT / "editors" / "vscode"
GRAMMAR = json.loads((FOLDER / "syntaxes" / "axon.tmLanguage.json").read_text())
MANIFEST = json.loads((FOLDER / "package.json").read_text())

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules" / ".bin" / "vsce").exists(),
    reason="needs Node and `npm install` in editors/vscode; `make vscode` does that",
)


def words_of(rule: str) -> set[str]:
    return set(re.findall(r"[A-Za-z]\w+", " ".join(re.findall(r"\\\\b\((.*?)\)", json.dumps(GRAMMAR["repository"][rule])))))


def test_the_grammar_knows_every_word() -> None:
    keywords = {s for s in load().literals if s.isidentifier()}
    assert keywords <= words_of("keyword") | words_of("declaration")
    assert {e.value for e in Element} == words_of("type")
    assert {*builtins.UNARY, *builtins.BINARY, *builtins.FUNCTIONS, *builtins.OVER_LEAVES} == words_of("builtin")
    assert set(builtins.CONSTANTS) <= words_of("keyword")
    assert {*builtins.REDUCTIONS, "reduce", "scan"} - set(builtins.BINARY) == words_of("reduction")


def test_the_manifest_names_files_that_exist() -> None:
    contributes = MANIFEST["contributes"]
    paths = [g["path"] for g in contributes["grammars"]] + [s["path"] for s in contributes["snippets"]]
    paths += [language["configuration"] for language in contributes["languages"]]
    for path in paths:
        json.loads((FOLDER / path).read_text())
    from axon.tools.editor.tokens import MODIFIERS, TYPES

    known = {t["id"] for t in contributes["semanticTokenTypes"]} | set(TYPES)
    for scope in contributes["semanticTokenScopes"][0]["scopes"]:
        kind, _, modifier = scope.partition(".")
        assert kind in known
        assert not modifier or modifier in MODIFIERS


def test_the_version_is_that_of_axon() -> None:
    import axon

    assert MANIFEST["version"] == axon.__version__


@needs_node
def test_grammar() -> None:
    """Each word of test/grammar.axon has the scope that is written below it."""
    done = subprocess.run(["npm", "test", "--silent"], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


EXPECTED = {
    "INT": "constant.numeric",
    "FLOAT": "constant.numeric",
    "RUN": "variable.other.run",
    "TYVAR": "entity.name.type.parameter",
}


@needs_node
def test_the_grammar_agrees_with_the_lexer() -> None:
    """In every example and module: what the lexer takes for a word of some kind, the grammar does; comments are comments."""
    files = sorted([*(ROOT / "examples").rglob("*.axon"), *(ROOT / "stdlib").glob("*.axon")])
    questions, wanted = [], []
    for file in files:
        source = SourceFile(str(file), file.read_text())
        lexed = tokenize(source, load())
        expected: list[tuple[int, str]] = []
        for token in lexed.tokens:
            if token.kind in EXPECTED:
                expected.append((token.start, EXPECTED[token.kind]))
            elif token.kind != END and token.kind.isidentifier() and token.kind == token.text:
                expected.append((token.start, "keyword."))
        expected += [(c.start, "punctuation.definition.comment.begin") for c in lexed.comments]
        expected += [(c.end - 1, "punctuation.definition.comment.end") for c in lexed.comments]
        places = [source.position(offset) for offset, _ in expected]
        questions.append({"text": source.text, "offsets": [[line - 1, column - 1] for line, column in places]})
        wanted.append([(file.name, place, scope) for place, (_, scope) in zip(places, expected, strict=True)])
    command = ["node", "test/scopes.mjs"]
    done = subprocess.run(command, cwd=FOLDER, input=json.dumps(questions), capture_output=True, text=True, timeout=120, check=True)
    for answers, asked in zip(json.loads(done.stdout), wanted, strict=True):
        for scope, (name, place, expected_scope) in zip(answers, asked, strict=True):
            assert scope.startswith(expected_scope), (name, place, scope, expected_scope)


@needs_node
def test_package(tmp_path: Path) -> None:
    """One command makes a .vsix that holds what it must and nothing else."""
    package = tmp_path / "axon.vsix"
    command = ["npm", "run", "--silent", "package", "--", "--out", str(package)]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(package) as archive:
        names = {n.removeprefix("extension/") for n in archive.namelist() if n.startswith("extension/")}
        manifest = json.loads(archive.read("extension/package.json"))
    assert manifest["name"] == "axon-lang"
    assert {"dist/extension.js", "syntaxes/axon.tmLanguage.json", "language-configuration.json", "snippets.json"} <= names
    assert not any(n.startswith(("node_modules", "src", "test")) for n in names)


@needs_node
def test_the_client_loads() -> None:
    """The bundle is JavaScript that exports what an editor calls; `vscode` itself is the editor's."""
    script = (
        "const m = require('module'); const load = m._load;"
        "const any = () => new Proxy(function () {}, { get: (t, k) => k === Symbol.toPrimitive ? () => '' : any(), apply: any,"
        " construct: any });"
        "m._load = (name, ...rest) => name === 'vscode' ? any() : load(name, ...rest);"
        "const e = require('./dist/extension.js'); console.log(typeof e.activate, typeof e.deactivate);"
    )
    subprocess.run(["npm", "run", "--silent", "build"], cwd=FOLDER, capture_output=True, timeout=120, check=True)
    done = subprocess.run(["node", "-e", script], cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["function", "function"], done.stderr
