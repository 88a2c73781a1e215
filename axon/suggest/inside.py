"""Changes that keep accesses inside their tensors and give indices a range, as edits to try: bounds, other indices, padding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from axon.base.diagnostics import Change, Edit, Suggestion
from axon.base.element import FLOAT, INT
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.origin import Trail
from axon.shapes.constraint import Range, Use
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from axon.suggest import precedence
from axon.types import builtins
from axon.types import typed as T
from axon.types.type import Row, Tensor
from axon.types.unify import State

Show = Callable[[Dim], str]
_BOUND = "state the bound: "
_FOR = " for "  # between an access that reads zeros outside and the bound that it then needs
_LETTERS = "khmnpqrst"  # of dimension parameters to add


@dataclass(frozen=True, slots=True)
class Unreached:
    """A branch that is never taken since its condition holds wherever an index runs, and the bound with which it would be."""

    condition: Span
    why: str
    bound: Suggestion


def reached_outside(
    use: Use, reach: Dim, size: Dim, ends: Sequence[tuple[Symbol, Dim]], low: bool, trail: Trail, state: State, show: Show
) -> Iterator[Suggestion]:
    """An access by `use` reaches index `reach`, which a dimension of this size does not have; `low`: it is below 0."""
    found = trail.read(use.span)
    if found is None:
        return
    access = found[0]
    if (divided := precedence.quotient(use.span)) is not None:
        text = f"a quotient of numbers is rounded down, to 0: `{_replaced(access, use.span, divided)}`"
        yield Suggestion(text, (Edit(use.span, divided),), change=Change.PARENTHESES)
    yield from (
        _before(access, use, size, trail, state, show) if low else _beyond(access, use, reach, size, ends, trail, state, show)
    )
    bounds = [] if low else _smaller(access, use, reach, size, ends, trail)
    whole = [len(ends) > 1 and _runs_elsewhere(s, access, trail) for s, _ in bounds]
    yield from (
        s for (i, e), last in zip(bounds, whole, strict=True) if not last for s in _bounded(i, e, access, trail, state, show)
    )
    zero = _zero(access, state)
    if zero is not None and access.default is None and ends:
        alike = [a for a in _alike(access, use.index, trail) if a.default is None]
        for several in ([access], alike)[: 1 + (len(alike) > 1)]:
            edits = tuple(Edit(Span(a.span.file, a.span.end - 1, a.span.end - 1), f" | {zero}") for a in several)
            listed = " and ".join(f"`{a.span.text[:-1]} | {zero}]`" for a in several)
            yield Suggestion(f"read zeros outside: {listed}", edits, change=Change.ZEROS)
        yield from _padded_below(access, use, size, ends, zero, trail, state, show) if low else ()
    yield from (s for (i, e), last in zip(bounds, whole, strict=True) if last for s in _bounded(i, e, access, trail, state, show))


def _before(access: T.Access, use: Use, size: Dim, trail: Trail, state: State, show: Show) -> Iterator[Suggestion]:
    """Changes of an index that is below 0."""
    yield from _guarded(access, use.index, trail)
    if (turned := exchanged_operands(use.span)) is not None:
        text = f"exchange the operands: `{_replaced(access, use.span, turned)}`"
        yield Suggestion(text, (Edit(use.span, turned),), change=Change.SLIP)
    elif use.index.constant is not None:
        text = show(size + use.index)
        edits = (Edit(use.span, text), *_named(size, access, trail, state, show))
        base = " ".join(access.base.span.text.split())
        yield Suggestion(f"counted from the end, that is `{base}[{text}]`", edits)


def _beyond(
    access: T.Access, use: Use, reach: Dim, size: Dim, ends: Sequence[tuple[Symbol, Dim]], trail: Trail, state: State, show: Show
) -> Iterator[Suggestion]:
    """Changes of an index that passes the end of a dimension, other than that its parts run less far."""
    shift = (reach - size + 1).constant
    yield from _stricter(access, [s for s, _ in ends], trail)
    names = {s: s.name if s in dict(ends) else show(Dim.of(s)) for s in use.index.variables}
    if shift is not None and len(_rising(use, ends)) < max(len(ends), 1):  # `x[n]`, `x[n - i]`
        computed, written = render(use.index - shift, names.__getitem__), f"{' '.join(use.span.text.split())} - {shift}"
        text = min(computed, written, key=len)  # multiplied out, `(i + 1) % (n + 1)` is long
        shifted = _replaced(access, use.span, text)
        others = [" ".join(a.span.text.split()) for a in _alike(access, use.index, trail) if a is not access]
        if shifted not in others:  # else it would be read twice
            yield Suggestion(f"indices count from 0: `{shifted}`", (Edit(use.span, text),), change=Change.SLIP)
    for guard in use.context.guards:  # `else y[i - n]` beside `if i < n then x[i]`
        least = _least(guard, use.index)
        if least is not None and least.constant != 0:
            names |= {s: show(Dim.of(s)) for s in least.variables}
            text = render(use.index - least, names.__getitem__)
            shown = f"count from {show(least)}: `{_replaced(access, use.span, text)}`"
            yield Suggestion(shown, (Edit(use.span, text),), change=Change.SLIP)
    for symbol, extent in ends:  # as many strides as there is room for
        binding = trail.binding(symbol)
        split = use.index.linear_in(symbol)
        if split is not None and split[0] != Dim.of(1) and binding is not None and binding.range.stated:
            stride, first = split[0], reach - split[0] * (extent - 1)  # the other parts reach so far
            number = stride.constant
            if number is None or number > 1:
                most = (size - 1 - first) // stride + 1 if number is None else (size - first + number - 1) // stride
                yield from _bounded(symbol, most, access, trail, state, show)


def _padded_below(
    access: T.Access, use: Use, size: Dim, ends: Sequence[tuple[Symbol, Dim]], zero: str, trail: Trail, state: State, show: Show
) -> Iterator[Suggestion]:
    """`x[i + j - 1 | 0.0]` for `i < n` where `x[i + j - 1]` says how far `i` runs: read with zeros, it would say nothing."""
    for symbol, _ in ends:
        binding = trail.binding(symbol)
        named = size.variables <= state.rigid and not is_called(symbol, size, show)
        if binding is not None and not binding.range.stated and named and not any(trail.indexed_elsewhere(symbol, access)):
            zeros = Edit(Span(access.span.file, access.span.end - 1, access.span.end - 1), f" | {zero}")
            bound = bound_edit(binding.span, symbol.name, show(size), False)
            text = f"read zeros outside: `{access.span.text[:-1]} | {zero}]`{_FOR}`{symbol.name} < {show(size)}`"
            yield Suggestion(text, (zeros, bound), change=Change.ZEROS)


def _rising(use: Use, ends: Sequence[tuple[Symbol, Dim]]) -> list[tuple[Symbol, Dim]]:
    """The indices with each step of which an index takes one, too."""
    return [(s, e) for s, e in ends if use.index.linear_in(s) == (Dim.of(1), use.index - Dim.of(s))]


def _smaller(
    access: T.Access, use: Use, reach: Dim, size: Dim, ends: Sequence[tuple[Symbol, Dim]], trail: Trail
) -> list[tuple[Symbol, Dim]]:
    """Bounds for the indices of an access with which it stays inside: for those whose bounds are computed, if any are."""
    excess = reach - size + 1
    bounds = [(s, extent - excess) for s, extent in reversed(_rising(use, ends))]
    bounds = [(s, e) for s, e in bounds if (e.constant or 0) > 1 or any(c > 0 for m, c in e.mapping.items() if m)]  # not `2 - n`
    computed = [s for s, _ in ends if _computed_bound(s, trail)]
    return [(s, e) for s, e in bounds if s in computed or not computed]


def _computed_bound(symbol: Symbol, trail: Trail) -> bool:
    binding = trail.binding(symbol)
    return binding is not None and binding.range.stated and re.fullmatch(r"\w+\s*<\s*\w+", binding.span.text.strip()) is None


def _runs_elsewhere(symbol: Symbol, access: T.Access, trail: Trail) -> bool:
    """Whether another tensor's dimension is what an index runs over, a kernel's: a smaller bound would leave some of it out."""
    binding = trail.binding(symbol)
    found = trail.range(symbol) if binding is not None and not binding.range.stated else None
    return found is not None and found.base is not None and found.base.span.text != access.base.span.text


def _alike(access: T.Access, index: Dim, trail: Trail) -> list[T.Access]:
    """The accesses of the same tensor by an index which differs in its number alone, as far as it is not by a name alone."""
    found: dict[Span, T.Access] = {}
    for other, _, own in trail.indices(Span(access.span.file, 0, len(access.span.file.text))):
        if other.base.span.text == access.base.span.text and (own - index).constant is not None and own.symbol is None:
            found[other.span] = other
    return [found[span] for span in sorted(found, key=lambda s: s.start)]


def _guarded(access: T.Access, index: Dim, trail: Trail) -> Iterator[Suggestion]:
    """`if i >= 1 then x[i - 1]` where some other comparison of `i` stands."""
    least = -index.mapping.get((), 0)
    symbols = [v for v in index.variables if index == Dim.of(v) - least]
    for branch in trail.expressions() if symbols and least > 0 else ():
        test = branch.condition if isinstance(branch, T.If) else None
        if not isinstance(branch, T.If) or not isinstance(test, T.Binary) or test.op not in ("lt", "le", "gt", "ge"):
            continue
        about = isinstance(test.left, T.Dimension) and test.left.dim.symbol in symbols
        if about and branch.then.span.start <= access.span.start and access.span.end <= branch.then.span.end:
            text = f"{symbols[0].name} >= {least}"
            yield Suggestion(f"make the guard `{text}`", (Edit(test.span, text),), change=Change.SLIP)


def compared_with(at: Span, trail: Trail, show: Show) -> Iterator[Suggestion]:
    """`if i < n then a[i]` for `if i < m`: the size of what the branch reads by an index that is compared with another."""
    found = trail.read(at)
    size = trail.size(found[0].base, found[1]) if found is not None else None
    for branch in trail.expressions() if size is not None else ():
        test = branch.condition if isinstance(branch, T.If) else None
        if not isinstance(branch, T.If) or not isinstance(test, T.Binary) or test.op != "lt" or test.left.span.text != at.text:
            continue
        if size is not None and branch.then.span.start <= at.start < branch.then.span.end and test.right.span.text != show(size):
            yield Suggestion(f"make the condition `{at.text} < {show(size)}`", (Edit(test.right.span, show(size)),))


def _least(guard: Relation, index: Dim) -> Dim | None:
    """What an index is at least by a guard about it alone."""
    split = guard.slack.linear_in(index.symbol) if index.symbol is not None and guard.op not in ("=", "<>") else None
    return -split[1] if split is not None and split[0] == Dim.of(1) and index.symbol not in split[1].variables else None


def exchanged_operands(index: Span) -> str | None:
    """`b - a` for the index `a - b`."""
    found = re.fullmatch(r"([A-Za-z_]\w*)(\s*-\s*)([A-Za-z_]\w*)", index.text.strip())
    return f"{found[3]}{found[2]}{found[1]}" if found is not None else None


def together(ways: Sequence[Sequence[Suggestion]]) -> Iterator[Suggestion]:
    """A bound for each of the dimensions in which an access leaves its tensor; `ways` are the changes for each by itself."""
    bounds = [[s for s in way if s.change is Change.BOUND] for way in ways]
    for first, *others in zip(*bounds, strict=False):
        listed = " and ".join((first.text, *(s.text.removeprefix(_BOUND) for s in others)))
        yield replace(first, text=listed, edits=_side_by_side(e for s in (first, *others) for e in s.edits))


def padded_together(ways: Sequence[Sequence[Suggestion]]) -> Iterator[Suggestion]:
    """Zeros outside a tensor that an access leaves in several dimensions, with the bound that each then needs."""
    padded = [[s for s in way if s.change is Change.ZEROS and _FOR in s.text] for way in ways]
    for first, *others in zip(*padded, strict=False):
        listed = " and ".join((first.text, *(s.text.rpartition(_FOR)[2] for s in others)))
        yield replace(first, text=listed, edits=_side_by_side(e for s in (first, *others) for e in s.edits))


def _side_by_side(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits of several changes as those of one: between bounds that are written next to each other, one comma."""
    out: list[Edit] = []
    for edit in sorted(dict.fromkeys(edits), key=lambda e: (e.span.start, e.span.end)):
        if out and out[-1].span.end == edit.span.start and out[-1].text.endswith(",") and edit.text.startswith(","):
            out[-1] = replace(out[-1], text=out[-1].text[:-1])
        out.append(edit)
    return tuple(out)


