"""Train GPT-2 on the text of this checkout, byte by byte, in bf16 with weights in f32; killed and called again, it goes on.

python examples/train_gpt2/train.py [STEPS] [--checkpoint FILE.npz] [--layers 12 --width 768 --heads 12 --length 1024 --batch 8]

On an H100 or H200 where PyTorch has one, else on this machine's processor, for which sizes are to be small. `--workers N` has
PyTorch's data loader make the batches in N processes. A step has the same batch however often it was killed before.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import axon

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
END = 256  # the token between files; those below it are bytes
KINDS = (".md", ".axon", ".py")


def corpus(root: Path) -> np.ndarray:
    """The tokens of all texts below a folder."""
    parts = []
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if not name.startswith((".", "_")))
        for name in sorted(n for n in files if n.endswith(KINDS)):
            text = np.frombuffer(Path(folder, name).read_bytes(), np.uint8)
            parts += [text.astype(np.int32), np.array([END], np.int32)]
    return np.concatenate(parts)


class Batches:
    """The batch of each step: rows of text from anywhere. A data set as PyTorch's data loader takes it."""

    def __init__(self, tokens: np.ndarray, batch: int, length: int, steps: range, seed: int) -> None:
        self.tokens, self.batch, self.length, self.steps, self.seed = tokens, batch, length, steps, seed

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, place: int) -> np.ndarray:
        step = self.steps[place]  # past the last it raises IndexError, which ends a `for`
        starts = np.random.default_rng((self.seed, step)).integers(0, len(self.tokens) - self.length, self.batch)
        return np.stack([self.tokens[s : s + self.length + 1] for s in starts])

    def loaded(self, workers: int) -> Iterator[Any]:
        if not workers:
            return iter(self)
        from torch.utils.data import DataLoader

        return iter(DataLoader(self, batch_size=None, num_workers=workers))


def initial(layers: int, width: int, length: int, seed: int) -> dict[str, Any]:
    """As in the paper: normal with 0.02, and less for what is added to the stream, the more layers there are."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 0.02) -> np.ndarray:
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    def linear(rows: int, columns: int, scale: float = 0.02) -> dict[str, Any]:
        return {"w": normal(layers, rows, columns, scale=scale), "b": np.zeros((layers, columns), np.float32)}

    def norm(*shape: int) -> dict[str, Any]:
        return {"scale": np.ones(shape, np.float32), "shift": np.zeros(shape, np.float32)}

    added = 0.02 / np.sqrt(2 * layers)
    return {
        "tokens": normal(END + 1, width),
        "positions": normal(length, width),
        "blocks": {
            "norm1": norm(layers, width),
            "attention": {"qkv": linear(width, 3 * width), "out": linear(width, width, added)},
            "norm2": norm(layers, width),
            "mlp": {"up": linear(width, 4 * width), "down": linear(4 * width, width, added)},
        },
        "norm": norm(width),
    }


def flat(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    """A record as its arrays by path, `weights.norm.scale`."""
    out: dict[str, Any] = {}
    for name, value in tree.items():
        out |= flat(value, f"{path}{name}.") if isinstance(value, dict) else {f"{path}{name}": value}
    return out


def nested(arrays: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `flat`."""
    out: dict[str, Any] = {}
    for path, value in arrays.items():
        *outer, last = path.split(".")
        part = out
        for name in outer:
            part = part.setdefault(name, {})
        part[last] = value
    return out


def saved(file: Path, state: dict[str, Any], step: int) -> None:
    """Write a checkpoint: whole, or not at all."""
    arrays = {path: x if isinstance(x, np.ndarray) else x.cpu().numpy() for path, x in flat(state).items()}
    fresh = file.with_suffix(".fresh.npz")
    with fresh.open("wb") as out:
        np.savez(out, step=step, **arrays)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)


def restored(file: Path) -> tuple[dict[str, Any], int]:
    with np.load(file) as kept:
        arrays = {path: kept[path] for path in kept.files}
    step = int(arrays.pop("step"))
    return nested(arrays), step


def place() -> Any:
    """What moves an array to where Axon computes: a GPU of PyTorch's, if there is one."""
    try:
        import torch
    except ImportError:
        return lambda x: x
    return (lambda x: torch.as_tensor(x).cuda()) if torch.cuda.is_available() else np.asarray


def moved(tree: Any, there: Any) -> Any:
    return {name: moved(x, there) for name, x in tree.items()} if isinstance(tree, dict) else there(tree)


def written(m: axon.Module, p: dict[str, Any], heads: int, count: int, there: Any, begin: str = "fun ", seed: int = 0) -> str:
    """What the model writes after a beginning."""
    ids = list(begin.encode())
    key, most = np.array([0, seed], np.uint32), p["positions"].shape[0]
    for i in range(count):
        ids.append(int(m.next[heads](p, 0.8, there(np.array(ids[-most:], np.int32)), there(key), i)))
    return bytes(b if b < END else 10 for b in ids).decode("utf-8", errors="replace")


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("steps", nargs="?", type=int, default=2000)
    parser.add_argument("--checkpoint", type=Path, default=Path("gpt2.npz"))
    for name, default in (("layers", 12), ("width", 768), ("heads", 12), ("length", 1024), ("batch", 8), ("every", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--write", type=int, default=200, help="how many bytes to write at the end")
    parser.add_argument("--text", type=Path, default=ROOT, help="a folder with text")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    o = options(arguments)
    m, there = axon.load(HERE / "train.axon"), place()
    tokens = corpus(o.text)
    train, held_out = np.split(tokens, [len(tokens) * 19 // 20])
    if o.checkpoint.exists():
        state, done = restored(o.checkpoint)
        shape = (*state["weights"]["blocks"]["norm1"]["scale"].shape, len(state["weights"]["positions"]))
        if shape != (o.layers, o.width, o.length):
            raise SystemExit(f"{o.checkpoint} is of {shape[0]} layers of width {shape[1]}, for {shape[2]} positions")
        print(f"going on at step {done} of {o.checkpoint}", flush=True)
        state = moved(state, there)
    else:
        state, done = m.start(moved(initial(o.layers, o.width, o.length, o.seed), there)), 0
    count = sum(x.size if isinstance(x, np.ndarray) else x.numel() for x in flat(state["weights"]).values())
    print(f"{count:,} weights, {len(tokens):,} bytes of text", flush=True)
    began, batches = perf_counter(), Batches(train, o.batch, o.length, range(done, o.steps), o.seed)
    losses: list[Any] = []
    for step, ids in enumerate(batches.loaded(o.workers), done + 1):
        loss, state = m.step[o.heads](o.rate, o.decay, o.steps, step, state, there(ids))
        losses.append(loss)
        if step % o.every == 0 or step == o.steps:
            mean, each = np.mean([float(x) for x in losses]), (perf_counter() - began) / len(losses)
            saved(o.checkpoint, state, step)
            print(f"step {step}: loss {mean:.4f}, {each * 1e3:.0f} ms a step", flush=True)
            losses, began = [], perf_counter()
    tests = Batches(held_out, o.batch, min(o.length, len(held_out) // 2), range(4), o.seed)
    wrong = np.mean([float(m.loss_in_bf16[o.heads](state["weights"], there(ids))) for ids in tests])
    print(f"held-out loss {wrong:.4f}, {wrong / np.log(2):.3f} bits a byte")
    if o.write:
        print(written(m, state["weights"], o.heads, o.write, there))


if __name__ == "__main__":
    main()
