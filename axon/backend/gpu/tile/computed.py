"""Factors of a product that are computed on the way to the tensor cores: weights in codes of 8 or 4 bits, casts, scales, guards.

Note [Computed factors]
    The left factor of a matrix instruction may lie in registers. So of `sum k => x[i, k] * e[j, k]`, where e is any expression that
    needs no reduction and cannot fail, e is made the left factor: its index j names the rows, and i, however few there are of it,
    the columns, the narrow side of the instruction. Bulk copies bring tiles of what e reads at each k, or once for `per`
    neighbouring ones, `w[j, k / 2]`, as it lies in memory: these are *staged*, and packed bytes are read once. What is read at
    rows alone, or once for many k (`scale[j, k / 128]`), consumers load from memory, once for as many k as have the same element.
    Each thread computes just the elements of the left factor that the instruction wants of it (Note [Accumulators] in
    `emit.kernel`): in the 16 bits of the other factor what core has in these, two neighbours at once, and else in f32.

    The stage goes back when the products that follow in the same step are retired: every thread has read what it computes with
    before it issues them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd

from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import Views
from axon.backend.gpu.tile.epilogue import EpilogueOperand, bare
from axon.backend.kernel.tensor_core_scalars import obstacle
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.integer_ranges import of_scalar
from axon.core.ir import Axis, Binary, Bind, Compute, Convert, Local, Read, Scalar, Select, Unary, element_of
from axon.core.scalar_facts import certain, substitute
from axon.core.walk import nodes, reads, rewrite
from axon.shapes.dimension import Dim, Quotient

STAGED = (Element.U8, Element.I8, Element.U16, Element.I16, Element.BF16, Element.F16, Element.F32)
LOADED = (*STAGED, Element.I32)  # from memory
MOST_DEPTH = 256  # of a tile, of which a thread holds half as many elements
BLOCK = 8  # neighbours of the depth, of which a quad of threads has two each
DEAR = 16  # instructions of a division, a function, a load
DEAR_BINARY, CHEAP_UNARY = ("div", "mod", "pow", "atan2"), ("neg", "abs", "not", "bit_not")
EXACT = {Element.BF16: 8, Element.F16: 11}  # bits of whole numbers that 16-bit floats hold


@dataclass(frozen=True, slots=True)
class Staged:
    """What of a factor bulk copies bring: in its expression an element is `local`, and `per` neighbours of the depth have one."""

    local: Symbol
    per: int


@dataclass(frozen=True, slots=True)
class Computed:
    """A left factor that consumers compute: `expression` over rows, depth and outer indices, of the elements `staged` of the
    product's left operands, and of reads from memory."""

    symbol: Symbol
    element: Element
    expression: Scalar
    staged: tuple[Staged, ...]

    def unit(self, depth: Symbol) -> int:
        """For how many neighbours of the depth what is read from memory is the same: 0 if for all. They begin at multiples. Of
        what is divided by a size nothing is known: 1."""
        divisors = (
            d for read in reads(self.expression) for s in read.subscripts if isinstance(s, Dim) for d in _divisors(s, depth)
        )
        return gcd(*divisors)

    def work(self, depth: Symbol) -> float:
        """About how many instructions an element takes; what all of a row have in common counts nothing, and what is done to two
        neighbours at once half."""
        staged = {one.local for one in self.staged}
        found = 1.0  # it is loaded
        for node in nodes(self.expression):
            if isinstance(node, Read):
                found += 0 if self.unit(depth) % BLOCK == 0 else DEAR
            elif not any(isinstance(inner, Local) and inner.symbol in staged for inner in nodes(node)):
                continue
            elif (isinstance(node, Binary) and node.op in DEAR_BINARY) or (isinstance(node, Unary) and node.op not in CHEAP_UNARY):
                found += DEAR
            elif isinstance(node, Convert) and element_of(node.operand).is_integer and node.element.is_float:
                found += 1.5
            elif isinstance(node, Binary | Unary | Convert | Select):
                found += 0.5 if element_of(node) is self.element else 1
        return found


def granule(element: Element, per: int) -> int:
    """Of so many of the depth one swizzle width of a staged tensor has the elements."""
    return HOPPER.swizzle * 8 // element.bits * per


# ── seeing through what makes a factor ──────────────────────────────────────────────────────────────────────────────────


def candidates(deep: Sequence[Scalar]) -> Iterator[int]:
    """The factors of a sum, by number, beside which the others may be computed."""
    for number, factor in enumerate(deep if len(deep) > 1 else ()):
        if isinstance(factor, Read) and factor.element in EXACT:
            yield number


def inlined(
    op: Compute, deep: Sequence[Scalar], shallow: Sequence[Scalar], beside: int, producers: Mapping[Symbol, Compute]
) -> Compute:
    """The sum with one factor first, as it is read, and the others with all that pointwise operations make of what they read."""
    (out,) = op.outs

    def visit(node: Scalar) -> Scalar | None:
        made = producers.get(node.tensor) if isinstance(node, Read) else None
        if not isinstance(node, Read) or made is None or node.padding is not None or node.checked is not None:
            return None
        at = {axis.symbol: s for axis, s in zip(made.axes, node.subscripts, strict=True) if isinstance(s, Dim)}
        body = made.body[[v.symbol for v in made.outs].index(node.tensor)]
        if len(at) < len(made.axes) or any(isinstance(inner, Bind) for inner in nodes(body)):
            return None
        return rewrite(substitute(body, at), visit)

    others = [rewrite(factor, visit) for number, factor in enumerate(deep) if number != beside]
    product = deep[beside]
    product = product if element_of(product) is out.element else Convert(product, out.element)
    for factor in (joined(others), *shallow):
        product = Binary("mul", product, factor if element_of(factor) is out.element else Convert(factor, out.element))
    return replace(op, body=(product,))


