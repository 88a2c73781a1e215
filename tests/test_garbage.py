"""What a phase leaves is not gone through as what is young, all is when enough was left, and what others froze stays frozen."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import gc
from axon import compiler

lines = "\\n      ".join(f"val a{n} = for i => sin a{n - 1}[i] * {n}.5" for n in range(1, 200))
text = f"fun f (a0 : f32[d]) =\\n  let {lines}\\n  in a199 end\\n"
compiler.check_text(text)  # imports what checks
gc.collect()
kept = compiler.check_text(text)
young = len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1))
assert gc.isenabled() and young < 3_000 < compiler._left, (young, compiler._left)

compiler._MUCH = 1_000
before = gc.get_stats()[2]["collections"]
compiler.check_text(text)
assert gc.get_stats()[2]["collections"] == before + 1 and compiler._left == 0 < compiler._before
compiler.check_text(text + "fun g x = x\\n")
assert gc.get_stats()[2]["collections"] == before + 1  # not before as much was left again

gc.freeze()
frozen = gc.get_freeze_count()
compiler.check_text(text + "fun h x = x\\n")
assert gc.get_freeze_count() >= frozen - 100 > 0
gc.disable()
compiler.check_text(text + "fun k x = x\\n")
assert not gc.isenabled()
"""


def test_collection_after_a_phase() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, env=dict(os.environ), timeout=60)
