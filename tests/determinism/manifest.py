"""What the compiler makes of every program of the corpus, as digests: what a change that should change nothing is held against.

    python -m tests.determinism.manifest            compare with the committed table, and name what differs
    python -m tests.determinism.manifest --write    write the table anew
    python -m tests.determinism.manifest --show FILE WHAT    the text behind one digest, to compare with another commit's

The texts are diagnostics, types with their contracts, core, plans, emitted code of processors and GPUs, and the machine code of one
kernel of each family, without its names. No GPU is needed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests import ROOT

HERE = Path(__file__).parent
TABLE = HERE / "manifest.json"
HOST = "core,plan,cpu"
KERNELS = "tile,roles,barriers,kernel"
# Files by what is made of them.
SETS: dict[str, tuple[str, ...]] = {
    HOST: ("tests/corpus/*/*.axon", "stdlib/*.axon", "examples/**/*.axon", "benchmarks/*.axon"),
    KERNELS: ("tests/corpus/accepted/*.axon", "tests/determinism/*.axon", "examples/*.axon"),
    "sass": ("tests/determinism/families.axon",),
}
IMPORTS = re.compile(r"^from axon\.[\w.]+ import (\([^)]*\)|.*)\n", re.M)
TOGETHER = 40  # files of one process


def files(stages: str) -> list[str]:
    return sorted({str(path.relative_to(ROOT)) for pattern in SETS[stages] for path in ROOT.glob(pattern)})


def made(stages: str, paths: Sequence[str], jobs: int = 2) -> dict[str, dict[str, str]]:
    """The texts of files, by what they are, from processes of their own. Machine code is without names and comments."""
    chunks = [paths[at : at + TOGETHER] for at in range(0, len(paths), TOGETHER)]
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "NO_COLOR": "1", "AXON_CACHE": cache}
        while chunks:
            some, chunks = chunks[:jobs], chunks[jobs:]
            started = [
                subprocess.Popen(
                    [sys.executable, str(HERE / "texts.py"), "0", stages.replace("sass", "sass,cubin"), *chunk],
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                    cwd=ROOT,
                )
                for chunk in some
            ]
            for process in started:
                answer = process.communicate()[0]
                assert process.returncode == 0
                found |= json.loads(answer)
    if stages == "sass":
        return {
            file: {what: machine(text) for what, text in texts.items() if what.endswith(" sass")} for file, texts in found.items()
        }
    return found


def machine(sass: str) -> str:
    """The instructions alone: without names and places for debuggers, and without mangled names, which count what was compiled."""
    return "\n".join(re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(.*?;)", re.sub(r"_ZN\w+", "function", sass), re.M))


def digests(texts: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """By file and stage: the texts of all functions of a file are one. Where emitted code finds Axon's own modules is left out."""
    found: dict[str, dict[str, str]] = {}
    for file, parts in texts.items():
        stages = sorted({what.split()[-1] for what in parts})
        for stage in stages:
            whole = "\0".join(f"{what}\0{text}" for what, text in sorted(parts.items()) if what.split()[-1] == stage)
            found.setdefault(file, {})[stage] = hashlib.sha256(IMPORTS.sub("", whole).encode()).hexdigest()[:16]
    return found


def table() -> dict[str, dict[str, str]]:
    read: dict[str, dict[str, str]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return read


def differing(now: dict[str, dict[str, str]], stages: Iterable[str] = ()) -> list[str]:
    """What is not as in the table, of the files and stages given."""
    then = table()
    return [
        f"{file} {stage}"
        for file, digests in sorted(now.items())
        for stage in sorted({*digests, *(s for s in then.get(file, {}) if s in stages)})
        if then.get(file, {}).get(stage) != digests.get(stage)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--show", nargs=2, metavar=("FILE", "WHAT"))
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.show:
        file, what = given.show
        stages = next((stages for stages in SETS if what.split()[-1] in stages.split(",")), HOST)
        texts = made(stages, [file])[file]
        print("\n".join(text for name, text in texts.items() if what in (name, name.split()[-1])))  # of a function, or of all
        return 0
    now: dict[str, dict[str, str]] = {}
    for stages in SETS:
        for file, found in digests(made(stages, files(stages), given.jobs)).items():
            now[file] = now.get(file, {}) | found
    if given.write:
        TABLE.write_text(json.dumps(now, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    wrong = differing(now) + [f"{file} is gone" for file in table() if file not in now]
    print("\n".join(wrong) or f"{sum(map(len, now.values()))} texts of {len(now)} files are as in the table")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
