"""Models exported from PyTorch here and now, imported, and run: what ONNX Runtime makes of the same file is what comes out.

`test_models.py` asks the same of exports that are kept, without PyTorch, and shows their texts. These are whatever exporter is
installed, and weights as the libraries begin them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import axon
from axon.tools.onnx.importing import imported
from tests.tools.onnx.filling import SIZES, inputs

MISSING = [p for p in ("torch", "onnxruntime", "onnxscript", "torchvision", "transformers") if find_spec(p) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"exporting needs {', '.join(MISSING)}: pip install '.[models]'")


@pytest.fixture(scope="module")
def export() -> ModuleType:
    """Imported by who exports: it takes seconds."""
    return import_module("tests.tools.onnx.export")


@pytest.mark.filterwarnings("ignore")  # the exporter's
@pytest.mark.parametrize("name", SIZES)
def test_export(name: str, export: ModuleType, tmp_path: Path) -> None:
    model = export.export(name)
    (tmp_path / f"{name}.onnx").write_bytes(model.SerializeToString())
    found = imported(str(tmp_path / f"{name}.onnx"))
    found.save(tmp_path / f"{name}.axon")
    function = axon.load(tmp_path / f"{name}.axon")[name]
    weights = axon.load_weights(tmp_path / f"{name}.safetensors", function)

    for size in SIZES[name][0]:  # those that are open in the export are sizes of the signature
        assert size in {str(symbol) for symbol in function.sizes.symbols.values()}, function.signature
    assert "val_" not in found.text, "a value that nobody has named"
    code = [line for line in found.text.splitlines() if line and not line.startswith(("(*", "import"))]
    assert len(code) < max(len(model.graph.node), 60), "shapes of the graph are left"

    for sizes in SIZES[name]:
        given = inputs(model, sizes)
        made = function(weights, *given.values(), target="interpret")
        wanted = export.expected(model, given)
        for result, same in zip(made if isinstance(made, tuple) else (made,), wanted, strict=True):
            assert np.ptp(same) > 0.01, "a model that gives nothing tells nothing"
            np.testing.assert_allclose(result, same, rtol=0, atol=1e-4 * max(1.0, np.abs(same).max()))
