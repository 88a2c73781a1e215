"""Kernel source to a cubin, without a GPU: numba-cuda to LTO-IR, nvJitLink to machine code, kept by content (`kernel_cache`).

LTO-IR matters: the same kernel linked from PTX silently loses `setmaxnreg` and may have its products serialized. Any message of
that kind (C75xx), any spilled byte, and any stack frame but the scratch of a library function (see `SCRATCH`) fails the build. What
is not proved is not built: a kernel's barrier program is proved while its source is compiled.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from functools import cache as once
from pathlib import Path
from threading import Lock
from typing import IO, Any

from axon.backend import kernel_cache as cache
from axon.backend.gpu.build.link import ChipLacks, assembly, link
from axon.backend.gpu.build.recipe import Forms
from axon.backend.gpu.build.worker import Worker, answering, crew
from axon.backend.gpu.emit.source import Emitted
from axon.backend.gpu.layout.target import Target, architecture
from axon.backend.gpu.proof.findings import Violation
from axon.backend.gpu.proof.prove import verify
from axon.backend.kernel_cache import LinkedKernel, Refused
from axon.backend.needs import toolchain
from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.progress import progress

__all__ = ["BuildError", "LinkedKernel", "RegistersExhausted", "build", "build_all", "compile_source", "known", "ptx"]


# What libdevice's sin and cos of f32 keep in local memory where the argument is large: seven words of its product with 2/π. All
# their calls in a kernel share it. ptxas counts it as a stack frame, like two things that are refused: room for spilled registers,
# which it counts a second time, as spills; and a tile's registers in local memory, since something indexes them, which it counts
# nowhere else. So a frame without a spilled byte is theirs if the source calls them and it is no larger: room for registers would
# come on top. In plain kernels such functions may be called (see `ptx_calls`), those of f64 always: what a call keeps comes on top.
SCRATCH = 32  # bytes
CALLED = 128
_WITH_SCRATCH = frozenset(("libdevice.sinf", "libdevice.cosf"))
_WITH_CALLS = frozenset(("sin", "cos", "power"))


class BuildError(AxonError):
    """The toolchain failed, or made a kernel that must not run; the diagnostic's notes are its log."""

    def __init__(self, what: str, log: str = "") -> None:
        notes = (
            "this is a mistake in Axon, not in your program: please report it with the source",
            *re.sub(r"'_Z\w+'", "'kernel'", log.replace("\0", "")).strip().splitlines()[-12:],
        )
        super().__init__((Diagnostic("AX0611", f"a GPU kernel could not be built: {what}", notes=notes),))


class RegistersExhausted(BuildError):
    """The kernel does not fit its mapping's registers: the mapping is not legal for it after all."""


def build(stages: Forms, target: Target) -> LinkedKernel:
    """The machine code of a kernel, from the cache if it was built before; else its barrier program is proved first.

    Raises `BuildError` for a program that is not proved, for spills, and for serialized products, `Missing` without the tools.
    """
    (made,) = build_all([stages], target)
    if isinstance(made, RegistersExhausted):
        raise made
    return made


def build_all(wanted: Sequence[Forms], target: Target) -> list[LinkedKernel | RegistersExhausted]:
    """The machine codes of kernels, as `build` makes them; those that are not in the cache on all cores. What does not fit its
    registers is given back, not raised."""
    cache.limit()  # a setting that cannot be read is refused before anything is built, and also where nothing is to be built
    keys = [_key(stages.source, target, stages.spills) for stages in wanted]
    found = {key: made for key in keys if (made := cache.read(key)) is not None}
    missing = {key: stages for key, stages in zip(keys, wanted, strict=True) if key not in found}
    if missing:
        toolchain()
        with progress("building kernels", len(missing)) as step:
            found |= _make(missing, target, step)
    return [_given(found[key]) for key in keys]


def known(wanted: Sequence[Forms], target: Target) -> list[LinkedKernel | RegistersExhausted | None]:
    """What the compiler has said of kernels before, in this process or another; None of those that nobody has built."""
    return [_given(found) if found else None for found in (cache.read(_key(w.source, target, w.spills)) for w in wanted)]


