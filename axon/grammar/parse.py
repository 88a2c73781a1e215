"""Parse a file: every syntax error is reported, and the declarations without one are returned."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Any, cast

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.source import SourceFile, Span, once
from axon.grammar import syntax
from axon.grammar.build import SyntaxBuilder
from axon.grammar.explain import Advice, Open, Trouble, explain, innermost_open, never_closed
from axon.grammar.extent import BRACKETS, DECLARATIONS
from axon.grammar.lexer import END, MAX_ERRORS, Token, tokenize
from axon.grammar.machine import MAX_DEPTH, Machine
from axon.grammar.table import load

_OPENING = {*BRACKETS, "let"}
_CLOSING = {*BRACKETS.values(), "end"}
_OPERANDS = {"NAME", "INT", "FLOAT", "RUN", "..", "op", "let", "(", "{", "[|"}
_UNCLOSED = ("AX0102", "AX0117")
_STRUCTURE = ("in", "end", "then", "else")
_CALM = 3  # tokens; see Note [One mistake]
_MARGIN = "$MARGIN"  # stands before a word at the margin that begins no declaration; no state takes it


@once  # who checks a file and who proposes changes of it ask for the same
def parse(source: SourceFile) -> tuple[syntax.Program, tuple[Diagnostic, ...]]:
    """The declarations of a file that have no syntax error, and all errors and warnings. Never raises on bad text."""
    reader = _Reader(source, "program")
    decls = cast("list[syntax.Decl]", reader.read())
    return syntax.Program(tuple(d for d in decls if not reader.is_spoiled(d)), span=source.span()), reader.diagnostics()


def parse_type(source: SourceFile) -> tuple[syntax.Type | None, tuple[Diagnostic, ...]]:
    """The type that is the whole text, or None when the text has errors."""
    reader = _Reader(source, "type_only")
    value = cast("syntax.Type | None", reader.read())
    return (None if value is None or reader.is_spoiled(value) else value), reader.diagnostics()


def parse_expression(source: SourceFile) -> tuple[syntax.Expr | None, tuple[Diagnostic, ...]]:
    """The expression that is the whole text, or None when the text has errors."""
    reader = _Reader(source, "expr_only")
    value = cast("syntax.Expr | None", reader.read())
    return (None if value is None or reader.is_spoiled(value) else value), reader.diagnostics()


class _Reader:
    """Runs the machine over a file, and sets it on its feet again after an error.

    Note [Recovery]. After an error we skip to where reading can surely go on: a word that begins a declaration, no further to
    the right than the one around the error; or, inside `let`, the next declaration, `in` or `end`. What was being read there
    is replaced by a stand-in, and the declaration of the file that holds it is dropped at the end, since an error lies in it.

    Note [Swallowed declarations]. A `let` without `in` takes the declarations of the file that follow it for its own. So when
    there is an error and a `let` is open that has taken one at the margin, the `let` is to blame, and we read again from there.

    Note [The margin]. Line ends mean nothing, with one exception: an operand at the margin is no argument of the line above. Nobody
    writes arguments there, and who mistypes `fun` would hear of too many arguments and of unknown names. So where a declaration
    is complete, and the line at the margin begins with nothing that goes on with it, the declaration ends. (Inside `let` such a
    line may be meant: see `headless`.)

    Note [One mistake]. What follows an error closely follows from it. Not reported are an error at one of the next three tokens
    where reading goes on (or at the next one, where a token was put in place of another), and what `build` finds about text in
    which something else is wrong.
    """

    def __init__(self, source: SourceFile, start: str) -> None:
        table = load()
        self.source = source
        self.lexed = tokenize(source, table)
        self.is_program = start == "program"
        self.tokens = _with_margins(source, self.lexed.tokens) if self.is_program else list(self.lexed.tokens)
        self.builder = SyntaxBuilder(source, self.lexed.blanked)
        self.machine = Machine(table, start, self.builder)
        if self.is_program:
            self.machine.push("decls", [], 0, 0)  # so that the stack's bottom is always the declarations read so far
        self.said = list(self.lexed.diagnostics)
        self.errors: list[Diagnostic] = []
        self.habits: dict[tuple[str, int], int] = {}  # errors in records, by what is said and where the record begins
        self.spoiled = list(self.lexed.wrong)  # offsets at which errors lie
        self.mended_words: set[str] = set()  # keywords that were used as names
        self.rereads = 50_000 + len(self.tokens)  # how many tokens may yet be read again
        self.quiet: list[tuple[int, int]] = []  # between which offsets nothing is reported; see Note [One mistake]

    def read(self) -> Any:
        """What the text means, with stand-ins where it is wrong; a type or expression with an unmended error is None."""
        value = self._read()
        nodes = value if self.is_program else [value] if value is not None else []
        self.spoiled += [_offset(d) for d in self.builder.diagnostics if d.severity == "error"]
        self.spoiled.sort()
        for node in nodes:
            if not self.is_spoiled(node):
                self._report_loose_runs(node.span)
        return value

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything there is to say, in the order of the text; at most `MAX_ERRORS` errors and as many warnings."""
        wrong = sorted(d.span.start for d in self.errors if d.span is not None)
        open_ = [(d.labels[0].span.start, d.labels[1].span.start) for d in self.errors if d.code in _UNCLOSED and len(d.labels) > 1]
        made = [
            d
            for d in self.builder.diagnostics
            if bisect_left(wrong, d.labels[0].span.start) == bisect_right(wrong, d.labels[0].span.end)
            and not any(start <= d.labels[0].span.start < end for start, end in [*open_, *self.quiet])
        ]
        found = [*self.said, *self.errors, *made]
        ordered = sorted(dict.fromkeys(found), key=_offset)
        errors = [d for d in ordered if d.severity == "error"]
        warnings = [d for d in ordered if d.severity == "warning"]
        if len(errors) >= MAX_ERRORS:
            last = errors[MAX_ERRORS - 1]
            errors[MAX_ERRORS - 1 :] = [replace(last, notes=(*last.notes, f"only the first {MAX_ERRORS} syntax errors are shown"))]
        return tuple(sorted([*errors, *warnings[:MAX_ERRORS]], key=_offset))

    def is_spoiled(self, node: syntax.Decl | syntax.Type | syntax.Expr) -> bool:
        """Whether an error lies in a declaration that was read, or in the whole type or expression."""
        return bisect_left(self.spoiled, node.span.start) < bisect_left(self.spoiled, node.span.end)

    def _report_loose_runs(self, span: Span) -> None:
        for run in sorted(self.builder.loose_runs.values(), key=lambda r: r.start):
            if span.start <= run.start < span.end:
                message = f"`{run.text}` stands for several indices, so it may stand only among indices"
                self.builder.report("AX0115", message, run, suggest="as in `x[..i, j]`, `for ..i j => …` or `sum ..i => …`")
                insort(self.spoiled, run.start)

    # ── the loop ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> Any:
        machine = self.machine
        at, latest = 0, -1  # where to read on; the last token that was complained of
        calm = 0  # the token from which on errors are reported; see Note [One mistake]
        while (stopped := machine.run(self.tokens, at)) is not None and len(self.errors) < MAX_ERRORS:
            if self.tokens[stopped].kind == _MARGIN:
                del self.tokens[stopped]
                at = stopped
                self._end_above(self.tokens[at])
                continue
            swallowed = self._swallowed(stopped)
            if swallowed is not None:
                at, opened = swallowed
                within = (opened.token.start, self.tokens[at].start)
                if not self._left_out(*within) and not any(within[0] <= _offset(e) < within[1] for e in self.errors):
                    self.errors.append(never_closed(Trouble(self.source, machine, self.tokens, at), opened).diagnostic)
                latest, calm = at - 1, at
                self._to_top()
                continue
            too_deep = machine.too_deep
            advice = self._too_deep(stopped) if too_deep else explain(Trouble(self.source, machine, self.tokens, stopped))
            fresh = stopped > latest
            latest = max(latest, stopped)
            if fresh and stopped >= calm and not self._is_consequence(stopped, advice):
                self._report(advice.diagnostic)
            if fresh and advice.instead is not None:
                self.spoiled.append(self.tokens[stopped].start)
                if self.tokens[stopped].kind != "NAME" and advice.instead and advice.instead[0].kind == "NAME":
                    self.mended_words.add(advice.instead[0].text)
                self.tokens[stopped : stopped + 1 + advice.more] = advice.instead
                at, calm = stopped, stopped + len(advice.instead) + 1
            elif self.is_program:
                if len(machine.values) > 1:
                    self.spoiled.append(machine.ends[-1] - 1)
                at = self._resynchronise(stopped if fresh else min(stopped + 1, len(self.tokens) - 1), into_lets=not too_deep)
                calm = max(calm, at + _CALM)
                self.quiet.append((self.tokens[at].start, self.tokens[min(calm, len(self.tokens) - 1)].start))
            else:
                return None
        return machine.values[0] if self.is_program or stopped is None else None

    def _report(self, diagnostic: Diagnostic) -> None:
        """Keep an error; one that is made again in the same record is one habit, and mended with the first."""
        opened = innermost_open(self.machine)
        habit = (diagnostic.message, opened.token.start) if opened is not None and opened.token.kind == "{" else None
        if habit is not None and habit in self.habits:
            more = tuple(e for s in diagnostic.suggestions for e in s.edits)
            number = self.habits[habit]
            first = self.errors[number]
            self.errors[number] = replace(_with_edits(first, more), labels=(*first.labels, *diagnostic.labels))
            return
        if habit is not None:
            self.habits[habit] = len(self.errors)
        self.errors.append(diagnostic)

    def _too_deep(self, stopped: int) -> Advice:
        self.machine.too_deep = False
        token = self._deepest(stopped) or self.tokens[max(stopped - 1, 0)]
        label = Label(self.source.span(token.start, token.end), "here")
        help_ = Suggestion("give parts of it names, with `val`")
        notes = ("a chain of operators, such as `a + b + c`, is as deep as it is long",)
        return Advice(Diagnostic("AX0108", f"this nests more than {MAX_DEPTH} levels deep", (label,), notes, (help_,)))

    def _deepest(self, stopped: int) -> Token | None:
        """The first bracket or `let` of this declaration that stands in as many others as may nest. What nests is put together
        from the inside out, so the machine sees that it is too much where it closes, or not at all."""
        start = self.machine.starts[1] if self.is_program and len(self.machine.starts) > 1 else 0
        nesting = 0
        for number in range(bisect_left(self.tokens, start, key=lambda t: t.start), stopped):
            kind = self.tokens[number].kind
            nesting += (kind in _OPENING) - (kind in _CLOSING)
            if nesting > MAX_DEPTH:
                return self.tokens[number]
        return None

    def _is_consequence(self, stopped: int, advice: Advice) -> bool:
        """Whether text was left out of the declaration being read, which may well be all that is wrong; or the token stands
        for something that was complained of already, or is a keyword that was a name before, or belongs to a word that is
        written like another language's: `\\x -> e` is one mistake, and what mends its second half joins what mends the first."""
        token = self.tokens[stopped]
        opened = innermost_open(self.machine)
        if opened is not None and opened.closer == "=>" and opened.token.start in self.lexed.wrong:
            more = tuple(e for s in advice.diagnostic.suggestions for e in s.edits)
            self.said = [_with_edits(d, more) if _offset(d) == opened.token.start else d for d in self.said]
            return True
        if token.text in self.mended_words or token.start in self.lexed.wrong:
            return True
        begin = self._half_of(token, advice.diagnostic)
        if begin is not None and any(begin <= _offset(e) < token.start for e in self.errors):
            return True
        starts, ends = self.machine.starts, self.machine.ends
        start = (starts[1] if len(starts) > 1 else ends[0]) if self.is_program else 0
        return self._left_out(start, self.tokens[stopped].start)

    def _half_of(self, token: Token, diagnostic: Diagnostic) -> int | None:
        """Of an error that a half of `let … in … end` or `if … then … else` is missing, where the other may be that was skipped
        after an error: in the declaration of the file, or in what is not closed."""
        if diagnostic.code in _UNCLOSED and diagnostic.labels[0].span.text in ("let", "if"):
            return _offset(diagnostic)
        if token.kind not in _STRUCTURE or not diagnostic.message.startswith(f"this `{token.kind}` has no "):
            return None
        number, margin = bisect_left(self.tokens, token.start, key=lambda t: t.start), {*self.source.line_starts}
        return next((t.start for t in reversed(self.tokens[:number]) if t.kind in DECLARATIONS and t.start in margin), 0)

    def _left_out(self, start: int, end: int) -> bool:
        """Whether text was left out between two offsets that may have meant something."""
        return any(start <= offset <= end for offset in self.lexed.left_out)

    def _end_above(self, token: Token) -> None:
        """End the declaration that is being read, if it ends before this token, which is at the margin. See Note [The margin]."""
        machine = self.machine
        read = [v.kind for v in machine.values if isinstance(v, Token)]
        if len(machine.values) == 1 or sum((kind in _OPENING) - (kind in _CLOSING) for kind in read) > 0:
            return
        goes_on = machine.accepts(token.kind) and token.kind not in _OPERANDS
        if not goes_on and machine.accepts("val"):
            here = machine.ends[-1]
            if machine.run((Token("val", "", here, here), Token(_MARGIN, "", here, here)), 0) == 1:
                machine.pop(1)
            machine.too_deep = False  # which is found again, and said, where reading goes on

    # ── going on after an error; see Note [Recovery] ────────────────────────────────────────────────────────────────────

    def _to_top(self) -> None:
        self.machine.pop(len(self.machine.values) - 1)

    def _resynchronise(self, at: int, into_lets: bool = True) -> int:
        """Skip tokens from number `at`; the number of the one to read on from, for which the machine is then ready."""
        anywhere, margin, nested = len(self.machine.values) == 1, self._margin(), 0
        let = _innermost_let(self.machine) if into_lets else None
        for number in range(at, len(self.tokens)):
            token = self.tokens[number]
            kind = token.kind
            outside = anywhere and nested == 0
            if kind == END or (kind in DECLARATIONS and (outside or self._at_margin(number, margin))):
                self._to_top()
                return number
            if kind == "let":
                nested += 1
            elif kind == "end" and nested:
                nested -= 1
            elif let is not None and nested == 0 and self._patch_let(let, kind):
                return number
        raise AssertionError("the tokens end in $END")

    def _patch_let(self, let: int, kind: str) -> bool:
        """Make the machine ready for a token of this kind in the innermost `let`, if it can go on there."""
        machine, values = self.machine, self.machine.values
        following = [v.kind if isinstance(v, Token) else "" for v in values[let + 1 : let + 3]]
        has_declarations, has_in = following[:1] == [""], following[1:] == ["in"]
        if kind != "end" and (has_in or kind not in DECLARATIONS | {"in"}):
            return False
        machine.pop(len(values) - (let + 1 + has_declarations + has_in))
        here = machine.ends[-1]
        if not has_declarations and kind in ("in", "end"):
            machine.push("run{decl}", [], here, here)
        if kind == "end":
            if not has_in:
                machine.push("in", Token("in", "in", here, here), here, here)
            machine.push("expr", syntax.Tuple((), span=self.source.span(here, here)), here, here)
        return True

    def _margin(self) -> int:
        """The column at which the line begins on which the declaration of the file begins that is being read."""
        if len(self.machine.starts) < 2:
            return 1
        line, column = self.source.position(self.machine.starts[1])
        text = self.source.line(line)
        return min(column, len(text) - len(text.lstrip()) + 1)

    def _at_margin(self, number: int, margin: int) -> bool:
        """Whether a token is the first on its line, and no further to the right than the margin."""
        start = self.tokens[number].start
        column = self.source.position(start)[1]
        return column <= margin and (number == 0 or self.tokens[number - 1].end <= start - column + 1)

    def _swallowed(self, stopped: int) -> tuple[int, Open] | None:
        """The first declaration at the margin that an open `let` has taken, and that `let`. See Note [Swallowed declarations]."""
        if not self.is_program or len(self.machine.values) == 1:
            return None
        margin = self._margin()
        lets = [v for v in self.machine.values if isinstance(v, Token) and v.kind == "let"]
        first = bisect_left(self.tokens, lets[0].start, key=lambda t: t.start) if lets else stopped
        if not lets or self._at_margin(first, margin):
            return None  # who begins a line with `let` at the margin may well put its declarations there
        for number in range(first + 1, stopped):
            token = self.tokens[number]
            if token.kind in DECLARATIONS and self._at_margin(number, margin):
                self.rereads -= stopped - number
                taker = max((let for let in lets if let.start < token.start), key=lambda t: t.start)
                return (number, Open(taker, "in")) if self.rereads > 0 else None
        return None


def _with_margins(source: SourceFile, tokens: tuple[Token, ...]) -> list[Token]:
    """The tokens of a file with the margin marked, but for declarations. See Note [The margin]."""
    margins = set(source.line_starts)
    out: list[Token] = []
    for token in tokens:
        if token.start in margins and out and token.kind not in DECLARATIONS and token.kind != END:
            out.append(Token(_MARGIN, "", out[-1].end, out[-1].end))
        out.append(token)
    return out


def _innermost_let(machine: Machine) -> int | None:
    """The number of the last open `let` among the machine's values."""
    values = machine.values
    return next((i for i in range(len(values) - 1, -1, -1) if isinstance(values[i], Token) and values[i].kind == "let"), None)


def _with_edits(diagnostic: Diagnostic, edits: tuple[Edit, ...]) -> Diagnostic:
    return replace(diagnostic, suggestions=tuple(replace(s, edits=(*s.edits, *edits)) for s in diagnostic.suggestions))


def _offset(diagnostic: Diagnostic) -> int:
    return diagnostic.labels[0].span.start
