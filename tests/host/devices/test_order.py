"""In which order a process gives its device programs and exchanges, where the device has a queue of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from axon.core.ir import Program  # noqa: E402
from axon.core.sharding import shard  # noqa: E402
from axon.core.sharding.layouts import Rates  # noqa: E402
from axon.host.devices import collectives  # noqa: E402
from axon.host.devices.collectives import Begin, Line  # noqa: E402
from axon.host.devices.grid import Grid  # noqa: E402
from axon.host.devices.places import Processor  # noqa: E402
from axon.host.devices.run import Running  # noqa: E402
from tests.core.sharding.whole import arguments, bound, mesh, of  # noqa: E402

SLOW = Rates("slow", 1e9, 1e-9, 1e12, 1e12)  # of devices where exchanging takes about as long as computing, and messages do not
TEXT = "fun beside (w : f32[d, f]) (x : f32[s, d]) = for j i => sum c => w[c, j] * x[i, c]"


class Queue(Processor):
    """A place that notes what it is given, as a GPU's stream would."""

    def __init__(self) -> None:
        super().__init__("interpret", None)
        self.noted: list[str] = []

    def run(self, program: Program, inputs: Sequence[Any], explicit: Sequence[int], beside: bool) -> list[Any]:
        self.noted.append("a program beside" if beside else "a program")
        return super().run(program, inputs, explicit, beside)

    def mark(self) -> Any:
        return len(self.noted)

    def begun(self, operation: Begin, mark: Any) -> Any:
        self.noted.append("an exchange" if mark is None else f"an exchange after {mark}")
        return super().begun(operation, None)


class Watching:
    """What watches over one process."""

    def at(self, step: int, what: str) -> None:
        pass

    def wait(self, work: Any) -> None:
        pass


@pytest.mark.parametrize("devices", [2, 3])
def test_a_program_that_leaves_room_is_launched_before_what_it_stands_beside(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the exchange waits for what was launched before that program, not for the program."""
    program = of(TEXT, "beside")
    dims = bound(program, d=4, f=2 * devices, s=2 * devices)
    made = shard(program, mesh(m=devices), {"s": "m", "f": "m"}, {s: n << 12 for s, n in dims.items()}, SLOW)

    def exchanged(out: torch.Tensor, given: torch.Tensor, got: list[int], sent: list[int], **_: Any) -> None:
        assert sum(got) == sum(sent) == len(given) == len(out)
        out.copy_(given)  # all processes have the same

    monkeypatch.setattr(collectives.dist, "all_to_all_single", exchanged)
    w, x = arguments(program, dims)
    own = w[:, :2], x[:2]
    place: Any = Queue()
    watch: Any = Watching()
    lines = {"m": Line("m", None, devices, 0, False)}
    running = Running(lines, place, watch, lambda: None, made.environment(dims, {"m": 0}), {})
    (result,) = running.call(made, [np.ascontiguousarray(a) for a in own])
    np.testing.assert_array_equal(result, np.tile(own[0].T @ own[1].T, devices))
    exchanges = ["an exchange after 0"] * (devices - 1)
    assert place.noted[:devices] == ["a program beside", *exchanges]
    assert place.noted[-1] == "a program"


@pytest.mark.parametrize(("said", "room"), [(None, False), ("4", False), ("0", True), ("1", True)])
def test_room_is_left_to_blocks_that_start_one_by_one(said: str | None, room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters of NCCL's blocks would not find it."""
    monkeypatch.setattr(Grid, "on_stream", property(lambda self: True))
    monkeypatch.delenv("NCCL_CGA_CLUSTER_SIZE", raising=False)
    if said is not None:
        monkeypatch.setenv("NCCL_CGA_CLUSTER_SIZE", said)
    grid: Any = None
    assert Grid(grid, mesh(m=2), {"m": 0}, (0, 1)).leaves_room == room
