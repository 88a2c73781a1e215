"""What is kept from call to call is found again by all that it was made for, and by nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cuda.pathfinder
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend import libraries
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.runtime.binding import Binder
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.kernel_cache import LinkedKernel
from axon.backend.libraries import Jax
from axon.base.element import Element
from axon.lower import TensorType
from tests.backend.gpu.runtime.fake import Builds, DeviceArray, FakeDriver, FakeLibrary, aligned


def executable(text: str) -> Executable:
    return Executable(compiler.lower(compiler.check_text(text), "f", (TensorType(Element.F32, 1),)))


def test_a_kernel_is_loaded_for_the_shared_memory_that_it_is_launched_with(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels that differ in how much they take share one machine code: what a function may take is set when it is loaded."""
    asked: list[tuple[int, int]] = []

    def load(cubin: bytes, entry: str, shared: int, cluster: int, device: int) -> tuple[int, Any]:
        asked.append((shared, cluster))
        return len(asked), None

    monkeypatch.setattr(fake, "load", load)
    kernel = LinkedKernel(b"code", "kernel", 32, 0)
    wanted = [(1_000, 1), (200_000, 1), (1_000, 16), (1_000, 1)]
    binder = Binder()
    functions = [binder.load(fake, 0, kernel, *taken) for taken in wanted]  # type: ignore[arg-type]
    assert asked == wanted[:3]
    assert functions == [1, 2, 3, 1]


def test_sizes_are_told_apart_by_their_names(fake: FakeDriver, builds: Builds) -> None:
    """Who gives the same sizes in another order asks for something else."""
    program = executable("fun f {a, b} (x : f32[n]) = for i => x[i] + cast f32 (10 * a + b)")
    (x,), (out,), (a, b) = program.program.inputs, program.program.block.results, program.program.explicit
    (n,) = x.shape[0].variables
    source, result = aligned((4,), Element.F32), aligned((4,), Element.F32)
    source[...] = 0
    tensors = {s: DeviceTensor(held.ctypes.data, (4,), (1,), Element.F32) for s, held in ((x.symbol, source), (out, result))}
    for sizes in ({n: 4, a: 2, b: 3}, {n: 4, b: 2, a: 3}, {b: 3, n: 4, a: 2}):
        program(tensors, sizes, 0)
        assert result.tolist() == [10.0 * sizes[a] + sizes[b]] * 4
    assert len(program._bound) == 2


@pytest.mark.parametrize("other", [{"strides": (1, 8)}, {"pointer": 4100}, {"pointer": 4112}])
def test_arrays_of_jax_are_told_apart_by_how_they_lie(other: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels take for granted how elements follow each other and of what an address is a multiple: JAX has layouts, and arrays
    that DLPack has given it."""
    library = object.__new__(Jax)

    class Array:
        dtype, shape, sharding = np.dtype("float32"), (8, 8), "a GPU"

        def __init__(self, pointer: int = 4096, strides: tuple[int, ...] = (8, 1)) -> None:
            self.pointer, self.strides = pointer, strides

    def memory(x: Any, stream: int) -> libraries.Memory:
        return libraries.Memory(x.pointer, x.shape, x.strides)

    monkeypatch.setattr(library, "memory", memory)
    assert library.key(Array()) == library.key(Array())
    assert (library.key(Array()) == library.key(Array(**other))) == (other == {"pointer": 4112})


def test_settings_of_compilers_are_in_the_keys_of_what_they_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    from axon.backend.gpu.build import cubin as build

    before = build._tools.__wrapped__()
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")  # says where and how fast, not what
    assert build._tools.__wrapped__() == before
    monkeypatch.setenv("NUMBA_SLP_VECTORIZE", "1")
    assert build._tools.__wrapped__() != before


def test_tools_of_the_system_are_told_apart_by_their_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """NVIDIA's libraries need not be packages of Python: a CUDA toolkit that is replaced is another compiler."""
    from axon.backend.gpu.build import cubin as build

    library = tmp_path / "libnvJitLink.so"
    library.write_bytes(b"12.4")
    found = SimpleNamespace(abs_path=str(library))
    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", lambda name: found)
    before = build._version("nvidia-nvjitlink-of-nobody", "nvJitLink")
    library.write_bytes(b"12.9.1")
    assert build._version("nvidia-nvjitlink-of-nobody", "nvJitLink") != before
    assert build._version("numba", None) != ""


def test_compilers_are_among_the_tools() -> None:
    from axon.backend.cpu import build as cpu
    from axon.backend.gpu.build import cubin as build

    assert f"numba {build._version('numba', None)}" in build._tools()
    assert f"llvmlite {build._version('llvmlite', None)}" in cpu.machine_tools()


@pytest.mark.parametrize(
    ("element", "given"), [("f32", 2**54 + 2**30 + 1), ("f32", -(2**59) - 2**35 - 1), ("bf16", 2**60 + 2**52 + 2**36 + 1)]
)
def test_an_integer_for_a_float_is_rounded_once_in_every_call(
    element: str, given: int, fake: FakeDriver, builds: Builds, library: FakeLibrary
) -> None:
    """A little above the middle between two floats; the integer itself no double holds."""
    m = axon.compile(f"fun f (x : f32[n]) (s : {element}) = for i => x[i] + cast f32 s")
    x = DeviceArray(aligned((8,), Element.F32))
    x.array[...] = 0
    wanted = np.int64(given).astype(np.float32).astype(Element(element).dtype).astype(np.float32)
    assert [m.f(x, given).array.tolist() for _ in range(3)] == [[float(wanted)] * 8] * 3
