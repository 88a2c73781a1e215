"""`m.f.solve(…)`: the sizes of arguments with which a function gives a result of a shape.

What is given becomes equations beside the contract (see `shapes.contracts.inverse`). An answer is exact: a list has every solution
there is, of a family each member is one, and where there is none the conditions that contradict one another are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from axon.base.data import dataclass, field
from axon.base.diagnostics import Diagnostic, Label
from axon.base.errors import AxonError, ShapeError
from axon.base.names import Symbol
from axon.core.ir import Block, Check, Loop
from axon.host.call import Callee, Session, wrong
from axon.host.ranked import PYTHON, Place, Ranked, Spelling, by_key, ranked, result_path, result_type, shapes_given, size
from axon.host.sizes import Expressions
from axon.shapes.contracts.inverse import Answer, Every, Family, Nothing, inverse
from axon.shapes.contracts.legal import satisfied
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

LISTED = 1_000  # solutions, beyond which they are a family
_SHOWN = 12  # of them, in a text

Status: TypeAlias = Literal["all", "family", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class _Condition:
    """A relation that must hold, and why."""

    relation: Relation
    why: str
    label: Label | None = None


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Solution:
    """Sizes with which a call gives what was asked: those that the source names, and the shapes by path.

    `solution["b"]` is a size by name, `solution["x", 0]` by place.
    """

    sizes: Mapping[str, int]
    arguments: Mapping[str, tuple[int, ...]]
    results: Mapping[str, tuple[int | None, ...]]  # None is a size that only the data decide
    _at: Ranked = field(repr=False, compare=False)
    _values: Mapping[Symbol, int] = field(repr=False, compare=False)

    def __getitem__(self, key: str | Place) -> int:
        return self._at.address(key).evaluate(dict(self._values))

    def __str__(self) -> str:
        named = ", ".join(f"{name} = {n:,}" for name, n in self.sizes.items())
        shapes = ", ".join(f"{path} : [{', '.join(map(str, self.arguments[path]))}]" for path in self._at.unnamed)
        return "; ".join(filter(None, (named, shapes))) or "sizes are all fixed"


@dataclass(frozen=True, slots=True, eq=False)
class Solutions:
    """What `solve` finds. `status` says what it is:

    "all"       `found` has every solution, sorted by its sizes; the object iterates over them
    "family"    there are more than can be listed: `free` are the sizes that may be chosen, as SymPy symbols, so that `relations`
                hold; `sizes` has every named size, and `arguments` every shape, as expressions of them; `example` is one solution.
                No size exceeds 2,147,483,647
    "none"      there is none; `why` is the error AX0501, which names what contradicts
    "unknown"   nothing was shown within the budget of the search, or an `as` is asked under a condition of sizes that are open

    As a truth value: whether there is a solution.
    """

    status: Status
    found: tuple[Solution, ...] = ()
    example: Solution | None = None
    why: AxonError | None = None
    _family: Family | None = field(default=None, repr=False)
    _at: Ranked | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.found) or self.status == "family"

    def __len__(self) -> int:
        return len(self._listed())

    def __iter__(self) -> Iterator[Solution]:
        return iter(self._listed())

    def __getitem__(self, number: int) -> Solution:
        return self._listed()[number]

    def _listed(self) -> tuple[Solution, ...]:
        if self.status in ("family", "unknown"):
            raise TypeError(f"the solutions are {_ARE[self.status]}, and no list")
        return self.found

    @property
    def free(self) -> tuple[Any, ...]:
        family, at = self._of_family()
        made = Expressions(at)
        return tuple(made.symbols[s] for s in family.free)

    @property
    def relations(self) -> tuple[Any, ...]:
        family, at = self._of_family()
        return Expressions(at).relations(family.relations)

    @property
    def sizes(self) -> dict[str, Any]:
        family, at = self._of_family()
        made = Expressions(at)
        return {at.names[s]: made.of(family.sizes.get(s, Dim.of(s))) for s in at.variables if s in at.own}

    @property
    def arguments(self) -> dict[str, tuple[Any, ...]]:
        family, at = self._of_family()
        made = Expressions(at)
        return {p: tuple(made.of(d.substitute(family.sizes)) for d in dims) for p, dims in at.arguments.items()}

    def _of_family(self) -> tuple[Family, Ranked]:
        if self._family is None or self._at is None:
            raise TypeError(f"the solutions are {_ARE[self.status]}, and no family")
        return self._family, self._at

    def __str__(self) -> str:
        match self.status:
            case "all":
                lines = [str(s) for s in self.found[:_SHOWN]]
                more = [f"and {len(self.found) - _SHOWN:,} more"] if len(self.found) > _SHOWN else []
                return "\n".join(lines + more)
            case "family":
                return "\n".join(self._family_lines())
            case "none":
                return str(self.why).rstrip()
            case _:
                return "unknown: nothing was shown within the budget of the search; the more is given, the less there is to search"

    def _family_lines(self) -> Iterator[str]:
        family, at = self._of_family()
        free = [at.names[s] for s in family.free]
        yield f"for any {', '.join(free)}" + (" such that" if family.relations else "")
        yield from (f"  {r.render(at.name)}" for r in family.relations)
        solved = [(s, family.sizes[s]) for s in at.variables if s in family.sizes]
        yield from (f"  {at.names[s]} = {at.text(dim)}" for s, dim in solved if s in at.own)
        for path in at.unnamed:
            yield f"  {path} : [{', '.join(at.text(d.substitute(family.sizes)) for d in at.arguments[path])}]"
        yield f"for example {self.example}"

    def __repr__(self) -> str:
        head = f"<{_ARE[self.status]}" if self.status != "all" else f"<{_count(len(self.found), 'solution')}"
        return "\n  ".join([f"{head}:" if self.status != "unknown" else head, *str(self).splitlines()]) + ">"


_ARE = {"all": "a list", "family": "a family", "none": "none", "unknown": "unknown"}


# ── the question ────────────────────────────────────────────────────────────────────────────────────────────────────────


def solve(
    session: Session,
    callee: Callee,
    explicit: tuple[int, ...],
    given: Mapping[Any, Any] | None,
    out: Any,
    ranks: Mapping[str, int] | None,
    shapes: Mapping[str, Any],
    spelling: Spelling = PYTHON,
) -> Solutions:
    """The sizes of a function's arguments for which its result has a shape. Raises AxonError for what does not fit it."""
    return asked(session, callee, explicit, given, out, ranks, shapes, spelling).solutions()


