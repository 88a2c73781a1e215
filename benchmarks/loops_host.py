"""What a step of a loop costs on the host: Python's share, with a driver that does nothing, so without a GPU.

    python benchmarks/loops_host.py [--steps 400] [--out FILE]

Each program is walked, as while someone records the stream, and played (docs/runtime.md, "Loops, sorts, and sizes that data
decide"). A figure is µs of a call for each kernel that it launches, the best of 7 calls; to it comes the driver's own time, some
2.5 µs for a launch, and of a graph 5 µs and 0.3 µs for each of its kernels. Kernels are not compiled.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

import axon
from axon.backend import libraries
from tests.backend.gpu.runtime.fake import DeviceArray, FakeLibrary, aligned
from tests.backend.gpu.runtime.parted import PlayedDriver, played

STREAM = 77
PROGRAMS = {
    "a loop of steps of {} kernels": """
fun f (x : f32[n]) steps = loop (q = x, p = x) for t < steps =>
  let val a = sort (for i => p[i] - 0.5 * q[i])
      val b = sort (for i => q[i] + 0.5 * a[n - 1 - i])
      val c = sort (for i => a[i] - 0.5 * b[n - 1 - i])
      val d = sort (for i => b[i] + 0.5 * c[n - 1 - i])
  in (d, for i => c[n - 1 - i]) end""",
    "the same as an unfold": """
fun f {steps} (x : f32[n]) = unfold (q = x, p = x) for t < steps =>
  let val a = sort (for i => p[i] - 0.5 * q[i])
      val b = sort (for i => q[i] + 0.5 * a[n - 1 - i])
      val c = sort (for i => a[i] - 0.5 * b[n - 1 - i])
      val d = sort (for i => b[i] + 0.5 * c[n - 1 - i])
  in (d, for i => c[n - 1 - i]) end""",
    "the same, which look at the counter": """
fun f (x : f32[n]) steps = loop (q = x, p = x) for t < steps =>
  let val a = sort (for i => p[i] - cast _ t)
      val b = sort (for i => q[i] + 0.5 * a[n - 1 - i])
      val c = sort (for i => a[i] - cast _ t)
      val d = sort (for i => b[i] + 0.5 * c[n - 1 - i])
  in (d, for i => c[n - 1 - i]) end""",
    "a loop in each step, of 20": """
fun f (x : f32[n]) steps (k : i32) = loop (s = x) for t < k =>
  loop (q = s) for u < 20 =>
    let val a = sort (for i => q[i] - 0.5 * s[i])
        val b = sort (for i => q[i] + 0.5 * a[n - 1 - i])
    in for i => b[n - 1 - i] + 0.5 * a[i] end""",
}


class Idle(PlayedDriver):
    """Launches nothing, and counts what it is to launch."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.sizes: dict[int, int] = {}

    def launch(self, config: int, function: int, arguments: int, extra: None) -> int:
        self.count += 1
        return 0

    def graph(self, nodes: Any) -> tuple[int, list[int], Any]:
        self.sizes[len(self.sizes)] = len(nodes)
        return len(self.sizes) - 1, list(range(len(nodes))), None

    def set_node(self, graph: int, node: int, parameters: int) -> int:
        return 0

    def launch_graph(self, graph: int, stream: int) -> int:
        self.count += self.sizes[graph]
        return 0


def measured(cuda: Idle, call: Any, walked: bool) -> tuple[float, int]:
    """µs for each kernel of a call, and how many these are."""
    cuda.recording = {STREAM} if walked else set()
    best = float("inf")
    for _ in range(9):
        cuda.count = 0
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best / cuda.count * 1e6, cuda.count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--out", help="write the table here too")
    options = parser.parse_args()
    patch = pytest.MonkeyPatch()
    patch.setattr("tests.backend.gpu.runtime.parted.PlayedDriver", Idle)
    cuda = played(patch)
    assert isinstance(cuda, Idle)
    library = FakeLibrary()
    patch.setitem(libraries._by_type, DeviceArray, library)
    lines = ["| Python's share, µs a kernel | walked | played | kernels of a call |", "| --- | --- | --- | --- |"]
    for name, text in PROGRAMS.items():
        f = axon.compile(text).f
        x = DeviceArray(aligned((8,), axon.base.element.Element.F32))
        x.array[...] = np.arange(8)
        arguments: list[Any] = [x]
        if "{steps}" in text:
            f = f[options.steps]
        else:
            arguments.append(options.steps)
        if "(k : i32)" in text:
            arguments.append(options.steps // 20)
        (before, count), (after, _) = (measured(cuda, lambda f=f, given=arguments: f(*given), walked) for walked in (True, False))
        lines.append(f"| {name.format(count // options.steps)} | {before:.1f} | {after:.2f} | {count} |")
    print(*lines, sep="\n")
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
