"""A function at ranks and element types, for questions about its sizes: its program, its shapes by path, and names for its sizes.

A size has a name if the source gives it one: in an annotation, as an index, or in a `sig`. Names that the compiler chose are shown
as the signature shows them, but nobody can rely on them: such a size is addressed by its place, `("x", 0)`.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from axon.base.data import dataclass
from axon.base.diagnostics import Suggestion
from axon.base.element import Element, usual
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.base.nearest import MAX_SIZE, nearest
from axon.core import ir as core
from axon.core.walk import results_of
from axon.host.call import Callee, Session, wrong
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.types import type as t
from axon.types.show import dimension_names

if TYPE_CHECKING:
    from axon.shapes.contracts.contract import Contract

_MAX_RANK = 32
_KEYS = 'a size is a name, "b", or a place, ("x", 0)'

Shape: TypeAlias = "tuple[int | None, ...]"
Place: TypeAlias = "tuple[str, int]"


# ── how a question is written ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Spelling:
    """How whoever asks writes sizes and ranks, for errors that say what to write: as arguments of a method of a function, or of a
    command."""

    method: str | None = "solve"  # None for a command line

    def size(self) -> str:
        return "sizes are given as `b=8`" if self.method is None else f'sizes are given in a dict, `{self.method}({{"b": 8}}, …)`'

    def place(self, path: str, dimension: int) -> str:
        bare = path.removeprefix("argument ")  # as in `axon run`
        return f"`{bare}[{dimension}]=8`" if self.method is None else f'("{path}", {dimension})'

    def rank(self, row: str) -> str:
        """Of a shape variable."""
        return f"`..{row}=1`" if self.method is None else f'`ranks={{"{row}": 1}}`'

    def rank_of_argument(self, path: str) -> str:
        bare = path.removeprefix("argument ")
        if self.method is None:
            return f"`{bare}=_,_`, an argument of two dimensions"
        return f'`ranks={{"{path}": 2}}`, the rank of an argument'

    def open(self) -> str:
        return "_" if self.method is None else "None"

    def given(self, value: Any) -> str:
        """A value that is no shape of what it is given for."""
        if self.method is None and isinstance(value, Mapping):
            return f"given for a part, `{next(iter(value))}`"
        if self.method is None and isinstance(value, tuple):
            return ",".join("_" if n is None else str(n) for n in value) or "that of a scalar"
        return shown(value)

    def part(self, path: str, part: str) -> tuple[str, ...]:
        """A note on how a shape of a part is given, where that is not plain."""
        bare = path.removeprefix("argument ")
        return (f"each is given by its path, such as {bare}.{part}=8,_",) if self.method is None else ()

    def shape(self) -> str:
        if self.method is None:
            return "a shape is sizes with commas, and _ for what is left open: 8,_,3; that of a part is given by its path: p.w=8,_"
        return "a shape is a tuple of sizes, with None for what is left open: (8, None, 3)"


PYTHON, COMMAND_LINE = Spelling(), Spelling(None)


# ── a function at ranks ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A function at one choice of ranks and element types: its program, and what its sizes are called.

    `arguments` and `results` are the shapes by path: `x`, `p.w`, `out.1`. `own` are the sizes that the source names.
    """

    session: Session
    callee: Callee
    program: core.Program
    names: Mapping[Symbol, str]
    own: frozenset[Symbol]
    arguments: Mapping[str, tuple[Dim, ...]]
    results: Mapping[str, tuple[Dim, ...]]
    spelling: Spelling = PYTHON

    @property
    def contract(self) -> Contract:
        return self.program.contract

    @property
    def variables(self) -> tuple[Symbol, ...]:
        """Every size that a call decides, in the order of the signature."""
        shaped = (s for dims in self.arguments.values() for d in dims for s in sorted(d.variables, key=lambda s: s.id))
        facts = (s for f in self.contract.facts for s in sorted(f.relation.variables, key=lambda s: s.id))
        found = dict.fromkeys([*self.contract.explicit, *shaped, *facts])
        return tuple(s for s in found if s not in self.contract.idle)

    @property
    def unnamed(self) -> tuple[str, ...]:
        """The arguments of which a size is made of what the source does not name."""
        return tuple(p for p, dims in self.arguments.items() if any(not d.variables <= self.own for d in dims))

    def text(self, dim: Dim) -> str:
        return render(dim, self.name)

    def name(self, symbol: Symbol) -> str:
        return self.names[symbol]

    def address(self, key: Any) -> Dim:
        """The size that a name or a place stands for. Raises AxonError."""
        if isinstance(key, str):
            return Dim.of(self._named(key))
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str):
            return self._placed(*key)
        raise wrong(self.callee, "AX0505", f"{shown(key)} is no size of `{self.callee.name}`", _KEYS)

    def _named(self, name: str) -> Symbol:
        found = next((s for s in self.names if self.names[s] == name), None)
        if found in self.own and found is not None:
            return found
        if found is not None:
            raise self._invented(name, found)
        named = [self.names[s] for s in self.variables if s in self.own]
        near = nearest(name, named)
        help = (Suggestion(f"did you mean `{near}`?"),) if near else ()
        none = f"it names none; a place is written {self.spelling.place('x', 0)}"
        has = f"it names {', '.join(f'`{n}`' for n in named)}" if named else none
        raise wrong(self.callee, "AX0505", f"`{self.callee.name}` has no size `{name}`", has, help=help)

    def _invented(self, name: str, symbol: Symbol) -> AxonError:
        shapes = (self.arguments, self.results)
        place = next(
            ((p, i) for found in shapes for p, dims in found.items() for i, d in enumerate(dims) if d.symbol == symbol), None
        )
        helps = [Suggestion(f"write its place, {self.spelling.place(*place)}")] if place else []
        helps.append(Suggestion(f"or name it in the source, with `{self.callee.signature}` before the declaration"))
        message = f"`{name}` is what Axon calls a size of `{self.callee.name}` that the source does not name"
        note = "such a name changes with the program"
        return wrong(self.callee, "AX0505", message, note, help=tuple(helps))

    def _placed(self, path: str, dimension: Any) -> Dim:
        dims = {**self.results, **self.arguments}.get(path)
        if dims is None:
            known = [*self.arguments, *self.results]
            near = nearest(path, known)
            help = (Suggestion(f"did you mean `{near}`?"),) if near else ()
            has = f"it has {', '.join(f'`{p}`' for p in known)}"
            raise wrong(self.callee, "AX0505", f"`{self.callee.name}` has no tensor `{path}`", has, help=help)
        at = integer(dimension)
        if at is None or not -len(dims) <= at < len(dims):
            what = f"`{path}` has {_count(len(dims), 'dimension')}, counted from 0"
            raise wrong(self.callee, "AX0505", f"`{path}` has no dimension {shown(dimension)}", what)
        return dims[at]


