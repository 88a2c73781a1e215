"""Tensors that are put together of others: each of these lies in its part of the whole from the start, and nobody copies it there.

    t[i, j] = if j < n then a[i, j] else b[i, j - n]        a is the view t[:, :n], and b is t[:, n:]

    assemblies    kernels -> the steps that only choose, by their indices, among elements of tensors that other kernels make
    fills         an assembly at the sizes of a call -> whether its parts are all of it, each element once
    in_place      kernels and what to assemble in place -> the kernels without those steps, and the views that the parts are

One part may be something else, as an argument or a result: a kernel copies that alone, if it is not most of the whole.

A concatenation is one, a stack of a few tensors, and the gradient by what was cut into slices: a sum of terms of which all but one
are 0 at each place. (A part keeps the sign of a zero there, which the sum with the zeros of the others would not.)

Where a part lies follows from the subscripts at which it is read: `a[i, j / 64 - 12, j % 64]` is read at j = 64 * (h + 12) + c, so
its element (i, h, c) is that of the whole. Conditions are not looked at then: that each part is what is chosen where it would lie,
and that nothing is left over, is decided with the numbers of a call. What makes or reads a part takes it as a tensor of other
strides, wherever it is: no kernel knows of it. Whether these still suit its copies is asked by `runtime.ways`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import product
from math import prod

from axon.backend.gpu.layout.axes import ONE, ZERO, AxisPart
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import Kernel, copy, results_of
from axon.backend.gpu.tile.stream import Stream
from axon.backend.gpu.tile.verify import KernelScope
from axon.backend.plan.ir import Nest, Reason
from axon.backend.plan.numbered import Range, bounds
from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.base.passes import require, verified
from axon.core.ir import Axis, Binary, Compute, Const, Program, Read, Scalar, Select, Unary, Value, element_of
from axon.core.scalar_facts import index_of, substitute
from axon.core.verify import unchanged
from axon.core.walk import reads, tensors_of
from axon.shapes.dimension import Dim, DimensionTooLarge, Quotient

MOST = 16  # places of a part along axes at which it is not read


@dataclass(frozen=True, slots=True)
class Assembly:
    """A step that only chooses: its result, and the views of it that its parts are. Of each part `sources` has how it is read; one
    may be a copy of what is read, which is `copied`. Where two Dims are not `equal`, parts do not lie so."""

    whole: Value
    step: Compute
    parts: tuple[View, ...]
    sources: tuple[Read, ...]
    equal: tuple[tuple[Dim, Dim], ...]
    copied: Value | None = None

    def fills(self, sizes: Mapping[Symbol, int]) -> bool:
        """Whether each part is what the step chooses at all places where it would lie, and nothing else is chosen anywhere."""
        try:
            return self._fills(sizes)
        except (KeyError, ZeroDivisionError):  # of a loop's counter, or of sizes for which no element is there
            return False

    def _fills(self, sizes: Mapping[Symbol, int]) -> bool:
        if any(left.evaluate(sizes) != right.evaluate(sizes) for left, right in self.equal):
            return False
        known = {symbol: Dim.of(size) for symbol, size in sizes.items()}
        extents = [axis.extent.evaluate(sizes) for axis in self.step.axes]
        both = list(zip(self.parts, self.sources, strict=True))
        shapes = {source.tensor: [d.evaluate(sizes) for d in part.value.shape] for part, source in both}
        body = substitute(self.step.body[0], known)
        count = 0
        for part, source in both:
            spans = _spans(part, sizes)
            if any(not 0 <= low <= high < extent for (low, high), extent in zip(spans, extents, strict=True)):
                return False
            ranges = {axis.symbol: span for axis, span in zip(self.step.axes, spans, strict=True)}
            if _chosen(body, ranges, shapes) != substitute(source, known):
                return False
            own = prod(high - low + 1 for low, high in spans)
            if part.value == self.copied and 2 * own > prod(extents):
                return False
            count += own
        return count == prod(extents)


@dataclass(frozen=True, slots=True)
class InPlace:
    """Kernels, and of what they make the tensors that lie in others: `views` of the `assemblies`' results."""

    kernels: tuple[Kernel, ...]
    assemblies: tuple[Assembly, ...]

    @property
    def views(self) -> dict[Symbol, View]:
        """Of a tensor that lies in another one where that is."""
        return {part.value.symbol: part for assembly in self.assemblies for part in assembly.parts}


