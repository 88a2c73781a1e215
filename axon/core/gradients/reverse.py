"""Reverse mode on operations: from the adjoints of what a block makes to those of what it reads.

`Reverse` goes through the operations from the last to the first. Each result has an adjoint of its own shape, which is the sum of
what its readers gave; an operation passes it on to what it reads. Everything is core: an adjoint of a sum of products is sums of
products again.

    sum            every element gets the adjoint
    prod           … times the product of the others, which is not divided where something is 0
    max, min       the first best element gets all of it
    reduce         … through `(before ⊙ element) ⊙ after`, with running combinations from both sides
    scan           ḡ[t] = ȳ[t] + ∂y[t + 1]/∂y[t] · ḡ[t + 1]: a scan of affine maps from the other end
    sort           back to where each value was
    loop           its states are kept, and what of a step is much work (see `keeping`); it runs backwards, with the adjoints as
                   states
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.gradients.demand import Demand, demands, disjunction, is_bounded
from axon.core.gradients.forms import Form, Renaming, by_age, counted, defined, places
from axon.core.gradients.keeping import worth_keeping
from axon.core.gradients.making import Maker, layered
from axon.core.gradients.operations import (
    NoDerivative,
    UserRule,
    affine,
    apart,
    applied,
    as_function,
    at,
    axes_of,
    derivative,
    flattened,
    free,
    moving_states,
    scan_apart,
    with_counter,
)
from axon.core.gradients.reads import gathered, within
from axon.core.gradients.rules import number, plus
from axon.core.gradients.scalars import Active, Contribution, adjoints, tidied
from axon.core.gradients.sharing import shared
from axon.core.gradients.slices import in_place, place_in_step, with_part
from axon.core.ir import (
    Axis,
    Binary,
    Block,
    Check,
    Compress,
    Compute,
    Const,
    Index,
    Loop,
    Monoid,
    Op,
    Read,
    Reduction,
    Scalar,
    Scan,
    Select,
    Sort,
    Value,
    element_of,
)
from axon.core.operands import in_f32, with_tensors
from axon.core.passes.dissolve import copied
from axon.core.passes.live import live
from axon.core.passes.parts import as_size
from axon.core.scalar_facts import above_0, comparison, substitute, varies
from axon.core.walk import converted, outs_of, reads, tensors_of
from axon.shapes.algebra.facts import Found
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation


@dataclass(frozen=True, slots=True, eq=False)
class _Passed:
    """What was made for an operation of a form, `given` of it to what it reads; and which tensors of these are all one number."""

    form: Form
    ops: tuple[Op, ...]
    defined: tuple[Symbol, ...]  # by the operations, the older first
    variables: tuple[Symbol, ...]  # of these, and of what the form names, those that may stand in Dims
    given: tuple[tuple[Symbol, Value], ...]
    fills: dict[Symbol, Const]
    counts: tuple[tuple[Symbol, Dim], ...]  # sizes that the data decide, and what they are at most

    def again(self, form: Form, to: Reverse) -> bool:
        """The same for another operation of this form. False where operations of one place stand at several now."""
        spans = places(self.form, form)
        if spans is None:
            return False
        names = dict(zip(self.form.numbers, form.numbers, strict=True)) | {old: fresh(old.name) for old in self.defined}
        renaming = Renaming(names, self.variables, spans)
        to.ops += map(renaming.op, self.ops)
        for symbol, part in self.given:
            to.parts.setdefault(names[symbol], []).append(renaming.value(part))
        to.fills |= {names[symbol]: number for symbol, number in self.fills.items()}
        for size, bound in self.counts:
            to.assume_at_most(names[size], renaming.dim(bound))
        return True


class Reverse(Maker):
    """`parts` are what readers gave each tensor so far; `done` the functions with a rule whose results passed theirs on.

    `here` are the demands of the operation that is passed through, where what it gives may else be NaN; `tainted` are tensors whose
    adjoints may be NaN where there is no demand for them. `passed` is what was made of operations by their forms, `counts` are the
    sizes that the data decide, which are made on the way, and what they are at most.
    """

    parts: dict[Symbol, list[Value]]
    done: list[UserRule]
    demands: dict[Symbol, Demand]
    here: list[Demand]
    tainted: set[Symbol]
    passed: Found
    counts: list[tuple[Symbol, Dim]]

    def run(self, seeds: Sequence[tuple[Symbol, Value]]) -> None:
        """Adjoints of results in, those of everything that is active out; ask `adjoint` for them."""
        self.parts, self.done, self.here, self.tainted = {}, [], [], set()
        self.passed, self.counts = self.known.found("passed"), []
        of_rules = (value.symbol for rule in self.rules for value in (*rule.by, *rule.results))
        self.demands = demands(self.source, self.active, {*of_rules, *(symbol for symbol, _ in seeds)})
        for symbol, seed in seeds:
            if symbol in self.active:
                self.parts.setdefault(symbol, []).append(seed)
        for op in reversed(self.source):
            if any(self.parts.get(out.symbol) for out in outs_of(op)):
                self.back(op)

    def adjoint(self, value: Value) -> Value:
        """What the readers of a tensor gave it, together."""
        return self._whole(value) or self.constant(value, 0.0)

    # ── making operations ──────────────────────────────────────────────────────────────────────────────────────────────

    def _whole(self, value: Value) -> Value | None:
        parts = self.parts.get(value.symbol, [])
        if len(parts) > 1:
            axes = axes_of(value)
            total: Scalar = self.read(parts[0], axes)
            for part in parts[1:]:
                total = plus(total, self.read(part, axes))
            parts = self.parts[value.symbol] = [self.compute(derivative(value), axes, total)]
        return parts[0] if parts else None

    def give(self, axes: Sequence[Axis], found: Sequence[Contribution], last: Sequence[Axis], demand: Scalar | None) -> None:
        """Pass on what reads get: where there is a demand, which mentions no index."""
        for contribution in found:
            value = self.active[contribution.read.tensor]
            ops = gathered(value, axes, contribution, self.known, last)
            op = ops[-1]
            self.ops += ops
            if op.reduction is None and isinstance(op.body[0], Const):
                self.fills[op.outs[0].symbol] = op.body[0]
            part = op.outs[0]
            if demand is not None and self.same_demand(contribution.read, demand):
                self.tainted.add(value.symbol)
            elif demand is not None:
                places = axes_of(part)
                given = self.read(part, places)
                part = self.compute(derivative(value), places, Select(demand, given, number(0, given)))
            self.parts.setdefault(value.symbol, []).append(part)

    def through(self, axes: Sequence[Axis], bodies: Sequence[tuple[Scalar, Scalar]], last: Sequence[Axis] = ()) -> None:
        """Expressions over axes, those of the operation first, pass on their adjoints."""
        demand = disjunction([d.at([Dim.of(a.symbol) for a in axes[: len(d.places)]]) for d in self.here]) if self.here else None
        if demand is not None and varies(demand, frozenset(axis.symbol for axis in axes)):
            bodies, demand = [(Select(demand, body, number(0, body)), adjoint) for body, adjoint in bodies], None
        found = adjoints(bodies, self.own()).reads
        if not last:
            made, expressions = shared([c.adjoint for c in found], axes, lambda scalar: self.reads_inside(scalar, axes))
            self.ops += made
            found = tuple(replace(c, adjoint=adjoint) for c, adjoint in zip(found, expressions, strict=True))
        self.give(axes, found, last, demand)

    def reads_inside(self, scalar: Scalar, axes: Sequence[Axis]) -> bool:
        """Whether an expression is known to read only what is there, whatever guards it. Adjoints are read at the axes."""
        facts = self.known
        for axis in axes:
            facts = facts.index(axis.symbol, axis.extent)
        for read in reads(scalar):
            if read.padding is None and read.tensor in self.shapes:
                places = zip(read.subscripts, self.shapes[read.tensor], strict=True)
                if any(not isinstance(s, Dim) or any(within(s, extent, facts)) for s, extent in places):
                    return False
        return True

    def same_demand(self, read: Read, demand: Scalar) -> bool:
        own, places = self.demands.get(read.tensor), [s for s in read.subscripts if isinstance(s, Dim)]
        return own is not None and len(places) == len(read.subscripts) and own.at(places) == demand

    def demanded(self, op: Compute | Scan) -> list[Demand]:
        """The demands for an operation's results, if what it gives where there is none may be NaN."""
        outs = [out.symbol for out in op.outs if self.parts.get(out.symbol)]
        garbage = any(read.tensor in self.demands for body in op.body for read in reads(body))
        if not all(s in self.demands for s in outs) or (is_bounded(op) and not garbage and self.tainted.isdisjoint(outs)):
            return []
        return [self.demands[s] for s in outs]

    # ── operations ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def back(self, op: Op) -> None:
        rule = self.rule_of(op)
        if rule is not None:
            self.by_rule(rule)
            return
        self.here = self.demanded(op) if isinstance(op, Compute | Scan) else []
        form = None if self.here or (self.passed.idle and not isinstance(op, Loop)) else self.form_of(op)
        if form is None:
            self.back_alone(op)
            return
        # That a size is at most a number tells nothing to who does not speak of it; that it is at most `d` may tell something of d.
        key = form.key, tuple([bound for _, bound in self.counts if bound.constant is None])
        found: _Passed | None = self.passed.get(key)
        if found is not None and found.again(form, self):
            return
        begin, marks, counts = len(self.ops), (len(self.stopped), len(self.rules)), len(self.counts)
        before = {symbol: len(self.parts.get(symbol, ())) for symbol in form.numbers}
        self.back_alone(op)
        if marks == (len(self.stopped), len(self.rules)):
            given = [(symbol, part) for symbol, n in before.items() for part in self.parts.get(symbol, [])[n:]]
            ops = tuple(self.ops[begin:])
            fills = {out.symbol: self.fills[out.symbol] for each in ops for out in outs_of(each) if out.symbol in self.fills}
            variables = (*form.sizes, *counted(ops))
            made = _Passed(form, ops, by_age(defined(ops)), variables, tuple(given), fills, tuple(self.counts[counts:]))
            self.passed.keep(key, made)

    def form_of(self, op: Op) -> Form | None:
        """An operation with all that decides what it passes on, but for what is known; None of one that has no form."""
        late = False  # whether others come before the sum of the results' adjoints
        match op:
            case Compute(reduction=Reduction(monoid=Monoid(kind=kind))):
                late = kind != "sum"
            case Loop():
                late = op.conditional
                if self.rules:
                    return None
            case Sort() | Compress() | Check():
                return None
        form = Form()
        if not form.op(op) or not self.stopped.isdisjoint(own := form.own):
            return None
        for symbol in list(form.numbers):
            if symbol in own:
                continue
            if symbol in form.sizes:
                form.found.append((form.numbers[symbol], symbol))
                continue
            shape = self.shapes.get(symbol) if (value := self.active.get(symbol)) is None else value.shape
            if shape is None:
                return None
            scalar = self.scalars.get(symbol) if isinstance(op, Loop) else None  # its trip count may be one
            size = None if scalar is None else as_size(scalar, self.scalars)
            form.found.append((value is None, self.fills.get(symbol), size, *map(form.dim, shape)))
        for out in outs_of(op):
            if not late:
                self._whole(out)
            form.found.append(tuple([(form.value(part), self.fills.get(part.symbol)) for part in self.parts.get(out.symbol, ())]))
        form.found += ((form.numbers[size], size) for size in sorted(form.sizes - own, key=lambda s: s.id))
        return form

    def back_alone(self, op: Op) -> None:
        match op:
            case Compute(reduction=None):
                op = apart(op)
                pairs = zip(op.body, op.outs, strict=True)
                self.through(op.axes, [(b, self.read(g, op.axes)) for b, o in pairs if (g := self._whole(o))])
            case Compute():
                self.reduction(apart(op))
            case Scan():
                self.scan(op)
            case Loop():
                self.loop(op)
            case Sort():
                self.sort(op)
            case Compress() | Check():
                pass

    def by_rule(self, rule: UserRule) -> None:
        """The adjoints of a function with a rule of its own, once those of its results are whole."""
        if rule in self.done:
            return
        self.done.append(rule)
        names = {seed.symbol: self.adjoint(result).symbol for seed, result in zip(rule.seeds, rule.results, strict=True)}
        ops, names = self.again(rule.ops, names)
        self.ops += ops
        for value, found in zip(rule.by, rule.adjoints, strict=True):
            if value.symbol in self.active:
                self.parts.setdefault(value.symbol, []).append(replace(found, symbol=names.get(found.symbol, found.symbol)))

    def reduction(self, op: Compute) -> None:
        reduction = op.reduction
        assert reduction is not None
        axes = (*op.axes, *reduction.axes)
        match reduction.monoid.kind:
            case "sum":
                self._given(op, None)
            case "prod":
                self._given(op, self.others(op, reduction))
            case "max" | "min":
                self._given(op, self.best(op, reduction))
            case "custom":
                self.combined(op, reduction, axes)
            case "any" | "all" | "argmax" | "argmin":
                raise AssertionError("what makes no float has no derivative")

    def _given(self, op: Compute, what: Scalar | None) -> None:
        """Each element gets the adjoint: where a condition holds, or times a factor."""
        reduction, whole = op.reduction, self._whole(op.outs[0])
        assert reduction is not None
        assert whole is not None
        (body,) = op.body
        adjoint: Scalar = converted(self.read(whole, op.axes), element_of(body))
        if what is not None and element_of(what) is Element.BOOL:
            body = Select(what, body, number(0, body))
        elif what is not None:
            adjoint = Binary("mul", adjoint, what)
        for condition in (reduction.where, reduction.asked):  # what nobody asks for may be anything
            if condition is not None:
                body = Select(condition, body, number(0, body))
        self.through((*op.axes, *reduction.axes), [(body, adjoint)], reduction.axes)

    def combined(self, op: Compute, reduction: Reduction, axes: Sequence[Axis]) -> None:
        """A reduction by a function of the program: `(before ⊙ element) ⊙ after`, by running combinations from both sides."""
        self.closed(reduction.monoid, op.span)
        if any(a.symbol in axis.extent.variables for axis in reduction.axes for a in axes):
            what = "a `reduce` by a function of the program over a range that depends on another index"
            raise NoDerivative(what, op.span, "reduce over the whole range, with `where` for the part")
        flat, position = flattened(reduction)
        n, t, monoid = flat.extent, Dim.of(flat.symbol), reduction.monoid
        body = tuple(substitute(b, position) for b in op.body)
        if reduction.where is not None:
            where = substitute(reduction.where, position)
            body = tuple(Select(where, b, u) for b, u in zip(body, monoid.units, strict=True))
        before = self._running(op.axes, flat, monoid, body)
        after = self._running(op.axes, flat, _mirrored(monoid), _from_the_end(body, flat))
        first, last = comparison("eq", t, Dim.of(0)), comparison("eq", t, n - 1)
        left = [Select(first, u, at(b, (*op.axes, t - 1))) for b, u in zip(before, monoid.units, strict=True)]
        right = [Select(last, u, at(a, (*op.axes, n - 2 - t))) for a, u in zip(after, monoid.units, strict=True)]
        pairs = zip(applied(monoid, applied(monoid, left, body), right), op.outs, strict=True)
        self.through((*op.axes, flat), [(b, self.read(g, op.axes)) for b, o in pairs if (g := self._whole(o))], (flat,))

    def _running(self, axes: Sequence[Axis], along: Axis, monoid: Monoid, body: Sequence[Scalar]) -> tuple[Value, ...]:
        """A running combination over new axes of the extents of some."""
        shape = (*(a.extent for a in axes), along.extent)
        outs = tuple(Value(fresh("running"), element_of(b), shape) for b in body)
        self.ops.append(scan_apart(Scan(outs, (*axes, along), monoid, tuple(map(tidied, body)))))
        return outs

    # ── scans ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def scan(self, op: Scan) -> None:
        op = scan_apart(op)
        *outer, along = op.axes
        wholes = [self._whole(out) for out in op.outs]
        t, n = Dim.of(along.symbol), along.extent
        if op.monoid.kind == "sum":
            (body,), (whole,) = op.body, wholes
            assert whole is not None
            (sums,) = self._running(outer, along, op.monoid, _from_the_end([self.read(whole, op.axes)], along))
            self.through(op.axes, [(body, at(sums, (*outer, n - 1 - t)))])
            return
        monoid = as_function(op.monoid, element_of(op.body[0]))
        self.closed(monoid, op.span)
        elements = [element_of(b) for b in op.body]
        if len({*elements}) > 1:
            raise NoDerivative("a `scan` of values of several element types", op.span, "`cast` them to one before")
        m = range(len(elements))
        first, last = comparison("eq", t, Dim.of(0)), comparison("eq", t, n - 1)
        before = [Select(first, u, at(y, (*outer, t - 1))) for y, u in zip(op.outs, monoid.units, strict=True)]
        # From the other end: g[t] = b[t] + A[t] g[t + 1], where A[t] is the transpose of the slopes of y[t + 1] by y[t].
        slopes, next_ = self._slopes(monoid, before, op.body), {along.symbol: t + 1}
        matrix = [Select(last, number(0, elements[0]), substitute(slopes[j][k], next_)) for k in m for j in m]
        vector = [self.read(w, op.axes) if w is not None else number(0, elements[0]) for w in wholes]
        monoid_of_maps = affine(len(elements), elements[0])
        totals = self._running(outer, along, monoid_of_maps, _from_the_end([*matrix, *vector], along))[len(matrix) :]
        bodies = applied(monoid, before, op.body)
        self.through(op.axes, [(b, self.read(g, (*outer, n - 1 - t))) for b, g in zip(bodies, totals, strict=True)])

    def _slopes(self, monoid: Monoid, before: Sequence[Scalar], body: Sequence[Scalar]) -> list[list[Scalar]]:
        """How each result of a step of a scan moves with each result of the step before."""
        rows: list[list[Scalar]] = []
        for combine in monoid.combine:
            found = adjoints([(combine, number(1, combine))], Active(frozenset(), frozenset(monoid.left))).locals
            slopes = tuple(found.get(s, number(0, combine)) for s in monoid.left)
            rows.append(applied(replace(monoid, combine=slopes), before, body))
        return rows

    # ── sorts and loops ────────────────────────────────────────────────────────────────────────────────────────────────

    def sort(self, op: Sort) -> None:
        whole = self._whole(op.values)
        if whole is None:
            return
        places = Value(fresh("places"), Element.I32, op.indices.shape)
        back = Value(fresh("back"), Element.I32, op.indices.shape)
        self.ops.append(Sort(places, back, op.indices.symbol, op.span))
        axes = axes_of(whole)
        subscripts: tuple[Dim | Scalar, ...] = (*(Dim.of(a.symbol) for a in axes[:-1]), at(back, axes))
        given = self.compute(f"d_{op.input.name}", axes, Read(whole.symbol, subscripts, whole.element))
        self.parts.setdefault(op.input, []).append(given)

    def loop(self, op: Loop) -> None:
        trip = as_size(op.trip, self.scalars)
        if trip is None:
            what = "a `loop` with a number of steps that the data decide, in reverse mode"
            help_ = "bound it, `loop (…, k = 0) while k < n for _ < 100`, make `n` a dimension parameter, `{n}`, or use `jvp`"
            raise NoDerivative(what, op.span, help_)
        op = replace(op, trip=Index(trip))
        if op.conditional:
            op, trip = self._counted(op, trip)
        kept = op.outs if op.stacked else self._stacks(op.states, trip)
        moving = moving_states(op, self.active, self.stopped)
        outside = free(op, self.active)
        wholes = [self._whole(out) for out in op.outs]
        # The states of the loop that runs backwards: adjoints of the moving states, and of what the body reads from outside.
        counter = fresh("step")
        step = trip - 1 - Dim.of(counter)
        grads = {n: Value(fresh(f"d_{op.states[n].symbol.name}"), op.states[n].element, op.states[n].shape) for n in moving}
        renamed_states, before, ops, results = self._body(op, kept, step)
        parts: dict[Symbol, tuple[Value, Dim]] = {}  # of what each step reads at a place of its own
        for s in outside:
            place = place_in_step(ops, results, s, counter)
            if place is not None and not any(s in rule.mentions for rule in self.rules):
                part, made, ops = with_part(ops, self.active[s], place, self.known.index(counter, trip))
                parts[s], before = (part, place), (*before, made)
        stacked = bool(parts) and len(parts) == len(outside)
        whole = {s: parts[s][0] if stacked else self.active[s] for s in outside}
        sums = {s: Value(fresh(f"d_{s.name}"), value.element, value.shape) for s, value in whole.items()}
        of = {s: parts[s][0] if s in parts else self.active[s] for s in outside}
        shapes = layered({part.symbol: part.shape for part, _ in parts.values()}, self.shapes)
        by = [*(renamed_states[n] for n in moving), *of.values()]
        inner = Reverse(ops, by, self.known.index(counter, trip), shapes, self.stopped, self.rules)
        seeds: list[tuple[Symbol, Value]] = []
        for n, grad in grads.items():
            seed, given = grad, wholes[n]
            if op.stacked and given is not None:
                axes = axes_of(grad)
                seed = inner.compute("seed", axes, plus(at(grad, axes), self.read(given, (step, *axes))))
            seeds.append((results[n], seed))
        inner.run(seeds)
        after = [inner.adjoint(renamed_states[n]) for n in moving]
        if stacked:
            after += [inner.adjoint(part) for part, _ in parts.values()]
        else:
            after += [inner.step_of_sum(of[s], sums[s], parts[s][1] if s in parts else None) for s in outside]
        states = (*grads.values(), *sums.values())
        starts = []
        for n, grad in grads.items():
            given = None if op.stacked else wholes[n]
            starts.append(self.copy(given) if given is not None else self.constant(grad, 0.0))
        starts += [self.constant(total, 0.0) for total in sums.values()]
        outs = tuple(Value(fresh(v.symbol.name), v.element, (trip, *v.shape) if stacked else v.shape) for v in states)
        of_rules = frozenset[Symbol]().union(*(rule.inside | rule.mentions for rule in self.rules))
        more = [value for value in worth_keeping(op, self.shapes) if value.symbol not in of_rules]
        if op.stacked and not all(isinstance(each, Compute | Sort) for each in op.body.ops):
            more = []  # its states are kept as it is, and it would run once more: `cse` does not see such loops to be the same
        stacks = self._stacks(more, trip)
        called = _names(op.body.ops, ops)
        made_again = [*results, *(called[value.symbol] for value in more)]
        known, names = self._known_results(ops, made_again, (*kept, *stacks), step)
        again = (o for o in ops if not outs_of(o) or any(out.symbol not in names for out in outs_of(o)))  # the rest stopped nothing
        inside = in_place((*before, *known, *(with_tensors(o, names) for o in (*again, *inner.ops))))
        block = live(Block(inside, tuple(value.symbol for value in after)))
        asked = frozenset[Symbol]().union(*map(tensors_of, block.ops))
        self._keep(op, kept, {value: stack for value, stack in zip(more, stacks, strict=True) if stack.symbol in asked})
        self.ops.append(Loop(outs, tuple(v.symbol for v in starts), states, counter, op.trip, block, stacked, span=op.span))
        for n, out, start in zip(moving, outs, starts, strict=False):
            if op.initial[n] in self.active:
                self.parts.setdefault(op.initial[n], []).append(self._last(out, start, trip) if stacked else out)
        for s, out in zip(outside, outs[len(moving) :], strict=True):
            if stacked:
                self._of_steps(s, out, parts[s][1], counter)
            else:
                self.parts.setdefault(s, []).append(out)

    def step_of_sum(self, of: Value, total: Value, place: Dim | None) -> Value:
        """What a step makes of a sum over steps; at a place of the step it stands alone."""
        given, axes = self._whole(of), axes_of(total)
        before = at(total, axes)
        if place is None:
            return self.compute(total.symbol.name, axes, before if given is None else plus(before, self.read(given, axes)))
        here = comparison("eq", Dim.of(axes[0].symbol), place)
        mine = number(0, before) if given is None else self.read(given, axes[1:])
        return self.compute(total.symbol.name, axes, Select(here, mine, before))

    def _known_results(
        self, ops: Sequence[Op], results: Sequence[Symbol], kept: Sequence[Value], step: Dim
    ) -> tuple[list[Op], dict[Symbol, Symbol]]:
        """What a step makes is kept: its results need not be computed again."""
        made = {out.symbol: (op, out) for op in ops for out in outs_of(op)}
        known: list[Op] = []
        names: dict[Symbol, Symbol] = {}
        for result, stack in zip(results, kept, strict=True):
            symbol: Symbol | None = result
            if symbol in made and symbol not in names:
                copy = replace(made[symbol][1], symbol=fresh(symbol.name))
                axes = axes_of(copy)
                known.append(Compute((copy,), axes, None, (converted(self.read(stack, (step, *axes)), copy.element),)))
                while symbol in made and symbol not in names and made[symbol][1].shape == copy.shape:
                    names[symbol] = copy.symbol
                    symbol = copied(made[symbol][0])  # which is known then, too
        return known, names

    def _last(self, stack: Value, start: Value, trip: Dim) -> Value:
        """The state after the last of some steps, of which there may be none."""
        axes = axes_of(start)
        last = self.read(stack, (trip - 1, *axes))
        return self.compute(start.symbol.name, axes, Select(above_0(trip), last, self.read(start, axes)))

    def _of_steps(self, tensor: Symbol, stack: Value, place: Dim, counter: Symbol) -> None:
        """What each step gives at a place of its own."""
        axes = axes_of(stack)
        value, index = self.active[tensor], place.substitute({counter: Dim.of(axes[0].symbol)})
        read = Read(tensor, (index, *(Dim.of(a.symbol) for a in axes[1:])), value.element)
        self.give(axes, [Contribution(read, self.read(stack, axes))], (), None)

    def _counted(self, op: Loop, bound: Dim) -> tuple[Loop, Dim]:
        """A loop under a condition as one of just so many steps as it makes: they are counted, as a size of its own."""
        states, _, ops, results = self._body(op, None, None)
        count = Value(fresh("count"), Element.I32, ())
        start = self.compute("count", (), Const(0, Element.I32))
        more = Value(fresh("count"), Element.I32, ())
        ops = (*ops, Compute((more,), (), None, (plus(at(count, ()), Const(1, Element.I32)),)))
        counter = fresh(op.counter.name)
        outs = [Value(fresh(out.symbol.name), out.element, out.shape) for out in op.outs]
        steps = Value(fresh("steps"), Element.I32, ())
        made = Loop(
            outs=(*outs[:-1], steps, outs[-1]),
            initial=(*op.initial[:-1], start.symbol, op.initial[-1]),
            states=(*states[:-1], count, states[-1]),
            counter=counter,
            trip=op.trip,
            body=Block(with_counter(ops, op.counter, Dim.of(counter)), (*results[:-1], more.symbol, results[-1])),
            stacked=False,
            conditional=True,
            span=op.span,
        )
        axis, size = Axis(fresh("i"), bound), fresh("steps")
        self.ops.append(made)
        mask = self.compute("made", (axis,), Binary("lt", Index(Dim.of(axis.symbol)), at(steps, ())))
        self.ops.append(Compress(Value(fresh("step"), Element.I32, (Dim.of(size),)), size, mask.symbol, op.span))
        self.assume_at_most(size, bound)
        inner = Block(op.body.ops, op.body.results[:-1])
        straight = replace(op, trip=Index(Dim.of(size)), body=inner, conditional=False)
        return replace(straight, outs=op.outs[:-1], initial=op.initial[:-1], states=op.states[:-1]), Dim.of(size)

    def assume_at_most(self, size: Symbol, bound: Dim) -> None:
        self.counts.append((size, bound))
        self.known = self.known.assume(Relation(Dim.of(size), "<=", bound))

    def _stacks(self, values: Sequence[Value], trip: Dim) -> tuple[Value, ...]:
        """What each step makes, of all steps."""
        return tuple(Value(fresh(f"{v.symbol.name}s"), v.element, (trip, *v.shape)) for v in values)

    def _keep(self, op: Loop, kept: Sequence[Value], more: Mapping[Value, Value]) -> None:
        """The loop that keeps its states after each step, and of what a step makes `more`: in states that no step reads."""
        if op.stacked and not more:
            return
        if op.stacked:
            kept = self._stacks(op.states, kept[0].shape[0])
        made = {out for each in op.body.ops for out in outs_of(each)}
        wide = frozenset(value.symbol for value in more if value not in made)
        op = replace(op, body=replace(op.body, ops=tuple(in_f32(each, wide) for each in op.body.ops)))
        states, _, ops, results = self._body(op, None, None)
        called = _names(op.body.ops, ops)
        counter = fresh(op.counter.name)
        ops = with_counter(ops, op.counter, Dim.of(counter))
        zeros = (self.compute("none", axes_of(value), number(0, value.element)) for value in more)
        initial = (*op.initial, *(zero.symbol for zero in zeros))
        states = (*states, *(replace(value, symbol=fresh(value.symbol.name)) for value in more))
        body = Block(ops, (*results, *(called[value.symbol] for value in more)))
        outs = (*kept, *more.values())
        self.ops.append(Loop(outs, initial, states, counter, op.trip, body, stacked=True, span=op.span))

    def _body(
        self, op: Loop, kept: tuple[Value, ...] | None, step: Dim | None
    ) -> tuple[tuple[Value, ...], tuple[Op, ...], tuple[Op, ...], tuple[Symbol, ...]]:
        """The body once more under names of its own: states, with `kept` what makes them as they were before a step, operations,
        results."""
        states = tuple(Value(fresh(s.symbol.name), s.element, s.shape) for s in op.states)
        names = {old.symbol: new.symbol for old, new in zip(op.states, states, strict=True)}
        ops, names = self.again(op.body.ops, names)
        results = tuple(names.get(s, s) for s in op.body.results)
        if kept is None or step is None:
            return states, (), ops, results
        made: list[Op] = []
        for state, whole, initial in zip(states, kept, op.initial, strict=True):
            axes = axes_of(state)
            start = Read(initial, tuple(Dim.of(a.symbol) for a in axes), state.element)
            body = Select(comparison("eq", step, Dim.of(0)), start, self.read(whole, (step - 1, *axes)))
            made.append(Compute((state,), axes, None, (body,)))
        return states, tuple(made), with_counter(ops, op.counter, step), results


def _names(ops: Sequence[Op], again: Sequence[Op]) -> dict[Symbol, Symbol]:
    """What a copy of operations calls what they make."""
    old, new = ([out.symbol for op in each for out in outs_of(op)] for each in (ops, again))
    return dict(zip(old, new, strict=True))


def _mirrored(monoid: Monoid) -> Monoid:
    """The monoid that combines from the right: what it meets later stands before."""
    return replace(monoid, left=monoid.right, right=monoid.left)


def _from_the_end(body: Sequence[Scalar], along: Axis) -> list[Scalar]:
    mirrored = {along.symbol: along.extent - 1 - Dim.of(along.symbol)}
    return [substitute(b, mirrored) for b in body]
