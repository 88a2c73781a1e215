"""What was made of a declaration, on disk: a process that finds it computes and says the same; what is not whole is made anew."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import axon
from axon import compiler
from axon.backend.cpu import kept
from axon.backend.plan.ir import print_plan
from axon.base import disk
from axon.core.printer import print_program

EXAMPLES = int(os.environ.get("AXON_EXAMPLES", "0")) or (2000 if os.environ.get("AXON_SOAK") else 25)


def numbers(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


# Programs in which every node of core, of plans and of functions is met, each with arguments.
PROGRAMS: dict[str, tuple[str, Callable[[], tuple[Any, ...]]]] = {
    "map": ("fun f (x : f32[n, m]) = for i j => if x[i, j] > 0.0 then x[j % n, j] else -x[i, j]", lambda: (numbers(6, 5),)),
    "softmax": ("import nn\nfun f (x : f32[..s, n]) = nn.softmax x", lambda: (numbers(2, 3, 40),)),
    "product": ("fun f (x : f32[n, k]) (y : f32[k, m]) = for i j => exp ((x @ y)[i, j])", lambda: (numbers(9, 8), numbers(8, 7))),
    "vector": ("fun f (x : f32[n, k]) (y : f32[k]) = for i => sum j => x[i, j] * y[j]", lambda: (numbers(9, 8), numbers(8))),
    "window": ("fun f (x : f32[n]) (w : f32[3]) = for i < n - 2 => sum j => x[i + j] * w[j]", lambda: (numbers(50), numbers(3))),
    "chain": (
        "fun f (a : f32[n, m]) (b : f32[m, k]) (c : f32[k, l]) = for i j => sum p q => a[i, p] * b[p, q] * c[q, j]",
        lambda: (numbers(4, 30), numbers(30, 5), numbers(5, 6)),
    ),
    "loop": (
        "fun f {n} (x : f32[m]) = loop (s = x, t = 0.0) for k < n => (for i => s[i] * 0.5 + t, t + 1.0)",
        lambda: (numbers(9),),
    ),
    "while": ("fun f (x : f32[]) = loop (s = x) while s < 10.0 for i < 50 => s * 2.0 + 1.0", lambda: (np.float32(0.5),)),
    "stacked": (
        "fun f (x : f32[n, n]) = unfold (s = x[0, ..]) for k < 4 => for i => sum j => x[i, j] * s[j]",
        lambda: (numbers(5, 5),),
    ),
    "stepped": (
        "fun f (x : f32[n]) = loop (s = x) for k < 3 => (let val v = argsort s in for i => s[v[i]] + s[0] end)",
        lambda: (numbers(8),),
    ),
    "open": ("fun f (x : f32[n]) = filter (for i => x[i] > 0.0) x", lambda: (numbers(30),)),
    "coerced": ("fun f (x : f32[n, m]) = (x as f32[n, n]) @ x", lambda: (numbers(4, 4),)),
    "table": (
        f"fun f (x : f32[n]) = for i => [| {', '.join(f'{n}.5' for n in range(40))} |][i % 40] + x[i]",
        lambda: (numbers(9),),
    ),
    "scan": ("fun f (x : f32[n]) = (scan (op +, 0.0) k => x[k], scan (fn a b => a * b + a, 0.0) k => x[k])", lambda: (numbers(9),)),
    "best": ("fun f (x : f32[n, m]) = for i => argmax j => x[i, j]", lambda: (numbers(9, 7),)),
    "scatter": (
        "fun f (x : f32[n]) (at : i32[n]) = for b < 4 => sum for i where at[i] = b => x[i]",
        lambda: (numbers(9), np.arange(9, dtype=np.int32) % 4),
    ),
    "records": (
        "fun f (p : { w : f32[n], b : f32[] }) (x, y) = { a = for i => p.w[i] + p.b, c = (x + y, 3) }",
        lambda: ({"w": numbers(4), "b": np.float32(1)}, (numbers(3), numbers(3))),
    ),
    "gather": (
        "fun f (x : f32[n]) (at : i32[m]) = for i => x[at[i]] + x[i - 1 | 0.0]",
        lambda: (numbers(9), np.array([3, 1], np.int32)),
    ),
    "let": (
        "fun f (x : f32[n]) = sum i j => let val y = exp x[i] + x[j] in if y > 1.0 then y * y else y end",
        lambda: (numbers(9),),
    ),
    "quotient": ("fun f (x : f32[n]) = for i < min (n / 2) 5 => cast bf16 x[2 * i]", lambda: (numbers(9),)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("AXON_CACHE_SIZE", raising=False)
    monkeypatch.setenv("AXON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The declarations that are lowered from here on."""
    found: list[str] = []
    lower = compiler.lower

    def watched(checked: Any, name: str, types: Any) -> Any:
        found.append(name)
        return lower(checked, name, types)

    monkeypatch.setattr(compiler, "lower", watched)
    return found