def assemblies(kernels: Sequence[Kernel], kept: Set[Symbol], inputs: Sequence[Value]) -> Iterator[Assembly]:
    """The steps that only choose among tensors that kernels make, each by one and, but for one, none of those that are `kept` as
    they are, nor made where they would be read. Of several that would have the same part, the first has it."""
    made = {value.symbol: value for kernel in kernels for value in results_of(kernel)}
    there = made | {value.symbol: value for value in inputs}
    taken = {*kept, *(table.symbol for kernel in kernels for table in _tables(kernel))}
    for kernel in kernels:
        if not isinstance(kernel, Nest) or kernel.slices is not None:
            continue
        alone = len(kernel.steps) == 1  # else the copy of a part would be one kernel more
        for step in kernel.steps:
            if not isinstance(step, Compute) or step.outs[0].symbol not in kernel.stored or not _only_chooses(step):
                continue
            sources = _sources(step)
            names = {read.tensor for read in sources}
            free = {s for s in names if s in made and s not in taken and s not in kernel.stored}
            if len(names) < len(sources) or not free or len(names - free) > alone or not names <= there.keys():
                continue
            try:
                found = _assembly(step, sources, free, there)
            except DimensionTooLarge:
                continue
            if found is not None:
                taken |= {found.whole.symbol, *(part.value.symbol for part in found.parts)}
                yield found


def verify_in_place(made: InPlace, kernels: Sequence[Kernel], wanted: Set[Symbol], kept: Set[Symbol], program: Program) -> None:
    """What is assembled in place is there once all of its parts are, each made by one kernel, and lying nowhere else."""
    if not made.assemblies and unchanged(made.kernels, kernels):
        return  # they were verified before
    parts = [part for assembly in made.assemblies for part in assembly.parts]
    require(len(made.views) == len(parts), "a part lies in two places")
    require(made.views.keys().isdisjoint({*kept, *program.block.results}), "a part is needed as a tensor of its own")
    require(made.views.keys().isdisjoint(part.source for part in parts), "a part is assembled of others")
    for assembly in made.assemblies:
        both = zip(assembly.parts, assembly.sources, strict=True)
        mine = {source.tensor if part.value == assembly.copied else part.value.symbol for part, source in both}
        require(tensors_of(assembly.step) == mine, "a step chooses among others than its parts")
        require({part.source for part in assembly.parts} == {assembly.whole.symbol}, "a part lies in another tensor")
    scope = KernelScope(program)
    scope.outside()
    waiting = list(made.assemblies)
    for kernel in made.kernels:
        scope.one(kernel)
        for assembly in [a for a in waiting if all(part.value.symbol in scope.tensors for part in a.parts)]:
            waiting.remove(assembly)
            scope.define_value(assembly.whole)
            for part in assembly.parts:
                require(scope.tensors[part.value.symbol] == part.value, f"the part {part.value.symbol!r} is another tensor")
                scope.view(part)
    scope.gives(program.block.results, program)


@verified("in_place", verify_in_place, takes="kernels", gives="kernels")
def in_place(kernels: Sequence[Kernel], wanted: Set[Symbol], kept: Set[Symbol], program: Program) -> InPlace:
    """The kernels of a program without the steps that assemble those of the `wanted` that are assembled, which their parts are
    stored into; none of what is `kept` is a part."""
    every = assemblies(kernels, {*kept, *program.block.results}, program.inputs) if wanted else ()
    found = {assembly.whole.symbol: assembly for assembly in every if assembly.whole.symbol in wanted}
    left = tuple(part for kernel in kernels for part in _without(kernel, found))
    return InPlace(left, tuple(found.values()))


def _without(kernel: Kernel, found: Mapping[Symbol, Assembly]) -> Iterator[Kernel]:
    """A kernel without the steps that assemble something, as far as something is left of it. What it needs of that it reads."""
    if not isinstance(kernel, Nest) or found.keys().isdisjoint(kernel.stored):
        yield kernel
        return
    steps = tuple(step for step in kernel.steps if step.outs[0].symbol not in found)
    if steps:
        yield replace(kernel, steps=steps, stored=tuple(s for s in kernel.stored if s not in found))
    for assembly in (found[symbol] for symbol in kernel.stored if symbol in found):
        for part, source in zip(assembly.parts, assembly.sources, strict=True):
            if part.value == assembly.copied:
                why = Reason("only what {0} has of {1}: the rest of it is stored there", (assembly.whole.symbol, source.tensor))
                yield copy(part.value, source.tensor, reasons=(why,), span=assembly.step.span)