def _stricter(access: T.Access, indices: list[Symbol], trail: Trail) -> Iterator[Suggestion]:
    """A guard around the access with `<` for `<=`."""
    for branch in trail.expressions():
        if not isinstance(branch, T.If) or not branch.then.span.start <= access.span.start < branch.then.span.end:
            continue
        for test in trail.expressions():
            within = branch.condition.span.start <= test.span.start and test.span.end <= branch.condition.span.end
            if within and isinstance(test, T.Binary) and test.op in ("le", "ge"):
                sides = [s for s in (test.left, test.right) if isinstance(s, T.Dimension) and s.dim.symbol in indices]
                gap = Span(test.span.file, test.left.span.end, test.right.span.start)
                if sides and gap.text.count("=") == 1:
                    text = gap.text.replace("=", "")
                    shown = f"{test.left.span.text}{text}{test.right.span.text}"
                    yield Suggestion(f"make the guard `{shown}`", (Edit(gap, text),), change=Change.SLIP)


def unreached(function: str, trail: Trail, state: State) -> Iterator[Unreached]:
    """Branches of `if i < n then … else y[i - n]` under an index that runs to n: nothing takes them, unless it runs further. The
    `function` is that in which they stand, or none, where that goes without saying.
    """
    for branch in trail.expressions():
        test = branch.condition if isinstance(branch, T.If) else None
        if not isinstance(branch, T.If) or not isinstance(test, T.Binary) or test.op != "lt":
            continue
        symbol = test.left.dim.symbol if isinstance(test.left, T.Dimension) else None
        end = test.right.dim if isinstance(test.right, T.Dimension) else None
        binding = trail.binding(symbol) if symbol is not None else None
        if symbol is None or end is None or binding is None or not binding.range.stated or binding.range.extent != end:
            continue
        for access, axis, index in trail.indices(branch.otherwise.span):
            shape = trail.shape(access.base.type)
            size = shape[axis] if shape is not None and axis < len(shape) else None
            split = index.linear_in(symbol)
            if isinstance(size, Dim) and split is not None and split[0] == Dim.of(1) and split[1]:
                bound = state.dimension(size) - split[1]
                if bound.variables <= state.rigid and not is_called(symbol, bound, render):
                    text = f"{symbol.name} < {render(bound)}"
                    where = f"in `{function}`, " if function else ""
                    why = f"{where}this holds for every `{symbol.name}`, so the other branch is never taken"
                    edit = bound_edit(binding.span, symbol.name, render(bound), True)
                    yield Unreached(test.span, why, Suggestion(f"{where}make the bound `{text}`", (edit,)))


