"""The tile IR: what one thread block does for one tile of the result, in tiles and memories, with no notion of threads.

    tile(i 128, j 256):
      product : f32[128, 256] registers = 0
      for k by 64:
        left : bf16[i 128, k 64] shared = load a[i, k]
        right : bf16[j 256, k 64] shared = load b[j, k]
        product += left · right over k
      store out[i, j] = cast bf16 product

A tile's axes are listed as it is stored, the contiguous one last: a transposed operand is a tile with its axes exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, TypeAlias, assert_never

from axon.backend.gpu.layout.pages import Pages
from axon.backend.gpu.layout.products import INTERLEAVED, WEIGHT
from axon.backend.gpu.layout.scales import Scale
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.tile.bounds import BLOCK, Bounds, bounds
from axon.backend.gpu.tile.computed import Computed
from axon.backend.gpu.tile.contraction import MatrixProduct, terms
from axon.backend.gpu.tile.epilogue import EpilogueOperand, bare, views_of
from axon.backend.gpu.tile.online_softmax import ONE, local_symbols
from axon.backend.gpu.tile.ragged import Ragged
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.segments import REACH, Segments
from axon.backend.gpu.tile.stream import Stream
from axon.backend.gpu.tile.text import SymbolNames, Texts, dim_text, scalar_text
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.passes import require, verified
from axon.core.ir import Scalar, Value
from axon.shapes.dimension import Dim

Memory: TypeAlias = Literal["shared", "registers"]


@dataclass(frozen=True, slots=True)
class TileAxis:
    """An index cut into pieces of `step`; the last piece may reach past the extent."""

    symbol: Symbol
    extent: Dim
    step: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A piece of a tensor in a memory: an element type and, for each axis it covers, how much of it."""

    symbol: Symbol
    element: Element
    axes: tuple[Symbol, ...]
    shape: tuple[int, ...]
    memory: Memory

    @property
    def bytes(self) -> int:
        size = self.element.bits // 8
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True, slots=True)
class Clear:
    tile: Tile


@dataclass(frozen=True, slots=True)
class Load:
    """Fill a tile from a tensor at the current pieces of `axes`, which are its dimensions `order`. Outside the tensor it is 0.

    So many neighbours along the last axis, `per`, have one element. In `pages`, a box is read from the page that a table names. An
    `interleaved` tensor has its last axis in the order in which registers hold factors of 8 bits (see `layout.products`).
    """

    tile: Tile
    tensor: Symbol
    axes: tuple[Symbol, ...]
    order: tuple[int, ...]
    per: int = 1
    pages: Pages | None = None
    interleaved: bool = False


@dataclass(frozen=True, slots=True)
class Evaluate:
    """tile = a factor that is computed, element by element, of `staged` tiles and of what is read in memory; 0 beyond the depth."""

    computed: Computed
    tile: Tile
    staged: tuple[Tile, ...]
    over: Symbol


@dataclass(frozen=True, slots=True)
class Multiply:
    """accumulator[i, j] += sum over `over` of left * right."""

    accumulator: Tile
    left: Tile
    right: Tile
    over: Symbol


@dataclass(frozen=True, slots=True)
class Settle:
    """What is not finite in a tile is 0: of products of limbs that are small beside the one that follows (Note [Limbs])."""

    tile: Tile


@dataclass(frozen=True, slots=True)
class ReadScales:
    """The product of all scales at the current piece of `over`, for each element of a tile of `axes`."""

    symbol: Symbol
    scales: tuple[Scale, ...]
    over: Symbol


