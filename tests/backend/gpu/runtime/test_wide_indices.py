"""Indices that data give, wherever a read is written otherwise than it stands: padded, checked, guarded, split, of what dissolves.

Of those of 64 bits the low 32 look inside, and products that wrap do: what is brought into fewer bits before it is compared would
read what nobody asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import axon
from tests.backend.gpu.runtime.emulated import emulated

SIZE = 7
OUTSIDE = {
    "i64": [2**32, 2**32 + 3, -(2**32), 2 - 2**32, 2**31, 2**31 + 1, 2**33 + 6, 2**63 - 1, -(2**63), -(2**31), 2**40 + 5, -1, SIZE],
    "i32": [2**31 - 1, -(2**31), -1, SIZE, SIZE + 2, 2**31 - 2, -SIZE],
}
X = np.arange(1, SIZE + 1, dtype=np.int32) * 10


def at(q: int, values: Any, default: int) -> int:
    return int(values[q]) if 0 <= q < len(values) else default


def wrapped(q: int, bits: int) -> int:
    """Arithmetic on integers wraps."""
    return (q + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


# What each read gives at an index, which arithmetic of so many bits may wrap.
PADDED: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "plain": ("x[q[i] | 7]", lambda q, bits: at(q, X, 7)),
    "an expression": ("(for j => x[j] * 2)[q[i] | 7]", lambda q, bits: at(q, 2 * X, 7)),
    "rows": ("(for j < m => x)[q[i], 2 | 7]", lambda q, bits: 30 if 0 <= q < SIZE else 7),
    "a slice": ("x[2:][q[i] | 7]", lambda q, bits: at(q, X[2:], 7)),
    "backwards": ("(for j => x[m - 1 - j])[q[i] | 7]", lambda q, bits: at(q, X[::-1], 7)),
    "wider": ("(for j < m + 2 => x[j - 1 | 4])[q[i] | 7]", lambda q, bits: at(q, [4, *X, 4], 7)),
    "the next": ("x[q[i] + 1 | 7]", lambda q, bits: at(wrapped(q + 1, bits), X, 7)),
    "each second": ("x[q[i] * 2 - 1 | 7]", lambda q, bits: at(wrapped(2 * q - 1, bits), X, 7)),
    "an entry": ("(for a b => x[a] + 3 * x[b])[q[i], q[i] | 7]", lambda q, bits: at(q, 4 * X, 7)),
    "stated": ("[| x[0], 5, x[3] |][q[i] | 7]", lambda q, bits: at(q, [10, 5, 40], 7)),
    "steps": ("x[1::3][q[i] | 7]", lambda q, bits: at(q, X[1::3], 7)),
    "steps of an expression": ("(for j => x[j] + 1)[::2][q[i] | 7]", lambda q, bits: at(q, X[::2] + 1, 7)),
    "guarded": ("if q[i] >= 0 andalso q[i] < cast _ m then x[q[i] | 9] else 7", lambda q, bits: at(q, X, 7)),
    "of an index": ("x[(for k < n => q[k])[i] | 7]", lambda q, bits: at(q, X, 7)),
    "its own padding": ("x[q[i] | cast _ (q[i] % 5)]", lambda q, bits: at(q, X, q % 5)),
    "named": ("let val k = q[i] in x[k | 7] + x[k - 1 | 1] end", lambda q, bits: at(q, X, 7) + at(wrapped(q - 1, bits), X, 1)),
    "summed": ("sum for j < 2 => x[q[i] + cast _ j | 0]", lambda q, bits: at(q, X, 0) + at(wrapped(q + 1, bits), X, 0)),
}
CHECKED = [
    "x[q[i]]", "(for j => x[j] * 2)[q[i]]", "x[2:][q[i]]", "(for j < m => x)[q[i], 2]", "x[1::2][q[i]]", "[| x[0], 5 |][q[i]]"
]  # fmt: skip


SPLIT: dict[str, Callable[[int, int], int]] = {  # the index that stands for both of its parts
    "x[(q[i], c)": lambda q, c: 3 * q + c,
    "x[(c, q[i])": lambda q, c: 2 * c + q,
    "(for j => x[j] * 1)[(q[i], c)": lambda q, c: 3 * q + c,
}
PRODUCTS = {"i32": [1431655766, 1431655765 - 2**31], "i64": [(2**64 + 2) // 3, -(2**64 // 3), 2**62]}
TARGETS = ("interpret", "cpu", "simulate", "cuda")


def functions(element: str, reads: Iterable[str], indices: str = "i < n") -> list[Any]:
    bodies = [f"fun f{k} (x : i32[m]) (q : {element}[n]) = for {indices} => {read}" for k, read in enumerate(reads)]
    module = axon.compile("\n".join(bodies))
    return [module[name] for name in module]


@pytest.mark.parametrize("element", OUTSIDE)
def test_padded(element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    q = np.array([*range(SIZE), *OUTSIDE[element]], element.replace("i", "int"))
    made = functions(element, [read for read, _ in PADDED.values()])
    for (name, (_, want)), f in zip(PADDED.items(), made, strict=True):
        wanted = [want(int(at), int(element[1:])) for at in q]
        for target in TARGETS:
            assert f(X, q, target=target).tolist() == wanted, (name, target)


@pytest.mark.parametrize("element", OUTSIDE)
def test_checked(element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    for read, f in zip(CHECKED, functions(element, CHECKED), strict=True):
        for at in OUTSIDE[element]:
            q = np.array([0, 1, at, 0], element.replace("i", "int"))
            for target in TARGETS:
                with pytest.raises(axon.ShapeError) as caught:
                    f(X, q, target=target)
                assert caught.value.diagnostics[0].code == "AX0502", (read, at, target)


@pytest.mark.parametrize("element", OUTSIDE)
def test_split(element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dimension of 6 as two: an index that data give times the extent of the other stays outside where it is outside."""
    emulated(monkeypatch)
    x = X[:6]
    padded = functions(element, [f"{read} | 7]" for read in SPLIT], "i < n, c < 3")
    checked = functions(element, [f"{read}]" for read in SPLIT], "i < n, c < 3")
    for (read, index), f, g in zip(SPLIT.items(), padded, checked, strict=True):
        for q in (0, 1, -1, 7, *OUTSIDE[element], *PRODUCTS[element]):
            given = np.array([0, q], element.replace("i", "int"))
            wanted = [[at(index(k, c), x, 7) for c in range(3)] for k in (0, q)]
            for target in TARGETS:
                assert f(x, given, target=target).tolist() == wanted, (read, q, target)
                if all(0 <= index(q, c) < 6 for c in range(3)):
                    assert g(x, given, target=target).tolist() == wanted, (read, q, target)
                else:
                    with pytest.raises(axon.ShapeError, match="AX0502"):
                        g(x, given, target=target)


def test_of_much_that_is_compiled() -> None:
    """Enough to be compiled without being asked for."""
    f = axon.compile("fun f (x : i32[m]) (q : i64[n]) = let val t = for j < m => x in for i < n => t[q[i], i | 0] end").f
    x, q = np.arange(50_000, dtype=np.int32), np.arange(50_000) - 10 + 2**32 * (np.arange(50_000) % 2)
    assert np.array_equal(f(x, q), np.where((q >= 0) & (q < len(x)), x, 0))
