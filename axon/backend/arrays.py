"""Calls with PyTorch tensors: described where they lie, results allocated beside them, launched on their current stream.

Nothing here imports the library: where there is a tensor, it is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from axon.backend.memory import Tensor
from axon.backend.needs import gpu
from axon.backend.runtime import Executable
from axon.backend.unsupported import Unsupported
from axon.element import Element

_TORCH = {
    Element.F64: "float64", Element.F32: "float32", Element.F16: "float16", Element.BF16: "bfloat16", Element.I64: "int64",
    Element.I32: "int32", Element.I8: "int8", Element.U8: "uint8", Element.BOOL: "bool", Element.F8E4M3: "float8_e4m3fn",
    Element.F8E5M2: "float8_e5m2",
}  # fmt: skip


def call(executable: Executable, arguments: Sequence[Any], explicit: Sequence[int] = ()) -> list[Any]:
    """The results of a program on PyTorch tensors of one GPU, in the order of its block, made but perhaps not yet computed.

    An executable keeps what it loaded, and so serves one GPU alone.

    Results are fresh tensors, without gradients. Raises what the contract raises for wrong sizes, `Unsupported` for what has no
    kernel, `Missing` for another kind of GPU, and MemoryError where the results find no room.
    """
    program = executable.program
    sizes = program.contract.bind(explicit, [tuple(x.shape) for x in arguments])
    torch = sys.modules["torch"]
    device = arguments[0].device
    if device.type != "cuda" or any(x.device != device for x in arguments):
        raise Unsupported("the arguments are not on one CUDA device")
    gpu(device.index, executable.target)
    tensors = {v.symbol: describe(x, v.element) for v, x in zip(program.inputs, arguments, strict=True)}
    held = {v.symbol: x for v, x in zip(program.inputs, arguments, strict=True)}
    for value in executable.values:
        if value.symbol not in held:
            shape = tuple(d.evaluate(sizes) for d in value.shape)
            try:
                held[value.symbol] = torch.empty(shape, dtype=getattr(torch, _TORCH[value.element]), device=device)
            except torch.cuda.OutOfMemoryError as error:
                raise MemoryError(str(error)) from None
            tensors[value.symbol] = describe(held[value.symbol], value.element)
    with torch.cuda.device(device):
        executable(tensors, sizes, torch.cuda.current_stream(device).cuda_stream)
    given = {v.symbol for v in program.inputs}
    results: list[Any] = []
    for symbol in program.block.results:
        result = held[symbol]
        results.append(result.detach().clone() if symbol in given or any(result is other for other in results) else result)
    return results


def describe(x: Any, element: Element) -> Tensor:
    """A tensor's memory. Raises `Unsupported` if it does not hold this element type."""
    if str(x.dtype).rpartition(".")[2] != _TORCH[element]:
        raise Unsupported(f"a tensor of {x.dtype} where {element.value} is expected")
    return Tensor(x.data_ptr(), tuple(x.shape), tuple(x.stride()), element)
