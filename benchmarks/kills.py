"""Kill a process of a training at random moments, and see that nothing after the last checkpoint is lost.

python benchmarks/kills.py [--kills 10] [--processes 4] [--steps 40] [--layers 4] [--width 128] [--timeout 20] [--target interpret]

`examples/train_sharded` is trained over gloo processes, forked from this one, with short rows and a checkpoint every second step.
At a random moment one of them is killed; the others must end by themselves, with one error that names it (or PyTorch's own, where
that was while it wrote a checkpoint). Then all are started again, as often as there are kills. At the end the losses must be those
of a training that nobody disturbed, bit for bit.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "train_sharded")]

import train  # noqa: E402

import axon  # noqa: E402
import axon.host.devices.function  # noqa: E402

SIZES = ["--length", "8", "--batch", "4", "--every", "2"]
LONGEST = 600  # seconds, for one training


def sizes_of(o: argparse.Namespace) -> list[str]:
    """The arguments of a training, but where its text and its checkpoints are."""
    found = [str(o.steps), *SIZES, "--layers", str(o.layers), "--width", str(o.width), "--timeout", str(o.timeout)]
    return [*found, "--target", o.target] if o.target else found


class Training:
    """The processes of one training, which goes on from its checkpoint."""

    def __init__(self, folder: Path, run: int, o: argparse.Namespace) -> None:
        self.folder, self.run, self.count = folder, run, o.processes
        self.children = [os.fork() or self._trains(rank, o) for rank in range(o.processes)]
        self.left = {*self.children}

    def _trains(self, rank: int, o: argparse.Namespace) -> int:
        found: Any = None
        try:
            torch.set_num_threads(1)
            place = f"file://{self.folder}/store-{self.run}"
            dist.init_process_group("gloo", place, timedelta(seconds=LONGEST), o.processes, rank)
            found = train.main([*sizes_of(o), "--text", o.text, "--checkpoint", str(self.folder / "checkpoint")])
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        finally:
            (self.folder / f"{self.run}.{rank}").write_bytes(pickle.dumps(found))
            os._exit(0 if isinstance(found, list) else 1)

    @property
    def goes_on(self) -> bool:
        """Whether no process has ended."""
        self.left = {child for child in self.left if os.waitpid(child, os.WNOHANG) == (0, 0)}
        return len(self.left) == self.count

    def kill(self, rank: int) -> None:
        if self.children[rank] in self.left:
            os.kill(self.children[rank], signal.SIGKILL)

    def end(self) -> float:
        """Wait until all have ended; after how many seconds that was."""
        began = time.monotonic()
        while self.left:
            if self.goes_on or time.monotonic() - began > LONGEST:
                for rank in range(self.count) if time.monotonic() - began > LONGEST else ():
                    self.kill(rank)
            time.sleep(0.02)
        return time.monotonic() - began

    def told(self) -> list[Any]:
        """The losses in each process, or why it ended; None of one that was killed."""
        files = [self.folder / f"{self.run}.{rank}" for rank in range(self.count)]
        return [pickle.loads(file.read_bytes()) if file.exists() else None for file in files]

    def latest(self) -> int:
        file = self.folder / "checkpoint" / "latest"
        return int(file.read_text()) if file.exists() else 0


def planned(o: argparse.Namespace) -> None:
    """Plan a step before processes are forked, which then need not."""
    m, sizes = train.module(), train.options(sizes_of(o))
    data = 2 if o.processes % 2 == 0 else 1
    state, ids = m.start[sizes.heads](train.initial(sizes)), np.zeros((sizes.batch, sizes.length + 1), np.int32)
    shards = axon.shard(m.step[sizes.heads], {"data": data, "model": o.processes // data}, {**train.WEIGHTS, "b": "data"})
    program, _, dims = m._session.bound(m.step._callee, [sizes.heads], [sizes.rate, sizes.decay, 1, state, ids])
    shards._forms.sharded(program, dims)


def main(arguments: list[str] | None = None) -> bool:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("kills", 10), ("processes", 4), ("steps", 40), ("layers", 4), ("width", 128), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds for which processes wait for one")
    parser.add_argument("--target", help="how blocks are computed, as of a call")
    o = parser.parse_args(arguments)
    planned(o)
    chance, good = random.Random(o.seed), True
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        o.text = f"{one}/text"  # which nobody edits meanwhile
        Path(o.text).mkdir()
        shutil.copy(ROOT / "README.md", o.text)
        calm = Training(Path(one), 0, o)
        pace = calm.end() / o.steps
        wanted = calm.told()[0]
        if not isinstance(wanted, list):
            print(f"undisturbed, it ends with {wanted}")
            return False
        print(f"{o.processes} processes, {o.steps} steps of {o.layers} layers of width {o.width}, {pace:.1f} s each")
        print(f"undisturbed: loss {wanted[0]:.6f} at first, {wanted[-1]:.6f} at last\n", flush=True)
        print("| kill | last checkpoint | killed | the others ended after | with |\n|---|---|---|---|---|")
        for run in range(o.kills):
            training = Training(Path(other), run, o)
            goal = min(training.latest() + chance.randint(0, o.steps // (o.kills + 1)), o.steps - 4)  # so that there is work left
            while training.goes_on and (training.latest() < goal or not (training.folder / "checkpoint").exists()):
                time.sleep(0.005)
            time.sleep(chance.random() * max(1.0, pace))
            rank = chance.randrange(o.processes)
            training.kill(rank)
            seconds = training.end()
            said = {x.splitlines()[0] for n, x in enumerate(training.told()) if n != rank and isinstance(x, str)}
            good &= all(f"rank {rank} " in x or x.startswith("RuntimeError") for x in said)
            words = "; ".join(sorted(said)) or "no error: it had come to its end"
            print(f"| {run + 1} | {training.latest()} | rank {rank} | {seconds:.1f} s | {words} |", flush=True)
        last = Training(Path(other), o.kills, o)
        at = last.latest()
        last.end()
        rest = last.told()[0]
        same = isinstance(rest, list) and rest == wanted[at:]
        print(f"\nundisturbed again from step {at} on: the losses {'are equal, bit for bit' if same else f'differ: {rest}'}")
        return good and same


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