def ranked(
    session: Session,
    callee: Callee,
    ranks: Mapping[str, int] | None = None,
    elements: Mapping[str, str] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    spelling: Spelling = PYTHON,
) -> Ranked:
    """A function at these ranks of shape variables (`{"s": 2}`) or of arguments (`{"x": 3}`), where shapes by path do not say them,
    and with these element types of arguments. Raises AxonError."""
    tensors, given = dict(leaves(callee)), dict(results(callee))
    types = _elements(callee, tensors, by_key(callee, "element types", elements, '{"x": "f16"}'))
    ranks, shapes = dict(by_key(callee, "ranks", ranks, '{"x": 2}')), dict(shapes or {})
    scalars = {callee.parameters[n].name for n in callee.scheme.or_scalar}
    scalars = {path for path in scalars if shapes.get(path) == () or integer(ranks.get(path)) == 0}  # which tell no shape
    for path in scalars:
        del tensors[path]
        ranks.pop(path, None), shapes.pop(path, None)
    rows = _ranks(session, callee, tensors, given, ranks, shapes, spelling)

    def stand_in(path: str, type: t.Type) -> Any:
        match type:
            case t.TupleType(items):
                return tuple(stand_in(f"{path}.{n}", item) for n, item in enumerate(items, 1))
            case t.RecordType(fields):
                return {name: stand_in(f"{path}.{name}", item) for name, item in fields}
            case t.Exists(body=body):
                return stand_in(path, body)
            case t.Tensor(element, shape):
                shape = () if path in scalars else shape
                own = element if isinstance(element, Element) else types[element.symbol]
                rank = sum(rows[item.symbol] if isinstance(item, t.Row) else 1 for item in shape)
                return np.broadcast_to(np.zeros((), own.dtype), (1,) * rank)
            case _:
                raise _refused(callee, path, type)

    program = session.program(callee, [stand_in(p.name, p.type) for p in callee.parameters], {})
    arguments = {shape.path: shape.dims for shape in program.contract.shapes}
    found = dict(zip(_paths(program.result, result_path(callee)), (v.shape for v in results_of(program)), strict=True))
    names, own = _names(session, callee, program, arguments, found, tensors, rows)
    return Ranked(session, callee, program, names, own, arguments, found, spelling)


