"""What may have been meant where types do not fit, as changes to try: of operands, arguments, branches and indices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from axon.base.diagnostics import Edit, Suggestion
from axon.base.source import Span
from axon.explain import errors
from axon.explain.quote import operand
from axon.grammar import syntax as S
from axon.suggest import precedence
from axon.suggest.calls import swapped
from axon.types import typed as T
from axon.types.resolve import ValueName
from axon.types.show import Namer, show_element
from axon.types.trouble import Argument, BadSubscript, Choice, Meant, NotADimension, Operand, Operands, SubscriptCount
from axon.types.type import Function, RecordType, Row, Tensor, TupleType, Type
from axon.types.unify import State

_FLOATS = re.compile(r"\s*:\s*(f16|bf16|f32|f64)\b(\[[^\[\]]*\])?")  # the annotation of a name


def likely(meant: Meant, state: State) -> Iterator[Suggestion]:
    """What may have been meant, the likeliest first."""
    match meant:
        case Operand(e, operator):
            t = state.prune(e.type)
            if operator and isinstance(t, RecordType):
                yield errors.per_field(t)
            elif operator and isinstance(t, Function):  # it may be a function less something
                yield from precedence.negated_argument(e.span)
            else:
                yield from part_chosen(state, e)
        case Operands(left, right, operator_):
            yield from precedence.cast_of_sizes(left, right, operator_)
        case Argument():
            yield from _passed(state, meant)
        case Choice(span, condition, then, otherwise, indices):
            yield from precedence.per_element(span, (condition, then, otherwise), partial(_rank, state), indices)
        case _:
            assert_never(meant)


def _rank(state: State, e: T.Expr) -> int | None:
    """The rank of a tensor, if it is known."""
    t = state.prune(e.type)
    shape = state.shape(t.shape) if isinstance(t, Tensor) else None
    return None if shape is None or any(isinstance(i, Row) for i in shape) else len(shape)


def part_chosen(state: State, e: T.Expr) -> tuple[Suggestion, ...]:
    """What may have been meant by `t[i]` of a tuple, which is a tuple, where a tensor is needed."""
    t = state.prune(e.base.type) if isinstance(e, T.Access) else None
    if not isinstance(e, T.Access) or not isinstance(t, TupleType) or len(e.subscripts) != 1 or e.default is not None:
        return ()
    chosen = e.subscripts[0]
    brackets = Span(e.span.file, e.base.span.end, e.span.end)
    single = isinstance(chosen, T.At) and not chosen.sizes
    return tuple(errors.one_tensor(state, e.span, brackets, t.items)) if single else ()


# ── arguments ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Given:
    """A tensor that a call gives to a function whose parameters are known: in which argument, and for what name."""

    argument: int
    pattern: T.PatternName
    have: Tensor
    need: Tensor


def _passed(state: State, a: Argument) -> Iterator[Suggestion]:
    """Of an argument: spaces for commas, another order, a batch of one."""
    argument, last = a.arguments[a.at], a.at == len(a.arguments) - 1
    have, need = state.prune(argument.type), state.prune(a.param)
    if isinstance(argument, T.Tuple) and len(argument.items) > 1 and not isinstance(need, TupleType):
        text = " ".join(operand(i.span) for i in argument.items)
        around = Span(argument.span.file, a.function.span.end, argument.span.end)
        yield Suggestion(f"arguments are separated by spaces: `{a.name} {text}`", (Edit(around, f" {text}"),))
    more = len(state.shape(need.shape)) - len(have.shape) if isinstance(have, Tensor) and isinstance(need, Tensor) else 0
    if isinstance(have, Tensor) and more > 0:
        yield from precedence.accessed_result(a.function, a.arguments) if last else ()
        if more == 1 and (have.shape or not isinstance(argument, T.Access)):  # an element is no batch
            text = f"[| {argument.span.text} |]"
            yield Suggestion(f"make it a batch of one: `{text}`", (Edit(argument.span, text),))
    yield from _one_missing(state, a, have, need)
    given = list(_given(state, a))
    lower = [g for g in given if g.argument == a.at and len(state.shape(g.need.shape)) > len(g.have.shape)]
    yield from (s for g in lower for s in _as_stated(state, g))
    yield from swapped(a.function, a.arguments, a.at)
    whole = a.function.instance.rows.values() if isinstance(a.function, T.Variable) and a.function.instance is not None else ()
    if any(g.argument == a.at and g.need.shape in whole for g in given):  # any rank at all, and so that of what stands before
        yield from (s for g in given for s in _as_stated(state, g))
        help_ = f"without annotations `{a.name}` takes equal shapes: where a parameter has a rank, `(… : 'a[n])`, it broadcasts"
        yield Suggestion(help_)


def _one_missing(state: State, a: Argument, have: Type, need: Type) -> Iterator[Suggestion]:
    """`nn.layer_norm x`, where the record of weights comes first: an argument of another sort that fits in a later place."""
    t, params = state.prune(a.function.type), list[Type]()
    while isinstance(t, Function):
        params.append(state.prune(t.param))
        t = state.prune(t.result)
    later = params[len(a.arguments) :]
    if isinstance(have, Tensor) and isinstance(need, RecordType) and any(isinstance(p, Tensor) for p in later):
        fields = ", ".join(field for field, _ in need.fields)
        which = f"argument {a.at + 1}" if a.at else "the first"
        yield Suggestion(f"`{a.name}` takes {len(params)} arguments: {which} is a record of {fields}, which is missing here")


def _given(state: State, a: Argument) -> Iterator[_Given]:
    """The tensors that a call gives to a function, also as parts of tuples."""
    t = state.prune(a.function.type)
    for n, (argument, pattern) in enumerate(zip(a.arguments[: a.at + 1], a.patterns, strict=False)):
        if isinstance(t, Function):
            yield from _parts_given(state, n, pattern, argument.type, t.param)
            t = state.prune(t.result)


def _parts_given(state: State, n: int, pattern: T.Pattern, have: Type, need: Type) -> Iterator[_Given]:
    have, need = state.prune(have), state.prune(need)
    match pattern, have, need:
        case T.PatternName(), Tensor(), Tensor():
            yield _Given(n, pattern, have, need)
        case T.PatternTuple(items), TupleType(parts), TupleType(wanted):
            for item, part, want in zip(items, parts, wanted, strict=False):
                yield from _parts_given(state, n, item, part, want)


def _as_stated(state: State, given: _Given) -> Iterator[Suggestion]:
    """The annotation of a parameter that has none, or of a part of one, which lets a scalar broadcast: `(rate : f32)`."""
    name = given.pattern.span
    if given.have.shape or name.text != given.pattern.symbol.name or name.followed(":"):
        return
    text = f"{name.text} : {show_element(Namer(state), state.element(given.need.element))}"
    text = text if name.followed(",") or name.file.text[: name.start].rstrip().endswith(",") else f"({text})"
    yield Suggestion(f"annotate the parameter, and it broadcasts: `{text}`", (Edit(name, text),))


# ── indices and dimensions ──────────────────────────────────────────────────────────────────────────────────────────────


def indexed_too(wrong: SubscriptCount) -> Iterator[Suggestion]:
    """`q[i, j]` for `q[i]` under indices `i` and `j`, where all that the access does not use are as many as it lacks."""
    e, rank = wrong.access, len(wrong.shape)
    used = set(re.findall(r"\w+", e.span.text))
    unused = [symbol.name for symbol, _ in wrong.context.indices if symbol.name not in used]
    if 0 < len(unused) == rank - len(e.subscripts) < rank and e.span.text.endswith("]"):
        end = Span(e.span.file, e.span.end - 1, e.span.end - 1)
        more = f", {', '.join(unused)}"
        yield Suggestion(f"index it by `{'`, `'.join(unused)}` too: `{e.span.text[:-1]}{more}]`", (Edit(end, more),))


def of_integers(wrong: BadSubscript) -> Iterator[Suggestion]:
    """The annotation of a parameter that is an index, or has them, with integers for floats."""
    at = wrong.entity.span if isinstance(wrong.entity, ValueName) else None
    written = _FLOATS.match(at.file.text, at.end) if at is not None else None
    if at is not None and written is not None:
        element = Span(at.file, written.start(1), written.end(1))
        yield Suggestion(f"make it `{at.text} : i32{written[2] or ''}`", (Edit(element, "i32"),))


def as_parameter(wrong: NotADimension) -> tuple[Suggestion, ...]:
    """A parameter of the function around made a dimension parameter of it."""
    d, entity, name = wrong.heading, wrong.entity, wrong.what.strip("`")
    if d is None or not isinstance(entity, ValueName):
        return ()
    file, at = d.span.file, entity.span
    around = next((p.span for p in d.params if p.span.start <= at.start and at.end <= p.span.end), None)
    if around is None:
        return ()
    before = re.search(r"\s*\(?\s*$", file.text[: around.start])
    start = before.start() if before is not None else around.start
    opened = "(" in file.text[start : around.start]
    after = re.match(r"\s*\)", file.text[around.end :]) if opened else None
    gone = Edit(Span(file, start, around.end + (after.end() if after is not None else 0)), "")
    first = d.params[0]
    if isinstance(first, S.DimParams):
        put = Edit(Span(file, first.span.end - 1, first.span.end - 1), f", {name}")
    else:
        put = Edit(Span(file, d.name.span.end, d.name.span.end), f" {{{name}}}")
    if start == d.name.span.end and not isinstance(first, S.DimParams):
        return (Suggestion(f"make it a dimension parameter: `fun {d.name.text} {{{name}}} …`", (replace(gone, text=put.text),)),)
    return (Suggestion(f"make it a dimension parameter: `fun {d.name.text} {{{name}}} …`", (put, gone)),)
