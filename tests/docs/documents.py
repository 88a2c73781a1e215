"""The code blocks of the documentation, and what running one means. docs/examples.md says how blocks are marked."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import axon
from axon.checker.loader import FileLoader
from axon.tools.cli import main
from axon.tools.commands.doctest import run_file
from tests import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md", "examples/models/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "errors").glob("*.md")),
]
FENCE = re.compile(r"^( *)(```+)([^\n`]*)\n(.*?)^ *\2$", re.MULTILINE | re.DOTALL)
STATED = re.compile(r"\(\* (sig (\w+) : .*?) \*\)", re.DOTALL)
FILE = re.compile(r"[\w/]+\.(axon|c)")
NEEDS = {"torch", "jax", "cupy", "cuda"}
# What other tests hold, which write it anew on request or know how to type into a prompt.
ELSEWHERE = {
    ("docs/gallery.md", "console"): "tests/corpus/test_examples.py",
    ("docs/prompt.md", "console"): "tests/tools/prompt/test_prompt_page.py",
    ("docs/errors", "axon"): "tests/base/test_codes.py",
    ("docs/errors", "python"): "tests/base/test_codes.py",
}


@dataclass(frozen=True, slots=True)
class Block:
    page: str  # relative to the repository
    line: int
    language: str
    marks: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def needs(self) -> set[str]:
        return NEEDS & set(self.marks)

    @property
    def elsewhere(self) -> str | None:
        """The test that holds it instead."""
        folder = self.page.rpartition("/")[0]
        return ELSEWHERE.get((self.page, self.language)) or ELSEWHERE.get((folder, self.language))


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page."""
    text, found = page.read_text(encoding="utf-8"), []
    for match in FENCE.finditer(text):
        indent, _, info, body = match.groups()
        language, *marks = info.split() or [""]
        body = "".join(row.removeprefix(indent) for row in body.splitlines(keepends=True))
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page.relative_to(ROOT).as_posix(), line, language, tuple(marks), body))
    return found


def lacking(needs: set[str]) -> str | None:
    """Why a block that needs these libraries, or a GPU, cannot run on this machine."""
    for name in sorted(needs - {"cuda"}):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
    if "cuda" in needs:
        from numba import cuda

        if not cuda.is_available():
            return "there is no GPU"
    return None