@dataclass(frozen=True, slots=True)
class Promote:
    """accumulator += partial, in f32: a matrix instruction cuts off what an addition rounds. The partial sum is multiplied by
    `scales` that were read, if there are any, and what was summed before by a `correction` that was held, if there is one."""

    accumulator: Tile
    partial: Tile
    scales: Symbol | None = None
    correction: Symbol | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """Nothing of the stream has been seen: the peaks of the rows are -inf, their totals 0."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class Fold:
    """Let the rows' peaks and totals see a tile of scores, and turn it into weights, by the tiles of other scores of the stream.
    `correction` repairs what was summed before.

    Elements outside the streamed axis, or where the mask does not hold, get weight 0.
    """

    stream: Stream
    scores: Tile
    weights: Tile
    others: tuple[Tile, ...] = ()


@dataclass(frozen=True, slots=True)
class Narrow:
    """Round a tile to the element type that a product takes; what that leaves goes to `rest`, one after the other: the tile is the
    sum of all."""

    source: Tile
    target: Tile
    rest: tuple[Tile, ...] = ()

    @property
    def targets(self) -> tuple[Tile, ...]:
        return (self.target, *self.rest)


@dataclass(frozen=True, slots=True)
class Rescale:
    """accumulator *= the correction of its rows that the last `Fold` found."""

    stream: Stream
    accumulator: Tile


@dataclass(frozen=True, slots=True)
class Hold:
    """The correction of rows that the last `Fold` found, for a sum that is promoted when the next one may have found another."""

    stream: Stream
    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Finish:
    """The values of the finished rows."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class StoreRows:
    """tensor[axes] = a value of each finished row, inside the tensor."""

    stream: Stream
    tensor: Symbol
    element: Element
    axes: tuple[Symbol, ...]
    final: Symbol


@dataclass(frozen=True, slots=True)
class Store:
    """tensor[axes] = expression, element by element over the accumulators' tile, inside the tensor."""

    tensor: Symbol
    element: Element
    axes: tuple[Symbol, ...]
    expression: Scalar
    sums: tuple[tuple[Symbol, Tile], ...]  # accumulators, and the locals that stand for their elements


@dataclass(frozen=True, slots=True)
class For:
    """The body once for each piece of an axis, in order; `backwards` from the last, over the pieces that a mask leaves."""

    axis: TileAxis
    body: tuple[Statement, ...]
    backwards: bool = False


# On what registers hold.
Work: TypeAlias = "Settle | ReadScales | Promote | Reset | Fold | Narrow | Rescale | Hold | Finish | StoreRows"
Statement: TypeAlias = "Clear | Load | Evaluate | Multiply | Work | Store | For"


@dataclass(frozen=True, slots=True)
class TileProgram:
    """`outer`, `rows` and `columns` cut the result into tiles; `body` makes one of them.

    `derived` are indices that follow from the tile's, `whole` axes that one piece covers, `bounds` the pieces that a mask leaves,
    `views` what is read or stored through other strides. Which rows a tile has, and the index that is one for all of these, may be
    read from tables (`ragged`), and so may be which rows of the reduced axis belong to a tile (`segments`), or in which `pages`
    they are.
    """

    tensors: tuple[Value, ...]
    outer: tuple[TileAxis, ...]
    rows: TileAxis
    columns: TileAxis
    body: tuple[Statement, ...]
    derived: tuple[tuple[Symbol, Dim], ...] = ()
    whole: tuple[TileAxis, ...] = ()
    bounds: Bounds | None = None
    views: tuple[View, ...] = ()
    ragged: Ragged | None = None
    segments: Segments | None = None
    pages: tuple[Pages, ...] = ()

    @property
    def axes(self) -> tuple[TileAxis, ...]:
        return (*self.outer, self.rows, self.columns)


