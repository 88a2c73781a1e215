"""Built kernels of every target on disk, by the digest of all that they depend on (`_key` of each `build`).

They are machine code and numbers; nothing in them is evaluated.

One file per kernel: a line of JSON, then the cubin. A file counts only if it is this user's, nobody else can write it, it names
its own key, and its digest is right: what is truncated, altered or foreign is as if it were not there, and is made again. Files
are written aside and renamed, so that readers see whole ones, also when a writer is killed. Who makes a kernel holds a lock
meanwhile, which ends with its process; others wait and then find the kernel. The oldest files go when the whole grows past its
limit.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as once
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from axon.backend.needs import Missing

FORMAT = 2
DEFAULT_LIMIT = 1 << 30  # bytes
LOCKS = 64  # files; kernels share them by digest
STALE = 3600.0  # seconds after which a file that was never finished is nobody's
_LARGEST = 64 << 20  # bytes of one entry
_ELSEWHERE = "set AXON_CACHE to a directory of yours"


@dataclass(frozen=True, slots=True)
class Kernel:
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
    chosen = os.environ.get("AXON_CACHE")
    if chosen:
        try:
            path = Path(chosen).expanduser()
        except RuntimeError:
            _instead(f"{chosen}: no such user has a home", chosen)
    else:
        from platformdirs import user_cache_path

        path = user_cache_path("axon") / "kernels"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = path.stat().st_uid
    except OSError as error:
        return _instead(f"{path}: {error.strerror}", chosen)
    return path if owner == os.getuid() else _instead(f"{path} belongs to another user", chosen)


def _instead(why: str, chosen: str | None) -> Path:
    if chosen:
        raise Missing(f"a directory for built kernels: {why}", _ELSEWHERE, who="Axon") from None
    return _of_this_process(why)


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
    text = os.environ.get("AXON_CACHE_SIZE", "").strip()
    if not text:
        return DEFAULT_LIMIT
    match = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)i?B?", text, re.IGNORECASE)
    if match is None:
        what = f"a size for its cache: AXON_CACHE_SIZE is `{text[:40]}`"
        raise Missing(what, "write bytes, or a size such as 500M or 2G", who="Axon")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]


def read(key: str) -> Kernel | Refused | None:
    """The kernel of a key; None if there is none, or its file is not whole."""
    path = directory() / f"{key}.cubin"
    try:
        content = _content(path)
        head, _, cubin = content.partition(b"\n")
        facts = json.loads(head)
        if facts.pop("digest") != _digest(key, facts, cubin) or facts["format"] != FORMAT:
            return None
        if facts["refused"] is not None:
            return Refused(str(facts["refused"]))
        return Kernel(cubin, str(facts["entry"]), int(facts["registers"]), int(facts["spilled"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _content(path: Path) -> bytes:
    # Not blocking: a pipe of that name, which nobody writes to, would otherwise be waited for.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        private = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022
        if not private or facts.st_size > _LARGEST:
            raise PermissionError(path)
        if time.time() - facts.st_mtime > 60:  # used now: the last to go
            os.utime(handle)
        return file.read()


def write(key: str, made: Kernel | Refused) -> None:
    """Keep a kernel. A cache that cannot be written costs time, not results: it is said once, as a warning."""
    facts: dict[str, Any] = {"format": FORMAT, "key": key, "entry": "", "registers": 0, "spilled": 0, "refused": None}
    cubin = b""
    match made:
        case Kernel():
            facts |= {"entry": made.entry, "registers": made.registers, "spilled": made.spilled}
            cubin = made.cubin
        case Refused(log=log):
            facts["refused"] = log[-4000:]
    facts["digest"] = _digest(key, facts, cubin)
    path = directory()
    try:
        handle, aside = tempfile.mkstemp(dir=path, prefix=f"{key[:16]}-", suffix=".part")  # which nobody else can read or write
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(json.dumps(facts).encode() + b"\n" + cubin)
            os.replace(aside, path / f"{key}.cubin")
        except BaseException:  # also Ctrl-C
            Path(aside).unlink(missing_ok=True)
            raise
        shrink(path, limit(), f"{key}.cubin")
    except OSError as error:
        _warn(str(path), error.strerror or str(error))


@once
def _warn(path: str, why: str) -> None:
    warnings.warn(f"Axon cannot keep built kernels in {path} ({why}), and will build them again", stacklevel=2)


def _digest(key: str, facts: dict[str, Any], cubin: bytes) -> str:
    head = json.dumps([key, sorted((name, value) for name, value in facts.items() if name != "digest")])
    return hashlib.sha256(head.encode() + b"\0" + cubin).hexdigest()


def shrink(path: Path, most: int, keep: str = "") -> None:
    """Remove the kernels that were used longest ago until nine tenths of the limit are left, and files that were never finished."""
    found: list[tuple[float, int, Path]] = []
    now = time.time()
    for entry in os.scandir(path):
        try:
            facts = entry.stat(follow_symlinks=False)
        except OSError:  # another process was faster
            continue
        if entry.name.endswith(".part") and now - facts.st_mtime > STALE:
            Path(entry.path).unlink(missing_ok=True)
        elif entry.name.endswith(".cubin"):
            found.append((facts.st_mtime, facts.st_size, Path(entry.path)))
    total = sum(size for _, size, _ in found)
    if total <= most:
        return
    for _, size, file in sorted(found):
        if file.name != keep:
            file.unlink(missing_ok=True)
            total -= size
        if total <= 0.9 * most:
            return


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
