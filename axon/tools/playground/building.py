"""`axon playground DIR`: the page with all that it needs, in a folder that any file server can serve.

From npm come an interpreter of Python (Pyodide) and an editor (CodeMirror), at fixed versions; from this installation Axon itself,
the library as it was checked, and the packages of pure Python that checking needs. The page fetches nothing from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import axon
from axon.base.codes import page
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.errors import AxonError
from axon.base.output import write
from axon.checker.loader import library_modules, stdlib_root

PAGE = Path(__file__).with_name("page")
MARK = "playground.json"  # by which a folder is known that may be written anew
PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json", "package.json")
PURE = ("lark", "platformdirs")  # what checking imports besides the standard library of Python
ALGEBRA = ("sympy", "mpmath")  # what products of sizes need
EXAMPLES = ("attention", "kmeans", "heat", "mandelbrot", "pagerank", "kalman", "resnet_block", "mlp")
MISTAKES = ("AX0301", "AX0303", "AX0401")
_IMPORTED = re.compile(r"""^(?:import|export)\b[^'"]*?from\s*['"]([^'".][^'"]*)['"]""", re.MULTILINE)


def build(folder: Path, packages: Path | None = None) -> None:
    """Write the page. `packages` is a folder `node_modules` that is there already; without it npm installs them for the time being.

    Raises AxonError for a folder that holds something else, or without npm.
    """
    if folder.exists() and not (folder / MARK).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise _wrong(f"`{folder}` is there already", "nothing was written: it is no playground")
    with tempfile.TemporaryDirectory() as work:
        modules = packages or _installed(Path(work))
        made = Path(work, "page")
        made.mkdir()
        imports = _editor(modules, made / "editor")
        _pyodide(modules / "pyodide", made / "pyodide")
        for name in ("playground.js", "worker.js", "style.css"):
            shutil.copy(PAGE / name, made)
        filled = (PAGE / "index.html").read_text(encoding="utf-8").replace("{{imports}}", json.dumps({"imports": imports}))
        (made / "index.html").write_text(filled, encoding="utf-8")
        shown = list(examples())
        (made / "examples.json").write_text(json.dumps(shown), encoding="utf-8")
        _archive(made / "axon.zip", [*_axon(), *_kept(Path(work, "cache")), *(f for name in PURE for f in _package(name))], shown)
        _archive(made / "algebra.zip", [f for name in ALGEBRA for f in _package(name)])
        _run(
            [_tool("node"), str(PAGE / "compile.mjs"), str(made / "pyodide"), str(made / "axon.zip"), str(made / "algebra.zip")],
            made,
        )
        (made / MARK).write_text(json.dumps({"axon": axon.__version__, "digest": digest()}), encoding="utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(p for p in made.rglob("*") if p.is_file()):
            place = folder / file.relative_to(made)
            place.parent.mkdir(parents=True, exist_ok=True)
            with file.open("rb") as stream:
                write(place, partial(shutil.copyfileobj, stream))


def digest() -> str:
    """Of all that is Axon's own in the page."""
    found = hashlib.sha256()
    for name, file in (*_axon(), *((file.name, file) for file in sorted(PAGE.iterdir()))):
        found.update(f"{name}\n".encode() + file.read_bytes())
    return found.hexdigest()


def fragment(text: str) -> str:
    """What stands behind the # in a link that opens a program: the text deflated, in the letters of an address."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.urlsafe_b64encode(deflate.compress(text.encode()) + deflate.flush()).decode().rstrip("=")


def _wrong(message: str, note: str = "", help: str = "") -> AxonError:
    helps = (Suggestion(help),) if help else ()
    return AxonError((Diagnostic("AX0408", message, notes=(note,) if note else (), suggestions=helps),))


# ── from npm ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _installed(work: Path) -> Path:
    """What package.json asks for, through npm: with the digests of the lock beside it."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PAGE / name, work)
    _run([_tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], work)
    return work / "node_modules"


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        help = Suggestion("install Node.js, which has it")
        raise AxonError((Diagnostic("AX0003", f"`axon playground` needs `{name}`", suggestions=(help,)),))
    return found


def _run(command: list[str], folder: Path) -> None:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        said = " ".join((ran.stderr or ran.stdout).split())[-500:]
        raise _wrong(f"`{os.path.basename(command[0])} {os.path.basename(command[1])}` failed", said)


def _editor(modules: Path, out: Path) -> dict[str, str]:
    """Copy the modules of the editor, and what they import; gives the place of each by its name."""
    wanted = [name for name in json.loads((PAGE / "package.json").read_text())["dependencies"] if name != "pyodide"]
    places: dict[str, str] = {}
    while wanted:
        name = wanted.pop()
        if name in places:
            continue
        package = modules / name
        facts = json.loads((package / "package.json").read_text(encoding="utf-8"))
        exports = facts.get("exports", {})
        entry = facts.get("module") or (exports["import"] if isinstance(exports, dict) else exports)
        place = f"{name.replace('@', '').replace('/', '-')}.js"
        text = (package / entry).read_text(encoding="utf-8")
        out.mkdir(exist_ok=True)
        (out / place).write_text(text, encoding="utf-8")
        licence = next(package.glob("LICENSE*"), None)
        if licence is not None:
            shutil.copy(licence, out / f"{place}.LICENSE.txt")
        places[name] = f"./editor/{place}"
        wanted += _IMPORTED.findall(text)
    return dict(sorted(places.items()))


def _pyodide(package: Path, out: Path) -> None:
    out.mkdir()
    for name in PYODIDE:
        shutil.copy(package / name, out)


# ── from this installation ──────────────────────────────────────────────────────────────────────────────────────────────


Files = Iterator[tuple[str, Path]]  # a name in an archive, and what stands there


def _axon() -> Files:
    """The package, as a wheel has it."""
    root = Path(axon.__file__).parent
    for file in sorted(root.rglob("*")):
        if file.is_file() and file.suffix in (".py", ".lark") and "backend" not in file.relative_to(root).parts:
            yield f"axon/{file.relative_to(root).as_posix()}", file
    for file in sorted(stdlib_root().glob("*.axon")):
        yield f"axon/_stdlib/{file.name}", file


def _package(name: str) -> Files:
    """The sources of a package of pure Python, without its tests."""
    found = find_spec(name)
    assert found is not None, f"{name} is a dependency"
    assert found.origin is not None
    root = Path(found.origin).parent
    for file in sorted(root.rglob("*.py")):
        if "tests" not in file.parts:
            yield f"{name}/{file.relative_to(root).as_posix()}", file


def _kept(cache: Path) -> Files:
    """The library as it was checked, and the table of the grammar: what the checker of a process keeps for the next."""
    program = "".join(f"import {name}\n" for name in library_modules())
    environment = {**os.environ, "AXON_CACHE": str(cache / "modules"), "XDG_CACHE_HOME": str(cache)}
    code = f"import axon; assert not axon.check({program!r})"
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=cache.parent, check=True)
    for file in sorted(p for p in cache.rglob("*") if p.is_file()):
        yield f"cache/{file.relative_to(cache).as_posix()}", file


def _archive(path: Path, files: list[tuple[str, Path]], shown: list[dict[str, str]] | None = None) -> None:
    """An archive of files, the same whenever these are; `shown` are the programs that are checked before the page is ready."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in files:
            archive.writestr(zipfile.ZipInfo(name), file.read_bytes(), zipfile.ZIP_DEFLATED)
        if shown is not None:
            texts = [e["text"] for e in shown]
            archive.writestr(zipfile.ZipInfo("warm.json"), json.dumps(texts), zipfile.ZIP_DEFLATED)


def examples() -> Iterator[dict[str, str]]:
    """Programs to begin with: those of `examples/` where this is a checkout, and mistakes of the pages of errors."""
    for name in EXAMPLES:
        file = stdlib_root().parent / ("_examples" if stdlib_root().name == "_stdlib" else "examples") / f"{name}.axon"
        yield {"name": name.replace("_", " "), "text": file.read_text(encoding="utf-8")}
    for code in MISTAKES:
        wrong = re.search(r"^```axon error[^\n]*\n(.*?)^```$", page(code) or "", re.MULTILINE | re.DOTALL)
        assert wrong is not None, f"the page of {code} has an example"
        yield {"name": f"a mistake: {code}", "text": wrong[1]}
