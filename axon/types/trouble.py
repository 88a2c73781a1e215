"""What inference finds wrong, as data: `axon.explain` words it, `axon.suggest` proposes changes.

Each is worded as soon as it is found: what is known of its types then is what the user is told, and not what follows from it later.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeAlias

from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.chance.model import Model
from axon.grammar import syntax as S
from axon.shapes.constraint import Context, Problem, Reason, Stretch
from axon.shapes.dimension import Dim
from axon.shapes.solving.settle import Outcome
from axon.types import typed as T
from axon.types.literals import Literal
from axon.types.resolve import Entity, Module, Scope
from axon.types.type import Derivative, Scheme, Shape, Tensor, Type
from axon.types.unify import Mismatch

# ── what may have been meant ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression stands where a tensor is needed, beside an operator or as the argument of a pointwise function."""

    expr: T.Expr
    operator: bool


@dataclass(frozen=True, slots=True)
class Operands:
    """The two sides of an operator."""

    left: T.Expr
    right: T.Expr
    operator: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """The argument at a position of those of a call. `patterns` are the function's parameters, where they are known."""

    function: T.Expr
    arguments: tuple[T.Expr, ...]
    at: int
    param: Type
    name: str
    patterns: tuple[T.Pattern, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """An `if`, and the indices around it."""

    span: Span
    condition: T.Expr
    then: T.Expr
    otherwise: T.Expr
    indices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakenApart:
    """A pattern for a tuple, and what it takes apart."""

    pattern: S.PatternTuple
    value: Type


@dataclass(frozen=True, slots=True)
class ScalarUnit:
    """What `reduce` or `scan` is given, where its body is a tensor."""

    reduction: S.Reduce
    body: Tensor


Meant: TypeAlias = "Operand | Operands | Argument | Choice | TakenApart | ScalarUnit"

# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Rule(Enum):
    """What a program breaks by itself at a place. `axon.explain.rules` has a row for each."""

    NAME_BOUND_TWICE = auto()
    INDEX_BOUND_TWICE = auto()
    FIELD_GIVEN_TWICE = auto()
    TYPE_PARAMETER_TWICE = auto()
    DIMENSION_PARAMETER_TWICE = auto()
    DEFINED_TWICE = auto()
    LONELY_SIG = auto()
    PARAMETERS_OF_SIG = auto()
    DIMENSIONS_FIRST = auto()
    DIMENSIONS_TOGETHER = auto()
    IMPORT_INSIDE = auto()
    MODULE_AS_VALUE = auto()
    USES_ITSELF = auto()
    DEFINED_BELOW = auto()
    INDEX_ENDED = auto()
    SIZE_OF_ANOTHER = auto()
    TYPE_IN_ITSELF = auto()
    FIELD_LISTED_TWICE = auto()
    NO_BRACKETS = auto()
    DIMENSIONS_INSIDE = auto()
    SCALAR_INSIDE = auto()
    SCALAR_UNTOLD = auto()
    FOR_A_DIMENSION = auto()
    ELEMENT_NEEDED = auto()
    DIMENSION_NEEDED = auto()
    ELEMENT_FOR_DIMENSION = auto()
    NEGATIVE_SIZE = auto()
    LARGE_SIZE = auto()
    DIVISOR = auto()
    DIVISOR_OF_FUNCTION = auto()
    MADE_OF = auto()
    TOO_COMPLEX = auto()
    OPENED_REPEATEDLY = auto()
    OPENED_LEAVES = auto()
    SIZE_BY_INDEX = auto()
    DIMENSION_BY_INDEX = auto()
    BOUND_OF_SEVERAL = auto()
    BOUND_OF_PRODUCT = auto()
    BOUND_OF_RUN = auto()
    RUN_AS_BOUND = auto()
    POSITION_OF_RUN = auto()
    SCAN_ONE_INDEX = auto()
    SCAN_WHERE = auto()
    ONE_COUNTER = auto()
    UNFOLD_WHILE = auto()
    COUNTER_IN_CONDITION = auto()
    STEP = auto()
    LEAVES_OF_NOTHING = auto()
    FOLD_OF = auto()
    MODEL_AS_VALUE = auto()
    SIG_OF_MODEL = auto()
    SITE_OUTSIDE = auto()
    SITE_UNDER_IF = auto()
    SITE_UNDER_LOOP = auto()
    SITE_UNDER_FOR = auto()
    SITE_IN_FUNCTION = auto()
    SITE_INSIDE = auto()
    SITE_TWICE = auto()
    SITE_PATTERN = auto()
    SITE_CHAIN = auto()
    CHAIN_OF_MODEL = auto()
    PLATE_OF_RUN = auto()
    SITE_OF_MODELS = auto()


NO_VALUES = "AX0809"  # the code of a support that cannot be summed over
NO_DISTRIBUTION = "AX0803"  # the code of what a site lacks to be drawn, or to be mapped to the reals


@dataclass(frozen=True, slots=True)
class RuleBroken:
    """A rule is broken at a place: the names and numbers that say how, and the other place that it is about, if there is one."""

    rule: Rule
    span: Span
    words: tuple[str | int, ...] = ()
    also: Span | None = None


# ── types ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NoDerivativeOf:
    """A derivative by, or of, what has none: integers, bool, or a function, at a path of a type."""

    derivative: Derivative
    path: str
    type: Type


@dataclass(frozen=True, slots=True)
class Mismatched:
    """Two types that cannot be one: `left` is what stands in the source, `right` what is needed there."""

    mismatch: Mismatch
    left: Type
    right: Type
    reason: Reason
    meant: Meant | None = None


@dataclass(frozen=True, slots=True)
class ScalarsAlone:
    """Scalars for all parameters of a shape that is then told by nothing."""

    shape: Shape
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class NotBool:
    """What stands for a condition. `where` says for which; `choice`: of an `if`."""

    type: Type
    span: Span
    where: str
    choice: Choice | None = None


@dataclass(frozen=True, slots=True)
class NotAFunction:
    """What is applied to an argument, after so many that it takes."""

    type: Type
    span: Span
    argument: Span
    given: int


@dataclass(frozen=True, slots=True)
class NoField:
    record: Type
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class NoPosition:
    value: Type
    position: int
    span: Span


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A field or a part is taken of something of which nothing is known; all that are, and their types."""

    member: str | int
    span: Span
    members: Mapping[str | int, Type]


@dataclass(frozen=True, slots=True)
class StoredFunction:
    """A function where data are needed: `what` would hold it."""

    what: str
    span: Span


@dataclass(frozen=True, slots=True)
class StatesLacking:
    """A step of a loop gives another number of values than there are states."""

    loop: S.Loop
    given: int


@dataclass(frozen=True, slots=True)
class UnknownStructure:
    """`each` or `fold_leaves` of a value of which nothing says where its leaves are."""

    name: str
    value: S.Expr


@dataclass(frozen=True, slots=True)
class StructuresDiffer:
    """Two values of `each` differ in structure, first at a path; their types there, and where they stand."""

    path: str
    first: Type
    other: Type
    places: tuple[Span, Span]


@dataclass(frozen=True, slots=True)
class TypeTooLarge:
    """A type of too many parts."""

    span: Span


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """A name that nothing in scope introduces; `library` are the modules of the standard library that declare it."""

    name: str
    span: Span
    scope: Scope
    library: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name of another kind ("shape variable", "type", "dimension") that nothing introduces, and those that are known.

    `heading` is the function around a dimension.
    """

    what: str
    name: str
    span: Span
    known: tuple[str, ...] = ()
    heading: S.Fun | None = None


@dataclass(frozen=True, slots=True)
class UnknownElement:
    """The element type of a `cast`; `is_value`: of nothing, where a value has the name."""

    cast: S.Cast
    is_value: bool = False


@dataclass(frozen=True, slots=True)
class RunAsValue:
    """A name that stands for a run of indices, and those of values."""

    name: str
    span: Span
    known: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnknownMember:
    module: Module
    name: S.Name


@dataclass(frozen=True, slots=True)
class NotDrawn:
    """Data of another sort of numbers than their distribution gives: both in words, and the sides of the reason."""

    sorts: tuple[str, str]
    reason: Reason


@dataclass(frozen=True, slots=True)
class NotOfModel:
    """What a model has not: no function of this name."""

    model: Model
    name: S.Name


@dataclass(frozen=True, slots=True)
class MissingImport:
    """A module that could be imported."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class AliasArguments:
    """A type with another number of arguments than it takes: `least`, or more where it takes a shape."""

    name: str
    least: int
    more: bool
    given: int
    span: Span


@dataclass(frozen=True, slots=True)
class DimsMissing:
    """A function without the dimension arguments that it takes."""

    name: str
    explicit: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class DimsWrong:
    """A function with another number of dimension arguments than it takes."""

    name: str
    explicit: tuple[str, ...]
    given: int
    span: Span


@dataclass(frozen=True, slots=True)
class NotADimension:
    """A name or an expression, which may have a value, where a size is needed; `heading` is the function around."""

    what: str
    span: Span
    entity: Entity | None = None
    heading: S.Fun | None = None
    value: T.Expr | None = None


# ── accesses and products ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class CannotIndex:
    type: Type
    span: Span


@dataclass(frozen=True, slots=True)
class PartByIndex:
    """A tuple indexed by a position; `base` is what it is, which may itself be such a part."""

    access: S.Access
    items: tuple[Type, ...]
    base: T.Expr


@dataclass(frozen=True, slots=True)
class TwoRests:
    """`..` at several places of an access."""

    access: Span
    places: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class BadSubscript:
    """An index that is no integer; `entity` is what it names, or what the base of the access names that it is."""

    type: Type
    span: Span
    entity: Entity | None


@dataclass(frozen=True, slots=True)
class SubscriptCount:
    """An access with fewer or more subscripts than its base has dimensions."""

    access: S.Access
    name: str
    shape: Shape
    count: int
    context: Context


@dataclass(frozen=True, slots=True)
class NegativePosition:
    """A slice that counts from the end of a dimension of this size."""

    span: Span
    size: Dim


@dataclass(frozen=True, slots=True)
class LengthByIndex:
    """A slice whose length depends on an index."""

    span: Span
    name: str
    start: Dim
    step: Dim


@dataclass(frozen=True, slots=True)
class MatmulRank:
    """A side of `@` that is no matrix: "left" or "right", and the shape of the other."""

    shape: Shape
    side: str
    other: Shape
    spans: tuple[Span, Span]


@dataclass(frozen=True, slots=True)
class BatchOfOneSide:
    """A matrix times a batch of matrices."""

    batch: Shape
    span: Span
    spans: tuple[Span, Span]


# ── shapes and sizes ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ManySplits:
    """Two shapes that can be one in more than one way."""

    left: Shape
    right: Shape
    reason: Reason


@dataclass(frozen=True, slots=True)
class KnownByProduct:
    """A parameter of a function without errors, some dimensions of which are known by their product alone, which is that of the
    factors: only a warning."""

    scheme: Scheme
    param: S.PatternName
    tensor: Tensor
    axes: tuple[int, ...]
    factors: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class SquareByBroadcast:
    """A parameter of a function without errors, two dimensions of which (counted from 0) are equal only since an operation on
    operands of different ranks matches last dimensions with last ones: only a warning."""

    scheme: Scheme
    param: S.PatternName
    tensor: Tensor
    axes: tuple[int, int]
    stretch: Stretch
    params: tuple[T.Pattern, ...]
    body: T.Expr


@dataclass(frozen=True, slots=True)
class UndeterminedSplit:
    """A parameter whose shape variables can stand for more than one number of dimensions each."""

    shape: Shape
    rows: frozenset[Symbol]
    place: Span


@dataclass(frozen=True, slots=True)
class Unsettled:
    """What stage two finds wrong with the sizes of a declaration; `heading` is where it could state a fact."""

    outcome: Outcome
    problem: Problem
    heading: S.Fun | None
    type: Type
    params: tuple[T.Pattern, ...]
    body: T.Expr


@dataclass(frozen=True, slots=True)
class ImpossibleCoercion:
    """A coercion to other sizes: of a dimension, counted from 1, that is never so large, or only if some size is 0."""

    span: Span
    axis: int
    have: Dim
    want: Dim
    never: bool


@dataclass(frozen=True, slots=True)
class LiteralTooLarge:
    """A literal of an element type that does not hold it."""

    literal: Literal
    element: Element


@dataclass(frozen=True, slots=True)
class UnknownSize:
    """A size that the body reads, there or by the use of a function, and that nothing determines; `named` in annotations."""

    name: str
    span: Span
    function: str
    named: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Undetermined:
    """Sizes of a function that its arguments do not tell."""

    missing: tuple[Symbol, ...]
    scheme: Scheme
    span: Span
    params: tuple[T.Pattern, ...]
    body: T.Expr


@dataclass(frozen=True, slots=True)
class Unanchored:
    """Sizes that annotations name and the body reads, but that nothing which is passed has; where the first is named."""

    missing: tuple[Symbol, ...]
    scheme: Scheme
    place: Span
    span: Span


Trouble: TypeAlias = (
    "RuleBroken | NotOfModel | NotDrawn | Mismatched | NotBool | NotAFunction | NoField | NoPosition | UnknownRecord"
    " | StoredFunction | StatesLacking"
    " | UnknownStructure | StructuresDiffer | NoDerivativeOf"
    " | TypeTooLarge | UnknownValue | UnknownName | UnknownElement | RunAsValue | UnknownMember | MissingImport"
    " | AliasArguments | DimsMissing | DimsWrong | NotADimension | CannotIndex | PartByIndex | TwoRests | BadSubscript"
    " | SubscriptCount | NegativePosition | LengthByIndex | MatmulRank | BatchOfOneSide | ManySplits | UndeterminedSplit"
    " | ImpossibleCoercion | LiteralTooLarge | UnknownSize | Unsettled | Undetermined | Unanchored | KnownByProduct | ScalarsAlone"
    " | SquareByBroadcast"
)
