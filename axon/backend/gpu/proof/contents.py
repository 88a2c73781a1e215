"""The part of a proof that is about what moves where: needs no running, since no operation's place depends on data.

Every copy brings the part of the tensor that its field is to hold, every product takes all rows once, every result is computed from
a whole tile and all of it is stored. Together with `verify`, which knows when each stage holds which piece, this leaves to trust
the addresses inside a panel and the arithmetic of single elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod

from axon.backend.gpu.layout.pages import Pages, is_cut
from axon.backend.gpu.layout.products import MULTIPLIED, PROMOTED, multiplies
from axon.backend.gpu.proof.findings import Found, Kind, Violation
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram, Coordinate, Copy, Op, operations
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.bounds import BLOCK
from axon.backend.gpu.tile.ir import Fold, TileAxis
from axon.backend.gpu.tile.segments import REACH, has_front
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.walk import reads
from axon.shapes.dimension import Dim

ROWS = 64  # of one matrix instruction, of one store


def check_places(program: BarrierProgram) -> None:
    """Raises `Found` for an operation that by itself is about other data than it must be."""
    for role in program.roles:
        for op in operations(role.body):
            match op:
                case Copy():
                    _check_copy(program, op)
                case b.Product():
                    _check_product(program, op)
                case t.ReadScales(scales=scales):
                    one = all(scale.per % program.steps.step == 0 for scale in scales)
                    _require(one, "content", f"a step of {program.steps.step}, of which parts have scales of their own")
                case b.Send():
                    _check_send(program, op)
                case b.Write(store=store, block=block, column=column, width=width):
                    size = ROWS * width * store.element.bits // 8
                    _require(size == op.buffer.slot, "layout", f"{size} bytes are written to a slot of {op.buffer.slot}")
                    _require(0 <= op.slot < op.buffer.slots, "layout", f"slot {op.slot} of {op.buffer.slots}")
                    _inside(program, block, column, width)
                case b.Scatter(store=store, block=block, column=column, width=width, buffer=buffer):
                    _inside(program, block, column, width)
                    if buffer is not None:
                        size, room = ROWS * width * store.element.bits // 8, buffer.slots * buffer.slot
                        _require(size <= room, "layout", f"{size} bytes are laid out in a buffer of {room}")
                        _require(store.axes[-1] == program.order.columns.symbol, "layout", "rows that are no rows of the result")
                        sent = any(isinstance(o, b.Send) for o in operations(role.body))
                        _require(not sent, "buffer", "a buffer from which bulk copies store is used for rows too")
                case _:
                    pass


def check_contents(program: BarrierProgram) -> None:
    """Raises `Found` for operations that among each other are about other data than they must be."""
    _check_own(program)
    _check_loops(program)
    _check_ragged(program)
    _check_segments(program)
    _check_pages(program)
    _check_looked_up(program)
    _check_promoted(program)
    _check_sums(program)
    for role in program.roles:
        _check_groups(program, role.body)
        _check_ahead(role.body, alone=False)
    _check_stored(program)


def _require(holds: bool, kind: Kind, message: str) -> None:
    if not holds:
        raise Found(Violation(kind, message))


# ── copies ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_copy(program: BarrierProgram, op: Copy) -> None:
    """Its box, its place in the tensor and its place in the stage are the same part of the field's tile."""
    ring = op.ring
    field = ring.fields[op.field]
    tile, load = field.tile, field.load
    swizzle = program.target.swizzle
    _require(op.descriptor.tensor == load.tensor, "content", f"`{load.tensor.name}` is read from another tensor")
    _require(op.descriptor.order == load.order, "content", f"`{load.tensor.name}` is read with its dimensions in another order")
    _require(tuple(c.axis for c in op.at) == load.axes, "content", f"`{load.tensor.name}` is read along other axes")
    rounds = tile.element is Element.F32  # which matrix instructions take for tf32, and cut off
    _require(
        op.descriptor.rounds == rounds, "content", f"a copy of `{load.tensor.name}` that rounds where it must not, or does not"
    )
    _require(op.multicast or op.by_rank == 0, "layout", "a copy of one block at a place that depends on its rank")
    _require(not op.multicast or program.cluster > 1, "layout", "a copy to a cluster of one")
    shape = dict(zip(tile.axes, tile.shape, strict=True))
    box = dict(zip(load.axes, op.descriptor.box, strict=True))
    inner, outer = tile.axes[-1], tile.axes[:-1]
    panel, rest = divmod(op.offset - field.offset, field.panel)
    paged = load.pages is not None
    row, inside = divmod(rest, swizzle)  # of the panel, with which a box of a page begins
    begins = row % box[program.steps.symbol] == 0 and inside == 0 if paged else rest == 0
    _require(begins and panel >= 0, "layout", f"a copy to byte {op.offset}, where no panel begins")
    _require(box[inner] == field.width, "layout", f"a copy of {box[inner]} columns into panels of {field.width}")
    _require(prod(op.descriptor.box) * tile.element.bits // 8 == op.bytes, "bytes", f"a box that is not {op.bytes} bytes")
    for c in op.at:
        extent = shape.get(c.axis, 1)
        _require(c.by_consumer == 0, "content", "a copy whose place depends on a consumer")
        shared = (op.multicast and box[c.axis] * program.cluster == extent) or (c.axis == inner and c.by_rank > 0)
        share = _share(op, c.axis, inner, swizzle) if shared else 0
        _require(c.by_rank == share, "content", f"a copy whose place along `{c.axis.name}` moves by {c.by_rank} with the rank")
        if c.axis == program.steps.symbol and paged:
            own = program.mapping.box
            _require(box[c.axis] == own > 0, "layout", f"a copy of {box[c.axis]} rows of a page, not of {own}")
        elif c.axis in outer:
            _require(box[c.axis] == (share or extent), "layout", f"a copy of {box[c.axis]} of {extent} along `{c.axis.name}`")
        elif c.axis != inner:
            _require(box[c.axis] == 1, "layout", f"a copy of {box[c.axis]} along `{c.axis.name}`")
        within = panel * field.width if c.axis == inner else 0
        if c.axis == program.steps.symbol:
            within += row
            pieces, left = divmod(c.offset - within, extent)
            _require(left == 0 and pieces >= 0 and c.step in (0, extent), "content", f"no piece begins at {c.offset}")
        else:
            whole = any(axis.symbol == c.axis for axis in program.whole)
            _require(c.step == (0 if whole else extent), "content", f"a copy that steps by {c.step} along `{c.axis.name}`")
            _require(c.offset == within, "content", f"a copy from {c.offset} along `{c.axis.name}`, not from {within}")


def _share(op: Copy, axis: Symbol, inner: Symbol, swizzle: int) -> int:
    """How far a block's part of a shared tile is from that of the block before, along an axis."""
    field = op.ring.fields[op.field]
    return op.by_rank // field.panel * field.width if axis == inner else op.by_rank // swizzle


def _check_own(program: BarrierProgram) -> None:
    """Consumers that have tiles of their own do all that they do for these, and pass by what the ring holds of others; no other
    program asks whose a tile is."""
    for role in program.roles:
        multiplies = any(isinstance(op, b.Product) for op in operations(role.body))
        asks = sum(isinstance(op, b.IfOwn) for op in operations(role.body))
        wanted = program.mapping.apart and multiplies
        _require(asks == (2 if wanted else 0), "content", "a role that asks whose a tile is, or does not")
        for op in operations(role.body):
            if wanted and isinstance(op, b.Tiles):
                first, second = op.body if len(op.body) == 2 else (None, None)
                asked = isinstance(first, b.IfOwn) and isinstance(second, b.IfOwn) and first.own and not second.own
                _require(asked, "content", "a consumer that does for all tiles what is for its own")
            elif isinstance(op, b.IfOwn) and not op.own:
                passed = all(isinstance(o, b.Steps | b.Advance) for o in operations(op.body))
                _require(passed, "content", "a consumer that does more with another's tile than to pass it by")


def _of_tile(op: b.Tiles) -> tuple[Op, ...]:
    """What is done for each tile, or each own one."""
    first = op.body[0] if op.body else None
    return first.body if isinstance(first, b.IfOwn) and first.own else op.body


def _check_loops(program: BarrierProgram) -> None:
    """Loops of all roles go the same way, and copies are about the piece that their ring's reader is about."""
    for role in program.roles:
        for op in operations(role.body):
            if isinstance(op, b.Steps):
                _require(op.axis == program.steps, "content", f"a loop over `{op.axis.symbol.name}`")
                wanted = program.bounds is not None
                _require(op.backwards == wanted, "content", "a loop that goes the other way than those of other roles")
            if isinstance(op, b.Tiles):
                _check_pieces(program, _of_tile(op))


def _check_pieces(program: BarrierProgram, body: tuple[Op, ...]) -> None:
    loops = [n for n, op in enumerate(body) if isinstance(op, b.Steps)]
    _require(len(loops) <= 1, "content", "two loops over the pieces of one tile")
    if not loops:
        return
    loop = body[loops[0]]
    assert isinstance(loop, b.Steps)
    lasts = [n for n, op in enumerate(body) if isinstance(op, b.Last)]
    about = (Copy, Fold)
    if loop.peeled:
        first = next((n for n, op in enumerate(body) if _is_about(op, program.steps, about)), loops[0])
        _require(bool(lasts) and lasts[0] <= first, "content", "the last piece is used before it is known")
    lags: dict[tuple[Symbol, str], set[int]] = {}
    for n, op in enumerate(body):
        where = "before" if n < loops[0] else "inside" if n == loops[0] else "after"
        for copy in operations((op,)):
            if isinstance(copy, Copy) and program.steps.symbol in copy.ring.fields[0].tile.axes:
                lags.setdefault((copy.ring.symbol, where), set()).add(_lag(program.steps, copy) - copy.ahead)
                step = next(c.step for c in copy.at if c.axis == program.steps.symbol)
                current = loop.backwards or where == "inside"  # there is a current piece to count from
                own = program.steps.step // copy.ring.fields[copy.field].load.per
                _require(step == (own if current else 0), "content", "a copy that counts pieces from another one")
    for (ring, where), found in lags.items():
        if not loop.backwards:
            _require(found == {0}, "content", "a copy of another piece than its stage is for")
            continue
        late = loop.peeled and (ring, "after") in lags
        _require(found == {1 if late and where == "inside" else 0}, "content", "a copy of another piece than its step is about")
        _require(loop.peeled or where == "inside", "content", "a copy outside the loop of what the loop reads")
        _require(where == "inside" or late == (where == "after"), "content", "a copy of a piece that no step is about")


def _is_about(op: Op, axis: TileAxis, kinds: tuple[type, ...]) -> bool:
    return isinstance(op, kinds) and (not isinstance(op, Copy) or any(c.axis == axis.symbol and c.step for c in op.at))


def _lag(axis: TileAxis, op: Copy) -> int:
    """How many pieces after the current one a copy brings."""
    field = op.ring.fields[op.field]
    panel = (op.offset - field.offset) // field.panel
    within = panel * field.width if field.tile.axes[-1] == axis.symbol else 0
    within += (
        (op.offset - field.offset) % field.panel // (field.width * field.tile.element.bits // 8)
        if field.load.pages is not None
        else 0
    )
    return next((c.offset - within) // (axis.step // field.load.per) for c in op.at if c.axis == axis.symbol)


def _check_ahead(body: tuple[Op, ...], *, alone: bool) -> None:
    """Only one thread works ahead of its cursor, at one stage at a time."""
    rings = {(op.ring, op.ahead) for op in body if isinstance(op, b.Await | b.Expect | Copy)}
    _require(alone or all(ahead == 0 for _, ahead in rings), "content", "a stage ahead of the cursor that no thread fills alone")
    _require(not alone or len(rings) <= 1, "content", "one thread fills two stages at once")
    for op in body:
        if isinstance(op, b.Nested):
            _check_ahead(op.body, alone=alone or isinstance(op, b.Alone))


# ── products ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_product(program: BarrierProgram, op: b.Product) -> None:
    _require(0 <= op.block < program.blocks, "content", f"a product of block {op.block} of {program.blocks}")
    for part in (op.left, op.right):
        if isinstance(part, b.StageField):
            element = part.tile.element
            along = not MULTIPLIED[element].along or part.tile.axes[-1] == op.over
            across = f"a factor of {element.bits} bits across what is summed, which matrix instructions cannot transpose"
            _require(along, "layout", across)
            _require(multiplies(element, op.right.tile.element), "content", "a product of factors of two element types")
            _require(op.accumulator.element == MULTIPLIED[element].sum, "content", "products that are summed as something else")
    held = isinstance(op.left, t.Tile)
    if isinstance(op.left, t.Tile):
        _require(multiplies(op.left.element, op.right.tile.element), "content", "a product of factors of two element types")
    short = held and op.right.tile.element.bits == 8
    field = op.right.ring.fields[op.right.field]
    _require(field.load.interleaved == short, "layout", "a factor whose elements are in another order than the other's")
    if program.promoted and not _late(program):
        return  # see `_check_promoted`
    partials = {promoted.partial for promoted in program.promoted}
    once = any(axis.symbol == op.over for axis in program.whole) or op.accumulator in partials
    keep = "never" if once else "later" if program.bounds is None else "always"
    _require(op.keep == keep, "content", f"a product that keeps what was summed {op.keep}, not {keep}")


def _late(program: BarrierProgram) -> bool:
    """Whether what is promoted are the products of a stream's weights, as they are, with its values."""
    return any(
        len(promoted.factors) == 1 and promoted.factors[0][0].memory == "registers" and not promoted.scales
        for promoted in program.promoted
    )


def _check_late(program: BarrierProgram) -> None:
    """A stream's sums that are promoted, of which a correction is held: each step makes scores from nothing on, and weights of
    these, and sums what weights make from nothing on: of this piece, or, in a loop that is turned, of the one before. What is
    peeled off in front, and behind, are the halves of a step."""
    touch = (b.Clear, b.Product, t.Promote, t.Fold, t.Rescale, t.Hold, t.Narrow)
    (promoted,) = program.promoted
    ((weights, values),) = promoted.factors
    for role in program.roles:
        folds = [op for op in operations(role.body) if isinstance(op, t.Fold)]
        tiles = [op for op in role.body if isinstance(op, b.Tiles)]
        if not folds:
            continue
        holds = {op.symbol for op in operations(role.body) if isinstance(op, t.Hold)}
        _require(len(tiles) == 1 and len(holds) == 1, "content", "a stream that holds no correction, or several")
        (held,) = holds
        fold = folds[0]
        queries, keys = (_operand_of(program, axis) for axis in (program.order.rows.symbol, program.steps.symbol))
        first: list[tuple[object, ...]] = [("clear", fold.scores)]
        made = [("product", fold.scores, queries, keys, block, "never") for block in range(program.blocks)]
        change: list[tuple[object, ...]] = [("fold", fold.scores), ("hold", held), ("narrow", (weights,))]
        summed = [("product", promoted.partial, weights, values, block, "never") for block in range(program.blocks)]
        after = ("promote", promoted.accumulator, promoted.partial, None, held)
        anew = ("clear", promoted.partial)
        body = _of_tile(tiles[0])
        at = next(n for n, op in enumerate(body) if isinstance(op, b.Steps))
        loop = body[at]
        assert isinstance(loop, b.Steps)
        parts = [[_in_step(op) for op in part if isinstance(op, touch)] for part in (body[:at], loop.body, body[at + 1 :])]
        whole = ("clear", promoted.accumulator)
        if loop.peeled:
            turned = [*first, anew, *made, *summed, change[0], after, *change[1:]]
            wanted = [[whole, *first, *made, *change], turned, [anew, *summed, after]]
        else:
            wanted = [[whole], [*first, *made, *change, anew, *summed, after], []]
        _require(parts == wanted, "content", "a step of a stream that does not make the sum that it must")


def _operand_of(program: BarrierProgram, axis: Symbol) -> t.Tile:
    """The tile of queries, or of keys: of these, and of the depth."""
    depths = {whole.symbol for whole in program.whole}
    tiles = (field.tile for ring in program.rings for field in ring.fields)
    return next(tile for tile in tiles if axis in tile.axes and not depths.isdisjoint(tile.axes))


def _check_promoted(program: BarrierProgram) -> None:
    """Each step sums its products, all of them, from nothing on, the small ones first; what these make is settled before the last
    one, and the sum is promoted after it, or else used: one sum after the other."""
    touch = (b.Clear, b.Product, t.Settle, t.ReadScales, t.Promote, t.Fold, t.Narrow)
    if _late(program):
        _require(program.steps.step <= PROMOTED, "content", f"a step of {program.steps.step}, of which {PROMOTED} are promoted")
        _check_late(program)
        return
    for role in program.roles:
        inside = [op for loop in operations(role.body) if isinstance(loop, b.Steps) for op in loop.body if isinstance(op, touch)]
        if not program.promoted or not inside:
            continue
        wanted: list[tuple[object, ...]] = []
        for promoted in program.promoted:
            most = min(MULTIPLIED[part.element].promoted or inf for pair in promoted.factors for part in pair)
            _require(program.steps.step <= most, "content", f"a step of {program.steps.step}, of which {most} are to be promoted")
            limbs = tuple(dict.fromkeys(left for left, _ in reversed(promoted.factors)))  # the greatest first
            wanted += [("narrow", limbs)] if limbs[0].memory == "registers" else []
            wanted += [] if promoted.scales is None else [("scales", promoted.scales, program.steps.symbol)]
            wanted.append(("clear", promoted.partial))
            for number, (left, right) in enumerate(promoted.factors):
                keep = "always" if number else "never"
                wanted += [("settle", promoted.partial)] if number and number == len(promoted.factors) - 1 else []
                wanted += [("product", promoted.partial, left, right, block, keep) for block in range(program.blocks)]
            total = promoted.accumulator
            wanted.append(("fold", promoted.partial) if total is None else ("promote", total, promoted.partial, promoted.scales))
        _require([_in_step(op) for op in inside] == wanted, "content", "a step that does not make the sum that it must")


def _check_sums(program: BarrierProgram) -> None:
    """Where tiles have several accumulators, each step adds to every one the product of its own factors, all rows, once."""
    wanted = [(*each, block) for each in program.sums for block in range(program.blocks)]
    for role in program.roles:
        for loop in operations(role.body):
            if not isinstance(loop, b.Steps) or not program.sums:
                continue
            products = [op for op in loop.body if isinstance(op, b.Product)]
            found = [
                (op.accumulator, op.left.tile, op.right.tile, op.block) for op in products if isinstance(op.left, b.StageField)
            ]
            wrong = len(found) != len(products) or found != (wanted if products else [])
            _require(not wrong, "content", "a step that does not add to each sum the product of its factors")


def _in_step(op: Op) -> tuple[object, ...]:
    """An operation on the sums of a step."""
    match op:
        case b.Clear(accumulator=acc):
            return "clear", acc
        case b.Product(accumulator=acc, left=left):
            return "product", acc, left.tile if isinstance(left, b.StageField) else left, op.right.tile, op.block, op.keep
        case t.Settle(tile=tile):
            return "settle", tile
        case t.ReadScales(symbol=symbol, over=over):
            return "scales", symbol, over
        case t.Promote(accumulator=acc, partial=partial, scales=scales, correction=None):
            return "promote", acc, partial, scales
        case t.Promote(accumulator=acc, partial=partial, scales=scales, correction=correction):
            return "promote", acc, partial, scales, correction
        case t.Hold(symbol=symbol):
            return "hold", symbol
        case t.Fold(scores=scores):
            return "fold", scores
        case t.Narrow(targets=targets):
            return "narrow", targets
        case _:
            return ()


def _check_groups(program: BarrierProgram, body: tuple[Op, ...]) -> None:
    """The products of a group take each 64 rows of the consumer once; those of limbs are another matter, see `_check_promoted`."""
    if program.promoted and not _late(program):
        return
    group: list[tuple[Symbol, int]] = []
    for op in body:
        match op:
            case b.Product(accumulator=acc, block=block):
                group.append((acc.symbol, block))
            case b.Commit():
                wanted = {(symbol, block) for symbol, _ in group for block in range(program.blocks)}
                _require(len(group) == len(set(group)) and set(group) == wanted, "content", "a group that has not all rows once")
                group = []
            case _ if isinstance(op, b.Nested):
                _check_groups(program, op.body)
            case _:
                pass


def _check_ragged(program: BarrierProgram) -> None:
    """Where tables say which rows a tile has: they are for tiles of its size, blocks that share what is read at the group have
    the same rows, a group is no axis that tiles are counted along, and nothing is stored in whole boxes."""
    ragged, order = program.ragged, program.order
    if ragged is None:
        return
    _require(ragged.step == order.rows.step, "content", f"tiles of {order.rows.step} rows by tables for {ragged.step}")
    _require(order.cluster == 1 or order.cluster_over == "columns", "content", "blocks whose rows differ share a group")
    _require(not order.paired, "content", "tiles of which tables say the rows are made in pairs")
    given = {table.symbol for table in ragged.tables} - {value.symbol for value in program.tensors}
    _require(not given, "content", "a table that the kernel is not given")
    by_group = [symbol for symbol, dim in program.derived if ragged.group in dim.variables]
    for role in program.roles:
        loads = [op.ring.fields[op.field].load for op in operations(role.body) if isinstance(op, Copy)]
        for load in loads:
            sides = [order.rows.symbol in load.axes, any(symbol in load.axes for symbol in by_group)]
            _require(sides.count(True) == 1, "content", "a factor read at rows and a group, or neither")
        _require(not any(isinstance(op, b.Send) for op in operations(role.body)), "content", "ragged tiles stored as whole boxes")


def _check_segments(program: BarrierProgram) -> None:
    """Where tables say which rows a tile sums: they are there, a tile has one group, and every copy of a step reads from the front
    of its rows, of no more than can be left out."""
    parts = program.segments
    fronts = frozenset[Symbol]() if parts is None else frozenset({parts.front})
    order = program.order
    known = {axis.symbol for axis in (*order.outer, order.rows, order.columns, program.steps, *program.whole)}
    known |= {symbol for symbol, _ in program.derived} | (set() if program.ragged is None else {program.ragged.group})
    known |= {symbol for pages in program.pages for symbol in pages.own}
    for role in program.roles:
        for op in operations(role.body):
            if isinstance(op, Copy) and program.steps.symbol in (along := [c.axis for c in op.at]):
                before = along[max(0, along.index(program.steps.symbol) - 1)]
                _require(
                    (before in fronts) == bool(fronts), "content", "a copy of a segment's rows that does not begin at its front"
                )
                _require(set(along) <= known | fronts, "content", "a copy from an index that nobody knows")
    if parts is None:
        return
    _require(program.steps.step <= REACH, "content", f"a step of {program.steps.step} rows, of which {REACH} can be left out")
    _require(set(parts.tables) <= set(program.tensors), "content", "a table that the kernel is not given")
    _require(parts.group in {axis.symbol for axis in program.order.outer}, "content", "a tile of several groups")
    _require(program.bounds is None, "content", "segments of rows of which a mask leaves parts")
    shown = {view.value.symbol: view for view in program.views}
    for descriptor in program.descriptors:
        if descriptor.tensor not in {store.tensor for store in program.stores}:
            view = shown.get(descriptor.tensor)
            there = view is not None and has_front(view, parts.front, program.steps.symbol)
            _require(there, "content", "a factor that has no front")


def _check_pages(program: BarrierProgram) -> None:
    """Where rows lie in pages: every copy of a box is one of rows of one page, which a table was asked for just before, in the same
    step, and which it has for all of the box; and boxes end with the rows where these may end inside of a page."""
    order, box = program.order, program.mapping.box
    known = {axis.symbol for axis in order.outer} | {symbol for symbol, _ in program.derived}
    shown = {view.value.symbol: view for view in program.views}
    _require(bool(program.pages) == (box > 0), "content", "boxes of pages where there are none, or pages without boxes")
    for pages in program.pages:
        given = {value.symbol for value in program.tensors}
        used = [read for scalar in pages.scalars for read in reads(scalar)]
        _require(given.issuperset(read.tensor for read in used), "content", "a table that the kernel is not given")
        at = {s.symbol for read in used for s in read.subscripts if isinstance(s, Dim)}
        _require(at <= known | {pages.number}, "content", "a table of pages that is read at what a tile has several of")
    for role in program.roles:
        _check_looks(program, role.body)
        for op in operations(role.body):
            if not isinstance(op, Copy):
                continue
            load, along = op.ring.fields[op.field].load, [c.axis for c in op.at]
            named = {symbol for pages in program.pages for symbol in pages.own} & set(along)
            own = () if load.pages is None else load.pages.own
            _require(named == set(own), "content", "a copy from pages that are not its own")
            if load.pages is None:
                continue
            _require(load.pages in program.pages, "content", "a copy from pages of which the kernel does not know")
            plain = all((c.step, c.offset, c.by_rank) == (1, 0, 0) for c in op.at if c.axis in own)
            _require(plain and not op.multicast, "content", "a copy from another page than its own")
            if load.pages.front is not None:
                view = shown.get(load.tensor)
                cut = view is not None and is_cut(view, load.pages.front, program.steps.symbol)
                _require(cut, "content", "boxes that go on behind the last row")


def _check_looks(program: BarrierProgram, body: tuple[Op, ...]) -> None:
    """A page is looked up before it is copied from, and since then nothing else is current."""
    asked: dict[Pages, tuple[Coordinate, ...]] = {}
    for op in body:
        match op:
            case b.Look(pages=pages, at=at):
                _require(pages in program.pages, "content", "pages of which the kernel does not know are looked up")
                ring = [c.axis == program.steps.symbol and not c.by_rank and not c.by_consumer for c in at]
                _require(all(ring), "content", "pages are looked up along another axis")
                asked[pages] = at
            case Copy():
                of = op.ring.fields[op.field].load.pages
                own = {c for c in op.at if c.axis == program.steps.symbol}
                _require(of is None or own <= set(asked.get(of, ())), "content", "a copy from a page not looked up")
            case b.Last():
                asked = {}
            case _ if isinstance(op, b.Nested):
                asked = {}
                _check_looks(program, op.body)
            case _:
                pass


def _check_looked_up(program: BarrierProgram) -> None:
    """Tables that say what a mask leaves are there, and are read for all rows of a tile, at outer indices."""
    looked = () if program.bounds is None else program.bounds.looked
    outer = {axis.symbol for axis in program.order.outer}
    for lookup in looked:
        _require(lookup.table in program.tensors, "content", "a table that the kernel is not given")
        _require(program.order.rows.step % BLOCK == 0, "content", f"tiles of {program.order.rows.step} rows, in blocks of {BLOCK}")
        _require(outer.issuperset(lookup.axes), "content", "a table that is read at what a tile has several of")
        _require(len(lookup.table.shape) == len(lookup.axes) + 2, "content", "a table of another rank")


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _inside(program: BarrierProgram, block: int, column: int, width: int) -> None:
    columns = program.order.columns.step
    fits = 0 <= block < program.blocks and column >= 0 and width > 0 and column + width <= columns
    _require(fits, "content", f"a result of block {block}, columns {column} to {column + width}: outside the tile")


def _check_send(program: BarrierProgram, op: b.Send) -> None:
    order = program.order
    store = next((s for s in program.stores if s.tensor == op.descriptor.tensor), None)
    if store is None:
        raise Found(Violation("content", f"`{op.descriptor.tensor.name}` is no result"))
    _require(tuple(c.axis for c in op.at) == store.axes, "content", "a result is stored along other axes")
    _require(op.descriptor.order == tuple(range(len(op.at))), "content", "a result is stored with its dimensions in another order")
    _require(not op.descriptor.rounds, "content", "a result is rounded where it is stored")
    _require(0 <= op.slot < op.buffer.slots, "layout", f"slot {op.slot} of {op.buffer.slots}")
    width = op.buffer.slot * 8 // store.element.bits // ROWS
    for c, box in zip(op.at, op.descriptor.box, strict=True):
        extent, step, consumer = {
            order.rows.symbol: (ROWS, order.rows.step, 0 if program.mapping.apart else program.blocks * ROWS),
            order.columns.symbol: (width, order.columns.step, 0),
        }.get(c.axis, (1, 1, 0))
        _require(box == extent, "layout", f"a store of {box} along `{c.axis.name}`, not {extent}")
        right = (c.step, c.by_consumer, c.by_rank) == (step, consumer, 0)
        _require(
            right and c.offset % extent == 0 and (extent > 1 or c.offset == 0),
            "content",
            f"a store at another place along `{c.axis.name}`",
        )


def _check_stored(program: BarrierProgram) -> None:
    """Each tile leaves every result in memory: all blocks of rows, all columns, once."""
    order = program.order
    for role in program.roles:
        for op in operations(role.body):
            if not isinstance(op, b.Tiles) or not any(isinstance(o, b.Product) for o in operations(op.body)):
                continue
            body = _of_tile(op)
            rows = tuple(o for o in body if isinstance(o, t.StoreRows))
            _require(rows == program.row_stores, "content", "values of rows are not stored, each once")
            for store in program.stores:
                parts = sorted(_parts(program, body, store.tensor))
                wanted = []
                for block in range(program.blocks):
                    column = 0
                    for _, at, width in (p for p in parts if p[0] == block):
                        wanted.append((block, column, width))
                        column += width
                        _require(at == column - width, "content", f"`{store.tensor.name}` is not stored once")
                    _require(column == order.columns.step, "content", f"{column} of {order.columns.step} columns are stored")
                _require(parts == wanted, "content", f"`{store.tensor.name}` is not stored as a whole")


def _parts(program: BarrierProgram, body: tuple[Op, ...], tensor: Symbol) -> Iterator[tuple[int, int, int]]:
    """What a tile stores of a result: block, first column, columns."""
    rows, columns = program.order.rows.symbol, program.order.columns.symbol
    for op in body:
        match op:
            case b.Scatter(store=store, block=block, column=column, width=width) if store.tensor == tensor:
                yield block, column, width
            case b.Send(descriptor=descriptor, at=at) if descriptor.tensor == tensor:
                place = {c.axis: (c.offset, n) for c, n in zip(at, descriptor.box, strict=True)}
                yield place[rows][0] // ROWS, *place[columns]
            case _:
                pass
