"""Names of the graph as names of Axon: of sizes, which may be expressions, of modules, and of values."""

from __future__ import annotations

import re
from collections.abc import Container

from axon.base.names import Symbol, fresh
from axon.shapes.dimension import Dim

KEYWORDS = frozenset(
    (
        *("val", "fun", "type", "sig", "import", "let", "in", "end", "fn", "if", "then", "else", "for", "loop", "unfold", "while"),
        *("where", "op", "as", "cast", "not", "andalso", "orelse", "true", "false", "inf", "nan", "pi"),
        *("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "reduce", "scan"),
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
    """The sizes of a graph by name."""

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}

    def dim(self, said: str | int | None, otherwise: str) -> Dim:
        """A dimension as a graph gives it: a number, a name, or what an exporter writes of names, `2*h`, `sequence + 1`."""
        if isinstance(said, int):
            return Dim.of(said)
        if said is not None:
            parsed = _Reader(said, self).whole()
            if parsed is not None:
                return parsed
        return Dim.of(self.symbol(said or otherwise))

    def symbol(self, text: str) -> Symbol:
        name = identifier(text)
        if name not in self.symbols:
            self.symbols[name] = fresh(name)
        return self.symbols[name]


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
