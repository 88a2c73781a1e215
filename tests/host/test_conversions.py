"""What is advised where element types do not fit is done to the letter: the call then succeeds, and no value has changed."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

import axon

MODULE = axon.compile(
    "fun scale (k : 'a) (x : 'a[n]) = for i => k * x[i]\n"
    "fun plus (x : 'a[n]) (y : 'a[n]) = for i => x[i] + y[i]\n"
    "fun three (k : 'a) (l : 'a) (x : 'a[n]) = for i => k * l + x[i]\n"
    "fun nested (p : { k : 'a, w : 'a[n] }) (x : 'a[n]) = for i => p.k * p.w[i] + x[i]\n"
    "fun whole (x : i32[n]) = x\n"
    "fun real (x : f32[n]) = x\n"
)
SCALARS: list[Any] = [2, 2.0, 2.5, True, np.int32(3), np.int64(3), np.float32(2.5), np.float64(2.5), np.bool_(True), np.array(3)]
TENSORS: list[Any] = [
    [1, 2], [1.5, 2], [True, False], np.arange(2), np.arange(2.0), np.arange(2) + 0.5, np.arange(2, dtype=np.int8),
    np.arange(2, dtype=np.float32) / 4, np.arange(2) > 0, np.array([2**40, 1]),
]  # fmt: skip
CALLS = [
    *(("scale", {"k": k, "x": x}) for k, x in product(SCALARS, TENSORS)),
    *(("plus", {"x": x, "y": y}) for x, y in product(TENSORS, TENSORS)),
    *(("three", {"k": k, "l": m, "x": x}) for k, m, x in product(SCALARS[:5], SCALARS[:5], TENSORS[:6])),
    *(("nested", {"p": {"k": k, "w": w}, "x": x}) for k, w, x in product(SCALARS[2:7], TENSORS[1:6], TENSORS[1:6])),
    *((name, {"x": x}) for name in ("whole", "real") for x in TENSORS),
]


def test_advice_that_is_followed_makes_the_call_succeed_and_changes_no_value() -> None:
    followed = 0
    for name, arguments in CALLS:
        f = MODULE[name]
        try:
            f(*arguments.values(), target="interpret")
        except axon.AxonError as error:
            advice = [s.text.removeprefix("pass ") for s in error.diagnostics[0].suggestions if s.text.startswith("pass ")]
        else:
            continue
        for way in advice:
            done = dict(arguments)
            for part in way.split(" and "):
                value = eval(part, {"np": np}, arguments)
                path = re.sub(r"^(?:np\.array|int|float|bool)\(", "", part).split(".astype")[0].split(")")[0]
                assert np.array_equal(np.asarray(eval(path, {}, arguments)), np.asarray(value)), (name, arguments, way)
                done = put(done, path, value)
            f(*done.values(), target="interpret")
            followed += 1
    assert followed > 150


def put(arguments: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The arguments with another value at `x` or `p["k"]`."""
    if "[" not in path:
        return arguments | {path: value}
    name, key = path.rstrip('"]').split('["')
    return arguments | {name: arguments[name] | {key: value}}


@pytest.mark.parametrize(
    ("name", "arguments", "advice"),
    [
        ("scale", (2.5, np.arange(3)), "pass x.astype(np.float64)"),
        ("scale", (True, np.arange(3)), "pass int(k)"),
        ("scale", (2.0, np.arange(3)), "pass int(k)"),
        ("scale", (np.float64(2.5), np.arange(3, dtype=np.float32)), "pass float(k)"),
        ("plus", (np.arange(3), [1.5, 2, 3]), "pass x.astype(np.float64)"),
        ("plus", (np.arange(3), np.arange(3.0)), "pass x.astype(np.float64)"),
        ("plus", (np.arange(3.0), np.arange(3)), "pass y.astype(np.float64)"),
        ("three", (2, np.int64(2), np.arange(3) + 0.5), "pass float(l)"),
        ("three", (np.arange(2)[1], 2.5, np.arange(3)), "pass float(k) and x.astype(np.float64)"),
        ("scale", (2.5, np.array([2**60 + 1])), ""),  # no float holds it, and no integer holds 2.5
        ("whole", (np.arange(3) + 0.5,), "if its fractions may be dropped, pass x.astype(np.int32)"),
        ("whole", (np.array([2**40]),), ""),
        ("real", (np.array([2**40 + 1]),), "if it may be rounded, pass x.astype(np.float32)"),
    ],
)
def test_what_is_advised(name: str, arguments: tuple[Any, ...], advice: str) -> None:
    with pytest.raises(axon.AxonError) as caught:
        MODULE[name](*arguments)
    assert "".join(s.text for s in caught.value.diagnostics[0].suggestions) == advice
