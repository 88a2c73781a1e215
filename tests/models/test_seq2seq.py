"""The LSTM encoder and decoder agree with PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from tests.models import weights as W  # noqa: E402


class Seq2Seq(nn.Module):
    def __init__(self, source: int, target: int, layers: int, width: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(source, width), nn.Embedding(target, width)
        self.encoder = nn.LSTM(width, width, layers, batch_first=True)
        self.decoder = nn.LSTM(width, width, layers, batch_first=True)
        self.out = nn.Linear(width, target)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        _, state = self.encoder(self.source(source.flip(1)))
        return self.out(self.decoder(self.target(target), state)[0])

    def translate(self, start: int, source: Tensor, length: int) -> Tensor:
        """Every prefix anew."""
        words = torch.full((len(source), 1), start)
        for _ in range(length):
            words = torch.cat([words, self(source, words)[:, -1:].argmax(-1)], dim=1)
        return words[:, 1:]


def lstm(m: nn.LSTM) -> dict[str, Any]:
    return W.stack(
        {
            "input": W.array(getattr(m, f"weight_ih_l{i}").unflatten(0, (4, -1)).permute(2, 0, 1)),
            "state": W.array(getattr(m, f"weight_hh_l{i}").unflatten(0, (4, -1)).permute(2, 0, 1)),
            "b": W.array((getattr(m, f"bias_ih_l{i}") + getattr(m, f"bias_hh_l{i}")).unflatten(0, (4, -1))),
        }
        for i in range(m.num_layers)
    )


def record(m: Seq2Seq) -> dict[str, Any]:
    return {
        "source": W.array(m.source.weight),
        "encoder": lstm(m.encoder),
        "target": W.array(m.target.weight),
        "decoder": lstm(m.decoder),
        "out": W.linear(m.out),
    }


@pytest.mark.parametrize(("layers", "length"), [(4, 7), (1, 1), (2, 3)])
def test_logits(layers: int, length: int) -> None:
    m = W.randomized(Seq2Seq(11, 9, layers, 6))
    source, target = W.ids(11, 3, length), W.ids(9, 3, 5)
    wanted = m(torch.from_numpy(source), torch.from_numpy(target))
    W.agree(W.model("seq2seq").logits, (record(m), source, target), wanted)


def test_translate() -> None:
    m = W.randomized(Seq2Seq(11, 9, 2, 6))
    for weight in m.parameters():
        weight.data *= 4.0  # larger ones forget less
    source = W.ids(11, 5, 4)
    wanted = m.translate(0, torch.from_numpy(source), 8).numpy()
    for target in W.TARGETS:
        np.testing.assert_array_equal(W.model("seq2seq").translate[8](record(m), 0, source, target=target), wanted)
    assert len({tuple(words) for words in wanted}) > 1  # or nothing would depend on the source
