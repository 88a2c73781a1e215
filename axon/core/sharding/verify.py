"""The rules of sharded programs, checked.

* what a step reads is an input or is made by a step before it; each value is made once;
* a Local is a program of core, whose explicit dimensions are all that it mentions, and which reads values as they are held;
* what several programs make in parts is there when they make all of its extent;
* a collective's result has the shape that its kind makes of its source's, and only what can be combined is;
* a parameter and a result are held in the shape of their layout, which is neither partial nor has borders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.passes import require
from axon.core.ir import Value
from axon.core.sharding.ir import KINDS, REDUCED, Collective, Local, Part, Placed, Repeat, Sharded, Step
from axon.core.verify import verify as verify_core
from axon.core.walk import results_of
from axon.shapes.dimension import Dim


def verify(made: Sharded) -> None:
    """Raises FormInvalid where a rule is broken."""
    source = made.source
    dims = {*source.explicit, *source.contract.determined(), *source.contract.idle, *(c for _, c in made.coordinates)}
    dims |= {local for _, _, local in made.sizes}
    require([axis for axis, _ in made.coordinates] == [axis for axis, _ in made.mesh.axes], "the coordinates are not the mesh's")
    require(len({axis for axis, _ in made.mesh.axes}) == len(made.mesh.axes), "two axes of the mesh have one name")
    values: dict[Symbol, Value] = {}
    for one in made.inputs:
        _placed(one, made)
        values[one.local.symbol] = one.local
    require(tuple(p.whole for p in made.inputs) == source.inputs, "the parameters are not the program's")
    _steps(made.steps, values, dims, made)
    for one, whole in zip(made.results, results_of(source), strict=True):
        _placed(one, made)
        require(one.whole == whole, "a result is not the program's")
        require(values.get(one.local.symbol) == one.local, "a result is not there")


def _placed(one: Placed, made: Sharded) -> None:
    """That a device holds the block of the whole that the layout says."""
    require(one.layout.plain, "a parameter or a result is partial, or has borders")
    axes = [split.axis for split in one.layout.splits if split is not None]
    require(len(set(axes)) == len(axes), "an axis of the mesh splits two dimensions")
    change = {whole: Dim.of(local) * made.mesh.size(axis) for whole, axis, local in made.sizes}
    require(len(one.layout.splits) == len(one.whole.shape) == len(one.local.shape), "a layout is of another rank")
    for extent, split, local in zip(one.whole.shape, one.layout.splits, one.local.shape, strict=True):
        times = 1 if split is None else made.mesh.size(split.axis)
        require(local * times == extent.substitute(change), "a device's block is not its part of the whole")
    require(one.local.element is one.whole.element, "a device holds another element type")


def _steps(steps: Sequence[Step], values: dict[Symbol, Value], dims: set[Symbol], made: Sharded) -> None:
    parts: dict[Symbol, Dim] = {}  # of values that several programs make, how much is there
    for step in steps:
        match step:
            case Local(program=program):
                verify_core(program)
                require(set(program.explicit) <= dims, "a program mentions a size that is not known")
                require(step.part is None or not step.defines, "a part defines a size")
                for value in program.inputs:
                    require(values.get(value.symbol) == value, "a program reads what is not there")
                results = dict(zip(step.results, results_of(program), strict=True))
                for size, result in step.defines:
                    require(result in results and results[result].shape[:1] == (Dim.of(size),), "a size is not its result's")
                    dims.add(size)
                if step.part is None:
                    _define(results, values)
                else:
                    _part(step.part, tuple(results.values()), parts, dims, values)
            case Collective():
                require(step.source in values, "a collective takes what is not there")
                _collective(step, values[step.source], made)
                _define({step.result.symbol: step.result}, values)
            case Repeat():
                _repeat(step, values, dims, made)


def _part(part: Part, results: Sequence[Value], parts: dict[Symbol, Dim], dims: set[Symbol], values: dict[Symbol, Value]) -> None:
    """That a program makes a part of a value, which is there with its last one."""
    of, d = part.of, part.dimension
    require(len(results) == 1 and 0 <= d < len(of.shape) == len(results[0].shape), "a part of another rank, or with other results")
    made = results[0]
    rest = (*of.shape[:d], made.shape[d], *of.shape[d + 1 :])
    require((made.element, made.shape) == (of.element, rest), "a part differs from its value")
    require(part.begin.variables <= dims, "a part begins at a size that is not known")
    require(part.first != (of.symbol in parts), "a value's first part is not the first")
    parts[of.symbol] = parts.get(of.symbol, Dim.of(0)) + made.shape[d]
    if parts[of.symbol] == of.shape[d]:
        _define({of.symbol: of}, values)


def _define(more: Mapping[Symbol, Value], values: dict[Symbol, Value]) -> None:
    require(values.keys().isdisjoint(more), "a value is made twice")
    values.update(more)


def _collective(step: Collective, source: Value, made: Sharded) -> None:
    require(step.kind in KINDS, f"there is no collective {step.kind}")
    require(step.axis in dict(made.mesh.axes), "a collective along no axis of the mesh")
    result = step.result
    require(result.element is source.element, "a collective changes the element type")
    require(step.kind == "halo" or not step.around, f"a {step.kind} goes around no ends")
    combines = step.kind in ("all_reduce", "reduce_scatter")
    require((step.monoid in REDUCED) if combines else step.monoid is None, "what is combined has a monoid, and nothing else")
    shape, p = list(source.shape), made.mesh.size(step.axis)
    if step.kind in ("all_reduce", "shift"):
        require(result.shape == source.shape, f"an {step.kind} changes the shape")
        return
    d = step.dimension
    require(d is not None and 0 <= d < len(shape) == len(result.shape), "a collective along no dimension")
    assert d is not None
    own, given = result.shape[d], source.shape[d]
    match step.kind:
        case "all_gather":
            require(own == step.extent, "an all_gather makes another extent")
            _covers(given, step.extent, p)
        case "reduce_scatter" | "slice":
            require(given == step.extent, f"a {step.kind} takes another extent")
            _covers(own, step.extent, p)
        case "halo":
            require(own == given + step.left + step.right, "a halo is not its borders wider")
            require(not step.around or given * p == step.extent, "blocks that go around do not make the extent")
            _covers(given, step.extent, p)
        case _:
            t = step.target
            require(t is not None and t != d and 0 <= t < len(shape), "an all_to_all to no other dimension")
            assert t is not None
            require(own == step.extent and source.shape[t] == step.target_extent, "an all_to_all of other extents")
            _covers(given, step.extent, p)
            _covers(result.shape[t], step.target_extent, p)
            shape[t] = result.shape[t]
    shape[d] = own
    require(tuple(shape) == result.shape, "a collective changes another dimension")


def _covers(block: Dim, extent: Dim, p: int) -> None:
    """That p blocks hold the extent, and a number of elements behind it."""
    beyond = (block * p - extent).constant
    require(beyond is not None and beyond >= 0, "blocks do not make the extent")


def _repeat(step: Repeat, values: dict[Symbol, Value], dims: set[Symbol], made: Sharded) -> None:
    widths = {len(step.outs), len(step.initial), len(step.states), len(step.results)}
    require(len(widths) == 1, "a loop's results, initial values, states and steps differ in number")
    if isinstance(step.trip, Dim):
        require(step.trip.variables <= dims, "a trip count mentions a size that is not known")
    else:
        require(step.trip in values and not values[step.trip].shape, "a trip count is no scalar that is there")
    inner, known = dict(values), set(dims) | {step.counter}
    for state, initial in zip(step.states, step.initial, strict=True):
        require(initial in values and _alike(values[initial], state), "a loop begins with another shape")
        inner[state.symbol] = state
    inner[step.counter] = Value(step.counter, Element.I32, ())
    _steps(step.steps, inner, known, made)
    for state, result in zip(step.states, step.results, strict=True):
        require(result in inner and _alike(inner[result], state), "the step of a state changes it")
    lead = (step.trip,) if step.stacked and isinstance(step.trip, Dim) else ()
    for out, state in zip(step.outs, step.states, strict=True):
        require((out.element, out.shape) == (state.element, (*lead, *state.shape)), "a loop gives another shape")
    _define({out.symbol: out for out in step.outs}, values)


def _alike(a: Value, b: Value) -> bool:
    return (a.element, a.shape) == (b.element, b.shape)
