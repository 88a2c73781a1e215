"""What to say when a token does not fit: what was found, what was expected, and which known mistake it looks like.

A rule is a function from a `Trouble` to an `Advice`, or None when it does not apply; the first that applies wins. The stacks
of the machine tell where we are: a bracket or keyword that is still among its values has not been closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from axon.base.data import dataclass
from axon.base.diagnostics import Change, Diagnostic, Edit, Label, Suggestion
from axon.base.element import Element
from axon.base.nearest import one_slip
from axon.base.source import SourceFile, Span
from axon.grammar import syntax as s
from axon.grammar.build import REDUCING, between_commas, bounded_alone
from axon.grammar.extent import (
    AFTER_INDICES,
    BOUNDARIES,
    BRACKETS,
    CLOSERS,
    DECLARATIONS,
    end_of_construct,
    end_of_operand,
    value_of_let,
)
from axon.grammar.lexer import END, Token
from axon.grammar.machine import Machine
from axon.grammar.mistakes import DECLARING, IN_EXPRESSIONS, LIBRARIES, LOGICAL, PYTHON_LIBRARY

RELATIONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_ELEMENTS = frozenset(e.value for e in Element) | {"_"}

# What a state waits for, told by the nonterminals it can go on with; the first that fits.
_PHRASES = (
    ("decl", "a declaration"), ("atom", "an expression"), ("atype", "a type"), ("param", "a parameter"), ("apat", "a pattern"),
    ("bind", "an index"), ("element", "an element type such as `f16`"), ("operator", "an operator such as `+`"),
    ("datom", "a dimension"), ("field_expr", "a field"), ("field_pat", "a field"), ("field_type", "a field"),
    ("tparam", "a parameter"), ("rel", "a comparison such as `=`"),
)  # fmt: skip
_EXPRESSIONS = (
    s.Var, s.Int, s.Float, s.Operator, s.Apply, s.ApplyDims, s.Unary, s.Binary, s.Tuple, s.Record, s.Field, s.Project, s.Access,
    s.Ascribe, s.Coerce, s.Cast, s.Let, s.Fn, s.If, s.For, s.Reduce, s.Loop, s.Array,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Open:
    """What is not closed where the parser stands, and what would close it."""

    token: Token
    closer: str


@dataclass(frozen=True, slots=True)
class Advice:
    """A diagnostic, and the tokens to read in place of the one that does not fit, and of `more` after it; None to skip to where
    reading can go on."""

    diagnostic: Diagnostic
    instead: tuple[Token, ...] | None = None
    more: int = 0


@dataclass(frozen=True, slots=True)
class Trouble:
    """A machine that cannot go on at token number `at`."""

    file: SourceFile
    machine: Machine
    tokens: Sequence[Token]
    at: int

    @property
    def found(self) -> Token:
        return self.tokens[self.at]

    @property
    def before(self) -> Token | None:
        return self.tokens[self.at - 1] if self.at > 0 else None

    @property
    def shown(self) -> str:
        return "the end of the text" if self.found.kind == END else f"`{clip(self.found.text)}`"

    @property
    def place(self) -> Span:
        """The found token; at the end of the text, the last one read, since nothing can be seen there."""
        token = self.before if self.found.kind == END and self.before else self.found
        return self.file.span(token.start, token.end)

    def accepts(self, kind: str) -> bool:
        return self.machine.accepts(kind)

    def read(self, kind: str) -> Token:
        """A token of another kind, in the place of the found one."""
        return Token(kind, kind, self.found.start, self.found.end)

    def advise(
        self,
        code: str,
        message: str,
        *more: Label,
        note: str = "",
        help: str = "",
        put: str = "",
        edits: tuple[Edit, ...] = (),
        instead: tuple[Token, ...] | None = None,
    ) -> Advice:
        """`put` is what to write for the found token, `edits` are other changes that mend this."""
        edits = (Edit(self.place, put),) if put else edits
        helps = (Suggestion(help, edits),) if help or edits else ()
        return Advice(Diagnostic(code, message, (Label(self.place), *more), (note,) if note else (), helps), instead)


def clip(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:29]}…"


def explain(trouble: Trouble) -> Advice:
    return next(advice for rule in _RULES if (advice := rule(trouble)) is not None)


def innermost_open(machine: Machine) -> Open | None:
    """The innermost bracket or keyword that waits for something to close it."""
    arrows = 0
    seen: set[str] = set()  # words between here and the stack's top
    for value in reversed(machine.values):
        if not isinstance(value, Token):
            continue
        match value.kind:
            case "(" | "[" | "{" | "[|" as bracket:
                return Open(value, BRACKETS[bracket])
            case "let":
                return Open(value, "end" if "in" in seen else "in")
            case "if" if "else" in seen:
                seen -= {"then", "else"}
            case "if":
                return Open(value, "else" if "then" in seen else "then")
            case "for" | "fn":
                if arrows == 0:
                    return Open(value, "=>")
                arrows -= 1
            case "val" | "fun" | "type" if "=" not in seen:
                return Open(value, "=")
            case "val" | "fun" | "type" | "sig" | "import":
                seen.clear()
                arrows = 0
                continue
            case "=>":
                arrows += 1
        seen.add(value.kind)
    return None


# ── rules ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tilde(t: Trouble) -> Advice | None:
    """`x ~ site` without a word before it, or a negation as ML writes it."""
    if t.found.kind != "~":
        return None
    name = clip(t.before.text) if t.before is not None and t.before.kind == "NAME" else "z"
    helps = Suggestion(f"what is drawn is written `val {name} ~ …`, data `observe {name} ~ …`; negation is `-`")
    return Advice(Diagnostic("AX0101", f"a `~` cannot stand after `{name}` here", (Label(t.place),), (), (helps,)))


def _stray_comment_end(t: Trouble) -> Advice | None:
    if t.found.kind == ")" and t.before and t.before.kind == "*" and t.before.end == t.found.start:
        return t.advise("AX0103", "this `*)` closes no comment")
    return None


def _chained_comparison(t: Trouble) -> Advice | None:
    values = t.machine.values
    if t.found.kind not in RELATIONS or len(values) < 3 or not isinstance(values[-2], Token):
        return None
    first = values[-2]
    if first.kind not in RELATIONS or not isinstance(values[-3], _EXPRESSIONS) or not isinstance(values[-1], _EXPRESSIONS):
        return None
    logical = _logical_word(t, first)
    if logical is not None:
        label = Label(t.file.span(logical.start, logical.end))
        message = f"Axon has no `{logical.text}`: write `{LOGICAL[logical.text]}`"
        put = Suggestion("", (Edit(label.span, LOGICAL[logical.text]),))
        return Advice(Diagnostic("AX0113", message, (label,), suggestions=(put,)))
    end = t.machine.ends[-1]
    whole = t.file.text[t.machine.starts[-1] : end]
    text = clip(whole)
    both = f"{clip(t.file.text[t.machine.starts[-3] : t.machine.ends[-3]])} {first.kind} {text}"
    label = Label(t.file.span(first.start, first.end), "the first comparison")
    return t.advise(
        "AX0112", f"comparisons do not chain: `{both}` is already true or false", label,
        help=f"write `{both} andalso {text} {t.found.kind} …`", edits=(Edit(t.file.span(end, end), f" andalso {whole}"),),
    )  # fmt: skip


def _logical_word(t: Trouble, after: Token) -> Token | None:
    """An `and` or `or` outside of brackets between a token and the trouble: it was read as an argument of what precedes it."""
    nesting = 0
    for token in reversed(t.tokens[: t.at]):
        if token.start <= after.start:
            return None
        nesting += (token.kind in BRACKETS.values()) - (token.kind in BRACKETS)
        if nesting == 0 and token.kind == "NAME" and token.text in LOGICAL:
            return token
    return None


# A symbol that was found, the one that fits in its place, and why.
_SWAPS = (
    ("->", "=>", "`->` stands only in types: a body follows `=>`"),
    ("=", "=>", "a body follows `=>` here, not `=`"),
    (":", "=>", "a body follows `=>` here, not `:`"),
    ("->", ":", "the type of a result follows `:`, not `->`"),
    ("->", "=", "a body follows `=` here, not `->`"),
    ("=>", "=", "a body follows `=` here, not `=>`"),
    (":", "=", "a field or a state is given its value with `=`, not `:`"),
    ("=", ":", "a type follows `:` here, not `=`"),
    ("in", "<", "an index is bounded with `<`, not `in`"),
)


def _swap(t: Trouble) -> Advice | None:
    """Another symbol would fit. In an expression many do, so there only an unfinished `fn` or `for` explains an arrow."""
    opened = innermost_open(t.machine)
    in_expression = t.accepts("+")
    for found, meant, why in _SWAPS:
        if found == t.found.kind and t.accepts(meant) and (not in_expression or (opened and opened.closer == meant)):
            if found == "in" and not (opened and opened.token.kind == "for"):
                continue
            if (found, meant) == ("->", ":") and not _is_head(t):
                continue
            return t.advise("AX0101", why, put=meant, instead=(t.read(meant),))
    return None


def _is_head(t: Trouble) -> bool:
    """Whether a declaration's `=` follows."""
    rest = (token.kind for token in t.tokens[t.at :])
    return next((kind for kind in rest if kind in ("=", END) or kind in DECLARATIONS), END) == "="


