"""For which chip kernels are made: that of a GPU of this machine, or one that the user names.

    of_device   the chip of a GPU, from its row in the table and what the driver says
    made_for    the chip for a name, or for none; what runs it decides the machine code
    gpus        every GPU of this machine, to be shown

A GPU has the row of its compute capability, with as many multiprocessors as there are; clock, memory and L2 cache are the driver's
where they differ by more than a tenth from the row's, so that what was measured of a chip holds for those like it. Of a chip that
has no row the nearest before it says which instructions there are.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from typing import Any

from axon.backend import needs
from axon.backend.gpu.layout.target import CHIPS, HOPPER, Target, architecture, row_of
from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.nearest import meant

SETTING = "AXON_CHIP"  # a chip for all programs


def named(name: str) -> Target:
    """A chip by the name of its architecture, such as `sm_86`. Raises AX0601 for one that has no row."""
    found = next((chip for chip in CHIPS if chip.name == name), None)
    if found is None:
        names = [chip.name for chip in CHIPS]
        note = f"the chips are {', '.join(names)}"
        raise AxonError((Diagnostic("AX0601", f"there is no chip `{name}`", notes=(note,), suggestions=meant(str(name), names)),))
    return found


def chosen(name: str | None) -> Target | None:
    """The chip that a user names, here or for all programs; None for none. Raises AX0601."""
    name = name or os.environ.get(SETTING)
    return named(name) if name else None


def made_for(name: str | None = None, device: int | None = None) -> Target:
    """The chip that kernels are made for: the one that the user names, as machine code for a GPU if there is one; else that of the
    GPU; else Hopper. `device` is None where nothing is to run.

    Raises AX0601, and `Missing` where a GPU cannot run what is made for a later one.
    """
    row = chosen(name)
    own = of_device(device or 0) if is_there(device or 0) else None
    if row is None or own is None:
        return row or own or HOPPER
    if own.name == row.name:
        return own
    if own.linked[:2] > row.compute_capability[:2]:
        return row.on(own.linked)
    if device is None:
        return row
    note = f"GPU {device} is of {architecture((*own.linked[:2], ''))}, and runs kernels of that and of earlier chips"
    raise needs.Missing(f"a GPU that runs kernels for {row.name}", "", note)


def is_there(device: int) -> bool:
    """Whether kernels can run on a GPU."""
    try:
        needs.gpu(device)
    except needs.Missing:
        return False
    return True


@cache
def of_device(device: int) -> Target:
    """The chip of a GPU. Raises `Missing` for one that runs no kernels; warns once of one that has no row of its own."""
    found = needs.gpu(device)
    row = row_of(found) or CHIPS[0]
    if row.compute_capability[:2] != found:
        text = f"Axon knows nothing of {architecture((*found, ''))}, and makes kernels for GPU {device} as for {row.name}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return measured(row.on((*found, "")), _said(device))


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as its driver calls it, with bytes of memory; its chip, or why kernels cannot run on it."""

    name: str
    memory: int
    chip: Target | needs.Missing


def gpus() -> tuple[str, tuple[Gpu, ...]]:
    """The version of CUDA that this machine's driver is of, and its GPUs. Raises `Missing` without a driver that has one."""
    needs.driver()
    from cuda.bindings import driver

    found = []
    for number in range(int(driver.cuDeviceGetCount()[1])):
        handle = driver.cuDeviceGet(number)[1]
        name = driver.cuDeviceGetName(128, handle)[1].split(b"\0")[0].decode(errors="replace")
        chip: Target | needs.Missing
        try:
            chip = of_device(number)
        except needs.Missing as missing:
            chip = missing
        found.append(Gpu(name, int(driver.cuDeviceTotalMem(handle)[1]), chip))
    major, minor = divmod(int(driver.cuDriverGetVersion()[1]) // 10, 100)
    return f"{major}.{minor}", tuple(found)


def measured(row: Target, said: dict[str, float]) -> Target:
    """A row with what a driver says of a chip, as far as it says something."""

    def is_other(name: str) -> bool:
        return said.get(name, 0) > 0 and abs(said[name] / getattr(row, name) - 1) > 0.1

    count = int(said.get("multiprocessors", 0)) or row.multiprocessors
    clock = said["clock"] if is_other("clock") else row.clock
    faster = count / row.multiprocessors * clock / row.clock
    more: dict[str, Any] = {"multiprocessors": count, "clock": clock}
    more |= {name: getattr(row, name) * faster for name in ("f32", "f64", "tensor", "tensor_f64", "mma")} if faster != 1 else {}
    more |= {name: type(getattr(row, name))(said[name]) for name in ("dram", "l2") if is_other(name)}
    return replace(row, **more) if any(getattr(row, name) != value for name, value in more.items()) else row


def _said(device: int) -> dict[str, float]:
    """What the driver says of a GPU, by the names of a target's fields; 0 for what it does not say."""
    from cuda.bindings import driver

    _, handle = driver.cuDeviceGet(device)

    def ask(name: str) -> int:
        error, value = driver.cuDeviceGetAttribute(getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), handle)
        return 0 if error else int(value)

    return {
        "multiprocessors": ask("MULTIPROCESSOR_COUNT"),
        "clock": ask("CLOCK_RATE") * 1e3,
        "l2": ask("L2_CACHE_SIZE"),
        "dram": ask("MEMORY_CLOCK_RATE") * 1e3 * 2 * ask("GLOBAL_MEMORY_BUS_WIDTH") / 8,  # two words a cycle
    }
