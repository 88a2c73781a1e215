"""The pipeline, and the only module that knows every phase.

    load -> parse -> check -> lower -> run, simulate, launch

Each phase runs with room for deep recursion (the parser bounds how deeply a program nests), and behind a last guard: an exception
that is not meant for the user is a bug in Axon, and becomes the diagnostic AX0001. With AXON_DEBUG=1 it stays a traceback. What
each pass makes is verified (see `passes`): a form that breaks its rules stops here, with the name of the pass.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.passes import FormInvalid
from axon.base.source import SourceFile
from axon.checker.loader import TEXT as TEXT
from axon.checker.loader import FileLoader, Loader

if TYPE_CHECKING:
    from axon.backend.c.header import Described
    from axon.backend.c.library import Library
    from axon.backend.cpu.host import Host
    from axon.backend.cpu.kept import CachePlace
    from axon.backend.cpu.run import Replay
    from axon.backend.gpu.layout.target import Target
    from axon.backend.gpu.runtime.arrays import ArrayCall as GpuCall
    from axon.backend.gpu.runtime.arrays import Quick
    from axon.backend.gpu.runtime.stepped_call import HostCall, SteppedCall
    from axon.backend.gpu.runtime.steps import Ordered
    from axon.backend.gpu.runtime.variants import Variants
    from axon.backend.gpu.tile.schedule_file import Schedule
    from axon.backend.lent import Lending
    from axon.backend.plan.cost import PlanCost
    from axon.base.names import Symbol
    from axon.base.passes import Pass
    from axon.checker.module import CheckedModule
    from axon.core import ir as core
    from axon.grammar import syntax
    from axon.grammar.entry import Entry
    from axon.lower import ArgumentType

RECURSION_LIMIT = 10_000  # programs of 400 levels need 4,000; more would risk the stack of C
HOST_STAGES = ("plan", "cpu")  # of the CPU backend
KERNEL_STAGES = (*HOST_STAGES, "tile", "roles", "barriers", "kernel", "ptx", "sass")


def parse(source: SourceFile) -> tuple[syntax.Program, tuple[Diagnostic, ...]]:
    """The declarations of a file without syntax errors, and the diagnostics."""
    with _phase("parsing"):
        from axon.grammar.parse import parse as phase

        return phase(source)


def documentation(source: SourceFile) -> dict[str, str]:
    """What the comments of a file say of its declarations, by name; of the file itself as ''."""
    with _phase("reading comments"):
        from axon.grammar.comments import documentation as phase

        return phase(source)


def parse_expression(source: SourceFile) -> tuple[syntax.Expr | None, tuple[Diagnostic, ...]]:
    """The expression that is the whole text, or None when the text has errors, and the diagnostics."""
    with _phase("parsing"):
        from axon.grammar.parse import parse_expression as phase

        return phase(source)


def entry(source: SourceFile) -> Entry:
    """What a text is that someone types: declarations or an expression, complete or only begun."""
    with _phase("parsing"):
        from axon.grammar.entry import entry as phase

        return phase(source)


def entries(source: SourceFile) -> tuple[SourceFile, ...]:
    """The parts of a text that are entered one after the other: runs of declarations, and expressions."""
    with _phase("parsing"):
        from axon.grammar.entry import entries as phase

        return phase(source)


def check(loader: Loader, path: str, known: Mapping[SourceFile, CheckedModule] | None = None, tries: bool = True) -> CheckedModule:
    """A module with everything it imports, parsed, resolved, typed and shaped; its diagnostics say what is wrong.

    `known` modules are not checked again: they and all that they import must be as they were. Unless it `tries` suggestions, those
    that must be tried are left out.
    """
    with _phase("checking"), _no_collection():
        from axon.checker.check import check_module

        return check_module(loader, path, known, tries)


def load(path: str) -> CheckedModule:
    """The module in a file: as it was kept, if nothing of it or of what it imports has changed, or checked. What was read has all
    that calls need, and not what tools ask of a module that is being written."""
    loader = FileLoader()
    with _phase("reading what was kept"), _no_collection():
        from axon.checker.reading import keep_all, read_module

        found = read_module(loader, path)
    if found is None:
        found = check(loader, path)
        with _phase("keeping what was checked"):
            keep_all(found)
    return found


def check_text(text: str, path: str = TEXT) -> CheckedModule:
    """A module from memory; it imports from beside `path`, and `<text>` from the standard library alone."""
    return check(FileLoader({path: text}), path)


def lower(checked: CheckedModule, name: str, arguments: tuple[ArgumentType, ...] | None) -> core.Program:
    """One declaration in core, for arguments of these element types and ranks; None stands for the most general ones."""
    with _phase("lowering"), _no_collection():
        return _lowering()(checked, name, arguments)


@cache
def _lowering() -> Pass[[CheckedModule, str, tuple[ArgumentType, ...] | None], core.Program]:
    from axon.base.passes import verified
    from axon.core.verify import verify
    from axon.lower import lower as phase

    return verified("lower", lambda made, *_: verify(made), takes="typed")(phase)


def host(program: core.Program) -> Host:
    """A core program on this machine's processor, to be interpreted or compiled as its calls need."""
    from axon.backend.cpu.host import Host

    return Host(program)


