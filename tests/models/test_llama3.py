"""Llama 3 agrees with complex rotations, PyTorch's RMSNorm and its grouped attention."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.models import weights as W  # noqa: E402


def rotated(x: Tensor, theta: float) -> Tensor:
    """x : [batch, heads, length, features], whose neighbouring features are complex numbers."""
    length, features = x.shape[-2:]
    frequencies = 1.0 / theta ** (torch.arange(0, features, 2, dtype=torch.float64) / features)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    turns = torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turns).flatten(-2)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, features: int, theta: float) -> None:
        super().__init__()
        self.features, self.theta = features, theta
        self.wq = nn.Linear(width, heads * features, bias=False)
        self.wk = nn.Linear(width, groups * features, bias=False)
        self.wv = nn.Linear(width, groups * features, bias=False)
        self.wo = nn.Linear(heads * features, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (w(x).unflatten(-1, (-1, self.features)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = rotated(q, self.theta), rotated(k, self.theta)
        means = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(means.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w3 = nn.Linear(width, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, width: int, attention: Attention, feed_forward: nn.Module) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm, self.ffn_norm = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary: int, width: int, blocks: list[Block]) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(blocks)
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def matrix(layer: nn.Linear) -> Any:
    return W.array(layer.weight.T)


def attention(m: Attention) -> dict[str, Any]:
    return {"q": matrix(m.wq), "k": matrix(m.wk), "v": matrix(m.wv), "out": matrix(m.wo)}


def feed_forward(m: FeedForward) -> dict[str, Any]:
    return {"gate": matrix(m.w1), "up": matrix(m.w3), "down": matrix(m.w2)}


def decoder(m: Decoder, blocks: Any) -> dict[str, Any]:
    return {"tokens": W.array(m.tok_embeddings.weight), "blocks": blocks, "norm": W.array(m.norm.weight), "out": matrix(m.output)}


def record(m: Decoder) -> dict[str, Any]:
    return decoder(
        m,
        W.stack(
            {
                "norm1": W.array(b.attention_norm.weight),
                "attention": attention(b.attention),
                "norm2": W.array(b.ffn_norm.weight),
                "feed_forward": feed_forward(b.feed_forward),
            }
            for b in m.layers
        ),
    )


@pytest.mark.parametrize(("heads", "groups", "length"), [(6, 2, 7), (4, 4, 1), (4, 1, 5)])
def test_logits(heads: int, groups: int, length: int) -> None:
    blocks = [Block(12, Attention(12, heads, groups, 6, 500000.0), FeedForward(12, 20)) for _ in range(2)]
    m = W.randomized(Decoder(11, 12, blocks))
    ids = W.ids(11, 2, length)
    W.agree(W.model("llama3").logits[heads, groups], (record(m), ids), m(torch.from_numpy(ids)))
