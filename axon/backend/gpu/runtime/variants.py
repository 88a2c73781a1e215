"""Variants: the few machine codes of a kernel among which every size finds one, and the rule that keeps them few.

Note [Variants]
    Machine code takes sizes as arguments, so one serves every size; what differs is the mapping, and what the code takes for
    granted of how tensors lie (see `granted`). Code that takes less for granted serves more. A kernel, as its operands lie, gets
    at most `LIMIT` variants by itself:

      1. the best mapping for the first sizes that are seen,
      2. the best one for the first sizes that the first does not serve, or serves at more than `TOLERANCE` of the best time,
      3. one that takes nothing for granted, with the mapping that loses least over all sizes, beside those there.

    After that every size takes the best of the three, by the cost model. `warmup` asks for the best mapping of given sizes, and may
    add any number. So one or two regimes, which is what most programs have, run as well as the model knows, and a sweep compiles
    three kernels. What the limit costs there stands in docs/backend.md.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from functools import partial
from math import inf, log
from random import Random
from typing import Any

from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.prepare import Prepared, is_empty, problem_of
from axon.backend.gpu.runtime.ways import NO_MAPPING, REFUSED, Planned
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.epilogue import views_of
from axon.backend.gpu.tile.schedule import TileMapping, Traits, accumulators, holds, predict
from axon.backend.gpu.tile.schedule_file import FREE, Fixed
from axon.backend.gpu.tile.siblings import seconds_alone
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.collapse import Dimensions
from axon.backend.plan.ir import Nest, reads_of
from axon.base.data import dataclass, field
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.shapes.pretty import render

ASKED = "sizes that were asked for"
ANY = "any size"
_NOTHING = Granted()
LIMIT = 3
TOLERANCE = 1.1
TRIES = 4  # mappings beside a schedule's that may turn out not to fit their registers
_SHOWN = 6  # sizes in a text
SAMPLES = 96  # sizes over which the third variant is chosen


@dataclass(frozen=True, slots=True)
class Variant:
    """One machine code of a kernel: its mapping, why it is there, and what it takes for granted."""

    mapping: Any  # of the kernel's family
    why: str = field(compare=False)
    at: str = field(default="", compare=False)  # the sizes that it was made for
    granted: Granted = _NOTHING

    def serves(self, ready: Prepared) -> bool:
        return self.granted <= ready.granted


@dataclass(frozen=True, slots=True)
class NestKey:
    """What variants of a plain kernel are variants of: along which dimension of each tensor elements lie side by side, -1 if along
    none; which of its own dimensions each is, of tensors that it sees with fewer; and how many axes its rows have."""

    units: tuple[tuple[Symbol, int], ...]
    dimensions: tuple[tuple[Symbol, Dimensions], ...]
    rows: int

    @property
    def own_units(self) -> list[tuple[Symbol, int]]:
        """The same by tensors' own dimensions."""
        merged = dict(self.dimensions)
        return [(s, merged[s][unit][-1] if s in merged and unit >= 0 else unit) for s, unit in self.units]


class VariantChoices:
    """The variants of one kernel, as its operands lie, and those that did not fit their registers."""

    def __init__(self) -> None:
        self.variants: list[Variant] = []
        self.refused: set[Variant] = set()

    def refuse(self, variant: Variant) -> None:
        """Its code does not fit the registers: it is not a choice after all."""
        self.variants.remove(variant)
        self.refused.add(variant)

    def add(self, variant: Variant) -> Variant:
        self.variants.append(variant)
        return variant


def worded(sizes: MappingOf[Symbol, int]) -> str:
    """`n = 64, m = 1`: the first few."""
    shown = [f"{symbol.name} = {size}" for symbol, size in list(sizes.items())[:_SHOWN]]
    return ", ".join([*shown, "…"] if len(sizes) > _SHOWN else shown)


def _fits_less(mapping: TileMapping, than: TileMapping, facts: Traits) -> bool:
    """Whether a consumer's thread holds as much with a mapping, and has as few registers or fewer."""
    return accumulators(mapping, facts) >= accumulators(than, facts) and mapping.consumers >= than.consumers


