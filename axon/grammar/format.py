"""`axon fmt`: comments go back to their places. How syntax is laid out is in `printer`, where lines break in `doc`.

The formatter prints the syntax of a file and puts its comments back by walking the printed tokens along those of the file. A
comment that began a line begins one again, before the same token; any other stays behind its token. One that ended its line
does so again. Up to one empty line is kept before declarations and comments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import assert_never

from axon.base.data import dataclass, fields, is_dataclass
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.grammar import printer
from axon.grammar import syntax as s
from axon.grammar.doc import LINE, Comment, Doc, Fresh, Group, Headed, Hug, Line, Nest, Placed, layout
from axon.grammar.foreign import no_program
from axon.grammar.lexer import Token, Tokens, tokenize
from axon.grammar.parse import parse
from axon.grammar.table import load

WIDTH = 100


def print_program(node: s.Program) -> str:
    """Each declaration on lines of its own; ends in a line end unless empty."""
    text = layout(printer.program(node), WIDTH)
    return text + "\n" if text else ""


def print_declaration(node: s.Decl) -> str:
    return layout(printer.declaration(node), WIDTH)


def print_expr(node: s.Expr) -> str:
    return layout(printer.expr(node), WIDTH)


def print_type(node: s.Type) -> str:
    return layout(printer.type_(node), WIDTH)


def print_dim(node: s.Dim) -> str:
    return layout(printer.dim(node), WIDTH)


def print_pattern(node: s.Pattern) -> str:
    return layout(printer.pattern(node), WIDTH)


def format_source(source: SourceFile) -> str:
    """The file laid out anew, with all its comments and the same meaning. AxonError with its diagnostics if it has errors."""
    text = source.text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    plain = SourceFile(source.path, text)
    node, diagnostics = parse(plain)
    errors = tuple(d for d in diagnostics if d.severity == "error")
    if errors:
        problem = no_program(source, errors)
        raise AxonError(errors if problem is None else (problem,))
    lexed = tokenize(plain, load())
    formatted = layout(_Weaver(plain, lexed).weave_all(printer.program(node)), WIDTH)
    formatted += "\n" if formatted else ""
    again = SourceFile(source.path, formatted)
    assert _equal(parse(again)[0], node), "formatting changed the meaning of the file"
    assert _words(tokenize(again, load())) == _words(lexed), "formatting changed a comment"
    return formatted


def _equal(a: object, b: object) -> bool:
    """Equality of syntax. That of dataclasses recurses through C, for which Python 3.12 keeps a small stack."""
    work = [(a, b)]
    while work:
        a, b = work.pop()
        if type(a) is not type(b):
            return False
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                return False
            work += zip(a, b, strict=True)
        elif is_dataclass(a):
            work += [(getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.compare]
        elif a != b:
            return False
    return True


def _words(lexed: Tokens) -> list[list[str]]:
    """The comments without regard to space."""
    return [comment.text.split() for comment in lexed.comments]


@dataclass(slots=True)
class _Around:
    """The comments around a token, and whether an empty line comes before it and all that leads it."""

    leading: list[Doc]
    trailing: list[Doc]
    blank_before: bool = False
    ends_line: bool = False  # whether the last of `trailing` does
    text: str = ""  # how a number was written


class _Weaver:
    """Puts comments back into a document. `at` counts its tokens."""

    def __init__(self, file: SourceFile, lexed: Tokens) -> None:
        self.file = file
        self.lexed = lexed
        self.around: list[_Around] = []
        self.at = 0

    def weave_all(self, doc: Doc) -> Doc:
        self.around = _align(_printed_tokens(doc), self.lexed.tokens, _comments_around(self.file, self.lexed))
        return (self.weave(doc), tuple(self.around[-1].leading))

    def weave(self, doc: Doc) -> Doc:
        match doc:
            case str():
                return tuple(piece if piece.isspace() else self._token(piece) for piece in _pieces(doc))
            case tuple():
                return tuple(self.weave(part) for part in doc)
            case Nest():
                return Nest(doc.indent, self.weave(doc.doc))
            case Placed():
                return self.weave(doc.doc)
            case Group():
                return self._hoisting(doc, lambda: Group(self.weave(doc.doc)))
            case Headed():
                return self._hoisting(doc, lambda: Headed(self.weave(doc.head), self.weave(doc.body)))
            case Fresh():
                return (Fresh(self.around[self.at].blank_before), *self._take_leading())
            case Hug():
                commented = self.around[self.at].leading or (self.at > 0 and self.around[self.at - 1].ends_line)
                body = self.weave(doc.doc)
                return Nest(2, (LINE, body)) if commented else Hug(body)
            case Line() | Comment():
                return doc
            case _:
                assert_never(doc)

    def _token(self, printed: str) -> Doc:
        around = self.around[self.at]
        self.at += 1
        return (*around.leading, around.text or printed, *around.trailing)

    def _hoisting(self, group: Doc, weave: Callable[[], Doc]) -> Doc:
        """A group behind the comments before its first token: inside they would break it."""
        hoisted = self._take_leading() if _begins_with_token(group) else ()
        return (*hoisted, weave()) if hoisted else weave()

    def _take_leading(self) -> tuple[Doc, ...]:
        """The comments before the next token."""
        leading = tuple(self.around[self.at].leading)
        self.around[self.at].leading.clear()
        return leading


def _pieces(text: str) -> list[str]:
    """Tokens, and the blanks between them."""
    return [piece for piece in re.split(r"(\s+)", text) if piece]


def _printed_tokens(doc: Doc) -> list[str]:
    printed: list[str] = []
    work: list[Doc] = [doc]
    while work:
        match work.pop():
            case str() as text:
                printed += text.split()
            case tuple() as parts:
                work += reversed(parts)
            case Nest(doc=inner) | Group(doc=inner) | Hug(doc=inner) | Placed(doc=inner):
                work.append(inner)
            case Headed(head=head, body=body):
                work += [body, head]
    return printed


def _begins_with_token(doc: Doc) -> bool:
    while not isinstance(doc, str):
        match doc:
            case tuple():
                parts = [part for part in doc if part != ()]
                if not parts:
                    return False
                doc = parts[0]
            case Nest() | Group() | Placed():
                doc = doc.doc
            case Headed():
                doc = doc.head
            case _:
                return False
    return not doc.isspace()


def _align(printed: list[str], tokens: Sequence[Token], around: list[_Around]) -> list[_Around]:
    """What is around each printed token, and around the end. Of parentheses and a `for` that are not printed, the comments go
    to the neighbour inside; a parenthesis that the file has not gets none."""
    aligned: list[_Around] = []
    carried: list[Doc] = []  # comments for the next token
    blank = False
    at = 0
    for text in (*printed, ""):
        while not _same(text, tokens[at]):
            spare, dropped = around[at], tokens[at].text
            if dropped not in ("(", ")", "for"):
                assert text in ("(", ")"), f"printed {text}, where the file has {dropped}"
                break
            if dropped == ")" and aligned:
                aligned[-1].trailing += _inline(spare.leading) + spare.trailing
                aligned[-1].ends_line = spare.ends_line or (aligned[-1].ends_line and not spare.leading and not spare.trailing)
            else:
                blank = blank or (spare.blank_before and not carried)
                carried += [*spare.leading, *(d for c in spare.trailing if isinstance(c, Comment) for d in (c, " "))]
            at += 1
        else:
            here = around[at]
            aligned.append(_Around([*carried, *here.leading], here.trailing, here.blank_before or blank, here.ends_line))
            aligned[-1].text = tokens[at].text if text[:1].isdigit() else ""
            carried, blank = [], False
            at += 1
            continue
        aligned.append(_Around([], []))
    return aligned


def _inline(leading: list[Doc]) -> list[Doc]:
    """Comments that began lines, to follow a token instead."""
    return [doc for comment in leading if isinstance(comment, Comment) for doc in (" ", comment)]


def _same(printed: str, token: Token) -> bool:
    return printed == token.text or (printed[:1].isdigit() and token.kind in ("INT", "FLOAT"))


def _comments_around(file: SourceFile, lexed: Tokens) -> list[_Around]:
    """What surrounds each token. Between two tokens, comments that begin on the line of the first belong to it."""
    around: list[_Around] = []
    comments = list(reversed(lexed.comments))
    before = 0  # where the last thing ended
    for token in lexed.tokens:
        here = _Around([], [])
        while comments and comments[-1].start < token.start:
            comment = comments.pop()
            gap = file.text[before : comment.start]
            following = comments[-1].start if comments and comments[-1].start < token.start else token.start
            ends_line = "\n" in file.text[comment.end : following] or following == len(file.text)
            doc = Comment(comment.text, file.position(comment.start)[1] - 1, ends_line)
            if "\n" in gap or not around or here.leading:
                begins_line = "\n" in gap or not here.leading
                here.blank_before = here.blank_before or (not here.leading and _is_blank(gap))
                here.leading += [Fresh(_is_blank(gap)) if begins_line else " ", doc]
            else:
                around[-1].trailing += [" ", doc]
                around[-1].ends_line = ends_line
            before = comment.end
        gap = file.text[before : token.start]
        if here.leading:
            here.leading.append(Fresh(_is_blank(gap)) if "\n" in gap else " ")
        elif _is_blank(gap):
            here.blank_before = True
        around.append(here)
        before = token.end
    return around


def _is_blank(gap: str) -> bool:
    """Whether there is an empty line."""
    return gap.count("\n") > 1