def without_range(range_: Range, uses: Sequence[Use], trail: Trail, state: State, show: Show) -> Iterator[Suggestion]:
    """Bounds for an index of which nothing says how far it runs: the sizes of what it moves along."""
    for use in uses:
        access = trail.read(use.span)
        if access is None:
            continue
        target = state.dimension(use.target)
        split = use.index.linear_in(range_.symbol)
        if split is not None and split[0].constant == 1:
            yield from _bounded(range_.symbol, target, access[0], trail, state, show)
        for quotient in use.index.quotients:
            if quotient.dividend.symbol == range_.symbol and use.index == Dim({(quotient,): 1}):
                yield from _bounded(range_.symbol, target * quotient.divisor, access[0], trail, state, show)


def indexed_by(range_: Range, trail: Trail) -> Iterator[Suggestion]:
    """An index that indexes nothing for another name in an access in its scope, a similar one if there is any, the last first."""
    found: list[tuple[bool, int, Suggestion]] = []
    name = range_.symbol.name
    for access in trail.expressions():
        if not isinstance(access, T.Access) or all(s != range_.symbol for s, _ in access.context.indices):
            continue
        values = [v.span for s in access.subscripts if isinstance(s, T.At) for v in s.values]
        for span in values:
            for word in re.finditer(r"[A-Za-z_]\w*", span.text):
                at = Span(span.file, span.start + word.start(), span.start + word.end())
                similar = len(word[0]) > 1 or len(name) > 1
                similar = similar and (word[0].startswith(name) or name.startswith(word[0]) or name.endswith(word[0]))
                text = f"index by it: `{_replaced(access, at, name)}`"
                found.append((similar, at.start, Suggestion(text, (Edit(at, name),))))
    alike = [f for f in found if f[0]]
    yield from (s for _, _, s in sorted(alike or found, key=lambda f: -f[1]))


