"""What the instructions of a kernel need of its chip: a verifier of the module that goes to the compiler.

    lacking   LLVM's text of a module, and a chip -> the first instruction in it that the chip does not have, and why

Intrinsics write PTX into the module, where nothing looks at it before the assembler does; which says of a whole kernel that some
line of a text that nobody has seen needs another chip. Every instruction that intrinsics use is in the table here, by opcode; one
that is not is refused too, so that whoever adds one says since when it exists (PTX ISA, "Target ISA Notes" of each instruction).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from axon.backend.gpu.layout.target import (
    ASYNC_COPIES,
    BARRIERS,
    BF16,
    BULK_COPIES,
    CLUSTERS,
    F64_PRODUCTS,
    FLOATS_OF_8_BITS,
    MATRIX_STORES,
    NAN_EXTREMES,
    PRODUCTS,
    WGMMA,
    Capability,
    Feature,
    architecture,
)

# Opcodes that every chip from 7.5 on has, whatever is appended but what `_NEEDS` names.
_EVERYWHERE = frozenset((
    "abs", "add", "and", "atom", "bar", "bfe", "bra", "clz", "copysign", "cvt", "cvta", "div", "ex2", "fma", "ld", "ldmatrix",
    "lg2", "mad", "max", "min", "mov", "mul", "neg", "not", "or", "popc", "prmt", "rcp", "red", "rem", "rsqrt", "selp", "setp",
    "shf", "shfl", "shl", "shr", "sqrt", "st", "sub", "vote", "xor",
))  # fmt: skip
_NEEDS: tuple[tuple[re.Pattern[str], Feature], ...] = tuple(
    (re.compile(pattern), feature)
    for pattern, feature in (
        (r"wgmma\.|setmaxnreg\.", WGMMA),
        (r"stmatrix\.", MATRIX_STORES),
        (r"mma\.sync\.aligned\.m16n8k(4|8|16)\.row\.col\.f64\.", F64_PRODUCTS),
        (r"mma\.sync\.aligned\.(m16n8k16\.row\.col\.f32\.b?f16\.|m8n8k4\.row\.col\.f64\.)", PRODUCTS),
        (r"mbarrier\.(init|arrive)\.shared::cta\b", BARRIERS),  # those that count bytes, and waits that sleep, came later
        (r"barrier\.cluster\.|mapa\b|st\.async\.|.*\.multicast::cluster\b|(ld|st)\.shared::cluster\b|.*%n?cluster", CLUSTERS),
        (r"mbarrier\.|cp\.async\.bulk\.|fence\.proxy\.async\b|fence\.mbarrier_init\b", BULK_COPIES),
        (r"cp\.async\.", ASYNC_COPIES),
        (r"cvt\..*\be4m3x2\.", FLOATS_OF_8_BITS),
        (r"cvt\..*\bb?f16x2\.|cvt\..*\bbf16\b", BF16),
        (r"(max|min)\.NaN\b", NAN_EXTREMES),
    )
)
_ASSEMBLY = re.compile(r"\basm\s+(?:sideeffect\s+)?\"([^\"]*)\"")


def lacking(module: str, chip: Capability) -> str | None:
    """Why a chip cannot run a module; None if it can."""
    for instruction in instructions(module):
        found = needed(instruction)
        if isinstance(found, str):
            return found
        if found is not None and not found.on(chip):
            return f"`{instruction}` needs {found.name}, which {architecture(chip)} lacks"
    return None


def needed(instruction: str) -> Feature | str | None:
    """The feature that an instruction needs; None for none, and a text about one that nobody knows."""
    for pattern, feature in _NEEDS:
        if pattern.match(instruction):
            return feature
    return (
        None if instruction.partition(".")[0].partition(" ")[0] in _EVERYWHERE else f"nobody knows which chips have `{instruction}`"
    )


def instructions(module: str) -> Iterator[str]:
    """The instructions of PTX in LLVM's text of a module, each once, without their predicates."""
    seen = set[str]()
    for text in _ASSEMBLY.findall(module):
        for line in split(re.sub(r"\\([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), text)):
            if line not in seen:
                seen.add(line)
                yield line


def split(text: str) -> Iterator[str]:
    """The instructions of a text of PTX, without predicates, labels and declarations."""
    for line in text.split(";"):
        line = re.sub(r"^[{}\s]*(\w+:)?[{}\s]*(@!?\w+\s+)?", "", line).strip(" {}\n")
        line = re.sub(r"^(\w+:)\s*", "", line)
        if line and not line.startswith("."):
            yield line
