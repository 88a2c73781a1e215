"""Weights from a file for the record that a function takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from axon.backend.libraries import untraced
from axon.base.data import dataclass
from axon.base.diagnostics import counted
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.nearest import hint
from axon.base.safetensors import Stored, read
from axon.host.call import wrong
from axon.host.module import Function, Module
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.types import type as t

if TYPE_CHECKING:
    from axon.host.call import Callee

SHOWN = 8  # names that are told of many


@untraced
def load_weights(
    path: str | os.PathLike[str], function: Function, parameter: str | None = None, *, strict: bool = True
) -> dict[str, Any]:
    """The record that a function takes, as nested dicts of arrays from a file of safetensors; `parameter` says which, where there
    are several. Names are the paths of the fields, `blocks.norm.scale`; a stack may be stored one by one, `blocks.0.norm.scale`.

    The arrays are mapped from the file, and read when they are used. Raises AxonError that lists what the file lacks, what is of
    another shape or element type, and, if `strict`, what the function has no use for.
    """
    if not isinstance(function, Function):
        raise _no_function(function)
    callee = function._callee
    wanted = _record(callee, parameter)
    name = os.fspath(path)
    match = _Match(read(Path(name)))
    weights: dict[str, Any] = match.record(wanted.type, ())
    notes = match.notes(strict=strict)
    if notes:
        raise wrong(callee, "AX0512", f"the weights in `{name}` do not fit `{wanted.name}`", *notes, span=wanted.span)
    return weights


def _no_function(given: object) -> TypeError:
    which = ""
    if isinstance(given, Module):
        callees = {name: given._session.callee(name) for name in given}
        taking = [n for n, c in callees.items() if any(isinstance(p.type, t.RecordType) for p in c.parameters)]
        which = f": say which, such as `m.{taking[-1]}`" if taking else ", and none of its functions takes a record"
    return TypeError(f"axon.load_weights takes a function of a module, not {type(given).__name__}{which}")


def _record(callee: Callee, parameter: str | None) -> Any:
    records = [p for p in callee.parameters if isinstance(p.type, t.RecordType)]
    if parameter is not None:
        named = [p for p in records if p.name == parameter]
        if not named:
            close = hint(parameter, [p.name for p in records])
            raise wrong(callee, "AX0505", f"`{callee.name}` has no parameter `{parameter}` that is a record{close}")
        return named[0]
    if len(records) != 1:
        what = "takes no record" if not records else f'takes {len(records)} records: say which, parameter="{records[0].name}"'
        raise wrong(callee, "AX0505", f"`{callee.name}` {what}")
    return records[0]


@dataclass(frozen=True, slots=True)
class _Found:
    """A tensor of the record in the file: one, or the parts of a stack."""

    parts: tuple[Stored, ...]
    stacked: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.parts), *self.parts[0].shape) if self.stacked else self.parts[0].shape

    def array(self) -> Any:
        import numpy as np

        return np.stack([p.array() for p in self.parts]) if self.stacked else self.parts[0].array()


class _Match:
    """The names of a file against the fields of a record."""

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        self.stored = stored
        self.stacks = _stacks(stored)
        self.used: set[str] = set()
        self.missing: list[str] = []
        self.other: list[str] = []
        self.sizes: dict[Symbol, int] = {}

    def record(self, type: t.Type, path: tuple[str, ...]) -> Any:
        match type:
            case t.RecordType(fields):
                return {name: self.record(inner, (*path, name)) for name, inner in fields}
            case t.Tensor(element, shape):
                return self._tensor(".".join(path), element, shape)
            case t.TupleType(items):
                return tuple(self.record(inner, (*path, str(n))) for n, inner in enumerate(items, 1))
            case _:
                self.other.append(f"`{'.'.join(path)}` is no tensor: weights are")
                return None

    def _tensor(self, name: str, element: t.ElementType, shape: t.Shape) -> Any:
        found = self._found(name)
        if found is None:
            self.missing.append(name)
            return None
        if not self._fits(name, found, element, shape):
            return None
        return found.array()

    def _found(self, name: str) -> _Found | None:
        if name in self.stored:
            self.used.add(name)
            return _Found((self.stored[name],), stacked=False)
        numbered = self.stacks.get(name)
        if numbered is None or sorted(numbered) != list(range(len(numbered))):
            return None
        names = [numbered[i] for i in range(len(numbered))]
        self.used.update(names)
        parts = tuple(self.stored[n] for n in names)
        odd = next(
            (n for n, p in zip(names, parts, strict=True) if (p.shape, p.element) != (parts[0].shape, parts[0].element)), None
        )
        if odd is not None:
            self.other.append(f"`{odd}` is not like `{names[0]}`, and no stack can be made of them")
            return _Found(parts[:1], stacked=True)
        return _Found(parts, stacked=True)

    def _fits(self, name: str, found: _Found, element: t.ElementType, shape: t.Shape) -> bool:
        has = found.parts[0].element
        good = not isinstance(element, Element) or element is has
        rows = any(isinstance(d, t.Row) for d in shape)
        good &= rows or len(shape) == len(found.shape)
        if good and not rows:
            for dim, extent in zip(shape, found.shape, strict=True):
                good &= not isinstance(dim, Dim) or self._agrees(dim, extent)
        if not good:
            own = element.value if isinstance(element, Element) else has.value
            want = ", ".join(self._shown(d) for d in shape)
            have = ", ".join(map(str, found.shape))
            self.other.append(f"`{name}` is {has.value}[{have}] in the file, and must be {own}[{want}]")
        return good

    def _agrees(self, dim: Dim, extent: int) -> bool:
        if dim.symbol is not None and dim.symbol not in self.sizes:
            self.sizes[dim.symbol] = extent
        if not all(s in self.sizes for s in dim.variables):
            return True  # what is left open the call will ask
        return dim.evaluate(self.sizes) == extent

    def _shown(self, item: t.ShapeItem) -> str:
        if isinstance(item, t.Row):
            return f"..{item.symbol.name}"
        known = {s: Dim.of(v) for s, v in self.sizes.items()}
        return render(item.substitute(known))

    def notes(self, *, strict: bool) -> list[str]:
        """What is wrong, in words."""
        notes = []
        if self.missing:
            notes.append(f"missing: {_listed(self.missing)}")
        notes += [*self.other[:SHOWN], *([f"and {len(self.other) - SHOWN} more"] if len(self.other) > SHOWN else [])]
        extra = sorted({*self.stored} - self.used)
        if extra and strict:
            notes.append(f"without a place in it: {_listed(extra)}")
        return notes


def _stacks(stored: Mapping[str, Stored]) -> dict[str, dict[int, str]]:
    """Names that differ in one number between two dots, by the name without it."""
    stacks: dict[str, dict[int, str]] = {}
    for name in stored:
        parts = name.split(".")
        for i, part in enumerate(parts):
            if part.isdigit() and i and str(int(part)) == part:
                stacks.setdefault(".".join(parts[:i] + parts[i + 1 :]), {})[int(part)] = name
    return stacks


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{n}`" for n in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {counted(len(names) - SHOWN, 'other')}"
