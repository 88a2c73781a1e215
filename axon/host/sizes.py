"""`m.f.sizes`: the sizes of a signature as SymPy symbols, its contract as relations between them, shapes as expressions.

A size has a name if the source gives it one: in an annotation, as an index, or in a `sig`. Names that the compiler chose are shown
as the signature shows them, but nobody can rely on them: such a size is addressed by its place, `("x", 0)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axon.base.data import dataclass, field
from axon.host.call import Callee, Session
from axon.host.ranked import Place, Ranked, ranked
from axon.shapes.algebra.polynomials import expression, relation, size_symbol
from axon.shapes.algebra.prove import Facts, proves
from axon.shapes.contracts.guard import divisors
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation, said


class Expressions:
    """Sizes as SymPy expressions."""

    def __init__(self, at: Ranked) -> None:
        self.at = at
        self.symbols = {symbol: size_symbol(name) for symbol, name in at.names.items()}

    def of(self, dim: Dim) -> Any:
        return expression(dim, self.symbols)

    def relations(self, relations: Sequence[Relation]) -> tuple[Any, ...]:
        """Without those that SymPy sees to hold of all sizes, in an order in which `all(r.subs(sizes) for r in …)` never divides
        by 0."""
        made = (relation(r, self.symbols) for r in _in_order(relations))
        return tuple(r for r in made if r is not True and r != True)  # noqa: E712 (SymPy's true)


def _in_order(relations: Sequence[Relation]) -> list[Relation]:
    """Those that divide last, after that their divisors are at least 1: Axon's `n / n` says it, SymPy's, which is 1, does not."""
    dividing = [r for r in relations if divisors(r)]
    found = [r for r in relations if r not in dividing]
    facts = Facts().assume(*found)
    for divisor in sorted({q.divisor for r in dividing for q in divisors(r)}, key=lambda d: d.weight):
        needed = Relation(divisor, ">=", Dim.of(1))
        if not proves(facts, needed):
            facts = facts.assume(needed)
            found.append(needed)
    return found + dividing


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The sizes of a function's signature, as SymPy has them.

    `symbols` are the sizes that the source names, by name: integers from 0. `contract` are the relations that a call must satisfy,
    also those that divisors are at least 1.
    `arguments` and `results` are shapes by path (`x`, `p.w`; `out`, `out.1`), as tuples of expressions. `sizes["b"]` is a size by
    name, `sizes["x", 0]` by place. Called with `ranks={"s": 2}`, it is the same at other ranks of its shape variables.
    """

    _at: Ranked = field(repr=False)

    @property
    def symbols(self) -> dict[str, Any]:
        made = Expressions(self._at).symbols
        return {self._at.names[s]: made[s] for s in self._at.variables if s in self._at.own}

    @property
    def contract(self) -> tuple[Any, ...]:
        return Expressions(self._at).relations([f.relation for f in self._at.contract.facts])

    @property
    def arguments(self) -> dict[str, tuple[Any, ...]]:
        made = Expressions(self._at)
        return {path: tuple(map(made.of, dims)) for path, dims in self._at.arguments.items()}

    @property
    def results(self) -> dict[str, tuple[Any, ...]]:
        made = Expressions(self._at)
        return {path: tuple(map(made.of, dims)) for path, dims in self._at.results.items()}

    def __getitem__(self, key: str | Place) -> Any:
        return Expressions(self._at).of(self._at.address(key))

    def __call__(self, *, ranks: Mapping[str, int]) -> Sizes:
        return Sizes(ranked(self._at.session, self._at.callee, ranks))

    def __repr__(self) -> str:
        at = self._at
        shapes = {p: f"[{', '.join(map(at.text, dims))}]" for p, dims in (*at.arguments.items(), *at.results.items())}
        width = max(map(len, shapes), default=0)
        lines = [f"<sizes of {at.callee.name}", *(f"  {path:<{width}} : {shape}" for path, shape in shapes.items())]
        facts = [r.render(at.name) for r in said([f.relation for f in at.contract.facts])]
        lines += [f"  where {', '.join(facts)}"] if facts else []
        invented = [at.names[s] for s in at.variables if s not in at.own]
        lines += [f"  by place alone, for the source does not name them: {', '.join(invented)}"] if invented else []
        return "\n".join(lines) + ">"


@dataclass(frozen=True, slots=True, eq=False)
class Unranked:
    """The sizes of a function with shape variables, which stand for any number of dimensions: `sizes(ranks={"s": 2})` gives it."""

    _session: Session = field(repr=False)
    _callee: Callee = field(repr=False)

    def __call__(self, *, ranks: Mapping[str, int]) -> Sizes:
        return Sizes(ranked(self._session, self._callee, ranks))

    def __getattr__(self, name: str) -> Any:
        return getattr(Sizes(ranked(self._session, self._callee)), name)  # which raises, and says how to give the ranks

    def __getitem__(self, key: str | Place) -> Any:
        return Sizes(ranked(self._session, self._callee))[key]

    def __repr__(self) -> str:
        return f"<sizes of {self._callee.signature.removeprefix('sig ')}, at no ranks yet: call it with ranks=>"


def sizes_of(session: Session, callee: Callee) -> Sizes | Unranked:
    """The sizes of a function; of one with shape variables, what gives them at ranks."""
    return Unranked(session, callee) if callee.scheme.rows else Sizes(ranked(session, callee))
