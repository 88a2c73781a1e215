"""Kernels as data: functions of statements over expressions, which `printer` writes as Python that numba takes.

A name is an object: two are the same only if they are one, and the printer chooses their texts. Expressions are built by Python's
operators (`base + 8 * lane`); a comparison for equality, which Python keeps for itself, is `same`. What the text finds around it
(intrinsics, `cuda.threadIdx.x`) stands by its text.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from math import isfinite
from typing import TypeAlias, assert_never

from axon.base.data import dataclass, replace


class ExpressionOperators:
    """What Python's operators build of expressions."""

    __slots__ = ()

    def __add__(self, other: Like) -> Expression:
        return _sum("+", lift(self), lift(other))

    def __radd__(self, other: Like) -> Expression:
        return _sum("+", lift(other), lift(self))

    def __sub__(self, other: Like) -> Expression:
        return _sum("-", lift(self), lift(other))

    def __rsub__(self, other: Like) -> Expression:
        return _sum("-", lift(other), lift(self))

    def __mul__(self, other: Like) -> Expression:
        return _operator("*", self, other)

    def __rmul__(self, other: Like) -> Expression:
        return _operator("*", other, self)

    def __floordiv__(self, other: Like) -> Expression:
        return _operator("//", self, other)

    def __mod__(self, other: Like) -> Expression:
        return _operator("%", self, other)

    def __lshift__(self, other: Like) -> Expression:
        return _operator("<<", self, other)

    def __rlshift__(self, other: Like) -> Expression:
        return _operator("<<", other, self)

    def __rshift__(self, other: Like) -> Expression:
        return _operator(">>", self, other)

    def __and__(self, other: Like) -> Expression:
        return _operator("&", self, other)

    def __xor__(self, other: Like) -> Expression:
        return _operator("^", self, other)

    def __or__(self, other: Like) -> Expression:
        return _operator("|", self, other)

    def __lt__(self, other: Like) -> Expression:
        return _operator("<", self, other)

    def __gt__(self, other: Like) -> Expression:
        return _operator(">", self, other)

    def __le__(self, other: Like) -> Expression:
        return _operator("<=", self, other)

    def __ge__(self, other: Like) -> Expression:
        return _operator(">=", self, other)

    def __invert__(self) -> Expression:
        return Prefix("~", lift(self))

    def __neg__(self) -> Expression:
        return Prefix("-", lift(self))

    def __getitem__(self, place: Like) -> Item:
        return Item(lift(self), lift(place))

    def __iter__(self) -> Iterator[Expression]:
        raise TypeError("an expression has no items before the kernel runs")


class Kind(Enum):
    """How a name wants to be written: exactly so; like that, the first that is free; with a number."""

    FIXED = "fixed"
    READABLE = "readable"
    NUMBERED = "numbered"


@dataclass(frozen=True, slots=True, eq=False)
class Name(ExpressionOperators):
    """A variable or a parameter; one that is `of` another is called as that is, and what it is like."""

    like: str
    kind: Kind = Kind.READABLE
    of: Name | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Constant(ExpressionOperators):
    """A number, a truth value or a word. Constants are equal if they are written alike: 0, 0.0, -0.0 and False are four."""

    value: float | str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True, slots=True)
class External(ExpressionOperators):
    """What the text's surroundings have under a name."""

    text: str


@dataclass(frozen=True, slots=True)
class Call(ExpressionOperators):
    function: str | Name  # a text is that of the surroundings
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Operator(ExpressionOperators):
    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Prefix(ExpressionOperators):
    op: str  # - not ~
    operand: Expression


@dataclass(frozen=True, slots=True)
class Item(ExpressionOperators):
    of: Expression
    place: Expression


@dataclass(frozen=True, slots=True)
class Several(ExpressionOperators):
    """A tuple."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice(ExpressionOperators):
    """One of two, of which the other is not evaluated."""

    condition: Expression
    then: Expression
    otherwise: Expression


Expression: TypeAlias = "Name | Constant | External | Call | Operator | Prefix | Item | Several | Choice"
Like: TypeAlias = "ExpressionOperators | float"  # an expression, or a number that stands for a constant


@dataclass(frozen=True, slots=True)
class Assign:
    """`note`, here and below, is a comment at the line's end."""

    target: Name | Item | Several
    value: Expression
    note: str = ""


