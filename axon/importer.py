"""`import axon.importer` makes Python's `import model` find `model.axon`, wherever it would look for `model.py`.

    import axon.importer
    import model                       # model.axon in a directory of sys.path
    from models.attention import softmax

The module has what the file declares as attributes; values are computed when they are first asked for. A Python module of
the same name comes first. What is wrong with the file is an AxonError at the import. `importlib.reload` reads it again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from axon.base.nearest import hint
from axon.checker.loader import SUFFIX


class AxonFinder(MetaPathFinder):
    """Looks for `NAME.axon` in the directories that Python searches."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        stem = fullname.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            file = os.path.join(folder or os.getcwd(), stem + SUFFIX) if isinstance(folder, str) else ""
            if os.path.isfile(file):
                spec = ModuleSpec(fullname, AxonLoader(file), origin=file)
                spec.has_location = True  # so that the module has a __file__
                return spec
        return None


class AxonLoader(Loader):
    """Makes a Python module of one file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def create_module(self, spec: ModuleSpec) -> None:
        return None  # Python's own module object

    def exec_module(self, module: ModuleType) -> None:
        from axon.host.module import load

        loaded = load(self.path)
        names = list(loaded)
        for name in [name for name in vars(module) if not name.startswith("__")]:  # what was asked for before a reload
            delattr(module, name)

        def declared(name: str) -> object:
            if name not in names:
                message = f"module {module.__name__!r} has no attribute {name!r}{hint(name, names)}"
                raise AttributeError(message, name=name, obj=None)
            value = loaded[name]
            setattr(module, name, value)
            return value

        module.__doc__ = f"{os.path.basename(self.path)}, a module of Axon: {', '.join(names)}"
        module.__all__ = names  # type: ignore[attr-defined]
        module.__getattr__ = declared  # type: ignore[method-assign]
        module.__dir__ = lambda: [*names, *(n for n in vars(module) if n.startswith("__"))]  # type: ignore[method-assign]

    def get_source(self, fullname: str) -> str:
        """The text of the file, for those who ask Python where things are defined."""
        with open(self.path, encoding="utf-8") as stream:
            return stream.read()


def install() -> None:
    """Add the finder, once, after Python's own."""
    if not any(isinstance(finder, AxonFinder) for finder in sys.meta_path):
        sys.meta_path.append(AxonFinder())


install()
