"""AX0306: sizes of a function that its arguments do not tell, and how they could."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.grammar.rewrite import NEW, tree
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.suggest.bodies import trail_of
from axon.suggest.bounds import flattened_later, parameter, parts_bounded
from axon.suggest.mutations import node, propose, proposing, text_of
from axon.types.inference import Binding, Inference
from axon.types.show import Namer, show_type, symbols_of
from axon.types.trouble import Unanchored, Undetermined
from axon.types.unify import State, subtypes

_LETTERS = "kmnpqrst"  # of dimension parameters to add
_MAX_UNTOLD = 4  # indices that are labelled


def undetermined(by: Inference, wrong: Undetermined) -> Diagnostic:
    state, scheme, span, missing = by.state, wrong.scheme, wrong.span, set(wrong.missing)
    namer = Namer(state)
    shown = show_type(namer, scheme.type)
    trail = trail_of(by, wrong.params, (wrong.body,))
    open_ = _running_so_far(by, missing, span)
    labels = (Label(span, "a call could not tell"), *_untold(by, missing, open_, span, namer))
    used = {s for part in subtypes(state, scheme.type) for s in symbols_of(state, part)}
    idle = [s.name for s in scheme.explicit if s not in used]
    parts = (
        *parts_bounded(span, idle, trail),
        *flattened_later(span, idle or [s.name for s in scheme.explicit], trail),
        *_in_halves(by, missing, span),
    )
    called = list(dict.fromkeys(s.name or namer.dim(s) for s in wrong.missing))  # two indices `c` are two sizes of one name
    found = _not_found(called, labels, f"the inferred type is {shown}", span)
    helps = [*parts, *found.suggestions]
    if any(trail.in_product(symbol) for symbol, _ in open_):
        text = "the indices of a flattening take no bound: build the tensor with a bound for each part, and flatten that"
        helps.append(Suggestion(text))
    elif open_:
        letter = next((c for c in _LETTERS if c not in called), _LETTERS[0])
        text = f"`{open_[-1][0].name} < {letter}` with `{span.text} {{{letter}}}`"
        helps.append(Suggestion(f"bound an index of each split by a dimension parameter, which calls give: {text}"))
    return replace(found, suggestions=tuple(helps))


def unanchored(state: State, wrong: Unanchored) -> Diagnostic:
    label = Label(wrong.place, "nothing that is passed has this size")
    shown = show_type(Namer(state), wrong.scheme.type)
    return _not_found([s.name for s in wrong.missing], (label,), f"the inferred type is {shown}", wrong.span)


def _not_found(names: list[str], labels: tuple[Label, ...], note: str, function: Span) -> Diagnostic:
    """AX0306: sizes of a function that its arguments do not tell."""
    listed = ", ".join(f"`{n}`" for n in names)
    message = f"the size{'s' * (len(names) > 1)} {listed} cannot be found from the arguments"
    return Diagnostic("AX0306", message, labels, (note,), tuple(_as_parameters(names, function)))


@proposing
def _as_parameters(names: list[str], function: Span) -> Iterable[Suggestion]:
    """Dimension parameters for sizes that no argument tells: one of them, else all."""
    for chosen in dict.fromkeys([*((n,) for n in names), tuple(names)]):
        listed = ", ".join(chosen)
        words = f"make {'it a dimension parameter' if len(chosen) == 1 else 'them parameters'}: `{{{listed}}}`"
        yield propose(words, None, parameter(function, *chosen), grown=True)


@proposing
def _in_halves(by: Inference, missing: set[Symbol], function: Span) -> Iterator[Suggestion]:
    """`n - n / 2` for `(n + 1) / 2`, which is the same: with n / 2 beside it, it tells n."""
    for dim, place in by.origins:
        for v in by.state.dimension(dim).variables & missing if place.file is function.file else ():
            if by.state.dimension(dim) == (Dim.of(v) + 1) // 2:
                written = node(place, S.DimBinary)
                name = next(d for d in tree(place.file).within(place) if isinstance(d, S.DimName))
                half = S.DimBinary("/", name, S.DimInt(2, span=NEW), span=NEW)
                rest = S.DimBinary("-", name, half, span=NEW)
                words = f"write `{place.text}` as `{text_of(rest, place)}`: with the other sizes, that tells `{v.name}`"
                yield propose(words, None, (written, rest))


def _running_so_far(by: Inference, sizes: set[Symbol], function: Span) -> list[tuple[Symbol, Binding]]:
    """The indices of a function, without a bound, that run as far as one of some sizes."""
    here = ((s, b) for s, b in by.binders.items() if b.span.file is function.file and b.span.start > function.start)
    return [(s, b) for s, b in here if not b.range.stated and by.state.dimension(b.range.extent).symbol in sizes]


def _untold(
    by: Inference, missing: set[Symbol], open_: list[tuple[Symbol, Binding]], function: Span, namer: Namer
) -> Iterator[Label]:
    """Where sizes that no argument tells are written, and the indices that run so far, with other names that the type has."""
    for symbol, binding in open_[:_MAX_UNTOLD]:
        shown = render(by.state.dimension(binding.range.extent), namer.dim)
        other = f": {shown} in the inferred type" if shown != symbol.name else ""
        yield Label(binding.span, f"nothing says how far `{symbol.name}` runs{other}")
    for dim, place in by.origins:
        size = by.state.dimension(dim)
        if size.symbol is None and size.variables & missing and place.file is function.file and place.start > function.start:
            names = " and ".join(f"`{s.name}`" for s in sorted(size.variables & missing, key=lambda s: s.id))
            yield Label(place, f"an argument of this size does not tell {names}")
            return