@dataclass(frozen=True, slots=True)
class Do:
    """An expression for its effect: a store, a wait."""

    value: Expression
    note: str = ""


@dataclass(frozen=True, slots=True)
class If:
    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class For:
    """A loop over `range(*bounds)`."""

    name: Name
    bounds: tuple[Expression, ...]
    body: tuple[Statement, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class While:
    condition: Expression
    body: tuple[Statement, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """A text with places, as those of `str.format`, for names."""

    text: str
    names: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class Return:
    value: Expression


Statement: TypeAlias = "Assign | Do | If | For | While | Comment | Return"
Body: TypeAlias = "tuple[Statement, ...]"


@dataclass(frozen=True, slots=True)
class Function:
    """`names` are those made for it, in their order: the earlier of two that want one text gets it. One that others call is called
    by a name of the module's; `decorator` is what makes it what they call, `note` a comment at the end of its first line."""

    name: str | Name
    parameters: tuple[Name, ...]
    body: Body
    names: tuple[Name, ...]
    decorator: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Import:
    """Names that a text has from a module."""

    module: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A kernel's text: imports, in groups; what is computed before it runs and the functions that it calls, in their order; and
    last, the kernel. `names` are those that all of them see, `comments` stand at its head."""

    imports: tuple[tuple[Import, ...], ...]
    body: tuple[Assign | Function, ...]
    names: tuple[Name, ...] = ()
    comments: tuple[str, ...] = ()

    @property
    def functions(self) -> tuple[Function, ...]:
        return tuple(part for part in self.body if isinstance(part, Function))

    @property
    def statements(self) -> Body:
        """What all functions do, what makes them what others call, and what is computed before the kernel."""
        decorators = (Do(External(function.decorator)) for function in self.functions if function.decorator)
        return (*decorators, *(s for part in self.body for s in (part.body if isinstance(part, Function) else (part,))))


TRUE, FALSE = Constant(True), Constant(False)


def lift(value: Like) -> Expression:
    """An expression as it is, a number as a constant."""
    if isinstance(value, ExpressionOperators):
        return value  # type: ignore[return-value]
    return Constant(value)


def call(function: str | Name, *arguments: Like) -> Call:
    return Call(function, tuple(map(lift, arguments)))


def same(left: Like, right: Like) -> Expression:
    return Operator("==", lift(left), lift(right))


def both(left: Expression, right: Expression) -> Expression:
    """Python's `and`."""
    return Operator("and", left, right)


def product(*factors: Like) -> Expression:
    """1 of none."""
    found: Expression = Constant(1)
    for factor in factors:
        found = found * factor
    return found


def is_atom(value: Expression) -> bool:
    """Whether it is a variable or a natural number: what can be written anywhere, and costs nothing twice."""
    return isinstance(value, Name) or (isinstance(value, Constant) and type(value.value) is int and value.value >= 0)


def parts(expression: Expression) -> tuple[Expression, ...]:
    """What an expression is made of."""
    match expression:
        case Name() | Constant() | External():
            return ()
        case Call(function=function, arguments=arguments):
            return (function, *arguments) if isinstance(function, Name) else arguments
        case Operator(left=left, right=right):
            return left, right
        case Prefix(operand=inner):
            return (inner,)
        case Item(of=of, place=place):
            return of, place
        case Several(items=items):
            return items
        case Choice(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case _:
            assert_never(expression)


def filled(expression: Expression, values: Mapping[Name, Expression]) -> Expression:
    """An expression with values in place of names."""

    def visit(inner: Expression) -> Expression:
        match inner:
            case Name():
                return values.get(inner, inner)
            case Call(arguments=arguments):
                return replace(inner, arguments=tuple(map(visit, arguments)))
            case Operator(left=left, right=right):
                return replace(inner, left=visit(left), right=visit(right))
            case Prefix(operand=operand):
                return replace(inner, operand=visit(operand))
            case Item(of=of, place=place):
                return Item(visit(of), visit(place))
            case Several(items=items):
                return Several(tuple(map(visit, items)))
            case Choice(condition=condition, then=then, otherwise=otherwise):
                return Choice(visit(condition), visit(then), visit(otherwise))
            case Constant() | External():
                return inner
            case _:
                assert_never(inner)

    return visit(expression)


def expressions(expression: Expression) -> Iterator[Expression]:
    """An expression and all that it is made of, in the order of the text, operators first."""
    todo = [expression]
    while todo:
        inner = todo.pop()
        yield inner
        todo.extend(reversed(parts(inner)))


def read(statement: Statement) -> tuple[Expression, ...]:
    """What a statement evaluates itself, before the statements inside it."""
    match statement:
        case Assign(target=target, value=value):
            targets = target.items if isinstance(target, Several) else (target,)
            return value, *(place for item in targets if isinstance(item, Item) for place in parts(item))
        case Do(value=value) | Return(value=value) | If(condition=value) | While(condition=value):
            return (value,)
        case For(bounds=bounds):
            return bounds
        case Comment():
            return ()
        case _:
            assert_never(statement)


def blocks(statement: Statement) -> tuple[Body, ...]:
    """The statements inside a statement."""
    match statement:
        case If(then=then, otherwise=otherwise):
            return then, otherwise
        case For(body=body) | While(body=body):
            return (body,)
        case _:
            return ()


def statements(body: Body) -> Iterator[Statement]:
    """All statements, those inside others too, in the order of the text."""
    for statement in body:
        yield statement
        for block in blocks(statement):
            yield from statements(block)


def evaluated(body: Body) -> Iterator[Expression]:
    """All expressions of a body."""
    return (e for statement in statements(body) for value in read(statement) for e in expressions(value))


def mentions(body: Body) -> Iterator[Name]:
    """The names that are read or assigned."""
    for statement in statements(body):
        match statement:
            case Assign(target=target):
                yield from (e for e in expressions(target) if isinstance(e, Name))
            case For(name=name):
                yield name
            case Comment(names=names):
                yield from names
            case _:
                pass
    yield from (e for e in evaluated(body) if isinstance(e, Name))


def called(body: Body) -> set[str]:
    """What a body calls of its surroundings."""
    return {e.function for e in evaluated(body) if isinstance(e, Call) and isinstance(e.function, str)}


def around(body: Body) -> set[str]:
    """What a body finds in its surroundings: functions, and constants that Python has no literals for."""
    return {text for text in map(_found, evaluated(body)) if text}


def _found(expression: Expression) -> str:
    """What an expression finds in its surroundings itself; nothing is empty."""
    match expression:
        case Call(function=str(name)):
            return name
        case Constant(value=int() | float() as number) if not isfinite(number):
            return repr(abs(number))
        case _:
            return ""


def surroundings(body: Body) -> set[str]:
    """The names that a body finds in its surroundings: of what has a dot, those before it."""
    texts = {e.text if isinstance(e, External) else _found(e) for e in evaluated(body)}
    return {head for head in (text.partition(".")[0] for text in texts) if head.isidentifier()}


_FOLDED: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, ">>": operator.rshift,
}  # fmt: skip
_NEUTRAL = {"+": 0, "-": 0, "*": 1, ">>": 0}  # on the right; of `+` and `*` also on the left


def _operator(op: str, left: Like, right: Like) -> Expression:
    """What the host knows is not left to the kernel: places are sums with parts that are often 0, and strides are often 1."""
    left, right = lift(left), lift(right)
    a, b = _integer(left), _integer(right)
    if op in _NEUTRAL:
        if a is not None and b is not None:
            return Constant(_FOLDED[op](a, b))
        if op == "*" and 0 in (a, b):
            return Constant(0)
        if b == _NEUTRAL[op]:
            return left
        if a == _NEUTRAL[op] and op in ("+", "*"):
            return right
    return Operator(op, left, right)


def _integer(value: Expression) -> int | None:
    return value.value if isinstance(value, Constant) and type(value.value) is int else None


def _sum(op: str, left: Expression, right: Expression) -> Expression:
    """Sums of places lean to the left, whoever built their parts, and constants that meet are one: integers wrap, so that their
    order means nothing."""
    if op == "+" and isinstance(right, Operator) and right.op in _SIGNS:
        return _sum(right.op, _sum("+", left, right.left), right.right)
    more = _integer(right)
    if more is None:
        return _operator(op, left, right)
    more *= _SIGNS[op]
    if isinstance(left, Operator) and left.op in _SIGNS and (before := _integer(left.right)) is not None:
        return _sum("+", left.left, Constant(_SIGNS[left.op] * before + more))
    return _operator("-", left, -more) if more < 0 else _operator("+", left, more)


_SIGNS = {"+": 1, "-": -1}
