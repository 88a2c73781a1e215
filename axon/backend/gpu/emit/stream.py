"""The part of the emitter that writes streams: row statistics, the change of scores into weights, and what a mask leaves.

Expressions are divided by how often they must be computed. What has one value for a tile, or one for each row, is *hoisted*: it is
computed when the tile begins. What depends on the running peak is computed once for each row and step. Only the rest is left for
each element, as a function of its own. Exponentials are powers of 2, so scales and biases take the factor log2 e.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import e, inf, log2
from typing import TYPE_CHECKING, assert_never

from axon.backend.gpu.layout.products import WEIGHT
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.bounds import BLOCK, Bounds, Lookup
from axon.backend.gpu.tile.epilogue import bare
from axon.backend.gpu.tile.online_softmax import ONE, ZERO, both, linear, local_symbols, mentions_any, plus, times
from axon.backend.gpu.tile.stream import Stream, Term
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Choice, Constant, Expression, Function, Name, Several, call, expressions
from axon.backend.kernel.ir import both as conjunction
from axon.backend.kernel.tensor_core_scalars import HELD, REAL, EpilogueWriter, address, literal, loaded
from axon.base.data import dataclass, field
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core import integer_ranges as ranges
from axon.core.ir import Binary, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.core.walk import rewrite
from axon.shapes.dimension import Dim, Quotient

if TYPE_CHECKING:
    from axon.backend.gpu.emit.kernel import Emitter

LOG2E = Const(log2(e), Element.F32)
_NOTHING = literal(-inf, Element.F32)  # the peak where nothing was seen


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument of an elementwise function: its kind (see `ptx_tiles.each`), what it is, and what is given in a block of rows."""

    kind: str
    what: object
    at: Callable[[int], tuple[Expression, ...]] = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Function:
    name: Name
    arguments: tuple[_Argument, ...]


@dataclass(slots=True)
class _Plan:
    """How the steps of a stream are computed. The first of two functions is for tiles in which the mask holds everywhere."""

    stream: Stream
    hoisted: dict[Symbol, Scalar] = field(default_factory=dict)
    change: tuple[_Function | None, _Function | None] = (None, None)
    scales: dict[Term, Scalar] = field(default_factory=dict)  # hoisted values
    biases: dict[Term, Scalar] = field(default_factory=dict)  # over the peak and hoisted values
    weights: dict[Term, tuple[_Function | None, _Function | None]] = field(default_factory=dict)  # none: the exponential alone
    runs: dict[Read, Name] = field(default_factory=dict)  # what is read for each key, for the keys of a thread

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.stream.terms


def _limited(value: Expression, most: Expression) -> Expression:
    """At least 0, and at most another number, unless that is below 0."""
    if value == Constant(0):
        return value
    return call("max", value if value is most else call("min", value, most), 0)


def _whole(extent: Expression, step: int, *, up: bool = False) -> Expression:
    """How many pieces of a step an extent has; with the last that is not whole, if `up`."""
    return Constant(0) if extent == Constant(0) else (extent + (step - 1) if up else extent) // step