def asked(
    session: Session,
    callee: Callee,
    explicit: tuple[int, ...],
    given: Mapping[Any, Any] | None,
    out: Any,
    ranks: Mapping[str, int] | None,
    shapes: Mapping[str, Any],
    spelling: Spelling,
    elements: Mapping[str, str] | None = None,
) -> Asked:
    """What is asked of a function's sizes, as conditions beside its contract. Raises AxonError for what does not fit it."""
    wanted = dict(_shapes(callee, out, shapes, spelling))
    at = ranked(session, callee, ranks, elements, wanted, spelling)
    conditions = [*_given(at, explicit, by_key(callee, "sizes", given, '{"b": 8}')), *_places(at, wanted), *_contract(at)]
    conditions += [_checked(c) for c in _checks(at.program.block) if _plain(at, c)]
    for symbol in at.contract.idle:
        conditions.append(_Condition(Relation(Dim.of(symbol), "=", Dim.of(0)), "nothing depends on it"))
    return Asked(at, tuple(conditions), wanted)


@dataclass(slots=True)
class Asked:
    """A question about the sizes of a function: conditions, those of the contract included, and the shapes that are `wanted`."""

    at: Ranked
    conditions: tuple[_Condition, ...]
    wanted: Mapping[str, tuple[int | None, ...]]
    answer: Answer = field(init=False)

    def __post_init__(self) -> None:
        variables = (*self.at.variables, *self.at.contract.idle)
        self.answer = inverse([c.relation for c in self.conditions], variables, LISTED)

    @property
    def nothing(self) -> ShapeError | None:
        """That no sizes satisfy the conditions, where it is so."""
        return _none(self.at, [self.conditions[i] for i in self.answer.core]) if isinstance(self.answer, Nothing) else None

    def solutions(self) -> Solutions:
        at, block = self.at, self.at.program.block
        others = [c for c in _checks(block) if not _plain(at, c)]
        decided = all(c.left.variables | c.right.variables <= at.contract.variables for c in others) and not _in_loops(block)
        match self.answer:
            case Every(values) if decided:
                found = [v for v in values if all(_passes(c, v) for c in others)]
                if not all(_accepted(at, v, self.wanted) for v in found):
                    return Solutions("unknown")  # what is returned is never wrong
                if found:
                    return Solutions("all", tuple(_solution(at, v) for v in found))
                return Solutions("none", why=_none(at, [_checked(c) for c in others]))
            case Family(example=example) as family if not others and decided and _accepted(at, example, self.wanted):
                return Solutions("family", example=_solution(at, example), _family=family, _at=at)
            case Nothing():
                return Solutions("none", why=self.nothing)
            case _:
                return Solutions("unknown")


