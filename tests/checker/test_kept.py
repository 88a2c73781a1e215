"""The standard library on disk: whether a module was read or checked, nobody can tell; what is not whole and ours is not read."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import axon
from axon import compiler
from axon.base import disk
from axon.checker import check, kept, loader, plain
from axon.checker.loader import FileLoader
from axon.checker.module import CheckedModule
from axon.core.printer import print_program
from axon.shapes.relation import Relation
from axon.types import typed as T
from axon.types.type import Scheme

EXAMPLES = int(os.environ.get("AXON_EXAMPLES", "0")) or (2000 if os.environ.get("AXON_SOAK") else 8)

# A library of every kind of thing that a module can make available, and every node that a declaration can hold.
LOW = """
type layer[d, k] = { w : f32[d, k], b : f32[k] }
type pair['a, n] = { first : 'a[n], second : 'a[n] }
val eps = 1e-5
val (one, two) = (1, 2.0)
val three = 3
val table = [| 1.0, 2.0, 4.0 |]
fun dense (p : layer[d, k]) (x : f32[..b, d]) = for ..b j => (sum c => x[..b, c] * p.w[c, j]) + p.b[j]
fun kept (x : 'a[n]) = filter (for i => x[i] > x[0]) x
fun swap (a, b) = (b, a)
fun both {h} f (x : f32[n, d]) = let val g = fn y => f (f y) in for i, c < h, e => g (x[i, (c, e)]) end
fun chosen x = if any i => x[i] > 0.0 then not (x[0] = 1.0) else false
fun steps k x = loop (s = x, t = 0) for i < k => (s * 2.0 + cast _ i, t + i)
fun all_of x = unfold (s = 0.0) for i < 3 => s + x
fun running x = scan (fn a b => a + b, 0.0) k => x[k]
fun middle (x : f32[n]) = x[1 : n - 1 : 2]
fun padded x i = x[i - 1 | 0.0]
fun wide (x : f32[n, m]) = (x as f32[n, n]) @ x
fun mapped x = (op +) (exp (-x)) 1.0
fun rows (x : f32[n, ..s]) = for i => x[i, ..]
fun halves (x : f32[n]) = let val m = n / 2 in for i < m => x[i] end
fun count (x : 'a[n]) = argmax i => x[i]
sig scaled : {k} -> f32[k] -> f32[k]
fun scaled {k} x = for i => x[i] * cast f32 k
fun recorded (x : f32[n]) = { first = x, second = for i => x[i] + 1.0 }
fun least {a, b} = for i < min a b => i
type block[..s, n] = (f32[..s, 2 * n - 1], f32[min n 8] -> f32[n])
type odd = { e : ?k <= 3. f32[k], n : f32[-1 + 4] }
fun first_of (x : block[..s, n]) = x.1
fun named { first = x, second = _ } = x
fun second_of (p : (f32[n], f32[n])) = p.1 + p.2
fun pair_of (p : pair['a, n]) = p.first + p.second
fun big x = x + 300
fun moved dt x v = x + dt * v
"""
HIGH = """
import low
fun twice (p : low.layer[d, d]) x = low.dense p (low.dense p x)
fun some x = let val y = low.kept x in sum i => y[i] end
fun pairs x = low.recorded x
"""
USE = """
import high
import low
fun net p x = high.twice p x + low.eps
fun sums x = high.some x
fun both x = low.both {2} (fn y => y * low.two) x
fun stepped (x : f32) = low.steps 3 x
fun rest x = (low.all_of 1.0, low.running x, low.middle x, low.padded x 0, low.swap (x, low.three), low.chosen x)
fun more x = (low.wide x, low.mapped x, low.rows x, low.halves low.table, low.scaled {3} x[0, :3], low.count x[0, ..])
fun least {n} (x : f32[n]) = (low.least {n, 3}, x)
fun typed (p : low.pair['a, n]) = low.pair_of p
fun record x = (high.pairs x).second
fun moved (x : f32[n, m]) = low.moved 0.5 x x
"""
WRONG = """
import high
import low
fun a (p : low.layer[d, k]) x = high.twice p x + low.nothing
fun b (x : f32[n, m]) = high.pairs x
fun c (x : f32[4, 6]) (y : f32[5]) = low.middle y + x[0, ..]
fun e (p : low.layer[3, 4]) (x : f32[5]) = low.dense p x
fun g x = low.both {3} low.eps x + low.halves x
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A standard library of its own, and a cache."""
    found = tmp_path / "stdlib"
    found.mkdir()
    (found / "low.axon").write_text(LOW)
    (found / "high.axon").write_text(HIGH)
    monkeypatch.setattr(loader, "stdlib_root", lambda: found)
    monkeypatch.setenv("AXON_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AXON_CACHE_SIZE", raising=False)
    forget()
    yield found
    forget()


def forget() -> None:
    """What a new process does not know."""
    for known in (kept.LIBRARY, check._whole, loader._library):
        known.clear()


def anew(text: str, path: str = compiler.TEXT) -> CheckedModule:
    forget()
    return compiler.check(FileLoader({path: text}), path)


def files() -> list[Path]:
    return sorted(disk.directory().glob("*.module"))


def imported(checked: CheckedModule) -> Iterator[CheckedModule]:
    for module in checked.imports.values():
        yield module
        yield from imported(module)


def texts(checked: CheckedModule) -> list[str]:
    """Everything that anyone sees of a module."""
    found = [axon.AxonError(checked.diagnostics).__str__()]
    for name, signature in checked.signatures.items():
        facts = checked.schemes[name].facts
        found += [f"{name} : {signature}", *(f"{said(fact.relation)} {fact.why} {fact.span}" for fact in facts)]
        try:
            program = compiler.lower(checked, name, None)
            found += [print_program(program), str([said(fact.relation) for fact in program.contract.facts])]
        except axon.AxonError as error:
            found.append(str(error))
    return found


def said(relation: Relation) -> str:
    return relation.render(lambda symbol: symbol.name)


def is_read(checked: CheckedModule) -> bool:
    """Whether all that a module imports was read; asked of modules of which all or none is."""
    (answer,) = {module.was_read for module in imported(checked)}
    return answer


# ── the same ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_read_is_as_checked(root: Path) -> None:
    for text in (USE, WRONG):
        checked = anew(text)
        assert not is_read(checked) or text is WRONG
        read = anew(text)
        assert is_read(read)
        assert texts(read) == texts(checked)
    assert len(files()) == 2


def test_what_modules_make_available(root: Path) -> None:
    """All of it, name by name, and in its order."""
    checked, read = anew(USE), anew(USE)
    for one, other in zip(imported(checked), imported(read), strict=True):
        assert dict(one.signatures) == dict(other.signatures)
        assert list(one.declarations) == list(other.declarations) == list(other.schemes) == list(other.symbols)
        assert one.exports is not None
        assert other.exports is not None
        assert list(one.exports.values) == list(other.exports.values)
        assert list(one.exports.aliases) == list(other.exports.aliases)
        assert {n: a.decl for n, a in one.exports.aliases.items()} == {n: a.decl for n, a in other.exports.aliases.items()}
        for name, decl in one.declarations.items():
            assert outline(decl) == outline(other.declarations[name])
            assert other.declarations[name] is other.declarations[name]
    assert read.imports["low"].declarations["one"] is read.imports["low"].declarations["two"]


def outline(node: object) -> object:
    """A typed declaration without what its types are called inside the checker."""
    if isinstance(node, tuple):
        return [outline(part) for part in node]
    if isinstance(node, T.Node | T.Val | T.Fun | T.At | T.Slice):
        parts = {f.name: outline(getattr(node, f.name)) for f in fields(node) if f.name in (*T.CHILDREN, "span", "op", "name")}
        return type(node).__name__, parts
    return str(node) if isinstance(node, str | int | float) else getattr(node, "start", None)


def test_the_standard_library_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of the true one, and what it becomes when it is written again is what was read."""
    monkeypatch.setenv("AXON_CACHE", str(tmp_path))
    names = loader.library_modules()
    text = "".join(f"import {name}\n" for name in names)
    anew(text)
    assert len(files()) == len(names)
    read = anew(text)
    assert is_read(read)
    for module in imported(read):
        key = kept._key(module.source)
        found = disk.read(disk.directory() / f"{key}.module", key)
        assert found is not None
        assert kept._lines(module)[1:] == found[1].split(b"\n")[1:]
    forget()


def test_symbols_are_unique(root: Path) -> None:
    """None of what is read is one that was there before, and the order of their ages is that of a check."""
    anew(USE)
    first = axon.base.names.fresh("x")
    modules = [module for module in imported(anew(USE)) if module.source.path == "stdlib/low.axon"]
    last = axon.base.names.fresh("x")
    symbols = [symbol for module in modules[:1] for symbol in module.symbols.values()]
    assert [s.id for s in symbols] == sorted(s.id for s in symbols)
    assert all(first.id < symbol.id < last.id for symbol in symbols)


def test_a_file_of_the_library_itself_is_checked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks about it asks for more than is kept: how its sizes were derived, and what its inner names are."""
    anew(USE)
    forget()
    path = "stdlib/low.axon"
    monkeypatch.chdir(root.parent)
    own = compiler.check(FileLoader(), path)
    assert own.trail is not None
    assert own.names
    assert compiler.check_text(USE).ok


def test_a_module_with_errors_or_warnings_is_not_kept(root: Path) -> None:
    (root / "low.axon").write_text(LOW + "fun wrong (x : f32[3]) = x[4]\n")
    assert not anew(USE).ok
    assert not files()


def test_what_no_program_uses_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much a library holds: only what a program names costs it anything, types apart."""
    text = "import high\nfun f p x = high.twice p x\nfun g p x = high.twice p x"
    anew(text)
    asked: list[str] = []
    value, decl = kept._Reading.value, kept._Reading.declaration
    monkeypatch.setattr(kept._Reading, "value", lambda self, name: asked.append(name) or value(self, name))
    monkeypatch.setattr(kept._Reading, "declaration", lambda self, name: asked.append(f"{name}'s body") or decl(self, name))
    read = anew(text)
    assert is_read(read)
    assert asked == ["twice"]
    compiler.lower(read, "f", None)
    assert sorted({*asked}) == ["dense", "dense's body", "twice", "twice's body"]


# ── files of users ──────────────────────────────────────────────────────────────────────────────────────────────────────


OWN = "fun own (x : f32[n, m]) = let val y = beside.last x in sum i => y[i] end\n"
MINE = USE.replace("import low", "import beside\nimport low") + OWN
BESIDE = "import low\nfun last (x : f32[n, m]) = low.kept x[n - 1, ..]\n"


@pytest.fixture
def mine(root: Path, tmp_path: Path) -> Path:
    """A file of a user, and one beside it that it imports."""
    (tmp_path / "mine.axon").write_text(MINE)
    (tmp_path / "beside.axon").write_text(BESIDE)
    return tmp_path / "mine.axon"


def loaded(file: Path) -> CheckedModule:
    forget()
    return compiler.load(str(file))


def test_a_file_is_read_as_it_was_checked(mine: Path) -> None:
    checked, read, again = loaded(mine), loaded(mine), compiler.load(str(mine))
    assert [m.was_read for m in (checked, read, again)] == [False, True, True]
    assert texts(checked) == texts(read) == texts(again) == texts(compiler.check(FileLoader(), str(mine)))
    assert all(module.was_read for module in imported(read))
    assert again.imports["low"] is read.imports["low"]  # a process reads the library once
    assert [*axon.load(mine)] == [*checked.signatures]
    assert len(files()) == 4


SIZES = """
type layer[d, k] = { w : f32[d, k], b : f32[k] }
fun annotated (p : layer[d, k]) (x : f32[n, d]) = x @ p.w + p.b
fun indices x y = for i, k => (sum j => x[i, j, k] * y[j])
fun unnamed (x : f32[n]) y = x[0] + y[2]
fun braces {h} (x : f32[h * d]) = for i < h => x[i]
fun counted (x : f32[n]) = filter (for i => x[i] > 0.0) x
fun cut (x : f32[n, ..s]) = for i < n / 2 => x[i, ..]
sig signed : f32[a, b] -> f32[b]
fun signed x = for j => (sum i => x[i, j])
"""


def test_sizes_of_a_file_that_was_read(mine: Path) -> None:
    """Which sizes the source names, and what they are called: sizes are found by these names."""
    mine.write_text(SIZES)

    def said() -> dict[str, str]:
        forget()
        module = axon.load(mine)
        return {name: str(module[name].sizes) for name in module} | {"of rank 3": str(module.cut.sizes(ranks={"s": 2}))}

    checked, read = said(), said()
    assert loaded(mine).was_read
    assert read == checked
    assert "by place alone" in checked["unnamed"]
    assert not any("by place alone" in text for name, text in checked.items() if name != "unnamed")


def test_a_file_is_checked_after_a_check(mine: Path) -> None:
    """What is read is of the same library as what is checked in a process, in either order."""
    loaded(mine)
    forget()
    checked = compiler.check(FileLoader(), str(mine))
    assert not checked.was_read
    assert compiler.load(str(mine)).imports["low"] is checked.imports["low"]
    assert not compiler.check(FileLoader(), str(mine)).was_read


def test_a_file_that_changes_is_checked_again(mine: Path) -> None:
    beside = mine.with_name("beside.axon")
    for file, text in ((mine, MINE + "fun extra x = x + 1.0\n"), (mine, MINE), (beside, BESIDE.replace("n - 1", "0"))):
        loaded(mine)
        assert loaded(mine).was_read
        file.write_text(text)
        read = loaded(mine)
        assert texts(read) == texts(compiler.check(FileLoader(), str(mine)))
        assert read.was_read == (text == MINE)  # which was kept before
    loaded(mine)
    mine.with_name("low.axon").write_text(LOW + "fun other x = x\n")  # beside, and before the library's
    assert not loaded(mine).was_read


def test_a_file_with_errors_or_warnings_is_not_kept(mine: Path) -> None:
    loaded(mine)
    mine.write_text(MINE + "fun wrong (x : f32[3]) = x[4]\n")
    said = [str(axon.AxonError(loaded(mine).diagnostics)) for _ in range(2)]
    assert said[0] == said[1]
    assert "x[4]" in said[0]
    mine.write_text(MINE)
    mine.with_name("beside.axon").write_text("fun last (x : f32[3]) = x[4]\n")
    assert not loaded(mine).ok
    assert not loaded(mine.with_name("no.axon")).ok
    assert len(files()) == 4


def test_altered_files_are_checked(mine: Path) -> None:
    expected = texts(loaded(mine))
    whole = {file: file.read_bytes() for file in files()}

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(whole)), st.data())
    def altered(file: Path, data: st.DataObject) -> None:
        content = whole[file]
        at = data.draw(st.integers(0, len(content) - 1))
        flipped = bytes([content[at] ^ 1 << data.draw(st.integers(0, 7))])
        changed = (content[:at] + flipped + content[at + 1 :], content[:at], content[at:] + b"x")
        file.write_bytes(data.draw(st.sampled_from(changed)))
        found = loaded(mine)
        assert found.ok
        assert not found.was_read
        assert file.read_bytes() == content  # it is made again, and the same

    altered()
    assert texts(loaded(mine)) == expected


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_module_that_changes_is_checked_again(root: Path) -> None:
    anew(USE)
    assert is_read(anew(USE))
    (root / "low.axon").write_text(LOW.replace("1e-5", "1e-6"))
    changed = anew(USE)
    assert not is_read(changed)  # nor what imports it
    assert is_read(anew(USE))
    assert len(files()) == 3  # `high` stands where it stood
    (root / "low.axon").write_text(LOW)
    assert [m.was_read for m in anew(USE).imports.values()] == [False, True]


def test_another_version_checks_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anew(USE)
    monkeypatch.setattr(disk, "sources", lambda folders: "another")
    assert not is_read(anew(USE))
    assert is_read(anew(USE))
    assert len(files()) == 4


def test_the_key_is_of_every_source(tmp_path: Path) -> None:
    """One byte more in any file of the checker, in the grammar or in the file that says the version is another key."""
    package = tmp_path / "axon"
    for name in ("__init__.py", *(f"{folder}/deep/x.py" for folder in kept.FOLDERS), "grammar/axon.lark", "lower/x.py"):
        file = package / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n")
    before = disk.digest_of(package, kept.FOLDERS)
    assert disk.digest_of(package, kept.FOLDERS) == before
    for file in sorted(package.rglob("*.*")):
        text = file.read_text()
        file.write_text(text + " ")
        assert (disk.digest_of(package, kept.FOLDERS) == before) == (file.parent.name == "lower"), file
        file.write_text(text)
    (package / "shapes" / "new.py").write_text("")
    assert disk.digest_of(package, kept.FOLDERS) != before


def test_altered_files_count_as_absent(root: Path) -> None:
    expected = texts(anew(USE))
    whole = {file: file.read_bytes() for file in files()}

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(whole)), st.data())
    def altered(file: Path, data: st.DataObject) -> None:
        content = whole[file]
        at = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(("flip", "cut", "more", "other")))
        junk = data.draw(st.binary(max_size=20))
        file.write_bytes({
            "flip": content[:at] + bytes([content[at] ^ 1 << data.draw(st.integers(0, 7))]) + content[at + 1 :],
            "cut": content[:at],
            "more": content[:at] + junk + content[at:] + b"x",
            "other": junk,
        }[kind])  # fmt: skip
        key = file.stem
        assert disk.read(file, key) is None
        checked = anew(USE)
        assert [m.was_read for m in imported(checked)].count(True) < 3
        assert checked.ok
        assert file.read_bytes() == content  # it is made again, and the same

    altered()
    assert texts(anew(USE)) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 80) | st.just(2**70) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_data_of_another_form_count_as_absent(root: Path) -> None:
    """Of a file whose digest is right: nobody but the user could have made it, and it does no harm."""
    expected = texts(anew(USE))
    whole = {file: file.read_bytes() for file in files()}

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(whole)), st.data())
    def forged(file: Path, data: st.DataObject) -> None:
        head, *lines = whole[file].split(b"\n")
        number = data.draw(st.integers(0, len(lines) - 1))
        facts, part = json.loads(head), json.loads(lines[number])
        place = facts if data.draw(st.integers(0, 9)) == 0 else part
        for _ in range(data.draw(st.integers(1, 3))):  # somewhere in it, something else
            inner: Any = place
            while True:
                key = data.draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
                if not isinstance(inner[key], list | dict) or not inner[key] or data.draw(st.integers(0, 3)) == 0:
                    break
                inner = inner[key]
            inner[key] = data.draw(json_values)
        lines[number] = json.dumps(part).encode()
        facts.pop("digest", None)
        disk.write(file, file.stem, facts, b"\n".join(lines), 1 << 30)
        checked = anew(USE)
        if not [m for m in imported(checked) if m.was_read]:
            assert texts(checked) == expected
        for module in imported(checked):  # nothing that a reader can meet in it is an exception
            assert all(isinstance(scheme, Scheme) for scheme in module.schemes.values())
            for name in module.declarations:
                assert isinstance(module.declarations[name], T.Val | T.Fun)

    forged()


