"""Lowering of `grad` and its like: a function is applied, and what it has become is differentiated.

What derivatives are taken by is stored over all axes of the context first, so that each index of a comprehension around has a
derivative of its own: `for i => grad (fn w => loss w x[i]) w` gives one for each `i`, although `w` is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.errors import AxonError
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.gradients.forward import Forward
from axon.core.gradients.making import Maker
from axon.core.gradients.operations import NoDerivative, UserRule
from axon.core.gradients.reverse import Reverse
from axon.core.ir import Axis, Compute, Op
from axon.core.ir import Value as CoreValue
from axon.core.operands import with_tensors
from axon.core.passes.dissolve import copied
from axon.core.walk import outs_of
from axon.lower.builder import Context
from axon.lower.loops import Loops
from axon.lower.tensors import leaves, ordered, rebuild
from axon.lower.value import TensorValue, TupleValue, Value
from axon.shapes.dimension import Dim

ARITY = {"grad": 2, "value_and_grad": 2, "vjp": 3, "jvp": 3, "stop_gradient": 1, "with_vjp": 3}


@dataclass(frozen=True, slots=True, eq=False)
class _Applied:
    """A function of tensors that stand over all axes of a context: these, its results, and the operations between them."""

    by: list[CoreValue]
    structure: Value  # of the results
    results: list[CoreValue]
    made: int  # where its operations begin


class Derivatives(Loops):
    def derive(self, name: str, values: Sequence[Value], c: Context, span: Span) -> Value:
        """One of `ARITY`, applied to all its arguments. Raises AxonError where there is no derivative."""
        before = self.b.risk
        self.b.derivatives += name != "stop_gradient"
        try:
            found = self._derive(name, values, c, span)
        except NoDerivative as e:
            labels = [Label(e.span or span, "this has none")]
            if e.span is not None and e.span != span:
                labels.append(Label(span, "asked for here"))
            said = Diagnostic("AX0220", f"there is no derivative of {e.what}", tuple(labels), suggestions=(Suggestion(e.help),))
            raise AxonError((said,)) from None
        if self.b.risk > before:
            return rebuild(found, [replace(leaf, guarded=True) for leaf in leaves(found)])
        return found

    def _derive(self, name: str, values: Sequence[Value], c: Context, span: Span) -> Value:
        match name, values:
            case "stop_gradient", (x,):
                return rebuild(x, [self._stopped(leaf, c) for leaf in leaves(x)])
            case "with_vjp", (f, rule, x):
                return self._by_rule(f, rule, x, c, span)
            case "grad" | "value_and_grad", (f, x):
                begin, applied = len(self.b.ops), self._applied(f, x, c, span)
                y, gradient = self._settled(begin, applied, self._backwards(applied, None), x, c)
                return gradient if name == "grad" else TupleValue((y, gradient))
            case "vjp", (f, x, dy):
                begin, applied = len(self.b.ops), self._applied(f, x, c, span)
                seeds = [self.b.stored_over(v, c, c.axes, "seed") for v in leaves(ordered(dy, applied.structure))]
                return TupleValue(self._settled(begin, applied, self._backwards(applied, seeds), x, c))
            case "jvp", (f, x, dx):
                begin = len(self.b.ops)
                tangents = [self.b.stored_over(v, c, c.axes, "tangent") for v in leaves(ordered(dx, x))]
                applied = self._applied(f, x, c, span)
                forward = Forward(self._taken(applied), applied.by, self.b.known, self.b.shapes, *self._marked())
                forward.run({value.symbol: moved for value, moved in zip(applied.by, tangents, strict=True)})
                moved = [forward.of(value) for value in applied.results]
                self.b.ops += forward.ops
                self._mark(forward)
                return TupleValue(self._settled(begin, applied, moved, applied.structure, c))
        raise AssertionError(name)

    def _applied(self, f: Value, x: Value, c: Context, span: Span, over: Sequence[Axis] | None = None) -> _Applied:
        over = c.axes if over is None else over
        by = [self.b.stored_over(leaf, c, over, leaf.symbol.name if leaf.symbol else "x") for leaf in leaves(x)]
        made = len(self.b.ops)
        y = self.apply(f, [self._views(x, by, over)], c, span)
        results = [self.b.stored_over(leaf, c, over, "y") for leaf in leaves(y)]
        return _Applied(by, y, results, made)

    def _marked(self) -> tuple[frozenset[Symbol], tuple[UserRule, ...]]:
        """Through what no derivative goes, and what has one of the program's own."""
        return frozenset(self.b.stopped), tuple(self.b.rules)

    def _mark(self, made: Maker) -> None:
        """Derivatives are marked, too: they may be differentiated again."""
        self.b.stopped |= made.stopped
        self.b.rules[:] = made.rules

    def _taken(self, applied: _Applied) -> list[Op]:
        """The operations of the function, which others replace."""
        ops = self.b.ops[applied.made :]
        del self.b.ops[applied.made :]
        return ops

    def _backwards(self, applied: _Applied, seeds: Sequence[CoreValue] | None) -> list[CoreValue]:
        """The adjoints of what derivatives are taken by, from those of the results; without any, these are 1."""
        ops = self.b.ops[applied.made :]
        reverse = Reverse(ops, applied.by, self.b.known, self.b.shapes, *self._marked())
        seeds = [reverse.constant(y, 1.0) for y in applied.results] if seeds is None else seeds
        reverse.run([(y.symbol, seed) for y, seed in zip(applied.results, seeds, strict=True)])
        found = [reverse.adjoint(value) for value in applied.by]
        self.b.ops += reverse.ops
        self._mark(reverse)
        return found

    def _settled(self, begin: int, applied: _Applied, found: Sequence[CoreValue], like: Value, c: Context) -> tuple[Value, Value]:
        """What the function gives, and what was found in the structure of another value, once operations that only copy are gone:
        they kept what derivatives are taken by apart from the same tensor where a function captures it."""
        kept = self.b.stopped.union(*(rule.mentions for rule in self.b.rules))
        names = self._without_copies(begin, lambda symbol: symbol not in kept)
        y, other = ([replace(v, symbol=names.get(v.symbol, v.symbol)) for v in values] for values in (applied.results, found))
        return self._views(applied.structure, y, c.axes), self._views(like, other, c.axes)

    def _without_copies(self, begin: int, may: Callable[[Symbol], bool]) -> dict[Symbol, Symbol]:
        """Leave out operations from a place on that only copy, where their results may go; gives what these are from now on."""
        shapes, names, ops = dict(self.b.shapes), dict[Symbol, Symbol](), []
        for op in self.b.ops[begin:]:
            op = with_tensors(op, names)
            outs = outs_of(op)
            source = copied(op) if outs and may(outs[0].symbol) else None
            if source is not None and shapes.get(source) == outs[0].shape:
                names[outs[0].symbol] = source
            else:
                ops.append(op)
                for out in outs:
                    shapes[out.symbol] = out.shape
        self.b.ops[begin:] = ops
        return names

    def forget_stopped(self, results: Sequence[Symbol]) -> None:
        """Leave out the copies of `stop_gradient`, once no derivative is taken any more."""
        if not self.b.stopped:
            return
        self._without_copies(0, lambda symbol: symbol in self.b.stopped and symbol not in results)

    def _views(self, like: Value, stored: Sequence[CoreValue], over: Sequence[Axis]) -> Value:
        """Stored tensors as the leaves of a value, at the indices over which they are."""
        prefix = tuple(Dim.of(a.symbol) for a in over)
        return rebuild(like, [self.b.view(value, prefix) for value in stored])

    def _by_rule(self, f: Value, rule: Value, x: Value, c: Context, span: Span) -> Value:
        """What `f x` gives, with the operations of `rule x dy` beside it for whoever takes a derivative. It is made once for all
        indices that it does not depend on, as it would be without a rule."""
        return self.b.widened(lambda over: self._by_rule_over(f, rule, x, c, span, over), (), c)

    def _by_rule_over(self, f: Value, rule: Value, x: Value, c: Context, span: Span, over: Sequence[Axis]) -> Value:
        applied = self._applied(f, x, c, span, over)
        inside = frozenset(out.symbol for op in self.b.ops[applied.made :] for out in outs_of(op))
        seeds = [CoreValue(fresh("seed"), y.element, y.shape) for y in applied.results]
        ops, self.b.ops = self.b.ops, []
        given = self.apply(rule, [self._views(x, applied.by, over), self._views(applied.structure, seeds, over)], c, span)
        adjoints = [self.b.stored_over(leaf, c, over, "adjoint") for leaf in leaves(ordered(given, x))]
        made, self.b.ops = tuple(self.b.ops), ops
        self.b.rules.append(UserRule(tuple(applied.by), tuple(applied.results), inside, tuple(seeds), made, tuple(adjoints), span))
        return self._views(applied.structure, applied.results, over)

    def _stopped(self, leaf: TensorValue, c: Context) -> TensorValue:
        stored = self.b.store(replace(leaf, symbol=None, lazy=True), c, "constant")
        op = self.b.ops[-1]
        assert isinstance(op, Compute)
        self.b.stopped.add(op.outs[0].symbol)
        return stored
