"""What the GPU path needs of the machine: packages and libraries to build kernels, a driver and a GPU to run them."""

from __future__ import annotations

from functools import cache

from axon.backend.gpu.layout.target import CHIPS
from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.errors import AxonError

_PACKAGES = ("numba-cuda", "llvmlite", "cuda-core", "cuda-bindings", "cuda-pathfinder")
_LIBRARIES = ("nvvm", "nvJitLink")
ELSEWHERE = "`cpu` and `simulate` run everywhere"
_OLDEST = CHIPS[0].compute_capability[:2]
_INSTALL = "pip install '.[cuda]' in a clone of Axon installs the tools"


class Missing(AxonError):
    """Something that the GPU path needs, or `who` does, is not on this machine."""

    def __init__(self, what: str, help: str = "", *notes: str, who: str = "the GPU path") -> None:
        suggestions = (Suggestion(help),) if help else ()
        super().__init__((Diagnostic("AX0604", f"{who} lacks {what}", notes=notes, suggestions=suggestions),))

    def noting(self, text: str) -> Missing:
        """The same with a further note."""
        (diagnostic,) = self.diagnostics
        self.diagnostics = (replace(diagnostic, notes=(*diagnostic.notes, text)),)
        return self


_NO_DRIVER = {
    "CUDA_ERROR_NO_DEVICE": "if there is a GPU, look at CUDA_VISIBLE_DEVICES; `cpu` and `simulate` run everywhere",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "restart the machine: its driver was updated and the old one is still loaded",
    "CUDA_ERROR_SYSTEM_NOT_READY": "the machine's NVIDIA services (nvidia-fabricmanager, nvidia-persistenced) must run",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "install a driver of CUDA 13 or newer (nvidia-smi says which it is)",
}


@cache
def toolchain() -> None:
    """Raises `Missing` unless kernels can be built here."""
    from importlib.metadata import PackageNotFoundError, version

    for package in _PACKAGES:
        try:
            version(package)
        except PackageNotFoundError:
            raise Missing(f"the Python package `{package}`", _INSTALL) from None
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    for library in _LIBRARIES:
        try:
            load_nvidia_dynamic_lib(library)
        except DynamicLibNotFoundError:
            raise Missing(f"NVIDIA's library `{library}`", _INSTALL) from None


@cache
def driver() -> None:
    """Raises `Missing` without a driver that has a GPU."""
    try:
        from cuda.bindings import driver as cuda
    except ImportError:
        raise Missing("the Python package `cuda-bindings`", _INSTALL) from None
    try:
        (error,) = cuda.cuInit(0)
        failed = error.name if error else ""
    except RuntimeError:  # the driver's library cannot be loaded
        failed = "libcuda is not installed"
    if failed:
        why = _NO_DRIVER.get(failed, ELSEWHERE)
        raise Missing("an NVIDIA driver with a GPU", why, failed)


@cache
def gpu(device: int = 0) -> tuple[int, int]:
    """The compute capability of a GPU. Raises `Missing` unless kernels can run on it. To build them takes `toolchain` too."""
    driver()
    from cuda.bindings import driver as cuda

    error, handle = cuda.cuDeviceGet(device)
    if error:
        raise Missing(f"GPU {device}", ELSEWHERE, error.name)
    kinds = cuda.CUdevice_attribute
    wanted = (kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    major, minor = (int(cuda.cuDeviceGetAttribute(kind, handle)[1]) for kind in wanted)
    if (major, minor) < _OLDEST:
        least = ".".join(map(str, _OLDEST))
        raise Missing(f"a GPU of compute capability {least} or later", ELSEWHERE, f"GPU {device} has {major}.{minor}")
    return major, minor


def disassembler() -> str | None:
    """Where NVIDIA's disassembler of machine code is, if it is there."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        return None
    found = find_nvidia_binary_utility("nvdisasm")
    return None if found is None else str(found)
