"""Sizes followed into the functions of a program: what makes a dimension of a result, and what asks for one of a parameter.

A scheme keeps its function's body (`axon.types.inference.Body`); what is said of it here is found when an error asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from axon.base.data import replace
from axon.base.diagnostics import Suggestion
from axon.base.names import Symbol
from axon.explain.origin import Trail
from axon.explain.places import Inner
from axon.explain.ranges import Origin
from axon.shapes.constraint import Callee, Equal
from axon.shapes.dimension import Dim
from axon.suggest.members import half_of_a_window
from axon.suggest.mend import asked, behind
from axon.suggest.outside import Unreached, unreached
from axon.suggest.written import unused_given
from axon.types import typed as T
from axon.types.holes import dimension_arguments
from axon.types.inference import Body, Inference
from axon.types.show import Namer, show_dim
from axon.types.type import Function, Row, Shape, Type
from axon.types.unify import State

BOUND = "this bound decides the size"
_MAX_CALLS = 8  # of functions within functions, that a size is followed into
_MAKING = ("index", "bound", "flatten", "split", "slice", "call")  # origins in a body that say something to whoever calls


def trail_of(
    by: Inference, params: tuple[T.Pattern, ...], tree: tuple[T.Expr | T.Decl, ...], calls: int = _MAX_CALLS
) -> Trail:  # fmt: skip
    """The sizes of a declaration that `by` has inferred, followed into so many functions within functions."""

    def made(function: Symbol, axis: int, rank: int, way: tuple[int | str, ...]) -> Inner | None:
        body = by.used.get(function)
        return _result(body, axis, rank, way, calls - 1) if body is not None and body.outermost else None

    written = by.origins, by.expanded_origins, by.annotations, by.written_fields, by.signed
    return Trail(by.state, tree, params, by.binders, *written, made)


def _within(body: Body, calls: int = _MAX_CALLS) -> Trail:
    return trail_of(body.by, body.params, (body.expr,), calls)


def _result(body: Body, axis: int, rank: int, way: tuple[int | str, ...], calls: int) -> Inner | None:
    """What makes a dimension of a function's result: an index over another dimension of what it is given, a bound, a call …"""
    key = axis, rank, way
    if key not in body.made and calls >= 0:
        trail, expr = _within(body, calls), body.expr
        found, size, moved, deeper = trail.result(expr, axis, rank, way)
        parameter = body.explicit.index(size.symbol) if size is not None and size.symbol in body.explicit else None
        own = None
        if parameter is not None or (found is not None and found.kind in _MAKING):
            found = found or Origin("parameter", expr.span)
            own = Inner(found.span, found.kind, _in_body(found, body.name), moved, parameter, partial(behind, found, trail))
        made = deeper[0] if deeper and (own is None or own.kind == "call") and parameter is None else own
        given = _given_inside(body, trail)
        if given:
            made = made or Inner(expr.span, "call", "", False, None, tuple)
            made = replace(made, changes=partial(_both, made.changes, given))
        body.made[key] = made
    found_before = body.made.get(key)
    assert found_before is None or isinstance(found_before, Inner)
    return found_before


def _given_inside(body: Body, trail: Trail) -> tuple[Suggestion, ...]:
    """Other dimension arguments for the calls in a body: dimension parameters that it does not use, halves of windows."""
    state, modules = body.by.state, body.by.modules
    idle = [s.name for s in body.explicit if re.search(rf"\b{s.name}\b", body.expr.span.text) is None]
    show = partial(show_dim, Namer(state))
    found: list[Suggestion] = []
    for e in (e for e in trail.expressions() if isinstance(e, T.Variable) and dimension_arguments(e.span)):
        found += (*unused_given(e.span, idle), *half_of_a_window(e, modules, state, show))
    return tuple(found)


def unreached_by(by: Inference, trail: Trail) -> tuple[Unreached, ...]:
    """The branches that nothing takes in the functions that a declaration uses, and in those that they use."""
    used = dict.fromkeys(e.symbol for e in trail.expressions() if isinstance(e, T.Variable))
    bodies = (by.used[symbol] for symbol in used if symbol in by.used)
    return tuple(dict.fromkeys(u for body in bodies if body.outermost for u in _unreached(body)))


