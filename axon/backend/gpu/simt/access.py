"""Which accesses of a nest move several neighbours at once, and when it can hold its rows in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from collections.abc import Mapping as MappingOf
from contextlib import suppress
from math import prod

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.simt.neighbours import multiples, picked, regular, steps
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import inner, reduced
from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.core.ir import Axis, Binary, Compute, Index, Local, Read, Scalar, Scan, Value
from axon.core.scalar_facts import ends_early, index_of
from axon.core.walk import all_axes, nodes, scalars, tensors_of
from axon.shapes.dimension import Dim, DimensionTooLarge, Minimum, Quotient

ACCESS = 16  # bytes, at most, of one access


@dataclass(frozen=True, slots=True)
class Access:
    """A read or a store of a tensor, and the axis along which a thread holds neighbours when it makes it."""

    tensor: Symbol
    subscripts: tuple[Dim | Scalar, ...]
    lane: Axis
    store: bool = False


def swept(step: Compute | Scan, rows: int) -> Axis | None:
    """The axis of a step that a team shares: the last one reduced, else the last of its result."""
    axes = reduced(step) or inner(step, rows)
    return axes[-1] if axes else None


def cut(nest: Nest, lanes: bool) -> Iterator[Dim]:
    """The extents of the loops that threads cut into neighbours, also of those in which nothing is read or stored."""
    for step in nest.steps:
        lane = nest.rows[-1] if lanes and nest.rows else swept(step, len(nest.rows))
        if lane is not None:
            yield lane.extent


def accesses(nest: Nest, lanes: bool) -> Iterator[Access]:
    """Every read of a nest, and every store."""
    for step in nest.steps:
        lane = nest.rows[-1] if lanes and nest.rows else swept(step, len(nest.rows))
        if lane is None:
            continue
        for scalar in scalars(step):
            for node in nodes(scalar):
                if isinstance(node, Read):
                    yield Access(node.tensor, node.subscripts, lane)
        if lane in step.axes:
            for out in step.outs:
                if out.symbol in nest.stored:
                    yield Access(out.symbol, nest.place(step), lane, True)


def is_steady(subscripts: tuple[Dim | Scalar, ...], lane: Symbol) -> bool:
    """Whether an access is at the same element for all neighbours along a lane."""
    return all(steady(s, lane) for s in subscripts)


def steady(subscript: Dim | Scalar, lane: Symbol, same: Callable[[Dim], bool] | None = None) -> bool:
    """Whether a subscript, or an expression, is the same along a lane: of indices `same` says it, otherwise those are that do not
    mention the lane. A local is taken to differ."""
    stays = same or (lambda dim: lane not in dim.variables)
    if isinstance(subscript, Dim):
        return stays(subscript)
    for node in nodes(subscript):
        match node:
            case Local():
                return False
            case Index(dim=dim):
                if not stays(dim):
                    return False
            case Read(subscripts=inside):
                if not all(stays(s) for s in inside if isinstance(s, Dim)):
                    return False
    return True


def is_beside(subscripts: tuple[Dim | Scalar, ...], lane: Symbol, unit: int) -> bool:
    """Whether neighbours along a lane are neighbours in memory, in a tensor whose dimension `unit` steps by one element."""
    if not 0 <= unit < len(subscripts):
        return False
    if any(not steady(s, lane) for n, s in enumerate(subscripts) if n != unit):
        return False
    along = subscripts[unit]
    split = along.linear_in(lane) if isinstance(along, Dim) else None
    return split is not None and split[0].constant == 1


def comes_together(access: Access, unit: int, vector: int, known: Set[Quotient]) -> bool:
    """Whether so many neighbours, given the quotients that are regular, are neighbours in memory, or are read among as many that
    are."""
    lane, subscripts = access.lane.symbol, access.subscripts
    if is_beside(subscripts, lane, unit):
        return True
    if not known or not 0 <= unit < len(subscripts):
        return False

    def stays(dim: Dim) -> bool:
        along = steps(dim, lane, vector, known)
        return along is not None and not any(along)

    along = subscripts[unit]
    if not isinstance(along, Dim) or any(not steady(s, lane, stays) for n, s in enumerate(subscripts) if n != unit):
        return False
    if access.store:
        return False  # an element is stored at its own place
    found = steps(along, lane, vector, known)
    return found == tuple(range(vector)) or (any(found or ()) and picked(along, lane, vector, known) is not None)


def unit_of(tensor: DeviceTensor) -> int:
    """The dimension along which a tensor's elements lie side by side; -1 if none."""
    found = [d for d, (stride, extent) in enumerate(zip(tensor.strides, tensor.shape, strict=True)) if stride == 1 and extent != 1]
    if found:
        return found[-1]
    return len(tensor.shape) - 1 if tensor.strides and tensor.strides[-1] == 1 else -1


