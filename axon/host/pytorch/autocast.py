"""What `torch.autocast` does to a call: floats that it narrowed are widened again to what the signature asks for.

Axon converts nothing by itself, and autocast narrows nothing of Axon's: element types are the program's choice. But what a layer
of PyTorch's gave is narrow there, and beside it stand weights that are not. So, as of PyTorch's own functions that promote, floats
that share an element variable become the widest of them, and those whose type is written become that, if it is wider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from axon.backend import libraries
from axon.base.element import FLOAT, Element
from axon.base.names import Symbol
from axon.host.call import Callee
from axon.types import type as t

Leaf = Callable[[t.Tensor, Any], Any]


def widened(callee: Callee, given: Sequence[Any]) -> list[Any]:
    """The arguments of a call with wider floats where they need them; what does not fit stays, and is told of by the call."""
    widest: dict[Symbol, Any] = {}

    def seen(type: t.Tensor, x: Any) -> Any:
        if isinstance(type.element, t.ElementVar) and _is_float(x):
            known = widest.setdefault(type.element.symbol, x.dtype)
            widest[type.element.symbol] = torch.promote_types(known, x.dtype)
        return x

    def changed(type: t.Tensor, x: Any) -> Any:
        if not _is_float(x):
            return x
        if isinstance(type.element, Element):
            wanted = _dtype(type.element) if type.element in FLOAT else x.dtype
        else:
            wanted = widest[type.element.symbol]
        return x.to(wanted) if wanted != x.dtype and torch.promote_types(wanted, x.dtype) == wanted else x

    for leaf in (seen, changed):
        given = [_walk(p.type, x, leaf) for p, x in zip(callee.parameters, given, strict=True)]
    return list(given)


def _walk(type: t.Type, x: Any, leaf: Leaf) -> Any:
    match type:
        case t.Tensor():
            return leaf(type, x)
        case t.Exists(body=body):
            return _walk(body, x, leaf)
        case t.TupleType(items) if isinstance(x, tuple) and len(x) == len(items):
            return tuple(_walk(item, part, leaf) for item, part in zip(items, x, strict=True))
        case t.RecordType(fields) if isinstance(x, Mapping):
            types = dict(fields)
            return {name: _walk(types[name], part, leaf) if name in types else part for name, part in x.items()}
        case _:
            return x


def _is_float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _dtype(element: Element) -> Any:
    library = libraries.of_type(torch.Tensor)
    assert isinstance(library, libraries.Torch)
    return library.dtypes[element]
