"""Parse to syntax: one method for each alternative that `axon.lark` names, called as the parser reduces, so nothing recurses.

A method gets the span of what it makes, then one value for each symbol of its alternative, punctuation included. What the
grammar is too coarse to refuse is reported here; the parser drops the declaration that holds such an error.
"""

from __future__ import annotations

import re
from typing import Any, cast

from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.functions import REDUCTIONS
from axon.base.source import SourceFile, Span
from axon.grammar import syntax as s
from axon.grammar.lexer import Token

WITH_MONOID = ("reduce", "scan")
REDUCING = (*REDUCTIONS, *WITH_MONOID)  # the words that begin a reduction
MAX_INTEGER = 2**64 - 1  # of u64
_EQUALS = re.compile(r"[ \t]*=(?!>)")
_WITH_COMMAS = re.compile(rf"\b({'|'.join(REDUCING)})\s+([a-zA-Z_]\w*(?:\s*,\s*[a-zA-Z_]\w*)+)\s*\Z")
_LAST_REDUCTION = re.compile(rf"\b({'|'.join(REDUCING)})\s+\Z")
_BOUNDED = r"[a-zA-Z_]\w*(?:[ \t]+[a-zA-Z_]\w*)*(?:\s*<\s*[^,<>=]+)?"
_WITH_BOUNDS = re.compile(rf"\b({'|'.join(REDUCING)})\s+(?!for\b)({_BOUNDED}(?:,\s*{_BOUNDED})*)\s*\Z")


def between_commas(file: SourceFile, arrow: int) -> Diagnostic | None:
    """Of `sum i, j => …`, whose indices end at the offset `arrow`: commas do not stand there."""
    begin = max(arrow - 200, 0)
    found = _WITH_COMMAS.search(file.text[begin:arrow])
    if found is None:
        return None
    indices = Span(file, begin + found.start(2), begin + found.end(2))
    comma = file.text.index(",", indices.start)
    names = " ".join(re.split(r"\s*,\s*", found[2]))
    help_ = Suggestion(f"write `{found[1]} {names} => …`", (Edit(indices, names),))
    message = "no commas between the indices of a reduction"
    return Diagnostic("AX0101", message, (Label(Span(file, comma, comma + 1)),), (), (help_,))


def bounded_alone(file: SourceFile, arrow: int) -> Diagnostic | None:
    """Of `sum i < n, j => …`, whose indices end at the offset `arrow`: bounds stand after `for`."""
    begin = max(arrow - 200, 0)
    found = _WITH_BOUNDS.search(file.text[begin:arrow])
    if found is None or "<" not in found[2]:
        return None
    bound, end = file.text.index("<", begin + found.start(2)), begin + found.end(1)
    indices = " ".join(found[2].split())
    shown = f"{found[1]} for {indices if len(indices) <= 40 else 'i < n'} => …"
    help_ = Suggestion(f"write `{shown}`", (Edit(Span(file, end, end), " for"),))
    message = "the indices of a reduction that have bounds stand after `for`"
    return Diagnostic("AX0115", message, (Label(Span(file, bound, bound + 1)),), (), (help_,))


