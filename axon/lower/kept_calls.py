"""Calls of functions by their form: what one call has put into a block is put there again for others, under other names.

A long program calls the same functions again and again, a layer by layer. Where a function declared at the top of a module is
applied to stored tensors and numbers, outside of all comprehensions, what it does depends on them by their shapes, element types
and ages alone, and on what the builder knows. So the operations that it made are kept under these, and are given to the next such
call (`core.gradients.forms`). What does more than add operations is not kept: checks, sizes that the data decide, derivatives,
which are called after what they are taken by.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import islice

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.gradients.forms import Form, Renaming, by_age, defined, places
from axon.core.ir import Const, Index, Op
from axon.core.ir import Value as CoreValue
from axon.lower.builder import Context, CoreBuilder
from axon.lower.call_count import MAX_CALLS
from axon.lower.tensors import leaves, rebuild
from axon.lower.value import Closure, Env, RecordValue, TensorValue, TupleValue, Value
from axon.shapes.dimension import Dim

_MOST_KEPT = 100  # operations of a call: in a longer one are others, which are kept, and to look through it for each takes long


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """What a call made: operations, and the shapes that are known of tensors since; and how often it called others, and how often
    it read what only guards make right."""

    form: Form
    ops: tuple[Op, ...]
    defined: tuple[Symbol, ...]  # by the operations, the older first
    variables: tuple[Symbol, ...]  # of these, those that stand in Dims
    shapes: tuple[tuple[Symbol, tuple[Dim, ...]], ...]
    stopped: tuple[Symbol, ...]  # through which no derivative goes
    result: Value
    calls: int
    risk: int
    here: Span | None

    def again(self, form: Form, b: CoreBuilder) -> Value | None:
        """The same for another call of this form; None where numbers of one place stand at several now, or there are too many."""
        spans = places(self.form, form)
        if spans is None or b.calls + self.calls > MAX_CALLS:
            return None
        names = dict(zip(self.form.numbers, form.numbers, strict=True)) | {old: fresh(old.name) for old in self.defined}
        renaming = Renaming(names, self.variables, spans)
        b.ops += map(renaming.op, self.ops)
        b.shapes |= {names.get(symbol, symbol): tuple(map(renaming.dim, shape)) for symbol, shape in self.shapes}
        b.stopped.update([names[symbol] for symbol in self.stopped])
        b.calls, b.risk, b.here = b.calls + self.calls, b.risk + self.risk, self.here
        return rebuild(self.result, [_renamed(leaf, names, spans, b) for leaf in leaves(self.result)])


class Call:
    """A call that is about to be made."""

    def __init__(self, b: CoreBuilder, key: Hashable, form: Form) -> None:
        self.b, self.key, self.form = b, key, form
        self.kept = b.known.found("calls")

    def again(self) -> Value | None:
        """What it gives, if another one of its form was kept."""
        found: _Call | None = self.kept.get(self.key)
        result = None if found is None else found.again(self.form, self.b)
        if result is None:  # it is made now
            b = self.b
            self.state, self.begin, self.shapes, self.stopped = _state(b), len(b.ops), len(b.shapes), len(b.stopped)
            self.calls, self.risk, self.mark = b.calls, b.risk, fresh("").id
        return result

    def keep(self, result: Value) -> None:
        """It was made, and gave this."""
        b, made = self.b, Form()
        if _state(b) != self.state or not _is_stored(result):
            return
        ops = tuple(b.ops[self.begin :])
        if len(ops) > _MOST_KEPT or not all(map(made.op, ops)):
            return
        if any(symbol.id > self.mark and symbol not in made.own for symbol in made.numbers):
            return
        stopped = tuple(made.own & b.stopped)
        if len(stopped) != len(b.stopped) - self.stopped:
            return
        shapes = tuple(islice(reversed(b.shapes.items()), len(b.shapes) - self.shapes))[::-1]
        variables = tuple(made.sizes & made.own)
        more = b.calls - self.calls, b.risk - self.risk
        self.kept.keep(self.key, _Call(self.form, ops, by_age(defined(ops)), variables, shapes, stopped, result, *more, b.here))


def about(b: CoreBuilder, f: Closure, values: Sequence[Value], c: Context, risky: bool) -> Call | None:
    """A function is about to be applied to these; `risky` as `apply` has it. None of what depends on more than its form."""
    if c.axes or c.guards or not _stands_alone(f.env) or b.known.found("calls").idle:
        return None
    form = Form()
    parts = [_function(f, b), *[_argument(value, b, form) for value in values]]
    if None in parts:
        return None
    return Call(b, (b, tuple(parts), risky, b.here, b.extents.changes, form.ages), form)


def _state(b: CoreBuilder) -> tuple[object, ...]:
    """What no call changes whose operations are kept."""
    return b.known, b.extents.changes, len(b.rules), b.derivatives


def _stands_alone(env: Env) -> bool:
    return not (env.values or env.dims or env.runs)


def _function(f: Closure, b: CoreBuilder) -> Hashable | None:
    """A function declared at the top of a module, by the numbers that the builder has for what it is; None of others."""
    if f.given or not _stands_alone(f.env):
        return None
    frame = f.env.frame
    numbers = [b.functions.setdefault(part, len(b.functions)) for part in (f.body, frame.state)]
    return *numbers, tuple(frame.elements.items()), tuple(frame.rows.items()), tuple(frame.dims.items())


def _argument(value: Value, b: CoreBuilder, form: Form) -> Hashable | None:
    """What a function is given, with numbers for tensors; None of what computes something, and of what only guards make right."""
    match value:
        case TensorValue(lazy=False, guarded=False):
            form.spans.append(value.span)
            if value.symbol is not None:
                return form.symbol(value.symbol), value.element._value_, value.shape, b.shapes.get(value.symbol)
            if not value.shape and isinstance(scalar := value.at(()), Const | Index):
                return scalar
            return None
        case TupleValue(items):
            parts = tuple([_argument(item, b, form) for item in items])
            return None if None in parts else parts
        case RecordValue(fields):
            parts = tuple([_argument(field, b, form) for field in fields.values()])
            return None if None in parts else (tuple(fields), parts)
        case Closure():
            return _function(value, b)
        case _:
            return None


def _is_stored(value: Value) -> bool:
    match value:
        case TensorValue():
            return value.symbol is not None and not value.lazy and not value.guarded
        case TupleValue(items):
            return all(map(_is_stored, items))
        case RecordValue(fields):
            return all(map(_is_stored, fields.values()))
        case _:
            return False


def _renamed(
    leaf: TensorValue, names: Mapping[Symbol, Symbol], spans: Mapping[Span | None, Span | None], b: CoreBuilder
) -> TensorValue:
    assert leaf.symbol is not None
    symbol = names.get(leaf.symbol, leaf.symbol)
    view = b.view(CoreValue(symbol, leaf.element, b.shapes[symbol]))
    return replace(view, shape=leaf.shape, span=spans.get(leaf.span, leaf.span))
