"""Words for a contract that a call breaks: which argument, which dimension, what it was, what it had to be, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from axon.diagnostics import Diagnostic, Label, ShapeError
from axon.names import Symbol
from axon.nearest import MAX_SIZE, legal_pair, legal_sizes, nearest_sizes
from axon.shapes.contract import Contract, ContractBroken, ContractFact
from axon.shapes.dimension import Dim
from axon.source import Span

MAX_WAYS = 2  # dimensions of one fact for which legal values are named
MAX_TRIED = 64  # sizes with which a whole call is tried


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
            notes += _said(nearest_sizes("", _legal_extents(broken, contract, explicit, shapes)))
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
            passing = _passing(variables, broken, contract, explicit, shapes, name)
            notes += passing or _legal_values(variables, broken, contract, name) or _legal_together(variables, broken, contract)
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
    """Extents near a wrong one for which a call would pass; if there are none, for which its formula has a solution."""
    index = next(i for i, shape in enumerate(contract.shapes) if shape.path == broken.path)

    def fits(extent: int, wholly: bool) -> bool:
        changed = [list(shape) for shape in shapes]
        changed[index][broken.dimension or 0] = extent
        try:
            contract.bind(explicit, changed)
        except ContractBroken as other:
            return not wholly and (other.kind, other.path, other.dimension) != (broken.kind, broken.path, broken.dimension)
        return True

    actual = broken.actual or 0
    return legal_sizes(actual, lambda n: fits(n, True)) or legal_sizes(actual, lambda n: fits(n, False))


def _legal_values(
    variables: Sequence[Symbol], broken: ContractBroken, contract: Contract, name: Callable[[Symbol], str]
) -> list[str]:
    """As `_passing`, where that finds nothing: for each dimension in the broken fact, the values near its own for which every fact
    holds, or at least this one.

    The other dimensions stay as they are. A dimension that is found from a formula is said as what is passed.
    """
    out: list[str] = []
    for symbol in variables:
        if symbol not in broken.bindings or len(out) == MAX_WAYS:
            continue
        actual, only = broken.bindings[symbol], [f for f in (broken.fact,) if f is not None]
        fits, bound = partial(_holds, broken, symbol), _bound(broken, symbol)
        every = (*contract.facts, *contract.limits)
        sizes = legal_sizes(actual, partial(fits, every), bound) or legal_sizes(actual, partial(fits, only), bound)
        passed = _passed(symbol, contract)
        if passed is not None:
            what, dim = passed
            found = _nearest_of(what, [dim.evaluate({**broken.bindings, symbol: n}) for n in sizes])
        else:
            found = nearest_sizes(name(symbol), sizes)
        others = " and ".join(f"{name(s)} = {broken.bindings[s]:,}" for s in variables if s != symbol and s in broken.bindings)
        out += _said(f"with {others}, {found}" if found and others else found)
    return out


def _legal_together(variables: Sequence[Symbol], broken: ContractBroken, contract: Contract) -> list[str]:
    """Two dimensions that would fit, where neither alone can be changed so that they do."""
    places = [_place(symbol, contract) for symbol in variables]
    if len(variables) != 2 or None in places or not broken.bindings.keys() >= {*variables}:
        return []
    first, second = variables
    every = (*contract.facts, *contract.limits)

    def fit(n: int, m: int) -> bool:
        values = {**broken.bindings, first: n, second: m}
        try:
            return all(f.relation.holds(values) for f in every if f.relation.variables <= values.keys())
        except ZeroDivisionError:
            return False

    pair = legal_pair(broken.bindings[first], broken.bindings[second], fit)
    alone = [contract.shapes[place[0]].dims[place[1]].symbol for place in places if place is not None]
    if pair is None or alone != [first, second]:
        return []
    whats = [f"dimension {place[1] + 1} of `{contract.shapes[place[0]].path}`" for place in places if place is not None]
    return [f"the nearest that fit together are {pair[0]:,} for {whats[0]} and {pair[1]:,} for {whats[1]}"]


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
        tried, place = 0, _place(symbol, contract)
        if place is None and symbol not in contract.explicit:
            continue

        def passes(value: int, symbol: Symbol = symbol, place: tuple[int, int] | None = place) -> bool:
            nonlocal tried
            if not value or tried == MAX_TRIED or not _holds(broken, symbol, (*contract.facts, *contract.limits), value):
                return False
            tried += 1
            given, extents = list(explicit), [list(shape) for shape in shapes]
            if place is None:
                given[contract.explicit.index(symbol)] = value
            else:
                extents[place[0]][place[1]] = _extent(place, symbol, value, broken, contract)
            try:
                contract.bind(given, extents)
            except ContractBroken:
                return False
            return True

        sizes = legal_sizes(broken.bindings[symbol], passes, _bound(broken, symbol))
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


def _bound(broken: ContractBroken, symbol: Symbol) -> Callable[[int], bool] | None:
    """Whether the broken fact holds for another value of a dimension, where it is an inequality that rounds nothing."""
    if broken.fact is None:
        return None
    relation = broken.fact.relation
    if relation.op in ("=", "<>") or relation.left.quotients or relation.right.quotients:
        return None
    return partial(_holds, broken, symbol, (broken.fact,))


def _holds(broken: ContractBroken, symbol: Symbol, facts: Sequence[ContractFact], value: int) -> bool:
    """Whether facts hold for the sizes of a call with another value of one."""
    values = {**broken.bindings, symbol: value}
    try:
        return all(fact.relation.holds(values) for fact in facts if fact.relation.variables <= values.keys())
    except ZeroDivisionError:
        return False


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
