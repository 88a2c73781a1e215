"""All devices in one process: a function of whole arguments, in their library, and what it refuses."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import axon

TEXT = "fun f (x : f32[n]) (s : f32) = for i => s * x[i] * x[i] - (sum j => x[j])"
X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def f() -> Any:
    return axon.shard(axon.compile(TEXT).f, {"a": 2}, {"n": "a"})


def test_arrays_of_numpy(f: Any) -> None:
    np.testing.assert_array_equal(f(X, 3.0), 3 * X * X - 6)
    np.testing.assert_array_equal(f(X, s=3.0), 3 * X * X - 6)


def test_calls_of_many_sizes_have_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3, 4 and 5 elements on a device that of 4; of 6 another. Borders of 2 are no plan for blocks of 1."""
    from axon.host.devices import forms

    asked = []
    plan = forms.shard
    monkeypatch.setattr(forms, "shard", lambda *given, **more: asked.append(given) or plan(*given, **more))
    m = axon.compile(TEXT + "\nfun g (x : f32[n]) = for i < n => x[i + 2 | 0.0]")
    f, g = (axon.shard(m[name], {"a": 2}, {"n": "a"}) for name in "fg")
    for n in (8, 6, 10, 8):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(f(x, 3.0), 3 * x * x - x.sum())
    assert len(asked) == 1
    f(np.ones(12, np.float32), 3.0)
    assert len(asked) == 2
    for n in (4, 2):
        np.testing.assert_array_equal(g(np.arange(n, dtype=np.float32)), [*range(2, n), 0, 0])


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
def test_tensors_of_pytorch_and_their_derivatives(f: Any) -> None:
    import torch

    x = torch.tensor(X, requires_grad=True)
    made = f(x, 3.0)
    assert isinstance(made, torch.Tensor)
    made.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 6 * X - 4)


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
def test_derivatives_of_other_calls_are_their_own() -> None:
    """Each mesh has those of its own functions, and the function without a mesh has its: 3 elements are no two parts."""
    import torch

    m = axon.compile(TEXT)
    for call, count in ((axon.shard(m.f, {"a": 2}, {"n": "a"}), 4), (m.f, 3), (axon.shard(m.f, {"a": 3}, {"n": "a"}), 3)):
        x = torch.arange(count, dtype=torch.float32, requires_grad=True)
        call(x, 3.0).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), 6 * np.arange(count) - count)


@pytest.mark.parametrize(
    ("mesh", "split", "said"),
    [
        ({"a": 2}, None, "takes axes by size"),
        ({"a": 2}, ["n"], "takes axes by size"),
        ({"a": 2}, {"n": ("a", "b")}, "one axis for each size"),
        ({"a": 2}, {3: "a"}, "one axis for each size"),
        ({"a": True}, {"n": "a"}, "have sizes from 1 on"),
        ({"a": 0}, {"n": "a"}, "have sizes from 1 on"),
        ({}, {"n": "a"}, "has one axis at least"),
    ],
)
def test_what_is_no_mesh_and_no_split(mesh: Any, split: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        axon.shard(axon.compile(TEXT).f, mesh, split)
