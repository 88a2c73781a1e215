"""Mappings: how a kernel is laid out on the chip, as data, and the cost model that picks one.

A mapping changes speed, never results. `candidates` lists what is worth pricing for a kernel on a target, `predict` prices one for
given sizes, `choose` takes the cheapest. `check` words what is wrong with a mapping that a user gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingOf
from functools import lru_cache
from itertools import product
from math import inf, lcm, prod
from typing import Any, Literal

from axon.backend.gpu.layout.products import PROMOTED as PROMOTED_DEPTH
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.tile.computed import MOST_DEPTH
from axon.base.data import dataclass, replace
from axon.base.element import Element

# Registers per thread of (producer, consumer), by the number of consumer warpgroups; None keeps what the launch gave. Together
# they fit the file of one multiprocessor.
REGISTER_BUDGETS: dict[int, tuple[int, int] | None] = {1: None, 2: (40, 232), 3: (40, 152)}
STREAM_BUDGETS = {3: (32, 160)}  # a stream's consumers hold more
SCORES_BUDGETS = {2: (56, 224), 3: (56, 152)}  # and its producer fills two more rings for each further product of scores
PAGE_BUDGETS = {2: (72, 216), 3: (56, 152)}  # or finds pages, and where rows end in them
LIMB_BUDGETS = {2: (88, 208)}  # a producer of limbs asks for many copies a step
STREAM_SPARE = 24  # likewise, of a stream
KEY_SPARE = 4  # for each value that it reads for each key, beside these
TABLE_BUDGETS = {2: (56, 224)}  # a producer knows of each tile what tables say
SEGMENT_LIMB_BUDGETS = {2: (72, 216)}  # and of limbs, whose consumers know how many steps there are
SPARE_REGISTERS = 40  # what a consumer needs beside its accumulators

BARRIER_BYTES = 1024  # at the start of shared memory; keeps what follows aligned for swizzled tiles
BUFFER_BYTES = 64 * 128  # one store buffer: 64 rows of one swizzle width


@dataclass(frozen=True, slots=True)
class TileMapping:
    """One way to run a contraction. Tile extents are in elements."""

    rows: int = 128  # shared by the consumers; or, if each has tiles of its own, of one of these
    columns: int = 256
    depth: int = 64
    stages: int = 4  # depth D of the ring between producer and consumers
    in_flight: int = 1  # P: groups of products that may still run when the next is issued
    consumers: int = 2  # warpgroups that share the rows of a tile, or, of a contraction in turn, have a block's tiles one by one
    cluster: int = 2  # blocks that share one operand by multicast
    cluster_over: Literal["rows", "columns"] = "rows"  # the axis along which the blocks of a cluster differ
    group: int = 8  # clusters of tile rows that are walked together, for the L2 cache
    persistent: bool = True  # one block per multiprocessor walks many tiles
    slots: int = 1  # buffers per consumer between its registers and a store
    keys: int = 0  # of a stream: the extent of a tile along the streamed axis; 0 for a contraction
    specialized: bool = True  # a producer of its own asks for copies; if not, the consumers' first thread does so beside its work
    turns: bool = False  # consumers issue their products one after the other, so that one computes while another multiplies
    box: int = 0  # of a stream whose keys lie in pages: so many of them, all of one page, one copy brings

    @property
    def apart(self) -> bool:
        """Whether each consumer has tiles of its own, so that what one does with its result runs beside another's products."""
        return self.turns and not self.keys

    @property
    def sharing(self) -> int:
        """How many consumers share the rows of a tile."""
        return 1 if self.apart else self.consumers

    def __str__(self) -> str:
        keys = f"×{self.keys}" if self.keys else ""
        boxes = f" · boxes of {self.box} keys" if self.box else ""
        tile = f"tile {self.rows}×{self.columns}×{self.depth}{keys} · consumers {self.consumers}{' in turn' if self.turns else ''}"
        ring = f"stages {self.stages} · in flight {self.in_flight}"
        cluster = f"cluster {self.cluster} over {self.cluster_over}" if self.cluster > 1 else "no cluster"
        walk = "persistent" if self.persistent else "one tile per block"
        roles = "" if self.specialized else " · not specialized"
        return f"{tile}{boxes} · {ring} · {cluster} · groups of {self.group} · {walk}{roles}"


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What a consumer does with each element of its sums beside storing one result of them.

    A thread loads, computes and stores 8 columns of a result at a time, one after the other, and waits for what it loads. `far`
    says for how many results it waits for memory: these read what no other has read before, at rows and columns. For `near` others
    it waits for what lies close by: a row of columns, or what an earlier result has read too. `moved` are bytes read and written.
    """

    far: int = 0
    near: int = 0
    moved: float = 0.0
    work: float = 0.0  # as many additions, see `scalar_facts.weight`

    def __bool__(self) -> bool:
        return bool(self.far or self.near or self.moved or self.work)


@dataclass(frozen=True, slots=True)
class Traits:
    """What of a kernel decides which mappings are legal: element types, and which factors are stored across the reduced index."""

    element: Element
    stored: tuple[Element, ...]
    left_across: bool = False
    right_across: bool = False
    stream: bool = False
    value_across: bool = False
    value: Element | None = None  # of a stream: of the factors of its second product, if they are others than those of the scores
    limbs: tuple[int, int] = (1, 1)  # of the left factor, of the right one
    factors: tuple[int, int] = (1, 1)  # how many left ones a stage holds, and right ones, of products that share the other
    scores: int = 1  # of a stream: how many for each element
    by_key: int = 0  # and how many values it reads for each key
    pages: bool = False  # and whether its keys lie in pages
    ragged: int = 0  # rows of a tile, if tables say so, which tiles have which
    segments: bool = False  # whether a table says which rows a tile sums
    computed: tuple[
        tuple[int, int], ...
    ] = ()  # of a left factor that is computed: bits of what is staged, and for how many of the depth
    epilogue: bool = False  # of a contraction: whether something is done with its sums beside storing them
    promotion: int = 0  # after how much of the depth what a step adds up is promoted; 0 if it is not, but for limbs
    unit: int = 0  # of how much of the depth the scales are the same, by which that is multiplied; 0 if there are none
    by_column: tuple[int, ...] = ()  # of those that depend on columns, of how many of these

    @property
    def in_limbs(self) -> bool:
        """Whether factors come in limbs."""
        return self.limbs != (1, 1)

    @property
    def promoted(self) -> bool:
        """Whether each step sums on its own."""
        return self.in_limbs or bool(self.promotion)

    @property
    def waits(self) -> bool:
        """Whether each step waits for its own products: a stream that is promoted adds up those of the step before."""
        return self.in_limbs or (bool(self.promotion) and not self.stream)

    @property
    def second(self) -> Element:
        """The element type of the factors of a stream's second product."""
        return self.value or self.element

    @property
    def sums(self) -> int:
        """How many accumulators a tile has."""
        return prod(self.factors)

    @property
    def keys_contiguous(self) -> bool:
        """Whether a factor of a stream lies along the keys, so that its tile is made of whole panels of them."""
        return self.stream and (self.right_across or not self.value_across)


