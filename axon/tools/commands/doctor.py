"""`axon doctor`: what this machine has of what Axon can use, what it lacks and what that costs, and which kernels its GPU gets.

Nothing here fails because something is not there: that is what it is about. It initializes CUDA, and imports no array library.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from axon import __version__
from axon.backend import chips, needs
from axon.backend.gpu.layout.target import BULK_COPIES, CLUSTERS, FEATURES, HOPPER, PRODUCTS, WGMMA, Target
from axon.base import disk
from axon.base.data import dataclass, fields
from axon.base.errors import AxonError

_REINSTALL = "install Axon again: it needs this package"
_EXTRAS = (
    ("prompt_toolkit", "repl", "`axon repl` cannot run"),
    ("pygls", "lsp", "`axon lsp` cannot run: editors get no errors and types"),
    ("onnx", "onnx", "`axon import` cannot run"),
    ("ipython", "notebook", "no %%axon cells in notebooks"),
)
_ARRAYS = ("torch", "jax", "cupy")
_SETTINGS = ("AXON_CACHE", "AXON_CACHE_SIZE", "AXON_THREADS", chips.SETTING, "AXON_DEBUG", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing: what it is, what there is of it, and where it lacks what that costs, and what helps."""

    name: str
    value: str
    costs: str = ""
    help: str = ""