class TileChoices(VariantChoices):
    """Of a kernel for the tensor cores."""

    def __init__(self, target: Target, only: TileMapping | None = None, fixed: Fixed = FREE) -> None:
        super().__init__()
        self.target, self.only, self.fixed = target, only, fixed

    def pick(self, ready: Prepared, sizes: MappingOf[Symbol, int], *, exact: bool = False) -> Variant | None:
        """The variant for a kernel at these sizes; added, if it is new. With `exact`, the best that there is.

        None where the compiler has refused every mapping; AX0605 where the user says something of the mapping.
        """
        order = self._ranked(ready)
        if len(self.refused) >= TRIES and self.fixed.values:
            raise self.fixed.unfit()  # to compile all that a schedule leaves open takes minutes
        if not order:
            if self.fixed.values:
                raise self.fixed.unfit()
            if self.only is not None:
                raise Unsupported(NO_MAPPING, ready.kernel.span)
            return None
        best = predict(order[0], ready.problem, self.target)
        usable = [v for v in self.variants if v.serves(ready) and holds(v.mapping, ready.problem)]
        found = min(usable, key=lambda v: self._time(v, ready), default=None)
        if exact:
            same = next((v for v in usable if v.mapping == order[0] and v.granted == ready.granted), None)
            return same or self.add(Variant(order[0], ASKED, worded(sizes), ready.granted))
        free = sum(v.why != ASKED for v in self.variants)
        if found is not None and (free >= LIMIT or self._time(found, ready) <= best * TOLERANCE):
            return found
        if free < LIMIT - 1 or self.only is not None or (free >= LIMIT and not usable):
            why = "the first sizes" if not self.variants else "sizes that the others serve less well"
            return self.add(Variant(order[0], why, worded(sizes), ready.granted))
        return self.add(Variant(self._covering(ready, sizes, order), ANY))

    def left(self, ready: Prepared) -> str | float:
        """The seconds that the best mapping left for a kernel takes at these sizes; why none is left, if so."""
        order = self._ranked(ready)
        if order:
            return predict(order[0], ready.problem, self.target)
        return REFUSED if self._legal(ready) else NO_MAPPING

    def _ranked(self, ready: Prepared) -> list[TileMapping]:
        """The mappings that are left, the best first; of products that share a factor those that take less time than kernels of
        their own, whatever does not fit."""
        refused = {variant.mapping for variant in self.refused if variant.granted in (ready.granted, _NOTHING)}
        left = [mapping for mapping in self._legal(ready) if mapping not in refused]
        facts = traits(ready.kernel)
        spilled = [mapping for mapping in refused if mapping.apart]
        if spilled:  # others that hold as much are not even tried: each takes its time to compile
            left = [m for m in left if not (m.apart and any(_fits_less(m, than, facts) for than in spilled))]
        kernel, asked = ready.kernel, self.only is not None or self.fixed.values
        if asked or not refused or not isinstance(kernel, MatrixProduct) or not kernel.siblings:
            return left
        most = seconds_alone(kernel, ready.problem, traits(kernel), self.target)
        return [mapping for mapping in left if predict(mapping, ready.problem, self.target) <= most]

    def _legal(self, ready: Prepared) -> tuple[TileMapping, ...]:
        if self.only is not None:
            if not holds(self.only, ready.problem):
                raise Unsupported(f"the mapping's tile does not hold these sizes: {self.only}", ready.kernel.span)
            return (self.only,)
        return self.fixed.ranked(ready.problem, traits(ready.kernel), self.target)

    def _time(self, variant: Variant, ready: Prepared) -> float:
        """Predicted, a little more for code that takes less for granted than it could."""
        less = variant.granted != ready.granted
        return predict(variant.mapping, ready.problem, self.target) * (1.02 if less else 1.0)

    def _covering(self, ready: Prepared, sizes: MappingOf[Symbol, int], order: Sequence[TileMapping]) -> TileMapping:
        """The mapping that, beside the variants there, loses least against the best of every size, in the mean of logarithms."""
        loss = dict.fromkeys(order, 0.0)
        for problem in [ready.problem, *_problems(ready, sizes)]:
            times = {m: predict(m, problem, self.target) for m in order}
            best = min(times.values())
            have = min((predict(v.mapping, problem, self.target) for v in self.variants if v.serves(ready)), default=inf)
            for mapping, seconds in times.items():
                # Beside the variants there; a tenth of the weight is on serving alone tensors that lie worse than these.
                loss[mapping] += 0.9 * log(min(seconds, have) / best) + 0.1 * log(seconds / best) if seconds < inf else inf
        return min(order, key=lambda m: loss[m])