@lru_cache(maxsize=4096)
def _symbol(whole: Symbol, source: Symbol) -> Symbol:
    """Of a copy: the same in everything that is made of one program."""
    return fresh(source.name)


def _tables(kernel: Kernel) -> tuple[Value, ...]:
    """What a kernel reads by other means than its strides."""
    match kernel:
        case MatrixProduct(grouping=grouping) if grouping is not None:
            return tuple(grouping.tables)
        case Stream(reaches=reaches):
            return tuple(reach.table for reach in reaches)
        case _:
            return ()


# ── where parts lie ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _assembly(step: Compute, sources: tuple[Read, ...], free: Set[Symbol], there: Mapping[Symbol, Value]) -> Assembly | None:
    """What a step assembles of tensors that are free to lie anywhere, and of a copy of another one."""
    whole = step.outs[0]
    parts = [there[read.tensor] for read in sources]
    own = [value if value.symbol in free else replace(value, symbol=_symbol(whole.symbol, value.symbol)) for value in parts]
    placed = [_placed(read, value, step) for read, value in zip(sources, own, strict=True)]
    found = [place for place in placed if place is not None]
    if len(found) < len(placed):
        return None
    equal = tuple(pair for place in found for pair in place.equal)
    copied = next((value for value in own if value not in parts), None)
    return Assembly(whole, step, tuple(place.view for place in found), sources, equal, copied)


def _sources(step: Compute) -> tuple[Read, ...]:
    """What a step reads, each once."""
    return tuple(dict.fromkeys(replace(read, padding=None) for read in reads(step.body[0])))


def _only_chooses(step: Compute) -> bool:
    """Whether each element that a step makes is one of a tensor, as it is, or a number."""
    plain = step.reduction is None and len(step.body) == 1
    return plain and step.outs[0].element is element_of(step.body[0]) and _is_choice(step.body[0])


