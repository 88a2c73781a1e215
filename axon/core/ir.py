"""Core: the typed first-order tensor IR between the language and every backend.

A program is a straight-line block of operations on tensors whose element types and ranks are known and whose sizes are symbolic
(`shapes.dimension.Dim`). Polymorphism, functions, records and broadcasting are gone. The main operation, `Compute`, fills a domain
of indices with a scalar expression over reads, with at most one reduction; every operation stands on only the indices it uses, so
the maximum inside a softmax is one `Compute` per row. `printer` prints the form, `verify` checks its rules, and
`interpret` is its meaning. The grammar is one page of docs/core.md.

Rules (held by the verifier):
* every Symbol is defined once, before its use; a Loop's body may use what stands before the loop;
* a tensor is read with one subscript per dimension; subscripts and index expressions are i32 or i64 (sizes are below 2**31);
* `Local` stands only inside the monoid, or under the `Bind`, that introduces it;
* the operands of a Binary have one element type; comparisons and logic give bool; there are no implicit conversions.

Evaluation: a `Select` evaluates only the branch it takes; `and` and `or` are short-circuit; a reduction's `where` is evaluated
first. A read that is not evaluated is not checked, so guarded code may name indices outside the tensor. A read that is evaluated
is inside the tensor (proved by the checker, or by the contract), or is `padded`, or is `checked`, which raises at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import copysign
from typing import TypeAlias

from axon.base.data import dataclass, field
from axon.base.element import Element
from axon.base.functions import MonoidKind
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.contracts.contract import Contract
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

# ── scalar expressions ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    value: float | int | bool  # for integers and bool exact; floats may be inf or nan
    element: Element

    def __eq__(self, other: object) -> bool:
        """Two zeros of different signs are different constants, which Python's numbers are not."""
        if not isinstance(other, Const) or self.element is not other.element:
            return False
        same = self.value == other.value or self.value is other.value
        return same and (self.value != 0 or copysign(1.0, self.value) == copysign(1.0, other.value))

    def __hash__(self) -> int:
        return hash((self.value, self.element))


@dataclass(frozen=True, slots=True)
class Index:
    """The value of a Dim over the program's dimensions and the axes in scope (an axis's Symbol is a variable of the Dim)."""

    dim: Dim
    element: Element = Element.I32


@dataclass(frozen=True, slots=True)
class Local:
    """What a `Bind` or a monoid's parameter introduced."""

    symbol: Symbol
    element: Element


@dataclass(frozen=True, slots=True)
class Read:
    """One element of a tensor.

    A subscript is a Dim where the index is symbolic (affine, floor, remainder … over axes and dimensions), else a Scalar of an
    integer element type, computed from data. With `padding`, an index outside the tensor gives the padding instead. With
    `checked`, indices are compared with the tensor's sizes at run time; the span is what the error points to.
    """

    tensor: Symbol
    subscripts: tuple[Dim | Scalar, ...]
    element: Element
    padding: Scalar | None = None
    checked: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    op: str  # neg not, and the functions of one argument in `axon.base.functions`
    operand: Scalar


@dataclass(frozen=True, slots=True)
class Binary:
    """`div` and `mod` on integers are floor division and its remainder; `max` and `min` give NaN if either side is NaN.

    A shift by a negative amount, or by at least as many bits as there are, leaves what a long shift leaves: 0, or -1 of a negative
    number that is shifted to the right.
    """

    op: str  # add sub mul div mod eq ne lt le gt ge and or, and the functions of two arguments in `axon.base.functions`
    left: Scalar
    right: Scalar


@dataclass(frozen=True, slots=True)
class Select:
    condition: Scalar
    then: Scalar
    otherwise: Scalar


@dataclass(frozen=True, slots=True)
class Convert:
    """`cast`: to nearest even into floats, truncation towards zero from floats into integers, `<> 0` into bool."""

    operand: Scalar
    element: Element


@dataclass(frozen=True, slots=True)
class Bind:
    """`let` for scalars: each value is evaluated once, and may use those before it."""

    bindings: tuple[tuple[Symbol, Scalar], ...]
    body: Scalar


Scalar: TypeAlias = "Const | Index | Local | Read | Unary | Binary | Select | Convert | Bind"

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
LOGIC = frozenset({"and", "or"})


def element_of(scalar: Scalar) -> Element:
    """The element type of a scalar expression."""
    while True:
        match scalar:
            case Const() | Index() | Local() | Read() | Convert():
                return scalar.element
            case Unary(operand=operand):
                scalar = operand
            case Binary(op=op, left=left):
                if op in COMPARISONS or op in LOGIC:
                    return Element.BOOL
                scalar = left
            case Select(then=then):
                scalar = then
            case Bind(body=body):
                scalar = body


# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that an operation or a parameter defines. A scalar has shape ()."""

    symbol: Symbol
    element: Element
    shape: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """An index that runs from 0 to extent - 1 (nothing if the extent is 0 or less)."""

    symbol: Symbol
    extent: Dim


