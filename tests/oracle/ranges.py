"""Where an index without a bound ends (docs/reference.md §9), from how it was seen to be used; and sizes from types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from axon.grammar import syntax as s
from tests.oracle.arithmetic import DTYPES, is_open, typed

FARTHEST = 1000  # no dimension of a test is as large


@dataclass(eq=False)
class Index:
    """A value of an index. A ghost's is 0, and without a size until the uses of the index have told it."""

    value: int = 0
    size: int | None = None
    bare: list[tuple[int, bool]] = field(default_factory=list)  # sizes that it subscripts alone, and whether guarded
    affine: list[tuple[s.Expr, dict[str, Any], int, bool]] = field(default_factory=list)


class Uses:
    """What the ghost of a body does with indices."""

    def __init__(self) -> None:
        self.depth = 0  # of ghosts
        self.guards = 0

    @contextmanager
    def looking(self) -> Iterator[None]:
        self.depth += 1
        before, self.guards = self.guards, self.guards if self.depth > 1 else 0
        try:
            yield
        finally:
            self.depth -= 1
            self.guards = before

    @contextmanager
    def guarded(self, really: bool = True) -> Iterator[None]:
        self.guards += really
        try:
            yield
        finally:
            self.guards -= really

    def note(self, subscript: s.Expr, env: dict[str, Any], size: int, padded: bool) -> None:
        if not self.depth:
            return
        guarded = self.guards > 0
        if isinstance(subscript, s.Var):
            if isinstance(env.get(subscript.name), Index):
                env[subscript.name].bare.append((size, guarded))
        elif not padded:
            for name in variables(subscript):
                if isinstance(env.get(name), Index):
                    env[name].affine.append((subscript, env, size, guarded))

    def split(self, own: Sequence[Index], size: int) -> None:
        """`x[(i, c)]`: the product of the ranges is the dimension, so that one of them may be found."""
        open_ = [i for i in own if i.size is None]
        if self.depth and len(open_) == 1:
            others = int(np.prod([i.size for i in own if i.size is not None], dtype=int))
            open_[0].bare.append((size // others, self.guards > 0))

    def settle(self, indices: Sequence[Index], evaluate: Callable[[s.Expr, dict[str, Any]], Any]) -> None:
        """Give every index its size, by the first rule that applies."""
        for index in indices:
            plain = {size for size, guarded in index.bare if not guarded}
            if index.size is None and plain:
                assert len(plain) == 1, f"an index over dimensions of {plain}"
                index.size = plain.pop()
        for index in indices:
            if index.size is None:
                ends = [farthest(index, *use[:3], evaluate) for use in index.affine if not use[3]]
                found = [e for e in ends if e is not None] or [size for size, _ in index.bare]
                assert found, "an index without a range"
                index.size = min(found)


def farthest(index: Index, subscript: s.Expr, env: dict[str, Any], size: int, evaluate: Callable[..., Any]) -> int | None:
    """The largest range for which a subscript stays inside; None where another index has no range yet."""
    others = {n: i for n in variables(subscript) if isinstance(i := env.get(n), Index) and i is not index}
    if any(i.size is None for i in others.values()):
        return None
    name = next(n for n in variables(subscript) if env.get(n) is index)
    ends = list(product(*({0, i.size - 1} for i in others.values())))

    def inside(value: int) -> bool:
        given = ({name: Index(value)} | {n: Index(v) for n, v in zip(others, end, strict=True)} for end in ends)
        return all(0 <= int(evaluate(subscript, {**env, **one})) < size for one in given)

    return next((n for n in range(FARTHEST) if not inside(n)), None)


def variables(e: Any) -> set[str]:
    match e:
        case s.Var(name=name):
            return {name}
        case s.Binary(left=left, right=right):
            return variables(left) | variables(right)
        case s.Unary(operand=operand):
            return variables(operand)
        case s.Apply(function=function, argument=argument):
            return variables(function) | variables(argument)
    return set()


def bound_names(pattern: s.Pattern) -> set[str]:
    match pattern:
        case s.PatternName(name=name):
            return {name}
        case s.PatternTuple(items=items):
            return {n for item in items for n in bound_names(item)}
        case s.PatternRecord(fields=fields):
            return {n for _, item in fields for n in bound_names(item)}
        case s.PatternTyped(pattern=inner):
            return bound_names(inner)
    raise NotImplementedError(pattern)


# ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def dimension(d: s.Dim, env: dict[str, Any]) -> int:
    match d:
        case s.DimInt(value=value):
            return value
        case s.DimName(name=name):
            value = env[name]
            return value.value if isinstance(value, Index) else int(value)
        case s.DimNegate(operand=operand):
            return -dimension(operand, env)
        case s.DimBinary(op=op, left=left, right=right):
            a, b = dimension(left, env), dimension(right, env)
            return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a // b, "%": lambda: a % b}[op]()
        case s.DimCall(function=function, args=args):
            return {"min": min, "max": max}[function.text](dimension(a, env) for a in args)
    raise NotImplementedError(d)


def fit(type_: s.Type, value: Any, env: dict[str, Any], names: dict[str, Any], aliases: dict[str, s.TypeDecl]) -> Any:
    """A value at a type: literals take its elements, and a dimension that nothing has named yet is what the value shows."""
    match type_:
        case s.TypeTuple(items=items):
            return tuple(fit(t, v, env, names, aliases) for t, v in zip(items, value, strict=True))
        case s.TypeRecord(fields=fields):
            return {name.text: fit(t, value[name.text], env, names, aliases) for name, t in fields}
        case s.TypeName(name=(name,), args=args) if name.text in aliases:
            inner: dict[str, Any] = {}
            value = fit(aliases[name.text].type, value, {}, inner, aliases)
            for param, arg in zip(aliases[name.text].params, args or (), strict=True):
                _name(arg, int(inner[param.name]), env, names)
            return value
        case s.TypeName(name=(name,), args=args):
            for arg, size in zip(args or (), np.shape(value), strict=True):
                _name(arg, size, env, names)
            dtype = DTYPES[name.text]
            if isinstance(value, np.ndarray):
                assert value.dtype in (dtype, object), f"{value.dtype} where {dtype} is stated"
                return value.astype(dtype)
            return typed(value, dtype)
        case s.TypeVar(args=args):
            for arg, size in zip(args or (), np.shape(value), strict=True):
                _name(arg, size, env, names)
            return value
    raise NotImplementedError(type_)


def _name(arg: Any, size: int, env: dict[str, Any], names: dict[str, Any]) -> None:
    """A dimension of a type has this size: its one new name is the number for which that is so."""
    known = {**env, **names}
    fresh = sorted(_dim_names(arg) - known.keys())
    if len(fresh) == 1:
        names[fresh[0]] = next(np.int32(v) for v in range(size + 1) if dimension(arg, {**known, fresh[0]: v}) == size)


def _dim_names(d: Any) -> set[str]:
    match d:
        case s.DimName(name=name):
            return {name}
        case s.DimNegate(operand=operand):
            return _dim_names(operand)
        case s.DimBinary(left=left, right=right):
            return _dim_names(left) | _dim_names(right)
        case s.DimCall(args=args):
            return {n for a in args for n in _dim_names(a)}
    return set()


__all__ = ["FARTHEST", "Index", "Uses", "bound_names", "dimension", "fit", "is_open"]