def _keyword_as_name(t: Trouble) -> Advice | None:
    found, before = t.found, t.before
    if not found.kind.isidentifier() or found.kind.isupper() or not t.accepts("NAME") or t.accepts("+") or before is None:
        return None
    owner = _OWNERS.get(found.kind)
    if any(isinstance(v, Token) and v.kind == owner for v in t.machine.values):
        return None  # which waits for it
    same_line = "\n" not in t.file.text[before.end : found.start]
    if same_line and _waits_for(t.machine) in ("a pattern", "a parameter", "an index", "a name"):
        message = f"`{found.text}` is a word of the language, so it cannot be a name"
        return t.advise("AX0101", message, instead=(Token("NAME", found.text, found.start, found.end),))
    return None


def _assigned(t: Trouble) -> Advice | None:
    """`val y[0] = v`, as if an element could be given another value."""
    kinds = [token.kind for token in t.tokens[t.at :]]
    if kinds[0] != "[" or [token.kind for token in t.tokens[max(0, t.at - 2) : t.at]] != ["val", "NAME"]:
        return None
    end, name = _closing(kinds), t.tokens[t.at - 1]
    if end is None or kinds[end + 1 : end + 2] != ["="]:
        return None
    at = Label(t.file.span(name.start, t.tokens[t.at + end].end), "the name of a value belongs here")
    help_ = f"a tensor is made as a whole: `val {name.text} = for i => if i = … then … else …`"
    return Advice(Diagnostic("AX0101", "nothing is assigned to an element of a tensor", (at,), (), (Suggestion(help_),)), (), end)