def parameter_edit(function: Span, listed: str) -> Edit:
    """The edit that gives a function, whose name stands at a place, more dimension parameters."""
    given = re.match(r"\s*\{([^}]*)\}", function.file.text[function.end :])
    at = function.end + given.end(1) if given is not None else function.end
    return Edit(Span(function.file, at, at), f", {listed}" if given is not None else f" {{{listed}}}")


def parts_bounded(function: Span, idle: Sequence[str], trail: Trail) -> Iterator[Suggestion]:
    """Bounds for the parts of a dimension that an access splits, `x[(p, q)]`, the last first: by a dimension parameter, an idle one
    if there is any.
    """
    taken = set(re.findall(r"\w+", function.file.text))
    name = idle[0] if idle else next((c for c in _LETTERS if c not in taken), None)
    for access in trail.expressions() if name is not None else ():
        for subscript in access.subscripts if isinstance(access, T.Access) else ():
            for value in reversed(subscript.values if isinstance(subscript, T.At) and subscript.sizes else ()):
                symbol = value.dim.symbol if isinstance(value, T.Dimension) else None
                binding = trail.binding(symbol) if symbol is not None else None
                if symbol is not None and binding is not None and not binding.range.stated and not trail.in_product(symbol):
                    bound = bound_edit(binding.span, symbol.name, str(name), False)
                    more = () if idle else (parameter_edit(function, str(name)),)
                    parameter = "" if idle else f"make it a dimension parameter `{{{name}}}` and "
                    yield Suggestion(
                        f"say how the dimension is split: {parameter}bound an index, `{symbol.name} < {name}`", (bound, *more)
                    )


