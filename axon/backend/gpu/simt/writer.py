"""Scalar expressions of core for threads that hold several neighbours, as calls of `ptx_scalar`.

What varies along the lane is a tuple, what does not is a scalar, and every operation takes both. Nothing branches: where core
evaluates one side of an `if`, both sides are computed here, and a side's reads and failures count only where it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce

from axon.backend.gpu.simt.access import steady
from axon.backend.gpu.simt.neighbours import at_first, picked, steps
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import TRUE, Call, Constant, Expression, Item, Name, Several, call, is_atom
from axon.backend.kernel.writer import Form, Held, Writer, is_narrow, literal
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Binary, Const, Read, Scalar, element_of
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient, minimum, variables_of


def _quick(name: str) -> Form:
    return lambda element, *operands: call(name, *operands) if element.accumulator is Element.F32 else None


# Functions that have a quick form, right to 2^-20.
NARROW: Mapping[str, Form] = {
    "exp": _quick("narrow_exp"), "erf": _quick("narrow_erf"), "tanh": _quick("narrow_tanh"), "rsqrt": _quick("narrow_rsqrt"),
    "divide": _quick("narrow_div"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lane:
    """The axis along which a thread holds neighbours: the variable of the first one, and how many there are.

    Of several such vectors the later ones say how much `further` they are than the one that begins at `base`: the compiler does
    not find that out by itself, and an address so much further costs nothing.
    """

    axis: Symbol
    start: Name
    vector: int
    base: Name | None = None
    further: int = 0


@dataclass(frozen=True, slots=True)
class Mask:
    """A condition under which something is evaluated, and whether it differs along the lane. Where one that is `clamped` does not
    hold, indices are those of the first row, which may be read. Of the `tail` of a row, there is a first neighbour at least; of an
    `edge`, there is one, and the others are not the row's."""

    condition: Expression
    varies: bool
    clamped: bool = False
    tail: bool = False
    edge: bool = False