def _problems(ready: Prepared, sizes: MappingOf[Symbol, int]) -> list[Any]:
    """Problems of this kernel at other sizes, the same ones each time: dimensions from 1 to 16384, evenly by their logarithm."""
    chance = Random(0)
    out = []
    for _ in range(SAMPLES):
        other = {symbol: max(1, round(2 ** (14 * chance.random()))) for symbol in sizes}
        try:
            if not is_empty(ready.kernel, other):
                out.append(problem_of(ready.kernel, other))
        except ZeroDivisionError:
            continue
    return [problem for problem in out if getattr(problem, "depth", 1) >= 1]


# ── what a caller sees ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Made:
    """One machine code, as `m.f.variants` lists it."""

    specialization: str  # element types and ranks of the arguments
    kernel: int  # which of the program's, from 0
    mapping: TileMapping
    why: str
    registers: int
    asked: bool  # by a warmup
    at: str = ""  # the sizes that it was made for: `n = 64, m = 1`
    lies: str = ""  # what it takes for granted of how tensors lie
    instead: str = ""  # how the program's kernels differ from those that it has where everything fits: `where `b` is copied first`


class Variants(tuple[Made, ...]):
    """The machine codes of a function; printed, a table that says how many there can be."""

    limit: int  # of those that calls make
    others: int  # kernels of sorts and compresses, which have no variants

    @staticmethod
    def of(made: Sequence[tuple[Program, Any]]) -> Variants:
        """Of a function's specializations, each with its executable, if there is one."""
        rows: list[Made] = []
        kernels = others = 0
        for program, executable in made:
            if executable is None:
                continue
            others += executable.algorithms.count
            built = executable.made()
            kernels += executable.ways
            text = ", ".join(f"{v.element.value}[{', '.join(map(render, v.shape))}]" for v in program.inputs)
            for one in built:
                variant = one.variant
                lies = _lying(one.key, variant, program)
                instead = _instead(one.builder.planned, program)
                why = f"{variant.why}, with {one.fixed}" if one.fixed.values else variant.why
                asked = variant.why == ASKED
                rows.append(Made(text, one.number, variant.mapping, why, one.registers, asked, variant.at, lies, instead))
        variants = Variants(rows)
        variants.limit, variants.others = LIMIT * kernels, others
        return variants

    def __str__(self) -> str:
        if not self and not self.others:
            return "no GPU kernels made yet"
        lines = []
        if self.limit:
            asked = sum(row.asked for row in self)
            by_warmup = f", {asked} by warmup" if asked else ""
            lines.append(f"variants made: {len(self) - asked} of at most {self.limit} by calls{by_warmup}")
        for r in self:
            why = f"{r.why} ({r.at})" if r.at else r.why
            which = f"kernel {r.kernel + 1} {r.instead}" if r.instead else f"kernel {r.kernel + 1}"
            row = f"  ({r.specialization}) {which}: {r.mapping} · {r.registers} registers · for {why}"
            lines.append(f"{row} · {r.lies}" if r.lies else row)
        if self.others:
            lines.append(f"kernels made of sorts and of compresses, which have no variants: {self.others}")
        return "\n".join(lines)

    __repr__ = __str__


