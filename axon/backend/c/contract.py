"""The contract of a function as C: how a call's sizes are found from what is passed, what must hold, and what is said if not.

It goes through the plan of `shapes.contracts.determine`, one thing at a time, in the order of `guard.explain_broken`. The texts are
those of an error in Python; what it adds there, which sizes would do, takes a search that C does without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from axon.backend.c.identifiers import Identifiers
from axon.backend.c.sizes import is_odd, quoted, wide
from axon.backend.c.types import Interface
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.shapes.contracts.contract import ContractFact
from axon.shapes.contracts.determine import Divide, Place, Root
from axon.shapes.contracts.guard import MAX_EXTENT, divisors
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render

_RANGE = f"from 0 to {MAX_EXTENT - 1:,}"
_FAILS = {"=": "!=", "<>": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Contract:
    """Writes the body of `bind`: `variables` are what C calls the sizes, `name` what the signature does."""

    def __init__(
        self,
        program: Program,
        interface: Interface,
        function: str,
        signature: str,
        variables: Mapping[Symbol, str],
        names: Identifiers,
        name: Callable[[Symbol], str],
    ) -> None:
        self.program, self.interface, self.function, self.sig = program, interface, function, signature
        self.contract = program.contract
        self.plan = program.contract.determination
        self.variables = {**variables, **{symbol: names.new("extent") for symbol in self.plan.extents.values()}}
        self.name = name
        self.bound: dict[Symbol, None] = {}
        self.paths = [slot.path for slot in interface.inputs]

    def extent(self, place: Place) -> str:
        """What is found at a place."""
        return self.interface.inputs[place[0]].at(f"sizes[{place[1]}]")

    def text(self, dim: Dim) -> str:
        return _escaped(render(dim, self.name))

    def wide(self, dim: Dim) -> str:
        return wide(dim, lambda symbol: self.variables[symbol])

    # ── the function ────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self) -> Iterator[str]:
        """Lines of the body: `sizes` is filled, or a code is given back."""
        contract, plan = self.contract, self.plan
        yield "int odd = 0;"
        yield "(void)odd;"
        places = [(p, d) for p, shape in enumerate(contract.shapes) for d in range(len(shape.dims))]
        for symbol, own in zip(contract.explicit, self.interface.explicit, strict=True):
            yield from self.in_range(own, f"the dimension parameter `{symbol.name}` is %lld, and must be {_RANGE}")
        for place in places:
            size = f"{self.place(place)} is %lld; sizes are {_RANGE}"
            yield from self.in_range(self.extent(place), size)
        for symbol, own in zip(contract.explicit, self.interface.explicit, strict=True):
            yield from self.bind(symbol, own)
        for p, d in plan.loads:
            found = contract.shapes[p].dims[d].symbol
            assert found is not None
            yield from self.bind(found, self.extent((p, d)))
        solved = [s.coefficient * s.rest if isinstance(s, Divide) else s.dim + s.growth.least for s in plan.steps]
        used = frozenset[Symbol]().union(*(dim.variables for dim in solved))
        for place, symbol in plan.extents.items():
            if symbol in used:
                yield f"ax_wide {self.variables[symbol]} = {self.extent(place)};"
        for step in plan.steps:
            yield from self.solve(step)
        for place, symbol in plan.equal:
            yield from self.must_be(place, Dim.of(symbol))
        for p, d in plan.checks:
            yield from self.must_be((p, d), contract.shapes[p].dims[d])
        for fact in contract.facts:
            yield from self.must_hold(fact)
        for symbol in plan.order[len(plan.order) - len(plan.steps) :]:
            own = self.variables[symbol]
            text = f"the dimension parameter `{_escaped(self.name(symbol))}` is %lld, and must be {_RANGE}"
            yield from self.in_range(own, text)
        for fact in contract.limits:
            yield from self.must_hold(fact)
        for symbol in plan.order:
            yield f"sizes->{self.variables[symbol]} = (int64_t){self.variables[symbol]};"
        yield "return AXON_OK;"

    def bind(self, symbol: Symbol, value: str) -> Iterator[str]:
        self.bound[symbol] = None
        yield f"ax_wide {self.variables[symbol]} = {value};"

    def in_range(self, value: str, text: str) -> Iterator[str]:
        yield from self.unless(f"{value} >= 0 && {value} < {MAX_EXTENT}", text, [f"(long long){value}"], [])

    def solve(self, step: Divide | Root) -> Iterator[str]:
        own = self.variables[step.symbol]
        match step:
            case Divide(coefficient=coefficient, rest=rest):
                below, above = self.wide(coefficient), self.wide(-rest)
                if coefficient.constant in (1, -1):
                    yield f"ax_wide {own} = {self.wide(rest * -coefficient)};"
                    wrong = f"{own} >= 0"
                else:
                    yield f"ax_wide {own} = ax_wide_floor({above}, {below}, &odd);"
                    wrong = f"!odd && {own} >= 0 && {own} * ({below}) == {above}"
            case Root(dim=dim, growth=growth):
                most = Dim.of(MAX_EXTENT) if growth.most is None else growth.most
                yield f"ax_wide {own};"
                yield f"AX_ROOT({own}, {self.wide(dim)}, {self.wide(growth.least)}, {self.wide(most)});"
                wrong = f"!odd && {own} >= 0 && {self.wide(dim)} == 0"
        place, fact = step.source.place, step.source.fact
        if place is None:
            assert fact is not None
            yield from self.unless(wrong, *self.broken(self.contract.facts[fact]))
        else:
            dim = self.contract.shapes[place[0]].dims[place[1]]
            text = f"{self.place(place)} is %lld, which `{self.text(dim)}` cannot be"
            yield from self.unless(wrong, text, [f"(long long){self.extent(place)}"], self.sources(dim.variables))
        self.bound[step.symbol] = None

    def must_be(self, place: Place, dim: Dim) -> Iterator[str]:
        own, wanted = self.extent(place), self.wide(dim)
        numbers = [f"(long long){own}"]
        if is_odd([dim]):
            yield f"(void)({wanted});"
            none = f"{self.place(place)} is %lld, and no size fits there: `{self.text(dim)}` divides by 0"
            yield from self.unless("!odd", none, numbers, self.sources(dim.variables))
        if dim.symbol is not None:
            where, number = self.source(dim.symbol)
            notes = [(f"both are `{self.text(dim)}`: {where}", number)]
        elif dim.constant is not None:
            notes = [("the signature says so", list[str]())]
        else:
            notes = [(f"it is `{self.text(dim)}` in the signature", list[str]()), *self.sources(dim.variables)]
        text = f"{self.place(place)} is %lld, and must be %lld"
        yield from self.unless(f"{own} == {wanted}", text, [*numbers, f"(long long)({wanted})"], notes)

    def must_hold(self, fact: ContractFact) -> Iterator[str]:
        relation = fact.relation
        parts = [f"{self.wide(q.divisor)} >= 1" for q in divisors(relation)]
        left, right = self.wide(relation.left), self.wide(relation.right)
        holds = f"!({left} {_FAILS[relation.op]} {right})"
        if is_odd((relation.left, relation.right)):
            parts.append(f"{holds} && !odd")
        else:
            parts.append(holds)
        yield from self.unless(" && ".join(parts), *self.broken(fact))

    # ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def broken(self, fact: ContractFact) -> tuple[str, list[str], list[tuple[str, list[str]]]]:
        said = fact.relation.render(self.name)
        reason = fact.reason.replace("{}", f"`{said}`")
        if f"needs {said}" in fact.reason:
            reason = fact.reason.removesuffix(": here {}")
        notes: list[tuple[str, list[str]]] = [(_escaped(reason), [])] if reason else []
        return _escaped(f"the contract `{said}` does not hold"), [], [*notes, *self.sources(fact.relation.variables)]

    def place(self, place: Place) -> str:
        return f"dimension {place[1] + 1} of `{_escaped(self.paths[place[0]])}`"

    def sources(self, symbols: Iterable[Symbol]) -> list[tuple[str, list[str]]]:
        return [self.source(s) for s in sorted(symbols, key=self.name) if s in self.bound]

    def source(self, symbol: Symbol) -> tuple[str, list[str]]:
        """What a dimension is and which argument says so."""
        value, numbers = f"{_escaped(self.name(symbol))} = %s", [f"ax_grouped({self.variables[symbol]})"]
        if symbol in self.contract.explicit:
            return f"{value} is the dimension parameter", numbers
        places = [((p, d), dim) for p, shape in enumerate(self.contract.shapes) for d, dim in enumerate(shape.dims)]
        for place, dim in places:
            if dim.symbol == symbol:
                return f"{value} is {self.place(place)}", numbers
        for place, dim in places:
            if symbol in dim.variables:
                return f"{value} comes from {self.place(place)}, which is `{self.text(dim)}`", numbers
        return value, numbers

    def unless(self, holds: str, text: str, numbers: list[str], notes: list[tuple[str, list[str]]]) -> Iterator[str]:
        """Give back AXON_SIZES with a text unless a condition holds."""
        said = f"error[AX0501]: {text}, in a call of `{_escaped(self.function)}`" + "".join(f"\n  = {note}" for note, _ in notes)
        every = [*numbers, *(number for _, more in notes for number in more)]
        yield f"AX_REQUIRE({', '.join([holds, quoted(said) + ' AX_SIGNATURE', *every])});"

    @property
    def signature(self) -> str:
        """The macro that ends every text."""
        return f"#define AX_SIGNATURE {quoted(_escaped(f'{chr(10)}  = {self.sig}'))}"


def _escaped(text: str) -> str:
    """Of a format of printf."""
    return text.replace("%", "%%")