def specialized(checked: CheckedModule, name: str, form: Hashable, arguments: Callable[[], tuple[ArgumentType, ...]]) -> Host:
    """One declaration for arguments of a form, which decides their element types and ranks: as another process has kept it, or
    lowered."""
    from axon.backend.cpu.host import Host

    with _phase("reading what was kept"):
        from axon.backend.cpu import kept

        place = _place(checked, name, form)
        found = kept.find(place)
    if found is not None:
        return Host(found.program, place, found)
    return Host(lower(checked, name, arguments()), place)


def _place(checked: CheckedModule, name: str, form: Hashable) -> CachePlace:
    """Where what is made of a declaration is kept."""
    from hashlib import sha256

    from axon.backend.cpu.kept import FOLDERS, CachePlace
    from axon.base import disk
    from axon.checker import kept

    modules = [checked]
    for module in modules:
        modules += (imported for imported in module.imports.values() if imported not in modules)
    key = "\0".join((disk.sources(FOLDERS), kept.origin(checked), name, repr(form)))
    files = [module.source for module in modules]
    return CachePlace(sha256(key.encode("utf-8", "surrogatepass")).hexdigest(), files, lambda: kept.symbols_of(checked, name))


def run(host: Host, inputs: Sequence[Any], explicit: Sequence[int], *, compiled: bool = False) -> list[Any]:
    """The results of a program on arrays that satisfy its contract; with `compiled`, of compiled kernels however small they are."""
    with _phase("running"):
        return host(inputs, explicit, compiled=compiled)


def replay(host: Host, inputs: Sequence[Any], explicit: Sequence[int], *, compiled: bool) -> Replay | None:
    """How calls like one that has run are computed, where that follows from sizes; None for those that go the ordinary way."""
    with _phase("running"):
        return host.replay(inputs, explicit, compiled=compiled)


def alike(arrays: Sequence[Any]) -> Callable[..., int] | None:
    """Whether other arrays are in one piece and of the element types and shapes of these; None where that is not told at once."""
    with _phase("running"):
        from axon.backend.cpu.launch import alike as phase

        return phase(arrays)


def replayed(replay: Callable[[Sequence[Any]], list[Any] | None], inputs: Sequence[Any]) -> list[Any] | None:
    """The results of such a call; None if it stops."""
    try:
        return replay(inputs)
    except (AxonError, MemoryError):  # which the ordinary way tells in words
        return None
    except Exception as error:
        if os.environ.get("AXON_DEBUG"):
            raise
        raise AxonError((internal_error(error, "running"),)) from error


def interpret(program: core.Program, inputs: Sequence[Any], explicit: Sequence[int]) -> list[Any]:
    """The results of a core program by the reference evaluator, on arrays that satisfy its contract."""
    with _phase("interpreting"):
        from axon.interpret import run as phase

        return phase(program, inputs, explicit)


def schedules(source: SourceFile, checked: CheckedModule, functions: Sequence[str]) -> dict[str, Schedule]:
    """What a schedule file fixes of the mappings of a module's functions. Raises AX0605 for what is wrong in it."""
    with _phase("reading a schedule"):
        from axon.backend.gpu.tile.schedule_file import parse as phase

        return phase(source, checked.source.path, functions, checked.imports)


