"""A call against the roofs of a machine: what it must take at least, where it is drawn, and what is said."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import axon
from axon.tools.view import roofline
from axon.tools.view.roofline import Machine, drawn

SVG = "{http://www.w3.org/2000/svg}"
ROOFS = Machine(moved=1e10, flops=1e12)


@pytest.mark.parametrize(("flops", "moved", "least"), [(1e9, 1e9, 0.1), (1e12, 1e9, 1.0), (1e11, 1e9, 0.1), (0.0, 1e8, 0.01)])
def test_what_a_call_takes_at_least(flops: float, moved: float, least: float) -> None:
    assert ROOFS.least(flops, moved) == pytest.approx(least)


@pytest.mark.parametrize(("flops", "moved"), [(1e9, 1e9), (1e13, 1e9)])
def test_the_least_time_lies_on_the_roof(flops: float, moved: float) -> None:
    """Below the slope or the level roof; the measured point lies below it, as far as the call takes longer."""
    tree = ET.fromstring(drawn(ROOFS, flops, moved, 10 * ROOFS.least(flops, moved)))
    on, below = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in tree.iter(f"{SVG}circle")]
    roof = [
        tuple(float(e.attrib[k]) for k in ("x1", "y1", "x2", "y2")) for e in tree.iter(f"{SVG}line") if "stroke-width" in e.attrib
    ]
    assert len(roof) == 2
    a, b, c, d = next(r for r in roof if r[0] - 0.1 <= on[0] <= r[2] + 0.1)
    assert on[1] == pytest.approx(b + (d - b) * (on[0] - a) / (c - a), abs=0.3)
    assert below[0] == on[0]
    assert below[1] > on[1]


def test_a_measured_page(here: Path, axon_cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "SECONDS", 0.02)
    monkeypatch.setattr(roofline, "machine", lambda name: {"float32": ROOFS, "float64": Machine(1e10, 5e11)}[name])
    (here / "a.axon").write_text("fun f (x : 'a[n, n]) = x @ x\nfun g (x : 'a[n]) = for i => x[n - 1 - i]\n")
    assert axon_cli("view", "a.axon:f", "x=randn(f64[300, 300])", "--measure", "--target", "cpu").status == 0
    text = (here / "f.html").read_text()
    assert "500 GFLOP/s" in text
    least = re.search(r"A call takes [\d.]+ .?s here, [\d.]+ times the ([\d.]+ .s) of", text)
    assert least is not None
    assert least[1] == "144 µs"  # 2 · 300² · 8 B at 10 GB/s: what is both factors, read once, and the result
    assert axon_cli("view", "a.axon:g", "x=randn(f32[300])", "--measure", "--target", "cpu").status == 0
    assert "Roofline of the call" not in (here / "g.html").read_text(), "it has no operations of floats"
    assert "Roofline" not in (here / "f.html").read_text().replace("Roofline of the call", "")
    monkeypatch.setattr(roofline, "put", lambda value, arrays, target: value)  # a GPU that is the processor
    monkeypatch.setattr(roofline, "Function", lambda session, callee, sizes: lambda x, target: made(x, target="cpu"))
    monkeypatch.setattr(roofline, "gpu", lambda name: {"float16": Machine(1e11, 5e13)}[name])
    made = axon.load("a.axon").f
    assert axon_cli("view", "a.axon:f", "x=randn(f16[300, 300])", "--measure", "--target", "cuda").status == 0
    text = (here / "f.html").read_text()
    assert "Time on this machine's GPU" in text
    assert "50 TFLOP/s" in text
    told = axon_cli("view", "a.axon:f", "--measure")
    assert (told.status, "AX0505" in told.out) == (1, True)
