"""Declarations that lack their keyword, and so are read as more of the one above: `y = f x` in a `let`, or `vall y = f x`.

    let val a = g x
        y = f a            is   val a = (g x y = f a),   a comparison

Such a text may be meant, so it is no error in itself. But where something is wrong with the declaration that holds it, this is what
is wrong, and not the many names and types that then make no sense.

The tree of such a text is not that of what is meant, nor near it: its changes are edits of the text, the only ones that are made
outside `mutations`. `x > 0.0 and y > 0.0` is another such text, of comparisons in a row: `0.0 and y` applies 0.0 to names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.nearest import one_slip
from axon.base.source import SourceFile, Span
from axon.grammar import syntax as S
from axon.grammar.extent import BRACKETS, DECLARATIONS
from axon.grammar.lexer import END, Token, tokenize
from axon.grammar.mistakes import LOGICAL
from axon.grammar.table import load
from axon.types.builtins import REDUCTIONS

_OPENING = {*BRACKETS, "let"}
_CLOSING = {*BRACKETS.values(), "end"}
_ENDS = {"NAME", "INT", "FLOAT", "PROJ", "TYVAR", *_CLOSING}  # what an expression or a type ends with
_BEGIN = {"NAME", "(", "{"}  # what a declaration begins with that lacks its keyword
_IN_EXPRESSIONS = {  # and in no head of a declaration
    *(
        "+",
        "-",
        "*",
        "/",
        "%",
        "@",
        "**",
        "|>",
        "<",
        ">",
        "andalso",
        "orelse",
        "not",
        "if",
        "then",
        "else",
        "for",
        "fn",
        "=>",
        "in",
    ),
}


def blamed(decl: S.Decl, found: Sequence[Diagnostic]) -> tuple[list[Diagnostic], str]:
    """What is wrong with a declaration of the file: if one in it, or after it, lacks its keyword, that and what is wrong before.
    Also the name that the latter declares; "" if there is none."""
    if not any(d.severity == "error" for d in found):
        return list(found), ""
    found = _arrows(decl, found)
    for holder, column, slack in _holders(decl):
        token, following = _headless(holder.span, column, slack) or (None, None)
        if token is None or following is None:
            continue
        end = decl.span.end
        after = [d for d in found if d.severity == "error" and d.span is not None and _is_within(d.span, holder.span, end)]
        if after:
            near = one_slip(token.text, sorted(DECLARATIONS)) if following.kind in _BEGIN else None
            word = near or ("fun" if token.kind == "NAME" and following.kind in _BEGIN else "val")
            place = Span(holder.span.file, holder.span.start + token.start, holder.span.start + token.end)
            kept = [d for d in found if d not in after]
            named = following if near else token
            name = named.text if holder is decl and named.kind == "NAME" else ""
            return [*kept, _said(place, word, bool(near), holder is not decl)], name
    return list(found), ""


def _arrows(decl: S.Decl, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """`sum i = x[i]` is read as a comparison of `sum i` with `x[i]`. Where the names in `sum i` are unknown, its `=` is wrong."""
    out = list(found)
    unknown = {label.span for d in out if d.code == "AX0401" for label in d.labels}
    for node in _nodes(decl) if unknown else ():
        match node:
            case S.Binary(op="=", left=left, op_span=place):
                head, binders = _reduction(left)
                if head is None or (head.span not in unknown and not unknown.issuperset(v.span for v in binders)):
                    continue
                edit = Suggestion("", (Edit(place, "=>"),))
                said = Diagnostic("AX0101", "a body follows `=>` here, not `=`", (Label(place),), suggestions=(edit,))
                start, end = head.span.start, node.span.end
                inside = [d for d in out if d.span is not None and d.span.file is place.file and start <= d.span.start < end]
                out = [said if d is inside[0] else d for d in out if d is inside[0] or d not in inside]
    return out


def logical(word: str, place: Span) -> Suggestion:
    """`andalso` for the `and` of other languages, which is a name."""
    return Suggestion(f"write `{LOGICAL[word]}`", (Edit(place, LOGICAL[word]),))


def _reduction(left: S.Expr) -> tuple[S.Var | None, list[S.Var]]:
    """Of the left side of a comparison that ends in `sum i j`, its head and what may be its indices."""
    while isinstance(left, S.Binary):
        left = left.right
    binders: list[S.Var] = []
    while isinstance(left, S.Apply) and isinstance(left.argument, S.Var):
        binders.append(left.argument)
        left = left.function
    return (left, binders) if binders and isinstance(left, S.Var) and left.name in REDUCTIONS else (None, [])


def without_doubts(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Without the warnings of what may be meant otherwise, where it surely is: a comparison is a declaration without its keyword;
    where nothing is subtracted from the `exp` of `exp -x`, the error has the help."""
    sure = {d.span for d in found if d.code == "AX0101"}
    functions = [d.span for d in found if d.code == "AX0204"]
    out = [d for d in found if d.code != "AX0118" or d.span not in sure]
    return [d for d in out if d.code != "AX0110" or not any(_is_before(f, d.span) for f in functions)]


