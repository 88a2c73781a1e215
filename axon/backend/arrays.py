"""Calls with PyTorch tensors: described where they lie, results allocated beside them, launched on their current stream.

The library is found through the tensors themselves; nothing here imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from axon.backend.fuse import Unsupported
from axon.backend.runtime import Executable, Tensor
from axon.element import Element

_TORCH = {
    Element.F64: "float64", Element.F32: "float32", Element.F16: "float16", Element.BF16: "bfloat16", Element.I64: "int64",
    Element.I32: "int32", Element.I8: "int8", Element.U8: "uint8", Element.BOOL: "bool", Element.F8E4M3: "float8_e4m3fn",
    Element.F8E5M2: "float8_e5m2",
}  # fmt: skip


def call(executable: Executable, arguments: Sequence[Any], explicit: Sequence[int] = ()) -> list[Any]:
    """The results of a program on CUDA tensors of PyTorch, in the order of its block, made but perhaps not yet computed.

    Raises what the contract raises for wrong sizes, and `Unsupported` for what has no kernel.
    """
    program = executable.program
    sizes = program.contract.bind(explicit, [tuple(x.shape) for x in arguments])
    torch = sys.modules[type(arguments[0]).__module__.partition(".")[0]]
    device = arguments[0].device
    if device.type != "cuda" or any(x.device != device for x in arguments):
        raise Unsupported("the arguments are not on one CUDA device")
    tensors = {v.symbol: describe(x, v.element) for v, x in zip(program.inputs, arguments, strict=True)}
    held = {v.symbol: x for v, x in zip(program.inputs, arguments, strict=True)}
    for value in executable.values:
        if value.symbol not in held:
            shape = tuple(d.evaluate(sizes) for d in value.shape)
            held[value.symbol] = torch.empty(shape, dtype=getattr(torch, _TORCH[value.element]), device=device)
            tensors[value.symbol] = describe(held[value.symbol], value.element)
    executable(tensors, sizes, torch.cuda.current_stream(device).cuda_stream)
    return [held[symbol] for symbol in program.block.results]


def describe(x: Any, element: Element) -> Tensor:
    """A tensor's memory. Raises `Unsupported` if it does not hold this element type."""
    if str(x.dtype).rpartition(".")[2] != _TORCH[element]:
        raise Unsupported(f"a tensor of {x.dtype} where {element.value} is expected")
    return Tensor(x.data_ptr(), tuple(x.shape), tuple(x.stride()), element)