def flattened_later(function: Span, idle: Sequence[str], trail: Trail) -> Iterator[Suggestion]:
    """`for (i, j) (y, z) => x[(i, y), (j, z)]` in two steps: with bounds for the parts of what is split, then flat."""
    taken = set(re.findall(r"\w+", function.file.text))
    bound = idle[0] if idle else next((c for c in "rpkhmnqst" if c not in taken), None)
    name = next((n for n in ("parts", "pieces", "whole") if n not in taken), None)
    last = {v.name for v in _last_parts(trail)}
    for e in trail.expressions() if bound is not None and name is not None else ():
        groups = [[s.name for s in b.symbols] for b in e.binders if isinstance(b, T.Indices)] if isinstance(e, T.For) else []
        names = [n for group in groups for n in group]
        whole = isinstance(e, T.For) and len(groups) == len(e.binders) and not any("<" in s.text for s in (_header(e),))
        if not isinstance(e, T.For) or not whole or not last & set(names) or max(map(len, groups)) < 2:
            continue
        plain = " ".join(n for n in names if n not in last)
        bounds = ", ".join(f"{n} < {bound}" for n in names if n in last)
        flat = " ".join(group[0] if len(group) == 1 else f"({', '.join(group)})" for group in groups)
        order = ", ".join(n for n in (*(n for n in names if n not in last), *(n for n in names if n in last)))
        made = f"let val {name} = for {plain}, {bounds} => {e.body.span.text} in for {flat} => {name}[{order}] end"
        more = () if idle else (parameter_edit(function, str(bound)),)
        given = "" if idle else f" make it a dimension parameter `{{{bound}}}`, and"
        shown = f"`for {plain}, {bounds} => …`, then `for {flat} => {name}[{order}]`"
        yield Suggestion(f"say how far the parts run:{given} build {shown}", (Edit(e.span, made), *more), asks=True)


