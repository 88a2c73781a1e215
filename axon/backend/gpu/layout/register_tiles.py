"""Which register tiles suit a sum of products, or another reduction of pairs, of what size, and how long it takes with them.

Note [Register tiles]
    A reduction over `depth` at each of `rows` × `columns` places, of what a row and a column have at it, would load a row and a
    column for every place. So a block takes a tile of places and brings what its rows and columns have, `depth` indices at a
    time, into shared memory; a thread takes some rows and some columns of the tile, whose states stay in its registers, and each
    value that it loads serves all of them. Where places are few and the depth is long, *groups* of threads of a block, and the
    blocks of a cluster, share the depth; what they have is put together in order, so that the same sizes give the same bits.

The rates are those of `roofline`, and constants that were fitted to 150 kernels of 30 sizes on an H100: their times are predicted
within a sixth, by the root of the mean square.
"""

from __future__ import annotations

from axon.backend.gpu.layout.roofline import cache_rate, flop_rate, slower
from axon.backend.gpu.layout.target import Target
from axon.base.data import dataclass, replace

WORD = 4  # bytes of a register
TOGETHER = 16  # bytes that a thread takes from shared memory at once
STAGES = 2  # of what is brought: one is read while the next one comes
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

    @property
    def members(self) -> int:
        """Threads of a group."""
        return (self.rows // self.own_rows) * (self.columns // self.own_columns)

    @property
    def threads(self) -> int:
        return self.groups * self.members

    def resident(self, words: int, axes: int, target: Target) -> int:
        """How many blocks of a multiprocessor have registers, where a state is so many words and indices are found along so many
        axes: beyond three, for each word that a thread brings."""
        brought = (self.rows + self.columns) * self.depth // self.threads
        registers = self.own_rows * self.own_columns * words + BESIDE + PER_AXIS * axes + brought * (axes - 3) // 2
        return max(1, target.registers_per_multiprocessor // (self.threads * registers))

    def __str__(self) -> str:
        parts = [f"a block for {self.rows} × {self.columns} places, {self.own_rows} × {self.own_columns} of a thread"]
        sharers = [f"{self.groups} groups of threads"] if self.groups > 1 else []
        sharers += [f"{self.splits} blocks of a cluster"] if self.splits > 1 else []
        parts += [f"{' and '.join(sharers)} share the depth"] if sharers else []
        return " · ".join([*parts, f"{self.depth} of it at a time" if sharers else f"a depth of {self.depth} at a time"])


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
BESIDE = 20  # registers of a thread beside its states and indices
PER_AXIS = 16  # registers to find an index
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

    @property
    def empty(self) -> bool:
        return 0 in (self.outer, self.rows, self.columns)


def shared_bytes(tile: RegisterTile, pairs: Pairs) -> int:
    """Of a block: its stages, or the states that its groups hand over, whichever is more."""
    padded = (tile.rows + TOGETHER) * pairs.row_bytes + (tile.columns + TOGETHER) * pairs.column_bytes
    return max(STAGES * tile.depth * padded, tile.groups * tile.rows * tile.columns * pairs.words * WORD)


def candidates(pairs: Pairs, target: Target) -> list[RegisterTile]:
    """The tiles that fit a chip, each with every number of blocks that may share its depth."""
    fit = [tile for tile in TILES if tile.own_rows * tile.own_columns * pairs.words <= MOST_OWN]
    fit = [tile for tile in fit if shared_bytes(tile, pairs) <= min(MOST_SHARED, target.shared_per_block)]
    shared = ((tile, splits) for tile in fit for splits in SPLITS if splits <= target.max_cluster)
    return [replace(t, splits=n) for t, n in shared if n == 1 or pairs.depth >= n * LEAST_STAGES * t.depth]


BEGIN = 0.9e-6  # seconds of a launch
WAIT = 0.5e-6  # from asking for a stage until it is there
JOIN = 2.2e-6  # in which the blocks of a cluster wait for each other twice
BRING = 5e-11  # to bring a word, for a multiprocessor
INDEX = 1.9  # so much more of that for each axis beyond three: indices are found by division
HAND = 1.6e-10  # to hand a word of states over, and to take it
RATES = {"small": 1.0, "large": 1.25}  # of `flop_rate`, for what a thread has of a tile


def seconds(tile: RegisterTile, pairs: Pairs, target: Target) -> float:
    """How long it takes: for blocks that share a multiprocessor, waiting for a stage and combining it, in turn; their states."""
    if pairs.empty:
        return BEGIN
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


def best(pairs: Pairs, target: Target) -> tuple[float, RegisterTile] | None:
    """The quickest tile and its seconds; None where none fits."""
    found = [(seconds(tile, pairs, target), tile) for tile in candidates(pairs, target)]
    return min(found, key=lambda pair: pair[0], default=None)
