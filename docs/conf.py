"""How Sphinx builds these pages: `make docs`. What is made from the sources is in _ext/axon_pages.py."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import axon_pages
from sphinx.application import Sphinx

import axon
from axon.checker.loader import library_modules

project = "Axon"
author = "the authors of Axon"
version = release = axon.__version__
extensions = ["myst_parser", "axon_playground"]  # the second links programs: sphinx-build -D axon_playground=PAGE
myst_heading_anchors = 3
myst_links_external_new_tab = False
exclude_patterns = ["_build", "_ext"]
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # pages of errors show text that is no Axon
html_theme = "furo"
html_static_path, html_css_files = ["_static"], ["axon.css"]
html_title = f"Axon {release}"
html_show_copyright = False
pygments_style, pygments_dark_style = "friendly", "github-dark"


def write_generated(app: Sphinx) -> None:
    """Write what has changed, so that Sphinx reads no page again for nothing, and remove what is not made any more."""
    made = dict(axon_pages.pages())
    for place, text in made.items():
        file = axon_pages.ROOT / place
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    for file in (axon_pages.ROOT / axon_pages.GENERATED).rglob("*.md"):
        if PurePosixPath(file.relative_to(axon_pages.ROOT).as_posix()) not in made:
            file.unlink()


def read(app: Sphinx, name: str, text: list[str]) -> None:
    """Blocks say what their marks mean; links that leave docs/ lead to generated pages, which the index's navigation has, too."""
    text[0] = axon_pages.captioned(text[0])
    if name.startswith("generated/"):
        return
    if name.startswith("errors/"):  # listed by the index of errors; in the navigation they would bury the rest
        text[0] = axon_pages.ORPHAN + text[0]
        return
    place = PurePosixPath("docs") / f"{name}.md"
    text[0] = axon_pages.relink(text[0], place, place)[0]
    if name == "index":
        text[0] += "\n\n" + axon_pages.contents(text[0])
    if name == "library":
        text[0] += "\n\n" + axon_pages.table([f"generated/library/{module}" for module in library_modules()])


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", write_generated)
    app.connect("source-read", read)
