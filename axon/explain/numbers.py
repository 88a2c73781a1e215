"""What is said of single sizes and numbers: of slices, coercions, literals, and sizes that nothing but a product determines."""

from __future__ import annotations

from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.element import Element
from axon.explain.parameter import parameters_of_arguments
from axon.shapes.pretty import render
from axon.types.literals import Literal
from axon.types.show import Namer, show_dim, show_type, symbols_of
from axon.types.trouble import ImpossibleCoercion, KnownByProduct, LengthByIndex, NegativePosition, SquareByBroadcast, UnknownSize
from axon.types.unify import State

_COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}


def negative_position(state: State, wrong: NegativePosition) -> Diagnostic:
    label = Label(wrong.span, "positions count from 0, also in slices")
    shown = state.dimension(wrong.size)
    n = render(shown) if shown.variables <= state.rigid else "n"
    help_ = Suggestion(f"counted from the end, a position is `{n} - 1`, `{n} - 2`, …")
    return Diagnostic("AX0303", "a slice cannot begin or end at a negative position", (label,), (), (help_,))


def length_by_index(state: State, wrong: LengthByIndex) -> Diagnostic:
    help_ = f"slice a fixed length: `{wrong.name}[i : i + 3]`"
    if wrong.step.constant != 1:  # from one end to the other: which elements they are says it
        namer = Namer(state)
        start, step = (show_dim(namer, d) for d in (wrong.start, wrong.step))
        help_ = f"name each element, with a bound that is a size: `for j < … => {wrong.name}[{start} + {step} * j]`"
    message = "the length of a slice cannot depend on an index"
    return Diagnostic("AX0308", message, (Label(wrong.span, "here"),), (), (Suggestion(help_),))


def impossible_coercion(state: State, wrong: ImpossibleCoercion) -> Diagnostic:
    namer = Namer(state)
    have, want = (render(d, namer.dim) for d in (wrong.have, wrong.want))
    words = f"can never be {want}" if wrong.never else f"is {want} only if some size is 0"
    label = Label(wrong.span, f"dimension {wrong.axis} is {have}, and {words}")
    return Diagnostic("AX0305", "this coercion cannot succeed", (label,))


def unknown_size(wrong: UnknownSize) -> Diagnostic:
    name = wrong.name
    uses = (
        f"`{wrong.function}` uses its `{name}`: nothing that is passed here has that size" if wrong.function else f"uses `{name}`"
    )
    labels = (Label(wrong.span, uses), *(Label(at, "named here") for at in wrong.named[:1]))
    places = parameters_of_arguments(wrong.span)
    passed = f"`fn ({places[0].text if places else 'y'} : f32[m]) => …`"
    help_ = Suggestion(f"say what has this size, as of the parameter of a function that is passed: {passed}", annotates=places)
    return Diagnostic("AX0306", f"nothing determines the size `{name}`", labels, (), (help_,))


def literal_too_large(literal: Literal, element: Element) -> Diagnostic:
    """It is of an element type that does not hold it."""
    low, high = element.limits
    span, use = literal.span, literal.use
    where = f"as {element.value} here, which holds {low} to {high}"
    labels = (Label(span, f"used {where}"),)
    if use is not None:
        same = use.file.path == span.file.path  # by name: in an editor, a declaration is a file of its own
        own = (Label(span, "the number"),) if same else ()
        labels = (Label(use, f"`{use.text}` uses {literal.value} {where}"), *own)
    shown = f"{' '.join(span.text.split())} = {literal.value}" if literal.folded else str(literal.value)
    return Diagnostic("AX0202", f"{shown} does not fit in {element.value}", labels)


def by_product_alone(state: State, wrong: KnownByProduct) -> Diagnostic:
    """A warning: dimensions of a parameter that are known by their product alone, which hides mistakes."""
    namer = Namer(state)
    namer.plan(symbols_of(state, wrong.scheme.type))
    name, t = wrong.param.name, wrong.tensor
    product = " * ".join(namer.dim(f) for f in wrong.factors)
    count = _COUNTS.get(len(wrong.axes), str(len(wrong.axes)))
    return Diagnostic(
        "AX0312",
        f"{count} dimensions of `{name}` are known only by their product",
        (Label(wrong.param.span, f"{product} elements in any {count} dimensions would do"),),
        (f"its inferred type is {show_type(namer, t)}",),
        (Suggestion("say what each of them is"),),
        severity="warning",
    )


def square_by_broadcast(state: State, wrong: SquareByBroadcast) -> Diagnostic:
    """A warning: two dimensions of a parameter that nothing but broadcasting makes equal."""
    namer = Namer(state)
    namer.plan(symbols_of(state, wrong.scheme.type))
    name, (first, second) = wrong.param.name, wrong.axes
    which, reason = f"dimensions {first + 1} and {second + 1} of `{name}`", wrong.stretch.reason
    labels = [
        Label(wrong.param.span, "so a call with two sizes is refused"),
        Label(reason.span, "matches last dimensions with last ones"),
    ]
    if len(reason.sides) == 2 and all(side.span != reason.span for side in reason.sides):  # of an operator
        shorter = reason.sides[wrong.stretch.longer == "left"]
        labels.append(Label(shorter.span, "has fewer dimensions, which meet the last ones of the other side"))
    return Diagnostic(
        "AX0313",
        f"{which} are equal only by broadcasting",
        tuple(labels),
        (f"its inferred type is {show_type(namer, wrong.tensor)}",),
        severity="warning",
    )