@dataclass(frozen=True, slots=True)
class Width:
    """How many neighbours a thread holds, the numbers of the accesses (in the order of `accesses`) that move them together, and the
    quotients that are regular for them. With a `tail`, the last neighbours of a row may be fewer: what moves together moves spare
    elements behind the row then. With a `head`, the first ones may be fewer as well: rows begin anywhere, neighbours where vectors
    of memory do; so nothing may be moved that is not the row's, and the accesses `elsewhere`, also in `beside`, are of neighbours
    that begin between two vectors."""

    vector: int
    beside: frozenset[int]
    regular: frozenset[Quotient] = frozenset()
    tail: bool = False
    head: bool = False
    elsewhere: frozenset[int] = frozenset()


ALONE = Width(1, frozenset())


def width_of(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    lanes: bool,
    *,
    divided: bool = False,
    tails: bool = False,
) -> Width:
    """So many neighbours that the narrowest access takes 16 bytes, or a half or a quarter of them: the most of which every loop
    that a thread cuts has a multiple, and for which every store lies. Reads that do not lie for it are made one by one. `divided`:
    by lanes, of quotients it matters which are regular. With `tails`, loops need no multiple where a tensor has spare elements
    behind each row, and so has every other one of whose rows all is moved."""
    made = {out.symbol for step in nest.steps for out in step.outs} - set(nest.stored)
    found = list(accesses(nest, lanes))
    loops = [a for step in nest.steps for a in (*inner(step, len(nest.rows)), *reduced(step))]
    if lanes and nest.rows and any(nest.rows[-1].symbol in a.extent.variables for a in loops):
        return ALONE  # neighbours go through loops of different lengths
    apart = divided and lanes and nest.rows

    def beside(vector: int) -> tuple[dict[int, Access], frozenset[Quotient]]:
        known = regular(nest, nest.rows[-1].symbol, vector, sizes) if apart else frozenset[Quotient]()
        own = ((n, a) for n, a in enumerate(found) if a.tensor not in made)
        return {n: a for n, a in own if comes_together(a, unit_of(tensors[a.tensor]), vector, known)}, known

    moved, _ = beside(2)
    if not moved:
        return ALONE
    most = min(8, ACCESS // min(max(1, values[a.tensor].element.bits // 8) for a in moved.values()))
    stores = {n for n, a in enumerate(found) if a.store}
    spare = {n for n, a in moved.items() if tensors[a.tensor].spare}
    tails = tails and bool(spare) and not any(map(ends_early, nest.steps))
    near = {n: a for n, a in moved.items() if tails and is_beside(a.subscripts, a.lane.symbol, unit_of(tensors[a.tensor]))}
    rows = {n for n, a in near.items() if len(tensors[a.tensor].shape) > 1 and n not in spare}
    for vector in (most, most // 2, most // 4):
        whole = vector > 1 and all(divides(vector, extent, sizes) for extent in cut(nest, lanes))
        if whole:
            moved, known = beside(vector)
            together = frozenset(n for n, a in moved.items() if aligned(a, tensors[a.tensor], sizes, vector, known))
            if together and stores <= together:
                return Width(vector, together, known)
        elif tails and vector > 1:
            together = frozenset(n for n, a in near.items() if _reaches(a, tensors[a.tensor], sizes, vector))
            if together & spare and stores | rows <= together | _rare(nest, lanes):
                return Width(vector, together, tail=True)
    return ALONE


def width_anywhere(
    nest: Nest, values: MappingOf[Symbol, Value], tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]
) -> Width:
    """As `width_of`, by rows, where rows begin anywhere: what is stored begins a row at the same place of a vector, what is read
    may begin elsewhere. For elements of 16 bits and fewer: one by one these take longer than memory does, wider ones hardly."""
    made = {out.symbol for step in nest.steps for out in step.outs} - set(nest.stored)
    found = {
        n: access
        for n, access in enumerate(accesses(nest, False))
        if access.tensor not in made and not is_steady(access.subscripts, access.lane.symbol)
    }
    if any(isinstance(step, Scan) or is_ordered(step) or ends_early(step) for step in nest.steps):
        return ALONE
    if not all(is_beside(a.subscripts, a.lane.symbol, unit_of(tensors[a.tensor])) for a in found.values()):
        return ALONE
    size = min((max(1, values[a.tensor].element.bits // 8) for a in found.values()), default=ACCESS)
    vector = min(8, ACCESS // size)
    around = {axis.symbol for axis in nest.rows}  # and loops, if there is but one step that goes through them
    around |= {axis.symbol for step in nest.steps for axis in all_axes(step)} if len(nest.steps) == 1 else set()
    around -= {a.lane.symbol for a in found.values()}
    begins = {n: begins_at(a, tensors[a.tensor], around, sizes, vector) for n, a in found.items()}
    largest = sorted(found, key=lambda n: (not found[n].store, -tensors[found[n].tensor].bytes))  # one that is stored, if any is
    whole = next((begins[n] for n in largest if begins[n] is not None), None)
    elsewhere = frozenset(n for n in found if begins[n] != whole)
    own = set(nest.stored)
    if size > 2 or whole is None or any(found[n].store or found[n].tensor in own for n in elsewhere):
        return ALONE
    return Width(vector, frozenset(found), tail=True, head=True, elsewhere=elsewhere)


def begins_at(access: Access, tensor: DeviceTensor, around: Set[Symbol], sizes: MappingOf[Symbol, int], vector: int) -> Dim | None:
    """Where in a vector of so many elements of memory the element at 0 of an access's lane is, as a sum of indices of the
    rows and loops `around`; None if more decides it than these, or its neighbours do not follow each other."""
    lane, unit, size = access.lane.symbol, unit_of(tensor), max(1, tensor.element.bits // 8)
    if tensor.pointer % min(ACCESS, vector * size) or not is_beside(access.subscripts, lane, unit):
        return None
    total = Dim.of(0)
    known = {s: Dim.of(n) for s, n in sizes.items()}
    for subscript, stride in zip(access.subscripts, tensor.strides, strict=True):
        if not isinstance(subscript, Dim):
            if stride % vector:
                return None
            continue
        place = (subscript - lane if lane in subscript.variables else subscript).substitute(known)
        for coefficient, monomial in place.terms:
            along = coefficient * stride % vector
            if along and not (len(monomial) <= 1 and all(isinstance(atom, Symbol) and atom in around for atom in monomial)):
                return None
            total += Dim({monomial: along}) if along else 0
    return total - total.offset + total.offset % vector


def _rare(nest: Nest, lanes: bool) -> frozenset[int]:
    """The stores, by number, of what is reduced over many elements that are read: one by one they take little time."""
    found, number = set[int](), 0
    for step in nest.steps:
        for access in accesses(replace(nest, steps=(step,)), lanes):
            if access.store and reduced(step):
                found.add(number)
            number += 1
    return frozenset(found)


def _reaches(access: Access, tensor: DeviceTensor, sizes: MappingOf[Symbol, int], vector: int) -> bool:
    """Whether the last of so many neighbours, where a row has fewer, still lies in the row, or in what is spare behind it. What is
    stored lies there in any case."""
    unit, extent = unit_of(tensor), access.lane.extent
    if access.subscripts[unit] != Dim.of(access.lane.symbol) or not extent.variables <= sizes.keys():
        return False
    own = max(0, extent.evaluate(sizes))
    spare = tensor.spare if unit == len(tensor.shape) - 1 else 0
    if access.store and own != tensor.shape[unit]:
        return False
    return -(-own // vector) * vector <= tensor.shape[unit] + spare and aligned(access, tensor, sizes, vector)


def least_of(extent: Dim) -> tuple[Dim, ...]:
    """What an extent is the least of: of a minimum, so many times one, and what is added to one, what it is with each item in its
    place."""
    for coefficient, monomial in extent.terms:
        least = [atom for atom in monomial if isinstance(atom, Minimum)]
        others = [atom for atom in monomial if isinstance(atom, Symbol)]  # sizes and indices, which are at least 0
        if coefficient > 0 and len(least) == 1 and len(others) == len(monomial) - 1:
            rest = extent - Dim({monomial: coefficient})
            times = prod((Dim.of(symbol) for symbol in others), start=Dim.of(coefficient))
            with suppress(DimensionTooLarge):
                return tuple(rest + item * times for item in least[0].items)
    return (extent,)


def divides(vector: int, extent: Dim, sizes: MappingOf[Symbol, int]) -> bool:
    """Whether an extent is a multiple of a number, in every row."""
    known = extent.substitute({s: Dim.of(n) for s, n in sizes.items()})
    items = least_of(known)
    if len(items) > 1:
        return all(divides(vector, item, sizes) for item in items)
    plain = all(isinstance(a, Symbol) for _, monomial in known.terms for a in monomial)
    return plain and all(coefficient % vector == 0 for coefficient, _ in known.terms)


def aligned(
    access: Access, tensor: DeviceTensor, sizes: MappingOf[Symbol, int], vector: int, known: Set[Quotient] = frozenset()
) -> bool:
    """Whether the first of so many neighbours is always at a multiple of an access's bytes; of elements that come with others, the
    first of those is."""
    size = max(1, tensor.element.bits // 8)
    step = min(vector, ACCESS // size)
    if tensor.pointer % (step * size):
        return False
    lane = access.lane.symbol
    for subscript, stride, extent in zip(access.subscripts, tensor.strides, tensor.shape, strict=True):
        block = _block(subscript, lane, vector, known)
        if stride % step == 0 and not block:
            continue
        if not isinstance(subscript, Dim):
            return False
        begins = (*multiples(subscript, lane, vector, known, sizes), extent if block else subscript.offset)
        if any(n * stride % (block or step) for n in begins):
            return False
    return True


def _block(subscript: Dim | Scalar, lane: Symbol, vector: int, known: Set[Quotient]) -> int:
    """How many elements neighbours are read among; 0 if each has the next."""
    if not known or not isinstance(subscript, Dim) or lane not in subscript.variables:
        return 0
    along = steps(subscript, lane, vector, known)
    found = picked(subscript, lane, vector, known) if along is None or any(along) else None
    return 0 if found is None or along == tuple(range(vector)) else found[0]


def lies_flat(nest: Nest, tensors: MappingOf[Symbol, DeviceTensor]) -> bool:
    """Whether a map is one over a single long axis: it reads and stores each element at its own place, in tensors without gaps."""
    rows = tuple(Dim.of(axis.symbol) for axis in nest.rows)
    own = {axis.symbol for axis in nest.rows}
    if len(rows) < 2 or not nest.stored or any(len(step.axes) != len(rows) for step in nest.steps):
        return False
    made = {out.symbol for step in nest.steps for out in step.outs}
    used: set[Symbol] = set(nest.stored)
    for node in (n for step in nest.steps for s in scalars(step) for n in nodes(s)):
        match node:
            case Index(dim=dim) if not dim.variables.isdisjoint(own):
                return False
            case Read(tensor=tensor, subscripts=subscripts, padding=padding):
                plain = padding is None and all(isinstance(s, Dim) for s in subscripts)
                if subscripts == rows and plain:
                    used |= {tensor} - made
                elif not plain or any(isinstance(s, Dim) and not s.variables.isdisjoint(own) for s in subscripts):
                    return False
    for lying in (tensors[symbol] for symbol in used):
        inner = zip(lying.strides, lying.strides[1:], lying.shape[1:], strict=False)
        if lying.shape != tensors[nest.stored[0]].shape or any(outer != stride * n for outer, stride, n in inner):
            return False
    return True


def following(nest: Nest) -> dict[Symbol, tuple[Compute, ...]]:
    """Of slices the steps that are made of elements of one scan, by its first result: of each element when it is in registers."""
    found: dict[Symbol, tuple[Compute, ...]] = {}
    if nest.slices is None:
        return found
    made = {out.symbol for step in nest.steps for out in step.outs}
    by: dict[Symbol, Symbol] = {}
    for step in nest.steps:
        first = step.outs[0].symbol
        if isinstance(step, Compute):
            sources = {by.get(symbol) for symbol in tensors_of(step) & made}
            source = sources.pop() if len(sources) == 1 else None
            if source is None:
                continue
            found[source] = (*found.get(source, ()), step)
            first = source
        by |= dict.fromkeys((out.symbol for out in step.outs), first)
    return found


def is_ordered(step: Compute) -> bool:
    """Whether a reduction must take its elements in the order of its axes.

    Of equally good ones `argmax` and `argmin` want the first: if its indices are the axes', they tell.
    """
    reduction = step.reduction
    if reduction is None or reduction.monoid.kind not in ("argmax", "argmin"):
        return reduction is not None and reduction.monoid.kind == "custom"
    return step.body[1:] != tuple(Index(Dim.of(axis.symbol)) for axis in reduction.axes)


def held_in_registers(nest: Nest) -> bool:
    """Whether all steps of a nest go through one loop of the same extent, and what passes between them stays at its element."""
    rows = len(nest.rows)
    extents = set()
    inside: set[Symbol] = set()
    for step in nest.steps:
        if isinstance(step, Scan):
            return False
        axes = (*inner(step, rows), *reduced(step))
        if len(axes) > 1:
            return False
        if axes:
            extents.add(axes[0].extent)
            if not axes[0].extent.variables.isdisjoint(a.symbol for a in nest.rows):
                return False
        if is_ordered(step) or ends_early(step):
            return False
        for node in (n for s in scalars(step) for n in nodes(s)):
            if isinstance(node, Read) and node.tensor in inside:
                wanted = (*(Dim.of(a.symbol) for a in nest.rows), *(Dim.of(a.symbol) for a in axes))
                if node.subscripts != wanted:
                    return False
        if inner(step, rows):
            inside |= {out.symbol for out in step.outs}
    return len(extents) <= 1


def uniform(nest: Nest, vector: int, sizes: MappingOf[Symbol, int]) -> Iterator[Scalar]:
    """The comparisons of indices, of a nest by lanes, that come out the same for so many neighbours from an aligned one on.

    `j + r < 0` does if r is a multiple of the vector in every row, since j begins at a multiple.
    """
    lane = nest.rows[-1].symbol
    known = {s: Dim.of(n) for s, n in sizes.items()}
    for step in nest.steps:
        for node in (n for scalar in scalars(step) for n in nodes(scalar)):
            if not isinstance(node, Binary) or node.op not in ("lt", "ge", "gt", "le"):
                continue
            sides = [index_of(side) for side in (node.left, node.right)]
            if sides[0] is None or sides[1] is None:
                continue
            split = (sides[0] - sides[1]).substitute(known).linear_in(lane)
            if split is None or split[0].constant not in (1, -1) or lane in split[1].variables:
                continue
            # j + r < 0, or r - j < 0; `ge` is `not lt`, `le` is `not gt`, and a > b is a - 1 >= b.
            rest = split[1] if split[0].constant == 1 else -split[1]
            off = 0 if (node.op in ("lt", "ge")) == (split[0].constant == 1) else 1
            plain = all(isinstance(a, Symbol) for _, monomial in rest.terms for a in monomial)
            if plain and all(c % vector == 0 for c, monomial in (rest - off).terms):
                yield node
