"""Models of PyTorch's libraries and their exports. `python -m tests.tools.onnx.export [NAME …]` writes the files of `models/`.

It needs torch, torchvision, transformers, onnxscript and onnxruntime, as `test_exports.py` does, which exports them anew;
`test_models.py` does without, and reads what was written. Every model is small, two layers and narrow, but as its library builds
it. What is expected is kept for two choices of sizes, of which only the first is the one that was exported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn
from torch.export import Dim

from tests.tools.onnx.filling import FOLDER, SIZES, VOCABULARY, fill, inputs, strip

# torchvision built for CUDA beside a torch that is not lacks its own operators, which none of these models uses.
if not torch.cuda.is_available():
    _LIBRARY = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

BATCH, SEQUENCE = Dim("batch"), Dim("sequence", max=32)


class Exported:
    """A model, an example of its arguments, and its dimensions that are open."""

    def __init__(self, model: nn.Module, example: dict[str, Any], dims: dict[str, Any]) -> None:
        self.model, self.example, self.dims = model.eval(), example, dims


def tokens() -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (2, 7))


def resnet50() -> Exported:
    from torchvision.models.resnet import Bottleneck, ResNet

    model = ResNet(Bottleneck, [3, 4, 6, 3], num_classes=10, width_per_group=8)
    return Exported(model, {"x": torch.randn(2, 3, 32, 32)}, {"x": {0: BATCH}})


def gpt2() -> Exported:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=VOCABULARY, n_positions=32, n_embd=24, n_layer=2, n_head=3, use_cache=False)
    return Exported(GPT2LMHeadModel(config), {"input_ids": tokens()}, {"input_ids": {0: BATCH, 1: SEQUENCE}})


def bert() -> Exported:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=32,
    )
    example = {"input_ids": tokens(), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    return Exported(BertModel(config), example, {name: {0: BATCH, 1: SEQUENCE} for name in example})


def vit() -> Exported:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, image_size=32, patch_size=8, num_labels=10
    )
    example = {"pixel_values": torch.randn(2, 3, 32, 32)}
    return Exported(ViTForImageClassification(config), example, {"pixel_values": {0: BATCH}})


def vit_b16() -> Exported:
    """torchvision's, whose attention has one matrix for queries, keys and values, and the batch in the middle."""
    from torchvision.models.vision_transformer import VisionTransformer

    model = VisionTransformer(32, 8, 2, 3, 24, 40, num_classes=10)
    return Exported(model, {"x": torch.randn(2, 3, 32, 32)}, {"x": {0: BATCH}})


def whisper() -> Exported:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=16, d_model=24, encoder_layers=2, encoder_attention_heads=3, encoder_ffn_dim=40,
        decoder_layers=1, decoder_attention_heads=3, decoder_ffn_dim=40, max_source_positions=20, max_target_positions=16,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
    )  # fmt: skip
    example = {"input_features": torch.randn(2, 16, 40)}
    return Exported(WhisperModel(config).encoder, example, {"input_features": {0: BATCH}})


def t5() -> Exported:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=VOCABULARY, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3, use_cache=False, attn_implementation="eager"
    )
    return Exported(T5EncoderModel(config), {"input_ids": tokens()}, {"input_ids": {0: BATCH, 1: SEQUENCE}})


def llama() -> Exported:
    """Rotary positions, RMS normalization, gated layers, and one head of keys and values for two of queries."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=40, num_hidden_layers=2, max_position_embeddings=32,
        num_attention_heads=4, num_key_value_heads=2, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    return Exported(LlamaForCausalLM(config), {"input_ids": tokens()}, {"input_ids": {0: BATCH, 1: SEQUENCE}})


class Classifier(nn.Module):
    """Two layers of LSTM over words, and the classes of the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 12)
        self.lstm = nn.LSTM(12, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.embedding(ids))
        return self.head(states[:, -1])


def lstm() -> Exported:
    return Exported(Classifier(), {"ids": tokens()}, {"ids": {0: BATCH, 1: SEQUENCE}})


def transformer() -> Exported:
    """PyTorch's own, whose cross-attention splits one matrix into that of the queries and those of the keys and values."""
    model = nn.Transformer(24, 3, 2, 2, 40, batch_first=True)
    example = {"src": torch.randn(2, 7, 24), "tgt": torch.randn(2, 5, 24)}
    return Exported(model, example, {"src": {0: BATCH, 1: SEQUENCE}, "tgt": {0: BATCH, 1: Dim("target", max=32)}})


class Conv(nn.Module):
    def __init__(self, c: int, o: int, k: int = 1, s: int = 1) -> None:
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(c, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o), nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn(self.conv(x)))


class Head(nn.Module):
    """The neck and head of YOLO on two scales: features go up and down again, and every pixel has a box and its classes."""

    def __init__(self, c: int = 16, classes: int = 4) -> None:
        super().__init__()
        self.lateral, self.fuse = Conv(2 * c, c), Conv(2 * c, c, 3)
        self.down, self.merge = Conv(c, c, 3, 2), Conv(2 * c, c, 3)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.box = nn.ModuleList(nn.Conv2d(c, 4, 1) for _ in range(2))
        self.cls = nn.ModuleList(nn.Conv2d(c, classes, 1) for _ in range(2))

    def forward(self, fine: torch.Tensor, coarse: torch.Tensor) -> torch.Tensor:
        top = self.lateral(coarse)
        low = self.fuse(torch.cat([self.up(top), fine], 1))
        high = self.merge(torch.cat([self.down(low), top], 1))
        pairs = zip(self.box, self.cls, (low, high), strict=True)
        return torch.cat([torch.cat([box(x), cls(x).sigmoid()], 1).flatten(2) for box, cls, x in pairs], 2)


def yolo() -> Exported:
    h, w = Dim("h", max=64), Dim("w", max=64)
    example = {"fine": torch.randn(2, 16, 16, 24), "coarse": torch.randn(2, 32, 8, 12)}
    dims = {"fine": {0: BATCH, 2: 2 * h, 3: 2 * w}, "coarse": {0: BATCH, 2: h, 3: w}}
    return Exported(Head(), example, dims)


MODELS: dict[str, Callable[[], Exported]] = {
    model.__name__: model for model in (resnet50, gpt2, bert, vit, vit_b16, whisper, t5, llama, lstm, transformer, yolo)
}


def export(name: str) -> Any:
    """A model with its weights, as ONNX."""
    torch.manual_seed(0)
    exported = MODELS[name]()
    with torch.no_grad():  # the exporter keeps equal tensors once, such as all scales that are 1
        for parameter in exported.model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    program = torch.onnx.export(
        exported.model, (), kwargs=exported.example, dynamic_shapes=exported.dims, dynamo=True, verbose=False
    )
    assert program is not None
    return program.model_proto


def expected(model: Any, given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX Runtime computes; integers of 32 bits are the test's, of 64 the model's."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {k: v.astype(np.int64) if v.dtype == np.int32 else v for k, v in given.items()})


def write(name: str) -> None:
    model = export(name)
    strip(model)
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString())
    whole = fill(onnx.load(FOLDER / f"{name}.onnx"))
    kept = {}
    for n, sizes in enumerate(SIZES[name]):
        kept |= {f"{n}.{k}": v for k, v in enumerate(expected(whole, inputs(whole, sizes)))}
    np.savez_compressed(FOLDER / f"{name}.npz", **kept)
    print(name, len(model.graph.node), "nodes", (FOLDER / f"{name}.onnx").stat().st_size, (FOLDER / f"{name}.npz").stat().st_size)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or MODELS:
        write(chosen)
