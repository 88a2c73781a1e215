"""`axon.nn.Module`: a function as a `torch.nn.Module` whose parameters are a record's fields. PyTorch is imported when it is used.

import axon
model = axon.nn.Module(axon.load("layer.axon").dense, "p", {"d": 8, "k": 3})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axon.host.pytorch.modules import Module

__all__ = ["Module"]


def __getattr__(name: str) -> Any:
    if name != "Module":
        raise AttributeError(f"module 'axon.nn' has no attribute {name!r}")
    from axon.host.module import needing_torch

    with needing_torch("nn.Module"):
        from axon.host.pytorch.modules import Module
    globals()[name] = Module
    return Module


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
