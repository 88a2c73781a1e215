"""axon.load_weights: names in a file against the record of a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from axon.base.element import Element
from axon.base.safetensors import Writing, save

PROGRAM = """
type linear[..l, d, k] = { w : f32[..l, d, k], b : f32[..l, k] }
type net[n, d] = { blocks : linear[n, d, d], head : linear[d, 3] }

fun net (p : net[n, d]) (x : f32[b, d]) =
  let val y = loop (x = x) for i => let val q = p.blocks[i] in x @ q.w + q.b end
  in y @ p.head.w + p.head.b end

fun two (p : linear[d, k]) (q : linear[k, d]) (x : f32[d]) = x
fun none (x : f32[d]) = x
"""


def stored(path: Path, arrays: dict[str, Any]) -> Path:
    names = {np.dtype(np.float32): Element.F32, np.dtype(np.float16): Element.F16}
    save(path, [Writing(n, names[a.dtype], a.shape, lambda a=a: [a]) for n, a in arrays.items()])
    return path


def whole(d: int = 2) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {"blocks.w": (2, d, d), "blocks.b": (2, d), "head.w": (d, 3), "head.b": (3,)}
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def refused(path: Path, arrays: dict[str, Any], name: str = "net", **more: Any) -> axon.Diagnostic:
    with pytest.raises(axon.AxonError) as caught:
        axon.load_weights(stored(path / "m.safetensors", arrays), axon.compile(PROGRAM)[name], **more)
    (found,) = caught.value.diagnostics
    return found


def test_a_record_is_filled(tmp_path: Path) -> None:
    m, arrays = axon.compile(PROGRAM), whole()
    p = axon.load_weights(stored(tmp_path / "m.safetensors", arrays), m.net)
    x = np.ones((4, 2), np.float32)
    y = x
    for i in range(2):
        y = y @ arrays["blocks.w"][i] + arrays["blocks.b"][i]
    np.testing.assert_allclose(m.net(p, x), y @ arrays["head.w"] + arrays["head.b"], rtol=1e-5)


def test_layers_that_are_stored_one_by_one(tmp_path: Path) -> None:
    arrays = whole()
    apart = {f"blocks.{i}.{f}": arrays[f"blocks.{f}"][i] for i in range(2) for f in "wb"}
    apart |= {name: a for name, a in arrays.items() if name.startswith("head")}
    p = axon.load_weights(stored(tmp_path / "m.safetensors", apart), axon.compile(PROGRAM).net)
    np.testing.assert_array_equal(p["blocks"]["w"], arrays["blocks.w"])


def test_missing_extra_and_of_another_shape_at_once(tmp_path: Path) -> None:
    arrays = whole()
    del arrays["blocks.b"]
    arrays["head.w"] = np.zeros((2, 4), np.float32)
    arrays["head.b"] = np.zeros(3, np.float16)
    arrays["other"] = np.zeros(1, np.float32)
    found = refused(tmp_path, arrays)
    assert found.code == "AX0512"
    assert found.notes[:-1] == (
        "missing: `blocks.b`",
        "`head.w` is f32[2, 4] in the file, and must be f32[2, 3]",
        "`head.b` is f16[3] in the file, and must be f32[3]",
        "without a place in it: `other`",
    )


def test_sizes_agree_within_the_record(tmp_path: Path) -> None:
    arrays = whole()
    arrays["blocks.b"] = np.zeros((3, 2), np.float32)
    assert refused(tmp_path, arrays).notes[0] == "`blocks.b` is f32[3, 2] in the file, and must be f32[2, 2]"


def test_what_has_no_place_may_be_passed_over(tmp_path: Path) -> None:
    arrays = whole() | {"step": np.zeros(1, np.float32)}
    path = stored(tmp_path / "m.safetensors", arrays)
    assert axon.load_weights(path, axon.compile(PROGRAM).net, strict=False)["head"]["b"].shape == (3,)
    del arrays["head.b"]
    assert refused(tmp_path, arrays, strict=False).notes[0] == "missing: `head.b`"


def test_many_names_are_counted(tmp_path: Path) -> None:
    arrays = whole() | {f"x{n:02}": np.zeros(1, np.float32) for n in range(12)}
    assert refused(tmp_path, arrays).notes[0].endswith("`x07` and 4 others")


def test_layers_that_are_not_alike(tmp_path: Path) -> None:
    arrays = whole()
    blocks = arrays.pop("blocks.w")
    arrays |= {"blocks.0.w": blocks[0], "blocks.1.w": blocks[1][:1]}
    assert "`blocks.1.w` is not like `blocks.0.w`, and no stack can be made of them" in refused(tmp_path, arrays).notes


def test_which_record_is_meant(tmp_path: Path) -> None:
    found = refused(tmp_path, whole(), "two")
    assert (found.code, found.message) == ("AX0505", '`two` takes 2 records: say which, parameter="p"')
    assert refused(tmp_path, whole(), "none").message == "`none` takes no record"
    assert refused(tmp_path, whole(), "two", parameter="r").message.startswith("`two` has no parameter `r` that is a record")
    arrays = {"w": np.zeros((3, 2), np.float32), "b": np.zeros(2, np.float32)}
    q = axon.load_weights(stored(tmp_path / "q.safetensors", arrays), axon.compile(PROGRAM).two, "q")
    assert q["w"].shape == (3, 2)


def test_what_is_no_function() -> None:
    with pytest.raises(TypeError, match=r"takes a function of a module, not Module: say which, such as `m\.\w+`"):
        axon.load_weights("m.safetensors", axon.compile(PROGRAM))  # type: ignore[arg-type]
