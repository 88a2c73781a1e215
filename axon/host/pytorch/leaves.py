"""Arguments taken apart into tensors and numbers, and results put together: in plain text, for `torch.compile` traces it.

A key is what of a value decides its operator: `("tensor", dtype, rank)`, `("array", dtype, rank)`, `("number", type)` or
`("list", numbers)` of a leaf, `("()", …)` with the keys of a tuple's items, `("{}", names, …)` of a record's fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

ARRAYS, BOOLS = (np.ndarray, np.generic), (bool, torch.SymBool)  # tuples, for torch.compile knows no unions of classes
INTS, FLOATS = (int, torch.SymInt), (float, torch.SymFloat)


def apart(value: Any, leaves: list[Any]) -> tuple[Any, ...]:
    """What of a value decides its operator; its leaves are appended."""
    if isinstance(value, tuple):
        return ("()", *[apart(item, leaves) for item in value])
    if isinstance(value, Mapping):
        return ("{}", tuple(value), *[apart(item, leaves) for item in value.values()])
    array = isinstance(value, ARRAYS)
    if not array and hasattr(type(value), "__dataclass_fields__"):  # of NumPy's arrays PyTorch 2.11 traces no `hasattr`
        names = tuple(type(value).__dataclass_fields__)
        return ("{}", names, *[apart(getattr(value, name), leaves) for name in names])
    value = torch.as_tensor(value) if array else value
    leaves.append(value)
    if isinstance(value, torch.Tensor):
        return ("array" if array else "tensor", value.dtype, value.ndim)
    if isinstance(value, list):
        return ("list", value)
    return ("number", _kind(value))


def _kind(value: Any) -> Any:
    if isinstance(value, BOOLS):
        return bool
    if isinstance(value, INTS):
        return int
    if isinstance(value, FLOATS):
        return float
    return type(value)


def tensor(leaf: Any, dtype: Any) -> Any:
    return torch.tensor(leaf, dtype=dtype) if isinstance(leaf, list) else leaf


def together(structure: Any, results: Any) -> Any:
    """Results in a structure: a number is a leaf, and a tuple begins with the names of a record, or with None."""
    if isinstance(structure, int):
        return results if structure < 0 else results[structure]
    parts = [together(item, results) for item in structure[1:]]
    return tuple(parts) if structure[0] is None else dict(zip(structure[0], parts, strict=True))
