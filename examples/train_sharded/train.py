"""Train GPT-2 over several processes, its weights and its optimizer cut over them; killed and called again, it goes on.

torchrun --standalone --nproc-per-node 4 examples/train_sharded/train.py [STEPS] [--data 2] [--checkpoint FOLDER]

The processes are a mesh: rows of a batch are cut over `data`, heads and hidden units over `model`. A checkpoint loads on another
mesh, so training goes on with fewer processes, or more: `--nproc-per-node 2`, or without torchrun with one. With
`--max-restarts 3`, torchrun starts all processes again when one ends.
"""

from __future__ import annotations

import argparse
import os
import shutil
import warnings
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh

import axon

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WEIGHTS = {"h": "model", "f": "model"}


def corpus(folder: Path) -> np.ndarray:
    """The bytes of the texts in a folder."""
    texts = [file.read_bytes() for file in sorted(folder.glob("*.md"))]
    return np.frombuffer(b"\n".join(texts), np.uint8).astype(np.int32)


def initial(o: argparse.Namespace) -> dict[str, Any]:
    """As in the paper: normal with 0.02, and less for what is added to the stream, the more layers there are."""
    rng, d, f = np.random.default_rng(o.seed), o.width, 4 * o.width

    def normal(*shape: int, scale: float = 0.02) -> np.ndarray:
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    def linear(rows: int, columns: int, scale: float = 0.02) -> dict[str, Any]:
        return {"w": normal(o.layers, rows, columns, scale=scale), "b": np.zeros((o.layers, columns), np.float32)}

    def norm(*shape: int) -> dict[str, Any]:
        return {"scale": np.ones(shape, np.float32), "shift": np.zeros(shape, np.float32)}

    added, square = 0.02 / np.sqrt(2 * o.layers), (o.layers, d, d)
    return {
        "tokens": normal(256, d),
        "positions": normal(o.length, d),
        "blocks": {
            "norm1": norm(o.layers, d),
            "attention": {"q": normal(*square), "k": normal(*square), "v": normal(*square), "out": linear(d, d, added)},
            "norm2": norm(o.layers, d),
            "mlp": {"up": linear(d, f), "down": linear(f, d, added)},
        },
        "norm": norm(d),
    }


def flat(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    """A record as its tensors by path, `weights.norm.scale`."""
    out: dict[str, Any] = {}
    for name, value in tree.items():
        out |= flat(value, f"{path}{name}.") if isinstance(value, dict) else {f"{path}{name}": value}
    return out


def batch(tokens: np.ndarray, o: argparse.Namespace, step: int, rows: slice) -> np.ndarray:
    """Some rows of the batch of a step, which is the same whatever the mesh is, and however often training was killed."""
    starts = np.random.default_rng((o.seed, step)).integers(0, len(tokens) - o.length, o.batch)
    return np.stack([tokens[s : s + o.length + 1] for s in starts[rows]])


def parts(count: int, o: argparse.Namespace) -> int:
    """How many parts a batch is cut into over so many processes."""
    data = o.data or (2 if count % 2 == 0 else 1)
    for what, number in (("processes", count), ("rows of a batch", o.batch)):
        if number % data:
            raise SystemExit(f"{number} {what} are no multiple of the {data} parts of a batch: see --data and --batch")
    return data


def saved(folder: Path, state: dict[str, Any], step: int) -> None:
    """Write a checkpoint. Only when it is whole does `latest` name it, and what is older goes."""
    kept = folder / f"step-{step}"
    dcp.save(flat(state), checkpoint_id=kept)
    if dist.get_rank() == 0:
        fresh = folder / "latest.fresh"
        fresh.write_text(str(step))
        fresh.replace(folder / "latest")
        for older in folder.glob("step-*"):
            if older != kept:
                shutil.rmtree(older, ignore_errors=True)


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("steps", nargs="?", type=int, default=100)
    parser.add_argument("--checkpoint", type=Path, default=Path("gpt2_sharded"))
    parser.add_argument("--data", type=int, help="how many parts of a batch there are; by default 2 of an even number of processes")
    sizes = (("layers", 4), ("width", 128), ("heads", 4), ("length", 64), ("batch", 8), ("every", 10), ("seed", 0))
    for name, default in sizes:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for which processes wait for one")
    parser.add_argument("--target", help="how blocks are computed, as of a call: for instance interpret")
    parser.add_argument("--text", type=Path, default=ROOT / "docs", help="a folder with text")
    return parser.parse_args(arguments)


@cache
def module() -> axon.Module:
    return axon.load(HERE / "train.axon")


def main(arguments: list[str] | None = None) -> list[float]:
    """The losses of the steps that were taken."""
    o = options(arguments)
    warnings.filterwarnings("ignore", module="torch.distributed")
    if not dist.is_initialized():
        if "RANK" not in os.environ:  # without torchrun, one process
            os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="29511")
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    count = dist.get_world_size()
    data = parts(count, o)
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    mesh = init_device_mesh(kind, (data, count // data), mesh_dim_names=("data", "model"))
    m = module()
    start = axon.shard(m.start[o.heads], mesh, WEIGHTS, timeout=o.timeout)
    step = axon.shard(m.step[o.heads], mesh, {**WEIGHTS, "b": "data"}, timeout=o.timeout)

    state, done = start(*start.distributed(initial(o)), target=o.target), 0
    if (latest := o.checkpoint / "latest").exists():
        done = int(latest.read_text())
        dcp.load(flat(state), checkpoint_id=o.checkpoint / f"step-{done}")  # into the blocks of this mesh
    first = dist.get_rank() == 0
    if first:
        o.checkpoint.mkdir(parents=True, exist_ok=True)
        print(f"{count} processes, data {data} and model {count // data}; from step {done}", flush=True)
    tokens, own = corpus(o.text), o.batch // data
    if len(tokens) <= o.length:
        raise SystemExit(f"{o.text} holds {len(tokens)} bytes of text in .md files, fewer than a row of {o.length}")
    rows = slice(mesh.get_local_rank("data") * own, (mesh.get_local_rank("data") + 1) * own)
    losses, began = [], perf_counter()
    for k in range(done + 1, o.steps + 1):
        loss, state = step(o.rate, o.decay, k, state, batch(tokens, o, k, rows), target=o.target)
        losses.append(float(loss.to_local()))
        if k % o.every == 0 or k == o.steps:
            saved(o.checkpoint, state, k)
            if first:
                print(f"step {k}: loss {losses[-1]:.4f}, {(perf_counter() - began) / len(losses) * 1e3:.0f} ms a step", flush=True)
    return losses


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
