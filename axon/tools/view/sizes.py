"""Names for sizes that the compiler computes, such as into how many parts a long reduction is cut: formulas of a page's width
otherwise, and several in each line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from axon.base.data import dataclass, field
from axon.base.names import Symbol, fresh
from axon.core.ir import Compute, Loop, Op, Scan
from axon.core.operation_count import least_of
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient, rebuilt
from axon.shapes.pretty import render

LONG = 20  # letters of a size that has a name


@dataclass(frozen=True, slots=True)
class FormulaSymbols:
    """Symbols for the parts of formulas that have names, and what these stand for, as text; it may mention those before."""

    names: Mapping[Symbol, str]
    definitions: tuple[tuple[str, str], ...] = ()
    _images: Mapping[Atom, Dim] = field(default_factory=dict)

    def short(self, dim: Dim) -> Dim:
        """The size with the names in it."""
        if not self._images or all(isinstance(atom, Symbol) for atom in dim.atoms):
            return dim
        return dim.rewrite(self._image)

    def _image(self, atom: Atom) -> Dim:
        if atom in self._images:
            return self._images[atom]
        return Dim.of(atom) if isinstance(atom, Symbol) else rebuilt(atom, self.short)


def sizes_of(ops: Iterable[Op], names: Mapping[Symbol, str]) -> FormulaSymbols:
    """Names for the long sizes of operations: those that are the same at every index."""
    taken = set(names.values())
    given = dict(names)
    images: dict[Atom, Dim] = {}
    definitions: list[tuple[str, str]] = []

    def known() -> FormulaSymbols:
        return FormulaSymbols(given, tuple(definitions), images)

    def text(dim: Dim) -> str:
        return render(dim, lambda symbol: given.get(symbol, symbol.name))

    for stem, size in _extents(ops, frozenset(names)):
        for atom in sorted(_atoms(size), key=lambda a: len(text(_dim(a)))):
            short = known().short(size)
            if atom in images or len(text(short)) <= LONG:
                continue
            coefficient, rest = size.split(atom) or (Dim.of(0), size)
            whole = coefficient.constant == 1 and rest.constant is not None  # then the size itself has the name
            symbol = fresh(next(n for n in _numbered(stem if whole else "size") if n not in taken))
            taken.add(symbol.name)
            definition = short if whole else known().short(_dim(atom))
            images[atom] = Dim.of(symbol) - rest if whole else Dim.of(symbol)
            given[symbol] = symbol.name
            definitions.append((symbol.name, text(definition)))
    return known()


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}{number}" for number in count(2))


def _atoms(dim: Dim) -> list[Quotient | Minimum]:
    return [atom for atom in dim.atoms if not isinstance(atom, Symbol)]


def _dim(atom: Quotient | Minimum) -> Dim:
    return rebuilt(atom, lambda part: part)


def _extents(ops: Iterable[Op], fixed: frozenset[Symbol]) -> Iterator[tuple[str, Dim]]:
    """The extents of axes, and what they are the least of, as far as they mention nothing but `fixed` sizes; and what to call them:
    an index that runs over parts runs over a number of `parts`, the indices of a part over its `length`."""
    for op in ops:
        match op:
            case Compute() | Scan():
                inner = op.reduction.axes if isinstance(op, Compute) and op.reduction is not None else ()
                for axis in (*op.axes, *inner):
                    at = f"{axis.symbol.name}s"
                    sizes = (
                        [(at, axis.extent)] if axis.extent.variables <= fixed else [("length", d) for d in least_of(axis.extent)]
                    )
                    yield from (found for found in sizes if found[1].variables <= fixed)
            case Loop(body=body):
                yield from _extents(body.ops, fixed)
