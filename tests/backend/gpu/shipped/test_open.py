"""What libraries launch at sizes for which they have no kernels of their own, played at many: the results are the program's."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.gpu.build.cubin import LinkedKernel
from axon.backend.gpu.emit.source import Emitted
from axon.backend.gpu.layout.memory import contiguous
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.shipped import open as shipped_open
from axon.backend.gpu.shipped.open import Between, OpenProgram
from axon.backend.gpu.shipped.sized import Address
from axon.backend.gpu.simt.mapping import Grid
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Program, Value
from axon.core.printer import print_program
from axon.core.verify import CoreInvalid
from axon.core.walk import results_of
from axon.host.ranked import COMMAND_LINE, ranked
from axon.interpret import run
from tests.backend.gpu.oracle import NARROW, corpus, different, outcome
from tests.backend.gpu.simt.emulate import Storage, launch_with
from tests.core.arguments import admitted
from tests.sample import ALL

MODULE = """
fun dense (x : bf16[n, d]) (w : bf16[d, k]) (scale : f32) = for i j => scale * tanh (sum d => cast f32 x[i, d] * cast f32 w[d, j])
fun attend (q : f32[b, n, d]) (k : f32[b, m, d]) (v : f32[b, m, e]) =
  let val s = for b i j => sum d => q[b, i, d] * k[b, j, d]
      val p = for b i j => exp (s[b, i, j] - max l => s[b, i, l])
  in for b i e => (sum j => p[b, i, j] * v[b, j, e]) / sum j => p[b, i, j] end
fun soft (x : f32[b, n]) = for i j => exp (x[i, j] - max k => x[i, k]) / sum k => exp (x[i, k] - max l => x[i, l])
fun turned (x : f16[n, m]) = for i j => x[j, i]
fun pooled {window, stride} (x : f32[n]) where window <= n, stride >= 1 =
  for i < (n - window) / stride + 1 => max for j < window => x[stride * i + j]
fun picked (x : f32[n]) (ids : i32[k]) = for i => x[ids[i]]
fun parts (x : f64[n, m]) = { rows = for i => sum j => x[i, j], columns = for j => sum i => x[i, j] }
"""
SIZES = (1, 2, 3, 5, 9)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, Emitted]:
    """The kernels that are built, without a compiler: their texts are their machine codes."""
    found: dict[bytes, Emitted] = {}

    def built(wanted: Any, target: Any) -> list[LinkedKernel]:
        found.update({forms.source.text.encode(): forms.source for forms in wanted})
        return [LinkedKernel(forms.source.text.encode(), "kernel", 32, 0) for forms in wanted]

    monkeypatch.setattr(shipped_open, "build_all", built)
    return found


def played(
    program: Program, made: OpenProgram, sources: Mapping[bytes, Emitted], inputs: list[Any], sizes: Mapping[Symbol, int]
) -> tuple[list[Any], bool]:
    """The results of a call, and whether a kernel noted that the program must stop."""
    chance = Random(0)

    def room(value: Value) -> Any:
        """A tensor's elements at a multiple of 256 bytes, of which nobody has written any."""
        shape = tuple(max(0, d.evaluate(sizes)) for d in value.shape)
        raw = np.full(prod(shape) * value.element.dtype.itemsize + 512, 0xA5, np.uint8)
        begin = -raw.ctypes.data % 256
        return raw[begin : begin + prod(shape) * value.element.dtype.itemsize].view(value.element.dtype).reshape(shape)

    held = [v for v in program.inputs if v.shape]
    values = [*held, *results_of(program), *made.between]
    arrays = [room(value) for value in values]
    for value, array in zip(program.inputs, inputs, strict=True):
        if value.shape:
            arrays[held.index(value)][...] = array
        elif value.symbol in made.scalars:
            arrays[made.scalars[value.symbol] - len(made.between)][...] = array
    word = np.zeros(1, np.int32)
    addresses = [x.ctypes.data for x in arrays]
    status, results = len(values) - len(made.between) + 1, arrays[len(held) : len(values) - len(made.between)]

    def number(argument: Any) -> int:
        match argument:
            case Between(piece):
                return addresses[piece - len(made.between)]
            case Address(at, offset):
                return (word.ctypes.data if at == status else addresses[at]) + offset
            case _:
                return argument.evaluate(sizes)

    for launch in made.launches:
        if (blocks := launch.blocks.evaluate(sizes)) > 0:
            lying = [(contiguous(x.ctypes.data, x.shape, v.element), False) for x, v in zip(arrays, values, strict=True)]
            lying.append((contiguous(word.ctypes.data, (1,), Element.I32), True))
            storages = [Storage(tensor, anyone=anyone).lie_there() for tensor, anyone in lying]
            arguments = [number(argument) for argument in launch.arguments]
            launch_with(sources[launch.code.cubin], Grid(blocks, launch.threads), arguments, storages, chance)
    return results, bool(word[0])


def check(program: Program, sources: dict[bytes, Emitted], given: Any) -> str:
    explicit, inputs, sizes = given
    made = shipped_open.shipped_open(program, HOPPER)
    want = outcome(run, program, inputs, explicit)
    results, stopped = played(program, made, sources, inputs, sizes)
    if stopped or isinstance(want, tuple):
        return "" if stopped == isinstance(want, tuple) and made.fails else f"stopped: {stopped}, and not {want}"
    return different(results, want, max(error for name, error in (*NARROW.items(), ("", 0.0)) if name in print_program(program)))


@pytest.mark.parametrize("name", list(axon.compile(MODULE)))
def test_at_many_sizes(name: str, sources: dict[bytes, Emitted]) -> None:
    session = axon.compile(MODULE)._session
    program = ranked(session, session.callee(name), {}, {}, {}, COMMAND_LINE).program
    chance = Random(name)
    drawn = [admitted(program, chance, SIZES) for _ in range(3 if ALL else 1)]
    assert [check(program, sources, given) for given in drawn if given is not None] == [""] * len(drawn)


def test_the_accepted_programs(sources: dict[bytes, Emitted]) -> None:
    """Whatever is launched without the host."""
    bad, made = {}, 0
    for name, (program, given) in corpus(6 if ALL else 30).items():
        try:
            said = check(program, sources, given)
        except (Unsupported, CoreInvalid):
            continue
        made += 1
        if said:
            bad[name] = said
    assert not bad
    assert made
