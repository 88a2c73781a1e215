"""A warning: dimensions of a parameter that are known by their product alone, which hides mistakes.

`flat[n, (i, j, k)]` of a `flat` that is made of x[n, i, j, k] asks of x only that its last three dimensions have so many elements
together as the other sizes say: whoever passes them in another order is not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.names import Symbol
from axon.grammar import syntax as S
from axon.shapes.dimension import Dim, Quotient
from axon.types.show import Namer, show_type, symbols_of
from axon.types.type import Function, Scheme, Tensor, Type
from axon.types.unify import State


def known_by_products(state: State, scheme: Scheme, params: Sequence[S.Pattern]) -> Iterator[Diagnostic]:
    """Of every parameter without an annotation of which the function's type knows some dimensions only by their product."""
    t: Type = scheme.type
    for param in params:
        if not isinstance(t, Function):
            return
        given = state.prune(t.param)
        if isinstance(param, S.PatternName) and isinstance(given, Tensor):
            namer = Namer(state)
            namer.plan(symbols_of(state, scheme.type))
            yield from _of(state, param, given, namer)
        t = state.prune(t.result)


def _of(state: State, param: S.PatternName, t: Tensor, namer: Namer) -> Iterator[Diagnostic]:
    shape = state.shape(t.shape)
    for n, item in enumerate(shape):
        found = _product(item) if isinstance(item, Dim) else None
        if found is None:
            continue
        factors, divisor = found
        own = [i for i, other in enumerate(shape) if isinstance(other, Dim) and other.symbol in divisor]
        if len(own) != len(divisor):
            continue
        product = " * ".join(namer.dim(f) for f in factors)
        count = _COUNTS.get(len(own) + 1, str(len(own) + 1))
        helps = [Suggestion("say what each of them is")]
        if len(factors) == len(own) + 1:
            places = dict(zip(sorted([*own, n]), factors, strict=True))
            named = tuple(Dim.of(places[i]) if i in places else other for i, other in enumerate(shape))
            text = f"({param.name} : {show_type(namer, Tensor(t.element, named))})"
            helps.insert(0, Suggestion(f"say what each of them is: `{text}`", (Edit(param.span, text),)))
        yield Diagnostic(
            "AX0312",
            f"{count} dimensions of `{param.name}` are known only by their product",
            (Label(param.span, f"{product} elements in any {count} dimensions would do"),),
            (f"its inferred type is {show_type(namer, t)}",),
            tuple(helps),
            severity="warning",
        )


def _product(size: Dim) -> tuple[tuple[Symbol, ...], frozenset[Symbol]] | None:
    """Of a * b / (i * j), what is multiplied and what divides it."""
    atom = next((a for a in size.atoms), None) if len(size.mapping) == 1 else None
    if not isinstance(atom, Quotient) or size != Dim({(atom,): 1}):
        return None
    factors, divisor = _factors(atom.dividend), _factors(atom.divisor)
    return (factors, frozenset(divisor)) if factors is not None and divisor is not None and len(factors) > 1 else None


def _factors(dim: Dim) -> tuple[Symbol, ...] | None:
    """Those of a product of sizes, the oldest first."""
    if len(dim.mapping) != 1:
        return None
    ((factors, coefficient),) = dim.mapping.items()
    symbols = tuple(f for f in factors if isinstance(f, Symbol))
    return symbols if coefficient == 1 and len(symbols) == len(factors) else None


_COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}
