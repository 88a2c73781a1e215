"""Mistakes that people make in models: each is a small change of an example, and what `axon check` says of it is a golden."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import ROOT
from tests.corpus.goldens import compare, run_axon
from tests.sample import chosen

MODELS = ROOT / "examples" / "models"
GOLDENS = Path(__file__).parent / "mistakes"


class Mistake(NamedTuple):
    model: str
    name: str
    right: str  # occurs once in the example
    wrong: str

    @property
    def golden(self) -> Path:
        return GOLDENS / f"{self.model}_{self.name}.txt"


MISTAKES = [
    Mistake("gpt2", "heads_do_not_divide", "logits {12} p ids", "logits {10} p ids"),
    Mistake("gpt2", "forgotten_transposition", "in for i j k => sum c => y[i, j, c] * p.tokens[k, c] end", "in y @ p.tokens end"),
    Mistake(
        "gpt2",
        "layers_exchanged",
        "nn.dense p.up |> nn.gelu_tanh |> nn.dense p.down",
        "nn.dense p.down |> nn.gelu_tanh |> nn.dense p.up",
    ),
    Mistake("gpt2", "all_positions", "for i, j < s, k => p.tokens", "for i j k => p.tokens"),
    Mistake("gpt2", "two_parts_for_three", "qkv : nn.linear[..l, d, 3 * d]", "qkv : nn.linear[..l, d, 2 * d]"),
    Mistake("gpt2", "positions_of_the_batch", "p.positions[j, k]", "p.positions[i, k]"),
    Mistake("llama3", "queries_for_output", "means @ p.out end", "means @ p.q end"),
    Mistake("llama3", "keys_in_heads_of_queries", "nn.split_heads {g} (x @ p.k)", "nn.split_heads {h} (x @ p.k)"),
    Mistake("llama3", "wrong_axis", "k[b, group, j, c]", "k[b, j, group, c]"),
    Mistake("llama3", "batch_folded_away", "for b i (group, member, c) =>", "for (b, i) (group, member, c) =>"),
    Mistake("llama3", "groups_do_not_divide", "logits {32, 8} p ids", "logits {32, 6} p ids"),
    Mistake("llama3", "values_of_all_heads", "v : f32[..l, d, g * c]", "v : f32[..l, d, h * c]"),
    Mistake("llama3", "dimensions_exchanged", "block {h, g} p.blocks[i] x", "block {g, h} p.blocks[i] x"),
    Mistake("llama3", "heads_and_groups_exchanged", "logits {32, 8} p ids", "logits {8, 32} p ids"),
    Mistake("llama3", "group_of_another", "k[b, group, j, c]", "k[b, member, j, c]"),
    Mistake("mixtral", "count_after_the_weights", "logits {32, 8} 2 p ids", "logits {32, 8} p 2 ids"),
    Mistake("mixtral", "sizes_exchanged", "experts : nn.gated[..l, e, d, f]", "experts : nn.gated[..l, d, e, f]"),
    Mistake("mixtral", "wrong_axis", "expert[i, ..b, j]", "expert[..b, i, j]"),
    Mistake("mixtral", "forgotten_transposition", "router : f32[..l, d, e]", "router : f32[..l, e, d]"),
    Mistake("mixtral", "gate_of_a_feature", "gate[..b, i] * expert", "gate[..b, j] * expert"),
    Mistake("mixtral", "angles_of_all_features", "nn.rope_angles {c / 2}", "nn.rope_angles {c}"),
    Mistake("vit", "class_token_forgotten", "positions : f32[h / r * (w / r) + 1, d]", "positions : f32[h / r * (w / r), d]"),
    Mistake("vit", "patch_does_not_divide", "vit[3, 224, 224, 16,", "vit[3, 224, 224, 15,"),
    Mistake("vit", "image_of_another_size", "f32[b, 3, 224, 224]", "f32[b, 3, 224, 208]"),
    Mistake("vit", "channels_last", "images[b, c, (i, y), (j, x)]", "images[b, (i, y), (j, x), c]"),
    Mistake("vit", "batch_folded_away", "for b (i, j) o =>", "for (b, i, j) o =>"),
    Mistake("whisper", "forgotten_transposition", "frames[i, c, j] + positions", "frames[i, j, c] + positions"),
    Mistake("whisper", "off_by_one_in_a_stride", "q < (t - 1) / s + 1 =>", "q < t / s =>"),
    Mistake("whisper", "one_too_many_in_a_stride", "q < (t - 1) / s + 1 =>", "q < t / s + 1 =>"),
    Mistake("whisper", "heads_do_not_divide", "encode {8}", "encode {6}"),
    Mistake("resnet50", "stride_of_the_shortcut", "unit {s} p.beside x", "unit {1} p.beside x"),
    Mistake("resnet50", "stride_forgotten", "unit {s} p.middle", "unit {1} p.middle"),
    Mistake("resnet50", "padding_of_a_window", "nn.conv2d_strided {s, r / 2}", "nn.conv2d_strided {s, r}"),
    Mistake("resnet50", "padding_of_one", "nn.conv2d_strided {s, r / 2}", "nn.conv2d_strided {s, 1}"),
    Mistake("resnet50", "expansion_forgotten", "stage2 : stage[4 * w, 2 * w, n2]", "stage2 : stage[w, 2 * w, n2]"),
    Mistake("resnet50", "head_too_narrow", "head : nn.linear[32 * w, k]", "head : nn.linear[16 * w, k]"),
    Mistake("resnet50", "flattened", "|> nn.global_average_pool\n", "|> nn.flatten\n"),
    Mistake("unet", "not_cropped", "m < c + d, y < i, x < j =>", "m < c + d, y < h, x < w =>"),
    Mistake("unet", "channels_of_one_side", "for b, m < c + d, y", "for b, m < c, y"),
    Mistake("unet", "bottom_too_narrow", "bottom : double[16 * w, 8 * w]", "bottom : double[8 * w, 8 * w]"),
    Mistake("unet", "wrong_level", "|> up p.up3 down3", "|> up p.up3 down2"),
    Mistake("unet", "forgotten_transposition", "(p : { k : f32[c, o, 2, 2], b : f32[o] }) x", "(p : nn.conv[o, c, 2, 2]) x"),
    Mistake("mamba", "off_by_one_part", "selected[:, :, r + n : r + 2 * n]", "selected[:, :, n : r + 2 * n]"),
    Mistake("mamba", "end_for_a_length", "selected[:, :, r : r + n]", "selected[:, :, r : n]"),
    Mistake("mamba", "forgotten_transposition", "p.k[c, k]) + p.b[c]", "p.k[k, c]) + p.b[c]"),
    Mistake("mamba", "wrong_axis", "states[i, j, k, t]", "states[i, t, j, k]"),
    Mistake("seq2seq", "time_for_batch", "step p.decoder words[:, i, :]", "step p.decoder words[i, :, :]"),
    Mistake("seq2seq", "off_by_one_layer", "for i j c => states[j, n - 1, i, c]", "for i j c => states[j, n, i, c]"),
    Mistake("seq2seq", "off_by_one_word", "words[:, s - 1 - t, :]", "words[:, s - t, :]"),
    Mistake("gcn", "wrong_side", "a @ (x @ w)", "(x @ w) @ a"),
    Mistake("gcn", "weights_of_nodes", "a @ (x @ w)", "a @ (w @ x)"),
    Mistake("gcn", "forgotten_transposition", "w1 : f32[h, f]", "w1 : f32[f, h]"),
    Mistake("gcn", "same_layer_twice", "|> convolve p.w1", "|> convolve p.w0"),
]


@pytest.mark.parametrize("mistake", [m for m in MISTAKES if chosen(m.golden, 2)], ids=lambda m: f"{m.model}_{m.name}")
def test_mistake(mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    example = (MODELS / f"{mistake.model}.axon").read_text(encoding="utf-8")
    assert example.count(mistake.right) == 1
    program = tmp_path / f"{mistake.model}.axon"
    program.write_text(example.replace(mistake.right, mistake.wrong), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code, out = run_axon(["check", program.name], capsys)
    edit = "".join(f"{sign} {line}\n" for sign, text in (("-", mistake.right), ("+", mistake.wrong)) for line in text.splitlines())
    compare(mistake.golden, f"{edit}\n{out}")
    assert code == 1
    assert out.count("error[") == 1
    assert "AX0001" not in out


def test_there_are_three_for_each_model() -> None:
    count = Counter(m.model for m in MISTAKES)
    assert set(count) == {p.stem for p in MODELS.glob("*.axon")}
    assert min(count.values()) >= 3
    assert set(GOLDENS.glob("*.txt")) == {m.golden for m in MISTAKES}
