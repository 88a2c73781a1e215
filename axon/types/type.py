"""Types while they are inferred, and the schemes of declarations.

Every variable is a Symbol; what a flexible one stands for is in `unify.State`. Types may share structure (a pair of pairs of pairs
is a small graph but a huge tree), so nothing here compares or hashes whole types; walks remember what they have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import TYPE_CHECKING, TypeAlias

from axon.base.data import dataclass, field
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

if TYPE_CHECKING:
    from axon.types.inference import Definition


@dataclass(frozen=True, slots=True)
class ElementVar:
    """`'a`, an element type not known here."""

    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Row:
    """`..s`, a shape variable: any number of dimensions."""

    symbol: Symbol


@dataclass(frozen=True, slots=True, eq=False)
class TypeVar:
    """Any type at all."""

    symbol: Symbol


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A scalar has shape ()."""

    element: ElementType
    shape: Shape

    def of(self, element: ElementType, shape: Shape) -> Tensor:
        """The type with this element type and shape: itself, if they are its own. So what nothing changes stays shared."""
        same = element is self.element and len(shape) == len(self.shape) and all(map(is_, shape, self.shape))
        return self if same else Tensor(element, shape)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    param: Type
    result: Type


@dataclass(frozen=True, slots=True, eq=False)
class TupleType:
    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """The alias by which a record was written, and its arguments: a dimension is the tensor that has it alone, a shape variable the
    tensor of its shape, an element type its scalar. Signatures print it; nothing else depends on it."""

    alias: S.TypeDecl
    arguments: tuple[Tensor, ...]

    def map(self, image: Callable[[Type], Type]) -> Written:
        found = tuple([image(a) for a in self.arguments])
        if all(map(is_, found, self.arguments)):
            return self
        return Written(self.alias, tuple(a for a in found if isinstance(a, Tensor)))


@dataclass(frozen=True, slots=True, eq=False)
class RecordType:
    fields: tuple[tuple[str, Type], ...]
    written: Written | None = None

    def map(self, image: Callable[[Type], Type]) -> RecordType:
        """The record with the image of every type in it."""
        fields, written = tuple([(n, image(t)) for n, t in self.fields]), self.written and self.written.map(image)
        if written is self.written and all(new is old for (_, new), (_, old) in zip(fields, self.fields, strict=True)):
            return self
        return RecordType(fields, written)

    def get(self, name: str) -> Type | None:
        return next((t for n, t in self.fields if n == name), None)


@dataclass(frozen=True, slots=True, eq=False)
class Exists:
    """`?k <= n. t`: a size that only the data decide."""

    symbol: Symbol
    bounds: tuple[Relation, ...]
    body: Type


@dataclass(frozen=True, slots=True, eq=False)
class Poison:
    """The type of what is wrong already; it agrees with everything, so that one mistake gives one error."""


ElementType: TypeAlias = "Element | ElementVar"
ShapeItem: TypeAlias = "Dim | Row"
Shape: TypeAlias = "tuple[ShapeItem, ...]"
Type: TypeAlias = "TypeVar | Tensor | Function | TupleType | RecordType | Exists | Poison"

POISON = Poison()
UNIT = TupleType(())


def scalar(element: ElementType) -> Tensor:
    return Tensor(element, ())


I32 = scalar(Element.I32)
BOOL = scalar(Element.BOOL)


@dataclass(frozen=True, slots=True, eq=False)
class Derivative:
    """A type by which, or `of` which, `function` takes a derivative: floats, and tuples and records of them."""

    type: Type
    function: str
    span: Span
    of: bool = False


@dataclass(frozen=True, slots=True)
class SchemeFact:
    """A relation that every use of a declaration must satisfy, and why."""

    relation: Relation
    why: str
    span: Span | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class SchemeLiteral:
    """An integer literal whose element type each use of a declaration decides, and that not every such type holds."""

    element: Symbol
    value: int
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class OrScalar:
    """Parameters of one shape, each of which may be a scalar instead that stands for all of it.

    `told`: other parameters, or dimension parameters, tell the shape; else one of these does, or it is a shape variable, which
    stands for no dimensions if all of them are scalars.
    """

    parameters: tuple[int, ...]
    told: bool


@dataclass(frozen=True, slots=True, eq=False)
class Scheme:
    """∀ variables. facts ⇒ type. `explicit` dimensions are given by position at the call."""

    type: Type
    types: tuple[Symbol, ...] = ()
    elements: tuple[tuple[Symbol, frozenset[Element]], ...] = ()
    rows: tuple[Symbol, ...] = ()
    dims: tuple[Symbol, ...] = ()
    explicit: tuple[Symbol, ...] = ()
    facts: tuple[SchemeFact, ...] = ()
    literals: tuple[SchemeLiteral, ...] = ()
    opens: bool = False  # a function whose calls open a size that only the data decide: none stands under a comprehension
    definition: Definition | None = None  # of a function without errors, for who follows a size or a condition into it
    names: Mapping[Symbol, str] = field(default_factory=dict)  # what its signature calls its dimensions, where it has facts
    loose: frozenset[Symbol] = frozenset()  # of dims: those that no parameter has as a size, such as how far an index runs
    read: frozenset[Symbol] = frozenset()  # of dims: those whose values the body reads, while no tensor that is passed has them
    divides: frozenset[Symbol] = frozenset()  # of elements: those that `/` divides in the body, or in that of what it calls
    differentiable: frozenset[Symbol] = frozenset()  # of types: those that stand for floats, and tuples and records of them
    quotients: frozenset[Symbol] = frozenset()  # of dims: what a use makes by dividing by an explicit one
    scalars: tuple[OrScalar, ...] = ()  # of a function that is given all its arguments

    @property
    def or_scalar(self) -> frozenset[int]:
        """The positions of the parameters for which a scalar will do."""
        return frozenset(n for group in self.scalars for n in group.parameters)

    @property
    def quantified(self) -> bool:
        return bool(self.types or self.elements or self.rows or self.dims or self.explicit)


def parameters(t: Type) -> tuple[Type, ...]:
    """The types of a function's parameters, as far as they are known without its state."""
    found: list[Type] = []
    while isinstance(t, Function):
        found.append(t.param)
        t = t.result
    return tuple(found)


def function(params: tuple[Type, ...], result: Type) -> Type:
    for param in reversed(params):
        result = Function(param, result)
    return result


def which(shape: Shape, axis: int) -> str:
    """How to speak of a dimension, counted from 0: after a shape variable it is counted from the end."""
    if not any(isinstance(i, Row) for i in shape[:axis]) or any(isinstance(i, Row) for i in shape[axis + 1 :]):
        return f"dimension {axis + 1}"
    return "the last dimension" if axis == len(shape) - 1 else f"dimension {len(shape) - axis} from the end"
