"""A kernel's text as LLVM's IR: functions of calls, arithmetic, ranges, `if` and `while`, each name of one type.

    lowered    a text, the function that is called, its parameters' types -> the module, and the name of its entry

The text is Python, and means what numba makes of it (`tests/backend/cpu/test_lowering.py` has numba compile it too): integers of 64
bits, of which a product, a sum and a difference by an operator do not leave their range, while calls wrap. What emitted kernels do
not say is not here either, and is an error. A name that is assigned once is its value; the others have a place on the stack, which
LLVM turns into registers.

Note [Convention]
    The entry returns whether it was stopped (never) and takes where its result goes, where an exception would go, and then its
    arguments. Pointers overlap with nothing: see Note [Apart] in `build`.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from llvmlite import ir

from axon.backend.kernel import lanes
from axon.backend.kernel.llvm import F32, F64, I1, I8, I64, Builder, Emit, Value, resized, resized_unsigned, whole
from axon.base.data import dataclass
from axon.base.element import Element


class TextInvalid(Exception):
    """A kernel's text has what kernels do not: a defect of its writer."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """To elements as they lie in memory."""

    element: Element


Type: TypeAlias = "Element | Pointer | None"  # of a value in a kernel; None of what has none


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """What texts call by a name: `typing` gives the result's type for the arguments', `emit` the IR."""

    typing: Callable[..., Type]
    emit: Emit


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What texts find around them, by name: operations, element types that numbers are made of, and functions as texts."""

    operations: Mapping[str, Operation]
    elements: Mapping[str, Element]
    texts: Mapping[str, str]


_MEMORY = {Element.F64: F64, Element.F32: F32}
_CONSTANTS = {"inf": math.inf, "nan": math.nan}
_COMPARISONS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def stored(element: Element) -> Any:
    """LLVM's type of an element in memory: narrow floats and truth values are bits there."""
    return _MEMORY.get(element) or ir.IntType(element.bits if element is not Element.BOOL else 8)


def held(type: Type) -> Any:
    """LLVM's type of a value."""
    match type:
        case None:
            return ir.VoidType()
        case Pointer(element=element):
            return stored(element).as_pointer()
        case Element.BOOL:
            return I1
        case _:
            return stored(type)


@dataclass(frozen=True, slots=True)
class Typed:
    type: Type
    value: Value


def lowered(text: str, entry: str, types: Sequence[Type], around: Surroundings, module: Any) -> str:
    """Puts a text's function into a module, with what it calls; its name there. See Note [Convention]."""
    return _Module(text, around, module).entry(entry, tuple(types))


class _Module:
    def __init__(self, text: str, around: Surroundings, module: Any) -> None:
        self.around, self.module = around, module
        self.functions = _functions(text)
        for helper in around.texts.values():
            self.functions = _functions(helper) | self.functions
        self.made: dict[str, tuple[Any, tuple[Type, ...]]] = {}

    def entry(self, name: str, types: tuple[Type, ...]) -> str:
        where, exception = I64.as_pointer(), I8.as_pointer().as_pointer()
        signature = ir.FunctionType(ir.IntType(32), [where, exception, *map(held, types)])
        function = ir.Function(self.module, signature, f"axon.{name}")
        _apart(function)
        _Function(self, self.functions[name], function, function.args[2:], types, function.args[0]).write()
        return str(function.name)

    def helper(self, name: str, types: tuple[Type, ...]) -> Any:
        """A function that others call, which gives an i64: all calls of it have arguments of the same types."""
        if name not in self.made:
            function = ir.Function(self.module, ir.FunctionType(I64, [held(type) for type in types]), f"axon.{name}")
            function.linkage = "internal"
            _apart(function)
            self.made[name] = function, types
            _Function(self, self.functions[name], function, function.args, types, None).write()
        function, known = self.made[name]
        if known != types:
            raise TextInvalid(f"calls of `{name}` differ in their types")
        return function


def _functions(text: str) -> dict[str, ast.FunctionDef]:
    return {part.name: part for part in ast.parse(text).body if isinstance(part, ast.FunctionDef)}


