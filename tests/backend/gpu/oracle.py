"""What a GPU gives, real or emulated, beside what the interpreter gives; and the programs of the corpus with arguments."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from axon.base.errors import AxonError
from tests import ROOT
from tests.core.arguments import admitted, general

# Floats of 16 and 8 bits are rounded when they are stored, where the interpreter rounds after each operation. A wider result may
# show that, too, if it comes from one; such programs are few, and counted.
ROUNDING = {"float16": 4e-3, "bfloat16": 3e-2, "float8_e4m3fn": 0.25, "float8_e5m2": 0.5}
NARROW = {"f16": 4e-3, "bf16": 3e-2, "f8e4m3": 0.25, "f8e5m2": 0.5}


def corpus(one_in: int = 1) -> dict[str, Any]:
    """The functions of all files, or of some, that have one program for all sizes, with arguments."""
    found = {}
    for name, program in general(ROOT / "tests" / "corpus" / "accepted", one_in):
        given = admitted(program, Random(name))
        if given is not None:
            found[name] = program, given
    return found


def outcome(compute: Any, *arguments: Any) -> Any:
    """What a program gives, or the diagnostics with which it stops."""
    try:
        return compute(*arguments)
    except AxonError as error:
        return error.diagnostics


def different(got: Any, want: Any, least: float = 0.0) -> str:
    """Why results, or what stops a program, are not the same. `least` is the least relative error that is allowed."""
    if isinstance(want, tuple) or isinstance(got, tuple):
        return (
            ""
            if got == want
            else f"{got if isinstance(got, tuple) else 'results'}, not {want if isinstance(want, tuple) else 'results'}"
        )
    for x, y in zip(got, want, strict=True):
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"{x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        mine, theirs = x.astype(float), y.astype(float)
        rounding = ROUNDING.get(x.dtype.name)
        relative, absolute = max(1e-4, least), 1e-5
        if rounding is not None:
            relative, absolute = rounding, rounding * abs(theirs[np.isfinite(theirs)]).max(initial=1e-5)
        if not np.allclose(mine, theirs, rtol=relative, atol=absolute, equal_nan=True):
            return f"{x}, not {y}"
    return ""
