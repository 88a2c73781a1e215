"""The changes to try where sizes of a declaration are wrong, the likeliest first, beside the words of `explain.sizes`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from axon.base.data import replace
from axon.base.diagnostics import Change, Diagnostic, Label, Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.equation import sizes
from axon.explain.inside import decided
from axon.explain.origin import Trail
from axon.explain.sizes import explain
from axon.explain.wording import Place, Words
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, quoted_type
from axon.shapes.constraint import Equal, Problem, Reason, Side
from axon.shapes.contracts.broken import measure
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.shapes.solving.causes import Cause, Unbounded, causes, primary
from axon.shapes.solving.trouble import Clash, Hopeless, Refuted
from axon.suggest.annotations import annotated, restated
from axon.suggest.bodies import BOUND, called, trail_of, unreached_by
from axon.suggest.bounds import KnownSizes, by_parameters, indexed_by, of_named_sizes, one_range, without_range
from axon.suggest.calls import fitting_values
from axon.suggest.indices import kept
from axon.suggest.members import half_of_a_window, merged_again, together_elsewhere, variants
from axon.suggest.mend import behind, compared, last_resorts, mends, otherwise_read
from axon.suggest.mutations import node, propose, proposing, text_of
from axon.suggest.operators import by_rows
from axon.suggest.outside import compared_with, cut, reached_outside, resized, unreached
from axon.suggest.written import blanks, exchanged_at
from axon.types import typed as T
from axon.types.inference import Inference
from axon.types.show import Namer, show_type, symbols_of
from axon.types.trouble import SquareByBroadcast, Unsettled

_MAX_BESIDE = 3  # conflicts at one place that are mended with another
_MAX_SIZES = 4  # of those by which an index may be bounded
_SOON = 6  # of the changes away from where sizes clash, those that are tried before the sizes that are written


def unsettled(by: Inference, wrong: Unsettled) -> Iterator[Diagnostic]:
    """What is wrong with the sizes of a declaration, each cause by itself."""
    outcome, problem = wrong.outcome, wrong.problem
    trail = trail_of(by, wrong.params, (wrong.body,))
    namer = Namer(by.state)

    def aged(size: Dim) -> list[Symbol]:
        return sorted(by.state.dimension(size).variables, key=lambda s: s.id)

    mentioned = [s for e in problem.equals for d in (e.left, e.right) for s in aged(d)]
    mentioned += [s for u in problem.uses for s in aged(u.target)]
    mentioned += [s for o in problem.obligations for s in sorted(o.relation.variables, key=lambda s: s.id)]
    for size in mentioned:
        name = by.state.called.get(size)
        if name is not None and size not in namer.names and name not in namer.taken:
            namer.names[size] = name
            namer.taken.add(name)
    namer.plan([s for s in mentioned if s in by.state.rigid])
    # In a sentence about an index, a dimension of the same name would confuse, unless it is the user's own.
    namer.taken |= {s.name for x in outcome.troubles if isinstance(x, Refuted) for s, _ in x.ends}
    namer.plan(symbols_of(by.state, wrong.type))
    origins = tuple((by.state.dimension(dim), span) for dim, span in by.origins)

    def show(dim: Dim) -> str:
        return render(dim, namer.dim)

    def origin(side: Side, size: Dim) -> Place | None:
        found = trail.of_place(side.span, size, bool(side.about))
        if found is None:
            return None
        if found.kind == "parameter":  # without a type: what passes it on may say how large it is
            found = next((o for o in trail.sources(found) if o.kind == "annotation"), found)
        return Place(found.kind, found.span, found.clause(show))

    def divided(side: Side, raw: Dim, size: Dim) -> list[Place]:
        found = trail.cause(trail.of_place(side.span, raw, bool(side.about)), size)
        return [Place(o.kind, o.span, o.clause(show)) for o in found]

    def inside(side: Side, raw: Dim) -> list[Place]:
        made = trail.makers(side.span, raw, bool(side.about))
        return [Place(m.kind, m.span, m.why) for m in made if m.moved and m.parameter is None]

    def folds(side: Side) -> list[Place]:
        return [Place(o.kind, o.span, o.clause(show).removeprefix("since ")) for o in trail.folds(side.span)]

    words = Words(
        namer.dim,
        origins,
        tuple(by.annotations),
        tuple(by.written_fields),
        by.state.rigid.__contains__,
        origin,
        divided,
        inside,
        folds,
        partial(called, by, trail),
    )

    def access(index: Span) -> Span | None:
        found = trail.read(index)
        return None if found is None else found[0].span

    for cause in causes(outcome.troubles, problem, access, trail.values_behind):
        found = explain(cause, problem, words)
        found = replace(found, suggestions=(*restated(cause, problem, words, wrong.heading), *found.suggestions))
        branches = (*unreached("", trail, by.state), *unreached_by(by, trail)) if isinstance(cause, Clash) else ()
        labels = tuple(Label(u.condition, u.why) for u in branches[:1])  # which says more of a bound than that it is one
        kept = (label for label in found.labels if not labels or not label.text.endswith(BOUND))
        found = replace(found, labels=(*kept, *labels), suggestions=(*(u.bound for u in branches), *found.suggestions))
        if isinstance(cause, Unbounded):
            found = replace(found, **_of_index(cause, found, trail, wrong.heading, _in_scope(by, wrong)))
        if isinstance(cause, Clash):
            at = primary(cause).reason.span
            beside = [t for t in outcome.troubles if isinstance(t, Clash) and t is not cause and primary(t).reason.span == at]
            both = annotated(cause, beside[:_MAX_BESIDE], problem, words) if beside else ()
            found = replace(found, suggestions=(*both, *found.suggestions))
        if not by.suggests:
            yield replace(found, suggestions=())
            continue
        changes = _changes(by, cause, found.suggestions, problem, trail, show, _in_scope(by, wrong), wrong.heading)
        yield replace(found, suggestions=tuple(changes))


def _in_scope(by: Inference, wrong: Unsettled) -> list[str]:
    """The sizes of a declaration that have names of the user's: dimension parameters, then those in its type."""
    params = wrong.heading.params[:1] if wrong.heading is not None else ()
    given = [n.text for p in params if isinstance(p, S.DimParams) for n in p.names]
    rigid = (s for s in symbols_of(by.state, wrong.type) if s in by.state.rigid and s not in by.state.row_symbols)
    return list(dict.fromkeys((*given, *(s.name for s in rigid))))


