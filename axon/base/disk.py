"""What Axon keeps on disk for this user, such as built kernels: files that are whole and ours, or count as absent.

A file is a line of JSON, its facts, and then bytes. It counts only if it is this user's, nobody else can write it, it names its own
key, and its digest is right: what is truncated, altered or foreign is as if it were not there, and is made again. Nothing in it is
evaluated. Files are written aside and renamed, so that readers see whole ones, also when a writer is killed. The oldest files go
when the whole grows past its limit.

Note [When files are counted]
    To count ten thousand files takes a tenth of a second, so not every file that is written is followed by it: of all that is
    written, by all processes, about one file in each SHARE of the limit is, as the digests of the files decide, and each file
    that is larger than that.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

DEFAULT_LIMIT = 1 << 30  # bytes
SHARE = 1 / 256  # of the limit, in which files are counted about once
STALE = 3600.0  # seconds after which a file that was never finished is nobody's
# Of built kernels, of checked modules, of what was made of declarations, of what XLA calls.
SUFFIXES = (".cubin", ".module", ".program", ".library")
_LARGEST = 64 << 20  # bytes of one file


class CannotKeep(Exception):
    """Nothing can be kept here: why, in words."""


def chosen() -> str | None:
    """The directory that the user has chosen: `AXON_CACHE`."""
    return os.environ.get("AXON_CACHE") or None


def directory() -> Path:
    """Where things are kept: `AXON_CACHE`, or the user's cache directory. Made for this user alone. Raises CannotKeep."""
    if not hasattr(os, "getuid"):
        raise CannotKeep("this system does not say whose files are")
    own = chosen()
    if own:
        try:
            path = Path(own).expanduser()
        except RuntimeError:
            raise CannotKeep(f"{own}: no such user has a home") from None
    else:
        from platformdirs import user_cache_path

        path = user_cache_path("axon") / "kernels"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = path.stat().st_uid
    except OSError as error:
        raise CannotKeep(f"{path}: {error.strerror}") from None
    if owner != os.getuid():
        raise CannotKeep(f"{path} belongs to another user")
    return path


def limit() -> int:
    """How many bytes may be kept: `AXON_CACHE_SIZE`, such as 500M or 2G, or 1 GiB. Raises CannotKeep for other texts."""
    text = os.environ.get("AXON_CACHE_SIZE", "").strip()
    if not text:
        return DEFAULT_LIMIT
    match = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)i?B?", text, re.IGNORECASE)
    if match is None:
        raise CannotKeep(f"AXON_CACHE_SIZE is `{text[:40]}`")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]


@cache
def sources(folders: Iterable[str]) -> str:
    """A digest of Axon's version, of Python's, and of every source in these folders: of what is kept of what these make."""
    return digest_of(Path(__file__).parents[1], folders)


def digest_of(package: Path, folders: Iterable[str]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    files = sorted(file for folder in folders for file in (package / folder).rglob("*") if file.suffix in (".py", ".lark"))
    for file in (package / "__init__.py", *files):  # which holds the version
        content = file.read_bytes()
        digest.update(f"\0{file.relative_to(package)} {len(content)}\0".encode() + content)
    return digest.hexdigest()


def read(path: Path, key: str) -> tuple[dict[str, Any], bytes] | None:
    """The facts and the bytes that were written to a file under a key; None if there is none, or it is not whole and ours."""
    try:
        head, _, content = _content(path).partition(b"\n")
        facts = json.loads(head)
        return (facts, content) if facts.pop("digest") == _digest(key, facts, content) else None
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
            with suppress(OSError):  # of a disk that can only be read
                os.utime(handle)
        return file.read()


def write(path: Path, key: str, facts: dict[str, Any], content: bytes, most: int) -> None:
    """Keep facts and bytes in a file, and now and then remove what was used longest ago, until so many bytes are kept. Raises
    OSError. See Note [When files are counted]."""
    import tempfile

    whole = {**facts, "digest": _digest(key, facts, content)}
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f"{key[:16]}-", suffix=".part")  # which nobody else can read or write
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(whole).encode() + b"\n" + content)
        os.replace(aside, path)
    except BaseException:  # also Ctrl-C
        Path(aside).unlink(missing_ok=True)
        raise
    if int(whole["digest"][:8], 16) * SHARE * most <= len(content) << 32:
        shrink(path.parent, most, path.name)


def _digest(key: str, facts: dict[str, Any], content: bytes) -> str:
    head = json.dumps([key, sorted((name, value) for name, value in facts.items() if name != "digest")])
    return hashlib.sha256(head.encode() + b"\0" + content).hexdigest()


def shrink(path: Path, most: int, keep: str = "") -> None:
    """Remove the files that were used longest ago until nine tenths of the limit are left, and those that were never finished."""
    found: list[tuple[float, int, Path]] = []
    now = time.time()
    for entry in os.scandir(path):
        try:
            facts = entry.stat(follow_symlinks=False)
        except OSError:  # another process was faster
            continue
        if entry.name.endswith(".part") and now - facts.st_mtime > STALE:
            with suppress(OSError):
                Path(entry.path).unlink()
        elif entry.name.endswith(SUFFIXES):
            found.append((facts.st_mtime, facts.st_size, Path(entry.path)))
    total = sum(size for _, size, _ in found)
    if total <= most:
        return
    for _, size, file in sorted(found):
        if file.name != keep:
            with suppress(OSError):  # of another process, or a directory: it stays
                file.unlink()
                total -= size
        if total <= 0.9 * most:
            return
