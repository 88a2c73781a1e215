"""What a function takes, gathered while its text is written."""

from __future__ import annotations

from collections.abc import Sequence

from axon.backend.cpu.function import BufferParameter, LanesParameter, Parameter
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Constant, Expression, Name
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.kernel.printer import written as printed
from axon.base.element import Element
from axon.base.names import Symbol
from axon.shapes.dimension import Dim


class Parameters:
    """The parameters of one function under readable names, and its code."""

    def __init__(self) -> None:
        self.code = Code()
        self.parameters: dict[Name, Parameter] = {}
        self.sizes: dict[Dim, Name] = {}
        self.pointers: dict[Symbol, Name] = {}

    def parameter(self, like: str, parameter: Parameter) -> Name:
        name = self.code.named(like)
        self.parameters[name] = parameter
        return name

    def pointer(self, symbol: Symbol) -> Name:
        if symbol not in self.pointers:
            self.pointers[symbol] = self.parameter(symbol.name, PointerParameter(symbol))
        return self.pointers[symbol]

    def size(self, dim: Dim) -> Expression:
        if dim.constant is not None:
            return Constant(dim.constant)
        if dim not in self.sizes:
            self.sizes[dim] = self.parameter(dim.symbol.name if dim.symbol else "size", ExtentParameter(dim))
        return self.sizes[dim]

    def buffer(self, stem: str, element: Element, size: Dim, lanes: int = 0) -> Name:
        return self.parameter(stem, BufferParameter(stem, element, size, lanes))

    def lanes_parameter(self) -> Name:
        return self.parameter("lanes", LanesParameter())

    def written(self, name: str, comments: Sequence[str]) -> tuple[tuple[Parameter, ...], str]:
        """The parameters in their order, and the function's text: the last two, `first` and `last`, are its range of work items."""
        order = (PointerParameter, BufferParameter, ExtentParameter, LanesParameter)
        given = sorted(self.parameters.items(), key=lambda pair: order.index(type(pair[1])))
        code = self.code
        ends = code.local("first"), code.local("last")
        lines = printed(code.function(name, [*(own for own, _ in given), *ends])).lines
        return tuple(parameter for _, parameter in given), "\n".join([*(f"# {line}" for line in comments), *lines, ""])