def leaves(callee: Callee) -> Iterator[tuple[str, t.Tensor]]:
    """The tensors among the parameters by path."""
    for parameter in callee.parameters:
        yield from _leaves(callee, parameter.name, parameter.type)


def results(callee: Callee) -> Iterator[tuple[str, t.Tensor]]:
    """The tensors of the result by path."""
    yield from _leaves(callee, result_path(callee), result_type(callee))


def result_type(callee: Callee) -> t.Type:
    type = callee.scheme.type
    while isinstance(type, t.Function):
        type = type.result
    return type


def result_path(callee: Callee) -> str:
    """What the result is called among the tensors of a function."""
    return "result" if any(p.name == "out" for p in callee.parameters) else "out"


def _leaves(callee: Callee, path: str, type: t.Type) -> Iterator[tuple[str, t.Tensor]]:
    match type:
        case t.Tensor():
            yield path, type
        case t.TupleType(items):
            for n, item in enumerate(items, 1):
                yield from _leaves(callee, f"{path}.{n}", item)
        case t.RecordType(fields):
            for name, item in fields:
                yield from _leaves(callee, f"{path}.{name}", item)
        case t.Exists(body=body):
            yield from _leaves(callee, path, body)
        case _:
            raise _refused(callee, path, type)


def _refused(callee: Callee, path: str, type: t.Type) -> AxonError:
    what = "the result" if path.split(".")[0] == result_path(callee) else f"`{path}`"
    if isinstance(type, t.Function):
        return wrong(callee, "AX0505", f"{what} of `{callee.name}` is a function, which has no sizes")
    note = f"a `sig {callee.name}` before the declaration can give it a shape"
    return wrong(callee, "AX0505", f"{what} of `{callee.name}` may be of any type, so that it has no sizes of its own", note)


def _paths(structure: core.Structure, path: str) -> Iterator[str]:
    match structure:
        case core.Leaf():
            yield path
        case core.TupleOf(items):
            for n, item in enumerate(items, 1):
                yield from _paths(item, f"{path}.{n}")
        case core.RecordOf(fields):
            for name, item in fields:
                yield from _paths(item, f"{path}.{name}")


# ── ranks, element types and names ──────────────────────────────────────────────────────────────────────────────────────


def _ranks(
    session: Session,
    callee: Callee,
    tensors: Mapping[str, t.Tensor],
    given: Mapping[str, t.Tensor],
    ranks: dict[str, int],
    shapes: dict[str, Shape],
    spelling: Spelling,
) -> dict[Symbol, int]:
    """How many dimensions each shape variable stands for."""
    names = _scheme_names(session, callee)
    rows = {names[s]: s for s in callee.scheme.rows if s in names}
    found: dict[Symbol, int] = {}
    wanted: dict[str, int] = {path: len(shape) for path, shape in shapes.items()}
    for name, rank in ranks.items():
        count = integer(rank)
        if count is None or not 0 <= count <= _MAX_RANK:
            raise wrong(callee, "AX0506", f"the rank of `{name}` is an integer from 0 to {_MAX_RANK}, not {shown(rank)}")
        if name in rows and _is_own(session, rows[name], name):
            found[rows[name]] = count
        elif name in tensors:
            wanted[name] = count
        else:
            known = [*(f"`..{n}`" for n in rows if _is_own(session, rows[n], n)), *(f"`{path}`" for path in tensors)]
            near = nearest(str(name), [n.strip("`.") for n in known])
            help = (Suggestion(f"did you mean `{near}`?"),) if near else ()
            note = f"ranks are those of shape variables that the source names, and of arguments: {', '.join(known)}"
            raise wrong(callee, "AX0506", f"`{name}` of `{callee.name}` has no rank that could be given", note, help=help)
    for path, rank in wanted.items():
        if rank > _MAX_RANK:
            raise wrong(callee, "AX0506", f"the rank of `{path or 'the result'}` is at most {_MAX_RANK}, not {rank}")
    waiting = dict(wanted)
    while waiting:
        path, rank = next(
            ((p, n) for p, n in waiting.items() if len(_unknown(tensors.get(p) or given[p], found)) < 2),
            next(iter(waiting.items())),
        )
        del waiting[path]
        tensor = tensors.get(path) or given[path]
        least = sum(found.get(i.symbol, 0) if isinstance(i, t.Row) else 1 for i in tensor.shape)
        unknown = _unknown(tensor, found)
        times = sum(isinstance(i, t.Row) and i.symbol in unknown for i in tensor.shape)
        if len(unknown) == 1 and rank >= least and (rank - least) % times == 0:
            found[unknown.pop()] = (rank - least) // times
        elif not (unknown and rank >= least) and rank != least:
            what = "the result" if path not in tensors else f"`{path}`"
            many = f"{'at least ' * bool(unknown)}{_count(least, 'dimension')}"
            raise wrong(callee, "AX0506", f"{what} of `{callee.name}` has {many}, not {rank}")
    for row in callee.scheme.rows:
        at = [path for path, tensor in tensors.items() if _unknown(tensor, found) == {row}]
        if row not in found and (at or any(row in _unknown(tensor, found) for tensor in tensors.values())):
            name = names.get(row, row.name)
            own = _is_own(session, row, name)
            how = spelling.rank(name) if own else spelling.rank_of_argument((at or list(tensors))[0])
            message = f"`..{name}` of `{callee.name}` stands for any number of dimensions"
            raise wrong(callee, "AX0506", message, help=(Suggestion(f"say how many: {how}"),))
    return dict.fromkeys(callee.scheme.rows, 0) | found


