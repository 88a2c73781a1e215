"""The arguments of `axon run`."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon.base.errors import AxonError
from axon.base.output import save_arrays
from axon.host.command_arguments import parse_arguments


def parse(*texts: str, seed: int = 0) -> dict[str, Any]:
    return parse_arguments(list(texts), seed)


def refused(*texts: str) -> str:
    with pytest.raises(AxonError) as caught:
        parse(*texts)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "AX0508"
    return str(caught.value)


def test_numbers() -> None:
    assert parse("a=3", "b=-3.5", "c=1e-3", "d=true", "e=false", "f=1_000") == {
        "a": 3, "b": -3.5, "c": 1e-3, "d": True, "e": False, "f": 1000,
    }  # fmt: skip
    values = parse("a=inf", "b=-inf", "c=nan")
    assert values["a"] == np.inf
    assert values["b"] == -np.inf
    assert np.isnan(values["c"])


def test_structures() -> None:
    assert parse("t=(1, 2.0)", "l=[[1, 2], [3, 4]]", "p={w = [1.0], inner = {b = 2}}", "u=()", "e=[]") == {
        "t": (1, 2.0), "l": [[1, 2], [3, 4]], "p": {"w": [1.0], "inner": {"b": 2}}, "u": (), "e": [],
    }  # fmt: skip
    assert parse("p.w=1", "p.inner.b=2", "p.inner.c=3") == {"p": {"w": 1, "inner": {"b": 2, "c": 3}}}


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("x=randn(f32[2, 3])", "float32", (2, 3)),
        ("x=randn( bf16 [ 2 ] )", "bfloat16", (2,)),
        ("x=uniform(f64[0])", "float64", (0,)),
        ("x=randint(u8[5], 10)", "uint8", (5,)),
        ("x=zeros(bool[2])", "bool", (2,)),
        ("x=ones(i64[2, 2])", "int64", (2, 2)),
        ("x=full(f16[3], -2.5)", "float16", (3,)),
        ("x=arange(i32[2, 3])", "int32", (2, 3)),
        ("x=randn(f32)", "float32", ()),
    ],
)
def test_made_arrays(text: str, dtype: str, shape: tuple[int, ...]) -> None:
    array = parse(text)["x"]
    assert (array.dtype.name, array.shape) == (dtype, shape)


def test_the_seed_decides() -> None:
    a, b, c = (parse("x=randn(f32[4])", "y=randn(f32[4])", seed=seed) for seed in (0, 0, 1))
    assert (a["x"] == b["x"]).all()
    assert not (a["x"] == c["x"]).any()
    assert not (a["x"] == a["y"]).any()
    assert (parse("x=randint(i32[1000], 3)")["x"] < 3).all()


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(3, dtype=np.float32))
    np.save("with space.npy", np.ones(2))
    assert parse("x=a.npy")["x"].tolist() == [0, 1, 2]
    assert parse("x=with space.npy")["x"].tolist() == [1, 1]
    assert parse("p={w = a.npy, b = 1}")["p"]["w"].tolist() == [0, 1, 2]


def test_bad_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "exploded",)

    np.save("objects.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    Path("raw.npy").write_bytes(pickle.dumps(Bomb()))
    Path("empty.npy").write_bytes(b"")
    np.save("complex.npy", np.ones(2, complex))
    np.save("text.npy", np.array(["a"]))
    np.save("short.npy", np.ones(1000))
    Path("short.npy").write_bytes(Path("short.npy").read_bytes()[:200])
    Path("folder.npy").mkdir()
    header = b"{" + b" " * 20_000 + b"}"
    Path("long.npy").write_bytes(b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header)
    assert "header is too long" in refused("x=long.npy")
    assert "pickled" in refused("x=objects.npy")
    for name in ("raw", "empty", "complex", "text", "short", "folder", "missing"):
        refused(f"x={name}.npy")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "NAME=VALUE"),
        ("=3", "NAME=VALUE"),
        ("a b=3", "NAME=VALUE"),
        ("x=", "ends too early"),
        ("x=[1, 2", "ends too early"),
        ("x=randn(", "ends too early"),
        ("x=randn(f32[3", "ends too early"),
        ("x=hello", "`hello` is not a value"),
        ("x=[hello", "`hello` is not a value"),
        ("x=True", "did you mean `true`?"),
        ("x=Inf", "did you mean `inf`?"),
        ("x=1e400", "for infinity write `inf`"),
        ("x=full(f32[2], -1e400)", "for infinity write `inf`"),
        ("x=1 2", "not expected"),
        ("x=[1; 2]", "not expected"),
        ("x={w}", "not expected"),
        ("x=__import__('os')", "makes no arrays"),
        ("x=rand(f32[2])", "did you mean `randn`?"),
        ("x=randn(float32[2])", "not an element type"),
        ("x=ones(3, 4)", "sizes follow an element type: `f32[3, 4]`"),
        ("x=randn(f32[n])", "not a size"),
        ("x=randn(f32[-1])", "not a size"),
        ("x=randn(i32[2])", "makes floats"),
        ("x=randint(i32[2])", "randint(i32[32], 10)"),
        ("x=randint(i32[2], 0)", "an integer from 1"),
        ("x=randint(i32[2], 2.5)", "an integer from 1"),
        ("x=randint(i8[300], 1000)", "i8 holds -128 to 127, not"),
        ("x=full(u8[2], -1)", "u8 holds 0 to 255, not -1"),
        ("x=full(i32[2], 2.9)", "i32 holds integers, and 2.9 is none"),
        ("x=full(i32[2], nan)", "i32 holds integers, and nan is none"),
        ("x=full(i64[1], 9223372036854775808)", "i64 holds"),
        ("x=full(f16[2], 1e6)", "f16 does not hold 1000000.0"),
        ("x=full(f8e4m3[2], inf)", "f8e4m3 does not hold inf"),
        ("x=full(bool[2], 2)", "a bool is `true` or `false`"),
        ("x=full(f32[2], x)", "`full` is written"),
        ("x=arange(i8[300])", "i8 holds -128 to 127, not 299"),
        ("x=ones(f32[99999999, 99999999])", "too large"),
        ("x=" + "[" * 100_000, "32 levels"),
        ("x=" + "9" * 100_000, "400 characters"),
        ("x=\x00\x1b[31m", "not expected"),
    ],
)
def test_what_is_not_an_argument(text: str, words: str) -> None:
    rendered = refused(text)
    assert words in rendered
    assert "\x1b" not in rendered


def test_twice() -> None:
    assert "given twice" in refused("x=1", "x=2")
    assert "given twice" in refused("p=1", "p.w=2")
    assert "given twice" in refused("p.w=1", "p=2")


def test_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `--out` writes is read as what it was; so is what NumPy writes without names."""
    monkeypatch.chdir(tmp_path)
    one, two = np.arange(3, dtype=np.float32), np.ones((2, 2), np.int32)
    for value in ((one, two), {"w": one, "b": (two, one)}, {"up": {"w": one}, "down": two}):
        save_arrays("saved.npz", value)
        _same(parse("p=saved.npz")["p"], value)
        _same(parse("p={inner = saved.npz, n = 2.e1}")["p"], {"inner": value, "n": 20.0})
    np.savez("positions.npz", one, two)
    _same(parse("x=positions.npz")["x"], (one, two))
    np.savez_compressed("single.npz", one)
    _same(parse("x=single.npz")["x"], one)
    np.savez("empty.npz")
    assert parse("x=empty.npz")["x"] == {}

    np.savez("both.npz", **{"a": one, "a.b": two})
    assert "`a` is an array there, and `a.b` a field of it" in refused("x=both.npz")
    np.savez("odd.npz", a=np.ones(2, complex))
    assert "`a` of `odd.npz` holds complex128" in refused("x=odd.npz")
    Path("cut.npz").write_bytes(Path("both.npz").read_bytes()[:150])
    Path("text.npz").write_text("hello")
    for name in ("cut", "text", "missing"):
        assert f"cannot read `{name}.npz`" in refused(f"x={name}.npz")
    for text in ("x=data.txt", "x=[data.txt]", "x={a = model.pt}"):
        assert "is neither a .npy nor a .npz file" in refused(text)


def _same(got: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):
        assert got.keys() == wanted.keys()
        for name in wanted:
            _same(got[name], wanted[name])
    elif isinstance(wanted, tuple):
        assert isinstance(got, tuple)
        for mine, right in zip(got, wanted, strict=True):
            _same(mine, right)
    else:
        np.testing.assert_array_equal(got, wanted, strict=True)
