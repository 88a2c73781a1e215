"""U-Net agrees with PyTorch's convolutions, transposed convolutions and pooling, and its sizes are those of the paper."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import axon  # noqa: E402
from tests.models import weights as W  # noqa: E402


class Double(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, 3), nn.ReLU(), nn.Conv2d(outputs, outputs, 3), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, channels: int, width: int, classes: int) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(5)]
        self.down = nn.ModuleList(Double(i, o) for i, o in pairwise([channels, *widths]))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in widths[:4])
        self.up = nn.ModuleList(Double(2 * w, w) for w in widths[:4])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for double in self.down[:4]:
            skips.append(double(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.down[4](x)
        for widen, double, skip in reversed(list(zip(self.widen, self.up, skips, strict=True))):
            x = widen(x)
            top, left = ((skip.shape[axis] - x.shape[axis]) // 2 for axis in (2, 3))
            x = double(torch.cat([skip[:, :, top : top + x.shape[2], left : left + x.shape[3]], x], dim=1))
        return self.head(x)


def double(m: Double) -> dict[str, Any]:
    return {"first": W.conv(m[0]), "second": W.conv(m[2])}


def record(m: UNet) -> dict[str, Any]:
    names = ["down1", "down2", "down3", "down4", "bottom"]
    return {
        **{name: double(d) for name, d in zip(names, m.down, strict=True)},
        **{f"up{i}": {"widen": W.conv(w), "double": double(d)} for i, (w, d) in enumerate(zip(m.widen, m.up, strict=True), 1)},
        "head": W.conv(m.head),
    }


@pytest.mark.parametrize("size", [(188, 204), (188, 188)])
def test_logits(size: tuple[int, int]) -> None:
    m = W.randomized(UNet(1, 2, 3))
    images = W.values(1, 1, *size)
    W.agree(W.model("unet").logits, (record(m), images), m(torch.from_numpy(images).double()))


@pytest.mark.parametrize(
    ("size", "nearest"),
    [((189, 188), "fit are 188 and 204"), ((172, 188), "fits is 188 for dimension 3 of `images`"), ((100, 188), "fits is 188")],
)
def test_an_image_of_another_size(size: tuple[int, int], nearest: str) -> None:
    """PyTorch would drop rows and columns, or fail deep inside."""
    with pytest.raises(axon.ShapeError, match=nearest):
        W.model("unet").logits(record(W.randomized(UNet(1, 2, 3))), W.values(1, 1, *size))