def _shapes(
    callee: Callee, out: Any, shapes: Mapping[str, Any], spelling: Spelling
) -> Iterator[tuple[str, tuple[int | None, ...]]]:
    """What is given of arguments and the result, by path."""
    types = {p.name: p.type for p in callee.parameters}
    for name, value in shapes.items():
        if name not in types:
            has = f"it has {', '.join(f'`{n}`' for n in types)}; {spelling.size()}"
            raise wrong(callee, "AX0505", f"`{callee.name}` has no parameter `{name}`", has)
        yield from shapes_given(callee, name, types[name], value, spelling)
    yield from shapes_given(callee, result_path(callee), result_type(callee), out, spelling)


def _given(at: Ranked, explicit: tuple[int, ...], given: Mapping[Any, Any]) -> Iterator[_Condition]:
    for symbol, value in zip(at.contract.explicit, explicit, strict=False):
        yield _Condition(Relation(Dim.of(symbol), "=", Dim.of(value)), f"`{at.name(symbol)}` is given as {value:,}")
    for key, value in given.items():
        dim = at.address(key)
        what = f"`{key}`" if isinstance(key, str) else _place(at, key[0], int(key[1]), dim)
        number = size(at.callee, what, value)
        _decidable(at, what, dim)
        yield _Condition(Relation(dim, "=", Dim.of(number)), f"{what} is given as {number:,}")


def _places(at: Ranked, wanted: Mapping[str, tuple[int | None, ...]]) -> Iterator[_Condition]:
    for path, shape in wanted.items():
        dims = (at.arguments if path in at.arguments else at.results)[path]
        for i, (dim, number) in enumerate(zip(dims, shape, strict=True)):
            if number is not None:
                what = _place(at, path, i, dim)
                _decidable(at, what, dim)
                given = "given as" if path in at.arguments else "asked to be"
                yield _Condition(Relation(dim, "=", Dim.of(number)), f"{what} is {given} {number:,}")


def _decidable(at: Ranked, what: str, dim: Dim) -> None:
    if not dim.variables <= set(at.variables):
        note = f"leave it open, with {at.spelling.open()}: a call finds out how large it is"
        raise wrong(at.callee, "AX0505", f"{what} is a size that only the data decide", note)


def _place(at: Ranked, path: str, dimension: int, dim: Dim) -> str:
    dims = (at.arguments if path in at.arguments else at.results)[path]
    where = "the result" if path == result_path(at.callee) and path not in at.arguments else f"`{path}`"
    text = f", `{at.text(dim)}`," if dim.constant is None else ""
    return f"dimension {dimension % len(dims) + 1} of {where}{text}"


