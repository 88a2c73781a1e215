"""Words for a contract that a call breaks: which argument, which dimension, what it was, what it had to be, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from axon.diagnostics import Diagnostic, Label, ShapeError
from axon.names import Symbol
from axon.nearest import MAX_SIZE, legal_sizes, nearest_sizes
from axon.shapes.contract import Contract, ContractBroken
from axon.shapes.dimension import Dim
from axon.shapes.legal import alone, together
from axon.shapes.relation import Relation
from axon.source import Span

MAX_WAYS = 2  # dimensions of one fact for which legal values are named
MAX_PLACES = 4  # sizes that are said to fit together


def contract_error(
    function: str,
    broken: ContractBroken,
    contract: Contract,
    explicit: Sequence[int],
    shapes: Sequence[Sequence[int]],
    where: dict[str, Span],
    signature: str,
    names: Mapping[Symbol, str] = MappingProxyType({}),
) -> ShapeError:
    """The error of a call with these explicit dimensions and shapes.

    `where` is where each parameter is declared; `names` are those of the signature for dimensions that the source does not name.
    """

    def name(symbol: Symbol) -> str:
        return names.get(symbol, symbol.name)

    place = where.get(broken.path.split(".")[0])
    labels = [Label(place, f"this parameter of `{function}`")] if place else []
    notes: list[str] = []
    size = f"dimension {(broken.dimension or 0) + 1} of `{broken.path}`"
    match broken.kind:
        case "rank":
            message = f"`{broken.path}` has rank {broken.actual}, and must have rank {broken.expected}"
        case "extent" if broken.expected is not None:
            message = f"{size} is {broken.actual}, and must be {broken.expected}"
            notes += _formula(broken, contract, name)
            formula = broken.formula
            if formula is not None and formula.symbol is None:
                notes += _passing(sorted(formula.variables, key=name), broken, contract, explicit, shapes, name)
        case "extent":
            message = f"{size} is {broken.actual}, and no size fits there: `{_shown(broken.formula, name)}` divides by 0"
            notes += _sources(broken.formula, broken, contract, name)
        case "value":
            message = f"{size} is {broken.actual}, which `{_shown(broken.formula, name)}` cannot be"
            notes += _sources(broken.formula, broken, contract, name)
            one = _said(nearest_sizes("", _legal_extents(broken, contract, explicit, shapes)))
            one = one or _legal_parameters(broken, contract, explicit, shapes, name)
            notes += one or _legal_together(contract, explicit, shapes, name)
        case "explicit":
            message = f"the dimension parameter `{broken.path}` is {broken.actual}, and must be from 0 to {MAX_SIZE:,}"
        case "large":
            message = f"{size} is {broken.actual:,}; sizes end at {MAX_SIZE:,}"
        case "fact" if broken.fact is not None:
            fact = broken.fact.relation.render(name)
            message = f"the contract `{fact}` does not hold"
            reason = broken.fact.reason.replace("{}", f"`{fact}`")
            if f"needs {fact}" in broken.fact.reason:
                reason = broken.fact.reason.removesuffix(": here {}")
            if broken.fact.span:
                labels.insert(0, Label(broken.fact.span, reason))
            elif reason:
                notes.append(reason)
            variables = sorted(broken.fact.relation.variables, key=name)
            notes += [_source(symbol, broken, contract, name) for symbol in variables if symbol in broken.bindings]
            one = _passing(variables, broken, contract, explicit, shapes, name) or _legal_values(variables, broken, contract, name)
            notes += one or _legal_together(contract, explicit, shapes, name)
        case _:
            message = "the sizes break the contract"
    diagnostic = Diagnostic("AX0501", f"{message}, in a call of `{function}`", tuple(labels), (*notes, signature))
    return ShapeError((diagnostic,))


def _shown(dim: Dim | None, name: Callable[[Symbol], str]) -> str:
    return "" if dim is None else dim.render(name)


def _formula(broken: ContractBroken, contract: Contract, name: Callable[[Symbol], str]) -> list[str]:
    """`it is `4 * d`, with d = 64 (dimension 2 of `x`)`."""
    formula = broken.formula
    if formula is None or formula.constant is not None:
        return ["the signature says so"]
    if formula.symbol is not None:
        return ["both are `" + _shown(formula, name) + "`: " + _source(formula.symbol, broken, contract, name)]
    return [f"it is `{_shown(formula, name)}` in the signature", *_sources(formula, broken, contract, name)]


def _sources(formula: Dim | None, broken: ContractBroken, contract: Contract, name: Callable[[Symbol], str]) -> list[str]:
    variables = sorted(formula.variables if formula else (), key=name)
    return [_source(symbol, broken, contract, name) for symbol in variables if symbol in broken.bindings]


def _source(symbol: Symbol, broken: ContractBroken, contract: Contract, name: Callable[[Symbol], str]) -> str:
    """What a dimension is and which argument says so."""
    value = f"{name(symbol)} = {broken.bindings[symbol]:,}"
    if symbol in contract.explicit:
        return f"{value} is the dimension parameter"
    for parameter in contract.shapes:
        for d, dim in enumerate(parameter.dims):
            if dim.symbol == symbol:
                return f"{value} is dimension {d + 1} of `{parameter.path}`"
    for parameter in contract.shapes:
        for d, dim in enumerate(parameter.dims):
            if symbol in dim.variables:
                return f"{value} comes from dimension {d + 1} of `{parameter.path}`, which is `{_shown(dim, name)}`"
    return value


def _said(*notes: str) -> list[str]:
    return [note for note in notes if note]


def _legal_extents(
    broken: ContractBroken, contract: Contract, explicit: Sequence[int], shapes: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """Extents near a wrong one for which a call would pass."""
    index = next(i for i, shape in enumerate(contract.shapes) if shape.path == broken.path)

    def fits(extent: int) -> bool:
        changed = [list(shape) for shape in shapes]
        changed[index][broken.dimension or 0] = extent
        return contract.admits(explicit, changed)

    return legal_sizes(broken.actual or 0, fits)


def _legal_parameters(
    broken: ContractBroken,
    contract: Contract,
    explicit: Sequence[int],
    shapes: Sequence[Sequence[int]],
    name: Callable[[Symbol], str],
) -> list[str]:
    """Dimension parameters in a formula for which a call would pass."""
    out: list[str] = []
    for i, symbol in enumerate(contract.explicit):
        if broken.formula is not None and symbol in broken.formula.variables:

            def passes(n: int, i: int = i) -> bool:
                return n > 0 and contract.admits([*explicit[:i], n, *explicit[i + 1 :]], shapes)

            sizes = legal_sizes(explicit[i], passes)
            out += _said(nearest_sizes(name(symbol), sizes))
    return out[:MAX_WAYS]


def _legal_values(
    variables: Sequence[Symbol], broken: ContractBroken, contract: Contract, name: Callable[[Symbol], str]
) -> list[str]:
    """As `_passing`, where that finds nothing: for each dimension in the broken fact, the values near its own for which the call
    would pass if all extents that it is part of changed with it.

    The other dimensions stay as they are. A dimension that is found from a formula is said as what is passed.
    """
    out: list[str] = []
    for symbol in variables:
        if symbol not in broken.bindings or len(out) == MAX_WAYS:
            continue
        accepted = partial(_accepted, contract, broken.bindings, symbol)
        sizes = alone(symbol, broken.bindings, _relations(contract), accepted)
        passed = _passed(symbol, contract)
        if passed is not None:
            what, dim = passed
            found = _nearest_of(what, [dim.evaluate({**broken.bindings, symbol: n}) for n in sizes])
        else:
            found = nearest_sizes(name(symbol), sizes)
        others = " and ".join(f"{name(s)} = {broken.bindings[s]:,}" for s in variables if s != symbol and s in broken.bindings)
        out += _said(f"with {others}, {found}" if found and others else found)
    return out


def _relations(contract: Contract) -> list[Relation]:
    """What a call checks, as relations."""
    extents = (dim for shape in contract.shapes for dim in shape.dims if dim.symbol is None)
    facts = (fact.relation for fact in (*contract.facts, *contract.limits))
    return [*facts, *(Relation(dim, ">=", Dim.of(0)) for dim in extents)]


def _accepted(contract: Contract, values: Mapping[Symbol, int], symbol: Symbol | None = None, value: int = 0) -> bool:
    """Whether a call with these dimensions (and another value of one) would pass."""
    values = values if symbol is None else {**values, symbol: value}
    if not values.keys() >= contract.variables:
        return False
    explicit, shapes = _call_of(contract, values)
    return contract.admits(explicit, shapes)


def _call_of(contract: Contract, values: Mapping[Symbol, int]) -> tuple[list[int], list[list[int]]]:
    """The explicit dimensions and the shapes that dimensions make."""
    try:
        return [values[s] for s in contract.explicit], [[dim.evaluate(values) for dim in shape.dims] for shape in contract.shapes]
    except ZeroDivisionError:
        return [], []


def _legal_together(
    contract: Contract, explicit: Sequence[int], shapes: Sequence[Sequence[int]], name: Callable[[Symbol], str]
) -> list[str]:
    """The nearest call that would pass, with as few sizes changed as possible: where none alone can be changed so that it does."""
    given = contract.roughly(explicit, shapes)
    found = together(given, _relations(contract), partial(_accepted, contract)) if given is not None else None
    if found is None:
        return []
    numbers, extents = _call_of(contract, found)
    changed = [f"{name(s)} = {n:,}" for s, n, old in zip(contract.explicit, numbers, explicit, strict=True) if n != old]
    for parameter, new, old in zip(contract.shapes, extents, shapes, strict=True):
        differ = [(d, n) for d, (n, was) in enumerate(zip(new, old, strict=True)) if n != was]
        changed += [f"{n:,} for dimension {d + 1} of `{parameter.path}`" for d, n in differ]
    if len(changed) > MAX_PLACES and given is not None:
        changed = [f"{name(s)} = {n:,}" for s, n in sorted(found.items(), key=lambda item: name(item[0])) if given[s] != n]
    if len(changed) < 2 or len(changed) > MAX_PLACES or 0 in (*numbers, *(n for extent in extents for n in extent)):
        return []
    return [f"the nearest that fit together are {', '.join(changed[:-1])} and {changed[-1]}"]


def _passing(
    variables: Sequence[Symbol],
    broken: ContractBroken,
    contract: Contract,
    explicit: Sequence[int],
    shapes: Sequence[Sequence[int]],
    name: Callable[[Symbol], str],
) -> list[str]:
    """Sizes near the given ones with which the whole call would pass, where one alone is changed, in the words of the argument."""
    out: list[str] = []
    for symbol in variables:
        if symbol not in broken.bindings or len(out) == MAX_WAYS:
            continue
        place = _place(symbol, contract)
        if place is None and symbol not in contract.explicit:
            continue

        def passes(value: int, symbol: Symbol = symbol, place: tuple[int, int] | None = place) -> bool:
            given, extents = list(explicit), [list(shape) for shape in shapes]
            if place is None:
                given[contract.explicit.index(symbol)] = value
            else:
                extents[place[0]][place[1]] = _extent(place, symbol, value, broken, contract)
            return contract.admits(given, extents)

        sizes = alone(symbol, broken.bindings, _relations(contract), passes)
        if place is None:
            out += _said(nearest_sizes(name(symbol), sizes))
        else:
            what = f"dimension {place[1] + 1} of `{contract.shapes[place[0]].path}`"
            out += _said(_nearest_of(what, [_extent(place, symbol, n, broken, contract) for n in sizes]))
    return out


def _nearest_of(what: str, sizes: Sequence[int]) -> str:
    """`the nearest that fit are 9 and 12 for dimension 2 of `x``; nothing if there are none."""
    found = nearest_sizes("", sizes)
    return f"{found} for {what}" if found else ""


def _extent(place: tuple[int, int], symbol: Symbol, value: int, broken: ContractBroken, contract: Contract) -> int:
    """The extent at a place with another value of a dimension that it mentions."""
    return contract.shapes[place[0]].dims[place[1]].evaluate({**broken.bindings, symbol: value})


def _place(symbol: Symbol, contract: Contract) -> tuple[int, int] | None:
    """Which dimension of which parameter decides a dimension: one that is just this, else the first that mentions it.

    None for a dimension parameter.
    """
    if symbol in contract.explicit:
        return None
    places = [(n, d) for n, p in enumerate(contract.shapes) for d, _ in enumerate(p.dims)]
    alone = (at for at in places if contract.shapes[at[0]].dims[at[1]].symbol == symbol)
    mentions = (at for at in places if symbol in contract.shapes[at[0]].dims[at[1]].variables)
    return next(alone, None) or next(mentions, None)


def _passed(symbol: Symbol, contract: Contract) -> tuple[str, Dim] | None:
    """The extent from which a dimension is found that no argument has by itself."""
    extents = [(f"dimension {d + 1} of `{p.path}`", dim) for p in contract.shapes for d, dim in enumerate(p.dims)]
    if symbol in contract.explicit or any(dim.symbol == symbol for _, dim in extents):
        return None
    return next(((what, dim) for what, dim in extents if symbol in dim.variables), None)


def spans(names: Iterable[tuple[str, Span | None]]) -> dict[str, Span]:
    return {name: span for name, span in names if span is not None}
