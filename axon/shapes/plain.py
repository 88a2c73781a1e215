"""Dimensions as plain data (`base.plain`), for all that is kept of what holds some."""

from __future__ import annotations

from typing import Any

from axon.base.names import Symbol
from axon.base.plain import Kind, Malformed, Reader, Writer, as_list
from axon.shapes.dimension import Dim, Minimum, Quotient


def _write(w: Writer, dim: Dim) -> list[Any]:
    return [[c, *(w.node(atom) for atom in monomial)] for monomial, c in dim.mapping.items()]


def _read(r: Reader, rest: list[Any]) -> Dim:
    atoms = (Symbol, Quotient, Minimum)
    terms = {tuple(r.node(atom, atoms) for atom in monomial): c for c, *monomial in map(as_list, rest)}
    if len(terms) != len(rest) or not all(type(c) is int and c for c in terms.values()):
        raise Malformed(f"no dimension {rest}")
    return Dim(terms)


DIM = Kind(_write, _read)