def _unknown(tensor: t.Tensor, found: Mapping[Symbol, int]) -> set[Symbol]:
    return {i.symbol for i in tensor.shape if isinstance(i, t.Row) and i.symbol not in found}


def _elements(callee: Callee, tensors: Mapping[str, t.Tensor], elements: Mapping[str, str]) -> dict[Symbol, Element]:
    """What each element variable stands for: what arguments are said to hold, else what is usual."""
    found: dict[Symbol, Element] = {}
    for path, name in elements.items():
        element = next((e for e in Element if e.value == name), None)
        if element is None or path not in tensors:
            wrong_part, known = (str(path), list(tensors)) if element is not None else (str(name), [e.value for e in Element])
            near = nearest(wrong_part, known)
            help = (Suggestion(f"did you mean `{near}`?"),) if near else ()
            message = f"`{wrong_part}` is {'no argument' if element is not None else 'no element type'}"
            raise wrong(callee, "AX0504", message, f"there are {', '.join(f'`{k}`' for k in known)}", help=help)
        own = tensors[path].element
        known_as = own if isinstance(own, Element) else found.setdefault(own.symbol, element)
        if known_as is not element:
            raise wrong(callee, "AX0504", f"`{path}` of `{callee.name}` holds {known_as.value}, not {element.value}")
    return {symbol: usual(allowed) for symbol, allowed in callee.scheme.elements} | found


def _scheme_names(session: Session, callee: Callee) -> dict[Symbol, str]:
    return dimension_names(session.checked.state, callee.scheme)


def _is_own(session: Session, symbol: Symbol, shown: str) -> bool:
    """Whether the source names a size, and signatures call it that."""
    state = session.checked.state
    named = symbol in state.rigid or symbol in state.named_dims or symbol in state.called
    return named and shown == state.called.get(symbol, symbol.name)


def size_names(session: Session, callee: Callee) -> frozenset[str]:
    """The names of sizes that the source gives, at no ranks yet."""
    names = _scheme_names(session, callee) | {s: s.name for s in callee.scheme.explicit}
    rows = callee.scheme.rows
    return frozenset(n for s, n in names.items() if s not in rows and (s in callee.scheme.explicit or _is_own(session, s, n)))


