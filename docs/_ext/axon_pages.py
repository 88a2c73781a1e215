"""Pages of the documentation that are made from the sources, as Markdown: nothing here knows Sphinx.

Made are the library (a page for each module of stdlib/), the index of errors, the index of Axon's own modules, and a page for every
file of the repository outside docs/ that a page links to. They are written below docs/generated/, which git ignores, and mirror the
repository there: examples/heat.axon is generated/examples/heat.axon.md.
"""

from __future__ import annotations

import ast
import os.path
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import axon
from axon.base.codes import CODES
from axon.base.source import SourceFile
from axon.checker.loader import library_modules
from axon.grammar.lexer import tokenize
from axon.grammar.parse import parse
from axon.grammar.syntax import Fun, TypeDecl, Val
from axon.grammar.table import load

ROOT = Path(__file__).parents[2]
GENERATED = PurePosixPath("docs/generated")
ORPHAN = "---\norphan: true\n---\n\n"  # a page that no table of contents lists, on purpose
TEXTS = {".axon": "axon", ".py": "python", ".c": "c", ".cpp": "cpp", ".txt": "text", ".md": "", "": "text"}

# ── the library ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Entry:
    """A declaration of a library module. `shown` is its signature, or a type's definition; the rest is from its comment."""

    name: str
    kind: str  # fun, val, type
    shown: str
    words: str
    examples: str


def entries(module: str) -> tuple[str, list[Entry]]:
    """What the comment at the top of a library module says, and its declarations in order."""
    path = ROOT / "stdlib" / f"{module}.axon"
    source = SourceFile(str(path), path.read_text(encoding="utf-8"))
    program, problems = parse(source)
    assert not problems, f"{path} has syntax errors"
    comments = tokenize(source, load()).comments
    checked = axon.load(path)
    found = []
    for decl in program.decls:
        before = source.text[: decl.span.start].rstrip()
        words, examples = _parts(next((c.text for c in comments if c.end == len(before)), ""))
        match decl:
            case TypeDecl():
                found.append(Entry(decl.name.text, "type", decl.span.text.rstrip(), words, examples))
            case Fun():
                found.append(Entry(decl.name.text, "fun", checked[decl.name.text].signature, words, examples))
            case Val():
                raise NotImplementedError(f"{path} declares a value: say how to show one")
            case _:
                pass
    head = comments[0] if comments and not source.text[: comments[0].start].strip() else None
    leading = head is not None and source.text[head.end :].startswith("\n\n")
    return (_parts(head.text)[0] if head is not None and leading else ""), found


def _parts(comment: str) -> tuple[str, str]:
    """A comment's prose, and its doctests from the first `>>>` on."""
    inner = comment.removeprefix("(*").removesuffix("*)").strip()
    first, _, rest = inner.partition("\n")
    lines = [first, *textwrap.dedent(rest).splitlines()]
    start = next((i for i, line in enumerate(lines) if line.lstrip().startswith(">>>")), len(lines))
    return "\n".join(lines[:start]).strip(), textwrap.dedent("\n".join(lines[start:])).strip()


def prose(words: str) -> str:
    """A comment's words as Markdown: what stands outside backquotes is no markup."""
    pieces = words.split("`")
    return "`".join(re.sub(r"([\\*_<>\[\]|#$~])", r"\\\1", p) if i % 2 == 0 else p for i, p in enumerate(pieces))


def library_page(module: str) -> str:
    head, found = entries(module)
    functions = [e for e in found if e.kind == "fun"]
    types = [e for e in found if e.kind == "type"]
    lines = [f"# {module}", "", prose(head), "", f"[Its source](../stdlib/{module}.axon.md), `import {module}`.", ""]
    lines += ["| function | |", "|---|---|"]
    lines += [f"| [`{e.name}`](#{anchor(module, e.name)}) | {_first_sentence(e.words)} |" for e in functions]
    if types:
        lines += ["", "## Types"]
    for e in types:
        lines += ["", f"### `{e.name}`", "", "```axon", e.shown, "```", "", prose(e.words)]
    lines += ["", "## Functions"]
    for e in functions:
        lines += ["", f"({anchor(module, e.name)})=", f"### `{e.name}`", "", "```axon", e.shown, "```", "", prose(e.words)]
        lines += ["", "```axon", e.examples, "```"]
    return "\n".join(lines) + "\n"


