"""Statements about sizes as text: what is claimed, under which facts, what must become of it, and what brute force says.

A file of statements is read line by line (`jax_dimensions.txt` says how). Every line becomes one or more `Claim`s, and every
claim is asked in four ways: of plain integers on a grid, which is the judge; of `prove`; and of the whole checker, as two programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from axon.base.names import fresh
from axon.shapes.dimension import Dim, maximum, minimum
from axon.shapes.relation import Relation

_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d+|<=|>=|<>|[-+*/%()=<>])")
_DEPTHS = {"+": 0, "-": 0, "*": 1, "/": 1, "%": 1}
# Beyond the beginning of each axis: sizes for which something without bound has become large.
_FAR = (100, 128, 1_000, 1_003, 1_005, 1_024, 4_096, 4_097, 6_500, 10_007)
_NEAR = {0: 1, 1: 300, 2: 40, 3: 14, 4: 14, 5: 5}  # sizes from 0, by the number of names


@dataclass(frozen=True)
class Term:
    """An integer expression over sizes: op of its parts, a name, or a number."""

    op: str  # + - * / % min max, or name, or number
    parts: tuple[Term, ...] = ()
    name: str = ""
    number: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of their first occurrence."""
        if self.op == "name":
            return (self.name,)
        return tuple(dict.fromkeys(chain.from_iterable(part.names for part in self.parts)))

    def __str__(self) -> str:
        match self.op:
            case "name":
                return self.name
            case "number":
                return str(self.number) if self.number >= 0 else f"(0 - {-self.number})"
            case "min" | "max":
                return f"({self.op} {self.parts[0]} {self.parts[1]})"
            case op:
                return f"({self.parts[0]} {op} {self.parts[1]})"

    def dim(self, sizes: Mapping[str, Dim]) -> Dim:
        match self.op:
            case "name":
                return sizes[self.name]
            case "number":
                return Dim.of(self.number)
            case op:
                return _AS_DIM[op](*(part.dim(sizes) for part in self.parts))

    def values(self, sizes: Mapping[str, Any]) -> tuple[Any, Any]:
        """Its values for arrays of sizes, and where they are defined: every divisor is at least 1."""
        match self.op:
            case "name":
                return sizes[self.name], np.True_
            case "number":
                return np.int64(self.number), np.True_
            case op:
                (a, a_defined), (b, b_defined) = (part.values(sizes) for part in self.parts)
                defined = a_defined & b_defined
                if op in "/%":
                    defined, b = defined & (b >= 1), np.maximum(b, 1)
                return _AS_NUMBERS[op](a, b), defined


_AS_DIM: dict[str, Callable[[Dim, Dim], Dim]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a // b, "%": lambda a, b: a % b,
    "min": minimum, "max": maximum,
}  # fmt: skip
_AS_NUMBERS: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.floor_divide, "%": np.mod, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_COMPARED: dict[str, Any] = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def number(value: int) -> Term:
    return Term("number", number=value)


def minus(left: Term, right: Term) -> Term:
    return Term("-", (left, right))


@dataclass(frozen=True)
class Statement:
    """`left op right`."""

    left: Term
    op: str
    right: Term

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.left.names + self.right.names))

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"

    def relation(self, sizes: Mapping[str, Dim]) -> Relation:
        return Relation(self.left.dim(sizes), self.op, self.right.dim(sizes))

    def outcomes(self, sizes: Mapping[str, Any]) -> tuple[Any, Any]:
        (left, one), (right, other) = self.left.values(sizes), self.right.values(sizes)
        return _COMPARED[self.op](left, right), one & other


@dataclass(frozen=True)
class Claim:
    """What is claimed under facts, and what is known of it."""

    source: str  # the test that states it
    facts: tuple[Statement, ...]
    goal: Statement
    verdict: str  # always, never, sometimes: by brute force; short: not always
    text: str  # the line that it comes from
    unseen: str = ""  # "?": it is not proved; "~": a program that needs it asks for more
    end: int = 0  # of a range, which of its ends this is

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain(*(f.names for f in self.facts), self.goal.names)))

    def __str__(self) -> str:
        return f"{self.source}: {', '.join(map(str, self.facts))} |- {self.goal} ({self.verdict})"

    @property
    def sizes(self) -> dict[str, Dim]:
        return {name: Dim.of(fresh(name)) for name in self.names}

    def outcomes(self) -> set[bool]:
        """What the goal is, over all sizes of the grid that satisfy the facts and for which both are defined."""
        holds, defined = self.goal.outcomes(_grid(self.names))
        holds, admitted = np.broadcast_arrays(holds, where_true(self.names, self.facts) & defined)
        return set(np.unique(holds[admitted]).tolist())


def where_true(names: tuple[str, ...], statements: Sequence[Statement]) -> Any:
    """Where on the grid of these names all statements are defined and hold."""
    sizes = _grid(names)
    found = np.ones(np.broadcast_shapes(*(axis.shape for axis in sizes.values())), bool)
    for statement in statements:
        holds, defined = statement.outcomes(sizes)
        found &= np.broadcast_to(holds & defined, found.shape)
    return found