def _given(made: LinkedKernel | Refused) -> LinkedKernel | RegistersExhausted:
    return RegistersExhausted("it does not fit its registers", made.log) if isinstance(made, Refused) else made


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A kernel that a worker compiles. Nobody else makes it meanwhile: `held` is its lock."""

    key: str
    stages: Forms
    held: IO[bytes]


class _Making:
    """Kernels that are being made: workers compile, while this process proves barrier programs, one after the other.

    All that is awaited is awaited in the thread that asked for the kernels: so Ctrl-C stops that, and with it everything.
    """

    def __init__(self, missing: dict[str, Forms], target: Target, workers: Sequence[Worker], step: Callable[[], None]) -> None:
        self.target, self.step = target, step
        self.waiting = dict(missing)
        self.idle = list(workers)
        self.running: dict[Worker, _Job] = {}
        self.proved: set[str] = set()
        self.made: dict[str, LinkedKernel | Refused] = {}
        self.failed: dict[str, BuildError] = {}

    def __call__(self) -> None:
        while self.waiting or self.running:
            self._begin()
            todo = next((job for job in self.running.values() if not self._judged(job)), None)
            if todo is not None:
                self._prove(todo)
            elif self.waiting and not self.running:
                time.sleep(_AGAIN)  # all that is left is made by other processes
            wait = 0.0 if todo is not None or not self.running else _AGAIN if self.waiting and self.idle else None
            for worker in answering(list(self.running), wait):
                self._answered(worker)

    def _begin(self) -> None:
        """Have kernels made that nobody makes, as far as there are workers; where all have died, here."""
        for key, stages in list(self.waiting.items()):
            if not self.idle and self.running:
                return
            held = cache.claim(key)
            if held is None:
                continue
            try:
                del self.waiting[key]
                self._start(_Job(key, stages, held))
            except BaseException:
                held.close()  # a traceback that is kept would keep it
                raise

    def _start(self, job: _Job) -> None:
        found = cache.read(job.key)
        if found is not None:  # another process has made it
            self._finished(job, found)
        elif self.idle:
            self._send(job, self.idle.pop())
        else:
            self._compile(job)

    def _send(self, job: _Job, worker: Worker) -> None:
        source = job.stages.source
        self.running[worker] = job
        try:
            worker.send(_job(source, self.target))
        except OSError:  # it was killed, or could not start
            del self.running[worker]
            self._compile(job)

    def _answered(self, worker: Worker) -> None:
        job = self.running.pop(worker)
        try:
            answer = worker.receive()
        except RuntimeError as error:
            self.idle.append(worker)
            self._fail(job, _compiler_failed(str(error)))
        except (OSError, ValueError):  # it was killed: the kernel is compiled here
            self._compile(job)
        else:
            self.idle.append(worker)
            self._linked(job, *answer)

    def _compile(self, job: _Job) -> None:
        """In this process, which Ctrl-C stops only when the compiler is done."""
        if not self._proved(job):
            return
        source = job.stages.source
        try:
            with _ALONE:
                answer = _link(source, self.target)
        except Exception as error:  # of numba, of the linker
            self._fail(job, _compiler_failed(f"{type(error).__name__}: {error}"))
        else:
            self._linked(job, *answer)

    def _linked(self, job: _Job, cubin: bytes, log: str) -> None:
        try:
            made = _checked(cubin, log, job.stages.spills, _scratch(job.stages.source))
        except BuildError as error:
            self._fail(job, error)
            return
        if isinstance(made, LinkedKernel) and not self._proved(job):  # what is refused is never run
            return
        cache.write(job.key, made)
        self._finished(job, made)

    def _judged(self, job: _Job) -> bool:
        return job.key in self.proved or job.key in self.failed

    def _proved(self, job: _Job) -> bool:
        if not self._judged(job):
            self._prove(job)
        return job.key in self.proved

    def _prove(self, job: _Job) -> None:
        answer = verify(job.stages.barriers) if job.stages.barriers is not None else None
        if isinstance(answer, Violation):
            self._fail(job, BuildError("its barrier program is not proved", f"after `lower_roles`: {answer}"))
        else:
            self.proved.add(job.key)

    def _fail(self, job: _Job, error: BuildError) -> None:
        """The others are made all the same: they are kept, and need not be made again."""
        self.failed.setdefault(job.key, error)
        job.held.close()

    def _finished(self, job: _Job, made: LinkedKernel | Refused) -> None:
        self.made[job.key] = made
        job.held.close()
        self.step()


def _make(missing: dict[str, Forms], target: Target, step: Callable[[], None]) -> dict[str, LinkedKernel | Refused]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with crew(min(len(missing), cores)) as workers:
        making = _Making(missing, target, workers, step)
        try:
            making()
        finally:
            for job in making.running.values():
                job.held.close()
    for key in missing:
        if key in making.failed:
            raise making.failed[key]
    return making.made


def _compiler_failed(what: str) -> BuildError:
    kind, _, why = what.partition(": ")
    return BuildError(why) if kind == ChipLacks.__name__ else BuildError("the compiler failed", what)


_AGAIN = 0.05  # seconds until it is looked again whether another process has made a kernel
_ALONE = Lock()  # llvmlite is not for two threads at once


def compile_source(emitted: Emitted, target: Target) -> LinkedKernel:
    """Compile and link, without proof and without the cache."""
    cubin, log = _link(emitted, target)
    made = _given(_checked(cubin, log, scratch=_scratch(emitted)))
    if isinstance(made, RegistersExhausted):
        raise made
    return made


def _link(source: Emitted, target: Target) -> tuple[bytes, str]:
    return link(source.text, _kinds(source), source.bounds, target.compute_capability, target.linked)


def _job(source: Emitted, target: Target) -> dict[str, Any]:
    """What a worker is told."""
    chips = {"chip": target.compute_capability, "linked": target.linked}
    return {"text": source.text, "kinds": _kinds(source), "bounds": source.bounds, **chips}


def _kinds(source: Emitted) -> tuple[str, ...]:
    return tuple(type(p).__name__ for p in source.parameters)


def _scratch(source: Emitted) -> int:
    """The bytes of local memory that library functions of a kernel may have."""
    if source.calls & _WITH_CALLS:
        return CALLED
    return SCRATCH if source.calls & _WITH_SCRATCH else 0


def _checked(cubin: bytes, log: str, spills: bool = False, scratch: int = 0) -> LinkedKernel | Refused:
    entry = re.search(r"Compiling entry function '([^']+)'", log)
    registers = re.search(r"Used (\d+) registers", log)
    if entry is None or registers is None:
        raise BuildError("the linker says nothing of an entry", log)
    frame = sum(int(n) for n in re.findall(r"(\d+) bytes stack frame", log))
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill (?:stores|loads)", log))
    warnings = [line for line in log.splitlines() if re.search(r"C75\d\d", line)]
    if warnings and all("insufficient register" in line for line in warnings):
        return Refused(f"its products wait for each other for want of registers:\n{log}")
    if warnings:
        raise BuildError("it loses its asynchrony", "\n".join([log, *warnings]))
    if spilled and not spills:
        return Refused(f"the kernel spills {spilled} bytes:\n{log}")
    if frame > scratch and not spills:
        return Refused(f"the kernel keeps {frame} bytes in local memory:\n{log}")
    return LinkedKernel(cubin, entry[1], int(registers[1]), spilled)


def ptx(emitted: Emitted, target: Target) -> str:
    """A kernel's PTX, to be read: libNVVM's text for the same module whose LTO-IR becomes the machine code. Parameters have the
    names that they have in the source. Made by a worker, which Ctrl-C ends."""
    toolchain()
    job = {**_job(emitted, target), "stage": "ptx"}
    with progress("building kernels"), crew(1) as workers:
        for worker in workers:
            try:
                worker.send(job)
                answering([worker], None)
                return worker.receive()[0].decode()
            except RuntimeError as error:
                raise _compiler_failed(str(error)) from None
            except (OSError, ValueError):  # it was killed: then here
                break
        with _ALONE:
            return assembly(emitted.text, _kinds(emitted), emitted.bounds, target.compute_capability)[0].decode()


def _key(emitted: Emitted, target: Target, spills: bool = False) -> str:
    """A digest of everything that the machine code depends on: source, intrinsics, signature, target, and the tools' versions; and
    of what has verified it: what an older proof let through is proved anew.

    Of the source up to names and comments: the layers of a network differ in nothing else, and share one machine code.
    """
    allowed = "spills" * spills + "scratch" * bool(_scratch(emitted))  # what was refused without is no answer
    chips = architecture(target.compute_capability), architecture(target.linked)
    facts = [str(cache.FORMAT), *dict.fromkeys(chips), allowed, *map(str, emitted.bounds)]
    parts = [*facts, *_kinds(emitted), *_tools(), _intrinsics(), _proof(), emitted.bare]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@once
def _tools() -> tuple[str, ...]:
    """What compiles: packages, the libraries of NVIDIA that two of them may only bring along, and their settings."""
    packages = dict.fromkeys(("numba", "numba-cuda", "llvmlite", "cuda-core"))
    libraries = {"nvidia-nvvm": "nvvm", "nvidia-nvjitlink": "nvJitLink"}
    return (*(f"{name} {_version(name, library)}" for name, library in {**packages, **libraries}.items()), cache.settings())


_BACKEND = Path(__file__).parents[2]
_COEFFICIENTS = _BACKEND.parent / "core" / "coefficients.py"


@once
def _intrinsics() -> str:
    written = (_BACKEND / "gpu" / "intrinsics").glob("*.py")
    own = Path(__file__), *(Path(__file__).with_name(name) for name in ("link.py", "instructions.py"))
    shared = (*(_BACKEND / "kernel" / f"{name}.py" for name in ("llvm", "newton", "special")), _COEFFICIENTS)
    files = [*sorted(written), *shared, *own]  # read, not imported: that takes numba
    return "\0".join(file.read_text(encoding="utf-8") for file in files)


_PROOF = ("gpu/proof/*.py", "gpu/roles/flow.py", "gpu/roles/barriers.py", "kernel/verify.py")


@once
def _proof() -> str:
    """What says whether a barrier program and the text are sound."""
    files = (file for pattern in _PROOF for file in sorted(_BACKEND.glob(pattern)))
    return "\0".join(file.read_text(encoding="utf-8") for file in files)


def _version(name: str, library: str | None) -> str:
    """The version of a package, or else which file its library is: that of a toolkit of the system has no version to ask for."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "none" if library is None else _file(library)


def _file(library: str) -> str:
    """Which file is loaded as one of NVIDIA's libraries: its path, size, and when it was written."""
    try:
        from cuda import pathfinder
    except ImportError:
        return "none"  # as all that would build
    try:
        path = pathfinder.load_nvidia_dynamic_lib(library).abs_path
        facts = Path(path or "").stat()
    except (pathfinder.DynamicLibNotFoundError, OSError):
        return "of the system"
    return f"{path} {facts.st_size} {facts.st_mtime_ns}"
