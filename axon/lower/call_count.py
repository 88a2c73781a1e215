"""How many calls of functions lowering makes at least, known before it makes them: each call is compiled by itself.

Functions that call others twice, and those again, make 2^n calls in n lines. To count them takes as long as the program is: what a
function's body calls is counted once, and a call of it is one more. A function that is passed counts nothing, a branch of an `if`
whatever the other one does at least; so there are as many calls as this says, or more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axon.base.data import dataclass, field, fields
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.base.source import Span
from axon.types import typed as T

_NO_PARTS = frozenset(("type", "span", "context", "instance", "scheme"))  # fields in which no expression stands


MAX_CALLS = 20_000  # in one program, each compiled by itself


def too_many_calls(span: Span) -> AxonError:
    message = f"the program makes more than {MAX_CALLS:,} calls of functions"
    notes = ("each call is compiled by itself: functions that call others twice, and so on, make very many of them",)
    help_ = Suggestion("write a `loop` where a function is applied again and again")
    return AxonError((Diagnostic("AX0002", message, (Label(span, "one of them"),), notes, (help_,)),))


def least_calls(decl: T.Decl, definitions: Mapping[Symbol, tuple[T.Decl, Any]]) -> int:
    """Of functions, in one application of a declaration to all its arguments, itself included; 0 of what is no function."""
    function = _function(decl)
    return 1 + _Counter(definitions).count(function[1]) if function is not None else 0


@dataclass(slots=True, eq=False)
class _Counter:
    definitions: Mapping[Symbol, tuple[T.Decl, Any]]
    local: dict[Symbol, T.Decl] = field(default_factory=dict)  # functions that a `let` declares
    counts: dict[Symbol, int] = field(default_factory=dict)  # what one call of each function makes, itself included

    def count(self, body: T.Expr) -> int:
        """The calls that an expression makes."""
        total = 0
        stack: list[object] = [body]
        while stack:
            node = stack.pop()
            match node:
                case tuple():
                    stack += node
                case T.Fn():
                    pass
                case T.Fun(symbol=symbol) | T.Val(pattern=T.PatternName(symbol=symbol), value=T.Fn()):
                    self.local[symbol] = node
                case T.Let(decls=decls, body=inner):
                    stack += (inner, *reversed(decls))  # functions are declared before they are called
                case T.If(condition=condition, then=then, otherwise=otherwise):
                    total += min(self.count(then), self.count(otherwise))
                    stack.append(condition)
                case T.Call(function=T.Variable(symbol=symbol), arguments=arguments):
                    total += self._of_call(symbol, len(arguments))
                    stack += arguments
                case T.Node() | T.Val() | T.At() | T.Slice():
                    stack += (getattr(node, f.name) for f in fields(node) if f.name not in _NO_PARTS)
                case _:
                    pass
        return total

    def _of_call(self, symbol: Symbol, given: int) -> int:
        decl = self.local.get(symbol)
        if decl is None and symbol in self.definitions:
            decl, _ = self.definitions[symbol]
        function = _function(decl) if decl is not None else None
        if function is None or given < len(function[0]):
            return 0
        if symbol not in self.counts:
            self.counts[symbol] = 1 + self.count(function[1])
        return self.counts[symbol]


def _function(decl: T.Decl) -> tuple[tuple[T.Pattern, ...], T.Expr] | None:
    """The parameters and the body of what is a function by its form and takes arguments."""
    if isinstance(decl, T.Fun):
        return (decl.params, decl.body) if decl.params else None
    return (decl.value.params, decl.value.body) if isinstance(decl.value, T.Fn) else None
