"""What the command line shows of a kernel, without a GPU."""

from __future__ import annotations

import re

import pytest

from axon import compiler
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.report.show import explain, show
from axon.base.names import Symbol
from axon.core.ir import Program

pytestmark = pytest.mark.usefixtures("module_cache")


def program(text: str) -> Program:
    return compiler.lower(compiler.check_text(text), "f", None)


FILTER = "fun f (x : f32[n]) = let val (ix : i32[k]) = nonzero (for i => x[i] > 0.0) in for i => exp x[ix[i]] end"
PRODUCT = "fun f (a : bf16[m, k]) (b : bf16[k, n]) = a @ b"


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("tile", "acc += left · right over k"),
        ("roles", "retire all but 1"),
        ("barriers", "arrive ring.full, expect 49152 bytes"),
        ("kernel", "def kernel(a_map, b_map"),
        ("ptx", ".visible .entry kernel(\n\t.param .align 64 .b8 a_map[128],"),
        ("ptx", "wgmma.mma_async.sync.aligned"),
    ],
)
def test_stages_of_a_source_program(stage: str, words: str) -> None:
    assert words in show(program(PRODUCT), stage)


def test_explain_names_the_choice_and_what_it_was_preferred_to() -> None:
    core = program(PRODUCT)
    m, k = (d.symbol for d in core.inputs[0].shape)
    assert m is not None
    assert k is not None
    assumed, *lines = explain(core, {m: 16, k: 14336}).splitlines()
    assert assumed == "with 4096 for n, which no argument gives"
    assert lines[0] == "contraction over (i, j, k) = 16 × 4096 × 14336: 1,879,048,192 FLOPs, moves 118,030,336 bytes"
    assert "registers" in lines[1]
    assert "bytes of shared memory" in lines[1]
    assert "occupancy" in lines[1]
    assert lines[2].startswith("  chosen")
    assert "tile 64×64×128" in lines[2]
    assert len(lines) > 5


SOFTMAX = """
fun f (x : f32[n, m]) =
  let val top = for i => max j => x[i, j]
      val total = for i => sum j => exp (x[i, j] - top[i])
  in for i j => exp (x[i, j] - top[i]) / total[i] end
"""


def test_plain_kernels_have_one_role_and_are_explained_by_what_memory_moves() -> None:
    core = program(SOFTMAX)
    n, m = (d.symbol for d in core.inputs[0].shape)
    assert n is not None
    assert m is not None
    sizes = {n: 8192, m: 1024}
    for stage in ("tile", "roles", "barriers"):
        assert show(core, stage, sizes).startswith("plain: one role, no barriers\nmapping ")
    assert "def kernel(" in show(core, "kernel", sizes)
    lines = explain(core, sizes).splitlines()
    assert lines[0] == "reduce over (i) = 8192: 3 operations, 50,331,648 FLOPs, moves 67,108,864 bytes"
    assert "registers" in lines[-2]
    assert lines[-1].startswith("  chosen       18.0 µs predicted, 3733 GB/s: ")
    assert len(lines) <= 8


def test_a_product_that_is_none_for_the_tensor_cores_says_why() -> None:
    core = program("fun f (a : f64[m, k]) (b : f64[k, n]) = a @ b")
    assert (
        "  not on the tensor cores: matrix instructions here take bf16, f16, f32, f8e4m3, f8e5m2, i8 and u8, not f64"
        in explain(core).splitlines()
    )


def test_a_loop_shows_the_kernels_of_its_step() -> None:
    core = program("fun f (a : bf16[n, n]) (x : bf16[n, m]) = loop (y = x) for i < 3 => a @ y")
    assumed, first = explain(core).splitlines()[:2]
    assert assumed == "with 4096 for n and m, which no argument gives"
    assert first.startswith("contraction over (i, j, k) = 4096 × 4096 × 4096: ")


def sizes(core: Program, **named: int) -> dict[Symbol, int]:
    return {s: named[s.name] for v in core.inputs for d in v.shape for s in d.variables if s.name in named}


