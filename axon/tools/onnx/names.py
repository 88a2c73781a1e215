"""Names of the graph as names of Axon: of sizes, which may be expressions, of modules, and of values."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.shapes.dimension import Dim

KEYWORDS = frozenset(
    (
        *("val", "fun", "type", "sig", "import", "let", "in", "end", "fn", "if", "then", "else", "for", "loop", "unfold", "while"),
        *("where", "op", "as", "cast", "not", "andalso", "orelse", "true", "false", "inf", "nan", "pi"),
        *("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "reduce", "scan"),
        *(element.value for element in Element),  # which a type of that name would hide
    )
)
_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(//|[-+*()/%]))")


def identifier(text: str) -> str:
    """A name that Axon takes, as near to a text as can be."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "x"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if name in KEYWORDS else name


def snake(name: str) -> str:
    """`BertSelfAttention` is `bert_self_attention`, `ResNet` `res_net`, `MLPBlock` `mlp_block`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return identifier(spaced.lower())


def free(wanted: str, taken: Container[str]) -> str:
    """A name that is not taken, with a number where it must have one."""
    if wanted not in taken:
        return wanted
    number = 2
    while f"{wanted}{number}" in taken:
        number += 1
    return f"{wanted}{number}"


class Sizes:
    """The sizes of a graph by name. Of what its arguments say, `arguments`, a call finds the sizes: what has an operator in it is
    an expression if its names can be found, as `n + 1` beside an `n`, and else the name of one size, as `sequence-length`."""

    def __init__(self, arguments: Iterable[str] = ()) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.told: set[str] = set()
        said = [words for text in dict.fromkeys(arguments) if (words := _words(text)) is not None]
        while True:
            more = {name for names, divides in said if not divides and len(names - self.told) == 1 for name in names} - self.told
            if not more:
                break
            self.told |= more

    def dim(self, said: str | int | None, otherwise: str) -> Dim:
        """A dimension as a graph gives it: a number, a name, or what an exporter writes of names, `2*h`, `sequence + 1`."""
        if isinstance(said, int):
            return Dim.of(said)
        words = None if said is None else _words(said)
        if said is not None and words is not None and words[0] <= self.told:
            parsed = _Reader(said, self).whole()
            if parsed is not None:
                return parsed
        return Dim.of(self.symbol(said or otherwise))

    def symbol(self, text: str) -> Symbol:
        name = identifier(text)
        if name not in self.symbols:
            self.symbols[name] = fresh(name)
        return self.symbols[name]


def _words(text: str) -> tuple[set[str], bool] | None:
    """The names in an expression, and whether it divides, which tells nobody what was divided; None of what is none."""
    sizes = Sizes()
    reader = _Reader(text, sizes)
    divides = any(token in ("/", "//", "%") for token in reader.tokens)
    return None if reader.whole() is None else ({*sizes.symbols}, divides)


class _Reader:
    """Of sums, products and quotients of names and numbers; None for anything else, which is then a name as a whole."""

    def __init__(self, text: str, sizes: Sizes) -> None:
        self.tokens: list[str] = []
        self.sizes = sizes
        position = 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None:
                self.tokens = []
                return
            self.tokens.append(match[0].strip())
            position = match.end()

    def whole(self) -> Dim | None:
        try:
            dim = self._sum()
        except (IndexError, ValueError):
            return None
        return None if self.tokens else dim

    def _sum(self) -> Dim:
        dim = self._product()
        while self.tokens and self.tokens[0] in "+-":
            dim = dim + self._product() if self.tokens.pop(0) == "+" else dim - self._product()
        return dim

    def _product(self) -> Dim:
        dim = self._atom()
        while self.tokens and self.tokens[0] in ("*", "//", "/", "%"):
            op, right = self.tokens.pop(0), self._atom()
            dim = dim * right if op == "*" else dim % right if op == "%" else dim // right
        return dim

    def _atom(self) -> Dim:
        token = self.tokens.pop(0)
        if token == "(":
            dim = self._sum()
            if self.tokens.pop(0) != ")":
                raise ValueError
            return dim
        if token.isdigit():
            return Dim.of(int(token))
        if not (token[0].isalpha() or token[0] == "_"):
            raise ValueError
        return Dim.of(self.sizes.symbol(token))