def _apart(function: Any) -> None:
    function.attributes.add("nounwind")
    for argument in function.args:
        if isinstance(argument.type, ir.PointerType):
            argument.add_attribute("captures(none)")
            argument.add_attribute("noalias")


def _assigned(body: Sequence[ast.stmt]) -> Counter[str]:
    """How often a text assigns each name."""
    found: Counter[str] = Counter()
    for part in body:
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] += 1
    return found


class _Function:
    """Writes one function. `result` is where the entry's result goes; other functions return theirs."""

    def __init__(
        self,
        module: _Module,
        text: ast.FunctionDef,
        function: Any,
        given: Sequence[Value],
        types: Sequence[Type],
        result: Value | None,
    ) -> None:
        self.module, self.text, self.function, self.result = module, text, function, result
        self.top = function.append_basic_block("entry")  # of the places of names alone
        self.b: Builder = ir.IRBuilder(function.append_basic_block("start"))
        self.count = _assigned(text.body)
        self.values: dict[str, Typed] = {}
        self.places: dict[str, Typed] = {}
        names = [argument.arg for argument in text.args.args]
        for name, argument, type in zip(names, given, types, strict=True):
            argument.name = name
            self.count[name] += 1
            self.assign(name, Typed(type, argument))

    def write(self) -> None:
        self.body(self.text.body)
        if not self.b.block.is_terminated:
            self.b.unreachable()
        ir.IRBuilder(self.top).branch(self.function.blocks[1])

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def assign(self, name: str, given: Typed) -> None:
        if self.count[name] == 1:
            self.values[name] = given
            return
        place = self.place(name, given.type)
        self.b.store(given.value, place.value)

    def place(self, name: str, type: Type) -> Typed:
        found = self.places.get(name)
        if found is None:
            made = ir.IRBuilder(self.top).alloca(held(type), name=name)
            found = self.places[name] = Typed(type, made)
        if found.type != type:
            raise TextInvalid(f"`{name}` is of several types, in the emitted function `{self.text.name}`")
        return found

    def name(self, name: str) -> Typed:
        if name in self.values:
            return self.values[name]
        if name in self.places:
            place = self.places[name]
            return Typed(place.type, self.b.load(place.value))
        if name in _CONSTANTS:
            return Typed(Element.F64, ir.Constant(F64, _CONSTANTS[name]))
        raise TextInvalid(f"`{name}` is not known, in the emitted function `{self.text.name}`")

    # ── statements ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def body(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if self.b.block.is_terminated:
                return
            self.statement(statement)

    def statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assign(name, self.expression(value))
            case ast.Expr(value=ast.Call() as value):
                self.expression(value)
            case ast.If(test=test, body=then, orelse=otherwise):
                self.branches(test, then, otherwise)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=bounds), body=body, orelse=[]):
                self.loop(name, bounds, body)
            case ast.While(test=test, body=body, orelse=[]):
                self.repeat(test, body)
            case ast.Return(value=ast.expr() as value):
                self.give(self.expression(value))
            case ast.Pass():
                pass
            case _:
                raise TextInvalid(f"a statement `{ast.unparse(statement)}` in an emitted function")

    def give(self, given: Typed) -> None:
        value = self.converted(given, Element.I64)
        if self.result is None:
            self.b.ret(value)
        else:
            self.b.store(value, self.result)
            self.b.ret(whole(ir.IntType(32), 0))

    def branches(self, test: ast.expr, then: Sequence[ast.stmt], otherwise: Sequence[ast.stmt]) -> None:
        yes, after = self.block("then"), self.block("after")
        no = self.block("otherwise") if otherwise else after
        self.jump(test, yes, no)
        for block, body in ((yes, then), (no, otherwise))[: 2 if otherwise else 1]:
            with self.inside(block, after):
                self.body(body)
        self.b.position_at_end(after)

    def loop(self, name: str, bounds: Sequence[ast.expr], body: Sequence[ast.stmt]) -> None:
        """Over a range whose bounds are found once; its step is positive, and no turn's number leaves i64."""
        given = [self.expression(bound) for bound in bounds]
        if any(bound.type is not Element.I64 for bound in given):
            raise TextInvalid("a range of other numbers than i64")
        values = [bound.value for bound in given]
        start, stop = (values[0], values[1]) if len(values) > 1 else (whole(I64, 0), values[0])
        step = values[2] if len(values) == 3 else whole(I64, 1)
        before, test, turn, end = self.b.block, self.block("test"), self.block("turn"), self.block("end")
        self.b.branch(test)
        self.b.position_at_end(test)
        at = self.b.phi(I64, name)
        at.add_incoming(start, before)
        self.b.cbranch(self.b.icmp_signed("<", at, stop), turn, end)
        self.b.position_at_end(turn)
        self.assign(name, Typed(Element.I64, at))
        first = self.function.blocks.index(turn)
        self.body(body)
        if not self.b.block.is_terminated:
            at.add_incoming(self.b.add(at, step, flags=("nsw",)), self.b.block)
            back = self.b.branch(test)
            if lanes.are_called(self.function.blocks[first:]):
                lanes.one_by_one(back)
        self.b.position_at_end(end)

    def repeat(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        again, turn, end = self.block("again"), self.block("turn"), self.block("end")
        self.b.branch(again)
        self.b.position_at_end(again)
        self.jump(test, turn, end)
        with self.inside(turn, again):
            self.body(body)
        self.b.position_at_end(end)

    # ── blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def block(self, name: str) -> Any:
        return self.function.append_basic_block(name)

    @contextmanager
    def inside(self, block: Any, after: Any) -> Any:
        """What is written inside stands in a block, which is left for another."""
        self.b.position_at_end(block)
        yield
        if not self.b.block.is_terminated:
            self.b.branch(after)

    def jump(self, test: ast.expr, yes: Any, no: Any) -> None:
        """Goes on where a condition leads; of `and` and `or`, the right side is evaluated only where it decides."""
        match test:
            case ast.BoolOp(op=op, values=[*values]):
                for value in values[:-1]:
                    following = self.block("other")
                    self.jump(value, *((following, no) if isinstance(op, ast.And) else (yes, following)))
                    self.b.position_at_end(following)
                self.jump(values[-1], yes, no)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.jump(operand, no, yes)
            case _:
                self.b.cbranch(self.truth(self.expression(test)), yes, no)

    def truth(self, given: Typed) -> Value:
        if given.type is Element.BOOL:
            return given.value
        if not isinstance(given.type, Element) or given.type.is_float:
            raise TextInvalid("a condition that is no truth value")
        return self.b.icmp_signed("!=", given.value, whole(given.value.type, 0))

    # ── expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def expression(self, value: ast.expr) -> Typed:
        match value:
            case ast.Name(id=name):
                return self.name(name)
            case ast.Constant(value=bool(number)):
                return Typed(Element.BOOL, whole(I1, int(number)))
            case ast.Constant(value=int(number)):
                return Typed(Element.I64 if number < 2**63 else Element.U64, whole(I64, number))
            case ast.Constant(value=float(number)):
                return Typed(Element.F64, ir.Constant(F64, number))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.negative(self.expression(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Typed(Element.BOOL, self.b.not_(self.truth(self.expression(operand))))
            case ast.BinOp(left=left, op=op, right=right):
                return self.arithmetic(op, self.expression(left), self.expression(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.comparison(op, self.expression(left), self.expression(right))
            case ast.BoolOp() | ast.IfExp():
                return self.chosen(value)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self.call(name, [self.expression(argument) for argument in arguments])
            case _:
                raise TextInvalid(f"an expression `{ast.unparse(value)}` in an emitted function")

    def call(self, name: str, given: Sequence[Typed]) -> Typed:
        types, values = tuple(one.type for one in given), [one.value for one in given]
        if name in self.module.functions:
            return Typed(Element.I64, self.b.call(self.module.helper(name, types), values))
        around = self.module.around
        if name in around.elements and len(given) == 1:
            return Typed(around.elements[name], self.converted(given[0], around.elements[name]))
        operation = around.operations.get(name)
        if operation is None:
            raise TextInvalid(f"`{name}` is called, which there is not")
        return Typed(operation.typing(*types), operation.emit(self.b, *values))

    def negative(self, given: Typed) -> Typed:
        if not isinstance(given.type, Element) or given.type is Element.BOOL:
            raise TextInvalid("a minus before what is no number")
        if isinstance(given.value, ir.Constant):
            return Typed(given.type, ir.Constant(given.value.type, -given.value.constant))
        return Typed(given.type, self.b.fneg(given.value) if given.type.is_float else self.b.neg(given.value))

    def arithmetic(self, op: ast.operator, left: Typed, right: Typed) -> Typed:
        """Of two floats of one type, or of two i64."""
        type = left.type
        if type != right.type or not isinstance(type, Element):
            raise TextInvalid(f"an operator between {left.type} and {right.type}")
        b, x, y = self.b, left.value, right.value
        match op:
            case ast.Add() if type.is_float:
                return Typed(type, b.fadd(x, y))
            case ast.Sub() if type.is_float:
                return Typed(type, b.fsub(x, y))
            case ast.Mult() if type.is_float:
                return Typed(type, b.fmul(x, y))
            case ast.Add() if type is Element.I64:
                return Typed(type, b.add(x, y, flags=("nsw",)))
            case ast.Sub() if type is Element.I64:
                return Typed(type, b.sub(x, y, flags=("nsw",)))
            case ast.Mult() if type is Element.I64:
                return Typed(type, b.mul(x, y, flags=("nsw",)))
            case ast.BitAnd() if type is Element.I64:
                return Typed(type, b.and_(x, y))
            case ast.RShift() if type is Element.I64:
                return Typed(type, b.ashr(x, y))
            case _:
                raise TextInvalid(f"`{_word(op)}` of {type.value}")

    def comparison(self, op: ast.cmpop, left: Typed, right: Typed) -> Typed:
        if left.type is not Element.I64 or right.type is not Element.I64 or type(op) not in _COMPARISONS:
            raise TextInvalid(f"a comparison of {left.type} and {right.type}")
        return Typed(Element.BOOL, self.b.icmp_signed(_COMPARISONS[type(op)], left.value, right.value))

    def chosen(self, value: ast.BoolOp | ast.IfExp) -> Typed:
        """A truth value of `and` and `or`, or one of two values."""
        yes, no, after = self.block("yes"), self.block("no"), self.block("chosen")
        self.jump(value.test if isinstance(value, ast.IfExp) else value, yes, no)
        found: list[tuple[Typed, Any]] = []
        for block, part in ((yes, True), (no, False)):
            self.b.position_at_end(block)
            if isinstance(value, ast.IfExp):
                one = self.expression(value.body if part else value.orelse)
            else:
                one = Typed(Element.BOOL, whole(I1, int(part)))
            found.append((one, self.b.block))
            self.b.branch(after)
        self.b.position_at_end(after)
        if found[0][0].type != found[1][0].type:
            raise TextInvalid("a choice between values of two types")
        phi = self.b.phi(held(found[0][0].type))
        for one, block in found:
            phi.add_incoming(one.value, block)
        return Typed(found[0][0].type, phi)

    def converted(self, given: Typed, target: Element) -> Value:
        """A number as one of another element type."""
        source, value = given.type, given.value
        if source is target:
            return value
        if not isinstance(source, Element):
            raise TextInvalid(f"what is no number as {target.value}")
        if isinstance(value, ir.Constant) and source is not Element.BOOL:
            return _constant(value.constant, source, target)
        if target.is_integer and not source.is_float:
            unsigned = source.is_unsigned or source is Element.BOOL
            return (resized_unsigned if unsigned else resized)(target.bits)(self.b, value)
        raise TextInvalid(f"{source.value} as {target.value}, of what is no constant")


def _constant(value: float, source: Element, target: Element) -> Value:
    if target.is_float:
        return ir.Constant(held(target), float(value))
    if source.is_float:
        raise TextInvalid("a float as an integer")
    bits = int(value) & ((1 << target.bits) - 1)
    return whole(ir.IntType(target.bits), bits - (1 << target.bits) if bits >> (target.bits - 1) else bits)


def _word(op: ast.operator) -> str:
    return type(op).__name__