def _changes(
    by: Inference, cause: Cause, worded: tuple[Suggestion, ...], problem: Problem, trail: Trail, show: Callable[[Dim], str],
    in_scope: Sequence[str], heading: S.Fun | None,
) -> Iterable[Suggestion]:  # fmt: skip
    """Changes to try, the likeliest first, of what stands in the source; `worded` are those of annotations and facts."""
    k = KnownSizes(trail, by.state, show)
    match cause:
        case Clash(kind="conflict" | "named"):
            blamed, ends = primary(cause), sizes(cause, problem)[:3]
            others = [e for e in reversed(cause.equals) if e is not blamed]
            stated = next((n for n, s in enumerate(worded) if s.change is Change.FACT), len(worded))
            first, far = mends([blamed.reason], trail, True), _elsewhere(by, blamed, trail)
            late = tuple(s for s in first if s.change is Change.EXCHANGED)  # more to change than one index far away
            first = tuple(s for s in first if s not in late)
            first = (*far, *first, *late) if _reshaped(blamed, trail) else (*first, *far, *late)
            first = (
                *_fitting(ends, trail, True),
                *first,
                *_resized(ends, k),
                *_from_modules(by, blamed, trail, show),
            )
            more = mends([e.reason for e in others], trail, False)
            divided = [s for s in worded if any("/" in e.text and "/" not in e.span.text for e in s.edits)]  # rarely forgotten
            turned = [s for s in far if s.change is Change.TRANSPOSED]  # in a function: whoever calls it is more often wrong
            yield from (s for s in (*first, *more[:_SOON]) if s not in turned)
            yield from (s for s in worded[:stated] if s not in divided)
            yield from blanks([blamed, *others], trail)
            yield from turned
            yield from (s for s in divided if not any("*" in e.text for e in s.edits))  # nobody means `h * (d / (3 * h))`
            yield from (*more[_SOON:], *worded[stated:])
            if first or more:
                yield from last_resorts(blamed.reason, trail)
            return
        case Clash():
            for equal in (primary(cause), *reversed(cause.equals)):
                yield from compared(equal, trail, by.state, show)
        case Refuted(also=also):
            yield from (s for s in worded if s.edits)  # a size that is written out: more than a slip of an index
            yield from reached_outside((cause, *also), k)
            for part in (cause, *also) if cause.obligation.use is None else ():  # a contract of a call
                yield from exchanged_at(part.obligation.reason.span, trail)
            worded = tuple(s for s in worded if not s.edits)
        case Unbounded((range_,), unused=False):
            yield from without_range(range_, [u for u in problem.uses if range_.symbol in u.index.variables], k)
        case Unbounded(ranges, True, again):
            if len(ranges) == 1 and (met := trail.compared_with(ranges[0].symbol)):
                yield from _of_compared(cause, met, heading, in_scope, KnownSizes(trail, by.state, show))
            else:
                yield from indexed_by(ranges[0], trail) if len(ranges) == 1 else ()
                yield from of_named_sizes(ranges, again, in_scope, trail)
        case Hopeless(facts=facts):
            for _, reason in facts:
                yield from compared_with(reason.span, k)
                yield from exchanged_at(reason.span, trail)
                yield from otherwise_read(trail, Reason(reason.span, "", (Side(reason.span, "", "an access"),)))
                yield from _asked_of(by, reason, problem, trail)
    yield from worded