@dataclass(frozen=True, slots=True)
class ScheduleProblem:
    """The sizes that a choice depends on. `outer` is the product of the outer extents, `elements` how many different ones each
    factor has in all, of one limb; if it is not said, as many as its matrices. The side of `pixels` is read by copies of these,
    which lie along the rows or columns, or along what is `summed`. Of
    products that share a factor there are so many left and right `factors`, and as many sums as the more of these.

    Of rows in `groups` tiles have one group each. Of streams there are the streamed extent, whether a mask leaves parts out, how
    many scores an element has, how many values are read for each key, and of how many keys a `page` is, if they lie in pages; of
    factors in limbs, how many they have, and how many products. An element, or a limb, has so many `bits`; `elements` of a stream
    count as many of 16. Sums are promoted after so much of the depth, or of the keys, if that is not 0.
    """

    rows: int
    columns: int
    depth: int
    outer: int = 1
    keys: int = 0
    masked: bool = False
    limbs: tuple[int, int] = (1, 1)
    products: int = 1
    factors: tuple[int, int] = (1, 1)
    elements: tuple[int, int] | None = None
    pixels: Literal["rows", "columns"] | None = None
    summed: bool = False
    scores: int = 1
    by_key: int = 0
    page: int = 0
    groups: int = 0
    staged: int = 0  # bytes of what is staged of a left factor that is computed
    work: float = 0.0  # instructions of each of its elements
    bits: int = 16
    value_bits: int = 16  # of a stream: of an element of its second product's factors
    promotion: int = 0
    by_column: tuple[int, ...] = ()  # for how many columns each scale is one, of those that depend on columns
    epilogue: Epilogue = Epilogue()

    @property
    def sums(self) -> int:
        """How many accumulators a tile has."""
        return prod(self.factors)

    def tiles(self, rows: int) -> int:
        """How many tiles of so many rows there are: of rows in groups, if these are of about one size."""
        if not self.groups:
            return -(-self.rows // rows)
        there = min(self.groups, self.rows)
        return there * max(1, round(self.rows / (there * rows) + 0.5))


def register_budget(
    mapping: TileMapping, *, limbs: bool, scores: int = 1, ragged: bool = False, segments: bool = False
) -> tuple[int, int] | None:
    """Registers per thread of (producer, consumer), if they differ."""
    if not mapping.specialized:
        return None
    special = TABLE_BUDGETS if ragged or segments else {}
    if limbs:
        special = SEGMENT_LIMB_BUDGETS if segments else LIMB_BUDGETS
    if mapping.keys:
        special = PAGE_BUDGETS if mapping.box else SCORES_BUDGETS if scores > 1 or limbs else STREAM_BUDGETS
    return special.get(mapping.consumers, REGISTER_BUDGETS[mapping.consumers])


def panel(element: Element, target: Target) -> int:
    """Elements in one swizzle width."""
    return target.swizzle * 8 // element.bits


def shared_bytes(mapping: TileMapping, traits: Traits) -> int:
    """The dynamic shared memory of a block, if every result is stored by bulk copies: barriers, ring, and buffers."""
    if traits.stream:
        deep, wide = mapping.depth * traits.scores * traits.element.bits // 8, mapping.columns * traits.second.bits // 8
        ring = traits.limbs[0] * (mapping.rows * deep + mapping.stages * mapping.keys * (deep + wide))
        return BARRIER_BYTES + ring + mapping.consumers * mapping.slots * BUFFER_BYTES
    else:
        left, right = (limbs * several for limbs, several in zip(traits.limbs, traits.factors, strict=True))
        if traits.computed:
            staged = sum(bits * mapping.depth // (8 * per) for bits, per in traits.computed)
            ring = mapping.stages * (mapping.rows * staged + mapping.columns * mapping.depth * traits.element.bits // 8)
            return BARRIER_BYTES + ring + mapping.consumers * mapping.slots * BUFFER_BYTES
        ring = mapping.stages * (mapping.rows * left + mapping.columns * right) * mapping.depth
    ring = ring * traits.element.bits // 8
    return BARRIER_BYTES + ring + mapping.consumers * mapping.slots * BUFFER_BYTES


def accumulators(mapping: TileMapping, traits: Traits) -> int:
    """Registers of one consumer thread that hold tiles: a product, the sum of a step, and of a stream scores and, in 16 bits or 8,
    weights, and what it reads for its keys. Of weights in limbs scores are none any more."""
    if traits.stream and traits.in_limbs:
        return mapping.rows * (4 * mapping.columns + 3 * mapping.keys) // (2 * mapping.consumers * 128)
    held = mapping.depth if traits.computed else 0  # 16 bits each
    columns = held + 2 * mapping.columns * (traits.sums + traits.promoted)
    columns += (2 * traits.scores + traits.by_key) * mapping.keys + mapping.keys * traits.second.bits // 16
    scales = sum(mapping.columns // 4 for unit in traits.by_column if unit % mapping.columns)
    return mapping.rows * columns // (2 * mapping.sharing * 128) + scales


def check(mapping: TileMapping, target: Target, traits: Traits) -> tuple[str, ...]:
    """What forbids this mapping on this target; nothing if it is legal."""
    numbers = (mapping.rows, mapping.columns, mapping.depth, mapping.stages, mapping.cluster, mapping.group, mapping.slots)
    if any(n < 1 for n in numbers):
        return ("every number of a mapping is at least 1",)
    if mapping.consumers not in REGISTER_BUDGETS:
        return (f"there can be {', '.join(map(str, REGISTER_BUDGETS))} consumers, not {mapping.consumers}",)
    if traits.stream != bool(mapping.keys):
        return ("keys are for streams, which need them",)
    low, high, granule = target.product_columns
    width = panel(traits.element, target)
    over_rows = mapping.cluster_over == "rows"
    shared, across = (mapping.columns, traits.right_across) if over_rows else (mapping.rows, traits.left_across)
    unit = width if across else 8  # what a block may load of a shared tile: whole panels, or whole swizzle periods of rows
    what = "columns" if over_rows else "rows"
    along = width if traits.right_across else panel(traits.second, target)  # what of a stream lies along the keys
    step = panel(Element.BF16, target) if traits.stream else width if traits.right_across else max(granule, 16)
    staged = lcm(*(target.swizzle * 8 // bits * per for bits, per in traits.computed))
    tables = {"ragged": bool(traits.ragged), "segments": traits.segments}
    budget = register_budget(mapping, limbs=traits.in_limbs, scores=traits.scores, **tables)
    spare = STREAM_SPARE + KEY_SPARE * traits.by_key if traits.stream else SPARE_REGISTERS
    threads = target.warpgroup * (mapping.consumers + mapping.specialized)
    registers = budget[1] if budget else min(target.max_registers, target.registers_per_multiprocessor // threads)
    used = shared_bytes(mapping, traits)
    rules = [
        (mapping.rows % (target.product_rows * mapping.sharing) == 0,
         f"rows must be a multiple of {target.product_rows} for each consumer"),
        (mapping.rows <= target.box_extent, f"rows can be at most {target.box_extent}"),
        (low <= mapping.columns <= high, f"columns must be {low} to {high}"),
        (mapping.columns % step == 0, f"columns must be a multiple of {step}"),
        (mapping.depth % width == 0, f"depth must be a multiple of {width}"),
        (not traits.computed or (mapping.depth % staged == 0 and mapping.depth <= MOST_DEPTH),
         f"depth must be a multiple of {staged} up to {MOST_DEPTH}, since the left factor is computed"),
        (not traits.computed or (mapping.rows == target.product_rows * mapping.consumers and mapping.cluster == 1),
         f"a factor that is computed has {target.product_rows} rows for each consumer, and no cluster shares it"),
        (not traits.computed or (not mapping.in_flight and mapping.specialized),
         "a factor is computed while no product is in flight, and beside a producer: the mapping must be specialized"),
        (not traits.waits or not mapping.in_flight,
         "with factors in limbs, or sums that are promoted, no product is in flight when the next step is issued: "
         "a step adds up its own"),
        (not traits.promotion or mapping.depth <= traits.promotion,
         f"depth can be at most {traits.promotion}, of which sums are promoted"),
        (not traits.promotion or mapping.keys <= traits.promotion,
         f"keys can be at most {traits.promotion}, of which sums are promoted"),
        (not (traits.stream and traits.element.bits == 8) or mapping.depth <= PROMOTED_DEPTH,
         f"scores of 8-bit floats are not promoted, and have a depth of at most {PROMOTED_DEPTH}"),
        (not traits.unit or traits.unit % mapping.depth == 0, f"{traits.unit} of the depth have one scale"),
        (0 <= mapping.in_flight < mapping.stages, "fewer products can be in flight than the ring has stages"),
        (mapping.specialized or not traits.stream, "a stream needs a producer of its own: it must be specialized"),
        (mapping.specialized or mapping.in_flight + 2 <= mapping.stages,
         "without a producer of its own the ring needs two stages more than there are products in flight"),
        (mapping.stages * 16 <= BARRIER_BYTES, f"there can be at most {BARRIER_BYTES // 16} stages"),
        (mapping.cluster <= target.max_cluster, f"a cluster has at most {target.max_cluster} blocks"),
        (mapping.cluster == 1 or shared % (mapping.cluster * unit) == 0,
         f"each block of a cluster must load a multiple of {unit} {what}"),
        (accumulators(mapping, traits) + spare <= registers,
         f"{accumulators(mapping, traits)} accumulators leave a consumer's thread too few registers"),
        (not traits.stream or mapping.cluster == 1, "blocks of a stream do not share operands"),
        (not traits.stream or mapping.rows == target.product_rows * mapping.consumers,
         f"a stream has {target.product_rows} rows for each consumer"),
        (mapping.keys <= target.box_extent, f"keys can be at most {target.box_extent}"),
        (mapping.keys % (along if traits.keys_contiguous else 16) == 0,
         f"keys must be a multiple of {along if traits.keys_contiguous else 16}"),
        (traits.pages == bool(mapping.box), "boxes are for keys in pages, which need them"),
        (not mapping.box or (mapping.box % PERIOD == 0 and mapping.keys % mapping.box == 0),
         f"a box has a multiple of {PERIOD} keys, of which a tile has several times as many"),
        (mapping.keys <= mapping.box * MOST_BOXES or not mapping.box, f"a tile of keys has at most {MOST_BOXES} boxes"),
        (not traits.ragged or mapping.rows == traits.ragged, f"tables are for tiles of {traits.ragged} rows"),
        (not traits.segments or mapping.depth <= target.box_extent, f"depth can be at most {target.box_extent}, of rows of groups"),
        (not traits.ragged or mapping.cluster == 1 or not over_rows, "blocks of other rows share no group's columns"),
        (not mapping.turns or mapping.consumers > 1, "one consumer alone takes no turns"),
        (not mapping.apart or mapping.specialized, "consumers with tiles of their own need a producer: it must be specialized"),
        (not mapping.apart or mapping.persistent, "tiles are done in turn where a block has several: it must be persistent"),
        (not mapping.apart or not (traits.promoted or traits.computed),
         "a step of factors in limbs, of sums that are promoted, or of a factor that is computed, multiplies and computes "
         "by itself: tiles are not done in turn"),
        (used <= target.shared_per_block, f"it needs {used} bytes of shared memory of {target.shared_per_block}"),
    ]  # fmt: skip
    return tuple(text for holds, text in rules if not holds)


# ── choosing ────────────────────────────────────────────────────────────────────────────────────────────────────────────

TILES = (  # rows, columns, depth of 16 bits, consumers
    (256, 128, 64, 2), (128, 256, 64, 2), (128, 192, 64, 2), (128, 128, 64, 2), (128, 64, 128, 2), (64, 256, 64, 1),
    (64, 128, 64, 1), (64, 64, 128, 1), (64, 64, 64, 1),
)  # fmt: skip
SIBLING_TILES = (  # of each of the products that share a factor
    (128, 128, 64, 2), (256, 64, 64, 2), (128, 64, 64, 2), (128, 64, 128, 2), (64, 128, 64, 1), (64, 64, 128, 1), (64, 64, 64, 1),
)  # fmt: skip
LIMB_TILES = ((128, 128, 64, 2), (128, 64, 64, 2), (64, 128, 64, 1), (64, 64, 64, 1))  # stages hold several of each factor
# Beside the sum of a step a thread holds that of all: no tile of 256 columns, nor steps deeper than what is promoted.
PROMOTED_TILES = (
    (128, 192, 64, 2), (128, 128, 64, 2), (128, 96, 64, 2), (128, 64, 64, 2), (64, 192, 64, 1), (64, 128, 64, 1), (64, 64, 64, 1),
)  # fmt: skip
# Of each consumer, in turn: the tiles and clusters that ran on a GPU, with right results. A schedule may ask for others.
TURN_TILES = ((128, 128, 64, 2), (64, 128, 64, 2), (64, 128, 64, 3))
TURN_CLUSTERS: tuple[tuple[int, Literal["rows", "columns"]], ...] = ((2, "rows"), (1, "rows"))
CLUSTERS: tuple[tuple[int, Literal["rows", "columns"]], ...] = ((2, "rows"), (2, "columns"), (4, "columns"), (1, "rows"))
MOST_STAGES = 12
MOST_TURN_STAGES = 6  # of consumers with tiles of their own: a proof has more states for each, and so many are far ahead
COMPUTED_TILES = tuple(  # of a left factor that is computed; few columns are the narrow side of the instruction
    (64 * consumers, columns, depth, consumers)
    for consumers in (1, 2, 3)
    for columns in (16, 32, 64, 128)
    for depth in (64, 128, 256)
)
STREAM_TILES = (  # rows, keys, consumers
    (192, 128, 3), (128, 192, 2), (128, 176, 2), (128, 128, 2), (128, 96, 2), (128, 80, 2), (128, 64, 2), (64, 128, 1), (64, 64, 1),
)  # fmt: skip
LIMB_STREAM_TILES = (
    (128, 128, 2),
    (128, 96, 2),
    (128, 64, 2),
    (128, 48, 2),
    (64, 128, 1),
    (64, 64, 1),
)  # stages hold three of each
PERIOD = 8  # rows after which a swizzled tile repeats itself: boxes are made of these
MOST_BOXES = 16  # of a tile of keys: a producer holds a page for each
WIDTHS = (64, 128, 192, 256)  # of the two products, where one tile holds all

Given = tuple[tuple[str, int | str], ...]  # fields of a mapping that someone fixed, with their values


@lru_cache(maxsize=256)
def candidates(target: Target, traits: Traits, given: Given = ()) -> tuple[TileMapping, ...]:
    """The mappings worth pricing: every tile and cluster with the deepest ring that fits, two store buffers if there is room.

    With the values given, which may ask for a ring that is not worth pricing otherwise.
    """
    for shallow in (False, True) if given else (False,):
        rings = _rings(target, traits, given, shallow)
        legal = dict.fromkeys(m for m in (next((m for m in ring if not check(m, target, traits)), None) for ring in rings) if m)
        if legal:
            return tuple(legal)
    return ()


def attempts(target: Target, traits: Traits, given: Given) -> Iterator[TileMapping]:
    """What `candidates` looks at, legal or not."""
    for rings in _rings(target, traits, given, shallow=True):
        yield from rings


def _rings(target: Target, traits: Traits, given: Given, shallow: bool) -> Iterator[list[TileMapping]]:
    """For each tile and cluster the rings that it may have, the best first; `shallow` ones, and tiles in turn, in any case."""
    fixed: dict[str, Any] = dict(given)
    alone = traits.waits or bool(traits.computed)
    scarce = traits.in_limbs or bool(traits.computed)  # of shared memory
    waiting = fixed.get("in_flight", 0 if alone else 1)
    if traits.stream:
        stages: Iterable[int] = (2, 1) if traits.waits else (max(2, waiting + 1),)
    else:
        least = 1 if traits.in_limbs else 2  # a stage of limbs is several of others
        stages = range(max(MOST_STAGES, waiting + 1), waiting if shallow else max(least, waiting), -1)
    for base in _bases(traits, fixed.get("turns", traits.epilogue or shallow)):
        for sized in _sized(base, fixed, target):
            most = max(MOST_TURN_STAGES, waiting + 1) if sized.apart and "stages" not in fixed else MOST_STAGES + waiting
            depths = [n for n in stages if n <= most]
            rings = (replace(sized, stages=n, slots=slots) for n in depths for slots in ((1,) if scarce else (2, 1)))
            if traits.computed and not sized.persistent and "stages" not in fixed:  # two blocks beside each other
                half = target.shared_per_multiprocessor // 2 - target.shared_taken
                rings = (ring for ring in rings if shared_bytes(ring, traits) <= half)
            yield list(dict.fromkeys(replace(ring, **fixed) for ring in rings))


def _bases(traits: Traits, in_turn: bool) -> Iterator[TileMapping]:
    """Tiles and clusters. Those of contractions `in_turn` are worth pricing where there is something to hide."""
    if traits.stream:
        tiles = LIMB_STREAM_TILES if traits.waits else STREAM_TILES
        for columns, depth, (rows, keys, consumers), turns in product(WIDTHS, WIDTHS, tiles, (False, True)):
            base = TileMapping(rows, columns, depth, 2, 0 if traits.waits else 1, consumers, 1, keys=keys, turns=turns)
            yield from (replace(base, box=box) for box in _boxes(keys)) if traits.pages else (base,)
    elif traits.computed:
        for (rows, columns, depth, consumers), persistent in product(COMPUTED_TILES, (True, False)):
            yield TileMapping(rows, columns, depth, 2, 0, consumers, 1, persistent=persistent)
    else:
        shapes = LIMB_TILES if traits.in_limbs else SIBLING_TILES if traits.sums > 1 else TILES
        shapes = PROMOTED_TILES if traits.promotion else shapes
        for (rows, columns, wide, consumers), (cluster, over) in product(shapes, CLUSTERS):
            depth = wide * 16 // traits.element.bits
            yield TileMapping(rows, columns, depth, 2, 0 if traits.promoted else 1, consumers, cluster, over)
        if in_turn and not traits.promoted and traits.sums == 1 and not traits.ragged and not traits.segments:
            for (rows, columns, wide, consumers), (cluster, over) in product(TURN_TILES, TURN_CLUSTERS):
                depth = wide * 16 // traits.element.bits
                yield TileMapping(rows, columns, depth, 2, 1, consumers, cluster, over, turns=True)


def _boxes(keys: int) -> list[int]:
    """How many of a tile's keys one copy may bring."""
    return [box for box in range(PERIOD, keys + 1, PERIOD) if keys % box == 0 and keys <= box * MOST_BOXES]


def _sized(base: TileMapping, fixed: MappingOf[str, Any], target: Target) -> list[TileMapping]:
    """A mapping with its rows made to fit consumers that are fixed, and the other way round."""
    if fixed.get("turns", base.turns) and not base.keys:
        return [base]  # any number of consumers has any rows
    if "consumers" in fixed and "rows" not in fixed:
        unit = target.product_rows * max(1, fixed["consumers"])
        return [replace(base, rows=rows) for rows in range(unit, target.box_extent + 1, unit)] or [base]
    if "rows" in fixed and "consumers" not in fixed:
        shared = [c for c in REGISTER_BUDGETS if fixed["rows"] % (target.product_rows * c) == 0]
        return [replace(base, consumers=max(shared))] if shared else [base]
    return [base]


# Fitted to 110 times of attention, full and causal, head dimensions 64 and 128, on one H200.
STREAM_TILE = 1.1e-6  # seconds of a tile beside its steps
STREAM_STEP = 0.34e-6  # of a step, beside what its extents cost
STREAM_PRODUCT = 2.1e-13  # of a score, for each index that its two products reduce or make
STREAM_ELEMENT = 3.5e-11  # of the change of an element's score, or scores, into a weight
LIMB_ELEMENT = 7e-11  # of a score's change into a weight in limbs, and
LIMB_PRODUCT = 3e-13  # of a score, for each index that a product of limbs reduces or makes
LIMB_ALIKE = 1.1  # without turns consumers compute at the same time. These three are by the rates of products, not measured
STREAM_FULL = 0.5e-6  # of a tile without a mask: nothing ends early
STREAM_EDGE = 2.6e-11  # of a score on the edge of a mask
STREAM_MEMORY = 4.4e12  # bytes per second of the whole chip, measured where queries are few
THREE_CONSUMERS = 0.80  # of the cost of the scores: two can multiply or compute while one waits
# Not measured: what the producer of keys in pages waits for a table, and a copy of a box takes (as one of pixels does, see below).
PAGE_WAIT, BOX_COPY = 0.4e-6, 6e-8
NO_TURNS, TURNS = 0.4e-6, 1.015  # without turns a tile costs so much more, with them a step costs more
# Fitted to the three streams of a causal attention's gradient, head dimensions 64 and 128, on one H200. There such values were
# loaded one by one, when the scores were there; now in pairs, while their products run: it may be less.
STREAM_KEY = 1.2e-11  # of a value that is read for an element's key
ALONE_KEY = 5.0  # times that, where no other consumer multiplies meanwhile


def holds(mapping: TileMapping, problem: ScheduleProblem) -> bool:
    """Whether a mapping can serve sizes at all: of a stream one tile holds both products' widths; copies of pixels end where the
    sum does, or they would bring others behind the last place of a window, or of a part of a sum; and no box lies in two pages."""
    if problem.pixels is not None and problem.depth % mapping.depth and not (problem.summed and problem.outer == 1):
        return False
    if mapping.box and problem.page % mapping.box:
        return False
    return not mapping.keys or (problem.columns <= mapping.columns and problem.depth <= mapping.depth)


def _predict_stream(mapping: TileMapping, problem: ScheduleProblem, target: Target) -> float:
    """Seconds of a stream; one with a mask is taken to be triangular."""
    if not holds(mapping, problem):
        return inf
    tiles = -(-problem.rows // mapping.rows)
    pieces = -(-problem.keys // mapping.keys)
    steps = float(pieces)
    if problem.masked:
        before = max(0, problem.keys - problem.rows)  # the last row is taken to have all keys
        steps = sum(min(pieces, -(-(before + (n + 1) * mapping.rows) // mapping.keys)) for n in range(tiles)) / max(tiles, 1)
    deep, wide = mapping.depth * problem.scores * problem.bits / 16, mapping.columns * problem.value_bits / 16
    score = STREAM_ELEMENT + STREAM_PRODUCT * (deep + wide)
    if problem.promotion:
        score += PROMOTED * mapping.columns / problem.promotion
    score += STREAM_KEY * problem.by_key * (ALONE_KEY if mapping.consumers == 1 else 1.0)
    if problem.products > 1:
        score = LIMB_ELEMENT + LIMB_PRODUCT * problem.products * (mapping.depth + mapping.columns)
    step = STREAM_STEP + mapping.rows * mapping.keys * score * (THREE_CONSUMERS if mapping.consumers > 2 else 1.0)
    if problem.products > 1 and not mapping.turns:
        step *= LIMB_ALIKE
    if mapping.box:
        copies = mapping.keys // mapping.box * 2 * (mapping.depth * problem.scores + mapping.columns) / target.swizzle
        step = _slower(step, PAGE_WAIT + copies * BOX_COPY, 4)
    edge = STREAM_EDGE * mapping.rows * (mapping.rows + mapping.keys) if problem.masked else STREAM_FULL
    tile = STREAM_TILE + edge + (steps * step * TURNS if mapping.turns else NO_TURNS + steps * step)
    busy = LAUNCH + -(-tiles * problem.outer // target.multiprocessors) * tile
    return _slower(busy, LAUNCH + 2 * problem.limbs[0] * sum(problem.elements or ()) / STREAM_MEMORY, 6)


# Fitted to the times of 300 (size, mapping) pairs on one H200, 16 to 8192 rows: its choice takes 1% more than the best there.
LAUNCH = 2.8e-6  # seconds before the first step and after the last
CLUSTER_LAUNCH = {1: 0.0, 2: 1.1e-6, 4: 0.5e-6}
CLUSTER_COST = {1: 1.0, 2: 1.009, 4: 1.067}  # blocks of a cluster wait for each other
STEP = 3e-9  # of a step, beside its products
RATE = 7.92e12  # flops per second of one multiprocessor, for an infinite tile
ROWS_COST, COLUMNS_COST = 20.5, 30.7  # a tile of so many rows, or columns, reaches half the rate
FEED_RATE = 135e9  # bytes per second that one multiprocessor gets from the L2 cache
SUSTAINED, SUSTAINED_RATE = 120e-6, 5.35e12  # beyond so many seconds power limits a multiprocessor to so many flops per second
# Then also the power for what is loaded: the cost of a byte for each flop more than a tile of 128 by 256 loads, one factor of which
# two blocks share; by what it costs to share none. And what tiles in turn get back, of which none ends while the chip waits: that
# is fitted to four products of 4,096 rows on one H200 alone (benchmarks/results/2026-12-01-training.md).
LOADED, LOAD_COST = 1 / 128, 0.03 * 256
TURN_SUSTAINED = 0.93
# By a prototype at 4096³ in 8-bit floats, with its tile: what it takes to add a step's sum to that of all, an element of a tile.
PROMOTED = 2.6e-12
STORED_BYTES = 2  # of an element of a result, at least
OUTSIDE_COST = 3.0  # what lies outside the tensor is filled with 0 more slowly than it would be loaded
# Fitted to seven convolutions on one H100.
PIXEL_COPY, EACH_PIXEL = 6e-8, 2.4e-9  # seconds of a copy of pixels, and of each
MEMORY_RATE = 3.6e12  # bytes per second of the whole chip, while products run


# Of epilogues. Fitted to some twenty times on one H200, of 8192 and 4096 rows, 768 to 14336 columns and a depth of 768 to 4096:
# with a bias, a residual, two tensors added, the gradients of GELU and SwiGLU, and up to three results; most within a sixth.
FAR_LOAD = 0.24e-6  # seconds that a thread waits for what 8 columns of a tile read of memory
NEAR_LOAD = 0.03e-6  # and for what lies close by
EPILOGUE_RATE = 2.45e12  # bytes per second of the whole chip
EPILOGUE_WORK = 2e12  # additions per second of one multiprocessor; what weighs as several is often one instruction here
# Tiles in turn hide that a thread waits and computes, and not what it moves: products wait for so much of memory meanwhile.
TURN_RATE = 1.5e12
TURN_STEP = 0.72  # of the time that the rates of shared tiles give for a step of tiles so small
IN_TURN = 1.05  # they are taken where they are predicted to save more than this


# Not fitted to anything yet: by counting instructions.
EVALUATED = 1.2e11  # instructions of threads per second of one multiprocessor that has something else to do meanwhile
ALONE_EVALUATED = 0.6  # of that with one consumer alone
STAGED_RATE = 4.0e12  # bytes per second of the whole chip


def _predict_computed(mapping: TileMapping, problem: ScheduleProblem, target: Target) -> float:
    """Seconds of a product whose left factor is computed: again for each tile of columns."""
    tiles = -(-problem.rows // mapping.rows) * -(-problem.columns // mapping.columns) * problem.outer
    steps = -(-problem.depth // mapping.depth)
    beside = mapping.consumers if mapping.persistent else max(mapping.consumers, 2)  # another block on the multiprocessor
    evaluated = EVALUATED * (ALONE_EVALUATED if beside == 1 else 1.0)
    work = problem.work * mapping.rows * mapping.depth / evaluated
    work += (
        2.0
        * mapping.rows
        * mapping.columns
        * mapping.depth
        / RATE
        * (1 + COLUMNS_COST / mapping.columns + ROWS_COST / mapping.rows)
    )
    staged = problem.staged / max(1, problem.rows * problem.depth * problem.outer)  # bytes of an element
    feed = (mapping.rows * staged + 2 * mapping.columns) * mapping.depth / FEED_RATE
    busy = -(-tiles // target.multiprocessors) * steps * _slower(work + STEP, feed, 4)
    moved = problem.staged + 2 * sum(problem.elements or ()) + 2 * problem.rows * problem.columns * problem.outer
    return LAUNCH + _slower(busy, moved / STAGED_RATE, 6)


def predict(mapping: TileMapping, problem: ScheduleProblem, target: Target) -> float:
    """Seconds that a mapping should take: waves of tiles at the pace of matrix units and L2 feed, or the memory.

    Infinite for a mapping that cannot serve the problem.
    """
    if mapping.keys:
        return _predict_stream(mapping, problem, target)
    if not holds(mapping, problem):
        return inf
    if problem.staged:
        return _predict_computed(mapping, problem, target)
    tiles_m = problem.tiles(mapping.rows)
    tiles_n = -(-problem.columns // mapping.columns)
    over_rows = mapping.cluster_over == "rows"
    if mapping.cluster > (tiles_m if over_rows else tiles_n):
        return inf  # some blocks of a cluster would never have work
    inside_rows = problem.rows / (tiles_m * mapping.rows)
    inside_columns = problem.columns / (tiles_n * mapping.columns)
    if over_rows:
        tiles_m = -(-tiles_m // mapping.cluster) * mapping.cluster
    else:
        tiles_n = -(-tiles_n // mapping.cluster) * mapping.cluster
    waves = -(-tiles_m * tiles_n * problem.outer // target.resident(mapping.cluster))
    steps = -(-problem.depth // mapping.depth)
    bytes_ = problem.bits / 8
    # A product of 32 bits takes as long as two of 16, which also draw as much power: by its data sheet, not measured.
    flops = 2.0 * mapping.rows * mapping.columns * mapping.depth * problem.products * problem.sums * problem.bits / 16
    work_after = 0.0
    if problem.promotion:  # scales of single columns take an instruction for each element, too, and are loaded
        instructions = 1 + sum(bool(unit % mapping.columns) for unit in problem.by_column)
        work_after = PROMOTED * instructions * mapping.rows * mapping.columns * mapping.depth / problem.promotion
    # Tiles that lie beside each other, of one factor's rows or columns, cost what one that is as large does.
    whole_rows, whole_columns = mapping.rows * problem.factors[0], mapping.columns * problem.factors[1]
    work = flops / RATE * (1 + COLUMNS_COST / whole_columns + ROWS_COST / whole_rows) + STEP + work_after
    own_rows = mapping.rows if over_rows else mapping.rows / mapping.cluster
    own_columns = mapping.columns / mapping.cluster if over_rows else mapping.columns
    own_rows *= inside_rows + OUTSIDE_COST * (1 - inside_rows)
    own_columns *= inside_columns + OUTSIDE_COST * (1 - inside_columns)
    left, right = (limbs * several for limbs, several in zip(problem.limbs, problem.factors, strict=True))
    feed = (own_rows * left + own_columns * right) * mapping.depth * bytes_ / FEED_RATE
    if problem.pixels is not None:
        own, limbs = (own_rows, left) if problem.pixels == "rows" else (own_columns, right)
        beside, own = (own, mapping.depth) if problem.summed else (mapping.depth, own)
        copies = limbs * beside * bytes_ / target.swizzle
        feed += copies * (PIXEL_COPY + own * (EACH_PIXEL - target.swizzle / FEED_RATE))
    step = _slower(work, feed, 4) * CLUSTER_COST.get(mapping.cluster, 1.2) * (TURN_STEP if mapping.apart else 1.0)
    start = LAUNCH + CLUSTER_LAUNCH.get(mapping.cluster, 1e-6)
    after = _epilogue(mapping, problem.epilogue, target)
    busy = start + _tiles(mapping, waves, steps, step, after)
    if start + waves * steps * step > SUSTAINED:  # of products: what comes after them draws little power
        loaded = (own_rows * left + own_columns * right) * mapping.depth * bytes_ / flops
        power = max(1.0, 1 + LOAD_COST * (loaded - LOADED)) * (TURN_SUSTAINED if mapping.apart else 1.0)
        busy = start + _tiles(mapping, waves, steps, _slower(step, flops / SUSTAINED_RATE, 8), after) * power
    many = problem.outer * problem.depth
    lefts, rights = problem.elements or (many * problem.rows, many * problem.columns)
    results = problem.rows * problem.columns * problem.outer
    stored = max(bytes_, STORED_BYTES) * results + problem.epilogue.moved * results
    moved = bytes_ * (left * lefts + right * rights) + stored
    return _slower(busy, LAUNCH + moved / MEMORY_RATE, 6)


def _epilogue(mapping: TileMapping, epilogue: Epilogue, target: Target) -> tuple[float, float]:
    """Seconds that a tile takes after its last step, beside what all products take (storing one result is in the rates of these),
    and how much of it takes longer for what the tile moves, whatever runs beside it."""
    elements = mapping.rows * mapping.columns
    eights = mapping.rows // (target.product_rows * mapping.sharing) * (mapping.columns // 8)
    waited = eights * (FAR_LOAD * epilogue.far + NEAR_LOAD * epilogue.near)
    moved = elements * epilogue.moved * target.multiprocessors
    after = waited + moved / EPILOGUE_RATE + elements * epilogue.work / EPILOGUE_WORK
    return after, moved / TURN_RATE


def _tiles(mapping: TileMapping, tiles: int, steps: int, step: float, epilogue: tuple[float, float]) -> float:
    """Seconds of one block's tiles, of which each has its steps and then what comes after."""
    after, moving = epilogue
    if not mapping.apart:
        return tiles * steps * step + tiles * after
    # A consumer begins when the one before it has made its steps, and its own tile before is done: the last one so late.
    rounds, within = divmod(max(0, tiles - 1), mapping.consumers)
    begun = max((tiles - 1) * (steps * step + moving), rounds * after + (rounds + within) * steps * step)
    return IN_TURN * (begun + steps * step + max(after, moving))


def _slower(a: float, b: float, sharpness: int) -> float:
    """The greater of two times, a little more where they are close: what is nearly hidden still shows."""
    return float((a**sharpness + b**sharpness) ** (1 / sharpness))


def ranked(problem: ScheduleProblem, traits: Traits, target: Target, given: Given = ()) -> tuple[TileMapping, ...]:
    """The legal mappings, with the values given, by predicted time, the best first; among equals in the order of `candidates`.

    What nobody would choose (a cluster larger than the tiles that there are) is among them only if nothing else is left.
    """
    times = {m: predict(m, problem, target) for m in candidates(target, traits, given)}
    finite = sorted((m for m, seconds in times.items() if seconds < inf), key=times.__getitem__)
    return tuple(finite or (m for m in times if holds(m, problem)))


def fastest(problem: ScheduleProblem, traits: Traits, target: Target) -> float:
    """Seconds of the best mapping; infinite if none is legal."""
    worth = _narrowest(target, traits, problem.columns, problem.depth) if traits.stream else candidates(target, traits)
    return min((predict(m, problem, target) for m in worth), default=inf)


@lru_cache(maxsize=256)
def _narrowest(target: Target, traits: Traits, columns: int, depth: int) -> tuple[TileMapping, ...]:
    """Of a stream's candidates those that are no wider than its products ask for: what is wider takes longer."""
    units = (panel(Element.BF16, target), panel(traits.element, target))
    both = zip((columns, depth), units, strict=True)
    least = [next((width for width in WIDTHS if width >= extent and width % unit == 0), 0) for extent, unit in both]
    return tuple(m for m in candidates(target, traits) if [m.columns, m.depth] == least)


def choose(problem: ScheduleProblem, traits: Traits, target: Target) -> TileMapping:
    """The legal mapping with the least predicted time."""
    return ranked(problem, traits, target)[0]
