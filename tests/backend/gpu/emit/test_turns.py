"""Emitted kernels whose consumers have tiles of their own, role by role, run here as Python: who waits for which stage in which
round, gives it back, takes and passes turns, and stores which tile.

The simulator plays the barrier program, in which another's tile is passed by step by step; what is emitted does that at once.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest
from llvmlite import binding, ir
from numba.cuda import types

from axon.backend.gpu.emit.source import Emitted, SizeParameter
from axon.backend.gpu.intrinsics import ptx
from axon.backend.gpu.tile.schedule import TileMapping
from tests.backend.gpu.emit import as_python
from tests.backend.gpu.programs import contraction
from tests.backend.gpu.test_stages import IN_TURN, made

Event = tuple[Any, ...]


def events(source: Emitted, sizes: dict[str, int], group: int, block: int, grid: int) -> list[Event]:
    """What the first thread of a group of warps asks for, in order."""
    found: list[Event] = []

    def noted(kind: str) -> Any:
        return lambda *what: found.append((kind, *map(int, what)))

    def moved(kind: str, before: int) -> Any:
        return lambda rank: lambda *what: found.append((kind, what[before - 1].tensor.name, *map(int, what[-rank:])))

    heard = {
        "copy_in": moved("copy", 2),
        "copy_out": moved("store", 2),
        "barrier_wait": noted("wait"),
        "barrier_expect": noted("fill"),
        "barrier_arrive": noted("release"),
        "named_sync": noted("sync"),
        "named_arrive": noted("pass"),
    }
    asked = [parameter.size.symbol for parameter in source.parameters if isinstance(parameter, SizeParameter)]
    known = {symbol: sizes[symbol.name] for symbol in asked if symbol is not None}
    as_python.run(source.text, as_python.given(source, {}, known), heard, 128 * group, block, grid)
    return found


@pytest.mark.parametrize("steps", [1, 2, 5, 7])
@pytest.mark.parametrize(
    "mapping",
    [IN_TURN, replace(IN_TURN, stages=2, in_flight=0), replace(IN_TURN, consumers=3), replace(IN_TURN, in_flight=2)],
    ids=str,
)
def test_who_does_what(mapping: TileMapping, steps: int) -> None:
    source = made(contraction("ik,kj->ij"), mapping).source
    depth, consumers, turn = mapping.stages, mapping.consumers, 1 + mapping.consumers
    for count, grid in ((1, 1), (2, 1), (5, 1), (5, 2), (3, 4)):
        sizes = {"I": 64 * count, "J": 64, "K": 64 * steps}
        for block in range(grid):
            tiles = list(range(block, count, grid))  # down the only column
            filled = [(n, step) for n in range(len(tiles)) for step in range(steps)]
            places = {each: (at % depth, at // depth % 2) for at, each in enumerate(filled)}
            producer = events(source, sizes, 0, block, grid)
            assert [e[1:] for e in producer if e[0] == "wait"] == [(16 * s + 8, 1 ^ r) for s, r in places.values()]
            assert [e[1] for e in producer if e[0] == "fill"] == [16 * s for s, _ in places.values()]
            lefts = [e[2:] for e in producer if e[0] == "copy" and e[1] == "a"]
            assert lefts == [(64 * step, 64 * tiles[n]) for n, step in filled]
            for consumer in range(consumers):
                own = [each for each in filled if each[0] % consumers == consumer]
                asked = events(source, sizes, 1 + consumer, block, grid)
                assert [e[1:] for e in asked if e[0] == "wait"] == [(16 * places[o][0], places[o][1]) for o in own]
                assert [e[1] for e in asked if e[0] == "release"] == [16 * places[o][0] + 8 for o in own]
                mine = tiles[consumer::consumers]
                assert [e[2:] for e in asked if e[0] == "store"] == [(0, 64 * tile) for tile in mine]
                last = len(tiles) % consumers == consumer
                assert sum(e[:2] == ("sync", turn + consumer) for e in asked) == len(mine) + last
                following = turn + (consumer + 1) % consumers
                assert [e[1] for e in asked if e[0] == "pass"] == [following] * (len(mine) + (consumer == consumers - 1))


def test_a_turn_is_passed_before_the_results_are_computed() -> None:
    source = made(contraction("ik,kj->ij"), IN_TURN).source
    asked = events(source, {"I": 64, "J": 64, "K": 256}, 1, 0, 1)
    kinds = [(e[0], e[1] if e[0] in ("sync", "pass") else None) for e in asked]
    waits = [n for n, kind in enumerate(kinds) if kind[0] == "wait"]
    assert kinds.index(("sync", 3)) < waits[0]
    assert waits[-1] < kinds.index(("pass", 4)) < kinds.index(("store", None))


@pytest.mark.parametrize("depth", [2, 3, 5, 8, 12])
def test_many_stages_are_passed_by_at_once(depth: int) -> None:
    """The intrinsic's code, run on this machine: as often as a ring advances, whatever it begins with."""
    kinds = (types.int64,) * 3
    signature, generate = ptx.advance_by(depth)._defn(None, *kinds)
    whole = ir.IntType(64)
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(whole, [whole] * 3), "by")
    builder = ir.IRBuilder(function.append_basic_block())
    pair = generate(None, builder, signature, function.args)
    stage, phase = (builder.extract_value(pair, n) for n in range(2))
    builder.ret(builder.add(builder.mul(stage, ir.Constant(whole, 2)), phase))
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    with binding.create_mcjit_compiler(binding.parse_assembly(str(module)), machine) as engine:
        engine.finalize_object()
        by = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(engine.get_function_address("by"))
        for start in range(2 * depth):
            for steps in (0, 1, depth - 1, depth, depth + 1, 2 * depth, 1000, 123_457):
                at = start + steps
                assert by(start % depth, start // depth, steps) == at % depth * 2 + at // depth % 2
