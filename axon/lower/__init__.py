"""Checked syntax to core: one declaration, at one choice of ranks and element types.

Lowering evaluates the typed program at compile time: functions are applied and gone, records and tuples are taken apart, ranks and
element types are known, sizes stay symbolic. See `evaluate` for expressions and `builder` for how operations come to stand on only
the indices they use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TypeAlias

from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic, Label
from axon.base.element import Element, usual
from axon.base.errors import AxonError
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.checker.module import CheckedModule
from axon.core.ir import Leaf, Param, Program, RecordOf, Structure, TupleOf, Value
from axon.core.walk import dimensions_of
from axon.lower.builder import Context, CoreBuilder
from axon.lower.call_count import MAX_CALLS, least_calls, too_many_calls
from axon.lower.evaluate import Evaluator
from axon.lower.indexing import Definitions
from axon.lower.limits import limits
from axon.lower.needed import needed
from axon.lower.tensors import spread
from axon.lower.value import Closure, Env, Frame, Primitive, RecordValue, TensorValue, TupleValue
from axon.lower.value import Value as Lowered
from axon.shapes.algebra.prove import Facts
from axon.shapes.contracts.contract import Contract, ContractFact, ParameterShape
from axon.shapes.dimension import Dim
from axon.types import typed as T
from axon.types.literals import Literal
from axon.types.type import ElementVar, Exists, Function, RecordType, Row, Scheme, Tensor, TupleType, Type, TypeVar
from axon.types.unify import State


@dataclass(frozen=True, slots=True)
class TensorType:
    """The element type and rank of an argument."""

    element: Element
    rank: int


ArgumentType: TypeAlias = "TensorType | tuple[ArgumentType, ...] | Mapping[str, ArgumentType]"


def lower(checked: CheckedModule, name: str, arguments: tuple[ArgumentType, ...] | None) -> Program:
    """A declaration in core, for arguments of these element types and ranks.

    None stands for the most general arguments: f32 (or what its class allows), no dimensions for a shape variable. Raises AxonError
    for arguments that do not fit the signature, and for functions as parameters or results.
    """
    return _Lowering(checked, name).run(arguments)


class _Definitions(Mapping[Symbol, tuple[T.Decl, State]]):
    """Each declaration is found when it is asked for: of a library that was read from disk, few are."""

    def __init__(self, checked: CheckedModule) -> None:
        self._places: dict[Symbol, tuple[CheckedModule, str]] = {}
        waiting, seen = [checked], set()
        while waiting:
            module = waiting.pop()
            if module.source in seen:
                continue
            seen.add(module.source)
            self._places |= {symbol: (module, name) for name, symbol in module.symbols.items()}
            waiting += module.imports.values()

    def __getitem__(self, symbol: Symbol) -> tuple[T.Decl, State]:
        module, name = self._places[symbol]
        return module.declarations[name], module.state

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._places

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def definitions(checked: CheckedModule) -> Definitions:
    """Every declaration at the top of a module and of those it imports, with what its variables stand for."""
    return _Definitions(checked)


class _Lowering:
    def __init__(self, checked: CheckedModule, name: str) -> None:
        self.checked, self.name = checked, name
        self.scheme: Scheme = checked.schemes[name]
        self.frame = Frame(checked.state)
        self.inputs: list[Value] = []
        self.shapes: list[ParameterShape] = []
        self.span = _span(checked.declarations[name])
        self.waiting: list[tuple[tuple[Dim | Row, ...], int]] = []  # shapes with several unknown rows, and their ranks

    def run(self, arguments: tuple[ArgumentType, ...] | None) -> Program:
        scheme, decl = self.scheme, self.checked.declarations[self.name]
        types: list[Type] = []
        t: Type = scheme.type
        while isinstance(t, Function):
            types.append(t.param)
            t = t.result
        if arguments is None:
            self._generalize()
        elif len(arguments) != len(types):
            raise self._wrong(f"`{self.name}` takes {len(types)} arguments, not {len(arguments)}")
        else:
            for n, (wanted, given) in enumerate(zip(types, arguments, strict=True)):
                self._match(wanted, given, n in scheme.or_scalar)
            self._match_waiting()
            for row in scheme.rows:  # of which only scalars speak
                self.frame.rows.setdefault(row, ())
        self._check_literals(types)
        for fact in scheme.facts:  # `where k = 1`: such a dimension stretches
            slack = fact.relation.slack
            for symbol in slack.variables:
                number = (Dim.of(symbol) - slack).constant
                if fact.relation.op == "=" and symbol in scheme.dims and number is not None:
                    self.frame.dims[symbol] = Dim.of(number)
        names = _parameter_names(decl, len(types))
        params: list[Param] = []
        values: list[Lowered] = []
        for n, (name, wanted) in enumerate(zip(names, types, strict=True)):
            one = None if arguments is None else arguments[n]
            structure, value = self._parameter(name, wanted, one, n in scheme.or_scalar)
            params.append(Param(name, structure))
            values.append(value)
        facts = tuple(ContractFact(f.relation, f.why, f.span) for f in scheme.facts)
        contract = Contract(scheme.explicit, tuple(self.shapes), facts)
        builder = CoreBuilder(Facts().assume(*(f.relation for f in scheme.facts)))
        builder.shapes |= {value.symbol: value.shape for value in self.inputs}
        known_declarations = definitions(self.checked)
        if least_calls(self.checked.declarations[self.name], known_declarations) > MAX_CALLS:
            raise too_many_calls(self.span)
        evaluator = Evaluator(builder, known_declarations)
        found = self._result(evaluator, values)
        results, structure = self._store(builder, found)
        evaluator.forget_stopped(results)
        block = builder.extents.rewritten(needed(builder.block(results)), self.inputs, builder.known)
        known = contract.determined()
        # Equations under conditions that never hold are not solved: the sizes that only they decide are left.
        undecided = evaluator.sizes - known
        left = undecided and frozenset[Symbol]().union(*map(dimensions_of, block.ops)) & undecided
        idle = tuple(sorted(left, key=lambda s: s.id))
        contract = replace(contract, limits=limits(block, self.inputs, known, idle), idle=idle)
        return Program(self.name, scheme.explicit, tuple(params), tuple(self.inputs), contract, block, structure)

    def _result(self, evaluator: Evaluator, values: list[Lowered]) -> Lowered:
        decl = self.checked.declarations[self.name]
        env = Env(self.frame)
        context = Context()
        if isinstance(decl, T.Fun):
            f: Lowered = Closure(decl.params, decl.body, env)
        else:
            symbol = self.checked.symbols[self.name]
            found = evaluator.eval(env, decl.value, context)
            f = evaluator.bind(env, decl.pattern, found)[symbol]
        return evaluator.apply(f, values, context, self.span)

    # ── arguments ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _generalize(self) -> None:
        for symbol, allowed in self.scheme.elements:
            self.frame.elements[symbol] = usual(allowed)
        for row in self.scheme.rows:
            self.frame.rows[row] = ()

    def _match(self, wanted: Type, given: ArgumentType, or_scalar: bool = False) -> None:
        """Find what element and shape variables stand for. `or_scalar`: one of rank 0 will do, and says nothing of the shape."""
        match wanted, given:
            case Tensor(element, shape), TensorType(actual, rank):
                if isinstance(element, ElementVar):
                    known = self.frame.elements.setdefault(element.symbol, actual)
                    if known is not actual:
                        raise self._wrong(f"{known.value} and {actual.value} for one element type", "AX0504")
                elif element is not actual:
                    raise self._wrong(f"an argument has {actual.value} elements; {element.value} is needed", "AX0504")
                if rank or not or_scalar:
                    self._match_rank(shape, rank)
            case TupleType(items), tuple() as parts if len(parts) == len(items):
                for item, part in zip(items, parts, strict=True):
                    self._match(item, part)
            case RecordType(fields), Mapping() if {n for n, _ in fields} == set(given):
                for name, field in fields:
                    self._match(field, given[name])
            case TypeVar(), _:
                pass
            case _:
                raise self._wrong("an argument does not fit the signature")

    def _match_rank(self, shape: tuple[Dim | Row, ...], rank: int) -> None:
        rows = self.frame.rows
        open_ = [i.symbol for i in shape if isinstance(i, Row) and i.symbol not in rows]
        known = sum(len(rows[i.symbol]) if isinstance(i, Row) and i.symbol in rows else 1 for i in shape) - len(open_)
        if len(set(open_)) > 1:  # another argument may tell
            self.waiting.append((shape, rank))
            return
        if known > rank or (rank - known) % (len(open_) or 1) or (not open_ and known != rank):
            raise self._wrong(f"an argument of rank {rank} does not fit the signature", "AX0506")
        if open_:
            (row,) = set(open_)
            count = (rank - known) // len(open_)
            names = [row.name] if count == 1 else [f"{row.name}{n + 1}" for n in range(count)]
            rows[row] = tuple(Dim.of(fresh(n)) for n in names)

    def _match_waiting(self) -> None:
        while self.waiting:
            before, self.waiting = self.waiting, []
            for shape, rank in before:
                self._match_rank(shape, rank)
            if len(self.waiting) == len(before):
                raise self._wrong("the ranks of the arguments can be split in more than one way", "AX0506")

    def _parameter(
        self, path: str, t: Type, given: ArgumentType | None, or_scalar: bool = False
    ) -> tuple[Structure, Lowered]:  # fmt: skip
        """The inputs that a parameter is made of, and the value that it is in the program."""
        match t:
            case Tensor(element, shape):
                dims: list[Dim] = []
                for item in shape:
                    dims.extend(self.frame.rows[item.symbol] if isinstance(item, Row) else (item,))
                known = element if isinstance(element, Element) else self.frame.elements[element.symbol]
                if or_scalar and dims and isinstance(given, TensorType) and not given.rank:
                    one, value = self._input(path, known, ())
                    return one, spread(value, tuple(d.substitute(self.frame.dims) for d in dims))
                return self._input(path, known, tuple(dims))
            case TupleType(items):
                parts = given if isinstance(given, tuple) else (None,) * len(items)
                made = [self._parameter(f"{path}.{n}", i, g) for n, (i, g) in enumerate(zip(items, parts, strict=True), 1)]
                return TupleOf(tuple(s for s, _ in made)), TupleValue(tuple(v for _, v in made))
            case RecordType(fields):
                given = given if isinstance(given, Mapping) else {}
                found = {n: self._parameter(f"{path}.{n}", f, given.get(n)) for n, f in fields}
                return RecordOf(tuple((n, s) for n, (s, _) in found.items())), RecordValue({n: v for n, (_, v) in found.items()})
            case TypeVar():
                return self._any(path, given)
            case Exists(_, _, body):
                return self._parameter(path, body, given)
            case _:
                raise self._wrong(f"`{path}` is a function; functions are applied inside Axon, they cannot come from outside")

    def _any(self, path: str, given: ArgumentType | None) -> tuple[Structure, Lowered]:
        """An argument of any type is what the caller gives."""
        match given:
            case None:
                return self._input(path, Element.F32, ())
            case TensorType(element, rank):
                return self._input(path, element, tuple(Dim.of(fresh("n")) for _ in range(rank)))
            case tuple():
                made = [self._any(f"{path}.{n}", g) for n, g in enumerate(given, 1)]
                return TupleOf(tuple(s for s, _ in made)), TupleValue(tuple(v for _, v in made))
            case _:
                found = {n: self._any(f"{path}.{n}", g) for n, g in given.items()}
                return RecordOf(tuple((n, s) for n, (s, _) in found.items())), RecordValue({n: v for n, (_, v) in found.items()})

    def _input(self, path: str, element: Element, dims: tuple[Dim, ...]) -> tuple[Structure, TensorValue]:
        value = Value(fresh(path.replace(".", "_").replace(" ", "_")), element, dims)
        self.inputs.append(value)
        self.shapes.append(ParameterShape(path, dims))
        whole = CoreBuilder(Facts()).view(value)
        return Leaf(len(self.inputs) - 1), replace(whole, shape=tuple(d.substitute(self.frame.dims) for d in dims))

    def _check_literals(self, types: Sequence[Type]) -> None:
        """See that the element types of the arguments hold the literals that are of these types."""
        for literal in self.scheme.literals:
            element = self.frame.elements.get(literal.element)
            if element is None or element.holds(literal.value):
                continue
            names = _parameter_names(self.checked.declarations[self.name], len(types))
            path = next((p for name, t in zip(names, types, strict=True) for p in _paths(name, t, literal.element)), None)
            notes = (f"`{self.name}` is called with {element.value}" + (f" for `{path}`" if path else ""),)
            from axon.explain.numbers import literal_too_large

            found = literal_too_large(Literal(literal.value, element, literal.span), element)
            raise AxonError((replace(found, code="AX0504", notes=notes),))

    # ── results ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _store(self, builder: CoreBuilder, found: Lowered) -> tuple[tuple[Symbol, ...], Structure]:
        """Every tensor of the result as a value of the block; none of them is an input, so that results alias nothing."""
        results: list[Symbol] = []
        structure = self._stored(builder, found, results, {v.symbol for v in self.inputs})
        return tuple(results), structure

    def _stored(self, builder: CoreBuilder, value: Lowered, results: list[Symbol], inputs: Set[Symbol]) -> Structure:
        match value:
            case TensorValue():
                kept = value
                if value.lazy or value.symbol is None or value.symbol in inputs or value.symbol in results:
                    own = TensorValue(value.element, value.shape, value.at, lazy=True, span=value.span or self.span)
                    kept = builder.store(own, Context(), "result")
                assert kept.symbol is not None
                results.append(kept.symbol)
                return Leaf(len(results) - 1)
            case TupleValue(items):
                return TupleOf(tuple([self._stored(builder, i, results, inputs) for i in items]))
            case RecordValue(fields):
                return RecordOf(tuple([(n, self._stored(builder, f, results, inputs)) for n, f in fields.items()]))
            case Closure() | Primitive():
                raise self._wrong(f"the result of `{self.name}` is a function; apply it to all its arguments")

    def _wrong(self, message: str, code: str = "AX0505") -> AxonError:
        return AxonError((Diagnostic(code, message, (Label(self.span, "declared here"),)),))


def _span(decl: T.Decl) -> Span:
    return decl.body.span if isinstance(decl, T.Fun) else decl.value.span


def _paths(path: str, t: Type, element: Symbol) -> Iterator[str]:
    """Where in a parameter there are tensors of an element type."""
    match t:
        case Tensor(ElementVar(symbol)) if symbol == element:
            yield path
        case TupleType(items):
            for n, item in enumerate(items, 1):
                yield from _paths(f"{path}.{n}", item, element)
        case RecordType(fields):
            for name, field in fields:
                yield from _paths(f"{path}.{name}", field, element)
        case Exists(_, _, body):
            yield from _paths(path, body, element)


def _parameter_names(decl: T.Decl, count: int) -> Iterator[str]:
    """What a user calls each parameter; those without a name are counted."""
    patterns: tuple[T.Pattern, ...] = ()
    if isinstance(decl, T.Fun):
        patterns = decl.params
    elif isinstance(decl.value, T.Fn):
        patterns = decl.value.params
    for n in range(count):
        pattern = patterns[n] if n < len(patterns) else None
        named = pattern.symbol.name if isinstance(pattern, T.PatternName) else "_"
        yield named if named != "_" else f"argument {n + 1}"