@dataclass(frozen=True, slots=True)
class Monoid:
    """How a reduction or a scan combines the bodies' values, which are as many as `units`.

    A named one (sum prod max min any all) has one value; its units are its identity. `argmax` and `argmin` take a value and then
    one or more i32 indices, and keep those of the first best value in the order of the reduction's axes; `results` of the
    operation are the indices alone. A `custom` one is associative: `left` and `right` are the parameters, `combine` the results.
    Sums and products of 16- and 8-bit floats accumulate in f32 and are rounded once.
    """

    kind: MonoidKind
    units: tuple[Scalar, ...] = ()  # of custom only: closed scalar expressions (they may read, with subscripts over outer axes)
    left: tuple[Symbol, ...] = ()
    right: tuple[Symbol, ...] = ()
    combine: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduction:
    """Over which axes a Compute reduces. An extent may mention the domain's axes and those before it.

    `asked`, a condition over the domain, says which results anyone looks at: an extreme of nothing that has no value (integer max
    and min, argmax, argmin) is an error only there.
    """

    axes: tuple[Axis, ...]
    monoid: Monoid
    where: Scalar | None = None
    asked: Scalar | None = None


def identity(kind: str, element: Element) -> float | int | bool:
    """What a named reduction of nothing gives. For `max` and `min` of integers, which have none, the least or greatest integer.

    f8e4m3 has no infinity: its greatest finite value stands for it.
    """
    match kind:
        case "sum":
            return 0
        case "prod":
            return 1
        case "any" | "all":
            return kind == "all"
    assert kind in ("max", "argmax", "min", "argmin"), kind
    least = kind in ("max", "argmax")
    if element.is_integer:
        return element.limits[0] if least else element.limits[1]
    greatest = 448.0 if element is Element.F8E4M3 else float("inf")
    return -greatest if least else greatest


class _Known:
    """What `walk` has found of an operation, which every pass asks again: kept beside it, and no part of what it is."""

    __slots__ = ("curved_", "needs_", "tensors_")

    curved_: bool
    needs_: frozenset[Symbol]
    tensors_: frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class Compute(_Known):
    """out[axes] = body, or, with a reduction, the reduction of body over its axes. Out shapes are the axes' extents."""

    outs: tuple[Value, ...]
    axes: tuple[Axis, ...]
    reduction: Reduction | None
    body: tuple[Scalar, ...]  # one for each out; of argmax and argmin: the value, then one index for each out
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Scan(_Known):
    """out[axes] = the inclusive running combination of body along the last axis."""

    outs: tuple[Value, ...]
    axes: tuple[Axis, ...]
    monoid: Monoid
    body: tuple[Scalar, ...]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Loop(_Known):
    """Repeat a block that maps state to state. `counter` (an i32 scalar value; also a Dim variable inside) runs from 0 to trip - 1.

    With `stacked` (unfold) the results are every state after its step, stacked along a new first dimension of extent `trip`,
    which then is an Index; otherwise they are the last states (the initial ones if trip is 0 or less).

    With `conditional` (`while`) the last state is a bool of rank 0: before each step it says whether there is one. So what stands
    before the loop asks the condition of the initial states, and the end of its body asks it of the states after each step.
    """

    outs: tuple[Value, ...]
    initial: tuple[Symbol, ...]
    states: tuple[Value, ...]
    counter: Symbol
    trip: Scalar
    body: Block
    stacked: bool
    conditional: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Sort(_Known):
    """Stable ascending sort along the last dimension (NaN last): the sorted values and, i32, where each one was."""

    values: Value
    indices: Value
    input: Symbol
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Compress(_Known):
    """The indices (i32[size], ascending) at which a bool vector is true; defines the dimension `size`."""

    out: Value
    size: Symbol
    mask: Symbol
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Check(_Known):
    """Stops the program with a contract error unless a relation between dimensions holds (a coercion `as`).

    `given` says where it is asked for: in a branch that is not taken it may be false. Each is asked only if those before it hold.
    """

    left: Dim
    relation: str  # = <> < <= > >=
    right: Dim
    message: str
    span: Span | None = field(default=None, compare=False)
    given: tuple[Relation, ...] = ()

    def holds(self, sizes: Mapping[Symbol, int]) -> bool:
        """Whether the program goes on."""
        if not all(relation.holds(sizes) for relation in self.given):
            return True
        return Relation(self.left, self.relation, self.right).holds(sizes)


Op: TypeAlias = "Compute | Scan | Loop | Sort | Compress | Check"


@dataclass(frozen=True, slots=True)
class Block:
    ops: tuple[Op, ...]
    results: tuple[Symbol, ...]


# ── programs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Leaf:
    """One tensor among a program's parameters or results."""

    position: int


@dataclass(frozen=True, slots=True)
class TupleOf:
    items: tuple[Structure, ...]


@dataclass(frozen=True, slots=True)
class RecordOf:
    fields: tuple[tuple[str, Structure], ...]


Structure: TypeAlias = "Leaf | TupleOf | RecordOf"


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the source function: its name and how it is made of the program's flat inputs."""

    name: str
    structure: Structure


@dataclass(frozen=True, slots=True)
class Known:
    """What an operation makes is there already: `holds` is just that, or has `made[axes]` at these places, if there are any."""

    made: Symbol
    holds: Symbol
    axes: tuple[Symbol, ...] = ()
    places: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """One function at one choice of ranks and element types.

    `explicit` are the dimension parameters given by position; `contract` binds every dimension from those and the inputs' shapes,
    and states what must hold. `result` structures `block.results`. The inputs that are `ascending` are sorted, vectors of integers.
    What is `known` operations of the block make, and inputs hold it already.
    """

    name: str
    explicit: tuple[Symbol, ...]
    params: tuple[Param, ...]
    inputs: tuple[Value, ...]
    contract: Contract
    block: Block
    result: Structure
    ascending: tuple[Symbol, ...] = ()
    known: tuple[Known, ...] = ()
