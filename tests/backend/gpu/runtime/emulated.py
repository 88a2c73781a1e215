"""A GPU without a GPU: whole programs as they would run there, from the call to the results.

Everything is Axon's own but the driver, which runs on the host's memory what it is told to launch: a plain kernel thread by thread
(see `tests.backend.gpu.simt.emulate`), a warp-specialized one as its barrier program (see `axon.backend.gpu.proof.simulate`), one
of a sort as Python. What a launch computes is read from the words that the real driver would read.
"""

from __future__ import annotations

import ctypes
from random import Random
from typing import Any

import numpy as np
import pytest

from axon.backend import chips, needs
from axon.backend.gpu.emit.source import MapParameter, SizeParameter, StatusParameter
from axon.backend.gpu.layout.memory import contiguous
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.layout.views import with_views
from axon.backend.gpu.proof.simulate import simulate
from axon.backend.gpu.runtime import algorithms, arrays, building, failures, stepped_call, steps
from axon.backend.gpu.runtime import executable as runtime
from axon.backend.gpu.runtime.binding import Binder
from axon.backend.gpu.runtime.simulated import windows
from axon.backend.gpu.simt.mapping import Grid
from axon.backend.gpu.tile.families import views_of
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.kernel_cache import LinkedKernel
from axon.backend.plan.ir import Nest
from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol
from tests.backend.gpu.runtime.fake import recorded, view
from tests.backend.gpu.runtime.parted import PlayedDriver
from tests.backend.gpu.simt.emulate import Storage, launch_with


class EmulatedDriver(PlayedDriver):
    """A driver whose launches run kernels of every family."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.chance = Random(seed)
        self.ran: dict[str, int] = {}  # launches, by family

    def _run(self, function: int, size: Any, arguments: int) -> None:
        family = "sort" if function not in self.plans else "plain" if isinstance(self.plans[function][0].kernel, Nest) else "roles"
        self.ran[family] = self.ran.get(family, 0) + 1
        if family == "sort":
            super()._run(function, size, arguments)
            return
        plan, tensors, sizes = self.plans[function]
        source = plan.stages.source
        (blocks, _, _), (threads, _, _), shared = size
        assert (threads, shared) == (plan.threads, source.shared)
        own = dict(sizes)
        given: list[int] = []
        places: dict[Symbol, int] = {}
        words = (ctypes.c_uint64 * len(source.parameters)).from_address(arguments)
        for parameter, at in zip(source.parameters, words, strict=True):
            width = 4 if isinstance(parameter, SizeParameter) else 8
            value = int.from_bytes(ctypes.string_at(at, width), "little", signed=True)
            given.append(value)
            match parameter:
                case PointerParameter(tensor=symbol):
                    assert places.setdefault(symbol, value) == value
                case MapParameter(descriptor=descriptor):
                    assert places.setdefault(descriptor.tensor, value) == value
                case SizeParameter(size=dim) | ExtentParameter(size=dim) if dim.symbol is not None:
                    own[dim.symbol] = value  # a counter, which is written at each step
                case _:
                    pass
        lying = with_views(views_of(plan.kernel), tensors, sizes)
        there = {s: replace(lying[s], pointer=p) for s, p in places.items()}
        if family == "roles":
            held = {s: view(t.pointer, t.shape, t.strides, t.element) for s, t in there.items()}
            for shown in (v for v in views_of(plan.kernel) if v.im2col):
                symbol, of = shown.value.symbol, tensors[shown.source]
                begin = places[symbol] - (lying[symbol].pointer - of.pointer)
                held[symbol] = windows(shown, view(begin, of.shape, of.strides, of.element), own)
            with np.errstate(all="ignore"):
                simulate(plan.stages.barriers, held, own, seed=self.chance.randrange(2**32))
            return
        # Of a tensor and the part of it that begins where it does, both of which are read, the whole is the memory there.
        storages = sorted((Storage(t).lie_there() for t in there.values()), key=lambda storage: storage.values.size)
        failed = [a for p, a in zip(source.parameters, given, strict=True) if isinstance(p, StatusParameter)]
        storages += [Storage(contiguous(word, (1,), Element.I32), anyone=True).lie_there() for word in failed]
        launch_with(source, Grid(blocks, threads), given, storages, self.chance)


def built(wanted: Any, target: Any) -> list[LinkedKernel]:
    """`build_all` without a compiler."""
    return [LinkedKernel(forms.source.text.encode(), "kernel", 32, 0) for forms in wanted]


def emulated(monkeypatch: pytest.MonkeyPatch, seed: int = 0, chip: Target = HOPPER) -> EmulatedDriver:
    """The machine has a GPU from here on, of this chip."""
    made = EmulatedDriver(seed)
    for module in (runtime, arrays, stepped_call, failures):
        monkeypatch.setattr(module, "driver", lambda: made)
    for module in (arrays, needs):
        monkeypatch.setattr(module, "gpu", lambda device=0: chip.linked[:2])
    monkeypatch.setattr(chips, "of_device", lambda device: chip)
    for module in (building, algorithms, steps):
        monkeypatch.setattr(module, "build_all", built)
    monkeypatch.setattr(building, "known", lambda wanted, target: [None for _ in wanted])
    monkeypatch.setattr(failures, "_free", [])
    monkeypatch.setattr(Binder, "launch", recorded(made, Binder.launch))
    return made