def simulate(
    program: core.Program,
    inputs: Sequence[Any],
    explicit: Sequence[int],
    schedule: Schedule | None = None,
    chip: str | None = None,
) -> list[Any]:
    """The results of a core program's GPU kernels, proved and then run on the CPU, on arrays that satisfy its contract. They are
    Hopper's unless another chip is named."""
    with _phase("simulating"):
        from axon.backend.chips import chosen
        from axon.backend.gpu.layout.target import HOPPER
        from axon.backend.gpu.runtime.simulated import run as phase
        from axon.backend.gpu.tile.schedule_file import NOTHING

        return phase(program, inputs, explicit, schedule=schedule or NOTHING, target=chosen(chip) or HOPPER)


def place_of(given: Sequence[tuple[str, Any]]) -> int:
    """The GPU on which a call with these arguments runs."""
    from axon.backend.gpu.runtime.arrays import place_of as phase

    return phase(given)


def chip(name: str | None, device: int | None = None) -> Target:
    """The chip that kernels are made for, which a user may name (AX0601 for one that does not exist); `device` is a GPU that is to
    run them."""
    with _phase("looking for a GPU"):
        from axon.backend.chips import made_for

        return made_for(name, device)


def executable(program: core.Program, target: Target, schedule: Schedule | None = None) -> Ordered:
    """A core program's parts and kernels for a chip, to be built when they are first launched."""
    with _phase("making kernels"):
        from axon.backend.gpu.runtime.steps import Ordered
        from axon.backend.gpu.tile.schedule_file import NOTHING

        return Ordered(program, target, schedule or NOTHING)


def result_types(program: core.Program, sizes: Mapping[Symbol, int]) -> list[tuple[tuple[int, ...] | None, Any]]:
    """The shape and the NumPy element type of each result, before it is computed; None for a shape that only data decide."""
    from axon.core.walk import results_of

    return [
        (tuple(d.evaluate(sizes) for d in value.shape) if all(d.variables <= sizes.keys() for d in value.shape) else None,
         value.element.dtype)
        for value in results_of(program)
    ]  # fmt: skip


def prepare(
    executable: Ordered,
    given: Sequence[tuple[str, Any]],
    matched: Sequence[Any],
    sizes: Mapping[Symbol, int],
    room: Sequence[tuple[str, Any]] | None,
) -> GpuCall | SteppedCall | HostCall:
    """A call of a program on a GPU, with kernels built and loaded.

    `given` are the arguments with their paths, as the caller has them; `matched` are NumPy arrays of their element types and
    shapes, which hold the values of those that lie on the host.
    """
    with _phase("making kernels"):
        from axon.backend.gpu.runtime.arrays import prepare as phase

        return phase(executable.at(sizes), given, matched, sizes, room)


def launch(call: GpuCall | SteppedCall | HostCall, inputs: Sequence[Any], room: Sequence[tuple[str, Any]] | None) -> list[Any]:
    """The results of a prepared call; perhaps not yet computed."""
    with _phase("launching kernels"):
        return call(inputs, None if room is None else [x for _, x in room])


def synchronize() -> None:
    """Wait for the GPUs on which kernels may have met what stops a program, and raise what they met."""
    with _phase("waiting for a GPU"):
        from axon.backend.gpu.runtime.failures import synchronize as phase

        phase()


def quick(names: Sequence[str]) -> Quick:
    """Room for the calls of a function with these parameters, to be found again by what their arguments are."""
    from axon.backend.gpu.runtime.arrays import Quick

    return Quick(tuple(names))


def build_together(programs: Sequence[tuple[Ordered, Mapping[Symbol, int]]]) -> None:
    """Build the kernels of several programs for one chip side by side, each at its sizes, as far as they can be foreseen."""
    with _phase("making kernels"):
        from axon.backend.gpu.runtime.steps import build_together as phase

        phase([(executable.at(sizes), sizes) for executable, sizes in programs])


def warm(executable: Ordered, sizes: Mapping[Symbol, int]) -> None:
    """Build a program's kernels, mapped for exactly these sizes. Needs no GPU."""
    with _phase("making kernels"):
        executable.at(sizes).warm(sizes)


def variants(made: Iterable[Ordered]) -> Variants:
    """The kernels built so far for the specializations of a function."""
    from axon.backend.gpu.runtime.variants import Variants

    return Variants.of([(ordered.program, stepped) for ordered in made for stepped in ordered.made])


