"""Documents: text with places where lines may break, and the layout that breaks as few as fit a width (after Wadler, and
Lindig's strict version). Layout is iterative, and linear in the document for a fixed width.

A `str` is printed as it stands; one that is not blank is a token of the language, which lets comments be put back by tokens.
A tuple of documents is their sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from axon.base.data import dataclass

if TYPE_CHECKING:
    from axon.grammar.syntax import Node


@dataclass(frozen=True, slots=True)
class Line:
    """A line break where the group around it is broken, else `flat`."""

    flat: str = " "


@dataclass(frozen=True, slots=True)
class Fresh:
    """The beginning of a line: a break unless nothing has been printed on the line; breaks every group around it.

    `blank` leaves one empty line before it, except at the very beginning.
    """

    blank: bool = False


@dataclass(frozen=True, slots=True)
class Nest:
    """Lines that begin inside are indented by more."""

    indent: int
    doc: Doc


@dataclass(frozen=True, slots=True)
class Group:
    """On one line if that fits, otherwise with every `Line` that is directly inside broken."""

    doc: Doc


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment with its first column; further lines move as the first does. `ends_line` breaks before whatever follows."""

    text: str
    column: int
    ends_line: bool


@dataclass(frozen=True, slots=True)
class Hug:
    """A space and a document that arranges its own lines, if possible on one line, here or on the next. Otherwise it begins
    here if its first line fits, else on the next, indented by 2."""

    doc: Doc


@dataclass(frozen=True, slots=True)
class Headed:
    """A head and the `Hug` or `Group` that follows it. The head is a group, and below a broken one the body begins a line.
    A `Hug` that begins with a head begins where it stands only if the whole head fits there."""

    head: Doc
    body: Doc


@dataclass(frozen=True, slots=True)
class Placed:
    """What is printed for a node, with its parentheses if it needs some where it stands (`enclosed`)."""

    node: Node
    doc: Doc
    enclosed: bool = False


Doc: TypeAlias = "str | tuple[Doc, ...] | Line | Fresh | Nest | Group | Hug | Headed | Comment | Placed"

LINE = Line()


def join(separator: Doc, docs: list[Doc]) -> Doc:
    """The documents with the separator between them."""
    joined: list[Doc] = []
    for number, doc in enumerate(docs):
        joined += [separator, doc] if number else [doc]
    return tuple(joined)


def layout(doc: Doc, width: int) -> str:
    """The text, without blanks at the ends of lines and without a line end after the last."""
    pieces: list[str] = []
    column = 0  # where the next piece goes
    pending = False  # whether a comment asked for the line to end
    work: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while work:
        indent, flat, node = work.pop()
        match node:
            case str():
                if pending and node.strip():
                    column = _break(pieces, indent)
                    pending = False
                if node.strip() or not (pending or _at_line_start(pieces)):
                    pieces.append(node)
                    column += len(node)
            case tuple():
                work += [(indent, flat, part) for part in reversed(node)]
            case Line():
                if pending or not flat:
                    column = _break(pieces, indent)
                    pending = False
                else:
                    pieces.append(node.flat)
                    column += len(node.flat)
            case Fresh():
                if pieces and not _at_line_start(pieces):
                    column = _break(pieces, indent)
                elif pieces:
                    pieces[-1] = "\n" + " " * indent
                    column = indent
                if node.blank and len(pieces) > 1 and pieces[-2] != "\n":
                    pieces[-1:] = ["\n", pieces[-1]]
                pending = False
            case Nest():
                work.append((indent + node.indent, flat, node.doc))
            case Placed():
                work.append((indent, flat, node.doc))
            case Group():
                work.append((indent, flat or _fits(node.doc, width - column, work), node.doc))
            case Hug():
                here = flat or (not pending and _fits(node.doc, width - column - 1, work))
                next_line = not here and _fits(node.doc, width - indent - 2, work)
                if here or (not (pending or next_line) and _fits(node.doc, width - column - 1, work, first_line=True)):
                    work += [(indent, here, node.doc), (indent, here, " ")]
                else:
                    work += [(indent + 2, next_line, node.doc), (indent + 2, False, LINE)]
            case Headed():
                work.append((indent, flat, node.body))
                whole = flat or _fits(node.head, width - column, work)
                if not whole:
                    work[-1] = (indent, False, _below(node.body))
                work.append((indent, whole, node.head))
            case Comment():
                text = _moved(node.text, column - node.column)
                pieces.append(text)
                column = len(text) - text.rfind("\n") - 1 if "\n" in text else column + len(text)
                pending = node.ends_line
    return "\n".join(line.rstrip() for line in "".join(pieces).split("\n")).rstrip("\n")


def _below(body: Doc) -> Doc:
    """A body on the next line."""
    match body:
        case Hug(doc):
            return Nest(2, (LINE, doc))
        case Group(doc):
            return doc
        case _:
            return body


def _break(pieces: list[str], indent: int) -> int:
    pieces.append("\n" + " " * indent)
    return indent


def _at_line_start(pieces: list[str]) -> bool:
    return not pieces or (pieces[-1].startswith("\n") and not pieces[-1].strip())


def _moved(comment: str, by: int) -> str:
    """A comment of several lines whose later lines are indented by more, or by less where they have it."""
    first, *rest = comment.split("\n")
    lines = [first]
    for line in rest:
        bare = line.lstrip(" ")
        lines.append(" " * max(0, len(line) - len(bare) + by) + bare.rstrip() if bare else "")
    return "\n".join(lines)


def _fits(doc: Doc, room: int, after: list[tuple[int, bool, Doc]], first_line: bool = False) -> bool:
    """Whether a document laid flat, with what follows it up to the next possible break, fits in the room that is left; or
    whether its `first_line` does, when its lines may break.

    Comments may be as long as they like, so that code is laid out the same whether one ends a line or stands within it; but
    after one that ends its line nothing of the document may come.
    """
    following = len(after)
    work: list[tuple[bool, Doc]] = [(not first_line, doc)]
    pending = False
    while room >= 0:
        if not work:
            if following == 0:
                return True
            following -= 1
            _, flat, node = after[following]
            work.append((flat, node))
            continue
        flat, node = work.pop()
        inside = following == len(after) and flat  # of a first line, a head: it fits as a whole or not at all
        match node:
            case str():
                if pending and node.strip():
                    return not inside
                room -= len(node)
            case tuple():
                work += [(flat, part) for part in reversed(node)]
            case Line():
                if pending or not flat:
                    return not inside
                room -= len(node.flat)
            case Fresh():
                return not inside
            case Nest() | Group() | Placed():
                work.append((flat, node.doc))
            case Headed():
                work += [(flat, node.body), (flat or first_line, node.head)]
            case Hug():
                if not flat:
                    return not inside
                work += [(flat, node.doc), (flat, " ")]
            case Comment():
                if "\n" in node.text:
                    return not inside
                pending = pending or node.ends_line
    return False
