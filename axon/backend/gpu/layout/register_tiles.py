"""Which register tiles suit a sum of products, or another reduction of pairs, of what size, and how long it takes with them.

Note [Register tiles]
    A reduction over `depth` at each of `rows` × `columns` places, of what a row and a column have at it, would load a row and a
    column for every place. So a block takes a tile of places and brings what its rows and columns have, `depth` indices at a
    time, into shared memory; a thread takes some rows and some columns of the tile, whose states stay in its registers, and each
    value that it loads serves all of them. Where places are few and the depth is long, *groups* of threads of a block, and the
    blocks of a cluster, share the depth; what they have is put together in order, so that the same sizes give the same bits.

Note [Fragments]
    Hopper multiplies f64 by instructions of a warp (`mma.m16n8k8`) twice as fast as by those of a thread. A sum of products in f64
    has tiles for them too: what a thread has of another tile a warp has of these, as *fragments* of 16 × 8 places, of which each
    thread keeps four states. Stages are copied past the registers (`cp.async`) three turns ahead, 16 bytes at a time where elements
    lie for it and 8 elsewhere, into lines that are a little longer than what they hold: so that half a warp reads its fragments
    from all banks at once. While a warp multiplies, it takes the factors of its next step into registers, those of the next stage
    too, before it asks for more: of all that was tried this is worth most, a quarter to a third. A state is a chain of `fma` in the
    order of the depth, within what its group and its block have of that; what these have is added in order.

Note [Narrow fragments]
    Chips before and after Hopper multiply bf16 and f16 by instructions of a warp (`mma.m16n8k16`), into states of f32. Their tiles
    are like those of f64, with fragments of 16 × 16 places, which are two instructions. A warp loads what it has of one by one
    `ldmatrix`, transposed where the side lies along a line. Lines have no padding: the pieces of 16 bytes of a line lie in another
    order in each of eight lines (`swizzled` in `simt.narrow_fragments`), so that eight of them, one below the other, are in all
    banks. What does not lie in pieces of 4 bytes or more is brought through the registers. States are handed over in *portions*,
    for which the memory of the stages suffices: one or more fragments of each warp at a time.

The rates are those of `roofline`, and constants that were fitted to 150 kernels of 30 sizes on an H100: their times are predicted
within a sixth, by the root of the mean square.
"""

from __future__ import annotations

from axon.backend.gpu.layout.roofline import cache_rate, flop_rate, memory_rate, slower
from axon.backend.gpu.layout.target import HOPPER, PRODUCTS, WGMMA, Target
from axon.base.data import dataclass, replace

