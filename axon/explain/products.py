"""A warning: dimensions of a parameter that are known by their product alone, which hides mistakes."""

from __future__ import annotations

from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.shapes.dimension import Dim
from axon.types.show import Namer, show_type, symbols_of
from axon.types.trouble import KnownByProduct
from axon.types.type import Tensor
from axon.types.unify import State


def known_by_product(state: State, wrong: KnownByProduct) -> Diagnostic:
    namer = Namer(state)
    namer.plan(symbols_of(state, wrong.scheme.type))
    name, t, factors = wrong.param.name, wrong.tensor, wrong.factors
    product = " * ".join(namer.dim(f) for f in factors)
    count = _COUNTS.get(len(wrong.axes), str(len(wrong.axes)))
    helps = [Suggestion("say what each of them is")]
    if len(factors) == len(wrong.axes):
        places = dict(zip(wrong.axes, factors, strict=True))
        shape = state.shape(t.shape)
        named = tuple(Dim.of(places[i]) if i in places else other for i, other in enumerate(shape))
        text = f"({name} : {show_type(namer, Tensor(t.element, named))})"
        helps.insert(0, Suggestion(f"say what each of them is: `{text}`", (Edit(wrong.param.span, text),)))
    return Diagnostic(
        "AX0312",
        f"{count} dimensions of `{name}` are known only by their product",
        (Label(wrong.param.span, f"{product} elements in any {count} dimensions would do"),),
        (f"its inferred type is {show_type(namer, t)}",),
        tuple(helps),
        severity="warning",
    )


_COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}
