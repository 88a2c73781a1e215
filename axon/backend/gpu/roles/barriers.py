"""The barrier program: roles with every count, byte, parity, fence and wait written out.

`verify`, `simulate` and `emit` all read this form and nothing before it, so a wrong count or a flipped parity that the proof
accepts is also what would run. Barriers are Hopper's mbarriers in shared memory: a phase completes when its pending arrivals and
its expected bytes are both used up; waiting for a parity passes when the newest complete phase has it. Each role keeps, for each
ring, a cursor: the stage it is at and how often it has wrapped.

A tile in shared memory is cut into *panels*: rows of one swizzle width (128 bytes), each panel filled by one bulk copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from axon.backend.gpu.layout.pages import Pages
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.tile.bounds import Bounds
from axon.backend.gpu.tile.computed import Computed
from axon.backend.gpu.tile.ir import Load, Store, StoreRows, Tile, TileAxis, Work
from axon.backend.gpu.tile.ragged import Ragged
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.segments import Segments
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Value
from axon.shapes.dimension import Dim

Side: TypeAlias = Literal["full", "empty"]
Keep: TypeAlias = Literal["never", "always", "later"]

# ── what exists ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Field:
    """A tile of each stage, `offset` bytes after the stage begins. Its panels are `panel` bytes apart, `width` elements wide.

    `load` says what it is to hold: what the copies into it are proved against.
    """

    tile: Tile
    offset: int
    panel: int
    width: int
    load: Load


@dataclass(frozen=True, slots=True)
class Ring:
    """`full` and `empty` count the arrivals that complete a phase of those barriers. Offsets are bytes of shared memory."""

    symbol: Symbol
    depth: int
    fields: tuple[Field, ...]
    full: int
    empty: int
    barriers: int  # offset of the first full barrier; each stage has full, then empty, 8 bytes each
    data: int
    stage: int  # bytes of one stage


@dataclass(frozen=True, slots=True)
class Buffer:
    """Where a consumer lays out what it stores: `slots` of `slot` bytes for each consumer."""

    symbol: Symbol
    offset: int
    slot: int
    slots: int


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A TMA view of a tensor: its dimensions in the order in which they lie, and the box that one copy moves, likewise. A copy may
    round f32 to tf32."""

    tensor: Symbol
    box: tuple[int, ...]
    order: tuple[int, ...]
    rounds: bool = False


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A place along one dimension of a TMA view.

    It is step · piece(axis) + offset + by_rank · rank in the cluster + by_consumer · consumer. Where segments of rows are summed,
    that of a step is a place in its tile's, with which the last piece ends, and a copy has two: the front, and how far from there.
    Where rows lie in pages it is the first of a box, which says the copy's other places: its page, and where it is in that.
    """

    axis: Symbol
    step: int
    offset: int = 0
    by_rank: int = 0
    by_consumer: int = 0


# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Await:
    """Wait at the cursor's stage for parity `first` in the cursor's first round, and the other in every second one.

    Or at the stage so far `ahead` of the cursor, as `Expect` and `Copy`.
    """

    ring: Ring
    side: Side
    first: int
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """Ask a table in which pages the boxes are that begin at these places, for the copies that follow."""

    pages: Pages
    at: tuple[Coordinate, ...]


@dataclass(frozen=True, slots=True)
class Expect:
    """One arrival at the full barrier of the cursor's stage, which also announces so many bytes."""

    ring: Ring
    bytes: int
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy a box to `offset + by_rank · rank` in the cursor's stage, of this block or of each block of the cluster at once.

    Its bytes count at the full barrier there.
    """

    ring: Ring
    descriptor: Descriptor
    at: tuple[Coordinate, ...]
    field: int
    offset: int
    by_rank: int
    bytes: int
    multicast: bool
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Advance:
    ring: Ring


@dataclass(frozen=True, slots=True)
class Release:
    """One thread arrives at the empty barrier `back` stages behind the cursor: of each block of the cluster, or of this one."""

    ring: Ring
    back: int
    cluster: bool


@dataclass(frozen=True, slots=True)
class Clear:
    accumulator: Tile


@dataclass(frozen=True, slots=True)
class ProductFence:
    """Orders this warpgroup's registers before the products that follow."""


@dataclass(frozen=True, slots=True)
class StageField:
    """A field of the stage at a ring's cursor."""

    ring: Ring
    field: int

    @property
    def tile(self) -> Tile:
        return self.ring.fields[self.field].tile


