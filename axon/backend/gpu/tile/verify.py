"""The rules of the kernels that a straight program becomes on a GPU: those of plans, and of kernels on tensor cores.

A kernel on tensor cores reads factors and views that are there, as they are; what it computes beside its products keeps the rules
of scalar expressions, and has the element types of what is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.backend.gpu.layout.pages import NUMBERS
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.tile.computed import Computed, held_in
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.epilogue import EpilogueOperand
from axon.backend.gpu.tile.stream import Stream, Term
from axon.backend.plan.ir import Nest
from axon.backend.plan.verify import PlanScope
from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Local, Program, Read, Scalar
from axon.core.walk import nodes


def verify_kernels(made: Sequence[object], given: Program, *_: object, **__: object) -> None:
    """What a straight program becomes on a GPU: kernels in an order in which each finds what it reads."""
    scope = KernelScope(given)
    scope.outside()
    for kernel in made:
        scope.one(kernel)
    scope.gives(given.block.results, given)


class KernelScope(PlanScope):
    """The locals are what a kernel on tensor cores holds in registers: products, and what it keeps of a row."""

    loose = False  # in a stream, where every float is f32 until it is stored

    def one(self, kernel: object) -> None:
        """A kernel of any family."""
        if isinstance(kernel, Nest):
            self.kernel(kernel)
        else:
            assert isinstance(kernel, MatrixProduct | Stream)
            self.tiled(kernel)

    def scalar(self, scalar: Scalar) -> Element:
        if self.loose and isinstance(scalar, Local) and scalar.element.is_float:
            scalar = replace(scalar, element=Element.F32)  # whatever a `let` in an epilogue says of it
        element = super().scalar(scalar)
        return Element.F32 if self.loose and element.is_float else element

    def read(self, read: Read) -> None:
        if self.loose and read.padding is not None:
            self.scalar(read.padding)
            read = replace(read, padding=None)
        super().read(read)

    def tiled(self, kernel: MatrixProduct | Stream) -> None:
        self.op, self.loose = None, isinstance(kernel, Stream)
        axes = (*kernel.outer, kernel.rows, kernel.columns, *kernel.reduced)
        for axis in axes:
            self.dim(axis.extent)
        for axis in axes:
            self.introduce(axis.symbol)
            self.dims.add(axis.symbol)
        groups = kernel.ragged if isinstance(kernel, MatrixProduct) else None
        if groups is not None:
            self.introduce(groups.group)
            self.dims.add(groups.group)
            for table in groups.tables:
                self.require(self.tensor(table.symbol) == table, f"the table {table.symbol!r} is another tensor")
        for reach in kernel.reaches if isinstance(kernel, Stream) else ():
            self.require(set(reach.axes) <= self.dims, "tables for a mask are read at axes that are not in scope")
            found = self.tensor(reach.table.symbol)
            self.require(found == reach.table, f"the table {found.symbol!r} is another tensor")
        parts = kernel.segments if isinstance(kernel, MatrixProduct) else None
        if parts is not None:
            self.require(parts.group in {axis.symbol for axis in kernel.outer}, "sums of groups of which a tile has several")
            for table in parts.tables:
                self.require(self.tensor(table.symbol) == table, f"the table {table.symbol!r} is another tensor")
        paged = [symbol for pages in kernel.pages for symbol in (*pages.own, pages.number)] if isinstance(kernel, Stream) else []
        derived = [symbol for symbol, _ in kernel.derived]
        for symbol, dim in kernel.derived:
            self.dim(dim)
            self.introduce(symbol)
            self.dims.add(symbol)
        around = set(self.tensors)
        for view in kernel.views:
            self.view(view)
            self.tensors[view.value.symbol] = view.value
        for symbol in paged:
            self.introduce(symbol)
            self.dims.add(symbol)
        for pages in kernel.pages if isinstance(kernel, Stream) else ():
            for scalar in pages.scalars:
                self.require(self.scalar(scalar) in NUMBERS, "pages are no whole numbers")
        for operand in kernel.operands:
            self.operand(operand)
        for scale in kernel.scales if isinstance(kernel, MatrixProduct) else ():
            self.require(self.scalar(scale.read) is Element.F32, f"the scale {scale.read.tensor!r} is not in f32")
        if isinstance(kernel, MatrixProduct) and kernel.computed is not None:
            self.computes(kernel, kernel.computed)
        for product in kernel.products if isinstance(kernel, MatrixProduct) else (kernel.product,):
            self.holds(product, self.element_of(kernel, product))
        if isinstance(kernel, Stream):
            self.passes(kernel)
        for result in kernel.results:
            element = self.scalar(result.expression)
            if element is not (Element.F32 if self.loose and result.value.element.is_float else result.value.element):
                self.fail(f"{result.value.symbol!r} should hold {element.value}")
            self.require(set(result.axes) <= self.dims, f"{result.value.symbol!r} is stored at axes that are not in scope")
            if len(result.axes) != len(result.place.shape):
                self.fail(f"{result.value.symbol!r} is stored at {len(result.axes)} axes")
        rows = kernel.row_results if isinstance(kernel, Stream) else ()
        for row in rows:
            self.require(row.final in self.locals, f"{row.value.symbol!r} is no value of a row")
            self.require(set(row.axes) <= self.dims, f"{row.value.symbol!r} is stored at axes that are not in scope")
        self.locals.clear()
        self.loose = False
        self.dims.difference_update([*derived, *paged, *([groups.group] if groups is not None else [])])
        self.leave(axes)
        for symbol in set(self.tensors) - around:
            del self.tensors[symbol]
        for value in (*(r.value for r in kernel.results), *(row.value for row in rows)):
            for dim in value.shape:
                self.dim(dim)
            self.define_value(value)

    def computes(self, kernel: MatrixProduct, computed: Computed) -> None:
        """A factor that is computed: of the elements of its operands, each at rows and depth."""
        for staged, operand in zip(computed.staged, kernel.lefts, strict=True):
            both = {kernel.rows.symbol, kernel.depth.symbol}
            self.require(both <= set(operand.axes), f"{operand.value.symbol!r} is staged without rows, or what is summed")
            self.holds(staged.local, operand.value.element)
        element = self.scalar(computed.expression)
        self.require(held_in(computed.expression, computed.element), f"a factor of {element.value} in {computed.element.value}")

    def element_of(self, kernel: MatrixProduct | Stream, product: Symbol) -> Element:
        """What a product is taken to be where it is used first: it accumulates in f32, and is rounded where it is stored."""
        used = (node for result in kernel.results for node in nodes(result.expression))
        return next((n.element for n in used if isinstance(n, Local) and n.symbol == product), Element.F32)

    def holds(self, symbol: Symbol, element: Element) -> None:
        self.introduce(symbol)
        self.locals[symbol] = element

    def view(self, view: View) -> None:
        source = self.tensor(view.source)
        if view.value.element is not source.element:
            self.fail(f"the view {view.value.symbol!r} of {source.element.value} is of {view.value.element.value}")
        ranks = {len(view.start), *(len(part.step) for parts in view.parts for part in parts)}
        if ranks != {len(source.shape)} or not len(view.parts) == len(view.axes) == len(view.value.shape):
            self.fail(f"the view {view.value.symbol!r} has another rank")

    def operand(self, operand: EpilogueOperand) -> None:
        value = self.tensor(operand.value.symbol)
        if (value.element, value.shape) != (operand.value.element, operand.value.shape):
            self.fail(f"the factor {value.symbol!r} is another tensor")
        if sorted(operand.order) != list(range(len(value.shape))) or len(operand.axes) != len(value.shape):
            self.fail(f"the factor {value.symbol!r} is read at {len(operand.axes)} axes")
        self.require(set(operand.axes) <= self.dims, f"the factor {value.symbol!r} is read at axes that are not in scope")

    def passes(self, stream: Stream) -> None:
        self.holds(stream.score, Element.F32)
        if stream.condition is not None:
            self.expect(stream.condition, frozenset({Element.BOOL}), "the condition of a stream")
        changed = self.scalar(stream.change)
        self.holds(stream.changed, changed)
        if stream.peak is not None:
            self.holds(stream.peak, changed)
        for other in stream.others:
            self.holds(other.symbol, Element.F32)
        for term in stream.terms:
            self.term(term)
        for symbol, _ in stream.totals:
            self.holds(symbol, Element.F32)
        for symbol, final in stream.finals:
            self.holds(symbol, self.scalar(final))

    def term(self, term: Term) -> None:
        for part in (term.scale, term.bias, term.factor):
            if part is not None:
                self.scalar(part)
