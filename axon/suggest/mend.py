"""What a person who wrote sizes that cannot agree most likely meant: changes of the expression, the likeliest first.

A forgotten transposition, swapped arguments or indices, and a statistic of each row that is applied to whole rows are commoner than
a wrong annotation. Each is an edit of the source; the checker tries it, and shows it only if fewer errors are left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations

from axon.base.diagnostics import Change, Edit, Suggestion
from axon.base.source import Span
from axon.explain.origin import Trail
from axon.explain.places import single, subscripts
from axon.explain.quote import fitting, operand, short, shown
from axon.explain.ranges import Origin
from axon.shapes.constraint import Equal, Reason
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.suggest.layout import in_order
from axon.suggest.slips import headers, other_values, regrouped, rounded_up, stages
from axon.suggest.written import exchanged
from axon.types import typed as T
from axon.types.show import Namer, show_element
from axon.types.type import Row, Tensor
from axon.types.unify import State

_LETTERS = "ijklmnpq"
_MAX_RANK = 4
_TRANSPOSE = "linalg.transpose"
_MOST = 72  # characters of one argument
_MAX_EXCHANGES = 10  # of two arguments of one call
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SUM = re.compile(r"([A-Za-z_]\w*)(\s*\+\s*)([A-Za-z_]\w*)")
_PART = re.compile(r"([A-Za-z_]\w*\s*[/%]\s*)([A-Za-z_]\w*)")


def mends(reasons: Iterable[Reason], trail: Trail, primary: bool) -> tuple[Suggestion, ...]:
    """Changes to try for a conflict with these reasons, of which one may be the `primary` one."""
    found: dict[tuple[Edit, ...], Suggestion] = {}
    for reason in reasons:
        for suggestion in _of(reason, trail, primary):
            found.setdefault(suggestion.edits, suggestion)
    return tuple(found.values())


def _of(reason: Reason, trail: Trail, primary: bool) -> Iterator[Suggestion]:
    reads = _reads(reason, trail)
    yield from _reindexed(reads, trail)
    for access, at in reads:
        yield from _exchanged(access, at, trail, False)
    for expr in trail.expressions():
        match expr:
            case T.MatMul(left=left, right=right) if _between(reason.span, left.span, right.span):
                yield from _product(expr, left, right, trail)
            case T.Binary(left=left, right=right) if _between(reason.span, left.span, right.span):
                yield from _rows(expr, left, right, trail)
            case T.For() if any(s.span == expr.span for s in reason.sides):
                yield from _result(expr, reason)
                yield from regrouped(expr, trail)
            case T.Call(arguments=arguments) if primary and any(a.span == reason.span for a in arguments):
                yield from _arguments(expr, reason.span, trail)
            case T.For() if any(s.span == expr.span or _inside(s.span, expr.span) for s in reason.sides):
                yield from _result(expr, reason)


def reindexed(trail: Trail, reason: Reason) -> tuple[Suggestion, ...]:
    """Other indices in the accesses of which a reason speaks."""
    return tuple(_reindexed(_reads(reason, trail), trail))


def asked(trail: Trail, reason: Reason) -> tuple[Suggestion, ...]:
    """Changes of what asks for a size in the body of a function: of accesses, products and calls."""
    return reindexed(trail, reason) or mends([reason], trail, True)


def _reads(reason: Reason, trail: Trail) -> list[tuple[T.Access, Span]]:
    return [(read[0], side.span) for side in reason.sides if side.about and (read := trail.read(side.span)) is not None]


def behind(origin: Origin, trail: Trail) -> tuple[Suggestion, ...]:
    """Changes of the accesses that decide how far the indices run from which a size comes."""
    found: dict[tuple[Edit, ...], Suggestion] = {}
    for source in trail.sources(origin):
        read = trail.read(source.read) if source.read is not None else None
        if read is not None and source.read is not None:
            for suggestion in _reindexed([(read[0], source.read)], trail):
                found.setdefault(suggestion.edits, suggestion)
        for e in headers(trail, (source.span,)) if source.kind == "flatten" else ():
            found |= {s.edits: s for s in regrouped(e, trail)}
        found |= {s.edits: s for s in rounded_up(source)}
    return tuple(found.values())


def compared(equal: Equal, trail: Trail, state: State, show: Callable[[Dim], str]) -> Iterator[Suggestion]:
    """Sizes that only the data decide, compared at run time: `(b as f32[k])`, what has such a size first."""
    sizes = [state.dimension(d) for d in (equal.left, equal.right)]
    sides = reversed(list(zip(equal.reason.sides, sizes, reversed(sizes), strict=False)))
    for side, own, other in sorted(sides, key=lambda s: s[1].variables.isdisjoint(state.data_sizes)):
        read = trail.read(side.span) if side.about else None
        expr = read[0].base if read is not None else trail.at(side.span)
        t = state.prune(expr.type) if expr is not None else None
        if expr is None or not isinstance(t, Tensor):
            continue
        items = [i if isinstance(i, Row) else state.dimension(i) for i in state.shape(t.shape)]
        if own == other or own not in items:
            continue
        items[items.index(own)] = other
        namer = Namer(state)
        listed = ", ".join(f"..{namer.dim(i.symbol)}" if isinstance(i, Row) else show(i) for i in items)
        text = f"({operand(expr.span)} as {show_element(namer, t.element)}[{listed}])"
        enclosed = expr.span.file.text[: expr.span.start].endswith("(") and expr.span.file.text[expr.span.end :].startswith(")")
        yield Suggestion(f"compare them at run time: `{text}`", (Edit(expr.span, text[1:-1] if enclosed else text),))


def last_resorts(reason: Reason, trail: Trail) -> Iterator[Suggestion]:
    """Larger changes, to be tried when nothing else helps."""
    for expr in trail.expressions():
        if isinstance(expr, T.MatMul) and _between(reason.span, expr.left.span, expr.right.span):
            yield from _turned(expr.left, expr.right, trail)


def _between(operator: Span, left: Span, right: Span) -> bool:
    return operator.file is left.file and left.end <= operator.start and operator.end <= right.start


def _inside(inner: Span, outer: Span) -> bool:
    return inner.file is outer.file and outer.start <= inner.start and inner.end <= outer.end


# ── products, operators ─────────────────────────────────────────────────────────────────────────────────────────────────


def _product(whole: T.Expr, left: T.Expr, right: T.Expr, trail: Trail) -> Iterator[Suggestion]:
    """`a @ b`: either side transposed, another field for one, the sides swapped, both."""
    a, b = _transposed(left, trail), _transposed(right, trail)
    if b is not None:
        yield _importing(fitting(lambda most: f"{_verb(right)}: `{_beside(left, most)} @ {b[0](most)}`"), b[1], _turns(right))
    if a is not None:
        yield _importing(fitting(lambda most: f"{_verb(left)}: `{a[0](most)} @ {_beside(right, most)}`"), a[1], _turns(left))
    yield from _siblings((right, left), trail)
    yield from _exchanged_names((right, left), trail)
    swap = (Edit(left.span, operand(right.span)), Edit(right.span, operand(left.span)))
    yield Suggestion(fitting(lambda most: f"swap the operands: `{_beside(right, most)} @ {_beside(left, most)}`"), swap)
    for part in (left, right):  # of a product that is an operand
        if isinstance(part, T.MatMul):
            pair = operand(part.right.span), operand(part.left.span)
            edits = (Edit(part.left.span, pair[0]), Edit(part.right.span, pair[1]))
            yield Suggestion(f"swap the operands: `{pair[0]} @ {pair[1]}`", edits)


def _exchanged_names(operands: tuple[T.Expr, ...], trail: Trail) -> Iterator[Suggestion]:
    """`a @ x @ w` for `a @ w @ x`: a name exchanged with one that is a factor of another product, once each."""
    factors = [f for e in trail.expressions() if isinstance(e, T.MatMul) for f in (e.left, e.right) if isinstance(f, T.Variable)]
    for own in operands:
        for other in factors if isinstance(own, T.Variable) else ():
            alike = _plain(own) and _plain(other) and _rank(own, trail) == _rank(other, trail)
            alike = alike and trail.known_at(own, other.span) and trail.known_at(other, own.span)
            if alike and other not in operands and other.span.text != own.span.text:
                edits = (Edit(own.span, other.span.text), Edit(other.span, own.span.text))
                yield Suggestion(f"exchange `{own.span.text}` and `{other.span.text}`", edits, change=Change.EXCHANGED)


def _turned(left: T.Expr, right: T.Expr, trail: Trail) -> Iterator[Suggestion]:
    """`g @ x` for `linalg.transpose x @ g`: the sides swapped and one transposed."""
    if left.span.end > right.span.start or not _plain(left) or not _plain(right):
        return
    whole = Span(left.span.file, left.span.start, right.span.end)
    for one in (right, left):
        turned = _transposed(one, trail)
        if turned is not None:
            text = f"{turned[2]} @ {left.span.text}" if one is right else f"{right.span.text} @ {turned[2]}"
            yield _importing(f"swap the operands and transpose one: `{text}`", (*turned[1][:-1], Edit(whole, text)))


def _plain(e: T.Expr) -> bool:
    return _NAME.fullmatch(e.span.text) is not None


def _transposed(e: T.Expr, trail: Trail) -> tuple[Callable[[int], str], tuple[Edit, ...], str] | None:
    """The matrix transposed: what to show in so many characters, the edits that make it so, and its text."""
    shape = trail.shape(e.type)
    if (once := _once(e)) is not None:  # that was too often
        plain = operand(once.span)
        return partial(short, once.span), (Edit(e.span, plain),), plain
    if isinstance(e, T.For) or shape is None or sum(not isinstance(i, Row) for i in shape) < 2:
        return None
    source = e.span.file
    text = f"{_TRANSPOSE} {operand(e.span)}"
    edits: tuple[Edit, ...] = (Edit(e.span, text if _applied_alone(e.span) else f"({text})"),)
    if not re.search(r"^import linalg\b", source.text, re.MULTILINE):
        edits = (Edit(Span(source, 0, 0), "import linalg\n"), *edits)
    return lambda most: f"{_TRANSPOSE} {shown(e.span, most)}", edits, text


def _importing(text: str, edits: tuple[Edit, ...], change: Change | None = None) -> Suggestion:
    """A change that says so where it adds an import."""
    added = next((e.text.strip() for e in edits if e.text.startswith("import ")), None)
    return Suggestion(text if added is None else f"{text}, with `{added}`", edits, change=change)


def _once(e: T.Expr) -> T.Expr | None:
    """What is transposed, if a matrix is."""
    once = isinstance(e, T.Call) and e.function.span.text == _TRANSPOSE and len(e.arguments) == 1
    return e.arguments[0] if isinstance(e, T.Call) and once else None


def _verb(e: T.Expr) -> str:
    """What to do about a matrix: to transpose it, or not to."""
    return f"do not transpose `{short(once.span)}`" if (once := _once(e)) is not None else f"transpose `{short(e.span)}`"


def _turns(e: T.Expr) -> Change | None:
    return Change.TRANSPOSED if _once(e) is None else None


def _rows(whole: T.Expr, left: T.Expr, right: T.Expr, trail: Trail) -> Iterator[Suggestion]:
    """`x / t` where t has a value for each row: `for i j => x[i, j] / t[i]`; tensors of one rank, of which one is transposed."""
    ranks = [_rank(e, trail) for e in (left, right)]
    if None in ranks:
        return
    r, s = (n or 0 for n in ranks)
    most = max(r, s)
    if r == s == 1 and isinstance(whole, T.Binary) and whole.op in ("mul", "sub"):
        yield from _pairs(whole, left, right)
    if min(r, s) < 1 or not 2 <= most <= _MAX_RANK:
        return
    letters = _letters(whole.span, most)
    if letters is None:
        return
    operator = whole.span.file.text[left.span.end : right.span.start].strip(" ()\n")
    at = _parenthesized(whole.span, left.span, right.span)
    if r != s:
        longer, shorter = (left, right) if r > s else (right, left)
        inside = list(_within(at, longer, shorter, operator, most, min(r, s)))
        if inside:
            yield from inside
            return
        for chosen in _leading(letters, min(r, s)):
            parts = {longer: _indexed(longer, letters), shorter: _indexed(shorter, chosen)}
            text = f"for {' '.join(letters)} => {parts[left]} {operator} {parts[right]}"
            yield Suggestion(f"name the indices: `{text}`", (Edit(at, _whole(at, text)),), change=Change.ROWS)
    elif most == 2:
        for e in (right, left):
            found = _transposed(e, trail)
            if found is not None:
                pair = (partial(_beside, left), found[0]) if e is right else (found[0], partial(_beside, right))
                yield _importing(fitting(partial(_applied_to, e, operator, pair)), found[1], Change.TRANSPOSED)


def _pairs(whole: T.Binary, left: T.Expr, right: T.Expr) -> Iterator[Suggestion]:
    """`for i j => x[i] * y[j]` for `x * y` of two vectors."""
    letters = _letters(whole.span, 2)
    if letters is not None:
        operator = whole.span.file.text[left.span.end : right.span.start].strip(" ()\n")
        at = _parenthesized(whole.span, left.span, right.span)
        text = f"for {' '.join(letters)} => {_indexed(left, letters[:1])} {operator} {_indexed(right, letters[1:])}"
        yield Suggestion(f"for every pair, name the indices: `{text}`", (Edit(at, _whole(at, text)),), change=Change.ROWS)


def _applied_to(e: T.Expr, operator: str, pair: tuple[Callable[[int], str], Callable[[int], str]], most: int) -> str:
    return f"transpose `{short(e.span)}`: `{pair[0](most)} {operator} {pair[1](most)}`"


def _parenthesized(whole: Span, left: Span, right: Span) -> Span:
    """The text of an operation, with the parentheses around its first and its last operand."""
    text = whole.file.text
    between = text[left.end : right.start]
    start, end = whole.start, whole.end
    for _ in range(between.count(")")):
        start = text.rfind("(", 0, start) if text[:start].rstrip().endswith("(") else start
    for _ in range(between.count("(")):
        inside = text[start:end]
        open_ = inside.count("(") > inside.count(")")
        end = text.find(")", end) + 1 if open_ and text[end:].lstrip().startswith(")") else end
    return Span(whole.file, start, end)


def _within(at: Span, longer: T.Expr, shorter: T.Expr, operator: str, most: int, rank: int) -> Iterator[Suggestion]:
    """`(for b o i => …) + bias`: the operator inside, `for b o i => (…) + bias[o]`."""
    names = _plain_indices(longer) if isinstance(longer, T.For) else None
    if not isinstance(longer, T.For) or names is None or len(names.text.split()) != most:
        return
    head = f"for {names.text} => "
    body, file = longer.body.span, at.file
    for chosen in list(combinations(names.text.split(), rank))[:-1]:
        indexed = _indexed(shorter, chosen)
        before, after = (
            ("(", f") {operator} {indexed}") if longer.span.start < shorter.span.start else (f"{indexed} {operator} (", ")")
        )
        opening, closing = _whole(at, "|").split("|")
        # The body is left as it is: what it asks of calls it asks in any case.
        edits = (
            Edit(Span(file, at.start, body.start), opening + head + before),
            Edit(Span(file, body.end, at.end), after + closing),
        )
        yield Suggestion(f"name the indices: `{head}{before}…{after}`", edits, change=Change.ROWS)


def _leading(letters: tuple[str, ...], count: int) -> Iterator[tuple[str, ...]]:
    """The choices of some of the letters in order, the first ones first; the last ones are what broadcasting does anyway."""
    yield from list(combinations(letters, count))[:-1]


def _rank(e: T.Expr, trail: Trail) -> int | None:
    shape = trail.shape(e.type)
    return None if shape is None or any(isinstance(i, Row) for i in shape) else len(shape)


def _letters(span: Span, count: int) -> tuple[str, ...] | None:
    """Names for indices that the text does not use."""
    taken = set(re.findall(r"\w+", span.text))
    free = [c for c in _LETTERS if c not in taken]
    return tuple(free[:count]) if len(free) >= count else None


def _indexed(e: T.Expr, letters: tuple[str, ...]) -> str:
    return f"{operand(e.span)}[{', '.join(letters)}]"


# ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _arguments(call: T.Call, at: Span, trail: Trail) -> Iterator[Suggestion]:
    """Two arguments swapped; the argument transposed."""
    arguments = call.arguments
    here = next(n for n, a in enumerate(arguments) if a.span == at)
    yield from exchanged(call.function.span)
    yield from _siblings(arguments, trail)
    for argument in (arguments[here], *arguments[:here], *arguments[here + 1 :]):
        yield from other_values(argument, trail)
    yield from stages(call, at, trail)
    ranks = [_rank(a, trail) for a in arguments]
    apart = frozenset(n for n, rank in enumerate(ranks) if rank not in (None, ranks[here]))  # vectors that belong to a matrix
    yield from swapped(tuple(a.span for a in arguments), here, short(call.function.span), apart)
    found = _transposed(arguments[here], trail)
    if found is not None and _rank(arguments[here], trail) == 2:
        edits = tuple(replace(e, text=f"({e.text})") if e.span == at and not e.text.startswith("(") else e for e in found[1])
        yield _importing(f"transpose argument {here + 1}: `({found[0](_MOST)})`", edits, Change.TRANSPOSED)
    yield from _exchanged_fields(arguments, trail)


def _siblings(arguments: tuple[T.Expr, ...], trail: Trail) -> Iterator[Suggestion]:
    """`p.down` for `p.up`: another field, which copying forgot to change: one is used twice, or the other not at all."""
    used = Counter(" ".join(e.span.text.split()) for e in trail.expressions() if isinstance(e, T.Field))
    for argument in arguments:
        if isinstance(argument, T.Field):
            twice = used[" ".join(argument.span.text.split())] > 1
            for name in trail.fields(argument.record):
                if name != argument.name and (twice or not used[f"{argument.record.span.text}.{name}"]):
                    text = f"{argument.record.span.text}.{name}"
                    yield Suggestion(f"another field: `{text}`", (Edit(argument.span, text),))


def _exchanged_fields(arguments: tuple[T.Expr, ...], trail: Trail) -> Iterator[Suggestion]:
    """`p.up` where `p.down` stands and the other way round, where each is used once."""
    fields = [e for e in trail.expressions() if isinstance(e, T.Field)]
    used = Counter(" ".join(e.span.text.split()) for e in fields)
    for argument in arguments:
        for other in fields if isinstance(argument, T.Field) else ():
            own, text = argument.span.text, other.span.text
            same = isinstance(argument, T.Field) and other.record.span.text == argument.record.span.text
            if same and own != text and used[own] == used[text] == 1:
                edits = (Edit(argument.span, text), Edit(other.span, own))
                yield Suggestion(f"exchange `{own}` and `{text}`", edits, change=Change.EXCHANGED)


def swapped(spans: tuple[Span, ...], here: int, name: str, apart: frozenset[int] = frozenset()) -> Iterator[Suggestion]:
    """An argument of a call exchanged with each of the others, or two exchanged that are `apart` from it; of three, turned.

    Names first: what is computed on the spot is confused less often.
    """
    count = len(spans)
    named = [_NAME.fullmatch(s.text) is not None for s in spans]
    turns = [order for order in permutations(range(3)) if all(order[n] != n for n in range(3))] if count == 3 else []
    plain: list[tuple[int, ...]] = []
    others: list[tuple[int, ...]] = []
    for order in (*_exchanges(count, here), *turns):
        moved = [n for n in range(count) if order[n] != n]
        if all(named[n] for n in moved):
            plain += [order] if here in moved or apart.issuperset(moved) else []
        elif here in moved and len(moved) == 2 and len({spans[n].text for n in moved}) == 2:
            others.append(order)
    for order in (*plain, *others):
        edits = tuple(Edit(spans[n], operand(spans[o])) for n, o in enumerate(order) if n != o)
        listed = " ".join(operand(spans[o]) for o in order)
        yield Suggestion(f"swap the arguments: `{name} {listed}`" if len(edits) == 2 else f"reorder: `{name} {listed}`", edits)


def _exchanges(count: int, here: int) -> Iterator[tuple[int, ...]]:
    """Every exchange of two arguments, those of the one `here` first."""
    for pair in sorted(combinations(range(count), 2), key=lambda pair: here not in pair)[:_MAX_EXCHANGES]:
        order = list(range(count))
        order[pair[0]], order[pair[1]] = pair[1], pair[0]
        yield tuple(order)


# ── indices ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _with(access: T.Access, changes: dict[Span, str]) -> str:
    """An access with other texts for some of its subscripts, as it is shown."""
    text, start = access.span.text, access.span.start
    for at, new in sorted(changes.items(), key=lambda c: -c[0].start):
        text = text[: at.start - start] + new + text[at.end - start :]
    opening = access.base.span.end - start
    listed = " ".join(text[opening:].split()).lstrip(")")
    return fitting(lambda most: f"{shown(access.base.span, most)}{listed}")


def _reindexed(reads: Iterable[tuple[T.Access, Span]], trail: Trail) -> Iterator[Suggestion]:
    """Accesses with their indices in another order, or with another index at a place; last those against the order in which the
    indices are bound, neighbours first.
    """
    found: list[tuple[int, Suggestion]] = []
    reads = list(reads)
    for access, at in reads:
        yield from in_order(access, at, trail)
    again = _repeated([access for access, _ in reads], trail)
    for access, at in sorted(reads, key=lambda r: -r[0].span.start):  # what comes first is what the others are written for
        found += [(_agreeing(access, s, trail) - (access.span in again), s) for s in _exchanged(access, at, trail, True)]
    for access, at in reads:
        found += [(1, s) for s in _divided(access, trail)] + [(0, s) for s in _terms(access, at)]
    for access, at in reads:
        found += [(_agreeing(access, s, trail) - (access.span in again), s) for s in _replaced(access, at, trail)]
    best = max((score for score, _ in found), default=0)  # where names tell, an index is not taken from its own dimension
    yield from (s for score, s in sorted(found, key=lambda f: -f[0]) if score >= 0 or best <= 0)
    for access, at in reads:
        yield from _neighbours(access, at, trail)
    for access, at in reads:
        yield from _moved(access, at)


def _repeated(accesses: list[T.Access], trail: Trail) -> set[Span]:
    """Those accesses that stand elsewhere in the same words, and so are meant, where others do not."""
    alike = Counter(" ".join(e.span.text.split()) for e in trail.expressions() if isinstance(e, T.Access))
    again = {a.span for a in accesses if alike[" ".join(a.span.text.split())] > 1}
    return again if any(a.span not in again for a in accesses) else set()


def _agreeing(access: T.Access, change: Suggestion, trail: Trail) -> int:
    """How many more indices of an access have the name of the dimension that they are of, after a change: `mask[b, s]` of an
    f32[b, s]. Fewer have it, where the access was right.
    """
    gained = 0
    for edit in change.edits:
        read = trail.read(edit.span)
        size = trail.size(access.base, read[1]) if read is not None else None
        if size is not None and size.symbol is not None:
            gained += (edit.text == size.symbol.name) - (edit.span.text == size.symbol.name)
    return gained


def _exchanged(access: T.Access, at: Span, trail: Trail, orderly: bool) -> Iterator[Suggestion]:
    """The subscripts of an access in another order: in that in which one `for` binds them (`orderly`), or not."""
    spans = single(access)
    for span in spans if at in spans else ():
        if span != at and _settled(access, (at, span), trail) != orderly:
            edits = (Edit(at, span.text), Edit(span, at.text))
            asks = not all(_WORD.fullmatch(s.text) for s in (at, span))  # a window asks for its size wherever it moves
            text = f"swap the indices: `{_with(access, {at: span.text, span: at.text})}`"
            yield Suggestion(text, edits, asks=asks, change=Change.SWAPPED)


def _neighbours(access: T.Access, at: Span, trail: Trail) -> Iterator[Suggestion]:
    """`x[..b, i, j, c]` for `x[..b, j, i, c]`, which keeps the order of `(i, c)`: two names that stand side by side."""
    spans = single(access)
    if len(spans) > 2 and at in spans:
        here = spans.index(at)
        beside = spans[max(here - 1, 0) : here + 2]
        for s in _exchanged(access, at, trail, False):
            if all(e.span in beside and _WORD.fullmatch(e.text) for e in s.edits):
                yield s


def _moved(access: T.Access, at: Span) -> Iterator[Suggestion]:
    """`x[b, c, i, j]` for `x[b, i, j, c]`: a subscript somewhere else, past two others or more."""
    places = subscripts(access)
    here = next((n for n, p in enumerate(places) if p.start <= at.start and at.end <= p.end), None)
    for start in range(len(places)) if len(places) <= _MAX_RANK else ():
        for end in range(len(places)):
            order = [n for n in range(len(places)) if n != start]
            order.insert(end, start)
            if abs(start - end) > 1 and here is not None and order[here] != here:  # another one stands at the place then
                listed = ", ".join(" ".join(places[n].text.split()) for n in order)
                span = Span(at.file, places[0].start, places[-1].end)
                text = f"move an index: `{shown(access.base.span)}[{listed}]`"
                yield Suggestion(text, (Edit(span, listed),), asks=True, change=Change.MOVED)


def _terms(access: T.Access, at: Span) -> Iterator[Suggestion]:
    """`x[i + z, j + y]` as `x[i + y, j + z]`: a term of an index exchanged with one of another index of the access."""
    spans = [s.values[0].span for s in access.subscripts if isinstance(s, T.At) and len(s.values) == 1]
    sums = {s: _SUM.fullmatch(s.text) for s in spans}
    own = sums.get(at)
    for span, other in sums.items():
        if own is not None and other is not None and span != at:
            texts = {at: f"{own[1]}{own[2]}{other[3]}", span: f"{other[1]}{other[2]}{own[3]}"}
            edits = tuple(Edit(s, text) for s, text in texts.items())
            yield Suggestion(f"swap the indices: `{_with(access, texts)}`", edits, asks=True, change=Change.SWAPPED)


def _divided(access: T.Access, trail: Trail) -> Iterator[Suggestion]:
    """`x[i / m, i % m]` for `x[i / n, i % n]`: another size of what is accessed as the divisor of all."""
    spans = [s.values[0].span for s in access.subscripts if isinstance(s, T.At) and len(s.values) == 1]
    parts = {s: found for s in spans if (found := _PART.fullmatch(s.text)) is not None}
    divisors = {found[2] for found in parts.values()}
    sizes = [size for n in range(len(spans)) if (size := trail.size(access.base, n)) is not None and size.symbol is not None]
    for name in dict.fromkeys(render(size) for size in reversed(sizes)) if len(parts) > 1 and len(divisors) == 1 else ():
        if name not in divisors:
            texts = {s: f"{found[1]}{name}" for s, found in parts.items()}
            text = f"divide by {name}: `{_with(access, texts)}`"
            yield Suggestion(text, tuple(Edit(s, text) for s, text in texts.items()))


def _settled(access: T.Access, pair: tuple[Span, Span], trail: Trail) -> bool:
    """Whether two subscripts hardly change places: one `for` binds them in the order in which they stand, or one is a number."""
    if any(s.text.isdecimal() for s in pair):
        return True
    one, other = sorted(pair, key=lambda s: s.start)
    by_name = {symbol.name: trail.binding(symbol) for symbol, _ in access.context.indices}
    first, second = by_name.get(one.text), by_name.get(other.text)
    if first is None or second is None or first.span.end > second.span.start:
        return False
    return "=>" not in first.span.file.text[first.span.end : second.span.start]


def _replaced(access: T.Access, at: Span, trail: Trail) -> Iterator[Suggestion]:
    """Another index in the place of one."""
    spans = single(access)
    if at not in spans:
        return
    taken = {name for s in spans for name in _WORD.findall(s.text)}  # twice in one access, it would read a diagonal
    for symbol, _ in reversed(access.context.indices):
        if symbol.name not in taken and symbol.name != at.text and symbol.name != "_":
            binding = trail.binding(symbol)  # one of a named size may well stay inside another one; of a computed size, hardly
            asks = binding is not None and binding.range.stated and binding.range.extent.symbol is not None
            text = f"index it by `{symbol.name}`: `{_with(access, {at: symbol.name})}`"
            yield Suggestion(text, (Edit(at, symbol.name),), asks=asks, change=Change.INDEX)


def _plain_indices(e: T.For) -> Span | None:
    """The indices of a `for` that are just names."""
    header = e.span.file.text[e.span.start : e.body.span.start]
    found = re.fullmatch(r"for\s+([a-z]\w*(?:\s+[a-z]\w*)*)\s*=>\s*\(?", header)
    return None if found is None else Span(e.span.file, e.span.start + found.start(1), e.span.start + found.end(1))


def _result(e: T.For, reason: Reason) -> Iterator[Suggestion]:
    """The indices of a `for` in another order."""
    span = _plain_indices(e)
    names = span.text.split() if span is not None else []
    if span is None or not 2 <= len(names) <= 3:
        return
    for order in permutations(names):
        if list(order) != names:
            text = " ".join(order)
            yield Suggestion(f"reorder the indices: `for {text} => …`", (Edit(span, text),))


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _applied_alone(span: Span) -> bool:
    """Whether an application may stand here without parentheses: it is no argument of another."""
    before = span.file.text[: span.start].rstrip()
    return not before or before[-1] in "=(,@+-*/[>|" or before.endswith((" in", " then", " else"))


def _whole(span: Span, text: str) -> str:
    """A `for` in the place of an expression, in parentheses where something around would become part of its body."""
    before, after = span.file.text[: span.start].rstrip(), span.file.text[span.end :].lstrip()
    opens = not before or before[-1] in "=(,>" or re.search(r"\b(in|then|else)$", before) is not None
    closes = not after or after[0] in "),]}" or re.match(r"(end|in|fun|val|sig|type|then|else)\b|\(\*", after) is not None
    return text if opens and closes else f"({text})"


def _beside(e: T.Expr, most: int) -> str:
    """An expression as it is shown beside an operator."""
    applied = isinstance(e, T.Call) and e.function.span.start == e.span.start and operand(e.function.span) == e.function.span.text
    return short(e.span, most) if applied else shown(e.span, most)