class SyntaxBuilder:
    """Makes the syntax of one file. `text` is the file's text with comments blanked."""

    def __init__(self, file: SourceFile, text: str) -> None:
        self.file = file
        self.text = text
        self.diagnostics: list[Diagnostic] = []
        self.loose_runs: dict[int, Span] = {}  # `..i` among arguments, by offset, until `=>` makes them binders

    def report(self, code: str, message: str, span: Span, *notes: str, suggest: str = "", put: Edit | None = None) -> None:
        help_ = (Suggestion(suggest, (put,) if put is not None else ()),) if suggest else ()
        self.diagnostics.append(Diagnostic(code, message, (Label(span),), notes, help_))

    def at(self, token: Token) -> Span:
        return Span(self.file, token.start, token.end)

    def name(self, token: Token) -> s.Name:
        return s.Name(token.text, self.at(token))

    def number(self, token: Token) -> int:
        """The value of digits. Python itself refuses to read very long ones, so their number is checked first."""
        digits = token.text.lstrip(".0")
        if len(digits) > 20 or int(digits or 0) > MAX_INTEGER:
            shown = token.text if len(token.text) <= 30 else f"{token.text[:12]}… ({len(token.text):,} digits)"
            self.report("AX0111", f"{shown} does not fit in 64 bits", self.at(token), "the largest u64 is 18446744073709551615")
            return 0
        return int(digits or 0)

    # ── lists and what is passed on ──────────────────────────────────────────────────────────────────────────────────

    def nothing(self, _: Span) -> list[Any]:
        return []

    def first(self, _: Span, item: Any) -> list[Any]:
        return [item]

    def both(self, _: Span, one: Any, __: Token, two: Any) -> list[Any]:
        return [one, two]

    def push(self, _: Span, items: list[Any], item: Any) -> list[Any]:
        items.append(item)
        return items

    def more(self, _: Span, items: list[Any], __: Token, item: Any) -> list[Any]:
        items.append(item)
        return items

    def absent(self, _: Span) -> None:
        return None

    def first_of(self, _: Span, item: Any) -> Any:
        return item

    def second(self, _: Span, __: Token, item: Any) -> Any:
        return item

    def middle(self, _: Span, __: Token, item: Any, ___: Token) -> Any:
        return item

    def field(self, _: Span, name: Token, __: Token, value: Any) -> tuple[s.Name, Any]:
        return self.name(name), value

    # ── declarations ─────────────────────────────────────────────────────────────────────────────────────────────────

    def val(self, span: Span, _: Token, pattern: s.Pattern, __: Token, value: s.Expr) -> s.Val:
        return s.Val(pattern, value, span=span)

    def fun(
        self, span: Span, _: Token, name: Token, params: list[s.Param], result: s.Type | None, facts: list[s.Fact],
        __: Token, body: s.Expr,
    ) -> s.Fun:  # fmt: skip
        return s.Fun(self.name(name), tuple(params), result, tuple(facts), body, span=span)

    def type_decl(self, span: Span, _: Token, name: Token, params: list[Any], __: Token, type: s.Type) -> s.TypeDecl:
        return s.TypeDecl(self.name(name), tuple(params), type, span=span)

    def sig(self, span: Span, _: Token, name: Token, __: Token, type: s.Type, facts: list[s.Fact]) -> s.Sig:
        return s.Sig(self.name(name), type, tuple(facts), span=span)

    def import_(self, span: Span, _: Token, name: Token) -> s.Import:
        return s.Import(self.name(name), span=span)

    def draw(self, span: Span, _: Token, pattern: s.Pattern, __: Token, site: s.Expr) -> s.Draw:
        return s.Draw(pattern, site, span=span)

    def observe(self, span: Span, _: Token, name: Token, __: Token, site: s.Expr) -> s.Observe:
        return s.Observe(self.name(name), site, span=span)

    def fact(self, span: Span, left: s.Dim, relation: Token, right: s.Dim) -> s.Fact:
        return s.Fact(left, relation.text, right, span=span)

    # ── patterns ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def dim_params(self, span: Span, _: Token, names: list[Token], __: Token) -> s.DimParams:
        return s.DimParams(tuple(map(self.name, names)), span=span)

    def pattern_name(self, span: Span, name: Token) -> s.PatternName:
        return s.PatternName(name.text, span=span)

    def pattern_unit(self, span: Span, _: Token, __: Token) -> s.PatternTuple:
        return s.PatternTuple((), span=span)

    def pattern_tuple(self, span: Span, _: Token, items: list[s.Pattern], __: Token) -> s.PatternTuple:
        return s.PatternTuple(tuple(items), span=span)

    def pattern_record(self, span: Span, _: Token, fields: list[Any], __: Token) -> s.PatternRecord:
        return s.PatternRecord(tuple(fields), span=span)

    def pattern_typed(self, span: Span, pattern: s.Pattern, _: Token, type: s.Type) -> s.PatternTyped:
        return s.PatternTyped(pattern, type, span=span)

    # ── types and dimensions ─────────────────────────────────────────────────────────────────────────────────────────

    def type_fun(self, span: Span, param: s.Type, _: Token, result: s.Type) -> s.TypeFun:
        return s.TypeFun(param, result, span=span)

    def type_dim_fun(self, span: Span, _: Token, names: list[Token], __: Token, ___: Token, result: s.Type) -> s.TypeDimFun:
        return s.TypeDimFun(tuple(map(self.name, names)), result, span=span)

    def type_or_scalar(self, span: Span, whole: s.Type, _: Token) -> s.TypeOrScalar:
        return s.TypeOrScalar(whole, span=span)

    def type_exists(self, span: Span, _: Token, name: Token, bound: s.Dim | None, __: Token, body: s.Type) -> s.TypeExists:
        return s.TypeExists(self.name(name), bound, body, span=span)

    def type_name(self, span: Span, parts: list[Token], *brackets: Any) -> s.TypeName:
        return s.TypeName(tuple(map(self.name, parts)), tuple(brackets[1]) if brackets else None, span=span)

    def type_var(self, span: Span, name: Token, *brackets: Any) -> s.TypeVar:
        return s.TypeVar(name.text, tuple(brackets[1]) if brackets else None, span=span)

    def type_unit(self, span: Span, _: Token, __: Token) -> s.TypeTuple:
        return s.TypeTuple((), span=span)

    def type_tuple(self, span: Span, _: Token, items: list[s.Type], __: Token) -> s.TypeTuple:
        return s.TypeTuple(tuple(items), span=span)

    def type_record(self, span: Span, _: Token, fields: list[Any], __: Token) -> s.TypeRecord:
        return s.TypeRecord(tuple(fields), span=span)

    def shape_run(self, span: Span, run: Token) -> s.ShapeRun:
        return s.ShapeRun(run.text[2:], span=span)

    def dim_name(self, span: Span, name: Token) -> s.DimName:
        return s.DimName(name.text, span=span)

    def dim_int(self, span: Span, digits: Token) -> s.DimInt:
        return s.DimInt(self.number(digits), span=span)

    def dim_negate(self, span: Span, _: Token, operand: s.Dim) -> s.DimNegate:
        return s.DimNegate(operand, span=span)

    def dim_binary(self, span: Span, left: s.Dim, op: Token, right: s.Dim) -> s.DimBinary:
        return s.DimBinary(op.text, left, right, span=span)

    def dim_call(self, span: Span, function: Token, args: list[s.Dim]) -> s.DimCall:
        return s.DimCall(self.name(function), tuple(args), span=span)

    # ── binders and subscripts ───────────────────────────────────────────────────────────────────────────────────────

    def index_binder(self, span: Span, name: Token) -> s.IndexBinder:
        return s.IndexBinder(name.text, span=span)

    def run_binder(self, span: Span, run: Token) -> s.RunBinder:
        return s.RunBinder(run.text[2:] or None, span=span)

    def product_binder(self, span: Span, _: Token, names: list[Token], __: Token) -> s.ProductBinder:
        return s.ProductBinder(tuple(map(self.name, names)), span=span)

    def group(self, span: Span, binders: list[s.Binder], *bounded: Any) -> s.BinderGroup:
        bound = bounded[1] if bounded else None
        if bound is not None:
            self._check_bound(binders, bound)
        return s.BinderGroup(tuple(binders), bound, span=span)

    def _check_bound(self, binders: list[s.Binder], bound: s.Expr | s.ShapeRun) -> None:
        last = binders[-1]
        if len(binders) > 1:
            names = " ".join(b.span.text for b in binders[:-1])
            self.report(
                "AX0116", f"`<` bounds one index, and {len(binders)} stand before it", binders[0].span.to(bound.span),
                suggest=f"separate them with a comma: `{names}, {last.span.text} < {bound.span.text}`",
                put=Edit(Span(self.file, binders[-2].span.end, last.span.start), ", "),
            )  # fmt: skip
        elif isinstance(last, s.ProductBinder):
            message = f"`{last.span.text}` is a product of indices, which cannot have a bound"
            self.report("AX0116", message, last.span.to(bound.span), suggest="bound each of its indices, or none")
        elif isinstance(last, s.RunBinder) and not isinstance(bound, s.ShapeRun):
            message = f"`{last.span.text}` runs over a whole shape, so its bound is a shape variable, such as `..s`"
            self.report("AX0116", message, bound.span)
        elif isinstance(last, s.IndexBinder) and isinstance(bound, s.ShapeRun):
            message = f"`{last.name}` is one index, so its bound is one dimension, not the shape `{bound.span.text}`"
            help_ = f"for a run of indices write `..{last.name} < {bound.span.text}`"
            self.report("AX0116", message, bound.span, suggest=help_, put=Edit(last.span, f"..{last.name}"))

    def index_at(self, span: Span, value: s.Expr) -> s.Subscript:
        if isinstance(value, s.Tuple) and value.items:
            return s.IndexSplit(value.items, span=span)
        return s.IndexAt(value, span=span)

    def index_run(self, span: Span, run: Token) -> s.IndexRun:
        return s.IndexRun(run.text[2:], span=span)

    def index_rest(self, span: Span, _: Token) -> s.IndexRest:
        return s.IndexRest(span=span)

    def index_slice(self, span: Span, start: s.Expr | None, colon: Token, stop: s.Expr | None, *step: Any) -> s.IndexSlice:
        first = start.span.start if start is not None else colon.start
        last = step[0].end if step else colon.end
        last = span.end if (stop is not None and not step) or (step and step[1] is not None) else last
        return s.IndexSlice(start, stop, step[1] if step else None, span=Span(self.file, first, last))

    # ── expressions ──────────────────────────────────────────────────────────────────────────────────────────────────

    def var(self, span: Span, name: Token) -> s.Var:
        return s.Var(name.text, span=span)

    def int_(self, span: Span, digits: Token) -> s.Int:
        return s.Int(self.number(digits), span=span)

    def float_(self, span: Span, digits: Token) -> s.Float:
        value = float(digits.text)
        if value == float("inf"):
            self.report("AX0111", "this number is too large for any float", span, "for infinity write `inf`")
        return s.Float(value, span=span)

    def operator_(self, span: Span, _: Token, op: Token) -> s.Operator:
        return s.Operator(op.text, span=span)

    def apply(self, span: Span, function: s.Expr, argument: s.Expr) -> s.Apply:
        if isinstance(argument, s.Var) and "\n" in self.text[function.span.end : argument.span.start]:
            self._warn_missing_val(argument)
        return s.Apply(function, argument, span=span)

    def _warn_missing_val(self, argument: s.Var) -> None:
        """`val a = b`, and on the next line `c = d`: that is `val a = (b c = d)`, which nobody means."""
        if _EQUALS.match(self.text, argument.span.end):
            put = Edit(Span(self.file, argument.span.start, argument.span.start), "val ")
            self.diagnostics.append(Diagnostic(
                "AX0118", f"`{argument.name} =` continues the line above: it is compared, not defined", (Label(argument.span),),
                suggestions=(Suggestion(f"to define it, write `val {argument.name} = …`", (put,)),),
                severity="warning",
            ))  # fmt: skip

    def apply_dims(self, span: Span, function: s.Expr, _: Token, dims: list[s.Dim], __: Token) -> s.ApplyDims:
        return s.ApplyDims(function, tuple(dims), span=span)

    def apply_run(self, span: Span, function: s.Expr, run: Token) -> s.Apply:
        """See Note [Reduction heads] in axon.lark."""
        self.loose_runs[run.start] = self.at(run)
        return s.Apply(function, cast(s.Expr, self.run_binder(self.at(run), run)), span=span)

    def unary(self, span: Span, op: Token, operand: s.Expr) -> s.Unary:
        return s.Unary(op.text, operand, span=span)

    def binary(self, span: Span, left: s.Expr, op: Token, right: s.Expr) -> s.Binary:
        if op.text == "-" and self.text[op.start - 1].isspace() and not self.text[op.end].isspace():
            self._warn_lopsided(left, op, right)
        if op.text == "<" and isinstance(left, s.Apply) and self.diagnostics:
            self._explain_bound(left, op)
        return s.Binary(op.text, left, right, self.at(op), span=span)

    def _explain_bound(self, left: s.Expr, op: Token) -> None:
        """`sum i < n => e` was read as `(sum i) < (n => e)`, and `n =>` reported: say what is meant."""
        while isinstance(left, s.Apply):
            left = left.function
        latest = self.diagnostics[-1]
        if isinstance(left, s.Var) and left.name in REDUCING and latest.code == "AX0114" and latest.labels[0].span.start > op.end:
            self.diagnostics.pop()
            message = "the indices of a reduction that have bounds stand after `for`"
            self.report("AX0115", message, self.at(op), suggest=f"`{left.name} for i < n => …`")

    def _warn_lopsided(self, left: s.Expr, op: Token, right: s.Expr) -> None:
        while isinstance(left, s.Binary):
            left = left.right
        if isinstance(left, (s.Var, s.Field, s.Apply)):
            function, argument = left.span.text, right.span.text
            applied = Edit(self.at(op).to(right.span), f"(-{argument})")
            self.diagnostics.append(Diagnostic(
                "AX0110", f"this subtracts `{argument}` from `{function}`, though its spaces look like an argument",
                (Label(self.at(op)),),
                suggestions=(
                    Suggestion(f"to subtract, write `{function} - {argument}`", (Edit(self.at(op), "- "),)),
                    Suggestion(f"to apply, write `{function} (-{argument})`", (applied,)),
                ),
                severity="warning",
            ))  # fmt: skip

    def coerce(self, span: Span, value: s.Expr, _: Token, type: s.Type) -> s.Coerce:
        return s.Coerce(value, type, span=span)

    def ascribe(self, span: Span, _: Token, value: s.Expr, __: Token, type: s.Type, ___: Token) -> s.Ascribe:
        return s.Ascribe(value, type, span=span)

    def cast(self, span: Span, _: Token, element: Token, *value: s.Expr) -> s.Cast:
        return s.Cast(self.name(element), value[0] if value else None, span=span)

    def field_of(self, span: Span, record: s.Expr, _: Token, name: Token) -> s.Field:
        return s.Field(record, self.name(name), span=span)

    def project(self, span: Span, value: s.Expr, position: Token) -> s.Project:
        return s.Project(value, self.number(position), span=span)

    def access(self, span: Span, base: s.Expr, _: Token, subscripts: list[s.Subscript], *rest: Any) -> s.Access:
        return s.Access(base, tuple(subscripts), rest[1] if len(rest) == 3 else None, span=span)

    def unit(self, span: Span, _: Token, __: Token) -> s.Tuple:
        return s.Tuple((), span=span)

    def tuple_(self, span: Span, _: Token, items: list[s.Expr], __: Token) -> s.Tuple:
        return s.Tuple(tuple(items), span=span)

    def record(self, span: Span, _: Token, fields: list[Any], __: Token) -> s.Record:
        return s.Record(tuple(fields), span=span)

    def array(self, span: Span, _: Token, items: list[s.Expr], __: Token) -> s.Array:
        return s.Array(tuple(items), span=span)

    def let(self, span: Span, _: Token, decls: list[s.Decl], __: Token, body: s.Expr, ___: Token) -> s.Let:
        return s.Let(tuple(decls), body, span=span)

    def fn(self, span: Span, _: Token, params: list[s.Pattern], __: Token, body: s.Expr) -> s.Fn:
        return s.Fn(tuple(params), body, span=span)

    def if_(self, span: Span, _: Token, condition: s.Expr, __: Token, then: s.Expr, ___: Token, otherwise: s.Expr) -> s.If:
        return s.If(condition, then, otherwise, span=span)

    def for_(self, span: Span, _: Token, groups: list[s.BinderGroup], __: Token, body: s.Expr) -> s.For:
        return s.For(tuple(groups), body, span=span)

    def state(self, _: Span, pattern: s.Pattern, __: Token, init: s.Expr) -> tuple[s.Pattern, s.Expr]:
        return pattern, init

    def loop(
        self, span: Span, kind: Token, _: Token, states: list[Any], __: Token, condition: s.Expr | None, ___: Token,
        groups: list[s.BinderGroup], ____: Token, body: s.Expr,
    ) -> s.Loop:  # fmt: skip
        return s.Loop(kind.text, tuple(states), condition, tuple(groups), body, span=span)

    # ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────────

    def reduce(self, span: Span, head: s.Expr, arrow: Token, body: s.Expr) -> s.Expr:
        """`sum k => e`, of which the head was read as the application `sum k`."""
        found = self._reduction(head, arrow, body)
        if found is None:
            return body
        kind, monoid, arguments = found
        if not arguments:
            self.report("AX0115", f"`{kind.text}` needs an index before `=>`", self.at(arrow), suggest=f"`{kind.text} k => …`")
            return body
        binders = tuple(b for b in map(self._binder, arguments) if b is not None)
        group = s.BinderGroup(binders, None, span=arguments[0].span.to(arguments[-1].span))
        return s.Reduce(kind, monoid, (group,), None, body, span=span)

    def reduce_for(self, span: Span, head: s.Expr, for_: Token, groups: list[s.BinderGroup], _: Token, body: s.Expr) -> s.Expr:
        return self._reduce_for(span, head, for_, groups, None, body)

    def reduce_where(
        self, span: Span, head: s.Expr, for_: Token, groups: list[s.BinderGroup], _: Token, where: s.Expr, __: Token,
        body: s.Expr,
    ) -> s.Expr:  # fmt: skip
        return self._reduce_for(span, head, for_, groups, where, body)

    def _reduce_for(
        self, span: Span, head: s.Expr, for_: Token, groups: list[s.BinderGroup], where: s.Expr | None, body: s.Expr
    ) -> s.Expr:
        found = self._reduction(head, for_, body)
        if found is None:
            return body
        kind, monoid, arguments = found
        if arguments:
            message = f"the indices of `{kind.text} for …` stand after `for`"
            self.report("AX0115", message, arguments[0].span.to(arguments[-1].span))
        return s.Reduce(kind, monoid, tuple(groups), where, body, span=span)

    def _reduction(self, head: s.Expr, after: Token, body: s.Expr) -> tuple[s.Name, s.Expr | None, list[s.Expr]] | None:
        """What a head reduces with, and the arguments that are to be binders; None, reported, if it is no reduction.

        `after` is the `for` or `=>` that follows it.
        """
        function, arguments = head, list[s.Expr]()
        while isinstance(function, s.Apply):
            arguments.append(function.argument)
            function = function.function
        arguments.reverse()
        for argument in arguments:
            self.loose_runs.pop(argument.span.start, None)
        if not isinstance(function, s.Var) or function.name not in REDUCING:
            if not self._is_argument(function, arguments, after, body):
                self._not_a_reduction(head, function, arguments, after)
            return None
        kind = s.Name(function.name, function.span)
        if kind.text not in WITH_MONOID:
            return kind, None, arguments
        if not arguments or not isinstance(arguments[0], s.Tuple) or len(arguments[0].items) != 2:
            place = arguments[0].span if arguments else function.span
            message = f"`{kind.text}` needs a function and its unit first"
            if any(isinstance(a, s.Binary) and a.op == "=" for a in arguments[:1]):  # `scan (state = …) for k => …`
                loop = "unfold" if kind.text == "scan" else "loop"
                what = "every state" if kind.text == "scan" else "the last state"
                text = f"what gives {what} of a loop is `{loop} (state = …) for k < n => …`"
                self.report("AX0115", message, place, suggest=text, put=Edit(kind.span, loop))
                return None
            self.report("AX0115", message, place, suggest=f"`{kind.text} (op +, 0) k => …`")
            return None
        return kind, arguments[0], arguments[1:]

    def _is_argument(self, function: s.Expr, arguments: list[s.Expr], after: Token, body: s.Expr) -> bool:
        """Report `sqrt sum i => x[i]` and `exp for i => x[i]`, where what is an argument lacks its parentheses."""
        from axon.base.nearest import one_slip

        operands = [*((function.value,) if isinstance(function, s.Cast) else ()), *arguments]
        begins = next((a.span for a in operands if isinstance(a, s.Var) and a.name in REDUCING), None)
        what, rest, shown = "a reduction", "", f"{begins.text if begins is not None else ''} … => …"
        if begins is None:
            applied = isinstance(function, s.Var) and not arguments and after.text == "for"
            if not applied or one_slip(function.span.text, sorted(REDUCING)):
                return False
            what, begins, rest, shown = "a `for`", self.at(after), ", or nothing before `for`", "for … => …"
        opened, closed = Span(self.file, begins.start, begins.start), Span(self.file, body.span.end, body.span.end)
        head = " ".join(self.file.text[function.span.start : begins.start].split())
        help_ = Suggestion(f"write `{head} ({shown})`{rest}" if len(head) <= 30 else "", (Edit(opened, "("), Edit(closed, ")")))
        message = f"{what} that is an argument stands in parentheses"
        self.diagnostics.append(Diagnostic("AX0114", message, (Label(begins),), (), (help_,)))
        return True

    def _not_a_reduction(self, head: s.Expr, function: s.Expr, arguments: list[s.Expr], after: Token) -> None:
        bounds = after.text == "for"
        told = between_commas(self.file, after.start) or (None if bounds else bounded_alone(self.file, after.start))
        if told is not None:
            self.diagnostics.append(told)
            return
        if isinstance(function, s.Var) and not arguments and not bounds:
            message = f"`{function.name} =>` has no `fn` before it"
            put = Edit(Span(self.file, function.span.start, function.span.start), "fn ")
            self.report("AX0114", message, self.at(after), suggest=f"for a function, write `fn {function.name} => …`", put=put)
            return
        text, shown = head.span.text, function.span.text
        brief = len(text) <= 30 and "\n" not in text
        from difflib import get_close_matches

        meant = get_close_matches(shown, sorted(REDUCING), 1, 0.65) if brief else []
        if meant:
            suggestion = f"did you mean `{meant[0]}`?"
        elif bounds:
            suggestion = "for a tensor, write `for … => …` with nothing before it"
        else:
            suggestion = f"for a function, write `fn {text} => …`; for a tensor, `for {text} => …`" if brief else ""
        self.report(
            "AX0114",
            f"`{after.text}` follows {'' if bounds else 'indices of '}a reduction, and `{shown if brief else '…'}` is not one",
            function.span,
            f"the reductions are {', '.join(REDUCING)}",
            suggest=suggestion,
            put=Edit(function.span, meant[0]) if meant else None,
        )

    def _binder(self, argument: s.Expr | s.RunBinder) -> s.Binder | None:
        match argument:
            case s.Var(name=name):
                return s.IndexBinder(name, span=argument.span)
            case s.RunBinder():
                return argument
            case s.Tuple(items=items) if len(items) > 1 and all(isinstance(i, s.Var) for i in items):
                names = tuple(s.Name(i.name, i.span) for i in items if isinstance(i, s.Var))
                return s.ProductBinder(names, span=argument.span)
        message = "only indices stand between a reduction's name and `=>`: `k`, `..k` or `(i, j)`"
        suggest, put = "bounds and conditions need `for`: `sum for k < n where p => …`", None
        reduction = _LAST_REDUCTION.search(self.text[max(argument.span.start - 40, 0) : argument.span.start])
        bounded = isinstance(argument, s.Tuple) and all(
            isinstance(i, s.Var) or (isinstance(i, s.Binary) and i.op == "<" and isinstance(i.left, s.Var)) for i in argument.items
        )
        if bounded and reduction is not None and argument.span.followed("=>"):
            indices = " ".join(argument.span.text[1:-1].split())
            suggest = f"write `{reduction[1]} for {indices if len(indices) <= 40 else 'i < n, j < m'} => …`"
            put = Edit(argument.span, f"for {indices}")
        self.report("AX0115", message, argument.span, suggest=suggest, put=put)
        return None
