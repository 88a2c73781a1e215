"""A link below each program of the site that opens it in the playground, where the site has one."""

from __future__ import annotations

import os.path
from html import escape

from docutils import nodes
from sphinx.application import Sphinx

from axon.base.source import SourceFile
from axon.checker.loader import library_modules
from axon.grammar.parse import parse
from axon.grammar.syntax import Fun, Import, Val
from axon.tools.playground.building import fragment


def stands_alone(text: str, rejected: bool) -> bool:
    """Whether a block is a program that imports nothing but the library: signatures, examples of comments and parts of programs
    are not. One that is shown for its error may be anything."""
    program, problems = parse(SourceFile("<block>", text))
    if not rejected and (problems or not any(isinstance(d, Fun | Val) for d in program.decls)):
        return False
    return {d.name.text for d in program.decls if isinstance(d, Import)} <= set(library_modules())


def link_programs(app: Sphinx, doctree: nodes.document, name: str) -> None:
    page = app.config.axon_playground
    if not page or app.builder.format != "html":
        return
    href = os.path.relpath(page, os.path.dirname(name) or ".")
    for block in list(doctree.findall(nodes.literal_block)):
        rejected = "rejected" in block.get("classes", ())
        if block.get("language") == "axon" and stands_alone(block.astext(), rejected):
            whole = block.parent if isinstance(block.parent, nodes.container) else block  # with its caption
            link = f'<a class="playground" href="{escape(href)}#{fragment(block.astext() + chr(10))}">open in the playground</a>'
            whole.parent.insert(whole.parent.index(whole) + 1, nodes.raw("", link, format="html"))


def setup(app: Sphinx) -> None:
    app.add_config_value("axon_playground", "", "html")
    app.connect("doctree-resolved", link_programs)