def _closing(kinds: Sequence[str]) -> int | None:
    """Which token closes the bracket that is the first."""
    depth = 0
    for n, kind in enumerate(kinds):
        depth += (kind in BRACKETS) - (kind in BRACKETS.values())
        if depth == 0:
            return n
    return None


def _declaration(t: Trouble) -> Advice | None:
    """Something else where a declaration begins: at the top, or after `let`."""
    if "decl" not in t.machine.table.states[t.machine.states[-1]]:
        return None
    found, values = t.found, t.machine.values
    following = t.tokens[t.at + 1].kind if t.at + 1 < len(t.tokens) else END
    in_let = bool(values) and isinstance(values[-1], Token)
    if in_let and found.kind == "NAME" and following in ("=", ":"):
        val = t.read("val")
        return t.advise(
            "AX0101", "`let` is followed by declarations", help=f"write `let val {clip(found.text)} = …`",
            put=f"val {found.text}", instead=(val, found),
        )  # fmt: skip
    if in_let:
        return t.advise("AX0101", f"expected a declaration after `let`, found {t.shown}", help="write `let val x = … in … end`")
    if found.kind in CLOSERS:
        return _stray_closer(t)
    meant = DECLARING.get(found.text)
    if meant is not None:
        message = f"`{found.text}` begins no declaration in Axon: write `{meant}`"
        if found.text == "from" and (names := _names_from(t)):
            module = t.tokens[t.at + 1]
            note = f"what a module declares is called by its name: `{clip(module.text)}.{clip(names[0].text)}`"
            edit = Edit(t.file.span(found.start, names[-1].end), f"import {module.text}")
            diagnostic = Diagnostic("AX0113", message, (Label(t.place),), (note,), (Suggestion("", (edit,)),))
            return Advice(diagnostic, (t.read("import"), module), t.tokens.index(names[-1], t.at) - t.at)
        return t.advise("AX0113", message, put=meant if following == "NAME" and found.text != "from" else "")
    if found.kind == "NAME" and following == "=":
        val = t.read("val")
        return t.advise(
            "AX0101", "a declaration begins with `val` or `fun`", help=f"write `val {clip(found.text)} = …`",
            put=f"val {found.text}", instead=(val, found),
        )  # fmt: skip
    headed = found.kind == "NAME" and following in ("NAME", "(", "{")
    near = one_slip(found.text, sorted(DECLARATIONS)) if headed else None
    inside = any(isinstance(v, Token) and v.kind == "let" for v in values)
    where = "`let` is followed by declarations" if inside else "a file is a list of declarations"
    kinds = "`val` or `fun`" if inside else "`val`, `fun`, `type`, `sig` or `import`"
    return t.advise(
        "AX0101", f"expected a declaration, found {t.shown}",
        note=f"{where}, which begin with {kinds}; more lines are indented",
        help=f"did you mean `{near}`?" if near else "", put=near or "", instead=(t.read(near),) if near else None,
    )  # fmt: skip