def library_names() -> str:
    """Every function of the library with its type and the first sentence of its comment, a table for each module, before it the
    module's types: a part of library.md."""
    tables = []
    for module in library_modules():
        found = entries(module)[1]
        types = "\n".join(e.shown for e in found if e.kind == "type")
        shown = f"```axon\n{types}\n```\n\n" if types else ""
        lines = [f"| `{e.name}` | `{_type(e)}` | {_first_sentence(e.words)} |" for e in found if e.kind == "fun"]
        tables.append(f"### `{module}`\n\n{shown}| function | type | |\n|---|---|---|\n" + "\n".join(lines) + "\n")
    return "\n".join(tables)


def _type(e: Entry) -> str:
    """A function's type, for a table."""
    return _cell(e.shown.partition(" : ")[2])


def anchor(module: str, name: str) -> str:
    return f"{module}.{name}"


def _first_sentence(words: str) -> str:
    sentence = re.split(r"(?<=[.:])\s+(?=[A-Z>])", " ".join(words.split()), maxsplit=1)[0]
    return prose(sentence)


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

KINDS = (
    ("AX00", "Axon itself"),
    ("AX01", "Syntax"),
    ("AX02", "Types"),
    ("AX03", "Shapes"),
    ("AX04", "Names and modules"),
    ("AX05", "Calls"),
    ("AX06", "Backends"),
    ("AX07", "Models of other systems"),
    ("AX08", "Models with chance"),
    ("AX09", "Many devices"),
)


def errors_page() -> str:
    """Every code with its title, by kind, linked to its page."""
    lines = ["# Errors", "", "Every error has a code, which never changes its meaning. `axon explain AX0301` prints its page.", ""]
    listed = 0
    for prefix, kind in KINDS:
        codes = {code: title for code, title in CODES.items() if code.startswith(prefix)}
        listed += len(codes)
        lines += [f"## {kind}", "", "| code | |", "|---|---|"]
        lines += [f"| [{code}](../errors/{code}.md) | {prose(title)} |" for code, title in codes.items()] + [""]
    assert listed == len(CODES), "a kind of codes has no heading"
    return "\n".join(lines)


# ── Axon's modules ──────────────────────────────────────────────────────────────────────────────────────────────────────


