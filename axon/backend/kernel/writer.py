"""Scalar expressions of core as lines of Python that numba compiles: one line for each operation, common ones once.

Processors and plain GPU kernels share it: `simt.writer` writes the same for threads that hold several neighbours.

Note [Speculation]
    `if` of core evaluates the branch that it takes. Where both branches can be evaluated anywhere (every read is at bare axes that
    run over its tensor, and nothing can fail), both are, and `select` chooses: loops over that vectorize without branches. Else it
    becomes an `if` of Python, whose reads are masked where the loop is vectorized.

Note [Failures]
    What would stop the program sets `bad` and goes on with an index or a divisor that is harmless; the kernel looks at `bad` after
    each step and returns 1. The host then runs the interpreter, which words the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import assert_never

from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary, Value, element_of
from axon.core.scalar_facts import divides, few_factors, is_inside, may_fail
from axon.core.walk import nodes
from axon.shapes.dimension import Atom, Dim, Quotient


class Code:
    """Lines of Python being written. `used` are the names that are taken; those that are made up come to it."""

    def __init__(self, used: set[str] | None = None) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self._count = 0
        self._used = set() if used is None else used

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, stem: str = "v") -> str:
        self._count += 1
        while (name := f"{stem}{self._count}") in self._used:
            self._count += 1
        self._used.add(name)
        return name

    def let(self, text: str, stem: str = "v") -> str:
        """A new variable with this value."""
        name = self.name(stem)
        self.line(f"{name} = {text}")
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        at = len(self.lines)
        yield
        if len(self.lines) == at:
            self.line("pass")
        self.depth -= 1


@dataclass(frozen=True, slots=True)
class Held:
    """Where the elements of a tensor are: in memory behind a pointer, or in a variable.

    An element's offset is that of its subscripts from `skip` on (those before it are the row's), in a tensor of the extents of
    `shape` from there on, each multiplied by `lanes` and moved by the lane, where a buffer holds lanes.
    """

    value: Value
    pointer: str = ""
    variable: str = ""
    skip: int = 0
    lane: str = ""  # the lane's place, of a buffer with a place for every lane
    lanes: str = ""


_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
_UNARY = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tanh": "tanh", "erf": "erf",
    "floor": "floor", "ceil": "ceil", "round": "nearest", "neg": "minus", "abs": "absolute", "sign": "sign",
}  # fmt: skip
_EXACT = frozenset(("neg", "abs", "sign", "max", "min"))  # never round


class Writer:
    """Writes expressions at one place of a kernel.

    `extents` are those of the axes in scope, `variable` names a dimension or an axis, `size` an extent that is known before the
    kernel runs, `held` says where tensors are.
    """

    def __init__(
        self,
        code: Code,
        extents: Mapping[Symbol, Dim],
        variable: Callable[[Symbol], str],
        size: Callable[[Dim], str],
        held: Callable[[Symbol], Held],
        locals: Mapping[Symbol, str] | None = None,
    ) -> None:
        self.code, self.extents = code, extents
        self.variable, self.size, self.held = variable, size, held
        self.locals = dict(locals or {})
        self.fails = False
        self._known: list[dict[str, str]] = [{}]  # text of an operation: the variable that has its value; one for each branch

    def let(self, text: str) -> str:
        """The variable with the value of an operation on variables; the operation is written once."""
        if text.isidentifier() and text not in ("True", "False"):
            return text
        for known in self._known:
            if text in known:
                return known[text]
        name = self.code.let(text)
        self._known[-1][text] = name
        return name

    @contextmanager
    def branch(self, head: str) -> Iterator[None]:
        """What is written inside is known inside alone."""
        with self.code.block(head):
            self._known.append({})
            yield
            self._known.pop()

    def fail_if(self, condition: str) -> None:
        self.fails = True
        self.code.line(f"bad = either(bad, {condition})")

    # ── dimensions ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def dim(self, dim: Dim) -> str:
        """An index or a size as an expression of Python, i64."""
        if dim.variables.isdisjoint(self.extents) and not divides(dim):
            return self.size(dim)
        terms: list[str] = []
        for coefficient, monomial in dim.terms:
            factors = [self._atom(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = ("-" if coefficient < 0 else "") if not terms else (" - " if coefficient < 0 else " + ")
            terms.append(sign + " * ".join(factors))
        return "".join(terms) or "0"

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.variable(atom)
        if isinstance(atom, Quotient):
            above, below = (self._let_dim(part) for part in (atom.dividend, atom.divisor))
            if not atom.divisor.constant:
                self.fail_if(f"eq_int({below}, 0)")
            return self.let(f"floor_divide({above}, {below})")
        items = [self._let_dim(item) for item in atom.items]
        least = items[0]
        for item in items[1:]:
            least = self.let(f"min_int({least}, {item})")
        return least

    def _let_dim(self, dim: Dim) -> str:
        text = self.dim(dim)
        return text if text.isidentifier() or text.isdecimal() else self.let(text)

    # ── expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def value(self, scalar: Scalar) -> str:
        """A variable or a literal with the expression's value; what it needs is written."""
        match scalar:
            case Const(value=value, element=element):
                return literal(value, element)
            case Index(dim=dim, element=element):
                index = self._let_dim(dim)
                return index if element is Element.I64 else self.let(f"as_{element.value}({index})")
            case Local(symbol=symbol):
                return self.locals[symbol]
            case Read():
                return self.read(scalar)
            case Unary(op=op, operand=operand):
                return self.unary(op, self.value(operand), element_of(operand))
            case Binary(op="and" | "or"):
                return self._logic(scalar)
            case Binary(op=op, left=left, right=right):
                return self._binary(op, left, right)
            case Select():
                return self._select(scalar.condition, scalar.then, scalar.otherwise)
            case Convert(operand=operand, element=element):
                return self.convert(self.value(operand), element_of(operand), element)
            case Bind(bindings=bindings, body=body):
                for symbol, bound in bindings:
                    self.locals[symbol] = self.value(bound)
                return self.value(body)
            case _:
                assert_never(scalar)

    def where(self, condition: str, value: str, otherwise: str) -> str:
        """A value where a condition holds; another one, a constant, where it does not or none is named."""
        return self.let(f"select({condition}, {value}, {otherwise})") if condition else value

    def rounded(self, text: str, element: Element) -> str:
        """An f32 result of arithmetic on a narrow element type, rounded to it; others as they are."""
        return self.let(f"round_{element.value}({self.let(text)})") if is_narrow(element) else self.let(text)

    def arithmetic(self, op: str, x: str, y: str) -> str:
        """A sum, a difference or a product of floats."""
        return f"{x} {_ARITHMETIC[op]} {y}"

    def unary(self, op: str, operand: str, element: Element) -> str:
        if op == "not":
            return self.let(f"negation({operand})")
        if element is Element.U8 and op in ("abs", "sign"):
            return operand if op == "abs" else self.let(f"min_unsigned({operand}, u8(1))")
        name = f"integer_{_UNARY[op]}" if element.is_integer and op in ("abs", "sign") else _UNARY[op]
        text = f"{name}({operand})"
        return self.let(text) if op in _EXACT else self.rounded(text, element)

    def _binary(self, op: str, left: Scalar, right: Scalar) -> str:
        element = element_of(left)
        factors = few_factors(Binary(op, left, right))
        if factors:
            base = power = self.value(left)
            for _ in range(factors - 2):
                power = self.let(self.arithmetic("mul", power, base))
            return self.rounded(self.arithmetic("mul", power, base), element)
        return self.binary(op, self.value(left), self.value(right), element, never=_never_fails(op, right))

    def binary(self, op: str, x: str, y: str, element: Element, *, never: bool = False) -> str:
        kind = "float" if element.is_float else "unsigned" if element in (Element.U8, Element.BOOL) else "int"
        if op in ("eq", "ne", "lt", "le", "gt", "ge"):
            return self.let(f"{op}_{kind}({x}, {y})")
        if op in ("max", "min"):
            return self.let(f"{op}_{kind}({x}, {y})")
        if op in _ARITHMETIC:
            # Integers wrap, while numba promises LLVM that those of Python's operators do not.
            return self.rounded(self.arithmetic(op, x, y) if element.is_float else f"{op}({x}, {y})", element)
        if element.is_float:
            name = {"div": "divide", "mod": "float_remainder", "pow": "power"}[op]
            return self.rounded(f"{name}({x}, {y})", element)
        if op == "pow":
            return self._integer_power(x, y, element, never)
        if not never:
            zero = self.let(f"eq_int({y}, {literal(0, element)})")
            self.fail_if(zero)
        prefix = "unsigned_" if element is Element.U8 else ""
        name = {"div": "divide" if prefix else "floor_divide", "mod": "remainder"}[op]
        return self.let(f"{prefix}{name}({x}, {y})")

    def _integer_power(self, x: str, y: str, element: Element, never: bool) -> str:
        wide = [self.convert(v, element, Element.I64) for v in (x, y)]
        if not never:
            self.fail_if(self.let(f"lt_int({wide[1]}, 0)"))
        return self.convert(self.let(f"integer_power({wide[0]}, {wide[1]})"), Element.I64, element)

    def _logic(self, scalar: Binary) -> str:
        left = self.value(scalar.left)
        if self.speculable(scalar.right):
            name = "both" if scalar.op == "and" else "either"
            return self.let(f"{name}({left}, {self.value(scalar.right)})")
        result = self.code.let(left)
        head = f"if {left}:" if scalar.op == "and" else f"if not {left}:"
        with self.branch(head):
            self.code.line(f"{result} = {self.value(scalar.right)}")
        return result

    def _select(self, condition: Scalar, then: Scalar, otherwise: Scalar) -> str:
        taken = self.value(condition)
        if self.speculable(then) and self.speculable(otherwise):
            return self.let(f"select({taken}, {self.value(then)}, {self.value(otherwise)})")
        result = self.code.name()
        with self.branch(f"if {taken}:"):
            self.code.line(f"{result} = {self.value(then)}")
        with self.branch("else:"):
            self.code.line(f"{result} = {self.value(otherwise)}")
        return result

    def speculable(self, scalar: Scalar) -> bool:
        """Whether an expression may be evaluated where it is not wanted. See Note [Speculation]."""
        if may_fail(scalar):
            return False
        return all(self._is_inside(node) for node in nodes(scalar) if isinstance(node, Read))

    def _is_inside(self, read: Read) -> bool:
        return read.padding is None and is_inside(read, self.held(read.tensor).value, self.extents)

    # ── conversions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def convert(self, x: str, source: Element, target: Element) -> str:
        if source is target:
            return x
        if target is Element.BOOL:
            return self.binary("ne", x, literal(0, source), source)
        unsigned = source in (Element.U8, Element.BOOL)
        if target.is_integer:
            how = "trunc" if source.is_float else "widen" if unsigned else "as"
            return self.let(f"{how}_{target.value}({x})")
        wide = Element.F64 if target is Element.F64 else Element.F32
        if source.is_float:
            if is_narrow(target) and source is Element.F64:
                value = self.let(f"odd_f32({x})")
            else:
                held = Element.F64 if source is Element.F64 else Element.F32
                value = x if held is wide else self.let(f"to_{wide.value}({x})")
        elif is_narrow(target) and source in (Element.I64, Element.I32):
            value = self.let(f"integer_odd_f32({x})")
        else:
            value = self.let(f"{'unsigned' if unsigned else 'signed'}_{wide.value}({x})")
        return self.rounded(value, target) if is_narrow(target) and not _holds(source, target) else value

    # ── reads ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, read: Read) -> str:
        held = self.held(read.tensor)
        if held.variable:
            return held.variable
        load = f"load_{held.value.element.value}({held.pointer}, "
        outside = self._outside(read, held.value)
        if not outside:
            return self.let(f"{load}{self.offset(held, self._subscripts(read))})")
        subscripts = self._subscripts(read)
        inside = ""
        for position, extent in outside:
            index = subscripts[position]
            within = self.let(f"both({self.let(f'ge_int({index}, 0)')}, {self.let(f'lt_int({index}, {self.dim(extent)})')})")
            inside = self.let(f"both({inside}, {within})") if inside else within
        if read.padding is not None:
            result = self.code.name()
            with self.branch(f"if {inside}:"):
                self.code.line(f"{result} = {load}{self.offset(held, subscripts)})")
            with self.branch("else:"):
                self.code.line(f"{result} = {self.value(read.padding)}")
            return result
        self.fail_if(self.let(f"negation({inside})"))
        offset = self.let(self.offset(held, subscripts))
        return self.let(f"{load}{self.let(f'select({inside}, {offset}, 0)')})")

    def _outside(self, read: Read, value: Value) -> list[tuple[int, Dim]]:
        """The subscripts to look at, with their limits: where the read is padded or checked, those that are not inside anyway."""
        if read.padding is None and read.checked is None:
            return []
        found = []
        for position, (subscript, extent) in enumerate(zip(read.subscripts, value.shape, strict=True)):
            symbol = subscript.symbol if isinstance(subscript, Dim) else None
            if symbol is None or self.extents.get(symbol) != extent:
                found.append((position, extent))
        return found

    def _subscripts(self, read: Read) -> list[str]:
        subscripts = []
        for subscript in read.subscripts:
            if isinstance(subscript, Dim):
                subscripts.append(self._let_dim(subscript))
            else:
                subscripts.append(self.convert(self.value(subscript), element_of(subscript), Element.I64))
        return subscripts

    def offset(self, held: Held, subscripts: list[str]) -> str:
        """The place of an element, counted in elements."""
        text = ""
        for subscript, extent in zip(subscripts[held.skip :], held.value.shape[held.skip :], strict=True):
            own = subscript if subscript.isidentifier() or subscript.isdecimal() else f"({subscript})"
            above = text if text.isidentifier() or text.isdecimal() else f"({text})"
            text = f"{above} * {self._let_dim(extent)} + {own}" if text else own
        text = self.let(text) if text and not (text.isidentifier() or text.isdecimal()) else text or "0"
        if held.lane:
            return held.lane if text == "0" else self.let(f"{text} * {held.lanes} + {held.lane}")
        return text

    def store(self, held: Held, subscripts: list[str], value: str) -> None:
        self.code.line(f"store_{held.value.element.value}({held.pointer}, {self.offset(held, subscripts)}, {value})")


def is_narrow(element: Element) -> bool:
    """Whether arithmetic on it happens in f32."""
    return element.accumulator is not element


def _holds(source: Element, target: Element) -> bool:
    """Whether a narrow float has every value of another element type."""
    return source is Element.BOOL or (source is Element.F8E5M2 and target is Element.F16)


def _never_fails(op: str, right: Scalar) -> bool:
    if not isinstance(right, Const):
        return False
    return right.value >= 0 if op == "pow" else right.value != 0


def literal(value: float, element: Element) -> str:
    """A constant as Python. Floats of narrow element types are rounded when the kernel is compiled."""
    if element is Element.BOOL:
        return str(bool(value))
    if element.is_integer:
        text = "(-9223372036854775807 - 1)" if value == -(2**63) else repr(int(value))
        return text if element is Element.I64 else f"{element.value}({text})"
    text = repr(float(value))
    if element in (Element.F64, Element.F32):
        return f"{element.value}({text})"
    return f"round_{element.value}(odd_f32(f64({text})))"
