"""The cache of built kernels: what is not whole, not ours, or not what its name says counts as absent; many processes share it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path
from random import Random

import pytest

import axon
from axon.backend import kernel_cache as cache
from axon.backend.kernel_cache import LinkedKernel, Refused
from axon.base import disk

pytestmark = pytest.mark.usefixtures("own_cache")
KEY = hashlib.sha256(b"one").hexdigest()
OTHER = hashlib.sha256(b"two").hexdigest()
MADE = LinkedKernel(bytes(range(256)) * 40 + b"\n{}\n", "kernel_entry", 168, 0)


@pytest.fixture
def file() -> Path:
    cache.write(KEY, MADE)
    return cache.directory() / f"{KEY}.cubin"


def test_what_is_written_is_read(file: Path) -> None:
    assert cache.read(KEY) == MADE
    assert cache.read(OTHER) is None
    cache.write(OTHER, Refused("it spills"))
    assert cache.read(OTHER) == Refused("it spills")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    head, _, rest = file.read_bytes().partition(b"\n")
    assert rest == MADE.cubin
    assert json.loads(head)["registers"] == 168


def test_altered_files_count_as_absent(file: Path) -> None:
    whole = file.read_bytes()
    chance = Random(0)
    cuts = {0, 1, len(whole) - 1, whole.index(b"\n"), whole.index(b"\n") + 1, *(chance.randrange(len(whole)) for _ in range(40))}
    for cut in cuts:
        file.write_bytes(whole[:cut])
        assert cache.read(KEY) is None
    for at in {0, whole.index(b"\n"), *range(0, 300, 3), *(chance.randrange(len(whole)) for _ in range(100))}:
        flipped = bytearray(whole)
        flipped[at] ^= 1 << chance.randrange(8)
        file.write_bytes(flipped)
        assert cache.read(KEY) is None, at
    for junk in (b"", b"\n", b"null\n", b"[]\n", b'{"digest": 1}\n', b"{" * 100_000, whole + b"x"):
        file.write_bytes(junk)
        assert cache.read(KEY) is None
    file.write_bytes(whole)
    assert cache.read(KEY) == MADE


def test_foreign_files_count_as_absent(file: Path, tmp_path: Path) -> None:
    elsewhere = file.with_name(f"{OTHER}.cubin")
    elsewhere.write_bytes(file.read_bytes())  # whole, but another kernel's
    assert cache.read(OTHER) is None
    file.chmod(0o666)  # anyone may have written it
    assert cache.read(KEY) is None
    file.unlink()
    (tmp_path / "real").write_bytes(elsewhere.read_bytes())
    file.symlink_to(tmp_path / "real")
    assert cache.read(KEY) is None
    file.unlink()
    os.mkfifo(file, 0o600)  # which nobody writes to: it is not waited for
    assert cache.read(KEY) is None
    file.unlink()
    file.mkdir()
    assert cache.read(KEY) is None


def test_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXON_CACHE_SIZE", "100K")
    keys = [hashlib.sha256(bytes([n])).hexdigest() for n in range(12)]
    now = time.time()
    for n, key in enumerate(keys[:8]):  # 10 kB each
        cache.write(key, MADE)
        os.utime(cache.directory() / f"{key}.cubin", (now - 1000 + n, now - 1000 + n))
    assert cache.read(keys[0]) == MADE  # which makes it the youngest
    for key in keys[8:]:
        cache.write(key, MADE)
    left = {key for key in keys if cache.read(key)}
    assert left == {keys[0], *keys[12 - len(left) + 1 :]}
    assert sum(f.stat().st_size for f in cache.directory().glob("*.cubin")) <= 100 << 10


def test_what_was_never_finished_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever files are counted."""
    monkeypatch.setattr(disk, "SHARE", 0.0)
    old, young = cache.directory() / "a.part", cache.directory() / "b.part"
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.write(KEY, MADE)
    assert (old.exists(), young.exists()) == (False, True)


