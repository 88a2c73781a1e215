"""Printed signatures, read back and evaluated: what a signature says of the shapes of a call, from its text alone."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from axon.base.element import Element, of_dtype
from axon.base.source import SourceFile
from axon.grammar import syntax as S
from axon.grammar.parse import parse

_RELATION = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_BINARY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv, "%": operator.mod}


class Disagrees(Exception):
    """A value is not what the signature says."""


@dataclass
class Call:
    """One call: what the signature's variables stand for, found in the arguments."""

    dims: dict[str, int] = field(default_factory=dict)
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    elements: dict[str, Element] = field(default_factory=dict)
    types: dict[str, Any] = field(default_factory=dict)
    waiting: list[tuple[S.Dim, int]] = field(default_factory=list)  # extents that name no variable alone

    def size(self, dim: S.Dim) -> int:
        """Raises KeyError for an unknown name and ZeroDivisionError."""
        match dim:
            case S.DimName(name):
                return self.dims[name]
            case S.DimInt(value):
                return value
            case S.DimNegate(operand):
                return -self.size(operand)
            case S.DimBinary(op, left, right):
                return int(_BINARY[op](self.size(left), self.size(right)))
            case S.DimCall(function, args):
                return (min if function.text == "min" else max)(self.size(a) for a in args)

    def extent(self, dim: S.Dim, actual: int) -> None:
        if isinstance(dim, S.DimName) and dim.name not in self.dims:
            self.dims[dim.name] = actual
            return
        self.waiting.append((dim, actual))

    def settle(self) -> None:
        """Check the extents that wait, and solve those with one unknown, which occurs linearly. Raises Disagrees."""
        while self.waiting:
            later: list[tuple[S.Dim, int]] = []
            for dim, actual in self.waiting:
                unknown = names(dim) - self.dims.keys()
                if len(unknown) > 1:
                    later.append((dim, actual))
                elif unknown:
                    self.solve(dim, *unknown, actual)
                elif self.size(dim) != actual:
                    raise Disagrees(f"{actual} is not {self.size(dim)}")
            if len(later) == len(self.waiting):
                raise AssertionError("the signature does not determine its sizes")
            self.waiting = later

    def solve(self, dim: S.Dim, name: str, actual: int) -> None:
        for value in range(2 * abs(actual) + 20):
            self.dims[name] = value
            if self.size(dim) == actual:
                return
        raise Disagrees(f"{actual} is no value of an extent over {name}")

    def matches(self, type: S.Type, value: Any) -> None:
        """Bind the variables of a type by a value, or compare. Raises Disagrees."""
        match type:
            case S.TypeTuple(items):
                self.require(isinstance(value, tuple) and len(value) == len(items), "not such a tuple")
                for item, part in zip(items, value, strict=True):
                    self.matches(item, part)
            case S.TypeRecord(fields):
                self.require(isinstance(value, dict) and set(value) == {n.text for n, _ in fields}, "not such a record")
                for name, field_ in fields:
                    self.matches(field_, value[name.text])
            case S.TypeExists(name, bound, body):
                inner = Call(dict(self.dims), self.rows, self.elements, self.types)
                inner.dims.pop(name.text, None)
                inner.matches(body, value)
                inner.settle()
                self.require(bound is None or inner.dims[name.text] <= self.size(bound), "more than the bound")
            case S.TypeOrScalar(whole):
                self.matches(replace(whole, args=None) if np.ndim(value) == 0 else whole, value)
            case S.TypeVar(name, args) if name[1].isupper():
                self.require(_same(self.types.setdefault(name, value), value), "another type")
            case S.TypeVar(name, args):
                element = of_dtype(np.asarray(value).dtype)
                assert element is not None
                self.require(self.elements.setdefault(name, element) is element, f"{element} is not {name}")
                self.shape(args or (), np.shape(value))
            case S.TypeName((name,), args):
                self.require(
                    of_dtype(np.asarray(value).dtype) is Element(name.text), f"{np.asarray(value).dtype} is not {name.text}"
                )
                self.shape(args or (), np.shape(value))
            case _:
                raise AssertionError(type)

    def shape(self, items: Sequence[S.TypeArg], shape: tuple[int, ...]) -> None:
        runs = [n for n, item in enumerate(items) if isinstance(item, S.ShapeRun)]
        missing = [n for n in runs if items[n].name not in self.rows]
        known = sum(len(self.rows[item.name]) for n, item in enumerate(items) if n in runs and n not in missing)
        length = len(shape) - (len(items) - len(runs)) - known
        self.require(length == 0 if not missing else length >= 0, f"rank {len(shape)}")
        assert len({items[n].name for n in missing}) <= 1
        at = 0
        for item in items:
            if isinstance(item, S.ShapeRun):
                row = self.rows.setdefault(item.name, shape[at : at + length])
                self.require(shape[at : at + len(row)] == row, f"{shape} at ..{item.name}")
                at += len(row)
            else:
                self.extent(item, shape[at])
                at += 1

    @staticmethod
    def require(condition: bool, message: str) -> None:
        if not condition:
            raise Disagrees(message)


def _same(a: Any, b: Any) -> bool:
    return np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype


def names(dim: S.Dim) -> set[str]:
    match dim:
        case S.DimName(name):
            return {name}
        case S.DimNegate(operand):
            return names(operand)
        case S.DimBinary(_, left, right):
            return names(left) | names(right)
        case S.DimCall(_, args):
            return set().union(*map(names, args))
        case _:
            return set()


def read(text: str) -> S.Sig:
    """`sig f : …` as `axon sig` prints it."""
    program, diagnostics = parse(SourceFile("signature", text))
    assert not diagnostics, f"a printed signature does not parse: {text}"
    (sig,) = program.decls
    assert isinstance(sig, S.Sig)
    return sig


def accepts(sig: S.Sig, explicit: Sequence[int], arguments: Sequence[Any]) -> Call | None:
    """The call with its variables bound, or None if the signature rejects the sizes of the arguments."""
    call = Call()
    type = sig.type
    if isinstance(type, S.TypeDimFun):
        call.dims |= dict(zip([n.text for n in type.names], explicit, strict=True))
        type = type.result
    try:
        for argument in arguments:
            assert isinstance(type, S.TypeFun)
            call.matches(type.param, argument)
            type = type.result
        call.settle()
        if not all(_RELATION[fact.relation](call.size(fact.left), call.size(fact.right)) for fact in sig.where):
            return None
        if not all(call.size(d) >= 1 for fact in sig.where for side in (fact.left, fact.right) for d in divisors(side)):
            return None
    except (Disagrees, ZeroDivisionError):
        return None
    return call


def divisors(dim: S.Dim) -> list[S.Dim]:
    match dim:
        case S.DimBinary(op, left, right):
            return [*divisors(left), *divisors(right), *([right] if op in "/%" else [])]
        case S.DimNegate(operand):
            return divisors(operand)
        case S.DimCall(_, args):
            return [d for a in args for d in divisors(a)]
        case _:
            return []


def check_result(sig: S.Sig, call: Call, result: Any) -> None:
    """The result has the shape and the element type that the signature says. Raises Disagrees."""
    type: Any = sig.type
    while isinstance(type, S.TypeDimFun | S.TypeFun):
        type = type.result
    inner = Call(dict(call.dims), dict(call.rows), dict(call.elements), dict(call.types))
    inner.matches(type, result)
    for dim, actual in inner.waiting:
        if inner.size(dim) != actual:
            raise Disagrees(f"a result has size {actual} where the signature says {inner.size(dim)}")