def files() -> list[Path]:
    return sorted(disk.directory().glob("*.program"))


def call(text: str, arguments: tuple[Any, ...], sizes: tuple[int, ...] = ()) -> Any:
    """The result in a module that is checked anew, of compiled kernels."""
    f = axon.compile(text).f
    return (f[sizes] if sizes else f)(*arguments, target="cpu")


def flat(value: Any) -> list[bytes]:
    if isinstance(value, dict):
        value = tuple(value.values())
    return [b for item in value for b in flat(item)] if isinstance(value, tuple) else [np.asarray(value).tobytes()]


def texts(module: Any) -> list[str]:
    """Everything that anyone sees of what was made in a module: the program, plans, functions."""
    (host,) = module._session._hosts.values()
    found = [print_program(host.program), str(host.program.contract)]
    for executable in host._executables.values():
        made = executable.made
        found += [print_plan(made.plan), repr([function for _, function in (*made.nests, *made.products)])]
        found += [repr(loop) for _, loop in made.loops]
    return [unnumbered(text) for text in found]


def unnumbered(text: str) -> str:
    """Without the numbers by which symbols of one name are told apart."""
    numbers: dict[str, str] = {}
    return re.sub(r"\b([a-zA-Z]\w*)\.(\d+)\b", lambda m: f"{m[1]}#{numbers.setdefault(m[2], str(len(numbers)))}", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_read_is_as_lowered(name: str, lowered: list[str]) -> None:
    text, arguments = PROGRAMS[name]
    sizes = (3,) if "{n}" in text else ()
    modules, results = [], []
    for _ in range(2):
        modules.append(module := axon.compile(text))
        results.append((module.f[sizes] if sizes else module.f)(*arguments(), target="cpu"))
    assert lowered == ["f"]
    assert flat(results[0]) == flat(results[1])
    assert texts(modules[0]) == texts(modules[1])
    assert len(files()) == 1


def test_every_node_is_met() -> None:
    """The programs above hold all that is kept."""
    met = set()
    for text, arguments in PROGRAMS.values():
        call(text, arguments(), (3,) if "{n}" in text else ())
    for file in files():
        met |= {row[0] for row in json.loads(file.read_bytes().partition(b"\n")[2])["rows"]}
    # What cuts reductions by the sizes of a call is made for GPUs alone, what is known to be there for these and for meshes.
    assert {cls.__name__ for cls, n in kept.FORMS.number.items() if n not in met} == {"Divided", "Known", "Slices"}


def test_every_field_has_a_form() -> None:
    assert all(isinstance(form, dict) for form in kept.FORMS.all().values())  # NotPlain for one that has none


SOFTMAX = "import nn\nfun f (x : f32[n, m]) = nn.softmax x"


def test_another_call_needs_more(lowered: list[str]) -> None:
    """Functions that a call with other sizes needs are kept beside those before."""
    text = "fun f {n} (x : f32[m]) = loop (s = x) for k < n => for i => s[i] * 0.5 + s[m - 1 - i]"
    small, large = numbers(9), numbers(200_000)  # of which a loop is one function, or stepped
    sizes = []
    for x in (small, large, small, large):
        call(text, (x,), (3,))
        sizes.append(files()[0].stat().st_size)
    assert sizes[0] < sizes[1] == sizes[2] == sizes[3]
    assert lowered == ["f"]


def test_other_types_ranks_and_texts_are_lowered(lowered: list[str]) -> None:
    text = "fun f (x : 'a[..s, n]) y = for ..s i => x[..s, i] + y[i]"
    x = numbers(4, 5)
    for one, source in ((x, text), (x.astype(np.float64), text), (x[0], text), (x, text.replace("+", "-")), (x, text + "  ")):
        call(source, (one, numbers(5).astype(one.dtype)))
        call(source, (one, numbers(5).astype(one.dtype)))
    assert lowered == ["f"] * 5
    assert len(files()) == 5


def test_another_library_or_version_is_lowered(lowered: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.axon").write_text("import b\nfun f (x : f32[n]) = for i => b.g x[i]\n")
    for times in ("2.0", "3.0", "3.0", "2.0"):
        (tmp_path / "b.axon").write_text(f"fun g x = x * {times}\n")
        assert axon.load(tmp_path / "a.axon").f(np.ones(3, np.float32), target="cpu").tolist() == [float(times)] * 3
    assert lowered == ["f"] * 2
    monkeypatch.setattr(disk, "sources", lambda folders: "another")
    call(SOFTMAX, (numbers(3, 4),))
    call(SOFTMAX, (numbers(3, 4),))
    assert lowered == ["f"] * 3


def test_what_is_interpreted_is_not_kept() -> None:
    axon.compile(SOFTMAX).f(numbers(3, 4))
    assert files() == []


def test_errors_are_in_the_same_words() -> None:
    text = "fun f (x : f32[n]) (y : f32[n]) (at : i32[m]) = for i => (x[at[i]] + y[at[i]]) * 2.0"
    good = (numbers(3), numbers(3), np.array([0, 2], np.int32))
    wrong = [(good[0], numbers(4), good[2]), (*good[:2], np.array([0, 3], np.int32)), (good[0], good[1], numbers(2))]
    said: list[list[str]] = []
    for _ in range(2):
        module = axon.compile(text)
        module.f(*good, target="cpu")
        said.append([])
        for arguments in wrong:
            with pytest.raises(axon.AxonError) as caught:
                module.f(*arguments, target="cpu")
            said[-1].append(str(caught.value))
    assert said[0] == said[1]
    assert "index" in said[0][1]


def place(text: str, arguments: tuple[Any, ...]) -> kept.CachePlace:
    module = axon.compile(text)
    module.f(*arguments, target="cpu")
    (host,) = module._session._hosts.values()
    assert host._place is not None
    return host._place


def test_altered_files_count_as_absent() -> None:
    arguments = (numbers(3, 4),)
    here = place(SOFTMAX, arguments)
    (file,) = files()
    content = file.read_bytes()
    assert kept.find(here) is not None

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def altered(data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(content) - 1))
        junk = data.draw(st.binary(max_size=20))
        flipped = bytes([content[at] ^ 1 << data.draw(st.integers(0, 7))])
        file.write_bytes(data.draw(st.sampled_from(
            (content[:at] + flipped + content[at + 1 :], content[:at], content[:at] + junk + content[at:] + b"x", junk)
        )))  # fmt: skip
        assert kept.find(here) is None

    altered()
    expected = flat(call(SOFTMAX, arguments))
    assert kept.find(here) is not None  # it was made again
    assert flat(call(SOFTMAX, arguments)) == expected


def test_a_file_of_another_declaration_counts_as_absent() -> None:
    here, there = place(SOFTMAX, (numbers(3, 4),)), place(SOFTMAX.replace("softmax", "relu"), (numbers(3, 4),))
    kept._file(here).write_bytes(kept._file(there).read_bytes())
    assert kept.find(here) is None
    assert kept.find(there) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 80) | st.just(2**70) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_data_of_another_form_count_as_absent() -> None:
    """Of a file whose digest is right: nobody but the user could have made it, and reading it raises nothing."""
    here = place(SOFTMAX, (numbers(3, 4),))
    (file,) = files()
    whole = json.loads(file.read_bytes().partition(b"\n")[2])

    @settings(max_examples=EXAMPLES * 4, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def forged(data: st.DataObject) -> None:
        part = json.loads(json.dumps(whole))
        at: Any = part
        while True:
            key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
            if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.integers(0, 3)) == 0:
                break
            at = at[key]
        at[key] = data.draw(JSON)
        disk.write(file, here.key, {}, json.dumps(part).encode(), 1 << 30)
        found = kept.find(here)
        assert found is None or isinstance(found, kept.Kept)

    forged()