@dataclass(frozen=True, slots=True)
class Kernels:
    """A family of kernels: whether a chip takes it, and what is done where it does not."""

    family: str
    taken: bool
    otherwise: str


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found, by subject; the chip for which kernels are made, of which GPU (None without one), and their families."""

    facts: tuple[tuple[str, tuple[Fact, ...]], ...]
    chip: Target
    device: int | None
    kernels: tuple[Kernels, ...]


def examine() -> Examination:
    """What this machine has."""
    found: list[tuple[str, tuple[Fact, ...]]] = [
        ("Python", tuple(_python())),
        ("Processor", tuple(_processor())),
        ("GPU", tuple(_gpus())),
        ("Building kernels for GPUs", tuple(_tools())),
        ("What is kept on disk", (_cache(),)),
        ("Commands", tuple(_extras())),
    ]
    settings = tuple(Fact(name, os.environ[name]) for name in _SETTINGS if os.environ.get(name))
    found += [("Settings", settings)] if settings else []
    try:
        chip = chips.made_for()
    except AxonError as error:  # a chip in the environment that there is not
        found.append(("Settings", (Fact(chips.SETTING, os.environ[chips.SETTING], *_said(error)),)))
        chip = HOPPER
    return Examination(tuple(found), chip, 0 if chips.is_there(0) else None, tuple(kernels_of(chip)))


def kernels_of(chip: Target) -> Iterator[Kernels]:
    """Which families of kernels a chip takes."""
    fast, slow, wide = (f"{rate / 1e12:.{digits}f} TFLOP/s" for rate, digits in ((chip.tensor, 0), (chip.f32, 0), (chip.f64, 1)))
    rows = "each step goes through such a row again, in memory"
    yield Kernels("maps, reductions, scans, gathers, transposes, sorts", True, "")
    yield Kernels("products and convolutions by register tiles", True, "")
    without = f"register tiles, at most {slow} of f32, of bf16 too, where its tensor cores could do {fast}"
    yield Kernels("products and convolutions of bf16 and f16 on the tensor cores", chip.has(PRODUCTS), without)
    yield Kernels("products of f32 on the tensor cores, by parts", chip.has(WGMMA), f"register tiles, at most {slow}")
    yield Kernels("products of f64 on the tensor cores", bool(chip.tensor_f64), f"register tiles, at most {wide}")
    yield Kernels("attention in one kernel", chip.has(WGMMA), "two products and a softmax, with the scores in memory")
    yield Kernels("rows longer than a block holds, in clusters of blocks", chip.has(CLUSTERS), rows)
    yield Kernels(
        "rows that come by bulk copies before they are needed", chip.has(BULK_COPIES), "threads load them, and wait longer"
    )


# ── what there is ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _said(error: AxonError) -> tuple[str, str]:
    """What an error says, and its first help."""
    (first, *_) = error.diagnostics
    message = first.message.removeprefix("the GPU path lacks ").removeprefix("Axon lacks ")
    notes = "".join(f" ({note})" for note in first.notes[:1])
    return message + notes, first.suggestions[0].text if first.suggestions else ""


def _needed(package: str, does: str, costs: str) -> Fact:
    found = _version(package)
    return Fact(package, f"{found}: {does}") if found else Fact(package, "not installed", costs, _REINSTALL)


def _python() -> Iterator[Fact]:
    yield Fact("Axon", f"{__version__}, in {Path(__file__).parents[2]}")
    yield Fact("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}, {sys.executable}")
    yield _needed("numpy", "arrays", "nothing runs")
    yield _needed("sympy", "sizes that are hard to solve", "programs with such sizes cannot be checked")
    there = [f"{name} {found}" for name in _ARRAYS if (found := _version(name))]
    if there:
        yield Fact("other arrays", f"{', '.join(there)}: taken where they lie")


def _processor() -> Iterator[Fact]:
    from axon.backend.cpu.threads import available

    try:
        from llvmlite import binding

        name = str(binding.get_host_cpu_name())
    except ImportError:
        name = platform.machine()
    try:
        count = available()
    except AxonError as error:
        yield Fact("threads", f"AXON_THREADS is {os.environ['AXON_THREADS']!r}", "programs do not run", _said(error)[0])
    else:
        yield Fact("threads", f"{count} on {name}")
    yield _needed("llvmlite", "functions become machine code", "functions are interpreted, many times slower")
    yield _blas()
    command = shlex.split(os.environ.get("CC", "cc"))
    compiler = shutil.which(command[0]) if command else None
    if compiler:
        yield Fact("C compiler", f"{compiler}: `axon build` makes libraries")
    else:
        yield Fact("C compiler", "none", "`axon build` cannot make libraries", "install gcc or clang, or name one in CC")


def _blas() -> Fact:
    try:
        import numpy  # noqa: F401  (whose BLAS is looked for)
        from threadpoolctl import threadpool_info
    except ImportError:
        return Fact("BLAS", "threadpoolctl is not installed", "products on processors cannot run", _REINSTALL)
    found = [one for one in threadpool_info() if one.get("user_api") == "blas"]
    if not found:
        costs = "large products on processors run on NumPy's own loops, many times slower"
        return Fact("BLAS", "none is loaded by NumPy", costs, "install NumPy from PyPI or conda, which bring one")
    one = found[0]
    return Fact(
        "BLAS", f"{one['internal_api']} {one.get('version') or ''}, made for {one.get('architecture') or 'any'}: large products"
    )


def _gpus() -> Iterator[Fact]:
    try:
        cuda, there = chips.gpus()
    except needs.Missing as missing:
        what, help = _said(missing)
        yield Fact("GPU", f"none: {what}", 'programs run on the processor, and `target="cuda"` is an error (AX0604)', help)
        return
    yield Fact("driver", f"of CUDA {cuda}")
    for number, gpu in enumerate(there):
        name, value = f"GPU {number}", f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB"
        if isinstance(gpu.chip, needs.Missing):
            yield Fact(name, value, f"no kernels run on it: {_said(gpu.chip)[0]}")
            continue
        own = ".".join(map(str, gpu.chip.linked[:2]))
        value = f"{value}, {gpu.chip.multiprocessors} multiprocessors, compute capability {own}"
        if gpu.chip.linked == gpu.chip.compute_capability:
            yield Fact(name, value)
        else:
            costs = f"Axon has no figures of this chip: kernels are made as for {gpu.chip.name} ({gpu.chip.chip})"
            yield Fact(name, value, costs, "CONTRIBUTING.md says how a chip is added")


def _tools() -> Iterator[Fact]:
    try:
        needs.toolchain()
    except needs.Missing as missing:
        what, help = _said(missing)
        yield Fact("tools", f"incomplete: {what}", "no kernels for GPUs are built, not to be looked at either", help)
    else:
        made = ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink")
        yield Fact("tools", ", ".join(f"{name} {_version(name) or 'of the system'}" for name in made))
    found = needs.disassembler()
    if found:
        yield Fact("nvdisasm", found)
    else:
        help = "pip install 'cuda-toolkit[nvdisasm]'"
        yield Fact("nvdisasm", "not installed", "`axon emit --stage sass` cannot show machine code", help)


def _cache() -> Fact:
    costs = "kernels and checked modules are made again in each process: up to some seconds each"
    try:
        folder, limit = disk.directory(), disk.limit()
    except disk.CannotKeep as why:
        return Fact(
            "cache", f"none: {why}", costs, "set AXON_CACHE to a directory of yours, and AXON_CACHE_SIZE to a size such as 2G"
        )
    sizes = [file.stat().st_size for file in folder.iterdir() if file.suffix in disk.SUFFIXES]
    held = f"{folder}, {len(sizes):,} files, {_bytes(sum(sizes))} of at most {_bytes(limit)}"
    if not os.access(folder, os.W_OK):
        return Fact("cache", held, costs, "nothing can be written there")
    return Fact("cache", held)


def _extras() -> Iterator[Fact]:
    for package, extra, costs in _EXTRAS:
        found = _version(package)
        yield (
            Fact(package, found) if found else Fact(package, "not installed", costs, f"pip install '.[{extra}]' in a clone of Axon")
        )


def _bytes(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


# ── how it is said ──────────────────────────────────────────────────────────────────────────────────────────────────────


def page(found: Examination) -> str:
    """The examination, to be read."""
    lines: list[str] = []
    for subject, facts in found.facts:
        lines += [*([""] if lines else []), subject]
        width = max(len(fact.name) for fact in facts)
        for fact in facts:
            lines.append(f"  {'lacks' if fact.costs else 'ok':<6}{fact.name:<{width}}  {fact.value}")
            lines += [f"{'':>{width + 10}}{text}" for text in (fact.costs, f"help: {fact.help}" * bool(fact.help)) if text]
    chip = found.chip
    whose = f"GPU {found.device}" if found.device is not None else "no GPU is here, but they can be looked at and built"
    lines += ["", f"Kernels are made for {chip.name} ({chip.generation}; {whose})"]
    figures = (
        ("multiprocessors", f"{chip.multiprocessors}"),
        (
            "shared memory",
            f"{chip.shared_per_block // 1024} KiB of a block, {chip.shared_per_multiprocessor // 1024} of a multiprocessor",
        ),
        ("L2 cache", f"{chip.l2 / 1e6:.0f} MB"),
        ("memory", f"{chip.dram / 1e12:.2f} TB/s"),
        (
            "arithmetic",
            f"{chip.f32 / 1e12:.1f} TFLOP/s of f32, {chip.f64 / 1e12:.2f} of f64, {chip.tensor / 1e12:.0f} on tensor cores",
        ),
    )
    lines += [f"  {name:<16}{value}" for name, value in figures]
    lines += [f"  {'':<16}as NVIDIA states it of the {chip.chip}"] if found.device is None else []
    for kernels in found.kernels:
        lines.append(f"  {'yes' if kernels.taken else 'no':<5}{kernels.family}")
        lines += [] if kernels.taken else [f"       instead: {kernels.otherwise}"]
    lacking = [fact for _, facts in found.facts for fact in facts if fact.costs]
    said = f"{len(lacking)} thing{'s' * (len(lacking) != 1)} lacking" if lacking else "nothing lacking"
    return "\n".join([*lines, "", said])


def _fields(row: Any) -> dict[str, Any]:
    return {f.name: getattr(row, f.name) for f in fields(type(row))}


def as_json(found: Examination) -> str:
    """The same for programs: see docs/json.md."""
    chip = found.chip
    figures = {name: value for name, value in _fields(chip).items() if isinstance(value, int | float | str)}
    return json.dumps(
        {
            "facts": [{"subject": subject, **_fields(fact)} for subject, facts in found.facts for fact in facts],
            "device": found.device,
            "chip": {"name": chip.name, **figures, "features": [f.name for f in FEATURES if chip.has(f)]},
            "kernels": [_fields(one) for one in found.kernels],
        },
        ensure_ascii=False,
        indent=1,
    )
