"""Every chip of the table: kernels of each mapping become its machine code, and only of instructions that it has."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numba.cuda import types
from numba.cuda.descriptor import cuda_target

from axon.backend.gpu.build import cubin as build
from axon.backend.gpu.build.instructions import lacking, needed, split
from axon.backend.gpu.build.recipe import Plain
from axon.backend.gpu.intrinsics import ptx, ptx_fragments, ptx_pieces, ptx_scalar
from axon.backend.gpu.layout.register_tiles import FRAGMENTS, NARROW_FRAGMENTS
from axon.backend.gpu.layout.target import (
    BF16,
    BULK_COPIES,
    CHIPS,
    CLUSTERS,
    FEATURES,
    HOPPER,
    PRODUCTS,
    WGMMA,
    Target,
    architecture,
    row_of,
)
from axon.backend.gpu.simt.register_tiles import TAKEN
from axon.backend.gpu.sorting.steps import kernels
from axon.base.data import replace
from axon.base.element import Element
from tests.backend.gpu.simt.plain_cases import case, form, plain
from tests.backend.gpu.simt.plain_programs import INTEGERS, SOURCE
from tests.backend.gpu.simt.test_emit import executable
from tests.backend.gpu.simt.test_fragments import case as product_case
from tests.backend.gpu.simt.test_fragments import mapping
from tests.sample import ALL, SOAK

OTHERS = [chip for chip in CHIPS if chip is not HOPPER]
# One or more of each mapping of docs/plain.md: program, element type, size.
MAPPED = (
    (SOURCE, "gelu", "f32", (64, 256)), (SOURCE, "gelu", "bf16", (64, 256)), (SOURCE, "gelu", "f8e4m3", (64, 256)),
    (SOURCE, "embed", "f16", (64, 256)), (SOURCE, "rotary", "bf16", (64, 256)), (SOURCE, "colsum", "bf16", (4096, 64)),
    (SOURCE, "cumcol", "f32", (64, 64)), (SOURCE, "transpose", "f32", (256, 256)), (SOURCE, "transpose", "bf16", (4096, 4096)),
    (SOURCE, "wide", "f32", (64, 100)), (SOURCE, "wide", "bf16", (512, 4096)), (SOURCE, "wide", "bf16", (512, 65536)),
    (SOURCE, "layer_norm", "f32", (512, 32768)), (SOURCE, "layer_norm", "bf16", (4, 1 << 20)), (SOURCE, "cum", "f32", (64, 1024)),
    (SOURCE, "ragged", "f32", (4096, 256)), (SOURCE, "anyall", "f16", (64, 256)), (SOURCE, "best", "f64", (64, 4096)),
    (SOURCE, "variance", "f64", (64, 256)), (SOURCE, "special", "f32", (64, 64)), (SOURCE, "farthest", "f32", (512, 512)),
    (SOURCE, "product", "f32", (1024, 1024)), (SOURCE, "product", "bf16", (128, 8192)), (SOURCE, "product", "f64", (512, 512)),
    (SOURCE, "product", "f16", (2048, 2048)),
    (INTEGERS, "sums", "i64", (64, 256)), (INTEGERS, "product", "i8", (512, 512)), (INTEGERS, "bits", "u16", (64, 64)),
)  # fmt: skip
SORTED = (Element.F32, Element.I64, None)  # of keys and their places in one word, and in two; a compress


def mapped(chip: Target, source: str, name: str, element: str, size: tuple[int, int]) -> list[Plain]:
    """The kernels of a program in the mappings that are chosen for it on a chip, and those for any size."""
    given = case(plain(executable(source, name, element).program, chip), size)
    both = ((given.ready(nest).wanted, *([given.ready(nest).general()] if SOAK else [])) for nest in given.todo)
    return [Plain(form(given, nest, m)[0], spills=True) for nest, pair in zip(given.todo, both, strict=True) for m in pair]


@pytest.mark.parametrize("chip", OTHERS, ids=lambda chip: chip.name)
def test_kernels_of_each_mapping_are_built(chip: Target) -> None:
    programs = MAPPED if ALL else Random(chip.name).sample(MAPPED, 1)
    wanted = [made for one in programs for made in mapped(chip, *one)]
    sorts = [made for element in SORTED for made in kernels(element, 2, chip)]
    wanted += sorts if SOAK else Random(chip.name).sample(sorts, 3 if ALL else int(chip.name in ("sm_75", "sm_89")))
    sources = list({one.source.text: one for one in wanted}.values())
    for one, made in zip(sources, build.build_all(sources, chip), strict=True):
        assert isinstance(made, build.LinkedKernel), one.source.text
        assert one.source.shared <= chip.shared_per_block
        assert one.source.cluster <= chip.largest_cluster


@pytest.mark.parametrize("chip", [chip for chip in OTHERS if chip.has(PRODUCTS)], ids=lambda chip: chip.name)
def test_tiles_of_tensor_instructions_are_built(chip: Target) -> None:
    """None spills, and a multiprocessor has room for as many blocks as are said to be there at once."""
    fitting = [tile for tile in NARROW_FRAGMENTS if tile.lines <= chip.shared_per_block]
    drawn = fitting if SOAK else Random(chip.name).sample(fitting, 1 if ALL or chip.name in ("sm_80", "sm_89") else 0)
    made = [(f"{{}} (a : {e}[m, k]) (b : {e}[k, n]) = a @ b", tile) for e, tile in zip(("bf16", "f16") * 9, drawn, strict=False)]
    made += [("{} (a : f64[m, k]) (b : f64[k, n]) = a @ b", tile) for tile in FRAGMENTS[:: 1 if SOAK else 10] if chip.tensor_f64]
    for text, tile in made:
        given = product_case(text.format("fun f"), dict.fromkeys("mnk", 1024), np.random.default_rng(0), chip=chip)
        (nest,) = given.todo
        chosen_mapping = mapping(given, tile, most=TAKEN)
        assert chosen_mapping.tiled is not None
        tiled = replace(chosen_mapping.tiled, resident=tile.resident(1, 3, chip))
        source = form(given, nest, replace(chosen_mapping, tiled=tiled))[0]
        assert source.shared <= tile.lines <= chip.shared_per_block
        built = build.compile_source(source, chip)
        assert isinstance(built, build.LinkedKernel), tile
        assert chip.occupancy(source.threads, built.registers, source.shared) >= tiled.resident


def test_a_chip_runs_what_was_made_for_an_earlier_one() -> None:
    """The instructions of the earlier one as code of the later: what forces a chip on another."""
    early = CHIPS[0]
    (source,) = (one.source for one in mapped(early, SOURCE, "gelu", "bf16", (64, 256))[:1])
    forced = early.on(HOPPER.compute_capability)
    own, both = (build.compile_source(source, chip).cubin for chip in (early, forced))
    assert (own[49], both[49]) == (75, 90)  # of an ELF file's flags, the architecture
    assert len({build._key(source, chip) for chip in (early, forced, HOPPER)}) == 3


def test_chips_between_those_of_the_table() -> None:
    """Of which nothing is known: they run what is made for the nearest before them."""
    for capability in ((8, 7), (10, 3), (11, 0), (12, 1))[:: 1 if ALL else 3]:
        row = row_of(capability)
        assert row is not None
        chip = row.on((*capability, ""))
        (source,) = (one.source for one in mapped(chip, SOURCE, "gelu", "bf16", (64, 256))[:1])
        assert build.compile_source(source, chip).cubin[49] == 10 * capability[0] + capability[1]


def test_what_a_chip_lacks_is_refused_before_it_is_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    """An intrinsic that does not ask which chip it is for."""
    (source,) = (one.source for one in mapped(CHIPS[0], SOURCE, "gelu", "bf16", (64, 256))[:1])
    monkeypatch.setattr(ptx_scalar, "there", lambda feature: True)
    build.compile_source(source, HOPPER)
    with pytest.raises(Exception, match=r"`min\.NaN\.f32 .*` needs .* in which a NaN wins, which sm_75 lacks"):
        build.compile_source(source, CHIPS[0])
    said = build._compiler_failed("ChipLacks: `wgmma` needs another").diagnostics[0]
    assert (said.code, said.message) == ("AX0611", "a GPU kernel could not be built: `wgmma` needs another")


# ── the table of instructions against the assembler ─────────────────────────────────────────────────────────────────────


REGISTERS = {"r": "b32", "l": "b64", "f": "f32", "d": "f64", "h": "b16"}


def refused(texts: list[tuple[str, str]], chip: str) -> set[int]:
    """Which of many texts of intrinsics, whose operands have these codes, NVIDIA's assembler does not take for a chip.
    They are functions of one module, one a line, of each of which it says all that is wrong; what it takes is asked for once more,
    without the others, as machine code."""
    bad = _complaints(texts, chip)
    good = [n for n in range(len(texts)) if n not in bad]
    return bad | {good[n] for n in _complaints([texts[n] for n in good], chip)}


def _complaints(texts: list[tuple[str, str]], chip: str) -> set[int]:
    from cuda.core import Linker, LinkerOptions, ObjectCode

    lines = [f".version 9.0 .target {chip} .address_size 64"]
    for n, (text, codes) in enumerate(texts):
        registers = " ".join(f".reg .{REGISTERS[code]} x{i};" for i, code in enumerate(codes))
        text = re.sub(r"\$(\d+)", r"x\1", text).replace("\n", " ")
        lines.append(f".visible .entry k{n}() .reqntid 128 {{ {registers} {text} ret; }}")
    try:
        Linker(ObjectCode.from_ptx("\n".join(lines).encode()), options=LinkerOptions(arch=chip, no_cache=True)).link("cubin")
    except Exception as error:
        found = {int(line) - 2 for line in re.findall(r"line (\d+); error", str(error))}
        assert found, str(error)
        return found
    return set()


def written(made: Any, *arguments: Any) -> list[tuple[str, str]]:
    """What an intrinsic writes for arguments of these types of numba: texts of PTX, and the codes of their operands."""
    function = ir.Function(module := ir.Module(), ir.FunctionType(ir.VoidType(), []), "f")
    arguments = arguments or (types.int32,) * (len(made._defn.__signature__.parameters) - 1)
    signature, generate = made._defn(None, *arguments)
    context = cuda_target.target_context
    values = [ir.Constant(context.get_value_type(argument), ir.Undefined) for argument in arguments]
    generate(context, ir.IRBuilder(function.append_basic_block()), signature, values)
    found = []
    for text, constraints in re.findall(r'asm (?:sideeffect )?"(.*?)", "(.*?)"', str(module)):
        codes = [code.strip("=&") for code in constraints.split(",") if code[0] != "~"]
        text = re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), text)
        found.append((text, "".join(codes[int(code)] if code.isdigit() else code for code in codes)))
    assert found, made
    return found


def families() -> list[tuple[str, str]]:
    """Of intrinsics that have parameters, and of those that are no rows of a table."""
    made = [one(rank) for one in (ptx.copy_in, ptx.copy_in_multicast, ptx.copy_out) for rank in range(1, 6)]
    made += [one(rank) for one in (ptx.copy_pixels, ptx.copy_pixels_multicast) for rank in range(3, 6)]
    made += [ptx.store_wait_read(1), ptx.registers(40, grow=False), ptx.registers(232, grow=True)]
    made += [ptx_pieces.__dict__[name] for name in ("cluster_arrive", "cluster_wait", "cluster_sync", "barriers_ready")]
    found = [text for one in made for text in written(one)]
    found += written(ptx_pieces.send, types.int32, types.float64, types.int32, types.int32)
    for columns, element in ((8, "bf16"), (256, "f16"), (72, "bf16")):
        held = types.UniTuple(types.float32, columns // 2)
        for transposed in (False, True):
            product = ptx.multiply(columns, element, transposed, transposed, (0,), (0,))
            found += written(product, held, types.int64, types.int64, types.int32)
        found += written(ptx.retire(columns, 1), held)
    return found


def texts() -> list[tuple[str, str]]:
    """Texts of intrinsics, with the codes of their operands."""
    found = [(entry.text, entry.result + entry.operands) for entry in ptx.INSTRUCTIONS.values()] + families()
    found += [(ptx_pieces._BULK, "rlrr"), ("cp.async.bulk.prefetch.L2.global [$0], $1;", "lr")]
    found += [("mapa.shared::cluster.u32 $0, $1, $2;", "rrr"), ("ld.shared::cluster.b32 $0, [$1];", "rr")]
    found += [(text, "rff") for text in ptx_scalar._PAIRED.values()] + [(ptx_scalar._BF16_ROUND, "ff")]
    found += [
        ("cvt.rn.bf16.f32 $0, $1;", "hf"),
        ("cvt.rn.f16.f32 $0, $1;", "hf"),
        ("cp.async.ca.shared.global [$0], [$1], 16;", "rl"),
    ]
    found += [(ptx_fragments._PRODUCT, "d" * 14), (ptx_fragments._SMALL_PRODUCT, "d" * 6), ("cp.async.wait_group 2;", "")]
    found += [(ptx_fragments._narrow_product(element), "ffffrrrrrrffff") for element in ("bf16", "f16")]
    found += [text for made in (ptx_fragments.matrices, ptx_fragments.matrices_across) for text in written(made)]
    found += [("rcp.approx.ftz.f64 $0, $1;", "dd"), ("shfl.sync.bfly.b32 $0, $1, $2, 0x1f, 0xffffffff;", "rrr")]
    return found


def test_since_when_there_are_instructions() -> None:
    """The assembler takes each text for exactly those chips of which the table says so."""
    every = texts()
    for chip in (*(chip.compute_capability for chip in CHIPS), (9, 0, "")):
        lacks = {n: why for n, (text, _) in enumerate(every) if (why := lacking(f'call void asm sideeffect "{text}", ""()', chip))}
        wrong = lacks.keys() ^ refused(every, architecture(chip))
        assert not wrong, [(architecture(chip), every[n][0], lacks.get(n)) for n in sorted(wrong)]


def test_every_instruction_is_known() -> None:
    for text, _ in texts():
        for line in split(text):
            assert not isinstance(needed(line), str), line
    assert needed("bar.sync 0") is None
    assert needed("cvt.rn.bf16x2.f32 $0, $2, $1") is BF16
    assert needed("tcgen05.mma.cta_group::1 x") == "nobody knows which chips have `tcgen05.mma.cta_group::1 x`"
    assert list(split("{ .reg .pred done; again: add.u32 a, b, c; @!done bra over; over: }")) == ["add.u32 a, b, c", "bra over"]


# ── the table of chips ──────────────────────────────────────────────────────────────────────────────────────────────────


PROGRAM = """
#include <stdio.h>
#include "cuda_occupancy.h"
int main(void) {
  int major, minor, threads, registers; size_t block, multiprocessor, taken, shared; int most;
  while (scanf("%d %d %d %zu %zu %zu %d %d %zu", &major, &minor, &most, &block, &multiprocessor, &taken, &threads, &registers,
               &shared) == 9) {
    cudaOccDeviceProp chip = {major, minor, 1024, most, 65536, 65536, 32, 48 * 1024, multiprocessor, 1, block, taken};
    cudaOccFuncAttributes kernel = {1024, registers, 0, PARTITIONED_GC_OFF, FUNC_SHMEM_LIMIT_OPTIN, block, 1, 0};
    cudaOccDeviceState state; memset(&state, 0, sizeof state); state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &chip, &kernel, &state, threads, shared)) printf("-1\\n");
    else printf("%d\\n", result.activeBlocksPerMultiprocessor);
  }
  return 0;
}
"""


def test_occupancy_is_that_of_nvidias_calculator(tmp_path: Path) -> None:
    """For all chips, of random kernels: which has tables of its own for blocks, registers and granules of shared memory."""
    nvidia = pytest.importorskip("nvidia")
    found = [f for folder in nvidia.__path__ for f in Path(folder).glob("*/include/cuda_occupancy.h")]
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not found or compiler is None:
        pytest.skip("there is no C compiler, or no toolkit")
    (tmp_path / "p.c").write_text(PROGRAM)
    command = [compiler, "-std=c99", f"-I{found[0].parent}", "-o", str(tmp_path / "p"), str(tmp_path / "p.c"), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    chance, asked, mine = Random(3), [], []
    for chip in CHIPS:
        major, minor, _ = chip.compute_capability
        limits = chip.threads_per_multiprocessor, chip.shared_per_block, chip.shared_per_multiprocessor, chip.shared_taken
        for _ in range(200):
            threads, registers = 32 * chance.randint(1, 32), chance.randint(16, 255)
            shared = chance.choice((0, chance.randint(1, chip.shared_per_block), chance.randint(1, 16384)))
            if threads * registers > 60_000:
                continue
            asked.append(" ".join(map(str, (major, minor, *limits, threads, registers, shared))))
            mine.append(chip.occupancy(threads, registers, shared))
    ran = subprocess.run([tmp_path / "p"], input="\n".join(asked), capture_output=True, text=True, check=True)
    theirs = list(map(int, ran.stdout.split()))
    assert len(theirs) == len(mine) > 300
    assert [(a, m, t) for a, m, t in zip(asked, mine, theirs, strict=True) if m != t] == []


def test_rows() -> None:
    names = [chip.name for chip in CHIPS]
    assert names == ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
    for chip in CHIPS:
        assert chip.has(CLUSTERS) == (chip.max_cluster > 1)
        # What is stated of a chip is what its multiprocessors do at the stated clock, within a twentieth.
        lanes = 128 if chip.compute_capability[:2] >= (8, 6) else 64
        assert abs(chip.f32 / (chip.multiprocessors * lanes * 2 * chip.clock) - 1) < 0.05, chip.name
        assert chip.has(FEATURES[-1]) == (chip is HOPPER)
    assert row_of((9, 0)) is HOPPER
    assert row_of((7, 0)) is None
    nearest = [row_of(capability) for capability in ((8, 7), (10, 3), (11, 0), (12, 1), (13, 0))]
    assert [row.name for row in nearest if row is not None] == ["sm_86", "sm_100", "sm_100", "sm_120", "sm_120"]
    assert replace(HOPPER, multiprocessors=114).on((9, 0, "")).linked == (9, 0, "a")
    later = HOPPER.on((10, 0, ""))
    assert (later.name, later.linked, later.has(WGMMA), later.has(BULK_COPIES)) == ("sm_90", (10, 0, ""), False, True)
