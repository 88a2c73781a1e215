"""`axon new NAME`: a project with a module, tests that pass as they are, and what Python's tools need to know."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.output import write_text

MODULE = """\
(* A layer of a perceptron, and how far it is from what it should say. The lines that begin with >>> are tests: `axon test`. *)
type layer[d, k] = { w : f32[d, k], b : f32[k] }

(* >>> predict { w = [| [| 1.0 |], [| 2.0 |] |], b = [| 0.5 |] } [| [| 3.0, 4.0 |] |]
   [| [| 11.5 |] |] *)
fun predict (p : layer[d, k]) (x : f32[n, d]) = x @ p.w + p.b

(* The mean of the squares of what is wrong. *)
fun loss (p : layer[d, k]) (x : f32[n, d]) (y : f32[n, k]) =
  let val off = predict p x - y in (sum i j => off[i, j] ** 2.0) / cast f32 (n * k) end
"""

PACKAGE = '''\
"""What `model.axon` declares, for Python: `from {package} import model`, then `model.predict(p, x)`."""

from pathlib import Path

import axon

model = axon.load(Path(__file__).with_name("model.axon"))
'''

TESTS = """\
import subprocess
import sys
from pathlib import Path

import axon
import numpy as np
import pytest

import {package}
from {package} import model

rng = np.random.default_rng(0)
p = {{"w": rng.standard_normal((3, 2), np.float32), "b": rng.standard_normal(2, np.float32)}}
x = rng.standard_normal((8, 3), np.float32)


def test_predict() -> None:
    np.testing.assert_allclose(model.predict(p, x), x @ p["w"] + p["b"], rtol=1e-5, atol=1e-5)


def test_sizes_are_checked() -> None:
    with pytest.raises(axon.ShapeError, match="is 2, and must be 3"):
        model.predict(p, x[:, :2])


def test_the_derivative_leads_downhill() -> None:
    before, slope = model.loss.value_and_grad("p")(p, x, np.zeros((8, 2), np.float32))
    step = {{name: p[name] - np.float32(0.01) * slope[name] for name in p}}
    assert model.loss(step, x, np.zeros((8, 2), np.float32)) < before


def test_the_examples_in_comments() -> None:
    folder = Path({package}.__file__).parent
    subprocess.run([sys.executable, "-m", "axon", "test", folder], check=True)
"""

PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.24"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["numpy"]  # and Axon, which is installed from a clone of its repository

[project.optional-dependencies]
dev = ["pytest"]

[tool.hatch.build.targets.wheel]
packages = ["{package}"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
"""

README = """\
# {name}

`{package}/model.axon` is the program, `{package}/__init__.py` makes it a module of Python:

```python
from {package} import model
```

```sh
axon check {package}            # what is wrong with it; axon watch {package}: on every save
axon sig {package}/model.axon   # what was inferred
axon test {package}             # the examples in comments
axon stub {package}/model.axon  # types for type checkers of Python
pip install -e '.[dev]'
python -m pytest  # the tests in Python
axon bench {package}/model.axon:predict "p.w=randn(f32[d, k])" "p.b=randn(f32[k])" "x=randn(f32[n, d])" n=64,256,1024 d=128 k=64
```
"""

IGNORED = "__pycache__/\n.pytest_cache/\ndist/\n.venv/\n"


def create(folder: Path) -> Iterator[Path]:
    """Make the project, and give its files as they are written. Raises AxonError where something is there already."""
    name = folder.resolve().name
    package = re.sub(r"\W|-", "_", name).lower()
    if keyword.iskeyword(package):
        raise _wrong(f"`{name}` can be no module of Python", "it is a word of the language")
    if not package.isascii() or not package.isidentifier():
        raise _wrong(f"`{name}` can be no module of Python", "its name begins with a letter, and has ASCII's letters and digits")
    if package in sys.stdlib_module_names or package in ("axon", "numpy", "tests", "torch", "jax", "cupy", "pytest"):
        raise _wrong(f"Python, or what a project may import, has a module `{package}` already", "give the project another name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise _wrong(f"`{folder}` is there already", "nothing was written")
    texts = {
        Path("README.md"): README.format(name=name, package=package),
        Path("pyproject.toml"): PYPROJECT.format(name=re.sub(r"[^A-Za-z0-9]+", "-", package).strip("-"), package=package),
        Path(".gitignore"): IGNORED,
        Path(package, "__init__.py"): PACKAGE.format(package=package),
        Path(package, "model.axon"): MODULE,
        Path("tests", "test_model.py"): TESTS.format(package=package),
    }
    for place, text in texts.items():
        file = folder / place
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _wrong(f"cannot write `{file}`", error.strerror or str(error)) from None
        write_text(file, text)
        yield file


def _wrong(message: str, note: str) -> AxonError:
    return AxonError((Diagnostic("AX0408", message, notes=(note,)),))