def test_nothing_is_evaluated() -> None:
    """Reading compiles and imports nothing."""
    here = place(SOFTMAX, (numbers(3, 4),))
    kept.find(here)
    seen: list[str] = []
    watching = True
    sys.addaudithook(lambda name, _: seen.append(name) if watching else None)
    found = kept.find(here)
    watching = False
    assert found is not None
    assert not {"compile", "exec", "import", "marshal.loads", "pickle.find_class"} & set(seen)


def test_a_cache_that_cannot_be_used(cache: Path, lowered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = flat(call(SOFTMAX, (numbers(3, 4),)))
    cache.chmod(0o500)
    monkeypatch.setattr(disk, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert flat(call(SOFTMAX, (numbers(3, 4),))) == expected
    assert flat(call(SOFTMAX, (numbers(4, 3),))) != expected
    assert lowered == ["f"]
    cache.chmod(0o700)
    files()[0].unlink()
    assert flat(call(SOFTMAX, (numbers(3, 4),))) == expected
    assert files() == []
    assert lowered == ["f"] * 2


CALL = f"""
import numpy as np, axon
f = axon.compile({SOFTMAX!r}).f
for n in (3, 4, 5):
    print(f(np.arange(n * 8, dtype=np.float32).reshape(n, 8), target="cpu").tobytes().hex())
"""


def test_processes_at_once(cache: Path) -> None:
    """Each writes whole files, and finds those of others whole."""
    environment = {**os.environ, "AXON_CACHE": str(cache)}
    started = [subprocess.Popen([sys.executable, "-c", CALL], env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    answers = {process.communicate(timeout=100)[0] for process in started}
    assert len(answers) == 1
    assert answers.pop()
    assert len(files()) == 1
    assert not list(cache.glob("*.part"))
