"""Mamba, whose states are scanned, agrees with the recurrence in PyTorch, one position after the other."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.models import weights as W  # noqa: E402


class Block(nn.Module):
    def __init__(self, width: int, inner: int, state: int, rank: int, window: int) -> None:
        super().__init__()
        self.state, self.rank = state, rank
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, window, groups=inner, padding=window - 1)
        self.x_proj = nn.Linear(inner, rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.A_log = nn.Parameter(torch.empty(inner, state))
        self.D = nn.Parameter(torch.empty(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        x, z = self.in_proj(self.norm(hidden)).chunk(2, dim=-1)
        x = F.silu(self.conv1d(x.mT)[..., : hidden.shape[1]]).mT
        dt, B, C = self.x_proj(x).split([self.rank, self.state, self.state], dim=-1)
        y = self.recurrence(x, F.softplus(self.dt_proj(dt)), B, C)
        return hidden + self.out_proj(y * F.silu(z))

    def recurrence(self, x: Tensor, dt: Tensor, B: Tensor, C: Tensor) -> Tensor:
        A = -self.A_log.exp()
        h = x.new_zeros(*x[:, 0].shape, self.state)
        out = []
        for t in range(x.shape[1]):
            h = torch.einsum("be,en->ben", dt[:, t], A).exp() * h + torch.einsum("be,bn,be->ben", dt[:, t], B[:, t], x[:, t])
            out.append(torch.einsum("ben,bn->be", h, C[:, t]) + self.D * x[:, t])
        return torch.stack(out, dim=1)


class Mamba(nn.Module):
    def __init__(self, vocabulary: int, layers: int, width: int, **sizes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, **sizes) for _ in range(layers))
        self.norm_f = nn.RMSNorm(width, eps=1e-5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm_f(x), self.embedding.weight)


def block(m: Block) -> dict[str, Any]:
    return {
        "norm": W.array(m.norm.weight),
        "up": W.array(m.in_proj.weight.T),
        "conv": {"k": W.array(m.conv1d.weight[:, 0]), "b": W.array(m.conv1d.bias)},
        "ssm": {
            "select": W.array(m.x_proj.weight.T),
            "step": W.linear(m.dt_proj),
            "log_a": W.array(m.A_log),
            "skip": W.array(m.D),
        },
        "down": W.array(m.out_proj.weight.T),
    }


def record(m: Mamba) -> dict[str, Any]:
    blocks = W.stack(block(layer) for layer in m.layers)
    return {"tokens": W.array(m.embedding.weight), "blocks": blocks, "norm": W.array(m.norm_f.weight)}


@pytest.mark.parametrize("length", [1, 2, 17])
def test_logits(length: int) -> None:
    m = W.randomized(Mamba(11, 3, 8, inner=16, state=5, rank=3, window=4))
    ids = W.ids(11, 2, length)
    W.agree(W.model("mamba").logits, (record(m), ids), m(torch.from_numpy(ids)))
