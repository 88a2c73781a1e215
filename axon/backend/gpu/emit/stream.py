"""The part of the emitter that writes streams: row statistics, the change of scores into weights, and what a mask leaves.

Expressions are divided by how often they must be computed. What has one value for a tile, or one for each row, is *hoisted*: it is
computed when the tile begins. What depends on the running peak is computed once for each row and step. Only the rest is left for
each element, as a function of its own. Exponentials are powers of 2, so scales and biases take the factor log2 e.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import e, inf, log2
from typing import TYPE_CHECKING, assert_never

from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.bounds import Bounds
from axon.backend.gpu.tile.epilogue import bare
from axon.backend.gpu.tile.online_softmax import ONE, ZERO, both, linear, local_symbols, mentions_any, plus, times
from axon.backend.gpu.tile.stream import Stream, Term
from axon.backend.kernel.render import Names
from axon.backend.kernel.scalars import Writer, loaded
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core import integer_ranges as ranges
from axon.core.ir import Binary, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.core.walk import rewrite
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.gpu.emit.kernel import Emitter

LOG2E = Const(log2(e), Element.F32)


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument of an elementwise function: its kind (see `ptx_tiles.each`) and its texts, in which {b} is the block of rows."""

    kind: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
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

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.stream.terms


class StreamEmitter:
    """Writes what a stream adds to a kernel, through the emitter of everything else."""

    limits = ("first_piece", "last_piece", "every_from", "every_to")

    def __init__(self, emitter: Emitter) -> None:
        self.out, self.program = emitter, emitter.program
        operations = [op for role in self.program.roles for op in b.operations(role.body)]
        self.finals = {symbol for op in operations if isinstance(op, t.Finish) for symbol, _ in op.stream.finals}
        self.counter = 0
        self._plan: _Plan | None = None

    # ── the pieces of the streamed axis ─────────────────────────────────────────────────────────────────────────────────

    def bounds(self, bounds: Bounds) -> None:
        """The pieces that the mask leaves, at least one, and those in which it holds everywhere."""
        out, program = self.out, self.program
        rows, step = program.order.rows, program.steps.step
        out.line(f"first_row = {out.piece(rows.symbol)} * {rows.step}")
        out.line(f"last_row = min(first_row + {rows.step}, {out.size(rows.extent)}) - 1")
        known = {bounds.first_row: "first_row", bounds.last_row: "last_row"}
        for name, end in zip(("some_from", "some_to", "all_from", "all_to"), (*bounds.some, *bounds.every), strict=True):
            self.assign(name, end, known, None, wide=True)
        # In 64 bits up to here; limited to the streamed axis, they fit in 32 and keep few registers alive.
        extent = out.size(program.steps.extent)
        out.line(f"first_piece = int32(max(min(some_from // {step}, steps - 1), 0))")
        out.line(f"last_piece = max(int32((max(min(some_to, {extent}), 0) + {step - 1}) // {step}), first_piece + 1)")
        out.line(f"every_from = int32((max(min(all_from, {extent}), 0) + {step - 1}) // {step})")
        out.line(f"every_to = int32(max(min(all_to, {extent}), 0) // {step})")

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def op(self, op: t.Reset | t.Fold | t.Narrow | t.Rescale | t.Finish) -> None:
        out = self.out
        match op:
            case t.Reset(stream=stream):
                self.reset(self.plan(stream))
            case t.Fold(stream=stream):
                for block in self.blocks:
                    self.fold(self.plan(stream), op, block)
            case t.Narrow(source=source, target=target):
                narrow = out.made(f"ptx_tiles.narrow({source.shape[1]}, {target.element.value!r})", "narrow")
                for to, tile in zip(out.accumulators(target), out.accumulators(source), strict=True):
                    out.line(f"{to} = {narrow}({tile})")
            case t.Rescale(stream=stream, accumulator=acc):
                if not self.repaired(stream, stream.weight):
                    return
                scale = out.made(f"ptx_tiles.scale_rows({acc.shape[1]})", "scale_rows")
                for block, name in enumerate(out.accumulators(acc)):
                    repairs = ", ".join(self.repair(self.plan(stream), stream.weight, block, half) for half in range(2))
                    out.line(f"{name} = {scale}({name}, {repairs})")
            case t.Finish(stream=stream):
                self.finish(self.plan(stream))
            case _:
                assert_never(op)

    @property
    def blocks(self) -> range:
        return range(self.program.order.rows.step // (64 * self.out.current.instances))

    def row(self, symbol: Symbol, block: int, half: int) -> str:
        """The variable of a row's value."""
        return f"{self.out.names[symbol]}_{block}{half}"

    def repaired(self, stream: Stream, term: Term) -> bool:
        """Whether sums of a term must be repaired when the peak grows."""
        return stream.peak is not None and term.scale is not None and stream.peak in local_symbols(term.bias)

    def repair(self, plan: _Plan, term: Term, block: int, half: int) -> str:
        return f"repair{plan.terms.index(term) or ''}_{block}{half}"

    def reset(self, plan: _Plan) -> None:
        out, rows = self.out, self.program.order.rows
        for block in self.blocks:
            first = f"{out.piece(rows.symbol)} * {rows.step} + (consumer * {len(self.blocks)} + {block}) * 64"
            out.line(f"own_row_{block} = {first} + lane // 32 * 16 + lane % 32 // 4")
        for symbol, value in plan.hoisted.items():
            if not self.by_row(value):
                self.assign(out.names[symbol], value, {}, None)
                continue
            for block in self.blocks:
                for half in range(2):
                    self.assign(self.row(symbol, block, half), value, {}, self.index(block, half))
        for block in self.blocks:
            for half in range(2):
                if plan.stream.peak is not None:
                    out.line(f'{self.row(plan.stream.peak, block, half)} = float32(float("-inf"))')
                for symbol, _ in plan.stream.totals:
                    out.line(f"{self.row(symbol, block, half)} = float32(0.0)")

    def fold(self, plan: _Plan, op: t.Fold, block: int) -> None:
        out, stream, columns = self.out, plan.stream, op.scores.shape[1]
        piece = out.piece(self.program.steps.symbol)
        changed, weights = (out.accumulators(tile)[block] for tile in (op.scores, op.weights))
        inside = f"every_from <= {piece} and {piece} < every_to"
        if plan.change[0] or plan.change[1]:
            changed, scores = f"{out.names[stream.changed]}_{block}", changed
            self.choose(inside, plan.change, changed, scores, columns, block)
        if stream.peak is not None:
            greatest = out.made(f"ptx_tiles.row_max({columns})", "row_max")
            peaks = [self.row(stream.peak, block, half) for half in range(2)]
            out.line(f"old_0, old_1 = {', '.join(peaks)}")
            out.line(f"{', '.join(peaks)} = {greatest}({changed}, {', '.join(peaks)})")
            for half in range(2):
                out.line(f"peak_{half} = ptx.finite_peak({peaks[half]})")
        made: dict[Term, str] = {}
        for symbol, term in (*stream.totals, (stream.product, stream.weight)):
            if term not in made:
                made[term] = weights if term == stream.weight else f"{out.names[symbol]}_{block}"
                self.term(plan, term, made[term], changed, inside, columns, block)
            if symbol != stream.product:
                add = out.made(f"ptx_tiles.row_sum({columns})", "row_sum")
                totals = [self.row(symbol, block, half) for half in range(2)]
                repaired = self.repaired(stream, term)
                old = [f"{z} * {self.repair(plan, term, block, h)}" if repaired else z for h, z in enumerate(totals)]
                out.line(f"{', '.join(totals)} = {add}({made[term]}, {', '.join(old)})")

    def term(self, plan: _Plan, term: Term, to: str, changed: str, inside: str, columns: int, block: int) -> None:
        """The values of a term for every element; and by what its sums so far are repaired."""
        out, stream = self.out, plan.stream
        if term.scale is not None:
            for half in range(2):
                hoisted = {s: self.hoist_text(plan, s, block, half) for s in plan.hoisted}
                new = {stream.peak: f"peak_{half}"} if stream.peak else {}
                self.assign(f"bias_{half}", plan.biases[term], hoisted | new, self.index(block, half))
                self.assign(f"scale_{half}", plan.scales[term], hoisted, self.index(block, half))
                if stream.peak is not None and self.repaired(stream, term):
                    self.assign("before", plan.biases[term], hoisted | {stream.peak: f"old_{half}"}, self.index(block, half))
                    first = "" if term.falls else f' if old_{half} > float32(float("-inf")) else float32(1.0)'
                    out.line(f"{self.repair(plan, term, block, half)} = ptx.exp2(bias_{half} - before){first}")
        if plan.weights[term] == (None, None):
            power = out.made(f"ptx_tiles.exp_rows({columns})", "exp_rows")
            out.line(f"{to} = {power}({changed}, scale_0, bias_0, scale_1, bias_1)")
            return
        self.choose(inside, plan.weights[term], to, changed, columns, block)

    def finish(self, plan: _Plan) -> None:
        out, stream = self.out, plan.stream
        used = {s for _, value in stream.finals for s in local_symbols(value)}
        quad_sum = out.made("ptx_tiles.quad_sum()", "quad_sum")
        for block in self.blocks:
            for half in range(2):
                for symbol, _ in stream.totals:
                    if symbol in used:
                        name = self.row(symbol, block, half)
                        out.line(f"{name} = {quad_sum}({name})")
                known = {s: self.row(s, block, half) for s in used}
                for symbol, value in stream.finals:
                    self.assign(self.row(symbol, block, half), value, known, self.index(block, half))

    def choose(
        self, inside: str, functions: tuple[_Function | None, _Function | None], to: str, source: str, columns: int, block: int
    ) -> None:
        """Apply the first function where the mask holds everywhere, and else the second; none leaves a tile as it is."""
        everywhere, elsewhere = (self.applied(f, source, columns, block) for f in functions)
        if everywhere == elsewhere:
            self.column(functions[0])
            self.out.line(f"{to} = {everywhere}")
            return
        self.column(*functions)
        self.out.line(f"if {inside}:")
        self.out.line(f"    {to} = {everywhere}")
        self.out.line("else:")
        self.out.line(f"    {to} = {elsewhere}")

    def column(self, *functions: _Function | None) -> None:
        """The column of this thread's first element, if a function asks."""
        texts = [text for f in functions if f for argument in f.arguments for text in argument.texts]
        if any("column" in text for text in texts):
            steps = self.program.steps
            self.out.line(f"column = {self.out.piece(steps.symbol)} * {steps.step} + lane % 4 * 2")

    def applied(self, function: _Function | None, source: str, columns: int, block: int) -> str:
        if function is None:
            return source
        kinds = " ".join(argument.kind for argument in function.arguments)
        each = self.out.made(f"ptx_tiles.each({function.name}, {columns}, {kinds!r})", f"each_{function.name}")
        texts = [text.format(b=block) for argument in function.arguments for text in argument.texts]
        return f"{each}({', '.join([source, *texts])})"

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
                given = {s.symbol: _Argument("r", (f"{n}_0", f"{n}_1")) for s, n in ((scale, "scale"), (bias, "bias"))}
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
        return mentions_any(scalar, frozenset({self.program.steps.symbol, *(s for s in also if s)}))

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
                simple = isinstance(node, Const | Index | Local) or element_of(node) == Element.BOOL
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
        value = writer.value(scalar)
        name = self.out.names.free(name)
        parameters = ", ".join(["x", *writer.parameters])
        self.out.functions += [f"def {name}({parameters}):"]
        self.out.functions += [f"    {line}" for line in [*writer.lines, f"return {value}"]] + ["", ""]
        return _Function(name, tuple(writer.arguments))

    # ── values of rows and tiles ────────────────────────────────────────────────────────────────────────────────────────

    def index(self, block: int, half: int) -> str:
        return f"own_row_{block}" + (" + 8" if half else "")

    def hoist_text(self, plan: _Plan, symbol: Symbol, block: int, half: int) -> str:
        return self.row(symbol, block, half) if self.by_row(plan.hoisted[symbol]) else self.out.names[symbol]

    def assign(self, name: str, scalar: Scalar, known: dict[Symbol, str], row: str | None, *, wide: bool = False) -> None:
        """A line that computes a value of a row, or of the tile if `row` is None. `wide`: in integers that do not wrap."""
        rows = self.program.order.rows

        def variable(symbol: Symbol) -> str:
            if symbol == rows.symbol:
                assert row is not None
                return f"({row})"
            return self.variable(symbol)

        def read(node: Read) -> str:
            return self.load(node, lambda axis: variable(axis) if axis == rows.symbol else self.variable(axis))

        self.counter += 1
        writer = Writer(read, variable, self.size, known, wide=wide, prefix=f"t{self.counter}_")
        value = writer.value(scalar)
        for line in writer.lines:
            self.out.line(line)
        self.out.line(f"{name} = {value}")

    def variable(self, symbol: Symbol) -> str:
        """An outer index, one that follows from them, or a size."""
        fixed = (*(axis.symbol for axis in self.program.order.outer), *(derived for derived, _ in self.program.derived))
        if symbol in fixed:
            return self.out.piece(symbol)
        return self.out.size(Dim.of(symbol))

    def size(self, dim: Dim) -> str | None:
        return self.out.size(dim) if self.out.is_size(dim) else None

    def load(self, node: Read, place: Callable[[Symbol], str]) -> str:
        """A read at indices; those of rows and of the streamed axis are kept inside the tensor."""
        extents = {axis.symbol: axis.extent for axis in (self.program.order.rows, self.program.steps)}
        terms = []
        for d, axis in enumerate(bare(node) or ()):
            at = f"min({place(axis)}, {self.out.size(extents[axis])} - 1)" if axis in extents else place(axis)
            terms.append(f"int64({at}) * {self.out.stride(node.tensor, d)}")
        offset = " + ".join(terms) or "0"
        return loaded(node.element, f"{self.out.pointer(node.tensor)} + {max(8, node.element.bits) // 8} * ({offset})")


class _ElementWriter(Writer):
    """Writes the body of an elementwise function; every name from outside becomes an argument when it is first used."""

    def __init__(self, stream: StreamEmitter, plan: _Plan, element: Symbol, given: dict[Symbol, _Argument]) -> None:
        super().__init__(self.read_element, self.index_variable, self.index_size, {element: "x"}, narrow=True)
        self.stream, self.plan, self.given = stream, plan, given
        self.parameters: list[str] = []
        self.arguments: list[_Argument] = []
        self.names = Names(frozenset({"x", "ptx", "libdevice", "float32", "int32", "int64", "min", "max", "abs"}))

    def parameter(self, like: str, argument: _Argument) -> str:
        for name, known in zip(self.parameters, self.arguments, strict=True):
            if known == argument:
                return name
        name = self.names.free(like)
        self.parameters.append(name)
        self.arguments.append(argument)
        return name

    def value(self, scalar: Scalar) -> str:
        match scalar:
            case Local(symbol=symbol) if symbol in self.given:
                return self.parameter(symbol.name, self.given[symbol])
            case Local(symbol=symbol) if symbol in self.plan.hoisted:
                texts = self.hoisted(symbol)
                kind = "u" if len(texts) == 1 else "r" if element_of(scalar).is_float else "s"
                return self.parameter(self.stream.out.names[symbol], _Argument(kind, texts))
            case Unary(op="exp2", operand=operand):
                return self.named(f"ptx.exp2({self.value(operand)})", scalar)
            case Convert(operand=Index(dim=dim), element=element) if element.is_float:
                affine = self.affine(dim)
                if affine is not None:
                    return affine
        return super().value(scalar)

    def hoisted(self, symbol: Symbol) -> tuple[str, ...]:
        name = self.stream.out.names[symbol]
        return (f"{name}_{{b}}0", f"{name}_{{b}}1") if self.stream.by_row(self.plan.hoisted[symbol]) else (name,)

    def named(self, text: str, scalar: Scalar) -> str:
        if scalar not in self._seen:
            self._seen[scalar] = f"{self.prefix}{len(self.lines)}"
            self.lines.append(f"{self._seen[scalar]} = {text}")
        return self._seen[scalar]

    def affine(self, dim: Dim) -> str | None:
        """A whole number that counts the streamed index up or down, as a float: exact below 2^24, and no conversion per element."""
        keys, rows = self.stream.program.steps.symbol, self.stream.program.order.rows.symbol
        along = dim.linear_in(keys)
        low, high = ranges.of_dim(dim)
        if along is None or along[0].constant not in (1, -1) or not ranges.fits((low // 8, high // 8), Element.I32):
            return None  # it might wrap within a tile, if only of more than 2^28 positions
        texts = []
        for half in range(2):
            known = {keys: "column", rows: "(own_row_{b} + 8)" if half else "own_row_{b}"}
            writer = Writer(self.read_element, lambda s, k=known: k.get(s) or self.stream.variable(s), self.stream.size, {})  # type: ignore[misc]
            texts.append(f"float32(int32({writer.dim(dim)}))")
        return self.parameter("place", _Argument(f"f{along[0].constant}", tuple(texts)))

    def index_size(self, dim: Dim) -> str | None:
        size = self.stream.size(dim)
        return None if size is None else self.outside(size)

    def index_variable(self, symbol: Symbol) -> str:
        if symbol == self.stream.program.order.rows.symbol:
            return self.parameter("row", _Argument("i", ("own_row_{b}",)))
        if symbol == self.stream.program.steps.symbol:
            return self.parameter("column", _Argument("c", ("column",)))
        return self.outside(self.stream.variable(symbol))

    def outside(self, text: str) -> str:
        return text if text.isdigit() else self.parameter(text, _Argument("u", (text,)))

    def read_element(self, node: Read) -> str:
        out = self.stream.out
        if node not in self._seen:
            extents = {axis.symbol: axis.extent for axis in (self.stream.program.order.rows, self.stream.program.steps)}
            terms = []
            for d, axis in enumerate(bare(node) or ()):
                at = self.index_variable(axis)
                if axis in extents:
                    at = f"min({at}, {self.outside(out.size(extents[axis]))} - 1)"
                terms.append(f"int64({at}) * {self.outside(out.stride(node.tensor, d))}")
            pointer = self.outside(out.pointer(node.tensor))
            at = f"{pointer} + {max(8, node.element.bits) // 8} * ({' + '.join(terms) or '0'})"
            self.named(loaded(node.element, at), node)
        return self._seen[node]