def _of_compared(
    cause: Unbounded, met: Sequence[T.Expr], heading: S.Fun | None, in_scope: Sequence[str], k: KnownSizes
) -> Iterator[Suggestion]:  # fmt: skip
    """Bounds of an index that is only compared: that of the index that it meets, or else what a call gives, or the only size there
    is. To index something by it would give the comparison another meaning.
    """
    others = {s for e in met if isinstance(e, T.Dimension) for s in e.dim.variables}
    extents = [binding.range.extent for s in others if (binding := k.trail.binding(s)) is not None]
    beside = [size for size in in_scope if size in {k.show(k.state.dimension(extent)) for extent in extents}]
    if not beside and heading is not None:
        yield from by_parameters(heading, cause, k.trail)
    if beside or len(in_scope) == 1:
        yield from of_named_sizes(cause.ranges, cause.again, beside or in_scope, k.trail)


def _resized(ends: tuple[Equal, Dim, Dim], k: KnownSizes) -> Iterator[Suggestion]:
    """Changes of what makes one of the two sizes of an equation for it to be the other."""
    (equal, left, right), trail = ends, k.trail
    yield from one_range(equal.reason, (left, right), k)
    for side, raw, own, needed in zip(equal.reason.sides, (equal.left, equal.right), (left, right), (right, left), strict=False):
        origin = trail.of_place(side.span, raw, bool(side.about))
        if origin is not None:
            yield from resized(origin, own, needed, k)
    if len(equal.reason.sides) == 2:
        one, other = equal.reason.sides
        for side, beside, raw, own, needed in ((one, other, equal.right, left, right), (other, one, equal.left, right, left)):
            origin = trail.of_place(beside.span, raw, bool(beside.about))
            if origin is not None and origin.kind == "slice":
                yield from cut(side, own, needed, k)
    yield from _fitting(ends, trail, False)


def _fitting(ends: tuple[Equal, Dim, Dim], trail: Trail, idle: bool) -> Iterator[Suggestion]:
    """Other values of the sizes that are needed, those that nothing uses (`idle`) or others."""
    equal, left, right = ends
    if len(equal.reason.sides) == 2:
        one, other = equal.reason.sides
        yield from fitting_values(other, one, right, left, trail, idle)
        yield from fitting_values(one, other, left, right, trail, idle)


def _elsewhere(by: Inference, blamed: Equal, trail: Trail) -> tuple[Suggestion, ...]:
    """Changes of what the two sizes of an equation come from: accesses here, and in the functions that make or ask for one."""
    found: list[Suggestion] = []
    for side, raw in zip(blamed.reason.sides, (blamed.left, blamed.right), strict=False):
        origin = trail.of_place(side.span, raw, bool(side.about))
        found += behind(origin, trail) if origin is not None else ()
        for access, position in trail.accesses(side.span, raw, bool(side.about)):
            found += kept(access, position)
        for maker in trail.makers(side.span, raw, bool(side.about)):
            found += maker.changes()
    callee = called(by, trail, blamed)
    within = decided(callee) if callee is not None else None
    return (*found, *(within[0].changes(within[1]) if within is not None else ()))


