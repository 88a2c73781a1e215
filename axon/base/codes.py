"""The table of diagnostic codes. Codes are stable; a code's long text is docs/errors/CODE.md, which `axon explain CODE` prints."""

from __future__ import annotations

from functools import cache
from pathlib import Path

INTERNAL_CODES = {
    "AX0001": "internal error",
    "AX0002": "the program is too deep or too large for this machine",
    "AX0003": "a package is not installed",
}
NAME_CODES = {
    "AX0401": "unknown name",
    "AX0402": "module not found",
    "AX0403": "cyclic import",
    "AX0404": "defined twice",
    "AX0405": "the module has no such member",
    "AX0406": "reserved or misused name",
    "AX0407": "unknown type name",
    "AX0408": "file cannot be read",
    "AX0409": "no such code",
    "AX0410": "an imported module has errors",
    "AX0411": "too many errors",
}
CALL_CODES = {
    "AX0501": "sizes break the contract",
    "AX0502": "an index computed from data is out of bounds",
    "AX0503": "arithmetic failed while running",
    "AX0504": "wrong element type",
    "AX0505": "wrong arguments",
    "AX0506": "wrong rank",
    "AX0507": "no such declaration",
    "AX0508": "an argument cannot be read",
    "AX0509": "a doctest failed",
    "AX0510": "a command of the prompt cannot be carried out",
    "AX0511": "an earlier call failed on a GPU",
}
BACKEND_CODES = {
    "AX0601": "no such target",
    "AX0602": "no such stage",
    "AX0603": "there is no GPU kernel for this",
    "AX0604": "the GPU path lacks something on this machine",
    "AX0605": "a schedule file is wrong",
    "AX0611": "a GPU kernel could not be built",
    "AX0612": "the GPU refused a call, or failed",
    "AX0613": "the GPU has no room",
}


@cache
def all_codes() -> dict[str, str]:
    """Every code and its title, in the order of the codes."""
    from axon.grammar.codes import SYNTAX_CODES
    from axon.types.codes import SHAPE_CODES, TYPE_CODES

    tables = (INTERNAL_CODES, SYNTAX_CODES, TYPE_CODES, SHAPE_CODES, NAME_CODES, CALL_CODES, BACKEND_CODES)
    return dict(sorted((code, title) for table in tables for code, title in table.items()))


def page(code: str) -> str | None:
    """The long text of a code in Markdown, or None if there is none. Shipped inside the wheel; beside the package in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "_errors", package.parent / "docs" / "errors"):
        file = folder / f"{code}.md"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None
