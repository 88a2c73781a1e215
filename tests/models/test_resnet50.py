"""ResNet-50 agrees with PyTorch's convolutions and batch normalizations, in the arrangement of the published weights."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from tests.models import weights as W  # noqa: E402


class Unit(nn.Module):
    def __init__(self, inputs: int, outputs: int, window: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, window, stride, padding=window // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.one = Unit(inputs, planes, 1)
        self.two = Unit(planes, planes, 3, stride)
        self.three = Unit(planes, 4 * planes, 1)
        self.downsample = Unit(inputs, 4 * planes, 1, stride) if stride > 1 or inputs != 4 * planes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return (self.three(self.two(self.one(x).relu()).relu()) + self.downsample(x)).relu()


class ResNet(nn.Module):
    def __init__(self, width: int, depths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.stem = Unit(3, width, 7, 2)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.stages = nn.ModuleList()
        inputs = width
        for i, depth in enumerate(depths):
            planes = width * 2**i
            first = Bottleneck(inputs, planes, stride=2 if i else 1)
            inputs = 4 * planes
            self.stages.append(nn.Sequential(first, *(Bottleneck(inputs, planes) for _ in range(depth - 1))))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.stem(x).relu())
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean(dim=(2, 3)))


def normalized(m: Unit) -> dict[str, Any]:
    norm = {
        "scale": W.array(m.norm.weight),
        "shift": W.array(m.norm.bias),
        "mean": W.array(m.norm.running_mean),
        "variance": W.array(m.norm.running_var),
    }
    return {"k": W.array(m.conv.weight), "norm": norm}


def bottleneck(m: Bottleneck) -> dict[str, Any]:
    return {"reduce": normalized(m.one), "middle": normalized(m.two), "expand": normalized(m.three)}


def stage(m: nn.Sequential) -> dict[str, Any]:
    first, *rest = m
    return {
        "first": bottleneck(first),
        "beside": normalized(first.downsample),
        "rest": W.stack(bottleneck(b) for b in rest),
    }


def record(m: ResNet) -> dict[str, Any]:
    stages = {f"stage{i}": stage(s) for i, s in enumerate(m.stages, 1)}
    return {"stem": normalized(m.stem), **stages, "head": W.linear(m.fc)}


@pytest.mark.parametrize(("depths", "size"), [((2, 3, 2, 2), (33, 40)), ((3, 4, 6, 3), (16, 16))])
def test_logits(depths: tuple[int, ...], size: tuple[int, int]) -> None:
    m = W.randomized(ResNet(4, depths, 5))
    images = W.values(2, 3, *size)
    W.agree(W.model("resnet50").logits, (record(m), images), m(torch.from_numpy(images).double()))