def _names_from(t: Trouble) -> list[Token]:
    """The names of `from module import names`, if that is written here."""
    kinds = [token.kind for token in t.tokens[t.at + 1 : t.at + 4]]
    if kinds != ["NAME", "import", "NAME"]:
        return []
    names = [t.tokens[t.at + 3]]
    for comma, name in pairwise(t.tokens[t.at + 4 :]):
        if comma.kind == "," and name.kind == "NAME":
            names.append(name)
        elif comma.kind != "NAME" or comma is not names[-1]:
            break
    return names


_OWNERS = {"in": "let", "end": "let", "then": "if", "else": "if"}


def _stray_closer(t: Trouble) -> Advice | None:
    """A closing word or bracket of something that was never opened."""
    kind, opened = t.found.kind, {v.kind for v in t.machine.values if isinstance(v, Token)}
    openers = {_OWNERS[kind]} if kind in _OWNERS else {o for o, c in BRACKETS.items() if c == kind}
    innermost = innermost_open(t.machine)
    if kind not in CLOSERS or opened & openers or (innermost and innermost.token.kind in BRACKETS and t.accepts(innermost.closer)):
        return None
    wanted = _OWNERS.get(kind) or next(iter(openers))
    return t.advise("AX0101", f"this `{kind}` has no `{wanted}` before it")


def _literals(t: Trouble) -> Advice | None:
    """`[1, 2]`, `.5`, `1.`"""
    waits = _waits_for(t.machine)
    if t.found.kind == "[" and waits == "an expression":
        message = "an array is written `[| 1, 2 |]`; `[` alone reads from the tensor before it"
        return t.advise("AX0113", message, edits=_as_array(t))
    if t.found.kind == "PROJ" and waits == "an expression":
        instead = (Token("FLOAT", f"0{t.found.text}", t.found.start, t.found.end),)
        message, digits = "a number begins with a digit", f"0{t.found.text}"
        return t.advise("AX0101", message, help=f"write `{clip(digits)}`", put=digits, instead=instead)
    number = t.tokens[t.at - 2] if t.at > 1 else None
    if t.before and t.before.kind == "." and number and number.kind == "INT" and waits == "a name":
        message, dot = "a number does not end with a dot", t.file.span(t.before.start, t.before.end)
        return t.advise("AX0101", message, help=f"write `{clip(number.text)}.0`", edits=(Edit(dot, ".0"),))
    return None


def _as_array(t: Trouble) -> tuple[Edit, ...]:
    """`[1, 2]` as `[| 1, 2 |]`, with what is nested in it."""
    edits: list[Edit] = []
    depth = 0
    for before, token in pairwise(t.tokens[t.at - 1 :]):
        inner = before.kind in ("[", ",", "=", "(") or depth == 0
        if token.kind == "[" and not inner:
            return ()  # an access, whose end is not that of an array
        if token.kind in ("[", "]"):
            depth += 1 if token.kind == "[" else -1
            edits.append(Edit(t.file.span(token.start, token.end), "[| " if token.kind == "[" else " |]"))
        if depth == 0:
            return tuple(edits)
    return ()