def _unreached(body: Body) -> tuple[Unreached, ...]:
    trail = _within(body)
    return (*unreached(body.name, trail, body.by.state), *unreached_by(body.by, trail))


# ── parameters ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def called(by: Inference, trail: Trail, equal: Equal) -> Callee | None:
    """The function that an argument's equation is about, and the dimension of its parameter."""
    found = trail.passed(equal.reason)
    if found is None or found[0].symbol not in by.used:
        return None
    function, n = found
    shape = _parameter_shape(trail, by.state, function.type, n)
    if shape is None or equal.right not in shape:
        return None
    place = n, shape.index(equal.right), len(shape)
    alike = _alike(trail, by.state, function.type, equal.right, place)
    return _inside(by.used[function.symbol], function.symbol.name, (place, *alike))


def _inside(body: Body, name: str, places: Sequence[tuple[int, int, int]]) -> Callee | None:
    """What a body's equations say of a dimension of a parameter, the first of some that are equal. Each of the `places` is a
    parameter, a dimension, and the rank at a call."""
    by, trail = body.by, _within(body)
    own = [(_parameter_shape(trail, by.state, body.type, parameter) or (), axis, rank) for parameter, axis, rank in places]
    shapes = [(shape, _before_call(shape, axis, rank)) for shape, axis, rank in own]
    sizes = [shape[axis] if axis < len(shape) else None for shape, axis in shapes]
    size = sizes[0]
    if not isinstance(size, Dim):
        return None
    apart = tuple(s for s in sizes[1:] if isinstance(s, Dim))
    others = partial(_passed_on, by, trail, size, shapes[0][1], len(shapes[0][0]))
    return Callee(name, size, apart, body.equals, body.flexible, partial(called, by, trail), others, partial(asked, trail))


def _passed_on(by: Inference, trail: Trail, size: Dim, axis: int, rank: int) -> Iterator[Callee]:
    """The functions that are called with something of this size in this dimension."""
    for function, n, _ in trail.arguments():
        shape, body = _parameter_shape(trail, by.state, function.type, n), by.used.get(function.symbol)
        if body is None or shape is None or len(shape) != rank or shape[axis] != size:
            continue
        place = n, axis, rank
        callee = _inside(body, function.symbol.name, (place, *_alike(trail, by.state, function.type, size, place)))
        if callee is not None:
            yield callee


def _alike(trail: Trail, state: State, t: Type, size: Dim, but: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """The other dimensions of a function's parameters that its type makes equal to one."""
    parameter = 0
    while isinstance(t := state.prune(t), Function):
        shape = trail.shape(t.param) or ()
        places = ((parameter, axis, len(shape)) for axis, item in enumerate(shape) if item == size)
        yield from (place for place in places if place != but)
        t, parameter = t.result, parameter + 1


def _both(first: Callable[[], tuple[Suggestion, ...]], more: tuple[Suggestion, ...]) -> tuple[Suggestion, ...]:
    return (*first(), *more)


def _in_body(origin: Origin, name: str) -> str:
    """What decides a size in the body of a function, as a sentence."""
    why = origin.why.removeprefix("since ").split(", which is {}")[0]
    match origin.kind:
        case "flatten":
            return f"since `({' '.join(origin.span.text.split())})` makes one dimension in `{name}`"
        case "bound":
            return f"in `{name}`, {BOUND}"
        case "slice" | "call":
            return f"in `{name}`, this is {why}"
    return f"in `{name}`, {why}"


def _before_call(shape: Shape, axis: int, rank: int) -> int:
    """Which dimension it is in the body of a function, where a call with this rank says what its shape variable stands for."""
    rows = [n for n, item in enumerate(shape) if isinstance(item, Row)]
    return axis - (rank - len(shape)) if rows and axis > rows[0] else axis


def _parameter_shape(trail: Trail, state: State, t: Type, parameter: int) -> Shape | None:
    """The shape of a parameter of a function that takes a tensor there."""
    for n in range(parameter + 1):
        t = state.prune(t)
        if not isinstance(t, Function):
            return None
        t = t.param if n == parameter else t.result
    return trail.shape(t)
