"""Files that faces write: whole or not at all, with the mode of the file that is replaced."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8. Raises AxonError."""
    write(path, lambda stream: stream.write(text.encode("utf-8", "surrogatepass")))


def save_arrays(path: str, result: Any) -> None:
    """One array as .npy; several as .npz, named as in the result: `w`, `1`, `up.w`. Raises AxonError."""
    import numpy as np

    arrays: dict[str, Any] = {}

    def collect(name: str, value: Any) -> None:
        if isinstance(value, tuple | dict):
            items = value.items() if isinstance(value, dict) else ((str(i), item) for i, item in enumerate(value, 1))
            for key, item in items:
                collect(f"{name}.{key}" if name else key, item)
        else:
            array = np.asarray(value)
            # NumPy's format has no names for bf16 and the 8-bit floats: it keeps bytes, and `values` gives them their type back.
            arrays[name] = array if array.dtype.isbuiltin == 1 else array.view(f"V{array.itemsize}")

    collect("", result)
    single = list(arrays) == [""]
    if single == path.endswith(".npz"):
        want = "one array: write it to a .npy file" if single else f"{len(arrays)} arrays: write them to a .npz file"
        raise AxonError((Diagnostic("AX0508", f"the result is {want}", notes=(f"`--out {path}`",)),))
    write(Path(path), lambda stream: np.save(stream, arrays[""]) if single else np.savez(stream, **arrays))


def write(path: Path, fill: Callable[[Any], Any]) -> None:
    """Write a file beside its place and move it there, keeping the mode of the one it replaces. Raises AxonError."""
    import shutil
    import tempfile

    temporary = None
    try:
        real = path.resolve()
        handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        with os.fdopen(handle, "wb") as stream:
            fill(stream)
        if real.exists():
            shutil.copymode(real, temporary)
        else:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, real)
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the path, a loop of links
        reason = getattr(error, "strerror", None) or str(error)
        raise AxonError((Diagnostic("AX0408", f"cannot write `{path}`", notes=(reason,)),)) from None
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
