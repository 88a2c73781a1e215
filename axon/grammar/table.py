"""The parse table: `axon.lark` compiled by Lark, as plain data that the driver in `parse.py` runs.

Compiling takes 0.2 s, so the table is kept as JSON in the user's cache directory under a hash of the grammar. JSON, since
reading it can run nothing; written beside its place and then moved, so that processes starting together cannot meet a half.
A cache that cannot be read or written costs time, never an answer.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from axon.base.data import dataclass

STARTS = ("program", "type_only", "expr_only")
_FORMAT = 1  # of the JSON below


@dataclass(frozen=True, slots=True)
class Rule:
    """`origin` is replaced by `size` symbols; `make` names the method of `SyntaxBuilder` that makes its value, if any does."""

    origin: str
    size: int
    make: str | None


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """A symbol is a nonterminal, a terminal of `patterns`, or a literal such as `=>`, which stands for itself.

    `states[s][symbol]` is a state to go to, or `~r` to reduce by `rules[r]`.
    """

    states: tuple[dict[str, int], ...]
    rules: tuple[Rule, ...]
    starts: dict[str, tuple[int, int]]  # the first and the accepting state of each start symbol
    patterns: tuple[tuple[str, str], ...]  # terminals by regular expression, the first that matches wins
    literals: tuple[str, ...]
    nonterminals: frozenset[str]


@lru_cache(maxsize=1)
def load() -> Table:
    """The table of the grammar that is installed."""
    grammar = Path(__file__).with_name("axon.lark").read_text(encoding="utf-8")
    key = hashlib.sha256(f"{_FORMAT}\n{grammar}".encode()).hexdigest()[:16]
    path = _cache_directory() / f"grammar-{key}.json"
    try:
        return _from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        data = compile_grammar(grammar)
        _store(path, json.dumps(data, separators=(",", ":")))
        return _from_json(data)


def compile_grammar(grammar: str, *, strict: bool = False) -> dict[str, Any]:
    """Run Lark. `strict` also refuses every shift/reduce conflict and every pair of terminals that overlap."""
    from lark import Lark
    from lark.lexer import PatternStr
    from lark.parsers.lalr_analysis import Shift

    compiled: Any = Lark(grammar, parser="lalr", lexer="basic", start=list(STARTS), strict=strict, maybe_placeholders=False)
    terminals = sorted(compiled.terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))
    literal = {t.name: t.pattern.value for t in terminals if isinstance(t.pattern, PatternStr)}
    number = {rule: i for i, rule in enumerate(compiled.rules)}
    shared = {rule.origin.name for rule in compiled.rules} & set(literal.values())
    assert not shared, f"{shared} would stand for rules and for words, which states[…] cannot tell apart"
    parse_table = compiled.parser.parser._parse_table
    states = []
    for state in range(len(parse_table.states)):
        moves = parse_table.states[state]
        states.append({
            literal.get(symbol, symbol): to if action is Shift else ~number[to] for symbol, (action, to) in moves.items()
        })  # fmt: skip
    return {
        "states": states,
        "rules": [[r.origin.name, len(r.expansion), _maker(r)] for r in compiled.rules],
        "starts": {s: [parse_table.start_states[s], parse_table.end_states[s]] for s in STARTS},
        "patterns": [
            [t.name, t.pattern.value] for t in terminals if t.name not in literal and t.name not in compiled.ignore_tokens
        ],
        "literals": sorted(literal.values(), key=lambda s: (-len(s), s)),
    }


def _maker(rule: Any) -> str | None:
    passes_on = rule.options.expand1 and rule.alias is None and len(rule.expansion) == 1
    return None if passes_on else rule.alias or rule.origin.name


def _from_json(data: dict[str, Any]) -> Table:
    return Table(
        states=tuple(data["states"]),
        rules=tuple(Rule(*r) for r in data["rules"]),
        starts={name: (first, last) for name, (first, last) in data["starts"].items()},
        patterns=tuple((name, pattern) for name, pattern in data["patterns"]),
        literals=tuple(data["literals"]),
        nonterminals=frozenset(r[0] for r in data["rules"]),
    )


def _cache_directory() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("axon")


def _store(path: Path, text: str) -> None:
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        pass  # the next start compiles again