@verified("tile", lambda made, *_: verify(made), takes="kernels", gives="tiles")
def tile(kernel: MatrixProduct | Stream, mapping: TileMapping, tensors: tuple[Value, ...]) -> TileProgram:
    """Cut a kernel into tiles as the mapping says. `tensors` are all that the kernel reads or stores."""
    rows = TileAxis(kernel.rows.symbol, kernel.rows.extent, mapping.rows)
    columns = TileAxis(kernel.columns.symbol, kernel.columns.extent, mapping.columns)
    depth = TileAxis(kernel.depth.symbol, kernel.depth.extent, mapping.depth)
    outer = tuple(TileAxis(a.symbol, a.extent, 1) for a in kernel.outer)
    products = kernel.products if isinstance(kernel, MatrixProduct) else (kernel.product,)
    shape = ((rows.symbol, columns.symbol), (rows.step, columns.step))
    element = kernel.sum if isinstance(kernel, MatrixProduct) else Element.F32
    sums = tuple((product, Tile(fresh("acc"), element, *shape, "registers")) for product in products)
    accumulator = sums[0][1]
    stores = tuple(
        Store(r.place.symbol, r.place.element, r.axes, r.expression, sums_of(r.expression, sums)) for r in kernel.results
    )
    body: tuple[Statement, ...]
    match kernel:
        case MatrixProduct():
            clear = (Clear(tile) for _, tile in sums)
            body = (*clear, _contracting(kernel, depth, rows, columns, tuple(tile for _, tile in sums)), *stores)
            return TileProgram(
                tensors, outer, rows, columns, body, kernel.derived, views=views_of(kernel), ragged=kernel.ragged,
                segments=kernel.segments,
            )  # fmt: skip
        case Stream(keys=along, condition=condition):
            keys = TileAxis(along.symbol, along.extent, mapping.keys)
            uniform = frozenset([*(a.symbol for a in kernel.outer), *(symbol for symbol, _ in kernel.derived)])
            limits = bounds(
                condition, rows.symbol, keys.symbol, along.extent, lambda read: set(bare(read) or ()) <= uniform, kernel.reaches
            )
            depths = tuple(TileAxis(axis.symbol, axis.extent, mapping.depth) for axis in kernel.depths)
            values = (StoreRows(kernel, r.value.symbol, r.value.element, r.axes, r.final) for r in kernel.row_results)
            if kernel.further:
                made = _streaming_limbs(kernel, depths[0], rows, columns, keys, accumulator)
            else:
                made = _streaming(kernel, depths, rows, columns, keys, accumulator)
            body = (*made, Finish(kernel), *values, *stores)
            return TileProgram(
                tensors, outer, rows, columns, body, kernel.derived, depths, limits, views_of(kernel), pages=kernel.pages
            )
        case _:
            assert_never(kernel)


def sums_of(expression: Scalar, sums: tuple[tuple[Symbol, Tile], ...]) -> tuple[tuple[Symbol, Tile], ...]:
    """The accumulators that an expression takes: at least one, of which it has its shape."""
    used = local_symbols(expression)
    return tuple(each for each in sums if each[0] in used) or sums[:1]


def _contracting(kernel: MatrixProduct, depth: TileAxis, rows: TileAxis, columns: TileAxis, sums: tuple[Tile, ...]) -> For:
    steps = {a.symbol: a.step for a in (rows, columns, depth)}
    accumulator, *others = sums
    if kernel.computed is not None:
        return _computing(kernel, kernel.computed, depth, rows, columns, accumulator)
    lefts = [_operand_tile("left", operand, steps) for operand in kernel.lefts]
    rights = [_operand_tile("right", operand, steps) for operand in kernel.rights]
    side = "right" if kernel.shared == "left" else "left"
    more = [_operand_tile(side, sibling.factor, steps) for sibling in kernel.siblings]
    loads = (_load(tile, operand) for tile, operand in zip((*lefts, *rights, *more), kernel.operands, strict=True))
    partial = Tile(fresh("partial"), accumulator.element, accumulator.axes, accumulator.shape, "registers")
    if kernel.promotion:
        scales = (ReadScales(fresh("scales"), kernel.scales, depth.symbol),) if kernel.scales else ()
        promote = Promote(accumulator, partial, scales[0].symbol if scales else None)
        own = (Clear(partial), Multiply(partial, lefts[0], rights[0], depth.symbol), promote)
        return For(depth, (*loads, *scales, *own))
    if len(kernel.terms) == 1:
        multiply = [Multiply(accumulator, lefts[0], rights[0], depth.symbol)]
        for other, tile in zip(others, more, strict=True):
            pair = (lefts[0], tile) if kernel.shared == "left" else (tile, rights[0])
            multiply.append(Multiply(other, *pair, depth.symbol))
        return For(depth, (*loads, *multiply))
    return For(depth, (*loads, *_sum_of_limbs(partial, lefts, rights, depth.symbol), Promote(accumulator, partial)))


