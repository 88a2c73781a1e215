"""The loops of an arranged sum of products, in the words of kernels.

    text        how a sum is computed (`sums.arranged`) -> the function that does it

Note [Rounding]
    An accumulator in f32 takes FEW products or so (RUN, where it is a register: those are many), and is then added to one in f64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from axon.backend.tiles.sums import NEAR, OVER, TURN, Arranged

LITERAL = 64  # sizes and strides that stand in the text: LLVM makes better loops of them
FEW = 256  # products in an accumulator in f32
RUN = 4096  # the same in a register
TILE = NEAR * OVER


def text(found: Arranged, element: str) -> tuple[str, tuple[int, ...]]:
    """The function, and the numbers of which it takes a table: of pointers to the factors, the result, accumulators of the element
    type, as many of f64, TILE elements for each factor that is turned, TILE for one on its way, and the table. A chunk's result
    lies after that of the one before."""
    writer = _Writer(found, element)
    writer.write()
    return writer.text(), tuple(writer.numbers)


class _Writer:
    def __init__(self, found: Arranged, element: str) -> None:
        self.found, self.element = found, element
        self.sum = found.sum
        self.tensors = [*self.sum.factors, self.sum.result]
        self.memory = [*(f"x{k}" for k in range(len(self.sum.factors))), "out"]
        self.lines: list[str] = []
        self.depth = 2
        self.count = 0
        self.numbers: list[int] = []
        self.places: dict[str, int] = {}
        self.index: dict[int, str] = {}  # of axes in scope
        self.bounds: dict[int, tuple[str, str]] = {}  # of axes of which an item has a part

    def text(self) -> str:
        names = [f"x{k}" for k in range(len(self.sum.factors))]
        head = [f"def sums({', '.join(names)}, out, acc, wide, near, turning, t, first, last):"]
        head += [f"    {name} = load_i64(t, {place})" for name, place in self.places.items()]
        return "\n".join([*head, "    for item in range(first, last):", *self.lines, "    return 0"]) + "\n"

    # ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def let(self, stem: str, value: str) -> str:
        name = self.name(stem)
        self.line(f"{name} = {value}")
        return name

    def number(self, name: str, value: int) -> str:
        if 0 <= value <= LITERAL:
            return str(value)
        if name not in self.places:
            self.places[name] = len(self.numbers)
            self.numbers.append(value)
        return name

    def size(self, axis: int) -> str:
        return self.number(f"n{axis}", self.sum.sizes[axis])

    @contextmanager
    def loop(self, name: str, start: str, stop: str, step: int = 1) -> Iterator[None]:
        self.line(f"for {name} in range({start}, {stop}{f', {step}' if step > 1 else ''}):")
        self.depth += 1
        yield
        self.depth -= 1

    def range(self, axis: int) -> tuple[str, str]:
        return self.bounds.get(axis) or ("0", self.size(axis))

    def offset(self, tensor: int, axes: Sequence[int], start: str = "") -> str:
        """Of an element, as far as these axes say."""
        parts = [start] if start and start != "0" else []
        for axis in axes:
            stride = self.tensors[tensor][axis]
            index = self.index[axis]
            if stride and index != "0":
                parts.append(index if stride == 1 else f"{index} * {self.number(f's{tensor}_{axis}', stride)}")
        return " + ".join(parts) or "0"

    def zero(self) -> str:
        return "f32(0.0)" if self.element == "f32" else "0.0"

    # ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self) -> None:
        found, given = self.found, self.sum
        rest = "item"
        parts: list[tuple[str, int, int]] = []  # kind, axis, count; the last one runs fastest
        if found.chunked is not None:
            parts.append(("chunk", found.chunked, found.chunks))
        parts += [("outer", a, given.sizes[a]) for a in found.outer]
        if found.banded is not None and found.bands > 1:
            parts.append(("band", found.banded, found.bands))
        if found.strips > 1 and found.across is not None:
            parts.append(("strip", found.across, found.strips))
        if found.blocks > 1:
            parts.append(("block", found.along, found.blocks))
        starts = [""] * len(self.tensors)
        for position in reversed(range(len(parts))):
            kind, axis, count = parts[position]
            if position:
                above = self.let("q", f"unsigned_divide({rest}, {self.number(f'{kind}{axis}', count)})")
                mine = self.let("i", f"{rest} - {above} * {self.number(f'{kind}{axis}', count)}")
                rest = above
            else:
                mine = rest
            if kind == "outer":
                self.index[axis] = mine
                continue
            step = {"strip": found.over, "block": found.lanes}.get(kind) or -(-given.sizes[axis] // count)
            low = self.let("low", f"{mine} * {self.number(f'step{axis}', step)}")
            whole = step * count == given.sizes[axis]
            high = f"{low} + {self.number(f'step{axis}', step)}"
            self.bounds[axis] = (low, self.let("high", high if whole else f"min_int({high}, {self.size(axis)})"))
            if kind == "chunk":
                starts[-1] = self.let("to", f"{mine} * {self.number('made', given.elements(given.result))}")
        starts = [self.let("p", self.offset(k, found.outer, start)) for k, start in enumerate(starts)]
        with ExitStack() as stack:
            for axis in found.inner:
                self.index[axis] = self.name("i")
                stack.enter_context(self.loop(self.index[axis], *self.range(axis)))
            if found.inner:
                starts = [self.let("p", self.offset(k, found.inner, start)) for k, start in enumerate(starts)]
            if found.direct:
                self.direct(starts)
            elif found.beside:
                self.beside(starts)
            else:
                self.within(starts)

    @contextmanager
    def around(self, axes: Sequence[int | None], starts: Sequence[str]) -> Iterator[list[str]]:
        """Loops over axes, and where tensors begin inside."""
        there = [axis for axis in axes if axis is not None]
        with ExitStack() as stack:
            for axis in there:
                self.index[axis] = self.name("i")
                stack.enter_context(self.loop(self.index[axis], *self.range(axis)))
            count = len(self.tensors)
            yield [self.let("p", self.offset(k % count, there, start)) for k, start in enumerate(starts)] if there else list(starts)

    def unrolled(self) -> Iterator[None]:
        """For each place of the index that is written out."""
        axis = self.found.unrolled
        if axis is None:
            yield
            return
        for place in range(self.sum.sizes[axis]):
            self.index[axis] = str(place)
            yield

    @property
    def innermost(self) -> tuple[int, ...]:
        return (self.found.along,) if self.found.unrolled is None else (self.found.along, self.found.unrolled)

    def direct(self, starts: Sequence[str]) -> None:
        found, result = self.found, len(starts) - 1
        store = f"store_{self.element}"
        summed = found.unrolled is not None and not self.sum.kept[found.unrolled]
        with self.turned(starts) as starts, self.around([found.across], starts) as starts:
            steady = self.steady(starts, ())
            i = self.index[found.along] = self.name("i")
            with self.loop(i, *self.range(found.along)):
                total = self.zero()
                for _ in self.unrolled():
                    factors = [*steady, *self.loads(starts, ())]
                    if summed:
                        total = self.let("a", self.added(total, factors))
                    else:
                        self.line(f"{store}(out, {self.offset(result, self.innermost, starts[-1])}, {' * '.join(factors)})")
                if summed:
                    self.line(f"{store}(out, {self.offset(result, (found.along,), starts[-1])}, {total})")

    @contextmanager
    def turned(self, starts: Sequence[str]) -> Iterator[list[str]]:
        """Around what reads a block of the factors that are turned: where they begin then. TURN lines are read at once, each beside
        itself, and written next to each other; then these short vectors are put in their places."""
        found, kept = self.found, (list(self.tensors), list(self.memory))
        if not found.turned:
            yield list(starts)
            return
        assert found.across is not None
        (low, high), (begin, end) = self.range(found.along), self.range(found.across)
        load, store = f"load_{self.element}", f"store_{self.element}"
        lines = self.let("lines", f"{high} - {low}")
        places = self.let("places", f"{end} - {begin}")
        groups = self.let("groups", f"unsigned_divide({lines}, {TURN})")
        inside = list(starts)
        for number, k in enumerate(found.turned):
            stride = self.number(f"s{k}_{found.along}", self.tensors[k][found.along])
            base = self.let("p", f"{starts[k] or 0} + {begin} + {low} * {stride}")
            full = min(OVER, self.sum.sizes[found.across])
            self.line(f"if {places} >= {full}:")
            self.depth += 1
            g, c = self.name("g"), self.name("c")
            with self.loop(g, "0", groups):
                rows = [self.let("p", f"{base} + ({g} * {TURN} + {n}) * {stride}") for n in range(TURN)]
                to = self.let("p", f"{g} * {TURN * OVER}")
                with self.loop(c, "0", str(full)):
                    for n, row in enumerate(rows):
                        self.line(f"{store}(turning, {to} + {c} * {TURN} + {n}, {load}({self.memory[k]}, {row} + {c}))")
            c, g, lane = self.name("c"), self.name("g"), self.name("lane")
            with self.loop(c, "0", str(full)), self.loop(g, "0", groups), self.loop(lane, "0", str(TURN)):
                to = f"{number * TILE} + {c} * {NEAR} + {g} * {TURN} + {lane}"
                self.line(f"{store}(near, {to}, {load}(turning, {g} * {TURN * OVER} + {c} * {TURN} + {lane}))")
            self.depth -= 1
            done = self.name("done")
            self.line(f"{done} = {groups} * {TURN} if {places} >= {full} else 0")
            i, c = self.name("i"), self.name("c")
            with self.loop(c, "0", places), self.loop(i, done, lines):
                value = f"{load}({self.memory[k]}, {base} + {i} * {stride} + {c})"
                self.line(f"{store}(near, {number * TILE} + {c} * {NEAR} + {i}, {value})")
            steps = [0] * len(self.tensors[k])
            steps[found.along], steps[found.across] = 1, NEAR
            self.tensors[k], self.memory[k] = tuple(steps), "near"
            inside[k] = self.let("p", f"{number * TILE} - {begin} * {NEAR} - {low}")
        yield inside
        self.tensors, self.memory = kept

    def varying(self, tensor: int, axes: Sequence[int]) -> bool:
        return any(self.tensors[tensor][a] for a in axes)

    def steady(self, starts: Sequence[str], axes: Sequence[int]) -> list[str]:
        """The product of the factors that are the same along vectors, as a list of one, or of none. `axes` are those whose indices
        are new."""
        factors = [
            f"load_{self.element}({self.memory[k]}, {self.offset(k, axes, starts[k])})"
            for k in range(len(self.sum.factors))
            if not self.varying(k, self.innermost)
        ]
        return [self.let("c", " * ".join(factors))] if factors else []

    def loads(self, starts: Sequence[str], axes: Sequence[int]) -> list[str]:
        return [
            f"load_{self.element}({self.memory[k]}, {self.offset(k, (*axes, *self.innermost), starts[k])})"
            for k in range(len(self.sum.factors))
            if self.varying(k, self.innermost)
        ]

    def added(self, total: str, factors: Sequence[str]) -> str:
        """The text of a total with a product."""
        if len(factors) == 1:
            return f"sum_float({total}, {factors[0]})"
        return f"sum_product({total}, {' * '.join(factors[:-1])}, {factors[-1]})"

    # ── accumulators beside each other ──────────────────────────────────────────────────────────────────────────────────

    def beside(self, starts: Sequence[str]) -> None:
        found, given = self.found, self.sum
        strip = found.across if found.across is not None and given.kept[found.across] else None
        summed = [a for a in found.summed if a != found.along]
        low, high = self.range(found.along)
        blocked = not given.kept[found.along] and given.sizes[found.along] > found.lanes
        if blocked:
            count = self.let("count", f"min_int({self.number('lanes', found.lanes)}, {high} - {low})")
        else:
            count = high if low == "0" else self.let("count", f"{high} - {low}")
        self.rows = self.range(strip) if strip is not None else ("0", "1")
        rows = "1" if strip is None else self.let("rows", f"{self.rows[1]} - {self.rows[0]}")
        kept = found.unrolled is not None and given.kept[found.unrolled]
        self.width = given.sizes[found.unrolled] if kept and found.unrolled is not None else 1
        whole = rows if strip is not None else "1"
        every = f"{count} * {self.width}" if self.width > 1 else count
        pitch = self.number("pitch", found.lanes * self.width)
        self.pitch = pitch
        every = every if strip is None else f"{whole} * {pitch}"
        every = self.let("every", every)
        loops = ([found.along] if blocked else []) + summed
        depth, cut, step = 1, None, 0
        if self.element == "f32":
            for axis in reversed(loops):
                size = -(-given.sizes[axis] // (found.lanes if axis == found.along else 1))
                if depth * size > FEW:
                    cut, step = axis, max(1, FEW // depth)
                    break
                depth *= size
        if cut is not None:
            self.fill("wide", every, "0.0")
        else:
            self.fill("acc", every, self.zero())
        self.summing(loops, cut, step, starts, strip, every)
        read = "acc" if cut is None else "wide"
        to_element = (lambda x: x) if cut is None or self.element == "f64" else (lambda x: f"to_{self.element}({x})")
        load = f"load_{'f64' if read == 'wide' else self.element}"
        with self.around([strip], starts) as starts:
            row = f"({self.index[strip]} - {self.rows[0]}) * {pitch} + " if strip is not None else ""
            if given.kept[found.along]:
                i = self.index[found.along] = self.name("i")
                with self.loop(i, low, high):
                    for w in range(self.width):
                        if found.unrolled is not None:
                            self.index[found.unrolled] = str(w)
                        place = self.lane(i, low, row, w)
                        value = to_element(f"{load}({read}, {place})")
                        axes = self.innermost if self.width > 1 else (found.along,)
                        self.line(f"store_{self.element}(out, {self.offset(len(starts) - 1, axes, starts[-1])}, {value})")
            else:
                for w in range(self.width):
                    total, i = self.name("a"), self.name("i")
                    self.line(f"{total} = {'0.0' if read == 'wide' else self.zero()}")
                    with self.loop(i, "0", count):
                        self.line(f"{total} = sum_float({total}, {load}({read}, {self.lane(i, '0', row, w)}))")
                    if found.unrolled is not None:
                        self.index[found.unrolled] = str(w)
                    axes = (found.unrolled,) if self.width > 1 and found.unrolled is not None else ()
                    self.line(f"store_{self.element}(out, {self.offset(len(starts) - 1, axes, starts[-1])}, {to_element(total)})")

    def lane(self, i: str, low: str, row: str, w: int) -> str:
        lane = i if low == "0" else f"({i} - {low})"
        return row + (lane if self.width == 1 else f"{lane} * {self.width} + {w}")

    def fill(self, memory: str, count: str, value: str) -> None:
        i = self.name("i")
        with self.loop(i, "0", count):
            self.line(f"store_{'f64' if memory == 'wide' else self.element}({memory}, {i}, {value})")

    def summing(
        self,
        loops: Sequence[int],
        cut: int | None,
        step: int,
        starts: Sequence[str],
        strip: int | None,
        every: str,
        *,
        blocked: bool = False,
    ) -> None:
        """Loops over what is summed, the first one outside."""
        found = self.found
        if not loops:
            self.step(starts, [[]], strip, None)
            return
        axis, *rest = loops
        low, high = self.range(axis)
        if axis == cut:
            block = self.name("block")
            each = step * (found.lanes if axis == found.along else 1)
            with self.loop(block, low, high, each):
                self.fill("acc", every, self.zero())
                before = self.bounds.get(axis)
                self.bounds[axis] = (block, self.let("end", f"min_int({block} + {each}, {high})"))
                self.summing(loops, None, 0, starts, strip, every)
                if before is None:
                    del self.bounds[axis]
                else:
                    self.bounds[axis] = before
                i = self.name("i")
                with self.loop(i, "0", every):
                    part = f"load_{self.element}(acc, {i})"
                    part = part if self.element == "f64" else f"to_f64({part})"
                    self.line(f"store_f64(wide, {i}, sum_float(load_f64(wide, {i}), {part}))")
            return
        if axis == found.along:
            block = self.name("block")
            with self.loop(block, low, high, found.lanes):
                before = self.bounds.get(axis)
                self.bounds[axis] = (block, self.let("end", f"min_int({block} + {self.number('lanes', found.lanes)}, {high})"))
                if rest:
                    self.summing(rest, cut, step, starts, strip, every)
                else:
                    self.step(starts, [[]], strip, None)
                if before is None:
                    del self.bounds[axis]
                else:
                    self.bounds[axis] = before
            return
        if axis == found.across and found.turned and not blocked:
            block = self.name("block")
            with self.loop(block, low, high, OVER):
                before = self.bounds.get(axis)
                self.bounds[axis] = (block, self.let("end", f"min_int({block} + {OVER}, {high})"))
                with self.turned(starts) as inside:
                    self.summing(loops, cut, step, inside, strip, every, blocked=True)
                if before is None:
                    del self.bounds[axis]
                else:
                    self.bounds[axis] = before
            return
        if rest:
            self.index[axis] = self.name("i")
            with self.loop(self.index[axis], low, high):
                inside = [self.let("p", self.offset(k, (axis,), start)) for k, start in enumerate(starts)]
                self.summing(rest, cut, step, inside, strip, every)
            return
        width = self.sum.sizes[found.unrolled] if found.unrolled is not None else 1
        jam = max(1, min(8, 16 // (width * len(self.sum.factors)))) if strip is None or not found.turned else 1
        if axis not in self.bounds and self.sum.sizes[axis] <= 2 * jam and jam > 1:
            self.step(starts, [[str(n)] for n in range(self.sum.sizes[axis])], strip, axis)
            return
        between = low
        if jam > 1:
            between = self.let("between", f"{high} - unsigned_remainder({high} - {low}, {jam})")
            i = self.name("i")
            with self.loop(i, low, between, jam):
                self.step(starts, [[i], *([self.let("i", f"{i} + {n}")] for n in range(1, jam))], strip, axis)
        i = self.name("i")
        with self.loop(i, between, high):
            self.step(starts, [[i]], strip, axis)

    def step(self, starts: Sequence[str], places: Sequence[Sequence[str]], strip: int | None, axis: int | None) -> None:
        """Adds products for these places of the innermost index that is summed to all accumulators."""
        found = self.found
        begins: list[list[str]] = []
        for place in places:
            if axis is not None:
                (self.index[axis],) = place
                begins.append([self.let("p", self.offset(k, (axis,), start)) for k, start in enumerate(starts[:-1])])
            else:
                begins.append(list(starts[:-1]))
        with ExitStack() as stack:
            if strip is not None and found.turned:
                (only,) = begins
                begins = [stack.enter_context(self.turned([*only, "0"]))[:-1]]
            flat = stack.enter_context(self.around([strip], [p for each in begins for p in (*each, "0")]))
            count = len(self.sum.factors) + 1
            begins = [list(flat[n : n + count - 1]) for n in range(0, len(flat), count)]
            row = f"({self.index[strip]} - {self.rows[0]}) * {self.pitch} + " if strip is not None else ""
            steady = [self.steady(each, ()) for each in begins]
            low, high = self.range(found.along)
            i = self.index[found.along] = self.name("i")
            with self.loop(i, low, high):
                totals: dict[int, str] = {}
                for number, _ in enumerate(self.unrolled()):
                    w = number if self.width > 1 else 0
                    place = self.lane(i, low, row, w)
                    if w not in totals:
                        totals[w] = self.let("a", f"load_{self.element}(acc, {place})")
                    for each, same in zip(begins, steady, strict=True):
                        totals[w] = self.let("a", self.added(totals[w], [*same, *self.loads(each, ())]))
                for w, total in totals.items():
                    self.line(f"store_{self.element}(acc, {self.lane(i, low, row, w)}, {total})")

    # ── one accumulator ─────────────────────────────────────────────────────────────────────────────────────────────────

    def within(self, starts: Sequence[str]) -> None:
        """A sum along vectors, for each place of the index that is written out if that is kept."""
        found, given = self.found, self.sum
        kept = found.unrolled is not None and given.kept[found.unrolled]
        for place in range(given.sizes[found.unrolled]) if kept and found.unrolled is not None else [None]:
            low, high = self.range(found.along)
            runs = given.sizes[found.along] > RUN and self.element == "f32"
            several = runs or found.depth > 1
            total = self.name("total")
            self.line(f"{total} = {'0.0' if several else self.zero()}")
            with self.around([a for a in found.summed if a != found.along], starts) as inside, ExitStack() as stack:
                if runs:
                    run = self.name("run")
                    stack.enter_context(self.loop(run, low, high, RUN))
                    low, high = run, self.let("end", f"min_int({run} + {RUN}, {high})")
                own = self.name("a") if several else total
                if several:
                    self.line(f"{own} = {self.zero()}")
                steady = self.steady(inside, ())
                i = self.index[found.along] = self.name("i")
                with self.loop(i, low, high):
                    if place is not None and found.unrolled is not None:
                        self.index[found.unrolled] = str(place)
                        self.line(f"{own} = {self.added(own, [*steady, *self.loads(inside, ())])}")
                    else:
                        for _ in self.unrolled():
                            self.line(f"{own} = {self.added(own, [*steady, *self.loads(inside, ())])}")
                if several:
                    self.line(f"{total} = sum_float({total}, {own if self.element == 'f64' else f'to_f64({own})'})")
            axes = (found.unrolled,) if place is not None and found.unrolled is not None else ()
            value = f"to_f32({total})" if several and self.element == "f32" else total
            self.line(f"store_{self.element}(out, {self.offset(len(starts) - 1, axes, starts[-1])}, {value})")
