"""Coverage-guided fuzzing of the parser and the checker, with atheris: `make fuzz`, or

    python -m tests.fuzz.fuzz_check --seconds 600 [--work DIR]

Texts are mutated by tokens (see `mutate`) or by bytes; those that find new branches of Axon's code are kept. A crash, a hang or
a traceback ends the run with exit status 1; the shortest text that still shows it is written to DIR/found.axon. Needs
`pip install '.[fuzz]'`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

FOUND = "found.axon"


def failure(text: str) -> str | None:
    """What is wrong with how a text is checked, in one word, so that shrinking keeps the mistake."""
    from tests.fuzz.fuzz_target import check

    try:
        check(text)
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
        return f"{type(error).__name__} at {place}"
    return None


def shrunk(text: str, fails: Callable[[str], bool]) -> str:
    """A text from which no run of tokens can be taken without its ceasing to fail, halving the runs."""
    from tests.fuzz.mutate import tokens

    parts, size = tokens(text), len(tokens(text)) // 2
    while size:
        at = 0
        while at < len(parts):
            fewer = parts[:at] + parts[at + size :]
            if fails("".join(fewer)):
                parts = fewer
            else:
                at += size
        size //= 2
    return "".join(parts)


def fuzz(work: Path, seconds: int) -> None:
    """Runs until something is found or the time is over; libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["axon"]):
        import axon.checker.check
        import axon.grammar.parse  # noqa: F401
        from tests.fuzz.fuzz_target import check, library
    from tests.fuzz.mutate import LARGEST, mutated, seeds

    library()
    corpus = work / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for k, text in enumerate(seeds()):
        (corpus / f"seed{k:04}").write_text(text)

    def one(data: bytes) -> None:
        text = data.decode("utf-8", errors="replace")
        try:
            check(text)
        except Exception:
            (work / FOUND).write_text(text)
            raise

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        chance = Random(seed)
        if chance.random() < 0.15:
            return bytes(atheris.Mutate(data, most))
        return mutated(data.decode("utf-8", errors="replace"), chance).encode()[:most]

    options = [sys.argv[0], f"-max_total_time={seconds}", f"-max_len={2 * LARGEST}", "-timeout=120", "-rss_limit_mb=4096"]
    atheris.Setup([*options, f"-artifact_prefix={work}/", str(corpus)], one, custom_mutator=mutator)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--work", type=Path, default=Path(".fuzz"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    work = given.work.resolve()
    if given.inside:
        fuzz(work, given.seconds)
        return 0
    work.mkdir(parents=True, exist_ok=True)
    (work / FOUND).unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.fuzz_check", "--inside", "--seconds", str(given.seconds), "--work", str(work)]
    status = subprocess.run(command, env={**os.environ, "AXON_DEBUG": "1"}).returncode
    found = work / FOUND
    if found.exists():
        os.environ["AXON_DEBUG"] = "1"
        text = found.read_text()
        what = failure(text)
        if what is not None and not what.startswith("Hang"):
            found.write_text(shrunk(text, lambda t: failure(t) == what))
        print(f"{what or 'fails only after other texts'}: {found}\n{found.read_text()}")
        return 1
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main())
