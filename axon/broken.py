"""Words for a contract that a call breaks: which argument, which dimension, what it was, what it had to be, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice

from axon.diagnostics import Diagnostic, Label, ShapeError
from axon.names import Symbol
from axon.shapes.contract import Contract, ContractBroken
from axon.shapes.dimension import Dim
from axon.source import Span

MAX_DISTANCE = 4096  # how far from a wrong size a legal one is sought
MAX_SIZE = 2**31 - 1


def contract_error(
    function: str,
    broken: ContractBroken,
    contract: Contract,
    explicit: Sequence[int],
    shapes: Sequence[Sequence[int]],
    where: dict[str, Span],
    signature: str,
) -> ShapeError:
    """The error of a call with these explicit dimensions and shapes. `where` is where each parameter is declared."""
    place = where.get(broken.path.split(".")[0])
    labels = [Label(place, f"this parameter of `{function}`")] if place else []
    notes: list[str] = []
    size = f"dimension {(broken.dimension or 0) + 1} of `{broken.path}`"
    match broken.kind:
        case "rank":
            message = f"`{broken.path}` has rank {broken.actual}, and must have rank {broken.expected}"
        case "extent" if broken.expected is not None:
            message = f"{size} is {broken.actual}, and must be {broken.expected}"
            notes += _formula(broken, contract)
        case "extent":
            message = f"{size} is {broken.actual}, and no size fits there: `{broken.formula}` divides by 0"
            notes += _sources(broken.formula, broken, contract)
        case "value":
            message = f"{size} is {broken.actual}, which `{broken.formula}` cannot be"
            notes += _sources(broken.formula, broken, contract)
            notes += _nearest(broken.actual or 0, _legal_extents(broken, contract, explicit, shapes))
        case "explicit":
            message = f"the dimension parameter `{broken.path}` is {broken.actual}, and must be from 0 to {MAX_SIZE:,}"
        case "large":
            message = f"{size} is {broken.actual:,}; sizes end at {MAX_SIZE:,}"
        case "fact" if broken.fact is not None:
            message = f"the contract `{broken.fact.relation}` does not hold"
            if broken.fact.span:
                labels.insert(0, Label(broken.fact.span, broken.fact.reason))
            elif broken.fact.reason:
                notes.append(broken.fact.reason)
            variables = sorted(broken.fact.relation.variables, key=lambda s: s.name)
            notes += [_source(symbol, broken, contract) for symbol in variables if symbol in broken.bindings]
            if len(variables) == 1 and variables[0] in broken.bindings:
                notes += _nearest(broken.bindings[variables[0]], _legal_values(variables[0], broken), f"{variables[0].name} = ")
        case _:
            message = "the sizes break the contract"
    diagnostic = Diagnostic("AX0501", f"{message}, in a call of `{function}`", tuple(labels), (*notes, signature))
    return ShapeError((diagnostic,))


def _formula(broken: ContractBroken, contract: Contract) -> list[str]:
    """`it is `4 * d`, with d = 64 (dimension 2 of `x`)`."""
    formula = broken.formula
    if formula is None or formula.constant is not None:
        return ["the signature says so"]
    if formula.symbol is not None:
        return ["both are `" + str(formula) + "`: " + _source(formula.symbol, broken, contract)]
    return [f"it is `{formula}` in the signature", *_sources(formula, broken, contract)]


def _sources(formula: Dim | None, broken: ContractBroken, contract: Contract) -> list[str]:
    variables = sorted(formula.variables if formula else (), key=lambda s: s.name)
    return [_source(symbol, broken, contract) for symbol in variables if symbol in broken.bindings]


def _source(symbol: Symbol, broken: ContractBroken, contract: Contract) -> str:
    """What a dimension is and which argument says so."""
    value = f"{symbol.name} = {broken.bindings[symbol]:,}"
    if symbol in contract.explicit:
        return f"{value} is the dimension parameter"
    for parameter in contract.shapes:
        for d, dim in enumerate(parameter.dims):
            if dim.symbol == symbol:
                return f"{value} is dimension {d + 1} of `{parameter.path}`"
    for parameter in contract.shapes:
        for d, dim in enumerate(parameter.dims):
            if symbol in dim.variables:
                return f"{value} comes from dimension {d + 1} of `{parameter.path}`, which is `{dim}`"
    return value


def _nearest(actual: int, legal: Iterator[int], prefix: str = "") -> list[str]:
    found = sorted(islice(legal, 2))
    # The second is worth saying only if it lies on the other side.
    if len(found) == 2 and (found[0] < actual) == (found[1] < actual):
        found = [min(found, key=lambda n: abs(n - actual))]
    if not found:
        return []
    return [f"the nearest that {'fits is' if len(found) == 1 else 'fit are'} {' and '.join(f'{prefix}{n:,}' for n in found)}"]


def _around(actual: int) -> Iterator[int]:
    for distance in islice(count(1), MAX_DISTANCE):
        if actual - distance >= 0:
            yield actual - distance
        yield actual + distance


def _legal_extents(
    broken: ContractBroken, contract: Contract, explicit: Sequence[int], shapes: Sequence[Sequence[int]]
) -> Iterator[int]:
    """Extents near a wrong one for which its formula has a solution, other arguments as they are."""
    index = next(i for i, shape in enumerate(contract.shapes) if shape.path == broken.path)
    for extent in _around(broken.actual or 0):
        changed = [list(shape) for shape in shapes]
        changed[index][broken.dimension or 0] = extent
        try:
            contract.bind(explicit, changed)
        except ContractBroken as other:
            if (other.kind, other.path, other.dimension) == (broken.kind, broken.path, broken.dimension):
                continue
        yield extent


def _legal_values(symbol: Symbol, broken: ContractBroken) -> Iterator[int]:
    """Values near a dimension's own for which the broken fact holds."""
    assert broken.fact is not None
    for value in _around(broken.bindings[symbol]):
        try:
            if broken.fact.relation.holds({symbol: value}):
                yield value
        except ZeroDivisionError:
            continue


def spans(names: Iterable[tuple[str, Span | None]]) -> dict[str, Span]:
    return {name: span for name, span in names if span is not None}