def _names(
    session: Session,
    callee: Callee,
    program: core.Program,
    arguments: Mapping[str, tuple[Dim, ...]],
    found: Mapping[str, tuple[Dim, ...]],
    tensors: Mapping[str, t.Tensor],
    rows: Mapping[Symbol, int],
) -> tuple[dict[Symbol, str], frozenset[Symbol]]:
    """What each size is called, and which the source names. Those of a shape variable `..s` are s1, s2, …, or s if it is one."""
    names = {s: n for s, n in _scheme_names(session, callee).items() if s not in rows}
    own = {s for s in (*names, *program.explicit) if s in program.explicit or _is_own(session, s, names.get(s, s.name))}
    names |= {s: s.name for s in program.explicit}
    taken = set(names.values())
    of_rows = _scheme_names(session, callee)
    for path, tensor in tensors.items():
        at = 0
        for item in tensor.shape:
            count = rows[item.symbol] if isinstance(item, t.Row) else 1
            for i, dim in enumerate(arguments[path][at : at + count]):
                symbol = dim.symbol
                if not isinstance(item, t.Row) or symbol is None or symbol in names:
                    continue
                stem = of_rows.get(item.symbol, item.symbol.name)
                name = stem if count == 1 else f"{stem}{i + 1}"
                if _is_own(session, item.symbol, stem) and name not in taken:
                    own.add(symbol)
                names[symbol] = _free(name, taken)
            at += count
    shaped = [d for dims in (*arguments.values(), *found.values()) for d in dims]
    facts = [side for f in program.contract.facts for side in (f.relation.left, f.relation.right)]
    for dim in (*shaped, *facts):
        for symbol in sorted(dim.variables, key=lambda s: s.id):
            if symbol not in names:
                names[symbol] = _free(symbol.name or "n", taken)
    for symbol in sorted(program.contract.variables - names.keys(), key=lambda s: s.id):
        names[symbol] = _free(symbol.name or "n", taken)
    return names, frozenset(own)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _free(name: str, taken: set[str]) -> str:
    """The name, or with a number if it is taken; it is taken then."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}{number}", number + 1
    taken.add(found)
    return found


# ── what is given ───────────────────────────────────────────────────────────────────────────────────────────────────────


def integer(value: Any) -> int | None:
    """A value as an integer, if it is one; a bool is none."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def size(callee: Callee, what: str, value: Any) -> int:
    """A value as a size. Raises AxonError."""
    found = integer(value)
    if found is None or not 0 <= found <= MAX_SIZE:
        raise wrong(callee, "AX0505", f"{what} cannot be {shown(value)}", f"a size is an integer from 0 to {MAX_SIZE:,}")
    return found


def shown(value: Any) -> str:
    """A caller's value in an error: its `repr`, shortened."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a number of that many digits"


def by_key(callee: Callee, what: str, value: Any, example: str) -> Mapping[Any, Any]:
    """A dict that a caller gives, or none. Raises AxonError for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong(callee, "AX0505", f"{what} are given in a dict, not as {shown(value)}", f"such as {example}")
    return value


def shapes_given(callee: Callee, path: str, type: t.Type, value: Any, spelling: Spelling) -> Iterator[tuple[str, Shape]]:
    """The shapes by path that a caller writes for an argument or a result: of a tensor a tuple of sizes, with None for what is
    open; of tuples and records a tuple or dict of such things; None for what is open altogether. Raises AxonError."""
    if value is None:
        return
    match type:
        case t.Exists(body=body):
            yield from shapes_given(callee, path, body, value, spelling)
        case t.TupleType(items):
            if not isinstance(value, tuple) or len(value) != len(items):
                message = f"`{path}` is a tuple of {len(items)}, and so are its shapes, not {spelling.given(value)}"
                raise wrong(callee, "AX0505", message, *spelling.part(path, "1"))
            for n, (item, part) in enumerate(zip(items, value, strict=True), 1):
                yield from shapes_given(callee, f"{path}.{n}", item, part, spelling)
        case t.RecordType(fields):
            known = dict(fields)
            if not isinstance(value, Mapping) or (extra := [name for name in value if name not in known]):
                record = f"is a record, and has a shape for each field, not {spelling.given(value)}"
                what = f"has no field `{extra[0]}`" if isinstance(value, Mapping) else record
                notes = (f"its fields are {', '.join(f'`{n}`' for n in known)}", *spelling.part(path, next(iter(known), "")))
                raise wrong(callee, "AX0505", f"`{path}` {what}", *notes)
            for name, part in value.items():
                yield from shapes_given(callee, f"{path}.{name}", known[name], part, spelling)
        case t.Tensor():
            if not isinstance(value, tuple | list):
                raise wrong(callee, "AX0505", f"the shape of `{path}` cannot be {spelling.given(value)}", spelling.shape())
            yield path, tuple(n if n is None else size(callee, f"a size of `{path}`", n) for n in value)
        case _:
            raise _refused(callee, path, type)