def _is_before(span: Span | None, other: Span | None) -> bool:
    """Whether nothing but spaces stands between two places."""
    if span is None or other is None or span.file is not other.file or span.end > other.start:
        return False
    return not span.file.text[span.end : other.start].strip()


def _said(place: Span, word: str, is_misspelt: bool, inside: bool) -> Diagnostic:
    where = "`let` is followed by declarations" if inside else "a file is a list of declarations"
    edit = Edit(place if is_misspelt else Span(place.file, place.start, place.start), word if is_misspelt else f"{word} ")
    return Diagnostic(
        "AX0101",
        f"expected a declaration, found `{place.text}`",
        (Label(place),),
        (f"{where}, each of which begins with its keyword; without one this line goes on with the line above",),
        (Suggestion(f"did you mean `{word}`?" if is_misspelt else f"write `{word}` before it", (edit,)),),
    )


def _is_within(span: Span, start: Span, end: int) -> bool:
    return span.file is start.file and start.start <= span.start <= end


def _holders(decl: S.Decl) -> Iterator[tuple[S.Decl, int, int]]:
    """The declarations that may have taken another for a part of themselves, with the column, counted from 0, at which that one
    begins; and how much farther to the right it may, since the blank that followed its keyword may be left."""
    yield decl, 1, 0
    for node in _nodes(decl):
        if isinstance(node, S.Let):
            start = node.decls[0].span.start
            column = start - decl.span.file.text.rfind("\n", 0, start) - 1
            for inner in node.decls:
                yield inner, column, 1


def _nodes(decl: S.Decl) -> Iterator[S.Node]:
    """Every node of a declaration, those inside after those around them."""
    stack: list[object] = [decl]
    while stack:
        match stack.pop():
            case S.Node() as node:
                yield node
                stack += [getattr(node, name) for name in node.__dataclass_fields__ if name not in ("span", "op_span")]
            case tuple() as items:
                stack += items


def _headless(span: Span, column: int, slack: int) -> tuple[Token, Token] | None:
    """The first token of a line that reads like a declaration without its keyword, and the next token: `x =`, wherever it
    begins, or a longer head at this column. It stands behind the `=` of the declaration above: what stands before is its head."""
    text = span.text
    if "\n" not in text:
        return None
    tokens = tokenize(SourceFile(span.file.path, text), load()).tokens
    depth, in_head = 0, tokens[0].kind in ("fun", "val", "type")
    for number, token in enumerate(tokens[1:], 1):
        start = text.rfind("\n", tokens[number - 1].end, token.start)
        at = token.start - start - 1 if start >= 0 else -1
        if depth == 0 and in_head:
            in_head = token.kind != "="
        elif depth == 0 and at > 0 and token.kind in _BEGIN and tokens[number - 1].kind in _ENDS:
            following = tokens[number + 1]
            is_defined = token.kind == "NAME" and following.kind == "="  # of which AX0118 warns
            if is_defined or (column <= at <= column + slack and _is_head(tokens, number)):
                return token, following
        depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
    return None


def _is_head(tokens: Sequence[Token], at: int) -> bool:
    """Whether a declaration's head stands here, up to its `=`: `f (x : f32[n]) y =`."""
    depth = 0
    for token in tokens[at:]:
        if depth == 0 and token.kind == "=":
            return True
        depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
        if depth < 0 or token.kind == END or token.kind in DECLARATIONS or (depth == 0 and token.kind in _IN_EXPRESSIONS):
            return False
    return False
