"""Finding and reading source files. Everything that can go wrong with a file is a diagnostic, never an exception.

`import nn` in `models/mlp.axon` names `models/nn.axon` if that exists, else `nn.axon` of the standard library. A module cannot
be imported from elsewhere: a symbolic link that leads out of the importing file's directory is refused.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Lock
from typing import Protocol

from axon.base.diagnostics import Diagnostic, Label
from axon.base.nearest import meant
from axon.base.source import SourceFile
from axon.grammar.syntax import Name

_library: dict[str, SourceFile] = {}  # of the standard library, what was last read under a name: the same for every loader

TEXT = "<text>"  # what messages call a program that comes from memory; the lexer says if it is too large
MAX_BYTES = 1 << 20  # of one file: far more than a person writes, little enough to parse in seconds
SUFFIX = ".axon"
HIDDEN = "."  # begins the name of a module of the standard library that a program needs and does not import
LIBRARY = "stdlib"  # what messages call the directory of the standard library


class Loader(Protocol):
    """Where the checker gets modules from.

    While a file does not change on disk, asking for it again gives the same SourceFile object, so its identity is the module's.
    """

    def read(self, path: str) -> SourceFile | Diagnostic:
        """The file at a path that the user gave, or AX0408."""
        ...

    def find(self, name: Name) -> SourceFile | Diagnostic:
        """The module that an `import` names (the file of the name's span is the importer), or AX0402 or AX0408 at the name."""
        ...


def stdlib_root() -> Path:
    """The standard library: inside an installed wheel, or beside the package in a checkout."""
    package = Path(__file__).parents[1]
    shipped = package / "_stdlib"
    return shipped if shipped.is_dir() else package.parent / "stdlib"


def is_library(source: SourceFile) -> bool:
    """Whether this is a file of the standard library as it was last read from disk."""
    return _library.get(source.path) is source


def library_modules() -> list[str]:
    """The names of the modules of the standard library."""
    return sorted(_modules(stdlib_root()))


class FileLoader:
    """A Loader over the file system; safe to share between threads.

    `overlay` maps paths to text that stands for the file's (text from memory, an editor's unsaved buffer). A source that has no
    directory of its own (`<text>`) imports from the standard library alone.
    """

    def __init__(self, overlay: dict[str, str] | None = None) -> None:
        self._overlay = {path: SourceFile(path, text) for path, text in (overlay or {}).items()}
        self._sources: dict[tuple[Path, str], SourceFile] = {}
        self._real: dict[SourceFile, Path] = {}
        self._lock = Lock()

    def read(self, path: str) -> SourceFile | Diagnostic:
        answer = self._read(Path(path), path)
        return answer if isinstance(answer, SourceFile) else Diagnostic("AX0408", f"cannot read `{path}`", notes=(answer,))

    def find(self, name: Name) -> SourceFile | Diagnostic:
        stem = name.text.removeprefix(HIDDEN)
        for root, shown in self._roots(name.span.file) if stem == name.text else ((stdlib_root(), LIBRARY),):
            file = root / (stem + SUFFIX)
            if not os.path.lexists(file) and os.path.join(shown, file.name) not in self._overlay:
                continue
            if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
                return _at(name, "AX0408", "an import may not lead out of its directory", f"`{file}` is a link to elsewhere")
            answer = self._read(file, os.path.join(shown, file.name))
            return answer if isinstance(answer, SourceFile) else _at(name, "AX0408", f"cannot read `{file}`", answer)
        return self._not_found(name)

    def _roots(self, importer: SourceFile) -> list[tuple[Path, str]]:
        """The directories in which an importer's modules are sought, and what messages call them."""
        library = (stdlib_root(), LIBRARY)
        real = self._real.get(importer)
        if real is None and importer.path.startswith("<"):
            return [library]
        beside = real.parent if real else Path(importer.path).parent
        if beside == library[0].resolve():
            return [library]
        return [(beside, os.path.dirname(importer.path)), library]

    def _not_found(self, name: Name) -> Diagnostic:
        roots = self._roots(name.span.file)
        own = os.path.basename(name.span.file.path).removesuffix(SUFFIX)  # nothing imports itself
        known = sorted({stem for root, _ in roots for stem in _modules(root)} - {own})
        where = ["beside this file", "in the standard library"] if len(roots) == 2 else ["in the standard library"]
        return Diagnostic(
            "AX0402",
            f"there is no module `{name.text}`",
            (Label(name.span, f"no `{name.text}{SUFFIX}` " + " or ".join(where)),),
            suggestions=meant(name.text, known, name.span),
        )

    def _read(self, file: Path, shown: str) -> SourceFile | str:
        """The file, or why it cannot be read. It is read each time: times of change are too coarse to tell that it did not."""
        if (held := self._overlay.get(shown)) is not None:
            size = len(held.text) if held.text.isascii() else len(held.text.encode("utf-8", "surrogatepass"))
            # Of a text that is no file, the lexer says that it is too large.
            return held if size <= MAX_BYTES or shown == TEXT else _too_large(size)
        try:
            real = file.resolve()
            info = real.stat()
            if not stat.S_ISREG(info.st_mode):
                return "it is a directory" if stat.S_ISDIR(info.st_mode) else "it is not a regular file"
            if info.st_size > MAX_BYTES:
                return _too_large(info.st_size)
            with real.open("rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return "there is no such file"
        except (OSError, ValueError, RuntimeError) as error:  # a NUL in the path, a loop of links
            return getattr(error, "strerror", None) or str(error)
        if len(raw) > MAX_BYTES:
            return f"it holds more than {MAX_BYTES:,} bytes, which is the most for a source file"
        try:
            text = raw.decode("utf-8", "surrogatepass").removeprefix("\ufeff")  # the lexer points at lone surrogates
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            return f"it is not UTF-8 text: byte 0x{raw[error.start]:02x} on line {line}"
        if os.path.dirname(shown) == LIBRARY and real.parent == stdlib_root().resolve():
            shared = _library.get(shown)
            if shared is None or shared.text != text:
                shared = _library[shown] = SourceFile(shown, text)
            with self._lock:
                self._real[shared] = real
            return shared
        with self._lock:
            known = self._sources.get((real, shown))
            if known is None or known.text != text:
                if known is not None:
                    del self._real[known]
                known = self._sources[real, shown] = SourceFile(shown, text)
                self._real[known] = real
            return known


def schedule_beside(path: str) -> str | None:
    """`model.schedule` beside `model.axon`, if there is such a file."""
    stem, suffix = os.path.splitext(path)
    file = f"{stem}.schedule"
    return file if suffix == SUFFIX and os.path.lexists(file) else None


def _too_large(size: int) -> str:
    return f"it holds {size:,} bytes; a source file may hold {MAX_BYTES:,}"


def _at(name: Name, code: str, message: str, note: str) -> Diagnostic:
    return Diagnostic(code, message, (Label(name.span, "imported here"),), (note,))


def _modules(root: Path) -> list[str]:
    try:
        return [file.stem for file in root.iterdir() if file.suffix == SUFFIX]
    except OSError:
        return []