class StreamEmitter:
    """Writes what a stream adds to a kernel, through the emitter of everything else."""

    def __init__(self, emitter: Emitter) -> None:
        self.out, self.program = emitter, emitter.program
        operations = [op for role in self.program.roles for op in b.operations(role.body)]
        self.finals = {symbol for op in operations if isinstance(op, t.Finish) for symbol, _ in op.stream.finals}
        self._plan: _Plan | None = None
        folds = [op for op in operations if isinstance(op, t.Fold)]
        self.folded = {fold.scores: fold for fold in folds}
        self.loaded = False  # whether the values of the keys of this step are
        self.other_scores = {
            scores.symbol: tile for fold in folds for scores, tile in zip(fold.stream.others, fold.others, strict=True)
        }
        local = emitter.code.local
        self.first_piece, self.last_piece = local("first_piece"), local("last_piece")
        self.every_from, self.every_to = local("every_from"), local("every_to")

    # ── the pieces of the streamed axis ─────────────────────────────────────────────────────────────────────────────────

    def bounds(self, bounds: Bounds) -> None:
        """The pieces that the mask leaves, at least one, and those in which it holds everywhere."""
        out, program, code = self.out, self.program, self.out.code
        rows, step = program.order.rows, program.steps.step
        first_row, last_row = code.local("first_row"), code.local("last_row")
        code.assign(first_row, out.name(rows.symbol) * rows.step)
        code.assign(last_row, call("min", first_row + rows.step, out.size(rows.extent)) - 1)
        known: dict[Symbol, Expression] = {bounds.first_row: first_row, bounds.last_row: last_row}
        for lookup in bounds.looked:
            known |= {symbol: out.name(symbol) for symbol in lookup.locals}
            self.look_up(lookup, first_row, last_row)
        names = ("some_from", "some_to", "all_from", "all_to")
        ends = (self.value(end, known, None, wide=True) for end in (*bounds.some, *bounds.every))
        some_from, some_to, all_from, all_to = (self.named(name, end) for name, end in zip(names, ends, strict=True))
        # In 64 bits up to here; limited to the streamed axis, they fit in 32 and keep few registers alive.
        extent = out.size(program.steps.extent)
        code.assign(self.first_piece, call("int32", _limited(_whole(some_from, step), out.steps - 1)))
        last = call("int32", _whole(_limited(some_to, extent), step, up=True))
        code.assign(self.last_piece, call("max", last, self.first_piece + 1))
        code.assign(self.every_from, call("int32", _whole(_limited(all_from, extent), step, up=True)))
        code.assign(self.every_to, call("int32", _whole(_limited(all_to, extent), step)))

    def look_up(self, lookup: Lookup, first_row: Name, last_row: Name) -> None:
        """What a table has for the blocks of a tile's rows; those behind the last row are the last one again."""
        out, code, table, size = self.out, self.out.code, lookup.table.symbol, Element.I32.bits // 8
        *outer, along = (out.stride(table, d) for d in range(len(lookup.axes) + 1))
        there = code.local("there")
        for number in range(self.program.order.rows.step // BLOCK):
            block: Expression = first_row // BLOCK
            if number:
                block = call("min", block + number, last_row // BLOCK)
            offsets = [call("int64", out.name(axis)) * stride for axis, stride in zip(lookup.axes, outer, strict=True)]
            code.assign(there, address(out.pointer(table), size, [*offsets, call("int64", block) * along]))
            for which, (symbol, greatest) in enumerate(zip(lookup.locals, lookup.GREATEST, strict=True)):
                value, name = loaded(Element.I32, there + size * which if which else there), out.name(symbol)
                code.assign(name, call("max" if greatest else "min", name, value) if number else value)

    def named(self, name: str, value: Expression) -> Expression:
        """A variable with a value, unless that is a parameter or a number."""
        if isinstance(value, Constant) or value in self.out.parameters.values():
            return value
        self.out.code.assign(self.out.code.local(name), value)
        return self.out.code.local(name)

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def op(self, op: t.Reset | t.Fold | t.Narrow | t.Rescale | t.Hold | t.Finish) -> None:
        out, code = self.out, self.out.code
        match op:
            case t.Reset(stream=stream):
                self.reset(self.plan(stream))
            case t.Fold(stream=stream):
                for block in self.blocks:
                    self.fold(self.plan(stream), op, block)
                self.loaded = False
            case t.Narrow(source=source, targets=targets):
                self.narrow(source, targets)
            case t.Rescale(stream=stream, accumulator=acc):
                if not self.repaired(stream, stream.weight):
                    return
                scale = out.made("scale_rows", "ptx_tiles.scale_rows", acc.shape[1])
                for block, name in enumerate(out.accumulators(acc)):
                    repairs = (self.repair(self.plan(stream), stream.weight, block, half) for half in range(2))
                    code.assign(name, call(scale, name, *repairs))
            case t.Hold(stream=stream, symbol=symbol):
                plan = self.plan(stream)
                for block in self.blocks:
                    found = [self.repair(plan, stream.weight, block, half) for half in range(2)]
                    self.both(self.rows(symbol, block), found)
            case t.Finish(stream=stream):
                self.finish(self.plan(stream))
            case _:
                assert_never(op)

    def promote(self, op: t.Promote) -> None:
        """A sum of rows, corrected, and what a step adds to it."""
        assert op.correction is not None
        out, columns = self.out, op.accumulator.shape[1]
        add = out.made("corrected", "ptx_tiles.promote_corrected", columns)
        both = zip(out.accumulators(op.accumulator), out.accumulators(op.partial), strict=True)
        for block, (total, own) in enumerate(both):
            out.code.assign(total, call(add, total, own, *self.rows(op.correction, block)))

    def narrow(self, source: t.Tile, targets: tuple[t.Tile, ...]) -> None:
        """Rounded, or as limbs: all but the last are cut off, so that none is greater than what it is of."""
        out, code, columns = self.out, self.out.code, source.shape[1]
        for block, tile in enumerate(out.accumulators(source)):
            rest = tile
            for number, target in enumerate(targets):
                to, element = out.accumulators(target)[block], target.element.value
                last = number == len(targets) - 1
                if target.element is WEIGHT:
                    how = out.made("narrow", "ptx_tiles.narrow_short", columns)
                elif last:
                    how = out.made("narrow", "ptx_tiles.narrow", columns, element)
                else:
                    how = out.made("cut", "ptx_tiles.narrow", columns, element, "rz")
                code.assign(to, call(how, rest))
                if not last:
                    left = out.part(source.symbol, f"rest{number}_{block}")
                    code.assign(left, call(out.made("rest", "ptx_tiles.rest", columns), rest, to))
                    rest = left

    @property
    def blocks(self) -> range:
        return range(self.program.order.rows.step // (64 * self.out.current.instances))

    def rows(self, symbol: Symbol, block: int) -> tuple[Name, ...]:
        return tuple(self.row(symbol, block, half) for half in range(2))

    def row(self, symbol: Symbol, block: int, half: int) -> Name:
        """The variable of a row's value."""
        return self.out.part(symbol, f"{block}{half}")

    def repaired(self, stream: Stream, term: Term) -> bool:
        """Whether sums of a term must be repaired when the peak grows."""
        return stream.peak is not None and term.scale is not None and stream.peak in local_symbols(term.bias)

    def repair(self, plan: _Plan, term: Term, block: int, half: int) -> Name:
        return self.out.code.local(f"repair{plan.terms.index(term) or ''}_{block}{half}")

    def reset(self, plan: _Plan) -> None:
        out, rows, code = self.out, self.program.order.rows, self.out.code
        for block in self.blocks:
            first = out.name(rows.symbol) * rows.step + (out.consumer * len(self.blocks) + block) * 64
            code.assign(self.own_row(block), first + out.lane // 32 * 16 + out.lane % 32 // 4)
        for symbol, scalar in plan.hoisted.items():
            if not self.by_row(scalar):
                self.assign(out.name(symbol), scalar, {}, None)
                continue
            for block in self.blocks:
                for half in range(2):
                    self.assign(self.row(symbol, block, half), scalar, {}, self.index(block, half))
        zero = literal(0.0, Element.F32)
        start = [(plan.stream.peak, _NOTHING)] if plan.stream.peak is not None else []
        start += [(symbol, zero) for symbol, _ in plan.stream.totals]
        for block in self.blocks:
            for symbol, value in start:
                self.both(self.rows(symbol, block), (value, value))

    def clear(self, tile: t.Tile) -> None:
        """Before scores are made: the values of their keys are asked for, and come while the products run."""
        if tile in self.folded:
            fold = self.folded[tile]
            self.load_runs(self.plan(fold.stream), tile.shape[1])

    def load_runs(self, plan: _Plan, columns: int) -> None:
        """What is read for each key of this step, if it is not there yet."""
        if self.loaded or not plan.runs:
            return
        out, code, keys = self.out, self.out.code, self.program.steps
        self.loaded = True
        self.assign_column()
        column = code.local("column")
        for node, name in plan.runs.items():
            places = [column if axis == keys.symbol else self.variable(axis) for axis in bare(node) or ()]
            offsets = [call("int64", place) * out.stride(node.tensor, d) for d, place in enumerate(places[:-1])]
            first = address(out.pointer(node.tensor), 4, [*offsets, call("int64", places[-1])])
            pairs = node.tensor in out.paired
            last = out.size(keys.extent) - (2 if pairs else 1) - column
            everywhere, edge = (
                out.made(f"by_column{'_at_edge' if bounded else ''}", "ptx_tiles.by_column", columns, pairs, bounded)
                for bounded in (False, True)
            )
            code.assign(name, Choice(self.inside, call(everywhere, first), call(edge, first, last)))

    @property
    def inside(self) -> Expression:
        """Whether the mask holds everywhere in this piece."""
        piece = self.out.name(self.program.steps.symbol)
        return conjunction(self.every_from <= piece, piece < self.every_to)

    def fold(self, plan: _Plan, op: t.Fold, block: int) -> None:
        out, code, stream, columns = self.out, self.out.code, plan.stream, op.scores.shape[1]
        changed, weights = (out.accumulators(tile)[block] for tile in (op.scores, op.weights))
        inside = self.inside
        self.load_runs(plan, columns)
        if plan.change[0] or plan.change[1]:
            changed, scores = out.part(stream.changed, block), changed
            self.choose(inside, plan.change, changed, scores, columns, block)
        if stream.peak is not None:
            greatest = out.made("row_max", "ptx_tiles.row_max", columns)
            peaks = self.rows(stream.peak, block)
            self.both(self.halves("old"), peaks)
            code.assign(Several(peaks), call(greatest, changed, *peaks))
            self.both(self.halves("peak"), [call("ptx.finite_peak", peak) for peak in peaks])
        made: dict[Term, Name] = {}
        for symbol, term in (*stream.totals, (stream.product, stream.weight)):
            if term not in made:
                made[term] = weights if term == stream.weight else out.part(symbol, block)
                self.term(plan, term, made[term], changed, inside, columns, block)
            if symbol != stream.product:
                add = out.made("row_sum", "ptx_tiles.row_sum", columns)
                totals = self.rows(symbol, block)
                repaired = self.repaired(stream, term)
                old = [z * self.repair(plan, term, block, h) if repaired else z for h, z in enumerate(totals)]
                code.assign(Several(totals), call(add, made[term], *old))

    def both(self, names: Sequence[Name], values: Sequence[Expression]) -> None:
        """Give the variables of two rows their values."""
        self.out.code.assign(Several(tuple(names)), Several(tuple(values)))

    def biases(self, plan: _Plan, term: Term, block: int, peaks: Sequence[Name]) -> list[Expression]:
        """A term's biases of the two rows of a thread, measured from these peaks."""
        found = []
        for half, peak in enumerate(peaks):
            known: dict[Symbol, Expression] = {s: self.hoisted(plan, s, block, half) for s in plan.hoisted}
            known |= {plan.stream.peak: peak} if plan.stream.peak else {}
            found.append(self.value(plan.biases[term], known, self.index(block, half)))
        return found

    def scales(self, plan: _Plan, term: Term, block: int) -> tuple[Expression, ...]:
        """A term's scales of the two rows of a thread."""
        scale = plan.scales[term]
        if isinstance(scale, Const):
            return (literal(scale.value, Element.F32),) * 2
        assert isinstance(scale, Local), "a scale that is not hoisted"
        return tuple(self.hoisted(plan, scale.symbol, block, half) for half in range(2))

    def halves(self, what: str) -> tuple[Name, ...]:
        """The variables of the two rows of a thread."""
        return tuple(self.out.code.local(f"{what}_{half}") for half in range(2))

    def term(self, plan: _Plan, term: Term, to: Name, changed: Name, inside: Expression, columns: int, block: int) -> None:
        """The values of a term for every element; and by what its sums so far are repaired."""
        out, code, stream = self.out, self.out.code, plan.stream
        biases = self.halves("bias")
        if term.scale is not None:
            self.both(biases, self.biases(plan, term, block, self.halves("peak")))
            if self.repaired(stream, term):
                olds = self.halves("old")
                before = self.biases(plan, term, block, olds)
                factors: list[Expression] = [call("ptx.exp2_between", *pair) for pair in zip(biases, before, strict=True)]
                if not term.falls:
                    one = literal(1.0, Element.F32)
                    factors = [Choice(old > _NOTHING, factor, one) for old, factor in zip(olds, factors, strict=True)]
                self.both([self.repair(plan, term, block, half) for half in range(2)], factors)
        if plan.weights[term] == (None, None):
            power = out.made("exp_rows", "ptx_tiles.exp_rows", columns)
            scales = self.scales(plan, term, block)
            code.assign(to, call(power, changed, scales[0], biases[0], scales[1], biases[1]))
            return
        self.choose(inside, plan.weights[term], to, changed, columns, block)

    def finish(self, plan: _Plan) -> None:
        out, stream = self.out, plan.stream
        used = {s for _, value in stream.finals for s in local_symbols(value)}
        quad_sum = out.made("quad_sum", "ptx_tiles.quad_sum")
        for block in self.blocks:
            for symbol in (s for s, _ in stream.totals if s in used):
                rows = self.rows(symbol, block)
                self.both(rows, [call(quad_sum, row) for row in rows])
            known = [{s: self.row(s, block, half) for s in used} for half in range(2)]
            for symbol, value in stream.finals:
                self.both(self.rows(symbol, block), [self.value(value, known[h], self.index(block, h)) for h in range(2)])

    def choose(
        self, inside: Expression, functions: tuple[_Function | None, _Function | None], to: Name, source: Name, columns: int,
        block: int,
    ) -> None:  # fmt: skip
        """Apply the first function where the mask holds everywhere, and else the second; none leaves a tile as it is."""
        code = self.out.code
        everywhere, elsewhere = (self.applied(f, source, columns, block) for f in functions)
        if everywhere == elsewhere:
            self.column(functions[0])
            code.assign(to, everywhere)
            return
        self.column(*functions)
        code.assign(to, Choice(inside, everywhere, elsewhere))

    def column(self, *functions: _Function | None) -> None:
        """The column of this thread's first element, if a function asks."""
        column = self.out.code.local("column")
        given = (value for f in functions if f for argument in f.arguments for value in argument.at(0))
        if not self.loaded and any(inner is column for value in given for inner in expressions(value)):
            self.assign_column()

    def assign_column(self) -> None:
        steps = self.program.steps
        self.out.code.assign(self.out.code.local("column"), self.out.name(steps.symbol) * steps.step + self.out.lane % 4 * 2)

    def applied(self, function: _Function | None, source: Name, columns: int, block: int) -> Expression:
        if function is None:
            return source
        kinds = " ".join(argument.kind for argument in function.arguments)
        each = self.out.made(f"each_{function.name.like}", "ptx_tiles.each", function.name, columns, kinds)
        return call(each, source, *(value for argument in function.arguments for value in argument.at(block)))

    # ── planning ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, stream: Stream) -> _Plan:
        if self._plan is None:
            self._plan = self.planned(stream)
        return self._plan

    def planned(self, stream: Stream) -> _Plan:
        plan = _Plan(stream)
        keys = self.program.steps.symbol
        element = Local(stream.score, Element.F32)
        extent = self.program.steps.extent
        within: Scalar = Binary("lt", Index(Dim.of(keys)), Index(extent))
        plain = stream.change
        if stream.vanishing and stream.condition is not None:
            assert isinstance(plain, Select)
            plain = plain.then
        edge = Select(within, stream.change, Const(-inf, Element.F32)) if stream.peak is not None else stream.change
        plan.change = (
            None if plain == element else self.function(plan, "change", plain, stream.score),
            None if edge == element else self.function(plan, "change_at_edge", edge, stream.score),
        )
        for number, term in enumerate(plan.terms):
            scaled: Scalar = ONE
            given: dict[Symbol, _Argument] = {}
            if term.scale is not None:
                plan.scales[term] = self.hoist(plan, times(term.scale, LOG2E))
                plan.biases[term] = self.over_peak(plan, term.bias)
                scale, bias = (Local(fresh(name), Element.F32) for name in ("scale", "bias"))
                given = {
                    scale.symbol: _Argument("r", ("scale", term), partial(self.scales, plan, term)),
                    bias.symbol: _Argument("r", "bias", lambda _: self.halves("bias")),
                }
                # exp x = 2 ** (x log2 e), and the two constants hold the factor.
                scaled = Unary("exp2", Binary("add", Binary("mul", Local(stream.changed, Element.F32), scale), bias))
            whole = times(scaled, term.factor)
            name = f"weight{number or ''}"
            if stream.vanishing and term.factor == ONE:
                plan.weights[term] = (None, None)
            elif stream.vanishing:
                function = self.function(plan, name, whole, stream.changed, given)
                plan.weights[term] = (function, function)
            else:
                where = both(within, stream.condition)
                assert where is not None
                plan.weights[term] = (
                    self.function(plan, name, whole, stream.changed, given),
                    self.function(plan, f"{name}_at_edge", Select(where, whole, ZERO), stream.changed, given),
                )
        return plan

    def varies(self, scalar: Scalar, *also: Symbol | None) -> bool:
        """Whether an expression varies along the streamed axis, or with the given locals."""
        return mentions_any(scalar, frozenset({self.program.steps.symbol, *self.other_scores, *(s for s in also if s)}))

    def by_row(self, scalar: Scalar) -> bool:
        return mentions_any(scalar, frozenset({self.program.order.rows.symbol}))

    def hoist(self, plan: _Plan, scalar: Scalar) -> Scalar:
        """A value that is computed when a tile begins."""
        if isinstance(scalar, Const):
            return scalar
        known = next((s for s, value in plan.hoisted.items() if value == scalar), None)
        if known is None:
            known = fresh("factor" if element_of(scalar).is_float else "value")
            plan.hoisted[known] = scalar
        return Local(known, element_of(scalar))

    def over_peak(self, plan: _Plan, bias: Scalar) -> Scalar:
        """A bias, in powers of 2, as coefficient · peak + rest with both hoisted."""
        form = linear(times(bias, LOG2E), lambda s: self.varies(s, plan.stream.peak))
        out: Scalar | None = None if form.rest is None else self.hoist(plan, form.rest)
        for coefficient, atom in form.terms:
            out = plus(out, times(self.hoist(plan, coefficient), atom))
        return out or ZERO

    def split(self, plan: _Plan, scalar: Scalar, element: Symbol, kept: frozenset[Symbol]) -> Scalar:
        """An expression with all that is the same along the streamed axis hoisted, and sums gathered by what varies."""

        def varies(s: Scalar) -> bool:
            return self.varies(s, element, *kept)

        def visit(node: Scalar) -> Scalar | None:
            if not varies(node):
                simple = isinstance(node, Const | Local) or element_of(node) == Element.BOOL
                simple = simple or (isinstance(node, Index) and not any(isinstance(a, Quotient) for a in node.dim.atoms))
                return node if simple else self.hoist(plan, node)
            if isinstance(node, Binary | Unary) and element_of(node).is_float:
                form = linear(node, varies)
                if form.terms != ((ONE, node),):
                    out: Scalar | None = None if form.rest is None else rewrite(form.rest, visit)
                    for coefficient, atom in form.terms:
                        out = plus(times(rewrite(atom, visit), rewrite(coefficient, visit)), out)
                    return out
            return None

        return rewrite(scalar, visit)

    def function(
        self, plan: _Plan, name: str, scalar: Scalar, element: Symbol, given: dict[Symbol, _Argument] | None = None
    ) -> _Function:
        """A function of one element for an expression over it, its indices, hoisted values and what is read for it."""
        given = given or {}
        scalar = self.split(plan, scalar, element, frozenset(given))
        writer = _ElementWriter(self, plan, element, given)
        writer.code.give(writer.value(scalar))
        made = self.out.global_name(name)
        parameters = (writer.element, *writer.parameters)
        self.out.functions.append(Function(made, parameters, writer.code.body, tuple(writer.code.names)))
        return _Function(made, tuple(writer.arguments))

    # ── values of rows and tiles ────────────────────────────────────────────────────────────────────────────────────────

    def own_row(self, block: int) -> Name:
        """The first row of a thread in a block of 64."""
        return self.out.code.local(f"own_row_{block}")

    def index(self, block: int, half: int) -> Expression:
        return self.own_row(block) + 8 if half else self.own_row(block)

    def hoisted(self, plan: _Plan, symbol: Symbol, block: int, half: int) -> Name:
        return self.row(symbol, block, half) if self.by_row(plan.hoisted[symbol]) else self.out.name(symbol)

    def assign(self, name: Name, scalar: Scalar, known: Mapping[Symbol, Expression], row: Expression | None) -> None:
        self.out.code.assign(name, self.value(scalar, known, row))

    def value(
        self, scalar: Scalar, known: Mapping[Symbol, Expression], row: Expression | None, *, wide: bool = False
    ) -> Expression:
        """A value of a row, or of the tile if `row` is None. `wide`: in integers that do not wrap."""
        rows = self.program.order.rows

        def variable(symbol: Symbol) -> Expression:
            if symbol == rows.symbol:
                assert row is not None
                return row
            return self.variable(symbol)

        def read(node: Read) -> Expression:
            return self.load(node, variable, lambda given: given)

        return EpilogueWriter(self.out.code, read, variable, self.size, known, wide=wide).value(scalar)

    def variable(self, symbol: Symbol) -> Expression:
        """An outer index, one that follows from them, or a size."""
        fixed = (*(axis.symbol for axis in self.program.order.outer), *(derived for derived, _ in self.program.derived))
        if symbol in fixed:
            return self.out.name(symbol)
        return self.out.size(Dim.of(symbol))

    def size(self, dim: Dim) -> Expression | None:
        return self.out.size(dim) if self.out.is_size(dim) else None

    def load(self, node: Read, place: Callable[[Symbol], Expression], outside: Callable[[Expression], Expression]) -> Expression:
        """A read at indices; those of rows and of the streamed axis stay inside it. `outside` takes what is the kernel's."""
        extents = {axis.symbol: axis.extent for axis in (self.program.order.rows, self.program.steps)}
        offsets = []
        for d, axis in enumerate(bare(node) or ()):
            at = place(axis)
            if axis in extents:
                at = call("min", at, outside(self.out.size(extents[axis])) - 1)
            offsets.append(call("int64", at) * outside(self.out.stride(node.tensor, d)))
        pointer = outside(self.out.pointer(node.tensor))
        return loaded(node.element, address(pointer, max(8, node.element.bits) // 8, offsets))


class _ElementWriter(EpilogueWriter):
    """Writes the body of an elementwise function; every name from outside becomes an argument when it is first used."""

    def __init__(self, stream: StreamEmitter, plan: _Plan, element: Symbol, given: dict[Symbol, _Argument]) -> None:
        code = Code()
        self.element = code.named("x")
        super().__init__(code, self.read_element, self.index_variable, self.index_size, {element: self.element}, narrow=True)
        self.stream, self.plan, self.given = stream, plan, given
        self.parameters: list[Name] = []
        self.arguments: list[_Argument] = []

    def parameter(self, like: str, argument: _Argument) -> Name:
        for name, known in zip(self.parameters, self.arguments, strict=True):
            if known == argument:
                return name
        name = self.code.named(like)
        self.parameters.append(name)
        self.arguments.append(argument)
        return name

    def value(self, scalar: Scalar) -> Expression:
        match scalar:
            case Local(symbol=symbol) if symbol in self.given:
                return self.parameter(symbol.name, self.given[symbol])
            case Local(symbol=symbol) if symbol in self.stream.other_scores:
                return self.parameter(symbol.name, self.scores(symbol))
            case Local(symbol=symbol) if symbol in self.plan.hoisted:
                return self.parameter(symbol.name, self.hoisted(symbol, element_of(scalar)))
            case Unary(op="exp2", operand=operand):
                return self.call("ptx.exp2", self.value(operand))
            case Convert(operand=Index(dim=dim), element=element) if element.is_float:
                affine = self.affine(dim)
                if affine is not None:
                    return affine
        return super().value(scalar)

    def scores(self, symbol: Symbol) -> _Argument:
        """The element of another tile of scores."""
        out, tile = self.stream.out, self.stream.other_scores[symbol]
        return _Argument("t", symbol, lambda block: (out.accumulators(tile)[block],))

    def hoisted(self, symbol: Symbol, element: Element) -> _Argument:
        if not self.stream.by_row(self.plan.hoisted[symbol]):
            return _Argument("u", symbol, lambda _: (self.stream.out.name(symbol),))
        kind = "r" if element in REAL else "s" if element in HELD else "p"
        return _Argument(kind, symbol, lambda block: tuple(self.stream.row(symbol, block, half) for half in range(2)))

    def affine(self, dim: Dim) -> Expression | None:
        """A whole number that counts the streamed index up or down, as a float: exact below 2^24, and no conversion per element."""
        keys, rows = self.stream.program.steps.symbol, self.stream.program.order.rows.symbol
        along = dim.linear_in(keys)
        low, high = ranges.of_dim(dim)
        if along is None or along[0].constant not in (1, -1) or not ranges.fits((low // 8, high // 8), Element.I32):
            return None  # it might wrap within a tile, if only of more than 2^28 positions
        code = self.stream.out.code

        def at(block: int) -> tuple[Expression, ...]:
            found = []
            for half in range(2):
                known = {keys: code.local("column"), rows: self.stream.index(block, half)}
                variable = partial(self.variable_of, known)
                writer = EpilogueWriter(code, self.read_element, variable, self.stream.size, {})
                found.append(call("float32", call("int32", writer.dim(dim))))
            return tuple(found)

        return self.parameter("place", _Argument(f"f{along[0].constant}", dim, at))

    def variable_of(self, known: Mapping[Symbol, Expression], symbol: Symbol) -> Expression:
        return known[symbol] if symbol in known else self.stream.variable(symbol)

    def index_size(self, dim: Dim) -> Expression | None:
        size = self.stream.size(dim)
        return None if size is None else self.outside(size)

    def index_variable(self, symbol: Symbol) -> Expression:
        if symbol == self.stream.program.order.rows.symbol:
            return self.parameter("row", _Argument("i", "row", lambda block: (self.stream.own_row(block),)))
        if symbol == self.stream.program.steps.symbol:
            column = self.stream.out.code.local("column")
            return self.parameter("column", _Argument("c", "column", lambda _: (column,)))
        return self.outside(self.stream.variable(symbol))

    def outside(self, value: Expression) -> Expression:
        """A name of the kernel."""
        if not isinstance(value, Name):
            return value
        return self.parameter(value.of.like + value.like if value.of else value.like, _Argument("u", value, lambda _: (value,)))

    def read_element(self, node: Read) -> Expression:
        if node.tensor in self.stream.out.runs and self.stream.program.order.rows.symbol not in (bare(node) or ()):
            return self.parameter(node.tensor.name, self.run(node))
        return self.let(self.stream.load(node, self.index_variable, self.outside))

    def run(self, node: Read) -> _Argument:
        """An element of a row of memory, one for each column."""
        name = self.plan.runs.setdefault(node, self.stream.out.code.named(f"{node.tensor.name}_of_keys"))
        return _Argument("v", node, lambda _: (name,))