WORD = 4  # bytes of a register
TOGETHER = 16  # bytes that a thread takes from shared memory at once
STAGES = 2  # of what is brought: one is read while the next one comes
WARP = 32
DOUBLE = 8  # bytes
NARROW = 2  # likewise of bf16 and f16
FRAGMENT = (16, 8, 8)  # rows, columns and depth of one tensor instruction on f64
NARROW_FRAGMENT = (16, 16, 16)  # of two of them on bf16 or f16, side by side
PADDING = 4  # elements between lines of a stage of fragments: the lanes of half a warp lie in different banks
STATES_PADDING = 8  # likewise between rows of states that are handed over
SPLITS = (1, 2, 4, 8)  # blocks of a cluster
LEAST_STAGES = 2  # of a block that shares the depth


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """A block's tile and stage in elements, what of the tile a thread has, and how many share the depth."""

    rows: int
    columns: int
    depth: int
    own_rows: int
    own_columns: int
    groups: int = 1  # of a block's threads
    splits: int = 1  # blocks of a cluster
    stages: int = STAGES
    warps: bool = False  # what a thread has of other tiles a warp has of this one. See Note [Fragments]
    size: int = DOUBLE  # bytes of their factors: NARROW is for Note [Narrow fragments]

    @property
    def members(self) -> int:
        """Threads of a group."""
        return (self.rows // self.own_rows) * (self.columns // self.own_columns) * (WARP if self.warps else 1)

    @property
    def threads(self) -> int:
        return self.groups * self.members

    @property
    def smaller(self) -> RegisterTile | None:
        """One whose warps have half as many rows, as many threads and so fewer states of each."""
        if not self.warps or self.own_rows <= FRAGMENT[0]:
            return None
        return replace(self, rows=self.rows // 2, own_rows=self.own_rows // 2)

    @property
    def fragment(self) -> tuple[int, int, int]:
        """Rows, columns and depth of a fragment."""
        return NARROW_FRAGMENT if self.size == NARROW else FRAGMENT

    def resident(self, words: int, axes: int, target: Target) -> int:
        """How many blocks of a multiprocessor have registers, where a state is so many words and indices are found along so many
        axes: beyond three, for each word that a thread brings."""
        states = self.own_rows * self.own_columns * words
        if self.warps:
            factors = 2 * (self.own_rows + self.own_columns) * self.fragment[2] * self.size // WORD  # of this step and of the next
            registers = min(target.max_registers, (states + factors) // WARP + BESIDE + PER_AXIS * axes)
            return max(1, target.occupancy(self.threads, registers, self.lines))
        brought = (self.rows + self.columns) * self.depth // self.threads
        registers = states + BESIDE + PER_AXIS * axes + brought * (axes - 3) // 2
        return max(1, target.registers_per_multiprocessor // (self.threads * registers))

    @property
    def lines(self) -> int:
        """Bytes of shared memory of a tile of fragments: its stages, or the states that its groups hand over, whichever is more."""
        if self.size == NARROW:
            return max(self._narrow_stages, self._handed // self.portions)
        stages = self.stages * (self.rows + self.columns) * (self.depth + PADDING)
        return DOUBLE * max(stages, self.groups * self.rows * (self.columns + STATES_PADDING))

    @property
    def portions(self) -> int:
        """In how many parts the states are handed over, each of as many fragments of a warp as there is room for; in f64 in one."""
        most, count = self.own_rows // FRAGMENT[0], 1
        while self.size == NARROW and 2 * count <= most and self._handed > count * self._narrow_stages:
            count *= 2
        return count

    @property
    def _narrow_stages(self) -> int:
        return NARROW * self.stages * (self.rows + self.columns) * self.depth

    @property
    def _handed(self) -> int:
        return WORD * self.groups * self.rows * (self.columns + STATES_PADDING)

    def __str__(self) -> str:
        kind = "tensor instructions" if self.size == NARROW else "f64 tensor instructions"
        owner = f"warp by {kind}" if self.warps else "thread"
        parts = [f"a block for {self.rows} × {self.columns} places, {self.own_rows} × {self.own_columns} of a {owner}"]
        sharers = [f"{self.groups} groups of threads"] if self.groups > 1 else []
        sharers += [f"{self.splits} blocks of a cluster"] if self.splits > 1 else []
        parts += [f"{' and '.join(sharers)} share the depth"] if sharers else []
        parts += [f"{self.depth} of it at a time" if sharers else f"a depth of {self.depth} at a time"]
        return " · ".join([*parts, f"{self.stages} stages"] if self.warps else parts)


TILES = (
    RegisterTile(128, 128, 8, 8, 8),
    RegisterTile(128, 64, 8, 8, 4),
    RegisterTile(64, 64, 16, 4, 4),
    RegisterTile(32, 32, 32, 4, 4, 4),
    RegisterTile(16, 64, 32, 4, 4, 4),
    RegisterTile(64, 16, 32, 4, 4, 4),
    RegisterTile(8, 128, 32, 4, 4, 4),
    RegisterTile(128, 8, 32, 4, 4, 4),
)
FRAGMENTS = (
    RegisterTile(128, 128, 16, 64, 32, stages=4, warps=True),
    RegisterTile(64, 128, 16, 32, 32, stages=4, warps=True),
    RegisterTile(64, 64, 16, 32, 32, stages=4, warps=True),
    RegisterTile(64, 64, 16, 16, 32, stages=4, warps=True),
    RegisterTile(64, 64, 32, 32, 32, 2, stages=4, warps=True),
    RegisterTile(64, 32, 32, 32, 32, 2, stages=4, warps=True),
    RegisterTile(32, 64, 32, 32, 32, 2, stages=4, warps=True),
    RegisterTile(32, 32, 32, 32, 32, 4, stages=4, warps=True),
    RegisterTile(16, 64, 32, 16, 32, 2, stages=4, warps=True),
    RegisterTile(64, 16, 32, 32, 16, 2, stages=4, warps=True),
)


def _narrow(rows: int, columns: int, depth: int, own_rows: int, own_columns: int, groups: int = 1, stages: int = 4) -> RegisterTile:
    return RegisterTile(rows, columns, depth, own_rows, own_columns, groups, stages=stages, warps=True, size=NARROW)


# As large as they may be; half as large, of which two have the memory of 100 KiB; those of which two or three share a
# multiprocessor; with groups, for few places.
NARROW_FRAGMENTS = (
    _narrow(128, 256, 64, 64, 64, stages=2),
    _narrow(256, 128, 64, 64, 64, stages=2),
    _narrow(128, 256, 64, 64, 64, stages=3),
    _narrow(128, 256, 32, 64, 64),
    _narrow(128, 128, 32, 64, 64, stages=3),
    _narrow(128, 128, 32, 64, 32),
    _narrow(64, 128, 32, 32, 64),
    _narrow(128, 64, 32, 64, 32),
    _narrow(64, 64, 32, 32, 32),
    _narrow(64, 64, 64, 32, 32, 2),
    _narrow(64, 32, 64, 32, 32, 4),
    _narrow(32, 64, 64, 32, 32, 4),
    _narrow(32, 32, 64, 32, 32, 4),
    _narrow(16, 64, 128, 16, 32, 4),
    _narrow(64, 16, 128, 32, 16, 4),
)
BESIDE = 20  # registers of a thread beside its states and indices
PER_AXIS = 16  # registers to find an index
WITH_AXES = ((3, 64 * 32), (5, 32 * 32), (99, 16 * 32))  # so many axes leave registers for so many places of a warp, as was seen
BROUGHT = 3  # to bring an element by itself: its value, where it comes from and where it goes
MOST_NARROW = 192  # of a thread of narrow fragments, beside what all have, as was seen
MOST_OWN = 64  # words of states of a thread
MOST_SHARED = 96 * 1024  # bytes of a block, so that two share a multiprocessor of Hopper


@dataclass(frozen=True, slots=True)
class Pairs:
    """A reduction of pairs: its extents, bytes of what a row and a column have at a depth, words of a state, and operations of
    one pair."""

    outer: int
    rows: int
    columns: int
    depth: int
    row_bytes: int
    column_bytes: int
    words: int = 1
    operations: int = 2
    axes: int = 3  # of the sides and the depth
    double: bool = False  # whether states are f64
    products: bool = False  # a sum of products in f64
    narrow: bool = False  # a sum of products of bf16 or f16, in f32
    together: tuple[int, int] = (1, 1)  # elements of a row and of a column that a thread copies at once

    @property
    def empty(self) -> bool:
        return 0 in (self.outer, self.rows, self.columns)


def shared_bytes(tile: RegisterTile, pairs: Pairs) -> int:
    """Of a block: its stages, or the states that its groups hand over, whichever is more."""
    if tile.warps:
        return tile.lines
    padded = (tile.rows + TOGETHER) * pairs.row_bytes + (tile.columns + TOGETHER) * pairs.column_bytes
    return max(STAGES * tile.depth * padded, tile.groups * tile.rows * tile.columns * pairs.words * WORD)


def candidates(pairs: Pairs, target: Target) -> list[RegisterTile]:
    """The tiles that fit a chip, each with every number of blocks that may share its depth."""
    fit = [tile for tile in TILES if tile.own_rows * tile.own_columns * pairs.words <= MOST_OWN]
    fit = [tile for tile in fit if shared_bytes(tile, pairs) <= min(MOST_SHARED, target.shared_per_block)]
    found = pairs.axes + (min(pairs.together) == 1)  # copies of one element are twice as many
    most = next(places for axes, places in WITH_AXES if found <= axes)
    if pairs.products and target.tensor_f64 and target.has(PRODUCTS):
        fit += [tile for tile in FRAGMENTS if tile.own_rows * tile.own_columns <= most and tile.lines <= target.shared_per_block]
    if pairs.narrow and target.has(PRODUCTS) and not target.has(WGMMA):
        fit += [tile for tile in NARROW_FRAGMENTS if tile.lines <= target.shared_per_block and _has_registers(tile, pairs)]
    shared = ((tile, splits) for tile in fit for splits in SPLITS if splits <= target.max_cluster)
    return [replace(t, splits=n) for t, n in shared if n == 1 or pairs.depth >= n * LEAST_STAGES * t.depth]


def _has_registers(tile: RegisterTile, pairs: Pairs) -> bool:
    """Whether threads of narrow fragments have them for states, two steps' factors, indices, and what is brought one by one."""
    states = tile.own_rows * tile.own_columns // WARP
    factors = 2 * (tile.own_rows + tile.own_columns) * tile.fragment[2] * tile.size // WORD // WARP
    alone = sum(side for side, together in zip((tile.rows, tile.columns), pairs.together, strict=True) if together == 1)
    brought = alone * tile.depth // tile.threads
    return states + factors + PER_AXIS * (pairs.axes - 3) + BROUGHT * brought <= MOST_NARROW


BEGIN = 0.9e-6  # seconds of a launch
WAIT = 0.5e-6  # from asking for a stage until it is there
JOIN = 2.2e-6  # in which the blocks of a cluster wait for each other twice
BRING = 5e-11  # to bring a word, for a multiprocessor
INDEX = 1.9  # so much more of that for each axis beyond three: indices are found by division
HAND = 1.6e-10  # to hand a word of states over, and to take it
RATES = {"small": 1.0, "large": 1.25}  # of `flop_rate`, for what a thread has of a tile
# Of fragments, fitted to 166 kernels of 23 sizes on an H200, the best ones of each size before the others: these times are
# predicted within a twelfth, all within a ninth, by the root of the mean square.
MULTIPLY_RATE = 6.4e13 / HOPPER.tensor_f64  # FLOPs: the instructions alone, of eight warps of each multiprocessor
TURN, TURN_BESIDE = 9e-8, 7.5e-8  # between stages; where other blocks multiply meanwhile
COPY = 1e-10  # to begin a copy, for a multiprocessor: of those beyond one for each 16 bytes
HAND_FRAGMENT = 6e-11  # to hand a state over, and to take it
JOIN_FRAGMENT = 2.6e-6
# Of narrow fragments, fitted to 13 tiles and four sizes on an H200 that was forced to have 99 KiB: these times are predicted within
# an eighth, by the root of the mean square, and the best tile of each size is among the first ones.
NARROW_RATE = 0.98  # of `by_warps`: the instructions alone
NARROW_CACHE = 2.3  # of `cache_rate`: blocks that are side by side load the same at once
NARROW_TURN, NARROW_TURN_BESIDE = 1.63e-7, 1.88e-7
SHARED_RATE = 128  # bytes that a multiprocessor loads from shared memory in a cycle
BESIDES = 16  # of what takes less time, multiplying or moving from memory, this part shows


def seconds(tile: RegisterTile, pairs: Pairs, target: Target) -> float:
    """How long it takes: for blocks that share a multiprocessor, waiting for a stage and combining it, in turn; their states."""
    if pairs.empty:
        return BEGIN
    if tile.warps:
        return _multiplied(tile, pairs, target)
    down, across = -(-pairs.rows // tile.rows), -(-pairs.columns // tile.columns)
    blocks = -(-pairs.outer * down * across * tile.splits // target.multiprocessors)  # of a multiprocessor
    room = target.shared_per_multiprocessor // (shared_bytes(tile, pairs) + target.shared_taken)
    at_once = max(1, min(blocks, room, tile.resident(pairs.words, pairs.axes, target)))
    stages = -(-pairs.depth // (tile.depth * tile.splits)) + 1
    rate = flop_rate(target) / target.multiprocessors * RATES["large" if tile.own_rows * tile.own_columns > 16 else "small"]
    wide = max(pairs.row_bytes, pairs.column_bytes) / WORD
    wide *= slower(target) if pairs.double else 1.0
    combining = tile.rows * tile.columns * tile.depth * pairs.operations * wide / rate
    words = (tile.rows * pairs.row_bytes + tile.columns * pairs.column_bytes) * tile.depth // WORD
    bringing = words * BRING * (1 + INDEX * (pairs.axes - 3))
    handing = HAND * (tile.groups + 1) * tile.rows * tile.columns * pairs.words
    loaded = pairs.outer * pairs.depth * (across * pairs.rows * pairs.row_bytes + down * pairs.columns * pairs.column_bytes)
    turns = blocks / at_once * stages * (WAIT + at_once * (combining + bringing))
    return BEGIN + turns + blocks * handing + (JOIN if tile.splits > 1 else 0.0) + loaded / (2 * cache_rate(target))


def _multiplied(tile: RegisterTile, pairs: Pairs, target: Target) -> float:
    """The same of fragments: the blocks of a multiprocessor multiply, or wait for the L2 cache, whichever takes longer."""
    down, across = -(-pairs.rows // tile.rows), -(-pairs.columns // tile.columns)
    at_once = target.resident(tile.splits) if tile.splits > 1 else target.multiprocessors
    blocks = -(-pairs.outer * down * across * tile.splits // at_once)  # of a multiprocessor
    at_once = min(blocks, tile.resident(pairs.words, pairs.axes, target))
    stages = -(-pairs.depth // (tile.depth * tile.splits)) + tile.stages - 1
    rate = NARROW_RATE * target.by_warps if tile.size == NARROW else MULTIPLY_RATE * target.tensor_f64
    multiplying = 2 * tile.rows * tile.columns * tile.depth / rate
    loading = tile.size * (tile.rows + tile.columns) * tile.depth / cache_rate(target)
    if tile.size == NARROW:  # a fragment is loaded from shared memory for few products, which take little time
        loading /= NARROW_CACHE
        own = tile.size * (tile.own_rows + tile.own_columns) * tile.depth // tile.groups * (tile.threads // WARP)
        loading = max(loading, own / (SHARED_RATE * target.clock * target.multiprocessors))
    few = (tile.rows + tile.columns) * tile.size / TOGETHER
    copies = tile.rows / pairs.together[0] + tile.columns / pairs.together[1] - few + few * INDEX * (pairs.axes - 3)
    turn = at_once * (target.multiprocessors * max(multiplying, loading) + COPY * copies * tile.depth)
    alone, beside = (NARROW_TURN, NARROW_TURN_BESIDE) if tile.size == NARROW else (TURN, TURN_BESIDE)
    turn += alone if at_once == 1 else beside
    handing = HAND_FRAGMENT * (tile.groups + 1) * tile.rows * tile.columns
    taken = blocks / at_once * stages * turn + blocks * handing + (JOIN_FRAGMENT if tile.splits > 1 else 0.0)
    moved = tile.size * pairs.outer * (pairs.depth * (pairs.rows + pairs.columns) + pairs.rows * pairs.columns)
    moving = moved / memory_rate(target)
    return BEGIN + max(taken, moving) + min(taken, moving) / BESIDES


def best(pairs: Pairs, target: Target) -> tuple[float, RegisterTile] | None:
    """The quickest tile and its seconds; None where none fits."""
    found = [(seconds(tile, pairs, target), tile) for tile in candidates(pairs, target)]
    return min(found, key=lambda pair: pair[0], default=None)
