"""Arguments in memory: what the driver reads is what was meant, and only what changes is written."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from axon.backend.gpu.launching.driver import DeviceError, LaunchConfig
from axon.backend.gpu.launching.launches import Arguments, Launch, Launches, Replay, Slot


class Driver:
    """Takes what it is given apart."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.replaced: list[int] = []
        self.statuses: list[int] = []
        self.contexts: list[int] = []

    def check(self, call: str, status: int) -> None:
        if status:
            raise DeviceError(call, "CUDA_ERROR_UNKNOWN")

    def replace_address(self, place: int, address: int) -> int:
        assert place % 64 == 0
        self.replaced.append(address)
        ctypes.c_uint64.from_address(place).value = address
        return 0

    def set_context(self, context: int) -> int:
        self.contexts.append(context)
        return 0

    def launch(self, config: int, function: int, arguments: int, extra: None) -> int:
        if self.statuses:
            return self.statuses.pop(0)
        made = LaunchConfig.from_address(config)
        lengths = {1: (128, 8, 4), 2: (8,)}[function]
        values = [
            ctypes.string_at(p, n) for p, n in zip((ctypes.c_uint64 * len(lengths)).from_address(arguments), lengths, strict=True)
        ]
        self.seen.append(
            (function, tuple(made.grid), tuple(made.block), made.shared, made.stream, made.attributes, made.count, values)
        )
        return 0


LAUNCHES = (
    Launch(1, 7, 384, 1000, (bytes(range(128)), bytes(8), (99).to_bytes(4, "little")), (Slot(0, True, 0), Slot(1, False, 1))),
    Launch(2, 1, 128, 0, (bytes(8),), (Slot(0, False, 2, 512),)),
)


def address(value: int) -> bytes:
    return value.to_bytes(8, "little")


def test_the_driver_reads_what_was_meant() -> None:
    driver = Driver()
    launches = Launches(driver, LAUNCHES, 4, 1)  # type: ignore[arg-type]
    launches([4096, 2**47 + 8, 8192, 2**63 + 5])
    rest = bytes(range(8, 128))
    assert driver.seen == [
        (1, (7, 1, 1), (384, 1, 1), 1000, 2**63 + 5, 0, 0, [address(4096) + rest, address(2**47 + 8), b"c\0\0\0"]),
        (2, (1, 1, 1), (128, 1, 1), 0, 2**63 + 5, 0, 0, [address(8192 + 512)]),
    ]
    launches([4096, 16, 8192, 5])
    assert driver.seen[2][-1] == [address(4096) + rest, address(16), b"c\0\0\0"]
    assert [seen[4] for seen in driver.seen[2:]] == [5, 5]
    assert driver.replaced == [4096]  # a descriptor whose address stays is left alone
    assert len(launches.free) == 1


def test_a_lost_context_is_set_once() -> None:
    driver = Driver()
    launches = Launches(driver, LAUNCHES, 4, 42)  # type: ignore[arg-type]
    driver.statuses = [201]
    launches([0, 0, 0, 0])
    assert driver.contexts == [42]
    assert len(driver.seen) == 2
    for statuses in ([999], [201, 201]):
        driver.statuses = statuses
        with pytest.raises(DeviceError, match="AX0612"):
            launches([0, 0, 0, 0])


def test_only_nodes_whose_addresses_change_are_touched() -> None:
    class Graphs(Driver):
        touched: list[int]

        def graph(self, nodes: Any) -> tuple[int, list[int], Any]:
            return 5, [100, 101], None

        def set_node(self, graph: int, node: int, parameters: int) -> int:
            self.touched.append(node)
            return 0

        def launch_graph(self, graph: int, stream: int) -> int:
            self.seen.append((graph, stream))
            return 0

        def drop_graph(self, ready: int, graph: Any) -> None:
            self.seen.append(("dropped", ready))

    driver = Graphs()
    replay = Replay(driver, LAUNCHES, 4, 1, None)  # type: ignore[arg-type]
    steps = [
        ([0, 8, 16, 0], []),
        ([0, 8, 16, 0], []),
        ([0, 24, 16, 0], [100]),
        ([0, 24, 32, 0], [101]),
        ([64, 8, 64, 0], [100, 101]),
    ]
    for addresses, touched in steps:
        driver.touched = []
        replay(addresses, 3)
        assert sorted(driver.touched) == touched
    assert driver.seen == [(5, 3)] * 5
    del replay
    assert driver.seen[-1] == ("dropped", 5)


def test_arguments_keep_apart() -> None:
    """Every value lies at a multiple of 64 bytes, none overlaps another and all are inside, whatever their sizes and number."""
    some = (128, 4, 8, 128, 1, 8, 64, 65)
    for sizes in (*(some[:count] for count in range(1, 9)), (), (1,), (4,), (8, 4), (8, 8, 8)):
        for launches in (1, 3, 50):
            values = tuple(bytes([n]) * size for n, size in enumerate(sizes))
            made = Arguments(Driver(), [Launch(n, 1, 1, 0, values, ()) for n in range(launches)], 1)  # type: ignore[arg-type]
            start = ctypes.addressof(made.memory)
            for config, _, pointers in made.calls:
                places = (ctypes.c_uint64 * len(sizes)).from_address(pointers)
                assert [ctypes.string_at(p, len(v)) for p, v in zip(places, values, strict=True)] == list(values)
                assert all(p % 64 == 0 for p in places)
                ends = [config + 64, pointers + 8 * len(sizes), *(p + len(v) for p, v in zip(places, values, strict=True))]
                assert start <= min(config, pointers, *places)
                assert max(ends) <= start + len(made.memory)