def _particular(t: Trouble) -> Advice | None:
    """Mistakes that the last few symbols give away."""
    values, found = t.machine.values, t.found
    last = [v.kind if isinstance(v, Token) else "" for v in values[-2:]]
    if found.kind == "=" and last == ["fun", "NAME"]:
        name = clip(values[-1].text)
        word, end = t.file.span(values[-2].start, values[-2].end), t.file.span(values[-1].end, values[-1].end)
        value = Suggestion(f"for a value, write `val {name} = …`", (Edit(word, "val"),))
        nothing = Suggestion(f"for a function of nothing, write `fun {name} () = …`", (Edit(end, " ()"),))
        message = f"a `fun` needs a parameter, and `{name}` has none"
        return Advice(Diagnostic("AX0101", message, (Label(t.place),), suggestions=(value, nothing)))
    if last[-1:] == ["loop"] or last[-1:] == ["unfold"]:
        return t.advise("AX0101", f"the state of a `{values[-1].kind}` stands in parentheses: `{values[-1].kind} (s = …) for …`")
    if found.kind == "while":
        return _misplaced_while(t)
    if found.kind == "=>" and t.accepts("for") and any(isinstance(v, Token) and v.kind == "while" for v in values):
        message = "a loop with `while` also says how many steps there are at most: `while … for i < n => …`"
        bound = (Edit(t.file.span(found.start, found.start), "for _ < 1000 "),)
        return t.advise("AX0101", message, help="if 1000 are surely enough, write `while … for _ < 1000 => …`", edits=bound)
    if last[-1:] == ["cast"]:
        return t.advise("AX0101", f"expected an element type after `cast`, found {t.shown}", help="write `cast f32 x`")
    if last == ["cast", "NAME"] and found.kind in ("[", ".", "PROJ") and values[-1].text not in _ELEMENTS:
        operand = t.file.text[values[-1].start : end_of_operand(t.tokens, t.at)]
        shown = operand if len(operand) <= 40 and "\n" not in operand else f"{clip(values[-1].text)}{found.text}…"
        start = t.file.span(values[-1].start, values[-1].start)
        missing = Suggestion(f"write `cast f32 {shown}`", (Edit(start, "f32 "),))
        label = Label(t.file.span(values[-1].start, values[-1].end))
        message = f"expected an element type after `cast`, found `{clip(values[-1].text)}`"
        return Advice(Diagnostic("AX0101", message, (label,), (), (missing,)))
    named = t.tokens[t.at - 2 : t.at]
    if [k.kind for k in named] == ["val", "NAME"] and found.kind in ("NAME", "(", "{") and t.accepts("=") and _is_head(t):
        name = clip(named[1].text)
        fun = Suggestion(f"for a function, write `fun {name} …`", (Edit(t.file.span(named[0].start, named[0].end), "fun"),))
        message = f"a `val` has no parameters, and `{name}` has some"
        return Advice(Diagnostic("AX0101", message, (Label(t.place),), (), (fun,)))
    if found.kind == ".." and (t.accepts("RUN")):
        following = t.tokens[t.at + 1]
        gap = t.file.span(found.end, following.start) if following.kind == "NAME" else None
        message = "the dots of a shape variable touch its name"
        return t.advise("AX0101", message, help="write `..s`", edits=(Edit(gap, ""),) if gap is not None else ())
    if found.kind in (".", ",") and last == ["import", "NAME"]:
        return t.advise("AX0101", "an `import` names one module, by one word")
    if found.kind == "where" and values and isinstance(values[-1], (s.Apply, s.Var)) and _reduces(values[-1]):
        return t.advise("AX0115", "bounds and conditions of a reduction stand after `for`", help="as in `sum for i where p => …`")
    if found.kind == "as" and last == ["import", "NAME"]:
        help_ = PYTHON_LIBRARY if values[-1].text in LIBRARIES else f"write `import {clip(values[-1].text)}`"
        edits = (Edit(t.file.span(values[-1].end, t.tokens[t.at + 1].end), ""),) if values[-1].text not in LIBRARIES else ()
        return t.advise("AX0101", "an imported module keeps its name", help=help_, edits=edits)
    opened = innermost_open(t.machine)
    if found.kind == "where" and opened is not None and (opened.token.kind, opened.closer) == ("for", "=>"):
        message = "a `for` has no `where`: it makes an element for each index"
        return t.advise("AX0115", message, help="write `filter p x` for some of the elements, or `for i => if … then … else …`")
    if found.kind == "where" and _waits_for(t.machine) == "an expression":
        message = "`where` is no function: a choice for each element is an `if` inside a `for`"
        return t.advise("AX0113", message, help="write `for i => if x[i] > 0.0 then x[i] else 0.0`")
    arrow = next(token for token in t.tokens[t.at :] if token.kind not in (",", "NAME"))
    if found.kind == "," and arrow.kind == "=>" and (told := between_commas(t.file, arrow.start)) is not None:
        return Advice(told)
    arrow = next((token for token in t.tokens[t.at :] if token.kind in AFTER_INDICES), found)
    if found.kind == "," and arrow.kind == "=>" and (told := bounded_alone(t.file, arrow.start)) is not None:
        return Advice(told)
    if t.before is not None and t.before.kind == "NAME" and opened is not None and opened.token.kind == "{" and t.accepts("="):
        if found.text in ("with", "|") and t.tokens[t.at - 2] is opened.token:
            record = clip(t.before.text)
            message = f"Axon has no `{clip(found.text)}` for a record that is another one but for some fields"
            return t.advise("AX0113", message, help=f"write all fields; one that stays is `b = {record}.b`")
        if found.kind in (",", "}"):
            return _field_alone(t)
    if found.kind == "<" and t.accepts(",") and (bounds := _bounds_in_parentheses(t)) is not None:
        return bounds
    in_header = opened is not None and (opened.token.kind, opened.closer) == ("for", "=>")
    if found.kind == "<" and in_header and opened and (apart := _bounds_without_commas(t, opened.token)) is not None:
        return apart
    if found.kind == ")" and last == ["(", "NAME"] and t.accepts(","):
        return t.advise("AX0101", f"one index stands without parentheses: `{clip(values[-1].text)}`")
    if found.kind == "?" and _waits_for(t.machine) is None:
        return t.advise("AX0113", "Axon has no `?`: a choice is `if … then … else …`")
    if found.kind == ":" and values and isinstance(values[-1], _EXPRESSIONS):
        foreign = _foreign_word(t)
        if foreign is not None:
            place = Label(t.file.span(foreign.start, foreign.end))
            return Advice(Diagnostic("AX0113", f"Axon has no `{foreign.text}`: {IN_EXPRESSIONS[foreign.text]}", (place,)))
        return t.advise("AX0101", "a type for an expression needs parentheses around both", help="write `(e : t)`")
    return None


