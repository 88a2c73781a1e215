"""The Vision Transformer agrees with PyTorch's convolution and encoder layers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import axon  # noqa: E402
from tests.models import weights as W  # noqa: E402


class ViT(nn.Module):
    def __init__(self, size: tuple[int, int], patch: int, layers: int, width: int, heads: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.pos_embedding = nn.Parameter(torch.empty(1, 1 + (size[0] // patch) * (size[1] // patch), width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, hidden, 0.0, "gelu", 1e-6, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.ln = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.conv_proj(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(images), -1, -1), patches], dim=1) + self.pos_embedding
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x)[:, 0])


def record(m: ViT) -> dict[str, Any]:
    return {
        "patches": W.conv(m.conv_proj),
        "class": W.array(m.class_token[0, 0]),
        "positions": W.array(m.pos_embedding[0]),
        "blocks": W.stack(W.encoder_layer(layer) for layer in m.layers),
        "norm": W.norm(m.ln),
        "head": W.linear(m.head),
    }


@pytest.mark.parametrize(("size", "patch"), [((8, 8), 4), ((6, 9), 3), ((5, 5), 5)])
def test_logits(size: tuple[int, int], patch: int) -> None:
    m = W.randomized(ViT(size, patch, layers=2, width=8, heads=2, hidden=20, classes=5))
    images = W.values(2, 3, *size)
    W.agree(W.model("vit").logits[2], (record(m), images), m(torch.from_numpy(images).double()))


@pytest.mark.parametrize(
    ("columns", "heads", "message"),
    [
        (9, 2, "the nearest that fits is 8 for dimension 4 of `images`"),  # the patch does not divide it
        (12, 2, "the nearest that fits is 8 for dimension 4 of `images`"),  # there are no positions for it
        (8, 3, "the nearest that fit are heads = 2 and heads = 4"),
    ],
)
def test_what_does_not_fit_the_weights(columns: int, heads: int, message: str) -> None:
    """Only what one argument alone can mend is proposed: nobody changes the size of patches in all weights."""
    m = W.randomized(ViT((8, 8), 4, layers=1, width=8, heads=2, hidden=20, classes=5))
    with pytest.raises(axon.ShapeError, match=message) as caught:
        W.model("vit").logits[heads](record(m), W.values(2, 3, 8, columns))
    assert str(caught.value).count("the nearest") == 1