@pytest.mark.parametrize(
    ("text", "size"), [("", 1 << 30), ("1000", 1000), ("5k", 5 << 10), ("500M", 500 << 20), ("2 GiB", 2 << 30)]
)
def test_sizes(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXON_CACHE_SIZE", text)
    assert cache.limit() == size


def test_bad_settings_are_diagnostics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXON_CACHE_SIZE", "much")
    with pytest.raises(axon.AxonError, match="500M"):
        cache.limit()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AXON_CACHE", str(tmp_path / "file" / "inside"))
    with pytest.raises(axon.AxonError, match="set AXON_CACHE to a directory of yours"):
        cache.read(KEY)


def test_a_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell leaves `~` alone between quotes, and so does what reads settings from a file."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AXON_CACHE", "~/kernels")
    assert cache.directory() == tmp_path / "home" / "kernels"
    monkeypatch.setenv("AXON_CACHE", "~nobody-is-called-so/kernels")
    with pytest.raises(axon.AxonError, match="no such user"):
        cache.directory()


def test_a_full_disk_costs_time_and_not_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    cache._warn.cache_clear()
    monkeypatch.setattr(cache.tempfile, "mkstemp", full)
    with pytest.warns(UserWarning, match="No space left"):
        cache.write(KEY, MADE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.write(KEY, MADE)
    assert cache.read(KEY) is None


# ── many processes ──────────────────────────────────────────────────────────────────────────────────────────────────────

PROCESSES = 32 if os.environ.get("AXON_SOAK") else 6
MAKE = """
import os, sys, time
from pathlib import Path
from axon.backend import kernel_cache as cache
from axon.base import disk
key, log = sys.argv[1], Path(sys.argv[2])
with cache.lock(key):
    if cache.read(key) is None:
        with log.open("a") as file:
            file.write("made\\n")
        time.sleep(0.2)
        cache.write(key, cache.LinkedKernel(b"x" * 100_000, "entry", 1, 0))
assert cache.read(key) == cache.LinkedKernel(b"x" * 100_000, "entry", 1, 0)
"""


def start(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)


def test_one_of_many_processes_makes_a_kernel(tmp_path: Path) -> None:
    log = tmp_path / "log"
    running = [start(MAKE, KEY, str(log)) for _ in range(PROCESSES)]
    assert [p.wait(60) for p in running] == [0] * PROCESSES
    assert log.read_text() == "made\n"
    assert not list(cache.directory().glob("*.part"))


HANG = """
import os, sys, time
from axon.backend import kernel_cache as cache
from axon.base import disk
write = os.replace
def hang(*_):
    print("here", flush=True)
    time.sleep(60)
os.replace = hang
with cache.lock(sys.argv[1]):
    cache.write(sys.argv[1], cache.LinkedKernel(b"x" * 100_000, "entry", 1, 0))
"""


def test_a_killed_process_leaves_the_cache_sound(tmp_path: Path) -> None:
    """Killed with the lock held and the file half way: the lock goes with it, and the next process makes the kernel."""
    victim = start(HANG, KEY)
    assert victim.stdout is not None
    assert victim.stdout.readline() == b"here\n"
    victim.send_signal(signal.SIGKILL)
    victim.wait(10)
    assert cache.read(KEY) is None
    assert len(list(cache.directory().glob("*.part"))) == 1
    log = tmp_path / "log"
    assert start(MAKE, KEY, str(log)).wait(60) == 0
    assert log.read_text() == "made\n"


def test_a_home_that_cannot_be_written_to_costs_only_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("no directory")
    monkeypatch.delenv("AXON_CACHE", raising=False)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home))
    cache._of_this_process.cache_clear()
    with pytest.warns(RuntimeWarning, match="built anew in each process"):
        path = cache.directory()
    assert path.is_dir()
    cache.write(KEY, LinkedKernel(b"code", "entry", 1, 0))
    assert cache.read(KEY) == LinkedKernel(b"code", "entry", 1, 0)
    monkeypatch.setenv("AXON_CACHE", str(home))
    with pytest.raises(axon.AxonError, match="Axon lacks a directory for built kernels"):
        cache.directory()