def _field_alone(t: Trouble) -> Advice:
    """`{ a, b }` for `{ a = a, b = b }`; as far as only names follow, it is read as if it said so."""
    rest: list[Token] = []  # in place of what was found and of what follows it
    edits: list[Edit] = []
    n = t.at - 1
    while True:
        name, after = t.tokens[n], t.tokens[n + 1]
        edits.append(Edit(t.file.span(name.end, name.end), f" = {name.text}"))
        rest += [*([name] if n >= t.at else []), Token("=", "=", name.end, name.end), name, after]
        if after.kind == "}" or [k.kind for k in t.tokens[n + 2 : n + 4]] not in (["NAME", ","], ["NAME", "}"]):
            break
        n += 2
    names = [token.text for token in t.tokens[t.at - 1 : n + 1] if token.kind == "NAME"]
    help_ = Suggestion(f"write `{', '.join(f'{name} = {name}' for name in names)}`", tuple(edits))
    label = Label(t.file.span(t.tokens[t.at - 1].start, t.tokens[n].end))
    message = "a field stands with its value, also where that has the same name"
    return Advice(Diagnostic("AX0113", message, (label,), (), (help_,)), tuple(rest), n + 1 - t.at)


def _bounds_in_parentheses(t: Trouble) -> Advice | None:
    """`for (i < n, j < m) => …`, also `for (i < n) (j < m) => …`; it is read as if it had no parentheses there."""
    first = next(n for n in range(t.at, -1, -1) if t.tokens[n].kind not in ("<", "NAME", ","))
    opened, begin = innermost_open(t.machine), first
    while begin > 0 and t.tokens[begin - 1].kind in ("NAME", ",", "RUN"):
        begin -= 1
    header = _header(t.tokens, begin)
    if opened is None or t.tokens[first] is not opened.token or t.tokens[begin - 1].kind != "for" or header is None:
        return None
    edits: list[Edit] = []
    depth, bounded = 0, False
    for n in range(begin, begin + len(header)):
        token, before, after = t.tokens[n], t.tokens[n - 1], t.tokens[n + 1]
        here = t.file.span(token.start, token.end)
        if token.kind == "(":
            depth += 1
            if depth == 1:
                bounded = _has_bound(t.tokens, n)
            if depth == 1 and bounded:
                apart = before.kind in ("for", ",", ")")
                edits.append(Edit(here, "") if apart else Edit(t.file.span(before.end, token.end), ", "))
        elif token.kind == ")":
            depth -= 1
            if depth == 0 and bounded:
                edits.append(Edit(here, "" if after.kind in (",", "=>") else ","))
        elif depth == 1 and bounded and _begins_bound(t.tokens, n):
            edits.append(Edit(t.file.span(before.end, before.end), ","))
    text, at = "", header[0].start
    for edit in edits:
        text, at = text + t.file.text[at : edit.span.start] + edit.text, edit.span.end
    text = " ".join((text + t.file.text[at : header[-1].end]).split())
    shown = text if len(text) <= 60 else "i < n, j < m"
    help_ = Suggestion(f"write `for {shown} => …`", tuple(edits), change=Change.GROUPED)
    message = "indices that have bounds stand without parentheses"
    label = Label(t.file.span(t.tokens[first].start, t.found.end))
    return Advice(Diagnostic("AX0101", message, (label,), ("`(i, j)` is one dimension, of all pairs",), (help_,)))


