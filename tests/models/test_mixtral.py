"""Mixtral, which computes every expert for every token, agrees with PyTorch code that computes only the chosen ones."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from tests.models import weights as W  # noqa: E402
from tests.models.test_llama3 import Attention, Block, Decoder, FeedForward, attention, decoder, feed_forward, matrix  # noqa: E402


class Mixture(nn.Module):
    def __init__(self, width: int, hidden: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(width, hidden) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        logits, experts = self.gate(tokens).topk(self.chosen)
        weights = logits.softmax(-1)
        out = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            token, place = torch.where(experts == i)
            out.index_add_(0, token, weights[token, place, None] * expert(tokens[token]))
        return out.view_as(x)


def record(m: Decoder) -> dict[str, Any]:
    return decoder(
        m,
        W.stack(
            {
                "norm1": W.array(b.attention_norm.weight),
                "attention": attention(b.attention),
                "norm2": W.array(b.ffn_norm.weight),
                "mixture": {
                    "router": matrix(b.feed_forward.gate),
                    "experts": W.stack(feed_forward(e) for e in b.feed_forward.experts),
                },
            }
            for b in m.layers
        ),
    )


@pytest.mark.parametrize(("experts", "chosen"), [(4, 2), (5, 1), (3, 3)])
def test_logits(experts: int, chosen: int) -> None:
    blocks = [Block(12, Attention(12, 4, 2, 6, 1e6), Mixture(12, 20, experts, chosen)) for _ in range(2)]
    m = W.randomized(Decoder(11, 12, blocks))
    ids = W.ids(11, 2, 7)
    W.agree(W.model("mixtral").logits[4, 2], (chosen, record(m), ids), m(torch.from_numpy(ids)))


def test_equal_logits_still_choose_k_experts() -> None:
    gates = W.model("mixtral").gates(2, W.values(1) * 0 + [[1.0, 3.0, 3.0, 3.0]])
    assert gates.tolist() == [[0.0, 0.5, 0.5, 0.0]]