@cache
def _grid(names: tuple[str, ...]) -> dict[str, Any]:
    """An array of sizes for each name, each along an axis of its own."""
    near = range(_NEAR[len(names)])
    axis = np.array([*near, *_FAR], dtype=np.int64)
    return {name: axis.reshape([-1 if i == at else 1 for i in range(len(names))]) for at, name in enumerate(names)}


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse(text: str) -> Statement:
    """One statement, in the language's own syntax for facts."""
    tokens = [*_TOKEN.findall(text), ""]
    assert "".join(tokens) == text.replace(" ", ""), text
    at = 0

    def take() -> str:
        nonlocal at
        at += 1
        return tokens[at - 1]

    def operation(depth: int) -> Term:
        if depth == 2:
            return prefix()
        left = operation(depth + 1)
        while _DEPTHS.get(tokens[at]) == depth:
            left = Term(take(), (left, operation(depth + 1)))
        return left

    def prefix() -> Term:
        if tokens[at] == "-":
            take()
            inside = prefix()
            return number(-inside.number) if inside.op == "number" else minus(number(0), inside)
        if tokens[at] in ("min", "max"):
            return Term(take(), (leaf(), leaf()))
        return leaf()

    def leaf() -> Term:
        token = take()
        if token == "(":
            inside = operation(0)
            assert take() == ")", text
            return inside
        return number(int(token)) if token.isdigit() else Term("name", name=token)

    left = operation(0)
    if not tokens[at]:  # a size alone, as the end of a range is
        return Statement(left, "=", left)
    op = take()
    assert op in _COMPARED, text
    statement = Statement(left, op, operation(0))
    assert not tokens[at], text
    return statement


def read(path: Path) -> Iterator[Claim]:
    """The claims of a file of statements."""
    source, least = "", 0
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.partition("  #")[0].strip()
        if words.startswith("== "):
            source = words[3:]
        elif words.startswith("sizes >= "):
            least = int(words[9:])
        elif words and not words.startswith("#"):
            for claim in claims(source, words):
                own = tuple(parse(f"{name} >= {least}") for name in claim.names if least)
                yield replace(claim, facts=own + claim.facts)


def claims(source: str, line: str) -> Iterator[Claim]:
    """What one line claims."""
    kind, _, rest = line.partition(" ")
    before, _, after = map(str.strip, rest.partition("|-"))
    facts = tuple(map(parse, before.split(", "))) if before else ()
    word = kind.rstrip("?~")
    if word in ("always", "never", "sometimes"):
        yield Claim(source, facts, parse(after), word, line, kind[len(word) :])
        return
    assert kind == "range", line
    size, _, ends = after.partition(" in ")
    low, high = ends.split(" .. ")
    term = parse(size).left
    yield from _end(Claim(source, facts, parse("0 = 0"), "", line), term, low, ">=", 1)
    yield from _end(Claim(source, facts, parse("0 = 0"), "", line, end=1), term, high, "<=", -1)


def _end(claim: Claim, term: Term, end: str, op: str, inwards: int) -> Iterator[Claim]:
    """That a range ends there: it goes no further, and it goes as far."""
    value = end.rstrip("?~")
    if "inf" in value:
        yield replace(claim, goal=Statement(term, op, number(-1_000 * inwards)), verdict="sometimes")
        return
    last = int(value)
    yield replace(claim, goal=Statement(term, op, number(last)), verdict="always", unseen=end[len(value) :])
    yield replace(claim, goal=Statement(term, op, number(last + inwards)), verdict="short")


def marked(path: Path, marks: Callable[[Claim], str]) -> None:
    """Writes a file of statements anew, with the marks that its claims should have."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for claim in read(path):
        if claim.verdict != "short" and (claim.verdict != "sometimes" or not claim.text.startswith("range")):
            at = next(i for i, line in enumerate(lines) if _bare(line) == _bare(claim.text))
            lines[at] = _with_mark(lines[at], claim.end, marks(claim))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _bare(line: str) -> str:
    return re.sub(r"(?<=\w)[?~]+", "", line)


def _with_mark(line: str, end: int, mark: str) -> str:
    if not line.startswith("range"):
        return re.sub(r"^(\w+)[?~]*", rf"\g<1>{mark}", line)
    before, _, ends = line.partition(" in ")
    both = ends.split(" .. ")
    both[end] = _bare(both[end]) + mark
    return f"{before} in {' .. '.join(both)}"


# ── programs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def program(claim: Claim, asked: str = "") -> str:
    """A function of tensors with the claim's sizes, under its facts, that needs what `asked` (of two ways) needs."""
    parameters = "".join(f" (x{at} : f32[{name}])" for at, name in enumerate(claim.names))
    facts = f" where {', '.join(map(str, claim.facts))}" if claim.facts else ""
    left, op, right = claim.goal.left, claim.goal.op, claim.goal.right
    match asked:
        case "annotation":
            return f"fun claim{parameters} (z : f32[{left}]){facts} = (z : f32[{right}])\n"
        case "access":
            gaps: Sequence[Term] = {
                ">=": (minus(left, right),), "<=": (minus(right, left),),
                ">": (minus(minus(left, right), number(1)),), "<": (minus(minus(right, left), number(1)),),
                "=": (minus(left, right), minus(right, left)),
            }[op]  # fmt: skip
            inside = " + ".join(f"min 0 {gap}" for gap in gaps)
            return f"fun claim{parameters} (z : f32[1]){facts} = z[{inside}]\n"
        case "annotated":  # the same as with `annotation`, and nothing asked
            return f"fun claim{parameters} (z : f32[{left}]){facts} = 0\n"
        case _:
            return f"fun claim{parameters} (z : f32[1]){facts} = 0\n"