@dataclass
class Reader:
    """Runs the blocks of one page in order, in an empty directory, with one Python for all of them."""

    namespace: dict[str, Any] = field(default_factory=dict)
    shown: str = ""  # what `axon check` prints of the last program with an error
    programs: int = 0
    notebook: Any = None

    def run(self, block: Block) -> None:
        if "shown" in block.marks:
            assert block.marks == ("shown",)
            return
        files = [mark for mark in block.marks if FILE.fullmatch(mark)]
        unknown = set(block.marks) - {"error", "ipython"} - NEEDS - set(files)
        assert not unknown, f"no such mark: {unknown}"
        assert block.language in RUN, f"a block of {block.language or 'no language'} is marked `shown`, or not at all"
        RUN[block.language](self, block, files[0] if files else None)

    def axon(self, block: Block, file: str | None) -> None:
        """The program checks, and its examples hold; or it has one error, and nothing else."""
        self.programs += 1
        name = file or f"program{self.programs}.axon"
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(block.text, encoding="utf-8")
        status, printed = _axon(["check", name], notes=False)
        if "error" in block.marks:
            assert printed.count("error[") == 1, f"one mistake gives one error\n{printed}"
            self.shown = printed
            return
        assert status == 0, printed
        if ">>>" in block.text:
            failures = run_file(FileLoader(), name).failures
            assert not failures, str(axon.AxonError(failures))
        if stated := STATED.findall(block.text):
            module = axon.load(name)
            for text, declared in stated:
                assert module[declared].signature == (said := " ".join(text.split())), f"{said} is {module[declared].signature}"

    def c(self, block: Block, file: str | None) -> None:
        """A file that commands below compile."""
        assert file is not None, "C stands in a file, or is marked `shown`"
        Path(file).write_text(block.text, encoding="utf-8")

    def rendered(self, block: Block, file: str | None) -> None:
        """What the program with an error before it prints."""
        assert block.marks == ("error",), "text is an `error`, or `shown`"
        assert block.text == self.shown

    def python(self, block: Block, file: str | None) -> None:
        if "ipython" in block.marks:
            self.cell(block)
            return
        code = compile(block.text, block.place, "exec")
        if "error" not in block.marks:
            exec(code, self.namespace)
            return
        try:
            exec(code, self.namespace)
        except axon.AxonError:
            return
        raise AssertionError("it raises no AxonError")

    def cell(self, block: Block) -> None:
        """A notebook's cell: all of a page are one notebook."""
        from IPython.core.interactiveshell import InteractiveShell

        if self.notebook is None:
            self.notebook = InteractiveShell()
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            ran = self.notebook.run_cell(block.text)
        assert ran.success, out.getvalue()

    def session(self, block: Block, file: str | None) -> None:
        test = doctest.DocTestParser().get_doctest(block.text, self.namespace, block.place, block.page, block.line)
        test.globs = self.namespace  # a copy was made of it
        complaints: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=complaints.append, clear_globs=False)
        assert test.examples
        assert not complaints, "".join(complaints)

    def console(self, block: Block, file: str | None) -> None:
        """Every `$ command` succeeds (fails, if that is marked), and prints what stands below it."""
        first, *commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
        assert not first, "a session begins with `$ `"
        assert commands
        failing = "error" in block.marks
        for command in commands:
            line, _, expected = command.partition("\n")
            if line.startswith("axon "):
                status, printed = _axon(shlex.split(line)[1:])
            else:
                ran = subprocess.run(
                    ["sh", "-c", line], capture_output=True, text=True, env=_environment(), timeout=120, check=False
                )
                status, printed = ran.returncode, ran.stdout
            assert (status != 0, printed) == (failing, expected), f"{line}\n{printed}"

    def sh(self, block: Block, file: str | None) -> None:
        """Commands of Axon succeed. What installs or builds is not run: extras and targets of the Makefile exist."""
        for line in block.text.replace("\\\n", "").splitlines():
            match shlex.split(line, comments=True):
                case []:
                    pass
                case ["axon", *arguments]:
                    status, printed = _axon(arguments)
                    assert status == 0, printed
                case ["make", *targets]:
                    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
                    assert all(re.search(rf"^{re.escape(t)}:", makefile, re.MULTILINE) for t in targets if "=" not in t)
                case [*_, "pip", "install", what] if found := re.fullmatch(r"\.\[(.+)\]", what):
                    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
                    assert set(found[1].split(",")) <= project["optional-dependencies"].keys(), what
                case other:
                    raise AssertionError(f"{other[0]} is not run: mark the block `shown`")

    def json(self, block: Block, file: str | None) -> None:
        json.loads(block.text)

    def toml(self, block: Block, file: str | None) -> None:
        tomllib.loads(block.text)


RUN: dict[str, Callable[[Reader, Block, str | None], None]] = {
    "axon": Reader.axon,
    "c": Reader.c,
    "text": Reader.rendered,
    "python": Reader.python,
    "pycon": Reader.session,
    "console": Reader.console,
    "sh": Reader.sh,
    "json": Reader.json,
    "toml": Reader.toml,
}


def _axon(arguments: Sequence[str], notes: bool = True) -> tuple[int, str]:
    """The exit status of `axon ARGUMENTS`, and what a terminal then shows, or without `notes` standard output alone."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out if notes else io.StringIO()):
        status = main(list(arguments))
    assert "Traceback" not in out.getvalue()
    return status, out.getvalue()


def _environment() -> dict[str, str]:
    """The environment in which `axon` and `python` are this one's."""
    return {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
