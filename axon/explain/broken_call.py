"""Words for a contract that a call breaks: which argument, which dimension, what it was, what it had to be, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic, Label
from axon.base.errors import ShapeError
from axon.base.names import Symbol
from axon.base.nearest import MAX_SIZE, legal_sizes, nearest_sizes
from axon.base.source import Span
from axon.shapes.algebra.clauses import clauses
from axon.shapes.algebra.form import normal
from axon.shapes.contracts.contract import Contract, ContractBroken
from axon.shapes.contracts.legal import alone, together
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.shapes.relation import Relation

MAX_WAYS = 2  # dimensions of one fact for which legal values are named
MAX_PLACES = 4  # sizes that are said to fit together


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that breaks a contract: its dimension parameters and shapes, and how the signature calls its dimensions."""

    broken: ContractBroken
    contract: Contract
    explicit: Sequence[int]
    shapes: Sequence[Sequence[int]]
    names: Mapping[Symbol, str]

    def name(self, symbol: Symbol) -> str:
        return self.names.get(symbol, symbol.name)


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
    call = _Call(broken, contract, explicit, shapes, names)
    name = call.name
    place = where.get(broken.path.split(".")[0])
    labels = [Label(place, f"this parameter of `{function}`")] if place else []
    notes: list[str] = []
    size = f"dimension {(broken.dimension or 0) + 1} of `{broken.path}`"
    match broken.kind:
        case "rank":
            message = f"`{broken.path}` has rank {broken.actual}, and must have rank {broken.expected}"
        case "extent" if broken.expected is not None:
            message = f"{size} is {broken.actual}, and must be {broken.expected}"
            notes += _formula(call)
            formula = broken.formula
            if formula is not None and formula.symbol is None:
                notes += _passing(sorted(formula.variables, key=name), call)
        case "extent":
            message = f"{size} is {broken.actual}, and no size fits there: `{_shown(broken.formula, name)}` divides by 0"
            notes += _sources(broken.formula, call)
        case "value":
            message = f"{size} is {broken.actual}, which `{_shown(broken.formula, name)}` cannot be"
            notes += _sources(broken.formula, call)
            one = _said(nearest_sizes("", _legal_extents(call)))
            one = one or _legal_parameters(call)
            notes += one or _legal_together(call)
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
            notes += _alternatives(broken.fact.relation, name)
            variables = sorted(broken.fact.relation.variables, key=name)
            notes += [_source(symbol, call) for symbol in variables if symbol in broken.bindings]
            one = _passing(variables, call) or _legal_values(variables, call)
            notes += one or _legal_together(call)
        case _:
            message = "the sizes break the contract"
    diagnostic = Diagnostic("AX0501", f"{message}, in a call of `{function}`", tuple(labels), (*notes, signature))
    return ShapeError((diagnostic,))


def _alternatives(relation: Relation, name: Callable[[Symbol], str]) -> list[str]:
    """A fact that is one of several, `max (-k) (n - 1) >= 0`, as these: what stands under a condition is one."""
    cases = clauses(relation.slack) if relation.op == ">=" else None
    if cases is None or len(cases) != 1 or len(cases[0]) < 2:
        return []
    parts = [normal(Relation(part, ">=", Dim.of(0))) for part in cases[0]]
    return ["that is, " + ", or ".join(" and ".join(r.render(name) for r in part) for part in parts)] if all(parts) else []


def _shown(dim: Dim | None, name: Callable[[Symbol], str]) -> str:
    return "" if dim is None else render(dim, name)


def _formula(call: _Call) -> list[str]:
    """`it is `4 * d`, with d = 64 (dimension 2 of `x`)`."""
    formula = call.broken.formula
    if formula is None or formula.constant is not None:
        return ["the signature says so"]
    if formula.symbol is not None:
        return ["both are `" + _shown(formula, call.name) + "`: " + _source(formula.symbol, call)]
    return [f"it is `{_shown(formula, call.name)}` in the signature", *_sources(formula, call)]


def _sources(formula: Dim | None, call: _Call) -> list[str]:
    variables = sorted(formula.variables if formula else (), key=call.name)
    return [_source(symbol, call) for symbol in variables if symbol in call.broken.bindings]


def _source(symbol: Symbol, call: _Call) -> str:
    """What a dimension is and which argument says so."""
    value = f"{call.name(symbol)} = {call.broken.bindings[symbol]:,}"
    if symbol in call.contract.explicit:
        return f"{value} is the dimension parameter"
    for parameter in call.contract.shapes:
        for d, dim in enumerate(parameter.dims):
            if dim.symbol == symbol:
                return f"{value} is dimension {d + 1} of `{parameter.path}`"
    for parameter in call.contract.shapes:
        for d, dim in enumerate(parameter.dims):
            if symbol in dim.variables:
                return f"{value} comes from dimension {d + 1} of `{parameter.path}`, which is `{_shown(dim, call.name)}`"
    return value


def _said(*notes: str) -> list[str]:
    return [note for note in notes if note]


def _legal_extents(call: _Call) -> tuple[int, ...]:
    """Extents near a wrong one for which a call would pass."""
    index = next(i for i, shape in enumerate(call.contract.shapes) if shape.path == call.broken.path)

    def fits(extent: int) -> bool:
        changed = [list(shape) for shape in call.shapes]
        changed[index][call.broken.dimension or 0] = extent
        return call.contract.admits(call.explicit, changed)

    actual = call.broken.actual or 0
    near = sorted({*legal_sizes(actual, fits), *filter(fits, _around(call))})
    return (*[n for n in near if n < actual][-1:], *[n for n in near if n > actual][:1])