def _header(e: T.For) -> Span:
    return Span(e.span.file, e.span.start, e.body.span.start)


def _last_parts(trail: Trail) -> Iterator[Symbol]:
    """Of every dimension that an access splits, the index of its last part, where that has no bound."""
    for access in trail.expressions():
        for subscript in access.subscripts if isinstance(access, T.Access) else ():
            value = subscript.values[-1] if isinstance(subscript, T.At) and subscript.sizes else None
            symbol = value.dim.symbol if isinstance(value, T.Dimension) else None
            binding = trail.binding(symbol) if symbol is not None else None
            if symbol is not None and binding is not None and not binding.range.stated:
                yield symbol


def _bounded(symbol: Symbol, bound: Dim, access: T.Access, trail: Trail, state: State, show: Show) -> Iterator[Suggestion]:
    binding = trail.binding(symbol)
    text = show(bound)
    if binding is None or "(-" in text or text.startswith("-") or trail.in_product(symbol) or is_called(symbol, bound, show):
        return
    naming = _named(bound, access, trail, state, show)
    edit = bound_edit(binding.span, symbol.name, text, binding.range.stated)
    annotated = "".join(f"annotate `{e.text}` and " for e in naming)
    yield Suggestion(f"{annotated}{_BOUND}`{symbol.name} < {text}`", (edit, *naming), change=None if naming else Change.BOUND)


def is_called(index: Symbol, bound: Dim, show: Show) -> bool:
    """Whether a bound would speak of the index itself, `n < n - 1`: where it has the name of a size."""
    return any(show(Dim.of(v)) == index.name for v in bound.variables)


def bound_edit(span: Span, name: str, bound: str, stated: bool) -> Edit:
    """The edit that bounds an index among its binders; `span` is its name, with its bound if it is `stated`."""
    text = f"{name} < {bound}"
    if stated:
        return Edit(span, text)
    source = span.file
    listed = re.search(rf"\b({'|'.join(builtins.REDUCTIONS)})(?=((?:\s+[a-z_]\w*)+\s+)$)", source.text[: span.start])
    if listed is not None and listed[2].split()[0] != "for":  # `sum b t => …` is `sum for b, t < n => …`
        before = f" for{listed[2].rstrip()}, " if listed[2].strip() else " for "
        after = source.text[span.end :].lstrip()
        return Edit(Span(source, listed.end(), span.end), before + text + ("" if _ends(after) else ","))
    before, after = source.text[: span.start].rstrip(), source.text[span.end :].lstrip()
    word = re.search(r"\w*$", before)
    head = word[0] if word is not None else ""
    if head in builtins.REDUCTIONS:
        text = f"for {text}"
    elif head not in ("for", "scan") and not before.endswith(","):
        return Edit(Span(source, len(before), span.end), f", {text}" + ("" if _ends(after) else ","))
    return Edit(span, text + ("" if _ends(after) else ","))


def _ends(after: str) -> bool:
    return after.startswith(("=>", ",", "where"))


def _named(size: Dim, access: T.Access, trail: Trail, state: State, show: Show) -> tuple[Edit, ...]:
    """The annotation of the parameter that is accessed, if it takes one to give a size a name."""
    if all(s in state.rigid for s in size.variables):
        return ()
    base, shape = access.base, trail.shape(access.base.type)
    span = trail.unannotated(base.symbol) if isinstance(base, T.Variable) else None
    if span is None or shape is None or any(isinstance(i, Row) for i in shape):
        return ()
    listed = ", ".join(show(state.dimension(i)) for i in shape if isinstance(i, Dim))
    return (Edit(span, f"({span.text} : 'a[{listed}])"),)


def _zero(access: T.Access, state: State) -> str | None:
    t = state.prune(access.base.type)
    allowed = state.allowed_of(t.element) if isinstance(t, Tensor) else frozenset()
    return "0.0" if allowed and allowed <= FLOAT else "0" if allowed and allowed <= INT else None


def _replaced(access: T.Access, at: Span, text: str) -> str:
    """The text of an access with one index changed."""
    whole = access.span
    return " ".join((whole.text[: at.start - whole.start] + text + whole.text[at.end - whole.start :]).split())
