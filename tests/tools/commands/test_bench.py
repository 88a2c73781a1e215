"""`axon bench`: what it times, beside what, and what it says where that cannot be compared."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon.backend import needs
from axon.backend.needs import Missing
from axon.tools.commands import bench, peer, timings

Cli = Callable[..., Any]

MODEL = """\
fun add (x : 'a[n, d]) (y : 'a[n, d]) = x + y
fun heads {h} x = for i < h, j => x[(i, j)]
fun both x = { total = sum i => x[i], ends = (x[0], x) }
val half = 0.5
"""
PEER = """\
import numpy as np
seen = []
def add(x, y):
    seen.append((x.shape, x.dtype.name))
    return x + y
def off(x, y): return x + y * 1.5
def flat(x, y): return (x + y).ravel()
def heads(h, x): return x.reshape(h, -1)
def both(x): return {"total": x.sum(), "ends": [x[0], x]}
def wrong(x, y): return x @ y
"""


@pytest.fixture
def timed(axon_cli: Cli, here: Path) -> Callable[..., Any]:
    """`axon bench` on a function of the model, with few samples."""
    (here / "model.axon").write_text(MODEL)
    (here / "peer.py").write_text(PEER)
    return lambda name, *rest: axon_cli("bench", f"model.axon:{name}", "--seconds", "0.01", "--target", "interpret", *rest)


def rows(ran: Any) -> list[Any]:
    assert ran.status == 0, ran.out
    found: list[Any] = json.loads(ran.out)
    return found


XY = ("x=randn(f32[n, 2 * d])", "y=randn(f32[n, d * 2])")


def test_sizes_are_swept_by_their_names(timed: Cli) -> None:
    found = rows(timed("add", *XY, "n=2,3", "d=4,5", "--against", "peer.py", "--format", "json"))
    assert [row["sizes"] for row in found] == [{"n": n, "d": d} for n in (2, 3) for d in (4, 5)]
    assert all([t["name"] for t in row["timings"]] == ["add", "peer.add"] for row in found)
    assert all(row["error"] == 0 and row["ratio"] > 0 for row in found)
    import sys

    shapes = {(shape, dtype) for shape, dtype in sys.modules["axon_bench_peer"].seen}
    assert shapes == {((n, 2 * d), "float32") for n in (2, 3) for d in (4, 5)}, "the peer gets the same arguments"
    found = rows(timed("heads", "x=randn(f32[n])", "h=1,2", "n=4", "--against", "peer.py", "--format", "json"))
    assert [(row["sizes"], row["error"]) for row in found] == [({"h": 1}, 0.0), ({"h": 2}, 0.0)]


def test_the_table_and_the_picture(timed: Cli, here: Path) -> None:
    ran = timed("add", *XY, "n=2,300", "d=4", "--against", "peer.py:off", "--plot", "times.svg")
    lines = [line for line in ran.out.splitlines() if line.strip()]
    assert lines[0].split() == ["n", "add", "peer.off", "ratio", "error"]
    assert [line.split()[0] for line in lines if "×" in line] == ["2", "300"]
    assert all("s ±" in line and "█" in line for line in lines if "×" in line)
    assert ran.err.endswith("wrote times.svg\n")
    drawn = ET.parse(here / "times.svg").getroot()
    circles = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in drawn.iter("{http://www.w3.org/2000/svg}circle")]
    assert len(circles) == 4
    assert len({x for x, _ in circles}) == 2
    assert {"add", "peer.off", "300"} <= {t.text for t in drawn.iter("{http://www.w3.org/2000/svg}text")}
    alone = timed("add", *XY, "n=2", "d=1")
    assert alone.out.split()[:3] == ["n", "d", "add"]


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_other_libraries(timed: Cli, here: Path, library: str) -> None:
    pytest.importorskip(library)
    text = f"import {library}\ndef add(x, y):\n    assert '{library}' in type(x).__module__\n    return x + y\n"
    (here / "peer.py").write_text(text)
    found = rows(timed("add", *XY, "n=2", "d=3", "--against", "peer.py", "--arrays", library, "--format", "json"))
    assert found[0]["error"] == 0


REFUSED = {
    "no file": (["add", "--against", "nothing.py"], "AX0408", "no such file"),
    "no module": (["add", "--against", "model.axon"], "AX0513", "no module of Python"),
    "no function": (["add", "--against", "peer.py:adds"], "AX0513", "did you mean `add`?"),
    "it fails": (["add", "--against", "peer.py:wrong"], "AX0513", "ValueError: matmul"),
    "another shape": (["add", "--against", "peer.py:flat"], "AX0513", "of shape [3, 4], and of `peer.flat` of shape [12]"),
    "another structure": (["add", "--against", "peer.py:both_"], "AX0513", "`peer.py` has no function"),
    "twice": (["add", "n=3"], "AX0508", "`n` is given twice"),
    "no size": (["add", "m=3"], "AX0505", "has no parameter `m`"),
    "not this picture": (["add", "--plot", "times.png"], "AX0508", ".svg"),
    "a value": (["half"], "AX0507", "is a value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(timed: Cli, case: str) -> None:
    (name, *rest), code, words = REFUSED[case]
    given = ["x=randn(f32[n, 4])", "y=randn(f32[n, 4])", "n=3"] if name == "add" else []
    ran = timed(name, *given, *rest)
    assert (ran.status, code in ran.out, words in ran.out) == (1, True, True), ran.out


def test_without_a_gpu(timed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")

    def missing(device: int = 0) -> None:
        raise Missing("a driver")

    monkeypatch.setattr(needs, "gpu", missing)
    ran = timed("add", "x=randn(f32[3, 4])", "y=randn(f32[3, 4])", "--target", "cuda")
    assert (ran.status, "AX0604" in ran.out, "AX0001" in ran.out) == (1, True, False), ran.out


def test_a_peer_that_does_not_load(timed: Cli, here: Path) -> None:
    for text, words in (("def add(:", "SyntaxError"), ("1 / 0", "ZeroDivisionError: division by zero, at peer.py:1")):
        (here / "peer.py").write_text(text)
        ran = timed("add", "x=randn(f32[3, 4])", "y=randn(f32[3, 4])", "--against", "peer.py")
        assert (ran.status, "AX0513" in ran.out, words in ran.out) == (1, True, True), ran.out


def test_what_does_not_fit_is_told_before_anything_is_timed(timed: Cli) -> None:
    began = time.perf_counter()
    ran = timed("add", "x=randn(f32[n, 2])", "y=randn(f32[3, 2])", "n=3,4", "--seconds", "60")
    assert "AX0501" in ran.out
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize(
    ("ours", "peers", "error"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 4.0]), 0.5),
        (np.array([1.0, np.nan, np.inf]), np.array([1.0, np.nan, np.inf]), 0.0),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), np.inf),
        (np.array([0.0, 3.0]), np.array([0.0, 0.0]), 3.0),
        ({"a": np.ones(2), "b": (1.0, 2)}, {"b": [1.0, 2], "a": np.ones(2)}, 0.0),
        (np.zeros((0, 3)), np.zeros((0, 3)), 0.0),
        (7, np.int32(8), 1 / 8),
    ],
)
def test_error(ours: Any, peers: Any, error: float) -> None:
    assert peer.error_between(ours, peers, "peer.f") == error


def test_calls_take_turns() -> None:
    """Both are called in every turn, and who is first changes; a sample of a quick call is the mean of many."""
    order: list[str] = []

    def call(name: str) -> Callable[[], None]:
        return lambda: (order.append(name), time.sleep(2e-3))[1]

    timed = list(bench.samples([("a", call("a")), ("b", call("b"))], 0.05))
    assert [t.name for t in timed] == ["a", "b"]
    assert len(timed[0].samples) == len(timed[1].samples) >= bench.FEWEST
    assert all(t.median >= 2e-3 for t in timed)
    assert "".join(order[8:16]) == "abbaabba", "after what is not timed"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.0, "1.00 s"), (83.2, "83.2 s"), (0.0123, "12.3 ms"), (4.567e-6, "4.57 µs"), (9.996e-4, "1000 µs"), (5e-9, "5.00 ns")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert timings.seconds_of(seconds) == text