def _around(call: _Call) -> list[int]:
    """What a formula is for the sizes on either side of where it passes what was given: also where its values lie far apart."""
    formula, given = call.broken.formula, call.contract.roughly(call.explicit, call.shapes)
    if formula is None or given is None:
        return []
    found: list[int] = []
    for v in formula.variables & given.keys() - call.broken.bindings.keys():
        with suppress(ZeroDivisionError):
            found += [formula.evaluate({**given, v: given[v] + step}) for step in (-1, 0) if given[v] + step >= 0]
    return found


def _legal_parameters(call: _Call) -> list[str]:
    """Dimension parameters in a formula for which a call would pass."""
    out: list[str] = []
    for i, symbol in enumerate(call.contract.explicit):
        if call.broken.formula is not None and symbol in call.broken.formula.variables:

            def passes(n: int, i: int = i) -> bool:
                return call.contract.admits([*call.explicit[:i], n, *call.explicit[i + 1 :]], call.shapes)

            sizes = legal_sizes(call.explicit[i], passes)
            out += _said(nearest_sizes(call.name(symbol), sizes))
    return out[:MAX_WAYS]


def _legal_values(variables: Sequence[Symbol], call: _Call) -> list[str]:
    """As `_passing`, where that finds nothing: for each dimension in the broken fact, the values near its own for which the call
    would pass if all extents that it is part of changed with it.

    The other dimensions stay as they are. A dimension that is found from a formula is said as what is passed.
    """
    out: list[str] = []
    for symbol in variables:
        if symbol not in call.broken.bindings or len(out) == MAX_WAYS:
            continue
        accepted = partial(_accepted, call.contract, call.broken.bindings, symbol)
        sizes = alone(symbol, call.broken.bindings, _relations(call.contract), accepted)
        passed = _passed(symbol, call.contract)
        if passed is not None:
            what, dim = passed
            found = _nearest_of(what, [dim.evaluate({**call.broken.bindings, symbol: n}) for n in sizes])
        else:
            found = nearest_sizes(call.name(symbol), sizes)
        others = " and ".join(
            f"{call.name(s)} = {call.broken.bindings[s]:,}" for s in variables if s != symbol and s in call.broken.bindings
        )
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


def _legal_together(call: _Call) -> list[str]:
    """The nearest call that would pass, with as few sizes changed as possible: where none alone can be changed so that it does."""
    given = call.contract.roughly(call.explicit, call.shapes)
    found = together(given, _relations(call.contract), partial(_accepted, call.contract)) if given is not None else None
    if found is None:
        return []
    numbers, extents = _call_of(call.contract, found)
    changed = [
        f"{call.name(s)} = {n:,}" for s, n, old in zip(call.contract.explicit, numbers, call.explicit, strict=True) if n != old
    ]
    for parameter, new, old in zip(call.contract.shapes, extents, call.shapes, strict=True):
        differ = [(d, n) for d, (n, was) in enumerate(zip(new, old, strict=True)) if n != was]
        changed += [f"{n:,} for dimension {d + 1} of `{parameter.path}`" for d, n in differ]
    if len(changed) > MAX_PLACES and given is not None:
        changed = [
            f"{call.name(s)} = {n:,}" for s, n in sorted(found.items(), key=lambda item: call.name(item[0])) if given[s] != n
        ]
    if len(changed) < 2 or len(changed) > MAX_PLACES:
        return []
    return [f"the nearest that fit together are {', '.join(changed[:-1])} and {changed[-1]}"]


def _passing(variables: Sequence[Symbol], call: _Call) -> list[str]:
    """Sizes near the given ones with which the whole call would pass, where one alone is changed, in the words of the argument."""
    out: list[str] = []
    for symbol in variables:
        if symbol not in call.broken.bindings or len(out) == MAX_WAYS:
            continue
        place = _place(symbol, call.contract)
        if place is None and symbol not in call.contract.explicit:
            continue

        def passes(value: int, symbol: Symbol = symbol, place: tuple[int, int] | None = place) -> bool:
            given, extents = list(call.explicit), [list(shape) for shape in call.shapes]
            if place is None:
                given[call.contract.explicit.index(symbol)] = value
            else:
                extents[place[0]][place[1]] = _extent(place, symbol, value, call)
            return call.contract.admits(given, extents)

        sizes = alone(symbol, call.broken.bindings, _relations(call.contract), passes)
        if place is None:
            out += _said(nearest_sizes(call.name(symbol), sizes))
        else:
            what = f"dimension {place[1] + 1} of `{call.contract.shapes[place[0]].path}`"
            out += _said(_nearest_of(what, [_extent(place, symbol, n, call) for n in sizes]))
    return out


def _nearest_of(what: str, sizes: Sequence[int]) -> str:
    """`the nearest that fit are 9 and 12 for dimension 2 of `x``; nothing if there are none."""
    found = nearest_sizes("", sizes)
    return f"{found} for {what}" if found else ""


def _extent(place: tuple[int, int], symbol: Symbol, value: int, call: _Call) -> int:
    """The extent at a place with another value of a dimension that it mentions."""
    return call.contract.shapes[place[0]].dims[place[1]].evaluate({**call.broken.bindings, symbol: value})


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