def modules() -> str:
    """Every module of the package with the first sentence of its docstring, a table for each package: a part of architecture.md."""
    rows: dict[str, list[str]] = {}
    for file in sorted((ROOT / "axon").rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        package, name = ".".join(parts[:-1]), parts[-1]
        said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        first = re.split(r"(?<=\.)\s", " ".join(said.split("\n\n")[0].split()), maxsplit=1)[0].rstrip(".:")
        rows.setdefault(package, []).append(f"| `{package if name == '__init__' else f'{package}.{name}'}` | {_cell(first)} |")
    return "\n".join(f"### `{package}`\n\n| module | |\n|---|---|\n" + "\n".join(lines) + "\n" for package, lines in rows.items())


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


# ── files outside docs/ ─────────────────────────────────────────────────────────────────────────────────────────────────

FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def relink(text: str, page: PurePosixPath, here: PurePosixPath) -> tuple[str, set[PurePosixPath]]:
    """A page's text with its links to files outside docs/ leading to their generated pages, and these files.

    `page` is the page's place in the repository, `here` the one of the text that Sphinx reads.
    """
    outside: set[PurePosixPath] = set()

    def replaced(link: re.Match[str]) -> str:
        target = PurePosixPath(os.path.normpath(page.parent / link[1]))
        if ".." in target.parts or not (ROOT / target).exists() or page.suffix != ".md":
            return link[0]
        if target == PurePosixPath("docs/errors"):
            goal = GENERATED / "errors.md"
        elif target.parts[0] == "docs":
            goal = target
        elif target.parts[0] == "stdlib" and target.suffix == ".axon":
            goal = GENERATED / "library" / f"{target.stem}.md"
        else:
            goal = generated(target)
            outside.add(target)
        return f"]({os.path.relpath(goal, here.parent)}{link[2] or ''})"

    pieces, end = [], 0
    for fence in FENCED.finditer(text):
        pieces += [LINK.sub(replaced, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, LINK.sub(replaced, text[end:])]), outside


def generated(target: PurePosixPath) -> PurePosixPath:
    """The page that stands for a file or a directory outside docs/."""
    if (ROOT / target).is_dir():
        return GENERATED / target / ("README.md" if (ROOT / target / "README.md").exists() else "index.md")
    return GENERATED / (target if target.suffix == ".md" else target.with_name(f"{target.name}.md"))


def outside_page(target: PurePosixPath) -> tuple[str, set[PurePosixPath]]:
    """The text of that page, and further files that it links to."""
    path = ROOT / target
    if path.is_dir() and not (path / "README.md").exists():
        files = sorted(f.name for f in path.iterdir() if f.suffix in (".axon", ".py", ".c", ".cpp"))
        text = f"# {target}\n\n" + "".join(f"* [{name}]({name})\n" for name in files)
        relinked, more = relink(text, target / "index.md", generated(target))
        return ORPHAN + relinked, more
    if path.is_dir():
        target, path = target / "README.md", path / "README.md"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        relinked, more = relink(text, target, generated(target))
        return ORPHAN + relinked, more
    return f"{ORPHAN}# {target}\n\n````{TEXTS[path.suffix]}\n{text.rstrip()}\n````\n", set()


# ── marks of code blocks ────────────────────────────────────────────────────────────────────────────────────────────────

OPENING = re.compile(r"^( *)```(axon|python|c) ([^\n`]+)$", re.MULTILINE)
SAID = {"axon": "has an error", "python": "raises AxonError"}


def captioned(text: str) -> str:
    """A page's text, in which programs that stay under a file name, or have an error, say so (see docs/examples.md)."""

    def replaced(opening: re.Match[str]) -> str:
        indent, language, marks = opening[1], opening[2], opening[3].split()
        wrong = "error" in marks
        said = [*(mark for mark in marks if mark.endswith((".axon", ".c"))), *([SAID[language]] if wrong else [])]
        caption = [f":caption: {', '.join(said)}"] if said else []
        lines = [f"```{{code-block}} {language}", *caption, *([":class: rejected"] if wrong else []), ""]
        return "\n".join(indent + line for line in lines)

    return OPENING.sub(replaced, text)


# ── all of them ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def pages() -> Iterator[tuple[PurePosixPath, str]]:
    """Every generated page: its place in the repository, and its text."""
    yield GENERATED / "errors.md", errors_page()
    wanted: set[PurePosixPath] = set()
    for module in library_modules():
        yield GENERATED / "library" / f"{module}.md", library_page(module)
        wanted.add(PurePosixPath("stdlib") / f"{module}.axon")
    for file in sorted((ROOT / "docs").glob("*.md")):
        place = PurePosixPath("docs") / file.name
        wanted |= relink(file.read_text(encoding="utf-8"), place, place)[1]
    done: set[PurePosixPath] = set()
    while wanted:
        target = min(wanted)
        wanted.remove(target)
        if generated(target) in done:
            continue
        done.add(generated(target))
        text, more = outside_page(target)
        yield generated(target), text
        wanted |= more


SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def contents(index: str) -> str:
    """Tables of contents for the navigation, made of the links below each heading of the index."""
    parts = SECTION.split(index)[1:]
    tables = []
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        tables.append(table([link[1].removesuffix(".md") for link in LINK.finditer(body)], heading))
    return "\n\n".join(tables)


def table(places: list[str], caption: str = "") -> str:
    return "\n".join(["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *places, "```"])