def emit(
    program: core.Program,
    stage: str,
    sizes: Mapping[Symbol, int] | None,
    schedule: Schedule | None = None,
    name: str | None = None,
) -> str:
    """One of KERNEL_STAGES for each kernel of a core program, at these sizes; None stands for typical ones. They are for the chip
    of that name, or this machine's. Needs no GPU.

    The stages `plan` and `cpu` are the CPU backend's, and the same for all sizes; `plan` ends with the parts in which a GPU runs
    the program, if they are several.
    """
    with _phase("making kernels"):
        from axon.backend.cpu import show as cpu
        from axon.backend.gpu.report.show import show as phase

        if stage not in HOST_STAGES:
            return phase(program, stage, sizes, schedule, chip(name))
        return "\n".join([cpu.show(program, stage), *(_parts(program, operations=True) if stage == "plan" else ())])


def passes(program: core.Program | None) -> str:
    """The passes of every target in order, and what verifies each; of a program, also how much each makes of it."""
    with _phase("listing passes"):
        from axon.pass_table import listed, listed_for

        return listed() if program is None else listed_for(program)


def explain(
    program: core.Program,
    sizes: Mapping[Symbol, int] | None,
    schedule: Schedule | None = None,
    *,
    measure: bool = False,
    name: str | None = None,
) -> str:
    """Why the kernels of a core program are mapped as they are, at these sizes; None stands for typical ones. They are for the chip
    of that name, or this machine's.

    Needs a GPU only to measure how long they take.
    """
    with _phase("making kernels"):
        from axon.backend.gpu.report.show import explain as phase

        return "\n".join(
            [
                *_parts(program, operations=False),
                phase(program, sizes, schedule, chip(name, 0 if measure else None), measure=measure),
            ]
        )


def shared(
    program: core.Program,
    mesh: Mapping[str, int],
    split: Mapping[str, str],
    sizes: Mapping[Symbol, int],
    link: str,
    wide: bool = False,
) -> str:
    """How a program is shared among the devices of a mesh, with the sizes `split` over its axes: what is exchanged at these sizes,
    why, and how long it is predicted to take over a link of `LINKS`."""
    with _phase("sharing a program"):
        from axon.core.sharding import Mesh, near, shard
        from axon.core.sharding.layouts import LINKS
        from axon.core.sharding.report import report as phase

        grid = Mesh(tuple(mesh.items()))
        made = shard(program, grid, split, near(program, grid, split, sizes), LINKS[link], wide=wide)  # as a call would
        if not made.serves(sizes):
            made = shard(program, grid, split, sizes, LINKS[link], wide=wide)
        return phase(made, sizes, LINKS[link])


def cost(
    program: core.Program,
    target: str,
    sizes: Mapping[Symbol, int] | None = None,
    schedule: Schedule | None = None,
    name: str | None = None,
) -> PlanCost:
    """What a program costs on "cpu" or "cuda", with the kernels that serve at these sizes (None stands for typical ones) on a GPU.
    Needs none."""
    with _phase("counting operations"):
        if target == "cpu":
            from axon.backend.cpu.plan import cost_of as on_cpu

            return on_cpu(program)
        from axon.backend.gpu.report.cost import cost_of as on_gpu

        return on_gpu(program, sizes, schedule, chip(name))


def build(program: core.Program, about: Described, folder: str, sizes: Mapping[Symbol, int], compiler: Sequence[str]) -> Library:
    """A program as a library for C in a folder, for a processor; see `backend.c.library`."""
    with _phase("building a library"):
        from axon.backend.c.library import build as phase

        return phase(program, about, folder, sizes, compiler)


def device_library(
    program: core.Program,
    about: Described,
    folder: str,
    sizes: Sequence[Mapping[Symbol, int]],
    compiler: Sequence[str],
    operator: Sequence[str] = (),
) -> Library:
    """A program as a library for C in a folder, for GPUs, with kernels of their own for some sizes; see `backend.c.cuda`. With a
    compiler of C++ for it, an operator of PyTorch beside that."""
    with _phase("building a library"):
        from axon.backend.c.cuda import build as phase
        from axon.backend.c.torch_operator import build as operator_of
        from axon.backend.gpu.layout.target import HOPPER
        from axon.backend.gpu.runtime.steps import Ordered
        from axon.backend.gpu.shipped.open import shipped_open
        from axon.backend.gpu.shipped.sized import shipped

        ordered = Ordered(program, HOPPER)
        made = [shipped(ordered, each) for each in sizes]
        others = shipped_open(program, HOPPER)
        library = phase(program, about, folder, HOPPER, made, others, compiler)
        if not operator:
            return library
        fails = others.fails or any(each.fails for each in made)
        more = operator_of(program, about, folder, operator, gpu=True, fails=fails)
        return replace(library, files=(*library.files, *more))