def _from_modules(by: Inference, blamed: Equal, trail: Trail, show: Callable[[Dim], str]) -> Iterator[Suggestion]:
    """Other functions of the modules that are used: a variant of one that a size has passed, or of all such, and what merges
    parts again."""
    for side, raw in zip(blamed.reason.sides, (blamed.left, blamed.right), strict=False):
        passed = trail.through(side.span, raw, bool(side.about))
        behind_it = [trail.at(o.span) for o in trail.sources(trail.of_place(side.span, raw, bool(side.about)))]
        called = (e.function.span for e in behind_it if isinstance(e, T.Call))
        calls = dict.fromkeys((*(function.span for function in passed), *called))
        yield from together_elsewhere([list(variants(span, by.modules)) for span in calls])
        yield from (s for span in calls for s in variants(span, by.modules))
        for function in passed:
            yield from half_of_a_window(function, by.modules, by.state, show)
    for side in blamed.reason.sides:
        at = trail.at(side.span)
        yield from merged_again(at, by.modules, by.state) if at is not None else ()


def _asked_of(by: Inference, reason: Reason, problem: Problem, trail: Trail) -> Iterator[Suggestion]:
    """Changes in the functions that make what a call is given whose contract is to hold at a place."""
    for obligation in problem.obligations:
        for _, variable in obligation.subject if obligation.reason.span == reason.span else ():
            found = measure(variable, problem.equals)
            for maker in trail.makers(found.side.span, found.raw, bool(found.side.about)) if found is not None else ():
                yield from maker.changes()


def _reshaped(equal: Equal, trail: Trail) -> bool:
    """Whether a size is made by a reshape, of a split or of several: the mistake is more likely there than where it is noticed."""
    sides = zip(equal.reason.sides, (equal.left, equal.right), strict=False)
    origins = (trail.of_place(side.span, raw, bool(side.about)) for side, raw in sides)
    return any(origin is not None and origin.kind in ("split", "flatten") for origin in origins)


def _of_index(
    cause: Unbounded, found: Diagnostic, trail: Trail, heading: S.Fun | None, in_scope: Sequence[str]
) -> dict[str, Any]:  # fmt: skip
    """What else there is to say of an index without a range: part of a flattening, or used in a local function alone."""
    symbol = cause.ranges[0].symbol
    if local := trail.bounded_locally(symbol):
        note = f"its use in `{local}` says nothing of its range, since `{local}` need not be called"
        return {"notes": (*found.notes, note)}
    if trail.in_product(symbol):
        help_ = "the indices of a flattening take no bound: build the tensor with `for i < n, j < m => …`, and flatten that"
        return {"suggestions": (Suggestion(help_),)}
    if cause.unused and len(cause.ranges) == 1 and trail.compared_with(symbol):
        label = Label(cause.ranges[0].span, f"`{symbol.name}` is compared, which does not say how far it runs")
        by = f"a size such as {_either(in_scope[:_MAX_SIZES])}, or by one" if in_scope else "a size"
        words = f"bound it, `{symbol.name} < …`, by {by} that calls give"
        return {"labels": (label, *found.labels[1:]), "notes": (*found.notes, words), "suggestions": ()}
    if cause.unused and not in_scope and heading is not None:
        return {"suggestions": (*by_parameters(heading, cause, trail), *found.suggestions)}
    if cause.unused and in_scope:
        names, sizes = [r.symbol.name for r in cause.ranges], in_scope[:_MAX_SIZES]
        if len(names) == 1:
            text = f"index something with it, or bound it by a size: {_either([f'{names[0]} < {size}' for size in sizes])}"
        else:
            bounds = " and ".join(f"`{n} < …`" for n in names)
            text = f"index something with them, or bound them by sizes such as {_either(sizes)}: {bounds}"
        return {"suggestions": (Suggestion(text),)}
    return {}


@proposing
def not_square(by: Inference, wrong: SquareByBroadcast) -> Iterator[Suggestion]:
    """The indices of an operation that alone makes a parameter square, or the annotation that says that it is."""
    trail, reason = trail_of(by, wrong.params, (wrong.body,)), wrong.stretch.reason
    for e in trail.expressions():
        if isinstance(e, T.Binary) and tuple(s.span for s in reason.sides) == (e.left.span, e.right.span):
            yield from by_rows(e, reason, trail)
    own, namer = node(wrong.param.span, S.PatternName), Namer(by.state)
    namer.plan(symbols_of(by.state, wrong.scheme.type))
    new = S.PatternTyped(own, quoted_type(show_type(namer, wrong.tensor)), span=NEW)
    yield propose(f"say so, if it is meant: `({text_of(new, own.span)})`", None, (own, new))


def _either(texts: Sequence[str]) -> str:
    shown = [f"`{text}`" for text in texts]
    return " or ".join((", ".join(shown[:-1]), shown[-1]) if len(shown) > 1 else shown)