def _bounds_without_commas(t: Trouble, opened: Token) -> Advice | None:
    """`for i < n j < m => …`."""
    begin = next(n for n in range(t.at, -1, -1) if t.tokens[n] is opened) + 1
    header = _header(t.tokens, begin)
    if header is None:
        return None
    depth, edits, text, at = 0, list[Edit](), "", header[0].start
    for n in range(begin, begin + len(header)):
        depth += (t.tokens[n].kind in BRACKETS) - (t.tokens[n].kind in BRACKETS.values())
        if depth == 0 and _begins_bound(t.tokens, n):
            end = t.tokens[n - 1].end
            edits.append(Edit(t.file.span(end, end), ","))
            text, at = f"{text}{t.file.text[at:end]},", end
    text = " ".join((text + t.file.text[at : header[-1].end]).split())
    help_ = Suggestion(f"write `for {text if len(text) <= 60 else 'i < n, j < m'} => …`", tuple(edits))
    label = Label(t.file.span(t.tokens[t.at - 1].start, t.found.end), "this bound begins without one")
    return Advice(Diagnostic("AX0101", "a comma stands between an index with a bound and the next", (label,), (), (help_,)))


def _begins_bound(tokens: Sequence[Token], n: int) -> bool:
    """Whether `j <` stands there, directly behind the bound before it."""
    return tokens[n].kind == "NAME" and tokens[n + 1].kind == "<" and tokens[n - 1].kind in ("NAME", "INT", ")", "]", "RUN")


def _header(tokens: Sequence[Token], begin: int) -> Sequence[Token] | None:
    """The tokens from one on that end before a `=>`, if brackets are closed there and nothing else begins."""
    depth = 0
    for n in range(begin, len(tokens)):
        depth += (tokens[n].kind in BRACKETS) - (tokens[n].kind in BRACKETS.values())
        if depth < 0 or tokens[n].kind == END or tokens[n].kind in DECLARATIONS:
            return None
        if depth == 0 and tokens[n].kind == "=>":
            return tokens[begin:n]
    return None


def _has_bound(tokens: Sequence[Token], opening: int) -> bool:
    """Whether an index has a bound in the parentheses that open at a place."""
    depth = 0
    for token in tokens[opening:]:
        depth += (token.kind in BRACKETS) - (token.kind in BRACKETS.values())
        if depth == 0:
            return False
        if depth == 1 and token.kind == "<":
            return True
    return False


def _misplaced_while(t: Trouble) -> Advice | None:
    """`for i < n while p => …`, and `while` without a loop."""
    opened = innermost_open(t.machine)
    if opened is not None and (opened.token.kind, opened.closer) == ("for", "=>"):
        return t.advise("AX0101", "a `while` stands before the `for` of its loop: `loop (s = …) while … for i < n => …`")
    if _waits_for(t.machine) == "an expression":
        return t.advise("AX0113", "a loop that ends early is `loop (s = …) while … for i < n => …`: it carries a state")
    return None


_CONSTRUCTS = ("cast", "if", "fn", "let", "loop", "unfold", "for", "not")


def _bare_argument(t: Trouble) -> Advice | None:
    """`sqrt cast f32 n`: an argument that is more than an atom, without its parentheses; it is read as if it had them."""
    found, before = t.found, t.before
    if found.kind not in _CONSTRUCTS or before is None or not t.accepts("("):
        return None
    value = t.machine.values[-1] if t.machine.values else None
    head = value.text if isinstance(value, Token) else value.span.text if isinstance(value, (s.Var, s.Field, s.Apply)) else ""
    if before.kind != "NAME" or not head or "\n" in t.file.text[before.end : found.start]:
        return None
    last = end_of_construct(t.tokens, t.at)
    if last <= t.at:
        return None
    if found.kind == "if" and all(token.kind != "then" for token in t.tokens[t.at : last + 1]):
        return t.advise("AX0113", "a choice begins with its condition: `if … then … else …`")
    end = t.file.span(t.tokens[last].end, t.tokens[last].end)
    start = t.file.span(found.start, found.start)
    whole = t.file.text[found.start : t.tokens[last].end]
    shown = whole if len(whole) <= 40 and "\n" not in whole else f"{found.kind} …"
    help_ = Suggestion(f"write `{clip(before.text)} ({shown})`", (Edit(start, "("), Edit(end, ")")))
    message = f"`{found.kind}` begins an argument of `{clip(before.text)}`, which stands in parentheses"
    instead = (Token("(", "(", found.start, found.start), *t.tokens[t.at : last + 1], Token(")", ")", end.start, end.start))
    return Advice(Diagnostic("AX0101", message, (Label(t.place),), (), (help_,)), instead, last - t.at)


def _reduces(head: s.Expr) -> bool:
    while isinstance(head, s.Apply):
        head = head.function
    return isinstance(head, s.Var) and head.name in REDUCING


