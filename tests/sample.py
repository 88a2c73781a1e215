"""Which of many files and cases `make test` looks at: some, by a hash of what they hold, so that an edited one comes or goes.

All of them in the soak and where goldens are written anew. Continuous integration looks at all files, and at twice as many
cases of the slow ones.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from zlib import crc32

import pytest

SOAK = bool(os.environ.get("AXON_SOAK"))
EVERY = SOAK or bool(os.environ.get("AXON_UPDATE"))
ALL = EVERY or bool(os.environ.get("CI"))

# Files of many cases of a kind, and one in how many of each test's `make test` runs. By file: what they look at is slow.
CASES = {
    "tests/attacks/test_hostile_calls.py": 4,
    "tests/attacks/test_hostile_programs.py": 6,
    "tests/backend/c/test_calls.py": 6,
    "tests/backend/c/test_contract.py": 3,
    "tests/backend/c/test_library.py": 3,
    "tests/backend/c/test_products.py": 3,
    "tests/backend/c/test_random_programs.py": 3,
    "tests/backend/cpu/test_random_programs.py": 3,
    "tests/backend/gpu/build/test_build.py": 6,
    "tests/backend/gpu/build/test_chips.py": 4,
    "tests/backend/gpu/emit/test_emitted_scalars.py": 4,
    "tests/backend/gpu/emit/test_pages.py": 4,
    "tests/backend/gpu/layout/test_views.py": 3,
    "tests/backend/gpu/proof/test_prove.py": 6,
    "tests/backend/gpu/proof/test_prove_stream.py": 4,
    "tests/backend/gpu/proof/test_simulate.py": 3,
    "tests/backend/gpu/proof/test_simulated_programs.py": 3,
    "tests/backend/gpu/report/test_show.py": 6,
    "tests/backend/gpu/runtime/test_emulated.py": 6,
    "tests/backend/gpu/runtime/test_histories.py": 6,
    "tests/backend/gpu/runtime/test_names_of_users.py": 4,
    "tests/backend/gpu/runtime/test_scripts.py": 6,
    "tests/backend/gpu/runtime/test_spreading.py": 4,
    "tests/backend/gpu/runtime/test_torch.py": 4,
    "tests/backend/gpu/runtime/test_variants.py": 4,
    "tests/backend/gpu/runtime/test_wide_indices.py": 4,
    "tests/backend/gpu/shipped/test_open.py": 3,
    "tests/backend/gpu/simt/test_axes_as_one.py": 4,
    "tests/backend/gpu/simt/test_emit.py": 6,
    "tests/backend/gpu/simt/test_general.py": 4,
    "tests/backend/gpu/simt/test_tails.py": 6,
    "tests/backend/gpu/sorting/test_sorting.py": 4,
    "tests/backend/gpu/tile/test_assembled.py": 4,
    "tests/backend/gpu/tile/test_divided.py": 4,
    "tests/backend/gpu/tile/test_eight_bits.py": 4,
    "tests/backend/gpu/tile/test_families.py": 4,
    "tests/backend/gpu/tile/test_kept_statistics.py": 4,
    "tests/backend/gpu/tile/test_merged_sides.py": 6,
    "tests/backend/gpu/tile/test_packed_operands.py": 4,
    "tests/backend/gpu/tile/test_pages.py": 4,
    "tests/backend/gpu/tile/test_recompute.py": 3,
    "tests/backend/gpu/tile/test_stream.py": 4,
    "tests/backend/gpu/tile/test_summed_indices.py": 4,
    "tests/backend/gpu/tile/test_windows.py": 6,
    "tests/chance/test_editors.py": 4,
    "tests/chance/test_graph.py": 3,
    "tests/chance/test_summed.py": 3,
    "tests/corpus/test_accepted.py": 4,
    "tests/corpus/test_examples.py": 3,
    "tests/corpus/test_rejected.py": 6,
    "tests/host/inference/test_infer.py": 4,
    "tests/host/pytorch/test_operators.py": 6,
    "tests/host/pytorch/test_traced.py": 4,
    "tests/host/test_autograd.py": 4,
    "tests/host/test_cost.py": 3,
    "tests/host/test_sizes.py": 4,
    "tests/host/test_solve.py": 4,
    "tests/language/test_conditions.py": 3,
    "tests/language/test_contracts_hold.py": 4,
    "tests/language/test_dependent_ranges.py": 4,
    "tests/language/test_empty_ranges.py": 3,
    "tests/language/test_exact_sizes.py": 3,
    "tests/language/test_gradients.py": 4,
    "tests/language/test_guarded_accesses.py": 4,
    "tests/language/test_guarded_sizes.py": 8,
    "tests/language/test_integers.py": 4,
    "tests/language/test_leaves.py": 3,
    "tests/library/test_dist.py": 3,
    "tests/library/test_library.py": 6,
    "tests/library/test_optim.py": 4,
    "tests/library/test_random.py": 4,
    "tests/library/test_torch.py": 4,
    "tests/lower/test_guarded_reads.py": 3,
    "tests/models/test_model_mistakes.py": 6,
    "tests/models/test_model_signatures.py": 3,
    "tests/suites/test_first_programs.py": 3,
    "tests/suites/test_jax.py": 3,
    "tests/tools/editor/test_analysis.py": 6,
    "tests/tools/editor/test_prefixes.py": 6,
    "tests/tools/onnx/test_exports.py": 6,
    "tests/tools/prompt/test_computing.py": 4,
    "tests/types/test_functions_of_sizes.py": 4,
}


def share(one_in: int) -> int:
    """Of how many slow cases one is looked at, where `make test` looks at one in so many."""
    return 1 if EVERY else -(-one_in // 2) if ALL else one_in


def chosen(file: Path, one_in: int) -> bool:
    return ALL or not file.is_file() or crc32(file.read_bytes()) % one_in == 0


def named(files: Sequence[Path], one_in: int) -> list[Path]:
    """Some files, by their names alone: one more or one less changes nothing for the others, as every so many-th would."""
    return [file for file in files if SOAK or crc32(file.name.encode()) % one_in == 0]


def drawn(text: str, one_in: int) -> bool:
    """Whether a case is looked at, by a text that tells it from those like it."""
    return ALL or crc32(text.encode("utf-8", "surrogatepass")) % one_in == 0


def some(files: Sequence[Path], one_in: int) -> list[Path]:
    return [file for file in files if chosen(file, one_in)]


def thinned(places: Sequence[int], text: str, one_in: int) -> list[int]:
    """Every so many-th place in a text, from one that the text decides, and the last."""
    step = share(one_in)
    first = crc32(text.encode("utf-8", "surrogatepass")) % step
    return sorted({*places[first::step], *places[-1:]})


def of_each_kind(items: Sequence[pytest.Item], one_in: Mapping[str, int]) -> list[pytest.Item]:
    """Of the cases of each test in these files, by their names: one in so many, and one at least. Snapshots are all looked at."""
    found: dict[str, list[tuple[int, pytest.Item]]] = defaultdict(list)
    left = set()
    for item in items:
        file, _, _ = item.nodeid.partition("::")
        kind, case, _ = item.nodeid.partition("[")
        if file in one_in and case and "snapshot" not in getattr(item, "fixturenames", ()):
            found[kind].append((crc32(item.nodeid.encode("utf-8", "surrogatepass")), item))
    for kind, cases in found.items():
        least, often = min(number for number, _ in cases), one_in[kind.partition("::")[0]]
        left |= {item for number, item in cases if number % often and number != least}
    return [item for item in items if item not in left]
