"""Weights of PyTorch modules as records of Axon, and how closely the two must agree."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import axon
from tests import ROOT

MODELS = ROOT / "examples" / "models"

# Of the largest element. PyTorch computes in float64, from the same float32 weights: this is what Axon's f32 loses.
TOLERANCE = 5e-6

# Compiling all of them takes a minute.
TARGETS = ("interpret", "cpu") if os.environ.get("AXON_SOAK") else ("interpret",)


@cache
def model(name: str) -> axon.Module:
    return axon.load(MODELS / f"{name}.axon")


def randomized(module: nn.Module) -> nn.Module:
    """The module in float64 with weights that float32 can hold: none is 0 or 1, so that each one matters."""
    generator = torch.Generator().manual_seed(0)
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, tensor in state.items():
        if tensor.is_floating_point():
            noise = torch.randn(tensor.shape, generator=generator)
            positive = name.endswith("running_var")
            centre = 1.0 if name.endswith("norm.weight") else 0.0
            tensor.data = 0.5 + noise.abs() if positive else centre + 0.3 * noise
    return module.double().eval()


def ids(count: int, *shape: int) -> Any:
    """Random integers below `count`."""
    return np.random.default_rng(1).integers(0, count, shape).astype(np.int32)


def values(*shape: int) -> Any:
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


def array(tensor: Tensor) -> Any:
    return tensor.detach().float().numpy()


def linear(layer: nn.Linear) -> dict[str, Any]:
    """nn.linear[d, k]: PyTorch keeps the matrix as [k, d]."""
    return {"w": array(layer.weight.T), "b": array(layer.bias)}


def norm(layer: nn.LayerNorm) -> dict[str, Any]:
    return {"scale": array(layer.weight), "shift": array(layer.bias)}


def conv(layer: nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d) -> dict[str, Any]:
    return {"k": array(layer.weight), "b": array(layer.bias)}


def encoder_layer(layer: nn.TransformerEncoderLayer) -> dict[str, Any]:
    """A block whose attention has one projection for queries, keys and values."""
    projection = {"w": array(layer.self_attn.in_proj_weight.T), "b": array(layer.self_attn.in_proj_bias)}
    return {
        "norm1": norm(layer.norm1),
        "attention": {"qkv": projection, "out": linear(layer.self_attn.out_proj)},
        "norm2": norm(layer.norm2),
        "mlp": {"up": linear(layer.linear1), "down": linear(layer.linear2)},
    }


def stack(records: Iterable[Any]) -> Any:
    """Records of equal fields as one record of stacked tensors."""
    items = list(records)
    if isinstance(items[0], dict):
        return {name: stack(item[name] for item in items) for name in items[0]}
    return np.stack(items)


def agree(function: axon.Function, arguments: tuple[Any, ...], wanted: Tensor) -> None:
    expected = wanted.detach().numpy()
    assert np.isfinite(expected).all()
    for target in TARGETS:
        got = function(*arguments, target=target)
        assert got.shape == expected.shape
        error = np.abs(got.astype(np.float64) - expected).max() / np.abs(expected).max()
        assert error <= TOLERANCE, f"{target}: {error:.2e} of the largest element"