def _is_choice(scalar: Scalar) -> bool:
    """Whether an expression is an element of a tensor, a number, or one of several such, or their sum, of which all but one may be
    0."""
    match scalar:
        case Select(then=then, otherwise=otherwise):
            return _is_choice(then) and _is_choice(otherwise)
        case Binary(op="add", left=left, right=right):
            return _is_choice(left) and _is_choice(right)
        case Read(checked=None, subscripts=subscripts, padding=padding):
            return all(isinstance(s, Dim) for s in subscripts) and isinstance(padding, Const | None)
        case _:
            return isinstance(scalar, Const)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a part would lie, if some Dims are equal."""

    view: View
    equal: tuple[tuple[Dim, Dim], ...]


@dataclass(frozen=True, slots=True)
class _Digit:
    """A subscript (index + shift) / unit % base + rest, without a base where that is all of the number."""

    unit: Dim
    base: Dim | None
    shift: Dim
    rest: Dim


def _placed(read: Read, value: Value, step: Compute) -> _Place | None:
    """Where an element of a tensor lies in the result, if each is read at one place, and these are side by side."""
    numbers = {axis.symbol: number for number, axis in enumerate(step.axes)}
    parts: list[tuple[AxisPart, ...]] = [()] * len(value.shape)
    start = [ZERO] * len(numbers)
    equal: list[tuple[Dim, Dim]] = []
    read_at: dict[Symbol, list[int]] = {}  # of an axis the dimensions of which the indices are its digits
    flattened: list[Symbol] = []  # the axes that are digits of the index of a dimension
    for d, subscript in enumerate(read.subscripts):
        assert isinstance(subscript, Dim)
        along = [axis.symbol for axis in step.axes if axis.symbol in subscript.variables]
        if len(along) == 1:
            read_at.setdefault(along[0], []).append(d)
            continue
        split = _split(subscript, along, step.axes)
        if split is None:
            return None
        flattened += along
        parts[d] = tuple(AxisPart(axis.extent, _unit(numbers[axis.symbol], ONE, len(numbers))) for axis in split)
        equal.append((value.shape[d], prod((axis.extent for axis in split), start=ONE)))
    if len({*read_at, *flattened}) < len(read_at) + len(flattened):
        return None
    for symbol, dimensions in read_at.items():
        found = [_digit(read.subscripts[d], symbol) for d in dimensions]
        digits = [digit for digit in found if digit is not None]
        if not _are_one_number(digits, len(dimensions)):
            return None
        number = numbers[symbol]
        for d, digit in zip(dimensions, digits, strict=True):
            parts[d] = (AxisPart(value.shape[d], _unit(number, digit.unit, len(numbers))),)
            if digit.base is not None:
                equal.append((value.shape[d], digit.base))
            else:
                start[number] = -digit.unit * digit.rest - digit.shift
    others = [axis for axis in step.axes if axis.symbol not in {*read_at, *flattened}]
    fixed = _fixed(read, others, step) if others else {}
    if fixed is None:
        return None
    for symbol, index in fixed.items():
        start[numbers[symbol]] = Dim.of(index)
    axes = tuple(fresh("ijklmnop"[d % 8]) for d in range(len(value.shape)))
    return _Place(View(value, step.outs[0].symbol, axes, tuple(parts), tuple(start)), tuple(equal))


def _unit(number: int, step: Dim, rank: int) -> tuple[Dim, ...]:
    return tuple(step if d == number else ZERO for d in range(rank))


def _split(subscript: Dim, along: Sequence[Symbol], axes: Sequence[Axis]) -> list[Axis] | None:
    """The axes of which a subscript is the number, as b * length + i is of b and i below the length; the outermost first."""
    extents = {axis.symbol: axis for axis in axes if axis.symbol in along}
    found: list[Axis] = []
    rest, unit = subscript, ONE
    while extents:
        lowest = next((s for s in extents if (split := rest.linear_in(s)) is not None and split[0] == unit), None)
        if lowest is None:
            return None
        split = rest.linear_in(lowest)
        assert split is not None
        found.append(extents.pop(lowest))
        rest, unit = split[1], unit * found[-1].extent
    return found[::-1] if rest == ZERO and len(found) > 1 else None


def _digit(subscript: Dim | Scalar, axis: Symbol) -> _Digit | None:
    """What a subscript is of an index."""
    assert isinstance(subscript, Dim)
    quotients = [atom for atom in subscript.atoms if isinstance(atom, Quotient) and axis in atom.dividend.variables]
    shifts = []
    for quotient in quotients:
        split = quotient.dividend.linear_in(axis)
        if split is None or split[0] != ONE or axis in quotient.divisor.variables:
            return None
        shifts.append(split[1])
    for number, (above, shift) in enumerate(zip(quotients, shifts, strict=True)):  # of two the one that is multiplied with the base
        split = subscript.split(above)
        assert split is not None
        times, rest = split
        if len(quotients) == 1 and times == ONE and axis not in rest.variables:
            return _Digit(above.divisor, None, shift, rest)
        if len(quotients) == 1 and times == -above.divisor:
            return _Digit(ONE, above.divisor, shift, ZERO) if rest == Dim.of(axis) + shift else None
        other = quotients[1 - number] if len(quotients) == 2 else None
        if other is not None and rest == Dim({(other,): 1}) and shift == shifts[1 - number]:
            base = -times
            if base * other.divisor == above.divisor:
                return _Digit(other.divisor, base, shift, ZERO)
    if quotients:
        return None
    split = subscript.linear_in(axis)
    return _Digit(ONE, None, ZERO, split[1]) if split is not None and split[0] == ONE else None


def _are_one_number(digits: Sequence[_Digit], count: int) -> bool:
    """Whether these are all digits of an index, from the lowest on."""
    if len(digits) < count or len({digit.shift for digit in digits}) > 1:
        return False
    unit, left = ONE, list(digits)
    while left:
        lowest = next((digit for digit in left if digit.unit == unit), None)
        if lowest is None or (lowest.base is None) != (len(left) == 1):
            return False
        left.remove(lowest)
        unit = unit if lowest.base is None else unit * lowest.base
    return True


def _fixed(read: Read, axes: Sequence[Axis], step: Compute) -> dict[Symbol, int] | None:
    """The one place along axes at which it is not read where a part is chosen, as that of a stack."""
    extents = [axis.extent.constant for axis in axes]
    if any(extent is None for extent in extents) or prod(filter(None, extents)) > MOST:
        return None
    found = []
    for place in product(*(range(extent or 0) for extent in extents)):
        ranges = {axis.symbol: (index, index) for axis, index in zip(axes, place, strict=True)}
        if any(other.tensor == read.tensor for other in reads(_chosen(step.body[0], ranges, {}))):
            found.append(place)
    return dict(zip((axis.symbol for axis in axes), found[0], strict=True)) if len(found) == 1 else None


# ── what is chosen ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _spans(part: View, sizes: Mapping[Symbol, int]) -> list[Range]:
    """The first and the last index of a part along each dimension of the whole."""
    spans = [(begin.evaluate(sizes),) * 2 for begin in part.start]
    for axis in (axis for parts in part.parts for axis in parts):
        for d, step in enumerate(axis.step):
            low, high = spans[d]
            spans[d] = low, high + step.evaluate(sizes) * (axis.extent.evaluate(sizes) - 1)
    return spans


def _chosen(scalar: Scalar, ranges: Mapping[Symbol, Range], shapes: Mapping[Symbol, Sequence[int]]) -> Scalar:
    """What is left of an expression whose indices are in these ranges, as far as they decide it; a sum is without its zeros."""
    match scalar:
        case Select(condition=condition, then=then, otherwise=otherwise):
            decided = _decided(condition, ranges)
            if decided is not None:
                return _chosen(then if decided else otherwise, ranges, shapes)
            return Select(condition, _chosen(then, ranges, shapes), _chosen(otherwise, ranges, shapes))
        case Binary(op="add", left=left, right=right):
            first, second = _chosen(left, ranges, shapes), _chosen(right, ranges, shapes)
            match first, second:
                case Const(value=0), _:
                    return second
                case _, Const(value=0):
                    return first
                case _:
                    return Binary("add", first, second)
        case Read(tensor=tensor, subscripts=subscripts, padding=padding) if padding is not None and tensor in shapes:
            inside = [_within(subscript, extent, ranges) for subscript, extent in zip(subscripts, shapes[tensor], strict=True)]
            return padding if False in inside else scalar if None in inside else replace(scalar, padding=None)
        case _:
            return scalar


def _within(subscript: Dim | Scalar, extent: int, ranges: Mapping[Symbol, Range]) -> bool | None:
    """Whether a subscript is inside, if it is for all or for none."""
    span = bounds(subscript, ranges) if isinstance(subscript, Dim) else None
    if span is None:
        return None
    if span[0] >= 0 and span[1] < extent:
        return True
    return False if span[1] < 0 or extent <= span[0] else None


def _decided(condition: Scalar, ranges: Mapping[Symbol, Range]) -> bool | None:
    """Whether a condition holds for all indices, or for none."""
    match condition:
        case Const(value=bool(value)):
            return value
        case Unary(op="not", operand=operand):
            inner = _decided(operand, ranges)
            return None if inner is None else not inner
        case Binary(op="and" | "or" as op, left=left, right=right):
            both = {_decided(left, ranges), _decided(right, ranges)}
            ends = op == "or"  # what decides it alone
            return ends if ends in both else None if None in both else not ends
        case Binary(op=op, left=left, right=right) if op in _COMPARED:
            first, second = index_of(left), index_of(right)
            if first is None or second is None or not _held(left, first, ranges) or not _held(right, second, ranges):
                return None
            span = bounds(first - second, ranges)
            return None if span is None else _COMPARED[op](*span)
        case _:
            return None


def _held(scalar: Scalar, dim: Dim, ranges: Mapping[Symbol, Range]) -> bool:
    """Whether an index is what its element type holds of it."""
    span, (low, high) = bounds(dim, ranges), element_of(scalar).limits
    return span is not None and low <= span[0] and span[1] <= high


def _never(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _below(low: int, high: int) -> bool | None:
    """Whether numbers from `low` to `high` are below 0."""
    return True if high < 0 else False if low >= 0 else None


def _zero(low: int, high: int) -> bool | None:
    return True if low == high == 0 else False if low > 0 or high < 0 else None


# By what two numbers are compared, whether their difference, from a number to another one, says so.
_COMPARED: dict[str, Callable[[int, int], bool | None]] = {
    "lt": _below,
    "ge": lambda low, high: _never(_below(low, high)),
    "gt": lambda low, high: _below(-high, -low),
    "le": lambda low, high: _never(_below(-high, -low)),
    "eq": _zero,
    "ne": lambda low, high: _never(_zero(low, high)),
}