@dataclass(frozen=True, slots=True)
class Evaluate:
    """All threads compute a factor in registers, of what the stages of a ring hold of it, and of reads from memory."""

    computed: Computed
    tile: Tile
    staged: tuple[StageField, ...]
    over: Symbol


@dataclass(frozen=True, slots=True)
class Product:
    """Issue accumulator[block] += left · right; `keep` says when the accumulator counts: never, always, or after the first step.

    The left factor is a part of a stage, or a tile that registers hold.
    """

    accumulator: Tile
    left: StageField | Tile
    right: StageField
    over: Symbol
    block: int  # which 64 rows of this consumer
    keep: Keep

    @property
    def rings(self) -> tuple[Ring, ...]:
        parts = (self.left.ring, self.right.ring) if isinstance(self.left, StageField) else (self.right.ring,)
        return tuple(dict.fromkeys(parts))

    @property
    def registers(self) -> frozenset[Symbol]:
        """The tiles that it reads or writes in registers."""
        held = {self.left.symbol} if isinstance(self.left, Tile) else set()
        return frozenset(held | {self.accumulator.symbol})


@dataclass(frozen=True, slots=True)
class Commit:
    """The products since the last commit are one group."""


@dataclass(frozen=True, slots=True)
class Retire:
    accumulator: Tile
    pending: int


@dataclass(frozen=True, slots=True)
class Reclaim:
    """The thread that stores waits until at most `pending` of its stores still read their buffers."""

    buffer: Buffer
    pending: int


@dataclass(frozen=True, slots=True)
class Meet:
    """All threads of this consumer wait for each other."""

    barrier: int  # named barrier of consumer 0; the others follow
    threads: int


@dataclass(frozen=True, slots=True)
class Turn:
    """All threads of a consumer wait for the pass of the consumer before it. Consumer c's turn is named barrier `first` + c."""

    first: int
    threads: int  # of both


@dataclass(frozen=True, slots=True)
class PassTurn:
    """All threads of a consumer arrive at the turn of the next one, and the last consumer's at that of the first.

    `only` is the one consumer that does so, if not all do.
    """

    first: int
    threads: int
    only: int | None = None


@dataclass(frozen=True, slots=True)
class LastTurn:
    """At the end one consumer takes the turn that was passed to it: the first, or, if each has its own tiles, the one that the
    next tile would have been for."""

    first: int
    threads: int


@dataclass(frozen=True, slots=True)
class Write:
    """All threads compute 64 rows and `width` columns of a result and write them to a slot of the buffer."""

    buffer: Buffer
    slot: int
    store: Store
    block: int
    column: int
    width: int


@dataclass(frozen=True, slots=True)
class AsyncFence:
    """Each thread makes its writes to shared memory visible to bulk copies."""


@dataclass(frozen=True, slots=True)
class Send:
    """One thread stores a slot to the tensor with a bulk copy, clipped at its edges, and commits it as one group."""

    buffer: Buffer
    slot: int
    descriptor: Descriptor
    at: tuple[Coordinate, ...]


@dataclass(frozen=True, slots=True)
class Scatter:
    """All threads compute 64 rows and `width` columns of a result and store what is inside: element by element, or rows at a time
    from a buffer, of which each warp has a part to itself. See Note [Three ways to store a tile]."""

    store: Store
    block: int
    column: int
    width: int
    buffer: Buffer | None = None


@dataclass(frozen=True, slots=True)
class Drain:
    """The thread that stores waits until all its stores are complete."""


@dataclass(frozen=True, slots=True)
class Depart:
    """Every thread of the cluster waits for every other, so that no block leaves while another may still reach into it."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Once for each tile of this block, in the program's order; possibly never."""

    body: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Last:
    """What follows is about the last piece of an axis."""

    axis: TileAxis


@dataclass(frozen=True, slots=True)
class Steps:
    """Once for each piece of an axis, at least once; or `backwards`, from the last to the first that the bounds leave.

    `peeled`: for each piece before the one that `Last` made; possibly never.
    """

    axis: TileAxis
    body: tuple[Op, ...]
    backwards: bool = False
    peeled: bool = False