def joined(factors: Sequence[Scalar]) -> Scalar:
    """Several factors as one, of the widest of their element types."""
    first, *others = factors
    for factor in others:
        wide = max(element_of(first), element_of(factor), key=lambda element: element.bits)
        first, factor = (x if element_of(x) is wide else Convert(x, wide) for x in (first, factor))
        first = Binary("mul", first, factor)
    return first


def held_in(rest: Scalar, element: Element) -> bool:
    """Whether a factor is one of 16 bits as core means it, so that rounding it to them loses nothing: its own element type, or a
    whole number that they hold."""
    if element_of(rest) is element:
        return True
    if isinstance(rest, Convert) and element_of(rest.operand).is_integer:
        low, high = of_scalar(rest.operand)
        return max(-low, high) <= 1 << EXACT[element]
    return isinstance(rest, Convert) and element_of(rest.operand) is element


# ── a factor as it is computed ──────────────────────────────────────────────────────────────────────────────────────────


def computed(
    rest: Scalar, element: Element, rows: Axis, depth: Axis, others: Sequence[Axis], views: Views
) -> tuple[Computed, tuple[EpilogueOperand, ...]]:
    """A factor that is computed, and the operands of which tiles are staged. Raises `Unsupported` for one that cannot be."""
    if not held_in(rest, element):
        raise Unsupported(f"a computed factor in {element_of(rest).value}, which {element.value} does not hold")
    why = obstacle(rest, {axis.symbol for axis in (rows, depth, *others)})
    if why:
        raise Unsupported(f"a computed factor {why}")
    found: dict[Read, tuple[Staged, EpilogueOperand]] = {}
    sure = {node for node in certain(rest) if isinstance(node, Read)}

    def visit(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read):
            return None
        if node.padding is not None or node.checked is not None or not all(isinstance(s, Dim) for s in node.subscripts):
            raise Unsupported("a computed factor reads a tensor at more than indices")
        if node not in sure and not views.inside(node):  # it is loaded before anyone knows whether a condition holds
            raise Unsupported("a computed factor reads a tensor where only a condition keeps it inside")
        per = _per(node, depth.symbol)
        if per is None:
            if node.element not in LOADED:
                raise Unsupported(f"a computed factor reads {node.element.value} from memory")
            return node
        if node not in found:
            found[node] = _staged(node, per, rows.symbol, depth, views)
        return Local(found[node][0].local, node.element)

    expression = rewrite(rest, visit)
    if not found or isinstance(rest, Read):
        raise Unsupported("a computed factor that reads nothing at what is summed")
    made = Computed(fresh("computed"), element, expression, tuple(staged for staged, _ in found.values()))
    return made, tuple(operand for _, operand in found.values())


def _per(read: Read, depth: Symbol) -> int | None:
    """How many neighbours of the depth have an element of what is read, if it is staged; None if it is loaded from memory."""
    inside = [s for s in read.subscripts if isinstance(s, Dim) and depth in s.variables]
    if not inside:
        return None
    linear = [s.linear_in(depth) for s in inside]
    if len(inside) == 1 and linear[0] is not None:
        per = 1
    else:
        divisors = [d for s in inside for d in _divisors(s, depth)]
        whole = len(inside) == 1 and depth not in (inside[0] - Dim.of(depth) // divisors[0]).variables
        if not whole or granule(read.element, divisors[0]) > MOST_DEPTH or divisors[0] & (divisors[0] - 1):
            return None
        per = divisors[0]
    if read.element not in STAGED or granule(read.element, per) > MOST_DEPTH:
        raise Unsupported(f"a computed factor of {read.element.value}, of which no tiles are staged")
    return per


def _divisors(subscript: Dim, depth: Symbol) -> Iterator[int]:
    """By what a subscript divides the depth, 1 for a size. Raises `Unsupported` where it does more than that with it."""
    for monomial in subscript.mapping:
        for atom in monomial:
            if isinstance(atom, Symbol):
                if atom == depth:
                    yield 1
            elif depth in Dim({(atom,): 1}).variables:
                if not isinstance(atom, Quotient) or atom.dividend != Dim.of(depth) or depth in atom.divisor.variables:
                    raise Unsupported("a computed factor reads a tensor at other indices than quotients of what is summed")
                yield atom.divisor.constant or 1


def _staged(read: Read, per: int, rows: Symbol, depth: Axis, views: Views) -> tuple[Staged, EpilogueOperand]:
    """The operand of which tiles are staged: read at the depth, or at an index that has one place for several of it."""
    staged = Staged(fresh(read.tensor.name), per)
    part = depth.symbol if per == 1 else fresh(depth.symbol.name)
    if per > 1:
        views.extents[part] = (depth.extent + (per - 1)) // per
        whole, place = Dim.of(depth.symbol) // per, Dim.of(part)
        at = (s - whole + place if isinstance(s, Dim) and depth.symbol in s.variables else s for s in read.subscripts)
        read = replace(read, subscripts=tuple(at))
    seen = views.seen(read)
    axes = None if seen is None else bare(seen)
    if seen is None or axes is None or rows not in axes:
        raise Unsupported("a computed factor reads what is summed of a tensor at more than indices, or without its own")
    axes = tuple(depth.symbol if axis == part else axis for axis in axes)
    return staged, EpilogueOperand(views.value(seen.tensor), axes, tuple(range(len(axes))))
