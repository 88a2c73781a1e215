"""What a process makes of files: `python texts.py SEED STAGE,… FILE…` prints each file's texts, as JSON, in the order given.

SEED is how much else is in memory when it begins: objects of other sizes, so that identities and collections differ.
"""

from __future__ import annotations

import gc
import json
import random
import sys

from axon import compiler, listing
from axon.call import Session
from axon.diagnostics import AxonError
from axon.loader import FileLoader
from axon.names import fresh
from axon.render import render


def texts(path: str, stages: list[str]) -> dict[str, str]:
    found = {}
    checked = compiler.check(FileLoader(), path)
    found["diagnostics"] = "\n".join(render(d) for d in checked.diagnostics)
    if any(d.severity == "error" for d in checked.diagnostics):
        return found
    found["types"] = listing.types_of(checked, None)
    session = Session(checked)
    for name in checked.signatures:
        for stage in stages:
            try:
                callee = listing.the_function(session, path, name)
                found[f"{name} {stage}"] = listing.stage_of(session, callee, stage, [])
            except AxonError as error:
                found[f"{name} {stage}"] = " ".join(d.code for d in error.diagnostics)
    return found


def main() -> None:
    seed, stages, paths = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
    rng = random.Random(seed)
    junk = [bytearray(rng.randrange(1, 400)) for _ in range(20_000 * seed)]
    for _ in range(100 * seed):
        fresh("junk")
    del junk[:: 1 + seed]
    gc.set_threshold(*((700, 10, 10), (50, 5, 5), (5_000, 20, 20))[seed % 3])
    json.dump({path: texts(path, stages) for path in paths}, sys.stdout)


if __name__ == "__main__":
    main()