def _contract(at: Ranked) -> Iterator[_Condition]:
    for shape in at.contract.shapes:
        for i, dim in enumerate(shape.dims):
            if dim.symbol is None and dim.constant is None:
                said = f"dimension {i + 1} of `{shape.path}`, `{at.text(dim)}`,"
                yield _Condition(Relation(dim, ">=", Dim.of(0)), f"{said} is a size")
                yield _Condition(Relation(dim, "<=", Dim.of(_MOST)), f"{said} is a size, and sizes end at {_MOST:,}")
    for fact in (*at.contract.facts, *at.contract.limits):
        text = fact.relation.render(at.name)
        reason = fact.reason.replace("{}", f"`{text}`")
        yield _Condition(fact.relation, f"`{text}` must hold", Label(fact.span, reason or f"`{text}`") if fact.span else None)


_MOST = 2**31 - 1


def _checks(block: Block) -> Iterator[Check]:
    return (op for op in block.ops if isinstance(op, Check))


def _plain(at: Ranked, check: Check) -> bool:
    """Whether a check is asked of every call, and about sizes alone."""
    divides = any(q.divisor.constant is None for side in (check.left, check.right) for q in side.quotients)
    return not check.given and not divides and check.left.variables | check.right.variables <= set(at.variables)


def _in_loops(block: Block) -> bool:
    """Whether a check is asked in a loop, of each step."""
    loops = [op.body for op in block.ops if isinstance(op, Loop)]
    return any(isinstance(op, Check) for body in loops for op in body.ops) or any(map(_in_loops, loops))


def _checked(check: Check) -> _Condition:
    return _Condition(Relation(check.left, check.relation, check.right), check.message, _label(check))


def _passes(check: Check, values: Mapping[Symbol, int]) -> bool:
    try:
        return check.holds(values)
    except ZeroDivisionError:
        return False


def _label(check: Check) -> Label | None:
    return Label(check.span, check.message) if check.span else None


def _accepted(at: Ranked, values: Mapping[Symbol, int], wanted: Mapping[str, tuple[int | None, ...]]) -> bool:
    """Whether a call with these sizes passes the guard of the contract, and its results are as wanted."""
    try:
        explicit = [values[s] for s in at.contract.explicit]
        shapes = [[dim.evaluate(values) for dim in shape.dims] for shape in at.contract.shapes]
        if not at.contract.admits(explicit, shapes) or at.contract.bind(explicit, shapes) != dict(values):
            return False
        known = {p: dims for p, dims in at.results.items() if p in wanted and p not in at.arguments}
        for path, dims in known.items():
            for dim, number in zip(dims, wanted[path], strict=True):
                if number is not None and dim.evaluate(values) != number:
                    return False
    except ZeroDivisionError:
        return False
    return all(satisfied(f.relation, values) for f in at.contract.facts)


def _solution(at: Ranked, values: Mapping[Symbol, int]) -> Solution:
    def shape(dims: tuple[Dim, ...]) -> tuple[int | None, ...]:
        return tuple(d.evaluate(values) if d.variables <= values.keys() else None for d in dims)

    sizes = {at.names[s]: values[s] for s in at.variables if s in at.own}
    arguments = {path: tuple(d.evaluate(values) for d in dims) for path, dims in at.arguments.items()}
    return Solution(sizes, arguments, {path: shape(dims) for path, dims in at.results.items()}, at, dict(values))


def _none(at: Ranked, conditions: list[_Condition]) -> ShapeError:
    """That there is no solution, and what contradicts."""
    labels = [c.label for c in conditions if c.label is not None]
    if not labels and at.callee.span is not None:
        labels = [Label(at.callee.span)]
    first, *rest = [c.why for c in conditions]
    notes = [first, *(f"and {why}" for why in rest)]
    message = f"no sizes do what is asked of `{at.callee.name}`"
    return ShapeError((Diagnostic("AX0501", message, tuple(dict.fromkeys(labels)), (*notes, at.callee.signature)),))


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
