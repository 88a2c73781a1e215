"""What the backend's printers share: one name per symbol in a text, and scalar expressions of epilogues as text."""

from __future__ import annotations

from keyword import kwlist
from typing import Protocol, assert_never

from axon.backend.kernel.printer import free
from axon.base.names import Symbol
from axon.core.ir import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "pow": "**", "eq": "=", "ne": "<>", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "and": "andalso", "or": "orelse",
}  # fmt: skip


class Texts(Protocol):
    """What symbols are called."""

    def __getitem__(self, symbol: Symbol) -> str: ...


class SymbolNames:
    """Gives each symbol the first free name that reads like its own: a letter and word characters, safe as a Python name."""

    def __init__(self) -> None:
        self._names: dict[Symbol, str] = {}
        self._used = {*kwlist}

    def __getitem__(self, symbol: Symbol) -> str:
        if symbol not in self._names:
            self._names[symbol] = free(symbol.name, self._used)
            self._used.add(self._names[symbol])
        return self._names[symbol]

    def same(self, symbol: Symbol, other: Symbol) -> None:
        """Call a symbol as another is called."""
        self._names[symbol] = self[other]


def dim_text(dim: Dim, names: Texts) -> str:
    return render(dim, lambda symbol: names[symbol])


def scalar_text(scalar: Scalar, names: SymbolNames) -> str:
    """An epilogue's expression, fully parenthesized where operators meet."""
    match scalar:
        case Const(value=value):
            return str(value)
        case Index(dim=dim):
            return dim_text(dim, names)
        case Local(symbol=symbol):
            return names[symbol]
        case Read(tensor=tensor, subscripts=subscripts):
            at = (dim_text(s, names) if isinstance(s, Dim) else scalar_text(s, names) for s in subscripts)
            return f"{names[tensor]}[{', '.join(at)}]"
        case Unary(op=op, operand=operand):
            return f"{op} {_atom(operand, names)}"
        case Convert(operand=operand, element=element):
            return f"cast {element.value} {_atom(operand, names)}"
        case Binary(op=op, left=left, right=right):
            if op in _SIGNS:
                return f"{_atom(left, names)} {_SIGNS[op]} {_atom(right, names)}"
            return f"{op} {_atom(left, names)} {_atom(right, names)}"
        case Select(condition=condition, then=then, otherwise=otherwise):
            return f"if {scalar_text(condition, names)} then {scalar_text(then, names)} else {scalar_text(otherwise, names)}"
        case Bind(bindings=bindings, body=body):
            values = " ".join(f"val {names[s]} = {scalar_text(v, names)}" for s, v in bindings)
            return f"let {values} in {scalar_text(body, names)} end"
        case _:
            assert_never(scalar)


def _atom(scalar: Scalar, names: SymbolNames) -> str:
    text = scalar_text(scalar, names)
    simple = isinstance(scalar, Const | Local | Read) or (isinstance(scalar, Index) and " " not in text)
    return text if simple else f"({text})"