class LaneWriter(Writer):
    """Writes expressions at one place of a kernel; `lane` and `masks` change as that place does."""

    forms: Mapping[str, Form] = {}  # of one value or of a tuple: each operation is a call

    def __init__(
        self,
        code: Code,
        variable: Callable[[Symbol], Expression],
        size: Callable[[Dim], Expression],
        held: Callable[[Symbol], Held],
        stride: Callable[[Symbol, int], Expression],
        moves_together: Callable[[Read, Lane], bool],
        own: Callable[[Symbol], bool],
        register: Callable[[Read], Expression | None],
        begins_elsewhere: Callable[[Read, Lane], bool] = lambda read, lane: False,
    ) -> None:
        super().__init__(code, {}, variable, size, held)
        self.extents: dict[Symbol, Dim] = {}
        self.named, self.stride, self.moves_together, self.own, self.register = variable, stride, moves_together, own, register
        self.begins_elsewhere = begins_elsewhere
        self.variable = self._variable
        self.lane: Lane | None = None
        self.masks: list[Mask] = []
        self.uniform: frozenset[Scalar | Quotient] = frozenset()  # comparisons that are the same along the lane, regular quotients
        self.first = False  # the lane's variable is that of the first neighbour
        self.fetched: dict[Expression, Expression] = {}  # what was read under a condition, which is 0 where that does not hold
        self.indices: dict[Scalar, Expression] = {}  # subscripts of the read being written that are computed from data

    def _variable(self, symbol: Symbol) -> Expression:
        lane = self.lane
        if lane is None or symbol != lane.axis:
            return self.named(symbol)
        return lane.start if self.first or lane.vector == 1 else self.call(f"count_{lane.vector}", lane.start)

    def along(self, scalar: Dim | Scalar) -> bool:
        """Whether a value is a tuple."""
        if not isinstance(scalar, Dim) and scalar in self.uniform:
            return False
        if self.lane is None or self.lane.vector == 1 or self.first:
            return False
        return not steady(scalar, self.lane.axis, self._stays if self.uniform else None)

    def _stays(self, dim: Dim) -> bool:
        found = self._steps(dim)
        return found is not None and not any(found)

    def _steps(self, dim: Dim) -> tuple[int, ...] | None:
        """By how much an index is more for each neighbour than for the first, where that is known."""
        assert self.lane is not None
        return steps(dim, self.lane.axis, self.lane.vector, self.uniform)

    def _at_first(self, write: Callable[[], Expression]) -> Expression:
        """What is written for the first neighbour alone."""
        around, self.first = self.first, True
        found = write()
        self.first = around
        return found

    def value(self, scalar: Scalar) -> Expression:
        if not self.first and isinstance(scalar, Binary) and scalar in self.uniform:
            return self._at_first(lambda: super(LaneWriter, self).value(scalar))
        if isinstance(scalar, Const) and is_narrow(scalar.element):
            # Rounded here: a kernel holds it as f32.
            return literal(float(scalar.element.dtype.type(scalar.value)), Element.F32)
        return super().value(scalar)

    @contextmanager
    def forgotten(self) -> Iterator[None]:
        """What is written inside is not known afterwards: it mentions variables that change."""
        self._known.append({})
        yield
        self._known.pop()

    # ── arithmetic ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def rounded(self, value: Expression, element: Element) -> Expression:
        return self.let(value)

    def convert(self, x: Expression, source: Element, target: Element) -> Expression:
        """A conversion that the program asks for rounds; to whole numbers, what it is given too, where a little may be a whole."""
        if is_narrow(source) and not target.is_float:
            x = self.call(f"round_{source.value}", x)
        if not is_narrow(target) or source is target:
            return super().convert(x, source, target)
        wide = super().convert(x, Element.F32 if is_narrow(source) else source, target)  # so that it is rounded once
        return self.call(f"round_{target.value}", wide)

    def _binary(self, op: str, left: Scalar, right: Scalar) -> Expression:
        if (
            op == "div"
            and self.forms is NARROW
            and element_of(left).accumulator is Element.F32
            and self.along(left)
            and not self.along(right)
        ):
            divisor = self.value(right)
            scale = self.call("narrow_scale", divisor)
            inverse = self.call("narrow_inverse", divisor, scale)
            return self.call("mul", self.call("mul", self.value(left), inverse), scale)
        return super()._binary(op, left, right)

    def dim(self, dim: Dim) -> Expression:
        if self.lane is not None and not self.first and not self.uniform.isdisjoint(dim.compound):
            along = self._steps(dim)
            if along is not None:  # divided once, not for each neighbour
                even = at_first(dim, self.lane.axis, self.lane.vector, self.uniform)
                first = self._at_first(lambda: self._let_dim(even))
                return Several(tuple(first + n if n else first for n in along)) if any(along) else first
        if not self.along(dim):
            return super().dim(dim)
        total: Expression | None = None
        for coefficient, monomial in dim.terms:
            term: Expression | None = None
            for atom in monomial:
                factor = self._atom(atom)
                term = factor if term is None else self.call("mul", term, factor)
            if term is None:
                term = Constant(coefficient)
            elif coefficient != 1:
                term = self.call("mul", term, coefficient)
            total = term if total is None else self.call("add", total, term)
        return total or Constant(0)

    def _atom(self, atom: Atom) -> Expression:
        # What sizes alone decide, and cannot fail, is a size: the host computes it.
        if not isinstance(atom, Symbol) and self.extents.keys().isdisjoint(variables_of(atom)) and _is_defined(atom):
            return self.size(atom.dividend // atom.divisor if isinstance(atom, Quotient) else reduce(minimum, atom.items))
        return super()._atom(atom)

    # ── conditions ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def masked(
        self, condition: Expression, varies: bool, clamped: bool = False, tail: bool = False, edge: bool = False
    ) -> Iterator[None]:
        """What is evaluated inside counts only where a condition holds."""
        self.masks.append(Mask(condition, varies, clamped, tail, edge))
        yield
        self.masks.pop()

    def tail(self, start: Expression, limit: Expression, vector: int) -> Expression:
        """Which of so many neighbours lie before the end of a row."""
        return self.let(self.call("lt_int", self.call(f"count_{vector}", start), limit))

    def head(self, start: Expression, vector: int) -> Expression:
        """Which of so many neighbours do not lie before the beginning of a row."""
        return self.let(self.call("ge_int", self.call(f"count_{vector}", start), 0))

    @property
    def some(self) -> str:
        """How a name says that of neighbours which move together some may not be touched."""
        return "_some" if any(mask.edge for mask in self.masks) else ""

    def mask(self, *, steady_only: bool = False, given: bool = False, tails: bool = True) -> Expression:
        """The condition under which we are; of reading what was `given` to the kernel, where that must not be read. Without
        `tails`, that of the first neighbour of a row's tail is that of all. `steady_only` leaves out what differs along the lane,
        but not which neighbours are a row's."""
        found: Expression = TRUE
        for mask in self.masks:
            left_out = (steady_only and mask.varies and not mask.edge) or (given and mask.clamped) or (mask.tail and not tails)
            if mask.condition != TRUE and not left_out:
                found = mask.condition if found == TRUE else self.call("both", found, mask.condition)
        return found

    def fail_if(self, condition: Expression, failure: str = "") -> None:
        mask = self.mask()
        super().fail_if(call("some", condition if mask == TRUE else self.call("both", condition, mask)))

    def _select(self, condition: Scalar, then: Scalar, otherwise: Scalar) -> Expression:
        taken, varies = self.value(condition), self.along(condition)
        if self.speculable(then) and self.speculable(otherwise):
            return self.call("select", taken, self.value(then), self.value(otherwise))
        with self.masked(taken, varies):
            one = self.value(then)
        with self.masked(self.call("negation", taken), varies):
            other = self.value(otherwise)
        return self.call("select", taken, one, other)

    def _logic(self, scalar: Binary) -> Expression:
        left, name = self.value(scalar.left), "both" if scalar.op == "and" else "either"
        if self.speculable(scalar.right):
            return self.call(name, left, self.value(scalar.right))
        wanted = left if scalar.op == "and" else self.call("negation", left)
        with self.masked(wanted, self.along(scalar.left)):
            right = self.value(scalar.right)
        return self.call(name, left, right)

    def there(self, *limits: tuple[Expression, Expression]) -> Expression:
        """Whether indices, which are at least 0, lie below their limits."""
        found = [call("lt_int", index, limit) for index, limit in limits]
        return self.call("both", *found) if len(found) == 2 else self.let(found[0])

    def inside(self, subscripts: tuple[Dim | Scalar, ...], shape: tuple[Dim, ...]) -> Expression:
        """Whether subscripts lie in a tensor of this shape."""
        found: Expression = TRUE
        for position, extent in self.open(subscripts, shape):
            index, limit = self._subscript(subscripts[position]), self._let_dim(extent)
            within = self.call("both", self.call("ge_int", index, 0), self.call("lt_int", index, limit))
            found = within if found == TRUE else self.call("both", found, within)
        return found

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, read: Read) -> Expression:
        held = self.held(read.tensor)
        found = held.variable or self.register(read)
        if found is not None:
            return found
        around = self.indices
        self.indices = {s: self._subscript(s) for s in read.subscripts if not isinstance(s, Dim)}
        value = self._read(read, held)
        self.indices = around
        return value

    def _read(self, read: Read, held: Held) -> Expression:
        outside = self._outside(read, held.value)
        if not outside:
            return self.load(read, held)
        inside = self.inside(read.subscripts, held.value.shape)
        varies = any(self.along(read.subscripts[position]) for position, _ in outside)
        if read.padding is None:
            self.fail_if(self.call("negation", inside))
        with self.masked(inside, varies):
            value = self.load(read, held)
        if read.padding is None:
            return value
        with self.masked(self.call("negation", inside), varies):
            padding = self.value(read.padding)
        return self.call("select", inside, value, padding)

    def load(self, read: Read, held: Held) -> Expression:
        given = not self.own(read.tensor)
        verb, element = "fetch" if given else "load", held.value.element.value
        name = f"{verb}_{element}"
        lane = self.lane
        wide = lane is not None and lane.vector > 1 and self.moves_together(read, lane)
        among = self._among(read.subscripts) if wide else None
        if among is not None:
            # They come together, all of their dimension's, wherever one of them is read: others may be of no use, but are there.
            subscripts, block, places = among
            inside = self.mask(given=given)
            inside = self.call("some", inside) if any(mask.varies for mask in self.masks) else inside
            fetched = call(f"{name}_{block}", held.pointer, self.first_offset(read.tensor, subscripts), inside)
            several = self.let(fetched) if given else self.code.let(fetched)
            return self.let(Several(tuple(Item(several, Constant(place)) for place in places)))
        # What is behind a row's tail is there, too.
        anyhow = wide and (self.is_within(read) or not any(mask.varies and not mask.tail for mask in self.masks))
        elsewhere = lane is not None and anyhow and self.begins_elsewhere(read, lane)
        anyhow = anyhow and not (elsewhere and self.some)  # at the ends of a row one by one
        if lane is not None and anyhow:
            offset = self.first_offset(read.tensor, read.subscripts)
            inside = self.mask(steady_only=True, given=given)
            how = "_anywhere" if elsewhere else self.some
            made = call(f"{verb}{how}_{element}_{lane.vector}", held.pointer, offset, inside)
        else:
            one = not any(map(self.along, read.subscripts))  # element for all neighbours, and so one value
            varies = any(mask.varies and not (one and mask.tail) for mask in self.masks)
            inside = self.mask(given=given, tails=varies or not one)
            if one and varies:
                inside = self.call("some", inside)
            place = self.place(read.tensor, read.subscripts)
            anywhere = self.known(call(name, held.pointer, place, TRUE)) if given else None
            if anywhere is not None:  # it was read before, under no condition
                return anywhere
            made = call(name, held.pointer, place, inside)
        # What the kernel itself writes is read anew each time.
        found = self.let(made) if given else self.code.let(made)
        self.fetched[found] = inside
        return found

    def _among(self, subscripts: tuple[Dim | Scalar, ...]) -> tuple[tuple[Dim | Scalar, ...], int, tuple[int, ...]] | None:
        """Where elements begin that come together, how many, and which of them each neighbour has; None if each has the next."""
        lane = self.lane
        assert lane is not None
        for n, subscript in enumerate(subscripts):
            if not self.uniform or not isinstance(subscript, Dim) or not self.along(subscript):
                continue
            found = picked(subscript, lane.axis, lane.vector, self.uniform)
            if found is None or self._steps(subscript) == tuple(range(lane.vector)):
                return None
            begins = at_first(subscript - subscript.offset % found[0], lane.axis, lane.vector, self.uniform)
            return (*subscripts[:n], begins, *subscripts[n + 1 :]), *found
        return None

    def copied(self, read: Read, to: Expression) -> None:
        """Begin to copy what is read to a place of shared memory, 0 where that is not inside: the elements of a lane at once."""
        held, around, lane = self.held(read.tensor), self.indices, self.lane
        self.indices = {s: self._subscript(s) for s in read.subscripts if not isinstance(s, Dim)}
        inside = self.inside(read.subscripts, held.value.shape) if self._outside(read, held.value) else TRUE
        vector = lane.vector if lane is not None else 1
        with self.masked(inside, False):
            at = self.first_offset(read.tensor, read.subscripts)
            name = f"copy_{held.value.element.value}" + (f"_{vector}" if vector > 1 else "")
            self.code.call(name, to, held.pointer, at, self.mask(given=True))
        self.indices = around

    def where(self, condition: Expression | None, value: Expression, otherwise: Expression) -> Expression:
        zero = isinstance(otherwise, Call) and otherwise.arguments in ((Constant(0),), (Constant(0.0),))
        if zero and condition is not None and self.fetched.get(value) == condition:
            return value
        return super().where(condition, value, otherwise)

    def first_offset(self, tensor: Symbol, subscripts: tuple[Dim | Scalar, ...]) -> Expression:
        """The place of the first neighbour's element, counted in elements."""
        lane = self.lane
        if lane is not None and lane.further:
            assert lane.base is not None
            self.lane = replace(lane, start=lane.base, further=0)
            found = self.first_offset(tensor, subscripts)
            self.lane = lane
            return self.let(found + lane.further)
        return self._at_first(lambda: self.place(tensor, subscripts))

    def place(self, tensor: Symbol, subscripts: tuple[Dim | Scalar, ...]) -> Expression:
        """The place of an element, or of one for each neighbour."""
        base: Expression = Constant(0)
        moving: Expression | None = None
        for dimension, subscript in enumerate(subscripts):
            place, stride = self._subscript(subscript), self.stride(tensor, dimension)
            if self.along(subscript):
                term: Expression = place if stride == Constant(1) else self.call("mul", place, stride)
                moving = term if moving is None else self.call("add", moving, term)
            elif place != Constant(0):
                term = place if stride == Constant(1) else place * stride
                base = term if base == Constant(0) else base + term
        base = base if is_atom(base) else self.let(base)
        return base if moving is None else moving if base == Constant(0) else self.call("add", moving, base)

    def _subscript(self, subscript: Dim | Scalar) -> Expression:
        if isinstance(subscript, Dim):
            return self._let_dim(subscript)
        if subscript in self.indices:
            return self.indices[subscript]
        return self._subscripts(Read(Symbol("", 0), (subscript,), Element.I64))[0]

    def put(self, tensor: Symbol, subscripts: tuple[Dim, ...], value: Expression, held: Held, together: bool) -> None:
        """Store a value, or one for each neighbour."""
        element, lane = held.value.element.value, self.lane
        if lane is not None and lane.vector > 1 and together:
            at = self.first_offset(tensor, subscripts)
            self.code.call(f"store{self.some}_{element}_{lane.vector}", held.pointer, at, value, self.mask(steady_only=True))
        else:
            self.code.call(f"store_{element}", held.pointer, self.place(tensor, subscripts), value, self.mask())


def _is_defined(atom: Atom) -> bool:
    """Whether no divisor in an atom of sizes can be 0."""
    match atom:
        case Quotient(dividend=dividend, divisor=divisor):
            return _is_positive(divisor) and all(map(_is_defined, dividend.atoms))
        case Minimum(items=items):
            return all(_is_defined(a) for item in items for a in item.atoms)
        case _:
            return True


def _is_positive(dim: Dim) -> bool:
    atom = dim.atom
    if isinstance(atom, Minimum):
        return all(map(_is_positive, atom.items))
    return dim.offset > 0 and _is_natural(dim)


def _is_natural(dim: Dim) -> bool:
    """Whether a dimension of sizes is certainly at least 0."""
    return all(c >= 0 for c in dim.mapping.values()) and all(map(_natural_atom, dim.atoms))


def _natural_atom(atom: Atom) -> bool:
    match atom:
        case Quotient(dividend=dividend, divisor=divisor):
            return _is_natural(dividend) and _is_positive(divisor)
        case Minimum(items=items):
            return all(map(_is_natural, items))
        case _:
            return True