@pytest.mark.parametrize("fact", ["imports", "types", "symbols"])
def test_what_is_read_late_is_checked_if_its_surroundings_are_not_whole(root: Path, fact: str) -> None:
    """Of a file whose digest is right: names of imports, of types, or of symbols are gone, which only a later line needs."""
    expected = texts(anew(USE))
    for file in files():
        head, first, *rest = file.read_bytes().split(b"\n")
        facts, part = json.loads(head), json.loads(first)
        facts.pop("digest", None)
        if fact == "imports":
            facts["imports"] = {}
        elif fact == "types":
            part["types"]["names"] = {}
        else:
            part["symbols"] = part["symbols"][: len(part["symbols"]) // 2]
        disk.write(file, file.stem, facts, b"\n".join([json.dumps(part).encode(), *rest]), 1 << 30)
    checked = anew(USE)
    assert fact == "types" or texts(checked) == expected  # what a module says that it makes available is believed
    for module in imported(checked):
        assert all(isinstance(scheme, Scheme) for scheme in module.schemes.values())
        assert all(isinstance(module.declarations[name], T.Val | T.Fun) for name in module.declarations)


def test_foreign_files_count_as_absent(root: Path, tmp_path: Path) -> None:
    anew(USE)
    file = files()[0]
    content = file.read_bytes()

    def again() -> None:
        assert not all(m.was_read for m in imported(anew(USE)))

    file.chmod(0o666)  # anyone may have written it
    again()
    assert file.stat().st_mode & 0o777 == 0o600
    assert is_read(anew(USE))
    (tmp_path / "real").write_bytes(content)
    for make in (
        lambda: file.symlink_to(tmp_path / "real"),
        lambda: file.symlink_to(tmp_path / "nowhere"),
        lambda: os.mkfifo(file, 0o600),  # which nobody writes to: it is not waited for
    ):
        file.unlink()
        make()
        again()
        assert file.read_bytes() == content
        assert not file.is_symlink()
    file.unlink()
    file.mkdir()  # nothing can be put in its place
    again()
    again()
    elsewhere = files()[1]
    file.rmdir()
    file.write_bytes(elsewhere.read_bytes())  # whole, but another module's
    again()


def test_a_cache_that_cannot_be_used(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not spoken of: only kernels, which take long, say that they cannot be kept."""
    expected = texts(anew(USE))
    (tmp_path / "file").write_text("")
    for place in ("file", "file/inside", "~nobody-is-called-so/x"):
        monkeypatch.setenv("AXON_CACHE", str(tmp_path / place) if "~" not in place else place)
        assert texts(anew(USE)) == expected
    monkeypatch.setenv("AXON_CACHE", str(tmp_path / "new"))
    monkeypatch.setenv("AXON_CACHE_SIZE", "much")
    assert texts(anew(USE)) == expected


def test_a_directory_that_can_only_be_read(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in it is read; nothing is written."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", refuse)
        assert anew(USE).ok
        assert not files()
        assert anew(USE).ok
    anew(USE)
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", refuse)
        assert is_read(anew(USE))


def test_a_full_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert anew(USE).ok
    assert not files()
    assert not list(disk.directory().glob("*.part"))


def test_a_disk_that_can_only_be_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can say there that a file was used now; it is read."""
    anew(USE)
    for file in files():
        os.utime(file, (0, 0))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert is_read(anew(USE))


def test_a_clock_that_was_wrong(root: Path) -> None:
    """Files of tomorrow and of before all time are read, and are made room with in their order."""
    anew(USE)
    for file, when in zip(files(), (-1e9, 1e11), strict=True):
        os.utime(file, (when, when))
    assert is_read(anew(USE))


def test_a_directory_that_cannot_go_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with the name of a file, the oldest of all: others go."""
    anew(USE)
    odd = disk.directory() / "0.module"
    (odd / "inner").mkdir(parents=True)
    half = disk.directory() / "0.part"
    half.mkdir()
    for path in (odd, half):
        os.utime(path, (0, 0))
    disk.shrink(disk.directory(), 1)
    assert files() == [odd]
    assert half.exists()


def test_a_disk_that_is_full_while_it_is_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was begun is no file, and goes."""
    whole = os.fdopen

    def full(handle: int, mode: str, *rest: Any) -> Any:
        file = whole(handle, mode, *rest)
        if mode == "wb":
            file.close()
            raise OSError(28, "No space left on device")
        return file

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", full)
        assert anew(USE).ok
    assert not list(disk.directory().iterdir())


def test_they_go_with_the_oldest(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXON_CACHE_SIZE", "1K")
    assert anew(USE).ok
    assert len(files()) == 1


# ── processes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

CHECK = """
import sys
from axon import compiler
from axon.core.printer import print_program
checked = compiler.check_text("import nn\\nimport stats\\nfun f (x : f32[n, 8]) = stats.mean (nn.softmax x)\\n")
assert checked.ok, checked.diagnostics
print(checked.signatures["f"], hash(print_program(compiler.lower(checked, "f", None))) if len(sys.argv) > 1 else "")
print([m.was_read for m in checked.imports.values()], file=sys.stderr)
"""


def started(cache: Path, seed: str = "0") -> subprocess.Popen[str]:
    environment = {**os.environ, "AXON_CACHE": str(cache), "PYTHONHASHSEED": seed}
    return subprocess.Popen(
        [sys.executable, "-c", CHECK, "core"], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )  # fmt: skip


def test_processes_that_write_at_once(tmp_path: Path) -> None:
    """Each writes whole files, and a later one reads them, whatever its seed."""
    answers = [process.communicate(timeout=100) for process in [started(tmp_path) for _ in range(3)]]
    assert len({out for out, _ in answers}) == 1
    names = sorted(file.name for file in tmp_path.glob("*"))
    assert len(names) == 3
    assert all(name.endswith(".module") for name in names)
    (out, said), (again, _) = (started(tmp_path, seed).communicate(timeout=100) for seed in ("0", "1"))
    assert said.strip() == "[True, True]"
    assert out == answers[0][0]
    assert out.split()[:-1] == again.split()[:-1]


# ── forms ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_field_has_a_form() -> None:
    """A class that gets a field of a new kind is known to be one that cannot be kept, here and not by being slow."""
    assert all(form for form in plain.FORMS.all().values())


def test_every_node_is_met(root: Path) -> None:
    """The library above holds all that a declaration can."""
    modules = list(imported(anew(USE)))
    parts = [part for m in modules for part in map(json.loads, kept._lines(m))]
    met = {row[0] for part in parts for row in (part["rows"] if "rows" in part else part["types"]["rows"])}
    met |= {row[0] for m in modules for row in json.loads(kept._lines(m)[0])["types"]["rows"]}
    missing = {cls.__name__ for n, cls in enumerate(plain.FORMS.classes, 1) if n not in met}
    assert missing == {
        *("TypeDimFun", "TypeOrScalar"),  # of which `{h} -> …` and `t?` are made, that no type can be called
        *("ModelName", "Model", "Site", "Unsummed"),  # tests/chance/test_editors.py keeps some
    }, missing


def test_nothing_is_evaluated(root: Path) -> None:
    """Reading compiles and imports nothing."""
    anew(USE)
    anew(USE)
    seen: list[str] = []
    watching = True
    sys.addaudithook(lambda name, _: seen.append(name) if watching else None)
    checked = anew(USE)
    for module in imported(checked):
        assert list(module.declarations.values())
    watching = False
    assert is_read(checked)
    assert not {"compile", "exec", "import", "marshal.loads", "pickle.find_class"} & set(seen)


def test_digests_are_of_all(root: Path) -> None:
    anew(USE)
    for file in files():
        head, _, content = file.read_bytes().partition(b"\n")
        facts = json.loads(head)
        digest = facts.pop("digest")
        text = json.dumps([file.stem, sorted(facts.items())])
        assert digest == hashlib.sha256(text.encode() + b"\0" + content).hexdigest()
