"""Built kernels of every target on disk, by the digest of all that they depend on (`_key` of each `build`).

They are machine code and numbers, one file (`base.disk`) per kernel. Who makes a kernel holds a lock meanwhile, which ends with its
process; others wait and then find the kernel.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache as once
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from axon.backend.needs import Missing
from axon.base import disk
from axon.base.data import dataclass

FORMAT = 2
LOCKS = 64  # files; kernels share them by digest
_ELSEWHERE = "set AXON_CACHE to a directory of yours"


@dataclass(frozen=True, slots=True)
class LinkedKernel:
    """A linked kernel: machine code, its entry's name, and what it uses of each thread."""

    cubin: bytes
    entry: str
    registers: int
    spilled: int  # bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """A kernel that was built and must not run, since it does not fit its registers; and the compiler's words."""

    log: str


# Settings of numba, in the environment, that say where or how fast and not what is compiled.
_ELSEWHERE_SET = frozenset({"NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "NUMBA_THREADING_LAYER_PRIORITY", "NUMBA_CACHE_DIR"})


def settings() -> str:
    """What the environment says of how numba compiles: part of every key."""
    chosen = (item for item in os.environ.items() if item[0].startswith("NUMBA_") and item[0] not in _ELSEWHERE_SET)
    return "\0".join(f"{name}={value}" for name, value in sorted(chosen))


def directory() -> Path:
    """Where kernels are kept: `AXON_CACHE`, or the user's cache directory. Made for this user alone.

    A user's directory that cannot be used is replaced by one of the process's own, with a warning; `AXON_CACHE` is not: Missing.
    """
    try:
        return disk.directory()
    except disk.CannotKeep as why:
        if disk.chosen():
            raise Missing(f"a directory for built kernels: {why}", _ELSEWHERE, who="Axon") from None
        return _of_this_process(str(why))


@once
def _of_this_process(why: str) -> Path:
    """A directory that goes with the process."""
    path = tempfile.mkdtemp(prefix="axon-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    text = f"kernels are built anew in each process, since they cannot be kept ({why}); {_ELSEWHERE}"
    warnings.warn(text, RuntimeWarning, stacklevel=2)
    return Path(path)


def limit() -> int:
    """How many bytes the cache may hold: `AXON_CACHE_SIZE`, such as 500M or 2G, or 1 GiB. Raises Missing for other texts."""
    try:
        return disk.limit()
    except disk.CannotKeep as why:
        raise Missing(f"a size for its cache: {why}", "write bytes, or a size such as 500M or 2G", who="Axon") from None


def read(key: str) -> LinkedKernel | Refused | None:
    """The kernel of a key; None if there is none, or its file is not whole."""
    found = disk.read(directory() / f"{key}.cubin", key)
    if found is None:
        return None
    facts, cubin = found
    try:
        if facts["format"] != FORMAT:
            return None
        if facts["refused"] is not None:
            return Refused(str(facts["refused"]))
        return LinkedKernel(cubin, str(facts["entry"]), int(facts["registers"]), int(facts["spilled"]))
    except (ValueError, KeyError, TypeError):
        return None


def write(key: str, made: LinkedKernel | Refused) -> None:
    """Keep a kernel. A cache that cannot be written costs time, not results: it is said once, as a warning."""
    facts: dict[str, Any] = {"format": FORMAT, "key": key, "entry": "", "registers": 0, "spilled": 0, "refused": None}
    cubin = b""
    match made:
        case LinkedKernel():
            facts |= {"entry": made.entry, "registers": made.registers, "spilled": made.spilled}
            cubin = made.cubin
        case Refused(log=log):
            facts["refused"] = log[-4000:]
    path = directory()
    try:
        disk.write(path / f"{key}.cubin", key, facts, cubin, limit())
    except OSError as error:
        _warn(str(path), error.strerror or str(error))


@once
def _warn(path: str, why: str) -> None:
    warnings.warn(f"Axon cannot keep built kernels in {path} ({why}), and will build them again", stacklevel=2)


@contextmanager
def lock(key: str) -> Iterator[None]:
    """Held by one thread of one process at a time, for keys that share a file. Ends with the process."""
    held = claim(key, wait=True)
    assert held is not None
    with held:
        yield


def claim(key: str, *, wait: bool = False) -> IO[bytes] | None:
    """The lock of a key, which holds until it is closed, or its process ends; None where another holds it, unless that is to be
    waited for."""
    import fcntl

    try:
        file = open(directory() / f"lock-{int(key[:8], 16) % LOCKS:02d}", "ab", opener=_private)  # noqa: SIM115 (it is given)
    except OSError:  # a directory that cannot be written: two processes may build the same kernel
        return BytesIO()
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:  # a file system without locks, likewise
        pass
    except BaseException:  # Ctrl-C
        file.close()
        raise
    return file


def _private(path: str, _: int) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