def _computing(
    kernel: MatrixProduct, computed: Computed, depth: TileAxis, rows: TileAxis, columns: TileAxis, accumulator: Tile
) -> For:
    """The same of a left factor that is computed of what is staged of it."""
    steps = {a.symbol: a.step for a in (rows, columns, depth)}
    staged, loads = [], []
    for one, operand in zip(computed.staged, kernel.lefts, strict=True):
        tile = _operand_tile(one.local.name, operand, {**steps, depth.symbol: depth.step // one.per})
        staged.append(tile)
        loads.append(Load(tile, operand.value.symbol, operand.axes, operand.order, one.per))
    right = _operand_tile("right", kernel.right, steps)
    loads.append(_load(right, kernel.right))
    held = Tile(fresh("held"), computed.element, (rows.symbol, depth.symbol), (rows.step, depth.step), "registers")
    evaluate = Evaluate(computed, held, tuple(staged), depth.symbol)
    return For(depth, (*loads, evaluate, Multiply(accumulator, held, right, depth.symbol)))


def _streaming(
    kernel: Stream, depths: tuple[TileAxis, ...], rows: TileAxis, columns: TileAxis, keys: TileAxis, accumulator: Tile
) -> tuple[Statement, ...]:
    steps = {a.symbol: a.step for a in (rows, columns, *depths, keys)}
    shape = ((rows.symbol, keys.symbol), (rows.step, keys.step))
    first: list[Statement] = []
    scored: list[Statement] = []
    scores: list[Tile] = []
    for left, right, depth in zip(kernel.queries, kernel.key_operands, depths, strict=True):
        query, key = _operand_tile("query", left, steps), _operand_tile("key", right, steps)
        scores.append(Tile(fresh("scores"), Element.F32, *shape, "registers"))
        first.append(_load(query, left))
        scored += [_load(key, right, kernel.pages_of(right)), Clear(scores[-1]), Multiply(scores[-1], query, key, depth.symbol)]
    value = _operand_tile("value", kernel.value, steps)
    weights = Tile(fresh("weights"), Element.F32, *shape, "registers")
    narrow = Tile(fresh("rounded"), WEIGHT if kernel.interleaved else kernel.value.value.element, *shape, "registers")
    load = replace(_load(value, kernel.value, kernel.pages_of(kernel.value)), interleaved=kernel.interleaved)
    scored.append(Fold(kernel, scores[0], weights, tuple(scores[1:])))
    body: tuple[Statement, ...]
    if kernel.promotion:
        held, partial = Hold(kernel, fresh("held")), Tile(fresh("partial"), Element.F32, *_covered(accumulator), "registers")
        sums = (Clear(partial), Multiply(partial, narrow, value, keys.symbol))
        body = (*scored, load, held, Narrow(weights, narrow), *sums, Promote(accumulator, partial, correction=held.symbol))
    else:
        summed = Multiply(accumulator, narrow, value, keys.symbol)
        body = (*scored, load, Rescale(kernel, accumulator), Narrow(weights, narrow), summed)
    return (*first, Clear(accumulator), Reset(kernel), For(keys, body, backwards=True))


def _covered(tile: Tile) -> tuple[tuple[Symbol, ...], tuple[int, ...]]:
    """The axes of a tile, and how much of each."""
    return tile.axes, tile.shape


def _streaming_limbs(
    kernel: Stream, depth: TileAxis, rows: TileAxis, columns: TileAxis, keys: TileAxis, accumulator: Tile
) -> tuple[Statement, ...]:
    """The same with factors in limbs: each step makes both sums from nothing on, and adds the second to those before."""
    steps = {a.symbol: a.step for a in (rows, columns, depth, keys)}
    shape = ((rows.symbol, keys.symbol), (rows.step, keys.step))
    queries, held, values = (
        [_operand_tile(name, limb, steps) for limb in limbs]
        for name, limbs in zip(("query", "key", "value"), kernel.limbs, strict=True)
    )
    scores, weights = (Tile(fresh(name), Element.F32, *shape, "registers") for name in ("scores", "weights"))
    narrow = tuple(Tile(fresh("rounded"), kernel.value.value.element, *shape, "registers") for _ in values)
    partial = Tile(fresh("partial"), Element.F32, accumulator.axes, accumulator.shape, "registers")
    loads = [list(map(_load, tiles, limbs)) for tiles, limbs in zip((queries, held, values), kernel.limbs, strict=True)]
    body: tuple[Statement, ...] = (
        *loads[1],
        *_sum_of_limbs(scores, queries, held, depth.symbol),
        Fold(kernel, scores, weights),
        *loads[2],
        Rescale(kernel, accumulator),
        Narrow(weights, narrow[0], narrow[1:]),
        *_sum_of_limbs(partial, narrow, values, keys.symbol),
        Promote(accumulator, partial),
    )
    return (*loads[0], Clear(accumulator), Reset(kernel), For(keys, body, backwards=True))


def _sum_of_limbs(sum_: Tile, lefts: Sequence[Tile], rights: Sequence[Tile], over: Symbol) -> tuple[Statement, ...]:
    """The sum of a product of factors in limbs, the small products first: see Note [Limbs]."""
    *small, first = (Multiply(sum_, lefts[i], rights[j], over) for i, j in terms(len(lefts), len(rights)))
    return (Clear(sum_), *small, Settle(sum_), first)


def _load(tile: Tile, operand: EpilogueOperand, pages: Pages | None = None) -> Load:
    return Load(tile, operand.value.symbol, operand.axes, operand.order, pages=pages)


def _operand_tile(name: str, operand: EpilogueOperand, steps: dict[Symbol, int]) -> Tile:
    axes = tuple(a for a in operand.axes if a in steps)
    assert operand.axes[-1] in steps, "a factor that `prepare` has not let through"
    return Tile(fresh(name), operand.value.element, axes, tuple(steps[a] for a in axes), "shared")


def verify(program: TileProgram) -> None:
    """Raises FormInvalid unless every tile is defined before its use and fits the axes it stands under."""
    steps = {a.symbol: a.step for a in (*program.axes, *program.whole)} | {symbol: 1 for symbol, _ in program.derived}
    steps |= {symbol: 1 for pages in program.pages for symbol in pages.own}
    defined: set[Symbol] = set()
    interleaved: set[Symbol] = set()

    parts = program.segments
    if parts is not None:
        steps[parts.front] = 1
        require(parts.group in {axis.symbol for axis in program.outer}, "segments of groups of which a tile has several")
        for loop in (s for s in statements(program.body) if isinstance(s, For)):
            require(loop.axis.step <= REACH, f"a step of {loop.axis.step} rows of a segment, of which {REACH} can be left out")
            loads = (s for s in loop.body if isinstance(s, Load))
            require(all(_in_front(load, parts, loop.axis) for load in loads), "a factor that is not read from the front of a step")
    if program.ragged is not None:
        require(program.rows.step == program.ragged.step, "tiles of other rows than tables are for")

    def walk(body: tuple[Statement, ...], inside: dict[Symbol, int]) -> None:
        for statement in body:
            match statement:
                case Clear(tile=tile):
                    defined.add(tile.symbol)
                case Load(tile=tile, axes=axes, per=per, pages=pages, interleaved=interleaved_):
                    named = {symbol for of in program.pages for symbol in of.own} & set(axes)
                    require(named == set(pages.own if pages is not None else ()), "a load at pages that are not its own")
                    require(pages is None or pages in program.pages, "a load from pages of which the program does not know")
                    require(set(tile.axes) <= set(axes) <= set(inside), "a load outside the loops of its axes")
                    *outer, last = (inside[a] for a in tile.axes)
                    require((*tile.shape[:-1], tile.shape[-1] * per) == (*outer, last), "a tile that is not its axes' pieces")
                    whole = not interleaved_ or tile.shape[-1] % INTERLEAVED == 0
                    require(whole, "a tile that ends inside of interleaved elements")
                    defined.add(tile.symbol)
                    interleaved.update({tile.symbol} if interleaved_ else ())
                case Evaluate(computed=computed, tile=tile, staged=staged, over=over):
                    require({s.symbol for s in staged} <= defined, "a factor is computed of undefined tiles")
                    require(tile.axes[-1] == over and all(s.axes == tile.axes for s in staged), "a factor along other axes")
                    shapes = ((s.shape[0], s.shape[1] * one.per) for s, one in zip(staged, computed.staged, strict=True))
                    require(all(shape == tile.shape for shape in shapes), "a factor of other pieces")
                    defined.add(tile.symbol)
                case Multiply(accumulator=acc, left=left, right=right, over=over):
                    require({acc.symbol, left.symbol, right.symbol} <= defined, "a product of undefined tiles")
                    both = set(left.axes) & set(right.axes)
                    require(over in both - set(acc.axes), "a product over no shared axis")
                    require((right.memory, acc.memory) == ("shared", "registers"), "a product in other memories")
                    held = left.memory == "registers" and left.element.bits == 8
                    require((right.symbol in interleaved) == held, "a factor whose order is not that of the other")
                case Settle(tile=tile):
                    require(tile.symbol in defined, "an undefined tile is settled")
                case ReadScales(symbol=symbol, scales=scales, over=over):
                    require(over in inside, "scales are read outside the loop that they change in")
                    require(all(scale.per % inside[over] == 0 for scale in scales), "a step that has several scales")
                    defined.add(symbol)
                case Promote(accumulator=acc, partial=partial, scales=scales_of, correction=correction):
                    require(scales_of is None or scales_of in defined, "a sum is multiplied by scales that nobody has read")
                    require(correction is None or correction in defined, "a sum is corrected by what nobody has held")
                    require({acc.symbol, partial.symbol} <= defined, "an undefined tile is promoted")
                    require((acc.axes, acc.shape) == (partial.axes, partial.shape), "a tile promoted to another shape")
                case Fold(stream=stream, scores=scores, weights=weights, others=others):
                    require({s.symbol for s in (scores, *others)} <= defined, "a fold of undefined scores")
                    require({s.shape for s in (scores, *others)} == {weights.shape}, "weights of other scores")
                    require(len(others) == len(stream.others), "a fold that has not all scores")
                    defined.add(weights.symbol)
                case Narrow(source=source, targets=targets):
                    require(source.symbol in defined, "an undefined tile is narrowed")
                    require({target.shape for target in targets} == {source.shape}, "a tile narrowed to another shape")
                    defined.update(target.symbol for target in targets)
                case Rescale(accumulator=acc):
                    require(acc.symbol in defined, "an undefined tile is rescaled")
                case Hold(symbol=symbol):
                    defined.add(symbol)
                case Reset() | Finish():
                    pass
                case StoreRows(stream=stream, axes=axes, final=final):
                    require(final in {symbol for symbol, _ in stream.finals}, "a row value that is never finished is stored")
                    require(set(axes) <= set(inside), "a row value is stored outside its tile")
                case Store(axes=axes, sums=sums):
                    require(len({acc.shape for _, acc in sums}) == 1, "a store of tiles of several shapes")
                    for _, acc in sums:
                        require(acc.symbol in defined, "a store of an undefined tile")
                        require(set(acc.axes) <= set(axes) <= set(inside), "a store outside its tile")
                case For(axis=axis, body=inner):
                    walk(inner, inside | {axis.symbol: axis.step})
                case _:
                    assert_never(statement)

    walk(program.body, steps)


def _in_front(load: Load, parts: Segments, depth: TileAxis) -> bool:
    """Whether a load reads rows of a segment alone: its indices along them are two, where they begin, and how far from there."""
    return parts.front in load.axes and load.axes[load.axes.index(parts.front) + 1 :][:1] == (depth.symbol,)


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement, loops before their bodies."""
    for statement in body:
        yield statement
        if isinstance(statement, For):
            yield from statements(statement.body)


def render(program: TileProgram) -> str:
    """The program as text, deterministic."""
    names = SymbolNames()
    lines = [f"tile({', '.join(f'{names[a.symbol]} {a.step}' for a in program.axes)}):"]
    folds = [s.stream for s in statements(program.body) if isinstance(s, Fold)]
    lines += ["  " + line for line in given(program, folds[0] if folds else None, names)]

    def walk(body: tuple[Statement, ...], indent: str) -> None:
        for statement in body:
            lines.append(indent + statement_text(statement, names))
            if isinstance(statement, For):
                walk(statement.body, indent + "  ")

    walk(program.body, "  ")
    return "\n".join(lines) + "\n"


def statement_text(statement: Statement, names: SymbolNames) -> str:
    match statement:
        case Clear(tile=tile):
            return f"{tile_text(tile, names)} = 0"
        case Load(tile=tile, tensor=tensor, axes=axes, per=per, interleaved=interleaved):
            order = ", interleaved" if interleaved else ""
            return f"{tile_text(tile, names)} = load {names[tensor]}[{places_text(axes, per, names)}]{order}"
        case Evaluate(computed=computed, tile=tile, staged=staged):
            for one, source in zip(computed.staged, staged, strict=True):
                names.same(one.local, source.symbol)
            return f"{tile_text(tile, names)} = {scalar_text(computed.expression, names)}"
        case Multiply(accumulator=acc, left=left, right=right, over=over):
            return f"{names[acc.symbol]} += {names[left.symbol]} · {names[right.symbol]} over {names[over]}"
        case Settle(tile=tile):
            return f"{names[tile.symbol]} = {names[tile.symbol]} where finite, else 0"
        case ReadScales(symbol=symbol, scales=scales):
            return f"{names[symbol]} = {' * '.join(scalar_text(scale.read, names) for scale in scales)}"
        case Promote(accumulator=acc, partial=partial, scales=scales_of, correction=correction):
            scaled = "" if scales_of is None else f"{names[scales_of]} * "
            before = f"+= {scaled}" if correction is None else f"= {names[acc.symbol]} * {names[correction]} + {scaled}"
            return f"{names[acc.symbol]} {before}{names[partial.symbol]}"
        case Hold(symbol=symbol):
            return f"{names[symbol]} = correction"
        case Store(tensor=tensor, axes=axes):
            at = ", ".join(names[a] for a in axes)
            return f"store {names[tensor]}[{at}] : {statement.element.value} = {stored_text(statement, names)}"
        case Reset(stream=stream):
            sums = [f"{names[symbol]} = 0" for symbol, _ in stream.totals]
            return ", ".join([*([f"{names[stream.peak]} = -inf"] if stream.peak else []), *sums]) or "no statistics"
        case Fold(scores=scores, weights=weights, others=others):
            return f"{tile_text(weights, names)} = fold {', '.join(names[s.symbol] for s in (scores, *others))}"
        case Narrow(source=source, targets=targets):
            made = ", ".join(tile_text(target, names) for target in targets)
            how = f"cast {targets[0].element.value}" if len(targets) == 1 else f"{len(targets)} {targets[0].element.value} of"
            return f"{made} = {how} {names[source.symbol]}"
        case Rescale(accumulator=acc):
            return f"{names[acc.symbol]} *= correction"
        case Finish(stream=stream):
            return "; ".join(f"{names[s]} = {scalar_text(v, names)}" for s, v in stream.finals) or "no row values"
        case StoreRows(tensor=tensor, axes=axes, final=final):
            at = ", ".join(names[a] for a in axes)
            return f"store {names[tensor]}[{at}] : {statement.element.value} = {names[final]} of each row"
        case For(axis=axis, backwards=backwards):
            return f"for {names[axis.symbol]} by {axis.step}{' from the last' if backwards else ''}:"


def places_text(axes: tuple[Symbol, ...], per: int, names: SymbolNames) -> str:
    """The axes at which a tensor is read, of which so many neighbours along the last have one element."""
    *outer, last = (names[a] for a in axes)
    return ", ".join((*outer, last if per == 1 else f"{last} / {per}"))


class Mentions(Protocol):
    """What statements mention without saying, in a program of any phase."""

    @property
    def derived(self) -> tuple[tuple[Symbol, Dim], ...]: ...
    @property
    def views(self) -> tuple[View, ...]: ...
    @property
    def bounds(self) -> Bounds | None: ...
    @property
    def ragged(self) -> Ragged | None: ...
    @property
    def segments(self) -> Segments | None: ...
    @property
    def pages(self) -> tuple[Pages, ...]: ...


def given(program: Mentions, stream: Stream | None, names: SymbolNames) -> Iterator[str]:
    """What statements mention without saying: indices that follow from others, views, what a mask leaves, what a fold does."""
    ragged = program.ragged
    if ragged is not None:
        tables = ", ".join(names[table.symbol] for table in (ragged.tile_group, ragged.first, ragged.last))
        order = "" if ragged.order is None else f" of {names[ragged.order.symbol]}"
        yield f"rows of a tile{order}, all of one {names[ragged.group]}: by {tables}"
    parts = program.segments
    if parts is not None:
        front, start, group = names[parts.front], names[parts.start.symbol], names[parts.group]
        yield f"rows of each {group}: from {start}[{group}] until {start}[{group} + 1], in steps that end there"
        yield f"{front} is the first row of a step that is one of these, from which copies count: rows before it are 0"
    for symbol, dim in program.derived:
        yield f"{names[symbol]} = {dim_text(dim, names)}"
    yield from views_text(program.views, names)
    for pages in program.pages:
        whole, by = dim_text(pages.rows, names), names[pages.number]
        yield f"rows in pages of {whole}, counted by {by}: {names[pages.page]} = {scalar_text(pages.index, names)}"
        if pages.front is not None:
            most = [dim_text(pages.extent, names), *([] if pages.until is None else [scalar_text(pages.until, names)])]
            yield f"  of which rows before {' and '.join(most)} are read, by {names[pages.front]}: those behind them are 0"
    limits = program.bounds
    if stream is None:
        return
    if limits is not None and stream.condition is not None:
        for lookup in limits.looked:
            at = ", ".join((*(names[axis] for axis in lookup.axes), f"{names[stream.rows.symbol]} / {BLOCK}"))
            found = ", ".join(names[symbol] for symbol in lookup.locals)
            yield f"{found}: hull and common part of {names[lookup.table.symbol]}[{at}] of the tile's rows"
        some, every = (" until ".join(scalar_text(end, names) for end in interval) for interval in (limits.some, limits.every))
        rows, keys = f"{names[limits.first_row]} to {names[limits.last_row]}", names[stream.keys.symbol]
        yield f"mask: rows {rows} need {keys} from {some}, and keep all from {every}"
    yield "fold, for each row:"
    yield f"  {names[stream.changed]} = {scalar_text(stream.change, names)}"
    if stream.peak:
        yield f"  {names[stream.peak]} = greatest {names[stream.changed]} so far"
    terms = tuple(dict.fromkeys([stream.weight, *(term for _, term in stream.totals)]))
    for number, term in enumerate(terms):
        weight, bias, correction = (f"{name}{number + 1 if number else ''}" for name in ("weight", "bias", "correction"))
        repaired = stream.peak is not None and term.scale is not None and stream.peak in local_symbols(term.bias)
        value = "1" if term.factor == ONE else scalar_text(term.factor, names)
        if term.scale is not None:
            yield f"  {bias} = {scalar_text(term.bias, names)}"
            scale = "" if term.scale == ONE else f"({scalar_text(term.scale, names)}) * "
            power = f"exp ({scale}{names[stream.changed]} + {bias})"
            value = power if term.factor == ONE else f"{power} * ({value})"
        if stream.condition is not None and not stream.vanishing:
            value = f"if {scalar_text(stream.condition, names)} then {value} else 0"
        yield f"  {weight} = {value}"
        if repaired or term == stream.weight:
            yield f"  {correction} = " + (f"exp ({bias} - {bias} before)" if repaired else "1")
        for symbol, summed in stream.totals:
            if summed == term:
                before = f"{names[symbol]} * {correction}" if repaired else names[symbol]
                yield f"  {names[symbol]} = {before} + sum of {weight}"


def views_text(views: tuple[View, ...], names: Texts) -> Iterator[str]:
    """What each view shows."""
    for view in dict.fromkeys(views):
        at = ", ".join(names[axis] for axis in view.axes)
        yield f"{names[view.value.symbol]}[{at}] is {names[view.source]}[{', '.join(dim_text(d, names) for d in view.places)}]"


def stored_text(store: Store, names: SymbolNames) -> str:
    """The expression of a store, over the accumulators' names."""
    for product, accumulator in store.sums:
        names.same(product, accumulator.symbol)
    return scalar_text(store.expression, names)


def tile_text(tile: Tile, names: SymbolNames) -> str:
    shape = ", ".join(f"{names[a]} {n}" for a, n in zip(tile.axes, tile.shape, strict=True))
    return f"{names[tile.symbol]} : {tile.element.value}[{shape}] {tile.memory}"