def _instead(planned: Planned, program: Program) -> str:
    """In words, how a program's kernels differ from those where everything fits."""
    way = planned.way
    groupings = (kernel.grouping for kernel in planned.kernels if isinstance(kernel, MatrixProduct) and kernel.grouping is not None)
    whole = planned.copies.keys() - {copy.symbol for grouping in groupings for copy in grouping.copies}
    copies = (k for k in planned.kernels if isinstance(k, Nest) and not whole.isdisjoint(k.stored))
    copied = (symbol for kernel in copies for symbol in sorted(reads_of(kernel), key=lambda s: s.id))
    said = [f"{_named(s, program)} is copied first" for s in dict.fromkeys(copied)]
    for symbol, merging in sorted(way.merges.items(), key=lambda item: item[0].id):
        ragged = [f"has tiles of {merging.ragged} rows of one group each"] * (merging.ragged > 0)
        ragged += ["is summed over the rows of each group"] * merging.segments
        how = ragged or ["has merged indices"] * (merging.rows or merging.columns) + ["is summed in parts"] * (merging.parts > 1)
        said.append(f"{_named(symbol, program)} {' and '.join(how) or 'is made in another order of indices'}")
    for symbol, division in sorted(way.divided, key=lambda item: item[0].id):
        parts = ["is put together of parts"] * (division.tiles is not None)
        said.append(f"{_named(symbol, program)} {' and '.join([*parts, *['has rows that share keys as one'] * division.grouped])}")
    for stream in (k for k in planned.kernels if isinstance(k, Stream) and k.pages):
        sources = {view.value.symbol: view.source for view in stream.views}
        own = dict.fromkeys(sources.get(o.value.symbol, o.value.symbol) for o in stream.operands if stream.pages_of(o) is not None)
        said += [f"{_named(s, program)} is read in its pages" for s in own]
    said += [f"{_named(s, program)} leaves out keys by tables" for s in sorted(way.reached, key=lambda s: s.id)]
    said += [f"{_named(s, program)} widens factors of 8 bits" for s in sorted(way.widened, key=lambda s: s.id)]
    said += [f"rows of {_named(s, program)} begin at multiples of 16 bytes" for s in sorted(way.spaced, key=lambda s: s.id)]
    said += [f"{_named(s, program)} is put together in place" for s in sorted(way.placed, key=lambda s: s.id)]
    said += [f"`{size.name}` is 1" for size in sorted(way.ones, key=lambda s: s.id)]
    ways = ((way.apart, "is no stream"), (way.bare - way.plain, "is made apart from its product"), (way.plain, "is plain"))
    for symbols, words in ways:
        said += [f"{_named(s, program)} {words}" for s in sorted(symbols, key=lambda s: s.id)]
    return f"where {' and '.join(said)}" if said else ""


def _named(symbol: Symbol, program: Program) -> str:
    given = any(v.symbol == symbol for v in program.inputs)
    return "the result" if program.block.results == (symbol,) and not given else f"`{symbol.name}`"


def _lying(key: Any, variant: Any, program: Program) -> str:
    """In words, how tensors lie for a variant: the class that it is made for, and what it takes for granted."""
    given = [v.symbol for v in program.inputs]
    name = partial(_named, program=program)
    said: list[str] = []
    if isinstance(key, NestKey):
        ranks = {v.symbol: len(v.shape) for v in program.inputs}
        for symbol, unit in key.own_units:
            if unit < 0 < ranks.get(symbol, 0):
                said.append(f"{name(symbol)} has gaps")
            elif unit < ranks.get(symbol, 0) - 1:
                said.append(f"{name(symbol)} lies along dimension {unit + 1}")
    else:
        sources = {view.value.symbol: view.source for view in views_of(key)}
        for operand in key.operands:
            if operand.order != tuple(sorted(operand.order)):
                order = ", ".join(str(d + 1) for d in operand.order)
                shown = sources.get(operand.value.symbol, operand.value.symbol)
                said.append(f"{name(shown)} lies in the order of dimensions {order}")
        granted: Granted = variant.granted
        for result in key.results:
            place, stored = result.place.symbol, name(result.value.symbol)
            if place in granted.boxed:
                said.append(f"rows of {stored} are multiples of 16 bytes")
            elif place in granted.dense:
                said.append(f"rows of {stored} have no gaps")
        pairs = sorted((symbol for symbol in granted.paired if symbol in given), key=given.index)
        if pairs:
            said.append(f"{', '.join(map(name, pairs))} can be read in pairs")
    return f"where {' and '.join(said)}" if said else ""
