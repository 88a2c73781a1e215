"""Axon: a functional tensor language with inferred types and shapes.

    import axon
    m = axon.load("attention.axon")          # Module; raises AxonError, whose str() is the rendered text
    m = axon.compile("fun f x = x + 1.0")    # from text
    m.f(x), m.f.signature, m.split[8](x)     # NumPy arrays in and out; explicit dimension parameters in brackets
    axon.load_weights("gpt2.safetensors", m.gpt2)   # the record that a function takes, from a file
    m.f.sizes, m.f.solve(out=(8, 64)), m.f.cost()   # sizes as SymPy has them; which give a result; what a call costs
    axon.register(m, "model")                # functions as torch.ops.axon.model_f, by these names wherever it is loaded
    axon.nn.Module(m.f, "p", {"d": 8})       # a torch.nn.Module with the fields of the record `p` as parameters
    axon.shard(m.f, mesh, {"b": "data"})     # the function over several devices, its size b cut over an axis of the mesh
    axon.infer(m.schools, {"y": y, "sigma": sigma}) # a model's posterior, as ArviZ's InferenceData
    axon.check("fun f x = y")                # list[Diagnostic]; never raises on bad input

The map of the architecture; data flows one way, and each arrow is one folder (docs/architecture.md draws it and walks through it):

    source text -> syntax                    grammar     parse, build, format
                -> typed                     types       names, element types, ranks and functions; blind to sizes
                -> shaped                    shapes      dimension constraints: proved, refuted, or put into the contract
                -> core                      lower       monomorphic first-order tensor operations (core, core.passes)
                -> values                    interpret   the meaning of core, in NumPy
                -> kernels                   backend     plans, then machine code: cpu, gpu

`checker` runs the phases up to `shaped` over a module and its imports; `explain` words what is wrong, `suggest` proposes changes.
`compiler` is the only module that knows every phase. `host` is Python's side, `tools` are the command line, the prompt, editors.
`base` is the vocabulary that all share.

Importing this package loads nothing heavy: SymPy, Lark and NumPy wait until they are first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axon import nn as nn
    from axon.base.diagnostics import Diagnostic
    from axon.base.errors import AxonError, ShapeError
    from axon.host.inference.run import infer
    from axon.host.models import Model
    from axon.host.module import Function, Module, check, compile, load, register, shard, synchronize
    from axon.host.traced import jax_targets
    from axon.host.weights import load_weights

__version__ = "0.1.0"
__all__ = [
    "AxonError", "Diagnostic", "Function", "Model", "Module", "ShapeError", "check", "compile", "infer", "jax_targets", "load",
    "load_weights", "register", "shard", "synchronize",
]  # fmt: skip

_HOME = {
    "AxonError": "base.errors", "Diagnostic": "base.diagnostics", "ShapeError": "base.errors",
    "Function": "host.module", "Model": "host.models", "Module": "host.module",
    "check": "host.module", "compile": "host.module", "load": "host.module", "register": "host.module",
    "infer": "host.inference.run", "shard": "host.module", "synchronize": "host.module",
    "load_weights": "host.weights", "jax_targets": "host.traced",
    "load_ipython_extension": "tools.notebook", "unload_ipython_extension": "tools.notebook",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first used (PEP 562)."""
    from importlib import import_module

    if name == "nn":
        return import_module("axon.nn")  # which becomes an attribute of this package
    if name not in _HOME:
        raise AttributeError(f"module 'axon' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"axon.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "nn"})
