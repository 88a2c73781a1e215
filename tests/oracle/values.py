"""The oracle's values: scalars, tensors, and tuples and records of them. See `definitional`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.oracle.arithmetic import DTYPES, is_open, typed

Value = Any


def given(x: Any) -> Value:
    match x:
        case tuple():
            return tuple(given(part) for part in x)
        case dict():
            return {name: given(part) for name, part in x.items()}
        case _:
            return x[()] if np.ndim(x) == 0 else x


def mapped(f: Callable[..., Value], value: Value, *more: Value) -> Value:
    """f of the tensors and scalars of values that have the same structure."""
    match value:
        case tuple():
            return tuple(mapped(f, *parts) for parts in zip(value, *more, strict=True))
        case dict():
            return {name: mapped(f, part, *(m[name] for m in more)) for name, part in value.items()}
        case _:
            return f(value, *more)


def closed(value: Value) -> Value:
    """A literal that nothing gave a type is i32 or f32."""

    def close(x: Value) -> Value:
        if not isinstance(x, np.ndarray):
            return typed(x, DTYPES["f32" if isinstance(x, float) else "i32"]) if is_open(x) else x
        return x if x.dtype != object else x.astype(np.float32 if any(isinstance(v, float) for v in x.flat) else np.int32)

    return mapped(close, value)


def like(value: Value, model: Value) -> Value:
    """A value whose literals take the types of another value of its type, as far as that knows them."""

    def settle(x: Value, y: Value) -> Value:
        if is_open(y) or callable(y) or y.dtype == object:
            return x
        if isinstance(x, np.ndarray):
            return x.astype(y.dtype) if x.dtype == object else x
        return typed(x, y.dtype) if is_open(x) else x

    return mapped(settle, value, model)


def tensor(shape: Sequence[int], elements: Sequence[Any]) -> np.ndarray:
    """Scalars of one type, row by row."""
    dtype = next((x.dtype for x in elements if not is_open(x)), np.dtype(object))
    out = np.empty(len(elements), dtype)
    for n, x in enumerate(elements):
        out[n] = typed(x, dtype) if dtype.hasobject is False else x
    return out.reshape(shape)


def stacked(shape: Sequence[int], values: Sequence[Value]) -> Value:
    """A comprehension's value: that of its body for each index, dimensions of the body last, tuples and records outside."""

    def stack(first: Value, *rest: Value) -> Value:
        parts = (first, *rest)
        if not isinstance(first, np.ndarray):
            return tensor(shape, parts)
        if len({p.shape for p in parts}) > 1:
            raise AssertionError("rows of different shapes")
        return tensor((*shape, *first.shape), [x for p in parts for x in p.flat])

    return mapped(stack, *values)


def emptied(shape: Sequence[int], ghost: Value) -> Value:
    """A comprehension's value where a size is 0, or its ghost."""

    def zeros(x: Value) -> Value:
        inner, dtype = (x.shape, x.dtype) if isinstance(x, np.ndarray) else ((), object if is_open(x) else x.dtype)
        return np.zeros((*shape, *inner), dtype)

    return mapped(zeros, ghost)


def lifted(f: Callable[..., Any], *values: Value) -> Value:
    """A function of scalars, pointwise over tensors, whose shapes agree from the end."""
    if not any(isinstance(v, np.ndarray) for v in values):
        return f(*values)
    shape = np.broadcast_shapes(*(np.shape(v) for v in values))
    spread = [np.broadcast_to(v, shape) if isinstance(v, np.ndarray) else v for v in values]
    ats = list(np.ndindex(shape))
    elements = [f(*(v[at] if isinstance(v, np.ndarray) else v for v in spread)) for at in ats]
    return tensor(shape, elements) if elements else np.zeros(shape, tensor((), [f(*map(_one, values))]).dtype)


def _one(value: Value) -> Value:
    return (
        value.dtype.type(1)
        if isinstance(value, np.ndarray) and value.dtype != object
        else 1
        if isinstance(value, np.ndarray)
        else value
    )


def has_open(value: Value) -> bool:
    found = []
    mapped(lambda x: found.append(is_open(x) or (isinstance(x, np.ndarray) and x.dtype == object)), value)
    return any(found)