@pytest.mark.parametrize(
    ("text", "given", "line"),
    [
        ("fun f (x : f32[n]) = exp x", {"n": 7}, None),
        ("fun f (x : f32[n]) = exp x", {}, "with 4096 for n, which no argument gives"),
        ("fun f x y = x @ y", {}, "with 4096 for 3 sizes, which no argument gives"),
        (
            "fun f (x : f32[n, m]) (y : f32[a, b, c]) (z : f32[d, e, g]) = (exp x, exp y, exp z)",
            {"m": 3},
            "with 4096 for n, a, b, c, d, e and 1 more, which no argument gives",
        ),
        (FILTER, {"n": 1000}, "with k = 1000, the most that data can give"),
        (FILTER, {}, "with 4096 for n, which no argument gives; with k = 4096, the most that data can give"),
        (
            "fun f (x : f32[n]) = loop (s = x) for t < n => for i => s[i] + sum for j < t => x[j]",
            {"n": 100},
            "with t = 50, half-way through a loop",
        ),
        ("fun f (x : f32[n]) = loop (s = x) for t < n => for i => s[i] + cast _ t", {"n": 100}, None),  # t is a number alone
    ],
)
def test_sizes_that_nobody_gave_are_said(text: str, given: dict[str, int], line: str | None) -> None:
    core = program(text)
    said = [one for one in explain(core, sizes(core, **given)).splitlines() if one.startswith("with ")]
    assert said == ([] if line is None else [line])


def test_a_size_that_data_decide_is_the_most_that_it_can_be() -> None:
    """As where kernels are built before a call."""
    core = program(FILTER)
    assert "gather over (i) = 1000: " in explain(core, sizes(core, n=1000))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("fun f (x : f32[n, m]) = for i j => x[i, j] * 2.0", "map over (i, j) = 5 × 0"),
        ("fun f (x : f32[n, m]) = for i => scan (op +, 0.0) j => x[i, j]", "scan over (i) = 5"),
        ("fun f (a : bf16[n, k]) (b : bf16[k, m]) = a @ b", "contraction over (i, j, k) = 5 × 0 × 4096"),
    ],
)
def test_what_has_no_elements_is_not_launched(text: str, line: str) -> None:
    core = program(text)
    assert f"{line}: no elements, so nothing is launched" in explain(core, sizes(core, n=5, m=0)).splitlines()
    with pytest.raises(Unsupported, match="its result has no elements, so nothing runs"):
        show(core, "kernel", sizes(core, n=5, m=0))


def test_what_has_no_elements_beside_what_has_some() -> None:
    core = program("fun f (x : f32[n, m]) = let val y = for i j => exp x[i, j] in (y, for i => sum j => y[n - 1 - i, j]) end")
    assert show(core, "kernel", sizes(core, n=5, m=0)).count("def kernel(") == 1
    lines = explain(core, sizes(core, n=5, m=0)).splitlines()
    assert [line.partition(":")[0] for line in lines if " over " in line] == ["map over (i, j) = 5 × 0", "reduce over (i) = 5"]


def test_what_may_stop_the_program_is_done_for_each_row() -> None:
    core = program("fun f (x : f32[n, m]) (k : i32[n]) = for i => let val a = argmax j => x[k[i], j] in for j < m => a + j end")
    assert "no elements" not in explain(core, sizes(core, n=5, m=0))


def test_axes_have_names_of_their_own() -> None:
    core = program("fun f (x : f32[2, 3, i2, n]) = for ..i j => x[..i, j] - (sum k => x[..i, k])")
    (line,) = (line for line in explain(core).splitlines() if " over (" in line)
    assert line.startswith("reduce over (i, i3, i4) = 2 × 3 × 4096: ")


def test_one_thread_is_one() -> None:
    said = explain(program("fun f (x : f32[n, 1]) = for i => argmax j => x[i, j]"))
    assert "1 thread of a warp for each row" in said
    assert "1 time in registers" in said
    assert "1 threads" not in said


def test_arithmetic_that_takes_longer_than_memory_is_predicted() -> None:
    """By 6e13 operations on floats, and 3e13 others, a second; a comparison is no FLOP."""
    core = program("fun f (x : f32[n]) (y : f32[m]) = for i => sum j => exp (x[i] + y[j])")
    n, m = (value.shape[0].symbol for value in core.inputs)
    assert n is not None
    assert m is not None
    assert "    216.7 µs predicted,   59 TFLOP/s" in explain(core, {n: 65_536, m: 65_536})
    core = program("fun f (x : f32[n]) (y : f32[m]) = for i => any j => x[i] <= y[j]")
    n, m = (value.shape[0].symbol for value in core.inputs)
    assert n is not None
    assert m is not None
    said = explain(core, {n: 65_536, m: 65_536})
    assert " 0 FLOPs, moves 589,824 bytes" in said
    assert "    288.3 µs predicted" in said


