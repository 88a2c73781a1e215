"""GPT-2 agrees with a stack of PyTorch's own encoder layers under a causal mask."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.models import weights as W  # noqa: E402


class GPT2(nn.Module):
    def __init__(self, vocabulary: int, positions: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        gelu = partial(F.gelu, approximate="tanh")
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, gelu, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        x = self.wte(ids) + self.wpe(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length, dtype=x.dtype)
        for block in self.blocks:
            x = block(x, src_mask=mask)
        return F.linear(self.ln_f(x), self.wte.weight)


def record(m: GPT2) -> dict[str, Any]:
    return {
        "tokens": W.array(m.wte.weight),
        "positions": W.array(m.wpe.weight),
        "blocks": W.stack(W.encoder_layer(b) for b in m.blocks),
        "norm": W.norm(m.ln_f),
    }


@pytest.mark.parametrize(("batch", "length"), [(2, 7), (1, 1), (3, 10)])
def test_logits(batch: int, length: int) -> None:
    m = W.randomized(GPT2(vocabulary=11, positions=10, layers=3, width=12, heads=3))
    ids = W.ids(11, batch, length)
    W.agree(W.model("gpt2").logits[3], (record(m), ids), m(torch.from_numpy(ids)))
