"""Left factors that consumers compute, see Note [Computed factors]: which functions make their elements, and of what."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

import numpy as np

from axon.backend.gpu.roles import barriers as b
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Constant, Expression, ExpressionOperators, Function, Name, Several, call
from axon.backend.kernel.tensor_core_scalars import HELD, EpilogueWriter, address, loaded
from axon.backend.kernel.tidy import inlined
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.integer_ranges import fits, of_scalar
from axon.core.ir import Binary, Const, Convert, Index, Local, Read, Scalar, Unary, element_of
from axon.core.scalar_facts import substitute
from axon.core.walk import nodes, reads
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.gpu.emit.kernel import Emitter


WHOLE_BITS = {Element.BF16: 7, Element.F16: 10}  # behind the first of a float: of whole numbers that are exact beside it


class _Taking:
    """A function that is being written: its parameters, and what of the kernel each stands for."""

    def __init__(self, out: Emitter, known: dict[Symbol, Name], code: Code) -> None:
        self.out, self.known, self.code = out, known, code
        self.taken: dict[Expression, Name] = {}

    def given(self, value: Expression, like: str) -> Expression:
        if isinstance(value, Constant):
            return value
        if value not in self.taken:
            self.taken[value] = self.code.named(like)
        return self.taken[value]

    def variable(self, symbol: Symbol) -> Expression:
        if symbol in self.known:
            return self.known[symbol]
        if any(symbol == axis.symbol for axis in self.out.program.order.outer):
            return self.given(self.out.name(symbol), symbol.name)
        return self.given(self.out.size(Dim.of(symbol)), "size")

    def size(self, dim: Dim) -> Expression | None:
        moving = {*self.known, *(axis.symbol for axis in self.out.program.order.outer)}
        return self.given(self.out.size(dim), "size") if dim.variables.isdisjoint(moving) else None

    def writer(self, read: Callable[[Read], Expression], locals: dict[Symbol, Expression]) -> EpilogueWriter:
        return EpilogueWriter(self.code, read, self.variable, self.size, locals, narrow=True)


class _Words:
    """Writes two neighbours as a word of two 16-bit floats: what core does in these is done in both at once, and rounded as it
    says; all else in f32, each for itself. Locals `apart` are of one of the two."""

    def __init__(self, element: Element, writers: list[EpilogueWriter], apart: Set[Symbol]) -> None:
        self.element, self.writers, self.apart = element, writers, apart

    def word(self, first: Scalar, second: Scalar) -> Expression:
        match first, second:
            case Binary(op="add" | "sub" | "mul" as op, left=left, right=right), Binary(left=other, right=beside) if (
                element_of(first) is self.element
            ):
                whole = self.whole(left, other)
                if op == "sub" and whole is not None and self.is_exact(whole[1], right) and self.is_exact(whole[1], beside):
                    return self.call("sub", whole[0], self.call("add", self.word(right, beside), self.both(whole[1])))
                return self.call(op, self.word(left, other), self.word(right, beside))
            case Unary(op="neg", operand=operand), Unary(operand=other) if element_of(first) is self.element:
                return call("ptx_computed.negative", self.word(operand, other))
        found = self.whole(first, second)
        if found is not None:
            return self.call("sub", found[0], self.both(found[1]))
        value = self.value(0, first)
        return self.call("pair", value, value if first == second and not self.differs(first) else self.value(1, second))

    def whole(self, first: Scalar, second: Scalar) -> tuple[Expression, float] | None:
        """Two whole numbers that are few enough to be the last bits of a float: the word, and what it has more than they."""
        if not (isinstance(first, Convert) and isinstance(second, Convert) and element_of(first.operand).is_integer):
            return None
        ranges = [of_scalar(one.operand) for one in (first, second)]
        low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
        bits = WHOLE_BITS[self.element]
        if element_of(first.operand) not in HELD or low < 1 - (1 << bits) or high - low >= 1 << bits:
            return None
        field, further = bit_field(first.operand), bit_field(second.operand)
        if field is not None and further is not None and (alike := self.fields(field, further)) is not None:
            return alike, float(1 << bits)
        values = (writer.value(one.operand) for writer, one in zip(self.writers, (first, second), strict=True))
        return self.call("whole", *(value - low if low else value for value in values)), float((1 << bits) - low)

    def is_exact(self, more: float, scalar: Scalar) -> bool:
        """Whether floats hold a whole number with something added."""
        if not isinstance(scalar, Convert) or not element_of(scalar.operand).is_integer:
            return False
        low, high = of_scalar(scalar.operand)
        return max(abs(low + more), abs(high + more)) <= 2 << WHOLE_BITS[self.element]

    def fields(self, first: BitField, second: BitField) -> Expression | None:
        """Two fields of one number, the second further up, in two instructions: the number beside itself, cut out at once."""
        source, far = first.source, second.shift - first.shift
        bits = element_of(source).bits
        if source != second.source or first.mask != second.mask or self.differs(source) or not 0 < far < 16 or bits > 16:
            return None
        if first.shift + first.mask.bit_length() > 16 - far or first.mask >> WHOLE_BITS[self.element]:
            return None
        beside, mask = Constant(1 + (1 << 16 - far)), Constant(first.mask * 0x10001)
        return self.call("fields", self.writers[0].value(source), beside, Constant(first.shift), mask)

    def differs(self, scalar: Scalar) -> bool:
        return any(isinstance(node, Local) and node.symbol in self.apart for node in nodes(scalar))

    def value(self, which: int, scalar: Scalar) -> Expression:
        return call("float32", self.writers[which].value(scalar))

    def both(self, value: float) -> Expression:
        word = int(np.array(value, self.element.dtype).view(np.uint16)) * 0x10001
        return Constant(word - (1 << 32) if word >> 31 else word)

    def call(self, name: str, *operands: Expression) -> Expression:
        return call(f"ptx_computed.{name}_{self.element.value}", *operands)


@dataclass(frozen=True, slots=True)
class BitField:
    """Some bits of a whole number that is not negative: shifted down, and masked by so many ones."""

    source: Scalar
    shift: int
    mask: int


def bit_field(scalar: Scalar) -> BitField | None:
    """The bits that an expression is of another; of those that only become wider the same."""
    match scalar:
        case Binary(op="bit_and", left=left, right=right):
            inner, mask = (left, constant(right)) if constant(right) is not None else (right, constant(left))
            found = bit_field(inner)
            if mask is None or found is None or mask < 1 or mask & (mask + 1):
                return None
            return replace(found, mask=min(mask, found.mask))
        case Binary(op="shift_right", left=left, right=right):
            found, by = bit_field(left), constant(right)
            if found is None or by is None or not 0 <= by < element_of(left).bits:
                return None
            return BitField(found.source, found.shift + by, found.mask >> by)
        case Convert(operand=operand) if not element_of(operand).is_float and fits(of_scalar(operand), scalar.element):
            return bit_field(operand)
        case Local(element=element) if element in (Element.U8, Element.U16):
            return BitField(scalar, 0, element.limits[1])
        case _:
            return None


def constant(scalar: Scalar) -> int | None:
    """The value of a whole number that is known, in its element type."""
    match scalar:
        case Const(value=value, element=element) if element.is_integer:
            found: int | None = int(value)
        case Index(dim=dim):
            found = dim.constant
        case Convert(operand=operand) if element_of(operand).is_integer:
            found = constant(operand)
        case Binary(op="add" | "sub" | "mul" as op, left=left, right=right):
            x, y = constant(left), constant(right)
            found = None if x is None or y is None else {"add": x + y, "sub": x - y, "mul": x * y}[op]
        case _:
            found = None
    return found if found is not None and fits((found, found), element_of(scalar)) else None


class ComputedEmitter:
    """Writes how a factor is computed, through the emitter of everything else."""

    def __init__(self, emitter: Emitter) -> None:
        self.out = emitter
        self.half = fresh("half")  # of an index that is summed: which pair of neighbours

    def evaluate(self, op: b.Evaluate) -> None:
        out, code, program = self.out, self.out.code, self.out.program
        rows, steps = program.order.rows, program.steps
        lane, row = out.lane, code.local("row")
        (held,) = out.accumulators(op.tile)
        quad = lane % 4
        code.assign(row, out.consumer * 64 + lane // 32 * 16 + lane % 32 // 4)
        at = []
        for one, part in zip(op.computed.staged, op.staged, strict=True):
            field, places = part.ring.fields[part.field], out.rings[part.ring]
            size = part.tile.element.bits // 8
            begin = (quad * 2 if one.per == 1 else quad * 2 // one.per) * size
            name = out.part(part.tile.symbol, "at")
            base = places.fields[part.field] + out.stage(part.ring) * places.stage
            code.assign(name, base + row * 128 + (begin ^ (row & 7) * 16))
            at.append((name, (part.tile.element.value, one.per, field.panel)))
        last, halves = out.size(rows.extent) - 1, [code.local(f"row_{h}") for h in range(2)]
        for h, name in enumerate(halves):
            code.assign(name, call("min", out.name(rows.symbol) * rows.step + row + 8 * h, last))
        depth = code.local("depth")
        code.assign(depth, out.name(steps.symbol) * steps.step + quad * 2)
        self.words(op, held, [name for name, _ in at], [staged for _, staged in at], halves, depth)
        with code.when(out.name(steps.symbol) * steps.step + steps.step > out.size(steps.extent), "the last piece is not whole"):
            cut = out.made("cut", "ptx_computed.cut", steps.step)
            code.assign(held, call(cut, held, depth, out.size(steps.extent)))

    def words(
        self, op: b.Evaluate, held: Name, at: list[Name], staged: list[tuple[str, int, int]], rows: list[Name], depth: Name
    ) -> None:
        out, code, steps = self.out, self.out.code, self.out.program.steps
        both = [substitute(op.computed.expression, {op.over: 2 * Dim.of(self.half) + e}) for e in range(2)]
        wanted = tuple(dict.fromkeys(read for scalar in both for read in reads(scalar)))
        function, given = self.pair(op, both, wanted)
        loads: list[Expression] = []
        more: list[Expression] = []
        for read in wanted:
            load, taken = self.load(read)
            kind = "float32" if read.element.is_float else "int32"
            loads.append(Several((load, Constant(kind), Constant(len(taken)))))
            more += taken
        kinds = Several(tuple(Several((Constant(name), Constant(per), Constant(panel))) for name, per, panel in staged))
        arguments: list[float | str | ExpressionOperators] = [
            steps.step,
            kinds,
            function,
            len(given),
            Several(tuple(loads)),
            op.computed.unit(op.over),
        ]
        evaluate = out.made("evaluate", "ptx_computed.evaluate", *arguments)
        code.assign(held, call(evaluate, *at, *rows, depth >> 1, (out.size(steps.extent) - 1) >> 1, *given, *more))

    def pair(self, op: b.Evaluate, both: list[Scalar], wanted: tuple[Read, ...]) -> tuple[Name, list[Expression]]:
        """The function of two neighbours along the depth, and what it is given beside what is staged and loaded."""
        code = Code()
        row, half = code.named("row"), code.named("half")
        taking = _Taking(self.out, {self.out.program.order.rows.symbol: row, self.half: half}, code)
        elements: list[Name] = []
        own: list[dict[Symbol, Expression]] = [{}, {}]
        for one in op.computed.staged:
            names = [code.named(one.local.name) for _ in range(2 if one.per == 1 else 1)]
            elements += names
            for e in range(2):
                own[e][one.local] = names[e % len(names)]
        values = {read: code.named(read.tensor.name) for read in wanted}
        writers = [taking.writer(values.__getitem__, own[e]) for e in range(2)]
        apart = frozenset(one.local for one in op.computed.staged if one.per == 1)
        code.give(_Words(op.computed.element, writers, apart).word(*both))
        name = self.out.global_name(f"pair_{op.tile.symbol.name}")
        parameters = (row, half, *elements, *values.values(), *taking.taken.values())
        self.out.functions.append(inlined(Function(name, parameters, code.body, tuple(code.names))))
        return name, list(taking.taken)

    def load(self, read: Read) -> tuple[Name, list[Expression]]:
        """The function that loads what is read at a row and half a depth, and what it is given."""
        out, code = self.out, Code()
        row, half = code.named("row"), code.named("half")
        taking = _Taking(out, {out.program.order.rows.symbol: row, self.half: half}, code)
        writer = taking.writer(_no_read, {})
        offsets = []
        for d, subscript in enumerate(read.subscripts):
            assert isinstance(subscript, Dim), "a computed factor that reads at what is computed"
            offsets.append(call("int64", writer.dim(subscript)) * taking.given(out.stride(read.tensor, d), "stride"))
        size = max(8, read.element.bits) // 8
        code.give(loaded(read.element, address(taking.given(out.pointer(read.tensor), read.tensor.name), size, offsets)))
        name = out.global_name(f"load_{read.tensor.name}")
        parameters = (row, half, *taking.taken.values())
        out.functions.append(inlined(Function(name, parameters, code.body, tuple(code.names))))
        return name, list(taking.taken)


def _no_read(read: Read) -> Expression:
    raise AssertionError(f"{read} in a subscript")