@dataclass(frozen=True, slots=True)
class IfOwn:
    """The body for a tile of this consumer, or of another one (`own` false): a block's tiles are the first consumer's, the
    second's, …, and the first's again."""

    own: bool
    body: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class AfterSteps:
    """The body if the loop over this axis has completed at least so many steps (inside it: before this one)."""

    axis: TileAxis
    count: int
    body: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class IfPiece:
    """The body if the axis has a piece `number`: counted from the `current` one, or, in front of the loop, from the first."""

    axis: TileAxis
    number: int
    current: bool
    body: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Alone:
    """The body, by the first thread of the role's first instance alone."""

    body: tuple[Op, ...]


Single: TypeAlias = (  # operations that hold no others
    "Await | Look | Expect | Copy | Advance | Release | Clear | Evaluate | ProductFence | Product | Commit | Retire | Work | Turn"
    " | PassTurn | LastTurn | Reclaim | Meet | Write | AsyncFence | Send | Scatter | Drain | Depart"
)
Op: TypeAlias = "Single | Tiles | Last | Steps | IfOwn | AfterSteps | IfPiece | Alone"
Nested = Tiles | Steps | IfOwn | AfterSteps | IfPiece | Alone


@dataclass(frozen=True, slots=True)
class Role:
    """`instances` warpgroups that run one body; `elected`: only their first thread. `registers` per thread, None as launched."""

    name: str
    instances: int
    elected: bool
    registers: int | None
    body: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """How tiles are numbered: outer axes slowest, then groups of `group` clusters of rows, walked column by column.

    `paired`, for tiles of which those of later rows may have more to do: a block makes the tiles of one outer index in pairs, of
    the last rows and the first, of the last but one and the second, so that all pairs are alike.

    `ragged`: a piece of rows is a tile of which tables say the rows and their group, and how many pieces there are. A coordinate
    along rows counts from the first of these, whatever its step.
    """

    outer: tuple[TileAxis, ...]
    rows: TileAxis
    columns: TileAxis
    group: int
    cluster: int
    cluster_over: Literal["rows", "columns"]
    paired: bool = False
    ragged: Ragged | None = None


@dataclass(frozen=True, slots=True)
class Promoted:
    """What each step sums in an accumulator of its own, and adds to another one, if there is one: products of these factors, in
    this order; those of the last are the greatest limbs. It is multiplied by `scales` before, if there are any."""

    accumulator: Tile | None
    partial: Tile
    factors: tuple[tuple[Tile, Tile], ...]
    scales: Symbol | None = None


@dataclass(frozen=True, slots=True)
class BarrierProgram:
    """A kernel. `fenced` says that barriers, once initialized, are published to the cluster before anyone uses them.

    `steps` is the axis of its loops; `derived`, `whole`, `bounds`, `views`, `segments` and `pages` are the tile program's. `stores`
    are the results, which every tile must leave in memory as a whole, `row_stores` those of one value per row; `promoted` is what a
    step must sum, one after the other, if it has sums of its own; `sums` what a step adds to several accumulators: each with its
    factors.
    """

    tensors: tuple[Value, ...]
    mapping: TileMapping
    target: Target
    order: Order
    steps: TileAxis
    rings: tuple[Ring, ...]
    buffers: tuple[Buffer, ...]
    roles: tuple[Role, ...]
    shared: int
    fenced: bool = True
    derived: tuple[tuple[Symbol, Dim], ...] = ()
    whole: tuple[TileAxis, ...] = ()
    bounds: Bounds | None = None
    stores: tuple[Store, ...] = ()
    views: tuple[View, ...] = ()
    promoted: tuple[Promoted, ...] = ()
    row_stores: tuple[StoreRows, ...] = ()
    sums: tuple[tuple[Tile, Tile, Tile], ...] = ()
    segments: Segments | None = None
    pages: tuple[Pages, ...] = ()

    @property
    def ragged(self) -> Ragged | None:
        return self.order.ragged

    @property
    def cluster(self) -> int:
        return self.order.cluster

    @property
    def blocks(self) -> int:
        """How many times 64 rows a consumer has."""
        return self.order.rows.step // (64 * self.mapping.sharing)

    @property
    def threads(self) -> int:
        return 128 * sum(role.instances for role in self.roles)

    @property
    def descriptors(self) -> tuple[Descriptor, ...]:
        """Every TMA view that the kernel uses, in order of first use."""
        found = (op.descriptor for role in self.roles for op in operations(role.body) if isinstance(op, Copy | Send))
        return tuple(dict.fromkeys(found))


def operations(body: tuple[Op, ...]) -> Iterator[Op]:
    """Every operation, loops before their bodies."""
    for op in body:
        yield op
        if isinstance(op, Nested):
            yield from operations(op.body)
