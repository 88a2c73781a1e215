"""Schemes: putting fresh variables for the quantified ones of a type."""

from __future__ import annotations

from axon.shapes.dimension import Dim
from axon.types.type import (
    ElementType,
    ElementVar,
    Exists,
    Function,
    RecordType,
    Row,
    Shape,
    ShapeItem,
    Tensor,
    TupleType,
    Type,
    TypeVar,
)
from axon.types.typed import Instance
from axon.types.unify import State


def instantiate_type(state: State, t: Type, instance: Instance, seen: dict[Type, Type] | None = None) -> Type:
    """The type with the instance's image of every variable. Shared parts stay shared; DimensionTooLarge may be raised."""
    seen = {} if seen is None else seen
    t = state.prune(t)
    if t in seen:
        return seen[t]
    new: Type
    match t:
        case TypeVar(symbol):
            new = instance.types.get(symbol, t)
        case Tensor(element, shape):
            new = Tensor(instantiate_element(state, element, instance), instantiate_shape(state, shape, instance))
        case Function(param, result):
            new = Function(instantiate_type(state, param, instance, seen), instantiate_type(state, result, instance, seen))
        case TupleType(items):
            new = TupleType(tuple(instantiate_type(state, i, instance, seen) for i in items))
        case RecordType():
            new = t.map(lambda part: instantiate_type(state, part, instance, seen))
        case Exists(symbol, bounds, body):
            new = Exists(symbol, tuple(b.substitute(instance.dims) for b in bounds), instantiate_type(state, body, instance, seen))
        case _:
            new = t
    seen[t] = new
    return new


def instantiate_element(state: State, element: ElementType, instance: Instance) -> ElementType:
    element = state.element(element)
    return instance.elements.get(element.symbol, element) if isinstance(element, ElementVar) else element


def instantiate_shape(state: State, shape: Shape, instance: Instance) -> Shape:
    items: list[ShapeItem] = []
    for item in state.shape(shape):
        if isinstance(item, Row):
            items.extend(instance.rows.get(item.symbol, (item,)))
        else:
            items.append(instantiate_dim(state, item, instance))
    return tuple(items)


def instantiate_dim(state: State, dim: Dim, instance: Instance) -> Dim:
    dim = state.dimension(dim)
    return dim.substitute(instance.dims) if dim.variables & instance.dims.keys() else dim
