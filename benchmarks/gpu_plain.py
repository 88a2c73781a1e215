"""Random forms of plain kernels, from Axon source, beside PyTorch, on one GPU.

    python benchmarks/gpu_plain.py [--random N] [--seed S] [--seconds T] [--only KIND …] [--out FILE]
    python benchmarks/gpu_plain.py --check [--random N] [--seed S]

Sums, maxima, softmaxes, norms, scans, gathers and maps over one to five axes in any order, of 4 to 256 MB: the forms of which a
test says what they are predicted to take (`tests/backend/gpu/plain_forms.py`), drawn anew for each seed, so that nothing can be
fitted to them. PyTorch has the best of the eager expressions that stand there beside the program. Results are compared with
float64 ones of PyTorch first. Both sides run in CUDA graphs that rotate inputs over four times the L2 cache and are replayed in
turn; a ratio above 1 says that Axon is faster. The slowest stand first. `predicted` is what `axon explain` says; where data were
moved once, at the speed of memory, and nothing else took time, a form would take `least`.

`--check` needs no GPU: small tensors on this machine's processor, beside NumPy, or PyTorch where it is there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from racing import mean, report, rotated

sys.path.insert(0, str(Path(__file__).parents[1]))

import axon
from tests.backend.gpu.plain_forms import Form, Given, NumPy, Torch, forms, least, predicted

WITHIN = {"bf16": 2e-2, "f16": 4e-3, "f32": 2e-4, "f64": 1e-10, "i32": 0.0}  # of the norm of the difference to that of the result
TYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "i32": "int32"}
SMALL = 20_000  # elements, of `--check`
WHOLE = 8  # elements that are whole numbers are below this, and above minus this


@dataclass(frozen=True)
class Measured:
    """Seconds of Axon and of PyTorch, how many times as long PyTorch takes, the seconds predicted and the least, and the error."""

    form: Form
    mine: float
    theirs: float
    ratio: float
    predicted: float
    least: float
    kernels: int
    error: float

    def __str__(self) -> str:
        wrong = "" if self.error <= WITHIN[self.form.given[0].element] else " **wrong**"
        times = (self.mine, self.theirs, self.predicted, self.least)
        cells = [*(f"{seconds * 1e6:.1f}" for seconds in times), f"{self.ratio:.2f}", str(self.kernels), f"{self.error:.0e}{wrong}"]
        return f"| {' | '.join(cells)} | {self.form} |"


def made(given: Given) -> Any:
    """A tensor on the GPU."""
    import torch

    if given.below:
        return torch.randint(0, given.below, given.shape, device="cuda", dtype=torch.int32)
    if given.element == "i32":
        return torch.randint(-WHOLE, WHOLE, given.shape, device="cuda", dtype=torch.int32)
    return torch.randn(given.shape, device="cuda", dtype=torch.float32).to(getattr(torch, TYPES[given.element]))


def error(form: Form, found: Any, tensors: Sequence[Any]) -> float:
    """How far a result is from that of f64, beside the norm of that. Of places of greatest elements, how far the elements there are
    from the greatest: of equal ones, each side may give another."""
    exact = [x.double() if x.is_floating_point() else x for x in tensors]
    if form.best is not None:
        there = exact[0].gather(form.best, found.long().unsqueeze(form.best)).squeeze(form.best)
        found, want = there, Torch.greatest(exact[0], (form.best,))
    else:
        want = form.peers[0](Torch, *exact)
    assert tuple(found.shape) == tuple(want.shape), f"{tuple(found.shape)} is not {tuple(want.shape)}"
    return distance(found.double(), want.double())


def distance(found: Any, want: Any) -> float:
    norm = float((want * want).sum()) ** 0.5
    off = float(((found - want) ** 2).sum()) ** 0.5
    return off / norm if norm else off


def measured(form: Form) -> Measured:
    import torch

    expected = predicted(form)
    seconds, bound = sum(each.seconds for each in expected), least(form, expected)
    function = axon.compile(form.text).f  # anew: the third size that one function sees would get the kernel for any size
    first = [made(given) for given in form.given]
    off = error(form, function(*first), first)
    torch.cuda.empty_cache()
    sides = [function, *((lambda *tensors, peer=peer: peer(Torch, *tensors)) for peer in form.peers)]
    run = rotated(sides, lambda: [made(given) for given in form.given], form.moved, max(seconds, bound))
    best = min(range(1, len(sides)), key=lambda side: run.seconds[side])
    return Measured(form, run.seconds[0], run.seconds[best], run.ratio(best, 0), seconds, bound, len(expected), off)


def race(options: argparse.Namespace) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    head = [f"# Random forms of plain kernels, seed {options.seed}, {date.today()}, {torch.cuda.get_device_name()}", ""]
    head += [*__doc__.strip().splitlines()[5:-2]]
    columns = "| Axon, µs | PyTorch, µs | predicted, µs | least, µs | ratio | kernels | error | form |"
    print("\n".join([*head, "", columns, "|---:|---:|---:|---:|---:|---:|---:|---|"]), flush=True)
    done, failed, began = list[Measured](), list[str](), time.monotonic()
    for form in wanted(options):
        if options.seconds and time.monotonic() - began > options.seconds:
            break
        try:
            done.append(measured(form))
            print(done[-1], flush=True)
        except Exception as failure:  # one that fails does not stop the others
            failed.append(f"{form}: {type(failure).__name__}: {(str(failure).splitlines() or [''])[0][:200]}")
            print(failed[-1], flush=True)
        torch.cuda.empty_cache()
    done.sort(key=lambda each: each.ratio)
    lines = [*head, "", *kinds(done), "", columns, "|---:|---:|---:|---:|---:|---:|---:|---|", *map(str, done)]
    lines += ["", f"{len(failed)} failed:", "", *(f"* {why}" for why in failed)] if failed else []
    if done:
        ratios, beside = [each.ratio for each in done], [each.mine / each.predicted for each in done]
        lines += [
            "",
            f"{len(done)} forms. PyTorch takes {mean(ratios):.2f} of Axon's time (geometric mean), {min(ratios):.2f} at least;",
        ]
        lines += [f"Axon takes {mean(beside):.2f} of what is predicted, {max(beside):.1f} at most."]
    report(lines, options.out)


def kinds(done: Sequence[Measured]) -> list[str]:
    """A table of kinds: how many there were, and of PyTorch's time beside Axon's the mean and the least."""
    lines = ["| kind | forms | ratio | least ratio | measured / predicted, at most |", "|---|---:|---:|---:|---:|"]
    for kind in dict.fromkeys(each.form.kind for each in done):
        own = [each for each in done if each.form.kind == kind]
        ratios, most = [each.ratio for each in own], max(each.mine / each.predicted for each in own)
        lines.append(f"| {kind} | {len(own)} | {mean(ratios):.2f} | {min(ratios):.2f} | {most:.1f} |")
    return lines


def wanted(options: argparse.Namespace, *, small: int = 0) -> Iterator[Form]:
    return (form for form in forms(options.seed, options.random, small) if not options.only or form.kind in options.only)


# ── without a GPU ───────────────────────────────────────────────────────────────────────────────────────────────────────


def check(options: argparse.Namespace) -> int:
    """Compare small forms on the processor; how many are wrong."""
    wrong = compared = 0
    library = Torch if find_spec("torch") else NumPy
    for number, form in enumerate(wanted(options, small=SMALL)):
        arrays = list(arguments(form, options.seed + number))
        if form.given[0].element in ("bf16", "f16") and library is Torch:
            continue  # PyTorch's processor sums them in another way
        found = axon.compile(form.text).f(*arrays, target="cpu")
        for peer in form.peers:
            off = difference(form, found, peer, library, arrays)
            compared += 1
            if off > WITHIN[form.given[0].element]:
                wrong += 1
                print(f"wrong by {off:.1e}: {form}")
    print(f"{compared} comparisons with {library.__name__}, {wrong} wrong")
    return wrong


def arguments(form: Form, seed: int) -> Iterator[Any]:
    import numpy as np

    chance = np.random.default_rng(seed)
    for given in form.given:
        if given.below:
            yield chance.integers(0, given.below, given.shape, dtype=np.int32)
        elif given.element == "i32":
            yield chance.integers(-WHOLE, WHOLE, given.shape, dtype=np.int32)
        else:
            yield chance.standard_normal(given.shape).astype(numpy_type(given.element))


def numpy_type(element: str) -> Any:
    import ml_dtypes
    import numpy as np

    return ml_dtypes.bfloat16 if element == "bf16" else np.dtype(TYPES[element])


def difference(form: Form, found: Any, peer: Any, library: type, arrays: Sequence[Any]) -> float:
    import numpy as np

    exact = [x if x.dtype == np.int32 else x.astype(np.float64) for x in arrays]
    if library is Torch:
        import torch

        want = peer(Torch, *map(torch.from_numpy, exact)).numpy()
    else:
        want = peer(NumPy, *exact)
    found, want = np.asarray(found), np.asarray(want)
    if form.best is not None:
        axis = form.best
        found, want = (np.take_along_axis(exact[0], np.expand_dims(x, axis).astype(np.int64), axis) for x in (found, want))
    assert found.shape == want.shape, f"{found.shape} is not {want.shape}, of {form}"
    return distance(found.astype(np.float64), want.astype(np.float64))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=int, default=130, metavar="N", help="how many forms")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--seconds", type=float, default=0, metavar="T", help="begin no form after so long")
    parser.add_argument("--only", nargs="*", metavar="KIND", help="which kinds, as the table names them")
    parser.add_argument("--out", metavar="FILE", help="write the table there too")
    parser.add_argument("--check", action="store_true", help="small forms on the processor; needs no GPU")
    options = parser.parse_args()
    if options.check:
        return min(1, check(options))
    race(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