def operator(program: core.Program, about: Described, folder: str, compiler: Sequence[str]) -> tuple[str, ...]:
    """Beside a library for C, the function as an operator of PyTorch: the files; see `backend.c.torch_operator`."""
    with _phase("building a library"):
        from axon.backend.c.torch_operator import build as phase

        return phase(program, about, folder, compiler)


def handler(program: core.Program, about: Described, include: str, compiler: Sequence[str]) -> tuple[str, bytes]:
    """A program as a shared library whose function XLA calls, and a name that no other has; see `backend.c.xla`."""
    with _phase("building a library"):
        from axon.backend.c.library import prepared
        from axon.backend.c.xla import built as phase

        return phase(prepared(program, about, {}), program, include, compiler)


@cache
def lent() -> Lending:
    """How calls use buffers that XLA lends them."""
    from axon.backend.gpu.launching.driver import OutOfDeviceMemory, driver
    from axon.backend.lent import Lending

    return Lending(lambda: driver(), (OutOfDeviceMemory,))


def typical_size() -> int:
    """What stands for a dimension that nobody gives, where kernels are chosen by sizes."""
    from axon.backend.gpu.report.show import TYPICAL

    return TYPICAL


def _parts(program: core.Program, *, operations: bool) -> list[str]:
    """The parts in which a GPU runs a program, unless it is straight."""
    from axon.core.passes.parts import parts, print_parts

    found = parts(program)
    return [] if found.straight is not None else [print_parts(found, operations=operations)]


def format_text(source: SourceFile) -> str:
    """The source laid out in the standard way."""
    with _phase("formatting"):
        from axon.grammar.format import format_source

        return format_source(source)


@contextmanager
def guarded(phase: str) -> Iterator[None]:
    """The guard of this module around a part of the pipeline that an editor runs by itself. Raises AxonError alone."""
    with _phase(phase), _no_collection():
        yield


# ── the guard ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _phase(name: str) -> Iterator[None]:
    try:
        with _deep_recursion():
            yield
    except (AxonError, Warning):  # a warning that whoever runs this wants as an error
        raise
    except (RecursionError, MemoryError) as error:
        if os.environ.get("AXON_DEBUG"):
            raise
        said = f"the program is too deep or too large for this machine (while {name})"
        notes = (str(error),) if isinstance(error, MemoryError) and str(error) else ()  # how much memory, and for what
        raise AxonError((Diagnostic("AX0002", said, notes=notes),)) from error
    except Exception as error:
        if os.environ.get("AXON_DEBUG"):
            raise
        raise AxonError((internal_error(error, name),)) from error


def internal_error(error: BaseException, phase: str) -> Diagnostic:
    """AX0001 for an exception that nobody was meant to see."""
    text = " ".join(str(error).split())[:300]
    if not isinstance(error, FormInvalid):
        text = f"{type(error).__name__}: {text}"
    return Diagnostic(
        "AX0001",
        f"Axon failed while {phase}: this is a mistake in Axon, not in your program",
        notes=(text, "please report it with the source; AXON_DEBUG=1 shows where it happened"),
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Hold the cyclic garbage collector: a check, or lowering, makes many small objects and drops few, and collecting costs up to a
    quarter of it.

    What a phase leaves is its result, in which there is hardly any garbage. So it is old at once, and not gone through as what is
    young would be, which takes up to a tenth of the phase. For garbage that there is after all, everything is gone through when
    phases have left as much as there was before: a process that checks for hours does not grow.
    """
    import gc

    global _left, _before
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            _left += gc.get_count()[0]
            if _left > max(_before, _MUCH):
                gc.collect()
                _left, _before = 0, len(gc.get_objects())
            elif not gc.get_freeze_count():  # else they are someone else's who are frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


_MUCH = 3_000_000  # objects
_left = 0  # objects that phases have left since all were gone through
_before = 0  # objects that there were then


_depth_lock = Lock()
_depth_users = 0
_depth_before = 0


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Raise Python's recursion limit, which all threads share, while anyone is inside."""
    global _depth_users, _depth_before
    with _depth_lock:
        if _depth_users == 0:
            _depth_before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_depth_before, RECURSION_LIMIT))
        _depth_users += 1
    try:
        yield
    finally:
        with _depth_lock:
            _depth_users -= 1
            if _depth_users == 0:
                sys.setrecursionlimit(_depth_before)
