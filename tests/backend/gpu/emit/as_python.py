"""Emitted kernels run as Python: one thread of one block, with what the intrinsics do replaced by what a test wants to hear of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from axon.backend.gpu.emit.source import Emitted, MapParameter, SizeParameter, StrideParameter
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.kernel.parameters import PointerParameter

MODULES = ("ptx_results", "ptx_rows", "ptx_scalar", "ptx_tiles", "libdevice")


class _Nothing:
    """What does nothing here: barriers, registers, fences."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: lambda *_, **__: 0


PLAIN: Mapping[str, Callable[..., Any]] = {
    "divide": lambda a, b: a // b,
    "uniform": lambda x: x,
    "opaque": lambda x: x,
    "shared_memory": lambda: lambda: 0,
    "advance": lambda depth: lambda stage, phase: ((stage + 1) % depth, phase ^ (stage + 1 == depth)),
    "advance_by": lambda depth: lambda stage, phase, steps: ((stage + steps) % depth, phase ^ ((stage + steps) // depth & 1)),
}


def run(
    text: str, arguments: Sequence[Any], heard: Mapping[str, Callable[..., Any]], thread: int = 0, block: int = 0, grid: int = 1
) -> None:
    """One thread of a kernel. Of the intrinsics, arithmetic is done, those that are `heard` are called, and others do nothing."""
    ptx = _Nothing()
    for name, value in {**PLAIN, **heard}.items():
        setattr(ptx, name, value)
    cuda = SimpleNamespace(threadIdx=SimpleNamespace(x=thread), blockIdx=SimpleNamespace(x=block), gridDim=SimpleNamespace(x=grid))
    body = "\n".join(line for line in text.splitlines() if not line.startswith(("from ", "import ")))
    numbers = {"int32": int, "int64": int, "float32": float}
    space: dict[str, Any] = {"cuda": cuda, "ptx": ptx, **numbers, **dict.fromkeys(MODULES, _Nothing())}
    exec(compile(body, "kernel", "exec"), space)
    space["kernel"](*arguments)


def given(
    source: Emitted, tensors: Mapping[Any, Any], sizes: Mapping[Any, int], addresses: Mapping[str, int] | None = None
) -> list[Any]:
    """A kernel's arguments: descriptors themselves, and 0 for addresses of tensors that are not named."""
    found: list[Any] = []
    for parameter in source.parameters:
        match parameter:
            case MapParameter(descriptor=descriptor):
                found.append(descriptor)
            case SizeParameter(size=size):
                found.append(size.evaluate(sizes))
            case StrideParameter(tensor=tensor, dimension=dimension):
                found.append(tensors[tensor].strides[dimension])
            case PointerParameter(tensor=tensor):
                found.append((addresses or {}).get(tensor.name, 0))
            case _:
                found.append(0)
    return found


def brought(memory: Any, tensor: DeviceTensor, box: tuple[int, ...], at: tuple[int, ...], first: int = 0) -> Any:
    """PTX ISA, tensors in tiled mode: an element of the box is that at its coordinates, and 0 where one of these is outside. The
    tensor begins `first` elements behind the memory's."""
    assert all(-(2**31) <= place < 2**31 for place in at)
    made = np.zeros(box, memory.dtype)
    for inside in product(*map(range, box)):
        where = [start + offset for start, offset in zip(at[::-1], inside, strict=True)]
        if all(0 <= place < extent for place, extent in zip(where, tensor.shape, strict=True)):
            element = first + sum(place * step for place, step in zip(where, tensor.strides, strict=True))
            assert 0 <= element < len(memory), "an element outside of the tensor is read"
            made[inside] = memory[element]
    return made
