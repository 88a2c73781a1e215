"""The LALR driver: runs a `Table` over tokens, with all of its state open to error recovery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from axon.base.source import Span
from axon.grammar.build import SyntaxBuilder
from axon.grammar.lexer import END, Token
from axon.grammar.table import Table

MAX_DEPTH = 400
"""How deeply syntax may nest. A chain of left-associative operators nests as deeply as it is long."""

_MAX_SYMBOLS = 20 * MAX_DEPTH
"""How many symbols may wait to be reduced. No construct holds as many as 20, so with more the syntax is too deep already."""

_FLAT = frozenset(["nothing", "first", "both", "push", "more", "absent", "second", "first_of"])  # make lists or pass something on


@lru_cache(maxsize=1)
def _reductions(table: Table) -> tuple[tuple[str, int, Callable[..., Any] | None, int], ...]:
    """Of each rule what it is replaced by, of how many symbols, what makes its value, and by how much that is deeper."""
    return tuple(
        (r.origin, r.size, getattr(SyntaxBuilder, r.make) if r.make else None, int(r.make not in _FLAT)) for r in table.rules
    )


class Machine:
    """Four stacks that move together: `states` has one more entry than `values`, `starts`, `ends` and `depths`."""

    def __init__(self, table: Table, start: str, builder: SyntaxBuilder) -> None:
        self.table = table
        self.builder = builder
        first, self.accepting = table.starts[start]
        self.states = [first]
        self.values: list[Any] = []  # tokens that were shifted, and what methods of the builder returned
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.depths: list[int] = []
        self.too_deep = False

    def run(self, tokens: Sequence[Token], at: int) -> int | None:
        """Consume tokens from number `at`. None when the text was accepted; else the number of the token that does not
        fit, or, with `too_deep` set, of the one at which the syntax nests too deeply."""
        states, values, starts, ends, depths = self.states, self.values, self.starts, self.ends, self.depths
        moves, rules, accepting, builder = self.table.states, _reductions(self.table), self.accepting, self.builder
        file = builder.file
        token = tokens[at]
        while True:
            move = moves[states[-1]].get(token.kind)
            if move is None:
                return at
            if move >= 0:
                if len(states) > _MAX_SYMBOLS:
                    self.too_deep = True
                    return at
                states.append(move)
                values.append(token)
                starts.append(token.start)
                ends.append(token.end)
                depths.append(0)
                at += 1
                token = tokens[at]
                continue
            origin, size, make, deeper = rules[~move]
            if make is None:
                states[-1] = moves[states[-2]][origin]
            elif size == 0:
                here = ends[-1] if ends else 0
                self.push(origin, make(builder, Span(file, here, here)), here, here, 0)
            else:
                start, end, depth = starts[-size], ends[-1], max(depths[-size:]) + deeper
                if depth > MAX_DEPTH:
                    self.too_deep = True
                    return at
                value = make(builder, Span(file, start, end), *values[-size:])
                self.pop(size)
                self.push(origin, value, start, end, depth)
            if token.kind == END and states[-1] == accepting:
                return None

    def push(self, symbol: str, value: Any, start: int, end: int, depth: int = 0) -> None:
        """Go on as if `symbol` had just been read; it must be possible here."""
        self.states.append(self.table.states[self.states[-1]][symbol])
        self.values.append(value)
        self.starts.append(start)
        self.ends.append(end)
        self.depths.append(depth)

    def pop(self, count: int) -> None:
        """Forget the last `count` symbols."""
        if count:
            del self.states[-count:], self.values[-count:], self.starts[-count:], self.ends[-count:], self.depths[-count:]

    def accepts(self, kind: str) -> bool:
        """Whether a token of this kind could be shifted now. Nothing is changed or made."""
        states = self.states.copy()
        while True:
            move = self.table.states[states[-1]].get(kind)
            if move is None or move >= 0:
                return move is not None
            rule = self.table.rules[~move]
            if rule.size:
                del states[-rule.size :]
            states.append(self.table.states[states[-1]][rule.origin])
            if kind == END and states[-1] == self.accepting:
                return True
