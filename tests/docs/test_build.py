"""The documentation builds without a warning, and what it makes from the sources is complete."""

from __future__ import annotations

import base64
import html
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import axon
from axon.base.codes import CODES
from axon.checker.loader import library_modules, stdlib_root
from tests import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import axon_pages


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages; a warning is an error."""
    pytest.importorskip("sphinx")
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-D",
        "axon_playground=playground/index.html",
    ]
    command += ["docs", str(out)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return out


def words(page: Path) -> str:
    """What a reader sees of a page."""
    return html.unescape(re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8")))


def test_every_page_is_there(site: Path) -> None:
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "errors").glob("*.md")]:
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file(), page


@pytest.mark.parametrize("module", library_modules())
def test_every_function_of_the_library(site: Path, module: str) -> None:
    """Its heading, its inferred signature, what it is for, and its examples."""
    page = words(site / "generated" / "library" / f"{module}.html")
    loaded = axon.load(stdlib_root() / f"{module}.axon")
    described = {entry.name: entry for entry in axon_pages.entries(module)[1]}
    for name in loaded:
        assert loaded[name].signature in page, name
        assert described[name].words, f"{module}.{name} has no comment"
        assert ">>>" in described[name].examples, f"{module}.{name} has no example"
        for line in described[name].examples.splitlines():
            assert line in page, (name, line)


def test_programs_open_in_the_playground(site: Path) -> None:
    """Those that stand alone; the link holds the program, as the page reads it."""

    def programs(page: str, up: str = "") -> list[str]:
        found = re.findall(rf'<a class="playground" href="{up}playground/index.html#([\w-]+)">', (site / page).read_text("utf-8"))
        return [zlib.decompress(base64.urlsafe_b64decode(text + "=="), -15).decode() for text in found]

    (first,) = programs("index.html")  # the other imports it
    assert first.startswith("fun softmax x = for ..i j =>")
    assert all(axon.check(text) for text in programs("errors/AX0301.html", r"\.\./")[:1])
    assert not any(text.startswith(("sig ", ">>>")) for text in programs("generated/library/nn.html", r"\.\./\.\./"))
    assert len(programs("tutorial.html")) > 20


def test_every_code(site: Path) -> None:
    page = words(site / "generated" / "errors.html")
    links = (site / "generated" / "errors.html").read_text(encoding="utf-8")
    for code, title in CODES.items():
        assert title.replace("`", "") in page, code
        assert f'href="../errors/{code}.html"' in links, code


def test_colours(site: Path) -> None:
    """Axon's own lexer colours blocks of Axon."""
    assert 'class="highlight-axon' in (site / "tutorial.html").read_text(encoding="utf-8")
    assert re.search(r'<span class="kd?r?">fun</span>', (site / "tutorial.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", ["examples/heat.axon.md", "examples/models/README.md", "examples/digits/index.md"])
def test_files_outside_have_pages(site: Path, page: str) -> None:
    assert (site / "generated" / page).with_suffix(".html").is_file()


def test_programs_with_errors_say_so(site: Path) -> None:
    page = (site / "errors" / "AX0301.html").read_text(encoding="utf-8")
    marked = (ROOT / "docs" / "errors" / "AX0301.md").read_text(encoding="utf-8").count("```axon error")
    assert page.count("has an error") == page.count('<div class="rejected highlight-axon') == marked > 0
