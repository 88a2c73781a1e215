"""What a process makes of files: `python texts.py SEED STAGE,… FILE…` prints each file's texts, as JSON, in the order given.

FILE may end in `:NAME,…`, the functions meant. SEED is all that may differ between processes and must not matter (see `disturb`); 0
disturbs nothing. The stage `cubin` has kernels built, which AXON_CACHE then holds; without it, nothing is. With AXON_PLANTED, texts
are added that do depend on the seed.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys

from axon.base import names


def disturb(seed: int) -> list[bytearray]:
    """Another place in memory for everything, other collections, other numbers of symbols, and sets of symbols in another order.

    Symbols are hashed by their numbers, so sets of few often have them in the order in which they were made, whatever the history:
    hashed by another function, they never have.
    """
    rng = random.Random(seed)
    junk = [bytearray(rng.randrange(1, 400)) for _ in range(20_000 * seed)]
    del junk[:: 1 + seed]
    gc.set_threshold(*((700, 10, 10), (50, 5, 5), (5_000, 20, 20))[seed % 3])
    if seed:
        names.begin_at(rng.randrange(2, 1_000_000))
        factor = rng.randrange(1 << 40) * 2 + 1
        names.Symbol.__hash__ = lambda self: self.id * factor % (1 << 60) >> 20  # type: ignore[method-assign]
    return junk


def without_compiler() -> None:
    """GPU kernels are not built, but all that is made of them before."""
    from axon.backend.gpu.runtime import algorithms, building, steps
    from axon.backend.kernel_cache import LinkedKernel

    for module in (building, algorithms, steps):
        module.build_all = lambda wanted, _: [LinkedKernel(forms.source.text.encode(), "kernel", 32, 0) for forms in wanted]
    building.known = lambda wanted, _: [None for _ in wanted]


def texts(path: str, stages: list[str]) -> dict[str, str]:
    """By what they are: diagnostics, signatures, and the stages of each function."""
    from axon import compiler
    from axon.base.render import render
    from axon.checker.loader import FileLoader
    from axon.host.call import Session
    from axon.tools.commands import listing

    found = {}
    path, _, given = path.partition(":")
    only = [name for name in given.split(",") if name]
    checked = compiler.check(FileLoader(), path)
    found["diagnostics"] = "\n".join(render(d) for d in checked.diagnostics)
    if any(d.severity == "error" for d in checked.diagnostics):
        return found
    found["types"] = listing.types_of(checked, None)
    session = Session(checked)
    for name in only or checked.signatures:
        found |= of_function(session, path, name, stages)
    return found | (planted() if "AXON_PLANTED" in os.environ else {})


def of_function(session: object, path: str, name: str, stages: list[str]) -> dict[str, str]:
    from axon.base.errors import AxonError
    from axon.tools.commands import listing

    found = {}
    for stage in stages:
        try:
            callee = listing.the_function(session, path, name)
            found[f"{name} {stage}"] = listing.stage_of(session, callee, stage, [])
        except AxonError as error:
            found[f"{name} {stage}"] = " ".join(d.code for d in error.diagnostics)
    return found


def planted() -> dict[str, str]:
    """What a mistake would make."""
    symbols = [names.fresh(name) for name in "abcdefgh"]
    return {
        "a set of symbols": " ".join(symbol.name for symbol in set(symbols)),
        "a set of texts": " ".join({symbol.name for symbol in symbols}),
        "a symbol's number": f"t{symbols[0].id}",
        "an address": object.__repr__(symbols[0]),
    }


def main() -> None:
    seed, stages, paths = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
    held = disturb(seed)
    if "cubin" in stages:
        stages.remove("cubin")
    else:
        without_compiler()
    json.dump({path: texts(path, stages) for path in paths}, sys.stdout)
    del held


if __name__ == "__main__":
    main()
