"""What may have been meant where types do not fit: of operands, arguments, branches, indices and names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import assert_never

from axon.base.data import dataclass, replace
from axon.base.diagnostics import Change, Suggestion
from axon.base.element import FLOAT
from axon.base.source import Span
from axon.explain import errors
from axon.explain.parameter import parameter as parameter_named
from axon.explain.parameter import taken_from
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, call, made, name, quoted, quoted_type, tree
from axon.shapes.dimension import Dim
from axon.suggest.bounds import parameter
from axon.suggest.calls import swapped
from axon.suggest.mutations import (
    applied,
    expr,
    free_letters,
    indexed,
    is_name,
    node,
    nodes_of,
    outside,
    permuted,
    propose,
    proposing,
    swap,
    text_of,
)  # fmt: skip
from axon.types import typed as T
from axon.types.resolve import ValueName
from axon.types.show import Namer, show_dim, show_element, show_type, symbols_of
from axon.types.trouble import (
    Argument,
    BadSubscript,
    Choice,
    KnownByProduct,
    MatmulRank,
    Meant,
    NotADimension,
    Operand,
    Operands,
    PartByIndex,
    ScalarUnit,
    SubscriptCount,
    TakenApart,
    UnknownRecord,
)
from axon.types.type import Function, RecordType, Row, Tensor, TupleType, Type, parameters
from axon.types.unify import State

_MAX_RANK = 4


def likely(meant: Meant, state: State) -> Iterator[Suggestion]:
    """What may have been meant, the likeliest first."""
    match meant:
        case Operand(e, operator):
            t = state.prune(e.type)
            if operator and isinstance(t, RecordType):
                yield errors.per_field(t)
            elif operator and isinstance(t, Function):  # it may be a function less something
                yield from _negated_argument(e.span)
                yield from _lacking_arguments(e.span, len(parameters(t)))
            else:
                yield from part_chosen(state, e)
        case Operands(left, right):
            yield from _cast_of_sizes(left, right)
        case Argument():
            yield from _passed(state, meant)
        case Choice(span, condition, then, otherwise, indices):
            yield from _per_element(span, (condition, then, otherwise), partial(_rank, state), indices)
        case TakenApart(pattern, value):
            yield from _by_fields(state, pattern, value)
        case ScalarUnit(reduction, body):
            yield from _unit_of_a_tensor(state, reduction, body)
        case _:
            assert_never(meant)


@proposing
def _by_fields(state: State, pattern: S.PatternTuple, value: Type) -> Iterator[Suggestion]:
    """`{ w = a, b = c }` for the pattern `(a, c)` of a record with as many fields, in their order."""
    t = state.prune(value)
    if isinstance(t, RecordType) and len(t.fields) == len(pattern.items):
        fields = tuple((name(n), item) for (n, _), item in zip(t.fields, pattern.items, strict=True))
        new = S.PatternRecord(fields, span=NEW)
        yield propose(f"take it apart by its fields: `{text_of(new, pattern.span)}`", None, (pattern, new))


def _unit_of_a_tensor(state: State, e: S.Reduce, body: Tensor) -> Iterator[Suggestion]:
    """`(op +, for _ < m => 0)` for `(op +, 0)` of rows, or a reduction for each of the other indices."""
    shape, namer = state.shape(body.shape), Namer(state)
    sizes = [show_dim(namer, i) for i in shape if isinstance(i, Dim)]
    if isinstance(e.monoid, S.Tuple) and 0 < len(sizes) == len(shape):
        head = f"for {', '.join(f'_ < {size}' for size in sizes)}"
        yield from _unit_for_each(e.monoid, head)
        yield from _of_numbers(e, len(sizes)) if e.kind.text == "reduce" else ()
        yield Suggestion(f"the unit has the shape of the body: `{head} => …`, with names of its sizes from an annotation")


@proposing
def _unit_for_each(monoid: S.Tuple, head: str) -> Iterator[Suggestion]:
    whole = node(monoid.span, S.Tuple)
    new = quoted(f"{head} => unit", unit=whole.items[1])
    yield propose("the unit has the shape of the body:", whole, (whole.items[1], new))


@proposing
def _of_numbers(e: S.Reduce, rank: int) -> Iterator[Suggestion]:
    """`for j => reduce (op +, 0) i => x[i, j]` for `reduce (op +, 0) i => x[i, ..]`."""
    whole = node(e.span, S.Reduce)
    letters = free_letters(e.span, rank)
    access = whole.body if isinstance(whole.body, S.Access) else None
    kept = [s for s in access.subscripts if isinstance(s, S.IndexSlice | S.IndexRest)] if access is not None else []
    plain = all(s == S.IndexSlice(None, None, None, span=NEW) for s in kept) or len(kept) == 1
    if access is not None and letters and kept and plain and not (isinstance(kept[0], S.IndexSlice) and len(kept) != rank):
        named = indexed(access.base, letters).subscripts
        subscripts: list[S.Subscript] = []
        for s in access.subscripts:
            subscripts += (s,) if s not in kept else named if isinstance(s, S.IndexRest) else (named[kept.index(s)],)
        one = made(whole, body=made(access, subscripts=tuple(subscripts)))
        new = quoted(f"for {' '.join(letters)} => e", e=one)
        yield propose("reduce numbers:", new, (whole, new))


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
    return tuple(_one_tensor(state, e.span, t.items)) if isinstance(chosen, T.At) and not chosen.sizes else ()


@proposing
def fields_stated(state: State, wrong: UnknownRecord) -> Iterator[Suggestion]:
    """The type of a parameter of which fields are taken, where enough is known of them."""
    owner, record = taken_from(wrong.span), errors.record_of(state, wrong.members)
    if all(isinstance(n, str) for n in wrong.members) and "…" not in record:
        for place in parameter_named(owner, wrong.span):
            own = node(place, S.PatternName)
            new = S.PatternTyped(own, quoted_type(record), span=NEW)
            yield propose(errors.annotate_fields(owner, record), None, (own, new))


def by_position(state: State, wrong: PartByIndex) -> Iterator[Suggestion]:
    """`t.1` for `t[0]` of a tuple; of another index, one tensor of its parts."""
    match wrong.access.subscripts:
        case (S.IndexAt(value=S.Int(value=n)),):
            yield from _part(wrong.access.span, n + 1) if n < len(wrong.items) else ()
        case _:
            yield from _one_tensor(state, wrong.access.span, wrong.items)


@proposing
def _part(access: Span, position: int) -> Iterator[Suggestion]:
    whole = node(access, S.Access)
    yield propose("", None, (whole, S.Project(whole.base, position, span=NEW)), grown=True)  # the note has said it


@proposing
def _one_tensor(state: State, access: Span, items: Sequence[Type]) -> Iterator[Suggestion]:
    """`[| t.1, t.2 |][i, ..]` for `t[i]` of a tuple, which indexes each of its parts."""
    whole = node(access, S.Access)
    parts = [t for t in map(state.prune, items) if isinstance(t, Tensor)]
    ranks = {len(state.shape(t.shape)) for t in parts}
    if len(parts) == len(items) and len(ranks) == 1 and is_name(whole.base):
        one = S.Array(tuple(S.Project(whole.base, n, span=NEW) for n in range(1, len(items) + 1)), span=NEW)
        new = made(whole, base=one, subscripts=(*whole.subscripts, *(S.IndexRest(span=NEW),) * (ranks != {0})))
        words = "brackets index each part of a tuple; to choose a part by an index, make one tensor of them:"
        found = propose(words, new, (whole, new), asks=True)
        yield from (found, Suggestion(found.text))


# ── precedence ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@proposing
def _cast_of_sizes(left: T.Expr, right: T.Expr) -> Iterator[Suggestion]:
    """`x / cast f32 (h * w)` for `x / cast f32 h * w`, where `cast` takes `h` alone."""
    whole = outside(expr(right))
    last = expr(left)
    while isinstance(last, S.Binary):
        last = last.right
    sizes = isinstance(left, T.Cast | T.Binary) and isinstance(right, T.Dimension)
    if not sizes or not isinstance(whole, S.Binary) or not isinstance(last, S.Cast) or last.value is None:
        return
    wholes = [whole]  # and those around it by further sizes
    while isinstance(outer := outside(wholes[-1]), S.Binary) and isinstance(outer.right, S.Var | S.Int):
        wholes.append(outer)
    for top in dict.fromkeys((len(wholes), 1)):
        value: S.Expr = last.value
        for each in wholes[:top]:
            value = made(each, left=value)
        cast = made(last, value=value)
        words = f"`cast` takes one operand: write `{text_of(cast, right.span)}`"
        changed = applied(whole.left, (last, cast))
        yield propose(words, None, (wholes[top - 1], changed), change=Change.PARENTHESES, grown=True)


@proposing
def _negated_argument(function: Span) -> Iterator[Suggestion]:
    """`exp (-x)` for `exp -x`, which subtracts `x` from `exp`."""
    inner = called = expr(function)
    while isinstance(whole := outside(inner), S.Binary) and whole.right is inner:
        inner = whole
    if not isinstance(whole, S.Binary) or whole.op != "-" or not is_name(called):
        return
    first = whole.right
    while isinstance(first, S.Binary):
        first = first.left
    if isinstance(first, S.Apply) and tree(function.file).enclosed(first) == first.span:  # `exp -x y`
        return
    new = call(called, quoted("-e", e=first))
    words = f"to apply, write `{text_of(new, function)}`"
    left = applied(inner, (called, new))
    changed = left if first is whole.right else applied(whole.right, (first, left))
    yield propose(words, None, (whole, changed), change=Change.PARENTHESES, grown=True)
    yield Suggestion(words)  # also beside other errors


@proposing
def _lacking_arguments(application: Span, count: int) -> Iterator[Suggestion]:
    """Of `f a` where a tensor is needed: `f` takes more."""
    head: S.Expr = expr(application)
    if isinstance(head, S.Apply):
        while isinstance(head, S.Apply):
            head = head.function
        lacking = "the argument that it lacks" if count == 1 else f"the {count} arguments that it lacks"
        yield Suggestion(f"give `{text_of(head, application)}` {lacking}: `{application.excerpt}{' …' * count}`")


def misread(at: Span) -> S.Access | None:
    """The access that stands at a place, or whose base is what the operator there makes: `(a @ b)[0]`."""
    around = tree(at.file).enclosing(at)
    inner, whole = (*reversed(around), None, None)[:2]
    if isinstance(inner, S.Binary) and inner.op_span == at:
        return whole if isinstance(whole, S.Access) and whole.base is inner else None
    return inner if isinstance(inner, S.Access) and inner.span == at else None


@proposing
def read_otherwise(access: S.Access, rank: int) -> Iterator[Suggestion]:
    """The result of a call for its argument, or all of the dimensions that are not indexed, of so many; 0: of the
    argument of a call, nobody knows."""
    yield from _accessed_result(access.span)
    whole = node(access.span, S.Access)
    lacking = rank - len(whole.subscripts)
    if lacking > 0:  # not `..`, which would let an operator's operands have any rank
        new = made(whole, subscripts=(*whole.subscripts, *(S.IndexSlice(None, None, None, span=NEW),) * lacking))
        yield propose("to keep the other dimensions, write", new, (whole, new), grown=True)
    elif isinstance(outside(whole), S.Apply) and not any(isinstance(s, S.IndexRest | S.IndexRun) for s in whole.subscripts):
        yield from (s for s in rest_kept(access.span) if s.edits)


@proposing
def _accessed_result(argument: T.Expr | Span) -> Iterator[Suggestion]:
    """`(softmax x)[i, j]` for `softmax x[i, j]`, where the access is to the argument."""
    access = node(argument, S.Access)
    whole = outside(access)
    if isinstance(whole, S.Apply) and whole.argument is access:
        new = made(access, base=made(whole, argument=access.base))
        yield propose("to index the result, write", new, (whole, new), change=Change.PARENTHESES, grown=True)


@proposing
def _per_element(
    whole: Span, parts: tuple[T.Expr, T.Expr, T.Expr], rank_of: partial[int | None], around: Sequence[str]
) -> Iterator[Suggestion]:
    """`for i => if mask[i] then x[i] else 0.0` for `if mask then x else 0.0`, of parts of one rank, or scalars. Where the condition
    alone is no scalar, the indices `around` may be meant.
    """
    ranks = [rank_of(part) for part in parts]
    known = [r for r in ranks if r is not None]
    rank = max(known, default=0)
    if rank not in range(1, _MAX_RANK + 1) or any(r not in (0, rank) for r in known):
        return
    single = ranks[1:] == [0, 0] and len(around) >= rank
    if letters := tuple(around[-rank:]) if single else free_letters(whole, rank):
        condition, then, otherwise = (_at_element(part, rank, letters, rank_of) for part in parts)
        head = "" if single else f"for {' '.join(letters)} => "
        new = quoted(f"{head}if c then t else o", c=condition, t=then, o=otherwise)
        found = propose("choose per element:", new, (node(whole, S.If), new))
        yield found
        yield from (Suggestion(found.text),) if len(known) == len(ranks) else ()


def _at_element(e: T.Expr, rank: int, letters: Sequence[str], rank_of: partial[int | None]) -> S.Expr:
    """One element of an expression: `x[i] > 0.0` of `x > 0.0`, or of what is not computed of names alone, `(f x)[i]`."""
    read: list[T.Expr] = []

    def within(part: T.Expr) -> bool:
        match part:
            case _ if rank_of(part) == 0:
                return True
            case T.Variable() if rank_of(part) == rank:
                read.append(part)
                return True
            case T.Unary(operand=inner):
                return within(inner)
            case T.Binary(left=left, right=right):
                return within(left) and within(right)
        return False

    own = expr(e)
    return applied(own, *((expr(v), indexed(expr(v), letters)) for v in read)) if within(e) else indexed(own, letters)


# ── arguments ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Given:
    """A tensor that a call gives to a function whose parameters are known: in which argument, and for what name."""

    argument: int
    pattern: T.PatternName
    have: Tensor
    need: Tensor


@proposing
def _passed(state: State, a: Argument) -> Iterator[Suggestion]:
    """Of an argument: spaces for commas, another order, a batch of one."""
    argument, last = a.arguments[a.at], a.at == len(a.arguments) - 1
    have, need, written = state.prune(argument.type), state.prune(a.param), expr(argument)
    whole = outside(written)
    if isinstance(written, S.Tuple) and len(written.items) > 1 and not isinstance(need, TupleType) and isinstance(whole, S.Apply):
        new = call(whole.function, *written.items)
        yield propose("arguments are separated by spaces:", new, (whole, new), grown=True)
    more = len(state.shape(need.shape)) - len(have.shape) if isinstance(have, Tensor) and isinstance(need, Tensor) else 0
    if isinstance(have, Tensor) and more > 0:
        yield from _accessed_result(argument) if last and isinstance(argument, T.Access) and is_name(expr(a.function)) else ()
        if more == 1 and (have.shape or not isinstance(argument, T.Access)):  # an element is no batch
            batch = S.Array((written,), span=NEW)
            yield propose("make it a batch of one:", batch, (written, batch))
        if more == len(have.shape) == 1 and (letter := free_letters(written.span, 1)):
            column = quoted(f"for {letter[0]}, _ < 1 => e", e=indexed(written, letter))
            yield propose("make it a column:", column, (written, column))
    yield from _one_missing(state, a, have, need)
    if isinstance(have, Function) and isinstance(need, Function):
        yield from _numbers_inside(a)
    if isinstance(have, Tensor) and isinstance(need, Tensor) and not state.shape(need.shape):
        yield from _indexed_inside(a, len(have.shape))
    given = list(_given(state, a))
    lower = [g for g in given if g.argument == a.at and len(state.shape(g.need.shape)) > len(g.have.shape)]
    yield from (s for g in lower for s in _as_stated(state, g))
    yield from (s for g in given for s in _number_alone(g))
    yield from swapped(a.function, a.arguments, a.at)
    rows = a.function.instance.rows.values() if isinstance(a.function, T.Variable) and a.function.instance is not None else ()
    if any(g.argument == a.at and g.need.shape in rows for g in given):  # any rank at all, and so that of what stands before
        yield from (s for g in given for s in _as_stated(state, g))
        help_ = f"without annotations `{a.name}` takes equal shapes: where a parameter has a rank, `(… : 'a[n])`, it broadcasts"
        patterns = dict.fromkeys(g.pattern.span for g in given if g.need.shape in rows and not g.pattern.span.followed(":"))
        yield Suggestion(help_, annotates=tuple(patterns))


@proposing
def _numbers_inside(a: Argument) -> Iterator[Suggestion]:
    """The annotation of a number that a function hands to one that it is given, beside a tensor: `(t : 'a)` for the `t` of `f t y`,
    in the function that is called or in one that it calls.
    """
    file, names = tree(a.function.span.file), [a.name]
    functions = {d.name.text: d for d in file.decls if isinstance(d, S.Fun)}
    while names:
        if (function := functions.pop(names.pop(0), None)) is None:
            continue
        inside = list(file.within(function.span))
        names += [n.name for n in inside if isinstance(n, S.Var)]
        params = {p.name: p for p in function.params if isinstance(p, S.PatternName)}
        for n in inside:
            if isinstance(n, S.Apply) and _head(n) in params and isinstance(n.argument, S.Var) and n.argument.name in params:
                own = params.pop(n.argument.name)
                new = S.PatternTyped(own, quoted_type("'a"), span=NEW)
                yield propose(f"let `{own.name}` be a number: `({own.name} : 'a)` in `{function.name.text}`", None, (own, new))


@proposing
def _indexed_inside(a: Argument, rank: int) -> Iterator[Suggestion]:
    """`w[i]` in the function that is called, for the `w` of `for i => w * x[i]`, which is a number since nothing indexes it."""
    file = tree(a.function.span.file)
    function = next((d for d in file.decls if isinstance(d, S.Fun) and d.name.text == a.name), None)
    pattern = a.patterns[a.at] if a.at < len(a.patterns) else None
    if function is None or not isinstance(pattern, T.PatternName):
        return
    if isinstance(outside(node(pattern.span, S.PatternName)), S.PatternTyped):
        return
    changes: list[tuple[S.Node, S.Node]] = []
    for use in file.within(function.span):
        if isinstance(use, S.Var) and use.name == pattern.symbol.name:
            heads = [n for n in file.enclosing(use.span) if isinstance(n, S.For | S.Reduce)]
            indices = [b.name for head in heads for g in head.groups for b in g.binders if isinstance(b, S.IndexBinder)]
            if len(indices) < rank:
                return
            changes.append((use, indexed(use, indices[-rank:])))
    if changes:
        text = text_of(changes[0][1], changes[0][0].span)
        yield propose(f"index it in `{a.name}`: `{text}`", None, *changes)


def _head(e: S.Expr) -> str:
    """The name of what is applied."""
    while isinstance(e, S.Apply):
        e = e.function
    return e.name if isinstance(e, S.Var) else ""


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


@proposing
def _as_stated(state: State, given: _Given) -> Iterator[Suggestion]:
    """The annotation of a parameter that has none, or of a part of one, which lets a scalar broadcast: `(rate : f32)`."""
    own = node(given.pattern.span, S.PatternName)
    around = outside(own)
    if not given.have.shape and own.name == given.pattern.symbol.name and not isinstance(around, S.PatternTyped):
        element = show_element(Namer(state), state.element(given.need.element))
        new = S.PatternTyped(own, quoted_type(element), span=NEW)
        text = text_of(new, own.span)
        text = text if isinstance(around, S.PatternTuple) else f"({text})"
        yield propose(f"annotate the parameter, and it broadcasts: `{text}`", None, (own, new))


@proposing
def _number_alone(given: _Given) -> Iterator[Suggestion]:
    """`(rate : f32)` for `(rate : f32[n]?)`, which is given a number and says what rank the others have."""
    around = outside(node(given.pattern.span, S.PatternName))
    whole = around.type.whole if isinstance(around, S.PatternTyped) and isinstance(around.type, S.TypeOrScalar) else None
    if isinstance(around, S.PatternTyped) and isinstance(whole, S.TypeName | S.TypeVar) and not given.have.shape:
        found = propose("for a number alone, make it", around, (around.type, made(whole, args=None)))
        yield replace(found, annotates=(given.pattern.span,))


# ── indices and dimensions ──────────────────────────────────────────────────────────────────────────────────────────────


@proposing
def indexed_too(wrong: SubscriptCount) -> Iterator[Suggestion]:
    """`q[i, j]` for `q[i]` under indices `i` and `j`, where all that the access does not use are as many as it lacks."""
    e, rank, whole = wrong.access, len(wrong.shape), node(wrong.access.span, S.Access)
    used = {n.name for n in nodes_of(whole) if isinstance(n, S.Var)}
    unused = [symbol.name for symbol, _ in wrong.context.indices if symbol.name not in used]
    if 0 < len(unused) == rank - len(e.subscripts) < rank and whole.default is None:
        new = made(whole, subscripts=(*whole.subscripts, *indexed(whole.base, unused).subscripts))
        yield propose(f"index it by `{'`, `'.join(unused)}` too:", new, (whole, new), grown=True)


@proposing
def rest_kept(access: Span) -> Iterator[Suggestion]:
    """`x[i, ..]` for `x[i]`, which keeps the other dimensions: as a change, and in words if that alone mends nothing."""
    whole = node(access, S.Access)
    new = made(whole, subscripts=(*whole.subscripts, S.IndexRest(span=NEW)))
    found = propose("to keep the other dimensions, write", new, (whole, new), grown=True)
    yield from (found, Suggestion(found.text))


@proposing
def each_named(state: State, wrong: KnownByProduct) -> Iterator[Suggestion]:
    """`(x : f32[n, d])` for a parameter whose dimensions are known by their product alone."""
    if len(wrong.factors) == len(wrong.axes):
        namer = Namer(state)
        namer.plan(symbols_of(state, wrong.scheme.type))
        places = dict(zip(wrong.axes, wrong.factors, strict=True))
        shape = state.shape(wrong.tensor.shape)
        named = tuple(Dim.of(places[i]) if i in places else other for i, other in enumerate(shape))
        own = node(wrong.param.span, S.PatternName)
        new = S.PatternTyped(own, quoted_type(show_type(namer, Tensor(wrong.tensor.element, named))), span=NEW)
        yield propose(f"say what each of them is: `({text_of(new, own.span)})`", None, (own, new))


@proposing
def of_integers(wrong: BadSubscript) -> Iterator[Suggestion]:
    """The annotation of a parameter that is an index, or has them, with integers for floats."""
    around = outside(node(wrong.entity.span, S.PatternName)) if isinstance(wrong.entity, ValueName) else None
    written = around.type if isinstance(around, S.PatternTyped) else None
    if isinstance(written, S.TypeName) and [n.text for n in written.name] in [[e.value] for e in FLOAT]:
        yield propose("make it", around, (written, made(written, name=(name("i32"),))), grown=True)


@proposing
def as_parameter(wrong: NotADimension) -> Iterator[Suggestion]:
    """A parameter of the function around made a dimension parameter of it."""
    d, entity, own = wrong.heading, wrong.entity, wrong.what.strip("`")
    at = entity.span if isinstance(entity, ValueName) else None
    for p in d.params if d is not None and at is not None else ():
        if d is not None and at is not None and p.span.start <= at.start and at.end <= p.span.end:
            words = f"make it a dimension parameter: `fun {d.name.text} {{{own}}} …`"
            yield propose(words, None, parameter(d.name.span, own, gone=p), grown=True)


@proposing
def runs_moved(access: Span) -> Iterator[Suggestion]:
    """`x[i, ..b, j]` for `x[..b, i, j]`: the run of indices somewhere else."""
    whole = node(access, S.Access)
    runs = [n for n, s in enumerate(whole.subscripts) if isinstance(s, S.IndexRun | S.IndexRest)]
    for place in range(len(whole.subscripts)) if len(runs) == 1 else ():
        order = [n for n in range(len(whole.subscripts)) if n not in runs]
        order.insert(place, runs[0])
        if place != runs[0]:
            yield propose("move an index:", whole, *permuted(whole.subscripts, order), change=Change.MOVED)


@proposing
def every_dimension(access: Span, places: Sequence[Span]) -> Iterator[Suggestion]:
    """`x[:, i, :]` for `x[.., i, ..]`, where no run of indices is bound."""
    kept = S.IndexSlice(None, None, None, span=NEW)
    changes = [(node(at, S.IndexRest), kept) for at in places]
    yield propose("write `:` for each dimension:", node(access, S.Access), *changes)


# ── products ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@proposing
def no_product(state: State, wrong: MatmulRank) -> Iterator[Suggestion]:
    """A sum for a product with a vector, `*` for one with a number."""
    whole = outside(expr(wrong.spans[0]))
    rank, other = len(state.shape(wrong.shape)), len(state.shape(wrong.other))
    if not isinstance(whole, S.Binary):
        return
    if rank == 0:
        yield propose("to multiply by a number, write `*`", None, (whole, made(whole, op="*")), grown=True)
        access = wrong.spans[wrong.side == "right"]
        if ".." not in access.text:  # `x[t]` of an `x` of which nothing is known names all its dimensions
            yield from rest_kept(access)
    elif rank == 1 <= other <= 2:
        i, j = free_letters(wrong.spans[0].to(wrong.spans[1]), 2, "ijkmnpqr")
        sums = {(1, 1): f"sum {i} => a[{i}] * b[{i}]", (1, 2): f"for {j} => sum {i} => a[{i}] * b[{i}, {j}]"}
        ranks = (other, 1) if wrong.side == "right" else (1, other)
        new = quoted(sums.get(ranks, f"for {i} => sum {j} => a[{i}, {j}] * b[{j}]"), a=whole.left, b=whole.right)
        found = propose(f"for {'two vectors' if ranks == (1, 1) else 'a vector'}, write the sum:", new, (whole, new))
        yield from (found, Suggestion(found.text))


@proposing
def operands_exchanged(spans: tuple[Span, Span]) -> Iterator[Suggestion]:
    """The matrix on the right of a batch of matrices."""
    one, other = map(expr, spans)
    yield propose("swap the operands:", outside(one), *swap(one, other))