def _never_closed(t: Trouble) -> Advice | None:
    opened = innermost_open(t.machine)
    if opened is None or not t.accepts(opened.closer):
        return None
    if opened.token.kind in BRACKETS and t.found.kind not in BOUNDARIES:
        return None
    return never_closed(t, opened) if opened.closer not in ("=>", "=") else None


def never_closed(t: Trouble, opened: Open) -> Advice:
    """The opening word or bracket comes first, since that is where the mend begins."""
    word, closer = opened.token.kind, opened.closer
    code, what = {
        "in": ("AX0102", "this `let` has no `in`"),
        "then": ("AX0117", "this `if` has no `then`"),
        "else": ("AX0117", "this `if` has no `else`, so it would have no value when its condition is false"),
    }.get(closer, ("AX0102", f"this `{word}` is never closed"))
    message = what if closer == "else" else f"{what}: expected `{closer}` before {t.shown}"
    place, where, helps = t.place, _where(t), _hints(t)
    if closer == "in" and t.found.kind == "end":  # the value stands before it
        message, where = f"{what}, which stands between its declarations and its value", "before this"
        if (body := value_of_let(t.file, t.tokens[: t.at], opened.token)) is not None:
            place = t.file.span(body.start, body.end)
            helps = (Suggestion(f"write `in` before `{clip(body.text)}`", (Edit(t.file.span(body.start, body.start), "in "),)),)
        else:
            where = "somewhere before this"
    labels = (Label(t.file.span(opened.token.start, opened.token.end)), Label(place, f"expected `{closer}` {where}"))
    if not helps and t.before is not None and closer in ("end", *BRACKETS.values()):
        end = t.file.span(t.before.end, t.before.end)
        helps = (Suggestion("", (Edit(end, f" {closer}" if closer in ("end", "|]", "}") else closer),)),)
    return Advice(Diagnostic(code, message, labels, (), helps))


def _where(t: Trouble) -> str:
    return "after this" if t.found.kind == END else "before this"


def _expected(t: Trouble) -> Advice:
    """When no rule knows better: what would have fitted."""
    opened = innermost_open(t.machine)
    waits = _waits_for(t.machine)
    after = f" after `{clip(t.before.text)}`" if t.before else ""
    labels = [Label(t.place)]
    if waits is not None:
        message = f"expected {waits}{after}, found {t.shown}"
    elif opened is not None and t.accepts(opened.closer):
        message = f"expected `{opened.closer}`{after}, found {t.shown}"
        labels.append(Label(t.file.span(opened.token.start, opened.token.end), f"to close this `{opened.token.kind}`"))
        if opened.closer in ("=>", "="):
            labels.pop()
    else:
        fits = [k for k in ("=", "=>", ":", "->", ".", "(", ")", "]", "}", "|]", ",", "for") if t.accepts(k)]
        if fits and not t.accepts("+"):
            listed = " or ".join(f"`{k}`" for k in fits[:3])
            message = f"expected {listed}{after}, found {t.shown}"
        else:
            message = f"{t.shown} cannot follow{after.removeprefix(' after')}" if t.before else f"{t.shown} cannot stand here"
    return Advice(Diagnostic("AX0101", message, tuple(labels), (), _hints(t)))


def _hints(t: Trouble) -> tuple[Suggestion, ...]:
    foreign = _foreign_word(t)
    return (Suggestion(IN_EXPRESSIONS[foreign.text]),) if foreign is not None else ()


def _foreign_word(t: Trouble) -> Token | None:
    """A word of another language shortly before the trouble, on the same line."""
    for token in reversed(t.tokens[max(0, t.at - 12) : t.at + 1]):
        if "\n" in t.file.text[token.end : t.found.start]:
            return None
        if token.kind == "NAME" and token.text in IN_EXPRESSIONS:
            return token
    return None


def _waits_for(machine: Machine) -> str | None:
    """What must come next, in words, where the text so far cannot be complete; None where it could."""
    state = machine.table.states[machine.states[-1]]
    moves = {symbol: to for symbol, to in state.items() if symbol not in machine.table.nonterminals}
    starts_empty = {machine.table.rules[~to].size for to in moves.values() if to < 0} == {0}
    if any(to < 0 for to in moves.values()) and not starts_empty:
        return None
    for symbol, phrase in _PHRASES:
        if symbol in state:
            return phrase
    if set(moves) == {"NAME"}:
        return "a name"
    return None


_RULES: tuple[Callable[[Trouble], Advice | None], ...] = (
    _stray_comment_end, _chained_comparison, _assigned, _declaration, _swap, _keyword_as_name, _literals, _tilde, _particular,
    _bare_argument, _stray_closer, _never_closed, _expected,
)  # fmt: skip
