"""Whisper's encoder agrees with PyTorch's convolutions and encoder layers, of which the keys have no bias."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.models import weights as W  # noqa: E402


class Encoder(nn.Module):
    def __init__(self, mels: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.ln_post = nn.LayerNorm(width)

    def forward(self, mel: Tensor) -> Tensor:
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).mT
        length, width = x.shape[1:]
        frequencies = torch.logspace(0, -4, width // 2, dtype=x.dtype)
        angles = torch.outer(torch.arange(length, dtype=x.dtype), frequencies)
        x = x + torch.cat([angles.sin(), angles.cos()], dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.ln_post(x)


def block(layer: nn.TransformerEncoderLayer) -> dict[str, Any]:
    whole = W.encoder_layer(layer)
    projection = whole["attention"]["qkv"]
    (q, k, v), (q_bias, _, v_bias) = np.split(projection["w"], 3, axis=1), np.split(projection["b"], 3)
    return {
        **whole,
        "attention": {"q": {"w": q, "b": q_bias}, "k": k, "v": {"w": v, "b": v_bias}, "out": whole["attention"]["out"]},
    }


def record(m: Encoder) -> dict[str, Any]:
    return {
        "conv1": W.conv(m.conv1),
        "conv2": W.conv(m.conv2),
        "blocks": W.stack(block(layer) for layer in m.layers),
        "norm": W.norm(m.ln_post),
    }


@pytest.mark.parametrize("length", [1, 12, 13])
def test_encode(length: int) -> None:
    m = W.randomized(Encoder(mels=6, layers=2, width=12, heads=3))
    for layer in m.layers:
        layer.self_attn.in_proj_bias.data[12:24] = 0.0
    spectra = W.values(2, 6, length)
    W.agree(W.model("whisper").encode[3], (record(m), spectra), m(torch.from_numpy(spectra).double()))