def test_what_each_row_loads_again_is_predicted() -> None:
    """From the cache, or from memory if it is too large for that: of products in f32, 8.5 and 919 µs were measured."""
    last = "reduce (fn x y => if y > 0.0 then y else x, 0.0)"  # for which there are no register tiles
    core = program(f"fun f (a : f32[m, k]) (b : f32[n, k]) = for i j => {last} c => a[i, c] - b[j, c]")

    def said(m: int, n: int, k: int) -> str:
        return explain(core, core.contract.bind((), [(m, k), (n, k)]))

    assert "  loads 67,108,864 bytes, since each row reads the same again\n" in said(256, 256, 256)
    assert " 8.5 µs predicted" in said(256, 256, 256)
    assert " 1024.6 µs predicted" in said(64, 4096, 4096)
    assert "loads" not in said(1, 4096, 4096)
    assert " 18.0 µs predicted, 3733 GB/s" in said(1, 4096, 4096)
    scatter = program("fun f {k} (ids : i32[n]) (x : f32[n, d]) = for b < k, j => sum for i where ids[i] = b => x[i, j]")
    few = scatter.contract.bind((4,), [(64,), (64, 8)])  # of more it makes segments
    assert "loads" not in explain(scatter, few)
    assert "scatter over" in explain(scatter, few)


def test_register_tiles_are_predicted() -> None:
    """17.9 µs were measured, on an H100."""
    core = program("fun f (a : f32[m, k]) (b : f32[n, k]) = for i j => max c => abs (a[i, c] - b[j, c])")
    said = explain(core, core.contract.bind((), [(112, 319), (1841, 319)]))
    assert "a block for 64 × 64 places, 4 × 4 of a thread" in said
    assert "loads" not in said
    assert 12 < float(re.findall(r"([\d.]+) µs predicted", said)[0]) < 26


def test_what_rows_of_different_lengths_load_again_is_counted() -> None:
    """Each at its longest, as operations are."""
    core = program("fun f (a : f32[n, n]) (b : f32[k, n]) = for i j => sum for c < i + 1 => abs (a[i, c] - b[j, c])")
    assert "  loads 67,108,864 bytes, since" in explain(core, core.contract.bind((), [(256, 256), (256, 256)]))


def test_what_is_loaded_again_is_counted_at_sizes_whose_formula_has_too_many_parts() -> None:
    core = program(
        "import nn\nfun f x k = let val y = nn.max_pool3d {2, 2, 0} (nn.conv3d_transpose_with {2, 1, 1, 1, 1} x k) in\n"
        "  for n => nn.softmax_first y[n, ..] end"
    )
    said = explain(core, core.contract.bind((), [(2, 3, 4, 5, 6), (3, 16, 3, 3, 3)]))
    assert "map over (n, i, j, j2, j3) = 2 × 16 × 4 × 5 × 6" in said


def test_of_a_table_what_is_looked_up_is_moved() -> None:
    core = program("fun f (t : f32[v, d]) (ids : i32[n]) = for i j => t[ids[i], j]")
    v, d = (size.symbol for size in core.inputs[0].shape)
    (n,) = (size.symbol for size in core.inputs[1].shape)
    assert v is not None
    assert d is not None
    assert n is not None
    assert f"moves {4 * (2 * 128 * 512 + 128):,} bytes" in explain(core, {v: 50_000, d: 512, n: 128})
    assert f"moves {4 * (10 * 512 + 128 * 512 + 128):,} bytes" in explain(core, {v: 10, d: 512, n: 128})


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [(256, 32, 0, 8), (256, 33, 0, 6), (1024, 64, 0, 1), (32, 16, 0, 32), (128, 40, 16 * 1024, 12), (384, 168, 230_400, 1)],
)
def test_occupancy(threads: int, registers: int, shared: int, blocks: int) -> None:
    assert HOPPER.occupancy(threads, registers, shared) == blocks


def test_what_runs_nothing_says_so() -> None:
    core = program("fun f (x : f32[n]) = exp x")
    (n,) = (d.symbol for d in core.inputs[0].shape)
    assert n is not None
    with pytest.raises(Unsupported, match="nothing runs"):
        show(core, "kernel", {n: 0})
