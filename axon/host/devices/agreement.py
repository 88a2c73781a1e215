"""What the processes of a mesh must agree on before a call of a new form, and what is said where they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from axon import __version__
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.checker.kept import origin
from axon.core.ir import Program
from axon.core.sharding import print_sharded
from axon.core.sharding.ir import Sharded
from axon.host import values
from axon.host.call import Callee, Session, wrong

REFUSED = "refused"  # the fact of a process that cannot make the call: why
_WORDS = {  # of facts, in the order in which they are told: the first that differs explains those after it
    REFUSED: "",
    "axon": "another version of Axon",
    "function": "another function",
    "source": "another source",
    "mesh": "another mesh, or other sizes split over it",
    "element types": "other element types",
    "sizes": "other sizes",
    "numbers": "other numbers",
    "order": "another order of sums",
    "program": "another sharded program",
}


def facts(
    session: Session, callee: Callee, explicit: Sequence[int], sharded: Sharded, sizes: Mapping[Symbol, int], order: str
) -> dict[str, str]:
    program = sharded.source
    return {
        "axon": __version__,
        "function": f"{callee.name}[{', '.join(map(str, explicit))}]" if explicit else callee.name,
        "source": origin(session.checked)[:16],
        "mesh": f"{sharded.mesh}; {', '.join(f'{size.name} over {axis}' for size, axis, _ in sharded.sizes)}",
        "element types": ", ".join(f"{value.symbol.name} {value.element.value}" for value in program.inputs),
        "sizes": ", ".join(f"{symbol.name} = {size}" for symbol, size in sizes.items()),
        "order": order,
        "program": sha256(print_sharded(sharded).encode()).hexdigest()[:16],
    }


def numbers(program: Program, given: Sequence[Any]) -> dict[str, str]:
    """What is the same in all processes of a call of these arguments beside its form: Python's numbers, 1 and 1.0 alike."""
    found: dict[int, tuple[str, Any]] = values.flatten(program.params, given)
    plain = [(path, leaf) for _, (path, leaf) in sorted(found.items(), key=lambda item: item[0]) if isinstance(leaf, int | float)]
    return {"numbers": ", ".join(f"{path} = {_exactly(leaf)}" for path, leaf in plain)} if plain else {}


def _exactly(number: float) -> str:
    return repr(number if isinstance(number, float) and not number.is_integer() else int(number))


def disagreement(callee: Callee, ranks: Sequence[int], names: Callable[[int], str], told: Sequence[Mapping[str, str]]) -> AxonError:
    """In what the calls of the processes differ first, and whose differs from most of the others'."""
    fact = next(name for name in _WORDS if len({facts.get(name, "") for facts in told}) > 1)
    by: dict[str, list[int]] = {}
    for rank, facts in zip(ranks, told, strict=True):
        by.setdefault(facts.get(fact, ""), []).append(rank)
    most = max(by, key=lambda text: len(by[text]))
    if fact == REFUSED:
        cannot = [rank for text, those in by.items() if text for rank in those]
        message = f"{_listed(names, cannot)} cannot make a call of `{callee.name}`"
    elif 2 * len(by[most]) > len(told):
        odd = [rank for text, those in by.items() if text != most for rank in those]
        message = f"{_listed(names, odd)} would call `{callee.name}` with {_WORDS[fact]} than the others"
    else:
        message = f"some processes would call `{callee.name}` with {_WORDS[fact]} than others"
    notes = (f"rank {', '.join(map(str, those))}: {text or 'can make it'}" for text, those in by.items())
    return wrong(callee, "AX0902", message, *notes)


def _listed(names: Callable[[int], str], ranks: Sequence[int]) -> str:
    return " and ".join(map(names, ranks))
