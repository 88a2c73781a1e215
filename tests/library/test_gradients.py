"""Derivatives of the library: smooth functions at 0, where they are put together from pieces, and every function at random points,
in reverse and forward mode and by differences of the function itself."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import axon
from axon.base.data import dataclass, fields, replace
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.checker.loader import FileLoader
from axon.checker.module import CheckedModule
from axon.compiler import check, lower
from axon.core import ir
from axon.core.ir import Program
from tests import ROOT
from tests.core.gradients.random_programs import agree, slopes
from tests.sample import drawn

SMOOTH = [
    "expm1", "log1p", "sigmoid", "softplus", "log_sigmoid", "silu", "gelu", "gelu_tanh", "mish", "softsign", "elu 1.0", "celu 1.0",
    "binary_cross_entropies 0.3", "hard_swish", "hard_sigmoid", "hard_tanh",
]  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_at_0(name: str) -> None:
    call = f"nn.{name} x" if "cross" not in name else "nn.binary_cross_entropies x 0.3"
    m = axon.compile(f"import nn\nfun f (x : f64) = {call}\nfun g (x : f64) = grad f x\nfun j (x : f64) = (jvp f x 1.0).2")
    for x in (0.0, -1.3, 0.7, 2.0):
        if name == "log1p" and x <= -1:
            continue
        difference = (m.f(x + 1e-6) - m.f(x - 1e-6)) / 2e-6
        assert m.g(x) == pytest.approx(difference, abs=2e-6)
        assert m.j(x) == pytest.approx(difference, abs=2e-6)


def test_kinks_as_pytorch_has_them() -> None:
    m = axon.compile("import nn\n" + "\n".join(f"fun {n} (x : f64) = grad nn.{n} x" for n in ("relu", "relu6", "hard_tanh")))
    assert [m.relu(0.0), m.relu6(0.0), m.relu6(6.0), m.hard_tanh(1.0), m.hard_tanh(-1.0)] == [0, 0, 0, 0, 0]


# ── every function ──────────────────────────────────────────────────────────────────────────────────────────────────────

NARROW = {Element.F32, Element.F16, Element.BF16}


@dataclass(frozen=True)
class _Sized:
    """A program whose floats are f64, with inputs of sizes that its contract takes."""

    program: Program
    inputs: list[Any]
    explicit: list[int]


def widened(part: Any) -> Any:
    """A part of a program with f64 for every float type."""
    if isinstance(part, Element):
        return Element.F64 if part in NARROW else part
    if isinstance(part, tuple):
        return tuple(map(widened, part))
    if type(part).__module__ == ir.__name__:
        return replace(part, **{f.name: widened(getattr(part, f.name)) for f in fields(part) if f.name not in ("span", "checked")})
    return part


def sized(program: Program, chance: np.random.Generator) -> _Sized | None:
    """Small sizes, found by trying; None if none were."""
    symbols = sorted({*program.explicit}.union(*(d.variables for v in program.inputs for d in v.shape)), key=lambda s: s.id)
    for _ in range(3_000):
        sizes = {s: int(chance.choice([1, 2, 3, 4, 6, 8])) for s in symbols}
        shapes = [tuple(d.evaluate(sizes) for d in v.shape) for v in program.inputs]
        if min((min(s, default=1) for s in shapes), default=1) < 0 or max(map(prod, shapes), default=0) > 2_000:
            continue
        if all(f.relation.holds(sizes) for f in program.contract.facts):
            inputs = [value(v.element, s, chance) for v, s in zip(program.inputs, shapes, strict=True)]
            return _Sized(program, inputs, [sizes[s] for s in program.explicit])
    return None


def value(element: Element, shape: tuple[int, ...], chance: np.random.Generator) -> Any:
    if element.is_float:
        return chance.normal(size=shape)
    return (chance.random(shape) < 0.6) if element is Element.BOOL else chance.integers(0, 2, shape).astype(element.dtype)


@pytest.mark.parametrize("module", ["nn", "tensor", "linalg", "stats", "image"])
def test_every_function(module: str) -> None:
    checked = check(FileLoader(), str(ROOT / "stdlib" / f"{module}.axon"))
    names = sorted(checked.schemes)
    tried = sum(_agrees(checked, name) for name in names if drawn(f"{module}.{name}", 8))
    assert tried


def _agrees(checked: CheckedModule, name: str) -> bool:
    try:
        program = lower(checked, name, None)
    except AxonError:  # takes or gives a function
        return False
    found = sized(widened(program), np.random.default_rng(sum(map(ord, name))))
    slope = None if found is None else slopes(found.program, found.inputs, found.explicit)
    if slope is None:
        return False
    agree(slope)
    return True
